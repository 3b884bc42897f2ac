//! State of a list: the selected row by id, and the scroll position. Knows no drawing.

use std::ops::Range;

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
mod tests {
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
