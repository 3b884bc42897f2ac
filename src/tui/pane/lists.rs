//! How the three catalogues list and describe entries: tools, resources with their templates,
//! prompts.

use super::catalog::{CatalogEntry, CatalogKind};
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::prelude::*;
use crate::widget::Doc;
use host::ServerView;
use protocol::{ListKind, Tool};
use schema::{SchemaDocument, SchemaLine, signature, tree};

/// The tools pane.
pub const TOOLS: CatalogKind = CatalogKind {
    scopes: &[KeyScope::Tools, KeyScope::List],
    noun: "tool",
    number: "tokens",
    build: tools,
    detail: tool_detail,
};

/// The resources pane.
pub const RESOURCES: CatalogKind = CatalogKind {
    scopes: &[KeyScope::Resources, KeyScope::List],
    noun: "resource",
    number: "size",
    build: resources,
    detail: resource_detail,
};

/// The prompts pane.
pub const PROMPTS: CatalogKind = CatalogKind {
    scopes: &[KeyScope::Prompts, KeyScope::List],
    noun: "prompt",
    number: "tokens",
    build: prompts,
    detail: prompt_detail,
};

/// Estimated cost of an entry in a model's context: four bytes per token.
fn tokens(raw: &Value) -> usize {
    raw.to_string().len().div_ceil(4)
}

/// The head of every detail: name, title, why the entry cannot be used.
fn head(entry: &CatalogEntry, title: Option<&SafeText>, doc: &mut Doc) {
    doc.line(vec![(Ink::from(&entry.label), Role::Heading)]);
    if let Some(title) = title.filter(|title| **title != entry.label) {
        doc.text(0, title, Role::Foreign);
    }
    if let Some(reason) = &entry.unavailable {
        doc.text(0, reason, Role::Error);
    }
}

/// A description, set apart from our own words.
fn description(text: Option<&SafeText>, doc: &mut Doc) {
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        doc.gap();
        doc.text(0, text, Role::Foreign);
    }
}

fn tools(server: &ServerView) -> Vec<CatalogEntry> {
    let entry = |tool: &Tool, tokens: usize| CatalogEntry {
        note: Ink::line(&signature(&SchemaDocument::written(
            &tool.input_schema,
            &tool.raw.numbers.below("/inputSchema"),
        ))),
        marks: marks(tool),
        is_destructive: is_destructive(tool),
        number: ink!("{}", tokens),
        size: tokens as u64,
        names: format!("{} {}", tool.title.as_deref().unwrap_or_default(), server.name),
        description: tool.description.clone(),
        ..CatalogEntry::new(server, ListKind::Tools, &tool.name, &tool.label, &tool.raw)
    };
    server.capabilities.tools.iter().map(|tool| entry(tool, tokens(&tool.raw))).collect()
}

fn marks(tool: &Tool) -> Ink {
    let manner = tool.hints.manner();
    match (manner, tool.app()) {
        ("", Some(_)) => ink!("app"),
        (manner, Some(_)) => ink!("{} app", manner),
        (manner, None) => ink!("{}", manner),
    }
}

/// Whether its marks say so.
fn is_destructive(tool: &Tool) -> bool {
    tool.hints.read_only != Some(true) && tool.hints.destructive == Some(true)
}

fn tool_detail(entry: &CatalogEntry, server: &ServerView, model: &Model, doc: &mut Doc) {
    let mut tools = server.capabilities.tools.iter();
    let Some(tool) = tools.find(|tool| tool.name == entry.wire) else { return };
    head(entry, tool.title.as_ref(), doc);
    let size = tool.raw.to_string().len();
    let name = Model::name(&entry.server);
    doc.text(0, &ink!("{}   about {} tokens", name, size.div_ceil(4)), Role::Muted);
    hints(tool, doc);
    if let Some(uri) = tool.app() {
        let only: &'static str =
            if tool.is_for_models() { "" } else { "; models are not offered it" };
        doc.text(0, &ink!("app {}{}", Ink::line(uri), only), Role::Muted);
    }
    if let Some(breaker) = server.tool_breakers.get(&tool.label) {
        super::servers::breaker_line(breaker, model, doc);
    }
    description(tool.description.as_ref(), doc);
    doc.heading("input");
    let written = |schema: &Arc<Value>, key: &str| {
        SchemaDocument::written(schema, &tool.raw.numbers.below(key))
    };
    members(&written(&tool.input_schema, "/inputSchema"), "no parameters", doc);
    if let Some(schema) = &tool.output_schema {
        doc.heading("output");
        members(&written(schema, "/outputSchema"), "no members", doc);
    }
}

/// The members of a schema as a tree.
fn members(schema: &SchemaDocument, none: &'static str, doc: &mut Doc) {
    if let Some(note) = schema.draft_note() {
        doc.text(2, &Ink::line(note), Role::Faint);
    }
    let (lines, is_cut) = tree(schema);
    if lines.is_empty() {
        doc.text(2, &none, Role::Faint);
    }
    for line in &lines {
        member(line, doc);
    }
    if is_cut {
        doc.text(2, &ink!("..."), Role::Faint);
    }
}

fn member(line: &SchemaLine, doc: &mut Doc) {
    let indent = line.depth.max(1) * 2;
    let star: &'static str = if line.required { " *" } else { "" };
    let mut parts = vec![(ink!("{:1$}", "", indent), Role::Text)];
    match (line.name.as_str(), line.depth) {
        ("", 0) => {}
        ("", _) => parts.push((ink!("other keys  "), Role::Muted)),
        (name, _) => parts.extend([
            (Ink::line(name), Role::JsonKey),
            (ink!("{}", star), Role::Warning),
            (ink!("  "), Role::Text),
        ]),
    }
    let facts = line.facts.iter();
    let facts = facts.map(|(key, text)| (ink!("{} {}", *key, Ink::line(text)), Role::Faint));
    let kind = (Ink::line(&line.kind), Role::Muted);
    doc.flow(parts, std::iter::once(kind).chain(facts), (indent + 2) as u16);
    if let Some(words) = &line.description {
        doc.text((indent + 2) as u16, &SafeText::block(words), Role::Foreign);
    }
}

fn hints(tool: &Tool, doc: &mut Doc) {
    let words: Vec<&str> = tool.hints.words().collect();
    if !words.is_empty() {
        doc.text(0, &Ink::line(&format!("annotations: {}", words.join(", "))), Role::Muted);
    }
}

fn resources(server: &ServerView) -> Vec<CatalogEntry> {
    let lists = &server.capabilities;
    let names = |name: &SafeText, title: Option<&SafeText>| {
        format!("{name} {} {}", title.map_or("", SafeText::as_str), server.name)
    };
    let resources = lists.resources.iter().map(|one| CatalogEntry {
        note: Ink::from(one.title.as_ref().unwrap_or(&one.name)),
        size: one.size.unwrap_or_default(),
        number: one.size.map_or_else(Ink::default, |size| ink!("{}", Bytes(size))),
        names: names(&one.name, one.title.as_ref()),
        description: one.description.clone(),
        ..CatalogEntry::new(server, ListKind::Resources, &one.uri, &one.label, &one.raw)
    });
    let templates = lists.templates.iter().map(|one| CatalogEntry {
        note: Ink::from(one.title.as_ref().unwrap_or(&one.name)),
        marks: ink!("template"),
        names: names(&one.name, one.title.as_ref()),
        description: one.description.clone(),
        ..CatalogEntry::new(server, ListKind::ResourceTemplates, &one.uri, &one.label, &one.raw)
    });
    resources.chain(templates).collect()
}

fn resource_detail(entry: &CatalogEntry, server: &ServerView, _: &Model, doc: &mut Doc) {
    let lists = &server.capabilities;
    let resource = lists.resources.iter().find(|r| r.uri == entry.wire);
    let template = lists.templates.iter().find(|t| t.uri == entry.wire);
    let known = match (entry.list, resource, template) {
        (ListKind::Resources, Some(one), _) => {
            Some((&one.title, &one.name, &one.mime_type, one.size, &one.description))
        }
        (_, _, Some(one)) => Some((&one.title, &one.name, &one.mime_type, None, &one.description)),
        _ => None,
    };
    if let Some((title, name, mime, size, words)) = known {
        head(entry, title.as_ref(), doc);
        doc.gap();
        doc.field("server", Model::name(&entry.server), Role::Text);
        doc.field("name", name, Role::Foreign);
        doc.field_if("type", mime.as_ref(), Role::Text);
        doc.field_if("size", size.map(|size| ink!("{}", Bytes(size))), Role::Text);
        description(words.as_ref(), doc);
    }
    doc.heading("as sent").written(0, &entry.raw);
}

fn prompts(server: &ServerView) -> Vec<CatalogEntry> {
    let prompts = server.capabilities.prompts.iter().map(|prompt| {
        let mut note = ink!("(");
        for (n, argument) in prompt.arguments.iter().enumerate() {
            let comma: &'static str = if n > 0 { ", " } else { "" };
            let optional: &'static str = if argument.required { "" } else { "?" };
            note.push(ink!("{}{}{}", comma, &argument.label, optional));
        }
        note.push(")");
        CatalogEntry {
            note,
            number: ink!("{}", tokens(&prompt.raw)),
            size: tokens(&prompt.raw) as u64,
            names: format!("{} {}", prompt.title.as_deref().unwrap_or_default(), server.name),
            description: prompt.description.clone(),
            ..CatalogEntry::new(server, ListKind::Prompts, &prompt.name, &prompt.label, &prompt.raw)
        }
    });
    prompts.collect()
}

fn prompt_detail(entry: &CatalogEntry, server: &ServerView, _: &Model, doc: &mut Doc) {
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
