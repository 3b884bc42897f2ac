//! The POSTs to the token and revocation endpoints: codes, refresh, client credentials, sign-out. None
//! is left to rmcp: a rotating refresh token needs a lock, and answers are read as servers write them.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures::StreamExt;
use http::Method;
use http::header::LOCATION;
use ring::digest::{SHA256, digest};
use ring::error::Unspecified;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::address::AddressPolicy;
use super::challenge::NONCE_WANTED;
use super::fresh::now;
use super::proof::ProofKey;
use super::report::AuthReporter;
use super::step::{AuthFailure, AuthStep, StepKind};
use super::token::{ClientAuth, StoredClient, StoredToken, is_sendable};
use crate::transport::coding::decoded;
use crate::transport::moved::{Moved, RedirectReach};
use crate::transport::remote;
use base::secret::MASK;
use base::{Clock, SafeText, Secret, retry_after};
use config::TlsConfig;

/// What a token endpoint granted.
pub(super) struct Granted {
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
    /// What was issued, in an exchange (RFC 8693, section 2.2.1).
    pub(super) issued: Option<String>,
}

/// Why a token endpoint granted no token.
pub(super) enum NotGranted {
    /// It answered with this `error`; what it said about it follows a colon.
    Code { code: String, said: String },
    /// Another, possibly transient failure.
    Failed(AuthFailure),
}

impl NotGranted {
    /// Converts it to a sign-in failure.
    pub(super) fn into_failure(self, endpoint: &str) -> AuthFailure {
        match self {
            Self::Code { code, said } => {
                AuthFailure::refused(format!("{endpoint} answered `{code}`{said}"))
            }
            Self::Failed(failure) => failure,
        }
    }
}

/// A client, how it signs its assertions, and what its tokens are bound to.
#[derive(Clone, Copy)]
pub(super) struct OAuthClient<'a> {
    pub(super) client: &'a StoredClient,
    /// Its private key, when it signs assertions.
    pub(super) key: Option<&'a Secret>,
    /// The key that its tokens are bound to.
    pub(super) proof: Option<&'a ProofKey>,
}

impl<'a> OAuthClient<'a> {
    /// A client without keys.
    pub(super) fn new(client: &'a StoredClient) -> Self {
        Self { client, key: None, proof: None }
    }
}

/// Posts a grant.
pub(super) async fn token(
    exchange: &TokenClient,
    kind: StepKind,
    endpoint: &str,
    caller: &OAuthClient<'_>,
    form: &[(&str, &str)],
) -> Result<Granted, NotGranted> {
    let failed = NotGranted::Failed;
    let mut posted = post(exchange, kind, endpoint, caller, form).await.map_err(failed)?;
    let asks = error_code(posted.response.body()).as_deref() == Some(NONCE_WANTED);
    if let Some(proof) = caller.proof
        && let Ok(url) = Url::parse(endpoint)
        && proof.learn(&url, posted.response.headers())
        && asks
    {
        posted = post(exchange, kind, endpoint, caller, form).await.map_err(failed)?;
        proof.learn(&url, posted.response.headers());
    }
    let Posted { response, tries } = posted;
    let status = response.status();
    let said = words_of_refusal(response.body(), form);
    if is_passing(&response) {
        let code = error_code(response.body()).map(|code| format!(" `{code}`"));
        let code = code.unwrap_or_default();
        let why = format!("{endpoint}: HTTP {status}{code}{}{said}", in_tries(tries));
        return Err(NotGranted::Failed(AuthFailure::failed(why)));
    }
    if !status.is_success() {
        return Err(match error_code(response.body()) {
            Some(code) if status.is_client_error() => NotGranted::Code { code, said },
            Some(_) | None => {
                let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
                let place = place.filter(|_| status.is_redirection()).map(|place| {
                    let place = place.split(['?', '#']).next().unwrap_or_default();
                    format!(" to {}, which no token is sent to", SafeText::cut(place, 200))
                });
                let place = place.unwrap_or_default();
                let why = format!("{endpoint}: HTTP {status}{place}{}{said}", in_tries(tries));
                NotGranted::Failed(AuthFailure::failed(why))
            }
        });
    }
    let kind = if caller.proof.is_some() { TokenKind::Bound } else { TokenKind::Bearer };
    granted(response.body(), kind).map_err(|why| match error_code(response.body()) {
        // Some answer every request with 200.
        Some(code) => NotGranted::Code { code, said },
        None => NotGranted::Failed(AuthFailure::refused(format!("{endpoint}: {why}"))),
    })
}

/// Whether a refusal says that another attempt may succeed: by its status, or by a code that is no
/// verdict about what was sent.
fn is_passing(response: &http::Response<Vec<u8>>) -> bool {
    const CODES: [&str; 3] = ["temporarily_unavailable", "server_error", "slow_down"];
    let status = response.status();
    status.is_server_error()
        || matches!(status.as_u16(), 408 | 425 | 429)
        || error_code(response.body()).is_some_and(|code| CODES.contains(&&*code))
}

/// What kind of token was asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TokenKind {
    Bearer,
    /// Bound to a key (RFC 9449).
    Bound,
    /// A grant for another server, which no request is sent with (RFC 8693, section 2.2.1).
    Grant,
}

/// Reads a granted token, with numbers and lists as servers write them.
///
/// # Errors
/// Why it cannot be used.
fn granted(body: &[u8], wanted: TokenKind) -> Result<Granted, &'static str> {
    let body = answer_of(body).ok_or("the answer is not JSON")?;
    let text = |key: &str| Some(body.get(key)?.as_str()?.to_owned());
    let named = text("token_type").unwrap_or_default();
    let named = named.trim();
    match wanted {
        TokenKind::Bearer if !named.is_empty() && !named.eq_ignore_ascii_case("bearer") => {
            return Err("the token is not a bearer token");
        }
        TokenKind::Bound if !named.eq_ignore_ascii_case("dpop") => {
            return Err("the token is not bound to the key that was shown (its type is not DPoP)");
        }
        TokenKind::Grant if text("issued_token_type").as_deref() != Some(ID_JAG) => {
            return Err("the answer holds no grant (its `issued_token_type` is another one)");
        }
        TokenKind::Bearer | TokenKind::Bound | TokenKind::Grant => {}
    }
    let access_token = text("access_token").filter(|token| !token.is_empty());
    let access_token = access_token.ok_or("the answer holds no `access_token`")?;
    if !is_sendable(&access_token) {
        return Err("the token holds characters that no header may");
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    Ok(Granted {
        access_token,
        refresh_token: text("refresh_token").filter(|token| !token.is_empty()),
        expires_in: lifetime(&body["expires_in"]),
        scopes: match &body["scope"] {
            Value::String(scopes) => Some(words(scopes)),
            Value::Array(all) => {
                Some(all.iter().filter_map(Value::as_str).flat_map(words).collect())
            }
            _ => None,
        },
        issued: text("issued_token_type"),
    })
}

/// The members of an answer: JSON (RFC 6749, section 5.1), or the form that some servers answer with
/// whatever is accepted.
fn answer_of(body: &[u8]) -> Option<Value> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let body = body.strip_prefix(MARK).unwrap_or(body);
    if let Ok(value) = serde_json::from_slice(body) {
        return Some(value);
    }
    let text = str::from_utf8(body).ok()?.trim();
    let is_form = ["access_token=", "error="]
        .iter()
        .any(|key| text.strip_prefix(key).is_some() || text.contains(&format!("&{key}")));
    let members = || url::form_urlencoded::parse(text.as_bytes());
    let member = |(key, value): (std::borrow::Cow<'_, str>, std::borrow::Cow<'_, str>)| {
        (key.into_owned(), Value::from(value.into_owned()))
    };
    (is_form && !text.contains(char::is_whitespace)).then(|| members().map(member).collect())
}

/// The type of a grant that an identity provider gives for a person.
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";

/// The grant of an exchange (RFC 8693, section 2.1).
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
/// Types of tokens (RFC 8693, section 3).
const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const JWT: &str = "urn:ietf:params:oauth:token-type:jwt";

/// The grant of a JWT (RFC 7523, section 2.1).
pub(super) const JWT_BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";

/// Exchanges the ID token of a person for a grant at another authorization server (RFC 8693).
///
/// # Errors
/// What the identity provider answered.
pub(super) async fn exchange_id_token(
    exchange: &TokenClient,
    endpoint: &str,
    caller: &OAuthClient<'_>,
    id_token: &Secret,
    wanted: &WantedGrant<'_>,
) -> Result<Secret, AuthFailure> {
    let mut form = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ID_JAG),
        ("subject_token", id_token.expose()),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"),
        ("audience", wanted.issuer),
        ("resource", wanted.resource),
    ];
    if !wanted.scope.is_empty() {
        form.push(("scope", wanted.scope));
    }
    let posted = post(exchange, StepKind::Exchange, endpoint, caller, &form).await?;
    let response = posted.response;
    let (status, body) = (response.status(), response.body());
    if !status.is_success() {
        let code = error_code(body).unwrap_or_else(|| format!("HTTP {status}"));
        let why = format!(
            "the identity provider gave no grant for {}: {endpoint} answered `{code}`",
            wanted.issuer
        );
        return Err(if status.is_client_error() && !is_passing(&response) {
            AuthFailure::refused(why)
        } else {
            AuthFailure::failed(why)
        });
    }
    let granted = granted(body, TokenKind::Grant);
    let granted = granted.map_err(|why| AuthFailure::refused(format!("{endpoint}: {why}")))?;
    Ok(Secret::new(granted.access_token))
}

/// What a grant is wanted for.
pub(super) struct WantedGrant<'a> {
    /// The authorization server that takes it.
    pub(super) issuer: &'a str,
    /// The server that tokens are obtained for.
    pub(super) resource: &'a str,
    /// Scopes, separated by blanks; empty for none.
    pub(super) scope: &'a str,
}

/// Exchanges the access token of a person for one that is good at a server alone (RFC 8693).
///
/// # Errors
/// What the authorization server answered, or that its token is good elsewhere too.
pub(super) async fn exchange_access_token(
    exchange: &TokenClient,
    endpoint: &str,
    caller: &OAuthClient<'_>,
    (subject, actor): (&Secret, Option<&Secret>),
    wanted: &WantedToken<'_>,
) -> Result<Granted, AuthFailure> {
    let mut form = vec![
        ("grant_type", TOKEN_EXCHANGE),
        ("requested_token_type", ACCESS_TOKEN),
        ("subject_token", subject.expose()),
        ("subject_token_type", ACCESS_TOKEN),
        ("resource", wanted.resource),
    ];
    if let Some(audience) = wanted.audience {
        form.push(("audience", audience));
    }
    if !wanted.scope.is_empty() {
        form.push(("scope", wanted.scope));
    }
    if let Some(actor) = actor {
        form.extend([("actor_token", actor.expose()), ("actor_token_type", JWT)]);
    }
    let granted = token(exchange, StepKind::Exchange, endpoint, caller, &form).await;
    let granted = granted.map_err(|refused| match refused {
        NotGranted::Code { code, said } => AuthFailure::refused(format!(
            "{endpoint} gave no token of the caller for {}: it answered `{code}`{said}",
            wanted.resource
        )),
        NotGranted::Failed(failure) => failure,
    })?;
    let refused = |why: &str| Err(AuthFailure::refused(format!("{endpoint}: {why}")));
    match granted.issued.as_deref() {
        Some(ACCESS_TOKEN | JWT) => {}
        Some(_) => {
            return refused(
                "the answer holds no access token (its `issued_token_type` is another one)",
            );
        }
        None => return refused("the answer does not say what it holds: `issued_token_type`"),
    }
    let audiences = audiences(&granted.access_token);
    let is_good_here =
        audiences.iter().any(|name| self::audiences(subject.expose()).contains(name));
    if granted.access_token == subject.expose() || is_good_here {
        return refused("its token is good at the gateway too: the server could use it there");
    }
    Ok(granted)
}

/// Whom a JWT is for; nobody for any other token. Nothing is believed because of it.
fn audiences(token: &str) -> Vec<String> {
    let claims = token.split('.').nth(1).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok());
    let claims = claims.and_then(|claims| serde_json::from_slice::<Value>(&claims).ok());
    match claims.as_ref().map(|claims| &claims["aud"]) {
        Some(Value::String(one)) => vec![one.clone()],
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// What a token is wanted for.
pub(super) struct WantedToken<'a> {
    /// The address of the server.
    pub(super) resource: &'a str,
    /// Its name at the authorization server.
    pub(super) audience: Option<&'a str>,
    /// Scopes, separated by blanks; empty for none.
    pub(super) scope: &'a str,
}

/// A number of seconds, which many servers write as a text.
pub(super) fn seconds(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// A lifetime in seconds. One that ends before it begins says nothing; nor does one that nobody will
/// see the end of. The server says when the token is no longer good.
fn lifetime(value: &Value) -> Option<u64> {
    let seconds = seconds(value)?;
    (1.0..=StoredToken::MAX_LIFETIME_SECONDS as f64).contains(&seconds).then_some(seconds as u64)
}

/// What the sign-in page is told of a code verifier (RFC 7636, S256).
pub(super) fn code_challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes()))
}

/// Longest wait for a revocation: the token is forgotten here whether or not it is answered.
const REVOCATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Revokes the refresh token, or the access token where there is none (RFC 7009).
pub(super) async fn revoke(
    exchange: &TokenClient,
    token: &StoredToken,
    caller: &OAuthClient<'_>,
) -> Result<(), AuthFailure> {
    let Some(endpoint) = &token.revocation_endpoint else { return Ok(()) };
    let (hint, value) = match &token.refresh_token {
        Some(refresh) => ("refresh_token", refresh),
        None => ("access_token", &token.access_token),
    };
    let form = [("token", value.as_str()), ("token_type_hint", hint), ("client_secret", "")];
    let posted = async {
        let posted = post(exchange, StepKind::Revoke, endpoint, caller, &form[..2]).await?;
        // Servers of the Python SDK want the member of clients that have no secret, or show it
        // elsewhere, too; an empty one is none (RFC 6749, section 2.3.1).
        let code = error_code(posted.response.body());
        let wants_all = code.as_deref() == Some("invalid_request");
        if wants_all && matches!(caller.client.auth, ClientAuth::None | ClientAuth::Basic) {
            return post(exchange, StepKind::Revoke, endpoint, caller, &form).await;
        }
        Ok(posted)
    };
    let Posted { response, .. } =
        tokio::time::timeout(REVOCATION_TIMEOUT, posted).await.map_err(|_| {
            let limit = REVOCATION_TIMEOUT.as_secs();
            AuthFailure::failed(format!("{endpoint} did not answer within {limit} s"))
        })??;
    if response.status().is_success() {
        return Ok(());
    }
    Err(AuthFailure::failed(format!("{endpoint}: HTTP {}", response.status())))
}

/// The pauses before a request is sent again that an authorization server could not answer: it is
/// starting, or one of its replicas is ending.
const RETRY_PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(600), Duration::from_millis(1_800)];
/// Longest pause that a server may ask for (`Retry-After`) and gets, while a person waits.
const MAX_RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// An answer, and how often its request was sent for it.
pub(super) struct Posted {
    pub(super) response: http::Response<Vec<u8>>,
    pub(super) tries: usize,
}

/// Posts a form. A grant is posted again where nobody has answered it. What a 4xx says is final
/// (RFC 6749, section 5.2).
///
/// # Errors
/// Why there was no answer.
async fn post(
    exchange: &TokenClient,
    kind: StepKind,
    endpoint: &str,
    caller: &OAuthClient<'_>,
    form: &[(&str, &str)],
) -> Result<Posted, AuthFailure> {
    // Each has an assertion and a proof of its own: they are good once.
    let request = || request_of(endpoint, caller, form);
    exchange.run_with_retries(kind, request).await
}

/// Whether a request is sent again that nobody has answered, by the status of an answer: the
/// connection broke (`None`), or a 5xx says that the server cannot now. Not where it asks for
/// patience ([`is_passing`]): that is for the caller to have.
const fn may_send_again(kind: StepKind, status: Option<u16>) -> bool {
    let is_sent_again = matches!(
        kind,
        StepKind::ResourceMetadata
            | StepKind::ServerMetadata
            | StepKind::Register
            | StepKind::Token
            | StepKind::Exchange
            | StepKind::Refresh
    );
    is_sent_again && matches!(status, None | Some(500 | 502..=504))
}

/// How often something was tried, in words; nothing when once.
pub(super) fn in_tries(tries: usize) -> String {
    if tries > 1 { format!(" (tried {tries} times)") } else { String::new() }
}

/// The pause that a server asks for.
fn pause_asked(response: &http::Response<Vec<u8>>) -> Duration {
    let asked = response.headers().get(http::header::RETRY_AFTER);
    let asked = asked.and_then(|asked| retry_after(asked.to_str().ok()?, Clock::system().now()));
    asked.unwrap_or_default()
}

/// The request that posts a form for a client.
fn request_of(
    endpoint: &str,
    OAuthClient { client, key, proof }: &OAuthClient<'_>,
    form: &[(&str, &str)],
) -> Result<http::Request<Vec<u8>>, AuthFailure> {
    let url = Url::parse(endpoint).map_err(AuthFailure::refused)?;
    let mut request = http::Request::post(url.as_str())
        .header("content-type", "application/x-www-form-urlencoded")
        .header("accept", "application/json");
    let mut form = form.to_vec();
    let secret = client.secret.as_deref().unwrap_or_default();
    let assertion;
    match client.auth {
        ClientAuth::None => form.push(("client_id", &client.id)),
        ClientAuth::Post => form.extend([("client_id", &*client.id), ("client_secret", secret)]),
        ClientAuth::Basic => {
            let part = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
            let pair = STANDARD.encode(format!("{}:{}", part(&client.id), part(secret)));
            // It may stand there too (RFC 6749, section 3.2.1), and servers of the Python SDK find the
            // client by it.
            form.push(("client_id", &client.id));
            request = request.header("authorization", format!("Basic {pair}"));
        }
        ClientAuth::PrivateKey => {
            let pem = key.map(Secret::expose).unwrap_or_default();
            let signed = sign(pem, &client.id, &client.issuer, now());
            assertion = signed.map_err(AuthFailure::Refused)?;
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            form.extend([("client_assertion_type", kind), ("client_assertion", &*assertion)]);
        }
    }
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let mut request = request.body(body.into_bytes()).map_err(AuthFailure::failed)?;
    if let Some(proof) = proof {
        proof.attach(request.headers_mut(), "POST", &url, None)?;
    }
    Ok(request)
}

// Every HTTP request of a sign-in: checked, bounded, never redirected to another origin, and
// recorded as a step.

/// The HTTP client of one server's authorization.
#[derive(Clone)]
pub(super) struct TokenClient {
    http: reqwest::Client,
    pub(super) policy: AddressPolicy,
    pub(super) events: AuthReporter,
}

impl TokenClient {
    /// Longest response body, in bytes.
    const MAX_BODY_BYTES: usize = 256 << 10;
    const GRANT_TIMEOUT: Duration = Duration::from_secs(30);

    pub(super) fn new(
        server: &Url,
        tls: &TlsConfig,
        events: AuthReporter,
    ) -> Result<Self, AuthFailure> {
        let policy = AddressPolicy::new(server);
        let http = remote::client_builder(server, tls).map_err(AuthFailure::Refused)?;
        let http = http
            // Redirects of discovery are followed by rmcp, within the origin.
            .redirect(reqwest::redirect::Policy::none())
            .dns_resolver(policy.clone())
            .timeout(Self::GRANT_TIMEOUT)
            .build()
            .map_err(AuthFailure::failed)?;
        Ok(Self { http, policy, events })
    }

    /// Sends one request and reads its answer.
    ///
    /// # Errors
    /// The address, and why there was no response.
    pub(super) async fn run(
        &self,
        kind: StepKind,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, NoAnswer> {
        let url = request.uri().to_string();
        let url = Url::parse(&url).map_err(|error| NoAnswer::lasting(format!("{url}: {error}")))?;
        let sent = request.body().clone();
        let began = Instant::now();
        let done = match self.policy.check(&url) {
            Ok(()) => self.answer(request).await,
            Err(why) => Err(NoAnswer::lasting(why)),
        };
        let took = began.elapsed();
        let (status, answered, why) = match &done {
            Ok(response) => {
                let (status, body) = (response.status(), response.body().as_slice());
                let refused = status.is_client_error() || status.is_server_error();
                let code = refused.then(|| error_code(body)).flatten();
                // That a made-up code is refused is what a client check hopes for.
                let code = code.filter(|code| kind != StepKind::Client || code.contains("client"));
                (Some(status.as_u16()), body, code)
            }
            Err(none) => (None, &[][..], Some(none.said.clone())),
        };
        let refused = why.as_deref().map(SafeText::line);
        let step = AuthStep { status, took, refused, ..AuthStep::new(kind, &url) };
        self.events.step(step, &sent, answered);
        done.map_err(|none| {
            let mut shown = url;
            shown.set_query(None);
            NoAnswer { said: format!("{shown}: {}", none.said), ..none }
        })
    }

    /// Sends a request, and again where nobody has answered it ([`may_send_again`]), at most as often
    /// as there are pauses.
    ///
    /// # Errors
    /// The address, why there was no response, and how often it was tried.
    pub(super) async fn run_with_retries(
        &self,
        kind: StepKind,
        request: impl Fn() -> Result<http::Request<Vec<u8>>, AuthFailure>,
    ) -> Result<Posted, AuthFailure> {
        let mut pauses = RETRY_PAUSES.iter();
        let mut tries = 0;
        loop {
            tries += 1;
            let answered = self.run(kind, request()?).await;
            let asked = match &answered {
                Ok(response) if may_send_again(kind, Some(response.status().as_u16())) => {
                    pause_asked(response)
                }
                Err(none) if none.is_passing && may_send_again(kind, None) => Duration::ZERO,
                Ok(_) | Err(_) => Duration::MAX,
            };
            let Some(pause) = pauses.next().filter(|_| asked <= MAX_RETRY_INTERVAL) else {
                let failed = |none: NoAnswer| {
                    AuthFailure::failed(format!("{}{}", none.said, in_tries(tries)))
                };
                return answered.map(|response| Posted { response, tries }).map_err(failed);
            };
            tokio::time::sleep(asked.max(*pause)).await;
        }
    }

    async fn sent(&self, request: http::Request<Vec<u8>>) -> Result<reqwest::Response, NoAnswer> {
        let request = reqwest::Request::try_from(request)
            .map_err(|error| NoAnswer::lasting(remote::innermost(&error)))?;
        let sent = self.http.execute(request).await;
        sent.map_err(|error| NoAnswer {
            said: remote::innermost(&error),
            is_passing: remote::is_passing(&error),
        })
    }

    pub(super) async fn answer(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, NoAnswer> {
        let broken = |error: &(dyn std::error::Error + 'static)| NoAnswer {
            said: remote::innermost(error),
            is_passing: remote::is_passing(error),
        };
        // A proof is good at one address.
        let is_movable =
            request.method() == Method::POST && !request.headers().contains_key("dpop");
        let again = is_movable.then(|| request.clone());
        let mut response = self.sent(request).await?;
        if let Some(mut again) = again
            && let Some(next) = moved(&again, &response)
        {
            *again.uri_mut() = next;
            response = self.sent(again).await?;
        }
        let mut out = http::Response::builder().status(response.status());
        // An event stream never ends, and was not asked for.
        let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
        let streams = kind.is_some_and(|kind| kind.starts_with("text/event-stream"));
        for (name, value) in response.headers() {
            out = out.header(name, value);
        }
        let mut body = Vec::new();
        let mut stream = decoded(response);
        while !streams && let Some(chunk) = stream.next().await {
            body.extend_from_slice(&chunk.map_err(|error| broken(&error))?);
            if body.len() > Self::MAX_BODY_BYTES {
                let why = format!("the answer is over {} bytes", Self::MAX_BODY_BYTES);
                return Err(NoAnswer::lasting(why));
            }
        }
        out.body(body).map_err(|error| NoAnswer::lasting(error.to_string()))
    }
}

/// Where a form is posted again, because its endpoint has another last slash.
fn moved(request: &http::Request<Vec<u8>>, response: &reqwest::Response) -> Option<http::Uri> {
    let at = Url::parse(&request.uri().to_string()).ok()?;
    let (status, headers) = (response.status(), response.headers());
    match Moved::from_response(request.method(), &at, status, headers, RedirectReach::ENDPOINT) {
        Moved::To(next) => next.as_str().parse().ok(),
        Moved::Not | Moved::Refused(_) => None,
    }
}

/// Why a request has no answer.
pub(super) struct NoAnswer {
    pub(super) said: String,
    /// Whether the connection failed in a way that another may not.
    is_passing: bool,
}

impl NoAnswer {
    fn lasting(said: String) -> Self {
        Self { said, is_passing: false }
    }
}

/// The `error` of an OAuth answer, when it is a code of the specification's alphabet.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let body = answer_of(body)?;
    let code = body.get("error")?.as_str()?;
    is_code(code).then(|| code.to_owned())
}

/// What a refusal says beside its code, after a colon: the sentence in it, or its first line where it
/// is neither JSON nor a page. Without what was sent, which it may repeat.
fn words_of_refusal(body: &[u8], sent: &[(&str, &str)]) -> String {
    let answer = answer_of(body);
    let of_answer = |answer: &Value| {
        let places = ["/error_description", "/error/message", "/message", "/detail"];
        places.iter().find_map(|place| answer.pointer(place)?.as_str().map(str::to_owned))
    };
    let text = match &answer {
        Some(answer) => of_answer(answer),
        None => str::from_utf8(body).ok().and_then(|text| {
            let first = text.trim().lines().next()?;
            (!first.starts_with('<')).then(|| first.to_owned())
        }),
    };
    let mut text = text.unwrap_or_default();
    for (_, value) in sent.iter().filter(|(_, value)| value.len() >= MIN_SECRET_BYTES) {
        text = text.replace(value, MASK);
    }
    let text = SafeText::cut(text.trim(), 200);
    if text.as_str().is_empty() { String::new() } else { format!(": {text}") }
}

/// Shortest value of a form that is masked where it is repeated, in bytes.
const MIN_SECRET_BYTES: usize = 6;

/// Whether a text is an error code rather than a message.
pub(super) fn is_code(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-.".contains(&b))
}

// The assertion of a client that has a key (RFC 7523, `private_key_jwt`).

/// Seconds an assertion is valid.
const ASSERTION_LIFETIME_SECONDS: u64 = 300;

/// Signs an assertion of `client` for `audience`, at `now` in seconds since 1970. The key is PKCS#8
/// in PEM: RSA (RS256), P-256 (ES256) or P-384 (ES384).
///
/// # Errors
/// What is wrong with the key.
pub(super) fn sign(pem: &str, client: &str, audience: &str, now: u64) -> Result<String, String> {
    let (algorithm, key) = signing_key(pem)?;
    let mut id = [0_u8; 16];
    SystemRandom::new().fill(&mut id).map_err(|_| "the system's random source failed")?;
    let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = part(json!({"alg": algorithm, "typ": "JWT"}));
    let claims = part(json!({
        "iss": client, "sub": client, "aud": audience, "iat": now, "exp": now + ASSERTION_LIFETIME_SECONDS,
        "jti": URL_SAFE_NO_PAD.encode(id),
    }));
    let text = format!("{header}.{claims}");
    let signature = key(text.as_bytes()).map_err(|_| "the key cannot sign")?;
    Ok(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

/// Signs a text.
type SignFn = Box<dyn Fn(&[u8]) -> Result<Vec<u8>, Unspecified>>;

/// The algorithm of a PEM key, and its signing function.
fn signing_key(pem: &str) -> Result<(&'static str, SignFn), String> {
    let body: String = pem.lines().filter(|line| !line.contains("-----")).map(str::trim).collect();
    let wanted = "`oauth.privateKey` must be a private key in PKCS#8 PEM: RSA, P-256 or P-384";
    let der = STANDARD.decode(body).map_err(|_| wanted)?;
    if let Ok(key) = RsaKeyPair::from_pkcs8(&der).or_else(|_| RsaKeyPair::from_der(&der)) {
        let sign = move |text: &[u8]| {
            let mut out = vec![0; key.public().modulus_len()];
            key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut out).map(|()| out)
        };
        return Ok(("RS256", Box::new(sign)));
    }
    let curves =
        [(&ECDSA_P256_SHA256_FIXED_SIGNING, "ES256"), (&ECDSA_P384_SHA384_FIXED_SIGNING, "ES384")];
    for (curve, name) in curves {
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(curve, &der, &SystemRandom::new()) {
            let sign =
                move |text: &[u8]| Ok(key.sign(&SystemRandom::new(), text)?.as_ref().to_vec());
            return Ok((name, Box::new(sign)));
        }
    }
    Err(wanted.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_servers_write_it() {
        for (expires_in, read) in [
            ("3600", Some(3600)),
            (r#""3600""#, Some(3600)),
            (r#"" 3600 ""#, Some(3600)),
            ("3599.9", Some(3599)),
            (r#""3.6e3""#, Some(3600)),
            ("-5", None),
            ("0", None),
            (r#""-5""#, None),
            ("18446744073709551615", None),
            (r#""1e400""#, None),
            (r#""NaN""#, None),
            (r#""soon""#, None),
            ("null", None),
            ("[3600]", None),
        ] {
            let body = format!(r#"{{"access_token":"a","expires_in":{expires_in}}}"#);
            let granted =
                granted(body.as_bytes(), TokenKind::Bearer).ok().map(|granted| granted.expires_in);
            assert_eq!(granted, Some(read), "{expires_in}");
        }
        for form in [
            "access_token=a%2Bb&token_type=bearer&expires_in=3600&scope=x+y",
            "token_type=Bearer&scope=x%20y&expires_in=3600&access_token=a%2Bb\n",
            "\u{feff}{\"access_token\":\"a+b\",\"expires_in\":3600,\"scope\":\"x y\"}",
        ] {
            let granted = granted(form.as_bytes(), TokenKind::Bearer);
            let Ok(granted) = granted else { panic!("{form}") };
            assert_eq!((&*granted.access_token, granted.expires_in), ("a+b", Some(3600)), "{form}");
            assert_eq!(granted.scopes, Some(vec!["x".to_owned(), "y".to_owned()]), "{form}");
        }
        for (body, code) in [
            ("error=invalid_grant&error_description=old+code", Some("invalid_grant")),
            ("\u{feff}{\"error\":\"invalid-grant\"}", Some("invalid-grant")),
            ("<html>error=invalid_grant</html>", None),
            ("an error=invalid_grant of mine", None),
        ] {
            assert_eq!(error_code(body.as_bytes()).as_deref(), code, "{body}");
        }
        for (scope, read) in [
            (r#""a b""#, Some(vec!["a", "b"])),
            (r#"["a","b c"]"#, Some(vec!["a", "b", "c"])),
            ("null", None),
        ] {
            let body = format!(r#"{{"access_token":"a","token_type":"bearer ","scope":{scope}}}"#);
            let granted = granted(body.as_bytes(), TokenKind::Bearer).expect("a token");
            let read: Option<Vec<String>> =
                read.map(|read| read.into_iter().map(str::to_owned).collect());
            assert_eq!(granted.scopes, read, "{scope}");
        }
    }

    #[test]
    fn what_no_header_may_hold_is_no_token() {
        for token in [r"a\r\nb", r"a\n", r"\u0000", r"a\u007f", "a\u{e9}", " a", ""] {
            let body = format!(r#"{{"access_token":"{token}"}}"#);
            assert!(granted(body.as_bytes(), TokenKind::Bearer).is_err(), "{token}");
        }
        let bearer = |body: &str| granted(body.as_bytes(), TokenKind::Bearer);
        assert!(bearer(r#"{"access_token":"a","token_type":"DPoP"}"#).is_err());
        assert!(bearer(r#"{"access_token":"a.b-c_d~e+f/g=="}"#).is_ok());
    }

    #[test]
    fn a_token_that_should_be_bound_is_taken_as_such_alone() {
        for (kind, is_taken) in
            [(r#""DPoP""#, true), (r#""dpop""#, true), (r#""Bearer""#, false), ("null", false)]
        {
            let body = format!(r#"{{"access_token":"a","token_type":{kind}}}"#);
            assert_eq!(granted(body.as_bytes(), TokenKind::Bound).is_ok(), is_taken, "{kind}");
        }
    }

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(code_challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
