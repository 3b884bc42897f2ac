//! The words of a decision: who asks, for what, of what.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::call::Origin;
use crate::host::policy::Digest;
use crate::mcp::capabilities::ToolHints;

/// The profile of a caller that names none.
pub const DEFAULT_PROFILE: &str = "default";

/// Who asks: where the request comes from, and in which profile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Principal {
    /// Where the request comes from.
    pub origin: Origin,
    /// Its profile; [`DEFAULT_PROFILE`] when it has none.
    pub profile: Arc<str>,
    /// The tab or session within the origin, to which a grant may be limited.
    pub session: Option<Arc<str>>,
}

impl Principal {
    /// A caller with the default profile.
    pub fn new(origin: Origin) -> Self {
        Self { origin, profile: DEFAULT_PROFILE.into(), session: None }
    }

    /// With this profile.
    #[must_use]
    pub fn with_profile(mut self, profile: impl Into<Arc<str>>) -> Self {
        self.profile = profile.into();
        self
    }

    /// Within this tab or session.
    #[must_use]
    pub fn with_session(mut self, session: impl Into<Arc<str>>) -> Self {
        self.session = Some(session.into());
        self
    }

    /// Whether it is the person: at the dashboard, at the command line, or whose program embeds the
    /// library.
    pub fn is_person(&self) -> bool {
        self.origin.is_person()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.origin, self.profile)
    }
}

/// What a grant permits.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Scope {
    /// See the tools.
    #[serde(rename = "mcp:tools.list")]
    ToolsList,
    /// Call tools; includes seeing them.
    #[serde(rename = "mcp:tools.call")]
    ToolsCall,
    /// Have a server started, stopped or restarted.
    #[serde(rename = "mcp:server.connect")]
    ServerConnect,
    /// List, read and subscribe to resources.
    #[serde(rename = "mcp:resources.read")]
    ResourcesRead,
    /// List and get prompts.
    #[serde(rename = "mcp:prompts.get")]
    PromptsGet,
    /// Read the page of the active tab of the browser.
    #[serde(rename = "browser:activeTab.read")]
    ActiveTabRead,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::ToolsList,
        Self::ToolsCall,
        Self::ServerConnect,
        Self::ResourcesRead,
        Self::PromptsGet,
        Self::ActiveTabRead,
    ];

    /// The spelling.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ToolsList => "mcp:tools.list",
            Self::ToolsCall => "mcp:tools.call",
            Self::ServerConnect => "mcp:server.connect",
            Self::ResourcesRead => "mcp:resources.read",
            Self::PromptsGet => "mcp:prompts.get",
            Self::ActiveTabRead => "browser:activeTab.read",
        }
    }

    /// The scope spelled so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
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
    /// Have a server started, stopped or restarted.
    Connect,
    /// Read the page of the active tab.
    ReadTab,
}

impl Action {
    /// The scopes that permit it; one is enough.
    pub(super) const fn scopes(self, kind: TargetKind) -> &'static [Scope] {
        use Scope::{
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

/// What kind of thing is asked for.
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

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// Its kind.
    pub kind: TargetKind,
    /// The server, as the configuration spells it.
    pub server: &'a str,
    /// The tool or prompt as its server spells it, or the URI as it will be sent; empty for a
    /// server.
    pub name: &'a str,
    /// Hints of a tool.
    pub hints: ToolHints,
    /// What the server says it is, as seen now; `None` where that is not known, which no pin and
    /// no binding of a grant covers.
    pub definition: Option<&'a Digest>,
    /// The server's command or address, and its instructions, as they are now.
    pub about: Option<&'a ServerDigests>,
}

/// What of a server a grant and a pin are bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServerDigests {
    /// Command line or address.
    pub command: Digest,
    /// `instructions`; that of the empty text when it has none.
    pub instructions: Digest,
}

impl<'a> Target<'a> {
    /// A tool whose definition is not known.
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
