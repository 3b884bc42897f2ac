//! The embedded servers of `--demo`: real child processes of this same binary, so
//! that every part of the deck can be seen with nothing installed.
//!
//! `atlas` has everything that can be shown, `crew` sends requests to the user, `gremlin`
//! misbehaves and `beacon` speaks the newest protocol: all of them are scripts for the mock engine.
//! The chat's model is a script too.
//! Their answers are fixed, so that screens made from them can be compared.

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

mod show;

pub use show::show;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use base::ServerName;
use config::{McpConfig, RestartConfig, RestartPolicy, ServerConfig};
use mock::MockOptions;

/// The demo servers, in the order of the deck.
pub const NAMES: [&str; 4] = ["atlas", "crew", "gremlin", "beacon"];

/// The script of each of them.
const SCRIPTS: [&str; 4] = [
    include_str!("atlas.jsonc"),
    include_str!("crew.jsonc"),
    include_str!("gremlin.jsonc"),
    include_str!("beacon.jsonc"),
];

/// The script of the model that answers in the chat of the demo.
pub const CHAT_SCRIPT: &str = include_str!("chat.json");

/// Runs the demo server of this name over stdin and stdout; exit code 2 when there is none.
pub fn run(name: &str) -> ExitCode {
    let Some(at) = NAMES.iter().position(|known| *known == name) else { return ExitCode::from(2) };
    mock::run(MockOptions { script: Some(SCRIPTS[at].to_owned()), ..MockOptions::default() })
}

/// The configuration of the demo: its servers as children of the program at `exe`.
///
/// `crew` depends on `atlas`, to show a dependency; `gremlin` restarts after a crash.
pub fn config(exe: &Path) -> McpConfig {
    let mut config = McpConfig::default();
    for name in NAMES {
        let mut server = ServerConfig::stdio(name, exe.to_string_lossy(), ["demo-server", name]);
        match name {
            "crew" => server.dependencies.push(ServerName::new("atlas")),
            "gremlin" => {
                server.request_timeout = Duration::from_secs(10);
                server.shutdown_timeout = Duration::from_secs(3);
                server.restart =
                    RestartConfig { policy: RestartPolicy::OnFailure, ..RestartConfig::default() };
            }
            _ => {}
        }
        config.servers.insert(server.name.clone(), server);
    }
    config
}

#[cfg(test)]
mod tests {
    use super::*;
    use mock::script::ServerScript;

    #[test]
    fn every_script_of_the_demo_can_be_played_and_its_schemas_are_schemas() {
        for (name, script) in NAMES.iter().zip(SCRIPTS) {
            let script = ServerScript::parse(script, name).expect("a script");
            for tool in script.tools.as_ref().and_then(|tools| tools.as_array()).expect("tools") {
                for key in ["inputSchema", "outputSchema"] {
                    if let Some(schema) = tool.get(key) {
                        jsonschema::draft202012::meta::validate(schema)
                            .unwrap_or_else(|error| panic!("{} {key}: {error}", tool["name"]));
                    }
                }
            }
        }
    }
}
