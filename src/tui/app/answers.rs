//! The answering screen of the dashboard, and the one for roots: opened on purpose, left with its
//! draft kept, notified when its request is withdrawn. Turns what the person wants into effects.

mod follow;
mod picks;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::screen::Open;
use super::{App, Redraw};
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::ApprovalRule;
use crate::deck::answers::Answers as KeptAnswers;
use crate::host::approvals::PendingRequest;
use crate::host::{RuleKind, SessionRule};
use crate::mcp::{Answer, ApprovalId, RequestKind};
use crate::tui::action::Action;
use crate::tui::approval::answering::{AnswerScreen, Drafting, Stage};
use crate::tui::effect::Effect;
use crate::tui::ink::{Ink, ink};
use crate::tui::overlay::{Overlay, SignInDialog};
use crate::tui::theme::Role;

/// Requests being answered.
#[derive(Default)]
pub struct Answers {
    pub(super) screens: BTreeMap<ApprovalId, AnswerScreen>,
    /// Answers that are kept beside the configuration, and those kept while this runs.
    pub(super) kept: KeptAnswers,
}

impl Answers {
    /// Hashes the request that is being answered; `None` when none is.
    pub(super) fn hash(&self, id: ApprovalId, hash: &mut impl std::hash::Hasher) -> Option<()> {
        use std::hash::Hash as _;
        let answering = self.screens.get(&id)?;
        (answering.request.id.0, &answering.request.server).hash(hash);
        // The parameters of a request never change; a request under the same id would be another.
        (Arc::as_ptr(&answering.request.params) as usize, answering.request.bytes).hash(hash);
        Some(())
    }

    /// Whether an answer is on its way: the engine has not confirmed it yet.
    pub(super) fn is_sent(&self, id: ApprovalId) -> bool {
        self.screens.get(&id).is_some_and(|answering| answering.stage == Stage::Sent)
    }

    /// How many answers to these servers are half written.
    pub(super) fn drafts(&self, of: impl Fn(&ServerName) -> bool) -> usize {
        let open = self.screens.values().filter(|answering| answering.stage == Stage::Open);
        open.filter(|answering| of(&answering.request.server) && answering.is_written()).count()
    }
}

impl App {
    /// Leaves the answer; its draft is kept.
    pub(super) fn leave_answer(&mut self) {
        self.stack.retain(|open| !matches!(open, Open::Answer(_)));
    }

    /// The answer that is open.
    pub(super) fn answer_screen(&mut self) -> Option<&mut AnswerScreen> {
        let id = self.open_request()?;
        self.answers.screens.get_mut(&id)
    }

    /// Opens the answering screen of a request.
    pub(super) fn open_answer(&mut self, id: ApprovalId) {
        let request = self.model.view.pending.get(&id).cloned();
        if let Some(request) = request.clone().filter(|request| request.kind == RequestKind::SignIn)
        {
            return self.push_overlay(Overlay::SignIn(Box::new(SignInDialog::new(request))));
        }
        if let Some(request) = request {
            self.answers.screens.entry(id).or_insert_with(|| AnswerScreen::new(request));
        }
        if !self.answers.screens.contains_key(&id) {
            return self.toast(ink!("the request is no longer open"), Role::Warning);
        }
        self.push_screen(Open::Answer(id));
    }

    /// Does an action on the open request that concerns more than its answer; gives whether it is one.
    pub(super) fn request_action(
        &mut self,
        id: ApprovalId,
        action: Action,
        effects: &mut Vec<Effect>,
    ) -> bool {
        match action {
            Action::Templates => self.choose_template(),
            Action::UseTool => self.choose_tool(),
            Action::SendAlways => self.choose_how_many(),
            Action::DenyAll => self.ask_to_deny_server(),
            Action::NextRequest => self.next_answer(id),
            Action::Draft => self.ask_for_draft(effects),
            _ => return false,
        }
        self.mark(Redraw::Now);
        true
    }

    fn ask_for_draft(&mut self, effects: &mut Vec<Effect>) {
        let missing = self.model.drafter.is_none();
        let Some(answering) =
            self.answer_screen().filter(|answering| answering.stage == Stage::Open)
        else {
            return;
        };
        if missing {
            answering.notice = Some(SafeText::line("no model is registered to draft answers"));
        } else if answering.drafting != Drafting::Asked {
            answering.drafting = Drafting::Asked;
            let edited = answering.is_edited().then(|| Arc::clone(&answering.params));
            effects.push(Effect::Draft(answering.id(), edited));
        }
    }

    /// An answer goes out.
    pub(super) fn answer_sent(&mut self, id: ApprovalId, effects: &mut Vec<Effect>) {
        // The draft stays until the engine says what became of the answer: a withdrawal may be
        // quicker, and then it is wanted.
        if let Some(request) = self.model.view.pending.get(&id) {
            let answering = || AnswerScreen::new(Arc::clone(request));
            self.answers.screens.entry(id).or_insert_with(answering).stage = Stage::Sent;
        }
        self.overlays.retain(|overlay| match overlay {
            Overlay::SignIn(dialog) => dialog.request.id != id,
            _ => true,
        });
        self.stack.retain(|open| !matches!(open, Open::Answer(open) if *open == id));
        let first = self.first_todo();
        if let Some(todo) = &first {
            self.open_todo(todo, effects);
        }
        self.moment.unasked = self.open_request();
        match (first, self.model.inbox().count().saturating_sub(1)) {
            (None, _) => self.toast(ink!("sent"), Role::Ok),
            (Some(_), others) => self.toast(ink!("sent; {} more waiting", others), Role::Ok),
        }
    }

    /// Sends the answer, and lets a rule give the same answer to the next ones.
    fn send_next(&mut self, left: Option<u32>, effects: &mut Vec<Effect>) {
        if !self.was_read() {
            return;
        }
        let Some(answering) = self.answer_screen() else { return };
        let request = Arc::clone(&answering.request);
        let wanted = answering.apply(Action::Send);
        // A rule is only made of an answer that goes out now.
        answering.stop_waiting();
        if let (Some(Effect::Answer(_, answer)), Some(kind)) =
            (&wanted, RuleKind::of(&request.kind))
        {
            let rule = match answer {
                Answer::Result(result) => ApprovalRule::Canned(result.clone()),
                Answer::Refuse { .. } => ApprovalRule::Deny,
            };
            let rule = SessionRule { rule, left };
            effects.push(Effect::ApprovalRule(request.server.clone(), kind, Some(rule)));
        }
        if let Some(effect) = wanted {
            self.absorb_effect(effect, effects);
        }
    }

    fn next_answer(&mut self, id: ApprovalId) {
        let pending = &self.model.view.pending;
        let after = pending.get_index_of(&id).map_or(0, |at| at + 1);
        let mut around = pending.keys().cycle().skip(after).take(pending.len()).copied();
        let next = around.find(|other| *other != id && !self.answers.is_sent(*other));
        match next {
            Some(next) => self.open_answer(next),
            None => self.toast(ink!("no other request is waiting"), Role::Ok),
        }
    }

    /// Text came back from an editor.
    pub(super) fn answer_edited(&mut self, id: ApprovalId, text: &Result<String, SafeText>) {
        match (self.answers.screens.get_mut(&id), text) {
            (Some(answering), Ok(text)) => answering.replace_text(text.trim_end_matches('\n')),
            (_, Err(reason)) => self.toast(Ink::from(reason), Role::Warning),
            (None, Ok(_)) => {}
        }
        self.mark(Redraw::Now);
    }

    /// The request of an open screen.
    fn answered_request(&self) -> Option<Arc<PendingRequest>> {
        Some(Arc::clone(&self.answers.screens.get(&self.open_request()?)?.request))
    }
}
