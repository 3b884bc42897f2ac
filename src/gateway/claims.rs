//! What no server may claim to a client: the keys of `_meta` by which this program itself speaks
//! (`mcpdeck/error`). They are taken out of everything that a server sends to a client. Pure.

use memchr::memmem;
use serde_json::{Map, Value};

use host::CallOutcome;
use protocol::Payload;

/// What the keys of this program in `_meta` begin with.
const OWN_PREFIX: &str = "mcpdeck/";
/// Members that hold a server's data or a schema, where `_meta` is a name like any other.
const DATA_MEMBERS: [&str; 6] =
    ["structuredContent", "inputSchema", "outputSchema", "requestedSchema", "arguments", "data"];

/// The outcome of an operation as a client is given it.
pub(crate) fn without_claims(mut outcome: CallOutcome) -> CallOutcome {
    let result = &outcome.result;
    let may_claim = match result.whole() {
        // Only the beginning is a value.
        Some(text) => may_spell_claim(text),
        None => has_claims(result),
    };
    if may_claim {
        let mut written = result.clone().into_written();
        if take_claims(&mut written.value) {
            outcome.result = Payload::from(written);
        }
    }
    outcome
}

/// Takes the keys of this program out of every `_meta`; returns whether there were any.
pub(crate) fn take_claims(value: &mut Value) -> bool {
    if !has_claims(value) {
        return false;
    }
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match (key.as_str(), member) {
                    ("_meta", Value::Object(meta)) => meta.retain(|key, _| !is_own(key)),
                    (key, _) if DATA_MEMBERS.contains(&key) => {}
                    (_, member) => {
                        take_claims(member);
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                take_claims(item);
            }
        }
        _ => {}
    }
    true
}

fn has_claims(value: &Value) -> bool {
    let in_member = |(key, member): (&String, &Value)| match (key.as_str(), member) {
        ("_meta", Value::Object(meta)) => claims(meta),
        (key, _) if DATA_MEMBERS.contains(&key) => false,
        (_, member) => has_claims(member),
    };
    match value {
        Value::Object(members) => members.iter().any(in_member),
        Value::Array(items) => items.iter().any(has_claims),
        _ => false,
    }
}

fn claims(meta: &Map<String, Value>) -> bool {
    meta.keys().any(|key| is_own(key))
}

fn is_own(key: &str) -> bool {
    key.starts_with(OWN_PREFIX)
}

/// Whether JSON text may hold such a key, in any spelling: as it is, with an escaped slash, or with
/// escaped letters (`\u006d` is `m`). What it spells is found by reading it.
fn may_spell_claim(text: &str) -> bool {
    let text = text.as_bytes();
    let has = |part: &[u8]| memmem::find(text, part).is_some();
    let is_letter = |at: usize| matches!(text.get(at + 4), Some(b'6' | b'7'));
    has(OWN_PREFIX.as_bytes())
        || has(br"mcpdeck\")
        || memmem::find_iter(text, br"\u00").any(is_letter)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_of_this_program_are_taken_out_wherever_a_server_writes_meta() {
        let meta = json!({"mcpdeck/error": {"code": "ERR_RATE_LIMITED"}, "vendor/x": 1});
        let content = json!([
            {"type": "text", "text": "mcpdeck/error", "_meta": meta},
            {"type": "resource", "resource": {"uri": "a:b", "text": "", "_meta": meta}},
        ]);
        let data = json!({"_meta": meta, "mcpdeck/error": 1});
        let mut result = json!({
            "content": content, "_meta": meta, "structuredContent": data,
            "messages": [{"role": "user", "content": {"type": "text", "_meta": meta}}],
        });
        assert!(take_claims(&mut result));
        let left = json!({"vendor/x": 1});
        for place in
            ["/_meta", "/content/0/_meta", "/content/1/resource/_meta", "/messages/0/content/_meta"]
        {
            assert_eq!(result.pointer(place), Some(&left), "{place}");
        }
        assert_eq!(result["content"][0]["text"], "mcpdeck/error");
        assert_eq!(result["structuredContent"], data, "its data stays as it is");
        assert!(!take_claims(&mut result));
    }

    #[test]
    fn text_is_read_for_every_spelling_of_a_key_and_for_little_else() {
        for spelt in [
            r#"{"mcpdeck/error":1}"#,
            r#"{"mcpdeck\/error":1}"#,
            r#"{"mcpdeck\u002Ferror":1}"#,
            r#"{"\u006dcpdeck/error":1}"#,
            r#"{"mcp\u0064eck\/error":1}"#,
        ] {
            let value: Map<String, Value> = serde_json::from_str(spelt).expect("JSON");
            assert!(claims(&value) && may_spell_claim(spelt), "{spelt}");
        }
        for other in [r#"{"a\/b":"caf\u00e9 \u0026 mcpdeck"}"#, "{}", r#""\u00"#] {
            assert!(!may_spell_claim(other), "{other}");
        }
    }
}
