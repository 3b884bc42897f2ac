//! `OpenAI`'s Responses API, streaming, without anything stored there: its present models take tools
//! over it alone, and their reasoning goes back encrypted (`OpenAI` guides, Migrate to the Responses API,
//! Reasoning models, Streaming; openai/openai-openapi#541). Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::llm::{ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, ToolCall};
use crate::media::ToolMedia;
use crate::provider::openai;
use crate::provider::wire::{ProviderRequest, ReplyReader, RequestPlan, is_placed, tools};

/// The field that asks for the reasoning in a form that can be sent back.
const INCLUDE: &str = "include";
/// What it asks for.
const ENCRYPTED: &str = "reasoning.encrypted_content";
/// The field that limits the answer, with its reasoning.
const OUTPUT_LIMIT_KEY: &str = "max_output_tokens";
/// The field of an answer that tells what it is for, kept with its text.
const PHASE: &str = "phase";

pub(super) fn request(plan: RequestPlan<'_>, prompt: &ModelPrompt) -> ProviderRequest {
    let config = plan.config;
    let input = prompt.messages.iter().flat_map(|message| match message {
        ChatMessage::User { text, media, .. } => {
            let text = json!({"type": "input_text", "text": text});
            let content: Vec<Value> = pictures(media).chain([text]).collect();
            vec![json!({"role": "user", "content": content})]
        }
        ChatMessage::Assistant(reply) => reply_items(reply),
        ChatMessage::Tool { id, text, media, .. } => {
            let mut output = json!(text);
            if media.iter().any(ToolMedia::is_picture) {
                let text = json!({"type": "input_text", "text": text});
                output = [text].into_iter().chain(pictures(media)).collect();
            }
            vec![json!({"type": "function_call_output", "call_id": id, "output": output})]
        }
    });
    let input: Vec<Value> = input.collect();
    let mut body = json!({"model": config.model, "stream": true, "store": false});
    body["input"] = input.into();
    if !prompt.system.is_empty() {
        body["instructions"] = json!(prompt.system);
    }
    if !plan.refused.contains(INCLUDE) {
        body[INCLUDE] = json!([ENCRYPTED]);
    }
    if !plan.refused.contains(OUTPUT_LIMIT_KEY) {
        body[OUTPUT_LIMIT_KEY] = json!(plan.max_output);
    }
    if let Some(mut tools) = tools(prompt, "parameters") {
        for tool in &mut tools {
            tool["type"] = json!("function");
            // Unlike Chat Completions it takes a definition for strict where nothing is said.
            tool["strict"] = json!(false);
        }
        body["tools"] = tools.into();
    }
    ProviderRequest { path: "/responses".to_owned(), headers: openai::headers(config), body }
}

/// The field of `sent` that a refusal is about, if a request can do without it (`Encrypted content is
/// not supported with this model`, of models that do not reason).
pub(super) fn refused_field(sent: &Value, refusal: &str) -> Option<&'static str> {
    let names_include = refusal.contains("ncrypted content") || refusal.contains(ENCRYPTED);
    let is_unknown = names_include && refusal.contains("not supported");
    if is_unknown && sent.get(INCLUDE).is_some() {
        return Some(INCLUDE);
    }
    (refusal.contains(OUTPUT_LIMIT_KEY) && sent.get(OUTPUT_LIMIT_KEY).is_some())
        .then_some(OUTPUT_LIMIT_KEY)
}

/// Pictures as parts of content.
fn pictures(media: &[ToolMedia]) -> impl Iterator<Item = Value> {
    let pictures = media.iter().filter(|one| one.is_picture());
    pictures.map(|one| json!({"type": "input_image", "image_url": one.data_url()}))
}

/// The items of an answer for the history, in the order in which they came.
fn reply_items(reply: &ModelReply) -> Vec<Value> {
    if reply.is_blank() {
        // Reasoning without what follows it is refused.
        return Vec::new();
    }
    let call = |call: &ToolCall| {
        let arguments = match &call.arguments {
            Value::String(_) => "{}".to_owned(),
            arguments => arguments.to_string(),
        };
        json!({
            "type": "function_call", "call_id": call.id, "name": call.name, "arguments": arguments,
        })
    };
    let text = |text: &str, phase: Option<&Value>| {
        let mut item = json!({"type": "message", "role": "assistant"});
        item["content"] = json!([{"type": "output_text", "text": text}]);
        if let Some(phase) = phase {
            item[PHASE] = phase.clone();
        }
        item
    };
    let has_text = reply.carried.iter().any(|block| block["type"] == "text");
    let placed = |id: &str| reply.carried.iter().any(|block| block["id"] == id);
    let mut items: Vec<Value> = Vec::new();
    for block in &reply.carried {
        match block["type"].as_str() {
            Some("tool_use") => {
                items.extend(reply.calls.iter().find(|made| block["id"] == *made.id).map(call));
            }
            Some("text") => {
                let words = block["text"].as_str().unwrap_or_default();
                if !words.is_empty() {
                    items.push(text(words, block.get(PHASE)));
                }
            }
            Some("reasoning") => items.push(block.clone()),
            _ => {}
        }
    }
    if !has_text && !reply.text.is_empty() {
        items.push(text(&reply.text, None));
    }
    items.extend(reply.calls.iter().filter(|made| !placed(&made.id)).map(call));
    items
}

/// Reads a streamed answer.
#[derive(Default)]
pub(super) struct ResponsesReader {
    /// Calls that have begun, by their item: the name, the id and the arguments so far.
    open: BTreeMap<u64, PartialItem>,
    /// Whether items came by themselves, not only within the whole response at the end.
    has_items: bool,
    is_done: bool,
}

/// A call that is still incomplete.
#[derive(Default)]
struct PartialItem {
    id: String,
    name: String,
    arguments: String,
}

impl ResponsesReader {
    /// Takes an item that is whole.
    fn item(&mut self, item: &Value, reply: &mut ModelReply) {
        self.has_items = true;
        let word = |key: &str| item[key].as_str().unwrap_or_default().to_owned();
        match item["type"].as_str() {
            Some("function_call") => {
                let id = word("call_id");
                let id = if id.is_empty() { word("id") } else { id };
                reply.carried.push(json!({"type": "tool_use", "id": id}));
                let call = ToolCall::new(id, word("name"), &word("arguments"));
                let is_whole = item["status"] != "incomplete";
                reply.calls.push(if is_whole { call } else { call.unfinished() });
            }
            Some("message") => {
                let content = item["content"].as_array().into_iter().flatten();
                let text: String = content.filter_map(|part| part["text"].as_str()).collect();
                let mut block = json!({"type": "text", "text": text});
                if let Some(phase) = item.get(PHASE).filter(|phase| phase.is_string()) {
                    block[PHASE] = phase.clone();
                }
                reply.carried.push(block);
            }
            // Without what is encrypted, an item that is not stored cannot be read again. Its id is of
            // one that is stored.
            Some("reasoning") if item["encrypted_content"].is_string() => {
                let mut kept = item.clone();
                if let Some(fields) = kept.as_object_mut() {
                    fields.retain(|key, value| {
                        !["id", "status"].contains(&key.as_str()) && !value.is_null()
                    });
                }
                reply.carried.push(kept);
            }
            _ => {}
        }
    }

    /// Takes the response at its end.
    fn response(&mut self, response: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        let count = |place: &str| response.pointer(place).and_then(Value::as_u64);
        reply.usage.input = count("/usage/input_tokens").unwrap_or_default();
        let cached = count("/usage/input_tokens_details/cached_tokens").unwrap_or_default();
        reply.usage.cached = cached.min(reply.usage.input);
        reply.usage.output = count("/usage/output_tokens").unwrap_or_default();
        if !self.has_items {
            // A body that is no stream, or an address that sends no items.
            let is_new = reply.text.is_empty();
            for item in response["output"].as_array().into_iter().flatten() {
                self.item(item, reply);
                let is_said = is_new && item["type"] == "message";
                for part in item["content"].as_array().into_iter().flatten().filter(|_| is_said) {
                    Self::say(part["text"].as_str().or(part["refusal"].as_str()), reply, on);
                }
            }
        }
        match response.pointer("/incomplete_details/reason").and_then(Value::as_str) {
            Some("content_filter") => reply.stop = Stop::Filtered,
            Some("max_output_tokens") => reply.stop = Stop::Length,
            Some(_) => reply.stop = Stop::Halted,
            None if response["status"] == "incomplete" => reply.stop = Stop::Halted,
            None => {}
        }
        self.is_done =
            matches!(response["status"].as_str(), None | Some("completed" | "incomplete"));
    }

    fn say(text: Option<&str>, reply: &mut ModelReply, on: OnDelta<'_>) {
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            reply.text.push_str(text);
            on(Delta::Text(text.to_owned()));
        }
    }
}

impl ReplyReader for ResponsesReader {
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        let index = data["output_index"].as_u64().unwrap_or_default();
        let delta = data["delta"].as_str();
        match data["type"].as_str().unwrap_or_default() {
            "response.output_text.delta" => Self::say(delta, reply, on),
            "response.refusal.delta" => {
                reply.stop = Stop::Refused;
                Self::say(delta, reply, on);
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                if let Some(more) = delta.filter(|more| !more.is_empty()) {
                    on(Delta::Reasoning(more.to_owned()));
                }
            }
            "response.reasoning_summary_part.added" if data["summary_index"] != 0 => {
                on(Delta::Reasoning("\n\n".to_owned()));
            }
            "response.output_item.added" if data["item"]["type"] == "function_call" => {
                let word = |key: &str| data["item"][key].as_str().unwrap_or_default().to_owned();
                let (id, name, arguments) = (word("call_id"), word("name"), word("arguments"));
                self.open.insert(index, PartialItem { id, name, arguments });
            }
            "response.function_call_arguments.delta" => {
                let open = self.open.entry(index).or_default();
                open.arguments.push_str(delta.unwrap_or_default());
            }
            "response.output_item.done" => {
                self.open.remove(&index);
                self.item(&data["item"], reply);
            }
            "response.completed" | "response.incomplete" => {
                self.response(&data["response"], reply, on);
            }
            // The whole of it, where no stream was made.
            "" if data["object"] == "response" => self.response(data, reply, on),
            _ => {}
        }
    }

    fn finish(&mut self, reply: &mut ModelReply, _: bool) -> bool {
        for PartialItem { id, name, arguments } in std::mem::take(&mut self.open).into_values() {
            reply.calls.push(ToolCall::new(id, name, &arguments).unfinished());
        }
        // Text and calls alone stand in the answer itself.
        let is_plain = |block: &Value| is_placed(block) && block.get(PHASE).is_none();
        if reply.carried.iter().all(is_plain) {
            reply.carried.clear();
        }
        self.is_done
    }
}
