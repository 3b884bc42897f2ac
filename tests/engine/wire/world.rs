//! In-memory servers for a whole host: they perform the handshake, list one tool, and otherwise
//! follow the test; everything they receive is recorded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::BoxFuture;
use mcpdeck::config::{ProcessLimits, StdioConfig, TransportConfig};
use mcpdeck::host::{Connector, OpenError, OpenRequest, Opened};
use mcpdeck::mcp::{Attempt, connect};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::wire::peer::{Peer, pipe};

/// The entry of a server without a process: a connector replaces it.
pub fn in_memory() -> TransportConfig {
    TransportConfig::Stdio(StdioConfig {
        command: "in-memory".into(),
        args: vec![],
        env: indexmap::IndexMap::default(),
        cwd: None,
        inherit_env: false,
        limits: ProcessLimits::default(),
    })
}

/// A command to the server's end of the current session.
pub enum Do {
    Send(Value),
    Die,
}

/// Messages received over the wire, over all sessions.
#[derive(Default)]
pub struct Seen {
    /// Answers to the request of this number.
    pub replies: BTreeMap<u64, Vec<Value>>,
    /// Ids of unanswered calls.
    pub calls: Vec<Value>,
    /// `roots/list_changed`
    pub roots_changed: usize,
}

#[derive(Clone)]
pub struct World {
    pub modern: bool,
    pub seen: Arc<Mutex<Seen>>,
    /// The server's end of the current session.
    pub server: Arc<Mutex<Option<mpsc::Sender<Do>>>>,
}

impl Connector for World {
    fn open(&self, request: OpenRequest) -> BoxFuture<'static, Result<Opened, OpenError>> {
        let world = self.clone();
        Box::pin(async move {
            let (endpoint, mut peer) = pipe(64 << 20);
            let attempt = if world.modern { Attempt::Modern } else { Attempt::Legacy(None) };
            let connecting = connect(endpoint, &attempt, request.context);
            let shaking = async {
                let offers = json!({"tools": {}});
                if world.modern {
                    peer.discover(offers).await;
                } else {
                    peer.initialize_with(offers).await;
                }
            };
            let (connected, ()) = tokio::join!(connecting, shaking);
            let (sender, orders) = mpsc::channel(1_024);
            *world.server.lock().unwrap() = Some(sender);
            tokio::spawn(serve(peer, orders, world.seen, world.modern));
            Ok(Opened { session: connected.unwrap().session, process: None })
        })
    }
}

async fn serve(
    mut peer: Peer,
    mut orders: mpsc::Receiver<Do>,
    seen: Arc<Mutex<Seen>>,
    modern: bool,
) {
    let mut line = String::new();
    loop {
        line.clear();
        let order = tokio::select! {
            order = orders.recv() => order,
            read = peer.reader.read_line(&mut line) => {
                if read.unwrap_or(0) == 0 {
                    return;
                }
                let message: Value = serde_json::from_str(&line).unwrap();
                hear(&message, &seen, modern).map(Do::Send)
            }
        };
        match order {
            Some(Do::Send(message)) => {
                let line = format!("{message}\n");
                if peer.writer.write_all(line.as_bytes()).await.is_err() {
                    return;
                }
            }
            Some(Do::Die) => return,
            None if orders.is_closed() => return,
            None => {}
        }
    }
}

fn hear(message: &Value, seen: &Mutex<Seen>, modern: bool) -> Option<Value> {
    let mut seen = seen.lock().unwrap();
    let complete = |mut result: Value| {
        if modern {
            result["resultType"] = json!("complete");
        }
        Some(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    };
    match message["method"].as_str() {
        Some("tools/list") => {
            let tools = json!([{"name": "echo", "inputSchema": {"type": "object"}}]);
            complete(json!({"tools": tools, "ttlMs": 0, "cacheScope": "private"}))
        }
        Some("tools/call") => {
            if let Some(responses) = message["params"]["inputResponses"].as_object() {
                for (n, response) in responses {
                    let n = n.parse().unwrap();
                    seen.replies.entry(n).or_default().push(response.clone());
                }
                return complete(json!({"content": []}));
            }
            seen.calls.push(message["id"].clone());
            None
        }
        Some("notifications/roots/list_changed") => {
            seen.roots_changed += 1;
            None
        }
        Some(_) => None,
        None => {
            if let Some(n) = message["id"].as_u64() {
                seen.replies.entry(n).or_default().push(message.clone());
            }
            None
        }
    }
}
