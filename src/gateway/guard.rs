//! Checks that every request passes first: `Host` and `Origin` (DNS rebinding, cross-site pages),
//! the bearer token, the owner of the session, and the limit on sessions.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::{self, HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Deserialize;

use super::accept::as_rpc;
use super::card::{CARD_PATH, CATALOG_PATH};
use super::exposure::only_looks;
use super::outside::Outside;
use super::raw::mended;
use super::sessions::SessionRoom;
use super::sign_in::{BOUND_TO_KEY, METADATA_PATH, SignInRefusal};
use super::state::Gateway;
use super::tokens::Client;
use base::Timestamp;
use base::text::percent;
use host::{AccessScope, OutsideCode, PolicyAction};

const SESSION: &str = "mcp-session-id";
/// How paths of the metadata begin that name the resource too.
const METADATA_BELOW: &str = "/.well-known/oauth-protected-resource/";

/// Largest request body, in bytes.
pub(super) const MAX_BODY_BYTES: usize = 4 << 20;
/// Longest time that a body may take to arrive: the head of a request has as long.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Passes on what comes from an allowed site with a token. Pages of an allowed origin may read the
/// answers and send the headers they need (Fetch, section 3.3, "CORS protocol").
pub(crate) async fn guard<F: Future<Output = Response>>(
    gateway: Arc<Gateway>,
    request: Request,
    next: impl FnOnce(http::Request<Bytes>) -> F,
) -> Response {
    let is_mcp = is_mcp(request.uri().path());
    let origin = match same_site(&gateway, &request) {
        Ok(origin) => origin,
        Err(refused) if is_mcp => return as_rpc(refused.into_response()).await,
        Err(refused) => return refused.into_response(),
    };
    let admit = async |request| {
        let response = admit(gateway, request, next).await;
        if is_mcp { as_rpc(response).await } else { response }
    };
    let Some(origin) = origin else { return admit(request).await };
    let asked = request.headers();
    let is_preflight = request.method() == Method::OPTIONS
        && asked.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if is_preflight {
        let mut response = StatusCode::NO_CONTENT.into_response();
        let headers = response.headers_mut();
        let methods = HeaderValue::from_static("GET, POST, DELETE");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
        if let Some(names) = asked.get(header::ACCESS_CONTROL_REQUEST_HEADERS) {
            headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, names.clone());
        }
        response
    } else {
        admit(request).await
    };
    let headers = response.headers_mut();
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let readable = HeaderValue::from_static("mcp-session-id, retry-after, www-authenticate");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, readable);
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    response
}

/// [`guard`] as a layer.
pub(crate) async fn guard_layer(
    State(gateway): State<Arc<Gateway>>,
    request: Request,
    next: Next,
) -> Response {
    guard(gateway, request, |request| next.run(request.map(Body::from))).await
}

fn is_mcp(path: &str) -> bool {
    path == "/mcp" || path.starts_with("/mcp/")
}

/// Waits for the whole body of a request, which must not hold its connection for ever.
async fn arrived(request: Request) -> Result<http::Request<Bytes>, Outside> {
    let refuse =
        |status, message: String| Err(Outside::new(OutsideCode::ProtocolError, status, message));
    let (mut parts, body) = request.into_parts();
    let coding = parts.headers.get(header::CONTENT_ENCODING).map(HeaderValue::as_bytes);
    if coding.is_some_and(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
    {
        let message = "a body with a Content-Encoding is not read: send it as it is".to_owned();
        return refuse(StatusCode::UNSUPPORTED_MEDIA_TYPE, message);
    }
    match tokio::time::timeout(BODY_TIMEOUT, to_bytes(body, MAX_BODY_BYTES)).await {
        Ok(Ok(body)) => {
            let Some(text) = mended(&body) else {
                return Ok(http::Request::from_parts(parts, body));
            };
            parts.headers.insert(header::CONTENT_LENGTH, text.len().into());
            Ok(http::Request::from_parts(parts, text.into()))
        }
        Ok(Err(_)) => {
            let message = format!("Payload Too Large: request body exceeds {MAX_BODY_BYTES} bytes");
            refuse(StatusCode::PAYLOAD_TOO_LARGE, message)
        }
        Err(_) => {
            let seconds = BODY_TIMEOUT.as_secs();
            let message = format!("the body did not arrive within {seconds} s");
            refuse(StatusCode::REQUEST_TIMEOUT, message)
        }
    }
}

/// Passes a request on with its whole body and its [`Client`] as an extension, or refuses it. What
/// needs no client needs no body either.
async fn admit<F: Future<Output = Response>>(
    gateway: Arc<Gateway>,
    request: Request,
    next: impl FnOnce(http::Request<Bytes>) -> F,
) -> Response {
    let path = request.uri().path();
    let is_public = matches!(path, "/healthz" | METADATA_PATH | CARD_PATH | CATALOG_PATH);
    if is_public || path.starts_with(METADATA_BELOW) {
        return next(request.map(|_| Bytes::new())).await;
    }
    let client = match bearer(request.headers()) {
        Ok(token) => gateway.authenticate(token).await.map_err(Some),
        Err(why) => Err(why.map(SignInRefusal::Invalid)),
    };
    let mut client = match client {
        Ok(client) => client,
        Err(refusal) => return gateway.challenge(refusal),
    };
    let path = request.uri().path();
    if gateway.is_away() && path != "/readyz" {
        return Outside::store_away().into_response();
    }
    let is_mcp = is_mcp(path);
    if let Some(profile) = path.strip_prefix("/mcp/p/") {
        let profile = percent::decoded(profile);
        let is_own = client.profiles.iter().any(|own| **own == *profile);
        if !is_own && !client.is_owner {
            let message = "the token belongs to another profile";
            return Outside::new(OutsideCode::PermissionDenied, StatusCode::FORBIDDEN, message)
                .into_response();
        }
        (client.profile, client.is_named) = (profile.into(), true);
    }
    let session = session_of(request.headers()).filter(|_| is_mcp).map(Arc::<str>::from);
    let mut room = None;
    if let Some(session) = &session {
        match gateway.owns(&client.id, session).await {
            Ok((true, made)) => (client.session, room) = (Some(Arc::clone(session)), made),
            // The same answer as for an unknown session, so as not to reveal which ids exist.
            Ok((false, _)) => {
                return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
            }
            Err(refused) => return refused.into_response(),
        }
    } else if is_mcp && may_open(&request) {
        room = gateway.sessions.make_room(&client.id);
        if room.is_none() {
            return Outside::crowded().into_response();
        }
    }
    let is_delete = request.method() == Method::DELETE;
    let mut request = match arrived(request).await {
        Ok(request) => request,
        Err(refused) => return refused.into_response(),
    };
    let is_signed_in = client.identity.is_some();
    if is_mcp && is_signed_in {
        // Said by HTTP, so that the client can ask its user for more (MCP 2025-11-25, authorization,
        // scope challenge handling). Clients of that revision ask for what is named and nothing
        // else, so that they would lose what they have; those of later ones add it to that.
        let held = if is_before_modern(request.headers()) { &*client.scopes } else { &[] };
        let lacked = NeededScope::of_message(request.body()).filter(|it| !client.may(it.scope));
        if let Some(NeededScope { scope, action, target }) = lacked {
            gateway.host.refuse_scope(&client.principal(), scope, action, &target);
            return gateway.demand_scope(Outside::scope(scope).into_response(), held);
        }
    }
    request.extensions_mut().insert(client.clone());
    let response = SessionRoom::fill(room, next(request)).await;
    let mut response = until_cut(response, &client, gateway.host.clock().now());
    if !is_mcp {
        return if is_signed_in { gateway.demand_scope(response, &[]) } else { response };
    }
    if is_delete && response.status() == StatusCode::ACCEPTED {
        // The status that the official Python client expects for an ended session.
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    let opened = session_of(response.headers());
    if let (Some(opened), Some(store)) = (opened, &gateway.options.store) {
        store.set_owner(opened, &client.id).await;
    }
    if let Some(session) = opened.or(session.as_deref()) {
        gateway.sessions.set_owner(session, &client.id);
    }
    response
}

/// Passes same-origin and non-browser requests on; does not check tokens.
pub(crate) async fn site(
    State(gateway): State<Arc<Gateway>>,
    mut request: Request,
    next: Next,
) -> Response {
    let headers = request.headers();
    let own = headers.get(header::HOST).map(|host| [b"http://", host.as_bytes()].concat());
    let origins = headers.get_all(header::ORIGIN);
    // A page served from here. Its `Host` is checked below like any other.
    if own.is_some_and(|own| origins.iter().count() == 1 && origins.iter().all(|o| *o == own[..])) {
        request.headers_mut().remove(header::ORIGIN);
    }
    match same_site(&gateway, &request) {
        Ok(_) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// The scope that a message needs, and for what.
struct NeededScope {
    scope: AccessScope,
    action: PolicyAction,
    target: String,
}

impl NeededScope {
    /// That of a message, if it is a request for something that a scope permits.
    fn of_message(body: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct MethodHead<'m> {
            #[serde(borrow)]
            method: Cow<'m, str>,
            params: Option<NamedParams>,
        }
        #[derive(Default, Deserialize)]
        struct NamedParams {
            name: Option<String>,
            uri: Option<String>,
        }
        let head = serde_json::from_slice::<MethodHead<'_>>(body).ok()?;
        let NamedParams { name, uri } = head.params.unwrap_or_default();
        let only_looks = name.as_deref().is_some_and(only_looks);
        let (scope, action) = match &*head.method {
            "tools/call" if only_looks => (AccessScope::ToolsList, PolicyAction::List),
            "tools/call" => (AccessScope::ToolsCall, PolicyAction::Call),
            "resources/read" => (AccessScope::ResourcesRead, PolicyAction::Read),
            "resources/subscribe" => (AccessScope::ResourcesRead, PolicyAction::Subscribe),
            "prompts/get" => (AccessScope::PromptsGet, PolicyAction::Prompt),
            _ => return None,
        };
        let target = name.or(uri).unwrap_or_default();
        Some(Self { scope, action, target })
    }
}

/// Ends a response that is an event stream when its client is cut, or its token ends.
fn until_cut(response: Response, client: &Client, now: Timestamp) -> Response {
    let is_stream = response
        .headers()
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.to_str().is_ok_and(|kind| kind.starts_with("text/event-stream")));
    if !is_stream {
        return response;
    }
    let (cut, left) = (client.cut.clone(), client.expires.map(|end| end.since(now)));
    let ended = async move {
        match left {
            Some(left) => _ = tokio::time::timeout(left, cut.cancelled()).await,
            None => cut.cancelled().await,
        }
    };
    let ended = Box::pin(ended);
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(ended)))
}

/// Whether a request without a session may open one: from 2026-07-28 on sessions do not exist.
fn may_open(request: &Request) -> bool {
    request.method() == Method::POST && is_before_modern(request.headers())
}

/// Whether a request is of a revision before 2026-07-28.
fn is_before_modern(headers: &HeaderMap) -> bool {
    let version = headers.get("mcp-protocol-version");
    version.is_none_or(|version| version.as_bytes() < &b"2026-07-28"[..])
}

/// Refuses cross-site requests and rebound host names; returns the allowed origin of a page.
fn same_site(gateway: &Gateway, request: &Request) -> Result<Option<HeaderValue>, Outside> {
    let refuse = |message: &str| {
        Err(Outside::new(OutsideCode::PermissionDenied, StatusCode::FORBIDDEN, message))
    };
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next(), request.uri().authority()) {
        (Some(host), None, None) => host.to_str().unwrap_or_default(),
        // The authority in the request line takes precedence over `Host` (RFC 9112, 3.2.2).
        (None, None, Some(authority)) => authority.as_str(),
        (Some(host), None, Some(authority)) if host == authority.as_str() => authority.as_str(),
        _ => return refuse("exactly one Host is expected"),
    };
    if !gateway.options.allowed_hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host)) {
        return refuse("this Host is not served here; the operator allows it with --allow-host");
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(None),
        (Some(origin), None)
            if gateway.options.allowed_origins.iter().any(|allowed| origin == allowed.as_str()) =>
        {
            Ok(Some(origin.clone()))
        }
        _ => {
            refuse("pages of this origin may not call; the operator allows it with --allow-origin")
        }
    }
}

/// The bearer token of a request (RFC 6750, section 2.1).
///
/// # Errors
/// What is in its place; nothing where no token is shown.
pub(super) fn bearer(headers: &HeaderMap) -> Result<&str, Option<&'static str>> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or(None)?;
    if values.next().is_some() {
        return Err(Some("there is more than one Authorization header"));
    }
    let (scheme, token) = value.to_str().ok().and_then(|it| it.split_once(' ')).unwrap_or_default();
    match scheme {
        scheme if scheme.eq_ignore_ascii_case("bearer") => Ok(token.trim()),
        scheme if scheme.eq_ignore_ascii_case("dpop") => Err(Some(BOUND_TO_KEY)),
        _ => Err(Some("Authorization is not of the form Bearer TOKEN")),
    }
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION)?.to_str().ok()
}
