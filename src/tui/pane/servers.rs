//! The servers: one card each, with the reason beside every state; one server alone is shown as
//! its black box. Below them the order in which they start.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::config::ServerName;
use crate::tui::action::Action;
use crate::tui::ink::ink;
use crate::tui::keymap::Scope;
use crate::tui::model::{EngineState, Model};
use crate::tui::overlay::{Overlay, Reader, Subject};
use crate::tui::pane::{Availability, Cx, Gesture, Out, Pane, Ui};
use crate::tui::theme::Role;
use crate::tui::widget::{Doc, ListState, Pen};

mod black_box;
mod card;
mod graph;
mod sources;
pub mod tour;

pub use black_box::black_box;
pub use card::breaker_line;

/// The servers pane.
#[derive(Default)]
pub struct ServersPane {
    list: ListState<ServerName>,
    names: Vec<ServerName>,
    doc: Doc,
    /// Lines of each server's card, in the order of `names`.
    cards: Vec<Range<usize>>,
    top: usize,
    hide_graph: bool,
}

impl ServersPane {
    /// The selected server.
    pub fn selected(&self, model: &Model) -> Option<ServerName> {
        model.scope.clone().or_else(|| self.list.selected().cloned())
    }

    fn step(&mut self, delta: isize, area: Rect) {
        let names = &self.names;
        self.list.step(delta, names.len(), |n| names[n].clone());
        self.reveal(area);
    }

    fn reveal(&mut self, area: Rect) {
        let height = usize::from(area.height).max(1);
        if let Some(card) = self.cards.get(self.list.index()) {
            if card.end > self.top + height {
                self.top = card.end - height;
            }
            self.top = self.top.min(card.start);
            if self.list.index() + 1 == self.cards.len() {
                // At the last card the graph below it comes along.
                self.top = self.top.max(self.doc.len().saturating_sub(height)).min(card.start);
            }
        }
        self.clamp(area);
    }

    fn clamp(&mut self, area: Rect) {
        self.top = self.top.min(self.doc.len().saturating_sub(usize::from(area.height)));
    }

    fn scroll(&mut self, delta: isize, area: Rect) {
        self.top = self.top.saturating_add_signed(delta);
        self.clamp(area);
    }
}

impl Pane for ServersPane {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Servers, Scope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        self.names = ui.model.servers().map(|server| server.name.clone()).collect();
        let width = ui.area.width.saturating_sub(3);
        self.cards.clear();
        if let Some(scope) = ui.model.scope.as_ref().filter(|s| ui.model.server(s).is_some()) {
            self.doc = black_box(ui.model, scope, ui.glyphs, width);
        } else {
            let mut doc = Doc::new(width);
            for server in ui.model.servers() {
                doc.gap();
                let start = doc.len();
                card::draw(server, ui.model, ui.glyphs, &mut doc);
                self.cards.push(start..doc.len());
            }
            if !self.hide_graph {
                graph::draw(ui.model, ui.glyphs, &mut doc);
            }
            self.doc = doc;
        }
        let names = &self.names;
        self.list.sync(
            names.len(),
            names.len().max(1),
            |id, _| names.iter().position(|name| name == id),
            |n| names[n].clone(),
        );
        self.clamp(ui.area);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let page = isize::try_from(ui.area.height).unwrap_or(1).max(2) - 1;
        let alone = ui.model.scope.is_some();
        match action {
            Action::Up if alone => self.scroll(-1, ui.area),
            Action::Down if alone => self.scroll(1, ui.area),
            Action::Up => self.step(-1, ui.area),
            Action::Down => self.step(1, ui.area),
            Action::PageUp => self.scroll(-page, ui.area),
            Action::PageDown => self.scroll(page, ui.area),
            Action::Top if alone => self.top = 0,
            Action::Bottom if alone => self.scroll(isize::MAX / 2, ui.area),
            Action::Top => self.step(isize::MIN / 2, ui.area),
            Action::Bottom => self.step(isize::MAX / 2, ui.area),
            Action::Graph => self.hide_graph = !self.hide_graph,
            Action::Open | Action::Right if !alone => {
                if let Some(name) = self.selected(ui.model) {
                    let title = ink!("black box: {}", Model::name(&name));
                    let mut reader = Reader::new(title, Doc::default());
                    reader.subject = Subject::BlackBox(name);
                    out.overlay = Some(Overlay::Reader(reader));
                }
            }
            Action::Copy | Action::CopyAll => out.copy(self.doc.to_text()),
            Action::Save => out.effect(crate::tui::effect::Effect::Save {
                name: "servers.txt".into(),
                content: self.doc.to_text().into_bytes(),
            }),
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        match action {
            Action::Open => Some(Availability::when(
                model.scope.is_none() && !self.names.is_empty(),
                "its black box is shown already",
            )),
            Action::Graph => Some(Availability::when(
                model.view.servers.values().any(|s| !s.dependencies.is_empty()),
                "no server depends on another",
            )),
            Action::Filter => Some(Availability::Disabled("[ and ] narrow to one server")),
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta, ui.area),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                let line = self.top + usize::from(at.y.saturating_sub(ui.area.y));
                if let Some(n) = self.cards.iter().position(|card| card.contains(&line)) {
                    let names = &self.names;
                    self.list.select_index(n, names.len(), |n| names[n].clone());
                    if matches!(gesture, Gesture::DoubleClick(_)) {
                        self.act(Action::Open, ui, out);
                    }
                }
            }
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if self.names.is_empty() {
            return render_empty(cx, area, buf);
        }
        let inner =
            Rect { x: area.x + 2.min(area.width), width: area.width.saturating_sub(3), ..area };
        self.doc.render(cx, self.top, inner, buf);
        if let Some(card) = self.cards.get(self.list.index()) {
            for line in card.clone() {
                if let Some(row) = line.checked_sub(self.top).filter(|r| *r < area.height.into()) {
                    let sign =
                        if line == card.start { cx.glyphs.cursor } else { cx.glyphs.vertical };
                    let role = if cx.focused { Role::Accent } else { Role::Faint };
                    Pen::new(buf, area).at(0, row as u16).clip(sign, 1, cx.style(role));
                }
            }
        }
        crate::tui::widget::scroll_bar(cx, self.doc.len(), self.top, area, buf);
    }
}

fn render_empty(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    match &cx.model.engine {
        EngineState::Failed(reason) => {
            pen.at(1, 1).put("the servers were not started", cx.style(Role::Error));
            for (row, line) in
                crate::tui::widget::doc::wrap(reason, area.width.saturating_sub(2).max(8))
                    .take(usize::from(area.height.saturating_sub(4)))
                    .enumerate()
            {
                pen.at(1, row as u16 + 3)
                    .put(crate::tui::ink::Ink::line(line), cx.style(Role::Text));
            }
        }
        EngineState::Running => {
            pen.at(1, 1).put("no servers in this configuration", cx.style(Role::Muted));
            pen.at(1, 2).put(
                "add one to the file; it is picked up as soon as it is saved",
                cx.style(Role::Faint),
            );
        }
        _ => _ = pen.at(1, 1).put("reading the configuration", cx.style(Role::Faint)),
    }
}
