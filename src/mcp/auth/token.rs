//! Tokens and clients as they are stored, and the interface of their store.

use std::{fmt, io};

use serde::{Deserialize, Serialize};
use url::Url;

#[cfg(feature = "http")]
use base::Secret;

/// A token for one resource from one issuer, with everything needed to refresh and revoke it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// Who issued it.
    pub issuer: String,
    /// The server it was obtained for, and is sent to, as [`account_address`] spells its address;
    /// without one it is its resource.
    #[serde(default)]
    pub server: String,
    /// What it is for (RFC 8707): the server, or more.
    pub resource: String,
    /// The client it was issued to.
    pub client: StoredClient,
    /// Where it is refreshed.
    pub token_endpoint: String,
    /// Where it is revoked, when the server can do that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
    /// The token itself.
    pub access_token: String,
    /// The refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh_token: Option<String>,
    /// When it was issued, seconds since 1970.
    pub obtained_at: u64,
    /// Its lifetime in seconds, if the server stated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in: Option<u64>,
    /// The scopes it grants.
    #[serde(default)]
    pub scopes: Vec<String>,
    /// The key it is bound to (RFC 9449): PKCS#8 in base64. A bearer token has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof_key: Option<String>,
}

/// A client at an authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClient {
    /// The authorization server it is known to; never used with another.
    pub issuer: String,
    /// The server that it signs in to, as [`account_address`] spells its address.
    #[serde(default)]
    pub server: String,
    /// Its id.
    pub id: String,
    /// Its secret, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// When its secret ends, seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_expires_at: Option<u64>,
    /// How it authenticates.
    pub auth: ClientAuth,
    /// Where the browser is redirected to.
    pub redirect_uri: String,
    /// Where it comes from.
    pub origin: ClientOrigin,
}

/// How a client authenticates at the token endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientAuth {
    /// `none`: by its id alone
    None,
    /// `client_secret_basic`
    Basic,
    /// `client_secret_post`
    Post,
    /// `private_key_jwt`
    PrivateKey,
}

/// Where a client comes from, in the order of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClientOrigin {
    /// Registered manually, `oauth.clientId`
    Configured,
    /// A client metadata document
    MetadataDocument,
    /// Registered by the host (RFC 7591)
    Registered,
}

impl fmt::Debug for StoredToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredToken")
            .field("issuer", &self.issuer)
            .field("resource", &self.resource)
            .field("client", &self.client)
            .field("scopes", &self.scopes)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for StoredClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredClient")
            .field("issuer", &self.issuer)
            .field("id", &self.id)
            .field("auth", &self.auth)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "http")]
impl StoredClient {
    /// As stored: a configured secret is not copied, because a copy would go stale.
    pub(super) fn without_configured_secret(&self) -> Self {
        let configured = self.origin == ClientOrigin::Configured;
        Self { secret: self.secret.clone().filter(|_| !configured), ..self.clone() }
    }

    /// As used, with the configured secret.
    pub(super) fn used(&self, secret: Option<&Secret>) -> Self {
        let mut client = self.clone();
        if client.origin == ClientOrigin::Configured {
            client.secret = secret.map(|secret| secret.expose().to_owned());
        }
        client
    }
}

impl StoredToken {
    /// Longest lifetime, in seconds, that means anything: ten years.
    pub const MAX_LIFETIME_SECONDS: u64 = 10 * 365 * 24 * 3600;

    /// Whether it was obtained for the server at `url`. That its resource covers other servers too
    /// does not make it theirs.
    pub fn is_for(&self, url: &Url) -> bool {
        let server = if self.server.is_empty() { &self.resource } else { &self.server };
        Url::parse(server).is_ok_and(|server| server == account_address(url))
    }

    /// Whether its resource is its server, and not more than that.
    pub fn is_for_server_alone(&self) -> bool {
        let path = |text: &str| {
            let url = Url::parse(text).ok()?;
            Some(url.path().trim_end_matches('/').to_owned())
        };
        self.server.is_empty() || path(&self.server) == path(&self.resource)
    }

    /// Seconds it has left at `now` (seconds since 1970); `None` when its lifetime is unknown.
    pub fn left(&self, now: u64) -> Option<u64> {
        let lifetime = self.expires_in.filter(|seconds| *seconds <= Self::MAX_LIFETIME_SECONDS)?;
        Some(self.obtained_at.saturating_add(lifetime).saturating_sub(now))
    }

    /// Whether it should be refreshed before use at `now`: within the last tenth of its lifetime,
    /// at most 30 s before it expires.
    pub fn is_due(&self, now: u64) -> bool {
        let margin = self.expires_in.unwrap_or_default().div_ceil(10).min(30);
        self.left(now).is_some_and(|left| left <= margin)
    }
}

/// The address that tokens and clients of the server at `url` are kept under. WebSocket schemes are
/// those of HTTP, and a fragment is not sent. Everything else counts: another path, also one below
/// or above it, or another query is another server.
pub fn account_address(url: &Url) -> Url {
    let text = url.as_str();
    let http = text.strip_prefix("ws").map(|rest| format!("http{rest}"));
    let mut url = http.and_then(|text| Url::parse(&text).ok()).unwrap_or_else(|| url.clone());
    url.set_fragment(None);
    url
}

/// Whether a token can be sent in a header (RFC 6749, appendix A.12).
#[cfg(feature = "http")]
pub(super) fn is_sendable(token: &str) -> bool {
    let is_visible = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
    token.trim() == token && token.bytes().all(is_visible)
}

/// Stores tokens and clients for all processes of a user. Its calls block briefly.
///
/// # Errors
/// Any file system error.
pub trait TokenStore: Send + Sync + 'static {
    /// The newest token that was obtained for the server at `url` ([`StoredToken::is_for`]).
    fn find(&self, url: &Url) -> io::Result<Option<StoredToken>>;
    /// Stores a token, replacing the one of the same issuer and server.
    fn save(&self, token: &StoredToken) -> io::Result<()>;
    /// Forgets a token.
    fn remove(&self, token: &StoredToken) -> io::Result<()>;
    /// The client last used with `issuer` to sign in to the server at `url`.
    fn client(&self, issuer: &str, url: &Url) -> io::Result<Option<StoredClient>>;
    /// Every client that was used to sign in to the server at `url`.
    fn clients(&self, url: &Url) -> io::Result<Vec<StoredClient>>;
    /// Stores a client, replacing the one of the same issuer and server.
    fn save_client(&self, client: &StoredClient) -> io::Result<()>;
    /// Forgets a client.
    fn remove_client(&self, client: &StoredClient) -> io::Result<()>;
    /// Locks a token against a refresh by another process, until the guard is dropped. Blocks while
    /// another process holds the lock.
    fn lock(&self, token: &StoredToken) -> io::Result<Box<dyn Send>>;
}

/// The token of a session, which no file keeps.
#[cfg(feature = "http")]
#[derive(Default)]
pub(super) struct HeldToken(parking_lot::Mutex<Option<StoredToken>>);

#[cfg(feature = "http")]
impl TokenStore for HeldToken {
    fn find(&self, _: &Url) -> io::Result<Option<StoredToken>> {
        Ok(self.0.lock().clone())
    }

    fn save(&self, token: &StoredToken) -> io::Result<()> {
        *self.0.lock() = Some(token.clone());
        Ok(())
    }

    fn remove(&self, _: &StoredToken) -> io::Result<()> {
        *self.0.lock() = None;
        Ok(())
    }

    fn client(&self, _: &str, _: &Url) -> io::Result<Option<StoredClient>> {
        Ok(None)
    }

    fn clients(&self, _: &Url) -> io::Result<Vec<StoredClient>> {
        Ok(Vec::new())
    }

    fn save_client(&self, _: &StoredClient) -> io::Result<()> {
        Ok(())
    }

    fn remove_client(&self, _: &StoredClient) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &StoredToken) -> io::Result<Box<dyn Send>> {
        Ok(Box::new(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(server: &str, resource: &str) -> StoredToken {
        StoredToken {
            issuer: "https://i.example".to_owned(),
            server: server.to_owned(),
            resource: resource.to_owned(),
            client: StoredClient {
                issuer: "https://i.example".to_owned(),
                server: server.to_owned(),
                id: "id".to_owned(),
                secret: None,
                secret_expires_at: None,
                auth: ClientAuth::None,
                redirect_uri: String::new(),
                origin: ClientOrigin::Registered,
            },
            token_endpoint: String::new(),
            revocation_endpoint: None,
            access_token: "a".to_owned(),
            refresh_token: None,
            obtained_at: 0,
            expires_in: None,
            scopes: Vec::new(),
            proof_key: None,
        }
    }

    #[test]
    fn a_token_is_for_one_server_however_its_address_is_spelled() {
        let here = "https://a.example/x/mcp";
        for (server, is_for) in [
            ("https://a.example/x/mcp", true),
            ("https://A.example:443/x/./y/../mcp", true),
            ("https://a.example/y/%2e%2e/x/mcp#part", true),
            ("wss://a.example/x/mcp", true),
            ("https://a.example/x/mcp/", false),
            ("https://a.example/x/mcp/y", false),
            ("https://a.example/x", false),
            ("https://a.example/", false),
            ("https://a.example/x/MCP", false),
            ("https://a.example/x%2Fmcp", false),
            ("https://a.example/x/mcp?tenant=1", false),
            ("https://u@a.example/x/mcp", false),
            ("https://a.example.:443/x/mcp", false),
            ("https://a.example:444/x/mcp", false),
            ("http://a.example/x/mcp", false),
            ("ws://a.example/x/mcp", false),
        ] {
            let url: Url = server.parse().expect("an address");
            for resource in [here, "https://a.example"] {
                assert_eq!(token(here, resource).is_for(&url), is_for, "{server}");
            }
            // One that was kept without its server.
            assert_eq!(token("", here).is_for(&url), is_for, "{server}");
            assert!(!token("", "https://a.example/x").is_for(&here.parse().expect("an address")));
        }
    }
}
