//! The suites of `mcp.tests.json`: their steps with live states, what is wrong with a step, and what
//! the last run reached.

use std::collections::HashSet;

use crate::effect::Effect;
use crate::filter::contains;
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::{Availability, Cx, Gesture, Out, Pane, Ui, when};
use crate::prelude::*;
use crate::suites::{
    CoverageView, KnownSuites, StepPlace, SuiteCommand, SuiteRange, SuiteState, SuiteStep,
    SuiteView,
};
use crate::widget::{Browser, Doc, Pen};

/// A row: a suite, or one of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
enum SuiteRow {
    Suite(String),
    Step(StepPlace),
}

impl SuiteRow {
    fn suite(&self) -> &str {
        match self {
            Self::Suite(name) => name,
            Self::Step(place) => &place.suite,
        }
    }
}

#[derive(Default)]
pub struct SuitesPane {
    browser: Browser<SuiteRow>,
    /// Suites whose steps are hidden.
    folded: HashSet<String>,
    /// Whether the detail is what the last run reached.
    covers: bool,
    total: usize,
}

impl SuitesPane {
    fn open(&mut self, ui: Ui<'_>, out: &mut Out) {
        match self.browser.selected() {
            None => {}
            Some(SuiteRow::Suite(_)) => self.fold(),
            Some(SuiteRow::Step(place)) => {
                let call = ui.model.suites.step(place).and_then(|step| step.call.clone());
                match call {
                    Some(call) => out.intend(Intent::FillCall(Box::new(call))),
                    None => out.warn(ink!("this step makes no call")),
                }
            }
        }
    }

    fn fold(&mut self) {
        let Some(row) = self.browser.selected() else { return };
        let name = row.suite().to_owned();
        if !self.folded.remove(&name) {
            self.browser.list.select(SuiteRow::Suite(name.clone()));
            self.folded.insert(name);
        }
    }

    fn edit(&self, model: &Model, out: &mut Out) {
        let Some(file) = model.suites.file.clone() else { return };
        let line = match self.browser.selected() {
            Some(SuiteRow::Step(place)) => model.suites.step(place).map(|step| step.line),
            Some(SuiteRow::Suite(name)) => {
                let suite = model.suites.suites.iter().find(|suite| suite.name == *name);
                suite.and_then(|suite| suite.steps.first()).map(|step| step.line)
            }
            None => None,
        };
        out.effect(Effect::EditFile(file, line.unwrap_or(1).max(1)));
    }

    fn run(range: SuiteRange, out: &mut Out) {
        out.intend(Intent::Suites(SuiteCommand::Run(range)));
    }
}

impl Pane for SuitesPane {
    fn scopes(&self) -> &'static [KeyScope] {
        &[KeyScope::Tests, KeyScope::List]
    }

    fn sync(&mut self, ui: Ui<'_>) {
        let needle = self.browser.filter.text().to_ascii_lowercase();
        let suites = &ui.model.suites;
        let mut rows = Vec::new();
        for suite in &suites.suites {
            let named = contains(&suite.name, &needle);
            let fits = |step: &&SuiteStep| {
                named
                    || contains(&step.title, &needle)
                    || contains(&step.target, &needle)
                    || contains(step.state.name(), &needle)
            };
            let steps: Vec<&SuiteStep> = suite.steps.iter().filter(fits).collect();
            if !named && steps.is_empty() {
                continue;
            }
            rows.push(SuiteRow::Suite(suite.name.clone()));
            // What is looked for is not hidden.
            if needle.is_empty() && self.folded.contains(&suite.name) {
                continue;
            }
            rows.extend(steps.into_iter().map(|step| {
                let (suite, part, index) = (suite.name.clone(), step.part, step.index);
                SuiteRow::Step(StepPlace { suite, part, index })
            }));
        }
        self.total = suites.suites.len();
        self.browser.set_rows(rows, ui.area);
        let covers = self.covers;
        self.browser.describe(ui.area, |row, doc| {
            if let Some(problem) = suites.outdated() {
                doc.text(0, problem, Role::Error).gap();
            }
            if covers {
                return coverage(&suites.coverage, doc);
            }
            match row {
                Some(SuiteRow::Suite(name)) => {
                    let suite = suites.suites.iter().find(|suite| suite.name == *name);
                    if let Some(suite) = suite {
                        about_suite(suite, doc);
                    }
                }
                Some(SuiteRow::Step(place)) => {
                    if let Some(step) = suites.step(place) {
                        about_step(step, doc);
                    }
                }
                None => {}
            }
        });
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool {
        match action {
            Action::Open => self.open(ui, out),
            Action::Fold => self.fold(),
            Action::RunSuite => {
                let name = self.browser.selected().map(|row| row.suite().to_owned());
                let range = name.map_or(SuiteRange::All, SuiteRange::One);
                Self::run(range, out);
            }
            Action::RunSuites => Self::run(SuiteRange::All, out),
            Action::RunFailed => Self::run(SuiteRange::Failed, out),
            Action::CancelCall => out.intend(Intent::Suites(SuiteCommand::Stop)),
            Action::Coverage => {
                self.covers = !self.covers;
                if self.covers {
                    self.browser.split.open(ui.area);
                }
            }
            Action::EditFile => self.edit(ui.model, out),
            Action::Copy => match self.browser.selected() {
                Some(SuiteRow::Step(place)) => {
                    let step = ui.model.suites.step(place);
                    let lines = step.map(|step| {
                        let first = format!("{}: {}", step.title, step.state.name());
                        let problems = step.problems.iter().map(ToString::to_string);
                        std::iter::once(first).chain(problems).collect::<Vec<_>>().join("\n")
                    });
                    out.copy(lines.unwrap_or_default());
                }
                Some(SuiteRow::Suite(name)) => out.copy(name.clone()),
                None => {}
            },
            Action::CopyAll | Action::Save => return false,
            _ => return self.browser.act(action, ui.area),
        }
        true
    }

    fn availability(&self, action: Action, model: &Model) -> Option<Availability> {
        let suites = &model.suites;
        let any = !suites.suites.is_empty();
        let can_run = |any: bool| {
            when(any, "there are no suites: `mcpdeck test --init` writes some")?;
            when(!suites.running, "suites are running; {cancel-call} stops them")
        };
        match action {
            Action::RunSuite | Action::RunFailed => Some(can_run(any)),
            // A file that could not be read may have been repaired: the run reads it again.
            Action::RunSuites => Some(can_run(any || suites.problem.is_some())),
            Action::CancelCall => Some(when(suites.running, "no suite is running")),
            Action::Coverage => Some(when(!suites.coverage.is_empty(), "run the suites first")),
            Action::EditFile => Some(when(suites.file.is_some(), "there is no file of tests")),
            Action::Open | Action::Fold | Action::Copy => {
                Some(when(!self.browser.rows.is_empty(), "nothing is selected"))
            }
            Action::CopyAll | Action::Save => Some(Err("not available here")),
            _ => None,
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        if self.browser.mouse(gesture, ui.area) {
            self.act(Action::Open, ui, out);
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let suites = &cx.model.suites;
        self.browser.render_frame(cx, &summary(suites), self.total, area, buf);
        let regions = self.browser.regions(area);
        let name = regions.list.width.saturating_sub(STATE_COLUMNS + TOOK_COLUMNS + 3);
        let faint = cx.style(Role::Faint);
        let mut pen = Pen::new(buf, regions.columns).ellipsis(cx.glyphs.ellipsis);
        if let Some(problem) = suites.outdated() {
            pen.skip(1).put(problem, cx.style(Role::Error));
        } else {
            pen.skip(1).left("suite", name, faint).skip(1).left("state", STATE_COLUMNS, faint);
            pen.right("took", TOOK_COLUMNS, faint);
        }
        self.browser.render_rows(cx, area, buf, |pen, row| {
            let (text, style, state, took) = match row {
                SuiteRow::Suite(key) => {
                    let suite = suites.suites.iter().find(|suite| suite.name == *key);
                    let Some(suite) = suite else { return };
                    let folded = self.folded.contains(key);
                    let sign = if folded { cx.glyphs.closed } else { cx.glyphs.open };
                    let text = ink!("{} {}", sign, Ink::line(key));
                    (text, cx.style(Role::Heading), suite.state, suite.took)
                }
                SuiteRow::Step(place) => {
                    let Some(step) = suites.step(place) else { return };
                    let part = if step.part == "steps" { "" } else { step.part };
                    let gap = if part.is_empty() { "" } else { ": " };
                    let text = ink!("    {}{}{}", part, gap, &step.title);
                    (text, cx.style(Role::Text), step.state, step.took)
                }
            };
            let (sign, role) = shown(cx, state);
            pen.left(text, name, style).skip(1);
            pen.left(ink!("{} {}", sign, state.name()), STATE_COLUMNS, cx.style(role));
            let ended = !state.is_open() && state != SuiteState::Idle && !took.is_zero();
            let took = if ended { ink!("{}", Dur(took)) } else { ink!("") };
            pen.right(took, TOOK_COLUMNS, cx.style(Role::Muted));
        });
        let text = nothing(suites);
        crate::widget::render_empty(&self.browser, cx, (&text, self.total), area, buf);
    }

    of_browser!();
}

/// Width of the column of states: a sign and the longest word.
const STATE_COLUMNS: u16 = 13;
/// Width of the column of durations.
const TOOK_COLUMNS: u16 = 8;

/// The sign of a state, and its role.
fn shown(cx: &Cx<'_>, state: SuiteState) -> (&'static str, Role) {
    match state {
        SuiteState::Idle => (cx.glyphs.off, Role::Faint),
        SuiteState::Waiting => (cx.glyphs.waiting, Role::Muted),
        SuiteState::Running => (cx.glyphs.busy, Role::Busy),
        SuiteState::Passed => (cx.glyphs.check, Role::Ok),
        SuiteState::Flaky | SuiteState::Incomplete => (cx.glyphs.warning, Role::Warning),
        SuiteState::Failed => (cx.glyphs.down, Role::Error),
        SuiteState::Skipped => (cx.glyphs.off, Role::Muted),
    }
}

/// Why there is no row.
fn nothing(suites: &KnownSuites) -> Ink {
    match (&suites.problem, &suites.file) {
        (Some(problem), _) => Ink::from(problem),
        (None, Some(_)) => ink!("The file of tests has no suites"),
        (None, None) => {
            ink!("Suites of mcp.tests.json beside the configuration are shown here")
        }
    }
}

fn summary(suites: &KnownSuites) -> Ink {
    let steps: usize = suites.suites.iter().map(|suite| suite.steps.len()).sum();
    let mut text = ink!("{}, {}", count(suites.suites.len(), "suite"), count(steps, "step"));
    let states = [
        SuiteState::Running,
        SuiteState::Passed,
        SuiteState::Failed,
        SuiteState::Flaky,
        SuiteState::Skipped,
    ];
    for state in states {
        let many = suites.many(state);
        if many > 0 {
            text.push(ink!("  {} {}", many, state.name()));
        }
    }
    text
}

fn about_suite(suite: &SuiteView, doc: &mut Doc) {
    doc.heading(Ink::line(&suite.name)).gap();
    doc.field("state", suite.state.name(), role(suite.state));
    if !suite.took.is_zero() {
        doc.field("took", ink!("{}", Dur(suite.took)), Role::Text);
    }
    doc.field_if("reason", suite.reason.as_ref().map(Ink::from), Role::Warning);
    doc.field("steps", ink!("{}", suite.steps.len()), Role::Text);
    let red = suite.steps.iter().filter(|step| step.state == SuiteState::Failed);
    for step in red {
        doc.heading(Ink::from(&step.title));
        for problem in &step.problems {
            doc.text(0, problem, Role::Error);
        }
    }
}

/// The role of a state in the detail.
const fn role(state: SuiteState) -> Role {
    match state {
        SuiteState::Failed => Role::Error,
        SuiteState::Flaky | SuiteState::Incomplete => Role::Warning,
        SuiteState::Passed => Role::Ok,
        SuiteState::Running => Role::Busy,
        SuiteState::Idle | SuiteState::Waiting | SuiteState::Skipped => Role::Muted,
    }
}

fn about_step(step: &SuiteStep, doc: &mut Doc) {
    doc.heading(Ink::from(&step.title)).gap();
    doc.field("does", Ink::from(&step.target), Role::Text);
    doc.field("state", step.state.name(), role(step.state));
    if step.attempts > 1 {
        doc.field("attempts", ink!("{}", step.attempts), Role::Text);
    }
    if !step.took.is_zero() {
        doc.field("took", ink!("{}", Dur(step.took)), Role::Text);
    }
    if step.line > 0 {
        doc.field("line", ink!("{}", step.line), Role::Text);
    }
    if !step.problems.is_empty() {
        doc.gap();
    }
    for problem in &step.problems {
        doc.text(0, problem, role(step.state));
    }
    if let Some(call) = step.call.as_ref().filter(|call| !call.arguments.is_empty()) {
        doc.heading("arguments");
        doc.json(0, &call.arguments_value());
    }
}

fn coverage(reached: &[CoverageView], doc: &mut Doc) {
    doc.heading("what the last run reached");
    for one in reached {
        doc.gap();
        let called = one.calls.is_some_and(|(calls, _)| calls > 0);
        let role = if called || one.calls.is_none() { Role::Text } else { Role::Warning };
        let calls = one.calls.map_or_else(Ink::default, |(calls, errors)| match errors {
            0 => ink!("  {}", count(calls, "call")),
            errors => ink!("  {}, {}", count(calls, "call"), count(errors, "error")),
        });
        doc.line(vec![(Ink::from(&one.name), role), (calls, Role::Muted)]);
        for part in one.parts.iter().filter(|part| part.total > 0) {
            let whole = part.reached == part.total;
            let role = if whole { Role::Ok } else { Role::Text };
            doc.field(part.what, ink!("{}/{}", part.reached, part.total), role);
            if called && !part.missed.is_empty() {
                doc.text(2, &ink!("not reached: {}", &part.missed), Role::Muted);
            }
        }
    }
}
