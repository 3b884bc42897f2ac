//! What comes back on a request: a status, a body, or nothing at all; and the words for it.

use std::sync::atomic::Ordering;

use http::StatusCode;
use http::header::RETRY_AFTER;

use super::Http;
use crate::base::text::SafeText;
use crate::mcp::auth::NotSent;
use crate::mcp::transport::{SendError, UNAUTHORIZED, connection};
use crate::mcp::wire::cut;

/// A body, as far as the limit lets it be read.
enum Body {
    Whole(Vec<u8>),
    TooLong { head: Vec<u8>, total: u64 },
}

impl Http {
    /// A response that is no stream.
    pub(super) async fn body(
        &self,
        mut response: reqwest::Response,
        id: Option<i64>,
        kind: &str,
        session: bool,
        method: &str,
    ) -> Result<(), SendError> {
        let status = response.status();
        let body = self.read(&mut response).await?;
        let text = match &body {
            Body::Whole(bytes) => bytes.as_slice(),
            Body::TooLong { head, .. } => head.as_slice(),
        };
        let shown = String::from_utf8_lossy(&text[..text.len().min(400)]).into_owned();
        if !status.is_success() {
            if session && status == StatusCode::BAD_REQUEST && names_session(&shown) {
                return Err(SendError::Expired);
            }
            // Whatever id it names: this is the place where the answer had to be.
            if let Some(id) = id {
                if self.tap.refused(id, text) {
                    return Ok(());
                }
                // A refused probe is what a legacy server answers.
                if method == "server/discover"
                    && status.is_client_error()
                    && status != StatusCode::FORBIDDEN
                {
                    let reason = format!("refused with HTTP {status}: {}", first_line(&shown));
                    self.tap.unanswered(id, &reason);
                    return Ok(());
                }
            }
            return Err(SendError::Refused(self.refusal(&response, &shown, true)));
        }
        if !kind.starts_with("application/json") {
            if text.trim_ascii().is_empty() && id.is_none() {
                return Ok(());
            }
            let kind = if kind.is_empty() { "no content type" } else { kind };
            let text = format!("the server answered with {kind}, not JSON: {}", first_line(&shown));
            return Err(SendError::Refused(SafeText::line(&text).to_string()));
        }
        if let Some(what) = not_utf8(text) {
            let text = format!("the answer is {what}, not JSON in UTF-8 (RFC 8259, section 8.1)");
            return Err(SendError::Refused(text));
        }
        match body {
            Body::Whole(mut bytes) => {
                for byte in &mut bytes {
                    if matches!(byte, b'\n' | b'\r') {
                        *byte = b' ';
                    }
                }
                self.show(&bytes, id);
            }
            Body::TooLong { head, total } => self.tap.oversized(&head, b"", total),
        }
        if let Some(id) = id {
            self.tap.unanswered(id, "the HTTP response holds no answer");
        }
        Ok(())
    }

    async fn read(&self, response: &mut reqwest::Response) -> Result<Body, SendError> {
        let limit = self.tap.context.limits.line_bytes;
        let mut bytes = Vec::new();
        let mut total = 0_u64;
        loop {
            let chunk = response.chunk().await;
            let chunk = chunk
                .map_err(|error| SendError::Refused(format!("the answer broke off: {error}")))?;
            let Some(chunk) = chunk else { break };
            self.tap.arrived(chunk.len());
            total += chunk.len() as u64;
            if bytes.len() <= limit {
                bytes.extend_from_slice(&chunk);
            }
            // Nobody reads a body to its end that is far over the limit.
            if total > 4 * limit as u64 {
                break;
            }
        }
        if total > limit as u64 {
            bytes.truncate(64 << 10);
            return Ok(Body::TooLong { head: bytes, total });
        }
        Ok(Body::Whole(bytes))
    }

    /// Sends a request and notes its status.
    pub(super) async fn run(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<reqwest::Response, SendError> {
        let sent = match &self.tap.context.auth {
            Some(auth) => auth.send(request).await,
            None => request.send().await.map_err(NotSent::from),
        };
        let response = match sent {
            Ok(response) => response,
            Err(NotSent::Http(error)) => return Err(self.unreachable(&error)),
            Err(NotSent::Auth(failure)) => {
                self.tap.unauthorized.store(true, Ordering::Relaxed);
                return Err(SendError::Unauthorized(failure.to_string()));
            }
        };
        self.tap.context.seen.status(response.status().as_u16());
        if response.status() == StatusCode::UNAUTHORIZED {
            self.tap.unauthorized.store(true, Ordering::Relaxed);
            return Err(SendError::Unauthorized(UNAUTHORIZED.to_owned()));
        }
        Ok(response)
    }

    fn unreachable(&self, error: &reqwest::Error) -> SendError {
        let text = connection::unreachable(error, &self.tap.context.redactor);
        if error.is_connect() && !error.is_redirect() {
            SendError::Broken(text)
        } else {
            SendError::Refused(text)
        }
    }

    /// A status that is no success, in words.
    pub(super) fn refusal(&self, response: &reqwest::Response, body: &str, posted: bool) -> String {
        let status = response.status();
        let mut text = format!("the server answered HTTP {status}");
        if let Some(after) = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()) {
            text += " (retry after ";
            text += cut(after, 64);
            text += ")";
        }
        if posted && matches!(status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED) {
            text += "; the path of the endpoint may be another (often /mcp), or the server speaks \
                     HTTP+SSE of 2024-11-05 at another one (often /sse)";
        }
        let body = cut(body.trim(), 200);
        // A page for a browser says no more than the status.
        if !body.is_empty() && !body.starts_with('<') {
            text += ": ";
            text += body;
        }
        SafeText::line(&self.tap.context.redactor.redact(&text)).to_string()
    }
}

/// What a body is that begins in no way JSON in UTF-8 can.
const fn not_utf8(body: &[u8]) -> Option<&'static str> {
    match body {
        [0x1f, 0x8b, ..] => Some("compressed with gzip"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [b'{', 0, ..] | [0, b'{', ..] => Some("UTF-16"),
        _ => None,
    }
}

/// Whether a refusal is about the id of the session. The specification wants 404 for one that is
/// forgotten; the examples that most servers were made from answer 400 with these words.
fn names_session(body: &str) -> bool {
    body.to_ascii_lowercase().contains("session id")
}

fn first_line(text: &str) -> &str {
    text.trim_start().lines().next().unwrap_or_default()
}
