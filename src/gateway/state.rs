//! What all requests of a service share, and whose a token is.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use super::bridge::{Bridge, Parking};
use super::catalog::Catalogs;
use super::metrics::Metrics;
use super::raw::Raws;
use super::tokens::{Client, OwnerToken, TokenStore};
use crate::host::Host;

/// What a service is started with.
#[derive(Debug)]
pub struct Options {
    /// Where to listen; port 0 takes any free one.
    pub listen: SocketAddr,
    /// The operator's own token.
    pub owner: OwnerToken,
    /// Tokens of others, by hash.
    pub tokens: TokenStore,
    /// The profile of the operator's token.
    pub profile: String,
    /// `Host` values accepted besides loopback names with our port.
    pub allowed_hosts: Vec<String>,
    /// `Origin` values accepted; a request with any other is refused.
    pub allowed_origins: Vec<String>,
}

/// What all requests share.
pub(crate) struct Gateway {
    pub host: Host,
    owner: OwnerToken,
    tokens: TokenStore,
    pub profile: Arc<str>,
    pub allowed_hosts: Vec<String>,
    pub allowed_origins: Vec<String>,
    pub bridge: Bridge,
    pub parked: Parking,
    pub catalogs: Catalogs,
    pub metrics: Metrics,
    pub raws: Arc<Raws>,
    pub sessions: Arc<LocalSessionManager>,
    /// Whose a legacy session is: an id alone opens nothing.
    owners: Mutex<HashMap<String, Arc<str>>>,
}

impl Gateway {
    pub fn new(host: Host, bridge: Bridge, options: Options, port: u16) -> Arc<Self> {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let mut allowed_hosts: Vec<String> =
            names.iter().map(|name| format!("{name}:{port}")).collect();
        allowed_hosts.extend(options.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()));
        Arc::new(Self {
            metrics: Metrics::new(host.clone()),
            host,
            owner: options.owner,
            tokens: options.tokens,
            profile: options.profile.into(),
            allowed_hosts,
            allowed_origins: options.allowed_origins,
            bridge,
            parked: Parking::default(),
            catalogs: Catalogs::default(),
            raws: Arc::default(),
            sessions: Arc::default(),
            owners: Mutex::default(),
        })
    }

    /// Whose a bearer token is; `None` for none of ours, and for one that has expired.
    pub fn client(&self, bearer: &str) -> Option<Client> {
        if self.owner.is(bearer) {
            return Some(Client::owner(Arc::clone(&self.profile)));
        }
        self.tokens.client(bearer, self.host.clock().now())
    }

    pub fn owners(&self) -> MutexGuard<'_, HashMap<String, Arc<str>>> {
        self.owners.lock()
    }
}
