//! The one thread that starts processes.
//!
//! Linux sends the parent-death signal when the *thread* that forked ends, not the process. So
//! every server is started from one thread that never ends; it also owns the guardian, which needs
//! no lock for that reason. Jobs are short: one start, or a line to the guardian.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::guardian::Guardian;

type SpawnJob = Box<dyn FnOnce(&mut Guardian) + Send>;

/// How often the guardian is checked while there is something to guard.
const GUARDIAN_INTERVAL: Duration = Duration::from_secs(5);

/// Most jobs waiting. Beyond that the caller gets an error: the system is busy.
const JOB_CAPACITY: usize = 1024;

static JOBS: Mutex<Option<SyncSender<SpawnJob>>> = Mutex::new(None);

/// Runs `work` on the spawner thread.
///
/// # Errors
/// When the thread cannot be started or its queue is full.
pub(super) async fn run<T: Send + 'static>(
    work: impl FnOnce(&mut Guardian) -> T + Send + 'static,
) -> io::Result<T> {
    let (reply, answer) = oneshot::channel();
    post(Box::new(move |guardian| {
        let _ = reply.send(work(guardian));
    }))?;
    answer.await.map_err(|_| io::Error::other("the thread that starts processes failed"))
}

/// Like [`run`], but does not wait for the result.
pub(super) fn post(job: SpawnJob) -> io::Result<()> {
    let mut jobs = JOBS.lock();
    let sender = match &*jobs {
        Some(sender) => sender,
        none => {
            debug_assert!(none.is_none());
            let (sender, receiver) = sync_channel(JOB_CAPACITY);
            std::thread::Builder::new()
                .name("mcpdeck-spawn".into())
                .stack_size(256 << 10)
                .spawn(move || serve(&receiver))?;
            jobs.insert(sender)
        }
    };
    sender.try_send(job).map_err(|_| io::Error::from(io::ErrorKind::WouldBlock))
}

/// Never ends while the host lives: the sender is a static.
fn serve(jobs: &Receiver<SpawnJob>) {
    let mut guardian = Guardian::default();
    loop {
        let job = if guardian.is_idle() {
            jobs.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            jobs.recv_timeout(GUARDIAN_INTERVAL)
        };
        match job {
            // A panic in a job must not end the thread: that would signal every child.
            Ok(job) => {
                let work = std::panic::AssertUnwindSafe(|| job(&mut guardian));
                let _ = std::panic::catch_unwind(work);
            }
            Err(RecvTimeoutError::Timeout) => guardian.look_after(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
