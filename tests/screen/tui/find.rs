//! Finding by typing, over what seven published servers list (`fixtures/catalogues.json`): the entry
//! a person means is selected first, what does not match is not listed.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyModifiers};
use mcpdeck::base::ServerName;
use mcpdeck::base::Timestamp;
use mcpdeck::base::ring::Batch;
use mcpdeck::base::text::SafeText;
use mcpdeck::deck::{News, ResourceUpdates, UpdatedResource};
use mcpdeck::host::{CacheEntryView, CacheKey, CacheView, HostView, Record};
use mcpdeck::protocol::{Direction, MessageKind, ServerTask, ToolHints, TrafficRecord};
use mcpdeck::tui::app::{App, Setup};
use mcpdeck::tui::effect::{CallTarget, Effect, Order, ServerCommand};
use mcpdeck::tui::message::Message;
use serde_json::{Value, json};

use super::{draw, press};

const NONE: KeyModifiers = KeyModifiers::NONE;

/// The dashboard over the seven servers, all of them ready.
fn catalogues() -> App {
    let path = format!("{}/fixtures/catalogues.json", env!("CARGO_MANIFEST_DIR"));
    over(&serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
}

/// The dashboard over servers with these lists, all of them ready.
pub(super) fn over(all: &Value) -> App {
    let mut view = HostView::default();
    let mut seq = 0;
    let mut fact = |mut fact: Value| {
        seq += 1;
        fact["seq"] = seq.into();
        fact["at"] = 1_790_000_000_000_000_u64.into();
        let record: Record = serde_json::from_value(fact).unwrap();
        view.apply(&record);
    };
    for server in all.as_array().unwrap() {
        let name = &server["server"];
        let text = |entry: &Value, key: &str| entry.get(key).cloned().unwrap_or(Value::Null);
        let list = |list: &str| server[list].as_array().unwrap().clone();
        let tools: Vec<Value> = list("tools")
            .iter()
            .map(|e| {
                json!({"name": e["name"], "label": e["name"], "title": text(e, "title"),
                    "description": text(e, "description"),
                    "input_schema": e.get("inputSchema").cloned().unwrap_or_default(),
                    "output_schema": null,
                    "hints": ToolHints::from_tool(e), "raw": e})
            })
            .collect();
        let prompts: Vec<Value> = list("prompts")
            .iter()
            .map(|e| {
                json!({"name": e["name"], "label": e["name"], "title": text(e, "title"),
                    "description": text(e, "description"), "arguments": [], "raw": e})
            })
            .collect();
        let resources: Vec<Value> = list("resources")
            .iter()
            .map(|e| {
                json!({"uri": e["uri"], "label": e["uri"], "name": e["name"],
                    "title": text(e, "title"), "description": text(e, "description"),
                    "mime_type": null, "size": null, "raw": e})
            })
            .collect();
        fact(json!({"fact": "serverAdded", "server": name, "transport": "stdio", "target": "x",
            "dependencies": []}));
        fact(json!({"fact": "stateChanged", "server": name, "state": "ready", "reason": null,
            "attempt": 1, "retryAt": null}));
        fact(json!({"fact": "listed", "server": name, "capabilities": {"tools": tools,
            "prompts": prompts, "resources": resources, "templates": [], "rejected": [],
            "partial": []}}));
    }
    let mut app = App::new(
        Setup { themes: mcpdeck::THEMES, ..Setup::default() },
        Timestamp(1_790_000_090_000_000),
    );
    app.update(Message::EngineReady);
    app.update(Message::News(News::View(Arc::new(view))));
    draw(&mut app, 200, 60);
    app
}

/// The selected row after typing into the list of a pane; empty when nothing matches.
fn first(app: &mut App, pane: char, typed: &str) -> String {
    // The prompts are a view of the tab of the resources.
    let keys = if pane == 'p' { vec!['3', 'v', '/'] } else { vec![pane, '/'] };
    for key in keys {
        press(app, KeyCode::Char(key), NONE);
    }
    typed.chars().for_each(|c| _ = press(app, KeyCode::Char(c), NONE));
    let screen = draw(app, 200, 60);
    press(app, KeyCode::Enter, NONE);
    press(app, KeyCode::Esc, NONE);
    let mut rows = screen.lines().map(str::trim);
    let row = rows.find_map(|row| row.strip_prefix('▸')).unwrap_or_default();
    row.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn thirty_things_people_type_find_what_they_mean_first() {
    let mut app = catalogues();
    for (pane, typed, expected) in [
        ('2', "echo", "echo"),
        ('2', "get-env", "get-env"),
        ('2', "sum", "get-sum"),
        ('2', "tiny", "get-tiny-image"),
        ('2', "long running", "trigger-long-running-operation"),
        ('2', "sampling", "trigger-sampling-request"),
        ('2', "roots", "get-roots-list"),
        ('2', "read_text_file", "read_text_file"),
        ('2', "read text", "read_text_file"),
        ('2', "rtf", "read_text_file"),
        ('2', "read_file", "read_file"),
        ('2', "list_directory", "list_directory"),
        ('2', "sizes", "list_directory_with_sizes"),
        ('2', "tree", "directory_tree"),
        ('2', "move", "move_file"),
        ('2', "filesystem search", "search_files"),
        ('2', "allowed", "list_allowed_directories"),
        ('2', "create entities", "create_entities"),
        ('2', "memory search", "search_nodes"),
        ('2', "graph", "read_graph"),
        ('2', "think", "sequentialthinking"),
        ('2', "news", "brave_news_search"),
        ('2', "brave_web", "brave_web_search"),
        ('2', "current", "get_current_time"),
        ('2', "git_diff", "git_diff"),
        ('2', "git.git_log", "git_log"),
        ('2', "commit", "git_commit"),
        ('2', "unstaged", "git_diff_unstaged"),
        ('p', "completable", "completable-prompt"),
    ] {
        assert_eq!(first(&mut app, pane, typed), expected, "typed: {typed}");
    }
    assert!(first(&mut app, '3', "architecture").ends_with("document/architecture.md"));
}

#[test]
fn what_does_not_match_is_not_listed_and_that_is_said() {
    let mut app = catalogues();
    press(&mut app, KeyCode::Char('2'), NONE);
    "/echo".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("1 of 63"), "{screen}");
    "zzz".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("No matches") && screen.contains("0 of 63"), "{screen}");
}

#[test]
fn the_palette_finds_tools_by_name_and_says_when_nothing_matches() {
    let mut app = catalogues();
    let mut palette = |typed: &str| {
        press(&mut app, KeyCode::Char(':'), NONE);
        typed.chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
        let screen = draw(&mut app, 120, 40);
        press(&mut app, KeyCode::Esc, NONE);
        screen
    };
    for (typed, expected) in [
        ("git_log", "▸Call git.git_log"),
        ("git.git_log", "▸Call git.git_log"),
        ("echo", "▸Call everything.echo"),
        ("read text", "▸Call filesystem.read_text_file"),
        ("restart", "▸Restart the server"),
        ("restart memory", "▸Restart memory"),
        ("stop git", "▸Stop git"),
        ("ping time", "▸Ping time"),
        ("diagnostics of brave", "▸Diagnostics of brave-search"),
    ] {
        let screen = palette(typed);
        assert!(screen.contains(expected), "typed: {typed}\n{screen}");
    }
    assert!(palette("qqqq").contains("No matches"));
}

#[test]
fn logs_are_narrowed_to_a_range_of_time_and_wrong_times_are_named() {
    let mut app = super::app("typical");
    press(&mut app, KeyCode::Char('5'), NONE);
    // 12 lines, one every 40 ms, the last of them at 14:14:50.
    for (typed, kept) in [
        ("since:1h", "12 lines"),
        ("since:0.1s", "2 lines"),
        ("from:14:14:50", "0 lines"),
        ("from:14:14 to:14:15", "12 lines"),
        ("from:14:13 to:14:14 server:x", "0 lines"),
    ] {
        press(&mut app, KeyCode::Char('/'), NONE);
        typed.chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(kept), "{typed}\n{screen}");
        press(&mut app, KeyCode::Esc, NONE);
    }
    for (typed, said) in
        [("since:10", "since: takes a time"), ("to:25:00", "to: takes a time of day")]
    {
        press(&mut app, KeyCode::Char('/'), NONE);
        typed.chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(said), "{typed}\n{screen}");
        press(&mut app, KeyCode::Esc, NONE);
    }
}

fn message(kind: MessageKind, method: &str, target: &str, body: &Value) -> Arc<TrafficRecord> {
    let out = kind == MessageKind::Request;
    Arc::new(TrafficRecord {
        at: Timestamp(1_790_000_060_000_000),
        server: "git".into(),
        direction: if out { Direction::Out } else { Direction::In },
        kind,
        method: Some(SafeText::line(method)),
        target: Some(SafeText::line(target)),
        id: None,
        call: None,
        bytes: 100,
        latency: None,
        queued: None,
        body: body.to_string().into(),
        cut: false,
        problem: None,
        tolerated: false,
    })
}

#[test]
fn subscriptions_and_tasks_are_listed_as_they_are_and_can_be_ended() {
    use MessageKind::Response;
    let mut app = catalogues();
    let task = |status: &str| json!({"taskId": "t-1", "status": status});
    let items = vec![
        message(Response, "tools/call", "git_log", &json!({"result": {"task": task("working")}})),
        message(Response, "tasks/get", "git_log", &json!({"result": task("completed")})),
    ];
    app.update(Message::News(News::Traffic(Batch { items, first: 0, next: 2, missed: 0 }, 0)));
    press(&mut app, KeyCode::Char('t'), NONE);
    let list = draw(&mut app, 120, 40);
    assert!(
        !list.contains("t-1"),
        "messages may be missed, so that nothing is learnt from them: {list}"
    );
    press(&mut app, KeyCode::Esc, NONE);
    let task = ServerTask::from_result(&task("completed"), SafeText::line("git_log"), Timestamp(0));
    app.update(Message::News(News::Tasks([("git".into(), vec![task.expect("a task")])].into())));
    let (server, uri): (ServerName, Arc<str>) = ("git".into(), "file:///a".into());
    let all = [(server.clone(), vec![Arc::clone(&uri)])].into();
    app.update(Message::News(News::Subscriptions(all)));
    let resources = vec![UpdatedResource { server, uri, count: 1 }];
    app.update(Message::News(News::Updated(ResourceUpdates { resources, missed: false })));
    press(&mut app, KeyCode::Char('t'), NONE);
    let list = draw(&mut app, 120, 40);
    assert!(list.contains("git  file:///a") && list.contains("1 update, last "), "{list}");
    assert!(list.contains("git  git_log  t-1") && list.contains("task completed"), "{list}");
    press(&mut app, KeyCode::Enter, NONE);
    press(&mut app, KeyCode::Down, NONE);
    let effects = press(&mut app, KeyCode::Enter, NONE);
    let end = ServerCommand::Unsubscribe("file:///a".into());
    assert_eq!(effects, [Effect::Order(Order::Server("git".into(), end))]);
    "tgit_log".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
    press(&mut app, KeyCode::Enter, NONE);
    let effects = press(&mut app, KeyCode::Enter, NONE);
    let target = CallTarget::Request("tasks/result".into(), Some(json!({"taskId": "t-1"})));
    assert!(
        effects.iter().any(|e| matches!(e, Effect::Call(_, call) if call.target == target)),
        "{effects:?}"
    );
}

#[test]
fn a_filter_says_what_is_wrong_with_it() {
    let mut app = catalogues();
    for (typed, said) in
        [("bogus:foo", "unknown key `bogus:`"), ("duration:>abc", "duration: takes")]
    {
        press(&mut app, KeyCode::Char('4'), NONE);
        press(&mut app, KeyCode::Char('/'), NONE);
        typed.chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(said), "while typing\n{screen}");
        press(&mut app, KeyCode::Enter, NONE);
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(said) && screen.contains(typed), "{screen}");
        press(&mut app, KeyCode::Esc, NONE);
    }
}

#[test]
fn the_help_is_narrowed_by_typing_and_whole_again_after() {
    let mut app = catalogues();
    press(&mut app, KeyCode::Char('?'), NONE);
    assert!(draw(&mut app, 120, 40).contains("Move up"));
    "/palette".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
    let narrowed = draw(&mut app, 120, 40);
    assert!(!narrowed.contains("Move up"), "{narrowed}");
    "zzz".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
    assert!(draw(&mut app, 120, 40).contains("No matches"));
    press(&mut app, KeyCode::Esc, NONE);
    assert!(draw(&mut app, 120, 40).contains("Move up"));
}

#[test]
fn lists_are_sorted_by_a_column_and_servers_stand_in_a_table() {
    let mut app = catalogues();
    press(&mut app, KeyCode::Char('2'), NONE);
    press(&mut app, KeyCode::Char('o'), NONE);
    let by_name = draw(&mut app, 200, 60);
    let at = |screen: &str, name: &str| screen.find(name).unwrap_or(usize::MAX);
    assert!(at(&by_name, "add_observations") < at(&by_name, "brave_image_search"), "{by_name}");
    ":reverse the order".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
    press(&mut app, KeyCode::Enter, NONE);
    let reversed = draw(&mut app, 200, 60);
    assert!(at(&reversed, "write_file") < at(&reversed, "trigger-url-elicitation"), "{reversed}");
    press(&mut app, KeyCode::Char('1'), NONE);
    press(&mut app, KeyCode::Char('o'), NONE);
    let table = draw(&mut app, 80, 24);
    let row = table.lines().find(|line| line.contains("sequential-thinking")).unwrap();
    assert!(row.contains("ready") && table.contains("errors"), "{table}");
}

#[test]
fn names_have_no_less_room_at_120_columns_than_at_80() {
    let mut app = catalogues();
    press(&mut app, KeyCode::Char('2'), NONE);
    for width in [80, 100, 110, 120, 140, 160, 200] {
        let screen = draw(&mut app, width, 80);
        for name in ["trigger-long-running-operation", "list_directory_with_sizes"] {
            assert!(screen.contains(name), "{width}: {name}\n{screen}");
        }
    }
}

#[test]
fn what_runs_tells_its_subscriptions_itself_and_a_recording_has_its_messages() {
    let body = json!({"params": {"uri": "file:///a"}});
    let subscribe = message(MessageKind::Request, "resources/subscribe", "file:///a", &body);
    let items = vec![subscribe];
    let news = || News::Traffic(Batch { items: items.clone(), first: 0, next: 1, missed: 0 }, 0);
    let mut app = catalogues();
    app.update(Message::News(news()));
    press(&mut app, KeyCode::Char('t'), NONE);
    let list = draw(&mut app, 120, 40);
    assert!(!list.contains("file:///a"), "the traffic of what runs may have gaps\n{list}");
    let uris = vec![Arc::from("file:///a")];
    app.update(Message::News(News::Subscriptions([("git".into(), uris)].into())));
    assert!(draw(&mut app, 120, 40).contains("git  file:///a"));
    app.update(Message::News(News::Subscriptions([].into())));
    assert!(!draw(&mut app, 120, 40).contains("git  file:///a"), "it has ended");

    let mut app = catalogues();
    app.model.playback = Some(mcpdeck::tui::model::Playback::default());
    app.update(Message::News(news()));
    press(&mut app, KeyCode::Char('t'), NONE);
    assert!(draw(&mut app, 120, 40).contains("git  file:///a"));
}

#[test]
fn what_is_selected_among_the_subscriptions_stays_selected_when_others_come() {
    let mut app = catalogues();
    let subscribed = |app: &mut App, uris: &[&str]| {
        let uris = uris.iter().map(|uri| Arc::from(*uri)).collect();
        app.update(Message::News(News::Subscriptions([("git".into(), uris)].into())));
    };
    subscribed(&mut app, &["file:///m"]);
    press(&mut app, KeyCode::Char('t'), NONE);
    draw(&mut app, 120, 40);
    subscribed(&mut app, &["file:///a", "file:///m"]);
    draw(&mut app, 120, 40);
    for code in [KeyCode::Enter, KeyCode::Down] {
        press(&mut app, code, NONE);
    }
    let end = ServerCommand::Unsubscribe("file:///m".into());
    assert_eq!(
        press(&mut app, KeyCode::Enter, NONE),
        [Effect::Order(Order::Server("git".into(), end))]
    );
}

#[test]
fn a_list_whose_filter_hides_every_row_says_so() {
    for pane in ["2", "3vv"] {
        let mut app = crate::tui::app("typical");
        app.update(Message::News(News::Cache(cached())));
        draw(&mut app, 120, 40);
        pane.chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
        "/qqqq".chars().for_each(|c| _ = press(&mut app, KeyCode::Char(c), NONE));
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains("No matches; "), "{pane}\n{screen}");
    }
}

/// A cache with one entry.
fn cached() -> CacheView {
    let entry = CacheEntryView {
        key: CacheKey {
            server: "memory".into(),
            method: "resources/read".into(),
            params: "{}".into(),
        },
        label: SafeText::line("file:///a"),
        bytes: 10,
        stored: Timestamp(1_790_000_000_000_000),
        ttl: std::time::Duration::from_secs(300),
        hits: 0,
    };
    CacheView { entries: vec![entry], ..CacheView::default() }
}
