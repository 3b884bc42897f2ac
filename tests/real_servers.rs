//! Acceptance tests with published servers: seven of them from one `mcp.json`, two with
//! dependencies, one through `npx`. Skipped with a message if they are not installed.

#[path = "real_servers/sign_in.rs"]
mod sign_in;
#[path = "support/helpers.rs"]
mod support;

use std::io::BufRead as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use mcpdeck::ErrorCode;
use mcpdeck::base::ServerName;
use mcpdeck::host::{ApprovalRequest, CallOptions, Host, RequestHandler, ServerState, Startup};
use mcpdeck::protocol::{Answer, Direction, Era, RequestKind};
use serde_json::{Value, json};
use support::{Bench, Guarded, MARK, published, real_servers, repo, wait_for};
use tokio_util::sync::CancellationToken;

/// The servers, and their minimum number of tools.
const SERVERS: [(&str, usize); 7] = [
    ("everything", 13),
    ("filesystem", 14),
    ("memory", 9),
    ("sequential-thinking", 1),
    ("brave-search", 8),
    ("time", 2),
    ("git", 12),
];

/// A temporary folder with the servers' data, and the seven entries as shipped.
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
        .get_prompt("everything.args-prompt", json!({"city": "Bern"}))
        .await
        .unwrap_or_else(|error| panic!("{error}"));
    assert!(prompt.result.to_string().contains("Bern"), "{}", prompt.result);
    let uri = everything.resources[0].uri.to_string();
    let resource = host.get_resource(&uri).await;
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

/// The type of a parameter in its schema.
fn parameter(tool: &mcpdeck::protocol::Tool, name: &str) -> Value {
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

/// Environment variable with the configuration for the host process in the test below.
const HOST_CONFIG: &str = "MCPDECK_TEST_HOST_CONFIG";

/// Not a test: with [`HOST_CONFIG`] set, this process is a host until it is killed.
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
    // One of the seven is npx with a shell and the server as its descendants.
    wait_for("seven servers", Duration::from_secs(30), || {
        (bench.processes().len() >= 8).then_some(())
    });
    child.kill().expect("a child of ours");
    child.wait().expect("a child of ours");
    bench.expect_nothing_left(Duration::from_secs(2));
}

#[test]
fn the_check_of_seven_servers_is_content() {
    let Some((bench, mut entries)) = bench() else { return };
    // Node under npx is slow to exit on a busy machine.
    entries["everything"]["shutdownTimeout"] = 30.into();
    bench.servers(&entries);
    let finished = bench
        .run(&["--check", "--config", "mcp.json", "--format", "json"], Duration::from_secs(60));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
    let report = finished.json();
    assert_eq!(report["verdict"], "ok");
    assert_eq!(report["servers"].as_array().map(Vec::len), Some(7));
    bench.expect_nothing_left(Duration::ZERO);
}

/// server-everything over Streamable HTTP, on loopback.
struct Web {
    url: String,
    port: u16,
    _process: Guarded,
}

impl Web {
    /// Starts it on this port, or on a free one for 0.
    fn start(bench: &Bench, port: u16) -> Option<Self> {
        let script = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";
        let mut child = Command::new("node")
            .arg("--require")
            .arg(repo("fixtures/servers/loopback.cjs"))
            .arg(real_servers()?.join(script))
            .arg("streamableHttp")
            .env(MARK, bench.mark())
            .env("MCPDECK_TEST_PORT", port.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("node starts");
        let mut lines = std::io::BufReader::new(child.stdout.take().expect("piped")).lines();
        let told = lines.find_map(|line| line.ok()?.strip_prefix("LISTENING ")?.parse().ok());
        let port: u16 = told.expect("it says where it listens");
        // Keeps reading its output, or it would block on a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let url = format!("http://127.0.0.1:{port}/mcp");
        Some(Self { url, port, _process: Guarded(child) })
    }

    fn entry(&self) -> Value {
        json!({"url": self.url, "roots": [{"uri": "file:///deck/hangar", "name": "hangar"}]})
    }
}

/// Accepts every request of a server.
struct Obliging;

impl RequestHandler for Obliging {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let content = json!({"type": "text", "text": "a view from the deck"});
        let answer = match request.kind {
            RequestKind::Sampling => {
                json!({"role": "assistant", "model": "m", "stopReason": "endTurn", "content": content})
            }
            RequestKind::Elicitation => {
                json!({"action": "accept", "content": {"name": "Ada", "check": true}})
            }
            _ => return Box::pin(std::future::ready(None)),
        };
        Box::pin(std::future::ready(Some(Answer::Result(answer))))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_server_behind_a_url_does_everything_a_process_does() {
    let bench = Bench::new();
    let Some(web) = Web::start(&bench, 0) else { return };
    let config = bench.servers(&json!({"web": web.entry()}));
    let host = Host::builder().config_file(&config).handler(Obliging).initialize().await;
    let host = host.unwrap_or_else(|error| panic!("{error}"));
    let view = host.view().borrow().clone();
    let server = &view.servers[&ServerName::new("web")];
    let session = server.session.clone().expect("it is connected");
    assert_eq!((session.era, session.protocol_version.as_str()), (Era::Legacy, "2025-11-25"));
    let lists = &server.capabilities;
    assert!(lists.tools.len() >= 15, "{} tools", lists.tools.len());
    assert!(lists.prompts.len() >= 4 && lists.resources.len() >= 7);

    let said = call(&host, "web.echo", json!({"message": "over HTTP"})).await;
    assert!(said.to_string().contains("over HTTP"), "{said}");
    let said = call(&host, "web.trigger-sampling-request", json!({"prompt": "look"})).await;
    assert!(said.to_string().contains("a view from the deck"), "{said}");
    let said = call(&host, "web.trigger-elicitation-request", json!({})).await;
    assert!(said.to_string().contains("Ada"), "{said}");
    let said = call(&host, "web.get-roots-list", json!({})).await;
    assert!(said.to_string().contains("hangar"), "{said}");

    let (progress, mut steps) = tokio::sync::mpsc::channel(16);
    let options = CallOptions { progress: Some(progress), ..CallOptions::default() };
    let long = json!({"duration": 1, "steps": 4});
    let outcome = host.call_tool_with("web.trigger-long-running-operation", long, options).await;
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let mut last = 0.0;
    while let Ok(step) = steps.try_recv() {
        last = step.progress;
    }
    assert!((last - 4.0).abs() < f64::EPSILON, "the last step was {last}");

    // 50 concurrent calls, each with its own answer.
    let calls = (0..50).map(|n| {
        let host = &host;
        async move { call(host, "web.echo", json!({"message": format!("number {n}.")})).await }
    });
    for (n, said) in futures::future::join_all(calls).await.into_iter().enumerate() {
        assert!(said.to_string().contains(&format!("number {n}.")), "{said}");
    }
    let findings = &host.view().borrow().servers[&ServerName::new("web")].finding_counts.clone();
    assert!(findings.is_empty(), "nothing is wrong with it: {findings:?}");
    host.shutdown().await;

    let checked = ["--check", "--config", "mcp.json", "--format", "json"];
    let finished = bench.run(&checked, Duration::from_secs(60));
    assert_eq!(finished.code, Some(0), "{finished:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_published_server_that_is_restarted_behind_its_url_is_used_on() {
    let bench = Bench::new();
    let Some(web) = Web::start(&bench, 0) else { return };
    let mut entry = web.entry();
    entry["retry"] = json!({"maxRetries": 0});
    let config = bench.servers(&json!({"web": entry}));
    let host = Host::initialize(&config).await.unwrap_or_else(|error| panic!("{error}"));
    call(&host, "web.echo", json!({"message": "before"})).await;
    let port = web.port;
    drop(web);
    bench.expect_nothing_left(Duration::from_secs(10));
    let error = host.call_tool("web.echo", json!({"message": "x"})).await.expect_err("it is gone");
    assert_eq!(error.code, ErrorCode::ServerUnavailable, "{error}");
    // The connection that was kept is known to have ended, or ends under the call.
    let words = ["cannot connect", "the request failed"];
    assert!(words.iter().any(|words| error.message.starts_with(words)), "{error}");
    // It is reconnected automatically, in a new session.
    let again = Web::start(&bench, port);
    let state = |host: &Host| host.view().borrow().servers[&ServerName::new("web")].state;
    wait_for("it is ready again", Duration::from_secs(30), || {
        (state(&host) == ServerState::Ready).then_some(())
    });
    let said = call(&host, "web.echo", json!({"message": "after"})).await;
    assert!(said.to_string().contains("after"), "{said}");
    let loaded = mcpdeck::config::load(&[config], &mcpdeck::config::Environment::of_process());
    let mut loaded = loaded.and_then(mcpdeck::config::Loaded::complete).expect("valid");
    // A reload with a changed setting opens a new session; calls still work.
    for server in loaded.servers.values_mut() {
        server.request_timeout = Duration::from_secs(7);
    }
    host.reload(loaded).await.expect("valid");
    host.start(&ServerName::new("web")).await.expect("it is ready again");
    let said = call(&host, "web.echo", json!({"message": "reloaded"})).await;
    assert!(said.to_string().contains("reloaded"), "{said}");
    host.shutdown().await;
    drop(again);
    bench.expect_nothing_left(Duration::from_secs(10));
}
