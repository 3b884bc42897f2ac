//! Every rule has a fixture that breaks it: `fixtures/check/*.json`, each with servers as the rules
//! see them and exactly the findings they must give.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use mcpdeck::base::secret::Redactor;
use mcpdeck::check::expect::ExpectTarget;
use mcpdeck::check::expect::Expectations;
use mcpdeck::check::rules::{EarlyFindings, Measure, assess};
use mcpdeck::check::subject::CheckSubject;
use mcpdeck::check::{CheckFinding, rule};
use mcpdeck::deck::Lock;
use mcpdeck::protocol::ListKind;
use mcpdeck::schema::ToolFormat;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fixture {
    servers: Vec<Value>,
    #[serde(default)]
    expectations: Option<Value>,
    #[serde(default)]
    lock: Option<Lock>,
    #[serde(default)]
    results: Vec<Sampled>,
    /// The providers of `--for`.
    #[serde(default, rename = "for")]
    providers: Vec<String>,
    /// `severity server rule place`
    findings: Vec<String>,
}

/// The result of the first sample call of the first server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Sampled {
    result: Value,
    duration_ms: u64,
}

/// What is not said in a fixture: a stdio server that became ready and stopped well.
fn subject(given: &Value) -> CheckSubject {
    let mut value = json!({
        "name": "s", "transport": "stdio", "state": "ready",
        "protocolVersion": "2025-11-25", "era": "legacy",
        "exit": {"code": 0, "signal": null, "expected": true, "ladder": "stdin", "swept": 0,
                 "lived": {"secs": 1, "nanos": 0}},
    });
    for (key, given) in given.as_object().expect("a server is an object") {
        value[key] = given.clone();
    }
    let steps = value.get_mut("steps").and_then(Value::as_array_mut);
    for step in steps.into_iter().flatten() {
        step["began"] = 0.into();
    }
    serde_json::from_value(value).expect("a server")
}

fn run(fixture: &Fixture) -> Vec<(String, CheckFinding)> {
    let subjects: Vec<CheckSubject> = fixture.servers.iter().map(subject).collect();
    let expectations =
        fixture.expectations.as_ref().map(|v| Expectations::parse(&v.to_string()).expect("valid"));
    let known: Vec<String> = subjects.iter().map(|s| s.name.clone()).collect();
    let mut early = vec![EarlyFindings::default(); subjects.len()];
    for sampled in &fixture.results {
        let expectations = expectations.as_ref().expect("results need expectations");
        let call = &expectations.servers[&subjects[0].name].calls[0];
        let took = Duration::from_millis(sampled.duration_ms);
        let name = call.call.tool.clone().expect("a tool");
        let target = ExpectTarget { kind: ListKind::Tools, name };
        let (result, masks) = (sampled.result.clone().into(), Redactor::default());
        early[0].calls.extend(call.expect.judge(&target, &result, took, &masks));
    }
    let format = |name: &String| ToolFormat::parse(name).expect("a provider");
    let providers: Vec<ToolFormat> = fixture.providers.iter().map(format).collect();
    let measure = Measure {
        expectations: &expectations.unwrap_or_default(),
        allowed: &[],
        lock: fixture.lock.as_ref(),
        known: &known,
        providers: &providers,
    };
    let assessment = assess(&subjects, measure, early);
    let by_server = known.iter().zip(assessment.servers);
    let own = by_server.flat_map(|(name, all)| all.into_iter().map(move |f| (name.clone(), f)));
    own.chain(assessment.overall.into_iter().map(|f| ("*".to_owned(), f))).collect()
}

fn fixtures() -> Vec<(String, Fixture)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures/check");
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)
        .expect("fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    files.sort();
    files
        .into_iter()
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path).expect("readable");
            let fixture =
                serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            (name, fixture)
        })
        .collect()
}

#[test]
fn every_fixture_gives_exactly_its_findings() {
    let mut wrong = Vec::new();
    for (name, fixture) in fixtures() {
        let found: Vec<String> = run(&fixture)
            .into_iter()
            .map(|(server, f)| {
                format!("{} {server} {} {}", f.severity, f.rule, f.place).trim().into()
            })
            .collect();
        if found != fixture.findings {
            wrong.push(format!(
                "{name}:\n  found    {found:#?}\n  expected {:#?}",
                fixture.findings
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_rule_has_a_fixture_named_after_it_that_breaks_it() {
    // These come from the command line and the configuration; `tests/check.rs` breaks them.
    let elsewhere = ["config/problem", "start/untrusted"];
    let all = fixtures();
    // Those of the bench are broken by `tests/program/bench.rs`.
    let of_bench = |id: &str| id.starts_with("test/") || id.starts_with("fuzz/");
    for rule in rule::all().filter(|r| !elsewhere.contains(&r.id) && !of_bench(r.id)) {
        let file = rule.id.replace('/', "-");
        let fixture = all.iter().find(|(name, _)| *name == file);
        let (_, fixture) =
            fixture.unwrap_or_else(|| panic!("fixtures/check/{file}.json is missing"));
        let found = run(fixture);
        let hit = found.iter().find(|(_, f)| f.rule == rule.id);
        let (_, hit) = hit.unwrap_or_else(|| panic!("{file}.json does not break {}", rule.id));
        assert!(!hit.help.is_empty() && !hit.message.is_empty(), "{file}");
    }
}

#[test]
fn findings_never_carry_what_a_terminal_would_obey() {
    for (name, fixture) in fixtures() {
        for (_, finding) in run(&fixture) {
            for text in [&finding.message, &finding.place, &finding.help] {
                assert!(!text.chars().any(char::is_control), "{name}: {text:?}");
            }
        }
    }
}

#[test]
fn a_fixture_is_judged_the_same_every_time_and_in_any_order_of_its_lists() {
    for (name, fixture) in fixtures() {
        let first = run(&fixture);
        assert_eq!(first, run(&fixture), "{name}");
        let set: BTreeSet<String> = first.iter().map(|(s, f)| format!("{s}{f:?}")).collect();
        assert_eq!(set.len(), first.len(), "{name}: a finding is reported twice");
    }
}

#[test]
fn what_to_do_fits_what_was_found() {
    let malformed =
        |transport: &str, kind: &str| json!({"transport": transport, "protocolCounts": {kind: 1}});
    let partial = |why: serde_json::Value| json!({"partial": [["tools", why]]});
    let page = |why: &str| json!({"pageFailed": {"page": 3, "message": why}});
    let named = |names: [&str; 2]| json!({"tools": names.map(|name| json!({"name": name}))});
    let rows = [
        (malformed("stdio", "junk"), "stdout/pollution", "to stderr"),
        (malformed("http", "junk"), "protocol/malformed", "body, event or frame"),
        (malformed("http", "malformed"), "protocol/malformed", "body, event or frame"),
        (malformed("stdio", "malformed"), "protocol/malformed", "per line"),
        (partial(json!({"entries": 5000})), "list/partial", "listEntries"),
        (partial(json!({"pages": 100})), "list/partial", "listPages"),
        (partial(json!({"bytes": 16_777_216})), "list/partial", "lineBytes"),
        (partial(page("no")), "list/partial", "every page"),
        (partial(page("more than 5 entries, the rest is lost")), "list/partial", "every page"),
        (partial(json!("no such cursor")), "list/partial", "do not declare it"),
        (
            partial(json!({"cursorAgain": {"cursor": "environment variable", "page": 2}})),
            "list/partial",
            "every page",
        ),
        (named(["pay_bill", "payBill"]), "name/look-alike", "tell them apart"),
        // The same letter in one character and in two.
        (named(["caf\u{e9}", "cafe\u{301}"]), "name/look-alike", "tell them apart"),
    ];
    let found = |server: &serde_json::Value| {
        run(&Fixture {
            providers: Vec::new(),
            servers: vec![server.clone()],
            expectations: None,
            lock: None,
            results: Vec::new(),
            findings: Vec::new(),
        })
    };
    let signs = found(&named(["*", "\u{1f389}"]));
    assert!(signs.iter().all(|(_, f)| f.rule != "name/look-alike"), "{signs:#?}");
    for (server, rule, help) in rows {
        let found = found(&server);
        let fits = |f: &CheckFinding| f.rule == rule && f.help.contains(help);
        assert!(found.iter().any(|(_, f)| fits(f)), "{server}: {found:#?}");
    }
}
