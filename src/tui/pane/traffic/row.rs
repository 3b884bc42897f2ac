//! Rows of the traffic list.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::Cx;
use crate::pane::traffic::TrafficPane;
use crate::prelude::*;
use crate::widget::{BrowserPart, BrowserRegions, FilterMatch, NO_MATCHES, Pen, scroll_bar, width};
use deck::has_failed;
use protocol::{CallId, Direction, MessageKind, TrafficRecord};

const TIME_COLUMNS: u16 = 12;
const SIZE_COLUMNS: u16 = 7;
const LATENCY_COLUMNS: u16 = 7;

pub(super) fn render(pane: &TrafficPane, cx: &Cx<'_>, regions: &BrowserRegions, buf: &mut Buffer) {
    let list = regions.list;
    if list.is_empty() {
        return;
    }
    let many = cx.model.scope.is_none() && cx.model.view.servers.len() > 1;
    let longest = cx.model.view.servers.keys().map(|name| width(&Model::name(name))).max();
    let columns = Columns {
        status: if pane.groups.rows == TrafficRows::Requests { 2 } else { 0 },
        ..Columns::fit(list.width, longest.filter(|_| many).unwrap_or(0))
    };
    let mut pen = Pen::new(buf, regions.columns).ellipsis(cx.glyphs.ellipsis);
    let faint = cx.style(Role::Faint);
    if let Some(problem) = &pane.stream.problem {
        pen.skip(2).put(Ink::line(problem), cx.style(Role::Error));
    } else {
        pen.skip(2).left("time", columns.time, faint).skip(3);
        if columns.server > 0 {
            pen.left("server", columns.server, faint).skip(1);
        }
        pen.skip(columns.status).put("message", faint);
        pen.column(list.width.saturating_sub(columns.after() + 1));
        if columns.size > 0 {
            pen.right("size", columns.size, faint).skip(1);
        }
        if columns.answer > 0 {
            pen.right("answer", columns.answer, faint).skip(1);
        }
        pen.right("took", LATENCY_COLUMNS, faint);
    }
    let look = (list, cx.selection(pane.split.part == BrowserPart::List));
    pane.stream.render(cx, look, buf, |pen, seq| {
        let Some(record) = cx.model.traffic.get(seq) else { return };
        let marked = pane.marked.contains(&seq);
        pen.put(if marked { cx.glyphs.mark } else { " " }, cx.style(Role::Accent));
        // A row of a single message is drawn like a message.
        let group = pane.groups.group_of(seq).filter(|group| !group.below.is_empty());
        let open = group.is_some_and(|group| pane.groups.is_open(group.head));
        let is_request = pane.groups.rows == TrafficRows::Requests;
        draw(record, seq, group.map(|group| (group, open, is_request)), cx, columns, pen);
    });
    scroll_bar(cx, pane.stream.len(), pane.stream.list.top(), list, buf);
    if pane.stream.is_empty() {
        let text = if !pane.stream.filter.is_empty() {
            cx.spelled(&[], NO_MATCHES)
        } else if cx.model.narrowed().is_empty() {
            ink!("No messages yet; messages of all servers are listed here")
        } else {
            ink!("No messages of the servers shown yet")
        };
        Pen::new(buf, list).at(2, 1).put(text, cx.style(Role::Faint));
    }
}

/// Cells of the columns; 0 leaves one out. The message gets what is left, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    time: u16,
    server: u16,
    size: u16,
    answer: u16,
    /// Whether a request was answered well, in a column of its own: the end of a long name is cut.
    status: u16,
}

impl Columns {
    /// `name` is the length of the longest server name; 0 if only one server is listed.
    fn fit(width: u16, name: u16) -> Self {
        let (time, server, size, answer) = match width {
            0..56 => (8, 0, 0, 0),
            56..66 => (8, 8, SIZE_COLUMNS, 0),
            66..76 => (8, 12, SIZE_COLUMNS, SIZE_COLUMNS),
            _ => (TIME_COLUMNS, 14, SIZE_COLUMNS, SIZE_COLUMNS),
        };
        Self { time, server: server.min(name), size, answer, status: 0 }
    }

    /// Cells after the message.
    fn after(self) -> u16 {
        let gap = |cells: u16| if cells > 0 { cells + 1 } else { 0 };
        gap(self.size) + gap(self.answer) + LATENCY_COLUMNS + 1
    }
}

/// Draws a message; the first one of a row represents all of it.
fn draw(
    record: &TrafficRecord,
    seq: u64,
    group: Option<(&TrafficGroup, bool, bool)>,
    cx: &Cx<'_>,
    columns: Columns,
    pen: &mut Pen<'_>,
) {
    let room = pen.position() + pen.room();
    pen.left(Model::time_in(record.at, columns.time), columns.time, cx.style(Role::Faint)).skip(1);
    let (sign, role) = cx.glyphs.direction(record.direction);
    pen.put(sign, cx.style(role)).skip(1);
    if columns.server > 0 {
        pen.middle(Model::name(&record.server), columns.server, cx.style(Role::Muted)).skip(1);
    }
    let end = room.saturating_sub(columns.after() + 2);
    let head = group.filter(|(group, ..)| group.head == seq);
    if columns.status > 0 {
        let (sign, role) = match head {
            Some((group, ..)) if group.failed => (cx.glyphs.down, Role::Error),
            Some(_) => (cx.glyphs.check, Role::Ok),
            None => (" ", Role::Faint),
        };
        pen.left(sign, columns.status, cx.style(role));
    }
    let (mut bytes, mut latency) = ((record.bytes, 0), record.latency);
    if let Some((group, open, is_request)) = head {
        latency = group.took;
        bytes = group.bytes;
        if !is_request {
            bytes = (group.bytes.0 + group.bytes.1, 0);
            let sign = if open { cx.glyphs.open } else { cx.glyphs.closed };
            pen.put(sign, cx.style(Role::Accent)).skip(1);
        }
    } else if group.is_some() {
        pen.skip(2).put(cx.glyphs.branch, cx.style(Role::Faint)).skip(1);
    }
    let text = pen.position();
    let problem = match head {
        Some((group, ..)) => (group.problem.as_ref(), group.failed || group.tolerated),
        None => (record.problem.as_ref(), has_failed(record) || record.tolerated),
    };
    let problem = problem.0.map(|text| (text, problem.1));
    // Of a line that is not JSON, its text says what is wrong.
    let problem = problem.filter(|_| record.kind != MessageKind::Junk);
    let remarked = problem.map_or(0, |(problem, _)| width(problem) + 4);
    message(record, remarked, cx, pen, end.saturating_sub(text));
    let left = |pen: &Pen<'_>| end.saturating_sub(pen.position());
    if let Some((problem, warns)) = problem {
        remark(problem, warns, cx, pen, left(pen));
    } else if let Some((group, _, false)) = head {
        let role = if group.failed { Role::Error } else { Role::Muted };
        let sign = if group.failed { cx.glyphs.warning } else { "" };
        let words = ink!("  {} {}", count(group.below.len() + 1, "message"), sign);
        pen.whole(words, left(pen), cx.style(role));
    }
    pen.column(end + 1);
    if columns.size > 0 {
        pen.right(ink!("{}", Bytes(bytes.0 as u64)), columns.size, cx.style(Role::Muted)).skip(1);
    }
    if columns.answer > 0 {
        let answer = if bytes.1 > 0 { ink!("{}", Bytes(bytes.1 as u64)) } else { ink!("") };
        pen.right(answer, columns.answer, cx.style(Role::Muted)).skip(1);
    }
    if let Some(latency) = latency {
        let slow = latency.as_millis() >= 1_000;
        let role = if slow { Role::Warning } else { Role::Muted };
        pen.right(ink!("{}", Dur(latency)), LATENCY_COLUMNS, cx.style(role));
    }
}

/// What is wrong with a row; what went as it should, for example the end of a subscription, is no
/// warning. Words of which only the beginning has room are left to the details.
fn remark(problem: &SafeText, warns: bool, cx: &Cx<'_>, pen: &mut Pen<'_>, room: u16) {
    /// Narrowest words that still say something.
    const MIN_WORDS_COLUMNS: u16 = 20;
    let (sign, role) = if warns { (cx.glyphs.warning, Role::Warning) } else { ("", Role::Muted) };
    let words = ink!("  {}{}{}", sign, if warns { " " } else { "" }, problem);
    let is_told = width(&words) <= room || room >= MIN_WORDS_COLUMNS;
    if is_told {
        pen.clip(words, room, cx.style(role));
    } else {
        let short = ink!("  {}", sign);
        let shorter = ink!(" {}", sign);
        pen.whole(if width(&short) <= room { short } else { shorter }, room, cx.style(role));
    }
}

/// A message; its number gives way to the `remarked` cells of what is to be said of it.
fn message(record: &TrafficRecord, remarked: u16, cx: &Cx<'_>, pen: &mut Pen<'_>, room: u16) {
    /// Cells that a sign needs.
    const SIGN_COLUMNS: u16 = 2;
    let room = room.saturating_sub(remarked.min(SIGN_COLUMNS));
    let end = pen.position() + room;
    let left = |pen: &Pen<'_>| end.saturating_sub(pen.position());
    let (word, role): (&'static str, Role) = match record.kind {
        MessageKind::Request => ("", Role::Text),
        MessageKind::Notification => ("~ ", Role::Muted),
        MessageKind::Response => ("= ", Role::Ok),
        MessageKind::Error => ("! ", Role::Error),
        MessageKind::Junk => ("non-JSON ", Role::Warning),
    };
    pen.clip(word, left(pen), cx.style(role));
    if record.kind == MessageKind::Junk {
        pen.clip(SafeText::cut(&record.body, 200), left(pen), cx.style(Role::Foreign));
        return;
    }
    if let Some(method) = &record.method {
        let role = if record.kind == MessageKind::Notification { Role::Muted } else { Role::Text };
        pen.clip(method, left(pen), cx.style(role));
    }
    if let Some(target) = &record.target {
        pen.clip(ink!(" {}", target), left(pen), cx.style(Role::Accent));
    }
    // A part of an id says nothing.
    if let Some(id) = &record.id {
        let room = left(pen).saturating_sub(remarked.saturating_sub(SIGN_COLUMNS));
        pen.whole(ink!(" #{}", id), room, cx.style(Role::Faint));
    }
}

// The line above the messages: filter, counts, and whether the list follows.

impl TrafficPane {
    pub(super) fn render_head(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let mut state = Ink::default();
        match self.groups.rows {
            TrafficRows::Requests => {}
            TrafficRows::Operations => _ = state.push("by operation  "),
            TrafficRows::Messages => _ = state.push("every message  "),
        }
        if !self.marked.is_empty() {
            state.push(ink!("{} marked  ", self.marked.len()));
        }
        let feed = &cx.model.traffic;
        let count = if self.groups.is_grouping() {
            ink!("{} of {}  ", count(self.stream.len(), "row"), count(feed.len(), "message"))
        } else {
            ink!("{} of {}  ", self.stream.len(), feed.len())
        };
        let hint = "server: tool: method: kind: status: duration:> size:> or text";
        self.stream.render_head(cx, hint, (feed, KeyScope::Traffic), (count, state), (area, buf));
    }
}

// Messages that share a row: a request and its answer; or, by operation, a call with its retries, the
// server's requests within it, progress and answer. A row unfolds. Draws nothing.

/// Number of rows of several messages beyond which those without any message left are dropped.
const MAX_GROUPS: usize = 20_000;

named! {
    /// What has a row of its own.
    #[derive(Default)]
    pub enum TrafficRows {
        /// A request, with its answer.
        #[default]
        Requests = "one row for each request, with its answer",
        /// An operation, with everything that belongs to it.
        Operations = "one row for each operation",
        /// Every message.
        Messages = "one row for each message",
    }
}

/// What messages of one row have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GroupKey {
    Call(CallId),
    Request(ServerName, Direction, SafeText),
}

/// The rows of several messages.
#[derive(Default)]
pub struct Groups {
    /// What has a row.
    pub rows: TrafficRows,
    /// By the sequence number of the first message.
    by_head: BTreeMap<u64, TrafficGroup>,
    /// The first messages that others can still join.
    heads: HashMap<GroupKey, u64>,
    /// The first message of each of the others.
    members: BTreeMap<u64, u64>,
    open: HashSet<u64>,
}

/// Messages that share a row.
#[derive(Debug, Default)]
pub struct TrafficGroup {
    /// Sequence number of its first message.
    pub head: u64,
    /// Sequence numbers of the others.
    pub below: Vec<u64>,
    /// The longest time between a request and its response.
    pub took: Option<Duration>,
    /// Bytes of the first message, and of the others.
    pub bytes: (usize, usize),
    /// Whether something went wrong in it.
    pub failed: bool,
    /// Whether something in it was used in spite of its problem.
    pub tolerated: bool,
    /// What is wrong with the last message that is not as it should be.
    pub problem: Option<SafeText>,
}

impl Groups {
    /// Goes on to the next kind of rows.
    pub fn turn(&mut self) {
        self.rows = TrafficRows::ALL[(self.rows as usize + 1) % TrafficRows::ALL.len()];
        self.open.clear();
        self.reset();
    }

    /// The filter changed: all messages are examined again.
    pub fn reset(&mut self) {
        self.by_head.clear();
        self.heads.clear();
        self.members.clear();
    }

    /// Whether messages share rows.
    pub fn is_grouping(&self) -> bool {
        self.rows != TrafficRows::Messages
    }

    /// How a message that passed the filter is listed; `first` is the oldest one kept.
    pub fn judge(&mut self, first: u64, seq: u64, record: &TrafficRecord) -> FilterMatch {
        let asked = |direction| {
            record.id.clone().map(|id| GroupKey::Request(record.server.clone(), direction, id))
        };
        let answers = matches!(record.kind, MessageKind::Response | MessageKind::Error);
        let (key, begins) = match self.rows {
            TrafficRows::Operations => (record.call.map(GroupKey::Call), false),
            TrafficRows::Requests if record.kind == MessageKind::Request => {
                (asked(record.direction), true)
            }
            TrafficRows::Requests if answers => {
                let other = match record.direction {
                    Direction::In => Direction::Out,
                    Direction::Out => Direction::In,
                };
                (asked(other), false)
            }
            TrafficRows::Messages | TrafficRows::Requests => (None, false),
        };
        let Some(key) = key else { return FilterMatch::Row };
        self.forget(first);
        let head = self.heads.get(&key).copied().filter(|head| !begins && *head >= first);
        let Some(head) = head else {
            // An answer without its request has a row of its own.
            if begins || self.rows == TrafficRows::Operations {
                self.heads.insert(key, seq);
                let group = TrafficGroup {
                    head: seq,
                    took: record.latency,
                    bytes: (record.bytes, 0),
                    failed: has_failed(record),
                    tolerated: record.tolerated,
                    problem: record.problem.clone(),
                    ..TrafficGroup::default()
                };
                self.by_head.insert(seq, group);
            }
            return FilterMatch::Row;
        };
        if self.rows == TrafficRows::Requests {
            // There is one answer; the id may be used again.
            self.heads.remove(&key);
        }
        let Some(group) = self.by_head.get_mut(&head) else { return FilterMatch::Row };
        group.bytes.1 += record.bytes;
        group.took = group.took.max(record.latency);
        group.failed |= has_failed(record);
        group.tolerated |= record.tolerated;
        if record.problem.is_some() {
            group.problem.clone_from(&record.problem);
        }
        group.below.push(seq);
        self.members.insert(seq, head);
        if self.open.contains(&head) { FilterMatch::Under(head) } else { FilterMatch::Out }
    }

    /// Drops rows without any message left, once there are many.
    fn forget(&mut self, first: u64) {
        let is_old = |head: Option<&u64>| head.is_some_and(|head| *head < first);
        if self.by_head.len() > MAX_GROUPS && is_old(self.by_head.keys().next()) {
            self.by_head = self.by_head.split_off(&first);
            self.members = self.members.split_off(&first);
            self.heads.retain(|_, head| *head >= first);
            self.open.retain(|head| *head >= first);
        }
    }

    /// The row that a message belongs to, if it shares one.
    pub fn group_of(&self, seq: u64) -> Option<&TrafficGroup> {
        self.by_head.get(self.members.get(&seq).unwrap_or(&seq))
    }

    /// Whether a row is unfolded.
    pub fn is_open(&self, head: u64) -> bool {
        self.open.contains(&head)
    }

    /// Unfolds or folds a row; returns it if that changes rows.
    pub fn set_open(&mut self, head: u64, open: bool) -> Option<&TrafficGroup> {
        let changed = if open { self.open.insert(head) } else { self.open.remove(&head) };
        self.by_head.get(&head).filter(|group| changed && !group.below.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_a_column_on_the_narrowest_screen_and_numbers_end_with_the_list() {
        for width in 39..200 {
            for name in [0, 6, 40] {
                let columns = Columns::fit(width, name);
                let server = if columns.server > 0 { columns.server + 1 } else { 0 };
                // Marks, time, direction, state; then the message; then the numbers.
                let before = 2 + columns.time + 3 + server + 2;
                let message = width.saturating_sub(before + columns.after() + 1);
                assert!(message >= 10, "{width} {columns:?}");
            }
        }
    }
}
