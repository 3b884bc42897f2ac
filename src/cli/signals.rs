//! Ctrl-C, SIGTERM and SIGHUP (on Windows Ctrl-C, Ctrl-Break and a closed console): the first
//! starts a graceful shutdown, a second one forces it; a repeated SIGHUP does not count as second.

use futures::stream::{BoxStream, StreamExt as _, poll_fn, select_all};

use ::check::run::CheckSignals;

/// Runs `work` on a current-thread runtime; does not wait for tasks that it leaves behind.
///
/// # Errors
/// When the runtime cannot be created.
pub fn block_on<T>(work: impl AsyncFnOnce(CheckSignals) -> T) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async { work(listen()).await });
    runtime.shutdown_background();
    Ok(done)
}

/// Listens until the runtime ends.
pub fn listen() -> CheckSignals {
    let signals = CheckSignals::default();
    let tokens = signals.clone();
    let mut events = select_all(events());
    tokio::spawn(async move {
        while let Some(hastens) = events.next().await {
            if !tokens.stop.is_cancelled() {
                tokens.stop.cancel();
            } else if hastens {
                tokens.force.cancel();
            }
        }
    });
    signals
}

/// Starts a graceful shutdown when stdin is closed. What is written there means nothing.
#[cfg(feature = "gateway")]
pub fn stop_at_end_of_input(signals: &CheckSignals) {
    let stop = signals.stop.clone();
    // A thread of its own: nothing can interrupt the read, and no runtime waits for it.
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        stop.cancel();
    });
}

/// A source of shutdown requests; the item is whether a repeated one forces the shutdown.
type Event = BoxStream<'static, bool>;

#[cfg(unix)]
fn events() -> Vec<Event> {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
    let events = kinds.into_iter().filter_map(|kind| {
        let mut signal = signal(kind).ok()?;
        // A closing terminal may send SIGHUP several times; this does not force the shutdown.
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

/// Makes a write beyond the file size limit (`ulimit -f`) fail instead of killing the program:
/// `SIGXFSZ` is caught and ignored until the process ends.
pub fn outlive_file_limits() {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kind = SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
        if let Ok(runtime) = runtime {
            // The handler stays installed after its listener is dropped.
            drop(runtime.block_on(async { signal(kind) }));
        }
    }
}
