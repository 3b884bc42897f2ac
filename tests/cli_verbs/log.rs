//! The log file (requirements O1, O2): one scripted scenario, and the line of each event in it.

use std::path::Path;

use mcpdeck::config::{Environment, load};
use mcpdeck::telemetry::{LogOptions, Telemetry};
use mcpdeck::{Host, Startup};
use serde_json::{Value, json};

use super::run;
use super::support::Bench;

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

#[tokio::test]
async fn every_event_of_a_host_is_one_record() {
    let bench = bench();
    let file = bench.path().join("host.log");
    let options = LogOptions { file: Some(file.clone()), ..LogOptions::default() };
    let telemetry = Telemetry::start(&options).expect("the first of this process");
    let path = bench.path().join("mcp.json");
    let host = Host::builder().config_file(&path).startup(Startup::Available).initialize().await;
    let host = host.expect("two of three start");
    host.call_tool("work.echo", json!({"secret": 1})).await.expect("a result");
    host.call_tool("work.refuse", json!({})).await.expect_err("refused");
    host.call_tool("work.hidden", json!({})).await.expect_err("hidden");
    host.call_tool("work.nothing", json!({})).await.expect_err("unknown");
    for _ in 0..5 {
        host.call_tool("slow.wait", json!({})).await.expect_err("too slow");
    }
    host.call_tool("work.die", json!({})).await.expect_err("dead");
    let mut less = load(&[path], &Environment::of_process()).expect("valid").config;
    less.servers.shift_remove("flaky");
    host.reload(less).await.expect("taken");
    host.shutdown().await;
    drop((host, telemetry));

    let lines = lines(&file);
    for wanted in [
        json!({"action": "stateChanged", "server": "work", "status": "starting", "level": "INFO"}),
        json!({"action": "stateChanged", "server": "work", "status": "ready", "level": "INFO"}),
        json!({"action": "listed", "server": "work", "level": "INFO"}),
        json!({"action": "stderr", "server": "work", "message": "warming up"}),
        json!({"action": "stateChanged", "server": "flaky", "status": "starting", "attempt": 2}),
        json!({"action": "tools/call echo", "server": "work", "status": "ok", "level": "INFO"}),
        json!({"action": "tools/call", "status": "PermissionDenied", "level": "WARN"}),
        json!({"action": "tools/call", "status": "ToolNotFound", "level": "WARN"}),
        json!({"action": "tools/call wait", "server": "slow", "status": "Timeout", "level": "WARN"}),
        json!({"action": "breakerChanged", "server": "slow", "status": "open", "level": "WARN"}),
        json!({"action": "exited", "server": "work", "status": "unexpected", "level": "WARN"}),
        json!({"action": "reloaded", "level": "INFO"}),
        json!({"action": "stateChanged", "server": "slow", "status": "shutdown", "level": "INFO"}),
        json!({"action": "exited", "server": "slow", "status": "expected", "level": "INFO"}),
    ] {
        let line = line(&lines, &wanted);
        assert!(line["timestamp"].is_string() && line["target"].is_string(), "{line}");
    }
    let failed = line(&lines, &json!({"action": "tools/call refuse", "level": "WARN"}));
    assert_eq!((&failed["status"], &failed["rpc_code"]), (&json!("Protocol"), &json!(-32099)));
    assert!(failed["message"].as_str().is_some_and(|m| m.contains("the disk is full")), "{failed}");
    assert!(failed["duration_ms"].is_number() && failed["session_id"] == 1, "{failed}");
    let call = format!("call-{}", failed["request_id"]);
    assert_eq!((&failed["correlation_id"], &failed["parent_id"]), (&json!(call), &json!("work#1")));
    let ready = line(&lines, &json!({"server": "work", "status": "ready"}));
    assert_eq!(ready["correlation_id"], "work#1");
    assert!(
        lines.iter().all(|line| line.get("arguments").is_none()),
        "payloads were not asked for"
    );
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
fn at_warning_a_failed_call_leaves_a_line_and_payloads_are_there_when_asked_for() {
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
