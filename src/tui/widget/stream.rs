//! A window over an unbounded feed: an incremental index of the records that pass the filter,
//! follow and freeze, selection by sequence number. Never touches more than the visible rows per
//! frame, and never scans more than a budget per update.

use std::collections::{BTreeSet, VecDeque};

use crate::filter::Filter;
use crate::keymap::KeyScope;
use crate::model::{Feed, Model};
use crate::pane::{Cx, Gesture};
use crate::prelude::*;
use crate::widget::{ListState, Pen, TextInput, filter_line};
use terminal::list::RowSource;

/// Records examined per update while an index is built.
pub const MAX_EXAMINED_RECORDS: u64 = 50_000;

/// State of a list over a feed.
#[derive(Debug)]
pub struct StreamList {
    /// Selection and scroll.
    pub list: ListState<u64>,
    /// Whether the end is followed.
    pub follow: bool,
    /// The filter line.
    pub input: TextInput,
    /// The last valid filter.
    pub filter: Filter,
    /// The text to search for besides the filter.
    pub needle: String,
    /// What is wrong with the filter line.
    pub problem: Option<String>,
    typed: String,
    /// Servers and minimum level the rows were built for.
    built_for: (BTreeSet<ServerName>, usize),
    index: Index,
}

impl Default for StreamList {
    fn default() -> Self {
        Self {
            list: ListState::default(),
            follow: true,
            input: TextInput::default(),
            filter: Filter::default(),
            needle: String::new(),
            problem: None,
            typed: String::new(),
            built_for: Default::default(),
            index: Index::default(),
        }
    }
}

/// The index of rows.
#[derive(Debug, Default)]
struct Index {
    /// End of the shown records while it is frozen.
    frozen: Option<u64>,
    /// Matches in row order: the sequence number of their head row (their own, if they have none),
    /// then their own. Unused without a filter.
    matched: VecDeque<(u64, u64)>,
    /// The feed has been examined up to here.
    scanned: u64,
    filtered: bool,
    first: u64,
    end: u64,
}

impl Index {
    fn reset(&mut self) {
        self.matched.clear();
        self.scanned = 0;
    }

    fn insert(&mut self, row: (u64, u64)) {
        let at = self.matched.partition_point(|other| *other < row);
        if self.matched.get(at) != Some(&row) {
            self.matched.insert(at, row);
        }
    }
}

impl RowSource for Index {
    type Id = u64;

    fn count(&self) -> usize {
        match self.frozen {
            _ if !self.filtered => (self.end - self.first) as usize,
            Some(end) => self.matched.partition_point(|row| row.0 < end),
            None => self.matched.len(),
        }
    }

    fn id(&self, row: usize) -> u64 {
        if self.filtered {
            self.matched.get(row).map(|row| row.1).unwrap_or_default()
        } else {
            self.first + row as u64
        }
    }

    /// The row of a sequence number, or of the next one if it has no row.
    fn find(&self, seq: &u64, hint: usize) -> Option<usize> {
        let row = if self.filtered {
            // The selected row usually has not moved; a row below another has to be searched for.
            let is_here = |row: usize| self.matched.get(row).is_some_and(|row| row.1 == *seq);
            let alone = self.matched.partition_point(|other| *other < (*seq, *seq));
            let near = [hint, alone].into_iter().find(|row| is_here(*row));
            let below = || self.matched.iter().position(|row| row.1 == *seq);
            near.or_else(below).unwrap_or(alone)
        } else {
            seq.saturating_sub(self.first) as usize
        };
        self.count().checked_sub(1).map(|last| row.min(last))
    }
}

/// How a record is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterMatch {
    /// Not listed.
    Out,
    /// A row of its own.
    Row,
    /// A row below the row of this sequence number.
    Under(u64),
}

/// A filter: decides how the record of a sequence number is listed.
pub type StreamFilter<'a, T> = &'a mut dyn FnMut(u64, &T) -> FilterMatch;

impl StreamList {
    /// The filter changed: discards all matches.
    pub fn reset(&mut self) {
        self.index.reset();
    }

    /// Reads the filter line if it changed; the last valid filter stays in use while another is
    /// typed. With another filter, other servers or another level all rows are examined again;
    /// returns whether that is so.
    pub fn read(
        &mut self,
        model: &Model,
        level: usize,
        parse: impl FnOnce(&str) -> Result<(Filter, String), String>,
    ) -> bool {
        let built_for = (model.narrowed(), level);
        let mut is_other = self.built_for != built_for;
        self.built_for = built_for;
        if self.typed != self.input.text() {
            self.input.text().clone_into(&mut self.typed);
            match parse(&self.typed) {
                Ok((filter, needle)) => {
                    is_other |= filter != self.filter;
                    (self.filter, self.needle, self.problem) = (filter, needle, None);
                }
                Err(problem) => self.problem = Some(problem),
            }
        }
        if is_other {
            self.reset();
        }
        is_other
    }

    /// Brings the rows up to date: records of the servers in scope that `judge` lets through, or
    /// all if nothing is narrowed and `judges` is false.
    pub fn update<T>(
        &mut self,
        (model, feed): (&Model, &Feed<T>),
        judges: bool,
        of: fn(&T) -> Option<&ServerName>,
        mut judge: impl FnMut(&Filter, u64, &T) -> FilterMatch,
        height: usize,
    ) {
        let (filter, narrowed) = (self.filter.clone(), self.built_for.0.clone());
        let is_all = !judges && narrowed.is_empty() && filter.is_empty();
        let mut judge = |seq: u64, record: &T| {
            let here =
                narrowed.is_empty() || of(record).is_some_and(|server| narrowed.contains(server));
            if here { judge(&filter, seq, record) } else { FilterMatch::Out }
        };
        let judge: Option<StreamFilter<'_, T>> = if is_all { None } else { Some(&mut judge) };
        if self.sync(feed, judge, height) {
            model.wake_soon();
        }
    }

    /// Brings the index up to date within the budget; returns whether more is left for the next
    /// update. Without a filter (`None`) every record is a row and none is examined.
    pub fn sync<T>(
        &mut self,
        feed: &Feed<T>,
        filter: Option<StreamFilter<'_, T>>,
        height: usize,
    ) -> bool {
        let index = &mut self.index;
        if index.filtered != filter.is_some() {
            index.filtered = filter.is_some();
            index.reset();
        }
        index.first = feed.first();
        index.end = index.frozen.unwrap_or(u64::MAX).min(feed.end()).max(index.first);
        let mut more = false;
        if let Some(filter) = filter {
            while index.matched.front().is_some_and(|row| row.0 < index.first) {
                index.matched.pop_front();
            }
            let from = index.scanned.max(index.first);
            let upto = index.end.min(from + MAX_EXAMINED_RECORDS);
            for (seq, record) in feed.from(from).take((upto.saturating_sub(from)) as usize) {
                match filter(seq, record) {
                    FilterMatch::Out => {}
                    FilterMatch::Row => index.matched.push_back((seq, seq)),
                    FilterMatch::Under(head) => index.insert((head, seq)),
                }
            }
            index.scanned = upto.max(from);
            more = index.scanned < index.end;
        }
        if self.follow && self.index.frozen.is_none() {
            self.list.select_index(self.index.count().saturating_sub(1), &self.index);
        }
        self.list.sync(&self.index, height);
        more
    }

    /// Shows these rows, in order, below a row.
    pub fn unfold(&mut self, head: u64, below: &[u64]) {
        self.fold(head);
        let matched = &mut self.index.matched;
        let at = matched.partition_point(|row| *row <= (head, head));
        let mut later = matched.split_off(at);
        matched.extend(below.iter().map(|seq| (head, *seq)));
        matched.append(&mut later);
    }

    /// Removes the rows below a row; returns whether there were any.
    pub fn fold(&mut self, head: u64) -> bool {
        let matched = &mut self.index.matched;
        let before = matched.len();
        let from = matched.partition_point(|row| *row <= (head, head));
        let upto = matched.partition_point(|row| row.0 <= head);
        matched.drain(from..upto.max(from));
        matched.len() < before
    }

    /// The head row of a row; itself if it has none.
    pub fn head_of(&self, seq: u64) -> u64 {
        let row = self.index.matched.get(self.list.index());
        let row = row.filter(|row| self.index.filtered && row.1 == seq);
        row.map_or(seq, |(head, _)| *head)
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.index.count()
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sequence number of a row.
    pub fn seq(&self, row: usize) -> u64 {
        self.index.id(row)
    }

    /// Whether a sequence number has a row of its own.
    pub fn has(&self, seq: u64) -> bool {
        self.index.find(&seq, self.list.index()).is_some_and(|row| self.seq(row) == seq)
    }

    /// The selected sequence number.
    pub fn selected(&self) -> Option<u64> {
        self.list.selected().copied()
    }

    /// Draws the visible rows through `paint`, which gets a pen after the cursor column.
    pub fn render(
        &self,
        cx: &Cx<'_>,
        look: (Rect, Style),
        buf: &mut Buffer,
        mut paint: impl FnMut(&mut Pen<'_>, u64),
    ) {
        self.list.render(cx, &self.index, look, buf, |pen, row| paint(pen, self.seq(row)));
    }

    /// Rows to draw: sequence numbers from the top of the window.
    pub fn window(&self, height: usize) -> impl Iterator<Item = u64> + '_ {
        self.list.window(self.len(), height).map(|row| self.seq(row))
    }

    /// Moves, follows, pauses, begins and clears the filter; returns whether the action was one of
    /// these.
    pub fn act(&mut self, action: Action, height: usize, feed_end: u64) -> bool {
        if let Some(delta) = action.steps(height.max(2) as isize - 1) {
            self.step(delta, height);
            self.follow |= action == Action::Bottom;
            return true;
        }
        let frozen = &mut self.index.frozen;
        match action {
            Action::Filter => self.input.begin(),
            Action::Back | Action::ClearFilter if !self.input.text().is_empty() => {
                self.input.set("");
            }
            Action::Follow => {
                self.follow = !self.follow;
                frozen.take_if(|_| self.follow);
            }
            Action::Freeze => *frozen = if frozen.is_some() { None } else { Some(feed_end) },
            _ => return false,
        }
        true
    }

    /// Moves the selection; going up stops following.
    pub fn step(&mut self, delta: isize, height: usize) {
        self.list.step(delta, &self.index, height);
        self.follow &= delta >= 0;
    }

    /// Selects a record; stops following.
    pub fn jump(&mut self, seq: u64, height: usize) {
        self.follow = false;
        self.list.select(seq);
        self.list.sync(&self.index, height);
    }

    /// Handles the wheel, and clicks on the rows in an area and on the filter line above; returns
    /// whether a row was clicked. A click or going up stops following.
    pub fn mouse(&mut self, gesture: Gesture, head: Rect, area: Rect) -> bool {
        if matches!(gesture, Gesture::Click(at) if head.contains(at)) {
            self.input.begin();
            return false;
        }
        let clicked = self.list.mouse(gesture, &self.index, area);
        let goes_up = matches!(gesture, Gesture::Scroll { delta, .. } if delta <= 0);
        self.follow &= !clicked && !goes_up;
        clicked
    }

    /// Records that arrived since the list was frozen.
    pub fn behind(&self, feed_end: u64) -> u64 {
        self.index.frozen.map_or(0, |end| feed_end.saturating_sub(end))
    }

    /// Whether it is frozen or follows, in words, with the key that makes it follow in this scope.
    pub fn state(&self, cx: &Cx<'_>, feed_end: u64, scope: KeyScope) -> Ink {
        match (self.index.frozen, self.follow) {
            (Some(_), _) => {
                ink!("{} paused, {} newer ", cx.glyphs.frozen, self.behind(feed_end))
            }
            (None, true) => ink!("{} following ", cx.glyphs.follow),
            (None, false) => {
                ink!("not following, {}", cx.spelled(&[scope], "{follow} follows "))
            }
        }
    }

    /// Draws the filter line with the state of the list at its right: `first`, then `state`, what
    /// was dropped, and whether the list follows. Returns where the filter is typed.
    pub fn render_head<T>(
        &self,
        cx: &Cx<'_>,
        hint: &'static str,
        (feed, scope): (&Feed<T>, KeyScope),
        (first, mut state): (Ink, Ink),
        (area, buf): (Rect, &mut Buffer),
    ) -> Rect {
        if feed.dropped() > 0 {
            state.push(ink!("{} dropped  ", feed.dropped()));
        }
        state.push(self.state(cx, feed.end(), scope));
        let role = if self.follow { Role::Muted } else { Role::Warning };
        let text = match (self.input.text(), &self.problem) {
            ("", _) if self.input.editing => (Ink::default(), Role::Faint),
            ("", _) => (ink!("{}", hint), Role::Faint),
            (text, None) => (Ink::line(text), Role::Text),
            (text, Some(_)) => (Ink::line(text), Role::Error),
        };
        filter_line(cx, &self.input, text, &[(first, Role::Muted), (state, role)], (area, buf))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use base::ring::Batch;

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
        let mut stream = StreamList::default();
        stream.sync(&feed, None, 40);
        let rows: Vec<u64> = stream.window(40).collect();
        assert_eq!((rows.len(), rows.last()), (40, Some(&999_999)));
    }

    #[test]
    fn an_index_is_built_in_budgets_and_only_what_is_new_is_looked_at() {
        let mut feed = feed(120_000);
        let looked = std::cell::Cell::new(0u64);
        let mut even = |_: u64, n: &u64| {
            looked.set(looked.get() + 1);
            if n.is_multiple_of(2) { FilterMatch::Row } else { FilterMatch::Out }
        };
        let mut stream = StreamList::default();
        assert!(stream.sync(&feed, Some(&mut even), 10), "more is to be looked at");
        assert_eq!(looked.get(), MAX_EXAMINED_RECORDS);
        stream.sync(&feed, Some(&mut even), 10);
        assert!(!stream.sync(&feed, Some(&mut even), 10), "all was looked at");
        assert_eq!((stream.len(), looked.get()), (60_000, 120_000));
        more(&mut feed, 10);
        stream.sync(&feed, Some(&mut even), 10);
        assert_eq!((stream.len(), looked.get()), (60_005, 120_010));
    }

    #[test]
    fn rows_below_a_row_come_and_go_and_the_selection_stays_on_its_row() {
        let mut feed = feed(10);
        let mut stream = StreamList::default();
        // Rows of their own: 0, 3, 6, 9; the others belong below the last of these.
        let mut judge = |seq: u64, _: &u64| {
            if seq.is_multiple_of(3) { FilterMatch::Row } else { FilterMatch::Out }
        };
        stream.sync(&feed, Some(&mut judge), 20);
        let rows = |stream: &StreamList| stream.window(20).collect::<Vec<_>>();
        stream.jump(6, 20);
        stream.unfold(3, &[4, 5]);
        stream.sync(&feed, Some(&mut judge), 20);
        assert_eq!((rows(&stream), stream.selected()), (vec![0, 3, 4, 5, 6, 9], Some(6)));
        more(&mut feed, 1);
        let mut late = |_: u64, _: &u64| FilterMatch::Under(3);
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
        let mut stream = StreamList::default();
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
        let mut stream = StreamList::default();
        stream.sync(&feed, None, 10);
        stream.act(Action::Freeze, 10, 100);
        more(&mut feed, 30);
        stream.sync(&feed, None, 10);
        assert_eq!((stream.len(), stream.behind(feed.end())), (100, 30));
    }
}
