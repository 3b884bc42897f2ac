//! A list with a detail beside it or over it: what most panes are. Owns selection, scroll, filter
//! line and focus; the pane gives rows, row painter and detail.

use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::tui::action::Action;
use crate::tui::ink::{Ink, ink};
use crate::tui::pane::{Cx, Gesture};
use crate::tui::theme::Role;
use crate::tui::widget::{Doc, FilterLine, Pen};

/// Where the keys go inside a pane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The list.
    #[default]
    List,
    /// The detail.
    Detail,
}

/// How the pane's region is divided. Pure: update and render ask for the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Regions {
    /// Summary or filter line; empty when the detail covers the list.
    pub head: Rect,
    /// Column titles.
    pub columns: Rect,
    /// Rows; empty when the detail covers the list.
    pub list: Rect,
    /// Rule between list and detail.
    pub divider: Option<Rect>,
    /// The detail, when it is shown.
    pub detail: Option<Rect>,
}

/// Width from which list and detail stand side by side.
pub const SIDE_BY_SIDE: u16 = 88;

/// A list, its filter and its detail.
#[derive(Clone, Debug)]
pub struct Browser<I> {
    /// Selection and scroll.
    pub list: ListState<I>,
    /// Ids of the rows, in order, filtered.
    pub rows: Vec<I>,
    /// The filter line.
    pub filter: FilterLine,
    /// Where the keys go.
    pub part: Part,
    /// Whether the detail covers the list on a narrow screen.
    pub opened: bool,
    /// Whether the detail is shown beside the list on a wide one.
    pub beside: bool,
    /// Cells the list has use for; it gets them as long as the detail keeps enough.
    pub wants: u16,
    /// The detail.
    pub doc: Doc,
    /// First visible line of the detail.
    pub doc_top: usize,
}

/// Where the detail stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Nowhere.
    Hidden,
    /// Over the list.
    Over,
    /// Right of the list, which keeps so many columns.
    Beside(u16),
}

impl Regions {
    /// Divides `area`.
    pub fn of(area: Rect, detail: Detail) -> Self {
        let (list, divider, detail) = match detail {
            Detail::Beside(share) => {
                let x = area.x + share + 2;
                (
                    Rect { width: share, ..area },
                    Some(Rect { x: area.x + share, width: 1, ..area }),
                    Some(Rect { x, width: area.right() - x, ..area }),
                )
            }
            Detail::Over => (Rect { width: 0, height: 0, ..area }, None, Some(area)),
            Detail::Hidden => (area, None, None),
        };
        let head = Rect { height: list.height.min(1), ..list };
        let columns = Rect { y: list.y + head.height, height: (list.height > 3).into(), ..list };
        let used = head.height + columns.height;
        let list = Rect { y: list.y + used, height: list.height.saturating_sub(used), ..list };
        Self { head, columns, list, divider, detail }
    }
}

impl<I> Default for Browser<I> {
    fn default() -> Self {
        Self {
            list: ListState::new(),
            rows: Vec::new(),
            filter: FilterLine::default(),
            part: Part::List,
            opened: false,
            beside: true,
            wants: 0,
            doc: Doc::default(),
            doc_top: 0,
        }
    }
}

impl<I: Clone + PartialEq> Browser<I> {
    /// How `area` is divided.
    pub fn regions(&self, area: Rect) -> Regions {
        let detail = if area.width >= SIDE_BY_SIDE && self.beside {
            let share = if area.width >= 150 { area.width * 2 / 5 } else { area.width / 2 };
            let most = area.width - (area.width * 2 / 5).clamp(34, 80);
            Detail::Beside(share.max(self.wants.min(most)))
        } else if self.opened {
            Detail::Over
        } else {
            Detail::Hidden
        };
        Regions::of(area, detail)
    }

    /// Rows that fit the list.
    pub fn height(&self, area: Rect) -> usize {
        usize::from(self.regions(area).list.height)
    }

    /// Width of the detail's text; 0 when it is not shown.
    pub fn detail_width(&self, area: Rect) -> u16 {
        self.regions(area).detail.map_or(0, |detail| detail.width.saturating_sub(1))
    }

    /// Takes other rows; selection and scroll follow.
    pub fn set_rows(&mut self, rows: Vec<I>, area: Rect) {
        self.rows = rows;
        self.sync(area);
    }

    /// Brings selection and scroll into the bounds of the rows.
    pub fn sync(&mut self, area: Rect) {
        let height = self.height(area);
        let rows = &self.rows;
        self.list.sync(
            rows.len(),
            height,
            |id, hint| {
                if rows.get(hint) == Some(id) {
                    return Some(hint);
                }
                rows.iter().position(|row| row == id)
            },
            |n| rows[n].clone(),
        );
    }

    /// Takes another detail; its scroll position stays inside.
    pub fn set_doc(&mut self, doc: Doc, area: Rect) {
        self.doc = doc;
        self.clamp_doc(area);
    }

    fn clamp_doc(&mut self, area: Rect) {
        let height = self.regions(area).detail.map_or(0, |d| usize::from(d.height));
        self.doc_top = self.doc_top.min(self.doc.len().saturating_sub(height));
    }

    /// The selected id.
    pub const fn selected(&self) -> Option<&I> {
        self.list.selected()
    }

    /// Handles what every list does; gives whether the action was one of these.
    pub fn act(&mut self, action: Action, area: Rect) -> bool {
        if self.part == Part::Detail && self.act_in_detail(action, area) {
            return true;
        }
        if let Some(delta) = action.steps(self.height(area).max(2) as isize - 1) {
            self.step(delta, area);
            return true;
        }
        match action {
            Action::Open | Action::Right if !self.rows.is_empty() => self.open_detail(area),
            Action::Filter => {
                self.filter.begin();
                self.close_detail();
            }
            Action::ClearFilter => self.filter.set(""),
            Action::ToggleDetail => {
                self.beside = !self.beside;
                self.part = Part::List;
            }
            Action::Left | Action::Back if self.part == Part::Detail || self.opened => {
                self.close_detail();
            }
            Action::Back if !self.filter.text().is_empty() => self.filter.set(""),
            _ => return false,
        }
        true
    }

    fn act_in_detail(&mut self, action: Action, area: Rect) -> bool {
        let page =
            self.regions(area).detail.map_or(1, |d| isize::try_from(d.height).unwrap_or(1)) - 1;
        let Some(delta) = action.steps(page) else { return false };
        self.doc_top = self.doc_top.saturating_add_signed(delta);
        self.clamp_doc(area);
        true
    }

    /// From the list to the detail beside it; gives whether there was one to go to.
    pub fn focus_next(&mut self, area: Rect) -> bool {
        let inside = self.part == Part::List && self.regions(area).divider.is_some();
        self.part = if inside { Part::Detail } else { Part::List };
        inside
    }

    /// Moves the selection.
    pub fn step(&mut self, delta: isize, area: Rect) {
        let before = self.list.index();
        let rows = &self.rows;
        self.list.step(delta, rows.len(), |n| rows[n].clone());
        let height = self.height(area);
        self.list.reveal(self.rows.len(), height);
        if self.list.index() != before {
            self.doc_top = 0;
        }
    }

    /// Goes into the detail, which takes the whole area where there is no room for it beside the list.
    pub fn open_detail(&mut self, area: Rect) {
        self.opened = area.width < SIDE_BY_SIDE || !self.beside;
        self.part = Part::Detail;
    }

    fn close_detail(&mut self) {
        self.opened = false;
        self.part = Part::List;
    }

    /// Handles the mouse; gives whether a row was opened by a double click.
    pub fn mouse(&mut self, gesture: Gesture, area: Rect) -> bool {
        let regions = self.regions(area);
        let inside = |r: Rect| r.contains(gesture.position());
        let in_detail = regions.detail.is_some_and(inside);
        match gesture {
            Gesture::Scroll { delta, .. } if in_detail => {
                self.doc_top = self.doc_top.saturating_add_signed(delta);
                self.clamp_doc(area);
            }
            Gesture::Scroll { delta, .. } => {
                let rows = &self.rows;
                let height = usize::from(regions.list.height);
                self.list.scroll(delta, rows.len(), height, |n| rows[n].clone());
            }
            Gesture::Click(_) if in_detail => self.part = Part::Detail,
            Gesture::Click(at) | Gesture::DoubleClick(at) if inside(regions.list) => {
                let row = self.list.top() + usize::from(at.y - regions.list.y);
                self.part = Part::List;
                if row < self.rows.len() {
                    if row != self.list.index() {
                        self.doc_top = 0;
                    }
                    let rows = &self.rows;
                    self.list.select_index(row, rows.len(), |n| rows[n].clone());
                    return matches!(gesture, Gesture::DoubleClick(_));
                }
            }
            Gesture::Click(_) if inside(regions.head) => self.filter.begin(),
            _ => {}
        }
        false
    }

    /// Draws head line, divider and detail; the pane draws the rows.
    pub fn render_frame(
        &self,
        cx: &Cx<'_>,
        summary: &Ink,
        total: usize,
        area: Rect,
        buf: &mut Buffer,
    ) {
        let regions = self.regions(area);
        self.render_head(cx, summary, total, regions.head, buf);
        if let Some(divider) = regions.divider {
            super::vertical_rule(cx, divider, buf);
        }
        if let Some(detail) = regions.detail {
            self.doc.render(cx, self.doc_top, detail, buf);
            super::scroll_bar(cx, self.doc.len(), self.doc_top, detail, buf);
        }
        super::scroll_bar(cx, self.rows.len(), self.list.top(), regions.list, buf);
    }

    fn render_head(&self, cx: &Cx<'_>, summary: &Ink, total: usize, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        if !self.filter.editing && self.filter.text().is_empty() {
            Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis).put(summary, cx.style(Role::Muted));
            return;
        }
        let count = ink!("{} of {} ", self.rows.len(), total);
        let room = area.width.saturating_sub(super::width(&count) + 4);
        let mut pen = Pen::new(buf, area);
        pen.put("/ ", cx.style(Role::Accent));
        if !self.filter.editing {
            pen.clip(Ink::line(self.filter.text()), room, cx.style(Role::Text));
        }
        pen.flush_right(count, cx.style(Role::Muted));
        if self.filter.editing {
            let input = Rect { x: area.x + 2, width: room.min(area.width), height: 1, ..area };
            self.filter.render(input.intersection(area), buf, cx.style(Role::Input));
        }
    }

    /// Draws visible rows through `paint`, which gets a pen behind the cursor column, the id and
    /// the style the row stands on.
    pub fn render_rows(
        &self,
        cx: &Cx<'_>,
        area: Rect,
        buf: &mut Buffer,
        mut paint: impl FnMut(&mut Pen<'_>, &I),
    ) {
        let list = self.regions(area).list;
        for (row, index) in self.list.window(self.rows.len(), usize::from(list.height)).enumerate()
        {
            let line = Rect { y: list.y + row as u16, height: 1, ..list };
            let selected = self.selected() == Some(&self.rows[index]);
            let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
            pen.put(if selected { cx.glyphs.cursor } else { " " }, cx.style(Role::Accent));
            paint(&mut pen, &self.rows[index]);
            if selected {
                pen.row_style(cx.selection(self.part == Part::List));
            }
        }
    }
}

// State of a list: the selected row by id, and the scroll position. Knows no drawing.

/// Selection and scroll of a list whose rows have ids. The selection is an id, never an index, so
/// that it stays on its row while others come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListState<I> {
    selected: Option<I>,
    /// Where the selected row was seen last; its neighbour is taken when it is gone.
    index: usize,
    top: usize,
}

impl<I> Default for ListState<I> {
    fn default() -> Self {
        Self::new()
    }
}

impl<I> ListState<I> {
    /// Nothing selected, at the top.
    pub const fn new() -> Self {
        Self { selected: None, index: 0, top: 0 }
    }
}

impl<I: Clone + PartialEq> ListState<I> {
    /// The selected id.
    pub const fn selected(&self) -> Option<&I> {
        self.selected.as_ref()
    }

    /// Where the selected row was seen last.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// First visible row.
    pub const fn top(&self) -> usize {
        self.top
    }

    /// Selects an id; [`ListState::sync`] brings it into sight.
    pub fn select(&mut self, id: I) {
        self.selected = Some(id);
    }

    /// Selects the row at an index.
    pub fn select_index(&mut self, index: usize, len: usize, id_at: impl Fn(usize) -> I) {
        if len == 0 {
            self.selected = None;
            self.index = 0;
        } else {
            self.index = index.min(len - 1);
            self.selected = Some(id_at(self.index));
        }
    }

    /// Moves the selection by rows, stopping at the ends.
    pub fn step(&mut self, delta: isize, len: usize, id_at: impl Fn(usize) -> I) {
        let target = if self.selected.is_none() && delta > 0 {
            0
        } else {
            self.index.saturating_add_signed(delta)
        };
        self.select_index(target, len, id_at);
    }

    /// Scrolls without moving the selection further than needed to stay visible.
    pub fn scroll(&mut self, delta: isize, len: usize, height: usize, id_at: impl Fn(usize) -> I) {
        let last = len.saturating_sub(height);
        self.top = self.top.saturating_add_signed(delta).min(last);
        let inside = self.index.clamp(self.top, (self.top + height.max(1) - 1).max(self.top));
        if inside != self.index {
            self.select_index(inside, len, id_at);
        }
    }

    /// Rows changed: finds the selected row again and brings it into sight. `find` gives the index
    /// of an id; the hint is where it was.
    pub fn sync(
        &mut self,
        len: usize,
        height: usize,
        find: impl Fn(&I, usize) -> Option<usize>,
        id_at: impl Fn(usize) -> I,
    ) {
        match self.selected.as_ref().and_then(|id| find(id, self.index)) {
            // Taken anew: an id may carry data of its row that changed.
            Some(index) => self.select_index(index, len, id_at),
            None => self.select_index(self.index, len, id_at),
        }
        self.reveal(len, height);
    }

    /// Scrolls so that the selected row is visible and no room is wasted at the end.
    pub fn reveal(&mut self, len: usize, height: usize) {
        let height = height.max(1);
        if self.index < self.top {
            self.top = self.index;
        } else if self.index >= self.top + height {
            self.top = self.index + 1 - height;
        }
        self.top = self.top.min(len.saturating_sub(height));
    }

    /// Visible rows.
    pub fn window(&self, len: usize, height: usize) -> Range<usize> {
        let top = self.top.min(len.saturating_sub(height.max(1)));
        top..(top + height).min(len)
    }
}

#[cfg(test)]
mod list_tests {
    use super::*;

    fn sync(state: &mut ListState<char>, rows: &[char], height: usize) {
        state.sync(rows.len(), height, |id, _| rows.iter().position(|r| r == id), |n| rows[n]);
    }

    #[test]
    fn the_selection_stays_on_its_row_while_others_come_and_go() {
        let mut state = ListState::default();
        sync(&mut state, &['a', 'b', 'c'], 2);
        state.step(1, 3, |n| ['a', 'b', 'c'][n]);
        sync(&mut state, &['x', 'y', 'a', 'b', 'c'], 2);
        assert_eq!((state.selected(), state.index()), (Some(&'b'), 3));
        assert!(state.window(5, 2).contains(&3));
    }

    #[test]
    fn when_its_row_is_gone_the_neighbour_takes_over() {
        let mut state = ListState::default();
        sync(&mut state, &['a', 'b', 'c'], 3);
        state.step(2, 3, |n| ['a', 'b', 'c'][n]);
        sync(&mut state, &['a', 'b'], 3);
        assert_eq!(state.selected(), Some(&'b'));
        sync(&mut state, &[], 3);
        assert_eq!(state.selected(), None);
    }

    #[test]
    fn scrolling_takes_the_selection_along_only_when_it_must() {
        let rows: Vec<usize> = (0..100).collect();
        let mut state = ListState::default();
        state.sync(100, 10, |id, _| Some(*id), |n| rows[n]);
        state.scroll(5, 100, 10, |n| rows[n]);
        assert_eq!((state.top(), state.selected()), (5, Some(&5)));
        state.scroll(-2, 100, 10, |n| rows[n]);
        assert_eq!((state.top(), state.selected()), (3, Some(&5)));
        state.scroll(1_000, 100, 10, |n| rows[n]);
        assert_eq!(state.window(100, 10), 90..100);
    }
}
