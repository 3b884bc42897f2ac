//! What a client sees of the servers: names within `^[A-Za-z0-9_-]{1,64}$` (decision D13), and the
//! way back from a name to its server. Pure but for its cache.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::base::ServerName;
use crate::host::naming::{exposed, hashed};
use crate::host::policy::TargetKind;
use crate::host::{HostView, ServerState, ServerView};
use crate::mcp::Capabilities;

/// One tool, prompt, resource or template as a client sees it.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The name the client uses, or the URI.
    pub name: String,
    /// Its server.
    pub server: ServerName,
    /// Its name or URI there.
    pub original: Arc<str>,
    /// The definition as the server sent it, under the client's name.
    pub raw: Value,
}

/// Everything a client may see, by list.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub tools: Vec<Entry>,
    pub prompts: Vec<Entry>,
    /// By URI; several servers may list one.
    pub resources: Vec<Entry>,
    pub templates: Vec<Entry>,
    tool_names: HashMap<String, usize>,
    prompt_names: HashMap<String, usize>,
}

/// The newest catalog, kept as long as the lists it was made from.
#[derive(Debug, Default)]
pub(crate) struct Catalogs {
    kept: Mutex<Option<(Vec<Source>, Arc<Catalog>)>>,
}

/// Whose lists, and whether they can be used.
type Source = (ServerName, Arc<Capabilities>, Option<String>);

impl Catalogs {
    /// The catalog of a view.
    pub fn of(&self, view: &HostView) -> Arc<Catalog> {
        let sources: Vec<Source> = view
            .servers
            .values()
            .filter(|server| server.state != ServerState::Disabled)
            .map(|s| (s.name.clone(), Arc::clone(&s.capabilities), unavailable(s)))
            .collect();
        let mut kept = self.kept.lock();
        let same = |old: &[Source]| {
            old.len() == sources.len()
                && old
                    .iter()
                    .zip(&sources)
                    .all(|(a, b)| a.0 == b.0 && Arc::ptr_eq(&a.1, &b.1) && a.2 == b.2)
        };
        if let Some((old, catalog)) = &*kept
            && same(old)
        {
            return Arc::clone(catalog);
        }
        let catalog = Arc::new(Catalog::new(&sources));
        *kept = Some((sources, Arc::clone(&catalog)));
        catalog
    }
}

/// Why a server's tools cannot be called now; `None` when they can.
fn unavailable(server: &ServerView) -> Option<String> {
    (!server.state.is_callable()).then(|| server.state.as_str().to_owned())
}

impl Catalog {
    fn new(sources: &[Source]) -> Self {
        let mut out = Self::default();
        let alone = sources.len() == 1;
        for (server, capabilities, reason) in sources {
            let prefix = (!alone).then_some(server);
            for tool in &capabilities.tools {
                let name = exposed(prefix, &tool.name);
                let mut raw = named(&tool.raw, &name);
                if let Some(reason) = reason {
                    unavailable_because(&mut raw, reason);
                }
                let original = Arc::clone(&tool.name);
                insert(&mut out.tools, &mut out.tool_names, name, server, original, raw);
            }
            for prompt in &capabilities.prompts {
                let name = exposed(prefix, &prompt.name);
                let raw = named(&prompt.raw, &name);
                let original = Arc::clone(&prompt.name);
                insert(&mut out.prompts, &mut out.prompt_names, name, server, original, raw);
            }
            for resource in &capabilities.resources {
                let (uri, raw) = (&resource.uri, (*resource.raw).clone());
                out.resources.push(Entry::of_uri(server, uri, raw));
            }
            for template in &capabilities.templates {
                let (uri, raw) = (&template.uri, (*template.raw).clone());
                out.templates.push(Entry::of_uri(server, uri, raw));
            }
        }
        out
    }

    /// The tool of a name as the client writes it.
    pub fn tool(&self, name: &str) -> Option<&Entry> {
        self.tool_names.get(name).and_then(|at| self.tools.get(*at))
    }

    /// The tool or prompt of a name as a client writes it; of a tool also as `server.tool`.
    pub fn named(&self, kind: TargetKind, name: &str) -> Option<&Entry> {
        let dotted = || {
            self.tools.iter().find(|tool| {
                let rest = name.strip_prefix(tool.server.as_str());
                rest.and_then(|rest| rest.strip_prefix('.')) == Some(&*tool.original)
            })
        };
        match kind {
            TargetKind::Tool => self.tool(name).or_else(dotted),
            _ => self.prompt_names.get(name).and_then(|at| self.prompts.get(*at)),
        }
    }
}

impl Entry {
    fn of_uri(server: &ServerName, uri: &Arc<str>, raw: Value) -> Self {
        Self { name: uri.to_string(), server: server.clone(), original: Arc::clone(uri), raw }
    }
}

fn insert(
    list: &mut Vec<Entry>,
    names: &mut HashMap<String, usize>,
    name: String,
    server: &ServerName,
    original: Arc<str>,
    mut raw: Value,
) {
    let name = if names.contains_key(&name) {
        let told_apart = hashed(&name, &format!("{server}\0{original}"));
        raw["name"] = json!(told_apart);
        told_apart
    } else {
        name
    };
    names.insert(name.clone(), list.len());
    list.push(Entry { name, server: server.clone(), original, raw });
}

fn named(raw: &Value, name: &str) -> Value {
    let mut raw = raw.clone();
    if let Some(object) = raw.as_object_mut() {
        object.insert("name".to_owned(), json!(name));
    }
    raw
}

/// A tool of a server that is down stays in the list and says why it cannot be called.
fn unavailable_because(raw: &mut Value, reason: &str) {
    let Some(object) = raw.as_object_mut() else { return };
    let words = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let words = format!("(unavailable: its server is {reason}) {words}");
    object.insert("description".to_owned(), json!(words.trim_end()));
}
