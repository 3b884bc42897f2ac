//! Obtaining a first token: discovery, the client, the browser, the code; or client credentials.
//! Unsafe endpoints are refused before an address is shown to the user.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use regex::Regex;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, OAuthClientConfig,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::grant::{self, Granted, OAuthClient, TokenClient, is_code};
use super::token::{ClientAuth, ClientOrigin, StoredClient, StoredToken, TokenStore};
use base::secret::MASK;
use base::{SafeText, ServerName};
use config::{OAuthConfig, is_secret};

/// A sign-in that waits for the user.
#[derive(Clone, Debug)]
pub struct SignIn {
    /// The server that requires it.
    pub server: ServerName,
    /// Who asks for the user's name and password.
    pub issuer: SafeText,
    /// What the token will allow.
    pub scopes: Vec<SafeText>,
    /// The address to open; checked to be a web address.
    pub url: Url,
    /// Where the browser is redirected to.
    pub redirect_uri: String,
}

/// Describes scopes in words: those of `OpenID` Connect Core 1.0 (sections 5.4 and 11), and those
/// that join a verb to a noun, such as `repo:read`. Others are kept as they are.
pub fn scopes_in_words<'a>(scopes: impl IntoIterator<Item = &'a str>) -> String {
    const VERBS: [&str; 8] =
        ["admin", "call", "create", "delete", "list", "manage", "read", "write"];
    let words = |scope: &str| {
        let known = match scope {
            "openid" => "who you are",
            "profile" => "your name and picture",
            "email" => "your email address",
            "address" => "your postal address",
            "phone" => "your phone number",
            "offline_access" => "staying signed in while you are away",
            _ => {
                let (first, second) = scope.split_once([':', '.'])?;
                let verb = |word: &str| VERBS.contains(&word);
                return match (verb(first), verb(second)) {
                    (true, false) => Some(format!("{first} {second} ({scope})")),
                    (false, true) => Some(format!("{second} {first} ({scope})")),
                    _ => None,
                };
            }
        };
        Some(format!("{known} ({scope})"))
    };
    let words = scopes.into_iter().map(|scope| words(scope).unwrap_or_else(|| scope.to_owned()));
    let words: Vec<String> = words.collect();
    if words.is_empty() { "nothing in particular".to_owned() } else { words.join(", ") }
}

/// Shows a sign-in to the user.
pub trait SignInPrompt: Send + Sync + 'static {
    /// Shows it. Returns `None` when the browser will be redirected to `redirect_uri` by itself, or
    /// else the address that the user pasted. Dropped when the redirect arrives.
    ///
    /// # Errors
    /// Why the user declined.
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>>;
}

/// A server to sign in to.
pub(super) struct Site {
    pub(super) server: ServerName,
    pub(super) resource: Url,
    pub(super) config: OAuthConfig,
    pub(super) store: Arc<dyn TokenStore>,
    pub(super) exchange: TokenClient,
}

/// What a refusal asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct RequestedAccess {
    /// Its `WWW-Authenticate`.
    pub(super) challenge: Option<String>,
    /// Scopes to ask for; those of the entry or the challenge when empty.
    pub(super) scopes: Vec<String>,
}

/// Where a server sends users to sign in, according to its current metadata.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// Who issues tokens.
    pub issuer: String,
    /// Where the user signs in.
    pub authorization_endpoint: String,
    /// Where codes and refresh tokens are exchanged.
    pub token_endpoint: String,
    /// Where clients are registered, when that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// Where tokens are revoked, when that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
}

/// An authorization server, found and checked.
struct Found {
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    issuer: String,
    published: bool,
    scopes: Vec<String>,
}

/// One parameter of a challenge.
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let pattern = format!(r#"(?i)(?:^|[ ,]){name}=(?:"([^"]*)|([^ ,]*))"#);
    let found = Regex::new(&pattern).ok()?.captures(challenge)?;
    Some(found.get(1).or(found.get(2))?.as_str().to_owned())
}

impl Site {
    /// Looks up the authorization server, without prompting.
    pub(super) async fn look(
        &self,
        wanted: &RequestedAccess,
    ) -> Result<Authorization, AuthFailure> {
        let found = self.find(wanted).await?;
        if !self.config.machine {
            found.has_pkce()?;
        }
        Ok(Authorization {
            revocation_endpoint: found.revocation_endpoint(),
            issuer: found.issuer,
            authorization_endpoint: found.metadata.authorization_endpoint,
            token_endpoint: found.metadata.token_endpoint,
            registration_endpoint: found.metadata.registration_endpoint,
        })
    }

    async fn find(&self, wanted: &RequestedAccess) -> Result<Found, AuthFailure> {
        let challenge = wanted.challenge.as_deref();
        let check = |what: &str, url: &str| {
            let parsed = Url::parse(url).map_err(|error| error.to_string());
            parsed
                .and_then(|url| self.exchange.policy.check(&url))
                .map_err(|why| AuthFailure::refused(format!("the {what} {url}: {why}")))
        };
        if let Some(named) = challenge.and_then(|c| parameter(c, "resource_metadata")) {
            let url = self.resource.join(&named).map(String::from).unwrap_or(named);
            check("resource metadata", &url)?;
        }
        let exchange = Arc::new(self.exchange.clone());
        let manager =
            AuthorizationManager::new_with_oauth_http_client(self.resource.clone(), exchange).await;
        let mut manager = manager.map_err(failure)?;
        let found = manager.resolve_metadata_from_challenge(challenge).await.map_err(failure)?;
        let metadata = found.metadata;
        manager.set_metadata(metadata.clone());
        check("authorization endpoint", &metadata.authorization_endpoint)?;
        check("token endpoint", &metadata.token_endpoint)?;
        if let Some(url) = &metadata.registration_endpoint {
            check("registration endpoint", url)?;
        }
        let published = found.source.is_discovered();
        let issuer = metadata.issuer.clone().unwrap_or_else(|| {
            let endpoint = Url::parse(&metadata.token_endpoint);
            endpoint.map(|url| url.origin().ascii_serialization()).unwrap_or_default()
        });
        let supported = metadata.scopes_supported.as_deref().unwrap_or_default();
        let mut scopes = if !wanted.scopes.is_empty() {
            wanted.scopes.clone()
        } else if !self.config.scopes.is_empty() {
            self.config.scopes.clone()
        } else {
            manager.select_initial_scopes(&[]).await
        };
        let offline = "offline_access".to_owned();
        if !scopes.is_empty() && supported.contains(&offline) && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        Ok(Found { manager, metadata, issuer, published, scopes })
    }

    /// Signs in through the user's browser.
    pub(super) async fn ask(
        &self,
        prompt: &dyn SignInPrompt,
        wanted: &RequestedAccess,
    ) -> Result<StoredToken, AuthFailure> {
        let mut found = self.find(wanted).await?;
        found.has_pkce()?;
        let known = self.store.client(&found.issuer).map_err(AuthFailure::failed)?;
        let remembered = known.as_ref().and_then(|client| Url::parse(&client.redirect_uri).ok());
        let remembered = remembered.and_then(|url| url.port());
        let loopback = Loopback::bind(self.config.callback_port, remembered).await?;
        let client = self.client(&mut found, known, loopback.redirect_uri()).await?;
        self.store.save_client(&client.kept()).map_err(AuthFailure::failed)?;
        let scopes: Vec<&str> = found.scopes.iter().map(String::as_str).collect();
        let url = found.manager.get_authorization_url(&scopes).await.map_err(failure)?;
        let url = Url::parse(&url).map_err(AuthFailure::refused)?;
        self.exchange.policy.check(&url).map_err(AuthFailure::refused)?;
        let resource = query(&url, "resource").unwrap_or_else(|| self.resource.to_string());
        let state = query(&url, "state").unwrap_or_default();
        let request = SignIn {
            server: self.server.clone(),
            issuer: SafeText::line(&found.issuer),
            scopes: found.scopes.iter().map(|scope| SafeText::line(scope)).collect(),
            url: url.clone(),
            redirect_uri: loopback.redirect_uri(),
        };
        let began = Instant::now();
        let back = shown(prompt, request, &loopback, &state).await;
        let answered = back.as_ref().ok().and_then(|back| Some(back.split_once('?')?.1.to_owned()));
        let answered = answered.unwrap_or_default();
        let done = back.and_then(|back| code_of(&back, &found.metadata));
        let step = AuthStep {
            took: began.elapsed(),
            refused: done.as_ref().err().map(|why| SafeText::line(&why.to_string())),
            ..AuthStep::new(StepKind::Authorize, &url)
        };
        let sent = url.query().unwrap_or_default();
        self.exchange.events.step(step, sent.as_bytes(), answered.as_bytes());
        let (code, issuer) = done?;
        let answer =
            found.manager.exchange_code_for_token_with_issuer(&code, &state, issuer.as_deref());
        let answer = answer.await.map_err(failure)?;
        let answer = serde_json::to_vec(&answer).map_err(AuthFailure::failed)?;
        let granted = grant::granted(&answer)
            .ok_or_else(|| AuthFailure::refused("the token is not a bearer token"))?;
        Ok(found.token(resource, client.kept(), granted))
    }

    /// The client, in the order of the specification: registered manually, a metadata document, one
    /// the host has registered or registers now.
    async fn client(
        &self,
        found: &mut Found,
        known: Option<StoredClient>,
        redirect_uri: String,
    ) -> Result<StoredClient, AuthFailure> {
        let Found { manager, metadata, issuer, scopes, .. } = found;
        let documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        let documents = documents.and_then(Value::as_bool).unwrap_or(false);
        let document = self.config.client_metadata_url.as_ref().filter(|_| documents);
        let known = known.filter(|client| {
            client.origin == ClientOrigin::Registered && client.redirect_uri == redirect_uri
        });
        let (id, secret, origin) = if let Some(id) = &self.config.client_id {
            let secret = self.config.client_secret.as_ref().map(|s| s.expose().to_owned());
            (id.clone(), secret, ClientOrigin::Configured)
        } else if let Some(document) = document {
            (document.clone(), None, ClientOrigin::MetadataDocument)
        } else if let Some(known) = known {
            (known.id, known.secret, ClientOrigin::Registered)
        } else if metadata.registration_endpoint.is_some() {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let made = manager.register_client("mcpdeck", &redirect_uri, &scopes).await;
            let made = made.map_err(failure)?;
            (made.client_id, made.client_secret, ClientOrigin::Registered)
        } else {
            return Err(AuthFailure::refused(format!(
                "{issuer} registers no clients by itself: register mcpdeck there with the redirect \
                 address {redirect_uri}, and put its `clientId` and the port as `callbackPort` into \
                 `oauth` of the entry"
            )));
        };
        let mut config = OAuthClientConfig::new(&id, &redirect_uri);
        config.client_secret.clone_from(&secret);
        manager.configure_client(config).map_err(failure)?;
        let auth = client_auth(metadata, secret.is_some());
        Ok(StoredClient { issuer: issuer.clone(), id, secret, auth, redirect_uri, origin })
    }

    /// Signs in with the client's own credentials.
    pub(super) async fn machine(
        &self,
        wanted: &RequestedAccess,
    ) -> Result<StoredToken, AuthFailure> {
        let found = self.find(wanted).await?;
        let key = self.config.private_key.as_ref();
        let secret = self.config.client_secret.as_ref().map(|s| s.expose().to_owned());
        let auth = match key {
            Some(_) => ClientAuth::PrivateKey,
            None => client_auth(&found.metadata, secret.is_some()),
        };
        let client = StoredClient {
            issuer: found.issuer.clone(),
            id: self.config.client_id.clone().unwrap_or_default(),
            secret,
            auth,
            redirect_uri: String::new(),
            origin: ClientOrigin::Configured,
        };
        let (resource, scope) = (self.resource.to_string(), found.scopes.join(" "));
        let mut form = vec![("grant_type", "client_credentials"), ("resource", &resource)];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        let endpoint = &found.metadata.token_endpoint;
        let caller = OAuthClient { client: &client, key };
        let granted = grant::token(&self.exchange, StepKind::Token, endpoint, &caller, &form).await;
        let granted = granted.map_err(|refused| refused.into_failure(endpoint))?;
        // The next one is obtained the same way.
        let granted = Granted { refresh_token: None, ..granted };
        Ok(found.token(resource, client.kept(), granted))
    }
}

impl Found {
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

    fn revocation_endpoint(&self) -> Option<String> {
        let named = self.metadata.additional_fields.get("revocation_endpoint");
        named.and_then(Value::as_str).map(str::to_owned)
    }

    fn token(&self, resource: String, client: StoredClient, granted: Granted) -> StoredToken {
        StoredToken {
            issuer: self.issuer.clone(),
            resource,
            client,
            token_endpoint: self.metadata.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint(),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            obtained_at: grant::now(),
            expires_in: granted.expires_in,
            // A server that names none has granted what was asked for (RFC 6749, section 5.1).
            scopes: granted.scopes.unwrap_or_else(|| self.scopes.clone()),
        }
    }
}

/// Shows the address; returns the one that the browser was redirected to.
async fn shown(
    prompt: &dyn SignInPrompt,
    request: SignIn,
    loopback: &Loopback,
    state: &str,
) -> Result<String, AuthFailure> {
    let mine =
        |url: &str| Url::parse(url).is_ok_and(|url| query(&url, "state").as_deref() == Some(state));
    let back = loopback.callback(mine);
    tokio::pin!(back);
    tokio::select! {
        url = &mut back => Ok(url),
        answer = prompt.sign_in(request) => match answer {
            Ok(None) => Ok(back.await),
            Ok(Some(pasted)) if mine(pasted.trim()) => Ok(pasted.trim().to_owned()),
            Ok(Some(_)) => Err(AuthFailure::refused(
                "the pasted address is not the answer to this sign-in (its `state` is another one)",
            )),
            Err(why) => Err(AuthFailure::Declined(why)),
        },
    }
}

/// The code and the `iss` of a callback whose `state` was already checked. The issuer is checked
/// first: messages from another server are not shown (RFC 9207).
fn code_of(
    back: &str,
    metadata: &AuthorizationMetadata,
) -> Result<(String, Option<String>), AuthFailure> {
    let url = Url::parse(back).map_err(AuthFailure::refused)?;
    let issuer = query(&url, "iss");
    if let (Some(issuer), Some(expected)) = (&issuer, &metadata.issuer)
        && issuer != expected
    {
        return Err(AuthFailure::refused(format!(
            "the answer came from another issuer than {expected} (its `iss` differs)"
        )));
    }
    let named = metadata.additional_fields.get("authorization_response_iss_parameter_supported");
    if issuer.is_none() && named.and_then(Value::as_bool) == Some(true) {
        return Err(AuthFailure::refused("the answer does not name its issuer (`iss` is missing)"));
    }
    if let Some(error) = query(&url, "error") {
        let code = if is_code(&error) { error.as_str() } else { "an unknown error" };
        return Err(match code {
            "access_denied" => {
                AuthFailure::Declined("the sign-in page says `access_denied`".into())
            }
            _ => AuthFailure::refused(format!("the sign-in page says `{code}`")),
        });
    }
    let code = query(&url, "code").filter(|code| !code.is_empty());
    code.map(|code| (code, issuer))
        .ok_or_else(|| AuthFailure::refused("the answer holds no `code`"))
}

fn query(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// The authentication method: one that the client can use and the server supports.
fn client_auth(metadata: &AuthorizationMetadata, secret: bool) -> ClientAuth {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let methods = methods.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let takes = |name: &str| methods.iter().any(|method| method == name);
    match secret {
        false => ClientAuth::None,
        true if takes("client_secret_post") && !takes("client_secret_basic") => ClientAuth::Post,
        true => ClientAuth::Basic,
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
        AuthError::HttpError(_)
        | AuthError::DiscoveryRequestFailed { .. }
        | AuthError::TokenExchangeFailed(_)
        | AuthError::RegistrationFailed(_) => AuthFailure::Failed(text),
        _ => AuthFailure::Refused(text),
    }
}

/// Longest wait for the user, so that an abandoned sign-in ends.
pub(super) const PATIENCE: Duration = Duration::from_secs(15 * 60);

// The steps of signing in, and how it fails. A step holds no secret: the query of its address is
// left out, and secrets are masked in what was sent and received.

/// One step, as the doctor, the log and `mcpdeck login` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthStep {
    /// What was done.
    pub kind: StepKind,
    /// Where, without the query.
    pub url: SafeText,
    /// HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// How long it took.
    pub took: Duration,
    /// Why it failed.
    pub refused: Option<SafeText>,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "lowercase")]
pub enum StepKind {
    /// The server refused a request with 401 or 403.
    Challenge,
    /// Protected resource metadata (RFC 9728).
    #[strum(serialize = "resource metadata")]
    ResourceMetadata,
    /// Authorization server metadata (RFC 8414, `OpenID` Connect).
    #[strum(serialize = "server metadata")]
    ServerMetadata,
    /// A client was registered (RFC 7591).
    Register,
    /// The user was shown the address.
    Authorize,
    /// A code or the client's own credentials were exchanged for a token.
    Token,
    /// A token was refreshed.
    Refresh,
    /// A token was revoked (RFC 7009).
    Revoke,
    /// The refused request was sent again with another token.
    Retry,
}

impl StepKind {
    /// Its display name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl AuthStep {
    /// A step made now; anything secret is removed from its address.
    pub(super) fn new(kind: StepKind, url: &Url) -> Self {
        let mut shown = url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let _ = (shown.set_password(None), shown.set_username(""));
        let url = SafeText::line(shown.as_str());
        Self { kind, url, status: None, took: Duration::ZERO, refused: None }
    }

    /// The address, the status, and why it failed.
    pub fn outcome(&self) -> String {
        let status = self.status.map(|status| format!(" HTTP {status}")).unwrap_or_default();
        let why = self.refused.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}{status}{why}", self.url)
    }
}

impl std::fmt::Display for AuthStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} ms) {}", self.kind.as_str(), self.took.as_millis(), self.outcome())
    }
}

/// An event concerning a server's account.
#[derive(Clone, Copy, Debug)]
pub enum AuthEvent<'a> {
    /// A step was made. What was sent and received is JSON in which secrets are masked.
    Step {
        /// The step.
        step: &'a AuthStep,
        /// What was sent; empty when nothing was.
        sent: &'a str,
        /// What was received; empty when nothing was.
        answered: &'a str,
    },
    /// The token in use changed; `None` when there is none any more.
    Token(Option<&'a StoredToken>),
    /// The server requires the user to sign in; no [`crate::auth::SignInPrompt`] is set.
    Needed,
}

/// A listener for these events.
pub(super) type AuthListener = Arc<dyn Fn(&ServerName, AuthEvent<'_>) + Send + Sync>;

/// Reports the events of one server.
#[derive(Clone)]
pub(super) struct AuthReporter {
    pub(super) server: ServerName,
    pub(super) watches: Vec<AuthListener>,
}

impl AuthReporter {
    pub(super) fn emit(&self, event: AuthEvent<'_>) {
        for watch in &self.watches {
            watch(&self.server, event);
        }
    }

    pub(super) fn step(&self, step: AuthStep, sent: &[u8], answered: &[u8]) {
        tracing::info!(server = %self.server, %step, "sign-in");
        let sent = readable(step.kind, sent, true);
        let answered = readable(step.kind, answered, false);
        self.emit(AuthEvent::Step { step: &step, sent: &sent, answered: &answered });
    }
}

/// A body as JSON in which secrets are masked. Requests may be forms, and the browser sends and
/// receives a query; any other text is only counted. Metadata is public.
fn readable(kind: StepKind, body: &[u8], is_sent: bool) -> String {
    if body.is_empty() {
        return String::new();
    }
    let json = serde_json::from_slice(body).ok().filter(Value::is_object);
    let mut value = match json {
        Some(json) => json,
        None if is_sent || kind == StepKind::Authorize => {
            let pairs = url::form_urlencoded::parse(body).into_owned();
            pairs.map(|(key, value)| (key, Value::String(value))).collect::<Value>()
        }
        None => return format!("{} bytes that are not a JSON object", body.len()),
    };
    if !matches!(kind, StepKind::ResourceMetadata | StepKind::ServerMetadata) {
        mask("", &mut value);
    }
    value.to_string()
}

fn mask(name: &str, value: &mut Value) {
    const SECRET: [&str; 3] = ["code", "code_verifier", "state"];
    match value {
        Value::String(text)
            if SECRET.contains(&name) || name.contains("assertion") || is_secret(name, text) =>
        {
            MASK.clone_into(text);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(name, item)),
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| mask(name, value)),
        _ => {}
    }
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailure {
    /// The user has to sign in, and there was no prompt.
    #[error("needs signing in{0}: run `mcpdeck login {1}`")]
    SignInNeeded(String, String),
    /// The user declined.
    #[error("signing in was declined: {0}")]
    Declined(String),
    /// A server's response violates the specification or is not safe; retrying does not help.
    #[error("signing in was refused: {0}")]
    Refused(String),
    /// Something failed on the way; possibly transient.
    #[error("signing in failed: {0}")]
    Failed(String),
}

impl AuthFailure {
    /// A refusal that quotes what a server said.
    pub(super) fn refused(text: impl std::fmt::Display) -> Self {
        Self::Refused(SafeText::line(&text.to_string()).to_string())
    }

    /// A failure that quotes what a server or the system said.
    pub(super) fn failed(text: impl std::fmt::Display) -> Self {
        Self::Failed(SafeText::line(&text.to_string()).to_string())
    }
}

// The redirect target: `http://127.0.0.1:PORT/callback` (RFC 8252, section 7.3). The path is fixed;
// the port is reused, because clients are registered with it.

const PATH: &str = "/callback";

/// A listener for the browser's redirect.
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
}

impl Loopback {
    /// Longest request read, in bytes.
    const BYTES: usize = 32 << 10;
    const PATIENCE: Duration = Duration::from_secs(5);
    /// Most connections served at the same time.
    const AT_ONCE: usize = 16;
    /// Range of new ports: below the ephemeral ports (from 32768 on Linux, 49152 elsewhere), so
    /// that no outgoing connection occupies it at the next sign-in.
    const PORTS: std::ops::Range<u16> = 20_000..32_768;
    const TRIES: usize = 32;

    /// Listens at the configured port, or else at the remembered one when it is free, or else at a
    /// new one.
    ///
    /// # Errors
    /// When the configured port is taken; names the program that holds it.
    pub(super) async fn bind(
        configured: Option<u16>,
        remembered: Option<u16>,
    ) -> Result<Self, AuthFailure> {
        let at = |port: u16| TcpListener::bind(("127.0.0.1", port));
        let listener = match (configured, remembered) {
            (Some(port), _) => at(port).await.map_err(|error| taken(port, &error))?,
            (None, remembered) => {
                let new = (0..Self::TRIES).map(|_| fastrand::u16(Self::PORTS));
                let mut found = Err(io::ErrorKind::AddrInUse.into());
                // Any port will do when none of these is free.
                for port in remembered.into_iter().chain(new).chain([0]) {
                    found = at(port).await;
                    if found.is_ok() {
                        break;
                    }
                }
                found.map_err(AuthFailure::failed)?
            }
        };
        let port = listener.local_addr().map_err(AuthFailure::failed)?.port();
        Ok(Self { listener, port })
    }

    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for a request to the path that `accepts` approves; others get a 404. Browsers open
    /// connections that they do not use, so several are served at the same time.
    pub(super) async fn callback(&self, accepts: impl Fn(&str) -> bool) -> String {
        let mut open = FuturesUnordered::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if open.len() < Self::AT_ONCE => match accepted {
                    Ok((stream, _)) => open.push(self.serve(stream, &accepts)),
                    // Out of file descriptors, which is transient.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
                served = open.next(), if !open.is_empty() => {
                    if let Some(Some(url)) = served {
                        return url;
                    }
                }
            }
        }
    }

    /// Answers one request; returns its address if it is the one that was waited for.
    async fn serve(&self, mut stream: TcpStream, accepts: impl Fn(&str) -> bool) -> Option<String> {
        let read = tokio::time::timeout(Self::PATIENCE, target(&mut stream)).await;
        let found =
            read.ok().flatten().map(|target| format!("http://127.0.0.1:{}{target}", self.port));
        let good = found
            .filter(|url| url::Url::parse(url).is_ok_and(|url| url.path() == PATH) && accepts(url));
        let (status, text) = match good {
            Some(_) => ("200 OK", "Done. You can close this page and go back to mcpdeck."),
            None => ("404 Not Found", "mcpdeck is not waiting for this."),
        };
        let reply = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n\
             content-length: {}\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
            text.len()
        );
        let _ = tokio::time::timeout(Self::PATIENCE, stream.write_all(reply.as_bytes())).await;
        let _ = stream.shutdown().await;
        good
    }
}

/// The target of a GET, once its head is complete.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0_u8; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&piece[..read]);
        if head.len() > Loopback::BYTES {
            return None;
        }
    }
    let line = std::str::from_utf8(&head).ok()?.lines().next()?;
    let mut words = line.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned)).flatten()
}

fn taken(port: u16, error: &io::Error) -> AuthFailure {
    let holder = holder(port).map(|who| format!(" by {who}")).unwrap_or_default();
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => format!("is in use{holder}"),
        _ => format!("cannot be opened: {error}"),
    };
    AuthFailure::refused(format!(
        "port {port} of `oauth.callbackPort` {what}; stop that program, or register another port"
    ))
}

/// The program that listens on a port of this machine, where the system reports it.
fn holder(port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    let table = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect::<String>();
    let end = format!(":{port:04X}");
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let here = fields.get(1)?.ends_with(&end) && *fields.get(3)? == LISTENS;
        here.then(|| fields.get(9).copied()).flatten()
    })?;
    let socket = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbered = processes.filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok());
    for process in numbered {
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let holds = files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|link| link.to_string_lossy() == socket);
        if holds {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let pid = process.file_name().to_string_lossy().into_owned();
            return Some(format!("`{}` (pid {pid})", name.trim()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_said_in_words_and_keep_their_names() {
        assert_eq!(
            scopes_in_words(["openid", "offline_access", "repo:read", "write.files", "a:b"]),
            "who you are (openid), staying signed in while you are away (offline_access), \
             read repo (repo:read), write files (write.files), a:b"
        );
        assert_eq!(scopes_in_words([]), "nothing in particular");
    }

    #[test]
    fn a_parameter_is_found_by_its_whole_name() {
        let challenge = r#"Bearer error="insufficient_scope", error_description="scope=x", scope="a b", resource_metadata=https://a/b"#;
        assert_eq!(parameter(challenge, "error").as_deref(), Some("insufficient_scope"));
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("a b"));
        assert_eq!(parameter(challenge, "resource_metadata").as_deref(), Some("https://a/b"));
        assert_eq!(parameter(challenge, "realm"), None);
        assert_eq!(parameter("bearer SCOPE=", "scope").as_deref(), Some(""));
    }
}

#[cfg(test)]
mod step_tests {
    use super::*;

    #[test]
    fn secrets_of_a_form_and_of_an_answer_are_masked_and_the_rest_is_readable() {
        let form = b"grant_type=authorization_code&code=good&code_verifier=v&client_assertion=a.b";
        assert_eq!(
            readable(StepKind::Token, form, true),
            r#"{"grant_type":"authorization_code","code":"***","code_verifier":"***","client_assertion":"***"}"#
        );
        let answer = br#"{"access_token":"a","refresh_token":"r","id_token":"i","token_type":"Bearer","expires_in":5,"scope":"read","nested":[{"client_secret":"s"}]}"#;
        let shown = readable(StepKind::Token, answer, false);
        assert_eq!(shown.matches(MASK).count(), 4, "{shown}");
        assert!(
            shown.contains(r#""token_type":"Bearer","expires_in":5,"scope":"read""#),
            "{shown}"
        );
        let page = readable(StepKind::Token, b"<p>the token abc</p>", false);
        assert_eq!(page, "20 bytes that are not a JSON object");
    }
}
