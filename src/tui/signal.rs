//! Signals as events (Unix), and the console's control events (Windows).

use std::io;

/// What the system asks of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// End in order (SIGTERM, SIGINT; Ctrl-C, a closed window, the end of a session).
    Terminate,
    /// The terminal is gone (SIGHUP): end in order, however often it is said.
    #[cfg_attr(windows, expect(dead_code, reason = "a closed window is a request to end"))]
    HangUp,
    /// End at once (SIGQUIT; Ctrl-Break).
    Quit,
    /// The terminal has another size.
    #[cfg_attr(windows, expect(dead_code, reason = "the console says so among the keys"))]
    Resized,
    /// Go to the background.
    #[cfg_attr(windows, expect(dead_code, reason = "there is no job control"))]
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
                _ = self.hangup.recv() => Signal::HangUp,
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

#[cfg(windows)]
pub use windows::Signals;

#[cfg(windows)]
mod windows {
    use super::{Signal, io};
    use tokio::signal::windows::{
        CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close,
        ctrl_logoff, ctrl_shutdown,
    };

    /// What the console tells the dashboard.
    pub struct Signals {
        interrupt: CtrlC,
        quit: CtrlBreak,
        close: CtrlClose,
        logoff: CtrlLogoff,
        shutdown: CtrlShutdown,
    }

    impl Signals {
        /// Listens from now on.
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: ctrl_c()?,
                quit: ctrl_break()?,
                close: ctrl_close()?,
                logoff: ctrl_logoff()?,
                shutdown: ctrl_shutdown()?,
            })
        }

        /// The next one. After the last three the system ends the program within seconds.
        pub async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.interrupt.recv() => Signal::Terminate,
                _ = self.quit.recv() => Signal::Quit,
                _ = self.close.recv() => Signal::Terminate,
                _ = self.logoff.recv() => Signal::Terminate,
                _ = self.shutdown.recv() => Signal::Terminate,
            }
        }

        /// There is no job control here.
        pub async fn stop_job(&mut self) {}
    }
}
