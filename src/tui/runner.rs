//! Does what the app wants done outside: commands to the host, calls, files. Each effect comes
//! back as a message when there is something to say.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::config::ServerName;
use crate::config::history::History;
use crate::config::saved::{SavedCall, SavedCalls};
use crate::host::{CallOptions, CallOutcome, Error, ErrorCode, Host, Origin};
use crate::secret::Redactor;
use crate::text::SafeText;
use crate::tui::call::folder;
use crate::tui::effect::{CallRequest, CallTarget, Effect, Existing, ServerCommand};
use crate::tui::message::{CallToken, Message, ViewToken};
use crate::tui::result::{CompareJob, Content, PictureJob};
use crate::tui::run::Reveal;
use crate::tui::state;

mod requests;

/// Does effects that need no terminal.
pub struct Runner {
    /// The engine, once it is there.
    pub host: Option<Host>,
    messages: mpsc::Sender<Message>,
    prefs_file: Option<PathBuf>,
    history_file: Option<PathBuf>,
    calls_file: Option<PathBuf>,
    answers_file: Option<PathBuf>,
    calls: HashMap<CallToken, CancellationToken>,
    reveal: Reveal,
    /// What was said not to be kept.
    not_kept: HashSet<&'static str>,
}

impl Runner {
    /// A runner that reports to `messages`.
    pub fn new(messages: mpsc::Sender<Message>, prefs_file: Option<PathBuf>) -> Self {
        Self {
            host: None,
            messages,
            prefs_file,
            history_file: None,
            calls_file: None,
            answers_file: None,
            calls: HashMap::new(),
            reveal: Reveal::default(),
            not_kept: HashSet::new(),
        }
    }

    /// Keeps the history of calls and saved calls in these files.
    #[must_use]
    pub fn remembering(mut self, history: Option<PathBuf>, calls: Option<PathBuf>) -> Self {
        self.history_file = history;
        self.calls_file = calls;
        self
    }

    /// Keeps answers to requests of servers in this file.
    #[must_use]
    pub fn keeping_answers(mut self, file: Option<PathBuf>) -> Self {
        self.answers_file = file;
        self
    }

    /// Shows values of the configuration in results, or masks them.
    #[must_use]
    pub fn revealing(mut self, reveal: Reveal) -> Self {
        self.reveal = reveal;
        self
    }

    /// Does one effect; those of the terminal are not its business.
    pub fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Server(server, command) => self.command(server, command),
            Effect::Call(token, request) => self.call(token, request),
            Effect::CancelCall(token) => {
                if let Some(cancel) = self.calls.remove(&token) {
                    cancel.cancel();
                }
            }
            Effect::Answer(id, answer) => {
                if let Err(error) = self.host().and_then(|host| host.answer(id, answer)) {
                    self.tell(Message::Failed(error));
                }
            }
            Effect::Deny(_)
            | Effect::MoreTime(..)
            | Effect::Draft(..)
            | Effect::KeepAnswer(_)
            | Effect::OpenUrl(..) => self.about_requests(effect),
            Effect::ApprovalRule(server, kind, rule) => {
                let set = self.host().and_then(|host| host.set_approval_rule(&server, kind, rule));
                if let Err(error) = set {
                    self.tell(Message::Failed(error));
                }
            }
            Effect::CacheDrop(key) => {
                if let Ok(host) = self.host() {
                    host.cache_drop(key.as_ref());
                    self.tell(Message::Cache(host.cache()));
                }
            }
            Effect::CacheContent(key) => {
                if let Ok(host) = self.host() {
                    let content = host.cache_content(&key);
                    self.tell(Message::CacheContent(key, content));
                }
            }
            Effect::Save { name, content } => self.tell(match state::save_new(&name, &content) {
                Ok(path) => {
                    let path = std::path::absolute(&path).unwrap_or(path);
                    Message::Done(SafeText::line(&format!("saved {}", path.display())))
                }
                Err(error) => Message::Failed(Error::new(
                    ErrorCode::Internal,
                    format!("{} was not saved: {error}", name.display()),
                )),
            }),
            Effect::SaveAs { path, content, existing } => self.save_as(path, content, existing),
            Effect::Check(token, job) => {
                let messages = self.messages.clone();
                tokio::spawn(async move {
                    // A check that failed as a program is no verdict: the engine decides then.
                    if let Ok(found) = tokio::task::spawn_blocking(move || job.run()).await {
                        let _ = messages.send(Message::Checked(token, Box::new(found))).await;
                    }
                });
            }
            Effect::Picture(token, job) => {
                let messages = self.messages.clone();
                tokio::spawn(async move {
                    let block = job.block;
                    let done = tokio::task::spawn_blocking(move || job.run()).await;
                    let done = done.unwrap_or_else(|_| PictureJob::failed(block));
                    let _ = messages.send(Message::PictureDone(token, Box::new(done))).await;
                });
            }
            Effect::Compare(token, job) => self.compare(token, *job),
            Effect::SavePrefs(prefs) => {
                if let Some(Err(error)) =
                    self.prefs_file.as_ref().map(|file| state::write_prefs(file, &prefs))
                {
                    self.not_kept("preferences", &error);
                }
            }
            Effect::Record(record) => {
                if let Some(Err(error)) =
                    self.history_file.as_ref().map(|file| History::append(file, &record))
                {
                    self.not_kept("calls and drafts", &error);
                }
            }
            Effect::SaveCall(name, call) => self.save_call(&name, *call),
            Effect::ReadFile(token, path) => {
                self.beside(move || Message::FileRead(token, folder::content(&path)));
            }
            Effect::Look(token, path) => {
                self.beside(move || Message::Looked(token, folder::look(path)));
            }
            _ => {}
        }
    }

    /// Something that should outlive the program will not: said once, logged every time.
    fn not_kept(&mut self, what: &'static str, error: &std::io::Error) {
        tracing::warn!(%error, "not kept: {what}");
        if self.not_kept.insert(what) {
            let text = format!("not kept beyond this session: {what}: {error}");
            self.tell(Message::Warned(SafeText::line(&text)));
        }
    }

    /// Does what may have to wait for the file system, away from the drawing.
    fn beside(&self, work: impl FnOnce() -> Message + Send + 'static) {
        let messages = self.messages.clone();
        tokio::spawn(async move {
            if let Ok(message) = tokio::task::spawn_blocking(work).await {
                let _ = messages.send(message).await;
            }
        });
    }

    fn compare(&self, token: ViewToken, job: CompareJob) {
        let messages = self.messages.clone();
        tokio::task::spawn_blocking(move || {
            // Nobody waits any more when it was stopped, and nobody listens when the screen is gone.
            let tell = |stage| _ = messages.blocking_send(Message::Comparing(token, stage));
            if let Some(found) = job.run(tell) {
                let _ = messages.blocking_send(Message::Compared(token, Box::new(found)));
            }
        });
    }

    fn save_as(&self, path: PathBuf, content: Content, existing: Existing) {
        let messages = self.messages.clone();
        tokio::spawn(async move {
            let write = move || {
                let path = state::at_home(&path);
                let written = content
                    .bytes()
                    .map_err(std::io::Error::other)
                    .and_then(|bytes| state::write_file(&path, &bytes, existing));
                (path, content, written)
            };
            let Ok((path, content, written)) = tokio::task::spawn_blocking(write).await else {
                return;
            };
            let message = match written {
                Ok(size) => {
                    let path = std::path::absolute(&path).unwrap_or(path);
                    let text = format!("wrote {size} bytes to {}", path.display());
                    Message::Done(SafeText::line(&text))
                }
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                    Message::FileExists(path, content)
                }
                Err(error) => {
                    let text = format!("{} was not written: {error}", path.display());
                    Message::Failed(Error::new(ErrorCode::Internal, text))
                }
            };
            let _ = messages.send(message).await;
        });
    }

    fn save_call(&self, name: &str, call: SavedCall) {
        let Some(file) = &self.calls_file else {
            let reason = "there is no configuration file to save calls beside";
            return self.tell(Message::Failed(Error::new(ErrorCode::Configuration, reason)));
        };
        self.tell(match SavedCalls::put(file, name, call) {
            Ok(()) => Message::Done(SafeText::line(&format!("saved {name} in {}", file.display()))),
            Err(error) => Message::Failed(Error::new(ErrorCode::Configuration, error.to_string())),
        });
    }

    fn host(&self) -> Result<Host, Error> {
        let missing = || Error::new(ErrorCode::Internal, "the engine is not running");
        self.host.clone().ok_or_else(missing)
    }

    /// Overflow policy: effects come from keys; a queue that is full of them drops the words.
    fn tell(&self, message: Message) {
        let _ = self.messages.try_send(message);
    }

    fn command(&self, server: ServerName, command: ServerCommand) {
        let host = match self.host() {
            Ok(host) => host,
            Err(error) => return self.tell(Message::Failed(error)),
        };
        let messages = self.messages.clone();
        tokio::spawn(async move {
            let done = run_command(&host, &server, command).await;
            let message = match done {
                Ok(Some(text)) => Message::Done(text),
                Ok(None) => return,
                Err(error) => Message::Failed(error),
            };
            let _ = messages.send(message).await;
        });
    }

    fn call(&mut self, token: CallToken, request: CallRequest) {
        let host = match self.host() {
            Ok(host) => host,
            Err(error) => return self.tell(Message::CallEnded(token, Box::new(Err(error)))),
        };
        let cancel = CancellationToken::new();
        let id = host.next_call_id();
        self.tell(Message::CallBegan(token, id));
        self.calls.retain(|_, cancel| !cancel.is_cancelled());
        self.calls.insert(token, cancel.clone());
        let messages = self.messages.clone();
        let reveal = self.reveal;
        tokio::spawn(async move {
            let (sender, mut progress) = mpsc::channel(16);
            let options = CallOptions {
                timeout: request.timeout,
                cancel: cancel.clone(),
                progress: Some(sender),
                bypass_cache: request.bypass_cache,
                origin: Origin::Dashboard,
                validation: request.validation,
                server: Some(request.server.clone()),
                id: Some(id),
            };
            let forward = messages.clone();
            let watcher = tokio::spawn(async move {
                while let Some(step) = progress.recv().await {
                    if forward.send(Message::CallProgress(token, step)).await.is_err() {
                        return;
                    }
                }
            });
            let mut outcome = run_call(&host, &request.server, request.target, options).await;
            if let (Reveal::Never, Ok(outcome)) = (reveal, &mut outcome) {
                mask(&host, outcome);
            }
            watcher.abort();
            cancel.cancel();
            // What runs is told before what ended, or leaving would ask about a call that is over.
            let _ = messages.send(Message::Calls(host.calls())).await;
            let _ = messages.send(Message::CallEnded(token, Box::new(outcome))).await;
        });
    }
}

/// Takes the values of the configuration out of a result: one may be shown to others, copied and
/// saved.
fn mask(host: &Host, outcome: &mut CallOutcome) {
    let Some(config) = host.server_config(&outcome.server) else { return };
    let masks = Redactor::new(config.secrets());
    if let Some(masked) = outcome.result.redacted(&masks) {
        outcome.result = masked;
    }
}

async fn run_call(
    host: &Host,
    server: &ServerName,
    target: CallTarget,
    options: CallOptions,
) -> Result<CallOutcome, Error> {
    let canonical = |name: &str| format!("{server}.{name}");
    match target {
        CallTarget::Tool(name, arguments) => {
            host.call_tool_with(&canonical(&name), arguments, options).await
        }
        CallTarget::Prompt(name, arguments) => {
            host.get_prompt_with(&canonical(&name), arguments, options).await
        }
        CallTarget::Resource(uri) => host.get_resource_with(&uri, options).await,
        CallTarget::Complete(params) => host.complete(server, params, options).await,
    }
}

async fn run_command(
    host: &Host,
    server: &ServerName,
    command: ServerCommand,
) -> Result<Option<SafeText>, Error> {
    match command {
        ServerCommand::Start => host.start(server).await?,
        ServerCommand::Stop => host.stop(server).await?,
        ServerCommand::Restart => host.restart(server).await?,
        ServerCommand::Refresh => host.refresh(server).await?,
        ServerCommand::ResetBreaker(tool) => host.reset_breaker(server, tool.as_deref())?,
        ServerCommand::LogLevel(level) => {
            host.set_log_level(server, level).await?;
            return Ok(Some(SafeText::line(&format!("{server} logs from {level:?} on"))));
        }
        ServerCommand::Roots(roots) => host.set_roots(server, roots)?,
        ServerCommand::Subscribe(uri) => host.subscribe_resource(server, &uri).await?,
        ServerCommand::Unsubscribe(uri) => host.unsubscribe_resource(server, &uri).await?,
    }
    Ok(None)
}
