//! The local socket of a running service: for a dashboard that attaches to it, and for the bridge of
//! a browser. One JSON object a line, each answered by one; only the user's own programs get in.
//!
//! Owns the socket and who may say what; the dashboard that attaches and [`native`]
//! own what is said.

pub mod native;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::clients::{ClientView, Clients};
use super::order::{CallRequest, Operated, Order};
use super::policy::{PolicyKeeper, PolicyView};
use crate::base::{Batch, LogRecord, Ring, SafeText, ServerName, Weighed};
use crate::error::{Error, ErrorCode};
use crate::host::metrics::ServerMetrics;
use crate::host::policy::{Blocked, InForce};
use crate::host::{CallOptions, CallView, Host, HostView};
use crate::mcp::TrafficRecord;

/// Longest line in either direction, in bytes: what a browser may send.
pub const LINE: u64 = 64 << 20;
/// Connections that are served at once; more wait.
const CONNECTIONS: usize = 64;

/// What is reached through the socket.
pub struct Local {
    /// The engine.
    pub host: Host,
    /// What decides, and keeps grants.
    pub policy: PolicyKeeper,
    /// Clients of the service.
    pub clients: Clients,
}

/// A socket that is listened at; dropping it takes it away.
pub struct Listening {
    path: PathBuf,
    _stop: DropGuard,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sockets of services below a state folder, those of services that are gone left out; the newest
/// first.
pub fn sockets(state: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(state)).into_iter().flatten().flatten();
    let found = entries.map(|entry| entry.path()).filter(|path| {
        let lives = std::os::unix::net::UnixStream::connect(path).is_ok();
        if !lives && path.extension().is_some_and(|end| end == "sock") {
            let _ = std::fs::remove_file(path);
        }
        lives
    });
    let mut found: Vec<PathBuf> = found.collect();
    found.sort_by_key(|path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok());
    found.reverse();
    found
}

fn folder(state: &Path) -> PathBuf {
    state.join("services")
}

impl Local {
    /// Listens in a state folder, at a socket that its user alone can open, until what it gives is
    /// dropped.
    ///
    /// # Errors
    /// When there can be no socket.
    pub fn listen(self, state: &Path) -> io::Result<Listening> {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        let folder = folder(state);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder)?;
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700))?;
        let path = folder.join(format!("{}.sock", std::process::id()));
        // Left by a program that had this number before.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let stop = CancellationToken::new();
        let accepting = accept(Arc::new(self), listener, stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(Listening { path, _stop: stop.drop_guard() })
    }

    /// Answers one connection until it ends.
    async fn serve(&self, stream: UnixStream) -> io::Result<()> {
        if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let (mut person, mut policy) = (None, self.host.follow_policy());
        policy.mark_changed();
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut read).take(LINE).read_until(b'\n', &mut line).await?;
            if line.pop() != Some(b'\n') {
                return Ok(());
            }
            let request: Value = serde_json::from_slice(&line).unwrap_or_default();
            let kind = request["type"].as_str().unwrap_or_default();
            if kind == "look" {
                // Somebody sees what waits for an answer from now on.
                person.get_or_insert_with(|| self.host.person_arrives());
            }
            let reply = async {
                match kind {
                    "look" => Ok(look(self, &request, &mut policy).await),
                    "order" => order(self, &request).await,
                    "callId" => Ok(json!({ "id": self.host.next_call_id() })),
                    "call" => call(self, &request).await,
                    _ => Ok(native::reply(self, kind, &request).await),
                }
                .unwrap_or_else(|error| failed(&error))
            };
            let reply = tokio::select! {
                biased;
                reply = reply => reply,
                // Who hangs up wants no answer: what was begun for it ends.
                Ok(true) = hung_up(&mut read) => return Ok(()),
            };
            let mut reply = serde_json::to_vec(&reply)?;
            reply.push(b'\n');
            write.write_all(&reply).await?;
        }
    }
}

async fn hung_up(read: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<bool> {
    read.fill_buf().await.map(<[u8]>::is_empty)
}

async fn accept(local: Arc<Local>, listener: UnixListener, stop: CancellationToken) {
    let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        // What cannot be accepted now, for want of files perhaps, is tried again.
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let (local, stop) = (Arc::clone(&local), stop.clone());
        tokio::spawn(async move {
            let _place = place;
            let _ = stop.run_until_cancelled(local.serve(stream)).await;
        });
    }
}

/// An error of ours as it goes out.
fn failed(error: &Error) -> Value {
    json!({"error": {"code": error.code, "message": error.message, "help": error.help}})
}

// What an attached dashboard sees of a service: each look says up to where the one before went.

/// How long a look waits for news.
const PATIENCE: Duration = Duration::from_millis(500);
/// What is gathered after the first news: a service under load is not asked for every message.
const GATHER: Duration = Duration::from_millis(50);
/// Most records of one ring in one look.
const BATCH: usize = 2_048;

/// Up to where the look before went.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Seen {
    /// The newest fact of the view.
    pub seq: u64,
    /// The next message.
    pub traffic: u64,
    /// The next line of a log.
    pub logs: u64,
}

/// What is new since then.
#[derive(Debug, Deserialize)]
pub struct Look {
    /// The view, when it changed.
    pub view: Option<HostView>,
    /// Messages.
    pub traffic: Part<TrafficRecord>,
    /// Lines of logs.
    pub logs: Part<LogRecord>,
    /// Calls in flight.
    pub calls: Vec<CallView>,
    /// Metrics of every server.
    pub metrics: Vec<(ServerName, ServerMetrics)>,
    /// Clients of the service.
    pub clients: Vec<ClientView>,
    /// What was not permitted lately.
    pub blocked: Vec<Blocked>,
    /// Who may do what, when that changed.
    pub policy: Option<PolicyView>,
    /// Where clients come in.
    pub place: Option<SafeText>,
}

/// A part of a ring.
#[derive(Debug, Serialize, Deserialize)]
pub struct Part<T> {
    /// The records.
    pub batch: Batch<T>,
    /// The oldest record the ring still holds.
    pub oldest: u64,
}

impl<T: Weighed> Part<T> {
    fn read(ring: &Ring<T>, from: u64) -> Self {
        Self { batch: ring.read(from, BATCH), oldest: ring.span().start }
    }
}

/// Waits a little for news, then gives everything that is new since the look before.
async fn look(local: &Local, request: &Value, policy: &mut watch::Receiver<Arc<InForce>>) -> Value {
    let seen: Seen = serde_json::from_value(request["seen"].clone()).unwrap_or_default();
    let host = &local.host;
    let (mut view, traffic, logs) = (host.view(), host.traffic(), host.logs());
    let (mut new_traffic, mut new_logs) = (traffic.changed(), logs.changed());
    let (behind, behind_logs) = (traffic.span().end > seen.traffic, logs.span().end > seen.logs);
    if view.borrow_and_update().seq == seen.seq && !behind && !behind_logs {
        tokio::select! {
            _ = view.changed() => {}
            _ = new_traffic.changed() => {}
            _ = new_logs.changed() => {}
            _ = policy.changed() => policy.mark_changed(),
            () = tokio::time::sleep(PATIENCE) => {}
        }
    }
    tokio::time::sleep(GATHER).await;
    let decides = policy.has_changed().unwrap_or_default().then(|| {
        policy.mark_unchanged();
        local.policy.clone()
    });
    // Compares definitions: not on a task of the engine.
    let view = tokio::task::spawn_blocking(move || decides.map(|policy| policy.view()));
    let decides = view.await.ok().flatten();
    let now = host.snapshot();
    json!({
        "view": (now.seq != seen.seq).then_some(&*now),
        "traffic": Part::read(&traffic, seen.traffic),
        "logs": Part::read(&logs, seen.logs),
        "calls": host.calls(),
        "metrics": host.get_metrics(),
        "clients": local.clients.list(),
        "blocked": host.blocked(),
        "policy": decides,
        "place": local.clients.place(),
    })
}

/// Does what is asked for; `{"done": ...}` with a word about it, or why not.
async fn order(local: &Local, request: &Value) -> Result<Value, Error> {
    let order: Order = asked(request, "order")?;
    let on = Operated {
        host: local.host.clone(),
        clients: Some(local.clients.clone()),
        policy: Some(local.policy.clone()),
    };
    Ok(json!({ "done": order.perform(on).await? }))
}

/// Makes a call under an id that was given out before; `{"ended": ...}` with how it ended.
async fn call(local: &Local, request: &Value) -> Result<Value, Error> {
    let call: CallRequest = asked(request, "request")?;
    let options = CallOptions { id: Some(asked(request, "id")?), ..CallOptions::default() };
    let reveal = request["reveal"].as_bool().unwrap_or_default();
    Ok(json!({ "ended": call.run(&local.host, reveal, options).await }))
}

fn asked<T: DeserializeOwned>(request: &Value, key: &str) -> Result<T, Error> {
    T::deserialize(&request[key]).map_err(|error| {
        Error::new(ErrorCode::Configuration, format!("`{key}`: {error}"))
            .help("attach with the version of mcpdeck that the service runs")
    })
}
