//! What the engine says about requests: settled, withdrawn, drafted, opened. Drafts outlive their
//! requests, so that they can be copied.

use std::sync::Arc;

use super::super::screen::Open;
use super::super::{App, Redraw};
use crate::base::text::SafeText;
use crate::deck::answers::Answers as KeptAnswers;
use crate::error::Error;
use crate::host::HostView;
use crate::host::approvals::{Drafted, Settlement};
use crate::mcp::ApprovalId;
use crate::tui::approval::desk::{AnswerDesk, Stage};
use crate::tui::effect::Effect;
use crate::tui::form::Checked;
use crate::tui::ink::{Ink, ink};
use crate::tui::message::{FormToken, Message};
use crate::tui::theme::Role;

/// Most drafts of withdrawn requests that are kept to be copied.
const KEPT: usize = 50;

/// What became of a request that is open no more.
enum End {
    Answered,
    Withdrawn(SafeText),
    /// It ended among so many others that how is not kept any more.
    Unseen,
}

fn end_of(id: ApprovalId, desk: &AnswerDesk, view: &HostView) -> End {
    let settlement = view.settled.iter().rev().find(|(_, request, _)| request.id == id);
    match settlement {
        Some((_, _, Settlement::Withdrawn { reason })) => End::Withdrawn(reason.clone()),
        Some(_) if desk.stage == Stage::Sent => End::Answered,
        Some(_) => End::Withdrawn(SafeText::line("answered elsewhere")),
        None if view.servers.contains_key(&desk.request.server) => End::Unseen,
        None => End::Withdrawn(SafeText::line("its server left the deck")),
    }
}

impl App {
    /// Withdraws desks whose requests are no longer open, and lets go of those that are answered.
    pub(in super::super) fn answers_followed(&mut self, view: &HostView) {
        let mut told = None;
        let mut answered = Vec::new();
        let open = self.open_request();
        for (id, desk) in &mut self.answers.desks {
            if let Some(request) = view.pending.get(id) {
                // It may have got more time.
                desk.request = Arc::clone(request);
                continue;
            }
            if desk.ended().is_some() {
                continue;
            }
            match end_of(*id, desk, view) {
                End::Answered => answered.push(*id),
                End::Unseen => {
                    let reason = SafeText::line("see the logs for how it ended");
                    if desk.stage == Stage::Sent {
                        let server = Ink::line(desk.request.server.as_str());
                        told = Some(ink!("the request of {} ended: {}", server, &reason));
                    }
                    desk.end(reason);
                }
                End::Withdrawn(reason) => {
                    let late = desk.stage == Stage::Sent;
                    if late {
                        let server = Ink::line(desk.request.server.as_str());
                        told = Some(ink!("not sent: {} had withdrawn it: {}", server, &reason));
                    } else if open == Some(*id) {
                        told = Some(ink!("withdrawn: {}", &reason));
                    }
                    desk.end(reason);
                }
            }
        }
        for id in answered {
            self.answers.desks.remove(&id);
            self.stack.retain(|open| !matches!(open, Open::Answer(open) if *open == id));
        }
        if let Some(told) = told {
            self.toast(told, Role::Error);
        }
        self.forget_empty();
    }

    /// Keeps ended desks only while they hold something, and not without end.
    fn forget_empty(&mut self) {
        let open = self.open_request();
        self.answers
            .desks
            .retain(|id, desk| desk.ended().is_none() || desk.has_draft() || open == Some(*id));
        let ended = |(_, desk): &(&ApprovalId, &AnswerDesk)| desk.ended().is_some();
        while self.answers.desks.iter().filter(ended).count() > KEPT {
            let oldest = self.answers.desks.iter().filter(ended).find(|(id, _)| Some(**id) != open);
            let Some(id) = oldest.map(|(id, _)| *id) else { break };
            self.answers.desks.remove(&id);
        }
        let kept = self.answers.desks.values().filter(|desk| desk.has_draft()).filter_map(|desk| {
            let reason = desk.ended()?.clone();
            Some((Arc::clone(&desk.request), reason))
        });
        self.model.kept_drafts = kept.collect();
    }

    /// Something about requests came back from outside.
    pub(in super::super) fn answer_message(&mut self, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::Drafter(name) => self.model.drafter = name,
            Message::Drafted(id, drafted) => self.answer_drafted(id, drafted),
            Message::Opened(id, opened) => {
                let desk = self.answers.desks.get_mut(&id);
                if let Some(effect) = desk.and_then(|desk| desk.visited(opened)) {
                    self.absorb_effect(effect, effects);
                }
            }
            Message::KeptAnswers(answers) => self.use_kept_answers(answers),
            _ => {}
        }
        self.mark(Redraw::Now);
    }

    /// Work of the open answer for another thread: one check at a time.
    pub(in crate::tui::app) fn answer_work(&mut self, effects: &mut Vec<Effect>) {
        let Some(desk) = self.answer_desk() else { return };
        if let Some(job) = desk.pending_check() {
            effects.push(Effect::Check(FormToken::answer(desk.id()), Box::new(job)));
        }
    }

    /// A check of an answer's form is done; what waited for it is only sent while a person looks.
    pub(in crate::tui::app) fn answer_checked(
        &mut self,
        id: ApprovalId,
        found: &Checked,
        effects: &mut Vec<Effect>,
    ) {
        let Some(desk) = self.answers.desks.get_mut(&id) else { return };
        let wanted = desk.checked(found);
        self.mark(Redraw::Now);
        if let Some(effect) = wanted.filter(|_| self.open_request() == Some(id)) {
            self.absorb_effect(effect, effects);
        }
    }

    fn answer_drafted(&mut self, id: ApprovalId, drafted: Result<Drafted, Error>) {
        if let Some(desk) = self.answers.desks.get_mut(&id) {
            desk.drafted(match drafted {
                Ok(drafted) => Ok((drafted.by, drafted.result)),
                Err(error) => Err(SafeText::line(&error.message)),
            });
        }
    }

    /// Takes the kept answers of the configuration into use.
    pub fn use_kept_answers(&mut self, answers: KeptAnswers) {
        self.answers.kept = answers;
    }
}
