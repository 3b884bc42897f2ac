//! The embedded servers of `--demo` (requirement T7): real child processes of this same binary, so
//! that every part of the deck can be seen with nothing installed.
//!
//! `atlas` is a server on rmcp with everything that can be shown; `crew` asks, `gremlin`
//! misbehaves and `beacon` speaks the newest protocol: these are scripts for the mock engine. The
//! [`Purser`] stands in for a model that drafts answers. What
//! the servers say is fixed, so that screens made from them can be compared.

mod atlas;
mod chart;
mod geo;
mod purser;
mod show;
mod tools;

pub use purser::Purser;
pub use show::show;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use rmcp::ServiceExt as _;

use crate::base::ServerName;
use crate::config::{McpConfig, RestartConfig, RestartPolicy, ServerConfig};
use crate::mock::MockOptions;

/// The demo servers, in the order of the deck.
pub const NAMES: [&str; 4] = ["atlas", "crew", "gremlin", "beacon"];

/// Runs the demo server of this name over stdin and stdout; 2 when there is none.
pub fn run(name: &str) -> ExitCode {
    let script = match name {
        "atlas" => return run_atlas(),
        "crew" => include_str!("demo/crew.jsonc"),
        "gremlin" => include_str!("demo/gremlin.jsonc"),
        "beacon" => include_str!("demo/beacon.jsonc"),
        _ => return ExitCode::from(2),
    };
    crate::mock::run(MockOptions { script: Some(script.to_owned()), ..MockOptions::default() })
}

fn run_atlas() -> ExitCode {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return ExitCode::FAILURE;
    };
    runtime.block_on(async {
        // A host that speaks 2026-07-28 never initializes: to rmcp its end is a failed handshake.
        if let Ok(service) = atlas::Atlas::new().serve(rmcp::transport::io::stdio_pipes()).await {
            let _ = service.waiting().await;
        }
    });
    runtime.shutdown_background();
    ExitCode::SUCCESS
}

/// The configuration of the demo: its servers as children of the program at `exe`.
///
/// The crew waits for the atlas, to show a dependency; the gremlin comes back after a crash.
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
    use serde_json::Value;

    use super::*;
    use crate::mock::script::Script;

    #[test]
    fn every_script_of_the_demo_can_be_played() {
        for script in [
            include_str!("demo/crew.jsonc"),
            include_str!("demo/gremlin.jsonc"),
            include_str!("demo/beacon.jsonc"),
        ] {
            Script::parse(script, "demo").expect("a script");
        }
    }

    #[test]
    fn every_schema_of_the_atlas_is_a_schema_and_every_resource_can_be_read() {
        let catalogue: Value = serde_json::from_str(atlas::CATALOGUE).expect("JSON");
        for tool in catalogue["tools"].as_array().expect("tools") {
            for key in ["inputSchema", "outputSchema"] {
                if let Some(schema) = tool.get(key) {
                    jsonschema::draft202012::meta::validate(schema)
                        .unwrap_or_else(|error| panic!("{} {key}: {error}", tool["name"]));
                }
            }
        }
        for resource in catalogue["resources"].as_array().expect("resources") {
            let uri = resource["uri"].as_str().expect("a URI");
            assert!(atlas::read(uri, &catalogue, &Value::Null).is_some(), "{uri}");
        }
        assert!(atlas::read("atlas://metar/zrh/5", &catalogue, &Value::Null).is_some());
        assert!(atlas::read("atlas://metar/zrh/24", &catalogue, &Value::Null).is_none());
    }

    #[test]
    fn what_the_atlas_says_fits_its_output_schemas() {
        let catalogue: Value = serde_json::from_str(atlas::CATALOGUE).expect("JSON");
        let calls = [
            ("find_airport", serde_json::json!({"query": "a"})),
            ("weather", serde_json::json!({"airport": "kef"})),
            (
                "plan_flight",
                serde_json::json!({"route": ["ZRH", "SIN", "SYD"], "aircraft": {"kind": "jet"}}),
            ),
        ];
        for (name, arguments) in calls {
            let tools = catalogue["tools"].as_array().expect("tools");
            let tool = tools.iter().find(|tool| tool["name"] == name).expect("listed");
            let said = tools::call(name, &arguments, &catalogue).expect("a tool");
            jsonschema::validate(&tool["inputSchema"], &arguments).expect("valid arguments");
            jsonschema::validate(&tool["outputSchema"], &said["structuredContent"])
                .expect("a valid result");
        }
    }
}
