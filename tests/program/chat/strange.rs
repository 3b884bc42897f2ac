//! Schemas and names of tools that nobody would think of: what is sent, what comes back, what is said.

use mcpdeck::chat::{Conversation, DoneReason, Provider as Format, StatusKind};
use serde_json::{Map, Value, json};

use super::tools::{adapted, wide};
use super::{Scene, call, text};
use crate::provider::Provider;
use crate::provider::tool_rules::ToolRules;

/// An object with one property `p` of this form.
fn one(property: Value) -> Value {
    json!({"type": "object", "properties": {"p": property}})
}

/// Schemas with a value that each takes.
fn references() -> Vec<(Value, Value)> {
    let string = json!({"type": "string"});
    let object = |more: Value| {
        let mut schema = json!({"type": "object"});
        schema.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        schema
    };
    let tree = json!({"type": "object", "properties": {
        "value": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}});
    vec![
        (
            object(json!({"$defs": {"node": tree}, "properties": {"p": {"$ref": "#/$defs/node"}}})),
            json!({"p": {"value": 1, "next": {"value": 2}}}),
        ),
        (
            object(json!({"properties": {"p": {"$ref": "#/properties/a~1b"}, "a/b": string}})),
            json!({"p": "x", "a/b": "y"}),
        ),
        (
            object(json!({"properties": {"p": {"$ref": "#/properties/m~0n"}, "m~n": string}})),
            json!({"p": "x", "m~n": "y"}),
        ),
        (
            object(json!({"properties": {"p": {"$ref": "#/properties/a%20b"}, "a b": string}})),
            json!({"p": "x", "a b": "y"}),
        ),
        (
            object(
                json!({"$defs": {"n": {"$anchor": "name", "type": "string"}}, "properties": {"p": {"$ref": "#name"}}}),
            ),
            json!({"p": "x"}),
        ),
        (
            object(
                json!({"$defs": {"n": {"$dynamicAnchor": "it", "type": "string"}}, "properties": {"p": {"$dynamicRef": "#it"}}}),
            ),
            json!({"p": "x"}),
        ),
        (
            object(
                json!({"$id": "https://example.org/root", "$defs": {"n": {"$id": "part", "type": "string"}},
            "properties": {"p": {"$ref": "part"}}}),
            ),
            json!({"p": "x"}),
        ),
        (
            object(json!({"$id": "urn:example:root", "$defs": {"n": {"type": "string"}},
            "properties": {"p": {"$ref": "urn:example:root#/$defs/n"}}})),
            json!({"p": "x"}),
        ),
        (
            object(json!({"properties": {"p": {"$ref": "https://example.org/there.json#/x"}}})),
            json!({"p": 1}),
        ),
        (
            object(
                json!({"properties": {"p": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}),
            ),
            json!({"p": 1}),
        ),
        (
            object(
                json!({"properties": {"p": {"items": {"$ref": "#/properties/p/definitions/i"}, "type": "array",
            "definitions": {"i": string}}}}),
            ),
            json!({"p": ["x"]}),
        ),
        (
            object(
                json!({"properties": {"p": {"$ref": "#/$defs/n", "description": "Beside."}}, "$defs": {"n": string}}),
            ),
            json!({"p": "x"}),
        ),
        (object(json!({"properties": {"p": {"$recursiveRef": "#"}}})), json!({"p": {}})),
        (object(json!({"properties": {"p": {"$ref": ""}}})), json!({})),
        (object(json!({"properties": {"p": {"$ref": 7}}})), json!({"p": 1})),
    ]
}

fn names() -> Vec<(Value, Value)> {
    let object = |names: &[&str]| {
        let properties = names.iter().map(|name| ((*name).to_owned(), json!({"type": "string"})));
        let value = names.iter().map(|name| ((*name).to_owned(), json!("x")));
        let properties: Map<String, Value> = properties.collect();
        let value: Map<String, Value> = value.collect();
        (
            json!({"type": "object", "properties": properties, "required": names}),
            Value::Object(value),
        )
    };
    let (long, longer) = ("n".repeat(65), "n".repeat(65) + "2");
    vec![
        object(&["", " ", "  "]),
        object(&["__proto__", "constructor", "hasOwnProperty", "toString"]),
        object(&["a.b", "a b", "a-b", "a_b", "a/b", "a~b"]),
        object(&["größe", "grosse", "\u{1f600}", "日本", "e\u{301}", "\u{e9}"]),
        object(&[&long, &longer]),
        object(&["1", "1a", "$1", "-"]),
        object(&[
            "type",
            "properties",
            "$ref",
            "items",
            "enum",
            "required",
            "description",
            "anyOf",
            "const",
        ]),
        object(&["a\nb", "a\tb", "\u{0}", "\"", "\\"]),
        object(&["input"]),
        (json!({"anyOf": [object(&["input"]).0, object(&["x y"]).0]}), json!({"x y": "x"})),
    ]
}

fn values() -> Vec<(Value, Value)> {
    let many: Vec<String> = (0..300).map(|n| format!("value {n}")).collect();
    vec![
        (one(json!({"const": {"a": [1, {"b": null}]}})), json!({"p": {"a": [1, {"b": null}]}})),
        (one(json!({"const": null})), json!({"p": null})),
        (one(json!({"const": ""})), json!({"p": ""})),
        (one(json!({"enum": ["a", null]})), json!({"p": null})),
        (one(json!({"type": ["string", "null"], "enum": ["a", null]})), json!({"p": null})),
        (one(json!({"enum": ["a", 1, 1.5, true, null, [], {}]})), json!({"p": []})),
        (one(json!({"type": "string", "enum": many})), json!({"p": "value 299"})),
        (one(json!({"type": "string", "enum": ["a", "a", "b"]})), json!({"p": "b"})),
        (one(json!({"type": "string", "enum": ["", "a"]})), json!({"p": "a"})),
        (one(json!({"type": "string", "enum": [""]})), json!({"p": ""})),
        (one(json!({"type": "integer", "enum": [1, 2]})), json!({"p": 2})),
        (one(json!({"type": "boolean", "enum": [true]})), json!({"p": true})),
        (one(json!({"enum": [[1], [2]]})), json!({"p": [2]})),
        (one(json!({"type": "string", "enum": "a"})), json!({"p": "a"})),
        (one(json!({"type": "string", "default": 4, "examples": "x"})), json!({"p": "x"})),
        (one(json!({"type": "string", "nullable": true})), json!({"p": "x"})),
        (one(json!({"type": "string", "format": "uri"})), json!({"p": "http://x"})),
        (one(json!({"type": "string", "format": ""})), json!({"p": "x"})),
        (one(json!({"type": "integer", "format": "uint64"})), json!({"p": 1})),
        (one(json!({"type": ["integer", "string"], "format": "int64"})), json!({"p": 1})),
        (one(json!({"type": "number", "multipleOf": 0})), json!({})),
        (one(json!({"type": "number", "multipleOf": -1})), json!({})),
        (
            one(
                json!({"type": "integer", "minimum": -1e300, "maximum": 18_446_744_073_709_551_615_u64}),
            ),
            json!({"p": 1}),
        ),
        (one(json!({"type": "string", "pattern": "(?<=x)[", "minLength": 1e3})), json!({})),
        (
            one(
                json!({"type": "string", "contentEncoding": "base64", "contentMediaType": "image/png"}),
            ),
            json!({"p": "eA=="}),
        ),
        (
            one(json!({"type": "string", "description": "a\u{0}b\u{1b}[31mc\u{202e}"})),
            json!({"p": "x"}),
        ),
        (one(json!({"type": "string", "title": null, "description": null})), json!({"p": "x"})),
    ]
}

fn shapes() -> Vec<(Value, Value)> {
    let properties = |count: usize| -> Map<String, Value> {
        (0..count).map(|n| (format!("p{n}"), json!({"type": "string"}))).collect()
    };
    let deep = |levels: usize| (0..levels).fold(json!({"type": "string"}), |inner, _| one(inner));
    vec![
        (json!({"type": "object", "properties": properties(120)}), json!({"p119": "x"})),
        (json!({"type": "object", "properties": properties(5_100)}), json!({"p3": "x"})),
        (one(deep(6)), json!({"p": {"p": {"p": {}}}})),
        (one(deep(12)), json!({"p": {"p": {"p": {}}}})),
        (
            one(
                json!({"type": "array", "items": {"type": "string"}, "minItems": 1_000_000_000_000_u64}),
            ),
            json!({}),
        ),
        (
            one(
                json!({"type": "array", "items": {"type": "string"}, "minItems": 2.0, "maxItems": -1}),
            ),
            json!({}),
        ),
        (
            one(
                json!({"type": "array", "contains": {"const": 1}, "minContains": 2, "uniqueItems": true}),
            ),
            json!({}),
        ),
        (one(json!({"type": "array", "prefixItems": [], "items": false})), json!({"p": []})),
        (one(json!({"type": "array", "prefixItems": [true, false]})), json!({"p": [1]})),
        (one(json!({"type": []})), json!({"p": 1})),
        (one(json!({"type": ["string", "string"]})), json!({"p": "x"})),
        (one(json!({"type": ["null"]})), json!({"p": null})),
        (one(json!({"type": "null"})), json!({"p": null})),
        (one(json!({"type": "any"})), json!({"p": 1})),
        (one(json!({"type": "String"})), json!({"p": "x"})),
        (one(json!({"type": {"type": "string"}})), json!({"p": "x"})),
        (
            one(
                json!({"type": ["object", "array", "string", "number", "integer", "boolean", "null"]}),
            ),
            json!({"p": [1]}),
        ),
    ]
}

fn members() -> Vec<(Value, Value)> {
    vec![
        (
            one(
                json!({"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": false}),
            ),
            json!({"p": {"x-a": "b"}}),
        ),
        (
            one(
                json!({"type": "object", "propertyNames": {"enum": ["a", "b"]}, "additionalProperties": {"type": ["string", "null"]}}),
            ),
            json!({"p": {"a": null}}),
        ),
        (
            one(
                json!({"type": "object", "additionalProperties": {"type": "object", "properties": {"a b": {"type": "string"}}}}),
            ),
            json!({"p": {"k": {"a b": "x"}}}),
        ),
        (
            one(json!({"type": "object", "unevaluatedProperties": false, "minProperties": 1})),
            json!({}),
        ),
        (one(json!({"anyOf": []})), json!({"p": 1})),
        (one(json!({"anyOf": [{}]})), json!({"p": 1})),
        (one(json!({"anyOf": [false, {"type": "string"}]})), json!({"p": "x"})),
        (
            one(json!({"oneOf": [{"anyOf": [{"oneOf": [{"type": "string"}, {"type": "null"}]}]}]})),
            json!({"p": null}),
        ),
        (
            one(
                json!({"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"minLength": 1}, {"minimum": 1}]}]}),
            ),
            json!({"p": 3}),
        ),
        (one(json!({"not": {"type": "string"}})), json!({"p": 3})),
        (
            one(
                json!({"if": {"type": "string"}, "then": {"minLength": 2}, "else": {"type": "integer"}}),
            ),
            json!({"p": 3}),
        ),
        (
            json!({"type": "object", "properties": {"a": {}, "b": {}}, "dependentRequired": {"a": ["b"]}}),
            json!({"a": 1, "b": 2}),
        ),
        (
            json!({"type": "object", "properties": {"a": {}}, "required": ["a", "a", "", "__proto__"]}),
            json!({"a": 1, "": 2, "__proto__": 3}),
        ),
        (json!({"type": "object", "properties": {"a": {}}, "required": true}), json!({"a": 1})),
        (json!({"type": "object", "properties": []}), json!({})),
        (json!({"type": "object", "properties": null, "required": null}), json!({})),
        (
            json!({"type": "object", "properties": {"a": "string", "b": null, "c": 3, "d": []}}),
            json!({"a": 1}),
        ),
        (
            json!({"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}], "properties": {"a": {}, "b": {}}}),
            json!({"a": 1}),
        ),
        (
            json!({"type": "object", "oneOf": [{"properties": {"k": {"const": "x"}}}, {"properties": {"k": {"const": "y"}, "more": {"type": "array"}}}], "discriminator": {"propertyName": "k"}}),
            json!({"k": "y", "more": [1]}),
        ),
        (
            json!({"type": "object", "x-order": ["a"], "xml": {}, "$comment": 4, "deprecated": "yes", "readOnly": true}),
            json!({}),
        ),
    ]
}

fn all() -> Vec<(Value, Value)> {
    [references(), names(), values(), shapes(), members()].concat()
}

#[test]
fn what_nobody_thought_of_is_taken_by_every_provider_and_comes_back_as_it_was() {
    let (all, mut wrong) = (all(), Vec::new());
    assert!(all.len() > 80, "{}", all.len());
    for (schema, value) in &all {
        for rules in ToolRules::ALL {
            let name = rules.name();
            let short: String = schema.to_string().chars().take(200).collect();
            let adapted = adapted(schema, rules);
            if let Some(why) = rules.schema(&adapted.schema) {
                wrong.push(format!("{name} refuses {short}\n   {why}"));
            }
            let sent = adapted.encode(value.clone());
            match jsonschema::draft202012::new(&adapted.schema) {
                Ok(check) if !check.is_valid(&sent) => {
                    let more: String = adapted.schema.to_string().chars().take(400).collect();
                    wrong.push(format!("{name}: {sent} does not fit {short}\n   sent as {more}"));
                }
                Ok(_) => {}
                Err(error) => wrong.push(format!("{name}: {short}: {error}")),
            }
            if adapted.decode(sent.clone()) != *value {
                wrong.push(format!(
                    "{name}: {short}: {sent} came back as {}",
                    adapted.decode(sent.clone())
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_not_sent_is_said() {
    for (property, words) in [
        (json!({"type": "string", "format": "uri"}), "format: uri"),
        (json!({"type": "string", "enum": ["", "a"]}), "it may also be an empty text"),
        (json!({"type": "string", "contentEncoding": "base64"}), "contentEncoding: base64"),
        (
            json!({"type": "array", "items": {"type": "string"}, "uniqueItems": true}),
            "uniqueItems: true",
        ),
        (
            json!({"type": "object", "propertyNames": {"pattern": "^a"}}),
            "propertyNames: {\"pattern\":\"^a\"}",
        ),
        (json!({"type": "object", "unevaluatedProperties": false}), "unevaluatedProperties: false"),
        (json!({"type": "integer", "enum": [1, 2]}), "one of: [1,2]"),
        (json!({"type": "string", "default": "x", "pattern": "^x"}), "pattern: ^x; default: x"),
    ] {
        let sent = adapted(&one(property.clone()), ToolRules::Compatible).schema;
        let said = sent["properties"]["p"]["description"].as_str().unwrap_or_default();
        assert!(said.contains(words), "{property}: {sent}");
    }
}

#[tokio::test]
async fn names_that_are_odd_or_alike_are_taken_and_lead_to_their_tools() {
    let names =
        ["a.b", "a/b", "a b", "a_b", "größe", "1st", "-", "日本語", "search", "Search", "search "];
    let long = ["n".repeat(70), "n".repeat(70) + "2", "n".repeat(128)];
    let all: Vec<&str> = names.into_iter().chain(long.iter().map(String::as_str)).collect();
    let hints = json!({"readOnlyHint": true, "openWorldHint": false});
    let tools: Vec<Value> = all
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let long = "x".repeat(1_025);
            let description = ["", "a\u{0}b\u{1b}[0m", &long][at % 3];
            json!({"name": name, "description": description, "annotations": hints,
                "inputSchema": {"type": "object"}})
        })
        .collect();
    for format in [Format::Anthropic, Format::Gemini, Format::OpenAi, Format::Ollama] {
        let scene = Scene::with(&tools).await;
        let provider = Provider::new(vec![text("Hello.")]).strict();
        let reason =
            scene.turn(wide(format, &provider), &mut Conversation::default(), "hello").await;
        assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        assert!(!scene.has(StatusKind::LeftOut), "{format:?}: {:?}", scene.events());
        // Each name leads back to the tool that it stands for.
        let body = provider.requests().remove(0).body;
        let list = body.pointer("/tools/0/functionDeclarations").unwrap_or(&body["tools"]);
        let sent: Vec<String> = list
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|tool| tool.get("function").unwrap_or(tool)["name"].as_str())
            .map(str::to_owned)
            .collect();
        let distinct: std::collections::HashSet<&String> = sent.iter().collect();
        assert_eq!((sent.len(), distinct.len()), (all.len() + 6, sent.len()), "{sent:?}");
        if format != Format::OpenAi {
            continue;
        }
        let mut reached = Vec::new();
        for name in sent {
            let name: &'static str = name.leak();
            let provider = Provider::new(vec![call(name, "{}"), text("Done.")]).strict();
            let scene = Scene::with(&tools).await;
            scene.turn(wide(format, &provider), &mut Conversation::default(), "go").await;
            let (_, is_error, said) = scene.results().remove(0);
            assert!(!is_error, "{name}: {said}");
            reached.push(said.split(" got ").next().unwrap_or_default().to_owned());
        }
        for name in &all {
            let count = reached.iter().filter(|one| one == name).count();
            assert_eq!(count, 1, "{name:?} in {reached:?}");
        }
    }
}
