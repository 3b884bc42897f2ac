//! A server that sends scripted bytes on each connection, HTTP or not. For responses that an HTTP
//! library does not produce: heads sent byte by byte, bodies that end early.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// What happens on one connection.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TcpTurn {
    /// Send before the request was read.
    pub early: bool,
    /// Accept the upgrade to a WebSocket first; the parts are then frames.
    pub websocket: bool,
    /// The parts to send, in order.
    pub parts: Vec<TcpPart>,
    /// Bytes per write; all at once when 0.
    pub chunk: usize,
    /// Milliseconds between writes.
    pub pause: u64,
    /// Keep the connection open afterwards.
    pub hold: bool,
}

/// A part of what is sent.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum TcpPart {
    /// Text.
    Text(String),
    /// Bytes in hexadecimal.
    Hex {
        /// The digits.
        hex: String,
        /// How often, one write each; once when absent.
        #[serde(default)]
        repeat: usize,
    },
    /// Repeated text.
    Times {
        /// The text.
        text: String,
        /// How often.
        times: usize,
    },
}

/// A listener that plays one turn per connection, repeating the last.
pub struct TcpPlay {
    pub url: String,
    over: Arc<AtomicBool>,
}

impl TcpPlay {
    pub fn start(turns: Vec<TcpTurn>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback port");
        let url = format!("http://{}/mcp", listener.local_addr().expect("bound"));
        let over = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&over);
        let count = AtomicUsize::new(0);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let number = count.fetch_add(1, Ordering::SeqCst).min(turns.len() - 1);
                let (turn, ended) = (turns[number].clone(), Arc::clone(&ended));
                std::thread::spawn(move || {
                    let _ = play(stream, &turn, &ended);
                });
            }
        });
        Self { url, over }
    }
}

impl Drop for TcpPlay {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees `over`.
        let address = self.url.trim_start_matches("http://").trim_end_matches("/mcp");
        let _ = TcpStream::connect(address);
    }
}

fn play(mut stream: TcpStream, turn: &TcpTurn, over: &AtomicBool) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    stream.set_write_timeout(Some(Duration::from_secs(5)))?;
    let mut request = vec![0; 64 << 10];
    if !turn.early && stream.read(&mut request)? == 0 {
        return Ok(());
    }
    if turn.websocket {
        let request = String::from_utf8_lossy(&request);
        let key = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("sec-websocket-key").then(|| value.to_owned())
        };
        let accept =
            derive_accept_key(request.lines().find_map(key).unwrap_or_default().as_bytes());
        let head = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket";
        write!(stream, "{head}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n")?;
    }
    for part in &turn.parts {
        let mut times = 1;
        let bytes = match part {
            TcpPart::Text(text) => text.clone().into_bytes(),
            TcpPart::Hex { hex, repeat } => {
                times = (*repeat).max(1);
                let digits: Vec<char> = hex.chars().filter(char::is_ascii_hexdigit).collect();
                let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16);
                digits.chunks(2).map(|pair| byte(pair).expect("hexadecimal")).collect()
            }
            TcpPart::Times { text, times } => text.repeat(*times).into_bytes(),
        };
        let step = if turn.chunk == 0 { bytes.len().max(1) } else { turn.chunk };
        for piece in std::iter::repeat_n(&bytes, times).flat_map(|bytes| bytes.chunks(step)) {
            stream.write_all(piece)?;
            if turn.pause > 0 {
                std::thread::park_timeout(Duration::from_millis(turn.pause));
            }
            if over.load(Ordering::SeqCst) {
                return Ok(());
            }
        }
    }
    while turn.hold && !over.load(Ordering::SeqCst) {
        match stream.read(&mut request) {
            Ok(0) => break,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => break,
            _ => {}
        }
    }
    stream.shutdown(Shutdown::Both)
}
