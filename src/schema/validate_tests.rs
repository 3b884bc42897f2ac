//! Guarantees of the validator, including for hostile schemas.

use std::time::Duration;

use serde_json::{Value, json};

use super::*;

fn violations(schema: &Value, value: &Value) -> Vec<(String, String)> {
    match Validator::compile(schema).expect("the schema compiles").check(value) {
        SchemaVerdict::Invalid(all) => all.into_iter().map(|v| (v.pointer, v.message)).collect(),
        other => panic!("expected violations, got {other:?}"),
    }
}

fn problem(schema: &Value) -> SchemaProblem {
    Validator::compile(schema).expect_err("the schema is refused")
}

#[test]
fn every_violation_is_reported_at_once_where_it_stands_in_words() {
    let schema = json!({
        "type": "object",
        "properties": {
            "a/b": {"type": "number"},
            "n": {"type": "integer", "minimum": 1},
            "unit": {"enum": ["metric", "imperial"]},
            "tags": {"type": "array", "items": {"type": "string", "minLength": 2}}
        },
        "required": ["city"],
        "additionalProperties": false
    });
    let value = json!({"a/b": "abc", "n": 0, "unit": "x", "tags": ["ok", "y", 3], "extra": 1});
    let mut found = violations(&schema, &value);
    found.sort();
    let expected = [
        ("/a~1b", "expected number, got text \"abc\""),
        ("/city", "\"city\" is required"),
        ("/extra", "\"extra\" is not known"),
        ("/n", "must be at least 1, got number 0"),
        ("/tags/1", "must have at least 2 characters, has 1"),
        ("/tags/2", "expected text, got number 3"),
        ("/unit", "must be one of text \"metric\", text \"imperial\", got text \"x\""),
    ];
    assert_eq!(found, expected.map(|(p, m)| (p.to_owned(), m.to_owned())));
}

#[test]
fn a_failed_union_names_the_types_or_the_closest_alternative() {
    let nullable = json!({"anyOf": [{"type": "string"}, {"type": "null"}]});
    let found = violations(&nullable, &json!(1));
    assert_eq!(found[0].1, "expected text or null, got number 1");

    // Deeper down too, and where the alternatives are values.
    let inside = |schema: Value, value: Value| {
        let outer = json!({"properties": {"a": {"properties": {"b": schema}}}});
        violations(&outer, &json!({"a": {"b": value}}))
    };
    let found = inside(nullable, json!(1));
    assert_eq!(found, [("/a/b".to_owned(), "expected text or null, got number 1".to_owned())]);
    let level = json!({"oneOf": [{"const": "info"}, {"const": "warning"}]});
    let found = inside(level.clone(), json!("warn"));
    let words = "must be one of text \"info\", text \"warning\", got text \"warn\"; did you mean \"warning\"?";
    assert_eq!(found[0].1, words);
    let found = inside(json!({"anyOf": [level, {"type": "null"}, {"type": "array"}]}), json!(5));
    let words = "must be one of text \"info\", text \"warning\", or list or null, got number 5";
    assert_eq!(found[0].1, words);
    let objects = json!({"oneOf": [{"type": "object", "required": ["x"]}, {"type": "array"}]});
    let found = inside(objects, json!({}));
    assert_eq!(found[0].1, "fits none of the 2 alternatives; closest is 1: /x: \"x\" is required");

    let needs = json!({"oneOf": [{"required": ["tool"]}, {"required": ["wait"]}]});
    let found = inside(needs, json!({}));
    assert_eq!(found[0].1, "one of \"tool\", \"wait\" is required");

    let tagged = json!({"oneOf": [
        {"properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
        {"properties": {"kind": {"const": "box"}, "w": {"type": "number"}, "h": {"type": "number"}},
         "required": ["kind", "w", "h"]}
    ]});
    let found = violations(&tagged, &json!({"kind": "circle", "r": "x"}));
    assert!(found[0].1.contains("closest is 1: /r: expected number"), "{found:?}");
}

#[test]
fn formats_are_notes_in_2020_12_asserted_in_draft_07_and_on_request() {
    let now = json!({"type": "string", "format": "date"});
    let old = json!({"$schema": "http://json-schema.org/draft-07/schema#", "format": "date"});
    let text = json!("tomorrow");
    let check = |schema: &Value, formats| {
        Validator::compile_with(schema, formats, SchemaLimits::default())
            .expect("compiles")
            .check(&text)
    };
    assert!(check(&now, Formats::Dialect).is_valid());
    assert!(!check(&now, Formats::Assert).is_valid());
    assert!(!check(&old, Formats::Dialect).is_valid());
}

#[test]
fn the_declared_dialect_decides_what_keywords_mean() {
    let tuple = json!({"items": [{"type": "string"}], "additionalItems": false});
    let mut old = tuple.clone();
    old["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    assert!(!Validator::compile(&old).expect("draft-07").check(&json!(["a", 1])).is_valid());
    let new = json!({"prefixItems": [{"type": "string"}], "items": false});
    assert!(!Validator::compile(&new).expect("2020-12").check(&json!(["a", 1])).is_valid());
}

#[test]
fn s15_nothing_is_fetched_and_the_refusal_names_what_was_wanted() {
    for (schema, named) in [
        (json!({"$ref": "http://canary.invalid/s.json"}), "http://canary.invalid/s.json"),
        (json!({"properties": {"a": {"$ref": "file:///etc/passwd"}}}), "file:///etc/passwd"),
        (json!({"$id": "file:///etc/", "$ref": "passwd"}), "file:///etc/passwd"),
        (
            json!({"$id": "http://canary.invalid/x", "items": {"$ref": "other#/a"}}),
            "canary.invalid",
        ),
        (json!({"$ref": "../../secret.json"}), "secret.json"),
        (json!({"$dynamicRef": "http://canary.invalid/d"}), "canary.invalid"),
    ] {
        let problem = problem(&schema);
        assert_eq!(problem.kind, SchemaProblemKind::RemoteRef, "{schema} {problem:?}");
        assert!(problem.message.contains(named), "{schema}: {}", problem.message);
    }
    for dialect in
        ["http://canary.invalid/meta", "https://json-schema.org/draft/2099-01/schema", ""]
    {
        let problem = problem(&json!({"$schema": dialect, "type": "object"}));
        assert_eq!(problem.kind, SchemaProblemKind::Dialect);
        assert!(problem.message.contains(dialect));
    }
    let nested = json!({"$defs": {"a": {"$id": "urn:x", "$schema": "http://canary.invalid/m"}}});
    assert_eq!(problem(&nested).kind, SchemaProblemKind::Dialect);
}

#[test]
fn a_schema_that_calls_itself_a_meta_schema_changes_nothing() {
    let schema = json!({
        "$id": "https://json-schema.org/draft/2020-12/schema",
        "type": "object", "properties": {"a": {"type": "string"}}
    });
    match Validator::compile(&schema) {
        Ok(validator) => assert!(!validator.check(&json!({"a": 1})).is_valid()),
        Err(problem) => assert!(!problem.message.is_empty()),
    }
    // The next schema is still checked against the real meta-schema.
    assert!(Validator::compile(&json!({"type": "strin"})).is_err());
}

#[test]
fn broken_schemas_are_refused_with_the_place() {
    let cases = [
        (json!(null), SchemaProblemKind::NotASchema),
        (json!([]), SchemaProblemKind::NotASchema),
        (json!({"type": "strin"}), SchemaProblemKind::Invalid),
        (json!({"properties": {"a": {"minimum": "1"}}}), SchemaProblemKind::Invalid),
        (json!({"$ref": "#/$defs/none"}), SchemaProblemKind::UnresolvedRef),
        (json!({"pattern": "("}), SchemaProblemKind::Pattern),
    ];
    for (schema, kind) in cases {
        assert_eq!(problem(&schema).kind, kind, "{schema}");
    }
    assert_eq!(
        problem(&json!({"properties": {"a": {"minimum": "1"}}})).pointer,
        "/properties/a/minimum"
    );
    let both = json!({"properties": {"a": {"minimum": "1"}, "b": {"type": "x"}}});
    assert_eq!(schema_problems(&both, SchemaLimits::default()).len(), 2);
    assert_eq!(schema_problems(&json!({"type": "object"}), SchemaLimits::default()), []);
}

#[test]
fn boolean_and_empty_schemas_work() {
    assert!(Validator::compile(&json!(true)).expect("true").check(&json!({"a": 1})).is_valid());
    assert!(Validator::compile(&json!({})).expect("{}").check(&json!(null)).is_valid());
    assert!(!Validator::compile(&json!(false)).expect("false").check(&json!(1)).is_valid());
}

/// `$defs` in which each entry refers to the next one twice: 2^30 paths.
fn doubling(keyword: &str) -> Value {
    let mut defs = serde_json::Map::new();
    for i in 0..30 {
        let next = format!("#/$defs/d{}", i + 1);
        defs.insert(format!("d{i}"), json!({keyword: [{"$ref": next}, {"$ref": next}]}));
    }
    defs.insert("d30".to_owned(), json!({"type": "string", "pattern": "^x+$"}));
    json!({"$ref": "#/$defs/d0", "$defs": defs})
}

/// Measures no time: an endless check would never return, and an abandoned one is detected by
/// [`ends_every_time`].
fn stops(schema: &Value, value: &Value) {
    let verdict = Validator::compile(schema).map(|validator| validator.check(value));
    if let Err(problem) = &verdict {
        assert!(
            matches!(
                problem.kind,
                SchemaProblemKind::TooLarge
                    | SchemaProblemKind::TooSlow
                    | SchemaProblemKind::TooDeep
            ),
            "{problem:?}"
        );
    }
}

#[test]
fn s16_hostile_schemas_stop_at_the_time_budget() {
    stops(&doubling("allOf"), &json!("xxxx"));
    stops(&doubling("anyOf"), &json!(1));
    stops(&doubling("oneOf"), &json!({"a": [1]}));
    let branches: Vec<Value> = (0..5_000).map(|i| json!({"const": i})).collect();
    stops(&json!({"anyOf": branches}), &json!("x"));
    stops(&json!({"multipleOf": 1e-300}), &json!(1e300));
    stops(&json!({"multipleOf": 1e-300}), &json!(3.7e-299));

    let mut deep = json!([]);
    for _ in 0..100 {
        deep = json!([deep.clone(), deep]).as_array().map(|a| json!([a[0]])).unwrap_or_default();
    }
    stops(&json!({"$ref": "#"}), &deep);
    stops(
        &json!({"items": {"$ref": "#"}, "anyOf": [{"$ref": "#/items"}, {"not": {"items": {"$ref": "#"}}}]}),
        &deep,
    );
    let wide = json!({"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}, "minItems": 9},
        {"items": {"$ref": "#"}, "maxItems": 0}], "not": {"items": {"$ref": "#"}, "minItems": 7}});
    stops(&wide, &deep);
}

#[test]
fn s16_the_budget_ends_a_check_that_would_never_end() {
    // Results are not memoized per (schema, text), so this takes 2^30 steps.
    let validator = Validator::compile(&doubling("oneOf")).expect("it is small enough to compile");
    assert!(validator.check_in_place(&json!("xxxx")).is_none());
    assert!(
        matches!(validator.check(&json!("xxxx")), SchemaVerdict::Unknown(reason) if reason.contains("too long"))
    );
}

#[test]
fn s16_regex_bombs_do_not_hang() {
    let long = "a".repeat(200_000) + "!";
    stops(&json!({"pattern": "^(a+)+$"}), &json!(long));
    stops(&json!({"pattern": "^(?=(a+)+$)a"}), &json!(long));
    stops(&json!({"pattern": "^(a|a?)+$"}), &json!(long));
    assert_eq!(
        problem(&json!({"pattern": "((a{1,1000}){1,1000}){1,1000}"})).kind,
        SchemaProblemKind::Pattern
    );
    let look =
        Validator::compile(&json!({"pattern": "^(?!x)[a-z]+$"})).expect("look-ahead is allowed");
    assert!(look.check(&json!("abc")).is_valid());
    assert!(!look.check(&json!("xbc")).is_valid());
}

/// More runs than may be concurrent, in sequence: an abandoned run must end.
fn ends_every_time(schema: &Value, value: &Value) {
    let limits = SchemaLimits { time: Duration::from_millis(40), ..SchemaLimits::default() };
    let validator = Validator::compile_with(schema, Formats::Dialect, limits).expect("compiles");
    for _ in 0..20 {
        let verdict = validator.check(value);
        assert!(!matches!(&verdict, SchemaVerdict::Unknown(why) if why.contains("try again")));
    }
}

#[test]
fn s16_a_check_that_was_given_up_does_not_go_on() {
    ends_every_time(&doubling("oneOf"), &json!("xxxx"));
}

#[test]
fn s16_a_pattern_that_goes_back_and_back_is_given_up_on_the_thread_of_the_caller_too() {
    let schema = json!({"pattern": "^(?:(a+)\\1?)+$"});
    let validator = Validator::compile(&schema).expect("references back are allowed");
    assert!(validator.check(&json!("aaa")).is_valid());
    let text = json!("a".repeat(18) + "!");
    let verdict = validator.check_in_place(&text);
    assert!(
        matches!(&verdict, Some(SchemaVerdict::Unknown(why)) if why.contains("takes too long")),
        "{verdict:?}"
    );
}

#[test]
fn limits_are_named_when_they_are_exceeded() {
    let mut deep = json!({"type": "string"});
    for _ in 0..40 {
        deep = json!({"items": deep});
    }
    assert_eq!(problem(&deep).kind, SchemaProblemKind::TooDeep);
    let mut deeper = json!({});
    for _ in 0..3_000 {
        // Moved, not cloned: a clone would recurse as deep.
        deeper = Value::Object([("not".to_owned(), deeper)].into_iter().collect());
    }
    assert_eq!(problem(&deeper).kind, SchemaProblemKind::TooLarge);
    let property = |i: usize| (format!("p{i}"), json!({"type": "string"}));
    let wide = |n| json!({"properties": (0..n).map(property).collect::<serde_json::Map<_, _>>()});
    assert!(Validator::compile(&wide(2_000)).is_ok());
    assert_eq!(problem(&wide(2_001)).kind, SchemaProblemKind::TooLarge);
    let big = json!({"enum": ["x".repeat(2 << 20)]});
    assert_eq!(problem(&big).kind, SchemaProblemKind::TooLarge);
}

#[test]
fn ordinary_schemas_are_checked_in_place_and_those_that_refer_on_their_own_thread() {
    let plain = json!({"type": "object", "properties": {"a": {"pattern": "^[a-z]{1,9}$"}}});
    let plain = Validator::compile(&plain).expect("plain");
    assert_eq!(plain.check_in_place(&json!({"a": "b"})), Some(SchemaVerdict::Valid));
    for schema in [
        json!({"$ref": "#"}),
        json!({"pattern": "^a{1,900}$"}),
        json!({"enum": (0..1_000).collect::<Vec<_>>()}),
    ] {
        let validator = Validator::compile(&schema).expect("compiles");
        assert_eq!(validator.check_in_place(&json!(1)), None, "{schema}");
    }
    let tree = json!({"type": "object", "properties":
        {"children": {"type": "array", "items": {"$ref": "#"}}, "n": {"type": "integer"}}});
    let tree = Validator::compile(&tree).expect("tree");
    let value = json!({"children": [{"n": 1}, {"children": [{"n": "x"}]}]});
    assert!(tree.check_in_place(&value).is_none());
    let SchemaVerdict::Invalid(found) = tree.check(&value) else { panic!("must be invalid") };
    assert_eq!(found[0].pointer, "/children/1/children/0/n");
    assert!(tree.check(&json!({"children": []})).is_valid());
}

#[test]
fn a_large_value_is_checked_with_the_budget_and_gives_the_same_violations() {
    let schema = json!({"type": "array", "items": {"type": "integer"}});
    let mut items = vec![json!(1); 60_000];
    items[59_999] = json!("x");
    let validator = Validator::compile(&schema).expect("compiles");
    let value = Value::Array(items);
    assert!(validator.check_in_place(&value).is_none());
    match validator.check(&value) {
        SchemaVerdict::Invalid(found) => assert_eq!(found[0].pointer, "/59999"),
        SchemaVerdict::Unknown(_) => {} // A slow machine may not finish in time.
        SchemaVerdict::Valid => panic!("the last item is wrong"),
    }
}

#[test]
fn many_violations_are_cut_and_counted() {
    let validator = Validator::compile(&json!({"items": {"type": "integer"}})).expect("compiles");
    let value = Value::Array(vec![json!("x"); 3_000]);
    let SchemaVerdict::Invalid(found) = validator.check(&value) else { panic!("must be invalid") };
    assert_eq!(found.len(), SchemaVerdict::MAX_VIOLATIONS);
    assert_eq!(found[999].message, "and 2001 more violations");
}

#[test]
fn messages_carry_no_control_characters_of_the_server() {
    let schema =
        json!({"required": ["a\u{1b}]52;c;x\u{7}"], "properties": {"b": {"const": "\u{9b}31m"}}});
    for (_, message) in violations(&schema, &json!({"b": 1})) {
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
}

#[test]
fn slow_runs_do_not_use_up_the_slots_for_ever() {
    let validator = Validator::compile(&json!({"items": {"$ref": "#"}})).expect("compiles");
    for _ in 0..100 {
        assert!(validator.check(&json!([[], [[]]])).is_valid());
    }
}

proptest::proptest! {
    #[test]
    fn checks_in_place_and_on_a_thread_agree(n in 0_i64..20, text in "[a-c]{0,6}", flag: bool) {
        let schema = json!({
            "type": "object",
            "properties": {
                "n": {"type": "integer", "maximum": 10, "not": {"const": 3}},
                "t": {"anyOf": [{"maxLength": 3}, {"pattern": "^a"}]},
                "o": {"oneOf": [{"type": "boolean", "const": true}, {"const": false}]}
            },
            "if": {"properties": {"o": {"const": true}}}, "then": {"properties": {"n": {"minimum": 2}}},
            "unevaluatedProperties": false
        });
        let value = json!({"n": n, "t": text, "o": flag});
        let validator = Validator::compile(&schema).expect("compiles");
        proptest::prop_assert_eq!(validator.check(&value), validator.check_on_thread(&value));
    }
}

#[test]
fn a_wide_flat_schema_is_still_checked_in_place() {
    let property = |i: usize| (format!("p{i}"), json!({"type": "string"}));
    let schema = json!({"properties": (0..2_000).map(property).collect::<serde_json::Map<_, _>>()});
    let value: Value =
        (0..2_000).map(|i| (format!("p{i}"), json!("x"))).collect::<serde_json::Map<_, _>>().into();
    let validator = Validator::compile(&schema).expect("compiles");
    assert!(validator.check_in_place(&value).is_some());
}
