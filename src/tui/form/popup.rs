//! Lists to choose from: values, variants, types; narrowed by what is typed. No drawing.

use std::collections::HashSet;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::Value;

use super::field::{FieldKind, plain};
use super::pointer;
use super::row::RowKind;
use super::state::FormState;
use crate::base::text::SafeText;

/// What a popup chooses for.
#[derive(Clone, Debug, PartialEq)]
pub enum Chooses {
    /// A value.
    One(Vec<Value>),
    /// Several values.
    Many(Vec<Value>),
    /// A variant.
    Variant,
    /// A type.
    Type,
}

/// A list to choose from, narrowed by what is typed.
pub struct Popup {
    /// The row it belongs to.
    pub row: usize,
    /// What is chosen.
    pub chooses: Chooses,
    /// Every entry.
    pub entries: Vec<SafeText>,
    /// What is typed to narrow them.
    pub filter: String,
    /// Index into the narrowed entries.
    pub selected: usize,
    /// Marked entries, for several.
    pub marked: HashSet<usize>,
}

impl Popup {
    /// Indices of the entries that fit the filter: the one that is it first, then those that begin
    /// with it, then those that hold it.
    pub fn narrowed(&self) -> Vec<usize> {
        let wanted = self.filter.to_lowercase();
        let rank = |entry: &SafeText| match entry.to_lowercase() {
            _ if wanted.is_empty() => Some(0),
            entry if entry == wanted => Some(0),
            entry if entry.starts_with(&wanted) => Some(1),
            entry => entry.contains(&wanted).then_some(2),
        };
        let ranked = self.entries.iter().enumerate().filter_map(|(i, e)| Some((rank(e)?, i)));
        let mut ranked: Vec<(u8, usize)> = ranked.collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, index)| index).collect()
    }
}

impl FormState {
    pub(super) fn open_popup(&mut self, filter: String) {
        let Some(row) = self.current() else { return };
        let value = pointer::get(self.value.as_ref(), &row.pointer);
        let label = |i: usize, option: &Value, field: &super::field::Field| {
            let raw = plain(option);
            match field.option_name(i, option) {
                Some(name) if name != raw => SafeText::line(&format!("{name}  ({raw})")),
                _ => SafeText::line(&raw),
            }
        };
        let (chooses, entries, selected, marked) = match &row.kind {
            RowKind::Variant { titles, active, .. } => {
                (Chooses::Variant, titles.clone(), *active, HashSet::new())
            }
            RowKind::Types { types, active } => {
                let words =
                    types.iter().map(|t| SafeText::line(&super::field::type_words(*t, false)));
                (Chooses::Type, words.collect(), *active, HashSet::new())
            }
            RowKind::Field { field, .. } => match &field.kind {
                FieldKind::Choice(options) => {
                    let at = value.and_then(|v| options.iter().position(|o| o == v)).unwrap_or(0);
                    let entries = options.iter().enumerate().map(|(i, o)| label(i, o, field));
                    (Chooses::One(options.to_vec()), entries.collect(), at, HashSet::new())
                }
                FieldKind::MultiChoice(options) => {
                    let chosen = value.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
                    let marked = chosen.iter().filter_map(|c| options.iter().position(|o| o == c));
                    let entries = options.iter().enumerate().map(|(i, o)| label(i, o, field));
                    (Chooses::Many(options.to_vec()), entries.collect(), 0, marked.collect())
                }
                _ => return,
            },
            _ => return,
        };
        self.popup = Some(Popup { row: self.cursor, chooses, entries, filter, selected, marked });
    }

    pub(super) fn type_popup(&mut self, key: KeyEvent) -> bool {
        let Some(popup) = &mut self.popup else { return false };
        let narrowed = popup.narrowed();
        let last = narrowed.len().saturating_sub(1);
        match key.code {
            KeyCode::Up | KeyCode::BackTab => popup.selected = popup.selected.saturating_sub(1),
            KeyCode::Down | KeyCode::Tab => popup.selected = (popup.selected + 1).min(last),
            KeyCode::PageUp => popup.selected = popup.selected.saturating_sub(8),
            KeyCode::PageDown => popup.selected = (popup.selected + 8).min(last),
            KeyCode::Home => popup.selected = 0,
            KeyCode::End => popup.selected = last,
            KeyCode::Esc => self.popup = None,
            KeyCode::Backspace => {
                popup.filter.pop();
                popup.selected = 0;
            }
            KeyCode::Char(' ') if matches!(popup.chooses, Chooses::Many(_)) => {
                if let Some(index) = narrowed.get(popup.selected).copied() {
                    self.mark(index);
                }
            }
            KeyCode::Char(c)
                if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) =>
            {
                popup.filter.push(c);
                popup.selected = 0;
            }
            KeyCode::Enter => {
                let chosen = narrowed.get(popup.selected).copied();
                self.choose(chosen);
            }
            _ => return false,
        }
        true
    }

    fn mark(&mut self, index: usize) {
        let Some(popup) = &mut self.popup else { return };
        let Chooses::Many(options) = &popup.chooses else { return };
        let Some(option) = options.get(index).cloned() else { return };
        let on = popup.marked.insert(index) || !popup.marked.remove(&index);
        let Some(at) = self.rows.get(popup.row).map(|row| row.pointer.clone()) else { return };
        let before = pointer::get(self.value.as_ref(), &at).and_then(Value::as_array);
        let mut items = before.cloned().unwrap_or_default();
        if on {
            items.push(option);
        } else {
            items.retain(|item| item != &option);
        }
        self.set(&at, Value::Array(items));
    }

    fn choose(&mut self, chosen: Option<usize>) {
        let Some(popup) = self.popup.take() else { return };
        let Some(chosen) = chosen else { return };
        match &popup.chooses {
            Chooses::One(options) => {
                let at = self.rows.get(popup.row).map(|row| row.pointer.clone());
                if let (Some(at), Some(option)) = (at, options.get(chosen)) {
                    self.set(&at, option.clone());
                }
            }
            Chooses::Variant => self.choose_variant(popup.row, chosen),
            Chooses::Type => self.choose_type(popup.row, chosen),
            Chooses::Many(_) => {}
        }
    }
}
