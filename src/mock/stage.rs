//! The stage: what a playing server knows, and which reaction an incoming message gets.
//!
//! Everything runs on one thread; a reaction is a local task, so that one that waits does not hold
//! up the others. Transports own how bytes travel.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::answers;
use super::http::Exchange;
use super::play::{Cx, play, replay};
use super::recorded::Recorded;
use super::script::{Action, Lists, Reaction, Script, Stream};
use super::stdio::Pipes;

/// What a playing server knows.
#[derive(Default)]
pub(crate) struct Stage {
    pub(crate) script: Script,
    /// A recording that is played instead of the script.
    recorded: Option<Recorded>,
    /// The lists as they are now.
    pub(crate) lists: RefCell<Lists>,
    /// `${saved.*}`
    pub(crate) saved: RefCell<Map<String, Value>>,
    /// Arguments after the script on the command line: `${argv.N}`.
    pub(crate) argv: Vec<String>,
    /// Requests we sent, by their id as JSON text.
    pub(crate) asks: RefCell<HashMap<String, oneshot::Sender<Value>>>,
    pub(crate) asked: Cell<u64>,
    /// Open `subscriptions/listen` requests: their id and where they are answered.
    pub(crate) listeners: RefCell<Vec<(Value, Sink)>>,
    /// How often each `turns` was reached, by its address in the script.
    pub(crate) turns: RefCell<HashMap<usize, usize>>,
    /// How often each cue came: `${count}`.
    counts: RefCell<HashMap<Cue, u64>>,
    /// Requests of the host under way, by their id as JSON text.
    running: RefCell<HashMap<String, CancellationToken>>,
    /// Memory and files taken on purpose.
    pub(crate) hoard: RefCell<Vec<Box<dyn std::any::Any>>>,
    pub(crate) stdin_closed: CancellationToken,
    /// Whether stdin is still read.
    pub(crate) reading: watch::Sender<bool>,
    /// Exit code, once the play is over.
    pub(crate) exit: watch::Sender<Option<i32>>,
    /// Where a message goes that belongs to no request.
    pub(crate) main: RefCell<Option<Sink>>,
}

/// Which reaction of the script is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cue {
    Call(String),
    Read(String),
    Get(String),
    On(String),
}

impl Stage {
    pub(crate) fn new(script: Script, recorded: Option<Recorded>, argv: Vec<String>) -> Rc<Self> {
        let lists = Lists {
            tools: script.tools.clone().or_else(|| answers::tools_of_calls(&script)),
            prompts: script.prompts.clone(),
            resources: script.resources.clone(),
            resource_templates: script.resource_templates.clone(),
            instructions: script.instructions.clone(),
        };
        let (lists, reading) = (RefCell::new(lists), watch::Sender::new(true));
        Rc::new(Self { script, recorded, lists, argv, reading, ..Self::default() })
    }

    /// The reaction for a cue, if the script has one.
    pub(crate) fn reaction(&self, cue: &Cue) -> Option<&Reaction> {
        match cue {
            Cue::Call(name) => self.script.calls.get(name),
            Cue::Read(uri) => self.script.reads.get(uri),
            Cue::Get(name) => self.script.gets.get(name),
            Cue::On(what) => self.script.on.get(what),
        }
    }

    /// Plays `on.WHAT` to its end, if the script has it; says whether it has.
    pub(crate) async fn event(self: &Rc<Self>, what: &str, sink: &Sink) -> bool {
        let cue = Cue::On(what.to_owned());
        let Some(reaction) = self.reaction(&cue) else { return false };
        play(&Cx::new(self, sink, None), reaction.actions()).await;
        true
    }

    /// Takes one line or body of the host.
    pub(crate) fn receive(self: &Rc<Self>, bytes: &[u8], sink: &Sink) {
        self.record(bytes);
        match serde_json::from_slice::<Value>(bytes) {
            Ok(Value::Array(batch)) => {
                for message in batch {
                    self.message(message, sink);
                }
            }
            Ok(message) => self.message(message, sink),
            Err(error) => {
                let (stage, sink) = (Rc::clone(self), sink.clone());
                tokio::task::spawn_local(async move {
                    if !stage.event("badLine", &sink).await {
                        let message = Value::String(error.to_string());
                        let text = format!(
                            r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32700,"message":{message}}}}}"#
                        );
                        sink.answer(text).await;
                    }
                });
            }
        }
    }

    fn record(&self, bytes: &[u8]) {
        use std::io::Write;
        if let Some(path) = &self.script.record {
            let path = crate::mock::template::text(&Value::String(path.clone()), self);
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            if let Ok(mut file) = file {
                let mut line = bytes.to_vec();
                line.push(b'\n');
                let _ = file.write_all(&line);
            }
        }
    }

    fn message(self: &Rc<Self>, message: Value, sink: &Sink) {
        match message["method"].as_str().map(str::to_owned) {
            None => self.answered(message, sink),
            Some(method) => self.asked_for(method, message, sink),
        }
    }

    /// A response of the host to something we asked.
    fn answered(self: &Rc<Self>, mut message: Value, sink: &Sink) {
        let key = message["id"].to_string();
        let waiting = self.asks.borrow_mut().remove(&key);
        let (stage, owned) = (Rc::clone(self), sink.clone());
        if let Some(map) = message.as_object_mut() {
            map.remove("jsonrpc");
        }
        if let Some(waiting) = waiting {
            let _ = waiting.send(message.clone());
        }
        tokio::task::spawn_local(async move {
            let cue = Cue::On("answer".to_owned());
            if let Some(reaction) = stage.reaction(&cue) {
                let cx = Cx::new(&stage, &owned, Some(message));
                play(&cx, reaction.actions()).await;
            }
            owned.finish(false).await;
        });
    }

    fn asked_for(self: &Rc<Self>, method: String, message: Value, sink: &Sink) {
        if method == "notifications/cancelled" {
            self.cancel(&message["params"]["requestId"]);
        }
        let cue = self.cue(&method, &message);
        *self.counts.borrow_mut().entry(cue.clone()).or_default() += 1;
        let key = message.get("id").map(Value::to_string);
        let mut cx = Cx::new(self, sink, Some(message));
        cx.count = self.counts.borrow()[&cue];
        if let Some(key) = &key {
            self.running.borrow_mut().insert(key.clone(), cx.cancelled.clone());
        }
        tokio::task::spawn_local(async move {
            match (&cx.stage.recorded, cx.stage.reaction(&cue)) {
                (Some(recorded), _) => {
                    if let Some(request) = cx.request.clone().filter(|_| key.is_some()) {
                        replay(&cx, recorded, &request).await;
                    }
                }
                (None, Some(reaction)) => play(&cx, reaction.actions()).await,
                (None, None) => play(&cx, &[Action::Default]).await,
            }
            if let Some(key) = &key {
                cx.stage.running.borrow_mut().remove(key);
            }
            cx.sink.finish(key.is_some()).await;
        });
    }

    /// The most particular reaction there is: tool, method, then `*`.
    fn cue(&self, method: &str, message: &Value) -> Cue {
        let params = &message["params"];
        let named = |key: &str| params[key].as_str().unwrap_or_default().to_owned();
        let particular = match method {
            "tools/call" => Some(Cue::Call(named("name"))),
            "resources/read" => Some(Cue::Read(named("uri"))),
            "prompts/get" => Some(Cue::Get(named("name"))),
            _ => None,
        };
        let exact = Cue::On(method.to_owned());
        match particular.filter(|cue| self.reaction(cue).is_some()) {
            Some(cue) => cue,
            None if self.reaction(&exact).is_some() || answers::knows(method) => exact,
            None => Cue::On("*".to_owned()),
        }
    }

    fn cancel(self: &Rc<Self>, id: &Value) {
        let key = id.to_string();
        if let Some(token) = self.running.borrow().get(&key) {
            token.cancel();
        }
        let ended = {
            let mut listeners = self.listeners.borrow_mut();
            let at = listeners.iter().position(|(listener, _)| listener == id);
            at.map(|at| listeners.remove(at))
        };
        if let Some((id, sink)) = ended {
            tokio::task::spawn_local(async move {
                sink.answer(answers::listen_end(&id)).await;
            });
        }
    }

    /// Ends the play with this exit code; what is queued is written first.
    pub(crate) fn exit(&self, code: i32) {
        self.exit.send_replace(Some(code));
    }
}

impl crate::mock::template::Scope for Stage {
    fn lookup(&self, path: &str) -> Option<Value> {
        let (root, rest) = path.split_once('.').unwrap_or((path, ""));
        match root {
            "pid" => Some(std::process::id().into()),
            "env" if rest.is_empty() => {
                Some(std::env::vars().map(|(key, value)| (key, Value::String(value))).collect())
            }
            "env" => std::env::var(rest).ok().map(Value::String),
            "cwd" => {
                std::env::current_dir().ok().map(|path| path.to_string_lossy().into_owned().into())
            }
            "argv" if rest.is_empty() => Some(self.argv.clone().into()),
            "argv" => self.argv.get(rest.parse::<usize>().ok()?).cloned().map(Value::String),
            "saved" => {
                let saved = self.saved.borrow();
                let (name, rest) = rest.split_once('.').unwrap_or((rest, ""));
                crate::mock::template::follow(saved.get(name)?, rest)
            }
            _ => None,
        }
    }
}

// Where a reaction's output goes: the standard streams, or one HTTP exchange.

/// Where a reaction's output goes.
#[derive(Clone)]
pub(crate) enum Sink {
    Stdio(Rc<Pipes>),
    Http(Rc<Exchange>),
}

impl Sink {
    /// Sends the answer to the request at hand.
    pub(crate) async fn answer(&self, text: String) {
        match self {
            Self::Stdio(pipes) => pipes.line(text).await,
            Self::Http(exchange) => exchange.answer(text).await,
        }
    }

    /// Sends any other message.
    pub(crate) async fn message(&self, text: String) {
        match self {
            Self::Stdio(pipes) => pipes.line(text).await,
            Self::Http(exchange) => exchange.message(&text).await,
        }
    }

    /// Writes bytes as they are, in pieces of `chunk` bytes with `pause` milliseconds between.
    pub(crate) async fn bytes(&self, to: Stream, bytes: &[u8], chunk: usize, pause: u64) {
        match (self, to) {
            (Self::Stdio(pipes), to) => pipes.bytes(to, bytes, chunk, pause).await,
            (Self::Http(_), Stream::Stderr) => {
                use std::io::Write;
                let _ = std::io::stderr().write_all(bytes);
            }
            (Self::Http(exchange), _) => exchange.bytes(bytes, chunk, pause).await,
        }
    }

    /// The reaction is over; `expected` says whether the host waits for an answer.
    pub(crate) async fn finish(&self, expected: bool) {
        if let Self::Http(exchange) = self {
            exchange.finish(expected);
        }
    }

    /// Closes a standard stream.
    pub(crate) async fn close(&self, stream: Stream) {
        if let Self::Stdio(pipes) = self {
            pipes.close(stream).await;
        }
    }
}
