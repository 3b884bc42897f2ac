//! What the host says of itself to a server: name, version, what it can do for it.

use serde_json::{Map, Value, json};

/// The newest version that begins with `initialize`.
pub const LEGACY: &str = "2025-11-25";
/// The version that begins with `server/discover`.
pub const MODERN: &str = "2026-07-28";
/// Versions the host speaks.
pub const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY, MODERN];

/// Parameters of `initialize` that offer `version`.
pub fn initialize(version: &str) -> Value {
    json!({
        "protocolVersion": version, "capabilities": capabilities(version), "clientInfo": info(),
    })
}

/// What `_meta` of every request holds in the modern era (2026-07-28, SEP-2575).
pub fn request_meta() -> Map<String, Value> {
    let mut meta = Map::new();
    let mut put = |key: &str, value| meta.insert(format!("io.modelcontextprotocol/{key}"), value);
    put("protocolVersion", MODERN.into());
    put("clientInfo", info());
    put("clientCapabilities", capabilities(LEGACY));
    meta
}

fn info() -> Value {
    json!({"name": "mcpdeck", "title": "mcpdeck", "version": env!("CARGO_PKG_VERSION")})
}

/// What the host can do for a server, as far as `version` knows it.
fn capabilities(version: &str) -> Value {
    let newest = version >= LEGACY;
    json!({
        "roots": {"listChanged": true},
        "sampling": if newest { json!({"tools": {}, "context": {}}) } else { json!({}) },
        "elicitation": if newest { json!({"form": {}, "url": {}}) } else { json!({}) },
    })
}
