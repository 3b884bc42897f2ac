//! Definitions as they were reviewed. A tool whose definition is another now, or that is new, is
//! held alone until a person has looked; changed instructions of a server hold all of it. Pure; the
//! deck keeps them in a file.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::base::file::hex;
use crate::config::{ServerConfig, TransportConfig};
use crate::host::policy::principal::{PolicyTarget, ServerDigests, TargetKind};
use crate::mcp::{FieldChange, every_difference, is_set_keyword};

/// SHA-256 of a definition in canonical JSON, of a command line, or of a text.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of a text.
    pub fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// Of a JSON value: the order of keys and of sets, and blanks, are no difference.
    pub fn of_value(value: &Value) -> Self {
        let mut hasher = Sha256::new();
        feed(value, &mut hasher);
        Self(hasher.finalize().into())
    }

    /// Of what a server is reached by: command, arguments and folder, or address; the names of
    /// variables and headers without their values, which may be renewed.
    pub fn of_command(config: &ServerConfig) -> Self {
        let text = match &config.transport {
            TransportConfig::Stdio(stdio) => {
                let env: Vec<&String> = stdio.env.keys().collect();
                format!("{:?}", ("stdio", &stdio.command, &stdio.args, &stdio.cwd, env))
            }
            TransportConfig::Http(http)
            | TransportConfig::Sse(http)
            | TransportConfig::WebSocket(http) => {
                let headers: Vec<&String> = http.headers.keys().collect();
                format!("{:?}", (config.transport.kind(), http.url.as_str(), headers))
            }
        };
        Self::of_text(&text)
    }
}

fn feed(value: &Value, hasher: &mut Sha256) {
    match value {
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                hasher.update(Value::String(key.clone()).to_string());
                hasher.update(b":");
                match &object[key] {
                    Value::Array(items) if is_set_keyword(key) => {
                        let mut items = items.clone();
                        items.sort_by_cached_key(Value::to_string);
                        feed(&Value::Array(items), hasher);
                    }
                    value => feed(value, hasher),
                }
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for item in items {
                feed(item, hasher);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        scalar => hasher.update(scalar.to_string()),
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hex(&self.0))
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        let bytes = bytes.and_then(|bytes| bytes.try_into().ok());
        let wrong = || serde::de::Error::custom("64 hexadecimal digits are expected");
        bytes.map(Self).ok_or_else(wrong)
    }
}

/// A definition as a server sends it now.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name of the tool.
    pub name: String,
    /// Its digest.
    pub digest: Digest,
    /// The whole of it.
    pub value: Arc<Value>,
}

/// Why something is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum HeldReason {
    /// The server has not been seen before, and its definitions are not kept yet.
    Unseen,
    /// The instructions of its server changed.
    Instructions,
    /// The tool is new.
    New,
    /// Its definition changed.
    Changed,
    /// Its definition changes to and fro.
    Unstable,
    /// A person has refused it as it is.
    Refused,
}

impl HeldReason {
    /// In words.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unseen => "its server has not been seen before",
            Self::Instructions => "the instructions of its server changed and were not reviewed",
            Self::New => "the tool is new and was not reviewed",
            Self::Changed => "its definition changed and was not reviewed",
            Self::Unstable => "definitions unstable: it changes back and forth",
            Self::Refused => "a person has refused it as it is now",
        }
    }
}

/// What was reviewed of all servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins {
    /// Whether anything is held; without a deck to keep what was reviewed, nothing is.
    #[serde(skip)]
    pub enforced: bool,
    /// By server.
    pub servers: HashMap<String, PinnedServer>,
}

/// What was reviewed of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinnedServer {
    /// What it was reached by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Digest>,
    /// Its instructions.
    pub instructions: String,
    #[serde(skip)]
    digest: OnceLock<Digest>,
    /// Its tools.
    pub tools: BTreeMap<String, PinnedTool>,
    /// What was refused: tools by name, instructions under the empty one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, Digest>,
}

/// What was reviewed of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinnedTool {
    /// Digest of what was reviewed.
    pub digest: Digest,
    /// The whole of it.
    pub definition: Arc<Value>,
    /// Other definitions it had since, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Digest>,
    /// How often it went back to a definition that it had before.
    #[serde(default)]
    pub returns: u32,
}

/// A tool that is held, for the person who looks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HeldTool {
    /// Its server.
    pub server: String,
    /// Its name; `None` for the instructions of the server.
    pub tool: Option<String>,
    /// Why it is held.
    pub held: HeldReason,
    /// Digest of what is accepted when this is.
    pub digest: Digest,
    /// What differs from what was reviewed, field by field.
    pub changes: Vec<FieldChange>,
    /// The tool that vanished and says nearly the same.
    pub renamed_from: Option<String>,
}

/// Definitions of one tool that are remembered.
const SEEN: usize = 8;
/// Times a definition may come back before it is unstable.
const RETURNS: u32 = 2;
/// How much alike the texts of a renamed tool are.
const ALIKE: f32 = 0.8;

impl PinnedTool {
    fn new(definition: &Definition) -> Self {
        let Definition { digest, value, .. } = definition;
        Self { digest: *digest, definition: Arc::clone(value), seen: Vec::new(), returns: 0 }
    }

    fn held(&self, now: Option<&Digest>) -> Option<HeldReason> {
        if self.returns >= RETURNS {
            return Some(HeldReason::Unstable);
        }
        (now != Some(&self.digest)).then_some(HeldReason::Changed)
    }

    /// Takes in what it is now; gives whether that is news.
    fn observe(&mut self, now: Digest) -> bool {
        let last = self.seen.last().copied().unwrap_or(self.digest);
        if now == last {
            return false;
        }
        if now == self.digest || self.seen.contains(&now) {
            self.returns = self.returns.saturating_add(1);
        }
        self.seen.push(now);
        let more = self.seen.len().saturating_sub(SEEN);
        self.seen.drain(..more);
        true
    }
}

impl Pins {
    /// Why a target is held, when it is.
    pub fn held(&self, target: &PolicyTarget<'_>) -> Option<HeldReason> {
        if !self.enforced {
            return None;
        }
        let Some(pinned) = self.servers.get(target.server) else { return Some(HeldReason::Unseen) };
        if target.about.is_none_or(|about| about.instructions != pinned.instructions()) {
            return Some(HeldReason::Instructions);
        }
        if target.kind != TargetKind::Tool {
            return None;
        }
        match pinned.tools.get(target.name) {
            Some(tool) => tool.held(target.definition),
            None => Some(HeldReason::New),
        }
    }

    /// Takes in what a server, reached by `command`, offers now; gives whether there is anything to
    /// keep. A server that was never seen, or never by this command, is taken as it is: it was
    /// approved when its entry was.
    pub fn observe(
        &mut self,
        server: &str,
        command: Digest,
        instructions: &str,
        tools: &[Definition],
    ) -> bool {
        let known = self.servers.get_mut(server);
        let same = known.filter(|known| known.command.is_none_or(|known| known == command));
        let Some(pinned) = same else {
            let tools = tools.iter().map(|tool| (tool.name.clone(), PinnedTool::new(tool)));
            let pinned = PinnedServer {
                command: Some(command),
                instructions: instructions.to_owned(),
                tools: tools.collect(),
                ..PinnedServer::default()
            };
            self.servers.insert(server.to_owned(), pinned);
            return true;
        };
        let mut news = pinned.command.replace(command).is_none();
        for tool in tools {
            if let Some(pinned) = pinned.tools.get_mut(&tool.name) {
                news |= pinned.observe(tool.digest);
            }
        }
        news
    }

    /// What of a server is held now.
    pub fn review(&self, server: &str, instructions: &str, tools: &[Definition]) -> Vec<HeldTool> {
        let Some(pinned) = self.servers.get(server) else { return Vec::new() };
        let held = |tool: Option<&str>, held, digest, changes, renamed_from| {
            let refused = pinned.refused.get(tool.unwrap_or_default()) == Some(&digest);
            HeldTool {
                server: server.to_owned(),
                tool: tool.map(str::to_owned),
                held: if refused { HeldReason::Refused } else { held },
                digest,
                changes,
                renamed_from,
            }
        };
        let mut out = Vec::new();
        if pinned.instructions != instructions {
            let [before, after] =
                [&pinned.instructions[..], instructions].map(|text| Value::String(text.to_owned()));
            let changes = every_difference(&before, &after);
            let digest = Digest::of_text(instructions);
            out.push(held(None, HeldReason::Instructions, digest, changes, None));
        }
        let there = |name: &str| tools.iter().any(|tool| tool.name == name);
        for tool in tools {
            let known = pinned.tools.get(&tool.name);
            let why = match known {
                Some(known) => known.held(Some(&tool.digest)),
                None => Some(HeldReason::New),
            };
            let Some(why) = why else { continue };
            let gone = || {
                let gone = pinned.tools.iter().filter(|(name, _)| !there(name));
                let alike = gone.map(|(name, was)| (alike(&was.definition, &tool.value), name));
                alike.filter(|(score, _)| *score >= ALIKE).max_by(|a, b| a.0.total_cmp(&b.0))
            };
            let renamed_from =
                if known.is_none() { gone().map(|(_, name)| name.clone()) } else { None };
            let before = known.or_else(|| pinned.tools.get(renamed_from.as_ref()?));
            let before = before.map_or(&Value::Null, |was| &*was.definition);
            let changes = every_difference(before, &tool.value);
            out.push(held(Some(&tool.name), why, tool.digest, changes, renamed_from));
        }
        out
    }

    /// Accepts a definition as it was shown.
    pub fn accept(&mut self, server: &str, tool: &Definition) {
        let pinned = self.servers.entry(server.to_owned()).or_default();
        pinned.tools.insert(tool.name.clone(), PinnedTool::new(tool));
        pinned.refused.remove(&tool.name);
    }

    /// Accepts the instructions of a server as they were shown.
    pub fn accept_instructions(&mut self, server: &str, instructions: &str) {
        let pinned = self.servers.entry(server.to_owned()).or_default();
        instructions.clone_into(&mut pinned.instructions);
        pinned.digest = OnceLock::new();
        pinned.refused.remove("");
    }

    /// Refuses a tool of a server as it was shown, or its instructions when `tool` is `None`: it
    /// stays held and is not asked about again until it changes.
    pub fn refuse(&mut self, server: &str, tool: Option<&str>, shown: Digest) {
        let pinned = self.servers.entry(server.to_owned()).or_default();
        pinned.refused.insert(tool.unwrap_or_default().to_owned(), shown);
    }
}

impl PinnedServer {
    fn instructions(&self) -> Digest {
        *self.digest.get_or_init(|| Digest::of_text(&self.instructions))
    }
}

impl ServerDigests {
    /// Of a server with these instructions.
    pub fn new(config: &ServerConfig, instructions: &str) -> Self {
        Self { command: Digest::of_command(config), instructions: Digest::of_text(instructions) }
    }
}

/// How much alike two definitions are besides their names, from 0 to 1.
fn alike(before: &Value, after: &Value) -> f32 {
    let text = |value: &Value| {
        let fields = ["description", "inputSchema"].map(|key| value[key].to_string());
        fields.concat()
    };
    similar::TextDiff::from_words(text(before), text(after)).ratio()
}
