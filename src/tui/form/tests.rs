//! Guarantees of a form: nothing is lost or changed, problems are shown at their place.

use crate::action::Action;
use std::sync::Arc;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use proptest::prelude::*;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::{Value, json};

use super::draw::Styles;
use super::*;
use schema::Defaults;

mod drafts;
mod kept;
mod script;
mod unions;

fn form(schema: Value) -> FormState {
    FormState::new(&Arc::new(schema), Defaults::Required)
}

/// Presses keys as a user would: text is typed, `<name>` is a key or an action.
fn press(form: &mut FormState, script: &str) {
    script::press(form, script);
}

fn screen(form: &FormState, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buf = Buffer::empty(area);
    draw::form(form, &Styles::default(), "Call", area, &mut buf);
    let line = |y: u16| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>();
    (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
}

#[test]
fn an_array_of_objects_is_filled_field_by_field() {
    let schema = json!({"type": "object", "required": ["entities"], "properties": {
        "entities": {"type": "array", "items": {"type": "object",
            "required": ["name", "entityType", "observations"], "properties": {
            "name": {"type": "string"}, "entityType": {"type": "string"},
            "observations": {"type": "array", "items": {"type": "string"}}}}}}});
    let mut form = form(schema);
    press(&mut form, "<down><enter>Ada<tab>person<tab><tab><enter>wrote notes");
    assert_eq!(
        form.arguments(),
        json!({"entities": [{"name": "Ada", "entityType": "person", "observations": ["wrote notes"]}]})
    );
    assert_eq!(form.blocking(), 0, "{:?}", form.problems());
}

#[test]
fn unset_null_and_empty_are_three_things() {
    let schema = json!({"properties": {"a": {"type": ["string", "null"]}}});
    let mut form = form(schema);
    assert_eq!(form.arguments(), json!({}));
    form.apply(Action::SetEmpty);
    assert_eq!(form.arguments(), json!({"a": ""}));
    form.apply(Action::SetNull);
    assert_eq!(form.arguments(), json!({"a": null}));
    form.apply(Action::Unset);
    assert_eq!(form.arguments(), json!({}));
    press(&mut form, "x<backspace>");
    assert_eq!(form.arguments(), json!({"a": ""}));
    press(&mut form, "<backspace>");
    assert_eq!(form.arguments(), json!({}));
}

#[test]
fn text_in_a_number_field_is_refused_at_the_field_and_nothing_is_sent_in_its_place() {
    let mut form = form(json!({"properties": {"n": {"type": "integer"}}, "required": ["n"]}));
    press(&mut form, "12");
    assert_eq!(form.arguments(), json!({"n": 12}));
    press(&mut form, "abc");
    assert!(form.has_drafts());
    assert_eq!(form.problem_at(0).map(|p| p.weight), Some(check::Weight::Draft));
    press(&mut form, "<backspace><backspace><backspace>");
    assert!(!form.has_drafts());
    assert_eq!(form.arguments(), json!({"n": 12}));
    for refused in ["12345678901234567890123", "0x10", "1,5", "1e999", "NaN", "--1"] {
        form.apply(Action::Unset);
        press(&mut form, refused);
        assert!(form.has_drafts(), "{refused}");
    }
    form.apply(Action::Unset);
    press(&mut form, "18446744073709551615");
    assert_eq!(form.arguments(), json!({"n": 18_446_744_073_709_551_615_u64}));
}

#[test]
fn a_variant_is_recognised_chosen_and_comes_back_as_it_was() {
    let schema = json!({"properties": {"shape": {"oneOf": [
        {"title": "Circle", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"title": "Box", "properties": {"kind": {"const": "box"}, "w": {"type": "number"}}, "required": ["kind", "w"]}
    ]}}, "required": ["shape"]});
    let value = json!({"shape": {"kind": "box", "w": 2}});
    let mut form = FormState::with_value(&Arc::new(schema), Some(value.clone()));
    let RowKind::Choice { active, titles, .. } = &form.rows()[0].kind else { panic!("a choice") };
    assert_eq!((*active, titles[1].as_str()), (1, "Box"));
    form.choose(0, 0);
    assert_eq!(form.arguments()["shape"]["kind"], "circle");
    form.choose(0, 1);
    assert_eq!(form.arguments(), value);
}

#[test]
fn recursive_schemas_unfold_as_far_as_a_person_goes() {
    let schema = json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/n"}}, "$defs": {"n":
        {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/n"}}, "next": {"$ref": "#/$defs/n"}}}}});
    let mut form = form(schema);
    assert_eq!(form.rows().len(), 1);
    press(&mut form, "<enter><tab>a<tab><enter><tab><enter>b");
    assert_eq!(form.arguments(), json!({"root": {"name": "a", "children": [{"name": "b"}]}}));
    let endless =
        json!({"type": "object", "required": ["next"], "properties": {"next": {"$ref": "#"}}});
    assert!(FormState::new(&Arc::new(endless), Defaults::Required).rows().len() < 50);
}

#[test]
fn what_the_schema_does_not_describe_is_kept_shown_and_removable() {
    let schema = json!({"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}});
    let mut form = FormState::with_value(&Arc::new(schema), Some(json!({"a": "x", "k": 1})));
    assert!(form.rows().iter().any(|row| row.pointer == "/k"));
    let add = form.rows().iter().position(|row| matches!(row.kind, RowKind::AddKey));
    form.select(add.expect("entries can be added"));
    press(&mut form, "new<enter>7");
    assert_eq!(form.arguments(), json!({"a": "x", "k": 1, "new": 7}));
    form.select_place("/k");
    form.apply(Action::Rename);
    press(&mut form, "2<enter>");
    assert_eq!(form.arguments(), json!({"a": "x", "k2": 1, "new": 7}));
    form.select_place("/k2");
    form.apply(Action::RemoveItem);
    assert_eq!(form.arguments(), json!({"a": "x", "new": 7}));
}

#[test]
fn an_entry_is_added_to_a_map_that_is_folded() {
    let mut form = form(
        json!({"properties": {"map": {"type": "object", "additionalProperties": {"type": "integer"}}}}),
    );
    assert!(form.apply(Action::AddItem));
    press(&mut form, "k1<enter>7");
    assert_eq!(form.arguments(), json!({"map": {"k1": 7}}));
}

#[test]
fn items_are_moved_duplicated_and_removed() {
    let schema = json!({"properties": {"l": {"type": "array", "items": {"type": "string"}}}});
    let mut form = FormState::with_value(&Arc::new(schema), Some(json!({"l": ["a", "b", "c"]})));
    form.select_place("/l/0");
    assert!(form.apply(Action::MoveDown));
    assert_eq!(form.arguments(), json!({"l": ["b", "a", "c"]}));
    assert_eq!(form.current().map(|row| row.pointer.as_str()), Some("/l/1"));
    assert!(form.apply(Action::DuplicateItem));
    assert!(form.apply(Action::MoveDown));
    assert_eq!(form.arguments(), json!({"l": ["b", "a", "c", "a"]}));
    assert!(form.apply(Action::RemoveItem));
    assert_eq!(form.arguments(), json!({"l": ["b", "a", "c"]}));
    assert!(form.apply(Action::Undo));
    assert_eq!(form.arguments(), json!({"l": ["b", "a", "c", "a"]}));
}

#[test]
fn the_gravest_problem_is_gone_to_even_where_the_cursor_is() {
    let number = json!({"type": "number"});
    let schema =
        json!({"properties": {"a": number, "b": number, "c": number}, "required": ["a", "b", "c"]});
    let mut form = form(schema);
    form.select(1);
    press(&mut form, "abc");
    assert!(form.go_to_gravest());
    assert_eq!(form.cursor(), 1, "what is no value stands before what is missing");
    press(&mut form, "<backspace><backspace><backspace>2");
    assert!(form.go_to_gravest());
    assert_eq!(form.cursor(), 0, "the first of those that are missing");
}

#[test]
fn conditions_show_their_fields_when_they_apply() {
    let schema = json!({"properties": {"how": {"enum": ["mail", "post"]}},
        "if": {"properties": {"how": {"const": "post"}}, "required": ["how"]},
        "then": {"properties": {"street": {"type": "string"}}, "required": ["street"]},
        "else": {"properties": {"address": {"type": "string"}}}});
    let mut form = form(schema);
    let names =
        |form: &FormState| form.rows().iter().map(|r| r.pointer.clone()).collect::<Vec<_>>();
    assert_eq!(names(&form), ["/how", "/address"]);
    press(&mut form, "po<enter>");
    assert_eq!(form.arguments(), json!({"how": "post"}));
    assert_eq!(names(&form), ["/how", "/street"]);
    assert_eq!(
        form.problem_at(1).map(|p| p.message.as_str().to_owned()).as_deref(),
        Some("required")
    );
    assert!(form.apply(Action::NextProblem));
    press(&mut form, "Main 1");
    assert_eq!(
        (form.arguments(), form.blocking()),
        (json!({"how": "post", "street": "Main 1"}), 0)
    );
}

#[test]
fn only_the_field_that_cannot_be_shown_degrades() {
    let schema = json!({"properties": {
        "ok": {"type": "string"}, "far": {"$ref": "http://elsewhere.invalid/x"}, "never": false,
        "torn": {"allOf": [{"type": "string"}, {"type": "number"}]}, "any": true, "empty": {}}});
    let form = form(schema);
    let degraded: Vec<&str> = form.degraded().into_iter().map(|(at, _)| at).collect();
    assert_eq!(degraded, ["/far", "/never", "/torn"]);
    assert_eq!(form.rows().len(), 6);
    assert!(form.schema_problem().is_some());
}

#[test]
fn a_value_of_another_kind_is_shown_as_json_and_kept() {
    let schema = json!({"properties": {"n": {"type": "integer"}, "o": {"type": "object", "properties": {"x": {}}}}});
    let value = json!({"n": {"not": "a number"}, "o": [1, 2]});
    let form = FormState::with_value(&Arc::new(schema), Some(value.clone()));
    assert_eq!(form.degraded().len(), 2);
    assert_eq!(form.arguments(), value);
}

#[test]
fn pasting_an_object_fills_the_form_and_pasting_text_types_it() {
    let mut form = form(json!({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}));
    form.paste("{\"a\": \"x\", \"b\": 2}\n");
    assert_eq!(form.arguments(), json!({"a": "x", "b": 2}));
    form.select(0);
    form.paste("{not json}");
    assert_eq!(form.arguments(), json!({"a": "x{not json}", "b": 2}));
}

#[test]
fn a_letter_on_any_row_starts_its_value_and_is_never_lost() {
    let schema = json!({"type": "object", "properties": {
        "names": {"type": "array", "items": {"type": "string"}},
        "who": {"type": "object", "properties": {"first": {"type": "string"}}},
        "more": {"type": "object", "additionalProperties": {"type": "string"}},
        "count": {"type": "integer"}}});
    for (row, wanted) in [
        ("/names", json!({"names": ["met Babbage"]})),
        ("/who", json!({"who": {"first": "met Babbage"}})),
        ("/more", json!({"more": {"met Babbage": ""}})),
    ] {
        let mut form = form(schema.clone());
        let at = form.rows().iter().position(|r| r.pointer == row).expect("a row");
        form.select(at);
        press(&mut form, "met Babbage<enter>");
        assert_eq!(form.arguments(), wanted, "{row}");
    }
}

#[test]
fn what_is_sent_is_what_was_typed_or_an_error_beside_the_field() {
    let schema = json!({"properties": {"n": {"type": "integer"}, "x": {"type": "number"},
        "s": {"type": "string"}}});
    let at = |row: usize, text: &str| {
        let mut form = form(schema.clone());
        form.select(row);
        form.paste(text);
        (form.arguments(), form.has_drafts())
    };
    for refused in ["-0", "-0.0", "1000.0", "1e3", "7.5"] {
        assert_eq!(at(0, refused), (json!({}), true), "{refused}");
    }
    for refused in ["2e-399", "1e400", "x"] {
        assert_eq!(at(1, refused), (json!({}), true), "{refused}");
    }
    for (pasted, kept) in [("-0.5\n", -0.5), ("4e-320", 4e-320)] {
        assert_eq!(at(1, pasted), (json!({"x": kept}), false));
    }
    for (pasted, kept) in [("key-7 \n", "key-7 "), ("a\r\nb\r\n", "a\r\nb"), ("a\n\nb", "a\n\nb")] {
        assert_eq!(at(2, pasted), (json!({"s": kept}), false));
    }
    let mut huge = form(schema.clone());
    huge.select(1);
    huge.paste("1e400");
    assert!(huge.problems().iter().any(|p| p.message.contains("too large")));
    let long = "z".repeat(3 << 20);
    assert_eq!(at(2, &long).0["s"].as_str().map(str::len), Some(3 << 20));
}

#[test]
fn form_and_json_edit_the_same_value() {
    let mut form = form(json!({"properties": {"a": {"type": "string"}}}));
    form.apply(Action::Json);
    press(&mut form, "<backspace><backspace>{\"a\": \"x\", \"z\": [1]}");
    assert_eq!(form.arguments(), json!({"a": "x", "z": [1]}));
    press(&mut form, "!");
    assert!(form.has_drafts());
    assert_eq!(form.arguments(), json!({"a": "x", "z": [1]}));
    // Text that does not parse survives a change of a field; undo reverts both in turn.
    assert!(form.leave_json() && form.has_drafts());
    form.select(0);
    press(&mut form, "w");
    assert!(form.json_text().ends_with('!') && form.has_drafts());
    assert!(form.apply(Action::Undo) && form.has_drafts());
    assert_eq!(form.arguments(), json!({"a": "x", "z": [1]}));
    assert!(form.apply(Action::NextProblem) && form.json() == JsonView::Focused);
    assert!(form.apply(Action::Undo) && !form.has_drafts());
    press(&mut form, "?<backspace>");
    assert!(form.leave_json() && !form.has_drafts());
    form.select(0);
    press(&mut form, "y");
    assert!(form.json_text().contains("xy"));
}

#[test]
fn a_choice_of_any_type_is_searched_and_multi_choice_marks() {
    let schema = json!({"properties": {
        "c": {"enum": ["metric", "imperial", 3, null, {"k": 1}]},
        "m": {"type": "array", "uniqueItems": true, "items": {"enum": ["red", "green", "blue"]}},
        "t": {"oneOf": [{"const": "a", "title": "Alpha"}, {"const": "b", "title": "Beta"}]}}});
    let mut form = form(schema);
    press(&mut form, "imp<enter><tab><enter><space><down><down><space><enter><tab>bet<enter>");
    assert_eq!(form.arguments(), json!({"c": "imperial", "m": ["red", "blue"], "t": "b"}));
    form.select(0);
    press(&mut form, "<enter>k<enter>");
    assert_eq!(form.arguments()["c"], json!({"k": 1}));
}

#[test]
fn what_is_typed_whole_is_chosen_though_others_begin_with_it() {
    let mut form =
        form(json!({"properties": {"c": {"enum": ["resourceLink", "xresource", "resource"]}}}));
    press(&mut form, "resource<enter>");
    assert_eq!(form.arguments(), json!({"c": "resource"}));
}

#[test]
fn secrets_are_dots_on_the_screen_and_not_in_what_is_kept() {
    let schema = json!({"properties": {"user": {"type": "string"}, "key": {"type": "string", "format": "password"},
        "deep": {"type": "array", "items": {"$ref": "#/$defs/login"}}, "union": {"oneOf": [{"type": "null"}, {"writeOnly": true}]}},
        "additionalProperties": {"type": "string", "writeOnly": true},
        "$defs": {"login": {"type": "object", "properties": {"pin": {"type": "integer", "writeOnly": true}, "n": {}}}}});
    let value = json!({"user": "ada", "key": "hunter2", "deep": [{"pin": 1234, "n": 1}], "union": "topsecret", "more": "alsosecret"});
    let mut form = FormState::with_value(&Arc::new(schema), Some(value.clone()));
    assert_eq!(form.without_secrets(value.clone()), json!({"user": "ada", "deep": [{"n": 1}]}));
    for row in 0..=form.rows().len() {
        form.select(row);
        let drawn = screen(&form, 90, 20);
        for secret in ["hunter2", "1234", "topsecret", "alsosecret"] {
            assert!(!drawn.contains(secret), "row {row}: {secret}\n{drawn}");
        }
    }
    assert_eq!(form.arguments(), value);
}

#[test]
fn steps_follow_multiple_of_and_stay_within_the_limits() {
    let schema = json!({"properties": {"p": {"type": "number", "multipleOf": 0.1, "minimum": 0, "maximum": 0.3}}});
    let mut form = form(schema);
    for expected in [0.0, 0.1, 0.2, 0.3, 0.3] {
        form.apply(Action::StepUp);
        assert_eq!(form.arguments()["p"].as_f64(), Some(expected));
    }
    assert_eq!(form.blocking(), 0, "{:?}", form.problems());
}

#[test]
fn the_first_step_of_an_empty_field_is_from_its_default() {
    let schema = json!({"properties": {
        "count": {"type": "integer", "default": 7, "maximum": 9},
        "on": {"type": "boolean", "default": true},
        "level": {"enum": ["low", "mid", "high"], "default": "mid"},
        "day": {"type": "string", "format": "date", "default": "2026-05-09"},
        "odd": {"type": "string", "format": "date", "default": "soon"},
        "far": {"type": "integer", "default": "many"}}});
    let mut form = form(schema);
    for (row, action, expected) in [
        (0, Action::StepUp, json!({"count": 8})),
        (0, Action::StepDown, json!({"count": 6})),
        (1, Action::Toggle, json!({"on": false})),
        (1, Action::StepUp, json!({"on": false})),
        (2, Action::StepDown, json!({"level": "high"})),
        (3, Action::StepUp, json!({"day": "2026-05-10"})),
        // What the field does not take is no place to begin.
        (4, Action::StepUp, json!({"odd": "1970-01-01"})),
        (5, Action::StepUp, json!({"far": 0})),
    ] {
        form.select(row);
        form.apply(action);
        assert_eq!(form.arguments(), expected, "{action:?}");
        form.undo();
    }
    form.select(1);
    press(&mut form, "<space><space>");
    assert_eq!(form.arguments(), json!({"on": true}));
}

#[test]
fn a_step_of_a_date_leaves_the_cursor_where_it_was() {
    let mut form = form(json!({"properties": {"d": {"type": "string", "format": "date"}}}));
    press(&mut form, "2026-05-09");
    form.type_key(KeyCode::Home.into());
    for expected in ["2027-05-09", "2028-05-09"] {
        form.apply(Action::StepUp);
        assert_eq!(form.arguments()["d"], expected);
    }
}

#[test]
fn a_hostile_schema_still_gives_a_form_and_says_that_it_cannot_be_checked() {
    let branches: Vec<Value> =
        (0..5_000).map(|i| json!({"properties": {format!("p{i}"): {}}})).collect();
    let mut form = form(json!({"anyOf": branches}));
    let job = form.pending_check().expect("too large to be compiled here");
    assert!(form.is_checking() && form.pending_check().is_none(), "one at a time");
    form.checked(job.run());
    assert!(form.schema_problem().is_some() && !form.is_checking());
    assert!(!screen(&form, 60, 20).is_empty());
    let endless = json!({"$ref": "#"});
    assert!(FormState::new(&Arc::new(endless), Defaults::Required).rows().len() <= 1);
    let ring = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"});
    assert!(FormState::new(&Arc::new(ring), Defaults::Required).rows().len() <= 1);
}

#[test]
fn nothing_of_a_schema_reaches_the_screen_as_a_control_character() {
    let evil = "x\u{1b}]52;c;eA==\u{7}\u{9b}31m\u{202e}y";
    let schema = json!({"properties": {evil: {"title": evil, "description": evil, "default": evil,
        "enum": [evil]}, "b": {"type": "string", "pattern": evil, "format": evil}}});
    let mut form = FormState::with_value(&Arc::new(schema), Some(json!({evil: evil, "b": evil})));
    for row in 0..=form.rows().len() {
        form.select(row);
        let drawn = screen(&form, 100, 20);
        assert!(!drawn.chars().any(|c| c.is_control() && c != '\n'), "{drawn:?}");
    }
}

#[test]
fn a_form_reads_well() {
    let schema = json!({"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string", "description": "Where"}, "days": {"type": "integer", "minimum": 1, "default": 3},
        "units": {"enum": ["metric", "imperial"]}, "alerts": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}}}});
    let mut form = FormState::with_value(
        &Arc::new(schema),
        Some(json!({"days": 0, "alerts": true, "tags": ["a"]})),
    );
    form.select(2);
    insta::assert_snapshot!(screen(&form, 72, 12));
}

#[test]
fn hints_of_fields_without_the_focus_have_the_room_that_values_leave() {
    let schema = json!({"type": "object", "required": ["when"], "properties": {
        "kind": {"enum": ["inside", "outside"]},
        "people": {"type": "integer", "minimum": 1, "maximum": 12,
            "description": "How many people come along"},
        "when": {"type": "string", "format": "date", "description": "The day"}}});
    let form = form(schema);
    let shown = screen(&form, 110, 8);
    assert!(
        shown.contains("whole number · at least 1 · at most 12  How many people come along"),
        "{shown}"
    );
    let line = shown.lines().find(|line| line.contains("when *")).unwrap();
    assert!(line.contains("⚠ required") && line.contains("The day"), "{line}");
    let column = |word: &str| {
        let before = shown.lines().find_map(|line| Some(line.split_once(word)?.0))?;
        Some(before.chars().count())
    };
    assert_eq!(column("whole number"), column("date"), "hints begin in one column: {shown}");
}

/// Schemas as servers write them, nested and combined.
fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string"})),
        Just(json!({"type": "integer", "minimum": 0})),
        Just(json!({"type": ["number", "null"]})),
        Just(json!({"type": "boolean"})),
        Just(json!({"enum": ["a", 1, null, true]})),
        Just(json!({"const": {"k": [1]}})),
        Just(json!(true)),
        Just(json!({})),
        Just(json!({"type": ["string", "integer"]})),
        Just(json!({"$ref": "#"})),
        Just(json!({"not": {"type": "string"}})),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|members| {
                let named = members.into_iter().enumerate().map(|(i, m)| (format!("p{i}"), m));
                json!({"type": "object", "properties": named.collect::<serde_json::Map<_, _>>(), "required": ["p0"]})
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            inner.clone().prop_map(|items| json!({"type": "array", "prefixItems": [items.clone()], "items": items})),
            inner.clone().prop_map(|other| json!({"type": "object", "additionalProperties": other})),
            inner.clone().prop_map(|one| json!({"anyOf": [one, {"type": "null"}]})),
            inner.clone().prop_map(|one| json!({"oneOf": [{"type": "null"}, one], "default": null})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"type": "array", "prefixItems": [a, b], "items": false})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"type": "object", "patternProperties": {"^p": a}, "additionalProperties": b})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"discriminator": {"propertyName": "p0"}, "oneOf": [
                {"title": "A", "type": "object", "properties": {"p0": {"const": "a"}, "p1": a}, "required": ["p0"]},
                {"title": "B", "type": "object", "properties": {"p0": {"const": "b"}, "p2": b}, "required": ["p0"]}]})),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| json!({"type": "object", "properties": {"p0": {"type": "boolean"}, "p3": {"$ref": "#"}},
                "if": {"properties": {"p0": {"const": true}}}, "then": {"properties": {"p1": a}, "required": ["p1"]}, "else": {"properties": {"p2": b}}})),
            inner.clone().prop_map(|items| json!({"type": ["array", "null"], "uniqueItems": true, "items": {"enum": ["a", "b", 1]}, "contains": items})),
            inner.clone().prop_map(|names| json!({"type": "object", "propertyNames": {"pattern": "^p"}, "additionalProperties": names, "minProperties": 1})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|list| json!({"oneOf": list})),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|list| json!({"anyOf": list})),
            prop::collection::vec(inner, 1..3).prop_map(|list| json!({"allOf": list})),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e6..1e6f64).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("p[0-4]|.{0,3}", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 160, ..ProptestConfig::default() })]

    #[test]
    fn looking_at_a_form_changes_nothing(schema in schemas(), value in values()) {
        let mut form = FormState::with_value(&Arc::new(schema), Some(value.clone()));
        for row in 0..=form.rows().len() {
            form.select(row);
            let _ = screen(&form, 60, 20);
        }
        form.apply(Action::Json);
        let text = form.json_text();
        prop_assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), value.clone());
        form.apply(Action::Json);
        form.apply(Action::Json);
        prop_assert_eq!(form.value(), Some(&value));
    }

    #[test]
    fn a_form_of_the_value_of_a_form_is_the_same_form(schema in schemas(), keys in prop::collection::vec(0_u8..30, 0..30)) {
        let schema = Arc::new(schema);
        let mut form = FormState::new(&schema, Defaults::All);
        for key in keys {
            script::random(&mut form, key);
        }
        let text = editor::pretty(form.written().as_ref());
        let read = if text.is_empty() { None } else { Some(base::text::json::exact(&text).expect("exact")) };
        let again = FormState::with_value(&schema, read);
        prop_assert_eq!(again.value(), form.value());
        prop_assert_eq!(again.arguments(), form.arguments());
    }

    #[test]
    fn any_keys_on_any_form_never_panic_and_leave_a_value_that_json_shows(
        schema in schemas(), value in values(), keys in prop::collection::vec(0_u8..30, 0..40),
    ) {
        let mut form = FormState::with_value(&Arc::new(schema), Some(value));
        for key in keys {
            script::random(&mut form, key);
            let _ = screen(&form, 40, 8);
        }
        let text = editor::pretty(form.written().as_ref());
        if let Some(value) = form.value() {
            prop_assert_eq!(&serde_json::from_str::<Value>(&text).expect("JSON"), value);
        }
    }

    #[test]
    fn drawing_never_panics_at_any_size(width in 0_u16..140, height in 0_u16..40, row in 0_usize..30) {
        let schema = json!({"properties": {"a": {"type": "string"}, "字": {"oneOf": [{"type": "string"}, {"type": "array", "items": {}}]},
            "o": {"type": "object", "properties": {"x": {"enum": [1, 2]}}, "additionalProperties": true}}});
        let mut form = FormState::with_value(&Arc::new(schema), Some(json!({"a": "é\u{200d}👩‍👩‍👧", "字": ["表"], "o": {"x": 1}})));
        form.select(row);
        if row % 3 == 0 {
            form.apply(Action::Json);
        }
        form.apply(Action::Open);
        let _ = screen(&form, width, height);
    }
}
