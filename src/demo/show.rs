//! What happens in the demo by itself, so that every pane has something to show: calls, logs, a
//! question for the person, a crash, a reload. Ends as soon as the person does something.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::config::McpConfig;
use crate::host::{CallOptions, Host, Origin, ServerState};

/// What is done after a pause, in milliseconds.
fn steps() -> Vec<(u64, &'static str, Value)> {
    vec![
        (300, "atlas.find_airport", json!({"query": "ZRH"})),
        (700, "atlas.weather", json!({"airport": "ZRH"})),
        (400, "crew.draft_announcement", json!({"occasion": "boarding"})),
        (900, "gremlin.babble", json!({})),
        (500, "atlas.weather", json!({"airport": "LHR"})),
        (800, "gremlin.fail", json!({})),
        (900, "gremlin.be_slow", json!({"milliseconds": 1_500})),
        (400, "beacon.request_clearance", json!({"callsign": "HB-XYZ"})),
        (1_200, "gremlin.crash", json!({"how": "segfault"})),
        (2_500, "atlas.draw_chart", json!({})),
        (1_000, RELOAD, Value::Null),
        (4_000, "atlas.find_airport", json!({"query": "KEF"})),
        (3_000, "gremlin.shuffle_tools", json!({})),
    ]
}

/// The last server of the configuration goes and comes back.
const RELOAD: &str = "reload";
/// How long it is away.
const AWAY: Duration = Duration::from_secs(2);
/// Pause before everything is done once more.
const PAUSE: Duration = Duration::from_secs(20);

/// Repeats the steps until it is stopped. It answers no request: those wait for the person.
pub async fn show(host: Host, config: McpConfig, stop: CancellationToken) {
    let all_settled = |view: &std::sync::Arc<crate::host::HostView>| {
        let settled = |state| matches!(state, ServerState::Ready | ServerState::Unavailable);
        !view.servers.is_empty() && view.servers.values().all(|server| settled(server.state))
    };
    let mut view = host.view();
    let ready = async { view.wait_for(all_settled).await.map(drop) };
    if !matches!(stop.run_until_cancelled(ready).await, Some(Ok(()))) {
        return;
    }
    loop {
        for (pause, name, arguments) in steps() {
            let pause = tokio::time::sleep(Duration::from_millis(pause));
            if stop.run_until_cancelled(pause).await.is_none() {
                return;
            }
            if name == RELOAD {
                reload(&host, &config).await;
            } else if host.snapshot().pending.is_empty() || !name.starts_with("crew.") {
                let host = host.clone();
                tokio::spawn(async move {
                    let options =
                        CallOptions { origin: Origin::Dashboard, ..CallOptions::default() };
                    // What comes of it is seen on the screen.
                    let _ = host.call_tool_with(name, arguments, options).await;
                });
            }
        }
        if stop.run_until_cancelled(tokio::time::sleep(PAUSE)).await.is_none() {
            return;
        }
    }
}

/// Not cut short by a person: what was taken out has to come back.
async fn reload(host: &Host, config: &McpConfig) {
    let mut fewer = config.clone();
    fewer.servers.pop();
    if host.reload(fewer).await.is_ok() {
        tokio::time::sleep(AWAY).await;
    }
    let _ = host.reload(config.clone()).await;
}
