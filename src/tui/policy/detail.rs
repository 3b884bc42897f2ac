//! Text of the rows of the policy screen, and the detail beside the list.

use super::{Differs, PolicyRow, PolicyScreen, Section};
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::Cx;
use crate::prelude::*;
use crate::widget::{Doc, Pen, WordBudget, changed, width};
use deck::{ClientView, DriftPlace};
use host::{Grant, GrantId, GrantKind, HeldReason, Limits, PolicyAction, QuotaView};

impl PolicyScreen {
    /// Draws a row.
    pub(super) fn row(&self, cx: &Cx<'_>, row: &PolicyRow, room: u16, pen: &mut Pen<'_>) {
        let style = |role| cx.style(role);
        let policy = &cx.model.policy;
        let mut two = |sign: (&'static str, Role), name: Ink, note: Ink, role: Role| {
            pen.skip(1).put(sign.0, style(sign.1)).skip(1);
            let note_room = width(&note).min(room / 2);
            let left = room.saturating_sub(note_room + pen.position() + 2);
            pen.middle(name, left, style(Role::Text)).skip(1).clip(note, note_room, style(role));
        };
        match row {
            PolicyRow::Title(section) => {
                pen.put(section.name(), style(Role::Heading)).skip(2);
                pen.put(self.section_note(*section, cx.model), style(Role::Muted));
            }
            PolicyRow::Warning(at) => {
                let text = policy.warnings.get(*at).map(|text| Ink::line(text)).unwrap_or_default();
                two((cx.glyphs.warning, Role::Warning), text, ink!(""), Role::Muted);
            }
            PolicyRow::Drift(server, place) => {
                let Some(one) = self.differing(server, place) else { return };
                let (note, role) = match (one.held, one.risks()) {
                    (Some((HeldReason::Refused, _)), _) => (ink!("refused"), Role::Muted),
                    (Some((HeldReason::Unstable, _)), _) => (ink!("unstable"), Role::Warning),
                    (_, 0) => (ink!(""), Role::Muted),
                    (_, risks) => (ink!("{}", count(risks, "risk")), Role::Warning),
                };
                two(one.change().sign(), one.name(), note, role);
            }
            PolicyRow::Client(origin) => {
                let Some(client) = client(cx.model, origin) else { return };
                let (note, role) = match (client.is_paused, client.active.len()) {
                    _ if client.is_revoked => (ink!("revoked"), Role::Error),
                    (true, _) => (ink!("paused"), Role::Warning),
                    (_, 0) => (ink!("{}", count(client.calls, "call")), Role::Muted),
                    (_, now) => (ink!("{} now", count(now, "call")), Role::Busy),
                };
                two((" ", Role::Text), client_name(client), note, role);
            }
            PolicyRow::Grant(id) => {
                let Some(grant) = grant(cx.model, *id) else { return };
                let (who, what) = grant_words(grant);
                let role = if grant.effect == GrantKind::Deny { Role::Error } else { Role::Muted };
                two((" ", Role::Text), who, what, role);
            }
            PolicyRow::Limits(at) => {
                let Some((profile, limits)) = policy.limits.get(*at) else { return };
                let whose =
                    if policy.set_runs.contains(profile) { "" } else { " (pages, named runs)" };
                let runs = ink!("{} a run{}", limits.calls_per_run, whose);
                let note = ink!("{} at once  {}", limits.calls_at_once, runs);
                two((" ", Role::Text), Ink::line(profile), note, Role::Muted);
            }
            PolicyRow::Quota(at) => {
                let Some(quota) = policy.quotas.get(*at) else { return };
                let (note, is_used_up) = quota_note(quota);
                let role = if is_used_up { Role::Warning } else { Role::Muted };
                two((" ", Role::Text), Ink::line(&quota.quota), note, role);
            }
            PolicyRow::Blocked(at, target) => {
                let time = Model::time_of_day(*at);
                two((" ", Role::Text), Ink::from(target), time, Role::Faint);
            }
        }
    }

    /// The note beside the title of a section.
    fn section_note(&self, section: Section, model: &Model) -> Ink {
        let none = match section {
            Section::Definitions => match &self.known {
                _ if !self.differs.is_empty() => return ink!("{}", self.differs.len()),
                Some(Err(problem)) => return Ink::from(problem),
                None if self.against.is_some() => return ink!("reading"),
                _ => true,
            },
            Section::Clients => model.clients.is_empty(),
            Section::Grants => model.policy.grants.is_empty(),
            Section::Limits => model.policy.limits.is_empty(),
            Section::Blocked => model.blocked.is_empty(),
        };
        if none { ink!("nothing") } else { ink!("") }
    }

    /// Describes the selected row.
    pub(super) fn detail(&self, cx: &Cx<'_>, doc: &mut Doc) -> Option<()> {
        let model = cx.model;
        match self.browser.selected()? {
            PolicyRow::Title(section) => about(*section, cx, doc),
            PolicyRow::Warning(at) => {
                doc.text(0, &Ink::line(model.policy.warnings.get(*at)?), Role::Warning);
            }
            PolicyRow::Drift(..) => self.selected()?.detail(cx, self.basis(), doc),
            PolicyRow::Client(origin) => client_detail(client(model, origin)?, model, doc),
            PolicyRow::Grant(id) => grant_detail(grant(model, *id)?, model, doc),
            PolicyRow::Limits(at) => {
                let (profile, limits) = model.policy.limits.get(*at)?;
                limits_detail(profile, limits, model.policy.set_runs.contains(profile), doc);
            }
            PolicyRow::Quota(at) => quota_detail(model.policy.quotas.get(*at)?, doc),
            PolicyRow::Blocked(at, target) => {
                let mut all = model.blocked.iter();
                let one = all.find(|one| one.at == *at && one.target == *target)?;
                doc.heading(&one.target).gap();
                doc.field("asked by", Ink::line(&one.principal.to_string()), Role::Text);
                doc.field("when", Model::time_of_day(one.at), Role::Text);
                doc.field("why not", Ink::from(&one.why), Role::Warning);
                doc.gap();
                let permits = match one.action {
                    PolicyAction::Call => {
                        "{accept} permits it; rules stand in the policy of the configuration."
                    }
                    _ => "Rules stand in the policy of the configuration.",
                };
                doc.text(0, &cx.spelled(&[KeyScope::Policy], permits), Role::Muted);
            }
        }
        Some(())
    }
}

/// What a section is about.
fn about(section: Section, cx: &Cx<'_>, doc: &mut Doc) {
    doc.heading(section.name());
    doc.gap();
    let text = match section {
        Section::Definitions => {
            "Tools, prompts, resources and instructions that differ. Against what was approved, \
             callers other than you do not get them until you accept them; the others go on. \
             {accept} accepts one, {refuse} refuses it as it is now, {against} compares with \
             mcp.lock.json or with an earlier recording, {write-lock} writes the lock file."
        }
        Section::Clients => {
            "Who uses the servers through this dashboard. {revoke} pauses a client, cuts it, or \
             ends its token."
        }
        Section::Grants => {
            "What clients, pages and chats may do. You may do everything; they may do nothing \
             until it is granted: `mcpdeck grants add`, or an `allow` of their profile. \
             {revoke} takes a grant back."
        }
        Section::Limits => {
            "Limits of callers other than you, by profile, and their quotas of a minute and a day \
             with what is used today; `limits` and `quotas` in the policy change them."
        }
        Section::Blocked => "What callers asked for and did not get, newest first.",
    };
    doc.text(0, &cx.spelled(&[KeyScope::Policy], text), Role::Text);
    if section == Section::Clients
        && let Some(place) = &cx.model.served
    {
        doc.gap();
        doc.field("serving", Ink::from(place), Role::Text);
    }
}

impl Differs {
    fn detail(&self, cx: &Cx<'_>, basis: Ink, doc: &mut Doc) {
        doc.line(vec![(self.name(), Role::Heading)]);
        let what = match &self.place {
            DriftPlace::Instructions => "instructions",
            DriftPlace::ServerInfo => "serverInfo",
            DriftPlace::Authorization => "signing in",
            DriftPlace::Entry(kind, _) => kind.noun(),
        };
        let how = self.change().words();
        doc.line(vec![(ink!("{} {}, against {}", what, how, basis), Role::Muted)]);
        if let Some((held, _)) = self.held {
            doc.text(0, &ink!("held: {}", held.words()), Role::Warning);
        }
        if let Some(from) = &self.renamed_from {
            doc.text(0, &ink!("reads like {}, which is gone", Ink::line(from)), Role::Warning);
        }
        let mut budget = WordBudget::default();
        for (change, risks) in &self.changes {
            changed(change, risks, cx.glyphs, &mut budget, doc);
        }
    }
}

pub(super) fn grant(model: &Model, id: GrantId) -> Option<&Grant> {
    model.policy.grants.iter().find(|grant| grant.id == id)
}

pub(super) fn client<'a>(model: &'a Model, origin: &str) -> Option<&'a ClientView> {
    model.clients.iter().find(|client| client.principal.origin.to_string() == origin)
}

/// A client by its origin and profile.
pub(super) fn client_name(client: &ClientView) -> Ink {
    Ink::line(&client.principal.to_string())
}

fn client_detail(client: &ClientView, model: &Model, doc: &mut Doc) {
    let mut title = vec![(client_name(client), Role::Heading)];
    if client.is_revoked {
        title.push((ink!("   revoked: its token has ended"), Role::Error));
    } else if client.is_paused {
        title.push((ink!("   paused: its calls wait"), Role::Warning));
    }
    doc.line(title);
    doc.gap();
    if let Some(own) = &client.name {
        let speaks = client.protocol.as_ref().map(Ink::from).unwrap_or_default();
        doc.field("program", ink!("{}   {}", Ink::from(own), speaks), Role::Text);
    }
    let seen = ink!("{}   since {}", model.ago(client.seen), Model::time_of_day(client.since));
    doc.field("seen", seen, Role::Text);
    let failed = if client.failed == 0 { Role::Text } else { Role::Warning };
    doc.field("calls", ink!("{}   {} failed", client.calls, client.failed), failed);
    let times = ink!("servers {}   people {}", Dur(client.busy), Dur(client.human));
    doc.field("time", times, Role::Text);
    for call in &client.active {
        doc.field("now", Ink::from(call), Role::Busy);
    }
}

/// Who holds a grant, and what it says.
pub(super) fn grant_words(grant: &Grant) -> (Ink, Ink) {
    let tools = match grant.allowed_tools.as_slice() {
        [] => "everything".to_owned(),
        tools => tools.join(" "),
    };
    let word = match grant.effect {
        GrantKind::Once { .. } => "once",
        GrantKind::Always => "always",
        GrantKind::Deny => "denied",
    };
    let who = format!("{} ({})", grant.origin, grant.profile);
    (Ink::line(&who), Ink::line(&format!("{word}  {tools}")))
}

fn grant_detail(grant: &Grant, model: &Model, doc: &mut Doc) {
    doc.heading(Ink::line(&grant.rule())).gap();
    doc.field("to", grant_words(grant).0, Role::Text);
    let scopes = grant.scopes_in_effect();
    let scopes = scopes.iter().map(|scope| scope.as_str()).collect();
    let tools = grant.allowed_tools.iter().map(String::as_str).collect();
    for (label, names) in [("scopes", scopes), ("tools", tools)] {
        let names: Vec<&str> = names;
        let all = if names.is_empty() { "all".to_owned() } else { names.join("  ") };
        doc.field(label, Ink::line(&all), Role::Text);
    }
    doc.field("given", model.ago(grant.given), Role::Text);
    match &grant.effect {
        GrantKind::Once { until: Some(until), .. } => {
            doc.field("ends", Model::time_of_day(*until), Role::Text);
        }
        GrantKind::Once { session: Some(session), .. } => {
            doc.field("ends", ink!("with session {}", Ink::line(session)), Role::Text);
        }
        GrantKind::Once { .. } => _ = doc.field("ends", "with this program", Role::Text),
        GrantKind::Always => {
            let servers: Vec<&str> = grant.covers.keys().map(String::as_str).collect();
            let text = Ink::line(&servers.join("  "));
            doc.field("bound to", text, Role::Text);
            doc.text(0, &"Holds for the commands and definitions it was given for.", Role::Muted);
        }
        GrantKind::Deny => _ = doc.text(0, &"Wins over every grant and rule.", Role::Muted),
    }
}

fn limits_detail(profile: &str, limits: &Limits, sets_run: bool, doc: &mut Doc) {
    doc.heading(ink!("profile {}", Ink::line(profile))).gap();
    doc.field("a run", ink!("{}", count(limits.calls_per_run as usize, "call")), Role::Text);
    if !sets_run {
        let text = "the default: it binds pages, and runs that a client names with `runId`; \
                    `callsPerRun` in the policy binds every run";
        doc.text(2, &text, Role::Muted);
    }
    doc.field("at once", ink!("{}", count(limits.calls_at_once as usize, "call")), Role::Text);
    doc.field("a minute", ink!("{} of one tool", limits.calls_per_minute), Role::Text);
    doc.field("one call", ink!("{}", Dur(limits.call_timeout)), Role::Text);
    doc.field("arguments", ink!("{}", Bytes(limits.argument_bytes as u64)), Role::Text);
}

/// How much of a quota is used by whoever used most of it, and whether that is all.
fn quota_note(quota: &QuotaView) -> (Ink, bool) {
    let most = |used: fn(&host::QuotaUse) -> u64| quota.used.iter().map(used).max().unwrap_or(0);
    let (calls, tokens) = (most(|one| one.calls), most(|one| one.result_tokens));
    let limits = &quota.limits;
    match (limits.calls_per_day, limits.result_tokens_per_day, limits.calls_per_minute) {
        (Some(all), _, _) => (ink!("{}/{} today", calls, all), calls >= all),
        (None, Some(all), _) => (ink!("{}/{} tokens today", tokens, all), tokens >= all),
        (None, None, Some(all)) => (ink!("{} a minute", all), false),
        (None, None, None) => (ink!(""), false),
    }
}

fn quota_detail(quota: &QuotaView, doc: &mut Doc) {
    doc.heading(Ink::line(&quota.quota)).gap();
    let limits = &quota.limits;
    if let Some(calls) = limits.calls_per_minute {
        doc.field("a minute", ink!("{}", count(calls as usize, "call")), Role::Text);
    }
    if let Some(calls) = limits.calls_per_day {
        doc.field("a day", ink!("{}", count(calls, "call")), Role::Text);
    }
    if let Some(tokens) = limits.result_tokens_per_day {
        doc.field("results", ink!("{} a day", count(tokens, "token")), Role::Text);
    }
    doc.gap();
    if quota.used.is_empty() {
        doc.text(0, &"Nothing is used today.", Role::Muted);
        return;
    }
    doc.text(0, &"Used today, until midnight UTC:", Role::Muted);
    for one in &quota.used {
        let whose = if one.whose.is_empty() { "all" } else { &one.whose };
        let (calls, tokens) = (count(one.calls, "call"), count(one.result_tokens, "token"));
        doc.text(2, &ink!("{}  {}, {}", Ink::line(whose), calls, tokens), Role::Text);
    }
}
