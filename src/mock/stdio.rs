//! The standard streams of a mock server: lines in, bytes out.

#[cfg(unix)]
use std::io;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio::time::{Duration, timeout};
use tokio_util::sync::CancellationToken;

use super::os;
use super::script::StandardStream;

type StdinReader = Box<dyn AsyncRead + Unpin>;
type StdoutWriter = Box<dyn AsyncWrite + Unpin>;

/// The standard streams of this process. Locks are held for one write, so lines never mix.
pub(crate) struct StandardStreams {
    stdout: Mutex<Option<StdoutWriter>>,
    stderr: Mutex<Option<StdoutWriter>>,
    pub(crate) close_stdin: CancellationToken,
    pub(crate) stdin_closed: CancellationToken,
}

impl StandardStreams {
    pub(crate) fn open() -> Self {
        Self {
            stdout: Mutex::new(Some(stdout())),
            stderr: Mutex::new(Some(Box::new(tokio::io::stderr()))),
            close_stdin: CancellationToken::new(),
            stdin_closed: CancellationToken::new(),
        }
    }

    /// Writes a message as one line.
    pub(crate) async fn line(&self, mut text: String) {
        text.push('\n');
        self.bytes(StandardStream::Stdout, text.as_bytes(), 0, 0).await;
    }

    /// Writes bytes as they are; a closed reader is not an error.
    pub(crate) async fn bytes(&self, to: StandardStream, bytes: &[u8], chunk: usize, pause: u64) {
        let mut slot = self.slot(to).lock().await;
        let Some(writer) = slot.as_mut() else { return };
        let chunk = if chunk == 0 { bytes.len().max(1) } else { chunk };
        for (index, piece) in bytes.chunks(chunk).enumerate() {
            if index > 0 && pause > 0 {
                tokio::time::sleep(Duration::from_millis(pause)).await;
            }
            if writer.write_all(piece).await.is_err() || writer.flush().await.is_err() {
                return;
            }
        }
    }

    /// Closes one of the streams. Returns when it is closed; for stdin, which may not be read now,
    /// after 1 s at the latest.
    pub(crate) async fn close(&self, stream: StandardStream) {
        match stream {
            StandardStream::Stdin => {
                self.close_stdin.cancel();
                let closed = self.stdin_closed.cancelled();
                let _ = timeout(Duration::from_secs(1), closed).await;
            }
            StandardStream::Stdout | StandardStream::Stderr => {
                self.slot(stream).lock().await.take();
                let _ = os::close(stream);
            }
        }
    }

    /// Waits for a write in progress, which holds the lock: 5 s at most for stdout, 1 s for stderr.
    pub(crate) async fn finish(&self) {
        let _ = timeout(Duration::from_secs(5), self.stdout.lock()).await;
        let _ = timeout(Duration::from_secs(1), self.stderr.lock()).await;
    }

    fn slot(&self, stream: StandardStream) -> &Mutex<Option<StdoutWriter>> {
        if stream == StandardStream::Stderr { &self.stderr } else { &self.stdout }
    }
}

/// Pipes are read and written without helper threads; anything else through tokio's.
#[cfg(unix)]
pub(crate) fn stdin() -> StdinReader {
    use std::os::fd::AsFd;
    let own = io::stdin().as_fd().try_clone_to_owned();
    match own.and_then(tokio::net::unix::pipe::Receiver::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

#[cfg(unix)]
fn stdout() -> StdoutWriter {
    use std::os::fd::AsFd;
    let own = io::stdout().as_fd().try_clone_to_owned();
    match own.and_then(tokio::net::unix::pipe::Sender::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

#[cfg(not(unix))]
pub(crate) fn stdin() -> StdinReader {
    Box::new(tokio::io::stdin())
}

#[cfg(not(unix))]
fn stdout() -> StdoutWriter {
    Box::new(tokio::io::stdout())
}
