//! Large answers, from a server process to the screen. Each is measured in its own process, for a
//! separate memory peak; the server is also this program.

use std::io::{BufRead, Write};
use std::process::Command;
use std::time::{Duration, SystemTime};

use indexmap::IndexMap;
use mcpdeck::config::{McpConfig, ProcessLimits, ServerConfig, StdioConfig, TransportConfig};
use mcpdeck::tui::action::Action;
use mcpdeck::tui::form::draw::Styles;
use mcpdeck::tui::pane::Out;
use mcpdeck::tui::result::ResultView;
use mcpdeck::{Host, Startup};
use ratatui::buffer::Buffer;
use serde_json::json;

use super::{AREA, median};

/// The measurements: argument, description, and goal for the first screen in ms.
const KINDS: [(&str, &str, u64); 5] = [
    ("text-1", "1 MB of text", 100),
    ("text-100", "100 MB of text", 1_000),
    ("line-100", "100 MB in one line", 1_000),
    ("numbers", "a list of 1,000,000 numbers", 1_000),
    ("objects", "a list of 1,000,000 small objects", 1_000),
];

/// The result of one kind, as JSON text.
fn result(kind: &str) -> String {
    let line = "a line of text as servers send them, with some words in it\\n";
    let text = |text: String| format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#);
    let list = |item: fn(u32) -> String| {
        let items: Vec<String> = (0..1_000_000).map(item).collect();
        format!(r#"{{"content":[],"structuredContent":{{"items":[{}]}}}}"#, items.join(","))
    };
    match kind {
        "text-1" => text(line.repeat(1_000_000 / line.len())),
        "text-100" => text(line.repeat(100_000_000 / line.len())),
        "line-100" => text("x".repeat(100_000_000)),
        "numbers" => list(|i| i.to_string()),
        _ => list(|i| format!(r#"{{"id":{i}}}"#)),
    }
}

/// A small result of the same kind, for a warm-up call that takes one-time costs: page faults,
/// thread pools, the pipe.
fn small(kind: &str) -> String {
    match kind {
        "numbers" | "objects" => r#"{"content":[],"structuredContent":{"items":[1,{"id":2}]}}"#,
        _ => r#"{"content":[{"type":"text","text":"a line of text\nand one more"}]}"#,
    }
    .to_owned()
}

/// Serves one tool. Once its answer is sent, writes the time to `mark`.
pub fn serve(kind: &str, mark: &str) {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: serde_json::Value = serde_json::from_str(&line).unwrap();
        let Some(id) = message.get("id") else { continue };
        let answer = match message["method"].as_str() {
            Some("initialize") => {
                json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "large", "version": "1"}})
                .to_string()
            }
            Some("tools/list") => {
                json!({"tools": [{"name": "get", "inputSchema": {"type": "object"}}]}).to_string()
            }
            Some("tools/call") if message["params"]["arguments"]["warm"] == true => small(kind),
            Some("tools/call") => result(kind),
            _ => "{}".to_owned(),
        };
        let called =
            message["method"] == "tools/call" && message["params"]["arguments"]["warm"] != true;
        output.write_all(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#).as_bytes()).unwrap();
        output.write_all(answer.as_bytes()).unwrap();
        output.write_all(b"}\n").unwrap();
        output.flush().unwrap();
        if called {
            std::fs::write(mark, micros().to_string()).unwrap();
        }
    }
}

/// Measures every kind and prints the figures.
pub fn all() {
    for (kind, name, goal) in KINDS {
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program).args(["form", "measure", kind]).output().unwrap();
        let figures = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut figures = figures.split_whitespace().map(|word| word.parse::<f64>().unwrap());
        let mut next = || figures.next().unwrap_or(f64::NAN);
        let (payload, first, scroll, search, peak) = (next(), next(), next(), next(), next());
        println!("answer, {name}: {:.1} MB", payload / 1e6);
        println!("  arrived to first screen: goal {goal} ms{:>20.1} ms", first / 1e3);
        println!("  one page, drawn: goal 16 ms{:>26.3} ms", scroll / 1e3);
        println!("  a search through all of it{:>27.1} ms", search / 1e3);
        println!("  peak memory over payload: goal 4{:>21.2}", peak / payload);
        print!("{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Calls the server once, as the program does, and prints payload, first screen, scroll step,
/// search (microseconds) and memory (bytes).
pub fn measure(kind: &str) {
    let mark = std::env::temp_dir().join(format!("mcpdeck-bench-{}", std::process::id()));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let host = runtime.block_on(start(kind, &mark.display().to_string()));
    let look = Styles::default();
    let mut buf = Buffer::empty(AREA);
    let mut call = |arguments| {
        let outcome = runtime.block_on(host.call_tool("large.get", arguments)).unwrap();
        let mut view = ResultView::new(outcome.result.clone(), outcome.output_violations.clone());
        view.prepare(AREA, &look);
        view.render(&look, AREA, &mut buf);
        view
    };
    drop(call(json!({"warm": true})));
    // Resets the peak (proc(5), clear_refs).
    std::fs::write("/proc/self/clear_refs", "5").unwrap();
    let before = memory("VmRSS:");
    let mut view = call(json!({}));
    let shown = micros();
    let sent: u128 = loop {
        if let Some(at) = std::fs::read_to_string(&mark).ok().and_then(|text| text.parse().ok()) {
            break at;
        }
    };
    let _ = std::fs::remove_file(&mark);
    view.apply(Action::Bottom, &mut Out::default());
    let scroll = median(21, || {
        view.apply(Action::PageUp, &mut Out::default());
        view.render(&look, AREA, &mut buf);
    });
    let began = std::time::Instant::now();
    view.search("not in there at all", &mut Out::default());
    let search = began.elapsed();
    let peak = memory("VmHWM:").saturating_sub(before);
    println!(
        "{} {} {} {} {peak}",
        result(kind).len(),
        shown.saturating_sub(sent),
        scroll.as_micros(),
        search.as_micros(),
    );
    runtime.block_on(host.shutdown());
}

async fn start(kind: &str, mark: &str) -> Host {
    let stdio = StdioConfig {
        command: std::env::current_exe().unwrap().to_string_lossy().into_owned(),
        args: ["form", "serve", kind, mark].map(str::to_owned).into(),
        env: IndexMap::new(),
        cwd: None,
        inherit_env: false,
        limits: ProcessLimits::default(),
    };
    let mut server = ServerConfig::new("large".into(), TransportConfig::Stdio(stdio));
    server.wire.line_bytes = 256 << 20;
    server.wire.nodes = 10_000_000;
    let mut config = McpConfig::default();
    config.servers.insert(server.name.clone(), server);
    Host::builder().config(config).startup(Startup::All).initialize().await.unwrap()
}

fn micros() -> u128 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or(Duration::ZERO).as_micros()
}

/// A memory figure of this process from `/proc`, in bytes.
fn memory(key: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    let kilobytes: usize =
        line.split_whitespace().next().and_then(|n| n.parse().ok()).unwrap_or_default();
    kilobytes * 1024
}
