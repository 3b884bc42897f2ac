//! The chat over its WebSocket, for pages and programs: conversations, sessions that outlive their
//! connection, limits and tokens.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::serve::ListenerExt as _;
use futures::{SinkExt as _, StreamExt as _};
use mcpdeck::chat::llm::ModelPrice;
use mcpdeck::chat::session::{ChatSessions, SessionLimits};
use mcpdeck::chat::socket::{LINK_PATH, SignIns, SocketLimits, routes, ws_schema};
use mcpdeck::chat::store::SessionFolder;
use mcpdeck::chat::{Provider as Format, ProviderModel, RemoteConfig};
use mcpdeck::config::Environment;
use mcpdeck::deck::{ChatStore, Clients};
use mcpdeck::host::{Host, Origin, Principal};
use mcpdeck::protocol::{self, ListKind, RequestKind, ServerRequest};
use mcpdeck::schema::Validator;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::{Message as Frame, WebSocketConfig};
use tokio_util::sync::CancellationToken;

use super::media::PICTURE;
use crate::fake::{World, config, tool};
use crate::page::Page;
use crate::provider::{Answer, Piece, Provider};

/// Timeout of every wait.
const PATIENCE: Duration = Duration::from_secs(60);

struct Service {
    world: World,
    host: Host,
    sessions: Arc<ChatSessions>,
    provider: Provider,
    clients: Clients,
    address: String,
    sign_ins: Arc<SignIns>,
    /// Revokes the tokens.
    revoke: CancellationToken,
}

struct Options {
    answers: Vec<Answer>,
    sessions: SessionLimits,
    socket: SocketLimits,
    context: u64,
    fenced: bool,
    price: Option<ModelPrice>,
    store: Option<Arc<dyn ChatStore>>,
}

fn usual(answers: Vec<Answer>) -> Options {
    let (sessions, socket) = (SessionLimits::default(), SocketLimits::default());
    let (context, fenced, price, store) = (100_000, false, None, None);
    Options { answers, sessions, socket, context, fenced, price, store }
}

impl Service {
    async fn new(options: Options) -> Self {
        let world = World::default();
        let server = world.server("a");
        *server.start.lock().unwrap() = Duration::ZERO;
        let tools = [tool("read", json!({"readOnlyHint": true})), tool("write", json!({}))];
        server.lists(ListKind::Tools, &tools);
        server.answers(|_, _| async {
            Ok(json!({"content": [{"type": "text", "text": "42 degrees"}]}))
        });
        let host = world.host(config(&[("a", &[])])).initialize().await.unwrap();
        let provider = Provider::new(options.answers);
        let url = provider.url.parse().unwrap();
        let mut model = RemoteConfig::new(Format::OpenAi, url, "test-model");
        model.backoff = Duration::from_millis(1);
        (model.context, model.fenced) = (Some(options.context), options.fenced);
        model.price = options.price;
        let model = Arc::new(ProviderModel::new(model).unwrap());
        let (clients, now) = (Clients::default(), host.clock().now());
        let (store, known) = (options.store, clients.clone());
        let sessions =
            ChatSessions::new(host.clone(), model, options.sessions, store, clients.clone());
        let revoke = CancellationToken::new();
        let cut = revoke.clone();
        let who = Arc::new(move |token: &str| {
            let who = Principal { profile: token.into(), ..Principal::new(Origin::Cli) };
            known.seen(&who, now);
            matches!(token, "token-1" | "token-2").then(|| (who, cut.clone()))
        });
        let sign_ins = Arc::new(SignIns::default());
        let router = routes(Arc::clone(&sessions), who, options.socket, Arc::clone(&sign_ins));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let listener = listener.tap_io(|stream| _ = stream.set_nodelay(true));
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { world, host, sessions, provider, clients, address, sign_ins, revoke }
    }

    /// Opens a connection without a token.
    async fn open(&self) -> Client {
        let stream = TcpStream::connect(&self.address).await.unwrap();
        let url = format!("ws://{}/ws", self.address);
        stream.set_nodelay(true).unwrap();
        let small = WebSocketConfig::default().read_buffer_size(4 << 10);
        let opening = tokio_tungstenite::client_async_with_config(url, stream, Some(small));
        let (socket, _) = opening.await.unwrap();
        Client { socket, id: String::new(), seen: 0 }
    }

    async fn connect(&self) -> Client {
        let mut client = self.open().await;
        client.send(json!({"type": "auth", "token": "token-1"})).await;
        let hello = client.next().await.unwrap();
        assert_eq!((&hello["type"], &hello["status"]), (&json!("connection"), &json!("connected")));
        hello["sessionId"].as_str().unwrap().clone_into(&mut client.id);
        client
    }
}

/// Checks a message of the server against the schema.
fn check_message(message: &Value) {
    static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
        let mut schema = ws_schema();
        schema["anyOf"] = json!([{"$ref": "#/$defs/server"}, {"$ref": "#/$defs/serverPayload"}]);
        Validator::compile(&schema).expect("a schema")
    });
    let verdict = SCHEMA.check(message);
    assert!(verdict.is_valid(), "{message}: {verdict:?}");
}

struct Client {
    socket: WebSocketStream<TcpStream>,
    id: String,
    seen: u64,
}

impl Client {
    async fn send(&mut self, message: Value) {
        self.socket.send(Frame::Text(message.to_string().into())).await.unwrap();
    }

    /// The next message, or the reason why the connection was closed.
    async fn next(&mut self) -> Result<Value, String> {
        loop {
            let frame = tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("in time");
            match frame {
                Some(Ok(Frame::Text(text))) => {
                    let value: Value = serde_json::from_str(&text).unwrap();
                    check_message(&value);
                    if let Some(seq) = value["seq"].as_u64() {
                        self.seen = seq;
                    }
                    return Ok(value);
                }
                Some(Ok(Frame::Close(close))) => {
                    return Err(close.map(|close| close.reason.to_string()).unwrap_or_default());
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err("closed".to_owned()),
            }
        }
    }

    /// All messages up to and including the first of a type.
    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        loop {
            let value = self.next().await.unwrap_or_else(|why| panic!("{why} after {all:?}"));
            let is_it = value["type"] == kind;
            all.push(value);
            if is_it {
                return all;
            }
        }
    }

    /// Runs one turn.
    async fn ask(&mut self, text: &str) -> Vec<Value> {
        self.send(json!({"type": "message", "text": text})).await;
        self.until("done").await
    }

    async fn resume(&mut self, session: &str, last: u64) {
        self.send(json!({"type": "resume", "session": session, "lastSeq": last})).await;
        let hello = self.next().await.unwrap();
        assert_eq!((&hello["type"], &hello["resumed"]), (&json!("connection"), &json!(true)));
        session.clone_into(&mut self.id);
    }
}

fn text(text: &'static str) -> Answer {
    Answer::Stream(vec![Piece::Text(text)])
}

fn call(name: &'static str) -> Answer {
    Answer::Stream(vec![Piece::Call(name, "{}")])
}

fn answer_text(events: &[Value]) -> String {
    events.iter().filter(|e| e["type"] == "text").filter_map(|e| e["text"].as_str()).collect()
}

fn reason(events: &[Value]) -> &str {
    events.last().unwrap()["reason"].as_str().unwrap()
}

fn find<'a>(events: &'a [Value], kind: &str) -> &'a Value {
    let found = events.iter().find(|event| event["type"] == kind || event["status"] == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {events:?}"))
}

#[tokio::test]
async fn a_basic_chat_streams_text_and_remembers() {
    let service = Service::new(usual(vec![text("Hello there."), text("Still here.")])).await;
    let mut client = service.connect().await;
    let events = client.ask("hi").await;
    assert_eq!((answer_text(&events).as_str(), reason(&events)), ("Hello there.", "end"));
    assert!(events.iter().filter(|event| event["type"] == "text").count() > 1, "it streams");
    let numbers: Vec<u64> = events.iter().filter_map(|event| event["seq"].as_u64()).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    find(&events, "processing");
    find(&events, "complete");
    assert_eq!(answer_text(&client.ask("and now?").await), "Still here.");
    let second = service.provider.requests()[1].body["messages"].to_string();
    assert!(second.contains("Hello there.") && second.contains("and now?"), "{second}");

    // The first message is replaced.
    service.provider.then(text("Good day."));
    client.send(json!({"type": "message", "text": "good day", "at": 0})).await;
    client.until("done").await;
    let third = service.provider.requests()[2].body["messages"].to_string();
    assert!(third.contains("good day") && !third.contains("Hello there."), "{third}");
    client.send(json!({"type": "prompt"})).await;
    let prompt = client.until("prompt").await.pop().unwrap();
    assert_eq!(prompt["costs"][0]["server"], "a");
}

#[tokio::test]
async fn a_client_that_the_operator_pauses_waits_and_goes_on_when_it_is_resumed() {
    let service = Service::new(usual(vec![call("a__read"), text("It is 42.")])).await;
    let mut client = service.connect().await;
    assert!(service.clients.pause("cli"));
    client.send(json!({"type": "message", "text": "how warm?"})).await;
    client.until("message").await;
    let answered = tokio::time::timeout(Duration::from_millis(300), client.next()).await;
    assert!(answered.is_err(), "{answered:?}");
    assert!(service.provider.requests().is_empty());

    assert!(!service.clients.pause("cli"));
    let events = client.until("done").await;
    assert_eq!((answer_text(&events).as_str(), reason(&events)), ("It is 42.", "end"));
    let known = &service.clients.list()[0];
    assert_eq!((known.calls, known.failed), (1, 0));

    // A held turn can be aborted.
    assert!(service.clients.pause("cli"));
    client.send(json!({"type": "message", "text": "and now?"})).await;
    client.until("message").await;
    client.send(json!({"type": "abort"})).await;
    assert_eq!(reason(&client.until("done").await), "aborted");
}

#[tokio::test]
async fn a_server_that_is_slow_to_describe_its_tools_does_not_stop_the_connection() {
    let service = Service::new(usual(vec![text("Hi.")])).await;
    let server = service.world.server("a");
    server.lists(ListKind::Prompts, &[json!({"name": "tool-descriptions"})]);
    service.host.refresh(&crate::fake::name("a")).await.unwrap();
    let release = Arc::new(tokio::sync::Notify::new());
    let released = Arc::clone(&release);
    server.answers(move |_, _| {
        let released = Arc::clone(&released);
        async move {
            released.notified().await;
            Err(mcpdeck::Error::new(mcpdeck::ErrorCode::Protocol, "none"))
        }
    });
    let mut client = service.connect().await;
    client.send(json!({"type": "prompt"})).await;
    client.send(json!({"type": "ping"})).await;
    let first = tokio::time::timeout(Duration::from_secs(5), client.next()).await;
    assert_eq!(first.expect("it is answered").unwrap()["type"], "pong");
    release.notify_one();
    let prompt = client.until("prompt").await.pop().unwrap();
    assert_eq!(prompt["costs"][0]["server"], "a");
}

#[tokio::test]
async fn a_tool_is_called_in_the_middle_and_its_failure_is_reported() {
    let service = Service::new(usual(vec![
        call("a__read"),
        text("It is 42."),
        call("a__read"),
        text("It failed."),
    ]))
    .await;
    let mut client = service.connect().await;
    let events = client.ask("how warm?").await;
    assert_eq!(find(&events, "toolCall")["server"], "a");
    assert_eq!(find(&events, "toolResult")["text"], "42 degrees");
    assert_eq!(answer_text(&events), "It is 42.");
    service.world.server("a").answers(|_, _| async {
        Ok(json!({"isError": true, "content": [{"type": "text", "text": "no sensor"}]}))
    });
    let events = client.ask("and outside?").await;
    let result = find(&events, "toolResult");
    assert_eq!((&result["isError"], &result["text"]), (&json!(true), &json!("no sensor")));
    assert_eq!((answer_text(&events).as_str(), reason(&events)), ("It failed.", "end"));
}

#[tokio::test]
async fn a_client_answers_whether_a_call_may_be_made() {
    let calls = |n| (0..n).flat_map(|_| [call("a__write"), text("Well.")]);
    let service = Service::new(usual(calls(5).collect())).await;
    let _keeper =
        mcpdeck::deck::PolicyKeeper::open(&service.host, &[], &Environment::default()).await;
    let mut client = service.connect().await;
    let mut asked = 0;
    // Once, not at all, then for the session, after which nothing is asked.
    for (answer, is_made) in
        [(Some("once"), true), (Some("no"), false), (Some("session"), true), (None, true)]
    {
        client.send(json!({"type": "message", "text": "go"})).await;
        let mut events = Vec::new();
        if let Some(answer) = answer {
            events = client.until("permission").await;
            let question = events.last().unwrap().clone();
            assert_eq!(question["tool"], "a.write");
            assert_eq!(question["answers"], json!(["once", "session", "always", "no"]));
            client.send(json!({"type": "answer", "id": 999_999, "answer": answer})).await;
            assert_eq!(client.until("error").await.last().unwrap()["code"], "idle");
            client.send(json!({"type": "answer", "id": question["id"], "answer": answer})).await;
            asked += 1;
        }
        events.extend(client.until("done").await);
        let questions = events.iter().filter(|event| event["type"] == "permissionEnded").count();
        assert_eq!(questions, usize::from(answer.is_some()), "{events:?}");
        let result = find(&events, "toolResult");
        assert_eq!(result["isError"], !is_made, "{answer:?}: {result}");
    }
    assert_eq!(asked, 3);
    // Where nobody is connected, nobody can be asked.
    let mut other = service.connect().await;
    other.send(json!({"type": "message", "text": "go"})).await;
    other.until("permission").await;
    other.send(json!({"type": "abort"})).await;
    let ended = other.until("done").await;
    assert!(find(&ended, "permissionEnded")["answer"].is_null(), "{ended:?}");
}

/// Has the server ask this during each of its calls, and return the answer as text.
fn ask_during_calls(service: &Service, kind: RequestKind, params: Value) {
    let approvals = service.world.server("a").context().approvals;
    service.world.server("a").answers(move |_, pending| {
        let asked = approvals.ask(ServerRequest {
            server: crate::fake::name("a"),
            kind: kind.clone(),
            call: pending.call,
            candidates: Vec::new(),
            bytes: params.to_string().len(),
            params: Arc::new(params.clone()),
            deferred: false,
            input: None,
            withdrawn: CancellationToken::new(),
            claim: Arc::default(),
        });
        async move {
            let text = match asked.await {
                protocol::Answer::Result(result) => result.to_string(),
                protocol::Answer::Refuse { message, .. } => message,
            };
            Ok(json!({"content": [{"type": "text", "text": text}]}))
        }
    });
}

/// A form with one field of each kind that has to be right.
fn form() -> Value {
    json!({"message": "Who comes?", "requestedSchema": {"type": "object", "properties": {
        "name": {"type": "string", "minLength": 2},
        "age": {"type": "integer", "minimum": 18},
        "drink": {"type": "string", "enum": ["tea", "coffee"], "default": "tea"},
        "news": {"type": "boolean"},
    }, "required": ["name"]}})
}

#[tokio::test]
async fn what_a_server_asks_during_a_call_is_answered_over_the_connection() {
    let calls = |n| (0..n).flat_map(|_| [call("a__read"), text("Well.")]);
    let service = Service::new(usual(calls(8).collect())).await;
    let mut client = service.connect().await;
    let url = json!({"mode": "url", "message": "Pay", "url": "https://pay.example/1"});
    let sample = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Hi"}}]});
    for (kind, params, wrong, answer, result, how) in [
        (
            RequestKind::Elicitation,
            form(),
            json!({"accept": {"name": "x"}}),
            json!({"accept": {"name": "Ada", "age": 36}}),
            r#"{"action":"accept","content":{"name":"Ada","age":36}}"#,
            "accept",
        ),
        (
            RequestKind::Elicitation,
            form(),
            json!({"result": {"action": "perhaps"}}),
            json!({"decline": true}),
            r#"{"action":"decline"}"#,
            "decline",
        ),
        (
            RequestKind::UrlElicitation,
            url.clone(),
            json!({"text": "done"}),
            json!({"accept": {}}),
            r#"{"action":"accept"}"#,
            "accept",
        ),
        (
            RequestKind::UrlElicitation,
            url,
            json!({"result": {}}),
            json!({"cancel": true}),
            r#"{"action":"cancel"}"#,
            "cancel",
        ),
        (
            RequestKind::Sampling,
            sample.clone(),
            json!({"result": {"content": 1}}),
            json!({"text": "Hello"}),
            r#"{"role":"assistant","content":{"type":"text","text":"Hello"},"model":"manual","stopReason":"endTurn"}"#,
            "accept",
        ),
        (
            RequestKind::Sampling,
            sample,
            json!({"accept": {}}),
            json!({"decline": true}),
            "the user rejected the sampling request",
            "decline",
        ),
    ] {
        let method = kind.method().to_owned();
        ask_during_calls(&service, kind, params.clone());
        client.send(json!({"type": "message", "text": "go"})).await;
        let events = client.until("question").await;
        let question = events.last().unwrap();
        assert_eq!((&question["server"], &question["during"]), (&json!("a"), &json!("read")));
        assert_eq!((&question["method"], &question["params"]), (&json!(method), &params));
        // What does not fit is told, and the question stays open.
        client.send(json!({"type": "reply", "id": question["id"], "answer": wrong})).await;
        assert_eq!(client.until("error").await.last().unwrap()["code"], "invalid", "{wrong}");
        client.send(json!({"type": "reply", "id": question["id"], "answer": answer})).await;
        let events = client.until("done").await;
        assert_eq!(find(&events, "questionEnded")["answer"], how);
        assert_eq!(find(&events, "toolResult")["text"], result);
    }
    // A question that ends with its turn is void.
    client.send(json!({"type": "message", "text": "go"})).await;
    let id = client.until("question").await.last().unwrap()["id"].clone();
    client.send(json!({"type": "abort"})).await;
    assert!(find(&client.until("done").await, "questionEnded")["answer"].is_null());
    client.send(json!({"type": "reply", "id": id, "answer": {"decline": true}})).await;
    let refused = client.until("error").await.last().unwrap().clone();
    assert!(refused["message"].to_string().contains("no such question"), "{refused}");
}

#[tokio::test]
async fn a_question_is_passed_to_the_session_whose_call_it_is_and_to_no_other() {
    let answers = vec![call("a__read"), text("Well.")];
    let service = Service::new(usual(answers)).await;
    ask_during_calls(&service, RequestKind::Elicitation, form());
    let (mut own, mut other) = (service.connect().await, service.connect().await);
    own.send(json!({"type": "message", "text": "go"})).await;
    let id = own.until("question").await.last().unwrap()["id"].clone();
    let answer = json!({"accept": {"name": "Eve"}});
    other.send(json!({"type": "reply", "id": id, "answer": answer})).await;
    let heard = other.until("error").await;
    assert!(heard.iter().all(|event| event["type"] != "question"), "{heard:?}");
    own.send(json!({"type": "reply", "id": id, "answer": {"accept": {"name": "Ada"}}})).await;
    let events = own.until("done").await;
    assert!(find(&events, "toolResult")["text"].to_string().contains("Ada"), "{events:?}");
}

#[tokio::test]
async fn a_request_that_is_too_long_for_the_connection_is_answered_by_nobody() {
    let service = Service::new(usual(vec![call("a__read"), text("Well.")])).await;
    let params = json!({"message": "x".repeat(200_000), "requestedSchema": {"type": "object"}});
    ask_during_calls(&service, RequestKind::Elicitation, params);
    let events = service.connect().await.ask("go").await;
    let result = find(&events, "toolResult")["text"].to_string();
    assert!(result.contains("answered by nobody"), "{result}");
}

#[tokio::test]
async fn a_model_that_fails_is_asked_again_and_a_failed_turn_ends_no_session() {
    let broken = || Answer::Status(503, "", json!({"error": {"message": "overloaded"}}));
    let refused = Answer::Status(400, "", json!({"error": {"message": "no such model"}}));
    let service =
        Service::new(usual(vec![broken(), text("Better."), refused, text("Well.")])).await;
    let mut client = service.connect().await;
    let events = client.ask("hi").await;
    assert!(find(&events, "retrying")["message"].as_str().unwrap().contains("overloaded"));
    assert_eq!(answer_text(&events), "Better.");
    let events = client.ask("again").await;
    assert_eq!(reason(&events), "failed");
    assert_eq!(find(&events, "error")["code"], "refused");
    assert_eq!(answer_text(&client.ask("once more").await), "Well.");
}

#[tokio::test]
async fn a_turn_is_aborted_and_one_at_a_time_is_taken() {
    let service =
        Service::new(usual(vec![Answer::Stalled(vec![Piece::Text("Once upon a")]), text("Yes?")]))
            .await;
    let mut client = service.connect().await;
    client.send(json!({"type": "message", "text": "a story"})).await;
    client.until("text").await;
    client.send(json!({"type": "message", "text": "another"})).await;
    assert_eq!(client.until("error").await.last().unwrap()["code"], "busy");
    client.send(json!({"type": "abort"})).await;
    assert_eq!(reason(&client.until("done").await), "aborted");
    assert_eq!(answer_text(&client.ask("hello?").await), "Yes?");
    client.send(json!({"type": "abort"})).await;
    assert_eq!(client.until("error").await[0]["code"], "idle");
}

#[tokio::test]
async fn a_client_that_comes_back_gets_what_it_missed() {
    let service = Service::new(usual(vec![call("a__read"), text("It is 42.")])).await;
    let gate = Arc::new(tokio::sync::Notify::new());
    let open = Arc::clone(&gate);
    service.world.server("a").answers(move |_, _| {
        let open = Arc::clone(&open);
        async move {
            open.notified().await;
            Ok(json!({"content": [{"type": "text", "text": "42 degrees"}]}))
        }
    });
    let mut client = service.connect().await;
    client.send(json!({"type": "message", "text": "how warm?"})).await;
    client.until("toolCall").await;
    let (id, seen) = (client.id.clone(), client.seen);
    drop(client);
    gate.notify_one();

    let mut client = service.connect().await;
    client.resume(&id, seen).await;
    let events = client.until("done").await;
    assert_eq!(events[0]["seq"], seen + 1, "nothing is missing and nothing comes twice");
    assert_eq!(answer_text(&events), "It is 42.");
    assert_eq!(service.sessions.count(), 1, "the unused session is gone");

    let mut other = service.open().await;
    other.send(json!({"type": "auth", "token": "token-2"})).await;
    other.next().await.unwrap();
    other.send(json!({"type": "resume", "session": id, "lastSeq": 0})).await;
    assert_eq!(other.until("error").await[0]["code"], "noSession", "it is another's");
}

#[tokio::test]
async fn a_session_goes_on_after_the_program_was_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chats");
    let with_file =
        |answers| Options { store: Some(SessionFolder::open(&file).unwrap()), ..usual(answers) };
    let service = Service::new(with_file(vec![
        call("a__read"),
        text("It is 42."),
        Answer::Stalled(vec![Piece::Text("Half an")]),
    ]))
    .await;
    let mut client = service.connect().await;
    client.ask("how warm?").await;
    let (id, seen) = (client.id.clone(), client.seen);
    client.send(json!({"type": "message", "text": "and outside?"})).await;
    client.until("text").await;
    let later = client.seen;
    // The model is asked while the question is saved.
    let kept = file.join(format!("{id}.json"));
    while !std::fs::read_to_string(&kept).unwrap().contains("and outside?") {
        tokio::task::yield_now().await;
    }
    // Another process with the same file, as if the first had been killed.
    let again = Service::new(with_file(vec![text("Still 42.")])).await;
    let mut back = again.connect().await;
    back.resume(&id, later).await;
    let truncated = back.next().await.unwrap();
    assert_eq!(
        truncated["type"], "truncated",
        "what was seen of the turn that was cut off is void"
    );
    let messages = truncated["snapshot"]["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "user"]);
    assert_eq!(answer_text(&back.ask("hello?").await), "Still 42.");
    let sent = again.provider.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("42 degrees") && sent.contains("and outside?"), "{sent}");
    assert!(back.seen > seen, "numbers go on");

    let mut other = again.open().await;
    other.send(json!({"type": "auth", "token": "token-2"})).await;
    other.next().await.unwrap();
    other.send(json!({"type": "resume", "session": id, "lastSeq": 0})).await;
    assert_eq!(other.until("error").await[0]["code"], "noSession", "it is another's");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let kept = std::fs::read_dir(&file).unwrap().next().unwrap().unwrap();
        assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test]
async fn what_is_no_longer_kept_is_reported_with_a_snapshot() {
    let mut options = usual(vec![text("One two three four five six seven eight.")]);
    options.sessions.log = 600;
    let service = Service::new(options).await;
    let mut client = service.connect().await;
    client.ask("count").await;
    let id = client.id.clone();
    let mut client = service.connect().await;
    client.resume(&id, 0).await;
    let truncated = client.next().await.unwrap();
    assert_eq!(truncated["type"], "truncated");
    let messages = &truncated["snapshot"]["messages"];
    assert_eq!(
        (&messages[0]["text"], &messages[1]["role"]),
        (&json!("count"), &json!("assistant"))
    );
    let events = client.ask("go on").await;
    assert_eq!(events[0]["text"], "go on", "what the snapshot holds does not come again");
}

#[tokio::test]
async fn stale_connections_are_closed_and_turns_that_nobody_waits_for_end() {
    let mut options = usual(vec![Answer::Stalled(vec![Piece::Text("Once")])]);
    options.socket.heartbeat = Duration::from_millis(500);
    options.sessions.alone = Duration::from_secs(1);
    options.sessions.kept = Duration::from_secs(2);
    let service = Service::new(options).await;
    // Pongs are sent while reading: a client that does not read is disconnected.
    let mut stale = service.connect().await;
    stale.send(json!({"type": "message", "text": "a story"})).await;
    let begun = tokio::time::Instant::now();
    while service.sessions.count() > 0 {
        assert!(begun.elapsed() < PATIENCE, "the session is still there");
        tokio::task::yield_now().await;
    }
    while stale.next().await.is_ok() {}
}

#[tokio::test]
async fn a_tool_that_was_made_up_and_a_malformed_block_are_reported() {
    let block = text("```tool\n{\"name\": }\n```\n");
    let made_up = text("```tool\n{\"name\": \"a__reed\"}\n```\n");
    let mut options = usual(vec![made_up, block, text("Never mind.")]);
    options.fenced = true;
    let service = Service::new(options).await;
    service.world.server("a").answers(|_, _| async { panic!("nothing may be called") });
    let mut client = service.connect().await;
    let events = client.ask("go").await;
    assert_eq!(find(&events, "unknownTool")["tool"], "a__reed");
    assert!(find(&events, "toolResult")["text"].as_str().unwrap().contains("nearest are: a__read"));
    find(&events, "malformedCall");
    assert_eq!((answer_text(&events).as_str(), reason(&events)), ("Never mind.", "end"));
    assert_eq!(events.last().unwrap()["unknownTools"]["a__reed"], 1);
}

#[tokio::test]
async fn a_history_that_is_too_long_is_summarised() {
    let answers = ["Fine.", "They talked.", "Good.", "Better."].map(text);
    let mut options = usual(answers.to_vec());
    options.context = 4_000;
    let service = Service::new(options).await;
    let mut client = service.connect().await;
    client.ask(&"Listen to this. ".repeat(500)).await;
    let events = client.ask(&"And to that. ".repeat(400)).await;
    find(&events, "summarised");
    assert_eq!(answer_text(&events), "Good.");
    let last = service.provider.requests().pop().unwrap().body["messages"].to_string();
    assert!(last.contains("They talked.") && !last.contains("Listen to this."), "{last}");
    // Messages keep their numbers and the conversation its title.
    for message in
        [json!({"type": "message", "text": "no", "at": 0}), json!({"type": "branch", "at": 0})]
    {
        client.send(message).await;
        let refused = client.next().await.unwrap();
        assert!(refused["message"].as_str().unwrap().contains("summary stands"), "{refused}");
    }
    client.send(json!({"type": "message", "text": "Or this?", "at": 1})).await;
    assert_eq!(answer_text(&client.until("done").await), "Better.");
    let last = service.provider.requests().pop().unwrap().body["messages"].to_string();
    assert!(last.contains("They talked.") && last.contains("Or this?"), "{last}");
    assert!(!last.contains("And to that."), "{last}");
    client.send(json!({"type": "sessions"})).await;
    let listed = client.until("sessions").await.pop().unwrap();
    let title = listed["sessions"][0]["title"].as_str().unwrap();
    assert!(title.starts_with("Listen to this."), "{listed}");
}

#[tokio::test]
async fn a_connection_needs_a_token_and_its_messages_are_checked() {
    let mut options = usual(vec![text("Hi.")]);
    options.socket.per_minute = 6;
    let service = Service::new(options).await;
    for first in [json!({"type": "message", "text": "hi"}), json!({"type": "auth", "token": "no"})]
    {
        let mut client = service.open().await;
        client.send(first).await;
        assert!(client.next().await.unwrap_err().contains("token"));
    }
    // The token is accepted as a header, but not in the URL.
    for (path, header, works) in [
        ("/ws", Some("Bearer token-1"), true),
        ("/ws", Some("bearer token-1"), true),
        ("/ws", Some("Bearer no"), false),
        ("/ws?token=token-1", None, false),
    ] {
        let stream = TcpStream::connect(&service.address).await.unwrap();
        let url = format!("ws://{}{path}", service.address);
        let mut request = url.into_client_request().unwrap();
        if let Some(header) = header {
            request.headers_mut().insert("authorization", header.parse().unwrap());
        }
        match tokio_tungstenite::client_async(request, stream).await {
            Ok((socket, _)) => {
                let mut client = Client { socket, id: String::new(), seen: 0 };
                client.send(json!({"type": "ping"})).await;
                let first = client.next().await;
                assert_eq!(first.is_ok_and(|first| first["type"] == "connection"), works, "{path}");
            }
            Err(_) => assert!(!works),
        }
    }
    let mut client = service.connect().await;
    for wrong in [
        json!({"type": "launch"}),
        json!({"type": "message", "text": "  "}),
        json!({"type": "message", "text": "hi", "extra": 1}),
        json!([]),
    ] {
        client.send(wrong).await;
        assert_eq!(client.next().await.unwrap()["code"], "invalid");
    }
    for _ in 0..3 {
        client.send(json!({"type": "ping"})).await;
    }
    let closed = loop {
        if let Err(why) = client.next().await {
            break why;
        }
    };
    assert_eq!(closed, "too many messages in a minute");
}

#[tokio::test]
async fn a_message_that_is_too_large_closes_the_connection_with_its_code() {
    let service = Service::new(usual(vec![text("Hi.")])).await;
    for (frame, code) in [
        (Frame::Text("x".repeat(300 << 10).into()), 1009),
        (Frame::Binary(vec![1, 2].into()), 1003),
    ] {
        let mut client = service.connect().await;
        client.socket.send(frame).await.unwrap();
        let closed = loop {
            let frame = client.socket.next().await.expect("it is told").unwrap();
            if let Frame::Close(close) = frame {
                break close.expect("a reason").code;
            }
        };
        assert_eq!(u16::from(closed), code);
    }
}

#[tokio::test]
async fn a_client_that_writes_payloads_reads_payloads() {
    let service = Service::new(usual(vec![call("a__read"), text("It is 42."), text("Bye.")])).await;
    let mut client = service.open().await;
    client.send(json!({"type": "auth", "payload": {"token": "token-1"}})).await;
    let hello = client.next().await.unwrap();
    assert_eq!(
        (&hello["type"], &hello["payload"]["state"]),
        (&json!("connection"), &json!("connected"))
    );
    let id = hello["payload"]["sessionId"].as_str().expect("an id").to_owned();
    client.send(json!({"type": "message", "payload": {"text": "how warm?"}})).await;
    let mut events = Vec::new();
    let is_end = |event: &Value| {
        event["payload"]["state"] == "complete" && event["payload"].get("tool").is_none()
    };
    while !events.last().is_some_and(is_end) {
        events.push(client.next().await.unwrap());
    }
    assert!(events.iter().all(|event| event["payload"].is_object()), "{events:?}");
    let states: Vec<_> = events.iter().filter(|event| event["type"] == "status").collect();
    assert_eq!(states[0]["payload"], json!({"state": "processing"}));
    let (begun, ended) = (&states[1]["payload"], &states[2]["payload"]);
    assert_eq!((&begun["state"], &begun["tool"]), (&json!("processing"), &json!("a__read")));
    assert_eq!(begun["data"]["server"], "a");
    assert_eq!((&ended["state"], &ended["tool"]), (&json!("complete"), &json!("a__read")));
    assert_eq!(ended["data"]["text"], "42 degrees");
    assert_eq!(states.last().unwrap()["payload"]["data"]["reason"], "end");
    let content = events.iter().filter(|event| event["type"] == "text");
    let content: String = content.filter_map(|e| e["payload"]["content"].as_str()).collect();
    assert_eq!(content, "It is 42.");
    client.send(json!({"type": "message", "payload": {"txt": "?"}})).await;
    let error = client.next().await.unwrap();
    assert_eq!((&error["type"], &error["payload"]["code"]), (&json!("error"), &json!("invalid")));
    drop(client);

    // The address names the session, and a subprotocol the form.
    let stream = TcpStream::connect(&service.address).await.unwrap();
    let url = format!("ws://{}/ws?sessionId={id}", service.address);
    let mut request = url.into_client_request().unwrap();
    let headers = request.headers_mut();
    headers.insert("authorization", "Bearer token-1".parse().unwrap());
    headers.insert("sec-websocket-protocol", "other, mcpdeck.payload".parse().unwrap());
    let (socket, response) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    assert_eq!(response.headers()["sec-websocket-protocol"], "mcpdeck.payload");
    let mut client = Client { socket, id: String::new(), seen: 0 };
    let hello = client.next().await.unwrap();
    assert_eq!(
        (&hello["payload"]["sessionId"], &hello["payload"]["resumed"]),
        (&json!(id), &json!(true))
    );
    client.send(json!({"type": "message", "payload": {"text": "thanks"}})).await;
    let next = client.next().await.unwrap();
    assert_eq!((&next["type"], &next["payload"]["text"]), (&json!("message"), &json!("thanks")));
    service.revoke.cancel();
    let mut last = Value::Null;
    while let Ok(message) = client.next().await {
        last = message;
    }
    assert_eq!(last["payload"], json!({"state": "disconnected", "message": "the token has ended"}));
}

#[tokio::test]
async fn a_session_that_the_address_names_goes_on_after_what_was_delivered() {
    let service = Service::new(usual(vec![call("a__read"), text("It is 42.")])).await;
    let open = async |query: String| {
        let stream = TcpStream::connect(&service.address).await.unwrap();
        let mut request =
            format!("ws://{}/ws{query}", service.address).into_client_request().unwrap();
        request.headers_mut().insert("authorization", "Bearer token-1".parse().unwrap());
        let (socket, _) = tokio_tungstenite::client_async(request, stream).await.ok()?;
        let mut client = Client { socket, id: String::new(), seen: 0 };
        let hello = client.next().await.unwrap();
        Some((client, hello))
    };
    let mut client = service.connect().await;
    client.ask("how warm?").await;
    let (id, seen) = (client.id.clone(), client.seen);
    drop(client);
    let (mut client, hello) = open(format!("?sessionId={id}&lastSeq=0")).await.unwrap();
    assert_eq!(hello["resumed"], true);
    let again = client.until("done").await;
    assert_eq!((again[0]["seq"].as_u64(), client.seen), (Some(1), seen));
    drop(client);
    let (mut client, hello) = open(format!("?sessionId={id}")).await.unwrap();
    assert_eq!(hello["sessionId"], json!(id));
    client.send(json!({"type": "ping"})).await;
    assert_eq!(client.next().await.unwrap()["type"], "pong", "nothing comes twice");
    let (_, hello) = open("?sessionId=none".to_owned()).await.unwrap();
    assert_eq!(hello["resumed"], false);
    assert!(hello["message"].as_str().unwrap().contains("no such session"), "{hello}");
    assert!(open(format!("?sessionId={id}&lastSeq=x")).await.is_none());
}

#[tokio::test]
async fn a_token_that_ends_ends_its_connections_and_turns() {
    let service =
        Service::new(usual(vec![Answer::Stalled(vec![Piece::Text("Once upon a")])])).await;
    let mut client = service.connect().await;
    client.send(json!({"type": "message", "text": "a story"})).await;
    client.until("text").await;
    let who = Principal { profile: "token-1".into(), ..Principal::new(Origin::Cli) };
    let session = service.sessions.find(&client.id, &who).await.unwrap();
    assert!(session.is_busy());
    service.revoke.cancel();
    let closed = loop {
        if let Err(why) = client.next().await {
            break why;
        }
    };
    assert_eq!(closed, "the token has ended");
    let begun = tokio::time::Instant::now();
    while session.is_busy() {
        assert!(begun.elapsed() < PATIENCE, "the turn goes on");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn sessions_are_listed_searched_renamed_branched_and_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Some(SessionFolder::open(&folder.path().join("chats")).unwrap());
    let answers = vec![text("Snow."), text("Rain."), text("Hail.")];
    let service = Service::new(Options { store, ..usual(answers) }).await;
    let mut client = service.connect().await;
    client.ask("what falls in Oslo?").await;
    let oslo = client.id.clone();
    client.send(json!({"type": "new"})).await;
    let new = client.until("connection").await.pop().unwrap();
    let bergen = new["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(bergen, oslo);
    client.seen = 0;
    client
        .send(json!({"type": "message", "text": "and in Bergen?", "files": [
            {"name": "a.md", "text": "wet```"},
        ]}))
        .await;
    let events = client.until("done").await;
    assert_eq!(find(&events, "message")["text"], "and in Bergen?\n[a.md]");
    let sent = service.provider.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("a.md:\\n````\\nwet```\\n````"), "{sent}");
    let listed = async |client: &mut Client, query: &str| {
        client.send(json!({"type": "sessions", "query": query})).await;
        let all = client.until("sessions").await.pop().unwrap();
        let all = all["sessions"].as_array().unwrap().clone();
        all.iter().map(|one| one["title"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(listed(&mut client, "").await.len(), 2);
    assert_eq!(listed(&mut client, "SNOW").await, ["what falls in Oslo?"]);
    client.send(json!({"type": "rename", "session": oslo, "title": "North"})).await;
    client.until("sessions").await;
    assert_eq!(listed(&mut client, "north").await, ["North"]);
    // A copy without the last message.
    client.send(json!({"type": "branch", "at": 0})).await;
    let copy = client.until("truncated").await;
    assert_eq!(find(&copy, "connection")["resumed"], true);
    assert_eq!(copy.last().unwrap()["snapshot"]["messages"], json!([]));
    // Copies have names of their own.
    for _ in 0..2 {
        client.send(json!({"type": "resume", "session": oslo, "lastSeq": 0})).await;
        client.until("done").await;
        client.send(json!({"type": "branch"})).await;
        client.until("truncated").await;
    }
    let mut titles = listed(&mut client, "north").await;
    titles.sort_unstable();
    assert_eq!(titles, ["North", "North (2)", "North (3)"]);
    client.send(json!({"type": "new"})).await;
    client.until("connection").await;
    for title in ["North (2)", "North (3)"] {
        client.send(json!({"type": "sessions", "query": title})).await;
        let found = client.until("sessions").await.pop().unwrap();
        let id = found["sessions"][0]["id"].clone();
        client.send(json!({"type": "delete", "session": id})).await;
        client.until("sessions").await;
    }
    for (id, is_known) in [(&bergen, true), (&oslo, true), (&oslo, false)] {
        client.send(json!({"type": "delete", "session": id})).await;
        let told = client.until("sessions").await;
        assert_eq!(told.iter().any(|event| event["type"] == "error"), !is_known, "{told:?}");
    }
    assert_eq!(listed(&mut client, "").await, Vec::<String>::new());
    client.send(json!({"type": "resume", "session": oslo, "lastSeq": 0})).await;
    assert_eq!(client.until("error").await.last().unwrap()["code"], "noSession");
}

#[tokio::test]
async fn a_message_that_is_sent_again_takes_its_files_along() {
    let answers = vec![text("Wet."), text("Still wet."), text("Dry."), text("Blank.")];
    let service = Service::new(usual(answers)).await;
    let mut client = service.connect().await;
    client
        .send(json!({"type": "message", "text": "how is it?", "files": [
            {"name": "a.md", "text": "rain"}, {"name": "p.png", "data": "cG5n", "mimeType": "image/png"},
        ]}))
        .await;
    let events = client.until("done").await;
    let attached = json!({"written": "how is it?", "names": ["a.md", "p.png"], "pictures": 1});
    assert_eq!(find(&events, "message")["attached"], attached);
    let sent = || service.provider.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent().contains("rain"));
    // The model takes no pictures, so this one is gone, and that is told.
    let again = json!({"type": "message", "text": "how is it?", "at": 0, "keepFiles": true});
    client.send(again).await;
    let refused = client.until("error").await.pop().unwrap();
    assert_eq!(refused["code"], "noFiles", "{refused}");
    client
        .send(json!({"type": "message", "text": "how is it?", "at": 0, "files": [
            {"name": "a.md", "text": "rain"},
        ]}))
        .await;
    client.until("done").await;
    // From another page, which was only told of them.
    let mut other = service.connect().await;
    other.resume(&client.id, 0).await;
    other.until("done").await;
    other.until("done").await;
    other.send(json!({"type": "message", "text": "and now?", "at": 0, "keepFiles": true})).await;
    let events = other.until("done").await;
    let shown = find(&events, "message");
    assert_eq!((&shown["text"], &shown["at"]), (&json!("and now?\n[a.md]"), &json!(0)));
    let body = sent();
    assert!(body.contains("and now?\\n\\na.md:\\n```\\nrain\\n```"), "{body}");
    assert!(!body.contains("how is it?"), "{body}");
    // Without words, its files alone; and nothing is nothing.
    other.send(json!({"type": "message", "text": "", "at": 0, "keepFiles": true})).await;
    other.until("done").await;
    assert!(sent().contains("a.md:"), "{}", sent());
    other.send(json!({"type": "message", "text": "plain"})).await;
    other.until("done").await;
    for message in [
        json!({"type": "message", "text": "", "at": 1, "keepFiles": true}),
        json!({"type": "message", "text": "", "keepFiles": true}),
    ] {
        other.send(message).await;
        assert_eq!(other.until("error").await.pop().unwrap()["type"], "error");
    }
}

#[tokio::test]
async fn a_link_signs_in_once_and_its_cookie_until_it_ends() {
    let service = Service::new(usual(vec![text("Hi.")])).await;
    let at = |path: &str| format!("http://{}{path}", service.address);
    let http = reqwest::Client::builder().redirect(reqwest::redirect::Policy::none()).build();
    let http = http.unwrap();
    let link = format!("{LINK_PATH}{}", service.sign_ins.link("token-1".into()).unwrap());
    let first = http.get(at(&link)).send().await.unwrap();
    assert_eq!(
        (first.status().as_u16(), &first.headers()["location"]),
        (303, &"/".parse().unwrap())
    );
    let set = first.headers()["set-cookie"].to_str().unwrap().to_owned();
    for part in ["HttpOnly", "SameSite=Strict", "Path=/ws"] {
        assert!(set.contains(part), "{set}");
    }
    assert!(!set.contains("token-1"));
    assert_eq!(http.get(at(&link)).send().await.unwrap().status(), 403, "it works once");
    let cookie = set.split(';').next().unwrap().to_owned();
    let is_signed_in = async |cookie: &str| {
        let asked = http.get(at("/ws/signed-in")).header("cookie", cookie).send().await.unwrap();
        asked.text().await.unwrap().contains("true")
    };
    assert!(is_signed_in(&format!("other=1; {cookie}")).await);
    assert!(!is_signed_in("mcpdeck_chat_80=00").await);
    let stream = TcpStream::connect(&service.address).await.unwrap();
    let mut request = format!("ws://{}/ws", service.address).into_client_request().unwrap();
    request.headers_mut().insert("cookie", cookie.parse().unwrap());
    let (socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    let mut client = Client { socket, id: String::new(), seen: 0 };
    assert_eq!(client.next().await.unwrap()["type"], "connection");
    client.send(json!({"type": "signOut"})).await;
    assert_eq!(client.next().await.unwrap_err(), "signed out");
    assert!(!is_signed_in(&cookie).await);

    let by_token = async |token: &str| {
        http.post(at("/login")).bearer_auth(token).send().await.unwrap().status().as_u16()
    };
    assert_eq!((by_token("token-2").await, by_token("no").await), (204, 401));
}

/// What a model writes: each kind of Markdown, and markup that must stay text.
const WRITTEN: &str = "# Weather\n\n<img src=x onerror=\"document.title='run'\"> **bold** and \
`code` in [a page](https://example.org/a_(b)) [not](javascript:alert(1))\n\n- one\n  - inner\n- \
two\n\n3. three\n\n| a | b |\n| - | - |\n| 1 | **2** |\n\n```python\nprint(\"<b>\")\n```\nend";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_talks_shows_markdown_and_is_the_same_after_a_reload() {
    let answers = vec![call("a__read"), text(WRITTEN), text("Again."), text("Still here.")];
    let service = Service::new(usual(answers)).await;
    let link = format!("{LINK_PATH}{}", service.sign_ins.link("token-1".into()).unwrap());
    let url = format!("http://{}/", service.address);
    let Some(mut page) = Page::open(&url).await else { return };
    // The initial empty document is `complete` too, before the page is loaded.
    page.until("document.readyState === 'complete' && typeof at === 'function'").await;
    page.until("!at('enter').hidden").await;
    page.run("at('token').value = 'wrong'; at('enter').requestSubmit()").await;
    page.until("at('state').textContent.startsWith('refused')").await;
    page.run(&format!("location.href = '{link}'")).await;
    page.until("typeof at === 'function' && !at('say').hidden").await;
    assert!(!page.run("location.href + document.cookie").await.to_string().contains("code="));
    assert_eq!(page.run("document.cookie").await, "");
    let ask = |text: &str| format!("at('text').value = '{text}'; at('say').requestSubmit()");
    page.run(&ask("how warm?")).await;
    page.until("document.querySelectorAll('.status').length === 1").await;
    let shown = page.run("log.innerText").await.to_string();
    for part in ["how warm?", "✓ a__read", "<img src=x onerror", "bold", "1 call ·"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    let count = "[document.title, document.images.length, ...['h1', '.model strong', 'a', \
                 'ul ul li', 'ol[start=\"3\"]', 'table td', '.code pre'].map(s => \
                 log.querySelectorAll(s).length)].join()";
    assert_eq!(page.run(count).await, "mcpdeck chat,0,1,2,1,1,1,2,1");
    assert_eq!(page.run("log.querySelector('a').href").await, "https://example.org/a_(b)");
    assert_eq!(page.run("log.querySelector('.code code').textContent").await, "print(\"<b>\")");
    // Edited and sent again, in the same place.
    page.run("log.querySelector('.me button').click()").await;
    assert_eq!(page.run("at('text').value").await, "how warm?");
    page.run(&ask("how cold?")).await;
    page.until("log.innerText.includes('Again.') && !running").await;
    assert_eq!(
        page.run("log.querySelectorAll('.me').length + log.innerText").await.as_str().map(|text| (
            text.starts_with('1'),
            text.contains("how cold?"),
            text.contains("how warm?")
        )),
        Some((true, true, false))
    );
    // A reload: still signed in, in the same session, which is in the list.
    let before = page.run("session").await;
    page.reload().await;
    page.until("typeof at === 'function' && !at('say').hidden && log.innerText.includes('Again.')")
        .await;
    assert_eq!(page.run("session").await, before);
    page.until("at('list').innerText.includes('how cold?')").await;
    // The connection is closed; the session continues.
    page.run("socket.close()").await;
    page.until("socket.readyState === 1 && at('state').textContent.startsWith('connected')").await;
    page.run("attach([new File(['from a file'], 'a.txt')])").await;
    page.until("at('files').innerText.includes('a.txt')").await;
    page.run(&ask("and now?")).await;
    page.until("log.innerText.includes('Still here.')").await;
    let sent = service.provider.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("from a file"), "{sent}");
    assert_eq!(service.sessions.count(), 1);
    // Both appearances, and a narrow window.
    let colour = "getComputedStyle(document.body).backgroundColor";
    let first = page.run(colour).await;
    page.run("at('theme').click()").await;
    assert_ne!(page.run(colour).await, first);
    page.call(
        "Emulation.setDeviceMetricsOverride",
        json!({
            "width": 400, "height": 700, "deviceScaleFactor": 1, "mobile": false,
        }),
    )
    .await;
    page.until("innerWidth === 400").await;
    assert_eq!(page.run("document.documentElement.scrollWidth <= 400").await, true);
    // The button of a block of code, beside words of any length.
    let block =
        format!("say('- a\\n  ```{}\\n  x\\n  ```\\n'); settle(); draw()", "long-".repeat(40));
    page.run(&block).await;
    let reached = "(box => { const one = [...log.querySelectorAll('.bar button')].pop(); \
                   one.scrollIntoView(); const at = one.getBoundingClientRect(); \
                   return at.width > 20 && at.right <= 400 && document.elementFromPoint(\
                   (at.left + at.right) / 2, (at.top + at.bottom) / 2) === one })()";
    page.until(reached).await;
    assert_eq!(page.run("getComputedStyle(at('side')).display").await, "none");
    page.run("at('menu').click()").await;
    assert_eq!(page.run("getComputedStyle(at('side')).display").await, "flex");
    // It lies over the conversation.
    assert_eq!(page.run("at('side').getBoundingClientRect().height > 500").await, true);
    let there = "at('side').contains(document.elementFromPoint(200, 400))";
    assert_eq!(page.run(there).await, true);
    page.run("at('new').click()").await;
    let is_empty = "log.querySelectorAll('.me').length === 0 && \
                    log.querySelectorAll('.start').length === 1";
    page.until(&format!("{is_empty} && getComputedStyle(at('side')).display === 'none'")).await;
    page.run("at('out').click()").await;
    page.reload().await;
    page.until("typeof at === 'function' && !at('enter').hidden").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_asks_whether_a_call_may_be_made() {
    let service = Service::new(usual(vec![call("a__write"), text("Well.")])).await;
    let _keeper =
        mcpdeck::deck::PolicyKeeper::open(&service.host, &[], &Environment::default()).await;
    let Some(mut page) = Page::open(&format!("http://{}/", service.address)).await else { return };
    page.until("document.readyState === 'complete' && typeof at === 'function'").await;
    page.until("!at('enter').hidden").await;
    page.run("at('token').value = 'token-1'; at('enter').requestSubmit()").await;
    page.until("!at('say').hidden").await;
    page.run("at('text').value = 'go'; at('say').requestSubmit()").await;
    page.until("log.querySelectorAll('.ask button').length === 4").await;
    assert!(page.run("log.querySelector('.ask').innerText").await.to_string().contains("a.write"));
    // A key that was meant for a message must not consent.
    assert_eq!(page.run("document.activeElement.className").await, "ask");
    page.run("log.querySelector('.ask button').click()").await;
    page.until("log.innerText.includes('Well.') && log.innerText.includes('✓ a__write')").await;
    assert_eq!(page.run("log.querySelectorAll('.ask button').length").await, 0);
    assert_eq!(page.run("document.activeElement.id").await, "text");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_what_a_server_asks_as_a_form_and_sends_the_answer() {
    let calls = |n| (0..n).flat_map(|_| [call("a__read"), text("Well.")]);
    let service = Service::new(usual(calls(3).collect())).await;
    ask_during_calls(&service, RequestKind::Elicitation, form());
    let Some(mut page) = signed_in(&service).await else { return };
    page.run(&ask("go")).await;
    page.until("log.querySelectorAll('.ask label').length === 4").await;
    let shown = page.run("log.querySelector('.ask').innerText").await.to_string();
    assert!(
        shown.contains("Server “a” asks during read") && shown.contains("Who comes?"),
        "{shown}"
    );
    assert_eq!(page.run("log.querySelector('select').value").await, "tea");
    // What does not fit is told, and the form stays.
    page.run("log.querySelector('.ask button').click()").await;
    page.until("log.innerText.includes('does not fit the form')").await;
    page.run("[...log.querySelectorAll('.ask input')].forEach((part, n) => { if (n < 2) part.value = ['Ada', '36'][n] })").await;
    page.run("log.querySelector('.ask button').click()").await;
    page.until("log.innerText.includes('Answered') && log.innerText.includes('Well.')").await;
    let result =
        page.run("log.querySelector('details pre:last-of-type').textContent").await.to_string();
    assert!(result.contains("Ada") && result.contains("36") && result.contains("tea"), "{result}");
    assert!(page.run("log.querySelector('.ask input').disabled").await == true);
    // An address that must not be opened has no button for it.
    let url = json!({"mode": "url", "message": "Pay", "url": "https://good.example@evil.example/"});
    ask_during_calls(&service, RequestKind::UrlElicitation, url);
    page.run(&ask("go")).await;
    page.until("log.innerText.includes('not an address')").await;
    let buttons = "[...log.querySelectorAll('.ask button')].map(one => one.textContent).join()";
    assert_eq!(page.run(buttons).await, "Decline,Cancel");
    page.run("log.querySelector('.ask button').click()").await;
    page.until("log.innerText.includes('Declined')").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_page_text_runs_in_its_direction_and_formulas_stay_as_written() {
    let written = "שלום (עולם).\n\n- פרי\n\n$$\na_1 \\, b*c*\n$$\nplain \\(x_1 \\, y\\) \\[sic\\]";
    let service = Service::new(usual(vec![text(written)])).await;
    let Some(mut page) = signed_in(&service).await else { return };
    page.run(&ask("שלום")).await;
    page.until("log.innerText.includes('tokens in')").await;
    let runs = "['.me > div', '.model p', '.model ul', '.model p:last-of-type'].map(place => \
                getComputedStyle(log.querySelector(place)).direction).join()";
    assert_eq!(page.run(runs).await, "rtl,rtl,rtl,ltr");
    assert_eq!(page.run("log.querySelector('.code code').textContent").await, "a_1 \\, b*c*");
    let last = "log.querySelector('.model p:last-of-type').textContent";
    assert_eq!(page.run(last).await, "plain \\(x_1 \\, y\\) [sic]");
}

/// A page that is signed in, and shows a conversation.
async fn signed_in(service: &Service) -> Option<Page> {
    let mut page = Page::open(&format!("http://{}/", service.address)).await?;
    page.until("document.readyState === 'complete' && typeof at === 'function'").await;
    page.until("!at('enter').hidden && at('side').hidden").await;
    page.run("at('token').value = 'token-1'; at('enter').requestSubmit()").await;
    page.until("!at('say').hidden").await;
    Some(page)
}

/// Puts words into the field of the page and sends them.
fn ask(text: &str) -> String {
    format!("at('text').value = '{text}'; at('say').requestSubmit()")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_keeps_its_files_on_the_page_after_a_reload() {
    let service = Service::new(usual(vec![text("One."), text("Two."), text("Three.")])).await;
    let Some(mut page) = signed_in(&service).await else { return };
    page.run("attach([new File(['from a file'], 'a.txt')])").await;
    page.until("at('files').innerText.includes('a.txt')").await;
    page.run(&ask("look")).await;
    page.until("log.innerText.includes('One.') && !running").await;
    page.reload().await;
    let is_back = "typeof at === 'function' && !at('say').hidden && log.innerText.includes('One.')";
    page.until(is_back).await;
    let sent = || service.provider.requests().pop().unwrap().body["messages"].to_string();
    page.run("log.querySelectorAll('.me button')[1].click()").await;
    page.until("log.innerText.includes('Two.') && !running").await;
    assert!(sent().contains("look\\n\\na.txt:\\n```\\nfrom a file\\n```"), "{}", sent());
    assert_eq!(page.run("log.querySelectorAll('.me').length").await, 1);
    // Edited, with the file beside the words; and without it.
    page.run("log.querySelectorAll('.me button')[0].click()").await;
    assert_eq!(page.run("at('text').value").await, "look");
    assert_eq!(page.run("at('files').innerText").await, "a.txt ✕");
    page.run("at('files').querySelector('button').click()").await;
    page.run(&ask("look up")).await;
    page.until("log.innerText.includes('Three.') && !running").await;
    assert!(sent().contains("look up") && !sent().contains("from a file"), "{}", sent());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_goes_back_to_the_conversation_before_and_loses_no_words() {
    let answers = vec![text("One."), text("Two."), text("Three.")];
    let service = Service::new(usual(answers)).await;
    let Some(mut page) = signed_in(&service).await else { return };
    assert_eq!(page.run("log.querySelectorAll('.start').length").await, 1);
    page.run(&ask("first")).await;
    page.until("log.innerText.includes('One.') && !running").await;
    assert_eq!(page.run("log.querySelectorAll('.start').length").await, 0);
    let first = page.run("session").await;
    page.run("at('new').click()").await;
    page.until(&format!("session !== {first} && log.querySelectorAll('.start').length === 1"))
        .await;
    page.run(&ask("second")).await;
    page.until("log.innerText.includes('Two.') && at('list').children.length === 2").await;
    // The address is that of the conversation, back and forward.
    page.run("history.back()").await;
    page.until(&format!("session === {first} && log.innerText.includes('One.')")).await;
    assert_eq!(page.run("location.hash.slice(1)").await, first);
    page.run("history.forward()").await;
    page.until("log.innerText.includes('Two.') && location.hash.slice(1) === session").await;
    page.run("at('search').value = 'nothing like it'; at('search').oninput()").await;
    page.until("at('list').innerText.includes('none holds')").await;
    page.run("at('search').value = ''; at('search').oninput()").await;
    page.until("at('list').querySelectorAll('[aria-current]').length === 1").await;
    // What is written without a connection stays.
    let kept = "socket.close(); at('text').value = 'kept'; at('say').requestSubmit(); \
                at('text').value + ' ' + at('state').textContent";
    assert!(page.run(kept).await.as_str().is_some_and(|text| text.starts_with("kept no conn")));
    page.until("socket.readyState === 1 && at('state').textContent.startsWith('connected')").await;
    assert_eq!(page.run("at('text').value").await, "kept");
    // So does what is written in a conversation that is deleted elsewhere, which is told.
    let id = page.run("session").await;
    let mut other = service.connect().await;
    other.send(json!({"type": "delete", "session": id})).await;
    other.until("sessions").await;
    page.until(&format!("session !== {id} && log.innerText.includes('was deleted')")).await;
    assert_eq!(page.run("at('text').value").await, "kept");
    assert_eq!(service.provider.requests().len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_sends_several_files_and_files_alone_and_says_an_end_once() {
    const MORE: &str = "\\*plain\\* ***both*** <https://example.org/x>\n\nTitle\n===\n\n\
        - [x] done\n\n| a | b |\n| - | -: |\n| `x | y` | 1<br>2 |\n\n    indented\n\n&lt;b&gt;";
    let answers = vec![text(MORE), Answer::Longest(vec![Piece::Text("It begins")])];
    let service = Service::new(usual(answers)).await;
    let Some(mut page) = signed_in(&service).await else { return };
    let choose = "(() => { const all = new DataTransfer(); \
        all.items.add(new File(['from one'], 'one.txt')); \
        all.items.add(new File(['from two'], 'two.txt')); \
        all.items.add(new File([new Uint8Array([255])], 'odd.bin')); \
        const dot = Uint8Array.from(atob('DOT'), letter => letter.charCodeAt(0)); \
        all.items.add(new File([dot], 'dot.png', { type: 'image/png' })); \
        at('file').files = all.files; at('file').onchange(); })()";
    page.run(&choose.replace("DOT", PICTURE)).await;
    page.until("at('files').children.length === 3 && log.innerText.includes('odd.bin')").await;
    page.run("at('say').requestSubmit()").await;
    page.until("log.querySelectorAll('.status').length === 1").await;
    let sent = service.provider.requests()[0].body["messages"].to_string();
    assert!(sent.contains("from one") && sent.contains("from two"), "{sent}");
    assert!(sent.contains("[picture, image/png"), "{sent}");
    assert_eq!(page.run("mine[0].firstChild.textContent").await, "[one.txt]\n[two.txt]\n[dot.png]");
    let count = "['.model strong em', '.model h1', '.task', 'td code', 'td.right br', 'a', '.code'] \
                 .map(s => log.querySelectorAll(s).length).join()";
    assert_eq!(page.run(count).await, "1,1,1,1,1,1,1");
    let shown = page.run("log.innerText").await.to_string();
    for part in ["*plain*", "☑ done", "x | y", "<b>"] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    page.run(&ask("and now?")).await;
    page.until("log.innerText.includes('It begins') && !running").await;
    let ends = "log.innerText.split('cut off at its maximum length').length - 1";
    page.until(&format!("{ends} === 1 && log.querySelectorAll('.status').length === 2")).await;
    // Again, with the files.
    page.run("mine[0].querySelectorAll('button')[1].click()").await;
    page.until("mine.length === 1 && !running && log.querySelectorAll('.status').length === 1")
        .await;
    let sent = service.provider.requests().pop().unwrap().body["messages"].to_string();
    assert!(sent.contains("from two") && !sent.contains("and now?"), "{sent}");
    // Read aloud whole, and known for what it is.
    let roles = "[log.getAttribute('role'), log.getAttribute('aria-busy'), \
                 document.querySelectorAll('main, aside, header, h1').length >= 4].join()";
    assert_eq!(page.run(roles).await, "log,false,true");
}

/// Lets the tools of a service return a picture, and one that is no picture for people.
fn return_pictures(service: &Service) {
    service.world.server("a").answers(|_, _| async {
        Ok(json!({"content": [
            {"type": "text", "text": "a dot"},
            {"type": "image", "mimeType": "image/png", "data": PICTURE},
            {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+"},
        ]}))
    });
}

#[tokio::test]
async fn pictures_of_results_are_asked_for_also_after_a_resume_and_in_a_branch() {
    let service = Service::new(usual(vec![call("a__read"), text("Seen.")])).await;
    return_pictures(&service);
    let mut client = service.connect().await;
    let events = client.ask("look").await;
    let result = find(&events, "toolResult");
    let about = json!([{"mimeType": "image/png", "bytes": PICTURE.len() / 4 * 3}]);
    assert_eq!(result["pictures"], about);
    assert!(!result.to_string().contains(PICTURE), "the events are small");
    let (id, session) = (result["id"].clone(), client.id.clone());
    let mut other = service.connect().await;
    other.resume(&session, 0).await;
    let mut branch = service.connect().await;
    branch.resume(&session, 0).await;
    branch.until("done").await;
    branch.send(json!({"type": "branch"})).await;
    let snapshot = branch.until("truncated").await.pop().unwrap();
    assert_eq!(snapshot["snapshot"]["pictures"][id.as_str().unwrap()], about);
    for client in [&mut client, &mut other, &mut branch] {
        for (at, is_there) in [(0, true), (1, false)] {
            client.send(json!({"type": "picture", "call": id, "at": at})).await;
            let picture = client.until("picture").await.pop().unwrap();
            let data = picture.get("data").and_then(Value::as_str);
            assert_eq!(data, is_there.then_some(PICTURE), "{picture}");
            assert_eq!(picture.get("mimeType").is_some(), is_there);
        }
    }
    // Those of one session are not there for another.
    let mut stranger = service.connect().await;
    stranger.send(json!({"type": "picture", "payload": {"call": id}})).await;
    let picture = stranger.until("picture").await.pop().unwrap();
    assert_eq!(picture["payload"].get("data"), None, "{picture}");
}

#[tokio::test]
async fn pictures_are_there_after_the_program_was_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("chats");
    let with_file =
        |answers| Options { store: Some(SessionFolder::open(&file).unwrap()), ..usual(answers) };
    let service = Service::new(with_file(vec![call("a__read"), text("Seen.")])).await;
    return_pictures(&service);
    let mut client = service.connect().await;
    let events = client.ask("look").await;
    let (id, session) = (find(&events, "toolResult")["id"].clone(), client.id.clone());
    // The conversation is small; what is large is written once.
    let names = || {
        let files = std::fs::read_dir(&file).unwrap().map(|file| file.unwrap());
        files.map(|file| file.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    assert!(names().contains(&format!("{session}.pictures")), "{:?}", names());
    let again = Service::new(with_file(vec![text("Never.")])).await;
    let mut back = again.connect().await;
    back.resume(&session, 0).await;
    let truncated = back.next().await.unwrap();
    let about = &truncated["snapshot"]["pictures"][id.as_str().unwrap()];
    assert_eq!(about[0]["mimeType"], "image/png", "{truncated}");
    back.send(json!({"type": "picture", "call": id, "at": 0})).await;
    assert_eq!(back.until("picture").await.pop().unwrap()["data"], PICTURE);
    back.send(json!({"type": "delete", "session": session})).await;
    let is_gone = || names().is_empty();
    while !is_gone() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_pictures_and_what_a_conversation_has_cost() {
    let price = ModelPrice { input: 1.0, cached: None, written: None, output: 1.0 };
    let mut options = usual(vec![call("a__read"), text("Seen."), text("Never.")]);
    options.price = Some(price);
    // The first turn uses 36 tokens.
    options.sessions.turn.cost = Some(3e-5);
    let service = Service::new(options).await;
    return_pictures(&service);
    let url = format!("http://{}/", service.address);
    let Some(mut page) = Page::open(&url).await else { return };
    page.until("document.readyState === 'complete' && typeof at === 'function'").await;
    page.until("!at('enter').hidden").await;
    page.run("at('token').value = 'token-1'; at('enter').requestSubmit()").await;
    page.until("!at('say').hidden").await;
    let ask = |text: &str| format!("at('text').value = '{text}'; at('say').requestSubmit()");
    page.run(&ask("look")).await;
    let is_shown = "document.images.length === 1 && document.images[0].naturalWidth === 1";
    page.until(is_shown).await;
    page.until("log.innerText.includes('in all')").await;
    page.reload().await;
    page.until(&format!("typeof at === 'function' && !running && {is_shown}")).await;
    // The next turn begins at the most that the conversation may cost.
    page.run(&ask("and now?")).await;
    page.until("log.innerText.includes('as much as it may')").await;
    assert_eq!(page.run("log.innerText.includes('Never.')").await, false);
    assert_eq!(service.provider.requests().len(), 2);
}

#[tokio::test]
async fn a_conversation_over_the_socket_stops_at_the_most_it_may_cost() {
    let price = ModelPrice { input: 1.0, cached: None, written: None, output: 1.0 };
    let mut options = usual(vec![text("One."), text("Two.")]);
    (options.price, options.sessions.turn.cost) = (Some(price), Some(1e-5));
    let service = Service::new(options).await;
    let mut client = service.connect().await;
    assert_eq!(reason(&client.ask("one").await), "end");
    let second = client.ask("two").await;
    assert_eq!((reason(&second), find(&second, "done")["rounds"].as_u64()), ("budget", Some(0)));
    assert!(answer_text(&second).contains("as much as it may"), "{second:?}");
    assert_eq!(service.provider.requests().len(), 1);
}
