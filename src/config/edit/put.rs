//! Puts a value into a hand-edited JSON file: comments, order and line ends are kept. Pure, text to
//! text.

use serde_json::{Map, Value, json};

use super::splice::{SplicedText, insert, newline_of, remove_at, replace_range};
use super::{EditError, parsed};
use crate::source::SourceText;
use crate::syntax::{NodeKind, SyntaxNode, parse_loosely};

/// Returns `text` with `value` under `key` of the top-level object `of`, replacing an existing one.
/// `None` when that cannot be done safely.
pub fn put_member(text: &str, of: &str, key: &str, value: &Value) -> Option<String> {
    let put = |doc: &SplicedText, all: &SyntaxNode| match all.get(key) {
        Some(old) => Some(replace_range(doc, all, old.range.clone(), value)),
        None => all.is_object().then(|| insert(doc, all, (Some(key), value), None)),
    };
    let holds = |all: &Value| all.get(key) == Some(value);
    changed(text, of, &json!({ key: value }), put, holds)
}

/// Returns `text` with `value` in the top-level list `of`: replacing the element at index `at`, or
/// appended. `None` when that cannot be done safely.
pub fn put_element(text: &str, of: &str, at: Option<usize>, value: &Value) -> Option<String> {
    let put = |doc: &SplicedText, all: &SyntaxNode| match at {
        Some(at) => Some(replace_range(doc, all, all.elements().get(at)?.range.clone(), value)),
        None => all.is_list().then(|| insert(doc, all, (None, value), None)),
    };
    let holds = |all: &Value| {
        let list = all.as_array();
        list.and_then(|list| at.map_or(list.last(), |at| list.get(at))) == Some(value)
    };
    changed(text, of, &json!([value]), put, holds)
}

/// Applies `put` to the value under the top-level key `of`, or inserts `first` when the key is
/// missing. `None` when the result cannot be parsed or `holds` rejects it.
fn changed(
    text: &str,
    of: &str,
    first: &Value,
    put: impl FnOnce(&SplicedText, &SyntaxNode) -> Option<String>,
    holds: impl FnOnce(&Value) -> bool,
) -> Option<String> {
    let doc = parsed(text).ok()?;
    let text = match doc.root.get(of) {
        Some(all) => put(&doc, all)?,
        None if doc.root.is_object() => insert(&doc, &doc.root, (Some(of), first), None),
        None => return None,
    };
    let read = parsed(&text).ok()?.root.to_json();
    holds(read.get(of)?).then_some(text)
}

/// A file of another program, as leniently as it reads it itself.
fn foreign(text: &str) -> Result<SplicedText, EditError> {
    let newline = newline_of(text);
    let text =
        if text.trim().is_empty() { format!("{text}{{}}{newline}") } else { text.to_owned() };
    let read = |text: &str| {
        let root = parse_loosely(&SourceText::new("", text));
        root.map_err(|problem| EditError::Syntax(vec![*problem]))
    };
    let (text, root) = if let Some(root) = read(&text)? {
        (text, Some(root))
    } else {
        // Comments alone.
        let end = if text.ends_with('\n') { "" } else { newline };
        let text = format!("{text}{end}{{}}{newline}");
        let root = read(&text)?;
        (text, root)
    };
    match root.filter(SyntaxNode::is_object) {
        Some(root) => Ok(SplicedText { text, root }),
        None => Err(EditError::Refused("the file is not an object".to_owned())),
    }
}

/// Returns `text`, a file of another program, with an entry at a place; what is there already under
/// that name is replaced, and objects that are missing around it are made.
///
/// # Errors
/// When the text cannot be parsed, or something on the way is not an object.
pub(crate) fn put_path(
    text: &str,
    path: &[String],
    name: &str,
    value: &Value,
) -> Result<String, EditError> {
    let doc = foreign(text)?;
    let within = |path: &[String], inner: Value| {
        path.iter()
            .rev()
            .fold(inner, |inner, key| Value::Object(Map::from_iter([(key.clone(), inner)])))
    };
    let mut node = &doc.root;
    for (depth, key) in path.iter().enumerate() {
        let deeper = path.get(depth + 1..).unwrap_or_default();
        let inner = || within(deeper, json!({ name: value }));
        match node.get(key) {
            Some(found) if found.is_object() => node = found,
            Some(SyntaxNode { kind: NodeKind::Null, range }) => {
                return Ok(replace_range(&doc, node, range.clone(), &inner()));
            }
            Some(_) => return Err(EditError::Refused(format!("`{key}` is not an object"))),
            None => return Ok(insert(&doc, node, (Some(key), &inner()), None)),
        }
    }
    Ok(match node.get(name) {
        Some(old) => replace_range(&doc, node, old.range.clone(), value),
        None => insert(&doc, node, (Some(name), value), None),
    })
}

/// Returns `text`, a file of another program, without the entry at a place.
///
/// # Errors
/// When the text cannot be parsed, or there is no such entry.
pub(crate) fn take_path(text: &str, path: &[String], name: &str) -> Result<String, EditError> {
    let doc = foreign(text)?;
    let parent = path.iter().try_fold(&doc.root, |node, key| node.get(key));
    let index =
        parent.and_then(|parent| parent.members().iter().rposition(|member| member.key == name));
    match parent.zip(index) {
        Some((parent, index)) => {
            let range = parent.range.clone();
            let text = remove_at(&doc, parent, index);
            // An object that held nothing else is empty again.
            let end = text.len() - (doc.text.len() - range.end);
            let inner = text.get(range.start + 1..end - 1).unwrap_or_default();
            if parent.members().len() == 1 && inner.trim().is_empty() {
                return Ok([&text[..range.start], "{}", &text[end..]].concat());
            }
            Ok(text)
        }
        None => Err(EditError::Refused(format!("there is no `{name}`"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_people_wrote_around_it_stays() {
        let text = "// ours\r\n{\r\n  \"$schema\": \"x\",\r\n  \"calls\": {\r\n    \"a\": 1, // one\r\n  },\r\n}\r\n";
        let odd = json!({"k": ["\u{1}\"\\ü", -1.5e300, null]});
        let more = put_member(text, "calls", "b \"q\"", &odd).expect("put");
        for kept in ["// ours\r\n", "\"$schema\": \"x\"", "\"a\": 1, // one\r\n"] {
            assert!(more.contains(kept), "{more}");
        }
        let again = put_member(&more, "calls", "a", &json!(2)).expect("put");
        assert!(again.contains("\"a\": 2, // one\r\n"), "{again}");
        let list = "{\"answers\": [{\"n\": 1}, /* two */ {\"n\": 2}]}";
        let other = put_element(list, "answers", Some(1), &json!({"n": 3})).expect("put");
        assert!(
            other.contains("{\"n\": 1}, /* two */ {") && !other.contains("\"n\": 2"),
            "{other}"
        );
        assert!(put_element(list, "answers", None, &json!({"n": 4})).is_some());
        assert!(put_member("{\"calls\": []}", "calls", "a", &odd).is_none(), "it is not an object");
    }

    #[test]
    fn a_file_without_any_value_keeps_its_line_ends() {
        let path = ["mcpServers".to_owned()];
        for (text, newline) in [
            ("", "\n"),
            (" \n", "\n"),
            (" \r\n", "\r\n"),
            ("// none\r\n", "\r\n"),
            ("// one\r\n// none", "\r\n"),
            ("\u{feff}\r\n", "\r\n"),
        ] {
            let put = put_path(text, &path, "a", &json!({"command": "x"})).expect("put");
            let lines = put.matches(newline).count();
            assert!(put.starts_with(text) && put.ends_with(newline), "{put:?}");
            assert_eq!(lines, put.matches('\n').count(), "{put:?}");
        }
    }
}
