//! A server over HTTP+SSE behind a load balancer: it finds the session by a cookie, and moves requests
//! to other addresses.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What it does besides answering.
#[derive(Clone, Copy, Debug)]
pub struct Ways {
    /// The status and address that a request for the stream is sent on with, where there is one.
    pub stream: Option<(&'static str, &'static str)>,
    /// The same for a message.
    pub message: Option<(&'static str, &'static str)>,
    /// The address to post to, without its query.
    pub endpoint: &'static str,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub verb: String,
    pub path: String,
    pub cookie: Option<String>,
    pub body: String,
}

/// The balancer, and what it was asked.
#[derive(Clone)]
pub struct Balanced {
    pub port: u16,
    ways: Ways,
    seen: Arc<Mutex<Vec<Asked>>>,
    sessions: Arc<Mutex<HashMap<String, mpsc::Sender<String>>>>,
}

impl Balanced {
    pub async fn serve(ways: Ways) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Self { port, ways, seen: Arc::default(), sessions: Arc::default() };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().answer(stream));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/sse", self.port)
    }

    pub fn seen(&self) -> Vec<Asked> {
        self.seen.lock().unwrap().clone()
    }

    async fn answer(self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let asked = read(&mut stream).await?;
        self.seen.lock().unwrap().push(asked.clone());
        let (path, query) = asked.path.split_once('?').unwrap_or((&asked.path, ""));
        let is_get = asked.verb == "GET";
        let place = if is_get { self.ways.stream } else { self.ways.message };
        if !is_get && path.trim_end_matches('/') == "/sse" {
            let refused = head("405 Method Not Allowed", &[], Some(0));
            return stream.write_all(refused.as_bytes()).await.ok();
        }
        if let Some((status, to)) = place.filter(|(_, to)| *to != path) {
            let query = if query.is_empty() { String::new() } else { format!("?{query}") };
            let headers = [("location", format!("{to}{query}")), ("set-cookie", "lb=1".to_owned())];
            return stream.write_all(head(status, &headers, Some(0)).as_bytes()).await.ok();
        }
        if is_get {
            return self.stream(stream).await;
        }
        // The backends share nothing: another one does not know the session.
        let is_routed = asked.cookie.as_deref().is_some_and(|line| line.contains("route=b"));
        let session = query.strip_prefix("s=").filter(|_| is_routed);
        let session = session.and_then(|id| self.sessions.lock().unwrap().get(id).cloned());
        let status = match session {
            Some(session) => {
                reply(&asked.body).map(|reply| session.try_send(reply));
                "202 Accepted"
            }
            None => "404 Not Found",
        };
        stream.write_all(head(status, &[], Some(0)).as_bytes()).await.ok()
    }

    async fn stream(self, mut stream: BufReader<TcpStream>) -> Option<()> {
        let (sender, mut replies) = mpsc::channel(16);
        let session = {
            let mut sessions = self.sessions.lock().unwrap();
            let id = (sessions.len() + 1).to_string();
            sessions.insert(id.clone(), sender);
            id
        };
        let headers = [
            ("content-type", "text/event-stream".to_owned()),
            ("set-cookie", "route=b; Path=/; HttpOnly".to_owned()),
        ];
        let first = format!("event: endpoint\ndata: {}?s={session}\n\n", self.ways.endpoint);
        let first = head("200 OK", &headers, None) + &first;
        stream.write_all(first.as_bytes()).await.ok()?;
        while let Some(reply) = replies.recv().await {
            stream.write_all(format!("event: message\ndata: {reply}\n\n").as_bytes()).await.ok()?;
        }
        Some(())
    }
}

fn head(status: &str, headers: &[(&str, String)], length: Option<usize>) -> String {
    let mut out = format!("HTTP/1.1 {status}\r\nconnection: close\r\n");
    for (name, value) in headers {
        let _ = write!(out, "{name}: {value}\r\n");
    }
    if let Some(length) = length {
        let _ = write!(out, "content-length: {length}\r\n");
    }
    out + "\r\n"
}

async fn read(stream: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    stream.read_line(&mut line).await.ok()?;
    let mut words = line.split(' ').map(str::to_owned);
    let (verb, path) = (words.next()?, words.next()?);
    let (mut cookie, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        match name.to_ascii_lowercase().as_str() {
            "cookie" => cookie = Some(value.to_owned()),
            "content-length" => length = value.parse().ok()?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(Asked { verb, path, cookie, body: String::from_utf8(body).ok()? })
}

/// What a legacy server with one tool answers a message with.
fn reply(body: &str) -> Option<String> {
    let message: Value = serde_json::from_str(body).ok()?;
    let id = message.get("id")?;
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2024-11-05", "capabilities": {"tools": {}},
            "serverInfo": {"name": "balanced", "version": "1"},
        }),
        "tools/list" => json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}),
        "tools/call" => {
            let words = message["params"]["arguments"]["words"].as_str().unwrap_or_default();
            json!({"content": [{"type": "text", "text": words}]})
        }
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return Some(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
        }
    };
    Some(json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string())
}
