//! Server cards (SEP-2127): what a server says of itself at `URL/server-card`, before anybody connects
//! to it. Advice, not authority: whether the server is what the card says shows when it is tried.

use std::time::Duration;

use serde_json::Value;
use url::Url;

use crate::ReachError;
use crate::registry::body;
use crate::server_json::{PublishedServer, ServerWay};
use base::address::is_loopback;
use config::TlsConfig;
use mcp::client_builder;

/// Largest card, in bytes.
const MAX_CARD_BYTES: usize = 256 << 10;
/// How long a server may take to show its card: most have none.
const CARD_TIMEOUT: Duration = Duration::from_secs(5);
/// The media type of cards.
const CARD_TYPE: &str = "application/mcp-server-card+json, application/json;q=0.5";
/// What the `$schema` of a card ends in.
const CARD_SCHEMA: &str = "/server-card.schema.json";

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct ServerCard {
    /// The server.
    pub server: PublishedServer,
    /// The card as it was read.
    pub document: Value,
    address: Url,
}

impl ServerCard {
    /// Reads the card of the server at `address`, with these certificates; `None` where there is none, or it cannot be had
    /// safely (over an unencrypted connection to another machine).
    ///
    /// # Errors
    /// What is wrong with a card.
    pub async fn read(address: &Url, tls: &TlsConfig) -> Result<Option<Self>, ReachError> {
        if address.scheme() != "https" && !(address.scheme() == "http" && is_loopback(address)) {
            return Ok(None);
        }
        let mut url = address.clone();
        url.set_query(None);
        url.set_fragment(None);
        url.set_path(&format!("{}/server-card", address.path().trim_end_matches('/')));
        let http = client_builder(&url, tls)
            .map_err(ReachError)?
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| ReachError(error.to_string()))?;
        let request = http.get(url.clone()).header("Accept", CARD_TYPE).timeout(CARD_TIMEOUT);
        let Ok(bytes) = body(request, MAX_CARD_BYTES, &url).await else { return Ok(None) };
        let Ok(card) = serde_json::from_slice::<Value>(&bytes) else { return Ok(None) };
        Self::parse(&card, address)
            .map_err(|why| ReachError(format!("its card at {url} cannot be used: {why}")))
    }

    /// Reads a card; `None` for any other document, which is what some servers answer to every GET.
    fn parse(card: &Value, address: &Url) -> Result<Option<Self>, String> {
        let schema = card["$schema"].as_str().unwrap_or_default();
        if !schema.ends_with(CARD_SCHEMA) {
            return Ok(None);
        }
        let server = PublishedServer::parse(card)?;
        Ok(Some(Self { server, document: card.clone(), address: address.clone() }))
    }

    /// How the card says that this address is reached; `None` if it names others only.
    pub fn way(&self) -> Option<&ServerWay> {
        let bare = |url: &str| url.trim_end_matches('/').to_owned();
        let address = bare(self.address.as_str());
        let is_this =
            |way: &&ServerWay| way.entry["url"].as_str().map(bare) == Some(address.clone());
        self.server.ways.iter().find(is_this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_card_says_how_its_address_is_reached() {
        let address: Url = "https://a.example/mcp".parse().expect("an address");
        let card = json!({
            "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
            "name": "example/weather", "version": "1.0.0", "description": "Weather",
            "remotes": [
                {"type": "streamable-http", "url": "https://b.example/mcp"},
                {"type": "streamable-http", "url": "https://a.example/mcp/", "headers": [
                    {"name": "X-Key", "isRequired": true, "isSecret": true},
                ]},
            ],
        });
        let read = ServerCard::parse(&card, &address).expect("good").expect("a card");
        assert_eq!(read.server.name, "example/weather");
        let way = read.way().expect("its own address");
        assert!(way.entry["headers"]["X-Key"].is_string(), "{}", way.entry);
        let mut other = card.clone();
        other["remotes"].as_array_mut().expect("two").truncate(1);
        assert!(ServerCard::parse(&other, &address).expect("good").expect("one").way().is_none());
        assert!(ServerCard::parse(&json!({"ok": true}), &address).expect("none").is_none());
        other["name"] = json!("no name");
        assert!(ServerCard::parse(&other, &address).is_err());
    }
}
