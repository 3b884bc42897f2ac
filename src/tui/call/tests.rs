//! The call screen: sending calls, showing their outcome, and keeping drafts and history.

use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::export::{Export, ExportOrigin, Start, WrittenCall};
use super::run::CallAsk;
use super::screen::CallScreen;
use super::subject::{CallSubject, SubjectKind};
use super::template::{expand, variables};
use crate::action::Action;
use crate::effect::{CallRequest, CallTarget, Effect};
use crate::intent::Intent;
use crate::keymap::Keymap;
use crate::message::{CallPurpose, CallToken};
use crate::pane::{NoticeText, Out};
use crate::pick::{CallPick, Choice, LinePrompt};
use crate::prelude::Role;
use base::text::json::{WrittenNumbers, WrittenValue};
use base::text::{SafeText, quoted};
use base::{ServerName, Timestamp};
use config::error::{Error, ErrorCode};
use deck::{History, HistoryRecord};
use host::{AnswerSource, CallOutcome, Validation};
use protocol::{ApprovalId, CallId, Progress};
use terminal::look::Styles;

fn subject(kind: SubjectKind, wire: &str, schema: Value) -> CallSubject {
    CallSubject {
        server: ServerName::new("memory"),
        kind,
        wire: wire.into(),
        label: SafeText::line(wire),
        title: None,
        description: Some(SafeText::line("Create several new entities")),
        manner: "additive",
        schema: Arc::new(schema),
        numbers: WrittenNumbers::default(),
        bytes: 1_240,
        has_app: false,
        limits: config::ContentLimits::default(),
        target: SafeText::line("npx -y server-memory"),
    }
}

fn screen(schema: Value) -> CallScreen {
    let subject = subject(SubjectKind::Tool, "add", schema);
    CallScreen::new(subject, &History::default(), Timestamp(1_000_000))
}

fn sum() -> Value {
    json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]})
}

/// Presses keys: `<name>` is a key of the table, the rest is typed.
fn press(screen: &mut CallScreen, script: &str) -> Vec<Intent> {
    pressed(screen, script).intents
}

/// Like [`press`], with what is said.
fn pressed(screen: &mut CallScreen, script: &str) -> Out {
    let keymap = Keymap::builtin();
    let mut out = Out::default();
    let mut rest = script;
    while let Some(c) = rest.chars().next() {
        let (key, used) = match (c, rest[1..].split_once('>')) {
            ('<', Some((name, _))) => (named(name), name.len() + 2),
            _ => (KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE), c.len_utf8()),
        };
        screen.key(key, &keymap, Timestamp(2_000_000), &mut out);
        rest = &rest[used..];
    }
    out
}

/// Does something; returns what it asks for.
fn intents_of(act: impl FnOnce(&mut Out)) -> Vec<Intent> {
    let mut out = Out::default();
    act(&mut out);
    out.intents
}

/// The warning that was given.
fn warned(out: &Out) -> String {
    match &out.notice {
        Some((NoticeText::WithKeys(text), Role::Warning)) => text.to_string(),
        other => panic!("{other:?}"),
    }
}

fn named(name: &str) -> KeyEvent {
    let (modifiers, bare) = match name.split_once('-') {
        Some(("ctrl", bare)) => (KeyModifiers::CONTROL, bare),
        Some(("alt", bare)) => (KeyModifiers::ALT, bare),
        _ => (KeyModifiers::NONE, name),
    };
    let code = match bare {
        "enter" => KeyCode::Enter,
        "tab" => KeyCode::Tab,
        "esc" => KeyCode::Esc,
        "down" => KeyCode::Down,
        "pagedown" => KeyCode::PageDown,
        "backspace" => KeyCode::Backspace,
        "f5" => KeyCode::F(5),
        "f6" => KeyCode::F(6),
        "f8" => KeyCode::F(8),
        "space" => KeyCode::Char(' '),
        other => KeyCode::Char(other.chars().next().expect("a key")),
    };
    KeyEvent::new(code, modifiers)
}

fn outcome(result: Value, is_error: bool) -> CallOutcome {
    let mut outcome = CallOutcome::new(CallId(1), "memory", "add", result);
    outcome.is_error = is_error;
    outcome.duration = Duration::from_millis(12);
    outcome.waiting = Duration::from_secs(48);
    outcome
}

fn drawn(screen: &mut CallScreen, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    screen.lay_out(area, &Styles::default());
    let mut buf = Buffer::empty(area);
    screen.draw(&Keymap::builtin(), &Styles::default(), Timestamp(5_200_000), area, &mut buf);
    let line = |y: u16| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

fn call_of(intents: &[Intent]) -> Option<(Value, Validation)> {
    intents.iter().find_map(|intent| match intent {
        Intent::Perform(Effect::Call(_, CallRequest { target, validation, .. })) => match target {
            CallTarget::Tool(_, arguments) => Some((arguments.clone(), *validation)),
            CallTarget::Resource(uri) => Some((json!(uri), *validation)),
            _ => None,
        },
        _ => None,
    })
}

fn completion(asked: &[Intent]) -> (Value, u64) {
    match asked.first() {
        Some(Intent::Perform(Effect::Call(
            CallToken { what: CallPurpose::Completion(ticket), .. },
            CallRequest { target: CallTarget::Complete(params), .. },
        ))) => (params.clone(), *ticket),
        other => panic!("{other:?}"),
    }
}

/// A tool whose schema holds numbers that a double does not.
fn exact_tool() -> CallScreen {
    let text = r#"{"type":"object","required":["big","way"],"properties":{
        "big":{"type":"integer","default":123456789012345678901234567890},
        "way":{"enum":[1e3,1e-400]},
        "far":{"type":"number","default":1e400},
        "n":{"type":"number"}}}"#;
    let WrittenValue { value, numbers } = WrittenValue::parse(text).expect("JSON");
    let subject = CallSubject { numbers, ..subject(SubjectKind::Tool, "add", value) };
    CallScreen::new(subject, &History::default(), Timestamp(1_000_000))
}

fn written_of(intents: &[Intent]) -> Option<String> {
    intents.iter().find_map(|intent| match intent {
        Intent::Perform(Effect::Call(_, request)) => request.written.clone(),
        _ => None,
    })
}

#[test]
fn numbers_of_a_schema_and_typed_ones_are_shown_and_sent_as_they_are_written() {
    let mut screen = exact_tool();
    let shown = drawn(&mut screen, 120, 20);
    for number in ["123456789012345678901234567890", "1e3", "1e-400", "default 1e400"] {
        assert!(shown.contains(number), "{number}: {shown}");
    }
    screen.form.select_place("/way");
    let way = screen.form.cursor();
    screen.form.step(way, 1);
    screen.form.step(way, 1);
    screen.form.select_place("/n");
    press(&mut screen, "2.50e1");
    let sent = r#"{"big":123456789012345678901234567890,"way":1e-400,"n":2.50e1}"#;
    let intents = intents_of(|out| screen.apply(Action::Send, out));
    assert_eq!(written_of(&intents).as_deref(), Some(sent));
    // A zero that was typed is none of the numbers of the schema.
    screen.form.select_place("/n");
    screen.form.replace_text("0.0");
    let intents = intents_of(|out| screen.apply(Action::Send, out));
    assert!(written_of(&intents).is_some_and(|it| it.ends_with(r#""n":0.0}"#)), "{intents:?}");
    screen.form.replace_text("2.50e1");
    // The same by JSON, by hand, and made again.
    let pick = CallPick::Export(Export::Arguments);
    let copied = format!("{:?}", intents_of(|out| screen.picked(pick, out)));
    assert!(copied.contains("2.50e1") && copied.contains("34567890,"), "{copied}");
    let again = format!("{{\"way\": 1e3, \"big\": {}}}", "123456789012345678901234567890");
    screen.form.enter_json();
    screen.form.replace_text(&again);
    assert!(!screen.form.has_broken_json(), "{}", screen.form.json_text());
    assert!(screen.form.json_text().contains("34567890"), "{}", screen.form.json_text());
    let intents = intents_of(|out| screen.apply(Action::Send, out));
    let sent = r#"{"way":1e3,"big":123456789012345678901234567890}"#;
    assert_eq!(written_of(&intents).as_deref(), Some(sent));
    // What nobody can keep is refused rather than rounded.
    screen.form.replace_text("{\"big\": 123456789012345678901234567891}");
    assert!(screen.form.has_broken_json());
}

#[test]
fn typing_the_fields_and_enter_on_the_last_line_calls() {
    let mut screen = screen(sum());
    let intents = press(&mut screen, "2<enter>3.5<enter><enter>");
    assert_eq!(call_of(&intents), Some((json!({"a": 2, "b": 3.5}), Validation::Enforce)));
    assert!(matches!(&intents[0], Intent::Perform(Effect::Record(HistoryRecord::Began { .. }))));
    assert_eq!(screen.in_flight(), 1);
    let records = intents_of(|out| {
        screen.ended(
            1,
            Ok(outcome(json!({"content": [{"type": "text", "text": "5.5"}]}), false)),
            out,
        );
    });
    assert!(
        matches!(&records[0], Intent::Perform(Effect::Record(HistoryRecord::Ended { outcome, .. })) if outcome == "ok")
    );
    assert!(drawn(&mut screen, 100, 24).contains("12 ms + 48.0 s waiting for you"));
}

#[test]
fn a_form_with_problems_is_sent_only_on_purpose() {
    let mut screen = screen(sum());
    let refused = pressed(&mut screen, "2<f5>");
    assert_eq!(call_of(&refused.intents), None);
    assert!(warned(&refused).contains("not sent; "));
    let shown = drawn(&mut screen, 100, 24);
    assert_eq!(shown.matches('⚠').count(), 2, "at the field, and how many there are: {shown}");
    let intents = press(&mut screen, "<f8>");
    assert_eq!(call_of(&intents), Some((json!({"a": 2}), Validation::Force)));
}

#[test]
fn text_that_is_no_number_is_never_sent_not_even_on_purpose() {
    let mut screen = screen(sum());
    let refused = pressed(&mut screen, "2x<f8>");
    assert_eq!(call_of(&refused.intents), None);
    assert_eq!(warned(&refused), "Invalid value; not sent");
}

#[test]
fn every_ending_reads_differently_and_says_what_to_do() {
    let mut seen = std::collections::HashSet::new();
    let endings: Vec<Result<CallOutcome, Error>> = vec![
        Ok(outcome(json!({"content": []}), false)),
        Ok(outcome(json!({"content": []}), true)),
        Err(Error::new(ErrorCode::Timeout, "no answer in 30 s")),
        Err(Error::new(ErrorCode::Cancelled, "cancelled")),
        Err(Error::new(ErrorCode::Protocol, "the answer is not JSON-RPC")),
        Err(Error::new(ErrorCode::Validation, "does not fit")),
        Err(Error::new(ErrorCode::ServerUnavailable, "exit code 1")),
    ];
    for ending in endings {
        let mut screen = screen(json!({"type": "object"}));
        press(&mut screen, "<f5>");
        intents_of(|out| screen.ended(1, ending, out));
        let ending = screen.run().and_then(super::CallRun::ending).expect("ended");
        assert!(ending.good || !ending.next.is_empty());
        assert!(seen.insert(ending.words));
        // Nothing is cut off, however many rows it takes.
        let shown = drawn(&mut screen, 120, 30);
        let words: Vec<&str> = shown.split_whitespace().collect();
        let next: Vec<&str> = ending.next.split_whitespace().collect();
        let whole = next.is_empty() || words.windows(next.len()).any(|part| part == next);
        assert!(whole, "{}\n{shown}", ending.next);
    }
}

#[test]
fn several_calls_run_at_once_and_each_can_be_cancelled() {
    let mut screen = screen(json!({"type": "object"}));
    press(&mut screen, "<f5><f6><f5>");
    assert_eq!(screen.in_flight(), 2);
    screen.progress(
        2,
        Progress {
            call: CallId(1),
            progress: 3.0,
            total: Some(4.0),
            message: Some(SafeText::line("step")),
        },
        Timestamp(2_000_000),
    );
    assert!(drawn(&mut screen, 100, 24).contains("75 %"));
    assert_eq!(
        press(&mut screen, "<ctrl-x>"),
        [Intent::Perform(Effect::CancelCall(screen.token(CallPurpose::Run(2))))]
    );
    assert_eq!(
        press(&mut screen, "[<ctrl-x>"),
        [Intent::Perform(Effect::CancelCall(screen.token(CallPurpose::Run(1))))]
    );
    intents_of(|out| screen.ended(1, Err(Error::new(ErrorCode::Cancelled, "cancelled")), out));
    assert_eq!(screen.in_flight(), 1);
}

#[test]
fn an_error_of_the_server_is_said_once_and_what_does_not_fit_is_reported() {
    let mut error = Error::new(ErrorCode::Protocol, "the server answered with error 7: no paper");
    let data: Vec<String> = (0..90).map(|tray| format!("tray {tray} is empty")).collect();
    error.rpc = Some(config::error::RpcError {
        code: Some(7),
        message: "no paper".to_owned(),
        data: Some(json!(data)),
    });
    let mut screen = screen(json!({"type": "object"}));
    press(&mut screen, "<f5>");
    intents_of(|out| screen.ended(1, Err(error.help("feed it")), out));
    let shown = drawn(&mut screen, 60, 24);
    assert_eq!(shown.matches("no paper").count(), 1, "{shown}");
    assert!(shown.contains("feed it") && shown.contains("tray 0 is empty"), "{shown}");
    assert!(shown.contains("the rest is among the messages"), "{shown}");
}

#[test]
fn structured_content_that_is_missing_is_reported_where_its_tab_would_be() {
    let mut outcome = outcome(json!({"content": [{"type": "text", "text": "warm"}]}), false);
    outcome.output_violations = vec![config::error::Violation {
        pointer: String::new(),
        message: "no `structuredContent`".to_owned(),
        keyword: "required".to_owned(),
    }];
    let mut screen = screen(json!({"type": "object"}));
    press(&mut screen, "<f5>");
    intents_of(|out| screen.ended(1, Ok(outcome), out));
    let shown = drawn(&mut screen, 80, 24);
    assert!(shown.contains("content  raw  ⚠ no `structuredContent`"), "{shown}");
}

#[test]
fn what_is_found_beside_a_good_result_stands_in_its_header() {
    use protocol::{Finding, FindingKind};
    let mut outcome = outcome(json!({"content": [{"type": "text", "text": "warm"}]}), false);
    outcome.waiting = Duration::ZERO;
    outcome.findings = ["id 1 came back as a string", "no `jsonrpc`"]
        .map(|text| Finding::new(FindingKind::Malformed, Timestamp(0), text))
        .into();
    let mut screen = screen(json!({"type": "object"}));
    press(&mut screen, "<f5>");
    intents_of(|out| screen.ended(1, Ok(outcome), out));
    let shown = drawn(&mut screen, 80, 24);
    assert!(shown.contains("✓ 12 ms  ⚠ id 1 came back as a string; and 1 more"), "{shown}");
}

#[test]
fn a_call_that_was_not_sent_does_not_claim_that_it_was() {
    for is_sent in [false, true] {
        let mut error = Error::new(ErrorCode::ServerUnavailable, "there is no server `memory`");
        error.sent = is_sent;
        let mut screen = screen(json!({"type": "object"}));
        press(&mut screen, "<f5>");
        intents_of(|out| screen.ended(1, Err(error), out));
        let shown = drawn(&mut screen, 80, 24);
        assert_eq!(shown.contains("not sent ├"), !is_sent, "{shown}");
        assert!(shown.contains("sent ├"), "{shown}");
    }
    let mut kept = outcome(json!({"content": []}), false);
    kept.source = AnswerSource::Cache(Duration::from_secs(5));
    let mut screen = screen(json!({"type": "object"}));
    press(&mut screen, "<f5>");
    intents_of(|out| screen.ended(1, Ok(kept), out));
    let shown = drawn(&mut screen, 80, 24);
    assert!(shown.contains("not sent ├"), "{shown}");
}

#[test]
fn a_file_that_cannot_be_read_is_asked_for_again_with_what_was_typed() {
    let mut screen = screen(json!({"type": "object", "properties": {"t": {"type": "string"}}}));
    let pick = CallPick::Line(LinePrompt::File, "~/none.txt".to_owned());
    intents_of(|out| screen.picked(pick, out));
    let why = SafeText::line("no such file");
    let again = intents_of(|out| screen.file_unread(why.clone(), out));
    let asked = Intent::AskLineAgain(LinePrompt::File, "~/none.txt".to_owned(), why);
    assert_eq!(again, [asked]);
}

#[test]
fn a_check_mark_stands_only_for_a_check() {
    let result = json!({"content": [{"type": "text", "text": "{}"}], "structuredContent": {}});
    for is_checked in [false, true] {
        let mut outcome = outcome(result.clone(), false);
        outcome.output_checked = is_checked;
        let mut screen = screen(json!({"type": "object"}));
        press(&mut screen, "<f5>");
        intents_of(|out| screen.ended(1, Ok(outcome), out));
        let shown = drawn(&mut screen, 80, 24);
        assert!(shown.contains("structured"), "{shown}");
        assert_eq!(shown.contains("structured ✓"), is_checked, "{shown}");
    }
}

#[test]
fn u4_a_half_filled_form_comes_back_and_an_interrupted_call_is_not_sent_again() {
    let mut first = screen(sum());
    let mut history = History::default();
    for intent in press(&mut first, "7<f8><esc>8<esc>") {
        if let Intent::Perform(Effect::Record(record)) = intent {
            history.apply(&record);
        }
    }
    // The program was killed here, so the call never ended.
    let subject = first.subject.clone();
    let mut second = CallScreen::new(subject, &history, Timestamp(9));
    assert_eq!(second.form.arguments(), json!({"a": 8}), "what was called with is replaced");
    assert_eq!(second.in_flight(), 0);
    let past = history.calls_of(&second.subject.key())[0].clone();
    assert_eq!(past.outcome, None, "nobody knows how it ended");
    second.take_past(past.arguments);
    assert_eq!(second.form.arguments(), json!({"a": 7}));
}

#[test]
fn a_call_is_saved_and_copied_as_others_would_make_it() {
    let mut screen = screen(json!({"type": "object", "properties": {"t": {"type": "string"}}}));
    let line = press(&mut screen, "it's<ctrl-s>");
    assert_eq!(line, [Intent::AskLine(LinePrompt::Name, String::new())]);
    let pick = CallPick::Line(LinePrompt::Name, "mine".to_owned());
    let intents = intents_of(|out| screen.picked(pick, out));
    let Some(Intent::Perform(Effect::SaveCall(name, call, _))) = intents.last() else {
        panic!("{intents:?}")
    };
    assert_eq!((name.as_str(), call.arguments_value()), ("mine", json!({"t": "it's"})));
    let Some(Intent::Choose(_, ways)) = press(&mut screen, "<ctrl-y>").pop() else { panic!() };
    assert_eq!(ways.len(), Export::ALL.len(), "curl needs an address, and there is the entry");
    let pick = CallPick::Export(Export::CommandLine);
    let intents = intents_of(|out| screen.picked(pick, out));
    let expected = r#"mcpdeck call memory.add '{"t":"it'\''s"}'"#;
    assert_eq!(intents, [Intent::Perform(Effect::Copy(expected.to_owned()))]);
    let arguments = json!({"t": 1}).into();
    let written = WrittenCall {
        subject: &screen.subject,
        arguments: &arguments,
        uri: "",
        validation: Validation::Enforce,
        origin: &ExportOrigin::default(),
    };
    let wire = Export::JsonRpc.text(&written);
    let wire: Value = serde_json::from_str(&wire).expect("JSON");
    assert_eq!(wire["params"], json!({"name": "add", "arguments": {"t": 1}}));
    let python = Export::Python.text(&written);
    assert!(python.contains(r#"shlex.split("npx -y server-memory")"#), "{python}");
    assert!(python.contains(r#"session.call_tool("add", json.loads("{\"t\":1}"))"#), "{python}");
    let script = Export::TypeScript.text(&written);
    assert!(script.contains(r#"client.callTool({ name: "add", arguments: {"t":1} })"#), "{script}");
    let subject =
        CallSubject { target: SafeText::line("https://a.example/mcp"), ..written.subject.clone() };
    let curl = Export::Curl.text(&WrittenCall { subject: &subject, ..written });
    assert!(curl.starts_with("curl -sS https://a.example/mcp -H "), "{curl}");
    let origin = ExportOrigin {
        start: Start::Files(vec!["my deck/mcp.json".into()]),
        ..ExportOrigin::default()
    };
    let forced = WrittenCall { validation: Validation::Force, origin: &origin, ..written };
    let line = Export::CommandLine.text(&forced);
    let expected = r#"mcpdeck call --config 'my deck/mcp.json' --force memory.add '{"t":1}'"#;
    assert_eq!(line, expected);
    assert_eq!(quoted("$(touch x)"), "'$(touch x)'");
}

#[test]
fn a_prompt_asks_for_completions_after_a_pause_and_ignores_late_ones() {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}, "other": {"type": "string"}}});
    let subject = subject(SubjectKind::Prompt, "greet", schema);
    let mut screen = CallScreen::new(subject, &History::default(), Timestamp(0));
    assert_eq!(press(&mut screen, "Os"), []);
    assert_eq!(intents_of(|out| screen.tick(Timestamp(2_100_000), out)), []);
    let completions = intents_of(|out| screen.tick(Timestamp(2_200_000), out));
    let (params, ticket) = completion(&completions);
    assert_eq!(params["ref"], json!({"type": "ref/prompt", "name": "greet"}));
    assert_eq!(params["argument"], json!({"name": "city", "value": "Os"}));
    let answer = json!({"completion": {"values": ["Oslo"]}});
    screen.suggested(ticket - 1, &answer);
    assert!(screen.suggestions.is_empty());
    screen.suggested(ticket, &answer);
    assert!(drawn(&mut screen, 80, 20).contains("Oslo"));
    press(&mut screen, "<ctrl-space>");
    assert_eq!(screen.form.arguments(), json!({"city": "Oslo"}));
}

#[test]
fn the_first_field_is_completed_before_a_key_and_another_with_what_stands_in_it() {
    let fields = json!({"city": {"type": "string"}, "street": {"type": "string"}});
    let schema = json!({"type": "object", "properties": fields});
    let subject = subject(SubjectKind::Template, "map://{city}/{street}", schema);
    let mut screen = CallScreen::new(subject, &History::default(), Timestamp(0));
    let completions = intents_of(|out| screen.tick(Timestamp(200_000), out));
    let (params, ticket) = completion(&completions);
    let reference = json!({"type": "ref/resource", "uri": "map://{city}/{street}"});
    let first = json!({"ref": reference, "argument": {"name": "city", "value": ""}});
    assert_eq!(params, first);
    screen.suggested(ticket, &json!({"completion": {"values": ["Oslo"]}}));
    press(&mut screen, "<ctrl-space><down>");
    let completions = intents_of(|out| screen.tick(Timestamp(9_000_000), out));
    let (params, _) = completion(&completions);
    assert_eq!(params["argument"], json!({"name": "street", "value": ""}));
    assert_eq!(params["context"], json!({"arguments": {"city": "Oslo"}}));
}

#[test]
fn a_template_is_read_with_the_uri_it_expands_to() {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}, "q": {"type": "string"}}});
    let subject = subject(SubjectKind::Template, "demo://files/{+path}{?q}", schema);
    let mut screen = CallScreen::new(subject, &History::default(), Timestamp(0));
    let intents = press(&mut screen, "a/b c<enter>x&y<f5>");
    assert_eq!(call_of(&intents).map(|c| c.0), Some(json!("demo://files/a/b%20c?q=x%26y")));
}

#[test]
fn templates_expand_as_rfc_6570_says() {
    let values = json!({"var": "value", "hello": "Hello World!", "path": "/foo/bar", "list": ["red", "green", "blue"],
        "keys": {"semi": ";", "dot": "."}, "x": "1024", "y": "768", "empty": ""});
    for (template, expected) in [
        ("{var}", "value"),
        ("{hello}", "Hello%20World%21"),
        ("{+path}/here", "/foo/bar/here"),
        ("{#x,hello}", "#1024,Hello%20World!"),
        ("X{.var}", "X.value"),
        ("{/var,x}/here", "/value/1024/here"),
        ("{;x,y,empty}", ";x=1024;y=768;empty"),
        ("{?x,y,empty}", "?x=1024&y=768&empty="),
        ("?fixed=yes{&x}", "?fixed=yes&x=1024"),
        ("{var:3}", "val"),
        ("{list}", "red,green,blue"),
        ("{/list*}", "/red/green/blue"),
        ("{?list*}", "?list=red&list=green&list=blue"),
        ("{keys}", "semi,%3B,dot,."),
        ("{?keys*}", "?semi=%3B&dot=."),
        ("{undef}", ""),
        ("{?undef}", ""),
        ("{+hello}", "Hello%20World!"),
    ] {
        assert_eq!(expand(template, &values).as_deref(), Ok(expected), "{template}");
    }
    for broken in ["{", "}", "{}", "{a", "{!x}", "{a:b}", "a}b{c}", "{,}"] {
        assert!(expand(broken, &values).is_err(), "{broken}");
        assert!(variables(broken).is_err());
    }
}

#[test]
fn the_call_screen_reads_well() {
    let schema = json!({"type": "object", "required": ["entities"], "properties": {"entities": {"type": "array", "items":
        {"type": "object", "required": ["name", "entityType"], "properties": {"name": {"type": "string"}, "entityType": {"type": "string"}}}}}});
    let mut screen = screen(schema);
    press(&mut screen, "<down><enter>Ada<tab>person");
    press(&mut screen, "<f5>");
    intents_of(|out| {
        screen.ended(1, Ok(outcome(json!({"content": [{"type": "text", "text": "[{\"name\":\"Ada\"}]"}], "structuredContent": {"n": 1}}), false)), out);
    });
    insta::assert_snapshot!(drawn(&mut screen, 96, 26));
}

#[test]
fn drawing_never_panics_at_any_size() {
    let mut screen = screen(sum());
    press(&mut screen, "2<f8>");
    intents_of(|out| {
        screen.ended(
            1,
            Ok(outcome(json!({"content": [{"type": "text", "text": "x"}]}), false)),
            out,
        );
    });
    for width in (0..170).step_by(7) {
        for height in 0..30 {
            drawn(&mut screen, width, height);
        }
    }
}

#[test]
fn a_call_shows_what_happens_while_it_runs_and_where_its_time_went() {
    let mut screen = screen(sum());
    press(&mut screen, "2<f8>");
    let step = Progress {
        call: CallId(1),
        progress: 1.0,
        total: Some(2.0),
        message: Some(SafeText::line("half way")),
    };
    screen.progress(1, step, Timestamp(1_000_000));
    screen.log(&SafeText::line("found it"), Timestamp(1_500_000));
    let mut view = waiting_call();
    screen.follow(1, &view, vec![ask(1, "sampling")], Timestamp(2_000_000));
    let running = drawn(&mut screen, 100, 24);
    for part in ["1 of 2 · half way", "found it", "asks you", "sent ├", "sampling: you", "▶"] {
        assert!(running.contains(part), "{part}: {running}");
    }
    (view.is_waiting, view.waiting) = (false, Duration::from_secs(3));
    screen.follow(1, &view, Vec::new(), Timestamp(5_000_000));
    let waits = screen.runs[0].waits(Timestamp(9_000_000));
    assert_eq!(waits.len(), 1);
    assert_eq!((waits[0].0, waits[0].1), (Timestamp(2_000_000), Timestamp(5_000_000)));
    intents_of(|out| screen.ended(1, Ok(outcome(json!({"content": []}), false)), out));
    let ended = drawn(&mut screen, 100, 24);
    assert!(ended.contains("sent ├") && ended.contains('┤'), "{ended}");
}

/// A call that waits for the user.
fn waiting_call() -> host::CallView {
    host::CallView {
        id: CallId(1),
        server: ServerName::new("memory"),
        method: "tools/call".into(),
        target: SafeText::line("add"),
        started: Timestamp(0),
        waiting: Duration::ZERO,
        is_waiting: true,
        progress: None,
    }
}

fn ask(id: u64, what: &str) -> CallAsk {
    let says = SafeText::line(&format!("question {id}?"));
    CallAsk { id: ApprovalId(id), what: SafeText::line(what), says }
}

#[test]
fn a_call_that_waits_with_several_requests_names_each_and_says_how_many_are_left() {
    let mut screen = screen(sum());
    press(&mut screen, "2<f8>");
    let view = waiting_call();
    let all = [ask(1, "elicitation"), ask(2, "sampling"), ask(3, "roots")];
    screen.follow(1, &view, all.to_vec(), Timestamp(2_000_000));
    let shown = drawn(&mut screen, 100, 24);
    for part in [
        "3 requests wait for you",
        "elicitation",
        "sampling",
        "roots  question 3?",
        "3 requests: you",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    screen.follow(1, &view, all[1..].to_vec(), Timestamp(3_000_000));
    let shown = drawn(&mut screen, 100, 24);
    assert!(shown.contains("2 more wait") && shown.contains("2 requests wait for you"), "{shown}");
    screen.follow(1, &view, all[2..].to_vec(), Timestamp(4_000_000));
    let shown = drawn(&mut screen, 100, 24);
    assert!(shown.contains("1 more waits") && shown.contains("  waiting for you"), "{shown}");
    let waits = screen.runs[0].waits(Timestamp(9_000_000));
    assert_eq!(waits.len(), 1, "one time of waiting, not three on top of each other");
}

#[test]
fn a_call_that_the_user_cancelled_says_so_and_how_long_it_ran() {
    let mut screen = screen(sum());
    press(&mut screen, "2<f8><ctrl-x>");
    screen.now_is(Timestamp(3_600_000));
    let records = intents_of(|out| {
        screen.ended(1, Err(Error::new(ErrorCode::Cancelled, "by the caller")), out);
    });
    let ended = drawn(&mut screen, 100, 24);
    assert!(ended.contains("cancelled by you after 1.6 s"), "{ended}");
    assert!(!ended.contains("by the caller"), "{ended}");
    let millis = records.iter().find_map(|record| match record {
        Intent::Perform(Effect::Record(HistoryRecord::Ended { millis, .. })) => Some(*millis),
        _ => None,
    });
    assert_eq!(millis, Some(1600));
}

#[test]
fn a_result_is_shared_in_the_way_that_is_chosen_and_the_last_one_is_offered_first() {
    let mut screen = screen(sum());
    press(&mut screen, "2<f8>");
    let text = "<b>3</b> & more";
    let result = json!({"content": [{"type": "text", "text": text}]});
    intents_of(|out| screen.ended(1, Ok(outcome(result, false)), out));
    let offered = |screen: &mut CallScreen| match press(screen, "y").pop() {
        Some(Intent::Choose(_, ways)) => ways,
        other => panic!("{other:?}"),
    };
    let first = |ways: &[Choice]| ways.first().map(|way| way.words.to_string());
    assert_eq!(first(&offered(&mut screen)).as_deref(), Some("the value under the cursor"));
    let value = intents_of(|out| screen.picked(CallPick::Value, out));
    assert_eq!(value, [Intent::Perform(Effect::Copy(text.to_owned()))]);
    let page = intents_of(|out| screen.picked(CallPick::Page, out)).pop();
    let Some(Intent::Perform(Effect::Save { name, content })) = page else { panic!("a page") };
    assert_eq!(name.to_str(), Some("memory-add.html"));
    let page = String::from_utf8(content).expect("text");
    assert!(
        page.contains("&lt;b&gt;3&lt;/b&gt; &amp; more") && page.contains("mcpdeck call"),
        "{page}"
    );
    assert!(!page.contains("<b>") && !page.contains("<script") && !page.contains("href"), "{page}");
    screen.shared = Some(CallPick::Page);
    assert_eq!(first(&offered(&mut screen)).as_deref(), Some("HTML page with the result"));
}
