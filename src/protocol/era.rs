//! The result of a handshake: the era, the version, the server's self-description.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::capabilities::{APP_MEDIA_TYPE, APPS_EXTENSION, ListKind};
use base::SafeText;

/// Protocol era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Era {
    /// `initialize`, up to 2025-11-25.
    Legacy,
    /// `server/discover`, from 2026-07-28.
    Modern,
}

/// The result of the handshake.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionView {
    /// Era.
    pub era: Era,
    /// Negotiated version.
    pub protocol_version: SafeText,
    /// `serverInfo.name`.
    pub name: SafeText,
    /// `serverInfo.version`.
    pub version: SafeText,
    /// `serverInfo.title`.
    pub title: Option<SafeText>,
    /// `instructions`.
    pub instructions: Option<SafeText>,
    /// `capabilities` exactly as sent.
    pub capabilities: Arc<serde_json::Value>,
    /// `serverInfo` exactly as sent.
    pub server_info: Arc<serde_json::Value>,
}

impl SessionView {
    /// Takes `serverInfo` and `instructions`; leaves the capabilities empty.
    pub fn new(era: Era, version: &str, info: Value, instructions: Option<&str>) -> Self {
        let text = |key: &str| info.get(key).and_then(Value::as_str).map(SafeText::line);
        Self {
            era,
            protocol_version: SafeText::line(version),
            name: text("name").unwrap_or_default(),
            version: text("version").unwrap_or_default(),
            title: text("title"),
            instructions: instructions.map(SafeText::block),
            capabilities: Arc::default(),
            server_info: Arc::new(info),
        }
    }

    /// Whether the server declares this list.
    pub fn offers(&self, list: ListKind) -> bool {
        let key = match list {
            ListKind::ResourceTemplates => ListKind::Resources.key(),
            list => list.key(),
        };
        self.capabilities.get(key).is_some_and(|value| !value.is_null())
    }

    /// Whether the server can run tool calls as tasks; otherwise none may be requested.
    pub fn runs_tasks(&self) -> bool {
        self.capabilities.pointer("/tasks/requests/tools/call").is_some()
    }
}

// What the host declares to a server: name, version, capabilities.

/// The newest version that begins with `initialize`.
pub const LEGACY_VERSION: &str = "2025-11-25";
/// The version that begins with `server/discover`.
pub const MODERN_VERSION: &str = "2026-07-28";
/// Versions the host speaks.
pub const PROTOCOL_VERSIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY_VERSION, MODERN_VERSION];

/// The name of a deck, as a client and as a server.
pub const CLIENT_NAME: &str = "mcpdeck";
/// The `_meta` key that counts the decks a definition or a call has passed through: decks that
/// serve each other would otherwise list and call in circles.
pub const HOPS_KEY: &str = "mcpdeck/hops";

/// Parameters of `initialize` that offer `version`.
pub fn initialize_params(version: &str) -> Value {
    json!({
        "protocolVersion": version, "capabilities": capabilities(version), "clientInfo": info(),
    })
}

/// What `_meta` of every request holds in the modern era (2026-07-28, SEP-2575).
pub fn request_meta() -> Map<String, Value> {
    let mut meta = Map::new();
    let mut put = |key: &str, value| meta.insert(format!("io.modelcontextprotocol/{key}"), value);
    put("protocolVersion", MODERN_VERSION.into());
    put("clientInfo", info());
    put("clientCapabilities", capabilities(LEGACY_VERSION));
    meta
}

fn info() -> Value {
    json!({"name": CLIENT_NAME, "title": "mcpdeck", "version": env!("CARGO_PKG_VERSION")})
}

/// The client capabilities of the host, as far as `version` knows them.
fn capabilities(version: &str) -> Value {
    let newest = version >= LEGACY_VERSION;
    let mut all = json!({
        "roots": {"listChanged": true},
        "sampling": if newest { json!({"tools": {}, "context": {}}) } else { json!({}) },
        "elicitation": if newest { json!({"form": {}, "url": {}}) } else { json!({}) },
    });
    if newest {
        // Some servers list their tools with apps to no other client.
        all["extensions"] = json!({APPS_EXTENSION: {"mimeTypes": [APP_MEDIA_TYPE]}});
    }
    all
}

/// The keys of a caller's `_meta` that are meant for the server, not for the connection: neither the
/// protocol's own (basic, `_meta`, "reserved prefixes") nor those that each hop sets anew.
pub fn vendor_meta(mut meta: Map<String, Value>) -> Map<String, Value> {
    meta.retain(|key, _| {
        let prefix = key.split_once('/').map(|(prefix, _)| prefix);
        let labels = prefix.into_iter().flat_map(|prefix| prefix.split('.'));
        // `mcp.dev`, `tools.mcp.com` (2025-06-18), `dev.mcp`, `com.mcp.tools` (2025-11-25), but not
        // `com.example.mcp`, which is that company's.
        let is_reserved = labels.enumerate().any(|(at, label)| {
            label.eq_ignore_ascii_case("modelcontextprotocol")
                || (at < 2 && label.eq_ignore_ascii_case("mcp"))
        });
        !is_reserved && !matches!(key.as_str(), "progressToken" | "traceparent" | HOPS_KEY)
    });
    meta
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_the_connection_stay_with_it_and_all_others_go_on() {
        let sent = json!({
            "tenant": "t1", "com.example/user": {"id": 7}, "tracestate": "a=b",
            "progressToken": 5, "traceparent": "00-", "io.modelcontextprotocol/clientInfo": {},
            "modelcontextprotocol.io/x": 1, "mcpdeck/hops": 2, "dev.mcp/x": 1, "mcp.dev/x": 1,
            "tools.mcp.com/x": 1, "com.MCP.tools/x": 1, "com.example.mcp/x": 1, "mcp": 1,
        });
        let kept = vendor_meta(sent.as_object().expect("an object").clone());
        let keys: Vec<&str> = kept.keys().map(String::as_str).collect();
        assert_eq!(keys, ["tenant", "com.example/user", "tracestate", "com.example.mcp/x", "mcp"]);
    }
}
