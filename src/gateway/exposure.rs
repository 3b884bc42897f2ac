//! What a client's list of tools holds: every tool that it may see, or a search among them and what
//! it has found (`"expose"` of a profile).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::catalog::{ClientCatalog, ClientEntry};
use super::outside::Outside;
use super::state::Gateway;
use super::tokens::Client;
use base::ServerName;
use host::{AccessScope, PolicyAction, TargetKind, ToolExposure, exposed_name};

/// Maximum number of found tools that stay listed; the one found longest ago makes room.
const MAX_FOUND_TOOLS: usize = 64;
/// Maximum number of sessions whose found tools are kept.
const MAX_FOUND_SESSIONS: usize = 10_000;
/// How long the found tools of a client without a session stay listed after its last request.
const FOUND_TIMEOUT: Duration = Duration::from_secs(3_600);

/// Results of a search: the default and the maximum.
const FIND_DEFAULT_TOOLS: usize = 5;
const MAX_FIND_TOOLS: usize = 50;
/// Maximum length of a query, in characters.
const MAX_QUERY_CHARS: usize = 1_000;
/// Maximum length of a description in a search result, in characters.
const MAX_BRIEF_CHARS: usize = 300;
/// Maximum number of parameters, of values of one, and of servers, in a search result.
const MAX_BRIEF_PARAMETERS: usize = 24;
const MAX_BRIEF_VALUES: usize = 8;
const MAX_BRIEF_SERVERS: usize = 50;

/// What a client is told when its list is a search.
pub(super) const SEARCH_INSTRUCTIONS: &str = "More tools are available than are listed. Look for \
    them with `find_tools`, in a few words about what you want to do; what is found can be called \
    by its name, or with `call_tool`.";

/// A tool of the gateway itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnTool {
    Find,
    Describe,
    Call,
}

impl OwnTool {
    const ALL: [Self; 3] = [Self::Find, Self::Describe, Self::Call];

    const fn name(self) -> &'static str {
        match self {
            Self::Find => "find_tools",
            Self::Describe => "describe_tool",
            Self::Call => "call_tool",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|tool| tool.name() == name)
    }

    fn definition(self) -> Value {
        let name = |what: &str| json!({"type": "string", "description": what});
        let (description, properties, required) = match self {
            Self::Find => (
                "Finds tools by what they do. Answers with names, descriptions and parameters \
                 (those marked `?` are optional), the best match first.",
                json!({
                    "query": name("What you want to do, in a few words"),
                    "server": name("Only tools of this server"),
                    "limit": {
                        "type": "integer", "minimum": 1, "maximum": MAX_FIND_TOOLS,
                        "default": FIND_DEFAULT_TOOLS,
                    },
                }),
                json!(["query"]),
            ),
            Self::Describe => (
                "The complete definition of a tool, with the JSON Schema of its arguments.",
                json!({"name": name("Its name, as find_tools tells it")}),
                json!(["name"]),
            ),
            Self::Call => (
                "Calls a tool by its name, whether it is listed or not.",
                json!({
                    "name": name("Its name, as find_tools tells it"),
                    "arguments": {"type": "object", "description": "Its arguments"},
                }),
                json!(["name"]),
            ),
        };
        let schema = json!({"type": "object", "properties": properties, "required": required});
        let mut out =
            json!({"name": self.name(), "description": description, "inputSchema": schema});
        if self != Self::Call {
            out["annotations"] = json!({"readOnlyHint": true, "openWorldHint": false});
        }
        out
    }
}

/// Whose found tools: those of a session, or of a client whose protocol has none.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FoundKey {
    client: Arc<str>,
    profile: Arc<str>,
    session: Option<Arc<str>>,
}

/// The tools that a session has found.
#[derive(Debug, Default)]
pub(crate) struct FoundTools {
    /// By server and name there, the latest last.
    tools: Mutex<VecDeque<(ServerName, Arc<str>)>>,
    changed: watch::Sender<()>,
}

impl FoundTools {
    fn holds(&self, server: &ServerName, name: &str) -> bool {
        self.tools.lock().iter().any(|(at, known)| at == server && **known == *name)
    }

    fn add(&self, found: &[&ClientEntry]) {
        let mut tools = self.tools.lock();
        let mut is_new = false;
        for entry in found {
            let known =
                tools.iter().position(|it| it.0 == entry.server && *it.1 == *entry.original);
            is_new |= known.is_none();
            let tool = known.and_then(|at| tools.remove(at));
            let new = || (entry.server.clone(), Arc::clone(&entry.original));
            tools.push_back(tool.unwrap_or_else(new));
        }
        let over = tools.len().saturating_sub(MAX_FOUND_TOOLS);
        tools.drain(..over);
        drop(tools);
        if is_new {
            self.changed.send_replace(());
        }
    }

    /// Told when a tool is added.
    pub fn follow(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }
}

/// The found tools of all sessions.
#[derive(Debug, Default)]
pub(crate) struct FoundSessions(Mutex<HashMap<FoundKey, (Arc<FoundTools>, Instant)>>);

impl FoundSessions {
    /// Those of the session of a request.
    pub fn of_client(&self, client: &Client) -> Arc<FoundTools> {
        let key = FoundKey {
            client: Arc::clone(&client.id),
            profile: Arc::clone(&client.profile),
            session: client.session.clone(),
        };
        let mut all = self.0.lock();
        if all.len() >= MAX_FOUND_SESSIONS && !all.contains_key(&key) {
            let oldest = all.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let (found, used) = all.entry(key).or_insert_with(|| (Arc::default(), Instant::now()));
        *used = Instant::now();
        Arc::clone(found)
    }

    /// Forgets those that no session follows and nobody has asked for lately.
    pub fn end_idle(&self) {
        let is_used = |(found, used): &(Arc<FoundTools>, Instant)| {
            Arc::strong_count(found) > 1 || used.elapsed() <= FOUND_TIMEOUT
        };
        self.0.lock().retain(|_, entry| is_used(entry));
    }
}

/// What a client's list of tools holds.
pub(crate) enum ToolListing {
    /// Every tool that it may see.
    Whole,
    /// The search, and what was found.
    Found(Arc<FoundTools>),
}

impl ToolListing {
    /// Whether a tool that the client may see is listed.
    pub fn holds(&self, server: &ServerName, name: &str) -> bool {
        match self {
            Self::Whole => true,
            Self::Found(found) => found.holds(server, name),
        }
    }

    /// Whether the list is a search.
    pub const fn is_search(&self) -> bool {
        matches!(self, Self::Found(_))
    }

    /// The tools of the gateway itself that are listed.
    pub fn own(&self) -> Vec<Value> {
        let own = self.is_search().then_some(OwnTool::ALL).into_iter().flatten();
        own.map(OwnTool::definition).collect()
    }

    /// A definition under the name by which it is called here: a tool that has the name of one of
    /// our own is called by its whole name.
    pub fn listed(&self, entry: &ClientEntry) -> Value {
        let mut raw = entry.raw.clone();
        if self.is_search() {
            raw["name"] = json!(called(entry));
        }
        raw
    }
}

/// The name by which a tool is called where a search is listed.
fn called(entry: &ClientEntry) -> String {
    match OwnTool::from_name(&entry.name) {
        Some(_) => exposed_name(Some(&entry.server), &entry.original),
        None => entry.name.clone(),
    }
}

/// What a call of one of our own tools comes to.
pub(super) enum OwnCall {
    /// A result.
    Answer(Value),
    /// The call of another tool.
    Forward { name: String, arguments: Map<String, Value> },
}

/// A selection among the tools that a client may see.
#[derive(Debug, Default)]
pub(super) struct ToolQuery {
    pub query: String,
    pub server: Option<String>,
    pub limit: Option<usize>,
}

/// What a selection found: the best tools, and how many match at all.
pub(super) struct ToolMatches<'c> {
    pub best: Vec<&'c ClientEntry>,
    pub count: usize,
}

impl Gateway {
    /// What a client's list of tools holds now.
    pub(super) fn listing(&self, client: &Client, catalog: &ClientCatalog) -> ToolListing {
        let policy = self.host.in_force();
        let Some(profile) = policy.profile(&client.principal()) else { return ToolListing::Whole };
        let is_search = match profile.expose {
            ToolExposure::All => false,
            ToolExposure::Search => true,
            ToolExposure::Auto => {
                let most = profile.expose_tokens() as usize;
                let sizes = catalog.tool_tokens();
                let seen = self.seen_tools(client, catalog);
                seen.iter().filter_map(|at| sizes.get(*at)).sum::<usize>() > most
            }
        };
        if is_search {
            ToolListing::Found(self.found.of_client(client))
        } else {
            ToolListing::Whole
        }
    }

    /// Whether a client may be given a search: our own tools can be called then.
    fn may_search(&self, client: &Client) -> bool {
        let policy = self.host.in_force();
        let profile = policy.profile(&client.principal());
        profile.is_some_and(|profile| profile.expose != ToolExposure::All)
    }

    /// The places of the tools in a catalog that a client may see.
    fn seen_tools(&self, client: &Client, catalog: &ClientCatalog) -> Vec<usize> {
        let principal = client.principal();
        let is_seen = |entry: &ClientEntry| {
            self.host.is_visible(&principal, &entry.server, (TargetKind::Tool, &entry.original))
        };
        let tools = catalog.tools.iter().enumerate();
        tools.filter(|(_, entry)| is_seen(entry)).map(|(at, _)| at).collect()
    }

    /// Looks for tools among those that a client may see.
    ///
    /// # Errors
    /// What is wrong with the query, for the caller.
    pub(super) fn look_for<'c>(
        &self,
        client: &Client,
        catalog: &'c ClientCatalog,
        asked: &ToolQuery,
    ) -> Result<ToolMatches<'c>, String> {
        if asked.query.trim().is_empty() {
            return Err("`query` is empty: say in a few words what you want to do".to_owned());
        }
        if asked.query.chars().count() > MAX_QUERY_CHARS {
            return Err(format!("`query` is longer than {MAX_QUERY_CHARS} characters"));
        }
        let limit = asked.limit.unwrap_or(FIND_DEFAULT_TOOLS);
        if !(1..=MAX_FIND_TOOLS).contains(&limit) {
            return Err(format!("`limit` is a number from 1 to {MAX_FIND_TOOLS}"));
        }
        let mut seen = self.seen_tools(client, catalog);
        if let Some(server) = &asked.server {
            let is_meant = |at: &usize| catalog.tools[*at].server.as_str() == server;
            if !seen.iter().any(is_meant) {
                let name = base::SafeText::line(server);
                let servers = server_names(catalog, &seen);
                return Err(format!(
                    "there is no server `{name}` with tools; there are: {servers}"
                ));
            }
            seen.retain(is_meant);
        }
        let found = catalog.index().ranked(&asked.query, &seen);
        let best = found.iter().take(limit).map(|at| &catalog.tools[*at]).collect();
        Ok(ToolMatches { best, count: found.len() })
    }

    /// What a call of one of our own tools means; `None` for any other tool.
    pub(super) fn own_call(
        &self,
        client: &Client,
        name: &str,
        arguments: &Map<String, Value>,
    ) -> Option<Result<OwnCall, Outside>> {
        let tool = OwnTool::from_name(name).filter(|_| self.may_search(client))?;
        let done = match tool {
            OwnTool::Find => client.allows(AccessScope::ToolsList).map(|()| {
                let found = self.find_tools(client, arguments);
                OwnCall::Answer(text_result(found))
            }),
            OwnTool::Describe => client.allows(AccessScope::ToolsList).map(|()| {
                let described = self.describe_tool(client, arguments);
                OwnCall::Answer(text_result(described))
            }),
            OwnTool::Call => {
                client.allows(AccessScope::ToolsCall).map(|()| match inner_call(arguments) {
                    Ok((name, arguments)) => OwnCall::Forward { name, arguments },
                    Err(why) => OwnCall::Answer(text_result(Err(why))),
                })
            }
        };
        Some(done)
    }

    fn find_tools(&self, client: &Client, arguments: &Map<String, Value>) -> Result<Value, String> {
        only(arguments, &["query", "server", "limit"])?;
        let limit = match arguments.get("limit") {
            None | Some(Value::Null) => None,
            Some(limit) => {
                let whole = limit.as_u64().or_else(|| limit.as_str()?.parse().ok());
                let wrong = || format!("`limit` is a number from 1 to {MAX_FIND_TOOLS}");
                Some(whole.and_then(|limit| usize::try_from(limit).ok()).ok_or_else(wrong)?)
            }
        };
        let query = text(arguments, "query")?.ok_or("`query` is missing: a text")?;
        let asked = ToolQuery { query, server: text(arguments, "server")?, limit };
        let view = self.host.snapshot();
        let catalog = self.catalog(client, &view);
        let found = self.look_for(client, &catalog, &asked)?;
        if found.best.is_empty() {
            let servers = server_names(&catalog, &self.seen_tools(client, &catalog));
            let hint = "nothing matches: try other words";
            return Ok(json!({"tools": [], "hint": hint, "servers": servers}));
        }
        self.found.of_client(client).add(&found.best);
        let tools: Vec<Value> = found.best.iter().map(|entry| brief(entry)).collect();
        Ok(json!({"tools": tools, "matches": found.count}))
    }

    fn describe_tool(
        &self,
        client: &Client,
        arguments: &Map<String, Value>,
    ) -> Result<Value, String> {
        only(arguments, &["name"])?;
        let name = text(arguments, "name")?.ok_or("`name` is missing: a text")?;
        let (view, principal) = (self.host.snapshot(), client.principal());
        let catalog = self.catalog(client, &view);
        let is_seen = |entry: &ClientEntry| {
            self.host.is_visible(&principal, &entry.server, (TargetKind::Tool, &entry.original))
        };
        if let Some(own) = OwnTool::from_name(&name) {
            return Ok(own.definition());
        }
        let entry = catalog.named(TargetKind::Tool, &name, is_seen).filter(|entry| is_seen(entry));
        let Some(entry) = entry else {
            let what = (PolicyAction::List, TargetKind::Tool);
            let refused = self.look_up(client, what, &name).err();
            let absent = format!("there is no `{}`", base::SafeText::line(&name));
            return Err(refused.map_or(absent, |(_, outside)| outside.message().to_owned()));
        };
        let mut raw = entry.raw.clone();
        raw["name"] = json!(called(entry));
        self.found.of_client(client).add(&[entry]);
        Ok(raw)
    }
}

/// The tool that `call_tool` is to call, and its arguments.
fn inner_call(arguments: &Map<String, Value>) -> Result<(String, Map<String, Value>), String> {
    only(arguments, &["name", "arguments"])?;
    let name = text(arguments, "name")?.ok_or("`name` is missing: a text")?;
    if OwnTool::from_name(&name).is_some() {
        return Err(format!("`{name}` is called by itself, not through `call_tool`"));
    }
    let wrong = || "`arguments` is an object: the arguments of the tool by name".to_owned();
    let inner = match arguments.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(inner)) => inner.clone(),
        // Some models write an object as text where they are given no schema of it.
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| wrong())?,
        Some(_) => return Err(wrong()),
    };
    Ok((name, inner))
}

fn text(arguments: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    match arguments.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(format!("`{key}` is a text")),
    }
}

fn only(arguments: &Map<String, Value>, known: &[&str]) -> Result<(), String> {
    match arguments.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(other) => {
            let other = base::SafeText::line(other);
            Err(format!("`{other}` is not one of: {}", known.join(", ")))
        }
    }
}

fn text_result(done: Result<Value, String>) -> Value {
    let (text, is_error) = match done {
        Ok(value) => (value.to_string(), false),
        Err(why) => (why, true),
    };
    let mut out = json!({"content": [{"type": "text", "text": text}]});
    if is_error {
        out["isError"] = json!(true);
    }
    out
}

/// The servers with tools among these, by name.
fn server_names(catalog: &ClientCatalog, seen: &[usize]) -> String {
    let mut names: Vec<&str> = seen.iter().map(|at| catalog.tools[*at].server.as_str()).collect();
    names.dedup();
    let more = names.len().saturating_sub(MAX_BRIEF_SERVERS);
    names.truncate(MAX_BRIEF_SERVERS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.join(", "))
}

/// A tool in a search result.
fn brief(entry: &ClientEntry) -> Value {
    let mut out = json!({"name": called(entry), "server": entry.server});
    let title = entry.raw["title"].as_str().or_else(|| entry.raw["annotations"]["title"].as_str());
    if let Some(title) = title {
        out["title"] = json!(title);
    }
    if let Some(description) = entry.raw["description"].as_str() {
        out["description"] = match description.char_indices().nth(MAX_BRIEF_CHARS) {
            Some((cut, _)) => json!(format!("{}…", &description[..cut])),
            None => json!(description),
        };
    }
    out["parameters"] = json!(signature(&entry.raw["inputSchema"]));
    out
}

/// The parameters of a schema in one line, such as `path: string, limit?: integer`.
fn signature(schema: &Value) -> String {
    let required = schema["required"].as_array();
    let is_required = |name: &str| required.is_some_and(|all| all.iter().any(|it| *it == *name));
    let properties = schema["properties"].as_object();
    let all = properties.into_iter().flatten();
    let mut out: Vec<String> = all
        .take(MAX_BRIEF_PARAMETERS + 1)
        .map(|(name, schema)| {
            let mark = if is_required(name) { "" } else { "?" };
            format!("{name}{mark}: {}", kind(schema))
        })
        .collect();
    if out.len() > MAX_BRIEF_PARAMETERS {
        out.truncate(MAX_BRIEF_PARAMETERS);
        out.push("…".to_owned());
    }
    out.join(", ")
}

fn kind(schema: &Value) -> String {
    if let Some(values) = schema["enum"].as_array() {
        let shown: Vec<String> =
            values.iter().take(MAX_BRIEF_VALUES).map(Value::to_string).collect();
        let more = if values.len() > MAX_BRIEF_VALUES { "|…" } else { "" };
        return format!("{}{more}", shown.join("|"));
    }
    match &schema["type"] {
        Value::String(one) if one == "array" => match schema["items"]["type"].as_str() {
            Some(of) => format!("{of}[]"),
            None => "array".to_owned(),
        },
        Value::String(one) => one.clone(),
        Value::Array(several) => {
            let several: Vec<&str> = several.iter().filter_map(Value::as_str).collect();
            several.join("|")
        }
        _ => "any".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(server: &str, name: &str) -> ClientEntry {
        let raw = json!({"name": name, "description": "d".repeat(1_000), "inputSchema": {
            "type": "object", "required": ["path"], "properties": {
                "path": {"type": "string"},
                "mode": {"enum": ["r", "w"]},
                "lines": {"type": "array", "items": {"type": "integer"}},
                "any": true,
            },
        }});
        let (server, original) = (ServerName::new(server), Arc::from(name));
        ClientEntry { name: name.to_owned(), server, original, raw }
    }

    #[test]
    fn a_result_names_each_parameter_in_a_line_and_cuts_long_texts() {
        let brief = brief(&entry("files", "read"));
        let parameters = "path: string, mode?: \"r\"|\"w\", lines?: integer[], any?: any";
        assert_eq!(brief["parameters"], parameters);
        assert_eq!(brief["description"].as_str().map(|it| it.chars().count()), Some(301));
        assert_eq!(signature(&json!(null)), "");
        assert_eq!(signature(&json!({"properties": []})), "");
    }

    #[test]
    fn a_tool_with_the_name_of_one_of_ours_is_called_by_its_whole_name() {
        assert_eq!(called(&entry("s", "find_tools")), "s__find_tools");
        assert_eq!(called(&entry("s", "other")), "other");
    }

    #[test]
    fn what_was_found_longest_ago_makes_room_and_a_new_one_is_told() {
        let found = FoundTools::default();
        let told = found.follow();
        let all: Vec<ClientEntry> =
            (0..=MAX_FOUND_TOOLS).map(|at| entry("s", &format!("t{at}"))).collect();
        found.add(&all.iter().take(MAX_FOUND_TOOLS).collect::<Vec<_>>());
        assert!(told.has_changed().expect("open"));
        let told = found.follow();
        found.add(&[&all[0]]);
        assert!(!told.has_changed().expect("open"), "it was known");
        found.add(&[&all[MAX_FOUND_TOOLS]]);
        let holds = |name: &str| found.holds(&ServerName::new("s"), name);
        assert!(holds("t0") && !holds("t1") && holds(&format!("t{MAX_FOUND_TOOLS}")));
    }

    #[test]
    fn the_arguments_of_the_inner_call_are_an_object_or_its_text() {
        let read = |value: Value| inner_call(value.as_object().expect("an object"));
        let (name, inner) = read(json!({"name": "a", "arguments": "{\"b\": 1}"})).expect("read");
        assert_eq!((name.as_str(), json!(inner)), ("a", json!({"b": 1})));
        assert!(read(json!({"name": "a"})).expect("read").1.is_empty());
        for wrong in [
            json!({}),
            json!({"name": 1}),
            json!({"name": "a", "arguments": []}),
            json!({"name": "a", "arguments": "no"}),
            json!({"name": "a", "args": {}}),
            json!({"name": "call_tool", "arguments": {"name": "a"}}),
        ] {
            assert!(read(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
