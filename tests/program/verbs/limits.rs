//! The limits on what a server may send and take: each has a name, a default that is shown, and
//! can be changed for one server.

use serde_json::{Value, json};

use super::AT_MOST;
use crate::support::Bench;

/// Key of `limits`, default, another value, and one that is refused.
fn table() -> Vec<(&'static str, Value, Value, Value)> {
    vec![
        ("lineBytes", json!(4 << 20), json!(256 << 20), json!((256 << 20) + 1)),
        ("depth", json!(128), json!(64), json!(513)),
        ("nodes", json!(500_000), json!(1_000_000), json!(1)),
        ("stderrLineBytes", json!(16 << 10), json!(32 << 10), json!(2 << 20)),
        ("maxCall", json!(600), json!(1_200), json!(0)),
        ("listPages", json!(100), json!(7), json!(0)),
        ("listEntries", json!(5_000), json!(50), json!(0)),
        ("refetch", json!(1), json!(5), json!(0)),
        ("queueMessages", json!(256), json!(16), json!(0)),
        ("queueBytes", json!(1 << 20), json!(2 << 20), json!(1)),
        ("inputRounds", json!(5), json!(2), json!(0)),
        ("inputsPerRound", json!(8), json!(20), json!(101)),
        ("approvals", json!(32), json!(3), json!(0)),
        ("approvalsPerMinute", json!(600), json!(10), json!(0)),
        ("maxWaiting", json!(3_600), json!(60), json!(-1)),
        ("stderrBytes", json!(256 << 10), json!(8 << 10), json!(100)),
        ("descriptionBytes", json!(4 << 10), json!(100), json!(0)),
        ("schemaDepth", json!(32), json!(64), json!(257)),
        ("subschemas", json!(2_000), json!(20), json!(0)),
        ("schemaTime", json!(0.25), json!(2), json!(0)),
        ("imagePixels", json!(4_000_000), json!(100), json!(0)),
        ("imageBytes", json!(64 << 20), json!(1 << 20), json!(1)),
    ]
}

#[test]
fn every_limit_has_its_default_and_another_value_for_one_server() {
    let bench = Bench::new();
    let changed: serde_json::Map<String, Value> =
        table().into_iter().map(|(key, _, other, _)| (key.to_owned(), other)).collect();
    bench.servers(&json!({
        "plain": {"command": "x"}, "other": {"command": "x", "limits": changed},
    }));
    let done = bench.run(&["config", "--json"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    let servers = done.json()["servers"].clone();
    for (key, default, other, _) in table() {
        assert_eq!(servers["plain"]["limits"][key], default, "{key}: {servers:#}");
        assert_eq!(servers["other"]["limits"][key], other, "{key}: {servers:#}");
    }
    let shown = servers["plain"]["limits"].as_object().expect("limits").len();
    assert_eq!(shown, table().len(), "a limit is shown that this table does not know");
}

#[test]
fn the_effective_configuration_says_which_limits_are_defaults() {
    let bench = Bench::new();
    bench.servers(&json!({"one": {"command": "x", "limits": {"depth": 64}}}));
    let done = bench.run(&["config", "--all"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    let line = |key: &str| {
        let quoted = format!("\"{key}\":");
        let found = done.stdout.lines().find(|line| line.trim_start().starts_with(&quoted));
        found.unwrap_or_else(|| panic!("{key} is not in\n{}", done.stdout)).to_owned()
    };
    for (key, ..) in table() {
        let origin = if key == "depth" { "mcp.json:" } else { "default" };
        assert!(line(key).contains(origin), "{}", line(key));
    }
}

#[test]
fn a_limit_out_of_its_bounds_is_refused_by_its_name() {
    let bench = Bench::new();
    for (key, _, _, refused) in table() {
        bench.servers(&json!({"one": {"command": "x", "limits": {key: refused}}}));
        let done = bench.run(&["config"], AT_MOST);
        assert_eq!(done.code, Some(2), "{key}: {done:?}");
        assert!(done.stderr.contains(&format!("/limits/{key}")), "{key}: {done:?}");
    }
}

#[test]
fn what_validation_may_take_is_set_for_one_server() {
    let bench = Bench::new();
    let levels: serde_json::Map<String, Value> = (0..=30)
        .map(|level| {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            let doubled = if level < 30 { json!({"allOf": [next, next]}) } else { json!({}) };
            (format!("d{level}"), doubled)
        })
        .collect();
    let tool = |name: &str, schema: Value| json!({"name": name, "description": "Has a schema.", "inputSchema": schema});
    let script = json!({"tools": [
        tool("nested", json!({"type": "object", "properties": {
            "a": {"type": "object", "properties": {"b": {"items": {"type": "string"}}}}}})),
        tool("slow", json!({"type": "object", "$defs": levels,
            "properties": {"a": {"$ref": "#/$defs/d0"}}})),
    ]});
    let strict = json!({"limits": {"schemaDepth": 2, "schemaTimeMs": 20}});
    let few = json!({"limits": {"subschemas": 2, "descriptionBytes": 5}});
    bench.servers(&json!({
        "plain": bench.mock("plain", &script, &json!({})),
        "strict": bench.mock("strict", &script, &strict),
        "few": bench.mock("few", &script, &few),
    }));
    let said = |tool: &str, value: &str| {
        let done = bench.run(&["call", tool, value, "--json"], AT_MOST);
        done.json()["error"]["message"].as_str().unwrap_or_default().to_owned()
    };
    assert_eq!(said("plain.nested", "a={}"), "");
    assert!(said("strict.nested", "a={}").contains("nested deeper than 2"));
    assert!(said("few.nested", "a={}").contains("more than 2 sub-schemas"));
    assert!(said("plain.slow", "a=x").contains("the limit is 250 ms"));
    assert!(said("strict.slow", "a=x").contains("the limit is 20 ms"));
    let report = bench.run(&["--check", "--format", "json"], AT_MOST).json();
    let rules = |server: &str| {
        let servers = report["servers"].as_array().cloned().unwrap_or_default();
        let found = servers.into_iter().find(|found| found["name"] == server).expect("checked");
        let findings = found["findings"].as_array().cloned().unwrap_or_default();
        let of = |rule: &str| findings.iter().filter(|f| f["rule"] == rule).count();
        (of("schema/too-complex"), of("describe/long"))
    };
    assert_eq!(rules("plain"), (0, 0), "{report:#}");
    assert_eq!(rules("strict"), (1, 0), "{report:#}");
    assert_eq!(rules("few"), (2, 2), "{report:#}");
}

#[test]
fn thousands_of_entries_that_are_switched_off_are_listed() {
    let bench = Bench::new();
    let entry = |n: usize| (format!("s{n}"), json!({"command": "none", "disabled": true}));
    let servers: serde_json::Map<String, Value> = (0..3_000).map(entry).collect();
    bench.servers(&servers.into());
    let done = bench.run(&["list"], AT_MOST);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
}
