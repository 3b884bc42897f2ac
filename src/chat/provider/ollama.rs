//! Ollama's own API: `/api/chat` as a stream of JSON lines (Ollama `docs/api.md` and `api/types.go`).
//! Unlike its copy of `OpenAI`'s API it takes the size of the context, and says when a prompt is cut. Pure.

use serde_json::{Value, json};

use crate::llm::{ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, ToolCall, call_id};
use crate::provider::openai;
use crate::provider::wire::{ProviderRequest, ReplyReader, RequestPlan, functions, media_after};

/// The least context that is asked for, in tokens. It is Ollama's own default.
pub(super) const MIN_WINDOW_TOKENS: u64 = 4_096;
/// Room for an answer beside the prompt, in tokens.
const ANSWER_TOKENS: u64 = 4_096;

pub(super) fn request(plan: RequestPlan<'_>, prompt: &ModelPrompt) -> ProviderRequest {
    let RequestPlan { config, max_output, window, thinks, .. } = plan;
    // Reasoning goes back within the turn it belongs to.
    let is_asked = |message: &ChatMessage| matches!(message, ChatMessage::User { .. });
    let asked = prompt.messages.iter().rposition(is_asked).unwrap_or_default();
    let messages = prompt.messages.iter().enumerate().flat_map(|(at, message)| {
        let sent = match message {
            ChatMessage::User { text, media, .. } => {
                let mut message = json!({"role": "user", "content": text});
                if !media.is_empty() {
                    message["images"] = media.iter().map(|one| json!(&*one.data)).collect();
                }
                message
            }
            ChatMessage::Assistant(reply) if reply.is_blank() => return Vec::new(),
            ChatMessage::Assistant(reply) => reply_message(reply, at > asked),
            ChatMessage::Tool { id, name, text, .. } => {
                json!({"role": "tool", "tool_name": name, "tool_call_id": id, "content": text})
            }
        };
        // Templates of models place pictures in messages of the user.
        let media = media_after(&prompt.messages, at);
        let pictures = (!media.is_empty()).then(|| {
            let names: Vec<&str> = media.iter().map(|it| it.name).collect();
            let images: Vec<&str> = media.iter().map(|it| &*it.one.data).collect();
            let text = format!("What these calls gave, in this order: {}", names.join(", "));
            json!({"role": "user", "content": text, "images": images})
        });
        std::iter::once(sent).chain(pictures).collect::<Vec<_>>()
    });
    let system =
        (!prompt.system.is_empty()).then(|| json!({"role": "system", "content": prompt.system}));
    let messages: Vec<Value> = system.into_iter().chain(messages).collect();
    let mut body = json!({
        "model": config.model,
        "stream": true,
        "options": {"num_ctx": window, "num_predict": max_output},
        // A prompt that does not fit is refused instead of losing its beginning.
        "truncate": false,
        "shift": false,
    });
    body["messages"] = messages.into();
    if thinks {
        body["think"] = json!(true);
    }
    if let Some(keep) = &config.keep_alive {
        body["keep_alive"] = keep.parse::<i64>().map_or_else(|_| json!(keep), |n| json!(n));
    }
    if let Some(functions) = functions(prompt) {
        body["tools"] = functions;
    }
    ProviderRequest { path: "/api/chat".to_owned(), headers: openai::headers(config), body }
}

fn reply_message(reply: &ModelReply, is_current: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            let arguments = if call.arguments.is_object() { &call.arguments } else { &json!({}) };
            json!({"id": call.id, "function": {"name": call.name, "arguments": arguments}})
        });
        message["tool_calls"] = calls.collect();
        for block in reply.carried.iter().filter(|_| is_current) {
            if let Some(thinking) = block.get("thinking") {
                message["thinking"] = thinking.clone();
            }
        }
    }
    message
}

/// The context to ask for, in tokens: what the prompt and an answer need, in steps, as each change
/// loads the model again; not less than before, and not more than the model takes.
pub(super) fn window(prompt: u64, before: u64, most: u64) -> u64 {
    // Prompts are estimated: a quarter more.
    let needed = prompt.saturating_add(prompt / 4).saturating_add(ANSWER_TOKENS);
    let step = needed.checked_next_power_of_two().unwrap_or(most);
    step.max(MIN_WINDOW_TOKENS).max(before).min(most)
}

/// Reads a streamed answer.
#[derive(Default)]
pub(super) struct OllamaReader {
    thinking: String,
    is_done: bool,
}

impl ReplyReader for OllamaReader {
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        let message = &data["message"];
        if let Some(more) = message["thinking"].as_str().filter(|more| !more.is_empty()) {
            self.thinking.push_str(more);
            on(Delta::Reasoning(more.to_owned()));
        }
        if let Some(more) = message["content"].as_str().filter(|more| !more.is_empty()) {
            reply.text.push_str(more);
            on(Delta::Text(more.to_owned()));
        }
        // Calls come whole, and without an id before version 0.12.
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            let id = call["id"].as_str().filter(|id| !id.is_empty());
            let id = id.map_or_else(call_id, str::to_owned);
            let name = function["name"].as_str().unwrap_or_default().to_owned();
            let arguments = match &function["arguments"] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                arguments => arguments.to_string(),
            };
            reply.calls.push(ToolCall::new(id, name, &arguments));
        }
        let says_why = || data.get("done").is_none() && data["done_reason"].is_string();
        if data["done"] == true || says_why() {
            let count = |key: &str| data[key].as_u64().unwrap_or_default();
            reply.usage.input = count("prompt_eval_count");
            reply.usage.cached = count("prompt_eval_cached_count").min(reply.usage.input);
            reply.usage.output = count("eval_count");
            if data["done_reason"] == "length" {
                reply.stop = Stop::Length;
            }
            self.is_done = true;
        }
    }

    fn finish(&mut self, reply: &mut ModelReply, _: bool) -> bool {
        if !self.thinking.is_empty() {
            reply.carried.push(json!({"thinking": std::mem::take(&mut self.thinking)}));
        }
        self.is_done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_grows_in_steps_within_the_model_and_never_shrinks() {
        assert_eq!(window(0, 0, 131_072), 4_096);
        assert_eq!(window(5_500, 0, 131_072), 16_384);
        assert_eq!(window(100, 16_384, 131_072), 16_384);
        assert_eq!(window(5_500, 0, 8_192), 8_192, "not beyond the model");
        assert_eq!(window(60_000, 0, 131_072), 131_072);
        assert_eq!(window(u64::MAX, 0, 40_960), 40_960);
        assert_eq!(window(1, 0, 2_048), 2_048, "a small model");
    }
}
