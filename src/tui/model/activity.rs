//! Messages per server over the last minute, in slots of two seconds: the spark-lines.

use std::collections::{HashMap, VecDeque};

use crate::base::ServerName;
use crate::base::Timestamp;

/// Counts by server.
#[derive(Clone, Debug, Default)]
pub struct Activity {
    by_server: HashMap<ServerName, Slots>,
}

#[derive(Clone, Debug, Default)]
struct Slots {
    /// Number of the newest slot.
    newest: u64,
    counts: VecDeque<u32>,
}

impl Activity {
    /// Slots that are kept.
    pub const SLOTS: usize = 30;
    /// Length of one slot in microseconds.
    pub const SLOT: u64 = 2_000_000;

    /// Counts one message.
    pub fn count(&mut self, server: &ServerName, at: Timestamp) {
        if !self.by_server.contains_key(server) {
            self.by_server.insert(server.clone(), Slots::default());
        }
        let Some(slots) = self.by_server.get_mut(server) else { return };
        let slot = at.0 / Self::SLOT;
        if slots.counts.is_empty() || slot > slots.newest + Self::SLOTS as u64 {
            slots.counts.clear();
            slots.newest = slot;
            slots.counts.push_back(0);
        }
        while slots.newest < slot {
            slots.newest += 1;
            slots.counts.push_back(0);
            if slots.counts.len() > Self::SLOTS {
                slots.counts.pop_front();
            }
        }
        let back = usize::try_from(slots.newest - slot).unwrap_or(usize::MAX);
        if let Some(index) = slots.counts.len().checked_sub(back + 1) {
            slots.counts[index] = slots.counts[index].saturating_add(1);
        }
    }

    /// The newest `n` slots that end with the slot of the newest message, oldest first. Without
    /// the clock on purpose: a spark-line that crawls while nothing happens would draw for nothing.
    pub fn recent(&self, server: &ServerName, n: usize) -> impl Iterator<Item = u32> + '_ {
        let counts = self.by_server.get(server).map(|slots| &slots.counts);
        let len = counts.map_or(0, VecDeque::len);
        let pad = n.saturating_sub(len);
        let skip = len.saturating_sub(n);
        std::iter::repeat_n(0, pad)
            .chain(counts.into_iter().flat_map(move |counts| counts.range(skip..).copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_age_and_gaps_are_empty() {
        let mut activity = Activity::default();
        let server = ServerName::new("a");
        for at in [0, 1, 4_000_000] {
            activity.count(&server, Timestamp(at));
        }
        assert_eq!(activity.recent(&server, 4).collect::<Vec<_>>(), [0, 2, 0, 1]);
        activity.count(&server, Timestamp(900_000_000));
        assert_eq!(activity.recent(&server, 2).collect::<Vec<_>>(), [0, 1]);
    }
}
