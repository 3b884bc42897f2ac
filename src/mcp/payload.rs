//! What a server answered: a tree where that is cheap, its own text with an index where a tree would
//! cost many times the text. Pure.
//!
//! A million objects of thirteen bytes are 13 MB as text and half a gigabyte as a tree of values, so
//! such an answer is kept as it came and read in place. Must not know the protocol. Without it the
//! answers of `tests/wire/large.rs` and `benches/form` would be refused, or cost what a tree costs.

mod document;
mod node;
mod redact;
mod scan;
#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use serde::{Serialize, Serializer};
use serde_json::Value;

pub use document::Document;
pub use node::{Cut, Kind, Member, Node};
pub use scan::Bounds;

/// A JSON value that came from a server. Cheap to clone; all clones share it.
///
/// [`Payload::root`] reads it in place, whatever its size. As a [`Value`] (by dereferencing) it is
/// whole: one that is kept as text is parsed for that, once, and then costs what its tree costs.
#[derive(Clone)]
pub struct Payload(Arc<Form>);

enum Form {
    Tree(Value),
    Text { document: Document, tree: OnceLock<Value> },
}

impl Payload {
    /// One that is read from its text.
    pub fn text(document: Document) -> Self {
        Self(Arc::new(Form::Text { document, tree: OnceLock::new() }))
    }

    /// The value, to be read without building more of it than is asked for.
    pub fn root(&self) -> Node<'_> {
        match &*self.0 {
            Form::Tree(value) => Node::Tree(value),
            Form::Text { document, .. } => document.root(),
        }
    }

    /// Whether it is kept as text.
    pub fn is_text(&self) -> bool {
        matches!(&*self.0, Form::Text { .. })
    }

    /// Whether a tree of it is in memory.
    pub fn has_tree(&self) -> bool {
        match &*self.0 {
            Form::Tree(_) => true,
            Form::Text { tree, .. } => tree.get().is_some(),
        }
    }

    /// Its text, where it is kept as one.
    pub fn document(&self) -> Option<&Document> {
        match &*self.0 {
            Form::Tree(_) => None,
            Form::Text { document, .. } => Some(document),
        }
    }

    /// Whether both are the same answer, not only equal ones. Costs nothing.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether both are kept as the same text, byte for byte. Builds nothing, where `==` may have to
    /// read both into trees that stay as long as the answers.
    pub fn is_same_text(&self, other: &Self) -> bool {
        match (&*self.0, &*other.0) {
            (Form::Text { document: a, .. }, Form::Text { document: b, .. }) => {
                a.bytes() == b.bytes()
            }
            _ => false,
        }
    }

    /// As a tree of its own.
    pub fn into_value(self) -> Value {
        match Arc::try_unwrap(self.0) {
            Ok(Form::Tree(value)) => value,
            Ok(Form::Text { document, tree }) => {
                tree.into_inner().unwrap_or_else(|| document.root().to_value())
            }
            Err(shared) => (*Self(shared)).clone(),
        }
    }
}

impl Deref for Payload {
    type Target = Value;

    fn deref(&self) -> &Value {
        match &*self.0 {
            Form::Tree(value) => value,
            Form::Text { document, tree } => tree.get_or_init(|| document.root().to_value()),
        }
    }
}

impl AsRef<Value> for Payload {
    fn as_ref(&self) -> &Value {
        self
    }
}

impl From<Value> for Payload {
    fn from(value: Value) -> Self {
        Self(Arc::new(Form::Tree(value)))
    }
}

impl Default for Payload {
    fn default() -> Self {
        Value::Null.into()
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.is_same_text(other) || **self == **other
    }
}

impl fmt::Debug for Payload {
    /// A large one is not printed into a log by accident.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Form::Tree(value) => value.fmt(f),
            Form::Text { document, .. } => write!(f, "JSON of {} bytes", document.bytes().len()),
        }
    }
}

impl fmt::Display for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Form::Tree(value) => value.fmt(f),
            Form::Text { document, .. } => f.write_str(document.as_str()),
        }
    }
}

impl Serialize for Payload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.root().serialize(serializer)
    }
}
