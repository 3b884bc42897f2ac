//! Starting and ending a process on Windows: a job object holds the whole family and kills it when
//! the last handle to it is closed, also by the end of the host.
//!
//! Windows has no SIGTERM for a process without a console, so the ladder's middle rung does
//! nothing. Resource limits are not applied. Written after the documentation; not run by us.

use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use process_wrap::tokio::{ChildWrapper, CommandWrap, CreationFlags, JobObject, KillOnDrop};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Mutex, watch};

use super::ProcessContext;
use super::census::Row;
use super::environment::MARK;
use super::family::{self, Family};
use super::resolve::{Launch, SpawnError, refused};

/// Process creation flag of that name (Windows, `CreateProcess`).
const CREATE_NO_WINDOW: u32 = 0x0800_0000;

/// A process that was just started.
pub(super) struct Started {
    pub(super) leader: Leader,
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// A server's first process, in its job.
pub(super) struct Leader {
    child: Arc<Mutex<Box<dyn ChildWrapper>>>,
    status: watch::Sender<Option<ExitStatus>>,
    family: Arc<Family>,
}

/// Starts a program in a job object of its own.
pub(super) async fn start(launch: Launch, _: &ProcessContext) -> Result<Started, SpawnError> {
    let mark = family::new_mark();
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
    // A console of its own that nobody sees: on ours it could draw over the dashboard, and Ctrl-C
    // would end it before it is asked to end.
    let mut flags = CreationFlags(Default::default());
    flags.0.0 = CREATE_NO_WINDOW;
    wrap.wrap(flags).wrap(JobObject).wrap(KillOnDrop);
    let mut child = wrap.spawn().map_err(|error| refused(&launch, &error))?;
    let pipes = (child.stdin().take(), child.stdout().take(), child.stderr().take());
    let (Some(stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(refused(&launch, &std::io::Error::other("a pipe of the child is missing")));
    };
    let family = Family::new(child.id().unwrap_or_default(), &mark);
    let leader =
        Leader { child: Arc::new(Mutex::new(child)), status: watch::channel(None).0, family };
    Ok(Started { leader, stdin, stdout, stderr })
}

impl Leader {
    pub(super) fn pid(&self) -> u32 {
        self.family.leader()
    }

    pub(super) fn family(&self) -> Arc<Family> {
        Arc::clone(&self.family)
    }

    /// Waits until the leader is dead.
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

    pub(super) fn terminate(&self, _: &[Row]) {}

    /// Ends the job, and with it everybody in it.
    pub(super) fn kill(&self, _: &[Row]) {
        if let Ok(mut child) = self.child.try_lock() {
            let _ = child.start_kill();
        }
    }

    pub(super) async fn members(&self) -> Vec<Row> {
        Vec::new()
    }

    pub(super) async fn reap(&mut self) -> Option<ExitStatus> {
        *self.status.borrow()
    }

    pub(super) fn abandon(&mut self) {}
}

/// Exit code of a status; there are no signals.
pub(super) fn code_and_signal(status: ExitStatus) -> (Option<i32>, Option<i32>) {
    (status.code(), None)
}
