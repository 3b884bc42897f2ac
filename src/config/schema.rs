//! The effective configuration: an `mcp.json` after parsing, defaults and expansion. Plain data;
//! every duration is a [`Duration`], every hidden value a [`Secret`].

use base::text::path::perhaps;
use base::{LogLevel, Secret, ServerName};
use std::path::PathBuf;
use std::time::Duration;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::{Diagnostic, Position, ServerMap};

mod policy;
mod shared;

pub use policy::*;
pub use shared::{Shared, SharedDefault};

/// A whole configuration: one or several files merged, valid and expanded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct McpConfig {
    /// The files it came from, in order of precedence (the last wins); empty for `-- COMMAND`.
    pub files: Vec<PathBuf>,
    /// The servers, in file order.
    pub servers: ServerMap,
    /// Declared inputs (VS Code's `inputs`).
    pub inputs: Vec<InputConfig>,
    /// Whether a reload is applied at once or shown first.
    pub reload: ReloadMode,
    /// Warnings and notes found while loading; never errors.
    pub warnings: Vec<Diagnostic>,
}

impl McpConfig {
    /// Adapts it to a one-shot command: no retries unless an entry sets them, no restarts, no
    /// watching of sources; `timeout`, if given, replaces the timeouts of the servers, and bounds each
    /// request whatever its progress.
    pub fn answer_once(&mut self, timeout: Option<Duration>) {
        let once = Shared::from(RetryConfig { max_retries: 0, ..RetryConfig::default() });
        for server in self.servers.values_mut() {
            if !server.retry.is_given {
                server.retry = once.clone();
            }
            server.restart.policy = RestartPolicy::Never;
            server.dev = None;
            if let Some(timeout) = timeout {
                server.startup_timeout = timeout;
                server.request_timeout = timeout;
                // In all: a server that goes on reporting progress must not hold the command.
                server.wire.max_call = timeout;
            }
        }
    }
}

/// One server's effective configuration.
///
/// Its serde form is an entry of the file, in main spellings and without the transport.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServerConfig {
    /// Its name.
    #[serde(skip)]
    pub name: ServerName,
    /// How to reach it.
    #[serde(skip)]
    pub transport: TransportConfig,
    /// Default deadline of a request (`timeout`, default 30 s).
    #[serde(rename = "timeout", with = "seconds")]
    pub request_timeout: Duration,
    /// Deadline of one start attempt (`startupTimeout`, default 30 s).
    #[serde(with = "seconds")]
    pub startup_timeout: Duration,
    /// Deadline of a graceful stop (`shutdownTimeout`, default 10 s).
    #[serde(with = "seconds")]
    pub shutdown_timeout: Duration,
    /// Steps of a graceful stop that are set individually (`stop`).
    #[serde(skip_serializing_if = "StopConfig::is_unset")]
    pub stop: StopConfig,
    /// Servers that must be ready first (`dependencies`, alias `dependsOn`).
    pub dependencies: Vec<ServerName>,
    /// Listed but not started.
    pub disabled: bool,
    /// Starts on the first call (`"start": "onDemand"`), if its definitions are known.
    #[serde(rename = "start")]
    pub on_demand: bool,
    /// Stops after this long without use (`idleStop`); with `on_demand`.
    #[serde(with = "seconds::perhaps", skip_serializing_if = "Option::is_none")]
    pub idle_stop: Option<Duration>,
    /// What to do when it exits unexpectedly.
    pub restart: RestartConfig,
    /// What a timed-out request does to the server.
    pub on_timeout: OnTimeout,
    /// Retries of start and of requests that may be repeated.
    pub retry: Shared<RetryConfig>,
    /// Circuit breaker settings.
    pub breaker: Shared<BreakerConfig>,
    /// Cache of resources and prompts.
    pub cache: Shared<CacheConfig>,
    /// Limits on what it may send.
    #[serde(rename = "limits")]
    pub wire: Shared<WireLimits>,
    /// Limits on processing what it sent.
    #[serde(skip)]
    pub content: Shared<ContentLimits>,
    /// Directories or URIs shared as roots.
    pub roots: Vec<RootConfig>,
    /// Protocol pin.
    pub protocol: ProtocolChoice,
    /// Level requested of the server's own logging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Names of variables and headers whose values are secret whatever they look like (`secrets`).
    #[serde(rename = "secrets", skip_serializing_if = "Vec::is_empty")]
    pub secret: Vec<String>,
    /// Names of variables and headers whose values are not secret (`public`).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub public: Vec<String>,
    /// Which tools are visible.
    pub tools: Shared<ToolFilter>,
    /// Restart on source changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dev: Option<DevConfig>,
    /// Argument guard.
    pub guard: Shared<GuardPolicy>,
    /// What to do with sampling and elicitation requests.
    pub approvals: Shared<ApprovalRules>,
    /// Secrets within arguments or the address: answered inputs, and variables and options with a
    /// secret-like name.
    #[serde(skip)]
    pub hidden: Vec<Secret>,
    /// Why it must not start yet, if anything besides its entry prevents it.
    #[serde(skip)]
    pub hold: Option<Hold>,
    /// Position of the entry.
    #[serde(skip)]
    pub at: Position,
}

/// What a server waits for before it may start. The engine lists such a server but never starts it,
/// not even on request; a new configuration without the hold releases it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The user has not approved what it would run.
    Approval,
    /// An input of this id has no answer.
    Input(String),
}

impl Hold {
    /// Its name in a list of changed settings.
    pub fn setting(&self) -> String {
        match self {
            Self::Approval => "approval".to_owned(),
            Self::Input(id) => format!("input `{id}`"),
        }
    }
}

impl std::fmt::Display for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Approval => f.write_str("awaiting your approval"),
            Self::Input(id) => write!(f, "waiting for input `{id}`"),
        }
    }
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
    /// An HTTP API that an `OpenAPI` document describes.
    OpenApi(Box<OpenApiConfig>),
}

/// The kind of transport, as shown.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum TransportKind {
    /// `stdio`
    #[default]
    Stdio,
    /// `http`
    Http,
    /// `sse`
    Sse,
    /// `websocket`
    WebSocket,
    /// `openapi`
    OpenApi,
}

impl TransportKind {
    /// The word used in files and on screens.
    pub fn as_str(self) -> &'static str {
        self.into()
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
            Self::OpenApi(_) => TransportKind::OpenApi,
        }
    }

    /// Whether it is reached by an address, so that no process is started for it.
    pub const fn is_address(&self) -> bool {
        self.http().is_some()
    }

    /// The address and its settings; `None` for a child process.
    pub const fn http(&self) -> Option<&HttpConfig> {
        match self {
            Self::Stdio(_) => None,
            Self::Http(http) | Self::Sse(http) | Self::WebSocket(http) => Some(http),
            Self::OpenApi(api) => Some(&api.http),
        }
    }
}

/// A child process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StdioConfig {
    /// Program, as written after expansion (resolved on PATH at spawn).
    pub command: String,
    /// Arguments, passed literally, never through a shell.
    pub args: Vec<String>,
    /// `env` and `envFile` together; `env` wins.
    pub env: IndexMap<String, Secret>,
    /// Working directory; the file's own directory when not given.
    pub cwd: Option<PathBuf>,
    /// Pass the host's whole environment instead of the safe list.
    pub inherit_env: bool,
    /// Resource limits of the process.
    pub limits: ProcessLimits,
}

/// A server reached by URL.
#[derive(Clone, Debug, PartialEq)]
pub struct HttpConfig {
    /// Where it listens.
    pub url: url::Url,
    /// Extra headers; values are secrets.
    pub headers: IndexMap<String, Secret>,
    /// How the host signs in where the server asks for it.
    pub oauth: Shared<OAuthConfig>,
    /// Certificates besides those of the system.
    pub tls: TlsConfig,
}

impl HttpConfig {
    /// Headers that the transport sets itself, and an entry therefore cannot.
    pub const OWN_HEADERS: [&str; 11] = [
        "accept",
        "connection",
        "content-length",
        "content-type",
        "host",
        "last-event-id",
        "mcp-method",
        "mcp-name",
        "mcp-protocol-version",
        "mcp-session-id",
        "transfer-encoding",
    ];

    /// A server at `url` with nothing set.
    pub fn new(url: url::Url) -> Self {
        Self { url, headers: IndexMap::new(), oauth: Shared::default(), tls: TlsConfig::default() }
    }

    /// Whether the host may sign in: not if the entry disables it, or authorises requests itself by
    /// an `Authorization` header or a user name in its address.
    pub fn may_sign_in(&self) -> bool {
        !self.oauth.off
            && self.url.username().is_empty()
            && self.url.password().is_none()
            && !self.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization"))
    }
}

/// Largest `OpenAPI` document that is read, in bytes.
pub const MAX_OPENAPI_BYTES: u64 = 16 << 20;

/// An HTTP API whose operations are tools (`openapi`).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OpenApiConfig {
    /// Where calls go, and what is sent with them. The address is the base of all paths; that of the
    /// document where the entry names none.
    pub http: HttpConfig,
    /// Whether the base is found among the `servers` of the document: those where it comes from.
    pub finds_base: bool,
    /// The document.
    pub document: OpenApiSource,
    /// Globs; operations with one of these tags are offered. Empty for all.
    pub tags: Vec<String>,
    /// Globs over `operationId` and `METHOD /path`. Empty for all.
    pub operations: Vec<String>,
}

impl OpenApiConfig {
    /// An API with all operations of a document, at the address of `http`.
    pub fn new(http: HttpConfig, document: OpenApiSource) -> Self {
        let (tags, operations) = (Vec::new(), Vec::new());
        Self { http, finds_base: false, document, tags, operations }
    }
}

/// Where an `OpenAPI` document is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenApiSource {
    /// A file.
    File {
        /// Its path.
        path: PathBuf,
        /// What it held when the configuration was read, as a hash: a changed document restarts the
        /// server.
        hash: String,
    },
    /// An address, read at every start.
    Address(url::Url),
}

impl OpenApiSource {
    /// The path or the address.
    pub fn text(&self) -> String {
        match self {
            Self::File { path, .. } => path.display().to_string(),
            Self::Address(url) => url.to_string(),
        }
    }
}

/// Signing in with OAuth 2.1 (`oauth`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OAuthConfig {
    /// Never signs in (`"oauth": false`).
    #[serde(skip)]
    pub off: bool,
    /// A client that was registered manually.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Its secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// URL of a client metadata document, which is the client id where the authorization server
    /// supports such documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// Address of the redirect on this machine; `http://127.0.0.1:PORT/callback` without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// Port of the loopback redirect; otherwise one is chosen and remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
    /// Scopes to request instead of those the server names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// Who signs in. What the entry holds decides where it does not say.
    #[serde(skip)]
    pub grant: OAuthGrant,
    /// PEM of the key that signs its assertions (`private_key_jwt`), in place of the secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<Secret>,
    /// JWT that says who the workload is (RFC 7523).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion: Option<Secret>,
    /// File that holds it, read anew for every token: the platform replaces it.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    pub assertion_file: Option<PathBuf>,
    /// Who vouches for the person in place of the authorization server's page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_provider: Option<IdentityProvider>,
    /// Callers of the gateway use the server as themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<TokenExchange>,
    /// Whether tokens are bound to a key of the host (`DPoP`, RFC 9449): always, never, or where the
    /// server asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dpop: Option<bool>,
}

/// Who signs in to a server (`oauth.grant`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OAuthGrant {
    /// A person, with a browser.
    #[default]
    AuthorizationCode,
    /// The client, with its own secret or key.
    ClientCredentials,
    /// A workload, with a JWT that its platform gave it (RFC 7523).
    JwtBearer,
    /// A person, for whom the identity provider of their organisation vouches (RFC 8693 and 7523).
    IdentityProvider,
}

impl OAuthGrant {
    /// The word of the file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::ClientCredentials => "client_credentials",
            Self::JwtBearer => "jwt_bearer",
            Self::IdentityProvider => "identity_provider",
        }
    }

    /// The grant of a word of the file; `None` for another word.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::AuthorizationCode, Self::ClientCredentials, Self::JwtBearer, Self::IdentityProvider]
            .into_iter()
            .find(|grant| grant.as_str() == word)
    }

    /// Whether a person is shown a page.
    pub fn needs_page(self) -> bool {
        self == Self::AuthorizationCode
    }
}

/// The identity provider of an organisation (`oauth.identityProvider`): it exchanges the ID token of
/// a person for a grant at the authorization server of the MCP server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct IdentityProvider {
    /// Where tokens are exchanged (RFC 8693).
    pub token_endpoint: String,
    /// The client that the ID token was issued to.
    pub client_id: String,
    /// Its secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// The ID token of the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id_token: Option<Secret>,
    /// File that holds it, read anew for every token.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    pub id_token_file: Option<PathBuf>,
}

/// Exchange of a caller's token for one that is good at the server alone (`oauth.exchange`, RFC 8693):
/// every person has a session of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TokenExchange {
    /// Where tokens are exchanged.
    pub token_endpoint: String,
    /// The client that exchanges them.
    pub client_id: String,
    /// Its secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<Secret>,
    /// The server's name at the authorization server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// The server's address there (RFC 8707); that of the entry without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Scopes to request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
    /// JWT of the gateway, which acts for the person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor_token: Option<Secret>,
    /// File that holds it, read anew for every token.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    pub actor_token_file: Option<PathBuf>,
    /// Whether callers that have not signed in use the entry's own session; they are refused otherwise.
    pub others: bool,
    /// How long the session of a person is open without use.
    #[serde(with = "seconds")]
    pub idle_timeout: Duration,
    /// Most sessions at a time.
    pub max_sessions: usize,
}

impl Default for TokenExchange {
    fn default() -> Self {
        Self {
            token_endpoint: String::new(),
            client_id: String::new(),
            client_secret: None,
            audience: None,
            resource: None,
            scopes: Vec::new(),
            actor_token: None,
            actor_token_file: None,
            others: false,
            idle_timeout: Duration::from_secs(300),
            max_sessions: 100,
        }
    }
}

/// Certificates of one server (`tls`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsConfig {
    /// PEM file of authorities that are trusted besides those of the system.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// PEM file of the client's certificate.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of its key.
    #[serde(serialize_with = "perhaps", skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
}

/// Resource limits applied to a child (`setrlimit` on Unix).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProcessLimits {
    /// Private writable memory in bytes, per process (`limits.memory`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// CPU time (`limits.cpu`).
    #[serde(rename = "cpu", with = "seconds::perhaps", skip_serializing_if = "Option::is_none")]
    pub cpu_time: Option<Duration>,
    /// Open files (`limits.openFiles`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_files: Option<u64>,
}

/// Limits on what a server may send; defaults from the fault catalogue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WireLimits {
    /// Longest line or event in bytes (default 4 MiB, at most 256 MiB).
    pub line_bytes: usize,
    /// Deepest nesting (default 128).
    pub depth: usize,
    /// Most JSON values of one message that are parsed into a tree (default 500,000). The result of
    /// a call that exceeds it is kept as text and read in place, limited only by `line_bytes`;
    /// lists, requests and notifications are refused.
    pub nodes: usize,
    /// Longest stderr line, bytes (default 16 KiB).
    pub stderr_line_bytes: usize,
    /// Bytes of stderr kept to explain why the process ended (default 256 KiB).
    pub stderr_bytes: usize,
    /// Longest call, regardless of progress (default 10 min).
    #[serde(with = "seconds")]
    pub max_call: Duration,
    /// Most pages of one list (default 100).
    pub list_pages: usize,
    /// Most entries of one list (default 5,000).
    pub list_entries: usize,
    /// Minimum time between two fetches of one list (default 1 s).
    #[serde(with = "seconds")]
    pub refetch: Duration,
    /// Messages to the server that may wait before new calls are held back (default 256).
    pub queue_messages: usize,
    /// The same in bytes (default 1 MiB).
    pub queue_bytes: usize,
    /// Rounds of input that one call may ask for (default 5).
    pub input_rounds: usize,
    /// Inputs that one round may ask for (default 8).
    pub inputs_per_round: usize,
    /// Most open requests from the server (default 32).
    pub approvals: usize,
    /// Most requests from the server in a minute (default 600).
    pub approvals_per_minute: usize,
    /// Longest time a call may wait for the user (default 1 h).
    #[serde(with = "seconds")]
    pub max_waiting: Duration,
}

/// Limits on processing what a server sent: schemas compiled, images decoded, descriptions
/// reported. Front ends read them from `host::ServerView::limits`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContentLimits {
    /// Longest description that is not reported, bytes (default 4 KiB).
    pub description_bytes: u64,
    /// Deepest nesting of sub-schemas (default 32).
    pub schema_depth: u64,
    /// Most sub-schemas of one schema (default 2,000).
    pub subschemas: u64,
    /// Longest compilation of a schema, and longest check against it (default 250 ms).
    #[serde(with = "seconds")]
    pub schema_time: Duration,
    /// Most pixels of a picture that is decoded (default 4 million).
    pub image_pixels: u64,
    /// Most memory that decoding a picture may take, bytes (default 64 MiB).
    pub image_bytes: u64,
}

/// A root shared with the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RootConfig {
    /// A `file://` URI.
    pub uri: String,
    /// A name to show.
    pub name: Option<String>,
}

/// The versions of the specification so far.
pub const CONFIG_VERSIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

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
    #[serde(untagged)]
    Version(String),
}

impl FromIterator<ServerConfig> for McpConfig {
    /// A configuration of these servers; the last of those with the same name wins.
    fn from_iter<I: IntoIterator<Item = ServerConfig>>(servers: I) -> Self {
        let servers = servers.into_iter().map(|server| (server.name.clone(), server)).collect();
        Self { servers, ..Self::default() }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self::new(ServerName::new(""), TransportConfig::Stdio(StdioConfig::default()))
    }
}

impl ServerConfig {
    /// A server that is started by this command, with every default.
    ///
    /// ```
    /// use mcpdeck_config::McpConfig;
    /// use mcpdeck_config::ServerConfig;
    ///
    /// let mut time = ServerConfig::stdio("time", "uvx", ["mcp-server-time"]);
    /// time.request_timeout = std::time::Duration::from_secs(5);
    /// let config: McpConfig = [time].into_iter().collect();
    /// ```
    pub fn stdio<A: Into<String>>(
        name: &str,
        command: impl Into<String>,
        args: impl IntoIterator<Item = A>,
    ) -> Self {
        let stdio = StdioConfig {
            command: command.into(),
            args: args.into_iter().map(Into::into).collect(),
            ..StdioConfig::default()
        };
        Self::new(ServerName::new(name), TransportConfig::Stdio(stdio))
    }

    /// A server at this address (Streamable HTTP), with every default.
    ///
    /// # Errors
    /// When `url` is not a valid URL.
    pub fn http(name: &str, url: &str) -> Result<Self, url::ParseError> {
        let http = HttpConfig::new(url.parse()?);
        Ok(Self::new(ServerName::new(name), TransportConfig::Http(http)))
    }

    /// Sets an environment variable of a process, or a header of a server at an address. A value
    /// that is secret by its name or look is never shown.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Secret>) -> Self {
        let values = match &mut self.transport {
            TransportConfig::Stdio(stdio) => &mut stdio.env,
            TransportConfig::Http(http)
            | TransportConfig::Sse(http)
            | TransportConfig::WebSocket(http) => &mut http.headers,
            TransportConfig::OpenApi(api) => &mut api.http.headers,
        };
        values.insert(name.to_owned(), value.into());
        self
    }

    /// A server with every default, like an entry with nothing but a transport.
    pub fn new(name: ServerName, transport: TransportConfig) -> Self {
        Self {
            name,
            transport,
            request_timeout: Duration::from_secs(30),
            startup_timeout: Duration::from_secs(30),
            shutdown_timeout: Duration::from_secs(10),
            stop: StopConfig::default(),
            dependencies: Vec::new(),
            disabled: false,
            on_demand: false,
            idle_stop: None,
            restart: RestartConfig::default(),
            on_timeout: OnTimeout::default(),
            retry: Shared::default(),
            breaker: Shared::default(),
            cache: Shared::default(),
            wire: Shared::default(),
            content: Shared::default(),
            roots: Vec::new(),
            protocol: ProtocolChoice::default(),
            log_level: None,
            tools: Shared::default(),
            dev: None,
            guard: Shared::default(),
            approvals: Shared::default(),
            secret: Vec::new(),
            public: Vec::new(),
            hidden: Vec::new(),
            hold: None,
            at: Position::default(),
        }
    }

    /// How tokens of callers become tokens of this server, where persons use it as themselves.
    pub fn exchange(&self) -> Option<&TokenExchange> {
        self.transport.http().filter(|http| !http.oauth.off)?.oauth.exchange.as_ref()
    }

    /// Every secret of this server: values of its environment and headers that are
    /// secret by name or look, its OAuth secrets, and those in its arguments and address.
    pub fn secrets(&self) -> Vec<Secret> {
        let values = match &self.transport {
            TransportConfig::Stdio(stdio) => &stdio.env,
            TransportConfig::Http(http)
            | TransportConfig::Sse(http)
            | TransportConfig::WebSocket(http) => &http.headers,
            TransportConfig::OpenApi(api) => &api.http.headers,
        };
        let has = |list: &[String], name: &str| list.iter().any(|n| n.eq_ignore_ascii_case(name));
        let public: Vec<&Secret> =
            values.iter().filter(|(name, _)| has(&self.public, name)).map(|(_, v)| v).collect();
        let secret = |name: &str, value: &Secret| {
            has(&self.secret, name) || super::mask::is_secret(name, value.expose())
        };
        let found = values.iter().filter(|(name, value)| secret(name, value)).map(|(_, v)| v);
        let oauth = self.transport.http().map(|http| &http.oauth);
        let oauth = oauth.into_iter().flat_map(|oauth| {
            let exchange = oauth.exchange.iter();
            let exchange = exchange.flat_map(|it| it.client_secret.iter().chain(&it.actor_token));
            oauth.client_secret.iter().chain(&oauth.private_key).chain(exchange)
        });
        let all = found.chain(oauth).chain(&self.hidden);
        all.filter(|value| !public.contains(value)).cloned().collect()
    }
}

/// Durations in seconds, as in the file.
mod seconds {
    use super::{Deserialize, Duration};
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(
        span: &(impl Copy + Into<Option<Duration>>),
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match (*span).into() {
            None => to.serialize_none(),
            Some(span) if span.subsec_nanos() == 0 => to.serialize_u64(span.as_secs()),
            Some(span) => to.serialize_f64(span.as_secs_f64()),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Duration::try_from_secs_f64(f64::deserialize(from)?).map_err(D::Error::custom)
    }

    /// The same for an optional duration.
    pub mod perhaps {
        pub use super::serialize;
        use super::{Deserialize, Deserializer, Duration, Error};

        pub fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Duration>, D::Error> {
            let span = Option::<f64>::deserialize(from)?.map(Duration::try_from_secs_f64);
            span.transpose().map_err(D::Error::custom)
        }
    }
}
