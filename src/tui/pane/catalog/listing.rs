//! The pane over a catalogue: the same for tools, resources and prompts but for what a [`Kind`] says.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Build, Catalog, Detail};
use crate::base::ServerName;
use crate::tui::action::Action;
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::pane::{Availability, Cx, Gesture, Out, Pane, Ui};
use crate::tui::widget::TextInput;
use crate::tui::widget::browser::Keep;

/// What tells one catalogue from another.
pub struct Kind {
    /// Where its keys are bound, innermost first.
    pub scopes: &'static [Scope],
    /// What an entry is called.
    pub noun: &'static str,
    /// What the numbers at the right are.
    pub number: &'static str,
    /// Its entries of one server.
    pub build: Build,
    /// The detail of an entry.
    pub detail: Detail,
}

/// A pane over entries of servers.
pub struct CatalogPane {
    kind: &'static Kind,
    catalog: Catalog,
}

impl CatalogPane {
    /// An empty pane.
    pub fn new(kind: &'static Kind) -> Self {
        Self { kind, catalog: Catalog::default() }
    }

    /// The server of the selected entry.
    pub fn server(&self) -> Option<ServerName> {
        self.catalog.browser.selected().map(|entry| entry.server.clone())
    }

    /// The selected entry's name on the wire.
    pub fn wire_name(&self) -> Option<String> {
        self.catalog.browser.selected().map(|entry| entry.wire.to_string())
    }

    /// Selects an entry when it is listed.
    pub fn go_to(&mut self, server: &ServerName, wire: &str) {
        self.catalog.go_to(server, wire);
    }
}

impl Pane for CatalogPane {
    fn scopes(&self) -> &'static [Scope] {
        self.kind.scopes
    }

    fn sync(&mut self, ui: Ui<'_>) {
        self.catalog.sync(ui, self.kind.build, self.kind.detail);
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
        self.catalog.render(cx, self.kind.noun, self.kind.number, area, buf);
    }

    fn is_typing(&self) -> bool {
        self.catalog.browser.editing
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
