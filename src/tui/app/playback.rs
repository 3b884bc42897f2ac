//! A recording that is shown: takes its moments, and draws where it stands under the tabs.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{App, Redraw};
use crate::tui::action::Action;
use crate::tui::effect::Effect;
use crate::tui::ink::{Dur, Ink, ink};
use crate::tui::message::Message;
use crate::tui::model::{EngineState, Feed, Model};
use crate::tui::pane::{Cx, PaneId};
use crate::tui::player::{PlayCommand, Played};
use crate::tui::theme::Role;
use crate::tui::widget::Pen;

/// Cells before the slider.
const BEFORE: u16 = 46;
/// Messages, and lines of logs, that are kept while time passes.
const KEPT: u64 = 20_000;

/// Takes another moment of it.
pub(super) fn played(app: &mut App, played: Played, effects: &mut Vec<Effect>) {
    app.model.engine = EngineState::Running;
    app.model.now = played.playback.at;
    app.model.playback = Some(played.playback);
    if let Some(operations) = played.operations {
        app.model.operations = operations;
    }
    if let Some(view) = played.view {
        app.incoming(Message::View(view), effects);
    }
    if let Some(news) = played.news {
        if news.is_whole {
            (app.model.traffic, app.model.logs) = (Feed::default(), Feed::default());
            app.model.activity = crate::tui::model::Activity::default();
            for pane in PaneId::ALL {
                app.panes.get_mut(pane).rewound();
            }
        }
        if let Some(view) = news.view {
            app.incoming(Message::View(view), effects);
        }
        let oldest = |first: u64, next: u64| first.max(next.saturating_sub(KEPT));
        let frames = oldest(app.model.traffic.first(), news.frames.next);
        let logs = oldest(app.model.logs.first(), news.logs.next);
        app.incoming(Message::Traffic(news.frames, frames), effects);
        app.incoming(Message::Logs(news.logs, logs), effects);
        app.incoming(Message::Calls(played.calls), effects);
        app.incoming(Message::Metrics(played.metrics), effects);
    }
    // What was asked then can be answered no more.
    effects.retain(|effect| !matches!(effect, Effect::Bell));
    app.mark(Redraw::Soon);
}

/// Asks the player for what an action means.
pub(super) fn act(action: Action, effects: &mut Vec<Effect>) {
    let command = match action {
        Action::Pause => PlayCommand::Pause,
        Action::Faster => PlayCommand::Speed(true),
        Action::Slower => PlayCommand::Speed(false),
        Action::Later => PlayCommand::Step(true),
        Action::Earlier => PlayCommand::Step(false),
        Action::NextError => PlayCommand::Error(true),
        Action::PreviousError => PlayCommand::Error(false),
        _ => return,
    };
    effects.push(Effect::Play(command));
}

/// The rule under the tabs of a recording: the moment, how fast, and a slider.
pub(super) fn render(cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
    let Some(playback) = &cx.model.playback else { return };
    Pen::new(buf, area).rule(" ", cx.style(Role::Text));
    let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
    let sign = if playback.is_playing { cx.glyphs.arrow } else { cx.glyphs.frozen };
    pen.put(" ", cx.style(Role::Rule)).put(sign, cx.style(Role::Accent)).skip(1);
    if let Some(read) = playback.read {
        let percent = (read * 100.0) as u64;
        pen.put(ink!("reading the recording: {} %", percent), cx.style(Role::Busy));
        return;
    }
    let (span, passed) = (playback.end.since(playback.began), playback.at.since(playback.began));
    let speed = if playback.speed >= 1.0 {
        ink!("{}x", playback.speed as u64)
    } else {
        ink!("1/{}x", (1.0 / playback.speed) as u64)
    };
    let text =
        ink!("{}  +{} of {}  {} ", Model::time_of_day(playback.at), Dur(passed), Dur(span), speed);
    pen.clip(text, BEFORE.saturating_sub(4), cx.style(Role::Text));
    let cells = area.width.saturating_sub(BEFORE + 1);
    if cells < 4 {
        return;
    }
    let share = passed.as_secs_f64() / span.as_secs_f64().max(1e-6);
    let knob = (share.clamp(0.0, 1.0) * f64::from(cells - 1)).round() as u16;
    for cell in 0..cells {
        let (sign, role) = match cell.cmp(&knob) {
            std::cmp::Ordering::Less => (cx.glyphs.spans[1], Role::Accent),
            std::cmp::Ordering::Equal => (cx.glyphs.ready, Role::Accent),
            std::cmp::Ordering::Greater => (cx.glyphs.horizontal, Role::Rule),
        };
        pen.column(BEFORE + cell).clip(sign, 1, cx.style(role));
    }
}

/// What the header says of a recording, or of one that is made.
pub(super) fn marks(cx: &Cx<'_>, right: &mut Vec<(Ink, Role)>) {
    if let Some(playback) = &cx.model.playback {
        let word = if playback.is_scrubbed { "a scrubbed recording" } else { "a recording" };
        right.push((ink!("{}", word), Role::Attention));
    }
    if cx.model.recording.is_some() {
        right.push((ink!("{} recording", cx.glyphs.ready), Role::Error));
    }
}

/// The share of the recording that a click on the slider means.
pub(super) fn share_at(x: u16, area: Rect) -> Option<f64> {
    let cells = area.width.saturating_sub(BEFORE + 1);
    let cell = x.checked_sub(area.x + BEFORE).filter(|cell| *cell < cells)?;
    Some(f64::from(cell) / f64::from(cells.saturating_sub(1).max(1)))
}
