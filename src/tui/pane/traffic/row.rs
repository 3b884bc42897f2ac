//! Rows of the traffic list.

use std::collections::{HashMap, HashSet};

use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::Cx;
use crate::pane::traffic::TrafficPane;
use crate::prelude::*;
use crate::widget::{BrowserPart, BrowserRegions, FilterMatch, NO_MATCHES, Pen, scroll_bar, width};
use mcp::{CallId, MessageKind, TrafficRecord};

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
    let columns = Columns::fit(list.width, longest.filter(|_| many).unwrap_or(0));
    let mut pen = Pen::new(buf, regions.columns).ellipsis(cx.glyphs.ellipsis);
    let faint = cx.style(Role::Faint);
    if let Some(problem) = &pane.stream.problem {
        pen.skip(2).put(Ink::line(problem), cx.style(Role::Error));
    } else {
        pen.skip(2).left("time", columns.time, faint).skip(3);
        if columns.server > 0 {
            pen.left("server", columns.server, faint).skip(1);
        }
        pen.put("message", faint);
        pen.column(list.width.saturating_sub(columns.after() + 1));
        if columns.size > 0 {
            pen.right("size", columns.size, faint).skip(1);
        }
        pen.right("took", LATENCY_COLUMNS, faint);
    }
    let look = (list, cx.selection(pane.split.part == BrowserPart::List));
    pane.stream.render(cx, look, buf, |pen, seq| {
        let Some(record) = cx.model.traffic.get(seq) else { return };
        let marked = pane.marked.contains(&seq);
        pen.put(if marked { cx.glyphs.mark } else { " " }, cx.style(Role::Accent));
        // An operation with a single message is drawn like a message without one.
        let group = pane.groups.of(record).filter(|group| !group.below.is_empty());
        let open = record.call.is_some_and(|call| pane.groups.is_open(call));
        draw(record, seq, group.map(|group| (group, open)), cx, columns, pen);
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
}

impl Columns {
    /// `name` is the length of the longest server name; 0 if only one server is listed.
    fn fit(width: u16, name: u16) -> Self {
        let (time, server, size) = match width {
            0..56 => (8, 0, 0),
            56..70 => (8, 8, SIZE_COLUMNS),
            _ => (TIME_COLUMNS, 14, SIZE_COLUMNS),
        };
        Self { time, server: server.min(name), size }
    }

    /// Cells after the message.
    const fn after(self) -> u16 {
        let size = if self.size > 0 { self.size + 1 } else { 0 };
        size + LATENCY_COLUMNS + 1
    }
}

/// Draws a message; the first one of an operation represents all of it.
fn draw(
    record: &TrafficRecord,
    seq: u64,
    group: Option<(&TrafficGroup, bool)>,
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
    let head = group.filter(|(group, _)| group.head == seq);
    let (mut bytes, mut latency) = (record.bytes, record.latency);
    if let Some((group, open)) = head {
        (bytes, latency) = (group.bytes, group.took);
        pen.put(if open { cx.glyphs.open } else { cx.glyphs.closed }, cx.style(Role::Accent));
        pen.skip(1);
    } else if group.is_some() {
        pen.skip(2).put(cx.glyphs.branch, cx.style(Role::Faint)).skip(1);
    }
    let text = pen.position();
    message(record, cx, pen, end.saturating_sub(text));
    if let Some((group, _)) = head {
        let left = end.saturating_sub(pen.position());
        let role = if group.failed { Role::Error } else { Role::Muted };
        let sign = if group.failed { cx.glyphs.warning } else { "" };
        let words = ink!("  {} {}", count(group.below.len() + 1, "message"), sign);
        pen.clip(words, left, cx.style(role));
    }
    pen.column(end + 1);
    if columns.size > 0 {
        pen.right(ink!("{}", Bytes(bytes as u64)), columns.size, cx.style(Role::Muted)).skip(1);
    }
    if let Some(latency) = latency {
        let slow = latency.as_millis() >= 1_000;
        let role = if slow { Role::Warning } else { Role::Muted };
        pen.right(ink!("{}", Dur(latency)), LATENCY_COLUMNS, cx.style(role));
    }
}

fn message(record: &TrafficRecord, cx: &Cx<'_>, pen: &mut Pen<'_>, room: u16) {
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
    if let Some(id) = &record.id {
        pen.clip(ink!(" #{}", id), left(pen), cx.style(Role::Faint));
    }
    if let Some(problem) = &record.problem {
        pen.clip(ink!("  {} {}", cx.glyphs.warning, problem), left(pen), cx.style(Role::Warning));
    }
}

// The line above the messages: filter, counts, and whether the list follows.

impl TrafficPane {
    pub(super) fn render_head(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let mut state = Ink::default();
        if self.groups.on {
            state.push("by operation  ");
        }
        if !self.marked.is_empty() {
            state.push(ink!("{} marked  ", self.marked.len()));
        }
        let feed = &cx.model.traffic;
        let count = ink!("{} of {}  ", self.stream.len(), feed.len());
        let hint = "server: tool: method: kind: status: duration:> size:> or text";
        self.stream.render_head(cx, hint, (feed, KeyScope::Traffic), (count, state), (area, buf));
    }
}

// Messages grouped by operation: a call with its retries, the server's requests within it, progress
// and response are one row that unfolds. Draws nothing.

/// Number of operations beyond which those without any message left are dropped.
const MAX_OPERATIONS: usize = 20_000;

/// The operations of a list.
#[derive(Default)]
pub struct Groups {
    /// Whether messages are grouped.
    pub on: bool,
    by_call: HashMap<CallId, TrafficGroup>,
    open: HashSet<CallId>,
}

/// One operation.
#[derive(Debug, Default)]
pub struct TrafficGroup {
    /// Sequence number of its first message.
    pub head: u64,
    /// Sequence numbers of the others.
    pub below: Vec<u64>,
    /// The longest time between a request and its response.
    pub took: Option<Duration>,
    /// Bytes of all its messages.
    pub bytes: usize,
    /// Whether something went wrong in it.
    pub failed: bool,
}

impl Groups {
    /// The filter changed: all messages are examined again.
    pub fn reset(&mut self) {
        self.by_call.clear();
    }

    /// How a message that passed the filter is listed; `first` is the oldest one kept.
    pub fn judge(&mut self, first: u64, seq: u64, record: &TrafficRecord) -> FilterMatch {
        let Some(call) = record.call.filter(|_| self.on) else { return FilterMatch::Row };
        if self.by_call.len() > MAX_OPERATIONS {
            self.by_call.retain(|_, group| group.head >= first);
            let known = &self.by_call;
            self.open.retain(|call| known.contains_key(call));
        }
        let group = self
            .by_call
            .entry(call)
            .or_insert(TrafficGroup { head: seq, ..TrafficGroup::default() });
        if group.head < first {
            *group = TrafficGroup { head: seq, ..TrafficGroup::default() };
        }
        group.bytes += record.bytes;
        group.took = group.took.max(record.latency);
        group.failed |= record.kind == MessageKind::Error || record.problem.is_some();
        if group.head == seq {
            return FilterMatch::Row;
        }
        group.below.push(seq);
        if self.open.contains(&call) { FilterMatch::Under(group.head) } else { FilterMatch::Out }
    }

    /// The operation of a message, when messages are grouped.
    pub fn of(&self, record: &TrafficRecord) -> Option<&TrafficGroup> {
        self.by_call.get(&record.call.filter(|_| self.on)?)
    }

    /// Whether an operation is unfolded.
    pub fn is_open(&self, call: CallId) -> bool {
        self.open.contains(&call)
    }

    /// Unfolds or folds an operation; returns it if that changes rows.
    pub fn set_open(&mut self, call: CallId, open: bool) -> Option<&TrafficGroup> {
        let changed = if open { self.open.insert(call) } else { self.open.remove(&call) };
        self.by_call.get(&call).filter(|group| changed && !group.below.is_empty())
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
                // Marks, time, direction; then the message; then the numbers.
                let before = 2 + columns.time + 3 + server;
                let message = width.saturating_sub(before + columns.after() + 1);
                assert!(message >= 12, "{width} {columns:?}");
            }
        }
    }
}
