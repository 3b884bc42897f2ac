//! The names nearly every file here uses: identifiers and times, safe values and text, geometry and
//! styles, actions. Only names that depend on nothing else in the dashboard, so that the imports of
//! a file still show which parts belong together.

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
