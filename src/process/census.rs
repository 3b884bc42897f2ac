//! The process table: one scan of `/proc`, shared by all concurrent callers.
//!
//! A thousand servers that stop together request it a thousand times, and a scan costs some ten
//! microseconds per process on the machine. So requests that arrive during a scan wait for the next
//! one and share it, and after one that many have shared there is a pause in which more gather. On
//! Windows the table holds the processes of our jobs; elsewhere it is empty.
//!
//! Read here and not with `procfs`, which opens the folder of each process before its file and parses
//! every field: a stop waits for a scan, so its time counts.

#[cfg(unix)]
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::OnceLock;
#[cfg(unix)]
use std::time::Instant;

#[cfg(unix)]
use futures::FutureExt as _;
#[cfg(unix)]
use futures::future::{BoxFuture, Shared};
#[cfg(unix)]
use tokio::sync::oneshot;

#[cfg(unix)]
use super::environment::MARK;
#[cfg(unix)]
use base::clock::rest_after;

/// A process id together with its start time in ticks since boot: unique while the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ProcessId {
    pub(super) pid: u32,
    pub(super) started: u64,
}

/// One process.
#[derive(Clone, Debug)]
pub(super) struct ProcessRow {
    pub(super) process: ProcessId,
    pub(super) parent: u32,
    pub(super) group: u32,
    pub(super) session: u32,
    /// Dead, but not reaped.
    pub(super) zombie: bool,
    /// Stopped by a signal, until it is continued.
    pub(super) suspended: bool,
    /// Running or runnable.
    #[cfg_attr(windows, expect(dead_code, reason = "read where processes are swept"))]
    pub(super) running: bool,
    /// User and system time in ticks (see `usage::units`).
    pub(super) cpu_ticks: u64,
    /// Resident pages.
    pub(super) pages: u64,
    /// The server mark in its environment, if any.
    pub(super) mark: Option<Arc<str>>,
}

/// Every process of the machine at one moment.
#[derive(Debug, Default)]
pub(super) struct ProcessTable(HashMap<u32, ProcessRow>);

impl ProcessTable {
    pub(super) fn get(&self, pid: u32) -> Option<&ProcessRow> {
        self.0.get(&pid)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &ProcessRow> {
        self.0.values()
    }
}

#[cfg(any(test, windows))]
impl FromIterator<ProcessRow> for ProcessTable {
    fn from_iter<I: IntoIterator<Item = ProcessRow>>(rows: I) -> Self {
        Self(rows.into_iter().map(|row| (row.process.pid, row)).collect())
    }
}

/// A scan that has not begun yet, shared by all callers until then.
#[cfg(unix)]
struct NextScan {
    table: Shared<BoxFuture<'static, Arc<ProcessTable>>>,
    callers: usize,
}

#[cfg(unix)]
static NEXT: Mutex<Option<NextScan>> = Mutex::new(None);

/// Callers of one scan after which the next waits.
#[cfg(unix)]
const MIN_CROWD_CALLERS: usize = 16;

/// The result of a scan that begins after this call. Empty when no thread can be spawned for it.
#[cfg(unix)]
pub(super) async fn take() -> Arc<ProcessTable> {
    /// When the next scan may begin.
    static READING: Mutex<Option<Instant>> = Mutex::new(None);
    let table = {
        let mut next = NEXT.lock();
        if next.is_none() {
            let (sender, table) = oneshot::channel();
            let read = move || {
                let mut begins = READING.lock();
                if let Some(begins) = begins.take() {
                    std::thread::park_timeout(begins.saturating_duration_since(Instant::now()));
                }
                let callers = NEXT.lock().take().map_or(0, |scan| scan.callers);
                let began = Instant::now();
                let _ = sender.send(Arc::new(read()));
                if callers >= MIN_CROWD_CALLERS {
                    *begins = Some(Instant::now() + rest_after(began.elapsed()));
                }
            };
            // A thread, not the runtime's pool: a runtime that is dropped with the job still queued
            // would leave every later caller waiting.
            let thread = std::thread::Builder::new().name("mcpdeck-census".into());
            if thread.spawn(read).is_err() {
                return Arc::default();
            }
            let table = table.map(Result::unwrap_or_default).boxed().shared();
            *next = Some(NextScan { table, callers: 0 });
        }
        next.as_mut().map(|scan| {
            scan.callers += 1;
            scan.table.clone()
        })
    };
    match table {
        Some(table) => table.await,
        None => Arc::default(),
    }
}

/// Marks seen so far. A process keeps its mark until it exits; a missing one is looked up again,
/// because the process may have been between `fork` and `exec`.
#[cfg(unix)]
static MARKS: Mutex<Option<HashMap<ProcessId, Arc<str>>>> = Mutex::new(None);

/// How many times a scan looks for processes created while it ran.
#[cfg(unix)]
const MAX_SCAN_PASSES: usize = 8;
/// Most of them that are read per pass.
#[cfg(unix)]
const MAX_NEW_PROCESSES: usize = 4_096;

/// Reads the table now.
#[cfg(unix)]
pub(super) fn read() -> ProcessTable {
    let mut newest_read = newest();
    let Ok(dir) = std::fs::read_dir("/proc") else { return ProcessTable::default() };
    let mut known = MARKS.lock().take().unwrap_or_default();
    let mut seen = HashMap::new();
    let mut rows = HashMap::new();
    let pids = dir.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let mut pids: Vec<u32> = pids.collect();
    // Newest first: they are the likeliest to exit before they are read.
    pids.sort_unstable_by(|a, b| b.cmp(a));
    let mut look = |pid: u32| {
        let Some(mut row) = row(pid) else { return };
        let fresh = || (row.process.started >= began()).then(|| mark_of(row.process.pid))?;
        let mark = known.remove(&row.process).or_else(fresh);
        if let Some(mark) = mark {
            seen.insert(row.process, Arc::clone(&mark));
            row.mark = Some(mark);
        }
        rows.insert(row.process.pid, row);
    };
    pids.into_iter().for_each(&mut look);
    // A process that forks and exits every few milliseconds always escapes the listing: those
    // created meanwhile are read too, newest first. When ids wrap around, the next scan sees them.
    for _ in 0..MAX_SCAN_PASSES {
        let (Some(from), Some(to)) = (newest_read, newest()) else { break };
        if to <= from {
            break;
        }
        (from + 1..=to).rev().take(MAX_NEW_PROCESSES).for_each(&mut look);
        newest_read = Some(to);
    }
    *MARKS.lock() = Some(seen);
    ProcessTable(rows)
}

/// When this process started. Older processes cannot carry a mark of its servers, and most on a
/// machine are older: reading environments is the costlier half of a scan.
#[cfg(unix)]
fn began() -> u64 {
    static BEGAN: OnceLock<u64> = OnceLock::new();
    *BEGAN.get_or_init(|| row(std::process::id()).map_or(0, |row| row.process.started))
}

/// The most recently assigned process id (`proc_loadavg(5)`).
#[cfg(unix)]
pub(super) fn newest() -> Option<u32> {
    std::fs::read_to_string("/proc/loadavg")
        .ok()?
        .split_ascii_whitespace()
        .next_back()?
        .parse()
        .ok()
}

/// Display name: `sh (pid 4711)`.
#[cfg(unix)]
pub(super) fn name(pid: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{} (pid {pid})", name.trim())
}

/// One process with its mark, read now.
#[cfg(unix)]
pub(super) fn marked(pid: u32) -> Option<ProcessRow> {
    let mut row = row(pid)?;
    row.mark = mark_of(pid);
    Some(row)
}

/// One process, without its mark.
///
/// One read: the kernel gives such a file whole to a buffer that holds it, and a second read to see
/// its end would cost as much again.
pub(super) fn row(pid: u32) -> Option<ProcessRow> {
    use std::io::Read as _;
    /// 52 numbers of at most 20 digits and a name of at most 64 bytes.
    const MAX_STAT_BYTES: usize = 52 * 21 + 64 + 4;
    let mut stat = [0; MAX_STAT_BYTES];
    let length = std::fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut stat).ok()?;
    parse(pid, stat.get(..length)?)
}

/// `/proc/PID/stat` (`proc_pid_stat(5)`). The name in parentheses may hold anything, so the fields
/// are counted from the last parenthesis.
fn parse(pid: u32, stat: &[u8]) -> Option<ProcessRow> {
    let end = stat.iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(stat.get(end + 1..)?).ok()?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    // Field n of the manual (from 1) is `fields[n - 3]`.
    let number = |n: usize| fields.get(n - 3)?.parse::<u64>().ok();
    let id = |n: usize| fields.get(n - 3)?.parse::<u32>().ok();
    Some(ProcessRow {
        process: ProcessId { pid, started: number(22)? },
        parent: id(4)?,
        group: id(5)?,
        session: id(6)?,
        zombie: matches!(*fields.first()?, "Z" | "X" | "x"),
        suspended: matches!(*fields.first()?, "T" | "t"),
        running: *fields.first()? == "R",
        cpu_ticks: number(14)? + number(15)?,
        pages: number(24)?,
        mark: None,
    })
}

/// The mark in a process's environment; `None` also when that cannot be read.
#[cfg(unix)]
fn mark_of(pid: u32) -> Option<Arc<str>> {
    let env = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = |entry: &[u8]| -> Option<Arc<str>> {
        let value = entry.strip_prefix(MARK.as_bytes())?.strip_prefix(b"=")?;
        std::str::from_utf8(value).ok().map(Arc::from)
    };
    env.split(|b| *b == 0).find_map(value)
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_name_cannot_forge_the_fields_behind_it() {
        let line = b"7 (a) Z 1 1 1 () S 3 4 5 0 -1 4194560 1 2 3 4 50 7 0 0 20 0 1 0 99 1000 42 0";
        let row = parse(7, line).unwrap();
        assert_eq!((row.parent, row.group, row.session), (3, 4, 5));
        assert_eq!((row.process.started, row.cpu_ticks, row.pages), (99, 57, 42));
        assert!(!row.zombie);
    }

    #[test]
    fn a_process_that_began_later_is_known_by_its_mark() {
        let mut child =
            std::process::Command::new("sleep").arg("60").env(MARK, "9.9.").spawn().unwrap();
        let mark = |pid: u32| read().get(pid).map(|row| row.mark.as_deref().map(str::to_owned));
        let begun = std::time::Instant::now();
        // Between `fork` and `exec` it has the environment of this process.
        while mark(child.id()) != Some(Some("9.9.".to_owned())) {
            assert!(begun.elapsed() < std::time::Duration::from_secs(20), "no mark");
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[tokio::test]
    async fn requests_at_the_same_time_share_a_reading() {
        let tables = futures::future::join_all((0..50).map(|_| take())).await;
        let mut distinct: Vec<_> = tables.iter().map(Arc::as_ptr).collect();
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() <= 2, "{} readings", distinct.len());
        assert!(tables[49].get(std::process::id()).is_some());
    }
}
