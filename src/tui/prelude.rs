//! The names nearly every file here uses: identifiers and times, safe values and text, geometry and
//! styles, actions. Only names that depend on nothing else in the dashboard, so that the imports of
//! a file still show which parts belong together.

pub use std::sync::Arc;
pub use std::time::Duration;

pub use ratatui::buffer::Buffer;
pub use ratatui::layout::{Position, Rect};
pub use ratatui::style::Style;
pub use serde_json::Value;

pub use crate::action::Action;
pub use crate::glyph::{EngineGlyphs as _, server_word, state_role, state_word};
pub use base::text::SafeText;
pub use base::{ServerName, Timestamp};
pub use terminal::ink::{Bytes, Dur, Ink, count, ink};
pub use terminal::theme::Role;
