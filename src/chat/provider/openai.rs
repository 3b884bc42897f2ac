//! `OpenAI`'s Chat Completions API, streaming; also used by many other providers. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::llm::{ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, ToolCall, call_id};
use crate::provider::wire::{Provider, ProviderRequest, RemoteConfig, ReplyReader, tools};

pub(super) fn request(config: &RemoteConfig, prompt: &ModelPrompt) -> ProviderRequest {
    let mut messages = vec![json!({"role": "system", "content": prompt.system})];
    // Reasoning goes back within the turn it belongs to.
    let is_asked = |message: &ChatMessage| matches!(message, ChatMessage::User { .. });
    let asked = prompt.messages.iter().rposition(is_asked).unwrap_or_default();
    messages.extend(prompt.messages.iter().enumerate().map(|(at, message)| match message {
        ChatMessage::User { text } => json!({"role": "user", "content": text}),
        ChatMessage::Assistant(reply) => reply_message(reply, at > asked),
        ChatMessage::Tool { id, text, .. } => {
            json!({"role": "tool", "tool_call_id": id, "content": text})
        }
    }));
    let mut body = json!({
        "model": config.model,
        "stream": true,
        "stream_options": {"include_usage": true},
        "messages": messages,
    });
    let longest = match config.provider {
        Provider::OpenAi => "max_completion_tokens",
        _ => "max_tokens",
    };
    body[longest] = json!(config.max_output);
    if let Some(tools) = tools(prompt, "parameters") {
        let tools = tools.into_iter().map(|tool| json!({"type": "function", "function": tool}));
        body["tools"] = tools.collect();
    }
    let key = config.key.as_ref();
    let key = key.map(|key| ("authorization", format!("Bearer {}", key.expose())));
    ProviderRequest {
        path: "/chat/completions".to_owned(),
        headers: key.into_iter().collect(),
        body,
    }
}

fn reply_message(reply: &ModelReply, is_current: bool) -> Value {
    let mut message = json!({"role": "assistant", "content": reply.text});
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            let arguments = match &call.arguments {
                Value::String(_) => "{}".to_owned(),
                arguments => arguments.to_string(),
            };
            let function = json!({"name": call.name, "arguments": arguments});
            let mut sent = json!({"id": call.id, "type": "function", "function": function});
            if let Some(extra) = &call.extra {
                sent["extra_content"] = extra.clone();
            }
            sent
        });
        message["tool_calls"] = calls.collect();
        let carried = reply.carried.iter().filter(|_| is_current).filter_map(Value::as_object);
        for (key, value) in carried.flatten() {
            message[key] = value.clone();
        }
    }
    message
}

/// Reads a streamed answer.
#[derive(Default)]
pub(super) struct OpenAiReader {
    open: BTreeMap<u64, PartialCall>,
    /// The reasoning so far, by the field that holds it.
    reasoning: BTreeMap<&'static str, String>,
    is_done: bool,
}

/// A call that is still incomplete.
#[derive(Default)]
struct PartialCall {
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

impl ReplyReader for OpenAiReader {
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        if let Some(usage) = data.get("usage").filter(|usage| usage.is_object()) {
            reply.usage.input = usage["prompt_tokens"].as_u64().unwrap_or_default();
            let cached = ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens"];
            let cached = cached.iter().find_map(|place| usage.pointer(place)?.as_u64());
            reply.usage.cached = cached.unwrap_or_default();
            reply.usage.output = usage["completion_tokens"].as_u64().unwrap_or_default();
        }
        let Some(choice) = data.pointer("/choices/0") else { return };
        let delta = &choice["delta"];
        for key in ["reasoning_content", "reasoning"] {
            if let Some(more) = delta[key].as_str().filter(|more| !more.is_empty()) {
                self.reasoning.entry(key).or_default().push_str(more);
                on(Delta::Reasoning(more.to_owned()));
            }
        }
        if let Some(more) = delta["refusal"].as_str().filter(|more| !more.is_empty()) {
            reply.stop = Stop::Refused;
            reply.text.push_str(more);
            on(Delta::Text(more.to_owned()));
        }
        if let Some(more) = delta["content"].as_str().filter(|more| !more.is_empty()) {
            reply.text.push_str(more);
            on(Delta::Text(more.to_owned()));
        }
        for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let index = call["index"].as_u64().unwrap_or(at as u64);
            let open = self.open.entry(index).or_default();
            let function = &call["function"];
            if let Some(given) = call["id"].as_str().filter(|_| open.id.is_empty()) {
                given.clone_into(&mut open.id);
            }
            open.name.push_str(function["name"].as_str().unwrap_or_default());
            open.arguments.push_str(function["arguments"].as_str().unwrap_or_default());
            if let Some(extra) = call.get("extra_content").filter(|extra| extra.is_object()) {
                open.extra = Some(extra.clone());
            }
        }
        match choice["finish_reason"].as_str() {
            None => return,
            Some("length") => reply.stop = Stop::Length,
            Some("content_filter") => reply.stop = Stop::Filtered,
            Some(_) => {}
        }
        self.is_done = true;
    }

    fn finish(&mut self, reply: &mut ModelReply) -> bool {
        for (key, text) in std::mem::take(&mut self.reasoning) {
            reply.carried.push(json!({key: text}));
        }
        for PartialCall { id, name, arguments, extra } in
            std::mem::take(&mut self.open).into_values()
        {
            let id = if id.is_empty() { call_id() } else { id };
            let call = ToolCall { extra, ..ToolCall::new(id, name, &arguments) };
            let is_cut = call.problem.is_some() && reply.stop == Stop::Length;
            reply.calls.push(if is_cut { call.unfinished() } else { call });
        }
        self.is_done
    }
}
