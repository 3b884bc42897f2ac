//! What a server process does to itself before it executes its program, and how it is started where a
//! copy of the host does that.

use std::os::unix::process::CommandExt;
use std::process::{self, Command};
#[cfg(not(target_os = "linux"))]
use std::{os::fd::OwnedFd, process::Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, setrlimit};

#[cfg(not(target_os = "linux"))]
use super::resolve::Launch;

/// The host's ends of stdin, stdout and stderr of a child.
pub(super) type ChildPipes = (process::ChildStdin, process::ChildStdout, process::ChildStderr);

/// What a child does to itself before it executes its program: a session of its own without a
/// controlling terminal, the parent-death signal (Linux) and the resource limits.
pub(super) struct ChildSetup {
    host: Pid,
    death_signal: Option<Signal>,
    limits: Vec<(Resource, Rlimit)>,
}

impl ChildSetup {
    pub(super) fn new(death_signal: Option<Signal>, limits: Vec<(Resource, Rlimit)>) -> Self {
        Self { host: rustix::process::getpid(), death_signal, limits }
    }

    /// Makes system calls only: no allocation, no lock, no panic.
    pub(super) fn apply(&self) -> rustix::io::Result<()> {
        rustix::process::setsid()?;
        #[cfg(target_os = "linux")]
        if self.death_signal.is_some() {
            rustix::process::set_parent_process_death_signal(self.death_signal)?;
            // The host may have died before the line above; then the signal would never come.
            if rustix::process::getppid() != Some(self.host) {
                return Err(rustix::io::Errno::SRCH);
            }
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (self.death_signal, self.host);
        for (resource, limit) in &self.limits {
            setrlimit(*resource, *limit)?;
        }
        Ok(())
    }

    /// Has a command do this between `fork` and `exec`.
    pub(super) fn before_exec(self, command: &mut Command) {
        #[expect(unsafe_code, reason = "there is no safe way to act between fork and exec")]
        // SAFETY: after `fork` only system calls are made.
        unsafe {
            command.pre_exec(move || self.apply().map_err(Into::into));
        }
    }
}

/// Starts a program with pipes for its streams; `mark` is added to its environment. Returns its
/// process, which the caller has to reap.
///
/// # Errors
/// Those of the system, also those of the child up to its program.
#[cfg(not(target_os = "linux"))]
pub(super) fn spawn(
    launch: &Launch,
    mark: &str,
    setup: ChildSetup,
) -> std::io::Result<(Pid, ChildPipes)> {
    let piped = || Stdio::piped();
    let mut child = start_child(launch, mark, setup, [piped(), piped(), piped()])?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(std::io::Error::other("a pipe of the child is missing"));
    };
    Ok((Pid::from_child(&child), (stdin, stdout, stderr)))
}

/// Like [`spawn`], with the stdin, stdout and stderr it is given.
#[cfg(not(target_os = "linux"))]
pub(super) fn start(
    launch: &Launch,
    mark: &str,
    setup: ChildSetup,
    streams: [OwnedFd; 3],
) -> std::io::Result<Pid> {
    start_child(launch, mark, setup, streams.map(Stdio::from)).map(|child| Pid::from_child(&child))
}

#[cfg(not(target_os = "linux"))]
fn start_child(
    launch: &Launch,
    mark: &str,
    setup: ChildSetup,
    [stdin, stdout, stderr]: [Stdio; 3],
) -> std::io::Result<process::Child> {
    let mut command = Command::new(&launch.program);
    command.args(&launch.args).current_dir(&launch.cwd);
    command.env_clear().envs(launch.env.iter().map(|(name, value)| (name, value)));
    command.env(super::environment::MARK, mark);
    command.stdin(stdin).stdout(stdout).stderr(stderr);
    setup.before_exec(&mut command);
    command.spawn()
}
