//! The effective configuration for reading: settings with their values and where they come from
//! (`mcpdeck config`). Secrets are masked.

use std::borrow::Borrow;
use std::fmt::Write;

use serde_json::{Map, Value, json};

use super::mask::{masked_address, masked_arguments};
use super::{
    HttpConfig, Loaded, OAuthConfig, OAuthGrant, OpenApiConfig, ReloadMode, RootConfig,
    ServerConfig, StdioConfig, TlsConfig, TransportConfig,
};
use base::pointer::child_pointer;
use base::secret::MASK;
use base::{Redactor, SafeText, Secret};

/// The effective configuration as one document, defaults written out, secrets masked. Loading it
/// gives the same servers, except for the masked values.
pub fn effective(loaded: &Loaded) -> Value {
    let servers = server_entries(loaded.config.servers.values());
    json!({ "reload": loaded.config.reload, "servers": servers })
}

/// The entries of servers by name, defaults written out, secrets masked.
pub fn server_entries(servers: impl Iterator<Item = impl Borrow<ServerConfig>>) -> Value {
    let shown = servers.map(|server| {
        let server = server.borrow();
        (server.name.to_string(), Value::Object(entry(server)))
    });
    Value::Object(shown.collect())
}

/// How much of the effective configuration is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrintDetail {
    /// What a file sets, and what differs from its default for another reason.
    Set,
    /// Every value.
    All,
}

/// The same as text, each value followed by its origin as a comment. Leaving out defaults changes
/// nothing: loading the text gives the same servers either way.
///
/// ```text
/// "timeout": 30, // default
/// "command": "npx", // mcp.json:4:18
/// "TOKEN": "***", // env:GITHUB_TOKEN, mcp.json:6:28
/// ```
pub fn effective_text(loaded: &Loaded, detail: PrintDetail) -> String {
    let mut out = "{".to_owned();
    let reload = json!(loaded.config.reload);
    let is_default = loaded.config.reload == ReloadMode::default();
    let is_reload_set = !is_default || loaded.origins.contains_key("/reload");
    if detail == PrintDetail::All || is_reload_set {
        out.push_str("\n  \"reload\": ");
        let origin = |pointer: &str| origin_of_value(loaded, is_reload_set, pointer);
        write_value(&mut out, &reload, ("/reload", 1, false), &origin);
    }
    out.push_str("\n  \"servers\": ");
    let servers = &loaded.config.servers;
    if servers.is_empty() {
        let origin = |pointer: &str| origin_of_value(loaded, true, pointer);
        write_value(&mut out, &json!({}), ("/servers", 1, true), &origin);
    } else {
        // One at a time: the values of all of them may be many.
        let mut before = '{';
        for server in servers.values() {
            let PrintedEntry { pointer, whole, set } = PrintedEntry::new(loaded, server);
            let shown = match detail {
                PrintDetail::All => Some(&whole),
                PrintDetail::Set => set.as_ref(),
            };
            let Some(shown) = shown else { continue };
            out.push(before);
            before = ',';
            let name = SafeText::line(&json!(server.name).to_string());
            let _ = write!(out, "\n    {name}: ");
            let origin = |place: &str| {
                let own = place.strip_prefix(&pointer).unwrap_or_default();
                let is_set = set.as_ref().is_some_and(|set| set.pointer(own).is_some());
                origin_of_value(loaded, is_set, place)
            };
            write_value(&mut out, shown, (&pointer, 2, true), &origin);
        }
        out.push_str(if before == '{' { "{}" } else { "\n  }" });
    }
    out.push_str("\n}\n");
    out
}

/// A server's entry for reading.
pub(crate) struct PrintedEntry {
    /// Where it is.
    pub(crate) pointer: String,
    /// Every value.
    pub(crate) whole: Value,
    /// Those that are not at their default: what a file sets, and what differs from its default for
    /// another reason.
    pub(crate) set: Option<Value>,
}

impl PrintedEntry {
    /// The entry of a server of `loaded`.
    pub(crate) fn new(loaded: &Loaded, server: &ServerConfig) -> Self {
        let pointer = child_pointer("/servers", server.name.as_str());
        let whole = Value::Object(entry(server));
        let set = printed_part(loaded, &pointer, &whole, Some(&defaults_of(server)));
        Self { pointer, whole, set }
    }
}

/// The origin of a value in effect as text: its own, or that of the enclosing object, key or entry
/// when one setting sets several values. `is_set` tells that it is not a default.
pub(crate) fn origin_of_value(loaded: &Loaded, is_set: bool, pointer: &str) -> String {
    if !is_set {
        return "default".to_owned();
    }
    let mut around = std::iter::successors(Some(pointer), |p| p.rsplit_once('/').map(|(up, _)| up));
    let nearest = around.find(|p| loaded.origins.contains_key(*p));
    origin_in_words(loaded, nearest.unwrap_or(pointer))
}

/// The origin of a value as text.
pub fn origin_in_words(loaded: &Loaded, pointer: &str) -> String {
    let Some(origin) = loaded.origins.get(pointer) else { return "default".to_owned() };
    let mut parts = origin.via.clone();
    if origin.at.line > 0 && !origin.at.file.as_os_str().is_empty() {
        parts.push(origin.at.to_string());
    } else if parts.is_empty() {
        parts.push("command line".to_owned());
    }
    SafeText::line(&parts.join(", ")).as_str().to_owned()
}

fn write_value(
    out: &mut String,
    value: &Value,
    (pointer, depth, last): (&str, usize, bool),
    origin: &dyn Fn(&str) -> String,
) {
    let comma = if last { "" } else { "," };
    let indent = "  ".repeat(depth + 1);
    let close = "  ".repeat(depth);
    let (brackets, parts): (_, Vec<(Option<&str>, String, &Value)>) = match value {
        Value::Object(map) => {
            let part = |(key, value)| (Some(key), child_pointer(pointer, key), value);
            (('{', '}'), map.iter().map(|(k, v)| part((k.as_str(), v))).collect())
        }
        Value::Array(list) => {
            let part = |(i, value)| (None, format!("{pointer}/{i}"), value);
            (('[', ']'), list.iter().enumerate().map(part).collect())
        }
        scalar => {
            let written = SafeText::line(&scalar.to_string());
            let _ = write!(out, "{written}{comma} // {}", origin(pointer));
            return;
        }
    };
    out.push(brackets.0);
    if parts.is_empty() {
        let _ = write!(out, "{}{comma} // {}", brackets.1, origin(pointer));
        return;
    }
    let count = parts.len();
    for (i, (key, pointer, value)) in parts.into_iter().enumerate() {
        let _ = write!(out, "\n{indent}");
        if let Some(key) = key {
            let _ = write!(out, "{}: ", SafeText::line(&json!(key).to_string()));
        }
        write_value(out, value, (&pointer, depth + 1, i + 1 == count), origin);
    }
    let _ = write!(out, "\n{close}{}{comma}", brackets.1);
}

fn entry(server: &ServerConfig) -> Map<String, Value> {
    let secrets = server.secrets();
    let masks = ServerMasks { redactor: Redactor::new(secrets.clone()), secrets };
    let mut out = Map::new();
    let mut put = |key: &str, value: Value| {
        out.insert(key.to_owned(), value);
    };
    put("type", json!(server.transport.kind().as_str()));
    match &server.transport {
        TransportConfig::Stdio(stdio) => process(stdio, &masks, &mut put),
        other => {
            if let TransportConfig::OpenApi(api) = other {
                openapi(api, &masks, &mut put);
            }
            let http = other.http().into_iter();
            http.for_each(|http| address(http, &masks, &mut put));
        }
    }
    let mut settings = json!(server);
    settings["limits"] = limits(server);
    settings["roots"] = server.roots.iter().map(root).collect();
    if server.on_demand {
        settings["start"] = json!("onDemand");
    }
    for (key, value) in settings.as_object_mut().into_iter().flatten() {
        if server.on_demand || !["start", "idleStop"].contains(&key.as_str()) {
            put(key, value.take());
        }
    }
    // Written, it would say that calls go there; the document says where.
    if matches!(&server.transport, TransportConfig::OpenApi(api) if api.finds_base) {
        out.shift_remove("url");
    }
    out
}

/// What is masked where a configuration is printed.
struct ServerMasks {
    redactor: Redactor,
    secrets: Vec<Secret>,
}

impl ServerMasks {
    /// A value as a whole: plain words, numbers, paths and addresses are shown.
    fn value(&self, value: &Secret) -> Value {
        let text = value.expose();
        let is_hidden = self.secrets.contains(value) || self.redactor.redact(text) != text;
        json!(if is_hidden { MASK } else { text })
    }
}

fn process(stdio: &StdioConfig, masks: &ServerMasks, put: &mut dyn FnMut(&str, Value)) {
    let shown = |text: &str| masks.redactor.redact(text).into_owned();
    let args: Vec<String> = stdio.args.iter().map(|arg| shown(arg)).collect();
    put("command", json!(shown(&stdio.command)));
    put("args", json!(masked_arguments(&args)));
    put("env", stdio.env.iter().map(|(name, it)| (name.clone(), masks.value(it))).collect());
    if let Some(cwd) = &stdio.cwd {
        put("cwd", json!(cwd.display().to_string()));
    }
    put("inheritEnv", json!(stdio.inherit_env));
}

fn address(http: &HttpConfig, masks: &ServerMasks, put: &mut dyn FnMut(&str, Value)) {
    put("url", json!(masked_address(&masks.redactor.redact(http.url.as_str()))));
    put("headers", http.headers.iter().map(|(name, it)| (name.clone(), masks.value(it))).collect());
    let oauth = &http.oauth;
    if oauth.off {
        put("oauth", json!(false));
    } else if **oauth != OAuthConfig::default() {
        let mut out = json!(oauth);
        if oauth.grant != OAuthGrant::default() {
            out["grant"] = json!(oauth.grant.as_str());
        }
        let out = masks.redactor.redact_json(&out).unwrap_or(out);
        put("oauth", out);
    }
    if http.tls != TlsConfig::default() {
        put("tls", json!(http.tls));
    }
}

fn openapi(api: &OpenApiConfig, masks: &ServerMasks, put: &mut dyn FnMut(&str, Value)) {
    let mut out = json!({
        "document": masked_address(&masks.redactor.redact(&api.document.text())),
    });
    for (key, globs) in [("tags", &api.tags), ("operations", &api.operations)] {
        if !globs.is_empty() {
            out[key] = json!(globs);
        }
    }
    put("openapi", out);
}

fn limits(server: &ServerConfig) -> Value {
    let mut all = Map::new();
    let process = match &server.transport {
        TransportConfig::Stdio(stdio) => json!(stdio.limits),
        _ => Value::Null,
    };
    for part in [json!(server.wire), json!(server.content), process] {
        all.extend(part.as_object().cloned().unwrap_or_default());
    }
    all.into()
}

fn root(root: &RootConfig) -> Value {
    match &root.name {
        Some(name) => json!({ "uri": root.uri, "name": name }),
        None => json!(root.uri),
    }
}

/// The entry of a server with the same transport and nothing else set. What is run has no default:
/// an entry may express it differently from the value in effect (`launch`).
fn defaults_of(server: &ServerConfig) -> Value {
    let mut transport = server.transport.clone();
    if let TransportConfig::Stdio(stdio) = &mut transport {
        stdio.command.clear();
        stdio.args.clear();
    }
    entry(&ServerConfig::new(server.name.clone(), transport)).into()
}

/// The part of a value that is printed: the kept parts of an object; all or nothing of a list,
/// because half of the arguments would be a different command.
fn printed_part(
    loaded: &Loaded,
    pointer: &str,
    value: &Value,
    default: Option<&Value>,
) -> Option<Value> {
    let is_set = |pointer: &str| loaded.origins.contains_key(pointer);
    if let Value::Object(map) = value
        && !map.is_empty()
    {
        let parts = map.iter().filter_map(|(key, value)| {
            let default = default.and_then(|all| all.get(key));
            Some((key.clone(), printed_part(loaded, &child_pointer(pointer, key), value, default)?))
        });
        let parts: Map<_, _> = parts.collect();
        // A short form may set a whole object: `"cache": true`.
        let whole = || is_set(pointer).then(|| value.clone());
        return if parts.is_empty() { whole() } else { Some(parts.into()) };
    }
    let mut elements = (0..value.as_array().map_or(0, Vec::len)).map(|i| format!("{pointer}/{i}"));
    let keep = is_set(pointer) || default != Some(value) || elements.any(|p| is_set(&p));
    keep.then(|| value.clone())
}
