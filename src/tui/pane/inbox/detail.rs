//! The detail of the inbox: a summary of the selected request, the rules in effect, the shared
//! roots, and the outcome of earlier requests.

use super::InboxRow;
use crate::model::{Model, Todo, kind_word, who_asks};
use crate::prelude::*;
use crate::widget::Doc;
use config::ApprovalRule;
use host::{ApprovalRequest, Decider, RuleKind, ServerView, SessionRule, Settlement};

/// Characters of each text that are shown here; the answering screen shows it all.
const MAX_PREVIEW_CHARS: usize = 400;
/// Settled requests that are listed.
const MAX_SETTLED_ROWS: usize = 50;

/// Builds the detail beside the list.
pub(super) fn build(row: Option<&InboxRow>, model: &Model, doc: &mut Doc) {
    match row {
        Some(InboxRow::Request(request)) => about(request, model, doc),
        Some(InboxRow::Other(todo)) => other(todo, model, doc),
        Some(InboxRow::Kept(request, reason)) => {
            heading(request, doc);
            doc.text(0, &ink!("withdrawn: {}", reason), Role::Error);
            doc.text(0, &"your draft is kept; open it to copy it", Role::Text);
        }
        Some(InboxRow::Group { group, requests, .. }) => {
            let name = (Model::name(&group.server), Role::Heading);
            doc.line(vec![
                name,
                (ink!(" has {} open", count(requests.len(), "request")), Role::Attention),
            ]);
            if let Some(server) = model.server(&group.server) {
                refused(server, doc);
            }
            doc.text(0, &"open shows them one by one; deny all denies each", Role::Muted);
        }
        None => {}
    }
    standing(model, doc);
    settled(model, doc);
    if doc.is_empty() {
        doc.text(0, &"no rules, no roots, nothing decided yet", Role::Faint);
    }
}

/// Describes other items: what opening one leads to.
fn other(todo: &Todo, model: &Model, doc: &mut Doc) {
    let (what, said) = todo.words(model);
    let server = todo.server(model).map_or_else(|| ink!("mcp.json"), |name| Model::name(&name));
    doc.line(vec![(server, Role::Heading), (ink!("  {}", what), Role::Attention)]);
    doc.text(1, &said, Role::Foreign);
    let text: &'static str = match todo {
        Todo::Request(_) => "",
        Todo::Approval(_) => "open it to read the whole command; it was not started",
        Todo::Input(_) => "open it to type the value; the servers that use it start then",
        Todo::Held(_) => "open it to compare with what was reviewed, and to accept or refuse it",
        Todo::Plan => "open it to see which servers it stops and starts, and to apply it",
    };
    doc.text(0, &text, Role::Muted);
    doc.gap();
}

fn heading(request: &ApprovalRequest, doc: &mut Doc) {
    let (who, asks) = who_asks(request);
    doc.line(vec![(who, Role::Heading), (ink!(" {}", asks), Role::Attention)]);
    doc.field_if("during", request.during.as_ref(), Role::Text);
}

fn about(request: &ApprovalRequest, model: &Model, doc: &mut Doc) {
    heading(request, doc);
    doc.field("to answer", model.until(request.deadline), Role::Busy);
    doc.field("size", ink!("{}", Bytes(request.bytes as u64)), Role::Text);
    if request.deferred && !request.kind.is_own() {
        doc.field("answered by", "calling again (input_required)", Role::Text);
    }
    doc.heading("from the server");
    preview(&request.params, doc);
    doc.gap();
}

/// The beginning of its text: a prompt may have megabytes.
fn preview(params: &Value, doc: &mut Doc) {
    let mut say =
        |text: &str| _ = doc.text(1, &SafeText::cut_block(text, MAX_PREVIEW_CHARS), Role::Foreign);
    for key in ["systemPrompt", "message", "url", "tool"] {
        if let Some(text) = params.get(key).and_then(Value::as_str) {
            say(text);
        }
    }
    let messages = params.get("messages").and_then(Value::as_array);
    let messages = messages.map_or(&[][..], Vec::as_slice);
    for message in &messages[messages.len().saturating_sub(3)..] {
        let content = &message["content"];
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        for block in blocks.iter().take(3) {
            match block["text"].as_str() {
                Some(text) => say(text),
                None => say(&format!("({})", block["type"].as_str().unwrap_or("unknown content"))),
            }
        }
    }
    if let Some(fields) = params.pointer("/requestedSchema/properties").and_then(Value::as_object) {
        let names: Vec<&str> = fields.keys().take(12).map(String::as_str).collect();
        say(&names.join(", "));
    }
}

/// Rules and roots of every server in scope that has any, and its refused requests.
fn standing(model: &Model, doc: &mut Doc) {
    let mut headed = false;
    for server in model.servers() {
        let rules =
            [RuleKind::Sampling, RuleKind::Elicitation].map(|kind| rule(server, kind, model));
        let quiet = rules.iter().all(Option::is_none) && server.roots.is_empty();
        if quiet && server.refused_requests == 0 {
            continue;
        }
        if !std::mem::replace(&mut headed, true) {
            doc.heading("rules and roots");
        }
        doc.line(vec![(ink!("  {}", Model::name(&server.name)), Role::Text)]);
        for (rule, word) in rules.into_iter().zip(["sampling", "elicitation"]) {
            if let Some(rule) = rule {
                doc.line(vec![(ink!("    {} ", word), Role::Muted), (rule, Role::Text)]);
            }
        }
        for root in &server.roots {
            let name = root.name.as_deref().map(|name| ink!("  {}", Ink::line(name)));
            let mut line =
                vec![(ink!("    root "), Role::Muted), (Ink::line(&root.uri), Role::Text)];
            line.extend(name.map(|name| (name, Role::Muted)));
            doc.line(line);
        }
        refused(server, doc);
    }
}

fn refused(server: &ServerView, doc: &mut Doc) {
    if server.refused_requests > 0 {
        let count = server.refused_requests;
        let text = ink!("    {} refused: over the limit or not expected", count);
        doc.line(vec![(text, Role::Warning)]);
    }
}

/// The rule that decides one kind of request, if it is not "ask".
pub fn rule(server: &ServerView, kind: RuleKind, model: &Model) -> Option<Ink> {
    if let Some(SessionRule { rule, left }) = server.approval_rules.get(&kind) {
        let word = rule_word(rule);
        return Some(match left {
            Some(left) => ink!("{}, the next {} (this session)", word, *left),
            None => ink!("{} (this session)", word),
        });
    }
    let entry = model.entry(&server.name)?;
    let rule = match kind {
        RuleKind::Sampling => &entry.approvals.sampling,
        RuleKind::Elicitation => &entry.approvals.elicitation,
    };
    (*rule != ApprovalRule::Ask).then(|| ink!("{} (its entry)", rule_word(rule)))
}

const fn rule_word(rule: &ApprovalRule) -> &'static str {
    match rule {
        ApprovalRule::Ask => "ask",
        ApprovalRule::Deny => "deny",
        ApprovalRule::Canned(_) => "the answer in its entry",
    }
}

fn settled(model: &Model, doc: &mut Doc) {
    if model.view.settled.is_empty() {
        return;
    }
    doc.heading("Decided");
    let mut all = model.view.settled.iter().rev().peekable();
    let mut rows = 0;
    while let Some((at, request, settlement)) = all.next().filter(|_| rows < MAX_SETTLED_ROWS) {
        // Those that ended in the same way share a row.
        let mut many = 1;
        let like = (&request.server, &request.kind, settlement);
        while all.next_if(|(_, one, how)| (&one.server, &one.kind, how) == like).is_some() {
            many += 1;
        }
        rows += 1;
        let (what, role) = ending(settlement);
        let often = if many > 1 { ink!("{} times", many) } else { Ink::default() };
        doc.line(vec![
            (ink!("  {} ", Model::time_of_day(*at)), Role::Faint),
            (ink!("{} {}  ", Model::name(&request.server), kind_word(&request.kind)), Role::Text),
            (often, Role::Muted),
        ]);
        let last = if many > 1 { "the last " } else { "" };
        doc.text(4, &ink!("{}, {}after {}", &what, last, Dur(at.since(request.arrived))), role);
    }
}

/// How a request ended, and how that is drawn.
fn ending(settlement: &Settlement) -> (Ink, Role) {
    let (by, how) = match settlement {
        Settlement::Withdrawn { reason } => {
            return (ink!("withdrawn: {}", reason), Role::Warning);
        }
        Settlement::Answered { by, how } => (by, how),
    };
    let (did, reason) = match how.split_once(": ") {
        Some((did, reason)) => (did, ink!(": {}", Ink::line(reason))),
        None => (how.as_str(), Ink::default()),
    };
    let did = match did {
        "result" => ink!("answered"),
        "accept" => ink!("accepted"),
        "decline" => ink!("declined"),
        "cancel" => ink!("cancelled"),
        other => Ink::line(other),
    };
    let whose = match by {
        Decider::Person => ink!(" by you"),
        Decider::Callback => ink!(" by the callback"),
        // Some rules are named as a whole: `the shared roots`.
        Decider::Rule(rule) if rule.starts_with("the ") => ink!(" by {}", Ink::line(rule)),
        Decider::Rule(rule) => ink!(" by the rule {}", Ink::line(rule)),
        Decider::Nobody => ink!(", not answered"),
    };
    let words = ink!("{}{}{}", did, whose, reason);
    (words, Role::Text)
}
