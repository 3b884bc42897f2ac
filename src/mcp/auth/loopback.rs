//! Where the browser comes back to: `http://127.0.0.1:PORT/callback` (RFC 8252, section 7.3). The path
//! is fixed; the port is the one that was used before, because clients are registered with it.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::step::AuthFailure;

const PATH: &str = "/callback";

/// A place that waits for the browser.
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
}

impl Loopback {
    /// Longest request that is read.
    const BYTES: usize = 32 << 10;
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Listens at the configured port, or else at the remembered one when it is free, or else at
    /// any.
    ///
    /// # Errors
    /// The configured port is taken; names who has it.
    pub(super) async fn bind(
        configured: Option<u16>,
        remembered: Option<u16>,
    ) -> Result<Self, AuthFailure> {
        let at = |port: u16| TcpListener::bind(("127.0.0.1", port));
        let listener = match (configured, remembered) {
            (Some(port), _) => at(port).await.map_err(|error| taken(port, &error))?,
            (None, Some(port)) => match at(port).await {
                Ok(listener) => listener,
                Err(_) => at(0).await.map_err(AuthFailure::failed)?,
            },
            (None, None) => at(0).await.map_err(AuthFailure::failed)?,
        };
        let port = listener.local_addr().map_err(AuthFailure::failed)?.port();
        Ok(Self { listener, port })
    }

    pub(super) fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{PATH}", self.port)
    }

    /// Waits for a request to the path that `accepts` takes; others are turned away.
    pub(super) async fn callback(&self, accepts: impl Fn(&str) -> bool) -> String {
        loop {
            let Ok((mut stream, _)) = self.listener.accept().await else {
                // Out of file descriptors, which passes.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let read = tokio::time::timeout(Self::PATIENCE, target(&mut stream)).await;
            let found =
                read.ok().flatten().map(|target| format!("http://127.0.0.1:{}{target}", self.port));
            let good = found.filter(|url| {
                url::Url::parse(url).is_ok_and(|url| url.path() == PATH) && accepts(url)
            });
            let (status, text) = match good {
                Some(_) => ("200 OK", "Done. You can close this page and go back to mcpdeck."),
                None => ("404 Not Found", "This is not what mcpdeck waits for."),
            };
            let reply = format!(
                "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\n\
                 content-length: {}\r\nreferrer-policy: no-referrer\r\nconnection: close\r\n\r\n{text}",
                text.len()
            );
            let _ = tokio::time::timeout(Self::PATIENCE, stream.write_all(reply.as_bytes())).await;
            let _ = stream.shutdown().await;
            if let Some(url) = good {
                return url;
            }
        }
    }
}

/// The target of a GET, once its head is there.
async fn target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0_u8; 2048];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut piece).await.ok().filter(|read| *read > 0)?;
        head.extend_from_slice(&piece[..read]);
        if head.len() > Loopback::BYTES {
            return None;
        }
    }
    let line = std::str::from_utf8(&head).ok()?.lines().next()?;
    let mut words = line.split(' ');
    (words.next() == Some("GET")).then(|| words.next().map(str::to_owned)).flatten()
}

fn taken(port: u16, error: &io::Error) -> AuthFailure {
    let holder = holder(port).map(|who| format!(" by {who}")).unwrap_or_default();
    let what = match error.kind() {
        io::ErrorKind::AddrInUse => format!("is in use{holder}"),
        _ => format!("cannot be listened at: {error}"),
    };
    AuthFailure::refused(format!(
        "port {port} of `oauth.callbackPort` {what}; stop that program, or register another port"
    ))
}

/// The program that listens at a port of this machine, where the system tells.
#[cfg(target_os = "linux")]
fn holder(port: u16) -> Option<String> {
    const LISTENS: &str = "0A";
    let table = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .collect::<String>();
    let end = format!(":{port:04X}");
    let inode = table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let here = fields.get(1)?.ends_with(&end) && *fields.get(3)? == LISTENS;
        here.then(|| fields.get(9).copied()).flatten()
    })?;
    let socket = format!("socket:[{inode}]");
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let numbered = processes.filter(|e| e.file_name().to_string_lossy().parse::<u32>().is_ok());
    for process in numbered {
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let holds = files
            .filter_map(|file| std::fs::read_link(file.path()).ok())
            .any(|link| link.to_string_lossy() == socket);
        if holds {
            let name = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let pid = process.file_name().to_string_lossy().into_owned();
            return Some(format!("`{}` (pid {pid})", name.trim()));
        }
    }
    None
}

#[cfg(not(target_os = "linux"))]
fn holder(_: u16) -> Option<String> {
    None
}
