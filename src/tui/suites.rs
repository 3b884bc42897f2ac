//! Suites of tests in the dashboard: what it asks of the bench, what the bench tells, and what is
//! known of them. The bench itself is opened from outside, in builds that have one.

use std::path::PathBuf;

use futures::future::BoxFuture;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::prelude::*;
use base::text::json::plain;
use config::McpConfig;
use deck::{SavedCall, SavedTarget};

/// What is asked of the bench.
#[derive(Clone, Debug, PartialEq)]
pub enum SuiteCommand {
    /// Read the file of tests.
    Read,
    /// Run suites.
    Run(SuiteRange),
    /// Stop what runs.
    Stop,
    /// Add steps to the file.
    Add(Vec<NewStep>),
}

/// Which suites run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SuiteRange {
    All,
    /// The one of this name.
    One(String),
    /// Those that failed the last time.
    Failed,
}

/// A call that becomes a step.
#[derive(Clone, Debug, PartialEq)]
pub struct NewStep {
    pub call: SavedCall,
    /// Whether the tool is to report a failure.
    pub is_error: bool,
    /// Names of required fields that are not set.
    pub missing: Vec<SafeText>,
}

impl NewStep {
    /// What the call needs and does not have; empty if nothing.
    pub fn lacks(&self) -> String {
        let missing: Vec<&str> = self.missing.iter().map(SafeText::as_str).collect();
        match missing.as_slice() {
            [] => String::new(),
            names => format!(" without the required {}", names.join(", ")),
        }
    }

    /// The call and its arguments, on one line.
    pub fn words(&self) -> SafeText {
        /// Longest part of the arguments that is named.
        const MAX_NAMED_CHARS: usize = 60;
        let target = match &self.call.target {
            SavedTarget::Tool { tool } => tool,
            SavedTarget::Prompt { prompt } => prompt,
            SavedTarget::Resource { resource, .. } => return SafeText::line(resource),
        };
        if self.call.arguments.is_empty() {
            return SafeText::line(&format!("{target} without arguments"));
        }
        let arguments = SafeText::cut(&plain(&self.call.arguments_value()), MAX_NAMED_CHARS);
        SafeText::line(&format!("{target} {arguments}"))
    }
}

/// A command, with the servers that it may start.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteOrder {
    pub config: Arc<McpConfig>,
    pub command: SuiteCommand,
}

/// What the bench tells.
#[derive(Clone, Debug, PartialEq)]
pub enum SuiteNews {
    /// The suites of this file.
    Read(PathBuf, Vec<SuiteView>),
    /// Why the file cannot be used, or is not there.
    Unread(PathBuf, SafeText),
    /// A run of these suites begins.
    Began(Vec<String>),
    /// A suite begins: its servers are started.
    SuiteBegan(String),
    /// A step of a suite begins.
    StepBegan(StepPlace),
    /// A step has ended.
    StepEnded(StepPlace, Box<SuiteStep>),
    /// A suite has ended, for this reason if it could not be played.
    SuiteEnded(String, SuiteState, Duration, Option<SafeText>),
    /// The run has ended; what it reached.
    Ended(Arc<[CoverageView]>),
    /// The run could not begin, or broke off.
    RunFailed(SafeText),
    /// Something was done.
    Done(SafeText),
    /// A command other than a run was not carried out.
    Failed(SafeText),
}

/// Where a step is: suite, part and index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlace {
    pub suite: String,
    /// `setup`, `steps` or `teardown`.
    pub part: &'static str,
    pub index: usize,
}

named! {
    /// How far a suite or a step is.
    #[derive(Default)]
    pub enum SuiteState {
        /// It was not run since the file was read.
        #[default]
        Idle = "not run",
        /// It will run.
        Waiting = "waiting",
        Running = "running",
        Passed = "passed",
        /// It passed when it was tried again.
        Flaky = "flaky",
        Failed = "failed",
        Skipped = "skipped",
        /// It could not be played to its end.
        Incomplete = "incomplete",
    }
}

impl SuiteState {
    /// Whether it is still to end.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Waiting | Self::Running)
    }
}

/// A suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteView {
    pub name: String,
    pub state: SuiteState,
    pub took: Duration,
    /// Why it could not be played, or is left out.
    pub reason: Option<SafeText>,
    pub steps: Vec<SuiteStep>,
}

/// A step of a suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteStep {
    /// `setup`, `steps` or `teardown`.
    pub part: &'static str,
    pub index: usize,
    pub title: SafeText,
    /// What it does: `tool notes.create`.
    pub target: SafeText,
    pub state: SuiteState,
    pub attempts: u32,
    pub took: Duration,
    /// What is wrong, or why it was skipped.
    pub problems: Vec<SafeText>,
    /// Its line in the file.
    pub line: u32,
    /// The call that it made last, or would make.
    pub call: Option<SavedCall>,
}

/// What the last run reached of a tool, or of all prompts and resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoverageView {
    /// The tool, or what is counted.
    pub name: SafeText,
    /// How often it was called, and how often that failed; only of tools.
    pub calls: Option<(usize, usize)>,
    pub parts: Vec<CoveredView>,
}

/// A part of what could be reached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CoveredView {
    pub what: &'static str,
    pub reached: usize,
    pub total: usize,
    /// Some of what was not.
    pub missed: SafeText,
}

/// Everything that is known of the suites.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownSuites {
    /// The file of tests, once it was looked for.
    pub file: Option<PathBuf>,
    /// Why it cannot be used.
    pub problem: Option<SafeText>,
    /// Those of the file as it was last read.
    pub suites: Vec<SuiteView>,
    pub coverage: Arc<[CoverageView]>,
    /// Whether suites run.
    pub running: bool,
}

impl KnownSuites {
    /// Takes what the bench tells of suites; what is for the user to read is not kept.
    pub fn take(&mut self, news: SuiteNews) {
        match news {
            SuiteNews::Read(file, suites) => {
                (self.file, self.problem) = (Some(file), None);
                let before = std::mem::take(&mut self.suites);
                self.suites = suites;
                for suite in &mut self.suites {
                    suite.take_results(&before);
                }
            }
            SuiteNews::Unread(file, why) => {
                // What the last run found stays beside what is wrong with the file now.
                if self.file.as_ref() != Some(&file) {
                    self.suites.clear();
                }
                (self.file, self.problem) = (Some(file), Some(why));
            }
            SuiteNews::Began(names) => {
                self.running = true;
                for suite in self.suites.iter_mut().filter(|it| names.contains(&it.name)) {
                    suite.state = SuiteState::Waiting;
                    suite.reason = None;
                    suite.steps.iter_mut().for_each(|step| {
                        (step.state, step.problems) = (SuiteState::Waiting, Vec::new());
                    });
                }
            }
            SuiteNews::SuiteBegan(name) => {
                if let Some(suite) = self.suite_mut(&name) {
                    suite.state = SuiteState::Running;
                }
            }
            SuiteNews::StepBegan(place) => {
                if let Some(step) = self.step_mut(&place) {
                    step.state = SuiteState::Running;
                }
            }
            SuiteNews::StepEnded(place, now) => {
                if let Some(step) = self.step_mut(&place) {
                    let call = now.call.clone().or_else(|| step.call.take());
                    *step = SuiteStep { call, ..*now };
                }
            }
            SuiteNews::SuiteEnded(name, state, took, reason) => {
                if let Some(suite) = self.suite_mut(&name) {
                    (suite.state, suite.took, suite.reason) = (state, took, reason);
                    suite.close();
                }
            }
            SuiteNews::Ended(coverage) => {
                self.coverage = coverage;
                self.end_run();
            }
            SuiteNews::RunFailed(_) => self.end_run(),
            SuiteNews::Done(_) | SuiteNews::Failed(_) => {}
        }
    }

    /// Why the file does not say any more what the suites are that it had; `None` if it does, or
    /// there are none.
    pub fn outdated(&self) -> Option<&SafeText> {
        self.problem.as_ref().filter(|_| !self.suites.is_empty())
    }

    fn end_run(&mut self) {
        self.running = false;
        for suite in self.suites.iter_mut().filter(|suite| suite.state.is_open()) {
            suite.state = SuiteState::Incomplete;
            suite.close();
        }
    }

    fn suite_mut(&mut self, name: &str) -> Option<&mut SuiteView> {
        self.suites.iter_mut().find(|suite| suite.name == name)
    }

    /// A step, if it is still there.
    pub fn step(&self, place: &StepPlace) -> Option<&SuiteStep> {
        let suite = self.suites.iter().find(|suite| suite.name == place.suite)?;
        suite.steps.iter().find(|step| step.part == place.part && step.index == place.index)
    }

    fn step_mut(&mut self, place: &StepPlace) -> Option<&mut SuiteStep> {
        let steps = &mut self.suite_mut(&place.suite)?.steps;
        steps.iter_mut().find(|step| step.part == place.part && step.index == place.index)
    }

    /// How many steps are in this state.
    pub fn many(&self, state: SuiteState) -> usize {
        let steps = self.suites.iter().flat_map(|suite| &suite.steps);
        steps.filter(|step| step.state == state).count()
    }
}

impl SuiteView {
    /// Takes over how the same steps ended before the file was read again.
    fn take_results(&mut self, before: &[Self]) {
        let Some(old) = before.iter().find(|old| old.name == self.name) else { return };
        (self.state, self.took) = (old.state, old.took);
        self.reason = self.reason.take().or_else(|| old.reason.clone());
        for step in &mut self.steps {
            let same = old.steps.iter().find(|it| {
                (it.part, it.index, &it.title, &it.target)
                    == (step.part, step.index, &step.title, &step.target)
            });
            if let Some(same) = same.filter(|same| same.state != SuiteState::Idle) {
                *step = SuiteStep { line: step.line, ..same.clone() };
            }
        }
    }

    /// What has not begun will not.
    fn close(&mut self) {
        for step in self.steps.iter_mut().filter(|step| step.state.is_open()) {
            step.state = SuiteState::Idle;
        }
    }
}

/// Carries out commands until they are done, or the token is cancelled.
pub type OpenSuites = Arc<
    dyn Fn(SuiteOrder, mpsc::Sender<SuiteNews>, CancellationToken) -> BoxFuture<'static, ()>
        + Send
        + Sync,
>;
