//! The server's stdin and stdout, each behind a gate: the owner of the process can close them even
//! while a task is reading or writing.
//!
//! stdin must be closable while a write is blocked (a server that stopped reading); stdout must
//! report end of file once the server is dead, even if an escaped process keeps it open. A server
//! that writes while exiting must not die of a closed pipe: once the reader is dropped, the output
//! is read here and discarded until the server is dead.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};

/// A pipe end that can be taken away from its user.
struct PipeSlot<T> {
    pipe: Option<T>,
    /// The task that waits on the pipe; dropping the pipe alone would never wake it.
    waiting: Option<Waker>,
    /// Bytes written to it.
    written: u64,
    /// How many of them were unread when it was closed, where the system reports it.
    unread: Option<u64>,
    /// Returns how many bytes in the pipe are unread, where the system reports it.
    ask: fn(&T) -> Option<u64>,
}

/// Closes a pipe end from outside.
pub(super) struct PipeGate<T>(Arc<Mutex<PipeSlot<T>>>);

impl<T> Clone for PipeGate<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PipeGate<T> {
    fn new(pipe: T, ask: fn(&T) -> Option<u64>) -> Self {
        let slot = PipeSlot { pipe: Some(pipe), waiting: None, written: 0, unread: None, ask };
        Self(Arc::new(Mutex::new(slot)))
    }

    pub(super) fn close(&self) {
        let (pipe, waiting) = {
            let mut slot = self.0.lock();
            let pipe = slot.pipe.take();
            if let Some(pipe) = &pipe {
                slot.unread = (slot.ask)(pipe);
            }
            (pipe, slot.waiting.take())
        };
        drop(pipe);
        if let Some(waker) = waiting {
            waker.wake();
        }
    }

    /// Whether its user reached end of file, or it was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().pipe.is_none()
    }

    /// Whether the pipe is closed and the server has not read a single byte of it.
    pub(super) fn was_ignored(&self) -> bool {
        let slot = self.0.lock();
        slot.pipe.is_none() && (slot.written == 0 || slot.unread == Some(slot.written))
    }
}

impl<T> PipeSlot<T> {
    /// Polls the pipe; `None` when it was closed.
    fn poll<R>(
        &mut self,
        cx: &mut Context<'_>,
        poll: impl FnOnce(&mut T, &mut Context<'_>) -> Poll<R>,
    ) -> Option<Poll<R>> {
        let result = poll(self.pipe.as_mut()?, cx);
        if result.is_pending() {
            match &mut self.waiting {
                Some(waker) => waker.clone_from(cx.waker()),
                none => *none = Some(cx.waker().clone()),
            }
        } else {
            self.waiting = None;
        }
        Some(result)
    }
}

/// The server's stdin. Shutting it down or dropping it closes it.
pub struct ServerStdin(PipeGate<ChildStdin>);

/// The server's stdout.
pub struct ServerStdout {
    gate: PipeGate<ChildStdout>,
    /// Whether the pipe was full once.
    ///
    /// A pipe holds 64 KiB at first: a server that sends a megabyte then blocks sixteen times until
    /// it is read, with wake-ups on both sides each time. So a pipe that was full is enlarged.
    was_full: bool,
}

/// A read of this much means that the pipe was full.
const FULL_READ_BYTES: usize = 64 << 10;
/// What a full pipe is enlarged to. All pipes of one user together may hold 64 MiB by default,
/// so a quarter of a megabyte is affordable for a hundred busy servers; more gains nothing.
#[cfg(target_os = "linux")]
const LARGE_PIPE_BYTES: usize = 256 << 10;

pub(super) fn stdin(pipe: ChildStdin) -> (ServerStdin, PipeGate<ChildStdin>) {
    #[cfg(target_os = "linux")]
    let gate = PipeGate::new(pipe, |pipe| rustix::io::ioctl_fionread(pipe).ok());
    #[cfg(not(target_os = "linux"))]
    let gate = PipeGate::new(pipe, |_| None);
    (ServerStdin(gate.clone()), gate)
}

pub(super) fn stdout(pipe: ChildStdout) -> (ServerStdout, PipeGate<ChildStdout>) {
    let gate = PipeGate::new(pipe, |_| None);
    (ServerStdout { gate: gate.clone(), was_full: false }, gate)
}

impl Drop for ServerStdin {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Drop for ServerStdout {
    fn drop(&mut self) {
        if self.gate.is_closed() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(discard(self.gate.clone()))),
            Err(_) => self.gate.close(),
        }
    }
}

/// Reads and discards everything until end of file, or until the gate closes.
async fn discard(gate: PipeGate<ChildStdout>) {
    let mut space = vec![0; 16 << 10];
    loop {
        let read = std::future::poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut space);
            let mut slot = gate.0.lock();
            match slot.poll(cx, |pipe, cx| Pin::new(pipe).poll_read(cx, &mut buffer)) {
                Some(Poll::Ready(Ok(()))) => Poll::Ready(buffer.filled().len()),
                Some(Poll::Pending) => Poll::Pending,
                Some(Poll::Ready(Err(_))) | None => Poll::Ready(0),
            }
        });
        if read.await == 0 {
            return gate.close();
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the server's stdin is closed")
}

impl AsyncWrite for ServerStdin {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut slot = self.0.0.lock();
        let Some(result) = slot.poll(cx, |pipe, cx| Pin::new(pipe).poll_write(cx, buf)) else {
            return Poll::Ready(Err(closed()));
        };
        if let Poll::Ready(Ok(written)) = &result {
            slot.written += *written as u64;
        }
        result
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.close();
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for ServerStdout {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let space = buf.remaining();
        let Self { gate, was_full } = self.get_mut();
        let mut slot = gate.0.lock();
        let Some(result) = slot.poll(cx, |pipe, cx| Pin::new(pipe).poll_read(cx, buf)) else {
            return Poll::Ready(Ok(()));
        };
        let read = buf.filled().len() - before;
        if matches!(result, Poll::Ready(Ok(()))) && space > 0 && read == 0 {
            slot.pipe = None;
        }
        if read >= FULL_READ_BYTES && !std::mem::replace(was_full, true) {
            // Fails when the user has too many large pipes; it then stays as it is.
            #[cfg(target_os = "linux")]
            let _ = slot
                .pipe
                .as_ref()
                .map(|pipe| rustix::pipe::fcntl_setpipe_size(pipe, LARGE_PIPE_BYTES));
        }
        result
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    fn shell(script: &str) -> tokio::process::Child {
        tokio::process::Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell")
    }

    #[tokio::test]
    async fn a_pipe_that_was_full_is_enlarged_once() {
        let mut child = shell("head -c 1000000 /dev/zero");
        let (mut out, gate) = stdout(child.stdout.take().unwrap());
        let size = || {
            let slot = gate.0.lock();
            rustix::pipe::fcntl_getpipe_size(slot.pipe.as_ref().unwrap()).unwrap()
        };
        let given = size();
        let mut buffer = vec![0; FULL_READ_BYTES];
        // Nobody reads meanwhile, so that it fills.
        let waiting = || {
            let slot = gate.0.lock();
            rustix::io::ioctl_fionread(slot.pipe.as_ref().unwrap()).unwrap()
        };
        while waiting() < FULL_READ_BYTES as u64 {
            tokio::task::yield_now().await;
        }
        assert_eq!(out.read(&mut buffer).await.unwrap(), buffer.len());
        assert!(size() >= LARGE_PIPE_BYTES, "{} bytes at first, {} now", given, size());
        child.kill().await.unwrap();
    }

    #[tokio::test]
    async fn it_is_known_whether_a_server_has_heard_anything() {
        for (script, ignored) in [("exit 3", true), ("read line; exit 3", false)] {
            let mut child = shell(script);
            let (mut input, gate) = stdin(child.stdin.take().unwrap());
            // The first may have exited already, which also counts as nothing read.
            let _ = input.write_all(b"{\"a\":1}\n").await;
            assert!(!gate.was_ignored(), "nothing is known before the end");
            child.wait().await.unwrap();
            drop(input);
            assert_eq!(gate.was_ignored(), ignored, "{script}");
        }
    }
}
