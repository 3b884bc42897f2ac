//! Does what the app wants done outside: commands to the host, calls, files. Each effect comes
//! back as a message when there is something to say.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::base::ServerName;
use crate::base::secret::Redactor;
use crate::base::text::SafeText;
use crate::deck::clients::Clients;
use crate::deck::policy::PolicyKeeper;
use crate::error::{Error, ErrorCode};
use crate::host::{CallOptions, CallOutcome, Host, Origin};
use crate::tui::effect::{
    CallRequest, CallTarget, ClientOrder, Effect, PolicyOrder, ServerCommand,
};
use crate::tui::message::{CallToken, Message, ViewToken};
use crate::tui::prefs::Prefs;
use crate::tui::result::{CompareJob, PictureJob};
use crate::tui::run::Reveal;

mod files;
mod requests;

/// Does effects that need no terminal.
pub struct Runner {
    /// The engine, once it is there.
    pub host: Option<Host>,
    /// Clients of the service, when there is one.
    pub clients: Option<Clients>,
    /// What decides about callers that are not the person, where that is kept.
    pub policy: Option<PolicyKeeper>,
    messages: mpsc::Sender<Message>,
    prefs_file: Option<PathBuf>,
    /// Preferences as they were read or written last.
    prefs: Prefs,
    history_file: Option<PathBuf>,
    calls_file: Option<PathBuf>,
    answers_file: Option<PathBuf>,
    lock_file: Option<PathBuf>,
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
            clients: None,
            policy: None,
            messages,
            prefs: crate::tui::state::read_prefs(prefs_file.as_deref()),
            prefs_file,
            history_file: None,
            calls_file: None,
            answers_file: None,
            lock_file: None,
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

    /// Compares with definitions in this file.
    #[must_use]
    pub fn locking(mut self, file: Option<PathBuf>) -> Self {
        self.lock_file = file;
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
            Effect::Answer(..)
            | Effect::ApprovalRule(..)
            | Effect::Deny(_)
            | Effect::MoreTime(..)
            | Effect::Draft(..)
            | Effect::KeepAnswer(_)
            | Effect::OpenUrl(..) => self.about_requests(effect),
            Effect::Client(order, origin) => self.client(order, origin),
            Effect::Policy(order) => self.policy(order),
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
            // A check that failed as a program is no verdict: the engine decides then.
            Effect::Check(token, job) => {
                self.beside(move || Message::Checked(token, Box::new(job.run())));
            }
            Effect::Picture(token, job) => self.picture(token, *job),
            Effect::Compare(token, job) => self.compare(token, *job),
            _ => self.about_files(effect),
        }
    }

    fn client(&self, order: ClientOrder, origin: String) {
        let Some(clients) = self.clients.clone() else { return };
        self.beside(move || {
            let said = match order {
                ClientOrder::Pause if clients.pause(&origin) => "its calls wait",
                ClientOrder::Pause => "its calls go on",
                ClientOrder::Cut => {
                    clients.cut(&origin);
                    "its calls and streams were ended"
                }
                ClientOrder::Revoke => match clients.revoke(&origin) {
                    Ok(()) => "its token was revoked",
                    Err(reason) => {
                        return Message::Failed(Error::new(ErrorCode::Configuration, reason));
                    }
                },
            };
            Message::Done(SafeText::line(&format!("{origin}: {said}")))
        });
    }

    fn policy(&self, order: PolicyOrder) {
        let Some(policy) = self.policy.clone() else { return };
        self.beside(move || {
            let done = match order {
                PolicyOrder::Review { server, tool, digest, accept } => {
                    let name = tool.as_deref().unwrap_or("instructions");
                    let word = if accept { "accepted" } else { "refused" };
                    let said = format!("{server} {name}: {word}");
                    let tool = tool.as_deref();
                    if accept {
                        policy.accept(&server, tool, digest).map(|()| said)
                    } else {
                        policy.refuse(&server, tool, digest).map(|()| said)
                    }
                }
                PolicyOrder::Revoke(id) => policy.revoke(id).map(|_| format!("grant {id} revoked")),
            };
            match done {
                Ok(said) => Message::Done(SafeText::line(&said)),
                Err(reason) => Message::Failed(Error::new(ErrorCode::Configuration, reason)),
            }
        });
    }

    /// Does what takes long or may have to wait for the file system, away from the drawing.
    fn beside(&self, work: impl FnOnce() -> Message + Send + 'static) {
        let messages = self.messages.clone();
        tokio::spawn(async move {
            if let Ok(message) = tokio::task::spawn_blocking(work).await {
                let _ = messages.send(message).await;
            }
        });
    }

    fn picture(&self, token: ViewToken, job: PictureJob) {
        let messages = self.messages.clone();
        tokio::spawn(async move {
            let block = job.block;
            let done = tokio::task::spawn_blocking(move || job.run()).await;
            let done = done.unwrap_or_else(|_| PictureJob::failed(block));
            let _ = messages.send(Message::PictureDone(token, Box::new(done))).await;
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

    fn host(&self) -> Result<Host, Error> {
        let missing = || Error::new(ErrorCode::Internal, "the engine is not running");
        self.host.clone().ok_or_else(missing)
    }

    /// Asks something of the engine; says why when it could not be done.
    fn ask(&self, act: impl FnOnce(&Host) -> Result<(), Error>) {
        if let Err(error) = self.host().and_then(|host| act(&host)) {
            self.tell(Message::Failed(error));
        }
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
                ..CallOptions::default()
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
            // What runs is reported before what ended, or leaving would ask about a call that is over.
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
        ServerCommand::ChangesSeen(items) => {
            for item in items {
                host.changes_seen(server, Some(item))?;
            }
        }
        ServerCommand::ResetBreaker(tool) => host.reset_breaker(server, tool.as_deref())?,
        ServerCommand::SignIn => host.sign_in(server)?,
        ServerCommand::RefreshToken => host.refresh_token(server).await?,
        ServerCommand::SignOut => {
            if let Some(why) = host.sign_out(server).await? {
                let text = format!("the token of {server} is forgotten, but not revoked: {why}");
                return Ok(Some(SafeText::line(&text)));
            }
        }
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
