//! Answers with very many values, over a pipe or HTTP, up to the screen: the beginning is parsed to
//! values, next to the whole text.

use std::sync::Arc;

use futures::future::BoxFuture;
use mcpdeck::config::{HttpConfig, McpConfig, ServerConfig, TransportConfig};
use mcpdeck::error::ErrorCode;
use mcpdeck::host::{Connector, OpenError, OpenRequest, Opened};
use mcpdeck::mcp::{Attempt, connect};
use mcpdeck::protocol::{FindingKind, Payload};
use mcpdeck::tui::action::Action;
use mcpdeck::tui::form::draw::Styles;
use mcpdeck::tui::pane::Out;
use mcpdeck::tui::result::ResultView;
use mcpdeck::{Host, Startup};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;

use crate::wire::peer::{call, echo, pipe, rig, start};
use crate::wire::web::{Asked, Reply, Web};
use crate::wire::world::in_memory;

/// More than `limits.nodes` allows in a tree.
const ITEMS: usize = 300_000;

/// The answer to one request, as text.
fn reply(request: &Value) -> Option<String> {
    let result = match request["method"].as_str()? {
        "initialize" => json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "large", "version": "1"}}),
        "tools/list" => json!({"tools": [{"name": "get", "inputSchema": {"type": "object"},
            "outputSchema": {"type": "object", "required": ["items"],
                "properties": {"items": {"items": {"required": ["id"]}}}}}]}),
        "tools/call" => {
            let items: Vec<Value> = (0..ITEMS).map(|id| json!({"id": id})).collect();
            json!({"content": [], "structuredContent": {"items": items}})
        }
        // The probe for the other era is an unknown method here.
        _ => {
            let id = request.get("id")?;
            let error = json!({"code": -32601, "message": "unknown"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string())
}

/// A server on an in-memory pipe.
#[derive(Clone)]
struct Piped;

impl Connector for Piped {
    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Opened, OpenError>> {
        Box::pin(async move {
            let (endpoint, mut peer) = pipe(64 << 10);
            tokio::spawn(async move {
                let mut line = String::new();
                while peer.reader.read_line(&mut line).await.is_ok_and(|read| read > 0) {
                    let request = serde_json::from_str(&line).unwrap();
                    line.clear();
                    if let Some(line) = reply(&request) {
                        peer.line(line).await;
                    }
                }
            });
            let connected = connect(endpoint, &Attempt::Legacy(None), request.context).await;
            Ok(Opened { session: connected.unwrap().session, process: None })
        })
    }
}

fn config(transport: TransportConfig) -> McpConfig {
    let mut server = ServerConfig::new("large".into(), transport);
    server.wire.line_bytes = 32 << 20;
    assert!(server.wire.nodes < 2 * ITEMS);
    let mut config = McpConfig::default();
    config.servers.insert("large".into(), server);
    config
}

async fn over_a_pipe() -> Payload {
    let builder = Host::builder().config(config(in_memory())).connector(Piped);
    answer(builder.startup(Startup::All).initialize().await.unwrap()).await
}

/// As one JSON body, or as an event of a stream.
async fn over_http(streams: bool) -> Payload {
    let web = Web::serve(move |asked: Asked| match reply(&asked.message) {
        Some(text) if streams => Reply::events(&[&text]),
        Some(text) => Reply::json(&text),
        None if asked.verb == "GET" => Reply::raw("405 Method Not Allowed", &[], ""),
        None => Reply::raw("202 Accepted", &[], ""),
    })
    .await;
    let http = HttpConfig::new(web.url.parse().unwrap());
    let builder = Host::builder().config(config(TransportConfig::Http(http)));
    answer(builder.startup(Startup::All).initialize().await.unwrap()).await
}

async fn answer(host: Host) -> Payload {
    let outcome = host.call_tool("large.get", json!({})).await.unwrap();
    let judged: Vec<_> = outcome.output_violations.iter().map(|v| v.keyword.as_str()).collect();
    assert_eq!(judged, ["unknown"], "{:?}", outcome.output_violations);
    host.shutdown().await;
    outcome.result
}

/// Views a result as a user would.
fn looked_at(result: &Payload) {
    let area = Rect::new(0, 0, 80, 24);
    let (look, mut buf) = (Styles::default(), Buffer::empty(area));
    let mut view = ResultView::new(result.clone(), Vec::new());
    for command in [
        Action::Right,
        Action::Bottom,
        Action::PageUp,
        Action::NextTab,
        Action::Copy,
        Action::CopyPath,
        Action::CopyAll,
        Action::Save,
    ] {
        view.prepare(area, &look);
        view.apply(command, &mut Out::default());
        view.render(&look, area, &mut buf);
    }
    let mut out = Out::default();
    view.search("29999", &mut out);
    assert!(out.notice.is_none(), "it is found");
    view.search("299999", &mut out);
    assert!(out.notice.is_some(), "only the beginning is shown");
}

#[tokio::test]
async fn of_an_answer_of_many_values_the_beginning_is_a_value_and_the_text_is_whole() {
    for (how, result) in [
        ("a pipe", over_a_pipe().await),
        ("HTTP, one body", over_http(false).await),
        ("HTTP, a stream", over_http(true).await),
    ] {
        looked_at(&result);
        let cut = result.cut().expect(how);
        let shown = result["structuredContent"]["items"].as_array().unwrap();
        assert_eq!((cut.most.as_str(), cut.of), ("/structuredContent/items", ITEMS), "{how}");
        assert!(shown.len() == cut.taken && cut.taken > 10_000, "{how}: {cut:?}");
        assert_eq!(shown[10_000], json!({"id": 10_000}));
        let last = format!("{{\"id\":{}}}]}}}}", ITEMS - 1);
        assert!(serde_json::to_string(&result).unwrap().ends_with(&last), "{how}");
        let whole = result.into_value();
        assert_eq!(whole["structuredContent"]["items"][ITEMS - 1], json!({"id": ITEMS - 1}));
    }
}

fn wide(key: &str) -> String {
    format!(r#"{{"{key}":[{}{{}}]}}"#, "[0],".repeat(ITEMS))
}

#[tokio::test(start_paused = true)]
async fn lists_in_lists_are_read_as_far_as_the_depth_allows_and_what_they_take_is_bounded() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    for depth in [3, 20, 57, 83, 110] {
        let one = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let many = vec![one.as_str(); (3 << 20) / (one.len() + 1)].join(",");
        let result = format!("{{\"content\":[],\"structuredContent\":{{\"x\":[{many}]}}}}");
        let pending = start(&connected, echo("a"), call(1).context);
        let id = peer.expect("tools/call").await["id"].clone();
        peer.line(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await;
        let payload = pending.await.unwrap().unwrap_or_else(|error| panic!("{depth}: {error}"));
        let lists = payload["structuredContent"]["x"].as_array().unwrap().len();
        assert!(lists > 500, "{depth}: {lists}");
    }
    assert_eq!(rig.kinds().await, []);
    // A tree is refused because of its memory, before the limit on values is reached.
    let asking = connected.session.list(mcpdeck::protocol::ListKind::Tools);
    let answering = async {
        let id = peer.expect("tools/list").await["id"].clone();
        let tools = vec![r#"{"":{"":{}}}"#; 160_000].join(",");
        let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{tools}]}}}}"#);
        peer.line(line).await;
    };
    let (list, ()) = tokio::join!(asking, answering);
    let error = list.expect_err("too large");
    assert!(error.message.contains("more than 96 MiB in memory"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_must_become_a_tree_is_refused_beyond_the_limit() {
    let mut rig = rig();
    let (connected, mut peer) = rig.legacy().await;
    let asking = connected.session.list(mcpdeck::protocol::ListKind::Tools);
    let answering = async {
        let request = peer.expect("tools/list").await;
        let id = &request["id"];
        peer.line(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, wide("tools"))).await;
    };
    let (list, ()) = tokio::join!(asking, answering);
    let error = list.expect_err("too many");
    assert!(error.message.contains("more than 500000 JSON values"), "{error}");
    assert!(rig.kinds().await.contains(&FindingKind::TooLarge));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_too_much_input_is_refused_although_its_answer_may_be_long() {
    let rig = Arc::new(rig());
    let (connected, mut peer) = rig.modern().await;
    for (result, refused) in [
        (wide("requestState").replacen('{', r#"{"resultType":"input_required","#, 1), true),
        (wide("content").replacen('{', r#"{"resultType":"complete","#, 1), false),
    ] {
        let pending = start(&connected, echo("a"), call(1).context);
        let request = peer.expect("tools/call").await;
        let id = &request["id"];
        peer.line(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)).await;
        match pending.await.unwrap() {
            Err(error) if refused => {
                assert_eq!(error.code, ErrorCode::Protocol);
                assert!(error.message.contains("more than 500000"), "{error}");
            }
            Ok(result) if !refused => assert!(result.cut().is_some()),
            other => panic!("{refused}: {other:?}"),
        }
    }
}
