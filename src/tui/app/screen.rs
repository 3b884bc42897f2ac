//! The stack of open screens over the panes: the topmost has keys, mouse and pasted text, but for the
//! few keys that hold everywhere. What its actions do is the same by key, mouse and palette.

use crossterm::event::KeyEvent;

use super::{App, Redraw};
use crate::mcp::ApprovalId;
use crate::tui::call::CallScreen;
use crate::tui::chat::ChatScreen;
use crate::tui::chord::Chord;
use crate::tui::effect::Effect;
use crate::tui::graphics::Placement;
use crate::tui::keymap::Scope;
use crate::tui::layout::Layout;
use crate::tui::message::Message;
use crate::tui::overlay::{Ask, Named, Overlay, Reader, reader_width};
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::prelude::*;
use crate::tui::screen::Screen;
use crate::tui::widget::Doc;

/// An open screen: calls and answers outlive their screens, the others are theirs alone.
pub(super) enum Open {
    /// A call screen, by its number.
    Call(usize),
    /// An answer to this request.
    Answer(ApprovalId),
    /// The chat.
    Chat,
    /// Any other.
    Own(Box<dyn Screen>),
}

/// What lies on top, to change; of fields, so that the others can be read meanwhile.
fn top<'a>(
    stack: &'a mut [Open],
    calls: &'a mut super::calls::Calls,
    answers: &'a mut super::answers::Answers,
    chat: &'a mut Option<ChatScreen>,
) -> Option<&'a mut dyn Screen> {
    Some(match stack.last_mut()? {
        Open::Call(number) => calls.screens.get_mut(*number)?,
        Open::Answer(id) => answers.screens.get_mut(id)?,
        Open::Chat => chat.as_mut()?,
        Open::Own(screen) => &mut **screen,
    })
}

impl App {
    /// The screen that has the keys, when one is open.
    pub(super) fn screen(&self) -> Option<&dyn Screen> {
        Some(match self.stack.last()? {
            Open::Call(number) => self.calls.screens.get(*number)?,
            Open::Answer(id) => self.answers.screens.get(id)?,
            Open::Chat => self.chat.as_ref()?,
            Open::Own(screen) => &**screen,
        })
    }

    /// Whether a screen lies over the panes.
    pub fn has_screen(&self) -> bool {
        !self.stack.is_empty()
    }

    /// The number of the call screen that is open, under an answer too.
    pub(super) fn open_call_number(&self) -> Option<usize> {
        self.stack.iter().rev().find_map(|open| match open {
            Open::Call(number) => Some(*number),
            _ => None,
        })
    }

    /// The call screen that is open.
    pub(super) fn call_screen(&mut self) -> Option<&mut CallScreen> {
        let number = self.open_call_number()?;
        self.calls.screens.get_mut(number)
    }

    /// The request whose answer is open.
    pub(super) fn open_request(&self) -> Option<ApprovalId> {
        self.stack.iter().rev().find_map(|open| match open {
            Open::Answer(id) => Some(*id),
            _ => None,
        })
    }

    /// Opens a screen over the others. There is one of each kind; what pointed to the inbox goes: here
    /// it would only hide the keys.
    pub(super) fn push_screen(&mut self, open: Open) {
        let kind = std::mem::discriminant(&open);
        if !matches!(open, Open::Own(_)) {
            self.stack.retain(|other| std::mem::discriminant(other) != kind);
        }
        self.stack.push(open);
        self.toast.take_if(|(_, toast)| toast.role == Role::Attention);
        self.mark(Redraw::Now);
    }

    /// Leaves calls and answers for a pane; what exists nowhere else stays open.
    pub(super) fn leave_screens(&mut self) {
        let unsaved = |open: &Open| matches!(open, Open::Own(own) if own.unsaved().is_some());
        self.stack.retain(unsaved);
    }

    pub(super) fn screen_area(&self) -> Rect {
        self.layout().map_or(self.size, |layout| layout.screen())
    }

    /// Lets the topmost screen do something, and does what it wants.
    pub(super) fn on_screen<R: Default>(
        &mut self,
        act: impl FnOnce(&mut dyn Screen, &Cx<'_>, Rect, &mut Out) -> R,
    ) -> R {
        let area = self.screen_area();
        let cx = Cx {
            model: &self.model,
            theme: &self.theme,
            glyphs: self.glyphs,
            keymap: &self.keymap,
            graphics: self.setup.graphics.graphics(),
            focused: true,
        };
        let screen = top(&mut self.stack, &mut self.calls, &mut self.answers, &mut self.chat);
        let Some(screen) = screen else { return R::default() };
        let mut out = Out::default();
        let done = act(screen, &cx, area, &mut out);
        self.mark(Redraw::Now);
        self.absorb(out);
        done
    }

    /// A key while a screen is open; gives whether it was taken.
    pub(super) fn screen_key(&mut self, key: KeyEvent) -> bool {
        if !self.overlays.is_empty() {
            return false;
        }
        let chord = Chord::pressed(key);
        let global = self.keymap.action(&[Scope::Global], chord);
        let Some(screen) = self.screen() else { return false };
        let bound = self.keymap.pressed(&screen.scopes(), key);
        // A plain character belongs to whatever takes letters, whatever it is bound to elsewhere.
        if let Some(global) = global
            && !(chord.typed().is_some() && screen.takes_letters())
        {
            match global {
                Action::QuitNow | Action::Suspend | Action::Redraw | Action::Palette => {
                    return false;
                }
                Action::Help => {
                    self.open_screen_help();
                    return true;
                }
                Action::Answer if screen.lets_through(global) => return false,
                _ if bound.is_none() && screen.lets_through(global) => return false,
                _ => {}
            }
        }
        let text = self.on_screen(|screen, cx, _, out| screen.key(key, bound, cx, out));
        if let Some(action) = bound.filter(|_| !text) {
            self.screen_action(action);
        }
        true
    }

    /// Where the keys of the open screen are bound, innermost first; `None` when none is open.
    pub(super) fn screen_scopes(&self) -> Option<Vec<Scope>> {
        Some(self.screen()?.scopes())
    }

    /// Whether an action is one of the open screen.
    pub(super) fn is_of_screen(&self, action: Action) -> bool {
        let scopes = self.screen_scopes().unwrap_or_default();
        self.keymap.scopes_of(action).any(|scope| scopes.contains(&scope))
    }

    /// Does an action of the open screen; gives whether it is one.
    pub(super) fn act_on_screen(&mut self, action: Action) -> bool {
        let is_one = self.is_of_screen(action);
        if is_one {
            self.screen_action(action);
        }
        is_one
    }

    fn screen_action(&mut self, action: Action) {
        if let Some(&Open::Answer(id)) = self.stack.last()
            && self.request_action(id, action)
        {
            return;
        }
        let is_call = matches!(self.stack.last(), Some(Open::Call(_)));
        match action {
            Action::History if is_call => return self.choose_history(),
            Action::Saved if is_call => {
                let choices = self.call_choices().collect();
                return self.choose(ink!("saved calls"), choices);
            }
            _ => {}
        }
        self.on_screen(|screen, cx, _, out| screen.act(action, cx, out));
    }

    /// Takes pasted text; gives whether a screen is open to take it.
    pub(super) fn screen_paste(&mut self, text: &str) -> bool {
        if !self.overlays.is_empty() || self.screen().is_none() {
            return false;
        }
        self.on_screen(|screen, cx, _, out| screen.paste(text, cx, out));
        true
    }

    /// The mouse while a screen is open; gives whether it was on it.
    pub(super) fn screen_mouse(&mut self, gesture: Gesture) -> bool {
        let (area, at) = (self.screen_area(), gesture.position());
        let Some(screen) = self.screen().filter(|_| area.contains(at)) else { return false };
        let keys = screen.key_area(area);
        if self.toast.is_none() && keys.contains(at) {
            let pressed = screen.key_line(&self.keymap).at(keys, at.x);
            if let Some(chord) = pressed.filter(|_| gesture == Gesture::Click(at)) {
                self.key(KeyEvent::new(chord.code, chord.modifiers));
            }
            return true;
        }
        self.on_screen(|screen, cx, area, out| screen.mouse(gesture, cx, area, out));
        true
    }

    /// Something came from outside that a screen may wait for; gives whether one did.
    pub(super) fn screen_hears(&mut self, message: &Message) -> bool {
        for at in 0..self.stack.len() {
            let mut out = Out::default();
            let Some(Open::Own(screen)) = self.stack.get_mut(at) else { continue };
            if screen.hear(message, &mut out) {
                if out.effects.contains(&Effect::Close) {
                    self.stack.remove(at);
                    out.effects.retain(|effect| *effect != Effect::Close);
                }
                self.absorb(out);
                return true;
            }
        }
        false
    }

    /// Brings the topmost screen up to date before a frame.
    pub(super) fn prepare_screen(&mut self) {
        let dev = self.open_server().and_then(|server| self.dev_words(&server));
        if let Some(screen) = self.call_screen() {
            screen.dev = dev;
        }
        let redraw = self.redraw;
        self.on_screen(|screen, cx, area, _| screen.prepare(cx, area));
        self.redraw = redraw;
    }

    /// The pictures that stand in pixels over a frame of this size.
    pub fn placements(&self, area: Rect) -> Vec<Placement> {
        let layout = Layout::compute(area, self.setup.prefs.server_list);
        let (Some(screen), Some(layout)) = (self.screen(), layout) else { return Vec::new() };
        screen.placements(&self.cx(self.overlays.is_empty()).look(), layout.screen())
    }

    fn open_screen_help(&mut self) {
        let Some(screen) = self.screen() else { return };
        let (title, scopes) = screen.help();
        let mut doc = Doc::new(reader_width(self.size));
        for (scope, heading) in scopes {
            doc.heading(*heading);
            for (chords, help) in self.keymap.sentences(*scope) {
                key_line(&Ink::line(&chords), &ink!("{}", help), Role::Text, &mut doc);
            }
        }
        self.push_overlay(Overlay::Reader(Reader::new(ink!("{}", title), doc)));
    }

    /// Does what was asked for that the dashboard does itself; the rest goes outside.
    pub(super) fn absorb_effect(&mut self, effect: Effect) {
        match &effect {
            Effect::Say(text) => {
                let scopes = self.screen_scopes().unwrap_or_default();
                let text = self.keymap.spelled(&[&scopes[..], &[Scope::Global]].concat(), text);
                return self.toast(text, Role::Warning);
            }
            Effect::Choose(title, choices) => return self.choose(title.clone(), choices.clone()),
            Effect::AskLine(line, proposed) => {
                let ask = Ask::new(Named::Call(*line), proposed, Vec::new());
                return self.push_overlay(Overlay::Ask(ask));
            }
            Effect::Close => {
                self.stack.pop();
                return self.mark(Redraw::Now);
            }
            Effect::OpenResource(uri) => {
                let Some(server) = self.open_server() else { return };
                return self.open_link(&server, uri);
            }
            Effect::Copy(text) => {
                self.toast(ink!("copied {}", count(text.chars().count(), "character")), Role::Ok);
            }
            Effect::Record(record) => self.calls.history.apply(record),
            Effect::SaveCall(name, call) => self.calls.saved.set(name.clone(), (**call).clone()),
            Effect::KeepAnswer(answer) => self.answers.kept.set((**answer).clone()),
            Effect::Answer(..) | Effect::OpenUrl(..) if !self.was_read() => return,
            Effect::Answer(id, _) => self.answer_sent(*id),
            _ => {}
        }
        self.effects.push(effect);
    }
}

/// Keys, and the sentence beside them on as many lines as it takes.
pub(super) fn key_line(keys: &Ink, help: &Ink, role: Role, doc: &mut Doc) {
    /// Columns of the keys.
    const KEYS: usize = 19;
    // A scroll bar may take the last column.
    let room = doc.width().saturating_sub(KEYS as u16 + 1).max(10);
    let mut lead = ink!("  {:<16} ", keys);
    for row in crate::tui::widget::doc::wrap(help.as_str(), room) {
        doc.line(vec![(lead, Role::Key), (Ink::line(row), role)]);
        lead = ink!("{:1$}", "", KEYS);
    }
}
