//! Drafts answers to sampling requests of servers with a model (MCP 2025-11-25, client features,
//! sampling). Never answers by itself: the user edits and sends the draft.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::{Value, json};

use crate::llm::{ChatMessage, LanguageModel, ModelPrompt, ModelReply, Stop};
use host::{ApprovalRequest, Drafter};
use protocol::RequestKind;

/// A model that drafts completions.
pub struct ModelDrafter(Arc<dyn LanguageModel>);

impl ModelDrafter {
    /// Drafts with this model.
    pub const fn new(model: Arc<dyn LanguageModel>) -> Self {
        Self(model)
    }
}

impl Drafter for ModelDrafter {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn draft(
        &self,
        request: Arc<ApprovalRequest>,
        params: Arc<Value>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        let model = Arc::clone(&self.0);
        Box::pin(async move {
            if request.kind != RequestKind::Sampling {
                return Err("it writes completions only".to_owned());
            }
            let reply = model.reply(&prompt(&params), &mut |_| {}).await;
            let reply = reply.map_err(|error| error.to_string())?;
            let reason = match reply.stop {
                Stop::Length => "maxTokens",
                Stop::End | Stop::Refused | Stop::NoCall | Stop::Paused => "endTurn",
                Stop::Filtered | Stop::Declined | Stop::Halted => {
                    return Err("the provider ended the answer before it was whole".to_owned());
                }
            };
            Ok(json!({
                "role": "assistant",
                "content": {"type": "text", "text": reply.text},
                "model": model.name(),
                "stopReason": reason,
            }))
        })
    }
}

/// Builds the prompt of a request; content other than text is replaced by its type.
fn prompt(params: &Value) -> ModelPrompt {
    let messages = params.get("messages").and_then(Value::as_array);
    let messages = messages.into_iter().flatten().map(|message| {
        let content = &message["content"];
        let blocks = content.as_array().map_or(std::slice::from_ref(content), Vec::as_slice);
        let parts = blocks.iter().map(|block| match block["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[{}]", block["type"].as_str().unwrap_or("nothing")),
        });
        let text = parts.collect::<Vec<_>>().join("\n");
        if message["role"] == "assistant" {
            ChatMessage::Assistant(ModelReply { text, ..ModelReply::default() })
        } else {
            ChatMessage::user(text)
        }
    });
    let system = params.get("systemPrompt").and_then(Value::as_str).unwrap_or_default();
    ModelPrompt { system: system.to_owned(), messages: messages.collect(), tools: Vec::new() }
}
