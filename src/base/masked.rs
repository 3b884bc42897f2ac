//! Values in which [`MASK`] stands for something that was hidden before they were kept, as in a
//! recording: where it stands, and what it may stand for.

use serde_json::Value;

use super::pointer::child_pointer;
use super::secret::MASK;

/// The places of a value in whose text or key [`MASK`] stands, as JSON pointers.
pub fn masked_places(value: &Value) -> Vec<String> {
    let mut places = Vec::new();
    find("", value, &mut places);
    places
}

fn find(pointer: &str, value: &Value, places: &mut Vec<String>) {
    match value {
        Value::String(text) if text.contains(MASK) => places.push(pointer.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                find(&child_pointer(pointer, &index.to_string()), item, places);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let place = child_pointer(pointer, key);
                if key.contains(MASK) {
                    places.push(place);
                } else {
                    find(&place, member, places);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a value may be what was kept with masks: [`MASK`] alone stands for any value, within a text
/// for any part of it. JSON in a text is compared as JSON, for it may be written otherwise.
pub fn may_be(kept: &Value, value: &Value) -> bool {
    match (kept, value) {
        (Value::String(kept), _) if kept == MASK => true,
        (Value::String(kept), Value::String(text)) => kept == text || text_may_be(kept, text),
        (Value::Array(kept), Value::Array(items)) => {
            kept.len() == items.len()
                && kept.iter().zip(items).all(|(kept, item)| may_be(kept, item))
        }
        (Value::Object(kept), Value::Object(members)) => {
            let is_there = |(key, kept): (&String, &Value)| {
                if let Some(member) = members.get(key) {
                    return may_be(kept, member);
                }
                let mut others = members.iter();
                others.any(|(other, member)| text_may_be(key, other) && may_be(kept, member))
            };
            kept.len() == members.len() && kept.iter().all(is_there)
        }
        _ => kept == value,
    }
}

fn text_may_be(kept: &str, text: &str) -> bool {
    let Some((first, rest)) = kept.split_once(MASK) else { return false };
    let fits = || {
        let (between, last) = rest.rsplit_once(MASK).unwrap_or(("", rest));
        let mut text = text.strip_prefix(first)?.strip_suffix(last)?;
        for part in between.split(MASK) {
            text = text.split_once(part)?.1;
        }
        Some(())
    };
    let json = |text: &str| serde_json::from_str::<Value>(text).ok().filter(|it| !it.is_string());
    fits().is_some()
        || json(kept).is_some_and(|kept| json(text).is_some_and(|value| may_be(&kept, &value)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mask_stands_for_anything_in_its_place_and_nothing_else_does() {
        let kept = json!({
            "token": "***", "text": "by *** to /srv", "list": ["***", "a *** b *** c"],
            "inner": "{\"key\":\"***\",\"n\":1}", "plain": 1,
        });
        let places = ["/token", "/text", "/list/0", "/list/1", "/inner"];
        assert_eq!(masked_places(&kept), places);
        let now = json!({
            "token": {"any": [1]}, "text": "by ada to /srv", "list": [null, "a 1 b 2 c"],
            "inner": "{ \"n\": 1, \"key\": 7 }", "plain": 1,
        });
        assert!(may_be(&kept, &now));
        for (pointer, other) in [
            ("/text", json!("of ada to /srv")),
            ("/text", json!("by ada to /srv2")),
            ("/text", json!(1)),
            ("/list", json!([null])),
            ("/list/1", json!("a b c")),
            ("/inner", json!("{\"key\":\"x\",\"n\":2}")),
            ("/plain", json!(2)),
        ] {
            let mut changed = now.clone();
            *changed.pointer_mut(pointer).expect("there") = other;
            assert!(!may_be(&kept, &changed), "{pointer}: {changed}");
        }
        // A part before and a part after the mask do not share characters.
        assert!(!may_be(&json!("ab***ba"), &json!("aba")));
        assert!(may_be(&json!({"k ***": 1}), &json!({"k 2": 1})));
        assert!(!may_be(&json!({"k ***": 1}), &json!({"k 2": 2})));
        assert!(masked_places(&json!({"a": ["b", 1, null, true]})).is_empty());
    }
}
