//! The terminal: acquired when the dashboard starts, restored in every case.
//!
//! Owns raw mode, alternate screen, mouse, paste and focus reporting. Restoring is idempotent and
//! safe to call from a panic hook; a panic on any other thread does not touch the terminal.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ThreadId;

use crossterm::cursor::{Hide, Show};
use crossterm::event::{
    DisableBracketedPaste, DisableFocusChange, DisableMouseCapture, EnableBracketedPaste,
    EnableFocusChange, EnableMouseCapture,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::Backend as _;

use crate::cluster::DrawnClusters;
use crate::encode::Ansi;
use crate::graphics::{Placed, Placement};
use crate::prelude::*;

/// Collects a frame, which is then written at once.
type FrameTerminal = Terminal<Ansi<Vec<u8>>>;

/// Room for a frame that changes most of a large screen, in bytes.
const FRAME_CAPACITY: usize = 1 << 16;

/// Whether we hold the terminal now.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while the dashboard holds it.
pub struct TerminalSession {
    screen: FrameTerminal,
    pictures: Placed,
    clusters: DrawnClusters,
    /// The size of the last frame.
    drawn: Rect,
}

/// Whether standard input and output are a terminal.
pub fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

impl TerminalSession {
    /// Acquires the terminal.
    pub fn enter() -> io::Result<Self> {
        let backend = Ansi(Vec::with_capacity(FRAME_CAPACITY));
        take()?;
        match Terminal::new(backend) {
            Ok(screen) => Ok(Self {
                screen,
                pictures: Placed::default(),
                clusters: DrawnClusters::default(),
                drawn: Rect::ZERO,
            }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Releases the terminal temporarily: for the shell, an editor.
    pub fn leave(&mut self) -> io::Result<()> {
        let flushed = self.forget_pictures();
        restore();
        flushed
    }

    /// Acquires it again; the next frame is drawn in full.
    pub fn resume(&mut self) -> io::Result<()> {
        take()?;
        self.redraw()
    }

    /// Forces the next frame to be drawn in full.
    pub fn redraw(&mut self) -> io::Result<()> {
        self.forget_pictures()?;
        // Not `clear`: it queries the cursor position, and the reply would arrive among the keys.
        let size = self.screen.size()?;
        self.screen.resize(size.into())
    }

    /// The size of the terminal in cells.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        self.screen.size().map(|size| (size.width, size.height))
    }

    /// Forgets pictures that are no longer on the screen, or must be drawn again.
    fn forget_pictures(&mut self) -> io::Result<()> {
        let bytes = self.pictures.forget();
        self.write(&bytes)
    }

    /// Draws one frame in one write, inside a synchronized update: the cells that `paint` fills, and
    /// the pictures that `place` puts on a screen of this size. Writes nothing where neither differs
    /// from what is shown.
    pub fn draw(
        &mut self,
        place: impl FnOnce(Rect) -> Vec<Placement>,
        paint: impl FnOnce(Rect, &mut Buffer),
    ) -> io::Result<()> {
        let waiting = self.frame().len();
        queue!(self.frame(), BeginSynchronizedUpdate)?;
        let begun = self.frame().len();
        let size = Rect::from((Position::ORIGIN, self.screen.size()?));
        if size != self.drawn {
            // A size change clears the cells, and with them the pictures.
            let bytes = self.pictures.forget();
            self.frame().extend_from_slice(&bytes);
            self.drawn = size;
        }
        let pictures = place(size);
        let bytes = self.pictures.take_away(&pictures);
        self.frame().extend_from_slice(&bytes);
        let drawn = self.screen.draw(|frame| paint(frame.area(), frame.buffer_mut()))?;
        let again = self.clusters.follow(drawn.buffer);
        if !again.is_empty() {
            let cells = again.iter().map(|(at, cell)| (at.x, at.y, cell));
            self.screen.backend_mut().draw(cells)?;
        }
        let bytes = self.pictures.put(pictures);
        self.frame().extend_from_slice(&bytes);
        if waiting == 0 && self.frame().len() == begun {
            self.frame().clear();
            return Ok(());
        }
        queue!(self.frame(), EndSynchronizedUpdate)?;
        let mut bytes = std::mem::take(self.frame());
        self.write(&bytes)?;
        bytes.clear();
        bytes.shrink_to(FRAME_CAPACITY);
        *self.frame() = bytes;
        Ok(())
    }

    /// Writes something that is not a frame: a bell, the clipboard.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        out.flush()
    }

    /// The bytes of the next frame so far.
    fn frame(&mut self) -> &mut Vec<u8> {
        &mut self.screen.backend_mut().0
    }
}

impl Drop for TerminalSession {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    TAKEN.store(true, Ordering::SeqCst);
    let taken = execute!(
        io::stdout(),
        EnterAlternateScreen,
        EnableMouseCapture,
        EnableBracketedPaste,
        EnableFocusChange,
        Hide
    );
    if taken.is_err() {
        restore();
    }
    taken
}

/// Restores the terminal if it was acquired; errors are ignored, as nothing can be done.
pub fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(
        io::stdout(),
        EndSynchronizedUpdate,
        Show,
        DisableFocusChange,
        DisableBracketedPaste,
        DisableMouseCapture,
        LeaveAlternateScreen
    );
    let _ = disable_raw_mode();
}

/// Installs the panic hook. On the thread that draws (the calling one) it restores the terminal
/// before the message is printed; in a task or on another thread it leaves the terminal alone and
/// the message goes to `report`.
pub fn catch_panics(report: impl Fn(SafeText) + Send + Sync + 'static) {
    let (ui, previous) = (std::thread::current().id(), std::panic::take_hook());
    std::panic::set_hook(Box::new(move |info| {
        if !reported(ui, &report, info) {
            previous(info);
        }
    }));
}

/// Returns whether the message was reported.
fn reported(
    ui: ThreadId,
    report: &impl Fn(SafeText),
    info: &std::panic::PanicHookInfo<'_>,
) -> bool {
    // A task may share the UI thread, but its panic ends only the task.
    let in_task = tokio::task::try_id().is_some();
    if std::thread::current().id() == ui && !in_task {
        restore();
        return false;
    }
    let text = SafeText::line(&info.to_string());
    tracing::error!(panic = text.as_str(), "a worker panicked");
    report(text);
    true
}
