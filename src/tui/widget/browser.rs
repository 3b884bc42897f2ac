//! A list with a detail beside or over it, as in most panes. Owns selection, scroll, filter line
//! and focus; the pane supplies rows, row painter and detail.

use std::ops::Range;

use crate::pane::{Cx, Gesture};
use crate::prelude::*;
use crate::widget::{Doc, DocView, Pen, TextInput};

/// Which part of a pane has the focus.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BrowserPart {
    /// The list.
    #[default]
    List,
    /// The detail.
    Detail,
}

/// How the pane's region is divided. Pure: the same for update and render.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrowserRegions {
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

/// Width from which list and detail are side by side.
const SIDE_BY_SIDE: u16 = 88;

/// Which of a list and its detail is shown, and which has the focus.
#[derive(Clone, Copy, Debug, Default)]
pub struct Split {
    /// Which part has the focus.
    pub part: BrowserPart,
    /// Whether the detail covers the list on a narrow screen.
    opened: bool,
    /// Whether the detail is hidden beside the list on a wide one.
    alone: bool,
}

impl Split {
    /// Whether both are shown in `area`.
    pub const fn is_beside(self, area: Rect) -> bool {
        area.width >= SIDE_BY_SIDE && !self.alone
    }

    /// The first `share` columns, the rule after them, and the rest.
    pub const fn beside(area: Rect, share: u16) -> [Rect; 3] {
        let x = area.x + share + 2;
        [
            Rect { width: share, ..area },
            Rect { x: area.x + share, width: 1, ..area },
            Rect { x, width: area.right() - x, ..area },
        ]
    }

    /// How `area` is divided; beside a detail the list has `share` columns.
    pub fn regions(self, area: Rect, share: u16) -> BrowserRegions {
        let (list, divider, detail) = if self.is_beside(area) {
            let [list, divider, detail] = Self::beside(area, share);
            (list, Some(divider), Some(detail))
        } else if self.opened {
            (Rect { width: 0, height: 0, ..area }, None, Some(area))
        } else {
            (area, None, None)
        };
        let head = Rect { height: list.height.min(1), ..list };
        let columns = Rect { y: list.y + head.height, height: (list.height > 3).into(), ..list };
        let used = head.height + columns.height;
        let list = Rect { y: list.y + used, height: list.height.saturating_sub(used), ..list };
        BrowserRegions { head, columns, list, divider, detail }
    }

    /// Focuses the detail, which covers the whole area if it does not fit beside the list.
    pub fn open(&mut self, area: Rect) {
        self.opened = !self.is_beside(area);
        self.part = BrowserPart::Detail;
    }

    /// Returns to the list.
    pub fn close(&mut self) {
        (self.opened, self.part) = (false, BrowserPart::List);
    }

    /// Leaves the detail, or shows or hides it beside the list; returns whether the action was one
    /// of these and had an effect.
    pub fn act(&mut self, action: Action) -> bool {
        match action {
            Action::ToggleDetail => {
                self.alone = !self.alone;
                self.part = BrowserPart::List;
            }
            Action::Left | Action::Back if self.part == BrowserPart::Detail || self.opened => {
                self.close();
            }
            _ => return false,
        }
        true
    }

    /// Moves the focus from the list to the detail beside it; returns whether there is one.
    pub fn focus_next(&mut self, area: Rect) -> bool {
        let inside = self.part == BrowserPart::List && self.is_beside(area);
        self.part = if inside { BrowserPart::Detail } else { BrowserPart::List };
        inside
    }
}

/// A list, its filter and its detail.
#[derive(Clone, Debug)]
pub struct Browser<I> {
    /// Selection and scroll.
    pub list: ListState<I>,
    /// Ids of the rows, in order, filtered.
    pub rows: Vec<I>,
    /// The filter line.
    pub filter: TextInput,
    /// What is shown, and what has the focus.
    pub split: Split,
    /// Cells the list can use; it gets them as long as the detail keeps enough.
    pub wants: u16,
    /// The detail.
    pub detail: DocView,
}

impl<I> Default for Browser<I> {
    fn default() -> Self {
        Self {
            list: ListState::default(),
            rows: Vec::new(),
            filter: TextInput::default(),
            split: Split::default(),
            wants: 0,
            detail: DocView::default(),
        }
    }
}

impl<I: Clone + PartialEq> Browser<I> {
    /// How `area` is divided.
    pub fn regions(&self, area: Rect) -> BrowserRegions {
        let share = if area.width >= 150 { area.width * 2 / 5 } else { area.width / 2 };
        let most = area.width.saturating_sub((area.width * 2 / 5).clamp(34, 80));
        self.split.regions(area, share.max(self.wants.min(most)))
    }

    /// Rows that fit the list.
    pub fn height(&self, area: Rect) -> usize {
        usize::from(self.regions(area).list.height)
    }

    /// Width of the detail's text; 0 when it is not shown.
    pub fn detail_width(&self, area: Rect) -> u16 {
        self.regions(area).detail.map_or(0, |detail| detail.width.saturating_sub(1))
    }

    /// Replaces the rows; selection and scroll follow.
    pub fn set_rows(&mut self, rows: Vec<I>, area: Rect) {
        self.rows = rows;
        self.sync(area);
    }

    /// Clamps selection and scroll to the rows.
    pub fn sync(&mut self, area: Rect) {
        let height = self.height(area);
        self.list.sync(&self.rows[..], height);
    }

    /// Replaces the detail; its scroll position is clamped.
    pub fn set_doc(&mut self, doc: Doc, area: Rect) {
        self.detail.doc = doc;
        self.scroll_detail(0, area);
    }

    /// Describes the selected row in the detail, if that is shown.
    pub fn describe(&mut self, area: Rect, of: impl FnOnce(Option<&I>, &mut Doc)) {
        let width = self.detail_width(area);
        if width > 0 {
            let mut doc = Doc::new(width);
            of(self.selected(), &mut doc);
            self.set_doc(doc, area);
        }
    }

    fn scroll_detail(&mut self, delta: isize, area: Rect) {
        self.detail.scroll(delta, self.regions(area).detail.map_or(0, |detail| detail.height));
    }

    /// The selected id.
    pub const fn selected(&self) -> Option<&I> {
        self.list.selected()
    }

    /// Handles the actions common to all lists; returns whether the action was one of these.
    pub fn act(&mut self, action: Action, area: Rect) -> bool {
        let regions = self.regions(area);
        let in_detail = regions.detail.filter(|_| self.split.part == BrowserPart::Detail);
        if let Some(delta) = in_detail.and_then(|detail| action.steps(detail.height as isize - 1)) {
            self.scroll_detail(delta, area);
            return true;
        }
        if let Some(delta) = action.steps(regions.list.height.max(2) as isize - 1) {
            self.step(delta, area);
            return true;
        }
        match action {
            Action::Open | Action::Right if !self.rows.is_empty() => self.split.open(area),
            Action::Filter => {
                self.filter.begin();
                self.split.close();
            }
            Action::ClearFilter => self.filter.set(""),
            action if self.split.act(action) => {}
            Action::Back if !self.filter.text().is_empty() => self.filter.set(""),
            _ => return false,
        }
        true
    }

    /// Moves the selection.
    pub fn step(&mut self, delta: isize, area: Rect) {
        let before = self.list.index();
        let height = self.height(area);
        self.list.step(delta, &self.rows[..], height);
        if self.list.index() != before {
            self.detail.top = 0;
        }
    }

    /// Handles the mouse; returns whether a row was opened by a double click.
    pub fn mouse(&mut self, gesture: Gesture, area: Rect) -> bool {
        let regions = self.regions(area);
        let inside = |r: Rect| r.contains(gesture.position());
        let in_detail = regions.detail.is_some_and(inside);
        match gesture {
            Gesture::Scroll { delta, .. } if in_detail => self.scroll_detail(delta, area),
            Gesture::Click(_) if in_detail => self.split.part = BrowserPart::Detail,
            Gesture::Click(_) if inside(regions.head) => self.filter.begin(),
            _ => {
                let before = self.list.index();
                let clicked = self.list.mouse(gesture, &self.rows[..], regions.list);
                if clicked {
                    self.split.part = BrowserPart::List;
                }
                if self.list.index() != before {
                    self.detail.top = 0;
                }
                return clicked && matches!(gesture, Gesture::DoubleClick(_));
            }
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
            self.detail.render(cx, detail, buf);
        }
        super::scroll_bar(cx, self.rows.len(), self.list.top(), regions.list, buf);
    }

    fn render_head(&self, cx: &Cx<'_>, summary: &Ink, total: usize, area: Rect, buf: &mut Buffer) {
        let typed = self.filter.text();
        if !area.is_empty() && !self.filter.editing && typed.is_empty() {
            Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis).put(summary, cx.style(Role::Muted));
        } else if !area.is_empty() {
            let right = [(ink!("{} of {} ", self.rows.len(), total), Role::Muted)];
            let text = (Ink::line(typed), Role::Text);
            super::filter_line(cx, &self.filter, text, &right, (area, buf));
        }
    }

    /// Draws why no row is listed: `nothing` if `total` is zero, otherwise that the filter hides
    /// them. Returns the number of lines used.
    pub fn render_empty(
        &self,
        cx: &Cx<'_>,
        (nothing, total): (&Ink, usize),
        area: Rect,
        buf: &mut Buffer,
    ) -> u16 {
        let list = self.regions(area).list;
        if !self.rows.is_empty() || list.is_empty() {
            return 0;
        }
        let hidden = cx.spelled(&[], super::NO_MATCHES);
        super::empty_text(cx, if total > 0 { &hidden } else { nothing }, list, buf)
    }

    /// Draws the visible rows through `paint`, which gets a pen after the cursor column, the id and
    /// the base style of the row.
    pub fn render_rows(
        &self,
        cx: &Cx<'_>,
        area: Rect,
        buf: &mut Buffer,
        mut paint: impl FnMut(&mut Pen<'_>, &I),
    ) {
        let area = self.regions(area).list;
        let style = cx.selection(self.split.part == BrowserPart::List);
        self.list
            .render(cx, &self.rows[..], (area, style), buf, |pen, n| paint(pen, &self.rows[n]));
    }
}

/// The scroll position nearest to `top` at which `row` is visible in a window of this height.
pub fn in_sight(top: usize, row: usize, height: usize) -> usize {
    top.min(row).max((row + 1).saturating_sub(height.max(1)))
}

// State of a list: the selected row by id, and the scroll position. Draws nothing.

/// The rows of a list by their ids: those of a slice, or computed ones.
pub trait RowSource {
    /// Identifies a row.
    type Id: Clone + PartialEq;

    /// How many there are.
    fn count(&self) -> usize;

    /// The id of a row.
    fn id(&self, row: usize) -> Self::Id;

    /// The row of an id; the hint is where it was.
    fn find(&self, id: &Self::Id, hint: usize) -> Option<usize>;
}

impl<I: Clone + PartialEq> RowSource for [I] {
    type Id = I;

    fn count(&self) -> usize {
        self.len()
    }

    fn id(&self, row: usize) -> I {
        self[row].clone()
    }

    fn find(&self, id: &I, hint: usize) -> Option<usize> {
        let here = self.get(hint).filter(|row| *row == id).map(|_| hint);
        here.or_else(|| self.iter().position(|row| row == id))
    }
}

/// Selection and scroll of a list whose rows have ids. The selection is an id, not an index, so
/// that it stays on its row while others come and go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListState<I> {
    selected: Option<I>,
    /// Last known index of the selected row; its neighbour is selected when it is gone.
    index: usize,
    top: usize,
}

impl<I> Default for ListState<I> {
    fn default() -> Self {
        Self { selected: None, index: 0, top: 0 }
    }
}

impl<I: Clone + PartialEq> ListState<I> {
    /// The selected id.
    pub const fn selected(&self) -> Option<&I> {
        self.selected.as_ref()
    }

    /// Last known index of the selected row.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// First visible row.
    pub const fn top(&self) -> usize {
        self.top
    }

    /// Selects an id; [`ListState::sync`] scrolls it into view.
    pub fn select(&mut self, id: I) {
        self.selected = Some(id);
    }

    /// Selects the row at an index.
    pub fn select_index(&mut self, index: usize, rows: &(impl RowSource<Id = I> + ?Sized)) {
        self.index = index.min(rows.count().saturating_sub(1));
        self.selected = (rows.count() > 0).then(|| rows.id(self.index));
    }

    /// Moves the selection by rows, stopping at the ends, and scrolls it into view.
    pub fn step(&mut self, delta: isize, rows: &(impl RowSource<Id = I> + ?Sized), height: usize) {
        let target = if self.selected.is_none() && delta > 0 {
            0
        } else {
            self.index.saturating_add_signed(delta)
        };
        self.select_index(target, rows);
        self.reveal(rows.count(), height);
    }

    /// Scrolls without moving the selection further than needed to stay visible.
    pub fn scroll(
        &mut self,
        delta: isize,
        rows: &(impl RowSource<Id = I> + ?Sized),
        height: usize,
    ) {
        let last = rows.count().saturating_sub(height);
        self.top = self.top.saturating_add_signed(delta).min(last);
        let inside = self.index.clamp(self.top, (self.top + height.max(1) - 1).max(self.top));
        if inside != self.index {
            self.select_index(inside, rows);
        }
    }

    /// Handles the wheel and clicks on the rows in an area; returns whether a row was clicked.
    pub fn mouse(
        &mut self,
        gesture: Gesture,
        rows: &(impl RowSource<Id = I> + ?Sized),
        area: Rect,
    ) -> bool {
        if let Gesture::Scroll { delta, .. } = gesture {
            self.scroll(delta, rows, usize::from(area.height));
            return false;
        }
        let at = gesture.position();
        let row = self.top + usize::from(at.y.saturating_sub(area.y));
        let clicked = area.contains(at) && row < rows.count();
        if clicked {
            self.select_index(row, rows);
        }
        clicked
    }

    /// Rows changed: finds the selected row again and scrolls it into view.
    pub fn sync(&mut self, rows: &(impl RowSource<Id = I> + ?Sized), height: usize) {
        let found = self.selected.as_ref().and_then(|id| rows.find(id, self.index));
        // The id is replaced, too: it may carry data of its row that changed.
        self.select_index(found.unwrap_or(self.index), rows);
        self.reveal(rows.count(), height);
    }

    /// Scrolls so that the selected row is visible and no space is wasted at the end.
    pub fn reveal(&mut self, len: usize, height: usize) {
        self.top = in_sight(self.top, self.index, height).min(len.saturating_sub(height.max(1)));
    }

    /// Visible rows.
    pub fn window(&self, len: usize, height: usize) -> Range<usize> {
        let top = self.top.min(len.saturating_sub(height.max(1)));
        top..(top + height).min(len)
    }

    /// Draws the visible rows of an area through `paint`, which gets a pen after the cursor column
    /// and the index of the row; the selected one is drawn in this style.
    pub fn render(
        &self,
        cx: &Cx<'_>,
        rows: &(impl RowSource<Id = I> + ?Sized),
        (area, selection): (Rect, Style),
        buf: &mut Buffer,
        mut paint: impl FnMut(&mut Pen<'_>, usize),
    ) {
        let window = self.window(rows.count(), usize::from(area.height));
        for (y, row) in (area.y..).zip(window) {
            let selected = self.selected.as_ref() == Some(&rows.id(row));
            let line = Rect { y, height: 1, ..area };
            let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
            pen.put(if selected { cx.glyphs.cursor } else { " " }, cx.style(Role::Accent));
            paint(&mut pen, row);
            if selected {
                pen.row_style(selection);
            }
        }
    }
}

#[cfg(test)]
mod list_tests {
    use super::*;

    fn sync(state: &mut ListState<char>, rows: &[char], height: usize) {
        state.sync(rows, height);
    }

    #[test]
    fn the_selection_stays_on_its_row_while_others_come_and_go() {
        let mut state = ListState::default();
        sync(&mut state, &['a', 'b', 'c'], 2);
        state.step(1, &['a', 'b', 'c'][..], 2);
        sync(&mut state, &['x', 'y', 'a', 'b', 'c'], 2);
        assert_eq!((state.selected(), state.index()), (Some(&'b'), 3));
        assert!(state.window(5, 2).contains(&3));
    }

    #[test]
    fn when_its_row_is_gone_the_neighbour_takes_over() {
        let mut state = ListState::default();
        sync(&mut state, &['a', 'b', 'c'], 3);
        state.step(2, &['a', 'b', 'c'][..], 3);
        sync(&mut state, &['a', 'b'], 3);
        assert_eq!(state.selected(), Some(&'b'));
        sync(&mut state, &[], 3);
        assert_eq!(state.selected(), None);
    }

    #[test]
    fn scrolling_takes_the_selection_along_only_when_it_must() {
        let rows: Vec<usize> = (0..100).collect();
        let mut state = ListState::default();
        state.sync(&rows[..], 10);
        state.scroll(5, &rows[..], 10);
        assert_eq!((state.top(), state.selected()), (5, Some(&5)));
        state.scroll(-2, &rows[..], 10);
        assert_eq!((state.top(), state.selected()), (3, Some(&5)));
        state.scroll(1_000, &rows[..], 10);
        assert_eq!(state.window(100, 10), 90..100);
    }
}
