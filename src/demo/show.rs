//! The scripted show of the demo, so that every pane has content: calls, logs, a request for the
//! user, a crash, a reload. Ends as soon as the user does something.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use config::McpConfig;
use host::{CallOptions, Host, Origin, ServerState};

/// The steps: the pause before it in milliseconds, the tool, the arguments.
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

/// The step that removes the last server of the configuration and adds it again.
const RELOAD: &str = "reload";
/// How long that server stays removed.
const ABSENCE_INTERVAL: Duration = Duration::from_secs(2);
/// Pause before the steps are repeated.
const REPEAT_INTERVAL: Duration = Duration::from_secs(20);

/// Repeats the steps until it is stopped. Answers no requests: those are left to the user.
pub async fn show(host: Host, config: McpConfig, stop: CancellationToken) {
    let all_settled = |view: &std::sync::Arc<host::HostView>| {
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
                    // The outcome is visible on the screen.
                    let _ = host.call_tool_with(name, arguments, options).await;
                });
            }
        }
        if stop.run_until_cancelled(tokio::time::sleep(REPEAT_INTERVAL)).await.is_none() {
            return;
        }
    }
}

/// Not cancelled when the show is stopped: the removed server has to come back.
async fn reload(host: &Host, config: &McpConfig) {
    let mut fewer = config.clone();
    fewer.servers.pop();
    if host.reload(fewer).await.is_ok() {
        tokio::time::sleep(ABSENCE_INTERVAL).await;
    }
    let _ = host.reload(config.clone()).await;
}
