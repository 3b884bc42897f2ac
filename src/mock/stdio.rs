//! A mock server on its standard streams: lines in, bytes out.

#[cfg(unix)]
use std::io;
use std::rc::Rc;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::Mutex;
use tokio::time::Duration;

use super::script::Stream;
use super::stage::Sink;
use crate::mock::os;
use crate::mock::stage::Stage;

type Reader = Box<dyn AsyncRead + Unpin>;
type Writer = Box<dyn AsyncWrite + Unpin>;

/// The standard streams of this process. Locks are held for one write, so lines never mix.
pub(crate) struct Pipes {
    stdout: Mutex<Option<Writer>>,
    stderr: Mutex<Option<Writer>>,
    close_stdin: tokio_util::sync::CancellationToken,
    stdin_closed: tokio_util::sync::CancellationToken,
}

impl Pipes {
    fn open() -> Self {
        Self {
            stdout: Mutex::new(Some(stdout())),
            stderr: Mutex::new(Some(Box::new(tokio::io::stderr()))),
            close_stdin: tokio_util::sync::CancellationToken::new(),
            stdin_closed: tokio_util::sync::CancellationToken::new(),
        }
    }

    /// Writes a message as one line.
    pub(crate) async fn line(&self, mut text: String) {
        text.push('\n');
        self.bytes(Stream::Stdout, text.as_bytes(), 0, 0).await;
    }

    /// Writes bytes as they are; a reader that is gone is no error.
    pub(crate) async fn bytes(&self, to: Stream, bytes: &[u8], chunk: usize, pause: u64) {
        let slot = if to == Stream::Stderr { &self.stderr } else { &self.stdout };
        let mut slot = slot.lock().await;
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

    /// Closes one of the streams. What the script does next comes after that, unless nothing reads
    /// stdin now.
    pub(crate) async fn close(&self, stream: Stream) {
        match stream {
            Stream::Stdin => {
                self.close_stdin.cancel();
                let closed = self.stdin_closed.cancelled();
                let _ = tokio::time::timeout(Duration::from_secs(1), closed).await;
            }
            Stream::Stdout => {
                self.stdout.lock().await.take();
                let _ = os::close(stream);
            }
            Stream::Stderr => {
                self.stderr.lock().await.take();
                let _ = os::close(stream);
            }
        }
    }
}

/// Plays on the standard streams until the script or the host ends it; gives the exit code.
pub(crate) async fn play(stage: Rc<Stage>) -> i32 {
    let pipes = Rc::new(Pipes::open());
    let sink = Sink::Stdio(Rc::clone(&pipes));
    stage.main.replace(Some(sink.clone()));
    os::handle_signals(&stage);
    let mut exit = stage.exit.subscribe();
    let reading = read(Rc::clone(&stage), Rc::clone(&pipes), sink);
    let code = tokio::select! {
        code = exit.wait_for(Option::is_some) => code.ok().and_then(|code| *code).unwrap_or(0),
        () = reading => 0,
    };
    // A write under way is finished first: only then is the lock free.
    let _ = tokio::time::timeout(Duration::from_secs(5), pipes.stdout.lock()).await;
    let _ = tokio::time::timeout(Duration::from_secs(1), pipes.stderr.lock()).await;
    code
}

async fn read(stage: Rc<Stage>, pipes: Rc<Pipes>, sink: Sink) {
    stage.event("start", &sink).await;
    let mut may_read = stage.reading.subscribe();
    let mut stopped = stage.reading.subscribe();
    let mut lines = BufReader::with_capacity(64 << 10, stdin());
    let mut line = Vec::new();
    loop {
        let _ = may_read.wait_for(|reading| *reading).await;
        line.clear();
        let got = tokio::select! {
            biased;
            () = pipes.close_stdin.cancelled() => {
                drop(lines);
                let _ = os::close(Stream::Stdin);
                pipes.stdin_closed.cancel();
                return std::future::pending().await;
            }
            got = lines.read_until(b'\n', &mut line) => got,
            // Half a line may have been read: it is never looked at again.
            _ = stopped.wait_for(|reading| !*reading) => std::future::pending().await,
        };
        match got {
            Ok(0) | Err(_) => break,
            Ok(_) => {
                let text = line.trim_ascii();
                if !text.is_empty() {
                    stage.receive(text, &sink);
                }
            }
        }
    }
    stage.stdin_closed.cancel();
    // Reactions to the last lines that need no time come first, as they would from a server that
    // reads and answers in turn.
    for _ in 0..64 {
        tokio::task::yield_now().await;
    }
    if stage.event("stdinClosed", &sink).await {
        std::future::pending::<()>().await;
    }
}

/// Pipes are read and written without helper threads; anything else through tokio's.
#[cfg(unix)]
fn stdin() -> Reader {
    use std::os::fd::AsFd;
    let own = io::stdin().as_fd().try_clone_to_owned();
    match own.and_then(tokio::net::unix::pipe::Receiver::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdin()),
    }
}

#[cfg(unix)]
fn stdout() -> Writer {
    use std::os::fd::AsFd;
    let own = io::stdout().as_fd().try_clone_to_owned();
    match own.and_then(tokio::net::unix::pipe::Sender::from_owned_fd) {
        Ok(pipe) => Box::new(pipe),
        Err(_) => Box::new(tokio::io::stdout()),
    }
}

#[cfg(not(unix))]
fn stdin() -> Reader {
    Box::new(tokio::io::stdin())
}

#[cfg(not(unix))]
fn stdout() -> Writer {
    Box::new(tokio::io::stdout())
}
