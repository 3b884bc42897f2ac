//! `mcpdeck trust`: what may run is listed, approved and taken back without the dashboard, and a
//! command that changed is shown with its difference and does not run.

use serde_json::{Value, json};

use super::AT_MOST;
use crate::support::{Bench, Finished};

fn bench(second: &str) -> Bench {
    let bench = Bench::new();
    let entry = bench.mock("one", &json!({"calls": {"fine": {"text": "fine"}}}), &json!({}));
    let risky = json!({"command": "sudo", "args": ["x", second], "env": {"LD_PRELOAD": "/x.so"}});
    bench.servers(&json!({"one": entry, "risky": risky}));
    bench
}

fn trust(bench: &Bench, more: &[&str]) -> Finished {
    bench.run(&[&["trust"], more].concat(), AT_MOST)
}

fn states(bench: &Bench) -> Vec<(String, String)> {
    let servers = trust(bench, &["--json"]).json()["servers"].clone();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = servers.as_array().cloned().unwrap_or_default();
    all.iter().map(|server| (text(&server["server"]), text(&server["state"]))).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, state)| ((*name).to_owned(), (*state).to_owned())).collect()
}

#[test]
fn what_is_approved_runs_until_it_changes_or_is_taken_back() {
    let bench = bench("first");
    let call = || bench.run(&["call", "one.fine", "--require-trust", "--json"], AT_MOST);
    assert_eq!(states(&bench), pairs(&[("one", "new"), ("risky", "new")]));
    let listed = trust(&bench, &[]);
    assert_eq!(listed.code, Some(1), "something is open: {listed:?}");
    assert!(listed.stdout.contains("careful: "), "{listed:?}");
    assert!(listed.stdout.contains("approve with `mcpdeck trust approve NAME`"), "{listed:?}");
    assert_eq!(call().code, Some(2));

    let approved = trust(&bench, &["approve", "one", "risky"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
    assert!(approved.stdout.contains("one: approved"), "{approved:?}");
    assert_eq!(states(&bench), pairs(&[("one", "approved"), ("risky", "approved")]));
    assert_eq!(trust(&bench, &["list"]).code, Some(0));
    assert_eq!(call().code, Some(0));

    let text = std::fs::read_to_string(bench.path().join("mcp.json")).expect("it is there");
    bench.write("mcp.json", &text.replace("\"first\"", "\"second\""));
    let changed = trust(&bench, &["list"]);
    assert_eq!(changed.code, Some(1));
    let says = |sign: &str, word: &str| {
        changed.stdout.lines().any(|line| line.trim().starts_with(sign) && line.contains(word))
    };
    assert!(says("-", "first") && says("+", "second"), "{changed:?}");
    assert_eq!(states(&bench), pairs(&[("one", "approved"), ("risky", "changed")]));

    let revoked = trust(&bench, &["revoke", "one"]);
    assert!(revoked.stdout.contains("one: no longer approved"), "{revoked:?}");
    let again = trust(&bench, &["revoke", "one"]);
    assert!(again.stdout.contains("one: was not approved"), "{again:?}");
    assert_eq!(states(&bench), pairs(&[("one", "new"), ("risky", "changed")]));
    assert_eq!(call().code, Some(2));
    assert_eq!(trust(&bench, &["approve", "--all"]).code, Some(0));
    assert_eq!(trust(&bench, &["revoke", "--all"]).code, Some(0));
    assert_eq!(states(&bench), pairs(&[("one", "new"), ("risky", "new")]));
}

#[test]
fn a_wrong_word_approves_nothing_and_says_what_there_is() {
    let bench = bench("first");
    for (words, says) in [
        (&["approve"][..], "name the servers"),
        (&["approve", "nobody"][..], "there are one, risky"),
        (&["revoke", "nobody"][..], "there are one, risky"),
    ] {
        let done = trust(&bench, words);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains(says), "{done:?}");
    }
    assert_eq!(states(&bench), pairs(&[("one", "new"), ("risky", "new")]));
    let mut kept_nowhere = bench.command(&["trust", "approve", "--all"]);
    kept_nowhere.env("MCPDECK_STATE_DIR", "/dev/null/state");
    let done = crate::support::finish(kept_nowhere, AT_MOST);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("the approval was not kept"), "{done:?}");
}

#[test]
fn every_verb_of_trust_secrets_and_grants_prints_an_object_on_request() {
    let bench = bench("first");
    let object = |args: &[&str], code: i32| {
        let done = bench.run(&[args, &["--json"]].concat(), AT_MOST);
        assert_eq!(done.code, Some(code), "{args:?}: {done:?}");
        done.json()
    };
    let approved = object(&["trust", "approve", "one", "risky"], 0);
    let states: Vec<_> = (0..2).map(|n| &approved["servers"][n]["state"]).collect();
    assert_eq!(states, ["approved", "approved"]);
    for was in [true, false] {
        let revoked = object(&["trust", "revoke", "one"], 0);
        assert_eq!(revoked, json!({"servers": [{"server": "one", "revoked": was}]}));
    }

    let mut command = bench.command(&["secret", "set", "KEY", "--json"]);
    command.stdin(std::fs::File::open(bench.write("value", "hunter2")).expect("a file"));
    let set = crate::support::finish(command, AT_MOST).json();
    assert_eq!(set, json!({"secret": "KEY", "reference": "${secret:KEY}"}));
    assert_eq!(object(&["secret", "list"], 0), json!({"secrets": ["KEY"]}));
    assert_eq!(object(&["secret", "rotate"], 0), json!({"encrypted": 1}));
    let removed = object(&["secret", "remove", "KEY", "NONE"], 0);
    let each =
        [json!({"secret": "KEY", "removed": true}), json!({"secret": "NONE", "removed": false})];
    assert_eq!(removed["secrets"], json!(each));

    let revoked = object(&["grants", "revoke", "7"], 2);
    assert_eq!(revoked, json!({"grants": [{"id": 7, "revoked": false}]}));
}
