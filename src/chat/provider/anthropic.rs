//! Anthropic's Messages API, streaming. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::llm::{ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, ToolCall};
use crate::media::ToolMedia;
use crate::provider::wire::{
    MediaOf, ProviderRequest, RemoteConfig, ReplyReader, RequestPlan, is_placed, media_after,
    media_words, tools, turns,
};

/// The API version.
const VERSION: &str = "2023-06-01";

pub(super) fn request(plan: RequestPlan<'_>, prompt: &ModelPrompt) -> ProviderRequest {
    let config = plan.config;
    let messages = prompt.messages.iter().enumerate().map(|(at, message)| match message {
        ChatMessage::User { text, media, .. } => {
            let text = json!({"type": "text", "text": text});
            ("user", pictures(media).into_iter().chain([text]).collect())
        }
        ChatMessage::Assistant(reply) => ("assistant", reply_content(reply)),
        ChatMessage::Tool { id, text, is_error, media, .. } => {
            let mut content = json!(text);
            if !is_error && media.iter().any(ToolMedia::is_picture) {
                let text = json!({"type": "text", "text": text});
                content = std::iter::once(text).chain(pictures(media)).collect();
            }
            let result = json!({
                "type": "tool_result", "tool_use_id": id, "content": content, "is_error": is_error,
            });
            ("user", [result].into_iter().chain(failed_pictures(&prompt.messages, at)).collect())
        }
    });
    let mut messages = turns(messages, "content");
    // Everything up to a mark is kept by the provider for the next request (Anthropic guide, Prompt
    // caching): tools, then the system prompt, then the conversation, which only grows. The mark of
    // the message before finds what the last request kept, also after many results.
    let is_user = |message: &&mut Value| message["role"] == "user";
    let asked = messages.as_array_mut().into_iter().flatten().filter(is_user).rev();
    for message in asked.take(2) {
        if let Some(block) = message["content"].as_array_mut().and_then(|blocks| blocks.last_mut())
        {
            block["cache_control"] = json!({"type": "ephemeral"});
        }
    }
    let mut body = json!({
        "model": config.model,
        "max_tokens": plan.max_output,
        "stream": true,
    });
    body["messages"] = messages;
    if !prompt.system.is_empty() {
        let kept = json!({"type": "ephemeral"});
        body["system"] = json!([{"type": "text", "text": prompt.system, "cache_control": kept}]);
    }
    if let Some(mut tools) = tools(prompt, "input_schema") {
        if let Some(last) = tools.last_mut() {
            last["cache_control"] = json!({"type": "ephemeral"});
        }
        body["tools"] = tools.into();
    }
    ProviderRequest { path: "/messages".to_owned(), headers: headers(config), body }
}

/// Pictures as content blocks.
fn pictures(media: &[ToolMedia]) -> Vec<Value> {
    let pictures = media.iter().filter(|one| one.is_picture()).map(|one| {
        let source = json!({"type": "base64", "media_type": one.mime, "data": one.data});
        json!({"type": "image", "source": source})
    });
    pictures.collect()
}

/// The pictures of calls that failed, behind the results of an answer: a result with `is_error` is text
/// alone ("all content must be type `text` if `is_error` is true"), and results come first.
fn failed_pictures(messages: &[ChatMessage], at: usize) -> Vec<Value> {
    let failed =
        media_after(messages, at).into_iter().filter(|it| it.is_error && it.one.is_picture());
    let blocks = failed.flat_map(|MediaOf { name, one, .. }| {
        let text = json!({"type": "text", "text": media_words(name)});
        std::iter::once(text).chain(pictures(std::slice::from_ref(one)))
    });
    blocks.collect()
}

/// The headers of every request.
pub(super) fn headers(config: &RemoteConfig) -> Vec<(&'static str, String)> {
    let mut headers = vec![("anthropic-version", VERSION.to_owned())];
    headers.extend(config.key.as_ref().map(|key| ("x-api-key", key.expose().to_owned())));
    headers
}

/// The content blocks of an answer for the history, in the order in which they came: signed reasoning
/// and what the provider's own tools did are only taken at their places.
fn reply_content(reply: &ModelReply) -> Vec<Value> {
    let call = |call: &ToolCall| {
        let input = if call.problem.is_some() { json!({}) } else { call.arguments.clone() };
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    };
    let made = reply.carried.iter().filter_map(|block| match block["type"].as_str() {
        Some("tool_use") => reply.calls.iter().find(|made| block["id"] == *made.id).map(call),
        // Text that is nothing but space is refused (home-assistant/core#175637).
        Some("text") if block["text"].as_str().is_none_or(|text| text.trim().is_empty()) => None,
        _ => Some(block.clone()),
    });
    let mut content: Vec<Value> = made.collect();
    if !reply.text.trim().is_empty() && !reply.carried.iter().any(|block| block["type"] == "text") {
        content.push(json!({"type": "text", "text": reply.text}));
    }
    let has = |content: &[Value], id: &str| content.iter().any(|block| block["id"] == id);
    for made in &reply.calls {
        if !has(&content, &made.id) {
            content.push(call(made));
        }
    }
    content
}

/// A content block that is still incomplete.
enum PartialBlock {
    Text(String),
    Call {
        id: String,
        name: String,
        input: String,
        /// The input that stood at the start: whole, where no parts follow.
        given: Value,
    },
    /// Signed or redacted reasoning, and what the provider's own tools did, which is sent back
    /// unchanged; and the input so far.
    Carried(Value, String),
}

/// Reads a streamed answer.
#[derive(Default)]
pub(super) struct AnthropicReader {
    open: BTreeMap<u64, PartialBlock>,
    is_done: bool,
    /// Whether the stop reason tells of a call.
    announces_call: bool,
}

/// Takes the counts of the input, as far as they are there.
fn count_input(usage: &Value, reply: &mut ModelReply) {
    let count = |key: &str| usage[key].as_u64().unwrap_or_default();
    let known = &mut reply.usage;
    let plain = known.input.saturating_sub(known.cached + known.written);
    known.cached = known.cached.max(count("cache_read_input_tokens"));
    known.written = known.written.max(count("cache_creation_input_tokens"));
    known.input = plain.max(count("input_tokens")) + known.cached + known.written;
}

impl ReplyReader for AnthropicReader {
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        let number = |pointer: &str| data.pointer(pointer).and_then(Value::as_u64);
        let index = number("/index").unwrap_or_default();
        match text("/type").unwrap_or_default() {
            "message_start" => {
                count_input(&data["message"]["usage"], reply);
            }
            "content_block_start" => match text("/content_block/type").unwrap_or_default() {
                "tool_use" => {
                    let word = |key| text(key).unwrap_or_default().to_owned();
                    let (id, name) = (word("/content_block/id"), word("/content_block/name"));
                    let given = data["content_block"]["input"].clone();
                    let call = PartialBlock::Call { id, name, input: String::new(), given };
                    self.open.insert(index, call);
                }
                "text" | "" => {
                    // Some addresses that are compatible begin with a part of the text.
                    let first = text("/content_block/text").unwrap_or_default().to_owned();
                    if !first.is_empty() {
                        reply.text.push_str(&first);
                        on(Delta::Text(first.clone()));
                    }
                    self.open.insert(index, PartialBlock::Text(first));
                }
                _ => {
                    let block = data["content_block"].clone();
                    self.open.insert(index, PartialBlock::Carried(block, String::new()));
                }
            },
            "content_block_delta" => {
                if let Some(more) = text("/delta/text") {
                    reply.text.push_str(more);
                    on(Delta::Text(more.to_owned()));
                }
                match self.open.get_mut(&index) {
                    Some(PartialBlock::Text(so_far)) => {
                        so_far.push_str(text("/delta/text").unwrap_or_default());
                    }
                    Some(PartialBlock::Call { input, .. }) => {
                        input.push_str(text("/delta/partial_json").unwrap_or_default());
                    }
                    Some(PartialBlock::Carried(block, input)) => {
                        input.push_str(text("/delta/partial_json").unwrap_or_default());
                        for key in ["thinking", "signature"] {
                            let Some(more) = text(&format!("/delta/{key}")) else { continue };
                            let so_far = block[key].as_str().unwrap_or_default();
                            block[key] = format!("{so_far}{more}").into();
                            if key == "thinking" {
                                on(Delta::Reasoning(more.to_owned()));
                            }
                        }
                    }
                    None => {}
                }
            }
            "content_block_stop" => match self.open.remove(&index) {
                Some(PartialBlock::Text(text)) if !text.is_empty() => {
                    reply.carried.push(json!({"type": "text", "text": text}));
                }
                Some(PartialBlock::Call { id, name, mut input, given }) => {
                    if input.is_empty() && given.is_object() {
                        input = given.to_string();
                    }
                    reply.carried.push(json!({"type": "tool_use", "id": id}));
                    reply.calls.push(ToolCall::new(id, name, &input));
                }
                Some(PartialBlock::Carried(mut block, input)) => {
                    if let Ok(input @ Value::Object(_)) = serde_json::from_str(&input) {
                        block["input"] = input;
                    }
                    reply.carried.push(block);
                }
                Some(PartialBlock::Text(_)) | None => {}
            },
            "message_delta" => {
                // All counts are of the answer so far; some addresses count the input here alone.
                count_input(&data["usage"], reply);
                let output = number("/usage/output_tokens").unwrap_or_default();
                reply.usage.output = reply.usage.output.max(output);
                match text("/delta/stop_reason").unwrap_or_default() {
                    "max_tokens" | "model_context_window_exceeded" => reply.stop = Stop::Length,
                    "tool_use" => self.announces_call = true,
                    "refusal" => {
                        // What led to it is to be left out (Anthropic guide, Streaming refusals).
                        reply.stop = Stop::Declined;
                        let why = text("/delta/stop_details/explanation").unwrap_or_default();
                        why.clone_into(&mut reply.why);
                    }
                    "pause_turn" => reply.stop = Stop::Paused,
                    _ => {}
                }
            }
            "message_stop" => self.is_done = true,
            _ => {}
        }
    }

    fn finish(&mut self, reply: &mut ModelReply, _: bool) -> bool {
        for block in std::mem::take(&mut self.open).into_values() {
            match block {
                PartialBlock::Text(text) if !text.is_empty() => {
                    reply.carried.push(json!({"type": "text", "text": text}));
                }
                PartialBlock::Call { id, name, input, .. } => {
                    reply.carried.push(json!({"type": "tool_use", "id": id}));
                    reply.calls.push(ToolCall::new(id, name, &input).unfinished());
                }
                // Without its end, reasoning is not signed.
                PartialBlock::Text(_) | PartialBlock::Carried(..) => {}
            }
        }
        // Text and calls alone stand in the answer itself.
        if reply.carried.iter().all(is_placed) {
            reply.carried.clear();
        }
        if self.announces_call && reply.calls.is_empty() {
            reply.stop = Stop::NoCall;
        }
        self.is_done
    }
}
