//! Which processes belong to a server: its leader, session, descendants and carriers of its mark.
//!
//! Membership is by any of four criteria, because a process can shed each of them: the session
//! (`setsid`), the group (`setpgid`), the parent (a double fork is adopted by init), the mark in
//! the environment (a program may start with an empty one). Members are remembered with their start
//! time, so that a reused process id is never mistaken for one. Without a process table a family is
//! its process group and cannot be listed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
#[cfg(unix)]
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::census::{self, ProcessId, ProcessRow, ProcessTable};

/// One server's processes.
#[derive(Debug)]
pub(super) struct Family {
    leader: u32,
    /// When the leader started; nothing older is a member.
    since: u64,
    mark: Box<str>,
    known: Mutex<HashMap<u32, u64>>,
}

/// What the mark of every server of this host begins with.
pub(super) fn host_token() -> &'static str {
    static TOKEN: OnceLock<String> = OnceLock::new();
    TOKEN.get_or_init(|| format!("{}.{:016x}.", std::process::id(), fastrand::u64(..)))
}

/// A fresh mark, as the variable's value.
pub(super) fn new_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // The dot at the end keeps server 1 from matching server 10.
    format!("{}{number}.", host_token())
}

impl Family {
    /// The family of a leader that was just started with `mark`.
    pub(super) fn new(leader: u32, mark: &str) -> Arc<Self> {
        let since = census::row(leader).map_or(0, |row| row.process.started);
        Arc::new(Self { leader, since, mark: mark.into(), known: Mutex::new(HashMap::new()) })
    }

    pub(super) fn leader(&self) -> u32 {
        self.leader
    }

    /// The live members, without the leader. Remembers them.
    pub(super) fn members(&self, table: &ProcessTable) -> Vec<ProcessRow> {
        let mut known = self.known.lock();
        known.retain(|pid, started| {
            table.get(*pid).is_some_and(|row| row.process.started == *started)
        });
        let members: Vec<ProcessRow> = table
            .rows()
            .filter(|row| row.process.pid != self.leader && !row.zombie)
            .filter(|row| row.process.started >= self.since)
            .filter(|row| {
                self.claims(row) || is_known(row, &known) || self.descends(row, table, &known)
            })
            .cloned()
            .collect();
        known.extend(members.iter().map(|row| (row.process.pid, row.process.started)));
        members
    }

    /// Kills every member, including ones created meanwhile, until two scans in a row find none or
    /// the time is up; returns those left. Blocks.
    ///
    /// A member that forks and exits every few milliseconds is gone before a scan of the whole
    /// table ends: so between two scans the most recent ids are watched, and each process is
    /// checked and killed within a fraction of a millisecond of its creation.
    #[cfg(unix)]
    pub(super) fn exterminate(
        &self,
        within: Duration,
        kill: impl Fn(&ProcessRow),
    ) -> Vec<ProcessRow> {
        let until = Instant::now() + within;
        let mut quiet = 0;
        loop {
            let began = census::newest();
            let left = self.members(&census::read());
            left.iter().for_each(&kill);
            let born = self.chase(began, &kill);
            quiet = if left.is_empty() && born == 0 { quiet + 1 } else { 0 };
            if quiet == 2 || Instant::now() > until {
                return left;
            }
        }
    }

    /// Kills members among the processes created after `newest`, until none has appeared for a
    /// while; returns how many it killed.
    #[cfg(unix)]
    fn chase(&self, newest: Option<u32>, kill: impl Fn(&ProcessRow)) -> u32 {
        /// A process that keeps forking never pauses longer than this.
        const MAX_FORK_INTERVAL: Duration = Duration::from_millis(25);
        const CHASE_TIMEOUT: Duration = Duration::from_millis(250);
        let began = Instant::now();
        let mut last_birth = began;
        let mut born = 0;
        let mut seen = newest;
        while last_birth.elapsed() < MAX_FORK_INTERVAL && began.elapsed() < CHASE_TIMEOUT {
            let newest = census::newest();
            if let (Some(from), Some(to)) = (seen, newest) {
                // When ids wrap around, the next table scan sees them.
                for pid in (from + 1..=to).rev() {
                    let row = census::marked(pid);
                    if let Some(row) = row.filter(|row| !row.zombie && self.claims(row)) {
                        kill(&row);
                        last_birth = Instant::now();
                        born += 1;
                    }
                }
            }
            seen = newest;
            // New processes are not reported, so this polls; on its own thread, only during a kill.
            std::thread::park_timeout(Duration::from_micros(200));
        }
        born
    }

    /// The leader, while it lives, and the members.
    pub(super) fn with_leader(&self, table: &ProcessTable) -> Vec<ProcessRow> {
        let mut rows = self.members(table);
        rows.extend(table.get(self.leader).filter(|row| !row.zombie).cloned());
        rows
    }

    /// Whether a process belongs here by its own session, group or mark.
    fn claims(&self, row: &ProcessRow) -> bool {
        row.session == self.leader
            || row.group == self.leader
            || row.mark.as_deref() == Some(&*self.mark)
    }

    /// Whether an ancestor is the leader or a member. A child never starts before its parent.
    fn descends(&self, row: &ProcessRow, table: &ProcessTable, known: &HashMap<u32, u64>) -> bool {
        /// Deeper chains are assumed to be loops in a table that changed while it was read.
        const MAX_CHAIN_DEPTH: usize = 256;
        let mut parent = row.parent;
        for _ in 0..MAX_CHAIN_DEPTH {
            if parent == self.leader {
                return true;
            }
            let Some(row) = table.get(parent) else { return false };
            if row.process.started < self.since {
                return false;
            }
            if self.claims(row) || is_known(row, known) {
                return true;
            }
            parent = row.parent;
        }
        false
    }
}

fn is_known(row: &ProcessRow, known: &HashMap<u32, u64>) -> bool {
    let ProcessId { pid, started } = row.process;
    known.get(&pid) == Some(&started)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEADER: u32 = 900_001;

    fn row(pid: u32, parent: u32, group: u32, session: u32, started: u64) -> ProcessRow {
        ProcessRow {
            process: ProcessId { pid, started },
            parent,
            group,
            session,
            zombie: false,
            suspended: false,
            running: false,
            cpu_ticks: 0,
            pages: 0,
            mark: None,
        }
    }

    fn members(family: &Family, rows: Vec<ProcessRow>) -> Vec<u32> {
        let table = rows.into_iter().collect();
        let mut pids: Vec<u32> = family.members(&table).iter().map(|row| row.process.pid).collect();
        pids.sort_unstable();
        pids
    }

    fn family() -> Family {
        Family { leader: LEADER, since: 100, mark: "1.2.".into(), known: Mutex::default() }
    }

    #[test]
    fn members_are_found_by_session_group_parent_and_mark() {
        let marked = ProcessRow { mark: Some("1.2.".into()), ..row(5, 1, 5, 5, 150) };
        let of_another = ProcessRow { mark: Some("1.20.".into()), ..row(6, 1, 6, 6, 150) };
        let rows = vec![
            row(LEADER, 1, LEADER, LEADER, 100),
            row(2, 1, 2, LEADER, 110),
            row(3, 1, LEADER, 3, 110),
            row(4, 2, 4, 4, 120),
            marked,
            of_another,
            // Started before the leader, whatever its parent is now.
            row(7, LEADER, 7, LEADER, 50),
            row(8, 1, 8, 8, 150),
            ProcessRow { zombie: true, ..row(9, LEADER, LEADER, LEADER, 130) },
        ];
        assert_eq!(members(&family(), rows), [2, 3, 4, 5]);
    }

    #[test]
    fn a_member_is_remembered_but_never_taken_for_one_with_its_id() {
        let family = family();
        assert_eq!(members(&family, vec![row(5, LEADER, 5, 5, 150)]), [5]);
        // Adopted by init, in a session of its own.
        assert_eq!(members(&family, vec![row(5, 1, 5, 5, 150)]), [5]);
        assert_eq!(members(&family, vec![row(5, 1, 5, 5, 160)]), [0; 0]);
    }

    #[test]
    fn parents_in_a_circle_end_the_search() {
        let rows = vec![row(5, 6, 5, 5, 150), row(6, 5, 6, 6, 150)];
        assert_eq!(members(&family(), rows), [0; 0]);
    }

    #[test]
    fn marks_of_two_servers_never_contain_each_other() {
        let marks: Vec<String> = (0..20).map(|_| new_mark()).collect();
        for (i, a) in marks.iter().enumerate() {
            for (j, b) in marks.iter().enumerate() {
                assert_eq!(a.contains(b.as_str()), i == j, "{a} {b}");
            }
            assert!(a.starts_with(host_token()));
        }
    }
}
