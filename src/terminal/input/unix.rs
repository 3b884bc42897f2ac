//! The input thread on Unix: waits on the terminal and on a pipe that stops or pauses it.

use std::io::{self, PipeReader, PipeWriter};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::mpsc::{self, error::TrySendError};

use crate::input::{Decoder, Input};

/// How long a lone escape waits for the rest of a sequence.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(25);
/// Retry interval while the event queue is full.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);
/// Keys that arrive within this time after a burst belong to it.
const BURST_TIMEOUT: Duration = Duration::from_millis(50);

/// Reads the terminal until it is dropped or the terminal is gone.
pub struct InputThread {
    events: mpsc::Sender<Input>,
    /// The thread ends when the pipe is closed.
    running: Option<(PipeWriter, JoinHandle<()>)>,
}

impl InputThread {
    /// Starts reading standard input. Overflow policy: while `events` is full the thread waits, and
    /// input stays in the terminal's buffer.
    pub fn spawn(events: mpsc::Sender<Input>) -> io::Result<Self> {
        let mut input = Self { events, running: None };
        input.resume()?;
        Ok(input)
    }

    /// Releases the terminal to another program until [`InputThread::resume`]. Input that was read
    /// but did not fit into `events` is lost: it was meant for the screen being left.
    pub fn pause(&mut self) {
        if let Some((open, thread)) = self.running.take() {
            drop(open);
            let _ = thread.join();
        }
    }

    /// Resumes reading.
    pub fn resume(&mut self) -> io::Result<()> {
        let (closed, open) = io::pipe()?;
        let events = self.events.clone();
        let thread = std::thread::Builder::new().name("input".into());
        let thread = thread.spawn(move || read_until_gone(&closed, &events))?;
        self.running = Some((open, thread));
        Ok(())
    }
}

fn read_until_gone(closed: &PipeReader, events: &mpsc::Sender<Input>) {
    let stdin = io::stdin();
    let mut decoder = Decoder::default();
    let mut bytes = [0u8; 4096];
    let mut gathered = Vec::new();
    let mut burst: Option<Instant> = None;
    // Since when incomplete input waits for the rest.
    let mut since = Instant::now();
    loop {
        let mut fds = [PollFd::new(&stdin, PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
        let wait_for = match (gathered.is_empty(), decoder.is_waiting()) {
            (false, _) => Some(PASTE_INTERVAL),
            (true, waiting) => waiting.then(|| ESCAPE_TIMEOUT.saturating_sub(since.elapsed())),
        };
        let timeout = wait_for.and_then(|wait| Timespec::try_from(wait).ok());
        let asked = Instant::now();
        let ready = match poll(&mut fds, timeout.as_ref()) {
            Ok(n) => n,
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => 0,
        };
        // On a busy machine the thread may wake late and read input from after the timeout: those
        // keys were typed one by one, and an escape pending that long was a key by itself.
        let late = if gathered.is_empty() {
            decoder.is_waiting() && since.elapsed() >= ESCAPE_TIMEOUT
        } else {
            asked.elapsed() > 2 * PASTE_INTERVAL
        };
        let ready = if late && decoder.is_alone() { 0 } else { ready };
        let (terminal, end) = (fds[0].revents(), fds[1].revents());
        if !end.is_empty() {
            return;
        }
        let decoded = if ready == 0 && !gathered.is_empty() {
            Vec::new()
        } else if ready == 0 {
            since = Instant::now();
            decoder.flush()
        } else if terminal.contains(PollFlags::IN) {
            match rustix::io::read(&stdin, &mut bytes) {
                Ok(0) => return report_gone(events, closed),
                Ok(n) => {
                    since = Instant::now();
                    decoder.feed(&bytes[..n])
                }
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => continue,
                Err(_) => return report_gone(events, closed),
            }
        } else {
            return report_gone(events, closed);
        };
        for reply in decoder.replies() {
            if !send(Input::Reply(reply), events, closed) {
                return;
            }
        }
        let more = ready > 0 && decoded.last().is_some_and(is_text);
        gathered.extend(decoded);
        // Each key is at least one byte.
        if more && gathered.len() < Decoder::MAX_PASTE_BYTES {
            continue;
        }
        let rest = burst.is_some_and(|at| at.elapsed() < BURST_TIMEOUT);
        let (joined, is_burst) = join(std::mem::take(&mut gathered), rest);
        if is_burst {
            burst = Some(Instant::now());
        }
        for event in joined {
            if !send(Input::Event(event), events, closed) {
                return;
            }
        }
    }
}

fn report_gone(events: &mpsc::Sender<Input>, closed: &PipeReader) {
    send(Input::Gone, events, closed);
}

/// Sends, waiting while `events` is full unless a pause is requested; nothing is read meanwhile.
/// Returns false when the thread must end.
fn send(mut input: Input, events: &mpsc::Sender<Input>, closed: &PipeReader) -> bool {
    loop {
        match events.try_send(input) {
            Ok(()) => return true,
            Err(TrySendError::Closed(_)) => return false,
            Err(TrySendError::Full(unsent)) => input = unsent,
        }
        let timeout = Timespec::try_from(RETRY_INTERVAL).ok();
        let ended = poll(&mut [PollFd::new(closed, PollFlags::IN)], timeout.as_ref());
        if ended.is_ok_and(|n| n > 0) {
            return false;
        }
    }
}

// Bursts of keys: input faster than typing was pasted in a terminal without bracketed paste. It is
// text, never keys. Pure; the input thread collects what arrives within [`PASTE_INTERVAL`].

/// Keys that follow each other within this time were not typed one by one.
pub const PASTE_INTERVAL: Duration = Duration::from_millis(3);
/// Fewer keys than this are no paste: fast typing, a slow line, an escape and a key.
const MIN_PASTE_KEYS: usize = 4;

/// Whether a key like this may be part of a paste.
pub fn is_text(event: &Event) -> bool {
    matches!(
        event,
        Event::Key(KeyEvent { code: KeyCode::Char(_) | KeyCode::Enter | KeyCode::Tab, .. })
    )
}

/// Turns every run of keys that arrived together into one paste. `goes_on` means that such a run
/// arrived a moment ago: keys that follow at once belong to it, however few. Returns the events,
/// and whether they end with such a run.
pub fn join(events: Vec<Event>, goes_on: bool) -> (Vec<Event>, bool) {
    let mut out = Vec::with_capacity(events.len());
    let mut run = Vec::new();
    for event in events {
        match event {
            Event::Key(key) if is_text(&event) => run.push(key),
            other => {
                end(&mut run, goes_on && out.is_empty(), &mut out);
                out.push(other);
            }
        }
    }
    let burst = end(&mut run, goes_on && out.is_empty(), &mut out);
    (out, burst)
}

fn end(run: &mut Vec<KeyEvent>, goes_on: bool, out: &mut Vec<Event>) -> bool {
    let keys = std::mem::take(run);
    // A held key repeats, and arrives in bulk over a slow line.
    let held = keys.iter().all(|key| key == &keys[0] && key.code != KeyCode::Enter);
    if keys.is_empty() || !goes_on && (keys.len() < MIN_PASTE_KEYS || held) {
        out.extend(keys.into_iter().map(Event::Key));
        return false;
    }
    let text = keys.iter().filter_map(|key| match key.code {
        KeyCode::Enter => Some('\n'),
        KeyCode::Tab => Some('\t'),
        KeyCode::Char('j') if key.modifiers == KeyModifiers::CONTROL => Some('\n'),
        KeyCode::Char(_) if key.modifiers.contains(KeyModifiers::CONTROL) => None,
        KeyCode::Char(c) => Some(c),
        _ => None,
    });
    out.push(Event::Paste(text.collect()));
    true
}

#[cfg(test)]
mod burst_tests {
    use super::*;

    fn joined(bytes: &str, goes_on: bool) -> Vec<Event> {
        let mut decoder = crate::input::Decoder::default();
        join(decoder.feed(bytes.as_bytes()), goes_on).0
    }

    #[test]
    fn what_nobody_can_type_so_fast_is_text_and_holds_no_key() {
        for text in ["yes\rplease", "quit", "a\x13b\rc\r", "\r\r\r\r", "x\x1by\rzz", "grün\n"] {
            let events = joined(text, false);
            let [Event::Paste(pasted)] = events.as_slice() else { panic!("{text:?}: {events:?}") };
            assert!(!pasted.contains('\x13'), "{pasted:?}");
        }
        assert!(matches!(joined("q", true).as_slice(), [Event::Paste(_)]), "the rest of a paste");
    }

    #[test]
    fn single_keys_held_keys_and_keys_between_others_stay_keys() {
        for (text, count) in [("q", 1), ("2jj", 3), ("jjjjjjjj", 8), ("ab\x1b[Acd\x1b[B", 6)] {
            let events = joined(text, false);
            assert_eq!(events.len(), count, "{events:?}");
            assert!(events.iter().all(|event| matches!(event, Event::Key(_))), "{events:?}");
        }
    }
}
