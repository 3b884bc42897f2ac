//! The built binary: arguments, help, and what needs no server.

use assert_cmd::Command;

fn mcpdeck(args: &[&str]) -> assert_cmd::assert::Assert {
    let mut command = Command::cargo_bin("mcpdeck").expect("the binary is built");
    command.env_remove("NO_COLOR").args(args).assert()
}

fn stdout(assert: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&assert.get_output().stdout).into_owned()
}

#[test]
fn help_shows_groups_commands_and_examples() {
    let assert = mcpdeck(&["--help"]).success();
    let text = stdout(&assert);
    for wanted in [
        "Use the servers:",
        "Check and test:",
        "Serve them to others:",
        "Administer:",
        "Check:",
        "Configuration:",
        "Logging:",
        "Examples:",
        "mcpdeck --check",
        "call",
    ] {
        assert!(text.contains(wanted), "{wanted} is missing from\n{text}");
    }
    assert!(!text.contains("demo-server"), "the hidden command shows");
}

#[test]
fn every_rule_can_be_explained() {
    let list = stdout(&mcpdeck(&["explain", "--json"]).success());
    let rules: Vec<serde_json::Value> = serde_json::from_str(&list).expect("JSON");
    assert!(rules.len() > 40);
    for rule in rules.iter().step_by(9) {
        let id = rule["rule"].as_str().expect("an id");
        let text = stdout(&mcpdeck(&["explain", id]).success());
        assert!(text.contains(rule["summary"].as_str().expect("a summary")));
    }
}

#[test]
fn an_unknown_rule_is_refused_with_the_nearest_one() {
    let assert = mcpdeck(&["explain", "schema/remot-ref"]).code(2);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("did you mean `schema/remote-ref`"), "{text}");
}

#[test]
fn completions_and_the_manual_are_printed() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(stdout(&mcpdeck(&["completions", shell]).success()).contains("mcpdeck"), "{shell}");
    }
    assert!(stdout(&mcpdeck(&["man"]).success()).starts_with(".ie"));
}

#[test]
fn wrong_arguments_exit_with_2() {
    for args in [&["--no-such"][..], &["--lock"], &["--timeout", "0"], &["--log-level", "=="]] {
        mcpdeck(args).code(2);
    }
}

#[test]
fn arguments_as_other_tools_spell_them_are_refused_with_the_spelling_here() {
    for (args, here) in [
        (&["call", "demo", "add", "--arg", "a=1"][..], "write: mcpdeck call demo.add a=1"),
        (&["call", "demo.add", "-a", "a=1", "--json"], "write: mcpdeck call demo.add a=1 --json"),
        (&["call", "demo.add", "--params", "{\"a\": 1}"], "call demo.add '{\"a\": 1}'"),
        (&["call", "demo.add", "--input", "a.json"], "write: mcpdeck call demo.add @a.json"),
        (&["prompt", "demo.hi", "--tool-arg", "name:=x"], "write: mcpdeck prompt demo.hi name=x"),
    ] {
        let assert = mcpdeck(args).code(2);
        let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(text.contains("has no option `-") && text.contains(here), "{text}");
    }
    let assert = mcpdeck(&["call", "demo.add", "--jsn"]).code(2);
    let text = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(text.contains("--json"), "{text}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    use std::process::{Command, Stdio};
    let binary = assert_cmd::cargo::cargo_bin("mcpdeck");
    let mut child = Command::new(binary)
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_word_that_is_no_command_is_refused_with_what_was_meant() {
    for (args, wanted) in [
        (&["chekc"][..], "did you mean `mcpdeck --check`?"),
        (&["check"], "did you mean `mcpdeck --check`?"),
        (&["check", "mcp.json"], "did you mean `mcpdeck --check`?"),
        (&["check", "--format", "json"], "did you mean `mcpdeck --check`?"),
        (&["--check", "chekc"], "did you mean `mcpdeck --check`?"),
        (&["lsit", "--json"], "did you mean `mcpdeck list`?"),
        (&["xyzzy"], "see `mcpdeck --help`"),
    ] {
        let assert = mcpdeck(args).code(2);
        let output = assert.get_output();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(text.contains("is not a command, file or URL"), "{args:?}: {text}");
        assert!(text.contains(wanted), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(output.stdout.is_empty());
    }
}
