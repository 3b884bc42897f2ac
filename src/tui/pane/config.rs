//! The configuration: the file with problems at their lines, sources of servers, effective values
//! with secrets masked, and what a reload did or would do.

use crate::keymap::KeyScope;
use crate::model::{InputState, InputView, Model};
use crate::pane::{Availability, Cx, Gesture, Out, Pane, RedRow, Ui, when};
use crate::prelude::*;
use crate::widget::doc::{hang, json_rows};
use crate::widget::{Doc, DocView, Pen, width};
use config::{ConfigChange, Diagnostic, EffectiveValue, FileScope, Severity, SourceFile};

/// Fewest columns in which a problem is shown below its column.
const MIN_PROBLEM_COLUMNS: u16 = 36;
/// Columns of the number before a line of a file.
const NUMBER_COLUMNS: u16 = 5;
named! {
    /// What is shown.
    #[derive(Default)]
    enum ConfigTab {
        #[default]
        File = "file",
        Sources = "sources",
        Effective = "effective values",
        Reload = "reload",
    }
}

/// The configuration pane.
#[derive(Default)]
pub struct ConfigPane {
    tab: ConfigTab,
    text: DocView,
    /// Lines of the text that have problems.
    problems: Vec<usize>,
    /// The same, as they were found.
    found: Vec<Diagnostic>,
    /// The last shown error of the newest file.
    error: Option<Diagnostic>,
}

impl ConfigPane {
    fn body(area: Rect) -> Rect {
        Rect { y: area.y + 2.min(area.height), height: area.height.saturating_sub(2), ..area }
    }

    /// Switches `by` tabs forward.
    fn turn(&mut self, by: usize) {
        self.tab = ConfigTab::ALL[(self.tab as usize + by) % ConfigTab::ALL.len()];
        self.text.top = 0;
    }

    fn scroll(&mut self, delta: isize, area: Rect) {
        self.text.scroll(delta, Self::body(area).height);
    }
}

impl Pane for ConfigPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Config, KeyScope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let mut doc = Doc::new(ui.area.width.saturating_sub(2));
        self.problems.clear();
        self.found.clear();
        match self.tab {
            ConfigTab::File => {
                let found = file(ui.model, &mut doc);
                (self.problems, self.found) = found.into_iter().unzip();
            }
            ConfigTab::Sources => sources(ui, &mut doc),
            ConfigTab::Effective => effective(ui.model, &mut doc),
            ConfigTab::Reload => reload(ui, &mut doc),
        }
        self.text.doc = doc;
        let error = ui.model.rejected().next();
        if self.error.as_ref() != error {
            // A file with an error opens at it, with some lines above.
            self.error = error.cloned();
            if let (Some(line), ConfigTab::File) = (self.problems.first(), self.tab) {
                self.text.top = line.saturating_sub(usize::from(ui.area.height / 3));
            }
        }
        self.scroll(0, ui.area);
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        let page = Self::body(ui.area).height.max(2) - 1;
        if let Some(delta) = action.steps(page as isize) {
            self.scroll(delta, ui.area);
            return true;
        }
        match action {
            Action::Effective | Action::Right => self.turn(1),
            Action::Left => self.turn(ConfigTab::ALL.len() - 1),
            Action::NextProblem => {
                self.tab = ConfigTab::File;
                // At the end of the file, all later ones are on the screen.
                let height = usize::from(Self::body(ui.area).height);
                let is_end = self.text.top + height >= self.text.doc.len();
                let after = self.problems.iter().find(|line| **line > self.text.top);
                if let Some(line) = after.filter(|_| !is_end).or(self.problems.first()) {
                    self.text.top = *line;
                }
                self.scroll(0, ui.area);
            }
            Action::Copy | Action::CopyAll => out.copy(self.text.doc.to_text()),
            Action::Save => out.save("mcpdeck-config.txt", self.text.doc.to_text()),
            _ => return false,
        }
        true
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        match action {
            Action::NextProblem => {
                let view = &model.view;
                let any = !view.diagnostics.is_empty() || model.rejected().next().is_some();
                Some(when(any, "there are no problems"))
            }
            Action::Filter => Some(Err("not available here")),
            _ => None,
        }
    }

    /// The first problem from the top of what is shown on; without one there, the first of all.
    fn red_row(&self, _: &Model) -> Option<RedRow> {
        let at = self.problems.iter().position(|line| *line >= self.text.top).unwrap_or(0);
        let found = self.found.get(at)?;
        Some(RedRow {
            server: found.server.clone(),
            what: "problem",
            words: Ink::line(&format!("{}: {}", found.severity, found.at)),
            text: SafeText::line(&found.message),
            at: None,
            help: found.help.clone(),
            place: Some((found.at.file.clone(), found.at.line)),
        })
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, _: &mut Out) {
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta, ui.area),
            Gesture::Click(at) if at.y == ui.area.y => {
                let mut x = ui.area.x + 1;
                for tab in ConfigTab::ALL {
                    let end = x + tab.name().len() as u16 + 3;
                    if (x..end).contains(&at.x) {
                        (self.tab, self.text.top) = (tab, 0);
                    }
                    x = end;
                }
            }
            _ => {}
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let mut pen = Pen::new(buf, area);
        pen.skip(1);
        for tab in ConfigTab::ALL {
            let role = if tab == self.tab { Role::Accent } else { Role::Muted };
            pen.put(tab.name(), cx.style(role)).skip(3);
        }
        let body = Self::body(area);
        let inner = Rect { x: body.x + 1, width: body.width.saturating_sub(1), ..body };
        self.text.render(cx, inner.intersection(body), buf);
    }
}

fn severity_role(severity: Severity) -> Role {
    match severity {
        Severity::Note => Role::Muted,
        Severity::Warning => Role::Warning,
        Severity::Error => Role::Error,
    }
}

fn problem(diagnostic: &Diagnostic, indent: u16, doc: &mut Doc) {
    let role = severity_role(diagnostic.severity);
    let text = format!("^ {}: {}", diagnostic.severity, diagnostic.message);
    doc.text(indent, &Ink::line(&text), role);
    if let Some(help) = &diagnostic.help {
        doc.text(indent + 2, &Ink::line(help), Role::Muted);
    }
}

/// The text of the files with their problems; returns those, each with its line of the text.
fn file(model: &Model, doc: &mut Doc) -> Vec<(usize, Diagnostic)> {
    let mut problems = Vec::new();
    let view = &model.view;
    // What was found in the text before says nothing about the text that is shown.
    let is_newer = |d: &&Diagnostic| model.rejected().all(|newer| newer.at.file != d.at.file);
    let before = view.diagnostics.iter().filter(is_newer);
    let all: Vec<&Diagnostic> = model.rejected().chain(before).collect();
    if model.rejected().next().is_some() {
        let standing = if matches!(model.engine, crate::model::EngineState::Failed(_)) {
            "The file cannot be used. Servers start once it is fixed."
        } else {
            "The file on disk cannot be used; the last valid configuration stays in use."
        };
        doc.text(0, &standing, Role::Error);
        doc.gap();
    }
    for diagnostic in &all {
        let placed = model.files.iter().any(|file| {
            file.path == diagnostic.at.file
                && (1..=file.lines.len()).contains(&(diagnostic.at.line as usize))
        });
        if !placed {
            problems.push((doc.len(), (*diagnostic).clone()));
            let at = Ink::line(&diagnostic.at.to_string());
            doc.line(vec![(at, Role::Muted)]);
            problem(diagnostic, 2, doc);
        }
    }
    if model.files.is_empty() && all.is_empty() {
        doc.text(0, &no_file(model), Role::Muted);
    }
    for file in &*model.files {
        doc.heading(Ink::line(&file.path.display().to_string()));
        for (n, line) in file.lines.iter().enumerate() {
            let number = n + 1;
            let here: Vec<_> = all
                .iter()
                .filter(|d| d.at.file == file.path && d.at.line as usize == number)
                .copied()
                .collect();
            let role = here.iter().map(|d| d.severity).max().map_or(Role::Faint, severity_role);
            file_line((ink!("{:>4} ", number), role), line, &here, &mut problems, doc);
        }
    }
    problems
}

/// A line of a file in as many rows as it takes, each with the problems that begin in it below.
fn file_line(
    number: (Ink, Role),
    line: &str,
    found: &[&Diagnostic],
    problems: &mut Vec<(usize, Diagnostic)>,
    doc: &mut Doc,
) {
    let shown = Ink::line(line);
    let hang = hang(shown.as_str(), doc.width().saturating_sub(NUMBER_COLUMNS));
    let room = doc.width().saturating_sub(NUMBER_COLUMNS + hang).max(8);
    // The byte of the shown line at which a problem begins.
    let place = |found: &Diagnostic| {
        let before: String = line.chars().take((found.at.column as usize).max(1) - 1).collect();
        Ink::line(&before).as_str().len()
    };
    let mut number = Some(number);
    let mut rows = json_rows(shown.as_str(), room).peekable();
    while let Some((begin, pieces)) = rows.next() {
        let under = if number.is_some() { NUMBER_COLUMNS } else { NUMBER_COLUMNS + hang };
        let blank = || (ink!("{:1$}", "", usize::from(under)), Role::Text);
        let lead = number.take().unwrap_or_else(blank);
        doc.line(std::iter::once(lead).chain(pieces).collect());
        if doc.is_cut() {
            return;
        }
        let end = rows.peek().map_or(usize::MAX, |(next, _)| *next);
        for found in found.iter().filter(|found| (begin..end).contains(&place(found))) {
            problems.push((doc.len() - 1, (**found).clone()));
            // Below its column, or at the margin where it would not fit.
            let before = shown.as_str().get(begin..place(found)).unwrap_or_default();
            let below = under.saturating_add(width(&Ink::line(before)));
            let fits = below.saturating_add(MIN_PROBLEM_COLUMNS) <= doc.width();
            problem(found, if fits { below } else { NUMBER_COLUMNS }, doc);
        }
    }
}

// Views of the configuration other than the file: sources, effective values, reloads. Pure: model
// in, text out.

/// Told instead of a file where there is none, and where one would come from.
fn no_file(model: &Model) -> &'static str {
    if !model.view.files.is_empty() {
        return "the file is not read yet";
    }
    if model.view.servers.is_empty() {
        return "no file yet: it is written when you add a server";
    }
    "these servers are in no file, they come from the demo or the command line: there is nothing to \
     edit; `mcpdeck -c FILE` opens a file"
}

/// Where servers come from, and which inputs are asked for.
fn sources(ui: Ui<'_>, doc: &mut Doc) {
    let situation = &ui.model.situation;
    if situation.sources.is_empty() {
        doc.text(0, &no_file(ui.model), Role::Muted);
        return;
    }
    for source in &situation.sources {
        source_lines(source, doc);
    }
    doc.gap();
    match &situation.polling {
        Some(reason) => {
            doc.text(0, &ink!("the files are polled for changes: {}", reason), Role::Muted);
        }
        None => {
            doc.text(0, &"the files are watched for changes", Role::Muted);
        }
    }
    doc.gap();
    let awaiting = situation.awaiting.len();
    if awaiting > 0 {
        let verb = if awaiting == 1 { "awaits" } else { "await" };
        doc.line(vec![
            (ink!("{} {} your approval   ", count(awaiting, "command"), verb), Role::Attention),
            (ui.spelled(&[KeyScope::Config], "{show-inbox} shows it"), Role::Muted),
        ]);
    }
    if !situation.inputs.is_empty() {
        doc.heading("inputs");
        for input in &situation.inputs {
            input_line(input, doc);
        }
    }
}

fn source_lines(source: &SourceFile, doc: &mut Doc) {
    let path = Ink::line(&source.path.display().to_string());
    let whose: &'static str = match source.scope {
        FileScope::Project => "project",
        FileScope::User => "user",
    };
    doc.gap();
    let (standing, role) = match source.rank {
        Some(1) => (ink!("used; wins"), Role::Ok),
        Some(rank) => (ink!("used; number {} in precedence", rank), Role::Ok),
        None => (ink!("found, not used"), Role::Faint),
    };
    doc.line(vec![(path, Role::Heading), (ink!("   {}   ", whose), Role::Muted), (standing, role)]);
    let verb: &'static str = if source.rank.is_some() { "gives" } else { "would add" };
    if let Some(problem) = &source.problem {
        doc.text(2, &Ink::line(problem), Role::Error);
    } else {
        doc.text(2, &ink!("{}  {}", verb, names(&source.servers)), Role::Text);
    }
    if !source.replaced.is_empty() {
        let text = ink!("replaced by a file above  {}", names(&source.replaced));
        doc.text(2, &text, Role::Muted);
    }
}

fn names(servers: &[ServerName]) -> Ink {
    if servers.is_empty() {
        return ink!("nothing");
    }
    let all: Vec<&str> = servers.iter().map(ServerName::as_str).collect();
    Ink::line(&all.join(", "))
}

fn input_line(view: &InputView, doc: &mut Doc) {
    let (word, role): (Ink, Role) = match view.state {
        InputState::Open if view.servers.is_empty() => (ink!("not answered"), Role::Muted),
        InputState::Open => (ink!("{} waits for it", names(&view.servers)), Role::Attention),
        InputState::Answered => (ink!("answered, until mcpdeck quits"), Role::Ok),
        InputState::Kept => (ink!("answered, in the keyring"), Role::Ok),
        InputState::Variable => {
            let name = config::input_variable(&view.input.id);
            (ink!("from {}", Ink::line(&name)), Role::Ok)
        }
    };
    doc.line(vec![
        (ink!("  {:<20}", Ink::line(&view.input.id)), Role::Text),
        (word, role),
        (ink!("   {}", Ink::line(&view.input.description)), Role::Foreign),
    ]);
}

/// All effective values: those set in a file by server, then the defaults of all, once.
fn effective(model: &Model, doc: &mut Doc) {
    let situation = &model.situation;
    let values = situation.values.by_server();
    if values.is_empty() {
        doc.text(0, &"not known yet", Role::Muted);
        return;
    }
    let mut all_defaults = indexmap::IndexSet::new();
    for server in values.iter().filter(|server| model.in_scope(&server.name)) {
        doc.heading(Model::name(&server.name));
        let hold = model.entry(&server.name).and_then(|entry| entry.hold.as_ref());
        if let Some(hold) = hold {
            doc.text(2, &Ink::line(&hold.to_string()), Role::Attention);
        } else if situation.awaiting(&server.name).is_some_and(|a| a.runs_as_before) {
            let text = "as approved; the changed entry in the file awaits approval";
            doc.text(2, &text, Role::Attention);
        }
        for value in &server.set {
            value_lines(value, doc);
        }
        let more = count(server.defaults.len(), "more key");
        doc.text(2, &ink!("{} at the defaults below", more), Role::Faint);
        all_defaults.extend(server.defaults.iter().map(|one| format!("{} {}", one.key, one.value)));
    }
    let all: Vec<String> = all_defaults.into_iter().collect();
    doc.heading("defaults");
    doc.text(2, &Ink::line(&all.join(" · ")), Role::Faint);
}

fn value_lines(value: &EffectiveValue, doc: &mut Doc) {
    const KEY_COLUMNS: u16 = 24;
    let origin = ink!("   {}", Ink::line(&value.origin));
    let room = doc.width().saturating_sub(KEY_COLUMNS + 2).max(16);
    let lead = vec![(ink!("  {:<22} ", Ink::line(&value.key)), Role::Muted)];
    let text = Ink::line(&value.value);
    doc.hanging(lead, (text.as_str(), Role::Text), room, (origin, Role::Faint));
}

/// What a pending file change would do, and what the last reload did.
fn reload(ui: Ui<'_>, doc: &mut Doc) {
    let model = ui.model;
    if let Some(plan) = &model.situation.plan {
        doc.heading("a changed file awaits your confirmation");
        changes(plan, PLANNED, doc);
        let shows = ui.spelled(&[KeyScope::Config], "{show-inbox} leads to it");
        doc.line(vec![(shows, Role::Muted)]);
        doc.gap();
    }
    if !model.situation.sources.is_empty() {
        let how = if model.situation.asks {
            "changes are shown before they are applied   {ask-reload} applies them at once"
        } else {
            "changes are applied at once   {ask-reload} shows them first"
        };
        doc.line(vec![(ui.spelled(&[KeyScope::Config], how), Role::Muted)]);
        doc.gap();
    }
    let Some((at, change)) = &model.view.reload else {
        doc.text(0, &"the file has not changed since the start", Role::Muted);
        return;
    };
    doc.line(vec![(ink!("{}", model.when(*at)), Role::Muted)]);
    doc.gap();
    changes(change, ["started", "stopped", "restarted", "kept"], doc);
}

/// Words for what a pending change does to a server.
pub const PLANNED: [&str; 4] = ["start", "stop", "restart", "keep"];

/// What a change does to each affected server: the line, its role and the reason.
pub fn touched(
    change: &ConfigChange,
    [start, stop, restart, keep]: [&'static str; 4],
) -> Vec<(Ink, Role, Ink)> {
    let row = |sign: &'static str, word: &'static str, name: &ServerName, role, why| {
        (ink!("{} {:<10} {}", sign, word, Model::name(name)), role, why)
    };
    let why = |lead: &'static str, fields: &[String]| {
        ink!("   {} {}", lead, Ink::line(&fields.join(", ")))
    };
    let added = change.added.iter().map(|name| row("+", start, name, Role::Added, ink!("")));
    let removed = change.removed.iter().map(|name| row("-", stop, name, Role::Removed, ink!("")));
    let changed = change
        .changed
        .iter()
        .map(|(name, fields)| row("~", restart, name, Role::Changed, why("because of", fields)));
    let followed = change
        .followed
        .iter()
        .map(|(name, fields)| row("~", keep, name, Role::Changed, why("with another", fields)));
    added.chain(removed).chain(changed).chain(followed).collect()
}

fn changes(change: &ConfigChange, words: [&'static str; 4], doc: &mut Doc) {
    for (line, role, why) in touched(change, words) {
        doc.line(vec![(line, role), (why, Role::Muted)]);
    }
    let followed = |name: &ServerName| change.followed.iter().any(|(other, _)| other == name);
    for name in change.kept.iter().filter(|name| !followed(name)) {
        doc.line(vec![(ink!("  {:<10} {}", words[3], Model::name(name)), Role::Faint)]);
    }
}
