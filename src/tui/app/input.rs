//! Keys, mouse and paste: from the topmost overlay through the pane to what holds everywhere.

use super::screen::Open;
use super::{App, Redraw};
use crate::tui::action::Action;
use crate::tui::chord::Chord;
use crate::tui::effect::Effect;
use crate::tui::ink::ink;
use crate::tui::overlay::{Overlay, Subject, Verdict};
use crate::tui::pane::Out;
use crate::tui::pane::servers::removals_seen;
use crate::tui::theme::Role;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

impl App {
    pub(super) fn input(&mut self, event: Event, effects: &mut Vec<Effect>) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.drag_over();
                self.key(key, effects);
            }
            Event::Mouse(mouse) => self.mouse(mouse, effects),
            Event::Paste(text) if self.screen_paste(&text, effects) => {}
            Event::Paste(text) => self.paste(&text),
            Event::FocusGained => {
                self.restart_moment();
                self.mark(Redraw::Now);
            }
            Event::Resize(width, height) => {
                self.size = ratatui::layout::Rect::new(0, 0, width, height);
                self.mark(Redraw::Now);
            }
            _ => {}
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent, effects: &mut Vec<Effect>) {
        if self.stale {
            self.sync();
        }
        if self.screen_key(key, effects) {
            return;
        }
        let chord = Chord::pressed(key);
        let typing = self.is_typing();
        let scopes = self.scopes();
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        if alt && !typing && self.keymap.action(&scopes, chord).is_none() {
            // Escape and a key typed quickly look like one chord; nobody bound it, so it is two.
            self.key(KeyCode::Esc.into(), effects);
            let modifiers = key.modifiers - KeyModifiers::ALT;
            return self.key(KeyEvent { modifiers, ..key }, effects);
        }
        let action = if typing {
            // While text is typed, a plain character is text, whatever it is bound to.
            let bound = self.keymap.action(&scopes[..1], chord);
            bound.or_else(|| self.keymap.action(&scopes, chord).filter(|_| chord.typed().is_none()))
        } else {
            self.keymap.action(&scopes, chord)
        };
        let edits =
            typing && !matches!(action, Some(Action::Open | Action::Back | Action::QuitNow));
        if edits
            && action.is_none_or(|a| !matches!(a, Action::Up | Action::Down | Action::Palette))
            && self.type_key(key)
        {
            self.mark(Redraw::Now);
            return;
        }
        if let Some(action) = action {
            self.mark(Redraw::Now);
            self.perform(action, effects);
        }
    }

    pub(super) fn is_typing(&self) -> bool {
        match self.overlays.last() {
            Some(overlay) => overlay.is_typing(),
            None => self.panes.get(self.pane).is_typing(),
        }
    }

    fn type_key(&mut self, key: KeyEvent) -> bool {
        if let Some(overlay) = self.overlays.last_mut() {
            return overlay.key(key);
        }
        let taken = self.panes.get_mut(self.pane).typing().is_some_and(|input| input.key(key));
        if taken {
            self.remember_filter();
        }
        taken
    }

    fn paste(&mut self, text: &str) {
        let input = match self.overlays.last_mut() {
            Some(overlay) => overlay.typing(),
            None => self.panes.get_mut(self.pane).typing(),
        };
        if let Some(input) = input {
            input.insert(text);
            if let Some(overlay) = self.overlays.last_mut() {
                // The list below follows what was pasted.
                overlay.key(crossterm::event::KeyCode::End.into());
            } else {
                self.remember_filter();
            }
            self.mark(Redraw::Now);
        } else {
            self.toast(ink!("pasted text is no command: nothing here takes text"), Role::Warning);
        }
    }

    /// Does what an overlay's verdict says.
    pub(super) fn settle(&mut self, verdict: Verdict, effects: &mut Vec<Effect>) {
        match verdict {
            Verdict::Stay | Verdict::Pass => {}
            Verdict::Close => {
                if let Some(Overlay::Reader(reader)) = self.overlays.last()
                    && let Subject::BlackBox(server) = &reader.subject
                {
                    effects.extend(removals_seen(&self.model, server));
                }
                self.close_overlay();
            }
            Verdict::Act(action) => self.perform(action, effects),
            Verdict::Pick(pick) => self.pick(pick, effects),
        }
    }

    /// Takes over what a pane or overlay asked for.
    pub(super) fn absorb(&mut self, out: Out, effects: &mut Vec<Effect>) {
        for effect in out.effects {
            self.absorb_effect(effect, effects);
        }
        if let Some(overlay) = out.overlay {
            self.push_overlay(overlay);
        }
        if let Some(screen) = out.screen {
            self.push_screen(Open::Own(screen));
        }
        if let Some(toast) = out.toast {
            self.toast(toast.text, toast.role);
        }
        if let Some((text, role)) = out.hint {
            let text = self.spelled(text);
            self.toast(text, role);
        }
        if let Some(todo) = out.todo {
            self.open_todo(&todo, effects);
        }
        if let Some(deny) = out.deny_all {
            self.ask_to_deny_all(&deny);
        }
        if let Some((server, list, wire)) = out.call {
            self.open_call(&server, list, &wire);
        }
        if let Some(pane) = out.goto {
            self.show(pane);
        }
        if out.remember {
            self.remember(effects);
        }
    }
}
