//! What the service says of itself before anybody connects: its server card (SEP-2127, "Hosted Server
//! Card Location") and the catalog that leads to it. Both are for everybody, and hold nothing that
//! a caller does not know from its address.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};
use url::Url;

use super::state::Gateway;
use base::address::is_loopback;

/// Where the card is.
pub(crate) const CARD_PATH: &str = "/mcp/server-card";
/// Where the catalog of the site is.
pub(crate) const CATALOG_PATH: &str = "/.well-known/ai-catalog.json";

const CARD_TYPE: &str = "application/mcp-server-card+json";
const CATALOG_TYPE: &str = "application/ai-catalog+json";

/// `GET /mcp/server-card`.
pub(crate) async fn card(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    let versions = ProtocolVersion::known_up_to(&ProtocolVersion::V_2026_07_28).iter();
    let versions: Vec<&str> = versions.map(ProtocolVersion::as_str).collect();
    let mut remote = json!({
        "type": "streamable-http",
        "url": address(&gateway, &headers),
        "supportedProtocolVersions": versions,
    });
    // Callers that sign in find out where by the refusal of their first request.
    if gateway.host.in_force().config.sign_in.is_none() {
        remote["headers"] = json!([{
            "name": "Authorization",
            "description": "Bearer and a token, which the operator makes with `mcpdeck token new`",
            "isRequired": true,
            "isSecret": true,
        }]);
    }
    let card = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "mcpdeck/gateway",
        "version": env!("CARGO_PKG_VERSION"),
        "title": "mcpdeck",
        "description": "One door to several MCP servers",
        "remotes": [remote],
    });
    answer(CARD_TYPE, &card)
}

/// `GET /.well-known/ai-catalog.json`.
pub(crate) async fn catalog(State(gateway): State<Arc<Gateway>>, headers: HeaderMap) -> Response {
    let url = format!("{}/server-card", address(&gateway, &headers));
    let entry = json!({"identifier": "urn:air:mcpdeck:mcp:gateway", "type": CARD_TYPE, "url": url});
    answer(CATALOG_TYPE, &json!({"specVersion": "1.0", "entries": [entry]}))
}

/// The address of the MCP endpoint: that of the sign-in, or the one that was asked.
fn address(gateway: &Gateway, headers: &HeaderMap) -> String {
    let in_force = gateway.host.in_force();
    if let Some(config) = &in_force.config.sign_in {
        return config.resource().trim_end_matches('/').to_owned();
    }
    // One of those that are served here: it was checked.
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let plain = format!("http://{host}/mcp");
    // Other machines come through something that encrypts.
    let is_here = Url::parse(&plain).is_ok_and(|url| is_loopback(&url));
    if is_here { plain } else { format!("https://{host}/mcp") }
}

fn answer(kind: &'static str, body: &Value) -> Response {
    let head = [(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "public, max-age=3600")];
    (head, body.to_string()).into_response()
}
