//! Chat sessions that outlive their connections: the conversation, its events in a bounded log, the
//! turn under way. A client that comes back gets what it missed, or `truncated` with a snapshot.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::base::hash::hex;
use crate::chat::agent::{Agent, Conversation};
use crate::chat::event::ChatEvent;
use crate::chat::llm::Model;
use crate::host::Host;
use crate::host::policy::Principal;

/// Bounds of sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Sessions at once.
    pub sessions: usize,
    /// Bytes of events that are kept of one session.
    pub log: usize,
    /// How long a turn goes on without a client.
    pub alone: Duration,
    /// How long a session is kept without a client.
    pub kept: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            sessions: 1_000,
            log: 1 << 20,
            alone: Duration::from_secs(600),
            kept: Duration::from_secs(3_600),
        }
    }
}

/// Longest text of a result within an event, in bytes.
const RESULT: usize = 16_000;

/// The events of a session, the newest of them.
#[derive(Default)]
struct Log {
    /// With their numbers, as they are sent.
    events: VecDeque<(u64, Arc<str>)>,
    bytes: usize,
    last: u64,
    /// The last event that `talk` of the session covers.
    covered: u64,
}

/// One session.
pub struct Session {
    /// Names it.
    pub id: String,
    /// Another one after each start of the program.
    pub epoch: Arc<str>,
    owner: String,
    limits: SessionLimits,
    agent: Agent,
    talk: Mutex<Conversation>,
    log: Mutex<Log>,
    newest: watch::Sender<u64>,
    turn: Mutex<Option<CancellationToken>>,
    /// Connections, and when the last one left.
    clients: Mutex<(usize, Instant)>,
}

/// What a client missed.
#[derive(Debug, PartialEq)]
pub struct Missed {
    /// The conversation, when events it did not get are gone.
    pub snapshot: Option<Value>,
    /// Events, oldest first, with their numbers.
    pub events: Vec<(u64, Arc<str>)>,
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A turn is under way.
    Busy,
    /// There is no such message to write again.
    NoSuchMessage,
}

impl Session {
    /// Begins a turn. `at` replaces that message of the person, counted from 0, and what followed.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn begin(self: &Arc<Self>, text: String, at: Option<usize>) -> Result<(), Refusal> {
        let cancel = CancellationToken::new();
        let mut turn = self.turn.lock();
        if turn.is_some() {
            return Err(Refusal::Busy);
        }
        let mut talk = self.talk.lock().clone();
        if let Some(at) = at {
            talk.rewind(at).ok_or(Refusal::NoSuchMessage)?;
        }
        *turn = Some(cancel.clone());
        drop(turn);
        self.push(&json!({"type": "message", "text": text, "at": at}));
        let session = Arc::clone(self);
        tokio::spawn(async move {
            let done = Mutex::new(None);
            let tell = |event: ChatEvent| match event {
                // Sent once the session takes the next message.
                end @ ChatEvent::Done { .. } => *done.lock() = Some(end),
                ChatEvent::ToolResult { id, name, is_error, mut text, duration_ms, human_ms } => {
                    crate::chat::context::shorten(&mut text, RESULT);
                    let event =
                        ChatEvent::ToolResult { id, name, is_error, text, duration_ms, human_ms };
                    session.push(&event);
                }
                event => session.push(&event),
            };
            session.agent.turn(&mut talk, &text, &cancel, &tell).await;
            *session.talk.lock() = talk;
            session.turn.lock().take();
            if let Some(done) = done.into_inner() {
                session.push(&done);
            }
        });
        Ok(())
    }

    /// Stops the turn under way; gives whether there was one.
    pub fn abort(&self) -> bool {
        let turn = self.turn.lock();
        if let Some(turn) = &*turn {
            turn.cancel();
        }
        turn.is_some()
    }

    /// The model and the limits of the chat.
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    fn push(&self, event: &impl Serialize) {
        let mut value = serde_json::to_value(event).unwrap_or_default();
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

    /// Changes with every event: its number.
    pub fn newest(&self) -> watch::Receiver<u64> {
        self.newest.subscribe()
    }

    /// What came after an event.
    pub fn since(&self, seen: u64) -> Missed {
        let log = self.log.lock();
        let first = log.events.front().map_or(log.last + 1, |(number, _)| *number);
        let seen = seen.min(log.last);
        let is_gone = seen + 1 < first;
        let from = if is_gone { seen.max(log.covered) } else { seen };
        let later = log.events.iter().filter(|(number, _)| *number > from);
        let events = later.cloned().collect();
        let snapshot = is_gone.then(|| {
            let talk = self.talk.lock();
            json!({"messages": talk.messages, "seq": log.covered})
        });
        Missed { snapshot, events }
    }

    /// A client is there.
    pub fn attach(&self) {
        self.clients.lock().0 += 1;
    }

    /// A client left.
    pub fn detach(&self) {
        let mut clients = self.clients.lock();
        *clients = (clients.0.saturating_sub(1), Instant::now());
    }

    /// How long nobody is there.
    fn alone(&self) -> Duration {
        match *self.clients.lock() {
            (0, since) => since.elapsed(),
            _ => Duration::ZERO,
        }
    }
}

/// All sessions of a service.
pub struct Sessions {
    host: Host,
    model: Arc<dyn Model>,
    epoch: Arc<str>,
    limits: SessionLimits,
    all: Mutex<HashMap<String, Arc<Session>>>,
}

impl Sessions {
    /// Sessions with this model. Must be called within a tokio runtime, whose clock ends those that
    /// nobody comes back to.
    pub fn new(host: Host, model: Arc<dyn Model>, limits: SessionLimits) -> Arc<Self> {
        let epoch = random().unwrap_or_default().into();
        let sessions = Arc::new(Self { host, model, epoch, limits, all: Mutex::default() });
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

    /// A new session of a caller; nothing when there are too many, or without random numbers.
    pub fn open(&self, mut who: Principal) -> Option<Arc<Session>> {
        let mut all = self.all.lock();
        if all.len() >= self.limits.sessions {
            let oldest = all.values().max_by_key(|session| session.alone())?;
            if oldest.alone() == Duration::ZERO {
                return None;
            }
            oldest.abort();
            let id = oldest.id.clone();
            all.remove(&id);
        }
        let id = random()?;
        let owner = who.to_string();
        who.session = Some(id.as_str().into());
        let session = Arc::new(Session {
            agent: Agent::new(self.host.clone(), who, Arc::clone(&self.model)),
            id: id.clone(),
            epoch: Arc::clone(&self.epoch),
            owner,
            limits: self.limits,
            talk: Mutex::default(),
            log: Mutex::default(),
            newest: watch::channel(0).0,
            turn: Mutex::default(),
            clients: Mutex::new((0, Instant::now())),
        });
        all.insert(id, Arc::clone(&session));
        Some(session)
    }

    /// A session of this caller; another's is as if it were not there.
    pub fn find(&self, id: &str, who: &Principal) -> Option<Arc<Session>> {
        let all = self.all.lock();
        all.get(id).filter(|session| session.owner == who.to_string()).cloned()
    }

    /// Forgets a session that nobody used.
    pub fn close_unused(&self, session: &Session) {
        if session.log.lock().last == 0 {
            self.all.lock().remove(&session.id);
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Ends turns and sessions that nobody comes back to.
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

/// 128 random bits.
fn random() -> Option<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(hex(&bytes))
}
