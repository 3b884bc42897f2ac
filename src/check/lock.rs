//! The lock file (`mcp.lock.json`): every definition as it was reviewed, and what changed since.
//!
//! Owns the file's shape and its stability under reordering. Written only when asked for: a run that
//! finds drift never learns it.

mod drift;

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::text::json;
use crate::check::Finding;
use crate::check::jsonc::Written;
use crate::check::rule::finding;
use crate::check::subject::{Entry, Subject, brief};
use crate::mcp::capabilities::ListKind;

/// Name of the file beside the configuration.
pub const FILE: &str = "mcp.lock.json";
/// Version of the file's shape.
pub const VERSION: u32 = 1;

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Lock file of mcpdeck --check")]
pub struct Lock {
    /// Version of this shape: 1.
    pub lock_version: u32,
    /// Servers by name.
    pub servers: BTreeMap<String, LockedServer>,
}

/// What one server offered when it was reviewed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LockedServer {
    /// `serverInfo`
    #[serde(skip_serializing_if = "Value::is_null")]
    pub server_info: Value,
    /// `instructions`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Tools by name, each as it was sent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Value>,
    /// Prompts by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prompts: BTreeMap<String, Value>,
    /// Resources by URI.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, Value>,
    /// Resource templates by URI template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resource_templates: BTreeMap<String, Value>,
}

impl Lock {
    /// Reads a file.
    ///
    /// # Errors
    /// Says what cannot be read or is not understood.
    pub fn load(path: &Path) -> Result<Self, String> {
        let lock: Self = Written::load(path)?.decode()?;
        if lock.lock_version == VERSION {
            Ok(lock)
        } else {
            let found = lock.lock_version;
            Err(format!(
                "{}: lockVersion {found} is not known; this is version {VERSION}",
                path.display()
            ))
        }
    }

    /// The text to write: keys sorted, so that reordering on the server's side changes nothing.
    pub fn to_text(&self) -> String {
        json::pretty(self) + "\n"
    }

    /// This lock with what `subjects` offer now. A server that did not become ready, or whose lists
    /// are not complete, keeps its entry: nothing was learned of it. Servers that `is_known` does
    /// not know are dropped.
    #[must_use]
    pub fn renewed(&self, subjects: &[Subject], is_known: impl Fn(&str) -> bool) -> Self {
        let mut servers = self.servers.clone();
        servers.retain(|name, _| is_known(name));
        for subject in subjects.iter().filter(|s| s.was_ready() && s.partial.is_empty()) {
            servers.insert(subject.name.clone(), LockedServer::of(subject));
        }
        Self { lock_version: VERSION, servers }
    }

    /// What differs: findings by subject, in their order.
    pub fn compare(&self, subjects: &[Subject]) -> Vec<Vec<Finding>> {
        let judge = |subject: &Subject| {
            if !subject.was_ready() {
                return Vec::new();
            }
            let Some(locked) = self.servers.get(&subject.name) else {
                return vec![finding(
                    "lock/unlocked",
                    "",
                    "the lock file does not have this server",
                )];
            };
            locked.compare(subject)
        };
        subjects.iter().map(judge).collect()
    }

    /// Entries of servers that `is_known` does not know.
    pub fn stale(&self, is_known: impl Fn(&str) -> bool) -> Vec<Finding> {
        let gone = self.servers.keys().filter(|name| !is_known(name));
        gone.map(|name| {
            let message = format!("server `{}` is locked but not configured", brief(name, 60));
            finding("lock/stale", "", message)
        })
        .collect()
    }
}

impl LockedServer {
    /// What a server offers now.
    pub fn of(subject: &Subject) -> Self {
        let mut locked = Self {
            server_info: subject.server_info.as_deref().map(canonical).unwrap_or_default(),
            instructions: subject.instructions.clone(),
            ..Self::default()
        };
        for entry in subject.entries() {
            let list = locked.list_mut(entry.list);
            let mut key = entry.id().to_owned();
            // A server may list a name twice; both are kept, told apart in the order sent.
            while list.contains_key(&key) {
                key.push('#');
            }
            list.insert(key, canonical(entry.raw));
        }
        locked
    }

    fn list_mut(&mut self, kind: ListKind) -> &mut BTreeMap<String, Value> {
        match kind {
            ListKind::Tools => &mut self.tools,
            ListKind::Prompts => &mut self.prompts,
            ListKind::Resources => &mut self.resources,
            ListKind::ResourceTemplates => &mut self.resource_templates,
        }
    }

    const fn list(&self, kind: ListKind) -> &BTreeMap<String, Value> {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::ResourceTemplates => &self.resource_templates,
        }
    }

    fn compare(&self, subject: &Subject) -> Vec<Finding> {
        let now = Self::of(subject);
        let mut findings = Vec::new();
        let text = |t: &Option<String>| t.clone().map_or(Value::Null, Value::String);
        drift::compare(
            "instructions",
            &text(&self.instructions),
            &text(&now.instructions),
            &mut findings,
        );
        drift::compare(
            "serverInfo",
            &canonical(&self.server_info),
            &now.server_info,
            &mut findings,
        );
        for kind in ListKind::ALL {
            let (before, after) = (self.list(kind), now.list(kind));
            let incomplete = subject.partial.iter().any(|(list, _)| *list == kind);
            for (id, old) in before {
                let raw = old;
                let entry = Entry { list: kind, raw };
                match after.get(id) {
                    Some(new) => {
                        drift::compare(&entry.place(), &canonical(old), new, &mut findings);
                    }
                    None if incomplete => {}
                    None => {
                        let message = format!("{} `{}` is gone", entry.noun(), brief(id, 80));
                        findings.push(finding("lock/removed", entry.place(), message));
                    }
                }
            }
            for (id, raw) in after.iter().filter(|(id, _)| !before.contains_key(*id)) {
                let entry = Entry { list: kind, raw };
                let message = format!("{} `{}` is new", entry.noun(), brief(id, 80));
                findings.push(finding("lock/added", entry.place(), message));
            }
        }
        findings
    }
}

/// A value with sorted keys, and with lists that mean sets sorted too.
pub fn canonical(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let sorted = keys.into_iter().map(|key| {
                let mut value = canonical(&map[key]);
                if matches!(key.as_str(), "required" | "enum" | "type")
                    && let Value::Array(items) = &mut value
                {
                    items.sort_by_key(ToString::to_string);
                }
                (key.clone(), value)
            });
            Value::Object(sorted.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical).collect()),
        other => other.clone(),
    }
}
