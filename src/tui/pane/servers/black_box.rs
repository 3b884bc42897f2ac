//! Diagnostics of a server: its last exit, recent output and messages, start steps, and its own
//! information. One page with everything known.

use super::card::{breaker_line, draw as draw_card, draw_graph_in, expires, step_sign};
use crate::effect::{Effect, Order, ServerCommand};
use crate::glyph::Glyphs;
use crate::model::Model;
use crate::overlay::TextReader;
use crate::pane::{Out, Ui};
use crate::prelude::*;
use crate::widget::Doc;
use crate::widget::pen::shortened;
use base::logs::LogSource;
use host::ServerView;
use protocol::{Era, TrafficRecord};

/// Messages that are shown.
const MAX_MESSAGES: usize = 12;
/// Log lines that are shown.
const MAX_LOG_LINES: usize = 12;

/// A reader of the diagnostics of a server.
pub fn reader(server: ServerName) -> TextReader {
    let (title, closed) = (ink!("diagnostics: {}", Model::name(&server)), server.clone());
    TextReader::live(title, move |ui| black_box(ui, &server, Doc::default()))
        .with_server_keys()
        .closing(move |model, out| removals_seen(model, &closed, out))
}

/// A reader of a server's own information.
pub fn info_reader(server: ServerName) -> TextReader {
    let title = ink!("info: {}", Model::name(&server));
    TextReader::live(title, move |ui| info(ui, &server)).with_server_keys()
}

/// Everything known about a server; `ui.area` is where it is shown, and `graph` comes after the card.
pub fn black_box(ui: Ui<'_>, name: &ServerName, graph: Doc) -> Doc {
    let (model, glyphs) = (ui.model, ui.glyphs);
    let mut doc = Doc::new(ui.area.width);
    let Some(server) = model.server(name) else {
        doc.text(0, &"this server is no longer configured", Role::Muted);
        return doc;
    };
    draw_card(server, ui, &mut doc);
    draw_graph_in(&graph, &mut doc);
    exit(server, model, &mut doc);
    stderr(server, model, &mut doc);
    steps(server, glyphs, &mut doc);
    messages(server, model, glyphs, &mut doc);
    findings(server, model, &mut doc);
    changes(server, model, &mut doc);
    session(server, model, &mut doc);
    doc
}

/// A server's own information: how it is connected, its instructions and capabilities.
fn info(ui: Ui<'_>, name: &ServerName) -> Doc {
    let mut doc = Doc::new(ui.area.width);
    let Some(server) = ui.model.server(name) else { return doc };
    session(server, ui.model, &mut doc);
    let Some(session) = &server.session else {
        doc.gap().text(0, &"not connected: the rest is known once it is ready", Role::Muted);
        return doc;
    };
    if let Some(instructions) = &session.instructions {
        doc.heading("instructions");
        doc.text(2, instructions, Role::Foreign);
    }
    doc.heading("capabilities").json(2, &session.capabilities);
    doc
}

/// What explains the state of a server: its exit, last output, findings with the offending text, and
/// last messages.
pub fn evidence(server: &ServerView, model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    exit(server, model, doc);
    stderr(server, model, doc);
    findings(server, model, doc);
    messages(server, model, glyphs, doc);
}

fn exit(server: &ServerView, model: &Model, doc: &mut Doc) {
    let Some(exit) = &server.exit else { return };
    doc.heading("last exit");
    let role = if exit.expected { Role::Text } else { Role::Error };
    doc.field("exit", Ink::line(&exit.describe()), role);
    let asked: &'static str = if exit.expected { "stopped by mcpdeck" } else { "unexpected" };
    doc.field("cause", asked, role);
    doc.field("uptime", ink!("{}", Dur(exit.lived)), Role::Text);
    let by = exit.ladder.as_ref().map(|rung| match rung.as_str() {
        "stdin" => ink!("the end of its stdin"),
        "term" => ink!("SIGTERM"),
        "kill" => ink!("SIGKILL"),
        _ => Ink::from(rung),
    });
    doc.field_if("stopped by", by, Role::Text);
    if exit.swept > 0 {
        let swept = ink!("{}, terminated", count(exit.swept, "process"));
        doc.field("left behind", swept, Role::Warning);
    }
    let next = server.retry_at.map(|at| ink!("in {}", model.until(at)));
    doc.field_if("next attempt", next, Role::Busy);
}

fn stderr(server: &ServerView, model: &Model, doc: &mut Doc) {
    let lines: Vec<(&SafeText, Role)> = if server.pid.is_none() && !server.stderr_tail.is_empty() {
        server.stderr_tail.iter().map(|line| (line, Role::Foreign)).collect()
    } else {
        let from = model.logs.end().saturating_sub(2_000);
        let recent = model.logs.from(from);
        let own = recent.filter(|(_, record)| record.server.as_ref() == Some(&server.name));
        // What the deck says of the server must not pass for the server's words.
        let role = |source| if source == LogSource::Host { Role::Muted } else { Role::Foreign };
        own.map(|(_, record)| (&record.text, role(record.source))).collect()
    };
    if lines.is_empty() {
        return;
    }
    doc.heading("recent output");
    // The line with the cause is among those shown, however much was printed after it.
    let why = server.last_words().last();
    let at = lines.iter().rposition(|(line, _)| Some(*line) == why).unwrap_or(lines.len());
    let from = lines.len().saturating_sub(MAX_LOG_LINES).min(at.saturating_sub(2));
    for (line, role) in lines[from..].iter().take(MAX_LOG_LINES) {
        doc.text(2, *line, *role);
    }
}

fn steps(server: &ServerView, glyphs: &Glyphs, doc: &mut Doc) {
    if server.steps.is_empty() {
        return;
    }
    doc.heading("last start");
    for step in &server.steps {
        let (sign, role) = step_sign(step.status, glyphs);
        let took = step.took.map_or_else(|| ink!(""), |took| ink!("{}", Dur(took)));
        let detail = step.detail.as_ref().map_or_else(|| ink!(""), Ink::from);
        doc.line(vec![
            (ink!("  {} ", sign), role),
            (ink!("{:<12}", step.step.word()), Role::Text),
            (ink!("{:>8}  ", took), Role::Muted),
            (detail, Role::Muted),
        ]);
    }
    for step in &server.auth_steps {
        let failed = step.refused.is_some();
        let (sign, role) =
            if failed { (glyphs.down, Role::Error) } else { (glyphs.check, Role::Muted) };
        doc.line(vec![
            (ink!("  {} ", sign), role),
            (ink!("sign-in: {:<18}", step.kind.as_str()), Role::Text),
            (ink!("{:>8}  ", Dur(step.took)), Role::Muted),
            (Ink::line(&step.outcome()), Role::Muted),
        ]);
    }
}

fn messages(server: &ServerView, model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    let from = model.traffic.end().saturating_sub(5_000);
    let recent: Vec<&TrafficRecord> = model
        .traffic
        .from(from)
        .filter(|(_, record)| record.server == server.name)
        .map(|(_, record)| &**record)
        .collect();
    if recent.is_empty() {
        return;
    }
    doc.heading("recent messages");
    // Beside time and direction, size and latency.
    let room = doc.width().saturating_sub(38).clamp(12, 34);
    for record in &recent[recent.len().saturating_sub(MAX_MESSAGES)..] {
        let (sign, role) = glyphs.direction(record.direction);
        let method = record.method.as_ref().or(record.problem.as_ref()).map(Ink::from);
        let method = shortened(&method.unwrap_or_default(), room, glyphs.ellipsis);
        let latency = record.latency.map_or_else(|| ink!(""), |l| ink!("{}", Dur(l)));
        let end = match record.unanswered() {
            Some(_) => (ink!("{:>9} {:>9}", "no answer", latency), Role::Error),
            None => (ink!("{:>9} {:>9}", Bytes(record.bytes as u64), latency), Role::Muted),
        };
        doc.line(vec![
            (ink!("  {} ", Model::time_of_day(record.at)), Role::Faint),
            (ink!("{} ", sign), role),
            (ink!("{:<1$} ", method, usize::from(room)), Role::Text),
            end,
        ]);
    }
}

fn findings(server: &ServerView, model: &Model, doc: &mut Doc) {
    if server.findings.is_empty() && server.capabilities.rejected.is_empty() {
        return;
    }
    doc.heading("protocol findings");
    for finding in server.findings.iter().rev().take(10) {
        let time = Model::time_of_day(finding.at);
        doc.text(2, &ink!("{} {}", time, Ink::line(finding.message.as_str())), Role::Warning);
        if !finding.raw.is_empty() {
            doc.line(vec![(ink!("      {}", Ink::line(&finding.raw)), Role::Foreign)]);
        }
    }
    for entry in &server.capabilities.rejected {
        doc.text(
            2,
            &ink!("{} entry {}: {}", entry.list.method(), entry.index, &entry.reason),
            Role::Warning,
        );
    }
    for (list, reason) in &server.capabilities.partial {
        doc.text(2, &ink!("{} is incomplete: {}", list.method(), reason), Role::Warning);
    }
    for (tool, breaker) in &server.tool_breakers {
        doc.text(2, tool, Role::Warning);
        breaker_line(breaker, model, doc);
    }
}

fn session(server: &ServerView, model: &Model, doc: &mut Doc) {
    doc.heading("connection");
    doc.field("transport", server.transport.as_str(), Role::Text);
    doc.field("target", &server.target, Role::Text);
    if let Some(account) = &server.account {
        let mut scopes = Ink::default();
        for (n, scope) in account.scopes.iter().enumerate() {
            scopes.push(if n > 0 { " " } else { "" });
            scopes.push(scope);
        }
        doc.field("signed in at", &account.issuer, Role::Text);
        doc.field("for", scopes, Role::Text);
        doc.field("token", expires(account, model), Role::Text);
    }
    let Some(session) = &server.session else { return };
    let era: &'static str = match session.era {
        Era::Legacy => "initialize",
        Era::Modern => "server/discover",
    };
    doc.field("protocol", ink!("{} ({})", &session.protocol_version, era), Role::Text);
    doc.field("server info", ink!("{} {}", &session.name, &session.version), Role::Foreign);
}

/// Removed entries are shown nowhere else, so leaving this page marks them as seen.
pub fn removals_seen(model: &Model, name: &ServerName, out: &mut Out) {
    let server = model.server(name);
    let Some((_, changes)) = server.and_then(|server| server.changes.as_ref()) else { return };
    if !changes.removed.is_empty() && model.playback.is_none() {
        let seen = ServerCommand::ChangesSeen(changes.removed.clone());
        out.effect(Effect::Order(Order::Server(name.clone(), seen)));
    }
}

fn changes(server: &ServerView, model: &Model, doc: &mut Doc) {
    if let Some((at, changes)) = &server.changes {
        doc.heading(ink!("lists changed {}", model.when(*at)));
        for (list, label) in &changes.added {
            doc.text(2, &ink!("+ {} {}", list.key(), label), Role::Added);
        }
        for (list, label) in &changes.removed {
            doc.text(2, &ink!("- {} {}", list.key(), label), Role::Removed);
        }
        for (list, label, fields) in &changes.changed {
            doc.text(
                2,
                &ink!("~ {} {} ({})", list.key(), label, count(fields.len(), "field")),
                Role::Changed,
            );
        }
    }
}
