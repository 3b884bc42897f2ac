//! Starting and ending a process on Windows: a job object holds the whole family and ends it when
//! the last handle to it is closed, including when the host exits.
//!
//! Windows has no SIGTERM for a process without a window or a console, so the ladder's middle rung
//! only waits. Batch files (`npx.cmd`) are run by the standard library, which quotes arguments for
//! `cmd.exe` or refuses them.

mod job;

use std::io;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use process_wrap::tokio::{
    ChildWrapper, CommandWrap, CommandWrapper, CreationFlags, JobObject, KillOnDrop,
};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex, watch};
use windows::Win32::System::Threading::CREATE_NO_WINDOW;

use super::census::{ProcessRow, ProcessTable};
use super::environment::MARK;
use super::family::{self, Family};
use super::resolve::{Launch, SpawnError, refused};
use job::Job;

/// A server's first process, in its job. Dropping it ends the job and every process in it.
pub(super) struct Leader {
    /// Locked while its exit is awaited, which only the watchman does.
    child: Mutex<Box<dyn ChildWrapper>>,
    status: watch::Sender<Option<ExitStatus>>,
    family: Arc<Family>,
    job: Arc<Job>,
}

/// Puts a process into our job before its first instruction: `process-wrap` starts it suspended,
/// for a nested job of its own that we can neither query nor limit.
#[derive(Debug)]
struct Joins(Arc<Job>);

impl CommandWrapper for Joins {
    fn post_spawn(
        &mut self,
        _: &mut Command,
        child: &mut Child,
        _: &CommandWrap,
    ) -> io::Result<()> {
        let gone = || io::Error::other("the process ended before it began");
        self.0.assign(child.raw_handle().ok_or_else(gone)?)
    }
}

/// The host's end of an output pipe; there is never a second one.
pub(super) enum OutputEnd {}

pub(super) fn output_end<P>(_: &P) -> Option<OutputEnd> {
    None
}

/// Starts a program in a job object of its own; returns it with its stdin, stdout and stderr.
pub(super) async fn start(
    launch: Launch,
    _outlives_host: bool,
) -> Result<(Leader, (ChildStdin, ChildStdout, ChildStderr)), SpawnError> {
    let failed = |error: &io::Error| refused(&launch, error);
    let mark = family::new_mark();
    let job = Arc::new(Job::new(&launch.limits).map_err(|error| failed(&error))?);
    let mut wrap = CommandWrap::with_new(&launch.program, |command| {
        command
            .args(&launch.args)
            .current_dir(&launch.cwd)
            .env_clear()
            .envs(launch.env.iter().map(|(name, value)| (name, value)))
            .env(MARK, &mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
    });
    // A hidden console of its own: on ours it could draw over the dashboard, and Ctrl-C would end
    // it before it is asked to exit.
    wrap.wrap(CreationFlags(CREATE_NO_WINDOW))
        .wrap(KillOnDrop)
        .wrap(Joins(Arc::clone(&job)))
        .wrap(JobObject);
    let mut child = wrap.spawn().map_err(|error| failed(&error))?;
    let pipes = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(failed(&io::Error::other("a pipe of the child is missing")));
    };
    let pid = child.id().unwrap_or_default();
    job.register(pid);
    let family = Family::new(pid, &mark);
    let status = watch::channel(None).0;
    let leader = Leader { child: Mutex::new(child), status, family, job };
    Ok((leader, (stdin, stdout, stderr)))
}

impl Leader {
    pub(super) fn pid(&self) -> u32 {
        self.family.leader()
    }

    pub(super) fn family(&self) -> Arc<Family> {
        Arc::clone(&self.family)
    }

    /// Waits until the leader is dead. Cancel-safe.
    pub(super) async fn dead(&self) {
        if self.status.borrow().is_some() {
            return;
        }
        let mut child = self.child.lock().await;
        // The leader alone: `wait` of the wrapper would wait for the whole job.
        if let Ok(status) = child.inner_mut().wait().await {
            self.status.send_replace(Some(status));
        }
    }

    #[expect(clippy::unused_self, reason = "on other systems it takes the leader to do it")]
    pub(super) fn terminate(&self, _: &[ProcessRow]) {}

    /// Ends the job and every process in it.
    pub(super) fn kill(&self, _: &[ProcessRow]) {
        self.job.terminate();
    }

    /// The live members except the leader.
    pub(super) async fn members(&self) -> Vec<ProcessRow> {
        let pid = self.pid();
        self.family.members(&self.job.rows(pid).into_iter().collect())
    }

    /// Ends the job; returns what is left of it, as process ids.
    pub(super) async fn exterminate(&self) -> Vec<String> {
        let until = tokio::time::Instant::now() + super::context::KILL_TIMEOUT;
        loop {
            self.job.terminate();
            let left = self.members().await;
            if left.is_empty() || tokio::time::Instant::now() > until {
                return left.iter().map(|row| format!("pid {}", row.process.pid)).collect();
            }
            tokio::time::sleep(std::time::Duration::from_millis(15)).await;
        }
    }

    /// The job ends with the host.
    #[expect(clippy::unused_self, reason = "on other systems there is a guardian")]
    pub(super) async fn hand_over(&mut self, _: Option<Duration>, _: Duration) -> bool {
        false
    }

    #[expect(clippy::unused_self, reason = "on other systems there is something to read")]
    pub(super) async fn read_on(&self, _: Vec<OutputEnd>) {}

    pub(super) async fn reap(&mut self) -> Option<ExitStatus> {
        *self.status.borrow()
    }

    #[expect(clippy::unused_self, reason = "on other systems there is something to give up")]
    pub(super) fn abandon(&mut self) {}
}

/// The processes of every server's job; no others are queried.
pub(super) fn read() -> ProcessTable {
    job::rows().into_iter().collect()
}

/// Exit code of a status; there are no signals.
pub(super) fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), None)
}
