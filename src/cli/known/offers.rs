//! What one server offered: names, and what they take. Pure.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::Kind;
use crate::base::hash::hex;
use crate::base::text::SafeText;
use crate::cli::values::{follow, properties, types};
use crate::config::{ServerConfig, TransportConfig};
use crate::mcp::Capabilities;

/// Format; a file of another one says nothing.
const VERSION: u32 = 1;
/// Most entries of one list that are kept.
const ENTRIES: usize = 2_000;
/// Longest name that is kept, in bytes.
const NAME: usize = 300;
/// Longest description, in characters.
const SAYS: usize = 80;
/// Most parameters of one tool, and most values of one parameter.
const PARAMETERS: usize = 40;

/// What a server offered when it was asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    version: u32,
    /// Makes `entry` say nothing about the values in it.
    pub(super) salt: String,
    /// Salted hash of what decides which server it is and what is seen of it.
    entry: String,
    /// When it was asked, in seconds since 1970.
    pub asked: u64,
    /// Whether this is everything it offered.
    pub whole: bool,
    /// Its tools.
    pub tools: Vec<Offer>,
    /// Its prompts.
    pub prompts: Vec<Offer>,
    /// Its resources, by URI.
    pub resources: Vec<Offer>,
    /// Its resource templates.
    pub templates: Vec<Offer>,
}

/// One entry of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// Its name on the wire, or its URI; without characters that do not show.
    pub name: String,
    /// What it is, safe to draw.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub says: String,
    /// What it takes, what it needs first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<Parameter>,
}

/// One parameter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// Whether a call needs it.
    pub required: bool,
    /// What it is, safe to draw.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub says: String,
    /// The values it may have, when they are few.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl Offers {
    /// Nothing, of a server that could not be asked.
    pub(super) fn nothing(server: &ServerConfig) -> Self {
        Self { whole: true, ..Self::by(server, None) }
    }

    /// What a server offers.
    pub(super) fn of(server: &ServerConfig, salt: Option<String>, all: &Capabilities) -> Self {
        let mut out = Self::by(server, salt);
        out.tools = list(all.tools.iter().map(|tool| Offer {
            name: tool.name.to_string(),
            says: says(tool.description.as_ref()),
            parameters: of_schema(&tool.input_schema),
        }));
        out.prompts = list(all.prompts.iter().map(|prompt| Offer {
            name: prompt.name.to_string(),
            says: says(prompt.description.as_ref()),
            parameters: of_prompt(&prompt.arguments),
        }));
        let plain = |name: &str, what: &SafeText| Offer {
            name: name.to_owned(),
            says: says(Some(what)),
            parameters: Vec::new(),
        };
        out.resources = list(all.resources.iter().map(|r| plain(&r.uri, &r.name)));
        out.templates = list(all.templates.iter().map(|t| plain(&t.uri_template, &t.name)));
        let kept = [&out.tools, &out.prompts, &out.resources, &out.templates].map(Vec::len);
        let there = [all.tools.len(), all.prompts.len(), all.resources.len(), all.templates.len()];
        out.whole = all.partial.is_empty() && kept == there;
        out
    }

    fn by(server: &ServerConfig, salt: Option<String>) -> Self {
        let salt = salt.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
        let entry = digest(server, &salt);
        Self { version: VERSION, salt, entry, ..Self::default() }
    }

    /// Whether this was offered by the server as it is configured now.
    pub(super) fn is_of(&self, server: &ServerConfig) -> bool {
        self.version == VERSION && self.entry == digest(server, &self.salt)
    }

    /// Whether there was such a thing.
    pub fn has(&self, kind: Kind, name: &str) -> bool {
        let list = match kind {
            Kind::Tool => &self.tools,
            Kind::Prompt => &self.prompts,
            Kind::Resource => &self.resources,
        };
        list.iter().any(|offer| offer.name == name)
    }
}

/// Everything of an entry on which its lists may depend.
fn digest(server: &ServerConfig, salt: &str) -> String {
    let mut hash = Sha256::new();
    let mut add = |part: &str| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    };
    add(salt);
    add(server.transport.kind().as_str());
    let secrets = match &server.transport {
        TransportConfig::Stdio(stdio) => {
            add(&stdio.command);
            add(&stdio.args.len().to_string());
            stdio.args.iter().for_each(|arg| add(arg));
            add(&format!("{:?} {}", stdio.cwd, stdio.inherit_env));
            &stdio.env
        }
        TransportConfig::Http(http)
        | TransportConfig::Sse(http)
        | TransportConfig::WebSocket(http) => {
            add(http.url.as_str());
            &http.headers
        }
    };
    for (name, value) in secrets {
        add(name);
        add(value.expose());
    }
    add(&format!("{:?} {:?} {:?}", server.protocol, server.tools, server.roots));
    hex(&hash.finalize())
}

/// What can be typed and read: a name with characters that do not show is kept from nobody, but
/// neither is it offered.
fn list(offers: impl Iterator<Item = Offer>) -> Vec<Offer> {
    offers.filter(|offer| is_plain(&offer.name)).take(ENTRIES).collect()
}

fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME && SafeText::line(name).as_str() == name
}

/// The first words of a description.
fn says(text: Option<&SafeText>) -> String {
    let text = text.map(SafeText::as_str).unwrap_or_default();
    let line = text.split(['\n', '⏎']).map(str::trim).find(|line| !line.is_empty());
    SafeText::cut(line.unwrap_or_default(), SAYS).as_str().to_owned()
}

fn of_prompt(arguments: &[crate::mcp::capabilities::PromptArgument]) -> Vec<Parameter> {
    let all = arguments.iter().filter(|a| is_plain(&a.name)).take(PARAMETERS);
    all.map(|argument| Parameter {
        name: argument.name.to_string(),
        required: argument.required,
        says: says(argument.description.as_ref()),
        values: Vec::new(),
    })
    .collect()
}

fn of_schema(root: &Value) -> Vec<Parameter> {
    let schema = follow(root, root, 0);
    let needs = |name: &str| {
        let all = schema.get("required").and_then(Value::as_array);
        all.into_iter().flatten().any(|needed| needed.as_str() == Some(name))
    };
    let all = properties(schema, root).into_iter().filter(|(name, _)| is_plain(name));
    let mut out: Vec<Parameter> = all
        .take(PARAMETERS)
        .map(|(name, sub)| {
            let sub = follow(sub, root, 0);
            let text = sub.get("description").and_then(Value::as_str).unwrap_or_default();
            Parameter {
                name: name.to_owned(),
                required: needs(name),
                says: says(Some(&SafeText::line(text))),
                values: values(sub, root),
            }
        })
        .collect();
    out.sort_by_key(|parameter| !parameter.required);
    out
}

fn values(schema: &Value, root: &Value) -> Vec<String> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let words = values.iter().take(PARAMETERS).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        return words.filter(|word| is_plain(word)).collect();
    }
    let mut all = Vec::new();
    types(schema, root, 0, &mut all);
    let boolean = all == ["boolean"];
    if boolean { ["true", "false"].map(str::to_owned).to_vec() } else { Vec::new() }
}
