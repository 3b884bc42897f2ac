//! The settings of an entry that do not depend on its transport: converted by the table of keys to
//! the form that serde reads, then checked for what the table cannot express.

use indexmap::IndexSet;
use serde_json::{Map, Value, json};

use super::reader::EntryReader;
use crate::schema::CONFIG_VERSIONS;
use crate::{ProtocolChoice, ServerConfig, Severity};
use base::ServerName;

/// Settings with a short form, and the key within them that it sets.
const SHORT: [(&str, &str); 4] =
    [("restart", "policy"), ("cache", "enabled"), ("guard", "default"), ("tools", "allow")];

/// The server with all these settings; its transport is a placeholder that the caller replaces.
pub(crate) fn read(reader: &mut EntryReader<'_, '_>) -> ServerConfig {
    let mut set = std::mem::take(&mut reader.set);
    set.retain(|key, _| !["enabled", "isActive"].contains(&key.as_str()));
    if reader.entry.node.is_disabled() {
        set.insert("disabled".to_owned(), json!(true));
    }
    if set.get("tools").is_some_and(|tools| *tools == json!([])) {
        set.insert("tools".to_owned(), json!({ "deny": ["*"] }));
    }
    for (key, meant) in SHORT {
        if let Some(short) = set.get_mut(key).filter(|value| !value.is_object()) {
            *short = json!({ meant: short.take() });
        }
    }
    for root in set.get_mut("roots").and_then(Value::as_array_mut).into_iter().flatten() {
        if root.is_string() {
            *root = json!({ "uri": root.take() });
        }
    }
    let on_demand = set.get("start").is_some_and(|start| start == "onDemand");
    set.insert("start".to_owned(), json!(on_demand));
    dev(reader, &mut set);
    let limits = set.get("limits").cloned().unwrap_or_else(|| json!({}));
    let retry = set.contains_key("retry");
    let mut server: ServerConfig = reader.part(&Value::Object(set));
    server.name = reader.entry.name.clone();
    if retry {
        server.retry.is_given = true;
    }
    server.content = reader.part(&limits);
    let names = server.dependencies.iter().map(|name| ServerName::new(name.as_str()));
    server.dependencies = names.collect::<IndexSet<_>>().into_iter().collect();
    let idle =
        ["idleStop", "idleStopMs"].into_iter().find(|key| reader.entry.node.get(key).is_some());
    if let (Some(key), false) = (idle, on_demand) {
        let message = format!("`{key}` means nothing without `\"start\": \"onDemand\"`");
        reader.report(("config/unused-key", Severity::Warning), key, message);
    }
    if let ProtocolChoice::Version(version) = &server.protocol
        && !CONFIG_VERSIONS.contains(&version.as_str())
    {
        let message = format!("no version `{version}` of the specification is known");
        reader
            .report(("config/protocol", Severity::Warning), "protocol", message)
            .help(format!("known: {}", CONFIG_VERSIONS.join(", ")));
    }
    server
}

/// Turns single strings into lists: the glob to watch, the words of the build command.
fn dev(reader: &mut EntryReader<'_, '_>, set: &mut Map<String, Value>) {
    let Some(dev) = set.get_mut("dev").filter(|dev| dev.is_object()) else { return };
    if dev["watch"].is_string() {
        dev["watch"] = json!([dev["watch"].take()]);
    }
    let Some(node) = reader.entry.node.get("dev").and_then(|dev| dev.get("build")) else { return };
    let pointer = reader.entry.place().child("dev").child("build").pointer;
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
