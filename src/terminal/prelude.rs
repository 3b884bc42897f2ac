//! The names nearly every file here uses: safe text, geometry and styles.

pub use std::sync::Arc;

pub use ratatui::buffer::Buffer;
pub use ratatui::layout::{Position, Rect};
pub use ratatui::style::Style;

pub use crate::ink::{Ink, ink};
pub use crate::theme::Role;
pub use base::text::SafeText;
