//! Lines of stdin: what the user enters at the terminal of this process, or what comes in a pipe. An
//! answer is a line that was entered after its question was shown; what was typed before answers
//! nothing.

use std::collections::VecDeque;
#[cfg(not(unix))]
use std::io::BufRead as _;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{MutexGuard, Notify};

use super::output;

/// Lines of stdin, read on a dedicated thread while somebody waits for one: a blocking read cannot
/// be cancelled.
#[derive(Clone, Default)]
pub struct StdinLines(Arc<TypedReader>);

impl StdinLines {
    /// Waits for its turn to ask: one at a time does, for as long as it keeps the lines.
    pub async fn open(&self) -> OpenLines<'_> {
        OpenLines { reader: &self.0, _turn: self.0.turn.lock().await }
    }

    /// Takes the oldest line that answered nothing; `None` at the end of stdin.
    #[cfg(feature = "chat")]
    pub async fn next(&self) -> Option<String> {
        let lines = self.open().await;
        lines.reader.take(EnteredLines::oldest).await
    }
}

/// The lines of stdin, for whoever asks now.
pub struct OpenLines<'a> {
    reader: &'a Arc<TypedReader>,
    _turn: MutexGuard<'a, ()>,
}

impl OpenLines<'_> {
    /// Writes a question, if there is one, and reads the next line that is entered after the last
    /// question; `None` at the end of stdin.
    pub async fn ask(&mut self, question: Option<&str>) -> Option<String> {
        if let Some(question) = question {
            let mut entered = self.reader.entered.lock();
            entered.set_aside();
            output::complain(question);
        }
        self.reader.take(EnteredLines::answer).await
    }
}

/// Forgets what was typed and is not read yet, so that it does not answer the question that follows.
/// Does nothing where stdin is no terminal.
pub fn forget_typed() {
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush);
}

#[derive(Default)]
struct TypedReader {
    /// Held by the one that asks.
    turn: tokio::sync::Mutex<()>,
    entered: Mutex<EnteredLines>,
    /// Somebody waits for a line.
    wanted: Condvar,
    /// A line came, or the end.
    came: Notify,
}

impl TypedReader {
    /// Waits for a line, or the end.
    async fn take(
        self: &Arc<Self>,
        line: impl Fn(&mut EnteredLines) -> Option<String>,
    ) -> Option<String> {
        loop {
            {
                let mut entered = self.entered.lock();
                let line = line(&mut entered);
                if line.is_some() || entered.is_over {
                    return line;
                }
                entered.is_wanted = true;
                if !std::mem::replace(&mut entered.is_read, true) {
                    let reader = Arc::clone(self);
                    std::thread::spawn(move || reader.read());
                }
                self.wanted.notify_one();
            }
            self.came.notified().await;
        }
    }

    fn read(&self) {
        loop {
            let mut entered = self.entered.lock();
            if entered.is_over {
                return;
            }
            while !entered.is_wanted {
                self.wanted.wait(&mut entered);
            }
            drop(entered);
            read_more(&self.entered);
            // Who waits looks, and wants more where it was no line for it.
            self.entered.lock().is_wanted = false;
            self.came.notify_one();
        }
    }
}

/// What was entered.
#[derive(Default)]
struct EnteredLines {
    /// Lines that nobody took yet, oldest first.
    waiting: VecDeque<String>,
    /// How many of them are older than the last question.
    older: usize,
    /// The beginning of the next line.
    begun: Vec<u8>,
    /// Whether somebody waits for a line.
    is_wanted: bool,
    /// Whether there is a thread that reads.
    is_read: bool,
    /// Whether stdin has ended.
    is_over: bool,
}

impl EnteredLines {
    /// Keeps what was typed so far from answering the question that follows. Whole lines wait on.
    fn set_aside(&mut self) {
        #[cfg(unix)]
        while !self.is_over && is_input_there(Some(&rustix::event::Timespec::default())) {
            self.read();
        }
        forget_typed();
        self.begun.clear();
        self.older = self.waiting.len();
    }

    fn answer(&mut self) -> Option<String> {
        self.waiting.remove(self.older)
    }

    #[cfg(feature = "chat")]
    fn oldest(&mut self) -> Option<String> {
        let line = self.waiting.pop_front();
        self.older = self.older.saturating_sub(1);
        line
    }

    /// Adds what was read; nothing is the end.
    fn add(&mut self, bytes: &[u8]) {
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.end_line();
            }
        }
        if bytes.is_empty() {
            self.is_over = true;
            if !self.begun.is_empty() {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.begun);
        let line = String::from_utf8_lossy(&line);
        let line = line.strip_suffix('\n').unwrap_or(&line);
        self.waiting.push_back(line.strip_suffix('\r').unwrap_or(line).to_owned());
    }

    /// Reads what is there.
    #[cfg(unix)]
    fn read(&mut self) {
        let mut bytes = [0; 4_096];
        match rustix::io::read(std::io::stdin(), &mut bytes) {
            Ok(count) => self.add(&bytes[..count]),
            Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
            Err(_) => self.add(&[]),
        }
    }
}

/// Whether something can be read, or the end; waits for it without a time.
#[cfg(unix)]
fn is_input_there(wait: Option<&rustix::event::Timespec>) -> bool {
    use rustix::event::{PollFd, PollFlags, poll};
    let stdin = std::io::stdin();
    match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], wait) {
        Ok(count) => count > 0,
        Err(error) => error != rustix::io::Errno::INTR,
    }
}

/// Waits for more and reads it. Whoever asks may read it first: then there is nothing.
#[cfg(unix)]
fn read_more(entered: &Mutex<EnteredLines>) {
    if is_input_there(None) {
        let mut entered = entered.lock();
        if is_input_there(Some(&rustix::event::Timespec::default())) {
            entered.read();
        }
    }
}

#[cfg(not(unix))]
fn read_more(entered: &Mutex<EnteredLines>) {
    let mut line = Vec::new();
    let _ = std::io::stdin().lock().read_until(b'\n', &mut line);
    entered.lock().add(&line);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_in_pieces_is_one_and_the_last_needs_no_end() {
        let mut entered = EnteredLines::default();
        for part in ["on", "e\r\ntwo\nth", "r", "ee"] {
            entered.add(part.as_bytes());
        }
        entered.add(&[]);
        assert_eq!(entered.waiting, ["one", "two", "three"]);
        assert!(entered.is_over);
    }
}
