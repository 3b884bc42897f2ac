//! What must not happen to what was typed, chosen or pasted.

use super::*;

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
    form.redefine(&schema("y"));
    press(&mut form, "!");
    assert_eq!(form.arguments(), json!({"b": "hello!"}));
    form.apply(Action::Json);
    press(&mut form, "<backspace>");
    form.redefine(&schema("z"));
    press(&mut form, "}");
    assert_eq!((form.arguments(), form.has_drafts()), (json!({"b": "hello!"}), false));
}
