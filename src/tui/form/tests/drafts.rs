//! Half-typed text stays with its place whatever else is done to the form, and the part of it that
//! happened to be a value never replaces it.

use super::*;

fn numbers() -> FormState {
    let mut form = form(json!({"properties": {
        "n": {"type": "integer"}, "t": {"type": "string"},
        "list": {"type": "array", "items": {"type": "integer"}}}}));
    press(&mut form, "12x");
    assert!(form.has_drafts());
    form
}

/// The text shown in the field of a place.
fn shown(form: &mut FormState, at: &str) -> String {
    form.select_place(at);
    form.field_for_editor().map(|(text, _)| text).unwrap_or_default()
}

#[test]
fn taking_something_else_back_keeps_it() {
    let mut form = numbers();
    press(&mut form, "<tab>word");
    form.apply(Action::Undo);
    assert_eq!(form.arguments().get("t"), None, "what was typed last is taken back as a whole");
    assert!(form.has_drafts());
    assert_eq!(shown(&mut form, "/n"), "12x");
}

#[test]
fn taking_back_what_was_done_after_typing_keeps_what_was_typed() {
    let mut form = numbers();
    form.select_place("/t");
    press(&mut form, "before");
    form.add_item("/list");
    form.select_place("/t");
    press(&mut form, " and after");
    form.apply(Action::Undo);
    assert_eq!(form.arguments()["t"], "before");
    assert_eq!(form.arguments()["list"].as_array().map(Vec::len), Some(1));
    form.apply(Action::Undo);
    assert_eq!((form.arguments().get("list"), &form.arguments()["t"]), (None, &json!("before")));
}

#[test]
fn editing_the_json_keeps_it_where_the_json_says_the_same() {
    let mut form = numbers();
    form.apply(Action::Json);
    form.replace_text(r#"{"n": 12, "t": "more"}"#);
    assert!(form.has_drafts(), "12x is still no number");
    form.replace_text(r#"{"n": 13, "t": "more"}"#);
    assert!(!form.has_drafts());
    assert_eq!(form.arguments(), json!({"n": 13, "t": "more"}));
}

/// A list `[1, 2, 3]` with `2x` typed in the second item.
fn list() -> FormState {
    let mut form = numbers();
    form.set_value(Some(json!({"list": [1, 2, 3]})));
    form.select_place("/list/1");
    press(&mut form, "x");
    assert_eq!(shown(&mut form, "/list/1"), "2x");
    form
}

#[test]
fn it_goes_with_its_item() {
    let mut form = list();
    form.move_item("/list/1", -1);
    assert_eq!(shown(&mut form, "/list/0"), "2x");
    assert_eq!(shown(&mut form, "/list/1"), "1");
    let mut form = list();
    form.remove("/list/0");
    assert_eq!(shown(&mut form, "/list/0"), "2x");
    assert_eq!(shown(&mut form, "/list/1"), "3");
    let mut form = list();
    form.duplicate("/list/0");
    assert_eq!(shown(&mut form, "/list/1"), "1");
    assert_eq!(shown(&mut form, "/list/2"), "2x");
    let mut form = list();
    form.duplicate("/list/1");
    assert_eq!(shown(&mut form, "/list/1"), "2x");
    assert_eq!(shown(&mut form, "/list/2"), "2x", "a copy is a copy of what is seen");
    let mut form = list();
    form.remove("/list/1");
    assert!(!form.has_drafts());
    assert_eq!(form.arguments()["list"], json!([1, 3]));
}

#[test]
fn it_goes_with_the_key_that_is_renamed() {
    let mut form = form(json!({"additionalProperties": {"type": "integer"}}));
    form.add_key("", "a");
    form.select_place("/a");
    press(&mut form, "7x");
    assert!(form.rename("/a", "b/c"));
    assert_eq!(shown(&mut form, "/b~1c"), "7x");
    assert!(form.has_drafts());
}

#[test]
fn another_shape_drops_it_with_the_part_that_was_a_value() {
    let mut form = form(json!({"properties": {"u": {"oneOf": [
        {"title": "A", "type": "object", "properties": {"n": {"type": "integer"}}},
        {"title": "B", "type": "object", "properties": {"n": {"type": "integer"}, "m": {}}}]}}}));
    form.fold(1, false);
    form.select_place("/u/n");
    press(&mut form, "5x");
    assert_eq!(form.arguments(), json!({"u": {"n": 5}}));
    form.choose(0, 1);
    assert_ne!(form.arguments().pointer("/u/n"), Some(&json!(5)), "5x was never 5");
    assert!(!form.has_drafts());
}

#[test]
fn a_field_is_not_turned_into_json_over_it() {
    let mut form = numbers();
    form.apply(Action::AsJson);
    assert!(form.has_drafts());
    assert_eq!(shown(&mut form, "/n"), "12x");
}

#[test]
fn a_variant_that_was_left_does_not_come_back_in_another_item() {
    let variants = json!({"oneOf": [
        {"title": "A", "type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}},
        {"title": "B", "type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}}]});
    let mut form = form(json!({"properties": {"list": {"type": "array", "items": variants}}}));
    form.set_value(Some(json!({"list": [{"a": "first"}, {"b": "second"}]})));
    let variant = |form: &FormState, at: &str| {
        let is_it = |row: &FormRow| row.pointer == at && matches!(row.kind, RowKind::Choice { .. });
        form.rows().iter().position(is_it).expect("its line")
    };
    form.fold(0, false);
    let row = variant(&form, "/list/0");
    form.choose(row, 1);
    form.remove("/list/0");
    let row = variant(&form, "/list/0");
    form.choose(row, 0);
    assert_eq!(form.arguments().pointer("/list/0/a"), None, "{}", form.arguments());
}

#[test]
fn what_reports_variants_apart_is_there_as_soon_as_something_is_typed_in_one() {
    let shape = |kind: &str, size: &str| {
        json!({"title": kind, "type": "object", "required": ["kind", size], "properties": {
            "kind": {"const": kind}, size: {"type": "number"}}})
    };
    let schema = json!({"properties": {"shape": {"oneOf": [shape("Circle", "r"), shape("Square", "side")]}}});
    let mut form = form(schema);
    assert!(screen(&form, 60, 10).contains("▸ Circle"), "{}", screen(&form, 60, 10));
    form.fold(1, false);
    form.select_place("/shape/r");
    press(&mut form, "2");
    assert_eq!(form.arguments(), json!({"shape": {"kind": "Circle", "r": 2}}));
    assert_eq!(form.blocking(), 0, "{:?}", form.problems());
    form.unset("/shape");
    form.choose(0, 1);
    form.unset("/shape");
    form.select_place("/shape/side");
    press(&mut form, "3");
    assert_eq!(form.arguments(), json!({"shape": {"kind": "Square", "side": 3}}));
}
