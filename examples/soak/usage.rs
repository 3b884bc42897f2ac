//! What the process uses: memory, files, threads, tasks, and the processes it started.

use std::fmt;
use std::time::Duration;

use crate::deck::MARK;

/// Figures of this process; zeros where the system does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Resident bytes.
    pub memory: u64,
    /// Threads.
    pub threads: u64,
    /// Open files.
    pub files: u64,
    /// Tasks of the runtime.
    pub tasks: u64,
    /// Children, and every process that bears the mark of this soak, wherever it went.
    pub processes: u64,
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, threads, files, tasks, processes } = self;
        let memory = memory >> 20;
        write!(
            f,
            "{memory} MiB, {threads} threads, {files} files, {tasks} tasks, {processes} processes"
        )
    }
}

/// Looks until nothing changes for twelve seconds, at most a minute: the runtime's pool keeps idle
/// threads for ten.
pub async fn settled() -> Usage {
    let mut last = now();
    let mut quiet = 0;
    let at_rest = crate::look_for(Duration::from_secs(60), async || {
        let seen = now();
        let same = Usage { memory: 0, ..seen } == Usage { memory: 0, ..last };
        quiet = if same && seen.processes == 0 { quiet + 1 } else { 0 };
        last = seen;
        (quiet >= 120).then_some(seen)
    });
    match at_rest.await {
        Some(usage) => usage,
        None => now(),
    }
}

/// What is used now.
pub fn now() -> Usage {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let files = std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64);
    let tasks = tokio::runtime::Handle::try_current()
        .map_or(0, |runtime| runtime.metrics().num_alive_tasks() as u64);
    Usage {
        memory: figure("VmRSS:").unwrap_or(0) * 1024,
        threads: figure("Threads:").unwrap_or(0),
        files,
        tasks,
        processes: processes(),
    }
}

fn processes() -> u64 {
    let me = std::process::id().to_string();
    let mark = format!("{MARK}={me}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let ours = |folder: std::path::PathBuf| {
        // After the name in parentheses, which may hold anything: state, then parent.
        let stat = std::fs::read_to_string(folder.join("stat")).unwrap_or_default();
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        if rest.split_whitespace().nth(1) == Some(&me) {
            return true;
        }
        let environment = std::fs::read(folder.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|pair| pair == mark.as_bytes())
    };
    entries.flatten().filter(|entry| ours(entry.path())).count() as u64
}
