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
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};
use url::Url;

use super::remote::{Incoming, RemoteServer, Streams, ended, streams};
use crate::transport::SendError;

type Socket = WebSocketStream<reqwest::Upgraded>;

/// Message limit, as a multiple of the line limit: a message over the line limit is refused by the
/// session, one over this ends the connection.
const OVER: usize = 4;

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
        return Err(SendError::Refused(text));
    }
    let upgraded = response.upgrade().await.map_err(|error| remote.broken(&error))?;
    let most = remote.tap.context.limits.line_bytes.saturating_mul(OVER);
    let config = WebSocketConfig::default().max_message_size(Some(most)).max_frame_size(Some(most));
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
    let (sink, stream) = socket.split();
    let (streams, incoming, outgoing) = streams();
    tokio::spawn(async move {
        // The session ends when either side does: the server, or the host dropping its end.
        tokio::select! {
            () = read(stream, incoming) => {}
            () = write(sink, outgoing) => {}
            () = ended(&remote.tap) => {}
        }
    });
    Ok(streams)
}

async fn read(mut stream: SplitStream<Socket>, mut incoming: Incoming) {
    /// Frames without a message, such as pings, before other servers get a turn.
    const AT_ONCE: usize = 64;
    let mut in_a_row = 0;
    while let Some(message) = stream.next().await {
        let piece = match message {
            Ok(Message::Text(text)) => Ok(line(text.as_bytes())),
            Ok(Message::Binary(bytes)) => Ok(line(&bytes)),
            Ok(Message::Close(_)) => return,
            Ok(_) => {
                in_a_row = (in_a_row + 1) % AT_ONCE;
                if in_a_row == 0 {
                    tokio::task::yield_now().await;
                }
                continue;
            }
            Err(error) => Err(io::Error::other(error)),
        };
        let broken = piece.is_err();
        if incoming.send(piece.map(Into::into)).await.is_err() || broken {
            return;
        }
    }
}

/// A message as one line: line breaks in pretty-printed JSON are only white space.
fn line(message: &[u8]) -> Vec<u8> {
    let space = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    message.iter().map(space).chain([b'\n']).collect()
}

async fn write(mut sink: SplitSink<Socket, Message>, mut outgoing: BufReader<DuplexStream>) {
    let mut line = String::new();
    while matches!(outgoing.read_line(&mut line).await, Ok(1..)) {
        let text = Utf8Bytes::from(line.trim_end());
        line.clear();
        if sink.send(Message::Text(text)).await.is_err() {
            return;
        }
    }
    let _ = sink.close().await;
}
