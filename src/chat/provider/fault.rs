//! Why an attempt failed: the words, the kind, and whether and when another one may succeed. Pure.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::llm::{LlmErrorKind, TokenUsage};
use crate::provider::openai::filtered_for;
use base::text::cut;
use base::{Timestamp, retry_after};

/// What is told of what a model wrote instead of a call, in bytes.
const MAX_WROTE_BYTES: usize = 200;

/// The words of an error: `message` with most, `detail` or `errors` with others, as text or as a list of
/// the fields at fault (Mistral, vLLM: `loc` and `msg`); and what a router was told itself (`OpenRouter`
/// API reference, Errors, `metadata.raw`).
fn error_text(error: &Value) -> String {
    /// Nested deeper, there are no words.
    const MAX_ERROR_DEPTH: usize = 4;
    fn words(value: &Value, depth: usize) -> String {
        match value {
            _ if depth > MAX_ERROR_DEPTH => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(list) => {
                let all = list.iter().map(|one| words(one, depth + 1));
                all.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ")
            }
            Value::Object(map) => {
                let keys = ["message", "msg", "detail", "errors", "error"];
                let found = keys.iter().filter_map(|key| map.get(*key));
                let text = found.map(|value| words(value, depth + 1)).find(|text| !text.is_empty());
                let text = text.unwrap_or_default();
                let place = map.get("loc").and_then(Value::as_array).into_iter().flatten();
                let place: Vec<String> = place
                    .map(|part| part.as_str().map_or_else(|| part.to_string(), str::to_owned))
                    .collect();
                if place.is_empty() { text } else { format!("{}: {text}", place.join(".")) }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
        }
    }
    let text = words(error, 0);
    let raw = error.pointer("/metadata/raw").and_then(Value::as_str).unwrap_or_default();
    let behind = match serde_json::from_str::<Value>(raw) {
        Ok(value) => words(&value, 0),
        Err(_) => raw.to_owned(),
    };
    // Why a moderation flagged the prompt (the same, Moderation errors).
    let flagged = error.pointer("/metadata/reasons").and_then(Value::as_array);
    let flagged: Vec<&str> = flagged.into_iter().flatten().filter_map(Value::as_str).collect();
    let behind = if behind.is_empty() { flagged.join(", ") } else { behind };
    let inner = error.get("innererror").or_else(|| error.get("inner_error"));
    let found = inner.map(|inner| filtered_for(&inner["content_filter_result"]));
    let behind = found.filter(|found| !found.is_empty()).unwrap_or(behind);
    // What Groq's model wrote instead of a call.
    let wrote = error.get("failed_generation").and_then(Value::as_str).unwrap_or_default();
    let behind = if wrote.is_empty() { behind } else { cut(wrote, MAX_WROTE_BYTES).to_owned() };
    // The words of llama.cpp name no size (ggml-org/llama.cpp#15780).
    let size = error.get("n_ctx").and_then(Value::as_u64).filter(|_| !text.contains(" tokens"));
    let behind = size.map_or(behind, |size| format!("it has a context size of {size} tokens"));
    if behind.is_empty() { text } else { format!("{}: {behind}", text.trim_end_matches('.')) }
}

/// The error that an event of an answer holds: in a field of its own, within the response (`OpenAI`
/// Responses API, `response.failed`) or the choice (`OpenRouter` API reference, Errors, mid-stream), or as
/// the event itself.
pub(super) fn error_within(event: &Value) -> Option<&Value> {
    let is_one = |error: &&Value| match error {
        Value::Null | Value::Bool(false) => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Array(_) => true,
    };
    let places = ["/error", "/response/error", "/choices/0/error"];
    let within = places.iter().find_map(|place| event.pointer(place).filter(is_one));
    let whole = Some(event).filter(|it| it["object"] == "error" || it["type"] == "error");
    within.or(whole)
}

/// How providers say that a prompt does not fit.
const TOO_LONG: [&str; 9] = [
    "context_length",
    "too long",
    "maximum context",
    "context size",
    "context length",
    "context window",
    "input token count",
    // LM Studio (continuedev/continue#10864).
    ">= n_ctx",
    // One request above what the account may send in a minute (Groq guide, Rate limits; OpenAI guide,
    // Rate limits): waiting does not help.
    "request too large",
];

/// How providers, and proxies before them, say that a request has too many bytes (Anthropic API
/// reference, Errors, `request_too_large`; Gemini, "Request payload size exceeds the limit"; nginx;
/// Express, "request entity too large"; Fastify, "Request body is too large").
const TOO_LARGE: [&str; 8] = [
    "request_too_large",
    "payload size",
    "payload too large",
    "entity too large",
    "content too large",
    "body too large",
    "body is too large",
    "request exceeds the maximum size",
];

/// How providers say that the account is empty or its limit reached, which no waiting helps (`OpenAI`
/// guide, Error codes, `insufficient_quota`; Anthropic API reference, Errors; `DeepSeek` guide, Error
/// codes, 402; `OpenRouter` API reference, Errors, 402; xAI guide, billing).
const SPENT: [&str; 9] = [
    "insufficient_quota",
    "insufficient_balance",
    "insufficient balance",
    "insufficient credits",
    "billing_hard_limit",
    "credit balance is too low",
    "requires more credits",
    "used all available credits",
    "spending limit",
];

/// How providers say that a filter refused the prompt (Azure `OpenAI` guide, Content filtering; `OpenRouter`
/// API reference, Errors, moderation; Alibaba Model Studio guide, Error messages; `DeepSeek`'s words;
/// Anthropic's words; xAI's words).
const FILTERED: [&str; 9] = [
    "content_filter",
    "content management policy",
    "content_policy_violation",
    "content filtering policy",
    "data_inspection_failed",
    "content exists risk",
    "requires moderation",
    "prompt was flagged",
    "content violates usage guidelines",
];

/// How providers say with status 400 that the key is wrong (Gemini guide, Troubleshooting; xAI guide,
/// Debugging).
const WRONG_KEY: [&str; 3] = ["api key not valid", "api_key_invalid", "incorrect api key"];

/// How servers say that the template of a model does not take the messages, or that they make no grammar
/// of the tools, some with status 500; as they are, it never will.
const TEMPLATE: [&str; 5] = [
    "jinja",
    "single tool-call",
    "system role not supported",
    "only user and assistant roles",
    "failed to parse grammar",
];

/// How Groq says that its model wrote a call that cannot be read; another attempt may be better (Groq
/// guide, Tool use, `tool_use_failed`).
const FAILED_CALL: [&str; 3] =
    ["tool_use_failed", "tool call validation failed", "failed to call a function"];

/// Why one attempt failed.
pub(super) struct Fault {
    pub(super) kind: LlmErrorKind,
    pub(super) message: String,
    /// Whether it is transient: a retry may succeed.
    pub(super) passes: bool,
    /// The retry delay that the provider asked for.
    pub(super) after: Option<Duration>,
    /// The status of an error response.
    pub(super) status: Option<u16>,
    /// Whether the request has too many bytes, whatever they are.
    pub(super) is_too_large: bool,
    /// What the attempt has used before it broke off.
    pub(super) spent: TokenUsage,
}

impl Fault {
    pub(super) fn new(kind: LlmErrorKind, message: impl Into<String>) -> Self {
        use LlmErrorKind::{Cut, RateLimited, Server, Timeout, Unreachable};
        let passes = matches!(kind, Cut | RateLimited | Server | Timeout | Unreachable);
        let (after, status, spent) = (None, None, TokenUsage::default());
        let is_too_large = false;
        Self { kind, message: message.into(), passes, after, status, is_too_large, spent }
    }

    /// Classifies a provider's error object: most have `message` and a word for the kind.
    pub(super) fn reported(status: Option<u16>, error: &Value) -> Self {
        use LlmErrorKind as K;
        // Ollama passes the error of its runner on as text.
        let within = error.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
        if let Some(inner) = within.as_ref().and_then(|within| within.get("error")) {
            return Self::reported(status, inner);
        }
        let word = |key: &str| error.get(key).and_then(Value::as_str).unwrap_or_default();
        let text = error_text(error);
        let words = format!("{} {} {}", word("type"), word("code"), word("status")).to_lowercase();
        let code = error.get("code").and_then(Value::as_u64).or_else(|| word("code").parse().ok());
        let code = code.and_then(|code| u16::try_from(code).ok());
        let lower = text.to_lowercase();
        let says = |part: &&str| words.contains(part) || lower.contains(part);
        // A field that is too long is not the prompt.
        let is_field = says(&"array too long") || says(&"string too long");
        let code = status.or(code);
        let is_spent = code == Some(402) || SPENT.iter().any(says);
        let kind = match code {
            _ if TEMPLATE.iter().any(says) => K::Refused,
            _ if FILTERED.iter().any(says) => K::Filtered,
            _ if is_spent => K::RateLimited,
            _ if WRONG_KEY.iter().any(says) => K::Unauthorized,
            _ if FAILED_CALL.iter().any(says) => K::Malformed,
            _ if !is_field && TOO_LONG.iter().chain(&TOO_LARGE).any(says) => K::TooLong,
            Some(413) => K::TooLong,
            Some(401 | 403) => K::Unauthorized,
            Some(429) => K::RateLimited,
            Some(408 | 409 | 500..) => K::Server,
            Some(_) => K::Refused,
            None if words.contains("rate_limit") => K::RateLimited,
            None if words.contains("authentication") || words.contains("permission") => {
                K::Unauthorized
            }
            None if words.contains("invalid_request") || words.contains("invalid_prompt") => {
                K::Refused
            }
            None => K::Server,
        };
        let is_large = status == Some(413) || TOO_LARGE.iter().any(says);
        let mut fault = Self { status, ..Self::new(kind, text) };
        // What counts tokens is about the prompt.
        fault.is_too_large = kind == K::TooLong && is_large && !lower.contains("token");
        let details = error.get("details").and_then(Value::as_array);
        let details = || details.into_iter().flatten();
        // A quota of the day, or none at all (Gemini guide, Rate limits, `QuotaFailure`).
        let mut quotas =
            details().filter_map(|detail| detail.get("violations")?.as_array()).flatten();
        let is_daily =
            quotas.any(|quota| quota["quotaId"].as_str().is_some_and(|id| id.contains("PerDay")));
        fault.passes |= fault.kind == K::Malformed;
        fault.passes &= !is_spent && !is_daily && !lower.contains("limit: 0,");
        let delay = details().find_map(|detail| detail.get("retryDelay")?.as_str());
        let delay = delay.and_then(|delay| delay.strip_suffix('s')?.parse().ok());
        fault.after = delay.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        fault
    }

    /// Whether the provider refuses what it signed itself: reasoning of another key, region or time
    /// (`OpenAI`, `invalid_encrypted_content`; Anthropic, "Invalid `signature` in `thinking` block";
    /// Gemini, "missing a `thought_signature`").
    pub(super) fn is_about_state(&self) -> bool {
        let text = self.message.to_lowercase();
        let words =
            ["encrypted content", "encrypted_content", "thought signature", "thought_signature"];
        let is_named = words.iter().any(|word| text.contains(word));
        let is_signature = text.contains("invalid") && text.contains("signature");
        self.kind == LlmErrorKind::Refused
            && (is_named || is_signature)
            && !text.contains("not supported")
    }

    /// Whether the provider refuses pictures or sounds: one that is none, is too large or of another type
    /// than it says (Anthropic guide, Vision, limits), or any (`OpenRouter` API reference, Errors).
    pub(super) fn is_about_media(&self) -> bool {
        const WORDS: [&str; 7] =
            ["image", "picture", "audio", "media type", "media_type", "multimodal", "inline_data"];
        let text = self.message.to_lowercase();
        matches!(self.status, Some(400 | 404 | 413 | 415 | 422))
            && WORDS.iter().any(|word| text.contains(word))
    }

    /// The most pictures that the provider takes in a request, where it refuses more (vLLM, "At most 1
    /// image(s) may be provided in one prompt"; Groq, "This model supports up to 5 images").
    pub(super) fn most_media(&self) -> Option<usize> {
        const BEFORE: [&str; 5] = ["at most ", "up to ", "maximum of ", "limit of ", "limit is "];
        let text = self.message.to_lowercase();
        let number = |(at, before): (usize, &str)| {
            let rest = &text[at + before.len()..];
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let rest_is_media = rest[digits..].trim_start().starts_with("image");
            rest[..digits].parse().ok().filter(|_| rest_is_media)
        };
        let mut found =
            BEFORE.iter().flat_map(|words| text.match_indices(words)).filter_map(number);
        found.next().filter(|_| self.is_about_media())
    }

    /// Whether the provider says that the model takes no pictures or sounds at all.
    pub(super) fn takes_no_media(&self) -> bool {
        const WORDS: [&str; 5] =
            ["support image", "support vision", "support audio", "image input", "multimodal"];
        let text = self.message.to_lowercase();
        WORDS.iter().any(|word| text.contains(word))
    }

    /// Whether the provider says that the model calls no tools (vLLM guide, Tool calling; `OpenRouter` API
    /// reference, Errors; Groq guide, Tool use; Gemini API, Gemma models).
    pub(super) fn lacks_tools(&self) -> bool {
        const WORDS: [&str; 8] = [
            "--enable-auto-tool-choice",
            "only user and assistant roles",
            "support tool use",
            "support tools",
            "support tool calling",
            "tool calling is not supported",
            "function calling is not",
            "support function calling",
        ];
        let text = self.message.to_lowercase();
        matches!(self.status, Some(400 | 404 | 422 | 500))
            && WORDS.iter().any(|word| text.contains(word))
    }

    /// Whether the provider says that it has no such model.
    pub(super) fn names_model(&self) -> bool {
        let text = self.message.to_lowercase();
        let is_absent =
            ["not found", "does not exist", "not exist", "unknown model", "not a valid model"];
        matches!(self.status, Some(400 | 404 | 422))
            && text.contains("model")
            && is_absent.iter().any(|part| text.contains(part))
    }

    /// Adds what the headers of an error response tell of another attempt.
    pub(super) fn with_headers(mut self, headers: &HeaderMap) -> Self {
        let asked = asked_delay(headers, jiff::Timestamp::now());
        // What waits for requests that are under way (OpenRouter API reference, Errors, 402).
        self.passes |= self.status == Some(402) && headers.contains_key("retry-after");
        // The clients of OpenAI and Anthropic read it likewise.
        self.passes &= text(headers, "x-should-retry") != Some("false");
        // Anthropic says that it is overloaded with 529.
        if self.passes {
            self.after = asked.or(self.after);
        }
        self
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// The delay that the headers ask for: `retry-after`, in seconds or as a date, or in milliseconds; else
/// the time until a limit that is used up begins anew.
fn asked_delay(headers: &HeaderMap, now: jiff::Timestamp) -> Option<Duration> {
    let number = |name: &str| text(headers, name)?.parse::<f64>().ok();
    let until = |time: jiff::Timestamp| (time.as_millisecond() - now.as_millisecond()) as f64 / 1e3;
    let after = || {
        let now = Timestamp(u64::try_from(now.as_microsecond()).unwrap_or_default());
        Some(retry_after(text(headers, "retry-after")?, now)?.as_secs_f64())
    };
    let ms = number("retry-after-ms").filter(|ms| ms.is_finite() && *ms >= 0.0);
    let seconds = ms.map(|ms| ms / 1_000.0);
    let seconds = seconds.or_else(after).or_else(|| {
        LIMITS
            .iter()
            .filter_map(|(left, reset)| {
                let is_used_up = number(left).is_some_and(|left| left <= 0.0);
                let reset = text(headers, reset).filter(|_| is_used_up)?;
                time_span(reset).or_else(|| {
                    let time = match reset.parse::<i64>() {
                        Ok(ms) if ms > 1_000_000_000_000 => jiff::Timestamp::from_millisecond(ms),
                        Ok(seconds) => jiff::Timestamp::from_second(seconds),
                        Err(_) => reset.parse(),
                    };
                    Some(until(time.ok()?))
                })
            })
            .reduce(f64::max)
    });
    Duration::try_from_secs_f64(seconds?.max(0.0)).ok()
}

/// The headers that tell how much of a limit is left, and when it begins anew (`OpenAI` and Groq guides,
/// Rate limits, as a span of time; Anthropic API reference, Rate limits, as a time; `OpenRouter` API
/// reference, Limits, in milliseconds).
const LIMITS: [(&str, &str); 7] = [
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-input-tokens-reset"),
    ("anthropic-ratelimit-output-tokens-remaining", "anthropic-ratelimit-output-tokens-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
];

/// A span such as `1s`, `6m0s`, `2m59.56s` or `120ms`, in seconds.
fn time_span(text: &str) -> Option<f64> {
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, unit) = rest.split_at(digits);
        let length = unit.find(|c: char| c.is_ascii_digit()).unwrap_or(unit.len());
        let factor = match &unit[..length] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3_600.0,
            "d" => 86_400.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * factor;
        rest = &unit[length..];
    }
    (!text.is_empty()).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn refusals_are_told_apart_by_what_helps() {
        use LlmErrorKind as K;
        for (status, error, kind, passes) in [
            (
                429,
                json!({"code": "rate_limit_exceeded", "message": "slow down"}),
                K::RateLimited,
                true,
            ),
            (
                429,
                json!({"code": "insufficient_quota", "message": "You exceeded your current quota"}),
                K::RateLimited,
                false,
            ),
            (
                429,
                json!({"message": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41000."}),
                K::TooLong,
                false,
            ),
            (402, json!({"message": "Insufficient Balance"}), K::RateLimited, false),
            (
                402,
                json!({"code": 402, "message": "This request requires more credits, or fewer max_tokens."}),
                K::RateLimited,
                false,
            ),
            (
                400,
                json!({"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}),
                K::RateLimited,
                false,
            ),
            (
                400,
                json!({"code": 400, "message": "API key not valid. Please pass a valid API key.", "status": "INVALID_ARGUMENT"}),
                K::Unauthorized,
                false,
            ),
            (
                400,
                json!({"code": "content_filter", "message": "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."}),
                K::Filtered,
                false,
            ),
            (
                403,
                json!({"code": 403, "message": "Your chosen model requires moderation and your input was flagged"}),
                K::Filtered,
                false,
            ),
            (400, json!({"message": "Content Exists Risk"}), K::Filtered, false),
            (529, json!({"type": "overloaded_error", "message": "Overloaded"}), K::Server, true),
            (
                400,
                json!({"type": "invalid_request_error", "code": "tool_use_failed", "message":
                    "Tool call validation failed: parameters for tool e__echo did not match schema"}),
                K::Malformed,
                true,
            ),
            (
                429,
                json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [
                    {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},
                    {"retryDelay": "13s"},
                ]}),
                K::RateLimited,
                false,
            ),
            (
                429,
                json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [
                    {"violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel"}]},
                    {"retryDelay": "13s"},
                ]}),
                K::RateLimited,
                true,
            ),
        ] {
            let fault = Fault::reported(Some(status), &error);
            assert_eq!((fault.kind, fault.passes), (kind, passes), "{error}");
        }
    }

    #[test]
    fn the_delay_is_what_the_headers_ask_for() {
        let now: jiff::Timestamp = "2026-11-02T09:00:00Z".parse().unwrap();
        for (headers, seconds) in [
            (&[("retry-after", "7")][..], Some(7.0)),
            (&[("retry-after", "7"), ("retry-after-ms", "250")], Some(0.25)),
            (&[("retry-after", "Mon, 02 Nov 2026 09:00:20 GMT")], Some(20.0)),
            (&[("retry-after", "soon")], None),
            (&[("retry-after", "-1")], None),
            (&[("retry-after", "Mon, 02 Nov 2026 08:00:00 GMT")], None),
            (&[("retry-after-ms", "-250"), ("retry-after", "7")], Some(7.0)),
            (&[("retry-after-ms", "NaN")], None),
            (
                &[
                    ("x-ratelimit-remaining-requests", "0"),
                    ("x-ratelimit-reset-requests", "1m2.5s"),
                    ("x-ratelimit-remaining-tokens", "12"),
                    ("x-ratelimit-reset-tokens", "9h"),
                ],
                Some(62.5),
            ),
            (
                &[
                    ("anthropic-ratelimit-output-tokens-remaining", "0"),
                    ("anthropic-ratelimit-output-tokens-reset", "2026-11-02T09:00:30Z"),
                ],
                Some(30.0),
            ),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1793610005000")], Some(5.0)),
            (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1")], Some(0.0)),
            (&[("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "9s")], None),
        ] {
            let mut map = HeaderMap::new();
            for (name, value) in headers {
                map.insert(*name, value.parse().unwrap());
            }
            let expected = seconds.map(Duration::from_secs_f64);
            assert_eq!(asked_delay(&map, now), expected, "{headers:?}");
        }
    }

    #[test]
    fn what_helps_is_found_in_the_words_of_each_server() {
        use LlmErrorKind as K;
        let kind = |status, error: Value| Fault::reported(Some(status), &error);
        let template = "Cannot truncate prompt with n_keep (23783) >= n_ctx (4096)";
        assert_eq!(kind(400, json!(template)).kind, K::TooLong);
        let blocked = "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO";
        assert_eq!(kind(403, json!(blocked)).kind, K::Filtered);
        let small = json!({"code": 400, "type": "exceed_context_size_error", "n_ctx": 2_048,
            "message": "the request exceeds the available context size, try increasing it"});
        let small = kind(400, small);
        assert!(small.kind == K::TooLong && small.message.ends_with("size of 2048 tokens"));
        let wrote = json!({"code": "tool_use_failed", "failed_generation": "<function=read>",
            "message": "Failed to call a function. See 'failed_generation' for more details."});
        assert!(kind(400, wrote).message.ends_with("details: <function=read>"));
        for words in [
            "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set",
            "No endpoints found that support tool use.",
            "Function calling is not enabled for models/gemma-3-27b-it",
        ] {
            assert!(kind(400, json!({"message": words})).lacks_tools(), "{words}");
        }
    }

    #[test]
    fn what_a_moderation_flagged_is_told() {
        let error = json!({"code": 403, "message": "your input was flagged by moderation",
            "metadata": {"reasons": ["violence", "hate"], "flagged_input": "x"}});
        let told = Fault::reported(Some(403), &error).message;
        assert_eq!(told, "your input was flagged by moderation: violence, hate");
    }

    #[test]
    fn a_provider_that_says_not_to_try_again_is_not_asked_again() {
        let mut headers = HeaderMap::new();
        headers.insert("x-should-retry", "false".parse().unwrap());
        let busy = || Fault::reported(Some(503), &json!({"message": "busy"}));
        assert!(busy().passes && !busy().with_headers(&headers).passes);
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", "3".parse().unwrap());
        let waits = json!({"code": 402, "message": "in_flight_budget_exhausted"});
        let waits = Fault::reported(Some(402), &waits).with_headers(&headers);
        assert_eq!((waits.passes, waits.after), (true, Some(Duration::from_secs(3))));
    }
}
