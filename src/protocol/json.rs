//! JSON under a budget: one pass that builds the value and enforces depth and node count.
//!
//! A line limit is not a memory limit (15 MiB of `{"":0},` take gigabytes as a tree), so nodes and
//! the bytes they take are counted as they are built. Detects repeated keys, which JSON leaves
//! undefined. For a value over the budget, its beginning is available.

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::payload::Cut;

/// What one message may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseBudget {
    /// Deepest nesting of objects and arrays.
    pub depth: usize,
    /// Most values and keys.
    pub nodes: usize,
    /// Most bytes that the tree takes in memory.
    pub bytes: usize,
}

impl ParseBudget {
    /// Nesting that is safe on a worker thread's stack, whatever a configuration says.
    pub const MAX_DEPTH: usize = 512;
    /// Bytes a tree may take per byte of the message limit: twice what small objects need.
    pub const MAX_BYTES_PER_BYTE: usize = 24;
    /// Bytes of a value in an array.
    const ITEM_BYTES: usize = size_of::<Value>();
    /// Bytes of a value in an object, with its key and its slot in the table.
    const ENTRY_BYTES: usize = size_of::<(String, Value)>() + 4 * size_of::<usize>();
    /// Entries that the smallest object has room for.
    const MIN_OBJECT_ENTRIES: usize = 3;

    /// Bytes that the children of an array or object take in a tree, excluding their own children
    /// and texts.
    pub const fn children(object: bool, count: usize) -> usize {
        match (object, count) {
            (_, 0) => 0,
            (false, _) => count * Self::ITEM_BYTES,
            (true, 1..=Self::MIN_OBJECT_ENTRIES) => Self::MIN_OBJECT_ENTRIES * Self::ENTRY_BYTES,
            (true, _) => 2 * count * Self::ENTRY_BYTES,
        }
    }
}

/// A value and its oddities.
#[derive(Debug)]
pub struct Parsed {
    /// The value.
    pub value: Value,
    /// Bytes of input consumed, including trailing white space; the rest was not read.
    pub used: usize,
    /// A key that occurred twice in the same object; the last value counts.
    pub repeated: Option<String>,
    /// Whether it has numbers that are not integers of 64 bits, which parsing may have rounded.
    pub has_doubles: bool,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Not JSON; the parser's message.
    Syntax(String),
    /// The input ended before the value did.
    Incomplete,
    /// Nested deeper than the budget.
    TooDeep(usize),
    /// More values than the budget.
    TooMany(usize),
    /// More memory than the budget, in bytes.
    TooBig(usize),
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax(reason) => write!(f, "not valid JSON: {reason}"),
            Self::Incomplete => f.write_str("not valid JSON: it ends in the middle"),
            Self::TooDeep(limit) => write!(f, "nested deeper than {limit} levels"),
            Self::TooMany(limit) => write!(f, "more than {limit} JSON values"),
            Self::TooBig(limit) => {
                write!(f, "more than {} MiB in memory as JSON values", limit >> 20)
            }
        }
    }
}

/// Parses the value at the start of `bytes`.
///
/// # Errors
/// The [`Flaw`] that stops the value from being built.
pub fn parse(bytes: &[u8], budget: ParseBudget) -> Result<Parsed, Flaw> {
    let mut state = JsonReading::new(budget);
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    parser.disable_recursion_limit();
    let depth = state.limits.depth;
    let value = match (JsonNode { state: &mut state, depth }).deserialize(&mut parser) {
        Ok(value) => value,
        Err(error) => {
            return Err(state.flaw.unwrap_or_else(|| {
                if error.is_eof() { Flaw::Incomplete } else { Flaw::Syntax(reason(bytes, &error)) }
            }));
        }
    };
    let end = parser.into_iter::<IgnoredAny>().byte_offset().min(bytes.len());
    let blank = bytes[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let JsonReading { repeated, has_doubles, .. } = state;
    Ok(Parsed { value, used: end + blank, repeated, has_doubles })
}

/// Words that other languages write for values that JSON does not have, or has by another name.
const FOREIGN_WORDS: [&str; 6] = ["NaN", "Infinity", "None", "True", "False", "undefined"];

/// What is wrong with a text that is no JSON, with the word that another language writes there.
fn reason(bytes: &[u8], error: &serde_json::Error) -> String {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let line = lines.nth(error.line().saturating_sub(1)).unwrap_or_default();
    // The column is that of the character that cannot stand there, or of the one before it.
    let near = error.column().saturating_sub(2)..=error.column();
    let is_there = |word: &&&str| {
        let starts =
            |at: usize| line.get(at..).is_some_and(|rest| rest.starts_with(word.as_bytes()));
        near.clone().any(starts)
    };
    match FOREIGN_WORDS.iter().find(is_there) {
        Some(word) => format!("`{word}` is no value of JSON: {error}"),
        None => error.to_string(),
    }
}

/// The id and the result of a line that is a plain answer: `jsonrpc`, an integer `id` and a
/// `result`, each once, and nothing else; and whether parsing may have rounded numbers
/// ([`Parsed::has_doubles`]). Nearly every line is one; all others take the slower path, which reports
/// what is odd about them.
pub fn answer(bytes: &[u8], budget: ParseBudget) -> Option<(i64, Value, bool)> {
    // The result of a plain answer begins within this many bytes.
    const MAX_HEAD_BYTES: usize = 96;
    // Made once, because making it takes longer than looking.
    static RESULT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"result\""));
    RESULT.find(&bytes[..bytes.len().min(MAX_HEAD_BYTES)])?;
    // The message around the result counts as a level and three values.
    let mut state = JsonReading::new(ParseBudget { nodes: budget.nodes.checked_sub(3)?, ..budget });
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    parser.disable_recursion_limit();
    let depth = state.limits.depth.checked_sub(1)?;
    let (id, result) =
        PlainAnswer(JsonNode { state: &mut state, depth }).deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    state.repeated.is_none().then_some((id, result, state.has_doubles))
}

/// The beginning of the JSON value in `text`: about `most` values of it, and where children are
/// missing, if any. `None` when the text is not one JSON value of at most `depth` levels.
pub fn beginning(text: &str, depth: usize, most: usize) -> Option<(Value, Option<Cut>)> {
    let mut state = JsonReading::new(ParseBudget { depth, nodes: most, bytes: usize::MAX });
    state.beginning = Some(Beginning::default());
    let mut parser = serde_json::Deserializer::from_str(text);
    parser.disable_recursion_limit();
    let depth = state.limits.depth;
    let value = JsonNode { state: &mut state, depth }.deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    Some((value, state.beginning?.cut))
}

/// Reads a plain answer, using the node for its result.
struct PlainAnswer<'a>(JsonNode<'a>);

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum MessageMember {
    Jsonrpc,
    Id,
    Result,
}

impl<'de> DeserializeSeed<'de> for PlainAnswer<'_> {
    type Value = (i64, Value);

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for PlainAnswer<'_> {
    type Value = (i64, Value);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let JsonNode { state, depth } = self.0;
        let odd = || serde::de::Error::custom("not a plain answer");
        let (mut version, mut id, mut result) = (None, None, None);
        while let Some(member) = members.next_key()? {
            match member {
                MessageMember::Jsonrpc if version.is_none() => {
                    version = Some(members.next_value()?);
                }
                MessageMember::Id if id.is_none() => id = Some(members.next_value()?),
                MessageMember::Result if result.is_none() => {
                    let node = JsonNode { state: &mut *state, depth };
                    result = Some(members.next_value_seed(node)?);
                }
                // It was there before.
                MessageMember::Jsonrpc | MessageMember::Id | MessageMember::Result => {
                    return Err(odd());
                }
            }
        }
        match (version, id, result) {
            (Some("2.0"), Some(id), Some(result)) => Ok((id, result)),
            _ => Err(odd()),
        }
    }
}

struct JsonReading {
    nodes: usize,
    bytes: usize,
    limits: ParseBudget,
    repeated: Option<String>,
    has_doubles: bool,
    flaw: Option<Flaw>,
    /// If only the beginning is wanted, the state of reading it.
    beginning: Option<Beginning>,
}

#[derive(Default)]
struct Beginning {
    /// JSON pointer of the value being read.
    pointer: String,
    /// Whether children are being skipped.
    past: bool,
    cut: Option<Cut>,
}

impl JsonReading {
    fn new(budget: ParseBudget) -> Self {
        let limits = ParseBudget { depth: budget.depth.min(ParseBudget::MAX_DEPTH), ..budget };
        let ParseBudget { nodes, bytes, .. } = budget;
        let (repeated, has_doubles, flaw, beginning) = (None, false, None, None);
        Self { nodes, bytes, limits, repeated, has_doubles, flaw, beginning }
    }

    /// Whether what follows is no longer part of the beginning.
    const fn is_past(&self) -> bool {
        self.beginning.is_some() && self.nodes == 0
    }

    /// Enters a child of a container; returns the value to pass to [`JsonReading::leave`].
    fn enter(&mut self, key: impl fmt::Display) -> usize {
        let Some(beginning) = &mut self.beginning else { return 0 };
        let length = beginning.pointer.len();
        if !beginning.past {
            beginning.pointer.push('/');
            beginning.pointer.push_str(&key.to_string().replace('~', "~0").replace('/', "~1"));
        }
        length
    }

    fn leave(&mut self, length: usize) {
        if let Some(beginning) = &mut self.beginning {
            beginning.pointer.truncate(length);
        }
    }

    /// Starts or stops skipping children; returns the previous state.
    fn pass(&mut self, past: bool) -> bool {
        self.beginning
            .as_mut()
            .is_some_and(|beginning| std::mem::replace(&mut beginning.past, past))
    }

    /// Records that a container has `of` children, of which `taken` belong to the beginning.
    fn cut(&mut self, taken: usize, of: usize) {
        let Some(beginning) = self.beginning.as_mut().filter(|_| taken < of) else { return };
        let here = &beginning.pointer;
        let new = || Cut { places: Vec::new(), most: here.clone(), taken, of };
        let cut = beginning.cut.get_or_insert_with(new);
        if of - taken > cut.of - cut.taken {
            (cut.most, cut.taken, cut.of) = (here.clone(), taken, of);
        }
        cut.places.push(here.clone());
    }
}

struct JsonNode<'a> {
    state: &'a mut JsonReading,
    depth: usize,
}

impl JsonNode<'_> {
    fn charge<E: serde::de::Error>(&mut self) -> Result<(), E> {
        match self.state.nodes.checked_sub(1) {
            Some(left) => self.state.nodes = left,
            None if self.state.beginning.is_some() => {}
            None => return Err(self.fail(Flaw::TooMany(self.state.limits.nodes))),
        }
        Ok(())
    }

    /// Charges for the newest child of a container.
    fn grown<E: serde::de::Error>(&mut self, object: bool, count: usize) -> Result<(), E> {
        let more = ParseBudget::children(object, count) - ParseBudget::children(object, count - 1);
        let left = self.state.bytes.checked_sub(more);
        self.state.bytes = left.ok_or_else(|| self.fail(Flaw::TooBig(self.state.limits.bytes)))?;
        Ok(())
    }

    fn descend<E: serde::de::Error>(&mut self) -> Result<usize, E> {
        let left = self.depth.checked_sub(1);
        left.ok_or_else(|| self.fail(Flaw::TooDeep(self.state.limits.depth)))
    }

    fn fail<E: serde::de::Error>(&mut self, flaw: Flaw) -> E {
        self.state.flaw = Some(flaw);
        E::custom("over budget")
    }
}

impl<'de> DeserializeSeed<'de> for JsonNode<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(mut self, from: D) -> Result<Value, D::Error> {
        self.charge()?;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonNode<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        self.state.has_doubles = true;
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        let past = self.state.beginning.as_ref().is_some_and(|beginning| beginning.past);
        Ok(if past { Value::Null } else { Value::String(value.to_owned()) })
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let depth = self.descend()?;
        let mut out = Vec::new();
        while !self.state.is_past() {
            let length = self.state.enter(out.len());
            let item = items.next_element_seed(JsonNode { state: &mut *self.state, depth })?;
            self.state.leave(length);
            let Some(item) = item else { return Ok(Value::Array(exact(out))) };
            out.push(item);
            self.grown(false, out.len())?;
        }
        let (before, mut count) = (self.state.pass(true), out.len());
        while items.next_element_seed(JsonNode { state: &mut *self.state, depth })?.is_some() {
            count += 1;
        }
        self.state.pass(before);
        if !before {
            self.state.cut(out.len(), count);
        }
        Ok(Value::Array(exact(out)))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let depth = self.descend()?;
        let mut out = Map::new();
        while !self.state.is_past() {
            let Some(key) = entries.next_key::<String>()? else { return Ok(Value::Object(out)) };
            let length = self.state.enter(&key);
            let value = entries.next_value_seed(JsonNode { state: &mut *self.state, depth })?;
            self.state.leave(length);
            let count = out.len() + 1;
            match out.entry(key) {
                serde_json::map::Entry::Vacant(slot) => {
                    slot.insert(value);
                    self.grown(true, count)?;
                }
                serde_json::map::Entry::Occupied(mut slot) => {
                    self.state.repeated.get_or_insert_with(|| slot.key().clone());
                    slot.insert(value);
                }
            }
        }
        let (before, mut count) = (self.state.pass(true), out.len());
        while entries.next_key::<IgnoredAny>()?.is_some() {
            entries.next_value_seed(JsonNode { state: &mut *self.state, depth })?;
            count += 1;
        }
        self.state.pass(before);
        if !before {
            self.state.cut(out.len(), count);
        }
        Ok(Value::Object(out))
    }
}

/// Drops spare capacity: a `Vec` of one element reserves room for four, at every nesting level.
fn exact(mut list: Vec<Value>) -> Vec<Value> {
    list.shrink_to_fit();
    list
}
