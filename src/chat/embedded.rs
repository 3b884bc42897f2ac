//! A model that needs no network, for the demo and for experiments. It parses a small command
//! syntax; its text depends only on the conversation. Without tools it drafts completions.

use serde_json::Value;

use crate::context;
use crate::llm::{
    ChatMessage, Delta, LanguageModel, ModelPrompt, ModelReply, OnDelta, PendingReply, TokenUsage,
    ToolCall, ToolSpec, call_id,
};
use crate::prompt::inner;
use base::text::cut;
use schema::{SchemaDocument, parameters};

/// The embedded model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Embedded;

/// The answer when no tool is requested.
const HELP: &str = "I am the embedded model: I know no language, but I call tools. Write \
`call NAME {\"key\": \"value\"}`, or just the name of a tool.";

impl LanguageModel for Embedded {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn context(&self) -> u64 {
        32_000
    }

    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, on: OnDelta<'a>) -> PendingReply<'a> {
        Box::pin(async move { Ok(spoken(answer(prompt), prompt, on).await) })
    }
}

/// Reports a reply word by word, and estimates its tokens.
pub(crate) async fn spoken(
    mut reply: ModelReply,
    prompt: &ModelPrompt,
    on: OnDelta<'_>,
) -> ModelReply {
    for word in reply.text.split_inclusive(' ') {
        on(Delta::Text(word.to_owned()));
        tokio::task::yield_now().await;
    }
    reply.usage = TokenUsage {
        input: context::of_prompt(prompt),
        output: context::of_reply(&reply),
        is_estimate: true,
        ..TokenUsage::default()
    };
    reply
}

/// Whether a message calls a tool in the syntax of this model.
pub(crate) fn is_command(prompt: &ModelPrompt, asked: &str) -> bool {
    asked.lines().any(|line| call(line.trim(), prompt).is_some())
}

/// The answer to a prompt.
pub(crate) fn answer(prompt: &ModelPrompt) -> ModelReply {
    let text = |text: String| ModelReply { text, ..ModelReply::default() };
    let results: Vec<&ChatMessage> = prompt
        .messages
        .iter()
        .rev()
        .take_while(|m| matches!(m, ChatMessage::Tool { .. }))
        .collect();
    if !results.is_empty() {
        let parts = results.iter().rev().filter_map(|message| match message {
            ChatMessage::Tool { name, text, is_error: false, .. } => {
                Some(format!("**{name}** gave:\n\n{}", inner(text)))
            }
            ChatMessage::Tool { name, text, .. } => {
                Some(format!("**{name}** failed: {}", inner(text)))
            }
            _ => None,
        });
        return text(parts.collect::<Vec<_>>().join("\n\n"));
    }
    let asked = prompt.messages.iter().rev().find_map(|message| match message {
        ChatMessage::User { text, .. } => Some(text.trim()),
        _ => None,
    });
    let asked = asked.unwrap_or_default();
    let calls: Vec<ToolCall> = asked.lines().filter_map(|line| call(line.trim(), prompt)).collect();
    match calls.len() {
        0 if prompt.tools.is_empty() => {
            text(format!("About \u{201c}{}\u{201d}: all is well.", cut(asked, 200)))
        }
        0 => text(HELP.to_owned()),
        1 => ModelReply { calls, text: "One moment. ".to_owned(), ..ModelReply::default() },
        many => ModelReply { calls, text: format!("{many} calls. "), ..ModelReply::default() },
    }
}

/// Parses the call that a line requests.
fn call(line: &str, prompt: &ModelPrompt) -> Option<ToolCall> {
    let (name, arguments) = match line.strip_prefix("call ") {
        Some(rest) => rest.trim().split_once(char::is_whitespace).unwrap_or((rest.trim(), "")),
        None => (line, ""),
    };
    let known = |tool: &&ToolSpec| tool.name == name || tool.name.ends_with(&format!("__{name}"));
    let known = prompt.tools.iter().find(known);
    if known.is_none() && !line.starts_with("call ") {
        return None;
    }
    let mut call =
        ToolCall::new(call_id(), known.map_or(name, |tool| &tool.name).to_owned(), arguments);
    if let (Some(tool), Value::Object(given)) = (known, &mut call.arguments) {
        // Fills in defaults from the schema.
        let schema = SchemaDocument::new(&tool.schema);
        for parameter in parameters(&schema, usize::MAX) {
            let default = parameter.outline.first(|node| node.value("default"));
            if let (false, Some(default)) = (given.contains_key(&parameter.name), default) {
                given.insert(parameter.name.clone(), default.clone());
            }
        }
    }
    Some(call)
}
