//! The terminal: taken when the dashboard starts, given back in every case.
//!
//! Owns raw mode, alternate screen, mouse, paste and focus reporting. Restoring is idempotent and
//! safe to call from a panic hook; a panic on any other thread does not touch the terminal.

use std::io::{self, BufWriter, IsTerminal, Write};
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
use parking_lot::Mutex;
use ratatui::Terminal;
use tokio::sync::mpsc;

use crate::tui::app::App;
use crate::tui::backend::Ansi;
use crate::tui::graphics::Placed;
use crate::tui::message::Message;
use crate::tui::prelude::*;

type Screen = Terminal<Ansi<BufWriter<io::Stdout>>>;
type Hook = Box<dyn Fn(&std::panic::PanicHookInfo<'_>) + Sync + Send + 'static>;

/// Whether the terminal is ours now.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal while the dashboard has it.
pub struct Session {
    screen: Screen,
    pictures: Placed,
    /// The size of the last frame.
    drawn: Rect,
}

/// Why the terminal cannot be used, in words for the person.
pub fn refuse_terminal(term: Option<&str>) -> Option<&'static str> {
    if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
        Some("the dashboard needs a terminal on stdin and stdout; `mcpdeck --check` does not")
    } else if term == Some("dumb") {
        Some("this terminal (TERM=dumb) cannot show the dashboard; `mcpdeck --check` needs none")
    } else {
        None
    }
}

impl Session {
    /// Takes the terminal.
    pub fn enter() -> io::Result<Self> {
        let backend = Ansi::new(BufWriter::with_capacity(1 << 16, io::stdout()));
        take()?;
        match Terminal::new(backend) {
            Ok(screen) => Ok(Self { screen, pictures: Placed::default(), drawn: Rect::ZERO }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Gives the terminal back for a while: the shell, an editor.
    pub fn leave(&mut self) -> io::Result<()> {
        let flushed = self.forget_pictures();
        restore();
        flushed
    }

    /// Takes it again; the next frame is drawn whole.
    pub fn resume(&mut self) -> io::Result<()> {
        take()?;
        self.redraw()
    }

    /// The next frame is drawn whole.
    pub fn redraw(&mut self) -> io::Result<()> {
        self.forget_pictures()?;
        // Not `clear`: it asks the terminal for the cursor, and the answer comes among the keys.
        let size = self.screen.size()?;
        self.screen.resize(size.into())
    }

    /// The size of the terminal in cells.
    pub fn size(&self) -> io::Result<(u16, u16)> {
        self.screen.size().map(|size| (size.width, size.height))
    }

    /// What is on the screen is not there any more, or is to be drawn whole.
    fn forget_pictures(&mut self) -> io::Result<()> {
        let bytes = self.pictures.forget();
        self.write(&bytes)
    }

    /// Draws one frame in one write, inside a synchronized update.
    pub fn draw(&mut self, app: &App) -> io::Result<()> {
        queue!(self.screen.backend_mut(), BeginSynchronizedUpdate)?;
        let size = Rect::from((Position::ORIGIN, self.screen.size()?));
        if size != self.drawn {
            // The cells are cleared when the size changes, and what stands on them.
            let bytes = self.pictures.forget();
            self.screen.backend_mut().write_all(&bytes)?;
            self.drawn = size;
        }
        let pictures = app.placements(size);
        let bytes = self.pictures.take_away(&pictures);
        self.screen.backend_mut().write_all(&bytes)?;
        self.screen.draw(|frame| {
            crate::tui::fault::in_render();
            app.render(frame.area(), frame.buffer_mut());
        })?;
        let bytes = self.pictures.put(pictures);
        self.screen.backend_mut().write_all(&bytes)?;
        execute!(self.screen.backend_mut(), EndSynchronizedUpdate)
    }

    /// Writes something that is not a frame: a bell, the clipboard.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let backend = self.screen.backend_mut();
        backend.write_all(bytes)?;
        backend.flush()
    }
}

impl Drop for Session {
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

/// Gives the terminal back if it was taken; errors are of no use any more.
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

/// Panics while the dashboard runs: where the screen is drawn the terminal is restored first, then
/// the message is printed; in a task or on any other thread the terminal is left alone and the
/// message becomes an event.
pub struct PanicGuard {
    previous: Arc<Mutex<Option<Hook>>>,
}

impl PanicGuard {
    /// Installs the hook for the calling thread.
    pub fn install(events: mpsc::Sender<Message>) -> Self {
        let ui = std::thread::current().id();
        let previous = Arc::new(Mutex::new(Some(std::panic::take_hook())));
        let theirs = Arc::clone(&previous);
        std::panic::set_hook(Box::new(move |info| panicked(ui, &theirs, &events, info)));
        Self { previous }
    }
}

impl Drop for PanicGuard {
    fn drop(&mut self) {
        // The hook cannot be changed while its thread panics; the program ends then anyway.
        if !std::thread::panicking() {
            let _ = std::panic::take_hook();
            let previous = self.previous.lock().take();
            if let Some(previous) = previous {
                std::panic::set_hook(previous);
            }
        }
    }
}

fn panicked(
    ui: ThreadId,
    previous: &Mutex<Option<Hook>>,
    events: &mpsc::Sender<Message>,
    info: &std::panic::PanicHookInfo<'_>,
) {
    // A task shares its thread with the screen, and its panic ends nothing but the task.
    let in_task = tokio::task::try_id().is_some();
    if std::thread::current().id() == ui && !in_task {
        restore();
        if let Some(previous) = &*previous.lock() {
            previous(info);
        }
        return;
    }
    let text = SafeText::line(&info.to_string());
    tracing::error!(panic = text.as_str(), "a worker panicked");
    // A full queue only loses the words; the log has them.
    let _ = events.try_send(Message::WorkerPanicked(text));
}
