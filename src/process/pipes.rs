//! The server's stdin and stdout, with a gate each: the owner of the process can close them even
//! while somebody reads or writes.
//!
//! stdin has to be closable while a write is blocked (a server that stopped reading); stdout must
//! report its end when the server is dead although a process that escaped keeps it open. A server
//! that writes while it ends must not die of a closed pipe: what nobody reads any more is read here
//! and thrown away until the server is dead.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};

/// A pipe end that can be taken away from its user.
struct Slot<T> {
    pipe: Option<T>,
    /// Who waits on the pipe; dropping the pipe alone would never wake it.
    waiting: Option<Waker>,
    /// Bytes that were written to it.
    written: u64,
    /// How many of them nobody had read when it was closed, where the system tells.
    unread: Option<u64>,
}

/// An end of a pipe.
trait End {
    /// Bytes in the pipe that nobody has read yet, where the system tells.
    fn unread(&self) -> Option<u64>;
}

impl End for ChildStdin {
    #[cfg(target_os = "linux")]
    fn unread(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(self).ok()
    }

    #[cfg(not(target_os = "linux"))]
    fn unread(&self) -> Option<u64> {
        None
    }
}

impl End for ChildStdout {
    fn unread(&self) -> Option<u64> {
        None
    }
}

type Shared<T> = Arc<Mutex<Slot<T>>>;

fn close<T: End>(shared: &Shared<T>) {
    let (pipe, waiting) = {
        let mut slot = shared.lock();
        let pipe = slot.pipe.take();
        if let Some(pipe) = &pipe {
            slot.unread = pipe.unread();
        }
        (pipe, slot.waiting.take())
    };
    drop(pipe);
    if let Some(waker) = waiting {
        waker.wake();
    }
}

impl<T> Slot<T> {
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

/// What the server reads. Shutting it down or dropping it closes the server's stdin.
pub struct ServerStdin(Shared<ChildStdin>);

/// Closes a [`ServerStdin`] from outside.
#[derive(Clone)]
pub(super) struct StdinGate(Shared<ChildStdin>);

/// What the server writes.
pub struct ServerStdout {
    shared: Shared<ChildStdout>,
    room: Room,
}

/// How much the pipe of a server's stdout holds.
///
/// A pipe holds 64 KiB at first: a server that answers with a megabyte then stops sixteen times to
/// be read, and each time both sides have to be woken. So one that has filled it gets a larger one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Room {
    /// What the system gives.
    Given,
    /// Enlarged, or the system would not.
    Enlarged,
}

impl Room {
    /// A read of this much means that the pipe was full.
    const FULL: usize = 64 << 10;
    /// What a full pipe is enlarged to. All pipes of one user together may hold 64 MiB by default,
    /// so a quarter of a megabyte is affordable for a hundred busy servers; more gains nothing.
    #[cfg(target_os = "linux")]
    const LARGE: usize = 256 << 10;

    #[cfg(target_os = "linux")]
    fn enlarge(&mut self, pipe: &ChildStdout) {
        // Refused when the user has too many large pipes: then it stays as it is.
        let _ = rustix::pipe::fcntl_setpipe_size(pipe, Self::LARGE);
        *self = Self::Enlarged;
    }

    #[cfg(not(target_os = "linux"))]
    fn enlarge(&mut self, _: &ChildStdout) {
        *self = Self::Enlarged;
    }
}

/// Ends a [`ServerStdout`] from outside.
#[derive(Clone)]
pub(super) struct StdoutGate(Shared<ChildStdout>);

fn share<T>(pipe: T) -> Shared<T> {
    Arc::new(Mutex::new(Slot { pipe: Some(pipe), waiting: None, written: 0, unread: None }))
}

pub(super) fn stdin(pipe: ChildStdin) -> (ServerStdin, StdinGate) {
    let shared = share(pipe);
    (ServerStdin(Arc::clone(&shared)), StdinGate(shared))
}

pub(super) fn stdout(pipe: ChildStdout) -> (ServerStdout, StdoutGate) {
    let shared = share(pipe);
    (ServerStdout { shared: Arc::clone(&shared), room: Room::Given }, StdoutGate(shared))
}

impl StdinGate {
    pub(super) fn close(&self) {
        close(&self.0);
    }

    /// Whether the pipe is closed and the server has not read a single byte of it.
    pub(super) fn was_ignored(&self) -> bool {
        let slot = self.0.lock();
        slot.pipe.is_none() && (slot.written == 0 || slot.unread == Some(slot.written))
    }
}

impl StdoutGate {
    /// Whether the reader saw the end by itself, or was closed.
    pub(super) fn is_closed(&self) -> bool {
        self.0.lock().pipe.is_none()
    }

    pub(super) fn close(&self) {
        close(&self.0);
    }
}

impl Drop for ServerStdin {
    fn drop(&mut self) {
        close(&self.0);
    }
}

impl Drop for ServerStdout {
    fn drop(&mut self) {
        if self.shared.lock().pipe.is_none() {
            return;
        }
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(discard(Arc::clone(&self.shared)))),
            Err(_) => close(&self.shared),
        }
    }
}

/// Reads to the end, or until the gate closes, and keeps nothing.
async fn discard(shared: Shared<ChildStdout>) {
    let mut space = vec![0; 16 << 10];
    loop {
        let read = std::future::poll_fn(|cx| {
            let mut buffer = ReadBuf::new(&mut space);
            let mut slot = shared.lock();
            match slot.poll(cx, |pipe, cx| Pin::new(pipe).poll_read(cx, &mut buffer)) {
                Some(Poll::Ready(Ok(()))) => Poll::Ready(buffer.filled().len()),
                Some(Poll::Pending) => Poll::Pending,
                Some(Poll::Ready(Err(_))) | None => Poll::Ready(0),
            }
        });
        if read.await == 0 {
            return close(&shared);
        }
    }
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the server's stdin is closed")
}

impl ServerStdin {
    fn write(
        &self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut ChildStdin>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let mut slot = self.0.lock();
        let Some(result) = slot.poll(cx, |pipe, cx| write(Pin::new(pipe), cx)) else {
            return Poll::Ready(Err(closed()));
        };
        if let Poll::Ready(Ok(written)) = &result {
            slot.written += *written as u64;
        }
        result
    }
}

impl AsyncWrite for ServerStdin {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |pipe, cx| pipe.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.write(cx, |pipe, cx| pipe.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        close(&self.0);
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
        let Self { shared, room } = self.get_mut();
        let mut slot = shared.lock();
        let Some(result) = slot.poll(cx, |pipe, cx| Pin::new(pipe).poll_read(cx, buf)) else {
            return Poll::Ready(Ok(()));
        };
        let read = buf.filled().len() - before;
        if matches!(result, Poll::Ready(Ok(()))) && space > 0 && read == 0 {
            slot.pipe = None;
        }
        if read >= Room::FULL
            && *room == Room::Given
            && let Some(pipe) = &slot.pipe
        {
            room.enlarge(pipe);
        }
        result
    }
}

#[cfg(all(test, target_os = "linux"))]
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
        let mut buffer = vec![0; 64 << 10];
        // The shell may be slower than the reader: only a full pipe is enlarged.
        while child.try_wait().unwrap().is_none() && size() == given {
            tokio::task::yield_now().await;
            out.read_exact(&mut buffer[..1]).await.unwrap();
            if rustix::io::ioctl_fionread(gate.0.lock().pipe.as_ref().unwrap()).unwrap() >= 65_536 {
                assert_eq!(out.read(&mut buffer).await.unwrap(), buffer.len());
            }
        }
        assert!(size() >= Room::LARGE, "{} bytes at first, {} now", given, size());
        child.kill().await.unwrap();
    }

    #[tokio::test]
    async fn it_is_known_whether_a_server_has_heard_anything() {
        for (script, ignored) in [("exit 3", true), ("read line; exit 3", false)] {
            let mut child = shell(script);
            let (mut input, gate) = stdin(child.stdin.take().unwrap());
            // The first may be gone already, which is no word heard either.
            let _ = input.write_all(b"{\"a\":1}\n").await;
            assert!(!gate.was_ignored(), "nothing is known before the end");
            child.wait().await.unwrap();
            drop(input);
            assert_eq!(gate.was_ignored(), ignored, "{script}");
        }
    }
}
