//! The engine thread: loads the configuration, runs the host on a runtime of its own, stops it.
//! The screen never waits for it. `work` is what the thread does.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::base::text::SafeText;
use crate::config::edit::entry::ShownEntry;
use crate::config::{Environment, McpConfig};
use crate::deck::gate::Gate;
use crate::error::Error;
use crate::host::{Host, HostView};
use crate::tui::effect::ConfigCommand;
use crate::tui::model::{FileText, Situation};

mod edits;
mod inputs;
mod work;

/// Where the servers come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Configuration files, the last of them with the highest precedence.
    Files(Box<FileSource>),
    /// A ready configuration: the demo, or a command on the command line.
    Config(Box<McpConfig>),
}

impl Source {
    /// The file beside which a project keeps what belongs to it: that of highest precedence.
    pub fn project(&self) -> Option<&std::path::Path> {
        match self {
            Self::Files(source) => source.files.last().map(PathBuf::as_path),
            Self::Config(_) => None,
        }
    }
}

/// Configuration files and what they are read with.
#[derive(Clone, Debug)]
pub struct FileSource {
    /// The files, the last of them with the highest precedence.
    pub files: Vec<PathBuf>,
    /// Variables, folders, answers.
    pub environment: Environment,
    /// Whose word counts before a command of them runs.
    pub gate: Gate,
}

/// Told of every configuration before it is used, so that its secrets are kept out of the log.
pub type Masks = Arc<dyn Fn(&McpConfig) + Send + Sync>;

/// Is told what the servers of a configuration offer, soon after that changed.
pub type Notebook = Arc<dyn Fn(&McpConfig, &HostView) + Send + Sync>;

/// Who outside of the dashboard is told how things go.
#[derive(Clone, Default)]
pub struct Listeners {
    /// Keeps the secrets of every configuration out of the program's own log.
    pub masks: Option<Masks>,
    /// Remembers what servers offer.
    pub notebook: Option<Notebook>,
}

/// What the engine thread reports.
pub enum EngineEvent {
    /// The configuration was read: what is used of it, and its files.
    Loaded(Arc<McpConfig>, Vec<FileText>),
    /// It could not be used; the files as far as they could be read.
    Refused(Error, Vec<FileText>),
    /// The files changed and are not used: what stands in them now.
    Edited(Vec<FileText>),
    /// How the configuration stands: what waits for the person.
    Situation(Arc<Situation>),
    /// An entry to edit.
    Entry(Box<ShownEntry>),
    /// An edited entry was written, or why not.
    Saved(Result<SafeText, SafeText>),
    /// Something the person asked for was done; a word about it.
    Done(SafeText),
    /// Something the person asked for could not be done.
    Failed(Error),
    /// The host runs.
    Ready(Host),
}

/// The engine thread; dropping it stops the servers and waits for that.
pub struct Engine {
    stop: Option<oneshot::Sender<()>>,
    commands: mpsc::Sender<ConfigCommand>,
    thread: Option<std::thread::JoinHandle<()>>,
    host: Option<Host>,
}

impl Engine {
    /// Starts the thread. Overflow policy: the thread waits while `events` is full.
    pub fn spawn(
        source: Source,
        listeners: Listeners,
        events: mpsc::Sender<EngineEvent>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (commands, asked) = mpsc::channel(16);
        let thread = std::thread::Builder::new().name("engine".into()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(work::run(source, listeners, events, (asked, stopped)));
                runtime.shutdown_timeout(Duration::from_millis(200));
            }
        })?;
        Ok(Self { stop: Some(stop), commands, thread: Some(thread), host: None })
    }

    /// Keeps the handle, to force the end with.
    pub fn attach(&mut self, host: Host) {
        self.host = Some(host);
    }

    /// Asks for something of the configuration; gives whether it was taken. Overflow policy: what
    /// comes faster than a person asks is refused.
    pub fn ask(&self, command: ConfigCommand) -> bool {
        self.commands.try_send(command).is_ok()
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
