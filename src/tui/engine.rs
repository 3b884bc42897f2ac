//! The engine thread: loads the configuration, runs the host on a runtime of its own, stops it.
//! The screen never waits for it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::config::watch::{LoadResult, Watch, WatchOptions};
use crate::config::{self, Diagnostic, Environment, Loaded, McpConfig};
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
    /// The files changed in a way that could not be taken into use; the last good state goes on.
    Edited(Vec<FileText>),
    /// The host runs.
    Ready(Host),
}

/// The engine thread; dropping it stops the servers and waits for that.
pub struct Engine {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
    host: Option<Host>,
}

impl Engine {
    /// Starts the thread. Overflow policy: the thread waits while `events` is full.
    pub fn spawn(source: Source, events: mpsc::Sender<EngineEvent>) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(run(source, &events, stopped));
                runtime.shutdown_timeout(Duration::from_millis(200));
            }
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread), host: None })
    }

    /// Keeps the handle, to force the end with.
    pub fn attach(&mut self, host: Host) {
        self.host = Some(host);
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

async fn run(
    source: Source,
    events: &mpsc::Sender<EngineEvent>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut loaded = load(&source);
    let mut watch = follow(&source, &loaded);
    let host = loop {
        match start(&source, loaded, events).await {
            Ok(host) => break host,
            Err(error) => {
                let _ = events.send(EngineEvent::Refused(error, texts(&source))).await;
            }
        }
        // The screen stays: the next save may mend it.
        tokio::select! {
            _ = &mut stopped => return,
            next = changed(&mut watch) => loaded = next,
        }
    };
    let _ = events.send(EngineEvent::Ready(host.clone())).await;
    loop {
        tokio::select! {
            _ = &mut stopped => break,
            next = changed(&mut watch) => reload(&host, &source, next, events).await,
        }
    }
    drop(watch);
    host.shutdown().await;
}

async fn start(
    source: &Source,
    loaded: LoadResult,
    events: &mpsc::Sender<EngineEvent>,
) -> Result<Host, Error> {
    let config = usable(loaded.map_err(refusal)?);
    let shown = Arc::new(config.clone());
    let _ = events.send(EngineEvent::Loaded(shown, texts(source))).await;
    let builder = Host::builder().config(config).startup(Startup::Background);
    builder.person_answers().initialize().await
}

/// Takes a changed configuration into use (requirement C8). One with an error leaves everything
/// running and is shown.
async fn reload(
    host: &Host,
    source: &Source,
    loaded: LoadResult,
    events: &mpsc::Sender<EngineEvent>,
) {
    let good = match loaded {
        Ok(loaded) if !loaded.has_errors() => loaded,
        Ok(loaded) => return reject(host, source, loaded.diagnostics, events).await,
        Err(diagnostics) => return reject(host, source, diagnostics, events).await,
    };
    let config = usable(good);
    let shown = Arc::new(config.clone());
    match host.reload(config).await {
        Ok(()) => _ = events.send(EngineEvent::Loaded(shown, texts(source))).await,
        Err(error) => reject(host, source, error.diagnostics.clone(), events).await,
    }
}

async fn reject(
    host: &Host,
    source: &Source,
    diagnostics: Vec<Diagnostic>,
    events: &mpsc::Sender<EngineEvent>,
) {
    host.reject_config(diagnostics);
    let _ = events.send(EngineEvent::Edited(texts(source))).await;
}

/// Follows the files; nothing is followed where there are none.
fn follow(source: &Source, known: &LoadResult) -> Option<Watch> {
    match source {
        Source::Config(_) => None,
        Source::Files(files, environment) => {
            let options = WatchOptions { known: Some(known.clone()), ..WatchOptions::default() };
            Some(Watch::start(files.clone(), (**environment).clone(), options))
        }
    }
}

/// The next state of the files; never, where none are followed.
async fn changed(watch: &mut Option<Watch>) -> LoadResult {
    if let Some(watch) = watch
        && let Some(next) = watch.next().await
    {
        return next.result;
    }
    std::future::pending().await
}

fn refusal(diagnostics: Vec<Diagnostic>) -> Error {
    let first =
        diagnostics.first().map_or_else(String::new, |d| format!("{}: {}", d.at, d.message));
    let mut error = Error::new(ErrorCode::Configuration, first);
    error.diagnostics = diagnostics;
    error
}

fn load(source: &Source) -> LoadResult {
    match source {
        Source::Config(config) => Ok(Loaded { config: (**config).clone(), ..Loaded::default() }),
        Source::Files(paths, environment) => config::load(paths, environment),
    }
}

/// What of a configuration can be used, with everything that is wrong with the rest.
fn usable(loaded: Loaded) -> McpConfig {
    let mut config = loaded.config;
    config.warnings.extend(loaded.diagnostics);
    config.warnings.extend(loaded.needs.into_iter().map(|need| need.problem));
    config.warnings.dedup();
    config
}

fn texts(source: &Source) -> Vec<FileText> {
    match source {
        Source::Config(_) => Vec::new(),
        Source::Files(paths, _) => paths.iter().filter_map(|path| read_masked(path)).collect(),
    }
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
