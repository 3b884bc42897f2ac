//! How the configuration stands beyond what runs: what awaits approval, what waits for an input, a
//! changed file that is not used yet. Built by the engine thread, read by the screen.

use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::overview::{ServerValues, SourceFile};
use crate::config::{Diagnostic, InputConfig};
use crate::deck::gate::Awaiting;
use crate::host::ReloadPlan;
use crate::tui::model::Model;

/// How the configuration stands.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Situation {
    /// Counts situations: an approval is for the one that was shown.
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
    pub plan: Option<ReloadPlan>,
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

impl Model {
    /// Servers of the files that are not there because their entry cannot be used, each with its
    /// first problem; an error before anything else.
    pub fn left_out(&self) -> Vec<(&ServerName, &Diagnostic)> {
        let mut out: Vec<(&ServerName, &Diagnostic)> = Vec::new();
        let errors = self.view.diagnostics.iter().filter(|d| d.is_error());
        let dependents = self.view.diagnostics.iter().filter(|d| d.rule == "config/left-out");
        for diagnostic in errors.chain(dependents) {
            let Some(name) = &diagnostic.server else { continue };
            if self.server(name).is_none() && !out.iter().any(|(known, _)| *known == name) {
                out.push((name, diagnostic));
            }
        }
        out
    }
}
