//! The task that follows the sources of one server: round after round of change, build, restart.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sources::{SourceChange, SourceOptions, SourceWatch, Watched};
use super::{BuildEnd, DevView};
use crate::base::{Clock, LogRecord, LogSource, Redactor, Ring, SafeText, ServerName, WatchMode};
use crate::config::{DevConfig, ProcessLimits, ServerConfig, StdioConfig, TransportConfig};
use crate::host::server::command::Command;
use crate::host::server::lifecycle::Input;
use crate::host::server::slot::Slot;
use crate::host::shared::Shared;
use crate::host::{Fact, ServerState};
use crate::process::{self, Grace, ProcessContext, ServerProcess};

/// A change this soon after a restart may be the server's own doing.
const ECHO: Duration = Duration::from_millis(1_500);
/// Pause before a round when too many followed each other.
const SPACE: Duration = Duration::from_secs(3);

/// What became of a build.
enum Built {
    Well,
    Badly,
    /// Ended by a newer change.
    Superseded(SourceChange),
    Stopped,
}

/// See the module.
pub(super) struct Follower {
    deck: Arc<Shared>,
    slot: Arc<Slot>,
    config: Arc<ServerConfig>,
    dev: DevConfig,
    root: PathBuf,
    options: SourceOptions,
    stop: CancellationToken,
    echo: Echo,
    /// Until when changes may be echoes.
    echoes_until: Instant,
}

impl Follower {
    /// For a server as it is now; ends when `stop` is cancelled.
    pub(super) fn new(
        deck: &Arc<Shared>,
        slot: &Arc<Slot>,
        options: SourceOptions,
        stop: CancellationToken,
    ) -> Self {
        let config = Arc::clone(&slot.live().config);
        Self {
            deck: Arc::clone(deck),
            slot: Arc::clone(slot),
            dev: config.dev.clone().unwrap_or_default(),
            root: root_of(&config),
            config,
            options,
            stop,
            echo: Echo::default(),
            echoes_until: Instant::now(),
        }
    }

    /// Follows until it is told to stop.
    pub(super) async fn run(mut self) {
        let stop = self.stop.clone();
        let starting = SourceWatch::start(&self.root, &self.dev, self.options);
        let started = tokio::select! {
            started = starting => started,
            () = stop.cancelled() => return,
        };
        let mut watch = match started {
            Ok(watch) => watch,
            Err(reason) => {
                let note = Some(SafeText::line(&reason));
                let failed = |server| Fact::SourcesWatched { server, files: 0, note };
                return self.record(failed).await;
            }
        };
        let telling = tell(Arc::clone(&self.deck), self.slot.name.clone(), watch.watched());
        tokio::select! {
            biased;
            () = self.follow(&mut watch) => {}
            () = telling => {}
        }
    }

    async fn follow(&mut self, watch: &mut SourceWatch) {
        let mut newer = None;
        loop {
            let change = match newer.take() {
                Some(change) => Some(change),
                None => self.next(watch).await,
            };
            let Some(change) = change else { return };
            self.announce(&change).await;
            match self.build(watch).await {
                Built::Well => self.renew(&change).await,
                Built::Badly => self.echoes_until = Instant::now() + ECHO,
                Built::Superseded(change) => newer = Some(change),
                Built::Stopped => return,
            }
        }
    }

    /// The next change that needs a round; `None` at the end.
    async fn next(&mut self, watch: &mut SourceWatch) -> Option<SourceChange> {
        let stop = self.stop.clone();
        loop {
            let change = tokio::select! {
                biased;
                () = stop.cancelled() => return None,
                next = watch.next() => next?,
            };
            let echo = Instant::now() < self.echoes_until || !self.slot.live().settled;
            match self.judge(&change, echo).await {
                Verdict::Known => {}
                Verdict::Act => return Some(change),
                Verdict::Slowly => {
                    self.slow_down(&change).await;
                    tokio::select! {
                        () = stop.cancelled() => return None,
                        () = tokio::time::sleep(SPACE) => return Some(change),
                    }
                }
            }
        }
    }

    async fn record(&self, fact: impl FnOnce(ServerName) -> Fact) {
        self.deck.facts.record(fact(self.slot.name.clone())).await;
    }

    async fn note(&self, text: &str) {
        self.record(|server| Fact::SourcesNoted { server, note: SafeText::line(text) }).await;
    }

    /// Whether a change needs a round; `echo` when it may be our own doing.
    async fn judge(&mut self, change: &SourceChange, echo: bool) -> Verdict {
        if !echo {
            return self.echo.edited();
        }
        let files = change.files.clone();
        self.with_echo(move |echo| echo.judge(&files)).await.unwrap_or(Verdict::Act)
    }

    /// Runs what reads files off the runtime's threads.
    async fn with_echo<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Echo) -> T + Send + 'static,
    ) -> Option<T> {
        let mut echo = std::mem::take(&mut self.echo);
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&mut echo);
            (echo, result)
        });
        let (echo, result) = done.await.ok()?;
        self.echo = echo;
        Some(result)
    }

    async fn announce(&mut self, change: &SourceChange) {
        self.with_echo(Echo::begin).await;
        let shown = |file: &PathBuf| SafeText::line(&self.shown(file).display().to_string());
        let files: Vec<SafeText> = change.files.iter().take(DevView::NAMED).map(shown).collect();
        let more = (change.files.len() - files.len() + change.more) as u64;
        self.record(|server| Fact::SourcesChanged { server, files, more }).await;
    }

    fn shown<'p>(&self, file: &'p Path) -> &'p Path {
        file.strip_prefix(&self.root).unwrap_or(file)
    }

    async fn slow_down(&self, change: &SourceChange) {
        let file = change.files.first().map(|file| self.shown(file).display().to_string());
        let note = format!(
            "{} changes again right after each round: waiting {} s; take it out of `dev.watch` if \
             the build or the server writes it",
            file.unwrap_or_default(),
            SPACE.as_secs()
        );
        self.note(&note).await;
    }

    async fn build(&mut self, watch: &mut SourceWatch) -> Built {
        if self.dev.build.is_none() {
            return Built::Well;
        }
        self.record(|server| Fact::BuildBegan { server }).await;
        let outputs = (self.deck.clock, self.deck.logs.clone());
        let mut build = match Build::start(&self.config, self.root.clone(), outputs).await {
            Ok(build) => build,
            Err(reason) => {
                self.built((BuildEnd::Refused(reason), Duration::ZERO, Vec::new())).await;
                return Built::Badly;
            }
        };
        let stop = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => {
                    self.built(build.stop().await).await;
                    return Built::Stopped;
                }
                ended = build.wait() => {
                    let well = ended.0 == BuildEnd::Done;
                    self.built(ended).await;
                    return if well { Built::Well } else { Built::Badly };
                }
                Some(change) = watch.next(), if !self.echo.is_patient() => {
                    if self.judge(&change, true).await == Verdict::Known {
                        continue;
                    }
                    self.built(build.stop().await).await;
                    return Built::Superseded(change);
                }
            }
        }
    }

    async fn built(&self, (end, took, tail): Ended) {
        self.record(|server| Fact::BuildEnded { server, end, took, tail }).await;
    }

    /// Restarts the server, unless a person stopped it.
    async fn renew(&mut self, change: &SourceChange) {
        let resting = |state| matches!(state, ServerState::Disabled | ServerState::Shutdown);
        let before = self.slot.live();
        if before.is_asleep() {
            return;
        }
        if before.settled && resting(before.state) {
            return self.note("the server is stopped and stays so; start it manually").await;
        }
        let more = change.files.len().saturating_sub(1) + change.more;
        let first = change.files.first().map(|file| self.shown(file).display().to_string());
        let mut reason = format!("restarting: {} changed", first.unwrap_or_default());
        if more > 0 {
            reason = reason.replace(" changed", &format!(" and {more} more changed"));
        }
        let renew = Input::Renew(SafeText::line(&reason));
        if !self.slot.command(|done| Command::Control(renew, done)).await {
            return;
        }
        self.deck.facts.record_all(self.slot.close_breakers(self.deck.clock.now())).await;
        self.record(|server| Fact::SourcesTaken { server }).await;
        self.echoes_until = Instant::now() + ECHO;
    }
}

/// The absolute folder that relative globs and the build start from: the server's working
/// directory, or that of its file.
fn root_of(config: &ServerConfig) -> PathBuf {
    let of_file = || config.at.file.parent().map(Path::to_path_buf);
    let cwd = match &config.transport {
        TransportConfig::Stdio(stdio) => stdio.cwd.clone().or_else(of_file),
        _ => of_file(),
    };
    let cwd = cwd.unwrap_or_default();
    std::path::absolute(&cwd).unwrap_or(cwd)
}

/// Tells what is being watched, now and whenever that changes in a way a person should know.
async fn tell(deck: Arc<Shared>, server: ServerName, mut watched: watch::Receiver<Watched>) {
    loop {
        let now = watched.borrow_and_update().clone();
        let note = match &now.mode {
            WatchMode::Polling(why) => Some(format!("polled ({why})")),
            WatchMode::Events if now.files == 0 => {
                Some("`dev.watch` matches no file that is not ignored".to_owned())
            }
            WatchMode::Events if now.is_cut => {
                Some("there are too many folders; some are left out".to_owned())
            }
            WatchMode::Events => None,
        };
        let (files, note) = (now.files as u64, note.map(|note| SafeText::line(&note)));
        let server = server.clone();
        deck.facts.record(Fact::SourcesWatched { server, files, note }).await;
        if watched.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}

// The build command of a server (`dev.build`): a process under the same rules as a server, its
// output in the logs under a source of its own.

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

// Tells an edit from the echo of our own doing: builds and servers write files too, and when
// `dev.watch` matches those, each build would be the reason for the next.
//
// Never drops an edit for good: a file that looks as it did when the round began needs no other
// round, and rounds that follow each other at once are spaced. Reads files; blocks.

/// Most bytes of a file that are compared.
const READ: u64 = 8 << 20;

/// What to do about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Begin a round.
    Act,
    /// The running round, or the last one, has it already.
    Known,
    /// Begin a round, but not at once: too many followed each other.
    Slowly,
}

/// What is remembered from round to round.
#[derive(Clone, Debug, Default)]
pub(super) struct Echo {
    /// Files that changed during or right after a round, as they were when the last round began.
    suspects: HashMap<PathBuf, Option<u64>>,
    /// Rounds in a row that began during or right after the one before.
    streak: u32,
}

impl Echo {
    /// From here on a build is not cut short any more.
    const PATIENT: u32 = 3;
    /// From here on rounds are spaced.
    const SPACED: u32 = 8;

    /// A change arrived while nothing of ours was going on.
    pub(super) fn edited(&mut self) -> Verdict {
        *self = Self::default();
        Verdict::Act
    }

    /// A change arrived during a round or right after it.
    pub(super) fn judge(&mut self, files: &[PathBuf]) -> Verdict {
        let known = |file: &PathBuf| {
            self.suspects.get(file).is_some_and(|at_begin| *at_begin == content(file))
        };
        if files.iter().all(known) {
            return Verdict::Known;
        }
        for file in files {
            self.suspects.entry(file.clone()).or_default();
        }
        self.streak += 1;
        if self.streak > Self::SPACED { Verdict::Slowly } else { Verdict::Act }
    }

    /// A round begins: what it sees of the suspects needs no other round.
    pub(super) fn begin(&mut self) {
        for (file, seen) in &mut self.suspects {
            *seen = content(file);
        }
    }

    /// Whether builds are to be left to their end.
    pub(super) const fn is_patient(&self) -> bool {
        self.streak >= Self::PATIENT
    }
}

/// A hash of a file's content; `None` when it cannot be read.
fn content(file: &Path) -> Option<u64> {
    let file = std::fs::File::open(file).ok()?;
    let mut hasher = DefaultHasher::new();
    let mut rest = file.take(READ);
    let mut buffer = vec![0; 64 << 10];
    loop {
        match rest.read(&mut buffer).ok()? {
            0 => return Some(hasher.finish()),
            n => hasher.write(&buffer[..n]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_writes_the_same_again_is_not_the_reason_for_another() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = vec![dir.path().join("out.js")];
        let mut echo = Echo::default();
        assert_eq!(echo.edited(), Verdict::Act);
        echo.begin();
        std::fs::write(&out[0], "1").expect("written");
        assert_eq!(echo.judge(&out), Verdict::Act, "it may have been an edit");
        echo.begin();
        std::fs::write(&out[0], "1").expect("written");
        assert_eq!(echo.judge(&out), Verdict::Known);
        std::fs::write(&out[0], "2").expect("written");
        assert_eq!(echo.judge(&out), Verdict::Act, "another content was not built yet");
    }

    #[test]
    fn rounds_without_end_become_patient_then_slow_and_an_edit_in_peace_forgives() {
        let dir = tempfile::tempdir().expect("a folder");
        let out = vec![dir.path().join("out.js")];
        let mut echo = Echo::default();
        let mut verdicts = Vec::new();
        for round in 0..10 {
            echo.begin();
            std::fs::write(&out[0], round.to_string()).expect("written");
            verdicts.push((echo.judge(&out), echo.is_patient()));
        }
        assert_eq!(verdicts[1], (Verdict::Act, false));
        assert_eq!(verdicts[2], (Verdict::Act, true));
        assert_eq!(verdicts[9], (Verdict::Slowly, true));
        echo.edited();
        assert!(!echo.is_patient());
    }
}
