//! What drawing and reacting may see: the state of the engine, colours, signs, keys; and what the mouse
//! did. Named by everything that is drawn, and names none of it.

use crate::tui::glyph::Glyphs;
use crate::tui::graphics::Graphics;
use crate::tui::keymap::{KeyScope, Keymap};
use crate::tui::look::Styles;
use crate::tui::model::Model;
use crate::tui::prelude::*;
use crate::tui::theme::Theme;

/// What drawing sees.
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
    /// Whether the keys go to what is drawn.
    pub focused: bool,
}

impl Cx<'_> {
    /// How a role looks.
    pub const fn style(&self, role: Role) -> Style {
        self.theme.style(role)
    }

    /// Styles of forms and results. Pictures are pixels only where nothing lies over them.
    pub fn look(&self) -> Styles {
        let graphics = if self.focused { self.graphics } else { self.graphics.as_blocks() };
        Styles::of(self.theme, self.glyphs.is_ascii(), graphics)
    }

    /// A text of ours with the keys that work in these scopes.
    pub fn spelled(&self, scopes: &[KeyScope], text: &'static str) -> Ink {
        self.keymap.spelled(&[scopes, &[KeyScope::List, KeyScope::Global]].concat(), text)
    }

    /// How the selected row looks; `here`: whether its list has the keys within the pane.
    pub const fn selection(&self, here: bool) -> Style {
        if self.focused && here {
            self.style(Role::Selection)
        } else {
            self.style(Role::SelectionInactive)
        }
    }
}

/// What reacting sees: what drawing does, and where it stands.
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
