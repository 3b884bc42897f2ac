//! Per-server policy: restarts, retries, cache, filters, guard, approvals, inputs.

use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::{ContentLimits, WireLimits, seconds};

/// Durations of the steps of a stop, as far as the entry sets them (`stop`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StopConfig {
    /// From closed stdin to SIGTERM.
    #[serde(with = "seconds::perhaps", skip_serializing_if = "Option::is_none")]
    pub stdin: Option<Duration>,
    /// From SIGTERM to SIGKILL.
    #[serde(with = "seconds::perhaps", skip_serializing_if = "Option::is_none")]
    pub term: Option<Duration>,
}

impl StopConfig {
    pub(super) fn is_unset(&self) -> bool {
        *self == Self::default()
    }
}

/// When the host restarts a server automatically.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RestartConfig {
    /// Whether to restart.
    pub policy: RestartPolicy,
    /// Consecutive restarts before giving up.
    pub max: u32,
    /// First delay; grows linearly with the attempt, jittered.
    #[serde(with = "seconds")]
    pub backoff: Duration,
}

/// Restart policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Never automatically.
    #[default]
    Never,
    /// After an exit that was not requested.
    OnFailure,
}

/// What a timed-out request does to the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// The server leaves the active list until it is reconnected.
    #[default]
    Unavailable,
    /// It counts as a failure of the circuit breakers.
    Breaker,
}

/// Circuit breaker settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BreakerConfig {
    /// Consecutive failures that open a breaker.
    pub threshold: u32,
    /// Time window within which they must occur.
    #[serde(with = "seconds")]
    pub window: Duration,
    /// How long an open breaker rejects calls before it lets one trial call through.
    #[serde(with = "seconds")]
    pub cooldown: Duration,
    /// Whether a JSON-RPC error counts as a failure.
    pub errors: bool,
    /// Whether a result with `isError` counts as a failure.
    pub tool_errors: bool,
}

/// Exponential backoff for attempts that may be repeated.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RetryConfig {
    /// Retries after the first attempt (default 3).
    pub max_retries: u32,
    /// First delay (default 1 s).
    #[serde(with = "seconds")]
    pub initial: Duration,
    /// Growth per attempt (default 2).
    pub factor: f64,
    /// Longest delay (default 30 s).
    #[serde(with = "seconds")]
    pub max_delay: Duration,
    /// JSON-RPC error codes after which a request that may be executed twice is sent again.
    #[serde(deserialize_with = "whole_numbers", skip_serializing_if = "Vec::is_empty")]
    pub codes: Vec<i64>,
    /// Whether the entry sets any of it.
    #[serde(skip)]
    pub is_given: bool,
}

/// Cache settings of one server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CacheConfig {
    /// Whether answers are cached.
    pub enabled: bool,
    /// Time to live when the server gives no hint (default 300 s).
    #[serde(with = "seconds")]
    pub ttl: Duration,
    /// Serve an expired entry when the server is unavailable (default true).
    pub stale_if_unavailable: bool,
    /// Maximum number of entries (default 512).
    pub max_entries: u64,
    /// Maximum size in bytes (default 16 MiB).
    pub max_bytes: u64,
}

/// Allow and deny globs over tool names; deny wins; an empty allow list allows all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolFilter {
    /// Globs; a tool must match one of them.
    pub allow: Vec<String>,
    /// Globs; a tool must match none of them.
    pub deny: Vec<String>,
}

/// Development mode: restart when sources change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DevConfig {
    /// Globs relative to the server's working directory.
    pub watch: Vec<String>,
    /// Run the last call again after the restart.
    pub rerun: bool,
    /// Command run before the restart, with its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build: Option<Vec<String>>,
}

/// What to do with suspicious arguments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuardMode {
    /// No check.
    Off,
    /// Record and show.
    #[default]
    Warn,
    /// Ask before sending.
    Ask,
    /// Refuse.
    Deny,
}

/// Guard mode per server with exceptions per tool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GuardPolicy {
    /// For every tool.
    pub default: GuardMode,
    /// For the named tools.
    pub tools: IndexMap<String, GuardMode>,
}

/// What happens to a request from a server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalRule {
    /// The user (or the registered callback) decides.
    #[default]
    Ask,
    /// Refused at once.
    Deny,
    /// Answered with this result.
    Canned(serde_json::Value),
}

/// Rules per kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ApprovalRules {
    /// For `sampling/createMessage`.
    pub sampling: ApprovalRule,
    /// For `elicitation/create`.
    pub elicitation: ApprovalRule,
    /// For both, while no call of ours is in flight.
    pub outside_calls: OutsideCalls,
    /// Globs over the tools, prompts and URIs that ask their caller something. Over a pipe, versions up
    /// to 2025-11-25 do not say whose question it is: the callers of these take turns from their
    /// first call on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub askers: Vec<String>,
}

/// What happens to sampling and elicitation requests that arrive while no call is in flight. The
/// specification allows them only within a client's request, as a MUST since SEP-2260; servers of
/// earlier versions may send them on a timer or when a watched file changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutsideCalls {
    /// Refused immediately.
    #[default]
    Deny,
    /// Decided by the rule for their kind, as within a call.
    Allow,
}

/// Whether a changed file is applied at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReloadMode {
    /// Applied when it is stable and valid.
    #[default]
    Auto,
    /// Shown as a plan first.
    Ask,
}

/// An input declared in `inputs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputConfig {
    /// Its id, as in `${input:id}`.
    pub id: String,
    /// The question shown.
    pub description: String,
    /// Kind and choices.
    pub kind: InputKind,
    /// Default value offered.
    pub default: Option<String>,
}

/// How an input is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// Free text; masked when `password`.
    PromptString {
        /// Whether typing is hidden.
        password: bool,
    },
    /// One of a list.
    PickString {
        /// The choices.
        options: Vec<String>,
    },
}

impl InputConfig {
    /// Whether its answer is hidden while it is typed.
    pub fn is_password(&self) -> bool {
        self.kind == InputKind::PromptString { password: true }
    }
}

impl Default for RestartConfig {
    fn default() -> Self {
        Self { policy: RestartPolicy::Never, max: 3, backoff: Duration::from_secs(2) }
    }
}

impl Default for BreakerConfig {
    fn default() -> Self {
        let minute = Duration::from_secs(60);
        Self { threshold: 5, window: minute, cooldown: minute, errors: false, tool_errors: false }
    }
}

/// Whole numbers, which a configuration may spell `-32603.0`.
fn whole_numbers<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<i64>, D::Error> {
    let all = Vec::<f64>::deserialize(from)?;
    let whole = |number: f64| {
        let is_whole = number.fract() == 0.0;
        let wrong = || serde::de::Error::custom(format!("{number} is not a whole number"));
        is_whole.then_some(number as i64).ok_or_else(wrong)
    };
    all.into_iter().map(whole).collect()
}

/// Compares the values in effect; `is_given` is ignored.
impl PartialEq for RetryConfig {
    fn eq(&self, other: &Self) -> bool {
        let values = |of: &Self| (of.initial, of.factor, of.max_delay, of.max_retries);
        values(self) == values(other) && self.codes == other.codes
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            factor: 2.0,
            max_delay: Duration::from_secs(30),
            max_retries: 3,
            codes: Vec::new(),
            is_given: false,
        }
    }
}

impl Default for CacheConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            ttl: Duration::from_secs(300),
            stale_if_unavailable: true,
            max_entries: 512,
            max_bytes: 16 << 20,
        }
    }
}

impl Default for WireLimits {
    fn default() -> Self {
        Self {
            line_bytes: 4 << 20,
            depth: 128,
            nodes: 500_000,
            stderr_line_bytes: 16 << 10,
            stderr_bytes: 256 << 10,
            max_call: Duration::from_secs(600),
            list_pages: 100,
            list_entries: 5_000,
            refetch: Duration::from_secs(1),
            queue_messages: 256,
            queue_bytes: 1 << 20,
            input_rounds: 5,
            inputs_per_round: 8,
            approvals: 32,
            approvals_per_minute: 600,
            max_waiting: Duration::from_secs(3600),
        }
    }
}

impl Default for ContentLimits {
    fn default() -> Self {
        Self {
            description_bytes: 4 << 10,
            schema_depth: 32,
            subschemas: 2_000,
            schema_time: Duration::from_millis(250),
            image_pixels: 4_000_000,
            image_bytes: 64 << 20,
        }
    }
}
