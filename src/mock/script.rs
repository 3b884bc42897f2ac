//! The script of a mock server: plain data, its JSON Schema and how it is read. Does nothing.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::mock::action::Action;

/// Everything a mock server is and does. Every field has a default; `{}` is a polite server
/// without tools.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Script {
    /// Address of the schema, for editors.
    #[serde(rename = "$schema")]
    pub schema: Option<String>,
    /// What the script plays, for its reader.
    pub about: Option<String>,
    /// `serverInfo` of the handshake.
    pub server_info: Option<Value>,
    /// `instructions` of the handshake (template).
    pub instructions: Option<Value>,
    /// Versions spoken, oldest first. `2026-07-28` and later make `server/discover` work; without
    /// an older one, `initialize` is refused. Default: the four versions of the `initialize` era.
    pub versions: Vec<String>,
    /// `capabilities` of the handshake; made from the lists when absent.
    pub capabilities: Option<Value>,
    /// `tools/list` (list template).
    pub tools: Option<Value>,
    /// `prompts/list` (list template).
    pub prompts: Option<Value>,
    /// `resources/list` (list template).
    pub resources: Option<Value>,
    /// `resources/templates/list` (list template).
    pub resource_templates: Option<Value>,
    /// Entries per page of every list; everything at once when absent.
    pub page_size: Option<usize>,
    /// `ttlMs` of lists and reads in the modern era (default 0).
    pub ttl_ms: Option<i64>,
    /// `cacheScope` of lists and reads in the modern era (default `private`).
    pub cache_scope: Option<String>,
    /// Reactions to `tools/call`, by tool name.
    pub calls: BTreeMap<String, Reaction>,
    /// Reactions to `resources/read`, by URI.
    pub reads: BTreeMap<String, Reaction>,
    /// Reactions to `prompts/get`, by prompt name.
    pub gets: BTreeMap<String, Reaction>,
    /// Reactions to any method, and to `start`, `stdinClosed`, `SIGTERM`, `SIGINT`, `badLine`,
    /// `answer` (a response of the host), `POST`, `GET`, `DELETE` and `*` (whatever has no other).
    pub on: BTreeMap<String, Reaction>,
    /// What a request under way does when the host cancels it.
    pub cancellation: Cancellation,
    /// How answers travel over HTTP.
    pub http: HttpStyle,
    /// File that every received line is appended to (text template).
    pub record: Option<String>,
}

/// What happens: one action or several in a row.
#[derive(Clone, Debug, JsonSchema)]
#[serde(untagged)]
pub enum Reaction {
    /// Several, one after the other.
    Many(Vec<Action>),
    /// One.
    One(Box<Action>),
}

/// By hand, because a derived untagged enum says of every mistake that nothing matched.
impl<'de> Deserialize<'de> for Reaction {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::Array(items) => items
                .into_iter()
                .enumerate()
                .map(|(index, item)| {
                    let action = serde_json::from_value(item);
                    action.map_err(|error| Error::custom(format!("action {index}: {error}")))
                })
                .collect::<Result<_, _>>()
                .map(Self::Many),
            one => serde_json::from_value(one).map(Self::One).map_err(Error::custom),
        }
    }
}

impl Reaction {
    /// Its actions.
    pub fn actions(&self) -> &[Action] {
        match self {
            Self::Many(actions) => actions,
            Self::One(action) => std::slice::from_ref(action),
        }
    }
}

/// What cancelling does to a reaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Cancellation {
    /// It ends at its next delay, without an answer.
    #[default]
    Obey,
    /// It goes on, and answers late.
    Ignore,
}

/// How answers travel over HTTP.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct HttpStyle {
    /// Always answer with an event stream; otherwise only when more than the answer is sent.
    pub stream: bool,
    /// `Mcp-Session-Id` given at `initialize`; none when empty.
    pub session: String,
    /// Port to listen on, when the command line names none; 0 picks one.
    pub port: u16,
}

/// Why a script cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// Which file.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// It is no JSON, or does not fit the schema of scripts.
    #[error("{origin}: {message}")]
    Invalid {
        /// File name, or `script`.
        origin: String,
        /// What is wrong, with line and column where known.
        message: String,
    },
}

impl Script {
    /// Reads a script from a file: JSON with comments and trailing commas.
    ///
    /// # Errors
    /// When it cannot be read or is no script.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| ScriptError::Read { path: origin.clone(), error })?;
        Self::parse(&text, &origin)
    }

    /// Reads a script from text; `origin` names it in errors.
    ///
    /// # Errors
    /// When it is no script.
    pub fn parse(text: &str, origin: &str) -> Result<Self, ScriptError> {
        let invalid = |message: String| ScriptError::Invalid { origin: origin.to_owned(), message };
        let value = if let Ok(value) = serde_json::from_str(text) {
            value
        } else {
            let options = jsonc_parser::ParseOptions::default();
            jsonc_parser::cst::CstRootNode::parse(text, &options)
                .map_err(|error| invalid(error.to_string()))?
                .to_serde_value()
                .unwrap_or_default()
        };
        serde_json::from_value(value).map_err(|error| invalid(error.to_string()))
    }

    /// The JSON Schema of scripts.
    pub fn json_schema() -> Value {
        schemars::schema_for!(Self).to_value()
    }

    /// Versions of the `initialize` era this server speaks.
    pub(crate) fn legacy_versions(&self) -> Vec<&str> {
        const ALL: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
        if self.versions.is_empty() {
            return ALL.to_vec();
        }
        self.versions.iter().map(String::as_str).filter(|v| !is_modern(v)).collect()
    }

    /// Versions of the `server/discover` era this server speaks.
    pub(crate) fn modern_versions(&self) -> Vec<&str> {
        self.versions.iter().map(String::as_str).filter(|v| is_modern(v)).collect()
    }
}

/// Dated versions sort as text; the era of `server/discover` begins with 2026-07-28.
fn is_modern(version: &str) -> bool {
    version >= "2026-07-28"
}
