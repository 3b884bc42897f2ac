//! A tool that only runs as a task, without a person: `call` and `--check --calls` follow it to its
//! result, its questions are answered from a file, and one that is out of time is cancelled.

use serde_json::{Value, json};

use super::run;
use crate::support::{Bench, Finished};

/// A server with one tool, which asks something on the way to its result.
fn bench(stages: Value) -> Bench {
    let bench = Bench::new();
    let script = json!({
        "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
        "tools": [{
            "name": "research", "description": "Finds out.",
            "inputSchema": {"type": "object", "properties": {"topic": {"type": "string"}}},
            "annotations": {"readOnlyHint": true}, "execution": {"taskSupport": "required"},
        }],
        "calls": {"research": {"answer": {
            "task": {"taskId": "t", "status": "working", "pollInterval": 50}}}},
        "record": "heard",
        "on": {
            "tasks/get": {"turns": stages},
            "tasks/result": [
                {"ask": {"method": "elicitation/create", "as": "said", "params": {
                    "message": "which?", "requestedSchema": {"type": "object", "properties": {}},
                    "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t"}}}}},
                {"answer": {"content": [
                    {"type": "text", "text": "found ${saved.said.result.content.which}"}]}},
            ],
        },
    });
    bench.servers(&json!({"lab": bench.mock("lab", &script, &json!({}))}));
    bench.write(
        "answers.json",
        r#"{"answers": [{"kind": "elicitation", "accept": {"which": "ants"}}]}"#,
    );
    let calls = json!({"version": 1, "calls": {"ants": {"tool": "lab.research"}}});
    bench.write("mcp.calls.json", &calls.to_string());
    bench
}

fn stage(status: &str) -> Value {
    json!({"answer": {"taskId": "t", "status": status, "pollInterval": 50}})
}

fn heard(bench: &Bench) -> String {
    std::fs::read_to_string(bench.path().join("heard")).expect("what the server heard")
}

#[test]
fn a_call_follows_its_task_and_answers_what_it_asks() {
    let bench = bench(json!([stage("working"), stage("input_required")]));
    let text = |done: &Finished| done.json()["result"]["content"][0]["text"].clone();
    let done = run(&bench, &["call", "@ants", "--json", "--answers", "answers.json"]);
    assert_eq!((done.code, text(&done)), (Some(0), json!("found ants")), "{done:?}");
    let heard = heard(&bench);
    assert!(heard.contains(r#""task":{}"#), "{heard}");
    assert!(!heard.contains("tasks/cancel"), "{heard}");
}

#[test]
fn the_check_makes_saved_calls_of_tasks() {
    let bench = bench(json!([stage("input_required")]));
    let done =
        run(&bench, &["--check", "--calls", "--answers", "answers.json", "--format", "json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report = done.json();
    let steps = report["servers"][0]["steps"].as_array().expect("steps");
    let call = steps.iter().find(|step| step["name"] == "call @ants").expect("its step");
    assert_eq!(call["status"], "ok", "{call}");
}

#[test]
fn a_task_that_goes_on_reporting_ends_at_the_time_limit_of_the_command_line() {
    let busy = json!({"answer": {"taskId": "t", "status": "working", "pollInterval": 100}});
    let bench = bench(json!([busy]));
    let done = run(&bench, &["call", "lab.research", "--timeout", "2s"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("no answer within 2.0 s in all"), "{done:?}");
    assert!(heard(&bench).contains("tasks/cancel"), "{}", heard(&bench));
}

#[test]
fn a_task_that_is_never_over_is_cancelled_when_its_call_is_out_of_time() {
    let slow = json!({"answer": {"taskId": "t", "status": "working", "pollInterval": 60_000}});
    let bench = bench(json!([slow, []]));
    let done = run(&bench, &["call", "lab.research", "--timeout", "1s"]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(heard(&bench).contains("tasks/cancel"), "{}", heard(&bench));
}
