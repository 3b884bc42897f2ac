//! The schemas of tools as each provider takes them: odd ones, those that are written out in
//! `fixtures/schemas`, and those of published servers, against the rules of each provider.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use mcpdeck::chat::{
    ChatEvent, Conversation, DoneReason, Provider as Format, ProviderModel, StatusKind,
};
use mcpdeck::schema::{AdaptedSchema, SchemaDocument, ToolFormat};
use serde_json::{Map, Value, json};

use super::{Scene, call, model, remote, text};
use crate::provider::tool_rules::ToolRules;
use crate::provider::{Answer, Provider};

/// Schemas that some provider refuses.
fn odd_schemas() -> Vec<Value> {
    let many: Map<String, Value> =
        (0..200).map(|n| (format!("field {n}"), json!({"type": "string"}))).collect();
    let deep = (0..40).fold(
        json!({"type": "string"}),
        |inner, _| json!({"type": "object", "properties": {"in": inner}, "required": ["in"]}),
    );
    let odd = vec![
        json!({}),
        json!(true),
        json!({"type": "string"}),
        json!({"type": "object"}),
        json!({"type": "object", "enum": [{"a": 1}], "properties": {"a": {"type": "integer"}}}),
        json!({"type": ["object", "null"], "properties": {"a": {"type": "integer"}}}),
        json!({"type": "object", "properties": {"list": {"type": "array"}, "any": true, "none": false}}),
        json!({"type": "object", "anyOf": [
            {"properties": {"a": {"type": "string"}}}, {"properties": {"b": {"$ref": "#/$defs/B"}}}],
            "$defs": {"B": {"type": ["array", "string"], "items": [{"type": "string"}]}}}),
        json!({"type": "object", "$ref": "#/$defs/Query",
            "$defs": {"Query": {"type": "object", "properties": {"q": {"$ref": "#/$defs/Query"}}}}}),
        json!({"type": "object", "properties": {"$top": {"type": "integer"}, "fields[mesh]": {"type": "string"},
            "@type": {"enum": [true, null, 3]}, "1st": {"type": ["integer", "null", "boolean"]}},
            "required": ["$top", "missing"]}),
        json!({"type": "object", "properties": {"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true},
            "u": {"type": "uuid"}, "v": {"type": "string", "minLength": "3", "description": ["x"]}},
            "not": {"required": ["n"]}, "if": {"required": ["u"]}, "then": {"required": ["v"]}}),
        json!({"type": "object", "properties": {"m": {"patternProperties": {"^a": {"type": "array"}}},
            "lost": {"$ref": "https://example.com/x.json"}, "t": {"allOf": [{"type": "array"}]}}}),
        // References that lead back, and definitions within a property.
        json!({"type": "object", "properties": {
            "tree": {"$defs": {"Node": {"type": "array", "items": {"$ref": "#/properties/tree/$defs/Node"}}},
                "$ref": "#/properties/tree/$defs/Node"},
            "self": {"$ref": "#"}}}),
        // Keywords of other types, and values of the wrong kind.
        json!({"type": "object", "properties": {
            "text": {"type": "string", "properties": {"a": {}}, "required": ["a"], "items": {}},
            "count": {"type": "integer", "default": "many", "format": "uint128", "multipleOf": 0.5},
            "when": {"type": "string", "format": "a-format-nobody-knows", "pattern": "("},
            "none": {"type": "string", "enum": []},
            "mixed": {"enum": ["a", 1, null, true, {"b": 2}]},
            "fixed": {"const": {"kind": "x"}},
            "number": {"const": 4},
            "levels": {"type": "integer", "enum": [1, 2, 3]},
            "rest": {"type": "object", "additionalProperties": {}},
            "words": {"type": "object", "additionalProperties": {"description": "anything"}},
            "names": {"type": "object", "propertyNames": {"pattern": "^x"}, "minProperties": 1},
            "": {"type": "string"}}}),
        // Conditions on several levels.
        json!({"type": "object", "properties": {"kind": {"type": "string"}},
            "if": {"properties": {"kind": {"const": "a"}}}, "then": {"required": ["a"]},
            "else": {"not": {"required": ["a"]}}, "dependentRequired": {"kind": ["b"]},
            "dependentSchemas": {"kind": {"properties": {"c": {"type": "array"}}}}}),
        json!({"type": "object", "properties": {"pair": {"type": "array", "prefixItems": [{"type": "string"}, {}],
            "items": false}, "nothing": {"type": "array", "items": false},
            "either": {"type": ["string", "array", "object", "null"]},
            "nullable": {"type": ["integer", "null"], "enum": [1, null]}}}),
        json!({"type": "object", "properties": {"union": {"oneOf": [{"type": "object", "properties": {
            "a-b": {"type": "string"}}}, {"type": "array", "items": {"type": ["string", "number"]}},
            {"type": "null"}, {}, true]}}}),
        json!({"type": "object", "properties": many, "required": (0..200).map(|n| format!("field {n}")).collect::<Vec<_>>()}),
        json!({"type": "object", "properties": {"deep": deep}}),
        json!({"type": "object", "properties": {"long": {"type": "string", "description": "word ".repeat(5_000)},
            ("x".repeat(300)): {"type": "string"}, "größe": {"type": "string"}, "a.b": {"type": "string"}}}),
        json!({"$schema": "http://json-schema.org/draft-04/schema#", "id": "x", "type": "object",
            "definitions": {"N": {"type": "number", "maximum": 1, "exclusiveMaximum": false}},
            "properties": {"n": {"$ref": "#/definitions/N"}}}),
    ];
    let fixture = include_str!("../../../fixtures/schemas/tools.json");
    let fixture: Vec<Value> = serde_json::from_str(fixture).unwrap();
    let fixture = fixture.into_iter().map(|tool| tool["inputSchema"].clone());
    fixture.chain(odd).collect()
}

/// Tools with odd schemas.
fn odd_tools() -> Vec<Value> {
    let hints = json!({"readOnlyHint": true, "openWorldHint": false});
    // The schema of a tool must be an object with this type at its root.
    let is_listed = |schema: &Value| schema["type"] == "object";
    let schemas = odd_schemas().into_iter().filter(is_listed).enumerate();
    let long = "It does a lot. ".repeat(300);
    let tools = schemas.map(|(at, schema)| {
        let description = if at % 3 == 0 { long.as_str() } else { "It is odd." };
        json!({
            "name": format!("odd{at}"), "description": description, "inputSchema": schema,
            "annotations": hints,
        })
    });
    tools.collect()
}

/// The tools of published servers, by server.
fn published() -> BTreeMap<String, Vec<Value>> {
    let servers: Vec<Value> =
        serde_json::from_str(include_str!("../../../fixtures/schemas/published.json")).unwrap();
    let tools = |server: &Value| server["tools"].as_array().unwrap().clone();
    servers.iter().map(|it| (it["server"].as_str().unwrap().to_owned(), tools(it))).collect()
}

/// The schemas of `fixtures/schemas/hand`, with a value where one is given that is valid.
fn written_out() -> Vec<(String, Value, Option<Value>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/schemas/hand");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let read = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        let value = (case["fits"] == true).then(|| case["expected"].clone());
        (path.display().to_string(), case["schema"].clone(), value)
    };
    files.map(read).collect()
}

pub fn adapted(schema: &Value, rules: ToolRules) -> AdaptedSchema {
    let format = ToolFormat::parse(rules.name()).unwrap();
    AdaptedSchema::new(&SchemaDocument::new(&Arc::new(schema.clone())), format)
}

#[test]
fn no_provider_refuses_an_odd_schema_or_one_of_a_published_server() {
    let published = published();
    assert!(published.len() >= 30, "{} servers", published.len());
    let of_servers = published.iter().flat_map(|(server, tools)| {
        tools
            .iter()
            .map(move |tool| (format!("{server} {}", tool["name"]), tool["inputSchema"].clone()))
    });
    let odd = odd_schemas().into_iter().map(|schema| ("odd".to_owned(), schema));
    let hand = written_out().into_iter().map(|(name, schema, _)| (name, schema));
    let all: Vec<(String, Value)> = of_servers.chain(odd).chain(hand).collect();
    let mut refused = Vec::new();
    let mut unchanged = BTreeMap::<&str, usize>::new();
    for (name, schema) in &all {
        for rules in ToolRules::ALL {
            if rules.schema(schema).is_none() {
                *unchanged.entry(rules.name()).or_default() += 1;
            }
            let sent = adapted(schema, rules).schema;
            if let Some(why) = rules.schema(&sent) {
                refused.push(format!("{}: {name}: {why}", rules.name()));
            }
        }
    }
    assert!(refused.is_empty(), "{} of {}:\n{}", refused.len(), all.len(), refused.join("\n"));
    // The rules are no sieve: each refuses some of them as they stand.
    for rules in ToolRules::ALL {
        let taken = unchanged.get(rules.name()).copied().unwrap_or_default();
        assert!(taken < all.len() - 20, "{}: {taken} of {}", rules.name(), all.len());
    }
}

#[test]
fn what_a_server_takes_is_valid_as_it_is_sent_and_comes_back_as_it_was() {
    for (name, schema, value) in written_out() {
        let Some(value) = value.filter(Value::is_object) else { continue };
        for rules in ToolRules::ALL {
            let about = format!("{} {name}", rules.name());
            let adapted = adapted(&schema, rules);
            let sent = adapted.encode(value.clone());
            let check = jsonschema::draft202012::new(&adapted.schema).unwrap();
            assert!(check.is_valid(&sent), "{about}: {sent} with {}", adapted.schema);
            assert_eq!(adapted.decode(sent), value, "{about}");
        }
    }
}

#[tokio::test]
async fn odd_schemas_are_sent_as_each_provider_takes_them() {
    let tools = odd_tools();
    let named = tools.iter().position(|t| t["inputSchema"]["properties"].get("$top").is_some());
    let named = format!("a__odd{}", named.unwrap());
    for format in [Format::Anthropic, Format::Gemini, Format::OpenAi, Format::Ollama] {
        let scene = Scene::with(&tools).await;
        let arguments = match format {
            Format::Ollama => r#"{"$top": 3, "missing": 1}"#,
            _ => r#"{"top": 3, "missing": 1}"#,
        };
        let name: &'static str = named.clone().leak();
        let provider = Provider::new(vec![call(name, arguments), text("Hello.")]).strict();
        let mut talk = Conversation::default();
        let reason = scene.turn(wide(format, &provider), &mut talk, "hello").await;
        assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        assert!(!scene.has(StatusKind::LeftOut), "{format:?}: {:?}", scene.events());
        let sent = provider.requests()[0].body.to_string();
        for at in 0..tools.len() {
            assert!(sent.contains(&format!("\"a__odd{at}\"")), "{format:?}: {at}");
        }
        // Nothing of a long description is lost.
        assert_eq!(
            sent.matches("It does a lot").count() / 250,
            tools.len().div_ceil(3),
            "{format:?}"
        );
        // The server gets the names that it knows.
        assert!(
            scene.results()[0].2.contains(r#"{"$top":3,"missing":1}"#),
            "{:?}",
            scene.results()
        );
    }
}

/// A model with a context that all tools fit in.
pub fn wide(format: Format, provider: &Provider) -> Arc<ProviderModel> {
    let mut config = remote(format, provider);
    config.context = Some(8_000_000);
    Arc::new(ProviderModel::new(config).unwrap())
}

#[tokio::test]
async fn the_tools_of_published_servers_are_refused_by_no_provider() {
    let hints = json!({"readOnlyHint": true, "openWorldHint": false});
    let tools = published().into_values().flatten().enumerate().map(|(at, mut tool)| {
        // The names of different servers may be the same.
        tool["name"] = json!(format!("{at}_{}", tool["name"].as_str().unwrap()));
        tool["annotations"] = hints.clone();
        tool
    });
    let tools: Vec<Value> = tools.collect();
    for format in [Format::Anthropic, Format::Gemini, Format::OpenAi, Format::Ollama] {
        let scene = Scene::with(&tools).await;
        let provider = Provider::new(vec![text("Hello.")]).strict();
        let mut talk = Conversation::default();
        let reason = scene.turn(wide(format, &provider), &mut talk, "hello").await;
        assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        let left: Vec<_> = scene.events().into_iter().filter_map(left_out).collect();
        let requests = provider.requests();
        let last = &requests.last().unwrap().body;
        let sent = match format {
            Format::Gemini => last.pointer("/tools/0/functionDeclarations").unwrap(),
            _ => &last["tools"],
        };
        let sent = sent.as_array().unwrap().len();
        match format {
            // Behind a compatible address the number is learned from the refusal.
            Format::OpenAi => {
                assert_eq!((left.len(), sent, requests.len()), (1, 128, 2), "{left:?}");
            }
            Format::Gemini => assert!(sent == 512.min(tools.len() + 6), "{sent}"),
            _ => assert_eq!((left.len(), sent), (0, tools.len() + 6), "{left:?}"),
        }
    }
}

/// The providers that a tool of a server may be sent to, each with a model of it, which tells the mock
/// whose rules hold.
const PROVIDERS: [(&str, Format, &str); 14] = [
    ("Anthropic", Format::Anthropic, "claude-sonnet-4-5"),
    ("Gemini", Format::Gemini, "gemini-flash-latest"),
    ("Ollama", Format::Ollama, "qwen3"),
    ("OpenAI, Responses", Format::OpenAi, "gpt-5-mini"),
    ("Azure", Format::OpenAi, "gpt-4.1"),
    ("OpenRouter", Format::OpenAi, "google/gemini-3-pro"),
    ("Groq", Format::OpenAi, "openai/gpt-oss-120b"),
    ("DeepSeek", Format::OpenAi, "deepseek-chat"),
    ("Mistral", Format::OpenAi, "mistral-large-latest"),
    ("Moonshot", Format::OpenAi, "kimi-k2"),
    ("xAI", Format::OpenAi, "grok-4"),
    ("vLLM", Format::OpenAi, "Qwen/Qwen3-32B"),
    ("llama.cpp", Format::OpenAi, "llamacpp/gpt-oss-20b"),
    ("LM Studio", Format::OpenAi, "lmstudio/qwen3-8b"),
];

#[tokio::test]
async fn every_tool_of_the_published_servers_is_taken_by_every_provider() {
    let hints = json!({"readOnlyHint": true, "openWorldHint": false});
    let mut tools: Vec<Value> = published().into_values().flatten().collect();
    for (at, tool) in tools.iter_mut().enumerate() {
        tool["name"] = json!(format!("{at}_{}", tool["name"].as_str().unwrap()));
        tool["annotations"] = hints.clone();
    }
    // As many at once as the strictest of them takes, beside the six of the scene.
    for part in tools.chunks(122) {
        let scene = Scene::with(part).await;
        for (name, format, model) in PROVIDERS {
            let provider = Provider::new(vec![text("Hello.")]).strict();
            let mut config = remote(format, &provider);
            (config.model, config.context) = (model.to_owned(), Some(8_000_000));
            if name.ends_with("Responses") {
                config.base_url = format!("{}/responses", provider.url).parse().unwrap();
            }
            let model = Arc::new(ProviderModel::new(config).unwrap());
            let reason = scene.turn(model, &mut Conversation::default(), "hello").await;
            assert_eq!(reason, DoneReason::End, "{name}: {:?}", scene.events().last());
            let requests = provider.requests();
            // Mistral refuses a field that is no tool.
            assert_eq!(requests.len(), 1 + usize::from(name == "Mistral"), "{name} refused");
            let body = &requests.last().unwrap().body;
            let list = body.pointer("/tools/0/functionDeclarations").unwrap_or(&body["tools"]);
            assert_eq!(list.as_array().unwrap().len(), part.len() + 6, "{name}");
        }
        let left: Vec<_> = scene.events().into_iter().filter_map(left_out).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// The first keyword of a schema that is not among the plainest, if any.
fn keyword_beside(schema: &Value) -> Option<String> {
    let map = schema.as_object()?;
    let plain = ["type", "description", "enum", "items", "properties", "required"];
    let own = map.keys().find(|key| !plain.contains(&key.as_str())).cloned();
    let types = (!schema["type"].is_string()).then(|| format!("type of {schema}"));
    let named = map.get("properties").and_then(Value::as_object);
    let mut below = named.into_iter().flat_map(|all| all.values()).chain(map.get("items"));
    own.or(types).or_else(|| below.find_map(keyword_beside))
}

#[tokio::test]
async fn a_refusal_of_a_schema_without_the_name_of_its_tool_is_answered_with_plain_ones() {
    let hints = json!({"readOnlyHint": true, "openWorldHint": false});
    let odd = json!({"name": "odd", "annotations": hints, "inputSchema": {"type": "object",
        "properties": {
            "$top": {"anyOf": [{"type": "null"}, {"type": "integer", "minimum": 1}]},
            "list": {"type": "array", "maxItems": 2_000, "items": {"type": ["string", "null"]}},
        }, "required": ["list"], "additionalProperties": false}});
    let mut tools: Vec<Value> = published().into_values().flatten().take(100).collect();
    for tool in &mut tools {
        tool["annotations"] = hints.clone();
    }
    tools.dedup_by(|a, b| a["name"] == b["name"]);
    tools.push(odd);
    for (status, words) in [
        (
            400,
            "tools.function.parameters is not a valid moonshot flavored json schema, details: <At \
             path 'root': schema exceeds maximum allowed size>",
        ),
        (400, "Failed to initialize samplers: failed to parse grammar"),
        (500, "failed to parse grammar"),
    ] {
        let scene = Scene::with(&tools).await;
        let refused = Answer::Status(status, "", json!({"error": {"message": words}}));
        let arguments = r#"{"top": 3, "list": []}"#;
        let answers = vec![refused, call("a__odd", arguments), text("Done."), text("Again.")];
        let provider = Provider::new(answers).strict();
        let (model, mut talk) = (wide(Format::OpenAi, &provider), Conversation::default());
        for _ in 0..2 {
            let reason = scene.turn(model.clone(), &mut talk, "go").await;
            assert_eq!(reason, DoneReason::End, "{words}: {:?}", scene.events());
        }
        let told: Vec<_> = scene.events().into_iter().filter_map(left_out).collect();
        assert!(matches!(&told[..], [one] if one.contains(words)), "{told:?}");
        let requests = provider.requests();
        assert_eq!(requests.len(), 4, "{words}");
        for (at, request) in requests.iter().enumerate() {
            let sent = request.body["tools"].as_array().unwrap();
            assert!(sent.len() > 90);
            let schemas = sent.iter().map(|tool| &tool["function"]["parameters"]);
            let mut beside = schemas.filter_map(keyword_beside);
            assert_eq!(beside.next().is_some(), at == 0, "{at}: {:?}", beside.next());
        }
        let sent = requests[1].body["tools"].to_string();
        assert!(sent.contains("maxItems") && sent.contains("2000"), "said in words");
        // The server gets the names that it knows.
        let results = scene.results();
        assert!(results[0].2.contains(r#""$top":3"#), "{results:?}");
    }
}

fn left_out(event: ChatEvent) -> Option<String> {
    match event {
        ChatEvent::Status { status: StatusKind::LeftOut, message, .. } => message,
        _ => None,
    }
}

#[tokio::test]
async fn the_number_of_tools_that_a_refusal_names_is_kept_to_from_then_on() {
    let scene = Scene::new().await;
    let provider = Provider::new(vec![
        Answer::Status(
            400,
            "",
            json!({"error": {"message":
            "Invalid 'tools': array too long. Expected an array with maximum length 4, but got an \
             array with length 6 instead."}}),
        ),
        text("Hello."),
        text("Again."),
    ]);
    let model = model(Format::OpenAi, &provider);
    let mut talk = Conversation::default();
    assert_eq!(scene.turn(Arc::clone(&model), &mut talk, "hello").await, DoneReason::End);
    assert_eq!(scene.turn(model, &mut talk, "again").await, DoneReason::End);
    let counts = provider
        .requests()
        .iter()
        .map(|it| it.body["tools"].as_array().unwrap().len())
        .collect::<Vec<_>>();
    assert_eq!(counts, [6, 4, 4]);
    let told: Vec<_> = scene.events().into_iter().filter_map(left_out).collect();
    assert!(matches!(&told[..], [one] if one.contains("takes 4 tools")), "{told:?}");
}
