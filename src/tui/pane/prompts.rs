//! The prompts of all servers or of one.

use super::catalog::{Entry, Kind, description, head};
use super::tools::tokens;
use crate::base::ServerName;
use crate::host::ServerView;
use crate::mcp::capabilities::{Capabilities, ListKind};
use crate::tui::ink::ink;
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// The prompts pane.
pub const KIND: Kind = Kind {
    scopes: &[Scope::Prompts, Scope::List],
    noun: "prompt",
    number: "tokens",
    build,
    detail,
};

fn build(_: &ServerView, capabilities: &Capabilities, entries: &mut Vec<Entry>) {
    for prompt in &capabilities.prompts {
        let mut note = ink!("(");
        for (n, argument) in prompt.arguments.iter().enumerate() {
            let comma: &'static str = if n > 0 { ", " } else { "" };
            let optional: &'static str = if argument.required { "" } else { "?" };
            note.push(ink!("{}{}{}", comma, &argument.label, optional));
        }
        note.push(")");
        entries.push(Entry {
            server: ServerName::new(""),
            list: ListKind::Prompts,
            wire: prompt.name.clone(),
            label: prompt.label.clone(),
            note,
            marks: ink!(""),
            number: ink!("{}", tokens(&prompt.raw)),
            size: tokens(&prompt.raw) as u64,
            names: prompt.title.as_deref().unwrap_or_default().to_owned(),
            description: prompt.description.clone(),
            raw: prompt.raw.clone(),
            change: None,
            unavailable: None,
        });
    }
}

fn detail(entry: &Entry, server: &ServerView, _: &Model, doc: &mut Doc) {
    let prompts = &server.capabilities.prompts;
    let Some(prompt) = prompts.iter().find(|prompt| prompt.name == entry.wire) else { return };
    head(entry, prompt.title.as_ref(), doc);
    doc.line(vec![(Model::name(&entry.server), Role::Muted)]);
    description(prompt.description.as_ref(), doc);
    doc.heading("arguments");
    if prompt.arguments.is_empty() {
        doc.text(2, &"none", Role::Faint);
    }
    for argument in &prompt.arguments {
        let star: &'static str = if argument.required { " *" } else { "" };
        doc.line(vec![
            (ink!("  {}", &argument.label), Role::JsonKey),
            (ink!("{}", star), Role::Warning),
        ]);
        if let Some(words) = &argument.description {
            doc.text(4, words, Role::Foreign);
        }
    }
}
