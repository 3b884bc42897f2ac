//! Key handling of the form of an elicitation.

use serde_json::{Value, json};

use super::*;

#[test]
fn an_elicitation_is_accepted_declined_or_cancelled_in_the_words_of_the_specification() {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string", "default": "Ada"}}, "required": ["name"]});
    let ask = || {
        answering(
            RequestKind::Elicitation,
            json!({"message": "who?", "requestedSchema": schema.clone()}),
        )
    };
    let accepted = press(&mut ask(), Action::Send);
    assert_eq!(sent(&accepted), &json!({"action": "accept", "content": {"name": "Ada"}}));
    assert_eq!(sent(&press(&mut ask(), Action::Deny)), &json!({"action": "decline"}));
    assert_eq!(sent(&press(&mut ask(), Action::CancelRequest)), &json!({"action": "cancel"}));
}

#[test]
fn a_form_with_a_problem_is_not_sent_and_the_cursor_goes_there() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}},
        "required": ["n"]});
    let params = json!({"message": "how many?", "requestedSchema": schema});
    let mut answering = answering(RequestKind::Elicitation, params);
    assert_eq!(press(&mut answering, Action::Send), None);
    assert!(shows_a_problem(&answering));
    typed(&mut answering, "7");
    assert_eq!(sent(&press(&mut answering, Action::Send))["content"], json!({"n": 7}));
}

fn form(properties: Value) -> AnswerScreen {
    let schema = json!({"type": "object", "properties": properties});
    answering(RequestKind::Elicitation, json!({"message": "?", "requestedSchema": schema}))
}

#[test]
fn what_only_looks_wrong_is_pointed_out_once_and_accepted_by_the_second_press_in_a_row() {
    let mut answering = form(json!({"mail": {"type": "string", "format": "email"}}));
    typed(&mut answering, "nobody");
    assert_eq!(press(&mut answering, Action::Send), None);
    let notice = answering.notice.clone().unwrap_or_default();
    assert!(notice.contains("mail: ") && notice.contains("again to accept"), "{notice}");
    typed(&mut answering, "@");
    assert_eq!(press(&mut answering, Action::Send), None, "something came between");
    let accepted = press(&mut answering, Action::Send);
    assert_eq!(sent(&accepted)["content"], json!({"mail": "nobody@"}));
}

#[test]
fn the_cursor_goes_to_what_keeps_a_form_back_not_to_what_only_looks_wrong() {
    let mut answering = form(json!({"mail": {"type": "string", "format": "email"},
        "n": {"type": "integer", "maximum": 5}}));
    typed(&mut answering, "nobody");
    press(&mut answering, Action::NextField);
    typed(&mut answering, "7");
    assert_eq!(press(&mut answering, Action::Send), None);
    assert_eq!(
        answering.open_form().and_then(|form| form.current()).map(|row| &*row.pointer),
        Some("/n")
    );
}

#[test]
fn a_schema_nobody_can_check_can_still_be_answered_on_purpose() {
    let mut answering = form(json!({"n": {"type": "string", "pattern": "("}}));
    typed(&mut answering, "x");
    assert_eq!(press(&mut answering, Action::Send), None);
    let notice = answering.notice.clone().unwrap_or_default();
    assert!(notice.contains("cannot be checked"), "{notice}");
    assert_eq!(sent(&press(&mut answering, Action::Send))["content"], json!({"n": "x"}));
}

#[test]
fn a_schema_that_is_too_large_to_check_at_every_key_is_checked_before_it_is_sent() {
    let titled: Vec<Value> = (0..400)
        .map(|n| json!({"const": format!("c{n}"), "title": format!("Choice {n}")}))
        .collect();
    let one = json!({"pick": {"type": "string", "oneOf": titled}, "n": {"type": "integer"}});
    let schema = json!({"type": "object", "properties": one, "required": ["n"]});
    let mut answering =
        answering(RequestKind::Elicitation, json!({"message": "?", "requestedSchema": schema}));
    assert_eq!(press(&mut answering, Action::Send), None, "it is not checked yet");
    let job = answering.pending_check().expect("work for another thread");
    assert_eq!(
        effect(|out| answering.checked(job.run(), true, out)),
        None,
        "a required field is missing"
    );
    assert!(shows_a_problem(&answering));
}

#[test]
fn a_form_edited_as_json_is_an_object_or_is_not_sent() {
    let many: serde_json::Map<String, Value> =
        (0..300).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
    let mut answering = form(Value::Object(many));
    answering.replace_text("[1]");
    check(&mut answering);
    assert_eq!(press(&mut answering, Action::Send), None);
    answering.replace_text("{\"f1\": \"x\"}");
    check(&mut answering);
    assert_eq!(sent(&press(&mut answering, Action::Send))["content"], json!({"f1": "x"}));
}
