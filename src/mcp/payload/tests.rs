//! A text that is read in place gives what a tree gives.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Bounds, Document, Node, Payload};
use crate::base::secret::{Redactor, Secret};

const WIDE: Bounds = Bounds { depth: 512, nodes: 10_000_000 };

fn document(text: &str) -> Document {
    Document::new(text, WIDE).expect("nothing odd")
}

/// Everything a node tells, against the tree of the same value.
fn agrees(node: Node<'_>, value: &Value) {
    let tree = Node::from(value);
    assert_eq!((node.kind(), node.len()), (tree.kind(), tree.len()));
    assert_eq!(node.as_str().as_deref(), value.as_str());
    assert_eq!(node.is_true(), tree.is_true());
    assert_eq!(node.to_value(), *value);
    let members: Vec<_> = node.members(0).collect();
    assert_eq!(members.len(), tree.len());
    for (index, ((key, node), (name, child))) in
        members.into_iter().zip(tree.members(0)).enumerate()
    {
        assert_eq!(key, name);
        let Node::Tree(child) = child else { panic!("a tree") };
        if index < 3 || index % 61 < 3 {
            agrees(node, child);
        }
    }
    for from in [0, 1, 63, 64, 65, 128, 200, tree.len()] {
        let ours: Vec<_> = node.members(from).take(3).map(|(_, node)| node.to_value()).collect();
        let theirs: Vec<_> = tree.members(from).take(3).map(|(_, node)| node.to_value()).collect();
        assert_eq!(ours, theirs, "from {from}");
    }
}

fn long() -> Value {
    let items: Vec<Value> = (0..1_000)
        .map(|i| json!({"id": i, "näme": format!("x\n{i}"), "ok": i % 2 == 0, "none": null}))
        .collect();
    let map: serde_json::Map<String, Value> =
        (0..300).map(|i| (format!("k\"{i}"), json!([i, -1.5e3, []]))).collect();
    json!({"structuredContent": {"items": items, "map": map}, "content": [{"type": "text", "text": "y".repeat(9_000)}]})
}

#[test]
fn a_long_text_with_its_index_gives_what_its_tree_gives() {
    let value = long();
    for text in [value.to_string(), format!(" {value:#}\n")] {
        let document = document(&text);
        agrees(document.root(), &value);
        let root = document.root();
        for place in [
            "",
            "/structuredContent/items/999/id",
            "/structuredContent/items/64/näme",
            "/structuredContent/map/k\"299/1",
            "/content/0/text",
            "/content/1",
            "/content/-",
            "/structuredContent/items/007",
            "/nothing",
            "no pointer",
        ] {
            let found = root.pointer(place).map(Node::to_value);
            assert_eq!(found.as_ref(), value.pointer(place), "{place}");
        }
        assert_eq!(serde_json::to_string(&root).expect("writes"), value.to_string());
    }
}

#[test]
fn an_answer_is_the_same_value_however_it_is_kept() {
    let tree = Payload::from(long());
    let text = Payload::text(document(&long().to_string()));
    assert!(text.is_text() && !tree.is_text());
    assert_eq!(tree, text);
    assert_eq!(text["content"], tree["content"]);
    assert_eq!(text.clone().into_value(), tree.clone().into_value());
    assert_eq!(text.to_string(), tree.to_string());
    assert_ne!(text, Payload::from(json!(1)));
    assert!(format!("{text:?}").len() < 100, "{text:?}");
}

#[test]
fn what_is_odd_is_left_to_the_parser() {
    let nodes = |nodes| Bounds { nodes, ..WIDE };
    assert_eq!(Document::new("[1,2,3]", nodes(3)), None);
    assert!(Document::new("[1,2,3]", nodes(4)).is_some());
    let depth = |depth| Bounds { depth, ..WIDE };
    assert_eq!(Document::new("[[[]]]", depth(2)), None);
    assert!(Document::new("[[[]]]", depth(3)).is_some());
    for odd in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"["\ud800"]"#,
        r#"["\ud800x\udc00"]"#,
        r#"["\udc00\ud800"]"#,
        "[1e999]",
        "[1] 2",
        "",
    ] {
        assert_eq!(Document::new(odd, WIDE), None, "{odd}");
    }
    let mut many: Vec<String> = (0..40).map(|i| format!("\"k{i}\":0")).collect();
    assert!(Document::new(&format!("{{{}}}", many.join(",")), WIDE).is_some());
    many.push("\"k3\":1".to_owned());
    assert_eq!(Document::new(&format!("{{{}}}", many.join(",")), WIDE), None);
    let pair = document(r#"["\ud83d\ude00"]"#);
    assert_eq!(pair.root().to_value(), json!(["😀"]));
}

#[test]
fn a_sample_says_what_is_missing() {
    let text = json!({"items": [[1, 2], [3, 4], [5, 6]], "last": 1}).to_string();
    let document = document(&text);
    let (whole, cut) = document.root().sample(100);
    assert_eq!((whole.to_string(), cut), (text, None));
    let (part, cut) = document.root().sample(6);
    assert_eq!(part, json!({"items": [[1, 2], []]}));
    let cut = cut.expect("cut");
    assert_eq!(cut.places, ["/items/1", "/items", ""]);
    assert_eq!((cut.most.as_str(), cut.taken, cut.of), ("/items/1", 0, 2));
    let (_, cut) = document.root().sample(4);
    let cut = cut.expect("cut");
    assert_eq!((cut.most.as_str(), cut.taken, cut.of), ("/items", 1, 3));
}

#[test]
fn secrets_are_masked_in_a_text_as_in_a_tree() {
    let masks = Redactor::new(["sesame-open", "two\nlines-here"].map(Secret::new));
    let value =
        json!({"a": "say sesame-open!", "sesame-open": ["two\nlines-here", 1], "b": "x\ty"});
    let text = Payload::text(document(&value.to_string()));
    let masked = text.redacted(&masks).expect("holds some");
    assert!(masked.is_text());
    assert_eq!(*masked, masks.redact_json(&value).expect("holds some"));
    assert!(Payload::text(document("[\"a\\n\",1]")).redacted(&masks).is_none());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e300..1e300_f64).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        (0..5_000_usize).prop_map(|n| Value::from("z".repeat(n))),
    ];
    leaf.prop_recursive(5, 200, 80, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..80).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..40)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_gives_what_its_tree_gives(value in any_json(), pretty: bool) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        agrees(document(&text).root(), &value);
    }

    #[test]
    fn spoilt_text_never_panics(value in any_json(), at: prop::sample::Index, byte: u8) {
        let mut text = value.to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(text) = String::from_utf8(text)
            && let Some(document) = Document::new(&text, WIDE)
        {
            let root = document.root();
            let _ = (root.len(), root.to_value(), serde_json::to_string(&root).is_ok());
            let _ = (root.pointer("/a/0"), root.nth(70), root.sample(20));
        }
    }
}

#[test]
fn texts_are_told_apart_without_reading_them_into_trees() {
    let one = Payload::text(document("[1, 2]"));
    let again = Payload::text(document("[1, 2]"));
    let other = Payload::text(document("[1, 3]"));
    assert!(one.is_same_text(&again) && !one.is_same(&again));
    assert!(!one.is_same_text(&other));
    for payload in [&one, &again, &other] {
        let super::Form::Text { tree, .. } = &*payload.0 else { panic!("kept as text") };
        assert!(tree.get().is_none());
    }
    assert!(one != other, "`==` reads them");
}
