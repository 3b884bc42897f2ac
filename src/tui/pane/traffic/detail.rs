//! The detail of one message: its properties, and its body as a foldable JSON tree.

use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::{Cx, Ui};
use crate::prelude::*;
use crate::result::draw::draw_tree_row;
use crate::result::tree::Tree;
use crate::widget::{Doc, in_sight, scroll_bar};
use base::text::json::WrittenValue;
use protocol::{Direction, MessageKind, TrafficRecord};

/// A message laid out: a head of lines, then the rows of its JSON.
#[derive(Default)]
pub struct MessageDetail {
    /// Sequence number and width it was laid out for.
    of: Option<(u64, u16)>,
    /// The end of the feed when its response had not arrived yet.
    unanswered: Option<u64>,
    head: Doc,
    json: Option<(WrittenValue, Tree)>,
    top: usize,
}

impl MessageDetail {
    /// Shows nothing.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Lays a message out if it is a new one; folds and position are kept for the same message.
    pub fn show(
        &mut self,
        key: (u64, u16),
        record: Option<&TrafficRecord>,
        pair: impl FnOnce() -> Option<u64>,
        ui: Ui<'_>,
    ) {
        let end = ui.model.traffic.end();
        if self.of == Some(key) && self.unanswered.is_none_or(|before| before == end) {
            return;
        }
        let same = self.of.is_some_and(|(seq, _)| seq == key.0);
        self.of = Some(key);
        let Some(record) = record else {
            self.head = Doc::default();
            self.json = None;
            return;
        };
        if !same {
            self.top = 0;
            let value = WrittenValue::parse(&record.body).ok();
            self.json = value.map(|value| {
                let tree = Tree::new(&value);
                (value, tree)
            });
        }
        let pair = pair();
        let waits = record.kind == MessageKind::Request && pair.is_none();
        self.unanswered = waits.then_some(end);
        self.head = head(record, pair, ui, key.1.saturating_sub(1));
        if self.json.is_none() {
            self.head.text(0, &SafeText::block(&record.body), Role::Foreign);
        }
        if record.cut {
            self.head.gap();
            self.head.text(0, &"the rest of the message was not recorded", Role::Warning);
            self.head.gap();
        }
    }

    fn len(&self) -> usize {
        self.head.len() + self.json.as_ref().map_or(0, |(_, tree)| tree.len())
    }

    /// Moves, folds and unfolds; returns whether the action applied here.
    pub fn act(&mut self, action: Action, height: usize) -> bool {
        let Some(delta) = action.steps(height.max(2) as isize - 1) else {
            return self.fold(action, height);
        };
        let Some((_, tree)) = &mut self.json else {
            self.scroll(delta, height);
            return true;
        };
        if delta < 0 && tree.cursor == 0 {
            self.top = self.top.saturating_add_signed(delta);
            return true;
        }
        tree.cursor = tree.cursor.saturating_add_signed(delta).min(tree.len() - 1);
        if tree.cursor == 0 && delta < -1 {
            self.top = 0;
        }
        self.reveal(height);
        true
    }

    fn fold(&mut self, action: Action, height: usize) -> bool {
        let Some((value, tree)) = &mut self.json else { return false };
        let Some(done) = tree.fold(value, action) else { return false };
        self.reveal(height);
        // A value that cannot be folded takes the key as well.
        done || action != Action::Left
    }

    /// Scrolls the cursor into view.
    fn reveal(&mut self, height: usize) {
        let cursor = self.json.as_ref().map_or(0, |(_, tree)| tree.cursor);
        self.top = in_sight(self.top, self.head.len() + cursor, height);
    }

    /// Scrolls by the wheel.
    pub fn scroll(&mut self, delta: isize, height: usize) {
        let last = self.len().saturating_sub(height);
        self.top = self.top.saturating_add_signed(delta).min(last);
    }

    /// Handles a click on a line: moves the cursor there, or folds if it was there already.
    pub fn click(&mut self, line: usize, height: usize) {
        let row = self.top + line;
        let Some(row) = row.checked_sub(self.head.len()) else { return };
        let Some((_, tree)) = &mut self.json else { return };
        if row == tree.cursor {
            self.fold(Action::Fold, height);
        } else if row < tree.len() {
            tree.cursor = row;
        }
    }

    /// The value under the cursor as text to copy; a string without its quotes.
    pub fn current(&self) -> Option<String> {
        let (value, tree) = self.json.as_ref()?;
        let current = value.part(&tree.pointer(value));
        Some(match current.as_str() {
            Some(text) => text.to_owned(),
            None => super::super::catalog::pretty(&current),
        })
    }

    /// Draws it; `here` tells whether it has the focus.
    pub fn render(&self, cx: &Cx<'_>, here: bool, area: Rect, buf: &mut Buffer) {
        let height = usize::from(area.height);
        let top = self.top.min(self.len().saturating_sub(1));
        self.head.render(cx, top, area, buf);
        if let Some((value, tree)) = &self.json {
            let skipped = self.head.len().saturating_sub(top).min(height);
            let from = top.saturating_sub(self.head.len());
            let look = cx.styles();
            let width = area.width.saturating_sub(1);
            let rows = tree.rows(value, &value.numbers, from, height - skipped);
            for (line, row) in rows.iter().enumerate() {
                let on = here && from + line == tree.cursor;
                let y = area.y + (skipped + line) as u16;
                draw_tree_row(row, on, &look, Rect { y, width, height: 1, ..area }, buf);
            }
        }
        scroll_bar(cx, self.len(), top, area, buf);
    }
}

/// The properties of a message; `pair` is the sequence number of its other half.
fn head(record: &TrafficRecord, pair: Option<u64>, ui: Ui<'_>, width: u16) -> Doc {
    let mut doc = Doc::new(width);
    let (sign, role) = ui.glyphs.direction(record.direction);
    let way: &'static str = if record.direction == Direction::Out { "to" } else { "from" };
    let kind: &'static str = match record.kind {
        MessageKind::Request => "request",
        MessageKind::Notification => "notification",
        MessageKind::Response => "response",
        MessageKind::Error if record.unanswered().is_some() => "no answer",
        MessageKind::Error => "error",
        MessageKind::Junk => "non-JSON output",
    };
    doc.line(vec![
        (ink!("{} ", sign), role),
        (ink!("{} {} {}", kind, way, Model::name(&record.server)), Role::Heading),
    ]);
    doc.field_if("method", record.method.as_ref(), Role::Text);
    doc.field_if("target", record.target.as_ref(), Role::Text);
    doc.field_if("id", record.id.as_ref(), Role::Text);
    doc.field_if("call", record.call.map(|call| ink!("{}", call)), Role::Text);
    doc.field("time", Model::time_of_day(record.at), Role::Text);
    doc.field("size", ink!("{}", Bytes(record.bytes as u64)), Role::Text);
    doc.field_if("took", record.latency.map(|took| ink!("{}", Dur(took))), Role::Text);
    match record.kind {
        MessageKind::Request => {
            let other = pair.and_then(|seq| ui.model.traffic.get(seq));
            let none = other.and_then(|other| other.unanswered());
            let (word, role) = match pair {
                Some(_) if let Some(reason) = none => {
                    (ink!("none: {}", Ink::line(reason)), Role::Error)
                }
                Some(_) => (ui.spelled(&[KeyScope::Traffic], "{jump-pair} shows it"), Role::Text),
                None => (ink!("not answered"), Role::Busy),
            };
            doc.field("answer", word, role);
        }
        MessageKind::Response | MessageKind::Error if pair.is_some() => {
            let word = ui.spelled(&[KeyScope::Traffic], "{jump-pair} shows it");
            doc.field("request", word, Role::Text);
        }
        _ => {}
    }
    doc.field_if("problem", record.problem.as_ref(), Role::Warning);
    doc.gap();
    doc
}
