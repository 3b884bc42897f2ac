//! The local socket of a running service, for dashboards that attach and for the bridge of a
//! browser. One JSON object per line, each with one reply, except `follow`, which is answered by a
//! stream of all changes. Only programs of the same user are accepted.
//!
//! Owns the socket and its access control; the attaching dashboard and [`native`] own the meaning
//! of the requests.

pub mod native;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::clients::Clients;
use super::news::{self, News};
use super::order::{CallRequest, Operated, Order};
use super::policy::PolicyKeeper;
use base::notices::notify;
use base::state::StateFolder;
use base::text::json::WrittenValue;
use config::error::{Error, ErrorCode};
use host::{CallOptions, Host};

/// Longest line in either direction, in bytes: the limit of browser messages.
pub const MAX_LOCAL_LINE_BYTES: u64 = 64 << 20;
/// Connections served concurrently; more wait.
const MAX_CONNECTIONS: usize = 64;
/// Queued news for a slow dashboard; when full, the rings drop their oldest records.
const NEWS_CAPACITY: usize = 16;

/// What the socket gives access to.
pub struct Local {
    /// The engine.
    pub host: Host,
    /// Decides about callers and stores grants.
    pub policy: PolicyKeeper,
    /// Clients of the service.
    pub clients: Clients,
}

/// A listening socket; dropping it removes it.
pub struct Listening {
    path: PathBuf,
    _stop: DropGuard,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Sockets of running services below a state folder, newest first. Sockets of services that ended
/// are removed.
pub fn local_sockets(state: &Path) -> Vec<PathBuf> {
    // Somebody else's socket must not receive orders.
    let folder = folder(state);
    let names = folder.names().unwrap_or_else(|error| {
        notify(&error.to_string());
        Vec::new()
    });
    let found = names.iter().map(|name| folder.path().join(name)).filter(|path| {
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

fn folder(state: &Path) -> StateFolder {
    StateFolder::new(state.join("services"))
}

impl Local {
    /// Listens on a socket in a state folder, accessible only to its user, until the returned value
    /// is dropped.
    ///
    /// # Errors
    /// When the socket cannot be created.
    pub fn listen(self, state: &Path) -> io::Result<Listening> {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = folder(state);
        folder.prepare()?;
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700))?;
        let path = folder.path().join(format!("{}.sock", std::process::id()));
        // Left by an earlier process with the same id.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        let stop = CancellationToken::new();
        let accepting = accept(Arc::new(self), listener, stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(accepting));
        Ok(Listening { path, _stop: stop.drop_guard() })
    }

    /// Serves one connection until it ends.
    async fn serve(&self, stream: UnixStream) -> io::Result<()> {
        if stream.peer_cred()?.uid() != rustix::process::geteuid().as_raw() {
            return Ok(());
        }
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        let mut line = Vec::new();
        loop {
            line.clear();
            (&mut read).take(MAX_LOCAL_LINE_BYTES).read_until(b'\n', &mut line).await?;
            if line.pop() != Some(b'\n') {
                return Ok(());
            }
            let text = str::from_utf8(&line).unwrap_or_default();
            let request = WrittenValue::parse(text).unwrap_or_default();
            let kind = request["type"].as_str().unwrap_or_default();
            if kind == "follow" {
                return self.follow(read, write).await;
            }
            let reply = async {
                match kind {
                    "order" => order(self, &request).await.map(WrittenValue::from),
                    "callId" => Ok(json!({ "id": self.host.next_call_id() }).into()),
                    "call" => call(self, &request).await,
                    _ => Ok(native::reply(self, kind, &request).await),
                }
                .unwrap_or_else(|error| failed(&error).into())
            };
            let reply = tokio::select! {
                biased;
                reply = reply => reply,
                // The client disconnected: drop the request, which cancels it.
                Ok(true) = hung_up(&mut read) => return Ok(()),
            };
            write_line(&mut write, &reply).await?;
        }
    }

    /// Writes changes, one line each, until the connection or the service ends. Meanwhile a user
    /// counts as present for requests that wait for an answer.
    async fn follow(
        &self,
        mut read: impl AsyncBufReadExt + Unpin,
        mut write: impl AsyncWriteExt + Unpin,
    ) -> io::Result<()> {
        let _person = self.host.person_arrives();
        let (sender, mut receiver) = mpsc::channel::<News>(NEWS_CAPACITY);
        let written = async {
            while let Some(news) = receiver.recv().await {
                write_line(&mut write, &news).await?;
            }
            Ok(())
        };
        tokio::select! {
            () = news::follow_news(self.operated(), sender) => Ok(()),
            written = written => written,
            _ = hung_up(&mut read) => Ok(()),
        }
    }

    /// What orders of a dashboard act on.
    fn operated(&self) -> Operated {
        Operated {
            host: self.host.clone(),
            clients: Some(self.clients.clone()),
            policy: Some(self.policy.clone()),
        }
    }
}

async fn write_line(
    write: &mut (impl AsyncWriteExt + Unpin),
    value: &impl Serialize,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    write.write_all(&line).await
}

async fn hung_up(read: &mut (impl AsyncBufReadExt + Unpin)) -> io::Result<bool> {
    read.fill_buf().await.map(<[u8]>::is_empty)
}

async fn accept(local: Arc<Local>, listener: UnixListener, stop: CancellationToken) {
    let places = Arc::new(tokio::sync::Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        // Retry after a failure, for example without free file descriptors.
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

/// An error as sent over the socket.
fn failed(error: &Error) -> Value {
    json!({"error": {"code": error.code, "message": error.message, "help": error.help}})
}

/// Executes an order; replies `{"done": ...}` with its message, or fails.
async fn order(local: &Local, request: &Value) -> Result<Value, Error> {
    let order: Order = read_field(request, "order")?;
    Ok(json!({ "done": order.perform(local.operated()).await? }))
}

/// Makes a call under an id that was issued before; replies `{"ended": ...}` with the outcome.
async fn call(local: &Local, request: &Value) -> Result<WrittenValue, Error> {
    let call: CallRequest = read_field(request, "request")?;
    let options = CallOptions { id: Some(read_field(request, "id")?), ..CallOptions::default() };
    let reveal = request["reveal"].as_bool().unwrap_or_default();
    let ended = serde_json::to_string(&call.run(&local.host, reveal, options).await);
    let ended = ended.map_err(|error| error.to_string()).and_then(|it| WrittenValue::parse(&it));
    let ended = ended.map_err(|why| Error::new(ErrorCode::Internal, why))?;
    let mut reply = WrittenValue::from(json!({}));
    reply.insert_written("ended", ended);
    Ok(reply)
}

fn read_field<T: DeserializeOwned>(request: &Value, key: &str) -> Result<T, Error> {
    T::deserialize(&request[key]).map_err(|error| {
        Error::new(ErrorCode::Configuration, format!("`{key}`: {error}"))
            .help("attach with the version of mcpdeck that the service runs")
    })
}
