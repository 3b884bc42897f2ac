//! Numbers that a double or 64 bits cannot hold go through as they were written, both ways, by every
//! door: over REST, in a session, without one, in a batch, over a pipe.

use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Service, initialize, program};

/// What a client sends and what the server answers.
const SENT: &str =
    r#"{"n":1.50e3,"i":[123456789012345678901234567890,{"d":0.1234567890123456789}]}"#;
/// What the scripted server itself cannot read: it is sent all the same.
const BEYOND: &str = r#"{"n":1e400}"#;
const ANSWERED: &str = r#"{"big":[98765432109876543210987654321],"odd/~":-1.234567890123456789e-7,"one":1.5,"same":[1e3,-1E-400]}"#;

/// A server that answers with such numbers.
fn configured(folder: &Path) {
    let result = json!({"content": [], "structuredContent": {"$raw": ANSWERED}, "x": [2.5]});
    let script = json!({
        "tools": [{"name": "count", "inputSchema": {"type": "object"}}],
        "calls": {"count": {"answer": result}},
    });
    std::fs::write(folder.join("numbers.json"), script.to_string()).unwrap();
    let entry = json!({
        "command": env!("CARGO_BIN_EXE_mcpdeck"), "args": ["mock", folder.join("numbers.json")],
    });
    let config = json!({"servers": {"numbers": entry}});
    std::fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
}

/// How often the recorded server was sent exactly these arguments.
fn calls_sent(recording: &Path, arguments: &str) -> usize {
    let text = std::fs::read_to_string(recording).unwrap_or_default();
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let bodies = lines.filter_map(|line| Some(line["body"].as_str()?.to_owned()));
    bodies.filter(|body| body.contains(&format!(r#""arguments":{arguments}"#))).count()
}

fn until_sent(recording: &Path, arguments: &str, times: usize) {
    let sent = || (calls_sent(recording, arguments) == times).then_some(());
    crate::support::wait_for("the call as it was written", Duration::from_secs(30), sent);
}

fn call(arguments: &str, more: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"numbers__count","arguments":{arguments}{more}}}}}"#
    )
}

#[test]
fn numbers_go_through_over_http_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    configured(folder.path());
    let recording = folder.path().join("calls.jsonl");
    let record = ["--record", recording.to_str().unwrap()];
    let service = Service::launch(folder.path(), "127.0.0.1:0", &record);
    let auth = service.auth();
    let base = [
        ("Authorization", auth.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
    ];
    let answered = format!(r#""structuredContent":{ANSWERED}"#);

    let body = format!(r#"{{"arguments": {SENT}}}"#);
    let rest = service.send("POST", "/tools/numbers__count/call", &base, &body);
    assert!(rest.status == 200 && rest.body.contains(&answered), "{rest:?}");
    until_sent(&recording, SENT, 1);

    let session = service.session(&service.token);
    let of_session = [&base[..], &[("Mcp-Session-Id", session.as_str())]].concat();
    let plain = service.send("POST", "/mcp", &of_session, &call(SENT, ""));
    assert!(plain.body.contains(&answered), "{plain:?}");
    until_sent(&recording, SENT, 2);
    let refused = service.send("POST", "/mcp", &of_session, &call(BEYOND, ""));
    assert!(refused.body.contains("number out of range"), "{refused:?}");
    until_sent(&recording, BEYOND, 1);
    // A client that accepts one form alone.
    for accept in ["application/json", "text/event-stream"] {
        let mut headers = of_session.clone();
        headers[2].1 = accept;
        let answer = service.send("POST", "/mcp", &headers, &call(SENT, ""));
        assert!(answer.body.contains(&answered), "{accept}: {answer:?}");
    }

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let modern = [
        ("MCP-Protocol-Version", "2026-07-28"),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "numbers__count"),
    ];
    let headers = [&base[..], &modern].concat();
    let answer =
        service.send("POST", "/mcp", &headers, &call(SENT, &format!(r#","_meta":{meta}"#)));
    assert!(answer.body.contains(&answered), "{answer:?}");
    until_sent(&recording, SENT, 5);
}

#[test]
fn numbers_go_through_over_a_pipe_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    configured(folder.path());
    let recording = folder.path().join("calls.jsonl");
    let mut child = program()
        .args(["serve", "--stdio", "--record"])
        .arg(&recording)
        .arg("-c")
        .arg(folder.path().join("mcp.json"))
        .env("MCPDECK_STATE_DIR", folder.path().join("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The last revision that has batches.
    let mut hello = initialize();
    hello["params"]["protocolVersion"] = json!("2025-03-26");
    writeln!(stdin, "{hello}").unwrap();
    assert!(lines.next().unwrap().unwrap().contains("serverInfo"));
    writeln!(stdin, "{}", json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))
        .unwrap();
    writeln!(stdin, "{}", call(SENT, "")).unwrap();
    let answered = format!(r#""structuredContent":{ANSWERED}"#);
    let mut lines = lines.map(Result::unwrap);
    let answer = lines.find(|line| line.contains(r#""id":1,"#)).unwrap();
    assert!(answer.contains(&answered), "{answer}");
    until_sent(&recording, SENT, 1);
    writeln!(stdin, "{}", batched()).unwrap();
    assert_batched(&lines.find(|line| line.starts_with('[')).unwrap());
    until_sent(&recording, SENT, 3);
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

/// A batch of two calls, a notification, and something that is no message.
fn batched() -> String {
    let second = call(SENT, "").replace(r#""id":1"#, r#""id":"b""#);
    let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#;
    format!("[{},{note},{second},{{\"id\":5}}]", call(SENT, ""))
}

/// Whether these are the answers to [`batched`].
fn assert_batched(answers: &str) {
    let all: Vec<Value> = serde_json::from_str(answers).expect(answers);
    let mut ids: Vec<_> = all.iter().map(|answer| answer["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"b\"", "1", "5"], "{answers}");
    let answered = format!(r#""structuredContent":{ANSWERED}"#);
    assert_eq!(answers.matches(&answered).count(), 2, "{answers}");
    let odd = all.iter().find(|answer| answer["id"] == 5).unwrap();
    assert!(odd["error"]["code"].is_i64(), "{answers}");
}

#[test]
fn a_batch_of_the_revision_that_has_them_is_served_with_its_numbers() {
    let folder = tempfile::tempdir().unwrap();
    configured(folder.path());
    let recording = folder.path().join("calls.jsonl");
    let record = ["--record", recording.to_str().unwrap()];
    let service = Service::launch(folder.path(), "127.0.0.1:0", &record);
    let session = service.session(&service.token);
    let auth = service.auth();
    let headers = |version: &'static str| {
        [
            ("Authorization", auth.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Mcp-Session-Id", session.as_str()),
            ("MCP-Protocol-Version", version),
        ]
    };
    let answer = service.send("POST", "/mcp", &headers("2025-03-26"), &batched());
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_batched(&answer.body);
    until_sent(&recording, SENT, 2);
    let note = r#"[{"jsonrpc":"2.0","method":"notifications/initialized"}]"#;
    let noted = service.send("POST", "/mcp", &headers("2025-03-26"), note);
    assert_eq!((noted.status, noted.body.as_str()), (202, ""));
    for (version, body, code, says) in [
        ("2025-03-26", "[]", -32600, "empty"),
        ("2025-03-26", "[1", -32700, "Parse error"),
        ("2025-06-18", &batched(), -32600, "2025-03-26"),
    ] {
        let refused = service.send("POST", "/mcp", &headers(version), body);
        assert_eq!(refused.status, 400, "{refused:?}");
        let error: Value = serde_json::from_str(&refused.body).unwrap();
        assert_eq!(error["error"]["code"], code, "{refused:?}");
        assert!(refused.body.contains(says), "{refused:?}");
    }
    let mut gone = headers("2025-03-26");
    gone[3].1 = "gone";
    let lost = service.send("POST", "/mcp", &gone, &batched());
    assert_eq!(lost.status, 404, "{lost:?}");
    until_sent(&recording, SENT, 2);
}

/// A schema with such numbers in its keywords.
const SCHEMA: &str = r#"{"type":"object","properties":{"n":{"enum":[1e3,1e-400],"default":1e400},"i":{"const":123456789012345678901234567890},"d":{"minimum":-1.50e2,"maximum":1E400,"multipleOf":0.1234567890123456789}}}"#;
const META: &str = r#"{"vendor":[1e3,98765432109876543210987654321]}"#;

/// A server whose lists hold such numbers.
fn listing(folder: &Path) {
    let meta = json!({"$raw": META});
    let script = json!({
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
        "on": {
            "tools/list": {"answer": {"tools": [
                {"name": "plain", "inputSchema": {"type": "object"}},
                {"name": "count", "inputSchema": {"$raw": SCHEMA}, "outputSchema": {"$raw": SCHEMA}},
            ]}},
            "prompts/list": {"answer": {"prompts": [{"name": "p", "_meta": meta}]}},
            "resources/list": {"answer": {"resources": [
                {"uri": "a:b", "name": "r", "_meta": meta},
            ]}},
            "resources/templates/list": {"answer": {"resourceTemplates": [
                {"uriTemplate": "a:{b}", "name": "t", "_meta": meta},
            ]}},
            "prompts/get": {"answer": {"messages": [], "_meta": meta}},
        },
    });
    std::fs::write(folder.join("lists.json"), script.to_string()).unwrap();
    let entry = json!({
        "command": env!("CARGO_BIN_EXE_mcpdeck"), "args": ["mock", folder.join("lists.json")],
    });
    let config = json!({"servers": {"numbers": entry}});
    std::fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
}

#[test]
fn numbers_of_definitions_are_listed_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    listing(folder.path());
    let schema = format!(r#""inputSchema":{SCHEMA},"outputSchema":{SCHEMA}"#);
    let meta = format!(r#""_meta":{META}"#);

    let out = program()
        .args(["list", "--json", "-c"])
        .arg(folder.path().join("mcp.json"))
        .env("MCPDECK_STATE_DIR", folder.path().join("state"))
        .output()
        .unwrap();
    let out = String::from_utf8(out.stdout).unwrap();
    assert!(out.contains(&schema), "{out}");
    assert_eq!(out.matches(&meta).count(), 3, "{out}");

    let service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    for (path, wanted) in [
        ("/tools", &schema),
        ("/tools?query=count", &schema),
        ("/prompts", &meta),
        ("/resources", &meta),
        ("/resources/templates", &meta),
    ] {
        let answer = service.get(path);
        assert!(answer.body.contains(wanted), "{path}: {answer:?}");
    }
    let session = service.session(&service.token);
    for (method, wanted) in [
        ("tools/list", &schema),
        ("prompts/list", &meta),
        ("resources/list", &meta),
        ("resources/templates/list", &meta),
    ] {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method});
        let answer = service.mcp(&service.token, &[("Mcp-Session-Id", &session)], &request);
        assert!(answer.body.contains(wanted), "{method}: {answer:?}");
    }
}

#[test]
fn numbers_of_a_callers_meta_and_of_its_answer_go_through_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    listing(folder.path());
    let recording = folder.path().join("calls.jsonl");
    let record = ["--record", recording.to_str().unwrap()];
    let service = Service::launch(folder.path(), "127.0.0.1:0", &record);
    let auth = service.auth();
    let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
    let sent = |of: &str| {
        let text = std::fs::read_to_string(&recording).unwrap_or_default();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let bodies = lines.filter_map(|line| Some(line["body"].as_str()?.to_owned()));
        let inner = META.strip_suffix('}').unwrap();
        let is_sent = |body: &String| body.contains(of) && body.contains(inner);
        bodies.filter(|body| body.contains(r#""method""#)).filter(is_sent).count()
    };
    let until_sent = |of: &str, times: usize| {
        let is_sent = || (sent(of) == times).then_some(());
        crate::support::wait_for(of, Duration::from_secs(30), is_sent);
    };
    let answered = format!(r#""_meta":{META}"#);
    let body = format!(r#"{{"_meta":{META}}}"#);
    let rest = service.send("POST", "/prompts/p/get", &headers, &body);
    assert!(rest.status == 200 && rest.body.contains(&answered), "{rest:?}");
    until_sent("prompts/get", 1);
    service.send("POST", "/tools/plain/call", &headers, &body);
    until_sent("tools/call", 1);
    let wrong = service.send("POST", "/tools/plain/call", &headers, r#"{"_meta":[1]}"#);
    assert_eq!(wrong.status, 422, "{wrong:?}");

    let session = service.session(&service.token);
    let accept = ("Accept", "application/json, text/event-stream");
    let headers = [&headers[..], &[accept, ("Mcp-Session-Id", session.as_str())]].concat();
    for (method, params) in [
        ("prompts/get", format!(r#"{{"name":"p","_meta":{META}}}"#)),
        ("tools/call", format!(r#"{{"name":"plain","arguments":{{}},"_meta":{META}}}"#)),
    ] {
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let answer = service.send("POST", "/mcp", &headers, &request);
        assert!(method == "tools/call" || answer.body.contains(&answered), "{answer:?}");
        until_sent(method, 2);
    }
}
