//! The guardian: a small process that outlives a killed host just long enough to end its servers.
//!
//! A parent-death signal reaches only the server itself, not the `node` behind an `npx`. So while
//! servers run there is one `/bin/sh` per host, in a session of its own, reading a pipe whose other
//! end only the host has. End of file means that the host is gone, however it went; the guardian
//! then ends every session and every process that carries the host's mark in its environment (those
//! that left their session). `guardian.sh` is the whole of it.
//!
//! Why a shell: a library has no program of its own to start, and forking a multi-threaded process
//! without `exec` leaves a copy that may not even allocate. Why not a child subreaper: it is a
//! setting of the whole process, so a library that sets it changes how the application's own
//! children behave and has to reap orphans it cannot tell apart; and it dies with the host, which
//! is the very case the guardian is for. The mark finds daemons in both cases.
//!
//! Other platforms: macOS and the BSDs get the same guardian without the marks (no `/proc`);
//! Windows needs none, a job object does it.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Child, Command, Stdio};

use super::containment;
use super::environment::MARK;

const SCRIPT: &str = include_str!("guardian.sh");

/// The guardian and what it guards. Owned by the spawner thread.
#[derive(Default)]
pub(super) struct Guardian {
    process: Option<Child>,
    live: BTreeSet<u32>,
}

impl Guardian {
    /// Whether nothing is guarded.
    pub(super) fn is_idle(&self) -> bool {
        self.live.is_empty()
    }

    /// Makes sure that it runs; to be called before a server is started. Gives whether it does.
    pub(super) fn ensure(&mut self) -> bool {
        let dead = match &mut self.process {
            Some(process) => !matches!(process.try_wait(), Ok(None)),
            None => true,
        };
        if dead {
            self.process = start().ok();
            for group in self.live.clone() {
                self.tell(&format!("+ {group}\n"));
            }
            containment::note_guardian(self.process.is_some());
        }
        self.process.is_some()
    }

    /// Adds a process group (the pid of a session leader).
    pub(super) fn guard(&mut self, group: u32) {
        self.live.insert(group);
        self.tell(&format!("+ {group}\n"));
    }

    /// Removes a group that is dead and swept. With the last one the guardian goes too, so that a
    /// host that stopped its servers has no child left.
    pub(super) fn release(&mut self, group: u32) {
        self.live.remove(&group);
        self.tell(&format!("- {group}\n"));
        if self.live.is_empty() {
            self.dismiss();
        }
    }

    /// Ends it without letting it see the end of the pipe, which it would take for ours. SIGKILL
    /// also reaches one that a server has stopped.
    fn dismiss(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts it again when somebody killed it.
    pub(super) fn look_after(&mut self) {
        if !self.is_idle() {
            self.ensure();
        }
    }

    fn tell(&mut self, line: &str) {
        let stdin = self.process.as_mut().and_then(|process| process.stdin.as_mut());
        if let Some(stdin) = stdin
            && stdin.write_all(line.as_bytes()).is_err()
        {
            // It died, or was stopped until the pipe was full. The next look starts another one,
            // which is told everything.
            self.dismiss();
        }
    }
}

fn start() -> std::io::Result<Child> {
    let mark = format!("{MARK}={}", super::family::host_token());
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", SCRIPT, "mcpdeck-guardian", &mark])
        .current_dir("/")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    super::exec::prepare(&mut command, None, Vec::new());
    let mut process = command.spawn()?;
    // A guardian that does not read must not stop the thread that writes.
    let ready = match &process.stdin {
        Some(stdin) => rustix::io::ioctl_fionbio(stdin, true).map_err(Into::into),
        None => Err(std::io::Error::other("the guardian has no pipe")),
    };
    if ready.is_err() {
        let _ = process.kill();
        let _ = process.wait();
    }
    ready.map(|()| process)
}
