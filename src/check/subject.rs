//! The input of the rules: one server as plain data. Filled from a [`ServerView`] after a run, or
//! from a fixture.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use base::SafeText;
use base::text::json::WrittenValue;
use config::ContentLimits;
use deck::{LockedServer, canonical_json};
use host::{ServerState, ServerView, StartFailure, StepView};
use process::ExitView;
use protocol::{Era, Finding, FindingKind, ListKind, PartialList, RejectedEntry};
use schema::SchemaDocument;

/// One server as the rules see it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckSubject {
    /// Its name in the configuration.
    pub name: String,
    /// `stdio`, `http`, `sse` or `websocket`.
    pub transport: String,
    /// Limits for what it sends.
    pub limits: ContentLimits,
    /// State reached before the stop.
    pub state: ServerState,
    /// Why it is in that state.
    pub reason: Option<String>,
    /// What to do about it, when that is known.
    pub help: Option<String>,
    /// Why its last start failed, as data, while that is why it is down.
    pub failure: Option<StartFailure>,
    /// The steps of its start.
    pub steps: Vec<StepView>,
    /// Negotiated version.
    pub protocol_version: Option<String>,
    /// Negotiated era.
    pub era: Option<Era>,
    /// `serverInfo` as sent.
    pub server_info: Option<Arc<Value>>,
    /// `capabilities` as sent.
    pub capabilities: Option<Arc<Value>>,
    /// `instructions` as sent.
    pub instructions: Option<String>,
    /// Its sign-in endpoints; null when not signed in, or when they are not known.
    pub authorization: Value,
    /// Its card, when it has one at its address.
    pub card: Option<CheckedCard>,
    /// Entries of `tools/list` as sent.
    pub tools: Vec<Arc<WrittenValue>>,
    /// Entries of `prompts/list` as sent.
    pub prompts: Vec<Arc<WrittenValue>>,
    /// Entries of `resources/list` as sent.
    pub resources: Vec<Arc<WrittenValue>>,
    /// Entries of `resources/templates/list` as sent.
    pub templates: Vec<Arc<WrittenValue>>,
    /// Entries that did not decode.
    pub rejected: Vec<RejectedEntry>,
    /// Incomplete lists, and why.
    pub partial: Vec<(ListKind, PartialList)>,
    /// Entries that changed during the check: the place and the fields of each.
    pub changed: Vec<(String, String)>,
    /// Its protocol violations.
    pub protocol: Vec<Finding>,
    /// Number of protocol violations by kind.
    pub protocol_counts: BTreeMap<FindingKind, u64>,
    /// How its process ended.
    pub exit: Option<ExitView>,
    /// Whether its process wrote nothing to stderr.
    pub is_silent: bool,
    /// How long it had to exit after its stdin closed.
    pub stdin_grace: Option<Duration>,
    /// Requests of the server that were denied: method and count.
    pub denied: BTreeMap<String, u64>,
    /// What it was doing when the check was interrupted, if it was.
    pub interrupted: Option<String>,
}

/// The card of a server (SEP-2127).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckedCard {
    /// The address of the server.
    pub address: String,
    /// As it was read.
    pub document: Value,
    /// Why it cannot be used, when it cannot.
    pub problem: Option<String>,
}

/// One entry of a list.
#[derive(Clone, Copy, Debug)]
pub struct ListedEntry<'a> {
    /// The list it is in.
    pub list: ListKind,
    /// As sent.
    pub raw: &'a Value,
}

impl<'a> ListedEntry<'a> {
    /// Its name on the wire: `name`, `uri` or `uriTemplate`.
    pub fn id(&self) -> &'a str {
        self.text(self.list.id_key()).unwrap_or_default()
    }

    /// A text field.
    pub fn text(&self, key: &str) -> Option<&'a str> {
        self.raw.get(key).and_then(Value::as_str)
    }

    /// The `inputSchema` of a tool.
    pub fn input_schema(&self) -> SchemaDocument {
        SchemaDocument::new(&Arc::new(self.raw.get("inputSchema").cloned().unwrap_or_default()))
    }

    /// Its place: `tools/NAME`, safe to print and truncated.
    pub fn place(&self) -> String {
        format!("{}/{}", self.list.key(), brief(self.id(), 80))
    }

    /// The place of a value within it: `tools/NAME#/json/pointer`.
    pub fn place_of(&self, pointer: &str) -> String {
        if pointer.is_empty() {
            return self.place();
        }
        format!("{}#{}", self.place(), brief(pointer, 160))
    }
}

/// `text` on one line, safe, and cut to `most` characters as they are shown.
pub fn brief(text: &str, most: usize) -> String {
    SafeText::cut(text, most).to_string()
}

/// Two texts that differ, each as [`brief`]; where they begin alike for long, from shortly before they
/// differ.
pub fn brief_pair(one: &str, other: &str, most: usize) -> (String, String) {
    let alike = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    if alike < most / 2 {
        return (brief(one, most), brief(other, most));
    }
    let before = most / 4;
    let rest = |text: &str| {
        let rest: String = text.chars().skip(alike - before).collect();
        format!("…{}", brief(&rest, most))
    };
    (rest(one), rest(other))
}

impl CheckSubject {
    /// Whether it became ready, so that its lists are meaningful.
    pub fn was_ready(&self) -> bool {
        self.state == ServerState::Ready
    }

    /// Every entry of every list, in the order of the lists.
    pub fn entries(&self) -> impl Iterator<Item = ListedEntry<'_>> {
        self.lists().flat_map(|(list, all)| {
            all.iter().map(move |raw| ListedEntry { list, raw: &raw.value })
        })
    }

    fn lists(&self) -> impl Iterator<Item = (ListKind, &[Arc<WrittenValue>])> {
        let lists = [
            (ListKind::Tools, &*self.tools),
            (ListKind::Prompts, &*self.prompts),
            (ListKind::Resources, &*self.resources),
            (ListKind::ResourceTemplates, &*self.templates),
        ];
        lists.into_iter()
    }

    /// What it offers, in the form of the lock file.
    pub fn locked(&self) -> LockedServer {
        let entries =
            self.lists().flat_map(|(list, all)| all.iter().map(move |raw| (list, &**raw)));
        let info = self.server_info.as_deref();
        let mut locked = LockedServer::new(info, self.instructions.as_deref(), entries);
        locked.authorization = canonical_json(&self.authorization);
        locked
    }

    /// The entries of one list.
    pub fn entries_of(&self, list: ListKind) -> impl Iterator<Item = ListedEntry<'_>> {
        self.entries().filter(move |entry| entry.list == list)
    }

    pub fn tools(&self) -> impl Iterator<Item = ListedEntry<'_>> {
        self.entries_of(ListKind::Tools)
    }

    /// The subject of a server as the engine shows it.
    pub fn from_view(view: &ServerView) -> Self {
        let lists = &view.capabilities;
        let session = view.session.as_deref();
        Self {
            name: view.name.as_str().to_owned(),
            transport: view.transport.as_str().to_owned(),
            limits: view.limits,
            state: view.state,
            reason: view.reason.as_ref().map(ToString::to_string),
            help: view.help.as_ref().map(ToString::to_string),
            failure: view.failure.clone(),
            steps: view.steps.clone(),
            protocol_version: session.map(|s| s.protocol_version.to_string()),
            era: session.map(|s| s.era),
            server_info: session.map(|s| Arc::clone(&s.server_info)),
            capabilities: session.map(|s| Arc::clone(&s.capabilities)),
            instructions: session.and_then(|s| s.instructions.as_ref()).map(ToString::to_string),
            tools: lists.tools.iter().map(|t| Arc::clone(&t.raw)).collect(),
            prompts: lists.prompts.iter().map(|p| Arc::clone(&p.raw)).collect(),
            resources: lists.resources.iter().map(|r| Arc::clone(&r.raw)).collect(),
            templates: lists.templates.iter().map(|t| Arc::clone(&t.raw)).collect(),
            rejected: lists.rejected.clone(),
            partial: lists.partial.clone(),
            changed: changed(view),
            protocol: view.findings.iter().cloned().collect(),
            protocol_counts: view.finding_counts.clone(),
            exit: view.exit.clone(),
            ..Self::default()
        }
    }
}

fn changed(view: &ServerView) -> Vec<(String, String)> {
    let changes = view.changes.iter().flat_map(|(_, changes)| &changes.changed);
    let described = changes.map(|(list, name, fields)| {
        let fields: Vec<&str> = fields.iter().map(|field| field.pointer.as_str()).collect();
        (format!("{}/{}", list.key(), brief(name, 80)), brief(&fields.join(", "), 160))
    });
    described.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brief_text_is_no_longer_than_asked_whatever_it_hides() {
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
        for text in ["plain words, and more of them", "\u{202e}\u{202e}x\u{1b}y\u{7}", family] {
            for most in 1..40 {
                let shown = brief(text, most);
                assert!(shown.chars().count() <= most, "{most}: {shown}");
                assert!(!shown.trim_end_matches('…').ends_with('\u{200d}'), "{most}: {shown}");
                assert_eq!(brief(&shown, most), shown, "{most}");
            }
        }
        assert_eq!(brief("as it is", 8), "as it is");
    }
}
