//! The stage: the state of a mock server, the sink for the output of a reaction, and the context a
//! reaction runs in.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::http::HttpExchange;
use super::recorded::RecordedServer;
use super::script::{Cancellation, Reaction, ScriptedLists, ServerScript, StandardStream};
use super::stdio::StandardStreams;
use super::template::{self, TemplateScope};

/// The state of a mock server.
#[derive(Default)]
pub(crate) struct MockStage {
    pub(crate) script: ServerScript,
    /// A recording that is played instead of the script.
    pub(crate) recorded: Option<RecordedServer>,
    /// The lists as they are now.
    pub(crate) lists: RefCell<ScriptedLists>,
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
    pub(crate) counts: RefCell<HashMap<Cue, u64>>,
    /// Requests of the host in progress, by their id as JSON text.
    pub(crate) running: RefCell<HashMap<String, CancellationToken>>,
    /// Memory, files and child processes held on purpose.
    pub(crate) hoard: RefCell<Vec<Box<dyn std::any::Any>>>,
    pub(crate) stdin_closed: CancellationToken,
    /// Whether stdin is still read.
    pub(crate) reading: watch::Sender<bool>,
    /// Exit code, once the play is over.
    pub(crate) exit: watch::Sender<Option<i32>>,
}

/// Identifies a reaction of the script.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Cue {
    Call(String),
    Read(String),
    Get(String),
    On(String),
}

impl MockStage {
    pub(crate) fn new(
        script: ServerScript,
        recorded: Option<RecordedServer>,
        argv: Vec<String>,
    ) -> Rc<Self> {
        let (lists, reading) = (RefCell::new(script.lists()), watch::Sender::new(true));
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

    /// Ends the play with this exit code; what is queued is written first.
    pub(crate) fn exit(&self, code: i32) {
        self.exit.send_replace(Some(code));
    }
}

impl TemplateScope for MockStage {
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
                template::follow(saved.get(name)?, rest)
            }
            _ => None,
        }
    }
}

/// Where a reaction's output goes.
#[derive(Clone)]
pub(crate) enum Sink {
    Stdio(Rc<StandardStreams>),
    Http(Rc<HttpExchange>),
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
    pub(crate) async fn bytes(&self, to: StandardStream, bytes: &[u8], chunk: usize, pause: u64) {
        match (self, to) {
            (Self::Stdio(pipes), to) => pipes.bytes(to, bytes, chunk, pause).await,
            (Self::Http(_), StandardStream::Stderr) => {
                use std::io::Write;
                let _ = std::io::stderr().write_all(bytes);
            }
            (Self::Http(exchange), _) => exchange.bytes(bytes, chunk, pause).await,
        }
    }

    /// Ends a reaction; `expected` is whether the host waits for an answer.
    pub(crate) fn finish(&self, expected: bool) {
        if let Self::Http(exchange) = self {
            exchange.finish(expected);
        }
    }

    /// Closes a standard stream.
    pub(crate) async fn close(&self, stream: StandardStream) {
        if let Self::Stdio(pipes) = self {
            pipes.close(stream).await;
        }
    }
}

/// The context of a reaction: the stage, the message it reacts to, the sink of its output.
#[derive(Clone)]
pub(crate) struct ReactionContext {
    pub(crate) stage: Rc<MockStage>,
    pub(crate) sink: Sink,
    pub(crate) request: Option<Rc<Value>>,
    pub(crate) cancelled: CancellationToken,
    pub(crate) count: u64,
    index: Option<u64>,
}

/// Whether the reaction continues.
pub(crate) type Flow = ControlFlow<()>;
pub(crate) const GO_ON: Flow = ControlFlow::Continue(());
pub(crate) const OVER: Flow = ControlFlow::Break(());

impl ReactionContext {
    pub(crate) fn new(stage: &Rc<MockStage>, sink: &Sink, request: Option<Value>) -> Self {
        Self {
            stage: Rc::clone(stage),
            sink: sink.clone(),
            request: request.map(Rc::new),
            cancelled: CancellationToken::new(),
            count: 0,
            index: None,
        }
    }

    /// A text with its placeholders replaced.
    pub(crate) fn text(&self, text: &str) -> String {
        template::text(&Value::String(text.to_owned()), self)
    }

    /// A number written as such, as a placeholder, or as text; 0 when it is none.
    pub(crate) fn number(&self, template: &Value) -> u64 {
        let value = template::value(template, self);
        let text = value.as_str().and_then(|text| text.trim().parse().ok());
        value.as_f64().or(text).unwrap_or(0.0) as u64
    }

    pub(crate) fn counting(&self, index: u64) -> Self {
        Self { index: Some(index), ..self.clone() }
    }

    fn id(&self) -> String {
        self.lookup("id").unwrap_or_default().to_string()
    }

    pub(crate) async fn answer(&self, result: &str) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, self.id());
        self.sink.answer(text).await;
    }

    pub(crate) async fn refuse(&self, error: &str) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, self.id());
        self.sink.answer(text).await;
    }

    pub(crate) async fn line(&self, to: StandardStream, text: &str) {
        self.sink.bytes(to, format!("{text}\n").as_bytes(), 0, 0).await;
    }

    /// The `params` member that follows the `method` of a message; empty without parameters.
    pub(crate) fn params(&self, params: Option<&Value>) -> String {
        let text = params.map(|params| format!(r#","params":{}"#, template::json(params, self)));
        text.unwrap_or_default()
    }

    /// Keeps a value as `${saved.NAME}`.
    pub(crate) fn save(&self, name: &str, value: Value) {
        self.stage.saved.borrow_mut().insert(name.to_owned(), value);
    }

    /// The number of the next request to the host.
    pub(crate) fn next_asked(&self) -> u64 {
        self.stage.asked.set(self.stage.asked.get() + 1);
        self.stage.asked.get()
    }

    /// Waits; `OVER` when the host cancelled meanwhile and the script obeys.
    pub(crate) async fn pause(&self, millis: u64) -> Flow {
        let sleep = tokio::time::sleep(Duration::from_millis(millis));
        if self.stage.script.cancellation == Cancellation::Ignore {
            sleep.await;
            return GO_ON;
        }
        tokio::select! {
            () = sleep => GO_ON,
            () = self.cancelled.cancelled() => OVER,
        }
    }
}

impl TemplateScope for ReactionContext {
    fn lookup(&self, path: &str) -> Option<Value> {
        let (root, rest) = path.split_once('.').unwrap_or((path, ""));
        let request = self.request.as_deref();
        let params = || request.map(|request| &request["params"]);
        match root {
            "i" => self.index.map(Value::from),
            "count" => Some(self.count.into()),
            "id" | "method" => request?.get(root).cloned(),
            "message" => template::follow(request?, rest),
            "params" => template::follow(params()?, rest),
            "arguments" => template::follow(&params()?["arguments"], rest),
            "header" => match &self.sink {
                Sink::Http(exchange) => exchange.asked_header(rest),
                Sink::Stdio(_) => None,
            },
            "name" | "uri" => params()?.get(root).cloned(),
            "token" => params()?["_meta"].get("progressToken").cloned(),
            _ => self.stage.lookup(path),
        }
    }
}
