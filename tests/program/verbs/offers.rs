//! What is remembered of servers: which one has a tool, and how words go on in the shell.

use std::time::Duration;

use serde_json::json;

use super::{AT_MOST, bench, run};
use crate::support::Bench;
#[cfg(unix)]
use crate::support::bin;

/// Whether the server that has nothing was started since the last look.
fn marker_started(bench: &Bench) -> bool {
    std::fs::remove_file(bench.path().join("started")).is_ok()
}

#[test]
fn a_bare_name_starts_only_the_server_that_is_known_to_have_it() {
    let bench = bench();
    let first = run(&bench, &["call", "add", "a=1", "b=2"]);
    assert_eq!(first.code, Some(0), "{first:?}");
    assert!(marker_started(&bench), "nothing was known");
    for args in [
        &["call", "add", "a=1", "b=2"][..],
        &["prompt", "greet", "who=Ada"],
        &["read", "note://one"],
    ] {
        let again = run(&bench, args);
        assert_eq!(again.code, Some(0), "{again:?}");
        assert_eq!(again.stderr, "", "how it is done is no program's business");
        assert!(!marker_started(&bench), "{args:?}: calc alone has it");
    }
    let unknown = run(&bench, &["call", "subtract"]);
    assert_eq!(unknown.code, Some(3), "one server cannot be asked: {unknown:?}");
    assert!(marker_started(&bench), "nobody was known to have it");
}

#[test]
fn what_is_known_and_wrong_costs_a_moment_and_no_answer() {
    let bench = bench();
    assert_eq!(run(&bench, &["list"]).code, Some(3));
    assert!(marker_started(&bench));
    let other = json!({"tools": [{"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}}],
        "calls": {"add": {"text": "by marker"}}, "on": {"start": {"writeFile": {"path": "started", "text": "x"}}}});
    // Both change behind an entry that stays the same.
    bench.write("marker.mock.json", &other.to_string());
    bench.write("calc.mock.json", &json!({"tools": []}).to_string());
    let moved = run(&bench, &["call", "add"]);
    assert_eq!((moved.code, moved.stdout.trim()), (Some(0), "by marker"), "{moved:?}");
    let learnt = run(&bench, &["call", "add"]);
    assert_eq!((learnt.code, learnt.stdout.trim()), (Some(0), "by marker"), "{learnt:?}");
}

#[test]
fn a_changed_entry_is_another_server() {
    let bench = bench();
    assert_eq!(run(&bench, &["list"]).code, Some(3));
    assert!(marker_started(&bench));
    let text = std::fs::read_to_string(bench.path().join("mcp.json")).expect("there");
    let mut config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    config["servers"]["calc"]["env"]["MORE"] = json!("a-new-secret");
    bench.write("mcp.json", &config.to_string());
    let done = run(&bench, &["call", "add", "a=1", "b=2"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(marker_started(&bench), "nothing is known of it: {done:?}");
    let folder = bench.path().join(".state/mcpdeck/definitions");
    let files: Vec<_> = std::fs::read_dir(folder).expect("a folder").flatten().collect();
    assert_eq!(files.len(), 4, "the old entry of calc, the new one, and the others");
    for file in files {
        let text = std::fs::read_to_string(file.path()).expect("text");
        assert!(!text.contains("a-new-secret"), "{text}");
    }
}

#[test]
fn old_or_broken_memories_are_none() {
    let bench = bench();
    assert_eq!(run(&bench, &["list"]).code, Some(3));
    let folder = bench.path().join(".state/mcpdeck/definitions");
    let files = || std::fs::read_dir(&folder).expect("a folder").flatten().map(|f| f.path());
    for file in files() {
        let yesterday = std::time::SystemTime::now() - Duration::from_hours(25);
        let file = std::fs::File::options().write(true).open(file).expect("a file");
        file.set_modified(yesterday).expect("an older time");
    }
    marker_started(&bench);
    assert_eq!(run(&bench, &["call", "add", "a=1", "b=2"]).code, Some(0));
    assert!(marker_started(&bench), "yesterday's lists do not count");
    files().for_each(|file| std::fs::write(file, "{ not JSON").expect("written"));
    assert_eq!(run(&bench, &["call", "add", "a=1", "b=2"]).code, Some(0));
    assert!(marker_started(&bench));
}

/// How fish is told a line goes on: `word<tab>what it is`.
fn fish(bench: &Bench, words: &[&str]) -> String {
    let mut command = bench.command(&[]);
    command.args(["--", "mcpdeck"]).args(words).env("MCPDECK_COMPLETE", "fish");
    crate::support::finish(command, AT_MOST).stdout
}

#[test]
fn names_that_only_the_program_knows_are_completed() {
    let bench = bench();
    let calls = json!({"calls": {"find ada": {"tool": "calc.add"}, "b\u{1b}[2J": {"tool": "a.c"}}});
    bench.write("mcp.calls.json", &calls.to_string());
    assert!(fish(&bench, &["call", "ca"]).starts_with("calc.\t`mcpdeck list` reads"));
    assert!(!bench.path().join("started").exists(), "completion starts nothing");
    assert_eq!(run(&bench, &["list"]).code, Some(3));
    for (words, expected) in [
        (&["call", "calc.a"][..], "calc.add\tAdds two numbers.\n"),
        (&["call", "ad"], "add\tcalc: Adds two numbers.\n"),
        (&["call", "@"], "@find ada\tcalc.add\n"),
        (&["call", "calc.add", "a=1", ""], "b=\tneeded: \nnote=\n"),
        (&["call", "@find ada", "n"], "note=\n"),
        (&["prompt", "g"], "greet\tcalc: Greets somebody.\n"),
        (&["prompt", "calc.greet", ""], "who=\tneeded: \n"),
        (&["read", "note"], "note://one\tone\n"),
        (&["status", "d"], "down\tmcp.json:13:13\n"),
        (&["trust", "approve", "calc", "m"], "marker\tmcp.json:23:15\n"),
        (&["--check", "--server", "do"], "down\tmcp.json:13:13\n"),
        (&["explain", "schema/remote"], ""),
        (&["list", "--only", "p"], "prompts\n"),
    ] {
        let got = fish(&bench, words);
        let got = if words[0] == "explain" { got.split('\t').skip(9).collect() } else { got };
        let plain = got.replace(|c: char| c.is_ascii_digit(), "9");
        let wanted = expected.replace(|c: char| c.is_ascii_digit(), "9");
        assert!(plain.starts_with(&wanted), "{words:?}: {got}");
    }
    assert!(fish(&bench, &["explain", "schema/remote"]).starts_with("schema/remote-ref\t"));
    std::fs::rename(bench.path().join("mcp.json"), bench.path().join("team.json")).expect("moved");
    assert_eq!(fish(&bench, &["status", "d"]), "");
    assert!(fish(&bench, &["status", "-c", "team.json", "d"]).starts_with("down\t"));
    assert_eq!(fish(&bench, &["nonsense", "call", "--what", ""]), "@find ada\tcalc.add\n");
}

#[cfg(unix)]
#[test]
fn bash_completes_words_it_breaks_and_quotes() {
    let bench = bench();
    let calls = json!({"calls": {"find ada": {"tool": "calc.add"}, "fetch": {"tool": "calc.add"},
        "other": {"tool": "calc.fail"}}});
    bench.write("mcp.calls.json", &calls.to_string());
    assert_eq!(run(&bench, &["list"]).code, Some(3));
    let script = run(&bench, &["completions", "bash"]).stdout;
    bench.write("completion.bash", &script);
    let ask = |line: &str| {
        let asked = format!(
            "PATH={:?}:$PATH; source ./completion.bash; COMP_LINE={line:?}; COMP_POINT=${{#COMP_LINE}}; \
             _mcpdeck; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            bin().parent().expect("a folder")
        );
        let mut bash = bench.command(&[]);
        let env: Vec<_> =
            bash.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
        bash = std::process::Command::new("bash");
        bash.args(["--norc", "-c", &asked]).current_dir(bench.path());
        for (key, value) in env {
            value.map(|value| bash.env(key, value));
        }
        String::from_utf8_lossy(&bash.output().expect("bash runs").stdout).into_owned()
    };
    assert_eq!(ask("mcpdeck call @f"), "@find\\ ada\n@fetch\n");
    assert_eq!(ask("mcpdeck call @"), "@find\\ ada\n@fetch\n@other\n");
    assert_eq!(ask("mcpdeck call @find\\ a"), "@find\\ ada\n");
    assert_eq!(ask("mcpdeck call calc.a"), "calc.add\n");
    assert_eq!(ask("mcpdeck call calc.add a=1 n"), "note=\n");
    assert_eq!(ask("mcpdeck read note:"), "//one\n");
    assert_eq!(ask("mcpdeck stat"), "status\n");
}
