//! The thread that plays a recording: what the engine's thread is for servers that run. Reads the
//! file, lets its time pass, and goes where the person wants.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Instant;

use crate::deck::recording::{News, Player, Scan};
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
    /// What happened; nothing while the file is being read.
    pub news: Option<News>,
    /// A view while the file is being read.
    pub view: Option<Arc<crate::host::HostView>>,
    /// Every operation, once.
    pub operations: Option<Arc<crate::deck::recording::Operations>>,
    /// Calls in flight.
    pub calls: Vec<crate::host::call::CallView>,
    /// Metrics as of now.
    pub metrics: Vec<(ServerName, crate::host::metrics::ServerMetrics)>,
}

/// Pause between two steps while time passes.
const ROUND: Duration = Duration::from_millis(33);
/// Pause between two words about how much of the file was read.
const TELL: Duration = Duration::from_millis(100);
/// Slowest and fastest, times the time that passed then.
const SPEEDS: (f64, f64) = (1.0 / 16.0, 1024.0);

/// Plays until `tell` gives false or nobody can command any more.
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
        match scan.advance() {
            Ok(true) if sent.elapsed() < TELL => {}
            Ok(true) => {
                sent = Instant::now();
                let (read, view) = scan.so_far();
                playback.read = Some(read);
                playback.at = view.at.max(playback.began);
                let view = Some(Arc::new(view.clone()));
                let played = Played { playback: playback.clone(), view, ..Played::default() };
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
    let mut running = Running { player, playback, operations_told: false };
    let mut next = running.player.seek(running.playback.end);
    loop {
        let news = match next {
            Ok(news) => news,
            Err(error) => return failed(error),
        };
        if !tell(Ok(Box::new(running.report(news)))) {
            return;
        }
        next = match running.wait(commands) {
            Some(next) => next,
            None => return,
        };
    }
}

struct Running {
    player: Player,
    playback: Playback,
    operations_told: bool,
}

impl Running {
    fn report(&mut self, news: News) -> Played {
        self.playback.at = self.player.at();
        let first = !std::mem::replace(&mut self.operations_told, true);
        Played {
            playback: self.playback.clone(),
            news: Some(news),
            view: None,
            operations: first.then(|| Arc::clone(self.player.operations())),
            calls: self.player.calls(),
            metrics: self.player.metrics(),
        }
    }

    /// Waits for a command, or for time to pass; gives what is to be seen then, nothing at the end.
    fn wait(&mut self, commands: &Receiver<PlayCommand>) -> Option<std::io::Result<News>> {
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
