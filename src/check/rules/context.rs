//! What definitions cost in a model's context: exact bytes, estimated tokens.

use crate::check::Finding;
use crate::check::rule::finding;
use crate::check::settings::Budgets;
use crate::check::subject::Subject;

/// Bytes that make about one token of English and JSON. An estimate, and called one wherever shown.
pub const BYTES_PER_TOKEN: u64 = 4;

/// Bytes of what a host puts in front of a model: the tools and the instructions.
pub fn bytes(subject: &Subject) -> u64 {
    let tools: usize = subject
        .tools()
        .map(|tool| {
            let part = |key: &str| tool.raw.get(key).map_or(0, |v| v.to_string().len());
            part("name") + part("description") + part("inputSchema")
        })
        .sum();
    (tools + subject.instructions.as_ref().map_or(0, String::len)) as u64
}

/// Compares one server with its budget.
pub(super) fn check(subject: &Subject, budgets: &Budgets) -> Option<Finding> {
    let bytes = bytes(subject);
    let tokens = bytes / BYTES_PER_TOKEN;
    (tokens > budgets.context_tokens).then(|| {
        let message = format!(
            "{} tools take {bytes} bytes of context, about {tokens} tokens (estimated); the budget is {}",
            subject.tools.len(),
            budgets.context_tokens
        );
        finding("context/budget", "tools", message)
    })
}

/// Compares all servers with the budget of the whole.
pub(super) fn total(subjects: &[Subject], budgets: &Budgets) -> Option<Finding> {
    let bytes: u64 = subjects.iter().map(bytes).sum();
    let tokens = bytes / BYTES_PER_TOKEN;
    (tokens > budgets.total_context_tokens).then(|| {
        let message = format!(
            "all servers together take {bytes} bytes of context, about {tokens} tokens (estimated); the budget is {}",
            budgets.total_context_tokens
        );
        finding("context/budget", "", message)
    })
}
