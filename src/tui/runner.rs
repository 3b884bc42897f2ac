//! Performs the effects the app requests: host commands, calls, files. An effect reports back by a
//! message if there is something to report.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::effect::{
    AppRequest, Baseline, CallRequest, Effect, Existing, LockChange, TrialReport, TrialRequest,
};
use crate::form::CheckJob;
use crate::message::{CallToken, FormToken, Message, ViewToken};
use crate::prefs::Prefs;
use crate::result::{PictureJob, ResultFile};
use crate::state;
use crate::suites::{OpenSuites, SuiteCommand, SuiteNews, SuiteOrder};
use crate::user_command::FilledCommand;
use base::ServerName;
use base::secret::Secret;
use base::text::SafeText;
use config::error::{Error, ErrorCode};
use config::{Environment, apply_edit, read_for_edit};
use deck::{
    Answers, History, HistoryRecord, Lock, News, Operated, Order, SavedCall, SavedCalls,
    ScriptedAnswer, open_browser,
};
use host::{CacheKey, CallOptions, Host, TraceContext};
use protocol::ApprovalId;
use reach::{FoundServers, ReachError, edits_to_add, find_by_words};

/// Where data is stored beyond the session; data without a file is not stored.
#[derive(Debug, Default)]
pub struct SessionFiles {
    /// Preferences.
    pub prefs: Option<PathBuf>,
    /// The history of calls.
    pub history: Option<PathBuf>,
    /// Saved calls.
    pub calls: Option<PathBuf>,
    /// Answers to requests of servers.
    pub answers: Option<PathBuf>,
    /// Definitions to compare with.
    pub lock: Option<PathBuf>,
}

/// Shows a result in the app of its tool.
pub type OpenApp =
    Arc<dyn Fn(Host, AppRequest) -> BoxFuture<'static, Result<(), Error>> + Send + Sync>;

/// A configuration with a server that is to be checked.
#[derive(Clone, Debug)]
pub struct TrialConfig {
    /// The file, and its text with the server in it.
    pub path: PathBuf,
    pub text: String,
    /// The server.
    pub name: ServerName,
    /// Answers to inputs.
    pub answers: Vec<(String, Secret)>,
}

/// Starts one server of a configuration, checks it and stops it.
pub type TryServer =
    Arc<dyn Fn(TrialConfig) -> BoxFuture<'static, Result<TrialReport, String>> + Send + Sync>;

/// Performs effects that need no terminal.
pub struct Runner {
    /// The open deck with its engine, once there is one.
    pub opened: Option<Operated>,
    /// The attached service, when there is no engine in this process.
    #[cfg(unix)]
    pub remote: Option<crate::attached::AttachedSocket>,
    /// Shows results in the apps of their tools, in builds that can.
    pub apps: Option<OpenApp>,
    /// Checks servers before they are added.
    pub tries: Option<TryServer>,
    /// Runs suites of tests, in builds that can.
    pub suites: Option<OpenSuites>,
    /// The trace that the calls of the user belong to.
    pub trace: TraceContext,
    /// Stops the suites that run.
    playing: CancellationToken,
    messages: mpsc::Sender<Message>,
    files: SessionFiles,
    /// The preferences as they were last read or written here.
    prefs: Prefs,
    calls: HashMap<CallToken, CancellationToken>,
    reveal: bool,
    /// Kinds of data whose failed storage was already reported.
    not_kept: HashSet<&'static str>,
}

impl Runner {
    /// A runner that reports to `messages`; `reveal` decides whether results show or mask values of
    /// the configuration.
    pub fn new(messages: mpsc::Sender<Message>, files: SessionFiles, reveal: bool) -> Self {
        let prefs = state::read_prefs(files.prefs.as_deref());
        Self {
            opened: None,
            #[cfg(unix)]
            remote: None,
            apps: None,
            tries: None,
            suites: None,
            trace: TraceContext::default(),
            playing: CancellationToken::new(),
            messages,
            files,
            prefs,
            calls: HashMap::new(),
            reveal,
            not_kept: HashSet::new(),
        }
    }

    /// Has the bench do something with suites of tests.
    pub fn order_suites(&mut self, order: SuiteOrder) {
        if order.command == SuiteCommand::Stop {
            return self.stop_suites();
        }
        let Some(open) = self.suites.clone() else {
            let text = SafeText::line("this build runs no suites: its feature `bench` is off");
            let is_run = matches!(order.command, SuiteCommand::Run(_));
            let news = if is_run { SuiteNews::RunFailed(text) } else { SuiteNews::Failed(text) };
            return self.send(Message::Suites(news));
        };
        let stop = if matches!(order.command, SuiteCommand::Run(_)) {
            self.playing = CancellationToken::new();
            self.playing.clone()
        } else {
            CancellationToken::new()
        };
        let (sender, news) = mpsc::channel(256);
        tokio::spawn(forward(news, self.messages.clone(), Message::Suites));
        tokio::spawn(open(order, sender, stop));
    }

    /// Stops the suites that run.
    pub fn stop_suites(&self) {
        self.playing.cancel();
    }

    /// Runs a command of the user's and reports what it printed.
    pub fn run(&self, run: FilledCommand) {
        self.later(async move {
            let name = SafeText::line(&run.command.name);
            Some(match run.captured().await {
                Ok(text) => Message::Output(name, text),
                Err(reason) => failed(&reason),
            })
        });
    }

    /// Cancels a call; its server is notified.
    pub fn cancel_call(&mut self, token: CallToken) {
        if let Some(cancel) = self.calls.remove(&token) {
            cancel.cancel();
        }
    }

    /// Asks the registered model for the draft of an answer.
    pub fn draft(&self, id: ApprovalId, params: Option<Arc<Value>>) {
        match self.deck() {
            Ok(Operated { host, .. }) => {
                self.later(async move { Some(Message::Drafted(id, host.draft(id, params).await)) });
            }
            Err(error) => self.send(Message::Drafted(id, Err(error))),
        }
    }

    /// Shows a result in the app of its tool.
    pub fn open_app(&self, request: AppRequest) {
        match (self.deck(), &self.apps) {
            (Err(error), _) => self.send(Message::Failed(error)),
            (Ok(_), None) => self.send(failed("this build shows no apps")),
            (Ok(deck), Some(open)) => {
                let opened = open(deck.host, request);
                self.later(async move {
                    Some(match opened.await {
                        Ok(()) => done("the app is open in the browser"),
                        Err(error) => Message::Failed(error),
                    })
                });
            }
        }
    }

    /// Opens a page for a request in the browser.
    pub fn open_url(&self, id: ApprovalId, url: url::Url) {
        self.later(async move { Some(Message::Opened(id, open_browser(url).await)) });
    }

    /// Drops a cache entry, or all.
    pub fn cache_drop(&self, key: Option<&CacheKey>) {
        self.at_once(|host| {
            host.cache_drop(key);
            News::Cache(host.cache()).into()
        });
    }

    /// Fetches the content of a cache entry.
    pub fn cache_content(&self, key: CacheKey) {
        self.at_once(|host| {
            let content = host.cache_content(&key);
            Message::CacheContent(key, content)
        });
    }

    /// Looks for a server by words, to add it to a file.
    pub fn find_server(&self, words: String, file: PathBuf) {
        self.later(async move {
            let found = find_server(&words, &file).await;
            let found = found.map_err(|error| SafeText::line(&error.0));
            Some(Message::ServerFound(found))
        });
    }

    /// Validates the value of a form. A check that crashed is no verdict: the engine decides then.
    pub fn check(&self, token: FormToken, job: Box<CheckJob>) {
        self.beside(move || Message::Checked(token, Box::new(job.run())));
    }

    /// Processes a picture of a result.
    pub fn picture(&self, token: ViewToken, job: Box<PictureJob>) {
        self.later(async move {
            let block = job.block;
            let done = tokio::task::spawn_blocking(move || job.run()).await;
            let done = done.unwrap_or_else(|_| PictureJob::failed(block));
            Some(Message::PictureDone(token, Box::new(done)))
        });
    }

    /// Runs something in the background and sends its message, if there is one.
    fn later(&self, work: impl Future<Output = Option<Message>> + Send + 'static) {
        let messages = self.messages.clone();
        tokio::spawn(async move {
            if let Some(message) = work.await {
                let _ = messages.send(message).await;
            }
        });
    }

    /// Runs slow or blocking work on a thread of its own.
    fn beside(&self, work: impl FnOnce() -> Message + Send + 'static) {
        self.later(async move { tokio::task::spawn_blocking(work).await.ok() });
    }

    /// The open deck, or why there is none.
    pub fn deck(&self) -> Result<Operated, Error> {
        #[cfg(unix)]
        if self.remote.is_some() {
            let text = "an attached dashboard cannot do that: do it where the service runs";
            return Err(Error::new(ErrorCode::Configuration, text));
        }
        let missing = || Error::new(ErrorCode::Internal, "the engine is not running");
        self.opened.clone().ok_or_else(missing)
    }

    /// Does something quick with the engine and sends its message.
    fn at_once(&self, work: impl FnOnce(Host) -> Message) {
        self.send(match self.deck() {
            Ok(deck) => work(deck.host),
            Err(error) => Message::Failed(error),
        });
    }

    /// Performs an order, here or in the attached service, and reports its outcome.
    pub fn order(&self, order: Order) {
        let said = |done: Result<Option<SafeText>, Error>| match done {
            Ok(done) => done.map(Message::Done),
            Err(error) => Some(Message::Failed(error)),
        };
        #[cfg(unix)]
        if let Some(remote) = self.remote.clone() {
            return self.later(remote.perform(order).map(said));
        }
        match self.deck() {
            Ok(deck) => self.later(order.perform(deck).map(said)),
            Err(error) => self.send(Message::Failed(error)),
        }
    }

    /// Starts a server for a check, after its bundle was unpacked.
    pub fn try_server(&self, request: TrialRequest) {
        let tries = self.tries.clone();
        self.later(async move {
            let checks = request.checks;
            let prepared = tokio::task::spawn_blocking(move || prepared(request)).await;
            let prepared = prepared.map_err(|error| error.to_string()).and_then(|done| done);
            let tried = match (prepared, tries) {
                (Err(why), _) => Err(why),
                (Ok(_), _) if !checks => Ok(None),
                (Ok(_), None) => Err("this build checks no servers".to_owned()),
                (Ok(trial), Some(tries)) => tries(trial).await.map(|seen| Some(Box::new(seen))),
            };
            Some(Message::ServerTried(tried.map_err(|why| SafeText::line(&why))))
        });
    }

    /// Overflow policy: effects come from keys, so few messages wait while the queue is full.
    fn send(&self, message: Message) {
        self.later(std::future::ready(Some(message)));
    }

    /// Makes a call, and reports its progress and its end.
    pub fn call(&mut self, token: CallToken, request: CallRequest) {
        let cancel = CancellationToken::new();
        self.calls.retain(|_, cancel| !cancel.is_cancelled());
        self.calls.insert(token, cancel.clone());
        let (messages, reveal) = (self.messages.clone(), self.reveal);
        #[cfg(unix)]
        if let Some(remote) = self.remote.clone() {
            return self.later(async move {
                let ended = remote.call(token, request, reveal, &messages);
                let ended = cancel.run_until_cancelled(ended).await;
                cancel.cancel();
                let gone = || {
                    let mut error = Error::new(ErrorCode::Cancelled, "the call was cancelled");
                    // The service had it, and says nothing of it any more.
                    error.sent = true;
                    Err(error)
                };
                Some(Message::CallEnded(token, Box::new(ended.unwrap_or_else(gone))))
            });
        }
        let host = match self.deck() {
            Ok(deck) => deck.host,
            Err(error) => return self.send(Message::CallEnded(token, Box::new(Err(error)))),
        };
        let id = host.next_call_id();
        let TraceContext { parent: trace, more: meta } = self.trace.clone();
        self.send(Message::CallBegan(token, id));
        self.later(async move {
            let (sender, progress) = mpsc::channel(16);
            let options = CallOptions {
                cancel: cancel.clone(),
                progress: Some(sender),
                id: Some(id),
                trace,
                meta,
                ..CallOptions::default()
            };
            let send = move |step| Message::CallProgress(token, step);
            let watcher = tokio::spawn(forward(progress, messages.clone(), send));
            let outcome = request.run(&host, reveal, options).await;
            watcher.abort();
            cancel.cancel();
            // Report active calls before the end, or quitting would ask about an ended call.
            let _ = messages.send(News::Calls(host.calls()).into()).await;
            Some(Message::CallEnded(token, Box::new(outcome)))
        });
    }

    /// Writes a new file.
    pub fn save(&self, name: &Path, content: &[u8]) {
        self.send(match state::save_new(name, content) {
            Ok(path) => done(&format!("saved {}", whole(path).display())),
            Err(error) => failed(&format!("{} was not saved: {error}", name.display())),
        });
    }

    /// Writes a file that the user named.
    pub fn save_as(&self, path: PathBuf, content: ResultFile, existing: Existing) {
        self.beside(move || save_as(&path, content, existing));
    }

    /// Stores the preferences.
    pub fn save_prefs(&mut self, prefs: &Prefs) {
        let file = self.files.prefs.as_ref();
        let known = std::mem::replace(&mut self.prefs, prefs.clone());
        let written = file.map(|file| state::write_prefs(file, prefs, &known));
        self.report_unstored("preferences", written);
    }

    /// Appends to the history of calls.
    pub fn record(&mut self, record: &HistoryRecord) {
        let file = self.files.history.as_ref();
        let written = file.map(|file| History::append(file, record));
        self.report_unstored("calls and drafts", written);
    }

    /// Reads a file for a field of a form.
    pub fn read_file(&self, token: FormToken, path: PathBuf) {
        self.beside(move || Message::FileRead(token, content(&path)));
    }

    /// Reads definitions to compare with.
    pub fn read_baseline(&self, baseline: Baseline) {
        let file = self.files.lock.clone();
        self.beside(move || {
            let known = match &baseline {
                Baseline::Lock => {
                    file.ok_or_else(|| NO_LOCK.to_owned()).and_then(|f| Lock::read(&f))
                }
                Baseline::Recording(path) => Lock::of_recording(path),
            };
            Message::Baseline(baseline, known.map_err(|problem| SafeText::line(&problem)))
        });
    }

    /// Looks for servers of other programs on this machine.
    pub fn find_servers(&self) {
        self.beside(|| {
            let (found, problems) = FoundServers::from_machine(&Environment::of_process());
            for problem in problems {
                tracing::warn!(%problem, "a file of another program was not read");
            }
            Message::Found(Box::new(found))
        });
    }

    /// Changes the lock file.
    pub fn change_lock(&self, change: LockChange) {
        let file = self.files.lock.clone();
        self.beside(move || {
            match file.ok_or_else(|| NO_LOCK.to_owned()).and_then(|f| lock(&f, change)) {
                Ok(known) => Message::Baseline(Baseline::Lock, Ok(known)),
                Err(problem) => failed(&problem),
            }
        });
    }

    /// Reports data that could not be stored beyond the session: once shown, always logged.
    fn report_unstored(&mut self, what: &'static str, written: Option<std::io::Result<()>>) {
        let Some(Err(error)) = written else { return };
        tracing::warn!(%error, "not kept: {what}");
        if self.not_kept.insert(what) {
            let text = format!("not kept beyond this session: {what}: {error}");
            self.send(Message::Warned(SafeText::line(&text)));
        }
    }

    /// Adds a call to the saved calls next to the configuration.
    pub fn save_call(&self, name: String, call: SavedCall, existing: Existing) {
        let Some(file) = &self.files.calls else {
            return self.send(refused("there is no configuration file to save calls beside"));
        };
        let load = || SavedCalls::load(file);
        let is_known = existing == Existing::Keep
            && load().is_ok_and(|saved| saved.calls.contains_key(name.as_str()));
        if is_known {
            let text = SafeText::line(&format!("the saved call {name}"));
            let replacing = Effect::SaveCall(name, Box::new(call), Existing::Replace);
            return self.send(Message::NameTaken(text, Box::new(replacing)));
        }
        match SavedCalls::put(file, &name, call).and_then(|()| load()) {
            Ok(saved) => {
                self.send(Message::SavedCalls(saved));
                self.send(done(&format!("saved {name} in {}", file.display())));
            }
            Err(problem) => self.send(refused(&problem)),
        }
    }

    /// Stores an answer next to the configuration.
    pub fn keep_answer(&self, answer: ScriptedAnswer, existing: Existing) {
        let name = answer.name.clone().unwrap_or_default();
        let Some(file) = &self.files.answers else {
            let text = format!("kept {name} until you leave: there is no configuration file");
            self.send(Message::KeptAnswer(Box::new(answer)));
            return self.send(done(&text));
        };
        if existing == Existing::Keep && Answers::load(file).is_ok_and(|kept| kept.has(&answer)) {
            let text = SafeText::line(&format!("the kept answer {name}"));
            let replacing = Effect::KeepAnswer(Box::new(answer), Existing::Replace);
            return self.send(Message::NameTaken(text, Box::new(replacing)));
        }
        match Answers::put(file, answer) {
            Ok(kept) => {
                self.send(Message::KeptAnswers(kept));
                self.send(done(&format!("kept {name} in {}", file.display())));
            }
            Err(problem) => self.send(refused(&problem)),
        }
    }
}

/// Looks for a server that could be added to a file.
async fn find_server(words: &str, file: &Path) -> Result<reach::FoundSource, ReachError> {
    let text = read_for_edit(file)
        .map_err(|error| ReachError(format!("{}: {error}", file.display())))?
        .unwrap_or_default();
    find_by_words(words, (file, &text), &Environment::of_process()).await
}

/// The configuration with a server that is to be checked; its bundle is unpacked.
fn prepared(request: TrialRequest) -> Result<TrialConfig, String> {
    let TrialRequest { server, file, name, entry, declared, answers, .. } = request;
    server.unpack().map_err(|error| error.0)?;
    let at = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = read_for_edit(&file).map_err(|error| at(&error))?.unwrap_or_default();
    let edits = edits_to_add(&name, &entry, &declared);
    let text = edits.iter().try_fold(text, |text, edit| apply_edit(&text, edit));
    Ok(TrialConfig { text: text.map_err(|error| at(&error))?, path: file, name, answers })
}

/// Forwards every item as a message until one end is closed.
pub async fn forward<T>(
    mut from: mpsc::Receiver<T>,
    to: mpsc::Sender<Message>,
    message: impl Fn(T) -> Message,
) {
    while let Some(item) = from.recv().await {
        if to.send(message(item)).await.is_err() {
            return;
        }
    }
}

// Effects on files: what the user saves and loads, and what outlives the program. Work that may
// block on a disk does not run on the UI thread.

/// Why there is no lock file.
const NO_LOCK: &str = "there is no configuration file, so no lock file beside it";

/// Writes a file named by the user.
fn save_as(path: &Path, content: ResultFile, existing: Existing) -> Message {
    let named = path;
    let path = state::at_home(named);
    let written = content
        .bytes()
        .map_err(std::io::Error::other)
        .and_then(|bytes| state::write_file(&path, &bytes, existing));
    match written {
        Ok(size) => done(&format!("wrote {size} bytes to {}", whole(path).display())),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            Message::FileExists(path, content)
        }
        Err(error) => {
            let why = SafeText::line(&format!("not written: {error}"));
            Message::NotWritten(named.to_path_buf(), content, why)
        }
    }
}

/// Largest file whose content fills a field, in bytes.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// The content of a file of at most [`MAX_FILE_BYTES`] bytes, or why there is none.
fn content(path: &Path) -> Result<Vec<u8>, SafeText> {
    let path = state::at_home(path);
    base::file::read(&path, MAX_FILE_BYTES)
        .map_err(|error| SafeText::line(&format!("{}: {error}", path.display())))
}

fn done(text: &str) -> Message {
    Message::Done(SafeText::line(text))
}

fn failed(text: &str) -> Message {
    Message::NotDone(SafeText::line(text))
}

/// A failure in the configuration's folder.
fn refused(text: &str) -> Message {
    Message::Failed(Error::new(ErrorCode::Configuration, text))
}

/// The absolute path.
fn whole(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

/// Changes the lock file; returns its new content.
fn lock(file: &Path, change: LockChange) -> Result<Lock, String> {
    let mut lock = Lock::read(file)?;
    match change {
        LockChange::Accept(server, place, now) => {
            lock.servers.entry(server).or_default().accept(&place, &now);
        }
        LockChange::All(now) => lock.servers.extend(now.servers),
    }
    lock.write(file).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::rows::SharedText;

    #[tokio::test]
    async fn what_was_done_is_reported_also_when_servers_fill_the_queue() {
        let folder = tempfile::tempdir().unwrap();
        let (messages, mut incoming) = mpsc::channel(1);
        messages.send(Message::EngineReady).await.unwrap();
        let runner = Runner::new(messages, SessionFiles::default(), false);
        let name = folder.path().join("a.txt");
        runner.save(&name, b"a");
        assert!(matches!(incoming.recv().await, Some(Message::EngineReady)));
        assert!(matches!(incoming.recv().await, Some(Message::Done(_))));
    }

    #[test]
    fn a_file_that_cannot_be_written_comes_back_with_its_path_as_typed() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("none"), "").unwrap();
        let named = folder.path().join("none").join("a.json");
        let content = ResultFile::Value(SharedText::from_text("{}".to_owned()));
        let Message::NotWritten(path, again, why) =
            save_as(&named, content.clone(), Existing::Keep)
        else {
            panic!("it was written");
        };
        assert_eq!((path, again), (named, content));
        assert!(why.starts_with("not written: "), "{why}");
    }
}
