//! Files for results and reports: what cannot be written is refused before the work, and a result that
//! was paid for is not lost.

use serde_json::json;

use super::{bench, run};
use crate::support::{Bench, kill, wait_for};

fn text(bench: &Bench, file: &str) -> String {
    std::fs::read_to_string(bench.path().join(file)).unwrap_or_default()
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_anything_starts() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = bench();
    let config = text(&bench, "mcp.json");
    bench.write("old.txt", "old");
    let read_only = std::fs::Permissions::from_mode(0o444);
    std::fs::set_permissions(bench.path().join("old.txt"), read_only).unwrap();
    let call = ["call", "calc.add", "a=1", "b=1", "-o"];
    let read = ["read", "note://one", "-o"];
    for (file, words) in [
        ("new/", "it is a folder"),
        ("none/new", "there is no folder"),
        ("old.txt", "read-only"),
        ("mcp.json", "it is the configuration "),
        ("./mcp.json", "it is the configuration "),
    ] {
        let report = format!("json={file}");
        for args in [[&call[..], &[file]].concat(), [&read[..], &[file]].concat()]
            .into_iter()
            .chain([vec!["--check", "--server", "calc", "--format", &report]])
        {
            let done = run(&bench, &args);
            assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
            assert!(done.stderr.contains(words), "{args:?}: {done:?}");
            assert!(!bench.path().join("started").exists(), "{args:?}");
        }
    }
    assert_eq!((text(&bench, "mcp.json"), text(&bench, "old.txt").as_str()), (config, "old"));
}

/// Whatever option names it, and by whatever of its names.
#[test]
fn no_output_goes_to_a_file_in_use() {
    let bench = bench();
    run(&bench, &["--record", "a.jsonl", "list"]);
    std::fs::remove_file(bench.path().join("started")).unwrap();
    let tests = "{\"suites\": {}}";
    bench.write("mcp.tests.json", tests);
    bench.write("own.json", "[]");
    bench.write("args.json", "{\"a\": 1, \"b\": 1}");
    std::fs::hard_link(bench.path().join("mcp.json"), bench.path().join("hard")).unwrap();
    std::os::unix::fs::symlink("mcp.tests.json", bench.path().join("soft")).unwrap();
    let kept = std::fs::read_dir(bench.path().join(".state/mcpdeck/definitions")).unwrap();
    let kept = kept.map(|file| file.unwrap().path()).next().unwrap();
    let kept = kept.strip_prefix(bench.path()).unwrap().to_str().unwrap();
    let content = || {
        ["mcp.json", "mcp.tests.json", "a.jsonl", "own.json", "args.json", kept]
            .map(|file| text(&bench, file))
    };
    let before = content();
    let call = ["call", "calc.add", "a=1", "b=1"];
    let json = |file: &str| format!("json={file}");
    let (to_tests, to_soft, to_hard) = (json("mcp.tests.json"), json("soft"), json("hard"));
    for (args, used) in [
        (&["--log-file", "mcp.json", "list"][..], "mcp.json"),
        (&["--log-file", "hard", "list"], "mcp.json"),
        (&["--log-file", "mcpdeck.policy.json", "list"], "the policy"),
        (&["--log-file", kept, "list"], "the program's state"),
        (&["--record", "soft", "list"], "mcp.tests.json"),
        (&["--record", "new.jsonl", "--log-file", "new.jsonl", "list"], "another option"),
        (&["--check", "--format", &to_tests], "mcp.tests.json"),
        (&["--check", "--format", &to_soft], "mcp.tests.json"),
        (&["--check", "--lock", "--lock-file", "mcp.json"], "the configuration"),
        (&["--check", "--answers", "own.json", "--log-file", "own.json"], "own.json"),
        (&["test", "--format", &to_hard], "mcp.json"),
        (&["test", "mcp.json", "--fuzz", "--save"], "the configuration"),
        (&["test", "own.json", "--format", "json=own.json"], "own.json"),
        (&["scrub", "a.jsonl", "-o", "a.jsonl"], "the recording"),
        (&["report", "a.jsonl", "-o", "./a.jsonl"], "the recording"),
        (&["replay", "a.jsonl", "--log-file", "a.jsonl"], "the recording"),
        (&["call", "calc.add", "@args.json", "-o", "args.json"], "args.json"),
        (&[call[0], call[1], call[2], call[3], "-o", "hard"], "mcp.json"),
        (&[call[0], call[1], call[2], call[3], "-o", "soft"], "mcp.tests.json"),
    ] {
        let done = run(&bench, args);
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        assert!(done.stderr.contains(used), "{args:?}: {done:?}");
        assert!(done.stderr.contains("name another file"), "{args:?}: {done:?}");
        assert!(!bench.path().join("started").exists(), "{args:?}");
        assert_eq!(content(), before, "{args:?}");
    }
    assert!(!bench.path().join("new.jsonl").exists());
}

/// A disk may be full only when the work is done.
#[test]
fn what_does_not_fit_into_its_file_is_printed_and_the_old_text_stays() {
    let bench = Bench::new();
    let long = "a line of it\n".repeat(2_000);
    let script = json!({
        "tools": [{"name": "big", "inputSchema": {"type": "object"}}],
        "calls": {"big": {"text": long}},
    });
    bench.servers(&json!({"notes": bench.mock("notes", &script, &json!({}))}));
    bench.write("keep.txt", "what was there");
    let limited = |args: &[&str]| {
        let inner = bench.command(args);
        let mut shell = std::process::Command::new("sh");
        shell.arg("-c").arg("ulimit -f 8; exec \"$0\" \"$@\"").arg(inner.get_program());
        shell.args(inner.get_args()).current_dir(bench.path()).stdin(std::process::Stdio::null());
        for (name, value) in inner.get_envs() {
            shell.env(name, value.unwrap_or_default());
        }
        crate::support::finish(shell, super::AT_MOST)
    };
    let done = limited(&["call", "notes.big", "-o", "keep.txt"]);
    assert_eq!(done.code, Some(1), "{:?}", done.stderr);
    assert!(done.stderr.contains("keep.txt") && done.stderr.contains("follows"), "{}", done.stderr);
    assert_eq!(done.stdout.trim_end(), long.trim_end());
    assert_eq!(text(&bench, "keep.txt"), "what was there");
    let done = run(&bench, &["call", "notes.big", "-o", "keep.txt"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(text(&bench, "keep.txt").trim_end(), long.trim_end());
}

/// Programs read one object, however the call ended.
#[test]
fn a_call_that_a_signal_ends_prints_its_object() {
    let bench = Bench::new();
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let called = json!([{"writeFile": {"path": "called", "text": "x"}}, {"delay": 600_000}]);
    let script = json!({"tools": [tool("slow")], "calls": {"slow": called}});
    bench.servers(&json!({"notes": bench.mock("notes", &script, &json!({}))}));
    for verb in
        [&["call", "notes.slow", "--json"][..], &["load", "notes.slow", "-n", "1", "--json"]]
    {
        let mut command = bench.command(verb);
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let child = command.spawn().unwrap();
        wait_for("the call", super::AT_MOST, || bench.path().join("called").exists().then_some(()));
        kill(child.id(), "INT");
        let done = child.wait_with_output().unwrap();
        let object: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
        assert_eq!((done.status.code(), &object["tool"]), (Some(130), &json!("notes.slow")));
        let says_so = if verb[0] == "load" {
            object["interrupted"] == true
        } else {
            object["error"]["code"] == "Cancelled"
        };
        assert!(says_so, "{object}");
        bench.expect_nothing_left(super::AT_MOST);
        std::fs::remove_file(bench.path().join("called")).unwrap();
    }
}
