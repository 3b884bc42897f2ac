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
pub const TOOLS: [&str; 11] =
    ["echo", "echo", "echo", "slow", "flood", "notes", "babble", "twice", "big", "change", "junk"];
/// Tools every server has, whatever it went through; `change` adds one more.
pub const NAMES: [&str; 10] =
    ["echo", "slow", "flood", "notes", "babble", "junk", "twice", "big", "die", "change"];
/// The environment variable that marks every process of one soak.
pub const MARK: &str = "MCPDECK_SOAK";

/// The name of a server.
pub fn name(number: usize) -> ServerName {
    ServerName::new(&format!("s{number}"))
}

/// What the servers do: answer, be slow, flood, change their lists, babble, die.
fn script() -> String {
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
            "change": [{"set": {"tools": more}},
                {"notify": {"method": "notifications/tools/list_changed"}}, number],
        },
        "on": {"SIGTERM": {"exit": 0}},
    })
    .to_string()
}

/// The configuration. One server changes with every generation; the others must keep their
/// processes through a reload.
pub fn config(program: &Path, generation: u64) -> McpConfig {
    let mut config = McpConfig::default();
    let script = script();
    for number in 0..SERVERS {
        let changing = if number == 0 { generation } else { 0 };
        let stdio = StdioConfig {
            command: program.to_string_lossy().into_owned(),
            args: vec!["mock".into(), "--script".into(), script.clone()],
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
