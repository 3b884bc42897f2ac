//! The operator's page at `/admin`: servers, clients, grants, refused calls and traffic, and the
//! orders that `mcpdeck attach` has. For a browser of this machine, signed in by a link that works
//! once, or by the operator's own token; `Host` and `Origin` are checked before.

use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::StreamExt as _;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use url::Url;

use super::erased::{erased, get, post};
use super::guard::bearer;
use super::sign_in::SIGNED_IN_PREFIX;
use super::tokens::OwnerToken;
use base::address::is_loopback;
use base::{SafeText, ServerName};
use deck::{
    BrowserSignIns, ClientOrder, ClientView, News, Operated, Order, PolicyOrder, ServerCommand,
    cookie_name, follow_news, page_policy,
};
use host::{Blocked, Grant, GrantId, GrantKind, HostView, Origin, ServerMetrics, ServerView};
use protocol::Direction;

const PAGE: &str = include_str!("admin.html");
/// News that wait for a slow browser; the rest waits behind them.
const NEWS_CAPACITY: usize = 64;
/// Most pages that are open at once.
const MAX_OPEN_PAGES: usize = 16;
/// Most bytes of an order.
const MAX_ORDER_BYTES: usize = 16 << 10;

/// The links and cookies of the page; signing out cancels the token of a cookie.
pub type AdminSignIns = BrowserSignIns<CancellationToken>;

struct AdminPage {
    on: Operated,
    sign_ins: Arc<AdminSignIns>,
    owner: OwnerToken,
    places: Arc<Semaphore>,
    /// Ends the streams of open pages.
    stop: CancellationToken,
}

/// What the page may order.
#[derive(Debug, Deserialize)]
#[serde(tag = "order", rename_all = "camelCase", deny_unknown_fields)]
enum AdminOrder {
    Start { server: ServerName },
    Stop { server: ServerName },
    Restart { server: ServerName },
    Pause { client: String },
    Cut { client: String },
    Revoke { client: String },
    RevokeGrant { grant: u64 },
}

impl From<AdminOrder> for Order {
    fn from(order: AdminOrder) -> Self {
        match order {
            AdminOrder::Start { server } => Self::Server(server, ServerCommand::Start),
            AdminOrder::Stop { server } => Self::Server(server, ServerCommand::Stop),
            AdminOrder::Restart { server } => Self::Server(server, ServerCommand::Restart),
            AdminOrder::Pause { client } => Self::Client(ClientOrder::Pause, client),
            AdminOrder::Cut { client } => Self::Client(ClientOrder::Cut, client),
            AdminOrder::Revoke { client } => Self::Client(ClientOrder::Revoke, client),
            AdminOrder::RevokeGrant { grant } => Self::Policy(PolicyOrder::Revoke(GrantId(grant))),
        }
    }
}

/// The path that a link of [`AdminSignIns`] leads to, but for its code.
pub const ADMIN_LINK_PATH: &str = "/admin/login?code=";

/// The routes of the page. They check the cookie themselves; `owner` signs in too; `stop`
/// ends open streams.
pub fn admin_routes(
    on: Operated,
    sign_ins: Arc<AdminSignIns>,
    owner: OwnerToken,
    stop: CancellationToken,
) -> Router {
    let places = Arc::new(Semaphore::new(MAX_OPEN_PAGES));
    let page = Arc::new(AdminPage { on, sign_ins, owner, places, stop });
    Router::new()
        .route("/admin", get(whole_page))
        .route("/admin/login", get(by_link).post(erased(by_token)))
        .route("/admin/logout", post(sign_out))
        .route("/admin/events", get(events))
        .route("/admin/orders", post(order))
        .layer(axum::extract::DefaultBodyLimit::max(MAX_ORDER_BYTES))
        .layer(axum::middleware::from_fn(here))
        .with_state(page)
}

/// Passes on what comes from this machine's own page. Cookies know no ports, so that a page at
/// another port counts as of the same site: what a browser says of itself has to match exactly.
async fn here(request: Request, next: axum::middleware::Next) -> Response {
    let headers = request.headers();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_here = Url::parse(&format!("http://{host}/")).is_ok_and(|url| is_loopback(&url));
    // That of the page itself is taken off before; an allowed one is for other routes.
    let is_own = !headers.contains_key(header::ORIGIN);
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    let is_same = match request.uri().path() {
        // Links lead here from anywhere, and change nothing that a page could make use of.
        "/admin" | "/admin/login" => true,
        _ => site.is_none_or(|site| site == b"same-origin"),
    };
    if !(is_here && is_own && is_same) {
        let why = "this page is for a browser of this machine, at its own address";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    next.run(request).await
}

async fn whole_page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, page_policy(PAGE, "")),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, PAGE).into_response()
}

fn own_cookie(headers: &HeaderMap) -> String {
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    cookie_name("admin", host)
}

/// The cookie of a request, with what is cancelled when it ends.
fn signed_in(
    page: &AdminPage,
    headers: &HeaderMap,
) -> Result<(String, CancellationToken), (StatusCode, &'static str)> {
    let values = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    page.sign_ins.signed_in(&own_cookie(headers), values).ok_or_else(|| {
        let why = "not signed in: open the link that `mcpdeck serve --admin` printed at its \
                   start, or paste your own token";
        (StatusCode::UNAUTHORIZED, why)
    })
}

/// `GET /admin/login?code=`
async fn by_link(State(page): State<Arc<AdminPage>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let code = url::form_urlencoded::parse(query).find(|(key, _)| key == "code");
    let Some(ended) = code.and_then(|(_, code)| page.sign_ins.redeem(&code)) else {
        let why = "This link was used already or is too old. Open /admin and paste your own token.";
        return (StatusCode::FORBIDDEN, why).into_response();
    };
    let to = (StatusCode::SEE_OTHER, [(header::LOCATION, "/admin")]).into_response();
    with_cookie(&page, request.headers(), ended, to)
}

/// `POST /admin/login`: the operator's own token, for a service that outlived its link.
async fn by_token(State(page): State<Arc<AdminPage>>, headers: HeaderMap) -> Response {
    if !bearer(&headers).is_ok_and(|token| page.owner.is(token)) {
        let why = "the operator's own token is expected: `Authorization: Bearer TOKEN`";
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
        return (StatusCode::UNAUTHORIZED, challenge, why).into_response();
    }
    with_cookie(&page, &headers, CancellationToken::new(), StatusCode::NO_CONTENT.into_response())
}

/// Sets the cookie of a browser that has signed in; `ended` is cancelled when it signs out.
fn with_cookie(
    page: &AdminPage,
    headers: &HeaderMap,
    ended: CancellationToken,
    mut to: Response,
) -> Response {
    let set = page.sign_ins.cookie(&own_cookie(headers), "/admin", ended);
    let Some(mut set) = set.and_then(|set| HeaderValue::from_str(&set).ok()) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    set.set_sensitive(true);
    to.headers_mut().insert(header::SET_COOKIE, set);
    to.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    to
}

/// `POST /admin/logout`
async fn sign_out(State(page): State<Arc<AdminPage>>, headers: HeaderMap) -> Response {
    match signed_in(&page, &headers) {
        Ok((cookie, ended)) => {
            page.sign_ins.end(&cookie);
            ended.cancel();
            StatusCode::NO_CONTENT.into_response()
        }
        Err(refused) => refused.into_response(),
    }
}

/// `POST /admin/orders`: an order as JSON, which no form of another page can send.
async fn order(State(page): State<Arc<AdminPage>>, headers: HeaderMap, body: Bytes) -> Response {
    if let Err(refused) = signed_in(&page, &headers) {
        return refused.into_response();
    }
    let answer = |status: StatusCode, key: &str, text: &str| {
        let kind = [(header::CONTENT_TYPE, "application/json")];
        (status, kind, json!({ key: text }).to_string()).into_response()
    };
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    if kind != Some(b"application/json") {
        let why = "the body is expected as application/json";
        return answer(StatusCode::UNSUPPORTED_MEDIA_TYPE, "error", why);
    }
    let order = match serde_json::from_slice::<AdminOrder>(&body) {
        Ok(order) => order,
        Err(error) => return answer(StatusCode::BAD_REQUEST, "error", &error.to_string()),
    };
    tracing::info!(target: "mcpdeck::gateway", action = "admin order", "{order:?}");
    match Order::from(order).perform(page.on.clone()).await {
        Ok(said) => answer(StatusCode::OK, "message", said.as_deref().unwrap_or("done")),
        Err(error) => {
            let text = SafeText::line(&error.to_string());
            answer(StatusCode::CONFLICT, "error", &text)
        }
    }
}

/// `GET /admin/events`: the present state and every change, until the page is closed or signed out.
async fn events(State(page): State<Arc<AdminPage>>, headers: HeaderMap) -> Response {
    let (_, ended) = match signed_in(&page, &headers) {
        Ok(signed_in) => signed_in,
        Err(refused) => return refused.into_response(),
    };
    let Ok(place) = Arc::clone(&page.places).try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many open pages").into_response();
    };
    let (sender, mut inbox) = mpsc::channel::<News>(NEWS_CAPACITY);
    let following = AbortOnDropHandle::new(tokio::spawn(follow_news(page.on.clone(), sender)));
    let news = futures::stream::poll_fn(move |context| {
        let _ = (&following, &place);
        inbox.poll_recv(context)
    });
    let mut told = Told::default();
    let events = news.filter_map(move |news| {
        let event = told.take(news);
        futures::future::ready(event)
    });
    let events = events.take_until(ended.cancelled_owned());
    let events = events.take_until(page.stop.clone().cancelled_owned());
    let events = events.map(|(kind, data)| {
        Ok::<_, Infallible>(Event::default().event(kind).data(data.to_string()))
    });
    let stream = Sse::new(events).keep_alive(KeepAlive::default());
    ([(header::CACHE_CONTROL, "no-store")], stream).into_response()
}

/// What an open page was told.
#[derive(Default)]
struct Told {
    sent: u64,
    received: u64,
    missed: u64,
    /// The last event of each kind: what has not changed is not told again.
    last: std::collections::HashMap<&'static str, Value>,
}

impl Told {
    /// The event for a piece of news, if the page shows it and it says something new.
    fn take(&mut self, news: News) -> Option<(&'static str, Value)> {
        let (kind, data) = match news {
            News::View(view) => ("servers", servers(&view)),
            News::Clients(clients, blocked) => {
                let all: Vec<Value> = clients.iter().map(client).collect();
                ("clients", json!({ "clients": all, "blocked": refusals(&blocked) }))
            }
            News::Policy(policy) => {
                let grants: Vec<Value> = policy.grants.iter().map(grant).collect();
                let told = json!({
                    "grants": grants, "warnings": policy.warnings, "quotas": policy.quotas,
                    "held": policy.held.len(),
                });
                ("policy", told)
            }
            News::Metrics(metrics) => ("metrics", metrics.iter().map(counts).collect()),
            News::Traffic(batch, _) => {
                self.missed += batch.missed;
                for record in &batch.items {
                    match record.direction {
                        Direction::Out => self.sent += 1,
                        Direction::In => self.received += 1,
                    }
                }
                let Self { sent, received, missed, .. } = self;
                ("traffic", json!({ "sent": sent, "received": received, "missed": missed }))
            }
            _ => return None,
        };
        if self.last.get(kind) == Some(&data) {
            return None;
        }
        self.last.insert(kind, data.clone());
        Some((kind, data))
    }
}

fn servers(view: &HostView) -> Value {
    let one = |server: &Arc<ServerView>| {
        json!({
            "name": server.name, "state": server.state, "reason": server.reason,
            "help": server.help, "transport": server.transport, "target": server.target,
            "restarts": server.restarts, "since": server.since.to_rfc3339(),
            "tools": server.capabilities.tools.len(),
        })
    };
    view.servers.values().map(one).collect()
}

fn client(client: &ClientView) -> Value {
    json!({
        "origin": client.principal.origin.to_string(), "profile": client.principal.profile,
        "name": client.name, "protocol": client.protocol, "active": client.active,
        "calls": client.calls, "failed": client.failed, "seen": client.seen.to_rfc3339(),
        "isPaused": client.is_paused, "isRevoked": client.is_revoked,
        "hasToken": has_token(&client.principal.origin),
    })
}

/// Whether a client has a token of this service, which can be revoked: neither the operator's own nor
/// one of an issuer.
fn has_token(origin: &Origin) -> bool {
    let Origin::Gateway(id) = origin else { return false };
    **id != *Origin::OWNER && !id.starts_with(SIGNED_IN_PREFIX)
}

/// The newest refused calls, the newest first.
fn refusals(blocked: &[Blocked]) -> Vec<Value> {
    const MAX_SHOWN_CALLS: usize = 50;
    let one = |call: &Blocked| {
        json!({
            "at": call.at.to_rfc3339(), "origin": call.principal.origin.to_string(),
            "profile": call.principal.profile, "action": call.action, "target": call.target,
            "why": call.why,
        })
    };
    blocked.iter().rev().take(MAX_SHOWN_CALLS).map(one).collect()
}

fn grant(grant: &Grant) -> Value {
    let (kind, until) = match &grant.effect {
        GrantKind::Once { until: Some(until), .. } => ("for a time", Some(until.to_rfc3339())),
        GrantKind::Once { session: Some(_), .. } => ("for a session", None),
        GrantKind::Once { .. } => ("until the service ends", None),
        GrantKind::Always => ("always", None),
        GrantKind::Deny => ("denied", None),
    };
    json!({
        "id": grant.id.0, "origin": grant.origin, "profile": grant.profile,
        "scopes": grant.scopes_in_effect(), "tools": grant.allowed_tools, "kind": kind,
        "until": until, "given": grant.given.to_rfc3339(),
    })
}

fn counts((name, metrics): &(ServerName, ServerMetrics)) -> Value {
    let total = &metrics.total;
    json!({
        "name": name, "requests": total.requests, "failed": total.failed(),
        "inFlight": total.in_flight,
    })
}
