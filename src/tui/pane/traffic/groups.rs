//! Messages grouped by the operation they belong to: a call with its retries, the server's requests
//! in it, progress and answer are one row that unfolds. Knows no drawing.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::mcp::CallId;
use crate::mcp::traffic::{MessageKind, TrafficRecord};
use crate::tui::widget::stream::Verdict;

/// Operations known before those whose messages are gone are forgotten.
const MOST: usize = 20_000;

/// The operations of a list.
#[derive(Default)]
pub struct Groups {
    /// Whether messages are grouped.
    pub on: bool,
    by_call: HashMap<CallId, Group>,
    open: HashSet<CallId>,
}

/// One operation.
#[derive(Debug, Default)]
pub struct Group {
    /// Sequence number of its first message.
    pub head: u64,
    /// Sequence numbers of the others.
    pub below: Vec<u64>,
    /// The longest time between a request and its answer.
    pub took: Option<Duration>,
    /// Bytes of all its messages.
    pub bytes: usize,
    /// Whether something went wrong in it.
    pub failed: bool,
}

impl Groups {
    /// The filter changed: everything is looked at again.
    pub fn reset(&mut self) {
        self.by_call.clear();
    }

    /// What a message that passed the filter is to the list; `first` is the oldest one kept.
    pub fn judge(&mut self, first: u64, seq: u64, record: &TrafficRecord) -> Verdict {
        let Some(call) = record.call.filter(|_| self.on) else { return Verdict::Row };
        if self.by_call.len() > MOST {
            self.by_call.retain(|_, group| group.head >= first);
            let known = &self.by_call;
            self.open.retain(|call| known.contains_key(call));
        }
        let group = self.by_call.entry(call).or_insert(Group { head: seq, ..Group::default() });
        if group.head < first {
            *group = Group { head: seq, ..Group::default() };
        }
        group.bytes += record.bytes;
        group.took = group.took.max(record.latency);
        group.failed |= record.kind == MessageKind::Error || record.problem.is_some();
        if group.head == seq {
            return Verdict::Row;
        }
        group.below.push(seq);
        if self.open.contains(&call) { Verdict::Under(group.head) } else { Verdict::Out }
    }

    /// The operation of a message, when messages are grouped.
    pub fn of(&self, record: &TrafficRecord) -> Option<&Group> {
        self.by_call.get(&record.call.filter(|_| self.on)?)
    }

    /// Whether an operation is unfolded.
    pub fn is_open(&self, call: CallId) -> bool {
        self.open.contains(&call)
    }

    /// Unfolds or folds an operation; gives it when that changes rows.
    pub fn set_open(&mut self, call: CallId, open: bool) -> Option<&Group> {
        let changed = if open { self.open.insert(call) } else { self.open.remove(&call) };
        self.by_call.get(&call).filter(|group| changed && !group.below.is_empty())
    }
}
