//! Changes of the value that a person makes on rows: set, unset, null, add, remove, move,
//! duplicate, rename, choose, step. Each is one step of undo. No drawing, no keys.

use std::sync::Arc;

use serde_json::Value;

use super::field::{FieldKind, item_conj};
use super::fit;
use super::merge::merge;
use super::pointer::{self, join};
use super::row::RowKind;
use super::schema::Types;
use super::seed::{Defaults, empty, seed};
use super::state::FormState;

/// Up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the start; less.
    Up,
    /// Towards the end; more.
    Down,
}

impl FormState {
    /// Sets a place, making the objects above it. Refused when a parent is of another kind.
    pub fn set(&mut self, at: &str, value: Value) -> bool {
        self.remember();
        self.drafts.remove(at);
        self.begin_above(at);
        let done = pointer::set(&mut self.value, at, value);
        self.changed();
        done
    }

    /// Takes a place out of the value: unset, which is neither null nor empty.
    pub fn unset(&mut self, at: &str) {
        self.remember();
        self.drafts.retain(|place, _| !pointer::is_within(place, at));
        let is_item = pointer::split(at)
            .and_then(|(parent, _)| pointer::get(self.value.as_ref(), parent))
            .is_some_and(Value::is_array);
        // A list has no unset items; removing one is another action.
        if !is_item {
            pointer::remove(&mut self.value, at);
        }
        self.editor = None;
        self.changed();
        self.focus();
    }

    /// Sets the empty value of the place's kind; gives whether there is one.
    pub fn set_empty(&mut self, row: usize) -> bool {
        let Some((at, value)) = self
            .rows
            .get(row)
            .and_then(|row| Some((row.pointer.clone(), empty(&row.field()?.merged)?)))
        else {
            return false;
        };
        self.editor = None;
        self.set(&at, value);
        self.focus();
        true
    }

    /// Sets `null`, whether the schema wants it or not: the validator says so then.
    pub fn set_null(&mut self, row: usize) {
        let Some(at) = self.rows.get(row).map(|row| row.pointer.clone()) else { return };
        self.editor = None;
        self.set(&at, Value::Null);
        self.focus();
    }

    /// Folds or unfolds a container.
    pub fn fold(&mut self, row: usize, folded: bool) {
        let Some(row) = self.rows.get(row) else { return };
        if matches!(row.kind, RowKind::Field { folded: Some(_), .. }) {
            self.decisions.folds.insert(row.pointer.clone(), folded);
            self.refresh();
            self.focus();
        }
    }

    /// Adds an item to a list (the place of the row, or the list it is in); gives its pointer.
    pub fn add_item(&mut self, at: &str) -> Option<String> {
        let list = pointer::get(self.value.as_ref(), at);
        let is_set = list_is_set(list);
        let length = match list {
            None | Some(Value::Null) => 0,
            Some(Value::Array(items)) => items.len(),
            Some(_) => return None,
        };
        let merged = self.merged_at(at)?;
        let conj = item_conj(&merged, length);
        let item = seed(&self.document, &conj, Defaults::Required)
            .or_else(|| empty(&merge(&self.document, &conj, None, &[])))
            .unwrap_or(Value::Null);
        self.remember();
        if !is_set {
            pointer::set(&mut self.value, at, Value::Array(Vec::new()));
        }
        let new = format!("{at}/{length}");
        pointer::set(&mut self.value, &new, item);
        self.decisions.folds.insert(at.to_owned(), false);
        self.changed();
        self.select_place(&new);
        Some(new)
    }

    /// Adds a key to an object; gives its pointer, or nothing when the key is there.
    pub fn add_key(&mut self, at: &str, key: &str) -> Option<String> {
        let new = join(at, key);
        if pointer::get(self.value.as_ref(), &new).is_some() {
            return None;
        }
        let merged = self.merged_at(at)?;
        let conj = merged.other(key).unwrap_or_default();
        let value = seed(&self.document, &conj, Defaults::Required)
            .or_else(|| empty(&merge(&self.document, &conj, None, &[])))
            .unwrap_or(Value::Null);
        self.remember();
        pointer::set(&mut self.value, &new, value).then_some(())?;
        self.changed();
        self.select_place(&new);
        Some(new)
    }

    /// Takes an item out of its list, or a key out of its object.
    pub fn remove(&mut self, at: &str) {
        self.remember();
        self.place_gone(at);
        let removed = pointer::remove(&mut self.value, at);
        if let Some((parent, key)) = pointer::split(at)
            && let (Some(_), Ok(gone)) = (removed, key.parse::<usize>())
            && pointer::get(self.value.as_ref(), parent).is_some_and(Value::is_array)
        {
            self.items_moved(parent, |at| Some(if at > gone { at - 1 } else { at }));
        }
        self.changed();
        self.focus();
    }

    /// Puts a copy of an item after it; gives the copy's pointer.
    pub fn duplicate(&mut self, at: &str) -> Option<String> {
        let (parent, key) = pointer::split(at)?;
        let (parent, index) = (parent.to_owned(), key.parse::<usize>().ok()?);
        self.remember();
        let Some(Value::Array(items)) = self.value.as_mut()?.pointer_mut(&parent) else {
            return None;
        };
        let copy = items.get(index)?.clone();
        items.insert(index + 1, copy);
        self.items_moved(&parent, |at| Some(if at > index { at + 1 } else { at }));
        let new = format!("{parent}/{}", index + 1);
        self.drafts_copied(at, &new);
        self.changed();
        self.select_place(&new);
        Some(new)
    }

    /// Moves an item within its list; gives its new pointer.
    pub fn move_item(&mut self, at: &str, direction: Direction) -> Option<String> {
        let (parent, key) = pointer::split(at)?;
        let (parent, index) = (parent.to_owned(), key.parse::<usize>().ok()?);
        self.remember();
        let Some(Value::Array(items)) = self.value.as_mut()?.pointer_mut(&parent) else {
            return None;
        };
        let to = match direction {
            Direction::Up => index.checked_sub(1)?,
            Direction::Down => index + 1,
        };
        if to >= items.len() {
            return None;
        }
        items.swap(index, to);
        self.items_moved(&parent, |at| {
            Some(match at {
                _ if at == index => to,
                _ if at == to => index,
                _ => at,
            })
        });
        self.changed();
        let new = format!("{parent}/{to}");
        self.select_place(&new);
        Some(new)
    }

    /// Renames a key that the schema leaves open.
    pub fn rename(&mut self, at: &str, name: &str) -> bool {
        self.remember();
        let done = pointer::rename(&mut self.value, at, name);
        if let Some((parent, _)) = pointer::split(at).filter(|_| done) {
            self.place_renamed(at, &join(parent, name));
        }
        self.editor = None;
        self.changed();
        done
    }

    /// Shows another variant. The value is kept as far as it looks like the new one; what does not
    /// comes back when the old variant is chosen again.
    pub fn choose_variant(&mut self, row: usize, choice: usize) {
        let Some(row) = self.rows.get(row) else { return };
        let RowKind::Variant { slot, active, variants, .. } = &row.kind else { return };
        let (slot, before, at) = (*slot, *active, row.pointer.clone());
        let Some(node) = variants.get(choice).map(Arc::clone) else { return };
        if choice == before {
            return;
        }
        self.remember();
        self.drop_drafts(&at);
        let current = pointer::get(self.value.as_ref(), &at).cloned();
        self.stash.insert((at.clone(), slot, before), current.clone());
        let picks = self.decisions.picks.entry(at.clone()).or_default();
        picks.resize(slot + 1, None);
        picks[slot] = Some(choice);
        let stashed = self.stash.remove(&(at.clone(), slot, choice));
        let new = stashed.unwrap_or_else(|| match current {
            Some(value) if fit::fits(&self.document, &node, &value) => Some(value),
            current => {
                let mut fresh =
                    seed(&self.document, std::slice::from_ref(&node), Defaults::Required);
                if let (Some(Value::Object(new)), Some(Value::Object(old))) = (&mut fresh, current)
                {
                    let keep = merge(&self.document, std::slice::from_ref(&node), None, &[]);
                    for (key, value) in old {
                        if !new.contains_key(&key) && keep.properties.contains_key(&key) {
                            new.insert(key, value);
                        }
                    }
                }
                fresh
            }
        });
        self.replace(&at, new);
    }

    /// Shows another type of a place that may have several.
    pub fn choose_type(&mut self, row: usize, choice: usize) {
        let Some(row) = self.rows.get(row) else { return };
        let RowKind::Types { types, active } = &row.kind else { return };
        let Some(wanted) = types.get(choice).copied() else { return };
        let at = row.pointer.clone();
        let slot = |types: Types| {
            1_000 + types.count() as usize * 64 + usize::from(types == Types::STRING)
        };
        let before = types[*active];
        if wanted == before {
            return;
        }
        self.remember();
        self.drop_drafts(&at);
        let current = pointer::get(self.value.as_ref(), &at).cloned();
        self.stash.insert((at.clone(), slot(before), type_index(before)), current);
        self.decisions.types.insert(at.clone(), wanted);
        let stashed = self.stash.remove(&(at.clone(), slot(wanted), type_index(wanted)));
        self.replace(&at, stashed.flatten());
    }

    fn replace(&mut self, at: &str, value: Option<Value>) {
        let is_item = pointer::split(at)
            .and_then(|(parent, _)| pointer::get(self.value.as_ref(), parent))
            .is_some_and(Value::is_array);
        match value {
            Some(value) => {
                pointer::set(&mut self.value, at, value);
            }
            None if is_item => {
                pointer::set(&mut self.value, at, Value::Null);
            }
            None => {
                pointer::remove(&mut self.value, at);
            }
        }
        self.editor = None;
        self.changed();
        self.focus();
    }

    /// Steps a number by its `multipleOf` within its limits, a choice by one, of a date or time the
    /// part under the cursor.
    pub fn step(&mut self, row: usize, direction: Direction) {
        let Some(found) = self.rows.get(row) else { return };
        let at = found.pointer.clone();
        let value = pointer::get(self.value.as_ref(), &at);
        if let Some(FieldKind::Text { format: Some(format), .. }) = found.field().map(|f| &f.kind) {
            let column = self.editor.as_ref().map_or(usize::MAX, |editor| editor.area.cursor().1);
            let text = value.and_then(Value::as_str);
            if let Some(text) = super::moment::stepped(format, text, column, direction, self.now) {
                self.editor = None;
                self.set(&at, Value::String(text));
                self.focus();
                self.move_cursor_to(column);
            }
            return;
        }
        let Some(new) = found.field().and_then(|field| stepped(&field.kind, value, direction))
        else {
            return self.step_choice(row, direction);
        };
        self.editor = None;
        self.set(&at, new);
        self.focus();
    }

    fn step_choice(&mut self, row: usize, direction: Direction) {
        let Some(found) = self.rows.get(row) else { return };
        let cycle = |active: usize, count: usize| match direction {
            Direction::Down => (active + 1) % count.max(1),
            Direction::Up => (active + count.saturating_sub(1)) % count.max(1),
        };
        match &found.kind {
            RowKind::Variant { titles, active, .. } => {
                let next = cycle(*active, titles.len());
                self.choose_variant(row, next);
            }
            RowKind::Types { types, active } => {
                let next = cycle(*active, types.len());
                self.choose_type(row, next);
            }
            _ => {}
        }
    }

    /// Takes the last change back.
    pub fn undo(&mut self) -> bool {
        if self.undo_json() {
            return true;
        }
        let Some(before) = self.undo.pop() else { return false };
        (self.value, self.drafts) = before;
        (self.editor, self.typing) = (None, None);
        self.changed();
        self.focus();
        true
    }

    /// Everything that holds at the container `at`, as its row has it.
    fn merged_at(&self, at: &str) -> Option<super::merge::Merged> {
        if let Some(field) = self.rows.iter().filter(|r| r.pointer == at).find_map(|r| r.field()) {
            return Some(field.merged.clone());
        }
        at.is_empty().then(|| {
            let picks = self.decisions.picks.get("").map_or(&[][..], Vec::as_slice);
            merge(&self.document, &[Arc::clone(&self.document.root)], self.value.as_ref(), picks)
        })
    }
}

const fn list_is_set(list: Option<&Value>) -> bool {
    matches!(list, Some(Value::Array(_)))
}

fn type_index(types: Types) -> usize {
    let all = [Types::STRING, Types::NUMBER, Types::BOOLEAN, Types::OBJECT, Types::ARRAY];
    all.iter().position(|t| *t == types).unwrap_or_default()
}

fn stepped(kind: &FieldKind, value: Option<&Value>, direction: Direction) -> Option<Value> {
    match kind {
        FieldKind::Number { integer, step, minimum, maximum } => {
            let number =
                next_number(value.and_then(Value::as_f64), *step, direction, (*minimum, *maximum));
            if *integer || (number.fract() == 0.0 && step.fract() == 0.0) {
                return (number.abs() < 9e15).then(|| Value::from(number as i64));
            }
            // Steps such as 0.1 do not add up exactly; what is shown is what was meant.
            let rounded = format!("{number:.10}").parse::<f64>().ok()?;
            serde_json::Number::from_f64(rounded).map(Value::Number)
        }
        FieldKind::Choice(options) if !options.is_empty() => {
            let at = value.and_then(|v| options.iter().position(|o| fit::same(o, v)));
            let next = match (at, direction) {
                (None, _) => 0,
                (Some(i), Direction::Down) => (i + 1) % options.len(),
                (Some(i), Direction::Up) => (i + options.len() - 1) % options.len(),
            };
            options.get(next).cloned()
        }
        FieldKind::Bool => Some(Value::Bool(!value.and_then(Value::as_bool).unwrap_or_default())),
        _ => None,
    }
}

type Bound = Option<(f64, bool)>;

fn next_number(now: Option<f64>, step: f64, direction: Direction, limits: (Bound, Bound)) -> f64 {
    let (minimum, maximum) = limits;
    let lowest = minimum.map(|(m, exclusive)| {
        let first = (m / step - 1e-9).ceil() * step;
        if exclusive && first <= m { first + step } else { first }
    });
    let highest = maximum.map(|(m, exclusive)| {
        let last = (m / step + 1e-9).floor() * step;
        if exclusive && last >= m { last - step } else { last }
    });
    let next = match (now, direction) {
        (None, _) => lowest.unwrap_or(0.0).max(0.0_f64.min(highest.unwrap_or(0.0))),
        (Some(now), Direction::Up) => now + step,
        (Some(now), Direction::Down) => now - step,
    };
    let next = lowest.map_or(next, |low| next.max(low));
    highest.map_or(next, |high| next.min(high))
}
