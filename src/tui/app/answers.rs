//! The answering screen of the dashboard: opened on purpose, left with its draft kept, told when its
//! request is withdrawn. Turns what the person wants into effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{App, Redraw};
use crate::config::{ApprovalRule, ServerName};
use crate::host::approvals::{PendingRequest, RequestKind, Settlement};
use crate::host::{Answer, ApprovalId, HostView, RuleKind, SessionRule};
use crate::text::SafeText;
use crate::tui::action::Action;
use crate::tui::approval::desk::{AnswerCommand, AnswerDesk, Outcome, Part};
use crate::tui::approval::keys::{self, Key};
use crate::tui::approval::{draw, elicitation::ElicitAction};
use crate::tui::effect::Effect;
use crate::tui::ink::{Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::message::EditToken;
use crate::tui::overlay::{Confirm, Overlay, Reader, reader_width};
use crate::tui::theme::Role;
use crate::tui::widget::{Doc, Pen};

/// How many more requests "the same for the next ones" covers.
const NEXT_ONES: u32 = 10;
/// Most drafts of withdrawn requests that are kept to be copied.
const KEPT: usize = 50;

/// Requests being answered.
#[derive(Default)]
pub struct Answers {
    desks: BTreeMap<ApprovalId, AnswerDesk>,
    open: Option<ApprovalId>,
}

impl Answers {
    fn desk(&mut self) -> Option<&mut AnswerDesk> {
        self.desks.get_mut(&self.open?)
    }

    /// Whether a draft would be lost by leaving the program.
    pub fn has_drafts(&self) -> bool {
        self.desks.values().any(|desk| desk.ended.is_none() && desk.has_draft())
    }
}

impl EditToken {
    /// Marks a visit to the editor that belongs to an answer.
    const ANSWER: u64 = 1 << 63;

    fn answer(id: ApprovalId) -> Self {
        Self(Self::ANSWER | id.0)
    }
}

impl App {
    /// Whether the answering screen is open.
    pub fn is_answering(&self) -> bool {
        self.answers.open.is_some()
    }

    /// Leaves the answering screen; the draft is kept.
    pub(super) fn leave_answer(&mut self) {
        self.answers.open = None;
    }

    /// Opens the answering screen of a request; `None` is the oldest that is open.
    pub(super) fn open_answer(&mut self, id: Option<ApprovalId>) {
        let pending = &self.model.view.pending;
        let first = pending.keys().next().copied();
        let Some(request) = id.or(first).and_then(|id| pending.get(&id)).cloned() else {
            return self.toast(ink!("nothing waits for you"), Role::Ok);
        };
        let id = request.id;
        self.answers.desks.entry(id).or_insert_with(|| AnswerDesk::new(request));
        self.answers.open = Some(id);
        self.mark(Redraw::Now);
    }

    /// Takes a key while the answering screen is open; gives whether it was taken.
    pub(super) fn answer_key(&mut self, key: KeyEvent, effects: &mut Vec<Effect>) -> bool {
        let chord = crate::tui::chord::Chord::pressed(key);
        let global = self.keymap.action(&[Scope::Global], chord);
        if !self.overlays.is_empty() {
            return false;
        }
        if global == Some(Action::Answer) && !self.is_answering() {
            self.open_answer(None);
            return true;
        }
        let Some(desk) = self.answers.desk() else { return false };
        let always = matches!(
            global,
            Some(Action::QuitNow | Action::Suspend | Action::Redraw | Action::Palette)
        );
        if always {
            return false;
        }
        if global == Some(Action::Help) && (!desk.is_typing() || chord.typed().is_none()) {
            self.open_answer_help();
            return true;
        }
        let known = keys::command(&self.keymap, desk, key);
        if known.is_none() {
            desk.type_key(key);
        }
        self.mark(Redraw::Now);
        if let Some(known) = known {
            self.answer_command(known, effects);
        }
        true
    }

    /// Takes pasted text; gives whether it was taken.
    pub(super) fn answer_paste(&mut self, text: &str) -> bool {
        if !self.overlays.is_empty() {
            return false;
        }
        let Some(desk) = self.answers.desk() else { return false };
        desk.paste(text);
        self.mark(Redraw::Now);
        true
    }

    /// Scrolls what the server says.
    pub(super) fn answer_wheel(&mut self, delta: isize) {
        if let Some(desk) = self.answers.desk() {
            desk.apply(AnswerCommand::Scroll(delta));
            self.mark(Redraw::Now);
        }
    }

    fn answer_command(&mut self, key: Key, effects: &mut Vec<Effect>) {
        let Some(desk) = self.answers.desk() else { return };
        let id = desk.id();
        match key {
            Key::Desk(command) => {
                let outcome = desk.apply(command);
                self.settle_answer(id, outcome, effects);
            }
            Key::SendAlways => {
                let outcome = desk.apply(AnswerCommand::Send);
                let request = Arc::clone(&desk.request);
                if let (Outcome::Send(Answer::Result(result)), Some(kind)) =
                    (&outcome, RuleKind::of(&request.kind))
                {
                    let rule = ApprovalRule::Canned(result.clone());
                    let rule = SessionRule { rule, left: Some(NEXT_ONES) };
                    effects.push(Effect::ApprovalRule(request.server.clone(), kind, Some(rule)));
                }
                self.settle_answer(id, outcome, effects);
            }
            Key::DenyAll => {
                let server = desk.request.server.clone();
                self.ask_to_deny_all(&server);
            }
            Key::Next => self.next_answer(id),
            Key::Editor => {
                let (text, token) = (desk.text(), EditToken::answer(id));
                effects.push(Effect::Edit { token, text, suffix: ".md" });
            }
            Key::Copy => {
                let text = desk.text();
                self.toast(ink!("copied {} characters", text.chars().count()), Role::Ok);
                effects.push(Effect::Copy(text));
            }
            Key::Back if desk.part == Part::Reason => desk.part = Part::Answer,
            Key::Back => self.leave_answer(),
        }
    }

    fn settle_answer(&mut self, id: ApprovalId, outcome: Outcome, effects: &mut Vec<Effect>) {
        let answer = match outcome {
            Outcome::Stay => return,
            Outcome::Send(answer) => answer,
            Outcome::Visit(url, answer) => {
                effects.push(Effect::OpenUrl(url));
                answer
            }
        };
        effects.push(Effect::Answer(id, answer));
        self.answers.desks.remove(&id);
        self.answers.open = None;
        let others = self.model.view.pending.len().saturating_sub(1);
        match others {
            0 => self.toast(ink!("sent"), Role::Ok),
            _ => self.toast(ink!("sent; {} more wait", others), Role::Ok),
        }
    }

    fn next_answer(&mut self, id: ApprovalId) {
        let pending = &self.model.view.pending;
        let after = pending.get_index_of(&id).map_or(0, |at| (at + 1) % pending.len().max(1));
        let next = pending.get_index(after).map(|(id, _)| *id);
        match next {
            Some(next) if next != id => self.open_answer(Some(next)),
            _ => self.toast(ink!("nothing else waits for you"), Role::Ok),
        }
    }

    /// Asks before everything of a server is denied.
    pub(super) fn ask_to_deny_all(&mut self, server: &ServerName) {
        let open: Vec<&Arc<PendingRequest>> =
            self.model.view.pending.values().filter(|r| r.server == *server).collect();
        let yes = open.iter().map(|r| Effect::Answer(r.id, refusal(&r.kind))).collect();
        let confirm = Confirm {
            title: ink!("deny all of {}?", Ink::line(server.as_str())),
            lines: vec![ink!("{} open requests of this server are answered with no", open.len())],
            yes,
        };
        self.push_overlay(Overlay::Confirm(confirm));
    }

    /// Withdraws desks whose requests are no longer open.
    pub(super) fn answers_followed(&mut self, view: &HostView) {
        let mut open_ended = None;
        for (id, desk) in &mut self.answers.desks {
            if desk.ended.is_some() || view.pending.contains_key(id) {
                continue;
            }
            let settlement = view.settled.iter().rev().find(|(_, r, _)| r.id == *id);
            let reason = match settlement {
                Some((_, _, Settlement::Withdrawn { reason })) => reason.clone(),
                Some((_, _, Settlement::Answered { .. })) => SafeText::line("answered elsewhere"),
                None => SafeText::line("its server left the deck"),
            };
            desk.end(reason.clone());
            if self.answers.open == Some(*id) {
                open_ended = Some(reason);
            }
        }
        if let Some(reason) = open_ended {
            self.toast(ink!("withdrawn: {}", &reason), Role::Error);
        }
        let open = self.answers.open;
        self.answers
            .desks
            .retain(|id, desk| desk.ended.is_none() || desk.has_draft() || open == Some(*id));
        while self.answers.desks.len() > KEPT {
            let Some(oldest) = self.answers.desks.keys().find(|id| Some(**id) != open).copied()
            else {
                break;
            };
            self.answers.desks.remove(&oldest);
        }
    }

    /// Text came back from an editor; gives whether it belonged to an answer.
    pub(super) fn answer_edited(
        &mut self,
        token: EditToken,
        text: &Result<String, SafeText>,
    ) -> bool {
        if token.0 & EditToken::ANSWER == 0 {
            return false;
        }
        let id = ApprovalId(token.0 & !EditToken::ANSWER);
        match (self.answers.desks.get_mut(&id), text) {
            (Some(desk), Ok(text)) => desk.replace_text(text.trim_end_matches('\n')),
            (_, Err(reason)) => self.toast(Ink::from(reason), Role::Warning),
            (None, Ok(_)) => {}
        }
        self.mark(Redraw::Now);
        true
    }

    /// Brings the open screen up to date before a frame.
    pub(super) fn prepare_answer(&mut self) {
        let width = self.size.width.saturating_sub(3);
        if let Some(desk) = self.answers.desk() {
            desk.lay_out(width);
        }
    }

    /// Draws the answering screen; gives whether it is open.
    pub(super) fn render_answer(&self, area: Rect, buf: &mut Buffer) -> bool {
        let Some(desk) = self.answers.open.and_then(|id| self.answers.desks.get(&id)) else {
            return false;
        };
        let cx = self.cx(self.overlays.is_empty());
        let body = Rect { height: area.height.saturating_sub(1), ..area };
        draw::render(desk, &cx, body, buf);
        let footer = Rect { y: body.bottom(), height: area.height.min(1), ..area };
        let mut pen = Pen::new(buf, footer).ellipsis(cx.glyphs.ellipsis);
        pen.skip(1);
        for (chord, word) in self.keymap.labels(&[Scope::Answer]) {
            pen.put(Ink::line(&chord), cx.style(Role::Key));
            pen.put(ink!(" {}  ", word), cx.style(Role::Muted));
        }
        true
    }

    fn open_answer_help(&mut self) {
        let mut doc = Doc::new(reader_width(self.size));
        for (scope, heading) in [
            (Scope::Answer, "answering"),
            (Scope::AnswerReading, "while nothing is typed"),
            (Scope::Form, "in the form"),
            (Scope::FormLine, "on lines that take no text"),
        ] {
            doc.heading(heading);
            super::calls::key_lines(&self.keymap, scope, &mut doc);
        }
        self.push_overlay(Overlay::Reader(Reader::new(ink!("keys: answering"), doc)));
    }
}

/// "No", as the wire carries it for this kind.
fn refusal(kind: &RequestKind) -> Answer {
    match kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(ElicitAction::Decline.result(None))
        }
        _ => Answer::Refuse { code: -1, message: "the user declined".to_owned() },
    }
}
