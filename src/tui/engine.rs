//! The engine thread: loads the configuration, runs the host on a runtime of its own, stops it.
//! The screen never waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::config::{
    self, Diagnostic, Environment, LoadResult, Loaded, McpConfig, ReloadMode, Watch, WatchOptions,
};
use crate::host::{Error, ErrorCode, Host, Startup};
use crate::text::SafeText;
use crate::tui::model::FileText;

/// Where the servers come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Configuration files, the last of them with the highest precedence.
    Files(Vec<PathBuf>, Box<Environment>),
    /// A ready configuration: the demo, or a command on the command line.
    Config(Box<McpConfig>),
}

/// What the engine thread reports.
pub enum EngineEvent {
    /// The configuration was read: what is used of it, and its files.
    Loaded(Arc<McpConfig>, Vec<FileText>),
    /// It could not be used; the files as far as they could be read.
    Refused(Error, Vec<FileText>),
    /// The files changed and are not used: what stands in them now.
    Edited(Vec<FileText>),
    /// The files changed, and a person is to say whether they are used.
    Waits,
    /// The host runs.
    Ready(Host),
}

/// The engine thread; dropping it stops the servers and waits for that.
pub struct Engine {
    stop: Option<oneshot::Sender<()>>,
    commands: mpsc::Sender<Command>,
    thread: Option<std::thread::JoinHandle<()>>,
    host: Option<Host>,
}

impl Engine {
    /// Starts the thread. Overflow policy: the thread waits while `events` is full.
    pub fn spawn(source: Source, events: mpsc::Sender<EngineEvent>) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (commands, asked) = mpsc::channel(4);
        let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(run(source, events, asked, stopped));
                runtime.shutdown_timeout(Duration::from_millis(200));
            }
        })?;
        Ok(Self { stop: Some(stop), commands, thread: Some(thread), host: None })
    }

    /// Keeps the handle, to force the end with.
    pub fn attach(&mut self, host: Host) {
        self.host = Some(host);
    }

    /// Uses the changed configuration that waits. Overflow policy: asking twice is asking once.
    pub fn apply(&self) {
        let _ = self.commands.try_send(Command::Apply);
    }

    /// Asks for the end; the thread ends when every server has.
    pub fn stop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }

    /// Skips the grace.
    pub fn force(&self) {
        if let Some(host) = &self.host {
            host.force_shutdown();
        }
    }

    /// Whether everything has ended.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(std::thread::JoinHandle::is_finished)
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            self.force();
        }
        self.host = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What the engine thread is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Command {
    /// Use the changed configuration that waits (`"reload": "ask"`).
    Apply,
}

/// Why the thread went on.
enum Turn {
    Stop,
    Apply,
    Changed(Box<LoadResult>),
}

struct Work {
    host: Option<Host>,
    watch: Option<Watch>,
    paths: Vec<PathBuf>,
    /// A changed configuration that waits for a yes.
    waiting: Option<McpConfig>,
    events: mpsc::Sender<EngineEvent>,
}

async fn run(
    source: Source,
    events: mpsc::Sender<EngineEvent>,
    mut commands: mpsc::Receiver<Command>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut work = Work { host: None, watch: None, paths: Vec::new(), waiting: None, events };
    match source {
        Source::Config(config) => work.begin(*config).await,
        Source::Files(paths, environment) => {
            let result = config::load(&paths, &environment);
            work.paths = paths;
            let options = WatchOptions { known: Some(result.clone()), ..WatchOptions::default() };
            work.watch = Some(Watch::start(work.paths.clone(), *environment, options));
            match result {
                Ok(loaded) => work.begin(with_warnings(loaded)).await,
                Err(diagnostics) => work.refuse(refusal(diagnostics)).await,
            }
        }
    }
    loop {
        let turn = tokio::select! {
            _ = &mut stopped => Turn::Stop,
            Some(Command::Apply) = commands.recv() => Turn::Apply,
            Some(state) = next_state(&mut work.watch) => Turn::Changed(Box::new(state)),
        };
        match turn {
            Turn::Stop => break,
            Turn::Apply => {
                if let Some(config) = work.waiting.take() {
                    work.take(config).await;
                }
            }
            Turn::Changed(result) => work.changed(*result).await,
        }
    }
    if let Some(host) = work.host {
        host.shutdown().await;
    }
}

/// The next state of the files; never, when there are none.
async fn next_state(watch: &mut Option<Watch>) -> Option<LoadResult> {
    match watch {
        Some(watch) => watch.next().await.map(|state| state.result),
        None => std::future::pending().await,
    }
}

impl Work {
    fn files(&self) -> Vec<FileText> {
        self.paths.iter().filter_map(|path| read_masked(path)).collect()
    }

    async fn send(&self, event: EngineEvent) {
        // A screen that is gone needs no news.
        let _ = self.events.send(event).await;
    }

    async fn begin(&mut self, config: McpConfig) {
        self.send(EngineEvent::Loaded(Arc::new(config.clone()), self.files())).await;
        let builder = Host::builder().config(config).startup(Startup::Background);
        match builder.person_answers().initialize().await {
            Ok(host) => {
                self.host = Some(host.clone());
                self.send(EngineEvent::Ready(host)).await;
            }
            Err(error) => self.refuse(error).await,
        }
    }

    async fn refuse(&self, error: Error) {
        self.send(EngineEvent::Refused(error, self.files())).await;
    }

    async fn changed(&mut self, result: LoadResult) {
        self.waiting = None;
        match result {
            Ok(loaded) if !loaded.has_errors() => {
                let config = with_warnings(loaded);
                if config.reload == ReloadMode::Ask && self.host.is_some() {
                    self.waiting = Some(config);
                    self.send(EngineEvent::Waits).await;
                } else {
                    self.take(config).await;
                }
            }
            Ok(loaded) => self.reject(loaded.diagnostics).await,
            Err(diagnostics) => self.reject(diagnostics).await,
        }
    }

    async fn take(&mut self, config: McpConfig) {
        let Some(host) = self.host.clone() else { return self.begin(config).await };
        self.send(EngineEvent::Loaded(Arc::new(config.clone()), self.files())).await;
        if let Err(error) = host.reload(config).await {
            tracing::warn!(%error, "the changed configuration was not applied");
            host.reject_config(error.diagnostics.clone());
        }
    }

    async fn reject(&self, diagnostics: Vec<Diagnostic>) {
        match &self.host {
            Some(host) => {
                host.reject_config(diagnostics);
                self.send(EngineEvent::Edited(self.files())).await;
            }
            None => self.refuse(refusal(diagnostics)).await,
        }
    }
}

fn with_warnings(loaded: Loaded) -> McpConfig {
    let mut config = loaded.config;
    config.warnings.extend(loaded.diagnostics);
    config.warnings.extend(loaded.needs.into_iter().map(|need| need.problem));
    config.warnings.dedup();
    config
}

fn refusal(diagnostics: Vec<Diagnostic>) -> Error {
    let first =
        diagnostics.first().map_or_else(String::new, |d| format!("{}: {}", d.at, d.message));
    let mut error = Error::new(ErrorCode::Configuration, first);
    error.diagnostics = diagnostics;
    error
}

/// The lines of a file with its secrets masked.
fn read_masked(path: &std::path::Path) -> Option<FileText> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for range in config::mask::hidden_ranges(&text) {
        masked.push_str(text.get(at..range.start).unwrap_or_default());
        masked.push_str(crate::secret::MASK);
        // A hidden text over several lines keeps its lines, so that numbers stay right.
        let lines = text.get(range.clone()).unwrap_or_default().matches('\n').count();
        masked.extend(std::iter::repeat_n('\n', lines));
        at = range.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    let lines = masked.lines().map(SafeText::line).collect();
    Some(FileText { path: path.to_path_buf(), lines })
}
