//! Calls per second of the fuzzer beside a bare loop over the same server, in one run: the cases of
//! every tool of `fixtures/bench/faulty.py sound`, (a) one after the other over a raw pipe, each sent
//! when the one before it is answered, and (b) by `mcpdeck test --fuzz`. Prints the calls per second of
//! each round, and the median of the ratios b/a with their middle half.
//!
//! `cargo bench --bench figures -- fuzz [ROUNDS]` (default 9); the goal is a ratio of at least 0.9.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use mcpdeck::bench::fuzz::{
    DEFAULT_CALL_TIMEOUT, DEFAULT_CASES, DEFAULT_SEED, FuzzPlan, FuzzSettings, fuzz,
};
use mcpdeck::bench::generate::CaseMaker;
use mcpdeck::bench::stage::BenchSource;
use mcpdeck::check::run::CheckSignals;
use mcpdeck::config::{McpConfig, ServerConfig, StdioConfig, TransportConfig};
use serde_json::{Value, json};

use crate::report::{Figure, Goal};

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/bench/faulty.py");
const DEFAULT_ROUNDS: usize = 9;
/// How often the bare loop makes all calls: about as many as the fuzzer makes.
const BARE_ROUNDS: usize = 8;

/// Measures as many rounds as the words say.
pub fn measure(words: &[String]) {
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(DEFAULT_ROUNDS);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let mut ratios = Vec::new();
    for round in 0..=rounds {
        let (bare, calls) = bare_loop();
        let report = runtime.block_on(fuzz(&plan(), &CheckSignals::default(), &|_| ()));
        assert!(report.failed.is_empty(), "{:?}", report.failed);
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        // The first round warms up.
        if round > 0 {
            let ratio = report.calls_per_second / bare;
            println!(
                "bare {bare:>6.0}/s of {calls}   fuzzer {:>6.0}/s of {}   {ratio:.2}",
                report.calls_per_second, report.calls
            );
            ratios.push(ratio);
        }
    }
    let goal = Goal::AtLeast(0.9);
    Figure { what: "fuzzer, calls a second", against: "a bare loop", unit: "", goal }
        .state(&mut ratios);
}

fn plan() -> FuzzPlan {
    let stdio = StdioConfig {
        command: "python3".to_owned(),
        args: vec![SERVER.into(), "sound".into()],
        env: [].into(),
        cwd: None,
        inherit_env: true,
        limits: mcpdeck::config::ProcessLimits::default(),
    };
    let mut config = McpConfig::default();
    let server = ServerConfig::new("sound".into(), TransportConfig::Stdio(stdio));
    config.servers.insert(server.name.clone(), server);
    FuzzPlan {
        source: BenchSource {
            config,
            policy: Vec::new(),
            accounts: None,
            timeout: None,
            reveal: false,
        },
        tools: Vec::new(),
        settings: FuzzSettings::default(),
        beside: PathBuf::new(),
        seed: DEFAULT_SEED,
        cases: DEFAULT_CASES,
        timeout: DEFAULT_CALL_TIMEOUT,
        fresh: false,
        sequences: false,
    }
}

/// Calls per second of a loop that does nothing else, and how many calls it made.
fn bare_loop() -> (f64, usize) {
    let mut server = Bare::start();
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
                        "clientInfo": {"name": "bare", "version": "1"}});
    server.request("initialize", &params);
    let listed = server.request("tools/list", &json!({}));
    let mut calls = Vec::new();
    for tool in listed["result"]["tools"].as_array().unwrap() {
        let maker = CaseMaker::new(&Arc::new(tool["inputSchema"].clone()));
        let smallest = maker.smallest().unwrap();
        for case in maker.cases_from(smallest, DEFAULT_SEED, DEFAULT_CASES / 4) {
            calls.push(json!({"name": tool["name"], "arguments": case.arguments}));
        }
    }
    let began = Instant::now();
    for call in std::iter::repeat_n(&calls, BARE_ROUNDS).flatten() {
        server.request("tools/call", call);
    }
    let many = calls.len() * BARE_ROUNDS;
    (many as f64 / began.elapsed().as_secs_f64(), many)
}

struct Bare {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    id: u64,
}

impl Bare {
    fn start() -> Self {
        let mut child = Command::new("python3")
            .args([SERVER, "sound"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, stdin, stdout: BufReader::new(stdout), id: 0 }
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        self.id += 1;
        let message = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        // One write for each message.
        self.stdin.write_all(format!("{message}\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
