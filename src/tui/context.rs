//! What drawing and event handling can access: engine state, colours, signs and keys; and mouse
//! gestures. Everything drawn depends on this module, never the reverse.

use crate::keymap::{KeyScope, Keymap};
use crate::model::Model;
use crate::prelude::*;
use terminal::look::Look;

/// What drawing can access: colours, signs and graphics (through [`Look`]), engine state and keys.
#[derive(Clone, Copy)]
pub struct Cx<'a> {
    pub look: Look<'a>,
    /// The state of the engine.
    pub model: &'a Model,
    /// Keys in use.
    pub keymap: &'a Keymap,
}

impl<'a> std::ops::Deref for Cx<'a> {
    type Target = Look<'a>;

    fn deref(&self) -> &Look<'a> {
        &self.look
    }
}

impl Cx<'_> {
    /// The same where something else has the keyboard focus, unless `focused`.
    #[must_use]
    pub const fn with_focus(mut self, focused: bool) -> Self {
        self.look.focused = focused;
        self
    }

    /// `text` with each `{action}` replaced by its key in these scopes.
    pub fn spelled(&self, scopes: &[KeyScope], text: &'static str) -> Ink {
        self.keymap.spelled(&[scopes, &[KeyScope::List, KeyScope::Global]].concat(), text)
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

/// Whether an action can be used now, or why not.
pub type Availability = Result<(), &'static str>;

/// Available if `condition` holds, otherwise not for `reason`.
pub const fn when(condition: bool, reason: &'static str) -> Availability {
    if condition { Ok(()) } else { Err(reason) }
}

pub use terminal::gesture::Gesture;
