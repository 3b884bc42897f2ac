//! The tools of a prompt as a provider takes them: schemas adapted, names of properties mapped back
//! in calls, and tools that the provider has refused left out.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::llm::{ChatMessage, ModelPrompt, ModelReply, ToolSpec};
use base::text::{SafeText, cut};
use schema::{AdaptedSchema, SchemaDocument, ToolFormat};

/// Maximum number of tools of which a provider's view is remembered.
const MAX_REMEMBERED_TOOLS: usize = 4_096;

/// A tool as it is sent.
#[derive(Clone, Debug)]
struct OfferedTool {
    original: Arc<Value>,
    adapted: Arc<AdaptedSchema>,
    sent: Arc<Value>,
    /// Whether the provider refused it.
    is_refused: bool,
}

/// What is known of the tools that were offered to one model.
#[derive(Debug)]
pub(super) struct ToolOffer {
    format: ToolFormat,
    tools: Mutex<HashMap<String, OfferedTool>>,
    /// Maximum number of tools in a request: the documented one, or one learned from a refusal.
    max_tools: AtomicUsize,
    /// Whether it was said that there are too many.
    is_excess_told: AtomicBool,
    /// Whether schemas are sent in their plainest form.
    is_plain: AtomicBool,
}

impl ToolOffer {
    pub(super) fn new(format: ToolFormat) -> Self {
        let max_tools = AtomicUsize::new(format.max_tools().unwrap_or(usize::MAX));
        let [is_excess_told, is_plain] = [const { AtomicBool::new(false) }; 2];
        Self { format, tools: Mutex::default(), max_tools, is_excess_told, is_plain }
    }

    fn tool(&self, spec: &ToolSpec) -> OfferedTool {
        let mut tools = self.tools.lock();
        let is_same = |known: &&OfferedTool| {
            Arc::ptr_eq(&known.original, &spec.schema) || known.original == spec.schema
        };
        if let Some(known) = tools.get(&spec.name).filter(is_same) {
            return known.clone();
        }
        let document = SchemaDocument::new(&spec.schema);
        let adapted = AdaptedSchema::new(&document, self.format);
        let is_plain = self.is_plain.load(Ordering::Relaxed);
        let sent = if is_plain { plain_root(&adapted.schema) } else { adapted.schema.clone() };
        let tool = OfferedTool {
            original: Arc::clone(&spec.schema),
            sent: Arc::new(sent),
            adapted: Arc::new(adapted),
            is_refused: false,
        };
        if tools.len() < MAX_REMEMBERED_TOOLS {
            tools.insert(spec.name.clone(), tool.clone());
        }
        tool
    }

    /// The prompt with its tools, and the arguments of earlier calls, as the provider takes them.
    pub(super) fn adapted(&self, prompt: &ModelPrompt) -> ModelPrompt {
        let offered = prompt.tools.iter().map(|spec| (spec, self.tool(spec)));
        let offered: Vec<_> = offered.filter(|(_, tool)| !tool.is_refused).collect();
        let by_name: HashMap<&str, &AdaptedSchema> =
            offered.iter().map(|(spec, tool)| (spec.name.as_str(), &*tool.adapted)).collect();
        let messages = prompt.messages.iter().map(|message| {
            let mut message = message.clone();
            if let ChatMessage::Assistant(reply) = &mut message {
                for call in reply.calls.iter_mut().filter(|call| call.problem.is_none()) {
                    if let Some(adapted) = by_name.get(call.name.as_str()) {
                        call.arguments = adapted.encode(std::mem::take(&mut call.arguments));
                    }
                }
            }
            message
        });
        let messages = messages.collect();
        let most = self.max_tools.load(Ordering::Relaxed);
        let mut system = prompt.system.clone();
        let tools = offered.iter().take(most).map(|(spec, tool)| ToolSpec {
            name: spec.name.clone(),
            description: self.description(spec, &mut system),
            schema: Arc::clone(&tool.sent),
        });
        let tools = tools.collect();
        ModelPrompt { system, messages, tools }
    }

    /// The description of a tool at the length that the provider takes; the rest of it goes to the
    /// end of the system prompt.
    fn description(&self, spec: &ToolSpec, system: &mut String) -> String {
        const MORE: &str = " (goes on in the system prompt)";
        let text = spec.description.as_str();
        if text.trim().is_empty() {
            // None at all is refused where Amazon's models are behind the address
            // (danny-avila/LibreChat#13209).
            return format!("The tool {}, which its server does not describe.", spec.name);
        }
        let most = self.format.max_description_chars().unwrap_or(usize::MAX);
        if text.chars().count() <= most {
            return text.to_owned();
        }
        let room = most.saturating_sub(MORE.len());
        let end = text.char_indices().nth(room).map_or(text.len(), |(at, _)| at);
        // At the end of a word, where there is one near.
        let cut = text[..end].rfind(char::is_whitespace).filter(|at| end - at < 100).unwrap_or(end);
        let name = &spec.name;
        _ = write!(
            system,
            "\n\nThe description of the tool {name} goes on: {}",
            text[cut..].trim()
        );
        format!("{}{MORE}", text[..cut].trim_end())
    }

    /// The first tool beyond the number that the provider takes, and what to tell of it; once.
    pub(super) fn excess(&self, prompt: &ModelPrompt) -> Option<(String, SafeText)> {
        let most = self.max_tools.load(Ordering::Relaxed);
        let first = prompt.tools.get(most)?;
        let more = prompt.tools.len() - most;
        let why = format!(
            "the provider takes {most} tools in a request: {more} from {} on are left out",
            first.name
        );
        let is_told = self.is_excess_told.swap(true, Ordering::Relaxed);
        (!is_told).then(|| (first.name.clone(), SafeText::line(&why)))
    }

    /// Gives the arguments of calls the names that the servers know.
    pub(super) fn restore(&self, reply: &mut ModelReply) {
        let tools = self.tools.lock();
        for call in reply.calls.iter_mut().filter(|call| call.problem.is_none()) {
            if let Some(tool) = tools.get(&call.name) {
                call.arguments = tool.adapted.decode(std::mem::take(&mut call.arguments));
            }
        }
    }

    /// Learns from a refusal how many tools the provider takes (`'tools': array too long. Expected an
    /// array with maximum length 128`); returns whether it did.
    pub(super) fn learn_max_tools(&self, refusal: &str) -> bool {
        let is_it = refusal.contains("tools") && refusal.contains("too long");
        let Some((_, rest)) = refusal.split_once("maximum length ").filter(|_| is_it) else {
            return false;
        };
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let Ok(most) = rest[..digits].parse::<usize>() else { return false };
        // Each time fewer, so this ends.
        let is_array = refusal.contains("array");
        is_array && most > 0 && self.max_tools.fetch_min(most, Ordering::Relaxed) > most
    }

    /// Learns from a refusal of a schema that names no tool to send all of them in their plainest form;
    /// returns whether it did. Once, so this ends.
    pub(super) fn learn_plain(&self, sent: &ModelPrompt, refusal: &str) -> bool {
        let text = refusal.to_lowercase();
        let is_it = SCHEMA_WORDS.iter().any(|words| text.contains(words));
        if sent.tools.is_empty() || !is_it || self.is_plain.swap(true, Ordering::Relaxed) {
            return false;
        }
        for tool in self.tools.lock().values_mut() {
            tool.sent = Arc::new(plain_root(&tool.sent));
        }
        true
    }

    /// Leaves out the tool that a refusal names; returns its name. `sent` is the refused prompt.
    pub(super) fn leave_out(&self, sent: &ModelPrompt, refusal: &str) -> Option<String> {
        let named = named_tool(&sent.tools, refusal)?;
        let mut tools = self.tools.lock();
        tools.get_mut(&named)?.is_refused = true;
        Some(named)
    }
}

/// How providers refuse a schema without the name of its tool (MoonshotAI/kimi-code#1610;
/// ggml-org/llama.cpp#27087; firecrawl/firecrawl#4512).
const SCHEMA_WORDS: [&str; 8] = [
    "grammar",
    "json schema",
    "json_schema",
    "invalid schema",
    "schema exceeds",
    "tools.function.parameters",
    "function parameters",
    "tool parameters",
];
/// Maximum size of what a place says in words of the rest of its schema, in bytes.
const MAX_REST_BYTES: usize = 300;

/// The plainest form of the schema of a tool: what every provider reads, and the rest in words.
fn plain_root(schema: &Value) -> Value {
    let mut root = plain(schema);
    root["type"] = json!("object");
    if !root["properties"].is_object() {
        root["properties"] = json!({});
    }
    root
}

fn plain(schema: &Value) -> Value {
    let Some(map) = schema.as_object() else { return json!({"type": "string"}) };
    // Of alternatives the first that is more than null, with all of them in words.
    let all = ["anyOf", "oneOf"].iter().find_map(|key| map.get(*key)?.as_array());
    let first = all.and_then(|all| all.iter().find(|one| one["type"] != "null"));
    let mut out = match first.map(plain) {
        Some(Value::Object(first)) => first,
        _ => Map::new(),
    };
    let mut rest = Map::new();
    for (key, value) in map {
        match (key.as_str(), value) {
            ("type", Value::Array(all)) => {
                let one = all.iter().find(|word| *word != "null");
                out.insert(key.clone(), one.cloned().unwrap_or_else(|| json!("string")));
            }
            ("type" | "description" | "required", _) => {
                out.insert(key.clone(), value.clone());
            }
            ("enum", Value::Array(all)) if all.iter().all(Value::is_string) => {
                out.insert(key.clone(), value.clone());
            }
            ("items", _) => {
                out.insert(key.clone(), plain(value));
            }
            ("properties", Value::Object(all)) => {
                let all = all.iter().map(|(name, one)| (name.clone(), plain(one)));
                out.insert(key.clone(), all.collect());
            }
            _ => {
                rest.insert(key.clone(), value.clone());
            }
        }
    }
    if !rest.is_empty() {
        let rest = Value::Object(rest).to_string();
        let rest = cut(&rest, MAX_REST_BYTES);
        let before = out.get("description").and_then(Value::as_str).unwrap_or_default();
        let text = format!("{before} (as JSON Schema: {rest})");
        out.insert("description".to_owned(), text.trim_start().into());
    }
    if !out.contains_key("type") {
        let kind = if out.contains_key("properties") { "object" } else { "string" };
        out.insert("type".to_owned(), json!(kind));
    }
    Value::Object(out)
}

/// The tool that a refusal is about: by the index that providers give (`tools.3.custom`,
/// `tools[3].function`, `function_declarations[3]`), else by the longest name within it.
fn named_tool(tools: &[ToolSpec], refusal: &str) -> Option<String> {
    let indexed = ["function_declarations[", "functionDeclarations[", "tools[", "tools."];
    let by_index = indexed.iter().find_map(|before| {
        let (_, rest) = refusal.split_once(before)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        tools.get(rest[..digits].parse::<usize>().ok()?)
    });
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let names = |tool: &&ToolSpec| {
        refusal.match_indices(&tool.name).any(|(at, name)| {
            !refusal[..at].ends_with(is_word) && !refusal[at + name.len()..].starts_with(is_word)
        })
    };
    let by_name = || tools.iter().filter(names).max_by_key(|tool| tool.name.len());
    by_name().or(by_index).map(|tool| tool.name.clone())
}

/// What the person is told of a tool that was left out.
pub(super) fn left_out(name: &str, why: &str) -> SafeText {
    SafeText::cut(&format!("the provider refuses the tool {name}, which is left out: {why}"), 400)
}
