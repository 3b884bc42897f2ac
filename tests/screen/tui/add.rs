//! Adding a server in the dashboard: from the user's words to an entry that was shown, checked and
//! only then written.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::base::text::SafeText;
use mcpdeck::config::{Environment, Severity};
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::effect::{
    ConfigCommand, Effect, FileChange, TrialFinding, TrialReport, TrialRequest,
};
use mcpdeck::tui::message::Message;
use mcpdeck::tui::{FoundSource, find_by_words};
use serde_json::json;

use crate::tui::{app_with, draw, press};

const FILE: &str = "/home/me/mcp.json";
const NONE: KeyModifiers = KeyModifiers::NONE;

fn dashboard() -> App {
    let own_file = Some(PathBuf::from(FILE));
    let setup = Setup { themes: mcpdeck::THEMES, own_file, ..Setup::default() };
    app_with("typical", setup)
}

fn types(app: &mut App, text: &str) -> Vec<Effect> {
    text.chars().flat_map(|c| press(app, KeyCode::Char(c), NONE)).collect()
}

/// What words lead to, as outside the tests.
fn found(words: &str) -> Result<FoundSource, SafeText> {
    let env = Environment { cwd: "/home/me".into(), ..Environment::of_process() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(find_by_words(words, (Path::new(FILE), "{}"), &env));
    found.map_err(|error| SafeText::line(&error.to_string()))
}

/// The dialog after these words were looked for, and read.
fn shown(app: &mut App, words: &str) -> String {
    press(app, KeyCode::Char('1'), NONE);
    press(app, KeyCode::Char('+'), NONE);
    types(app, words);
    let effects = press(app, KeyCode::Enter, NONE);
    assert_eq!(effects, [Effect::FindServer(words.to_owned(), FILE.into())]);
    app.update(Message::ServerFound(found(words)));
    let screen = draw(app, 120, 40);
    reads(app);
    screen
}

/// Time to read what is decided.
fn reads(app: &mut App) {
    draw(app, 120, 40);
    let now = app.model.now.plus(std::time::Duration::from_secs(1));
    app.update(Message::Now(now));
}

fn tried(effects: &[Effect]) -> &TrialRequest {
    let tried = effects.iter().find_map(|effect| match effect {
        Effect::TryServer(request) => Some(request),
        _ => None,
    });
    tried.unwrap_or_else(|| panic!("{effects:?}"))
}

fn report(is_whole: bool, finding: &str) -> Message {
    let finding = TrialFinding {
        severity: Severity::Warning,
        text: SafeText::line(finding),
        help: SafeText::line("describe it"),
    };
    Message::ServerTried(Ok(Some(Box::new(TrialReport {
        is_whole,
        words: SafeText::line("started in 80 ms; it offers 2 tools"),
        findings: vec![finding],
        last_lines: Vec::new(),
    }))))
}

#[test]
fn what_it_would_run_is_shown_and_checked_before_it_is_written() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut app = dashboard();
        let screen = shown(&mut app, "npm:@example/weather@1.2.3");
        for said in ["npm package @example/weather@1.2.3", "npx", "nothing has run yet", "weather"]
        {
            assert!(screen.contains(said), "{said}\n{screen}");
        }
        let effects = press(&mut app, KeyCode::Enter, NONE);
        let request = tried(&effects);
        assert!(request.checks && request.entry["args"].to_string().contains("weather@1.2.3"));
        assert!(draw(&mut app, width, height).contains("starting it for a check"));
        assert_eq!(press(&mut app, KeyCode::Enter, NONE), [], "it is not added meanwhile");
        app.update(report(true, "get_weather: no description"));
        let screen = draw(&mut app, width, height);
        for said in ["it offers 2 tools", "get_weather: no description", "add and trust it"] {
            assert!(screen.contains(said), "{width}: {said}\n{screen}");
        }
        assert_eq!(press(&mut app, KeyCode::Enter, NONE), [], "the findings are read first");
        reads(&mut app);
        let effects = press(&mut app, KeyCode::Enter, NONE);
        let [Effect::Config(ConfigCommand::Change(FileChange::Add(added)))] = &effects[..] else {
            panic!("{effects:?}")
        };
        assert_eq!(added.name.as_str(), "weather");
        assert_eq!(added.entry["command"], "npx");
        assert!(!draw(&mut app, width, height).contains("add and trust it"));
    }
}

#[test]
fn a_secret_is_typed_unseen_and_goes_to_the_store_not_to_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.json");
    let published = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": "io.example/weather", "description": "Weather", "version": "1.0.0",
        "packages": [{"registryType": "npm", "identifier": "weather", "version": "1.0.0",
            "transport": {"type": "stdio"},
            "environmentVariables": [
                {"name": "API_KEY", "description": "your key", "isRequired": true, "isSecret": true}
            ]}],
    });
    std::fs::write(&file, published.to_string()).unwrap();
    let mut app = dashboard();
    let words = file.to_str().unwrap().to_owned();
    let screen = shown(&mut app, &words);
    assert!(screen.contains("your key") && screen.contains("kept in the store"), "{screen}");
    let effects = press(&mut app, KeyCode::Enter, NONE);
    assert_eq!(effects, [], "without the key it is not started");
    assert!(draw(&mut app, 120, 40).contains("before it can be started"));
    types(&mut app, "s3cret");
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("s3cret"), "{screen}");
    reads(&mut app);
    let effects = press(&mut app, KeyCode::Enter, NONE);
    let request = tried(&effects);
    assert_eq!(request.answers[0].1.expose(), "s3cret");
    assert!(!request.entry.to_string().contains("s3cret"));
    app.update(report(true, "something"));
    reads(&mut app);
    let effects = press(&mut app, KeyCode::Enter, NONE);
    let [Effect::Config(ConfigCommand::Change(FileChange::Add(added)))] = &effects[..] else {
        panic!("{effects:?}")
    };
    let entry = added.entry.to_string();
    assert!(entry.contains("${secret:") && !entry.contains("s3cret"), "{entry}");
    assert_eq!(added.secrets[0].1.expose(), "s3cret");
}

#[test]
fn several_that_fit_are_chosen_from_and_what_is_not_found_says_why() {
    let mut app = dashboard();
    press(&mut app, KeyCode::Char('1'), NONE);
    press(&mut app, KeyCode::Char('+'), NONE);
    let screen = draw(&mut app, 120, 40);
    for said in ["npm:NAME", "or fill in a form:", "Python package"] {
        assert!(screen.contains(said), "{said}\n{screen}");
    }
    types(&mut app, "weather");
    press(&mut app, KeyCode::Enter, NONE);
    let row = |name: &str| [name, "1.0.0", "forecasts"].map(SafeText::line);
    let several = vec![row("io.example/weather"), row("org.other/weather")];
    app.update(Message::ServerFound(Ok(FoundSource::Several(several))));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("2 fit") && screen.contains("org.other/weather"), "{screen}");
    press(&mut app, KeyCode::Down, NONE);
    let effects = press(&mut app, KeyCode::Enter, NONE);
    assert_eq!(effects, [Effect::FindServer("org.other/weather".to_owned(), FILE.into())]);
    app.update(Message::ServerFound(Err(SafeText::line("no registry is named"))));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("no registry is named") && screen.contains("npm:NAME"), "{screen}");
    assert!(screen.contains("weather"), "what was typed is kept: {screen}");
    press(&mut app, KeyCode::Esc, NONE);
    assert!(!draw(&mut app, 120, 40).contains("npm:NAME"));
}

#[test]
fn a_taken_name_gets_a_number_and_an_answer_of_an_earlier_search_opens_nothing() {
    let mut app = dashboard();
    let screen = shown(&mut app, "npm:memory@1.0.0");
    assert!(screen.contains("memory-2"), "{screen}");
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Esc, NONE);
    let Ok(FoundSource::One(server, described)) = found("npm:other@1.0.0") else { panic!() };
    app.update(Message::ServerFound(Ok(FoundSource::One(Arc::clone(&server), described))));
    app.update(report(true, "late"));
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("other") && !screen.contains("late"), "{screen}");
}
