//! What drawing and event handling can access: engine state, colours, signs and keys; and mouse
//! gestures. Everything drawn depends on this module, never the reverse.

use crate::glyph::Glyphs;
use crate::graphics::Graphics;
use crate::keymap::{KeyScope, Keymap};
use crate::look::Styles;
use crate::model::Model;
use crate::prelude::*;
use crate::theme::Theme;

/// What drawing can access.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    /// The state of the engine.
    pub model: &'a Model,
    /// Colours.
    pub theme: &'a Theme,
    /// Signs.
    pub glyphs: &'a Glyphs,
    /// Keys in use.
    pub keymap: &'a Keymap,
    /// How pictures are drawn.
    pub graphics: Graphics,
    /// Whether what is drawn has the keyboard focus.
    pub focused: bool,
}

impl Cx<'_> {
    /// The style of a role.
    pub const fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Styles of forms and results. Pictures use pixels only where nothing overlaps them.
    pub fn look(&self) -> Styles {
        let graphics = if self.focused { self.graphics } else { self.graphics.as_blocks() };
        Styles::of(self.theme, self.glyphs.is_ascii(), graphics)
    }

    /// `text` with each `{action}` replaced by its key in these scopes.
    pub fn spelled(&self, scopes: &[KeyScope], text: &'static str) -> Ink {
        self.keymap.spelled(&[scopes, &[KeyScope::List, KeyScope::Global]].concat(), text)
    }

    /// Style of the selected row; `here` is whether its list has the focus within the pane.
    pub const fn selection(&self, here: bool) -> Style {
        if self.focused && here {
            self.style(Role::Selection)
        } else {
            self.style(Role::SelectionInactive)
        }
    }
}

/// What event handling can access: the same as drawing, and the pane's region.
#[derive(Clone, Copy)]
pub struct Ui<'a> {
    /// What drawing sees.
    pub cx: Cx<'a>,
    /// The region of the pane.
    pub area: Rect,
}

impl<'a> std::ops::Deref for Ui<'a> {
    type Target = Cx<'a>;

    fn deref(&self) -> &Cx<'a> {
        &self.cx
    }
}

/// What the mouse did inside a pane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gesture {
    /// One click.
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
