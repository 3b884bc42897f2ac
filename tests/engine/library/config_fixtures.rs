//! Every file of `fixtures/configs` through the public door: what it means, or what is wrong with
//! it, is written down beside it and compared whole.
//!
//! `MCPDECK_WRITE_EXPECTED=1` writes the expectations anew; read the difference before keeping it.

use std::path::{Path, PathBuf};

use jsonc_parser::{CollectOptions, ParseOptions};
use mcpdeck::base::secret::Secret;
use mcpdeck::config::{self, Diagnostic, Environment, Loaded};
use proptest::prelude::*;
use serde_json::{Value, json};

fn folder(kind: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/configs").join(kind)
}

fn environment(kind: &str) -> Environment {
    let mut env = Environment {
        cwd: folder(kind),
        home: Some("/home/user".into()),
        workspace: Some("/home/ada/shop".into()),
        ..Environment::default()
    };
    for (name, value) in [("A", "a-value"), ("TOKEN", "hunter2hunter2"), ("EMPTY", "")] {
        env.vars.insert(name.into(), Secret::new(value));
    }
    if kind == "valid" {
        env.inputs.insert("key".into(), Secret::new("typed-key"));
        env.vars.insert("MCPDECK_INPUT_REGION".into(), Secret::new("us"));
    }
    env
}

fn files(kind: &str) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = std::fs::read_dir(folder(kind))
        .expect("the folder of fixtures")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .filter(|path| !path.to_string_lossy().ends_with(".expected.json"))
        .collect();
    all.sort();
    assert!(all.len() > 8, "fixtures of {kind} are missing");
    all
}

/// Loads a fixture under its bare name, as a user in its folder would.
fn load(kind: &str, path: &Path) -> Result<Loaded, Vec<Diagnostic>> {
    let text = std::fs::read_to_string(path).expect("readable");
    let name = path.file_name().expect("a name");
    config::load_text(Path::new(name), &text, &environment(kind))
}

fn report(diagnostics: &[Diagnostic]) -> Value {
    let here = folder("invalid");
    let here = here.to_str().expect("UTF-8");
    diagnostics
        .iter()
        .map(|d| {
            let meant: String =
                d.snippet.chars().skip(d.mark.start as usize).take(d.mark.len as usize).collect();
            json!({
                "rule": d.rule,
                "severity": d.severity,
                "at": d.at.to_string().replace(here, "<folder>"),
                "pointer": d.pointer,
                "server": d.server,
                "message": d.message,
                "snippet": d.snippet,
                "meant": meant,
                "help": d.help.as_ref().map(|help| help.replace(here, "<folder>")),
            })
        })
        .collect()
}

/// Compares with the expectation beside the fixture, or writes it.
fn compare(path: &Path, actual: &Value, failures: &mut Vec<String>) {
    let beside = path.with_extension("expected.json");
    let pretty = serde_json::to_string_pretty(actual).expect("JSON") + "\n";
    if std::env::var_os("MCPDECK_WRITE_EXPECTED").is_some() {
        std::fs::write(&beside, pretty).expect("writable");
        return;
    }
    let expected = std::fs::read_to_string(&beside).unwrap_or_default();
    if expected != pretty {
        failures.push(format!("{}:\n{pretty}\ninstead of\n{expected}", path.display()));
    }
}

#[test]
fn every_valid_file_loads_without_a_problem() {
    for path in files("valid") {
        let loaded = load("valid", &path).unwrap_or_else(|d| panic!("{}: {d:#?}", path.display()));
        assert_eq!(loaded.diagnostics, [], "{}", path.display());
        loaded.complete().unwrap_or_else(|d| panic!("{}: {d:#?}", path.display()));
    }
}

#[test]
fn every_mistake_is_reported_at_its_place_with_a_way_out() {
    let mut failures = Vec::new();
    for path in files("invalid") {
        let loaded = load("invalid", &path);
        let all = match loaded.clone() {
            Ok(loaded) => loaded.complete().expect_err("an error"),
            Err(all) => all,
        };
        assert!(all.iter().any(Diagnostic::is_error), "{}", path.display());
        let usable: Vec<String> = loaded
            .map(|l| l.config.servers.keys().map(ToString::to_string).collect())
            .unwrap_or_default();
        compare(&path, &json!({ "usable": usable, "diagnostics": report(&all) }), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_is_only_suspicious_is_a_warning_and_the_file_is_used() {
    let mut failures = Vec::new();
    for path in files("warning") {
        let loaded = load("warning", &path).expect("usable");
        assert!(!loaded.diagnostics.is_empty(), "{}", path.display());
        assert!(!loaded.has_errors(), "{}: {:#?}", path.display(), loaded.diagnostics);
        assert_eq!(loaded.config.warnings, loaded.diagnostics);
        compare(&path, &report(&loaded.diagnostics), &mut failures);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn no_secret_of_a_broken_file_is_in_its_diagnostics() {
    for kind in ["invalid", "warning"] {
        for path in files(kind) {
            let all = match load(kind, &path) {
                Ok(loaded) => loaded.diagnostics,
                Err(all) => all,
            };
            let shown = config::render_all(&all);
            assert!(!shown.contains("hunter2"), "{}:\n{shown}", path.display());
            assert!(!format!("{all:?}").contains("hunter2"), "{}", path.display());
        }
    }
}

fn json_of(text: &str) -> Option<Value> {
    let text = text.trim_start_matches('\u{feff}');
    let (collect, parse) = (CollectOptions::default(), ParseOptions::default());
    jsonc_parser::parse_to_ast(text, &collect, &parse).ok()?.value.map(Value::from)
}

/// Rules that say something about the structure alone: the schema must refuse such a file too.
const STRUCTURAL: [&str; 5] =
    ["config/type", "config/value", "config/range", "config/missing-key", "config/conflict"];

#[test]
fn the_schema_accepts_every_valid_file_and_refuses_every_structural_mistake() {
    let schema = jsonschema::validator_for(&config::json_schema()).expect("a valid schema");
    for kind in ["valid", "warning", "invalid"] {
        for path in files(kind) {
            let text = std::fs::read_to_string(&path).expect("readable");
            let Some(value) = json_of(&text) else { continue };
            let all = match load(kind, &path) {
                Ok(loaded) => loaded.diagnostics,
                Err(all) => all,
            };
            if all.iter().any(|d| d.rule == "config/syntax") {
                continue;
            }
            let structural =
                all.iter().any(|d| d.is_error() && STRUCTURAL.contains(&d.rule.as_str()));
            let errors: Vec<String> = schema
                .iter_errors(&value)
                .map(|e| format!("{e} at {}", e.instance_path()))
                .collect();
            assert_eq!(errors.is_empty(), !structural, "{}: {errors:#?}", path.display());
        }
    }
}

/// Values at the edges of what a schema allows.
fn edges(schema: &Value, all: &Value) -> Vec<Value> {
    if let Some(name) = schema["$ref"].as_str() {
        return edges(all.pointer(name.trim_start_matches('#')).expect("a definition"), all);
    }
    if let Some(words) = schema["enum"].as_array() {
        return words.clone();
    }
    let mut out: Vec<Value> = schema.get("const").cloned().into_iter().collect();
    for part in ["anyOf", "oneOf"].iter().filter_map(|key| schema[key].as_array()).flatten() {
        out.extend(edges(part, all));
    }
    let types = &schema["type"];
    let is =
        |name: &str| types == name || types.as_array().is_some_and(|t| t.contains(&json!(name)));
    if is("boolean") {
        out.extend([json!(false), json!(true)]);
    }
    if is("string") {
        out.push(json!("a"));
    }
    if is("number") || is("integer") {
        out.extend(["minimum", "maximum"].iter().filter_map(|key| schema.get(key)).cloned());
        out.extend(is("number").then(|| json!(30.5)));
        out.push(json!(60));
    }
    if is("array") {
        out.push(json!([]));
        out.extend(edges(&schema["items"], all).into_iter().map(|item| json!([item])));
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        out.extend(edges(schema, all).into_iter().map(|value| json!({ key: value })));
    }
    out
}

#[test]
fn a_setting_is_used_as_it_is_or_refused_and_never_takes_the_others_with_it() {
    let all = config::json_schema();
    let server = &all["$defs"]["server"];
    let keys = server["properties"].as_object().expect("keys");
    let mut used = 0;
    for (key, schema) in keys.iter().filter(|(key, _)| *key != "tools") {
        for value in edges(schema, &all) {
            let tools = json!({"deny": ["secret_*"]});
            let mut entry = json!({"command": "c", "tools": tools});
            entry[key] = value;
            let file = json!({"servers": {"a": entry}}).to_string();
            let loaded = config::load_text(Path::new("mcp.json"), &file, &environment("valid"));
            let Ok(loaded) = loaded else { continue };
            for server in loaded.config.servers.values() {
                assert_eq!(server.tools.deny.len(), 1, "{file}");
                used += 1;
            }
        }
    }
    assert!(used > 200, "{used} of the edges are allowed");
}

/// Every diagnostic says what is wrong and stands where there is text.
fn sound(text: &str, all: &[Diagnostic]) -> Result<(), TestCaseError> {
    let lines: Vec<&str> = text.split('\n').collect();
    for found in all {
        prop_assert!(!found.message.is_empty() && !found.rule.is_empty(), "{found:?}");
        let safe = mcpdeck::base::text::SafeText::line(&found.snippet);
        prop_assert_eq!(safe.as_str(), found.snippet.as_str());
        if found.at.line > 0 {
            let line = lines.get(found.at.line as usize - 1);
            let length = line.map(|line| line.chars().count() + 1);
            prop_assert!(length.is_some_and(|all| found.at.column as usize <= all), "{found:?}");
        }
    }
    Ok(())
}

/// The value of `args` in a configuration that holds this one argument.
fn argument(text: &str) -> Result<Vec<String>, Vec<Diagnostic>> {
    let file = json!({"servers": {"a": {"command": "c", "args": [text]}}}).to_string();
    let config = config::load_text(Path::new("mcp.json"), &file, &environment("valid"))?.complete();
    let server = config?.servers.into_values().next().expect("one server");
    match server.transport {
        config::TransportConfig::Stdio(stdio) => Ok(stdio.args),
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_spoilt_file_is_loaded_or_refused_with_places_that_exist(
        file in prop::sample::select(files("valid")),
        spoilt in prop::collection::vec(
            (any::<prop::sample::Index>(), "[\\[\\]{}\",:/*\\\\$a0\nÉ\u{0}-]{0,3}", 0_usize..4), 1..4),
    ) {
        let mut text: Vec<char> = std::fs::read_to_string(&file).expect("readable").chars().collect();
        for (at, new, gone) in spoilt {
            let at = at.index(text.len() + 1);
            let end = (at + gone).min(text.len());
            text.splice(at..end, new.chars());
        }
        let text = String::from_iter(text);
        match config::load_text(Path::new("mcp.json"), &text, &environment("valid")) {
            Ok(loaded) => {
                sound(&text, &loaded.diagnostics)?;
                // What was left out is reported, unless nobody wants it; what is used can be printed,
                // and keeps its secrets.
                let unwanted = text.contains("\"disabled\"");
                let named = |name: &mcpdeck::base::ServerName| {
                    loaded.diagnostics.iter().any(|d| d.server.as_ref() == Some(name))
                        || loaded.needs.iter().any(|need| need.servers.contains(name))
                };
                prop_assert!(unwanted || loaded.left_out.iter().all(named), "{:?}", loaded.left_out);
                prop_assert!(!config::effective_text(&loaded, config::PrintDetail::All).contains("hunter2hunter2"));
            }
            Err(all) => {
                prop_assert!(all.iter().any(Diagnostic::is_error));
                sound(&text, &all)?;
            }
        }
    }

    #[test]
    fn any_text_at_all_is_loaded_or_refused(text: String) {
        if let Err(all) = config::load_text(Path::new("mcp.json"), &text, &environment("valid")) {
            prop_assert!(all.iter().any(Diagnostic::is_error));
            sound(&text, &all)?;
        }
    }

    #[test]
    fn text_whose_references_are_escaped_is_passed_on_to_the_letter(text in "[$\\{\\}a:/ é\\\\\"-]{0,16}") {
        prop_assert_eq!(argument(&text.replace("${", "$${")), Ok(vec![text]));
    }

    #[test]
    fn references_become_their_values_and_nothing_else_does(
        parts in prop::collection::vec(prop::sample::select(vec![
            ("${A}", "a-value"), ("${env:A}", "a-value"), ("${NONE:-d}", "d"), ("${EMPTY:-}", ""),
            ("${NONE:-${A}}", "a-value"), ("$${A}", "${A}"), ("${A:-x}", "a-value"), ("{A}", "{A}"),
            ("$A", "$A"), (" ", " "), ("}", "}"), ("${NONE:-${EMPTY:-e}}", "e"),
        ]), 0..8)
    ) {
        let (written, meant): (String, String) = parts.into_iter().unzip();
        prop_assert_eq!(argument(&written), Ok(vec![meant]));
    }
}

/// One line of at most 4 MiB that holds as many entries as fit.
fn crowd(entry: impl Fn(usize) -> String, count: usize) -> String {
    let all: Vec<String> = (0..count).map(entry).collect();
    format!("{{\"servers\":{{{}}}}}", all.join(","))
}

fn read_one_line(text: &str) -> Result<Loaded, Vec<Diagnostic>> {
    assert!(!text.contains('\n') && text.len() < 4 << 20, "{}", text.len());
    config::load_text(Path::new("mcp.json"), text, &environment("invalid"))
}

#[test]
fn a_file_with_more_than_anybody_writes_is_refused_before_it_costs_anything() {
    let problems = read_one_line(&crowd(|n| format!("\"{n}\":{{}}"), 300_000)).expect_err("huge");
    assert_eq!(problems.len(), 1);
    assert_eq!(problems[0].rule, "config/too-large");
}

#[test]
fn a_crowd_of_entries_on_one_line_is_read_in_one_go() {
    // The last of a chain is broken: every other one is left out because of the next.
    let chain = |n| format!("\"s{n}\":{{\"command\":\"x\",\"dependsOn\":[\"s{}\"]}}", n + 1);
    let loaded = read_one_line(&crowd(chain, 5_000)).expect("usable");
    assert_eq!(loaded.left_out.len(), 5_000);
    let circle =
        |n| format!("\"s{n}\":{{\"command\":\"x\",\"dependsOn\":[\"s{}\"]}}", (n + 1) % 5_000);
    let loaded = read_one_line(&crowd(circle, 5_000)).expect("usable");
    assert!(loaded.diagnostics.iter().any(|d| d.rule == "config/cycle"));
    let same = |n| format!("\"s{}\":{{\"command\":\"x\",\"env\":{{\"A\":\"{n}\"}}}}", n % 7);
    let problems = read_one_line(&crowd(same, 5_000)).expect_err("defined twice");
    assert_eq!(problems.iter().filter(|d| d.is_error()).count(), 4_993);
    let env: Vec<String> = (0..16_000).map(|n| format!("\"A{}\":\"x\"", n % 8_000)).collect();
    let env = env.join(",");
    let one = format!("{{\"servers\":{{\"a\":{{\"command\":\"x\",\"env\":{{{env}}}}}}}}}");
    let loaded = read_one_line(&one).expect("usable");
    assert_eq!(loaded.diagnostics.len(), 8_000);
}

#[test]
fn names_of_any_length_are_compared_without_a_table_of_their_product() {
    let long = "x".repeat(1 << 20);
    let text = format!(
        "{{\"servers\":{{\"y{long}\":{{\"command\":\"x\",\"{long}\":1,\"dependsOn\":[\"{long}\"]}}}}}}"
    );
    let loaded = read_one_line(&text).expect("usable");
    assert!(loaded.diagnostics.iter().any(|d| d.rule == "config/dependency"));
}

#[test]
fn a_place_in_a_long_line_is_counted_in_characters() {
    let pad = "ü".repeat(5_000);
    let text = format!("{{\"servers\":{{\"a\":{{\"command\":\"{pad}\",\"cmmand\":1}}}}}}");
    let loaded = read_one_line(&text).expect("usable");
    let odd = loaded.diagnostics.iter().find(|d| d.rule == "config/unknown-key").expect("reported");
    let before = text.split("\"cmmand").next().expect("before").chars().count();
    assert_eq!(odd.at.column as usize, before + 1);
    assert!(odd.snippet.chars().count() < 200);
}

#[test]
fn a_file_may_be_nested_to_the_limit_and_not_one_level_deeper() {
    let nested = |levels: usize| {
        let inside = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        read_one_line(&format!("{{\"servers\":{{}},\"_\":{inside}}}"))
    };
    nested(63).expect("64 levels in all");
    let problems = nested(64).expect_err("one more");
    assert_eq!(problems[0].rule, "config/too-deep");
}
