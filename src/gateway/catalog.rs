//! The catalog that clients see: names that match `^[A-Za-z0-9_-]{1,64}$`, and the
//! mapping from a name back to its server. Pure except for its cache.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::claims::take_claims;
use super::search::ToolIndex;
use base::ServerName;
use base::text::json::WrittenValue;
use host::{
    ExposedNames, HostView, InForce, OverlayConfig, Principal, ServerState, ServerView, TargetKind,
    own_uri, resolve_name,
};
use protocol::{Capabilities, HOPS_KEY, app_of};

/// One tool, prompt, resource or template as a client sees it.
#[derive(Debug)]
pub(crate) struct ClientEntry {
    /// The name the client uses, or the URI.
    pub name: String,
    pub server: ServerName,
    /// Its name or URI there.
    pub original: Arc<str>,
    /// The definition as the server sent it, under the client's name, without what only this program
    /// may claim.
    pub raw: WrittenValue,
    /// How many decks it came through, as the last of them says.
    pub hops: u64,
}

/// Everything a client may see, by list.
#[derive(Debug, Default)]
pub(crate) struct ClientCatalog {
    pub tools: Vec<ClientEntry>,
    pub prompts: Vec<ClientEntry>,
    /// By URI; several servers may list the same one.
    pub resources: Vec<ClientEntry>,
    pub templates: Vec<ClientEntry>,
    /// Indices of tools and prompts, by name.
    names: HashMap<TargetKind, HashMap<String, usize>>,
    /// For searches among the tools; made with the first.
    index: OnceLock<ToolIndex>,
    /// What each tool costs in the context of a model.
    tokens: OnceLock<Vec<usize>>,
}

/// Cache of the latest catalogs, each valid while the lists and the policy that it was built from
/// are unchanged.
#[derive(Default)]
pub(crate) struct Catalogs {
    /// By profile; `None` for callers of whom no profile changes anything.
    kept: Mutex<HashMap<Option<Arc<str>>, KeptCatalog>>,
}

/// A catalog, and what it was built from.
struct KeptCatalog {
    sources: Vec<ListSource>,
    policy: Option<Arc<InForce>>,
    catalog: Arc<ClientCatalog>,
}

/// Maximum number of profiles whose catalogs are kept.
const MAX_CATALOGS: usize = 64;

/// A server, its lists, and why it is unavailable, if it is.
type ListSource = (ServerName, Arc<Capabilities>, Option<&'static str>);

impl Catalogs {
    /// The catalog of a view, with the overlays of a profile where there are any.
    pub fn for_view(
        &self,
        view: &HostView,
        shaped: Option<(&Principal, Arc<InForce>)>,
    ) -> Arc<ClientCatalog> {
        let enabled = |server: &&Arc<ServerView>| server.state != ServerState::Disabled;
        let servers = view.servers.values().filter(enabled);
        let mut kept = self.kept.lock();
        let same = |old: &[ListSource]| {
            let old = old.iter().map(|(name, lists, reason)| (name, Arc::as_ptr(lists), *reason));
            let now = servers.clone();
            old.eq(now.map(|s| (&s.name, Arc::as_ptr(&s.capabilities), unavailable(s))))
        };
        let profile = shaped.as_ref().map(|(principal, _)| Arc::clone(&principal.profile));
        let policy = shaped.as_ref().map(|(_, policy)| Arc::clone(policy));
        let is_same = |old: &Option<Arc<InForce>>| match (old, &policy) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            (old, new) => old.is_none() && new.is_none(),
        };
        if let Some(kept) = kept.get(&profile)
            && same(&kept.sources)
            && is_same(&kept.policy)
        {
            return Arc::clone(&kept.catalog);
        }
        let overlay = |server: &ServerName, tool: &str| {
            let (principal, policy) = shaped.as_ref()?;
            policy.overlay(principal, server.as_str(), tool)
        };
        let sources: Vec<ListSource> = servers
            .map(|s| (s.name.clone(), Arc::clone(&s.capabilities), unavailable(s)))
            .collect();
        let catalog = Arc::new(ClientCatalog::new(&sources, overlay));
        if kept.len() >= MAX_CATALOGS {
            kept.clear();
        }
        kept.insert(profile, KeptCatalog { sources, policy, catalog: Arc::clone(&catalog) });
        catalog
    }
}

/// Why a server's tools cannot be called now; `None` when they can.
fn unavailable(server: &ServerView) -> Option<&'static str> {
    (!server.state.is_callable()).then(|| server.state.word())
}

impl ClientCatalog {
    fn new(
        sources: &[ListSource],
        overlay: impl Fn(&ServerName, &str) -> Option<OverlayConfig>,
    ) -> Self {
        let mut out = Self::default();
        // The server of each page of tools: a client reads it by its URI alone.
        let mut apps: HashMap<String, &ServerName> = HashMap::new();
        let names = client_names(sources, &overlay);
        for (server, capabilities, reason) in sources {
            let tools = capabilities.tools.iter();
            let tools = tools.map(|tool| (TargetKind::Tool, &tool.name, &tool.raw));
            let prompts = capabilities.prompts.iter();
            let prompts = prompts.map(|prompt| (TargetKind::Prompt, &prompt.name, &prompt.raw));
            for (kind, original, raw) in tools.chain(prompts) {
                let overlay =
                    (kind == TargetKind::Tool).then(|| overlay(server, original)).flatten();
                let name = names.get(&(kind, server, original)).cloned().unwrap_or_default();
                let numbers = raw.numbers.clone();
                let mut raw = match &overlay {
                    Some(overlay) => overlay.definition(raw),
                    None => raw.value.clone(),
                };
                let hops = take_hops(&mut raw);
                if let Some(object) = raw.as_object_mut() {
                    object.insert("name".to_owned(), json!(name));
                }
                let is_tool = kind == TargetKind::Tool;
                if is_tool
                    && let Some(uri) = app_of(&raw).map(str::to_owned)
                    && *apps.entry(uri.clone()).or_insert(server) != server
                {
                    raw["_meta"]["ui"]["resourceUri"] = own_uri(server, &uri).into();
                }
                if let Some(execution) = raw.get_mut("execution").and_then(Value::as_object_mut)
                    && execution.get("taskSupport").is_some_and(|support| support == "required")
                {
                    // The gateway runs the tool as a task itself, also for clients without tasks.
                    execution.shift_remove("taskSupport");
                }
                if let Some(reason) = reason.filter(|_| is_tool) {
                    unavailable_because(&mut raw, reason);
                }
                let list = if is_tool { &mut out.tools } else { &mut out.prompts };
                out.names.entry(kind).or_default().insert(name.clone(), list.len());
                let (server, original) = (server.clone(), Arc::clone(original));
                let raw = WrittenValue { value: raw, numbers };
                list.push(ClientEntry { name, server, original, raw, hops });
            }
            for resource in &capabilities.resources {
                let (uri, raw) = (&resource.uri, (*resource.raw).clone());
                out.resources.push(ClientEntry::of_uri(server, uri, raw));
            }
            for template in &capabilities.templates {
                let (uri, raw) = (&template.uri, (*template.raw).clone());
                out.templates.push(ClientEntry::of_uri(server, uri, raw));
            }
        }
        out
    }

    /// The index of the tools, by their places.
    pub fn index(&self) -> &ToolIndex {
        let tools = self.tools.iter().map(|it| (&it.server, &*it.original, &it.raw.value));
        self.index.get_or_init(|| ToolIndex::new(tools))
    }

    /// What each tool costs in the context of a model, by their places: four bytes per token.
    pub fn tool_tokens(&self) -> &[usize] {
        let tokens = |entry: &ClientEntry| entry.raw.to_string().len().div_ceil(4);
        self.tokens.get_or_init(|| self.tools.iter().map(tokens).collect())
    }

    /// Finds a tool or prompt by the client's name, or else by any qualified name, or by its bare
    /// name if it is the only one of those that `is_seen`.
    pub fn named(
        &self,
        kind: TargetKind,
        name: &str,
        is_seen: impl Fn(&ClientEntry) -> bool,
    ) -> Option<&ClientEntry> {
        let list = if kind == TargetKind::Tool { &self.tools } else { &self.prompts };
        if let Some(at) = self.names.get(&kind).and_then(|names| names.get(name)) {
            return Some(&list[*at]);
        }
        let pairs = |seen: &Vec<&'_ ClientEntry>| -> Vec<(ServerName, Arc<str>)> {
            seen.iter().map(|it| (it.server.clone(), Arc::clone(&it.original))).collect()
        };
        let seen: Vec<&ClientEntry> = list.iter().filter(|entry| is_seen(entry)).collect();
        let known = pairs(&seen);
        let (server, original) = resolve_name(name, known.iter().map(|(s, n)| (s, n))).ok()?;
        seen.into_iter().find(|it| it.server == *server && it.original == *original)
    }
}

impl ClientEntry {
    fn of_uri(server: &ServerName, uri: &Arc<str>, mut raw: WrittenValue) -> Self {
        let hops = take_hops(&mut raw.value);
        let (name, original) = (uri.to_string(), Arc::clone(uri));
        Self { name, server: server.clone(), original, raw, hops }
    }
}

/// Takes what only this program may claim out of a definition; returns how many decks it came
/// through.
fn take_hops(raw: &mut Value) -> u64 {
    let hops = raw["_meta"][HOPS_KEY].as_u64().unwrap_or(0);
    take_claims(raw);
    hops
}

/// A tool or prompt of a server.
type NamedItem<'s> = (TargetKind, &'s ServerName, &'s Arc<str>);

/// The names of all tools and prompts. Names that overlays give come last: they take none from
/// another tool.
fn client_names(
    sources: &[ListSource],
    overlay: impl Fn(&ServerName, &str) -> Option<OverlayConfig>,
) -> HashMap<NamedItem<'_>, String> {
    let mut out = HashMap::new();
    for kind in [TargetKind::Tool, TargetKind::Prompt] {
        let mut names = match sources {
            [_] => ExposedNames::bare(),
            several => ExposedNames::new(several.iter().map(|(server, ..)| server)),
        };
        let mut chosen = Vec::new();
        for (server, all, _) in sources {
            let originals: Vec<&Arc<str>> = if kind == TargetKind::Tool {
                all.tools.iter().map(|tool| &tool.name).collect()
            } else {
                all.prompts.iter().map(|prompt| &prompt.name).collect()
            };
            for original in originals {
                let overlay =
                    (kind == TargetKind::Tool).then(|| overlay(server, original)).flatten();
                if let Some(name) = overlay.and_then(|overlay| overlay.name) {
                    chosen.push((name, server, original));
                } else {
                    out.insert((kind, server, original), names.name(server, original));
                }
            }
        }
        for (name, server, original) in chosen {
            let name = names.given(name, server, original);
            out.insert((kind, server, original), name);
        }
    }
    out
}

/// Adds to a tool's description why it is unavailable; tools of stopped servers stay listed.
fn unavailable_because(raw: &mut Value, reason: &str) {
    let Some(object) = raw.as_object_mut() else { return };
    let words = object.get("description").and_then(Value::as_str).unwrap_or_default();
    let words = format!("(unavailable: its server is {reason}) {words}");
    object.insert("description".to_owned(), json!(words.trim_end()));
}
