//! The playback thread, which takes the place of the engine's thread. Reads the recording, advances
//! its time, and jumps where the user wants.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Instant;

use crate::model::Playback;
use crate::prelude::*;
use config::error::{Error, ErrorCode};
use deck::{News, PlayedPart, Player, RecordedOperations, Scan};

/// A playback command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PlayCommand {
    /// Play or pause.
    Pause,
    /// Twice as fast, or half.
    Speed(/** Whether faster. */ bool),
    /// A step forward, or back.
    Step(/** Whether onward. */ bool),
    /// To the next error, or the previous one.
    Error(/** Whether onward. */ bool),
    /// To this share of the recording, from 0 to 1.
    To(f64),
}

/// What to show of a recording at a point in time.
#[derive(Debug, Default)]
pub struct Played {
    /// The playback position.
    pub playback: Playback,
    /// Whether the news replaces the earlier messages and log lines.
    pub is_whole: bool,
    /// What happened; while the file is being read, only a view.
    pub news: Vec<News>,
    /// All operations; sent once.
    pub operations: Option<Arc<RecordedOperations>>,
}

/// Interval between steps during playback.
const STEP_INTERVAL: Duration = Duration::from_millis(33);
/// Most messages, and log lines, kept during playback.
const MAX_KEPT_RECORDS: u64 = 20_000;
/// Interval between progress reports while the file is read.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);
/// Slowest and fastest speed, as multiples of the recorded pace.
const SPEEDS: (f64, f64) = (1.0 / 16.0, 1024.0);

/// Plays until `tell` returns false or the sender of `commands` is dropped.
pub fn play(
    name: SafeText,
    mut scan: Scan,
    commands: &Receiver<PlayCommand>,
    report: &dyn Fn(Result<Box<Played>, Error>) -> bool,
) {
    let failed = |error: std::io::Error| {
        let text = format!("the recording cannot be read: {error}");
        report(Err(Error::new(ErrorCode::Configuration, text)));
    };
    let mut playback = Playback { name, began: scan.header().began, ..Playback::default() };
    playback.is_scrubbed = scan.header().scrubbed;
    playback.speed = 1.0;
    let mut sent = Instant::now();
    loop {
        // Commands for a recording that is still being read are discarded.
        if commands.try_recv() == Err(TryRecvError::Disconnected) {
            return;
        }
        match scan.advance() {
            Ok(true) if sent.elapsed() < REPORT_INTERVAL => {}
            Ok(true) => {
                sent = Instant::now();
                let (read, view) = scan.so_far();
                playback.read = Some(read);
                playback.at = view.at.max(playback.began);
                let news = vec![News::View(Arc::new(view.clone()))];
                let played = Played { playback: playback.clone(), news, ..Played::default() };
                if !report(Ok(Box::new(played))) {
                    return;
                }
            }
            Ok(false) => break,
            Err(error) => return failed(error),
        }
    }
    playback.losses = scan.losses().map(|words| SafeText::line(&words));
    let player = scan.finish();
    playback.read = None;
    (playback.began, playback.end) = player.span();
    let mut running = PlayerState { player, playback, operations_sent: false };
    // Where something happens: the first error or, without one, the beginning.
    let mut next = running.player.seek(running.playback.began);
    if let Some(error) = next.is_ok().then(|| running.player.error(true)).flatten() {
        next = running.player.seek(error);
    }
    loop {
        let moment = match next {
            Ok(moment) => moment,
            Err(error) => return failed(error),
        };
        if !report(Ok(Box::new(running.report(moment)))) {
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
        let oldest = |next: u64| next.saturating_sub(MAX_KEPT_RECORDS);
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

    /// Waits for a command or the next step; returns what to show then, or `None` at the end.
    fn wait(&mut self, commands: &Receiver<PlayCommand>) -> Option<std::io::Result<PlayedPart>> {
        let began = Instant::now();
        let command = if self.playback.is_playing {
            commands.recv_timeout(STEP_INTERVAL)
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
                // Playing at the end starts over.
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
    fn what_could_not_be_read_of_a_recording_is_told_where_it_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        let header = r#"{"type":"header","version":1,"product":"p","began":1000}"#;
        std::fs::write(&path, format!("{header}\n{{broken\n")).unwrap();
        let scan = Scan::open(&path).unwrap();
        let (_sender, commands) = std::sync::mpsc::channel();
        let told = std::cell::RefCell::new(None);
        play(SafeText::line("a"), scan, &commands, &|played| {
            *told.borrow_mut() = played.unwrap().playback.losses;
            false
        });
        let told = told.into_inner().unwrap();
        assert_eq!(told.as_str(), "a line is broken and was left out");
    }

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
