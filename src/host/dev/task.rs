//! The task that follows the sources of one server: round after round of change, build, restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::build::{Build, Ended};
use super::echo::{Echo, Verdict};
use super::view::DevView;
use crate::base::WatchMode;
use crate::base::text::SafeText;
use crate::config::{DevConfig, ServerConfig, TransportConfig};
use crate::host::dev::sources::Watched;
use crate::host::dev::sources::{SourceChange, SourceOptions, SourceWatch};
use crate::host::dev::view::BuildEnd;
use crate::host::server::command::Command;
use crate::host::server::lifecycle::Input;
use crate::host::server::slot::Slot;
use crate::host::shared::Shared;
use crate::host::{Fact, ServerState};

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
        let server = self.slot.name.clone();
        let mut watch = match started {
            Ok(watch) => watch,
            Err(reason) => {
                let note = Some(SafeText::line(&reason));
                return self.record(Fact::SourcesWatched { server, files: 0, note }).await;
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

    async fn record(&self, fact: Fact) {
        self.deck.facts.record(fact).await;
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
        let server = self.slot.name.clone();
        self.record(Fact::SourcesChanged { server, files, more }).await;
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
        let server = self.slot.name.clone();
        self.record(Fact::SourcesNoted { server, note: SafeText::line(&note) }).await;
    }

    async fn build(&mut self, watch: &mut SourceWatch) -> Built {
        if self.dev.build.is_none() {
            return Built::Well;
        }
        let server = self.slot.name.clone();
        self.record(Fact::BuildBegan { server }).await;
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
        let server = self.slot.name.clone();
        self.record(Fact::BuildEnded { server, end, took, tail }).await;
    }

    /// Restarts the server, unless a person stopped it.
    async fn renew(&mut self, change: &SourceChange) {
        let server = self.slot.name.clone();
        let resting = |state| matches!(state, ServerState::Disabled | ServerState::Shutdown);
        let before = self.slot.live();
        if before.is_asleep() {
            return;
        }
        if before.settled && resting(before.state) {
            let note = SafeText::line("the server is stopped and stays so; start it manually");
            return self.record(Fact::SourcesNoted { server, note }).await;
        }
        let more = change.files.len().saturating_sub(1) + change.more;
        let first = change.files.first().map(|file| self.shown(file).display().to_string());
        let mut reason = format!("restarting: {} changed", first.unwrap_or_default());
        if more > 0 {
            reason = reason.replace(" changed", &format!(" and {more} more changed"));
        }
        let (done, taken) = oneshot::channel();
        let renew = Command::Control(Input::Renew(SafeText::line(&reason)), done);
        if self.slot.commands.send(renew).await.is_err() {
            return;
        }
        let _ = taken.await;
        for fact in self.slot.close_breakers(self.deck.clock.now()) {
            self.record(fact).await;
        }
        self.record(Fact::SourcesTaken { server }).await;
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
async fn tell(
    deck: Arc<Shared>,
    server: crate::base::ServerName,
    mut watched: watch::Receiver<Watched>,
) {
    let mut told = None;
    loop {
        let now = watched.borrow_and_update().clone();
        let note = match &now.mode {
            WatchMode::Polling(why) => Some(format!("looked at by the clock ({why})")),
            WatchMode::Events if now.files == 0 => {
                Some("`dev.watch` matches no file that is not ignored".to_owned())
            }
            WatchMode::Events => None,
        };
        let note = match (note, now.is_cut) {
            (None, true) => Some("there are too many folders; some are left out".to_owned()),
            (note, _) => note,
        };
        let (files, note) = (now.files as u64, note.map(|note| SafeText::line(&note)));
        if told.as_ref() != Some(&(files, note.clone())) {
            told = Some((files, note.clone()));
            let server = server.clone();
            deck.facts.record(Fact::SourcesWatched { server, files, note }).await;
        }
        if watched.changed().await.is_err() {
            return std::future::pending().await;
        }
    }
}
