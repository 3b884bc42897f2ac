//! The local socket of a running service: for a dashboard that attaches to it, and for the bridge of
//! a browser. One JSON object a line, each answered by one; only the user's own programs get in.
//!
//! Owns the socket and who may say what; [`attach`] and [`native`] own what is said.

pub mod attach;
pub mod native;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::deck::clients::Clients;
use crate::deck::policy::PolicyKeeper;
use crate::error::Error;
use crate::host::Host;

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
        let mut person = None;
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
                    "look" => attach::look(self, &request).await,
                    "order" => attach::order(self, &request).await,
                    _ => native::reply(self, kind, &request).await,
                }
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
