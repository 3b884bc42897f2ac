//! Large answers of many small values, told before a tree of them is built.
//!
//! What is kept as text costs its bytes, so it may hold more values than a tree of a message may, and
//! such as would take more memory: `limits.lineBytes` bounds it, `limits.nodes` does not.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::json::Budget;
use crate::mcp::Payload;
use crate::mcp::payload::{Bounds, Document};

/// Lines shorter than this are parsed, whatever is in them.
const LONG: usize = 256 << 10;
/// Bytes that a value costs in a tree, keys and room for growth included, at the least.
const NODE: usize = 100;

/// An answer and nothing else; anything odd about it goes the way on which odd things are told.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    jsonrpc: String,
    id: Value,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The message of a line with `null` for its result, and the result as text, when the line is a
/// plain answer whose tree would be larger than its text, or than a tree may be.
pub(super) fn answer(line: &[u8], budget: Budget) -> Option<(Value, Payload)> {
    if line.len() < LONG {
        return None;
    }
    // Every value has a comma in front of it, or the bracket of what it is in.
    let values = memchr::memchr3_iter(b',', b'[', b'{', line).count();
    if line.len() / NODE > values && values < budget.nodes {
        return None;
    }
    let Envelope { jsonrpc, id, result } = serde_json::from_slice(line).ok()?;
    if jsonrpc != "2.0" || !result.get().starts_with('{') {
        return None;
    }
    // The message around it is a level and three values.
    let depth = budget.depth.min(Budget::MAX_DEPTH) - 1;
    let bounds = Bounds { depth, nodes: usize::MAX };
    let size = result.get().len();
    let document = Document::new_if(result.get(), bounds, |nodes, tree| {
        nodes.saturating_mul(NODE) > size
            || nodes.saturating_add(3) > budget.nodes
            || tree > budget.bytes
    })?;
    Some((json!({"jsonrpc": "2.0", "id": id, "result": null}), Payload::text(document)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { depth: 64, nodes: 1_000_000, bytes: usize::MAX };

    fn line(result: &str) -> Vec<u8> {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{result}}}").into_bytes()
    }

    fn many() -> String {
        let items: Vec<Value> = (0..40_000).map(|i| json!({"id": i})).collect();
        json!({"structuredContent": {"items": items}}).to_string()
    }

    #[test]
    fn many_small_values_stay_text_and_long_texts_do_not() {
        let (envelope, payload) = answer(&line(&many()), BUDGET).expect("bulky");
        assert_eq!(envelope, json!({"jsonrpc": "2.0", "id": 7, "result": null}));
        assert!(payload.is_text());
        assert_eq!(payload.to_string(), many());
        let prose = json!({"content": [{"type": "text", "text": "a, b".repeat(100_000)}]});
        assert!(answer(&line(&prose.to_string()), BUDGET).is_none());
        assert!(answer(&line("{\"content\":[]}"), BUDGET).is_none());
    }

    #[test]
    fn anything_odd_is_left_to_the_way_on_which_it_is_told() {
        let good = String::from_utf8(line(&many())).expect("text");
        for odd in [
            good.replace("\"2.0\"", "\"1.0\""),
            good.replace("\"id\":7,\"result", "\"id\":7,\"method\":\"a\",\"result"),
            good.replace("\"id\":7", "\"id\":7,\"id\":8"),
            good.replacen("{\"id\":0}", "{\"id\":0,\"id\":1}", 1),
            format!("{good} more"),
            good.replacen("{\"id\":0}", "{\"id\":}", 1),
            good.replace("\"result\":{", "\"result\":[{").replacen("]}}}", "]}}]}", 1),
        ] {
            assert!(answer(odd.as_bytes(), BUDGET).is_none(), "{}", &odd[..80]);
        }
        let exact = Budget { depth: 5, ..BUDGET };
        assert!(answer(good.as_bytes(), exact).is_some());
        assert!(answer(good.as_bytes(), Budget { depth: 4, ..exact }).is_none());
    }

    #[test]
    fn what_is_kept_as_text_may_hold_more_values_than_a_tree() {
        let good = line(&many());
        // Two values of each element, the list, two objects, and what is around.
        let exact = Budget { nodes: 80_000 + 3 + 3, depth: 5, bytes: usize::MAX };
        let few = Budget { nodes: exact.nodes - 1, ..exact };
        for budget in [exact, few, Budget { nodes: 10, ..exact }] {
            assert!(answer(&good, budget).is_some_and(|(_, result)| result.is_text()));
            let plain = super::super::json::parse(&good, budget);
            assert_eq!(plain.is_ok(), budget == exact);
        }
        // Values that are long enough for a tree are one, as long as it may be built.
        let items: Vec<Value> =
            (0..9_000).map(|i| json!({"id": i, "t": "x".repeat(300)})).collect();
        let long = line(&json!({"structuredContent": {"items": items}}).to_string());
        assert!(answer(&long, Budget { nodes: 30_000, ..exact }).is_none());
        assert!(answer(&long, Budget { nodes: 20_000, ..exact }).is_some());
    }
}
