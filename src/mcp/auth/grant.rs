//! The POSTs to the token and revocation endpoints that are not left to rmcp: refresh, client
//! credentials, sign-out. A rotating refresh token needs a lock, and rmcp posts without one.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures::StreamExt;
use ring::error::Unspecified;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    RSA_PKCS1_SHA256, RsaKeyPair,
};
use rmcp::transport::auth::{
    OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest,
};
use serde_json::{Value, json};
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::address::AddressPolicy;
use super::sign_in::{AuthFailure, AuthReporter, AuthStep, StepKind};
use super::token::{ClientAuth, StoredClient, StoredToken};
use crate::transport::coding::decoded;
use crate::transport::remote;
use base::{SafeText, Secret};
use config::TlsConfig;

/// What a token endpoint granted.
pub(super) struct Granted {
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
}

/// Why a token endpoint granted no token.
pub(super) enum NotGranted {
    /// It answered with this `error`.
    Code(String),
    /// Another, possibly transient failure.
    Failed(AuthFailure),
}

impl NotGranted {
    /// Converts it to a sign-in failure.
    pub(super) fn into_failure(self, endpoint: &str) -> AuthFailure {
        match self {
            Self::Code(code) => AuthFailure::refused(format!("{endpoint} answered `{code}`")),
            Self::Failed(failure) => failure,
        }
    }
}

/// A client and, when it signs assertions, its private key.
pub(super) struct OAuthClient<'a> {
    pub(super) client: &'a StoredClient,
    pub(super) key: Option<&'a Secret>,
}

/// Posts a grant.
pub(super) async fn token(
    exchange: &TokenClient,
    kind: StepKind,
    endpoint: &str,
    caller: &OAuthClient<'_>,
    form: &[(&str, &str)],
) -> Result<Granted, NotGranted> {
    let response =
        post(exchange, kind, endpoint, caller, form).await.map_err(NotGranted::Failed)?;
    let status = response.status();
    if !status.is_success() {
        return Err(match error_code(response.body()) {
            Some(code) if status.is_client_error() => NotGranted::Code(code),
            _ => NotGranted::Failed(AuthFailure::failed(format!("{endpoint}: HTTP {status}"))),
        });
    }
    granted(response.body()).ok_or_else(|| {
        NotGranted::Failed(AuthFailure::refused(format!("{endpoint} gave no bearer token")))
    })
}

pub(super) fn granted(body: &[u8]) -> Option<Granted> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let text = |key: &str| Some(body.get(key)?.as_str()?.to_owned());
    let bearer = text("token_type").is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    let seconds = body.get("expires_in");
    Some(Granted {
        access_token: text("access_token").filter(|token| bearer && !token.is_empty())?,
        refresh_token: text("refresh_token").filter(|token| !token.is_empty()),
        expires_in: seconds.and_then(|s| s.as_u64().or_else(|| s.as_str()?.parse().ok())),
        scopes: text("scope").map(|scope| scope.split_whitespace().map(str::to_owned).collect()),
    })
}

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
    let form = [("token", value.as_str()), ("token_type_hint", hint)];
    let response = post(exchange, StepKind::Revoke, endpoint, caller, &form).await?;
    if response.status().is_success() {
        return Ok(());
    }
    Err(AuthFailure::failed(format!("{endpoint}: HTTP {}", response.status())))
}

async fn post(
    exchange: &TokenClient,
    kind: StepKind,
    endpoint: &str,
    OAuthClient { client, key }: &OAuthClient<'_>,
    form: &[(&str, &str)],
) -> Result<http::Response<Vec<u8>>, AuthFailure> {
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
    let request = request.body(body.into_bytes()).map_err(AuthFailure::failed)?;
    exchange.run(kind, request).await.map_err(AuthFailure::failed)
}

/// Seconds since 1970, the unit of token times.
pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
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
    const BYTES: usize = 256 << 10;
    const PATIENCE: Duration = Duration::from_secs(30);

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
            .timeout(Self::PATIENCE)
            .build()
            .map_err(AuthFailure::failed)?;
        Ok(Self { http, policy, events })
    }

    /// Sends one request and reads its answer.
    ///
    /// # Errors
    /// The address, and why there was no response.
    async fn run(
        &self,
        kind: StepKind,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, String> {
        let url = request.uri().to_string();
        let url = Url::parse(&url).map_err(|error| format!("{url}: {error}"))?;
        let sent = request.body().clone();
        let began = Instant::now();
        let done = match self.policy.check(&url) {
            Ok(()) => self.answer(request).await,
            Err(why) => Err(why),
        };
        let took = began.elapsed();
        let (status, answered, why) = match &done {
            Ok(response) => {
                let (status, body) = (response.status(), response.body().as_slice());
                let refused = status.is_client_error() || status.is_server_error();
                (Some(status.as_u16()), body, refused.then(|| error_code(body)).flatten())
            }
            Err(why) => (None, &[][..], Some(why.clone())),
        };
        let refused = why.as_deref().map(SafeText::line);
        let step = AuthStep { status, took, refused, ..AuthStep::new(kind, &url) };
        self.events.step(step, &sent, answered);
        done.map_err(|why| {
            let mut shown = url;
            shown.set_query(None);
            format!("{shown}: {why}")
        })
    }

    async fn answer(
        &self,
        request: http::Request<Vec<u8>>,
    ) -> Result<http::Response<Vec<u8>>, String> {
        let request =
            reqwest::Request::try_from(request).map_err(|error| remote::innermost(&error))?;
        let response =
            self.http.execute(request).await.map_err(|error| remote::innermost(&error))?;
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
            body.extend_from_slice(&chunk.map_err(|error| remote::innermost(&error))?);
            if body.len() > Self::BYTES {
                return Err(format!("the answer is over {} bytes", Self::BYTES));
            }
        }
        out.body(body).map_err(|error| error.to_string())
    }
}

/// The `error` of an OAuth answer, when it is a code of the specification's alphabet.
pub(super) fn error_code(body: &[u8]) -> Option<String> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    let code = body.get("error")?.as_str()?;
    is_code(code).then(|| code.to_owned())
}

/// Whether a text is an error code rather than a message.
pub(super) fn is_code(text: &str) -> bool {
    text.len() <= 64 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// What rmcp is doing, as inferred from its request.
fn kind_of(request: &http::Request<Vec<u8>>) -> StepKind {
    let path = request.uri().path();
    let json = request.headers().get("content-type").is_some_and(|kind| kind == "application/json");
    if request.method() == http::Method::POST {
        if json { StepKind::Register } else { StepKind::Token }
    } else if path.contains("/oauth-authorization-server") || path.contains("/openid-configuration")
    {
        StepKind::ServerMetadata
    } else {
        StepKind::ResourceMetadata
    }
}

impl OAuthHttpClient for TokenClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let kind = kind_of(&request.request);
            self.run(kind, request.request).await.map_err(OAuthHttpClientError::from)
        })
    }
}

// The assertion of a client that has a key (RFC 7523, `private_key_jwt`).

/// Seconds an assertion is valid.
const LIFE: u64 = 300;

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
        "iss": client, "sub": client, "aud": audience, "iat": now, "exp": now + LIFE,
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
