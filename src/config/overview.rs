//! The configuration laid out for reading: which files there are and what each contributes, and
//! every value in effect with its origin. Secrets are masked.

use std::path::PathBuf;

use serde_json::Value;

use crate::base::ServerName;
use crate::config::diagnostics::child;
use crate::config::discover::{Scope, candidates};
use crate::config::print::{effective, origin_in_words};
use crate::config::{Environment, Loaded, load};

/// One file that could be a source of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    /// Whose it is.
    pub scope: Scope,
    /// Its place among the files in use, 1 wins over all others; `None` when it is not used.
    pub rank: Option<usize>,
    /// Servers it contributes, or would contribute.
    pub servers: Vec<ServerName>,
    /// Servers in it that a file of higher precedence replaces.
    pub replaced: Vec<ServerName>,
    /// Why nothing of it can be read.
    pub problem: Option<String>,
}

/// The files in use, the one that wins first, then those that were found and are not used.
pub fn sources(files: &[PathBuf], env: &Environment, loaded: &Loaded) -> Vec<SourceFile> {
    let found = candidates(env);
    let scope_of = |path: &PathBuf| {
        let same = found.iter().find(|c| env.absolute(&c.path) == env.absolute(path));
        same.map_or(Scope::Project, |c| c.scope)
    };
    let read = |path: &PathBuf| load(std::slice::from_ref(path), env);
    let mut out: Vec<SourceFile> = files
        .iter()
        .rev()
        .enumerate()
        .map(|(n, path)| {
            let all = loaded.config.servers.values();
            let servers: Vec<ServerName> =
                all.filter(|s| s.at.file == *path).map(|s| s.name.clone()).collect();
            let mut replaced = Vec::new();
            if files.len() > 1
                && let Ok(own) = read(path)
            {
                let names = own.config.servers.into_keys().chain(own.left_out);
                replaced.extend(names.filter(|name| !servers.contains(name)));
            }
            let (scope, rank) = (scope_of(path), Some(n + 1));
            SourceFile { path: path.clone(), scope, rank, servers, replaced, problem: None }
        })
        .collect();
    let used = |path: &PathBuf| files.iter().any(|f| env.absolute(f) == env.absolute(path));
    for candidate in found.iter().filter(|c| c.exists && !used(&c.path)) {
        let (servers, problem) = match read(&candidate.path) {
            Ok(own) => (own.config.servers.into_keys().chain(own.left_out).collect(), None),
            Err(problems) => {
                let first = problems.first().map(|d| format!("{}: {}", d.at, d.message));
                (Vec::new(), first)
            }
        };
        out.push(SourceFile {
            path: candidate.path.clone(),
            scope: candidate.scope,
            rank: None,
            servers,
            replaced: Vec::new(),
            problem,
        });
    }
    out
}

/// The values of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerValues {
    /// The server.
    pub name: ServerName,
    /// Its values, in the order they are printed.
    pub values: Vec<EffectiveValue>,
}

/// One value in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveValue {
    /// Where it is, as in the file: `args[1]`, `env.TOKEN`, `limits.depth`.
    pub key: String,
    /// The value as JSON, texts without quotes; not made safe to draw.
    pub value: String,
    /// Where it comes from, safe to draw; `default` when nowhere.
    pub origin: String,
}

impl EffectiveValue {
    /// Whether it stands in no file.
    pub fn is_default(&self) -> bool {
        self.origin == "default"
    }
}

/// Every value in effect, by server.
pub fn values(loaded: &Loaded) -> Vec<ServerValues> {
    let whole = effective(loaded);
    let servers = whole.get("servers").and_then(Value::as_object).into_iter().flatten();
    servers
        .map(|(name, entry)| {
            let mut values = Vec::new();
            let pointer = child("/servers", name);
            flatten(entry, (String::new(), pointer), loaded, &mut values);
            ServerValues { name: ServerName::new(name), values }
        })
        .collect()
}

fn flatten(
    value: &Value,
    (key, pointer): (String, String),
    loaded: &Loaded,
    out: &mut Vec<EffectiveValue>,
) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                let dot = if key.is_empty() { "" } else { "." };
                let place = (format!("{key}{dot}{name}"), child(&pointer, name));
                flatten(value, place, loaded, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (i, value) in list.iter().enumerate() {
                let place = (format!("{key}[{i}]"), format!("{pointer}/{i}"));
                flatten(value, place, loaded, out);
            }
        }
        scalar => {
            let value = scalar.as_str().map_or_else(|| scalar.to_string(), str::to_owned);
            out.push(EffectiveValue { key, value, origin: origin_in_words(loaded, &pointer) });
        }
    }
}
