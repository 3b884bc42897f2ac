//! Metadata documents as servers write them (RFC 9728, RFC 8414), brought into the form that their
//! readers expect: what has another type than it shall have would make the whole document none. Pure.

use serde_json::{Map, Value};

/// Members that are lists of text.
const LISTS: [&str; 9] = [
    "authorization_servers",
    "bearer_methods_supported",
    "code_challenge_methods_supported",
    "dpop_signing_alg_values_supported",
    "grant_types_supported",
    "resource_signing_alg_values_supported",
    "response_types_supported",
    "scopes_supported",
    "token_endpoint_auth_methods_supported",
];

/// The document of a response; `None` when it is no JSON object.
pub(super) fn tidied(body: &[u8]) -> Option<Map<String, Value>> {
    const MARK: &[u8] = b"\xef\xbb\xbf";
    let body = body.strip_prefix(MARK).unwrap_or(body);
    let Ok(Value::Object(mut document)) = serde_json::from_slice(body) else { return None };
    for (key, value) in &mut document {
        if LISTS.contains(&key.as_str()) {
            *value = list(value);
        } else if let Some(Value::String(only)) = only(value).cloned() {
            *value = Value::String(only);
        }
    }
    let is_nothing = |key: &str, value: &Value| {
        value.is_null() || (key.ends_with("_endpoint") && value.as_str() == Some(""))
    };
    document.retain(|key, value| !is_nothing(key, value));
    Some(document)
}

/// A list of text, of which everything else is left out; a text is its words. Null for neither.
fn list(value: &Value) -> Value {
    let is_word = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_graphic());
    let words = |text: &str| -> Value {
        text.split_whitespace().filter(|word| is_word(word)).map(Value::from).collect()
    };
    match value {
        Value::String(text) => words(text),
        Value::Array(all) => {
            let all = all.iter().filter_map(Value::as_str).filter(|word| is_word(word));
            all.map(Value::from).collect()
        }
        _ => Value::Null,
    }
}

/// The only element of a list.
fn only(value: &Value) -> Option<&Value> {
    match value.as_array()?.as_slice() {
        [only] => Some(only),
        _ => None,
    }
}

/// The member of the metadata of an authorization server that holds its own `issuer`, where it was
/// looked for by another spelling.
pub(super) const OWN_ISSUER: &str = "mcpdeck_own_issuer";

/// An address without its last slash: two issuers that differ by one are the same.
pub(super) fn bare(issuer: &str) -> &str {
    issuer.strip_suffix('/').unwrap_or(issuer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn members_of_another_type_do_not_spoil_a_document() {
        let written = json!({
            "resource": ["https://a.example/mcp"],
            "authorization_servers": "https://a.example",
            "scopes_supported": ["read\nwrite", "a\u{202e}b", "ok", "", 7, null],
            "bearer_methods_supported": {"header": true},
            "code_challenge_methods_supported": "S256 plain",
            "registration_endpoint": "",
            "revocation_endpoint": null,
            "grant_types_supported": null,
            "other": [1, 2],
        });
        let body = format!("\u{feff}{written}");
        let document = Value::from(tidied(body.as_bytes()).expect("an object"));
        let expected = json!({
            "resource": "https://a.example/mcp",
            "authorization_servers": ["https://a.example"],
            "scopes_supported": ["ok"],
            "code_challenge_methods_supported": ["S256", "plain"],
            "other": [1, 2],
        });
        assert_eq!(document, expected);
        for none in ["", "[]", "<html>", "null"] {
            assert!(tidied(none.as_bytes()).is_none(), "{none}");
        }
    }
}
