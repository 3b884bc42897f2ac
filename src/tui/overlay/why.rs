//! Why something is red: one page with what happened, the last lines and messages around it, the
//! likely cause, and what mends it as lines to choose from. The chosen one is applied with one key
//! and the page goes on showing what becomes of it.

use crate::action::ServerAction;
use crate::call::WhyCall;
use crate::effect::{ConfigCommand, Effect, FileChange, Order, ServerCommand};
use crate::glyph::{reason_beside, server_word, state_role};
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::model::{Model, Todo};
use crate::overlay::reader_width;
use crate::pane::servers::evidence;
use crate::pane::{Cx, Gesture, Out, RedRow, Ui};
use crate::pick::Pick;
use crate::prelude::*;
use crate::screen::{Frame, Screen, is_for_all};
use crate::user_command::{FilledCommand, UserCommand};
use crate::widget::{Doc, DocView, Pen};
use config::Hold;
use config::error::ErrorCode;
use host::{
    BreakerView, Complaint, MendStep, ServerState, ServerView, StartCause, line_help, mends,
    missing_variable,
};
use protocol::{FindingKind, MessageKind, RequestKind};

/// Rows shown before and after the one that the page is about.
const MAX_ROWS_BEFORE: usize = 4;
const MAX_ROWS_AFTER: usize = 4;
/// Most lines and messages that are looked through for them.
const MAX_SEARCHED_ROWS: u64 = 5_000;
/// Rows of the page above the lines to choose from.
const MIN_PAGE_ROWS: u16 = 6;

/// What a line on stdout that is no message means.
const STRAY_LINE: &str =
    "the server writes to stdout, which is for messages alone: make it write to stderr";

/// What a page explains.
#[derive(Clone, Debug)]
pub enum WhyAbout {
    Server(ServerName),
    /// A call that failed.
    Call(Box<WhyCall>),
    /// A row of a pane: a log line, a message, a problem of the file.
    Row(Box<RedRow>),
}

/// Something that mends it.
#[derive(Clone, Debug, PartialEq)]
struct WhyFix {
    /// What it does.
    words: Ink,
    /// How, when it is chosen.
    intents: Vec<Intent>,
    /// Whether the page closes, as something else is shown.
    leaves: bool,
}

/// The page.
pub struct WhyDialog {
    about: WhyAbout,
    page: DocView,
    fixes: Vec<WhyFix>,
    selected: usize,
    /// What was applied last.
    applied: Option<Ink>,
}

impl WhyDialog {
    /// A page about this.
    pub fn new(about: WhyAbout) -> Self {
        Self { about, page: DocView::default(), fixes: Vec::new(), selected: 0, applied: None }
    }

    fn server(&self) -> Option<&ServerName> {
        match &self.about {
            WhyAbout::Server(server) => Some(server),
            WhyAbout::Call(call) => Some(&call.server),
            WhyAbout::Row(row) => row.server.as_ref(),
        }
    }

    /// Rows for the lines to choose from, with the one that says what was applied.
    fn fix_rows(&self, height: u16) -> u16 {
        let wanted = self.fixes.len() as u16 + 1 + u16::from(self.applied.is_some());
        wanted.min(height.saturating_sub(MIN_PAGE_ROWS))
    }

    fn apply(&mut self, out: &mut Out) {
        let Some(fix) = self.fixes.get(self.selected) else { return };
        if fix.leaves {
            out.close();
        }
        out.intents.extend(fix.intents.iter().cloned());
        self.applied = Some(fix.words.clone());
        self.page.top = 0;
    }
}

impl Screen for WhyDialog {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Why, KeyScope::Reader]
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let title = match &self.about {
            WhyAbout::Server(server) => ink!("why: {}", Model::quoted(server)),
            WhyAbout::Call(call) => ink!("why: {} on {}", &call.label, Model::quoted(&call.server)),
            WhyAbout::Row(row) => match &row.server {
                Some(server) => ink!("why: {} of {}", row.what, Model::quoted(server)),
                None => ink!("why: {}", row.what),
            },
        };
        let rows = u16::try_from(self.page.doc.len()).unwrap_or(u16::MAX);
        let rows = rows.saturating_add(self.fixes.len() as u16 + 6);
        let height = rows.clamp(12, whole.height.saturating_sub(2).max(12));
        Some((title, reader_width(whole) + 4, height))
    }

    fn takes_letters(&self) -> bool {
        false
    }

    fn lets_through(&self, action: Action) -> bool {
        !matches!(action, Action::Back | Action::Why | Action::Up | Action::Down | Action::Open)
    }

    fn in_footer(&self, scope: KeyScope, action: Action) -> bool {
        scope != KeyScope::Global || is_for_all(action) || action == Action::Quit
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        let height = ui.area.height.saturating_sub(self.fix_rows(ui.area.height));
        match action {
            Action::Back | Action::Why => out.close(),
            Action::Open => self.apply(out),
            Action::Up => self.selected = self.selected.saturating_sub(1),
            Action::Down => {
                self.selected = (self.selected + 1).min(self.fixes.len().saturating_sub(1));
            }
            Action::Copy => out.copy(self.page.doc.to_text()),
            action => {
                if let Some(delta) = action.steps(isize::try_from(height).unwrap_or(1)) {
                    self.page.scroll(delta, height);
                }
            }
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let rows = self.fix_rows(ui.area.height);
        let height = ui.area.height.saturating_sub(rows);
        match gesture {
            Gesture::Scroll { delta, .. } => self.page.scroll(delta, height),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                let first = ui.area.y + height + 1 + u16::from(self.applied.is_some());
                let Some(line) = at.y.checked_sub(first).map(usize::from) else { return };
                if line < self.fixes.len() {
                    let again = self.selected == line;
                    self.selected = line;
                    if again {
                        self.apply(out);
                    }
                }
            }
        }
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        let width = reader_width(ui.area);
        let mut doc = Doc::new(width);
        match &self.about {
            WhyAbout::Server(server) => explain_server(ui.cx, server, "what happened", &mut doc),
            WhyAbout::Call(call) => explain_call(ui.cx, call, &mut doc),
            WhyAbout::Row(row) => explain_row(ui.cx, row, &mut doc),
        }
        self.page.doc = doc;
        self.fixes = match &self.about {
            WhyAbout::Server(server) => server_fixes(ui.model, server, &[]),
            WhyAbout::Call(call) => call_fixes(ui.model, call),
            WhyAbout::Row(row) => row_fixes(ui.model, row),
        };
        self.selected = self.selected.min(self.fixes.len().saturating_sub(1));
    }

    fn follow(&mut self, model: &Model) -> bool {
        self.server().is_none_or(|server| {
            // A server whose entry cannot be used is not among the servers.
            model.server(server).is_some() || matches!(self.about, WhyAbout::Row(_))
        })
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let rows = self.fix_rows(area.height);
        let height = area.height.saturating_sub(rows);
        self.page.render(cx, Rect { height, ..area }, buf);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        let mut y = height;
        if rows == 0 {
            return;
        }
        pen.at(0, y).put(cx.glyphs.horizontal, cx.style(Role::Rule));
        let title = cx.spelled(&[KeyScope::Why], " what mends it: {open} applies ");
        pen.put(title, cx.style(Role::Muted)).rule(cx.glyphs.horizontal, cx.style(Role::Rule));
        y += 1;
        if let Some(applied) = &self.applied {
            let nothing = || (Ink::default(), Role::Muted);
            let (state, role) = self.server().map_or_else(nothing, |server| now_is(cx, server));
            pen.at(0, y).put(ink!("{} {}  ", cx.glyphs.check, applied), cx.style(Role::Ok));
            pen.put(state, cx.style(role));
            y += 1;
        }
        let room = usize::from(area.height.saturating_sub(y));
        let top = self.selected.saturating_sub(room.saturating_sub(1));
        for (line, fix) in self.fixes.iter().enumerate().skip(top).take(room) {
            let here = line == self.selected;
            let style = cx.style(if here { Role::Selection } else { Role::Text });
            let mark = if here { cx.glyphs.cursor } else { " " };
            let row = y + (line - top) as u16;
            pen.at(0, row).put(ink!("{} ", mark), cx.style(Role::Accent));
            pen.put(ink!(" {} ", &fix.words), style);
        }
    }
}

/// The state of a server in a few words, after a fix was applied.
fn now_is(cx: &Cx<'_>, server: &ServerName) -> (Ink, Role) {
    let Some(server) = cx.model.server(server) else { return (ink!(""), Role::Muted) };
    let words = ink!("the server is {} {}", server_word(server), cx.model.when(server.since));
    (words, state_role(server.state))
}

fn paragraph(doc: &mut Doc, heading: &'static str, text: &Ink, role: Role) {
    if !text.as_str().is_empty() {
        doc.heading(heading);
        doc.text(2, text, role);
    }
}

fn explain_server(cx: Cx<'_>, name: &ServerName, heading: &'static str, doc: &mut Doc) {
    let Some(server) = cx.model.server(name) else { return };
    doc.heading(heading);
    let state = ink!("{} {}", server_word(server), cx.model.when(server.since));
    doc.text(2, &state, state_role(server.state));
    if let Some(reason) = reason_beside(server) {
        let is_wrong = server.state == ServerState::Unavailable;
        doc.text(2, &Ink::line(reason), if is_wrong { Role::Error } else { Role::Muted });
    }
    paragraph(doc, "likely cause", &cause_of(cx.model, server), Role::Attention);
    evidence(server, cx.model, cx.glyphs, doc);
}

/// The likely cause, as far as it is known, and what to do.
fn cause_of(model: &Model, server: &ServerView) -> Ink {
    match model.hold(&server.name) {
        Some(Todo::Approval(_)) => return ink!("its command or address is not approved yet"),
        Some(Todo::Input(id)) => return ink!("it waits for the input {}", Ink::line(&id)),
        _ => {}
    }
    if let Some(help) = &server.help {
        return Ink::from(help);
    }
    if model.policy.held.iter().any(|held| *held.server == *server.name.as_str()) {
        return ink!("some of its definitions changed and are held until they are reviewed");
    }
    if let Some(found) = server.findings.iter().find(|found| found.kind == FindingKind::Junk) {
        return line_help(&found.raw)
            .map_or_else(|| ink!("{}", STRAY_LINE), |help| Ink::line(&help));
    }
    if let Some(found) = server.findings.back() {
        return ink!("it breaks the protocol: {}", Ink::line(found.message.as_str()));
    }
    match &server.breaker {
        BreakerView::Open { cause, .. } | BreakerView::HalfOpen { cause } => {
            ink!("calls are turned away after failures in a row: {}", cause)
        }
        BreakerView::Closed => match server.state {
            ServerState::Ready => ink!("nothing is wrong now"),
            ServerState::Disabled => ink!("it is switched off in its entry"),
            ServerState::Shutdown => ink!("it was stopped from here"),
            ServerState::Sleeping => ink!("nothing is wrong: the next call starts it"),
            ServerState::Waiting | ServerState::Starting | ServerState::Unavailable => {
                Ink::default()
            }
        },
    }
}

fn explain_call(cx: Cx<'_>, call: &WhyCall, doc: &mut Doc) {
    doc.heading("what happened");
    doc.text(2, &Ink::line(&call.words), Role::Error);
    doc.text(2, &SafeText::block(&call.message), Role::Foreign);
    let help = call.lines().iter().rev().find_map(line_help).filter(|_| call.is_of_server());
    paragraph(doc, "likely cause", &Ink::line(&help.unwrap_or_default()), Role::Attention);
    paragraph(doc, "what to do", &Ink::line(&call.next), Role::Attention);
    if !call.details.is_empty() {
        doc.heading("in detail");
        for detail in &call.details {
            doc.text(2, detail, Role::Foreign);
        }
    }
    if let Some(server) = cx.model.server(&call.server) {
        if server.state.is_up() {
            evidence(server, cx.model, cx.glyphs, doc);
        } else {
            explain_server(cx, &call.server, "its server", doc);
        }
    }
}

/// Explains a row: what it says, what was around it, and what its server is up to.
fn explain_row(cx: Cx<'_>, row: &RedRow, doc: &mut Doc) {
    doc.heading("what happened");
    doc.text(2, &row.words, Role::Error);
    doc.text(2, &row.text, Role::Foreign);
    let server = row.server.as_ref().and_then(|name| cx.model.server(name));
    paragraph(doc, "likely cause", &cause_of_row(cx.model, row), Role::Attention);
    let (Some(at), Some(name)) = (row.at, &row.server) else { return };
    around(cx.model, name, at, doc);
    if let Some(server) = server.filter(|server| !server.state.is_up()) {
        evidence(server, cx.model, cx.glyphs, doc);
    }
}

/// The likely cause of what a row says: by its own text, then by what is known of its server.
fn cause_of_row(model: &Model, row: &RedRow) -> Ink {
    if let Some(help) = &row.help {
        return Ink::line(help);
    }
    let text = SafeText::line(&row.text);
    if let Some(help) = line_help(&text) {
        return Ink::line(&help);
    }
    let server = row.server.as_ref().and_then(|name| model.server(name));
    let Some(server) = server else { return Ink::default() };
    let is_noise = |kind: FindingKind, raw: &str| kind == FindingKind::Junk && text.contains(raw);
    if server.findings.iter().any(|found| is_noise(found.kind, found.raw.trim())) {
        return ink!("{}", STRAY_LINE);
    }
    if server.state.is_up() { Ink::default() } else { cause_of(model, server) }
}

/// The log lines and messages of a server around a time.
fn around(model: &Model, server: &ServerName, at: Timestamp, doc: &mut Doc) {
    let lines = model.logs.from(model.logs.end().saturating_sub(MAX_SEARCHED_ROWS));
    let lines = lines.filter(|(_, line)| line.server.as_ref() == Some(server));
    let lines = lines.map(|(_, line)| (line.at, Ink::from(&line.text)));
    let messages = model.traffic.from(model.traffic.end().saturating_sub(MAX_SEARCHED_ROWS));
    let messages = messages.filter(|(_, message)| message.server == *server);
    let messages = messages.map(|(_, message)| {
        let kind: &'static str = match message.kind {
            MessageKind::Request => "request",
            MessageKind::Notification => "notification",
            MessageKind::Response => "answer",
            MessageKind::Error if message.unanswered().is_some() => "no answer",
            MessageKind::Error => "error",
            MessageKind::Junk => "not a message",
        };
        let mut text = ink!("{:<13}", kind);
        for part in [&message.method, &message.target].into_iter().flatten() {
            text.push(" ").push(part);
        }
        if let Some(problem) = &message.problem {
            let reason = message.unanswered().map_or_else(|| Ink::from(problem), Ink::line);
            text.push(ink!("  {}", reason));
        }
        (message.at, text)
    });
    for (heading, rows) in [
        ("lines around it", nearest(lines.collect(), at)),
        ("messages around it", nearest(messages.collect(), at)),
    ] {
        if rows.is_empty() {
            continue;
        }
        doc.heading(heading);
        for (when, text) in rows {
            let role = if when == at { Role::Attention } else { Role::Foreign };
            doc.line(vec![(ink!("  {} ", Model::time_of_day(when)), Role::Faint), (text, role)]);
        }
    }
}

/// The rows before and after a time; they are in order.
fn nearest(rows: Vec<(Timestamp, Ink)>, at: Timestamp) -> Vec<(Timestamp, Ink)> {
    let here = rows.partition_point(|(when, _)| *when < at);
    let shown = here.saturating_sub(MAX_ROWS_BEFORE)..(here + MAX_ROWS_AFTER).min(rows.len());
    rows.get(shown).map(<[_]>::to_vec).unwrap_or_default()
}

/// What mends what a row says, the likeliest first.
fn row_fixes(model: &Model, row: &RedRow) -> Vec<WhyFix> {
    let words = SafeText::line(&row.text);
    let mut fixes = match &row.server {
        Some(server) => server_fixes(model, server, std::slice::from_ref(&words)),
        None => Vec::new(),
    };
    if let Some((file, line)) = &row.place {
        let words = ink!("open {} at line {}", Ink::line(&file.display().to_string()), *line);
        let open = leave(words, vec![Effect::EditFile(file.clone(), *line).into()]);
        fixes.retain(|other| other.intents != open.intents);
        fixes.insert(0, open);
        if model.situation.undo {
            let undo = vec![Effect::Config(ConfigCommand::Undo).into()];
            fixes.insert(1, fix(ink!("undo the last change of the file"), undo));
        }
    }
    fixes
}

fn fix(words: Ink, intents: Vec<Intent>) -> WhyFix {
    WhyFix { words, intents, leaves: false }
}

fn leave(words: Ink, intents: Vec<Intent>) -> WhyFix {
    WhyFix { words, intents, leaves: true }
}

fn order(name: &ServerName, command: ServerCommand) -> Vec<Intent> {
    vec![Effect::Order(Order::Server(name.clone(), command)).into()]
}

fn change(change: FileChange) -> Vec<Intent> {
    vec![Effect::Config(ConfigCommand::Change(change)).into()]
}

/// What mends a server, the likeliest first; `lines` is what it has said about it.
fn server_fixes(model: &Model, name: &ServerName, lines: &[SafeText]) -> Vec<WhyFix> {
    let Some(server) = model.server(name) else { return Vec::new() };
    if model.playback.is_some() {
        return vec![diagnostics(name)];
    }
    let mut fixes = Vec::new();
    let entry = model.entry(name);
    if let Some(todo) = model.hold(name) {
        let words = match entry.and_then(|entry| entry.hold.as_ref()) {
            Some(Hold::Input(id)) => ink!("answer the input {}", Ink::line(id)),
            _ => ink!("read and approve what it would run"),
        };
        fixes.push(leave(words, vec![Intent::Open(todo)]));
    }
    let mut pending = model.view.pending.values();
    let sign_in = |kind: &RequestKind| *kind == RequestKind::SignIn;
    if let Some(request) = pending.find(|one| one.server == *name && sign_in(&one.kind)) {
        fixes.push(leave(ink!("sign in"), vec![Intent::Open(Todo::Request(request.id))]));
    } else if !server.state.is_up() && (server.account.is_some() || !server.auth_steps.is_empty()) {
        let sign_in = vec![Intent::Pick(Pick::OnServer(ServerAction::SignIn, name.clone()))];
        fixes.push(leave(ink!("sign in again"), sign_in));
    }
    fixes.extend(known_fixes(model, server, lines));
    let needed = server.dependencies.iter().filter_map(|name| model.server(name));
    for needed in needed.filter(|needed| !server.state.is_up() && !needed.state.is_up()) {
        let words = ink!("see why {} is {}", Model::quoted(&needed.name), server_word(needed));
        fixes.push(leave(words, vec![Intent::Pick(Pick::Why(needed.name.clone()))]));
    }
    if !server.state.is_up() || !lines.is_empty() {
        for id in inputs_in(model, name) {
            let words = ink!("enter the input {} again", Ink::line(&id));
            fixes.push(leave(words, vec![Intent::Pick(Pick::Input(id))]));
        }
    }
    if server.state == ServerState::Disabled {
        let enable = change(FileChange::Enable(name.clone()));
        fixes.push(fix(ink!("switch it on in its entry"), enable));
    }
    if model.policy.held.iter().any(|held| *held.server == *name.as_str()) {
        let held = Intent::Open(Todo::Held(name.clone()));
        fixes.push(leave(ink!("review what changed in its definitions"), vec![held]));
    }
    if let Some(entry) = entry.filter(|_| is_slow_start(server)) {
        let seconds = doubled(entry.startup_timeout);
        let set = set_seconds(name, "startupTimeout", seconds);
        fixes.push(fix(ink!("raise \"startupTimeout\" to {} s", seconds), change(set)));
    }
    if !matches!(server.breaker, BreakerView::Closed) {
        let reset = order(name, ServerCommand::ResetBreaker(None));
        fixes.push(fix(ink!("let calls through again now"), reset));
    }
    let (word, command): (&'static str, _) = if server.state.is_up() {
        ("restart it", ServerCommand::Restart)
    } else {
        ("start it again", ServerCommand::Restart)
    };
    fixes.push(fix(ink!("{}", word), order(name, command)));
    let edit = Effect::Config(ConfigCommand::OpenEntry(name.clone())).into();
    fixes.push(leave(ink!("edit its entry in a form"), vec![edit]));
    if let Some((file, line)) = model.place_of(Some(name)) {
        let words = ink!("open {} at line {}", Ink::line(&file.display().to_string()), line);
        fixes.push(leave(words, vec![Effect::EditFile(file, line).into()]));
    }
    fixes.push(diagnostics(name));
    fixes
}

fn diagnostics(name: &ServerName) -> WhyFix {
    let pick = Intent::Pick(Pick::Diagnostics(name.clone()));
    leave(ink!("read all diagnostics of the server"), vec![pick])
}

/// What mends what a server complains of in its own words: its output while it is down, what it
/// wrote to stdout, and these lines.
fn known_fixes(model: &Model, server: &ServerView, lines: &[SafeText]) -> Vec<WhyFix> {
    let name = &server.name;
    let is_down = !server.state.is_up();
    let junk = server.findings.iter().filter(|found| found.kind == FindingKind::Junk);
    let mut said: Vec<SafeText> = junk.map(|found| found.raw.clone()).collect();
    if is_down {
        said.extend_from_slice(server.last_words());
    }
    said.extend_from_slice(lines);
    let complaint = Complaint {
        lines: &said,
        reason: server.reason.as_deref().filter(|_| is_down),
        cause: server.failure.as_ref().filter(|_| is_down).map(|failure| &failure.cause),
    };
    let pass = |variable| change(FileChange::PassVariable { server: name.clone(), variable });
    let Some(entry) = model.entry(name) else {
        let lacks = missing_variable(&said).map(|variable| {
            fix(ink!("add {} to \"env\" of its entry", Ink::line(&variable)), pass(variable))
        });
        return lacks.into_iter().collect();
    };
    let fixes = mends(entry, complaint).into_iter().map(|mend| {
        let words = Ink::line(&mend.words);
        let steps = match mend.step {
            MendStep::PassVariable(variable) => pass(variable),
            MendStep::Change(changes) => {
                let server = name.clone();
                change(FileChange::Amend { server, changes, words: mend.words })
            }
            MendStep::Run { line, starts } => {
                if !starts {
                    return leave(words, vec![command_line(line, false)]);
                }
                let mut steps = vec![command_line(line, true)];
                steps.extend(order(name, ServerCommand::Restart));
                steps
            }
        };
        fix(words, steps)
    });
    fixes.collect()
}

/// The declared inputs that the text of a server's entry refers to.
fn inputs_in(model: &Model, name: &ServerName) -> Vec<String> {
    let Some((config, entry)) = model.config.as_ref().zip(model.entry(name)) else {
        return Vec::new();
    };
    let Some(file) = model.files.iter().find(|file| file.path == entry.at.file) else {
        return Vec::new();
    };
    let in_file = config.servers.values().filter(|other| other.at.file == entry.at.file);
    let next = in_file.map(|other| other.at.line).filter(|line| *line > entry.at.line).min();
    let lines = next.unwrap_or(u32::MAX).saturating_sub(entry.at.line) as usize;
    let start = entry.at.line.saturating_sub(1) as usize;
    let text: Vec<&SafeText> = file.lines.iter().skip(start).take(lines).collect();
    let refers = |id: &str| text.iter().any(|line| line.contains(&format!("${{input:{id}}}")));
    let ids = config.inputs.iter().map(|input| input.id.clone());
    ids.filter(|id| refers(id)).collect()
}

/// What mends a failed call, the likeliest first.
fn call_fixes(model: &Model, call: &WhyCall) -> Vec<WhyFix> {
    let act = |action| vec![Intent::Pick(Pick::Action(action))];
    let mut fixes = Vec::new();
    let entry = model.entry(&call.server);
    let server = model.server(&call.server);
    let is_up = server.is_some_and(|server| server.state.is_up());
    let edit = || leave(ink!("edit its arguments"), act(Action::EditAgain));
    match call.code {
        Some(ErrorCode::Timeout) => {
            if let Some(entry) = entry {
                let seconds = doubled(entry.request_timeout);
                let set = set_seconds(&call.server, "timeout", seconds);
                fixes.push(fix(
                    ink!("raise \"timeout\" of its entry to {} s", seconds),
                    change(set),
                ));
            }
        }
        Some(
            ErrorCode::PolicyBlocked
            | ErrorCode::PermissionDenied
            | ErrorCode::RateLimited
            | ErrorCode::BudgetExceeded,
        ) => {
            fixes.push(leave(ink!("look at the policy and its grants"), act(Action::Policy)));
        }
        Some(ErrorCode::CircuitOpen) => {
            let reset = order(&call.server, ServerCommand::ResetBreaker(None));
            fixes.push(fix(ink!("let calls through again now"), reset));
        }
        Some(ErrorCode::Validation) => {
            fixes.push(edit());
            fixes.push(leave(ink!("send it without validation"), act(Action::Force)));
        }
        None | Some(ErrorCode::Protocol) => {
            // The same arguments are answered in the same way.
            let lines = call.lines();
            fixes.extend(
                server.map(|server| known_fixes(model, server, &lines)).into_iter().flatten(),
            );
            fixes.push(edit());
        }
        Some(_) => {}
    }
    if !is_up {
        fixes.extend(server_fixes(model, &call.server, &[]));
    }
    fixes.push(leave(ink!("make the call again"), act(Action::Again)));
    if !fixes.contains(&edit()) {
        fixes.push(edit());
    }
    if is_up {
        fixes.push(fix(ink!("restart the server"), order(&call.server, ServerCommand::Restart)));
        fixes.push(diagnostics(&call.server));
    }
    fixes
}

/// Whether its start ended because it took too long.
fn is_slow_start(server: &ServerView) -> bool {
    let is_late = server.failure.as_ref().is_some_and(|it| it.cause == StartCause::TimedOut);
    !server.state.is_up() && is_late
}

/// Twice a duration, in whole seconds.
fn doubled(duration: Duration) -> u64 {
    duration.as_secs().max(1).saturating_mul(2)
}

fn set_seconds(server: &ServerName, key: &str, seconds: u64) -> FileChange {
    FileChange::Set {
        server: server.clone(),
        path: vec![key.to_owned()],
        value: Some(Value::from(seconds)),
    }
}

/// Runs a command line: with the terminal, or so that its output is shown.
fn command_line(line: String, terminal: bool) -> Intent {
    let command = UserCommand::mending(line, terminal);
    Effect::Run(Box::new(FilledCommand { command, values: [None, None, None] })).into()
}
