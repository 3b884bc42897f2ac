//! Where two JSON values differ, by JSON pointer (RFC 6901). Pure.

use std::fmt::Write as _;

use serde_json::Value;

/// One place where they differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// JSON pointer of the place; empty for the whole.
    pub pointer: String,
    /// What the recording has there.
    pub recorded: Option<Value>,
    /// What the other has there.
    pub other: Option<Value>,
}

/// The places where two results differ; `_meta`, which changes from run to run, is left out.
pub fn differences(recorded: &Value, other: &Value) -> Vec<Difference> {
    let mut out = Vec::new();
    walk(&mut String::new(), Some(recorded), Some(other), &mut out);
    out
}

fn walk(
    pointer: &mut String,
    recorded: Option<&Value>,
    other: Option<&Value>,
    out: &mut Vec<Difference>,
) {
    let length = pointer.len();
    match (recorded, other) {
        (Some(a), Some(b)) if a == b => {}
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let more = b.keys().filter(|key| !a.contains_key(*key));
            for key in a.keys().chain(more).filter(|key| *key != "_meta") {
                pointer.push('/');
                pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                walk(pointer, a.get(key), b.get(key), out);
                pointer.truncate(length);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for at in 0..a.len().max(b.len()) {
                let _ = write!(pointer, "/{at}");
                walk(pointer, a.get(at), b.get(at), out);
                pointer.truncate(length);
            }
        }
        _ => out.push(Difference {
            pointer: pointer.clone(),
            recorded: recorded.cloned(),
            other: other.cloned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_is_named_and_meta_is_left_out() {
        let a = json!({"a/b": [1, {"c": 2}], "_meta": {"t": 1}, "gone": true});
        let b = json!({"a/b": [1, {"c": 3}, 4], "_meta": {"t": 2}});
        let found = differences(&a, &b);
        let places: Vec<&str> = found.iter().map(|found| found.pointer.as_str()).collect();
        assert_eq!(places, ["/a~1b/1/c", "/a~1b/2", "/gone"]);
        assert!(differences(&a, &a).is_empty());
    }
}
