//! The servers of other programs: Claude Desktop, Claude Code, Cursor, VS Code, Windsurf, Cline,
//! Gemini CLI, Codex, Zed, opencode, Goose and Continue; where their files are, and how their
//! entries are read and written.
//!
//! Each dialect becomes entries of ours with the same meaning, and the other way round; what has no
//! equivalent is left out with a note. [`preview_import`] shows what would change before
//! [`crate::write_with_backup`] changes it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::document::{EntryPlace, FileFormat, read_document};
use crate::edit::{Edit, EditError, apply_edit};
use crate::source::SourceText;
use crate::{Diagnostic, Environment, Severity};
use base::ServerName;

mod dialect;
mod export;

pub use export::{ExportScope, ExportedEntry, client_entry};

/// Largest file that is read, in bytes: some programs keep more than their servers in it.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// What was found in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
#[non_exhaustive]
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
    let root = read_document(host.format(source.file()), source)?;
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
        if dialect::is_built_in(host, entry) {
            out.notes.push(format!("`{name}` is a part of {} and was left out", host.name()));
            continue;
        }
        match dialect::convert(host, &name, entry, &mut out.notes) {
            Some(entry) => out.servers.push((ServerName::new(&name), Value::Object(entry))),
            None => out.notes.push(format!("`{name}` names neither a command nor an address")),
        }
    }
    Ok(out)
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
    unified_patch(path, &masked(before), &masked(after))
}

/// Longest line of a patch that is shown in full, in characters.
const MAX_PATCH_LINE_CHARS: usize = 400;
/// Characters of a longer one that are shown around what changes in it.
const MAX_AROUND_CHARS: usize = 80;

/// The change of a file as a unified diff, to be looked at; its texts are shown as they are, but for
/// lines without end, as minified files have them: of those, what changes and what is near it.
pub fn unified_patch(path: &Path, before: &str, after: &str) -> String {
    let name = path.display().to_string();
    let patch = similar::TextDiff::from_lines(before, after)
        .unified_diff()
        .header(&name, &name)
        .to_string();
    let lines: Vec<&str> = patch.split_inclusive('\n').collect();
    let mut out = String::with_capacity(patch.len());
    let mut at = 0;
    while let Some(line) = lines.get(at).copied() {
        at += 1;
        // What is new is shown whole.
        if line.starts_with('+') || !is_long(line) {
            out.push_str(line);
            continue;
        }
        // That a line has no end is said between the two.
        let is_open = lines.get(at).is_some_and(|next| next.starts_with('\\'));
        let new = lines.get(at + usize::from(is_open)).and_then(|next| next.strip_prefix('+'));
        let Some((old, new)) = line.strip_prefix('-').zip(new) else {
            out.extend(line.chars().take(MAX_AROUND_CHARS));
            out.push_str("...\n");
            continue;
        };
        let start = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
        let most = old.chars().count().min(new.chars().count()) - start;
        let ends = old.chars().rev().zip(new.chars().rev()).take(most);
        let end = ends.take_while(|(a, b)| a == b).count();
        let open = if is_open { lines[at] } else { "" };
        out.extend(["-", &window(old, start, end), open, "+", &window(new, start, end)]);
        at += 1 + usize::from(is_open);
    }
    out
}

fn is_long(line: &str) -> bool {
    line.len() > MAX_PATCH_LINE_CHARS && line.chars().count() > MAX_PATCH_LINE_CHARS
}

/// A line without most of its first `start` and last `end` characters.
fn window(line: &str, start: usize, end: usize) -> String {
    let count = line.chars().count();
    let from = start.saturating_sub(MAX_AROUND_CHARS);
    let to = (count - end + MAX_AROUND_CHARS).min(count);
    let mut out = String::from(if from > 0 { "..." } else { "" });
    out.extend(line.chars().take(to).skip(from));
    if to < count {
        out.push_str("...");
    }
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
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
#[non_exhaustive]
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
    /// opencode.
    #[strum(serialize = "opencode")]
    Opencode,
    /// Goose.
    Goose,
    /// Continue.
    Continue,
}

impl ImportHost {
    /// All of them.
    pub const ALL: &[Self] = <Self as strum::VariantArray>::VARIANTS;

    /// Its name, as shown.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Its name on the command line: `claude-code`.
    pub fn slug(self) -> String {
        self.name().to_lowercase().replace(' ', "-")
    }

    /// The language of a file of it.
    pub fn format(self, path: &Path) -> FileFormat {
        match (self, FileFormat::from_path(path)) {
            (Self::Codex, _) => FileFormat::Toml,
            (Self::Goose, _) => FileFormat::Yaml,
            (Self::Continue, FileFormat::Json) if path.extension().is_none() => FileFormat::Yaml,
            (Self::Continue, format) => format,
            _ => FileFormat::Json,
        }
    }

    /// Where its entry of this name is in a file of it with this content.
    pub fn place(self, root: &Value, name: &str) -> EntryPlace {
        let path: &[&str] = match self {
            Self::VsCode => &["servers"],
            Self::Codex => &["mcp_servers"],
            Self::Zed => &["context_servers"],
            Self::Opencode if is_nested_opencode(root) => &["mcp", "servers"],
            Self::Opencode => &["mcp"],
            Self::Goose => &["extensions"],
            _ => &["mcpServers"],
        };
        EntryPlace {
            path: path.iter().map(|key| (*key).to_owned()).collect(),
            name: name.to_owned(),
            is_listed: self == Self::Continue && !root["mcpServers"].is_object(),
        }
    }

    /// The file that its user's servers (in a project, those of the project) are written to: the
    /// first that exists, else the first. `None` when it has none.
    pub fn client_file(self, env: &Environment, in_project: bool) -> Option<PathBuf> {
        let own = FILES.iter().filter(|(host, base, path)| {
            let is_here = matches!(base, PathBase::Here);
            *host == self
                && is_here == in_project
                && !READ_ONLY.iter().any(|end| path.ends_with(end))
        });
        let mut paths: Vec<PathBuf> =
            own.filter_map(|(_, base, path)| base.path(path, env)).collect();
        let at = paths.iter().position(|path| env.absolute(path).is_file()).unwrap_or(0);
        (at < paths.len()).then(|| paths.swap_remove(at))
    }

    /// Its programs, as found on `PATH`.
    pub const fn programs(self) -> &'static [&'static str] {
        match self {
            Self::ClaudeDesktop => &["claude-desktop"],
            Self::ClaudeCode => &["claude"],
            Self::Cursor => &["cursor", "cursor-agent"],
            Self::VsCode => &["code"],
            Self::Windsurf => &["windsurf"],
            Self::Cline => &["cline"],
            Self::GeminiCli => &["gemini"],
            Self::Codex => &["codex"],
            Self::Zed => &["zed", "zeditor"],
            Self::Opencode => &["opencode"],
            Self::Goose => &["goose"],
            Self::Continue => &["cn"],
        }
    }

    /// The program a file belongs to, judged by its name and folder.
    pub fn of_path(path: &Path) -> Option<Self> {
        let text = path.to_string_lossy().replace('\\', "/");
        let general = ["mcp.json", "settings.json", "config.toml", "config.yaml", "config.json"];
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
#[non_exhaustive]
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
    /// The user's folder for configuration, as the system has it.
    Config,
    /// `~/.config` on every system, or what `XDG_CONFIG_HOME` names.
    DotConfig,
    /// What a variable names, else the home folder.
    Variable(&'static str, &'static str),
    Here,
}

impl PathBase {
    fn path(self, path: &str, env: &Environment) -> Option<PathBuf> {
        let named = |name| env.var(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Some(match self {
            Self::Home => env.home.as_ref()?.join(path),
            Self::Config => env.config_dir.as_ref()?.join(path),
            Self::DotConfig => {
                let home = || Some(env.home.as_ref()?.join(".config"));
                named("XDG_CONFIG_HOME").or_else(home)?.join(path)
            }
            // The variable stands for the folder that is within the home folder otherwise.
            Self::Variable(name, folder) => match named(name) {
                Some(place) => place.join(path),
                None => env.home.as_ref()?.join(folder).join(path),
            },
            Self::Here => PathBuf::from(path),
        })
    }
}

const ZED: (ImportHost, PathBase, &str) = if cfg!(windows) {
    (ImportHost::Zed, PathBase::Config, "Zed/settings.json")
} else {
    (ImportHost::Zed, PathBase::DotConfig, "zed/settings.json")
};

const GOOSE: (ImportHost, PathBase, &str) = if cfg!(windows) {
    (ImportHost::Goose, PathBase::Config, "Block/goose/config/config.yaml")
} else {
    (ImportHost::Goose, PathBase::DotConfig, "goose/config.yaml")
};

const CLINE: &str =
    "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";

/// Older places, which are read and never written.
const READ_ONLY: [&str; 2] = ["Code/User/settings.json", ".continue/config.json"];

/// The files of each program.
const FILES: [(ImportHost, PathBase, &str); 25] = [
    (ImportHost::ClaudeDesktop, PathBase::Config, "Claude/claude_desktop_config.json"),
    (ImportHost::ClaudeCode, PathBase::Variable("CLAUDE_CONFIG_DIR", ""), ".claude.json"),
    (ImportHost::ClaudeCode, PathBase::Here, ".mcp.json"),
    (ImportHost::Cursor, PathBase::Home, ".cursor/mcp.json"),
    (ImportHost::Cursor, PathBase::Here, ".cursor/mcp.json"),
    (ImportHost::VsCode, PathBase::Config, "Code/User/mcp.json"),
    (ImportHost::VsCode, PathBase::Config, "Code/User/settings.json"),
    (ImportHost::VsCode, PathBase::Here, ".vscode/mcp.json"),
    (ImportHost::Windsurf, PathBase::Home, ".codeium/windsurf/mcp_config.json"),
    (ImportHost::Cline, PathBase::Config, CLINE),
    (ImportHost::Cline, PathBase::Home, ".cline/data/settings/cline_mcp_settings.json"),
    (ImportHost::GeminiCli, PathBase::Home, ".gemini/settings.json"),
    (ImportHost::GeminiCli, PathBase::Here, ".gemini/settings.json"),
    (ImportHost::Codex, PathBase::Variable("CODEX_HOME", ".codex"), "config.toml"),
    (ImportHost::Codex, PathBase::Here, ".codex/config.toml"),
    ZED,
    (ImportHost::Zed, PathBase::Here, ".zed/settings.json"),
    (ImportHost::Opencode, PathBase::DotConfig, "opencode/opencode.json"),
    (ImportHost::Opencode, PathBase::DotConfig, "opencode/opencode.jsonc"),
    (ImportHost::Opencode, PathBase::Here, "opencode.json"),
    (ImportHost::Opencode, PathBase::Here, "opencode.jsonc"),
    GOOSE,
    (ImportHost::Continue, PathBase::Home, ".continue/config.yaml"),
    (ImportHost::Continue, PathBase::Home, ".continue/config.json"),
    (ImportHost::Continue, PathBase::Here, ".continue/mcpServers/mcpdeck.yaml"),
];

/// The files of all programs, the user's before the project's.
pub fn import_places(env: &Environment) -> Vec<ImportFile> {
    let at = |(host, base, path): &(ImportHost, PathBase, &str)| {
        let path = base.path(path, env)?;
        let exists = env.absolute(&path).is_file();
        Some(ImportFile { host: *host, path, exists })
    };
    FILES.iter().filter_map(at).collect()
}

/// Whether opencode's servers are one level deeper, as its second version has them.
fn is_nested_opencode(root: &Value) -> bool {
    let servers = root.pointer("/mcp/servers").and_then(Value::as_object);
    servers.is_some_and(|servers| !servers.get("type").is_some_and(Value::is_string))
}

/// The entries of a file, by name.
fn servers(host: ImportHost, root: &Value, env: &Environment) -> Vec<(String, Value)> {
    let mut out: Vec<(String, Value)> = Vec::new();
    let mut take = |value: Option<&Value>| {
        for (name, entry) in value.map(named_entries).into_iter().flatten() {
            match out.iter_mut().find(|(known, _)| *known == name) {
                Some((_, known)) => *known = entry,
                None => out.push((name, entry)),
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
        ImportHost::Goose => take(root.get("extensions")),
        ImportHost::Opencode if is_nested_opencode(root) => take(root.pointer("/mcp/servers")),
        ImportHost::Opencode => take(root.get("mcp")),
        ImportHost::Continue => {
            take(root.get("mcpServers").filter(|servers| servers.is_object()));
            let older = root.pointer("/experimental/modelContextProtocolServers");
            let lists = [root.get("mcpServers"), older];
            let all = lists.into_iter().flatten().filter_map(Value::as_array).flatten();
            for (number, entry) in (1..).zip(all) {
                let name = entry.get("name").and_then(Value::as_str).map(str::to_owned);
                out.push((name.unwrap_or_else(|| format!("continue-{number}")), entry.clone()));
            }
        }
        ImportHost::ClaudeCode => {
            take(root.get("mcpServers").or_else(|| bare_servers(root)));
            out.extend(of_projects(root, env, &out));
            // Those of the current folder take precedence.
            let projects = root.get("projects").and_then(Value::as_object);
            let here = projects.into_iter().flatten().find(|(path, _)| Path::new(path) == env.cwd);
            for (name, entry) in
                here.map(|(_, project)| project_servers(project)).into_iter().flatten()
            {
                out.retain(|(known, _)| *known != name);
                out.push((name, entry));
            }
        }
        ImportHost::GeminiCli => {
            take(root.get("mcpServers"));
            let list = |key: &str| root.pointer(key).and_then(Value::as_array);
            let names = |list: &[Value], name: &str| list.iter().any(|one| one == name);
            for (name, entry) in &mut out {
                let excluded = list("/mcp/excluded").is_some_and(|list| names(list, name));
                let allowed = list("/mcp/allowed").is_none_or(|list| names(list, name));
                if excluded || !allowed {
                    switch_off(entry);
                }
            }
        }
        ImportHost::ClaudeDesktop
        | ImportHost::Cursor
        | ImportHost::Windsurf
        | ImportHost::Cline => take(root.get("mcpServers").or_else(|| bare_servers(root))),
    }
    out
}

/// The entries of an object by name, or of a list whose entries say their own.
fn named_entries(value: &Value) -> Vec<(String, Value)> {
    match value {
        Value::Object(all) => {
            all.iter().map(|(name, entry)| (name.clone(), entry.clone())).collect()
        }
        Value::Array(all) => {
            let named = all.iter().filter_map(|entry| {
                let mut entry = entry.as_object()?.clone();
                let name = ["id", "name"].into_iter().filter_map(|key| entry.shift_remove(key));
                let name = name.collect::<Vec<_>>().first()?.as_str()?.to_owned();
                Some((name, Value::Object(entry)))
            });
            named.collect()
        }
        _ => Vec::new(),
    }
}

/// The content of a file that is nothing but entries by name, as plugins of Claude Code have it.
fn bare_servers(root: &Value) -> Option<&Value> {
    let is_entry = |entry: &Value| ["command", "url"].iter().any(|key| entry[key].is_string());
    let all = root.as_object().filter(|all| !all.is_empty())?;
    all.values().all(is_entry).then_some(root)
}

/// The servers of a project of Claude Code, those that were switched off there disabled.
fn project_servers(project: &Value) -> Vec<(String, Value)> {
    let off = project.get("disabledMcpServers").and_then(Value::as_array);
    let servers = project.get("mcpServers").and_then(Value::as_object);
    let mut out = Vec::new();
    for (name, entry) in servers.into_iter().flatten() {
        let mut entry = entry.clone();
        if off.is_some_and(|off| off.iter().any(|one| one == name.as_str())) {
            switch_off(&mut entry);
        }
        out.push((name.clone(), entry));
    }
    out
}

/// The servers of all projects of Claude Code but the current one. Each runs in its project; a name
/// that is taken is followed by that of the project.
fn of_projects(root: &Value, env: &Environment, taken: &[(String, Value)]) -> Vec<(String, Value)> {
    let mut out: Vec<(String, Value)> = Vec::new();
    let projects = root.get("projects").and_then(Value::as_object);
    for (path, project) in projects.into_iter().flatten() {
        if Path::new(path) == env.cwd {
            continue;
        }
        for (name, mut entry) in project_servers(project) {
            let all = || taken.iter().chain(&out);
            if all().any(|(_, known)| *known == entry) {
                continue;
            }
            let folder = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            let long = format!("{name}-{folder}");
            let name = if all().any(|(known, _)| *known == name) { long } else { name };
            if let Some(entry) = entry.as_object_mut()
                && entry.get("command").is_some()
            {
                entry.entry("cwd").or_insert_with(|| Value::String(path.clone()));
            }
            out.push((name, entry));
        }
    }
    out
}

fn switch_off(entry: &mut Value) {
    if let Some(entry) = entry.as_object_mut() {
        entry.insert("disabled".to_owned(), Value::Bool(true));
    }
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
