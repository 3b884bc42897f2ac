//! A small HTTP server: one request per connection, answered by a closure.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// A received request.
#[derive(Clone, Debug)]
pub struct Asked {
    pub verb: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub message: Value,
}

impl Asked {
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// An answer.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Raw bytes.
    Bytes(Vec<u8>),
    /// JSON, after a delay.
    Slow(Duration, String),
    /// JSON, with a delay between head and body.
    Delayed(Duration, String),
    /// No answer; the connection stays open.
    Park,
    /// An event stream that repeats this text this many times and then stays open.
    Flood(String, usize),
}

impl Reply {
    pub fn raw(status: &str, headers: &[(&str, &str)], body: &str) -> Self {
        let mut text = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
        for (name, value) in headers {
            let _ = write!(text, "{name}: {value}\r\n");
        }
        let _ = write!(text, "content-length: {}\r\n\r\n{body}", body.len());
        Self::Bytes(text.into_bytes())
    }

    pub fn json(body: &str) -> Self {
        Self::raw("200 OK", &[("content-type", "application/json")], body)
    }

    pub fn events(events: &[&str]) -> Self {
        let mut body = String::new();
        for event in events {
            let _ = write!(body, "event: message\ndata: {event}\n\n");
        }
        Self::raw("200 OK", &[("content-type", "text/event-stream")], &body)
    }
}

/// The answers of a legacy server with a session to everything but calls.
pub fn legacy(request: &Asked) -> Reply {
    if request.verb == "GET" {
        return Reply::Bytes(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec(),
        );
    }
    match request.method() {
        "initialize" => {
            let info = json!({"name": "web", "version": "1"});
            let result =
                json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info});
            let body = json!({"jsonrpc": "2.0", "id": request.message["id"], "result": result});
            let headers = [("content-type", "application/json"), ("mcp-session-id", "s1")];
            Reply::raw("200 OK", &headers, &body.to_string())
        }
        _ => Reply::raw("202 Accepted", &[], ""),
    }
}

/// The number of completed handshakes.
pub fn initialized(web: &Web) -> usize {
    web.seen().iter().filter(|r| r.method() == "notifications/initialized").count()
}

/// The server.
pub struct Web {
    pub url: String,
    seen: Arc<Mutex<Vec<Asked>>>,
    changed: Arc<Notify>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Web {
    pub async fn serve(answer: impl Fn(Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let seen = Arc::new(Mutex::new(Vec::new()));
        let changed = Arc::new(Notify::new());
        let answer = Arc::new(answer);
        let (log, notify) = (Arc::clone(&seen), Arc::clone(&changed));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, log, notify) =
                    (Arc::clone(&answer), Arc::clone(&log), Arc::clone(&notify));
                tokio::spawn(async move {
                    let mut stream = BufReader::new(stream);
                    let Some(asked) = read(&mut stream).await else { return };
                    log.lock().unwrap().push(asked.clone());
                    notify.notify_waiters();
                    let streams = asked.verb == "GET";
                    reply(stream, answer(asked), streams).await;
                });
            }
        });
        Self { url, seen, changed, task }
    }

    pub fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    pub async fn wait_until(&self, done: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let changed = self.changed.notified();
                if done(self) {
                    return;
                }
                changed.await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), waiting).await.expect("it happens");
    }

    pub async fn wait_for(&self, wanted: impl Fn(&Asked) -> bool) -> Asked {
        self.wait_until(|web| web.seen().iter().any(&wanted)).await;
        self.seen().into_iter().find(|asked| wanted(asked)).unwrap()
    }
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (verb, path) = (words.next()?, words.next()?);
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked { verb, path, headers, message: serde_json::from_slice(&body).unwrap_or_default() })
}

async fn reply(mut stream: BufReader<TcpStream>, reply: Reply, keeps_open: bool) {
    let bytes = match reply {
        Reply::Bytes(bytes) => bytes,
        Reply::Slow(pause, body) => {
            tokio::time::sleep(pause).await;
            let Reply::Bytes(bytes) = Reply::json(&body) else { return };
            bytes
        }
        Reply::Delayed(pause, body) => {
            let Reply::Bytes(bytes) = Reply::json(&body) else { return };
            let (head, body) = bytes.split_at(bytes.len() - body.len());
            let _ = stream.write_all(head).await;
            tokio::time::sleep(pause).await;
            body.to_vec()
        }
        Reply::Park => return std::future::pending().await,
        Reply::Flood(piece, times) => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
            let mut sent = stream.write_all(head.as_bytes()).await;
            for _ in 0..times {
                if sent.is_ok() {
                    sent = stream.write_all(piece.as_bytes()).await;
                }
            }
            let _ = stream.read_u8().await;
            return;
        }
    };
    let _ = stream.write_all(&bytes).await;
    if keeps_open && !bytes.windows(14).any(|w| w == b"content-length") {
        // Keeps the stream open until the host disconnects.
        let _ = stream.read_u8().await;
    }
    let _ = stream.shutdown().await;
}
