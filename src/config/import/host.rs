//! The other programs: what they are called, where their files are, where in them the servers are.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::config::Environment;

/// A program that keeps a list of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    /// Claude Desktop.
    ClaudeDesktop,
    /// Claude Code.
    ClaudeCode,
    /// Cursor.
    Cursor,
    /// Visual Studio Code.
    VsCode,
    /// Windsurf.
    Windsurf,
    /// Cline.
    Cline,
    /// Gemini CLI.
    GeminiCli,
    /// Codex.
    Codex,
    /// Zed.
    Zed,
}

impl Host {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::ClaudeDesktop,
        Self::ClaudeCode,
        Self::Cursor,
        Self::VsCode,
        Self::Windsurf,
        Self::Cline,
        Self::GeminiCli,
        Self::Codex,
        Self::Zed,
    ];

    /// Its name, as shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "Claude Desktop",
            Self::ClaudeCode => "Claude Code",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Windsurf => "Windsurf",
            Self::Cline => "Cline",
            Self::GeminiCli => "Gemini CLI",
            Self::Codex => "Codex",
            Self::Zed => "Zed",
        }
    }

    /// The word for it on a command line.
    pub const fn id(self) -> &'static str {
        match self {
            Self::ClaudeDesktop => "claude-desktop",
            Self::ClaudeCode => "claude-code",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Windsurf => "windsurf",
            Self::Cline => "cline",
            Self::GeminiCli => "gemini-cli",
            Self::Codex => "codex",
            Self::Zed => "zed",
        }
    }

    /// The program with this [`Host::id`].
    pub fn by_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|host| host.id() == id)
    }

    /// Whose file it is, judged by its name and folder.
    pub fn of_path(path: &Path) -> Option<Self> {
        let text = path.to_string_lossy().replace('\\', "/");
        let ends = |end: &str| text.ends_with(end);
        if ends("claude_desktop_config.json") {
            Some(Self::ClaudeDesktop)
        } else if ends(".claude.json") || ends(".mcp.json") {
            Some(Self::ClaudeCode)
        } else if ends(".cursor/mcp.json") {
            Some(Self::Cursor)
        } else if ends(".vscode/mcp.json")
            || ends("Code/User/mcp.json")
            || ends("Code/User/settings.json")
        {
            Some(Self::VsCode)
        } else if ends("mcp_config.json") {
            Some(Self::Windsurf)
        } else if ends("cline_mcp_settings.json") {
            Some(Self::Cline)
        } else if ends(".gemini/settings.json") {
            Some(Self::GeminiCli)
        } else if ends(".codex/config.toml") {
            Some(Self::Codex)
        } else if ends("zed/settings.json") {
            Some(Self::Zed)
        } else {
            None
        }
    }
}

/// A file of another program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Whose.
    pub host: Host,
    /// Where.
    pub path: PathBuf,
    /// Whether it is there.
    pub exists: bool,
}

/// The files of all programs, the user's before the project's.
pub fn places(env: &Environment) -> Vec<Place> {
    let home = env.home.as_ref();
    let config = env.config_dir.as_ref();
    let at = super::below;
    let all: Vec<(Host, Option<PathBuf>)> = vec![
        (Host::ClaudeDesktop, at(config, "Claude/claude_desktop_config.json")),
        (Host::ClaudeCode, at(home, ".claude.json")),
        (Host::ClaudeCode, Some(".mcp.json".into())),
        (Host::Cursor, at(home, ".cursor/mcp.json")),
        (Host::Cursor, Some(".cursor/mcp.json".into())),
        (Host::VsCode, at(config, "Code/User/mcp.json")),
        (Host::VsCode, at(config, "Code/User/settings.json")),
        (Host::VsCode, Some(".vscode/mcp.json".into())),
        (Host::Windsurf, at(home, ".codeium/windsurf/mcp_config.json")),
        (
            Host::Cline,
            at(
                config,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
            ),
        ),
        (Host::GeminiCli, at(home, ".gemini/settings.json")),
        (Host::GeminiCli, Some(".gemini/settings.json".into())),
        (Host::Codex, at(home, ".codex/config.toml")),
        (Host::Codex, Some(".codex/config.toml".into())),
        (Host::Zed, zed(env)),
        (Host::Zed, Some(".zed/settings.json".into())),
    ];
    all.into_iter()
        .filter_map(|(host, path)| {
            let path = path?;
            let exists = env.absolute(&path).is_file();
            Some(Place { host, path, exists })
        })
        .collect()
}

/// Zed keeps its settings below `~/.config` on macOS too.
fn zed(env: &Environment) -> Option<PathBuf> {
    if cfg!(windows) {
        super::below(env.config_dir.as_ref(), "Zed/settings.json")
    } else {
        super::below(env.home.as_ref(), ".config/zed/settings.json")
    }
}

/// The entries of a file, by name.
pub(super) fn servers(host: Host, root: &Value, env: &Environment) -> Vec<(String, Value)> {
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
        Host::VsCode => {
            take(root.get("servers"));
            // The user's settings, before there was a file of its own.
            take(root.pointer("/mcp/servers"));
        }
        Host::Codex => take(root.get("mcp_servers")),
        Host::Zed => take(root.get("context_servers")),
        Host::ClaudeCode => {
            take(root.get("mcpServers"));
            // Servers of one project in the user's file: those of the current folder, which win.
            let projects = root.get("projects").and_then(Value::as_object);
            let here = projects.into_iter().flatten().find(|(path, _)| Path::new(path) == env.cwd);
            take(here.and_then(|(_, project)| project.get("mcpServers")));
        }
        _ => take(root.get("mcpServers")),
    }
    out
}

/// Declared inputs; only VS Code has them.
pub(super) fn inputs(host: Host, root: &Value) -> Vec<Value> {
    if host != Host::VsCode {
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
