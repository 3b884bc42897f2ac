//! How well server processes are contained: which form of "nothing is left behind" is in effect.
//!
//! Owns the descriptions only; the mechanisms are in `unix`, `guardian` and `windows`.

use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

/// How server processes are contained on this machine, strongest first.
///
/// In every case a normal stop, a crash of a server and a dropped handle sweep the whole family;
/// the levels differ in what happens when the *host* is killed with SIGKILL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Containment {
    /// Windows: a job object that is closed, and so killed, with the host.
    Job,
    /// Linux: own session, parent-death signal, and a guardian process that ends every session and
    /// every process carrying the host's mark, also daemons that left their session. One that left
    /// session and parents *and* started with an empty environment is out of reach.
    Marked,
    /// Other Unix: own session and a guardian that ends every session; a daemon that left its
    /// session outlives a killed host.
    Guarded,
    /// Linux without a usable `/bin/sh`: the parent-death signal ends each server itself;
    /// its children only end when their stdin closes.
    Leader,
    /// Own session only: a killed host leaves servers that ignore the end of their stdin.
    Session,
}

impl Containment {
    /// Whether servers and their children end with the host, however it ends.
    pub const fn is_whole(self) -> bool {
        match self {
            Self::Job | Self::Marked | Self::Guarded => true,
            Self::Leader | Self::Session => false,
        }
    }

    /// A one-sentence description for the user.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Job => "job object: every process of every server ends with the host",
            Self::Marked => {
                "session, parent-death signal and guardian: every process of every server ends \
                 with the host, daemons too unless they cleared their environment"
            }
            Self::Guarded => {
                "session and guardian: servers and their children end with the host; daemons that \
                 left the session do not"
            }
            Self::Leader => {
                "session and parent-death signal: servers end with the host; their children only \
                 when they notice that stdin closed (no usable /bin/sh for the guardian)"
            }
            Self::Session => {
                "session only: if the host is killed, servers end when they notice that stdin closed"
            }
        }
    }
}

/// Whether the guardian could not be started.
static UNGUARDED: AtomicBool = AtomicBool::new(false);

/// Notes whether the guardian could be started.
#[cfg(unix)]
pub(super) fn note_guardian(running: bool) {
    UNGUARDED.store(!running, Ordering::Relaxed);
}

/// The level that is active, or would be once a server is started.
pub fn containment() -> Containment {
    let unguarded = UNGUARDED.load(Ordering::Relaxed);
    match (cfg!(windows), cfg!(target_os = "linux")) {
        (true, _) => Containment::Job,
        (_, true) if unguarded => Containment::Leader,
        (_, true) => Containment::Marked,
        _ if unguarded => Containment::Session,
        _ => Containment::Guarded,
    }
}
