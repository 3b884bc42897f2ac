//! A server behind an address that is spoken to message by message: what its requests have in common,
//! and the pair of byte streams its session is given.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::channel::mpsc;
use http::{HeaderMap, StatusCode};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response};
use tokio::io::{AsyncRead, AsyncWrite, BufReader, DuplexStream};
use tokio_util::io::StreamReader;

use crate::config::HttpConfig;
use crate::mcp::auth::NotSent;
use crate::mcp::transport::{SendError, UNAUTHORIZED, connection};
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
pub(crate) struct Remote {
    pub(super) http: reqwest::Client,
    pub(super) tap: Arc<Tap>,
    headers: HeaderMap,
}

impl Remote {
    /// # Errors
    /// A header or certificate of the entry that cannot be used.
    pub(crate) fn new(config: &HttpConfig, tap: &Arc<Tap>) -> Result<Self, SendError> {
        let headers = super::http::setup::headers(config)?;
        let builder = connection::builder(&config.url, &config.tls).map_err(SendError::Refused)?;
        // A redirect would take the headers elsewhere, and a POST its message.
        let http = builder.redirect(Policy::none()).build();
        let http = http.map_err(|error| SendError::Refused(error.to_string()))?;
        Ok(Self { http, tap: Arc::clone(tap), headers })
    }

    /// Sends a request with the headers of the entry and the token of its account.
    ///
    /// # Errors
    /// In words: what failed, or the status.
    pub(super) async fn send(&self, request: RequestBuilder) -> Result<Response, SendError> {
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
        self.tap.context.seen.status(status.as_u16());
        if status == StatusCode::UNAUTHORIZED {
            self.tap.unauthorized.store(true, Ordering::Relaxed);
            return Err(SendError::Unauthorized(UNAUTHORIZED.to_owned()));
        }
        if status.is_success() || status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(response);
        }
        Err(SendError::Refused(format!("the server answered HTTP {status}")))
    }

    /// A failure of the connection, in words.
    pub(super) fn broken(&self, error: &reqwest::Error) -> SendError {
        SendError::Broken(connection::unreachable(error, &self.tap.context.redactor))
    }
}
