//! The host's side of the protocol of MCP Apps, over the WebSocket of the surrounding page: what the
//! page of the server asks is answered here, and what needs the user is asked on the surrounding
//! page.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::extract::ws::{Message as Frame, WebSocket};
use futures::future::{BoxFuture, OptionFuture};
use futures::stream::{FuturesUnordered, SplitSink};
use futures::{SinkExt as _, StreamExt as _};
use parking_lot::Mutex;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::serve::{AppEvent, CalledTool, ServedApp};
use base::SafeText;
use config::error::Error;
use deck::{AnswerReply, checked_reply, page_question};
use host::{ApprovalRequest, Asker, CallOptions, Origin, OutsideError, Principal, RequestHandler};
use protocol::{Answer, Capabilities, RequestKind, RpcCode};

/// The version of the protocol that is spoken when the page asks for one that is not known.
const VERSION: &str = "2026-01-26";
/// Those that are known; they do not differ in what is used here.
const KNOWN_VERSIONS: &[&str] = &[VERSION, "2025-11-21"];

/// Number of messages to the surrounding page that wait; senders wait for room.
const OUTGOING_CAPACITY: usize = 64;
/// Maximum number of requests of a page that run at a time.
const MAX_REQUESTS: usize = 32;
/// Maximum length of arguments and addresses that are shown, in characters.
const MAX_SHOWN_CHARS: usize = 4_000;
/// How long a page may take to end when it is closed.
const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// The id of the request that ends it.
const TEARDOWN_ID: &str = "mcpdeck-teardown";

/// Serves one browser, until it leaves or the page is closed.
pub(crate) async fn talk(app: Arc<ServedApp>, socket: WebSocket) {
    let (sink, mut stream) = socket.split();
    let (out, mut outgoing) = mpsc::channel(OUTGOING_CAPACITY);
    let asks = Arc::new(PageAsks { out, open: Mutex::default(), last: AtomicU64::new(0) });
    {
        let mut pages = app.pages.lock();
        pages.retain(|page| page.strong_count() > 0);
        pages.push(Arc::downgrade(&asks));
    }
    app.connections.send_modify(|count| *count += 1);
    let _ = app.events.try_send(AppEvent::Opened);
    let mut state = app.call.state.clone();
    let mut connection = AppConnection {
        app: Arc::clone(&app),
        sink,
        asks,
        running: HashMap::new(),
        context: Value::Null,
        mode: DisplayMode::Inline,
        modes: Vec::new(),
        is_ready: false,
    };
    let mut work = Work::new();
    let mut is_told = false;
    let mut ending: Option<Instant> = None;
    loop {
        let next = tokio::select! {
            frame = stream.next() => match frame {
                Some(Ok(Frame::Text(text))) => {
                    let Ok(message) = serde_json::from_str::<Value>(&text) else { continue };
                    if ending.is_some() && message["message"]["id"] == TEARDOWN_ID {
                        break;
                    }
                    connection.react(&message, &mut work).await
                }
                Some(Ok(Frame::Close(_)) | Err(_)) | None => break,
                Some(Ok(_)) => Ok(()),
            },
            Some(message) = outgoing.recv() => connection.send(&message).await,
            Some(done) = work.next(), if !work.is_empty() => connection.done(done).await,
            Ok(()) = state.changed(), if connection.is_ready && !is_told => Ok(()),
            () = app.closing.cancelled(), if ending.is_none() => {
                ending = Some(Instant::now() + TEARDOWN_TIMEOUT);
                if !connection.is_ready {
                    break;
                }
                let params = json!({"reason": "the app is closed"});
                let id = TEARDOWN_ID;
                let request = json!({
                    "jsonrpc": "2.0", "id": id, "method": "ui/resource-teardown", "params": params,
                });
                connection.tell_view(request).await
            }
            () = tokio::time::sleep_until(ending.unwrap_or_else(Instant::now)),
                if ending.is_some() => break,
        };
        if next.is_err() {
            break;
        }
        if !connection.is_ready {
            // The frame may have been loaded again.
            is_told = false;
        } else if !is_told {
            let came = state.borrow_and_update().clone();
            let told = match came {
                CalledTool::Running => continue,
                CalledTool::Answered(result) => notice("ui/notifications/tool-result", result),
                CalledTool::Failed(why) => {
                    notice("ui/notifications/tool-cancelled", json!({"reason": why}))
                }
            };
            is_told = true;
            if connection.tell_view(told).await.is_err() {
                break;
            }
        }
    }
    if ending.is_some() {
        let _ = connection.send(&json!({"type": "closed", "why": "The app is closed."})).await;
    }
    let _ = connection.sink.close().await;
    for cancel in connection.running.values() {
        cancel.cancel();
    }
    app.connections.send_modify(|count| *count -= 1);
}

fn notice(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// How the page is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DisplayMode {
    Inline,
    Fullscreen,
}

impl DisplayMode {
    const ALL: [Self; 2] = [Self::Inline, Self::Fullscreen];

    fn as_str(self) -> &'static str {
        match self {
            Self::Inline => "inline",
            Self::Fullscreen => "fullscreen",
        }
    }
}

/// A result, or the code and the message of an error.
type Answered = Result<Value, (i64, String)>;

/// What takes its time.
enum Done {
    /// Whether the user allows the addresses that the page names.
    Network(bool),
    /// A request of the page, by its id.
    Request(Value, Answered),
}

type Work = FuturesUnordered<BoxFuture<'static, Done>>;

/// The browser is gone.
struct BrowserGone;

/// One browser.
struct AppConnection {
    app: Arc<ServedApp>,
    sink: SplitSink<WebSocket, Frame>,
    asks: Arc<PageAsks>,
    /// What cancels the requests of the page, by their ids as JSON.
    running: HashMap<String, CancellationToken>,
    /// What the surrounding page says of the browser.
    context: Value,
    mode: DisplayMode,
    /// The modes that the page says it has; all when it says nothing.
    modes: Vec<DisplayMode>,
    /// Whether the page has said that it may be spoken to.
    is_ready: bool,
}

impl AppConnection {
    async fn send(&mut self, message: &Value) -> Result<(), BrowserGone> {
        self.sink.send(Frame::Text(message.to_string().into())).await.map_err(|_| BrowserGone)
    }

    /// Sends a message to the page of the server.
    async fn tell_view(&mut self, message: Value) -> Result<(), BrowserGone> {
        self.send(&json!({"type": "view", "message": message})).await
    }

    async fn done(&mut self, done: Done) -> Result<(), BrowserGone> {
        match done {
            Done::Network(is_allowed) => {
                self.app.has_network.store(is_allowed, Ordering::Relaxed);
                self.load().await
            }
            Done::Request(id, result) => {
                self.running.remove(&id.to_string());
                self.answer(&id, result).await
            }
        }
    }

    async fn answer(&mut self, id: &Value, result: Answered) -> Result<(), BrowserGone> {
        let message = match result {
            Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Err((code, message)) => {
                let error = json!({"code": code, "message": message});
                json!({"jsonrpc": "2.0", "id": id, "error": error})
            }
        };
        self.tell_view(message).await
    }

    /// Has the sandbox load the page.
    async fn load(&mut self) -> Result<(), BrowserGone> {
        let address = self.app.sandbox.clone();
        self.send(&json!({"type": "load", "address": address})).await
    }

    /// Handles a message of the surrounding page.
    async fn react(&mut self, message: &Value, work: &mut Work) -> Result<(), BrowserGone> {
        match message["type"].as_str() {
            Some("ready") => {
                self.context = message["context"].clone();
                let (app, call) = (Arc::clone(&self.app), &self.app.call);
                let about = json!({
                    "type": "app", "server": call.server, "tool": call.tool.label,
                    "border": app.document.has_border, "sandbox": app.sandbox,
                });
                self.send(&about).await?;
                let domains = &app.document.domains;
                if domains.is_empty() || app.has_network.load(Ordering::Relaxed) {
                    return self.load().await;
                }
                let ask =
                    json!({"kind": "network", "domains": domains.named().collect::<Vec<_>>()});
                let asks = Arc::clone(&self.asks);
                work.push(Box::pin(async move {
                    Done::Network(asks.ask(ask).await.as_deref() == Some("once"))
                }));
                Ok(())
            }
            Some("context") => {
                self.context = message["context"].clone();
                if !self.is_ready {
                    return Ok(());
                }
                let changed = self.surroundings();
                self.tell_view(notice("ui/notifications/host-context-changed", changed)).await
            }
            Some("answer") => {
                let word = message["allow"].as_str().unwrap_or("no").to_owned();
                self.asks.answer(message["id"].as_u64().unwrap_or_default(), word);
                Ok(())
            }
            Some("reply") => {
                let id = message["id"].as_u64().unwrap_or_default();
                match self.asks.reply(id, &message["answer"]) {
                    Ok(()) => Ok(()),
                    Err(why) => self.send(&json!({"type": "wrong", "id": id, "why": why})).await,
                }
            }
            Some("view") => self.of_view(&message["message"], work).await,
            _ => Ok(()),
        }
    }

    /// Handles a message of the page of the server.
    async fn of_view(&mut self, message: &Value, work: &mut Work) -> Result<(), BrowserGone> {
        let (id, params) = (&message["id"], &message["params"]);
        let is_id = id.is_string() || id.is_number();
        match message["method"].as_str() {
            // An answer: nothing but the end was asked.
            None => Ok(()),
            Some(method) if message.get("id").is_none() => self.noticed(method, params).await,
            Some(method) if is_id && message["jsonrpc"] == "2.0" => {
                self.answer_request(method, (id, params), work).await
            }
            Some(_) => {
                let result = Err((RpcCode::INVALID_REQUEST, "no JSON-RPC request".to_owned()));
                self.answer(&Value::Null, result).await
            }
        }
    }

    async fn noticed(&mut self, method: &str, params: &Value) -> Result<(), BrowserGone> {
        match method {
            "ui/notifications/initialized" => {
                self.is_ready = true;
                let arguments = self.app.call.arguments.clone();
                let input = json!({"arguments": arguments});
                self.tell_view(notice("ui/notifications/tool-input", input)).await
            }
            "ui/notifications/size-changed" => {
                let Some(height) = params["height"].as_f64().filter(|height| *height > 0.0) else {
                    return Ok(());
                };
                let most = self.number("height").unwrap_or(f64::MAX);
                let height = height.ceil().min(most);
                self.send(&json!({"type": "size", "height": height})).await
            }
            "ui/notifications/request-teardown" => {
                self.app.closing.cancel();
                Ok(())
            }
            "notifications/message" => {
                let data = match &params["data"] {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                let level = SafeText::cut(params["level"].as_str().unwrap_or("info"), 20);
                let text = SafeText::cut(&data, MAX_SHOWN_CHARS);
                let server = &self.app.call.server;
                tracing::info!(target: "mcpdeck::apps", %server, "{level}: {text}");
                let _ = self.app.events.try_send(AppEvent::Logged(text.clone()));
                self.send(&json!({"type": "log", "text": SafeText::cut(&text, 120)})).await
            }
            "notifications/cancelled" => {
                if let Some(cancel) = self.running.get(&params["requestId"].to_string()) {
                    cancel.cancel();
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    async fn answer_request(
        &mut self,
        method: &str,
        (id, params): (&Value, &Value),
        work: &mut Work,
    ) -> Result<(), BrowserGone> {
        let result = match method {
            "ui/initialize" => Ok(self.initialized(params)),
            "ping" => Ok(json!({})),
            "ui/request-display-mode" => Ok(self.show_as(params).await?),
            "resources/list" => Ok(self.list("resources", |all| {
                all.resources.iter().map(|one| one.raw.value.clone()).collect()
            })),
            "resources/templates/list" => Ok(self.list("resourceTemplates", |all| {
                all.templates.iter().map(|one| one.raw.value.clone()).collect()
            })),
            "ui/message" | "ui/update-model-context" => {
                Err((RpcCode::SERVER_ERROR, "there is no conversation here".to_owned()))
            }
            "tools/call" | "resources/read" | "ui/open-link" => {
                match self.begin(method, (id, params)) {
                    Ok(begun) => {
                        work.push(begun);
                        return Ok(());
                    }
                    Err(refused) => Err(refused),
                }
            }
            _ => Err((
                RpcCode::METHOD_NOT_FOUND,
                format!("`{}` is not known", SafeText::cut(method, 80)),
            )),
        };
        self.answer(id, result).await
    }

    /// What the page is told of the host.
    fn initialized(&mut self, params: &Value) -> Value {
        // A page that begins anew is a new page.
        self.is_ready = false;
        let named = params.pointer("/appCapabilities/availableDisplayModes");
        let named = named.and_then(Value::as_array);
        let has = |mode: &DisplayMode| {
            named.is_none_or(|named| named.iter().any(|name| name == mode.as_str()))
        };
        self.modes = DisplayMode::ALL.into_iter().filter(has).collect();
        let version = params["protocolVersion"].as_str();
        let version = version.filter(|version| KNOWN_VERSIONS.contains(version));
        let mut context = self.surroundings();
        context["toolInfo"] = json!({"tool": self.app.call.tool.raw.value});
        json!({
            "protocolVersion": version.unwrap_or(VERSION),
            "hostInfo": {"name": "mcpdeck", "version": env!("CARGO_PKG_VERSION")},
            "hostCapabilities": {
                "openLinks": {},
                "serverTools": {},
                "serverResources": {},
                "logging": {},
                "sandbox": {"permissions": {}, "csp": self.app.domains().to_json()},
            },
            "hostContext": context,
        })
    }

    fn number(&self, key: &str) -> Option<f64> {
        self.context[key].as_f64().filter(|number| *number > 0.0)
    }

    /// What may change while the page is shown.
    fn surroundings(&self) -> Value {
        let text = |key: &str| self.context[key].as_str().map(|text| SafeText::cut(text, 100));
        let theme = match self.context["theme"].as_str() {
            Some("dark") => "dark",
            _ => "light",
        };
        let (width, height) = (self.number("width"), self.number("height"));
        let size = match self.mode {
            DisplayMode::Inline => json!({"width": width, "maxHeight": height}),
            DisplayMode::Fullscreen => json!({"width": width, "height": height}),
        };
        let mut all = json!({
            "theme": theme,
            "displayMode": self.mode.as_str(),
            "availableDisplayModes": DisplayMode::ALL.map(DisplayMode::as_str),
            "platform": "desktop",
            "userAgent": concat!("mcpdeck/", env!("CARGO_PKG_VERSION")),
            "deviceCapabilities": {
                "touch": self.context["touch"] == true, "hover": self.context["hover"] == true,
            },
        });
        if width.is_some() && height.is_some() {
            all["containerDimensions"] = size;
        }
        for key in ["locale", "timeZone"] {
            if let Some(text) = text(key) {
                all[key] = json!(text);
            }
        }
        all
    }

    /// Shows the page as it asks to be shown, if it says that it can be; answers with how it is.
    async fn show_as(&mut self, params: &Value) -> Result<Value, BrowserGone> {
        let asked = DisplayMode::ALL.into_iter().find(|mode| params["mode"] == mode.as_str());
        if let Some(mode) = asked.filter(|mode| self.modes.contains(mode) && *mode != self.mode) {
            self.mode = mode;
            self.send(&json!({"type": "mode", "mode": mode.as_str()})).await?;
            if self.is_ready {
                let changed = self.surroundings();
                self.tell_view(notice("ui/notifications/host-context-changed", changed)).await?;
            }
        }
        Ok(json!({"mode": self.mode.as_str()}))
    }

    /// A list of the server, as far as the page may see it.
    fn list(&self, key: &str, entries: fn(&Capabilities) -> Vec<Value>) -> Value {
        let who = Principal::new(self.origin());
        let offers = self.app.host.offers(&who);
        let own = offers.iter().find(|(server, _)| *server == self.app.call.server);
        json!({key: own.map(|(_, all)| entries(all)).unwrap_or_default()})
    }

    fn origin(&self) -> Origin {
        Origin::App(self.app.call.server.as_str().into())
    }

    /// Begins a request that takes its time.
    ///
    /// # Errors
    /// A code and a message for the page.
    fn begin(
        &mut self,
        method: &str,
        (id, params): (&Value, &Value),
    ) -> Result<BoxFuture<'static, Done>, (i64, String)> {
        let (key, cancel) = (id.to_string(), CancellationToken::new());
        if self.running.contains_key(&key) {
            return Err((RpcCode::INVALID_REQUEST, "a request with this id is running".to_owned()));
        }
        if self.running.len() >= MAX_REQUESTS {
            return Err((
                RpcCode::SERVER_ERROR,
                format!("more than {MAX_REQUESTS} requests at a time"),
            ));
        }
        let text = |key: &str| {
            let text = params[key].as_str().map(str::to_owned);
            text.ok_or_else(|| (RpcCode::INVALID_PARAMS, format!("`{key}` is a text")))
        };
        let options = self.options(&cancel);
        let work: BoxFuture<'static, Answered> = match method {
            "ui/open-link" => {
                let url = Url::parse(&text("url")?).ok();
                let url = url.filter(|url| matches!(url.scheme(), "http" | "https"));
                let wrong =
                    || (RpcCode::INVALID_PARAMS, "`url` is an address of the web".to_owned());
                let url = url.ok_or_else(wrong)?;
                let shown = SafeText::cut(url.as_str(), MAX_SHOWN_CHARS);
                let (asks, ask) = (Arc::clone(&self.asks), json!({"kind": "link", "url": shown}));
                let cancel = cancel.clone();
                Box::pin(async move {
                    let word = cancel.run_until_cancelled(asks.ask(ask)).await.flatten();
                    match word.as_deref() {
                        Some("once") => Ok(json!({})),
                        _ => Err((RpcCode::SERVER_ERROR, "the user did not open it".to_owned())),
                    }
                })
            }
            "tools/call" => self.call(&text("name")?, params, options)?,
            _ => {
                let host = self.app.host.clone();
                let uri = text("uri")?;
                Box::pin(async move {
                    let read = host.get_resource_with(&uri, options).await;
                    read.map(|read| Value::clone(&read.result)).map_err(|error| refused(&error))
                })
            }
        };
        let id = id.clone();
        self.running.insert(key, cancel);
        Ok(Box::pin(async move { Done::Request(id, work.await) }))
    }

    /// The call of a tool of the same server that is meant for pages.
    fn call(
        &self,
        name: &str,
        params: &Value,
        options: CallOptions,
    ) -> Result<BoxFuture<'static, Answered>, (i64, String)> {
        let view = self.app.host.snapshot();
        let server = view.servers.get(&self.app.call.server);
        let tools = server.map(|server| &server.capabilities.tools);
        let tool = tools.and_then(|tools| tools.iter().find(|tool| *tool.name == *name));
        let shown = SafeText::cut(name, 80);
        match tool {
            None => return Err((RpcCode::INVALID_PARAMS, format!("there is no tool `{shown}`"))),
            Some(tool) if !tool.is_for_apps() => {
                return Err((RpcCode::INVALID_PARAMS, format!("`{shown}` is not for apps")));
            }
            Some(_) => {}
        }
        let arguments = match &params["arguments"] {
            Value::Null => json!({}),
            arguments if arguments.is_object() => arguments.clone(),
            _ => return Err((RpcCode::INVALID_PARAMS, "`arguments` is an object".to_owned())),
        };
        let (host, name) = (self.app.host.clone(), name.to_owned());
        Ok(Box::pin(async move {
            let called = host.call_tool_with(&name, arguments, options).await;
            called.map(|outcome| Value::clone(&outcome.result)).map_err(|error| refused(&error))
        }))
    }

    /// The options of a request of the page.
    fn options(&self, cancel: &CancellationToken) -> CallOptions {
        let trace = self.app.call.trace.clone();
        CallOptions {
            cancel: cancel.clone(),
            origin: self.origin(),
            session: Some(Arc::clone(&self.app.session)),
            server: Some(self.app.call.server.clone()),
            asker: Some(Asker(Arc::new(PageAsker(Arc::clone(&self.asks))))),
            trace: trace.parent,
            meta: trace.more,
            ..CallOptions::default()
        }
    }
}

fn refused(error: &Error) -> (i64, String) {
    match &error.rpc {
        Some(rpc) => (rpc.code.unwrap_or(RpcCode::SERVER_ERROR), rpc.message.clone()),
        None => (RpcCode::SERVER_ERROR, OutsideError::from_error(error).message),
    }
}

/// The questions on the surrounding page.
pub(crate) struct PageAsks {
    out: mpsc::Sender<Value>,
    open: Mutex<HashMap<u64, PageAsk>>,
    last: AtomicU64,
}

/// What waits for the user of the page.
enum PageAsk {
    /// Which of the words is chosen.
    Word(oneshot::Sender<String>),
    /// What the answer to a server is.
    Reply(Arc<ApprovalRequest>, oneshot::Sender<Answer>),
}

impl PageAsks {
    /// Asks the user; answers with the word of what was chosen, or `None` when the browser is gone.
    async fn ask(self: &Arc<Self>, ask: Value) -> Option<String> {
        let (sender, receiver) = oneshot::channel();
        let _open = self.put(PageAsk::Word(sender), &ask).await?;
        self.answered(receiver).await
    }

    /// Asks for the answer to a request; `None` when the browser is gone.
    async fn decide(
        self: &Arc<Self>,
        request: &Arc<ApprovalRequest>,
        ask: &Value,
    ) -> Option<Answer> {
        if ask["kind"] == "question" {
            let (sender, receiver) = oneshot::channel();
            let _open = self.put(PageAsk::Reply(Arc::clone(request), sender), ask).await?;
            return self.answered(receiver).await;
        }
        Some(Answer::Result(match self.ask(ask.clone()).await?.as_str() {
            "no" => json!({"action": "decline"}),
            reach => json!({"action": "accept", "for": reach}),
        }))
    }

    /// Waits for an answer as long as the browser is there.
    async fn answered<T>(&self, receiver: oneshot::Receiver<T>) -> Option<T> {
        tokio::select! {
            answer = receiver => answer.ok(),
            () = self.out.closed() => None,
        }
    }

    /// Puts a question on the page, until what is returned is dropped: somebody else may answer first.
    async fn put(self: &Arc<Self>, open: PageAsk, ask: &Value) -> Option<OpenAsk> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        self.open.lock().insert(id, open);
        let open = OpenAsk { asks: Arc::clone(self), id };
        self.out.send(json!({"type": "ask", "id": id, "ask": ask})).await.ok()?;
        Some(open)
    }

    fn answer(&self, id: u64, word: String) {
        let mut open = self.open.lock();
        match open.remove(&id) {
            Some(PageAsk::Word(sender)) => _ = sender.send(word),
            Some(reply @ PageAsk::Reply(..)) => _ = open.insert(id, reply),
            None => {}
        }
    }

    /// Answers what a server asked.
    ///
    /// # Errors
    /// What was expected of the answer; the question stays open then.
    fn reply(&self, id: u64, answer: &Value) -> Result<(), String> {
        let answer = AnswerReply::deserialize(answer).map_err(|error| error.to_string())?;
        let mut open = self.open.lock();
        // Answered elsewhere, or its call has ended: the page has received that already.
        let Some(PageAsk::Reply(request, _)) = open.get(&id) else { return Ok(()) };
        let answer = checked_reply(request, &answer)?;
        if let Some(PageAsk::Reply(_, sender)) = open.remove(&id) {
            let _ = sender.send(answer);
        }
        Ok(())
    }
}

struct OpenAsk {
    asks: Arc<PageAsks>,
    id: u64,
}

impl Drop for OpenAsk {
    fn drop(&mut self) {
        self.asks.open.lock().remove(&self.id);
        let _ = self.asks.out.try_send(json!({"type": "withdraw", "id": self.id}));
    }
}

/// What the user of a page is asked for the answer to a request; `None` for what is not theirs to
/// answer there.
fn page_ask(request: &ApprovalRequest) -> Option<Value> {
    if !matches!(request.kind, RequestKind::Guard | RequestKind::Permission) {
        return Some(json!({"kind": "question", "question": page_question(request)?}));
    }
    let params = &request.params;
    let text = |key: &str| SafeText::cut(params[key].as_str().unwrap_or_default(), 400);
    let arguments = match &params["arguments"] {
        Value::Null => params.to_string(),
        arguments => format!("{arguments:#}"),
    };
    let answers = params["answers"].as_array().cloned();
    Some(json!({
        "kind": "call", "tool": text("tool"), "why": text("why"),
        "arguments": SafeText::cut_block(&arguments, MAX_SHOWN_CHARS),
        "answers": answers.unwrap_or_else(|| vec![json!("once")]),
    }))
}

/// Asks on the surrounding page for consent to a call, and what the server asks during one.
struct PageAsker(Arc<PageAsks>);

impl RequestHandler for PageAsker {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let asks = Arc::clone(&self.0);
        Box::pin(async move { asks.decide(&request, &page_ask(&request)?).await })
    }
}

/// Asks on the page that shows an app, as soon as one does and again when it is loaded again; beside
/// another asker, the first answer counts.
pub(crate) struct AppAsker {
    pub(crate) app: Weak<ServedApp>,
    pub(crate) beside: Option<Asker>,
}

/// Asks on the newest page of an app; `None` when the app is closed.
async fn ask_on_page(
    app: Weak<ServedApp>,
    request: Arc<ApprovalRequest>,
    ask: Value,
) -> Option<Answer> {
    loop {
        let (mut connections, page) = {
            let app = app.upgrade()?;
            let connections = app.connections.subscribe();
            let page = app.pages.lock().iter().rev().find_map(Weak::upgrade);
            (connections, page)
        };
        if let Some(page) = page
            && let Some(answer) = page.decide(&request, &ask).await
        {
            return Some(answer);
        }
        connections.changed().await.ok()?;
    }
}

impl RequestHandler for AppAsker {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let beside = self.beside.as_ref();
        let beside = beside.map(|asker| asker.0.handle(Arc::clone(&request), withdrawn));
        let on_page = page_ask(&request).map(|ask| ask_on_page(self.app.clone(), request, ask));
        Box::pin(async move {
            tokio::select! {
                Some(Some(answer)) = OptionFuture::from(beside) => Some(answer),
                Some(Some(answer)) = OptionFuture::from(on_page) => Some(answer),
                else => None,
            }
        })
    }
}
