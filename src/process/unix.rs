//! Starting and ending a process on Unix.
//!
//! The leader is watched without being reaped (`waitid` with `WNOWAIT`). A zombie keeps its process
//! id, and with it the id of its session and group, so that every signal sent before
//! [`Leader::reap`] reaches the right processes or none.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitId, WaitIdOptions, WaitOptions, getrlimit,
    kill_process_group, waitpid,
};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::signal::unix::{SignalKind, signal};

use super::census::ProcessRow;
use super::context::KILL_TIMEOUT;
#[cfg(not(target_os = "linux"))]
use super::exec;
use super::exec::{ChildPipes, ChildSetup};
use super::family::Family;
use super::guardian::{self, Guardian};
#[cfg(target_os = "linux")]
use super::linux as exec;
use super::resolve::{Launch, SpawnError, refused};
use super::{census, family, spawner};
use config::ProcessLimits;

/// A server's first process. Dropping one that was not reaped kills its family.
pub(super) struct Leader {
    pid: Pid,
    family: Arc<Family>,
    /// Whether it is reaped, or left to another process.
    is_reaped: bool,
}

/// The host's end of an output pipe.
pub(super) type OutputEnd = OwnedFd;

/// Another end of the same pipe.
pub(super) fn output_end(pipe: &impl AsFd) -> Option<OutputEnd> {
    pipe.as_fd().try_clone_to_owned().ok()
}

/// Starts a program in a session of its own; returns it with its stdin, stdout and stderr.
pub(super) async fn start(
    launch: Launch,
    outlives_host: bool,
) -> Result<(Leader, (ChildStdin, ChildStdout, ChildStderr)), SpawnError> {
    let (launch, result) = spawner::run(move |guardian| {
        let result = spawn(&launch, guardian, outlives_host);
        (launch, result)
    })
    .await
    .map_err(|error| SpawnError::passing(error.to_string()))?;
    let convert = |(leader, (stdin, stdout, stderr)): (Leader, ChildPipes)| {
        let stdin = ChildStdin::from_std(stdin)?;
        Ok((leader, (stdin, ChildStdout::from_std(stdout)?, ChildStderr::from_std(stderr)?)))
    };
    result.and_then(convert).map_err(|error| refused(&launch, &error))
}

/// Runs on the spawner thread. If the caller is gone, dropping the result kills the child.
fn spawn(
    launch: &Launch,
    guardian: &mut Guardian,
    outlives_host: bool,
) -> io::Result<(Leader, ChildPipes)> {
    let guarded = guardian.ensure();
    let mark = family::new_mark();
    // With a guardian, the death of the host means SIGTERM, then SIGKILL a moment later, so that a
    // server may finish the file it is writing. Without one, nothing would send the second signal.
    let death_signal = match (guarded, outlives_host) {
        (true, true) => None,
        (true, false) => Some(Signal::TERM),
        (false, _) => Some(Signal::KILL),
    };
    let setup = ChildSetup::new(death_signal, limits(&launch.limits));
    let (pid, pipes) = exec::spawn(launch, &mark, setup)?;
    let group = pid.as_raw_nonzero().get().unsigned_abs();
    guardian.guard(group);
    let leader = Leader { pid, family: Family::new(group, &mark), is_reaped: false };
    Ok((leader, pipes))
}

/// The limits to set, capped at the host's own hard limits: exceeding those is an error, and the
/// lower limit is at least as strict as the entry's.
fn limits(config: &ProcessLimits) -> Vec<(Resource, Rlimit)> {
    let mut limits = Vec::new();
    let mut add = |resource, soft: u64, hard: u64| {
        let most = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit { current: Some(soft.min(most)), maximum: Some(hard.min(most)) };
        limits.push((resource, limit));
    };
    if let Some(bytes) = config.memory {
        add(MEMORY, bytes, bytes);
    }
    if let Some(time) = config.cpu_time {
        // Whole seconds, rounded up. SIGXCPU at the soft limit, SIGKILL a second later.
        let seconds = time.as_millis().div_ceil(1000).max(1) as u64;
        add(Resource::Cpu, seconds, seconds + 1);
    }
    if let Some(files) = config.open_files {
        add(Resource::Nofile, files, files);
    }
    limits
}

/// Linux counts private writable memory under `RLIMIT_DATA`; the address space itself would be the
/// wrong measure, because Node.js and other runtimes reserve tens of gigabytes they never touch.
#[cfg(target_os = "linux")]
const MEMORY: Resource = Resource::Data;
/// Elsewhere only the address space can be limited (macOS accepts it and does not enforce it).
#[cfg(not(target_os = "linux"))]
const MEMORY: Resource = Resource::As;

impl Leader {
    pub(super) fn pid(&self) -> u32 {
        self.family.leader()
    }

    pub(super) fn family(&self) -> Arc<Family> {
        Arc::clone(&self.family)
    }

    /// Waits until the leader is dead. Does not reap it. Cancel-safe.
    ///
    /// Where the system has handles of processes, the end of one wakes this task alone; elsewhere the
    /// leader is looked at on every SIGCHLD of the host.
    pub(super) async fn dead(&self) {
        #[cfg(target_os = "linux")]
        if let Ok(handle) = exec::handle(self.pid) {
            let _ = handle.readable().await;
        }
        let mut children = signal(SignalKind::child());
        while !self.is_dead() {
            match &mut children {
                Ok(children) => {
                    children.recv().await;
                }
                // No handler could be installed.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    fn is_dead(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        !matches!(rustix::process::waitid(WaitId::Pid(self.pid), options), Ok(None))
    }

    /// Asks the whole family to exit: SIGCONT first, because a suspended process ignores SIGTERM.
    pub(super) fn terminate(&self, members: &[ProcessRow]) {
        self.signal(members, Signal::CONT);
        self.signal(members, Signal::TERM);
    }

    /// Kills the whole family.
    pub(super) fn kill(&self, members: &[ProcessRow]) {
        self.signal(members, Signal::KILL);
    }

    fn signal(&self, members: &[ProcessRow], signal: Signal) {
        // One call reaches every process of the group, also those forked a moment ago.
        let _ = kill_process_group(self.pid, signal);
        for row in members.iter().filter(|row| row.group != self.pid()) {
            send(row, signal);
        }
    }

    /// The live members except the leader; empty where the platform cannot list them.
    pub(super) async fn members(&self) -> Vec<ProcessRow> {
        self.family.members(&*census::take().await)
    }

    /// Kills all remaining members except the leader, including ones forked meanwhile; returns the
    /// names of those that could not be killed.
    pub(super) async fn exterminate(&self) -> Vec<String> {
        let _ = kill_process_group(self.pid, Signal::KILL);
        let (done, wait) = tokio::sync::oneshot::channel();
        let names = move |left: Vec<ProcessRow>| {
            let _ = done.send(left.iter().map(|row| census::name(row.process.pid)).collect());
        };
        sweep(&self.family, names);
        wait.await.unwrap_or_default()
    }

    /// Reaps the leader, which frees its process id. Callers must ensure that it is dead.
    pub(super) async fn reap(&mut self) -> Option<ExitStatus> {
        let group = self.pid();
        // Waits for the guardian, so that no child of ours is left after the last server.
        let _ = spawner::run(move |guardian| guardian.release(group)).await;
        self.take().and_then(reap)
    }

    /// Leaves the family to the guardian: SIGTERM after `term` (`None`: it was sent), SIGKILL after
    /// `kill`. Returns false, and changes nothing, when there is no guardian that can be relied on.
    pub(super) async fn hand_over(&mut self, term: Option<Duration>, kill: Duration) -> bool {
        let group = self.pid();
        let handed = spawner::run(move |guardian| guardian.hand_over(group, term, kill)).await;
        let handed = handed.unwrap_or(false);
        if handed {
            self.is_reaped = true;
        }
        handed
    }

    /// Has what the family still writes read and discarded until its end: it must not die of a
    /// closed pipe while it ends.
    pub(super) async fn read_on(&self, outputs: Vec<OutputEnd>) {
        let read_on = |output: OutputEnd| {
            rustix::io::ioctl_fionbio(&output, false)?;
            guardian::reader(output)
        };
        let _ = spawner::run(move |_| outputs.into_iter().try_for_each(read_on)).await;
    }

    /// Its process, for the one who reaps it.
    fn take(&mut self) -> Option<Pid> {
        (!std::mem::replace(&mut self.is_reaped, true)).then_some(self.pid)
    }

    /// Gives up on a leader that cannot be killed (uninterruptible in the kernel). It is reaped if
    /// it exits after all.
    pub(super) fn abandon(&mut self) {
        let Some(child) = self.take() else { return };
        let group = self.pid();
        // Without a thread the zombie stays until the host ends; the guardian keeps the group.
        sweep(&self.family, move |_| {
            let _ = reap(child);
            let _ = spawner::post(Box::new(move |guardian| guardian.release(group)));
        });
    }
}

/// Waits for the end of a child, which frees its process id.
fn reap(child: Pid) -> Option<ExitStatus> {
    let ended = || waitpid(Some(child), WaitOptions::empty());
    let (_, status) = rustix::io::retry_on_intr(ended).ok().flatten()?;
    Some(ExitStatus::from_raw(status.as_raw()))
}

/// Kills what is left of a family, then calls `then` with those that could not be killed. Runs on a
/// thread, because the async runtime may be shut down before.
fn sweep(family: &Arc<Family>, then: impl FnOnce(Vec<ProcessRow>) + Send + 'static) {
    let family = Arc::clone(family);
    let work = move || then(family.exterminate(KILL_TIMEOUT, |row| send(row, Signal::KILL)));
    let _ = std::thread::Builder::new().name("mcpdeck-sweep".into()).spawn(work);
}

impl Drop for Leader {
    fn drop(&mut self) {
        if !self.is_reaped {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
        self.abandon();
    }
}

/// Signals one process, and never another that reused its id.
#[cfg(target_os = "linux")]
fn send(row: &ProcessRow, signal: Signal) {
    use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};
    let Some(pid) = i32::try_from(row.process.pid).ok().and_then(Pid::from_raw) else { return };
    let handle = pidfd_open(pid, PidfdFlags::empty());
    // The descriptor pins the process; only now can the row be compared reliably.
    if census::row(row.process.pid).is_none_or(|now| now.process != row.process) {
        return;
    }
    let _ = match handle {
        Ok(handle) => pidfd_send_signal(handle, signal),
        Err(_) => kill_process(pid, signal),
    };
}

#[cfg(not(target_os = "linux"))]
fn send(_: &ProcessRow, _: Signal) {}

/// Exit code and signal number of a status.
pub(super) fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), status.signal())
}
