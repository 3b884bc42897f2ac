//! The terminal's side of the dashboard: keys, mouse and paste come in, from the topmost overlay
//! through the open screen and the pane to what holds everywhere; the frame goes out.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::widgets::{Clear, Widget as _};

use super::pointer::Drag;
use super::screens::Open;
use super::{App, Focus, chrome, keys, playback};
use crate::tui::chord::Chord;
use crate::tui::effect::Effect;
use crate::tui::graphics::Placement;
use crate::tui::keymap::Scope;
use crate::tui::layout::Layout;
use crate::tui::overlay::{Overlay, Subject, Verdict};
use crate::tui::pane::servers::removals_seen;
use crate::tui::pane::{Cx, Gesture, PaneId, Redraw};
use crate::tui::player::PlayCommand;
use crate::tui::prelude::*;
use crate::tui::widget::Pen;

/// Rows per notch of the wheel.
const WHEEL: isize = 3;

impl App {
    pub(super) fn input(&mut self, event: Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.drag_over();
                self.key(key);
            }
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Paste(text) => self.paste(&text),
            Event::FocusGained => {
                self.moment.forget();
                self.mark(Redraw::Now);
            }
            Event::Resize(width, height) => {
                self.size = Rect::new(0, 0, width, height);
                self.mark(Redraw::Now);
            }
            _ => {}
        }
    }

    fn key(&mut self, key: KeyEvent) {
        if self.stale {
            self.sync();
        }
        if self.screen_key(key) {
            return;
        }
        let chord = Chord::pressed(key);
        let typing = self.is_typing();
        let scopes = self.scopes();
        let keymap = &self.look.keymap;
        let bound = keymap.action(&scopes, chord);
        if key.modifiers.contains(KeyModifiers::ALT) && !typing && bound.is_none() {
            // Escape and a key typed quickly look like one chord; nobody bound it, so it is two.
            self.key(KeyCode::Esc.into());
            let modifiers = key.modifiers - KeyModifiers::ALT;
            return self.key(KeyEvent { modifiers, ..key });
        }
        let action = if typing {
            // While text is typed, a plain character is text, whatever it is bound to.
            let own = keymap.action(&scopes[..1], chord);
            own.or_else(|| bound.filter(|_| chord.typed().is_none()))
        } else {
            bound
        };
        let acts = |action| {
            matches!(action, Action::Open | Action::Back | Action::Up | Action::Down)
                || matches!(action, Action::QuitNow | Action::Palette)
        };
        if typing && !action.is_some_and(acts) && self.type_key(key) {
            return self.mark(Redraw::Now);
        }
        if let Some(action) = action {
            self.mark(Redraw::Now);
            self.perform(action);
        }
    }

    /// A key while a screen is open; gives whether it was taken.
    fn screen_key(&mut self, key: KeyEvent) -> bool {
        if !self.overlays.is_empty() {
            return false;
        }
        let chord = Chord::pressed(key);
        let global = self.look.keymap.action(&[Scope::Global], chord);
        let Some(screen) = self.screens.top() else { return false };
        let bound = self.look.keymap.pressed(&screen.scopes(), key);
        // A plain character belongs to whatever takes letters, whatever it is bound to elsewhere.
        if let Some(global) = global
            && !(chord.typed().is_some() && screen.takes_letters())
        {
            match global {
                Action::QuitNow | Action::Suspend | Action::Redraw | Action::Palette => {
                    return false;
                }
                Action::Help => {
                    let help = self.screens.help(&self.look.keymap, self.size);
                    self.overlays.extend(help.map(Overlay::Reader));
                    self.mark(Redraw::Now);
                    return true;
                }
                Action::Answer if screen.lets_through(global) => return false,
                _ if bound.is_none() && screen.lets_through(global) => return false,
                _ => {}
            }
        }
        let text = self.on_screen(|screen, cx, _, out| screen.key(key, bound, cx, out));
        if let Some(action) = bound.filter(|_| !text) {
            self.act_on_screen(action);
        }
        true
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
        if self.overlays.is_empty() && self.screens.top().is_some() {
            return self.on_screen(|screen, cx, _, out| screen.paste(text, cx, out));
        }
        let input = match self.overlays.last_mut() {
            Some(overlay) => overlay.typing(),
            None => self.panes.get_mut(self.pane).typing(),
        };
        let Some(input) = input else {
            return self.toast(ink!("nothing here takes text"), Role::Warning);
        };
        input.insert(text);
        match self.overlays.last_mut() {
            // The list below follows what was pasted.
            Some(overlay) => _ = overlay.key(KeyCode::End.into()),
            None => self.remember_filter(),
        }
        self.mark(Redraw::Now);
    }

    /// Does what an overlay's verdict says.
    pub(super) fn settle(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Stay | Verdict::Pass => {}
            Verdict::Close => {
                if let Some(Overlay::Reader(reader)) = self.overlays.last()
                    && let Subject::BlackBox(server) = &reader.subject
                {
                    self.effects.extend(removals_seen(&self.model, server));
                }
                self.close_overlay();
            }
            Verdict::Act(action) => self.perform(action),
            Verdict::Pick(pick) => self.pick(pick),
        }
    }

    fn mouse(&mut self, mouse: MouseEvent) {
        let at = Position::new(mouse.column, mouse.row);
        let gesture = match mouse.kind {
            MouseEventKind::ScrollUp => Gesture::Scroll { at, delta: -WHEEL },
            MouseEventKind::ScrollDown => Gesture::Scroll { at, delta: WHEEL },
            MouseEventKind::Drag(MouseButton::Left) => return self.drag_to(at),
            MouseEventKind::Up(MouseButton::Left) => return self.drag_done(),
            MouseEventKind::Down(MouseButton::Left) => {
                let double = self.pointer.click(at, self.wall);
                if double { Gesture::DoubleClick(at) } else { Gesture::Click(at) }
            }
            _ => return,
        };
        self.mark(Redraw::Now);
        self.drag_over();
        if !matches!(gesture, Gesture::Scroll { .. }) {
            self.pointer.pressed = Some(at);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let verdict = overlay.mouse(gesture, self.size);
            return self.settle(verdict);
        }
        let Some(layout) = self.layout() else { return };
        if layout.rule.contains(at) && self.model.playback.is_some() {
            let share = playback::share_at(at.x, layout.rule);
            return self.effects.extend(share.map(|to| Effect::Play(PlayCommand::To(to))));
        }
        if self.screen_mouse(gesture, layout.screen()) {
            return;
        }
        if layout.main.contains(at) {
            self.focus = Focus::Pane;
            self.on_pane(|pane, ui, out| pane.mouse(gesture, ui, out));
        } else if let Some(servers) = layout.servers.filter(|area| area.contains(at)) {
            self.focus = Focus::Servers;
            if let Gesture::Scroll { delta, .. } = gesture {
                self.model.scope = self.servers.step(delta.signum());
            } else if let Some(row) = self.servers.row_at(at.y - servers.y) {
                self.model.scope.clone_from(row);
            }
        } else if layout.tabs.contains(at) {
            let cx = self.look.cx(&self.model, true);
            if let Gesture::Scroll { delta, .. } = gesture {
                self.turn_pane(delta.signum());
            } else if let Some(pane) = chrome::tab_at(&cx, self.pane, layout.tabs, at.x) {
                self.show(pane);
            }
        } else if layout.header.contains(at) && self.model.inbox().next().is_some() {
            self.show(PaneId::Inbox);
        } else if layout.header.contains(at) && self.model.rejected().next().is_some() {
            self.show(PaneId::Config);
        } else if layout.footer.contains(at)
            && self.toast.is_none()
            && let Some(action) = chrome::footer_at(keys::footer(self), layout.footer, at.x)
        {
            self.perform(action);
        }
    }

    /// The mouse while a screen is open in this region; gives whether it was on it.
    fn screen_mouse(&mut self, gesture: Gesture, area: Rect) -> bool {
        let at = gesture.position();
        let Some(screen) = self.screens.top().filter(|_| area.contains(at)) else { return false };
        let keys = screen.key_area(area);
        if self.toast.is_none() && keys.contains(at) {
            let pressed = screen.key_line(&self.look.keymap).at(keys, at.x);
            if let Some(chord) = pressed.filter(|_| gesture == Gesture::Click(at)) {
                self.key(KeyEvent::new(chord.code, chord.modifiers));
            }
            return true;
        }
        self.on_screen(|screen, cx, area, out| screen.mouse(gesture, cx, area, out));
        true
    }

    /// The mouse moved with the button held down.
    fn drag_to(&mut self, at: Position) {
        if self.pointer.drag.is_none() {
            let Some(from) = self.pointer.pressed.filter(|from| *from != at) else { return };
            self.pointer.drag = self.drag_region(from).map(|region| Drag::new(region, from));
        }
        if let Some(drag) = &mut self.pointer.drag {
            drag.to(at);
            self.mark(Redraw::Now);
        }
    }

    /// The button was released: what is marked is copied.
    fn drag_done(&mut self) {
        let drag = self.pointer.drag.take();
        self.pointer.pressed = None;
        let Some(drag) = drag else { return };
        self.mark(Redraw::Now);
        let text = drag.text(&self.drawn());
        let said = match text.lines().count() {
            0 => return,
            1 => ink!("copied {}", count(text.chars().count(), "character")),
            lines => ink!("copied {} lines", lines),
        };
        self.toast(said, Role::Ok);
        self.effects.push(Effect::Copy(text));
    }

    /// Anything else was done: nothing is marked any more.
    fn drag_over(&mut self) {
        if self.pointer.release() {
            self.mark(Redraw::Now);
        }
    }

    /// The region a drag from here stays in: what lies between rules.
    fn drag_region(&self, from: Position) -> Option<Rect> {
        let whole = if let Some(overlay) = self.overlays.last() {
            overlay.area(self.size)
        } else if let Some(screen) = self.screens.top() {
            screen.region_at(self.screen_area(), from)
        } else {
            self.layout()?.region_at(from)?
        };
        let region = whole.intersection(self.size);
        if !region.contains(from) {
            return None;
        }
        let frame = self.drawn();
        let is_rule = |x: &u16| {
            frame.cell((*x, from.y)).is_some_and(|cell| cell.symbol() == self.look.glyphs.vertical)
        };
        let left = (region.left()..from.x).rev().find(is_rule).map_or(region.left(), |x| x + 1);
        let right = (from.x..region.right()).find(is_rule).unwrap_or(region.right());
        (left < right).then_some(Rect { x: left, width: right - left, ..region })
    }

    /// The hash of what can be decided on top of the screen; `None` when nothing can.
    pub(super) fn decision(&self) -> Option<u64> {
        let mut hash = DefaultHasher::new();
        match self.overlays.last() {
            Some(Overlay::Consent(consent)) => consent.hash_shown(&mut hash),
            Some(Overlay::Input(dialog)) => dialog.view.input.id.hash(&mut hash),
            Some(Overlay::SignIn(dialog)) => dialog.request.id.0.hash(&mut hash),
            Some(Overlay::Confirm(confirm)) if confirm.by_itself => {
                for line in std::iter::once(&confirm.title).chain(&confirm.lines) {
                    line.as_str().hash(&mut hash);
                }
            }
            // What the person opened over a request does not hide that it was read.
            Some(_) | None => match self.screens.open()? {
                // Under its id the parameters of a request never change.
                Open::Answer(id) if self.screens.top().is_some() => id.0.hash(&mut hash),
                _ => return None,
            },
        }
        Some(hash.finish())
    }

    /// Whether what would be decided now was there to be read; says so when it was not.
    pub(super) fn was_read(&mut self) -> bool {
        let Some(decision) = self.decision() else { return true };
        let open = self.screens.open_request();
        let read = self.moment.was_read(decision, open, self.model.now);
        if read {
            self.drop_toast(Role::Warning);
        } else {
            let text = ink!("too soon: it has only just appeared; read it first");
            self.toast(text, Role::Warning);
        }
        read
    }

    // The frame.

    /// The pictures that stand in pixels over a frame of this size.
    pub fn placements(&self, area: Rect) -> Vec<Placement> {
        let layout = Layout::compute(area, self.setup.prefs.server_list);
        let (Some(screen), Some(layout)) = (self.screens.top(), layout) else { return Vec::new() };
        let cx = self.look.cx(&self.model, self.overlays.is_empty());
        screen.placements(&cx.look(), layout.screen())
    }

    /// The frame as it is on the screen now.
    fn drawn(&self) -> Buffer {
        let mut buf = Buffer::empty(self.size);
        self.render(self.size, &mut buf);
        buf
    }

    /// Draws the screen.
    pub fn render(&self, area: Rect, buf: &mut Buffer) {
        let cx = self.look.cx(&self.model, self.overlays.is_empty());
        buf.set_style(area, cx.style(Role::Text));
        match Layout::compute(area, self.setup.prefs.server_list) {
            Some(layout) => {
                self.render_layout(&cx, &layout, buf);
                for (depth, overlay) in self.overlays.iter().enumerate() {
                    let top = depth + 1 == self.overlays.len();
                    overlay.render(&Cx { focused: top, ..cx }, area, buf);
                }
            }
            None => chrome::too_small(&cx, area, buf),
        }
        self.pointer.render(cx.style(Role::Match), buf);
        if self.look.is_ascii() {
            for cell in buf.content.iter_mut().filter(|cell| cell.symbol() == "µ") {
                cell.set_symbol("u");
            }
        }
    }

    fn render_layout(&self, cx: &Cx<'_>, layout: &Layout, buf: &mut Buffer) {
        let source = chrome::source(cx, self.setup.home.as_deref(), self.setup.tour);
        chrome::header(cx, source, self.look.problem.as_ref(), layout.header, buf);
        chrome::tabs(cx, self.pane, layout.tabs, buf);
        let rule = cx.style(Role::Rule);
        Pen::new(buf, layout.rule).rule(cx.glyphs.horizontal, rule);
        if let Some(screen) = self.screens.top() {
            let place = layout.screen();
            let (key, word) = (cx.style(Role::Key), cx.style(Role::Muted));
            screen.key_line(cx.keymap).render(screen.key_area(place), buf, key, word);
            screen.render(cx, place, buf);
            if self.toast.is_some() {
                Clear.render(layout.footer, buf);
                self.render_footer(cx, layout.footer, buf);
            }
            return;
        }
        if let Some(bottom) = layout.bottom_rule {
            Pen::new(buf, bottom).rule(cx.glyphs.horizontal, rule);
        }
        if let (Some(servers), Some(divider)) = (layout.servers, layout.divider) {
            let column = divider.x - layout.whole.x;
            Pen::new(buf, layout.rule).column(column).clip(cx.glyphs.tee_down, 1, rule);
            if let Some(bottom) = layout.bottom_rule {
                Pen::new(buf, bottom).column(column).clip(cx.glyphs.tee_up, 1, rule);
            }
            crate::tui::widget::vertical_rule(cx, divider, buf);
            let here = Cx { focused: cx.focused && self.focus == Focus::Servers, ..*cx };
            self.servers.render(&here, servers, buf);
        }
        playback::render(cx, layout.rule, buf);
        let here = Cx { focused: cx.focused && self.focus == Focus::Pane, ..*cx };
        self.panes.get(self.pane).render(&here, layout.main, buf);
        self.render_footer(cx, layout.footer, buf);
    }

    fn render_footer(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        match &self.toast {
            Some(toast) => {
                let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
                pen.skip(1).put(&toast.text, cx.style(toast.role));
            }
            None => chrome::footer(cx, keys::footer(self), area, buf),
        }
    }
}
