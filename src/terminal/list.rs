//! A list: the selected row by its id, the scroll position, and what keys do to them.

use std::ops::Range;

use crate::gesture::Gesture;
use crate::look::Look;
use crate::pen::Pen;
use crate::prelude::*;

/// What a list or a text can do on a key, whatever the key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrowseAction {
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Left,
    Right,
    Open,
    Back,
    Filter,
    ClearFilter,
    ToggleDetail,
}

impl BrowseAction {
    /// Rows to move, if it moves by rows; `page` is the height of a page.
    pub const fn steps(self, page: isize) -> Option<isize> {
        match self {
            Self::Up => Some(-1),
            Self::Down => Some(1),
            Self::PageUp => Some(-page),
            Self::PageDown => Some(page),
            Self::Top => Some(isize::MIN / 2),
            Self::Bottom => Some(isize::MAX / 2),
            Self::Left
            | Self::Right
            | Self::Open
            | Self::Back
            | Self::Filter
            | Self::ClearFilter
            | Self::ToggleDetail => None,
        }
    }
}

/// An application's own actions, some of which are those of lists.
pub trait ToBrowse: Copy {
    /// The action of a list that it stands for, if it is one.
    fn to_browse(self) -> Option<BrowseAction>;
}

impl ToBrowse for BrowseAction {
    fn to_browse(self) -> Option<BrowseAction> {
        Some(self)
    }
}

/// The scroll position nearest to `top` at which `row` is visible in a window of this height.
pub fn in_sight(top: usize, row: usize, height: usize) -> usize {
    top.min(row).max((row + 1).saturating_sub(height.max(1)))
}

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
        look: &Look<'_>,
        rows: &(impl RowSource<Id = I> + ?Sized),
        (area, selection): (Rect, Style),
        buf: &mut Buffer,
        mut paint: impl FnMut(&mut Pen<'_>, usize),
    ) {
        let window = self.window(rows.count(), usize::from(area.height));
        for (y, row) in (area.y..).zip(window) {
            let selected = self.selected.as_ref() == Some(&rows.id(row));
            let line = Rect { y, height: 1, ..area };
            let mut pen = Pen::new(buf, line).ellipsis(look.glyphs.ellipsis);
            pen.put(if selected { look.glyphs.cursor } else { " " }, look.style(Role::Accent));
            paint(&mut pen, row);
            if selected {
                select_row(line, selection, buf);
            }
        }
    }
}

/// Gives a row the style of the selected one. What has a ground of its own keeps its colours: on
/// another ground they might not be read.
fn select_row(line: Rect, selection: Style, buf: &mut Buffer) {
    let line = line.intersection(buf.area);
    let Some(ground) = line.positions().next().map(|at| buf[at].bg) else { return };
    for at in line.positions() {
        if buf[at].bg == ground {
            buf[at].set_style(selection);
        }
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Color;

    use super::*;

    fn sync(state: &mut ListState<char>, rows: &[char], height: usize) {
        state.sync(rows, height);
    }

    #[test]
    fn what_was_found_keeps_its_colours_on_the_selected_row() {
        let line = Rect::new(0, 0, 4, 1);
        let mut buf = Buffer::empty(line);
        let found = Style::new().fg(Color::Black).bg(Color::Yellow);
        buf.set_style(line, Style::new().fg(Color::White));
        buf.set_style(Rect::new(1, 0, 2, 1), found);
        select_row(line, Style::new().bg(Color::Blue), &mut buf);
        let colours: Vec<_> = (0..4).map(|x| (buf[(x, 0)].fg, buf[(x, 0)].bg)).collect();
        let (rest, found) = ((Color::White, Color::Blue), (Color::Black, Color::Yellow));
        assert_eq!(colours, [rest, found, found, rest]);
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
