//! A policy as it is written: `"policy"` in an mcp.json, or `mcpdeck.policy.json` beside it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The whole policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Policy of mcpdeck")]
pub struct PolicyConfig {
    /// Where editors find the schema of this file.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Whether rules and reviews hold for the dashboard, the command line and the library too.
    pub applies_to_person: bool,
    /// What may be used at all, by any profile; everything when empty. Grants nothing by itself.
    pub allow: Vec<RuleConfig>,
    /// What a person is asked about, for any profile.
    pub ask: Vec<RuleConfig>,
    /// What nobody may use. Wins over everything.
    pub deny: Vec<RuleConfig>,
    /// Limits of callers that are not the person.
    pub limits: LimitsConfig,
    /// The rule about private data, untrusted content and tools that send outside.
    pub trifecta: TrifectaConfig,
    /// A service that is asked before every call.
    pub hook: Option<HookConfig>,
    /// What single profiles may do; narrows what holds for all.
    pub profiles: BTreeMap<String, ProfileConfig>,
}

/// What one profile may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct ProfileConfig {
    /// What the profile may use, without a further grant; what is not named is not there for it.
    pub allow: Vec<RuleConfig>,
    /// What a person is asked about.
    pub ask: Vec<RuleConfig>,
    /// What it may not use.
    pub deny: Vec<RuleConfig>,
    /// Its limits, where they differ.
    pub limits: LimitsConfig,
}

/// A rule: a glob over `server.tool`, or more exactly.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a rule is a glob such as \"files.read_*\", or an object with `servers`, `tools`, `prompts`, `resources`, `readOnly`, `destructive` or `openWorld`"
)]
pub enum RuleConfig {
    /// Tools by their canonical name, `server.tool`.
    Tools(String),
    /// More exactly.
    Match(Box<RuleMatch>),
}

/// What a rule is about. All that is given must hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct RuleMatch {
    /// Servers by name. Alone, everything of them; with `tools` or `prompts`, those are then names
    /// within the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<Patterns>,
    /// Tools, `server.tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Patterns>,
    /// Prompts, `server.prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<Patterns>,
    /// Resources by URI, in its one spelling: `..`, `%2e`, capitals and other spellings of a file
    /// are decided alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Patterns>,
    /// Only tools that say they change nothing (`readOnlyHint`), or only others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Only tools that may destroy (`destructiveHint`; true when a tool does not say), or only
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Only tools that reach the outside world (`openWorldHint`; true when a tool does not say), or
    /// only others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    /// Why, for whoever reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One glob or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a glob, or a list of globs")]
pub enum Patterns {
    /// One.
    One(String),
    /// Any of them.
    Many(Vec<String>),
}

impl Patterns {
    /// The globs.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
        .iter()
        .map(String::as_str)
    }
}

/// Limits of callers that are not the person. What is left out has the default of the whole policy,
/// or the one named here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsConfig {
    /// Calls of one run (default 5); a run's own budget overrides it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_run: Option<u32>,
    /// Calls of one origin at once (default 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_at_once: Option<u32>,
    /// Longest call in seconds, without the time a person takes (default 30).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_timeout: Option<f64>,
    /// Calls of one tool by one origin in a minute (default 60).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    /// Largest arguments in bytes of JSON (default 1 MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_bytes: Option<usize>,
}

/// Within one run: data from a private source, then content that is not trusted, then a tool that
/// sends outside. The last is asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TrifectaConfig {
    /// Whether the rule holds.
    pub enabled: bool,
    /// Tools and resources whose results are private. Without any: tools that only read and reach
    /// no outside world, and every resource of a file.
    pub private: Vec<String>,
    /// Tools and resources whose results are not trusted. Without any: tools that reach the outside
    /// world, and every resource that is no file.
    pub untrusted: Vec<String>,
    /// Tools that send outside. Without any: tools that reach the outside world and do not only
    /// read.
    pub outbound: Vec<String>,
}

impl Default for TrifectaConfig {
    fn default() -> Self {
        Self { enabled: true, private: vec![], untrusted: vec![], outbound: vec![] }
    }
}

/// A policy service, asked by `POST` before every call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HookConfig {
    /// Its address.
    pub url: String,
    /// Whether the arguments are sent to it.
    #[serde(default)]
    pub arguments: bool,
    /// Whether calls go on when it cannot be reached, is slow, or answers nonsense.
    #[serde(default)]
    pub fail_open: bool,
    /// How long it may take, in seconds (default 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
}
