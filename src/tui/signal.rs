//! Signals as events (Unix), and what the system calls them elsewhere.

use std::io;

/// What the system asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End in order (SIGTERM, SIGHUP, SIGINT).
    Terminate,
    /// End at once (SIGQUIT).
    Quit,
    /// The terminal has another size.
    Resized,
    /// Go to the background.
    Suspend,
    /// Back in the foreground.
    Continued,
}

#[cfg(unix)]
pub use unix::Signals;

#[cfg(unix)]
mod unix {
    use super::{Signal, io};
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    /// The signals the dashboard listens to.
    pub struct Signals {
        terminate: Stream,
        hangup: Stream,
        interrupt: Stream,
        quit: Stream,
        resized: Stream,
        suspend: Stream,
        continued: Stream,
    }

    impl Signals {
        /// Listens from now on.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
                interrupt: signal(SignalKind::interrupt())?,
                quit: signal(SignalKind::quit())?,
                resized: signal(SignalKind::window_change())?,
                suspend: signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?,
                continued: signal(SignalKind::from_raw(rustix::process::Signal::CONT.as_raw()))?,
            })
        }

        /// The next one.
        pub async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.terminate.recv() => Signal::Terminate,
                _ = self.hangup.recv() => Signal::Terminate,
                _ = self.interrupt.recv() => Signal::Terminate,
                _ = self.quit.recv() => Signal::Quit,
                _ = self.resized.recv() => Signal::Resized,
                _ = self.suspend.recv() => Signal::Suspend,
                _ = self.continued.recv() => Signal::Continued,
            }
        }

        /// Stops the whole foreground job, as the terminal would, and waits until it goes on.
        pub async fn stop_job(&mut self) {
            if rustix::process::kill_current_process_group(rustix::process::Signal::STOP).is_ok() {
                // The stop may take effect a moment later: nothing is done before it is over.
                self.continued.recv().await;
            }
        }
    }
}

#[cfg(not(unix))]
pub use other::Signals;

#[cfg(not(unix))]
mod other {
    use super::{Signal, io};

    /// The signals the dashboard listens to.
    pub struct Signals;

    impl Signals {
        /// Listens from now on.
        pub fn listen() -> io::Result<Self> {
            Ok(Self)
        }

        /// The next one.
        pub async fn next(&mut self) -> Signal {
            match tokio::signal::ctrl_c().await {
                Ok(()) => Signal::Terminate,
                Err(_) => std::future::pending().await,
            }
        }

        /// There is no job control here.
        pub async fn stop_job(&mut self) {}
    }
}
