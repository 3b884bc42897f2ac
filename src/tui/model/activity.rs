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

    /// The newest `n` slots up to now, oldest first.
    pub fn recent(&self, server: &ServerName, n: usize, now: Timestamp) -> Vec<u32> {
        let Some(slots) = self.by_server.get(server) else { return vec![0; n] };
        let idle = (now.0 / Self::SLOT).saturating_sub(slots.newest);
        let idle = usize::try_from(idle).unwrap_or(n).min(n);
        let len = slots.counts.len();
        let mut recent = vec![0; (n - idle).saturating_sub(len)];
        recent.extend(slots.counts.range(len.saturating_sub(n - idle)..));
        recent.resize(n, 0);
        recent
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
        let recent = |activity: &Activity, n, at| activity.recent(&server, n, Timestamp(at));
        assert_eq!(recent(&activity, 4, 4_000_000), [0, 2, 0, 1]);
        assert_eq!(recent(&activity, 4, 8_500_000), [0, 1, 0, 0], "idle slots follow");
        assert_eq!(recent(&activity, 4, 60_000_000), [0; 4]);
        activity.count(&server, Timestamp(900_000_000));
        assert_eq!(recent(&activity, 2, 900_000_000), [0, 1]);
    }
}
