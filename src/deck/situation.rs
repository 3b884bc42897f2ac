//! The state of the configuration beyond what runs: what awaits approval or an input, a changed
//! file that is not in use yet, and the text of the files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::trust::Awaiting;
use base::{SafeText, ServerName};
use config::{
    ConfigChange, InputConfig, Loaded, ServerValues, SourceFile, SourceText, effective_values,
};

/// The state of the configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// Incremented for each situation.
    pub revision: u64,
    /// Servers that await approval, in file order.
    pub awaiting: Vec<Awaiting>,
    /// The declared inputs.
    pub inputs: Vec<InputView>,
    /// Whether answers can be stored in the keyring of the system.
    pub keyring: bool,
    /// The configuration files and what each contributes.
    pub sources: Vec<SourceFile>,
    /// Every value in effect.
    pub values: ValuesInEffect,
    /// Why the files are polled for changes, if they are.
    pub polling: Option<SafeText>,
    /// Whether there is an edit to undo.
    pub undo: bool,
    /// Whether a changed file is shown before it is used.
    pub asks: bool,
    /// What a changed file that is not in use yet would change.
    pub plan: Option<ConfigChange>,
}

/// Every value in effect by server, read when somebody looks.
#[derive(Clone, Debug, Default)]
pub struct ValuesInEffect {
    loaded: Loaded,
    read: Arc<OnceLock<Vec<ServerValues>>>,
}

impl ValuesInEffect {
    /// Those of a configuration.
    pub fn new(loaded: Loaded) -> Self {
        Self { loaded, read: Arc::default() }
    }

    /// The values of each server, in file order.
    pub fn by_server(&self) -> &[ServerValues] {
        self.read.get_or_init(|| effective_values(&self.loaded))
    }
}

impl PartialEq for ValuesInEffect {
    fn eq(&self, other: &Self) -> bool {
        self.loaded == other.loaded
    }
}

/// A declared input and its state.
#[derive(Clone, Debug, PartialEq)]
pub struct InputView {
    /// Its declaration.
    pub input: InputConfig,
    /// Where its answer comes from.
    pub state: InputState,
    /// Approved servers that wait for it.
    pub servers: Vec<ServerName>,
}

/// Where the answer to an input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputState {
    /// There is no answer.
    Open,
    /// The user, in this run.
    Answered,
    /// The keyring.
    Kept,
    /// `MCPDECK_INPUT_<ID>`.
    Variable,
}

impl Situation {
    /// The inputs that a server waits for.
    pub fn wanted(&self) -> impl Iterator<Item = &InputView> {
        self.inputs.iter().filter(|input| !input.servers.is_empty())
    }

    /// Servers to ask the user about now: disabled ones are left out.
    pub fn needing_approval(&self) -> impl Iterator<Item = &Awaiting> {
        self.awaiting.iter().filter(|awaiting| !awaiting.disabled)
    }

    /// The pending approval of a server.
    pub fn awaiting(&self, server: &ServerName) -> Option<&Awaiting> {
        self.awaiting.iter().find(|awaiting| awaiting.review.server == *server)
    }
}

/// A configuration file as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileText {
    /// Its path.
    pub path: PathBuf,
    /// Its lines, made safe, secrets masked.
    pub lines: Vec<SafeText>,
}

impl FileText {
    /// Reads a file for showing; `None` when it cannot be read.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let source = SourceText::read(path).ok()?;
        let lines = source.masked().lines().map(SafeText::line).collect();
        Some(Self { path: path.to_path_buf(), lines })
    }
}
