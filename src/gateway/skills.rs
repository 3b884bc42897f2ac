//! Skills for clients (extension `io.modelcontextprotocol/skills`, SEP-2640): those of all servers
//! that have some. A skill is known by its server and its URI together; here its URI alone has to do.
//! So that of the first visible server keeps its URI, and any other gets one of its own, as resources
//! do. Files are read as resources, which servers need not list: which server a file belongs to is
//! known from the skills that were listed or asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::claims::take_claims;
use base::ServerName;
use host::{Host, HostView, ServerView, own_uri};
use protocol::SessionView;

/// The extension's name in `capabilities.extensions`.
pub(super) const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// What the URI of a skill ends in; what stands before it is the folder of its files.
const SKILL_FILE: &str = "SKILL.md";
/// Longest time that the skills of a server are taken to be what they were.
const MAX_LIST_AGE: Duration = Duration::from_secs(60);
/// Most folders of a server that are kept of skills which it does not list.
const MAX_FOUND_SKILLS: usize = 1_000;

/// The skills of servers, as far as clients have asked for them.
#[derive(Default)]
pub(crate) struct KnownSkills(Mutex<BTreeMap<ServerName, ServerSkills>>);

/// What is known of one server's skills.
struct ServerSkills {
    /// Of this session.
    session: Arc<SessionView>,
    entries: Arc<Vec<Value>>,
    /// When they have to be listed again.
    until: Instant,
    /// Folders of skills that are not listed.
    found: BTreeSet<String>,
}

/// The settings of the extension that a server declared.
pub(super) fn declared(server: &ServerView) -> Option<&Value> {
    server.session.as_ref()?.capabilities.get("extensions")?.get(SKILLS_EXTENSION)
}

/// Whether a server lists the files of a folder.
pub(super) fn reads_directories(server: &ServerView) -> bool {
    declared(server).is_some_and(|settings| settings["directoryRead"] == true)
}

/// The settings that a gateway to these servers declares; `None` where none has skills.
pub(super) fn settings(view: &HostView) -> Option<serde_json::Map<String, Value>> {
    let servers = view.servers.values();
    let mut out = serde_json::Map::new();
    servers.clone().find(|server| declared(server).is_some())?;
    if servers.into_iter().any(|server| reads_directories(server)) {
        out.insert("directoryRead".to_owned(), json!(true));
    }
    Some(out)
}

impl KnownSkills {
    /// The skills of a server, listed anew unless they were listed just now. A server that cannot
    /// list them has none at the moment.
    pub async fn listed(&self, host: &Host, server: &ServerView) -> Arc<Vec<Value>> {
        let Some(session) = &server.session else { return Arc::default() };
        if let Some(known) = self.0.lock().get(&server.name)
            && Arc::ptr_eq(&known.session, session)
            && Instant::now() < known.until
        {
            return Arc::clone(&known.entries);
        }
        let (entries, age) = match host.list_skills(&server.name).await {
            Ok((mut entries, age)) => {
                for entry in &mut entries {
                    take_claims(entry);
                }
                (entries, age)
            }
            Err(error) => {
                let name = server.name.as_str();
                tracing::warn!(target: "mcpdeck::gateway", server = name, %error, "skills/list");
                return Arc::default();
            }
        };
        let mut all = self.0.lock();
        let known = Self::known(&mut all, &server.name, session);
        known.entries = Arc::new(entries);
        known.until = Instant::now() + age.min(MAX_LIST_AGE);
        Arc::clone(&known.entries)
    }

    /// Notes a skill that a server has, whether it lists it or not.
    pub fn found(&self, server: &ServerView, uri: &str) {
        let (Some(session), Some(folder)) = (&server.session, folder(uri)) else { return };
        let mut all = self.0.lock();
        let known = Self::known(&mut all, &server.name, session);
        if known.found.len() < MAX_FOUND_SKILLS {
            known.found.insert(folder.to_owned());
        }
    }

    fn known<'a>(
        all: &'a mut BTreeMap<ServerName, ServerSkills>,
        server: &ServerName,
        session: &Arc<SessionView>,
    ) -> &'a mut ServerSkills {
        let new = || ServerSkills {
            session: Arc::clone(session),
            entries: Arc::default(),
            until: Instant::now(),
            found: BTreeSet::new(),
        };
        let known = all.entry(server.clone()).or_insert_with(new);
        if !Arc::ptr_eq(&known.session, session) {
            *known = new();
        }
        known
    }

    /// The first of these servers that has a skill to whose folder the URI belongs.
    pub fn server_with<'s>(
        &self,
        servers: impl IntoIterator<Item = &'s Arc<ServerView>>,
        uri: &str,
    ) -> Option<&'s Arc<ServerView>> {
        let known = self.0.lock();
        let holds = |server: &&Arc<ServerView>| {
            let Some(skills) = known.get(&server.name) else { return false };
            let listed = skills.entries.iter().filter_map(|entry| folder(entry["uri"].as_str()?));
            let mut folders = listed.chain(skills.found.iter().map(String::as_str));
            folders.any(|folder| uri.starts_with(folder) || Some(uri) == folder.strip_suffix('/'))
        };
        servers.into_iter().find(holds)
    }
}

/// The folder of a skill, with a slash at its end.
fn folder(uri: &str) -> Option<&str> {
    uri.strip_suffix(SKILL_FILE).filter(|folder| folder.ends_with('/') && folder.len() > 1)
}

/// Gives the URIs of an entry of a skill, or of files, the form that names their server.
pub(super) fn with_own_uris(server: &ServerName, entry: &mut Value) {
    let own = |place: &mut Value| {
        if let Some(uri) = place.as_str() {
            *place = own_uri(server, uri).into();
        }
    };
    if let Some(uri) = entry.get_mut("uri") {
        own(uri);
    }
    for file in entry.get_mut("resources").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(uri) = file.get_mut("uri") {
            own(uri);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skill_and_its_files_keep_their_names_under_a_uri_of_their_own() {
        let mut entry = json!({
            "uri": "skill://a/b/SKILL.md", "frontmatter": {"name": "b", "uri": "x"},
            "resources": [{"uri": "skill://a/b/SKILL.md"}, {"uri": "skill://a/b/c/d.md"}],
        });
        with_own_uris(&ServerName::new("my server"), &mut entry);
        let own = "mcpdeck://my+server/skill://a/b/";
        assert_eq!(entry["uri"], format!("{own}SKILL.md"));
        assert_eq!(entry["resources"][1]["uri"], format!("{own}c/d.md"));
        assert_eq!(entry["frontmatter"]["uri"], "x");
        let mut dynamic = json!({"uri": "skill://a/SKILL.md", "resources": "dynamic"});
        with_own_uris(&ServerName::new("s"), &mut dynamic);
        assert_eq!(dynamic["resources"], "dynamic");
    }

    #[test]
    fn the_folder_of_a_skill_is_what_stands_before_its_file() {
        assert_eq!(folder("skill://a/SKILL.md"), Some("skill://a/"));
        for no in ["SKILL.md", "/SKILL.md", "skill://a/xSKILL.md", "skill://a/skill.md", ""] {
            assert_eq!(folder(no), None, "{no}");
        }
    }
}
