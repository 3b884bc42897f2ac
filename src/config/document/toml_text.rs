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

/// Changes a document; line ends stay as they were.
fn changed(
    text: &str,
    change: impl FnOnce(&mut DocumentMut) -> Result<(), EditError>,
) -> Result<String, EditError> {
    let is_crlf = text.contains("\r\n");
    let mut plain = if is_crlf { text.replace("\r\n", "\n") } else { text.to_owned() };
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
    let restored = |mut text: String| {
        if is_open && text.ends_with('\n') {
            text.pop();
        }
        if is_crlf { text.replace('\n', "\r\n") } else { text }
    };
    if restored(doc.to_string()) != text {
        return Err(EditError::Refused(
            "its line ends are mixed; save it with one kind of line end first".to_owned(),
        ));
    }
    change(&mut doc)?;
    Ok(restored(doc.to_string()))
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
