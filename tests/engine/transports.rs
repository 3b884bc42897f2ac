//! The same calls return the same results over every transport, and the same error when the server
//! is killed during a call. With `MCPDECK_REAL_SERVERS`, also for those of a published server.

mod balanced;
mod bridge;

use std::path::PathBuf;
use std::time::Duration;

use mcpdeck::Host;
use mcpdeck::error::ErrorCode;
use mcpdeck::host::Startup;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use balanced::{Asked, Balanced, Ways};

fn program(words: &[&str]) -> bridge::Program {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn demo(name: &str) -> bridge::Program {
    program(&[env!("CARGO_BIN_EXE_mcpdeck"), "demo-server", name])
}

fn child(program: &[String]) -> Value {
    json!({"command": program[0], "args": program[1..]})
}

async fn host(entry: Value) -> Host {
    let config = json!({"servers": {"one": entry}});
    let host = Host::builder().config_text(config.to_string()).startup(Startup::All);
    host.initialize().await.unwrap()
}

/// A server's lists and its answers to `calls`, without parts that differ between runs.
async fn answers(entry: Value, calls: &[(&str, Value)]) -> Vec<String> {
    let host = host(entry).await;
    let offers = host.get_tools();
    let names = offers.iter().flat_map(|(_, all)| {
        let tools = all.tools.iter().map(|tool| tool.raw.to_string());
        let prompts = all.prompts.iter().map(|prompt| prompt.raw.to_string());
        tools.chain(prompts).chain(all.resources.iter().map(|one| one.raw.to_string()))
    });
    let mut out: Vec<String> = names.collect();
    assert!(!out.is_empty());
    for (tool, arguments) in calls {
        out.push(match host.call_tool(&format!("one.{tool}"), arguments.clone()).await {
            Ok(outcome) => outcome.text(),
            Err(error) => format!("{}: {}", error.code, error.message),
        });
    }
    host.shutdown().await;
    out
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_calls_over_pipes_events_and_sockets_give_equal_results() {
    let atlas = demo("atlas");
    let calls = [
        ("find_airport", json!({"query": "Oslo"})),
        ("find_airport", json!({"query": 7})),
        ("weather", json!({"code": "OSL", "hour": 7})),
        ("consult_manual", json!({"topic": "icing"})),
        ("play_chime", json!({})),
        ("no_such_tool", json!({})),
    ];
    let (sse, socket) = (bridge::sse(atlas.clone()).await, bridge::websocket(atlas.clone()).await);
    let pipes = answers(child(&atlas), &calls).await;
    let events = json!({"type": "sse", "url": format!("http://127.0.0.1:{}/sse", sse)});
    assert_eq!(answers(events, &calls).await, pipes);
    let frames = json!({"type": "websocket", "url": format!("ws://127.0.0.1:{}/", socket)});
    assert_eq!(answers(frames, &calls).await, pipes);
    // A URL of the older transport, but without its type.
    let fallen = json!({"type": "http", "url": format!("http://127.0.0.1:{}/sse", sse)});
    assert_eq!(answers(fallen, &calls).await, pipes);
}

const PLAIN: Ways = Ways { stream: None, message: None, endpoint: "/messages" };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_and_its_messages_keep_to_the_backend_of_the_session_through_every_redirect() {
    let statuses = ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"];
    let mut all = vec![PLAIN];
    for status in statuses {
        let stream = Some((status, "/sse/"));
        all.push(Ways { stream, ..PLAIN });
        all.push(Ways { message: Some((status, "/messages/")), ..PLAIN });
        // Relative to the address where the stream is in the end.
        all.push(Ways { stream, message: Some((status, "/sse/messages/")), endpoint: "messages" });
    }
    for ways in all {
        let server = Balanced::serve(ways).await;
        for kind in ["sse", "http"] {
            let before = server.seen().len();
            let host = host(json!({"type": kind, "url": server.url()})).await;
            for words in ["one", "two"] {
                let outcome = host.call_tool("one.t", json!({"words": words})).await;
                let outcome = outcome.unwrap_or_else(|error| panic!("{ways:?}, {kind}: {error}"));
                assert_eq!(outcome.text(), words, "{ways:?}, {kind}");
            }
            host.shutdown().await;
            let seen = server.seen().split_off(before);
            let to_session = |asked: &&Asked| asked.verb == "POST" && asked.path.contains("?s=");
            for asked in seen.iter().filter(to_session) {
                let cookie = asked.cookie.as_deref().unwrap_or_default();
                assert!(cookie.contains("route=b"), "{ways:?}, {kind}: {asked:?}");
                assert!(asked.body.starts_with('{'), "{ways:?}, {kind}: {asked:?}");
            }
            let first = seen.iter().find(|asked| asked.verb == "GET").unwrap();
            assert_eq!(first.cookie, None, "{ways:?}, {kind}: of the session before");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_of_a_stream_or_its_messages_that_leads_elsewhere_is_refused_by_name() {
    let other = Balanced::serve(PLAIN).await;
    let elsewhere: &'static str = format!("http://127.0.0.1:{}/sse", other.port).leak();
    for (stream, message, why) in [
        (Some(("307 Temporary Redirect", elsewhere)), None, elsewhere),
        (Some(("307 Temporary Redirect", "/login")), None, "/login"),
        (Some(("302 Found", "/elsewhere")), None, "/elsewhere"),
        (None, Some(("307 Temporary Redirect", elsewhere)), elsewhere),
        (None, Some(("307 Temporary Redirect", "/elsewhere")), "/elsewhere"),
        (None, Some(("303 See Other", "/messages/")), "/messages/"),
        (Some(("307 Temporary Redirect", "/sse//")), None, "/sse//"),
    ] {
        let ways = Ways { stream, message, ..PLAIN };
        let server = Balanced::serve(ways).await;
        let config = json!({"servers": {"one": {"type": "sse", "url": server.url()}}});
        let host = Host::builder().config_text(config.to_string()).startup(Startup::Available);
        let host = host.initialize().await.unwrap();
        let error = host.call_tool("one.t", json!({})).await.expect_err("it leads elsewhere");
        let view = host.snapshot();
        let said = format!("{error} {:?}", view.servers["one"].reason);
        assert!(said.contains(why) && said.contains("`url`"), "{ways:?}: {said}");
        host.shutdown().await;
    }
    assert_eq!(other.seen().len(), 0, "it would have been given the headers of another");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_in_the_middle_fails_the_call_alike() {
    let deadly = program(&["sh", "-c", DEADLY]);
    let (sse, socket) =
        (bridge::sse(deadly.clone()).await, bridge::websocket(deadly.clone()).await);
    let script = r#"{"tools": [{"name": "t", "inputSchema": {"type": "object"}}],
        "calls": {"t": {"exit": 9}}}"#;
    let mock = [env!("CARGO_BIN_EXE_mcpdeck"), "mock", "--listen", "0", "--script", script];
    let (_mock, http) = serving(&mock).await;
    for mut entry in [
        child(&deadly),
        json!({"type": "http", "url": format!("http://127.0.0.1:{http}/mcp")}),
        json!({"type": "sse", "url": format!("http://127.0.0.1:{sse}/sse")}),
        json!({"type": "websocket", "url": format!("ws://127.0.0.1:{socket}/")}),
    ] {
        entry["protocol"] = json!("legacy");
        let host = host(entry.clone()).await;
        let calling =
            tokio::time::timeout(Duration::from_secs(20), host.call_tool("one.t", json!({})));
        let error = calling.await.expect("no hang").unwrap_err();
        assert_eq!(error.code, ErrorCode::ServerUnavailable, "{entry}: {error}");
        let whose = error.server.as_ref().map(ToString::to_string);
        assert_eq!(
            (whose.as_deref(), error.help.is_some()),
            (Some("one"), true),
            "{entry}: {error}"
        );
        host.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_cannot_be_posted_fails_at_once_and_the_next_one_works() {
    let port = bridge::sse(demo("atlas")).await;
    let url = format!("http://127.0.0.1:{port}/sse");
    let host = host(json!({"type": "sse", "url": url, "retry": {"maxRetries": 0}})).await;
    let lost = host.call_tool("one.find_airport", json!({"query": bridge::UNDELIVERABLE}));
    let lost = tokio::time::timeout(Duration::from_secs(20), lost).await;
    let error = lost.expect("no hang").unwrap_err();
    assert!(error.message.contains("not delivered") && error.message.contains("503"), "{error}");
    host.call_tool("one.find_airport", json!({"query": "Oslo"})).await.unwrap();
    host.shutdown().await;
}

/// Waits until the server has seen that the host closed a connection.
async fn closed(closed: &tokio::sync::Notify) {
    let closed = tokio::time::timeout(Duration::from_secs(15), closed.notified());
    closed.await.expect("the host closes its connections");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_acknowledge_or_read_holds_up_neither_calls_nor_the_end() {
    let port = bridge::sse(demo("atlas")).await;
    let url = format!("http://127.0.0.1:{port}/slow");
    let host = host(json!({"type": "sse", "url": url, "startupTimeout": 15})).await;
    host.call_tool("one.find_airport", json!({"query": "Oslo"})).await.unwrap();
    host.shutdown().await;
    closed(&bridge::POST_CLOSED).await;

    let port = bridge::websocket(demo("atlas")).await;
    let url = format!("ws://127.0.0.1:{port}/");
    let entry = json!({"type": "websocket", "url": url, "timeout": 4,
        "retry": {"maxRetries": 0}, "onTimeout": "breaker"});
    let host = self::host(entry).await;
    for query in [bridge::UNREAD.to_owned(), "x".repeat(8 << 20)] {
        let error = host.call_tool("one.find_airport", json!({"query": query})).await.unwrap_err();
        assert_eq!(error.code, ErrorCode::Timeout, "{error}");
    }
    host.shutdown().await;
    closed(&bridge::SOCKET_CLOSED).await;
}

/// Completes the handshake, and kills itself on a call.
const DEADLY: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"m","version":"1"}}}\n' "$id" ;;
    *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}}\n' "$id" ;;
    *'"tools/call"'*) kill -9 $$ ;;
  esac
done
"#;

/// `server-everything`, when it is installed.
fn everything() -> Option<PathBuf> {
    let root = PathBuf::from(std::env::var_os("MCPDECK_REAL_SERVERS")?);
    let entry = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
    Some(root.join(entry)).filter(|path| path.is_file())
}

/// Starts a server on loopback; returns the port that it prints.
async fn serving(words: &[&str]) -> (tokio::process::Child, u16) {
    let mut command = tokio::process::Command::new(words[0]);
    command.args(&words[1..]).kill_on_drop(true).stderr(std::process::Stdio::null());
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        // `LISTENING PORT`, or an address.
        let port = line.rsplit([' ', ':', '/']).find_map(|word| word.parse().ok());
        if let Some(port) = port {
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return (child, port);
        }
    }
    panic!("it does not listen");
}

/// `server-everything` over one of its transports.
async fn everything_at(path: &std::path::Path, mode: &str) -> (tokio::process::Child, u16) {
    let loopback = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/servers/loopback.cjs");
    serving(&["node", "--require", loopback, &path.display().to_string(), mode]).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_server_answers_seven_calls_alike_on_all_its_transports() {
    let Some(path) = everything() else { return };
    let calls = [
        ("echo", json!({"message": "hé\n\u{1f600}"})),
        ("get-sum", json!({"a": 2, "b": 40.5})),
        ("get-tiny-image", json!({})),
        ("get-structured-content", json!({"location": "New York"})),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": false})),
        ("get-resource-links", json!({"count": 3})),
        ("get-sum", json!({"a": "x"})),
    ];
    let stdio = program(&["node", &path.display().to_string(), "stdio"]);
    let pipes = answers(child(&stdio), &calls).await;
    let (_sse, port) = everything_at(&path, "sse").await;
    let url = format!("http://127.0.0.1:{port}/sse");
    assert_eq!(answers(json!({"type": "sse", "url": url}), &calls).await, pipes);
    let (_http, port) = everything_at(&path, "streamableHttp").await;
    let url = format!("http://127.0.0.1:{port}/mcp");
    assert_eq!(answers(json!({"type": "http", "url": url}), &calls).await, pipes);
    let socket = bridge::websocket(stdio).await;
    let url = format!("ws://127.0.0.1:{socket}/");
    assert_eq!(answers(json!({"type": "websocket", "url": url}), &calls).await, pipes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_of_the_python_sdk_answers_over_events() {
    let Some(root) = std::env::var_os("MCPDECK_REAL_SERVERS").map(PathBuf::from) else { return };
    let python = root.join("venv/bin/python").display().to_string();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/real-servers/sse.py");
    let (_server, port) = serving(&[&python, script]).await;
    let url = format!("http://127.0.0.1:{port}/sse");
    let calls = [("add", json!({"a": 2, "b": 40})), ("add", json!({"a": "x", "b": 1}))];
    for kind in ["sse", "http"] {
        let said = answers(json!({"type": kind, "url": url}), &calls).await;
        let [.., sum, refused] = said.as_slice() else { panic!("{said:?}") };
        assert!(sum == "42" && refused.starts_with("Validation"), "{kind}: {said:?}");
    }
}
