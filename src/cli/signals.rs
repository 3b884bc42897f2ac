//! Ctrl-C, SIGTERM and SIGHUP (on Windows Ctrl-C, Ctrl-Break and a closed console): the first asks
//! everything to stop, the second skips the grace; a repeated SIGHUP is no second one.

use crate::check::run::Signals;

/// Does `work` on a runtime of this thread alone; what it leaves behind is not waited for.
///
/// # Errors
/// When there can be no runtime.
pub fn block_on<T>(work: impl AsyncFnOnce(Signals) -> T) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async { work(listen()).await });
    runtime.shutdown_background();
    Ok(done)
}

/// Listens until the runtime ends.
pub fn listen() -> Signals {
    let signals = Signals::default();
    let heard = signals.clone();
    tokio::spawn(async move {
        let mut source = Source::new();
        source.next().await;
        heard.stop.cancel();
        #[cfg(unix)]
        source.ignore_hangup();
        source.next().await;
        heard.force.cancel();
    });
    signals
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

#[cfg(unix)]
struct Source([Option<tokio::signal::unix::Signal>; 3]);

#[cfg(unix)]
impl Source {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Self(kinds.map(|kind| signal(kind).ok()))
    }

    async fn next(&mut self) {
        use futures::stream::{FuturesUnordered, StreamExt};
        let all = self.0.iter_mut().flatten().map(tokio::signal::unix::Signal::recv);
        all.collect::<FuturesUnordered<_>>().next().await;
    }

    /// One terminal that closes may say so several times, and nobody asks for haste by it.
    fn ignore_hangup(&mut self) {
        self.0[2] = None;
    }
}

#[cfg(windows)]
struct Source(Vec<Control>);

/// One of the console's control events.
#[cfg(windows)]
enum Control {
    C(tokio::signal::windows::CtrlC),
    Break(tokio::signal::windows::CtrlBreak),
    Close(tokio::signal::windows::CtrlClose),
    Shutdown(tokio::signal::windows::CtrlShutdown),
}

#[cfg(windows)]
impl Source {
    fn new() -> Self {
        use tokio::signal::windows::{ctrl_break, ctrl_c, ctrl_close, ctrl_shutdown};
        let events = [
            ctrl_c().map(Control::C),
            ctrl_break().map(Control::Break),
            ctrl_close().map(Control::Close),
            ctrl_shutdown().map(Control::Shutdown),
        ];
        Self(events.into_iter().flatten().collect())
    }

    async fn next(&mut self) {
        use futures::stream::{FuturesUnordered, StreamExt};
        let mut any: FuturesUnordered<_> = self.0.iter_mut().map(Control::next).collect();
        any.next().await;
    }
}

#[cfg(windows)]
impl Control {
    async fn next(&mut self) {
        match self {
            Self::C(event) => event.recv().await,
            Self::Break(event) => event.recv().await,
            Self::Close(event) => event.recv().await,
            Self::Shutdown(event) => event.recv().await,
        };
    }
}
