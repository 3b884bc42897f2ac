//! The tools of all servers or of one: signature, schema, hints, what they cost, what changed.

use super::catalog::{Entry, Kind, description, head};
use crate::base::ServerName;
use crate::host::ServerView;
use crate::mcp::capabilities::{Capabilities, ListKind, Tool, ToolHints};
use crate::tui::ink::{Bytes, Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::schema_text;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// The tools pane.
pub const KIND: Kind =
    Kind { scopes: &[Scope::Tools, Scope::List], noun: "tool", number: "tokens", build, detail };

/// A guess at what an entry costs a model's context: four bytes to a token.
pub fn tokens(raw: &serde_json::Value) -> usize {
    raw.to_string().len().div_ceil(4)
}

fn build(_: &ServerView, capabilities: &Capabilities, entries: &mut Vec<Entry>) {
    for tool in &capabilities.tools {
        let note = schema_text::signature(&tool.input_schema);
        entries.push(Entry {
            server: ServerName::new(""),
            list: ListKind::Tools,
            wire: tool.name.clone(),
            label: tool.label.clone(),
            names: tool.title.as_deref().unwrap_or_default().to_owned(),
            description: tool.description.clone(),
            note,
            marks: marks(tool.hints),
            number: ink!("{}", tokens(&tool.raw)),
            size: tokens(&tool.raw) as u64,
            raw: tool.raw.clone(),
            change: None,
            unavailable: None,
        });
    }
}

fn marks(hints: ToolHints) -> Ink {
    match (hints.read_only, hints.destructive) {
        (Some(true), _) => ink!("read-only"),
        (_, Some(true)) => ink!("destructive"),
        (Some(false), Some(false)) => ink!("additive"),
        _ => ink!(""),
    }
}

fn find<'a>(server: &'a ServerView, entry: &Entry) -> Option<&'a Tool> {
    server.capabilities.tools.iter().find(|tool| tool.name == entry.wire).map(|tool| &**tool)
}

fn detail(entry: &Entry, server: &ServerView, model: &Model, doc: &mut Doc) {
    let Some(tool) = find(server, entry) else { return };
    head(entry, tool.title.as_ref(), doc);
    let size = tool.raw.to_string().len();
    doc.line(vec![
        (Model::name(&entry.server), Role::Muted),
        (
            ink!("   about {} tokens of context ({})", size.div_ceil(4), Bytes(size as u64)),
            Role::Muted,
        ),
    ]);
    hints(tool, doc);
    if let Some(breaker) = server.tool_breakers.get(&tool.label) {
        super::servers::breaker_line(breaker, model, doc);
    }
    description(tool.description.as_ref(), doc);
    doc.heading("input");
    schema_text::tree(&tool.input_schema, doc);
    if let Some(schema) = &tool.output_schema {
        doc.heading("output");
        schema_text::tree(schema, doc);
    }
}

fn hints(tool: &Tool, doc: &mut Doc) {
    let words: [(Option<bool>, &'static str, &'static str); 4] = [
        (tool.hints.read_only, "read-only", "not read-only"),
        (tool.hints.destructive, "destructive", "not destructive"),
        (tool.hints.idempotent, "idempotent", "not idempotent"),
        (tool.hints.open_world, "open world", "closed world"),
    ];
    let said: Vec<&'static str> = words
        .iter()
        .filter_map(|(hint, yes, no)| hint.map(|h| if h { *yes } else { *no }))
        .collect();
    if !said.is_empty() {
        doc.text(0, &Ink::line(&format!("annotations: {}", said.join(", "))), Role::Muted);
    }
}
