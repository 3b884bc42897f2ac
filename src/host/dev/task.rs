//! The task that watches the sources of one server: a cycle of change, build and restart.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use tokio::io::AsyncReadExt;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sources::{SourceScan, SourceWatch};
use super::{BuildEnd, BuildView, DevView};
use crate::server::command::Command;
use crate::server::lifecycle::LifecycleInput;
use crate::server::slot::Slot;
use crate::shared::HostShared;
use crate::{Fact, ServerState};
use base::human::{Dur, count};
use base::{Clock, LogLevel, LogRecord, LogSource, Redactor, Ring, SafeText};
use config::{ProcessLimits, ServerConfig, StdioConfig, TransportConfig};
use process::{self, Grace, ProcessContext, ServerProcess};

/// How long after a build or a restart a change may have been made by the server itself.
const ECHO_INTERVAL: Duration = Duration::from_millis(1_500);

/// The state of the task.
pub(super) struct Follower {
    shared: Arc<HostShared>,
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    root: PathBuf,
    /// The displayed state.
    view: DevView,
    build: Option<Build>,
    /// A build that is being spawned; on shutdown it is awaited and then stopped.
    starting: Option<JoinHandle<Result<Build, SafeText>>>,
    /// Files that changed during or right after a cycle, with their content hash at the start of
    /// the last cycle: builds and servers write files too, and if `dev.watch` matches those, each
    /// build would trigger the next.
    suspects: HashMap<PathBuf, Option<u64>>,
    /// End of the period in which a change may be an echo.
    echoes_until: Instant,
}

impl Follower {
    /// Creates the task for the current entry of a server.
    pub(super) fn new(shared: &Arc<HostShared>, slot: &Arc<Slot>) -> Self {
        let config = Arc::clone(&slot.live().config);
        Self {
            shared: Arc::clone(shared),
            slot: Arc::clone(slot),
            root: root_of(&config),
            config,
            view: DevView::default(),
            build: None,
            starting: None,
            suspects: HashMap::new(),
            echoes_until: Instant::now(),
        }
    }

    /// Runs until `stop` is cancelled, then stops a running build.
    pub(super) async fn run(mut self, poll_only: bool, stop: CancellationToken) {
        stop.run_until_cancelled(self.follow(poll_only)).await;
        let starting = async { self.starting?.await.ok()?.ok() };
        for build in [self.build, starting.await].into_iter().flatten() {
            build.stop().await;
        }
    }

    async fn follow(&mut self, poll_only: bool) {
        let dev = self.config.dev.clone().unwrap_or_default();
        let mut watch = match SourceWatch::start(&self.root, &dev, poll_only) {
            Ok(watch) => watch,
            Err(reason) => return self.watched(0, Some(&reason)).await,
        };
        loop {
            tokio::select! {
                biased;
                ended = ended(&mut self.build) => self.built(ended).await,
                look = watch.next() => match look {
                    Some(look) => self.looked(look).await,
                    None => return,
                }
            }
        }
    }

    async fn looked(&mut self, SourceScan { changed, files, note }: SourceScan) {
        self.watched(files as u64, note.as_deref()).await;
        if changed.is_empty() || self.is_echo(&changed).await {
            return;
        }
        if let Some(build) = &self.build {
            let ended = build.stop().await;
            self.built(ended).await;
        }
        self.begin(&changed).await;
    }

    async fn watched(&mut self, files: u64, note: Option<&str>) {
        let note = note.map(SafeText::line);
        if (self.view.files, &self.view.watch_note) == (files, &note) {
            return;
        }
        let mut what = format!("watching {}", count(files, "source file"));
        let mut level = LogLevel::Debug;
        if let Some(note) = &note {
            (what, level) = (format!("{what}: {note}"), LogLevel::Warning);
        }
        (self.view.files, self.view.watch_note) = (files, note);
        self.show(level, &what).await;
    }

    /// Whether a change needs no cycle: each of its files has the same content as at the start of
    /// the last one. A change while no build or restart is in progress always counts as an edit.
    async fn is_echo(&mut self, changed: &BTreeSet<PathBuf>) -> bool {
        let busy = self.build.is_some() || !self.slot.live().settled;
        if !busy && Instant::now() >= self.echoes_until {
            self.suspects.clear();
            return false;
        }
        let mut known = true;
        for file in changed {
            known &= match self.suspects.get(file) {
                Some(at_begin) => *at_begin == content(file).await,
                None => false,
            };
            self.suspects.entry(file.clone()).or_default();
        }
        known
    }

    /// Starts a cycle.
    async fn begin(&mut self, changed: &BTreeSet<PathBuf>) {
        for (file, seen) in &mut self.suspects {
            *seen = content(file).await;
        }
        let shown = |file: &PathBuf| {
            SafeText::line(&file.strip_prefix(&self.root).unwrap_or(file).display().to_string())
        };
        let first: Vec<SafeText> =
            changed.iter().take(DevView::MAX_NAMED_FILES).map(shown).collect();
        self.view.changed_at = Some(self.shared.clock.now());
        self.view.changed_more = (changed.len() - first.len()) as u64;
        self.view.changed = first;
        (self.view.build, self.view.note, self.view.is_taken) = (None, None, false);
        let words = self.view.changed_words();
        self.show(LogLevel::Info, &format!("sources changed: {words}")).await;
        let Some(build) = self.config.dev.as_ref().and_then(|dev| dev.build.clone()) else {
            return self.renew().await;
        };
        let began = self.shared.clock.now();
        self.view.build = Some(BuildView { began, end: None, tail: Vec::new() });
        self.show(LogLevel::Info, "build began").await;
        let outputs = (self.shared.clock, self.shared.logs.clone());
        let start = Build::start(Arc::clone(&self.config), build, self.root.clone(), outputs);
        let started = self.starting.insert(tokio::spawn(start)).await;
        self.starting = None;
        match started.unwrap_or_else(|error| Err(SafeText::line(&error.to_string()))) {
            Ok(build) => self.build = Some(build),
            Err(reason) => {
                self.built((BuildEnd::Refused(reason), Duration::ZERO, Vec::new())).await;
            }
        }
    }

    async fn built(&mut self, (end, took, tail): Ended) {
        self.build = None;
        let shown = Dur(took);
        let keeps = "the previous build keeps running";
        let (level, what) = match &end {
            BuildEnd::Done => (LogLevel::Info, format!("build done in {shown}")),
            BuildEnd::Superseded => (LogLevel::Info, format!("build given up after {shown}")),
            BuildEnd::Failed(exit) => {
                let how = exit.describe();
                (LogLevel::Error, format!("build failed after {shown}: {how}; {keeps}"))
            }
            BuildEnd::Refused(reason) => {
                (LogLevel::Error, format!("the build could not be started: {reason}; {keeps}"))
            }
        };
        let is_done = end == BuildEnd::Done;
        if let Some(build) = &mut self.view.build {
            (build.end, build.tail) = (Some((end, took)), tail);
        }
        self.show(level, &what).await;
        if is_done {
            self.renew().await;
        } else {
            self.echoes_until = Instant::now() + ECHO_INTERVAL;
        }
    }

    /// Restarts the server, unless it sleeps or the user stopped it.
    async fn renew(&mut self) {
        let before = self.slot.live();
        if before.is_asleep() {
            return;
        }
        if before.settled && matches!(before.state, ServerState::Disabled | ServerState::Shutdown) {
            let note = "the server stays stopped; start it manually";
            self.view.note = Some(SafeText::line(note));
            return self.show(LogLevel::Warning, note).await;
        }
        let reason = format!("restarting: {} changed", self.view.changed_words());
        let renew = LifecycleInput::Renew(SafeText::line(&reason));
        if !self.slot.command(|done| Command::Control(renew, done)).await {
            return;
        }
        self.shared.close_breakers(&self.slot).await;
        self.view.taken += 1;
        self.view.is_taken = true;
        self.show(LogLevel::Debug, "restarting with the changed sources").await;
        self.echoes_until = Instant::now() + ECHO_INTERVAL;
    }

    async fn show(&self, level: LogLevel, what: &str) {
        let (dev, what) = (Some(Arc::new(self.view.clone())), SafeText::line(what));
        self.shared.facts.record(&self.slot.name, Fact::DevChanged { dev, level, what }).await;
    }
}

/// How much of a file is hashed, in bytes.
const MAX_HASHED_BYTES: u64 = 8 << 20;

/// A hash of a file's content; `None` when it cannot be read.
async fn content(file: &Path) -> Option<u64> {
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(file).await.ok()?;
    file.take(MAX_HASHED_BYTES).read_to_end(&mut bytes).await.ok()?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    Some(hasher.finish())
}

/// The absolute folder that globs and the build are relative to: the server's working directory, or
/// the folder of its configuration file.
fn root_of(config: &ServerConfig) -> PathBuf {
    let of_file = || config.at.file.parent().map(Path::to_path_buf);
    let cwd = match &config.transport {
        TransportConfig::Stdio(stdio) => stdio.cwd.clone().or_else(of_file),
        _ => of_file(),
    };
    let cwd = cwd.unwrap_or_default();
    std::path::absolute(&cwd).unwrap_or(cwd)
}

// The build command of a server (`dev.build`): a process with the same containment as a server,
// logged under its own source.

/// Grace for a cancelled build: SIGTERM at once, SIGKILL after 700 ms.
const GRACE: Grace = Grace { stdin: Duration::ZERO, term: Duration::from_millis(700) };
/// Number of output lines kept from a failed build.
const MAX_OUTPUT_LINES: usize = 12;
/// How long to wait for the end of output after the build has exited.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A running build. Dropping it kills the whole process tree.
struct Build {
    process: ServerProcess,
    output: JoinHandle<()>,
    began: Instant,
}

/// How a build ended, how long it took, and its last lines of output when it failed.
type Ended = (BuildEnd, Duration, Vec<SafeText>);

impl Build {
    /// Starts a command in `root`, with the environment of the server.
    ///
    /// # Errors
    /// The reason why it cannot be started.
    async fn start(
        config: Arc<ServerConfig>,
        words: Vec<String>,
        root: PathBuf,
        (clock, logs): (Clock, Ring<LogRecord>),
    ) -> Result<Self, SafeText> {
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
            outlives_host: false,
        };
        let words = |problem: process::SpawnError| {
            let help = problem.error.help.as_ref().map(|help| format!("; {help}"));
            SafeText::line(&format!("{}{}", problem.error.message, help.unwrap_or_default()))
        };
        let launch = process::resolve(&stdio).map_err(words)?;
        let spawned = process::spawn(launch, context.clone()).await.map_err(words)?;
        // A build gets no input.
        drop(spawned.stdin);
        let output = spawned.process.log_stdout(spawned.stdout, context);
        Ok(Self { process: spawned.process, output, began: Instant::now() })
    }

    /// Waits until it exits. Cancel-safe.
    async fn wait(&mut self) -> Ended {
        let exit = self.process.wait().await;
        let took = self.began.elapsed();
        if !self.output.is_finished() {
            let _ = tokio::time::timeout(DRAIN_TIMEOUT, &mut self.output).await;
        }
        if exit.code == Some(0) {
            return (BuildEnd::Done, took, Vec::new());
        }
        (BuildEnd::Failed(exit), took, self.process.stderr_tail(MAX_OUTPUT_LINES))
    }

    /// Stops the whole process tree.
    async fn stop(&self) -> Ended {
        self.process.stop(GRACE).await;
        (BuildEnd::Superseded, self.began.elapsed(), Vec::new())
    }
}

/// Waits for the end of the build; without one, never resolves. Cancel-safe.
async fn ended(build: &mut Option<Build>) -> Ended {
    match build {
        Some(build) => build.wait().await,
        None => std::future::pending().await,
    }
}
