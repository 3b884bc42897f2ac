//! Reports: every format, the same in every run, nothing in them that anybody obeys.

use serde_json::{Value, json};

use super::{AT_MOST, bench, check, good, support, tool};

#[test]
fn two_runs_print_the_same_bytes_times_aside() {
    let mut poisoned = tool("b");
    poisoned["description"] = json!("x\u{1b}[2J");
    let bench = bench(&[
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
    let bench = bench(&[
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
    let validator = mcpdeck::host::validate::Validator::compile(&schema).expect("a schema");
    assert_eq!(validator.check(&report), mcpdeck::host::validate::Verdict::Valid);
    assert!(read("r.xml").contains("<error type=\"start/exited\""), "{}", read("r.xml"));
}
