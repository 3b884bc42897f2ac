//! The effective configuration: what is left of an `mcp.json` after parsing, defaults and
//! expansion. Plain data; every duration is a [`Duration`], every hidden value a [`Secret`].

use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use crate::config::{Diagnostic, Position, ServerName};
use crate::secret::Secret;

/// A whole configuration: one or several files merged, valid and expanded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpConfig {
    /// The files it came from, in order of precedence (the last wins); empty for `-- COMMAND`.
    pub files: Vec<PathBuf>,
    /// The servers, in file order.
    pub servers: IndexMap<ServerName, ServerConfig>,
    /// Declared inputs (VS Code's `inputs`).
    pub inputs: Vec<InputConfig>,
    /// Whether a reload is applied at once or shown first.
    pub reload: ReloadMode,
    /// Warnings and notes found on the way; an error never gets this far.
    pub warnings: Vec<Diagnostic>,
}

/// One server's effective configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerConfig {
    /// Its name.
    pub name: ServerName,
    /// How to reach it.
    pub transport: TransportConfig,
    /// Default deadline of a request (`timeout`, default 30 s).
    pub request_timeout: Duration,
    /// Deadline of one start attempt (`startupTimeout`, default 30 s).
    pub startup_timeout: Duration,
    /// Deadline of a graceful stop (`shutdownTimeout`, default 10 s).
    pub shutdown_timeout: Duration,
    /// Servers that must be ready first (`dependencies`, alias `dependsOn`).
    pub dependencies: Vec<ServerName>,
    /// Listed but not started.
    pub disabled: bool,
    /// What to do when it dies (decision D1).
    pub restart: RestartConfig,
    /// What a request's timeout means (decision D4).
    pub on_timeout: OnTimeout,
    /// Retries of start and of requests that may be repeated (L3, R5).
    pub retry: RetryConfig,
    /// Cache of resources and prompts (X1).
    pub cache: CacheConfig,
    /// Limits on what it may send.
    pub wire: WireLimits,
    /// Directories or URIs shared as roots.
    pub roots: Vec<RootConfig>,
    /// Protocol pin.
    pub protocol: ProtocolChoice,
    /// Level asked of the server's own logging.
    pub log_level: Option<LogLevel>,
    /// Which tools are visible.
    pub tools: ToolFilter,
    /// Restart on source changes.
    pub dev: Option<DevConfig>,
    /// Argument guard (R9).
    pub guard: GuardPolicy,
    /// What to do with sampling and elicitation requests.
    pub approvals: ApprovalRules,
    /// Where the entry stands.
    pub at: Position,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportConfig {
    /// A child process that speaks over stdin and stdout.
    Stdio(StdioConfig),
    /// Streamable HTTP.
    Http(HttpConfig),
    /// HTTP+SSE of 2024-11-05.
    Sse(HttpConfig),
    /// WebSocket.
    WebSocket(HttpConfig),
}

/// The kind of transport, as shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransportKind {
    /// `stdio`
    Stdio,
    /// `http`
    Http,
    /// `sse`
    Sse,
    /// `websocket`
    WebSocket,
}

impl TransportKind {
    /// The word used in files and on screens.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::WebSocket => "websocket",
        }
    }
}

impl TransportConfig {
    /// Its kind.
    pub const fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::Http(_) => TransportKind::Http,
            Self::Sse(_) => TransportKind::Sse,
            Self::WebSocket(_) => TransportKind::WebSocket,
        }
    }
}

/// A child process.
#[derive(Clone, Debug, PartialEq)]
pub struct StdioConfig {
    /// Program, as written after expansion (resolved on PATH at spawn).
    pub command: String,
    /// Arguments, passed literally, never through a shell.
    pub args: Vec<String>,
    /// `env` and `envFile` together; `env` wins.
    pub env: IndexMap<String, Secret>,
    /// Working directory; the file's own directory when not given.
    pub cwd: Option<PathBuf>,
    /// Pass the host's whole environment instead of the safe list (decision D5).
    pub inherit_env: bool,
    /// Resource limits of the process (L7).
    pub limits: ProcessLimits,
}

/// A server reached by URL.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    /// Where it listens.
    pub url: url::Url,
    /// Extra headers; values are secrets.
    pub headers: IndexMap<String, Secret>,
}

/// Resource limits applied to a child (`setrlimit` on Unix).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessLimits {
    /// Private writable memory in bytes, per process (`limits.memory`).
    pub memory: Option<u64>,
    /// CPU time (`limits.cpu`).
    pub cpu_time: Option<Duration>,
    /// Open files (`limits.openFiles`).
    pub open_files: Option<u64>,
}

/// When the host restarts a server by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartConfig {
    /// Whether at all.
    pub policy: RestartPolicy,
    /// Deaths in a row before giving up.
    pub max: u32,
    /// First delay; the delay is this times the attempt, jittered.
    pub backoff: Duration,
}

/// Restart policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartPolicy {
    /// Never by itself.
    #[default]
    Never,
    /// After an exit nobody asked for.
    OnFailure,
}

/// What a timed-out request does to the server (decision D4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnTimeout {
    /// The server leaves the active list until it is reconnected.
    #[default]
    Unavailable,
    /// It counts as a failure of the circuit breakers.
    Breaker,
}

/// Exponential backoff for attempts that may be repeated.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryConfig {
    /// First delay (default 1 s).
    pub initial: Duration,
    /// Growth per attempt (default 2).
    pub factor: f64,
    /// Longest delay (default 30 s).
    pub max_delay: Duration,
    /// Retries after the first attempt (default 3).
    pub max_retries: u32,
}

/// Cache settings of one server (X1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheConfig {
    /// Whether answers are kept at all.
    pub enabled: bool,
    /// Time to live without a hint of the server (default 300 s).
    pub ttl: Duration,
    /// Serve an expired entry when the server is unavailable (default true).
    pub stale_if_unavailable: bool,
    /// Most entries (default 512).
    pub max_entries: u64,
    /// Most bytes (default 16 MiB).
    pub max_bytes: u64,
}

/// Limits on what a server may send; defaults from the fault catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireLimits {
    /// Longest line or event, bytes (default 4 MiB, at most 16).
    pub line_bytes: usize,
    /// Deepest nesting (default 128).
    pub depth: usize,
    /// Most JSON nodes in one message (default 500,000).
    pub nodes: usize,
    /// Longest stderr line, bytes (default 16 KiB).
    pub stderr_line_bytes: usize,
    /// Longest call whatever its progress (default 10 min).
    pub max_call: Duration,
    /// Most pages of one list (default 100).
    pub list_pages: usize,
    /// Most entries of one list (default 5,000).
    pub list_entries: usize,
    /// Most open requests from the server (default 32).
    pub approvals: usize,
    /// Longest time a person may hold a call (default 1 h).
    pub max_waiting: Duration,
}

/// A root shared with the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootConfig {
    /// A `file://` URI.
    pub uri: String,
    /// A name to show.
    pub name: Option<String>,
}

/// Which protocol to speak.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtocolChoice {
    /// Newest both sides know.
    #[default]
    Auto,
    /// `initialize` era, newest version of it.
    Legacy,
    /// `server/discover` era.
    Modern,
    /// One dated version, for example `2025-06-18`.
    Version(String),
}

/// Log levels of the specification (RFC 5424 names).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Finest; not in RFC 5424, used for the host's own trace records.
    Trace,
    /// `debug`
    Debug,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warning`
    Warning,
    /// `error`
    Error,
    /// `critical`
    Critical,
    /// `alert`
    Alert,
    /// `emergency`
    Emergency,
}

/// Allow and deny globs over tool names; deny wins; an empty allow list allows all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Globs of which one must match.
    pub allow: Vec<String>,
    /// Globs of which none may match.
    pub deny: Vec<String>,
}

/// Development mode: restart when sources change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DevConfig {
    /// Globs relative to the server's working directory.
    pub watch: Vec<String>,
    /// Command run before the restart, with its arguments.
    pub build: Option<Vec<String>>,
    /// Run the last call again after the restart.
    pub rerun: bool,
}

/// What to do with suspicious arguments (R9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GuardMode {
    /// Do not look.
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GuardPolicy {
    /// For every tool.
    pub default: GuardMode,
    /// For the named tools.
    pub tools: IndexMap<String, GuardMode>,
}

/// What happens to a request of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalRule {
    /// A person (or the registered callback) decides.
    #[default]
    Ask,
    /// Refused at once.
    Deny,
    /// Answered with this result.
    Canned(serde_json::Value),
}

/// Rules per kind of request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApprovalRules {
    /// For `sampling/createMessage`.
    pub sampling: ApprovalRule,
    /// For `elicitation/create`.
    pub elicitation: ApprovalRule,
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
    /// What is asked.
    pub description: String,
    /// Kind and choices.
    pub kind: InputKind,
    /// Offered value.
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

impl ServerConfig {
    /// A server with every default, as an entry holding nothing but the transport gives it.
    pub fn new(name: ServerName, transport: TransportConfig) -> Self {
        Self {
            name,
            transport,
            request_timeout: Duration::from_secs(30),
            startup_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            dependencies: Vec::new(),
            disabled: false,
            restart: RestartConfig::default(),
            on_timeout: OnTimeout::default(),
            retry: RetryConfig::default(),
            cache: CacheConfig::default(),
            wire: WireLimits::default(),
            roots: Vec::new(),
            protocol: ProtocolChoice::default(),
            log_level: None,
            tools: ToolFilter::default(),
            dev: None,
            guard: GuardPolicy::default(),
            approvals: ApprovalRules::default(),
            at: Position::default(),
        }
    }

    /// Every secret of this server: environment and header values.
    pub fn secrets(&self) -> Vec<Secret> {
        match &self.transport {
            TransportConfig::Stdio(stdio) => stdio.env.values().cloned().collect(),
            TransportConfig::Http(http)
            | TransportConfig::Sse(http)
            | TransportConfig::WebSocket(http) => http.headers.values().cloned().collect(),
        }
    }
}

impl Default for RestartConfig {
    fn default() -> Self {
        Self { policy: RestartPolicy::Never, max: 3, backoff: Duration::from_secs(2) }
    }
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            factor: 2.0,
            max_delay: Duration::from_secs(30),
            max_retries: 3,
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
            max_call: Duration::from_secs(600),
            list_pages: 100,
            list_entries: 5_000,
            approvals: 32,
            max_waiting: Duration::from_secs(3600),
        }
    }
}
