//! The POSTs to the token and revocation endpoints that are ours: refresh, the client's own
//! credentials, sign-out. A refresh token that rotates is worth a lock, and rmcp posts without one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::assertion;
use super::exchange::{Exchange, error_code};
use super::step::{AuthFailure, StepKind};
use super::token::{ClientAuth, StoredClient, StoredToken};
use crate::base::secret::Secret;

/// What a token endpoint gave.
pub(super) struct Granted {
    pub(super) access_token: String,
    pub(super) refresh_token: Option<String>,
    pub(super) expires_in: Option<u64>,
    pub(super) scopes: Option<Vec<String>>,
}

/// Why a token endpoint gave nothing.
pub(super) enum NotGranted {
    /// It answered with this `error`.
    Code(String),
    /// Something else; it may pass.
    Failed(AuthFailure),
}

impl NotGranted {
    /// As a failure of the sign-in.
    pub(super) fn into_failure(self, endpoint: &str) -> AuthFailure {
        match self {
            Self::Code(code) => AuthFailure::refused(format!("{endpoint} answered `{code}`")),
            Self::Failed(failure) => failure,
        }
    }
}

/// A client and, when it signs assertions, its key and whom it addresses them to.
pub(super) struct Caller<'a> {
    pub(super) client: &'a StoredClient,
    pub(super) key: Option<&'a Secret>,
}

/// Posts a grant.
pub(super) async fn token(
    exchange: &Exchange,
    kind: StepKind,
    endpoint: &str,
    caller: &Caller<'_>,
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
    exchange: &Exchange,
    token: &StoredToken,
    caller: &Caller<'_>,
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
    exchange: &Exchange,
    kind: StepKind,
    endpoint: &str,
    Caller { client, key }: &Caller<'_>,
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
            let signed = assertion::sign(pem, &client.id, &client.issuer, now());
            assertion = signed.map_err(AuthFailure::Refused)?;
            let kind = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
            form.extend([("client_assertion_type", kind), ("client_assertion", &*assertion)]);
        }
    }
    let body = Serializer::new(String::new()).extend_pairs(form).finish();
    let request = request.body(body.into_bytes()).map_err(AuthFailure::failed)?;
    exchange.run(kind, request).await.map_err(AuthFailure::failed)
}

/// Seconds since 1970, which is what tokens count in.
pub(super) fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
