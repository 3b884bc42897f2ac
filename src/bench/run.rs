//! A run: suites side by side, the steps of each in order.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use serde_json::Value;
use tokio::time::Instant;

use crate::coverage::MadeCall;
use crate::file::{LoadedTests, ServerUse, StepExpectation, StepTarget, TestStep, TestSuite};
use crate::fuzz::{
    DEFAULT_CALL_TIMEOUT, DEFAULT_CASES, DEFAULT_SEED, FuzzFinding, FuzzPlan, folder_of, fuzz,
};
use crate::judge::{judge_error, judge_outcome, settled};
use crate::outcome::{BenchReport, StepReport, StepVerdict, SuiteReport};
use crate::snapshot::Snapshots;
use crate::stage::{BenchSource, BenchStage, options};
use crate::value::{StepValues, resolved};
use base::text::json::WrittenValue;
use base::text::nearest;
use base::{LogRecord, LogSource, Redactor, ServerName};
use check::expect::{lack, value_of};
use check::run::CheckSignals;
use check::subject::brief;
use check::{CheckVerdict, Severity};
use config::error::Error;
use deck::{SAVED_CALLS_FILE, SavedCalls, SavedTarget};
use host::{CallOptions, CallOutcome, Host, ServerView, Validation};
use protocol::{Capabilities, Direction, MessageKind, TrafficRecord};

/// How many suites run at once by default.
const DEFAULT_PARALLEL_SUITES: usize = 4;
/// How long a list may take to be announced as changed.
const LIST_CHANGED_TIMEOUT: Duration = Duration::from_secs(2);
/// How long lines of stderr may come after the answer.
const STDERR_TIMEOUT: Duration = Duration::from_millis(200);
/// How the methods of notifications begin.
const NOTIFICATION_PREFIX: &str = "notifications/";
/// How long the teardown of a suite may go on after the run was interrupted.
pub const TEARDOWN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a notification is waited for by default.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(5);

/// Which suites run.
#[derive(Clone, Debug, Default)]
pub struct SuiteChoice {
    /// Names or globs; all when empty.
    pub names: Vec<String>,
    /// Tags, one of which a suite must have; all when empty.
    pub tags: Vec<String>,
    /// Only these, those that failed before.
    pub only: Option<HashSet<String>>,
}

impl SuiteChoice {
    /// Whether a suite is chosen.
    pub fn takes(&self, name: &str, suite: &TestSuite) -> bool {
        let named = self.names.is_empty() || self.names.iter().any(|glob| names_suite(glob, name));
        let tagged = self.tags.is_empty() || self.tags.iter().any(|tag| suite.tags.contains(tag));
        named && tagged && self.only.as_ref().is_none_or(|only| only.contains(name))
    }
}

/// Whether a text names a suite: by its name, or by a glob that matches it.
pub fn names_suite(text: &str, suite: &str) -> bool {
    let glob = || globset::Glob::new(text);
    text == suite || glob().is_ok_and(|glob| glob.compile_matcher().is_match(suite))
}

/// Everything a run needs.
pub struct BenchPlan {
    /// The servers.
    pub source: BenchSource,
    /// The tests.
    pub tests: LoadedTests,
    /// Which suites run.
    pub choice: SuiteChoice,
    /// The saved calls.
    pub saved: SavedCalls,
    /// The kept values.
    pub snapshots: Snapshots,
}

/// The outcome of a run.
pub struct BenchOutcome {
    /// The report.
    pub report: BenchReport,
    /// Every call that was made.
    pub calls: Vec<MadeCall>,
    /// What the servers of the suites offer.
    pub offers: BTreeMap<ServerName, Arc<Capabilities>>,
    /// What is wrong with the policy.
    pub notices: Vec<String>,
    /// The file of snapshots, when one was written.
    pub written: Option<PathBuf>,
    /// Whether the run was interrupted.
    pub interrupted: bool,
}

/// What happens in a run.
#[derive(Clone, Copy, Debug)]
pub enum BenchEvent<'a> {
    /// The servers of a suite are started, if they do not run yet.
    SuiteBegan(&'a str),
    /// A step of a suite begins: its part, and its index there.
    StepBegan(&'a str, &'static str, usize),
    /// A step of a suite has ended, with the call it made, if it made one.
    StepEnded(&'a str, &'a StepReport, Option<&'a MadeCall>),
    /// A suite was interrupted, and its teardown begins: for [`TEARDOWN_TIMEOUT`] at most.
    TeardownBegan(&'a str),
    /// A suite has ended.
    SuiteEnded(&'a SuiteReport),
}

/// Hears what happens in a run.
pub type ShowEvent<'a> = &'a (dyn Fn(BenchEvent<'_>) + Sync);

/// Runs the chosen suites; `show` hears of it.
///
/// # Errors
/// When the snapshots cannot be written.
pub async fn run(
    plan: &BenchPlan,
    signals: &CheckSignals,
    show: ShowEvent<'_>,
) -> Result<BenchOutcome, String> {
    let began = Instant::now();
    let mut report = BenchReport::new(Some(&plan.tests.path)).begun();
    let file = &plan.tests.file;
    let chosen: Vec<(usize, &String, &TestSuite)> = file
        .suites
        .iter()
        .enumerate()
        .filter(|(_, (name, suite))| plan.choice.takes(name, suite))
        .map(|(index, (name, suite))| (index, name, suite))
        .collect();
    let is_shared =
        |suite: &TestSuite| suite.server.or(file.server).unwrap_or_default() == ServerUse::Shared;
    let (shared, fresh): (Vec<_>, Vec<_>) =
        chosen.into_iter().partition(|(_, _, suite)| is_shared(suite));
    let most = file.parallel.unwrap_or(DEFAULT_PARALLEL_SUITES).max(1);
    let mut played: Vec<PlayedSuite> = Vec::new();
    let work = async {
        let one = async |(index, name, suite): (usize, &String, &TestSuite)| {
            let mut all = alone(plan, &[(index, name, suite)], signals, show).await;
            all.pop()
        };
        let mut ended = stream::iter(fresh).map(one).buffer_unordered(most);
        while let Some(one) = ended.next().await {
            played.extend(one);
        }
        if !shared.is_empty() {
            played.extend(alone(plan, &shared, signals, show).await);
        }
    };
    // A suite notices the signal itself and stops its servers.
    work.await;
    played.sort_by_key(|one| one.index);
    let (mut calls, mut notices, mut offers) = (Vec::new(), Vec::new(), BTreeMap::new());
    for one in played {
        report.suites.push(one.report);
        calls.extend(one.calls);
        offers.extend(one.offers);
        for notice in one.notices {
            if !notices.contains(&notice) {
                notices.push(notice);
            }
        }
    }
    report.took = began.elapsed();
    report.settle();
    let interrupted = signals.stop.is_cancelled();
    if interrupted {
        report.verdict = report.verdict.max(CheckVerdict::Incomplete);
        report.exit_code = check::run::INTERRUPTED_EXIT_CODE;
    }
    let written = if interrupted { None } else { plan.snapshots.save()? };
    Ok(BenchOutcome { report, calls, offers, notices, written, interrupted })
}

/// A suite that was played.
struct PlayedSuite {
    index: usize,
    report: SuiteReport,
    calls: Vec<MadeCall>,
    offers: BTreeMap<ServerName, Arc<Capabilities>>,
    notices: Vec<String>,
}

impl PlayedSuite {
    fn new(index: usize, name: &str) -> Self {
        let report = SuiteReport {
            name: name.to_owned(),
            verdict: CheckVerdict::Ok,
            took: Duration::ZERO,
            reason: None,
            steps: Vec::new(),
        };
        Self { index, report, calls: Vec::new(), offers: BTreeMap::new(), notices: Vec::new() }
    }
}

impl PlayedSuite {
    /// Adds the steps of these parts that were not made, because the run was interrupted.
    fn cut_short(&mut self, plan: &BenchPlan, name: &str, parts: &[SuitePart<'_>]) {
        let mut why = "interrupted while it was made";
        for &(part, steps) in parts {
            for (index, step) in steps.iter().enumerate() {
                if self.report.steps.iter().any(|it| it.part == part && it.index == index) {
                    continue;
                }
                let mut report = unmade(plan, name, (part, index), step);
                report.problems.push(why.to_owned());
                self.report.steps.push(report);
                why = "interrupted before it was made";
            }
        }
        self.report.reason = Some("interrupted".to_owned());
        self.report.verdict = CheckVerdict::Incomplete;
    }
}

/// The report of a step that is not made yet.
fn unmade(
    plan: &BenchPlan,
    suite: &str,
    (part, index): (&'static str, usize),
    step: &TestStep,
) -> StepReport {
    StepReport {
        part,
        index,
        name: step.title(),
        target: step.target().map(StepTarget::title).unwrap_or_default(),
        verdict: StepVerdict::Skipped,
        attempts: 0,
        took: Duration::ZERO,
        problems: Vec::new(),
        at: Some(plan.tests.position(suite, part, index)),
    }
}

/// Plays suites one after the other on servers of their own.
async fn alone(
    plan: &BenchPlan,
    suites: &[(usize, &String, &TestSuite)],
    signals: &CheckSignals,
    show: ShowEvent<'_>,
) -> Vec<PlayedSuite> {
    let mut all: Vec<PlayedSuite> = Vec::new();
    let mut stage: Option<Result<BenchStage, Error>> = None;
    let started: Vec<&TestSuite> =
        suites.iter().map(|(_, _, suite)| *suite).filter(|suite| suite.skip.is_none()).collect();
    for (index, name, suite) in suites {
        let mut played = PlayedSuite::new(*index, name);
        let began = Instant::now();
        show(BenchEvent::SuiteBegan(name));
        if let Some(reason) = &suite.skip {
            played.report.reason = Some(reason.clone());
        } else if signals.stop.is_cancelled() {
            played.report.reason = Some("interrupted before it began".to_owned());
            played.report.verdict = CheckVerdict::Incomplete;
        } else {
            if stage.is_none() {
                let source = plan.source.narrowed(&servers(plan, &started));
                let opened = tokio::select! {
                    opened = BenchStage::open(source) => Some(opened),
                    () = signals.stop.cancelled() => None,
                };
                stage = opened;
            }
            match &stage {
                Some(Ok(stage)) => {
                    play(plan, stage, (name, suite), &mut played, (signals, show)).await;
                    played.notices = stage.notices();
                    let view = stage.host().snapshot();
                    let offered = |server: &Arc<ServerView>| Arc::clone(&server.capabilities);
                    let all =
                        view.servers.iter().map(|(name, server)| (name.clone(), offered(server)));
                    played.offers = all.collect();
                }
                Some(Err(error)) => {
                    played.report.reason = Some(error.message.clone());
                    played.report.verdict = CheckVerdict::Incomplete;
                }
                None => {
                    played.report.reason = Some("interrupted while it was starting".to_owned());
                    played.report.verdict = CheckVerdict::Incomplete;
                }
            }
        }
        played.report.took = began.elapsed();
        played.report.settle();
        show(BenchEvent::SuiteEnded(&played.report));
        all.push(played);
    }
    if let Some(Ok(stage)) = stage {
        stage.close(signals).await;
    }
    all
}

/// The chosen suites that work with one of these servers, as far as that can be told.
pub fn touched(plan: &BenchPlan, changed: &[ServerName]) -> HashSet<String> {
    let suites = plan.tests.file.suites.iter();
    let chosen = suites.filter(|(name, suite)| plan.choice.takes(name, suite));
    let touched = chosen.filter(|(_, suite)| {
        let names = servers(plan, &[suite]);
        let names = plan.source.narrowed(&names).config.servers;
        names.keys().any(|name| changed.contains(name))
    });
    touched.map(|(name, _)| name.clone()).collect()
}

/// The servers that suites name; none when one of them could be answered by any server.
fn servers(plan: &BenchPlan, suites: &[&TestSuite]) -> Vec<ServerName> {
    let mut names: Vec<ServerName> = Vec::new();
    let steps = suites.iter().flat_map(|suite| suite.parts()).flat_map(|(_, steps)| steps);
    for step in steps {
        let owner = match step.target() {
            Ok(StepTarget::Tool(name) | StepTarget::Prompt(name)) => plan.source.owner(name),
            Ok(StepTarget::Resource(_) | StepTarget::Wait(_)) => {
                step.server.as_deref().map(ServerName::new)
            }
            Ok(StepTarget::Saved(name)) => match plan.saved.get(name).map(|call| &call.target) {
                Ok(SavedTarget::Tool { tool: name } | SavedTarget::Prompt { prompt: name }) => {
                    plan.source.owner(name)
                }
                Ok(SavedTarget::Resource { server, .. }) => server.as_deref().map(ServerName::new),
                Err(_) => None,
            },
            // Copies of their own are started for these.
            Ok(StepTarget::Fuzz(_)) => continue,
            Err(_) => None,
        };
        let known = owner.filter(|name| plan.source.config.servers.contains_key(name));
        match known {
            Some(name) if !names.contains(&name) => names.push(name),
            Some(_) => {}
            None => return Vec::new(),
        }
    }
    names
}

/// Plays one suite. Interrupted, it still does what its teardown says.
async fn play(
    plan: &BenchPlan,
    stage: &BenchStage,
    (name, suite): (&str, &TestSuite),
    played: &mut PlayedSuite,
    (signals, show): (&CheckSignals, ShowEvent<'_>),
) {
    // What other suites work with concerns those.
    let names = servers(plan, &[suite]);
    let own = plan.source.narrowed(&names).config.servers;
    let failed = stage.failed().into_iter().find(|(server, _)| own.contains_key(server));
    if let Some((server, reason)) = failed {
        let shown = brief(server.as_str(), 60);
        played.report.reason = Some(format!("the server `{shown}` is not ready: {reason}"));
        played.report.verdict = CheckVerdict::Incomplete;
        return;
    }
    let mut player = SuitePlayer {
        plan,
        stage,
        name,
        suite,
        values: StepValues::new(),
        cursor: stage.host().traffic().span().end,
    };
    let (teardown, main): (Vec<SuitePart<'_>>, Vec<SuitePart<'_>>) =
        suite.parts().into_iter().partition(|(part, _)| *part == "teardown");
    let playing = player.parts(&main, played, show);
    if signals.stop.run_until_cancelled(playing).await.is_none() {
        played.cut_short(plan, name, &main);
        if teardown.iter().any(|(_, steps)| !steps.is_empty()) {
            show(BenchEvent::TeardownBegan(name));
        }
    }
    let tidying = player.parts(&teardown, played, show);
    if beyond_stop(signals, tidying).await.is_none() {
        played.cut_short(plan, name, &teardown);
    }
}

/// The name of a part of a suite, and its steps.
type SuitePart<'a> = (&'static str, &'a [TestStep]);

/// Does work that the first signal does not end at once; `None` when it was ended, by the second
/// signal or because it took too long after the first.
async fn beyond_stop<T>(signals: &CheckSignals, work: impl Future<Output = T>) -> Option<T> {
    let too_long = async {
        signals.stop.cancelled().await;
        tokio::time::sleep(TEARDOWN_TIMEOUT).await;
    };
    tokio::select! {
        done = work => Some(done),
        () = too_long => None,
        () = signals.force.cancelled() => None,
    }
}

/// A suite while it is played.
struct SuitePlayer<'a> {
    plan: &'a BenchPlan,
    stage: &'a BenchStage,
    name: &'a str,
    suite: &'a TestSuite,
    values: StepValues,
    /// Where the next notification is looked for.
    cursor: u64,
}

impl SuitePlayer<'_> {
    /// Plays parts of the suite in order.
    async fn parts(
        &mut self,
        parts: &[SuitePart<'_>],
        played: &mut PlayedSuite,
        show: ShowEvent<'_>,
    ) {
        let mut broken = false;
        for &(part, steps) in parts {
            for (index, step) in steps.iter().enumerate() {
                let mut report = unmade(self.plan, self.name, (part, index), step);
                let lost = step.needs().into_iter().find(|id| !self.values.contains_key(id));
                let skip = match (&step.skip, lost) {
                    (Some(why), _) => Some(why.clone()),
                    (None, Some(id)) => Some(format!("the step `{id}` gave no value")),
                    (None, None) if broken && part == "steps" => {
                        Some("the setup failed".to_owned())
                    }
                    (None, None) => None,
                };
                let before = played.calls.len();
                if let Some(why) = skip {
                    report.problems.push(why);
                } else {
                    show(BenchEvent::StepBegan(self.name, part, index));
                    self.step(step, part, index, &mut report, &mut played.calls).await;
                }
                let call = played.calls.get(before..).and_then(<[MadeCall]>::last);
                show(BenchEvent::StepEnded(self.name, &report, call));
                broken |= part == "setup" && report.verdict == StepVerdict::Failed;
                played.report.steps.push(report);
            }
        }
    }

    async fn step(
        &mut self,
        step: &TestStep,
        part: &'static str,
        index: usize,
        report: &mut StepReport,
        calls: &mut Vec<MadeCall>,
    ) {
        let most = step.retries.or(self.suite.retries).unwrap_or(0) + 1;
        let mut first: Vec<String> = Vec::new();
        while report.attempts < most {
            report.attempts += 1;
            let began = Instant::now();
            let (value, problems, took) = self.attempt(step, part, index, calls).await;
            report.took = took.unwrap_or_else(|| began.elapsed());
            report.problems = problems;
            if report.problems.is_empty() {
                if let (Some(id), Some(value)) = (&step.id, value) {
                    self.values.insert(id.clone(), value);
                }
                break;
            }
            if first.is_empty() {
                first.clone_from(&report.problems);
            }
        }
        report.verdict = match (report.problems.is_empty(), report.attempts) {
            (false, _) => StepVerdict::Failed,
            (true, 1) => StepVerdict::Passed,
            (true, _) => StepVerdict::Flaky,
        };
        if report.verdict == StepVerdict::Flaky {
            report.problems = first;
        }
    }

    async fn attempt(
        &mut self,
        step: &TestStep,
        part: &'static str,
        index: usize,
        calls: &mut Vec<MadeCall>,
    ) -> (Option<WrittenValue>, Vec<String>, Option<Duration>) {
        let failed = |message: String| (None, vec![message], None);
        let lists = [&step.answers[..], &self.suite.answers, &self.plan.tests.file.answers];
        if let Err(error) = self.stage.answers.set(lists) {
            return failed(error);
        }
        let expect = match settled(&step.expect, &self.values) {
            Ok(expect) => expect,
            Err(error) => return failed(error),
        };
        if let Ok(StepTarget::Wait(method)) = step.target() {
            return match self.wait(step, method).await {
                Ok(value) => (Some(value), Vec::new(), None),
                Err(why) => failed(why),
            };
        }
        if let Ok(StepTarget::Fuzz(tools)) = step.target() {
            return (None, self.fuzz(step, tools).await, None);
        }
        let host = self.stage.host().clone();
        let (traffic, logs) = (host.traffic().span().end, host.logs().span().end);
        let made = match self.call(step, &host).await {
            Ok(made) => made,
            Err(why) => return failed(why),
        };
        let took = made.outcome.as_ref().ok().map(|outcome| outcome.duration);
        let server = match &made.outcome {
            Ok(outcome) => Some(outcome.server.clone()),
            Err(error) => error.server.clone(),
        };
        let masks = server.as_ref().map(|server| self.stage.masks(server)).unwrap_or_default();
        if let Some(server) = &server {
            let failed = made.outcome.as_ref().map_or(true, |outcome| outcome.is_error);
            let local = made.target.strip_prefix(server.as_str());
            let local = local.and_then(|rest| rest.strip_prefix(['.', ':', '/']));
            calls.push(MadeCall {
                server: server.clone(),
                kind: made.kind.as_str(),
                target: local.unwrap_or(&made.target).to_owned(),
                arguments: masks.redact_json(&made.arguments).unwrap_or(made.arguments.value),
                failed,
            });
        }
        let (value, mut problems) = match &made.outcome {
            Err(error) => (None, judge_error(&expect, error, &masks)),
            Ok(outcome) => {
                let mut problems = judge_outcome(&expect, outcome, &masks);
                let value = value_of(&outcome.result);
                if expect.snapshot {
                    let key = match &step.id {
                        Some(id) => format!("{}/{id}", self.name),
                        None => format!("{}/{part}/{index}", self.name),
                    };
                    let secrets = self.stage.secrets(&outcome.server);
                    problems.extend(self.plan.snapshots.compare(
                        &key,
                        &value,
                        &expect.mask,
                        &secrets,
                    ));
                }
                (Some(value), problems)
            }
        };
        problems.extend(self.surroundings(&expect, server.as_ref(), (traffic, logs)).await);
        (value, problems, took)
    }

    /// What is wrong beside the result: announcements, logs, memory, questions.
    async fn surroundings(
        &self,
        expect: &StepExpectation,
        server: Option<&ServerName>,
        (traffic, logs): (u64, u64),
    ) -> Vec<String> {
        let mut wrong = Vec::new();
        let host = self.stage.host();
        for list in &expect.list_changed {
            let seen = seen(host, server, traffic, LIST_CHANGED_TIMEOUT, |record| {
                record.method.as_ref().is_some_and(|m| m.as_str() == list.method())
            });
            if seen.await.is_none() {
                wrong.push(format!("the server did not send {}", list.method()));
            }
        }
        if let Some(most) = expect.stderr {
            let is_loud = |line: &LogRecord| {
                line.server.as_ref() == server
                    && matches!(line.source, LogSource::Stderr | LogSource::Notification)
                    && line.level > most.level()
            };
            if let Some(line) = logged(host, logs, is_loud).await {
                let level = serde_json::to_value(line.level).unwrap_or_default();
                let level = level.as_str().unwrap_or_default();
                wrong.push(format!(
                    "the server wrote ({level}): {}",
                    brief(line.text.as_str(), 200)
                ));
            }
        }
        if let Some(most) = expect.memory_mb {
            match server.and_then(|server| host.usage(server)) {
                None => wrong.push("the memory of the server is not known here".to_owned()),
                Some(usage) if usage.memory > most * 1_000_000 => {
                    let uses = usage.memory / 1_000_000;
                    wrong.push(format!("the server uses {uses} MB, expected at most {most} MB"));
                }
                Some(_) => {}
            }
        }
        if let Some(asks) = &expect.asks {
            let asked = self.stage.answers.requested_kinds();
            if asked != *asks {
                let words = |kinds: &[deck::AskedKind]| {
                    serde_json::to_value(kinds).unwrap_or_default().to_string()
                };
                wrong.push(format!("the server asked {}, expected {}", words(&asked), words(asks)));
            }
        }
        wrong
    }

    async fn call(&self, step: &TestStep, host: &Host) -> Result<StepCall, String> {
        let arguments = resolved(&step.call.written_arguments(), &self.values)?;
        let timeout = step.timeout_ms.map(Duration::from_millis);
        // A call that is meant to fail may have arguments that do not fit.
        let force = step.force || step.expect.result.is_error == Some(true);
        let validation = if force { Validation::Force } else { Validation::Enforce };
        let mut options = options(timeout, validation);
        options.server = step.server.as_deref().map(ServerName::new);
        match step.target()? {
            StepTarget::Tool(name) => {
                Ok(StepCall::make(host, CallKind::Tool, name, arguments, options).await)
            }
            StepTarget::Prompt(name) => {
                Ok(StepCall::make(host, CallKind::Prompt, name, arguments, options).await)
            }
            StepTarget::Resource(uri) => {
                let uri = resolved(&Value::String(uri.to_owned()).into(), &self.values)?;
                let uri = uri.as_str().map_or_else(|| uri.to_string(), str::to_owned);
                let none = WrittenValue::default();
                Ok(StepCall::make(host, CallKind::Resource, &uri, none, options).await)
            }
            StepTarget::Saved(name) => {
                let call = self.plan.saved.get(name);
                let call = call.map_err(|why| format!("{SAVED_CALLS_FILE}: {why}"))?;
                let all = call.arguments_with(&arguments);
                if call.force {
                    options.validation = Validation::Force;
                }
                let seconds = call.timeout.and_then(|s| Duration::try_from_secs_f64(s).ok());
                options.timeout = options.timeout.or(seconds);
                let (kind, target) = match &call.target {
                    SavedTarget::Tool { tool } => (CallKind::Tool, tool),
                    SavedTarget::Prompt { prompt } => (CallKind::Prompt, prompt),
                    SavedTarget::Resource { resource, server } => {
                        options.server = server.as_deref().map(ServerName::new);
                        (CallKind::Resource, resource)
                    }
                };
                Ok(StepCall::make(host, kind, target, all, options).await)
            }
            StepTarget::Wait(_) | StepTarget::Fuzz(_) => Err("this is no call".to_owned()),
        }
    }

    /// Fuzzes tools on copies of their servers; gives what was found.
    async fn fuzz(&self, step: &TestStep, tools: &str) -> Vec<String> {
        let plan = FuzzPlan {
            source: self.plan.source.clone(),
            tools: vec![tools.to_owned()],
            settings: self.plan.tests.file.fuzz.clone(),
            beside: folder_of(&self.plan.tests.path),
            seed: step.seed.unwrap_or(DEFAULT_SEED),
            cases: step.cases.unwrap_or(DEFAULT_CASES),
            timeout: step.timeout_ms.map_or(DEFAULT_CALL_TIMEOUT, Duration::from_millis),
            fresh: false,
            sequences: false,
        };
        let report = Box::pin(fuzz(&plan, &CheckSignals::default(), &|_| ())).await;
        let mut problems: Vec<String> =
            report.failed.iter().map(|(server, why)| format!("`{server}`: {why}")).collect();
        let serious = report.findings.iter().filter(|found| found.severity > Severity::Note);
        problems.extend(serious.map(FuzzFinding::line));
        if report.tools.iter().all(|tool| tool.cases == 0) && problems.is_empty() {
            let why = report.tools.iter().find_map(|tool| tool.note.clone());
            problems.push(why.unwrap_or_else(|| {
                let named = brief(tools, 80);
                format!("no tool is named `{named}`; `mcpdeck list` shows what there is")
            }));
        }
        problems
    }

    /// Waits for a notification; gives its `params`.
    async fn wait(&mut self, step: &TestStep, method: &str) -> Result<WrittenValue, String> {
        let params = step.params.clone().map(|params| resolved(&params.into(), &self.values));
        let params = params.transpose()?;
        let timeout = step.timeout_ms.map_or(NOTIFICATION_TIMEOUT, Duration::from_millis);
        let server = step.server.as_deref().map(ServerName::new);
        let known = &self.plan.source.config.servers;
        if let Some(name) = server.as_ref().filter(|name| !known.contains_key(*name)) {
            let near = nearest(name.as_str(), known.keys().map(ServerName::as_str), 0.6);
            let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            return Err(format!("there is no server `{}`{near}", brief(name.as_str(), 60)));
        }
        // The traffic is masked.
        let masks = Redactor::default();
        let fits = |record: &TrafficRecord| {
            record.method.as_ref().is_some_and(|m| m.as_str() == method)
                && params
                    .as_ref()
                    .is_none_or(|wanted| lack(&params_of(record), wanted, &masks).is_none())
        };
        let found = seen(self.stage.host(), server.as_ref(), self.cursor, timeout, fits).await;
        let Some((number, record)) = found else {
            let ms = timeout.as_millis();
            let shown = brief(method, 80);
            let whole = format!("{NOTIFICATION_PREFIX}{shown}");
            let hint = if method.starts_with(NOTIFICATION_PREFIX) {
                String::new()
            } else {
                format!("; the methods of notifications begin so: `{whole}`")
            };
            return Err(format!("no {shown} came within {ms} ms{hint}"));
        };
        self.cursor = number + 1;
        Ok(params_of(&record))
    }
}

/// The first line from `cursor` on that fits. The streams of a server are read independently: its
/// last lines may come shortly after its answer.
async fn logged(
    host: &Host,
    cursor: u64,
    fits: impl Fn(&LogRecord) -> bool,
) -> Option<Arc<LogRecord>> {
    let logs = host.logs();
    let mut changed = logs.changed();
    let looking = async {
        loop {
            changed.mark_unchanged();
            let batch = logs.read(cursor, usize::MAX);
            if let Some(line) = batch.items.into_iter().find(|line| fits(line)) {
                return Some(line);
            }
            changed.changed().await.ok()?;
        }
    };
    tokio::time::timeout(STDERR_TIMEOUT, looking).await.ok().flatten()
}

/// What a step calls.
#[derive(Clone, Copy)]
enum CallKind {
    Tool,
    Prompt,
    Resource,
}

impl CallKind {
    /// Its name in reports.
    fn as_str(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Resource => "resource",
        }
    }
}

/// A call that was made.
struct StepCall {
    kind: CallKind,
    target: String,
    arguments: WrittenValue,
    outcome: Result<CallOutcome, Error>,
}

impl StepCall {
    async fn make(
        host: &Host,
        kind: CallKind,
        target: &str,
        arguments: WrittenValue,
        options: CallOptions,
    ) -> Self {
        let numbers = Some(Arc::new(arguments.numbers.clone()));
        let (given, options) = (arguments.value.clone(), CallOptions { numbers, ..options });
        let outcome = match kind {
            CallKind::Tool => host.call_tool_with(target, given, options).await,
            CallKind::Prompt => host.get_prompt_with(target, given, options).await,
            CallKind::Resource => host.get_resource_with(target, options).await,
        };
        Self { kind, target: target.to_owned(), arguments, outcome }
    }
}

fn params_of(record: &TrafficRecord) -> WrittenValue {
    WrittenValue::parse(&record.body).unwrap_or_default().part("/params")
}

/// The first notification of a server from `cursor` on that fits, with its number; waits for it.
async fn seen(
    host: &Host,
    server: Option<&ServerName>,
    mut cursor: u64,
    timeout: Duration,
    fits: impl Fn(&TrafficRecord) -> bool,
) -> Option<(u64, Arc<TrafficRecord>)> {
    let traffic = host.traffic();
    let mut changed = traffic.changed();
    let looking = async {
        loop {
            changed.mark_unchanged();
            let batch = traffic.read(cursor, usize::MAX);
            let first = batch.first;
            for (at, record) in batch.items.iter().enumerate() {
                if record.direction == Direction::In
                    && record.kind == MessageKind::Notification
                    && server.is_none_or(|name| record.server == *name)
                    && fits(record)
                {
                    return Some((first + at as u64, Arc::clone(record)));
                }
            }
            cursor = batch.next;
            changed.changed().await.ok()?;
        }
    };
    tokio::time::timeout(timeout, looking).await.ok().flatten()
}
