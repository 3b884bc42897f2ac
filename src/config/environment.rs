//! Everything a configuration may read from around it: variables, folders, answered inputs.
//!
//! An argument, never a process global, so that loading is a pure function of its arguments and
//! the files it names.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::base::Secret;

/// Gives the value of a scheme and a name.
type ValueSource = dyn Fn(&str, &str) -> Result<Secret, String> + Send + Sync;

/// Where `${secret:NAME}`, `${keyring:NAME}` and `${cmd:HELPER:ARGUMENT}` come from; without one they
/// cannot be expanded.
#[derive(Clone, Default)]
pub struct Sources(Option<Arc<ValueSource>>);

impl Sources {
    /// Asks this for the scheme (`secret`, `keyring` or `cmd`) and what follows it. May block.
    pub fn new(
        source: impl Fn(&str, &str) -> Result<Secret, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(source)))
    }

    pub(crate) fn get(&self, scheme: &str, name: &str) -> Result<Secret, String> {
        match &self.0 {
            Some(source) => source(scheme, name),
            None => Err(format!("there is no source for `{scheme}` here")),
        }
    }
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Sources" } else { "no sources" })
    }
}

/// The surroundings of a configuration.
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
    /// Where this program may keep what it remembers, for example `~/.local/state/mcpdeck`;
    /// `MCPDECK_STATE_DIR` names another place.
    pub state_dir: Option<PathBuf>,
    /// `${workspaceFolder}`; by default the project a file belongs to (see [`project_of`]).
    pub workspace: Option<PathBuf>,
    /// Where `${secret:NAME}` and its like come from.
    pub sources: Sources,
    /// Answered inputs by id; they win over `MCPDECK_INPUT_<ID>`.
    pub inputs: BTreeMap<String, Secret>,
}

impl Environment {
    /// The surroundings of this process. Variables that are not UTF-8 are left out: nothing could
    /// name them.
    pub fn of_process() -> Self {
        let vars = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, Secret::new(value.into_string().ok()?)))
            })
            .collect();
        let own = |dir: PathBuf| dir.join("mcpdeck");
        Self {
            vars,
            cwd: std::env::current_dir().unwrap_or_default(),
            home: dirs::home_dir(),
            config_dir: dirs::config_dir(),
            state_dir: std::env::var_os("MCPDECK_STATE_DIR")
                // Empty means unset: approvals kept in whatever folder one stands in would be
                // the project's to write.
                .filter(|named| !named.is_empty())
                .map(PathBuf::from)
                .or_else(|| dirs::state_dir().or_else(dirs::data_local_dir).map(own)),
            ..Self::default()
        }
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

    /// `path` below the current folder when it is relative.
    pub fn absolute(&self, path: &Path) -> PathBuf {
        clean(&self.cwd.join(path))
    }
}

/// The variable an input is read from: `MCPDECK_INPUT_` and the id in upper case, every other
/// character than letters and digits replaced by `_`.
pub fn input_variable(id: &str) -> String {
    let id: String = id
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
        .collect();
    format!("MCPDECK_INPUT_{id}")
}

/// The folder of the project a file belongs to: its own folder, or the one above `.vscode` and
/// its kind.
pub fn project_of(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new(""));
    let editor = [".vscode", ".cursor", ".zed", ".gemini", ".codex", ".claude"];
    let inside = folder.file_name().is_some_and(|name| editor.iter().any(|e| name == *e));
    if inside { folder.parent().unwrap_or(Path::new("")) } else { folder }.to_path_buf()
}

/// Takes `.` and `..` out of a path by its words alone; no file is touched.
pub(crate) fn clean(path: &Path) -> PathBuf {
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
        assert_eq!(clean(Path::new("/a/./b/../c")), Path::new("/a/c"));
        assert_eq!(clean(Path::new("/../../a")), Path::new("/a"));
        assert_eq!(clean(Path::new("../a")), Path::new("../a"));
    }
}
