//! A window over an endless feed: an incremental index of what the filter lets through, follow and
//! freeze, selection by sequence number. Never touches more than the visible rows per frame, and
//! never scans more than a budget per update.

use std::cell::Cell;
use std::collections::VecDeque;

use crate::tui::action::Action;
use crate::tui::ink::{Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Feed;
use crate::tui::pane::Cx;
use crate::tui::widget::ListState;

/// Records looked at per update while an index is built.
pub const BUDGET: u64 = 50_000;

/// State of a list over a feed.
#[derive(Debug)]
pub struct Stream {
    /// Selection and scroll.
    pub list: ListState<u64>,
    /// Whether the end is followed.
    pub follow: bool,
    /// End of what is shown while it is frozen.
    pub frozen: Option<u64>,
    /// Matches in the order of their rows: the sequence number they stand under (their own, when
    /// they stand alone), then their own. Unused without a filter.
    matched: VecDeque<(u64, u64)>,
    /// Up to where the feed was looked at.
    scanned: u64,
    filtered: bool,
    first: u64,
    end: u64,
    /// Rows handed out for drawing, ever: what tests count.
    pub touched: Cell<u64>,
}

impl Default for Stream {
    fn default() -> Self {
        Self {
            list: ListState::default(),
            follow: true,
            frozen: None,
            matched: VecDeque::new(),
            scanned: 0,
            filtered: false,
            first: 0,
            end: 0,
            touched: Cell::new(0),
        }
    }
}

/// What a filter says of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is no row.
    Out,
    /// It is a row of its own.
    Row,
    /// It is a row below the row of that sequence number.
    Under(u64),
}

/// A filter: what a record of this sequence number is to the list.
pub type Judge<'a, T> = &'a mut dyn FnMut(u64, &T) -> Verdict;

/// Whether the index has caught up with the feed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It has.
    Done,
    /// More is to be looked at in the next update.
    More,
}

impl Stream {
    /// The filter changed: what matched so far is worth nothing.
    pub fn reset(&mut self) {
        self.matched.clear();
        self.scanned = 0;
    }

    /// Brings the index up to date within the budget. Without a filter (`None`) every record is a
    /// row and nothing is looked at.
    pub fn sync<T>(
        &mut self,
        feed: &Feed<T>,
        filter: Option<Judge<'_, T>>,
        height: usize,
    ) -> Progress {
        if self.filtered != filter.is_some() {
            self.filtered = filter.is_some();
            self.reset();
        }
        self.first = feed.first();
        self.end = self.frozen.unwrap_or(u64::MAX).min(feed.end()).max(self.first);
        let mut progress = Progress::Done;
        if let Some(filter) = filter {
            while self.matched.front().is_some_and(|row| row.0 < self.first) {
                self.matched.pop_front();
            }
            let from = self.scanned.max(self.first);
            let upto = self.end.min(from + BUDGET);
            for (seq, record) in feed.from(from).take((upto.saturating_sub(from)) as usize) {
                match filter(seq, record) {
                    Verdict::Out => {}
                    Verdict::Row => self.matched.push_back((seq, seq)),
                    Verdict::Under(head) => self.insert((head, seq)),
                }
            }
            self.scanned = upto.max(from);
            if self.scanned < self.end {
                progress = Progress::More;
            }
        }
        self.follow_up(height);
        progress
    }

    fn insert(&mut self, row: (u64, u64)) {
        let at = self.matched.partition_point(|other| *other < row);
        if self.matched.get(at) != Some(&row) {
            self.matched.insert(at, row);
        }
    }

    /// Puts rows below a row.
    pub fn unfold(&mut self, head: u64, below: &[u64]) {
        for seq in below {
            self.insert((head, *seq));
        }
    }

    /// Takes the rows below a row away; gives whether there were any.
    pub fn fold(&mut self, head: u64) -> bool {
        let before = self.matched.len();
        let from = self.matched.partition_point(|row| *row <= (head, head));
        let upto = self.matched.partition_point(|row| row.0 <= head);
        self.matched.drain(from..upto.max(from));
        self.matched.len() < before
    }

    /// The row that a row stands under; itself when it stands alone.
    pub fn head_of(&self, seq: u64) -> u64 {
        let index = self.list.index();
        match self.matched.get(index).filter(|row| self.filtered && row.1 == seq) {
            Some((head, _)) => *head,
            None => seq,
        }
    }

    fn follow_up(&mut self, height: usize) {
        let len = self.len();
        let mut list = std::mem::take(&mut self.list);
        if self.follow && self.frozen.is_none() {
            list.select_index(len.saturating_sub(1), len, |n| self.seq(n));
        }
        list.sync(len, height, |seq, _| self.index_of(*seq), |n| self.seq(n));
        self.list = list;
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        if self.filtered { self.visible_matches() } else { (self.end - self.first) as usize }
    }

    fn visible_matches(&self) -> usize {
        match self.frozen {
            Some(end) => self.matched.partition_point(|row| row.0 < end),
            None => self.matched.len(),
        }
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sequence number of a row.
    pub fn seq(&self, row: usize) -> u64 {
        if self.filtered {
            self.matched.get(row).map(|row| row.1).unwrap_or_default()
        } else {
            self.first + row as u64
        }
    }

    /// Row of a sequence number, or of the next one after it when it has no row.
    pub fn index_of(&self, seq: u64) -> Option<usize> {
        let len = self.len();
        let row = if self.filtered {
            // The selected row most often is where it was; a row below another is looked for.
            let near = self.list.index();
            let is_here = |row: usize| self.matched.get(row).is_some_and(|row| row.1 == seq);
            let alone = self.matched.partition_point(|other| *other < (seq, seq));
            if is_here(near) {
                near
            } else if is_here(alone) {
                alone
            } else {
                { self.matched.iter() }.position(|row| row.1 == seq).unwrap_or(alone)
            }
        } else {
            seq.saturating_sub(self.first) as usize
        };
        (len > 0).then(|| row.min(len - 1))
    }

    /// Whether a sequence number has a row of its own.
    pub fn has(&self, seq: u64) -> bool {
        self.index_of(seq).is_some_and(|row| self.seq(row) == seq)
    }

    /// The selected sequence number.
    pub const fn selected(&self) -> Option<u64> {
        match self.list.selected() {
            Some(seq) => Some(*seq),
            None => None,
        }
    }

    /// Rows to draw: sequence numbers from the top of the window.
    pub fn window(&self, height: usize) -> impl Iterator<Item = u64> + '_ {
        self.list.window(self.len(), height).map(|row| {
            self.touched.set(self.touched.get() + 1);
            self.seq(row)
        })
    }

    /// Moves, follows, freezes; gives whether the action was one of these.
    pub fn act(&mut self, action: Action, height: usize, feed_end: u64) -> bool {
        if let Some(delta) = action.steps(height.max(2) as isize - 1) {
            self.step(delta, height);
            self.follow |= action == Action::Bottom;
            return true;
        }
        match action {
            Action::Follow => {
                self.follow = !self.follow;
                if self.follow {
                    self.frozen = None;
                }
            }
            Action::Freeze => {
                self.frozen = if self.frozen.is_some() { None } else { Some(feed_end) };
            }
            _ => return false,
        }
        true
    }

    /// Moves the selection; going up stops following.
    pub fn step(&mut self, delta: isize, height: usize) {
        let len = self.len();
        let mut list = std::mem::take(&mut self.list);
        list.step(delta, len, |n| self.seq(n));
        list.reveal(len, height);
        self.list = list;
        if delta < 0 {
            self.follow = false;
        }
    }

    /// Selects a record; stops following.
    pub fn jump(&mut self, seq: u64, height: usize) {
        self.follow = false;
        self.list.select(seq);
        let len = self.len();
        let mut list = std::mem::take(&mut self.list);
        list.sync(len, height, |seq, _| self.index_of(*seq), |n| self.seq(n));
        self.list = list;
    }

    /// Scrolls by the wheel; going up stops following.
    pub fn scroll(&mut self, delta: isize, height: usize) {
        let len = self.len();
        let mut list = std::mem::take(&mut self.list);
        list.scroll(delta, len, height, |n| self.seq(n));
        self.list = list;
        self.follow = self.follow && delta > 0;
    }

    /// Selects the row at a line of the window.
    pub fn click(&mut self, line: usize) {
        let len = self.len();
        let row = self.list.top() + line;
        if row < len {
            self.follow = false;
            let mut list = std::mem::take(&mut self.list);
            list.select_index(row, len, |n| self.seq(n));
            self.list = list;
        }
    }

    /// Records that came since the list was frozen.
    pub fn behind(&self, feed_end: u64) -> u64 {
        self.frozen.map_or(0, |end| feed_end.saturating_sub(end))
    }

    /// Whether it is frozen or follows, in words, with the key of this scope that makes it follow.
    pub fn state(&self, cx: &Cx<'_>, feed_end: u64, scope: Scope) -> Ink {
        match (self.frozen, self.follow) {
            (Some(_), _) => {
                ink!("{} paused, {} newer ", cx.glyphs.frozen, self.behind(feed_end))
            }
            (None, true) => ink!("{} following ", cx.glyphs.follow),
            (None, false) => {
                ink!("not following, {}", cx.spelled(&[scope], "{follow} follows "))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::ring::Batch;

    fn feed(n: u64) -> Feed<u64> {
        let mut feed = Feed::default();
        let items = (0..n).map(Arc::new).collect();
        feed.take(Batch { items, first: 0, next: n, missed: 0 }, 0);
        feed
    }

    fn more(feed: &mut Feed<u64>, n: u64) {
        let first = feed.end();
        let items = (first..first + n).map(Arc::new).collect();
        feed.take(Batch { items, first, next: first + n, missed: 0 }, 0);
    }

    #[test]
    fn a_frame_over_a_million_lines_touches_the_visible_rows_alone() {
        let feed = feed(1_000_000);
        let mut stream = Stream::default();
        stream.sync(&feed, None, 40);
        assert_eq!(stream.window(40).last(), Some(999_999));
        assert_eq!(stream.touched.get(), 40);
    }

    #[test]
    fn an_index_is_built_in_budgets_and_only_what_is_new_is_looked_at() {
        let mut feed = feed(120_000);
        let looked = Cell::new(0u64);
        let mut even = |_: u64, n: &u64| {
            looked.set(looked.get() + 1);
            if n.is_multiple_of(2) { Verdict::Row } else { Verdict::Out }
        };
        let mut stream = Stream::default();
        assert_eq!(stream.sync(&feed, Some(&mut even), 10), Progress::More);
        assert_eq!(looked.get(), BUDGET);
        stream.sync(&feed, Some(&mut even), 10);
        assert_eq!(stream.sync(&feed, Some(&mut even), 10), Progress::Done);
        assert_eq!((stream.len(), looked.get()), (60_000, 120_000));
        more(&mut feed, 10);
        stream.sync(&feed, Some(&mut even), 10);
        assert_eq!((stream.len(), looked.get()), (60_005, 120_010));
    }

    #[test]
    fn rows_below_a_row_come_and_go_and_the_selection_stays_on_its_row() {
        let mut feed = feed(10);
        let mut stream = Stream::default();
        // Rows of their own: 0, 3, 6, 9; the others belong below the last of these.
        let mut judge = |seq: u64, _: &u64| {
            if seq.is_multiple_of(3) { Verdict::Row } else { Verdict::Out }
        };
        stream.sync(&feed, Some(&mut judge), 20);
        let rows = |stream: &Stream| stream.window(20).collect::<Vec<_>>();
        stream.jump(6, 20);
        stream.unfold(3, &[4, 5]);
        stream.sync(&feed, Some(&mut judge), 20);
        assert_eq!((rows(&stream), stream.selected()), (vec![0, 3, 4, 5, 6, 9], Some(6)));
        more(&mut feed, 1);
        let mut late = |_: u64, _: &u64| Verdict::Under(3);
        stream.sync(&feed, Some(&mut late), 20);
        assert_eq!(rows(&stream), [0, 3, 4, 5, 10, 6, 9]);
        stream.jump(10, 20);
        assert_eq!((stream.selected(), stream.head_of(10)), (Some(10), 3));
        assert!(stream.fold(3) && !stream.fold(3));
        assert_eq!(rows(&stream), [0, 3, 6, 9]);
    }

    #[test]
    fn following_ends_when_one_goes_up_and_begins_again_at_the_end() {
        let mut feed = feed(100);
        let mut stream = Stream::default();
        stream.sync(&feed, None, 10);
        stream.act(Action::Up, 10, 100);
        more(&mut feed, 50);
        stream.sync(&feed, None, 10);
        assert_eq!((stream.selected(), stream.follow), (Some(98), false));
        stream.act(Action::Bottom, 10, 150);
        more(&mut feed, 50);
        stream.sync(&feed, None, 10);
        assert_eq!((stream.selected(), stream.follow), (Some(199), true));
    }

    #[test]
    fn a_frozen_list_stands_still_and_counts_what_came() {
        let mut feed = feed(100);
        let mut stream = Stream::default();
        stream.sync(&feed, None, 10);
        stream.act(Action::Freeze, 10, 100);
        more(&mut feed, 30);
        stream.sync(&feed, None, 10);
        assert_eq!((stream.len(), stream.behind(feed.end())), (100, 30));
    }
}
