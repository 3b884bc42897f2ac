//! What servers offered when they were last asked, kept on disk between runs: so that one tool is
//! called without starting every server, and names are completed.
//!
//! Owns the folder `offers` of the state folder, one file for each server of a configuration file.
//! Names and parameters only, never values; starts nothing. What is kept counts for one day, and
//! only while the entry says what it said.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::file::{StateFile, file_key};
use crate::base::{SafeText, ServerName};
use crate::cli::values::{PARAMETERS, declared, types, word};
use crate::config::{Environment, McpConfig, Origins, ServerConfig};
use crate::deck::{files, trust};
use crate::host::policy::TargetKind;
use crate::host::{HostView, ServerState, ServerView};
use crate::mcp::Capabilities;

/// How long the lists of a server count for choosing it.
const COUNTS: Duration = Duration::from_secs(24 * 3600);
/// How long names are offered for completion.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);
/// Lists that did not change are noted again as seen after this long.
const NOTED: Duration = Duration::from_secs(600);
/// Most servers that are remembered.
const MOST: usize = 500;
/// Largest file that is read, in bytes.
const LARGEST: u64 = 4 << 20;

/// What servers offered.
pub struct Known {
    folder: PathBuf,
    cwd: PathBuf,
    now: Duration,
}

impl Known {
    /// What is known here. `None` when there is no folder to keep it in.
    pub fn of(env: &Environment) -> Option<Self> {
        let folder = env.state_dir.as_ref()?.join("offers");
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(Self { folder, cwd: env.cwd.clone(), now })
    }

    /// What a server offered, if it was the same server then.
    pub fn get(&self, server: &ServerConfig) -> Option<Offers> {
        let offers = read(&self.path(server)?)?;
        let same = offers.is_of(server) && self.age(&offers)? < REMEMBERED;
        same.then_some(offers)
    }

    /// The one server that has this, as far as is known of all of them: a name that two servers
    /// may have is ambiguous, and only who was asked is known not to have it. With the age of the
    /// oldest list this relies on.
    pub fn owner(
        &self,
        config: &McpConfig,
        kind: TargetKind,
        name: &str,
    ) -> Option<(ServerName, Duration)> {
        let mut oldest = Duration::ZERO;
        let mut owners = Vec::new();
        let enabled: Vec<_> = config.servers.values().filter(|s| !s.disabled).collect();
        for server in &enabled {
            let offers = self.get(server).filter(|offers| offers.whole)?;
            oldest = oldest.max(self.age(&offers).filter(|age| *age < COUNTS)?);
            if offers.has(kind, name) {
                owners.push(server.name.clone());
            }
        }
        match <[ServerName; 1]>::try_from(owners) {
            // With one server there is nothing to spare.
            Ok([server]) if enabled.len() > 1 => Some((server, oldest)),
            _ => None,
        }
    }

    /// Notes what the servers of `config` offer now. A folder that cannot be written is no failure:
    /// then nothing is known next time.
    pub fn remember(&self, config: &McpConfig, view: &HostView) {
        for server in config.servers.values() {
            if let (Some(path), Some(now)) = (self.path(server), view.servers.get(&server.name)) {
                self.note(&path, server, now);
            }
        }
    }

    fn note(&self, path: &Path, server: &ServerConfig, view: &ServerView) {
        let before = read(path).filter(|offers| offers.is_of(server));
        let now = self.now.as_secs();
        let mut after = match (view.state, &before) {
            (ServerState::Ready, _) => {
                let salt = before.as_ref().map(|offers| offers.salt.clone());
                Offers::of(server, salt, &view.capabilities)
            }
            // What it offered stays known; that it was asked in vain is known too.
            (ServerState::Unavailable, Some(before)) => before.clone(),
            (ServerState::Unavailable, None) => Offers { whole: true, ..Offers::by(server, None) },
            _ => return,
        };
        let unchanged = before.as_ref().is_some_and(|before| {
            after.asked = before.asked;
            *before == after && now.saturating_sub(before.asked) < NOTED.as_secs()
        });
        if unchanged {
            return;
        }
        after.asked = now;
        let Ok(text) = serde_json::to_vec(&after) else { return };
        if before.is_none() {
            files::newest(&self.folder, MOST - 1);
        }
        if text.len() as u64 <= LARGEST && StateFile::new(path, LARGEST).write(&text).is_err() {
            tracing::debug!("what servers offer cannot be remembered");
        }
    }

    /// The file of a server; none for one that stands in no configuration file.
    fn path(&self, server: &ServerConfig) -> Option<PathBuf> {
        let file = &server.at.file;
        if file.as_os_str().is_empty() {
            return None;
        }
        let (file, name) = (file_key(self.cwd.join(file)), file_key(server.name.as_str()));
        Some(self.folder.join(format!("{file}-{name}.json")))
    }

    /// How long ago a server was asked; none when that is in the future.
    fn age(&self, offers: &Offers) -> Option<Duration> {
        self.now.checked_sub(Duration::from_secs(offers.asked))
    }
}

fn read(path: &Path) -> Option<Offers> {
    StateFile::new(path, LARGEST).load(files::json)
}

/// Notes the offers of a host that goes on running, each time they change.
#[cfg(feature = "tui")]
pub fn notebook() -> impl Fn(&McpConfig, &HostView) + Send + Sync {
    use std::collections::HashMap;
    use std::sync::Arc;

    use parking_lot::Mutex;

    type Seen = HashMap<ServerName, (Arc<Capabilities>, ServerState)>;
    let seen: Mutex<Seen> = Mutex::default();
    move |config, view| {
        let mut seen = seen.lock();
        let news = view.servers.values().any(|server| {
            seen.get(&server.name).is_none_or(|(lists, state)| {
                !Arc::ptr_eq(lists, &server.capabilities) || *state != server.state
            })
        });
        if !news {
            return;
        }
        let now =
            view.servers.values().map(|s| (s.name.clone(), (s.capabilities.clone(), s.state)));
        *seen = now.collect();
        if let Some(known) = Known::of(&Environment::of_process()) {
            known.remember(config, view);
        }
    }
}

// What one server offered: names, and what they take. Pure.

/// Format; a file of another one says nothing.
const VERSION: u32 = 1;
/// Most entries of one list that are kept.
const ENTRIES: usize = 2_000;
/// Longest name that is kept, in bytes.
const NAME: usize = 300;
/// Longest description, in characters.
const SAYS: usize = 80;

/// What a server offered when it was asked last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offers {
    version: u32,
    /// Makes `entry` say nothing about the values in it.
    salt: String,
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
    /// What a server offers.
    fn of(server: &ServerConfig, salt: Option<String>, all: &Capabilities) -> Self {
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

    /// Nothing yet.
    fn by(server: &ServerConfig, salt: Option<String>) -> Self {
        let salt = salt.unwrap_or_else(|| format!("{:032x}", fastrand::u128(..)));
        let entry = digest(server, &salt);
        Self { version: VERSION, salt, entry, ..Self::default() }
    }

    /// Whether this was offered by the server as it is configured now.
    fn is_of(&self, server: &ServerConfig) -> bool {
        self.version == VERSION && self.entry == digest(server, &self.salt)
    }

    /// Whether there was such a thing.
    pub fn has(&self, kind: TargetKind, name: &str) -> bool {
        let list = match kind {
            TargetKind::Tool => self.tools.as_slice(),
            TargetKind::Prompt => &self.prompts,
            TargetKind::Resource => &self.resources,
            TargetKind::Server => &[],
        };
        list.iter().any(|offer| offer.name == name)
    }
}

/// Everything of an entry on which its lists may depend.
fn digest(server: &ServerConfig, salt: &str) -> String {
    let runs = trust::Content::of(server, &Origins::new(), salt).hash;
    let seen = format!("{:?} {:?} {:?}", server.protocol, server.tools, server.roots);
    trust::digest(&[salt, &runs, &seen])
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
    let all = declared(root, is_plain).into_iter().map(|of| Parameter {
        name: of.name.to_owned(),
        required: of.required,
        says: says(Some(&SafeText::line(of.says))),
        values: values(of.schema, root),
    });
    all.collect()
}

fn values(schema: &Value, root: &Value) -> Vec<String> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        let words = values.iter().take(PARAMETERS).map(word);
        return words.filter(|word| is_plain(word)).collect();
    }
    let boolean = types(schema, root) == ["boolean"];
    if boolean { ["true", "false"].map(str::to_owned).to_vec() } else { Vec::new() }
}
