//! Reviewed definitions. A tool that is new or whose definition changed is held until the user has
//! reviewed it; changed instructions of a server hold all its items. Pure; the deck stores the pins
//! in a file.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::policy::principal::{PolicyTarget, ServerDigests, TargetKind};
use base::file::hex;
use base::pointer::child_pointer;
use base::text::json::{WrittenNumbers, WrittenValue, exact_form};
use config::{ServerConfig, TransportConfig};
use protocol::{FieldChange, every_difference, every_written_difference, is_set_keyword};

/// SHA-256 of a definition in canonical JSON, of a command line, or of a text.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a text.
    pub fn of_text(text: &str) -> Self {
        Self(Sha256::digest(text.as_bytes()).into())
    }

    /// The digest of a JSON value, independent of whitespace, of the order of keys and sets, and of
    /// how numbers are spelled; two numbers that a double cannot tell apart are different.
    pub fn of_value(written: &WrittenValue) -> Self {
        let mut hasher = Sha256::new();
        feed(&written.value, "", &written.numbers.only_rounded(), &mut hasher);
        Self(hasher.finalize().into())
    }

    /// The digest of how a server is reached: command, arguments and folder, or address; plus the
    /// names of variables and headers, without their values, which may be rotated.
    pub fn of_command(config: &ServerConfig) -> Self {
        let text = match &config.transport {
            TransportConfig::Stdio(stdio) => {
                let env: Vec<&String> = stdio.env.keys().collect();
                format!("{:?}", ("stdio", &stdio.command, &stdio.args, &stdio.cwd, env))
            }
            TransportConfig::OpenApi(api) => {
                let headers: Vec<&String> = api.http.headers.keys().collect();
                let address = api.http.url.as_str();
                format!("{:?}", ("openapi", api.document.text(), address, headers))
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

/// Feeds the value at a place; `numbers` are those that it does not hold.
fn feed(value: &Value, place: &str, numbers: &WrittenNumbers, hasher: &mut Sha256) {
    let below = |key: &str| {
        if numbers.is_empty() { String::new() } else { child_pointer(place, key) }
    };
    match value {
        Value::Object(object) => {
            let mut keys: Vec<&String> = object.keys().collect();
            keys.sort_unstable();
            hasher.update(b"{");
            for key in keys {
                hasher.update(Value::String(key.clone()).to_string());
                hasher.update(b":");
                let place = below(key);
                match &object[key] {
                    Value::Array(items) if is_set_keyword(key) => {
                        let place = |index: usize| {
                            if numbers.is_empty() {
                                String::new()
                            } else {
                                format!("{place}/{index}")
                            }
                        };
                        let mut items: Vec<_> = items.iter().enumerate().collect();
                        items.sort_by_cached_key(|(index, item)| {
                            let number = item.as_number();
                            let exact = number.and_then(|it| numbers.written(&place(*index), it));
                            (item.to_string(), exact.map(exact_form))
                        });
                        hasher.update(b"[");
                        for (index, item) in items {
                            feed(item, &place(index), numbers, hasher);
                            hasher.update(b",");
                        }
                        hasher.update(b"]");
                    }
                    value => feed(value, &place, numbers, hasher),
                }
                hasher.update(b",");
            }
            hasher.update(b"}");
        }
        Value::Array(items) => {
            hasher.update(b"[");
            for (index, item) in items.iter().enumerate() {
                feed(item, &below(&index.to_string()), numbers, hasher);
                hasher.update(b",");
            }
            hasher.update(b"]");
        }
        Value::Number(number) => match numbers.written(place, number) {
            Some(written) => hasher.update(exact_form(written)),
            None => hasher.update(number.to_string()),
        },
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

/// The current definition of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Definition {
    /// The name of the tool.
    pub name: String,
    /// Its digest.
    pub digest: Digest,
    /// The complete definition.
    pub value: Arc<WrittenValue>,
}

/// Why an item is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum HeldReason {
    /// The server has not been seen before, and its definitions are not stored yet.
    Unseen,
    /// The instructions of its server changed.
    Instructions,
    /// The tool is new.
    New,
    /// Its definition changed.
    Changed,
    /// Its definition changes back and forth.
    Unstable,
    /// The user refused its current definition.
    Refused,
}

impl HeldReason {
    /// A description for the user.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Unseen => "its server has not been seen before",
            Self::Instructions => "the instructions of its server changed and were not reviewed",
            Self::New => "the tool is new and was not reviewed",
            Self::Changed => "its definition changed and was not reviewed",
            Self::Unstable => "definitions unstable: it changes back and forth",
            Self::Refused => "the user refused its current form",
        }
    }
}

/// The reviewed definitions of all servers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pins {
    /// Whether items are held at all; false without a deck that stores the reviews.
    #[serde(skip)]
    pub enforced: bool,
    /// By server.
    pub servers: HashMap<String, PinnedServer>,
}

/// The reviewed definitions of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinnedServer {
    /// Digest of how it was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Digest>,
    /// Its instructions.
    pub instructions: String,
    #[serde(skip)]
    digest: OnceLock<Digest>,
    /// Its tools.
    pub tools: BTreeMap<String, PinnedTool>,
    /// Refused definitions: tools by name, instructions under the empty name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    refused: BTreeMap<String, Digest>,
    /// What was reviewed of it when it was reached in other ways, the last one first: another program
    /// may reach it so at the same time, and its entry may be changed back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Self>,
}

/// The reviewed definition of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct PinnedTool {
    /// Digest of the reviewed definition.
    pub digest: Digest,
    /// The reviewed definition.
    #[serde(with = "protocol::written_entry")]
    pub definition: Arc<WrittenValue>,
    /// Digests of later definitions, newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seen: Vec<Digest>,
    /// How often it returned to an earlier definition.
    #[serde(default)]
    pub returns: u32,
}

/// A held tool, for review by the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HeldTool {
    /// Its server.
    pub server: String,
    /// Its name; `None` for the instructions of the server.
    pub tool: Option<String>,
    /// Why it is held.
    pub held: HeldReason,
    /// Digest of the definition to be accepted.
    pub digest: Digest,
    /// The differences from the reviewed definition, by field.
    pub changes: Vec<FieldChange>,
    /// A removed tool with a similar definition, if any.
    pub renamed_from: Option<String>,
}

/// Number of other ways to reach a server of which the reviews are remembered.
const MAX_OTHER_WAYS: usize = 8;
/// Number of later definitions remembered per tool.
const MAX_LATER_DEFINITIONS: usize = 8;
/// Number of returns to an earlier definition that makes a tool unstable.
const MIN_RETURNS: u32 = 2;
/// Minimum similarity of definitions to count as a renamed tool, from 0 to 1.
const MIN_SIMILARITY: f32 = 0.8;
/// Maximum number of pairs of definitions compared in one review, to recognize renamed tools.
const MAX_COMPARED_PAIRS: usize = 10_000;
/// Maximum number of words compared of a definition.
const MAX_COMPARED_WORDS: usize = 2_000;

impl PinnedTool {
    fn new(definition: &Definition) -> Self {
        let Definition { digest, value, .. } = definition;
        Self { digest: *digest, definition: Arc::clone(value), seen: Vec::new(), returns: 0 }
    }

    fn held(&self, now: Option<&Digest>) -> Option<HeldReason> {
        if self.returns >= MIN_RETURNS {
            return Some(HeldReason::Unstable);
        }
        (now != Some(&self.digest)).then_some(HeldReason::Changed)
    }

    /// Records the current definition; returns whether it is new.
    fn observe(&mut self, now: Digest) -> bool {
        let last = self.seen.last().copied().unwrap_or(self.digest);
        if now == last {
            return false;
        }
        if now == self.digest || self.seen.contains(&now) {
            self.returns = self.returns.saturating_add(1);
        }
        self.seen.push(now);
        let more = self.seen.len().saturating_sub(MAX_LATER_DEFINITIONS);
        self.seen.drain(..more);
        true
    }
}

impl Pins {
    /// Whether a server reached by `command` was recorded, or need not be: until then all it offers
    /// is held.
    pub fn has_recorded(&self, server: &str, command: Digest) -> bool {
        !self.enforced || self.recorded(server, command).is_some()
    }

    fn recorded(&self, server: &str, command: Digest) -> Option<&PinnedServer> {
        self.servers.get(server)?.reached_by(command)
    }

    /// Why a target is held, if it is.
    pub fn held(&self, target: &PolicyTarget<'_>) -> Option<HeldReason> {
        if !self.enforced {
            return None;
        }
        let Some(pinned) = self.servers.get(target.server) else { return Some(HeldReason::Unseen) };
        let Some(about) = target.about else { return Some(HeldReason::Instructions) };
        let Some(pinned) = pinned.reached_by(about.command) else {
            return Some(HeldReason::Unseen);
        };
        if about.instructions != pinned.instructions() {
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

    /// Records the current definitions of a server, reached by `command`; returns whether anything
    /// has to be stored. A server that is new or has a new command is accepted as it is, because
    /// its entry was approved; one that has a command again that it had is compared with what was
    /// reviewed then.
    pub fn observe(
        &mut self,
        server: &str,
        command: Digest,
        instructions: &str,
        tools: &[Definition],
    ) -> bool {
        let Some(pinned) = self.turned(server, command) else {
            let tools = tools.iter().map(|tool| (tool.name.clone(), PinnedTool::new(tool)));
            let pinned = PinnedServer {
                command: Some(command),
                instructions: instructions.to_owned(),
                tools: tools.collect(),
                ..PinnedServer::default()
            };
            match self.servers.get_mut(server) {
                Some(before) => before.give_way(pinned),
                None => drop(self.servers.insert(server.to_owned(), pinned)),
            }
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

    /// The record of a server that is reached by `command`, made the one that is shown; `None` when
    /// there is none.
    fn turned(&mut self, server: &str, command: Digest) -> Option<&mut PinnedServer> {
        let known = self.servers.get_mut(server)?;
        if let Some(at) = known.others.iter().position(|other| other.command == Some(command))
            && known.command != Some(command)
        {
            let other = known.others.remove(at);
            known.give_way(other);
        }
        let is_same = known.command.is_none_or(|known| known == command);
        is_same.then_some(known)
    }

    /// The held items of a server that is reached by `command`.
    pub fn review(
        &self,
        server: &str,
        command: Digest,
        instructions: &str,
        tools: &[Definition],
    ) -> Vec<HeldTool> {
        let Some(pinned) = self.recorded(server, command) else { return Vec::new() };
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
        let names: HashSet<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let gone = pinned.tools.iter().filter(|(name, _)| !names.contains(name.as_str()));
        let gone: Vec<_> = gone.map(|(name, was)| (name, words(&was.definition))).collect();
        let (mut pairs, nothing) = (MAX_COMPARED_PAIRS, WrittenValue::default());
        for tool in tools {
            let known = pinned.tools.get(&tool.name);
            let why = match known {
                Some(known) => known.held(Some(&tool.digest)),
                None => Some(HeldReason::New),
            };
            let Some(why) = why else { continue };
            let mut renamed_from = None;
            if known.is_none() && pairs >= gone.len() && !gone.is_empty() {
                pairs -= gone.len();
                let own = words(&tool.value);
                let alike = gone.iter().map(|(name, was)| (similarity(was, &own), *name));
                let best = alike.max_by(|a, b| a.0.total_cmp(&b.0));
                renamed_from =
                    best.filter(|(score, _)| *score >= MIN_SIMILARITY).map(|(_, n)| n.clone());
            }
            let before = known.or_else(|| pinned.tools.get(renamed_from.as_ref()?));
            let before = before.map_or(&nothing, |was| &*was.definition);
            let changes = every_written_difference(before, &tool.value);
            out.push(held(Some(&tool.name), why, tool.digest, changes, renamed_from));
        }
        out
    }

    /// Accepts a definition as displayed. Returns false when nothing is recorded of the server as it
    /// is reached by `command`, so that there is nothing to compare with.
    pub fn accept(&mut self, server: &str, command: Digest, tool: &Definition) -> bool {
        let Some(pinned) = self.turned(server, command) else { return false };
        pinned.tools.insert(tool.name.clone(), PinnedTool::new(tool));
        pinned.refused.remove(&tool.name);
        true
    }

    /// Accepts the instructions of a server as displayed; returns as [`Pins::accept`] does.
    pub fn accept_instructions(
        &mut self,
        server: &str,
        command: Digest,
        instructions: &str,
    ) -> bool {
        let Some(pinned) = self.turned(server, command) else { return false };
        instructions.clone_into(&mut pinned.instructions);
        pinned.digest = OnceLock::new();
        pinned.refused.remove("");
        true
    }

    /// Refuses a tool of a server as displayed, or its instructions when `tool` is `None`: it stays
    /// held, and the user is not asked again until it changes. Returns as [`Pins::accept`] does.
    pub fn refuse(
        &mut self,
        server: &str,
        command: Digest,
        tool: Option<&str>,
        shown: Digest,
    ) -> bool {
        let Some(pinned) = self.turned(server, command) else { return false };
        pinned.refused.insert(tool.unwrap_or_default().to_owned(), shown);
        true
    }
}

impl PinnedServer {
    fn instructions(&self) -> Digest {
        *self.digest.get_or_init(|| Digest::of_text(&self.instructions))
    }

    /// What was reviewed of it as it is reached by `command`.
    pub fn reached_by(&self, command: Digest) -> Option<&Self> {
        let mut all = std::iter::once(self).chain(&self.others);
        all.find(|one| one.command.is_none_or(|known| known == command))
    }

    /// Shows what was reviewed of another way to reach it, and remembers this one.
    fn give_way(&mut self, next: Self) {
        let mut before = std::mem::replace(self, next);
        self.others = std::mem::take(&mut before.others);
        self.others.insert(0, before);
        self.others.truncate(MAX_OTHER_WAYS);
    }
}

impl ServerDigests {
    /// The digests of a server with these instructions.
    pub fn new(config: &ServerConfig, instructions: &str) -> Self {
        Self { command: Digest::of_command(config), instructions: Digest::of_text(instructions) }
    }
}

/// The words of a definition without its name, sorted.
fn words(definition: &Value) -> Vec<String> {
    let text = ["description", "inputSchema"].map(|key| definition[key].to_string()).concat();
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let mut words: Vec<String> = words.take(MAX_COMPARED_WORDS).map(str::to_owned).collect();
    words.sort_unstable();
    words
}

/// The Sørensen-Dice coefficient of two sorted lists of words, from 0 to 1.
fn similarity(a: &[String], b: &[String]) -> f32 {
    let (mut common, mut rest) = (0, b.iter().peekable());
    for word in a {
        while rest.next_if(|other| *other < word).is_some() {}
        common += usize::from(rest.next_if_eq(&word).is_some());
    }
    2.0 * common as f32 / (a.len() + b.len()).max(1) as f32
}
