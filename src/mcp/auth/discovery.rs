//! Where a server sends users to sign in: its challenge, its resource metadata, the metadata of its
//! authorization server. The same for calls, the dashboard and `mcpdeck login`. rmcp finds and
//! checks the documents; which resource they may be for is decided here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method, StatusCode};
use parking_lot::Mutex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use serde_json::{Value, json};
use url::Url;

use super::account::Authorization;
use super::challenge::{self, challenge_of, parameter};
use super::grant::TokenClient;
use super::metadata::{OWN_ISSUER, bare, tidied};
use super::proof::ProofKey;
use super::step::{AuthFailure, AuthStep, StepKind};
use super::token::{StoredClient, TokenStore};
use crate::transport::moved::{Moved, RedirectReach, without_slash};
use base::{SafeText, Secret, ServerName};
use config::OAuthConfig;
use protocol::{LEGACY_VERSION, MODERN_VERSION, initialize_params, request_meta};

/// A server to sign in to.
pub(super) struct Site {
    pub(super) server: ServerName,
    /// The address that its tokens and clients are kept under.
    pub(super) address: Url,
    /// What its entry sends with every request.
    pub(super) headers: HeaderMap,
    pub(super) config: OAuthConfig,
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) exchange: TokenClient,
    /// The token of the person that it is used by, where callers are who they are.
    pub(super) subject: Option<Secret>,
    /// The client of the sign-in that is shown, when it was registered for an earlier one.
    pub(super) unanswered: Mutex<Option<StoredClient>>,
    /// The client that signed in last, and when: one that was accepted just now is not checked again.
    pub(super) accepted: Mutex<Option<(String, tokio::time::Instant)>>,
}

/// What a refusal asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedAccess {
    /// Its `WWW-Authenticate`.
    pub(super) challenge: Option<String>,
    /// Scopes to ask for; those of the entry or the challenge when empty.
    pub(super) scopes: Vec<String>,
}

/// An authorization server, found and checked.
pub(super) struct FoundIssuer {
    pub(super) metadata: AuthorizationMetadata,
    pub(super) issuer: String,
    /// What a token will be for (RFC 8707).
    pub(super) resource: String,
    pub(super) scopes: Vec<String>,
    /// Whether its tokens must be bound to a key (RFC 9449).
    pub(super) wants_proof: bool,
    /// Those that the resource metadata names before it, which cannot be used.
    pub(super) failed: Vec<String>,
    /// Whether its addresses are those of a document, and not assumed.
    pub(super) published: bool,
}

impl Site {
    /// Looks up the authorization server, without prompting.
    pub(super) async fn look(
        &self,
        wanted: &RequestedAccess,
    ) -> Result<Authorization, AuthFailure> {
        let found = self.find(wanted).await?;
        Ok(Authorization {
            revocation_endpoint: found.revocation_endpoint(),
            issuer: found.issuer,
            authorization_endpoint: found.metadata.authorization_endpoint,
            token_endpoint: found.metadata.token_endpoint,
            registration_endpoint: found.metadata.registration_endpoint,
        })
    }

    /// Finds the authorization server, as the challenge of the refusal says. Without one, the server
    /// is asked for it. Of several that its metadata names (RFC 9728, section 7.6: the client
    /// chooses), the one used before comes first, and the next is tried when one cannot be used.
    pub(super) async fn find(&self, wanted: &RequestedAccess) -> Result<FoundIssuer, AuthFailure> {
        let challenge = match wanted.challenge.clone() {
            Some(challenge) => Some(challenge),
            None => self.challenge().await,
        };
        let documents = Arc::new(Documents {
            exchange: self.exchange.clone(),
            address: self.address.clone(),
            known: self.known_issuers()?,
            read: Mutex::default(),
            issuers: Mutex::default(),
            metadata: Mutex::default(),
            choice: Mutex::default(),
        });
        let mut failed: Vec<(String, AuthFailure)> = Vec::new();
        loop {
            let failure = match self.resolve(wanted, challenge.as_deref(), &documents).await {
                Ok(mut found) => {
                    found.failed = failed.into_iter().map(|(issuer, _)| issuer).collect();
                    return Ok(found);
                }
                Err(failure) => failure,
            };
            let may_go_on = failed.len() + 1 < MAX_ISSUERS;
            let next = may_go_on.then(|| documents.choice.lock().next()).flatten();
            match next {
                Some(issuer) => failed.push((issuer, failure)),
                None if failed.is_empty() => return Err(failure),
                None => {
                    let last = documents.choice.lock().named.last().cloned();
                    failed.push((last.unwrap_or_default(), failure));
                    return Err(none_of(&failed));
                }
            }
        }
    }

    /// The authorization servers that the server was signed in to with before.
    fn known_issuers(&self) -> Result<Vec<String>, AuthFailure> {
        let token = self.store.find(&self.address).map_err(AuthFailure::failed)?;
        let clients = self.store.clients(&self.address).map_err(AuthFailure::failed)?;
        let token = token.into_iter().map(|token| token.issuer);
        Ok(token.chain(clients.into_iter().map(|client| client.issuer)).collect())
    }

    /// Finds one authorization server, and checks it.
    async fn resolve(
        &self,
        wanted: &RequestedAccess,
        challenge: Option<&str>,
        documents: &Arc<Documents>,
    ) -> Result<FoundIssuer, AuthFailure> {
        let check = |what: &str, url: &str| {
            let parsed = Url::parse(url).map_err(|error| error.to_string());
            parsed
                .and_then(|url| self.exchange.policy.check(&url))
                .map_err(|why| AuthFailure::refused(format!("the {what} {url}: {why}")))
        };
        if let Some(named) = challenge.and_then(|c| parameter(c, "resource_metadata")) {
            let url = self.address.join(&named).map(String::from).unwrap_or(named);
            check("resource metadata", &url)?;
        }
        let manager = AuthorizationManager::new_with_oauth_http_client(
            self.address.clone(),
            Arc::clone(documents) as Arc<dyn OAuthHttpClient>,
        );
        let manager = manager.await;
        let mut manager = manager.map_err(failure)?;
        let resolved = manager.resolve_metadata_from_challenge(challenge).await;
        let is_published = resolved.as_ref().is_ok_and(|found| found.source.is_discovered());
        if !is_published && let Some(other) = documents.of_another() {
            // Whatever was guessed after that document is not the reason.
            return Err(AuthFailure::refused(format!(
                "the resource metadata {} is for `{}`, which is not this server ({})",
                other.at, other.resource, self.address
            )));
        }
        let found = resolved.map_err(failure)?;
        let metadata = found.metadata;
        manager.set_metadata(metadata.clone());
        check("authorization endpoint", &metadata.authorization_endpoint)?;
        check("token endpoint", &metadata.token_endpoint)?;
        if let Some(url) = &metadata.registration_endpoint {
            check("registration endpoint", url)?;
        }
        let issuer = metadata.issuer.clone().unwrap_or_else(|| {
            let endpoint = Url::parse(&metadata.token_endpoint);
            endpoint.map(|url| url.origin().ascii_serialization()).unwrap_or_default()
        });
        let stated = match found.source {
            AuthorizationMetadataSource::ProtectedResourceMetadata => documents.of_this(),
            _ => None,
        };
        let supported = metadata.scopes_supported.as_deref().unwrap_or_default();
        let mut scopes = if !wanted.scopes.is_empty() {
            wanted.scopes.clone()
        } else if !self.config.scopes.is_empty() {
            self.config.scopes.clone()
        } else {
            let offered = manager.select_initial_scopes(&[]).await;
            // All of a long list is more than anybody wants, and than the address of a page may hold.
            let length: usize = offered.iter().map(|scope| scope.len() + 1).sum();
            if length > MAX_SCOPES_BYTES { Vec::new() } else { offered }
        };
        let offline = "offline_access".to_owned();
        if !scopes.is_empty() && supported.contains(&offline) && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        let resource = stated.unwrap_or_else(|| self.resource());
        let wants_proof = self.config.dpop.unwrap_or_else(|| {
            documents.demand_proof() || challenge.is_some_and(challenge::demands_proof)
        });
        let found = FoundIssuer {
            metadata,
            issuer,
            resource,
            scopes,
            wants_proof,
            published: is_published,
            failed: Vec::new(),
        };
        if self.config.grant.needs_page() {
            found.has_pkce()?;
        }
        if wants_proof { found.has_proofs().map(|()| found) } else { Ok(found) }
    }

    /// What a token is for when no document says it. A query often holds a key, which is nobody
    /// else's business (RFC 8707, section 2, advises against it).
    pub(super) fn resource(&self) -> String {
        let mut url = self.address.clone();
        url.set_query(None);
        url.into()
    }

    /// The server's refusal of the first message of a session without a token. A server may take
    /// no GET, and say only here where its metadata is and which scopes it wants.
    async fn challenge(&self) -> Option<String> {
        let discover = ("server/discover", MODERN_VERSION, json!({"_meta": request_meta()}));
        let initialize = ("initialize", LEGACY_VERSION, initialize_params(LEGACY_VERSION));
        for (method, version, params) in [discover, initialize] {
            let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let response = self.probe(method, version, &message).await?;
            let status = response.status();
            if let Some(session) = response.headers().get("mcp-session-id") {
                let end = http::Request::delete(self.address.as_str());
                let end = end.header("mcp-session-id", session);
                let _ = self.send_to_server(end, Vec::new()).await;
            }
            match status {
                StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                    return challenge_of(response.headers());
                }
                // It takes no POST: another message will not do better.
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => return None,
                _ => {}
            }
        }
        None
    }

    /// Posts a message without a token, as a step.
    async fn probe(
        &self,
        method: &str,
        version: &str,
        message: &Value,
    ) -> Option<http::Response<Vec<u8>>> {
        const MAX_REDIRECTS: usize = 3;
        let mut url = self.address.clone();
        let began = Instant::now();
        for _ in 0..=MAX_REDIRECTS {
            let post = http::Request::post(url.as_str())
                .header("accept", "application/json, text/event-stream")
                .header("content-type", "application/json")
                .header("mcp-method", method)
                .header("mcp-protocol-version", version);
            let response =
                self.send_to_server(post, message.to_string().into_bytes()).await.ok()?;
            let (status, headers) = (response.status(), response.headers());
            let reach = RedirectReach::ENDPOINT;
            let moved = Moved::from_response(&Method::POST, &url, status, headers, reach);
            let Moved::To(next) = moved else {
                let status = Some(response.status().as_u16());
                let challenge = challenge_of(response.headers());
                let step =
                    AuthStep { took: began.elapsed(), ..AuthStep::new(StepKind::Challenge, &url) };
                self.exchange.events.challenged(AuthStep { status, ..step }, challenge.as_deref());
                return Some(response);
            };
            url = next;
        }
        None
    }

    /// Sends a request to the server itself, with the headers of its entry.
    async fn send_to_server(
        &self,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> Result<http::Response<Vec<u8>>, String> {
        let mut request = request.body(body).map_err(|error| error.to_string())?;
        for (name, value) in &self.headers {
            request.headers_mut().insert(name, value.clone());
        }
        self.exchange.answer(request).await.map_err(|none| none.said)
    }
}

impl FoundIssuer {
    /// Checks that codes are protected (RFC 7636); guessed endpoints have no metadata to check.
    fn has_pkce(&self) -> Result<(), AuthFailure> {
        let methods = self.metadata.code_challenge_methods_supported.as_deref();
        let has = methods.is_some_and(|all| all.iter().any(|method| method == "S256"));
        if has || !self.published {
            return Ok(());
        }
        Err(AuthFailure::refused(format!(
            "the metadata of {} does not offer PKCE with S256, which protects the code",
            self.issuer
        )))
    }

    /// A new key for the tokens of a sign-in, where they must be bound to one.
    pub(super) fn proof_key(&self) -> Result<Option<ProofKey>, AuthFailure> {
        self.wants_proof.then(ProofKey::generate).transpose()
    }

    /// Checks that the authorization server takes the proofs that the host can make. One that does
    /// not say which is tried.
    fn has_proofs(&self) -> Result<(), AuthFailure> {
        let named = self.metadata.additional_fields.get("dpop_signing_alg_values_supported");
        let Some(named) = named.and_then(Value::as_array) else { return Ok(()) };
        if named.iter().any(|name| name == ProofKey::ALGORITHM) {
            return Ok(());
        }
        Err(AuthFailure::refused(format!(
            "{} takes no proof of a key that mcpdeck can make ({}): ask for tokens without one with \
             `\"dpop\": false` in `oauth` of the entry, if the server takes them",
            self.issuer,
            ProofKey::ALGORITHM
        )))
    }

    pub(super) fn revocation_endpoint(&self) -> Option<String> {
        let named = self.metadata.additional_fields.get("revocation_endpoint");
        named.and_then(Value::as_str).map(str::to_owned)
    }

    /// The authentication methods that the token endpoint takes; none when it does not say.
    pub(super) fn client_methods(&self) -> Vec<&str> {
        let methods = self.metadata.additional_fields.get("token_endpoint_auth_methods_supported");
        let methods = methods.and_then(Value::as_array).into_iter().flatten();
        methods.filter_map(Value::as_str).collect()
    }
}

// The documents that rmcp reads on its way.

/// The HTTP client of rmcp, which notes what resource each document is for, and shows rmcp one
/// authorization server at a time.
struct Documents {
    exchange: TokenClient,
    address: Url,
    /// The authorization servers that were used before.
    known: Vec<String>,
    read: Mutex<Vec<ResourceDocument>>,
    /// The authorization servers that documents name.
    issuers: Mutex<Vec<String>>,
    /// The resource metadata by its address, so that it is read once for all that it names.
    metadata: Mutex<HashMap<String, http::Response<Vec<u8>>>>,
    choice: Mutex<IssuerChoice>,
}

/// The authorization servers that the resource metadata names, and which of them is looked at.
#[derive(Default)]
struct IssuerChoice {
    named: Vec<String>,
    at: usize,
}

impl IssuerChoice {
    /// Moves on to the next one; returns the one before it. `None` where there is no next one.
    fn next(&mut self) -> Option<String> {
        if self.at + 1 >= self.named.len() {
            return None;
        }
        self.at += 1;
        self.named.get(self.at - 1).cloned()
    }
}

/// Longest list of scopes that is asked for because a document or a challenge names it, in bytes.
const MAX_SCOPES_BYTES: usize = 2_048;

/// Most authorization servers of one document that are tried.
const MAX_ISSUERS: usize = 8;

/// Why none of the authorization servers that a document names can be used.
fn none_of(failed: &[(String, AuthFailure)]) -> AuthFailure {
    let why = failed.iter().map(|(issuer, failure)| format!("{issuer}: {}", failure.reason()));
    let why: Vec<String> = why.collect();
    let text = format!(
        "none of the {} authorization servers that the server names can be used ({})",
        failed.len(),
        why.join("; ")
    );
    // What is unsafe stays so; what may be transient may be tried again.
    if failed.iter().any(|(_, failure)| matches!(failure, AuthFailure::Failed(_))) {
        AuthFailure::failed(text)
    } else {
        AuthFailure::refused(text)
    }
}

/// A document of resource metadata (RFC 9728).
#[derive(Clone)]
struct ResourceDocument {
    at: String,
    resource: String,
    is_ours: bool,
    /// Whether it takes only tokens that are bound to a key (RFC 9728, section 2).
    demands_proof: bool,
}

impl Documents {
    /// Whether the document of this server takes only tokens that are bound to a key.
    fn demand_proof(&self) -> bool {
        self.read.lock().iter().any(|document| document.is_ours && document.demands_proof)
    }

    /// The resource of the last document that is for this server.
    fn of_this(&self) -> Option<String> {
        let read = self.read.lock();
        read.iter().rev().find(|document| document.is_ours).map(|found| found.resource.clone())
    }

    /// The first document that is for another one.
    fn of_another(&self) -> Option<ResourceDocument> {
        self.read.lock().iter().find(|document| !document.is_ours).cloned()
    }

    /// Leaves one authorization server in a document that names several.
    fn choose(&self, document: &mut Value) {
        let named = document["authorization_servers"].as_array().into_iter().flatten();
        let mut named: Vec<String> = named.filter_map(Value::as_str).map(str::to_owned).collect();
        if named.len() < 2 {
            return;
        }
        let is_known = |issuer: &String| self.known.iter().any(|it| bare(it) == bare(issuer));
        named.sort_by_key(|issuer| !is_known(issuer));
        named.truncate(MAX_ISSUERS);
        let mut choice = self.choice.lock();
        if choice.named != named {
            *choice = IssuerChoice { named, at: 0 };
        }
        document["authorization_servers"] = json!([choice.named[choice.at]]);
    }

    /// Notes which resource a document is for. One that is for this server, or for a path above it,
    /// is given to rmcp as for this server: it compares letter by letter, and stumbles over a last
    /// slash. What a token is asked for is what the document says.
    fn record(&self, at: &http::Uri, body: &mut Vec<u8>) {
        let Some(document) = tidied(body) else { return };
        let mut document = Value::Object(document);
        *body = document.to_string().into_bytes();
        let issuers = document["authorization_servers"].as_array().into_iter().flatten();
        let issuers = issuers.filter_map(Value::as_str).map(str::to_owned);
        self.issuers.lock().extend(issuers);
        let Some(resource) = document["resource"].as_str().map(str::to_owned) else { return };
        let is_ours = Url::parse(&resource).is_ok_and(|url| describes(&url, &self.address));
        let demands_proof = document["dpop_bound_access_tokens_required"] == true;
        if is_ours {
            document["resource"] = json!(self.address);
            self.choose(&mut document);
            *body = document.to_string().into_bytes();
        }
        let read = ResourceDocument { at: at.to_string(), resource, is_ours, demands_proof };
        self.read.lock().push(read);
    }
}

impl Documents {
    /// Gives rmcp the metadata of an authorization server under the name that it is looked for by,
    /// if both differ by a last slash: it compares letter by letter.
    fn rename(&self, body: &mut Vec<u8>) {
        let Some(mut document) = tidied(body) else { return };
        let issuers = self.issuers.lock();
        if let Some(Value::String(issuer)) = document.get_mut("issuer")
            && !issuers.contains(issuer)
            && let Some(named) = issuers.iter().find(|named| bare(named) == bare(issuer))
        {
            let own = std::mem::replace(issuer, named.clone());
            document.insert(OWN_ISSUER.to_owned(), own.into());
        }
        *body = Value::Object(document).to_string().into_bytes();
    }
}

/// Whether a resource is the server at `address`, or a path above it. Its token is used for this
/// server alone in either case.
fn describes(resource: &Url, address: &Url) -> bool {
    let (wider, own) = (without_slash(resource), without_slash(address));
    resource.fragment().is_none()
        && resource.username().is_empty()
        && resource.password().is_none()
        && resource.origin() == address.origin()
        && own.strip_prefix(wider).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl OAuthHttpClient for Documents {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let (kind, at) = (kind_of(&request.request), request.request.uri().clone());
            let is_resource = kind == StepKind::ResourceMetadata;
            let known = self.metadata.lock().get(&at.to_string()).filter(|_| is_resource).cloned();
            let mut response = if let Some(response) = known {
                response
            } else {
                let sent = || Ok(request.request.clone());
                let answered = self.exchange.run_with_retries(kind, sent).await;
                let none = |none: AuthFailure| OAuthHttpClientError::from(none.reason());
                answered.map_err(none)?.response
            };
            if is_resource {
                self.metadata.lock().insert(at.to_string(), response.clone());
                if response.status() == StatusCode::OK {
                    self.record(&at, response.body_mut());
                }
            } else if kind == StepKind::ServerMetadata && response.status().is_success() {
                self.rename(response.body_mut());
            }
            Ok(response)
        })
    }
}

/// What rmcp is looking for, as inferred from its request.
fn kind_of(request: &http::Request<Vec<u8>>) -> StepKind {
    let path = request.uri().path();
    if path.contains("/oauth-authorization-server") || path.contains("/openid-configuration") {
        StepKind::ServerMetadata
    } else {
        StepKind::ResourceMetadata
    }
}

/// Converts an rmcp error, with its causes.
fn failure(error: AuthError) -> AuthFailure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    let text = SafeText::cut(&text, 400).to_string();
    match error {
        AuthError::HttpError(_) | AuthError::DiscoveryRequestFailed { .. } => {
            AuthFailure::Failed(text)
        }
        _ => AuthFailure::Refused(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_no_authorization_server_can_be_used_says_why_of_each() {
        let failed = [
            ("https://a.example".to_owned(), AuthFailure::refused("no PKCE")),
            ("https://b.example".to_owned(), AuthFailure::failed("connection refused")),
        ];
        let text = none_of(&failed).to_string();
        assert!(text.starts_with("signing in failed: none of the 2"), "{text}");
        assert!(text.contains("https://a.example: no PKCE; https://b.example: conn"), "{text}");
        assert!(matches!(none_of(&failed[..1]), AuthFailure::Refused(_)));
    }

    #[test]
    fn metadata_is_for_its_path_and_those_below_whatever_its_last_slash() {
        let address: Url = "https://a.example/x/mcp?k=1".parse().expect("an address");
        for (resource, is_ours) in [
            ("https://a.example/x/mcp", true),
            ("https://a.example/x/mcp/", true),
            ("https://A.example:443/x/mcp", true),
            ("https://a.example/x", true),
            ("https://a.example", true),
            ("https://a.example/x/../x/mcp", true),
            ("https://a.example/x/mc", false),
            ("https://a.example/x/mcp/y", false),
            ("https://a.example/x%2Fmcp", false),
            ("https://a.example/X/mcp", false),
            ("https://a.example/x/mcp#y", false),
            ("https://u@a.example/x/mcp", false),
            ("https://b.example/x/mcp", false),
            ("http://a.example/x/mcp", false),
        ] {
            let resource: Url = resource.parse().expect("an address");
            assert_eq!(describes(&resource, &address), is_ours, "{resource}");
        }
    }
}
