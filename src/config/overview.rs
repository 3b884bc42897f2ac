//! The configuration laid out for reading: which files there are and what each contributes, and
//! every value in effect with its origin. Secrets are masked.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::discover::{Candidate, FileScope, candidates};
use crate::print::{PrintedEntry, origin_of_value};
use crate::{Diagnostic, Environment, Loaded, Sources, load};
use base::ServerName;
use base::pointer::child_pointer;

/// One file that could be a source of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is the project's or the user's.
    pub scope: FileScope,
    /// Its precedence among the files in use, 1 is the highest; `None` when it is not used.
    pub rank: Option<usize>,
    /// Servers it contributes, or would contribute.
    pub servers: Vec<ServerName>,
    /// Servers in it that a file of higher precedence replaces.
    pub replaced: Vec<ServerName>,
    /// Why it cannot be loaded.
    pub problem: Option<String>,
}

/// The files in use, highest precedence first, then those that were found but are not used.
pub fn source_files(files: &[PathBuf], env: &Environment, loaded: &Loaded) -> Vec<SourceFile> {
    let found = candidates(env);
    let same = |one: &Path, other: &Path| env.absolute(one) == env.absolute(other);
    // Only names are needed: no secret is requested and no helper is run.
    let without_sources = Environment { sources: Sources::default(), ..env.clone() };
    let names = |path: &PathBuf| -> Result<Vec<ServerName>, Vec<Diagnostic>> {
        let own = load(std::slice::from_ref(path), &without_sources)?;
        Ok(own.config.servers.keys().cloned().chain(own.left_out).collect())
    };
    let used = files.iter().rev().enumerate().map(|(n, path)| {
        let all = loaded.config.servers.values().filter(|server| server.at.file == *path);
        let servers: Vec<ServerName> = all.map(|server| server.name.clone()).collect();
        let mut replaced = if files.len() > 1 { names(path).unwrap_or_default() } else { vec![] };
        replaced.retain(|name| !servers.contains(name));
        let candidate = found.iter().find(|candidate| same(&candidate.path, path));
        let scope = candidate.map_or(FileScope::Project, |candidate| candidate.scope);
        let (path, rank) = (path.clone(), Some(n + 1));
        SourceFile { path, scope, rank, servers, replaced, problem: None }
    });
    let is_other = |c: &&Candidate| c.exists && !files.iter().any(|file| same(file, &c.path));
    let others = found.iter().filter(is_other).map(|candidate| {
        let (servers, problem) = match names(&candidate.path) {
            Ok(servers) => (servers, None),
            Err(problems) => (vec![], problems.first().map(ToString::to_string)),
        };
        let (path, scope) = (candidate.path.clone(), candidate.scope);
        SourceFile { path, scope, rank: None, servers, replaced: vec![], problem }
    });
    used.chain(others).collect()
}

/// The values of one server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerValues {
    /// The server.
    pub name: ServerName,
    /// Its values that are not at their default, in the order they are printed.
    pub set: Vec<EffectiveValue>,
    /// The others; most servers have the same ones, which are held once.
    pub defaults: Arc<[EffectiveValue]>,
}

/// One value in effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct EffectiveValue {
    /// Where it is, as in the file: `args[1]`, `env.TOKEN`, `limits.depth`.
    pub key: String,
    /// The value as JSON, strings without quotes; not sanitised for display.
    pub value: String,
    /// Where it comes from, safe to display; `default` when nothing sets it.
    pub origin: String,
}

impl EffectiveValue {
    /// Whether it is a default.
    pub fn is_default(&self) -> bool {
        self.origin == "default"
    }
}

/// Every value in effect, by server.
pub fn effective_values(loaded: &Loaded) -> Vec<ServerValues> {
    let mut known: HashSet<Arc<[EffectiveValue]>> = HashSet::new();
    let servers = loaded.config.servers.values().map(|server| {
        let PrintedEntry { pointer, whole, set } = PrintedEntry::new(loaded, server);
        let origin = |place: &str| {
            let own = place.strip_prefix(&pointer).unwrap_or_default();
            let is_set = set.as_ref().is_some_and(|set| set.pointer(own).is_some());
            origin_of_value(loaded, is_set, place)
        };
        let mut values = Vec::new();
        flatten(&whole, (String::new(), pointer.clone()), &origin, &mut values);
        let (defaults, set): (Vec<_>, Vec<_>) =
            values.into_iter().partition(EffectiveValue::is_default);
        let defaults = Arc::from(defaults);
        let defaults = known.get(&defaults).cloned().unwrap_or(defaults);
        known.insert(Arc::clone(&defaults));
        ServerValues { name: server.name.clone(), set, defaults }
    });
    servers.collect()
}

fn flatten(
    value: &Value,
    (key, pointer): (String, String),
    origin: &dyn Fn(&str) -> String,
    out: &mut Vec<EffectiveValue>,
) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (name, value) in map {
                let dot = if key.is_empty() { "" } else { "." };
                let place = (format!("{key}{dot}{name}"), child_pointer(&pointer, name));
                flatten(value, place, origin, out);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for (i, value) in list.iter().enumerate() {
                let place = (format!("{key}[{i}]"), format!("{pointer}/{i}"));
                flatten(value, place, origin, out);
            }
        }
        scalar => {
            let value = scalar.as_str().map_or_else(|| scalar.to_string(), str::to_owned);
            out.push(EffectiveValue { key, value, origin: origin(&pointer) });
        }
    }
}
