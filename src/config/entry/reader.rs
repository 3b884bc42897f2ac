//! What is read of an entry, one key at a time: expanded, with its origin noted and its problems
//! reported.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::base::{Secret, ServerName};
use crate::config::Diagnostic;
use crate::config::diagnostics::{Origin, Origins, Problems, child};
use crate::config::expand::{Cause, Expanded, Scope, expand, has_reference};
use crate::config::shape::{Key, Shape, parse_bytes};
use crate::config::syntax::{Node, NodeKind};

/// What reading an entry needs, and what it leaves behind.
pub(crate) struct Reader<'a, 'p> {
    pub(crate) problems: &'p mut Problems<'a>,
    pub(crate) scope: &'p Scope<'p>,
    pub(crate) origins: &'p mut Origins,
    /// Inputs without an answer, with where they are used.
    pub(crate) unanswered: Vec<(String, Diagnostic)>,
    /// Secrets found in what is no secret as a whole, such as an argument.
    pub(crate) secrets: Vec<Secret>,
    /// Files read besides the configuration.
    pub(crate) reads: Vec<PathBuf>,
    /// Folder that relative paths start from.
    pub(crate) folder: PathBuf,
}

/// An entry with its two pointers: where it stands in the file, and in the effective document.
pub(crate) struct Entry<'n> {
    pub(crate) name: ServerName,
    /// Where its name stands.
    pub(crate) key_range: Range<usize>,
    pub(crate) node: &'n Node,
    pub(crate) pointer: String,
    pub(crate) effective: String,
}

/// Whether this is named as variables of the environment are: `HOME`, `api_key`.
fn is_variable(name: &str) -> bool {
    let mut all = name.chars();
    let starts = all.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    starts && name.len() > 1 && all.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

impl<'n> Entry<'n> {
    pub(crate) fn new(
        name: &str,
        key_range: Range<usize>,
        node: &'n Node,
        pointer: String,
    ) -> Self {
        let name = ServerName::new(name);
        let effective = child("/servers", name.as_str());
        Self { name, key_range, node, pointer, effective }
    }

    /// The entry of an object within an entry.
    pub(crate) fn inner(&self, key: &str) -> Option<Self> {
        let node = self.node.get(key)?;
        matches!(node.kind, NodeKind::Object(_)).then(|| Self {
            name: self.name.clone(),
            key_range: self.key_range.clone(),
            node,
            pointer: child(&self.pointer, key),
            effective: child(&self.effective, key),
        })
    }

    /// The value of a key, or of its other spelling, with the spelling used.
    pub(crate) fn either(
        &self,
        key: &'static str,
        other: &'static str,
    ) -> Option<(&'static str, &'n Node)> {
        let found = |k: &'static str| self.node.get(k).map(|node| (k, node));
        found(key).or_else(|| found(other))
    }
}

impl<'a, 'p> Reader<'a, 'p> {
    pub(crate) fn new(
        problems: &'p mut Problems<'a>,
        scope: &'p Scope<'p>,
        origins: &'p mut Origins,
        folder: &Path,
    ) -> Self {
        let (unanswered, secrets, reads) = (Vec::new(), Vec::new(), Vec::new());
        let folder = folder.to_path_buf();
        Self { problems, scope, origins, unanswered, secrets, reads, folder }
    }

    /// Text at a key, expanded.
    pub(crate) fn text(&mut self, entry: &Entry<'_>, key: &str) -> Option<String> {
        let node = entry.node.get(key)?;
        self.expanded(node, &child(&entry.pointer, key), &child(&entry.effective, key))
    }

    /// A list of texts at a key, expanded; `None` when there is none or one cannot be expanded.
    pub(crate) fn texts(&mut self, entry: &Entry<'_>, key: &str) -> Option<Vec<String>> {
        let node = entry.node.get(key)?;
        let (pointer, effective) = (child(&entry.pointer, key), child(&entry.effective, key));
        let each = node.elements().iter().enumerate();
        // All of them, so that the problems of all are reported.
        let all: Vec<Option<String>> = each
            .map(|(i, e)| self.expanded(e, &format!("{pointer}/{i}"), &format!("{effective}/{i}")))
            .collect();
        all.into_iter().collect()
    }

    /// Expands a text, reports what cannot be, and remembers where it came from.
    pub(crate) fn expanded(
        &mut self,
        node: &Node,
        pointer: &str,
        effective: &str,
    ) -> Option<String> {
        let written = node.text()?;
        let Expanded { text, via, secrets } = self.expand_at(written, node, pointer)?;
        self.secrets.extend(secrets);
        if text.contains('\0') {
            let message = "a NUL character cannot be passed to a program";
            self.problems.error("config/nul", &node.range, pointer, message);
            return None;
        }
        if via.is_empty() {
            self.unexpanded(written, node, pointer);
        }
        self.trace(effective, node, via);
        Some(text)
    }

    /// Warns of what a shell would expand and nobody does here.
    fn unexpanded(&mut self, written: &str, node: &Node, pointer: &str) {
        if written.contains(char::is_whitespace) {
            // A script for a shell, perhaps.
            return;
        }
        let (first, rest) = written.split_once('/').unwrap_or((written, ""));
        // The words themselves are not repeated: a secret may begin like that.
        let (what, help) = match first.strip_prefix('$') {
            Some(name) if is_variable(name) => ("$NAME", "write `${NAME}` for its value"),
            None if first == "~" && !rest.is_empty() => ("~", "write `${userHome}`"),
            _ => return,
        };
        let message = format!("`{what}` is passed on as it stands: no shell expands it");
        self.problems.warn("config/unexpanded", &node.range, pointer, message).help(help);
    }

    /// Expands `written`, the text of `node`.
    pub(crate) fn expand_at(
        &mut self,
        written: &str,
        node: &Node,
        pointer: &str,
    ) -> Option<Expanded> {
        if !has_reference(written) {
            return Some(Expanded { text: written.to_owned(), ..Expanded::default() });
        }
        match expand(written, self.scope) {
            Ok(expanded) => Some(expanded),
            Err(refusals) => {
                // Offsets count in the text; in the file they do only where nothing is escaped.
                let raw = self.problems.source.text().get(node.range.clone()).unwrap_or_default();
                let exact = raw.len() == written.len() + 2;
                for refusal in refusals {
                    let range = if exact {
                        let base = node.range.start + 1;
                        base + refusal.range.start..base + refusal.range.end
                    } else {
                        node.range.clone()
                    };
                    let (rule, message, help) = refusal.cause.words();
                    self.problems.error(rule, &range, pointer, message).help(help);
                    // A question to the user is not a mistake of the file.
                    if let Cause::Unanswered(id) = refusal.cause
                        && let Some(question) = self.problems.list.pop()
                    {
                        self.unanswered.push((id, question));
                    }
                }
                None
            }
        }
    }

    /// Remembers where an effective value comes from.
    pub(crate) fn trace(&mut self, effective: &str, node: &Node, via: Vec<String>) {
        let at = self.problems.source.position(node.range.start);
        let written = if via.is_empty() { None } else { node.text().map(Secret::new) };
        self.origins.insert(effective.to_owned(), Origin { at, via, written });
    }

    /// A value as serde reads it: texts expanded, sizes in bytes, one spelling of every key.
    pub(crate) fn settled(
        &mut self,
        shape: &Shape,
        node: &Node,
        pointer: &str,
        effective: &str,
    ) -> Option<Value> {
        let value = match (shape, &node.kind) {
            (Shape::Either(shapes), _) => {
                let shape = shapes.iter().find(|shape| shape.takes(node))?;
                return self.settled(shape, node, pointer, effective);
            }
            (Shape::Text, _) => {
                return self.expanded(node, pointer, effective).map(Value::String);
            }
            (Shape::List(of), NodeKind::List(elements)) => {
                let each = elements.iter().enumerate().map(|(i, element)| {
                    let (at, shown) = (format!("{pointer}/{i}"), format!("{effective}/{i}"));
                    self.settled(of, element, &at, &shown)
                });
                // All of them, so that the problems of all are reported.
                let all: Vec<Option<Value>> = each.collect();
                return all.into_iter().collect();
            }
            (Shape::Map(of), NodeKind::Object(members)) => {
                let each = members.iter().filter_map(|m| {
                    let (at, shown) = (child(pointer, &m.key), child(effective, &m.key));
                    Some((m.key.clone(), self.settled(of, &m.value, &at, &shown)?))
                });
                return Some(Value::Object(each.collect()));
            }
            (Shape::Object(of), NodeKind::Object(_)) => {
                let keys = of.keys.iter();
                return Some(self.settled_keys(keys, node, pointer, effective).into());
            }
            (Shape::Bytes, NodeKind::Text(text)) => parse_bytes(text)?.into(),
            (Shape::Integer { .. } | Shape::Bytes, _) => (whole(node)?).into(),
            (_, NodeKind::Number(_)) => number(node)?.into(),
            _ => node.to_json(),
        };
        self.trace(effective, node, Vec::new());
        Some(value)
    }

    /// The values of these keys, each under the name of the setting it spells.
    pub(crate) fn settled_keys<'k>(
        &mut self,
        keys: impl Iterator<Item = &'k Key>,
        node: &Node,
        pointer: &str,
        effective: &str,
    ) -> Map<String, Value> {
        let values = keys.filter_map(|key| {
            let name = key.alias_of.unwrap_or(key.name);
            let (at, shown) = (child(pointer, key.name), child(effective, name));
            let value = self.settled(&key.shape, node.get(key.name)?, &at, &shown)?;
            let millis = value.as_f64().filter(|_| key.alias_of.is_some());
            Some((name.to_owned(), millis.map_or(value, |millis| (millis / 1e3).into())))
        });
        values.collect()
    }

    /// A flag.
    pub(crate) fn flag(&mut self, entry: &Entry<'_>, key: &str) -> Option<bool> {
        let node = entry.node.get(key)?;
        let NodeKind::Bool(value) = node.kind else { return None };
        self.trace(&child(&entry.effective, key), node, Vec::new());
        Some(value)
    }

    /// A whole number.
    pub(crate) fn integer(&mut self, entry: &Entry<'_>, key: &str) -> Option<u64> {
        let node = entry.node.get(key)?;
        self.trace(&child(&entry.effective, key), node, Vec::new());
        whole(node)
    }

    /// A size in bytes.
    pub(crate) fn bytes(&mut self, entry: &Entry<'_>, key: &str) -> Option<u64> {
        let (pointer, effective) = (child(&entry.pointer, key), child(&entry.effective, key));
        self.settled(&Shape::Bytes, entry.node.get(key)?, &pointer, &effective)?.as_u64()
    }

    /// A word of a fixed set; never expanded.
    pub(crate) fn word<'n>(&mut self, entry: &Entry<'n>, key: &str) -> Option<&'n str> {
        let node = entry.node.get(key)?;
        let word = node.text()?;
        self.trace(&child(&entry.effective, key), node, Vec::new());
        Some(word)
    }
}

/// A number as written.
pub(crate) fn number(node: &Node) -> Option<f64> {
    if let NodeKind::Number(written) = &node.kind { written.parse().ok() } else { None }
}

fn whole(node: &Node) -> Option<u64> {
    number(node).filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64)
}
