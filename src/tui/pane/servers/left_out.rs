//! Servers of the file that are not there because their entry cannot be used: they must not be
//! missing without a word.

use crate::config::{Diagnostic, ServerName};
use crate::tui::glyph::Glyphs;
use crate::tui::ink::{Ink, ink};
use crate::tui::model::Model;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// The first problem of each server that was left out; an error before anything else.
fn all(model: &Model) -> Vec<(&ServerName, &Diagnostic)> {
    let mut out: Vec<(&ServerName, &Diagnostic)> = Vec::new();
    let errors = model.view.diagnostics.iter().filter(|d| d.is_error());
    let dependents = model.view.diagnostics.iter().filter(|d| d.rule == "config/left-out");
    for diagnostic in errors.chain(dependents) {
        let Some(name) = &diagnostic.server else { continue };
        if model.server(name).is_none() && !out.iter().any(|(known, _)| *known == name) {
            out.push((name, diagnostic));
        }
    }
    out
}

/// A few lines for each.
pub(super) fn draw(model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    for (name, problem) in all(model) {
        doc.gap();
        doc.line(vec![
            (ink!("{:<14} ", Model::name(name)), Role::Heading),
            (ink!("{} left out", glyphs.down), Role::Error),
            (ink!("    {}", Ink::line(&problem.at.to_string())), Role::Muted),
        ]);
        doc.text(2, &Ink::line(&problem.message), Role::Error);
        if let Some(help) = &problem.help {
            doc.text(2, &ink!("{} {}", glyphs.arrow, Ink::line(help)), Role::Attention);
        }
        doc.line(vec![
            (ink!("  0"), Role::Key),
            (ink!(" the file, with every problem at its line"), Role::Muted),
        ]);
    }
}
