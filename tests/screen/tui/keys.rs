//! Keys as people meet them: saved filters, the palette from another pane, sentences that name
//! keys, leaving.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyModifiers, MouseEvent, MouseEventKind};
use mcpdeck::base::Timestamp;
use mcpdeck::base::text::SafeText;
use mcpdeck::config::{Diagnostic, Position};
use mcpdeck::deck::{DeckEvent, FileText, History, HistoryRecord, News, SavedCall, SavedCalls};
use mcpdeck::host::{CallView, ServerState, Validation};
use mcpdeck::protocol::CallId;
use mcpdeck::tui::app::{App, Calls, Setup};
use mcpdeck::tui::effect::{CallRequest, CallTarget, Effect, Existing};
use mcpdeck::tui::message::{CallPurpose, CallToken, Message, UserFiles};
use mcpdeck::tui::player::Played;
use mcpdeck::tui::prefs::{Prefs, SavedFilter};
use mcpdeck::{Error, ErrorCode};

use serde_json::json;

use super::{app, draw, press};

pub const NONE: KeyModifiers = KeyModifiers::NONE;

pub fn types(app: &mut App, text: &str) {
    for c in text.chars() {
        press(app, KeyCode::Char(c), NONE);
    }
}

/// The filters the last of these effects wants remembered.
fn remembered(effects: &[Effect]) -> Option<Vec<SavedFilter>> {
    effects.iter().rev().find_map(|effect| match effect {
        Effect::SavePrefs(prefs) => Some(prefs.saved_filters.clone()),
        _ => None,
    })
}

fn key(app: &mut App, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
    let event = crossterm::event::KeyEvent::new(code, modifiers);
    app.update(Message::Input(Event::Key(event)))
}

fn filter(name: &str, text: &str) -> SavedFilter {
    SavedFilter { name: name.into(), text: text.into() }
}

/// What finds the actions in the palette.
const SAVE: &str = ":save this filter";
const CHOOSE: &str = ":choose a saved filter";

#[test]
fn a_filter_is_saved_under_a_name_listed_used_and_removed() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    types(&mut app, "4/kind:response");
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, SAVE);
    press(&mut app, KeyCode::Enter, NONE);
    assert!(draw(&mut app, 80, 24).contains("save the filter as"));
    press(&mut app, KeyCode::Enter, NONE);
    assert!(draw(&mut app, 80, 24).contains("type it first"));
    types(&mut app, "answers");
    let effects = key(&mut app, KeyCode::Enter, NONE);
    assert_eq!(remembered(&effects), Some(vec![filter("answers", "kind:response")]));

    press(&mut app, KeyCode::Backspace, NONE);
    types(&mut app, "/kind:request");
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, SAVE);
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, "questions");
    press(&mut app, KeyCode::Enter, NONE);
    press(&mut app, KeyCode::Backspace, NONE);
    assert!(!draw(&mut app, 120, 40).contains("kind:request"));
    types(&mut app, CHOOSE);
    press(&mut app, KeyCode::Enter, NONE);
    let list = draw(&mut app, 120, 40);
    assert!(list.contains("saved filters") && list.contains("questions"), "{list}");
    types(&mut app, "ans");
    press(&mut app, KeyCode::Enter, NONE);
    assert!(draw(&mut app, 120, 40).contains("/ kind:response"));

    types(&mut app, CHOOSE);
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, "ans");
    let effects = key(&mut app, KeyCode::Delete, KeyModifiers::CONTROL);
    assert_eq!(remembered(&effects), Some(vec![filter("questions", "kind:request")]));
}

#[test]
fn a_saved_filter_is_run_from_the_palette_in_any_pane() {
    let prefs =
        Prefs { saved_filters: vec![filter("slow ones", "duration:>1s")], ..Prefs::default() };
    let mut app =
        App::new(Setup { prefs, themes: mcpdeck::THEMES, ..Setup::default() }, Timestamp(1));
    draw(&mut app, 120, 40);
    types(&mut app, "5:slow ones");
    press(&mut app, KeyCode::Enter, NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("/ duration:>1s"), "{screen}");
}

#[test]
fn the_palette_does_what_belongs_to_another_pane_there() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    types(&mut app, "5:sort by the next");
    assert!(draw(&mut app, 120, 40).contains("in Servers"));
    press(&mut app, KeyCode::Enter, NONE);
    assert!(draw(&mut app, 120, 40).contains("sorted by"));
}

#[test]
fn sentences_name_the_keys_a_person_has() {
    let mut app = app("degraded");
    let keymap =
        "[global]\nr = \"none\"\nf7 = \"restart\"\n[traffic]\nf = \"none\"\nf6 = \"follow\"";
    let user = UserFiles { keymap: Some(Ok(keymap.into())), ..UserFiles::default() };
    app.update(Message::UserFiles(user));
    types(&mut app, "1");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("f7 retry") && !screen.contains("r retry"), "{screen}");
    types(&mut app, "4k");
    assert!(draw(&mut app, 120, 40).contains("f6 follows"));
}

#[test]
fn an_error_stays_until_a_key_is_pressed_and_other_notices_go_by_themselves() {
    let mut app = app("typical");
    let at = |app: &mut App, seconds: u64| {
        app.update(Message::Now(Timestamp(1_790_000_090_000_000 + seconds * 1_000_000)));
    };
    at(&mut app, 0);
    app.update(Message::Warned(SafeText::line("only a warning")));
    at(&mut app, 4);
    assert!(!draw(&mut app, 80, 24).contains("only a warning"));
    app.update(Message::Failed(Error::new(ErrorCode::Internal, "the disk is full")));
    press(&mut app, KeyCode::Down, NONE);
    assert!(draw(&mut app, 80, 24).contains("the disk is full"), "a key pressed too early");
    at(&mut app, 600);
    let moved = MouseEvent { kind: MouseEventKind::Moved, column: 9, row: 9, modifiers: NONE };
    app.update(Message::Input(Event::Mouse(moved)));
    assert!(draw(&mut app, 80, 24).contains("the disk is full"), "nobody looked");
    press(&mut app, KeyCode::Down, NONE);
    assert!(!draw(&mut app, 80, 24).contains("the disk is full"));
}

fn in_flight(id: CallId) -> CallView {
    CallView {
        id,
        server: "memory".into(),
        method: "tools/call".into(),
        target: SafeText::line("tool"),
        started: Timestamp(1),
        waiting: std::time::Duration::ZERO,
        is_waiting: false,
        progress: None,
    }
}

#[test]
fn how_long_a_call_has_waited_for_a_person_is_no_reason_for_a_frame() {
    let mut app = app("typical");
    let waiting = |seconds| {
        let waiting = std::time::Duration::from_secs(seconds);
        News::Calls(vec![CallView { is_waiting: true, waiting, ..in_flight(CallId(7)) }])
    };
    app.update(Message::News(waiting(1)));
    draw(&mut app, 120, 40);
    app.update(Message::News(waiting(2)));
    assert_eq!(app.redraw(), mcpdeck::tui::app::Redraw::None);
    app.update(Message::News(News::Calls(vec![in_flight(CallId(7))])));
    assert_ne!(app.redraw(), mcpdeck::tui::app::Redraw::None, "it goes on");
}

#[test]
fn a_snapshot_from_before_the_end_of_a_call_does_not_make_leaving_ask() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    // What the screen called is known by its token; the id comes a moment later.
    types(&mut app, "2");
    draw(&mut app, 120, 40);
    press(&mut app, KeyCode::Enter, NONE);
    let effects = key(&mut app, KeyCode::F(8), NONE);
    let token = effects.iter().find_map(|effect| match effect {
        Effect::Call(token, _) => Some(*token),
        _ => None,
    });
    let token: CallToken = token.unwrap_or_else(|| panic!("{effects:?}"));
    let id = CallId(7);
    app.update(Message::CallBegan(token, id));
    app.update(Message::News(News::Calls(vec![in_flight(id)])));
    let error = mcpdeck::Error::new(mcpdeck::error::ErrorCode::Internal, "it failed");
    app.update(Message::CallEnded(token, Box::new(Err(error))));
    app.update(Message::News(News::Calls(vec![in_flight(id)])));
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Esc, NONE);
    let effects = key(&mut app, KeyCode::Char('q'), NONE);
    assert!(effects.contains(&Effect::Quit), "{}", draw(&mut app, 120, 40));
}

#[test]
fn leaving_a_recording_or_a_service_ends_no_call_of_others() {
    let calls = || News::Calls(vec![in_flight(CallId(7))]);
    let mut recording = app("typical");
    let played = Played { news: vec![calls()], ..Played::default() };
    recording.update(Message::Played(Box::new(played)));
    let effects = key(&mut recording, KeyCode::Char('q'), NONE);
    assert!(effects.contains(&Effect::Quit), "{}", draw(&mut recording, 120, 40));

    let mut attached = App::new(
        Setup { attached: true, themes: mcpdeck::THEMES, ..Setup::default() },
        Timestamp(2),
    );
    attached.update(Message::EngineReady);
    attached.update(Message::News(News::View(Arc::new(super::session("typical")))));
    attached.update(Message::News(calls()));
    draw(&mut attached, 120, 40);
    assert!(key(&mut attached, KeyCode::Char('q'), NONE).contains(&Effect::Quit));
    // The one made here ends with it.
    let token = CallToken { screen: 0, what: CallPurpose::Run(1) };
    attached.update(Message::CallBegan(token, CallId(7)));
    assert!(!key(&mut attached, KeyCode::Char('q'), NONE).contains(&Effect::Quit));
    let asked = draw(&mut attached, 120, 40);
    assert!(asked.contains("leave the service?") && asked.contains("1 running call"), "{asked}");
}

#[test]
fn what_was_typed_a_moment_ago_is_kept_when_the_program_ends() {
    let drafted = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::Record(HistoryRecord::Draft { .. })))
    };
    let typed = || {
        let mut app = app("typical");
        draw(&mut app, 120, 40);
        types(&mut app, "2");
        draw(&mut app, 120, 40);
        press(&mut app, KeyCode::Enter, NONE);
        types(&mut app, "1v");
        app
    };
    let mut app = typed();
    let effects = app.update(Message::Terminate);
    assert!(drafted(&effects) && effects.contains(&Effect::Quit), "{effects:?}");

    let mut app = typed();
    app.update(Message::News(News::Calls(vec![in_flight(CallId(7))])));
    let mut effects = Vec::new();
    for code in [KeyCode::Esc, KeyCode::Esc, KeyCode::Char('q')] {
        effects.extend(key(&mut app, code, NONE));
    }
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("1 running call will be cancelled"), "{screen}");
    assert!(drafted(&effects) && !effects.contains(&Effect::Quit), "{effects:?}");
    assert!(remembered(&effects).is_some(), "so is what was set: {effects:?}");
    let effects = key(&mut app, KeyCode::Char('y'), NONE);
    assert!(effects.contains(&Effect::Quit), "asked once: {effects:?}");
}

#[test]
fn a_suggestion_that_is_still_to_come_keeps_nobody_from_leaving() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    for method in ["completion/complete", "ping"] {
        let call = CallView { method: method.into(), ..in_flight(CallId(7)) };
        app.update(Message::News(News::Calls(vec![call])));
        let effects = key(&mut app, KeyCode::Char('q'), NONE);
        assert!(effects.contains(&Effect::Quit), "{method}: {effects:?}");
    }
}

#[test]
fn the_first_steps_cover_nothing_go_on_with_their_keys_and_are_shown_once() {
    let setup = Setup { tour: true, plays: true, themes: mcpdeck::THEMES, ..Setup::default() };
    let mut app = App::new(setup, Timestamp(1));
    app.update(Message::EngineReady);
    let mut view = crate::tui::session("typical");
    view.files = Vec::default();
    app.update(Message::News(News::View(Arc::new(view))));
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("first steps, 1 of 6  2 shows the tools"), "{screen}");
    assert!(screen.contains("● filesystem") && screen.contains("q quit"), "{screen}");
    assert!(screen.contains("a script plays until you press a key"), "{screen}");
    // Another key changes nothing but that the script ends.
    types(&mut app, "5");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("1 of 6") && !screen.contains("script plays"), "{screen}");
    types(&mut app, "2");
    assert!(draw(&mut app, 80, 24).contains("2 of 6  enter opens the form"));
    key(&mut app, KeyCode::Enter, NONE);
    assert!(draw(&mut app, 80, 24).contains("3 of 6  f5 makes the call"));
    types(&mut app, "x");
    key(&mut app, KeyCode::F(5), NONE);
    assert!(draw(&mut app, 80, 24).contains("4 of 6  esc goes back"));
    key(&mut app, KeyCode::Esc, NONE);
    key(&mut app, KeyCode::Esc, NONE);
    types(&mut app, ":");
    key(&mut app, KeyCode::Esc, NONE);
    types(&mut app, "?");
    key(&mut app, KeyCode::Esc, NONE);
    key(&mut app, KeyCode::Esc, NONE);
    assert!(!draw(&mut app, 80, 24).contains("first steps"));
    types(&mut app, ":first steps");
    key(&mut app, KeyCode::Enter, NONE);
    assert!(draw(&mut app, 80, 24).contains("1 of 6"));
    let effects = key(&mut app, KeyCode::Char('q'), NONE);
    let toured = |effect: &Effect| matches!(effect, Effect::SavePrefs(prefs) if prefs.toured);
    assert!(effects.iter().any(toured));
}

#[test]
fn a_broken_keymap_says_its_line_until_it_is_mended_and_the_old_keys_stay() {
    let mut app = app("typical");
    let keys = |app: &mut App, text: &str| {
        let user = UserFiles { keymap: Some(Ok(text.into())), ..UserFiles::default() };
        app.update(Message::UserFiles(user));
    };
    keys(&mut app, "[global]\nf7 = \"show-logs\"");
    keys(&mut app, "[global]\nf7 = \"show-logs\"\n\nf8 = \"show-lgos\"");
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("keymap.toml:4: there is no action `show-lgos`"), "{screen}");
    press(&mut app, KeyCode::F(7), NONE);
    app.update(Message::Now(Timestamp(1_790_000_100_000_000 + 60_000_000)));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("/ search"), "the keys that were there stay\n{screen}");
    assert!(screen.lines().next().unwrap().contains("⚠ keymap.toml:4"), "{screen}");
    types(&mut app, "?");
    assert!(draw(&mut app, 120, 40).contains("there is no action"));
    keys(&mut app, "[global]\nf7 = \"show-logs\"");
    press(&mut app, KeyCode::Esc, NONE);
    assert!(!draw(&mut app, 120, 40).contains("keymap.toml"));
}

/// What the last line of the screen offers.
fn footer(app: &mut App) -> String {
    draw(app, 120, 40).lines().last().unwrap_or_default().to_owned()
}

#[test]
fn while_something_is_typed_only_keys_that_are_no_text_are_offered_and_f1_helps() {
    let mut app = app("typical");
    assert!(footer(&mut app).contains("q quit"));
    types(&mut app, ":");
    let offered = footer(&mut app);
    assert!(!offered.contains("q quit") && !offered.contains("restart"), "{offered}");
    assert!(offered.contains("f1 help"), "{offered}");
    press(&mut app, KeyCode::F(1), NONE);
    let help = draw(&mut app, 120, 40);
    assert!(help.contains("keys: ") && !help.contains("Show the servers"), "{help}");
}

#[test]
fn a_text_to_read_offers_no_filter_and_a_filter_is_typed_where_it_is_seen() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    types(&mut app, "1jb");
    assert!(draw(&mut app, 120, 40).contains("diagnostics: "));
    let offered = footer(&mut app);
    assert!(!offered.contains("filter") && !offered.contains("open"), "{offered}");
    press(&mut app, KeyCode::Esc, NONE);
    types(&mut app, "4");
    press(&mut app, KeyCode::Enter, NONE);
    types(&mut app, "/method");
    let screen = draw(&mut app, 100, 40);
    assert!(screen.contains("/ method"), "{screen}");
}

/// A dashboard of a recorded session that has these saved calls.
fn with_saved(calls: &[(&str, SavedCall)]) -> App {
    let mut saved = SavedCalls::default();
    for (name, call) in calls {
        saved.set((*name).to_owned(), call.clone());
    }
    let calls = Calls::new(History::default(), saved);
    let mut app =
        App::new(Setup { calls, themes: mcpdeck::THEMES, ..Setup::default() }, Timestamp(1));
    app.update(Message::EngineReady);
    app.update(Message::News(News::View(Arc::new(super::session("typical")))));
    draw(&mut app, 120, 40);
    app
}

fn requested_call(effects: &[Effect]) -> Option<&CallRequest> {
    effects.iter().find_map(|effect| match effect {
        Effect::Call(_, request) => Some(request),
        _ => None,
    })
}

#[test]
fn what_servers_offer_is_found_by_a_part_of_its_name_from_anywhere() {
    for (typed, head) in [
        (":creent", " create_entities   "),
        (":call filesystem.read", " read_file   "),
        (":recall", " recall   "),
        (":todo.md", "todo.md"),
    ] {
        let mut app = with_saved(&[]);
        types(&mut app, &format!("5{typed}"));
        let palette = draw(&mut app, 120, 40);
        assert!(palette.contains("commands"), "{palette}");
        // What has nothing to fill in is read at once; the others only open.
        let reads = requested_call(&key(&mut app, KeyCode::Enter, NONE)).is_some();
        assert_eq!(reads, typed == ":todo.md", "{typed}");
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(head) && app.has_screen(), "{typed}: {screen}");
    }
}

#[test]
fn a_saved_call_whose_name_is_typed_whole_comes_first_and_is_made() {
    let arguments = json!({"path": "/tmp/x"});
    let call = SavedCall::tool("filesystem.read_file", &arguments);
    // A tool is called the same, and other names fit the letters too.
    let names = ["read_file", "read", "read_file again"];
    let mut app = with_saved(&names.map(|name| (name, call.clone())));
    types(&mut app, ":read_file");
    let effects = key(&mut app, KeyCode::Enter, NONE);
    let request = requested_call(&effects).expect("it is made");
    assert_eq!(request.target, CallTarget::Tool("read_file".into(), arguments.clone()));
    assert_eq!(request.validation, Validation::Enforce);
    // The second row opens it, filled in, and sends nothing.
    let mut app = with_saved(&[("Oslo", call)]);
    types(&mut app, ":oslo");
    press(&mut app, KeyCode::Down, NONE);
    assert_eq!(requested_call(&key(&mut app, KeyCode::Enter, NONE)), None);
    assert!(draw(&mut app, 120, 40).contains("/tmp/x"));
}

#[test]
fn a_saved_call_is_given_its_own_time_and_keeps_it_when_it_is_saved_again() {
    let call = SavedCall::tool("filesystem.read_file", &json!({"path": "/tmp/x"}));
    let mut app = with_saved(&[("slow", SavedCall { timeout: Some(90.0), ..call })]);
    types(&mut app, ":slow");
    let effects = key(&mut app, KeyCode::Enter, NONE);
    let time = |effects: &[Effect]| requested_call(effects).and_then(|request| request.timeout);
    assert_eq!(time(&effects), Some(Duration::from_secs(90)));
    press(&mut app, KeyCode::Char('s'), KeyModifiers::CONTROL);
    types(&mut app, "slower");
    let effects = key(&mut app, KeyCode::Enter, NONE);
    let kept = effects.iter().find_map(|effect| match effect {
        Effect::SaveCall(_, call, _) => call.timeout,
        _ => None,
    });
    assert_eq!(kept, Some(90.0), "{effects:?}");
}

#[test]
fn a_saved_call_that_goes_past_validation_does_so_and_one_that_does_not_fit_is_not_sent() {
    let wrong = SavedCall::tool("filesystem.read_file", &json!({"path": 5}));
    let forced = SavedCall { force: true, ..wrong.clone() };
    let calls = [("wrong", wrong), ("forced", forced)];
    let mut app = with_saved(&calls);
    types(&mut app, ":forced");
    let effects = key(&mut app, KeyCode::Enter, NONE);
    assert_eq!(requested_call(&effects).map(|request| request.validation), Some(Validation::Force));
    assert!(draw(&mut app, 120, 40).contains("sent without validation"));
    let mut app = with_saved(&calls);
    types(&mut app, ":wrong");
    assert_eq!(requested_call(&key(&mut app, KeyCode::Enter, NONE)), None);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("⚠ 1 problem"), "{screen}");
}

#[test]
fn a_server_that_is_not_ready_offers_nothing_to_call() {
    let mut view = super::session("typical");
    for server in view.servers.values_mut() {
        Arc::make_mut(server).state = ServerState::Unavailable;
    }
    let mut app = with_saved(&[]);
    app.update(Message::News(News::View(Arc::new(view))));
    types(&mut app, ":create_entities");
    assert!(draw(&mut app, 120, 40).contains("down"));
    press(&mut app, KeyCode::Enter, NONE);
    assert!(!app.has_screen());
}

#[test]
fn a_command_of_the_keymap_file_runs_with_what_is_selected_after_its_question() {
    let mut app = app("typical");
    let keymap = "[commands.who]\nkey = \"f10\"\nrun = \"echo {server} {tool}\"\n\
                  help = \"Say who it is\"\nconfirm = true\n\
                  [commands.top]\nkey = \"f4\"\nscope = \"tools\"\nrun = \"top\"\nterminal = true";
    let user = UserFiles { keymap: Some(Ok(keymap.into())), ..UserFiles::default() };
    app.update(Message::UserFiles(user));
    types(&mut app, "2");
    let footer = draw(&mut app, 200, 60);
    assert!(footer.contains("f4 top"), "{footer}");
    types(&mut app, "1");
    draw(&mut app, 200, 60);
    key(&mut app, KeyCode::F(10), NONE);
    assert!(draw(&mut app, 200, 60).contains("who: select a tool in Tools first"));
    types(&mut app, "2");
    draw(&mut app, 200, 60);
    assert_eq!(key(&mut app, KeyCode::F(10), NONE), []);
    let asked = draw(&mut app, 200, 60);
    assert!(asked.contains("run who?") && asked.contains("echo {server} {tool}"), "{asked}");
    let effects = key(&mut app, KeyCode::Char('y'), NONE);
    let [Effect::Run(run)] = &effects[..] else { panic!("{effects:?}") };
    let [Some(server), Some(tool), None] = &run.values else { panic!("{run:?}") };
    assert!(asked.contains(server.as_str()) && asked.contains(tool.as_str()), "{asked}");
    app.update(Message::Output(SafeText::line("who"), SafeText::block("it is\nthat one")));
    assert!(draw(&mut app, 120, 40).contains("that one"));
    press(&mut app, KeyCode::Esc, NONE);

    types(&mut app, "?/say who");
    assert!(draw(&mut app, 120, 40).contains("Say who it is"));
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Esc, NONE);
    types(&mut app, "1:top: top");
    press(&mut app, KeyCode::Enter, NONE);
    let effects = app.update(Message::Now(Timestamp(1)));
    assert_eq!(effects, []);
    assert!(draw(&mut app, 120, 40).contains("Tools"));
}

#[test]
fn a_command_that_cannot_be_bound_is_named_with_its_line() {
    use mcpdeck::tui::keymap::Keymap;
    for (text, said) in [
        ("[commands.a]\nkey = \"f10\"", "keymap.toml:1: missing field `run`"),
        ("\n[commands.a]\nrun = \"x\"\nkey = \"ctrl-\"", "keymap.toml:2: "),
        ("[commands.a]\nkey = \"f10\"\nrun = \"x\"\nscope = \"form\"", "keymap.toml:1: a command"),
        ("[commands.a]\nkey = \"f10\"\nruns = \"x\"", "keymap.toml:1: unknown field `runs`"),
    ] {
        let error = Keymap::with_user(text).unwrap_err();
        assert!(error.starts_with(said), "{error}");
    }
}

#[test]
fn any_request_is_sent_from_its_form_with_the_method_completed() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    types(&mut app, "2");
    draw(&mut app, 120, 40);
    types(&mut app, " jresources/te");
    let form = draw(&mut app, 120, 40);
    assert!(
        form.contains("JSON-RPC request") && form.contains("resources/templates/list"),
        "{form}"
    );
    key(&mut app, KeyCode::Char(' '), KeyModifiers::CONTROL);
    press(&mut app, KeyCode::Tab, NONE);
    types(&mut app, "{\"cursor\": \"2\"}");
    let effects = key(&mut app, KeyCode::F(5), NONE);
    let target = effects.iter().find_map(|effect| match effect {
        Effect::Call(_, CallRequest { target, .. }) => Some(target.clone()),
        _ => None,
    });
    let params = Some(json!({"cursor": "2"}));
    let expected = CallTarget::Request("resources/templates/list".into(), params);
    assert_eq!(target, Some(expected), "{}", draw(&mut app, 120, 40));
}

#[test]
fn what_a_newcomer_meets_at_80_columns_is_in_words() {
    let mut app = app("typical");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("2 Tools") && screen.contains("4 Traffic"), "{screen}");
    types(&mut app, "4");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains("space pause") && !screen.contains("freeze"), "{screen}");
    types(&mut app, "/x");
    let screen = draw(&mut app, 80, 24);
    assert!(screen.contains(" keep") && screen.contains("esc clear"), "{screen}");
    press(&mut app, KeyCode::Esc, NONE);
    types(&mut app, "7?");
    let help = draw(&mut app, 80, 60);
    assert!(help.contains("the answers  (the configuration declares no input)"), "{help}");
    assert!(help.lines().all(|line| !line.contains('…')), "a sentence is cut:\n{help}");
}

#[test]
fn a_resource_is_read_when_it_is_opened_and_its_screen_offers_what_works() {
    let mut app = app("typical");
    draw(&mut app, 120, 40);
    types(&mut app, "3");
    draw(&mut app, 120, 40);
    let effects = key(&mut app, KeyCode::Enter, NONE);
    let reads = |effect: &Effect| {
        matches!(effect, Effect::Call(_, CallRequest { target: CallTarget::Resource(_), .. }))
    };
    assert!(effects.iter().any(reads), "{effects:?}");
    let screen = draw(&mut app, 120, 40);
    assert!(!screen.contains("JSON") && !screen.contains("insert"), "{screen}");
    // Opened again, it shows what was read.
    press(&mut app, KeyCode::Esc, NONE);
    press(&mut app, KeyCode::Esc, NONE);
    let effects = key(&mut app, KeyCode::Enter, NONE);
    assert!(!effects.iter().any(reads), "{effects:?}");
}

#[test]
fn a_question_shows_the_whole_command_that_a_yes_runs() {
    let words: Vec<String> = (0..30).map(|n| format!("word-{n}")).collect();
    let keymap = format!(
        "[commands.long]\nkey = \"f10\"\nrun = \"echo {}\"\nconfirm = true",
        words.join(" ")
    );
    let user = UserFiles { keymap: Some(Ok(keymap)), ..UserFiles::default() };
    let mut app = app("typical");
    app.update(Message::UserFiles(user));
    for (width, height) in [(60, 20), (80, 24)] {
        draw(&mut app, width, height);
        key(&mut app, KeyCode::F(10), NONE);
        let asked = draw(&mut app, width, height);
        assert!(words.iter().all(|word| asked.contains(word)), "{asked}");
        assert!(asked.contains("y yes"), "{asked}");
        press(&mut app, KeyCode::Esc, NONE);
    }
}

#[test]
fn the_problems_of_a_long_file_are_gone_through_again_and_again() {
    let mut app = app("typical");
    let path = std::path::PathBuf::from("mcp.json");
    let lines = (1..=100).map(|n| SafeText::line(&format!("line {n}."))).collect();
    let file = FileText { path: path.clone(), lines };
    app.update(Message::Deck(DeckEvent::Waiting(Arc::new([file]))));
    let mut view = (*app.model.view).clone();
    let problem = |line| {
        let at = Position { file: path.clone(), line, column: 1 };
        Diagnostic { at, message: "wrong".to_owned(), ..Diagnostic::default() }
    };
    view.diagnostics = [5, 95, 98].map(problem).to_vec();
    app.update(Message::News(News::View(Arc::new(view))));
    press(&mut app, KeyCode::Char('7'), NONE);
    draw(&mut app, 120, 40);
    for wanted in ["line 5.", "line 95.", "line 5.", "line 95."] {
        press(&mut app, KeyCode::Char('n'), NONE);
        let screen = draw(&mut app, 120, 40);
        assert!(screen.contains(wanted), "{wanted}\n{screen}");
    }
}

#[test]
fn a_name_that_is_taken_is_given_away_only_on_request() {
    let call = SavedCall::tool("filesystem.read_file", &json!({"path": "/tmp/x"}));
    let mut app = with_saved(&[("slow", call)]);
    types(&mut app, ":slow");
    key(&mut app, KeyCode::Enter, NONE);
    press(&mut app, KeyCode::Char('s'), KeyModifiers::CONTROL);
    types(&mut app, "mine");
    let effects = key(&mut app, KeyCode::Enter, NONE);
    let saves = |effects: &[Effect]| match effects {
        [Effect::SaveCall(name, call, existing)] => Some((name.clone(), call.clone(), *existing)),
        _ => None,
    };
    let (name, call, existing) = saves(&effects).expect("it is to be saved");
    assert_eq!((name.as_str(), existing), ("mine", Existing::Keep));
    // It is no saved call before it is in the file.
    press(&mut app, KeyCode::F(3), NONE);
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("slow") && !screen.contains("mine"), "{screen}");
    press(&mut app, KeyCode::Esc, NONE);
    let replacing = Effect::SaveCall(name, call, Existing::Replace);
    let words = SafeText::line("the saved call mine");
    app.update(Message::NameTaken(words, Box::new(replacing)));
    let screen = draw(&mut app, 120, 40);
    assert!(screen.contains("replace it?") && screen.contains("the saved call mine"), "{screen}");
    let effects = press(&mut app, KeyCode::Char('y'), NONE);
    assert_eq!(saves(&effects).expect("on request").2, Existing::Replace);
}
