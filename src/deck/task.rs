//! The task of a deck: loads the configuration, applies the trust gate, passes it to the host,
//! reloads it, and executes commands about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::command::{ConfigCommand, DeckEvent, FileChange, KeepInput, Masks, Notebook};
use super::definitions::KeptDefinitions;
use super::edits::{FileEditor, Made};
use super::handle::{DeckBuilder, DeckSource};
use super::inputs::{KeptInputs, KeyringAnswer};
use super::situation::{FileText, Situation, ValuesInEffect};
use super::trust::{Passed, TrustGate, TrustVerdict};
use super::watch::{ConfigWatch, FileWatch, LoadResult, WatchOptions};
use base::notices::NoticeReader;
use base::{SafeText, Secret, ServerName, WatchMode};
use config::error::{Error, ErrorCode};
use config::{
    self, ConfigChange, Diagnostic, EditError, Environment, Loaded, McpConfig, ReloadMode,
    source_files,
};
use host::{Host, HostView, ShutdownReport, Startup, reload_plan};

/// Minimum time between two calls of the notebook.
const NOTEBOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Most edits that can be undone.
const MAX_UNDO_EDITS: usize = 50;

/// State of the task.
pub(super) struct DeckTask {
    pub(super) host: Host,
    watch: Option<ConfigWatch>,
    /// Watches for approvals by another program of the user, while something waits for them.
    approvals: Option<FileWatch>,
    poll_only: bool,
    pub(super) files: Vec<PathBuf>,
    pub(super) environment: Environment,
    gate: TrustGate,
    masks: Option<Masks>,
    notebook: Option<Notebook>,
    /// The last usable load.
    latest: Option<Loaded>,
    /// The same after the gate.
    passed: Passed,
    /// What the host runs; `None` until a configuration was usable.
    running: Option<McpConfig>,
    /// Edits of the user that can be undone.
    edits: Vec<Made>,
    /// A changed configuration that waits for confirmation, with what it would change.
    waiting: Option<(McpConfig, ConfigChange)>,
    /// The user's choice for this run, which overrides `"reload"`.
    ask: Option<ReloadMode>,
    kept: KeptInputs,
    /// Whether the newest state of the files is usable.
    sound: bool,
    /// When the files were last read here, and not by the watch.
    read_at: Instant,
    revision: u64,
    /// Servers and inputs the user was last asked about.
    asked_for: (Vec<ServerName>, Vec<String>),
    events: broadcast::Sender<DeckEvent>,
}

impl DeckTask {
    /// Loads, and starts the host.
    pub(super) async fn open(
        builder: DeckBuilder,
        events: broadcast::Sender<DeckEvent>,
    ) -> Result<Self, Error> {
        let DeckBuilder {
            source,
            environment,
            gate,
            host,
            masks,
            notebook,
            keep_watching,
            starts_empty,
            ..
        } = builder;
        let environment = environment.unwrap_or_else(Environment::of_process);
        let (files, result) = match source {
            DeckSource::Ready(config) => {
                (Vec::new(), Ok(Loaded { config: *config, ..Loaded::default() }))
            }
            DeckSource::Files(files) => {
                let result = load(&files, &environment).await?;
                (files, result)
            }
        };
        let startup = host.startup_mode();
        let result = match result {
            // Under `All` an invalid entry counts as a server that does not start.
            Ok(loaded) if startup == Startup::All && !keep_watching && !files.is_empty() => {
                loaded.clone().complete().map(|_| loaded)
            }
            result => result,
        };
        // For file systems that report no events and are not detected as such.
        let how = environment.var("MCPDECK_WATCH");
        let poll_only = how.is_some_and(|how| how.eq_ignore_ascii_case("poll"));
        let known = result.clone();
        let is_unwritten = starts_empty
            && files.iter().all(|file| environment.absolute(file).symlink_metadata().is_err());
        let (latest, refused) = match result {
            Ok(loaded) => (Some(loaded), None),
            Err(_) if is_unwritten => (Some(Loaded::default()), None),
            Err(diagnostics) if keep_watching => (None, Some(refusal(diagnostics))),
            Err(diagnostics) => return Err(refusal(diagnostics)),
        };
        let passed = match latest.clone() {
            Some(loaded) if files.is_empty() => {
                Passed { config: loaded.config, ..Passed::default() }
            }
            Some(loaded) => gate.pass(loaded, &environment, None),
            None => Passed::default(),
        };
        if let Some(masks) = &masks {
            masks(&passed.config);
        }
        let mut host = host.config(passed.config.clone());
        if !files.is_empty() || keep_watching {
            host = host.follow_sources(poll_only);
        }
        let host = host.memory(KeptDefinitions::from_env(&environment)).initialize().await?;
        let watch = (!files.is_empty()).then(|| {
            let options = WatchOptions { known: Some(known), poll_only, ..WatchOptions::default() };
            ConfigWatch::start(files.clone(), environment.clone(), options)
        });
        let running = refused.is_none().then(|| passed.config.clone());
        let mut work = Self {
            host,
            watch,
            approvals: None,
            poll_only,
            kept: KeptInputs::open(&files, &environment),
            files,
            environment,
            gate,
            masks,
            notebook,
            latest,
            passed,
            running,
            edits: Vec::new(),
            waiting: None,
            ask: None,
            sound: true,
            read_at: Instant::now(),
            revision: 0,
            asked_for: (Vec::new(), Vec::new()),
            events,
        };
        if let Some(error) = refused {
            work.send(DeckEvent::Rejected(error, work.texts()));
        } else {
            work.loaded();
            work.publish();
        }
        Ok(work)
    }

    /// Runs until stopped; returns when every server has ended.
    pub(super) async fn run(
        mut self,
        mut commands: mpsc::Receiver<ConfigCommand>,
        stop: CancellationToken,
    ) -> ShutdownReport {
        let mut offers = self.notebook.as_ref().map(|_| self.host.view());
        let mut notices = NoticeReader::from_start();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Some(command) = commands.recv() => self.handle(command).await,
                Some(answer) = self.kept.next() => self.keyring_answered(answer).await,
                Some((at, state)) = next_state(&mut self.watch) => self.noticed(at, state).await,
                Some(view) = next_view(&mut offers) => self.update_notebook(&view),
                () = approved_elsewhere(self.approvals.as_ref()) => self.look_at_approvals().await,
                told = notices.next() => {
                    for notice in told {
                        self.send(DeckEvent::Notice(notice));
                    }
                }
            }
        }
        (self.watch, self.approvals) = (None, None);
        self.host.shutdown().await
    }

    fn update_notebook(&self, view: &HostView) {
        if let (Some(notebook), Some(config)) = (&self.notebook, &self.running) {
            notebook(config, view);
        }
    }

    async fn handle(&mut self, command: ConfigCommand) {
        match command {
            ConfigCommand::Apply => {
                if let Some((config, _)) = self.waiting.take() {
                    self.take(config).await;
                    self.publish();
                }
            }
            ConfigCommand::AskFirst => {
                self.ask = Some(match self.mode(&self.passed.config) {
                    ReloadMode::Ask => ReloadMode::Auto,
                    ReloadMode::Auto => ReloadMode::Ask,
                });
                self.publish();
            }
            ConfigCommand::Approve(shown) => self.approve(&shown).await,
            ConfigCommand::Answer { id, value, keep } => self.answer(id, value, keep).await,
            ConfigCommand::Forget(id) => {
                self.environment.inputs.remove(&id);
                self.fresh_answers().await;
                self.kept.forget(&id).await;
            }
            ConfigCommand::OpenEntry(name) => match self.editor().shown(&name) {
                Ok(entry) => self.send(DeckEvent::Entry(Box::new(entry))),
                Err(error) => self.fail(error.to_string()),
            },
            ConfigCommand::SaveEntry(saving) => {
                let outcome = match self.edited(|editor| editor.save(*saving)).await {
                    Ok(made) => {
                        let added =
                            made.servers.len() == 1 && !self.editor().knows(&made.servers[0]);
                        Ok(self.made(made, added).await)
                    }
                    Err(error) => Err(SafeText::line(&error.to_string())),
                };
                self.send(DeckEvent::Saved(outcome));
            }
            ConfigCommand::Change(change) => {
                let is_shown = matches!(change, FileChange::Add(_));
                match self.edited(|editor| editor.change(change)).await {
                    Ok(made) => {
                        let words = self.made(made, is_shown).await;
                        self.send(DeckEvent::Done(words));
                    }
                    Err(error) => self.fail(error.to_string()),
                }
            }
            ConfigCommand::Undo => self.undo().await,
        }
    }

    /// Uses an answer of the user.
    async fn answer(&mut self, id: String, value: Secret, keep: KeepInput) {
        self.environment.inputs.insert(id.clone(), value.clone());
        self.fresh_answers().await;
        match keep {
            KeepInput::Memory => self.kept.forget(&id).await,
            KeepInput::Keyring => {
                if let Err(message) = self.kept.keep(id, value) {
                    self.fail(message);
                }
            }
        }
    }

    /// Reloads the files with changed answers, at the user's request.
    async fn fresh_answers(&mut self) {
        let Some(watch) = &self.watch else { return };
        watch.set_environment(self.environment.clone());
        let Some(result) = self.read().await else { return };
        self.changed(result, true).await;
    }

    /// Reads the files now. `None` when the runtime shuts down.
    async fn read(&mut self) -> Option<LoadResult> {
        self.read_at = Instant::now();
        load(&self.files, &self.environment).await.ok()
    }

    /// Handles a state that the watch began to read at that time. One that is older than an edit of
    /// the user would take the edit back for a moment, so the files are read again.
    async fn noticed(&mut self, at: Instant, state: LoadResult) {
        let newest = if at < self.read_at { self.read().await } else { Some(state) };
        if let Some(newest) = newest {
            self.changed(newest, false).await;
        }
    }

    /// Handles a reply of the keyring.
    async fn keyring_answered(&mut self, answer: KeyringAnswer) {
        match answer {
            KeyringAnswer::Found(id, Ok(Some(value))) => {
                // An answer typed in the meantime takes precedence.
                if self.environment.input(&id).is_none() {
                    self.environment.inputs.insert(id, value);
                    self.fresh_answers().await;
                }
            }
            KeyringAnswer::Found(id, Ok(None)) => {
                self.kept.record(&id, false).await;
                self.publish();
            }
            KeyringAnswer::Kept(id, Ok(())) => {
                self.kept.record(&id, true).await;
                self.publish();
            }
            KeyringAnswer::Found(_, Err(error)) | KeyringAnswer::Kept(_, Err(error)) => {
                self.fail(error);
            }
        }
    }

    const fn editor(&self) -> FileEditor<'_> {
        let Self { files, environment, passed, .. } = self;
        FileEditor { files: files.as_slice(), environment, loaded: &passed.reviewed }
    }

    /// Makes an edit on the blocking pool: another program may hold the lock of the files.
    async fn edited(
        &self,
        edit: impl FnOnce(FileEditor<'_>) -> Result<Made, EditError> + Send + 'static,
    ) -> Result<Made, EditError> {
        let (files, environment) = (self.files.clone(), self.environment.clone());
        let loaded = self.passed.reviewed.clone();
        let editing =
            move || edit(FileEditor { files: &files, environment: &environment, loaded: &loaded });
        let made = tokio::task::spawn_blocking(editing).await;
        made.unwrap_or_else(|error| Err(EditError::Refused(error.to_string())))
    }

    /// Approves servers as they were reviewed; until the program ends if that cannot be stored, with
    /// the reason.
    async fn approve_reviewed(
        &mut self,
        reviewed: Loaded,
        servers: Vec<ServerName>,
    ) -> io::Result<()> {
        let TrustGate::Guarded(store) = &mut self.gate else { return Ok(()) };
        // On the blocking pool, for the same reason.
        let (writer, loaded, names) = (store.clone(), reviewed.clone(), servers.clone());
        let stored = tokio::task::spawn_blocking(move || writer.approve(&loaded, &names)).await;
        let stored = stored.unwrap_or_else(|error| Err(io::Error::other(error)));
        if stored.is_err() {
            store.approve_for_session(&reviewed, &servers);
        }
        stored
    }

    /// Applies an edit that was written; returns the message about it. `typed` says that it adds a
    /// server that the user typed.
    async fn made(&mut self, made: Made, typed: bool) -> SafeText {
        if made.undo.is_none() {
            return SafeText::line(&made.words);
        }
        let trusted = self.trusted();
        let servers = made.servers.clone();
        let said = SafeText::line(&format!("{}   z: undo", made.words));
        self.edits.push(made);
        let over = self.edits.len().saturating_sub(MAX_UNDO_EDITS);
        self.edits.drain(..over);
        self.written(&servers, &trusted, typed).await;
        said
    }

    /// Undoes the last edit, unless the file has changed since.
    async fn undo(&mut self) {
        let Some(made) = self.edits.pop() else {
            return self.fail("there is nothing to undo".to_owned());
        };
        let trusted = self.trusted();
        let Some(undo) = made.undo.clone() else { return };
        let undone = tokio::task::spawn_blocking(move || undo.undo()).await;
        match undone.unwrap_or_else(|error| Err(EditError::Refused(error.to_string()))) {
            Ok(()) => {
                self.written(&made.servers, &trusted, false).await;
                self.send(DeckEvent::Done(SafeText::line(&format!("undone: {}", made.words))));
            }
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// The servers that are approved as they are in the files now.
    fn trusted(&self) -> Vec<ServerName> {
        let TrustGate::Guarded(store) = &self.gate else { return Vec::new() };
        let reviews = store.review(&self.passed.reviewed).into_iter();
        reviews.filter(|r| r.verdict == TrustVerdict::Approved).map(|r| r.server).collect()
    }

    /// Loads and applies an edit that was written. It counts as approved if one of its servers was
    /// approved before, or if the user typed it as a new server.
    async fn written(&mut self, servers: &[ServerName], trusted: &[ServerName], typed: bool) {
        let Some(result) = self.read().await else { return };
        if let (Ok(loaded), true) = (&result, typed || servers.iter().any(|s| trusted.contains(s)))
        {
            let passed = self.gate.pass(loaded.clone(), &self.environment, self.running.as_ref());
            if let Err(error) = self.approve_reviewed(passed.reviewed, servers.to_vec()).await {
                tracing::warn!(%error, "the approval of an edit could not be saved");
            }
        }
        self.changed(result, true).await;
    }

    /// The reload mode: the user's choice for this run overrides the file's.
    fn mode(&self, config: &McpConfig) -> ReloadMode {
        self.ask.unwrap_or(config.reload)
    }

    /// Applies the gate to the last usable load.
    fn pass(&mut self) -> McpConfig {
        let loaded = self.latest.clone().unwrap_or_default();
        self.passed = self.gate.pass(loaded, &self.environment, self.running.as_ref());
        self.passed.config.clone()
    }

    /// Stores the user's approval of servers as they were shown, and lets them start.
    async fn approve(&mut self, shown: &[(ServerName, String)]) {
        if !matches!(self.gate, TrustGate::Guarded(_)) {
            return;
        }
        let same = |(name, hash): &&(ServerName, String)| {
            self.passed
                .awaiting
                .iter()
                .any(|a| a.review.server == *name && a.review.shown_hash == *hash)
        };
        let servers: Vec<ServerName> =
            shown.iter().filter(same).map(|(name, _)| name.clone()).collect();
        let kept = self.approve_reviewed(self.passed.reviewed.clone(), servers.clone()).await;
        if servers.len() < shown.len() {
            let said = "the file changed meanwhile: look again before you approve";
            self.fail(said.to_owned());
        }
        if let Err(error) = kept {
            self.fail(format!("approved for now, but it cannot be remembered: {error}"));
        }
        if !servers.is_empty() {
            self.approved().await;
        }
    }

    /// Lets start what is approved now.
    async fn approved(&mut self) {
        let config = self.pass();
        if let Some((_, change)) = self.waiting.take() {
            // The rest of the changed file still waits for its own confirmation.
            self.waiting = Some((config, change));
        } else {
            self.take(config).await;
        }
        self.publish();
    }

    /// The user may have approved in another window what waits here. Only what is approved as it was
    /// reviewed here starts; what cannot be read approves nothing.
    async fn look_at_approvals(&mut self) {
        let TrustGate::Guarded(store) = &self.gate else { return };
        let waiting = store.unapproved(&self.passed.reviewed).into_iter().map(|it| it.server);
        let waiting: Vec<ServerName> = waiting.collect();
        if self.passed.awaiting.iter().any(|it| !waiting.contains(&it.review.server)) {
            self.approved().await;
        }
    }

    /// Watches the files of the approvals while something waits for one.
    fn follow_approvals(&mut self) {
        let paths = match &self.gate {
            TrustGate::Guarded(store) if !self.passed.awaiting.is_empty() => {
                store.files(&self.passed.reviewed)
            }
            TrustGate::Guarded(_) | TrustGate::Open => Vec::new(),
        };
        if self.approvals.as_ref().map_or(&[][..], FileWatch::paths) != paths {
            let watch = || FileWatch::start(paths.clone(), self.poll_only);
            self.approvals = (!paths.is_empty()).then(watch);
        }
    }

    fn texts(&self) -> Arc<[FileText]> {
        self.files.iter().filter_map(|path| FileText::read(path)).collect()
    }

    fn send(&self, event: DeckEvent) {
        // Fails only without receivers, which is fine.
        let _ = self.events.send(event);
    }

    fn fail(&self, message: String) {
        self.send(DeckEvent::Failed(Error::new(ErrorCode::Configuration, message)));
    }

    fn loaded(&self) {
        self.send(DeckEvent::Loaded(Arc::new(self.passed.config.clone()), self.texts()));
    }

    /// Sends the situation, and what is newly needed from the user.
    fn publish(&mut self) {
        self.revision += 1;
        self.follow_approvals();
        let Passed { config, reviewed, .. } = &self.passed;
        // What runs, or would run if approved, with the origins of its values.
        let (config, origins) = (config.clone(), reviewed.origins.clone());
        let in_effect = Loaded { config, origins, ..Loaded::default() };
        let source_files = || source_files(&self.files, &self.environment, reviewed);
        let situation = Situation {
            revision: self.revision,
            awaiting: self.passed.awaiting.clone(),
            inputs: self.kept.views(&self.environment, &self.passed),
            keyring: self.kept.is_possible(),
            undo: !self.edits.is_empty(),
            sources: if self.files.is_empty() { Vec::new() } else { source_files() },
            values: ValuesInEffect::new(in_effect),
            polling: match self.watch.as_ref().map(ConfigWatch::mode) {
                Some(WatchMode::Polling(reason)) => Some(SafeText::line(&reason)),
                _ => None,
            },
            asks: self.mode(&self.passed.config) == ReloadMode::Ask,
            plan: self.waiting.as_ref().map(|(_, change)| change.clone()),
        };
        let servers: Vec<_> =
            situation.needing_approval().map(|a| a.review.server.clone()).collect();
        let inputs: Vec<_> = situation.wanted().map(|input| input.input.id.clone()).collect();
        self.send(DeckEvent::Situation(Arc::new(situation)));
        if !servers.is_empty() && servers != self.asked_for.0 {
            self.send(DeckEvent::TrustNeeded(servers.clone()));
        }
        if !inputs.is_empty() && inputs != self.asked_for.1 {
            self.send(DeckEvent::InputNeeded(inputs.clone()));
        }
        self.asked_for = (servers, inputs);
    }

    /// Handles a new state of the files. One that the user `expected` needs no confirmation, unless
    /// a change that is not theirs waits for it already.
    async fn changed(&mut self, result: LoadResult, expected: bool) {
        let waited = self.waiting.take();
        if result.as_ref().ok() == self.latest.as_ref() && self.running.is_some() && self.sound {
            // Our own edit, which is already in use.
            self.waiting = waited;
            return;
        }
        let confirmed = expected && waited.is_none();
        self.sound = result.as_ref().is_ok_and(|loaded| !loaded.has_errors());
        match result {
            Ok(loaded) if !loaded.has_errors() => {
                self.latest = Some(loaded);
                let config = self.pass();
                let ask = self.mode(&config) == ReloadMode::Ask && !confirmed;
                let touches =
                    |running: &McpConfig| !ConfigChange::between(running, &config).is_empty();
                if ask && self.running.as_ref().is_some_and(touches) {
                    self.plan(config).await;
                } else {
                    self.take(config).await;
                }
                self.publish();
            }
            Ok(loaded) => self.reject(loaded.diagnostics),
            Err(diagnostics) => self.reject(diagnostics),
        }
    }

    /// Holds back a changed configuration until the user has seen what it would do.
    async fn plan(&mut self, config: McpConfig) {
        match self.host.plan_reload(config.clone()).await {
            Ok(plan) => {
                self.waiting = Some((config, plan));
                self.send(DeckEvent::Waiting(self.texts()));
            }
            Err(error) => self.reject(error.diagnostics.clone()),
        }
    }

    async fn take(&mut self, config: McpConfig) {
        if let Some(masks) = &self.masks {
            masks(&config);
        }
        self.loaded();
        // Does not wait: a removed server that is slow to stop must not delay later changes.
        match self.host.begin_reload(config.clone()).await {
            Ok(_) => {
                let before = self.running.replace(config.clone()).unwrap_or_default();
                let plan = reload_plan(&before, &config);
                self.send(DeckEvent::Reloaded(plan));
            }
            Err(error) => {
                tracing::warn!(%error, "the changed configuration was not applied");
                self.reject(error.diagnostics.clone());
            }
        }
    }

    fn reject(&self, diagnostics: Vec<Diagnostic>) {
        if self.running.is_some() {
            self.host.reject_config(diagnostics.clone());
        }
        self.send(DeckEvent::Rejected(refusal(diagnostics), self.texts()));
    }
}

/// Loads the files on the blocking pool: a helper may have to ask the user.
async fn load(files: &[PathBuf], env: &Environment) -> Result<LoadResult, Error> {
    let (files, env) = (files.to_vec(), env.clone());
    let loading = tokio::task::spawn_blocking(move || config::load(&files, &env));
    let stopping = |e| Error::new(ErrorCode::Internal, format!("loading: {e}"));
    loading.await.map_err(stopping)
}

/// The next state of the files; pends forever without files.
async fn next_state(watch: &mut Option<ConfigWatch>) -> Option<(Instant, LoadResult)> {
    match watch {
        Some(watch) => watch.next_read().await,
        None => std::future::pending().await,
    }
}

/// Waits until the approvals have changed; pends forever where none are waited for.
async fn approved_elsewhere(watch: Option<&FileWatch>) {
    match watch {
        Some(watch) => watch.changed().await,
        None => std::future::pending().await,
    }
}

/// The next view of the host, at most one per [`NOTEBOOK_INTERVAL`]; pends forever without a notebook.
async fn next_view(offers: &mut Option<watch::Receiver<Arc<HostView>>>) -> Option<Arc<HostView>> {
    match offers {
        Some(view) => {
            // Sleep first, so that no change is lost when another branch completes meanwhile.
            tokio::time::sleep(NOTEBOOK_INTERVAL).await;
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

fn refusal(diagnostics: Vec<Diagnostic>) -> Error {
    let first = diagnostics.first().map(ToString::to_string).unwrap_or_default();
    let mut error = Error::new(ErrorCode::Configuration, first);
    error.diagnostics = diagnostics;
    error
}
