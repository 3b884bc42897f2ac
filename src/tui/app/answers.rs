//! The answering screen of the dashboard, and the one for roots: opened on purpose, left with its
//! draft kept, notified when its request is withdrawn. Turns what the person wants into effects.

use std::collections::BTreeMap;

use crate::config::ApprovalRule;
use crate::deck::answers::Answers as KeptAnswers;
use crate::host::approvals::{PendingRequest, Settlement};
use crate::host::{HostView, RuleKind, SessionRule};
use crate::mcp::{Answer, ApprovalId, RequestKind};
use crate::tui::app::screen::Open;
use crate::tui::app::{App, Redraw};
use crate::tui::approval::answering::{AnswerScreen, Drafting, Offer, Stage, kept_offers};
use crate::tui::effect::Effect;
use crate::tui::entry::FormScreen;
use crate::tui::form::Checked;
use crate::tui::message::{FormToken, Message};
use crate::tui::model::Model;
use crate::tui::overlay::{Confirm, Overlay, Palette, SignInDialog};
use crate::tui::pick::{ApprovalPick, Choice, Pick};
use crate::tui::prelude::*;

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
    pub(super) fn request_action(&mut self, id: ApprovalId, action: Action) -> bool {
        match action {
            Action::Templates => self.choose_template(),
            Action::UseTool => self.choose_tool(),
            Action::SendAlways => self.choose_how_many(),
            Action::DenyAll => self.ask_to_deny_server(),
            Action::NextRequest => self.next_answer(id),
            Action::Draft => self.ask_for_draft(),
            _ => return false,
        }
        self.mark(Redraw::Now);
        true
    }

    fn ask_for_draft(&mut self) {
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
            let draft = Effect::Draft(answering.id(), edited);
            self.effects.push(draft);
        }
    }

    /// An answer goes out.
    pub(super) fn answer_sent(&mut self, id: ApprovalId) {
        // The draft stays until the engine says what became of the answer: a withdrawal may be
        // quicker, and then it is wanted.
        if let Some(request) = self.model.view.pending.get(&id) {
            let answering = || AnswerScreen::new(Arc::clone(request));
            self.answers.screens.entry(id).or_insert_with(answering).stage = Stage::Sent;
        }
        let signs_in =
            |overlay: &Overlay| matches!(overlay, Overlay::SignIn(it) if it.request.id == id);
        self.overlays.retain(|overlay| !signs_in(overlay));
        self.stack.retain(|open| !matches!(open, Open::Answer(open) if *open == id));
        let first = self.first_todo();
        if let Some(todo) = &first {
            self.open_todo(todo);
        }
        self.moment.unasked = self.open_request();
        match (first, self.model.inbox().count().saturating_sub(1)) {
            (None, _) => self.toast(ink!("sent"), Role::Ok),
            (Some(_), others) => self.toast(ink!("sent; {} more waiting", others), Role::Ok),
        }
    }

    /// Sends the answer, and lets a rule give the same answer to the next ones.
    fn send_next(&mut self, left: Option<u32>) {
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
            self.effects.push(Effect::ApprovalRule(request.server.clone(), kind, Some(rule)));
        }
        if let Some(effect) = wanted {
            self.absorb_effect(effect);
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

    /// The request of an open screen.
    fn answered_request(&self) -> Option<Arc<PendingRequest>> {
        Some(Arc::clone(&self.answers.screens.get(&self.open_request()?)?.request))
    }

    /// Withdraws screens whose requests are no longer open, and lets go of those that are answered.
    pub(super) fn answers_followed(&mut self, view: &HostView) {
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
    pub(super) fn answer_message(&mut self, message: Message) {
        match message {
            Message::Drafter(name) => self.model.drafter = name,
            Message::Drafted(id, drafted) => {
                if let Some(answering) = self.answers.screens.get_mut(&id) {
                    answering.drafted(match drafted {
                        Ok(drafted) => Ok((drafted.by, drafted.result)),
                        Err(error) => Err(SafeText::line(&error.message)),
                    });
                }
            }
            Message::Opened(id, opened) => match (self.answers.screens.get_mut(&id), opened) {
                (Some(answering), opened) => {
                    if let Some(effect) = answering.visited(opened) {
                        self.absorb_effect(effect);
                    }
                }
                (None, Ok(())) => self.toast(ink!("continue in the browser"), Role::Ok),
                (None, Err(why)) => {
                    let what = "copy the address, and paste the one the browser ends at";
                    self.toast(ink!("{}: {}", &why, what), Role::Warning);
                }
            },
            Message::KeptAnswers(answers) => self.use_kept_answers(answers),
            _ => return,
        }
        self.mark(Redraw::Now);
    }

    /// Work of the open answer for another thread: one check at a time.
    pub(super) fn answer_work(&mut self) {
        let Some(answering) = self.answer_screen() else { return };
        if let Some(job) = answering.pending_check() {
            let check = Effect::Check(FormToken::answer(answering.id()), Box::new(job));
            self.effects.push(check);
        }
    }

    /// A check of an answer's form is done; what waited for it is only sent while a person looks.
    pub(super) fn answer_checked(&mut self, id: ApprovalId, found: &Checked) {
        let Some(answering) = self.answers.screens.get_mut(&id) else { return };
        let wanted = answering.checked(found);
        self.mark(Redraw::Now);
        if let Some(effect) = wanted.filter(|_| self.open_request() == Some(id)) {
            self.absorb_effect(effect);
        }
    }

    /// Takes the kept answers of the configuration into use.
    pub fn use_kept_answers(&mut self, answers: KeptAnswers) {
        self.answers.kept = answers;
    }

    pub(super) fn choose(&mut self, title: Ink, choices: Vec<Choice>) {
        self.push_overlay(Overlay::Palette(Palette::new(title, choices)));
    }

    fn choose_template(&mut self) {
        let Some(request) = self.answered_request() else { return };
        let entry = self.model.entry(&request.server);
        let Some(answering) = self.answers.screens.get(&request.id) else { return };
        let offers = answering.offers(&self.answers.kept, entry.map(|entry| &entry.approvals));
        let choices: Vec<Choice> = offers
            .into_iter()
            .map(|Offer { name, origin, result }| {
                let take = ApprovalPick::Take(Box::new(result));
                choice(Ink::line(&name), ink!("{}", origin), take)
            })
            .collect();
        if choices.is_empty() {
            return self.toast(ink!("nothing is kept for this kind of request"), Role::Warning);
        }
        self.choose(ink!("start from"), choices);
    }

    fn choose_tool(&mut self) {
        let Some(answering) = self.answer_screen() else { return };
        let named = |tool: &Value, key: &str| {
            SafeText::cut(tool.get(key).and_then(Value::as_str).unwrap_or_default(), 80)
        };
        let choices: Vec<Choice> = answering
            .tools()
            .iter()
            .enumerate()
            .map(|(n, tool)| {
                let words = ink!("{}  {}", named(tool, "name"), named(tool, "description"));
                choice(words, ink!("tool"), ApprovalPick::Tool(n))
            })
            .collect();
        if choices.is_empty() {
            return self.toast(ink!("the request offers no tools"), Role::Warning);
        }
        self.choose(ink!("call a tool"), choices);
    }

    fn choose_how_many(&mut self) {
        let Some(request) = self.answered_request() else { return };
        if RuleKind::of(&request.kind).is_none() {
            return self.toast(ink!("no rule covers this kind of request"), Role::Warning);
        }
        let hint = || ink!("this session");
        let mut choices: Vec<Choice> = NEXT_ONES
            .iter()
            .map(|n| {
                let words = ink!("Send, and answer the next {} the same way", *n);
                choice(words, hint(), ApprovalPick::SendNext(Some(*n)))
            })
            .collect();
        let all = ink!("Send, and answer all that follow the same way");
        choices.push(choice(all, hint(), ApprovalPick::SendNext(None)));
        let server = Ink::line(request.server.as_str());
        self.choose(ink!("answer more requests of {} like this one?", server), choices);
    }

    /// Offers the rules of the server in question; of all servers when none is.
    pub(super) fn choose_rules(&mut self) {
        let target = self.target_server();
        let mut choices = Vec::new();
        for server in self.model.servers() {
            if target.as_ref().is_some_and(|target| *target != server.name) {
                continue;
            }
            for kind in [RuleKind::Sampling, RuleKind::Elicitation] {
                let rule = crate::tui::pane::inbox::rule(server, kind, &self.model);
                let words = ink!("{} {}", Model::name(&server.name), kind.method());
                let pick = ApprovalPick::Rules(server.name.clone(), kind);
                choices.push(choice(words, rule.unwrap_or_else(|| ink!("ask")), pick));
            }
        }
        self.choose(ink!("requests of"), choices);
    }

    fn choose_rule(&mut self, server: &ServerName, kind: RuleKind) {
        let asked = match kind {
            RuleKind::Sampling => RequestKind::Sampling,
            RuleKind::Elicitation => RequestKind::Elicitation,
        };
        let approvals = self.model.entry(server).map(|entry| &entry.approvals);
        let offers = kept_offers(server.as_str(), &asked, &self.answers.kept, approvals);
        let mut choices = Vec::new();
        let mut add = |words: Ink, rule: Option<SessionRule>| {
            let pick = ApprovalPick::Rule(server.clone(), kind, rule);
            choices.push(choice(words, ink!("this session"), pick));
        };
        let rule = |rule: ApprovalRule, left| Some(SessionRule { rule, left });
        add(ink!("ask: they wait for you"), rule(ApprovalRule::Ask, None));
        add(ink!("deny all that follow"), rule(ApprovalRule::Deny, None));
        for n in NEXT_ONES {
            add(ink!("deny the next {}", n), rule(ApprovalRule::Deny, Some(n)));
        }
        for Offer { name, result, .. } in offers {
            let canned = ApprovalRule::Canned(result);
            let name = Ink::line(&name);
            add(ink!("answer all that follow with: {}", &name), rule(canned.clone(), None));
            for n in NEXT_ONES {
                let words = ink!("answer the next {} with: {}", n, &name);
                add(words, rule(canned.clone(), Some(n)));
            }
        }
        add(ink!("as the entry in mcp.json says"), None);
        let name = Ink::line(server.as_str());
        self.choose(ink!("{} of {}:", kind.method(), name), choices);
    }

    /// Opens the roots of the server in question, or asks which.
    pub(super) fn choose_roots(&mut self) {
        if let Some(server) = self.target_server() {
            return self.open_roots(server);
        }
        let servers = self.model.servers().map(|server| {
            let count = ink!("{} roots", server.roots.len());
            choice(Model::name(&server.name), count, ApprovalPick::Roots(server.name.clone()))
        });
        let choices = servers.collect();
        self.choose(ink!("roots of"), choices);
    }

    fn open_roots(&mut self, server: ServerName) {
        let Some(view) = self.model.server(&server) else { return };
        let editor = FormScreen::roots(server, &view.roots, self.setup.home.clone());
        self.push_screen(Open::Own(Box::new(editor)));
    }

    /// Does what was chosen.
    pub(super) fn approval_pick(&mut self, pick: ApprovalPick) {
        match pick {
            ApprovalPick::Take(result) => {
                if let Some(answering) = self.answer_screen() {
                    answering.take_result(&result);
                }
            }
            ApprovalPick::Tool(index) => {
                if let Some(answering) = self.answer_screen() {
                    answering.begin_tool(index);
                }
            }
            ApprovalPick::SendNext(left) => self.send_next(left),
            ApprovalPick::Rules(server, kind) => self.choose_rule(&server, kind),
            ApprovalPick::Rule(server, kind, rule) => {
                let name = Ink::line(server.as_str());
                self.toast(ink!("{} of {} is decided anew", kind.method(), name), Role::Ok);
                self.effects.push(Effect::ApprovalRule(server, kind, rule));
            }
            ApprovalPick::Roots(server) => self.open_roots(server),
        }
    }

    fn ask_to_deny_server(&mut self) {
        let Some(request) = self.answered_request() else { return };
        let pending = self.model.view.pending.values().filter(|one| one.server == request.server);
        let ids: Vec<ApprovalId> = pending.map(|request| request.id).collect();
        self.ask_to_deny_all(&request.server, &ids);
    }

    /// Asks before many requests are denied.
    pub(super) fn ask_to_deny_all(&mut self, server: &ServerName, ids: &[ApprovalId]) {
        let pending = &self.model.view.pending;
        let answers: Vec<(ApprovalId, Answer)> =
            ids.iter().filter_map(|id| Some((*id, refusal(&pending.get(id)?.kind)))).collect();
        let name = Ink::line(server.as_str());
        let lines = match answers.len() {
            0 => return self.toast(ink!("no request of {} is waiting", name), Role::Ok),
            open => vec![ink!("{} of this server will be denied", count(open, "open request"))],
        };
        let yes = vec![Effect::Deny(answers)];
        let title = ink!("deny all of {}?", name);
        self.push_overlay(Overlay::Confirm(Confirm::new(title, lines, yes)));
    }
}

// What the engine says about requests: settled, withdrawn, drafted, opened. Drafts outlive their
// requests, so that they can be copied.

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
        None => End::Withdrawn(SafeText::line("its server was removed")),
    }
}

// Lists a person chooses from about requests: kept answers, tools, rules, servers; and the
// question before many are denied.

/// How many of the next requests a rule can be for.
const NEXT_ONES: [u32; 4] = [1, 5, 10, 50];

fn choice(words: Ink, hint: Ink, pick: ApprovalPick) -> Choice {
    Choice::new(words, hint, Pick::Approval(pick))
}

/// "No", as the wire carries it for this kind.
fn refusal(kind: &RequestKind) -> Answer {
    match kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(serde_json::json!({"action": "decline"}))
        }
        _ => Answer::Refuse { code: -1, message: "the user declined".to_owned() },
    }
}
