//! The tools of a prompt as a provider takes them: schemas adapted, names of properties mapped back
//! in calls, and tools that the provider has refused left out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use serde_json::Value;

use crate::llm::{ChatMessage, ModelPrompt, ModelReply, ToolSpec};
use base::text::SafeText;
use schema::{AdaptedSchema, SchemaDocument, ToolFormat};

/// Maximum number of tools of which a provider's view is remembered.
const MAX_REMEMBERED_TOOLS: usize = 4_096;

/// A tool as it is sent.
#[derive(Clone, Debug)]
struct OfferedTool {
    original: Arc<Value>,
    adapted: Arc<AdaptedSchema>,
    sent: Arc<Value>,
    /// Whether the provider refused it.
    is_refused: bool,
}

/// What is known of the tools that were offered to one model.
#[derive(Debug)]
pub(super) struct ToolOffer {
    format: ToolFormat,
    tools: Mutex<HashMap<String, OfferedTool>>,
    /// Whether it was said that there are too many.
    is_excess_told: AtomicBool,
}

impl ToolOffer {
    pub(super) fn new(format: ToolFormat) -> Self {
        Self { format, tools: Mutex::default(), is_excess_told: AtomicBool::new(false) }
    }

    fn tool(&self, spec: &ToolSpec) -> OfferedTool {
        let mut tools = self.tools.lock();
        let is_same = |known: &&OfferedTool| {
            Arc::ptr_eq(&known.original, &spec.schema) || known.original == spec.schema
        };
        if let Some(known) = tools.get(&spec.name).filter(is_same) {
            return known.clone();
        }
        let document = SchemaDocument::new(&spec.schema);
        let adapted = AdaptedSchema::new(&document, self.format);
        let tool = OfferedTool {
            original: Arc::clone(&spec.schema),
            sent: Arc::new(adapted.schema.clone()),
            adapted: Arc::new(adapted),
            is_refused: false,
        };
        if tools.len() < MAX_REMEMBERED_TOOLS {
            tools.insert(spec.name.clone(), tool.clone());
        }
        tool
    }

    /// The prompt with its tools, and the arguments of earlier calls, as the provider takes them.
    pub(super) fn adapted(&self, prompt: &ModelPrompt) -> ModelPrompt {
        let offered = prompt.tools.iter().map(|spec| (spec, self.tool(spec)));
        let offered: Vec<_> = offered.filter(|(_, tool)| !tool.is_refused).collect();
        let by_name: HashMap<&str, &AdaptedSchema> =
            offered.iter().map(|(spec, tool)| (spec.name.as_str(), &*tool.adapted)).collect();
        let messages = prompt.messages.iter().map(|message| {
            let mut message = message.clone();
            if let ChatMessage::Assistant(reply) = &mut message {
                for call in reply.calls.iter_mut().filter(|call| call.problem.is_none()) {
                    if let Some(adapted) = by_name.get(call.name.as_str()) {
                        call.arguments = adapted.encode(std::mem::take(&mut call.arguments));
                    }
                }
            }
            message
        });
        let messages = messages.collect();
        let most = self.format.max_tools().unwrap_or(usize::MAX);
        let tools = offered.iter().take(most).map(|(spec, tool)| ToolSpec {
            name: spec.name.clone(),
            description: spec.description.clone(),
            schema: Arc::clone(&tool.sent),
        });
        ModelPrompt { system: prompt.system.clone(), messages, tools: tools.collect() }
    }

    /// The first tool beyond the number that the provider takes, and what to tell of it; once.
    pub(super) fn excess(&self, prompt: &ModelPrompt) -> Option<(String, SafeText)> {
        let most = self.format.max_tools()?;
        let first = prompt.tools.get(most)?;
        let more = prompt.tools.len() - most;
        let why = format!(
            "the provider takes {most} tools in a request: {more} from {} on are left out",
            first.name
        );
        let is_told = self.is_excess_told.swap(true, Ordering::Relaxed);
        (!is_told).then(|| (first.name.clone(), SafeText::line(&why)))
    }

    /// Gives the arguments of calls the names that the servers know.
    pub(super) fn restore(&self, reply: &mut ModelReply) {
        let tools = self.tools.lock();
        for call in reply.calls.iter_mut().filter(|call| call.problem.is_none()) {
            if let Some(tool) = tools.get(&call.name) {
                call.arguments = tool.adapted.decode(std::mem::take(&mut call.arguments));
            }
        }
    }

    /// Leaves out the tool that a refusal names; returns its name. `sent` is the refused prompt.
    pub(super) fn leave_out(&self, sent: &ModelPrompt, refusal: &str) -> Option<String> {
        let named = named_tool(&sent.tools, refusal)?;
        let mut tools = self.tools.lock();
        tools.get_mut(&named)?.is_refused = true;
        Some(named)
    }
}

/// The tool that a refusal is about: by the index that providers give (`tools.3.custom`,
/// `tools[3].function`, `function_declarations[3]`), else by the longest name within it.
fn named_tool(tools: &[ToolSpec], refusal: &str) -> Option<String> {
    let indexed = ["function_declarations[", "functionDeclarations[", "tools[", "tools."];
    let by_index = indexed.iter().find_map(|before| {
        let (_, rest) = refusal.split_once(before)?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        tools.get(rest[..digits].parse::<usize>().ok()?)
    });
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let names = |tool: &&ToolSpec| {
        refusal.match_indices(&tool.name).any(|(at, name)| {
            !refusal[..at].ends_with(is_word) && !refusal[at + name.len()..].starts_with(is_word)
        })
    };
    let by_name = || tools.iter().filter(names).max_by_key(|tool| tool.name.len());
    by_name().or(by_index).map(|tool| tool.name.clone())
}

/// What the person is told of a tool that was left out.
pub(super) fn left_out(name: &str, why: &str) -> SafeText {
    SafeText::cut(&format!("the provider refuses the tool {name}, which is left out: {why}"), 400)
}
