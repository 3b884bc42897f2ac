//! Anthropic's Messages API, streaming. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::llm::{ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, ToolCall};
use crate::provider::wire::{ProviderRequest, RemoteConfig, ReplyReader, tools, turns};

/// The API version.
const VERSION: &str = "2023-06-01";

pub(super) fn request(config: &RemoteConfig, prompt: &ModelPrompt) -> ProviderRequest {
    let messages = prompt.messages.iter().map(|message| match message {
        ChatMessage::User { text } => ("user", vec![json!({"type": "text", "text": text})]),
        ChatMessage::Assistant(reply) => ("assistant", reply_content(reply)),
        ChatMessage::Tool { id, text, is_error, .. } => (
            "user",
            vec![json!({
                "type": "tool_result", "tool_use_id": id, "content": text, "is_error": is_error,
            })],
        ),
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
        "max_tokens": config.max_output,
        "stream": true,
        "messages": messages,
    });
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
    let mut headers = vec![("anthropic-version", VERSION.to_owned())];
    headers.extend(config.key.as_ref().map(|key| ("x-api-key", key.expose().to_owned())));
    ProviderRequest { path: "/messages".to_owned(), headers, body }
}

/// The content blocks of an answer for the history; signed reasoning must come first.
fn reply_content(reply: &ModelReply) -> Vec<Value> {
    let mut content = reply.carried.clone();
    if !reply.text.is_empty() {
        content.push(json!({"type": "text", "text": reply.text}));
    }
    content.extend(reply.calls.iter().map(|call| {
        let input = if call.problem.is_some() { json!({}) } else { call.arguments.clone() };
        json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
    }));
    content
}

/// A content block that is still incomplete.
enum PartialBlock {
    Call {
        id: String,
        name: String,
        input: String,
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
}

impl ReplyReader for AnthropicReader {
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        let text = |pointer: &str| data.pointer(pointer).and_then(Value::as_str);
        let number = |pointer: &str| data.pointer(pointer).and_then(Value::as_u64);
        let index = number("/index").unwrap_or_default();
        match text("/type").unwrap_or_default() {
            "message_start" => {
                let count = |key| number(&format!("/message/usage/{key}")).unwrap_or_default();
                reply.usage.cached = count("cache_read_input_tokens");
                reply.usage.written = count("cache_creation_input_tokens");
                reply.usage.input =
                    count("input_tokens") + reply.usage.cached + reply.usage.written;
            }
            "content_block_start" => match text("/content_block/type").unwrap_or_default() {
                "tool_use" => {
                    let word = |key| text(key).unwrap_or_default().to_owned();
                    let (id, name) = (word("/content_block/id"), word("/content_block/name"));
                    self.open.insert(index, PartialBlock::Call { id, name, input: String::new() });
                }
                "text" | "" => {}
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
                Some(PartialBlock::Call { id, name, input }) => {
                    reply.calls.push(ToolCall::new(id, name, &input));
                }
                Some(PartialBlock::Carried(mut block, input)) => {
                    if let Ok(input @ Value::Object(_)) = serde_json::from_str(&input) {
                        block["input"] = input;
                    }
                    reply.carried.push(block);
                }
                None => {}
            },
            "message_delta" => {
                reply.usage.output = number("/usage/output_tokens").unwrap_or_default();
                match text("/delta/stop_reason").unwrap_or_default() {
                    "max_tokens" => reply.stop = Stop::Length,
                    "refusal" => reply.stop = Stop::Filtered,
                    "pause_turn" => reply.stop = Stop::Paused,
                    _ => {}
                }
            }
            "message_stop" => self.is_done = true,
            _ => {}
        }
    }

    fn finish(&mut self, reply: &mut ModelReply) -> bool {
        for block in std::mem::take(&mut self.open).into_values() {
            if let PartialBlock::Call { id, name, input } = block {
                reply.calls.push(ToolCall::new(id, name, &input).unfinished());
            }
        }
        self.is_done
    }
}
