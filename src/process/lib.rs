//! The child process of a stdio server: find, start, watch, stop, sweep.
//!
//! Owns everything between an entry's `command` and a dead, reaped process tree. Knows nothing of
//! JSON-RPC, states or restarts; those belong to the actor.
//!
//! # How to use it
//! ```text
//! let plan    = process::resolve(&stdio)?;                 // step "resolve": no process yet
//! let spawned = process::spawn(plan, context).await?;      // step "spawn"
//! Endpoint::Pipe { read: spawned.stdout, write: spawned.stdin }
//! spawned.process.wait().await                             // ExitView, also for a crash
//! spawned.process.stop(Grace::within(shutdown_timeout)).await
//! ```
//!
//! # Guarantees
//! - The child runs in a session of its own: no controlling terminal, own process group.
//! - [`ServerProcess::wait`] resolves once the leader is dead, its descendants are swept, stderr is
//!   drained (with a deadline) and the leader is reaped, whatever caused the exit. Until then the
//!   process id is not reused, so no signal can hit an unrelated process.
//! - Dropping every handle, dropping the runtime, or the death of the host kills the whole family.
//!   [`Containment`] says how far that goes on this machine.
//! - stderr is always read; a flood costs bounded memory and CPU, and what is dropped is counted.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod advice;
mod census;
mod container;
mod containment;
mod context;
mod environment;
#[cfg(unix)]
mod exec;
mod exit;
mod family;
#[cfg(unix)]
mod guardian;
mod ladder;
#[cfg(target_os = "linux")]
mod linux;
mod pipes;
mod resolve;
#[cfg(unix)]
mod spawner;
mod stderr;
#[cfg(unix)]
mod unix;
mod usage;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix as platform;
#[cfg(windows)]
use windows as platform;

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use advice::{LaunchAdvice, RenameReason};
pub use container::Container;
pub use containment::{Containment, containment};
pub use context::{Grace, ProcessContext};
pub use environment::is_safe_name;
pub use exit::ExitView;
pub use pipes::{ServerStdin, ServerStdout};
pub use resolve::{Launch, SpawnError, resolve};
pub use stderr::StderrView;
pub use usage::Usage;

/// Whether a process is stopped by a signal (SIGSTOP, SIGTSTP); false where this is unknown.
pub fn is_suspended(pid: u32) -> bool {
    census::row(pid).is_some_and(|row| row.suspended)
}

use base::SafeText;

/// A started process.
pub struct Spawned {
    /// The server's stdin. Dropping it closes it, which asks the server to exit.
    pub stdin: ServerStdin,
    /// The server's stdout.
    pub stdout: ServerStdout,
    /// The process itself.
    pub process: ServerProcess,
}

/// A server's process. Cheap to clone; dropping the last handle kills the process and its family.
#[derive(Clone)]
pub struct ServerProcess {
    inner: Arc<ProcessInner>,
}

struct ProcessInner {
    pid: u32,
    orders: watch::Sender<ladder::StopOrder>,
    exit: watch::Receiver<Option<ExitView>>,
    stdin: pipes::PipeGate<tokio::process::ChildStdin>,
    stderr: stderr::StderrTap,
    usage: usage::Meter,
}

impl Drop for ProcessInner {
    fn drop(&mut self) {
        self.orders.send_modify(ladder::StopOrder::raise_to_kill);
    }
}

/// Starts a resolved program. The child's stdin, stdout and stderr are pipes.
///
/// # Errors
/// [`SpawnError`] when the operating system refuses, with its reason in words.
pub async fn spawn(launch: Launch, context: ProcessContext) -> Result<Spawned, SpawnError> {
    let outlives = context.outlives_host;
    let (leader, (stdin, stdout, stderr)) = platform::start(launch, outlives).await?;
    let pid = leader.pid();
    let ends = || [platform::output_end(&stdout), platform::output_end(&stderr)];
    let outputs = if outlives { ends().into_iter().flatten().collect() } else { Vec::new() };
    let (stdin, stdin_gate) = pipes::stdin(stdin);
    let (stdout, stdout_gate) = pipes::stdout(stdout);
    let tap = stderr::StderrTap::new(context.redactor.clone(), context.stderr_bytes);
    let reader = tokio::spawn(stderr::pump(stderr, tap.clone(), context.clone()));
    let (orders, order) = watch::channel(ladder::StopOrder::default());
    let (done, exit) = watch::channel(None);
    let usage = usage::Meter::new(leader.family());
    tokio::spawn(
        ladder::Watchman {
            leader,
            began: tokio::time::Instant::now(),
            order,
            stdin: stdin_gate.clone(),
            stdout: stdout_gate,
            stderr: reader,
            outputs,
        }
        .run(done),
    );
    let inner = ProcessInner { pid, orders, exit, stdin: stdin_gate, stderr: tap, usage };
    Ok(Spawned { stdin, stdout, process: ServerProcess { inner: Arc::new(inner) } })
}

/// How many processes of this host's servers are running or runnable; zero where the platform does
/// not report it.
#[cfg(unix)]
pub async fn running() -> usize {
    let token = family::host_token();
    let table = census::take().await;
    let ours =
        |row: &&census::ProcessRow| row.mark.as_deref().is_some_and(|mark| mark.starts_with(token));
    table.rows().filter(ours).filter(|row| row.running).count()
}

/// How many processes of this host's servers are running or runnable; zero where the platform does
/// not report it.
#[cfg(windows)]
pub async fn running() -> usize {
    0
}

impl ServerProcess {
    /// Process id; on Unix also the id of its session and process group.
    pub fn pid(&self) -> u32 {
        self.inner.pid
    }

    /// Becomes `Some` when the process is dead, swept and reaped.
    pub fn exit(&self) -> watch::Receiver<Option<ExitView>> {
        self.inner.exit.clone()
    }

    /// Waits for the process to exit, for whatever reason. Cancel-safe.
    pub async fn wait(&self) -> ExitView {
        let mut exit = self.exit();
        match exit.wait_for(Option::is_some).await {
            Ok(view) => view.clone().unwrap_or_default(),
            // The watchman was dropped with its runtime, which also killed the family.
            Err(_) => ExitView::default(),
        }
    }

    /// Announces that its exit is about to be requested by other means: the session will close its
    /// stdin. The exit that follows is then not a crash, even before [`ServerProcess::stop`].
    pub fn expect_exit(&self) {
        self.inner.orders.send_modify(ladder::StopOrder::raise_to_expect);
    }

    /// Stops the process: closes stdin, waits, SIGTERM to its session, waits, SIGKILL, sweeps what
    /// is left, reaps. Calls may race and repeat; the shortest grace wins. Cancel-safe: the stop
    /// continues when the caller stops waiting.
    pub async fn stop(&self, grace: Grace) -> ExitView {
        self.inner.orders.send_modify(|order| order.raise_to_stop(grace));
        self.wait().await
    }

    /// As [`ServerProcess::stop`], but leaves what remains of the stop to the guardian, so that the
    /// host may exit meanwhile; for a process with [`ProcessContext::outlives_host`]. Without a
    /// guardian it waits like `stop`.
    pub async fn hand_over(&self, grace: Grace) -> ExitView {
        self.inner.orders.send_modify(|order| order.raise_to_hand_over(grace));
        self.wait().await
    }

    /// Skips any remaining grace: SIGKILL now. Does not wait.
    pub fn kill(&self) {
        self.inner.orders.send_modify(ladder::StopOrder::raise_to_kill);
    }

    /// Closes the server's stdin, even while a write to it is blocked.
    pub fn close_stdin(&self) {
        self.inner.stdin.close();
    }

    /// Whether its stdin is closed and it never read a byte of it, so nothing sent to it can have
    /// caused its exit. Where the system cannot tell, true only if nothing was written.
    pub fn ignored_stdin(&self) -> bool {
        self.inner.stdin.was_ignored()
    }

    /// The last `lines` lines of stderr, oldest first, masked and sanitised. Exact even in a flood,
    /// when the log itself has gaps.
    pub fn stderr_tail(&self, lines: usize) -> Vec<SafeText> {
        self.inner.stderr.tail(lines)
    }

    /// Logs the process's stdout as if it were stderr, for programs whose output is meant for
    /// people. The task ends with the output.
    pub fn log_stdout(&self, stdout: ServerStdout, context: ProcessContext) -> JoinHandle<()> {
        tokio::spawn(stderr::pump(stdout, self.inner.stderr.clone(), context))
    }

    /// Totals of stderr so far.
    pub fn stderr(&self) -> StderrView {
        self.inner.stderr.view()
    }

    /// Memory and CPU of the process and its descendants; `None` when unknown (it is gone, or the
    /// platform does not report it). Blocks for about a millisecond, at most twice a second.
    pub fn usage(&self) -> Option<Usage> {
        self.inner.usage.read()
    }

    /// The processor time that the process and its descendants have used so far, without those that
    /// have ended; `None` when unknown. Blocks like [`ServerProcess::usage`].
    pub fn processor_time(&self) -> Option<std::time::Duration> {
        self.inner.usage.processor_time()
    }
}
