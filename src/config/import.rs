//! Imports servers from other programs: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf,
//! Cline, Gemini CLI, Codex and Zed.
//!
//! Reads their files, never writes them. Each dialect becomes entries of ours with the same
//! meaning; what has no equivalent is left out with a note. [`preview_import`] shows what would
//! change before [`crate::write_with_backup`] changes it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::edit::{Edit, EditError, apply_edit};
use crate::source::SourceText;
use crate::syntax::parse;
use crate::{Diagnostic, Environment, Severity};
use base::ServerName;

mod dialect;

/// Largest file that is read, in bytes: some programs keep more than their servers in it.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// What was found in one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// Entries in our format, in file order.
    pub servers: Vec<(ServerName, Value)>,
    /// Declared inputs they use.
    pub inputs: Vec<Value>,
    /// What was left out or changed its meaning, one sentence each; names only, no values.
    pub notes: Vec<String>,
}

/// What happens to a server whose name is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conflict {
    /// Keeps our entry.
    #[default]
    Keep,
    /// Replaces it with the imported one.
    Replace,
}

/// Reads a file of another program.
///
/// # Errors
/// Diagnostics with positions when it cannot be read or parsed, or holds no servers.
pub fn read_import(
    host: ImportHost,
    path: &Path,
    env: &Environment,
) -> Result<Imported, Vec<Diagnostic>> {
    let source = SourceText::read_up_to(&env.absolute(path), MAX_FILE_BYTES);
    read_source(host, &source.map_err(|problem| vec![*problem])?, env)
}

/// The same from text; `path` is the name shown.
///
/// # Errors
/// As [`read_import`].
pub fn read_import_text(
    host: ImportHost,
    path: &Path,
    text: &str,
    env: &Environment,
) -> Result<Imported, Vec<Diagnostic>> {
    read_source(host, &SourceText::new(path, text), env)
}

fn read_source(
    host: ImportHost,
    source: &SourceText,
    env: &Environment,
) -> Result<Imported, Vec<Diagnostic>> {
    let root = match host {
        ImportHost::Codex => from_toml(source)?,
        // What a program wrote may exceed the limits of files that users write.
        _ => match serde_json::from_str(source.text()) {
            Ok(root) => root,
            Err(_) => match parse(source) {
                (Some(root), problems) if problems.is_empty() => root.to_json(),
                (_, problems) => return Err(problems),
            },
        },
    };
    let found = servers(host, &root, env);
    if found.is_empty() {
        let message = format!("no servers of {} are in this file", host.name());
        let problem = source.diagnostic("import/nothing", Severity::Error, 0..0, message);
        return Err(vec![problem]);
    }
    let mut out = Imported { inputs: inputs(host, &root), ..Imported::default() };
    for (name, entry) in found {
        let Some(entry) = entry.as_object() else {
            out.notes.push(format!("`{name}` is not an object and was left out"));
            continue;
        };
        match dialect::convert(host, &name, entry, &mut out.notes) {
            Some(entry) => out.servers.push((ServerName::new(&name), Value::Object(entry))),
            None => out.notes.push(format!("`{name}` names neither a command nor an address")),
        }
    }
    Ok(out)
}

fn from_toml(source: &SourceText) -> Result<Value, Vec<Diagnostic>> {
    toml::from_str(source.text()).map_err(|error| {
        // The snippet is left out: what is secret in TOML is not known at this point.
        let mut problem = Diagnostic::new("config/syntax", Severity::Error, error.message());
        problem.at = source.position(error.span().unwrap_or(0..0).start);
        vec![problem]
    })
}

/// The text of our file with the imported servers added, and the notes about conflicts. Existing
/// content that is not replaced keeps its bytes.
///
/// # Errors
/// When our file cannot be edited.
pub fn merge_import(
    ours: &str,
    imported: &Imported,
    conflict: Conflict,
) -> Result<(String, Vec<String>), EditError> {
    let mut text = ours.to_owned();
    let mut notes = Vec::new();
    for input in &imported.inputs {
        text = apply_edit(&text, &Edit::AddInput { input: input.clone() })?;
    }
    for (name, entry) in &imported.servers {
        let add = Edit::Add { name: name.clone(), entry: entry.clone() };
        text = match (apply_edit(&text, &add), conflict) {
            (Err(EditError::Exists(_)), Conflict::Keep) => {
                notes.push(format!("`{name}` is there already and stays as it is"));
                continue;
            }
            (Err(EditError::Exists(_)), Conflict::Replace) => {
                notes.push(format!("`{name}` is replaced"));
                apply_edit(&text, &Edit::Replace { name: name.clone(), entry: entry.clone() })?
            }
            (result, _) => result?,
        };
    }
    Ok((text, notes))
}

/// What would change, as a unified diff with secrets masked; empty when nothing would.
pub fn preview_import(path: &Path, before: &str, after: &str) -> String {
    if before == after {
        return String::new();
    }
    let name = path.display().to_string();
    let (old, new) = (masked(before), masked(after));
    similar::TextDiff::from_lines(&*old, &*new).unified_diff().header(&name, &name).to_string()
}

/// A configuration's text with its secrets replaced, line breaks kept.
pub fn masked(text: &str) -> String {
    SourceText::new("", text).masked()
}

/// A starting point for a new server, for "add" in the dashboard: a title and the entry.
pub fn server_templates() -> Vec<(&'static str, Value)> {
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

/// Inserts a value into an object, if there is one.
fn insert(out: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        out.insert(key.to_owned(), value);
    }
}

// The other programs: names, file locations, and where the servers are in each file.

/// A program that keeps a list of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "title_case")]
pub enum ImportHost {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    #[strum(serialize = "VS Code")]
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Cline.
    Cline,
    /// Gemini CLI.
    #[strum(serialize = "Gemini CLI")]
    GeminiCli,
    /// Codex.
    Codex,
    /// Zed.
    Zed,
}

impl ImportHost {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its name, as shown.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The program a file belongs to, judged by its name and folder.
    pub fn of_path(path: &Path) -> Option<Self> {
        let text = path.to_string_lossy().replace('\\', "/");
        let general = ["mcp.json", "settings.json", "config.toml"];
        let is = |of: &str| {
            let parts: Vec<&str> = of.rsplitn(3, '/').collect();
            // A name that many programs use counts only with its folder.
            match parts[..] {
                [name, folder, ..] if general.contains(&name) => {
                    text.ends_with(&format!("{folder}/{name}"))
                }
                [name, ..] => text.ends_with(name),
                [] => false,
            }
        };
        FILES.iter().find(|(_, _, of)| is(of)).map(|(host, ..)| *host)
    }
}

/// A file of another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportFile {
    /// The program.
    pub host: ImportHost,
    /// Its path.
    pub path: PathBuf,
    /// Whether it exists.
    pub exists: bool,
}

/// The folder a path is relative to.
#[derive(Clone, Copy)]
enum PathBase {
    Home,
    Config,
    Here,
}

const ZED: (ImportHost, PathBase, &str) = if cfg!(windows) {
    (ImportHost::Zed, PathBase::Config, "Zed/settings.json")
} else {
    (ImportHost::Zed, PathBase::Home, ".config/zed/settings.json")
};

const CLINE: &str =
    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

/// The files of each program.
const FILES: [(ImportHost, PathBase, &str); 16] = [
    (ImportHost::ClaudeDesktop, PathBase::Config, "Claude/claude_desktop_config.json"),
    (ImportHost::ClaudeCode, PathBase::Home, ".claude.json"),
    (ImportHost::ClaudeCode, PathBase::Here, ".mcp.json"),
    (ImportHost::Cursor, PathBase::Home, ".cursor/mcp.json"),
    (ImportHost::Cursor, PathBase::Here, ".cursor/mcp.json"),
    (ImportHost::VsCode, PathBase::Config, "Code/User/mcp.json"),
    (ImportHost::VsCode, PathBase::Config, "Code/User/settings.json"),
    (ImportHost::VsCode, PathBase::Here, ".vscode/mcp.json"),
    (ImportHost::Windsurf, PathBase::Home, ".codeium/windsurf/mcp_config.json"),
    (ImportHost::Cline, PathBase::Config, CLINE),
    (ImportHost::GeminiCli, PathBase::Home, ".gemini/settings.json"),
    (ImportHost::GeminiCli, PathBase::Here, ".gemini/settings.json"),
    (ImportHost::Codex, PathBase::Home, ".codex/config.toml"),
    (ImportHost::Codex, PathBase::Here, ".codex/config.toml"),
    ZED,
    (ImportHost::Zed, PathBase::Here, ".zed/settings.json"),
];

/// The files of all programs, the user's before the project's.
pub fn import_places(env: &Environment) -> Vec<ImportFile> {
    let at = |(host, base, path): &(ImportHost, PathBase, &str)| {
        let path = match base {
            PathBase::Home => env.home.as_ref()?.join(path),
            PathBase::Config => env.config_dir.as_ref()?.join(path),
            PathBase::Here => PathBuf::from(path),
        };
        let exists = env.absolute(&path).is_file();
        Some(ImportFile { host: *host, path, exists })
    };
    FILES.iter().filter_map(at).collect()
}

/// The entries of a file, by name.
fn servers(host: ImportHost, root: &Value, env: &Environment) -> Vec<(String, Value)> {
    let mut out: Vec<(String, Value)> = Vec::new();
    let mut take = |value: Option<&Value>| {
        for (name, entry) in value.and_then(Value::as_object).into_iter().flatten() {
            match out.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = entry.clone(),
                None => out.push((name.clone(), entry.clone())),
            }
        }
    };
    match host {
        ImportHost::VsCode => {
            take(root.get("servers"));
            // Older location: the user's settings.
            take(root.pointer("/mcp/servers"));
        }
        ImportHost::Codex => take(root.get("mcp_servers")),
        ImportHost::Zed => take(root.get("context_servers")),
        ImportHost::ClaudeCode => {
            take(root.get("mcpServers"));
            // Per-project servers in the user's file: those of the current folder take precedence.
            let projects = root.get("projects").and_then(Value::as_object);
            let here = projects.into_iter().flatten().find(|(path, _)| Path::new(path) == env.cwd);
            take(here.and_then(|(_, project)| project.get("mcpServers")));
        }
        _ => take(root.get("mcpServers")),
    }
    out
}

/// Declared inputs; only VS Code has them.
fn inputs(host: ImportHost, root: &Value) -> Vec<Value> {
    if host != ImportHost::VsCode {
        return Vec::new();
    }
    let lists = [root.get("inputs"), root.pointer("/mcp/inputs")];
    let mut out: Vec<Value> = Vec::new();
    for input in lists.into_iter().flatten().filter_map(Value::as_array).flatten() {
        if input.get("id").is_some() && !out.contains(input) {
            out.push(input.clone());
        }
    }
    out
}
