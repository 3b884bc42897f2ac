//! Keys, mouse and paste: from the topmost overlay through the pane to what holds everywhere.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crossterm::event::{
    Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::style::Modifier;
use unicode_width::UnicodeWidthStr as _;

use crate::mcp::ApprovalId;
use crate::tui::app::screen::Open;
use crate::tui::app::{App, Focus, Redraw};
use crate::tui::chord::Chord;
use crate::tui::effect::Effect;
use crate::tui::overlay::{Overlay, Subject, Verdict};
use crate::tui::pane::servers::removals_seen;
use crate::tui::pane::{Gesture, Out, PaneId};
use crate::tui::player::PlayCommand;
use crate::tui::prelude::*;

impl App {
    pub(super) fn input(&mut self, event: Event) {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => {
                self.drag_over();
                self.key(key);
            }
            Event::Mouse(mouse) => self.mouse(mouse),
            Event::Paste(text) if self.screen_paste(&text) => {}
            Event::Paste(text) => self.paste(&text),
            Event::FocusGained => {
                // The terminal was left: what is read begins anew.
                self.moment.shown = None;
                self.mark(Redraw::Now);
            }
            Event::Resize(width, height) => {
                self.size = Rect::new(0, 0, width, height);
                self.mark(Redraw::Now);
            }
            _ => {}
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) {
        if self.stale {
            self.sync();
        }
        if self.screen_key(key) {
            return;
        }
        let chord = Chord::pressed(key);
        let typing = self.is_typing();
        let scopes = self.scopes();
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        if alt && !typing && self.keymap.action(&scopes, chord).is_none() {
            // Escape and a key typed quickly look like one chord; nobody bound it, so it is two.
            self.key(KeyCode::Esc.into());
            let modifiers = key.modifiers - KeyModifiers::ALT;
            return self.key(KeyEvent { modifiers, ..key });
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
            self.perform(action);
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
            self.toast(ink!("nothing here takes text"), Role::Warning);
        }
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

    /// Takes over what a pane or overlay asked for.
    pub(super) fn absorb(&mut self, out: Out) {
        for effect in out.effects {
            self.absorb_effect(effect);
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
            self.open_todo(&todo);
        }
        if let Some((server, ids)) = out.deny_all {
            self.ask_to_deny_all(&server, &ids);
        }
        if let Some((server, list, wire)) = out.call {
            self.open_call(&server, list, &wire);
        }
        if out.remember {
            self.remember();
        }
    }

    pub(super) fn mouse(&mut self, mouse: MouseEvent) {
        let at = Position::new(mouse.column, mouse.row);
        let gesture = match mouse.kind {
            MouseEventKind::ScrollUp => Gesture::Scroll { at, delta: -WHEEL },
            MouseEventKind::ScrollDown => Gesture::Scroll { at, delta: WHEEL },
            MouseEventKind::Drag(MouseButton::Left) => return self.drag_to(at),
            MouseEventKind::Up(MouseButton::Left) => return self.drag_done(),
            MouseEventKind::Down(MouseButton::Left) => {
                let double = self.last_click.is_some_and(|(when, where_)| {
                    where_ == at && self.wall.since(when) <= DOUBLE_CLICK
                });
                self.last_click = if double { None } else { Some((self.wall, at)) };
                if double { Gesture::DoubleClick(at) } else { Gesture::Click(at) }
            }
            _ => return,
        };
        self.mark(Redraw::Now);
        self.drag_over();
        if !matches!(gesture, Gesture::Scroll { .. }) {
            self.pressed = Some(at);
        }
        if let Some(overlay) = self.overlays.last_mut() {
            let verdict = overlay.mouse(gesture, self.size);
            return self.settle(verdict);
        }
        let Some(layout) = self.layout() else { return };
        if layout.rule.contains(at) && self.model.playback.is_some() {
            if let Some(share) = super::incoming::share_at(at.x, layout.rule) {
                self.effects.push(Effect::Play(PlayCommand::To(share)));
            }
            return;
        }
        if self.screen_mouse(gesture) {
            return;
        }
        if layout.main.contains(at) {
            self.focus = Focus::Pane;
            let mut out = Out::default();
            self.on_pane(|pane, ui| pane.mouse(gesture, ui, &mut out));
            self.absorb(out);
        } else if let Some(servers) = layout.servers.filter(|area| area.contains(at)) {
            self.focus = Focus::Servers;
            let line = at.y - servers.y;
            if let Gesture::Scroll { delta, .. } = gesture {
                self.model.scope = self.servers.step(delta.signum());
            } else if self.servers.is_left_out(&self.model, line) {
                // Why stands there, at the line of the file.
                self.show(PaneId::Config);
            } else if let Some(row) = self.servers.row_at(line) {
                self.model.scope.clone_from(row);
            }
        } else if layout.tabs.contains(at) {
            if let Gesture::Scroll { delta, .. } = gesture {
                self.turn_pane(delta.signum());
            } else if let Some(pane) = self.tab_at(at.x) {
                self.show(pane);
            }
        } else if layout.header.contains(at) && self.model.inbox().next().is_some() {
            self.show(PaneId::Inbox);
        } else if layout.header.contains(at) && self.model.rejected().next().is_some() {
            self.show(PaneId::Config);
        } else if layout.footer.contains(at)
            && let Some(action) = self.footer_at(at.x)
        {
            self.perform(action);
        }
    }

    /// The mouse moved with the button held down.
    pub(super) fn drag_to(&mut self, at: Position) {
        if self.drag.is_none() {
            let Some(from) = self.pressed.filter(|from| *from != at) else { return };
            self.drag = self.drag_region(from).map(|region| Drag { region, from, to: from });
        }
        if let Some(drag) = &mut self.drag {
            let Rect { x, y, width, height } = drag.region;
            drag.to = Position::new(at.x.clamp(x, x + width - 1), at.y.clamp(y, y + height - 1));
            self.mark(Redraw::Now);
        }
    }

    /// The button was released: what is marked is copied.
    pub(super) fn drag_done(&mut self) {
        self.pressed = None;
        let Some(drag) = self.drag.take() else { return };
        self.mark(Redraw::Now);
        let text = drag.text(&self.drawn());
        let lines = text.lines().count();
        if lines == 0 {
            return;
        }
        let said = match lines {
            1 => ink!("copied {}", count(text.chars().count(), "character")),
            _ => ink!("copied {} lines", lines),
        };
        self.toast(said, Role::Ok);
        self.effects.push(Effect::Copy(text));
    }

    /// Anything else was done: nothing is marked any more.
    pub(super) fn drag_over(&mut self) {
        self.pressed = None;
        if self.drag.take().is_some() {
            self.mark(Redraw::Now);
        }
    }

    /// Marks it on a frame.
    pub(super) fn render_drag(&self, buf: &mut Buffer) {
        let style = self.theme.style(Role::Match);
        for (y, columns) in self.drag.iter().flat_map(Drag::rows) {
            for x in columns {
                if let Some(cell) = buf.cell_mut((x, y)) {
                    cell.modifier.remove(Modifier::REVERSED | Modifier::DIM);
                    cell.set_style(style);
                }
            }
        }
    }

    /// The region a drag from here stays in: what lies between rules.
    fn drag_region(&self, from: Position) -> Option<Rect> {
        let whole = if let Some(overlay) = self.overlays.last() {
            overlay.area(self.size)
        } else if self.has_screen() {
            self.screen()?.region_at(self.screen_area(), from)
        } else {
            self.layout()?.region_at(from)?
        };
        let region = whole.intersection(self.size);
        if !region.contains(from) {
            return None;
        }
        let frame = self.drawn();
        let is_rule = |x: &u16| {
            frame.cell((*x, from.y)).is_some_and(|cell| cell.symbol() == self.glyphs.vertical)
        };
        let left = (region.left()..from.x).rev().find(is_rule).map_or(region.left(), |x| x + 1);
        let right = (from.x..region.right()).find(is_rule).unwrap_or(region.right());
        (left < right).then_some(Rect { x: left, width: right - left, ..region })
    }

    /// The frame as it is on the screen now.
    fn drawn(&self) -> Buffer {
        let mut buf = Buffer::empty(self.size);
        self.render(self.size, &mut buf);
        buf
    }

    /// Notes what the frame that is drawn now shows.
    pub(super) fn note_moment(&mut self) {
        let now = self.model.now;
        self.moment.shown = self.decision().map(|hash| match self.moment.shown {
            Some((before, since)) if before == hash => (hash, since),
            _ => (hash, now),
        });
    }

    /// Whether what would be decided now was there to be read; says so when it was not.
    pub(super) fn was_read(&mut self) -> bool {
        let Some(hash) = self.decision() else { return true };
        let unasked = self.moment.unasked.is_some() && self.moment.unasked == self.open_request();
        let wanted = if unasked { 2 * MOMENT } else { MOMENT };
        let read = self
            .moment
            .shown
            .is_some_and(|(shown, since)| shown == hash && self.model.now.since(since) >= wanted);
        if read {
            self.toast.take_if(|(_, toast)| toast.role == Role::Warning);
        } else {
            let text = ink!("too soon: it has only just appeared; read it first");
            self.toast(text, Role::Warning);
        }
        read
    }

    /// The hash of what can be decided on top of the screen; `None` when nothing can.
    fn decision(&self) -> Option<u64> {
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
            Some(_) | None => match self.stack.last()? {
                Open::Answer(id) => self.answers.hash(*id, &mut hash)?,
                _ => return None,
            },
        }
        Some(hash.finish())
    }
}

// The mouse: from the topmost overlay through the open screen to panes, tabs and footer.

/// Two clicks on one cell within this time are a double click.
const DOUBLE_CLICK: Duration = Duration::from_millis(400);
/// Rows per notch of the wheel.
const WHEEL: isize = 3;

// Text selected with the mouse: a drag marks what is on the screen within one region, row by row,
// and releasing the button copies it. What is copied is what was seen: safe text, secrets masked.

/// What is marked: from where the button was pressed to where the mouse is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drag {
    region: Rect,
    from: Position,
    to: Position,
}

impl Drag {
    /// The marked cells of every row, from the top.
    fn rows(&self) -> impl Iterator<Item = (u16, std::ops::Range<u16>)> {
        let order = |at: Position| (at.y, at.x);
        let (first, last) = if order(self.from) <= order(self.to) {
            (self.from, self.to)
        } else {
            (self.to, self.from)
        };
        let region = self.region;
        (first.y..=last.y).map(move |y| {
            let start = if y == first.y { first.x } else { region.left() };
            let end = if y == last.y { last.x + 1 } else { region.right() };
            (y, start..end)
        })
    }

    /// What is marked, without the blanks at the ends of rows.
    fn text(&self, buf: &Buffer) -> String {
        let row = |(y, columns): (u16, std::ops::Range<u16>)| {
            let mut text = String::new();
            let mut x = columns.start;
            while x < columns.end {
                let symbol = buf.cell((x, y)).map_or(" ", |cell| cell.symbol());
                text.push_str(symbol);
                // The cell after a wide character is part of it.
                x += (symbol.width() as u16).max(1);
            }
            text.trim_end().to_owned()
        };
        let rows: Vec<String> = self.rows().map(row).collect();
        rows.join("\n").trim_end().to_owned()
    }
}

// The moment to read: what a person approves or answers is what was on the screen, the same and on
// top of everything, for half a second. A key that comes sooner does nothing and says so.

/// How long it has to stand there.
const MOMENT: Duration = Duration::from_millis(500);

/// What was drawn last that somebody may decide on, and since when it stands there unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    shown: Option<(u64, Timestamp)>,
    /// The request that came up by itself after another one was answered: a second press of the key
    /// that sent must not reach it.
    pub(super) unasked: Option<ApprovalId>,
}
