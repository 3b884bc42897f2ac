//! Adding a server: what it is in the user's words, what was found and would run, the values it
//! needs, a start to check it, and only then the entry in the file. Nothing is written before.

use std::path::PathBuf;

use crate::effect::{ConfigCommand, Effect, FileChange, TrialReport, TrialRequest};
use crate::keymap::KeyScope;
use crate::message::Message;
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::pick::Pick;
use crate::prelude::*;
use crate::screen::{Frame, Screen, is_for_all};
use crate::widget::{Doc, DocView, ListState, Pen, TextInput, scroll_bar};
use base::secret::Secret;
use config::{Severity, server_templates};
use deck::AddedServer;
use reach::{AvailableServer, FoundSource, ServerInput, settle};

/// What the line takes, with what each becomes.
const WAYS: [(&str, &str); 5] = [
    (
        "words of its name",
        "a server of the registry, when settings.json or MCPDECK_REGISTRY names one",
    ),
    ("npm:NAME  pypi:NAME", "a package; @VERSION pins one"),
    ("docker:IMAGE:TAG", "a container image"),
    ("FILE.mcpb  server.json", "a bundle, or what its publisher wrote of it"),
    ("https://...  COMMAND ...", "an address, or a command line"),
];

/// Columns of the labels before typed values.
const LABEL_COLUMNS: u16 = 26;
/// Rows around the page of what was found: gap, keys.
const FOOT_ROWS: u16 = 2;
/// Rows of the frame of a dialog.
const FRAME_ROWS: u16 = 3;

/// How far it is.
enum AddStage {
    /// The user says what it is.
    Asking,
    /// It is looked for.
    Finding,
    /// Several of the registry fit: name, version, what it is for.
    Choosing(Vec<[SafeText; 3]>),
    /// One was found.
    Found(Box<ServerCandidate>),
}

/// What was found, and what the user gave for it.
struct ServerCandidate {
    server: Arc<AvailableServer>,
    /// A label and a text of what it is, runs and needs.
    described: Vec<(&'static str, SafeText)>,
    /// Its name in the file, then the values it needs.
    fields: Vec<AddField>,
    /// The field that is typed.
    field: usize,
    trial: TrialStage,
}

/// A value that is typed.
struct AddField {
    /// What it is for; `None` for the name of the entry.
    input: Option<ServerInput>,
    line: TextInput,
}

/// Whether it was started.
enum TrialStage {
    Untried,
    Trying,
    Tried(TrialReport),
    Failed(SafeText),
}

/// The dialog.
pub struct AddServerDialog {
    /// The file it would be added to.
    file: PathBuf,
    /// Names that are taken.
    taken: Vec<ServerName>,
    words: TextInput,
    stage: AddStage,
    /// The forms of entries that can be filled in by hand, or the servers to choose from.
    list: ListState<usize>,
    rows: Vec<usize>,
    /// Why nothing was found.
    problem: Option<SafeText>,
    page: DocView,
}

impl AddServerDialog {
    /// A dialog that adds to this file, under a name that is not taken.
    pub fn new(file: PathBuf, taken: Vec<ServerName>) -> Self {
        let mut dialog = Self {
            file,
            taken,
            words: TextInput::default(),
            stage: AddStage::Asking,
            list: ListState::default(),
            rows: Vec::new(),
            problem: None,
            page: DocView::default(),
        };
        dialog.ask();
        dialog
    }

    fn ask(&mut self) {
        self.stage = AddStage::Asking;
        self.rows = (0..server_templates().len()).collect();
        self.list = ListState::default();
        self.list.select_index(0, &self.rows[..]);
    }

    fn look_for(&mut self, words: &str, out: &mut Out) {
        self.problem = None;
        self.stage = AddStage::Finding;
        out.effect(Effect::FindServer(words.to_owned(), self.file.clone()));
    }

    /// Shows what was found.
    fn found(&mut self, found: Result<FoundSource, SafeText>) {
        match found {
            Ok(FoundSource::One(server, described)) => {
                let needed = server.needed().cloned().map(|input| {
                    let mut line = TextInput::of_secret();
                    let given = server.given.iter().find(|(id, _)| *id == input.id);
                    let known = given.map(|(_, value)| value.expose());
                    line.insert(known.or(input.default.as_deref()).unwrap_or_default());
                    AddField { input: Some(input), line }
                });
                let mut fields: Vec<AddField> = needed.collect();
                let name = AddField { input: None, line: TextInput::new(&self.free(&server.name)) };
                fields.insert(0, name);
                let field = usize::from(fields.len() > 1);
                self.stage = AddStage::Found(Box::new(ServerCandidate {
                    server,
                    described,
                    fields,
                    field,
                    trial: TrialStage::Untried,
                }));
                self.page.top = 0;
            }
            Ok(FoundSource::Several(servers)) => {
                self.rows = (0..servers.len()).collect();
                self.list = ListState::default();
                self.list.select_index(0, &self.rows[..]);
                self.stage = AddStage::Choosing(servers);
            }
            Ok(_) => self.ask(),
            Err(why) => {
                self.ask();
                self.problem = Some(why);
            }
        }
    }

    /// A name like this one that is not taken.
    fn free(&self, name: &str) -> String {
        let numbered = (2..).map(|n| format!("{name}-{n}"));
        let mut names = std::iter::once(name.to_owned()).chain(numbered);
        let is_free = |name: &String| !self.taken.iter().any(|taken| taken.as_str() == name);
        names.find(is_free).unwrap_or_default()
    }

    /// Enter: looks for it, chooses, starts it for a check, or adds what was checked.
    fn go_on(&mut self, out: &mut Out) {
        match &self.stage {
            AddStage::Asking => {
                let words = self.words.text().trim().to_owned();
                if !words.is_empty() {
                    return self.look_for(&words, out);
                }
                if let Some(at) = self.list.selected() {
                    out.pick(Pick::Template(*at));
                }
            }
            AddStage::Choosing(servers) => {
                let name = self.list.selected().and_then(|at| servers.get(*at));
                if let Some(name) = name.map(|[name, ..]| name.to_string()) {
                    self.look_for(&name, out);
                }
            }
            AddStage::Finding => {}
            AddStage::Found(found) => match &found.trial {
                TrialStage::Trying => {}
                TrialStage::Tried(_) | TrialStage::Failed(_) => self.add(out),
                TrialStage::Untried => self.start(true, out),
            },
        }
    }

    /// Starts it for a check, when it has what it needs; else only what it is made of is prepared.
    fn start(&mut self, checks: bool, out: &mut Out) {
        let AddStage::Found(found) = &mut self.stage else { return };
        let answers = match found.answers(&self.taken) {
            Ok(answers) => answers,
            Err(why) => return out.warn(Ink::line(&why)),
        };
        let tried = settle(&found.server.entry, &found.server.inputs, &answers, true);
        if checks && !tried.open.is_empty() {
            let lacking = Ink::line(&tried.open.join(", "));
            return out.warn(ink!("it needs {} before it can be started", lacking));
        }
        found.trial = TrialStage::Trying;
        out.effect(Effect::TryServer(Box::new(TrialRequest {
            server: Arc::clone(&found.server),
            file: self.file.clone(),
            name: found.name(),
            entry: tried.entry,
            declared: tried.declared,
            answers,
            checks,
        })));
    }

    /// Writes the entry, which counts as approved: this is what was shown.
    fn add(&self, out: &mut Out) {
        let AddStage::Found(found) = &self.stage else { return };
        let answers = match found.answers(&self.taken) {
            Ok(answers) => answers,
            Err(why) => return out.warn(Ink::line(&why)),
        };
        let settled = settle(&found.server.entry, &found.server.inputs, &answers, false);
        let mut added = AddedServer::new(found.name(), settled.entry);
        (added.inputs, added.secrets) = (settled.declared, settled.secrets);
        out.effect(Effect::Config(ConfigCommand::Change(FileChange::Add(Box::new(added)))));
        out.close();
    }

    /// The line that is typed.
    fn typed_line(&mut self) -> Option<&mut TextInput> {
        match &mut self.stage {
            AddStage::Asking => Some(&mut self.words),
            AddStage::Found(found) if !matches!(found.trial, TrialStage::Trying) => {
                found.fields.get_mut(found.field).map(|field| &mut field.line)
            }
            AddStage::Found(_) | AddStage::Finding | AddStage::Choosing(_) => None,
        }
    }

    fn title(&self) -> Ink {
        match &self.stage {
            AddStage::Asking => ink!("add a server"),
            AddStage::Finding => ink!("add a server: looking for it"),
            AddStage::Choosing(servers) => ink!("add a server: {} fit", servers.len()),
            AddStage::Found(found) => ink!("add {}", crate::model::Model::quoted(&found.name())),
        }
    }

    /// Everything above the typed values and the keys.
    fn text(&self, cx: &Cx<'_>, width: u16) -> Doc {
        let mut doc = Doc::new(width.max(8));
        match &self.stage {
            AddStage::Asking => {
                for (words, becomes) in WAYS {
                    let lead = vec![(ink!("{:<26}", words), Role::Key)];
                    let room = width.saturating_sub(LABEL_COLUMNS).max(8);
                    doc.hanging(lead, (becomes, Role::Muted), room, (ink!(""), Role::Muted));
                }
                if let Some(problem) = &self.problem {
                    doc.gap();
                    doc.text(0, &ink!("{} {}", cx.glyphs.down, problem), Role::Error);
                }
                doc.gap();
                doc.text(0, &ink!("or fill in a form:"), Role::Muted);
            }
            AddStage::Finding => {
                doc.text(0, &ink!("{} asking for it ...", cx.glyphs.busy), Role::Busy);
            }
            AddStage::Choosing(_) => {}
            AddStage::Found(found) => found.describe(cx, &mut doc),
        }
        doc
    }

    fn list_rows(&self) -> u16 {
        match self.stage {
            AddStage::Asking | AddStage::Choosing(_) => self.rows.len() as u16,
            AddStage::Finding | AddStage::Found(_) => 0,
        }
    }

    /// Rows of the line that is typed above the text, or of the values below it.
    fn typed_rows(&self) -> (u16, u16) {
        match &self.stage {
            AddStage::Asking => (2, 0),
            AddStage::Found(found) => (0, found.fields.len() as u16 + 1),
            AddStage::Finding | AddStage::Choosing(_) => (0, 0),
        }
    }

    /// The regions within the dialog: text, list, typed values.
    fn regions(&self, inner: Rect) -> [Rect; 3] {
        let (above, below) = self.typed_rows();
        let room = inner.height.saturating_sub(above + below + FOOT_ROWS);
        let text = (self.page.doc.len() as u16).min(room);
        let list = self.list_rows().min(room - text);
        let text = Rect { y: inner.y + above, height: text, ..inner };
        let list = Rect { y: text.bottom(), height: list, ..inner };
        // The first row of what is below is free.
        let values = Rect {
            y: (inner.bottom() + 1).saturating_sub(below + FOOT_ROWS).max(inner.y),
            height: below.saturating_sub(1).min(inner.height),
            ..inner
        };
        [text, list, values]
    }

    fn render_list(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let rows = Rect { width: area.width.saturating_sub(1), ..area };
        // Enter looks for the words, once there are any.
        let is_used = !matches!(self.stage, AddStage::Asking) || self.words.text().is_empty();
        let selection = cx.selection(is_used);
        let templates = server_templates();
        self.list.render(cx, &self.rows[..], (rows, selection), buf, |pen, at| {
            if let AddStage::Choosing(servers) = &self.stage {
                let Some([name, version, about]) = servers.get(at) else { return };
                let wide = (pen.room() / 2).min(44);
                pen.middle(Ink::from(name), wide, cx.style(Role::Text)).skip(1);
                pen.left(Ink::from(version), 10, cx.style(Role::Muted)).skip(1);
                pen.put(Ink::from(about), cx.style(Role::Foreign));
            } else if let Some((title, entry)) = templates.get(at) {
                pen.left(ink!("{}", *title), LABEL_COLUMNS - 2, cx.style(Role::Text));
                let words = entry["args"].as_array().into_iter().flatten();
                let words = words.filter_map(Value::as_str).collect::<Vec<_>>().join(" ");
                let command = entry["command"].as_str().or(entry["url"].as_str());
                let runs = format!("{} {words}", command.unwrap_or_default());
                pen.put(Ink::line(runs.trim()), cx.style(Role::Muted));
            }
        });
        scroll_bar(cx, self.rows.len(), self.list.top(), area, buf);
    }
}

impl ServerCandidate {
    fn name(&self) -> ServerName {
        ServerName::new(self.fields.first().map_or("", |field| field.line.text().trim()))
    }

    /// What was typed for its inputs; empty ones are not answered.
    fn answers(&self, taken: &[ServerName]) -> Result<Vec<(String, Secret)>, String> {
        let name = self.name();
        if name.as_str().is_empty() {
            return Err("give it a name".to_owned());
        }
        if taken.contains(&name) {
            return Err(format!("there is already a server \"{name}\": give it another name"));
        }
        let mut out = Vec::new();
        for field in &self.fields {
            let text = field.line.text();
            if let Some(input) = field.input.as_ref().filter(|_| !text.is_empty()) {
                let value = Secret::new(text);
                input.accept(&value)?;
                out.push((input.id.clone(), value));
            }
        }
        Ok(out)
    }

    /// What it is, and what its start has shown.
    fn describe(&self, cx: &Cx<'_>, doc: &mut Doc) {
        for (label, text) in self.described.iter().filter(|(label, _)| *label != "needs") {
            let role = match *label {
                "careful" | "left out" => Role::Warning,
                "runs" => Role::Text,
                _ => Role::Foreign,
            };
            doc.field(label, Ink::from(text), role);
        }
        doc.gap();
        match &self.trial {
            TrialStage::Untried => {
                let text = "nothing has run yet, and nothing is written";
                doc.text(0, &ink!("{}", text), Role::Muted);
            }
            TrialStage::Trying => {
                doc.text(0, &ink!("{} starting it for a check", cx.glyphs.busy), Role::Busy);
            }
            TrialStage::Failed(why) => {
                doc.text(0, &ink!("{} not checked: {}", cx.glyphs.down, why), Role::Error);
            }
            TrialStage::Tried(report) => describe_trial(cx, report, doc),
        }
    }

    /// Draws the values: a label each, and what is typed.
    fn render_fields(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        for (n, field) in self.fields.iter().enumerate() {
            let y = area.y + n as u16;
            if y >= area.bottom() {
                return;
            }
            let here = n == self.field;
            let row = Rect { y, height: 1, ..area };
            let mut pen = Pen::new(buf, row).ellipsis(cx.glyphs.ellipsis);
            let mark = if here { cx.glyphs.cursor } else { " " };
            pen.put(ink!("{} ", mark), cx.style(Role::Accent));
            let label = field.input.as_ref().map_or_else(
                || ink!("name"),
                |input| {
                    ink!("{}{}", Ink::line(&input.id), if input.is_required { " *" } else { "" })
                },
            );
            let style = cx.style(if here { Role::Heading } else { Role::Muted });
            pen.left(&label, LABEL_COLUMNS - 2, style);
            let line = Rect {
                x: row.x + LABEL_COLUMNS.min(row.width),
                width: row.width.saturating_sub(LABEL_COLUMNS),
                ..row
            };
            field.render(cx, (line, here), buf);
        }
    }
}

impl AddField {
    fn is_secret(&self) -> bool {
        self.input.as_ref().is_some_and(|input| input.is_secret)
    }

    fn render(&self, cx: &Cx<'_>, (line, here): (Rect, bool), buf: &mut Buffer) {
        let sign = if cx.glyphs.is_ascii() { '*' } else { '•' };
        if here {
            let style = cx.style(Role::Input);
            if self.is_secret() {
                self.line.render_masked(line, buf, style, sign);
            } else {
                self.line.render(line, buf, style);
            }
        }
        let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
        let text = self.line.text();
        if text.is_empty() {
            let Some(input) = &self.input else { return };
            let choices = input.choices_in_words();
            let about = if choices.is_empty() { &input.description } else { &choices };
            let stored = if input.is_secret { "; kept in the store, not in the file" } else { "" };
            pen.skip(u16::from(here) * 2).put(ink!("{}{}", about, stored), cx.style(Role::Faint));
        } else if !here {
            let shown = sign.to_string().repeat(text.chars().count());
            let shown = if self.is_secret() { shown.as_str() } else { text };
            pen.put(Ink::line(shown), cx.style(Role::Text));
        }
    }
}

/// What a start has shown: what it offers, and what is wrong.
fn describe_trial(cx: &Cx<'_>, report: &TrialReport, doc: &mut Doc) {
    let (sign, role) =
        if report.is_whole { (cx.glyphs.check, Role::Ok) } else { (cx.glyphs.down, Role::Error) };
    doc.text(0, &ink!("{} {}", sign, &report.words), role);
    for finding in &report.findings {
        let (sign, role) = match finding.severity {
            Severity::Error => (cx.glyphs.down, Role::Error),
            Severity::Warning => (cx.glyphs.warning, Role::Warning),
            Severity::Note => (cx.glyphs.dot, Role::Muted),
        };
        doc.text(2, &ink!("{} {}", sign, &finding.text), role);
        if !finding.help.is_empty() {
            doc.text(4, &ink!("{} {}", cx.glyphs.arrow, &finding.help), Role::Muted);
        }
    }
    for line in &report.last_lines {
        doc.line(vec![(ink!("  stderr  "), Role::Faint), (Ink::from(line), Role::Foreign)]);
    }
}

impl Screen for AddServerDialog {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::AddServer]
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let (above, below) = self.typed_rows();
        let rows = self.page.doc.len() as u16 + self.list_rows() + above + below + FOOT_ROWS;
        let most = whole.height.saturating_sub(2).max(12);
        Some((self.title(), super::reader_width(whole) + 4, (rows + FRAME_ROWS).clamp(12, most)))
    }

    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action) && action != Action::Palette
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        self.typed_line()
    }

    fn typed(&mut self) {
        self.problem = None;
        if let AddStage::Found(found) = &mut self.stage
            && matches!(found.trial, TrialStage::Tried(_) | TrialStage::Failed(_))
        {
            // What was checked is no longer what would be added.
            found.trial = TrialStage::Untried;
        }
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        match action {
            Action::Open => self.go_on(out),
            Action::SaveForm => self.start(false, out),
            Action::Back => match self.stage {
                AddStage::Asking => out.close(),
                AddStage::Finding | AddStage::Choosing(_) | AddStage::Found(_) => self.ask(),
            },
            action => {
                let [text, list, _] = self.regions(ui.area);
                if let AddStage::Found(found) = &mut self.stage {
                    match action {
                        Action::Up => found.field = found.field.saturating_sub(1),
                        Action::Down => {
                            found.field = (found.field + 1).min(found.fields.len() - 1);
                        }
                        action => {
                            if let Some(delta) = action.steps(text.height.max(2) as isize - 1) {
                                self.page.scroll(delta, text.height);
                            }
                        }
                    }
                } else if let Some(delta) = action.steps(list.height.max(2) as isize - 1) {
                    self.list.step(delta, &self.rows[..], usize::from(list.height));
                }
            }
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let [text, list, values] = self.regions(ui.area);
        match gesture {
            Gesture::Scroll { delta, .. } if list.height > 0 => {
                self.list.step(delta, &self.rows[..], usize::from(list.height));
            }
            Gesture::Scroll { delta, .. } => self.page.scroll(delta, text.height),
            Gesture::Click(at) | Gesture::DoubleClick(at) if list.contains(at) => {
                let row = self.list.top() + usize::from(at.y - list.y);
                if row < self.rows.len() {
                    self.list.select_index(row, &self.rows[..]);
                }
                if matches!(gesture, Gesture::DoubleClick(_)) {
                    self.go_on(out);
                }
            }
            Gesture::Click(at) | Gesture::DoubleClick(at) if values.contains(at) => {
                if let AddStage::Found(found) = &mut self.stage {
                    found.field = usize::from(at.y - values.y).min(found.fields.len() - 1);
                }
            }
            _ => {}
        }
    }

    fn receive(&mut self, message: &Message, out: &mut Out) -> bool {
        match message {
            Message::ServerFound(found) => {
                if matches!(self.stage, AddStage::Finding) {
                    self.found(found.clone());
                }
            }
            Message::ServerTried(tried) => {
                let AddStage::Found(found) = &mut self.stage else { return true };
                if !matches!(found.trial, TrialStage::Trying) {
                    return true;
                }
                match tried {
                    Ok(Some(report)) => found.trial = TrialStage::Tried((**report).clone()),
                    Ok(None) => {
                        found.trial = TrialStage::Untried;
                        self.add(out);
                    }
                    Err(why) => found.trial = TrialStage::Failed(why.clone()),
                }
            }
            _ => return false,
        }
        true
    }

    fn decision(&self) -> Option<String> {
        let AddStage::Found(found) = &self.stage else { return None };
        let tried = match &found.trial {
            TrialStage::Tried(_) | TrialStage::Failed(_) => "tried",
            TrialStage::Untried | TrialStage::Trying => "found",
        };
        Some(format!("add {} {tried}", found.server.entry))
    }

    fn decides(&self, action: Action) -> bool {
        matches!(action, Action::Open | Action::SaveForm)
            && matches!(self.stage, AddStage::Found(_))
    }

    fn unsaved(&self) -> Option<&'static str> {
        matches!(self.stage, AddStage::Found(_)).then_some("The server is not added yet.")
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        self.page.doc = self.text(&ui.cx, super::reader_width(ui.area));
        let frame = super::frame_area(self, ui.area).unwrap_or(ui.area);
        let [text, list, _] = self.regions(super::inner(frame));
        self.page.scroll(0, text.height);
        self.list.sync(&self.rows[..], usize::from(list.height));
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let [text, list, values] = self.regions(area);
        if let AddStage::Asking = self.stage {
            let line = Rect { height: area.height.min(1), ..area };
            self.words.render(line, buf, cx.style(Role::Input));
            if self.words.text().is_empty() {
                let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
                pen.skip(2).put("what is it?", cx.style(Role::Faint));
            }
        }
        self.page.render(cx, text, buf);
        if list.height > 0 {
            self.render_list(cx, list, buf);
        }
        let is_tried = if let AddStage::Found(found) = &self.stage {
            found.render_fields(cx, values, buf);
            !matches!(found.trial, TrialStage::Untried)
        } else {
            false
        };
        let is_found = matches!(self.stage, AddStage::Found(_));
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, area.height.saturating_sub(1));
        super::keys(cx, KeyScope::AddServer, &mut pen, |action| match action {
            Action::Open if is_tried => Some("add and trust it"),
            Action::Open if is_found => Some("start it, to check it"),
            Action::Open if self.words.text().is_empty() => Some("choose"),
            Action::Open => Some("look for it"),
            Action::SaveForm if is_found && !is_tried => Some("add it unchecked"),
            Action::SaveForm => None,
            Action::Back if matches!(self.stage, AddStage::Asking) => Some("not now"),
            Action::Back => Some("back"),
            action => Some(action.label()),
        });
    }

    fn in_footer(&self, scope: KeyScope, _action: Action) -> bool {
        scope == KeyScope::Global
    }
}
