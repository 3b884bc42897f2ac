//! Signals as events (Unix), and the console's control events (Windows).

use std::io;

/// What the system asks the program to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Shut down in order (SIGTERM; a closed window, the end of a session).
    Terminate,
    /// The same, requested by a key (SIGINT; Ctrl-C).
    Interrupt,
    /// The terminal is gone (SIGHUP): shut down in order, however often the signal comes.
    HangUp,
    /// Quit at once (SIGQUIT; Ctrl-Break).
    Quit,
    /// The terminal was resized.
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
    use std::task::Poll;

    use super::{Signal, io};
    use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

    /// The signals the dashboard handles, each with its meaning.
    pub struct Signals([(Stream, Signal); 7]);

    impl Signals {
        /// Starts listening.
        pub fn listen() -> io::Result<Self> {
            let raw = |signal: rustix::process::Signal| SignalKind::from_raw(signal.as_raw());
            Ok(Self([
                (signal(SignalKind::terminate())?, Signal::Terminate),
                (signal(SignalKind::hangup())?, Signal::HangUp),
                (signal(SignalKind::interrupt())?, Signal::Interrupt),
                (signal(SignalKind::quit())?, Signal::Quit),
                (signal(SignalKind::window_change())?, Signal::Resized),
                (signal(raw(rustix::process::Signal::TSTP))?, Signal::Suspend),
                (signal(raw(rustix::process::Signal::CONT))?, Signal::Continued),
            ]))
        }

        pub async fn next(&mut self) -> Signal {
            std::future::poll_fn(|cx| {
                let mut all = self.0.iter_mut();
                let came =
                    all.find_map(|(one, asks)| one.poll_recv(cx).is_ready().then_some(*asks));
                came.map_or(Poll::Pending, Poll::Ready)
            })
            .await
        }

        /// Stops the whole foreground job, as the terminal would, and waits until it continues.
        pub async fn stop_job(&mut self) {
            if rustix::process::kill_current_process_group(rustix::process::Signal::STOP).is_ok() {
                // The stop may take effect a moment later, so wait for the continue signal.
                self.0[6].0.recv().await;
            }
        }
    }
}

#[cfg(windows)]
pub use windows::Signals;

#[cfg(windows)]
mod windows {
    use super::{Signal, io};
    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
        ctrl_logoff, ctrl_shutdown,
    };

    /// The console's events.
    pub struct Signals {
        interrupt: CtrlC,
        quit: CtrlBreak,
        close: CtrlClose,
        logoff: CtrlLogoff,
        shutdown: CtrlShutdown,
    }

    impl Signals {
        /// Starts listening.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: ctrl_c()?,
                quit: ctrl_break()?,
                close: ctrl_close()?,
                logoff: ctrl_logoff()?,
                shutdown: ctrl_shutdown()?,
            })
        }

        /// The next event. After the last three the system kills the program within seconds.
        pub async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.interrupt.recv() => Signal::Interrupt,
                _ = self.quit.recv() => Signal::Quit,
                _ = self.close.recv() => Signal::Terminate,
                _ = self.logoff.recv() => Signal::Terminate,
                _ = self.shutdown.recv() => Signal::Terminate,
            }
        }

        /// No-op: there is no job control here.
        pub async fn stop_job(&mut self) {}
    }
}
