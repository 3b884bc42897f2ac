//! Minimal edits of a configuration file: only the intended part changes, every other byte
//! (comments, order, unknown keys, line ends) is kept.
//!
//! [`apply_edit`] is pure, text to text; [`write_with_backup`] replaces the file atomically, keeps
//! a backup in the user's state folder and returns an [`Undo`].

use std::path::PathBuf;

use serde_json::Value;

use crate::Diagnostic;
use crate::source::SourceText;
use crate::syntax::{SyntaxNode, parse};
use base::ServerName;

mod entry;
mod put;
mod save;
mod splice;

pub use entry::{ENTRY_NAME, ShownEntry, entry_schema, restored_entry, shown_entry};
pub use put::{put_element, put_member};
pub(crate) use put::{put_path, take_path};
pub use save::{Undo, read_for_edit, write_private_with_backup, write_with_backup};

use splice::{SplicedText, insert, remove_at, replace_range};

/// One change.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// A new server.
    Add {
        /// Its name.
        name: ServerName,
        /// Its entry: an object.
        entry: Value,
    },
    /// New content for a server; unchanged keys keep their text and comments.
    Replace {
        /// Its name.
        name: ServerName,
        /// Its entry: an object.
        entry: Value,
    },
    /// One key of a server, or of an object within it; `None` removes it.
    Set {
        /// Its name.
        name: ServerName,
        /// The path to the key, for example `["env", "TOKEN"]`.
        path: Vec<String>,
        /// The value.
        value: Option<Value>,
    },
    /// A change of what is written in an entry.
    Amend {
        /// Its name.
        name: ServerName,
        /// The change.
        change: EntryAmendment,
    },
    /// A copy of a server, inserted right after it.
    Duplicate {
        /// The server to copy.
        name: ServerName,
        /// The name of the copy.
        copy: ServerName,
    },
    /// Renames a server.
    Rename {
        /// The old name.
        name: ServerName,
        /// The new name.
        to: ServerName,
    },
    /// Removes a server.
    Remove {
        /// Its name.
        name: ServerName,
    },
    /// Disables a server: listed but not started.
    Disable {
        /// Its name.
        name: ServerName,
    },
    /// Enables a disabled server.
    Enable {
        /// Its name.
        name: ServerName,
    },
    /// A declared input; an existing one with the same id is kept.
    AddInput {
        /// The input: an object with `id`.
        input: Value,
    },
}

/// A change of an entry that reads what is written there: references such as `${NAME}` stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryAmendment {
    /// Sets a key; `None` removes it.
    Set {
        /// The path to the key, for example `["env", "TOKEN"]`.
        path: Vec<String>,
        /// The value.
        value: Option<Value>,
    },
    /// Replaces arguments.
    Arguments {
        /// The index of the first one.
        at: usize,
        /// Those that are there now; others are refused.
        removed: Vec<String>,
        /// Those that take their place.
        inserted: Vec<String>,
    },
    /// Replaces a part of the address.
    Address {
        /// Whether it is the end of the address, otherwise the beginning.
        is_end: bool,
        /// The part as it is now; an address without it is refused.
        removed: String,
        /// What takes its place.
        inserted: String,
    },
}

/// Why an edit was not made. The file is unchanged.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The file has syntax errors, so the place to edit is unknown.
    #[error("{}", .0.first().map_or("the file cannot be parsed".into(), ToString::to_string))]
    Syntax(Vec<Diagnostic>),
    /// There is no such server.
    #[error("there is no server `{0}`")]
    NoSuchServer(ServerName),
    /// The name is already taken.
    #[error("there is already a server `{0}`")]
    Exists(ServerName),
    /// The request itself is invalid, for this reason.
    #[error("{0}")]
    Refused(String),
    /// The file has changed since, so writing it would lose the newer change.
    #[error("{} has changed since", .0.display())]
    ChangedSince(PathBuf),
    /// A file system error.
    #[error("{0}")]
    Io(String),
}

impl From<std::io::Error> for EditError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error.to_string())
    }
}

/// Applies an edit to the text of a file. Empty text counts as an empty configuration.
///
/// # Errors
/// [`EditError`], also when the result would not parse or would change another server.
pub fn apply_edit(text: &str, edit: &Edit) -> Result<String, EditError> {
    let body = without_mark(text);
    let mark = text.strip_suffix(body).unwrap_or_default();
    let body = if body.trim().is_empty() { "{\n  \"servers\": {}\n}\n" } else { body };
    let before = parsed(body)?;
    if !before.root.is_object() {
        return Err(EditError::Refused("the file is not an object".to_owned()));
    }
    let after = change(before.clone(), edit)?;
    guard(&before, &after, edit)?;
    Ok(format!("{mark}{}", after.text))
}

/// A text without its byte order mark.
pub fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

fn parsed(text: &str) -> Result<SplicedText, EditError> {
    let text = without_mark(text);
    let source = SourceText::new("", text);
    match parse(&source) {
        (Some(root), problems) if problems.is_empty() => {
            Ok(SplicedText { text: text.to_owned(), root })
        }
        (_, problems) => Err(EditError::Syntax(problems)),
    }
}

fn change(doc: SplicedText, edit: &Edit) -> Result<SplicedText, EditError> {
    match edit {
        Edit::Add { name, entry } => add(doc, name, entry, None),
        Edit::Duplicate { name, copy } => {
            let found = named(&doc.root, name)?;
            let mut entry = found.node.to_json();
            if let Some(entry) = entry.as_object_mut() {
                entry.shift_remove("id");
            }
            add(doc, copy, &entry, Some(name))
        }
        Edit::Replace { name, entry } => {
            named(&doc.root, name)?;
            update(doc, name, &mut Vec::new(), entry)
        }
        Edit::Set { name, path, value } => set(doc, name, path, value.as_ref()),
        Edit::Amend { name, change } => match change {
            EntryAmendment::Set { path, value } => set(doc, name, path, value.as_ref()),
            EntryAmendment::Arguments { at, removed, inserted } => {
                splice_arguments(doc, name, *at, removed, inserted)
            }
            EntryAmendment::Address { is_end, removed, inserted } => {
                let with = |text: &str| {
                    Some(if *is_end {
                        // A URL without a path has that of the root.
                        let rest = text.strip_suffix(removed.as_str());
                        let rest = rest.or_else(|| (removed == "/").then_some(text));
                        format!("{}{inserted}", rest?)
                    } else {
                        format!("{inserted}{}", text.strip_prefix(removed.as_str())?)
                    })
                };
                change_address(doc, name, with)
            }
        },
        Edit::Disable { name } => {
            set(doc, name, &["disabled".to_owned()], Some(&Value::Bool(true)))
        }
        Edit::Enable { name } => {
            let mut doc = set(doc, name, &["disabled".to_owned()], None)?;
            for key in ["enabled", "isActive"] {
                if named(&doc.root, name)?.node.is_false(key) {
                    doc = set(doc, name, &[key.to_owned()], Some(&Value::Bool(true)))?;
                }
            }
            Ok(doc)
        }
        Edit::Rename { name, to } => rename(doc, name, to),
        Edit::Remove { name } => {
            let found = named(&doc.root, name)?;
            let text = remove_at(&doc, found.parent, found.index);
            parsed(&text)
        }
        Edit::AddInput { input } => add_input(doc, input),
    }
}

/// An entry with the object or list that contains it.
struct FoundEntry<'n> {
    parent: &'n SyntaxNode,
    index: usize,
    node: &'n SyntaxNode,
}

const CONTAINERS: [&str; 2] = ["servers", "mcpServers"];
/// The keys of an entry that name other servers.
pub const DEPENDENCY_KEYS: [&str; 2] = ["dependencies", "dependsOn"];

fn find<'n>(root: &'n SyntaxNode, name: &ServerName) -> Option<FoundEntry<'n>> {
    CONTAINERS.into_iter().find_map(|container| {
        let parent = root.get(container)?;
        let member =
            parent.members().iter().enumerate().find(|(_, m)| ServerName::new(&m.key) == *name);
        let listed = parent.elements().iter().enumerate().find(|(_, e)| {
            e.get("id").and_then(SyntaxNode::text).is_some_and(|id| ServerName::new(id) == *name)
        });
        let (index, node) = member.map(|(i, m)| (i, &m.value)).or(listed)?;
        Some(FoundEntry { parent, index, node })
    })
}

fn named<'n>(root: &'n SyntaxNode, name: &ServerName) -> Result<FoundEntry<'n>, EditError> {
    find(root, name).ok_or_else(|| EditError::NoSuchServer(name.clone()))
}

/// Refuses a name that is empty or already taken.
fn free(root: &SyntaxNode, name: &ServerName) -> Result<(), EditError> {
    match find(root, name) {
        _ if name.as_str().is_empty() => {
            Err(EditError::Refused("a server needs a name".to_owned()))
        }
        Some(_) => Err(EditError::Exists(name.clone())),
        None => Ok(()),
    }
}

fn add(
    doc: SplicedText,
    name: &ServerName,
    entry: &Value,
    behind: Option<&ServerName>,
) -> Result<SplicedText, EditError> {
    free(&doc.root, name)?;
    if !entry.is_object() {
        return Err(EditError::Refused("an entry is an object".to_owned()));
    }
    let place = behind.and_then(|behind| find(&doc.root, behind));
    let parent = place
        .as_ref()
        .map(|found| found.parent)
        .or_else(|| CONTAINERS.iter().find_map(|key| doc.root.get(key)));
    let after = place.as_ref().map(|found| found.index);
    let Some(parent) = parent else {
        let empty = Value::Object(serde_json::Map::new());
        let text = insert(&doc, &doc.root, (Some("servers"), &empty), None);
        return add(parsed(&text)?, name, entry, None);
    };
    let text = if parent.is_list() {
        let mut listed = serde_json::Map::new();
        listed.insert("id".to_owned(), Value::String(name.to_string()));
        listed.extend(entry.as_object().into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())));
        insert(&doc, parent, (None, &Value::Object(listed)), after)
    } else if parent.is_object() {
        insert(&doc, parent, (Some(name.as_str()), entry), after)
    } else {
        return Err(EditError::Refused("`servers` is not an object".to_owned()));
    };
    parsed(&text)
}

/// The node at a path below an entry.
fn below<'n>(entry: &'n SyntaxNode, path: &[String]) -> Option<&'n SyntaxNode> {
    path.iter().try_fold(entry, |node, key| node.get(key))
}

fn set(
    doc: SplicedText,
    name: &ServerName,
    path: &[String],
    value: Option<&Value>,
) -> Result<SplicedText, EditError> {
    let found = named(&doc.root, name)?;
    let Some((key, way)) = path.split_last() else {
        return Err(EditError::Refused("no key was named".to_owned()));
    };
    let Some(parent) = below(found.node, way) else {
        // The object in between does not exist: make it, with the value in it.
        let Some(value) = value else { return Ok(doc) };
        let wrapped = serde_json::json!({ key: value });
        return set(doc, name, way, Some(&wrapped));
    };
    if !parent.is_object() {
        return Err(EditError::Refused(format!("`{}` is not an object", way.join("."))));
    }
    let index = parent.members().iter().rposition(|m| m.key == *key);
    let text = match (index, value) {
        (Some(index), Some(value)) => {
            let node = &parent.members()[index].value;
            if node.to_json() == *value {
                return Ok(doc);
            }
            replace_range(&doc, parent, node.range.clone(), value)
        }
        (Some(index), None) => {
            let text = remove_at(&doc, parent, index);
            // Repeat until every duplicate of the key is gone.
            return set(parsed(&text)?, name, path, None);
        }
        (None, Some(value)) => insert(&doc, parent, (Some(key.as_str()), value), None),
        (None, None) => return Ok(doc),
    };
    parsed(&text)
}

/// Replaces arguments from an index on, if they are those that are written there.
fn splice_arguments(
    doc: SplicedText,
    name: &ServerName,
    at: usize,
    removed: &[String],
    inserted: &[String],
) -> Result<SplicedText, EditError> {
    let differs = || {
        let text = "its arguments are written in another way than they are used: edit the file";
        EditError::Refused(text.to_owned())
    };
    let entry = named(&doc.root, name)?.node;
    if entry.get("launch").is_some() {
        return Err(differs());
    }
    let mut list: Vec<Value> = match entry.get("args") {
        None => Vec::new(),
        Some(args) if args.is_list() => args.elements().iter().map(SyntaxNode::to_json).collect(),
        Some(_) => return Err(differs()),
    };
    let end = at.saturating_add(removed.len());
    let present = list.get(at..end).ok_or_else(differs)?;
    if !present.iter().zip(removed).all(|(one, other)| one.as_str() == Some(other)) {
        return Err(differs());
    }
    list.splice(at..end, inserted.iter().map(|text| Value::String(text.clone())));
    set(doc, name, &["args".to_owned()], Some(&Value::Array(list)))
}

/// Changes the address of an entry, by whichever key it is written.
fn change_address(
    doc: SplicedText,
    name: &ServerName,
    with: impl Fn(&str) -> Option<String>,
) -> Result<SplicedText, EditError> {
    const ADDRESS_KEYS: [&str; 3] = ["url", "httpUrl", "serverUrl"];
    let entry = named(&doc.root, name)?.node;
    let mut written = ADDRESS_KEYS.iter().filter_map(|key| Some((key, entry.get(key)?.text()?)));
    let changed = written.next().and_then(|(key, text)| Some((*key, with(text)?)));
    let Some((key, text)) = changed else {
        let text = "its address is written in another way than it is used: edit the file";
        return Err(EditError::Refused(text.to_owned()));
    };
    set(doc, name, &[key.to_owned()], Some(&Value::String(text)))
}

/// Makes an object equal to `wanted` key by key, objects within it likewise.
fn update(
    mut doc: SplicedText,
    name: &ServerName,
    path: &mut Vec<String>,
    wanted: &Value,
) -> Result<SplicedText, EditError> {
    let Some(wanted) = wanted.as_object() else {
        return Err(EditError::Refused("an entry is an object".to_owned()));
    };
    let now = |doc: &SplicedText, path: &[String]| -> Value {
        let entry = find(&doc.root, name).and_then(|found| below(found.node, path).cloned());
        entry.map(|node| node.to_json()).unwrap_or_default()
    };
    let current = now(&doc, path);
    for key in current.as_object().into_iter().flatten().map(|(key, _)| key) {
        // In a list of servers, `id` is the name and is kept.
        let own_name = path.is_empty() && key == "id";
        if !wanted.contains_key(key) && !own_name {
            path.push(key.clone());
            doc = set(doc, name, path, None)?;
            path.pop();
        }
    }
    for (key, value) in wanted {
        path.push(key.clone());
        let both = value.is_object() && now(&doc, path).is_object();
        doc =
            if both { update(doc, name, path, value)? } else { set(doc, name, path, Some(value))? };
        path.pop();
    }
    Ok(doc)
}

fn rename(doc: SplicedText, name: &ServerName, to: &ServerName) -> Result<SplicedText, EditError> {
    free(&doc.root, to)?;
    let found = named(&doc.root, name)?;
    let range = match found.parent.members().get(found.index) {
        Some(member) => member.key_range.clone(),
        None => found.node.get("id").map(|id| id.range.clone()).unwrap_or_default(),
    };
    let mut ranges = vec![range];
    let all = CONTAINERS.iter().filter_map(|container| doc.root.get(container));
    for entry in all.flat_map(|all| all.members().iter().map(|m| &m.value).chain(all.elements())) {
        let lists = DEPENDENCY_KEYS.iter().filter_map(|key| entry.get(key));
        let needed = lists.flat_map(SyntaxNode::elements);
        let this =
            needed.filter(|one| one.text().is_some_and(|text| ServerName::new(text) == *name));
        ranges.extend(this.map(|one| one.range.clone()));
    }
    ranges.sort_by_key(|range| std::cmp::Reverse(range.start));
    let mut text = doc.text.clone();
    for range in ranges {
        text.replace_range(range, &Value::String(to.to_string()).to_string());
    }
    parsed(&text)
}

fn add_input(doc: SplicedText, input: &Value) -> Result<SplicedText, EditError> {
    let id = input.get("id").and_then(Value::as_str);
    let Some(id) = id else {
        return Err(EditError::Refused("an input needs an `id`".to_owned()));
    };
    let known = |input: &SyntaxNode| input.get("id").and_then(SyntaxNode::text) == Some(id);
    let inputs = doc.root.get("inputs").map(SyntaxNode::elements).unwrap_or_default();
    if inputs.iter().any(known) {
        return Ok(doc);
    }
    let text = put_element(&doc.text, "inputs", None, input);
    parsed(&text.ok_or_else(|| EditError::Refused("`inputs` is not a list".to_owned()))?)
}

/// Refuses a result that changes anything but the intended server: the last line of defence against
/// a wrong splice.
fn guard(before: &SplicedText, after: &SplicedText, edit: &Edit) -> Result<(), EditError> {
    let meant: Vec<&ServerName> = match edit {
        Edit::Add { name, .. }
        | Edit::Replace { name, .. }
        | Edit::Set { name, .. }
        | Edit::Amend { name, .. }
        | Edit::Remove { name }
        | Edit::Disable { name }
        | Edit::Enable { name } => vec![name],
        Edit::Duplicate { copy, .. } => vec![copy],
        Edit::Rename { name, to } => vec![name, to],
        Edit::AddInput { .. } => Vec::new(),
    };
    let inputs = matches!(edit, Edit::AddInput { .. });
    let mut expected = others(&before.root, &meant, inputs);
    if let Edit::Rename { name, to } = edit {
        for (_, entry) in &mut expected {
            for key in DEPENDENCY_KEYS {
                let list = entry.get_mut(key).and_then(Value::as_array_mut);
                for one in list.into_iter().flatten() {
                    if one.as_str().is_some_and(|text| ServerName::new(text) == *name) {
                        *one = Value::String(to.to_string());
                    }
                }
            }
        }
    }
    if expected == others(&after.root, &meant, inputs) {
        Ok(())
    } else {
        Err(EditError::Refused("this file is written in a way that cannot be edited safely".into()))
    }
}

/// Everything but the intended servers, in a comparable form.
fn others(root: &SyntaxNode, meant: &[&ServerName], inputs: bool) -> Vec<(String, Value)> {
    let mut out = Vec::new();
    for m in root.members() {
        if inputs && m.key == "inputs" {
            continue;
        }
        if !CONTAINERS.contains(&m.key.as_str()) {
            out.push((m.key.clone(), m.value.to_json()));
            continue;
        }
        for entry in m.value.members() {
            if !meant.iter().any(|name| **name == ServerName::new(&entry.key)) {
                out.push((format!("{}/{}", m.key, entry.key), entry.value.to_json()));
            }
        }
        for entry in m.value.elements() {
            let id = entry.get("id").and_then(SyntaxNode::text).map(ServerName::new);
            if !id.is_some_and(|id| meant.contains(&&id)) {
                out.push((m.key.clone(), entry.to_json()));
            }
        }
    }
    out
}
