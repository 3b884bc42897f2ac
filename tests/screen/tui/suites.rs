//! The suites of tests: live states, a failed step in its form, calls that become steps, and what was
//! reached.

use std::path::PathBuf;
use std::time::Duration;

use mcpdeck::config::McpConfig;
use mcpdeck::deck::SavedCall;
use mcpdeck::tui::suites::{
    CoverageView, CoveredView, StepPlace, SuiteCommand, SuiteNews, SuiteRange, SuiteState,
    SuiteStep, SuiteView,
};
use serde_json::json;

use super::*;

const NONE: KeyModifiers = KeyModifiers::NONE;

fn step(index: usize, title: &str, path: &str) -> SuiteStep {
    SuiteStep {
        part: "steps",
        index,
        title: SafeText::line(title),
        target: SafeText::line("tool filesystem.read_file"),
        line: 10 + index as u32,
        call: Some(SavedCall::tool("filesystem.read_file", &json!({"path": path}))),
        ..SuiteStep::default()
    }
}

fn place(suite: &str, index: usize) -> StepPlace {
    StepPlace { suite: suite.to_owned(), part: "steps", index }
}

fn ended(suite: &str, step: SuiteStep, state: SuiteState) -> SuiteNews {
    let failed = state == SuiteState::Failed;
    let problems =
        if failed { vec![SafeText::line("expected \"text\", got \"\"")] } else { vec![] };
    let took = Duration::from_millis(12);
    let index = step.index;
    let step = SuiteStep { state, attempts: 1, took, problems, ..step };
    SuiteNews::StepEnded(place(suite, index), Box::new(step))
}

/// What the bench has told in a situation of the snapshots.
pub fn told(situation: &str) -> Vec<SuiteNews> {
    let file = PathBuf::from("mcp.tests.json");
    let suite = |name: &str, steps: usize| SuiteView {
        name: name.to_owned(),
        steps: (0..steps).map(|n| step(n, &format!("reads file {n}"), "/a")).collect(),
        ..SuiteView::default()
    };
    match situation {
        "typical" => vec![
            SuiteNews::Read(file, vec![suite("files", 3), suite("search", 2)]),
            SuiteNews::Began(vec!["files".to_owned(), "search".to_owned()]),
            SuiteNews::SuiteBegan("files".to_owned()),
            ended("files", step(0, "reads file 0", "/a"), SuiteState::Passed),
            ended("files", step(1, "reads file 1", "/a"), SuiteState::Failed),
            SuiteNews::StepBegan(place("files", 2)),
        ],
        "overflow" => {
            let many = (0..40).map(|n| suite(&format!("suite {n} of many"), 9)).collect();
            vec![SuiteNews::Read(file, many)]
        }
        "degraded" => {
            let why = "mcp.tests.json:4:7: unknown key `tol`; did you mean `tool`?";
            vec![SuiteNews::Unread(file, SafeText::line(why))]
        }
        _ => Vec::new(),
    }
}

/// A dashboard whose configuration is known, on the pane of suites.
fn pane(config: &str) -> App {
    let mut app = app("typical");
    let env = Environment { cwd: "/project".into(), ..Environment::default() };
    let loaded = load_text("mcp.json".as_ref(), config, &env).unwrap();
    let config: McpConfig = loaded.config;
    app.update(Message::Deck(DeckEvent::Loaded(Arc::new(config), Arc::from([]))));
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('2'), NONE);
    press(&mut app, KeyCode::Char('v'), NONE);
    app
}

const SERVER: &str = r#"{"servers": {"filesystem": {"command": "x"}, "shell": {"command": "sh"}}}"#;

fn ordered(effects: &[Effect]) -> Vec<SuiteCommand> {
    let orders = effects.iter().filter_map(|effect| match effect {
        Effect::Suites(order) => Some(order.command.clone()),
        _ => None,
    });
    orders.collect()
}

fn end_all(app: &mut App) {
    let took = Duration::from_millis(40);
    for (name, state) in [("files", SuiteState::Failed), ("search", SuiteState::Passed)] {
        app.update(Message::Suites(SuiteNews::SuiteEnded(name.to_owned(), state, took, None)));
    }
    let reached = CoverageView {
        name: SafeText::line("filesystem.read_file"),
        calls: Some((3, 1)),
        parts: vec![CoveredView {
            what: "  parameters",
            reached: 1,
            total: 3,
            missed: SafeText::line("/head, /tail"),
        }],
    };
    app.update(Message::Suites(SuiteNews::Ended(Arc::from([reached]))));
}

#[test]
fn keys_run_suites_and_a_run_is_stopped_before_another_begins() {
    let mut app = pane(SERVER);
    // One runs.
    assert_eq!(ordered(&press(&mut app, KeyCode::Char('A'), NONE)), []);
    let stop = press(&mut app, KeyCode::Char('x'), KeyModifiers::CONTROL);
    assert_eq!(ordered(&stop), [SuiteCommand::Stop]);
    end_all(&mut app);
    draw(&mut app, 120, 40);
    for (key, range) in [
        (' ', SuiteRange::One("files".to_owned())),
        ('A', SuiteRange::All),
        ('f', SuiteRange::Failed),
    ] {
        let effects = press(&mut app, KeyCode::Char(key), NONE);
        assert_eq!(ordered(&effects), [SuiteCommand::Run(range)]);
        end_all(&mut app);
    }
}

#[test]
fn a_file_that_was_repaired_is_read_again_and_can_be_run() {
    let mut app = pane(SERVER);
    end_all(&mut app);
    let why = SafeText::line("mcp.tests.json:2:1: the key has no value");
    app.update(Message::Suites(SuiteNews::Unread("mcp.tests.json".into(), why)));
    draw(&mut app, 120, 40);
    assert_eq!(ordered(&app.update(Message::FileEdited)), [SuiteCommand::Read]);
    let run = ordered(&press(&mut app, KeyCode::Char('A'), NONE));
    assert_eq!(run, [SuiteCommand::Run(SuiteRange::All)]);
}

#[test]
fn results_stay_while_the_file_is_broken_and_after_it_is_repaired() {
    let mut app = pane(SERVER);
    end_all(&mut app);
    let why = || SafeText::line("mcp.tests.json:2:1: the key has no value");
    app.update(Message::Suites(SuiteNews::Unread("mcp.tests.json".into(), why())));
    let screen = draw(&mut app, 120, 40);
    for said in ["the key has no value", "1 failed", "1 passed", "reads file 1"] {
        assert!(screen.contains(said), "{said}\n{screen}");
    }
    let [SuiteNews::Read(file, suites), ..] = &told("typical")[..] else { panic!("suites") };
    app.update(Message::Suites(SuiteNews::Read(file.clone(), suites.clone())));
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("the key has no value"), "{screen}");
    assert!(screen.contains("1 failed") && screen.contains("1 passed"), "{screen}");
    // Of another file, nothing was run yet.
    app.update(Message::Suites(SuiteNews::Unread("other/mcp.tests.json".into(), why())));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("the key has no value") && !screen.contains("1 failed"), "{screen}");
}

#[test]
fn a_run_is_over_when_it_breaks_off_and_not_when_another_command_fails() {
    let mut app = pane(SERVER);
    let stop = |app: &mut App| ordered(&press(app, KeyCode::Char('x'), KeyModifiers::CONTROL));
    let why = || SafeText::line("the file is locked");
    app.update(Message::Suites(SuiteNews::Failed(why())));
    assert!(draw(&mut app, 120, 40).contains("the file is locked"));
    assert_eq!(ordered(&press(&mut app, KeyCode::Char('A'), NONE)), []);
    assert_eq!(stop(&mut app), [SuiteCommand::Stop]);
    app.update(Message::Suites(SuiteNews::RunFailed(why())));
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("waiting") && screen.contains("the file is locked"), "{screen}");
    assert_eq!(stop(&mut app), []);
    // The next one runs from the key on, before its first suite begins.
    let again = ordered(&press(&mut app, KeyCode::Char('A'), NONE));
    assert_eq!(again, [SuiteCommand::Run(SuiteRange::All)]);
    assert_eq!(ordered(&press(&mut app, KeyCode::Char('A'), NONE)), []);
}

#[test]
fn servers_that_await_approval_are_not_started_by_suites() {
    let mut app = pane(CONFIG);
    end_all(&mut app);
    app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation()))));
    press(&mut app, KeyCode::Esc, NONE);
    draw(&mut app, 120, 40);
    let effects = press(&mut app, KeyCode::Char('A'), NONE);
    let order = effects.iter().find_map(|effect| match effect {
        Effect::Suites(order) => Some(order),
        _ => None,
    });
    let servers = &order.expect("an order").config.servers;
    let awaiting: Vec<_> =
        situation().awaiting.iter().map(|one| one.review.server.clone()).collect();
    assert!(!awaiting.is_empty());
    assert!(awaiting.iter().all(|name| !servers.contains_key(name)), "{servers:?}");
}

#[test]
fn a_failed_step_says_what_is_wrong_and_opens_in_its_form() {
    let mut app = pane(SERVER);
    let screen = draw(&mut app, 120, 40);
    for said in ["1 failed", "1 running", "1 passed", "waiting"] {
        assert!(screen.contains(said), "{said}\n{screen}");
    }
    press(&mut app, KeyCode::Down, NONE);
    press(&mut app, KeyCode::Down, NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("expected \"text\", got"), "{screen}");
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(app.has_screen() && screen.contains("read_file") && screen.contains("/a"), "{screen}");
}

#[test]
fn a_call_and_its_history_become_steps_with_one_key_each() {
    let mut app = pane(SERVER);
    press(&mut app, KeyCode::Down, NONE);
    press(&mut app, KeyCode::Enter, NONE);
    draw(&mut app, 120, 40);
    let added = ordered(&press(&mut app, KeyCode::F(7), NONE));
    let [SuiteCommand::Add(steps)] = added.as_slice() else { panic!("{added:?}") };
    let call = SavedCall::tool("filesystem.read_file", &json!({"path": "/a"}));
    assert_eq!(steps.iter().map(|step| &step.call).collect::<Vec<_>>(), [&call]);
    // Nothing was called here yet.
    assert_eq!(ordered(&press(&mut app, KeyCode::F(2), NONE)), []);
}

#[test]
fn a_step_of_a_half_filled_form_holds_what_would_be_sent_and_says_what_is_missing() {
    let mut app = pane(SERVER);
    press(&mut app, KeyCode::Char('2'), NONE);
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Enter, NONE);
    draw(&mut app, 120, 40);
    let added = ordered(&press(&mut app, KeyCode::F(7), NONE));
    let [SuiteCommand::Add(steps)] = added.as_slice() else { panic!("{added:?}") };
    assert_eq!(steps[0].call, SavedCall::tool("filesystem.read_file", &json!({})));
    assert_eq!(steps[0].lacks(), " without the required path");
    assert_eq!(steps[0].words().as_str(), "filesystem.read_file without arguments");
    // What is no value yet cannot be sent, so it is no step either.
    press(&mut app, KeyCode::Down, NONE);
    press(&mut app, KeyCode::Char('-'), NONE);
    assert_eq!(ordered(&press(&mut app, KeyCode::F(7), NONE)), []);
    assert!(draw(&mut app, 120, 40).contains("not added"));
    // A saved call goes past validation only if the person made it so.
    press(&mut app, KeyCode::Backspace, NONE);
    press(&mut app, KeyCode::Char('s'), KeyModifiers::CONTROL);
    press(&mut app, KeyCode::Char('x'), NONE);
    let effects = press(&mut app, KeyCode::Enter, NONE);
    let saved = effects.iter().find_map(|effect| match effect {
        Effect::SaveCall(_, call, _) => Some(call.force),
        _ => None,
    });
    assert_eq!(saved, Some(false), "{effects:?}");
}

#[test]
fn what_was_reached_is_shown_beside_the_suites() {
    let mut app = pane(SERVER);
    end_all(&mut app);
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('c'), NONE);
    let screen = draw(&mut app, 120, 40);
    for said in ["3 calls, 1 error", "1/3", "/head, /tail"] {
        assert!(screen.contains(said), "{said}\n{screen}");
    }
}
