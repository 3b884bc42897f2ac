//! A server behind an address that is spoken to message by message: what its requests have in common,
//! and the pair of byte streams its session is given.

use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Once};
use std::time::Duration;

use bytes::Bytes;
use futures::channel::mpsc;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{Certificate, ClientBuilder, Identity, RequestBuilder, Response};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, DuplexStream};
use tokio_util::io::StreamReader;
use url::Url;

use super::{SendError, UNAUTHORIZED};
use crate::base::address::is_loopback;
use crate::base::allowance::Allowance;
use crate::base::{Redactor, SafeText};
use crate::config::{HttpConfig, TlsConfig};
use crate::mcp::auth::NotSent;
use crate::mcp::wire::tap::Tap;

/// Pieces of what the server said that wait to be read.
const PIECES: usize = 16;
/// Bytes of messages that wait to be sent.
const OUTGOING: usize = 64 << 10;

/// The two directions of a connection, as bytes.
pub(crate) struct Streams {
    pub(crate) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) write: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Where what the server said goes.
pub(super) type Incoming = mpsc::Sender<io::Result<Bytes>>;

/// The streams of a session, and the ends that carry them.
pub(super) fn streams() -> (Streams, Incoming, BufReader<DuplexStream>) {
    let (incoming, pieces) = mpsc::channel(PIECES);
    let (write, outgoing) = tokio::io::duplex(OUTGOING);
    let streams = Streams { read: Box::new(StreamReader::new(pieces)), write: Box::new(write) };
    (streams, incoming, BufReader::new(outgoing))
}

/// The server.
#[derive(Clone)]
pub(crate) struct RemoteServer {
    pub(super) http: reqwest::Client,
    pub(super) tap: Arc<Tap>,
    headers: HeaderMap,
    /// Whether the answer to a message is the response to its request (Streamable HTTP).
    answers: bool,
}

impl RemoteServer {
    /// # Errors
    /// A header or certificate of the entry that cannot be used.
    pub(crate) fn new(
        config: &HttpConfig,
        tap: &Arc<Tap>,
        answers: bool,
    ) -> Result<Self, SendError> {
        let headers = headers(config)?;
        let builder = client_builder(&config.url, &config.tls).map_err(SendError::Refused)?;
        // On a long connection a redirect would take the headers elsewhere, and a POST its message.
        let policy = if answers { Policy::custom(same_origin) } else { Policy::none() };
        let http = builder.redirect(policy).build();
        let http =
            http.map_err(|error| SendError::Refused(format!("HTTP cannot be set up: {error}")))?;
        Ok(Self { http, tap: Arc::clone(tap), headers, answers })
    }

    /// Sends a request and asks for success.
    ///
    /// # Errors
    /// In words: what failed, or the status.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let response = self.run(request).await?;
        let status = response.status();
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        Err(SendError::Refused(format!("the server answered HTTP {status}")))
    }

    /// Sends a request with the headers of the entry and the token of its account, and notes the
    /// status of its response.
    pub(super) async fn run(&self, request: RequestBuilder) -> Result<Response, SendError> {
        let request = request.headers(self.headers.clone());
        let sent = match &self.tap.context.auth {
            Some(auth) => auth.send(request).await,
            None => request.send().await.map_err(NotSent::from),
        };
        let response = match sent {
            Ok(response) => response,
            Err(NotSent::Http(error)) => return Err(self.broken(&error)),
            Err(NotSent::Auth(failure)) => {
                self.tap.unauthorized.store(true, Ordering::Relaxed);
                return Err(SendError::Unauthorized(failure.to_string()));
            }
        };
        let status = response.status();
        self.tap.context.seen.with(|seen| seen.http = Some(status.as_u16()));
        if status == StatusCode::UNAUTHORIZED {
            self.tap.unauthorized.store(true, Ordering::Relaxed);
            return Err(SendError::Unauthorized(UNAUTHORIZED.to_owned()));
        }
        Ok(response)
    }

    /// A failure of the connection, in words.
    pub(super) fn broken(&self, error: &reqwest::Error) -> SendError {
        let text = unreachable_reason(error, &self.tap.context.redactor);
        let connected = !error.is_connect() || error.is_redirect();
        if self.answers && connected { SendError::Refused(text) } else { SendError::Broken(text) }
    }
}

// How a server is connected to over HTTP: TLS with rustls and ring, its certificates, proxies of
// the environment (`HTTPS_PROXY`, `NO_PROXY`).

/// The settings every HTTP client of one server shares. Follows redirects as reqwest does; whoever
/// sends secrets says otherwise.
///
/// # Errors
/// Names the file of `tls` that cannot be used.
pub(crate) fn client_builder(url: &Url, tls: &TlsConfig) -> Result<ClientBuilder, String> {
    provide_tls();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("mcpdeck/", env!("CARGO_PKG_VERSION")))
        .tcp_nodelay(true);
    if is_loopback(url) {
        // Servers of node and Python close what is idle for 5 s.
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
        let pem = [read(key)?, b"\n".to_vec(), read(cert)?].concat();
        let identity = Identity::from_pem(&pem);
        builder = builder.identity(identity.map_err(|error| unusable(cert, &error.to_string()))?);
    }
    Ok(builder)
}

/// Names the library that encrypts, once in the life of the program.
pub(crate) fn provide_tls() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only when the application installed one before: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// The words of the innermost cause.
pub(crate) fn innermost(mut error: &dyn std::error::Error) -> String {
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Why a request was not answered: the innermost cause, which is the one that helps.
pub(crate) fn unreachable_reason(error: &reqwest::Error, redactor: &Redactor) -> String {
    let what = if error.is_connect() {
        "cannot connect"
    } else if error.is_redirect() {
        "not followed"
    } else if error.is_timeout() {
        "timed out"
    } else {
        "the request failed"
    };
    // reqwest's own words stop at "error sending request".
    let cause = innermost(error);
    let text = match explain(&cause) {
        Some(explained) => format!("{what}: {explained} ({cause})"),
        None => format!("{what}: {cause}"),
    };
    SafeText::line(&redactor.redact(&text)).to_string()
}

/// Reads a file that `tls` names.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    crate::base::file::read(path, 1 << 20).map_err(|error| unusable(path, &error.to_string()))
}

fn unusable(path: &Path, why: &str) -> String {
    format!("the file {} of `tls` cannot be used: {why}", path.display())
}

// The HTTP client of a server: connections, redirects, and the headers of its entry.

fn headers(config: &HttpConfig) -> Result<HeaderMap, SendError> {
    let bad = |name: &str, what: &str| SendError::Refused(format!("header `{name}`: {what}"));
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

/// Follows redirects within the origin only: the headers hold secrets. And only those that keep the
/// request as it is (RFC 9110, section 15.4): a message that becomes a GET is lost without a word.
fn same_origin(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    const MOST: usize = 5;
    let first = attempt.previous().first().map(url::Url::origin);
    if attempt.previous().len() > MOST {
        return attempt.error("too many redirects");
    }
    let origin = attempt.url().origin();
    if first.as_ref() != Some(&origin) {
        let text = format!("a redirect to another origin, {}", origin.ascii_serialization());
        return attempt.error(text);
    }
    let keeps = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
    if !keeps.contains(&attempt.status()) {
        let text = format!("HTTP {} would send it without its message", attempt.status());
        return attempt.error(text);
    }
    attempt.follow()
}

// What is wrong with a certificate, in words: which check failed, and what to do about it.
//
// Knows the words of the TLS library only; nothing is ever accepted here.

/// The failed check and the next step, when `cause` is about a certificate.
pub(crate) fn explain(cause: &str) -> Option<&'static str> {
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
        "nobody this machine trusts has signed its certificate (self-signed, or a private \
         authority): add the authority to the trust store of the system, or name its file in \
         SSL_CERT_FILE"
    } else if has(&["BadSignature"]) {
        "its certificate is not signed by the authority that it names: the authority was made anew \
         (put its new certificate into the trust store of the system, or into the file of \
         SSL_CERT_FILE), or somebody stands in between"
    } else if has(&["InvalidPurpose"]) {
        "its certificate is not meant for servers: have one issued for server authentication"
    } else {
        "its certificate does not hold: look at it with `openssl s_client -connect HOST:PORT`"
    })
}

// What a server sends that nobody asked for: read at a limited rate, reported when it is a flood.
// Owns the account of one connection; whoever reads does the waiting.

/// The account of one connection.
#[derive(Debug)]
pub struct Unasked {
    allowance: Allowance,
    /// How long reading has been held back in all.
    held: Duration,
}

impl Default for Unasked {
    fn default() -> Self {
        Self { allowance: Allowance::of_bytes(), held: Duration::ZERO }
    }
}

impl Unasked {
    /// Reading that is held back for longer than this is reported: one large message is no flood.
    const FLOOD: Duration = Duration::from_secs(1);

    /// So many bytes came that nobody asked for; gives how long to wait before more is read.
    pub fn spend(&mut self, bytes: usize, tap: &Tap) -> Option<Duration> {
        let pause = self.allowance.spend(bytes as f64)?;
        self.held += pause;
        if self.held >= Self::FLOOD {
            tap.floods();
        }
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failed_check_is_told_apart_with_what_to_do() {
        for (cause, said) in [
            ("invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            ("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", "self-signed"),
            ("invalid peer certificate: Expired", "expired"),
            ("invalid peer certificate: certificate expired: verification time 5", "expired"),
            ("invalid peer certificate: NotValidYet", "clocks"),
            ("invalid peer certificate: certificate not valid for name \"a\"", "host name"),
            ("invalid peer certificate: Revoked", "revoked"),
            ("invalid peer certificate: BadSignature", "made anew"),
            ("invalid peer certificate: BadEncoding", "openssl"),
        ] {
            assert!(explain(cause).is_some_and(|explained| explained.contains(said)), "{cause}");
        }
        assert_eq!(explain("connection refused"), None);
    }
}
