//! Requests being answered: their screens, kept with drafts and updated when a request is
//! withdrawn, and the lists of choices about requests. `app/screens.rs` owns which screen is open.

use std::collections::BTreeMap;

use crate::approval::answering::{AnswerScreen, AnsweringStage, Drafting, Offer, kept_offers};
use crate::effect::{Effect, Order};
use crate::intent::Intent;
use crate::message::FormToken;
use crate::model::Model;
use crate::pane::Out;
use crate::pick::{ApprovalPick, Choice, Pick};
use crate::prelude::*;
use config::ApprovalRule;
use deck::Answers;
use host::{ApprovalRequest, HostView, RuleKind, SessionRule, Settlement};
use protocol::{Answer, ApprovalId, RequestKind};

/// Maximum number of ended requests whose drafts are kept for copying.
const MAX_KEPT_DRAFTS: usize = 50;
/// Numbers of following requests that a rule can be limited to.
const NEXT_ONES: [u32; 4] = [1, 5, 10, 50];

/// Reason shown when the view no longer lists how a request ended.
const UNSEEN: &str = "see the logs for how it ended";

/// Requests being answered.
#[derive(Default)]
pub struct OpenAnswers {
    pub(super) screens: BTreeMap<ApprovalId, AnswerScreen>,
    /// Answers stored beside the configuration, and those added during this run.
    pub(super) kept: Answers,
}

impl OpenAnswers {
    /// Whether an answer was sent that the engine has not confirmed yet.
    pub(super) fn is_sent(&self, id: ApprovalId) -> bool {
        self.screens.get(&id).is_some_and(|answering| answering.stage == AnsweringStage::Sent)
    }

    /// Number of unsent drafts for these servers.
    pub(super) fn drafts(&self, of: impl Fn(&ServerName) -> bool) -> usize {
        let open =
            self.screens.values().filter(|answering| answering.stage == AnsweringStage::Open);
        open.filter(|answering| of(&answering.request.server) && answering.has_draft()).count()
    }

    /// The screen of a request, created if needed; `None` if the request has ended and its screen
    /// was not kept.
    pub(super) fn show(&mut self, id: ApprovalId, view: &HostView) -> Option<&mut AnswerScreen> {
        if let Some(request) = view.pending.get(&id) {
            let answering = || AnswerScreen::new(Arc::clone(request));
            return Some(self.screens.entry(id).or_insert_with(answering));
        }
        self.screens.get_mut(&id)
    }

    /// Asks the registered model for a draft of this answer.
    pub(super) fn ask_for_draft(&mut self, id: ApprovalId, model: &Model, out: &mut Out) {
        let Some(answering) =
            self.screens.get_mut(&id).filter(|one| one.stage == AnsweringStage::Open)
        else {
            return;
        };
        if model.drafter.is_none() {
            answering.notice = Some(SafeText::line("no model is registered to draft answers"));
        } else if answering.drafting != Drafting::Asked {
            answering.drafting = Drafting::Asked;
            let edited = answering.is_edited().then(|| Arc::clone(&answering.params));
            out.effect(Effect::Draft(answering.id(), edited));
        }
    }

    /// Ends the screens of withdrawn requests; removes those of answered ones and returns their
    /// ids. `open` is the request on the screen.
    pub(super) fn follow(
        &mut self,
        view: &HostView,
        open: Option<ApprovalId>,
        out: &mut Out,
    ) -> Vec<ApprovalId> {
        let mut answered = Vec::new();
        for (id, answering) in &mut self.screens {
            if let Some(request) = view.pending.get(id) {
                // Its deadline may have been extended.
                answering.request = Arc::clone(request);
                continue;
            }
            if answering.ended().is_some() {
                continue;
            }
            let late = answering.stage == AnsweringStage::Sent;
            let server = Ink::line(answering.request.server.as_str());
            let Some(reason) = withdrawn(*id, answering, view) else {
                answered.push(*id);
                continue;
            };
            if late && reason.as_str() == UNSEEN {
                out.toast(ink!("the request of {} ended: {}", server, &reason), Role::Error);
            } else if late {
                let notice = ink!("not sent: {} had withdrawn it: {}", server, &reason);
                out.toast(notice, Role::Error);
            } else if open == Some(*id) {
                out.toast(ink!("withdrawn: {}", &reason), Role::Error);
            }
            answering.end(reason);
        }
        for id in &answered {
            self.screens.remove(id);
        }
        answered
    }

    /// Drops ended screens without a draft and the oldest beyond `MAX_KEPT_DRAFTS`; returns the drafts left.
    pub(super) fn forget_empty(
        &mut self,
        open: Option<ApprovalId>,
    ) -> Vec<(Arc<ApprovalRequest>, SafeText)> {
        self.screens.retain(|id, answering| {
            answering.ended().is_none() || answering.has_draft() || open == Some(*id)
        });
        let ended = |(_, answering): &(&ApprovalId, &AnswerScreen)| answering.ended().is_some();
        while self.screens.iter().filter(ended).count() > MAX_KEPT_DRAFTS {
            let oldest = self.screens.iter().filter(ended).find(|(id, _)| Some(**id) != open);
            let Some(id) = oldest.map(|(id, _)| *id) else { break };
            self.screens.remove(&id);
        }
        let drafts = self.screens.values().filter(|answering| answering.has_draft());
        let kept = drafts.filter_map(|answering| {
            Some((Arc::clone(&answering.request), answering.ended()?.clone()))
        });
        kept.collect()
    }

    /// Handles the result of opening the browser for a request.
    pub(super) fn opened(&mut self, id: ApprovalId, opened: Result<(), SafeText>, out: &mut Out) {
        match (self.screens.get_mut(&id), opened) {
            (Some(answering), opened) => answering.visited(opened, out),
            (None, Ok(())) => out.say(ink!("continue in the browser")),
            (None, Err(why)) => {
                let what = "copy the address, and paste the one the browser ends at";
                out.warn(ink!("{}: {}", &why, what));
            }
        }
    }

    /// Queues the pending check of the open answer for another thread, one at a time.
    pub(super) fn work(&mut self, open: Option<ApprovalId>, out: &mut Out) {
        let Some(answering) = open.and_then(|id| self.screens.get_mut(&id)) else { return };
        if let Some(job) = answering.pending_check() {
            out.effect(Effect::Check(FormToken::Answer(answering.id()), Box::new(job)));
        }
    }

    /// The answers a draft can start from.
    pub(super) fn templates(&self, id: ApprovalId, model: &Model) -> Vec<Choice> {
        let Some(answering) = self.screens.get(&id) else { return Vec::new() };
        let entry = model.entry(&answering.request.server);
        let offers = answering.offers(&self.kept, entry.map(|entry| &*entry.approvals));
        let choices = offers.into_iter().map(|Offer { name, origin, result }| {
            choice(Ink::line(&name), ink!("{}", origin), ApprovalPick::Take(Box::new(result)))
        });
        choices.collect()
    }

    /// The tools a completion can call.
    pub(super) fn tools(&self, id: ApprovalId) -> Vec<Choice> {
        let named = |tool: &Value, key: &str| {
            SafeText::cut(tool.get(key).and_then(Value::as_str).unwrap_or_default(), 80)
        };
        let tools = self.screens.get(&id).map_or(&[][..], AnswerScreen::tools);
        let choices = tools.iter().enumerate().map(|(n, tool)| {
            let words = ink!("{}  {}", named(tool, "name"), named(tool, "description"));
            choice(words, ink!("tool"), ApprovalPick::Tool(n))
        });
        choices.collect()
    }

    /// The rules that can decide one kind of request of a server.
    pub(super) fn rules(&self, server: &ServerName, kind: RuleKind, model: &Model) -> Vec<Choice> {
        let asked = match kind {
            RuleKind::Sampling => RequestKind::Sampling,
            RuleKind::Elicitation => RequestKind::Elicitation,
        };
        let approvals = model.entry(server).map(|entry| &*entry.approvals);
        let offers = kept_offers(server.as_str(), &asked, &self.kept, approvals);
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
        choices
    }
}

/// Sends the answer, and sets a rule that gives the same answer to the next requests.
pub(super) fn send_next(answering: &mut AnswerScreen, left: Option<u32>, out: &mut Out) {
    let at = out.intents.len();
    // A rule is only set for an answer that is sent right now, not after a check.
    let sent = send_now(answering, out);
    let request = &answering.request;
    if let (Some(answer), Some(kind)) = (sent, RuleKind::from_request_kind(&request.kind)) {
        let rule = match answer {
            Answer::Result(result) => ApprovalRule::Canned(result),
            Answer::Refuse { .. } => ApprovalRule::Deny,
        };
        let rule = Some(SessionRule { rule, left });
        // The next request may come as soon as this one is answered.
        let set = Effect::Order(Order::ApprovalRule(request.server.clone(), kind, rule));
        out.intents.insert(at, set.into());
    }
}

/// Whether two requests that wait are of one kind: what answers one may answer the other.
pub(super) fn is_alike(one: &ApprovalRequest, other: &ApprovalRequest) -> bool {
    let schema = |request: &ApprovalRequest| request.params.get("requestedSchema").cloned();
    one.id != other.id
        && one.server == other.server
        && one.kind == other.kind
        && RuleKind::from_request_kind(&one.kind).is_some()
        && schema(one) == schema(other)
}

/// Sends the answer, and gives the same one to other requests that wait.
pub(super) fn send_others(others: Vec<ApprovalId>, answering: &mut AnswerScreen, out: &mut Out) {
    let at = out.intents.len();
    // The others get only an answer that is sent right now, not after a check.
    if let Some(answer) = send_now(answering, out) {
        let all = others.into_iter().map(|id| (id, answer.clone())).collect();
        out.intents.insert(at, Effect::Order(Order::AnswerAll(all)).into());
    }
}

/// Sends the answer if nothing speaks against it now; returns it if it was sent.
fn send_now(answering: &mut AnswerScreen, out: &mut Out) -> Option<Answer> {
    let before = out.intents.len();
    answering.apply(Action::Send, out);
    answering.stop_waiting();
    out.intents[before..].iter().find_map(|intent| {
        let Intent::Perform(Effect::Order(Order::Answer(_, answer))) = intent else { return None };
        Some(answer.clone())
    })
}

/// Choices for how many requests to answer like the open one; `others` of its kind wait.
pub(super) fn how_many(others: usize) -> Vec<Choice> {
    let next = NEXT_ONES.map(|n| (Some(n), ink!("Send, and answer the next {} the same way", n)));
    let all = (None, ink!("Send, and answer all that follow the same way"));
    let choices = next.into_iter().chain([all]);
    let hint = || ink!("this session");
    let next = choices.map(|(left, words)| choice(words, hint(), ApprovalPick::SendNext(left)));
    let now = (others > 0).then(|| {
        let words = ink!("Send, and give the same answer to {} that wait", count(others, "other"));
        choice(words, ink!("now"), ApprovalPick::SendOthers)
    });
    now.into_iter().chain(next).collect()
}

/// The kinds of requests per server, each with its current rule.
pub(super) fn kinds(target: Option<&ServerName>, model: &Model) -> Vec<Choice> {
    let mut choices = Vec::new();
    for server in model.servers().filter(|one| target.is_none_or(|target| *target == one.name)) {
        for kind in [RuleKind::Sampling, RuleKind::Elicitation] {
            let rule = crate::pane::inbox::rule(server, kind, model);
            let words = ink!("{} {}", Model::name(&server.name), kind.method());
            let pick = ApprovalPick::Rules(server.name.clone(), kind);
            choices.push(choice(words, rule.unwrap_or_else(|| ink!("ask")), pick));
        }
    }
    choices
}

/// The servers whose roots can be changed.
pub(super) fn roots(model: &Model) -> Vec<Choice> {
    let servers = model.servers().map(|server| {
        let count = ink!("{}", count(server.roots.len(), "root"));
        choice(Model::name(&server.name), count, ApprovalPick::Roots(server.name.clone()))
    });
    servers.collect()
}

fn choice(words: Ink, hint: Ink, pick: ApprovalPick) -> Choice {
    Choice::new(words, hint, Pick::Approval(pick))
}

/// Why a request is no longer open; `None` if the answer sent from here settled it.
fn withdrawn(id: ApprovalId, answering: &AnswerScreen, view: &HostView) -> Option<SafeText> {
    let settlement = view.settled.iter().rev().find(|(_, request, _)| request.id == id);
    Some(match settlement {
        Some((_, _, Settlement::Withdrawn { reason })) => reason.clone(),
        Some(_) if answering.stage == AnsweringStage::Sent => return None,
        Some(_) => SafeText::line("answered elsewhere"),
        None if view.servers.contains_key(&answering.request.server) => SafeText::line(UNSEEN),
        None => SafeText::line("its server was removed"),
    })
}
