//! The prompts of all servers or of one.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::catalog::{Catalog, Entry, description, head};
use super::tools::tokens;
use crate::config::ServerName;
use crate::host::ServerView;
use crate::host::capabilities::{Capabilities, ListKind};
use crate::tui::action::Action;
use crate::tui::ink::ink;
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::pane::{Availability, Cx, Gesture, Out, Pane, Ui};
use crate::tui::theme::Role;
use crate::tui::widget::browser::Keep;
use crate::tui::widget::{Doc, TextInput};

/// The prompts pane.
#[derive(Default)]
pub struct PromptsPane {
    catalog: Catalog,
}

impl PromptsPane {
    /// The server of the selected prompt.
    pub fn server(&self) -> Option<ServerName> {
        self.catalog.browser.selected().map(|entry| entry.server.clone())
    }
}

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
            search: format!(
                "{} {}",
                prompt.label.as_str(),
                prompt.description.as_deref().unwrap_or_default()
            ),
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

impl Pane for PromptsPane {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Prompts, Scope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        self.catalog.sync(ui, build, detail);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        self.catalog.act(action, ui, out)
    }

    fn availability(&self, action: Action, _: &Model) -> Option<Availability> {
        self.catalog.availability(action)
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        self.catalog.mouse(gesture, ui, out);
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.catalog.render(cx, "prompts", "tokens", area, buf);
    }

    fn typing(&mut self) -> Option<&mut TextInput> {
        self.catalog.typing()
    }

    fn end_typing(&mut self, keep: Keep) {
        self.catalog.end_typing(keep);
    }

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        self.catalog.focus_next(ui)
    }

    fn filter_text(&self) -> &str {
        self.catalog.browser.filter.text()
    }

    fn set_filter(&mut self, text: &str) {
        self.catalog.browser.filter.set(text);
    }
}
