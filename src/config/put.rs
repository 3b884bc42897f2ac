//! A value put into a JSON file that people write too: their comments, order and line ends stay.
//! Pure, text to text.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use serde_json::Value;

/// `text` with `value` under `key` of the object `of` at the top; one of the same name is replaced.
/// `None` when that cannot be done without harm.
pub fn member(text: &str, of: &str, key: &str, value: &Value) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let object = root.object_value_or_create()?.object_value_or_create(of)?;
    match object.get(key) {
        Some(member) => member.set_value(input(value)),
        None => drop(object.append(key, input(value))),
    }
    sound(root.to_string(), |all| all.get(of).and_then(|all| all.get(key)) == Some(value))
}

/// `text` with `value` in the list `of` at the top: in place of the element with number `at`, or
/// behind the last. `None` when that cannot be done without harm.
pub fn element(text: &str, of: &str, at: Option<usize>, value: &Value) -> Option<String> {
    let root = CstRootNode::parse(text, &ParseOptions::default()).ok()?;
    let list = root.object_value_or_create()?.array_value_or_create(of)?;
    match at {
        Some(at) => drop(list.elements().get(at)?.as_object()?.replace_with(input(value))),
        None => drop(list.append(input(value))),
    }
    sound(root.to_string(), |all| {
        let list = all.get(of).and_then(Value::as_array);
        list.and_then(|list| at.map_or(list.last(), |at| list.get(at))) == Some(value)
    })
}

/// The text, when it can be read again and holds what was put into it.
fn sound(text: String, holds: impl FnOnce(&Value) -> bool) -> Option<String> {
    let read = CstRootNode::parse(&text, &ParseOptions::default()).ok()?.to_serde_value()?;
    holds(&read).then_some(text)
}

fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, of)| (key.clone(), input(of))).collect())
        }
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
        let more = member(text, "calls", "b \"q\"", &odd).expect("put");
        for kept in ["// ours\r\n", "\"$schema\": \"x\"", "\"a\": 1, // one\r\n"] {
            assert!(more.contains(kept), "{more}");
        }
        let again = member(&more, "calls", "a", &json!(2)).expect("put");
        assert!(again.contains("\"a\": 2, // one\r\n"), "{again}");
        let list = "{\"answers\": [{\"n\": 1}, /* two */ {\"n\": 2}]}";
        let other = element(list, "answers", Some(1), &json!({"n": 3})).expect("put");
        assert!(
            other.contains("{\"n\": 1}, /* two */ {") && !other.contains("\"n\": 2"),
            "{other}"
        );
        assert!(element(list, "answers", None, &json!({"n": 4})).is_some());
        assert!(member("{\"calls\": []}", "calls", "a", &odd).is_none(), "it is no object");
        assert!(member("", "calls", "a", &odd).is_some());
    }
}
