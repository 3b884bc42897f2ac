//! What the mouse did inside a region.

use crate::prelude::*;

/// What the mouse did inside a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gesture {
    Click(Position),
    /// The second of two clicks.
    DoubleClick(Position),
    /// The wheel, in rows.
    Scroll {
        /// Where.
        at: Position,
        /// Rows; up is negative.
        delta: isize,
    },
}

impl Gesture {
    /// Where it happened.
    pub const fn position(self) -> Position {
        match self {
            Self::Click(at) | Self::DoubleClick(at) | Self::Scroll { at, .. } => at,
        }
    }
}
