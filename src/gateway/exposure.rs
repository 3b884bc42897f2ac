//! What a client's list of tools holds: every tool that it may see, or a search among them and what
//! it has found (`"expose"` of a profile).

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::catalog::{ClientCatalog, ClientEntry};
use super::found::ToolListing;
use super::outside::Outside;
use super::state::Gateway;
use super::tokens::Client;
use base::text::json::WrittenValue;
use host::{AccessScope, PolicyAction, TargetKind, ToolExposure, exposed_name};
use protocol::is_for_models;

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
/// Maximum number of further tools that are named after those of a vague search.
const MAX_ALSO_TOOLS: usize = 15;

/// What a client is told when its list is a search.
pub(super) const SEARCH_INSTRUCTIONS: &str = "More tools are available than are listed. Look for \
    them with `find_tools`, by an action and a thing, such as `create calendar event`; what is \
    found can be called by its name, or with `call_tool`.";

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
                    "query": name("An action and a thing, such as `create calendar event`"),
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

/// Whether a tool of this name looks at tools, where the gateway has its own, and calls none.
pub(super) fn only_looks(name: &str) -> bool {
    matches!(OwnTool::from_name(name), Some(OwnTool::Find | OwnTool::Describe))
}

/// The tools of the gateway itself that are listed.
pub(super) fn own_tools(listing: &ToolListing) -> Vec<Value> {
    let own = listing.is_search().then_some(OwnTool::ALL).into_iter().flatten();
    own.map(OwnTool::definition).collect()
}

/// A definition under the name by which it is called here: a tool that has the name of one of our
/// own is called by its whole name.
pub(super) fn listed(listing: &ToolListing, entry: &ClientEntry) -> WrittenValue {
    let mut raw = entry.raw.clone();
    if listing.is_search() {
        raw.insert("name", json!(called(entry)));
    }
    raw
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
    /// The next ones, where the best ones have little of what was asked for.
    also: Vec<&'c ClientEntry>,
}

/// What a client's list of tools holds now.
pub(super) fn listing(gateway: &Gateway, client: &Client, catalog: &ClientCatalog) -> ToolListing {
    let policy = gateway.host.in_force();
    let Some(profile) = policy.profile(&client.principal()) else { return ToolListing::Whole };
    let is_search = match profile.expose {
        ToolExposure::All => false,
        ToolExposure::Search => true,
        ToolExposure::Auto => {
            let most = profile.expose_tokens() as usize;
            let sizes = catalog.tool_tokens();
            let seen = seen_tools(gateway, client, catalog);
            seen.iter().filter_map(|at| sizes.get(*at)).sum::<usize>() > most
        }
    };
    if is_search { ToolListing::Found(gateway.found.of_client(client)) } else { ToolListing::Whole }
}

/// Whether a client may be given a search: our own tools can be called then.
fn may_search(gateway: &Gateway, client: &Client) -> bool {
    let policy = gateway.host.in_force();
    let profile = policy.profile(&client.principal());
    profile.is_some_and(|profile| profile.expose != ToolExposure::All)
}

/// The places of the tools in a catalog that a client may see.
fn seen_tools(gateway: &Gateway, client: &Client, catalog: &ClientCatalog) -> Vec<usize> {
    let principal = client.principal();
    let is_seen = |entry: &ClientEntry| {
        is_for_models(&entry.raw)
            && gateway.host.is_visible(
                &principal,
                &entry.server,
                (TargetKind::Tool, &entry.original),
            )
    };
    let tools = catalog.tools.iter().enumerate();
    tools.filter(|(_, entry)| is_seen(entry)).map(|(at, _)| at).collect()
}

/// Looks for tools among those that a client may see.
///
/// # Errors
/// What is wrong with the query, for the caller.
pub(super) fn look_for<'c>(
    gateway: &Gateway,
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
    let mut seen = seen_tools(gateway, client, catalog);
    if let Some(server) = &asked.server {
        let is_meant = |at: &usize| catalog.tools[*at].server.as_str() == server;
        if !seen.iter().any(is_meant) {
            let name = base::SafeText::line(server);
            let servers = server_names(catalog, &seen);
            return Err(format!("there is no server `{name}` with tools; there are: {servers}"));
        }
        seen.retain(is_meant);
    }
    let found = catalog.index().ranked(&asked.query, &seen);
    let tools = || found.tools.iter().map(|at| &catalog.tools[*at]);
    let more = if found.is_vague { MAX_ALSO_TOOLS } else { 0 };
    let (best, also) = (tools().take(limit), tools().skip(limit).take(more));
    Ok(ToolMatches { best: best.collect(), count: found.tools.len(), also: also.collect() })
}

/// What a call of one of our own tools means; `None` for any other tool.
pub(super) fn own_call(
    gateway: &Gateway,
    client: &Client,
    name: &str,
    arguments: &Map<String, Value>,
) -> Option<Result<OwnCall, Outside>> {
    let tool = OwnTool::from_name(name).filter(|_| may_search(gateway, client))?;
    let done = match tool {
        OwnTool::Find => client.allows(AccessScope::ToolsList).map(|()| {
            let found = find_tools(gateway, client, arguments);
            OwnCall::Answer(text_result(found))
        }),
        OwnTool::Describe => client.allows(AccessScope::ToolsList).map(|()| {
            let described = describe_tool(gateway, client, arguments);
            OwnCall::Answer(text_result(described))
        }),
        OwnTool::Call => {
            client.allows(AccessScope::ToolsCall).map(|()| match inner_call(arguments) {
                Ok((name, arguments)) => OwnCall::Forward { name, arguments },
                Err(why) => OwnCall::Answer(text_result(Err::<Value, _>(why))),
            })
        }
    };
    Some(done)
}

fn find_tools(
    gateway: &Gateway,
    client: &Client,
    arguments: &Map<String, Value>,
) -> Result<Value, String> {
    only(arguments, &["query", "server", "limit"])?;
    let limit = match arguments.get("limit") {
        None | Some(Value::Null) => None,
        Some(limit) => {
            // 5.0 is a whole number too (JSON Schema 2020-12, section 4.2.3), and models write it.
            let fraction = limit.as_f64().filter(|it| it.fract() == 0.0 && *it >= 0.0);
            let whole = fraction.map(|it| it as u64).or_else(|| limit.as_str()?.parse().ok());
            let wrong = || format!("`limit` is a number from 1 to {MAX_FIND_TOOLS}");
            Some(whole.and_then(|limit| usize::try_from(limit).ok()).ok_or_else(wrong)?)
        }
    };
    let query = text(arguments, "query")?.ok_or("`query` is missing: a text")?;
    // Some models fill in every parameter, those they do not need with nothing.
    let server = text(arguments, "server")?.filter(|server| !server.trim().is_empty());
    let asked = ToolQuery { query, server, limit };
    let view = gateway.host.snapshot();
    let catalog = gateway.catalog(client, &view);
    let found = look_for(gateway, client, &catalog, &asked)?;
    if found.best.is_empty() {
        let servers = server_names(&catalog, &seen_tools(gateway, client, &catalog));
        let hint = "nothing matches: ask for an action and a thing, by other words, or for \
                    the tools of one `server`";
        return Ok(json!({"tools": [], "hint": hint, "servers": servers}));
    }
    gateway.found.of_client(client).add(&found.best);
    let tools: Vec<Value> = found.best.iter().map(|entry| brief(entry)).collect();
    let mut out = json!({"tools": tools, "matches": found.count});
    if !found.also.is_empty() {
        let names: Vec<String> = found.also.iter().map(|entry| called(entry)).collect();
        out["also"] = json!(names);
        out["hint"] = json!(
            "no tool has all of these words: where none of them fits, ask for an action and a \
             thing, by other words, or see `describe_tool` for one of `also`"
        );
    }
    Ok(out)
}

fn describe_tool(
    gateway: &Gateway,
    client: &Client,
    arguments: &Map<String, Value>,
) -> Result<WrittenValue, String> {
    only(arguments, &["name"])?;
    let name = text(arguments, "name")?.ok_or("`name` is missing: a text")?;
    let (view, principal) = (gateway.host.snapshot(), client.principal());
    let catalog = gateway.catalog(client, &view);
    let is_seen = |entry: &ClientEntry| {
        gateway.host.is_visible(&principal, &entry.server, (TargetKind::Tool, &entry.original))
    };
    if let Some(own) = OwnTool::from_name(&name) {
        return Ok(own.definition().into());
    }
    let entry = catalog.named(TargetKind::Tool, &name, is_seen).filter(|entry| is_seen(entry));
    let Some(entry) = entry else {
        let what = (PolicyAction::List, TargetKind::Tool);
        let refused = gateway.look_up(client, what, &name).err();
        let absent = format!("there is no `{}`", base::SafeText::line(&name));
        return Err(refused.map_or(absent, |(_, outside)| outside.message().to_owned()));
    };
    let mut raw = entry.raw.clone();
    raw.insert("name", json!(called(entry)));
    gateway.found.of_client(client).add(&[entry]);
    Ok(raw)
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

fn text_result(done: Result<impl Serialize, String>) -> Value {
    let written = done.and_then(|it| serde_json::to_string(&it).map_err(|why| why.to_string()));
    let (text, is_error) = match written {
        Ok(text) => (text, false),
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
    use std::sync::Arc;

    use base::ServerName;

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
        ClientEntry { name: name.to_owned(), server, original, raw: raw.into(), hops: 0 }
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
