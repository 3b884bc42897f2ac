//! A soak: ten servers under random calls, kills, stops, restarts, floods, reloads and list
//! changes, for a bounded time. At the end every call was answered exactly once, and memory, files,
//! threads and processes are back where they began.
//!
//! `cargo run --release --example soak -- [SECONDS] [SEED]` (default 60 seconds, a random seed,
//! which is printed). Needs the program beside the example: `cargo build --release` first.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mcpdeck::config::{McpConfig, ServerConfig, ServerName, StdioConfig, TransportConfig};
use mcpdeck::host::{CallOptions, Host, Startup};
use serde_json::json;

const SERVERS: usize = 10;
const CALLERS: usize = 8;

/// What the servers do: answer, be slow, flood, change their lists, babble, die.
const SCRIPT: &str = r#"{
  "tools": [
    {"name": "echo", "description": "Says it back", "inputSchema": {"type": "object"}},
    {"name": "slow", "description": "Takes its time", "inputSchema": {"type": "object"}},
    {"name": "flood", "description": "Writes much", "inputSchema": {"type": "object"}},
    {"name": "babble", "description": "Writes junk", "inputSchema": {"type": "object"}},
    {"name": "twice", "description": "Answers twice", "inputSchema": {"type": "object"}},
    {"name": "big", "description": "Answers much", "inputSchema": {"type": "object"}},
    {"name": "die", "description": "Dies", "inputSchema": {"type": "object"}},
    {"name": "change", "description": "Changes its list", "inputSchema": {"type": "object"}}
  ],
  "calls": {
    "slow": [{"progress": {"steps": 5, "every": 20}}, {"text": "${arguments.n}"}],
    "flood": [{"flood": {"to": "stderr", "lines": 20000}}, {"text": "${arguments.n}"}],
    "babble": [{"line": "no JSON at all"}, {"text": "${arguments.n}"}],
    "twice": [{"text": "${arguments.n}"}, {"text": "again"}],
    "big": {"answer": {"content": [{"type": "text", "text": {"$text": {"of": "${arguments.n}", "times": 1}}}, {"type": "text", "text": {"$text": {"of": "0123456789", "times": 50000}}}]}},
    "die": [{"stderr": "as asked"}, {"exit": 1}],
    "change": [{"set": {"resources": [{"uri": "x://${count}", "name": "r"}]}}, {"notify": {"method": "notifications/tools/list_changed"}}, {"text": "${arguments.n}"}],
    "echo": {"text": "${arguments.n}"}
  },
  "on": {"SIGTERM": {"exit": 0}}
}"#;

#[derive(Default)]
struct Tally {
    asked: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    wrong: AtomicU64,
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(60);
    let seed = args.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let Some(program) = program() else {
        say("the program mcpdeck is not beside this example: build it first");
        return ExitCode::FAILURE;
    };
    say(&format!("soak of {seconds} s with seed {seed}"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let clean = runtime.block_on(soak(&program, Duration::from_secs(seconds), seed));
    say(if clean { "clean" } else { "NOT CLEAN" });
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The program in the folder of the build, one above the examples.
fn program() -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let program = here.parent()?.parent()?.join(format!("mcpdeck{}", std::env::consts::EXE_SUFFIX));
    program.exists().then_some(program)
}

fn config(program: &Path, generation: u64) -> McpConfig {
    let mut config = McpConfig::default();
    for number in 0..SERVERS {
        // One server changes with every reload; the others must keep their processes.
        let mark = if number == 0 { generation } else { 0 };
        let stdio = StdioConfig {
            command: program.to_string_lossy().into_owned(),
            args: vec!["mock".into(), "--script".into(), SCRIPT.into()],
            env: [("SOAK_MARK".to_owned(), mcpdeck::secret::Secret::new(mark.to_string()))].into(),
            cwd: None,
            inherit_env: false,
            limits: mcpdeck::config::ProcessLimits::default(),
        };
        let name = ServerName::new(&format!("s{number}"));
        let mut server = ServerConfig::new(name.clone(), TransportConfig::Stdio(stdio));
        server.shutdown_timeout = Duration::from_secs(2);
        server.restart.policy = mcpdeck::config::RestartPolicy::OnFailure;
        server.restart.max = 1_000_000;
        server.restart.backoff = Duration::from_millis(50);
        config.servers.insert(name, server);
    }
    config
}

async fn soak(program: &Path, time: Duration, seed: u64) -> bool {
    // The first host pays for what is made once per process, and fills what is bounded: pools,
    // rings, the allocator's own stock. Growth after it would be a leak.
    let warm_up = (time / 4).clamp(Duration::from_secs(10), Duration::from_secs(120));
    let Some(host) = start(program).await else { return false };
    storm(&host, program, warm_up, seed, &Arc::default()).await;
    host.shutdown().await;
    drop(host);
    settle().await;
    let before = resources();
    say(&format!("before: {before:?}"));

    let tally = Arc::new(Tally::default());
    let Some(host) = start(program).await else { return false };
    storm(&host, program, time, seed, &tally).await;
    let in_flight = host.calls().len();
    host.shutdown().await;
    drop(host);
    settle().await;
    let after = resources();
    say(&format!("after:  {after:?}"));

    let count = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
    let (asked, answered) = (count(&tally.asked), count(&tally.answered));
    let (refused, wrong) = (count(&tally.refused), count(&tally.wrong));
    say(&format!("calls: {asked} asked, {answered} answered, {refused} refused, {wrong} wrong"));
    let grown = after["memory"].saturating_sub(before["memory"]);
    let checks = [
        ("every call ended once", asked == answered + refused + wrong && in_flight == 0),
        ("no call got another's answer", wrong == 0),
        ("most calls were answered", answered * 2 > asked),
        ("no processes are left", after["processes"] == 0),
        ("no files are left", after["files"] <= before["files"]),
        ("no threads are left", after["threads"] <= before["threads"] + 2),
        ("memory came back (within 32 MiB)", grown < 32 << 20),
    ];
    for (what, holds) in checks {
        say(&format!("{} {what}", if holds { "ok    " } else { "FAILED" }));
    }
    checks.iter().all(|(_, holds)| *holds)
}

async fn start(program: &Path) -> Option<Host> {
    let host = Host::builder().config(config(program, 0)).startup(Startup::Available);
    host.initialize().await.map_err(|error| say(&error.to_string())).ok()
}

/// Callers call, and one trouble-maker makes trouble, until the time is up.
async fn storm(host: &Host, program: &Path, time: Duration, seed: u64, tally: &Arc<Tally>) {
    let until = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64 + 1));
        tasks.spawn(caller(host.clone(), random, until, Arc::clone(tally)));
    }
    let random = fastrand::Rng::with_seed(seed);
    tasks.spawn(trouble(host.clone(), program.to_owned(), random, until));
    tasks.spawn(watch(time));
    while tasks.join_next().await.is_some() {}
}

async fn caller(host: Host, mut random: fastrand::Rng, until: Instant, tally: Arc<Tally>) {
    const TOOLS: [&str; 9] =
        ["echo", "echo", "echo", "slow", "flood", "babble", "twice", "big", "change"];
    while Instant::now() < until {
        let number = tally.asked.fetch_add(1, Ordering::SeqCst);
        let tool = TOOLS[random.usize(..TOOLS.len())];
        let name = format!("s{}.{tool}", random.usize(..SERVERS));
        let options = CallOptions::default();
        if random.u8(..) < 8 {
            let cancel = options.cancel.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                cancel.cancel();
            });
        }
        let counter = match host.call_tool_with(&name, json!({"n": number}), options).await {
            Ok(outcome) if said(&outcome.result) == Some(number) => &tally.answered,
            Ok(outcome) => {
                if tally.wrong.load(Ordering::SeqCst) < 5 {
                    say(&format!("{name} {number}: {}", outcome.result["content"][0]));
                }
                &tally.wrong
            }
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                &tally.refused
            }
        };
        counter.fetch_add(1, Ordering::SeqCst);
    }
}

/// The number a server said.
fn said(result: &serde_json::Value) -> Option<u64> {
    result["content"][0]["text"].as_str()?.parse().ok()
}

async fn trouble(host: Host, program: PathBuf, mut random: fastrand::Rng, until: Instant) {
    let mut generation = 0;
    let mut done: BTreeMap<&str, u64> = BTreeMap::new();
    while Instant::now() < until {
        let server = ServerName::new(&format!("s{}", random.usize(..SERVERS)));
        let what = match random.u8(..6) {
            0 => {
                let pid = host.view().borrow().servers.get(&server).and_then(|view| view.pid);
                if let Some(pid) = pid {
                    let _ = std::process::Command::new("kill")
                        .args(["-KILL", &pid.to_string()])
                        .stderr(std::process::Stdio::null())
                        .status();
                }
                "kill"
            }
            1 => {
                let _ = host.stop(&server).await;
                let _ = host.start(&server).await;
                "stop and start"
            }
            2 => {
                let _ = host.restart(&server).await;
                "restart"
            }
            3 => {
                let _ = host.call_tool(&format!("{server}.die"), json!({})).await;
                "die"
            }
            4 => {
                generation += 1;
                let _ = host.reload(config(&program, generation)).await;
                "reload"
            }
            _ => {
                let _ = host.refresh(&server).await;
                "refresh"
            }
        };
        *done.entry(what).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(random.u64(20..200))).await;
    }
    // What was stopped in the last moment is brought back, so that the end is a normal one.
    for number in 0..SERVERS {
        let _ = host.start(&ServerName::new(&format!("s{number}"))).await;
    }
    say(&format!("trouble: {done:?}"));
}

/// Tells the memory ten times on the way, so that a slow growth is seen.
async fn watch(time: Duration) {
    let mut seen = Vec::new();
    for _ in 0..10 {
        tokio::time::sleep(time / 11).await;
        seen.push(resources()["memory"] >> 20);
    }
    say(&format!("memory on the way, MiB: {seen:?}"));
}

/// Waits until nothing changes any more, at most ten seconds.
async fn settle() {
    let mut last = resources();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut now = resources();
        now.insert("memory", 0);
        last.insert("memory", 0);
        if now == last && now["processes"] == 0 {
            return;
        }
        last = now;
    }
}

/// Memory in bytes, open files, threads and children of this process; zeros where the system does
/// not say.
fn resources() -> BTreeMap<&'static str, u64> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let figure = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let count = |path: &str| std::fs::read_dir(path).map_or(0, |entries| entries.count() as u64);
    let children = std::fs::read_dir("/proc/self/task").map_or(0, |tasks| {
        let of_task = |task: std::fs::DirEntry| {
            let children = std::fs::read_to_string(task.path().join("children"));
            children.map_or(0, |text| text.split_whitespace().count() as u64)
        };
        tasks.flatten().map(of_task).sum()
    });
    BTreeMap::from([
        ("memory", figure("VmRSS:").unwrap_or(0) * 1024),
        ("threads", figure("Threads:").unwrap_or(0)),
        ("files", count("/proc/self/fd")),
        ("processes", children),
    ])
}
