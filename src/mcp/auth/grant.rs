//! The POSTs to the token and revocation endpoints: codes, refresh, client credentials, sign-out. None
//! is left to rmcp: a rotating refresh token needs a lock, and answers are read as servers write them.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use futures::StreamExt;
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
use super::step::{AuthFailure, AuthReporter, AuthStep, StepKind};
use super::token::{ClientAuth, StoredClient, StoredToken, is_sendable};
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
    granted(response.body()).map_err(|why| match error_code(response.body()) {
        // Some answer every request with 200.
        Some(code) => NotGranted::Code(code),
        None => NotGranted::Failed(AuthFailure::refused(format!("{endpoint}: {why}"))),
    })
}

/// Reads a granted token, with numbers and lists as servers write them.
///
/// # Errors
/// Why it cannot be used.
fn granted(body: &[u8]) -> Result<Granted, &'static str> {
    let body: Value = serde_json::from_slice(body).map_err(|_| "the answer is not JSON")?;
    let text = |key: &str| Some(body.get(key)?.as_str()?.to_owned());
    let kind = text("token_type");
    if kind.is_some_and(|kind| !kind.trim().eq_ignore_ascii_case("bearer")) {
        return Err("the token is not a bearer token");
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
    })
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

/// A text that nobody can guess: a `state`, a code verifier (RFC 7636).
///
/// # Errors
/// When the system has no random numbers.
pub(super) fn random_text() -> Result<String, AuthFailure> {
    let mut bytes = [0_u8; 32];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| AuthFailure::failed("the system's random source failed"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
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
    let form = [("token", value.as_str()), ("token_type_hint", hint)];
    let posted = post(exchange, StepKind::Revoke, endpoint, caller, &form);
    let response = tokio::time::timeout(REVOCATION_TIMEOUT, posted).await.map_err(|_| {
        let limit = REVOCATION_TIMEOUT.as_secs();
        AuthFailure::failed(format!("{endpoint} did not answer within {limit} s"))
    })??;
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
    pub(super) async fn run(
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
                let code = refused.then(|| error_code(body)).flatten();
                // That a made-up code is refused is what a client check hopes for.
                let code = code.filter(|code| kind != StepKind::Client || code.contains("client"));
                (Some(status.as_u16()), body, code)
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

    pub(super) async fn answer(
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
            let granted = granted(body.as_bytes()).ok().map(|granted| granted.expires_in);
            assert_eq!(granted, Some(read), "{expires_in}");
        }
        for (scope, read) in [
            (r#""a b""#, Some(vec!["a", "b"])),
            (r#"["a","b c"]"#, Some(vec!["a", "b", "c"])),
            ("null", None),
        ] {
            let body = format!(r#"{{"access_token":"a","token_type":"bearer ","scope":{scope}}}"#);
            let granted = granted(body.as_bytes()).expect("a token");
            let read: Option<Vec<String>> =
                read.map(|read| read.into_iter().map(str::to_owned).collect());
            assert_eq!(granted.scopes, read, "{scope}");
        }
    }

    #[test]
    fn what_no_header_may_hold_is_no_token() {
        for token in [r"a\r\nb", r"a\n", r"\u0000", r"a\u007f", "a\u{e9}", " a", ""] {
            let body = format!(r#"{{"access_token":"{token}"}}"#);
            assert!(granted(body.as_bytes()).is_err(), "{token}");
        }
        assert!(granted(br#"{"access_token":"a","token_type":"DPoP"}"#).is_err());
        assert!(granted(br#"{"access_token":"a.b-c_d~e+f/g=="}"#).is_ok());
    }

    #[test]
    fn the_challenge_is_that_of_the_standard() {
        // RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        assert_eq!(code_challenge(verifier), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
        assert_ne!(random_text(), random_text());
    }
}
