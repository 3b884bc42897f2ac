//! The log file: one scripted scenario, and the line of each event in it.

use std::path::Path;

use mcpdeck::config::{Environment, load};
use mcpdeck::telemetry::{LogOptions, Telemetry};
use mcpdeck::{Host, Startup};
use serde_json::{Value, json};

use super::run;
use crate::support::Bench;

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does something.", "inputSchema": {"type": "object"}})
}

/// `work` answers, refuses, hides and dies; `slow` never answers; `flaky` ends as it starts.
fn bench() -> Bench {
    let bench = Bench::new();
    let work = json!({
        "tools": [tool("echo"), tool("refuse"), tool("hidden"), tool("die")],
        "calls": {"echo": {"text": "${arguments}"}, "die": {"exit": 3},
            "refuse": {"error": {"code": -32099, "message": "the disk is full"}}},
        "on": {"start": {"stderr": "warming up"}}});
    let slow =
        json!({"tools": [tool("wait")], "calls": {"wait": [{"delay": 60_000}, {"text": "x"}]}});
    let flaky = json!({"on": {"start": {"exit": 1}}});
    bench.servers(&json!({
        "work": bench.mock("work", &work, &json!({"tools": {"deny": ["hidden"]}})),
        "slow": bench.mock("slow", &slow, &json!({"timeout": 0.1, "onTimeout": "breaker"})),
        "flaky": bench.mock("flaky", &flaky, &json!({"retry": {"maxRetries": 1, "initialMs": 10}})),
    }));
    bench
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a log file");
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// The line with these values.
fn line<'a>(lines: &'a [Value], wanted: &Value) -> &'a Value {
    let fits = |line: &&Value| {
        wanted.as_object().expect("an object").iter().all(|(key, value)| line[key] == *value)
    };
    lines.iter().find(fits).unwrap_or_else(|| panic!("no line with {wanted} in {lines:#?}"))
}

const FILTER: &str = "MCPDECK_TEST_LOG_FILTER";
const PAYLOADS: &str = "MCPDECK_TEST_LOG_PAYLOADS";

/// Plays the scenario in a process of its own, which may start one log.
fn played(filter: &str, payloads: bool) -> Vec<Value> {
    let bench = bench();
    let mut child = std::process::Command::new(std::env::current_exe().expect("a test program"));
    child.args(["--ignored", "--exact", "verbs::log::scenario"]).env(FILTER, filter);
    child.current_dir(bench.path()).env(PAYLOADS, if payloads { "1" } else { "" });
    let output = child.output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    lines(&bench.path().join("host.log"))
}

/// Start, list, call, failed call, denied call, retry, breaker, crash, reload, stop.
#[tokio::test]
#[ignore = "played by the test of every event, in a process of its own"]
async fn scenario() {
    let payloads = std::env::var_os(PAYLOADS).is_some_and(|value| !value.is_empty());
    let options =
        LogOptions { file: Some("host.log".into()), filter: std::env::var(FILTER).ok(), payloads };
    let telemetry = Telemetry::start(&options).expect("the first of this process");
    let path = Path::new("mcp.json");
    let host = Host::builder().config_file(path).startup(Startup::Available).initialize().await;
    let host = host.expect("two of three start");
    host.call_tool("work.echo", json!({"secret": 1})).await.expect("a result");
    host.call_tool("work.refuse", json!({})).await.expect_err("refused");
    host.call_tool("work.hidden", json!({})).await.expect_err("hidden");
    host.call_tool("work.nothing", json!({})).await.expect_err("unknown");
    for _ in 0..5 {
        host.call_tool("slow.wait", json!({})).await.expect_err("too slow");
    }
    host.call_tool("work.die", json!({})).await.expect_err("dead");
    let mut less = load(&[path.into()], &Environment::of_process()).expect("valid").config;
    less.servers.shift_remove("flaky");
    host.reload(less).await.expect("taken");
    host.shutdown().await;
    drop((host, telemetry));
}

#[test]
fn every_event_of_a_host_is_one_record_at_every_level() {
    let [info, warn, payloads] =
        [("info", false), ("warn", false), ("info", true)].map(|(filter, on)| played(filter, on));
    let warnings = [
        json!({"action": "tools/call", "status": "PermissionDenied", "level": "WARN"}),
        json!({"action": "tools/call", "status": "ToolNotFound", "level": "WARN"}),
        json!({"action": "tools/call wait", "server": "slow", "status": "Timeout", "level": "WARN"}),
        json!({"action": "breakerChanged", "server": "slow", "status": "open", "level": "WARN"}),
        json!({"action": "exited", "server": "work", "status": "unexpected", "level": "WARN"}),
    ];
    let records = [
        json!({"action": "stateChanged", "server": "work", "status": "starting", "level": "INFO"}),
        json!({"action": "stateChanged", "server": "work", "status": "ready", "level": "INFO"}),
        json!({"action": "listed", "server": "work", "level": "INFO"}),
        json!({"action": "stderr", "server": "work", "message": "warming up"}),
        json!({"action": "stateChanged", "server": "flaky", "status": "starting", "attempt": 2}),
        json!({"action": "tools/call echo", "server": "work", "status": "ok", "level": "INFO"}),
        json!({"action": "reloaded", "level": "INFO"}),
        json!({"action": "stateChanged", "server": "slow", "status": "shutdown", "level": "INFO"}),
        json!({"action": "exited", "server": "slow", "status": "expected", "level": "INFO"}),
    ];
    for wanted in warnings.iter().chain(&records) {
        for lines in [&info, &payloads] {
            let line = line(lines, wanted);
            assert!(line["timestamp"].is_string() && line["target"].is_string(), "{line}");
        }
    }
    for wanted in &warnings {
        line(&warn, wanted);
    }
    assert!(warn.iter().all(|line| line["level"] != "INFO"), "{warn:#?}");
    for lines in [&info, &warn, &payloads] {
        let failed = line(lines, &json!({"action": "tools/call refuse", "level": "WARN"}));
        assert_eq!((&failed["status"], &failed["rpc_code"]), (&json!("Protocol"), &json!(-32099)));
        assert!(failed["message"].as_str().is_some_and(|m| m.contains("the disk is full")));
        assert!(failed["duration_ms"].is_number() && failed["session_id"] == 1, "{failed}");
        let call = format!("call-{}", failed["request_id"]);
        assert_eq!(failed["correlation_id"], call);
        assert_eq!(failed["parent_id"], "work#1");
    }
    let ready = line(&info, &json!({"server": "work", "status": "ready"}));
    assert_eq!(ready["correlation_id"], "work#1");
    for lines in [&info, &warn] {
        assert!(lines.iter().all(|line| line.get("arguments").is_none()), "not asked for");
    }
    let echo = line(&payloads, &json!({"action": "tools/call echo", "status": "ok"}));
    assert_eq!(echo["arguments"], json!({"secret": 1}));
    assert!(echo["result"]["content"][0]["text"].is_string(), "{echo}");
}

#[test]
fn a_refused_configuration_and_a_refused_trust_leave_a_line() {
    let bench = bench();
    bench.write("bad.json", r#"{"servers": {"a": {"comand": "x"}}}"#);
    assert_eq!(run(&bench, &["list", "-c", "bad.json", "--log-file", "a.log"]).code, Some(2));
    let all = lines(&bench.path().join("a.log"));
    let refused = line(&all, &json!({"action": "configurationRefused", "level": "ERROR"}));
    assert!(refused["at"].as_str().is_some_and(|at| at.contains("bad.json:1:")), "{refused}");
    assert_eq!(run(&bench, &["list", "--require-trust", "--log-file", "b.log"]).code, Some(2));
    let all = lines(&bench.path().join("b.log"));
    line(&all, &json!({"action": "trustRefused", "server": "work", "level": "ERROR"}));
}

#[test]
fn the_flags_of_the_log_are_heard() {
    let bench = bench();
    let quiet = ["call", "work.refuse", "--log-file", "w.log", "--log-level", "warn"];
    assert_eq!(run(&bench, &quiet).code, Some(1));
    let all = lines(&bench.path().join("w.log"));
    line(&all, &json!({"action": "tools/call refuse", "status": "Protocol"}));
    assert!(all.iter().all(|line| line["level"] != "INFO"), "{all:#?}");
    let open = ["call", "work.echo", "text=hi", "--log-file", "p.log", "--log-payloads"];
    assert_eq!(run(&bench, &open).code, Some(0));
    let all = lines(&bench.path().join("p.log"));
    let call = line(&all, &json!({"action": "tools/call echo", "status": "ok"}));
    assert_eq!(call["arguments"], json!({"text": "hi"}));
    assert!(call["result"]["content"][0]["text"].is_string(), "{call}");
}

#[test]
fn a_failed_connection_is_logged_with_all_its_causes() {
    let bench = Bench::new();
    bench.servers(&json!({"away": {"url": "http://127.0.0.1:9/mcp", "retry": {"maxRetries": 0}}}));
    let done = run(&bench, &["list", "--log-file", "host.log"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let all = lines(&bench.path().join("host.log"));
    let failed = line(&all, &json!({"server": "away", "action": "request failed"}));
    let causes: Vec<&str> = failed["causes"].as_str().expect("a text").split("; ").collect();
    assert!(causes.len() > 2, "{failed}");
    assert!(causes[0].starts_with("error sending request"), "{failed}");
    assert!(causes.last().is_some_and(|last| last.contains("refused")), "{failed}");
}

/// A server over HTTP that answers everything but calls: those it hangs up on.
fn hangs_up_on_calls() -> String {
    use std::io::{BufRead, BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/mcp", listener.local_addr().expect("an address"));
    let answer = |stream: std::net::TcpStream| -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut length, mut line) = (0, String::new());
            while reader.read_line(&mut line)? > 2 {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap_or_default();
                }
                line.clear();
            }
            if line.is_empty() {
                return Ok(());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body)?;
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let result = match message["method"].as_str() {
                Some("initialize") => json!({"protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}),
                Some("tools/list") => json!({"tools": [tool("echo")]}),
                Some("tools/call") => return Ok(()),
                _ => Value::Null,
            };
            let stream = reader.get_mut();
            if result.is_null() && message["id"].is_null() {
                stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")?;
                continue;
            }
            let body = match result {
                Value::Null => json!({"jsonrpc": "2.0", "id": message["id"],
                    "error": {"code": -32601, "message": "not here"}}),
                result => json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
            };
            let body = body.to_string();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )?;
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    url
}

#[test]
fn a_call_that_was_cut_off_is_logged_with_all_its_causes() {
    let bench = Bench::new();
    bench.servers(&json!({"away": {"url": hangs_up_on_calls(), "retry": {"maxRetries": 0}}}));
    let done = run(&bench, &["call", "away.echo", "--log-file", "host.log"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let all = lines(&bench.path().join("host.log"));
    let failed = line(&all, &json!({"server": "away", "action": "tools/call echo"}));
    let causes: Vec<&str> = failed["causes"].as_str().expect("a text").split("; ").collect();
    assert!(causes.len() > 1 && causes[0].starts_with("error sending request"), "{failed}");
}
