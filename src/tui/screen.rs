//! The interface of what opens over the panes: screens below the tabs, and dialogs in a frame in
//! the middle. The topmost gets all keys, mouse events and pasted text until it is closed; the
//! dashboard keeps them on one stack (`app/screens.rs`). Also what they and the panes can request.

use std::borrow::Cow;

use crossterm::event::KeyEvent;

use crate::context::{Availability, Cx, Gesture, Ui};
use crate::effect::Effect;
use crate::intent::Intent;
use crate::keymap::{KeyScope, Keymap};
use crate::message::Message;
use crate::model::{Model, Todo};
use crate::overlay::Confirm;
use crate::panel::Panel;
use crate::pick::{Choice, LinePrompt, Pick};
use crate::prelude::*;
use crate::result::ResultFile;
use crate::widget::{KeyLine, TextInput};
use terminal::graphics::Placement;
use terminal::look::Styles;

/// Title of a help text, and the scopes it lists, each with a heading.
pub type Help = (&'static str, &'static [(KeyScope, &'static str)]);

/// The frame of a dialog: its title, and the columns and rows it wants, the frame included.
pub type Frame = (Ink, u16, u16);

/// A screen or a dialog. Its requests go to `out`; [`Intent::Close`] closes it. `ui.area` is its
/// region, without the frame.
pub trait Screen {
    /// Where its keys are bound, innermost first.
    fn scopes(&self) -> Vec<KeyScope>;

    /// Its frame, if it is a dialog over the others on a screen of this size.
    fn frame(&self, _whole: Rect) -> Option<Frame> {
        None
    }

    /// Whether its frame is at the foot of the screen and leaves the rest as bright as it is.
    fn is_at_foot(&self) -> bool {
        false
    }

    /// Its help, if that lists more than the keys that work at the moment.
    fn help(&self) -> Option<Help> {
        None
    }

    /// Whether plain characters are text now, whatever the global keys mean.
    fn takes_letters(&self) -> bool {
        true
    }

    /// Whether the dashboard performs this action of a global key that is not bound here.
    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action)
    }

    /// Whether an action of its keys has an effect now, or the reason why not.
    fn availability(&self, _action: Action) -> Availability {
        Ok(())
    }

    /// The line being typed, if there is one: it takes keys that are not bound, and pasted text.
    fn line(&mut self) -> Option<&mut TextInput> {
        None
    }

    /// That line has changed.
    fn typed(&mut self) {}

    /// Handles a key that the table binds to `bound` if it is text; returns whether it was. Other
    /// keys are handled by [`Screen::act`].
    fn key(&mut self, key: KeyEvent, bound: Option<Action>, _ui: Ui<'_>, _out: &mut Out) -> bool {
        let taken = bound.is_none() && self.line().is_some_and(|line| line.key(key));
        if taken {
            self.typed();
        }
        taken
    }

    /// Performs an action of its keys, or of a global key that it does not let through.
    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out);

    /// Takes pasted text.
    fn paste(&mut self, text: &str, _ui: Ui<'_>, out: &mut Out) {
        match self.line() {
            Some(line) => line.insert(text),
            None => return out.warn(ink!("nothing here takes text")),
        }
        self.typed();
    }

    /// Reacts to the mouse within its region.
    fn mouse(&mut self, _gesture: Gesture, _ui: Ui<'_>, _out: &mut Out) {}

    /// Whether it only shows or offers something: a click beside it or another screen closes it.
    fn is_passing(&self) -> bool {
        false
    }

    /// Receives a message from outside; returns whether this screen was waiting for it.
    fn receive(&mut self, _message: &Message, _out: &mut Out) -> bool {
        false
    }

    /// Follows a change of the model; returns whether there is still a reason to show it.
    fn follow(&mut self, _model: &Model) -> bool {
        true
    }

    /// Whether it shows this item of the inbox.
    fn shows(&self, _todo: &Todo) -> bool {
        false
    }

    /// What the user decides here as text, if it may be decided only after time to read it.
    fn decision(&self) -> Option<String> {
        None
    }

    /// Whether an action decides it.
    fn decides(&self, _action: Action) -> bool {
        false
    }

    /// What would be lost by quitting the program now.
    fn unsaved(&self) -> Option<&'static str> {
        None
    }

    /// Asks for work on other threads, after each event; `area` is the room there is for it.
    fn work(&mut self, _look: &Styles, _area: Rect, _out: &mut Out) {}

    /// Brings itself up to date before a frame; `ui.area` is the room there is for it.
    fn prepare(&mut self, _ui: Ui<'_>) {}

    /// Draws itself; a screen leaves the last row of its region free.
    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer);

    /// Its panels, when it has several.
    fn panels(&self, _area: Rect) -> Vec<Panel> {
        Vec::new()
    }

    /// Pictures drawn in pixels over the cells.
    fn placements(&self, _look: &Styles, _area: Rect) -> Vec<Placement> {
        Vec::new()
    }

    /// Its keys, for the last line of the dashboard, while no dialog is open over it.
    fn key_line(&self, _keymap: &Keymap) -> KeyLine {
        KeyLine::default()
    }

    /// Whether the dashboard's line of keys names this key below a dialog.
    fn in_footer(&self, _scope: KeyScope, _action: Action) -> bool {
        true
    }

    /// The region under the mouse, within which text is selected.
    fn region_at(&self, area: Rect, _at: Position) -> Rect {
        area
    }
}

/// Whether an action is for the whole dashboard, whatever is open.
pub const fn is_for_all(action: Action) -> bool {
    use Action as A;
    matches!(action, A::QuitNow | A::Suspend | A::Redraw | A::Help | A::Palette)
}

/// The keys of these scopes that the last line shows.
pub fn keys_of(keymap: &Keymap, scopes: &[KeyScope]) -> KeyLine {
    let labels = keymap.labels(scopes).into_iter();
    KeyLine::new(labels.map(|(key, word, _)| (key, word)).collect(), keymap.help_label())
}

/// Whether and how soon a frame is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Redraw {
    /// Nothing changed.
    #[default]
    None,
    /// Telemetry changed: redraw at up to 30 frames a second.
    Soon,
    /// The user did something: redraw at up to 120 frames a second.
    Now,
}

/// The text of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoticeText {
    /// As it is.
    Plain(Ink),
    /// `{action}` becomes the key of that action.
    WithKeys(Cow<'static, str>),
}

/// Most text copied to the clipboard: it goes through the terminal, and few accept more.
pub const MAX_CLIPBOARD_BYTES: usize = 1 << 20;

/// Why a text is not copied.
pub const TOO_LARGE: &str = "too large for the clipboard (1 MiB); {save} writes it to a file";

/// What event handling requests.
#[derive(Default)]
pub struct Out {
    /// How soon to redraw the screen.
    pub redraw: Redraw,
    /// A screen was opened below the tabs.
    pub opened: bool,
    /// What to do, in this order.
    pub intents: Vec<Intent>,
    /// A screen to open over the others.
    pub screen: Option<Box<dyn Screen>>,
    /// A notice to show; the last one counts.
    pub notice: Option<(NoticeText, Role)>,
    /// Preferences changed.
    pub remember: bool,
}

impl Out {
    /// Asks the dashboard for something.
    pub fn intend(&mut self, intent: Intent) {
        self.intents.push(intent);
    }

    /// Requests a side effect.
    pub fn effect(&mut self, effect: Effect) {
        self.intend(effect.into());
    }

    /// Opens a screen.
    pub fn open(&mut self, screen: impl Screen + 'static) {
        self.screen = Some(Box::new(screen));
    }

    /// Closes the screen.
    pub fn close(&mut self) {
        self.intend(Intent::Close);
    }

    /// Closes the screen and does what was picked.
    pub fn pick(&mut self, pick: Pick) {
        self.intents.extend([Intent::Close, Intent::Pick(pick)]);
    }

    /// Shows a notice.
    pub fn toast(&mut self, text: Ink, role: Role) {
        self.notice = Some((NoticeText::Plain(text), role));
    }

    /// Shows a notice that needs no action.
    pub fn say(&mut self, text: Ink) {
        self.toast(text, Role::Ok);
    }

    /// Shows a warning.
    pub fn warn(&mut self, text: Ink) {
        self.toast(text, Role::Warning);
    }

    /// Requests a frame.
    pub fn mark(&mut self, redraw: Redraw) {
        self.redraw = self.redraw.max(redraw);
    }

    /// Shows a notice that names keys: `{action}` becomes the key it has.
    pub fn notify(&mut self, text: impl Into<Cow<'static, str>>, role: Role) {
        self.notice = Some((NoticeText::WithKeys(text.into()), role));
    }

    /// Says why nothing was done, in words that may name keys.
    pub fn refuse(&mut self, text: impl Into<Cow<'static, str>>) {
        self.notify(text, Role::Warning);
    }

    /// Lets the user choose.
    pub fn choose(&mut self, title: Ink, choices: Vec<Choice>) {
        self.intend(Intent::Choose(title, choices));
    }

    /// Asks for a line of text, which begins as `proposed`.
    pub fn ask_line(&mut self, prompt: LinePrompt, proposed: impl Into<String>) {
        self.intend(Intent::AskLine(prompt, proposed.into()));
    }

    /// Asks for the file to write something to, which begins as `proposed`.
    pub fn ask_file(&mut self, proposed: impl Into<String>, content: ResultFile) {
        self.intend(Intent::AskFile(proposed.into(), content));
    }

    /// Asks before something is done.
    pub fn ask(&mut self, title: Ink, lines: Vec<Ink>, yes: Effect) {
        self.open(Confirm::new(title, lines, vec![yes.into()]));
    }

    /// Saves text or bytes in a new file of the working directory.
    pub fn save(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        self.effect(Effect::Save { name: name.into(), content: content.into() });
    }

    /// Copies text; the dashboard confirms it, or says that it is too large.
    pub fn copy(&mut self, text: String) {
        if text.len() > MAX_CLIPBOARD_BYTES {
            return self.refuse(TOO_LARGE);
        }
        self.effect(Effect::Copy(text));
    }
}
