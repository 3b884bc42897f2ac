//! Statistics of a host: calls by server and tool, by caller, and what was blocked.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::clients::Clients;
use host::Host;

/// The statistics as JSON: `servers` with their `tools`, `origins` (the callers of a service), and
/// `blocked` (refused requests by caller and target, of the latest 200).
pub fn host_stats(host: &Host, clients: &Clients) -> Value {
    let view = host.snapshot();
    let servers = host.get_metrics().into_iter().map(|(name, metrics)| {
        let state = view.servers.get(&name).map(|server| server.state);
        let tools = metrics.by_target.iter().filter_map(|(target, metrics)| {
            Some(json!({"name": target.strip_prefix("tools/call ")?, "metrics": metrics}))
        });
        let tools: Vec<Value> = tools.collect();
        json!({"name": name, "state": state, "metrics": metrics.total, "tools": tools})
    });
    let servers: Vec<Value> = servers.collect();
    let origins = clients.list().into_iter().map(|client| {
        json!({
            "origin": client.principal.origin.to_string(),
            "profile": client.principal.profile,
            "name": client.name,
            "calls": client.calls,
            "failed": client.failed,
            "active": client.active.len(),
            "busyMs": client.busy.as_millis() as u64,
            "seen": client.seen.to_rfc3339(),
        })
    });
    let origins: Vec<Value> = origins.collect();
    let mut refused = BTreeMap::<(String, String, String), u64>::new();
    for blocked in host.blocked() {
        let origin = blocked.principal.origin.to_string();
        let key = (origin, blocked.target.to_string(), blocked.why.to_string());
        *refused.entry(key).or_default() += 1;
    }
    let refused = refused.into_iter().map(|((origin, target, why), count)| {
        json!({"origin": origin, "target": target, "why": why, "count": count})
    });
    json!({"servers": servers, "origins": origins, "blocked": refused.collect::<Vec<_>>()})
}
