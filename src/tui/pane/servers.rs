//! The servers: one card each, with the reason beside every state; one server alone is shown as
//! its black box, and on a wide screen the selected one's stands beside the cards. Below them the
//! order in which they start.

use std::ops::Range;

use card::Density;

use crate::tui::keymap::Scope;
use crate::tui::model::{EngineState, Model};
use crate::tui::overlay::{Overlay, Reader, Subject};
use crate::tui::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::tui::prelude::*;
use crate::tui::widget::{Doc, ListState, Part, Pen};

mod black_box;
mod card;
mod table;
pub mod tour;

pub use black_box::{below_card, black_box, info, removals_seen};
pub use card::{breaker_line, unstable};

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
    /// How the table is sorted; cards are shown without one.
    order: Option<table::Order>,
    reversed: bool,
    /// The rest of the selected server's black box, beside the cards.
    detail: Doc,
    detail_top: usize,
    hide_detail: bool,
    part: Part,
}

/// Width from which cards and black box stand side by side.
const SIDE_BY_SIDE: u16 = 150;

struct Regions {
    cards: Rect,
    divider: Option<Rect>,
    detail: Option<Rect>,
}

impl ServersPane {
    fn regions(&self, area: Rect, model: &Model) -> Regions {
        let beside = area.width >= SIDE_BY_SIDE && model.scope.is_none() && !self.hide_detail;
        if !beside {
            return Regions { cards: area, divider: None, detail: None };
        }
        let share = area.width / 2;
        let x = area.x + share + 2;
        Regions {
            cards: Rect { width: share, ..area },
            divider: Some(Rect { x: area.x + share, width: 1, ..area }),
            detail: Some(Rect { x, width: area.right() - x, ..area }),
        }
    }

    fn step(&mut self, delta: isize, area: Rect) {
        let before = self.list.index();
        self.list.step(delta, &self.names[..], self.names.len());
        if self.list.index() != before {
            self.detail_top = 0;
        }
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
        let height = usize::from(area.height);
        self.top = self.top.min(self.doc.len().saturating_sub(height));
        self.detail_top = self.detail_top.min(self.detail.len().saturating_sub(height));
    }

    /// Scrolls what the keys go to.
    fn scroll(&mut self, delta: isize, area: Rect, part: Part) {
        let top = if part == Part::Detail { &mut self.detail_top } else { &mut self.top };
        *top = top.saturating_add_signed(delta);
        self.clamp(area);
    }

    fn table(&mut self, ui: Ui<'_>, order: table::Order) -> Doc {
        let mut doc = Doc::new(ui.area.width.saturating_sub(4));
        self.names = table::sorted(ui.model, order, self.reversed);
        let sorting = (order, self.reversed);
        self.cards = table::draw(ui.model, ui.glyphs, &self.names, sorting, &mut doc);
        card::draw_left_out(ui.model, ui.glyphs, &mut doc);
        doc
    }

    fn cards(&mut self, ui: Ui<'_>) -> Doc {
        let mut graph = Doc::new(ui.area.width);
        if !self.hide_graph {
            card::draw_graph(ui.model, ui.glyphs, &mut graph);
        }
        // By their number, not by what they say: a state that changes moves nothing.
        let roomy = self.names.len() * 4 + graph.len() <= usize::from(ui.area.height);
        let density = if roomy { Density::Roomy } else { Density::Dense };
        let mut doc = Doc::new(ui.area.width.saturating_sub(4));
        for server in ui.model.servers() {
            if roomy {
                doc.gap();
            }
            let start = doc.len();
            card::draw(server, ui, density, &mut doc);
            self.cards.push(start..doc.len());
        }
        card::draw_left_out(ui.model, ui.glyphs, &mut doc);
        if !self.hide_graph {
            card::draw_graph(ui.model, ui.glyphs, &mut doc);
        }
        doc
    }
}

impl Pane for ServersPane {
    fn scopes(&self) -> &'static [Scope] {
        &[Scope::Servers, Scope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        self.names = ui.model.servers().map(|server| server.name.clone()).collect();
        let regions = self.regions(ui.area, ui.model);
        self.cards.clear();
        if let Some(scope) = ui.model.scope.as_ref().filter(|s| ui.model.server(s).is_some()) {
            let area = Rect { width: ui.area.width.saturating_sub(3), ..ui.area };
            self.doc = black_box(Ui { area, ..ui }, scope);
        } else {
            let ui = Ui { area: regions.cards, ..ui };
            self.doc = match self.order {
                Some(order) => self.table(ui, order),
                None => self.cards(ui),
            };
        }
        self.list.sync(&self.names[..], self.names.len());
        self.detail = Doc::default();
        if let (Some(area), Some(name)) = (regions.detail, self.list.selected()) {
            let area = Rect { width: area.width.saturating_sub(2), ..area };
            let mut doc = Doc::new(area.width);
            doc.heading(Model::name(name));
            self.detail = below_card(Ui { area, ..ui }, name, doc);
        } else {
            self.part = Part::List;
        }
        self.clamp(ui.area);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let page = isize::try_from(ui.area.height).unwrap_or(1).max(2) - 1;
        // What has no selection of its own is scrolled.
        let alone = ui.model.scope.is_some() || self.part == Part::Detail;
        let beside = self.regions(ui.area, ui.model).detail.is_some();
        let part = self.part;
        if let Some(delta) = action.steps(page) {
            if alone || matches!(action, Action::PageUp | Action::PageDown) {
                self.scroll(delta, ui.area, part);
            } else {
                self.step(delta, ui.area);
            }
            return true;
        }
        match action {
            Action::Open | Action::Right if beside => self.part = Part::Detail,
            Action::Left | Action::Back if part == Part::Detail => {
                self.part = Part::List;
                let read = self.list.selected();
                out.effects.extend(read.and_then(|name| removals_seen(ui.model, name)));
            }
            Action::ToggleDetail => {
                self.hide_detail = !self.hide_detail;
                self.part = Part::List;
            }
            Action::Graph => self.hide_graph = !self.hide_graph,
            Action::Sort => {
                self.order = table::Order::next(self.order);
                self.reversed = false;
                match self.order {
                    Some(order) => out.say(ink!("sorted by {}", order.name())),
                    None => out.say(ink!("as cards")),
                }
            }
            Action::SortReverse => self.reversed = !self.reversed,
            Action::Back if self.order.is_some() => self.order = None,
            Action::Open | Action::Right if !alone => {
                if let Some(name) = self.server(ui.model) {
                    out.overlay = Some(Overlay::Reader(Reader::of(Subject::BlackBox(name))));
                }
            }
            Action::Copy if part == Part::Detail => out.copy(self.detail.to_text()),
            Action::Copy => match self.cards.get(self.list.index()) {
                Some(card) => out.copy(self.doc.lines_as_text(card.clone(), &[Role::Accent])),
                None => out.copy(self.doc.to_text()),
            },
            Action::CopyAll => out.copy(self.doc.to_text()),
            Action::Save => out.save("servers.txt", self.doc.to_text()),
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        match action {
            Action::Open => Some(when(
                model.scope.is_none() && !self.names.is_empty(),
                "its diagnostics are shown already",
            )),
            Action::Sort => Some(when(
                model.scope.is_none() && !self.names.is_empty(),
                "only one server is shown",
            )),
            Action::SortReverse => Some(when(self.order.is_some(), "{sort} shows the table first")),
            Action::Graph => Some(when(
                model.view.servers.values().any(|s| !s.dependencies.is_empty()),
                "no server depends on another",
            )),
            Action::Filter => Some(Err("{previous-server} and {next-server} show one server")),
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let regions = self.regions(ui.area, ui.model);
        let in_detail = regions.detail.is_some_and(|area| area.contains(gesture.position()));
        match gesture {
            Gesture::Scroll { delta, .. } => {
                let part = if in_detail { Part::Detail } else { Part::List };
                self.scroll(delta, ui.area, part);
            }
            Gesture::Click(_) | Gesture::DoubleClick(_) if in_detail => self.part = Part::Detail,
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                self.part = Part::List;
                let line = self.top + usize::from(at.y.saturating_sub(ui.area.y));
                if let Some(n) = self.cards.iter().position(|card| card.contains(&line)) {
                    self.list.select_index(n, &self.names[..]);
                    self.detail_top = 0;
                    if matches!(gesture, Gesture::DoubleClick(_)) {
                        self.act(Action::Open, ui, out);
                    }
                }
            }
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if self.names.is_empty() && self.doc.is_empty() {
            return render_empty(cx, area, buf);
        }
        let regions = self.regions(area, cx.model);
        if let (Some(divider), Some(detail)) = (regions.divider, regions.detail) {
            crate::tui::widget::vertical_rule(cx, divider, buf);
            self.detail.render(cx, self.detail_top, detail, buf);
            let length = self.detail.len();
            crate::tui::widget::scroll_bar(cx, length, self.detail_top, detail, buf);
        }
        let area = regions.cards;
        let inner =
            Rect { x: area.x + 2.min(area.width), width: area.width.saturating_sub(3), ..area };
        self.doc.render(cx, self.top, inner, buf);
        if let Some(card) = self.cards.get(self.list.index()) {
            for line in card.clone() {
                if let Some(row) = line.checked_sub(self.top).filter(|r| *r < area.height.into()) {
                    let sign =
                        if line == card.start { cx.glyphs.cursor } else { cx.glyphs.vertical };
                    let here = cx.focused && self.part == Part::List;
                    let role = if here { Role::Accent } else { Role::Faint };
                    Pen::new(buf, area).at(0, row as u16).clip(sign, 1, cx.style(role));
                }
            }
        }
        crate::tui::widget::scroll_bar(cx, self.doc.len(), self.top, area, buf);
    }

    fn server(&self, model: &Model) -> Option<ServerName> {
        model.scope.clone().or_else(|| self.list.selected().cloned())
    }

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        let beside = self.regions(ui.area, ui.model).detail.is_some();
        self.part = if beside && self.part == Part::List { Part::Detail } else { Part::List };
        self.part == Part::Detail
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
                pen.at(1, row as u16 + 3).put(Ink::line(line), cx.style(Role::Text));
            }
        }
        EngineState::Running => {
            pen.at(1, 1).put("no servers in this configuration", cx.style(Role::Muted));
            let text = "{add-server} adds one; changes of the file are applied when it is saved";
            pen.at(1, 2).put(cx.spelled(&[Scope::Servers], text), cx.style(Role::Faint));
        }
        _ => _ = pen.at(1, 1).put("reading the configuration", cx.style(Role::Faint)),
    }
}
