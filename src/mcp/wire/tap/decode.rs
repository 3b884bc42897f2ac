//! The two results rmcp must understand: those of the handshake. Decoded with patience, because
//! what is missing is rarely needed; what is missing is reported.

use rmcp::model::{DiscoverResult, InitializeResult, ServerResult};
use serde_json::{Map, Value, json};

/// A decoded result and what had to be filled in.
type Decoded = Result<(ServerResult, Option<String>), String>;

/// An `InitializeResult`; only `protocolVersion` cannot be done without.
pub(super) fn initialize(result: &Value) -> Decoded {
    if !result.get("protocolVersion").is_some_and(Value::is_string) {
        return Err("the answer to `initialize` names no `protocolVersion`".to_owned());
    }
    let blank = json!({"name": "", "version": ""});
    fill::<InitializeResult>(result, &[("serverInfo", blank), ("capabilities", json!({}))])
        .map(|(result, odd)| (ServerResult::InitializeResult(result), odd))
}

/// A `DiscoverResult`; what has no `supportedVersions` is none, whatever else it is.
pub(super) fn discover(result: &Value) -> Decoded {
    let versions = result.get("supportedVersions").and_then(Value::as_array);
    if !versions.is_some_and(|list| !list.is_empty() && list.iter().all(Value::is_string)) {
        return Err("the answer to `server/discover` names no `supportedVersions`".to_owned());
    }
    let blank = [
        ("resultType", json!("complete")),
        ("capabilities", json!({})),
        ("ttlMs", json!(0)),
        ("cacheScope", json!("private")),
    ];
    fill::<DiscoverResult>(result, &blank)
        .map(|(result, odd)| (ServerResult::DiscoverResult(result), odd))
}

/// Decodes `value`; when it does not fit, with the keys of `blank` filled in, then with them
/// replaced, then with nothing but them and the versions.
fn fill<T: serde::de::DeserializeOwned>(
    value: &Value,
    blank: &[(&str, Value)],
) -> Result<(T, Option<String>), String> {
    let reason = match serde_json::from_value(value.clone()) {
        Ok(result) => return Ok((result, None)),
        Err(reason) => reason.to_string(),
    };
    let Some(object) = value.as_object() else { return Err(reason) };
    let mut filled = object.clone();
    for (key, value) in blank {
        filled.entry(*key).or_insert_with(|| value.clone());
    }
    let mut replaced = object.clone();
    let mut least = Map::new();
    for key in ["protocolVersion", "supportedVersions"] {
        least.extend(object.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    for (key, value) in blank {
        replaced.insert((*key).to_owned(), value.clone());
        least.insert((*key).to_owned(), value.clone());
    }
    for candidate in [filled, replaced, least] {
        if let Ok(result) = serde_json::from_value(Value::Object(candidate)) {
            return Ok((result, Some(format!("the handshake's answer does not fit: {reason}"))));
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_lacks_nothing_but_its_version() {
        let full = json!({"protocolVersion":"2025-06-18","capabilities":{"tools":{}},
            "serverInfo":{"name":"a","version":"1"}});
        assert_eq!(initialize(&full).unwrap().1, None);
        for odd in [
            json!({"protocolVersion":"2025-06-18"}),
            json!({"protocolVersion":"2025-06-18","capabilities":7,"serverInfo":{"name":"a"}}),
            json!({"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":"x","instructions":7}),
        ] {
            let (result, reason) = initialize(&odd).unwrap();
            assert!(reason.is_some());
            let ServerResult::InitializeResult(result) = result else { panic!("typed") };
            assert_eq!(result.protocol_version.as_str(), "2025-06-18");
        }
        assert!(initialize(&json!({"capabilities":{}})).is_err());
    }

    #[test]
    fn a_bare_object_is_no_discovery() {
        assert!(discover(&json!({})).is_err());
        assert!(discover(&json!({"supportedVersions":[]})).is_err());
        assert!(discover(&json!({"supportedVersions":["2026-07-28"]})).is_ok());
    }
}
