//! The input thread on Unix: waits on the terminal and on a pipe that stops or pauses it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc;

use super::burst::{self, TOGETHER};
use super::{Decoder, Input};

/// How long a lone escape waits for the rest of a sequence.
const ESCAPE_WAIT: Duration = Duration::from_millis(25);
/// How long after a burst of keys the next ones are its rest.
const REST: Duration = Duration::from_millis(50);

/// Reads the terminal until it is dropped or the terminal is gone.
pub struct InputThread {
    wake: OwnedFd,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    state: Mutex<Gate>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Gate {
    #[default]
    Open,
    /// Somebody else reads the terminal; the thread has not noticed yet.
    Closing,
    /// The thread stands at the gate.
    Closed,
}

impl InputThread {
    /// Starts reading standard input. Overflow policy: when `events` is full the thread waits, and
    /// the terminal holds the keys.
    pub fn spawn(events: mpsc::Sender<Input>) -> io::Result<Self> {
        let (wait, wake) = io::pipe()?;
        let (wait, wake) = (OwnedFd::from(wait), OwnedFd::from(wake));
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("input".into())
            .spawn(move || read_until_gone(&wait, &theirs, &events))?;
        Ok(Self { wake, shared, thread: Some(thread) })
    }

    /// Leaves the terminal to another program until [`InputThread::resume`].
    pub fn pause(&self) {
        let mut gate = self.lock();
        *gate = Gate::Closing;
        self.poke();
        while *gate == Gate::Closing && self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            self.shared.changed.wait_for(&mut gate, Duration::from_millis(100));
        }
    }

    /// Reads again.
    pub fn resume(&self) {
        *self.lock() = Gate::Open;
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Gate> {
        self.shared.state.lock()
    }

    fn poke(&self) {
        let _ = rustix::io::write(&self.wake, b"!");
    }
}

impl Drop for InputThread {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.resume();
        self.poke();
        // Not joined: the thread may wait on a full channel whose reader is gone by now.
        drop(self.thread.take());
    }
}

fn read_until_gone(wait: &OwnedFd, shared: &Shared, events: &mpsc::Sender<Input>) {
    let stdin = io::stdin();
    let mut decoder = Decoder::default();
    let mut bytes = [0u8; 4096];
    let mut gathered = Vec::new();
    let mut burst: Option<Instant> = None;
    loop {
        pass_gate(shared);
        if shared.stop.load(Ordering::Acquire) {
            return;
        }
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(wait.as_fd(), PollFlags::IN),
        ];
        let wait_for = match (gathered.is_empty(), decoder.is_waiting()) {
            (false, _) => Some(TOGETHER),
            (true, waiting) => waiting.then_some(ESCAPE_WAIT),
        };
        let timeout = wait_for.and_then(|wait| Timespec::try_from(wait).ok());
        let asked = Instant::now();
        let ready = match poll(&mut fds, timeout.as_ref()) {
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => 0,
        };
        // On a busy machine the thread wakes late and finds what came after the wait was over: those
        // keys were typed one by one, and an escape that waited so long was a key of its own.
        let late = wait_for.is_some_and(|wait| asked.elapsed() > 2 * wait);
        let ready = if late && decoder.is_alone() { 0 } else { ready };
        let (terminal, woken) = (fds[0].revents(), fds[1].revents());
        if woken.contains(PollFlags::IN) {
            let _ = rustix::io::read(wait, &mut bytes);
            continue;
        }
        let decoded = if ready == 0 && !gathered.is_empty() {
            Vec::new()
        } else if ready == 0 {
            decoder.flush()
        } else if terminal.contains(PollFlags::IN) {
            match rustix::io::read(&stdin, &mut bytes) {
                Ok(0) => return report_gone(events),
                Ok(n) => decoder.feed(&bytes[..n]),
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) => return report_gone(events),
            }
        } else {
            return report_gone(events);
        };
        for reply in decoder.replies() {
            if events.blocking_send(Input::Reply(reply)).is_err() {
                return;
            }
        }
        let more = ready > 0 && decoded.last().is_some_and(burst::is_text);
        gathered.extend(decoded);
        if more && gathered.len() < Decoder::MAX_PASTE {
            continue;
        }
        let rest = burst.is_some_and(|at| at.elapsed() < REST);
        let (joined, is_burst) = burst::join(std::mem::take(&mut gathered), rest);
        if is_burst {
            burst = Some(Instant::now());
        }
        for event in joined {
            if events.blocking_send(Input::Event(event)).is_err() {
                return;
            }
        }
    }
}

fn report_gone(events: &mpsc::Sender<Input>) {
    let _ = events.blocking_send(Input::Gone);
}

fn pass_gate(shared: &Shared) {
    let mut gate = shared.state.lock();
    while *gate != Gate::Open {
        *gate = Gate::Closed;
        shared.changed.notify_all();
        shared.changed.wait(&mut gate);
    }
}
