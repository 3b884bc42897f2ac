//! WebSocket (RFC 6455): one message per text frame, with the subprotocol `mcp`. The upgrade is an
//! ordinary HTTP request, with the usual certificates, proxies, headers and token. Exposed to the
//! session as a pair of byte streams, one message per line.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt, StreamExt};
use http::StatusCode;
use tokio::io::{AsyncBufReadExt, BufReader, DuplexStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use url::Url;

use super::remote::{Incoming, RemoteServer, Streams, ended, streams};
use super::unasked::Unasked;
use base::SafeText;
use protocol::{SendError, Tap};

type Socket = WebSocketStream<reqwest::Upgraded>;

/// Message limit, as a multiple of the line limit: a message over the line limit is refused by the
/// session, one over this ends the connection.
const MAX_MESSAGE_LINES: usize = 4;
/// Longest frame that is sent: a longer message goes out in several.
const MAX_FRAME_BYTES: usize = 512 << 10;
/// Bytes that may wait to be written: a frame, and the pongs owed to a server that pings and does
/// not read. Of those that do not fit, the newest is sent (RFC 6455, section 5.5.3).
const MAX_UNSENT_BYTES: usize = 1 << 20;

/// Connects to `url` (`ws:` or `wss:`).
///
/// # Errors
/// What the server answered instead of the upgrade.
pub(crate) async fn open(remote: RemoteServer, url: &Url) -> Result<Streams, SendError> {
    // `ws:` is equivalent to `http:` here, and `wss:` to `https:`.
    let address = url.as_str().replacen("ws", "http", 1);
    let key = STANDARD.encode(fastrand::u128(..).to_ne_bytes());
    let request = remote
        .http
        .get(address)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-protocol", "mcp")
        .header("sec-websocket-key", &key);
    let response = remote.send(request).await?;
    let accepted = response.headers().get("sec-websocket-accept");
    let accepted =
        accepted.is_some_and(|given| given == derive_accept_key(key.as_bytes()).as_str());
    if response.status() != StatusCode::SWITCHING_PROTOCOLS || !accepted {
        let status = response.status();
        let text = format!("the server answered HTTP {status}, and did not become a WebSocket");
        return Err(SendError::Refused(text.into()));
    }
    let upgraded = response.upgrade().await.map_err(|error| remote.broken(&error))?;
    let most = remote.tap.context.limits.line_bytes.saturating_mul(MAX_MESSAGE_LINES);
    let config = WebSocketConfig::default()
        .max_message_size(Some(most))
        .max_frame_size(Some(most))
        .max_write_buffer_size(MAX_UNSENT_BYTES);
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
    let (sink, stream) = socket.split();
    let (streams, incoming, outgoing) = streams();
    tokio::spawn(async move {
        // The session ends when either side does: the server, or the host dropping its end.
        tokio::select! {
            () = read(stream, incoming, &remote.tap) => {}
            () = write(sink, outgoing) => {}
            () = ended(&remote.tap) => {}
        }
    });
    Ok(streams)
}

async fn read(mut stream: SplitStream<Socket>, mut incoming: Incoming, tap: &Tap) {
    /// Frames without a message, such as pings, before other servers get a turn.
    const MAX_TURN_FRAMES: usize = 64;
    /// Bytes of a frame around its payload.
    const FRAME_BYTES: usize = 2;
    let mut in_a_row = 0;
    // Nobody has asked for pings: they are read at a limited rate, as other unsolicited data.
    let mut unasked = Unasked::default();
    while let Some(message) = stream.next().await {
        let piece = match message {
            Ok(Message::Text(text)) => Ok(line(text.as_bytes())),
            Ok(Message::Binary(bytes)) => Ok(line(&bytes)),
            Ok(Message::Close(frame)) => Err(closed(frame)),
            Ok(Message::Ping(payload) | Message::Pong(payload)) => {
                tap.context.bytes.heard(tap.context.clock.now());
                in_a_row = (in_a_row + 1) % MAX_TURN_FRAMES;
                if let Some(pause) = unasked.spend(payload.len() + FRAME_BYTES, tap) {
                    tokio::time::sleep(pause).await;
                } else if in_a_row == 0 {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            Ok(Message::Frame(_)) => continue,
            Err(error) => Err(io::Error::other(error)),
        };
        let broken = piece.is_err();
        if incoming.send(piece.map(Into::into)).await.is_err() || broken {
            return;
        }
    }
}

/// The end of the connection as the server announced it (RFC 6455, section 7.4).
fn closed(frame: Option<CloseFrame>) -> io::Error {
    let text = match frame {
        None => "the server closed the WebSocket without a code".to_owned(),
        Some(CloseFrame { code, reason }) => {
            let code = u16::from(code);
            let meaning = meaning(code).map(|meaning| format!(" ({meaning})")).unwrap_or_default();
            let reason = SafeText::cut(&reason, 200);
            let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
            format!("the server closed the WebSocket with code {code}{meaning}{reason}")
        }
    };
    io::Error::new(io::ErrorKind::ConnectionAborted, text)
}

/// What a close code means, where the specification says it.
const fn meaning(code: u16) -> Option<&'static str> {
    Some(match code {
        1000 => "normal closure",
        1001 => "going away",
        1002 => "protocol error",
        1003 => "unsupported data",
        1007 => "invalid data",
        1008 => "policy violation",
        1009 => "message too big",
        1010 => "an extension is missing",
        1011 => "internal error",
        1012 => "service restart",
        1013 => "try again later",
        1014 => "bad gateway",
        _ => return None,
    })
}

/// A message as one line: line breaks in pretty-printed JSON are only white space.
fn line(message: &[u8]) -> Vec<u8> {
    let space = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    message.iter().map(space).chain([b'\n']).collect()
}

async fn write(mut sink: SplitSink<Socket, Message>, mut outgoing: BufReader<DuplexStream>) {
    let mut line = String::new();
    while matches!(outgoing.read_line(&mut line).await, Ok(1..)) {
        let text = line.trim_end();
        let sent = if text.len() <= MAX_FRAME_BYTES {
            send(&mut sink, Message::Text(Utf8Bytes::from(text))).await
        } else {
            send_in_frames(&mut sink, text.as_bytes()).await
        };
        line.clear();
        if sent.is_err() {
            return;
        }
    }
    let _ = sink.close().await;
}

/// Sends a message that is longer than a frame may be.
async fn send_in_frames(
    sink: &mut SplitSink<Socket, Message>,
    message: &[u8],
) -> Result<(), tungstenite::Error> {
    let mut kind = Data::Text;
    let mut parts = message.chunks(MAX_FRAME_BYTES).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        let frame = Frame::message(part.to_vec(), OpCode::Data(kind), last);
        send(sink, Message::Frame(frame)).await?;
        kind = Data::Continue;
    }
    Ok(())
}

/// Writes a message of at most one frame, as soon as what waits before it is written.
async fn send(
    sink: &mut SplitSink<Socket, Message>,
    mut message: Message,
) -> Result<(), tungstenite::Error> {
    loop {
        sink.flush().await?;
        match sink.feed(message).await {
            // Pongs have filled the buffer meanwhile.
            Err(tungstenite::Error::WriteBufferFull(unsent)) => message = *unsent,
            fed => {
                fed?;
                return sink.flush().await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_told_with_its_code_and_reason() {
        let told = |code: u16, reason: &'static str| {
            closed(Some(CloseFrame { code: code.into(), reason: reason.into() })).to_string()
        };
        let marked = told(4999, "moved\u{1b}[31m on");
        assert!(marked.contains("with code 4999: moved"), "{marked}");
        assert!(!marked.contains('\u{1b}'), "{marked}");
        assert!(told(1011, "").ends_with("code 1011 (internal error)"));
        assert!(closed(None).to_string().ends_with("without a code"));
    }
}
