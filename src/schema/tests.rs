//! What is read of schemas as servers write them, and that hostile ones are bounded.

use std::sync::Arc;

use serde_json::{Value, json};

use super::*;

fn document(schema: Value) -> SchemaDocument {
    SchemaDocument::new(&Arc::new(schema))
}

/// Tools with schemas as published servers, pydantic and zod write them.
fn tools() -> Vec<Value> {
    let text = include_str!("../../fixtures/schemas/tools.json");
    let tools: Vec<Value> = serde_json::from_str(text).expect("JSON");
    assert!(tools.len() >= 23, "{}", tools.len());
    tools
}

#[test]
fn every_tool_is_put_into_the_same_words() {
    let mut wrong = Vec::new();
    for tool in tools() {
        let document = document(tool["inputSchema"].clone());
        let mut got = vec![signature(&document)];
        let mut expected = vec![tool["signature"].as_str().expect("text").to_owned()];
        let mut all = parameters(&document, 40);
        all.sort_by_key(|parameter| !parameter.required);
        got.extend(all.iter().map(|parameter| {
            let star = if parameter.required { "*" } else { "" };
            let kind = type_text(&parameter.outline, TypeStyle::Words);
            let line = format!("{}{star} {kind} {}", parameter.name, parameter.description());
            line.trim_end().to_owned()
        }));
        let long = tool["long"].as_array().expect("a list").iter();
        expected.extend(long.map(|line| line.as_str().expect("text").to_owned()));
        if got != expected {
            wrong.push(format!("{}: {got:#?} instead of {expected:#?}", tool["name"]));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_tool_is_checked_as_it_is_written() {
    for tool in tools() {
        let validator = Validator::compile(&tool["inputSchema"]);
        let validator = validator.unwrap_or_else(|problem| panic!("{}: {problem}", tool["name"]));
        assert_eq!(validator.check(&tool["valid"]), SchemaVerdict::Valid, "{}", tool["name"]);
        let verdict = validator.check(&tool["invalid"]);
        assert!(matches!(verdict, SchemaVerdict::Invalid(_)), "{}: {verdict:?}", tool["name"]);
    }
}

#[test]
fn an_older_draft_without_its_name_is_read_as_that_draft_with_a_note() {
    let tuple =
        json!({"properties": {"p": {"items": [{"type": "string"}], "additionalItems": false}}});
    let flag = json!({"properties": {"n": {"minimum": 0, "exclusiveMinimum": true}}});
    let newer = json!({"$defs": {"t": {"items": [{"type": "string"}]}}, "properties": {"p": {"$ref": "#/$defs/t"}}});
    for (schema, draft, pointer, wrong) in [
        (&tuple, "draft-07", "/properties/p/items", json!({"p": ["a", "b"]})),
        (&flag, "draft-04", "/properties/n/exclusiveMinimum", json!({"n": 0})),
        (&newer, "2019-09", "/$defs/t/items", json!({"p": [1]})),
    ] {
        let problems = schema_problems(schema, SchemaLimits::default());
        let [note] = problems.as_slice() else { panic!("{problems:?}") };
        assert_eq!((note.kind, &*note.pointer), (SchemaProblemKind::OlderDraft, pointer));
        assert!(note.message.contains(draft), "{note}");
        assert_eq!(document(schema.clone()).draft_note(), Some(&*note.message));
        assert!(!Validator::compile(schema).expect("usable").check(&wrong).is_valid(), "{schema}");
        // A schema that names its draft is held to it.
        let mut named = schema.clone();
        named["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
        assert!(Validator::compile(&named).is_err(), "{named}");
        assert_eq!(document(named).draft_note(), None);
    }
    // A property of that name is no keyword, nor is data.
    let plain = json!({"properties": {"items": {"type": "string"}}, "default": {"items": [1]}});
    assert_eq!(schema_problems(&plain, SchemaLimits::default()), []);
}

#[test]
fn beside_a_reference_of_draft_07_only_words_count() {
    let schema = |draft: &str| {
        json!({"$schema": draft, "properties": {"a": {"$ref": "#/definitions/w", "enum": ["x"], "description": "said"}},
            "definitions": {"w": {"type": "string"}}})
    };
    let old = document(schema("http://json-schema.org/draft-07/schema#"));
    assert_eq!(signature(&old), "(a?: string)");
    assert_eq!(parameters(&old, 9)[0].description(), "said");
    let new = document(schema("https://json-schema.org/draft/2020-12/schema"));
    assert_eq!(signature(&new), r#"(a?: "x")"#);
}

#[test]
fn a_reference_that_leads_nowhere_is_found_and_named() {
    let lost = document(
        json!({"properties": {"a": {"$ref": "#/$defs/none"}, "b": {"$ref": "#/$defs/w"},
        "$ref": {"type": "string"}, "c": {"$ref": "http://elsewhere.invalid/x"}}, "$defs": {"w": {}}}),
    );
    let places: Vec<&str> = lost.lost_references().iter().map(|node| node.at.as_str()).collect();
    assert_eq!(places, ["/properties/a", "/properties/c"]);
    assert_eq!(signature(&lost), "(a?: any, b?: any, $ref?: string, c?: any)");
}

#[test]
fn a_tree_shows_members_of_members_once_and_ends() {
    let node = json!({"type": "object", "required": ["name"], "properties": {
        "name": {"type": "string", "description": "What it is called", "minLength": 1},
        "next": {"$ref": "#/$defs/node"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "more": {"type": "array", "items": {"$ref": "#/$defs/node"}}}});
    let schema = document(json!({"$ref": "#/$defs/node", "$defs": {"node": node}}));
    let (lines, is_cut) = tree(&schema);
    let shown: Vec<(usize, &str, bool, &str)> =
        lines.iter().map(|l| (l.depth, l.name.as_str(), l.required, l.kind.as_str())).collect();
    assert_eq!(
        shown,
        [
            (1, "name", true, "string"),
            (1, "next", false, "object"),
            (1, "labels", false, "object"),
            (2, "", false, "string"),
            (1, "more", false, "[object]"),
        ]
    );
    assert_eq!(lines[0].facts, [("minLength", "1".to_owned())]);
    assert_eq!(lines[0].description.as_deref(), Some("What it is called"));
    assert!(!is_cut);
    let list = document(json!({"type": "array", "items": {"properties": {"a": {"type": "null"}}}}));
    let kinds: Vec<String> = tree(&list).0.into_iter().map(|line| line.kind).collect();
    assert_eq!(kinds, ["[object]", "null"]);
}

#[test]
fn words_of_hostile_schemas_are_bounded() {
    let mut defs = serde_json::Map::new();
    for i in 0..30 {
        let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
        let both = json!({"anyOf": [next, {"allOf": [next, {"oneOf": [next, next]}]}]});
        defs.insert(format!("d{i}"), both);
    }
    defs.insert(
        "d30".to_owned(),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}}),
    );
    let doubling = document(json!({"$ref": "#/$defs/d0", "$defs": defs}));
    assert!(signature(&doubling).len() < 1_000);
    let _ = tree(&doubling);
    let many: Vec<Value> =
        (0..5_000).map(|i| json!({"properties": {format!("p{i}"): {}}})).collect();
    let wide = document(json!({"oneOf": many, "allOf": many}));
    assert!(signature(&wide).len() < 2_000);
    assert!(tree(&wide).0.len() <= 400);
    for endless in [
        json!({"$ref": "#"}),
        json!({"items": {"$ref": "#"}}),
        json!({"anyOf": [{"$ref": "#"}, {"items": {"$ref": "#"}}]}),
        json!({"$id": "a", "$ref": "a"}),
        json!(true),
        json!(7),
    ] {
        assert!(signature(&document(endless)).len() < 100);
    }
}
