//! TOML: read, and changed entry by entry.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table};

use super::place::{EntryPlace, syntax_problem};
use crate::Diagnostic;
use crate::edit::EditError;
use crate::source::SourceText;

/// Reads a file as JSON values.
pub(super) fn read(source: &SourceText) -> Result<Value, Vec<Diagnostic>> {
    toml::from_str(source.text()).map_err(|error| {
        let offset = error.span().unwrap_or(0..0).start;
        vec![syntax_problem(source, offset, error.message())]
    })
}

/// The text with an entry, which replaces one that is there.
pub(super) fn put(text: &str, place: &EntryPlace, value: &Value) -> Result<String, EditError> {
    changed(text, |doc| {
        let mut within = doc.as_item_mut();
        for key in &place.path {
            let table = within.as_table_like_mut().ok_or_else(|| no_table(key))?;
            within = table.entry(key).or_insert_with(|| {
                let mut table = Table::new();
                table.set_implicit(true);
                Item::Table(table)
            });
        }
        let is_braced = within.is_inline_table();
        let table = within.as_table_like_mut().ok_or_else(|| no_table(&place.name))?;
        // Dotted keys and tables in braces hold values only.
        let item = if is_braced || table.is_dotted() {
            scalar(value).map(Item::Value)
        } else {
            as_table(value)
        };
        table.insert(&place.name, item.unwrap_or_default());
        Ok(())
    })
}

/// The text without an entry.
pub(super) fn take(text: &str, place: &EntryPlace) -> Result<String, EditError> {
    changed(text, |doc| {
        let mut within = doc.as_item_mut();
        for key in &place.path {
            let table = within.as_table_like_mut().ok_or_else(|| no_table(key))?;
            within = table.get_mut(key).ok_or_else(|| no_table(key))?;
        }
        within.as_table_like_mut().ok_or_else(|| no_table(&place.name))?.remove(&place.name);
        Ok(())
    })
}

fn no_table(key: &str) -> EditError {
    EditError::Refused(format!("what holds `{key}` is not a table"))
}

/// Changes a document; each line that stays keeps its end, of whichever kind.
fn changed(
    text: &str,
    change: impl FnOnce(&mut DocumentMut) -> Result<(), EditError>,
) -> Result<String, EditError> {
    let mut plain = text.replace("\r\n", "\n");
    // A document always ends with a line end, a file need not.
    let is_open = !plain.is_empty() && !plain.ends_with('\n');
    if is_open {
        plain.push('\n');
    }
    let mut doc: DocumentMut = plain.parse().map_err(|error: toml_edit::TomlError| {
        let offset = error.span().unwrap_or(0..0).start;
        EditError::Syntax(vec![syntax_problem(
            &SourceText::new("", &*plain),
            offset,
            error.message(),
        )])
    })?;
    if doc.to_string() != plain {
        return Err(EditError::Refused(
            "its line ends are of an unknown kind; save it with another one first".to_owned(),
        ));
    }
    change(&mut doc)?;
    let mut out = with_line_ends(text, &plain, &doc.to_string());
    if is_open && out.ends_with('\n') {
        out.truncate(out.strip_suffix("\r\n").map_or(out.len() - 1, str::len));
    }
    Ok(out)
}

/// The lines of `changed`: those that `text` has, whose line ends are plain in `plain`, as they stand
/// there, and new ones with the line end that most lines have.
fn with_line_ends(text: &str, plain: &str, changed: &str) -> String {
    let wide = text.matches("\r\n").count();
    let most = if 2 * wide > text.matches('\n').count() { "\r\n" } else { "\n" };
    let written: Vec<&str> = text.split_inclusive('\n').collect();
    let diff = similar::TextDiff::from_lines(plain, changed);
    let mut out = String::with_capacity(changed.len() + wide);
    for line in diff.iter_all_changes().filter(|line| line.tag() != similar::ChangeTag::Delete) {
        let old = line.old_index().and_then(|at| written.get(at)).copied();
        match old {
            Some(old) if old.ends_with('\n') => out.push_str(old),
            // A new one, or the last of a file that has no end.
            _ => out.extend([line.value().trim_end_matches('\n'), most]),
        }
    }
    out
}

/// A value as a table, its objects as tables of their own; `None` for null.
fn as_table(value: &Value) -> Option<Item> {
    let Value::Object(map) = value else { return scalar(value).map(Item::Value) };
    let mut table = Table::new();
    for (key, value) in map {
        if let Some(item) = as_table(value) {
            table.insert(key, item);
        }
    }
    Some(Item::Table(table))
}

/// A value on one line; `None` for null.
fn scalar(value: &Value) -> Option<toml_edit::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(on) => (*on).into(),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => whole.into(),
            None => number.as_f64()?.into(),
        },
        Value::String(text) => text.as_str().into(),
        Value::Array(list) => list.iter().filter_map(scalar).collect::<Array>().into(),
        Value::Object(map) => {
            let pairs = map.iter().filter_map(|(key, value)| Some((key, scalar(value)?)));
            let mut table = InlineTable::new();
            for (key, value) in pairs {
                table.insert(key, value);
            }
            table.into()
        }
    })
}
