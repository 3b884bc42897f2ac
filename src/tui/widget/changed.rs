//! A changed field of a definition: what makes it risky, before and now.

use crate::glyph::Glyphs;
use crate::prelude::*;
use crate::widget::doc::{Doc, wrap};
use crate::widget::pen::width;
use mcp::{FieldChange, Risk};

/// Width from which before and now are side by side.
const MIN_SPLIT_COLUMNS: u16 = 56;

/// Describes a changed field.
pub fn changed(change: &FieldChange, risks: &[Risk], glyphs: &Glyphs, doc: &mut Doc) {
    let pointer = if change.pointer.is_empty() { "definition" } else { &change.pointer };
    doc.gap().line(vec![(Ink::line(pointer), Role::Changed)]);
    for risk in risks {
        let text = ink!("{} {}", glyphs.warning, SafeText::line(&risk.to_string()));
        doc.text(0, &text, Role::Warning);
    }
    sides(change, doc);
}

/// A value before and now: side by side if both exist and there is room.
fn sides(change: &FieldChange, doc: &mut Doc) {
    let lines = |value: &Option<Value>, room: u16| -> Vec<Ink> {
        let text = match value {
            None => return Vec::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => serde_json::to_string_pretty(value).unwrap_or_default(),
        };
        let safe: Vec<Ink> = text.lines().map(Ink::line).collect();
        safe.iter().flat_map(|line| wrap(line.as_str(), room)).map(Ink::line).collect()
    };
    let FieldChange { before, after, .. } = change;
    if doc.width() < MIN_SPLIT_COLUMNS || before.is_none() || after.is_none() {
        let room = doc.width().saturating_sub(2);
        for (sign, value, role) in [("-", before, Role::Removed), ("+", after, Role::Added)] {
            for line in lines(value, room) {
                doc.line(vec![(ink!("{} {}", sign, line), role)]);
            }
        }
        return;
    }
    let room = (doc.width() - 3) / 2;
    let (left, right) = (lines(before, room), lines(after, room));
    let none = Ink::default();
    for row in 0..left.len().max(right.len()) {
        let (old, new) = (left.get(row).unwrap_or(&none), right.get(row).unwrap_or(&none));
        let blanks = usize::from(room.saturating_sub(width(old)));
        doc.line(vec![
            (old.clone(), Role::Removed),
            (ink!("{:1$}   ", "", blanks), Role::Text),
            (new.clone(), Role::Added),
        ]);
    }
}
