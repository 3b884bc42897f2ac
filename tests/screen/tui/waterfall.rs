//! The waterfall as it reads at three sizes and what its keys do; and a recording that is shown.

use std::time::Duration;

use crossterm::event::{Event, MouseButton, MouseEvent, MouseEventKind};
use mcpdeck::deck::{Lock, News, RecordedOperations, RecordedOutcome, Scan};
use mcpdeck::protocol::CallId;
use mcpdeck::tui::player::{PlayCommand, Played, play};

use super::pictures::{is_kept, picture};
use super::*;

const BEGAN: u64 = 1_790_000_000_000_000 + 60_000_000;

/// `server id method target call`, a dash for what there is none of.
fn frame(ms: u64, direction: Direction, kind: MessageKind, text: &str) -> Arc<TrafficRecord> {
    let mut words = text.split(' ').map(|word| (word != "-").then(|| SafeText::line(word)));
    let mut word = || words.next().flatten();
    let server = word().unwrap();
    Arc::new(TrafficRecord {
        at: Timestamp(BEGAN + ms * 1_000),
        server: server.as_str().into(),
        direction,
        kind,
        id: word(),
        method: word(),
        target: word(),
        call: word().map(|call| CallId(call.parse().unwrap())),
        bytes: 100,
        latency: None,
        queued: (kind == MessageKind::Request).then_some(Duration::from_millis(15)),
        body: if ms == 700 { "{\"isError\":true}".into() } else { "{}".into() },
        cut: false,
        problem: None,
        tolerated: false,
    })
}

fn traffic() -> Vec<Arc<TrafficRecord>> {
    use Direction::{In, Out};
    use MessageKind::{Error, Notification, Request, Response};
    vec![
        frame(20, Out, Request, "filesystem 1 tools/call read_file 1"),
        frame(60, In, Response, "filesystem 1 - - -"),
        frame(100, Out, Request, "memory 1 tools/call ask_person 2"),
        frame(150, In, Notification, "memory - notifications/progress - 2"),
        frame(200, In, Request, "memory 9 sampling/createMessage - -"),
        frame(600, Out, Response, "memory 9 - - -"),
        frame(610, In, Notification, "memory - notifications/tools/list_changed - -"),
        frame(612, Out, Request, "memory 2 tools/list - -"),
        frame(618, In, Response, "memory 2 - - -"),
        frame(700, In, Response, "memory 1 - - -"),
        frame(720, Out, Request, "filesystem 2 resources/read file:///a 3"),
        frame(730, In, Error, "filesystem 2 - - -"),
        frame(800, Out, Request, "filesystem 3 tools/call slow 4"),
    ]
}

fn waterfall() -> App {
    shown_in(app("empty"))
}

pub fn shown_in(mut app: App) -> App {
    let items = traffic();
    let next = items.len() as u64;
    app.update(Message::Now(Timestamp(BEGAN + 1_000_000)));
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next, missed: 0 }, 0)));
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    app
}

#[test]
fn the_waterfall_reads_as_recorded() {
    for (width, height) in [(80, 24), (120, 40), (200, 60)] {
        let mut app = waterfall();
        draw(&mut app, width, height);
        press(&mut app, KeyCode::Char('g'), KeyModifiers::NONE);
        press(&mut app, KeyCode::Char('j'), KeyModifiers::NONE);
        let screen = draw(&mut app, width, height);
        insta::assert_snapshot!(format!("waterfall_{width}x{height}"), screen);
    }
}

/// Drawn anew with `INSTA_UPDATE=always`.
#[test]
fn the_picture_of_the_readme_is_what_the_program_draws() {
    let setup =
        Setup { theme: Some("catppuccin".to_owned()), themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = shown_in(App::new(setup, Timestamp(BEGAN)));
    draw(&mut app, 104, 18);
    for key in ['\\', 'g', 'j'] {
        press(&mut app, KeyCode::Char(key), KeyModifiers::NONE);
        draw(&mut app, 104, 18);
    }
    let drawn = picture(&mut app, 104, 18, 3..17);
    assert!(drawn.contains("critical path"), "{drawn}");
    is_kept("waterfall", &drawn);
}

#[test]
fn what_an_operation_caused_folds_and_short_ones_are_left_out() {
    let mut app = waterfall();
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('g'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('j'), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("← sampling/createMessage"));
    press(&mut app, KeyCode::Char('z'), KeyModifiers::NONE);
    let folded = draw(&mut app, 120, 40);
    assert!(!folded.contains("← sampling/createMessage"), "{folded}");
    for _ in 0..2 {
        press(&mut app, KeyCode::Char('d'), KeyModifiers::NONE);
    }
    let long = draw(&mut app, 120, 40);
    assert!(long.contains("ask_person") && !long.contains("read_file"), "{long}");
    press(&mut app, KeyCode::Enter, KeyModifiers::NONE);
    let message = draw(&mut app, 120, 40);
    assert!(message.contains("tools/call ask_person #1"), "{message}");
}

#[test]
fn an_operation_that_failed_says_why() {
    let mut app = waterfall();
    draw(&mut app, 120, 40);
    for (steps, words) in [
        (1, "tools/call ask_person: the tool reported an error"),
        (4, "resources/read file:///a was answered with an error"),
    ] {
        press(&mut app, KeyCode::Char('g'), KeyModifiers::NONE);
        for _ in 0..steps {
            press(&mut app, KeyCode::Char('j'), KeyModifiers::NONE);
        }
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains("! why"), "{screen}");
        press(&mut app, KeyCode::Char('!'), KeyModifiers::NONE);
        let screen = draw(&mut app, 120, 40);
        for part in ["why: operation of server", words, "messages around it"] {
            assert!(screen.contains(part), "{part}: {screen}");
        }
        press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    }
    // One that went well raises no question.
    press(&mut app, KeyCode::Char('g'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('!'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("why: operation"), "{screen}");
}

#[test]
fn a_double_click_on_an_operation_opens_its_message() {
    let mut app = waterfall();
    let screen = draw(&mut app, 120, 40);
    let row = screen.lines().position(|line| line.contains("ask_person")).unwrap() as u16;
    for _ in 0..2 {
        let kind = MouseEventKind::Down(MouseButton::Left);
        let event = MouseEvent { kind, column: 40, row, modifiers: KeyModifiers::NONE };
        app.update(Message::Input(Event::Mouse(event)));
    }
    let message = draw(&mut app, 120, 40);
    assert!(message.contains("tools/call ask_person #1"), "{message}");
}

#[test]
fn the_critical_path_is_what_the_end_of_a_call_waited_for() {
    let mut app = waterfall();
    draw(&mut app, 120, 40);
    for key in ['g', 'j', 'j'] {
        press(&mut app, KeyCode::Char(key), KeyModifiers::NONE);
    }
    let screen = draw(&mut app, 120, 40);
    // The list that was fetched meanwhile held nothing up.
    let path = "critical path  ask_person 200 ms  sampling/createMessage 415 ms";
    assert!(screen.contains(path), "{screen}");
}

#[test]
fn of_very_many_operations_the_newest_are_shown() {
    let mut app = waterfall();
    let call = |n: u64| {
        let (out, kind) = (Direction::Out, MessageKind::Request);
        frame(1_000 + n, out, kind, &format!("filesystem {} tools/call t {}", n + 10, n + 10))
    };
    let items: Vec<_> = (0..100_000).map(call).collect();
    app.update(Message::News(News::Traffic(
        Batch { items, first: 13, next: 100_013, missed: 0 },
        0,
    )));
    let screen = draw(&mut app, 120, 40);
    assert_eq!(app.model.operations.iter().count(), 100_000);
    assert!(screen.contains("operations"), "{screen}");
    assert!(screen.contains("older ones dropped"), "{screen}");
}

#[test]
fn a_recording_is_shown_at_any_moment_without_an_engine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let mut lines = vec![serde_json::json!({
        "type": "header", "version": 1, "product": "mcpdeck", "began": BEGAN, "scrubbed": true,
    })];
    let session = format!("{}/fixtures/sessions/typical.jsonl", env!("CARGO_MANIFEST_DIR"));
    for line in std::fs::read_to_string(session).unwrap().lines() {
        let mut fact: serde_json::Value = serde_json::from_str(line).unwrap();
        fact["type"] = "fact".into();
        fact["at"] = BEGAN.into();
        lines.push(fact);
    }
    for record in traffic() {
        let mut record = serde_json::to_value(&*record).unwrap();
        record["type"] = "frame".into();
        lines.push(record);
    }
    let text = lines.iter().fold(String::new(), |text, line| text + &line.to_string() + "\n");
    std::fs::write(&path, text).unwrap();

    let offered = Lock::of_recording(&path).unwrap();
    let servers: Vec<&String> = offered.servers.keys().collect();
    assert_eq!(servers, ["filesystem", "memory"], "what was connected is what can be compared");

    let (commands, asked) = std::sync::mpsc::channel();
    let (sender, news) = std::sync::mpsc::channel();
    let scan = Scan::open(&path).unwrap();
    let player = std::thread::spawn(move || {
        play(SafeText::line("a.jsonl"), scan, &asked, &|event| sender.send(event).is_ok());
    });
    let mut app = App::new(Setup { themes: mcpdeck::THEMES, ..Setup::default() }, Timestamp(BEGAN));
    let next = |app: &mut App| loop {
        let played = news.recv().unwrap().unwrap();
        let is_reading = played.playback.read.is_some();
        app.update(Message::Played(played));
        if !is_reading {
            return draw(app, 120, 40);
        }
    };
    // It opens at the first error.
    let first = next(&mut app);
    assert!(first.contains("a scrubbed recording") && first.contains("a.jsonl"), "{first}");
    // The waterfall shows the operation that failed there, and what is still to come as faint.
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    let cursor = |screen: &str| screen.lines().find(|line| line.contains('▸')).unwrap().to_owned();
    let shown = draw(&mut app, 120, 40);
    assert!(cursor(&shown).contains("ask_person"), "{shown}");
    commands.send(PlayCommand::Error(true)).unwrap();
    let shown = next(&mut app);
    assert!(cursor(&shown).contains("file:///a"), "{shown}");
    commands.send(PlayCommand::Error(false)).unwrap();
    next(&mut app);
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    for key in ['o', 'o'] {
        press(&mut app, KeyCode::Char(key), KeyModifiers::NONE);
    }
    let first = draw(&mut app, 120, 40);
    assert!(first.contains("10 of 10") || first.contains("12 of 12"), "{first}");
    commands.send(PlayCommand::To(1.0)).unwrap();
    let end = next(&mut app);
    assert!(end.contains("13 of 13"), "{end}");
    for (key, command) in [('{', PlayCommand::Error(false)), (',', PlayCommand::Step(false))] {
        assert_eq!(
            press(&mut app, KeyCode::Char(key), KeyModifiers::NONE),
            [Effect::Play(command)]
        );
    }
    commands.send(PlayCommand::Error(false)).unwrap();
    let error = next(&mut app);
    assert!(error.contains("12 of 12"), "the last error is the answer before the last: {error}");
    commands.send(PlayCommand::To(0.0)).unwrap();
    let begin = next(&mut app);
    assert!(begin.contains("0 of 0"), "{begin}");
    press(&mut app, KeyCode::Char('1'), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("memory"));
    press(&mut app, KeyCode::Char('r'), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("nothing runs"));
    drop(commands);
    player.join().unwrap();
}

/// Another moment of a recording, as a whole.
fn moment(view: HostView, operations: RecordedOperations) -> Message {
    let uri = r#"{"params": {"uri": "file:///a"}}"#;
    let of = |direction, kind, method: &str| {
        let record = frame(0, direction, kind, &format!("memory - {method} - -"));
        Arc::new(TrafficRecord { body: uri.into(), ..(*record).clone() })
    };
    let items = vec![
        of(Direction::Out, MessageKind::Request, "resources/subscribe"),
        of(Direction::In, MessageKind::Notification, "notifications/resources/updated"),
    ];
    let logs = Batch { items: Vec::new(), first: 0, next: 0, missed: 0 };
    let frames = Batch { items, first: 0, next: 2, missed: 0 };
    let news = vec![News::View(Arc::new(view)), News::Traffic(frames, 0), News::Logs(logs, 0)];
    let operations = Some(Arc::new(operations));
    Message::Played(Box::new(Played { is_whole: true, news, operations, ..Played::default() }))
}

#[test]
fn another_moment_of_a_recording_counts_nothing_twice_and_ends_no_operation() {
    let after = session("degraded");
    let mut before = after.clone();
    for server in before.servers.values_mut() {
        Arc::make_mut(server).exit = None;
    }
    let mut operations = RecordedOperations::default();
    let text = "filesystem 1 tools/call read_file 1";
    operations.frame(&frame(0, Direction::Out, MessageKind::Request, text));
    let mut app = App::new(Setup { themes: mcpdeck::THEMES, ..Setup::default() }, Timestamp(BEGAN));
    app.update(moment(before, operations.clone()));
    app.update(moment(after, operations));
    let kept = &app.model.operations;
    assert_eq!(kept.get(0).unwrap().outcome, RecordedOutcome::Open, "as it was recorded");
    press(&mut app, KeyCode::Char('t'), KeyModifiers::NONE);
    let list = draw(&mut app, 120, 40);
    assert!(list.contains(" 1 update,"), "{list}");
}

#[test]
fn a_request_that_is_looked_at_says_when_it_was_answered() {
    let mut app = app("empty");
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    let take = |app: &mut App, first: u64, record| {
        let batch = Batch { items: vec![record], first, next: first + 1, missed: 0 };
        app.update(Message::News(News::Traffic(batch, 0)));
        draw(app, 160, 40)
    };
    let asked = "memory 1 tools/call read 1";
    take(&mut app, 0, frame(0, Direction::Out, MessageKind::Request, asked));
    press(&mut app, KeyCode::Char('k'), KeyModifiers::NONE);
    assert!(draw(&mut app, 160, 40).contains("not answered"));
    let answer = frame(5, Direction::In, MessageKind::Response, "memory 1 - - -");
    let screen = take(&mut app, 1, answer);
    assert!(screen.contains("p shows it") && !screen.contains("not answered"), "{screen}");
}

#[test]
fn a_tolerated_problem_is_a_warning_beside_a_good_answer() {
    let mut app = app("empty");
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    let (request, response) = (MessageKind::Request, MessageKind::Response);
    let answer = |ms, text, tolerated| {
        let record = frame(ms, Direction::In, response, text);
        let problem = Some(SafeText::line("the id came back as a string"));
        Arc::new(TrafficRecord { problem, tolerated, ..(*record).clone() })
    };
    let items = vec![
        frame(0, Direction::Out, request, "memory 1 tools/call used 1"),
        answer(1, "memory 1 tools/call used 1", true),
        frame(2, Direction::Out, request, "memory 2 tools/call unusable 2"),
        answer(3, "memory 2 tools/call unusable 2", false),
    ];
    let next = items.len() as u64;
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next, missed: 0 }, 0)));
    let screen = draw(&mut app, 220, 40);
    for (name, sign) in [("call used", '✓'), ("call unusable", '✗')] {
        let row = screen.lines().find(|line| line.contains(name)).unwrap();
        assert!(row.contains(sign) && row.contains("⚠ the id came back"), "{screen}");
    }
}

#[test]
fn a_request_that_gets_no_answer_says_so_wherever_it_is_seen() {
    let mut app = app("empty");
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    let none = |ms, text, why: &str| {
        let record = frame(ms, Direction::In, MessageKind::Error, text);
        let problem = Some(SafeText::line(&format!("no answer: {why}")));
        Arc::new(TrafficRecord { bytes: 0, body: "".into(), problem, ..(*record).clone() })
    };
    let (request, response) = (MessageKind::Request, MessageKind::Response);
    let items = vec![
        frame(0, Direction::Out, request, "memory 1 tools/call read 1"),
        frame(1, Direction::Out, request, "memory 2 tools/call write 2"),
        frame(2, Direction::Out, request, "memory 3 subscriptions/listen - -"),
        frame(3, Direction::In, response, "memory 2 tools/call write 2"),
        none(4, "memory 1 tools/call read 1", "the server went away: exit code 3"),
        none(4, "memory 3 subscriptions/listen - -", "the server went away: exit code 3"),
    ];
    let next = items.len() as u64;
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next, missed: 0 }, 0)));
    let screen = draw(&mut app, 220, 40);
    let row = |screen: &str, what: &str| {
        screen
            .lines()
            .find(|line| line.contains(what))
            .unwrap_or_else(|| panic!("{screen}"))
            .to_owned()
    };
    let read = row(&screen, "call read");
    assert!(read.contains('✗') && read.contains("⚠ no answer: "), "{screen}");
    assert!(row(&screen, "call write").contains('✓'), "{screen}");
    let listens = row(&screen, "subscriptions/listen");
    assert!(!listens.contains('✗'), "its end is no failure: {screen}");
    press(&mut app, KeyCode::Char('g'), KeyModifiers::NONE);
    let screen = draw(&mut app, 220, 40);
    let answer = row(&screen, "none: the server went");
    assert!(answer.contains("answer"), "{screen}");
    press(&mut app, KeyCode::Char('!'), KeyModifiers::NONE);
    let why = draw(&mut app, 220, 40);
    assert!(why.contains("no answer: the server went away: exit code 3"), "{why}");
    press(&mut app, KeyCode::Esc, KeyModifiers::NONE);
    draw(&mut app, 220, 40);
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    draw(&mut app, 220, 40);
    press(&mut app, KeyCode::Char('g'), KeyModifiers::NONE);
    let screen = draw(&mut app, 220, 40);
    assert!(screen.contains("no answer: the server went away: exit code 3 +"), "{screen}");
}

#[test]
fn a_request_and_its_answer_share_a_row_that_unfolds() {
    let mut app = waterfall();
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("8 rows of 13 messages") && screen.contains("answer"), "{screen}");
    let failed = screen.lines().find(|line| line.contains("resources/read")).unwrap();
    assert!(failed.contains('✗') && failed.matches("100 B").count() == 2, "{screen}");
    let waits = screen.lines().find(|line| line.contains("call slow")).unwrap();
    assert!(!waits.contains('✓') && waits.matches("100 B").count() == 1, "{screen}");
    // Unfolded, the answer has a row of its own; its key leads to it.
    press(&mut app, KeyCode::Char('g'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('z'), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("9 rows of 13 messages"));
    press(&mut app, KeyCode::Char('z'), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("8 rows of 13 messages"));
    press(&mut app, KeyCode::Char('p'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("9 rows of 13 messages"), "{screen}");
    let here = screen.lines().find(|line| line.starts_with(" ▸")).unwrap();
    assert!(here.contains('←'), "{screen}");
    press(&mut app, KeyCode::Char('o'), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("by operation"));
    press(&mut app, KeyCode::Char('o'), KeyModifiers::NONE);
    assert!(draw(&mut app, 120, 40).contains("13 of 13"));
}

#[test]
fn the_result_of_a_tool_that_failed_is_a_failure_in_the_messages_too() {
    let mut app = waterfall();
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    for (name, sign) in [("ask_person", '✗'), ("read_file", '✓'), ("resources/read", '✗')] {
        let row = screen.lines().find(|line| line.contains(name)).unwrap();
        assert!(row.contains(sign), "{name}: {screen}");
    }
}

#[test]
fn an_id_that_is_used_again_is_another_request() {
    use Direction::{In, Out};
    use MessageKind::{Request, Response};
    let mut app = app("empty");
    let items = vec![
        frame(1, Out, Request, "memory 1 tools/list - -"),
        frame(2, In, Response, "memory 1 - - -"),
        frame(3, In, Response, "memory 1 - - -"),
        frame(4, Out, Request, "memory 1 tools/list - -"),
        frame(5, Out, Request, "memory 1 prompts/list - -"),
        frame(6, In, Response, "memory 1 - - -"),
        frame(7, In, Request, "memory 1 ping - -"),
        frame(8, Out, Response, "memory 1 - - -"),
    ];
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next: 8, missed: 0 }, 0)));
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("5 rows of 8 messages"), "{screen}");
    let list = screen.lines().find(|line| line.contains("prompts/list")).unwrap();
    assert!(list.contains('✓'), "{screen}");
}

#[test]
fn idle_time_is_folded_and_the_axis_is_magnified_by_keys_and_the_wheel() {
    use Direction::{In, Out};
    use MessageKind::{Request, Response};
    let mut app = app("empty");
    let hour = 3_600_000;
    let items = vec![
        frame(1, Out, Request, "memory 1 tools/call first 1"),
        frame(400, In, Response, "memory 1 - - 1"),
        frame(hour, Out, Request, "memory 2 tools/call second 2"),
        frame(hour + 300, In, Response, "memory 2 - - 2"),
    ];
    app.update(Message::Now(Timestamp(BEGAN + (hour + 400) * 1_000)));
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next: 4, missed: 0 }, 0)));
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    let bar = |screen: &str, name: &str| {
        let row = screen.lines().find(|line| line.contains(name)).unwrap().to_owned();
        row.matches('━').count()
    };
    let screen = draw(&mut app, 120, 40);
    // Both bars have a share of the axis, although an hour lies between them.
    assert!(bar(&screen, "first") > 20 && bar(&screen, "second") > 15, "{screen}");
    let before = bar(&screen, "second");
    press(&mut app, KeyCode::Char('+'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("2x") && bar(&screen, "second") > before, "{screen}");
    press(&mut app, KeyCode::Char('-'), KeyModifiers::NONE);
    let scroll = MouseEvent {
        kind: MouseEventKind::ScrollUp,
        column: 60,
        row: 4,
        modifiers: KeyModifiers::NONE,
    };
    draw(&mut app, 120, 40);
    app.update(Message::Input(Event::Mouse(scroll)));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("8x") || screen.contains("2x"), "{screen}");
}

#[test]
fn what_waits_for_a_person_takes_no_room_from_what_happens() {
    use Direction::{In, Out};
    use MessageKind::{Request, Response};
    let mut app = app("empty");
    let hour = 3_600_000;
    let items = vec![
        frame(1, Out, Request, "memory 1 tools/call first 1"),
        frame(400, In, Response, "memory 1 - - 1"),
        frame(410, Out, Request, "memory 2 tools/call patient 2"),
        frame(420, In, Request, "memory 9 sampling/createMessage - -"),
        frame(hour, Out, Request, "memory 3 tools/call second 3"),
        frame(hour + 300, In, Response, "memory 3 - - 3"),
    ];
    app.update(Message::Now(Timestamp(BEGAN + (hour + 400) * 1_000)));
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next: 6, missed: 0 }, 0)));
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Char('4'), KeyModifiers::NONE);
    press(&mut app, KeyCode::Char('v'), KeyModifiers::NONE);
    let screen = draw(&mut app, 120, 40);
    let row = |name: &str| screen.lines().find(|line| line.contains(name)).unwrap();
    for name in ["first", "second"] {
        assert!(row(name).matches('━').count() > 15, "{screen}");
    }
    for name in ["patient", "sampling/createMessage"] {
        assert!(row(name).contains('░'), "{name} waits for a person: {screen}");
    }
}
