//! The mock server as its users meet it: the built binary on pipes, and over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use mcpdeck::mock::script::ServerScript;
use serde_json::{Value, json};

use crate::support::{Guarded, HttpMock, bin, finish, repo, wait_for};

const SOON: Duration = Duration::from_secs(10);

/// A mock server on pipes.
struct Peer {
    child: Guarded,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Peer {
    fn play(script: &Value) -> Self {
        let mut child = Command::new(bin())
            .args(["mock", "--script", &script.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the mock starts");
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Self { child: Guarded(child), stdin, stdout }
    }

    fn say(&mut self, message: &Value) {
        let stdin = self.stdin.as_mut().expect("open");
        writeln!(stdin, "{message}").expect("the mock reads");
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn call(&mut self, id: i64, tool: &str) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
            "params": {"name": tool, "arguments": {"n": id}}}));
    }

    fn exit(&mut self) -> Option<i32> {
        self.stdin.take();
        wait_for("the mock to exit", SOON, || self.child.0.try_wait().expect("a child")).code()
    }
}

#[test]
fn a_script_that_says_nothing_is_a_polite_server() {
    let mut peer = Peer::play(&json!({}));
    peer.say(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": "2025-06-18"}}));
    assert_eq!(peer.hear()["result"]["protocolVersion"], "2025-06-18");
    peer.say(&json!({"jsonrpc": "2.0", "id": "two", "method": "ping"}));
    assert_eq!(peer.hear(), json!({"jsonrpc": "2.0", "id": "two", "result": {}}));
    peer.say(&json!({"jsonrpc": "2.0", "id": 3, "method": "server/discover", "params": {}}));
    assert_eq!(peer.hear()["error"]["code"], -32601);
    assert_eq!(peer.exit(), Some(0));
}

#[test]
fn lists_are_paged_and_change_when_the_script_says_so() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let mut peer = Peer::play(&json!({
        "tools": [tool("grow"), {"$list": {"times": 3, "of": tool("t${i}")}}],
        "pageSize": 3,
        "calls": {"grow": [{"set": {"tools": [tool("only")]}},
            {"notify": {"method": "notifications/tools/list_changed"}}, {"text": "grown"}]},
    }));
    let list = |cursor: Value| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": cursor});
    peer.say(&list(json!({})));
    let first = peer.hear();
    assert_eq!(first["result"]["tools"].as_array().map(Vec::len), Some(3));
    peer.say(&list(json!({"cursor": first["result"]["nextCursor"]})));
    let second = peer.hear();
    assert_eq!(second["result"]["tools"][0]["name"], "t2");
    assert_eq!(second["result"].get("nextCursor"), None);
    peer.call(2, "grow");
    assert_eq!(peer.hear()["method"], "notifications/tools/list_changed");
    assert_eq!(peer.hear()["result"]["content"][0]["text"], "grown");
    peer.say(&list(json!({})));
    assert_eq!(peer.hear()["result"]["tools"], json!([tool("only")]));
}

#[test]
fn a_slow_call_does_not_hold_up_the_next_and_a_cancelled_one_stays_silent() {
    let mut peer = Peer::play(&json!({
        "calls": {"slow": [{"delay": 60000}, {"text": "late"}], "quick": {"text": "${arguments.n}"}},
    }));
    peer.call(1, "slow");
    peer.call(2, "quick");
    assert_eq!(peer.hear()["id"], 2);
    peer.say(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
    );
    peer.call(3, "quick");
    assert_eq!(peer.hear()["id"], 3);
}

#[test]
fn answers_of_the_host_can_be_used_in_the_result() {
    let mut peer = Peer::play(&json!({
        "calls": {"ask": [
            {"ask": {"method": "sampling/createMessage", "params": {"maxTokens": 5}, "as": "said"}},
            {"text": "you said ${saved.said.result.content.text}"}]},
    }));
    peer.call(1, "ask");
    let asked = peer.hear();
    assert_eq!(asked["method"], "sampling/createMessage");
    peer.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"content": {"text": "hi"}}}));
    assert_eq!(peer.hear()["result"]["content"][0]["text"], "you said hi");
}

#[test]
fn an_ending_of_the_script_is_the_ending_of_the_process() {
    let mut peer = Peer::play(&json!({"calls": {
        "die": [{"write": {"parts": ["{\"half"]}}, {"exit": "${arguments.n}"}]}}));
    peer.call(3, "die");
    assert_eq!(peer.exit(), Some(3));
    let mut rest = String::new();
    peer.stdout.read_line(&mut rest).expect("what was written");
    assert_eq!(rest, "{\"half");
}

#[cfg(unix)]
#[test]
fn a_server_can_die_by_a_signal_and_ignore_others() {
    use std::os::unix::process::ExitStatusExt;
    let mut peer = Peer::play(&json!({"on": {"stdinClosed": {"signal": "SEGV"}}}));
    peer.stdin.take();
    let status = wait_for("its death", SOON, || peer.child.0.try_wait().expect("a child"));
    assert_eq!(status.signal(), Some(11));

    let mut peer = Peer::play(&json!({"on": {"SIGTERM": {"line": "\"no\""}, "stdinClosed": []}}));
    peer.call(1, "anything");
    peer.hear();
    crate::support::kill(peer.child.0.id(), "TERM");
    assert_eq!(peer.hear(), "no");
    peer.stdin.take();
    assert_eq!(peer.child.0.try_wait().expect("a child"), None);
}

#[test]
fn a_mistake_in_a_script_is_reported_with_its_place() {
    let mut command = Command::new(bin());
    command.args(["mock", "--script", r#"{"on":{"start":[{"delay":1},{"dellay":1}]}}"#]);
    let finished = finish(command, SOON);
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.contains("action 1: unknown variant `dellay`"), "{finished:?}");
}

#[test]
fn every_shipped_script_can_be_played_and_fits_the_schema() {
    let schema = ServerScript::json_schema();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let mut count = 0;
    for entry in std::fs::read_dir(repo("fixtures/servers")).expect("the folder") {
        let path = entry.expect("an entry").path();
        // Beside them stand notes, and servers that are programs of their own.
        if path.extension().is_none_or(|extension| extension != "json" && extension != "jsonc") {
            continue;
        }
        ServerScript::read(&path).unwrap_or_else(|error| panic!("{error}"));
        let text = std::fs::read_to_string(&path).expect("a file");
        let options = jsonc_parser::ParseOptions::default();
        let root = jsonc_parser::cst::CstRootNode::parse(&text, &options).expect("JSON");
        let value = root.to_serde_value().expect("a value");
        let problems: Vec<String> =
            validator.iter_errors(&value).map(|error| error.to_string()).collect();
        assert!(problems.is_empty(), "{}: {problems:?}", path.display());
        count += 1;
    }
    assert!(count > 0);
}

async fn post(mock: &HttpMock, message: &Value) -> (u16, String, String) {
    // The crypto provider is a process-wide choice; without one the client cannot be built.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let response = reqwest::Client::new()
        .post(&mock.url)
        .header("mcp-session-id", "s1")
        .body(message.to_string())
        .send()
        .await
        .expect("an answer");
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").cloned();
    let kind = kind.and_then(|kind| kind.to_str().map(str::to_owned).ok()).unwrap_or_default();
    (status, kind, response.text().await.unwrap_or_default())
}

#[tokio::test]
async fn over_http_an_answer_alone_is_json_and_more_is_a_stream() {
    let script = json!({
        "http": {"session": "s1"},
        "calls": {
            "plain": {"text": "x"},
            "steps": [{"progress": {"steps": 2, "token": 7}}, {"text": "x"}],
            "busy": {"respond": {"status": 429, "headers": {"retry-after": "9"}}},
        },
    });
    let mock = HttpMock::start(&script);
    let call = |tool: &str| json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool}});
    let (status, kind, body) = post(&mock, &call("plain")).await;
    assert_eq!((status, kind.as_str()), (200, "application/json"));
    assert!(body.contains("\"text\":\"x\""), "{body}");
    let (_, kind, body) = post(&mock, &call("steps")).await;
    assert_eq!(kind, "text/event-stream");
    assert_eq!(body.matches("data: ").count(), 3);
    assert_eq!(post(&mock, &call("busy")).await.0, 429);
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&mock, &note).await.0, 202);
}
