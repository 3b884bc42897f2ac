//! Servers of the file that are not there because their entry cannot be used: they must not be
//! missing without a word.

use crate::tui::glyph::Glyphs;
use crate::tui::ink::{Ink, ink};
use crate::tui::model::Model;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;

/// A few lines for each.
pub(super) fn draw(model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    for (name, problem) in model.left_out() {
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
            (ink!(" shows the problems in the file"), Role::Muted),
        ]);
    }
}
