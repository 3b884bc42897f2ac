//! What a person can want of a form, and what it does. Which key means which command is decided by
//! the key table.

use crate::tui::action::Action;
use serde_json::Value;

use super::edit::Direction;
use super::field::FieldKind;
use super::input::{Editor, Edits, area};
use super::pointer;
use super::problem::Weight;
use super::row::RowKind;
use super::state::FormState;

impl FormState {
    /// Does a command; gives whether it meant anything here.
    pub fn apply(&mut self, action: Action) -> bool {
        let at = self.current().map(|row| row.pointer.clone()).unwrap_or_default();
        match action {
            Action::NextField => self.select(self.cursor + 1),
            Action::PreviousField => self.select(self.cursor.saturating_sub(1)),
            Action::FirstField => self.select(0),
            Action::LastField => self.select(self.rows.len()),
            Action::NextProblem => return self.next_problem(),
            Action::Open => return self.enter(),
            Action::Toggle => return self.toggle(),
            Action::Unset => self.unset(&at),
            Action::SetNull => self.set_null(self.cursor),
            Action::SetEmpty => return self.set_empty(self.cursor),
            Action::AddItem => return self.add_here(),
            Action::RemoveItem => return self.on_member(Self::remove),
            Action::DuplicateItem => return self.on_item(|form, at| form.duplicate(at).is_some()),
            Action::MoveUp => {
                return self.on_item(|f, at| f.move_item(at, Direction::Up).is_some());
            }
            Action::MoveDown => {
                return self.on_item(|f, at| f.move_item(at, Direction::Down).is_some());
            }
            Action::StepUp => self.step(self.cursor, Direction::Up),
            Action::StepDown => self.step(self.cursor, Direction::Down),
            Action::Left => self.fold(self.cursor, true),
            Action::Right => self.fold(self.cursor, false),
            Action::Rename => return self.begin_rename(),
            Action::AsJson => self.as_json(&at),
            Action::Json => self.toggle_json(),
            Action::Undo => return self.undo(),
            _ => return false,
        }
        true
    }

    fn next_problem(&mut self) -> bool {
        if self.json.as_ref().is_some_and(|json| json.problem().is_some()) {
            self.enter_json();
            return true;
        }
        let rows = self.problems().iter().filter_map(|p| p.row);
        let after = rows.clone().find(|row| *row > self.cursor);
        let Some(row) = after.or_else(|| rows.clone().next()) else { return false };
        self.select(row);
        true
    }

    /// Goes to the gravest of the problems that keep the form from being sent, the first of those.
    /// False when there is none.
    pub fn go_to_gravest(&mut self) -> bool {
        if self.json.as_ref().is_some_and(|json| json.problem().is_some()) {
            self.enter_json();
            return true;
        }
        let blocking = self.problems().iter().filter(|problem| problem.weight < Weight::Note);
        let placed = blocking.filter_map(|problem| Some((problem.weight, problem.row?)));
        let Some((_, row)) = placed.min() else { return false };
        self.select(row);
        true
    }

    fn enter(&mut self) -> bool {
        let Some(row) = self.current() else { return false };
        match &row.kind {
            RowKind::Add { keyed: true } => return self.finish_key(),
            RowKind::Add { keyed: false } => {
                let at = row.pointer.clone();
                return self.add_item(&at).is_some();
            }
            _ if self.editor.as_ref().is_some_and(|e| e.edits == Edits::Rename) => {
                return self.finish_key();
            }
            RowKind::Field { folded: Some(folded), .. } => {
                let folded = *folded;
                self.fold(self.cursor, !folded);
            }
            RowKind::Variant { .. } | RowKind::Types { .. } => self.open_popup(String::new()),
            RowKind::Field { field, .. } => match field.kind {
                FieldKind::Choice(_) | FieldKind::MultiChoice(_) => self.open_popup(String::new()),
                // A container that is null has nothing to fold: going in makes it empty.
                FieldKind::Object { .. } | FieldKind::Array { .. } => {
                    return self.set_empty(self.cursor);
                }
                _ => self.select(self.cursor + 1),
            },
            RowKind::More { .. } => self.toggle_json(),
        }
        true
    }

    fn toggle(&mut self) -> bool {
        let Some(row) = self.current() else { return false };
        let at = row.pointer.clone();
        match &row.kind {
            RowKind::Field { folded: Some(folded), .. } => {
                let folded = *folded;
                self.fold(self.cursor, !folded);
            }
            RowKind::Field { field, .. } => match &field.kind {
                FieldKind::Bool => self.step(self.cursor, Direction::Up),
                FieldKind::Const(fixed) => {
                    let fixed = fixed.clone();
                    if pointer::get(self.value.as_ref(), &at).is_some() {
                        self.unset(&at);
                    } else {
                        self.set(&at, fixed);
                    }
                }
                FieldKind::Null => self.set_null(self.cursor),
                FieldKind::Choice(_) | FieldKind::MultiChoice(_) => self.open_popup(String::new()),
                _ => return false,
            },
            RowKind::Variant { .. } | RowKind::Types { .. } => self.open_popup(String::new()),
            RowKind::Add { keyed: false } => return self.add_item(&at).is_some(),
            _ => return false,
        }
        true
    }

    /// The nearest list at or above the cursor gets an item; an object gets a key to be named.
    fn add_here(&mut self) -> bool {
        let Some(row) = self.current() else { return false };
        let mut at = row.pointer.clone();
        loop {
            let adds = self
                .rows
                .iter()
                .position(|r| r.pointer == at && matches!(r.kind, RowKind::Add { .. }));
            if let Some(index) = adds {
                let keyed = matches!(self.rows[index].kind, RowKind::Add { keyed: true });
                if keyed {
                    self.select(index);
                    return true;
                }
                return self.add_item(&at).is_some();
            }
            let folded = self.rows.iter().find(|r| r.pointer == at).and_then(super::Row::field);
            if folded.is_some_and(|f| matches!(f.kind, FieldKind::Array { open: true })) {
                return self.add_item(&at).is_some();
            }
            if folded.is_some_and(|f| matches!(f.kind, FieldKind::Object { open: true })) {
                // Unfolded, it has a line where the key is named.
                self.decisions.folds.insert(at.clone(), false);
                self.refresh();
                let adds = |r: &super::Row| {
                    r.pointer == at && matches!(r.kind, RowKind::Add { keyed: true })
                };
                if let Some(index) = self.rows.iter().position(adds) {
                    self.select(index);
                    return true;
                }
            }
            let Some((parent, _)) = pointer::split(&at) else { return false };
            at = parent.to_owned();
        }
    }

    fn on_member(&mut self, act: impl FnOnce(&mut Self, &str)) -> bool {
        let Some(row) = self.current() else { return false };
        if row.removable {
            let at = row.pointer.clone();
            act(self, &at);
            return true;
        }
        self.on_item(|form, at| {
            act(form, at);
            true
        })
    }

    /// The nearest list item at or above the cursor.
    fn on_item(&mut self, act: impl FnOnce(&mut Self, &str) -> bool) -> bool {
        let Some(row) = self.current() else { return false };
        let mut at = row.pointer.clone();
        loop {
            let Some((parent, _)) = pointer::split(&at) else { return false };
            let parent = parent.to_owned();
            if pointer::get(self.value.as_ref(), &parent).is_some_and(Value::is_array)
                && pointer::get(self.value.as_ref(), &at).is_some()
            {
                return act(self, &at);
            }
            at = parent;
        }
    }

    fn begin_rename(&mut self) -> bool {
        let Some(row) = self.current().filter(|row| row.removable) else { return false };
        let Some((parent, key)) = pointer::split(&row.pointer) else { return false };
        if !pointer::get(self.value.as_ref(), parent).is_some_and(Value::is_object) {
            return false;
        }
        let pointer = row.pointer.clone();
        self.editor = Some(Editor { pointer, edits: Edits::Rename, area: area(&key) });
        true
    }

    fn finish_key(&mut self) -> bool {
        let Some(editor) = self.editor.take() else { return false };
        let name = editor.area.lines().concat();
        let done = match editor.edits {
            Edits::NewKey if name.is_empty() => {
                self.select(self.cursor + 1);
                true
            }
            Edits::NewKey => self.add_key(&editor.pointer, &name).is_some(),
            _ => self.rename(&editor.pointer, &name),
        };
        if !done {
            self.editor = Some(editor);
        }
        done
    }

    /// Edits a place as JSON, or as fields again; not while something stands there that is no value:
    /// it would be lost.
    fn as_json(&mut self, at: &str) {
        if self.drafts.get(at).is_some_and(|draft| !draft.message.is_empty()) {
            return;
        }
        if !self.decisions.as_json.remove(at) {
            self.decisions.as_json.insert(at.to_owned());
        }
        self.drafts.remove(at);
        self.editor = None;
        self.refresh();
        self.focus();
    }
}
