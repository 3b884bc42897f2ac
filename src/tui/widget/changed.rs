//! A changed field of a definition: what makes it risky, before and now.

use std::ops::Range;

use crate::glyph::Glyphs;
use crate::prelude::*;
use crate::result::content::pretty;
use crate::widget::doc::{Doc, DocLine, wrap};
use crate::widget::pen::width;
use crate::widget::{WordBudget, differing_words};
use protocol::{FieldChange, Risk};

/// Width from which before and now are side by side.
const MIN_SPLIT_COLUMNS: u16 = 56;

/// Describes a changed field.
pub fn changed(
    change: &FieldChange,
    risks: &[Risk],
    glyphs: &Glyphs,
    budget: &mut WordBudget,
    doc: &mut Doc,
) {
    let pointer = if change.pointer.is_empty() { "definition" } else { &change.pointer };
    doc.gap().line(vec![(Ink::line(pointer), Role::Changed)]);
    for risk in risks {
        let text = ink!("{} {}", glyphs.warning, SafeText::line(&risk.to_string()));
        doc.text(0, &text, Role::Warning);
    }
    sides(change, budget, doc);
}

/// The text of a value in lines, safe to draw.
fn lines_of(value: &Value) -> String {
    /// Most of a value that is indented.
    const MAX_INDENTED_BYTES: usize = 1_000_000;
    let text = match value {
        Value::String(text) => text.clone(),
        value => {
            let (text, is_cut) = pretty(value, MAX_INDENTED_BYTES);
            text + if is_cut { "…" } else { "" }
        }
    };
    let lines: Vec<Ink> = text.lines().map(Ink::line).collect();
    lines.iter().map(Ink::as_str).collect::<Vec<_>>().join("\n")
}

/// A text in rows of this width; the words that differ have this role, and the rest is plain if
/// there is more that does not.
fn rows(text: &str, places: &[Range<usize>], role: Role, room: u16) -> Vec<DocLine> {
    let rest = if places.is_empty() { role } else { Role::Text };
    let row = |part: &str| {
        let begin = part.as_ptr() as usize - text.as_ptr() as usize;
        let mut parts = Vec::new();
        let mut at = 0;
        for place in places {
            let from = place.start.saturating_sub(begin).clamp(at, part.len());
            let to = place.end.saturating_sub(begin).clamp(from, part.len());
            parts.extend([(&part[at..from], rest), (&part[from..to], role)]);
            at = to;
        }
        parts.push((&part[at..], rest));
        let parts = parts.into_iter().filter(|(part, _)| !part.is_empty());
        parts.map(|(part, role)| (Ink::line(part), role)).collect()
    };
    text.split('\n').flat_map(|line| wrap(line, room)).map(row).collect()
}

/// A value before and now: side by side if both exist and there is room.
fn sides(change: &FieldChange, budget: &mut WordBudget, doc: &mut Doc) {
    let FieldChange { before, after, .. } = change;
    let texts = [before, after].map(|value| value.as_ref().map(lines_of));
    let places = match &texts {
        [Some(before), Some(after)] => differing_words(before, after, budget),
        _ => Default::default(),
    };
    let [old, new] = [(0, Role::Removed), (1, Role::Added)].map(|(side, role)| {
        let places: &[Range<usize>] = &places[side];
        let text = texts[side].as_deref();
        move |room: u16| text.map_or_else(Vec::new, |text| rows(text, places, role, room))
    });
    if doc.width() < MIN_SPLIT_COLUMNS || before.is_none() || after.is_none() {
        let room = doc.width().saturating_sub(2);
        for (sign, rows, role) in [("-", old(room), Role::Removed), ("+", new(room), Role::Added)] {
            for row in rows {
                let lead = std::iter::once((ink!("{} ", sign), role));
                doc.line(lead.chain(row).collect());
            }
        }
        return;
    }
    let room = (doc.width() - 3) / 2;
    let (left, right) = (old(room), new(room));
    for row in 0..left.len().max(right.len()) {
        let mut line = left.get(row).cloned().unwrap_or_default();
        let used: u16 = line.iter().map(|(part, _)| width(part)).sum();
        let blanks = usize::from(room.saturating_sub(used));
        line.push((ink!("{:1$}   ", "", blanks), Role::Text));
        line.extend(right.get(row).cloned().unwrap_or_default());
        doc.line(line);
    }
}
