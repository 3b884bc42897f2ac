//! Gemini's `streamGenerateContent`. Pure.

use base::text::cut;
use serde_json::{Value, json};

use crate::llm::{ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, ToolCall, call_id};
use crate::media::ToolMedia;
use crate::provider::wire::{
    ProviderRequest, RemoteConfig, ReplyReader, RequestPlan, tools, turns,
};

/// What is kept of the provider's words on a malformed call, in bytes.
const MAX_MESSAGE_BYTES: usize = 1_000;

pub(super) fn request(plan: RequestPlan<'_>, prompt: &ModelPrompt) -> ProviderRequest {
    let config = plan.config;
    let unread = ids(&prompt.messages, |call| call.problem.is_some());
    // Ids go back where the provider gave them.
    let given = ids(&prompt.messages, has_given_id);
    let contents = prompt.messages.iter().map(|message| match message {
        ChatMessage::User { text, media, .. } => {
            ("user", inline_data(media).chain([json!({"text": text})]).collect())
        }
        ChatMessage::Assistant(reply) => ("model", reply_parts(reply)),
        ChatMessage::Tool { id, text, .. } if unread.contains(&id.as_str()) => {
            ("user", vec![json!({"text": format!("Your last call failed: {text}")})])
        }
        ChatMessage::Tool { id, name, text, is_error, media, .. } => {
            let key = if *is_error { "error" } else { "result" };
            let mut response = json!({"name": name, "response": {key: text}});
            if given.contains(&id.as_str()) {
                response["id"] = json!(id);
            }
            let response = json!({"functionResponse": response});
            ("user", std::iter::once(response).chain(inline_data(media)).collect())
        }
    });
    let mut body = json!({"generationConfig": {"maxOutputTokens": plan.max_output}});
    body["contents"] = turns(contents, "parts");
    if !prompt.system.is_empty() {
        body["systemInstruction"] = json!({"parts": [{"text": prompt.system}]});
    }
    if let Some(tools) = tools(prompt, "parametersJsonSchema") {
        body["tools"] = json!([{}]);
        body["tools"][0]["functionDeclarations"] = tools.into();
    }
    ProviderRequest {
        path: format!("/models/{}:streamGenerateContent?alt=sse", config.model),
        headers: headers(config),
        body,
    }
}

/// The headers of every request. Google's access tokens, which Vertex AI takes, go where tokens do.
pub(super) fn headers(config: &RemoteConfig) -> Vec<(&'static str, String)> {
    let key = config.key.as_ref().map(|key| match key.expose() {
        token if token.starts_with("ya29.") => ("authorization", format!("Bearer {token}")),
        key => ("x-goog-api-key", key.to_owned()),
    });
    key.into_iter().collect()
}

/// Pictures and sounds as parts.
fn inline_data(media: &[ToolMedia]) -> impl Iterator<Item = Value> {
    media.iter().map(|one| json!({"inlineData": {"mimeType": one.mime, "data": one.data}}))
}

/// The ids of the calls with a property. Those that the provider itself could not read go back as
/// text: it signed nothing and named no tool, and a call without a declaration and a signature is
/// refused.
fn ids(messages: &[ChatMessage], has: impl Fn(&ToolCall) -> bool) -> Vec<&str> {
    let replies = messages.iter().filter_map(|message| match message {
        ChatMessage::Assistant(reply) => Some(&reply.calls),
        ChatMessage::User { .. } | ChatMessage::Tool { .. } => None,
    });
    replies.flatten().filter(|call| has(call)).map(|call| call.id.as_str()).collect()
}

fn has_given_id(call: &ToolCall) -> bool {
    call.extra.as_ref().is_some_and(|extra| extra["id"] == *call.id)
}

/// The field of what Gemini signs (Gemini guide, Thought signatures).
const SIGNATURE: &str = "thoughtSignature";

fn reply_parts(reply: &ModelReply) -> Vec<Value> {
    let mut parts = Vec::new();
    // What signs the text stands in the last part of it, which may be empty.
    let signature = reply.carried.iter().find_map(|block| block.get(SIGNATURE));
    if !reply.text.is_empty() || signature.is_some() {
        let mut part = json!({"text": reply.text});
        if let Some(signature) = signature {
            part[SIGNATURE] = signature.clone();
        }
        parts.push(part);
    }
    parts.extend(reply.calls.iter().map(|call| {
        if call.problem.is_some() {
            return json!({"text": "(a call that could not be read)"});
        }
        let mut part = json!({"functionCall": {"name": call.name, "args": call.arguments}});
        if has_given_id(call) {
            part["functionCall"]["id"] = json!(call.id);
        }
        if let Some(signature) = &call.signature {
            part[SIGNATURE] = json!(signature);
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
        if let Some(reason) = data.pointer("/promptFeedback/blockReason") {
            reply.stop = Stop::Filtered;
            reason.as_str().unwrap_or_default().clone_into(&mut reply.why);
            self.is_done = true;
        }
        let parts = data.pointer("/candidates/0/content/parts").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            if let Some(text) = part["text"].as_str() {
                if part["thought"] == true {
                    on(Delta::Reasoning(text.to_owned()));
                } else {
                    if let Some(signature) = part[SIGNATURE].as_str() {
                        reply.carried.retain(|block| block.get(SIGNATURE).is_none());
                        reply.carried.push(json!({SIGNATURE: signature}));
                    }
                    reply.text.push_str(text);
                    if !text.is_empty() {
                        on(Delta::Text(text.to_owned()));
                    }
                }
            } else if let Some(call) = part.get("functionCall") {
                let arguments = call.get("args").map(ToString::to_string).unwrap_or_default();
                let name = call["name"].as_str().unwrap_or_default().to_owned();
                let signature = part[SIGNATURE].as_str().map(str::to_owned);
                let given = call["id"].as_str().filter(|id| !id.is_empty());
                let extra = given.map(|id| json!({"id": id}));
                let id = given.map_or_else(call_id, str::to_owned);
                let call = ToolCall::new(id, name, &arguments);
                reply.calls.push(ToolCall { signature, extra, ..call });
            }
        }
        let finish = |key: &str| data.pointer(&format!("/candidates/0/{key}"))?.as_str();
        let Some(reason) = finish("finishReason") else { return };
        let says = finish("finishMessage").filter(|says| !says.is_empty());
        let says = says.map(|says| cut(says, MAX_MESSAGE_BYTES));
        match reason {
            "MAX_TOKENS" => reply.stop = Stop::Length,
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_RESPONSE" => {
                let call = ToolCall::new(call_id(), "tool".to_owned(), "");
                let says = says.map(|says| format!(": {says}"));
                let problem =
                    format!("the model wrote a malformed call{}", says.unwrap_or_default());
                reply.calls.push(ToolCall { problem: Some(problem), ..call });
            }
            "SAFETY"
            | "RECITATION"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => {
                reply.stop = Stop::Filtered;
                says.unwrap_or(reason).clone_into(&mut reply.why);
            }
            "STOP" => {}
            // `OTHER`, `LANGUAGE`, `TOO_MANY_TOOL_CALLS` and what may come.
            _ => {
                reply.stop = Stop::Halted;
                says.unwrap_or(reason).clone_into(&mut reply.why);
            }
        }
        self.is_done = true;
    }

    fn finish(&mut self, reply: &mut ModelReply, _: bool) -> bool {
        // What was ended before it began may come at another attempt.
        self.is_done && !(reply.stop == Stop::Halted && reply.is_blank())
    }
}
