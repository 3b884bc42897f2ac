//! The names nearly every file here uses: who and when, values and text that is safe to draw,
//! where it stands and how it looks, what the person wants. Only what names nothing else of the
//! dashboard, so that the imports of a file still tell which of its parts belong together.

pub use std::sync::Arc;
pub use std::time::Duration;

pub use ratatui::buffer::Buffer;
pub use ratatui::layout::{Position, Rect};
pub use ratatui::style::Style;
pub use serde_json::Value;

pub use crate::base::text::SafeText;
pub use crate::base::{ServerName, Timestamp};
pub use crate::tui::action::Action;
pub use crate::tui::ink::{Bytes, Dur, Ink, count, ink};
pub use crate::tui::theme::Role;
