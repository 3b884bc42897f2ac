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
use crate::tui::approval::answering::{AnswerScreen, Stage};
use crate::tui::effect::Effect;
use crate::tui::form::Checked;
use crate::tui::ink::{Ink, ink};
use crate::tui::message::{FormToken, Message};
use crate::tui::overlay::Overlay;
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

fn end_of(id: ApprovalId, answering: &AnswerScreen, view: &HostView) -> End {
    let settlement = view.settled.iter().rev().find(|(_, request, _)| request.id == id);
    match settlement {
        Some((_, _, Settlement::Withdrawn { reason })) => End::Withdrawn(reason.clone()),
        Some(_) if answering.stage == Stage::Sent => End::Answered,
        Some(_) => End::Withdrawn(SafeText::line("answered elsewhere")),
        None if view.servers.contains_key(&answering.request.server) => End::Unseen,
        None => End::Withdrawn(SafeText::line("its server left the deck")),
    }
}

impl App {
    /// Withdraws screens whose requests are no longer open, and lets go of those that are answered.
    pub(in super::super) fn answers_followed(&mut self, view: &HostView) {
        let mut notice = None;
        let mut answered = Vec::new();
        self.overlays.retain(|overlay| match overlay {
            Overlay::SignIn(dialog) => view.pending.contains_key(&dialog.request.id),
            _ => true,
        });
        let open = self.open_request();
        for (id, answering) in &mut self.answers.screens {
            if let Some(request) = view.pending.get(id) {
                // It may have got more time.
                answering.request = Arc::clone(request);
                continue;
            }
            if answering.ended().is_some() {
                continue;
            }
            match end_of(*id, answering, view) {
                End::Answered => answered.push(*id),
                End::Unseen => {
                    let reason = SafeText::line("see the logs for how it ended");
                    if answering.stage == Stage::Sent {
                        let server = Ink::line(answering.request.server.as_str());
                        notice = Some(ink!("the request of {} ended: {}", server, &reason));
                    }
                    answering.end(reason);
                }
                End::Withdrawn(reason) => {
                    let late = answering.stage == Stage::Sent;
                    if late {
                        let server = Ink::line(answering.request.server.as_str());
                        notice = Some(ink!("not sent: {} had withdrawn it: {}", server, &reason));
                    } else if open == Some(*id) {
                        notice = Some(ink!("withdrawn: {}", &reason));
                    }
                    answering.end(reason);
                }
            }
        }
        for id in answered {
            self.answers.screens.remove(&id);
            self.stack.retain(|open| !matches!(open, Open::Answer(open) if *open == id));
        }
        if let Some(notice) = notice {
            self.toast(notice, Role::Error);
        }
        self.forget_empty();
    }

    /// Keeps ended screens only while they hold something, and not without end.
    fn forget_empty(&mut self) {
        let open = self.open_request();
        self.answers.screens.retain(|id, answering| {
            answering.ended().is_none() || answering.has_draft() || open == Some(*id)
        });
        let ended = |(_, answering): &(&ApprovalId, &AnswerScreen)| answering.ended().is_some();
        while self.answers.screens.iter().filter(ended).count() > KEPT {
            let oldest =
                self.answers.screens.iter().filter(ended).find(|(id, _)| Some(**id) != open);
            let Some(id) = oldest.map(|(id, _)| *id) else { break };
            self.answers.screens.remove(&id);
        }
        let kept =
            self.answers.screens.values().filter(|answering| answering.has_draft()).filter_map(
                |answering| {
                    let reason = answering.ended()?.clone();
                    Some((Arc::clone(&answering.request), reason))
                },
            );
        self.model.kept_drafts = kept.collect();
    }

    /// Something about requests came back from outside.
    pub(in super::super) fn answer_message(&mut self, message: Message, effects: &mut Vec<Effect>) {
        match message {
            Message::Drafter(name) => self.model.drafter = name,
            Message::Drafted(id, drafted) => self.answer_drafted(id, drafted),
            Message::Opened(id, opened) => {
                let answering = self.answers.screens.get_mut(&id);
                match (answering, opened) {
                    (Some(answering), opened) => {
                        if let Some(effect) = answering.visited(opened) {
                            self.absorb_effect(effect, effects);
                        }
                    }
                    (None, Ok(())) => self.toast(ink!("go on in the browser"), Role::Ok),
                    (None, Err(why)) => {
                        let what = "copy the address, and paste the one the browser ends at";
                        self.toast(ink!("{}: {}", &why, what), Role::Warning);
                    }
                }
            }
            Message::KeptAnswers(answers) => self.use_kept_answers(answers),
            _ => {}
        }
        self.mark(Redraw::Now);
    }

    /// Work of the open answer for another thread: one check at a time.
    pub(in crate::tui::app) fn answer_work(&mut self, effects: &mut Vec<Effect>) {
        let Some(answering) = self.answer_screen() else { return };
        if let Some(job) = answering.pending_check() {
            effects.push(Effect::Check(FormToken::answer(answering.id()), Box::new(job)));
        }
    }

    /// A check of an answer's form is done; what waited for it is only sent while a person looks.
    pub(in crate::tui::app) fn answer_checked(
        &mut self,
        id: ApprovalId,
        found: &Checked,
        effects: &mut Vec<Effect>,
    ) {
        let Some(answering) = self.answers.screens.get_mut(&id) else { return };
        let wanted = answering.checked(found);
        self.mark(Redraw::Now);
        if let Some(effect) = wanted.filter(|_| self.open_request() == Some(id)) {
            self.absorb_effect(effect, effects);
        }
    }

    fn answer_drafted(&mut self, id: ApprovalId, drafted: Result<Drafted, Error>) {
        if let Some(answering) = self.answers.screens.get_mut(&id) {
            answering.drafted(match drafted {
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
