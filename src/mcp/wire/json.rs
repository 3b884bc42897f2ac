//! JSON under a budget: one pass that builds the value and enforces depth and node count.
//!
//! A line limit is not a memory limit (15 MiB of `{"":0},` take gigabytes as a tree), so nodes and
//! the bytes they take are counted while they are made. Notices repeated keys, which JSON leaves undefined.

use std::fmt;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What one message may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Deepest nesting of objects and arrays.
    pub depth: usize,
    /// Most values and keys.
    pub nodes: usize,
    /// Most bytes that the tree takes in memory.
    pub bytes: usize,
}

impl Budget {
    /// Nesting that is safe on a worker thread's stack, whatever a configuration says.
    pub const MAX_DEPTH: usize = 512;
    /// Bytes a tree may take for each byte a message may have: twice what lists of small objects do.
    pub const PER_BYTE: usize = 24;
    /// Bytes of a value in its list.
    const ITEM: usize = size_of::<Value>();
    /// Bytes of a value in its object, with its key and its place in the table.
    const ENTRY: usize = size_of::<(String, Value)>() + 4 * size_of::<usize>();
    /// Entries that the smallest object has room for.
    const FEWEST: usize = 3;

    /// Bytes that the children of a list or an object take in a tree, besides their own children
    /// and texts.
    pub const fn children(object: bool, count: usize) -> usize {
        match (object, count) {
            (_, 0) => 0,
            (false, _) => count * Self::ITEM,
            (true, 1..=Self::FEWEST) => Self::FEWEST * Self::ENTRY,
            (true, _) => 2 * count * Self::ENTRY,
        }
    }
}

/// A value and what was odd about it.
#[derive(Debug)]
pub struct Parsed {
    /// The value.
    pub value: Value,
    /// Bytes of the input it took, with the white space behind it; the rest was not looked at.
    pub used: usize,
    /// A key that stood twice in the same object; the last one counts.
    pub repeated: Option<String>,
}

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Not JSON; the parser's words.
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
pub fn parse(bytes: &[u8], budget: Budget) -> Result<Parsed, Flaw> {
    let mut state = State {
        nodes: budget.nodes,
        bytes: budget.bytes,
        limits: Budget { depth: budget.depth.min(Budget::MAX_DEPTH), ..budget },
        repeated: None,
        flaw: None,
    };
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    parser.disable_recursion_limit();
    let depth = state.limits.depth;
    let value = match (Node { state: &mut state, depth }).deserialize(&mut parser) {
        Ok(value) => value,
        Err(error) => {
            return Err(state.flaw.unwrap_or_else(|| {
                if error.is_eof() { Flaw::Incomplete } else { Flaw::Syntax(error.to_string()) }
            }));
        }
    };
    let end = parser.into_iter::<serde::de::IgnoredAny>().byte_offset().min(bytes.len());
    let blank = bytes[end..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    Ok(Parsed { value, used: end + blank, repeated: state.repeated })
}

/// The id and the result of a line that is a plain answer: `jsonrpc`, a whole number for an `id` and a
/// `result`, each once, and nothing else. What nearly every line is; all others, and whatever is odd
/// about one, go the way on which odd things are told.
pub fn answer(bytes: &[u8], budget: Budget) -> Option<(i64, Value)> {
    // Where the result of a plain answer begins.
    const HEAD: usize = 96;
    memchr::memmem::find(&bytes[..bytes.len().min(HEAD)], b"\"result\"")?;
    let depth = budget.depth.min(Budget::MAX_DEPTH);
    let mut state = State {
        // The message around the result is a level and three values.
        nodes: budget.nodes.checked_sub(3)?,
        bytes: budget.bytes,
        limits: Budget { depth, ..budget },
        repeated: None,
        flaw: None,
    };
    let mut parser = serde_json::Deserializer::from_slice(bytes);
    parser.disable_recursion_limit();
    let depth = depth.checked_sub(1)?;
    let answer = Answer(Node { state: &mut state, depth }).deserialize(&mut parser).ok()?;
    parser.end().ok()?;
    state.repeated.is_none().then_some(answer)
}

/// Reads a plain answer whose result is what the node reads.
struct Answer<'a>(Node<'a>);

#[derive(serde::Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Member {
    Jsonrpc,
    Id,
    Result,
}

impl<'de> DeserializeSeed<'de> for Answer<'_> {
    type Value = (i64, Value);

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Answer<'_> {
    type Value = (i64, Value);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an answer")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let Node { state, depth } = self.0;
        let odd = || serde::de::Error::custom("not a plain answer");
        let (mut version, mut id, mut result) = (None, None, None);
        while let Some(member) = members.next_key()? {
            match member {
                Member::Jsonrpc if version.is_none() => version = Some(members.next_value()?),
                Member::Id if id.is_none() => id = Some(members.next_value()?),
                Member::Result if result.is_none() => {
                    let node = Node { state: &mut *state, depth };
                    result = Some(members.next_value_seed(node)?);
                }
                _ => return Err(odd()),
            }
        }
        match (version, id, result) {
            (Some("2.0"), Some(id), Some(result)) => Ok((id, result)),
            _ => Err(odd()),
        }
    }
}

struct State {
    nodes: usize,
    bytes: usize,
    limits: Budget,
    repeated: Option<String>,
    flaw: Option<Flaw>,
}

struct Node<'a> {
    state: &'a mut State,
    depth: usize,
}

impl Node<'_> {
    fn charge<E: serde::de::Error>(&mut self) -> Result<(), E> {
        match self.state.nodes.checked_sub(1) {
            Some(left) => {
                self.state.nodes = left;
                Ok(())
            }
            None => self.fail(Flaw::TooMany(self.state.limits.nodes)),
        }
    }

    /// Charges for the children that a container has now.
    fn grown<E: serde::de::Error>(&mut self, object: bool, count: usize) -> Result<(), E> {
        let more = Budget::children(object, count) - Budget::children(object, count - 1);
        self.take(more)
    }

    fn take<E: serde::de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        match self.state.bytes.checked_sub(bytes) {
            Some(left) => {
                self.state.bytes = left;
                Ok(())
            }
            None => self.fail(Flaw::TooBig(self.state.limits.bytes)),
        }
    }

    fn descend<E: serde::de::Error>(&mut self) -> Result<usize, E> {
        match self.depth.checked_sub(1) {
            Some(left) => Ok(left),
            None => self.fail(Flaw::TooDeep(self.state.limits.depth)),
        }
    }

    fn fail<T, E: serde::de::Error>(&mut self, flaw: Flaw) -> Result<T, E> {
        self.state.flaw = Some(flaw);
        Err(E::custom("over budget"))
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(mut self, from: D) -> Result<Value, D::Error> {
        self.charge()?;
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
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
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
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
        while let Some(item) = items.next_element_seed(Node { state: &mut *self.state, depth })? {
            out.push(item);
            self.grown(false, out.len())?;
        }
        // A list of one takes the room of four, and lists of one lists of one.
        out.shrink_to_fit();
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut entries: A) -> Result<Value, A::Error> {
        let depth = self.descend()?;
        let mut out = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            let value = entries.next_value_seed(Node { state: &mut *self.state, depth })?;
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
        Ok(Value::Object(out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const BUDGET: Budget = Budget { depth: 128, nodes: 1000, bytes: usize::MAX };

    #[test]
    fn builds_the_same_value_as_the_plain_parser() {
        let text = r#"{"a":[1,-2,3.5,true,null,"x\n\u00e9"],"b":{"c":{}}}"#;
        let parsed = parse(text.as_bytes(), BUDGET).unwrap();
        assert_eq!(parsed.value, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!((parsed.used, parsed.repeated), (text.len(), None));
    }

    #[test]
    fn a_plain_answer_is_read_as_the_message_it_is_and_nothing_else_is_one() {
        let good = r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1,{"b":"x\u0041"}]}}"#;
        let whole = parse(good.as_bytes(), BUDGET).unwrap().value;
        assert_eq!(answer(good.as_bytes(), BUDGET), Some((7, whole["result"].clone())));
        let turned = r#" { "result" : null , "id" : -3 , "jsonrpc" : "2.0" } "#;
        assert_eq!(answer(turned.as_bytes(), BUDGET), Some((-3, Value::Null)));
        for odd in [
            good.replace("2.0", "1.0"),
            good.replace("\"jsonrpc\":\"2.0\",", ""),
            good.replace(":7,", ":7.0,"),
            good.replace(":7,", ":\"7\","),
            good.replace(":7,", ":18446744073709551615,"),
            good.replace("\"id\":7,", ""),
            good.replace("\"id\":7,", "\"id\":7,\"id\":7,"),
            good.replace("\"id\":7,", "\"id\":7,\"error\":null,"),
            good.replace("\"id\":7,", "\"id\":7,\"more\":1,"),
            good.replace("\"a\":[1,", "\"b\":2,\"b\":[1,"),
            good.replace("\"result\"", "\"Result\""),
            format!("{good}{good}"),
            format!("{good} more"),
            good[..good.len() - 1].to_owned(),
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#.to_owned(),
        ] {
            assert_eq!(answer(odd.as_bytes(), BUDGET), None, "{odd}");
        }
    }

    #[test]
    fn a_plain_answer_has_the_budget_of_every_message() {
        let line = r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1,2]}}"#.as_bytes();
        for nodes in 0..10 {
            for depth in 0..5 {
                let budget = Budget { depth, nodes, ..BUDGET };
                let whole = parse(line, budget).is_ok();
                assert_eq!(answer(line, budget).is_some(), whole, "{budget:?}");
            }
        }
    }

    #[test]
    fn stops_at_the_depth_and_node_limits_and_names_them() {
        let nest = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        assert!(parse(nest(128).as_bytes(), BUDGET).is_ok());
        assert_eq!(parse(nest(129).as_bytes(), BUDGET).unwrap_err(), Flaw::TooDeep(128));
        let deep = Budget { depth: usize::MAX, ..BUDGET };
        assert_eq!(parse(nest(100_000).as_bytes(), deep).unwrap_err(), Flaw::TooDeep(512));
        let wide = format!("[{}0]", "0,".repeat(999));
        assert_eq!(parse(wide.as_bytes(), BUDGET).unwrap_err(), Flaw::TooMany(1000));
    }

    #[test]
    fn what_is_built_is_counted_in_bytes_however_few_its_values_are() {
        let budget = Budget { bytes: 64 << 10, ..BUDGET };
        let lists = format!("[{}]", vec!["[[]]"; 300].join(","));
        assert!(parse(lists.as_bytes(), budget).is_ok());
        let objects = format!("[{}]", vec![r#"{"":{}}"#; 300].join(","));
        assert_eq!(parse(objects.as_bytes(), budget).unwrap_err(), Flaw::TooBig(64 << 10));
        assert!(parse(objects.as_bytes(), BUDGET).is_ok());
    }

    #[test]
    fn says_where_a_first_value_ends_and_which_key_came_twice() {
        let parsed = parse(br#"{"a":1,"b":2,"a":3} done"#, BUDGET).unwrap();
        assert_eq!(parsed.value, json!({"a": 3, "b": 2}));
        assert_eq!((parsed.used, parsed.repeated.as_deref()), (20, Some("a")));
    }

    #[test]
    fn tells_an_unfinished_value_from_a_wrong_one() {
        assert_eq!(parse(br#"{"a":"#, BUDGET).unwrap_err(), Flaw::Incomplete);
        assert!(matches!(parse(b"{\"a\":NaN}", BUDGET).unwrap_err(), Flaw::Syntax(_)));
        assert!(matches!(parse(b"[1e999]", BUDGET).unwrap_err(), Flaw::Syntax(_)));
    }

    use proptest::prelude::*;

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e300..1e300_f64).prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    /// How many values, and how many containers around each other.
    fn measure(value: &Value) -> (usize, usize) {
        let inside: Vec<(usize, usize)> = match value {
            Value::Array(items) => items.iter().map(measure).collect(),
            Value::Object(map) => map.values().map(measure).collect(),
            _ => return (1, 0),
        };
        let deepest = inside.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
        (1 + inside.iter().map(|(nodes, _)| nodes).sum::<usize>(), 1 + deepest)
    }

    proptest! {
        #[test]
        fn a_value_is_built_as_it_was_written_within_exactly_its_own_size(value in any_json()) {
            let text = serde_json::to_vec(&value).unwrap();
            let (nodes, depth) = measure(&value);
            let parsed = parse(&text, Budget { depth, nodes, ..BUDGET }).unwrap();
            prop_assert_eq!(&parsed.value, &serde_json::from_slice::<Value>(&text).unwrap());
            prop_assert_eq!((parsed.used, parsed.repeated), (text.len(), None));
            let few = parse(&text, Budget { depth, nodes: nodes - 1, ..BUDGET }).unwrap_err();
            prop_assert_eq!(few, Flaw::TooMany(nodes - 1));
            if depth > 0 {
                let flat = parse(&text, Budget { depth: depth - 1, nodes, ..BUDGET }).unwrap_err();
                prop_assert_eq!(flat, Flaw::TooDeep(depth - 1));
            }
        }

        #[test]
        fn spoilt_bytes_are_taken_and_refused_as_the_plain_parser_does(
            value in any_json(), at: prop::sample::Index, byte: u8, cut: bool,
        ) {
            let mut text = serde_json::to_vec(&value).unwrap();
            let at = at.index(text.len());
            if cut { text.truncate(at) } else { text[at] = byte }
            text.retain(|byte| *byte != b'\n');
            let plain = serde_json::from_slice::<Value>(&text);
            let big = Budget { depth: 512, nodes: 100_000, ..BUDGET };
            match (plain, parse(&text, big)) {
                (Ok(plain), Ok(own)) => {
                    prop_assert_eq!(own.used, text.len());
                    prop_assert!(own.repeated.is_some() || own.value == plain);
                }
                (Err(_), Ok(own)) => prop_assert!(own.used < text.len(), "{own:?}"),
                (Err(error), Err(Flaw::Incomplete)) => prop_assert!(error.is_eof()),
                (Err(_), Err(_)) => {}
                (Ok(plain), Err(flaw)) => prop_assert!(false, "{plain}: {flaw}"),
            }
        }
    }
}
