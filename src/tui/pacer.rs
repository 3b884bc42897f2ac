//! When to draw: at most 60 frames a second for input, 30 for telemetry, none if idle. Pure.

use std::time::Duration;

use tokio::time::Instant;

use crate::pane::Redraw;

/// Shortest time between frames caused by input.
const INPUT_FRAME_INTERVAL: Duration = Duration::from_micros(16_666);
/// Shortest time between frames caused by telemetry.
const TELEMETRY_FRAME_INTERVAL: Duration = Duration::from_micros(33_333);

/// Remembers the last frame.
#[derive(Debug, Default)]
pub struct Pacer {
    last: Option<Instant>,
}

impl Pacer {
    /// When the next frame is due; `None` when none is wanted.
    pub fn due(&self, wanted: Redraw, now: Instant) -> Option<Instant> {
        let pause = match wanted {
            Redraw::None => return None,
            Redraw::Soon => TELEMETRY_FRAME_INTERVAL,
            Redraw::Now => INPUT_FRAME_INTERVAL,
        };
        Some(self.last.map_or(now, |last| (last + pause).max(now)))
    }

    /// Records that a frame was drawn.
    pub fn drawn(&mut self, now: Instant) {
        self.last = Some(now);
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
    fn input_waits_for_a_sixtieth_and_telemetry_for_a_thirtieth_of_a_second() {
        let now = Instant::now();
        let mut pacer = Pacer::default();
        pacer.drawn(now);
        assert_eq!(pacer.due(Redraw::Now, now), Some(now + INPUT_FRAME_INTERVAL));
        assert_eq!(pacer.due(Redraw::Soon, now), Some(now + TELEMETRY_FRAME_INTERVAL));
        let later = now + Duration::from_secs(1);
        assert_eq!(pacer.due(Redraw::Now, later), Some(later));
    }
}
