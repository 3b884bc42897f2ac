//! Chat sessions that outlive their connections: the conversation, its events in a bounded log, the
//! current turn. A reconnecting client gets the missed events, or `truncated` with a snapshot.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, Conversation, TurnLimits};
use crate::event::ChatEvent;
use crate::files::UserInput;
use crate::llm::{ChatMessage, LanguageModel};
use crate::mask::ChatMask;
use crate::media::{self, PictureShelf};
use crate::prompt::inner;
use base::file::random_hex;
use base::human::count;
use base::text::SafeText;
use deck::{AnswerReply, ChatStore, Clients, KeptChat, checked_reply, page_question};
use host::{ApprovalRequest, Asker, Host, Principal, RequestHandler, TraceContext};
use protocol::{Answer, ApprovalId, RequestKind};

#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Maximum number of sessions.
    pub sessions: usize,
    /// Maximum size of a session's event log, in bytes.
    pub log: usize,
    /// How long a turn continues without a client.
    pub alone: Duration,
    /// How long a session is kept without a client.
    pub kept: Duration,
    /// Where their turns stop.
    pub turn: TurnLimits,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions: 1_000,
            log: 1 << 20,
            alone: Duration::from_secs(600),
            kept: Duration::from_secs(3_600),
            turn: TurnLimits::default(),
        }
    }
}

/// Maximum text of a result in an event, in bytes.
const MAX_RESULT_BYTES: usize = 16_000;

/// The latest events of a session.
#[derive(Default)]
struct Log {
    /// With their numbers, as JSON.
    events: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
    last: u64,
    /// Number of the last event that the session's `talk` includes.
    covered: u64,
}

pub struct ChatSession {
    pub id: String,
    /// Random; differs after each start of the program.
    pub epoch: Arc<str>,
    owner: String,
    limits: SessionLimits,
    agent: RwLock<Arc<Agent>>,
    mask: ChatMask,
    store: Option<Arc<dyn ChatStore>>,
    talk: Mutex<Conversation>,
    pictures: Mutex<PictureShelf>,
    log: Mutex<Log>,
    newest: watch::Sender<u64>,
    turn: Mutex<Option<CancellationToken>>,
    /// Number of connections, and when the last one closed.
    clients: Mutex<(usize, Instant)>,
    /// Questions that wait for an answer over a connection.
    questions: Mutex<BTreeMap<ApprovalId, OpenQuestion>>,
    /// Number of connections that can answer questions.
    answering: AtomicUsize,
    /// The number of the last event that a connection was sent.
    delivered: AtomicU64,
    /// Whether it was deleted, and is saved no more.
    is_deleted: AtomicBool,
}

/// An answer to the question whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConsentAnswer {
    /// It may not.
    No,
    /// This call may be made.
    Once,
    /// Every call of the tool in this session.
    Session,
    /// Every call of the tool, also later: a grant that is kept.
    Always,
}

/// A question to the clients.
enum OpenQuestion {
    /// May a call be made?
    Consent { answers: Vec<ConsentAnswer>, reply: oneshot::Sender<ConsentAnswer> },
    /// What a server asks during a call.
    Asked { request: Arc<ApprovalRequest>, reply: oneshot::Sender<Answer> },
}

/// A question while it is asked; tells the connections when it ends.
struct PendingQuestion {
    session: Arc<ChatSession>,
    id: ApprovalId,
    /// The event that says so.
    event: &'static str,
    /// How it was answered.
    answer: Value,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        self.session.questions.lock().remove(&self.id);
        let (event, id, answer) = (self.event, self.id, self.answer.take());
        self.session.push(&json!({"type": event, "id": id, "answer": answer}));
    }
}

/// Asks the clients of a session for consent to its calls, and what servers ask during them.
struct SessionAsker(Weak<ChatSession>);

impl RequestHandler for SessionAsker {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let session = self.0.upgrade();
        Box::pin(async move {
            let session = session?;
            if session.answering.load(Ordering::Relaxed) == 0 {
                return None;
            }
            match request.kind {
                RequestKind::Guard | RequestKind::Permission => {
                    Some(Answer::Result(match session.consent(&request).await? {
                        ConsentAnswer::No => json!({"action": "decline"}),
                        reach => json!({"action": "accept", "for": reach}),
                    }))
                }
                RequestKind::Sampling
                | RequestKind::Elicitation
                | RequestKind::UrlElicitation
                | RequestKind::Roots
                | RequestKind::SignIn
                | RequestKind::Other(_) => session.pass_on(request).await,
            }
        })
    }
}

/// What a client missed: a snapshot of the conversation if missed events were dropped, and later
/// events with their numbers, oldest first.
pub type Missed = (Option<Value>, Vec<(u64, Arc<str>)>);

/// Why a message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageRefusal {
    /// A turn is in progress.
    Busy,
    /// There is no such message to replace.
    NoSuchMessage,
    /// A summary stands for the message to replace.
    Summarised,
    /// The session was deleted, over another connection.
    Deleted,
    /// The files of the message to replace are not there any more.
    NoFiles,
}

/// Why a message that a summary stands for is not to be had any more.
pub const SUMMARISED: &str = "a summary stands for that message: it cannot be sent again";

/// What a message replaces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    /// A message of the user, from 0, and everything after it.
    pub(crate) at: Option<usize>,
    /// Whether its files go with the new one.
    pub(crate) keeps_files: bool,
}

impl ChatSession {
    /// Begins a turn, which `cancel` aborts. `at` (from 0) replaces that message of the user and
    /// everything after it. `input` is `shown` plus what attached files hold.
    ///
    /// # Errors
    /// When a turn is in progress, message `at` does not exist, or the session was deleted.
    pub fn begin(
        self: &Arc<Self>,
        shown: &str,
        input: impl Into<UserInput>,
        at: Option<usize>,
        cancel: CancellationToken,
    ) -> Result<(), MessageRefusal> {
        self.begin_with(shown.to_owned(), input.into(), Replaced { at, keeps_files: false }, cancel)
    }

    /// Begins a turn with a message that may take the files of the one that it replaces.
    ///
    /// # Errors
    /// Also when those files are not there any more.
    pub(crate) fn begin_with(
        self: &Arc<Self>,
        mut shown: String,
        mut input: UserInput,
        replaced: Replaced,
        cancel: CancellationToken,
    ) -> Result<(), MessageRefusal> {
        let Replaced { at, keeps_files } = replaced;
        if self.is_deleted.load(Ordering::Relaxed) {
            return Err(MessageRefusal::Deleted);
        }
        let mut turn = self.turn.lock();
        if turn.is_some() {
            return Err(MessageRefusal::Busy);
        }
        let mut talk = self.talk.lock().clone();
        if let Some(at) = at {
            if at < talk.replaced() {
                return Err(MessageRefusal::Summarised);
            }
            let replaced = talk.rewind(at).ok_or(MessageRefusal::NoSuchMessage)?;
            let has_all = !keeps_files || input.take_files(&replaced);
            if !has_all || input.text.trim().is_empty() {
                return Err(MessageRefusal::NoFiles);
            }
        }
        let UserInput { text, media, attached } = input;
        let mut event = json!({"type": "message", "at": at});
        if let Some(attached) = &attached {
            shown = attached.shown();
            event["attached"] = json!(attached);
        }
        event["text"] = json!(shown);
        talk.attached = media;
        talk.written.clone_from(&attached);
        *turn = Some(cancel.clone());
        drop(turn);
        self.mask.learn();
        self.push(&event);
        let session = Arc::clone(self);
        tokio::spawn(async move {
            let done = Mutex::new(None);
            let on_event = |mut event: ChatEvent| match &mut event {
                // Delayed until the session accepts the next message.
                ChatEvent::Done { .. } => *done.lock() = Some(event),
                ChatEvent::ToolResult { id, text, shown, .. } => {
                    session.pictures.lock().add(id, std::mem::take(shown));
                    crate::context::shorten(text, MAX_RESULT_BYTES);
                    session.push(&event);
                }
                _ => session.push(&event),
            };
            let agent = session.agent();
            // The question is saved while the model is asked, which does not wait for the disk.
            let mut asked = None;
            if session.store.is_some() {
                let mut talk = talk.clone();
                let (text, media) = (text.clone(), Vec::new());
                talk.messages.push(ChatMessage::User {
                    text,
                    attached,
                    withheld: false,
                    media,
                    given: 0,
                });
                let session = Arc::clone(&session);
                asked = Some(tokio::spawn(async move { session.keep(&talk, 0).await }));
            }
            agent.turn(&mut talk, &text, &cancel, &on_event).await;
            if let Some(saved) = asked {
                let _ = saved.await;
            }
            // It may have been renamed meanwhile.
            talk.name.clone_from(&session.talk.lock().name);
            // Counts the `done` event, which is sent below.
            session.keep(&talk, 1).await;
            session.keep_pictures().await;
            // Together, so that the next turn begins after `done`, and a snapshot is of one moment.
            let mut turn = session.turn.lock();
            *session.talk.lock() = talk;
            turn.take();
            if let Some(done) = done.into_inner() {
                session.push(&done);
            }
        });
        Ok(())
    }

    /// Asks the clients whether a call may be made; `None` when the question ends unanswered.
    async fn consent(self: Arc<Self>, request: &ApprovalRequest) -> Option<ConsentAnswer> {
        let params = &request.params;
        let reaches = serde_json::from_value::<Vec<ConsentAnswer>>(params["answers"].clone());
        let mut answers = reaches.unwrap_or_else(|_| vec![ConsentAnswer::Once]);
        answers.push(ConsentAnswer::No);
        let event = json!({
            "type": "permission", "id": request.id, "server": request.server,
            "tool": params["tool"], "arguments": params["arguments"], "why": params["why"],
            "violations": params["violations"], "answers": answers,
        });
        let (reply, answered) = oneshot::channel();
        self.questions.lock().insert(request.id, OpenQuestion::Consent { answers, reply });
        let (event_of_end, id) = ("permissionEnded", request.id);
        let mut asking =
            PendingQuestion { session: self, id, event: event_of_end, answer: Value::Null };
        asking.session.push(&event);
        let answer = answered.await.ok();
        asking.answer = json!(answer);
        answer
    }

    /// Passes on what a server asks; `None` when it ends unanswered, or is not for the clients.
    async fn pass_on(self: Arc<Self>, request: Arc<ApprovalRequest>) -> Option<Answer> {
        let event = page_question(&request)?;
        let (reply, answered) = oneshot::channel();
        let id = request.id;
        self.questions.lock().insert(id, OpenQuestion::Asked { request, reply });
        let answer = Value::Null;
        let mut asking = PendingQuestion { session: self, id, event: "questionEnded", answer };
        asking.session.push(&event);
        let answer = answered.await.ok()?;
        asking.answer = match &answer {
            Answer::Result(result) => match result["action"].as_str() {
                Some(action) => json!(action),
                None => json!("accept"),
            },
            Answer::Refuse { .. } => json!("decline"),
        };
        Some(answer)
    }

    /// Answers what a server asked.
    ///
    /// # Errors
    /// When no such question is open, or what was expected of the answer; the question stays open then.
    pub fn reply(&self, id: ApprovalId, reply: &AnswerReply) -> Result<(), String> {
        const GONE: &str = "no such question of a server is open: it was answered elsewhere, or its call has ended";
        let mut questions = self.questions.lock();
        let Some(OpenQuestion::Asked { request, .. }) = questions.get(&id) else {
            return Err(GONE.to_owned());
        };
        let answer = checked_reply(request, reply)?;
        let Some(OpenQuestion::Asked { reply, .. }) = questions.remove(&id) else {
            return Err(GONE.to_owned());
        };
        reply.send(answer).map_err(|_| GONE.to_owned())
    }

    /// Answers a question about a call; returns whether it was open and may be answered so.
    pub fn answer(&self, id: ApprovalId, answer: ConsentAnswer) -> bool {
        let mut questions = self.questions.lock();
        let is_offered = matches!(
            questions.get(&id),
            Some(OpenQuestion::Consent { answers, .. }) if answers.contains(&answer)
        );
        if !is_offered {
            return false;
        }
        match questions.remove(&id) {
            Some(OpenQuestion::Consent { reply, .. }) => reply.send(answer).is_ok(),
            Some(OpenQuestion::Asked { .. }) | None => false,
        }
    }

    /// Counts a connection that can answer questions, or its end.
    #[cfg(feature = "gateway")]
    pub(crate) fn answers(&self, is_open: bool) {
        if is_open {
            self.answering.fetch_add(1, Ordering::Relaxed);
        } else {
            self.answering.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Aborts the current turn; returns whether there was one.
    pub fn abort(&self) -> bool {
        self.turn.lock().as_ref().inspect(|turn| turn.cancel()).is_some()
    }

    /// Saves the conversation to the store, if any; `more` events are still to be sent. Errors are
    /// only logged.
    async fn keep(&self, talk: &Conversation, more: u64) {
        let Some(store) = &self.store else { return };
        if self.is_deleted.load(Ordering::Relaxed) {
            return;
        }
        let talk = talk.without(&self.mask.stored());
        let chat = KeptChat {
            id: self.id.clone(),
            owner: self.owner.clone(),
            title: talk.title(),
            seq: self.log.lock().last + more,
            talk: serde_json::to_string(&talk).unwrap_or_default(),
        };
        if let Err(error) = store.save(chat).await {
            tracing::error!(target: "mcpdeck::chat", "a session could not be saved: {error}");
        }
    }

    /// Saves the pictures to the store, if any, when there are new ones. Errors are only logged.
    async fn keep_pictures(&self) {
        let Some(store) = &self.store else { return };
        if self.is_deleted.load(Ordering::Relaxed) {
            return;
        }
        let Some(pictures) = self.pictures.lock().changed() else { return };
        if let Err(error) = store.save_pictures(&self.id, &self.owner, pictures).await {
            tracing::error!(target: "mcpdeck::chat", "pictures could not be saved: {error}");
        }
    }

    /// The agent, with its model and limits.
    pub fn agent(&self) -> Arc<Agent> {
        Arc::clone(&self.agent.read())
    }

    /// Switches to this model, working for this caller, from the next turn on.
    pub fn change(&self, model: Arc<dyn LanguageModel>, mut who: Principal) {
        who.session = Some(self.id.as_str().into());
        let mut agent = self.agent.write();
        *agent = Arc::new(agent.like(model, who));
    }

    /// Whether a turn is in progress.
    pub fn is_busy(&self) -> bool {
        self.turn.lock().is_some()
    }

    /// The conversation before the current turn as events without numbers, and the number of the
    /// last event it includes.
    pub fn so_far(&self) -> (Vec<Value>, u64) {
        let _turn = self.turn.lock();
        let covered = self.log.lock().covered;
        let events = events_of(&self.talk.lock(), &self.pictures.lock()).into_iter();
        (events.map(|event| self.mask.shown_event(event)).collect(), covered)
    }

    /// The number of its last event.
    fn last(&self) -> u64 {
        self.log.lock().last
    }

    fn push(&self, event: &impl Serialize) {
        let mut value = self.mask.shown_event(serde_json::to_value(event).unwrap_or_default());
        let mut log = self.log.lock();
        log.last += 1;
        let number = log.last;
        value["seq"] = json!(number);
        if value["type"] == "done" {
            log.covered = number;
        }
        let text: Arc<str> = value.to_string().into();
        log.bytes += text.len();
        log.events.push_back((number, text));
        while log.bytes > self.limits.log {
            let Some((_, old)) = log.events.pop_front() else { break };
            log.bytes -= old.len();
        }
        drop(log);
        self.newest.send_replace(number);
    }

    /// Watches the number of the latest event.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// The events after number `seen`.
    pub fn since(&self, seen: u64) -> Missed {
        let _turn = self.turn.lock();
        let log = self.log.lock();
        let first = log.events.front().map_or(log.last + 1, |(number, _)| *number);
        // `seen > last`: the client saw events of a turn that a restart of the program lost.
        let is_gone = seen + 1 < first || seen > log.last;
        let from = if is_gone { seen.min(log.last).max(log.covered) } else { seen };
        let later = log.events.iter().filter(|(number, _)| *number > from);
        let events = later.cloned().collect();
        let snapshot = is_gone.then(|| {
            let (talk, shelf) = (self.talk.lock(), self.pictures.lock());
            let pictures = talk.messages.iter().filter_map(|message| {
                let ChatMessage::Tool { id, .. } = message else { return None };
                let about = media::about(shelf.of_call(id));
                (!about.is_empty()).then(|| (id.clone(), json!(about)))
            });
            let pictures: Map<String, Value> = pictures.collect();
            let messages = talk.messages.iter().map(|message| {
                self.mask.shown_event(serde_json::to_value(message).unwrap_or_default())
            });
            let messages: Vec<Value> = messages.collect();
            json!({"messages": messages, "pictures": pictures, "seq": log.covered})
        });
        (snapshot, events)
    }

    /// The MIME type and the base64 of picture `at` (from 0) in the result of a call, if it is still
    /// there: the latest of a session are.
    pub fn picture(&self, call: &str, at: usize) -> Option<(String, Arc<str>)> {
        let shelf = self.pictures.lock();
        let one = shelf.of_call(call).get(at)?;
        Some((one.mime.clone(), Arc::clone(&one.data)))
    }

    /// The number of the last event that a connection was sent.
    pub fn delivered(&self) -> u64 {
        self.delivered.load(Ordering::Relaxed)
    }

    /// A connection was sent the events up to this number.
    pub fn deliver(&self, number: u64) {
        self.delivered.fetch_max(number, Ordering::Relaxed);
    }

    /// Registers a connection.
    pub fn attach(&self) {
        self.clients.lock().0 += 1;
    }

    /// Unregisters a connection.
    pub fn detach(&self) {
        let mut clients = self.clients.lock();
        *clients = (clients.0.saturating_sub(1), Instant::now());
    }

    /// How long the session has been without connections.
    fn alone(&self) -> Duration {
        match *self.clients.lock() {
            (0, since) => since.elapsed(),
            _ => Duration::ZERO,
        }
    }
}

/// All sessions of a service.
pub struct ChatSessions {
    host: Host,
    model: Arc<dyn LanguageModel>,
    epoch: Arc<str>,
    limits: SessionLimits,
    store: Option<Arc<dyn ChatStore>>,
    clients: Clients,
    trace: OnceLock<TraceContext>,
    mask: ChatMask,
    all: Mutex<HashMap<String, Arc<ChatSession>>>,
}

impl ChatSessions {
    /// Sessions with this model; a caller among `clients` that is paused is held. Must be called
    /// within a tokio runtime, for the task that ends abandoned sessions.
    pub fn new(
        host: Host,
        model: Arc<dyn LanguageModel>,
        limits: SessionLimits,
        store: Option<Arc<dyn ChatStore>>,
        clients: Clients,
    ) -> Arc<Self> {
        let epoch = random_hex::<16>().unwrap_or_default().into();
        let (trace, mask, all) = (OnceLock::new(), ChatMask::new(&host), Mutex::default());
        mask.learn();
        let sessions = Self { host, model, epoch, limits, store, clients, trace, mask, all };
        let sessions = Arc::new(sessions);
        let weak = Arc::downgrade(&sessions);
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(limits.alone.min(limits.kept) / 4);
            loop {
                tick.tick().await;
                let Some(sessions) = weak.upgrade() else { break };
                sessions.sweep();
            }
        });
        sessions
    }

    /// Sets the trace that the calls of sessions opened from now on belong to; the first one counts.
    pub fn trace(&self, trace: TraceContext) {
        let _ = self.trace.set(trace);
    }

    /// Shows the secrets of the configuration in conversations. They are stored without them.
    pub fn reveal(&self) {
        self.mask.lift();
    }

    /// Opens a session; `None` when there are too many, or without random numbers.
    pub fn open(&self, who: Principal) -> Option<Arc<ChatSession>> {
        self.add(random_hex::<16>().ok()?, who.to_string(), who, Conversation::default(), 0)
    }

    /// Copies a session, up to but excluding the user's message `at`, if given, under a name of its
    /// own.
    ///
    /// # Errors
    /// When a summary stands for that message; `None` when there are too many sessions.
    pub async fn branch(
        &self,
        session: &ChatSession,
        at: Option<usize>,
    ) -> Result<Arc<ChatSession>, Option<MessageRefusal>> {
        let mut talk = session.talk.lock().clone();
        if let Some(at) = at {
            if at < talk.replaced() {
                return Err(Some(MessageRefusal::Summarised));
            }
            talk.rewind(at);
        }
        let title = talk.title();
        if !title.is_empty() {
            let known = self.list_owned(&session.owner, "").await;
            let known: Vec<&str> = known.iter().map(|(_, title)| title.as_str()).collect();
            talk.name = Some(next_title(&title, &known));
        }
        let (agent, owner) = (session.agent(), session.owner.clone());
        let Ok(id) = random_hex::<16>() else { return Err(None) };
        let Some(copy) = self.add(id, owner, agent.who().clone(), talk, 1) else {
            return Err(None);
        };
        copy.change(agent.model(), agent.who().clone());
        *copy.pictures.lock() = session.pictures.lock().copied();
        Ok(copy)
    }

    /// Adds a session whose conversation includes its events up to `seq`.
    fn add(
        &self,
        id: String,
        owner: String,
        mut who: Principal,
        talk: Conversation,
        seq: u64,
    ) -> Option<Arc<ChatSession>> {
        let mut all = self.all.lock();
        if let Some(session) = all.get(&id) {
            return Some(Arc::clone(session));
        }
        if all.len() >= self.limits.sessions {
            let oldest = all.values().max_by_key(|session| session.alone())?;
            if oldest.alone() == Duration::ZERO {
                return None;
            }
            oldest.abort();
            let id = oldest.id.clone();
            all.remove(&id);
        }
        who.session = Some(id.as_str().into());
        let agent = Agent::new(self.host.clone(), who, Arc::clone(&self.model));
        let agent = agent.masked_by(self.mask.clone());
        let agent = agent.clients(self.clients.clone()).limits(self.limits.turn);
        let agent = agent.trace(self.trace.get().cloned().unwrap_or_default());
        let session = Arc::new_cyclic(|session| ChatSession {
            agent: RwLock::new(Arc::new(
                agent.asker(Some(Asker(Arc::new(SessionAsker(Weak::clone(session)))))),
            )),
            mask: self.mask.clone(),
            store: self.store.clone(),
            id: id.clone(),
            epoch: Arc::clone(&self.epoch),
            owner,
            limits: self.limits,
            talk: Mutex::new(talk),
            pictures: Mutex::default(),
            log: Mutex::new(Log { last: seq, covered: seq, ..Log::default() }),
            newest: watch::channel(seq).0,
            turn: Mutex::default(),
            clients: Mutex::new((0, Instant::now())),
            questions: Mutex::default(),
            answering: AtomicUsize::new(0),
            delivered: AtomicU64::new(seq),
            is_deleted: AtomicBool::new(false),
        });
        all.insert(id, Arc::clone(&session));
        Some(session)
    }

    /// Finds a session of this caller, loading it from the store if it is not here or the stored
    /// one is newer. Sessions of other callers are not found.
    pub async fn find(&self, id: &str, who: &Principal) -> Option<Arc<ChatSession>> {
        let owner = who.to_string();
        let here = self.all.lock().get(id).cloned();
        if here.as_ref().is_some_and(|session| session.owner != owner || session.is_busy()) {
            return here.filter(|session| session.owner == owner);
        }
        let Some(store) = &self.store else { return here };
        let kept = store.load(id, &owner).await.unwrap_or_else(|error| {
            tracing::error!(target: "mcpdeck::chat", "a session could not be read: {error}");
            None
        });
        // A save at the end of a turn counts `done` before it is sent.
        let is_newer = |seq| here.as_ref().is_none_or(|session| seq > session.last() + 1);
        let Some((seq, talk)) = kept.filter(|(seq, _)| is_newer(*seq)) else { return here };
        let talk = serde_json::from_str(&talk).ok()?;
        if let Some(here) = &here {
            self.all.lock().remove(&here.id);
        }
        let pictures = store.load_pictures(id, &owner).await.unwrap_or_else(|error| {
            tracing::error!(target: "mcpdeck::chat", "pictures could not be read: {error}");
            None
        });
        let session = self.add(id.to_owned(), owner, who.clone(), talk, seq)?;
        if let Some(pictures) = pictures {
            let mut shelf = session.pictures.lock();
            // Somebody else may have been faster, and have seen more.
            if shelf.is_empty() {
                *shelf = PictureShelf::from_json(&pictures);
            }
        }
        Some(session)
    }

    /// Gives a session of this caller a name instead of its first words; returns whether it exists.
    pub async fn rename(&self, id: &str, who: &Principal, name: &str) -> bool {
        let Some(session) = self.find(id, who).await else { return false };
        let name = SafeText::cut(name.trim(), 80).to_string();
        let talk = {
            let mut talk = session.talk.lock();
            talk.name = (!name.is_empty()).then_some(name);
            talk.clone()
        };
        // A turn in progress saves it at its end.
        if !session.is_busy() {
            session.keep(&talk, 0).await;
        }
        true
    }

    /// Deletes a session of this caller, here and in the store; returns whether it existed.
    pub async fn delete(&self, id: &str, who: &Principal) -> bool {
        let Some(session) = self.find(id, who).await else { return false };
        session.is_deleted.store(true, Ordering::Relaxed);
        // For those who have it open elsewhere.
        let message = "the conversation was deleted";
        session.push(&json!({"type": "error", "code": "noSession", "message": message}));
        session.abort();
        self.all.lock().remove(&session.id);
        if let Some(store) = &self.store
            && let Err(error) = store.remove(id, &session.owner).await
        {
            tracing::error!(target: "mcpdeck::chat", "a session could not be deleted: {error}");
        }
        true
    }

    /// Ids and titles of this caller's sessions that have messages and hold these words.
    pub async fn list(&self, who: &Principal, words: &str) -> Vec<(String, String)> {
        self.list_owned(&who.to_string(), &words.trim().to_lowercase()).await
    }

    /// The same for an owner by name, with words in lower case.
    async fn list_owned(&self, owner: &str, words: &str) -> Vec<(String, String)> {
        let kept = match &self.store {
            Some(store) => store.list(owner, words).await.unwrap_or_default(),
            None => Vec::new(),
        };
        let all = self.all.lock();
        let holds =
            |session: &&Arc<ChatSession>| words.is_empty() || session.talk.lock().holds(words);
        let own = all.values().filter(|session| session.owner == owner).filter(holds);
        let mut own: Vec<_> = own.collect();
        own.sort_by_key(|session| session.alone());
        let shown = self.mask.shown();
        let title = |session: &Arc<ChatSession>| session.talk.lock().title_without(&shown);
        let mut out: Vec<_> = own.into_iter().map(|s| (s.id.clone(), title(s))).collect();
        out.retain(|(_, title)| !title.is_empty());
        out.extend(kept.into_iter().filter(|(id, _)| !all.contains_key(id)));
        out
    }

    /// Removes a session that has no events and no connections.
    pub fn close_unused(&self, session: &ChatSession) {
        if session.last() == 0 && session.clients.lock().0 == 0 {
            self.all.lock().remove(&session.id);
        }
    }

    /// The number of open sessions.
    pub fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Ends abandoned turns and sessions.
    fn sweep(&self) {
        self.all.lock().retain(|_, session| {
            let alone = session.alone();
            if alone >= self.limits.alone {
                session.abort();
            }
            alone < self.limits.kept
        });
    }
}

/// The title of a copy: the next number that is free behind the title of what is copied.
fn next_title(title: &str, known: &[&str]) -> String {
    let plain = || {
        let (plain, number) = title.strip_suffix(')')?.rsplit_once(" (")?;
        number.parse::<u32>().ok().map(|_| plain)
    };
    let plain = plain().unwrap_or(title);
    let numbered = (2_u32..).map(|number| format!("{plain} ({number})"));
    let mut free = numbered.filter(|title| !known.contains(&title.as_str()));
    free.next().unwrap_or_default()
}

/// Reconstructs the events of a conversation, as far as it contains them.
fn events_of(talk: &Conversation, shelf: &PictureShelf) -> Vec<Value> {
    let mut out = Vec::new();
    let (summary, messages) = match &talk.summary {
        Some(_) => talk.messages.split_at(1.min(talk.messages.len())),
        None => (&[][..], &talk.messages[..]),
    };
    if let [ChatMessage::User { text, .. }] = summary {
        let replaced = talk.replaced();
        let message = format!("a summary stands for {}", count(replaced, "message"));
        out.push(json!({
            "type": "status", "status": "summarised", "message": message, "replaced": replaced,
        }));
        out.push(json!({"type": "text", "text": text}));
    }
    for message in messages {
        match message {
            ChatMessage::User { text, attached, .. } => {
                let shown = attached.as_ref().map(|files| files.shown());
                let text = shown.as_ref().unwrap_or(text);
                out.push(json!({"type": "message", "text": text}));
            }
            ChatMessage::Assistant(reply) => {
                out.push(json!({"type": "text", "text": reply.text}));
                out.extend(reply.calls.iter().map(|call| {
                    let (id, name, arguments) = (&call.id, &call.name, &call.arguments);
                    json!({"type": "toolCall", "id": id, "name": name, "arguments": arguments})
                }));
            }
            ChatMessage::Tool { id, name, text, is_error, .. } => {
                let mut event = json!({
                    "type": "toolResult", "id": id, "name": name, "text": inner(text),
                    "isError": is_error,
                });
                let pictures = media::about(shelf.of_call(id));
                if !pictures.is_empty() {
                    event["pictures"] = pictures.into();
                }
                out.push(event);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_title_of_a_copy_is_its_own() {
        assert_eq!(next_title("Snow", &["Snow"]), "Snow (2)");
        assert_eq!(next_title("Snow", &["Snow", "Snow (2)"]), "Snow (3)");
        assert_eq!(next_title("Snow (2)", &["Snow", "Snow (2)"]), "Snow (3)");
        assert_eq!(next_title("Snow (white)", &[]), "Snow (white) (2)");
    }
}
