//! What keys do to a request being answered.

use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};
use serde_json::{Value, json};

use super::*;
use crate::config::ServerName;
use crate::host::Timestamp;

fn desk(kind: RequestKind, params: Value) -> AnswerDesk {
    AnswerDesk::new(Arc::new(PendingRequest {
        id: ApprovalId(1),
        server: ServerName::new("s"),
        kind,
        call: None,
        during: None,
        bytes: params.to_string().len(),
        params: Arc::new(params),
        arrived: Timestamp(0),
        deadline: Timestamp(60_000_000),
        deferred: false,
    }))
}

fn sampling() -> AnswerDesk {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    desk(RequestKind::Sampling, json!({"messages": [message], "maxTokens": 5}))
}

fn url(raw: &str) -> AnswerDesk {
    desk(RequestKind::UrlElicitation, json!({"mode": "url", "message": "sign in", "url": raw}))
}

fn typed(desk: &mut AnswerDesk, text: &str) {
    for character in text.chars() {
        let code = if character == '\n' { KeyCode::Enter } else { KeyCode::Char(character) };
        assert!(desk.type_key(KeyEvent::from(code)));
    }
}

fn sent(outcome: &Outcome) -> &Value {
    match outcome {
        Outcome::Send(Answer::Result(result)) => result,
        other => panic!("expected a result, got {other:?}"),
    }
}

#[test]
fn typed_text_is_sent_as_a_completion_and_enter_is_only_a_line_break() {
    let mut desk = sampling();
    typed(&mut desk, "Hi!\nBye");
    let outcome = desk.apply(AnswerCommand::Send);
    assert_eq!(sent(&outcome)["content"]["text"], "Hi!\nBye");
    assert_eq!(sent(&outcome)["model"], "by hand");
}

#[test]
fn an_empty_answer_is_not_sent_and_says_why() {
    let mut desk = sampling();
    assert_eq!(desk.apply(AnswerCommand::Send), Outcome::Stay);
    assert!(desk.notice.as_deref().is_some_and(|notice| notice.contains("write an answer")));
}

#[test]
fn saying_no_asks_for_a_reason_first_and_sends_it() {
    let mut desk = sampling();
    assert_eq!(desk.apply(AnswerCommand::Deny), Outcome::Stay);
    typed(&mut desk, "not today");
    let refusal = Answer::Refuse { code: -1, message: "not today".into() };
    assert_eq!(desk.apply(AnswerCommand::Send), Outcome::Send(refusal));
}

#[test]
fn editing_as_json_and_back_keeps_what_was_written() {
    let mut desk = sampling();
    typed(&mut desk, "Hi!");
    desk.apply(AnswerCommand::Raw);
    assert!(desk.text().contains("\"Hi!\""));
    assert_eq!(sent(&desk.apply(AnswerCommand::Send))["stopReason"], "endTurn");
    desk.apply(AnswerCommand::Raw);
    assert_eq!(desk.text(), "Hi!");
}

#[test]
fn broken_json_is_never_sent() {
    let mut desk = sampling();
    desk.apply(AnswerCommand::Raw);
    desk.replace_text("{\"role\": ");
    assert_eq!(desk.apply(AnswerCommand::Send), Outcome::Stay);
    assert!(desk.notice.is_some());
}

#[test]
fn an_elicitation_is_accepted_declined_or_cancelled_in_the_words_of_the_specification() {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "Ada"}}, "required": ["name"]});
    let ask = || {
        desk(
            RequestKind::Elicitation,
            json!({"message": "who?", "requestedSchema": schema.clone()}),
        )
    };
    let accepted = ask().apply(AnswerCommand::Send);
    assert_eq!(sent(&accepted), &json!({"action": "accept", "content": {"name": "Ada"}}));
    assert_eq!(sent(&ask().apply(AnswerCommand::Deny)), &json!({"action": "decline"}));
    assert_eq!(sent(&ask().apply(AnswerCommand::Cancel)), &json!({"action": "cancel"}));
}

#[test]
fn a_form_with_a_problem_is_not_sent_and_the_cursor_goes_there() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "required": ["n"]});
    let params = json!({"message": "how many?", "requestedSchema": schema});
    let mut desk = desk(RequestKind::Elicitation, params);
    assert_eq!(desk.apply(AnswerCommand::Send), Outcome::Stay);
    assert!(desk.notice.is_some());
    typed(&mut desk, "7");
    assert_eq!(sent(&desk.apply(AnswerCommand::Send))["content"], json!({"n": 7}));
}

#[test]
fn a_url_is_opened_only_by_the_second_press_in_a_row() {
    let mut desk = url("https://auth.example.com/x");
    assert_eq!(desk.apply(AnswerCommand::Send), Outcome::Stay);
    assert!(desk.notice.as_deref().is_some_and(|notice| notice.contains("auth.example.com")));
    desk.apply(AnswerCommand::Scroll(1));
    assert_eq!(desk.apply(AnswerCommand::Send), Outcome::Stay, "something came between");
    let Outcome::Visit(url, Answer::Result(result)) = desk.apply(AnswerCommand::Send) else {
        panic!("the second press opens it");
    };
    assert_eq!((url.as_str(), result), ("https://auth.example.com/x", json!({"action": "accept"})));
}

#[test]
fn a_url_that_must_not_be_opened_never_is() {
    let mut desk = url("javascript:alert(1)");
    for _ in 0..3 {
        assert_eq!(desk.apply(AnswerCommand::Send), Outcome::Stay);
    }
    assert_eq!(sent(&desk.apply(AnswerCommand::Deny)), &json!({"action": "decline"}));
}

#[test]
fn a_withdrawn_request_is_not_answered_and_its_draft_stays() {
    let mut desk = sampling();
    typed(&mut desk, "almost");
    desk.end(SafeText::line("the server took it back"));
    for command in [AnswerCommand::Send, AnswerCommand::Deny, AnswerCommand::Cancel] {
        assert_eq!(desk.apply(command), Outcome::Stay);
    }
    assert!(!desk.type_key(KeyEvent::from(KeyCode::Char('x'))));
    assert_eq!(desk.text(), "almost");
    assert!(desk.has_draft());
}

#[test]
fn a_guarded_call_is_let_through_or_refused() {
    let ask = || desk(RequestKind::Guard, json!({"tool": "run", "violations": []}));
    assert_eq!(sent(&ask().apply(AnswerCommand::Send)), &json!({"action": "accept"}));
    let mut refused = ask();
    refused.apply(AnswerCommand::Deny);
    assert!(matches!(
        refused.apply(AnswerCommand::Send),
        Outcome::Send(Answer::Refuse { message, .. }) if message == "the user declined"
    ));
}

#[test]
fn five_hundred_fields_are_edited_as_json() {
    let properties: serde_json::Map<String, Value> =
        (0..500).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
    let params = json!({"message": "", "requestedSchema": {"type": "object",
        "properties": properties}});
    let mut desk = desk(RequestKind::Elicitation, params);
    assert!(matches!(desk.draft, Draft::Raw(_)));
    desk.replace_text("{\"f1\": \"x\"}");
    assert_eq!(sent(&desk.apply(AnswerCommand::Send))["content"], json!({"f1": "x"}));
}
