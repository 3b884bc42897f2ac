//! What of an effective configuration is worth reading: what a file says, and what differs from
//! its default for another reason. Pure.

use serde_json::{Map, Value};

use super::entry;
use crate::config::diagnostics::child;
use crate::config::{Loaded, ServerConfig};

/// The part of `whole`, the effective configuration of `loaded`, that is not left to defaults.
/// Every server keeps its entry.
pub(super) fn of(loaded: &Loaded, whole: &Value) -> Value {
    let mut out = Map::new();
    for (key, value) in whole.as_object().into_iter().flatten() {
        if key == "servers" {
            let kept = value.as_object().into_iter().flatten().map(|(name, entry)| {
                let pointer = child("/servers", name);
                let defaults = loaded.config.servers.get(name.as_str()).map(defaults_of);
                (name.clone(), object(loaded, entry, &pointer, defaults.as_ref()))
            });
            out.insert(key.clone(), kept.collect());
        } else if loaded.origins.contains_key(&child("", key)) {
            out.insert(key.clone(), value.clone());
        }
    }
    Value::Object(out)
}

/// The pointer of what the file says of a value: its own, or that of the object, key or entry around
/// it, where one word says more than one value.
pub(super) fn nearest<'p>(loaded: &Loaded, pointer: &'p str) -> &'p str {
    let around = std::iter::successors(Some(pointer), |p| p.rsplit_once('/').map(|(up, _)| up));
    around.into_iter().find(|p| loaded.origins.contains_key(*p)).unwrap_or(pointer)
}

/// An entry that is reached the same way and says nothing else; without what is said of the way,
/// which is nobody's default.
fn defaults_of(server: &ServerConfig) -> Value {
    let mut bare = entry(&ServerConfig::new(server.name.clone(), server.transport.clone()));
    for key in ["command", "args", "env", "url", "headers"] {
        bare.shift_remove(key);
    }
    Value::Object(bare)
}

/// What is kept of an object; each part by its own origin and default.
fn object(loaded: &Loaded, value: &Value, pointer: &str, default: Option<&Value>) -> Value {
    let parts = value.as_object().into_iter().flatten();
    let kept: Map<String, Value> = parts
        .filter_map(|(key, value)| {
            let default = default.and_then(|all| all.get(key));
            let part = Part { key, value, pointer: &child(pointer, key), default };
            Some((key.clone(), part.kept(loaded)?))
        })
        .collect();
    Value::Object(kept)
}

/// One value of an entry.
struct Part<'a> {
    key: &'a str,
    value: &'a Value,
    pointer: &'a str,
    default: Option<&'a Value>,
}

impl Part<'_> {
    fn kept(&self, loaded: &Loaded) -> Option<Value> {
        let Self { key, value, pointer, default } = *self;
        let said = loaded.origins.contains_key(pointer);
        let differs = default != Some(value);
        let keep = match value {
            Value::Object(map) if !map.is_empty() => {
                let kept = object(loaded, value, pointer, default);
                let any = kept.as_object().is_some_and(|kept| !kept.is_empty());
                // One word may say a whole object: `"cache": true`.
                return if any { Some(kept) } else { said.then(|| value.clone()) };
            }
            // A list is one thing: half of the arguments would be another command.
            Value::Array(list) if !list.is_empty() => {
                let from_file = |i| loaded.origins.contains_key(&format!("{pointer}/{i}"));
                said || differs || (0..list.len()).any(from_file)
            }
            Value::Object(_) | Value::Array(_) => said || (differs && default.is_some()),
            // How it is reached shows, and it runs where its file is.
            _ if matches!(key, "type" | "cwd") => said,
            _ => said || differs,
        };
        keep.then(|| value.clone())
    }
}
