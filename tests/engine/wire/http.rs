//! Sessions over Streamable HTTP against a scripted server on loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::wire::peer::{Rig, call, echo, http, rig, rig_with, start, text};
use crate::wire::web::{Asked, Reply, Web, initialized, legacy};
use mcpdeck::base::secret::Secret;
use mcpdeck::config::HttpConfig;
use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::mcp::{Attempt, ConnectError, Connected, Endpoint, connect};
use mcpdeck::protocol::{CallId, Era, FindingKind, SessionEvent};
use serde_json::{Value, json};

async fn open(rig: &Rig, web: &Web, attempt: Attempt) -> Result<Connected, ConnectError> {
    let connecting = connect(http(&web.url), &attempt, rig.context.clone());
    tokio::time::timeout(Duration::from_secs(10), connecting).await.expect("it does not hang")
}

/// A call to a legacy server that answers calls with `answer`.
async fn one_call(
    answer: impl Fn(&Value) -> Reply + Send + Sync + 'static,
) -> (Result<Value, Error>, Rig) {
    let rig = rig_with(|limits| limits.line_bytes = 1 << 20, None);
    let web = Web::serve(move |request| match request.method() {
        "tools/call" => answer(&request.message),
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let calling = connected.session.request(echo("a"), call(1).context);
    let result = tokio::time::timeout(Duration::from_secs(10), calling).await.expect("no hang");
    (result.map(|value| (*value).clone()), rig)
}

fn answer(request: &Value, result: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": request["id"], "result": result}).to_string()
}

#[tokio::test]
async fn results_arrive_as_sent_whether_as_json_or_as_an_event() {
    let odd = json!({"z": 1, "content": [{"type": "text", "text": "x", "x-vendor": [null]}], "tools": []});
    let expected = odd.clone();
    for stream in [false, true] {
        let odd = odd.clone();
        let (result, mut rig) = one_call(move |request| {
            let body = answer(request, &odd);
            if stream { Reply::events(&[&body]) } else { Reply::json(&body) }
        })
        .await;
        assert_eq!(result.unwrap().to_string(), expected.to_string());
        assert_eq!(rig.kinds().await, []);
    }
}

#[tokio::test]
async fn events_may_end_their_lines_as_the_standard_allows_and_begin_with_a_mark() {
    for (mark, end) in [("", "\r"), ("\u{feff}", "\n"), ("", "\r\n"), ("\u{feff}", "\r")] {
        let (result, mut rig) = one_call(move |request| {
            let event = answer(request, &text("x"));
            let body = format!("{mark}data: {event}{end}event: message{end}{end}");
            Reply::raw("200 OK", &[("content-type", "text/event-stream")], &body)
        })
        .await;
        assert_eq!(result.unwrap(), text("x"), "{end:?}");
        assert_eq!(rig.kinds().await, []);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_resumed_behind_its_last_event() {
    let rig = rig();
    let web = Web::serve(|request| match (request.verb.as_str(), request.method()) {
        ("GET", _) if request.header("last-event-id") == Some("e7") => {
            let body = json!({"jsonrpc": "2.0", "id": 1, "result": text("resumed")});
            Reply::events(&[&body.to_string()])
        }
        (_, "tools/call") => Reply::raw(
            "200 OK",
            &[("content-type", "text/event-stream")],
            "id: e7\nretry: 20\ndata: \n\n",
        ),
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let result = connected.session.request(echo("a"), call(1).context).await;
    assert_eq!(*result.unwrap(), text("resumed"));
}

#[tokio::test]
async fn a_call_given_up_is_taken_back_before_the_session_ends() {
    let rig = rig();
    let web = Web::serve(|request| match request.method() {
        "tools/call" => Reply::Park,
        // Slow to acknowledge the first.
        "notifications/cancelled" => Reply::Slow(Duration::from_millis(300), "{}".to_owned()),
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let mut asked = Vec::new();
    for n in 1..=2 {
        let one = call(n);
        let pending = start(&connected, echo(&n.to_string()), one.context);
        let this = json!({"text": n.to_string()});
        let is_this = |r: &Asked| r.message["params"]["arguments"] == this;
        asked.push(web.wait_for(is_this).await.message["id"].clone());
        one.cancel.cancel();
        pending.await.unwrap().unwrap_err();
    }
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "leaving")).await;
    // A CLI command would exit here, so notifications must have been sent by now.
    let seen = web.seen();
    let end = seen.iter().position(|r| r.verb == "DELETE").expect("the session is ended");
    let before = seen[..end].iter().filter(|r| r.method() == "notifications/cancelled");
    let cancelled: Vec<_> = before.map(|r| r.message["params"]["requestId"].clone()).collect();
    assert_eq!(cancelled, asked);
}

#[tokio::test]
async fn a_notification_that_is_never_acknowledged_holds_up_no_other() {
    let rig = rig();
    let web = Web::serve(|request| match request.method() {
        "tools/call" | "notifications/cancelled" => Reply::Park,
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    for n in 1..=3 {
        let one = call(n);
        let pending = start(&connected, echo(&n.to_string()), one.context);
        let this = json!({"text": n.to_string()});
        let asked = web.wait_for(|r| r.message["params"]["arguments"] == this).await;
        one.cancel.cancel();
        pending.await.unwrap().unwrap_err();
        let id = &asked.message["id"];
        web.wait_for(|r| r.message["params"]["requestId"] == *id).await;
    }
}

#[tokio::test]
async fn a_server_that_refuses_connections_is_reported_to_be_gone() {
    let mut rig = rig();
    let web = Web::serve(|request| match request.verb.as_str() {
        "GET" => Reply::raw("405 Method Not Allowed", &[], ""),
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let url: url::Url = web.url.parse().unwrap();
    drop(web);
    // Its task ends soon, and its port with it.
    let at = (url.host_str().unwrap().to_owned(), url.port().unwrap());
    while tokio::net::TcpStream::connect(&at).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let error = connected.session.request(echo("a"), call(1).context).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
    assert!(error.message.contains("cannot connect"), "{error}");
    let learned = async {
        loop {
            if let Some(SessionEvent::Closed(why)) = rig.events.recv().await {
                return why;
            }
        }
    };
    let why = tokio::time::timeout(Duration::from_secs(10), learned).await.expect("it is known");
    assert!(why.contains("cannot connect"), "{why}");
}

#[tokio::test]
async fn headers_session_and_the_standalone_stream_are_as_they_should_be() {
    let rig = rig();
    let web = Web::serve(|request| match request.method() {
        "tools/call" => Reply::json(&answer(&request.message, &text("x"))),
        _ => legacy(&request),
    })
    .await;
    let mut config = HttpConfig::new(web.url.parse().unwrap());
    config.headers.insert("Authorization".into(), Secret::new("Bearer tok-12345"));
    let attempt = Attempt::Legacy(None);
    let connected =
        connect(Endpoint::Http(config.into()), &attempt, rig.context.clone()).await.unwrap();
    assert!(web.seen().iter().any(|r| r.verb == "GET"), "the stream is open before the first call");
    connected.session.request(echo("a"), call(1).context).await.unwrap();
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "stopping")).await;
    let seen = web.seen();
    assert!(seen.iter().all(|r| r.header("authorization") == Some("Bearer tok-12345")));
    let called = seen.iter().find(|r| r.method() == "tools/call").unwrap();
    assert_eq!(called.header("mcp-session-id"), Some("s1"));
    assert_eq!(called.header("mcp-protocol-version"), Some("2025-11-25"));
    assert!(seen.iter().any(|r| r.verb == "DELETE"), "the session is ended");
    let (received, sent) = rig.context.bytes.totals();
    assert!(received > 100 && sent > 100);
}

#[tokio::test]
async fn what_comes_on_the_stream_of_a_call_belongs_to_it_in_order() {
    let script = |request: mcpdeck::protocol::ServerRequest| {
        use futures::FutureExt;
        async move { mcpdeck::protocol::Answer::Result(json!({"got": request.params["vendor"]})) }
            .boxed()
    };
    let mut rig = rig_with(|_| {}, Some(Box::new(script)));
    let web = Web::serve(|request| match request.method() {
        "tools/call" if request.message["params"]["arguments"]["text"] == "slow" => Reply::Park,
        "tools/call" => {
            let token = &request.message["params"]["_meta"]["progressToken"];
            let progress = |n: u32| json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": token, "progress": n}}).to_string();
            let ask = json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {"vendor": [1]}}).to_string();
            Reply::events(&[&progress(1), &ask, &progress(2), &answer(&request.message, &text("x"))])
        }
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let _slow = start(&connected, echo("slow"), call(1).context);
    let mut two = call(2);
    connected.session.request(echo("b"), two.context).await.unwrap();
    let mut steps = Vec::new();
    while let Ok(step) = two.progress.try_recv() {
        steps.push(step.progress as u32);
    }
    assert_eq!(steps, [1, 2]);
    let asked = rig.asked.recv().await.unwrap();
    assert_eq!(asked.params["vendor"], json!([1]));
    assert!(matches!(asked.call, Some(CallId(2)) | None), "never the other call: {:?}", asked.call);
    let answered = web.wait_for(|r| r.message["id"] == "q").await;
    assert_eq!(answered.message["result"], json!({"got": [1]}));
}

type Answer = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

#[tokio::test]
async fn broken_answers_fail_their_call_at_once_and_say_why() {
    let id = |request: &Value| request["id"].to_string();
    let cases: Vec<(Answer, &str)> = vec![
        (Box::new(|_| Reply::json("{\"jsonrpc\":")), "cannot be read"),
        (Box::new(|_| Reply::json("nonsense")), "holds no answer"),
        (Box::new(|_| Reply::events(&["{\"jsonrpc\":\"2.0\",\"result\":NaN}"])), "not valid JSON"),
        (
            Box::new(move |r| {
                Reply::events(&[&format!("{{\"jsonrpc\":\"2.0\",\"id\":{}}}", id(r))])
            }),
            "neither a result nor",
        ),
        (Box::new(|r| Reply::json(&answer(r, &text(&"x".repeat(2 << 20))))), "the limit is"),
        (Box::new(|r| Reply::events(&[&answer(r, &text(&"x".repeat(2 << 20)))])), "the limit"),
        (
            Box::new(|_| Reply::raw("200 OK", &[("content-type", "text/html")], "<h1>hello</h1>")),
            "text/html",
        ),
        (Box::new(|_| Reply::raw("500 Oops", &[], "stack trace")), "HTTP 500"),
        (
            Box::new(|_| Reply::raw("429 Slow", &[("retry-after", "99999999")], "")),
            "retry after 99999999",
        ),
        (Box::new(|_| Reply::events(&[])), "closed before its final response"),
    ];
    for (reply, says) in cases {
        let (result, _) = one_call(reply).await;
        let error = result.unwrap_err();
        assert!(error.message.contains(says), "{says}: {error}");
        assert!(matches!(error.code, ErrorCode::Protocol | ErrorCode::ServerUnavailable));
    }
}

#[tokio::test]
async fn a_body_in_another_encoding_is_named() {
    const JSON: (&str, &str) = ("content-type", "application/json");
    const GZIP: (&str, &str) = ("content-encoding", "gzip");
    const EVENTS: (&str, &str) = ("content-type", "text/event-stream");
    for (headers, body, said) in [
        (&[EVENTS, GZIP][..], "x", "closed before its final response"),
        (&[JSON, ("content-encoding", "br")], "x", "content-encoding: br"),
        (&[EVENTS, ("content-encoding", "zstd")], "x", "content-encoding: zstd"),
        (&[JSON], "{\0\"\0", "UTF-16"),
    ] {
        let (result, _rig) = one_call(move |_| Reply::raw("200 OK", headers, body)).await;
        let error = result.expect_err("it cannot be read");
        assert_eq!(error.code, ErrorCode::ServerUnavailable);
        assert!(error.message.contains(said), "{error}");
    }
}

#[tokio::test]
async fn an_answer_is_read_whatever_status_it_comes_with_and_wherever_its_event_ends() {
    const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
    const EVENTS: &[(&str, &str)] = &[("content-type", "text/event-stream")];
    type Body = fn(&str) -> String;
    type Headers = &'static [(&'static str, &'static str)];
    let pretty: Body = |body| {
        let value: Value = serde_json::from_str(body).unwrap();
        serde_json::to_string_pretty(&value).unwrap()
    };
    let forms: [(&str, Headers, Body); 7] = [
        ("202 Accepted", JSON, str::to_owned),
        ("202 Accepted", EVENTS, |body| format!("data: {body}\n\n")),
        ("201 Created", JSON, str::to_owned),
        ("200 OK", EVENTS, |body| format!("data: {body}\n")),
        ("200 OK", EVENTS, |body| format!("id: 1\ndata: {body}")),
        ("200 OK", EVENTS, str::to_owned),
        ("200 OK", EVENTS, pretty),
    ];
    for (index, (status, headers, form)) in forms.into_iter().enumerate() {
        let (result, mut rig) = one_call(move |request| {
            Reply::raw(status, headers, &form(&answer(request, &text("x"))))
        })
        .await;
        assert_eq!(result.unwrap(), text("x"), "{index}");
        let noted = if matches!(index, 1 | 2) { &[][..] } else { &[FindingKind::Tolerated] };
        assert_eq!(rig.kinds().await, noted, "{index}");
    }
}

#[tokio::test]
async fn a_status_without_an_answer_fails_its_call_at_once_where_no_stream_can_bring_one() {
    for status in ["202 Accepted", "204 No Content", "205 Reset Content"] {
        let rig = rig();
        let web = Web::serve(move |request| match (request.verb.as_str(), request.method()) {
            ("GET", _) => Reply::raw("405 Method Not Allowed", &[], ""),
            (_, "tools/call") => Reply::raw(status, &[], ""),
            _ => legacy(&request),
        })
        .await;
        let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
        let calling = connected.session.request(echo("a"), call(1).context);
        let result = tokio::time::timeout(Duration::from_secs(10), calling).await.expect("no hang");
        let error = result.expect_err("there is none");
        assert!(error.message.contains(&format!("HTTP {}", &status[..3])), "{error}");
    }
}

#[tokio::test]
async fn what_may_arrive_twice_is_sent_again_when_the_connection_ends_without_an_answer() {
    let rig = rig();
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let web = Web::serve(move |request| match request.method() {
        "initialize" if count.fetch_add(1, Ordering::Relaxed) == 0 => Reply::Bytes(Vec::new()),
        "tools/call" => {
            count.fetch_add(1, Ordering::Relaxed);
            Reply::Bytes(Vec::new())
        }
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 2);
    let error = connected.session.request(echo("a"), call(1).context).await.unwrap_err();
    assert!(error.message.contains("connection closed"), "{error}");
    assert_eq!(seen.load(Ordering::Relaxed), 3, "a call is sent once");
}

/// An answer in another coding.
fn coded(kind: &str, coding: &str, body: &[u8]) -> Reply {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: {kind}\r\n\
         content-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n"
    );
    Reply::Bytes([head.as_bytes(), body].concat())
}

fn gzip(text: &str) -> Vec<u8> {
    use std::io::Write as _;
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_compressed_answer_that_was_not_asked_for_is_read_and_noted() {
    for stream in [false, true] {
        let (result, mut rig) = one_call(move |request| {
            let body = answer(request, &text("x"));
            if stream {
                coded("text/event-stream", "gzip", &gzip(&format!("data: {body}\n\n")))
            } else {
                coded("application/json", "GZIP", &gzip(&body))
            }
        })
        .await;
        assert_eq!(result.unwrap(), text("x"));
        assert_eq!(rig.kinds().await, [FindingKind::Tolerated]);
    }
    // A bomb is no more than an answer over the limit.
    let (result, _rig) = one_call(|request| {
        let body = answer(request, &text(&"x".repeat(64 << 20)));
        coded("application/json", "gzip", &gzip(&body))
    })
    .await;
    let error = result.unwrap_err();
    assert!(error.message.contains("the limit is"), "{error}");
}

#[tokio::test]
async fn whatever_answers_a_notification_the_session_goes_on() {
    const TEXT: &[(&str, &str)] = &[("content-type", "text/plain; charset=utf-8")];
    const HTML: &[(&str, &str)] = &[("content-type", "text/html")];
    const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
    const GZIP: &[(&str, &str)] = &[("content-type", "text/plain"), ("content-encoding", "gzip")];
    let noted = [FindingKind::Tolerated];
    let open_stream = Reply::Bytes(
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n: nothing\n\n".to_vec(),
    );
    for (reply, kinds) in [
        (Reply::raw("200 OK", TEXT, "No response"), &noted[..]),
        (Reply::raw("202 Accepted", TEXT, "Accepted"), &noted),
        (Reply::raw("200 OK", HTML, "<h1>fine</h1>"), &noted),
        (Reply::raw("200 OK", JSON, "{\"status\":"), &noted),
        // It was unpacked on the way.
        (Reply::raw("200 OK", GZIP, "no gzip"), &noted),
        (Reply::raw("200 OK", JSON, "{}"), &[]),
        (Reply::raw("200 OK", &[], ""), &[]),
        (Reply::raw("204 No Content", &[], ""), &[]),
        (Reply::events(&[]), &[]),
        (open_stream, &[]),
        (Reply::raw("400 Bad Request", TEXT, "what is that"), &noted),
        (Reply::raw("404 Not Found", &[], ""), &noted),
        (Reply::raw("500 Oops", &[], ""), &noted),
    ] {
        let mut rig = rig();
        let shown = format!("{reply:?}");
        let web = Web::serve(move |request| match request.method() {
            "notifications/initialized" => reply.clone(),
            "tools/call" => Reply::json(&answer(&request.message, &text("x"))),
            _ => legacy(&request),
        })
        .await;
        let connected = open(&rig, &web, Attempt::Legacy(None)).await.expect(&shown);
        let called = connected.session.request(echo("a"), call(1).context).await;
        assert_eq!(*called.expect(&shown), text("x"));
        assert_eq!(rig.kinds().await, kinds, "{shown}");
        let first = &web.seen()[0];
        assert_eq!(first.header("accept-encoding"), Some("identity"));
    }
}

#[tokio::test]
async fn a_message_is_read_whatever_its_content_type_is_and_a_page_is_not() {
    for kind in ["text/plain", "text/json", "application/vnd.api+json", "text/html", ""] {
        let mut rig = rig();
        let web = Web::serve(move |request| match request.method() {
            "tools/call" => {
                let body = answer(&request.message, &text("x"));
                Reply::raw("200 OK", &[("content-type", kind)], &body)
            }
            _ => legacy(&request),
        })
        .await;
        let connected = open(&rig, &web, Attempt::Legacy(None)).await.expect(kind);
        let called = connected.session.request(echo("a"), call(1).context).await;
        assert_eq!(*called.expect(kind), text("x"), "{kind}");
        assert_eq!(rig.kinds().await, [FindingKind::Tolerated], "{kind}");
    }
    for body in ["<h1>fine</h1>", "fine", r#"{"status": "fine"}"#, ""] {
        let page = move |_: &Value| Reply::raw("200 OK", &[("content-type", "text/html")], body);
        let (result, _) = one_call(page).await;
        let error = result.expect_err(body);
        assert!(error.message.contains("answered with text/html, not JSON"), "{error}");
    }
}

#[tokio::test]
async fn an_error_that_says_nothing_is_told_to_say_nothing() {
    let (result, _) = one_call(|request| {
        let error = json!({"code": -1, "message": " "});
        Reply::json(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string())
    })
    .await;
    let said = result.unwrap_err().message.clone();
    assert_eq!(said, "the server answered with error -1, and does not say why");
}

#[tokio::test]
async fn an_error_status_with_a_json_rpc_error_gives_that_error() {
    let (result, _) = one_call(|request| {
        let error = json!({"code": -32001, "message": "not today", "data": {"k": 1}});
        let body = json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string();
        Reply::raw("400 Bad Request", &[("content-type", "application/json")], &body)
    })
    .await;
    let rpc = result.unwrap_err().rpc.clone().unwrap();
    assert_eq!((rpc.code, rpc.data), (Some(-32001), Some(json!({"k": 1}))));
}

#[tokio::test]
async fn a_refused_probe_is_followed_by_initialize() {
    for (status, kind, body) in [
        ("400 Bad Request", "text/plain", "Bad Request: no session"),
        (
            "400 Bad Request",
            "application/json",
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}"#,
        ),
        (
            "400 Bad Request",
            "application/json",
            r#"{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"no"}}"#,
        ),
        ("404 Not Found", "application/json", r#"{"detail":"no"}"#),
        ("400 Bad Request", "application/json", r#"{"jsonrpc":"2.0","error":{"#),
    ] {
        let mut rig = rig();
        let web = Web::serve(move |request| match request.method() {
            "server/discover" => Reply::raw(status, &[("content-type", kind)], body),
            _ => legacy(&request),
        })
        .await;
        let connected = open(&rig, &web, Attempt::Auto).await.unwrap();
        assert_eq!(connected.view.era, Era::Legacy);
        assert_eq!(
            rig.kinds().await,
            [],
            "a server of the older era may say no as it likes: {body}"
        );
    }
}

#[tokio::test]
async fn an_error_without_an_id_is_the_answer_to_the_request_it_refuses_and_to_no_other() {
    let mut rig = rig();
    // As the specification words it (2025-11-25, Streamable HTTP): the error has no id.
    let no = |id: &str| {
        format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":-32000,\"message\":\"no\"}}}}")
    };
    let web = Web::serve(move |request| {
        let refused = |id| {
            let kind = [("content-type", "application/json")];
            Reply::raw("400 Bad Request", &kind, &no(id))
        };
        match (request.method(), request.message["params"]["arguments"]["text"].as_str()) {
            ("tools/call", Some("slow")) => {
                Reply::Slow(Duration::from_millis(300), answer(&request.message, &text("late")))
            }
            ("tools/call", Some("park")) => Reply::Park,
            ("tools/call", Some("null")) | ("notifications/cancelled", _) => {
                refused("\"id\":null,")
            }
            ("tools/call", Some("none")) => refused(""),
            ("tools/call", _) => refused("\"id\":\"server-error\","),
            _ => legacy(&request),
        }
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let slow = start(&connected, echo("slow"), call(1).context);
    for (n, which) in ["null", "none", "other"].into_iter().enumerate() {
        let result = connected.session.request(echo(which), call(n as u64 + 2).context).await;
        let error = result.expect_err(which);
        assert_eq!(error.rpc.as_ref().and_then(|rpc| rpc.code), Some(-32000), "{which}: {error}");
    }
    // A rejected notification must not fail any request.
    let other = call(9);
    let given_up = start(&connected, echo("park"), other.context);
    web.wait_for(|r| r.message["params"]["arguments"]["text"] == "park").await;
    other.cancel.cancel();
    given_up.await.unwrap().unwrap_err();
    web.wait_for(|r| r.method() == "notifications/cancelled").await;
    assert_eq!(*slow.await.unwrap().unwrap(), text("late"));
    assert_eq!(rig.kinds().await, [FindingKind::Tolerated]);
}

#[tokio::test]
async fn a_modern_server_gets_the_standard_headers() {
    let rig = rig();
    let lists = AtomicUsize::new(0);
    let web = Web::serve(move |request| match request.method() {
        "server/discover" => Reply::json(&answer(&request.message, &json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
            "ttlMs": 0, "cacheScope": "private"}))),
        "tools/list" if lists.fetch_add(1, Ordering::Relaxed) > 0 => {
            Reply::json(&answer(&request.message, &json!({"tools": []})))
        }
        "tools/list" => Reply::json(&answer(&request.message, &json!({"resultType": "complete", "x": 1,
            "tools": [{"name": "bad"}, {"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "x-mcp-header": "Text"}}}}]}))),
        _ => Reply::json(&answer(&request.message, &text("x"))),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Modern).await.unwrap();
    let list = connected.session.list(mcpdeck::protocol::ListKind::Tools).await.unwrap();
    assert_eq!(list.entries.len(), 2, "the wire hides no tool");
    connected.session.request(echo("hi"), call(1).context).await.unwrap();
    let called = web.wait_for(|r| r.method() == "tools/call").await;
    assert_eq!(called.header("mcp-method"), Some("tools/call"));
    assert_eq!(called.header("mcp-name"), Some("echo"));
    assert_eq!(called.header("mcp-param-text"), Some("hi"));
    assert_eq!(called.header("mcp-protocol-version"), Some("2026-07-28"));
    // Data about tools is dropped with them, so that it cannot grow without bound.
    connected.session.list(mcpdeck::protocol::ListKind::Tools).await.unwrap();
    connected.session.request(echo("again"), call(2).context).await.unwrap();
    let called = web.wait_for(|r| r.message["params"]["arguments"]["text"] == "again").await;
    assert_eq!(called.header("mcp-param-text"), None);
}

#[tokio::test]
async fn a_server_that_refuses_a_version_it_supports_is_asked_for_it_once_more() {
    for (refusals, connects) in [(1, true), (2, false)] {
        let refused = AtomicUsize::new(0);
        let web = Web::serve(move |request| match request.method() {
            "server/discover" if refused.fetch_add(1, Ordering::Relaxed) < refusals => {
                let error = json!({"code": -32022, "message": "Unsupported protocol version",
                    "data": {"supported": ["2026-07-28"], "requested": "2026-07-28"}});
                let body = json!({"jsonrpc": "2.0", "id": request.message["id"], "error": error});
                let kind = [("content-type", "application/json")];
                Reply::raw("400 Bad Request", &kind, &body.to_string())
            }
            "server/discover" => Reply::json(&answer(
                &request.message,
                &json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {},
                "ttlMs": 0, "cacheScope": "private"}),
            )),
            _ => Reply::json(&answer(&request.message, &json!({}))),
        })
        .await;
        let connected = open(&rig(), &web, Attempt::Auto).await;
        assert_eq!(connected.is_ok(), connects, "{refusals} refusals");
        assert!(!web.seen().iter().any(|r| r.method() == "initialize"), "it is a modern server");
    }
}

#[tokio::test]
async fn connecting_says_what_is_wrong() {
    let cases: [(Reply, &str, bool); 5] = [
        (Reply::raw("401 Unauthorized", &[("www-authenticate", "Bearer")], ""), "HTTP 401", true),
        (Reply::raw("401 Unauthorized", &[], ""), "HTTP 401", true),
        (
            Reply::raw("405 Method Not Allowed", &[], ""),
            "the server speaks HTTP+SSE of 2024-11-05",
            false,
        ),
        (
            Reply::raw("302 Found", &[("location", "http://127.0.0.1:9/x")], ""),
            "redirect to another origin",
            false,
        ),
        (Reply::raw("200 OK", &[("content-type", "text/html")], "<html>"), "text/html", false),
    ];
    for (reply, says, unauthorized) in cases {
        for attempt in [Attempt::Legacy(None), Attempt::Auto] {
            let rig = rig();
            let reply = reply.clone();
            let web = Web::serve(move |_| reply.clone()).await;
            let error = open(&rig, &web, attempt).await.unwrap_err();
            assert!(error.error.message.contains(says), "{says}: {}", error.error);
            assert_eq!(error.unauthorized, unauthorized, "{}", error.error);
        }
    }
    let rig = rig();
    let nobody = http("http://127.0.0.1:9/mcp");
    let error = connect(nobody, &Attempt::Auto, rig.context.clone()).await.unwrap_err();
    assert!(error.error.message.contains("cannot connect"), "{}", error.error);
}

#[tokio::test]
async fn what_an_entry_sends_does_not_follow_a_redirect_to_another_path() {
    for (location, has_headers, refused) in [
        ("/mcp/", true, None),
        ("/mcp/?trace=1", true, None),
        ("/x/../mcp/", true, None),
        ("/other", false, None),
        ("/other", true, Some("a redirect to another path, /other")),
        ("/mcp/other", true, Some("a redirect to another path, /mcp/other")),
        ("/", true, Some("a redirect to another path, /")),
        ("/mcp%2f", true, Some("a redirect to another path, /mcp%2f")),
        ("//127.0.0.1:9/mcp", false, Some("a redirect to another origin, http://127.0.0.1:9")),
    ] {
        let web = Web::serve(move |request| match request.path.as_str() {
            "/mcp" => Reply::raw("307 Temporary Redirect", &[("location", location)], ""),
            _ => legacy(&request),
        })
        .await;
        let mut config = HttpConfig::new(web.url.parse().unwrap());
        if has_headers {
            config.headers.insert("x-key".into(), Secret::new("a-secret-key"));
        }
        let rig = rig();
        let connecting =
            connect(Endpoint::Http(config.into()), &Attempt::Legacy(None), rig.context.clone());
        let connected = connecting.await;
        let elsewhere = web.seen().into_iter().filter(|asked| asked.path != "/mcp").count();
        match refused {
            None => assert!(connected.is_ok(), "{location}: {:?}", connected.err()),
            Some(said) => {
                let error = connected.unwrap_err().error.to_string();
                assert!(error.contains(said), "{location}: {error}");
                assert_eq!(elsewhere, 0, "{location}");
            }
        }
    }
}

#[tokio::test]
async fn a_redirect_that_only_adds_a_slash_is_followed_with_the_message_and_named() {
    for (status, is_permanent) in [
        ("301 Moved Permanently", true),
        ("302 Found", false),
        ("307 Temporary Redirect", false),
        ("308 Permanent Redirect", true),
    ] {
        let mut rig = rig();
        let web = Web::serve(move |request| match (request.path.as_str(), request.method()) {
            ("/mcp", _) => Reply::raw(status, &[("location", "/mcp/")], ""),
            (_, "tools/call") => Reply::json(&answer(&request.message, &text("x"))),
            _ => legacy(&request),
        })
        .await;
        let mut config = HttpConfig::new(web.url.parse().unwrap());
        config.headers.insert("x-key".into(), Secret::new("a-secret-key"));
        let endpoint = Endpoint::Http(config.into());
        let connected = connect(endpoint, &Attempt::Legacy(None), rig.context.clone()).await;
        let connected = connected.unwrap_or_else(|error| panic!("{status}: {}", error.error));
        let called = connected.session.request(echo("a"), call(1).context).await;
        assert_eq!(*called.expect(status), text("x"));
        let first = web.seen().iter().filter(|asked| asked.path == "/mcp").count();
        assert_eq!(first == 1, is_permanent, "{status}: {first}");
        let seen = web.seen();
        let arrived = seen.iter().filter(|asked| asked.path == "/mcp/");
        assert!(arrived.clone().all(|asked| asked.header("x-key") == Some("a-secret-key")));
        assert!(arrived.clone().any(|asked| asked.message["method"] == "tools/call"), "{status}");
        connected.session.close(Error::new(ErrorCode::ServerUnavailable, "stopping")).await;
        let said = rig.findings().await;
        assert_eq!(said.len(), 1, "{status}: {said:?}");
        let named = format!("(HTTP {}): write {}/ as its `url`", &status[..3], web.url);
        assert!(said[0].message.as_str().contains(&named), "{status}: {said:?}");
    }
    // What goes back and forth ends.
    let rig = rig();
    let web = Web::serve(|request| {
        let other = if request.path == "/mcp" { "/mcp/" } else { "/mcp" };
        Reply::raw("301 Moved Permanently", &[("location", other)], "")
    })
    .await;
    let error = open(&rig, &web, Attempt::Legacy(None)).await.unwrap_err();
    assert!(error.error.message.contains("too many redirects"), "{}", error.error);
    assert!(web.seen().len() < 10, "{}", web.seen().len());
}

#[tokio::test]
async fn a_balancer_finds_the_server_of_a_session_by_the_cookie_it_has_set() {
    let rig = rig();
    let web = Web::serve(|request| {
        let reply = match request.method() {
            // Another server than the one that holds the session knows nothing of it.
            method
                if method != "initialize" && !request.header("cookie").is_some_and(is_routed) =>
            {
                return Reply::raw("404 Not Found", &[], "");
            }
            "tools/call" => Reply::json(&answer(&request.message, &text("x"))),
            _ => legacy(&request),
        };
        match (request.method(), reply) {
            ("initialize", Reply::Bytes(bytes)) => {
                let head = "HTTP/1.1 200 OK\r\nset-cookie: route=b; Path=/\r\n\
                            set-cookie: other=1; Path=/elsewhere\r\n";
                let rest = String::from_utf8(bytes).unwrap();
                Reply::Bytes(rest.replacen("HTTP/1.1 200 OK\r\n", head, 1).into_bytes())
            }
            (_, reply) => reply,
        }
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    for _ in 0..2 {
        let called = connected.session.request(echo("a"), call(1).context).await;
        assert_eq!(*called.unwrap(), text("x"));
    }
    connected.session.close(Error::new(ErrorCode::ServerUnavailable, "stopping")).await;
    let seen = web.seen();
    assert_eq!(seen[0].header("cookie"), None);
    assert!(seen[1..].iter().all(|asked| asked.header("cookie") == Some("route=b")), "{seen:?}");
    assert!(seen.iter().any(|asked| asked.verb == "DELETE"));
    // A session of its own has none of it.
    let _second = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let is_start = |asked: &&Asked| asked.method() == "initialize";
    let second = web.seen().iter().filter(is_start).nth(1).cloned().unwrap();
    assert_eq!(second.header("cookie"), None);
}

fn is_routed(line: &str) -> bool {
    line == "route=b"
}

#[tokio::test]
async fn an_expired_session_is_renewed_without_the_caller_noticing_and_its_owner_hears_of_it() {
    const FORGOTTEN: &str = r#"{"jsonrpc":"2.0","id":null,
        "error":{"code":-32000,"message":"Bad Request: No valid session ID provided"}}"#;
    for (status, kind, body) in [
        ("404 Not Found", "text/plain", "gone"),
        ("400 Bad Request", "application/json", FORGOTTEN),
        ("400 Bad Request", "text/plain", "Invalid or missing session ID"),
    ] {
        let mut rig = rig();
        let calls = AtomicUsize::new(0);
        let web = Web::serve(move |request| match request.method() {
            "tools/call" if calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 => {
                Reply::raw(status, &[("content-type", kind)], body)
            }
            "tools/call" => Reply::json(&answer(&request.message, &text("again"))),
            _ => legacy(&request),
        })
        .await;
        let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
        let result = connected.session.request(echo("a"), call(1).context).await.unwrap();
        assert_eq!(*result, text("again"));
        let renewed = web.seen().iter().filter(|r| r.method() == "initialize").count();
        assert_eq!((renewed, initialized(&web)), (2, 2));
        let heard = async {
            while rig.events.recv().await.expect("the session lives") != SessionEvent::Renewed {}
        };
        tokio::time::timeout(Duration::from_secs(10), heard).await.expect("it is known");
    }
}

/// A megabyte of unsolicited events: mostly comments, which are cheapest to read, with some junk
/// and notifications.
fn megabyte() -> String {
    let params = json!({"level": "debug", "data": "x".repeat(1_000)});
    let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params});
    let comment = format!(": {}\n\n", "c".repeat(8_000));
    format!("data: {log}\n\ndata: no message\n\n{}", comment.repeat((1 << 20) / comment.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_events_is_read_at_a_limited_rate_reported_once_and_holds_up_no_answer() {
    let mut rig = rig();
    let web = Web::serve(|request| match (request.verb.as_str(), request.method()) {
        ("GET", _) => Reply::Flood(megabyte(), 2_000),
        (_, "tools/call") => Reply::json(&answer(&request.message, &text("in between"))),
        _ => legacy(&request),
    })
    .await;
    let began = std::time::Instant::now();
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    // 16 MB are unlimited, the rest 40 MB per second: the last arrive after more than two seconds.
    let (mut calls, mut read) = (0, 0);
    while read < 115 << 20 {
        let result = connected.session.request(echo("a"), call(calls).context).await;
        assert_eq!(*result.unwrap(), text("in between"));
        calls += 1;
        read = rig.context.bytes.totals().0;
    }
    let took = began.elapsed();
    assert!(took > Duration::from_millis(2_200), "115 MB in {took:?}");
    assert!(calls > 10, "{calls} calls while the flood was read");
    // A flood is one that was held back for a second. On a busy machine the server may need longer for
    // that: what it sends more slowly than it is read is none.
    let mut floods = 0;
    while floods == 0 && read < 1_900 << 20 {
        connected.session.request(echo("a"), call(calls).context).await.unwrap();
        calls += 1;
        read = rig.context.bytes.totals().0;
        let found = rig.findings().await;
        floods += found.iter().filter(|finding| finding.kind == FindingKind::Flood).count();
    }
    assert!(floods == 1 || read >= 1_900 << 20, "{floods} in {read} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_every_stream_at_once_is_not_asked_without_end() {
    let rig = rig();
    let number = AtomicUsize::new(0);
    let web = Web::serve(move |request| match (request.verb.as_str(), request.method()) {
        ("GET", _) => {
            let id = number.fetch_add(1, Ordering::Relaxed);
            Reply::events(&[&format!("x\nretry: 0\nid: {id}")])
        }
        (_, "tools/call") => Reply::json(&answer(&request.message, &text("x"))),
        _ => legacy(&request),
    })
    .await;
    let began = std::time::Instant::now();
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let asked = || web.seen().iter().filter(|request| request.verb == "GET").count();
    // Each brings nothing, so each pause is twice as long as the one before.
    web.wait_until(|_| asked() >= 7).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_millis(20 + 40 + 80 + 160 + 320 + 640), "{took:?}");
    connected.session.request(echo("a"), call(1).context).await.unwrap();
}

#[tokio::test]
async fn a_modern_stream_of_changes_that_breaks_off_is_opened_again() {
    let mut rig = rig();
    let web = Web::serve(|request| match request.method() {
        "server/discover" => Reply::json(&answer(
            &request.message,
            &json!({
            "resultType": "complete", "supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {"listChanged": true}}, "ttlMs": 0, "cacheScope": "private"}),
        )),
        // As a proxy that ends what is idle.
        "subscriptions/listen" => Reply::events(&[]),
        _ => Reply::json(&answer(&request.message, &text("x"))),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Modern).await.unwrap();
    let listens =
        |web: &Web| web.seen().iter().filter(|r| r.method() == "subscriptions/listen").count();
    web.wait_until(|web| listens(web) >= 2).await;
    // What changed in between is not known.
    let changed = SessionEvent::ListChanged(mcpdeck::protocol::ListKind::Tools);
    while rig.events.recv().await.expect("the session lives") != changed {}
    connected.session.request(echo("a"), call(1).context).await.unwrap();
}

#[tokio::test]
async fn forty_slow_calls_run_at_once() {
    let rig = rig();
    let web = Web::serve(|request| match request.method() {
        "tools/call" => {
            Reply::Slow(Duration::from_millis(300), answer(&request.message, &text("x")))
        }
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    let pending: Vec<_> = (0..40).map(|n| start(&connected, echo("a"), call(n).context)).collect();
    web.wait_until(|web| web.seen().iter().filter(|r| r.method() == "tools/call").count() == 40)
        .await;
    for answer in pending {
        answer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_server_that_delays_what_follows_its_heads_is_given_a_connection_for_each_message() {
    let rig = rig();
    let web = Web::serve(|request| match request.method() {
        "tools/call" => {
            Reply::Delayed(Duration::from_millis(40), answer(&request.message, &text("x")))
        }
        _ => legacy(&request),
    })
    .await;
    let connected = open(&rig, &web, Attempt::Legacy(None)).await.unwrap();
    for number in 1..6 {
        connected.session.request(echo("a"), call(number).context).await.unwrap();
    }
    let seen = web.seen();
    let closes = |asked: &Asked| asked.header("connection") == Some("close");
    assert!(!closes(&seen[0]) && seen.last().is_some_and(closes));
}
