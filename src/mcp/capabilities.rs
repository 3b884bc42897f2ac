//! What a server offers (requirements K1, K4): tools, prompts, resources and templates, each with
//! the entry as it was sent and the fields a front end draws, made safe.

pub mod decode;
pub mod diff;
mod risk;

use std::sync::Arc;

pub use risk::Risk;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::text::SafeText;

/// All lists of one server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// `tools/list`, in the server's order.
    pub tools: Vec<Arc<Tool>>,
    /// `prompts/list`.
    pub prompts: Vec<Arc<Prompt>>,
    /// `resources/list`.
    pub resources: Vec<Arc<Resource>>,
    /// `resources/templates/list`.
    pub templates: Vec<Arc<ResourceTemplate>>,
    /// Entries that did not decode, kept aside with the reason (K4).
    pub rejected: Vec<RejectedEntry>,
    /// Lists that were cut short (page or entry limit, error on a later page), with the reason.
    pub partial: Vec<(ListKind, SafeText)>,
}

impl Capabilities {
    /// Roughly how many bytes the lists hold.
    pub fn weight(&self) -> usize {
        let lists = ListKind::ALL.iter().flat_map(|kind| self.entries(*kind));
        let rejected = self.rejected.iter().map(|entry| &entry.raw);
        let all = lists.map(|(_, raw)| raw).chain(rejected);
        // As text twice: once as sent, once in the fields that are drawn; a value takes more.
        all.map(|raw| 4 * crate::base::text::json::weigh(&**raw)).sum()
    }

    /// The entries of a list: the name or URI of each, and the entry as sent.
    pub fn entries(&self, kind: ListKind) -> Vec<(&Arc<str>, &Arc<Value>)> {
        match kind {
            ListKind::Tools => self.tools.iter().map(|t| (&t.name, &t.raw)).collect(),
            ListKind::Prompts => self.prompts.iter().map(|p| (&p.name, &p.raw)).collect(),
            ListKind::Resources => self.resources.iter().map(|r| (&r.uri, &r.raw)).collect(),
            ListKind::ResourceTemplates => {
                self.templates.iter().map(|t| (&t.uri_template, &t.raw)).collect()
            }
        }
    }
}

/// Which list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ListKind {
    /// `tools/list`
    Tools,
    /// `prompts/list`
    Prompts,
    /// `resources/list`
    Resources,
    /// `resources/templates/list`
    ResourceTemplates,
}

impl ListKind {
    /// All of them, in the order in which they are fetched and shown.
    pub const ALL: [Self; 4] =
        [Self::Tools, Self::Prompts, Self::Resources, Self::ResourceTemplates];

    /// The method of the specification that lists it.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::ResourceTemplates => "resources/templates/list",
        }
    }

    /// The key of the result that holds the entries.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::ResourceTemplates => "resourceTemplates",
        }
    }

    /// The key of an entry that names it on the wire.
    pub const fn id_key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::ResourceTemplates => "uriTemplate",
        }
    }

    /// What an entry is, in the singular.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Tools => "tool",
            Self::Prompts => "prompt",
            Self::Resources => "resource",
            Self::ResourceTemplates => "resource template",
        }
    }
}

/// A tool (MCP, server features, tools).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Name as the server spells it; goes on the wire, never on the screen.
    pub name: Arc<str>,
    /// Name to draw.
    pub label: SafeText,
    /// Title to draw, from `title` or `annotations.title`.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// `inputSchema`.
    pub input_schema: Arc<Value>,
    /// `outputSchema`.
    pub output_schema: Option<Arc<Value>>,
    /// Hints about its behaviour.
    pub hints: ToolHints,
    /// The entry as sent, unknown keys included.
    pub raw: Arc<Value>,
}

impl Tool {
    /// Whether it only runs as a task (`execution.taskSupport`, MCP 2025-11-25).
    pub fn needs_task(&self) -> bool {
        self.raw.pointer("/execution/taskSupport").is_some_and(|support| support == "required")
    }
}

/// `annotations` of a tool: hints, not promises.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolHints {
    /// `readOnlyHint`
    pub read_only: Option<bool>,
    /// `destructiveHint`
    pub destructive: Option<bool>,
    /// `idempotentHint`
    pub idempotent: Option<bool>,
    /// `openWorldHint`
    pub open_world: Option<bool>,
}

/// A prompt (MCP, server features, prompts).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Name on the wire.
    pub name: Arc<str>,
    /// Name to draw.
    pub label: SafeText,
    /// Title to draw.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// Its arguments.
    pub arguments: Vec<PromptArgument>,
    /// The entry as sent.
    pub raw: Arc<Value>,
}

/// One argument of a prompt; always a string on the wire.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptArgument {
    /// Name on the wire.
    pub name: Arc<str>,
    /// Name or title to draw.
    pub label: SafeText,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// Whether it must be given.
    pub required: bool,
}

/// A resource (MCP, server features, resources).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resource {
    /// URI on the wire.
    pub uri: Arc<str>,
    /// URI to draw.
    pub label: SafeText,
    /// Name to draw.
    pub name: SafeText,
    /// Title to draw.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// MIME type to draw.
    pub mime_type: Option<SafeText>,
    /// Size in bytes when the server says it.
    pub size: Option<u64>,
    /// The entry as sent.
    pub raw: Arc<Value>,
}

/// A resource template: an RFC 6570 URI template.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceTemplate {
    /// Template on the wire.
    pub uri_template: Arc<str>,
    /// Template to draw.
    pub label: SafeText,
    /// Name to draw.
    pub name: SafeText,
    /// Title to draw.
    pub title: Option<SafeText>,
    /// Description to draw.
    pub description: Option<SafeText>,
    /// MIME type to draw.
    pub mime_type: Option<SafeText>,
    /// The entry as sent.
    pub raw: Arc<Value>,
}

/// A list entry that could not be used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RejectedEntry {
    /// The list it stood in.
    pub list: ListKind,
    /// Its index in the list as sent, from 0.
    pub index: usize,
    /// Why it was rejected.
    pub reason: SafeText,
    /// The entry as sent.
    pub raw: Arc<Value>,
}

/// How the reason ends for an entry whose name stands in its list already.
const REPEATED: &str = "is listed twice; the first one counts";

impl RejectedEntry {
    /// Whether nothing is wrong with it but that its name was taken.
    pub fn is_repeated(&self) -> bool {
        self.reason.ends_with(REPEATED)
    }
}

/// How a list changed since it was fetched before (requirement K3).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ListChanges {
    /// Entries that are new.
    pub added: Vec<(ListKind, SafeText)>,
    /// Entries that are gone.
    pub removed: Vec<(ListKind, SafeText)>,
    /// Entries that differ, with the JSON pointers that do.
    pub changed: Vec<(ListKind, SafeText, Vec<FieldChange>)>,
}

/// One field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldChange {
    /// JSON pointer within the entry.
    pub pointer: String,
    /// Value before; `None` when it was not there.
    pub before: Option<Value>,
    /// Value now; `None` when it is gone.
    pub after: Option<Value>,
}
