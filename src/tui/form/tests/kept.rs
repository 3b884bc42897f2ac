//! What must not happen to what was typed, chosen or pasted.

use super::*;
use schema::SchemaDocument;

fn shapes() -> Value {
    json!({"required": ["shape"], "properties": {"shape": {"oneOf": [
        {"title": "Circle", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind"]},
        {"title": "Box", "properties": {"kind": {"const": "box"}, "w": {"type": "number"}}, "required": ["kind"]},
        {"title": "Cone", "properties": {"kind": {"const": "cone"}, "h": {"type": "number"}}, "required": ["kind"]}]}}})
}

fn alternative(form: &FormState) -> &str {
    let RowKind::Choice { titles, active, .. } = &form.rows()[0].kind else { panic!("a choice") };
    titles[*active].as_str()
}

#[test]
fn undo_brings_back_the_alternative_with_its_value() {
    let mut form = form(shapes());
    let before = form.arguments();
    form.choose(0, 1);
    assert_eq!(alternative(&form), "Box");
    assert!(form.apply(Action::Undo));
    assert_eq!((alternative(&form), form.arguments()), ("Circle", before));
    assert_eq!(form.blocking(), 0, "{:?}", form.problems());
}

#[test]
fn the_best_match_of_what_is_typed_is_chosen_among_alternatives() {
    let mut form = form(shapes());
    form.choose(0, 2);
    form.select(0);
    press(&mut form, "b<enter>");
    assert_eq!(alternative(&form), "Box");
}

#[test]
fn an_entry_outlives_a_backspace_too_many_while_its_name_is_typed() {
    let schema = json!({"additionalProperties": {"type": "integer"}});
    let mut form = FormState::with_value(&Arc::new(schema), Some(json!({"k": 1})));
    form.select_place("/k");
    form.apply(Action::Rename);
    press(&mut form, "<backspace><backspace><backspace>new<enter>");
    assert_eq!(form.arguments(), json!({"new": 1}));
}

#[test]
fn a_value_too_large_to_be_edited_as_json_is_not_replaced_by_the_note_that_says_so() {
    let value = json!({"a": "x".repeat(2 << 20)});
    let schema = json!({"properties": {"a": {"type": "string"}}});
    let mut form = FormState::with_value(&Arc::new(schema), Some(value.clone()));
    form.apply(Action::Json);
    press(&mut form, "x\"");
    assert!(form.arguments() == value, "{:.80}", form.json_text());
    assert!(screen(&form, 100, 10).contains("too large"));
}

#[test]
fn what_is_pasted_narrows_the_list_of_choices() {
    let options: Vec<String> = (0..50).map(|n| format!("option-{n}")).collect();
    let mut form = form(json!({"properties": {"c": {"enum": options}, "s": {"type": "string"}}}));
    form.apply(Action::Open);
    form.paste("option-37\n");
    press(&mut form, "<enter>");
    assert_eq!(form.arguments(), json!({"c": "option-37"}));
    // Without a list it opens one, as a letter does.
    form.select(0);
    form.paste("option-21");
    assert!(form.popup_is_open());
    press(&mut form, "<enter>");
    assert_eq!(form.arguments(), json!({"c": "option-21"}));
    let mut form = super::form(shapes());
    form.paste("Cone");
    press(&mut form, "<enter>");
    assert_eq!(alternative(&form), "Cone");
}

#[test]
fn json_from_an_editor_that_does_not_parse_is_kept_with_its_error() {
    let schema = json!({"properties": {"list": {"type": "array", "items": {"type": "integer"}}}});
    let mut form = FormState::with_value(&Arc::new(schema), Some(json!({"list": [1]})));
    form.select(0);
    let (text, _) = form.field_for_editor().expect("a value");
    form.replace_text(&text.replace(']', ", 2, "));
    assert!(form.has_drafts());
    let (kept, _) = form.field_for_editor().expect("text");
    assert!(kept.contains("2, "), "{kept}");
    form.replace_text("[1, 2]");
    assert_eq!((form.arguments(), form.has_drafts()), (json!({"list": [1, 2]}), false));
}

#[test]
fn alternatives_that_lead_to_each_other_do_not_hold_up_a_draft() {
    let pair = json!({"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]});
    let schema = json!({"properties": {"pin": {"type": "string", "writeOnly": true}, "x": {"$ref": "#/$defs/a"}},
        "$defs": {"a": pair, "b": pair}});
    let value = json!({"pin": "1234", "x": {"y": 1}});
    let form = FormState::with_value(&Arc::new(schema), Some(value));
    assert_eq!(form.draft().value, json!({"x": {"y": 1}}));
}

#[test]
fn a_list_of_any_length_and_of_entries_of_any_width_is_drawn() {
    let options: Vec<String> = (0..65_535).map(|n| format!("o{n}")).collect();
    for options in [options, vec!["é".repeat(65_535), "o0 or o5".to_owned()]] {
        let mut form = form(json!({"properties": {"c": {"enum": options}}}));
        form.apply(Action::Open);
        let drawn = screen(&form, 80, 24);
        assert!(drawn.contains("o0") && drawn.contains("o5"), "{drawn}");
    }
}

#[test]
fn a_changed_schema_leaves_the_cursor_in_the_text_that_is_typed() {
    let schema = |more: &str| {
        let fields = [more, "a", "b"].map(|name| (name.to_owned(), json!({"type": "string"})));
        Arc::new(json!({"properties": fields.into_iter().collect::<serde_json::Map<_, _>>()}))
    };
    let mut form = FormState::new(&schema("x"), Defaults::Required);
    press(&mut form, "<tab><tab>hello");
    form.redefine(SchemaDocument::new(&schema("y")));
    press(&mut form, "!");
    assert_eq!(form.arguments(), json!({"b": "hello!"}));
    form.apply(Action::Json);
    press(&mut form, "<backspace>");
    form.redefine(SchemaDocument::new(&schema("z")));
    press(&mut form, "}");
    assert_eq!((form.arguments(), form.has_drafts()), (json!({"b": "hello!"}), false));
}

/// A form that was closed with these contents, opened again.
fn next_time(schema: &Value, value: Value) -> FormState {
    let mut form = form(schema.clone());
    form.take_up(value.into());
    form
}

#[test]
fn what_is_left_from_last_time_is_marked_and_the_first_character_replaces_it() {
    let schema =
        json!({"properties": {"duration": {"type": "integer"}, "name": {"type": "string"}}});
    let mut form = next_time(&schema, json!({"duration": 30, "name": "person"}));
    let drawn = screen(&form, 90, 12);
    assert!(
        drawn.contains("typing replaces it") && drawn.contains("person  ↺ last time"),
        "{drawn}"
    );
    press(&mut form, "40");
    assert_eq!(form.arguments()["duration"], 40);
    assert!(!screen(&form, 90, 12).contains("typing replaces it"));
    press(&mut form, "<tab>");
    form.paste("Ada");
    assert_eq!(form.arguments()["name"], "Ada");
    form.apply(Action::Undo);
    assert_eq!(form.arguments()["name"], "person");
}

#[test]
fn a_cursor_key_keeps_what_is_left_from_last_time() {
    let schema = json!({"properties": {"name": {"type": "string"}}});
    let mut form = next_time(&schema, json!({"name": "person"}));
    assert!(form.type_key(KeyCode::End.into()));
    assert!(!screen(&form, 60, 12).contains("last time"), "the user took it over");
    press(&mut form, "s");
    assert_eq!(form.arguments()["name"], "persons");
    let mut form = next_time(&schema, json!({"name": "person"}));
    press(&mut form, "<backspace>");
    assert_eq!(form.arguments(), json!({"name": ""}));
}

#[test]
fn what_a_form_begins_with_anyway_and_what_was_changed_is_not_from_last_time() {
    let schema = json!({"required": ["n"], "properties": {"n": {"type": "integer", "default": 3}}});
    let mut form = next_time(&schema, json!({"n": 3}));
    assert!(!form.is_from_last_time("/n"));
    press(&mut form, "1");
    assert_eq!(form.arguments()["n"], 31);
    form.mark_as_last_time();
    assert!(form.is_from_last_time("/n"));
    form.confirm_all();
    press(&mut form, "2");
    assert_eq!(form.arguments()["n"], 312);
}

#[test]
fn the_hint_of_the_field_is_whole_and_shows_an_example_instead_of_the_pattern() {
    let schema = json!({"properties": {
        "code": {"type": "string", "pattern": "^[A-Z]{3}$", "description": "Where it starts. ".repeat(6)},
        "to": {"type": "string", "pattern": "^[A-Z]{3}$"}, "at": {"type": "string", "format": "date"}}});
    let mut form = form(schema);
    let drawn = screen(&form, 60, 16);
    let words = drawn.replace("▎", "");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("e.g. ABC") && words.matches("Where it starts.").count() == 6,
        "{drawn}"
    );
    assert!(drawn.contains("date · e.g. 2026-11-26") && !drawn.contains("[A-Z]"), "{drawn}");
    press(&mut form, "x");
    assert!(screen(&form, 60, 16).contains("must look like ABC"), "{}", screen(&form, 60, 16));
}

#[test]
fn what_nobody_would_see_is_visible_while_it_is_typed() {
    let mut form = form(json!({"properties": {"t": {"type": "string"}, "u": {}}}));
    form.paste("evil\u{202e}\u{1b}[31mred");
    let drawn = screen(&form, 60, 10);
    assert!(
        drawn.contains("evil⟨RLO⟩␛[31mred") && drawn.contains("hidden in it: RLO, ESC"),
        "{drawn}"
    );
    assert_eq!(form.arguments()["t"], "evil\u{202e}\u{1b}[31mred", "it is sent as it was pasted");
    press(&mut form, "<backspace>");
    assert_eq!(form.arguments()["t"], "evil\u{202e}\u{1b}[31mre");
}
