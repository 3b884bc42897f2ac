//! Signing in from a browser: a link that works once, or a token, becomes a cookie that no script
//! can read and no other site can send.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use super::{ChatCaller, ChatService, bearer};
use base::file::random_hex;
use base::secret::Secret;

/// Maximum number of links and of cookies; those that end first are dropped beyond it.
const MAX_SIGN_INS: usize = 1_000;
/// How long a link works.
const LINK_TIMEOUT: Duration = Duration::from_secs(3_600);
/// How long a cookie works.
const COOKIE_TIMEOUT: Duration = Duration::from_secs(7 * 24 * 3_600);

/// A token that a secret stands for.
struct BrowserSignIn {
    token: Secret,
    until: Instant,
}

/// The links and cookies in force.
#[derive(Default)]
pub struct SignIns {
    links: Mutex<HashMap<String, BrowserSignIn>>,
    cookies: Mutex<HashMap<String, BrowserSignIn>>,
}

impl SignIns {
    /// Makes the path of a link that signs a browser in with this token, once; `None` without
    /// random numbers.
    pub fn link(&self, token: Secret) -> Option<String> {
        let code = keep(&self.links, token, LINK_TIMEOUT)?;
        Some(format!("/login?code={code}"))
    }

    /// Ends the cookie of a connection.
    pub(super) fn end(&self, cookie: &str) {
        self.cookies.lock().remove(cookie);
    }
}

fn keep(
    all: &Mutex<HashMap<String, BrowserSignIn>>,
    token: Secret,
    lifetime: Duration,
) -> Option<String> {
    let (name, now) = (random_hex::<32>().ok()?, Instant::now());
    let mut all = all.lock();
    all.retain(|_, sign_in| sign_in.until > now);
    if all.len() >= MAX_SIGN_INS {
        let first = all.iter().min_by_key(|(_, sign_in)| sign_in.until);
        if let Some(first) = first.map(|(name, _)| name.clone()) {
            all.remove(&first);
        }
    }
    all.insert(name.clone(), BrowserSignIn { token, until: now + lifetime });
    Some(name)
}

/// The name of the cookie: browsers keep cookies by host, so it names the port.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port).unwrap_or_default();
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    format!("mcpdeck_chat_{}", if is_port { port } else { "80" })
}

/// The cookie of a request, if it has one that is in force, and its caller.
pub(super) fn signed_in(
    service: &ChatService,
    headers: &HeaderMap,
) -> Option<(String, ChatCaller)> {
    let name = cookie_name(headers);
    let values = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs =
        values.flat_map(|line| line.split(';')).filter_map(|one| one.trim().split_once('='));
    let (_, cookie) = pairs.find(|(key, _)| *key == name)?;
    let token = {
        let cookies = service.sign_ins.cookies.lock();
        let known = cookies.get(cookie).filter(|sign_in| sign_in.until > Instant::now())?;
        known.token.clone()
    };
    // The token may have been revoked since.
    Some((cookie.to_owned(), (service.who)(token.expose())?))
}

/// Sets the cookie for a token. It is sent to `/ws` alone.
fn with_cookie(
    service: &ChatService,
    headers: &HeaderMap,
    token: Secret,
    to: Response,
) -> Response {
    let unable = || StatusCode::INTERNAL_SERVER_ERROR.into_response();
    let Some(cookie) = keep(&service.sign_ins.cookies, token, COOKIE_TIMEOUT) else {
        return unable();
    };
    let (name, age) = (cookie_name(headers), COOKIE_TIMEOUT.as_secs());
    let set = format!("{name}={cookie}; Path=/ws; HttpOnly; SameSite=Strict; Max-Age={age}");
    let Ok(mut set) = HeaderValue::from_str(&set) else { return unable() };
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
    let link = code.and_then(|(_, code)| service.sign_ins.links.lock().remove(&*code));
    let Some(link) = link.filter(|link| link.until > Instant::now()) else {
        let why = "This link was used already or is too old. Open / and paste the token instead.";
        return (StatusCode::FORBIDDEN, why).into_response();
    };
    let to = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    with_cookie(&service, request.headers(), link.token, to)
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
