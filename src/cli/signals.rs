//! Ctrl-C, SIGTERM and SIGHUP (on Windows Ctrl-C, Ctrl-Break and a closed console): the first asks
//! everything to stop, the second skips the grace; a repeated SIGHUP is no second one.

use futures::stream::{BoxStream, StreamExt as _, poll_fn, select_all};

use crate::check::run::CheckSignals;

/// Does `work` on a runtime of this thread alone; what it leaves behind is not waited for.
///
/// # Errors
/// When there can be no runtime.
pub fn block_on<T>(work: impl AsyncFnOnce(CheckSignals) -> T) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async { work(listen()).await });
    runtime.shutdown_background();
    Ok(done)
}

/// Listens until the runtime ends.
pub fn listen() -> CheckSignals {
    let signals = CheckSignals::default();
    let heard = signals.clone();
    let mut events = select_all(events());
    tokio::spawn(async move {
        while let Some(hastens) = events.next().await {
            if !heard.stop.is_cancelled() {
                heard.stop.cancel();
            } else if hastens {
                heard.force.cancel();
            }
        }
    });
    signals
}

/// What asks the program to end; whether a second one asks for haste.
type Event = BoxStream<'static, bool>;

#[cfg(unix)]
fn events() -> Vec<Event> {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let events = kinds.into_iter().filter_map(|kind| {
        let mut signal = signal(kind).ok()?;
        // One terminal that closes may say so several times, and nobody asks for haste by it.
        let hastens = kind != SignalKind::hangup();
        Some(poll_fn(move |cx| signal.poll_recv(cx)).map(move |()| hastens).boxed())
    });
    events.collect()
}

#[cfg(windows)]
fn events() -> Vec<Event> {
    use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
    let mut events: Vec<Event> = Vec::new();
    if let Ok(mut event) = ctrl_c() {
        events.push(poll_fn(move |cx| event.poll_recv(cx)).map(|()| true).boxed());
    }
    if let Ok(mut event) = ctrl_break() {
        events.push(poll_fn(move |cx| event.poll_recv(cx)).map(|()| true).boxed());
    }
    if let Ok(mut event) = ctrl_close() {
        events.push(poll_fn(move |cx| event.poll_recv(cx)).map(|()| true).boxed());
    }
    if let Ok(mut event) = ctrl_shutdown() {
        events.push(poll_fn(move |cx| event.poll_recv(cx)).map(|()| true).boxed());
    }
    events
}

/// A file that may not grow further (`ulimit -f`) is an error of that write, not the end of the
/// program: the signal that says so is heard and forgotten. Holds until the process ends.
pub fn outlive_file_limits() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        if let Ok(runtime) = runtime {
            // What is installed stays installed, whoever listens.
            drop(runtime.block_on(async { signal(kind) }));
        }
    }
}
