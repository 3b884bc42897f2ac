//! Values of secrets never come out, whatever they are wrapped in; ordinary text stays readable.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use mcpdeck::base::secret::{MASK, Redactor, Secret};
use proptest::prelude::*;

const CANARY: &str = "canary/s3cr\u{e9}t+\"quoted\\ value";

fn redactor(values: &[&str]) -> Redactor {
    Redactor::new(values.iter().map(|value| Secret::new(*value)))
}

#[test]
fn a_value_is_masked_in_every_spelling() {
    let json = serde_json::to_string(CANARY).unwrap();
    let url: String = url::form_urlencoded::byte_serialize(CANARY.as_bytes()).collect();
    let mut query = url::Url::parse("http://h/").unwrap();
    query.query_pairs_mut().append_pair("key", CANARY);
    for text in [
        CANARY.to_owned(),
        serde_json::to_string(&json).unwrap(),
        json.replace('/', "\\/"),
        json.replace('\u{e9}', "\\u00e9"),
        json,
        url.to_lowercase(),
        url,
        query.to_string(),
        STANDARD.encode(CANARY),
        STANDARD.encode(format!("user:{CANARY}")),
        STANDARD.encode(format!("me:{CANARY}:x")),
        URL_SAFE_NO_PAD.encode(format!("a{CANARY}")),
    ] {
        let masked = redactor(&[CANARY]).redact(&text).into_owned();
        assert!(masked.contains(MASK), "{text}");
        assert!(masked.len() < MASK.len() + 24, "little is left of {text}: {masked}");
        for part in ["canary", "s3cr", "quoted"] {
            assert!(!masked.contains(part), "{text}: {masked}");
        }
    }
}

#[test]
fn the_secret_inside_a_header_or_a_url_is_masked_alone_too() {
    let basic = format!("Basic {}", STANDARD.encode("user:hunter2-long"));
    let masking = redactor(&["Bearer tok-123456", &basic, "postgres://me:p%40ssw0rd@db/x"]);
    for text in ["token tok-123456 expired", "password hunter2-long", "p@ssw0rd", "p%40ssw0rd"] {
        let masked = masking.redact(text);
        assert!(masked.contains(MASK), "{text}");
        assert!(
            !masked.contains("123456") && !masked.contains("ssw0rd") && !masked.contains("hunter2")
        );
    }
    assert_eq!(masking.redact("Authorization: Bearer tok-123456"), "Authorization: ***");
}

#[test]
fn each_line_of_a_key_is_masked() {
    let key =
        "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nBAQEFAASCBKcwggSjAgEAA\n-----END KEY-----";
    let masking = redactor(&[key]);
    assert_eq!(masking.redact("> BAQEFAASCBKcwggSjAgEAA"), "> ***");
    assert_eq!(masking.redact("-----BEGIN KEY-----"), "-----BEGIN KEY-----");
    let masking =
        redactor(&["-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0\nQw9=\n-----END KEY-----"]);
    assert_eq!(masking.redact("> Qw9="), "> ***", "also a short last line");
}

#[test]
fn short_values_and_ordinary_text_are_left_alone() {
    let masking = redactor(&["1", "true", "debug", "", "   "]);
    assert!(masking.is_empty());
    assert_eq!(masking.redact("1 true debug"), "1 true debug");
    let masking = redactor(&["sixsix"]);
    assert!(matches!(masking.redact("nothing here"), std::borrow::Cow::Borrowed(_)));
}

#[test]
fn overlapping_values_leave_no_rest() {
    let masking = redactor(&["abcdef", "defghi", "cde-longer-one", "ghi123"]);
    assert_eq!(masking.redact("<abcdefghi123>"), "<***>");
    assert_eq!(masking.redact("abcdef abcdef"), "*** ***");
}

#[test]
fn a_secret_prints_as_a_mask_in_every_way() {
    let secret = Secret::new("hunter2");
    let json = serde_json::to_string(&secret).unwrap();
    assert_eq!(format!("{secret} {secret:?} {json}"), "*** *** \"***\"");
    assert!(!format!("{:?}", redactor(&["hunter2"])).contains("hunter2"));
}

proptest! {
    #[test]
    fn what_is_known_never_comes_out(
        values in prop::collection::vec("[a-zé\\\\\"/ %+]{6,20}", 1..6),
        around in prop::collection::vec("[a-c ]{0,4}", 7),
    ) {
        let masking = redactor(&values.iter().map(String::as_str).collect::<Vec<_>>());
        let mut text = String::new();
        for (value, rest) in values.iter().zip(&around) {
            text.push_str(rest);
            text.push_str(value);
        }
        let masked = masking.redact(&text).into_owned();
        for value in &values {
            let value = value.trim();
            prop_assert!(value.len() < Redactor::MIN_SECRET_BYTES || !masked.contains(value), "{masked}");
        }
    }
}

#[test]
fn json_is_masked_in_texts_and_keys_and_left_alone_otherwise() {
    use serde_json::json;
    let masking = redactor(&["hunter2-long"]);
    let value = json!({"a": ["x", {"hunter2-long": 1}], "b": "key hunter2-long!", "c": null});
    let masked = json!({"a": ["x", {"***": 1}], "b": "key ***!", "c": null});
    assert_eq!(masking.redact_json(&value), Some(masked));
    assert_eq!(masking.redact_json(&json!({"a": [1, true, "hunter2"]})), None);
}
