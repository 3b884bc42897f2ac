//! The client that signs in: registered by hand, a metadata document, or registered by the host. One
//! that was kept is used only while the authorization server knows it: an unknown client is never
//! sent back to, and the user would wait for ever.

use std::time::Duration;

use serde_json::{Value, json};
use url::Url;

use super::discovery::{FoundIssuer, Site};
use super::fresh::{now, random_text};
use super::grant::{self, NotGranted, OAuthClient, Posted, in_tries, seconds};
use super::redirect::Loopback;
use super::step::{AuthFailure, StepKind};
use super::token::{ClientAuth, ClientOrigin, StoredClient};
use base::SafeText;

/// What to do where a server registers no client.
const BY_HAND: &str = ": register mcpdeck there by hand, and put its `clientId` and `redirectUri` into \
                       `oauth` of the entry";

/// Why there is nobody to sign in with: the addresses were assumed (specification 2025-03-26,
/// authorization, section 2.3.3), and nothing is there.
fn not_published(server: &Url, endpoint: &str, status: http::StatusCode) -> String {
    let origin = server.origin().ascii_serialization();
    format!(
        "no usable authorization server is named, neither by the refusal of the server, nor by \
         metadata at {origin}, and none is where older servers have it ({endpoint}: HTTP {}); if \
         the server takes a key or a token, put it into `headers` of the entry",
        status.as_u16()
    )
}

/// A client to sign in with.
pub(super) struct ChosenClient {
    pub(super) client: StoredClient,
    /// Registered for an earlier sign-in: its server may have forgotten it.
    pub(super) is_kept: bool,
}

/// How long a client that has signed in counts as known.
const ACCEPTED_TIMEOUT: Duration = Duration::from_secs(600);

/// Why no client was registered.
enum NotRegistered {
    /// The authorization server does not want this client.
    Refused(String),
    /// Another, possibly transient failure.
    Failed(AuthFailure),
}

impl Site {
    /// The client, in the order of the specification: registered manually, a metadata document, one
    /// the host has registered or registers now.
    pub(super) async fn client(
        &self,
        found: &FoundIssuer,
        kept: Option<StoredClient>,
        loopback: &Loopback,
    ) -> Result<ChosenClient, AuthFailure> {
        let documents =
            found.metadata.additional_fields.get("client_id_metadata_document_supported");
        let documents = documents.and_then(Value::as_bool).unwrap_or(false);
        let document = self.config.client_metadata_url.as_ref().filter(|_| documents);
        let given = match (&self.config.client_id, document) {
            (Some(id), _) => {
                let secret = self.config.client_secret.as_ref().map(|s| s.expose().to_owned());
                Some((id, secret, ClientOrigin::Configured))
            }
            (None, Some(document)) => Some((document, None, ClientOrigin::MetadataDocument)),
            (None, None) => None,
        };
        if let Some((id, secret, origin)) = given {
            let auth = client_auth(found, secret.is_some());
            let client = StoredClient {
                id: id.clone(),
                secret,
                auth,
                origin,
                ..self.no_client(found, loopback.redirect_uri())
            };
            return Ok(ChosenClient { client, is_kept: false });
        }
        if let Some(client) = kept.filter(|client| client.origin == ClientOrigin::Registered) {
            let (redirect, now) = (&client.redirect_uri, now());
            let fits = *redirect == loopback.redirect_uri()
                || loopback.by_name().as_ref() == Some(redirect);
            let is_over = client.secret_expires_at.is_some_and(|end| end <= now);
            if fits
                && !is_over
                && (self.is_accepted(&client) || self.is_known(found, &client).await)
            {
                return Ok(ChosenClient { client, is_kept: true });
            }
            self.store.remove_client(&client).map_err(AuthFailure::failed)?;
        }
        let client = self.register(found, loopback).await?;
        Ok(ChosenClient { client, is_kept: false })
    }

    fn no_client(&self, found: &FoundIssuer, redirect_uri: String) -> StoredClient {
        StoredClient {
            issuer: found.issuer.clone(),
            server: self.address.to_string(),
            id: String::new(),
            secret: None,
            secret_expires_at: None,
            auth: ClientAuth::None,
            redirect_uri,
            origin: ClientOrigin::Registered,
        }
    }

    /// Registers a client (RFC 7591). Where the address of this machine is refused as a number, its
    /// name is tried.
    async fn register(
        &self,
        found: &FoundIssuer,
        loopback: &Loopback,
    ) -> Result<StoredClient, AuthFailure> {
        let redirect_uri = loopback.redirect_uri();
        let Some(endpoint) = &found.metadata.registration_endpoint else {
            return Err(AuthFailure::refused(format!(
                "{} registers no clients by itself: register mcpdeck there with the redirect \
                 address {redirect_uri}, and put its `clientId` and the port as `callbackPort` into \
                 `oauth` of the entry",
                found.issuer
            )));
        };
        let why = match self.register_for(found, endpoint, redirect_uri).await {
            Ok(client) => return Ok(client),
            Err(NotRegistered::Failed(failure)) => return Err(failure),
            Err(NotRegistered::Refused(why)) => why,
        };
        let mut tried = String::new();
        if let Some(by_name) = loopback.by_name() {
            match self.register_for(found, endpoint, by_name).await {
                Ok(client) => return Ok(client),
                Err(_) => tried.push_str(", and none for `localhost`"),
            }
        }
        Err(AuthFailure::refused(format!("{why}{tried}{BY_HAND}")))
    }

    async fn register_for(
        &self,
        found: &FoundIssuer,
        endpoint: &str,
        redirect_uri: String,
    ) -> Result<StoredClient, NotRegistered> {
        let methods = found.client_methods();
        let takes = |name: &&str| methods.is_empty() || methods.contains(name);
        let method = ["none", "client_secret_basic", "client_secret_post"];
        let method = method.into_iter().find(takes).unwrap_or("none");
        let mut request = json!({
            "client_name": "mcpdeck",
            "redirect_uris": [redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
            "application_type": "native",
        });
        if found.wants_proof {
            request["dpop_bound_access_tokens"] = json!(true);
        }
        if !found.scopes.is_empty() {
            request["scope"] = json!(found.scopes.join(" "));
        }
        let failed = |why: String| NotRegistered::Failed(AuthFailure::failed(why));
        let post = || {
            http::Request::post(endpoint)
                .header("content-type", "application/json")
                .header("accept", "application/json")
                .body(request.to_string().into_bytes())
                .map_err(AuthFailure::failed)
        };
        let posted = self.exchange.run_with_retries(StepKind::Register, post).await;
        let Posted { response, tries } = posted.map_err(NotRegistered::Failed)?;
        let (status, body) = (response.status(), response.body());
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        if !status.is_success() {
            let words = ["error", "error_description"].map(|key| body[key].as_str());
            let words: Vec<&str> = words.into_iter().flatten().collect();
            let words = SafeText::cut(&words.join(": "), 200);
            let colon = if words.as_str().is_empty() { "" } else { ": " };
            let mut why = format!(
                "{endpoint} registers no client for {redirect_uri} (HTTP {}{colon}{words}){}",
                status.as_u16(),
                in_tries(tries)
            );
            let is_absent = matches!(status.as_u16(), 401 | 404 | 405 | 501);
            if is_absent && !found.published {
                let why = not_published(&self.address, endpoint, status);
                return Err(NotRegistered::Failed(AuthFailure::refused(why)));
            }
            if is_absent {
                why += BY_HAND;
            }
            let is_final =
                status.is_client_error() && !matches!(status.as_u16(), 401 | 404 | 405 | 408 | 429);
            return Err(if is_final { NotRegistered::Refused(why) } else { failed(why) });
        }
        let id = match &body["client_id"] {
            Value::String(id) if !id.is_empty() => id.clone(),
            Value::Number(id) => id.to_string(),
            _ => {
                return Err(failed(format!(
                    "{endpoint} registered no client: `client_id` is missing"
                )));
            }
        };
        let secret = body["client_secret"].as_str().filter(|secret| !secret.is_empty());
        let auth = match (secret, body["token_endpoint_auth_method"].as_str()) {
            (None, _) | (_, Some("none")) => ClientAuth::None,
            (_, Some("client_secret_post")) => ClientAuth::Post,
            (_, Some("client_secret_basic")) => ClientAuth::Basic,
            _ => client_auth(found, true),
        };
        let ends = seconds(&body["client_secret_expires_at"]).filter(|end| *end >= 1.0);
        Ok(StoredClient {
            id,
            secret: secret.map(str::to_owned),
            secret_expires_at: ends.map(|end| end as u64),
            auth,
            ..self.no_client(found, redirect_uri)
        })
    }

    /// Whether the client has signed in a short time ago, as before a step-up of its scopes.
    fn is_accepted(&self, client: &StoredClient) -> bool {
        let accepted = self.accepted.lock();
        accepted
            .as_ref()
            .is_some_and(|(id, at)| *id == client.id && at.elapsed() < ACCEPTED_TIMEOUT)
    }

    /// Whether the authorization server still knows a client. Asked with a code that it gave to
    /// nobody: a client that it knows gets `invalid_grant`. Servers that look at the code first are
    /// asked for their page, which knows no client either, and without a person (`prompt=none`,
    /// `OpenID` Connect Core 1.0, section 3.1.2.1).
    async fn is_known(&self, found: &FoundIssuer, client: &StoredClient) -> bool {
        let Ok(made_up) = random_text() else { return true };
        let form = [
            ("grant_type", "authorization_code"),
            ("code", made_up.as_str()),
            ("redirect_uri", client.redirect_uri.as_str()),
            ("code_verifier", made_up.as_str()),
        ];
        let caller = OAuthClient::new(client);
        let endpoint = &found.metadata.token_endpoint;
        let asked = grant::token(&self.exchange, StepKind::Client, endpoint, &caller, &form).await;
        if let Err(NotGranted::Code { code, .. }) = asked
            && is_client_refusal(&code)
        {
            return false;
        }
        let secrets = PageSecrets { state: &made_up, verifier: &made_up };
        let page = authorization_url(found, client, secrets, &[("prompt", "none")]);
        let Ok(page) = page else { return true };
        let Ok(get) = http::Request::get(page.as_str()).body(Vec::new()) else { return true };
        let answer = self.exchange.run(StepKind::Client, get).await;
        !answer.is_ok_and(|answer| matches!(answer.status().as_u16(), 400 | 401))
    }
}

/// Whether an error code means that the client is unknown or not accepted any more.
pub(super) fn is_client_refusal(code: &str) -> bool {
    matches!(code, "invalid_client" | "unauthorized_client")
}

/// What binds the answer of a sign-in page to its request.
#[derive(Clone, Copy)]
pub(super) struct PageSecrets<'a> {
    pub(super) state: &'a str,
    pub(super) verifier: &'a str,
}

/// The address of the sign-in page. What the endpoint's own query says stays, except where it is
/// this sign-in's to say (RFC 6749, section 3.1: no parameter twice).
///
/// # Errors
/// When the endpoint is no address.
pub(super) fn authorization_url(
    found: &FoundIssuer,
    client: &StoredClient,
    secrets: PageSecrets<'_>,
    more: &[(&'static str, &str)],
) -> Result<Url, AuthFailure> {
    let mut url =
        Url::parse(&found.metadata.authorization_endpoint).map_err(AuthFailure::refused)?;
    let challenge = grant::code_challenge(secrets.verifier);
    let scope = found.scopes.join(" ");
    let mut own = vec![
        ("response_type", "code"),
        ("client_id", &client.id),
        ("redirect_uri", &client.redirect_uri),
        ("state", secrets.state),
        ("code_challenge", &challenge),
        ("code_challenge_method", "S256"),
        ("resource", &found.resource),
    ];
    if !scope.is_empty() {
        own.push(("scope", &scope));
    }
    own.extend(more);
    let fixed: Vec<(String, String)> = url
        .query_pairs()
        .filter(|(key, _)| own.iter().all(|(name, _)| name != key))
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect();
    url.set_fragment(None);
    url.query_pairs_mut().clear().extend_pairs(fixed).extend_pairs(own);
    Ok(url)
}

/// The authentication method: one that the client can use and the server supports.
pub(super) fn client_auth(found: &FoundIssuer, has_secret: bool) -> ClientAuth {
    let methods = found.client_methods();
    let takes = |name: &str| methods.contains(&name);
    match has_secret {
        false => ClientAuth::None,
        true if takes("client_secret_post") && !takes("client_secret_basic") => ClientAuth::Post,
        true => ClientAuth::Basic,
    }
}
