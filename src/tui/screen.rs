//! The interface of a screen over the panes. It gets all keys, mouse events and pasted text until
//! it is closed; the dashboard keeps open screens on a stack (`app/screens.rs`).

use crossterm::event::KeyEvent;

use crate::tui::context::{Cx, Gesture};
use crate::tui::effect::Effect;
use crate::tui::graphics::Placement;
use crate::tui::keymap::{KeyScope, Keymap};
use crate::tui::look::Styles;
use crate::tui::message::Message;
use crate::tui::pane::Out;
use crate::tui::prelude::*;
use crate::tui::widget::KeyLine;

/// Title of a help text, and the scopes it lists, each with a heading.
pub type Help = (&'static str, &'static [(KeyScope, &'static str)]);

/// A screen. Its requests go to `out`; [`Effect::Close`] closes it.
pub trait Screen {
    /// Where its keys are bound, innermost first.
    fn scopes(&self) -> Vec<KeyScope>;

    /// Its help.
    fn help(&self) -> Help;

    /// Whether plain characters are text now, whatever they are bound to.
    fn takes_letters(&self) -> bool;

    /// Whether a key of the panes applies here if it is not bound by the screen.
    fn lets_through(&self, _action: Action) -> bool {
        false
    }

    /// Handles a key that the table binds to `bound` if it is text; returns whether it was. Other
    /// keys are handled by [`Screen::act`].
    fn key(&mut self, key: KeyEvent, bound: Option<Action>, cx: &Cx<'_>, out: &mut Out) -> bool;

    /// Performs an action.
    fn act(&mut self, action: Action, cx: &Cx<'_>, out: &mut Out);

    /// Takes pasted text.
    fn paste(&mut self, text: &str, cx: &Cx<'_>, out: &mut Out);

    /// Reacts to the mouse.
    fn mouse(&mut self, gesture: Gesture, cx: &Cx<'_>, area: Rect, out: &mut Out);

    /// Receives a message from outside; returns whether this screen was waiting for it.
    fn receive(&mut self, _message: &Message, _out: &mut Out) -> bool {
        false
    }

    /// What would be lost by quitting the program now.
    fn unsaved(&self) -> Option<&'static str> {
        None
    }

    /// Brings its layout up to date before a frame.
    fn prepare(&mut self, cx: &Cx<'_>, area: Rect);

    /// Draws itself.
    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer);

    /// Pictures drawn in pixels over the cells.
    fn placements(&self, _look: &Styles, _area: Rect) -> Vec<Placement> {
        Vec::new()
    }

    /// The line of keys at its foot.
    fn key_line(&self, keymap: &Keymap) -> KeyLine;

    /// Where that line is drawn.
    fn key_area(&self, area: Rect) -> Rect {
        let height = area.height.min(1);
        Rect { y: area.bottom() - height, height, ..area }
    }

    /// The region under the mouse, within which text is selected.
    fn region_at(&self, area: Rect, _at: Position) -> Rect {
        area
    }
}

/// The keys of these scopes that the last line shows.
pub fn keys_of(keymap: &Keymap, scopes: &[KeyScope]) -> KeyLine {
    let labels = keymap.labels(scopes).into_iter();
    KeyLine::new(labels.map(|(key, word, _)| (key, word)).collect(), keymap.help_label())
}

/// Closes the screen.
pub fn close(out: &mut Out) {
    out.effect(Effect::Close);
}
