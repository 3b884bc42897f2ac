//! JSON pointers (RFC 6901): building them, and changing a value at one, where a place may be unset.
//! Pure.

use serde_json::{Map, Value};

/// The pointer of a child.
pub fn child_pointer(pointer: &str, key: &str) -> String {
    format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// A pointer as displayed: `/` for the root.
pub const fn place(pointer: &str) -> &str {
    if pointer.is_empty() { "/" } else { pointer }
}

/// The key that an escaped token stands for.
pub fn unescaped(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// The parent's pointer and the last key; `None` for the root.
pub fn split(pointer: &str) -> Option<(&str, String)> {
    let (parent, token) = pointer.rsplit_once('/')?;
    Some((parent, unescaped(token)))
}

/// Whether `pointer` is `base` or lies below it.
pub fn is_within(pointer: &str, base: &str) -> bool {
    pointer.strip_prefix(base).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Sets the value at `pointer`, creating missing parent objects. Returns whether it was set: a
/// parent of another type is never overwritten, and a list cannot have gaps.
pub fn set(root: &mut Option<Value>, pointer: &str, value: Value) -> bool {
    let Some((parent, key)) = split(pointer) else {
        *root = Some(value);
        return true;
    };
    let above = root.as_ref().and_then(|root| root.pointer(parent));
    if above.is_none() && !set(root, parent, Value::Object(Map::new())) {
        return false;
    }
    match root.as_mut().and_then(|root| root.pointer_mut(parent)) {
        Some(Value::Object(map)) => {
            map.insert(key, value);
            true
        }
        Some(Value::Array(items)) => match key.parse::<usize>() {
            Ok(index) if index < items.len() => {
                items[index] = value;
                true
            }
            Ok(index) if index == items.len() => {
                items.push(value);
                true
            }
            _ => false,
        },
        _ => false,
    }
}

/// Removes the value at `pointer`; keys keep their order, later items move up.
pub fn remove(root: &mut Option<Value>, pointer: &str) -> Option<Value> {
    let Some((parent, key)) = split(pointer) else { return root.take() };
    match root.as_mut()?.pointer_mut(parent)? {
        Value::Object(map) => map.shift_remove(&key),
        Value::Array(items) => {
            let index = key.parse::<usize>().ok()?;
            (index < items.len()).then(|| items.remove(index))
        }
        _ => None,
    }
}

/// Renames a key of an object, keeping its position. Returns `false` if the name is taken.
pub fn rename(root: &mut Option<Value>, pointer: &str, name: &str) -> bool {
    let Some((parent, key)) = split(pointer) else { return false };
    let Some(Value::Object(map)) = root.as_mut().and_then(|root| root.pointer_mut(parent)) else {
        return false;
    };
    let Some(at) = map.keys().position(|known| *known == key) else { return false };
    if map.contains_key(name) {
        return name == key;
    }
    if let Some(value) = map.shift_remove(&key) {
        map.shift_insert(at, name.to_owned(), value);
    }
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn setting_makes_the_objects_above_and_never_overwrites_another_kind() {
        let mut root = None;
        assert!(set(&mut root, "/a/b~1c/d", json!(1)));
        assert_eq!(root, Some(json!({"a": {"b/c": {"d": 1}}})));
        assert!(!set(&mut root, "/a/b~1c/d/e", json!(2)));
        assert!(!set(&mut root, "/a/b~1c/d/0", json!(2)));
        assert_eq!(root, Some(json!({"a": {"b/c": {"d": 1}}})));
    }

    #[test]
    fn renaming_keeps_the_position_and_refuses_a_name_that_is_taken() {
        let mut root = Some(json!({"x": {"a": 1, "b": 2, "c": 3}}));
        assert!(rename(&mut root, "/x/b", "n/m"));
        let keys: Vec<String> = root
            .as_ref()
            .map(|r| r["x"].as_object().expect("object").keys().cloned().collect())
            .unwrap_or_default();
        assert_eq!(keys, ["a", "n/m", "c"]);
        assert!(!rename(&mut root, "/x/a", "c"));
    }

    #[test]
    fn a_pointer_lies_within_another_only_at_a_boundary() {
        assert!(is_within("/a/b", "/a") && is_within("/a", "/a") && is_within("/a", ""));
        assert!(!is_within("/ab", "/a"));
    }
}
