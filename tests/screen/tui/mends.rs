//! What the page of reasons offers to mend something, each chosen by its words and applied with
//! enter.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcpdeck::base::text::SafeText;
use mcpdeck::config::{Diagnostic, Environment, Position, load_text};
use mcpdeck::deck::{DeckEvent, News, PolicyView, TrustGate, TrustStore};
use mcpdeck::error::{Error, ErrorCode};
use mcpdeck::host::{
    AccountView, BreakerView, Definition, Digest, Pins, ServerState, ServerView, StartCause,
    Validation,
};
use mcpdeck::protocol::RequestKind;
use mcpdeck::tui::effect::{CallRequest, ConfigCommand, Effect, FileChange, Order, ServerCommand};
use mcpdeck::tui::message::Message;
use mcpdeck::tui::model::{InputState, InputView, Situation};
use serde_json::{Value, json};

use super::driver::{ARRIVED, Driver};
use super::why::calling;

fn screen(driver: &mut Driver) -> String {
    super::draw(&mut driver.app, 120, 40)
}

/// The file of the servers, as it was loaded.
fn loaded(driver: &mut Driver, servers: &Value) {
    let text = json!({ "servers": servers }).to_string();
    let env = Environment { cwd: "/srv".into(), ..Environment::default() };
    let loaded = load_text(Path::new("/srv/mcp.json"), &text, &env).expect("usable");
    let loaded = DeckEvent::Loaded(Arc::new(loaded.config), Arc::from([]));
    driver.app.update(Message::Deck(loaded));
}

/// The page of a server that is down; `change` makes it what it is.
fn down(driver: &mut Driver, change: impl FnOnce(&mut ServerView)) {
    let server = Arc::make_mut(driver.view.servers.get_mut("github").expect("a server"));
    server.state = ServerState::Unavailable;
    server.pid = None;
    server.exit = None;
    change(server);
    page(driver);
}

/// The page of the server as it is.
fn page(driver: &mut Driver) {
    driver.shown();
    driver.app.model.scope = Some("github".into());
    driver.keys("1!");
}

/// The page of a call that ended with this error.
fn failed(code: ErrorCode) -> Driver {
    let (mut driver, token) = calling();
    let servers = json!({"filesystem": {"command": "x", "timeout": 30}});
    loaded(&mut driver, &servers);
    let error = Error::new(code, "no such luck").server(&"filesystem".into());
    driver.app.update(Message::CallEnded(token, Box::new(Err(error))));
    screen(&mut driver);
    driver.keys("\u{e009}");
    driver
}

/// Chooses the line with these words and applies it.
fn applies(driver: &mut Driver, words: &str) -> String {
    for _ in 0..12 {
        let shown = screen(driver);
        if shown.lines().any(|line| line.contains('▸') && line.contains(words)) {
            driver.keys("\r");
            return screen(driver);
        }
        driver.keys("j");
    }
    panic!("{words} cannot be chosen: {}", screen(driver));
}

fn wants(driver: &Driver, effect: &Effect) {
    assert!(driver.wanted.contains(effect), "{effect:?} is not among {:?}", driver.wanted);
}

fn ordered(server: &str, command: ServerCommand) -> Effect {
    Effect::Order(Order::Server(server.into(), command))
}

/// A number that is set in the entry of a server.
fn sets(server: &str, key: &str, value: u64) -> Effect {
    Effect::Config(ConfigCommand::Change(FileChange::Set {
        server: server.into(),
        path: vec![key.to_owned()],
        value: Some(value.into()),
    }))
}

/// The calls that were wanted since the first one.
fn calls(driver: &Driver) -> Vec<&CallRequest> {
    let calls = driver.wanted.iter().filter_map(|effect| match effect {
        Effect::Call(_, request) => Some(request),
        _ => None,
    });
    calls.collect()
}

#[test]
fn a_server_whose_account_is_no_longer_good_is_signed_in_to_again() {
    let mut driver = Driver::new();
    down(&mut driver, |server| {
        server.reason = Some(SafeText::line("the token was refused"));
        server.account = Some(AccountView {
            issuer: SafeText::line("https://auth.example"),
            scopes: Vec::new(),
            expires: Some(ARRIVED),
            is_refreshed: false,
        });
    });
    assert!(screen(&mut driver).contains(" enter apply   esc back "));
    let after = applies(&mut driver, "sign in again");
    wants(&driver, &ordered("github", ServerCommand::SignIn));
    assert!(!after.contains("what mends it"), "what follows is shown instead: {after}");
}

#[test]
fn a_server_that_asks_for_a_sign_in_is_answered_from_its_page() {
    let mut driver = Driver::new();
    let params = json!({"message": "sign in to go on", "issuer": "https://auth.example",
        "scopes": ["read"], "url": "https://auth.example/authorize?x=1",
        "redirectUri": "http://127.0.0.1:1/back"});
    driver.ask_as("github", RequestKind::SignIn, params, true);
    down(&mut driver, |_| ());
    let after = applies(&mut driver, " sign in ");
    assert!(after.contains("github asks you to sign in"), "{after}");
    assert!(after.contains("https://auth.example/authorize?x=1"), "{after}");
}

#[test]
fn a_sign_in_that_waits_says_what_came_instead_of_its_answer() {
    let mut driver = Driver::new();
    let params = json!({"message": "sign in to go on", "issuer": "https://auth.example",
        "scopes": ["read"], "url": "https://auth.example/authorize?x=1",
        "redirectUri": "http://127.0.0.1:1/back"});
    driver.ask_as("github", RequestKind::SignIn, params, true);
    let said = "an answer was not used: its address holds no `state`; still waiting";
    let step = json!({"kind": "redirect", "url": "http://127.0.0.1:1/back", "status": 400,
        "took": {"secs": 0, "nanos": 0}, "refused": said});
    let step = serde_json::from_value(step).expect("a step");
    down(&mut driver, |server| server.auth_steps.push(step));
    applies(&mut driver, " sign in ");
    driver.shown();
    let after = screen(&mut driver);
    assert!(after.contains(said), "{after}");
}

/// A dashboard over a file whose server may not start yet; `approved` is whether it was read.
fn held_back(text: &Value, approved: bool) -> Driver {
    let env = Environment { cwd: "/srv".into(), ..Environment::default() };
    let gate =
        if approved { TrustGate::Open } else { TrustGate::Guarded(TrustStore::or_session(&env)) };
    let loaded = load_text(Path::new("/srv/mcp.json"), &text.to_string(), &env).expect("usable");
    let passed = gate.pass(loaded, &env, None);
    let asked = passed.config.inputs.iter().map(|input| InputView {
        input: input.clone(),
        state: InputState::Open,
        servers: vec!["github".into()],
    });
    let situation = Situation {
        revision: 1,
        inputs: asked.collect(),
        awaiting: passed.awaiting,
        ..Situation::default()
    };
    let mut driver = Driver::new();
    let config = Arc::new(passed.config);
    driver.app.update(Message::Deck(DeckEvent::Loaded(config, Arc::from([]))));
    driver.app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation))));
    // What opens by itself is put off.
    driver.keys("\x1b");
    down(&mut driver, |_| ());
    driver
}

#[test]
fn a_server_that_is_held_back_leads_to_what_has_to_be_read_or_answered() {
    let servers = json!({"github": {"command": "sh", "args": ["-c", "true"]}});
    let mut driver = held_back(&json!({ "servers": servers }), false);
    let after = applies(&mut driver, "read and approve what it would run");
    assert!(after.contains("would run") && after.contains("-c true"), "{after}");

    let servers = json!({"github": {"command": "x", "env": {"KEY": "${input:key}"}}});
    let input = json!({"id": "key", "type": "promptString", "description": "what key is"});
    let mut driver = held_back(&json!({ "servers": servers, "inputs": [input] }), true);
    let after = applies(&mut driver, "answer the input key");
    assert!(after.contains("what key is"), "{after}");
}

#[test]
fn changed_definitions_are_reviewed_from_the_page() {
    let mut driver = Driver::new();
    let definition = |words: &str| Definition {
        name: "search".to_owned(),
        digest: Digest::of_text(words),
        value: Arc::new(json!({"name": "search", "description": words}).into()),
    };
    let mut pins = Pins::default();
    pins.observe("github", Digest::default(), "", &[definition("finds")]);
    let held = pins.review("github", Digest::default(), "", &[definition("finds and sends")]);
    assert_eq!(held.len(), 1);
    let policy = PolicyView { held, ..PolicyView::default() };
    driver.app.update(Message::News(News::Policy(policy)));
    page(&mut driver);
    let after = applies(&mut driver, "review what changed in its definitions");
    assert!(after.contains("policy") && after.contains("search"), "{after}");
}

#[test]
fn a_start_that_takes_too_long_gets_more_time_and_is_tried_again() {
    let mut driver = Driver::new();
    loaded(&mut driver, &json!({"github": {"command": "x", "startupTimeout": 5}}));
    down(&mut driver, |server| {
        server.failure = Some(StartCause::TimedOut.into());
    });
    applies(&mut driver, "raise \"startupTimeout\" to 10 s");
    wants(&driver, &sets("github", "startupTimeout", 10));
    let after = applies(&mut driver, "start it again");
    wants(&driver, &ordered("github", ServerCommand::Restart));
    assert!(after.contains("start it again  the server is"), "{after}");
}

#[test]
fn calls_that_are_turned_away_go_through_again_with_one_key() {
    let mut driver = Driver::new();
    let cause = SafeText::line("3 timeouts in a row");
    down(&mut driver, |server| {
        server.state = ServerState::Ready;
        server.breaker = BreakerView::Open { until: ARRIVED.plus(Duration::from_secs(900)), cause };
    });
    assert!(screen(&mut driver).contains("3 timeouts in a row"));
    applies(&mut driver, "let calls through again now");
    wants(&driver, &ordered("github", ServerCommand::ResetBreaker(None)));
}

#[test]
fn an_entry_is_edited_in_a_form_or_in_its_file_and_all_that_is_known_is_read() {
    let entry = json!({"github": {"command": "x"}});
    for (words, wanted) in [
        ("edit its entry in a form", Effect::Config(ConfigCommand::OpenEntry("github".into()))),
        ("open /srv/mcp.json at line 1", Effect::EditFile("/srv/mcp.json".into(), 1)),
    ] {
        let mut driver = Driver::new();
        loaded(&mut driver, &entry);
        down(&mut driver, |_| ());
        applies(&mut driver, words);
        wants(&driver, &wanted);
    }
    let mut driver = Driver::new();
    down(&mut driver, |_| ());
    let after = applies(&mut driver, "read all diagnostics of the server");
    assert!(after.contains("diagnostics") && !after.contains("what mends it"), "{after}");
}

#[test]
fn a_failed_call_is_mended_as_its_error_needs() {
    let mut driver = failed(ErrorCode::Timeout);
    applies(&mut driver, "raise \"timeout\" of its entry to 60 s");
    wants(&driver, &sets("filesystem", "timeout", 60));

    for code in [ErrorCode::PolicyBlocked, ErrorCode::PermissionDenied] {
        let mut driver = failed(code);
        let after = applies(&mut driver, "look at the policy and its grants");
        assert!(after.contains("━ policy ") && !after.contains("what mends it"), "{after}");
    }

    let mut driver = failed(ErrorCode::CircuitOpen);
    applies(&mut driver, "let calls through again now");
    wants(&driver, &ordered("filesystem", ServerCommand::ResetBreaker(None)));

    let mut driver = failed(ErrorCode::Validation);
    driver.wanted.clear();
    applies(&mut driver, "send it without validation");
    let sent = calls(&driver);
    assert!(matches!(sent[..], [call] if call.validation == Validation::Force), "{sent:?}");
}

#[test]
fn any_failed_call_is_made_again_edited_or_its_server_restarted() {
    let mut driver = failed(ErrorCode::Protocol);
    driver.wanted.clear();
    let after = applies(&mut driver, "make the call again");
    assert_eq!(calls(&driver).len(), 1, "{:?}", driver.wanted);
    assert!(after.contains("running") && !after.contains("what mends it"), "{after}");

    let mut driver = failed(ErrorCode::Protocol);
    let after = applies(&mut driver, "edit its arguments");
    assert!(after.contains("━ call ") && !after.contains("what mends it"), "{after}");

    let mut driver = failed(ErrorCode::Protocol);
    applies(&mut driver, "restart the server");
    wants(&driver, &ordered("filesystem", ServerCommand::Restart));

    let mut driver = failed(ErrorCode::Protocol);
    let after = applies(&mut driver, "read all diagnostics of the server");
    assert!(after.contains("diagnostics") && !after.contains("what mends it"), "{after}");
}

#[test]
fn a_problem_of_the_file_opens_at_its_line_and_the_last_change_is_undone() {
    let at = Position { file: "/srv/mcp.json".into(), line: 7, column: 3 };
    for (words, wanted) in [
        ("open /srv/mcp.json at line 7", Effect::EditFile("/srv/mcp.json".into(), 7)),
        ("undo the last change of the file", Effect::Config(ConfigCommand::Undo)),
    ] {
        let mut driver = Driver::new();
        let undo = Situation { revision: 1, undo: true, ..Situation::default() };
        driver.app.update(Message::Deck(DeckEvent::Situation(Arc::new(undo))));
        let message = "`argz` is not a known key".to_owned();
        let problem = Diagnostic { at: at.clone(), message, ..Diagnostic::default() };
        driver.view.diagnostics = vec![problem];
        driver.shown();
        driver.keys("7");
        screen(&mut driver);
        driver.keys("!");
        assert!(screen(&mut driver).contains("`argz` is not a known key"));
        applies(&mut driver, words);
        wants(&driver, &wanted);
    }
}
