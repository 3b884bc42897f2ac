//! Pins the processes of a measurement to processors.
//!
//! A call crosses two processes, and its cost depends mostly on where the scheduler has placed
//! them: waking an idle processor takes several times as long as the whole call. The scheduler
//! tends to keep a server where it was first placed, which would make comparisons between ways
//! random. Therefore every way gets the same placement.

use std::fmt;
use std::sync::OnceLock;

/// Environment variable with the processors that a server may use.
pub const ALL: &str = "MCPDECK_BENCH_PROCESSORS";

/// A placement of the caller and of the servers it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Caller and server share one processor: measures their total cost.
    Shared,
    /// The caller has one processor, the servers the next: measures the caller's latency.
    Apart,
    /// The caller has one processor, the servers all others.
    Spread,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shared => "one processor for caller and server",
            Self::Apart => "a processor each",
            Self::Spread => "a processor for the caller, the others for the servers",
        })
    }
}

impl Place {
    /// The word that passes the placement to a server.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Apart => "apart",
            Self::Spread => "spread",
        }
    }

    /// Pins this process to the caller's processor.
    pub fn take_as_caller() {
        pin(processors().get(..1).unwrap_or_default());
    }

    /// Pins this process to the servers' processors of the placement `word`.
    pub fn take_as_server(word: &str) {
        let all = processors();
        let rest = all.get(1..).filter(|rest| !rest.is_empty()).unwrap_or(all);
        pin(match word {
            "shared" => all.get(..1).unwrap_or_default(),
            "apart" => rest.get(..1).unwrap_or_default(),
            _ => rest,
        });
    }
}

/// The processors this program was started with, before any pinning; servers read them from
/// [`ALL`].
fn processors() -> &'static [usize] {
    static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();
    PROCESSORS.get_or_init(|| match std::env::var(ALL) {
        Ok(reported) => reported.split('+').filter_map(|cpu| cpu.parse().ok()).collect(),
        Err(_) => allowed(),
    })
}

/// The value of [`ALL`] for a server.
pub fn all() -> String {
    processors().iter().map(ToString::to_string).collect::<Vec<_>>().join("+")
}

/// `Cpus_allowed_list` of this process: `0-3,8`.
fn allowed() -> Vec<usize> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.parse::<usize>().ok()?..=to.parse::<usize>().ok()?)
    };
    list.unwrap_or_default().trim().split(',').filter_map(range).flatten().collect()
}

/// Pins every thread of this process, with `taskset`, which is common on Linux, because the system
/// call would need unsafe code or another dependency. A no-op on other systems.
fn pin(to: &[usize]) {
    let list = to.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    let pinned = std::process::Command::new("taskset")
        .args(["-apc", &list, &std::process::id().to_string()])
        .stdout(std::process::Stdio::null())
        .status();
    if !pinned.is_ok_and(|status| status.success()) {
        eprintln!("not pinned to {list}: `taskset` is missing or failed");
    }
}
