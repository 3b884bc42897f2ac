//! Lists a person chooses from about requests: kept answers, tools, rules, servers; and the
//! question before many are denied.

use super::super::App;
use super::super::screen::Open;
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::ApprovalRule;
use crate::host::{RuleKind, SessionRule};
use crate::mcp::RequestKind;
use crate::mcp::{Answer, ApprovalId};
use crate::tui::approval::answering::{Offer, kept_offers};
use crate::tui::approval::elicitation::ElicitAction;
use crate::tui::effect::Effect;
use crate::tui::entry::FormScreen;
use crate::tui::ink::{Ink, count, ink};
use crate::tui::model::Model;
use crate::tui::overlay::{ApprovalPick, Choice, Confirm, Overlay, Palette, Pick};
use crate::tui::pane::DenyAll;
use crate::tui::theme::Role;

/// How many of the next requests a rule can be for.
const NEXT_ONES: [u32; 4] = [1, 5, 10, 50];

fn choice(words: Ink, hint: Ink, pick: ApprovalPick) -> Choice {
    Choice { words, hint, pick: Pick::Approval(pick), disabled: None }
}

impl App {
    pub(in super::super) fn choose(&mut self, title: Ink, choices: Vec<Choice>) {
        self.push_overlay(Overlay::Palette(Palette::new(title, choices)));
    }

    pub(super) fn choose_template(&mut self) {
        let Some(request) = self.answered_request() else { return };
        let entry = self.model.config.as_ref().and_then(|c| c.servers.get(&request.server));
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

    pub(super) fn choose_tool(&mut self) {
        let Some(answering) = self.answer_screen() else { return };
        let named = |tool: &serde_json::Value, key: &str| {
            SafeText::cut(tool.get(key).and_then(serde_json::Value::as_str).unwrap_or_default(), 80)
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

    pub(super) fn choose_how_many(&mut self) {
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
    pub(in super::super) fn choose_rules(&mut self) {
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
        let entry = self.model.config.as_ref().and_then(|c| c.servers.get(server));
        let asked = match kind {
            RuleKind::Sampling => RequestKind::Sampling,
            RuleKind::Elicitation => RequestKind::Elicitation,
        };
        let approvals = entry.map(|entry| &entry.approvals);
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
    pub(in super::super) fn choose_roots(&mut self) {
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
    pub(in super::super) fn approval_pick(
        &mut self,
        pick: ApprovalPick,
        effects: &mut Vec<Effect>,
    ) {
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
            ApprovalPick::SendNext(left) => self.send_next(left, effects),
            ApprovalPick::Rules(server, kind) => self.choose_rule(&server, kind),
            ApprovalPick::Rule(server, kind, rule) => {
                let name = Ink::line(server.as_str());
                self.toast(ink!("{} of {} is decided anew", kind.method(), name), Role::Ok);
                effects.push(Effect::ApprovalRule(server, kind, rule));
            }
            ApprovalPick::Roots(server) => self.open_roots(server),
        }
    }

    pub(super) fn ask_to_deny_server(&mut self) {
        let Some(request) = self.answered_request() else { return };
        let server = request.server.clone();
        let pending = self.model.view.pending.values();
        let ids = pending.filter(|r| r.server == server).map(|request| request.id).collect();
        self.ask_to_deny_all(&DenyAll { server, ids });
    }

    /// Asks before many requests are denied.
    pub(in super::super) fn ask_to_deny_all(&mut self, deny: &DenyAll) {
        let pending = &self.model.view.pending;
        let answers: Vec<(ApprovalId, Answer)> =
            deny.ids.iter().filter_map(|id| Some((*id, refusal(&pending.get(id)?.kind)))).collect();
        let name = Ink::line(deny.server.as_str());
        let lines = match answers.len() {
            0 => return self.toast(ink!("no request of {} is waiting", name), Role::Ok),
            open => vec![ink!("{} of this server will be denied", count(open, "open request"))],
        };
        let yes = vec![Effect::Deny(answers)];
        let title = ink!("deny all of {}?", name);
        self.push_overlay(Overlay::Confirm(Confirm::new(title, lines, yes)));
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
