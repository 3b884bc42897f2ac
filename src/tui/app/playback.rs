//! Playback of a recording: the slider under the tabs, the marks in the header, and its actions.

use crate::action::PlayAction;
use crate::model::Model;
use crate::pane::Cx;
use crate::player::PlayCommand;
use crate::prelude::*;
use crate::widget::Pen;

/// Cells before the slider.
const SLIDER_COLUMN: u16 = 46;

/// The player command of an action.
pub(super) const fn play(action: PlayAction) -> PlayCommand {
    match action {
        PlayAction::Pause => PlayCommand::Pause,
        PlayAction::Faster => PlayCommand::Speed(true),
        PlayAction::Slower => PlayCommand::Speed(false),
        PlayAction::Later => PlayCommand::Step(true),
        PlayAction::Earlier => PlayCommand::Step(false),
        PlayAction::NextError => PlayCommand::Error(true),
        PlayAction::PreviousError => PlayCommand::Error(false),
    }
}

/// Draws the line under the tabs during playback: time, speed and slider.
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
    pen.clip(text, SLIDER_COLUMN.saturating_sub(4), cx.style(Role::Text));
    let cells = area.width.saturating_sub(SLIDER_COLUMN + 1);
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
        pen.column(SLIDER_COLUMN + cell).clip(sign, 1, cx.style(role));
    }
}

/// Header marks for a recording that is being played or made.
pub(super) fn marks(cx: &Cx<'_>, right: &mut Vec<(Ink, Role)>) {
    if let Some(playback) = &cx.model.playback {
        let word = match (playback.is_scrubbed, playback.losses.is_some()) {
            (false, false) => "a recording",
            (true, false) => "a scrubbed recording",
            (false, true) => "a recording, damaged",
            (true, true) => "a scrubbed recording, damaged",
        };
        right.push((ink!("{}", word), Role::Attention));
    }
    if cx.model.recording.is_some() {
        right.push((ink!("{} recording", cx.glyphs.ready), Role::Error));
    }
}

/// The position in the recording, from 0 to 1, of a click on the slider.
pub(super) fn share_at(x: u16, area: Rect) -> Option<f64> {
    let cells = area.width.saturating_sub(SLIDER_COLUMN + 1);
    let cell = x.checked_sub(area.x + SLIDER_COLUMN).filter(|cell| *cell < cells)?;
    Some(f64::from(cell) / f64::from(cells.saturating_sub(1).max(1)))
}
