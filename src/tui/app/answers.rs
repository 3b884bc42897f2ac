//! The answering screen of the dashboard, and the one for roots: opened on purpose, left with its
//! draft kept, told when its request is withdrawn. Turns what the person wants into effects.

mod follow;
mod mouse;
mod picks;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{App, Redraw};
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::ApprovalRule;
use crate::deck::answers::Answers as KeptAnswers;
use crate::host::approvals::PendingRequest;
use crate::host::{RuleKind, SessionRule};
use crate::mcp::{Answer, ApprovalId};
use crate::tui::action::Action;
use crate::tui::approval::desk::{AnswerDesk, Drafting, Outcome, Stage};
use crate::tui::approval::draw;
use crate::tui::approval::keys;
use crate::tui::approval::roots::RootsEditor;
use crate::tui::effect::{Effect, ServerCommand};
use crate::tui::ink::{Ink, count, ink};
use crate::tui::keymap::Scope;
use crate::tui::message::EditToken;
use crate::tui::overlay::{Overlay, Reader, reader_width};
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// What one press of "more time" adds.
const MORE_TIME: Duration = Duration::from_secs(600);
/// Largest draft that is handed to an editor outside, in bytes.
const EDITED: usize = 4 << 20;

/// Help of the answering screen: scopes and their headings.
const ANSWERING: &[(Scope, &str)] = &[
    (Scope::Answer, "answering"),
    (Scope::AnswerSampling, "a completion"),
    (Scope::AnswerElicitation, "an elicitation"),
    (Scope::AnswerReading, "while nothing is typed"),
    (Scope::Form, "in the form"),
    (Scope::FormLine, "on lines that take no text"),
];

/// Requests being answered, and the roots being edited.
#[derive(Default)]
pub struct Answers {
    desks: BTreeMap<ApprovalId, AnswerDesk>,
    open: Option<ApprovalId>,
    roots: Option<RootsEditor>,
    /// Answers that are kept beside the configuration, and those kept while this runs.
    kept: KeptAnswers,
}

impl Answers {
    fn desk(&mut self) -> Option<&mut AnswerDesk> {
        self.desks.get_mut(&self.open?)
    }

    /// Whether roots are being edited.
    pub(super) const fn roots(&self) -> bool {
        self.roots.is_some()
    }

    /// The answer that is open.
    pub(super) fn opened(&self) -> Option<&AnswerDesk> {
        self.desks.get(&self.open?)
    }

    /// Hashes the request that is being answered; `None` when none is.
    pub(super) fn hash_open(&self, hash: &mut impl std::hash::Hasher) -> Option<()> {
        use std::hash::Hash as _;
        let desk = self.desks.get(&self.open?)?;
        (desk.request.id.0, &desk.request.server).hash(hash);
        // The parameters of a request never change; a request under the same id would be another.
        (Arc::as_ptr(&desk.request.params) as usize, desk.request.bytes).hash(hash);
        Some(())
    }

    /// Whether an answer is on its way: the engine has not confirmed it yet.
    fn is_sent(&self, id: ApprovalId) -> bool {
        self.desks.get(&id).is_some_and(|desk| desk.stage == Stage::Sent)
    }

    /// How many answers to these servers are half written.
    pub(super) fn drafts(&self, of: impl Fn(&ServerName) -> bool) -> usize {
        let open = self.desks.values().filter(|desk| desk.stage == Stage::Open);
        open.filter(|desk| of(&desk.request.server) && desk.is_written()).count()
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
    /// Whether the answering screen, or that for roots, is open.
    pub fn is_answering(&self) -> bool {
        self.answers.open.is_some() || self.answers.roots.is_some()
    }

    /// Leaves the screen; drafts are kept.
    pub(super) fn leave_answer(&mut self) {
        self.answers.open = None;
        self.answers.roots = None;
    }

    /// Opens the answering screen of a request; `None` is the oldest that is open.
    pub(super) fn open_answer(&mut self, id: Option<ApprovalId>) {
        let pending = &self.model.view.pending;
        let first = pending.keys().find(|id| !self.answers.is_sent(**id)).copied();
        let Some(id) = id.or(first) else {
            return self.toast(ink!("No requests waiting"), Role::Ok);
        };
        if let Some(request) = pending.get(&id).cloned() {
            self.answers.desks.entry(id).or_insert_with(|| AnswerDesk::new(request));
        }
        if !self.answers.desks.contains_key(&id) {
            return self.toast(ink!("the request is no longer open"), Role::Warning);
        }
        self.answers.roots = None;
        self.answers.open = Some(id);
        self.hide_pointer();
        self.mark(Redraw::Now);
    }

    /// Takes away what pointed to the inbox: here it would only hide the keys.
    pub(super) fn hide_pointer(&mut self) {
        self.toast.take_if(|(_, toast)| toast.role == Role::Attention);
    }

    /// Takes a key while one of the screens is open; gives whether it was taken.
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
        let always = matches!(
            global,
            Some(Action::QuitNow | Action::Suspend | Action::Redraw | Action::Palette)
        );
        if self.answers.roots.is_some() {
            if global == Some(Action::Help) && chord.typed().is_none() {
                self.open_answer_help();
                return true;
            }
            return !(always && chord.typed().is_none()) && self.roots_key(key, effects);
        }
        let Some(desk) = self.answers.desk() else { return false };
        let typed = desk.is_typing() && chord.typed().is_some();
        if always && !typed {
            return false;
        }
        if global == Some(Action::Help) && !typed {
            self.open_answer_help();
            return true;
        }
        self.mark(Redraw::Now);
        let now = self.model.now;
        let Some(desk) = self.answers.desk() else { return false };
        desk.now_is(now);
        let chord = key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT);
        let bound = chord && keys::action(&self.keymap, desk, key).is_some();
        if !bound && desk.type_in_form(key) {
            return true;
        }
        if let Some(known) = keys::action(&self.keymap, desk, key) {
            self.answer_action(known, effects);
        } else {
            let (id, outcome) = (desk.id(), desk.type_key(key));
            self.settle_answer(id, outcome, effects);
        }
        true
    }

    fn roots_key(&mut self, key: KeyEvent, effects: &mut Vec<Effect>) -> bool {
        self.mark(Redraw::Now);
        let known = self.keymap.pressed(&[Scope::Roots], key);
        match (known, &mut self.answers.roots) {
            (Some(action), Some(_)) => self.roots_action(action, effects),
            (None, Some(editor)) => editor.type_key(key),
            (_, None) => return false,
        }
        true
    }

    fn roots_action(&mut self, action: Action, effects: &mut Vec<Effect>) {
        let Some(editor) = &mut self.answers.roots else { return };
        if action == Action::Back {
            self.answers.roots = None;
        } else if let Some(roots) = editor.apply(action) {
            let server = editor.server.clone();
            self.answers.roots = None;
            let (count, name) = (roots.len(), Ink::line(server.as_str()));
            self.toast(ink!("{} roots are shared with {}", count, name), Role::Ok);
            effects.push(Effect::Server(server, ServerCommand::Roots(roots)));
        }
    }

    /// Takes pasted text; gives whether it was taken.
    pub(super) fn answer_paste(&mut self, text: &str) -> bool {
        if !self.overlays.is_empty() || !self.is_answering() {
            return false;
        }
        if let Some(editor) = &mut self.answers.roots {
            if let Some(line) = editor.line() {
                line.insert(text);
            }
        } else if let Some(desk) = self.answers.desk() {
            desk.paste(text);
        }
        self.mark(Redraw::Now);
        true
    }

    pub(super) fn answer_action(&mut self, action: Action, effects: &mut Vec<Effect>) {
        if self.answers.roots.is_some() {
            return self.roots_action(action, effects);
        }
        let Some(desk) = self.answers.desk() else { return };
        let id = desk.id();
        match action {
            Action::Templates => self.choose_template(),
            Action::UseTool => self.choose_tool(),
            Action::SendAlways => self.choose_how_many(),
            Action::SaveForm => desk.ask_for_name(),
            Action::DenyAll => self.ask_to_deny_server(),
            Action::NextRequest => self.next_answer(id),
            Action::MoreTime if desk.stage == Stage::Open => {
                effects.push(Effect::MoreTime(id, MORE_TIME));
            }
            Action::Draft if desk.stage == Stage::Open => self.ask_for_draft(effects),
            Action::MoreTime | Action::Draft => {}
            Action::Editor => {
                let (text, token) = (desk.text(), EditToken::answer(id));
                let suffix = desk.suffix();
                if text.len() <= EDITED {
                    effects.push(Effect::Edit { token, text, suffix });
                }
            }
            Action::CopyForm => {
                let text = desk.text();
                self.toast(ink!("copied {}", count(text.chars().count(), "character")), Role::Ok);
                effects.push(Effect::Copy(text));
            }
            Action::SaveMedia => self.save_media(effects),
            Action::Back if desk.back() => {}
            Action::Back => self.leave_answer(),
            action => {
                let outcome = desk.apply(action);
                self.settle_answer(id, outcome, effects);
            }
        }
    }

    fn ask_for_draft(&mut self, effects: &mut Vec<Effect>) {
        let missing = self.model.drafter.is_none();
        let Some(desk) = self.answers.desk() else { return };
        if missing {
            desk.notice = Some(SafeText::line("no model is registered to draft answers"));
        } else if desk.drafting != Drafting::Asked {
            desk.drafting = Drafting::Asked;
            let edited = desk.is_edited().then(|| Arc::clone(&desk.params));
            effects.push(Effect::Draft(desk.id(), edited));
        }
    }

    pub(super) fn settle_answer(
        &mut self,
        id: ApprovalId,
        outcome: Outcome,
        effects: &mut Vec<Effect>,
    ) {
        if matches!(outcome, Outcome::Send(_) | Outcome::Visit(_)) && !self.was_read() {
            return;
        }
        match outcome {
            Outcome::Stay => {}
            Outcome::Visit(url) => effects.push(Effect::OpenUrl(id, url)),
            Outcome::Keep(name, answer) => self.keep_answer(id, name, &answer, effects),
            Outcome::Send(answer) => {
                // The desk stays until the engine says what became of the answer: a withdrawal may
                // be quicker, and then the draft is wanted.
                if let Some(desk) = self.answers.desks.get_mut(&id) {
                    desk.stage = Stage::Sent;
                }
                effects.push(Effect::Answer(id, answer));
                if self.answers.open == Some(id) {
                    self.answers.open = None;
                }
                let others = self.model.view.pending.len().saturating_sub(1);
                match others {
                    0 => self.toast(ink!("sent"), Role::Ok),
                    _ => self.toast(ink!("sent; {} more wait", others), Role::Ok),
                }
            }
        }
    }

    /// Sends the answer, and lets a rule give the same answer to the next ones.
    fn send_next(&mut self, left: Option<u32>, effects: &mut Vec<Effect>) {
        if !self.was_read() {
            return;
        }
        let Some(desk) = self.answers.desk() else { return };
        let (id, request) = (desk.id(), Arc::clone(&desk.request));
        let outcome = desk.apply(Action::Send);
        // A rule is only made of an answer that goes out now.
        desk.stop_waiting();
        if let (Outcome::Send(answer), Some(kind)) = (&outcome, RuleKind::of(&request.kind)) {
            let rule = match answer {
                Answer::Result(result) => ApprovalRule::Canned(result.clone()),
                Answer::Refuse { .. } => ApprovalRule::Deny,
            };
            let rule = SessionRule { rule, left };
            effects.push(Effect::ApprovalRule(request.server.clone(), kind, Some(rule)));
        }
        self.settle_answer(id, outcome, effects);
    }

    fn next_answer(&mut self, id: ApprovalId) {
        let pending = &self.model.view.pending;
        let after = pending.get_index_of(&id).map_or(0, |at| at + 1);
        let mut around = pending.keys().cycle().skip(after).take(pending.len()).copied();
        let next = around.find(|other| *other != id && !self.answers.is_sent(*other));
        match next {
            Some(next) => self.open_answer(Some(next)),
            None => self.toast(ink!("no other request is waiting"), Role::Ok),
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

    /// Draws the open screen; gives whether one is.
    pub(super) fn render_answer(&self, area: Rect, buf: &mut Buffer) -> bool {
        let cx = self.cx(self.overlays.is_empty());
        let body = Rect { height: area.height.saturating_sub(1), ..area };
        let desk = self.answers.open.and_then(|id| self.answers.desks.get(&id));
        match (&self.answers.roots, desk) {
            (Some(editor), _) => draw::render_roots(editor, &cx, body, buf),
            (None, Some(desk)) => draw::render(desk, &cx, body, buf),
            (None, None) => return false,
        }
        let (key, word) = (cx.style(Role::Key), cx.style(Role::Muted));
        self.answer_keys().render(Self::answer_footer(area), buf, key, word);
        true
    }

    fn open_answer_help(&mut self) {
        let mut doc = Doc::new(reader_width(self.size));
        let roots = self.answers.roots.is_some();
        let (title, scopes): (_, &[(Scope, &'static str)]) = if roots {
            (ink!("keys: roots"), &[(Scope::Roots, "what a server may look at")])
        } else {
            (ink!("keys: answering"), ANSWERING)
        };
        for (scope, heading) in scopes {
            doc.heading(*heading);
            super::calls::key_lines(&self.keymap, *scope, &mut doc);
        }
        self.push_overlay(Overlay::Reader(Reader::new(title, doc)));
    }

    /// The request of an open screen.
    fn answered_request(&self) -> Option<Arc<PendingRequest>> {
        let desk = self.answers.desks.get(&self.answers.open?)?;
        Some(Arc::clone(&desk.request))
    }
}
