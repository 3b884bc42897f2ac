//! Servers of the files that are not there because their entry cannot be used.

use crate::base::ServerName;
use crate::config::Diagnostic;
use crate::tui::model::Model;

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
