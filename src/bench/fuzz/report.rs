//! What fuzzing found, and what it did with each tool.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use check::Severity;
use check::subject::brief;

/// A call in a finding.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FuzzCall {
    /// The tool: `server.tool`.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzFinding {
    /// Its rule: `fuzz/crash`.
    pub rule: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// The server.
    pub server: String,
    /// The tool: `server.tool`.
    pub tool: String,
    /// JSON pointer of the odd value in the arguments; empty for none.
    pub place: String,
    /// What is odd: `above the maximum`.
    pub what: String,
    /// What happened.
    pub message: String,
    /// The calls that show it, the smallest that do.
    pub calls: Vec<FuzzCall>,
    /// How many cases showed it.
    pub count: u64,
}

/// What was done with one tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzedTool {
    /// The tool: `server.tool`.
    pub tool: String,
    /// Cases that were called.
    pub cases: u64,
    /// Cases there were.
    pub known: u64,
    /// Why it was not called, or not wholly.
    pub note: Option<String>,
}

/// The outcome of fuzzing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FuzzReport {
    /// The seed, to repeat it.
    pub seed: u64,
    /// Calls that were made.
    pub calls: u64,
    /// Calls for each second of the time that the servers had.
    pub calls_per_second: f64,
    /// The tools.
    pub tools: Vec<FuzzedTool>,
    /// What was found.
    pub findings: Vec<FuzzFinding>,
    /// Servers that could not be fuzzed, and settings that name what is not there; and why.
    pub failed: BTreeMap<String, String>,
}

impl FuzzFinding {
    /// What was found, on one line.
    pub fn line(&self) -> String {
        let place =
            if self.place.is_empty() { String::new() } else { format!(" at {}", self.place) };
        let call = self.calls.last().map(|call| call.arguments.to_string()).unwrap_or_default();
        format!(
            "{} {}{}: {} ({}); {}",
            self.rule,
            brief(&self.tool, 80),
            brief(&place, 80),
            self.message,
            brief(&self.what, 120),
            brief(&call, 200),
        )
    }
}
