//! Where the processes of a measurement run. Owns the pinning; measures nothing.
//!
//! A call crosses two processes, and what it costs depends most of all on where the scheduler has
//! put them: waking an idle processor takes several times as long as the whole call. Left to
//! itself the scheduler decides once per server and keeps to it, so that two ways of calling would
//! be compared by their luck. So every way gets the same place.

use std::fmt;
use std::sync::OnceLock;

/// Tells a server which processors there are.
pub const ALL: &str = "MCPDECK_BENCH_PROCESSORS";

/// A placement of the caller and of the servers it calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Caller and server share one processor: what they cost together.
    Shared,
    /// The caller has one processor, the servers the next: what a caller waits for.
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
    /// The word that tells a server of it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Apart => "apart",
            Self::Spread => "spread",
        }
    }

    /// Takes the caller's processor.
    pub fn take_as_caller() {
        pin(processors().get(..1).unwrap_or_default());
    }

    /// Takes the processors of a server that was told `word`.
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

/// The processors this program was given, whatever it has been pinned to since; its servers are
/// told by [`ALL`].
fn processors() -> &'static [usize] {
    static PROCESSORS: OnceLock<Vec<usize>> = OnceLock::new();
    PROCESSORS.get_or_init(|| match std::env::var(ALL) {
        Ok(told) => told.split('+').filter_map(|cpu| cpu.parse().ok()).collect(),
        Err(_) => allowed(),
    })
}

/// The same for the environment of a server.
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

/// Pins every thread of this process. By `taskset`, which every Linux has, because the system call
/// would need either unsafe code or a dependency of its own; elsewhere nothing is pinned.
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
