//! The tools of two servers side by side in one text: what differs in those of the same name, and
//! what one of them alone has. Two versions of a server, or two servers for the same thing.

use std::collections::HashMap;

use crate::model::Model;
use crate::overlay::TextReader;
use crate::pane::Ui;
use crate::pick::{Choice, Pick};
use crate::prelude::*;
use crate::widget::{Doc, WordBudget, changed};
use host::ServerView;
use protocol::{Tool, every_written_difference};
use schema::{SchemaDocument, signature};

/// Most fields of one tool that are shown.
const MAX_SHOWN_FIELDS: usize = 24;

/// A page with the tools of two servers.
pub fn reader(one: ServerName, other: ServerName) -> TextReader {
    let title = ink!("tools of \"{}\" and \"{}\"", Model::name(&one), Model::name(&other));
    TextReader::live(title, move |ui| compared(ui, &one, &other))
}

/// What the tools of a server can be compared with: those of the others, and the lock file.
pub fn choices(model: &Model, server: &ServerName) -> Vec<Choice> {
    let others = model.view.servers.values().filter(|other| other.name != *server);
    let offering = others.filter(|other| !other.capabilities.tools.is_empty());
    let mut choices: Vec<Choice> = offering
        .map(|other| {
            let tools = count(other.capabilities.tools.len(), "tool");
            let pick = Pick::Compared(server.clone(), Some(other.name.clone()));
            Choice::new(Model::name(&other.name), ink!("{}", tools), pick)
        })
        .collect();
    let words = ink!("mcp.lock.json, or a recording");
    choices.push(Choice::new(
        words,
        ink!("what changed since"),
        Pick::Compared(server.clone(), None),
    ));
    choices
}

fn compared(ui: Ui<'_>, one: &ServerName, other: &ServerName) -> Doc {
    let mut doc = Doc::new(ui.area.width);
    let (Some(one), Some(other)) = (ui.model.server(one), ui.model.server(other)) else {
        doc.text(0, &"one of the two servers is no longer there", Role::Muted);
        return doc;
    };
    let mut rest: HashMap<&str, &Tool> = tools(other).map(|tool| (&*tool.name, tool)).collect();
    let pairs: Vec<(&Tool, Option<&Tool>)> =
        tools(one).map(|tool| (tool, rest.remove(&*tool.name))).collect();
    let twins = pairs.iter().filter_map(|(tool, twin)| Some((*tool, (*twin)?)));
    let (same, differing): (Vec<_>, Vec<_>) = twins.partition(|(tool, twin)| tool.raw == twin.raw);
    let alone: Vec<&Tool> =
        pairs.iter().filter(|(_, twin)| twin.is_none()).map(|(t, _)| *t).collect();
    let new: Vec<&Tool> = tools(other).filter(|tool| rest.contains_key(&*tool.name)).collect();
    let summary = ink!(
        "{} and {}; {} the same name, {} of them the same definition",
        count(pairs.len(), "tool"),
        tools(other).count(),
        have(same.len() + differing.len()),
        same.len()
    );
    doc.text(0, &summary, Role::Text);
    doc.line(vec![
        (ink!("- {}", Model::name(&one.name)), Role::Removed),
        (ink!("   + {}", Model::name(&other.name)), Role::Added),
    ]);
    let mut budget = WordBudget::default();
    for (tool, twin) in &differing {
        doc.heading(&tool.label);
        let fields = every_written_difference(&tool.raw, &twin.raw);
        for field in fields.iter().take(MAX_SHOWN_FIELDS) {
            changed(field, &[], ui.glyphs, &mut budget, &mut doc);
        }
        let more = fields.len().saturating_sub(MAX_SHOWN_FIELDS);
        if more > 0 {
            doc.text(0, &ink!("and {}", count(more, "more field")), Role::Muted);
        }
    }
    listed(&ink!("only \"{}\"", Model::name(&one.name)), ("-", Role::Removed), &alone, &mut doc);
    listed(&ink!("only \"{}\"", Model::name(&other.name)), ("+", Role::Added), &new, &mut doc);
    let same: Vec<&Tool> = same.into_iter().map(|(tool, _)| tool).collect();
    listed(&ink!("the same in both"), (" ", Role::Muted), &same, &mut doc);
    doc
}

fn tools(server: &ServerView) -> impl Iterator<Item = &Tool> {
    server.capabilities.tools.iter().map(|tool| &**tool)
}

fn have(number: usize) -> Ink {
    if number == 1 { ink!("1 has") } else { ink!("{} have", number) }
}

/// Tools with what they take, a line each.
fn listed(heading: &Ink, (sign, role): (&'static str, Role), tools: &[&Tool], doc: &mut Doc) {
    if tools.is_empty() {
        return;
    }
    doc.heading(heading.clone());
    for tool in tools {
        let takes = Ink::line(&signature(&SchemaDocument::written(
            &tool.input_schema,
            &tool.raw.numbers.below("/inputSchema"),
        )));
        doc.line(vec![(ink!("{} {} ", sign, &tool.label), role), (takes, Role::Muted)]);
    }
}
