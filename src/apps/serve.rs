//! Serves a page on loopback: the surrounding page at one origin, the sandbox with the page of the
//! server at another, both behind an address that works once.

use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use axum::Router;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use parking_lot::Mutex;
use serde_json::Value;
use sha2::{Digest, Sha256};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use url::Url;

use crate::connection::{self, AppAsker, PageAsks};
use crate::document::{AppDocument, AppDomains};
use base::file::random_hex;
use base::{SafeText, ServerName};
use config::error::{Error, ErrorCode};
use host::{Asker, CallOptions, Host, Origin, TraceContext};
use protocol::Tool;

/// How long the address waits to be opened.
const LINK_TIMEOUT: Duration = Duration::from_secs(600);
/// How long a page that was closed is waited for: it may be being loaded again.
const RELOAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a message of the page, in bytes.
const MAX_MESSAGE_BYTES: usize = 4 << 20;
/// Number of events that wait to be read; further ones are dropped.
const EVENT_CAPACITY: usize = 64;

/// The call whose answer a page shows.
#[derive(Clone, Debug)]
pub struct AppCall {
    /// The server.
    pub server: ServerName,
    /// The tool.
    pub tool: Arc<Tool>,
    /// The arguments of the call.
    pub arguments: Value,
    /// Who made it, and reads the page.
    pub origin: Origin,
    /// The trace that the calls of the page belong to, as this one does.
    pub trace: TraceContext,
    /// What came of it, as soon as that is known.
    pub state: watch::Receiver<CalledTool>,
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CalledTool {
    /// It is not over.
    Running,
    /// Its result as sent.
    Answered(Value),
    /// It failed or was cancelled; why.
    Failed(String),
}

/// What happens with a page.
#[derive(Clone, Debug, PartialEq)]
pub enum AppEvent {
    /// A browser shows it.
    Opened,
    /// It logs.
    Logged(SafeText),
}

/// What the connections of a page share.
pub(crate) struct ServedApp {
    pub host: Host,
    pub call: AppCall,
    pub document: AppDocument,
    /// The session of its calls: grants may be limited to it.
    pub session: Arc<str>,
    /// The origin of the surrounding page.
    pub own_origin: String,
    /// The address of the sandbox.
    pub sandbox: String,
    /// Whether the user allowed the addresses that it names.
    pub has_network: AtomicBool,
    pub events: mpsc::Sender<AppEvent>,
    /// The number of browsers that show it.
    pub connections: watch::Sender<usize>,
    /// What asks on the page of each, the newest last.
    pub pages: Mutex<Vec<Weak<PageAsks>>>,
    /// Ends it.
    pub closing: CancellationToken,
    /// The code of the address, until it is used.
    link: Mutex<Option<String>>,
    /// What a browser that used it sends from then on.
    cookie: String,
    /// The part of the sandbox's address that is hard to guess.
    key: String,
}

impl ServedApp {
    /// What the page may reach now.
    pub fn domains(&self) -> AppDomains {
        if self.has_network.load(Ordering::Relaxed) {
            self.document.domains.clone()
        } else {
            AppDomains::default()
        }
    }
}

/// A page that is being served; dropping it closes the page.
pub struct AppListener {
    url: Url,
    app: Arc<ServedApp>,
    _closing: DropGuard,
}

impl AppListener {
    /// Reads the page of a tool and serves it. What happens with it comes through the receiver, whose
    /// newest are dropped when it is full.
    ///
    /// # Errors
    /// `Validation` when the tool has no page; `Protocol` when the page cannot be shown; `Internal`
    /// when no port is free; others as `Host::get_resource_with`.
    pub async fn open(
        host: Host,
        call: AppCall,
    ) -> Result<(Self, mpsc::Receiver<AppEvent>), Error> {
        let server = call.server.clone();
        let Some(uri) = call.tool.app() else {
            let message = format!("the tool `{}` has no app", call.tool.label);
            let help = "`mcpdeck list --long` marks the tools that have one";
            return Err(Error::new(ErrorCode::Validation, message).server(&server).help(help));
        };
        let options = CallOptions {
            origin: call.origin.clone(),
            server: Some(server.clone()),
            trace: call.trace.parent.clone(),
            meta: call.trace.more.clone(),
            ..CallOptions::default()
        };
        let read = host.get_resource_with(uri, options).await?;
        let view = host.snapshot();
        let resources = view.servers.get(&server).map(|server| &server.capabilities.resources);
        let listed = resources.and_then(|all| all.iter().find(|one| &*one.uri == uri));
        let listed = listed.map(|one| &one.raw.value);
        let document = AppDocument::from_result(uri, &read.result, listed);
        let document = document.map_err(|why| {
            Error::new(ErrorCode::Protocol, format!("the app cannot be shown: {why}"))
                .server(&server)
        })?;
        for refused in &document.domains.refused {
            tracing::warn!(target: "mcpdeck::apps", %server, "no address to allow: {refused}");
        }
        let unable = |error: io::Error| {
            Error::new(ErrorCode::Internal, format!("the app cannot be served: {error}"))
        };
        let (own, own_address) = listen().await.map_err(unable)?;
        let (sandbox, sandbox_address) = listen().await.map_err(unable)?;
        let secret = || random_hex::<16>().map_err(unable);
        let (code, key, cookie, session) = (secret()?, secret()?, secret()?, secret()?);
        let (events, receiver) = mpsc::channel(EVENT_CAPACITY);
        let url = Url::parse(&format!("http://{own_address}/open?code={code}"));
        let url = url.map_err(|error| Error::new(ErrorCode::Internal, error.to_string()))?;
        let app = Arc::new(ServedApp {
            host,
            call,
            document,
            session: session.into(),
            own_origin: format!("http://{own_address}"),
            sandbox: format!("http://{sandbox_address}/{key}/"),
            has_network: AtomicBool::new(false),
            events,
            connections: watch::Sender::new(0),
            pages: Mutex::default(),
            closing: CancellationToken::new(),
            link: Mutex::new(Some(code)),
            cookie,
            key,
        });
        serve(own, own_address, surroundings(&app), &app.closing);
        serve(sandbox, sandbox_address, sandboxed(&app), &app.closing);
        let closing = app.closing.clone().drop_guard();
        Ok((Self { url, app, _closing: closing }, receiver))
    }

    /// The address to open in a browser. It works once.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// What asks the user on the page for the call whose answer it shows, as soon as a browser shows
    /// it, and `beside` it: the first answer counts.
    pub fn asker(&self, beside: Option<Asker>) -> Asker {
        Asker(Arc::new(AppAsker { app: Arc::downgrade(&self.app), beside }))
    }

    /// What the page asks to reach.
    pub fn domains(&self) -> &AppDomains {
        &self.app.document.domains
    }

    /// The address of the page at its server.
    pub fn uri(&self) -> &str {
        &self.app.document.uri
    }

    /// Waits until the page was closed, by the user or by itself, or was never opened.
    pub async fn finished(&self) {
        let mut open = self.app.connections.subscribe();
        let over = async {
            if tokio::time::timeout(LINK_TIMEOUT, open.wait_for(|n| *n > 0)).await.is_err() {
                return;
            }
            loop {
                if open.wait_for(|n| *n == 0).await.is_err() {
                    return;
                }
                let again = tokio::time::timeout(RELOAD_TIMEOUT, open.wait_for(|n| *n > 0)).await;
                if again.is_err() {
                    return;
                }
            }
        };
        tokio::select! {
            () = over => {}
            () = self.app.closing.cancelled() => {}
        }
    }
}

async fn listen() -> io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let address = listener.local_addr()?.to_string();
    Ok((listener, address))
}

/// Serves routes under this name alone, until the end: pages of other names may point theirs here.
fn serve(listener: TcpListener, name: String, routes: Router, closing: &CancellationToken) {
    let routes = routes.layer(from_fn_with_state(Arc::<str>::from(name), only_by_name));
    let closed = closing.clone().cancelled_owned();
    tokio::spawn(async move {
        let _ = axum::serve(listener, routes).with_graceful_shutdown(closed).await;
    });
}

async fn only_by_name(State(name): State<Arc<str>>, request: Request, next: Next) -> Response {
    let host = request.headers().get(header::HOST);
    if host.is_some_and(|host| host.as_bytes() == name.as_bytes()) {
        return next.run(request).await;
    }
    StatusCode::MISDIRECTED_REQUEST.into_response()
}

// The surrounding page: it speaks with this process, shows what the page of the server asks, and
// has the sandbox in a frame.

static PAGE: LazyLock<String> = LazyLock::new(|| deck::with_questions(include_str!("page.html")));
const SANDBOX: &str = include_str!("sandbox.html");

fn surroundings(app: &Arc<ServedApp>) -> Router {
    Router::new()
        .route("/open", get(opened))
        .route("/", get(page))
        .route("/ws", get(upgrade))
        .with_state(Arc::clone(app))
}

/// The name of the cookie: browsers keep cookies by host, so it names the port.
fn cookie_name(app: &ServedApp) -> String {
    format!("mcpdeck_app_{}", app.own_origin.rsplit(':').next().unwrap_or_default())
}

fn is_known(app: &ServedApp, headers: &HeaderMap) -> bool {
    let own = format!("{}={}", cookie_name(app), app.cookie);
    let lines = headers.get_all(header::COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(';')).any(|one| one.trim() == own)
}

/// `GET /open?code=`: the address that works once.
async fn opened(State(app): State<Arc<ServedApp>>, request: Request) -> Response {
    let query = request.uri().query().unwrap_or_default().as_bytes();
    let code = url::form_urlencoded::parse(query).find(|(key, _)| key == "code");
    let code = code.map(|(_, code)| code.into_owned());
    let is_good = {
        let mut link = app.link.lock();
        let is_good = code.is_some() && *link == code;
        if is_good {
            *link = None;
        }
        is_good
    };
    if !is_good {
        let why = "This address was used already. Open the app again in mcpdeck.";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let set = format!("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name(&app), app.cookie);
    let Ok(mut set) = HeaderValue::from_str(&set) else {
        return StatusCode::INTERNAL_SERVER_ERROR.into_response();
    };
    set.set_sensitive(true);
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, "/")]).into_response();
    response.headers_mut().insert(header::SET_COOKIE, set);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The hash of the one script or style of a page, for its policy.
fn hash(page: &str, tag: &str) -> String {
    let part = page
        .split_once(&format!("<{tag}>"))
        .and_then(|(_, rest)| rest.split_once(&format!("</{tag}>")).map(|(inner, _)| inner));
    base64::engine::general_purpose::STANDARD.encode(Sha256::digest(part.unwrap_or_default()))
}

/// A page of ours, or that of the server, with its policy.
fn html(text: String, policy: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
        (header::CONTENT_SECURITY_POLICY, policy),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (header::X_DNS_PREFETCH_CONTROL, "off".to_owned()),
        (header::REFERRER_POLICY, "no-referrer".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, text).into_response()
}

async fn page(State(app): State<Arc<ServedApp>>, headers: HeaderMap) -> Response {
    if !is_known(&app, &headers) {
        let why = "Open the address that mcpdeck shows for this app.";
        return (StatusCode::FORBIDDEN, why).into_response();
    }
    let (frame, socket) = (origin(&app.sandbox), app.own_origin.replacen("http", "ws", 1));
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; \
         connect-src {socket}; frame-src {frame}; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'",
        hash(&PAGE, "script"),
        hash(&PAGE, "style"),
    );
    html(PAGE.clone(), policy)
}

/// The origin of an address of ours.
fn origin(address: &str) -> &str {
    let path = address.match_indices('/').nth(2).map_or(address.len(), |(at, _)| at);
    &address[..path]
}

async fn upgrade(
    State(app): State<Arc<ServedApp>>,
    headers: HeaderMap,
    upgrade: WebSocketUpgrade,
) -> Response {
    let from = headers.get(header::ORIGIN).and_then(|from| from.to_str().ok());
    if from != Some(&*app.own_origin) || !is_known(&app, &headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let upgrade = upgrade.max_message_size(MAX_MESSAGE_BYTES).max_frame_size(MAX_MESSAGE_BYTES);
    upgrade.on_upgrade(|socket| connection::talk(app, socket))
}

// The sandbox: a page of ours at another origin, whose frame holds the page of the server without
// any origin. It passes messages on; it may frame nothing but its own origin, so that the page cannot
// lead its frame elsewhere.

fn sandboxed(app: &Arc<ServedApp>) -> Router {
    Router::new()
        .route("/{key}/", get(proxy))
        .route("/{key}/view", get(view))
        .with_state(Arc::clone(app))
}

async fn proxy(State(app): State<Arc<ServedApp>>, Path(key): Path<String>) -> Response {
    if key != app.key {
        return StatusCode::NOT_FOUND.into_response();
    }
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; frame-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors {}",
        hash(SANDBOX, "script"),
        hash(SANDBOX, "style"),
        app.own_origin,
    );
    html(SANDBOX.replace("HOST_ORIGIN", &app.own_origin), policy)
}

async fn view(State(app): State<Arc<ServedApp>>, Path(key): Path<String>) -> Response {
    if key != app.key {
        return StatusCode::NOT_FOUND.into_response();
    }
    let (own, sandbox) = (&app.own_origin, origin(&app.sandbox));
    let policy = format!("{}; frame-ancestors {sandbox} {own}", app.domains().policy());
    tracing::info!(target: "mcpdeck::apps", server = %app.call.server, "served with {policy}");
    html(app.document.html.clone(), policy)
}
