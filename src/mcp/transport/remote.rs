//! A remote server that exchanges whole messages: what its requests share, and the pair of byte
//! streams given to its session.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc;
use futures::future::BoxFuture;
use http::header::{ACCEPT_ENCODING, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use parking_lot::Mutex;
use reqwest::redirect::{Action, Attempt, Policy};
use reqwest::{Certificate, ClientBuilder, Identity, RequestBuilder, Response};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncWrite, BufReader, DuplexStream};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_util::io::StreamReader;
use url::Url;

use super::coding::decoded;
use super::cookies::SessionCookies;
use super::moved::{MAX_REDIRECTS, Moved, RedirectReach, is_permanent};
use super::proxy::{no_proxy_hint, proxy_flaw, proxy_of};
use super::refusal::{reason_in, status_words};
use crate::auth::{AuthFailure, Authorizer, NotSent};
use crate::session::HttpEndpoint;
use base::address::is_loopback;
use base::text::cut;
use base::{Redactor, SafeText};
use config::{HttpConfig, TlsConfig};
use protocol::{FindingKind, SendError, SendFailure, Tap};

/// Chunks received from the server that may wait to be read.
const PIECE_CAPACITY: usize = 16;
/// The error text for a server that requires a token.
const UNAUTHORIZED: &str = "the server asks for authorisation (HTTP 401)";

/// Bytes of outgoing messages that may wait to be sent.
const OUTGOING_CAPACITY: usize = 64 << 10;

/// The two directions of a connection, as bytes.
pub(crate) struct Streams {
    pub(crate) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) write: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Where received data goes.
pub(super) type Incoming = mpsc::Sender<io::Result<Bytes>>;

/// The streams of a session, and their other ends.
pub(super) fn streams() -> (Streams, Incoming, BufReader<DuplexStream>) {
    let (incoming, pieces) = mpsc::channel(PIECE_CAPACITY);
    let (write, outgoing) = tokio::io::duplex(OUTGOING_CAPACITY);
    let streams = Streams { read: Box::new(StreamReader::new(pieces)), write: Box::new(write) };
    (streams, incoming, BufReader::new(outgoing))
}

/// How long the body of a refusal is waited for.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// Most bytes of it that are read for its reason.
const MAX_REASON_BYTES: usize = 4 << 10;
/// Most headers of a response.
const MAX_RESPONSE_HEADERS: usize = 512;

/// A remote server.
#[derive(Clone)]
pub(crate) struct RemoteServer {
    pub(super) http: reqwest::Client,
    pub(super) tap: Arc<Tap>,
    /// The account that signs in, if there is one.
    auth: Option<Arc<Authorizer>>,
    headers: HeaderMap,
    /// Whether the answer to a message is the response to its request (Streamable HTTP).
    answers: bool,
    /// The address of the entry.
    url: Url,
    /// Whether the entry sends more than messages.
    has_secrets: bool,
    /// Those of a session; `None` where what is sent are no messages of one.
    cookies: Option<Arc<SessionCookies>>,
    /// The last redirect.
    moved: Arc<Mutex<Option<KnownMove>>>,
}

/// A redirect that was followed.
#[derive(Clone, PartialEq, Eq)]
struct KnownMove {
    from: Url,
    to: Url,
    is_permanent: bool,
}

impl RemoteServer {
    /// # Errors
    /// When a header or certificate of the entry cannot be used.
    pub fn new(server: &HttpEndpoint, tap: &Arc<Tap>, answers: bool) -> Result<Self, SendError> {
        let HttpEndpoint { config, auth } = server;
        let headers = headers(config)?;
        let builder = client_builder(&config.url, &config.tls)
            .map_err(|text| SendError::Refused(text.into()))?;
        // What is odd about a head does no harm to what follows it.
        let builder = builder
            .http1_ignore_invalid_headers_in_responses(true)
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_max_headers(MAX_RESPONSE_HEADERS);
        // Followed here: what is sent decides how far.
        let http = builder.redirect(Policy::none()).build();
        let http = http.map_err(|error| {
            SendError::Refused(format!("HTTP cannot be set up: {error}").into())
        })?;
        let has_secrets = !headers.is_empty() || !config.url.username().is_empty();
        Ok(Self {
            http,
            tap: Arc::clone(tap),
            auth: auth.clone(),
            headers,
            answers,
            url: config.url.clone(),
            has_secrets,
            cookies: None,
            moved: Arc::default(),
        })
    }

    /// The same for the messages of a session: cookies that the server sets are kept and sent back to
    /// it, as a load balancer needs, and a message follows its endpoint to another last slash.
    #[must_use]
    pub(crate) fn for_session(mut self) -> Self {
        self.cookies = Some(Arc::default());
        self
    }

    /// Sends a request and requires a success status.
    ///
    /// # Errors
    /// What failed, or the status.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let response = self.run(request).await?;
        let status = response.status();
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        let mut text = format!("the server answered HTTP {}", status_words(status));
        let place = response.headers().get(LOCATION).and_then(|place| place.to_str().ok());
        if let Some(place) = place.filter(|_| status.is_redirection()) {
            let place = place.split(['?', '#']).next().unwrap_or_default();
            text += " to ";
            text += place;
            text += "; if that is the server, put it into `url`";
        }
        let body =
            tokio::time::timeout(REASON_TIMEOUT, read_body(response, MAX_REASON_BYTES, &self.tap));
        if let Ok(Ok((body, _))) = body.await {
            let reason = reason_in(&String::from_utf8_lossy(&body));
            if !reason.is_empty() {
                text += ": ";
                text += cut(&reason, 200);
            }
        }
        let text = SafeText::line(&self.tap.context.redactor.redact(&text)).to_string();
        Err(SendError::Refused(text.into()))
    }

    /// Sends a request with the headers of the entry and the token of its account, and records the
    /// status of its response.
    pub(super) async fn run(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let sent = self.sent(request).await;
        self.received(sent)
    }

    /// As [`RemoteServer::run`], for a request that may arrive twice: it is sent once more when the
    /// connection ended without an answer. A server that closes an idle connection while a request
    /// is on its way has not read it.
    pub(super) async fn run_again(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let again = request.try_clone();
        let mut sent = self.sent(request).await;
        if let (Err(NotSent::Http(error)), Some(again)) = (&sent, again)
            && is_cut_off(error)
        {
            tracing::debug!(server = %self.tap.context.server, %error, "sent again");
            sent = self.sent(again).await;
        }
        self.received(sent)
    }

    /// Sends a request, and follows redirects as far as it may.
    async fn sent(&self, request: RequestBuilder) -> Result<Response, NotSent> {
        let (client, request) = request.headers(self.headers.clone()).build_split();
        let mut request = request?;
        if let Some(known) = self.moved.lock().as_ref()
            && known.is_permanent
            && known.from == *request.url()
        {
            known.to.clone_into(request.url_mut());
        }
        let mut redirects = 0;
        loop {
            let (method, at) = (request.method().clone(), request.url().clone());
            let again = request.try_clone();
            let response =
                self.sent_once(RequestBuilder::from_parts(client.clone(), request)).await?;
            let is_token = self.auth.as_ref().is_some_and(|auth| auth.holds_token());
            let reach = RedirectReach {
                stays: !self.answers || self.has_secrets || is_token,
                is_endpoint: self.cookies.is_some(),
            };
            let (status, headers) = (response.status(), response.headers());
            let next = match Moved::from_response(&method, &at, status, headers, reach) {
                Moved::To(next) => next,
                Moved::Refused(why) if self.answers => return Err(NotSent::Elsewhere(why)),
                Moved::Not | Moved::Refused(_) => return Ok(response),
            };
            redirects += 1;
            let Some(mut following) = again.filter(|_| redirects <= MAX_REDIRECTS) else {
                return Err(NotSent::Elsewhere("too many redirects".to_owned()));
            };
            next.clone_into(following.url_mut());
            self.followed(
                status,
                KnownMove { from: at, to: next, is_permanent: is_permanent(status) },
            );
            request = following;
        }
    }

    /// Remembers a redirect, and names the address that spares it.
    fn followed(&self, status: StatusCode, new: KnownMove) {
        let mut to = new.to.clone();
        to.set_query(None);
        to.set_fragment(None);
        let mend = if new.from == self.url {
            format!("write {to} as its `url`")
        } else {
            "it should name that address itself".to_owned()
        };
        let status = status.as_u16();
        let text =
            format!("the server redirects {} to {to} (HTTP {status}): {mend}", new.from.path());
        if self.moved.lock().replace(new.clone()) == Some(new) {
            return;
        }
        self.tap.report(FindingKind::Tolerated, &text, "", None);
    }

    async fn sent_once(&self, request: RequestBuilder) -> Result<Response, NotSent> {
        let (client, request) = request.build_split();
        let mut request = request?;
        if let Some(cookies) = &self.cookies {
            let url = request.url().clone();
            cookies.attach(&url, request.headers_mut());
        }
        let request = RequestBuilder::from_parts(client, request);
        let response = match &self.auth {
            Some(auth) => auth.send(request).await?,
            None => request.send().await?,
        };
        if let Some(cookies) = &self.cookies {
            cookies.learn(response.url(), response.headers());
        }
        Ok(response)
    }

    fn received(&self, sent: Result<Response, NotSent>) -> Result<Response, SendError> {
        let response = match sent {
            Ok(response) => response,
            Err(NotSent::Http(error)) => return Err(self.broken(&error)),
            Err(NotSent::Elsewhere(why)) => {
                let text = SafeText::line(&format!("not followed: {why}")).to_string();
                return Err(SendError::Refused(text.into()));
            }
            Err(NotSent::Auth(failure)) => {
                // Another attempt may obtain one.
                let is_passing = matches!(failure, AuthFailure::Unavailable(_));
                self.tap.unauthorized.store(!is_passing, Ordering::Relaxed);
                return Err(SendError::Unauthorized(failure.to_string()));
            }
        };
        let status = response.status();
        self.tap.context.seen.with(|seen| seen.http = Some(status.as_u16()));
        if status == StatusCode::UNAUTHORIZED {
            self.tap.unauthorized.store(true, Ordering::Relaxed);
            return Err(SendError::Unauthorized(UNAUTHORIZED.to_owned()));
        }
        // Of an encrypted connection, the tunnel is refused, and there is no response.
        if status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
            && let Some(proxy) = proxy_of(response.url())
        {
            let text = format!(
                "the proxy {proxy} answered HTTP {status}: name its user and password in the \
                 variable, as http://USER:PASSWORD@HOST:PORT"
            );
            return Err(SendError::Refused(text.into()));
        }
        Ok(response)
    }

    /// Describes a connection failure.
    pub(super) fn broken(&self, error: &reqwest::Error) -> SendError {
        let context = &self.tap.context;
        let text = unreachable_reason(error, &context.redactor);
        let failure = SendFailure::caused(text, error, &context.redactor);
        tracing::warn!(
            target: "mcpdeck::transport", server = %context.server, action = "request failed",
            causes = failure.causes, "{failure}"
        );
        let connected = !error.is_connect() || error.is_redirect();
        if self.answers && connected {
            SendError::Refused(failure)
        } else {
            SendError::Broken(failure)
        }
    }
}

/// Whether a connection that was open ended before anything of the answer came.
fn is_cut_off(error: &reqwest::Error) -> bool {
    if !error.is_request() || error.is_connect() || error.is_timeout() {
        return false;
    }
    has_cause(error, &[io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe])
}

/// Whether a request may be answered when it is sent again: nobody listened, or the connection ended
/// without the whole answer.
pub fn is_passing(error: &(dyn std::error::Error + 'static)) -> bool {
    use io::ErrorKind;
    let kinds = [
        ErrorKind::BrokenPipe,
        ErrorKind::ConnectionAborted,
        ErrorKind::ConnectionRefused,
        ErrorKind::ConnectionReset,
        ErrorKind::HostUnreachable,
        ErrorKind::NetworkUnreachable,
        ErrorKind::UnexpectedEof,
    ];
    has_cause(error, &kinds)
}

/// Whether one of these failures of a socket, or an end before the answer, is behind an error.
fn has_cause(error: &(dyn std::error::Error + 'static), kinds: &[io::ErrorKind]) -> bool {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        let of_socket = inner.downcast_ref::<io::Error>().map(io::Error::kind);
        if of_socket.is_some_and(|kind| kinds.contains(&kind))
            || inner.to_string() == "connection closed before message completed"
        {
            return true;
        }
        cause = inner.source();
    }
    false
}

/// Reads a body; for one over `limit` bytes, its beginning and its minimum length. One far over the
/// limit is not read to its end.
///
/// # Errors
/// When it breaks off, or is coded in a way that cannot be read.
pub(super) async fn read_body(
    response: Response,
    limit: usize,
    tap: &Tap,
) -> Result<(Vec<u8>, Option<u64>), SendError> {
    let mut body = decoded(response);
    let mut bytes = Vec::new();
    let mut total = 0_u64;
    while let Some(chunk) = body.next().await {
        let chunk = chunk.map_err(|error| {
            let text = format!("the answer broke off: {}", innermost(&error));
            SendError::Refused(SendFailure::caused(text, &error, &tap.context.redactor))
        })?;
        tap.arrived(chunk.len());
        total += chunk.len() as u64;
        if bytes.len() <= limit {
            bytes.extend_from_slice(&chunk);
        }
        if total > 4 * limit as u64 {
            break;
        }
    }
    let over = (total > limit as u64).then_some(total);
    if over.is_some() {
        bytes.truncate(64 << 10);
    }
    Ok((bytes, over))
}

/// Messages being posted.
#[derive(Default)]
pub(super) struct Posts(JoinSet<()>);

impl Posts {
    /// Most messages posted concurrently.
    const MAX_CONCURRENT_POSTS: usize = 256;
    /// How long the next message waits for the acknowledgement of one.
    const ACKNOWLEDGEMENT_TIMEOUT: Duration = Duration::from_secs(1);

    /// Posts a message, unless the session ends first. With `in_order`, returns when the server has
    /// acknowledged it: at once, as a rule, and one that never does must not hold up the others.
    pub(super) async fn add(
        &mut self,
        tap: Arc<Tap>,
        in_order: bool,
        posting: BoxFuture<'static, ()>,
    ) {
        while self.0.try_join_next().is_some() {}
        while self.0.len() >= Self::MAX_CONCURRENT_POSTS {
            self.0.join_next().await;
        }
        let (done, acknowledged) = oneshot::channel::<()>();
        self.0.spawn(async move {
            let _done = done;
            tokio::select! {
                () = posting => {}
                () = ended(&tap) => {}
            }
        });
        if in_order {
            let _ = tokio::time::timeout(Self::ACKNOWLEDGEMENT_TIMEOUT, acknowledged).await;
        }
    }

    /// Waits until all are acknowledged.
    pub(super) async fn finished(&mut self) {
        while self.0.join_next().await.is_some() {}
    }
}

/// Waits until the session has ended, and a second more for its last messages: a server that reads
/// nothing any more must not keep the connection.
pub(super) async fn ended(tap: &Tap) {
    tap.over.cancelled().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
}

// HTTP connections: TLS with rustls and ring, certificates, and proxies from the environment
// (`HTTPS_PROXY`, `NO_PROXY`).

/// The settings shared by all HTTP clients of one server. Follows redirects wherever they lead;
/// callers that send secrets must override that.
///
/// # Errors
/// Names the file of `tls` that cannot be used, or the variable that names a proxy that cannot be.
pub fn client_builder(url: &Url, tls: &TlsConfig) -> Result<ClientBuilder, String> {
    if let Some(flaw) = proxy_flaw(url) {
        return Err(flaw);
    }
    provide_tls();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("mcpdeck/", env!("CARGO_PKG_VERSION")))
        .default_headers(
            [(ACCEPT_ENCODING, HeaderValue::from_static("identity"))].into_iter().collect(),
        )
        .redirect(Policy::custom(follow))
        .tcp_nodelay(true);
    if is_loopback(url) {
        // Node and Python servers close connections that are idle for 5 s.
        builder = builder.pool_idle_timeout(Duration::from_secs(4)).no_proxy();
    }
    if let Some(path) = &tls.ca {
        let found = Certificate::from_pem_bundle(&read(path)?);
        let certificates = found.map_err(|error| unusable(path, &error.to_string()))?;
        if certificates.is_empty() {
            return Err(unusable(path, "it holds no certificate in PEM"));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    if let (Some(cert), Some(key)) = (&tls.cert, &tls.key) {
        builder = builder.identity(identity(cert, key)?);
    }
    Ok(builder)
}

/// The certificate of the client and its key. Checked here, because the client that is built from
/// them says of everything only that it could not be built.
///
/// # Errors
/// Names the file, and what is wrong with it.
fn identity(cert: &Path, key: &Path) -> Result<Identity, String> {
    let (of_cert, of_key) = (read(cert)?, read(key)?);
    let pem = [&*of_key, b"\n", &of_cert].concat();
    let holds = |what: &str| memchr::memmem::find(&pem, what.as_bytes()).is_some();
    if holds("BEGIN ENCRYPTED PRIVATE KEY") || holds("Proc-Type: 4,ENCRYPTED") {
        let help = "its key is encrypted, and nobody can be asked for the password: write one \
                    without, `openssl pkey -in KEY -out FILE`, which only you can read";
        return Err(unusable(key, help));
    }
    if !holds("PRIVATE KEY-----") {
        return Err(unusable(key, "it holds no private key in PEM"));
    }
    if !holds("BEGIN CERTIFICATE-----") {
        return Err(unusable(cert, "it holds no certificate in PEM"));
    }
    let unread = |path: &Path, error: &dyn std::fmt::Display| unusable(path, &error.to_string());
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let chain = chain.map_err(|error| unread(cert, &error))?;
    let private = PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unread(key, &error))?;
    let provider = rustls::crypto::ring::default_provider().key_provider;
    let private = provider.load_private_key(private).map_err(|error| unread(key, &error))?;
    if let Err(rustls::Error::InconsistentKeys(_)) = CertifiedKey::new(chain, private).keys_match()
    {
        let why = format!(
            "it does not belong to the first certificate of {}: that of the client comes first, \
             those of its authorities after it",
            cert.display()
        );
        return Err(unusable(key, &why));
    }
    Identity::from_pem(&pem).map_err(|error| unread(cert, &error))
}

/// Follows a redirect, unless the proxy before the new address cannot be used.
fn follow(attempt: Attempt<'_>) -> Action {
    const MAX_REDIRECTS: usize = 10;
    if let Some(flaw) = proxy_flaw(attempt.url()) {
        return attempt.error(flaw);
    }
    if attempt.previous().len() > MAX_REDIRECTS {
        return attempt.error("too many redirects");
    }
    attempt.follow()
}

/// Installs the TLS provider, once per process.
pub fn provide_tls() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only if the application has installed one before, which is then used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// The message of the innermost cause.
pub(crate) fn innermost(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Why a request failed: the innermost cause, which is the most helpful one.
pub fn unreachable_reason(error: &reqwest::Error, redactor: &Redactor) -> String {
    let proxy = error.url().filter(|_| error.is_connect()).and_then(proxy_of);
    let what = if let Some(proxy) = proxy {
        let hint = error.url().and_then(no_proxy_hint);
        let hint = hint.map(|hint| format!(" ({hint})")).unwrap_or_default();
        format!("cannot connect through the proxy {proxy}{hint}")
    } else if error.is_connect() {
        "cannot connect".to_owned()
    } else if error.is_redirect() {
        "not followed".to_owned()
    } else if error.is_timeout() {
        "timed out".to_owned()
    } else {
        "the request failed".to_owned()
    };
    // reqwest's own message stops at "error sending request".
    let cause = innermost(error);
    // Some causes end with a link to the documentation of a library.
    let cause = cause.split(": https://docs.rs/").next().unwrap_or(&cause);
    let text = match explain(cause) {
        Some(explained) => format!("{what}: {explained} ({cause})"),
        None => format!("{what}: {cause}"),
    };
    SafeText::line(&redactor.redact(&text)).to_string()
}

/// Reads a file named by `tls`.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    base::file::read(path, 1 << 20).map_err(|error| unusable(path, &error.to_string()))
}

fn unusable(path: &Path, why: &str) -> String {
    format!("the file {} of `tls` cannot be used: {why}", path.display())
}

// The HTTP client of a server: connections, redirects, and the headers of its entry.

/// What the entry sends with every request.
///
/// # Errors
/// Names the header that cannot be sent.
pub(crate) fn headers(config: &HttpConfig) -> Result<HeaderMap, SendError> {
    let bad =
        |name: &str, what: &str| SendError::Refused(format!("header `{name}`: {what}").into());
    let mut out = HeaderMap::new();
    for (name, value) in &config.headers {
        let key: HeaderName = name.parse().map_err(|_| bad(name, "the name is not allowed"))?;
        if HttpConfig::OWN_HEADERS.contains(&key.as_str()) {
            return Err(bad(name, "the transport sets it itself"));
        }
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| bad(name, "the value holds characters that are not allowed"))?;
        value.set_sensitive(true);
        out.insert(key, value);
    }
    Ok(out)
}

// Explains certificate errors: which check failed, and what to do about it.
//
// Only interprets messages of the TLS library; nothing is ever accepted here.

/// The failed check and the next step, when `cause` is about a certificate.
pub(crate) fn explain(cause: &str) -> Option<&'static str> {
    if let Some((_, alert)) = cause.split_once("received fatal alert: ") {
        return of_alert(alert);
    }
    if cause.contains("invalid HTTP version parsed") || cause.contains("invalid HTTP status-code") {
        return Some(
            "what answers there does not speak HTTP/1.1: correct the port, or write https:// if it \
             speaks TLS",
        );
    }
    if cause.contains("without sending TLS close_notify") {
        return Some(
            "the server ended the TLS connection, as some do that require a certificate of the \
             client: name one in `tls.cert` and `tls.key` of the entry",
        );
    }
    let cause = cause.split_once("invalid peer certificate")?.1;
    let has = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    Some(if has(&["NotValidForName", "not valid for name"]) {
        "its certificate is for another host name: use the name that the certificate has in `url`, \
         or have a certificate issued for this one"
    } else if has(&["NotValidYet", "not valid yet"]) {
        "its certificate is not valid yet: compare the clocks of both machines"
    } else if has(&["Expired", "expired"]) {
        "its certificate has expired: have it renewed, or set the clock of this machine right"
    } else if has(&["Revoked", "revoked"]) {
        "its certificate was revoked: do not use this server until it has a new one"
    } else if has(&["UnknownIssuer", "CaUsedAsEndEntity"]) {
        "its certificate has no issuer this machine trusts (self-signed, or a private \
         authority): add the authority to the trust store of the system, or name its file in \
         SSL_CERT_FILE"
    } else if has(&["BadSignature"]) {
        "its certificate is not signed by the authority that it names: the authority was recreated \
         (put its new certificate into the trust store of the system, or into the file of \
         SSL_CERT_FILE), or traffic is intercepted"
    } else if has(&["InvalidPurpose"]) {
        "its certificate is not meant for servers: have one issued for server authentication"
    } else {
        "its certificate is invalid: inspect it with `openssl s_client -connect HOST:PORT`"
    })
}

/// What a server means that refuses the TLS handshake.
fn of_alert(alert: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| alert.contains(word));
    if has(&["CertificateRequired"]) {
        Some(
            "the server requires a certificate of the client: name one in `tls.cert` and `tls.key` \
             of the entry",
        )
    } else if has(&["CertificateExpired"]) {
        Some(
            "the server says that the certificate of the client has expired: renew the one of \
             `tls.cert`, or compare the clocks of both machines",
        )
    } else if has(&["Certificate", "UnknownCA", "AccessDenied"]) {
        Some(
            "the server does not accept the certificate of the client, or there is none: check \
             `tls.cert` and `tls.key` of the entry, and who issued it",
        )
    } else if has(&["HandshakeFailure", "ProtocolVersion"]) {
        Some(
            "the server has no TLS version or cipher in common, or requires a certificate of the \
             client (`tls.cert` and `tls.key` of the entry)",
        )
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_check_is_distinguished_with_what_to_do() {
        for (cause, said) in [
            ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "self-signed"),
            ("invalid peer certificate: Expired", "expired"),
            ("invalid peer certificate: certificate expired: verification time 5", "expired"),
            ("invalid peer certificate: NotValidYet", "clocks"),
            ("invalid peer certificate: certificate not valid for name \"a\"", "host name"),
            ("invalid peer certificate: Revoked", "revoked"),
            ("invalid peer certificate: BadSignature", "recreated"),
            ("invalid peer certificate: BadEncoding", "openssl"),
        ] {
            assert!(explain(cause).is_some_and(|explained| explained.contains(said)), "{cause}");
        }
        assert_eq!(explain("connection refused"), None);
        let other = "invalid HTTP version parsed";
        assert!(explain(other).is_some_and(|explained| explained.contains("https://")));
        for cause in [
            "received fatal alert: CertificateRequired",
            "received fatal alert: BadCertificate",
            "received fatal alert: HandshakeFailure",
            "peer closed connection without sending TLS close_notify",
        ] {
            assert!(explain(cause).is_some_and(|said| said.contains("tls.cert")), "{cause}");
        }
        assert_eq!(explain("received fatal alert: InternalError"), None);
    }
}
