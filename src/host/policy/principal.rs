//! The types of a decision (principal, action, target, scope), and errors for outside callers.

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::Digest;
use crate::call::Origin;
use config::error::{Denial, Error, ErrorCode, RpcError, Violation};
use protocol::ToolHints;

/// The profile of a caller that specifies none.
pub const DEFAULT_PROFILE: &str = "default";

/// A caller: the origin of the request, its profile and its session.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    /// The origin of the request.
    pub origin: Origin,
    /// The profile; [`DEFAULT_PROFILE`] when none was given.
    pub profile: Arc<str>,
    /// Whether the profile was named: a named one binds the user too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_named: bool,
    /// The tab or session within the origin; grants may be limited to it.
    pub session: Option<Arc<str>>,
}

impl Principal {
    /// A caller with the default profile.
    pub fn new(origin: Origin) -> Self {
        static PROFILE: LazyLock<Arc<str>> = LazyLock::new(|| DEFAULT_PROFILE.into());
        Self { origin, profile: Arc::clone(&PROFILE), is_named: false, session: None }
    }

    /// Names the profile.
    #[must_use]
    pub fn with_profile(mut self, profile: impl Into<Arc<str>>) -> Self {
        (self.profile, self.is_named) = (profile.into(), true);
        self
    }

    /// Sets the tab or session.
    #[must_use]
    pub fn with_session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Whether it is the user: at the dashboard, on the command line, with the operator's token, or
    /// through a program that embeds the library.
    pub fn is_person(&self) -> bool {
        self.origin.is_person()
    }

    /// The model that works for this caller in a chat: a caller of its own, never the user.
    #[must_use]
    pub fn model(&self) -> Self {
        match &self.origin {
            Origin::Chat(_) => self.clone(),
            origin => Self { origin: Origin::Chat(origin.to_string().into()), ..self.clone() },
        }
    }

    /// The client that a model works for; `None` for the model of the user, and for any caller that
    /// is not a model.
    pub fn client(&self) -> Option<Self> {
        let Origin::Chat(id) = &self.origin else { return None };
        let origin = Origin::parse(id).filter(|origin| !origin.is_person())?;
        Some(Self { origin, ..self.clone() })
    }

    /// The caller that limits count and the operator pauses: whom a model works for, otherwise the
    /// caller itself.
    #[must_use]
    pub fn accountable(&self) -> Self {
        let of_model = match &self.origin {
            Origin::Chat(id) => Origin::parse(id),
            _ => None,
        };
        let origin = of_model.unwrap_or_else(|| self.origin.clone());
        Self { origin, ..self.clone() }
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.origin, self.profile)
    }
}

/// A permission that can be granted.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::Display,
    strum::EnumString,
    IntoStaticStr,
    VariantArray,
)]
pub enum AccessScope {
    /// List tools.
    #[serde(rename = "mcp:tools.list")]
    #[strum(serialize = "mcp:tools.list")]
    ToolsList,
    /// Call tools; includes listing them.
    #[serde(rename = "mcp:tools.call")]
    #[strum(serialize = "mcp:tools.call")]
    ToolsCall,
    /// Start, stop or restart a server.
    #[serde(rename = "mcp:server.connect")]
    #[strum(serialize = "mcp:server.connect")]
    ServerConnect,
    /// List, read and subscribe to resources.
    #[serde(rename = "mcp:resources.read")]
    #[strum(serialize = "mcp:resources.read")]
    ResourcesRead,
    /// List and get prompts.
    #[serde(rename = "mcp:prompts.get")]
    #[strum(serialize = "mcp:prompts.get")]
    PromptsGet,
    /// Read the page in the active tab of the browser.
    #[serde(rename = "browser:activeTab.read")]
    #[strum(serialize = "browser:activeTab.read")]
    ActiveTabRead,
}

impl AccessScope {
    /// All scopes.
    pub const ALL: &[Self] = Self::VARIANTS;
    /// What a list of tools permits where no scope is named.
    pub const OF_TOOLS: &[Self] = &[Self::ToolsList, Self::ToolsCall];

    /// The spelling.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    /// Parses the spelling.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// The requested action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum PolicyAction {
    /// See it in a list.
    List,
    /// `tools/call`
    Call,
    /// `resources/read`
    Read,
    /// `prompts/get`
    Prompt,
    /// `completion/complete`
    Complete,
    /// `resources/subscribe`
    Subscribe,
    /// Start, stop or restart a server.
    Connect,
    /// Read the page in the active tab.
    ReadTab,
}

impl PolicyAction {
    /// The method of the protocol, or a name like one.
    pub(super) const fn method(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Call => "tools/call",
            Self::Read => "resources/read",
            Self::Prompt => "prompts/get",
            Self::Complete => "completion/complete",
            Self::Subscribe => "resources/subscribe",
            Self::Connect => "server/connect",
            Self::ReadTab => "tab/read",
        }
    }

    /// The scopes that permit it; one of them suffices.
    pub(super) const fn scopes(self, kind: TargetKind) -> &'static [AccessScope] {
        use AccessScope::{
            ActiveTabRead, PromptsGet, ResourcesRead, ServerConnect, ToolsCall, ToolsList,
        };
        match (self, kind) {
            (Self::ReadTab, _) => &[ActiveTabRead],
            (Self::Connect, _) => &[ServerConnect],
            (Self::List, TargetKind::Tool) => &[ToolsList, ToolsCall],
            (_, TargetKind::Tool) => &[ToolsCall],
            (_, TargetKind::Prompt) => &[PromptsGet],
            (_, TargetKind::Resource) => &[ResourcesRead],
            (_, TargetKind::Server) => {
                &[ToolsList, ToolsCall, ServerConnect, ResourcesRead, PromptsGet]
            }
        }
    }
}

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum TargetKind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource, by URI.
    Resource,
    /// A server as a whole.
    Server,
}

/// The target of an action.
#[derive(Clone, Copy, Debug)]
pub struct PolicyTarget<'a> {
    /// Its kind.
    pub kind: TargetKind,
    /// The server, as the configuration spells it.
    pub server: &'a str,
    /// The tool or prompt as its server spells it, or the URI as it will be sent; empty for a
    /// server.
    pub name: &'a str,
    /// Hints of a tool.
    pub hints: ToolHints,
    /// Digest of the tool's current definition; `None` if unknown, which matches neither a pin nor
    /// the binding of a grant.
    pub definition: Option<&'a Digest>,
    /// Digests of the server's current command or address, and of its instructions.
    pub about: Option<&'a ServerDigests>,
}

/// The digests of a server that grants and pins are bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerDigests {
    /// Command line or address.
    pub command: Digest,
    /// `instructions`; the digest of the empty text when there are none.
    pub instructions: Digest,
}

impl<'a> PolicyTarget<'a> {
    /// A tool whose definition is unknown.
    pub fn tool(server: &'a str, name: &'a str) -> Self {
        let hints = ToolHints::default();
        Self { kind: TargetKind::Tool, server, name, hints, definition: None, about: None }
    }

    /// A prompt.
    pub fn prompt(server: &'a str, name: &'a str) -> Self {
        Self { kind: TargetKind::Prompt, ..Self::tool(server, name) }
    }

    /// A resource by its URI.
    pub fn resource(server: &'a str, uri: &'a str) -> Self {
        Self { kind: TargetKind::Resource, ..Self::tool(server, uri) }
    }

    /// A server.
    pub fn server(server: &'a str) -> Self {
        Self { kind: TargetKind::Server, ..Self::tool(server, "") }
    }
}

// Errors for outside callers: maps engine errors to their codes, without
// paths, command lines or values of the configuration.

/// Stable code of an error for outside callers.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, strum::Display,
)]
#[strum(prefix = "ERR_", serialize_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum OutsideCode {
    /// Nothing was granted, or the policy service denied the call.
    #[serde(rename = "ERR_PERMISSION_DENIED")]
    PermissionDenied,
    /// A scope was not granted.
    #[serde(rename = "ERR_SCOPE_REQUIRED")]
    ScopeRequired,
    /// The server is not ready.
    #[serde(rename = "ERR_SERVER_UNAVAILABLE")]
    ServerUnavailable,
    /// The server failed too often in a row: its breaker, or the tool's, is open.
    #[serde(rename = "ERR_CIRCUIT_OPEN")]
    CircuitOpen,
    /// There is no such server for this caller.
    #[serde(rename = "ERR_SERVER_NOT_FOUND")]
    ServerNotFound,
    /// There is no such tool, prompt or resource for this caller.
    #[serde(rename = "ERR_TOOL_NOT_FOUND")]
    ToolNotFound,
    /// The tool is not among those that were granted.
    #[serde(rename = "ERR_TOOL_NOT_ALLOWED")]
    ToolNotAllowed,
    /// No response before the deadline.
    #[serde(rename = "ERR_TOOL_TIMEOUT")]
    ToolTimeout,
    /// The server returned an error, or the call was cancelled.
    #[serde(rename = "ERR_TOOL_FAILED")]
    ToolFailed,
    /// The arguments violate the schema, or the response was invalid.
    #[serde(rename = "ERR_PROTOCOL_ERROR")]
    ProtocolError,
    /// An internal error of the host.
    #[serde(rename = "ERR_INTERNAL")]
    Internal,
    /// Too many calls.
    #[serde(rename = "ERR_RATE_LIMITED")]
    RateLimited,
    /// The run's budget is spent.
    #[serde(rename = "ERR_BUDGET_EXCEEDED")]
    BudgetExceeded,
}

impl OutsideCode {
    /// The spelling.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// An error as reported to outside callers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OutsideError {
    /// Its code.
    pub code: OutsideCode,
    /// What happened.
    pub message: String,
    /// How long to wait before a retry, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// Where the arguments violate the tool's schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub violations: Vec<Violation>,
    /// The server's own JSON-RPC error, as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rpc: Option<RpcError>,
}

impl OutsideError {
    /// Converts an error for an outside caller. Drops the host's messages about a server, which may
    /// contain its command line, a path or a line of its log.
    pub fn from_error(error: &Error) -> Self {
        use OutsideCode as Code;
        let own = || error.message.clone();
        let (code, message) = match (error.code, error.denial) {
            // Safe: these messages derive only from the caller's input and the tool's schema.
            (ErrorCode::PermissionDenied, Some(Denial::Scope)) => (Code::ScopeRequired, own()),
            (ErrorCode::PermissionDenied, Some(Denial::Tool)) => (Code::ToolNotAllowed, own()),
            (ErrorCode::PermissionDenied, _) => (Code::PermissionDenied, own()),
            (ErrorCode::ToolNotFound, _) => (Code::ToolNotFound, own()),
            (ErrorCode::BudgetExceeded, _) => (Code::BudgetExceeded, own()),
            (ErrorCode::Validation, _) => (Code::ProtocolError, own() + &places(error)),
            (ErrorCode::PolicyBlocked, Some(Denial::Changed)) => {
                let next = "list the tools again, look at its definition, then call again; a tool \
                            that is not listed any more waits for the operator to accept the change";
                (Code::PermissionDenied, format!("{}; {next}", own()))
            }
            (ErrorCode::PolicyBlocked, Some(Denial::Suspicious)) => {
                let next = "; change them, or let the operator permit them for this server";
                (Code::PermissionDenied, own() + &places(error) + next)
            }
            (ErrorCode::Protocol, _) if error.rpc.is_some() => {
                let said = error.rpc.as_ref().map(|rpc| rpc.message.clone());
                (Code::ToolFailed, said.unwrap_or_default())
            }
            (code, _) => {
                let unavailable;
                let (code, message) = match code {
                    ErrorCode::PolicyBlocked => (Code::PermissionDenied, "Compliance Blocked"),
                    ErrorCode::Ambiguous => {
                        (Code::ToolNotFound, "the name is ambiguous: write server.name")
                    }
                    ErrorCode::Cancelled => (Code::ToolFailed, "the call was cancelled"),
                    ErrorCode::CircuitOpen => {
                        unavailable = format!("it failed too often in a row{}", when(error));
                        (Code::CircuitOpen, &*unavailable)
                    }
                    ErrorCode::ServerStartup | ErrorCode::ServerUnavailable => {
                        let why = error.outage.as_deref().unwrap_or("is not available");
                        unavailable = format!("the server {why}{}", when(error));
                        (Code::ServerUnavailable, &*unavailable)
                    }
                    ErrorCode::Timeout => (Code::ToolTimeout, "no answer in time"),
                    ErrorCode::Protocol => match &error.outage {
                        Some(limit) => {
                            unavailable = format!(
                                "the server {limit}; ask for less, or let the operator raise the \
                                 limit"
                            );
                            (Code::ProtocolError, &*unavailable)
                        }
                        None => (Code::ProtocolError, "the server's answer breaks the protocol"),
                    },
                    ErrorCode::RateLimited => {
                        let limit = error.outage.as_deref().unwrap_or("too many calls");
                        unavailable = format!("{limit}{}", when(error));
                        (Code::RateLimited, &*unavailable)
                    }
                    _ => (Code::Internal, "the host could not do it"),
                };
                (code, message.to_owned())
            }
        };
        let retry = error.retry_after.map(|after| Duration::as_millis(&after) as u64);
        Self {
            code,
            message,
            retry_after_ms: retry,
            violations: error.violations.clone(),
            rpc: error.rpc.clone(),
        }
    }
}

/// The places of violations, in words.
fn places(error: &Error) -> String {
    let places = error.violations.iter().map(|violation| {
        let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
        format!("; {at}: {}", violation.message)
    });
    places.collect()
}

/// When to try again, in words: those who read a message see nothing else.
fn when(error: &Error) -> String {
    let wait = error.retry_after.map(|after| {
        let seconds = after.as_secs_f64().ceil().max(1.0);
        format!("; try again in {seconds:.0} s")
    });
    wait.unwrap_or_default()
}

impl fmt::Display for OutsideError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}
