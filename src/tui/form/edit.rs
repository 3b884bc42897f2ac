//! Changes of the value on rows: set, unset, null, add, remove, move, duplicate, rename, choose,
//! step. Each is one undo step. No drawing, no keys.

use jiff::Span;
use jiff::civil::{Date, DateTime, Time};
use serde_json::Map;

use crate::context::{Availability, when};
use crate::form::check::Weight;
use crate::form::editor::{Edits, LineEditor, area};
use crate::form::row::{Field, FieldKind, FormRow, RowKind, picks};
use crate::form::state::FormState;
use crate::prelude::*;
use base::pointer::{self, child_pointer};
use schema::{Defaults, Merged, SubSchema, empty, fits, merge, same, seed};

impl FormState {
    /// Sets a place, creating missing parent objects. Returns `false` if a parent has another type.
    pub fn set(&mut self, at: &str, value: Value) -> bool {
        self.remember();
        self.drafts.remove(at);
        self.begin_above(at);
        let done = pointer::set(&mut self.value, at, value);
        self.changed();
        done
    }

    /// Unsets a place: removes it from the value, which is neither null nor empty.
    pub fn unset(&mut self, at: &str) {
        self.remember();
        self.drafts.retain(|place, _| !pointer::is_within(place, at));
        // List items cannot be unset; removing one is a separate action.
        if !self.is_item(at) {
            pointer::remove(&mut self.value, at);
        }
        self.editor = None;
        self.changed();
        self.focus();
    }

    /// Sets the empty value of the row's type; returns whether there is one.
    pub fn set_empty(&mut self, row: usize) -> bool {
        let field = self.rows.get(row).and_then(FormRow::field);
        let Some(value) = field.and_then(|field| empty(&field.merged)) else { return false };
        self.set_row(row, value);
        true
    }

    /// Sets the value of a row, discarding what is being typed there.
    fn set_row(&mut self, row: usize, value: Value) {
        let Some(at) = self.rows.get(row).map(|row| row.pointer.clone()) else { return };
        self.editor = None;
        self.set(&at, value);
        self.focus();
    }

    /// Whether the place is an item of a list.
    pub(super) fn is_item(&self, at: &str) -> bool {
        let parent = pointer::split(at).map(|(parent, _)| parent);
        parent.and_then(|at| self.at(at)).is_some_and(Value::is_array)
    }

    /// Sets `null` even if the schema does not allow it; the validator then reports it.
    pub fn set_null(&mut self, row: usize) {
        self.set_row(row, Value::Null);
    }

    /// Folds or unfolds a container.
    pub fn fold(&mut self, row: usize, folded: bool) {
        let Some(row) = self.rows.get(row) else { return };
        if matches!(row.kind, RowKind::Field { folded: Some(_), .. }) {
            let at = row.pointer.clone();
            self.decide(&at).folded = Some(folded);
            self.refresh();
            self.focus();
        }
    }

    /// Appends an item to the list at `at`; returns the item's pointer.
    pub fn add_item(&mut self, at: &str) -> Option<String> {
        let list = self.at(at);
        let is_set = list.is_some_and(Value::is_array);
        let length = match list {
            None | Some(Value::Null) => 0,
            Some(Value::Array(items)) => items.len(),
            Some(_) => return None,
        };
        let merged = self.merged_at(at)?;
        let item = self.begun(&merged.item(length));
        self.remember();
        if !is_set {
            pointer::set(&mut self.value, at, Value::Array(Vec::new()));
        }
        let new = format!("{at}/{length}");
        pointer::set(&mut self.value, &new, item);
        self.decide(at).folded = Some(false);
        self.changed();
        self.select_place(&new);
        Some(new)
    }

    /// Adds a key to an object; returns its pointer, or `None` if the key exists.
    pub fn add_key(&mut self, at: &str, key: &str) -> Option<String> {
        let new = child_pointer(at, key);
        if self.at(&new).is_some() {
            return None;
        }
        let merged = self.merged_at(at)?;
        let value = self.begun(&merged.other(key).unwrap_or_default());
        self.remember();
        pointer::set(&mut self.value, &new, value).then_some(())?;
        self.changed();
        self.select_place(&new);
        Some(new)
    }

    /// Removes an item from its list, or a key from its object.
    pub fn remove(&mut self, at: &str) {
        self.remember();
        self.place_gone(at);
        let removed = pointer::remove(&mut self.value, at);
        if let Some((parent, key)) = pointer::split(at)
            && let (Some(_), Ok(gone)) = (removed, key.parse::<usize>())
            && self.at(parent).is_some_and(Value::is_array)
        {
            self.items_moved(parent, |at| if at > gone { at - 1 } else { at });
        }
        self.changed();
        self.focus();
    }

    /// The list an item is in, with its pointer and the item's index.
    fn list_of(&mut self, at: &str) -> Option<(String, usize, &mut Vec<Value>)> {
        let (parent, key) = pointer::split(at)?;
        let items = self.value.as_mut()?.pointer_mut(parent)?.as_array_mut()?;
        Some((parent.to_owned(), key.parse().ok()?, items))
    }

    /// Inserts a copy of an item after it; returns the copy's pointer.
    pub fn duplicate(&mut self, at: &str) -> Option<String> {
        self.remember();
        let (parent, index, items) = self.list_of(at)?;
        let copy = items.get(index)?.clone();
        items.insert(index + 1, copy);
        self.items_moved(&parent, |at| if at > index { at + 1 } else { at });
        let new = format!("{parent}/{}", index + 1);
        self.drafts_copied(at, &new);
        self.changed();
        self.select_place(&new);
        Some(new)
    }

    /// Swaps an item with the one `by` places away; returns its new pointer.
    pub fn move_item(&mut self, at: &str, by: isize) -> Option<String> {
        self.remember();
        let (parent, index, items) = self.list_of(at)?;
        let to = index.checked_add_signed(by).filter(|to| *to < items.len())?;
        items.swap(index, to);
        self.items_moved(&parent, |at| match at {
            _ if at == index => to,
            _ if at == to => index,
            _ => at,
        });
        self.changed();
        let new = format!("{parent}/{to}");
        self.select_place(&new);
        Some(new)
    }

    /// Renames a key; returns `false` if the name is taken.
    pub fn rename(&mut self, at: &str, name: &str) -> bool {
        self.remember();
        let done = pointer::rename(&mut self.value, at, name);
        if let Some((parent, _)) = pointer::split(at).filter(|_| done) {
            self.place_renamed(at, &child_pointer(parent, name));
        }
        self.editor = None;
        self.changed();
        done
    }

    /// Chooses another alternative. The value is kept as far as it fits the new variant; the old
    /// one is restored when its alternative is chosen again.
    pub fn choose(&mut self, row: usize, choice: usize) {
        let Some(row) = self.rows.get(row) else { return };
        let RowKind::Choice { slot, active, titles, variants } = &row.kind else { return };
        if choice == *active || choice >= titles.len() {
            return;
        }
        let (slot, before, at) = (*slot, *active, row.pointer.clone());
        let variant = variants.get(choice).cloned();
        self.remember();
        self.drop_drafts(&at);
        let current = self.at(&at).cloned();
        let decided = self.decide(&at);
        decided.stash.insert((slot, before), Arc::new(current.clone()));
        let stashed = decided.stash.remove(&(slot, choice)).map(Arc::unwrap_or_clone);
        let new = match variant {
            None => {
                decided.of_type = Some(choice);
                stashed.flatten()
            }
            Some(node) => {
                decided.picks.resize(slot + 1, None);
                decided.picks[slot] = Some(choice);
                stashed.unwrap_or_else(|| self.as_variant(&node, current))
            }
        };
        self.replace(&at, new);
    }

    /// Converts a value to a variant, keeping the members that the variant has.
    fn as_variant(&self, node: &SubSchema, current: Option<Value>) -> Option<Value> {
        let old = match current {
            Some(value) if fits(&self.document, node, &value) => return Some(value),
            Some(Value::Object(old)) => old,
            _ => Map::new(),
        };
        let conj = std::slice::from_ref(node);
        let mut fresh = seed(&self.document, conj, Defaults::Required);
        if let Some(Value::Object(new)) = &mut fresh {
            let keep = merge(&self.document, conj, None, &[]);
            for (key, value) in old {
                if !new.contains_key(&key) && keep.properties.contains_key(&key) {
                    new.insert(key, value);
                }
            }
        }
        fresh
    }

    fn replace(&mut self, at: &str, value: Option<Value>) {
        match value.or_else(|| self.is_item(at).then_some(Value::Null)) {
            Some(value) => _ = pointer::set(&mut self.value, at, value),
            None => _ = pointer::remove(&mut self.value, at),
        }
        self.editor = None;
        self.changed();
        self.focus();
    }

    /// Steps a number by its `multipleOf` within its limits, a choice by one, a date or time by the
    /// part under the cursor; the first step of a field without a value is from its default.
    /// Negative `by` is up, which increases numbers and times.
    pub fn step(&mut self, row: usize, by: isize) {
        let Some(found) = self.rows.get(row) else { return };
        let default = found.field().and_then(Field::default);
        let value = self.at(&found.pointer).or(default);
        if let Some(FieldKind::Text { format: Some(format), .. }) = found.field().map(|f| &f.kind) {
            let step = |text, column| stepped_moment(format, text, column, by, self.now);
            let set = self.at(&found.pointer).and_then(Value::as_str);
            let set = set.filter(|text| !text.is_empty());
            let (column, text) = if let Some(set) = set {
                let column = self.editor.as_ref().map(|editor| editor.area.cursor().1);
                let column = column.unwrap_or(usize::MAX);
                (column, step(Some(set), column))
            } else {
                // No part is under the cursor. A default that does not parse is no place to begin.
                let from_default = default.and_then(|it| step(Some(it.as_str()?), usize::MAX));
                (usize::MAX, from_default.or_else(|| step(None, usize::MAX)))
            };
            if let Some(text) = text {
                self.set_row(row, Value::String(text));
                self.move_cursor_to(column);
            }
            return;
        }
        if let RowKind::Choice { titles, active, .. } = &found.kind {
            self.choose(row, around(*active, by, titles.len()));
        } else if let Some(new) = found.field().and_then(|field| stepped(field, value, by)) {
            self.set_row(row, new);
        }
    }

    /// Undoes the last change.
    pub fn undo(&mut self) -> bool {
        let Some(before) = self.undo.pop() else { return false };
        (self.value, self.drafts, self.decisions) = before;
        (self.editor, self.typing) = (None, None);
        self.changed();
        self.focus();
        true
    }

    /// The initial value of a new member of a container.
    fn begun(&self, conj: &[SubSchema]) -> Value {
        seed(&self.document, conj, Defaults::Required)
            .or_else(|| empty(&merge(&self.document, conj, None, &[])))
            .unwrap_or(Value::Null)
    }

    /// The joined schema of the container `at`, from its row if it has one.
    fn merged_at(&self, at: &str) -> Option<Merged> {
        if let Some(field) = self.field_at(at) {
            return Some(field.merged.clone());
        }
        at.is_empty().then(|| {
            let root = Arc::clone(&self.document.root);
            merge(&self.document, &[root], self.value.as_ref(), picks(&self.decisions, ""))
        })
    }

    // The actions of a form.

    /// Performs an action; returns whether it had a meaning here.
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
            Action::RemoveItem => return self.remove_here(),
            Action::DuplicateItem => {
                return self.item_here().and_then(|at| self.duplicate(&at)).is_some();
            }
            Action::MoveUp | Action::MoveDown => {
                let by = if action == Action::MoveUp { -1 } else { 1 };
                return self.item_here().and_then(|at| self.move_item(&at, by)).is_some();
            }
            Action::StepUp => self.step(self.cursor, -1),
            Action::StepDown => self.step(self.cursor, 1),
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

    /// Whether anything in it takes items or entries.
    pub fn takes_items(&self) -> bool {
        let opens = |field: &Field| {
            matches!(field.kind, FieldKind::Array { open: true } | FieldKind::Object { open: true })
        };
        self.rows.iter().any(|row| {
            matches!(row.kind, RowKind::AddItem | RowKind::AddKey) || row.field().is_some_and(opens)
        })
    }

    /// Whether an action has an effect on the line under the cursor, or why not.
    pub fn availability(&self, action: Action) -> Availability {
        let row = self.current();
        let field = row.and_then(FormRow::field);
        match action {
            Action::AsJson | Action::SetNull => when(field.is_some(), "there is no field here"),
            Action::SetEmpty => {
                let empty = field.and_then(|field| empty(&field.merged));
                when(empty.is_some(), "only a text, a list or an object can be empty")
            }
            Action::AddItem => when(self.takes_items(), "nothing here takes items or entries"),
            Action::RemoveItem => when(
                row.is_some_and(|row| row.removable) || self.item_here().is_some(),
                "this is no item, and no entry that was added",
            ),
            Action::DuplicateItem | Action::MoveUp | Action::MoveDown => {
                when(self.item_here().is_some(), "this is no item of a list")
            }
            Action::Rename => when(
                row.is_some_and(|row| row.removable),
                "only an entry that was added has a name",
            ),
            _ => Ok(()),
        }
    }

    fn next_problem(&mut self) -> bool {
        let rows = self.problems().iter().filter_map(|p| p.row);
        let after = rows.clone().find(|row| *row > self.cursor);
        let row = after.or_else(|| rows.clone().next());
        self.go_to_problem(row)
    }

    /// Moves to a row with a problem; JSON that does not parse comes first.
    fn go_to_problem(&mut self, row: Option<usize>) -> bool {
        if self.broken_json().is_some() {
            self.enter_json();
            return true;
        }
        let Some(row) = row else { return false };
        self.select(row);
        true
    }

    /// Moves to the first of the gravest problems that keep the form from being sent. Returns
    /// `false` if there is none.
    pub fn go_to_gravest(&mut self) -> bool {
        let blocking = self.problems().iter().filter(|problem| problem.weight < Weight::Note);
        let placed = blocking.filter_map(|problem| Some((problem.weight, problem.row?)));
        let gravest = placed.min().map(|(_, row)| row);
        if gravest.is_none() && self.blocking() > 0 && self.has_rest() {
            self.show_rest();
            return self.go_to_gravest();
        }
        self.go_to_problem(gravest)
    }

    /// The common part of opening and toggling a row; `None` where they differ.
    fn unfold(&mut self) -> Option<bool> {
        let row = self.current()?;
        match &row.kind {
            RowKind::AddItem => {
                let at = row.pointer.clone();
                return Some(self.add_item(&at).is_some());
            }
            RowKind::Field { folded: Some(folded), .. } => {
                let folded = *folded;
                self.fold(self.cursor, !folded);
            }
            RowKind::Choice { .. } => self.open_popup(String::new()),
            RowKind::Rest { .. } => self.show_rest(),
            RowKind::Field { field, .. } => match field.kind {
                FieldKind::Choice(_) | FieldKind::MultiChoice(_) => self.open_popup(String::new()),
                _ => return None,
            },
            _ => return None,
        }
        Some(true)
    }

    fn enter(&mut self) -> bool {
        let Some(row) = self.current() else { return false };
        let renames = self.editor.as_ref().is_some_and(|e| e.edits == Edits::Rename);
        if matches!(row.kind, RowKind::AddKey) || renames {
            return self.finish_key();
        }
        if let Some(done) = self.unfold() {
            return done;
        }
        match self.current().and_then(FormRow::field).map(|field| &field.kind) {
            // A container that is null cannot be unfolded: entering it makes it empty.
            Some(FieldKind::Object { .. } | FieldKind::Array { .. }) => {
                return self.set_empty(self.cursor);
            }
            Some(_) => self.select(self.cursor + 1),
            None => self.toggle_json(),
        }
        true
    }

    fn toggle(&mut self) -> bool {
        if let Some(done) = self.unfold() {
            return done;
        }
        let Some((row, field)) = self.current().and_then(|row| Some((row, row.field()?))) else {
            return false;
        };
        match &field.kind {
            FieldKind::Bool => self.step(self.cursor, -1),
            FieldKind::Const(fixed) => {
                let (at, fixed) = (row.pointer.clone(), fixed.clone());
                if self.at(&at).is_some() {
                    self.unset(&at);
                } else {
                    self.set(&at, fixed);
                }
            }
            _ => return false,
        }
        true
    }

    /// Adds an item to the nearest list at or above the cursor, or starts a new key of an object.
    fn add_here(&mut self) -> bool {
        let Some(row) = self.current() else { return false };
        let mut at = row.pointer.clone();
        loop {
            let adds = |form: &Self| {
                let adds = |r: &FormRow| {
                    r.pointer == at && matches!(r.kind, RowKind::AddItem | RowKind::AddKey)
                };
                form.rows.iter().position(adds)
            };
            let here = self.rows.iter().find(|row| row.pointer == at).and_then(FormRow::field);
            let is_list = here.is_some_and(|f| matches!(f.kind, FieldKind::Array { open: true }));
            let is_map = here.is_some_and(|f| matches!(f.kind, FieldKind::Object { open: true }));
            if is_map && adds(self).is_none() {
                // Once unfolded, it has a row for naming the key.
                self.decide(&at).folded = Some(false);
                self.refresh();
            }
            match adds(self) {
                Some(row) if matches!(self.rows[row].kind, RowKind::AddKey) => {
                    self.select(row);
                    return true;
                }
                None if !is_list => {}
                _ => return self.add_item(&at).is_some(),
            }
            let Some((parent, _)) = pointer::split(&at) else { return false };
            at = parent.to_owned();
        }
    }

    fn remove_here(&mut self) -> bool {
        let removable = self.current().filter(|row| row.removable).map(|row| row.pointer.clone());
        let Some(at) = removable.or_else(|| self.item_here()) else { return false };
        self.remove(&at);
        true
    }

    /// The nearest list item at or above the cursor.
    fn item_here(&self) -> Option<String> {
        let mut at = self.current()?.pointer.as_str();
        while !self.is_item(at) || self.at(at).is_none() {
            at = pointer::split(at)?.0;
        }
        Some(at.to_owned())
    }

    fn begin_rename(&mut self) -> bool {
        self.leave_json();
        let Some(row) = self.current().filter(|row| row.removable) else { return false };
        let Some((parent, key)) = pointer::split(&row.pointer) else { return false };
        if !self.at(parent).is_some_and(Value::is_object) {
            return false;
        }
        let pointer = row.pointer.clone();
        self.editor = Some(LineEditor { pointer, edits: Edits::Rename, area: area(&key) });
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

    /// Toggles editing a place as JSON or as fields; a no-op while its text does not parse, which
    /// would be lost.
    fn as_json(&mut self, at: &str) {
        if self.drafts.contains_key(at) {
            return;
        }
        let decided = self.decide(at);
        decided.as_json = !decided.as_json;
        self.editor = None;
        self.refresh();
        self.focus();
    }
}

/// The index `by` steps on, wrapping around at `count`.
fn around(at: usize, by: isize, count: usize) -> usize {
    (at + count).saturating_add_signed(by) % count.max(1)
}

fn stepped(field: &Field, value: Option<&Value>, by: isize) -> Option<Value> {
    match &field.kind {
        FieldKind::Number => {
            let number = next_number(&field.merged, value.and_then(Value::as_f64), by);
            let whole = number.fract() == 0.0 && field.merged.step().fract() == 0.0;
            if field.merged.integer || whole {
                return (number.abs() < 9e15).then(|| Value::from(number as i64));
            }
            // Steps such as 0.1 do not add up exactly, so round to 10 digits.
            let rounded = format!("{number:.10}").parse::<f64>().ok()?;
            serde_json::Number::from_f64(rounded).map(Value::Number)
        }
        FieldKind::Choice(options) => {
            let at = value.and_then(|v| options.iter().position(|o| same(o, v)));
            options.get(at.map_or(0, |at| around(at, by, options.len()))).cloned()
        }
        FieldKind::Bool => Some(Value::Bool(!value.and_then(Value::as_bool).unwrap_or_default())),
        _ => None,
    }
}

fn next_number(merged: &Merged, now: Option<f64>, by: isize) -> f64 {
    let step = merged.step();
    let lowest = merged.minimum().map(|(m, exclusive)| {
        let first = (m / step - 1e-9).ceil() * step;
        if exclusive && first <= m { first + step } else { first }
    });
    let highest = merged.maximum().map(|(m, exclusive)| {
        let last = (m / step + 1e-9).floor() * step;
        if exclusive && last >= m { last - step } else { last }
    });
    let first = || lowest.unwrap_or(0.0).max(0.0_f64.min(highest.unwrap_or(0.0)));
    let next = now.map_or_else(first, |now| now - step * by as f64);
    let next = lowest.map_or(next, |low| next.max(low));
    highest.map_or(next, |high| next.min(high))
}

// Stepping of dates and times by the part under the cursor: year, month, day, hour, minute or
// second (RFC 3339, for JSON Schema's formats `date`, `time` and `date-time`). Pure.

/// The text of a field of this format after a step. `column` is the column of the cursor; after
/// the last part, the day of a date or the minute of a time is stepped. Without text, the result
/// is the current time. `None` if the format is not one of these, or the text does not parse.
pub(super) fn stepped_moment(
    format: &str,
    text: Option<&str>,
    column: usize,
    by: isize,
    now: Timestamp,
) -> Option<String> {
    let more = -by as i64;
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        let pattern = match format {
            "date" => "%Y-%m-%d",
            "time" => "%H:%M:00%:z",
            "date-time" => "%Y-%m-%dT%H:%M:00%:z",
            _ => return None,
        };
        return Some(crate::model::zoned(now).strftime(pattern).to_string());
    };
    // Date or time, and its offset from UTC.
    let from = if format == "date-time" { 11 } else { 0 };
    let offset = text.get(from..)?.find(['Z', 'z', '+', '-']).filter(|_| format != "date");
    let (moment, offset) = text.split_at(offset.map_or(text.len(), |at| from + at));
    let next = match format {
        "date" => {
            let date: Date = moment.parse().ok()?;
            date.checked_add(part(column.min(9)) * more).ok()?.to_string()
        }
        "time" => {
            let time: Time = moment.parse().ok()?;
            time.wrapping_add(part(column.saturating_add(11)) * more).to_string()
        }
        "date-time" => {
            let moment: DateTime = moment.parse().ok()?;
            moment.checked_add(part(column) * more).ok()?.to_string()
        }
        _ => return None,
    };
    Some(next + offset)
}

/// One unit of the part of `2026-11-21T12:30:00` at a column: a year, a month, ...
fn part(column: usize) -> Span {
    let none = Span::new();
    match column {
        0..=4 => none.years(1),
        5..=7 => none.months(1),
        8..=9 => none.days(1),
        10..=13 => none.hours(1),
        17..=18 => none.seconds(1),
        _ => none.minutes(1),
    }
}

#[cfg(test)]
mod moment_tests {
    use super::*;

    fn up(format: &str, text: &str, column: usize) -> Option<String> {
        stepped_moment(format, Some(text), column, -1, Timestamp(0))
    }

    fn down(format: &str, text: &str, column: usize) -> Option<String> {
        stepped_moment(format, Some(text), column, 1, Timestamp(0))
    }

    #[test]
    fn the_part_under_the_cursor_is_stepped_and_carries() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(up("date", "2026-12-31", 10), some("2027-01-01"));
        assert_eq!(up("date", "2026-01-31", 6), some("2026-02-28"));
        assert_eq!(down("date", "2024-02-29", 0), some("2023-02-28"));
        assert_eq!(up("time", "23:59:00Z", 9), some("00:00:00Z"));
        assert_eq!(down("time", "00:10:00+01:00", 1), some("23:10:00+01:00"));
        assert_eq!(up("time", "12:00:59", 7), some("12:01:00"));
        let moment = "2026-12-31T23:59:30-05:30";
        assert_eq!(up("date-time", moment, 25), some("2027-01-01T00:00:30-05:30"));
        assert_eq!(up("date-time", moment, 3), some("2027-12-31T23:59:30-05:30"));
        assert_eq!(down("date-time", moment, 9), some("2026-12-30T23:59:30-05:30"));
        assert_eq!(down("date-time", moment, 12), some("2026-12-31T22:59:30-05:30"));
    }

    #[test]
    fn what_is_none_is_left_alone_and_what_is_not_set_is_now() {
        for (format, text) in [("date", "soon"), ("time", "noon"), ("date-time", "é"), ("uri", "a")]
        {
            assert_eq!(up(format, text, 0), None);
        }
        let now = stepped_moment("date-time", None, 0, -1, Timestamp(0)).expect("now");
        assert_eq!(now, "1970-01-01T00:00:00+00:00");
        assert!(up("date-time", &now, 12).is_some(), "{now}");
        let time = stepped_moment("time", None, 0, 1, Timestamp(0)).expect("now");
        assert!(up("time", &time, 0).is_some(), "{time}");
    }
}
