//! One server in a few lines: state and reason, connection, load, what to do next.

use crate::glyph::{Glyphs, reason_beside};
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::Ui;
use crate::prelude::*;
use crate::widget::doc::DocLine;
use crate::widget::{Doc, width};
use base::logs::LogSource;
use config::Hold;
use host::{
    AccountView, BreakerView, BuildEnd, BuildView, DevView, ServerState, ServerView, StepStatus,
};

/// Draws the card.
pub fn draw(server: &ServerView, ui: Ui<'_>, doc: &mut Doc) {
    let (model, glyphs) = (ui.model, ui.glyphs);
    let room = doc.width();
    doc.line(title(server, model, glyphs, room));
    match server.state {
        ServerState::Ready => ready(server, ui, doc),
        ServerState::Starting => doc_line(doc, steps(server, model, glyphs)),
        ServerState::Unavailable => down(server, glyphs, doc),
        _ => {
            if let Some(reason) = reason_beside(server) {
                doc.text(2, &Ink::line(reason), Role::Muted);
            }
        }
    }
    held(server, ui, doc);
    if let Some(account) = &server.account
        && account.warn_at().is_some_and(|at| model.is_past(at))
    {
        doc.line(vec![
            (ink!("  {} sign in again: ", glyphs.warning), Role::Warning),
            (expires(account, model), Role::Warning),
        ]);
    }
    if !server.breaker.is_closed() {
        breaker_line(&server.breaker, model, doc);
    }
    findings(server, glyphs, doc);
    unstable(server, model, doc);
    if let Some(dev) = &server.dev {
        draw_sources(dev, model, glyphs, doc);
    }
    if server.state == ServerState::Unavailable {
        let mut line = key(ui, "  {restart}", " retry   ");
        line.extend(key(ui, "{black-box}", " diagnostics"));
        if server.attempt > 1 {
            line.push((ink!("   attempt {}", server.attempt), Role::Muted));
        }
        if let Some(at) = server.retry_at {
            line.push((ink!("   next in {}", model.until(at)), Role::Busy));
        }
        doc.line(line);
    }
}

/// Warns of lists that change back and forth.
pub fn unstable(server: &ServerView, model: &Model, doc: &mut Doc) {
    if let Some(since) = server.unstable {
        let words =
            ink!("definitions unstable since {}: they change back and forth", model.when(since));
        doc.text(2, &words, Role::Warning);
    }
}

/// A key and what it does here.
fn key(ui: Ui<'_>, key: &'static str, what: &'static str) -> DocLine {
    vec![(ui.spelled(&[KeyScope::Servers], key), Role::Key), (ink!("{}", what), Role::Muted)]
}

/// What the user has to do before it starts, or before its changed entry is used.
fn held(server: &ServerView, ui: Ui<'_>, doc: &mut Doc) {
    let (model, glyphs) = (ui.model, ui.glyphs);
    match model.entry(&server.name).and_then(|entry| entry.hold.as_ref()) {
        Some(Hold::Approval) => _ = doc.line(key(ui, "  {show-inbox}", " review")),
        Some(Hold::Input(_)) => _ = doc.line(key(ui, "  {show-inbox}", " answer")),
        None if model.situation.awaiting(&server.name).is_some_and(|a| a.runs_as_before) => {
            let text = "its changed entry awaits your approval; the approved one keeps running";
            let mut line = vec![(ink!("  {} {}", glyphs.hand, text), Role::Attention)];
            line.extend(key(ui, "   {show-inbox}", " review"));
            doc.line(line);
        }
        None => {}
    }
}

fn doc_line(doc: &mut Doc, line: DocLine) {
    if line.len() > 1 {
        doc.line(line);
    }
}

/// How a ready server is connected, most important first.
fn reach(server: &ServerView) -> Vec<Ink> {
    let mut facts = vec![ink!("{}", server.transport.as_str())];
    if let Some(pid) = server.pid {
        facts.push(ink!("pid {}", pid));
    }
    if server.restarts > 0 {
        facts.push(ink!("{}", count(server.restarts, "restart")));
    }
    facts
}

/// Name, state, since when, how it is connected, in `room` cells.
fn title(server: &ServerView, model: &Model, glyphs: &Glyphs, room: u16) -> DocLine {
    let role = state_role(server.state);
    let word = server_word(server);
    let since = match server.state {
        ServerState::Starting => model.elapsed(server.since),
        _ => model.ago(server.since),
    };
    // States are aligned in one column, unless a name is very long.
    let longest = model.servers().map(|server| width(&Model::name(&server.name))).max();
    let names = usize::from(longest.unwrap_or(0).clamp(14, 24));
    let mut line = vec![
        (ink!("{:<1$} ", Model::name(&server.name), names), Role::Heading),
        (ink!("{} {}", glyphs.state(server.state), word), role),
        (ink!(" {}", since), Role::Muted),
    ];
    if server.state == ServerState::Ready {
        let mut room = room.saturating_sub(length(&line) + 4);
        let mut facts = ink!("    ");
        for (n, fact) in reach(server).into_iter().enumerate() {
            let fact = if n == 0 { fact } else { ink!(" {} {}", glyphs.dot, fact) };
            // Most important first; a fact that does not fit is left out entirely.
            if width(&fact) <= room {
                room -= width(&fact);
                facts.push(fact);
            }
        }
        line.push((facts, Role::Muted));
    } else if let Some(exit) = server.exit.as_ref().filter(|exit| !exit.expected) {
        let text = ink!("    {} after {}", Ink::line(&exit.describe()), Dur(exit.lived));
        line.push((text, Role::Error));
    }
    line
}

/// Cells between two facts.
const FACT_GAP: u16 = 3;

fn ready(server: &ServerView, ui: Ui<'_>, doc: &mut Doc) {
    let room = doc.width().saturating_sub(2);
    flow(load(server, ui.model), room, doc);
    let slots = crate::model::Activity::MAX_SLOTS;
    let mut second = spark(server, ui, slots, "  60 s");
    second.extend(offers(server));
    flow(second, room, doc);
}

fn length(fact: &DocLine) -> u16 {
    fact.iter().map(|(text, _)| width(text)).sum()
}

/// Lays out facts in sequence; none is broken, one that does not fit starts another line.
fn flow(facts: Vec<DocLine>, room: u16, doc: &mut Doc) {
    let mut line: DocLine = Vec::new();
    let mut used = 0;
    for fact in facts {
        let wide = length(&fact);
        if !line.is_empty() && used + FACT_GAP + wide > room {
            doc.line(std::mem::take(&mut line));
        }
        if line.is_empty() {
            used = wide;
            line.push((ink!("  "), Role::Text));
        } else {
            used += FACT_GAP + wide;
            line.push((ink!("   "), Role::Text));
        }
        line.extend(fact);
    }
    doc_line(doc, line);
}

/// The numbers of tools, resources and prompts it offers.
fn offers(server: &ServerView) -> Vec<DocLine> {
    let lists = &server.capabilities;
    let counts = [
        (lists.tools.len(), "tool"),
        (lists.resources.len() + lists.templates.len(), "resource"),
        (lists.prompts.len(), "prompt"),
    ];
    let said =
        |(number, noun): (usize, &'static str)| vec![(ink!("{}", count(number, noun)), Role::Text)];
    counts.into_iter().filter(|(count, _)| *count > 0).map(said).collect()
}

/// A server that owes answers and has sent nothing for this long may be gone without a word.
const SILENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Its activity, and the resources it uses.
fn load(server: &ServerView, model: &Model) -> Vec<DocLine> {
    let mut facts = Vec::new();
    let mut fact = |label: &'static str, value: Ink, role: Role| {
        facts.push(vec![(ink!("{} ", label), Role::Faint), (value, role)]);
    };
    if let Some(metrics) = model.metrics.get(&server.name).map(|m| &m.total) {
        let errors = metrics.failed();
        let in_flight = model.calls.iter().filter(|call| call.server == server.name).count();
        fact("calls", ink!("{}", metrics.requests), Role::Text);
        let role = if errors > 0 { Role::Warning } else { Role::Text };
        fact("errors", ink!("{}", errors), role);
        if metrics.cancelled() > 0 {
            fact("cancelled", ink!("{}", metrics.cancelled()), Role::Text);
        }
        if in_flight > 0 {
            fact("in flight", ink!("{}", in_flight), Role::Busy);
        }
        let silent = metrics.last_heard.map(|at| model.now.since(at));
        if let Some(silent) = silent.filter(|silent| in_flight > 0 && *silent >= SILENT_TIMEOUT) {
            fact("last heard", ink!("{} ago", Dur(silent)), Role::Warning);
        }
        if let Some(latency) = &metrics.latency {
            fact("p50", ink!("{}", Dur(latency.p50)), Role::Text);
            fact("p95", ink!("{}", Dur(latency.p95)), Role::Text);
        }
    }
    if let Some(usage) = model.usage.get(&server.name) {
        fact("mem", ink!("{}", Bytes(usage.memory)), Role::Text);
        fact("cpu", ink!("{:.0} %", usage.cpu_percent), Role::Text);
    }
    facts
}

/// Recent messages, one bar per two seconds; empty if there were none.
fn spark(server: &ServerView, ui: Ui<'_>, slots: usize, label: &'static str) -> Vec<DocLine> {
    let recent = ui.model.recent(&server.name, slots);
    let max = recent.iter().copied().max().unwrap_or(0);
    if max == 0 {
        return Vec::new();
    }
    let mut bars = Ink::default();
    for count in recent {
        bars.push(ui.glyphs.bar(count, max));
    }
    vec![vec![(bars, Role::Accent), (ink!("{}", label), Role::Faint)]]
}

/// The steps of a start, the running one with its time.
pub fn steps(server: &ServerView, model: &Model, glyphs: &Glyphs) -> DocLine {
    let mut line = vec![(ink!("  "), Role::Text)];
    for step in server.steps.iter().filter(|step| step.status != StepStatus::Skipped) {
        let (sign, role) = step_sign(step.status, glyphs);
        let is_running = step.status == StepStatus::Running;
        let sign = if is_running { model.elapsed(step.began) } else { ink!("{}", sign) };
        line.push((ink!("{} ", step.step.word()), Role::Muted));
        line.push((ink!("{}  ", sign), role));
    }
    if server.state == ServerState::Starting
        && let Some(at) = last_stderr(server, model)
        && model.now.since(at) < Duration::from_secs(3)
    {
        line.push((ink!("still writing to stderr"), Role::Muted));
    }
    line
}

/// The sign of a step, and its role.
pub const fn step_sign(status: StepStatus, glyphs: &Glyphs) -> (&'static str, Role) {
    match status {
        StepStatus::Ok => (glyphs.check, Role::Ok),
        StepStatus::Failed => (glyphs.down, Role::Error),
        StepStatus::Running => (glyphs.busy, Role::Busy),
        StepStatus::Skipped => (glyphs.off, Role::Faint),
    }
}

fn last_stderr(server: &ServerView, model: &Model) -> Option<Timestamp> {
    let recent = model.logs.from(model.logs.end().saturating_sub(200));
    let own = recent.filter(|(_, record)| {
        record.source == LogSource::Stderr && record.server.as_ref() == Some(&server.name)
    });
    own.last().map(|(_, record)| record.at)
}

/// Whether a reason says no more than the exit and how long the process had lived.
fn is_said(reason: &str, exit: &process::ExitView) -> bool {
    reason == exit.describe() || reason == exit.describe_life()
}

fn down(server: &ServerView, glyphs: &Glyphs, doc: &mut Doc) {
    // The title has the exit; the reason is shown only if it adds to that.
    let is_known =
        |reason: &SafeText| server.exit.as_ref().is_some_and(|exit| is_said(reason, exit));
    if let Some(reason) = server.reason.as_ref().filter(|reason| !is_known(reason)) {
        doc.text(2, reason, Role::Error);
    }
    if let Some(failed) = server.steps.iter().find(|step| step.status == StepStatus::Failed)
        && let Some(detail) = failed.detail.as_ref().filter(|d| Some(*d) != server.reason.as_ref())
    {
        doc.text(2, &ink!("{}: {}", failed.step.word(), detail), Role::Error);
    }
    // If the reason ends with the last line, the lines before it are only the trace; the
    // diagnostics show them all.
    let words = server.last_words();
    let said = words.last().is_some_and(|line| {
        server.reason.as_ref().is_some_and(|reason| reason.contains(line.trim()))
    });
    let spoken = |line: &&SafeText| line.chars().any(char::is_alphanumeric);
    let mut last: Vec<_> = words.iter().filter(spoken).rev().take(2).filter(|_| !said).collect();
    last.reverse();
    for line in last {
        doc.line(vec![(ink!("  stderr  "), Role::Faint), (Ink::from(line), Role::Foreign)]);
    }
    if let Some(help) = &server.help {
        doc.text(2, &ink!("{} {}", glyphs.arrow, help), Role::Attention);
    }
}

/// When a token expires, and what happens then.
pub fn expires(account: &AccountView, model: &Model) -> Ink {
    let then: &'static str =
        if account.is_refreshed { "then refreshed by itself" } else { "then sign in again" };
    match account.expires {
        None => ink!("expiry not known"),
        // Nothing was sent since: the next request refreshes it first.
        Some(at) if model.now >= at && account.is_refreshed => {
            ink!("the token has ended, the next call refreshes it")
        }
        Some(at) if model.now >= at => ink!("the token has ended"),
        Some(at) if account.warn_at().is_some_and(|warn| model.now >= warn) => {
            ink!("the token ends in {}, {}", model.until(at), then)
        }
        Some(at) => ink!("the token ends in {}, {}", model.left(at), then),
    }
}

/// A breaker that is not closed, with its cause and next probe.
pub fn breaker_line(breaker: &BreakerView, model: &Model, doc: &mut Doc) {
    let (words, role) = match breaker {
        BreakerView::Closed => return,
        BreakerView::Open { until, cause } => {
            let left = model.until(*until);
            (ink!("breaker open, next attempt in {}: {}", left, cause), Role::Warning)
        }
        BreakerView::HalfOpen { cause } => {
            let words = "breaker half-open, the next call is a trial";
            (ink!("{}: {}", words, cause), Role::Busy)
        }
    };
    doc.text(2, &words, role);
}

fn findings(server: &ServerView, glyphs: &Glyphs, doc: &mut Doc) {
    let total: u64 = server.finding_counts.values().sum();
    if let Some(last) = server.findings.back() {
        doc.line(vec![
            (ink!("  {} {}  ", glyphs.warning, count(total, "protocol finding")), Role::Warning),
            (Ink::line(last.message.as_str()), Role::Muted),
        ]);
    }
    let rejected = server.capabilities.rejected.len();
    if rejected > 0 {
        doc.line(vec![(
            ink!("  {} {} could not be used", glyphs.warning, count(rejected, "list entry")),
            Role::Warning,
        )]);
    }
}

// The order in which servers start, as a tree with their states.

const MAX_GRAPH_LEVELS: usize = 12;
const MAX_GRAPH_LINES: usize = 60;

/// Appends the order, drawn by [`draw_graph`], to another text.
pub fn draw_graph_in(graph: &Doc, doc: &mut Doc) {
    if !graph.is_empty() {
        doc.gap();
    }
    for line in graph.lines() {
        doc.line(line.clone());
    }
}

/// How many dependencies the servers have together.
pub fn dependencies(model: &Model) -> usize {
    model.view.servers.values().map(|server| server.dependencies.len()).sum()
}

/// Draws the order when any server depends on another.
pub fn draw_graph(ui: Ui<'_>, doc: &mut Doc) {
    let servers = &ui.model.view.servers;
    if dependencies(ui.model) == 0 {
        return;
    }
    doc.gap();
    doc.heading("start order");
    let end = doc.len() + MAX_GRAPH_LINES;
    for server in servers.values().filter(|server| server.dependencies.is_empty()) {
        if dependents(ui.model, &server.name).next().is_some() {
            doc.line(node(ui, &server.name, ink!("  ")));
            branch(ui, &server.name, &mut Vec::new(), doc, end);
        }
    }
}

fn dependents<'a>(model: &'a Model, name: &'a ServerName) -> impl Iterator<Item = &'a ServerName> {
    model.view.servers.values().filter(|s| s.dependencies.contains(name)).map(|s| &s.name)
}

fn branch(ui: Ui<'_>, name: &ServerName, trunk: &mut Vec<bool>, doc: &mut Doc, end: usize) {
    let (model, glyphs) = (ui.model, ui.glyphs);
    if trunk.len() >= MAX_GRAPH_LEVELS || doc.len() >= end {
        return;
    }
    let children: Vec<&ServerName> = dependents(model, name).collect();
    for (n, child) in children.iter().enumerate() {
        let last = n + 1 == children.len();
        let mut lead = ink!("  ");
        for more in trunk.iter() {
            lead.push(if *more { glyphs.vertical } else { " " }).push("  ");
        }
        lead.push(if last { glyphs.last_branch } else { glyphs.branch });
        lead.push(glyphs.horizontal).push(glyphs.arrow).push(" ");
        doc.line(node(ui, child, lead));
        trunk.push(!last);
        branch(ui, child, trunk, doc, end);
        trunk.pop();
    }
}

fn node(ui: Ui<'_>, name: &ServerName, lead: Ink) -> DocLine {
    let (model, glyphs) = (ui.model, ui.glyphs);
    let mut line = vec![(lead, Role::Rule), (Model::name(name), Role::Text)];
    if let Some(server) = model.server(name) {
        let text = ink!("  {} {}", glyphs.state(server.state), server_word(server));
        line.push((text, state_role(server.state)));
    }
    line
}

// Servers in the file that are missing because their entry cannot be used: they must be reported.

/// A few lines for each.
pub(super) fn draw_left_out(ui: Ui<'_>, doc: &mut Doc) {
    let (model, glyphs) = (ui.model, ui.glyphs);
    for (name, problem) in model.left_out() {
        doc.gap();
        doc.line(vec![
            (ink!("{:<14} ", Model::name(name)), Role::Heading),
            (ink!("{} left out", glyphs.down), Role::Error),
            (ink!("    {}", Ink::line(&problem.at.to_string())), Role::Muted),
        ]);
        doc.text(2, &Ink::line(&problem.message), Role::Error);
        if let Some(help) = &problem.help {
            doc.text(2, &ink!("{} {}", glyphs.arrow, Ink::line(help)), Role::Attention);
        }
        doc.line(key(ui, "  {show-config}", " shows the problems in the file"));
    }
}

// The sources of a server under development, on its card: what changed, the result of the build,
// whether the server was restarted for it.

/// Lines of a failed build's output that are shown.
const MAX_OUTPUT_LINES: usize = 4;

/// Draws the line, and the last output lines of a failed build.
pub fn draw_sources(dev: &DevView, model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    let mut line: DocLine = vec![(ink!("  sources  "), Role::Faint)];
    match dev.changed_at {
        None => {
            line.push((ink!("{} watched", count(dev.files, "file")), Role::Muted));
        }
        Some(at) => {
            line.push((ink!("{} changed", &dev.changed_words()), Role::Text));
            line.push((ink!(" {}", model.ago(at)), Role::Muted));
        }
    }
    let mut part = |text: Ink, role: Role| {
        line.push((ink!(" {} ", glyphs.dot), Role::Faint));
        line.push((text, role));
    };
    let end = dev.build.as_ref().and_then(|build| build.end.as_ref());
    let failed = matches!(end, Some((BuildEnd::Failed(_) | BuildEnd::Refused(_), _)));
    if failed {
        part(ink!("the previous build keeps running"), Role::Warning);
    } else if let Some(build) = &dev.build {
        let (text, role) = built(build, model);
        part(text, role);
    }
    if dev.is_taken {
        part(ink!("restarted"), Role::Ok);
    }
    doc.line(line);
    if let Some(build) = dev.build.as_ref().filter(|_| failed) {
        let (text, role) = built(build, model);
        doc.text(2, &text, role);
    }
    for note in [&dev.note, &dev.watch_note].into_iter().flatten() {
        doc.text(2, &ink!("{} {}", glyphs.warning, note), Role::Warning);
    }
    let tail = dev.build.as_ref().map(|build| build.tail.as_slice()).unwrap_or_default();
    let said: Vec<_> = tail.iter().filter(|line| !line.trim().is_empty()).collect();
    for text in said.into_iter().rev().take(MAX_OUTPUT_LINES).rev() {
        doc.line(vec![(ink!("  build    "), Role::Faint), (Ink::from(text), Role::Foreign)]);
    }
}

fn built(build: &BuildView, model: &Model) -> (Ink, Role) {
    match &build.end {
        None => (ink!("building {}", model.elapsed(build.began)), Role::Busy),
        Some((BuildEnd::Done, took)) => (ink!("built in {}", Dur(*took)), Role::Text),
        Some((BuildEnd::Superseded, _)) => (ink!("build superseded"), Role::Muted),
        Some((BuildEnd::Failed(exit), took)) => {
            let how = Ink::line(&exit.describe());
            (ink!("build failed after {}: {}", Dur(*took), how), Role::Error)
        }
        Some((BuildEnd::Refused(reason), _)) => {
            (ink!("the build could not be started: {}", reason), Role::Error)
        }
    }
}
