//! How the configuration stands beyond what runs: what awaits approval, what waits for an input, a
//! changed file that is not used yet, and the text of the files.

use std::path::{Path, PathBuf};

use super::trust::Awaiting;
use crate::base::{SafeText, ServerName};
use crate::config::overview::{ServerValues, SourceFile};
use crate::config::source::SourceText;
use crate::config::{ConfigChange, InputConfig};

/// How the configuration stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// Counts situations.
    pub revision: u64,
    /// Servers that await approval, in file order.
    pub awaiting: Vec<Awaiting>,
    /// The declared inputs.
    pub inputs: Vec<InputView>,
    /// Whether answers can be kept in the keyring of the system.
    pub keyring: bool,
    /// The files there are and what each contributes.
    pub sources: Vec<SourceFile>,
    /// Every value in effect.
    pub values: Vec<ServerValues>,
    /// Why changes of the files are looked for by the clock, when they are.
    pub polling: Option<SafeText>,
    /// Whether there is an edit to take back.
    pub undo: bool,
    /// Whether a changed file is shown before it is used.
    pub asks: bool,
    /// What a changed file would do that is not used yet.
    pub plan: Option<ConfigChange>,
}

/// A declared input and how it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct InputView {
    /// As it is declared.
    pub input: InputConfig,
    /// How it stands.
    pub state: InputState,
    /// Approved servers that wait for it.
    pub servers: Vec<ServerName>,
}

/// Where the answer to an input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputState {
    /// There is none.
    Open,
    /// The person, in this run.
    Answered,
    /// The keyring.
    Kept,
    /// `MCPDECK_INPUT_<ID>`.
    Variable,
}

impl Situation {
    /// The inputs that something waits for.
    pub fn wanted(&self) -> impl Iterator<Item = &InputView> {
        self.inputs.iter().filter(|input| !input.servers.is_empty())
    }

    /// Servers a person is asked about now: switched off ones only when they are wanted.
    pub fn asked(&self) -> impl Iterator<Item = &Awaiting> {
        self.awaiting.iter().filter(|awaiting| !awaiting.disabled)
    }

    /// What there is to approve of a server.
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
