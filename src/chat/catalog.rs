//! The tools visible to a chat, by names that models accept, and the mapping back to servers. Tools
//! that the caller may not use are omitted.

use std::sync::Arc;

use crate::llm::ToolSpec;
use base::ServerName;
use base::text::{SafeText, cut, likeness};
use host::{ExposedNames, Host, Principal, resolve_name};
use protocol::Tool;

/// Maximum length of a name that every provider takes, in bytes.
const MAX_NAME_BYTES: usize = 64;
/// Maximum length of a tool description for the model, in characters.
const MAX_DESCRIPTION_CHARS: usize = 4_000;

#[derive(Clone, Debug)]
pub struct ChatTool {
    /// The name that the model calls.
    pub name: String,
    pub server: ServerName,
    pub tool: Arc<Tool>,
}

impl ChatTool {
    /// Whether its calls may run concurrently: it declares itself read-only.
    pub fn is_parallel(&self) -> bool {
        self.tool.hints.read_only == Some(true)
    }

    /// The definition for the model.
    pub fn spec(&self) -> ToolSpec {
        let words = self.tool.raw.get("description").and_then(serde_json::Value::as_str);
        ToolSpec {
            name: self.name.clone(),
            description: SafeText::cut_block(words.unwrap_or_default(), MAX_DESCRIPTION_CHARS)
                .to_string(),
            schema: Arc::clone(&self.tool.input_schema),
        }
    }
}

/// A name without what is no part of it: the namespace of functions and the marks of channels of one
/// template (vercel/ai#17777), and spaces.
fn bare_name(name: &str) -> &str {
    let name = name.split("<|").next().unwrap_or_default().trim();
    name.strip_prefix("functions.").unwrap_or(name)
}

/// A snapshot of the visible tools.
#[derive(Clone, Debug, Default)]
pub struct ToolCatalog {
    /// In the order of the servers.
    pub tools: Vec<ChatTool>,
}

impl ToolCatalog {
    /// The tools currently visible to a caller.
    pub fn from_host(host: &Host, who: &Principal) -> Self {
        let (offers, mut tools) = (host.offers(who), Vec::new());
        let servers: Vec<ServerName> = offers.iter().map(|(server, _)| server.clone()).collect();
        let mut names = ExposedNames::new(&servers);
        for (server, all) in offers {
            for tool in all.tools.iter().filter(|tool| tool.is_for_models()) {
                let name = names.name(&server, &tool.name);
                let is_begun = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
                let name = if is_begun {
                    name
                } else {
                    // Gemini and Moonshot refuse a digit or a dash at the beginning
                    // (Finerestaurant/kicad-mcp-python#2, MoonshotAI/kimi-cli#2531).
                    let short = cut(&name, MAX_NAME_BYTES - "t_".len());
                    names.given(format!("t_{short}"), &server, &tool.name)
                };
                tools.push(ChatTool { name, server: server.clone(), tool: Arc::clone(tool) });
            }
        }
        Self { tools }
    }

    /// Finds a tool by its name here, by any qualified name, or by a bare name that one server has; also
    /// where the template of a model has left something at the name.
    pub fn find(&self, name: &str) -> Option<&ChatTool> {
        let bare = bare_name(name);
        let found = |name: &str| {
            self.tools.iter().find(|entry| entry.name == name).or_else(|| {
                let known = self.tools.iter().map(|entry| (&entry.server, &entry.tool.name));
                let (server, tool) = resolve_name(name, known).ok()?;
                self.tools.iter().find(|it| it.server == *server && it.tool.name == *tool)
            })
        };
        found(name).or_else(|| found(bare).filter(|_| bare != name))
    }

    /// The three names most similar to a nonexistent one.
    pub fn nearest(&self, name: &str) -> Vec<&str> {
        let score = |entry: &ChatTool| {
            let alone = likeness(name, &entry.tool.name);
            likeness(name, &entry.name).max(alone)
        };
        let mut scored: Vec<_> = self.tools.iter().map(|tool| (score(tool), tool)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0));
        scored.into_iter().take(3).map(|(_, tool)| tool.name.as_str()).collect()
    }
}
