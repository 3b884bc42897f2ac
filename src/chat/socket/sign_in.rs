//! Signing in from a browser: a link that works once, or a token, becomes a cookie.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::{ChatCaller, ChatService, bearer};
use base::secret::Secret;
use deck::{BrowserSignIns, cookie_name};

/// The links and cookies in force, each for a token.
pub type SignIns = BrowserSignIns<Secret>;

/// The path that a link leads to, but for its code.
pub const LINK_PATH: &str = "/login?code=";

/// The name of the cookie.
fn own_cookie(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    cookie_name("chat", host)
}

/// The cookie of a request, if it has one that is in force, and its caller.
pub(super) fn signed_in(
    service: &ChatService,
    headers: &HeaderMap,
) -> Option<(String, ChatCaller)> {
    let values = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let (cookie, token) = service.sign_ins.signed_in(&own_cookie(headers), values)?;
    // The token may have been revoked since.
    Some((cookie, (service.who)(token.expose())?))
}

/// Sets the cookie for a token. It is sent to `/ws` alone.
fn with_cookie(
    service: &ChatService,
    headers: &HeaderMap,
    token: Secret,
    to: Response,
) -> Response {
    let set = service.sign_ins.cookie(&own_cookie(headers), "/ws", token);
    let Some(mut set) = set.and_then(|set| HeaderValue::from_str(&set).ok()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    set.set_sensitive(true);
    let mut response = to;
    response.headers_mut().insert(header::SET_COOKIE, set);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// `GET /login?code=`: a link that works once.
pub(super) async fn by_link(State(service): State<Arc<ChatService>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let code = url::form_urlencoded::parse(query).find(|(key, _)| key == "code");
    let Some(token) = code.and_then(|(_, code)| service.sign_ins.redeem(&code)) else {
        let why = "This link was used already or is too old. Open / and paste the token instead.";
        return (StatusCode::FORBIDDEN, why).into_response();
    };
    let to = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    with_cookie(&service, request.headers(), token, to)
}

/// `POST /login` with a token as `Authorization: Bearer`.
pub(super) async fn by_token(
    State(service): State<Arc<ChatService>>,
    request: Request,
) -> Response {
    let headers = request.headers();
    let token = bearer(headers).filter(|token| (service.who)(token).is_some());
    let Some(token) = token else {
        return (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, "Bearer")]).into_response();
    };
    let to = StatusCode::NO_CONTENT.into_response();
    with_cookie(&service, headers, Secret::new(token), to)
}

/// `GET /ws/signed-in`: whether a connection of this browser needs no token.
pub(super) async fn is_signed_in(
    State(service): State<Arc<ChatService>>,
    request: Request,
) -> Response {
    let is_signed_in = signed_in(&service, request.headers()).is_some();
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    (headers, json!({"signedIn": is_signed_in}).to_string()).into_response()
}
