//! The guardian: a small process that outlives a killed host just long enough to end its servers.
//!
//! A parent-death signal reaches only the server itself, not the `node` behind an `npx`. So while
//! servers run there is one `/bin/sh` per host, in a session of its own, reading a pipe whose other
//! end only the host has. End of file means that the host is gone, however it exited; the guardian
//! then ends every session and every process that carries the host's mark in its environment (those
//! that left their session). `guardian.sh` is all of it.
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
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use config::ProcessLimits;

use super::environment::MARK;
#[cfg(not(target_os = "linux"))]
use super::exec;
use super::exec::ChildSetup;
#[cfg(target_os = "linux")]
use super::linux as exec;
use super::resolve::Launch;
use super::{census, containment};

const SCRIPT: &str = include_str!("guardian.sh");
/// The variable that hands it to the shell.
const SCRIPT_VARIABLE: &str = "MCPDECK_GUARDIAN";

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

    /// Starts it if it is not running; call before starting a server. Returns whether it runs.
    pub(super) fn ensure(&mut self) -> bool {
        let dead = match &mut self.process {
            Some(process) => !matches!(process.try_wait(), Ok(None)),
            None => true,
        };
        if dead {
            self.process = start().ok();
            for group in self.live.clone() {
                self.send(&format!("+ {group}\n"));
            }
            containment::note_guardian(self.process.is_some());
        }
        self.process.is_some()
    }

    /// Adds a process group (the pid of a session leader).
    pub(super) fn guard(&mut self, group: u32) {
        self.live.insert(group);
        self.send(&format!("+ {group}\n"));
    }

    /// Removes a group that is dead and swept. After the last one the guardian is stopped too, so
    /// that a host without servers has no child left.
    pub(super) fn release(&mut self, group: u32) {
        self.live.remove(&group);
        self.send(&format!("- {group}\n"));
        if self.live.is_empty() {
            self.dismiss();
        }
    }

    /// Leaves a group to it that is still stopping while the host exits: SIGTERM after `term`
    /// (`None`: it was sent), SIGKILL after `kill`. Returns false when it cannot be relied on.
    pub(super) fn hand_over(&mut self, group: u32, term: Option<Duration>, kill: Duration) -> bool {
        let is_up = |process: &mut Child| {
            matches!(process.try_wait(), Ok(None))
                && !census::row(process.id()).is_some_and(|row| row.suspended)
        };
        if !self.process.as_mut().is_some_and(is_up) {
            return false;
        }
        let tenths = |time: Duration| time.as_millis() / 100;
        let term = term.map_or_else(|| "-".to_owned(), |term| tenths(term).to_string());
        self.send(&format!("~ {group} {term} {}\n", tenths(kill)));
        self.process.is_some()
    }

    /// Kills it before it can see end of file, which it would take for our death. SIGKILL works
    /// even when a server has suspended it.
    fn dismiss(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Restarts it if it was killed.
    pub(super) fn look_after(&mut self) {
        if !self.is_idle() {
            self.ensure();
        }
    }

    fn send(&mut self, line: &str) {
        let stdin = self.process.as_mut().and_then(|process| process.stdin.as_mut());
        if let Some(stdin) = stdin
            && stdin.write_all(line.as_bytes()).is_err()
        {
            // It died, or was suspended until the pipe was full. The next check starts another one
            // and sends it every group.
            self.dismiss();
        }
    }
}

/// Starts a process that reads and discards an output of a server to its end, after the host. It
/// carries the host's mark, so that the guardian ends it with the rest. Where hundreds of servers are
/// left at once, each gets one: it is started without a copy of the host.
pub(super) fn reader(output: OwnedFd) -> std::io::Result<()> {
    let launch = Launch {
        program: "/bin/sh".into(),
        args: ["-c", "PATH=/usr/bin:/bin exec cat"].map(Into::into).into(),
        cwd: "/".into(),
        env: Vec::new(),
        limits: ProcessLimits::default(),
    };
    let nowhere = || File::options().write(true).open("/dev/null").map(OwnedFd::from);
    let streams = [output, nowhere()?, nowhere()?];
    exec::start(&launch, super::family::host_token(), ChildSetup::new(None, Vec::new()), streams)
        .map(drop)
}

/// A shell in a session of its own, without environment and output.
fn shell(args: &[&str]) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(args).current_dir("/").env_clear();
    command.stdout(Stdio::null()).stderr(Stdio::null());
    ChildSetup::new(None, Vec::new()).before_exec(&mut command);
    command
}

fn start() -> std::io::Result<Child> {
    let mark = format!("{MARK}={}", super::family::host_token());
    // The script is not an argument: lists of processes show those.
    let run = format!("guardian=${SCRIPT_VARIABLE}; unset {SCRIPT_VARIABLE}; eval \"$guardian\"");
    let mut command = shell(&["-c", &run, "mcpdeck-guardian", &mark]);
    command.env(SCRIPT_VARIABLE, SCRIPT);
    let mut process = command.stdin(Stdio::piped()).spawn()?;
    // A guardian that does not read must not block the thread that writes to it.
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
