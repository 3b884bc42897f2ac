//! The ten servers of the soak: their script and their configuration.

use std::path::Path;
use std::time::Duration;

use mcpdeck::base::ServerName;
use mcpdeck::base::secret::Secret;
use mcpdeck::config::{McpConfig, ServerConfig, StdioConfig, TransportConfig};
use serde_json::{Value, json};

/// How many servers there are.
pub const SERVERS: usize = 10;
/// Tools that are called at random; each says the number back that it was given.
pub const TOOLS: [&str; 12] = [
    "echo", "echo", "echo", "slow", "flood", "notes", "babble", "twice", "big", "change", "junk",
    "odd",
];
/// Tools every server has, whatever it went through; `change` adds one more.
pub const NAMES: [&str; 11] =
    ["echo", "slow", "flood", "notes", "babble", "junk", "twice", "big", "die", "change", "odd"];
/// The server that sends pings and reads their answers slowly.
pub const PINGER: usize = 7;
/// The server whose children become daemons that make more of them.
const DAEMON: usize = 8;
/// The server whose definitions change to and fro.
const FLAPPER: usize = 9;
/// Gives every line on, with a pause.
const SLOWLY: &str =
    "while IFS= read -r line; do printf '%s\\n' \"$line\"; sleep 0.005; done | \"$0\" \"$@\"";
/// Sessions of their own, one after the other, with our environment.
const DAEMONS: &str = "for n in 1 2 3 4 5; do setsid sleep 600 & sleep 0.03; done";
/// The environment variable that marks every process of one soak.
pub const MARK: &str = "MCPDECK_SOAK";

/// The name of a server.
pub fn name(number: usize) -> ServerName {
    ServerName::new(&format!("s{number}"))
}

/// What the servers do: answer, be slow, flood, change their lists, babble, die; and what is odd
/// about one of them.
fn script(number_of_server: usize) -> String {
    let tool = |name: &str| {
        json!({"name": name, "description": format!("Does what it is called, {name}"),
            "inputSchema": {"type": "object"}})
    };
    let tools: Vec<Value> = NAMES.iter().map(|name| tool(name)).collect();
    let mut more = tools.clone();
    more.push(tool("extra-${count}"));
    let number = json!({"text": "${arguments.n}"});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/message",
        "params": {"level": "info", "data": "note ${i}"}});
    let odd = match number_of_server {
        PINGER => json!([{"repeat": {"times": 5000, "do": {"send":
            {"jsonrpc": "2.0", "id": "ping ${i}", "method": "ping"}}}}, number]),
        DAEMON => json!([{"spawn": {"command": ["setsid", "sh", "-c", DAEMONS]}}, number]),
        _ => number.clone(),
    };
    let mut flapping = tools.clone();
    flapping[0]["description"] = "Says it again, ${i}".into();
    let changed = json!({"notify": {"method": "notifications/tools/list_changed"}});
    let flap = json!({"background": {"repeat": {"every": 40, "do":
        [{"set": {"tools": flapping}}, changed, {"delay": 40}, {"set": {"tools": tools}}, changed]}}});
    let initialized = if number_of_server == FLAPPER { flap } else { json!([]) };
    let long = json!({"$text": {"of": "0123456789", "times": 50_000}});
    json!({
        "capabilities": {"tools": {"listChanged": true}, "logging": {}},
        "tools": tools,
        "calls": {
            "echo": number,
            "slow": [{"progress": {"steps": 5, "every": 20}}, number],
            "flood": [{"flood": {"to": "stderr", "lines": 20_000}}, number],
            "notes": [{"flood": {"json": note, "lines": 3000}}, number],
            "babble": [{"line": "no JSON at all"}, number],
            "junk": [{"flood": {"line": "junk ${i}", "lines": 2000}}, number],
            "twice": [number, {"text": "again"}],
            "big": {"answer": {"content": [
                {"type": "text", "text": {"$text": {"of": "${arguments.n}", "times": 1}}},
                {"type": "text", "text": long}]}},
            "die": [{"stderr": "as asked"}, {"exit": 1}],
            "change": [{"set": {"tools": more}}, changed, number],
            "odd": odd,
        },
        "on": {"SIGTERM": {"exit": 0}, "notifications/initialized": initialized},
    })
    .to_string()
}

/// The configuration. One server changes with every generation; the others must keep their
/// processes through a reload.
pub fn config(program: &Path, generation: u64) -> McpConfig {
    let mut config = McpConfig::default();
    for number in 0..SERVERS {
        let program = program.to_string_lossy().into_owned();
        let script = ["mock".to_owned(), "--script".to_owned(), script(number)];
        let (command, args) = if number == PINGER {
            let shell = ["-c".to_owned(), SLOWLY.to_owned(), program];
            ("sh".to_owned(), shell.into_iter().chain(script).collect())
        } else {
            (program, script.to_vec())
        };
        let changing = if number == 0 { generation } else { 0 };
        let stdio = StdioConfig {
            command,
            args,
            env: [
                ("SOAK_GENERATION".to_owned(), Secret::new(changing.to_string())),
                (MARK.to_owned(), Secret::new(std::process::id().to_string())),
            ]
            .into(),
            cwd: None,
            inherit_env: false,
            limits: mcpdeck::config::ProcessLimits::default(),
        };
        let name = name(number);
        let mut server = ServerConfig::new(name.clone(), TransportConfig::Stdio(stdio));
        server.shutdown_timeout = Duration::from_secs(2);
        server.restart.policy = mcpdeck::config::RestartPolicy::OnFailure;
        server.restart.max = 1_000_000;
        server.restart.backoff = Duration::from_millis(50);
        config.servers.insert(name, server);
    }
    config
}
