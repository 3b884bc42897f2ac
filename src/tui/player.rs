//! The thread that plays a recording: what the engine's thread is for servers that run. Reads the
//! file, lets its time pass, and goes where the person wants.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Instant;

use crate::deck::{News, PlayedPart, Player, RecordedOperations, Scan};
use crate::error::{Error, ErrorCode};
use crate::tui::model::Playback;
use crate::tui::prelude::*;

/// What a person wants of a recording.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlayCommand {
    /// Let time pass, or stop it.
    Pause,
    /// Twice as fast, or half.
    Speed(/** Whether faster. */ bool),
    /// A step on, or back.
    Step(/** Whether onward. */ bool),
    /// To the next error, or the one before.
    Error(/** Whether onward. */ bool),
    /// To this share of the recording, from 0 to 1.
    To(f64),
}

/// What is to be seen of a recording at a moment.
#[derive(Debug, Default)]
pub struct Played {
    /// Where it is.
    pub playback: Playback,
    /// Whether the news replaces messages and lines that came before.
    pub is_whole: bool,
    /// What happened; a view alone while the file is being read.
    pub news: Vec<News>,
    /// Every operation, once.
    pub operations: Option<Arc<RecordedOperations>>,
}

/// Pause between two steps while time passes.
const ROUND: Duration = Duration::from_millis(33);
/// Messages, and lines of logs, that are kept while time passes.
const KEPT: u64 = 20_000;
/// Pause between two reports of how much of the file was read.
const TELL: Duration = Duration::from_millis(100);
/// Slowest and fastest, times the time that passed then.
const SPEEDS: (f64, f64) = (1.0 / 16.0, 1024.0);

/// Plays until `tell` returns false or the sender of the commands is gone.
pub fn play(
    name: SafeText,
    mut scan: Scan,
    commands: &Receiver<PlayCommand>,
    tell: &dyn Fn(Result<Box<Played>, Error>) -> bool,
) {
    let failed = |error: std::io::Error| {
        let text = format!("the recording cannot be read: {error}");
        tell(Err(Error::new(ErrorCode::Configuration, text)));
    };
    let mut playback = Playback { name, began: scan.header().began, ..Playback::default() };
    playback.is_scrubbed = scan.header().scrubbed;
    playback.speed = 1.0;
    let mut sent = Instant::now();
    loop {
        // What is wanted of a recording that is still being read is not kept.
        if commands.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        match scan.advance() {
            Ok(true) if sent.elapsed() < TELL => {}
            Ok(true) => {
                sent = Instant::now();
                let (read, view) = scan.so_far();
                playback.read = Some(read);
                playback.at = view.at.max(playback.began);
                let news = vec![News::View(Arc::new(view.clone()))];
                let played = Played { playback: playback.clone(), news, ..Played::default() };
                if !tell(Ok(Box::new(played))) {
                    return;
                }
            }
            Ok(false) => break,
            Err(error) => return failed(error),
        }
    }
    let player = scan.finish();
    playback.read = None;
    (playback.began, playback.end) = player.span();
    let mut running = PlayerState { player, playback, operations_sent: false };
    let mut next = running.player.seek(running.playback.end);
    loop {
        let moment = match next {
            Ok(moment) => moment,
            Err(error) => return failed(error),
        };
        if !tell(Ok(Box::new(running.report(moment)))) {
            return;
        }
        next = match running.wait(commands) {
            Some(next) => next,
            None => return,
        };
    }
}

struct PlayerState {
    player: Player,
    playback: Playback,
    operations_sent: bool,
}

impl PlayerState {
    fn report(&mut self, moment: PlayedPart) -> Played {
        self.playback.at = self.player.at();
        let first = !std::mem::replace(&mut self.operations_sent, true);
        let oldest = |next: u64| next.saturating_sub(KEPT);
        let (frames, logs) = (moment.frames, moment.logs);
        let mut news: Vec<News> = moment.view.map(News::View).into_iter().collect();
        let (oldest_frame, oldest_line) = (oldest(frames.next), oldest(logs.next));
        news.extend([
            News::Traffic(frames, oldest_frame),
            News::Logs(logs, oldest_line),
            News::Calls(self.player.calls()),
            News::Metrics(self.player.metrics()),
        ]);
        Played {
            playback: self.playback.clone(),
            is_whole: moment.is_whole,
            news,
            operations: first.then(|| Arc::clone(self.player.operations())),
        }
    }

    /// Waits for a command, or for time to pass; gives what is to be seen then, nothing at the end.
    fn wait(&mut self, commands: &Receiver<PlayCommand>) -> Option<std::io::Result<PlayedPart>> {
        let began = Instant::now();
        let command = if self.playback.is_playing {
            commands.recv_timeout(ROUND)
        } else {
            commands.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        let passed = began.elapsed().mul_f64(self.playback.speed);
        let (start, end) = self.player.span();
        let at = self.player.at();
        let step =
            (end.since(start) / 50).clamp(Duration::from_millis(10), Duration::from_secs(10));
        let to = match command {
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) => {
                let to = at.plus(passed);
                self.playback.is_playing = to < end;
                return Some(self.player.advance(to));
            }
            Ok(PlayCommand::Pause) => {
                self.playback.is_playing = !self.playback.is_playing;
                // From the end it begins again.
                if self.playback.is_playing && at >= end { start } else { at }
            }
            Ok(PlayCommand::Speed(faster)) => {
                let factor = if faster { 2.0 } else { 0.5 };
                self.playback.speed = (self.playback.speed * factor).clamp(SPEEDS.0, SPEEDS.1);
                at
            }
            Ok(PlayCommand::Step(true)) => at.plus(step),
            Ok(PlayCommand::Step(false)) => Timestamp(at.0.saturating_sub(step.as_micros() as u64)),
            Ok(PlayCommand::Error(onward)) => {
                self.playback.is_playing = false;
                self.player.error(onward).unwrap_or(at)
            }
            Ok(PlayCommand::To(share)) => {
                start.plus(end.since(start).mul_f64(share.clamp(0.0, 1.0)))
            }
        };
        let near = to >= at && to.since(at) <= step;
        Some(if near { self.player.advance(to) } else { self.player.seek(to) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_that_nobody_looks_at_any_more_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let header = r#"{"type":"header","version":1,"product":"p","began":1000}"#;
        std::fs::write(&path, header.to_owned() + "\n").unwrap();
        let scan = Scan::open(&path).unwrap();
        let (sender, commands) = std::sync::mpsc::channel();
        drop(sender);
        play(SafeText::line("a"), scan, &commands, &|_| panic!("it was read"));
    }
}
