//! When to draw: at most 120 frames a second for input, 30 for telemetry, none if idle. Pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::pane::Redraw;

/// Shortest time between frames caused by input: a key right after another is shown within the sixtieth
/// of a second in which most terminals draw.
const INPUT_FRAME_INTERVAL: Duration = Duration::from_micros(8_333);
/// Shortest time between a frame and the next one caused by telemetry.
const TELEMETRY_FRAME_INTERVAL: Duration = Duration::from_micros(33_333);

/// Remembers the last frames: one for a key does not wait because telemetry was just drawn.
#[derive(Debug, Default)]
pub struct Pacer {
    last: Option<Instant>,
    last_for_input: Option<Instant>,
}

impl Pacer {
    /// When the next frame is due; `None` when none is wanted.
    pub fn due(&self, wanted: Redraw, now: Instant) -> Option<Instant> {
        let (last, pause) = match wanted {
            Redraw::None => return None,
            Redraw::Soon => (self.last, TELEMETRY_FRAME_INTERVAL),
            Redraw::Now => (self.last_for_input, INPUT_FRAME_INTERVAL),
        };
        Some(last.map_or(now, |last| (last + pause).max(now)))
    }

    /// Records that a frame was drawn, and how soon it was wanted.
    pub fn drawn(&mut self, wanted: Redraw, now: Instant) {
        self.last = Some(now);
        if wanted == Redraw::Now {
            self.last_for_input = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_frame_is_due_at_once_and_nothing_is_never_due() {
        let now = Instant::now();
        let pacer = Pacer::default();
        assert_eq!(pacer.due(Redraw::None, now), None);
        assert_eq!(pacer.due(Redraw::Soon, now), Some(now));
    }

    #[test]
    fn input_waits_for_a_120th_and_telemetry_for_a_thirtieth_of_a_second() {
        let now = Instant::now();
        let mut pacer = Pacer::default();
        pacer.drawn(Redraw::Now, now);
        assert_eq!(pacer.due(Redraw::Now, now), Some(now + INPUT_FRAME_INTERVAL));
        assert_eq!(pacer.due(Redraw::Soon, now), Some(now + TELEMETRY_FRAME_INTERVAL));
        let later = now + Duration::from_secs(1);
        assert_eq!(pacer.due(Redraw::Now, later), Some(later));
    }

    #[test]
    fn a_key_beside_a_flood_is_answered_at_once_and_never_more_than_120_times_a_second() {
        let begun = Instant::now();
        let mut pacer = Pacer::default();
        pacer.drawn(Redraw::Soon, begun);
        assert_eq!(pacer.due(Redraw::Now, begun), Some(begun), "telemetry was just drawn");
        let (mut now, mut frames) = (begun, 0);
        let end = begun + Duration::from_secs(1);
        while now < end {
            // Both are wanted all the time, input a little after each frame.
            let soon = pacer.due(Redraw::Soon, now);
            let key = pacer.due(Redraw::Now, now + Duration::from_millis(1));
            let (at, wanted) = if soon < key { (soon, Redraw::Soon) } else { (key, Redraw::Now) };
            now = at.unwrap_or(end);
            pacer.drawn(wanted, now);
            frames += 1;
        }
        assert!(frames <= 121, "{frames}");
    }
}
