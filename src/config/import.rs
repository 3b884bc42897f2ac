//! Taking over what other programs have configured: Claude Desktop, Claude Code, Cursor, VS Code,
//! Windsurf, Cline, Gemini CLI, Codex and Zed.
//!
//! Reads their files, never writes them. Each dialect becomes entries of ours with the same
//! meaning; what has no meaning here is named in a note and left out. [`preview`] shows what
//! would change before [`crate::config::edit::write_with_backup`] changes it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::base::ServerName;
use crate::config::edit::{Edit, EditError, apply};
use crate::config::source::Source;
use crate::config::syntax::parse;
use crate::config::{Diagnostic, Environment, Severity};

mod dialect;
mod host;

pub use host::{Host, Place, places};

/// What was found in one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// Entries in our spelling, in file order.
    pub servers: Vec<(ServerName, Value)>,
    /// Declared inputs they use.
    pub inputs: Vec<Value>,
    /// What was left out or changed its meaning, one sentence each; names only, no values.
    pub notes: Vec<String>,
}

/// What happens to a server whose name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflict {
    /// Ours stays.
    #[default]
    Keep,
    /// The imported one replaces it.
    Replace,
}

/// Reads a file of another program.
///
/// # Errors
/// Diagnostics with places when it cannot be read or parsed, or holds no servers.
pub fn read(host: Host, path: &Path, env: &Environment) -> Result<Imported, Vec<Diagnostic>> {
    let source = Source::read(&env.absolute(path)).map_err(|problem| vec![*problem])?;
    read_source(host, &source, env)
}

/// The same from text; `path` is the name shown.
///
/// # Errors
/// As [`read`].
pub fn read_text(
    host: Host,
    path: &Path,
    text: &str,
    env: &Environment,
) -> Result<Imported, Vec<Diagnostic>> {
    read_source(host, &Source::new(path, text), env)
}

fn read_source(
    host: Host,
    source: &Source,
    env: &Environment,
) -> Result<Imported, Vec<Diagnostic>> {
    let root = match host {
        Host::Codex => from_toml(source)?,
        _ => match parse(source) {
            (Some(root), problems) if problems.is_empty() => root.to_json(),
            (_, problems) => return Err(problems),
        },
    };
    let found = host::servers(host, &root, env);
    if found.is_empty() {
        let message = format!("no servers of {} are in this file", host.name());
        let problem = source.diagnostic("import/nothing", Severity::Error, 0..0, message);
        return Err(vec![problem]);
    }
    let mut out = Imported { inputs: host::inputs(host, &root), ..Imported::default() };
    for (name, entry) in found {
        let Some(entry) = entry.as_object() else {
            out.notes.push(format!("`{name}` is no object and was left out"));
            continue;
        };
        match dialect::convert(host, &name, entry, &mut out.notes) {
            Some(entry) => out.servers.push((ServerName::new(&name), Value::Object(entry))),
            None => out.notes.push(format!("`{name}` names neither a command nor an address")),
        }
    }
    Ok(out)
}

fn from_toml(source: &Source) -> Result<Value, Vec<Diagnostic>> {
    let table: Result<toml::Table, toml::de::Error> = source.text().parse();
    table
        .map_err(|error| {
            let range = error.span().unwrap_or(0..0);
            // The snippet is left out: what is secret in TOML is not known at this point.
            let mut problem = Diagnostic::new("config/syntax", Severity::Error, error.message());
            problem.at = source.position(range.start);
            vec![problem]
        })
        .and_then(|table| {
            serde_json::to_value(table).map_err(|error| {
                vec![Diagnostic::new("config/syntax", Severity::Error, error.to_string())]
            })
        })
}

/// The text of our file with imported servers in it, and the notes about conflicts. Everything
/// that is in the file already keeps its bytes.
///
/// # Errors
/// When our file cannot be edited.
pub fn merged(
    ours: &str,
    imported: &Imported,
    conflict: Conflict,
) -> Result<(String, Vec<String>), EditError> {
    let mut text = ours.to_owned();
    let mut notes = Vec::new();
    for input in &imported.inputs {
        text = apply(&text, &Edit::AddInput { input: input.clone() })?;
    }
    for (name, entry) in &imported.servers {
        let add = Edit::Add { name: name.clone(), entry: entry.clone() };
        text = match (apply(&text, &add), conflict) {
            (Err(EditError::Exists(_)), Conflict::Keep) => {
                notes.push(format!("`{name}` is there already and stays as it is"));
                continue;
            }
            (Err(EditError::Exists(_)), Conflict::Replace) => {
                notes.push(format!("`{name}` is replaced"));
                apply(&text, &Edit::Replace { name: name.clone(), entry: entry.clone() })?
            }
            (result, _) => result?,
        };
    }
    Ok((text, notes))
}

/// What would change, as a unified diff with secrets masked; empty when nothing would.
pub fn preview(path: &Path, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let name = path.display().to_string();
    let (old, new) = (masked(before), masked(after));
    similar::TextDiff::from_lines(&old, &new).unified_diff().header(&name, &name).to_string()
}

/// A configuration's text with its secrets replaced, line breaks kept.
pub fn masked(text: &str) -> String {
    let mut out = text.to_owned();
    for range in crate::config::mask::hidden_ranges(text).into_iter().rev() {
        out.replace_range(range, crate::base::secret::MASK);
    }
    out
}

/// A starting point for a new server, for "add" in the dashboard: a title and the entry.
pub fn templates() -> Vec<(&'static str, Value)> {
    vec![
        ("program", serde_json::json!({ "command": "", "args": [] })),
        ("npm package", serde_json::json!({ "command": "npx", "args": ["-y", ""] })),
        ("Python package", serde_json::json!({ "command": "uvx", "args": [""] })),
        (
            "container",
            serde_json::json!({ "command": "docker", "args": ["run", "-i", "--rm", ""] }),
        ),
        ("HTTP address", serde_json::json!({ "type": "http", "url": "https://" })),
    ]
}

/// An object with a value, when there is one.
fn insert(out: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        out.insert(key.to_owned(), value);
    }
}

/// The path shown for a place.
fn below(folder: Option<&PathBuf>, parts: &str) -> Option<PathBuf> {
    folder.map(|folder| folder.join(parts))
}
