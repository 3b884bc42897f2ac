//! What is known of a model: its context, and what it takes. From the provider where it tells, else
//! from a table of what the providers document. Pure.

use serde_json::Value;

use crate::provider::wire::Provider;

/// The context that is assumed of a model nobody tells anything of, in tokens.
pub(super) const ASSUMED_CONTEXT_TOKENS: u64 = 32_768;

/// What is known of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModelFacts {
    /// Context size in tokens: prompt and answer together.
    pub(super) context: Option<u64>,
    /// The longest answer, in tokens.
    pub(super) max_output: Option<u64>,
    /// The context that a model of Ollama is set up with, in tokens.
    pub(super) window: Option<u64>,
    /// Whether it calls tools natively, if that is told.
    pub(super) calls_tools: Option<bool>,
    /// Whether it can show its reasoning, if that is told.
    pub(super) thinks: Option<bool>,
    /// Whether it takes pictures, if that is told.
    pub(super) sees: Option<bool>,
    /// Whether it takes sound, if that is told.
    pub(super) hears: Option<bool>,
}

const OPENAI_MODELS: &str = "OpenAI guide, Models, the page of each model";
const ANTHROPIC_MODELS: &str = "Anthropic guide, Models overview, context window";
const GEMINI_MODELS: &str = "Gemini guide, Models, input token limit";
const DEEPSEEK_MODELS: &str = "DeepSeek guide, Models and pricing, context length";
const ANTHROPIC_MEDIA: &str = "Anthropic guide, Vision, image formats";
const GEMINI_MEDIA: &str = "Gemini guide, Image understanding and Audio understanding, formats";
const OPENAI_MEDIA: &str = "OpenAI guide, Images and vision; API reference, `input_audio.format`";
const OLLAMA_MEDIA: &str = "Ollama guide, Vision";

/// A context size by the beginning of a model's name, with the document that tells it.
type KnownContext = (Provider, &'static str, u64, &'static str);

/// Context sizes, the first that fits. Addresses other than the provider's own set sizes of their own.
const CONTEXTS: &[KnownContext] = &[
    (Provider::OpenAi, "gpt-5-chat", 128_000, OPENAI_MODELS),
    (Provider::OpenAi, "gpt-5", 400_000, OPENAI_MODELS),
    (Provider::OpenAi, "gpt-4.1", 1_047_576, OPENAI_MODELS),
    (Provider::OpenAi, "gpt-4o", 128_000, OPENAI_MODELS),
    (Provider::OpenAi, "gpt-4-turbo", 128_000, OPENAI_MODELS),
    (Provider::OpenAi, "gpt-4", 8_192, OPENAI_MODELS),
    (Provider::OpenAi, "gpt-3.5-turbo", 16_385, OPENAI_MODELS),
    (Provider::OpenAi, "o1", 200_000, OPENAI_MODELS),
    (Provider::OpenAi, "o3", 200_000, OPENAI_MODELS),
    (Provider::OpenAi, "o4-mini", 200_000, OPENAI_MODELS),
    (Provider::Anthropic, "claude-", 200_000, ANTHROPIC_MODELS),
    (Provider::Gemini, "gemini-", 1_048_576, GEMINI_MODELS),
    // At an address that is compatible with OpenAI's.
    (Provider::OpenAi, "deepseek-v4", 1_000_000, DEEPSEEK_MODELS),
    (Provider::OpenAi, "deepseek-", 128_000, DEEPSEEK_MODELS),
];

/// The documented context of a model, in tokens.
pub(super) fn documented_context(provider: Provider, model: &str) -> Option<u64> {
    // Some addresses put the name of the maker first.
    let name = model.rsplit('/').next().unwrap_or(model);
    let fits = |(by, begins, ..): &&KnownContext| *by == provider && name.starts_with(begins);
    CONTEXTS.iter().find(fits).map(|(_, _, context, _)| *context)
}

impl ModelFacts {
    /// Reads the description of one model: Anthropic and Gemini `GET models/NAME`, and the entries of
    /// lists at compatible addresses (`OpenRouter`, vLLM, llama.cpp, LM Studio, Groq, Mistral).
    pub(super) fn described(model: &Value) -> Self {
        let number = |pointer: &str| model.pointer(pointer)?.as_u64().filter(|n| *n > 0);
        let first = |places: &[&str]| places.iter().find_map(|place| number(place));
        // What is loaded or served comes before what the model could take.
        let context = first(&[
            "/loaded_context_length",
            "/max_model_len",
            "/meta/n_ctx",
            "/top_provider/context_length",
            "/context_length",
            "/context_window",
            "/max_context_length",
            "/inputTokenLimit",
            "/max_input_tokens",
            "/meta/n_ctx_train",
        ]);
        let max_output =
            first(&["/outputTokenLimit", "/max_tokens", "/top_provider/max_completion_tokens"]);
        let reads = ["/architecture/input_modalities", "/input_modalities"];
        let reads = reads.iter().find_map(|place| model.pointer(place)?.as_array());
        let takes = |word: &str| reads.map(|list| list.iter().any(|known| known == word));
        let sees = takes("image").or_else(|| model.pointer("/capabilities/vision")?.as_bool());
        Self { context, max_output, sees, hears: takes("audio"), ..Self::default() }
    }

    /// Reads what Ollama's `/api/show` answers.
    pub(super) fn shown(shown: &Value) -> Self {
        let info = shown["model_info"].as_object();
        let by_key = |(key, value): (&String, &Value)| {
            key.ends_with(".context_length").then(|| value.as_u64()).flatten()
        };
        // Parts of a model, such as what sees, may have a key like it too.
        let kind = info.and_then(|info| info.get("general.architecture")?.as_str());
        let own = kind.and_then(|kind| info?.get(&format!("{kind}.context_length"))?.as_u64());
        let context = own.or_else(|| info.into_iter().flatten().find_map(by_key));
        let parameters = shown["parameters"].as_str().unwrap_or_default();
        let window = parameters.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("num_ctx")).then(|| words.next()?.parse().ok()).flatten()
        });
        let abilities = shown["capabilities"].as_array().filter(|list| !list.is_empty());
        let can = |word: &str| abilities.map(|list| list.iter().any(|known| known == word));
        Self {
            context,
            window,
            calls_tools: can("tools"),
            thinks: can("thinking"),
            sees: can("vision"),
            ..Self::default()
        }
    }
}

/// The context that Ollama has loaded a model with, in tokens, if it has (Ollama documentation, List
/// running models, `context_length`).
pub(super) fn loaded_context(running: &Value, model: &str) -> Option<u64> {
    let plain = |name: &str| name.strip_suffix(":latest").unwrap_or(name).to_owned();
    let is_it = |entry: &&Value| {
        let names = ["name", "model"].iter().filter_map(|key| entry[key].as_str());
        names.map(plain).any(|name| name == plain(model))
    };
    let entry = running["models"].as_array()?.iter().find(is_it)?;
    entry["context_length"].as_u64().filter(|size| *size > 0)
}

/// The types of pictures and sound that a provider takes, with the document that tells them.
const MEDIA_TYPES: &[(Provider, &[&str], &str)] = &[
    (Provider::Anthropic, &["image/png", "image/jpeg", "image/gif", "image/webp"], ANTHROPIC_MEDIA),
    (
        Provider::Gemini,
        &[
            "image/png",
            "image/jpeg",
            "image/webp",
            "image/heic",
            "image/heif",
            "audio/wav",
            "audio/mp3",
            "audio/mpeg",
            "audio/aiff",
            "audio/aac",
            "audio/ogg",
            "audio/flac",
        ],
        GEMINI_MEDIA,
    ),
    (
        Provider::OpenAi,
        &[
            "image/png",
            "image/jpeg",
            "image/gif",
            "image/webp",
            "audio/wav",
            "audio/x-wav",
            "audio/mpeg",
            "audio/mp3",
        ],
        OPENAI_MEDIA,
    ),
    (Provider::Ollama, &["image/png", "image/jpeg"], OLLAMA_MEDIA),
];

/// Whether a provider takes pictures or sound of this MIME type.
pub(super) fn is_media_type(provider: Provider, mime: &str) -> bool {
    let types = MEDIA_TYPES.iter().find(|(by, ..)| *by == provider);
    types.is_some_and(|(_, types, _)| types.contains(&mime))
}

/// Whether a model is documented to take pictures, or sound: by the guides of [`MEDIA_TYPES`], and the
/// page of each model.
pub(super) fn documented_media(provider: Provider, model: &str, is_picture: bool) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let begins = |all: &[&str]| all.iter().any(|begins| name.starts_with(begins));
    match provider {
        Provider::Gemini => true,
        Provider::Anthropic => is_picture,
        Provider::OpenAi if is_picture => {
            begins(&[
                "gpt-4o",
                "gpt-4.1",
                "gpt-5",
                "chatgpt-4o",
                "o1",
                "o3",
                "o4",
                "claude-",
                "gemini-",
            ]) && !begins(&["o1-mini", "o1-preview", "o3-mini"])
                && !name.contains("audio")
        }
        Provider::OpenAi => begins(&["gpt-audio", "gpt-4o-audio", "gpt-4o-mini-audio", "gemini-"]),
        Provider::Ollama | Provider::Embedded => false,
    }
}

/// The entries of a list of models, however it is wrapped.
pub(super) fn listed(list: &Value) -> &[Value] {
    let within = || list.get("data").or_else(|| list.get("models")).and_then(Value::as_array);
    list.as_array().or_else(within).map_or(&[], Vec::as_slice)
}

/// The name of a listed model, as it is asked for.
pub(super) fn listed_name(model: &Value) -> Option<&str> {
    let name = ["id", "model", "name"].iter().find_map(|key| model.get(key)?.as_str())?;
    Some(name.strip_prefix("models/").unwrap_or(name))
}

/// The size that a refusal of a too long prompt names, in tokens.
pub(super) fn refused_context(message: &str) -> Option<u64> {
    let text = message.to_lowercase();
    let after = |words: &str| {
        let (_, rest) = text.split_once(words)?;
        leading_number(rest)
    };
    let named = [
        "maximum context length is ",
        "available context size (",
        "maximum number of tokens allowed (",
        "context length of only ",
        "context length of ",
        ">= n_ctx (",
        "context window of ",
        "context size of ",
        // What the account may send in a minute, in one request.
        "(tpm): limit ",
    ];
    let before_maximum = || {
        let (_, rest) = text.split_once("> ")?;
        leading_number(rest).filter(|_| rest.contains("maximum"))
    };
    named.iter().find_map(|words| after(words)).or_else(before_maximum).filter(|n| *n >= 256)
}

/// The longest answer that a refusal names, in tokens (`max_tokens: 8192 > 4096, which is the maximum
/// allowed`, `max_tokens is too large: 8192. This model supports at most 4096 completion tokens`).
pub(super) fn refused_output(message: &str) -> Option<u64> {
    let fields = ["max_tokens", "max_completion_tokens", "max_output_tokens"];
    let (_, rest) = fields.iter().find_map(|field| message.split_once(field))?;
    let named = ["> ", "at most ", "less than or equal to ", "[1, ", "[1,", "can only afford "];
    let after = |words: &&str| {
        let (_, number) = rest.split_once(*words)?;
        leading_number(number.trim_start_matches(['`', '\'']))
    };
    let number = named.iter().find_map(after);
    number.filter(|number| *number > 0)
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.chars().filter(|c| *c != ',').take_while(char::is_ascii_digit);
    digits.collect::<String>().parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_are_read_where_providers_tell_them() {
        for (model, context) in [
            (json!({"id": "m", "max_model_len": 40_960}), Some(40_960)),
            (json!({"id": "m", "context_length": 163_840}), Some(163_840)),
            (json!({"id": "m", "meta": {"n_ctx_train": 131_072, "n_ctx": 8_192}}), Some(8_192)),
            (json!({"name": "models/g", "inputTokenLimit": 1_048_576}), Some(1_048_576)),
            (json!({"id": "c", "max_input_tokens": 200_000}), Some(200_000)),
            (json!({"id": "m", "context_window": 0, "max_context_length": 9_000}), Some(9_000)),
            (json!({"id": "m", "object": "model"}), None),
            (json!({"id": "m", "context_length": "many"}), None),
        ] {
            assert_eq!(ModelFacts::described(&model).context, context, "{model}");
        }
    }

    #[test]
    fn what_ollama_shows_of_a_model_is_read() {
        let shown = json!({
            "parameters": "stop \"<|eot_id|>\"\nnum_ctx                        16384",
            "model_info": {"general.architecture": "llama", "llama.context_length": 131_072},
            "capabilities": ["completion", "tools"],
        });
        let facts = ModelFacts::shown(&shown);
        assert_eq!((facts.context, facts.window), (Some(131_072), Some(16_384)));
        assert_eq!((facts.calls_tools, facts.thinks), (Some(true), Some(false)));
        assert_eq!(ModelFacts::shown(&json!({})), ModelFacts::default());
    }

    #[test]
    fn the_size_of_a_refusal_is_what_the_model_takes_and_not_what_was_sent() {
        for (message, size) in [
            ("Cannot truncate prompt with n_keep (23783) >= n_ctx (4096)", Some(4_096)),
            ("the model is loaded with context length of only 7866 tokens", Some(7_866)),
            (
                "This model's maximum context length is 128000 tokens. However, you requested \
                 130000 tokens (121808 in the messages, 8192 in the completion).",
                Some(128_000),
            ),
            ("prompt is too long: 210000 tokens > 200000 maximum", Some(200_000)),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed \
                 (1048576).",
                Some(1_048_576),
            ),
            (
                "request (8889 tokens) exceeds the available context size (4096 tokens), try \
                 increasing it",
                Some(4_096),
            ),
            ("the input length exceeds the context length", None),
            (
                "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested \
                 7012, please reduce your message size",
                Some(6_000),
            ),
        ] {
            assert_eq!(refused_context(message), size, "{message}");
        }
    }

    #[test]
    fn the_longest_answer_of_a_refusal_is_what_the_model_gives() {
        for (message, most) in [
            (
                "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens",
                4_096,
            ),
            (
                "max_tokens is too large: 8192. This model supports at most 4096 completion tokens",
                4_096,
            ),
            (
                "`max_completion_tokens` must be less than or equal to `2048`, the maximum value",
                2_048,
            ),
            ("Unsupported parameter: 'max_tokens' is not supported with this model.", 0),
            ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8_192),
            ("Range of max_tokens should be [1, 16384]", 16_384),
            (
                "This request requires more credits, or fewer max_tokens. You requested up to 32000 \
                 tokens, but can only afford 4510. To increase, add credits.",
                4_510,
            ),
        ] {
            assert_eq!(refused_output(message).unwrap_or_default(), most, "{message}");
        }
    }

    #[test]
    fn documented_sizes_are_found_by_the_beginning_of_a_name() {
        assert_eq!(documented_context(Provider::OpenAi, "gpt-5-mini"), Some(400_000));
        assert_eq!(documented_context(Provider::OpenAi, "gpt-4o-mini"), Some(128_000));
        assert_eq!(documented_context(Provider::OpenAi, "maker/gpt-4o"), Some(128_000));
        assert_eq!(documented_context(Provider::Anthropic, "claude-sonnet-4-5"), Some(200_000));
        assert_eq!(documented_context(Provider::OpenAi, "local"), None);
        assert_eq!(documented_context(Provider::OpenAi, "deepseek-v4-pro"), Some(1_000_000));
    }

    #[test]
    fn a_model_that_is_loaded_is_found_by_its_name_with_and_without_its_tag() {
        let running = json!({"models": [
            {"name": "other:8b", "model": "other:8b", "context_length": 1},
            {"name": "llama3.2:latest", "model": "llama3.2:latest", "context_length": 65_536},
        ]});
        assert_eq!(loaded_context(&running, "llama3.2"), Some(65_536));
        assert_eq!(loaded_context(&running, "llama3.2:latest"), Some(65_536));
        assert_eq!(loaded_context(&running, "llama3.2:1b"), None);
        assert_eq!(loaded_context(&json!({"models": []}), "llama3.2"), None);
    }

    #[test]
    fn each_row_of_the_tables_names_its_document() {
        assert!(CONTEXTS.iter().all(|(.., document)| document.contains("guide")));
        assert!(MEDIA_TYPES.iter().all(|(.., document)| document.contains("guide")));
    }
}
