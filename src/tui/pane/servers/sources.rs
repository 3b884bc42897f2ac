//! The sources of a server under development, on its card: what changed, how the build went,
//! whether the server was restarted for it.

use crate::host::dev::{BuildEnd, BuildView, DevView};
use crate::tui::glyph::Glyphs;
use crate::tui::ink::{Dur, Ink, count, ink};
use crate::tui::model::Model;
use crate::tui::theme::Role;
use crate::tui::widget::Doc;
use crate::tui::widget::doc::DocLine;

/// Lines of a failed build's output that are shown.
const TAIL: usize = 4;

/// Draws the line, and the last words of a build that failed.
pub fn draw(dev: &DevView, model: &Model, glyphs: &Glyphs, doc: &mut Doc) {
    let mut line: DocLine = vec![(ink!("  sources  "), Role::Faint)];
    match dev.changed_at {
        None => {
            line.push((ink!("{} watched", count(dev.files, "file")), Role::Muted));
        }
        Some(at) => {
            line.push((ink!("{} changed", &dev.changed_words()), Role::Text));
            line.push((ink!(" {}", model.ago(at)), Role::Muted));
        }
    }
    let mut part = |text: Ink, role: Role| {
        line.push((ink!(" {} ", glyphs.dot), Role::Faint));
        line.push((text, role));
    };
    let end = dev.build.as_ref().and_then(|build| build.end.as_ref());
    let failed = matches!(end, Some((BuildEnd::Failed(_) | BuildEnd::Refused(_), _)));
    if failed {
        part(ink!("the previous build keeps running"), Role::Warning);
    } else if let Some(build) = &dev.build {
        let (text, role) = built(build, model);
        part(text, role);
    }
    if dev.is_taken {
        part(ink!("restarted"), Role::Ok);
    }
    doc.line(line);
    if let Some(build) = dev.build.as_ref().filter(|_| failed) {
        let (text, role) = built(build, model);
        doc.text(2, &text, role);
    }
    for note in [&dev.note, &dev.watch_note].into_iter().flatten() {
        doc.text(2, &ink!("{} {}", glyphs.warning, note), Role::Warning);
    }
    let tail = dev.build.as_ref().map(|build| build.tail.as_slice()).unwrap_or_default();
    let said: Vec<_> = tail.iter().filter(|line| !line.trim().is_empty()).collect();
    for text in said.into_iter().rev().take(TAIL).rev() {
        doc.line(vec![(ink!("  build    "), Role::Faint), (Ink::from(text), Role::Foreign)]);
    }
}

fn built(build: &BuildView, model: &Model) -> (Ink, Role) {
    match &build.end {
        None => (ink!("building {}", model.elapsed(build.began)), Role::Busy),
        Some((BuildEnd::Done, took)) => (ink!("built in {}", Dur(*took)), Role::Text),
        Some((BuildEnd::Superseded, _)) => (ink!("build superseded"), Role::Muted),
        Some((BuildEnd::Failed(exit), took)) => {
            let how = Ink::line(&exit.describe());
            (ink!("build failed after {}: {}", Dur(*took), how), Role::Error)
        }
        Some((BuildEnd::Refused(reason), _)) => {
            (ink!("the build could not be started: {}", reason), Role::Error)
        }
    }
}
