//! The published servers, recorded, masked and played again: the same verdict, the same results, and
//! none of the secrets.

use std::process::Command;
use std::sync::Arc;

use mcpdeck::deck::Recorder;
use mcpdeck::host::{Host, HostView, ServerState, ServerView, Startup};
use serde_json::{Value, json};

use crate::support::{Bench, bin, published};

const SECRETS: [&str; 2] = ["made-up-key", "walnut-4711-cipher"];

fn calls(folder: &str) -> Vec<(&'static str, Value)> {
    let file = format!("{folder}/hello.txt");
    let repository = format!("{folder}/repository");
    let entity = json!({"name": "deck", "entityType": "program", "observations": ["flies"]});
    let thought = |n: u32| json!({"thought": "t", "nextThoughtNeeded": n < 2, "thoughtNumber": n, "totalThoughts": 2});
    vec![
        ("everything.echo", json!({"message": "one"})),
        ("everything.echo", json!({"message": "two"})),
        ("everything.get-sum", json!({"a": 2, "b": 3})),
        ("everything.get-tiny-image", json!({})),
        ("everything.get-structured-content", json!({"location": "Chicago"})),
        ("everything.get-annotated-message", json!({"messageType": "error"})),
        ("filesystem.read_text_file", json!({"path": file})),
        ("filesystem.get_file_info", json!({"path": file})),
        ("filesystem.list_directory", json!({"path": folder})),
        ("filesystem.list_allowed_directories", json!({})),
        ("memory.read_graph", json!({})),
        ("memory.create_entities", json!({"entities": [entity]})),
        // The same question with another answer.
        ("memory.read_graph", json!({})),
        ("memory.search_nodes", json!({"query": "flies"})),
        ("sequential-thinking.sequentialthinking", thought(1)),
        ("sequential-thinking.sequentialthinking", thought(2)),
        ("time.get_current_time", json!({"timezone": "Europe/Zurich"})),
        (
            "time.convert_time",
            json!({
                "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo",
            }),
        ),
        ("git.git_log", json!({"repo_path": repository})),
        ("git.git_status", json!({"repo_path": repository})),
    ]
}

async fn results(host: &Host, calls: &[(&str, Value)]) -> Vec<Value> {
    let mut results = Vec::new();
    for (tool, arguments) in calls {
        let outcome = host.call_tool(tool, arguments.clone()).await;
        let outcome = outcome.unwrap_or_else(|error| panic!("{tool}: {error}"));
        results.push(outcome.result.as_ref().clone());
    }
    results
}

/// Verdicts and findings of the check, by server.
fn check(folder: &std::path::Path, config: &std::path::Path) -> Value {
    let out = Command::new(bin())
        .args(["--check", "--format", "json", "-c"])
        .arg(config)
        .current_dir(folder)
        .env("MCPDECK_STATE_DIR", folder.join("state"))
        .output()
        .unwrap();
    let report: Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&out.stderr)));
    let servers = report["servers"].as_array().unwrap().iter().map(|server| {
        let rules = server["findings"].as_array().into_iter().flatten();
        // How a process stops is no part of what it says.
        let rules = rules.map(|finding| finding["rule"].as_str().unwrap());
        let (stop, rules): (Vec<&str>, Vec<&str>) = rules.partition(|r| r.starts_with("stop/"));
        let verdict = if stop.is_empty() { server["verdict"].clone() } else { "ok".into() };
        json!([server["name"], verdict, rules])
    });
    servers.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_servers_and_twenty_calls_are_the_same_from_their_scrubbed_recording() {
    let bench = Bench::new();
    let Some(mut entries) = published(bench.path()) else { return };
    entries["everything"]["env"]["DECK_TOKEN"] = SECRETS[1].into();
    let folder = bench.path().canonicalize().unwrap();
    let path = |name: &str| folder.join(name);
    let config = bench.servers(&entries);
    let verdict = check(&folder, &config);

    let host = Host::builder().config_file(&config).startup(Startup::Background).initialize().await;
    let host = host.unwrap_or_else(|error| panic!("{error}"));
    let recorder = Recorder::start(&host, &path("seven.jsonl")).unwrap();
    let is_ready = |server: &Arc<ServerView>| server.state == ServerState::Ready;
    let all = |view: &Arc<HostView>| view.servers.len() == 7 && view.servers.values().all(is_ready);
    host.view().wait_for(all).await.unwrap();
    let calls = calls(folder.to_str().unwrap());
    assert_eq!(calls.len(), 20);
    let live = results(&host, &calls).await;
    let tells = host.call_tool("everything.get-env", json!({})).await.unwrap();
    assert!(tells.result.to_string().contains(SECRETS[1]), "the server does tell it");
    host.shutdown().await;
    recorder.finish().await.unwrap();

    let scrub = Command::new(bin())
        .args(["scrub", "seven.jsonl", "-o", "clean.jsonl"])
        .current_dir(&folder)
        .output()
        .unwrap();
    assert!(scrub.status.success(), "{}", String::from_utf8_lossy(&scrub.stderr));
    for name in ["seven.jsonl", "clean.jsonl"] {
        let text = std::fs::read_to_string(path(name)).unwrap();
        for secret in SECRETS {
            assert!(!text.contains(secret), "{secret} stands in {name}");
        }
    }

    let clean = path("clean.jsonl");
    for (name, entry) in entries.as_object_mut().unwrap() {
        let args = json!(["mock", clean, "--server", name, "--scrubbed"]);
        *entry = json!({"command": bin(), "args": args});
    }
    let played = bench.servers(&entries);
    assert_eq!(check(&folder, &played), verdict);
    let host = Host::initialize(&played).await.unwrap_or_else(|error| panic!("{error}"));
    let again = results(&host, &calls).await;
    for ((call, live), again) in calls.iter().zip(&live).zip(&again) {
        assert_eq!(live, again, "{call:?}");
    }
    host.shutdown().await;
}
