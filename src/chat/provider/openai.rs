//! `OpenAI`'s Chat Completions API, streaming; also used by many other providers. Pure.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::{Map, Value, json};

use crate::llm::{
    ChatMessage, Delta, ModelPrompt, ModelReply, OnDelta, Stop, TokenUsage, ToolCall, call_id,
};
use crate::media::{ToolMedia, sound_format};
use crate::provider::wire::{
    MISTRAL, MOONSHOT, MediaOf, Provider, ProviderRequest, RemoteConfig, ReplyReader, RequestPlan,
    functions, media_after, media_words,
};
use schema::ToolFormat;

pub(super) fn request(plan: RequestPlan<'_>, prompt: &ModelPrompt) -> ProviderRequest {
    let config = plan.config;
    let is_plain = plan.refused.contains(SYSTEM_ROLE);
    let role = if is_plain { "user" } else { "system" };
    let system = json!({"role": role, "content": prompt.system});
    let mut messages: Vec<Value> =
        (!prompt.system.is_empty()).then_some(system).into_iter().collect();
    let reasons = prompt.messages.iter().any(|message| match message {
        ChatMessage::Assistant(reply) => reply.carried.iter().any(|it| it.get(REASONING).is_some()),
        ChatMessage::User { .. } | ChatMessage::Tool { .. } => false,
    });
    let all = match (reasons, prompt.tools.is_empty()) {
        (false, _) => ReasoningNeed::None,
        (true, true) => ReasoningNeed::Calls,
        (true, false) => ReasoningNeed::All,
    };
    let needs = HistoryNeeds { reasoning: all, is_moonshot: config.is_by(&MOONSHOT) };
    for (at, message) in prompt.messages.iter().enumerate() {
        messages.push(match message {
            ChatMessage::User { text, media, .. } if media.is_empty() => {
                json!({"role": "user", "content": text})
            }
            ChatMessage::User { text, media, .. } => {
                let text = json!({"type": "text", "text": text});
                let parts: Vec<Value> = [text].into_iter().chain(media.iter().map(part)).collect();
                json!({"role": "user", "content": parts})
            }
            // An answer that holds nothing is refused (AstrBotDevs/AstrBot#7200).
            ChatMessage::Assistant(reply) if reply.is_blank() => continue,
            ChatMessage::Assistant(reply) => reply_message(reply, needs),
            ChatMessage::Tool { id, text, .. } => {
                json!({"role": "tool", "tool_call_id": id, "content": text})
            }
        });
        // Messages of tools are text alone (OpenAI API reference, Chat Completions, tool message).
        let media = media_after(&prompt.messages, at);
        if !media.is_empty() {
            let parts = media.into_iter().flat_map(|MediaOf { name, one, .. }| {
                [json!({"type": "text", "text": media_words(name)}), part(one)]
            });
            messages.push(json!({"role": "user", "content": parts.collect::<Vec<_>>()}));
        }
    }
    leave_out(&mut messages, plan.refused);
    if plan.refused.contains(SEVERAL_CALLS) {
        messages = one_by_one(messages);
    }
    if config.tool_format() == ToolFormat::Compatible {
        let bridges = config.is_by(&MISTRAL) || plan.refused.contains(OWN_TURNS);
        messages = alternating(messages, bridges.then_some(needs));
    }
    let mut body = json!({"model": config.model, "stream": true});
    if !plan.refused.contains(STREAM_OPTIONS) {
        body[STREAM_OPTIONS] = json!({"include_usage": true});
    }
    // Not within the macro, which would copy the whole conversation.
    body["messages"] = messages.into();
    if let Some(longest) = LONGEST_FIELDS.iter().find(|field| !plan.refused.contains(**field)) {
        body[*longest] = json!(plan.max_output);
    }
    if let Some(functions) = functions(prompt) {
        body["tools"] = functions;
    }
    ProviderRequest { path: CHAT_PATH.to_owned(), headers: headers(config), body }
}

/// A picture or a sound as a part of a message.
fn part(one: &ToolMedia) -> Value {
    match sound_format(&one.mime) {
        Some(format) => json!({
            "type": "input_audio", "input_audio": {"data": one.data, "format": format},
        }),
        None => json!({"type": "image_url", "image_url": {"url": one.data_url()}}),
    }
}

/// The path of requests.
const CHAT_PATH: &str = "/chat/completions";
/// The field that asks for the usage.
const STREAM_OPTIONS: &str = "stream_options";
/// The fields that limit the answer: the present one first, and the one of before, which some addresses
/// alone take (editor-code-assistant/eca#231).
const LONGEST_FIELDS: [&str; 2] = ["max_completion_tokens", "max_tokens"];

/// Whether the Responses API is spoken from the start: at `OpenAI` itself, whose present models take
/// tools over it alone, but for those that it does not serve (`OpenAI` guide, Models, endpoints; openai/
/// openai-openapi#541), and where the address is that of it.
pub(super) fn prefers_responses(config: &RemoteConfig) -> bool {
    let RemoteConfig { provider, base_url, model, .. } = config;
    let is_served = !["audio", "search", "o1-mini"].iter().any(|part| model.contains(part));
    let is_own = base_url.host_str() == Some("api.openai.com") && is_served;
    let path = base_url.path().trim_end_matches('/');
    let is_named = path.ends_with("/responses");
    *provider == Provider::OpenAi && !path.ends_with(CHAT_PATH) && (is_own || is_named)
}

/// The fields that addresses are known to refuse, before one did.
pub(super) fn known_refused(config: &RemoteConfig) -> BTreeSet<&'static str> {
    // Mistral API reference, Chat completion, `max_tokens`; its usage comes unasked (avante-corp/
    // avante.nvim#2347).
    let host = config.base_url.host_str().unwrap_or_default();
    let fields = [LONGEST_FIELDS[0], STREAM_OPTIONS];
    fields.into_iter().filter(|_| host.ends_with("mistral.ai")).collect()
}

/// The field of `sent` that a refusal is about, if a request can do without it.
pub(super) fn refused_field(sent: &Value, refusal: &str) -> Option<&'static str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let names = |field: &&str| {
        refusal.match_indices(*field).any(|(at, name)| {
            !refusal[..at].ends_with(is_word) && !refusal[at + name.len()..].starts_with(is_word)
        })
    };
    let template = template_rule(sent, refusal);
    if template.is_some() {
        return template;
    }
    let fields = LONGEST_FIELDS.into_iter().chain([STREAM_OPTIONS]);
    let found = fields.filter(|field| sent.get(field).is_some()).find(names);
    let kept = || KEPT_FIELDS.into_iter().filter(|field| is_kept(sent, field)).find(names);
    found.or_else(|| kept().filter(|_| is_unknown(refusal)))
}

/// What templates of models do not take, learned like fields that are refused: a system prompt in a role of
/// its own, several calls in one answer, and a message of the user behind results.
const SYSTEM_ROLE: &str = "a system role";
const SEVERAL_CALLS: &str = "several calls";
const OWN_TURNS: &str = "results without an answer";

/// The rule of a template that a request breaks, by the words of the template (huggingface/chat-ui#1386;
/// vllm-project/vllm#25108; lmstudio-ai/lmstudio-bug-tracker#1054).
fn template_rule(sent: &Value, refusal: &str) -> Option<&'static str> {
    let messages = sent["messages"].as_array()?;
    let text = refusal.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let calls = |message: &Value| message["tool_calls"].as_array().map_or(0, Vec::len);
    let is_behind = |pair: &[Value]| pair[0]["role"] == "tool" && pair[1]["role"] == "user";
    if says(&["single tool-call"]) && messages.iter().any(|message| calls(message) > 1) {
        return Some(SEVERAL_CALLS);
    }
    if says(&["must alternate"]) && messages.windows(2).any(is_behind) {
        return Some(OWN_TURNS);
    }
    let is_system = messages.first().is_some_and(|message| message["role"] == "system");
    let about_system = ["system role not supported", "only user and assistant roles"];
    (is_system && says(&about_system)).then_some(SYSTEM_ROLE)
}

/// Messages with one call in each answer, and its result behind it.
fn one_by_one(messages: Vec<Value>) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    // The answers yet to come, by the ids of their calls.
    let mut rest: Vec<(Value, Value)> = Vec::new();
    for mut message in messages {
        let calls = message["tool_calls"].as_array().cloned().unwrap_or_default();
        if calls.len() > 1 {
            message["tool_calls"] = json!([calls[0]]);
            rest = calls
                .into_iter()
                .skip(1)
                .map(|call| {
                    (
                        call["id"].clone(),
                        json!({"role": "assistant", "content": "", "tool_calls": [call]}),
                    )
                })
                .collect();
        }
        if let Some(at) = rest.iter().position(|(id, _)| *id == message["tool_call_id"]) {
            out.push(rest.remove(at).1);
        }
        out.push(message);
    }
    out
}

/// Fields of answers that go back as they came. Some addresses refuse in a history what they send
/// themselves (karthink/gptel#774; QwenLM/qwen-code#11045).
const KEPT_FIELDS: [&str; 4] = [REASONING, "reasoning", DETAILS, EXTRA];

/// Whether an answer in the history of a request, or a call of it, has this field.
fn is_kept(sent: &Value, field: &str) -> bool {
    let has = |value: &Value| value.get(field).is_some();
    sent["messages"].as_array().into_iter().flatten().any(|message| {
        has(message) || message["tool_calls"].as_array().is_some_and(|calls| calls.iter().any(has))
    })
}

/// Whether a refusal is about a field that is not known there.
fn is_unknown(refusal: &str) -> bool {
    const WORDS: [&str; 7] = [
        "unsupported",
        "not supported",
        "not permitted",
        "not allowed",
        "unknown",
        "unexpected",
        "unrecognized",
    ];
    let text = refusal.to_lowercase();
    WORDS.iter().any(|word| text.contains(word))
}

/// Takes the fields out of the answers of a history that the address refuses.
fn leave_out(messages: &mut [Value], refused: &BTreeSet<&'static str>) {
    let strip = |value: &mut Value| {
        if let Some(fields) = value.as_object_mut() {
            fields.retain(|key, _| !refused.contains(key.as_str()));
        }
    };
    for message in messages.iter_mut().filter(|message| message["role"] == "assistant") {
        strip(message);
        let calls = message.get_mut("tool_calls").and_then(Value::as_array_mut);
        calls.into_iter().flatten().for_each(strip);
    }
}

/// Messages whose roles take turns, as the templates of many models want them: what follows itself is
/// joined (charmbracelet/crush#279), and with `bridge` an answer stands between results and the next
/// message of the user, which Mistral wants (NousResearch/hermes-agent#20154).
fn alternating(messages: Vec<Value>, bridge: Option<HistoryNeeds>) -> Vec<Value> {
    const NO_ANSWER: &str = "(The results were not answered yet.)";
    let mut out: Vec<Value> = Vec::with_capacity(messages.len());
    for message in messages {
        let is_user = message["role"] == "user";
        match out.last_mut() {
            Some(last) if is_user && last["role"] == "user" => {
                let mut parts = content_parts(last["content"].take());
                parts.extend(content_parts(message["content"].clone()));
                last["content"] = joined_text(&parts).unwrap_or(Value::Array(parts));
                continue;
            }
            Some(last) if is_user && last["role"] == "tool" => out.extend(bridge.map(|needs| {
                let text = NO_ANSWER.to_owned();
                reply_message(&ModelReply { text, ..ModelReply::default() }, needs)
            })),
            _ => {}
        }
        out.push(message);
    }
    out
}

/// Content as a list of parts.
fn content_parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        text => vec![json!({"type": "text", "text": text})],
    }
}

/// The text of parts that are text alone.
fn joined_text(parts: &[Value]) -> Option<Value> {
    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
    Some(texts?.join("\n\n").into())
}

/// The headers of every request. Azure takes its keys in a header of its own, and tokens of Entra as
/// everybody does (Azure `OpenAI` API reference, Authentication).
pub(super) fn headers(config: &RemoteConfig) -> Vec<(&'static str, String)> {
    let host = config.base_url.host_str().unwrap_or_default();
    let key = config.key.as_ref().map(|key| match key.expose() {
        key if host.ends_with(".azure.com") && !key.starts_with("eyJ") => {
            ("api-key", key.to_owned())
        }
        key => ("authorization", format!("Bearer {key}")),
    });
    key.into_iter().collect()
}

/// The field of `DeepSeek`'s reasoning. Every message with calls must have it in every later request,
/// and with tools in the request every message, even empty (`DeepSeek` guide, Thinking mode, tool
/// calls; craft-ai-agents/craft-agents-oss#703, NousResearch/hermes-agent#16021).
const REASONING: &str = "reasoning_content";
/// The field of `OpenRouter`'s reasoning (`OpenRouter` guide, Reasoning tokens, preserving).
const DETAILS: &str = "reasoning_details";
/// The field of what Gemini signs at compatible addresses (Gemini guide, Thought signatures, `OpenAI`
/// compatibility).
const EXTRA: &str = "extra_content";

/// What is carried of the thinking among the parts of content, as text (Mistral guide, Reasoning,
/// thinking chunks; vercel/ai, `mistral`: "preserve reasoning in multi-turn conversations").
const THINKING: &str = "thinking";

/// The answers in the history that must have the field of the reasoning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReasoningNeed {
    /// None: the model has sent no such field in this conversation.
    None,
    /// Those with calls.
    Calls,
    /// All.
    All,
}

/// What a provider takes in the answers of a history.
#[derive(Clone, Copy)]
struct HistoryNeeds {
    /// Which of them come with reasoning.
    reasoning: ReasoningNeed,
    /// Whether empty texts are refused.
    is_moonshot: bool,
}

/// An answer in the history. Moonshot takes no text that is empty (MoonshotAI/kimi-cli#2621), and no
/// reasoning that is (earendil-works/pi#4178).
fn reply_message(reply: &ModelReply, needs: HistoryNeeds) -> Value {
    let HistoryNeeds { reasoning, is_moonshot } = needs;
    let mut message = json!({"role": "assistant"});
    if !is_moonshot || !reply.text.is_empty() {
        message["content"] = json!(reply.text);
    }
    if !reply.calls.is_empty() {
        let calls = reply.calls.iter().map(|call| {
            let arguments = match &call.arguments {
                Value::String(_) => "{}".to_owned(),
                arguments => arguments.to_string(),
            };
            let function = json!({"name": call.name, "arguments": arguments});
            let mut sent = json!({"id": call.id, "type": "function", "function": function});
            if let Some(extra) = &call.extra {
                sent[EXTRA] = extra.clone();
            }
            sent
        });
        message["tool_calls"] = calls.collect();
    }
    let has_reasoning = match reasoning {
        ReasoningNeed::None => false,
        ReasoningNeed::Calls => !reply.calls.is_empty(),
        ReasoningNeed::All => true,
    };
    let nothing = if is_moonshot { " " } else { "" };
    if has_reasoning {
        message[REASONING] = json!(nothing);
    }
    // Otherwise reasoning is not read again without calls, and by some refused.
    let goes_back = |key: &str| match key {
        EXTRA => true,
        REASONING => has_reasoning,
        _ => !reply.calls.is_empty(),
    };
    for (key, value) in reply.carried.iter().filter_map(Value::as_object).flatten() {
        if key == THINKING {
            if goes_back(key) {
                message["content"] = thinking_parts(value, &reply.text);
            }
        } else if goes_back(key) {
            let is_empty = is_moonshot && *value == "";
            message[key] = if is_empty { json!(nothing) } else { value.clone() };
        }
    }
    message
}

/// The content of an answer with the thinking that led to it.
fn thinking_parts(thinking: &Value, text: &str) -> Value {
    let within = json!([{"type": "text", "text": thinking}]);
    let mut parts = vec![json!({"type": "thinking", "thinking": within, "closed": true})];
    if !text.is_empty() {
        parts.push(json!({"type": "text", "text": text}));
    }
    parts.into()
}

/// Reads a streamed answer.
#[derive(Default)]
pub(super) struct OpenAiReader {
    /// In the order in which they began.
    open: Vec<PartialCall>,
    /// The reasoning so far, by the field that holds it.
    reasoning: BTreeMap<&'static str, String>,
    /// The parts of the reasoning, each whole.
    details: Vec<Value>,
    /// The thinking among the parts of the content.
    thinking: String,
    /// What is signed of the message.
    extra: Option<Value>,
    is_done: bool,
    /// Whether the provider behind the address failed in the middle.
    is_broken: bool,
    /// Whether the finish reason tells of a call.
    announces_call: bool,
}

/// What a finish reason tells.
enum Finish {
    /// Nothing: some send an empty one with every part (ollama/ollama#4357, sgl-project/sglang#3912).
    NotYet,
    Whole,
    /// That there are calls.
    Call,
    /// The provider failed in the middle.
    Broken,
    /// The answer ends before its end.
    Short(Stop),
}

/// Reads a finish reason: those of `OpenAI`'s API reference, and those of others (Mistral `model_length`
/// and `error`; `DeepSeek` `insufficient_system_resource`; vLLM and `SGLang` `abort`; Z.ai `sensitive`,
/// `network_error` and `model_context_window_exceeded`; words of Anthropic's and Gemini's APIs behind
/// routers).
fn finish_of(reason: &str) -> Finish {
    match reason.to_ascii_lowercase().as_str() {
        "" | "null" => Finish::NotYet,
        "length"
        | "max_tokens"
        | "model_length"
        | "max_output_tokens"
        | "model_context_window_exceeded" => Finish::Short(Stop::Length),
        "content_filter" | "sensitive" | "safety" | "recitation" | "blocklist"
        | "prohibited_content" => Finish::Short(Stop::Filtered),
        "refusal" => Finish::Short(Stop::Refused),
        "tool_calls" | "function_call" | "tool_use" => Finish::Call,
        "error" | "abort" | "aborted" | "network_error" | "insufficient_system_resource" => {
            Finish::Broken
        }
        "other" | "malformed_function_call" => Finish::Short(Stop::Halted),
        _ => Finish::Whole,
    }
}

/// Takes the counts of a usage; where several come, each is of the answer so far.
fn count(usage: &Value, known: &mut TokenUsage) {
    let number = |place: &&str| usage.pointer(place).and_then(Value::as_u64);
    let first = |places: &[&str]| places.iter().find_map(number).unwrap_or_default();
    let (input, output) = (first(&["/prompt_tokens"]), first(&["/completion_tokens"]));
    let reasoning = number(&"/completion_tokens_details/reasoning_tokens");
    // Some count reasoning beside the completion (xAI guide, Rate limits, reasoning tokens;
    // vercel/ai#12425), others only in the total.
    let beside = first(&["/total_tokens"]).saturating_sub(input + output);
    let beside = match reasoning {
        Some(reasoning) if reasoning > 0 && beside >= reasoning => reasoning,
        None if usage["completion_tokens_details"].is_null() => beside,
        Some(_) | None => 0,
    };
    let cached =
        ["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"];
    let cached = first(&cached).min(input);
    let written = first(&["/prompt_tokens_details/cache_write_tokens"]).min(input - cached);
    known.input = known.input.max(input);
    known.cached = known.cached.max(cached);
    known.written = known.written.max(written);
    known.output = known.output.max(output + beside);
}

/// A call that is still incomplete.
#[derive(Default)]
struct PartialCall {
    index: u64,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

impl OpenAiReader {
    /// Takes a part of a call.
    fn part(&mut self, index: u64, id: &str, function: &Value, extra: &Value) {
        let name = function["name"].as_str().unwrap_or_default();
        let open = self.open_call(index, id, function);
        // Some repeat the name with every part.
        if name != open.name {
            open.name.push_str(name);
        }
        match &function["arguments"] {
            Value::String(more) => open.arguments.push_str(more),
            Value::Object(whole) if open.arguments.is_empty() => {
                open.arguments = Value::Object(whole.clone()).to_string();
            }
            _ => {}
        }
        if extra.is_object() {
            open.extra = Some(extra.clone());
        }
    }

    /// The open call that a part belongs to.
    fn open_call(&mut self, index: u64, id: &str, function: &Value) -> &mut PartialCall {
        let name = function["name"].as_str().unwrap_or_default();
        let arguments = match &function["arguments"] {
            Value::String(text) => text.trim_start(),
            Value::Object(_) => "{",
            _ => "",
        };
        let is_whole = |open: &PartialCall| {
            // All of them are read only where they may have ended, not with each part.
            open.arguments.trim_end().ends_with('}')
                && serde_json::from_str::<Map<String, Value>>(&open.arguments).is_ok()
        };
        // Without ids, what follows whole arguments belongs to the next call.
        let begins = |open: &PartialCall| {
            let is_other = !name.is_empty() && name != open.name || arguments.starts_with('{');
            // And with one id for all of them.
            let is_named = id == open.id && !name.is_empty() && arguments.starts_with('{');
            (id.is_empty() && is_other || is_named) && is_whole(open)
        };
        let belongs = |open: &PartialCall| {
            let is_same_id = id.is_empty() || open.id.is_empty() || open.id == id;
            open.index == index && is_same_id && !begins(open)
        };
        let before = self.open.iter().rev().find(|open| open.index == index);
        let before = before.filter(|_| name.is_empty()).map(|open| open.name.clone());
        // Some send all calls at one index, and only another id begins the next.
        let at = self.open.iter().rposition(belongs).unwrap_or(self.open.len());
        if at == self.open.len() {
            let name = before.unwrap_or_default();
            self.open.push(PartialCall { index, name, ..PartialCall::default() });
        }
        let open = &mut self.open[at];
        if open.id.is_empty() {
            id.clone_into(&mut open.id);
        }
        open
    }

    /// Adds a piece of a part of the reasoning: text grows, all else is as it came last.
    fn detail(&mut self, piece: &Value) {
        let is_same = |part: &&mut Value| {
            part["index"] == piece["index"]
                && part["type"] == piece["type"]
                && !piece["index"].is_null()
        };
        let Some(part) = self.details.iter_mut().rev().find(is_same) else {
            return self.details.push(piece.clone());
        };
        let told = piece.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        for (key, value) in told {
            let kept = &mut part[key];
            match (&mut *kept, value) {
                (Value::String(so_far), Value::String(more)) if GROWING_KEYS.contains(&&**key) => {
                    so_far.push_str(more);
                }
                _ => *kept = value.clone(),
            }
        }
    }
}

/// The keys of a part of the reasoning whose text comes in pieces.
const GROWING_KEYS: [&str; 3] = ["text", "summary", "data"];

/// What a filter found, by its results for each kind of content (Azure `OpenAI` guide, Content
/// filtering).
pub(super) fn filtered_for(results: &Value) -> String {
    let found = results.as_object().into_iter().flatten();
    let found = found.filter(|(_, result)| result["filtered"] == true);
    found.map(|(kind, _)| kind.replace('_', " ")).collect::<Vec<_>>().join(", ")
}

/// The text of a list of parts, and the reasoning among them (Mistral, Magistral models).
fn parts(content: &Value) -> [String; 2] {
    let mut out = [String::new(), String::new()];
    for part in content.as_array().into_iter().flatten() {
        match part["type"].as_str() {
            Some("thinking") => {
                let within = part["thinking"].as_array().into_iter().flatten();
                out[1].extend(within.filter_map(|part| part["text"].as_str()));
                out[1].push_str(part["thinking"].as_str().unwrap_or_default());
            }
            _ => out[0].push_str(part["text"].as_str().unwrap_or_default()),
        }
    }
    out
}

impl ReplyReader for OpenAiReader {
    fn event(&mut self, data: &Value, reply: &mut ModelReply, on: OnDelta<'_>) {
        let places = ["/usage", "/x_groq/usage", "/choices/0/usage"];
        let mut usage = places.iter().filter_map(|place| data.pointer(place));
        if let Some(usage) = usage.find(|usage| usage.is_object()) {
            count(usage, &mut reply.usage);
        }
        let choices = data["choices"].as_array().into_iter().flatten();
        let is_first = |choice: &&Value| choice["index"].as_u64().unwrap_or_default() == 0;
        let Some(choice) = choices.filter(|choice| choice.is_object()).find(is_first) else {
            return;
        };
        // Some send the whole answer at once, as if no stream had been asked for.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        for piece in delta[DETAILS].as_array().into_iter().flatten() {
            self.detail(piece);
        }
        if let Some(extra) = delta.get(EXTRA).filter(|extra| extra.is_object()) {
            self.extra = Some(extra.clone());
        }
        let [text, reasoning] = parts(&delta["content"]);
        if !reasoning.is_empty() {
            self.thinking.push_str(&reasoning);
            on(Delta::Reasoning(reasoning));
        }
        let mut told = "";
        for key in [REASONING, "reasoning"] {
            // An empty one is one: it goes back as it came.
            let more = delta[key].as_str().filter(|more| key == REASONING || !more.is_empty());
            if let Some(more) = more {
                self.reasoning.entry(key).or_default().push_str(more);
                // Some send the same in both fields (vllm-project/vllm#34030).
                if !more.is_empty() && more != told {
                    on(Delta::Reasoning(more.to_owned()));
                }
                told = more;
            }
        }
        if let Some(more) = delta["refusal"].as_str().filter(|more| !more.is_empty()) {
            reply.stop = Stop::Refused;
            reply.text.push_str(more);
            on(Delta::Text(more.to_owned()));
        }
        let text = delta["content"].as_str().map_or(text, str::to_owned);
        if !text.is_empty() {
            reply.text.push_str(&text);
            on(Delta::Text(text));
        }
        for (at, call) in delta["tool_calls"].as_array().into_iter().flatten().enumerate() {
            let index = call["index"].as_u64().unwrap_or(at as u64);
            let id = call["id"].as_str().unwrap_or_default();
            self.part(index, id, &call["function"], &call[EXTRA]);
        }
        // As some wrote calls before there were several in an answer.
        let single = delta.get("function_call").filter(|call| call.is_object());
        if let Some(call) = single.filter(|_| !delta["tool_calls"].is_array()) {
            self.part(0, "", call, &Value::Null);
        }
        match finish_of(choice["finish_reason"].as_str().unwrap_or_default()) {
            Finish::NotYet => return,
            Finish::Whole => {}
            Finish::Call => self.announces_call = true,
            Finish::Broken => self.is_broken = true,
            Finish::Short(stop) => {
                reply.stop = stop;
                if stop == Stop::Filtered {
                    reply.why = filtered_for(&choice["content_filter_results"]);
                }
            }
        }
        self.is_done = true;
    }

    fn finish(&mut self, reply: &mut ModelReply, is_ended: bool) -> bool {
        let details = std::mem::take(&mut self.details);
        for (key, text) in std::mem::take(&mut self.reasoning) {
            // The parts say the same, and are signed.
            if key == REASONING || details.is_empty() {
                reply.carried.push(json!({key: text}));
            }
        }
        if !details.is_empty() {
            reply.carried.push(json!({DETAILS: details}));
        }
        if !self.thinking.is_empty() {
            reply.carried.push(json!({THINKING: std::mem::take(&mut self.thinking)}));
        }
        if let Some(extra) = self.extra.take() {
            reply.carried.push(json!({EXTRA: extra}));
        }
        let mut open = std::mem::take(&mut self.open);
        // Some send a whole call again at its end.
        let mut known = HashSet::new();
        open.retain(|call| {
            let what = (call.id.clone(), call.name.clone(), call.arguments.clone());
            call.id.is_empty() || known.insert(what)
        });
        for PartialCall { id, name, arguments, extra, .. } in open {
            let id = if id.is_empty() { call_id() } else { id };
            reply.calls.push(ToolCall { extra, ..ToolCall::new(id, name, &arguments) });
        }
        if self.announces_call && reply.calls.is_empty() && reply.stop == Stop::End {
            reply.stop = Stop::NoCall;
        }
        // Some end with `[DONE]` alone.
        !self.is_broken && (self.is_done || is_ended)
    }
}
