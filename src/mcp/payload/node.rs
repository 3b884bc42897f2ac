//! One value of an answer, wherever it is kept: the same questions to a tree and to a text.

use std::borrow::Cow;

use serde::ser::{Error as _, Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Number, Value};

use super::document::{Child, Document};

/// A value. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub enum Node<'a> {
    /// In a tree.
    Tree(&'a Value),
    /// In a text, at this byte.
    Text(&'a Document, usize),
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `null`
    Null,
    /// `true` or `false`
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// A list.
    Array,
    /// An object.
    Object,
}

/// A child with its key, if it has one.
pub type Member<'a> = (Option<Cow<'a, str>>, Node<'a>);

impl<'a> From<&'a Value> for Node<'a> {
    fn from(value: &'a Value) -> Self {
        Self::Tree(value)
    }
}

impl<'a> Node<'a> {
    /// What it is.
    pub fn kind(self) -> Kind {
        match self {
            Self::Tree(Value::Null) => Kind::Null,
            Self::Tree(Value::Bool(_)) => Kind::Bool,
            Self::Tree(Value::Number(_)) => Kind::Number,
            Self::Tree(Value::String(_)) => Kind::String,
            Self::Tree(Value::Array(_)) => Kind::Array,
            Self::Tree(Value::Object(_)) => Kind::Object,
            Self::Text(document, at) => document.kind(at),
        }
    }

    /// Whether it is an object.
    pub fn is_object(self) -> bool {
        self.kind() == Kind::Object
    }

    /// Whether it is a list.
    pub fn is_array(self) -> bool {
        self.kind() == Kind::Array
    }

    /// Whether it is a string.
    pub fn is_string(self) -> bool {
        self.kind() == Kind::String
    }

    /// How many children it has; none unless it is an object or a list.
    pub fn len(self) -> usize {
        match self {
            Self::Tree(Value::Array(items)) => items.len(),
            Self::Tree(Value::Object(map)) => map.len(),
            Self::Tree(_) => 0,
            Self::Text(document, at) => match document.kind(at) {
                Kind::Array | Kind::Object => document.count(at),
                _ => 0,
            },
        }
    }

    /// Whether it has no children.
    pub fn is_empty(self) -> bool {
        match self {
            Self::Tree(_) => self.len() == 0,
            Self::Text(..) => self.members(0).next().is_none(),
        }
    }

    /// Its children in order, from number `from` on. Reaching the first costs next to nothing,
    /// however large `from` is.
    pub fn members(self, from: usize) -> Box<dyn Iterator<Item = Member<'a>> + 'a> {
        match self {
            Self::Tree(Value::Array(items)) => {
                Box::new(items.iter().skip(from).map(|item| (None, Self::Tree(item))))
            }
            Self::Tree(Value::Object(map)) => Box::new(
                map.iter()
                    .skip(from)
                    .map(|(key, item)| (Some(Cow::Borrowed(key.as_str())), Self::Tree(item))),
            ),
            Self::Tree(_) => Box::new(std::iter::empty()),
            Self::Text(document, at) => match document.kind(at) {
                Kind::Array | Kind::Object => {
                    Box::new(document.children(at, from).map(|child| named(document, child)))
                }
                _ => Box::new(std::iter::empty()),
            },
        }
    }

    /// The child with number `index`.
    pub fn nth(self, index: usize) -> Option<Member<'a>> {
        match self {
            Self::Tree(Value::Array(items)) => {
                items.get(index).map(|item| (None, Self::Tree(item)))
            }
            _ => self.members(index).next(),
        }
    }

    /// The member of an object with this key.
    pub fn get(self, key: &str) -> Option<Self> {
        match self {
            Self::Tree(value) => value.as_object()?.get(key).map(Self::Tree),
            Self::Text(document, at) if document.kind(at) == Kind::Object => document
                .children(at, 0)
                .find(|(name, _)| name.is_some_and(|name| document.string(name) == key))
                .map(|(_, at)| Self::Text(document, at)),
            Self::Text(..) => None,
        }
    }

    /// The value at a JSON pointer (RFC 6901).
    pub fn pointer(self, pointer: &str) -> Option<Self> {
        if let Self::Tree(value) = self {
            return value.pointer(pointer).map(Self::Tree);
        }
        if pointer.is_empty() {
            return Some(self);
        }
        pointer.strip_prefix('/')?.split('/').try_fold(self, |here, token| {
            if here.is_array() {
                let plain = token == "0" || !token.starts_with(['0', '+']);
                return plain
                    .then(|| token.parse().ok())
                    .flatten()
                    .and_then(|i| here.nth(i))
                    .map(|(_, v)| v);
            }
            here.get(&token.replace("~1", "/").replace("~0", "~"))
        })
    }

    /// The string, if it is one.
    pub fn as_str(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Tree(value) => value.as_str().map(Cow::Borrowed),
            Self::Text(document, at) => {
                (document.kind(at) == Kind::String).then(|| document.string(at))
            }
        }
    }

    /// The member with this key, if it is a string.
    pub fn text(self, key: &str) -> Option<Cow<'a, str>> {
        self.get(key)?.as_str()
    }

    /// Whether it is `true`.
    pub fn is_true(self) -> bool {
        match self {
            Self::Tree(value) => value == &Value::Bool(true),
            Self::Text(document, at) => document.slice(at) == "true",
        }
    }

    /// As a tree of its own. Costs what a tree costs.
    pub fn to_value(self) -> Value {
        match self {
            Self::Tree(value) => value.clone(),
            Self::Text(document, at) => parsed(document.slice(at)),
        }
    }

    /// Its beginning as a tree of about `nodes` values at most: of a list or an object that is too
    /// long the first children are taken. `None` as the second says that nothing is missing.
    pub fn sample(self, nodes: usize) -> (Value, Option<Cut>) {
        let mut sampling = Sampling { left: nodes, cut: None, pointer: String::new() };
        let value = sampling.take(self);
        (value, sampling.cut)
    }

    /// Length of its text in bytes, of a text alone.
    pub fn text_len(self) -> Option<usize> {
        match self {
            Self::Tree(_) => None,
            Self::Text(document, at) => Some(document.end(at) - at),
        }
    }
}

/// Where a sample is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// JSON pointers of the lists and objects of which children are missing, innermost first.
    pub places: Vec<String>,
    /// The one of which most are missing.
    pub most: String,
    /// Children taken of that one.
    pub taken: usize,
    /// Children it has.
    pub of: usize,
}

struct Sampling {
    left: usize,
    cut: Option<Cut>,
    pointer: String,
}

impl Sampling {
    fn take(&mut self, node: Node<'_>) -> Value {
        self.left = self.left.saturating_sub(1);
        if !matches!(node.kind(), Kind::Array | Kind::Object) {
            return node.to_value();
        }
        let mut items = Vec::new();
        let mut map = Map::new();
        for (taken, (key, item)) in node.members(0).enumerate() {
            if self.left == 0 {
                self.stop(node.len(), taken);
                break;
            }
            let length = self.pointer.len();
            let token = match &key {
                Some(key) => key.replace('~', "~0").replace('/', "~1"),
                None => taken.to_string(),
            };
            self.pointer.push('/');
            self.pointer.push_str(&token);
            let value = self.take(item);
            self.pointer.truncate(length);
            match key {
                Some(key) => drop(map.insert(key.into_owned(), value)),
                None => items.push(value),
            }
        }
        if node.is_object() { Value::Object(map) } else { Value::Array(items) }
    }

    /// No more children of this place are taken.
    fn stop(&mut self, of: usize, taken: usize) {
        let here = &self.pointer;
        let cut = self.cut.get_or_insert_with(|| Cut {
            places: Vec::new(),
            most: here.clone(),
            taken,
            of,
        });
        if of - taken > cut.of - cut.taken {
            (cut.most, cut.taken, cut.of) = (here.clone(), taken, of);
        }
        cut.places.push(here.clone());
    }
}

fn named(document: &Document, (key, at): Child) -> Member<'_> {
    (key.map(|key| document.string(key)), Node::Text(document, at))
}

/// Text that is valid JSON, however deep.
pub(super) fn parsed(text: &str) -> Value {
    let mut parser = serde_json::Deserializer::from_str(text);
    parser.disable_recursion_limit();
    serde::Deserialize::deserialize(&mut parser).unwrap_or_default()
}

impl Serialize for Node<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (document, at) = match self {
            Self::Tree(value) => return value.serialize(serializer),
            Self::Text(document, at) => (*document, *at),
        };
        match document.kind(at) {
            Kind::Null => serializer.serialize_unit(),
            Kind::Bool => serializer.serialize_bool(self.is_true()),
            Kind::Number => {
                let number: Number =
                    serde_json::from_str(document.slice(at)).map_err(S::Error::custom)?;
                number.serialize(serializer)
            }
            Kind::String => serializer.serialize_str(&document.string(at)),
            Kind::Array => {
                let mut out = serializer.serialize_seq(Some(document.count(at)))?;
                for (_, item) in self.members(0) {
                    out.serialize_element(&item)?;
                }
                out.end()
            }
            Kind::Object => {
                let mut out = serializer.serialize_map(Some(document.count(at)))?;
                for (key, item) in self.members(0) {
                    out.serialize_entry(&key.unwrap_or_default(), &item)?;
                }
                out.end()
            }
        }
    }
}
