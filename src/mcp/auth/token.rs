//! Tokens and clients as they are stored, and the interface of their store.

use std::{fmt, io};

use serde::{Deserialize, Serialize};
use url::Url;

use base::Secret;

/// A token for one resource from one issuer, with everything needed to refresh and revoke it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// Who issued it.
    pub issuer: String,
    /// What it is for (RFC 8707).
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
}

/// A client at an authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredClient {
    /// The server it is known to; never used with another.
    pub issuer: String,
    /// Its id.
    pub id: String,
    /// Its secret, when it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
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

impl StoredClient {
    /// As stored: a configured secret is not copied, because a copy would go stale.
    pub(super) fn kept(&self) -> Self {
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
    /// Seconds it has left at `now` (seconds since 1970); `None` when its lifetime is unknown.
    pub fn left(&self, now: u64) -> Option<u64> {
        Some(self.obtained_at.saturating_add(self.expires_in?).saturating_sub(now))
    }

    /// Whether it should be refreshed before use at `now`: within the last tenth of its lifetime,
    /// at most 30 s before it expires.
    pub fn is_due(&self, now: u64) -> bool {
        let margin = self.expires_in.unwrap_or_default().div_ceil(10).min(30);
        self.left(now).is_some_and(|left| left <= margin)
    }
}

/// Whether a token for `resource` is one for the server at `url`: the same origin, and its path or
/// one above it.
pub fn token_covers(resource: &str, url: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let (path, asked) = (resource.path(), url.path());
    resource.origin() == url.origin()
        && (path == asked
            || asked
                .strip_prefix(path)
                .is_some_and(|rest| path.ends_with('/') || rest.starts_with('/')))
}

/// Stores tokens and clients for all processes of a user. Its calls block briefly.
///
/// # Errors
/// Any file system error.
pub trait TokenStore: Send + Sync + 'static {
    /// The newest token for the server at `url`.
    fn find(&self, url: &Url) -> io::Result<Option<StoredToken>>;
    /// Stores a token, replacing the one of the same issuer and resource.
    fn save(&self, token: &StoredToken) -> io::Result<()>;
    /// Forgets a token.
    fn remove(&self, token: &StoredToken) -> io::Result<()>;
    /// The client last used with `issuer`.
    fn client(&self, issuer: &str) -> io::Result<Option<StoredClient>>;
    /// Stores a client, replacing the one of the same issuer.
    fn save_client(&self, client: &StoredClient) -> io::Result<()>;
    /// Forgets the client of `issuer`.
    fn remove_client(&self, issuer: &str) -> io::Result<()>;
    /// Locks the token of this issuer and resource against a refresh by another process, until the
    /// guard is dropped. Blocks while another process holds the lock.
    fn lock(&self, issuer: &str, resource: &str) -> io::Result<Box<dyn Send>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_covers_its_path_and_those_below() {
        let url: Url = "https://a.example/x/mcp?k=1".parse().expect("an address");
        for (resource, covered) in [
            ("https://a.example/x/mcp", true),
            ("https://a.example/x", true),
            ("https://a.example/", true),
            ("https://a.example", true),
            ("https://a.example/x/mc", false),
            ("https://b.example/x/mcp", false),
            ("http://a.example/x/mcp", false),
        ] {
            assert_eq!(token_covers(resource, &url), covered, "{resource}");
        }
    }
}
