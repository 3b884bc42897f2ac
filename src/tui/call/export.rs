//! A call as others would make it: on a command line, on the wire, in Rust. Pure.

use crate::text::shell::quoted;
use serde_json::{Value, json};

use super::subject::{Subject, SubjectKind};

/// The ways to copy a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Export {
    /// `mcpdeck call ...`
    CommandLine,
    /// The JSON-RPC request.
    JsonRpc,
    /// Rust, with this library.
    Rust,
    /// The arguments alone.
    Arguments,
}

impl Export {
    /// All of them, in the order of the menu.
    pub const ALL: [Self; 4] = [Self::CommandLine, Self::JsonRpc, Self::Rust, Self::Arguments];

    /// Its name in the menu.
    pub const fn label(self) -> &'static str {
        match self {
            Self::CommandLine => "command line",
            Self::JsonRpc => "JSON-RPC",
            Self::Rust => "Rust",
            Self::Arguments => "arguments",
        }
    }

    /// The call in this way; `uri` is what a template expands to.
    pub fn text(self, subject: &Subject, arguments: &Value, uri: &str) -> String {
        match self {
            Self::CommandLine => command_line(subject, arguments, uri),
            Self::JsonRpc => {
                let (method, params) = match subject.kind {
                    SubjectKind::Tool => {
                        ("tools/call", json!({"name": &*subject.wire, "arguments": arguments}))
                    }
                    SubjectKind::Prompt => {
                        ("prompts/get", json!({"name": &*subject.wire, "arguments": arguments}))
                    }
                    _ => ("resources/read", json!({"uri": uri})),
                };
                json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
            }
            Self::Rust => rust(subject, arguments, uri),
            Self::Arguments => serde_json::to_string_pretty(arguments).unwrap_or_default(),
        }
    }
}

fn canonical(subject: &Subject) -> String {
    format!("{}.{}", subject.server, subject.wire)
}

fn command_line(subject: &Subject, arguments: &Value, uri: &str) -> String {
    match subject.kind {
        SubjectKind::Tool => {
            format!(
                "mcpdeck call {} {}",
                quoted(&canonical(subject)),
                quoted(&arguments.to_string())
            )
        }
        SubjectKind::Prompt => {
            let mut line = format!("mcpdeck prompt {}", quoted(&canonical(subject)));
            for (name, value) in arguments.as_object().into_iter().flatten() {
                let value = crate::tui::form::field::plain(value);
                line.push(' ');
                line.push_str(&quoted(&format!("{name}={value}")));
            }
            line
        }
        _ => format!("mcpdeck read {}", quoted(uri)),
    }
}

fn rust(subject: &Subject, arguments: &Value, uri: &str) -> String {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    match subject.kind {
        SubjectKind::Tool => {
            format!(
                "let outcome = host.call_tool({:?}, serde_json::json!({text})).await?;",
                canonical(subject)
            )
        }
        SubjectKind::Prompt => format!(
            "let outcome = host.get_prompt({:?}, serde_json::json!({text})).await?;",
            canonical(subject)
        ),
        _ => format!("let outcome = host.get_resource({uri:?}).await?;"),
    }
}
