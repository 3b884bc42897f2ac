//! `mcpdeck test` over real processes: suites, reports, exit codes, files.

use std::time::Duration;

use crate::support::{Bench, Finished};
use serde_json::{Value, json};

const AT_MOST: Duration = Duration::from_secs(90);
/// For many calls on a machine that does other things too.
const AT_MOST_FOR_MANY: Duration = Duration::from_secs(300);

/// A server with a state: notes that are created, read, listed and dropped.
const NOTES: &str = include_str!("../../fixtures/bench/notes.py");

/// A folder whose server `notes` is played by Python.
fn notes() -> Bench {
    let bench = Bench::new();
    let script = bench.write("notes.py", NOTES);
    bench.servers(&json!({"notes": {"command": "python3", "args": [script],
        "env": {crate::support::MARK: bench.mark()}}}));
    bench
}

fn test(bench: &Bench, file: &Value, more: &[&str]) -> Finished {
    bench.write("mcp.tests.json", &format!("{file:#}"));
    bench.run(&[&["test"], more].concat(), AT_MOST)
}

fn report(bench: &Bench, file: &Value, more: &[&str]) -> (Option<i32>, Value) {
    let done = test(bench, file, &[&["--format", "json"], more].concat());
    (done.code, done.json())
}

fn verdicts(report: &Value, suite: usize) -> Vec<&str> {
    let steps = report["suites"][suite]["steps"].as_array().expect("steps");
    steps.iter().map(|step| step["verdict"].as_str().expect("a verdict")).collect()
}

#[test]
fn values_flow_from_step_to_step_and_every_expectation_counts() {
    let bench = notes();
    let file = json!({"suites": {"life of a note": {
        "answers": [{"kind": "elicitation", "accept": {"sure": true}}],
        "steps": [
            {"id": "create", "tool": "notes.create", "arguments": {"title": "a", "body": "b"},
             "expect": {"paths": {"$.id": {"type": "integer"}, "$.title": "a"}, "listChanged": ["resources"]}},
            {"wait": "notifications/resources/list_changed", "server": "notes"},
            {"tool": "notes.read", "arguments": {"id": "${steps.create.id}"},
             "expect": {"json": {"title": "a", "id": "${steps.create.id}"}, "schema": {"required": ["body"]},
                        "maxDurationMs": 60000, "stderr": "warning", "memoryMb": 4000}},
            {"resource": "note:///${steps.create.id}", "server": "notes", "expect": {"text": "^b$"}},
            {"prompt": "notes.summary", "arguments": {"style": "short"}, "expect": {"text": "short"}},
            {"tool": "notes.drop", "arguments": {"id": "${steps.create.id}"}, "expect": {"asks": ["elicitation"]}},
            {"tool": "notes.read", "arguments": {"id": "${steps.create.id}"}, "expect": {"isError": true, "text": "no note"}}]}}});
    let (code, report) = report(&bench, &file, &[]);
    assert_eq!(code, Some(0), "{report:#}");
    assert_eq!(verdicts(&report, 0), ["passed"; 7]);
    bench.expect_nothing_left(Duration::from_secs(20));
}

#[test]
fn a_failed_step_names_its_line_and_what_needs_its_value_is_skipped() {
    let bench = notes();
    let file = json!({"suites": {"wrong": {"steps": [
        {"id": "gone", "tool": "notes.read", "arguments": {"id": 77}},
        {"tool": "notes.drop", "arguments": {"id": "${steps.gone.id}"}},
        {"tool": "notes.create", "arguments": {"title": "x"}, "expect": {"json": {"title": "y"}, "stderr": "info"}},
        {"tool": "notes.creat"}],
        "teardown": [{"tool": "notes.list"}]}}});
    let done = test(
        &bench,
        &file,
        &[
            "-v",
            "--format",
            "human",
            "--format",
            "junit=j.xml",
            "--format",
            "sarif=s.json",
            "--format",
            "html=h.html",
        ],
    );
    assert_eq!(done.code, Some(1), "{done:?}");
    for words in [
        "FAILED  gone",
        "mcp.tests.json:",
        "skipped tool notes.drop",
        "gave no value",
        "expected \"y\"",
        "the server wrote (warning)",
        "passed  teardown tool notes.list",
    ] {
        assert!(done.stdout.contains(words), "{words}\n{}", done.stdout);
    }
    let read = |name: &str| std::fs::read_to_string(bench.path().join(name)).expect("written");
    let junit = read("j.xml");
    assert!(junit.contains("failures=\"3\"") && junit.contains("test/failed"), "{junit}");
    assert!(!junit.contains("1970-01-01"), "{junit}");
    let sarif: Value = serde_json::from_str(&read("s.json")).expect("JSON");
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "mcp.tests.json");
    assert!(place["region"]["startLine"].as_u64() > Some(1));
    assert!(read("h.html").contains("expected &quot;y&quot;"));
    // The suite is remembered, and forgotten once it passes.
    let again = test(&bench, &file, &["--only-failed", "-q"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    let mended = json!({"suites": {"wrong": {"steps": [{"tool": "notes.list"}]}}});
    assert_eq!(test(&bench, &mended, &["--only-failed"]).code, Some(0));
    let none = test(&bench, &mended, &["--only-failed"]);
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.contains("no suite failed"), "{none:?}");
}

#[test]
fn what_is_fuzzed_without_a_finding_is_a_test_that_passed_and_the_page_shows_it() {
    let bench = notes();
    let args = [
        "--fuzz",
        "--cases",
        "20",
        "--format",
        "human",
        "--format",
        "junit=j.xml",
        "--format",
        "html=h.html",
    ];
    let done = bench.run(&[&["test"], &args[..]].concat(), AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    let read = |name: &str| std::fs::read_to_string(bench.path().join(name)).expect("written");
    let (junit, page) = (read("j.xml"), read("h.html"));
    assert!(junit.contains("classname=\"mcpdeck.fuzz notes\""), "{junit}");
    assert!(junit.contains("name=\"step notes.create\""), "{junit}");
    assert!(junit.contains("<skipped/>") && junit.contains("failures=\"0\""), "{junit}");
    assert!(page.contains("<h2 class=\"\">Fuzzing") && page.contains("notes.list"), "{page}");
}

#[test]
fn what_github_reads_names_files_from_the_root_of_the_checkout() {
    let bench = notes();
    let file = json!({"suites": {"a": {"steps": [{"tool": "notes.nothing"}]}}});
    bench.write("mcp.tests.json", &file.to_string());
    let folder = bench.path().canonicalize().expect("a folder");
    let name = folder.file_name().expect("a name").to_string_lossy().into_owned();
    let elsewhere = folder.join("elsewhere");
    for (root, expected) in [
        (folder.parent().expect("a parent"), format!("{name}/mcp.tests.json")),
        (&*folder, "mcp.tests.json".to_owned()),
        (&*elsewhere, "mcp.tests.json".to_owned()),
    ] {
        let args = ["test", "--format", "github", "--format", "sarif=s.json"];
        let mut command = bench.command(&args);
        command.env("GITHUB_WORKSPACE", root);
        let done = crate::support::finish(command, AT_MOST);
        assert!(done.stdout.contains(&format!("::error file={expected},line=")), "{done:?}");
        let sarif = std::fs::read_to_string(folder.join("s.json")).expect("written");
        assert!(sarif.contains(&format!("\"uri\": \"{expected}\"")), "{sarif}");
    }
}

#[test]
fn a_summary_of_github_shows_the_report_whatever_servers_say() {
    let bench = notes();
    let file = json!({"suites": {"a": {"steps": [
        {"tool": "notes.create", "arguments": {"title": "```\n# ~~~ ````"},
         "expect": {"json": {"title": "y"}}}]}}});
    bench.write("mcp.tests.json", &file.to_string());
    let summary = bench.path().join("summary.md");
    let mut command = bench.command(&["test", "--format", "github"]);
    command.env("GITHUB_STEP_SUMMARY", &summary);
    let done = crate::support::finish(command, AT_MOST);
    assert_eq!(done.code, Some(1), "{done:?}");
    let text = std::fs::read_to_string(summary).expect("written");
    let fence = text.lines().find(|line| line.starts_with('`')).expect("a fence");
    assert_eq!(fence, "`````", "{text}");
    assert_eq!(text.lines().filter(|line| *line == fence).count(), 2, "{text}");
}

#[test]
fn a_step_has_one_name_in_junit_however_it_ends_and_no_two_have_the_same() {
    let bench = notes();
    let names = |title: &str| {
        let file = json!({"suites": {"a": {"steps": [
            {"tool": "notes.list"},
            {"tool": "notes.create", "arguments": {"title": title}, "expect": {"paths": {"$.id": 1}}},
            {"tool": "notes.create", "arguments": {"title": "b"}},
            {"tool": "notes.list", "expect": {"paths": {"$..title": {"matches": "^[ab]$"}}}}]}}});
        test(&bench, &file, &["--format", "junit=j.xml"]);
        let text = std::fs::read_to_string(bench.path().join("j.xml")).expect("a report");
        let mut names: Vec<String> = text
            .split("<testcase ")
            .skip(1)
            .map(|rest| {
                rest.split("name=\"")
                    .nth(2)
                    .expect("a name")
                    .split('"')
                    .next()
                    .expect("one")
                    .to_owned()
            })
            .collect();
        names.sort();
        (text.contains("<failure"), names)
    };
    let (passed, failed) = (names("a"), names("c"));
    assert_eq!((passed.0, failed.0), (false, true));
    assert_eq!(passed.1, failed.1);
    let wanted = ["step tool notes.create", "step tool notes.create (2)", "step tool notes.list"];
    assert_eq!(passed.1[..3], wanted);
}

/// A server that is named nowhere is not waited for, and what a name or a tag chooses must exist.
#[test]
fn a_name_that_nothing_has_is_named() {
    let bench = notes();
    let file = json!({"suites": {"first": {"steps": [{"wait": "notifications/x", "server": "nots"}]},
        "second": {"tags": ["slow"], "steps": [
            {"wait": "resources/updated", "timeoutMs": 50}, {"fuzz": "notes.lst"}]}}});
    let (code, report) = report(&bench, &file, &[]);
    assert_eq!(code, Some(1));
    let problem = |suite: usize, step: usize| {
        report["suites"][suite]["steps"][step]["problems"][0]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(problem(0, 0), "there is no server `nots`; did you mean `notes`?");
    assert!(problem(1, 0).contains("begin so: `notifications/resources/updated`"), "{report:#}");
    assert!(problem(1, 1).contains("no tool is named `notes.lst`"), "{report:#}");
    for (args, words) in [
        (
            vec!["--suite", "first", "--suite", "secnd"],
            "no suite is named `secnd`; did you mean `second`?",
        ),
        (
            vec!["--tag", "slow", "--tag", "slwo"],
            "no suite has the tag `slwo`; did you mean `slow`?",
        ),
    ] {
        let done = test(&bench, &file, &args);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains(words), "{done:?}");
    }
    let empty = test(&bench, &json!({"suites": {}}), &[]);
    assert!(
        empty.stderr.contains("mcp.tests.json: there are no suites; `mcpdeck test --init`"),
        "{empty:?}"
    );
}

#[test]
fn suites_have_servers_of_their_own_unless_they_share_them() {
    let bench = notes();
    let create = json!({"tool": "notes.create", "arguments": {"title": "a"}});
    let list = |many: usize| json!({"tool": "notes.list", "expect": {"paths": {"$.notes[*]": {"count": many}}}});
    let mut file = json!({"suites": {
        "one": {"tags": ["quick"], "steps": [create, list(1)]},
        "two": {"steps": [create, list(1)]}}});
    let (code, fresh) = report(&bench, &file, &[]);
    assert_eq!(code, Some(0), "{fresh:#}");
    file["server"] = json!("shared");
    let (code, shared) = report(&bench, &file, &[]);
    assert_eq!(code, Some(1), "{shared:#}");
    assert_eq!(verdicts(&shared, 1), ["passed", "failed"]);
    let (code, tagged) = report(&bench, &file, &["--tag", "quick"]);
    assert_eq!((code, tagged["suites"].as_array().map(Vec::len)), (Some(0), Some(1)));
}

#[test]
fn a_server_that_is_down_concerns_the_suites_that_use_it_and_null_is_a_value() {
    let bench = notes();
    let script = bench.path().join("notes.py");
    bench.servers(&json!({"notes": {"command": "python3", "args": [script]},
        "bad": {"command": "python3", "args": ["-c", "raise SystemExit(3)"]}}));
    let list = |expect: Value| json!({"tool": "notes.list", "expect": expect});
    let file = json!({"server": "shared", "suites": {
        "good": {"tags": ["quick"], "steps": [list(json!({})), list(json!({"json": null})),
            list(json!({"paths": {"$": {"equals": null}}}))]},
        "down": {"steps": [{"tool": "bad.x"}]}}});
    let (code, report) = report(&bench, &file, &[]);
    assert_eq!(code, Some(3), "{report:#}");
    assert_eq!(verdicts(&report, 0), ["passed", "failed", "failed"], "{report:#}");
    assert_eq!(report["suites"][1]["verdict"], "incomplete");
    let tag = test(&bench, &file, &["--tag", "quik"]);
    assert!(tag.stderr.contains("no suite has the tag `quik`; did you mean `quick`?"), "{tag:?}");
    let near = json!({"suites": {"a": {"steps": [{"tool": "notes.lst"}], "retry": 1}}});
    let near = test(&bench, &near, &[]);
    assert!(near.stderr.contains("\"retry\" is not known; did you mean `retries`?"), "{near:?}");
}

#[test]
fn a_retried_step_is_flaky_and_a_snapshot_is_kept_then_compared() {
    let bench = notes();
    let file = json!({"suites": {"s": {"steps": [
        {"tool": "notes.sometimes", "retries": 2},
        {"id": "made", "tool": "notes.create", "arguments": {"title": "t"},
         "expect": {"snapshot": true, "mask": ["$.created"]}}]}}});
    let (code, first) = report(&bench, &file, &[]);
    assert_eq!(code, Some(1));
    assert_eq!(verdicts(&first, 0), ["flaky", "failed"], "{first:#}");
    let (code, updated) = report(&bench, &file, &["--update"]);
    assert_eq!(code, Some(0), "{updated:#}");
    assert_eq!(report(&bench, &file, &[]).0, Some(0));
    let kept = bench.path().join("mcp.tests.snapshots.json");
    let text = std::fs::read_to_string(&kept).expect("the snapshots");
    assert!(text.contains("[masked]"), "{text}");
    std::fs::write(&kept, text.replace("\"t\"", "\"u\"")).expect("writable");
    let (code, differs) = report(&bench, &file, &[]);
    assert_eq!(code, Some(1));
    let problem = differs["suites"][0]["steps"][1]["problems"][0].as_str().expect("a problem");
    assert!(problem.contains("/title: is \"t\", was \"u\""), "{problem}");
}

#[test]
fn a_first_file_is_written_that_runs_and_is_not_overwritten() {
    let bench = notes();
    let done = bench.run(&["test", "--init"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    let text = std::fs::read_to_string(bench.path().join("mcp.tests.json")).expect("written");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let steps = file["suites"]["notes"]["steps"].as_array().expect("steps");
    let named = |name: &str| steps.iter().find(|step| step["tool"] == name).expect("a step");
    assert!(named("notes.list").get("skip").is_none(), "{file:#}");
    assert!(named("notes.create")["skip"].as_str().is_some_and(|why| why.contains("read-only")));
    assert_eq!(bench.run(&["test"], AT_MOST).code, Some(0));
    let again = bench.run(&["test", "--init"], AT_MOST);
    assert_eq!(again.code, Some(2));
    assert!(again.stderr.contains("exists"), "{again:?}");
}

#[test]
fn a_first_file_takes_no_refusal_of_a_made_up_word_for_a_fault() {
    let away = json!({
        "name": "away", "annotations": {"readOnlyHint": true, "openWorldHint": true},
        "inputSchema": {"type": "object"},
    });
    let choosy = json!({
        "serverInfo": {"name": "choosy", "version": "1"}, "capabilities": {"prompts": {}, "tools": {}},
        "prompts": [
            {"name": "kind", "arguments": [{"name": "type", "required": true}]},
            {"name": "plain"},
        ],
        "gets": {"kind": {"error": {"code": -32602, "message": "must be Text or Blob"}}},
        "tools": [
            choosy_tool("read", &json!({"type": "string"})),
            choosy_tool("pick", &json!({"enum": ["x"]})),
            choosy_tool("draw", &json!({"type": "array", "minItems": 1, "items": {"type": "object"}})),
            choosy_tool("turn", &json!({"type": "boolean"})),
            away,
        ],
        "calls": {
            "read": {"toolError": "no such file"}, "pick": {"text": "x"}, "turn": {"text": "x"},
            "draw": {"error": {"code": -32603, "message": "no such row"}},
            "away": {"error": {"code": -32603, "message": "getaddrinfo ENOTFOUND a.example"}},
        },
    });
    let bench = Bench::playing(&[("choosy", choosy)]);
    assert_eq!(bench.run(&["test", "--init"], AT_MOST).code, Some(0));
    let done = bench.run(&["test"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    // A prompt that needs nothing must be given.
    let text = std::fs::read_to_string(bench.path().join("mcp.tests.json")).expect("written");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let may_fail = |n: usize| file["suites"]["choosy"]["steps"][n]["expect"]["mayFail"].clone();
    // Nor must a tool take a made-up path or row, or reach another machine; but what its own schema
    // lists.
    let (yes, no) = (json!(true), Value::Null);
    let wanted = [&yes, &no, &yes, &no, &yes, &yes, &no];
    for (n, wanted) in wanted.into_iter().enumerate() {
        assert_eq!(may_fail(n), *wanted, "{n} {file:#}");
    }
}

/// A tool that reads, with one parameter.
fn choosy_tool(name: &str, what: &Value) -> Value {
    json!({"name": name, "annotations": {"readOnlyHint": true},
           "inputSchema": {"type": "object", "properties": {"what": what}, "required": ["what"]}})
}

#[test]
fn what_cannot_be_used_is_refused_before_anything_starts() {
    let bench = notes();
    let missing = bench.run(&["test"], AT_MOST);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("--init"), "{missing:?}");
    let wrong = test(&bench, &json!({"suites": {"a": {"step": []}}}), &[]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("mcp.tests.json:") && wrong.stderr.contains("step"), "{wrong:?}");
    let file = json!({"suites": {"notes": {"steps": [{"tool": "notes.list"}]}}});
    let near = test(&bench, &file, &["--suite", "note"]);
    assert_eq!(near.code, Some(2));
    assert!(near.stderr.contains("did you mean `notes`?"), "{near:?}");
    let down = Bench::new();
    down.servers(
        &json!({"notes": {"command": "python3", "args": ["-c", "raise SystemExit('no luck')"]}}),
    );
    let (code, report) = report(&down, &file, &[]);
    assert_eq!(code, Some(3), "{report:#}");
    assert!(
        report["suites"][0]["reason"].as_str().is_some_and(|r| r.contains("no luck")),
        "{report:#}"
    );
}

/// The server with twenty planted faults, or its sound twin.
fn faulty(twin: &[&str]) -> Bench {
    let bench = Bench::new();
    let script = bench.write("faulty.py", include_str!("../../fixtures/bench/faulty.py"));
    let mut args = vec![script.to_string_lossy().into_owned()];
    args.extend(twin.iter().map(|word| (*word).to_owned()));
    bench.servers(&json!({"s": {"command": "python3", "args": args, "env": {crate::support::MARK: bench.mark()}}}));
    bench.write(
        "mcp.tests.json",
        &json!({"fuzz": {"accepted": "error", "claims": {"s.counts_reads": {"tool": "counter"}}}, "suites": {}}).to_string(),
    );
    bench
}

#[test]
fn every_planted_fault_is_found_and_shrunk_to_one_odd_value() {
    let bench = faulty(&[]);
    let done = bench.run(&["test", "--fuzz", "--save", "--format", "json"], AT_MOST_FOR_MANY);
    assert_eq!(done.code, Some(1), "{done:?}");
    let report = done.json();
    let findings = report["fuzz"]["findings"].as_array().expect("findings");
    for (tool, rule) in [
        ("crash_on_bound", "crash"),
        ("crash_on_emoji", "crash"),
        ("hang_on_empty", "hang"),
        ("hang_on_option", "hang"),
        ("junk_line", "protocol"),
        ("wrong_shape", "protocol"),
        ("refuses_enum", "refused"),
        ("refuses_bound", "refused"),
        ("refuses_format", "refused"),
        ("refuses_branch", "refused"),
        ("accepts_missing", "accepted"),
        ("accepts_type", "accepted"),
        ("accepts_bound", "accepted"),
        ("accepts_pattern", "accepted"),
        ("breaks_output", "output"),
        ("shows_trace", "leak"),
        ("shows_secret", "leak"),
        ("breaks_state", "state"),
        ("keeps_memory", "memory"),
        ("counts_reads", "claim"),
    ] {
        let found = |finding: &&Value| {
            finding["tool"] == format!("s.{tool}") && finding["rule"] == format!("fuzz/{rule}")
        };
        let first = findings.iter().find(found);
        let first = first.unwrap_or_else(|| panic!("{tool}: {rule} was not found\n{report:#}"));
        // The place of the odd value, or none: the smallest arguments show it.
        let smallest = first["what"] == "the smallest arguments";
        assert_eq!(first["place"] == "", smallest, "{first:#}");
    }
    let tools = ["counter"];
    for finding in findings {
        let tool = finding["tool"].as_str().expect("a tool").trim_start_matches("s.");
        assert!(!tools.contains(&tool), "{finding:#}");
    }
    // What was saved fails as a step, and is a call that can be made.
    let steps = bench
        .run(&["test", "--suite", "fuzz", "--format", "json", "--timeout", "3"], AT_MOST_FOR_MANY);
    assert_eq!(steps.code, Some(1), "{steps:?}");
    let calls = bench.run(&["call", "--list"], AT_MOST);
    assert!(calls.stdout.contains("crash s.crash_on_bound"), "{calls:?}");
    bench.expect_nothing_left(Duration::from_secs(20));
}

#[test]
fn the_sound_twin_has_no_findings_and_the_seed_repeats_the_calls() {
    let bench = faulty(&["sound"]);
    let fuzz = |seed: &str| {
        let done = bench.run(&["test", "--fuzz", "--seed", seed, "--format", "json"], AT_MOST);
        assert_eq!(done.code, Some(0), "{done:?}");
        let report = done.json();
        assert_eq!(report["fuzz"]["findings"], json!([]), "{report:#}");
        report["fuzz"]["tools"].clone()
    };
    assert_eq!(fuzz("7"), fuzz("7"));
    let done = bench.run(&["test", "--fuzz", "--sequences", "-q"], AT_MOST);
    assert_eq!((done.code, done.stdout.as_str()), (Some(0), ""), "{done:?}");
}

/// The second server with planted faults, or its sound twin.
fn odd(words: &[&str]) -> Bench {
    let bench = Bench::new();
    let script = bench.write("odd.py", include_str!("../../fixtures/bench/odd.py"));
    let mut args = vec![script.to_string_lossy().into_owned()];
    args.extend(words.iter().map(|word| (*word).to_owned()));
    bench.servers(&json!({"s": {"command": "python3", "args": args, "env": {crate::support::MARK: bench.mark()}}}));
    let seen = json!({"tool": "overview"});
    let file = json!({"suites": {}, "fuzz": {"accepted": "error", "allow": ["s.adds_again"],
        "claims": {"s.reads_and_writes": seen, "s.adds_again": seen}}});
    bench.write("mcp.tests.json", &file.to_string());
    bench
}

/// Its faults: the tool, the rule, and words of what is said.
const ODD_FAULTS: [(&str, &str, &str); 41] = [
    ("keeps_unit", "carryover", "instead of \"1 metre\""),
    ("shows_last", "carryover", "before: "),
    ("refuses_most_items", "refused", "too many tags"),
    ("counts_units", "refused", "at most 10 characters"),
    ("refuses_decomposed", "refused", "invalid character in name"),
    ("crash_on_blank", "crash", "exit code 7"),
    ("hang_on_null", "hang", "did not answer"),
    ("crash_on_depth", "crash", "exit code 8"),
    ("crash_on_chain", "crash", "exit code 9"),
    ("crash_after_answer", "state", "code 10"),
    ("writes_nan", "protocol", "NaN"),
    ("writes_twice", "protocol", "`content` appears twice"),
    ("answers_twice", "protocol", "a second answer"),
    ("wrong_content", "protocol", "content"),
    ("lacks_output", "output", "n"),
    ("text_output", "output", "/n"),
    ("no_output", "output", "structuredContent"),
    ("shows_token", "leak", "a credential"),
    ("reads_and_writes", "claim", "read-only, and changes what `overview` shows"),
    ("adds_again", "claim", "idempotent, and its second call changes what `overview` shows"),
    ("takes_text_for_number", "accepted", "forbids"),
    ("takes_text_for_truth", "accepted", "forbids"),
    ("takes_number_for_truth", "accepted", "forbids"),
    ("takes_one_for_list", "accepted", "forbids"),
    ("takes_text_for_object", "accepted", "forbids"),
    ("takes_number_for_text", "accepted", "forbids"),
    ("accepts_longer", "accepted", "forbids"),
    ("accepts_limit", "accepted", "forbids"),
    ("accepts_unknown", "accepted", "forbids"),
    ("accepts_unknown_inside", "accepted", "forbids"),
    ("accepts_both", "accepted", "forbids"),
    ("accepts_alone", "accepted", "forbids"),
    ("accepts_values", "accepted", "forbids"),
    ("accepts_names", "accepted", "forbids"),
    ("accepts_crowd", "accepted", "forbids"),
    ("accepts_not", "accepted", "forbids"),
    ("accepts_const", "accepted", "forbids"),
    ("accepts_other_number", "accepted", "forbids"),
    ("accepts_lists_without", "accepted", "forbids"),
    ("accepts_second", "accepted", "forbids"),
    ("accepts_without_then", "accepted", "forbids"),
];

#[test]
fn every_fault_of_the_second_server_is_found_and_what_is_said_of_it_names_it() {
    let bench = odd(&[]);
    let done = bench.run(&["test", "--fuzz", "--format", "json"], AT_MOST_FOR_MANY);
    assert_eq!(done.code, Some(1), "{done:?}");
    let report = done.json();
    let findings = report["fuzz"]["findings"].as_array().expect("findings");
    let mut left: Vec<String> = Vec::new();
    for (tool, rule, words) in ODD_FAULTS {
        let found = findings
            .iter()
            .find(|it| it["tool"] == format!("s.{tool}") && it["rule"] == format!("fuzz/{rule}"));
        match found {
            Some(found) if found["message"].as_str().is_some_and(|it| it.contains(words)) => {}
            Some(found) => left.push(format!("{tool}: {}", found["message"])),
            None => left.push(format!("{tool}: no {rule}")),
        }
    }
    let is_planted = |finding: &&Value| {
        finding["tool"] == "s.slow_by_length"
            || ODD_FAULTS.iter().any(|(tool, rule, _)| {
                finding["tool"] == format!("s.{tool}") && finding["rule"] == format!("fuzz/{rule}")
            })
    };
    left.extend(findings.iter().filter(|it| !is_planted(it)).map(|it| format!("besides: {it}")));
    assert!(left.is_empty(), "{}", left.join("\n"));
    bench.expect_nothing_left(Duration::from_secs(20));
}

#[test]
fn the_sound_twin_of_the_second_server_has_no_findings() {
    let bench = odd(&["sound"]);
    let words = ["test", "--fuzz", "--sequences", "--format", "json"];
    let done = bench.run(&words, AT_MOST_FOR_MANY);
    let report = done.json();
    assert_eq!(report["fuzz"]["findings"], json!([]), "{:#}", report["fuzz"]["findings"]);
    let called = report["fuzz"]["tools"].as_array().expect("tools");
    assert!(called.iter().all(|tool| tool["note"].is_null()), "{called:#?}");
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn what_is_wrong_with_the_list_of_tools_is_a_finding_and_a_tool_set_aside_is_named() {
    let fuzz = |words: &[&str], more: &[&str]| {
        let bench = odd(&[&["sound", "few"], words].concat());
        bench.write("mcp.tests.json", "{\"suites\": {}}");
        bench
            .run(&[&["test", "--fuzz", "--cases", "3", "--format", "json"], more].concat(), AT_MOST)
    };
    for (word, words) in [("bare", "inputSchema"), ("loop", "tools/list is not complete")] {
        let done = fuzz(&[word], &[]);
        assert_eq!(done.code, Some(1), "{done:?}");
        let report = done.json();
        let findings = report["fuzz"]["findings"].as_array().expect("findings");
        assert!(findings.iter().all(|it| it["rule"] == "fuzz/protocol"), "{findings:#?}");
        let is_it = |it: &Value| it["message"].as_str().is_some_and(|it| it.contains(words));
        assert_eq!(findings.iter().filter(|it| is_it(it)).count(), 1, "{findings:#?}");
    }
    let done = fuzz(&["bare"], &["-v"]);
    let tools = done.json()["fuzz"]["tools"].clone();
    let bare = tools.as_array().expect("tools").iter().find(|tool| tool["tool"] == "s.bare");
    let note = bare.and_then(|bare| bare["note"].as_str()).unwrap_or_default();
    assert!(note.contains("was set aside") && note.contains("inputSchema"), "{tools:#}");
}

#[test]
fn memory_that_grows_is_found_in_every_server_however_quickly_its_cases_are_called() {
    let bench = Bench::new();
    let script = bench.write("faulty.py", include_str!("../../fixtures/bench/faulty.py"));
    let entry = json!({"command": "python3", "args": [script.to_string_lossy()],
                       "env": {crate::support::MARK: bench.mark()}});
    bench.servers(&json!({"a": entry, "b": entry, "c": entry}));
    let done = bench.run(&["test", "--fuzz=*.keeps_memory", "--format", "json"], AT_MOST);
    let report = done.json();
    let findings = report["fuzz"]["findings"].as_array().expect("findings");
    let grown = findings.iter().filter(|finding| finding["rule"] == "fuzz/memory");
    let tools: Vec<&Value> = grown.map(|finding| &finding["tool"]).collect();
    let all = ["a", "b", "c"].map(|server| json!(format!("{server}.keeps_memory")));
    assert_eq!(tools, all.iter().collect::<Vec<_>>(), "{report:#}");
}

/// A server that ends as soon as two calls reach it together, and answers them one by one.
const ONE_AT_A_TIME: &str = r#"
import json, os
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 99}},
          "required": ["n"], "additionalProperties": False}
TOOL = {"name": "count", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}}
rest = b""
while True:
    chunk = os.read(0, 1 << 16)
    if not chunk:
        break
    *lines, rest = (rest + chunk).split(b"\n")
    if sum(b"tools/call" in line for line in lines) > 1:
        os._exit(5)
    for message in map(json.loads, filter(None, lines)):
        method, params = message.get("method"), message.get("params") or {}
        if "id" not in message:
            continue
        answer = {"result": {}}
        if method == "initialize":
            answer = {"result": {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                                 "serverInfo": {"name": "one", "version": "1"}}}
        elif method == "tools/list":
            answer = {"result": {"tools": [TOOL]}}
        elif method == "tools/call":
            n = params["arguments"].get("n")
            fits = type(n) is int and 0 <= n <= 99 and len(params["arguments"]) == 1
            answer = ({"result": {"content": [{"type": "text", "text": "ok"}]}} if fits
                      else {"error": {"code": -32602, "message": "n is not fit"}})
        os.write(1, (json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n").encode())
"#;

#[test]
fn a_server_that_crashes_with_calls_at_once_is_found_and_fine_when_called_one_by_one() {
    let bench = Bench::new();
    let script = bench.write("one.py", ONE_AT_A_TIME);
    bench.servers(&json!({"one": {"command": "python3", "args": [script],
        "env": {crate::support::MARK: bench.mark()}}}));
    let found = |more: &[&str]| {
        let done = bench.run(&[&["test", "--fuzz", "--format", "json"], more].concat(), AT_MOST);
        let report = done.json();
        let findings = report["fuzz"]["findings"].as_array().expect("findings").clone();
        findings.into_iter().filter(|it| it["severity"] != "note").collect::<Vec<_>>()
    };
    let findings = found(&[]);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0]["rule"], "fuzz/concurrency");
    let calls = findings[0]["calls"].as_array().expect("calls").len();
    assert!((2..=16).contains(&calls), "{calls}");
    assert_eq!(found(&["--fresh", "--cases", "12"]), Vec::<Value>::new());
}

#[test]
fn settings_of_fuzzing_that_name_what_is_not_there_leave_it_incomplete() {
    let bench = notes();
    let fuzz = |settings: &Value| {
        bench.write("mcp.tests.json", &json!({"fuzz": settings, "suites": {}}).to_string());
        bench.run(&["test", "--fuzz", "--cases", "3"], AT_MOST)
    };
    for (settings, words) in [
        (
            json!({"seeds": {"notes.lst": {}}}),
            "fuzz.seeds: notes.lst the server has no such tool; did you mean `notes.list`?",
        ),
        (
            json!({"seeds": {"nots.list": {}}}),
            "fuzz.seeds: nots.list there is no such server; did you mean `notes`?",
        ),
        (
            json!({"claims": {"notes.list": {"tool": "lst"}}}),
            "fuzz.claims: notes.lst the server has no such tool",
        ),
        (json!({"skip": ["notes.lists"]}), "fuzz.skip: notes.lists the server has no such tool"),
        (json!({"skip": ["notes/lists"]}), "fuzz.skip: notes/lists the server has no such tool"),
        (json!({"skip": ["notes/del*"]}), "fuzz.skip: notes/del* the server has no such tool"),
        (json!({"skip": ["nots__*"]}), "fuzz.skip: nots__* there is no such server; did you mean"),
        (json!({"skip": ["lis*"]}), "fuzz.skip: lis* it matches nothing that the servers offer"),
        (json!({"allow": ["list"]}), "fuzz.allow: list it matches nothing that the servers offer"),
        (
            json!({"skip": ["notes:create"], "claims": {"notes/list": {"tool": "create"}}}),
            "fuzz.claims: notes.create `fuzz.skip` names it",
        ),
        (json!({"folders": {"nots": "."}}), "fuzz.folders: nots there is no such server"),
    ] {
        let done = fuzz(&settings);
        assert_eq!(done.code, Some(3), "{done:?}");
        assert!(done.stdout.contains(words), "{words}\n{done:?}");
    }
    // A tool may be named with its server or without.
    for tool in ["list", "notes.list", "notes/list", "notes__list"] {
        let done = fuzz(&json!({"claims": {"notes.list": {"tool": tool}}}));
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    let refused = fuzz(&json!({"seeds": {"notes.list": {"no": 1}}}));
    assert!(!refused.stdout.contains("smallest arguments of its schema"), "{refused:?}");
    for tool in ["notes.read", "notes/read", "notes__read"] {
        let file = json!({"fuzz": {"seeds": {tool: {"id": "x"}}}, "suites": {}});
        let refused = test(&bench, &file, &["--fuzz=notes.read", "--cases", "3"]);
        assert!(refused.stdout.contains("what `fuzz.seeds` gives"), "{refused:?}");
    }
}

#[test]
fn a_tool_to_skip_is_not_called_however_it_is_spelled() {
    let bench = notes();
    let called = |settings: &Value, more: &[&str]| {
        bench.write("mcp.tests.json", &json!({"fuzz": settings, "suites": {}}).to_string());
        let all = ["test", "--fuzz", "--cases", "3", "--format", "json"];
        let done = bench.run(&[&all, more].concat(), AT_MOST);
        let report = done.json();
        assert_eq!(report["fuzz"]["failed"], json!({}), "{report:#}");
        let tools = report["fuzz"]["tools"].as_array().expect("tools").clone();
        let called = tools.iter().filter(|tool| tool["cases"] != json!(0));
        called.map(|tool| tool["tool"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    for sign in [".", "/", ":", "__"] {
        for pattern in ["create", "c*"] {
            let skip = json!({"skip": [format!("notes{sign}{pattern}")]});
            assert_eq!(
                called(&skip, &["--allow", "notes.{create,list}"]),
                ["notes.list"],
                "{skip}"
            );
        }
        let allow = format!("notes{sign}create");
        assert_eq!(called(&json!({}), &["--allow", &allow]), ["notes.create", "notes.list"]);
    }
    let named = bench.run(&["test", "--fuzz=notes/create", "--cases", "3"], AT_MOST);
    assert!(named.stdout.contains("in 1 tool"), "{named:?}");
    let several = ["test", "--fuzz=notes/list", "--fuzz=notes/lst", "--cases", "3"];
    let several = bench.run(&several, AT_MOST);
    assert_eq!(several.code, Some(3), "{several:?}");
    assert!(several.stdout.contains("fuzz: notes/lst the server has no such tool"), "{several:?}");
    let no_glob = bench.run(&["test", "--fuzz", "--allow", "["], AT_MOST);
    assert_eq!(no_glob.code, Some(2), "{no_glob:?}");
}

#[test]
fn only_tools_that_read_or_are_named_are_fuzzed() {
    let bench = notes();
    let run = |more: &[&str]| {
        let done = bench.run(
            &[&["test", "--fuzz", "--cases", "8", "--format", "json"], more].concat(),
            AT_MOST,
        );
        let report = done.json();
        let tools = report["fuzz"]["tools"].as_array().expect("tools").clone();
        let called = tools.iter().filter(|tool| tool["cases"] != json!(0));
        called.map(|tool| tool["tool"].as_str().expect("a name").to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(run(&[]), ["notes.list"]);
    assert_eq!(run(&["--allow", "notes.{create,list}"]), ["notes.create", "notes.list"]);
    let named = bench.run(&["test", "--fuzz=notes.create", "--cases", "8"], AT_MOST);
    assert!(named.stdout.contains("in 1 tool"), "{named:?}");
    let refused = bench.run(&["test", "--fuzz=notes.c*"], AT_MOST);
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("not annotated read-only"), "{refused:?}");
}

#[test]
fn the_coverage_says_what_no_step_reached() {
    let bench = notes();
    let file = json!({"suites": {"s": {"steps": [
        {"id": "a", "tool": "notes.create", "arguments": {"title": "x"}},
        {"tool": "notes.read", "arguments": {"id": 9}, "expect": {"isError": true}},
        {"resource": "note:///${steps.a.id}", "server": "notes"}]}}});
    let (code, report) = report(&bench, &file, &["--coverage"]);
    assert_eq!(code, Some(0), "{report:#}");
    let coverage = &report["coverage"];
    let tool = |name: &str| {
        let tools = coverage["tools"].as_array().expect("tools");
        tools.iter().find(|tool| tool["tool"] == name).expect("the tool").clone()
    };
    assert_eq!(
        tool("notes.create")["parameters"],
        json!({"reached": 1, "total": 2, "missed": ["/body"]})
    );
    assert_eq!(
        (&tool("notes.read")["errors"], &tool("notes.drop")["calls"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(
        (&coverage["templates"]["reached"], &coverage["prompts"]["reached"]),
        (&json!(1), &json!(0))
    );
    let done = test(&bench, &file, &["--coverage"]);
    assert!(
        done.stdout.contains("not reached: /body") && done.stdout.contains("tools 2/5"),
        "{done:?}"
    );
}

/// A provider whose model chooses the right tool in so many of ten runs.
#[cfg(feature = "chat")]
fn model(right: usize) -> crate::provider::Provider {
    use crate::provider::{Answer, Piece};
    let mut answers = Vec::new();
    for run in 0..10 {
        if run < right {
            answers.push(Answer::Stream(vec![Piece::Call("notes__list", "{}")]));
            answers.push(Answer::Stream(vec![Piece::Text("there are none")]));
        } else {
            answers.push(Answer::Stream(vec![Piece::Text("I do not know")]));
        }
    }
    crate::provider::Provider::new(answers)
}

#[cfg(feature = "chat")]
#[test]
fn models_of_known_rates_are_scored_and_a_cassette_gives_the_same_report() {
    let bench = notes();
    let file = json!({"suites": {}, "eval": {"minPass": 0, "cases": {"counts": {
        "turns": ["How many notes are there?"], "tools": ["notes.list"], "text": "none"}}}});
    bench.write("mcp.tests.json", &file.to_string());
    for (right, known) in [(9, 0.9), (5, 0.5), (0, 0.0)] {
        let provider = model(right);
        let cassette = format!("runs-{right}.json");
        let eval = |more: &[&str]| {
            let words =
                ["test", "--eval", "--runs", "10", "--cassette", &cassette, "--format", "json"];
            bench.run(&[&words[..], more].concat(), AT_MOST)
        };
        let live =
            eval(&["--provider", "openai", "--base-url", &provider.url, "--model", "scripted"]);
        assert_eq!(live.code, Some(0), "{live:?}");
        let report = live.json();
        let score = &report["eval"]["models"][0];
        let number = |at: &str| score.pointer(at).and_then(Value::as_f64).expect("a number");
        assert!((number("/pass/rate") - known).abs() < 1e-9, "{score:#}");
        assert!(number("/pass/low") <= known && known <= number("/pass/high"), "{score:#}");
        assert!((number("/recall/rate") - known).abs() < 1e-9, "{score:#}");
        drop(provider);
        let (once, twice) = (eval(&[]), eval(&[]));
        assert_eq!((once.code, &once.stdout), (Some(0), &live.stdout), "{once:?}");
        assert_eq!(once.stdout, twice.stdout);
        std::fs::write(bench.path().join(format!("report-{right}.json")), live.stdout)
            .expect("writable");
    }
    let compare = |old: &str, new: &str| {
        let done = bench.run(
            &["test", "--eval", "--cassette", new, "--compare", old, "--format", "json"],
            AT_MOST,
        );
        done.json()["eval"]["comparison"][0]["isMoreThanNoise"].clone()
    };
    assert_eq!(compare("report-0.json", "runs-9.json"), true);
    assert_eq!(compare("report-5.json", "runs-5.json"), false);
    // Where every run has to pass, half of them are not enough.
    let strict = file.to_string().replace("\"minPass\":0", "\"minPass\":0.8");
    bench.write("mcp.tests.json", &strict);
    let done = bench.run(&["test", "--eval", "--cassette", "runs-5.json"], AT_MOST);
    assert_eq!(done.code, Some(1));
    assert!(done.stdout.contains("FAILED  counts  5 of 10"), "{done:?}");
    // Another question needs another cassette.
    bench.write("mcp.tests.json", &strict.replace("How many", "Which"));
    let stale = bench.run(&["test", "--eval", "--cassette", "runs-5.json"], AT_MOST);
    assert_eq!(stale.code, Some(2));
    assert!(stale.stderr.contains("record anew"), "{stale:?}");
}

#[cfg(feature = "chat")]
#[test]
fn a_tool_that_nobody_offers_is_named_before_a_model_is_asked() {
    let bench = notes();
    let text = r#"{"suites": {}, "eval": {"cases": {"counts": {
  "turns": ["How many notes are there?"],
  "tools": [["notes.list", "notes.lst"]],
  "arguments": {"notes.raed": {"id": {"equal": 1}}} } } } }"#;
    let provider = model(9);
    let eval = |text: &str| {
        bench.write("mcp.tests.json", text);
        let words = ["test", "--eval", "--provider", "openai", "--base-url", &provider.url];
        bench.run(&[&words[..], &["--model", "scripted"]].concat(), AT_MOST)
    };
    let wrong = eval(text);
    assert!(
        wrong.stderr.contains("mcp.tests.json:4:32: /eval/cases/counts/arguments"),
        "{wrong:?}"
    );
    assert!(wrong.stderr.contains("write {\"equals\": {...}}"), "{wrong:?}");
    let unknown = eval(&text.replace("equal\"", "equals\""));
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    for words in [
        "mcp.tests.json:3:28: /eval/cases/counts/tools/0/1: no server offers the tool `notes.lst`; \
         did you mean `notes.list`?",
        "mcp.tests.json:4:17: /eval/cases/counts/arguments/notes.raed: no server offers the tool",
    ] {
        assert!(unknown.stderr.contains(words), "{words}\n{unknown:?}");
    }
    assert_eq!(provider.requests().len(), 0);
}

/// A provider that is down in the middle says nothing of its model: the runs are left out, and the same
/// command goes on with those that are missing.
#[cfg(feature = "chat")]
#[test]
fn runs_that_a_provider_did_not_answer_are_made_later_and_not_counted() {
    use crate::provider::{Answer, Piece, Provider};
    let bench = notes();
    let file = json!({"suites": {}, "eval": {"cases": {"counts": {
        "turns": ["How many notes are there?"], "tools": ["notes.list"]}}}});
    bench.write("mcp.tests.json", &file.to_string());
    let good = [
        Answer::Stream(vec![Piece::Call("notes__list", "{}")]),
        Answer::Stream(vec![Piece::Text("none")]),
    ];
    let down = Answer::Status(401, "", json!({"error": {"message": "no such key"}}));
    let words = ["test", "--eval", "--runs", "6", "--cassette", "c.json", "--format", "json"];
    let eval = |provider: &Provider| {
        let model = ["--provider", "openai", "--base-url", &provider.url, "--model", "scripted"];
        bench.run(&[&words[..], &model].concat(), AT_MOST)
    };
    let provider = Provider::new([&good[..], &[down]].concat());
    let cut = eval(&provider);
    assert_eq!(cut.code, Some(3), "{cut:?}");
    let report = cut.json();
    let why = report["eval"]["incomplete"].as_str().expect("a reason");
    assert!(why.starts_with("5 of 6 runs were not finished: scripted: "), "{why}");
    let case = &report["eval"]["models"][0]["cases"][0];
    assert_eq!((&case["runs"], &case["passed"]), (&json!(1), &json!(1)), "{report:#}");
    assert_eq!(provider.requests().len(), 5, "three runs in a row without an answer end it");
    assert!(cut.stderr.contains("the same command goes on with it"), "{cut:?}");
    // Without a model, what there is is scored.
    let scored = bench.run(&words, AT_MOST);
    assert_eq!((scored.code, &scored.stdout), (Some(3), &cut.stdout), "{scored:?}");
    let provider = Provider::new(std::iter::repeat_n(good, 5).flatten().collect());
    let whole = eval(&provider);
    assert_eq!(whole.code, Some(0), "{whole:?}");
    assert_eq!(provider.requests().len(), 10, "the run that was finished is kept");
    let case = &whole.json()["eval"]["models"][0]["cases"][0];
    assert_eq!((&case["runs"], &case["passed"]), (&json!(6), &json!(6)));
    let again = bench.run(&words, AT_MOST);
    assert_eq!(again.stdout, whole.stdout);
    // What the cassette does not hold is refused.
    let other = bench.run(&["test", "--eval", "--runs", "7", "--cassette", "c.json"], AT_MOST);
    assert!(other.stderr.contains("has 6 runs of each case, not 7"), "{other:?}");
    let text = std::fs::read_to_string(bench.path().join("c.json")).expect("a cassette");
    bench.write("c.json", &text.replace("\"version\": 1", "\"version\": 9"));
    let newer = bench.run(&words, AT_MOST);
    assert!(newer.stderr.contains("a cassette of version 9"), "{newer:?}");
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    value["runs"].as_array_mut().expect("runs").remove(2);
    bench.write("c.json", &value.to_string());
    let short = bench.run(&words, AT_MOST);
    assert!(short.stderr.contains("has 5 of 6 runs of the case `counts`"), "{short:?}");
}

#[cfg(feature = "chat")]
#[test]
fn a_judge_and_prices_count_and_dollars_end_the_runs() {
    use crate::provider::{Answer, Piece, Provider};
    let bench = notes();
    let mut file = json!({"suites": {}, "eval": {"minPass": 0, "cases": {"counts": {
        "turns": ["How many notes are there?"], "tools": ["notes.list"],
        "judge": "says how many"}}}});
    bench.write("mcp.tests.json", &file.to_string());
    let say = |text: &'static str| Answer::Stream(vec![Piece::Text(text)]);
    let call = || Answer::Stream(vec![Piece::Call("notes__list", "{}")]);
    let script = || {
        let told = [say("there are none"), say("PASS: it says none")];
        let vague = [say("there may be some"), say("**FAIL**: no number")];
        let runs = std::iter::once(call()).chain(told).chain([call()]).chain(vague);
        Provider::new(runs.collect())
    };
    let eval = |provider: &Provider, more: &[&str]| {
        let words = ["test", "--eval", "--runs", "2", "--format", "json"];
        let model = ["--provider", "openai", "--base-url", &provider.url, "--model", "scripted"];
        bench.run(&[&words[..], &model, more].concat(), AT_MOST)
    };
    let provider = script();
    let done = eval(&provider, &["--cassette", "runs.json"]);
    let report = done.json();
    let score = &report["eval"]["models"][0];
    assert_eq!(score["cases"][0]["passed"], 1, "{score:#}");
    assert_eq!(score["runs"][1]["why"], "the judge: no number");
    assert_eq!(score.get("cost"), None, "the price is not known");
    let judged = provider.requests().into_iter().nth(2).expect("the judge is asked").body;
    let judged = judged["messages"].to_string();
    for part in ["says how many", "notes.list", "there are none"] {
        assert!(judged.contains(part), "{judged}");
    }
    // The word of the judge is in the cassette, for this criterion alone.
    let again =
        bench.run(&["test", "--eval", "--cassette", "runs.json", "--format", "json"], AT_MOST);
    assert_eq!(again.stdout, done.stdout);
    file["eval"]["cases"]["counts"]["judge"] = json!("is polite");
    bench.write("mcp.tests.json", &file.to_string());
    let stale = bench.run(&["test", "--eval", "--cassette", "runs.json"], AT_MOST);
    assert!(stale.stderr.contains("what is judged was changed"), "{stale:?}");

    let unpriced = eval(&script(), &["--budget", "$1"]);
    assert!(unpriced.stderr.contains("the price of scripted is not known"), "{unpriced:?}");
    let folder = bench.path().join(".config/mcpdeck");
    std::fs::create_dir_all(&folder).expect("a folder");
    let prices = json!({"chat": {"prices": {"scripted": {"input": 1_000_000, "output": 0}}}});
    std::fs::write(folder.join("settings.json"), prices.to_string()).expect("writable");
    let priced = eval(&script(), &[]).json();
    // Three requests a run, each of 11 tokens.
    assert_eq!(priced["eval"]["models"][0]["cost"], 66.0, "{priced:#}");
    let ended = eval(&script(), &["--budget", "$20"]).json();
    assert_eq!(ended["eval"]["incomplete"], "the budget is spent", "{ended:#}");
    assert_eq!(ended["eval"]["models"][0]["cases"][0]["runs"], 1);
    let wrong = eval(&script(), &["--budget", "much"]);
    assert!(wrong.stderr.contains("write tokens"), "{wrong:?}");
}

/// Two tools that are described alike are confused; a model proposes other descriptions, the same
/// cases measure them, and they are written as overlays of a profile.
#[cfg(feature = "chat")]
#[test]
fn a_description_is_proposed_measured_and_written_as_an_overlay() {
    use crate::provider::{Answer, Piece, Provider};
    let runs = |tool: &'static str| {
        let one = [
            Answer::Stream(vec![Piece::Call(tool, "{}")]),
            Answer::Stream(vec![Piece::Text("done")]),
        ];
        std::iter::repeat_n(one, 8).flatten().collect::<Vec<_>>()
    };
    let proposed = r#"{"expected": "Lists every note with its title.", "called": "A summary in one sentence; to see the notes themselves use list."}"#;
    let advice = vec![Answer::Stream(vec![Piece::Text(proposed)])];
    let file = json!({"suites": {}, "eval": {"minPass": 0, "cases": {"shows all": {
        "turns": ["Show me my notes"], "tools": ["notes.list"]}}}});
    let eval = |bench: &Bench, provider: &Provider, more: &[&str]| {
        let words = [
            "test",
            "--eval",
            "--runs",
            "8",
            "--advise",
            "--overlay",
            "agent",
            "--provider",
            "openai",
            "--base-url",
            &provider.url,
            "--model",
            "scripted",
        ];
        bench.run(&[&words[..], more].concat(), AT_MOST)
    };
    // Every run chose wrongly before, and rightly after.
    let bench = notes();
    bench.write("mcp.tests.json", &file.to_string());
    let policy = r#"{ /* ours */ "profiles": {"agent": {"allow": ["*"], "overlays": [{"tool": "notes.read", "title": "Read"}]}}}"#;
    bench.write("mcpdeck.policy.json", policy);
    let script = [runs("notes__create"), advice.clone(), runs("notes__list")].concat();
    let provider = Provider::new(script);
    let done = eval(&bench, &provider, &["--format", "json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report = done.json();
    let found = &report["eval"]["advice"];
    assert_eq!(found["measured"][0]["better"], 8, "{found:#}");
    assert_eq!(found["measured"][0]["isMoreThanNoise"], true);
    assert_eq!(found["descriptions"][0]["tool"], "notes.list");
    assert_eq!(found["descriptions"][0]["confusedWith"], json!(["notes.create"]));
    let last = provider.requests().pop().expect("a request").body.to_string();
    assert!(last.contains("Lists every note with its title."), "{last}");
    let written =
        std::fs::read_to_string(bench.path().join("mcpdeck.policy.json")).expect("written");
    assert!(written.contains("/* ours */"), "{written}");
    let value: Value = serde_json::from_str(&written.replace("/* ours */", "")).expect("JSON");
    let overlays = &value["profiles"]["agent"]["overlays"];
    assert_eq!(overlays[0]["tool"], "notes.read");
    assert_eq!(
        overlays[1],
        json!({"tool": "notes.list", "description": "Lists every note with its title."})
    );
    assert_eq!(
        (overlays.as_array().map(Vec::len), &value["profiles"]["agent"]["allow"]),
        (Some(3), &json!(["*"]))
    );
    // What helps nobody is shown, and not written.
    let bench = notes();
    bench.write("mcp.tests.json", &file.to_string());
    let script = [runs("notes__create"), advice, runs("notes__create")].concat();
    let done = eval(&bench, &Provider::new(script), &[]);
    assert!(done.stdout.contains("+ Lists every note with its title."), "{done:?}");
    assert!(done.stdout.contains("0 better, 0 worse of 8 pairs"), "{done:?}");
    assert!(done.stderr.contains("no overlay is written"), "{done:?}");
    assert!(!bench.path().join("mcpdeck.policy.json").exists());
}

#[test]
fn recorded_calls_become_steps_of_a_first_file() {
    let bench = notes();
    let call = |args: &[&str]| {
        let done = bench.run(&[args, &["--record", "a.jsonl"]].concat(), AT_MOST);
        assert!(bench.path().join("a.jsonl").exists(), "{done:?}");
        std::fs::rename(bench.path().join("a.jsonl"), bench.path().join(args[1])).expect("moved");
    };
    call(&["call", "notes.read", "id=77", "--force"]);
    call(&["call", "notes.create", "title=recorded"]);
    let init = ["test", "--init", "--from", "notes.read", "--from", "notes.create"];
    let done = bench.run(&init, AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    let text = std::fs::read_to_string(bench.path().join("mcp.tests.json")).expect("written");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let steps = file["suites"]["notes"]["steps"].as_array().expect("steps");
    let recorded: Vec<&Value> = steps.iter().filter(|step| step["name"] == "recorded").collect();
    assert_eq!(recorded.len(), 2, "{file:#}");
    assert_eq!(recorded[0]["arguments"], json!({"id": 77}));
    assert_eq!(recorded[0]["expect"], json!({"isError": true}));
    assert_eq!(recorded[1]["arguments"], json!({"title": "recorded"}));
    assert!(recorded[1]["skip"].as_str().is_some_and(|why| why.contains("read-only")));
    let reads = steps.iter().filter(|step| step["tool"] == "notes.read").count();
    assert_eq!(reads, 1, "a recorded tool needs no made-up call: {file:#}");
    assert_eq!(bench.run(&["test"], AT_MOST).code, Some(0));
    let none = bench.run(&["test", "other.json", "--init", "--from", "mcp.json"], AT_MOST);
    assert!(none.stderr.contains("not a recording"), "{none:?}");
}

#[test]
fn what_is_sent_as_it_is_is_written_so_that_it_is_read_again() {
    let tool = json!({"name": "open", "annotations": {"readOnlyHint": true}, "inputSchema":
        {"type": "object", "required": ["at"], "properties":
            {"at": {"type": "string", "default": "${workspaceFolder}/x"}}}});
    let editor = json!({
        "serverInfo": {"name": "editor", "version": "1"}, "capabilities": {"tools": {}, "resources": {}},
        "tools": [tool], "calls": {"open": {"text": "opened"}},
        "resources": [{"uri": "x://${name}", "name": "n"}], "reads": {"x://${name}": {"text": "r"}},
    });
    let bench = Bench::playing(&[("editor", editor)]);
    assert_eq!(bench.run(&["test", "--init"], AT_MOST).code, Some(0));
    let done = bench.run(&["test"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");

    // What was called once is called again with the same title.
    let bench = notes();
    let title = "title={{7*7}}${7*7} ${steps.x} $${y} ${";
    let made = bench.run(&["call", "notes.create", title, "--record", "a.jsonl"], AT_MOST);
    assert_eq!(made.code, Some(0), "{made:?}");
    assert_eq!(bench.run(&["test", "--init", "--from", "a.jsonl"], AT_MOST).code, Some(0));
    let text = std::fs::read_to_string(bench.path().join("mcp.tests.json")).expect("written");
    let mut file: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(file["suites"]["notes"]["steps"][0]["tool"], "notes.create", "{file:#}");
    let step = &mut file["suites"]["notes"]["steps"][0];
    step["skip"].take();
    let title = "{{7*7}}$${7*7} $${steps.x} $$${y} $${";
    step["expect"] = json!({"paths": {"$.title": title}});
    let (code, report) = report(&bench, &file, &[]);
    assert_eq!(code, Some(0), "{report:#}");
}

#[test]
fn findings_that_look_like_references_are_saved_as_they_were_sent() {
    /// Ends at the first text that looks like a template.
    const TEMPLATES: &str = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method = request["method"]
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "t", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "t", "annotations": {"readOnlyHint": True}, "inputSchema":
            {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}]}
    elif method == "tools/call":
        text = request["params"].get("arguments", {}).get("a")
        if isinstance(text, str) and "${" in text:
            sys.exit(7)
        result = {"content": [{"type": "text", "text": "invalid"}], "isError": not isinstance(text, str)}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"],
            "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;
    let bench = Bench::new();
    let script = bench.write("templates.py", TEMPLATES);
    bench.servers(&json!({"s": {"command": "python3", "args": [script],
        "env": {crate::support::MARK: bench.mark()}}}));
    let done = bench.run(&["test", "--fuzz", "--save", "--format", "json"], AT_MOST_FOR_MANY);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("saved "), "{done:?}");
    let (text, calls) = ("mcp.tests.json", "mcp.calls.json");
    let read = |name: &str| std::fs::read_to_string(bench.path().join(name)).expect("written");
    assert!(read(text).contains("$${") && !read(calls).contains("$${"), "{}", read(text));
    let steps = bench.run(&["test", "--format", "json"], AT_MOST);
    assert_eq!(steps.code, Some(1), "the fault is still there: {steps:?}");
    // The sound server shows nothing, and says so.
    let sound = notes();
    let done = sound.run(&["test", "--fuzz=notes.list", "--save"], AT_MOST_FOR_MANY);
    assert!(done.stderr.contains("nothing was found that could be saved"), "{done:?}");
    assert!(!sound.path().join(text).exists() && !sound.path().join(calls).exists());
}

/// A server that answers with the number that it was given, in full.
const COUNTER: &str = r#"
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "counter", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "echo", "annotations": {"readOnlyHint": True},
                             "inputSchema": {"type": "object"}}]}
    elif method == "tools/call":
        given = params.get("arguments", {})
        result = {"content": [{"type": "text", "text": json.dumps(given)}], "structuredContent": given}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"],
            "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

#[test]
fn numbers_of_files_are_sent_and_compared_as_they_are_written() {
    let bench = Bench::new();
    let script = bench.write("counter.py", COUNTER);
    let env = json!({crate::support::MARK: bench.mark()});
    bench.servers(&json!({"s": {"command": "python3", "args": [script], "env": env}}));
    let (big, other) = ("123456789012345678901", "123456789012345678902");
    let calls = format!(
        r#"{{"calls": {{"big": {{"tool": "s.echo", "arguments": {{"n": {big}, "m": 1}}}}}}}}"#
    );
    bench.write("mcp.calls.json", &calls);
    let file = |wanted: &str| {
        format!(
            r#"{{"suites": {{"a": {{"steps": [
                {{"id": "one", "tool": "s.echo", "arguments": {{"n": {big}}}, "expect": {{"json": {{"n": {wanted}}}}}}},
                {{"tool": "s.echo", "arguments": {{"n": "${{steps.one.n}}"}}, "expect": {{"paths": {{"$.n": {wanted}}}}}}},
                {{"saved": "big", "arguments": {{"m": {big}}}, "expect": {{"json": {{"n": {wanted}, "m": "${{steps.one.n}}"}}}}}},
                {{"saved": "big", "expect": {{"snapshot": true}}}}]}}}}}}"#
        )
    };
    let verdicts_of = |wanted: &str| {
        bench.write("mcp.tests.json", &file(wanted));
        let done = bench.run(&["test", "--format", "json"], AT_MOST);
        verdicts(&done.json(), 0).join(" ")
    };
    bench.write("mcp.tests.json", &file(big));
    assert_eq!(bench.run(&["test", "--update"], AT_MOST).code, Some(0));
    assert_eq!(verdicts_of(big), "passed passed passed passed");
    let next = calls.replace(big, other);
    bench.write("mcp.calls.json", &next);
    // The first fails, and what needs its value is not made; the snapshot is of another number.
    assert_eq!(verdicts_of(other), "failed skipped skipped failed");
    bench.write("mcp.calls.json", &calls);
    let called = bench.run(&["call", "@big", "m=2", "--record", "r.jsonl"], AT_MOST);
    assert!(called.stdout.contains(big), "{called:?}");
    let replayed = bench.run(&["replay", "r.jsonl"], AT_MOST);
    assert_eq!(replayed.code, Some(0), "{replayed:?}");
    let init = bench.run(&["test", "first.json", "--init", "--from", "r.jsonl"], AT_MOST);
    assert_eq!(init.code, Some(0), "{init:?}");
    let first = std::fs::read_to_string(bench.path().join("first.json")).expect("written");
    assert!(first.contains(big), "{first}");
    for (wanted, code) in [(big, 0), (other, 1)] {
        let calls = format!(
            r#"{{"servers": {{"s": {{"calls": [
                {{"tool": "echo", "arguments": {{"n": {big}}}, "expect": {{"json": {{"n": {wanted}}}}}}},
                {{"saved": "big", "expect": {{"json": {{"n": {wanted}}}}}}}]}}}}}}"#
        );
        bench.write("ex.json", &calls);
        let done = bench.run(&["--check", "--fail-on", "error", "--expect", "ex.json"], AT_MOST);
        assert_eq!(done.code, Some(code), "{done:?}");
    }
}

/// A server that says its token in every answer, name and error.
const TALKER: &str = r#"
import json, os, sys
token = os.environ["TALKER_TOKEN"]
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}, "resources": {}},
                  "serverInfo": {"name": "talker", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": name, "annotations": {"readOnlyHint": True},
                             "inputSchema": {"type": "object"}} for name in ["say", "fail"]]}
    elif method == "resources/list":
        result = {"resources": [{"uri": "x://" + token, "name": "n"}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "so it is " + token}],
                  "structuredContent": {"v": token, "w": [token]}, "isError": params["name"] == "fail"}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"],
            "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

#[test]
fn no_report_and_no_file_shows_a_secret_that_a_server_says() {
    const TOKEN: &str = "canary-0123456789-token";
    let bench = Bench::new();
    let script = bench.write("talker.py", TALKER);
    let env = json!({crate::support::MARK: bench.mark(), "TALKER_TOKEN": TOKEN});
    bench.servers(&json!({"s": {"command": "python3", "args": [script], "env": env}}));
    let steps = json!([
        {"tool": "s.fail"}, {"tool": "s.say", "expect": {"text": "^x$"}},
        {"tool": "s.say", "expect": {"json": {"v": "x"}}},
        {"tool": "s.say", "expect": {"schema": {"properties": {"v": {"const": "x"}}}}},
        {"tool": "s.say", "expect": {"notText": "so it"}},
        {"tool": "s.say", "expect": {"paths": {"$.v": "z", "$.w": {"type": "string"}}}},
        {"id": "said", "tool": "s.say", "expect": {"snapshot": true, "text": TOKEN, "json": {"v": TOKEN}}},
        {"tool": "s.say", "arguments": {"a": "${steps.said.v}"}, "expect": {"paths": {"$.w": "${steps.said.v}"}}},
    ]);
    let file = json!({"suites": {"a": {"steps": steps}}});
    bench.write("mcp.tests.json", &file.to_string());
    let calls =
        json!([{"tool": "fail"}, {"tool": "say", "expect": {"text": "^x$", "json": {"w": [1]}}}]);
    bench.write("ex.json", &json!({"servers": {"s": {"calls": calls}}}).to_string());
    let run = |args: &[&str], code: i32| {
        let done = bench.run(args, AT_MOST_FOR_MANY);
        assert_eq!(done.code, Some(code), "{done:?}");
        assert!(!done.stdout.contains("canary") && !done.stderr.contains("canary"), "{done:?}");
        done
    };
    run(&["test", "--update"], 1);
    for format in ["human", "json", "junit", "html", "sarif", "github"] {
        let shown = run(&["test", "-v", "--format", format], 1).stdout;
        assert!(shown.contains("***"), "{format}: {shown}");
    }
    run(&["test", "--fuzz=s.fail", "--save", "--format", "json"], 1);
    run(&["load", "s.fail", "-n", "2", "--json"], 1);
    run(&["load", "s.fail", "-n", "2"], 1);
    run(&["--check", "--expect", "ex.json"], 1);
    run(&["call", "s.say", "--record", "said.jsonl"], 0);
    run(&["replay", "said.jsonl"], 0);
    run(&["test", "first.json", "--init"], 0);
    run(&["test", "first.json", "--coverage", "-v"], 1);
    for name in ["mcp.tests.snapshots.json", "said.jsonl", "first.json", "mcp.calls.json"] {
        let text = std::fs::read_to_string(bench.path().join(name)).expect("written");
        assert!(!text.contains("canary"), "{name}: {text}");
    }
    // What it says is judged as it was said, and shown to who asks for it.
    let (_, whole) = report(&bench, &file, &["--reveal"]);
    assert_eq!(verdicts(&whole, 0)[6], "passed", "{whole:#}");
    assert!(whole.to_string().contains("so it is canary"), "{whole:#}");
}

/// A server that writes into its folder, and answers only when it found one file there at its start.
const KEEPER: &str = r#"
import json, os, sys
folder = sys.argv[1]
found = len(os.listdir(folder))
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request:
        continue
    method, params = request["method"], request.get("params", {})
    if method == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "keeper", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "keep", "inputSchema": {"type": "object",
            "properties": {"n": {"type": "integer", "minimum": 0, "maximum": 9}}},
            "annotations": {"readOnlyHint": True}}]}
    elif method == "tools/call":
        open(os.path.join(folder, str(len(os.listdir(folder)))), "w").close()
        result = {"content": [{"type": "text", "text": "invalid"}], "isError": found != 1}
    else:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"],
            "error": {"code": -32601, "message": "no"}}), flush=True)
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)
"#;

#[test]
fn each_fresh_copy_of_a_server_has_its_own_copy_of_its_folder() {
    let bench = Bench::new();
    let script = bench.write("keeper.py", KEEPER);
    let data = bench.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::write(data.join("first"), "").expect("writable");
    bench.servers(&json!({"keeper": {"command": "python3", "args": [script, "data"],
        "env": {crate::support::MARK: bench.mark()}}}));
    let file = json!({"suites": {}, "fuzz": {"accepted": "off", "folders": {"keeper": "data"}}});
    bench.write("mcp.tests.json", &file.to_string());
    let fuzz = ["test", "--fuzz", "--fresh", "--cases", "6", "--format", "json"];
    let done = bench.run(&fuzz, AT_MOST);
    let report = done.json();
    assert_eq!(report["fuzz"]["findings"], json!([]), "every start finds one file: {report:#}");
    assert!(report["fuzz"]["calls"].as_u64().is_some_and(|calls| calls > 4), "{report:#}");
    assert_eq!(report["fuzz"]["tools"][0]["note"], Value::Null, "it is answered: {report:#}");
    assert_eq!(std::fs::read_dir(&data).expect("a folder").count(), 1, "it is left alone");
    // A folder that nothing leads into is no folder of this server.
    std::fs::create_dir(bench.path().join("other")).expect("a folder");
    bench.write("mcp.tests.json", &file.to_string().replace("\"data\"", "\"other\""));
    let done = bench.run(&fuzz, AT_MOST);
    let why = done.json()["fuzz"]["failed"]["keeper"].to_string();
    assert!(why.contains("leads into"), "{why}");
}

/// A process whose lines are read as they come, on both outputs.
#[cfg(unix)]
struct Watching {
    child: std::process::Child,
    lines: std::sync::mpsc::Receiver<String>,
}

#[cfg(unix)]
impl Watching {
    fn new(bench: &Bench, args: &[&str]) -> Self {
        use std::io::BufRead as _;
        use std::process::Stdio;
        let mut command = bench.command(args);
        command.env("MCPDECK_WATCH", "poll").stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let (sender, lines) = std::sync::mpsc::sync_channel(1_000);
        let (out, err) = (child.stdout.take(), child.stderr.take());
        let outputs: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(out.expect("piped")), Box::new(err.expect("piped"))];
        for output in outputs {
            let sender = sender.clone();
            std::thread::spawn(move || {
                let lines = std::io::BufReader::new(output).lines().map_while(Result::ok);
                lines.for_each(|line| _ = sender.send(line));
            });
        }
        Self { child, lines }
    }

    /// Reads up to a line that holds this; gives all of them.
    fn until(&self, what: &str) -> String {
        let mut read = String::new();
        loop {
            let line = self.lines.recv_timeout(AT_MOST);
            let line = line.unwrap_or_else(|_| panic!("never: {what}\n{read}"));
            read += &line;
            read.push('\n');
            if line.contains(what) {
                return read;
            }
        }
    }
}

#[cfg(unix)]
impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(unix)]
#[test]
fn a_saved_source_runs_the_suites_of_its_server_again() {
    let bench = Bench::new();
    let entry = |name: &str| {
        let script = bench.write(&format!("{name}.py"), NOTES);
        json!({"command": "python3", "args": [script], "env": {crate::support::MARK: bench.mark()},
            "dev": {"watch": [format!("{name}.py")]}})
    };
    bench.servers(&json!({"one": entry("one"), "two": entry("two")}));
    let step = |tool: &str| json!({"steps": [{"tool": tool}]});
    let file = json!({"suites": {"of one": step("one.list"), "of two": step("two.list")}});
    bench.write("mcp.tests.json", &file.to_string());
    let mut watching = Watching::new(&bench, &["test", "--watch"]);
    let first = watching.until("2 steps in 2 suites: 2 passed");
    assert!(first.contains("watches") && first.contains("the sources of one, two"), "{first}");
    // Only what works with the changed server runs again; it sees the change.
    bench.write("two.py", &NOTES.replace("Lists", "Shows").replace("\"list\"", "\"lists\""));
    let second = watching.until("1 step in 1 suite");
    assert!(second.contains("of two") && !second.contains("of one"), "{second}");
    assert!(second.contains("FAILED") || second.contains("failed"), "{second}");
    // A file that cannot be used is told, and mended.
    bench.write("mcp.tests.json", "{");
    watching.until("mcp.tests.json:1:");
    let file = json!({"suites": {"other": step("one.list")}});
    bench.write("mcp.tests.json", &file.to_string());
    let third = watching.until("1 step in 1 suite: 1 passed");
    assert!(third.contains("other"), "{third}");
    let id = rustix::process::Pid::from_child(&watching.child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it lives");
    assert_eq!(watching.child.wait().expect("it ends").code(), Some(130));
    bench.expect_nothing_left(Duration::from_secs(20));
}

/// A folder whose server `notes` adds to the file `made` with every list and every note.
#[cfg(unix)]
fn marking_notes() -> (Bench, std::path::PathBuf) {
    let bench = Bench::new();
    let made = bench.path().join("made");
    let mark = format!("open({:?}, \"a\").write(\"x\")", made.to_string_lossy());
    let script = NOTES
        .replace("        counter += 1\n", &format!("        counter += 1\n        {mark}\n"))
        .replace("\"list\":\n", &format!("\"list\":\n        {mark}\n"));
    let script = bench.write("notes.py", &script);
    bench.servers(&json!({"notes": {"command": "python3", "args": [script],
        "env": {crate::support::MARK: bench.mark()}}}));
    (bench, made)
}

#[cfg(unix)]
#[test]
fn an_interrupted_suite_still_runs_its_teardown_until_a_second_signal() {
    for (signal, is_repeated) in [("INT", false), ("TERM", false), ("INT", true)] {
        let (bench, made) = marking_notes();
        let wait = json!({"wait": "notifications/never", "server": "notes", "timeoutMs": 60_000});
        let last = if is_repeated { wait.clone() } else { json!({"tool": "notes.list"}) };
        let create = json!({"tool": "notes.create", "arguments": {"title": "a"}});
        let file =
            json!({"suites": {"a": {"setup": [create], "steps": [wait], "teardown": [last]}}});
        bench.write("mcp.tests.json", &file.to_string());
        let mut running = Watching::new(&bench, &["test", "--format", "json=r.json"]);
        crate::support::wait_for("the setup", AT_MOST, || made.exists().then_some(()));
        crate::support::kill(running.child.id(), signal);
        running.until("a: interrupted: its teardown runs");
        let began = std::time::Instant::now();
        if is_repeated {
            crate::support::kill(running.child.id(), signal);
        }
        assert_eq!(running.child.wait().expect("it ends").code(), Some(130));
        assert!(!is_repeated || began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
        let text = std::fs::read_to_string(bench.path().join("r.json")).expect("a report");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let expected = if is_repeated { "skipped" } else { "passed" };
        assert_eq!(verdicts(&report, 0)[1..], ["skipped", expected], "{report:#}");
        assert_eq!(report["suites"][0]["reason"], "interrupted");
        let calls = std::fs::read_to_string(made).expect("calls").len();
        assert_eq!(calls, if is_repeated { 1 } else { 2 });
        bench.expect_nothing_left(Duration::from_secs(20));
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_load_prints_what_was_measured_until_then() {
    for args in [&["--json"][..], &[]] {
        let (bench, made) = marking_notes();
        let args = [&["load", "notes.list", "-n", "100000000", "-p", "2"], args].concat();
        let mut command = bench.command(&args);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().expect("it starts");
        crate::support::wait_for("some calls", AT_MOST, || {
            made.metadata().is_ok_and(|made| made.len() > 50).then_some(())
        });
        crate::support::kill(child.id(), "INT");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        let stdout = String::from_utf8_lossy(&output.stdout);
        if args.contains(&"--json") {
            let measured: Value = serde_json::from_str(&stdout).expect("one object");
            assert_eq!(measured["interrupted"], true, "{measured}");
            assert!(measured["succeeded"].as_u64() >= Some(40), "{measured}");
            assert_eq!(measured["calls"], measured["succeeded"], "{measured}");
        } else {
            assert!(stdout.contains(" of 100000000 calls, 2 at once, "), "{stdout}");
            assert!(stdout.contains(" s, interrupted\n") && stdout.contains("latency"), "{stdout}");
        }
        bench.expect_nothing_left(Duration::from_secs(20));
    }
}
