//! Tests that values stay within their budget and equal those of the plain parser.

use super::*;
use serde_json::json;

const BUDGET: ParseBudget = ParseBudget { depth: 128, nodes: 1000, bytes: usize::MAX };

#[test]
fn builds_the_same_value_as_the_plain_parser() {
    let text = r#"{"a":[1,-2,3.5,true,null,"x\n\u00e9"],"b":{"c":{}}}"#;
    let parsed = parse(text.as_bytes(), BUDGET).unwrap();
    assert_eq!(parsed.value, serde_json::from_str::<Value>(text).unwrap());
    assert_eq!((parsed.used, parsed.repeated), (text.len(), None));
}

#[test]
fn a_plain_answer_is_read_as_the_message_it_is_and_nothing_else_is_one() {
    let good = r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1,{"b":"x\u0041"}]}}"#;
    let whole = parse(good.as_bytes(), BUDGET).unwrap().value;
    assert_eq!(answer(good.as_bytes(), BUDGET), Some((7, whole["result"].clone(), false)));
    let turned = r#" { "result" : null , "id" : -3 , "jsonrpc" : "2.0" } "#;
    assert_eq!(answer(turned.as_bytes(), BUDGET), Some((-3, Value::Null, false)));
    for (number, has_doubles) in [("1", false), ("-0.0", true), ("18446744073709551616", true)] {
        let line = good.replace("[1,", &format!("[{number},"));
        let found = answer(line.as_bytes(), BUDGET).unwrap();
        assert_eq!(found.2, has_doubles, "{number}");
        assert_eq!(parse(line.as_bytes(), BUDGET).unwrap().has_doubles, has_doubles);
    }
    for odd in [
        good.replace("2.0", "1.0"),
        good.replace("\"jsonrpc\":\"2.0\",", ""),
        good.replace(":7,", ":7.0,"),
        good.replace(":7,", ":\"7\","),
        good.replace(":7,", ":18446744073709551615,"),
        good.replace("\"id\":7,", ""),
        good.replace("\"id\":7,", "\"id\":7,\"id\":7,"),
        good.replace("\"id\":7,", "\"id\":7,\"error\":null,"),
        good.replace("\"id\":7,", "\"id\":7,\"more\":1,"),
        good.replace("\"a\":[1,", "\"b\":2,\"b\":[1,"),
        good.replace("\"result\"", "\"Result\""),
        format!("{good}{good}"),
        format!("{good} more"),
        good[..good.len() - 1].to_owned(),
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#.to_owned(),
    ] {
        assert_eq!(answer(odd.as_bytes(), BUDGET), None, "{odd}");
    }
}

#[test]
fn a_plain_answer_has_the_budget_of_every_message() {
    let line = r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1,2]}}"#.as_bytes();
    for nodes in 0..10 {
        for depth in 0..5 {
            let budget = ParseBudget { depth, nodes, ..BUDGET };
            let whole = parse(line, budget).is_ok();
            assert_eq!(answer(line, budget).is_some(), whole, "{budget:?}");
        }
    }
}

#[test]
fn stops_at_the_depth_and_node_limits_and_names_them() {
    let nest = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(parse(nest(128).as_bytes(), BUDGET).is_ok());
    assert_eq!(parse(nest(129).as_bytes(), BUDGET).unwrap_err(), Flaw::TooDeep(128));
    let deep = ParseBudget { depth: usize::MAX, ..BUDGET };
    assert_eq!(parse(nest(100_000).as_bytes(), deep).unwrap_err(), Flaw::TooDeep(512));
    let wide = format!("[{}0]", "0,".repeat(999));
    assert_eq!(parse(wide.as_bytes(), BUDGET).unwrap_err(), Flaw::TooMany(1000));
}

#[test]
fn what_is_built_is_counted_in_bytes_however_few_its_values_are() {
    let budget = ParseBudget { bytes: 64 << 10, ..BUDGET };
    let lists = format!("[{}]", vec!["[[]]"; 300].join(","));
    assert!(parse(lists.as_bytes(), budget).is_ok());
    let objects = format!("[{}]", vec![r#"{"":{}}"#; 300].join(","));
    assert_eq!(parse(objects.as_bytes(), budget).unwrap_err(), Flaw::TooBig(64 << 10));
    assert!(parse(objects.as_bytes(), BUDGET).is_ok());
}

#[test]
fn says_where_a_first_value_ends_and_which_key_came_twice() {
    let parsed = parse(br#"{"a":1,"b":2,"a":3} done"#, BUDGET).unwrap();
    assert_eq!(parsed.value, json!({"a": 3, "b": 2}));
    assert_eq!((parsed.used, parsed.repeated.as_deref()), (20, Some("a")));
}

#[test]
fn reports_an_unfinished_value_from_a_wrong_one() {
    assert_eq!(parse(br#"{"a":"#, BUDGET).unwrap_err(), Flaw::Incomplete);
    assert!(matches!(parse(b"{\"a\":NaN}", BUDGET).unwrap_err(), Flaw::Syntax(_)));
    assert!(matches!(parse(b"[1e999]", BUDGET).unwrap_err(), Flaw::Syntax(_)));
}

use proptest::prelude::*;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e300..1e300_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// The number of values, and the nesting depth of containers.
fn measure(value: &Value) -> (usize, usize) {
    let inside: Vec<(usize, usize)> = match value {
        Value::Array(items) => items.iter().map(measure).collect(),
        Value::Object(map) => map.values().map(measure).collect(),
        _ => return (1, 0),
    };
    let deepest = inside.iter().map(|(_, depth)| *depth).max().unwrap_or(0);
    (1 + inside.iter().map(|(nodes, _)| nodes).sum::<usize>(), 1 + deepest)
}

#[test]
fn lists_have_no_room_that_nobody_uses() {
    fn spare(value: &Value) -> usize {
        match value {
            Value::Array(list) => {
                list.capacity() - list.len() + list.iter().map(spare).sum::<usize>()
            }
            _ => 0,
        }
    }
    for (depth, count) in [(1, 5), (7, 3), (12, 9)] {
        let one = format!("{}true{}", "[".repeat(depth), "]".repeat(depth));
        let text = format!("[{}]", vec![one; count].join(","));
        let parsed =
            parse(text.as_bytes(), ParseBudget { depth: 20, nodes: 1_000, ..BUDGET }).unwrap();
        assert_eq!(spare(&parsed.value), 0, "{depth} levels, {count} times");
    }
}

proptest! {
    #[test]
    fn a_value_is_built_as_it_was_written_within_exactly_its_own_size(value in any_json()) {
        let text = serde_json::to_vec(&value).unwrap();
        let (nodes, depth) = measure(&value);
        let parsed = parse(&text, ParseBudget { depth, nodes, ..BUDGET }).unwrap();
        prop_assert_eq!(&parsed.value, &serde_json::from_slice::<Value>(&text).unwrap());
        prop_assert_eq!((parsed.used, parsed.repeated), (text.len(), None));
        let few = parse(&text, ParseBudget { depth, nodes: nodes - 1, ..BUDGET }).unwrap_err();
        prop_assert_eq!(few, Flaw::TooMany(nodes - 1));
        if depth > 0 {
            let flat = parse(&text, ParseBudget { depth: depth - 1, nodes, ..BUDGET }).unwrap_err();
            prop_assert_eq!(flat, Flaw::TooDeep(depth - 1));
        }
    }

    #[test]
    fn spoilt_bytes_are_taken_and_refused_as_the_plain_parser_does(
        value in any_json(), at: prop::sample::Index, byte: u8, cut: bool,
    ) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] = byte }
        text.retain(|byte| *byte != b'\n');
        let plain = serde_json::from_slice::<Value>(&text);
        let big = ParseBudget { depth: 512, nodes: 100_000, ..BUDGET };
        match (plain, parse(&text, big)) {
            (Ok(plain), Ok(own)) => {
                prop_assert_eq!(own.used, text.len());
                prop_assert!(own.repeated.is_some() || own.value == plain);
            }
            (Err(_), Ok(own)) => prop_assert!(own.used < text.len(), "{own:?}"),
            (Err(error), Err(Flaw::Incomplete)) => prop_assert!(error.is_eof()),
            (Err(_), Err(_)) => {}
            (Ok(plain), Err(flaw)) => prop_assert!(false, "{plain}: {flaw}"),
        }
    }
}

#[test]
fn words_of_other_languages_are_named() {
    for (text, word) in [
        ("{\"a\": NaN}", "`NaN`"),
        ("{\"a\": [1, -Infinity]}", "`Infinity`"),
        ("{\"a\": None, \"b\": 1}", "`None`"),
        ("{\n\"a\":\nTrue}", "`True`"),
    ] {
        let flaw = parse(text.as_bytes(), BUDGET).unwrap_err();
        assert!(flaw.to_string().contains(&format!("{word} is no value of JSON")), "{flaw}");
    }
    let plain = parse(b"{\"a\": nope}", BUDGET).unwrap_err();
    assert!(!plain.to_string().contains("no value"), "{plain}");
}
