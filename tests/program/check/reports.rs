//! Reports: every format, the same in every run, nothing in them that anybody obeys.

use serde_json::{Value, json};

use super::{AT_MOST, check, good, tool};
use crate::support::{self, Bench};

#[test]
fn two_runs_print_the_same_bytes_times_aside() {
    let mut poisoned = tool("b");
    poisoned["description"] = json!("x\u{1b}[2J");
    let bench = Bench::playing(&[
        ("good", good()),
        ("other", json!({"tools": [tool("a"), poisoned], "on": {"start": {"line": "banner"}}})),
        ("dying", json!({"on": {"start": {"exit": 1}}})),
    ]);
    let timeless = |text: &str| {
        let number = regex::Regex::new(r#""durationMs": (\d+|null)"#).expect("a pattern");
        number.replace_all(text, "").into_owned()
    };
    let first = check(&bench, &["--format", "json"]).stdout;
    let second = check(&bench, &["--format", "json"]).stdout;
    assert_eq!(timeless(&first), timeless(&second));
}

#[test]
fn reports_in_every_format_and_in_files_tell_the_same() {
    let mut hostile = tool("x");
    hostile["description"] = json!("a\u{1b}]52;c;AAAA\u{7} ::error::b\u{202e}\n::warning::c");
    let bench = Bench::playing(&[
        ("good", good()),
        ("hostile", json!({"tools": [hostile]})),
        ("dying", json!({"on": {"start": [{"stderr": "::add-mask::x"}, {"exit": 1}]}})),
    ]);
    let all = [
        "--format",
        "human",
        "--format",
        "json=r.json",
        "--format",
        "junit=r.xml",
        "--format",
        "sarif=r.sarif",
        "--format",
        "github=r.txt",
    ];
    let summary = bench.path().join("summary.md");
    let mut command = bench.command(&[&["--check"], &all[..]].concat());
    command.env("GITHUB_STEP_SUMMARY", &summary);
    let done = support::finish(command, AT_MOST);
    assert_eq!(done.code, Some(3), "{done:?}");
    let read = |name: &str| std::fs::read_to_string(bench.path().join(name)).expect(name);
    for text in [&done.stdout, &read("r.json"), &read("r.xml"), &read("r.sarif"), &read("r.txt")] {
        let bad = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202e}' | '\u{200b}');
        assert!(!text.chars().any(bad), "{text:?}");
    }
    for line in done.stdout.lines() {
        assert!(!line.trim_start().starts_with("::"), "a workflow command of a server: {line}");
    }
    let github = read("r.txt");
    assert!(github.lines().all(|l| l.starts_with("::") || l.starts_with("mcpdeck: ")), "{github}");
    assert!(github.contains("::error file="), "{github}");
    assert!(std::fs::read_to_string(&summary).expect("a summary").contains("| hostile |"));
    let report: Value = serde_json::from_str(&read("r.json")).expect("JSON");
    let sarif: Value = serde_json::from_str(&read("r.sarif")).expect("JSON");
    let count: usize = report["servers"]
        .as_array()
        .expect("servers")
        .iter()
        .map(|s| s["findings"].as_array().map_or(0, Vec::len))
        .sum();
    assert_eq!(sarif["runs"][0]["results"].as_array().map(Vec::len), Some(count));
    let schema = bench.run(&["schema", "report"], AT_MOST).json();
    let validator = mcpdeck::schema::Validator::compile(&schema).expect("a schema");
    assert_eq!(validator.check(&report), mcpdeck::schema::SchemaVerdict::Valid);
    assert!(read("r.xml").contains("<error type=\"start/exited\""), "{}", read("r.xml"));
}

#[test]
fn what_holds_for_many_tools_is_told_once_and_banners_leave_room_for_what_was_said() {
    let rootless = |n: usize| {
        json!({"name": format!("t{n}"), "description": "Does a thing.",
        "inputSchema": {"properties": {}}})
    };
    let tools: Vec<Value> = (0..7).map(rootless).collect();
    let banner = ["╭───╮", "", "│ FastMCP │", "    at start (server.js:1:1)"];
    let banner = banner.map(|line| json!({"stderr": line}));
    let said = (0..30).map(|n| json!({"stderr": format!("step {n}")}));
    let dying: Vec<Value> = banner.into_iter().chain(said).chain([json!({"exit": 1})]).collect();
    let noisy = json!([{"line": "one"}, {"line": "two"}]);
    let long = |n: usize| {
        let mut tool = tool(&format!("l{n}"));
        tool["description"] = json!("long ".repeat(1_000 + n));
        tool
    };
    let long: Vec<Value> = (0..20).map(long).collect();
    let bench = Bench::playing(&[
        ("rootless", json!({"tools": tools})),
        ("dying", json!({"on": {"start": dying}})),
        ("noisy", json!({"tools": [tool("a")], "on": {"start": noisy}})),
        ("long", json!({"tools": long})),
    ]);
    let text = check(&bench, &[]).stdout;
    assert_eq!(text.matches("[describe/long]").count(), 5, "{text}");
    assert_eq!(text.matches("help: keep it under 4 KB").count(), 1, "{text}");
    assert!(text.contains("and 15 more; --verbose shows them"), "{text}");
    assert_eq!(text.matches("[schema/root]").count(), 1, "{text}");
    assert!(text.contains("7 places: `inputSchema` has no `type`"), "{text}");
    assert!(text.contains("tools/t3#/inputSchema\n") && text.contains("and 3 more"), "{text}");
    assert!(
        !text.contains("╭") && !text.contains("at start") && !text.contains("step 13\n"),
        "{text}"
    );
    assert!(text.contains("step 14\n") && text.contains("(15 earlier lines;"), "{text}");
    assert!(text.contains("2 lines on stdout are not JSON-RPC; the first: `one` ["), "{text}");
    let whole = check(&bench, &["--verbose"]).stdout;
    assert_eq!(whole.matches("[describe/long]").count(), 20, "{whole}");
    assert!(whole.contains("tools/t6#/inputSchema\n") && whole.contains("step 0\n"), "{whole}");
    let report = check(&bench, &["--format", "json"]).json();
    let found = report["servers"][0]["findings"].as_array().expect("findings");
    assert_eq!(found.iter().filter(|f| f["rule"] == "schema/root").count(), 7, "{report:#}");
}

/// Those parts of SARIF 2.1.0 that are written, as strict as the standard says (sections 3.13 to
/// 3.33), and nothing beside them.
fn sarif_schema() -> Value {
    let text = json!({"type": "object", "required": ["text"], "additionalProperties": false,
        "properties": {"text": {"type": "string", "minLength": 1}}});
    let level = json!({"enum": ["none", "note", "warning", "error"]});
    let rule = json!({"type": "object", "required": ["id"], "additionalProperties": false,
        "properties": {"id": {"type": "string"}, "shortDescription": text, "fullDescription": text,
            "help": text, "defaultConfiguration": {"type": "object", "properties": {"level": level}}}});
    let region = json!({"type": "object", "additionalProperties": false, "properties": {
        "startLine": {"type": "integer", "minimum": 1},
        "startColumn": {"type": "integer", "minimum": 1}}});
    let place = json!({"type": "object", "required": ["artifactLocation"], "properties": {
        "artifactLocation": {"type": "object", "properties": {
            "uri": {"type": "string", "pattern": "^[A-Za-z0-9._~:/%-]+$"}}}, "region": region}});
    let result = json!({"type": "object", "required": ["message", "ruleId", "ruleIndex"],
        "additionalProperties": false, "properties": {
            "ruleId": {"type": "string"}, "ruleIndex": {"type": "integer", "minimum": 0},
            "level": level, "message": text,
            "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
            "locations": {"type": "array", "maxItems": 1, "items": {"type": "object",
                "additionalProperties": false, "properties": {
                    "physicalLocation": place,
                    "logicalLocations": {"type": "array", "items": {"type": "object",
                        "properties": {"fullyQualifiedName": {"type": "string"},
                            "kind": {"type": "string"}}}}}}}}});
    let run = json!({"type": "object", "required": ["tool", "results"],
        "additionalProperties": false, "properties": {
            "tool": {"type": "object", "required": ["driver"], "properties": {
                "driver": {"type": "object", "required": ["name"], "properties": {
                    "name": {"type": "string"}, "version": {"type": "string"},
                    "semanticVersion": {"type": "string"},
                    "rules": {"type": "array", "uniqueItems": true, "items": rule}}}}},
            "invocations": {"type": "array", "items": {"type": "object",
                "required": ["executionSuccessful"], "properties": {
                    "executionSuccessful": {"type": "boolean"}, "exitCode": {"type": "integer"}}}},
            "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
            "results": {"type": "array", "items": result}}});
    json!({"type": "object", "required": ["version", "runs"], "additionalProperties": false,
        "properties": {"$schema": {"type": "string"}, "version": {"const": "2.1.0"},
            "runs": {"type": "array", "minItems": 1, "items": run}}})
}

/// Reports of a run in which something of every kind happened.
fn eventful() -> (crate::support::Bench, Value) {
    let mut hostile = tool("x");
    hostile["description"] =
        json!("a <b> & \"c\" \u{1b}]0;t\u{7} \u{202e} ]]> \u{fffe} <IMPORTANT>x</IMPORTANT>");
    let bench = Bench::playing(&[
        ("good", good()),
        ("hostile <&\">", json!({"tools": [hostile], "on": {"start": {"line": "ban<n>er"}}})),
        ("dying", json!({"on": {"start": [{"stderr": "<bye> & ]]>"}, {"exit": 1}]}})),
    ]);
    bench.write("mcp.expect.json", r#"{"servers": {"gone": {}, "good": {"calls": [{"tool": "look_up", "arguments": {"q": "x"}}]}}}"#);
    let formats = ["--format", "json", "--format", "junit=r.xml", "--format", "sarif=r.sarif"];
    let done = check(&bench, &formats);
    assert_eq!(done.code, Some(3), "{done:?}");
    let report = done.json();
    (bench, report)
}

#[test]
fn sarif_is_what_the_standard_says() {
    let (bench, report) = eventful();
    let text = std::fs::read_to_string(bench.path().join("r.sarif")).expect("a report");
    let sarif: Value = serde_json::from_str(&text).expect("JSON");
    let mut schemas = vec![sarif_schema()];
    // The schema of the standard itself, where there is a copy of it.
    if let Some(path) = std::env::var_os("MCPDECK_SARIF_SCHEMA") {
        // Its pattern for languages ends in a bracket that opens nowhere, which not every engine
        // takes for itself.
        let text = std::fs::read_to_string(path).expect("the schema of SARIF");
        let text = text.replace("{2}]?$", r"{2}\\]?$");
        schemas.push(serde_json::from_str(&text).expect("JSON"));
    }
    for schema in schemas {
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let wrong: Vec<String> = validator.iter_errors(&sarif).map(|e| e.to_string()).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    let run = &sarif["runs"][0];
    assert_eq!(run["invocations"][0]["exitCode"], report["exitCode"]);
    let results = run["results"].as_array().expect("results");
    assert!(results.len() > 5);
    for result in results {
        let index =
            usize::try_from(result["ruleIndex"].as_u64().expect("an index")).expect("small");
        assert_eq!(run["tool"]["driver"]["rules"][index]["id"], result["ruleId"]);
    }
}

/// Checks a document against the stricter parts of the `JUnit` schemas in use: the elements, their
/// order, the attributes that must be there, and counts that are right.
fn junit_problems(text: &str) -> Vec<String> {
    use quick_xml::events::Event;
    let mut reader = quick_xml::Reader::from_str(text);
    let mut problems = Vec::new();
    let mut path: Vec<String> = Vec::new();
    let mut counts = [0_u64; 4];
    let mut claimed = [0_u64; 4];
    let mut last = 0;
    let order = ["properties", "testcase", "system-out", "system-err"];
    loop {
        let (start, empty) = match reader.read_event() {
            Ok(Event::Start(start)) => (start.into_owned(), false),
            Ok(Event::Empty(start)) => (start.into_owned(), true),
            Ok(Event::End(_)) => {
                if path.pop().as_deref() == Some("testsuite") && counts != claimed {
                    problems.push(format!("counted {counts:?}, claimed {claimed:?}"));
                }
                continue;
            }
            Ok(Event::Eof) => return problems,
            Ok(_) => continue,
            Err(error) => return vec![error.to_string()],
        };
        let name = start.name().as_ref().to_owned();
        let value = |key: &str| {
            let found = start.attributes().flatten().find(|a| a.key.as_ref() == key);
            found.map(|a| a.value.into_owned())
        };
        let parent = path.last().map_or("", String::as_str);
        let must: &[&str] = match (parent, name.as_str()) {
            ("", "testsuites") | ("testsuite", "properties" | "system-out" | "system-err") => &[],
            ("testsuites", "testsuite") => {
                (counts, last) = ([0; 4], 0);
                let number =
                    |key: &str| value(key).and_then(|v| v.parse().ok()).unwrap_or(u64::MAX);
                claimed = ["tests", "failures", "errors", "skipped"].map(number);
                &["id", "package", "name", "timestamp", "hostname", "time"]
            }
            ("testsuite", "testcase") => {
                counts[0] += 1;
                &["name", "classname", "time"]
            }
            ("testcase", "failure" | "error") => {
                counts[if name == "failure" { 1 } else { 2 }] += 1;
                &["type", "message"]
            }
            ("testcase", "skipped") => {
                counts[3] += 1;
                &[]
            }
            _ => {
                problems.push(format!("<{name}> in <{parent}>"));
                &[]
            }
        };
        if parent == "testsuite" {
            let at = order.iter().position(|n| *n == name).unwrap_or(0);
            if at < last {
                problems.push(format!("<{name}> is too late"));
            }
            last = at;
        }
        problems.extend(
            must.iter()
                .filter(|key| value(key).is_none_or(|v| v.is_empty()))
                .map(|key| format!("<{name}> lacks {key}")),
        );
        if let Some(time) = value("time")
            && time.parse::<f64>().is_err()
        {
            problems.push(format!("time {time}"));
        }
        if !empty {
            path.push(name);
        }
    }
}

#[test]
fn what_cannot_be_begun_is_reported_in_every_report_that_was_asked_for() {
    let bench = Bench::playing(&[("s", good())]);
    bench.write("mcp.expect.json", r#"{"rules": {"no/such-rule": "off"}}"#);
    let formats = ["--format", "json", "--format", "junit=r.xml"];
    for (more, told) in [
        (&[][..], "no/such-rule"),
        (&["--server", "nobody"], "nobody"),
        (&["--init"], "mcp.expect.json exists"),
    ] {
        let done = check(&bench, &[more, &formats].concat());
        assert_eq!(done.code, Some(2), "{done:?}");
        let report = done.json();
        assert_eq!((&report["verdict"], &report["exitCode"]), (&json!("usage"), &json!(2)));
        let finding = &report["config"]["findings"][0];
        assert!(finding["message"].as_str().is_some_and(|m| m.contains(told)), "{finding}");
        assert!(std::fs::remove_file(bench.path().join("r.xml")).is_ok(), "no JUnit report");
        let last = done.stderr.lines().last().expect("a line for programs");
        let line: Value = serde_json::from_str(last).expect("JSON");
        assert_eq!((&line["verdict"], &line["errors"]), (&json!("usage"), &json!(1)));
        assert!(done.stderr.starts_with("mcpdeck: "), "people read it too: {done:?}");
    }
}

#[test]
fn junit_is_what_the_readers_of_it_know() {
    let (bench, report) = eventful();
    let text = std::fs::read_to_string(bench.path().join("r.xml")).expect("a report");
    assert_eq!(junit_problems(&text), [""; 0], "{text}");
    assert!(text.contains("name=\"step call look_up\""), "a sample call is a case: {text}");
    assert!(text.contains("type=\"expect/missing-server\""), "{text}");
    assert_eq!(
        text.matches("<testsuite ").count(),
        1 + report["servers"].as_array().map_or(0, Vec::len)
    );
    assert!(!junit_problems("<testsuites><testcase/></testsuites>").is_empty());
}
