//! The input thread where crossterm reads the console.

use std::io;
use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::mpsc;

use super::Input;

use std::sync::Arc;
use std::time::Duration;

const READER_OPEN: u8 = 0;
const READER_PAUSED: u8 = 1;
const READER_STOPPED: u8 = 2;

/// Reads the console until it is dropped.
pub struct InputThread {
    state: Arc<AtomicU8>,
}

impl InputThread {
    /// Starts reading the console.
    pub fn spawn(events: mpsc::Sender<Input>) -> io::Result<Self> {
        let state = Arc::new(AtomicU8::new(READER_OPEN));
        let theirs = Arc::clone(&state);
        std::thread::Builder::new().name("input".into()).spawn(move || {
            while theirs.load(Ordering::Acquire) != READER_STOPPED {
                if theirs.load(Ordering::Acquire) == READER_PAUSED {
                    std::thread::park_timeout(Duration::from_millis(50));
                    continue;
                }
                let received = match crossterm::event::poll(Duration::from_millis(250)) {
                    Ok(false) => continue,
                    Ok(true) => crossterm::event::read(),
                    Err(error) => Err(error),
                };
                // A console that cannot be read will not come back.
                let gone = received.is_err();
                let input = received.map_or(Input::Gone, Input::Event);
                if events.blocking_send(input).is_err() || gone {
                    return;
                }
            }
        })?;
        Ok(Self { state })
    }

    /// Leaves the console to another program until [`InputThread::resume`].
    pub fn pause(&self) {
        self.state.store(READER_PAUSED, Ordering::Release);
    }

    /// Reads again.
    pub fn resume(&self) -> io::Result<()> {
        self.state.store(READER_OPEN, Ordering::Release);
        Ok(())
    }
}

impl Drop for InputThread {
    fn drop(&mut self) {
        self.state.store(READER_STOPPED, Ordering::Release);
    }
}
