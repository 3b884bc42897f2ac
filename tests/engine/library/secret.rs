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

#[test]
fn a_number_that_is_a_secret_is_masked_and_json_stays_json() {
    use serde_json::{Value, json};
    let masking = redactor(&["8492749201", "nine-lives", "fc9876543"]);
    let value =
        json!({"a": 8_492_749_201_u64, "b": [-8_492_749_201_i64, 1.5], "c": 8_492_749_201.5});
    let masked = json!({"a": "***", "b": ["***", 1.5], "c": "***"});
    assert_eq!(masking.redact_json(&value), Some(masked.clone()));
    for (text, shown) in [
        (value.to_string(), masked.to_string()),
        (r#"{"a":18492749201e0,"b":8492749201}"#.into(), r#"{"a":"***","b":"***"}"#.into()),
        (r#"[84927492018492749201,"8492749201 \"x", 2]"#.into(), r#"["***","*** \"x", 2]"#.into()),
        // The secret begins within an escape sequence.
        (r#"{"a":"x\nine-lives","b":1}"#.into(), r#"{"a":"x***","b":1}"#.into()),
        (r#"{"a":"\u00fc9876543\\"}"#.into(), r#"{"a":"***\\"}"#.into()),
        (r#"{"8492749201":null}"#.into(), r#"{"***":null}"#.into()),
    ] {
        let masked = masking.redact_json_text(&text);
        assert_eq!(masked, shown);
        assert!(serde_json::from_str::<Value>(&masked).is_ok(), "{masked}");
    }
    let unharmed = r#"{"a": 849274920, "b": "none"}"#;
    assert!(matches!(masking.redact_json_text(unharmed), std::borrow::Cow::Borrowed(_)));
    // No JSON, and no panic.
    assert_eq!(masking.redact_json_text("[\"\\\u{e9}8492749201"), "[\"\\\u{e9}***");
}

proptest! {
    #[test]
    fn masked_json_is_json(
        secret in "[0-9a-f]{6,8}",
        parts in prop::collection::vec("[0-9a-f\\\\\"nü ]{0,6}", 6),
        number in 0..999_u32,
    ) {
        let number: f64 = format!("{number}{}", secret.replace(char::is_alphabetic, "7")).parse().unwrap();
        let text = serde_json::json!({
            format!("{}{secret}", parts[0]): [format!("{}{secret}{}", parts[1], parts[2]), number],
            parts[3].as_str(): {"n": number, "u": secret.as_str(), "x": parts[4].as_str()},
        }).to_string();
        for text in [text.replace('ü', "\\u00fc"), text] {
            let masked = redactor(&[&secret]).redact_json_text(&text).into_owned();
            prop_assert!(serde_json::from_str::<serde_json::Value>(&masked).is_ok(), "{text}: {masked}");
            prop_assert!(!masked.contains(&secret));
        }
    }

    #[test]
    fn a_cut_leaves_no_part_of_a_secret(
        around in prop::collection::vec("[a-cü]{0,9}", 4),
        at in 0..60_usize,
    ) {
        let masking = redactor(&["SECRET-ONE", "ONE-SECRET"]);
        let text = format!("{}SECRET-ONE{}SECRET-ONE-SECRET{}", around[0], around[1], around[2]);
        let end = masking.cut_before(text.as_bytes(), at);
        prop_assert!(end <= at && text.is_char_boundary(end.min(text.len())));
        let shown = masking.redact(&text[..end]).into_owned();
        prop_assert!(!shown.contains(|c: char| c.is_ascii_uppercase()), "{shown}");
    }
}

#[test]
fn the_beginning_of_a_secret_is_known_at_the_end_of_a_text() {
    let masking = redactor(&["hunter2hunter2", "geh\u{e9}imnis"]);
    for (text, begun) in [
        ("it is hunter2hun".as_bytes(), 10),
        (b"it is h".as_slice(), 1),
        ("das geh\u{e9}".as_bytes(), 5),
        (&"das geh\u{e9}".as_bytes()[..8], 4),
        (b"hunter2hunter2 done".as_slice(), 0),
        (b"".as_slice(), 0),
    ] {
        assert_eq!(masking.begun_at_end(text), begun, "{}", String::from_utf8_lossy(text));
    }
    assert_eq!(Redactor::default().begun_at_end(b"abc"), 0);
}
