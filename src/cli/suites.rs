//! Suites of tests in the dashboard: the bench behind its pane.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use super::args::{Common, OneServer};
use super::bench::FailedSuites;
use super::check::policy_files;
use super::{deck, operate};
use ::bench::coverage::{CoverageReport, CoveredPart, MadeCall, coverage};
use ::bench::file::{LoadedTests, StepTarget, TESTS_FILE, TestStep, TestSuite};
use ::bench::init;
use ::bench::outcome::{StepReport, StepVerdict, SuiteReport};
use ::bench::run::{BenchEvent, BenchPlan, SuiteChoice, run};
use ::bench::snapshot::Snapshots;
use ::bench::stage::BenchSource;
use ::check::CheckVerdict;
use ::check::run::CheckSignals;
use ::deck::{SavedCall, SavedCalls, SavedTarget};
use base::SafeText;
use base::file::is_there;
use base::human::count;
use base::text::path::spelled;
use config::McpConfig;
use host::canonical_name;
use tui::suites::{
    CoverageView, CoveredView, NewStep, OpenSuites, StepPlace, SuiteCommand, SuiteNews, SuiteOrder,
    SuiteRange, SuiteState, SuiteStep, SuiteView,
};

/// The suite that calls of the dashboard are added to.
const DASHBOARD_SUITE: &str = "dashboard";

/// The bench for a dashboard that was started with these arguments.
pub fn in_dashboard(common: &Common, one: &OneServer) -> OpenSuites {
    let (common, one) = (common.clone(), one.clone());
    Arc::new(move |order, news, stop| {
        let bench = DashboardBench { common: common.clone(), one: one.clone() };
        Box::pin(bench.obey(order, news, stop))
    })
}

/// The bench, for one command.
struct DashboardBench {
    common: Common,
    one: OneServer,
}

impl DashboardBench {
    async fn obey(self, order: SuiteOrder, news: mpsc::Sender<SuiteNews>, stop: CancellationToken) {
        let SuiteOrder { config, command } = order;
        let path = tests_beside(&config);
        let is_run = matches!(command, SuiteCommand::Run(_));
        let done = match command {
            SuiteCommand::Read => {
                pass_on(&news, tokio::task::spawn_blocking(move || Ok(read(path))).await).await
            }
            SuiteCommand::Add(steps) => {
                let work = move || add(&path, steps);
                pass_on(&news, tokio::task::spawn_blocking(work).await).await
            }
            // What runs is stopped by its token.
            SuiteCommand::Stop => Ok(()),
            SuiteCommand::Run(range) => {
                let to = news.clone();
                // On a thread of its own: cases that are made and judged would hold up the screen.
                let work = move || self.play(&config, &path, &range, (&to, stop));
                let played = tokio::task::spawn_blocking(work).await;
                played.unwrap_or_else(|error| Err(error.to_string()))
            }
        };
        if let Err(why) = done {
            let why = SafeText::line(&why);
            let failed = if is_run { SuiteNews::RunFailed(why) } else { SuiteNews::Failed(why) };
            let _ = news.send(failed).await;
        }
    }

    fn play(
        &self,
        config: &McpConfig,
        path: &Path,
        range: &SuiteRange,
        (news, stop): (&mpsc::Sender<SuiteNews>, CancellationToken),
    ) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let played = runtime.block_on(async {
            // The file may have been changed since it was read.
            let _ = news.send(read(path.to_owned())).await;
            let plan = self.plan(config, path, range)?;
            Box::pin(self.play_plan(&plan, path, (news, stop))).await
        });
        runtime.shutdown_background();
        played
    }

    /// What is to be run, as the file says now.
    fn plan(
        &self,
        config: &McpConfig,
        path: &Path,
        range: &SuiteRange,
    ) -> Result<BenchPlan, String> {
        let tests = LoadedTests::load(path)?;
        let mut choice = SuiteChoice::default();
        match range {
            SuiteRange::All => {}
            SuiteRange::One(name) if !tests.file.suites.contains_key(name) => {
                return Err(format!("there is no suite `{name}` in the file any more"));
            }
            SuiteRange::One(name) => choice.only = Some([name.clone()].into()),
            SuiteRange::Failed => choice.only = Some(FailedSuites::new(path).read()),
        }
        if choice.only.as_ref().is_some_and(HashSet::is_empty) {
            return Err("no suite failed in the last run".to_owned());
        }
        let file = config.files.last().map(PathBuf::as_path);
        let source = BenchSource {
            policy: file.map(|_| policy_files(&self.common)).unwrap_or_default(),
            config: config.clone(),
            accounts: deck::accounts(&self.common, &self.one),
            timeout: self.common.timeout,
            reveal: self.common.reveal,
        };
        let saved = SavedCalls::load(&operate::saved_path(file))?;
        let snapshots = Snapshots::load(path, false)?;
        Ok(BenchPlan { source, tests, choice, saved, snapshots })
    }

    async fn play_plan(
        &self,
        plan: &BenchPlan,
        path: &Path,
        (news, stop): (&mpsc::Sender<SuiteNews>, CancellationToken),
    ) -> Result<(), String> {
        let suites = plan.tests.file.suites.iter();
        let chosen = suites.filter(|(name, suite)| plan.choice.takes(name, suite));
        let _ = news.send(SuiteNews::Began(chosen.map(|(name, _)| name.clone()).collect())).await;
        let signals = CheckSignals { stop, ..CheckSignals::default() };
        let show = |event: BenchEvent<'_>| {
            let one = match event {
                // Its steps are shown as they begin.
                BenchEvent::TeardownBegan(_) => return,
                BenchEvent::SuiteBegan(name) => SuiteNews::SuiteBegan(name.to_owned()),
                BenchEvent::StepBegan(suite, part, index) => {
                    SuiteNews::StepBegan(StepPlace { suite: suite.to_owned(), part, index })
                }
                BenchEvent::StepEnded(suite, step, call) => step_news(suite, step, call),
                BenchEvent::SuiteEnded(suite) => suite_news(suite),
            };
            // What does not fit is sent again at the end.
            let _ = news.try_send(one);
        };
        let outcome = Box::pin(run(plan, &signals, &show)).await?;
        for suite in &outcome.report.suites {
            for step in &suite.steps {
                let _ = news.send(step_news(&suite.name, step, None)).await;
            }
            let _ = news.send(suite_news(suite)).await;
        }
        let reached = coverage_views(&coverage(&outcome.offers, &outcome.calls));
        let _ = news.send(SuiteNews::Ended(reached.into())).await;
        if !outcome.interrupted {
            FailedSuites::new(path).write(&outcome.report);
        }
        Ok(())
    }
}

/// Tells what work on another thread has come to.
async fn pass_on(
    news: &mpsc::Sender<SuiteNews>,
    done: Result<Result<SuiteNews, String>, JoinError>,
) -> Result<(), String> {
    let _ = news.send(done.map_err(|error| error.to_string())??).await;
    Ok(())
}

/// The file of tests beside the configuration.
fn tests_beside(config: &McpConfig) -> PathBuf {
    let beside = config.files.last().and_then(|file| file.parent()).unwrap_or(Path::new(""));
    beside.join(TESTS_FILE)
}

/// Reads the file.
fn read(path: PathBuf) -> SuiteNews {
    if !is_there(&path) {
        let text = format!(
            "{} does not exist; `mcpdeck test --init` writes a first one, and f7 in a form adds a \
             call to it",
            spelled(&path)
        );
        return SuiteNews::Unread(path, SafeText::line(&text));
    }
    match LoadedTests::load(&path) {
        Err(why) => SuiteNews::Unread(path, SafeText::line(&why)),
        Ok(tests) => {
            let suites = tests.file.suites.iter();
            let suites = suites.map(|(name, suite)| suite_view(&tests, name, suite)).collect();
            SuiteNews::Read(path, suites)
        }
    }
}

fn suite_view(tests: &LoadedTests, name: &str, suite: &TestSuite) -> SuiteView {
    let steps = suite.parts().into_iter().flat_map(|(part, steps)| {
        steps.iter().enumerate().map(move |(index, step)| (part, index, step))
    });
    let steps = steps.map(|(part, index, step)| SuiteStep {
        part,
        index,
        title: SafeText::line(&step.title()),
        target: SafeText::line(&step.target().map(StepTarget::title).unwrap_or_default()),
        problems: step.skip.iter().map(|why| SafeText::line(why)).collect(),
        line: tests.position(name, part, index).line,
        call: written_call(step),
        ..SuiteStep::default()
    });
    SuiteView {
        name: name.to_owned(),
        reason: suite.skip.as_deref().map(SafeText::line),
        steps: steps.collect(),
        ..SuiteView::default()
    }
}

/// The call that a step would make, as it is written.
fn written_call(step: &TestStep) -> Option<SavedCall> {
    let target = match step.target().ok()? {
        StepTarget::Tool(tool) => SavedTarget::Tool { tool: tool.to_owned() },
        StepTarget::Prompt(prompt) => SavedTarget::Prompt { prompt: prompt.to_owned() },
        StepTarget::Resource(uri) => {
            SavedTarget::Resource { resource: uri.to_owned(), server: step.server.clone() }
        }
        StepTarget::Saved(_) | StepTarget::Wait(_) | StepTarget::Fuzz(_) => return None,
    };
    Some(SavedCall {
        target,
        arguments: step.call.arguments.clone(),
        numbers: step.call.numbers.clone(),
        timeout: None,
        force: step.force,
    })
}

/// A call as it was made.
fn made_call(made: &MadeCall) -> SavedCall {
    let full = canonical_name(&made.server, &made.target);
    let mut call = SavedCall::tool(full.clone(), &made.arguments);
    match made.kind {
        "prompt" => call.target = SavedTarget::Prompt { prompt: full },
        "resource" => {
            let (resource, server) = (made.target.clone(), Some(made.server.to_string()));
            call.target = SavedTarget::Resource { resource, server };
        }
        _ => {}
    }
    call
}

fn step_news(suite: &str, step: &StepReport, call: Option<&MadeCall>) -> SuiteNews {
    let place = StepPlace { suite: suite.to_owned(), part: step.part, index: step.index };
    let state = match step.verdict {
        StepVerdict::Passed => SuiteState::Passed,
        StepVerdict::Flaky => SuiteState::Flaky,
        StepVerdict::Failed => SuiteState::Failed,
        StepVerdict::Skipped => SuiteState::Skipped,
    };
    let view = SuiteStep {
        part: step.part,
        index: step.index,
        title: SafeText::line(&step.name),
        target: SafeText::line(&step.target),
        state,
        attempts: step.attempts,
        took: step.took,
        problems: step.problems.iter().map(|problem| SafeText::block(problem)).collect(),
        line: step.at.as_ref().map_or(0, |at| at.line),
        call: call.map(made_call),
    };
    SuiteNews::StepEnded(place, Box::new(view))
}

fn suite_news(suite: &SuiteReport) -> SuiteNews {
    let state = match suite.verdict {
        CheckVerdict::Ok if suite.reason.is_some() => SuiteState::Skipped,
        CheckVerdict::Ok if suite.many(StepVerdict::Flaky) > 0 => SuiteState::Flaky,
        CheckVerdict::Ok => SuiteState::Passed,
        CheckVerdict::Violated | CheckVerdict::Usage => SuiteState::Failed,
        CheckVerdict::Incomplete => SuiteState::Incomplete,
    };
    let reason = suite.reason.as_deref().map(SafeText::line);
    SuiteNews::SuiteEnded(suite.name.clone(), state, suite.took, reason)
}

fn coverage_views(report: &CoverageReport) -> Vec<CoverageView> {
    let part = |what: &'static str, part: &CoveredPart| CoveredView {
        what,
        reached: part.reached,
        total: part.total,
        missed: SafeText::line(&part.missed.join(", ")),
    };
    let tools = report.tools.iter().map(|tool| CoverageView {
        name: SafeText::line(&tool.tool),
        calls: Some((tool.calls, tool.errors)),
        parts: vec![
            part("  parameters", &tool.parameters),
            part("  enum values", &tool.values),
            part("  branches", &tool.branches),
        ],
    });
    let lists = [
        ("prompts", &report.prompts),
        ("resources", &report.resources),
        ("templates", &report.templates),
    ];
    let lists = lists.into_iter().filter(|(_, list)| list.total > 0);
    let lists = lists.map(|(name, list)| CoverageView {
        name: SafeText::line(name),
        calls: None,
        parts: vec![part("  reached", list)],
    });
    tools.chain(lists).collect()
}

/// Adds calls to the suite of the dashboard, each once, and says how many.
fn add(path: &Path, steps: Vec<NewStep>) -> Result<SuiteNews, String> {
    let alone = match steps.as_slice() {
        [one] => Some((one.words(), one.lacks())),
        _ => None,
    };
    let mut added = 0;
    LoadedTests::change_suite(path, DASHBOARD_SUITE, |suite| {
        for step in steps {
            let step = init::step_of_call(&step.call, step.is_error);
            if !suite.steps.contains(&step) {
                suite.steps.push(step);
                added += 1;
            }
        }
        added > 0
    })?;
    let shown = spelled(path);
    if added == 0 {
        let text = format!("nothing to add: the suite {DASHBOARD_SUITE} of {shown} has it");
        return Ok(SuiteNews::Done(SafeText::line(&text)));
    }
    let (words, lacks) = match alone {
        Some((words, lacks)) => (words.to_string(), lacks),
        None => (count(added, "step").to_string(), String::new()),
    };
    // What is missing comes first: the end of a long line may not be in sight.
    let colon = if lacks.is_empty() { "" } else { ":" };
    let text = format!("added{lacks}{colon} {words}, to the suite {DASHBOARD_SUITE} of {shown}");
    Ok(SuiteNews::Done(SafeText::line(&text)))
}
