//! Keyboard, mouse, paste and focus as events. Owns the input thread; knows nothing of the app.
//!
//! On Unix the bytes are read and decoded here instead of by crossterm, whose reader busy-loops
//! when the terminal is gone: here a hang-up is an ordinary event.

mod decode;
#[cfg(unix)]
mod unix;
#[cfg(not(unix))]
mod windows;

pub use decode::Decoder;
#[cfg(unix)]
pub use unix::InputThread;
#[cfg(not(unix))]
pub use windows::InputThread;

/// What the input thread reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A key, a mouse event, a paste, a change of focus.
    Event(crossterm::event::Event),
    /// The terminal replied to one of our queries.
    Reply(crate::graphics::TerminalReply),
    /// The terminal hung up; nothing more will come.
    Gone,
}
