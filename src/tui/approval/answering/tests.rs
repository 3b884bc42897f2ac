//! Key handling of the answer screen.

use crate::action::Action;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent};
use serde_json::{Value, json};

use super::*;
use crate::intent::Intent;
use base::{ServerName, Timestamp};
use protocol::RpcCode;

mod form;

fn answering(kind: RequestKind, params: Value) -> AnswerScreen {
    AnswerScreen::new(Arc::new(ApprovalRequest {
        id: ApprovalId(1),
        server: ServerName::new("s"),
        kind,
        call: None,
        candidates: vec![],
        during: None,
        bytes: params.to_string().len(),
        params: Arc::new(params),
        arrived: Timestamp(0),
        deadline: Timestamp(60_000_000),
        deferred: false,
        input: None,
    }))
}

fn sampling() -> AnswerScreen {
    let message = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    answering(RequestKind::Sampling, json!({"messages": [message], "maxTokens": 5}))
}

fn url(raw: &str) -> AnswerScreen {
    answering(RequestKind::UrlElicitation, json!({"mode": "url", "message": "sign in", "url": raw}))
}

fn typed(answering: &mut AnswerScreen, text: &str) {
    for character in text.chars() {
        let code = if character == '\n' { KeyCode::Enter } else { KeyCode::Char(character) };
        answering.type_key(KeyEvent::from(code), false);
    }
}

/// Runs the checks that are too slow for the UI thread.
fn check(answering: &mut AnswerScreen) {
    while let Some(job) = answering.pending_check() {
        effect(|out| answering.checked(job.run(), true, out));
    }
}

/// Does something; returns the effect that it requested, if there is one.
pub(super) fn effect(act: impl FnOnce(&mut Out)) -> Option<Effect> {
    let mut out = Out::default();
    act(&mut out);
    out.intents.into_iter().find_map(|intent| match intent {
        Intent::Perform(effect) => Some(effect),
        _ => None,
    })
}

/// Performs an action; returns the effect that it requested, if there is one.
pub(super) fn press(answering: &mut AnswerScreen, action: Action) -> Option<Effect> {
    effect(|out| answering.apply(action, out))
}

#[expect(clippy::ref_option, reason = "what a key came to, as it comes")]
fn sent(outcome: &Option<Effect>) -> &Value {
    match outcome {
        Some(Effect::Order(Order::Answer(_, Answer::Result(result)))) => result,
        other => panic!("expected a result, got {other:?}"),
    }
}

#[test]
fn typed_text_is_sent_as_a_completion_and_enter_is_only_a_line_break() {
    let mut answering = sampling();
    typed(&mut answering, "Hi!\nBye");
    let outcome = press(&mut answering, Action::Send);
    assert_eq!(sent(&outcome)["content"]["text"], "Hi!\nBye");
    assert_eq!(sent(&outcome)["model"], "manual");
}

/// Whether the open form shows what is wrong in it.
fn shows_a_problem(answering: &AnswerScreen) -> bool {
    answering.open_form().is_some_and(|form| form.blocking() > 0)
}

#[test]
fn an_empty_answer_is_not_sent_and_says_why() {
    let mut answering = sampling();
    assert_eq!(press(&mut answering, Action::Send), None);
    assert!(shows_a_problem(&answering));
}

#[test]
fn saying_no_asks_for_a_reason_first_and_sends_it() {
    let mut answering = sampling();
    assert_eq!(press(&mut answering, Action::Deny), None);
    typed(&mut answering, "not today");
    let refusal = Answer::Refuse { code: RpcCode::USER_REJECTED, message: "not today".into() };
    assert_eq!(
        press(&mut answering, Action::Send),
        Some(Effect::Order(Order::Answer(ApprovalId(1), refusal)))
    );
}

#[test]
fn editing_as_json_and_back_keeps_what_was_written() {
    let mut answering = sampling();
    typed(&mut answering, "Hi!");
    press(&mut answering, Action::Json);
    answering.replace_text(&answering.text().replace("Hi!", "Ho!"));
    assert_eq!(sent(&press(&mut answering, Action::Send))["content"]["text"], "Ho!");
    press(&mut answering, Action::Json);
    assert_eq!(answering.text(), "Ho!");
}

#[test]
fn broken_json_is_never_sent() {
    let mut answering = sampling();
    press(&mut answering, Action::Json);
    answering.replace_text("{\"role\": ");
    assert_eq!(press(&mut answering, Action::Send), None);
    assert!(shows_a_problem(&answering));
}

#[test]
fn a_url_is_opened_only_by_the_second_press_in_a_row() {
    let mut answering = url("https://auth.example.com/x");
    assert_eq!(press(&mut answering, Action::Send), None);
    assert!(answering.notice.as_deref().is_some_and(|notice| notice.contains("auth.example.com")));
    press(&mut answering, Action::Down);
    assert_eq!(press(&mut answering, Action::Send), None, "something came between");
    let Some(Effect::OpenUrl(_, url)) = press(&mut answering, Action::Send) else {
        panic!("the second press opens it");
    };
    assert_eq!(url.as_str(), "https://auth.example.com/x");
    assert_eq!(sent(&effect(|out| answering.visited(Ok(()), out))), &json!({"action": "accept"}));
}

#[test]
fn a_url_that_must_not_be_opened_never_is() {
    let mut answering = url("javascript:alert(1)");
    for _ in 0..3 {
        assert_eq!(press(&mut answering, Action::Send), None);
    }
    assert_eq!(sent(&press(&mut answering, Action::Deny)), &json!({"action": "decline"}));
}

#[test]
fn a_withdrawn_request_is_not_answered_and_its_draft_stays() {
    let mut answering = sampling();
    typed(&mut answering, "almost");
    answering.end(SafeText::line("the server withdrew it"));
    for command in [Action::Send, Action::Deny, Action::CancelRequest] {
        assert_eq!(press(&mut answering, command), None);
    }
    answering.type_key(KeyEvent::from(KeyCode::Char('x')), false);
    answering.paste("x");
    assert_eq!(answering.text(), "almost");
    assert!(answering.has_draft());
    // Text from an editor that was open meanwhile is neither lost nor sent.
    answering.replace_text("almost done");
    assert_eq!(answering.text(), "almost done");
    assert_eq!(press(&mut answering, Action::Send), None);
}

#[test]
fn a_whole_result_that_is_pasted_is_the_answer_and_other_json_is_text() {
    let content = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let whole = json!({"role": "assistant", "model": "m", "content": content});
    let mut answering = sampling();
    answering.paste(&whole.to_string());
    assert_eq!(sent(&press(&mut answering, Action::Send)), &whole);
    let again = json!({"role": "assistant", "model": "n", "content": content});
    answering.paste(&format!("\n{again}\n"));
    assert_eq!(sent(&press(&mut answering, Action::Send)), &again, "in place of the one before");
    let mut answering = sampling();
    answering.paste("{\"role\": \"assistant\"}");
    assert_eq!(answering.text(), "{\"role\": \"assistant\"}");
    answering.paste(&whole.to_string());
    assert!(answering.text().starts_with("{\"role\": \"assistant\"}{"), "not over a text");
}

#[test]
fn a_guarded_call_is_let_through_or_refused() {
    let ask = || answering(RequestKind::Guard, json!({"tool": "run", "violations": []}));
    assert_eq!(sent(&press(&mut ask(), Action::Send)), &json!({"action": "accept"}));
    let mut refused = ask();
    press(&mut refused, Action::Deny);
    assert!(matches!(
        press(&mut refused, Action::Send),
        Some(Effect::Order(Order::Answer(_, Answer::Refuse { message, .. }))) if message == "the user declined"
    ));
}

#[test]
fn five_hundred_fields_are_edited_as_json() {
    let properties: serde_json::Map<String, Value> =
        (0..500).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
    let params = json!({"message": "", "requestedSchema": {"type": "object",
        "properties": properties}});
    let mut answering = answering(RequestKind::Elicitation, params);
    assert_eq!(answering.open_form().map(FormState::json), Some(JsonView::Focused));
    answering.replace_text("{\"f1\": \"x\"}");
    check(&mut answering);
    assert_eq!(sent(&press(&mut answering, Action::Send))["content"], json!({"f1": "x"}));
}

#[test]
fn a_page_that_no_browser_opens_is_accepted_only_when_the_person_says_so() {
    let mut answering = url("https://auth.example.com/x");
    press(&mut answering, Action::Send);
    assert!(matches!(press(&mut answering, Action::Send), Some(Effect::OpenUrl(..))));
    let failed = Err(SafeText::line("no browser could be started"));
    assert_eq!(effect(|out| answering.visited(failed, out)), None);
    assert_eq!(answering.text(), "https://auth.example.com/x", "to be copied");
    assert_eq!(sent(&press(&mut answering, Action::Send)), &json!({"action": "accept"}));
}

#[test]
fn model_and_stop_reason_are_fields_of_the_answer_behind_more() {
    let mut answering = sampling();
    typed(&mut answering, "Hi");
    press(&mut answering, Action::NextField);
    press(&mut answering, Action::Open);
    press(&mut answering, Action::NextField);
    typed(&mut answering, " 2");
    press(&mut answering, Action::NextField);
    typed(&mut answering, "!");
    let result = sent(&press(&mut answering, Action::Send)).clone();
    assert_eq!(result["model"], "manual 2");
    assert_eq!(result["stopReason"], "endTurn!");
}

fn with_tools() -> AnswerScreen {
    let schema = json!({"type": "object", "required": ["a"],
        "properties": {"a": {"type": "integer"}}});
    let tools = json!([{"name": "add", "description": "adds", "inputSchema": schema}]);
    answering(
        RequestKind::Sampling,
        json!({"messages": [], "maxTokens": 5, "tools": tools, "toolChoice": {"mode": "required"}}),
    )
}

#[test]
fn a_tool_call_is_filled_in_as_a_form_and_goes_out_as_a_block() {
    let mut answering = with_tools();
    answering.begin_tool(0);
    assert_eq!(press(&mut answering, Action::Send), None);
    assert!(shows_a_problem(&answering), "a required field is missing");
    typed(&mut answering, "7");
    press(&mut answering, Action::Send);
    assert!(answering.over.is_none());
    let result = sent(&press(&mut answering, Action::Send)).clone();
    let block = json!({"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 7}});
    assert_eq!((&result["content"], &result["stopReason"]), (&json!([block]), &json!("toolUse")));
    press(&mut answering, Action::RemoveItem);
    assert_eq!(press(&mut answering, Action::Send), None, "nothing is left of the answer");
}

#[test]
fn a_tool_call_stands_behind_the_text_and_text_alone_goes_out_bare() {
    let mut answering = with_tools();
    typed(&mut answering, "I add.");
    assert_eq!(sent(&press(&mut answering, Action::Send))["content"]["text"], "I add.");
    answering.begin_tool(0);
    typed(&mut answering, "7");
    press(&mut answering, Action::Send);
    let result = sent(&press(&mut answering, Action::Send)).clone();
    assert_eq!(result["content"][0], json!({"type": "text", "text": "I add."}));
    assert_eq!(result["content"][1]["id"], "call_1");
}

#[test]
fn enter_at_the_end_of_a_form_decides_nothing_but_takes_a_tool_call_in() {
    let mut tool = with_tools();
    tool.begin_tool(0);
    typed(&mut tool, "7");
    press(&mut tool, Action::LastField);
    press(&mut tool, Action::Open);
    assert!(tool.over.is_none(), "the call is in the answer");
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let params = json!({"message": "?", "requestedSchema": schema});
    let mut form = answering(RequestKind::Elicitation, params);
    press(&mut form, Action::LastField);
    assert_eq!(press(&mut form, Action::Open), None);
    assert!(form.notice.as_deref().is_some_and(|notice| notice.contains("{send}")));
}

#[test]
fn the_request_can_be_edited_for_reading_and_drafting_and_stays_what_it_was_on_the_wire() {
    let mut answering = sampling();
    press(&mut answering, Action::EditRequest);
    assert!(matches!(answering.over, Some((Over::Request, _))));
    answering.replace_text("{");
    press(&mut answering, Action::Send);
    assert!(shows_a_problem(&answering) && answering.over.is_some(), "broken JSON is not taken");
    answering.replace_text("{\"messages\": [], \"maxTokens\": 9}");
    assert_eq!(press(&mut answering, Action::Send), None, "this key takes the edit, no more");
    assert!(answering.is_edited());
    assert_eq!(
        (&answering.params["maxTokens"], &answering.request.params["maxTokens"]),
        (&json!(9), &json!(5))
    );
    press(&mut answering, Action::EditRequest);
    let original = answering.request.params.to_string();
    answering.replace_text(&original);
    press(&mut answering, Action::EditRequest);
    assert!(!answering.is_edited());
}

#[test]
fn a_draft_of_a_model_fills_the_answer_and_a_person_sends_it() {
    let mut answering = sampling();
    answering.drafting = Drafting::Asked;
    let result = json!({"role": "assistant", "model": "m1", "stopReason": "maxTokens",
        "content": {"type": "text", "text": "about to\u{1b}[2J say"}});
    answering.drafted(Ok((SafeText::line("m1"), result)));
    assert_eq!(answering.drafting, Drafting::By(SafeText::line("m1")));
    assert!(!answering.text().contains('\u{1b}'), "what is seen is what is sent");
    let sent = sent(&press(&mut answering, Action::Send)).clone();
    assert_eq!((&sent["model"], &sent["stopReason"]), (&json!("m1"), &json!("maxTokens")));
}

#[test]
fn a_draft_that_comes_too_late_or_not_at_all_changes_nothing() {
    let mut late = sampling();
    typed(&mut late, "mine");
    late.drafting = Drafting::Asked;
    late.end(SafeText::line("gone"));
    late.drafted(Ok((SafeText::line("m1"), json!({}))));
    assert_eq!(late.text(), "mine");
    let mut failed = sampling();
    failed.drafting = Drafting::Asked;
    failed.drafted(Err(SafeText::line("too tired")));
    assert_eq!((failed.drafting, failed.notice.as_deref()), (Drafting::No, Some("too tired")));
}

#[test]
fn kept_answers_of_this_kind_and_server_are_offered_and_fill_the_draft() {
    use deck::{AnswerReply, Answers, AskedKind, ScriptedAnswer};
    let kept = |name: &str, server: Option<&str>, kind, reply| ScriptedAnswer {
        name: Some(name.into()),
        server: server.map(str::to_owned),
        kind: Some(kind),
        matches: None,
        times: None,
        reply,
    };
    let (completion, form) = (AskedKind::Sampling, AskedKind::Elicitation);
    let answers = vec![
        kept("polite", Some("s"), completion, AnswerReply::Text("Certainly.".into())),
        kept("other", Some("t"), completion, AnswerReply::Text("No.".into())),
        kept("form", None, form, AnswerReply::Accept(json!({"n": 1}))),
        kept("no", None, completion, AnswerReply::Refuse("no".into())),
    ];
    let answers = Answers { answers, ..Answers::default() };
    let mut answering = sampling();
    let offers = answering.offers(&answers, None);
    let names: Vec<&str> = offers.iter().map(|offer| offer.name.as_str()).collect();
    assert_eq!(names[0], "polite");
    assert!(!names.contains(&"other") && !names.contains(&"form") && !names.contains(&"no"));
    assert!(names.iter().any(|name| name.contains("repeated")));
    answering.take_result(&offers[0].result);
    assert_eq!(answering.text(), "Certainly.");
    assert_eq!(sent(&press(&mut answering, Action::Send))["model"], "scripted");
}

#[test]
fn an_answer_is_kept_under_a_name_and_nothing_is_sent() {
    let mut answering = sampling();
    answering.ask_for_name();
    assert!(answering.over.is_none(), "an empty answer cannot be kept");
    typed(&mut answering, "Hi");
    answering.ask_for_name();
    assert_eq!(press(&mut answering, Action::Send), None, "it needs a name");
    typed(&mut answering, "greeting");
    let Some(Effect::KeepAnswer(kept, _)) = press(&mut answering, Action::Send) else {
        panic!("it is kept");
    };
    let deck::AnswerReply::Result(result) = &kept.reply else { panic!("a result") };
    assert_eq!(kept.name.as_deref(), Some("greeting"));
    assert_eq!(result["content"]["text"], json!("Hi"));
    assert!(answering.over.is_none() && answering.stage == AnsweringStage::Open);
}

#[test]
fn escape_closes_the_innermost_thing_first() {
    let mut answering = with_tools();
    answering.begin_tool(0);
    assert!(answering.back() && answering.over.is_none());
    answering.begin_tool(0);
    typed(&mut answering, "7");
    press(&mut answering, Action::Deny);
    assert!(matches!(answering.over, Some((Over::Tool(_), _))), "what is filled in is not lost");
    assert!(answering.back() && answering.over.is_none());
    press(&mut answering, Action::Deny);
    assert!(answering.back() && answering.over.is_none());
    assert!(!answering.back(), "now the screen itself");
}
