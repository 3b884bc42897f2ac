//! Gemini's `streamGenerateContent`. Pure.

use serde_json::{Value, json};

use crate::llm::{ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, ToolCall, call_id};
use crate::provider::wire::{ProviderRequest, RemoteConfig, ReplyReader, tools, turns};

pub(super) fn request(config: &RemoteConfig, prompt: &ModelPrompt) -> ProviderRequest {
    let unread = unread(&prompt.messages);
    let contents = prompt.messages.iter().map(|message| match message {
        ChatMessage::User { text } => ("user", vec![json!({"text": text})]),
        ChatMessage::Assistant(reply) => ("model", reply_parts(reply)),
        ChatMessage::Tool { id, text, .. } if unread.contains(&id.as_str()) => {
            ("user", vec![json!({"text": format!("Your last call failed: {text}")})])
        }
        ChatMessage::Tool { name, text, is_error, .. } => {
            let key = if *is_error { "error" } else { "result" };
            let response = json!({"name": name, "response": {key: text}});
            ("user", vec![json!({"functionResponse": response})])
        }
    });
    let mut body = json!({
        "contents": turns(contents, "parts"),
        "generationConfig": {"maxOutputTokens": config.max_output},
    });
    if !prompt.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": prompt.system}]});
    }
    if let Some(tools) = tools(prompt, "parametersJsonSchema") {
        body["tools"] = json!([{"functionDeclarations": tools}]);
    }
    let key = config.key.as_ref().map(|key| ("x-goog-api-key", key.expose().to_owned()));
    ProviderRequest {
        path: format!("/models/{}:streamGenerateContent?alt=sse", config.model),
        headers: key.into_iter().collect(),
        body,
    }
}

/// The ids of calls that the provider itself could not read. It signed nothing and named no tool, so
/// they go back as text: a call without a declaration and a signature is refused.
fn unread(messages: &[ChatMessage]) -> Vec<&str> {
    let replies = messages.iter().filter_map(|message| match message {
        ChatMessage::Assistant(reply) => Some(&reply.calls),
        ChatMessage::User { .. } | ChatMessage::Tool { .. } => None,
    });
    replies.flatten().filter(|call| call.problem.is_some()).map(|call| call.id.as_str()).collect()
}

fn reply_parts(reply: &ModelReply) -> Vec<Value> {
    let mut parts = Vec::new();
    if !reply.text.is_empty() {
        parts.push(json!({"text": reply.text}));
    }
    parts.extend(reply.calls.iter().map(|call| {
        if call.problem.is_some() {
            return json!({"text": "(a call that could not be read)"});
        }
        let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
        if let Some(signature) = &call.signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    }));
    parts
}

/// Reads a streamed answer.
#[derive(Default)]
pub(super) struct GeminiReader {
    is_done: bool,
}

impl ReplyReader for GeminiReader {
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        let number = |key: &str| data.pointer(&format!("/usageMetadata/{key}"))?.as_u64();
        if let Some(input) = number("promptTokenCount") {
            reply.usage.input = input;
            reply.usage.cached = number("cachedContentTokenCount").unwrap_or_default();
            reply.usage.output = number("candidatesTokenCount").unwrap_or_default()
                + number("thoughtsTokenCount").unwrap_or_default();
        }
        if data.pointer("/promptFeedback/blockReason").is_some() {
            reply.stop = Stop::Filtered;
            self.is_done = true;
        }
        let parts = data.pointer("/candidates/0/content/parts").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            if let Some(text) = part["text"].as_str() {
                if part["thought"] == true {
                    on(Delta::Reasoning(text.to_owned()));
                } else {
                    reply.text.push_str(text);
                    on(Delta::Text(text.to_owned()));
                }
            } else if let Some(call) = part.get("functionCall") {
                let arguments = call.get("args").map(ToString::to_string).unwrap_or_default();
                let name = call["name"].as_str().unwrap_or_default().to_owned();
                let signature = part["thoughtSignature"].as_str().map(str::to_owned);
                let call = ToolCall::new(call_id(), name, &arguments);
                reply.calls.push(ToolCall { signature, ..call });
            }
        }
        match data.pointer("/candidates/0/finishReason").and_then(Value::as_str) {
            None => return,
            Some("MAX_TOKENS") => reply.stop = Stop::Length,
            Some("MALFORMED_FUNCTION_CALL") => {
                let call = ToolCall::new(call_id(), "tool".to_owned(), "");
                let problem = Some("the model wrote a malformed call".to_owned());
                reply.calls.push(ToolCall { problem, ..call });
            }
            Some("SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII") => {
                reply.stop = Stop::Filtered;
            }
            Some(_) => {}
        }
        self.is_done = true;
    }

    fn finish(&mut self, _: &mut ModelReply) -> bool {
        self.is_done
    }
}
