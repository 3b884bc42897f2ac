//! Who belongs to a server: its leader, its session, its descendants, and whoever carries its mark.
//!
//! Linux reads `/proc`; elsewhere a family is its process group and cannot be listed. Membership is
//! by any of four signs, because each one alone can be shed: the session (`setsid` leaves it), the
//! group (`setpgid`), the parent (a double fork is adopted by init), the mark in the environment
//! (a program may start with an empty one). A member is remembered with its start time, so that a
//! reused process id is never taken for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::environment::MARK;

/// A process id together with its start time in ticks since boot: unique while the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) started: u64,
}

/// A line of the process table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) process: Process,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// Dead, but not reaped.
    pub(super) zombie: bool,
    /// User and system time in ticks.
    pub(super) cpu_ticks: u64,
    /// Resident pages.
    pub(super) pages: u64,
}

/// One server's processes.
#[derive(Debug)]
pub(super) struct Family {
    leader: u32,
    /// When the leader started; nothing older is a member.
    since: u64,
    mark: Box<str>,
    known: Mutex<HashMap<u32, u64>>,
}

/// What every server of this host is marked with, up to its own number.
pub(super) fn host_mark() -> String {
    static TOKEN: OnceLock<String> = OnceLock::new();
    let token = TOKEN.get_or_init(|| format!("{}.{:016x}", std::process::id(), fastrand::u64(..)));
    format!("{MARK}={token}.")
}

/// A fresh mark, as the variable's value.
pub(super) fn new_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // The dot at the end keeps server 1 from matching server 10.
    format!("{}{number}.", host_mark().split_once('=').map_or("", |(_, token)| token))
}

impl Family {
    /// The family of a leader that was just started with `mark`.
    pub(super) fn new(leader: u32, mark: &str) -> Arc<Self> {
        let since = row(leader).map_or(0, |row| row.process.started);
        let mark = format!("{MARK}={mark}").into();
        Arc::new(Self { leader, since, mark, known: Mutex::new(HashMap::new()) })
    }

    pub(super) fn leader(&self) -> u32 {
        self.leader
    }

    /// The living members in `table`, without the leader. Remembers them. Reads the environment of
    /// every stranger younger than the leader, which is what finds daemons.
    pub(super) fn members(&self, table: &[Row]) -> Vec<Row> {
        self.select(table, |pid| carries(pid, &self.mark))
    }

    /// The leader and its living members, without looking for marks: cheap enough to do often.
    pub(super) fn with_leader(&self, table: &[Row]) -> Vec<Row> {
        let leader = table.iter().filter(|row| row.process.pid == self.leader && !row.zombie);
        let mut rows: Vec<Row> = leader.copied().collect();
        rows.extend(self.select(table, |_| false));
        rows
    }

    fn select(&self, table: &[Row], marked: impl Fn(u32) -> bool) -> Vec<Row> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let parents: HashMap<u32, &Row> = table.iter().map(|row| (row.process.pid, row)).collect();
        let mut members = Vec::new();
        for row in table {
            let Process { pid, started } = row.process;
            if pid == self.leader || row.zombie || started < self.since {
                continue;
            }
            let belongs = row.session == self.leader
                || row.group == self.leader
                || known.get(&pid) == Some(&started)
                || self.descends(row, &parents, &known)
                || marked(pid);
            if belongs {
                known.insert(pid, started);
                members.push(*row);
            }
        }
        known.retain(|pid, started| {
            parents.get(pid).is_some_and(|row| row.process.started == *started)
        });
        members
    }

    /// Whether an ancestor is the leader or a known member. A child never starts before its parent.
    fn descends(&self, row: &Row, parents: &HashMap<u32, &Row>, known: &HashMap<u32, u64>) -> bool {
        /// Deeper trees are taken for loops in a table that changed while it was read.
        const DEPTH: usize = 256;
        let mut parent = row.parent;
        for _ in 0..DEPTH {
            if parent == self.leader {
                return true;
            }
            let Some(row) = parents.get(&parent) else { return false };
            if row.process.started < self.since {
                return false;
            }
            if known.get(&parent) == Some(&row.process.started) {
                return true;
            }
            parent = row.parent;
        }
        false
    }
}

/// The whole process table; empty where it cannot be read.
#[cfg(target_os = "linux")]
pub(super) fn table() -> Vec<Row> {
    let Ok(dir) = std::fs::read_dir("/proc") else { return Vec::new() };
    dir.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(row).collect()
}

/// One process's row.
#[cfg(target_os = "linux")]
pub(super) fn row(pid: u32) -> Option<Row> {
    parse(pid, &std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// `/proc/PID/stat` (`proc_pid_stat(5)`). The name in parentheses may hold anything, so the fields are
/// counted from the last parenthesis.
#[cfg(target_os = "linux")]
fn parse(pid: u32, stat: &[u8]) -> Option<Row> {
    let end = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field n of the manual (from 1) is `fields[n - 3]`.
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let id = |n: usize| fields.get(n - 3)?.parse::<u32>().ok();
    Some(Row {
        process: Process { pid, started: number(22)? },
        parent: id(4)?,
        group: id(5)?,
        session: id(6)?,
        zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        cpu_ticks: number(14)? + number(15)?,
        pages: number(24)?,
    })
}

/// Whether a process's environment holds `mark`. One that may not be read does not.
#[cfg(target_os = "linux")]
fn carries(pid: u32, mark: &str) -> bool {
    std::fs::read(format!("/proc/{pid}/environ"))
        .is_ok_and(|env| env.split(|b| *b == 0).any(|entry| entry == mark.as_bytes()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn table() -> Vec<Row> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub(super) fn row(_: u32) -> Option<Row> {
    None
}

#[cfg(not(target_os = "linux"))]
fn carries(_: u32, _: &str) -> bool {
    false
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn stat(pid: u32, name: &str, parent: u32, group: u32, session: u32, started: u64) -> Row {
        let line = format!(
            "{pid} ({name}) S {parent} {group} {session} 0 -1 4194560 1 2 3 4 50 7 0 0 20 0 1 0 \
             {started} 1000 42 18446744073709551615"
        );
        parse(pid, line.as_bytes()).expect("a line of the manual's form")
    }

    #[test]
    fn a_process_name_cannot_forge_the_fields_behind_it() {
        let row = stat(7, "a) Z 1 1 1 (", 3, 4, 5, 99);
        assert_eq!((row.parent, row.group, row.session), (3, 4, 5));
        assert_eq!(
            (row.process.started, row.cpu_ticks, row.pages, row.zombie),
            (99, 57, 42, false)
        );
    }

    #[test]
    fn members_are_found_by_session_group_parent_and_memory_but_never_by_a_reused_id() {
        let family = Family {
            leader: 900_001,
            since: 100,
            mark: "nobody".into(),
            known: Mutex::new(HashMap::from([(900_005, 150)])),
        };
        let table = [
            stat(900_001, "leader", 1, 900_001, 900_001, 100),
            stat(900_002, "in session", 1, 900_002, 900_001, 110),
            stat(900_003, "in group", 1, 900_001, 3, 110),
            stat(900_004, "grandchild", 900_002, 900_004, 900_004, 120),
            stat(900_005, "remembered", 1, 900_005, 900_005, 150),
            stat(900_006, "older than the leader", 900_001, 6, 900_001, 50),
            stat(900_007, "stranger", 1, 900_007, 900_007, 150),
        ];
        let pids: Vec<u32> = family.members(&table).iter().map(|row| row.process.pid).collect();
        assert_eq!(pids, [900_002, 900_003, 900_004, 900_005]);
        let reused = [stat(900_005, "another one", 1, 900_005, 900_005, 160)];
        assert!(family.members(&reused).is_empty());
    }

    #[test]
    fn marks_of_two_servers_never_contain_each_other() {
        let marks: Vec<String> = (0..20).map(|_| new_mark()).collect();
        for (i, a) in marks.iter().enumerate() {
            for (j, b) in marks.iter().enumerate() {
                assert_eq!(a.contains(b.as_str()), i == j, "{a} {b}");
            }
            assert!(format!("{MARK}={a}").starts_with(&host_mark()));
        }
    }
}
