//! What is fuzzed, how, and with what: the settings of the file and those of the command line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::stage::BenchSource;

/// The seed by default: the same cases every time.
pub const DEFAULT_SEED: u64 = 1;
/// Calls of a tool by default.
pub const DEFAULT_CASES: usize = 300;
/// Most calls of a tool.
pub const MAX_FUZZ_CASES: usize = 100_000;
/// How long a call may take by default.
pub const DEFAULT_CALL_TIMEOUT: Duration = Duration::from_secs(3);

/// `fuzz` in `mcp.tests.json`: what cannot be seen from the schemas.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FuzzSettings {
    /// Arguments to start from, by tool (`server.tool`), where a schema does not lead to any that
    /// the tool accepts.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, Map<String, Value>>")]
    pub seeds: IndexMap<String, Map<String, Value>>,
    /// How the effect of a tool can be seen, by tool: the tool that shows it. A read-only tool must
    /// not change what that shows; an idempotent one must not change it the second time.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, ClaimObserver>")]
    pub claims: IndexMap<String, ClaimObserver>,
    /// How much it matters that invalid arguments are accepted [default: note].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accepted: Option<check::expect::Level>,
    /// Tools that may be called although they are not annotated read-only; globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// Tools that are never called; globs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skip: Vec<String>,
    /// The folder that a server works in, by server, relative to this file: each copy of the server
    /// gets a copy of it, made anew at each start. What leads into it (arguments, values of `env`,
    /// `cwd`) leads into that copy.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub folders: IndexMap<String, PathBuf>,
}

/// The folder that relative paths of a file of tests begin at.
pub fn folder_of(tests: &Path) -> PathBuf {
    tests.parent().map(Path::to_owned).unwrap_or_default()
}

/// The tool that shows the effect of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClaimObserver {
    /// The tool of the same server, by its own name.
    pub tool: String,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub arguments: Map<String, Value>,
}

/// What is wrong with the settings beyond the schema: pointer and message.
pub fn fuzz_problems(settings: &FuzzSettings) -> Vec<(String, String)> {
    let mut wrong = Vec::new();
    for (key, globs) in [("allow", &settings.allow), ("skip", &settings.skip)] {
        for (index, glob) in globs.iter().enumerate() {
            let error = globset::Glob::new(glob).err();
            let error = error.map(|error| format!("not a glob: {}", error.kind()));
            wrong.extend(error.map(|error| (format!("/fuzz/{key}/{index}"), error)));
        }
    }
    wrong
}

/// Everything that fuzzing needs.
#[derive(Clone)]
pub struct FuzzPlan {
    /// The servers.
    pub source: BenchSource,
    /// The tools: names or globs (`server.tool`); every read-only one when empty.
    pub tools: Vec<String>,
    /// What the file says.
    pub settings: FuzzSettings,
    /// The folder of the file: relative paths in it begin there.
    pub beside: PathBuf,
    /// What the cases are drawn with.
    pub seed: u64,
    /// Most calls of a tool.
    pub cases: usize,
    /// How long a call may take.
    pub timeout: Duration,
    /// Whether every call gets a fresh copy of the server.
    pub fresh: bool,
    /// Whether tools are called one after the other with what earlier ones returned.
    pub sequences: bool,
}
