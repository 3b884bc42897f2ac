//! The lock file (`mcp.lock.json`): every definition as reviewed. Owns its format, its stability
//! under reordering, and the comparison of definitions. Written only on request.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::recording::Scan;
use crate::written::WrittenText;
use base::atomic::{Readers, replace};
use base::notices::notify;
use base::pointer::child_pointer;
use base::text::json::{self, WrittenValue};
use host::{HostView, ServerView};
use protocol::{FieldChange, ListKind, every_difference, every_written_difference, is_set_keyword};

/// Name of the file beside the configuration.
pub const LOCK_FILE: &str = "mcp.lock.json";
/// Version of the file format.
pub const FORMAT_VERSION: u32 = 1;

/// The file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Lock file of mcpdeck --check")]
#[non_exhaustive]
pub struct Lock {
    /// Version of this shape: 1.
    pub lock_version: u32,
    /// Servers by name.
    pub servers: BTreeMap<String, LockedServer>,
}

/// What one server offered when it was reviewed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct LockedServer {
    /// `serverInfo`
    #[serde(skip_serializing_if = "Value::is_null")]
    pub server_info: Value,
    /// `instructions`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// Where it sends those who sign in: issuer and endpoints.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub authorization: Value,
    /// Tools by name, each as it was sent.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub tools: LockedList,
    /// Prompts by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub prompts: LockedList,
    /// Resources by URI.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub resources: LockedList,
    /// Resource templates by URI template.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Value>")]
    pub resource_templates: LockedList,
}

/// The entries of a list by name or URI.
type LockedList = BTreeMap<String, WrittenValue>;

/// The part of a server that a difference is in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DriftPlace {
    /// `instructions`
    Instructions,
    /// `serverInfo`
    ServerInfo,
    /// Issuer and endpoints for signing in.
    Authorization,
    /// An entry of a list, by its name or URI.
    Entry(ListKind, String),
}

/// How it differs.
#[derive(Clone, Debug, PartialEq)]
pub enum Drift {
    /// It is new.
    Added,
    /// It was removed.
    Removed,
    /// These fields differ.
    Changed(Vec<FieldChange>),
}

impl Default for Lock {
    fn default() -> Self {
        Self { lock_version: FORMAT_VERSION, servers: BTreeMap::new() }
    }
}

impl Lock {
    /// Reads a file; a missing file locks nothing.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let Some(text) = WrittenText::find(path)? else { return Ok(Self::default()) };
        let lock: Self = text.decode()?;
        match lock.lock_version {
            FORMAT_VERSION => Ok(lock),
            found => {
                let message =
                    format!("version {found} is not known; this is version {FORMAT_VERSION}");
                Err(text.problem("/lockVersion", &message))
            }
        }
    }

    /// Writes it atomically, with sorted keys, so that reordering on the server's side changes
    /// nothing.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        replace(path, (json::pretty(self) + "\n").as_bytes(), Readers::Default)
    }

    /// What the servers of a recording offered at its end.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of_recording(path: &Path) -> Result<Self, String> {
        let fail = |error: io::Error| format!("{}: {error}", base::text::path::spelled(path));
        let mut scan = Scan::open(path).map_err(fail)?;
        while scan.advance().map_err(fail)? {}
        if let Some(lost) = scan.losses() {
            notify(&format!("{}: {lost}", base::text::path::spelled(path)));
        }
        Ok(Self::from_view(scan.so_far().1))
    }

    /// What the servers of a view offer. Servers whose lists are incomplete are left out.
    pub fn from_view(view: &HostView) -> Self {
        let whole = view
            .servers
            .values()
            .filter(|server| server.session.is_some() && server.capabilities.partial.is_empty());
        let servers =
            whole.map(|server| (server.name.to_string(), LockedServer::from_view(server)));
        Self { servers: servers.collect(), ..Self::default() }
    }
}

impl LockedServer {
    /// What a server offers: its `serverInfo`, its instructions, and the entries of its lists as
    /// sent.
    pub fn new<'a>(
        server_info: Option<&Value>,
        instructions: Option<&str>,
        entries: impl Iterator<Item = (ListKind, &'a WrittenValue)>,
    ) -> Self {
        let mut locked = Self {
            server_info: server_info.map(canonical_json).unwrap_or_default(),
            instructions: instructions.map(str::to_owned),
            ..Self::default()
        };
        for (kind, raw) in entries {
            let list = locked.list_mut(kind);
            let mut id = raw.get(kind.id_key()).and_then(Value::as_str).unwrap_or("").to_owned();
            // A server may list a name twice; both are kept, distinguished in the order sent.
            while list.contains_key(&id) {
                id.push('#');
            }
            list.insert(id, canonical_entry(raw));
        }
        locked
    }

    /// What a server of a view offers.
    pub fn from_view(server: &ServerView) -> Self {
        let session = server.session.as_deref();
        let entries = ListKind::ALL.into_iter().flat_map(|kind| {
            server.capabilities.entries(kind).into_iter().map(move |(_, raw)| (kind, &**raw))
        });
        let instructions = session.and_then(|session| session.instructions.as_deref());
        Self::new(session.map(|session| &*session.server_info), instructions, entries)
    }

    fn list_mut(&mut self, kind: ListKind) -> &mut LockedList {
        match kind {
            ListKind::Tools => &mut self.tools,
            ListKind::Prompts => &mut self.prompts,
            ListKind::Resources => &mut self.resources,
            ListKind::ResourceTemplates => &mut self.resource_templates,
        }
    }

    pub(super) const fn list(&self, kind: ListKind) -> &LockedList {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::ResourceTemplates => &self.resource_templates,
        }
    }

    /// How `now` differs from this. The lists in `partial` are incomplete in `now`: nothing is
    /// reported as removed from them.
    pub fn drift(&self, now: &Self, partial: &[ListKind]) -> Vec<(DriftPlace, Drift)> {
        let text = |text: &Option<String>| text.clone().map(Value::String).unwrap_or_default();
        let mut found = Vec::new();
        let mut changed = |place: DriftPlace, changes: Vec<FieldChange>| {
            if !changes.is_empty() {
                found.push((place, Drift::Changed(changes)));
            }
        };
        let mut compare = |place: DriftPlace, before: &Value, after: &Value| {
            changed(place, every_difference(before, after));
        };
        compare(DriftPlace::Instructions, &text(&self.instructions), &text(&now.instructions));
        compare(DriftPlace::ServerInfo, &self.server_info, &now.server_info);
        // Unknown without a sign-in, or when its metadata was unavailable.
        if !now.authorization.is_null() {
            compare(DriftPlace::Authorization, &self.authorization, &now.authorization);
        }
        for kind in ListKind::ALL {
            for (id, new) in now.list(kind) {
                if let Some(old) = self.list(kind).get(id) {
                    let changes = every_written_difference(old, new);
                    changed(DriftPlace::Entry(kind, id.clone()), changes);
                }
            }
        }
        for kind in ListKind::ALL {
            let (before, after) = (self.list(kind), now.list(kind));
            let place = |id: &String| DriftPlace::Entry(kind, id.clone());
            let gone = before.keys().filter(|id| !after.contains_key(*id));
            if !partial.contains(&kind) {
                found.extend(gone.map(|id| (place(id), Drift::Removed)));
            }
            let new = after.keys().filter(|id| !before.contains_key(*id));
            found.extend(new.map(|id| (place(id), Drift::Added)));
        }
        found
    }

    /// The definition at a place.
    pub fn get(&self, place: &DriftPlace) -> Option<WrittenValue> {
        let value = match place {
            DriftPlace::Instructions => self.instructions.clone().map(Value::String),
            DriftPlace::ServerInfo => Some(self.server_info.clone()).filter(|info| !info.is_null()),
            DriftPlace::Authorization => {
                Some(self.authorization.clone()).filter(|it| !it.is_null())
            }
            DriftPlace::Entry(kind, id) => return self.list(*kind).get(id).cloned(),
        };
        value.map(WrittenValue::from)
    }

    /// Takes over the definition at a place from `now`.
    pub fn accept(&mut self, place: &DriftPlace, now: &Self) {
        match place {
            DriftPlace::Instructions => self.instructions.clone_from(&now.instructions),
            DriftPlace::ServerInfo => self.server_info.clone_from(&now.server_info),
            DriftPlace::Authorization => self.authorization.clone_from(&now.authorization),
            DriftPlace::Entry(kind, id) => {
                let list = self.list_mut(*kind);
                match now.get(place) {
                    Some(new) => _ = list.insert(id.clone(), new),
                    None => _ = list.remove(id),
                }
            }
        }
    }
}

/// As [`canonical_json`], of an entry with numbers that a [`Value`] cannot hold.
fn canonical_entry(entry: &WrittenValue) -> WrittenValue {
    let elements = |all: &WrittenValue| -> Vec<WrittenValue> {
        let count = all.as_array().map_or(0, Vec::len);
        (0..count).map(|index| all.part(&format!("/{index}"))).collect()
    };
    match &entry.value {
        value if entry.numbers.is_empty() => canonical_json(value).into(),
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let mut sorted = WrittenValue::from(Value::Object(Map::new()));
            for key in keys {
                let mut member = canonical_entry(&entry.part(&child_pointer("", key)));
                if is_set_keyword(key) && member.is_array() {
                    let mut items = elements(&member);
                    items.sort_by_cached_key(json::compact);
                    member = items.into_iter().collect();
                }
                sorted.insert_written(key, member);
            }
            sorted
        }
        Value::Array(_) => elements(entry).iter().map(canonical_entry).collect(),
        _ => entry.clone(),
    }
}

/// A value with sorted keys; lists that represent sets are sorted too.
pub fn canonical_json(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let sorted = keys.into_iter().map(|key| {
                let mut value = canonical_json(&map[key]);
                if is_set_keyword(key)
                    && let Value::Array(items) = &mut value
                {
                    items.sort_by_key(ToString::to_string);
                }
                (key.clone(), value)
            });
            Value::Object(sorted.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(canonical_json).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn locked(default: &str, items: &str) -> LockedServer {
        let text = format!(
            r#"{{"name":"t","inputSchema":{{"enum":[{items}],"default":{default},"x":1e3}}}}"#
        );
        let raw = WrittenValue::parse(&text).expect("JSON");
        LockedServer::new(None, None, [(ListKind::Tools, &raw)].into_iter())
    }

    #[test]
    fn numbers_are_locked_as_they_are_written_and_compared_by_their_value() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(LOCK_FILE);
        let big = "123456789012345678901234567890";
        let mut lock = Lock::default();
        lock.servers.insert("s".to_owned(), locked(big, "5,1e-400"));
        lock.write(&path).expect("written");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains(big) && text.contains("1e-400") && text.contains("1e3"), "{text}");
        // Comments are allowed, as in every file that people edit.
        std::fs::write(&path, format!("// reviewed\n{text}")).expect("written");
        let read = Lock::read(&path).expect("whole");
        assert_eq!(read, lock);
        let drift = |now: &LockedServer| read.servers["s"].drift(now, &[]);
        for same in
            [locked(big, "1e-400,5"), locked("1.2345678901234567890123456789e29", "5,1e-400")]
        {
            assert_eq!(drift(&same), []);
        }
        for other in [locked("123456789012345678901234567891", "5,1e-400"), locked(big, "5,2e-400")]
        {
            assert_eq!(drift(&other).len(), 1);
        }
    }
}
