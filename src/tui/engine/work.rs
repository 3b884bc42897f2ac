//! What the engine thread does: loads, lets through the gate, runs, reloads; does what the person
//! asks of the configuration. Draws nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::edits::Made;
use super::{EngineEvent, FileSource, Listeners, Source};
use crate::base::ServerName;
use crate::base::WatchMode;
use crate::base::secret::Secret;
use crate::base::text::SafeText;
use crate::config::overview::{SourceFile, sources, values};
use crate::config::{self, ConfigChange, Diagnostic, Environment, Loaded, McpConfig, ReloadMode};
use crate::deck::gate::{Gate, Passed};
use crate::deck::keyring::Keyring;
use crate::deck::{LoadResult, Watch, WatchOptions};
use crate::error::{Error, ErrorCode};
use crate::host::dev::sources::SourceOptions;
use crate::host::{Host, HostView, ReloadPlan, Startup};
use crate::tui::effect::ConfigCommand;
use crate::tui::model::{FileText, Situation};

/// Least time between two looks at what servers offer.
const NOTED: Duration = Duration::from_secs(1);

/// What work outside of the thread has found out.
pub(super) enum Heard {
    /// The keyring was asked for the answer to an input.
    Found(String, Result<Option<Secret>, String>),
    /// The keyring was given one.
    Kept(String, Result<(), String>),
}

/// Why the thread went on.
enum Turn {
    Stop,
    Heard(Heard),
    Asked(ConfigCommand),
    Changed(Box<LoadResult>),
    Offered(Arc<HostView>),
}

/// State of the thread.
pub(super) struct Work {
    pub(super) host: Option<Host>,
    pub(super) watch: Option<Watch>,
    pub(super) files: FileSource,
    listeners: Listeners,
    /// What the servers offer, as the host says it.
    offers: Option<watch::Receiver<Arc<HostView>>>,
    /// What was loaded last and can be used.
    latest: Option<Loaded>,
    /// The same, behind the gate.
    pub(super) passed: Passed,
    /// What the host runs.
    pub(super) running: Option<McpConfig>,
    /// Edits of the person that can be taken back.
    pub(super) edits: Vec<Made>,
    /// A changed configuration that waits for a yes, with what it would change.
    waiting: Option<(McpConfig, ReloadPlan)>,
    /// What the person said of showing changes before they are used; else `"reload"` says it.
    ask: Option<ReloadMode>,
    /// The next change is the person's own wish and is not asked about.
    pub(super) expected: bool,
    pub(super) keyring: Option<Keyring>,
    /// Inputs whose answers are in the keyring.
    pub(super) kept: BTreeSet<String>,
    pub(super) heard: mpsc::Sender<Heard>,
    /// Whether the newest state of the files could be used.
    sound: bool,
    revision: u64,
    /// Files are looked at by the clock.
    poll_only: bool,
    events: mpsc::Sender<EngineEvent>,
}

/// Runs until it is told to stop.
pub(super) async fn run(
    source: Source,
    listeners: Listeners,
    events: mpsc::Sender<EngineEvent>,
    (mut commands, mut stopped): (mpsc::Receiver<ConfigCommand>, oneshot::Receiver<()>),
) {
    let nothing =
        FileSource { files: Vec::new(), environment: Environment::default(), gate: Gate::Open };
    let (heard, mut news) = mpsc::channel(8);
    let mut work = Work {
        host: None,
        watch: None,
        files: nothing,
        listeners,
        offers: None,
        latest: None,
        passed: Passed::default(),
        running: None,
        edits: Vec::new(),
        waiting: None,
        ask: None,
        expected: false,
        keyring: None,
        kept: BTreeSet::new(),
        heard,
        sound: true,
        revision: 0,
        poll_only: false,
        events,
    };
    match source {
        Source::Config(config) => {
            work.passed.config = (*config).clone();
            work.begin(*config).await;
            work.tell().await;
        }
        Source::Files(files) => work.open(*files).await,
    }
    loop {
        let turn = tokio::select! {
            _ = &mut stopped => Turn::Stop,
            Some(command) = commands.recv() => Turn::Asked(command),
            Some(heard) = news.recv() => Turn::Heard(heard),
            Some(state) = next_state(&mut work.watch) => Turn::Changed(Box::new(state)),
            Some(view) = next_view(&mut work.offers) => Turn::Offered(view),
        };
        match turn {
            Turn::Stop => break,
            Turn::Asked(command) => work.asked(command).await,
            Turn::Heard(heard) => work.heard(heard).await,
            Turn::Changed(result) => work.changed(*result).await,
            Turn::Offered(view) => work.note(&view),
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

/// How things stand at the host, at most once in a while; never, when there is none.
async fn next_view(offers: &mut Option<watch::Receiver<Arc<HostView>>>) -> Option<Arc<HostView>> {
    match offers {
        Some(view) => {
            // First, so that a change is not forgotten when something else comes meanwhile.
            tokio::time::sleep(NOTED).await;
            let changed = view.changed().await;
            let now = view.borrow_and_update().clone();
            if changed.is_err() {
                *offers = None;
            }
            Some(now)
        }
        None => std::future::pending().await,
    }
}

impl Work {
    fn note(&self, view: &HostView) {
        if let (Some(notebook), Some(config)) = (&self.listeners.notebook, &self.running) {
            notebook(config, view);
        }
    }

    async fn open(&mut self, files: FileSource) {
        let result = config::load(&files.files, &files.environment);
        self.files = files;
        self.poll_only = polls(&self.files.environment);
        let options = WatchOptions {
            known: Some(result.clone()),
            poll_only: self.poll_only,
            ..WatchOptions::default()
        };
        let (files, environment) = (self.files.files.clone(), self.files.environment.clone());
        self.watch = Some(Watch::start(files, environment, options));
        self.look_up_kept();
        match result {
            Ok(loaded) => {
                self.latest = Some(loaded);
                let config = self.pass();
                self.begin(config).await;
                self.tell().await;
            }
            Err(diagnostics) => self.refuse(refusal(diagnostics)).await,
        }
    }

    async fn asked(&mut self, command: ConfigCommand) {
        match command {
            ConfigCommand::Apply => {
                if let Some((config, _)) = self.waiting.take() {
                    self.take(config).await;
                    self.tell().await;
                }
            }
            ConfigCommand::AskFirst => {
                self.ask = Some(match self.mode(&self.passed.config) {
                    ReloadMode::Ask => ReloadMode::Auto,
                    ReloadMode::Auto => ReloadMode::Ask,
                });
                self.tell().await;
            }
            ConfigCommand::Approve { revision, servers } => self.approve(revision, &servers).await,
            ConfigCommand::Answer { id, value, keep } => self.answer(id, value, keep).await,
            ConfigCommand::Forget(id) => self.forget(&id),
            ConfigCommand::OpenEntry(name) => self.open_entry(&name).await,
            ConfigCommand::SaveEntry(saving) => self.save_entry(*saving).await,
            ConfigCommand::Change(change) => self.change(change).await,
            ConfigCommand::Undo => self.undo().await,
        }
    }

    /// What happens to a change: the person's word in this run goes before the file's.
    fn mode(&self, config: &McpConfig) -> ReloadMode {
        self.ask.unwrap_or(config.reload)
    }

    fn sources(&self) -> Vec<SourceFile> {
        if self.files.files.is_empty() {
            return Vec::new();
        }
        sources(&self.files.files, &self.files.environment, &self.passed.reviewed)
    }

    /// What runs, or would if it were let, with the origins of its values.
    fn in_effect(&self) -> Loaded {
        Loaded {
            config: self.passed.config.clone(),
            origins: self.passed.reviewed.origins.clone(),
            ..Loaded::default()
        }
    }

    /// Lets what was loaded last through the gate.
    fn pass(&mut self) -> McpConfig {
        let loaded = self.latest.clone().unwrap_or_default();
        let from = (self.files.files.as_slice(), &self.files.environment);
        self.passed = self.files.gate.pass(loaded, from, self.running.as_ref());
        self.passed.config.clone()
    }

    /// Remembers that the person approves servers as they were shown, and lets them start.
    async fn approve(&mut self, revision: u64, servers: &[ServerName]) {
        if revision != self.revision {
            let said = "the file changed meanwhile: look again before you approve";
            return self.fail(said.to_owned()).await;
        }
        let Gate::Guarded(store) = &mut self.files.gate else { return };
        let kept = store.approve(&self.passed.reviewed, servers);
        if let Err(error) = &kept {
            store.approve_for_session(&self.passed.reviewed, servers);
            let said = format!("approved for now, but it cannot be remembered: {error}");
            self.fail(said).await;
        }
        let config = self.pass();
        if let Some((_, change)) = self.waiting.take() {
            // The rest of the changed file still waits for its own yes.
            self.waiting = Some((config, change));
        } else {
            self.take(config).await;
        }
        self.tell().await;
    }

    fn texts(&self) -> Vec<FileText> {
        self.files.files.iter().filter_map(|path| read_masked(path)).collect()
    }

    pub(super) async fn send(&self, event: EngineEvent) {
        // A screen that is gone needs no news.
        let _ = self.events.send(event).await;
    }

    pub(super) async fn fail(&self, message: String) {
        self.send(EngineEvent::Failed(Error::new(ErrorCode::Configuration, message))).await;
    }

    /// Tells the screen how things stand.
    pub(super) async fn tell(&mut self) {
        self.revision += 1;
        let situation = Situation {
            revision: self.revision,
            awaiting: self.passed.awaiting.clone(),
            inputs: self.inputs(),
            keyring: self.keyring.is_some(),
            undo: !self.edits.is_empty(),
            sources: self.sources(),
            values: values(&self.in_effect()),
            polling: match self.watch.as_ref().map(Watch::mode) {
                Some(WatchMode::Polling(reason)) => Some(SafeText::line(&reason)),
                _ => None,
            },
            asks: self.mode(&self.passed.config) == ReloadMode::Ask,
            plan: self.waiting.as_ref().map(|(_, change)| change.clone()),
        };
        self.send(EngineEvent::Situation(Arc::new(situation))).await;
    }

    fn mask(&self, config: &McpConfig) {
        if let Some(masks) = &self.listeners.masks {
            masks(config);
        }
    }

    async fn begin(&mut self, config: McpConfig) {
        self.mask(&config);
        self.send(EngineEvent::Loaded(Arc::new(config.clone()), self.texts())).await;
        let builder = Host::builder().config(config.clone()).startup(Startup::Background);
        let sources = SourceOptions { poll_only: self.poll_only, ..SourceOptions::default() };
        match builder.follow_sources(sources).person_answers().initialize().await {
            Ok(host) => {
                self.offers = self.listeners.notebook.as_ref().map(|_| host.view());
                self.host = Some(host.clone());
                self.running = Some(config);
                self.send(EngineEvent::Ready(host)).await;
            }
            Err(error) => self.refuse(error).await,
        }
    }

    async fn refuse(&self, error: Error) {
        self.send(EngineEvent::Refused(error, self.texts())).await;
    }

    pub(super) async fn changed(&mut self, result: LoadResult) {
        let waited = self.waiting.take();
        if result.as_ref().ok() == self.latest.as_ref() && self.host.is_some() && self.sound {
            // Our own edit, which is in use already.
            self.waiting = waited;
            return;
        }
        let expected = std::mem::take(&mut self.expected);
        self.sound = result.as_ref().is_ok_and(|loaded| !loaded.has_errors());
        match result {
            Ok(loaded) if !loaded.has_errors() => {
                self.latest = Some(loaded);
                let config = self.pass();
                let ask = self.mode(&config) == ReloadMode::Ask && !expected;
                let touches =
                    |running: &McpConfig| !ConfigChange::between(running, &config).is_empty();
                let ask = ask && self.running.as_ref().is_some_and(touches);
                match self.host.clone() {
                    Some(host) if ask => self.plan(&host, config).await,
                    _ => self.take(config).await,
                }
                self.tell().await;
            }
            Ok(loaded) => self.reject(loaded.diagnostics).await,
            Err(diagnostics) => self.reject(diagnostics).await,
        }
    }

    /// Holds a changed configuration back until the person has seen what it would do.
    async fn plan(&mut self, host: &Host, config: McpConfig) {
        match host.plan_reload(config.clone()).await {
            Ok(plan) => {
                self.waiting = Some((config, plan));
                self.send(EngineEvent::Edited(self.texts())).await;
            }
            Err(error) => self.reject(error.diagnostics.clone()).await,
        }
    }

    async fn take(&mut self, config: McpConfig) {
        let Some(host) = self.host.clone() else { return self.begin(config).await };
        self.mask(&config);
        self.send(EngineEvent::Loaded(Arc::new(config.clone()), self.texts())).await;
        // A server that was taken out and does not want to end holds up no later change.
        match host.begin_reload(config.clone()).await {
            Ok(_) => self.running = Some(config),
            Err(error) => {
                tracing::warn!(%error, "the changed configuration was not applied");
                host.reject_config(error.diagnostics.clone());
            }
        }
    }

    async fn reject(&self, diagnostics: Vec<Diagnostic>) {
        match &self.host {
            Some(host) => {
                host.reject_config(diagnostics);
                self.send(EngineEvent::Edited(self.texts())).await;
            }
            None => self.refuse(refusal(diagnostics)).await,
        }
    }
}

/// Whether files are to be looked at by the clock: `MCPDECK_WATCH=poll`, for file systems that
/// report nothing and are not known for it.
fn polls(environment: &Environment) -> bool {
    environment.var("MCPDECK_WATCH").is_some_and(|how| how.eq_ignore_ascii_case("poll"))
}

fn refusal(diagnostics: Vec<Diagnostic>) -> Error {
    let first =
        diagnostics.first().map_or_else(String::new, |d| format!("{}: {}", d.at, d.message));
    let mut error = Error::new(ErrorCode::Configuration, first);
    error.diagnostics = diagnostics;
    error
}

/// The lines of a file with its secrets masked.
fn read_masked(path: &Path) -> Option<FileText> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    for range in config::mask::hidden_ranges(&text) {
        masked.push_str(text.get(at..range.start).unwrap_or_default());
        masked.push_str(crate::base::secret::MASK);
        // A hidden text over several lines keeps its lines, so that numbers stay right.
        let lines = text.get(range.clone()).unwrap_or_default().matches('\n').count();
        masked.extend(std::iter::repeat_n('\n', lines));
        at = range.end;
    }
    masked.push_str(text.get(at..).unwrap_or_default());
    let lines = masked.lines().map(SafeText::line).collect();
    Some(FileText { path: PathBuf::from(path), lines })
}
