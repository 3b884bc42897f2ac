//! Everything a configuration may read from its environment: variables, folders, answered inputs.
//!
//! Passed as an argument, never a process global, so that loading is a pure function of its
//! arguments and the files it names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::Secret;

/// Returns the value for a scheme and a name.
type ValueSource = dyn Fn(&str, &str) -> Result<Secret, String> + Send + Sync;

/// Source of `${secret:NAME}`, `${keyring:NAME}` and `${cmd:HELPER:ARGUMENT}`; without one, these
/// cannot be expanded.
#[derive(Clone, Default)]
pub struct Sources {
    source: Option<Arc<ValueSource>>,
    file: Option<PathBuf>,
}

impl Sources {
    /// Calls `source` with a scheme (`secret`, `keyring` or `cmd`) and what follows it. May block.
    pub fn new(
        source: impl Fn(&str, &str) -> Result<Secret, String> + Send + Sync + 'static,
    ) -> Self {
        Self { source: Some(Arc::new(source)), file: None }
    }

    /// Names the file that keeps what stands behind `${secret:NAME}`: a configuration that has such
    /// a reference is read again when that changes.
    #[must_use]
    pub fn kept_in(mut self, file: PathBuf) -> Self {
        self.file = Some(file);
        self
    }

    /// The file that keeps what stands behind `${secret:NAME}`.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The value behind `${SCHEME:NAME}`; why there is none otherwise.
    pub fn get(&self, scheme: &str, name: &str) -> Result<Secret, String> {
        match &self.source {
            Some(source) => source(scheme, name),
            None => Err(format!("there is no source for `{scheme}` here")),
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.source.is_some() { "Sources" } else { "no sources" })
    }
}

/// The environment of a configuration.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// Variables by name. Values are secrets by default: any may hold a token.
    pub vars: BTreeMap<String, Secret>,
    /// The current folder (`${cwd}`); absolute.
    pub cwd: PathBuf,
    /// The user's home (`${userHome}`).
    pub home: Option<PathBuf>,
    /// The user's configuration folder, for example `~/.config`.
    pub config_dir: Option<PathBuf>,
    /// Folder for this program's own configuration, where `MCPDECK_CONFIG_DIR` names one.
    pub named_config_dir: Option<PathBuf>,
    /// Folder for this program's state, for example `~/.local/state/mcpdeck`; overridden by
    /// `MCPDECK_STATE_DIR`.
    pub state_dir: Option<PathBuf>,
    /// `${workspaceFolder}`; by default the project a file belongs to.
    pub workspace: Option<PathBuf>,
    /// Source of `${secret:NAME}` and the like.
    pub sources: Sources,
    /// Answered inputs by id; they win over `MCPDECK_INPUT_<ID>`.
    pub inputs: BTreeMap<String, Secret>,
}

impl Environment {
    /// The environment of this process. Variables whose name or value is not UTF-8 are left out.
    pub fn of_process() -> Self {
        let vars = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, Secret::new(value.into_string().ok()?)))
            })
            .collect();
        let own = |dir: PathBuf| dir.join("mcpdeck");
        // Empty means unset: approvals kept in the current folder could be written by the project.
        let named = |variable: &str| {
            std::env::var_os(variable).filter(|named| !named.is_empty()).map(PathBuf::from)
        };
        Self {
            vars,
            cwd: std::env::current_dir().unwrap_or_default(),
            home: dirs::home_dir(),
            config_dir: dirs::config_dir(),
            named_config_dir: named("MCPDECK_CONFIG_DIR"),
            state_dir: named("MCPDECK_STATE_DIR")
                .or_else(|| dirs::state_dir().or_else(dirs::data_local_dir).map(own)),
            ..Self::default()
        }
    }

    /// Folder for this program's own configuration: the user's servers, settings, keys and themes.
    pub fn own_config_dir(&self) -> Option<PathBuf> {
        let usual = || self.config_dir.as_ref().map(|dir| dir.join("mcpdeck"));
        self.named_config_dir.clone().or_else(usual)
    }

    /// A variable's value.
    pub fn var(&self, name: &str) -> Option<&str> {
        self.vars.get(name).map(Secret::expose)
    }

    /// The value of an input: answered, or from `MCPDECK_INPUT_<ID>`.
    pub fn input(&self, id: &str) -> Option<&Secret> {
        self.inputs.get(id).or_else(|| self.vars.get(&input_variable(id)))
    }

    /// The workspace folder for a file.
    pub fn workspace_of(&self, file: &Path) -> PathBuf {
        self.workspace.clone().unwrap_or_else(|| self.absolute(&project_of(file)))
    }

    /// Resolves a relative `path` against the current folder and normalises it.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        clean_path(&self.cwd.join(path))
    }
}

/// The variable an input is read from: `MCPDECK_INPUT_` and the id in upper case, all other
/// characters than ASCII letters and digits replaced by `_`.
pub fn input_variable(id: &str) -> String {
    let id: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    format!("MCPDECK_INPUT_{id}")
}

/// The project folder a file belongs to: its own folder, or the parent of an editor folder such as
/// `.vscode`.
pub fn project_of(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new(""));
    let editor = [".vscode", ".cursor", ".zed", ".gemini", ".codex", ".claude"];
    let inside = folder.file_name().is_some_and(|name| editor.iter().any(|e| name == *e));
    if inside { folder.parent().unwrap_or(Path::new("")) } else { folder }.to_path_buf()
}

/// Removes `.` and `..` from a path lexically, without file access.
pub fn clean_path(path: &Path) -> PathBuf {
    use std::path::Component;
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !matches!(out.components().next_back(), None | Some(Component::ParentDir)) {
                    out.pop();
                } else if !path.is_absolute() {
                    out.push("..");
                }
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_variables_are_plain_names() {
        assert_eq!(input_variable("github-token.v2"), "MCPDECK_INPUT_GITHUB_TOKEN_V2");
    }

    #[test]
    fn the_project_of_an_editor_folder_is_the_folder_above() {
        assert_eq!(project_of(Path::new("/p/.vscode/mcp.json")), Path::new("/p"));
        assert_eq!(project_of(Path::new("/p/mcp.json")), Path::new("/p"));
        assert_eq!(project_of(Path::new(".vscode/mcp.json")), Path::new(""));
    }

    #[test]
    fn an_answer_wins_over_the_variable() {
        let mut env = Environment::default();
        env.vars.insert("MCPDECK_INPUT_KEY".into(), Secret::new("variable"));
        assert_eq!(env.input("key").map(Secret::expose), Some("variable"));
        env.inputs.insert("key".into(), Secret::new("answer"));
        assert_eq!(env.input("key").map(Secret::expose), Some("answer"));
    }

    #[test]
    fn cleaning_a_path_cannot_climb_above_the_root() {
        assert_eq!(clean_path(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(clean_path(Path::new("/../../a")), Path::new("/a"));
        assert_eq!(clean_path(Path::new("../a")), Path::new("../a"));
    }
}
