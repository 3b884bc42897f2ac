//! What the engine knows reaches the caller: failed lists, candidates, violations, RPC errors,
//! guard warnings, hidden tools, true durations.

use mcpdeck::Host;
use serde_json::{Value, json};

use super::run;
use crate::support::Bench;

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "Does something.", "inputSchema": {"type": "object",
        "properties": {"path": {"type": "string"}, "days": {"type": "integer"}}}})
}

#[test]
fn a_list_that_failed_is_reported_and_is_no_success() {
    let bench = Bench::new();
    let broken = json!({"capabilities": {"tools": {}, "prompts": {}},
        "on": {"tools/list": {"error": {"code": -32603, "message": "no database"}},
            "prompts/list": {"answer": {"prompts": "none"}}}});
    bench.servers(&json!({"half": bench.mock("half", &broken, &json!({}))}));
    for verb in ["list", "status"] {
        let done = run(&bench, &[verb, "--json"]);
        assert_eq!(done.code, Some(1), "{done:?}");
        let begin = "mcpdeck: half: `tools/list` is not complete: ";
        assert!(done.stderr.contains(begin) && done.stderr.contains("no database"), "{done:?}");
        let findings = done.json()["servers"][0]["findings"].clone();
        let kinds: Vec<&str> = findings
            .as_array()
            .expect("a list")
            .iter()
            .map(|finding| finding["kind"].as_str().expect("a kind"))
            .collect();
        assert!(kinds.contains(&"partial-list") && kinds.contains(&"wrong-shape"), "{findings}");
    }
    let done = run(&bench, &["call", "half.anything", "--json"]);
    let message = done.json()["error"]["message"].to_string();
    assert!(message.contains("`tools/list` of half is not complete"), "{message}");
    // A program that embeds the host is given the same, with the next step.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let error = runtime.block_on(async {
        let host = Host::builder().config_file(bench.path().join("mcp.json")).initialize().await;
        let host = host.expect("it starts");
        let error = host.call_tool("half.anything", json!({})).await.expect_err("no such tool");
        host.shutdown().await;
        error
    });
    assert!(error.message.contains("`tools/list` of half is not complete"), "{error:?}");
    assert!(error.help.as_deref().is_some_and(|help| help.contains("--check --server half")));
}

#[test]
fn a_server_without_templates_has_a_whole_list() {
    let bench = Bench::new();
    let plain = json!({"resources": [{"uri": "note://one", "name": "one"}],
        "on": {"resources/templates/list": {"error": {"code": -32601, "message": "nope"}}}});
    bench.servers(&json!({"plain": bench.mock("plain", &plain, &json!({}))}));
    let done = run(&bench, &["list"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    let check = run(&bench, &["--check", "--format", "json"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    let findings = check.json()["servers"][0]["findings"].to_string();
    assert!(findings.contains("list/partial") && findings.contains("note"), "{findings}");
}

#[test]
fn json_holds_candidates_violations_and_the_rpc_error() {
    let bench = Bench::new();
    let one = json!({"tools": [tool("same"), tool("refuse")], "calls": {
        "refuse": {"error": {"code": -32099, "message": "full", "data": {"retryAfter": 7}}}}});
    let two = json!({"tools": [tool("same")]});
    bench.servers(&json!({
        "one": bench.mock("one", &one, &json!({})), "two": bench.mock("two", &two, &json!({})),
    }));
    let error = |args: &[&str]| {
        run(&bench, &[&["call"], args, &["--json"]].concat()).json()["error"].clone()
    };
    let ambiguous = error(&["same"]);
    assert_eq!(ambiguous["candidates"], json!(["one.same", "two.same"]), "{ambiguous}");
    let invalid = error(&["one.same", r#"{"path": 3, "days": "x"}"#]);
    let pointers: Vec<&Value> = invalid["violations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|violation| &violation["pointer"])
        .collect();
    assert!(
        pointers.contains(&&json!("/path")) && pointers.contains(&&json!("/days")),
        "{invalid}"
    );
    let refused = error(&["one.refuse"]);
    assert_eq!(refused["rpc"]["code"], -32099, "{refused}");
    assert_eq!(refused["rpc"]["data"], json!({"retryAfter": 7}), "{refused}");
    assert_eq!(refused["request"], "tools/call refuse", "{refused}");
}

#[test]
fn a_tool_that_a_filter_hides_is_denied_and_suspicious_arguments_are_reported() {
    let bench = Bench::new();
    let script = json!({"tools": [tool("read"), tool("write")], "calls": {"read": {"text": "ok"}}});
    let entry = json!({"tools": {"deny": ["write"]}});
    bench.servers(&json!({"files": bench.mock("files", &script, &entry)}));
    for name in ["files.write", "write"] {
        let done = run(&bench, &["call", name, "--json"]);
        assert_eq!(done.json()["error"]["code"], "PermissionDenied", "{name}: {done:?}");
        assert_eq!(done.code, Some(1), "{done:?}");
    }
    let done = run(&bench, &["call", "files.read", "path=$(id)", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.json()["guardWarnings"][0]["pointer"], "/path", "{done:?}");
    assert!(done.stderr.contains("argument /path: "), "{done:?}");
}

#[test]
fn no_scripted_answer_decides_what_the_host_itself_asks() {
    let bench = Bench::new();
    let script = json!({"tools": [tool("read")], "calls": {"read": {"text": "ok"}}});
    bench.servers(&json!({"files": bench.mock("files", &script, &json!({"guard": "ask"}))}));
    bench.write("answers.json", r#"{"answers": [{"accept": {}}]}"#);
    let call = ["call", "files.read", "path=$(id)", "--answers", "answers.json", "--json"];
    let done = run(&bench, &call);
    assert_eq!(done.json()["error"]["code"], "PolicyBlocked", "{done:?}");
    assert_eq!(done.json()["denied"], json!([]), "the server asked for nothing: {done:?}");
    assert!(!done.stderr.contains("--answers"), "{done:?}");
}

#[test]
fn a_call_that_ran_out_of_time_reports_how_long_it_took() {
    let bench = Bench::new();
    let script =
        json!({"tools": [tool("slow")], "calls": {"slow": [{"delay": 30_000}, {"text": "late"}]}});
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({"timeout": 0.4}))}));
    let object = run(&bench, &["call", "s.slow", "--json"]).json();
    assert_eq!(object["error"]["code"], "Timeout", "{object}");
    assert!(object["durationMs"].as_u64().is_some_and(|took| took >= 400), "{object}");
}

#[test]
fn a_result_goes_to_a_file_decoded_or_as_json() {
    let bench = Bench::new();
    let picture = json!({"answer": {"content": [{"type": "image", "mimeType": "image/png", "data": "aGkA"}]}});
    let script = json!({"tools": [tool("draw"), tool("fail")],
        "calls": {"draw": picture, "fail": {"toolError": "it broke"}}});
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
    let done = run(&bench, &["call", "s.draw", "--output", "a.png"]);
    assert_eq!((done.code, done.stdout.as_str(), done.stderr.as_str()), (Some(0), "", ""));
    assert_eq!(std::fs::read(bench.path().join("a.png")).expect("written"), b"hi\0");
    assert_eq!(run(&bench, &["call", "s.draw", "--json", "-o", "a.json"]).code, Some(0));
    let text = std::fs::read_to_string(bench.path().join("a.json")).expect("written");
    let object: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(object["result"]["content"][0]["data"], "aGkA");
    assert_eq!(run(&bench, &["call", "s.fail", "-o", "none.txt"]).code, Some(1));
    assert!(!bench.path().join("none.txt").exists(), "a failed tool gave no result");
}

#[test]
fn a_url_in_place_of_servers_is_one_server() {
    let bench = Bench::new();
    for verb in ["list", "status"] {
        let done = run(&bench, &[verb, "http://127.0.0.1:9/mcp", "--json", "-H", "A: b"]);
        assert_eq!(done.code, Some(3), "{done:?}");
        assert_eq!(done.json()["servers"][0]["transport"], "http", "{done:?}");
        assert_eq!(run(&bench, &[verb, "http://127.0.0.1:9/mcp", "other"]).code, Some(2));
    }
}

#[test]
fn a_tool_is_called_many_times_and_what_came_of_it_is_counted() {
    let bench = Bench::new();
    let script = json!({"tools": [tool("fast"), tool("fail")],
        "calls": {"fast": {"text": "done"}, "fail": {"toolError": "it broke"}}});
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
    let done = run(&bench, &["load", "s.fast", "path=x", "-n", "40", "-p", "8", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report = done.json();
    assert_eq!((&report["tool"], &report["succeeded"]), (&json!("s.fast"), &json!(40)), "{report}");
    let latency = |name: &str| report["latencyMs"][name].as_f64().expect("a number");
    assert!(latency("min") <= latency("p50") && latency("p99") <= latency("max"), "{report}");
    assert!(report["callsPerSecond"].as_f64().is_some_and(|rate| rate > 0.0), "{report}");
    let failed = run(&bench, &["load", "s.fail", "-n", "3"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.stdout.contains("tool error  3 times; the first: it broke"), "{failed:?}");
    assert!(!failed.stdout.contains("latency"), "none gave a result to be timed: {failed:?}");
}

#[cfg(unix)]
#[test]
fn an_entry_with_a_retry_is_tried_again_by_commands_and_by_the_check() {
    for args in [&["list"][..], &["--check"]] {
        let bench = Bench::new();
        let mock = bench.mock("late", &json!({"tools": [tool("one")]}), &json!({}));
        let script = "test -e begun || { : > begun; exit 1; }; exec \"$@\"";
        let mut words = vec![json!("-c"), json!(script), json!("sh"), mock["command"].clone()];
        words.extend(mock["args"].as_array().expect("words").iter().cloned());
        bench.servers(&json!({"late": {"command": "sh", "args": words, "env": mock["env"],
            "retry": {"maxRetries": 2, "initialMs": 10}}}));
        let done = run(&bench, args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
    }
}

#[test]
fn what_is_odd_about_a_result_is_reported_beside_it() {
    let bench = Bench::new();
    let answer =
        json!({"answer": {"content": [{"type": "text", "text": "fine"}], "isError": "yes"}});
    let script = json!({"tools": [tool("odd")], "calls": {"odd": answer}});
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
    let done = run(&bench, &["call", "s.odd", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let findings = done.json()["findings"].clone();
    assert_eq!(findings[0]["kind"], "wrong-shape", "{findings}");
    assert!(findings[0]["message"].as_str().is_some_and(|m| m.contains("isError")), "{findings}");
    for args in [&["call", "s.odd", "--json"][..], &["call", "s.odd"]] {
        let done = run(&bench, args);
        assert!(done.stderr.contains("isError"), "{done:?}");
    }
}

#[test]
fn a_result_of_the_wrong_shape_is_an_error_with_what_was_sent() {
    let bench = Bench::new();
    let script =
        json!({"tools": [tool("odd")], "calls": {"odd": {"answer": {"content": "no list"}}}});
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
    let done = run(&bench, &["call", "s.odd", "--json"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    let error = &done.json()["error"];
    assert_eq!(error["code"], "Protocol", "{error}");
    assert!(error["raw"].as_str().is_some_and(|raw| raw.contains("no list")), "{error}");
}
