//! Converts another program's entry to ours, key by key. Pure.

use serde_json::{Map, Value, json};

use crate::import::{ImportHost, insert};
use crate::keys::SERVER;

/// Converts one entry. `None` when it names neither a command nor an address.
pub(super) fn convert(
    host: ImportHost,
    name: &str,
    entry: &Map<String, Value>,
    notes: &mut Vec<String>,
) -> Option<Map<String, Value>> {
    let mut left = entry.clone();
    let mut out = Map::new();
    transport(host, &mut left, &mut out)?;
    common(&mut left, &mut out);
    for (theirs, ours) in keys(host) {
        match (left.remove(*theirs), ours.strip_prefix("tools.")) {
            (Some(value), None) => insert(&mut out, ours, Some(value)),
            (Some(value), Some(rule)) => tools(list(Some(value)), rule, &mut out),
            (None, _) => {}
        }
    }
    match host {
        ImportHost::Codex => codex(&mut left, &mut out, (name, notes)),
        ImportHost::Zed => zed(&mut left),
        ImportHost::VsCode => own_keys(&mut left, &mut out),
        _ => {}
    }
    let (disabled, others) = (left.remove("disabled"), ["enabled", "isActive"]);
    let is_off = others.map(|key| left.remove(key) == Some(Value::Bool(false)));
    out.shift_remove("enabled");
    out.shift_remove("isActive");
    if disabled.map_or(is_off.contains(&true), |disabled| disabled == Value::Bool(true)) {
        out.insert("disabled".to_owned(), Value::Bool(true));
    }
    references(host, &mut out);
    let ignored: Vec<&str> = left.keys().map(String::as_str).collect();
    if !ignored.is_empty() {
        notes.push(format!("`{name}`: {} has no counterpart here", ignored.join(", ")));
    }
    Some(out)
}

/// Takes over the command, or the address with its transport type.
fn transport(
    host: ImportHost,
    left: &mut Map<String, Value>,
    out: &mut Map<String, Value>,
) -> Option<()> {
    if host == ImportHost::Zed {
        flatten_command(left);
    }
    let declared = left
        .remove("type")
        .or_else(|| left.remove("transportType"))
        .or_else(|| left.remove("transport"))
        .and_then(|value| value.as_str().map(str::to_owned));
    let urls = [("httpUrl", "http"), ("url", ""), ("serverUrl", "")];
    let url = urls.into_iter().find_map(|(key, kind)| Some((key, kind, left.remove(key)?)));
    if let Some(command) = left.remove("command").filter(Value::is_string)
        && url.is_none()
    {
        out.insert("command".to_owned(), command);
        return Some(());
    }
    let (key, kind, url) = url?;
    let address = url.as_str()?.to_owned();
    let kind = match (declared.as_deref(), kind) {
        (Some("sse"), _) => "sse",
        (Some("ws" | "websocket"), _) => "websocket",
        (Some(_), _) | (None, "http") => "http",
        // Gemini CLI keeps `url` for the older transport.
        (None, _) if host == ImportHost::GeminiCli && key == "url" => "sse",
        (None, _) if address.trim_end_matches('/').ends_with("/sse") => "sse",
        (None, _) => "http",
    };
    out.insert("type".to_owned(), json!(kind));
    out.insert("url".to_owned(), url);
    Some(())
}

/// Zed once wrote `command` as an object.
fn flatten_command(left: &mut Map<String, Value>) {
    if left.get("command").is_some_and(Value::is_object) {
        let mut command = map(left.remove("command"));
        insert(left, "command", command.remove("path"));
        insert(left, "args", command.remove("args"));
        insert(left, "env", command.remove("env").filter(|env| !env.is_null()));
    }
}

/// Keys with the same name everywhere.
fn common(left: &mut Map<String, Value>, out: &mut Map<String, Value>) {
    for key in ["args", "env", "envFile", "cwd", "headers"] {
        let value = left.remove(key);
        let empty = value
            .as_ref()
            .is_some_and(|v| v.is_null() || v.as_object().is_some_and(Map::is_empty) || v == "");
        insert(out, key, value.filter(|_| !empty));
    }
}

/// Keys VS Code shares with us.
fn own_keys(left: &mut Map<String, Value>, out: &mut Map<String, Value>) {
    let own = |key: &&String| {
        let is_switch = ["disabled", "enabled", "isActive"].contains(&key.as_str());
        !is_switch && SERVER.keys.iter().any(|k| k.name == **key)
    };
    let known: Vec<String> = left.keys().filter(own).cloned().collect();
    for key in known {
        insert(out, &key, left.remove(&key));
    }
}

/// A program's keys and our equivalents. Tool lists become rules of `tools`.
const fn keys(host: ImportHost) -> &'static [(&'static str, &'static str)] {
    match host {
        ImportHost::Cline | ImportHost::Zed => &[("timeout", "timeout")],
        // Milliseconds there, seconds here.
        ImportHost::ClaudeCode | ImportHost::Cursor => &[("timeout", "timeoutMs")],
        ImportHost::GeminiCli => &[
            ("timeout", "timeoutMs"),
            ("includeTools", "tools.allow"),
            ("excludeTools", "tools.deny"),
        ],
        ImportHost::Windsurf => &[("disabledTools", "tools.deny")],
        ImportHost::Codex => &[
            ("tool_timeout_sec", "timeout"),
            ("startup_timeout_sec", "startupTimeout"),
            ("startup_timeout_ms", "startupTimeoutMs"),
            ("enabled_tools", "tools.allow"),
            ("disabled_tools", "tools.deny"),
        ],
        ImportHost::ClaudeDesktop | ImportHost::VsCode => &[],
    }
}

fn zed(left: &mut Map<String, Value>) {
    left.remove("source");
    if left.get("settings").and_then(Value::as_object).is_some_and(Map::is_empty) {
        left.remove("settings");
    }
}

fn codex(
    left: &mut Map<String, Value>,
    out: &mut Map<String, Value>,
    (name, notes): (&str, &mut Vec<String>),
) {
    if out.contains_key("startupTimeoutMs") {
        out.shift_remove("startupTimeout");
    }
    let mut headers = map(left.remove("http_headers"));
    for (header, variable) in map(left.remove("env_http_headers")) {
        if let Some(variable) = variable.as_str() {
            headers.insert(header, json!(marked(variable)));
        }
    }
    if let Some(variable) = left.remove("bearer_token_env_var").as_ref().and_then(Value::as_str) {
        headers.insert("Authorization".to_owned(), json!(format!("Bearer {}", marked(variable))));
    }
    if !headers.is_empty() {
        out.insert("headers".to_owned(), Value::Object(headers));
    }
    let forwarded: Vec<String> = list(left.remove("env_vars"));
    if !forwarded.is_empty() {
        let mut env = map(out.remove("env"));
        for variable in forwarded {
            env.insert(variable.clone(), json!(marked(&variable)));
        }
        out.insert("env".to_owned(), Value::Object(env));
        notes.push(format!("`{name}`: forwarded variables must be set now, or given a default"));
    }
}

/// A list of tools by name: `tools.allow` and `tools.deny` are globs, so names are escaped.
fn tools(names: Vec<String>, rule: &str, out: &mut Map<String, Value>) {
    if !names.is_empty() {
        let globs: Vec<String> = names.iter().map(|tool| globset::escape(tool)).collect();
        out.entry("tools").or_insert_with(|| json!({}))[rule] = json!(globs);
    }
}

fn map(value: Option<Value>) -> Map<String, Value> {
    if let Some(Value::Object(map)) = value { map } else { Map::new() }
}

fn list(value: Option<Value>) -> Vec<String> {
    let list = value.and_then(|v| v.as_array().cloned()).unwrap_or_default();
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Marks a reference we generated, so that it is not mistaken for text of the other program.
const OURS: char = '\u{e000}';

fn marked(variable: &str) -> String {
    format!("{OURS}{{{variable}}}")
}

/// Rewrites references so that they keep their meaning.
fn references(host: ImportHost, out: &mut Map<String, Value>) {
    for value in out.values_mut() {
        rewrite(value, &|text| {
            let text = match host {
                // These programs do not expand references.
                ImportHost::ClaudeDesktop | ImportHost::Codex | ImportHost::Zed => {
                    text.replace("${", "$${")
                }
                ImportHost::GeminiCli => dollar_names(text),
                _ => text.to_owned(),
            };
            text.replace(OURS, "$")
        });
    }
}

fn rewrite(value: &mut Value, change: &dyn Fn(&str) -> String) {
    match value {
        Value::String(text) => *text = change(text),
        Value::Array(list) => list.iter_mut().for_each(|item| rewrite(item, change)),
        Value::Object(map) => map.values_mut().for_each(|item| rewrite(item, change)),
        _ => {}
    }
}

/// `$NAME` becomes `${NAME}`, as Gemini CLI reads it.
fn dollar_names(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(i) = rest.find('$') {
        let (before, after) = rest.split_at(i);
        out.push_str(before);
        let name_end = after
            .char_indices()
            .skip(1)
            .find(|(_, c)| !c.is_ascii_alphanumeric() && *c != '_')
            .map_or(after.len(), |(i, _)| i);
        let name = after.get(1..name_end).unwrap_or_default();
        if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            out.extend(["${", name, "}"]);
            rest = after.get(name_end..).unwrap_or_default();
        } else {
            out.push('$');
            rest = after.get(1..).unwrap_or_default();
        }
    }
    out.push_str(rest);
    out
}
