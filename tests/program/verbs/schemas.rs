//! Tools whose schemas are written as pydantic, zod and published servers write them: what `list`,
//! help and typed arguments make of them.

use std::time::Duration;

use serde_json::{Value, json};

use super::run;
use crate::support::Bench;

fn tools() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/schemas/tools.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

fn bench() -> Bench {
    let bench = Bench::new();
    let listed: Vec<Value> = tools()
        .into_iter()
        .map(|tool| json!({"name": tool["name"], "inputSchema": tool["inputSchema"]}))
        .collect();
    let calls: serde_json::Map<String, Value> = tools()
        .iter()
        .map(|tool| {
            (tool["name"].as_str().expect("a name").into(), json!({"text": "${arguments}"}))
        })
        .collect();
    let script = json!({"tools": listed, "calls": calls});
    bench.servers(&json!({"odd": bench.mock("odd", &script, &json!({}))}));
    bench
}

#[test]
fn a_long_list_names_every_parameter_with_its_star_and_type() {
    let bench = bench();
    let list = run(&bench, &["list", "--long", "odd"]);
    let mut shown: Vec<(String, Vec<String>)> = Vec::new();
    for line in list.stdout.lines() {
        let words = line.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.len() - line.trim_start().len() {
            4 => shown.push((words, Vec::new())),
            6 => shown.last_mut().expect("a tool").1.push(words),
            _ => {}
        }
    }
    let expected: Vec<(String, Vec<String>)> = tools()
        .iter()
        .map(|tool| {
            let rows = tool["long"].as_array().expect("a list").iter();
            let rows = rows.map(|row| row.as_str().expect("text").to_owned()).collect();
            (tool["name"].as_str().expect("a name").to_owned(), rows)
        })
        .collect();
    assert_eq!(shown, expected, "{}", list.stdout);
}

#[test]
fn typed_words_become_what_the_schema_means_behind_references_and_joins() {
    let bench = bench();
    for (tool, words, sent) in [
        ("chain", &["a=12"][..], json!({"a": "12"})),
        ("joined", &["city=12", "days=2"], json!({"city": "12", "days": 2})),
        ("rooted", &["q=true"], json!({"q": "true"})),
        (
            "pydantic",
            &["filter.status=1", "cursor=null"],
            json!({"filter": {"status": "1"}, "cursor": null}),
        ),
        ("maps", &["env.A=1", "scores.x=2"], json!({"env": {"A": "1"}, "scores": {"x": 2}})),
        ("lists", &["ids=1", "tags=a", "tags=b"], json!({"ids": 1, "tags": ["a", "b"]})),
        ("conditional", &["how=post", "street=5"], json!({"how": "post", "street": "5"})),
        ("old_tuple", &["pair=[\"a\",1]"], json!({"pair": ["a", 1]})),
        ("old_limits", &["ratio=0.5"], json!({"ratio": 0.5})),
        ("named", &["a=1", "b=1"], json!({"a": "1", "b": 1})),
    ] {
        let done = bench.run(&[&["call", tool, "--json"], words].concat(), Duration::from_secs(60));
        assert_eq!(done.code, Some(0), "{tool}: {done:?}");
        let text = done.json()["result"]["content"][0]["text"].as_str().expect("text").to_owned();
        let got: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(got, sent, "{tool}");
    }
    bench.expect_nothing_left(Duration::ZERO);
    for (tool, takes) in [
        ("chain", "it takes: odd.chain a=STRING\n"),
        ("joined", "it takes: odd.joined city=STRING [days=INTEGER]\n"),
        ("rooted", "it takes: odd.rooted q=STRING\n"),
        (
            "either_of_refs",
            "it takes: odd.either_of_refs id=STRING kind=a|b [x=INTEGER] [y=INTEGER]\n",
        ),
    ] {
        let done = run(&bench, &["call", tool]);
        assert!(done.stderr.contains(takes), "{done:?}");
    }
}
