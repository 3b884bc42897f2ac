//! The servers: one row each, failures first, and the card and diagnostics of the selected one below
//! or, on a wide screen, beside them. A single server in scope fills the pane.

use std::ops::Range;

use ratatui::widgets::{Clear, Widget as _};

use crate::keymap::KeyScope;
use crate::model::{EngineState, Model};
use crate::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::panel::Division;
use crate::prelude::*;
use crate::widget::doc::wrap;
use crate::widget::{
    BrowserPart, Doc, DocView, ListState, Pen, Split, in_sight, scroll_bar, vertical_rule,
};

mod black_box;
mod card;
mod table;

pub use black_box::{black_box, evidence, info_reader, reader, removals_seen};
pub use card::{breaker_line, unstable};

#[derive(Default)]
pub struct ServersPane {
    list: ListState<ServerName>,
    names: Vec<ServerName>,
    /// The rows, and what stands below them; or everything about the server in scope.
    text: DocView,
    /// The line of each server, in the order of `names`.
    rows: Vec<Range<usize>>,
    /// Whether the start order is shown, if the user chose.
    graph: Option<bool>,
    order: table::ServerOrder,
    reversed: bool,
    /// Card and diagnostics of the selected server.
    detail: DocView,
    part: BrowserPart,
    /// Whether the detail is hidden.
    alone: bool,
}

/// Cells before the rows, for the cursor.
const TITLE_MARGIN_COLUMNS: u16 = 2;
/// Width from which rows and detail are side by side.
const MIN_SPLIT_COLUMNS: u16 = 139;
/// Height from which a detail is shown below the rows.
const MIN_DETAIL_ROWS: u16 = 10;
/// Rows that the detail keeps below many servers, its rule included.
const SHORT_DETAIL_ROWS: u16 = 11;

/// How the region of the pane is divided.
struct ServersRegions {
    rows: Rect,
    /// The rule between, and whether it stands upright.
    divider: Option<(Rect, bool)>,
    detail: Option<Rect>,
}

impl ServersPane {
    /// Whether the start order is drawn: as the user chose, else where there is more to it than one
    /// server that waits for another.
    fn shows_graph(&self, model: &Model) -> bool {
        self.graph.unwrap_or_else(|| card::dependencies(model) > 1)
    }

    fn regions(&self, area: Rect, model: &Model) -> ServersRegions {
        let alone = self.alone || model.scope.is_some() || self.names.is_empty();
        if alone || area.width < MIN_SPLIT_COLUMNS && area.height < MIN_DETAIL_ROWS {
            return ServersRegions { rows: area, divider: None, detail: None };
        }
        if area.width >= MIN_SPLIT_COLUMNS {
            let [rows, divider, detail] = Split::beside(area, (area.width / 2).min(110));
            return ServersRegions { rows, divider: Some((divider, true)), detail: Some(detail) };
        }
        // Many rows leave the detail its card and the first lines below it.
        let most = (area.height * 2 / 5).max(area.height.saturating_sub(SHORT_DETAIL_ROWS)).max(4);
        let height = u16::try_from(self.text.doc.len()).unwrap_or(u16::MAX).min(most);
        let rows = Rect { height, ..area };
        let divider = Rect { y: rows.bottom(), height: 1, ..area };
        let top = divider.bottom();
        // The detail is indented like the names of the rows.
        let detail =
            Rect { x: area.x + 1, y: top, width: area.width - 1, height: area.bottom() - top };
        ServersRegions { rows, divider: Some((divider, false)), detail: Some(detail) }
    }

    fn step(&mut self, delta: isize, height: u16) {
        let before = self.list.index();
        self.list.step(delta, &self.names[..], self.names.len());
        if self.list.index() != before {
            self.detail.top = 0;
        }
        self.text.top = match self.rows.get(self.list.index()) {
            // The titles stand above the rows, however far these are scrolled.
            Some(row) if self.list.index() > 0 => {
                let below = usize::from(height).saturating_sub(1);
                in_sight(self.text.top + 1, row.start, below).saturating_sub(1)
            }
            _ => 0,
        };
    }

    /// Whether the titles cover the first of the rows, at this place of the screen.
    fn has_titles_above(&self, y: u16, rows: Rect) -> bool {
        y == rows.y && self.text.top > 0 && !self.rows.is_empty()
    }

    /// The column whose title is at a place of the screen.
    fn title_under(&self, at: Position, rows: Rect) -> Option<table::ServerOrder> {
        if at.y != rows.y || self.rows.is_empty() {
            return None;
        }
        let x = at.x.checked_sub(rows.x + TITLE_MARGIN_COLUMNS)?;
        table::title_at(self.text.doc.lines().first()?, x)
    }

    /// Scrolls the focused part.
    fn scroll(&mut self, delta: isize, ui: Ui<'_>, part: BrowserPart) {
        let regions = self.regions(ui.area, ui.model);
        match (part, regions.detail) {
            (BrowserPart::Detail, Some(detail)) => self.detail.scroll(delta, detail.height),
            _ => self.text.scroll(delta, regions.rows.height),
        }
    }

    /// Goes from the detail back to the rows; what was removed counts as seen then.
    fn leave_detail(&mut self, model: &Model, out: &mut Out) {
        if self.part == BrowserPart::Detail {
            self.part = BrowserPart::List;
            if let Some(name) = self.list.selected() {
                removals_seen(model, name, out);
            }
        }
    }
}

impl Pane for ServersPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Servers, KeyScope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        self.names = table::sorted(ui.model, self.order, self.reversed);
        self.rows.clear();
        self.detail.doc = Doc::default();
        if let Some(scope) = ui.model.scope.as_ref().filter(|s| ui.model.server(s).is_some()) {
            let area = Rect { width: ui.area.width.saturating_sub(3), ..ui.area };
            self.text.doc = black_box(Ui { area, ..ui }, scope, Doc::default());
            self.list.sync(&self.names[..], self.names.len());
            return self.scroll(0, ui, BrowserPart::List);
        }
        let wide = ui.area.width >= MIN_SPLIT_COLUMNS && !self.alone;
        let width = if wide { (ui.area.width / 2).min(110) } else { ui.area.width };
        let mut doc = Doc::new(width.saturating_sub(3));
        self.rows =
            table::draw(ui.model, ui.glyphs, &self.names, (self.order, self.reversed), &mut doc);
        let own = Rect { width: width.saturating_sub(3), ..ui.area };
        card::draw_left_out(Ui { area: own, ..ui }, &mut doc);
        let mut graph = Doc::new(doc.width());
        if self.shows_graph(ui.model) {
            card::draw_graph(ui, &mut graph);
        }
        // Beside the rows there is room for the start order; below them, the detail comes first.
        let below = wide || self.alone;
        if below {
            card::draw_graph_in(&graph, &mut doc);
        }
        self.text.doc = doc;
        self.list.sync(&self.names[..], self.names.len());
        let detail = self.regions(ui.area, ui.model).detail;
        if let (Some(area), Some(name)) = (detail, self.list.selected()) {
            let area = Rect { width: area.width.saturating_sub(2), ..area };
            let graph = if below { Doc::default() } else { graph };
            self.detail.doc = black_box(Ui { area, ..ui }, name, graph);
        } else {
            self.part = BrowserPart::List;
        }
        self.step(0, self.regions(ui.area, ui.model).rows.height);
        self.scroll(0, ui, BrowserPart::List);
        self.scroll(0, ui, BrowserPart::Detail);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let ServersRegions { rows, detail, divider } = self.regions(ui.area, ui.model);
        let in_detail = self.part == BrowserPart::Detail || ui.model.scope.is_some();
        let height = if in_detail { detail.unwrap_or(rows).height } else { rows.height };
        if let Some(delta) = action.steps(height.max(2) as isize - 1) {
            // While all rows are in sight, the page keys are for the detail.
            let pages = matches!(action, Action::PageUp | Action::PageDown)
                && self.rows.len() <= usize::from(rows.height);
            match detail.filter(|_| pages && !in_detail) {
                Some(detail) => {
                    let page = detail.height.max(2) as isize - 1;
                    self.detail.scroll(delta.signum() * page, detail.height);
                }
                None if in_detail => self.scroll(delta, ui, self.part),
                None => self.step(delta, rows.height),
            }
            return true;
        }
        let beside = divider.is_some_and(|(_, upright)| upright);
        match action {
            Action::Open | Action::Right if beside && !in_detail => {
                self.part = BrowserPart::Detail;
            }
            Action::Left | Action::Back if self.part == BrowserPart::Detail => {
                self.leave_detail(ui.model, out);
            }
            Action::ToggleDetail => {
                self.alone = !self.alone;
                self.leave_detail(ui.model, out);
            }
            Action::Graph => self.graph = Some(!self.shows_graph(ui.model)),
            Action::Sort => {
                self.order = self.order.next();
                self.reversed = false;
                out.say(ink!("sorted by {}", self.order.name()));
            }
            Action::SortReverse => self.reversed = !self.reversed,
            Action::Back if self.reversed || self.order != table::ServerOrder::default() => {
                (self.order, self.reversed) = (table::ServerOrder::default(), false);
            }
            Action::Open | Action::Right if ui.model.scope.is_none() => {
                if let Some(name) = self.server(ui.model) {
                    out.open(black_box::reader(name));
                }
            }
            Action::Copy if detail.is_some() => out.copy(self.detail.doc.to_text()),
            Action::Copy | Action::CopyAll => out.copy(self.text.doc.to_text()),
            Action::Save => out.save("servers.txt", self.text.doc.to_text()),
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        let many = model.scope.is_none() && !self.names.is_empty();
        Some(match action {
            Action::Open => when(many, "its diagnostics are shown already"),
            Action::Sort | Action::SortReverse => when(many, "only one server is shown"),
            Action::Graph => {
                let mut servers = model.view.servers.values();
                when(servers.any(|s| !s.dependencies.is_empty()), "no server depends on another")
            }
            Action::Filter => Err("{previous-server} and {next-server} show one server"),
            _ => return None,
        })
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let regions = self.regions(ui.area, ui.model);
        let at = gesture.position();
        let in_detail = regions.detail.is_some_and(|detail| detail.contains(at));
        let part = if in_detail { BrowserPart::Detail } else { BrowserPart::List };
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta, ui, part),
            Gesture::Click(_) | Gesture::DoubleClick(_) if in_detail => self.part = part,
            Gesture::Click(_) | Gesture::DoubleClick(_) => {
                self.leave_detail(ui.model, out);
                if let Some(order) = self.title_under(at, regions.rows) {
                    self.reversed = self.order == order && !self.reversed;
                    self.order = order;
                    return;
                }
                let line = self.text.top + usize::from(at.y.saturating_sub(regions.rows.y));
                let line = if self.has_titles_above(at.y, regions.rows) { 0 } else { line };
                if let Some(n) = self.rows.iter().position(|row| row.contains(&line)) {
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
        let ServersRegions { rows, divider, detail } = self.regions(area, cx.model);
        match divider {
            Some((divider, true)) => vertical_rule(cx, divider, buf),
            Some((divider, false)) => {
                let style = cx.style(Role::Rule);
                Pen::new(buf, divider).rule(cx.glyphs.horizontal, style);
            }
            None => {}
        }
        if let Some(detail) = detail {
            self.detail.render(cx, detail, buf);
        }
        let margin = TITLE_MARGIN_COLUMNS.min(rows.width);
        let inner = Rect { x: rows.x + margin, width: rows.width.saturating_sub(3), ..rows };
        self.text.doc.render(cx, self.text.top, inner, buf);
        if self.has_titles_above(rows.y, rows) {
            let titles = Rect { height: inner.height.min(1), ..inner };
            Clear.render(titles, buf);
            buf.set_style(titles, cx.style(Role::Text));
            self.text.doc.render(cx, 0, titles, buf);
        }
        scroll_bar(cx, self.text.doc.len(), self.text.top, rows, buf);
        let Some(line) = self.rows.get(self.list.index()).map(|row| row.start) else { return };
        let Some(row) = line.checked_sub(self.text.top).filter(|row| *row < rows.height.into())
        else {
            return;
        };
        let mut pen = Pen::new(buf, Rect { width: rows.width.saturating_sub(1), ..rows });
        pen.at(0, row as u16).clip(cx.glyphs.cursor, 1, cx.style(Role::Accent));
        pen.row_style(cx.selection(self.part == BrowserPart::List));
    }

    fn server(&self, model: &Model) -> Option<ServerName> {
        model.scope.clone().or_else(|| self.list.selected().cloned())
    }

    fn division(&self, area: Rect, model: &Model) -> Division {
        let ServersRegions { rows, detail, .. } = self.regions(area, model);
        Division { list: rows, detail, in_detail: self.part == BrowserPart::Detail }
    }

    fn focus_next(&mut self, ui: Ui<'_>) -> bool {
        let has_detail = self.regions(ui.area, ui.model).detail.is_some();
        let inside = self.part == BrowserPart::List && has_detail;
        self.part = if inside { BrowserPart::Detail } else { BrowserPart::List };
        inside
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
            let text = "{palette} and import takes over servers of other programs on this machine";
            pen.at(1, 3).put(cx.spelled(&[KeyScope::Servers], text), cx.style(Role::Faint));
        }
        _ => _ = pen.at(1, 1).put("reading the configuration", cx.style(Role::Faint)),
    }
}
