//! The servers: one card each, with the reason beside every state. A single server in scope is
//! shown with its diagnostics; on a wide screen those of the selected one are beside the cards.
//! Below them, the start order.

use std::ops::Range;

use card::Density;

use crate::keymap::KeyScope;
use crate::model::{EngineState, Model};
use crate::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::prelude::*;
use crate::widget::doc::wrap;
use crate::widget::{BrowserPart, Doc, DocView, ListState, Pen, Split, scroll_bar, vertical_rule};

mod black_box;
mod card;
mod table;
pub mod tour;

pub use black_box::{below_card, black_box, info_reader, reader, removals_seen};
pub use card::{breaker_line, unstable};

/// The servers pane.
#[derive(Default)]
pub struct ServersPane {
    list: ListState<ServerName>,
    names: Vec<ServerName>,
    text: DocView,
    /// Lines of each server's card, in the order of `names`.
    cards: Vec<Range<usize>>,
    hide_graph: bool,
    /// How the table is sorted; `None` shows cards.
    order: Option<table::ServerOrder>,
    reversed: bool,
    /// The rest of the selected server's diagnostics, beside the cards.
    detail: DocView,
    split: Split,
}

/// Width from which cards and diagnostics are side by side.
const MIN_SPLIT_COLUMNS: u16 = 150;

impl ServersPane {
    /// Region of the cards, and of the rule and detail beside them.
    fn regions(&self, area: Rect, model: &Model) -> (Rect, Option<[Rect; 2]>) {
        let wide = area.width >= MIN_SPLIT_COLUMNS && model.scope.is_none();
        if !wide || !self.split.is_beside(area) {
            return (area, None);
        }
        let [cards, divider, detail] = Split::beside(area, area.width / 2);
        (cards, Some([divider, detail]))
    }

    fn step(&mut self, delta: isize, area: Rect) {
        let before = self.list.index();
        self.list.step(delta, &self.names[..], self.names.len());
        if self.list.index() != before {
            self.detail.top = 0;
        }
        let height = usize::from(area.height).max(1);
        if let Some(card) = self.cards.get(self.list.index()) {
            let mut top = self.text.top.max(card.end.saturating_sub(height));
            if self.list.index() + 1 == self.cards.len() {
                // With the last card, the graph below it scrolls into view.
                top = top.max(self.text.doc.len().saturating_sub(height));
            }
            self.text.top = top.min(card.start);
        }
        self.scroll(0, area, BrowserPart::List);
    }

    /// Scrolls the focused part.
    fn scroll(&mut self, delta: isize, area: Rect, part: BrowserPart) {
        let view = if part == BrowserPart::Detail { &mut self.detail } else { &mut self.text };
        view.scroll(delta, area.height);
    }

    fn table(&mut self, ui: Ui<'_>, order: table::ServerOrder) -> Doc {
        let mut doc = Doc::new(ui.area.width.saturating_sub(4));
        self.names = table::sorted(ui.model, order, self.reversed);
        let sorting = (order, self.reversed);
        self.cards = table::draw(ui.model, ui.glyphs, &self.names, sorting, &mut doc);
        card::draw_left_out(ui, &mut doc);
        doc
    }

    fn cards(&mut self, ui: Ui<'_>) -> Doc {
        let mut graph = Doc::new(ui.area.width);
        if !self.hide_graph {
            card::draw_graph(ui, &mut graph);
        }
        // By the number of servers, not their text: a state change must not move anything.
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
        card::draw_left_out(ui, &mut doc);
        if !self.hide_graph {
            card::draw_graph(ui, &mut doc);
        }
        doc
    }
}

impl Pane for ServersPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Servers, KeyScope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        self.names = ui.model.servers().map(|server| server.name.clone()).collect();
        let (cards, beside) = self.regions(ui.area, ui.model);
        self.cards.clear();
        if let Some(scope) = ui.model.scope.as_ref().filter(|s| ui.model.server(s).is_some()) {
            let area = Rect { width: ui.area.width.saturating_sub(3), ..ui.area };
            self.text.doc = black_box(Ui { area, ..ui }, scope);
        } else {
            let ui = Ui { area: cards, ..ui };
            self.text.doc = match self.order {
                Some(order) => self.table(ui, order),
                None => self.cards(ui),
            };
        }
        self.list.sync(&self.names[..], self.names.len());
        self.detail.doc = Doc::default();
        if let (Some([_, area]), Some(name)) = (beside, self.list.selected()) {
            let area = Rect { width: area.width.saturating_sub(2), ..area };
            let mut doc = Doc::new(area.width);
            doc.heading(Model::name(name));
            self.detail.doc = below_card(Ui { area, ..ui }, name, doc);
        } else {
            self.split.close();
        }
        self.scroll(0, ui.area, BrowserPart::List);
        self.scroll(0, ui.area, BrowserPart::Detail);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let page = ui.area.height.max(2) as isize - 1;
        // Scrolls whatever has no selection of its own.
        let part = self.split.part;
        let alone = ui.model.scope.is_some() || part == BrowserPart::Detail;
        let beside = self.regions(ui.area, ui.model).1.is_some();
        if let Some(delta) = action.steps(page) {
            if alone || matches!(action, Action::PageUp | Action::PageDown) {
                self.scroll(delta, ui.area, part);
            } else {
                self.step(delta, ui.area);
            }
            return true;
        }
        match action {
            Action::Open | Action::Right if beside => self.split.part = BrowserPart::Detail,
            action if self.split.act(action) => {
                let read = self.list.selected().filter(|_| action != Action::ToggleDetail);
                out.effects.extend(read.and_then(|name| removals_seen(ui.model, name)));
            }
            Action::Graph => self.hide_graph = !self.hide_graph,
            Action::Sort => {
                self.order = table::ServerOrder::next(self.order);
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
                    out.open(black_box::reader(name));
                }
            }
            Action::Copy if part == BrowserPart::Detail => out.copy(self.detail.doc.to_text()),
            Action::Copy => match self.cards.get(self.list.index()) {
                Some(card) => out.copy(self.text.doc.lines_as_text(card.clone(), &[Role::Accent])),
                None => out.copy(self.text.doc.to_text()),
            },
            Action::CopyAll => out.copy(self.text.doc.to_text()),
            Action::Save => out.save("servers.txt", self.text.doc.to_text()),
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        let many = model.scope.is_none() && !self.names.is_empty();
        Some(match action {
            Action::Open => when(many, "its diagnostics are shown already"),
            Action::Sort => when(many, "only one server is shown"),
            Action::SortReverse => when(self.order.is_some(), "{sort} shows the table first"),
            Action::Graph => {
                let mut servers = model.view.servers.values();
                when(servers.any(|s| !s.dependencies.is_empty()), "no server depends on another")
            }
            Action::Filter => Err("{previous-server} and {next-server} show one server"),
            _ => return None,
        })
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let beside = self.regions(ui.area, ui.model).1;
        let in_detail = beside.is_some_and(|[_, detail]| detail.contains(gesture.position()));
        let part = if in_detail { BrowserPart::Detail } else { BrowserPart::List };
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta, ui.area, part),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                self.split.part = part;
                let line = self.text.top + usize::from(at.y.saturating_sub(ui.area.y));
                let card = self.cards.iter().position(|card| card.contains(&line));
                if let Some(n) = card.filter(|_| !in_detail) {
                    self.list.select_index(n, &self.names[..]);
                    self.detail.top = 0;
                    if matches!(gesture, Gesture::DoubleClick(_)) {
                        self.act(Action::Open, ui, out);
                    }
                }
            }
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if self.names.is_empty() && self.text.doc.is_empty() {
            return render_empty(cx, area, buf);
        }
        let (area, beside) = self.regions(area, cx.model);
        if let Some([divider, detail]) = beside {
            vertical_rule(cx, divider, buf);
            self.detail.render(cx, detail, buf);
        }
        let inner =
            Rect { x: area.x + 2.min(area.width), width: area.width.saturating_sub(3), ..area };
        self.text.doc.render(cx, self.text.top, inner, buf);
        let card = self.cards.get(self.list.index()).cloned().unwrap_or_default();
        let here = cx.focused && self.split.part == BrowserPart::List;
        let role = if here { Role::Accent } else { Role::Faint };
        let window = self.text.top..self.text.top + usize::from(area.height);
        for line in card.clone().filter(|line| window.contains(line)) {
            let sign = if line == card.start { cx.glyphs.cursor } else { cx.glyphs.vertical };
            let row = (line - self.text.top) as u16;
            Pen::new(buf, area).at(0, row).clip(sign, 1, cx.style(role));
        }
        scroll_bar(cx, self.text.doc.len(), self.text.top, area, buf);
    }

    fn server(&self, model: &Model) -> Option<ServerName> {
        model.scope.clone().or_else(|| self.list.selected().cloned())
    }

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        self.regions(ui.area, ui.model).1.is_some() && self.split.focus_next(ui.area)
    }
}

fn render_empty(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    match &cx.model.engine {
        EngineState::Failed(reason) => {
            pen.at(1, 1).put("the servers were not started", cx.style(Role::Error));
            let lines = wrap(reason, area.width.saturating_sub(2).max(8));
            for (row, line) in (3..area.height.saturating_sub(1)).zip(lines) {
                pen.at(1, row).put(Ink::line(line), cx.style(Role::Text));
            }
        }
        EngineState::Running => {
            pen.at(1, 1).put("no servers in this configuration", cx.style(Role::Muted));
            let text = "{add-server} adds one; changes of the file are applied when it is saved";
            pen.at(1, 2).put(cx.spelled(&[KeyScope::Servers], text), cx.style(Role::Faint));
        }
        _ => _ = pen.at(1, 1).put("reading the configuration", cx.style(Role::Faint)),
    }
}
