//! The build command of a server (`dev.build`): a process under the same rules as a server, its
//! output in the logs under a source of its own.

use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::base::Clock;
use crate::base::logs::{LogRecord, LogSource};
use crate::base::ring::Ring;
use crate::base::secret::Redactor;
use crate::base::text::SafeText;
use crate::config::{ProcessLimits, ServerConfig, StdioConfig, TransportConfig};
use crate::host::dev::view::BuildEnd;
use crate::process::{self, Grace, ProcessContext, ServerProcess};

/// From SIGTERM to SIGKILL for a build that is not wanted any more.
const GRACE: Grace = Grace { stdin: Duration::ZERO, term: Duration::from_millis(700) };
/// Lines of output that are kept of a build that failed.
const TAIL: usize = 12;
/// How long output may take to end after the build did.
const DRAIN: Duration = Duration::from_secs(1);

/// A running build. Dropping it kills it and everything it started.
pub(super) struct Build {
    process: ServerProcess,
    output: JoinHandle<()>,
    began: Instant,
}

/// How a build ended, how long it took, and its last words when it failed.
pub(super) type Ended = (BuildEnd, Duration, Vec<SafeText>);

impl Build {
    /// Starts the command in `root`, with the environment of the server.
    ///
    /// # Errors
    /// The reason why it cannot be started, in words.
    pub(super) async fn start(
        config: &ServerConfig,
        root: PathBuf,
        (clock, logs): (Clock, Ring<LogRecord>),
    ) -> Result<Self, SafeText> {
        let words = config.dev.as_ref().and_then(|dev| dev.build.as_deref()).unwrap_or_default();
        let (env, inherit_env) = match &config.transport {
            TransportConfig::Stdio(stdio) => (stdio.env.clone(), stdio.inherit_env),
            _ => (IndexMap::new(), false),
        };
        let stdio = StdioConfig {
            command: words.first().cloned().unwrap_or_default(),
            args: words.iter().skip(1).cloned().collect(),
            env,
            cwd: Some(root),
            inherit_env,
            limits: ProcessLimits::default(),
        };
        let context = ProcessContext {
            server: config.name.clone(),
            clock,
            redactor: Redactor::new(config.secrets()),
            logs,
            source: LogSource::Build,
            stderr_line_bytes: config.wire.stderr_line_bytes,
            stderr_bytes: config.wire.stderr_bytes,
        };
        let words = |problem: process::SpawnError| {
            let help = problem.error.help.as_ref().map(|help| format!("; {help}"));
            SafeText::line(&format!("{}{}", problem.error.message, help.unwrap_or_default()))
        };
        let launch = process::resolve(&stdio).map_err(words)?;
        let spawned = process::spawn(launch, context.clone()).await.map_err(words)?;
        // It is asked nothing.
        drop(spawned.stdin);
        let output = spawned.process.log_stdout(spawned.stdout, context);
        Ok(Self { process: spawned.process, output, began: Instant::now() })
    }

    /// Waits for its end. Cancel-safe.
    pub(super) async fn wait(&mut self) -> Ended {
        let exit = self.process.wait().await;
        let took = self.began.elapsed();
        if !self.output.is_finished() {
            let _ = tokio::time::timeout(DRAIN, &mut self.output).await;
        }
        if exit.code == Some(0) {
            return (BuildEnd::Done, took, Vec::new());
        }
        (BuildEnd::Failed(exit), took, self.process.stderr_tail(TAIL))
    }

    /// Ends it and everything it started.
    pub(super) async fn stop(self) -> Ended {
        self.process.stop(GRACE).await;
        (BuildEnd::Superseded, self.began.elapsed(), Vec::new())
    }
}
