//! The acceptance tests on published servers: seven of them from one `mcp.json`, two depending on
//! others, one through `npx`. Skipped, and said to be, where they are not installed.

#[path = "support/helpers.rs"]
mod support;

use std::process::{Command, Stdio};
use std::time::Duration;

use mcpdeck::ErrorCode;
use mcpdeck::config::ServerName;
use mcpdeck::host::traffic::Direction;
use mcpdeck::host::{CallOptions, Host, ServerState, Startup};
use serde_json::{Value, json};
use support::{Bench, MARK, published, wait_for};

/// The servers, and how many tools they have at least.
const SERVERS: [(&str, usize); 7] = [
    ("everything", 13),
    ("filesystem", 14),
    ("memory", 9),
    ("sequential-thinking", 1),
    ("brave-search", 8),
    ("time", 2),
    ("git", 12),
];

/// A scratch folder with the servers' data, and the seven entries as they are shipped.
fn bench() -> Option<(Bench, Value)> {
    let bench = Bench::new();
    let mut entries = published(bench.path())?;
    for entry in entries.as_object_mut().expect("servers").values_mut() {
        entry["env"][MARK] = bench.mark().into();
    }
    Some((bench, entries))
}

async fn call(host: &Host, tool: &str, arguments: Value) -> Value {
    let outcome = host.call_tool(tool, arguments).await;
    let outcome = outcome.unwrap_or_else(|error| panic!("{tool}: {error}"));
    assert!(!outcome.is_error, "{tool}: {}", outcome.result);
    outcome.result.as_ref().clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn seven_servers_of_one_file_are_ready_listed_called_and_gone() {
    let Some((bench, entries)) = bench() else { return };
    let config = bench.servers(&entries);
    let host = Host::initialize(&config).await.unwrap_or_else(|error| panic!("{error}"));

    let all = host.get_tools();
    for (name, tools) in SERVERS {
        let (_, found) = all.iter().find(|(server, _)| server.as_str() == name).expect(name);
        assert!(found.tools.len() >= tools, "{name} has {} tools", found.tools.len());
    }
    let view = host.view().borrow().clone();
    assert!(view.servers.values().all(|server| server.state == ServerState::Ready));
    let everything = &view.servers[&ServerName::new("everything")].capabilities;
    assert!(everything.prompts.len() >= 4, "{} prompts", everything.prompts.len());
    assert!(everything.resources.len() >= 7, "{} resources", everything.resources.len());
    assert!(!everything.templates.is_empty());

    let said = call(&host, "everything.echo", json!({"message": "over the deck"})).await;
    assert!(said.to_string().contains("over the deck"), "{said}");
    let path = bench.path().join("hello.txt");
    let said = call(&host, "filesystem.read_text_file", json!({"path": path})).await;
    assert!(said.to_string().contains("Hello from the deck"), "{said}");
    let entity = json!({"name": "deck", "entityType": "program", "observations": ["flies"]});
    call(&host, "memory.create_entities", json!({"entities": [entity]})).await;
    let said = call(&host, "memory.read_graph", json!({})).await;
    assert!(said.to_string().contains("flies"), "{said}");
    let thought = json!({"thought": "one", "nextThoughtNeeded": false, "thoughtNumber": 1, "totalThoughts": 1});
    call(&host, "sequential-thinking.sequentialthinking", thought).await;
    let said = call(&host, "time.get_current_time", json!({"timezone": "Europe/Zurich"})).await;
    assert!(said.to_string().contains("Europe/Zurich"), "{said}");
    let repository = bench.path().join("repository");
    let said = call(&host, "git.git_log", json!({"repo_path": repository})).await;
    assert!(said.to_string().contains("first"), "{said}");

    let prompt = host
        .get_prompt("everything.args-prompt", json!({"city": "Bern"}), CallOptions::default())
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(prompt.result.to_string().contains("Bern"), "{}", prompt.result);
    let uri = everything.resources[0].uri.to_string();
    let resource = host.get_resource(&uri, CallOptions::default()).await;
    let resource = resource.unwrap_or_else(|error| panic!("{uri}: {error}"));
    assert!(resource.result["contents"][0].is_object(), "{}", resource.result);

    let report = host.shutdown().await;
    assert_eq!(report.exits.len(), 7);
    for (name, exit) in &report.exits {
        assert!(exit.expected, "{name}: {}", exit.describe());
    }
    bench.expect_nothing_left(Duration::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_of_the_wrong_type_are_refused_with_every_violation_and_not_sent() {
    let Some((bench, entries)) = bench() else { return };
    let config =
        bench.servers(&json!({"time": entries["time"], "everything": entries["everything"]}));
    let host = Host::initialize(&config).await.unwrap_or_else(|error| panic!("{error}"));
    let wrong = json!({"a": "one", "b": true});
    let error = host.call_tool("everything.get-sum", wrong).await.expect_err("refused");
    assert_eq!(error.code, ErrorCode::Validation);
    let pointers: Vec<&str> = error.violations.iter().map(|v| v.pointer.as_str()).collect();
    assert_eq!(pointers, ["/a", "/b"], "{error}");
    let sum = call(&host, "everything.get-sum", json!({"a": 2, "b": 3})).await;
    assert!(sum.to_string().contains('5'), "{sum}");
    let sent = host.traffic().tail(usize::MAX);
    let calls = sent.iter().filter(|record| {
        record.direction == Direction::Out && record.method.as_deref() == Some("tools/call")
    });
    assert_eq!(calls.count(), 1, "only the right one was sent");
    host.shutdown().await;
    bench.expect_nothing_left(Duration::ZERO);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_broken_entry_stops_all_or_leaves_the_rest_as_the_caller_chose() {
    let Some((bench, mut entries)) = bench() else { return };
    entries["broken"] = json!({"command": "mcpdeck-no-such-program", "args": []});
    let config = bench.servers(&entries);
    let refused = Host::builder().config_file(&config).startup(Startup::All).initialize().await;
    let error = refused.err().expect("one entry is broken");
    assert_eq!(error.code, ErrorCode::ServerStartup);
    assert!(error.to_string().contains("mcpdeck-no-such-program"), "{error}");
    bench.expect_nothing_left(Duration::ZERO);

    let host = Host::builder().config_file(&config).startup(Startup::Available).initialize().await;
    let host = host.unwrap_or_else(|error| panic!("{error}"));
    let ready = host.get_tools().len();
    assert_eq!(ready, 7, "the active list has those that started");
    call(&host, "time.get_current_time", json!({"timezone": "UTC"})).await;
    let view = host.view().borrow().clone();
    assert_eq!(view.servers[&ServerName::new("broken")].state, ServerState::Unavailable);
    host.shutdown().await;
    bench.expect_nothing_left(Duration::ZERO);
}

/// The type of a parameter as its schema names it.
fn parameter(tool: &mcpdeck::host::Tool, name: &str) -> Value {
    tool.input_schema["properties"][name]["type"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brave_search_and_filesystem_offer_the_expected_tools_with_their_parameters() {
    let Some((bench, entries)) = bench() else { return };
    let config = bench.servers(&json!({
        "brave-search": entries["brave-search"], "filesystem": entries["filesystem"],
    }));
    let host = Host::initialize(&config).await.unwrap_or_else(|error| panic!("{error}"));
    let expected = [
        ("brave-search", "brave_web_search", "query", "string"),
        ("brave-search", "brave_web_search", "count", "integer"),
        ("brave-search", "brave_local_search", "query", "string"),
        ("brave-search", "brave_news_search", "query", "string"),
        ("brave-search", "brave_image_search", "query", "string"),
        ("brave-search", "brave_video_search", "query", "string"),
        ("filesystem", "read_text_file", "path", "string"),
        ("filesystem", "read_text_file", "head", "number"),
        ("filesystem", "read_multiple_files", "paths", "array"),
        ("filesystem", "write_file", "path", "string"),
        ("filesystem", "write_file", "content", "string"),
        ("filesystem", "edit_file", "edits", "array"),
        ("filesystem", "edit_file", "dryRun", "boolean"),
        ("filesystem", "create_directory", "path", "string"),
        ("filesystem", "list_directory", "path", "string"),
        ("filesystem", "move_file", "source", "string"),
        ("filesystem", "move_file", "destination", "string"),
        ("filesystem", "search_files", "pattern", "string"),
        ("filesystem", "get_file_info", "path", "string"),
    ];
    let all = host.get_tools();
    for (server, tool, name, kind) in expected {
        let (_, found) = all.iter().find(|(found, _)| found.as_str() == server).expect(server);
        let found = found.tools.iter().find(|found| &*found.name == tool);
        let found = found.unwrap_or_else(|| panic!("{server} has no {tool}"));
        let have = parameter(found, name);
        let fits = have == kind || (kind == "integer" && have == "number");
        assert!(fits, "{server}.{tool}: {name} is {have}, expected {kind}");
    }
    host.shutdown().await;
    bench.expect_nothing_left(Duration::ZERO);
}

/// Names the configuration to the process that plays the host in the test below.
const HOST_CONFIG: &str = "MCPDECK_TEST_HOST_CONFIG";

/// No test of its own: with [`HOST_CONFIG`] set, this process is a host until it is killed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_another_test_kills() {
    let Some(config) = std::env::var_os(HOST_CONFIG) else { return };
    let host = Host::initialize(config).await;
    let _host = host.unwrap_or_else(|error| panic!("{error}"));
    std::future::pending::<()>().await;
}

#[cfg(target_os = "linux")]
#[test]
fn a_killed_host_leaves_none_of_seven_servers_behind() {
    let Some((bench, entries)) = bench() else { return };
    let config = bench.servers(&entries);
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "a_host_that_another_test_kills"])
        .env(HOST_CONFIG, config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the host starts");
    // One of the seven is npx with a shell and the server below it.
    wait_for("seven servers", Duration::from_secs(30), || {
        (bench.processes().len() >= 8).then_some(())
    });
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    bench.expect_nothing_left(Duration::from_secs(2));
}

#[test]
fn the_check_of_seven_servers_is_content() {
    let Some((bench, entries)) = bench() else { return };
    bench.servers(&entries);
    let finished = bench
        .run(&["--check", "--config", "mcp.json", "--format", "json"], Duration::from_secs(60));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let report = finished.json();
    assert_eq!(report["verdict"], "ok");
    assert_eq!(report["servers"].as_array().map(Vec::len), Some(7));
    bench.expect_nothing_left(Duration::ZERO);
}
