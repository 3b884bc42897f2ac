//! The settings of an entry that do not depend on its transport: brought by the table of keys into
//! the form that serde reads, then checked for what the table cannot say.

use globset::Glob;
use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::reader::{Entry, Place, Reader};
use crate::base::ServerName;
use crate::config::diagnostics::child;
use crate::config::schema::VERSIONS;
use crate::config::syntax::Node;
use crate::config::{ProtocolChoice, RootConfig, ServerConfig, Severity};

/// Settings that may be written short, and the key within them that is meant.
const SHORT: [(&str, &str); 4] =
    [("restart", "policy"), ("cache", "enabled"), ("guard", "default"), ("tools", "allow")];

/// The server with all these settings, but for its transport: that stands for a process that is
/// never run.
pub(crate) fn read(
    entry: &Entry<'_>,
    reader: &mut Reader<'_, '_>,
    mut set: Map<String, Value>,
) -> ServerConfig {
    for path in [&["tools"][..], &["tools", "allow"], &["tools", "deny"], &["dev", "watch"]] {
        globs(entry, reader, &set, path);
    }
    if set.get("tools").is_some_and(|tools| *tools == json!([])) {
        set.insert("tools".to_owned(), json!({ "deny": ["*"] }));
    }
    for (key, meant) in SHORT {
        if let Some(short) = set.get_mut(key).filter(|value| !value.is_object()) {
            *short = json!({ meant: short.take() });
        }
    }
    let on_demand = set.get("start").is_some_and(|start| start == "onDemand");
    set.insert("start".to_owned(), json!(on_demand));
    dev(entry, reader, &mut set);
    let limits = set.get("limits").cloned().unwrap_or_else(|| json!({}));
    let retry = set.contains_key("retry");
    let mut server: ServerConfig = reader.part(entry, &Value::Object(set));
    server.name = entry.name.clone();
    server.retry.is_given = retry;
    server.content = reader.part(entry, &limits);
    let names = server.dependencies.iter().map(|name| ServerName::new(name.as_str()));
    server.dependencies = names.collect::<IndexSet<_>>().into_iter().collect();
    let idle = ["idleStop", "idleStopMs"].into_iter().find(|key| entry.node.get(key).is_some());
    if let (Some(key), false) = (idle, on_demand) {
        let message = format!("`{key}` means nothing without `\"start\": \"onDemand\"`");
        reader.report(("config/unused-key", Severity::Warning), entry, key, message);
    }
    if let ProtocolChoice::Version(version) = &server.protocol
        && !VERSIONS.contains(&version.as_str())
    {
        let message = format!("no version `{version}` of the specification is known");
        reader
            .report(("config/protocol", Severity::Warning), entry, "protocol", message)
            .help(format!("known are {}", VERSIONS.join(", ")));
    }
    roots(entry, reader, &mut server);
    server
}

/// Reports texts under `path` that are no globs.
fn globs(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, set: &Map<String, Value>, path: &[&str]) {
    let Some(node) = path.iter().try_fold(entry.node, |node, key| node.get(key)) else { return };
    let pointer = path.iter().fold(entry.pointer.clone(), |at, key| child(&at, key));
    let many = node.elements().iter().enumerate().map(|(i, e)| (e, format!("{pointer}/{i}")));
    let nodes = many.chain(node.text().map(|_| (node, pointer.clone())));
    let Some(first) = set.get(path[0]) else { return };
    let Some(found) = path[1..].iter().try_fold(first, |value, key| value.get(key)) else { return };
    let found = found.as_array().map_or(std::slice::from_ref(found), Vec::as_slice);
    for ((node, pointer), glob) in nodes.zip(found) {
        if let Some(Err(error)) = glob.as_str().map(Glob::new) {
            let message = format!("this is not a glob: {}", error.kind());
            reader.problems.error("config/glob", &node.range, &pointer, message);
        }
    }
}

/// What may be written as one text is a list from here on: a glob, the words of a command.
fn dev(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, set: &mut Map<String, Value>) {
    let Some(dev) = set.get_mut("dev").filter(|dev| dev.is_object()) else { return };
    if dev["watch"].is_string() {
        dev["watch"] = json!([dev["watch"].take()]);
    }
    let Some(node) = entry.node.get("dev").and_then(|dev| dev.get("build")) else { return };
    let pointer = entry.place().child("dev").child("build").pointer;
    if let Some(line) = dev["build"].as_str().map(str::to_owned) {
        if line.contains(['"', '\'', '\\', '|', '&', ';', '<', '>', '$', '`', '*']) {
            let message = "`build` is run without a shell, and this text needs one";
            let problem =
                reader.problems.error("config/needs-shell", &node.range, &pointer, message);
            problem.help("write it as a list: [\"program\", \"argument\"]");
        }
        dev["build"] = line.split_whitespace().collect();
    }
    if dev["build"] == json!([]) {
        let message = "`build` names no program";
        reader.problems.error("config/empty", &node.range, &pointer, message);
    }
}

fn roots(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    let place = entry.place().child("roots");
    let elements = entry.node.get("roots").map(Node::elements).unwrap_or_default();
    for (i, element) in elements.iter().enumerate() {
        let place = place.child(&i.to_string());
        let (uri_node, uri_place) = match element.get("uri") {
            Some(uri) => (uri, Place { pointer: child(&place.pointer, "uri"), ..place.clone() }),
            None => (element, place.clone()),
        };
        let Some(text) = reader.expanded(uri_node, &uri_place) else { continue };
        let name = element.get("name").and_then(|n| reader.expanded(n, &place.child("name")));
        match root_uri(&text, reader) {
            Ok(uri) => out.roots.push(RootConfig { uri, name }),
            Err(message) => {
                reader
                    .problems
                    .error("config/root", &uri_node.range, &uri_place.pointer, message)
                    .help("write a folder, or a `file://` URI");
            }
        }
    }
}

/// A root as a `file://` URI; relative folders start at the file's.
fn root_uri(text: &str, reader: &Reader<'_, '_>) -> Result<String, String> {
    if let Some((scheme, _)) = text.split_once("://") {
        let parsed = url::Url::parse(text).map_err(|e| format!("this is not a URI: {e}"))?;
        if scheme.eq_ignore_ascii_case("file") {
            return Ok(parsed.into());
        }
        return Err(format!("a root must be a folder, not a `{scheme}:` address"));
    }
    let path = crate::config::environment::clean(&reader.folder.join(text));
    url::Url::from_directory_path(&path)
        .map(|url| url.as_str().trim_end_matches('/').to_owned())
        .map_err(|()| "this is not an absolute folder".to_owned())
}
