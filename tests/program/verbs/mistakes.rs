//! What a newcomer types wrongly: each message names the place, what was expected, and what to do.

use serde_json::json;

use super::{bench, run};
use crate::support::Bench;

#[test]
fn a_policy_that_cannot_be_used_is_told_once() {
    let bench = bench();
    bench.write("mcpdeck.policy.json", r#"{"nonsense": 1}"#);
    for args in [&["list"][..], &["--check"], &["call", "calc.add", "a=1", "b=2"], &["status"]] {
        let done = run(&bench, args);
        assert_eq!(
            done.stderr.matches("\"nonsense\" is not known").count(),
            1,
            "{args:?}: {done:#?}"
        );
    }
}

#[test]
fn a_setting_without_effect_is_told_where_its_server_is_used() {
    let bench = bench();
    let file = std::fs::read(bench.path().join("mcp.json")).expect("a file");
    let mut file: serde_json::Value = serde_json::from_slice(&file).expect("JSON");
    let servers = file["servers"].as_object_mut().expect("servers");
    servers["calc"]["limts"] = json!({"memory": "1GB"});
    servers["marker"]["idleStop"] = json!(300);
    file["polisy"] = json!({});
    bench.write("odd.json", &file.to_string());
    let told = |args: &[&str]| {
        let done = run(&bench, &[args, &["-c", "odd.json"]].concat());
        let lines = done.stderr.lines().filter(|line| line.starts_with("mcpdeck: warning: "));
        lines.map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let is_of = |line: &String, parts: [&str; 3]| parts.iter().all(|part| line.contains(part));
    let limits = ["calc: `limts` is not a known key of a server", "odd.json:1:", "mean `limits`?"];
    let idle = ["marker: `idleStop` means nothing without", "odd.json:1:", "onDemand"];
    let policy = ["warning: `polisy` is not a known key of", "odd.json:1:", ""];
    for (args, expected) in [
        (&["list"][..], &[limits, idle, policy][..]),
        (&["status", "calc"], &[limits, policy]),
        (&["call", "calc.add", "a=1", "b=2"], &[limits, policy]),
        (&["list", "marker"], &[idle, policy]),
        (&["call", "calc.add", "a=1", "b=2", "--json"], &[limits, policy]),
    ] {
        let lines = told(args);
        assert_eq!(lines.len(), expected.len(), "{args:?}: {lines:#?}");
        for parts in expected {
            assert!(lines.iter().any(|line| is_of(line, *parts)), "{args:?}: {lines:#?}");
        }
    }
    let many: serde_json::Map<_, _> = (0..20).map(|n| (format!("odd{n}"), json!(n))).collect();
    file["servers"]["calc"].as_object_mut().expect("an entry").extend(many);
    bench.write("odd.json", &file.to_string());
    let lines = told(&["status", "calc"]);
    assert!(lines.len() < 12, "{lines:#?}");
    assert!(lines.last().expect("lines").contains("more settings have no effect"), "{lines:#?}");
}

#[test]
fn every_mistake_is_answered_with_the_way_out() {
    let bench = bench();
    bench.write("teem.json", "{}");
    let accept = r#"{"servers": {"a": {"url": "https://h/", "headers": {"Accept": "x"}}}}"#;
    bench.write("own.json", accept);
    bench.pipe("pipe.json");
    bench.write("bad.json", r#"{"servers": {"a": {"comand": "x"}}}"#);
    bench.write("none.json", r#"{"servers": {}}"#);
    bench.write("needs.json", r#"{"servers": {"a": {"command": "x", "dependsOn": ["gone"]}}}"#);
    bench.write("calls.json", r#"[{"origin": "me", "tool": "calc.add"}]"#);
    std::fs::create_dir(bench.path().join("folder")).expect("a folder");
    for (args, parts) in [
        (&["list", "nope"][..], &["there is no server `nope`; there are calc, down, marker"][..]),
        (&["list", "-c", "team.json"], &["does not exist", "did you mean `teem.json`? It is in "]),
        (&["list", "-c", "gone/team.json"], &["does not exist"]),
        (&["list", "-c", "bad.json"], &["bad.json:1:19", "`comand` may be meant to be `command`"]),
        (&["config", "-c", "bad.json"], &["// left out: a", "did you mean `command`?"]),
        (&["list", "-c", "own.json"], &["`Accept` is set by the client itself"]),
        (&["list", "-c", "pipe.json"], &["this is not a regular file"]),
        (&["test", "--format", "json=mcp.json"], &["--format mcp.json: it is the configuration"]),
        (&["--check", "--lock-file", "pipe.json"], &["pipe.json: it is not a regular file"]),
        (&["--check", "--expect", "pipe.json"], &["pipe.json: it is not a regular file"]),
        (&["--check", "--answers", "pipe.json"], &["pipe.json: it is not a regular file"]),
        (&["call", "calc.add", "{\"a\": x}"], &["column 7", "or write key=value"]),
        (&["call"], &["<NAME>", "`mcpdeck list` shows what there is"]),
        (&["list", "--"], &["no command follows the two dashes"]),
        (&["import", "gone.json"], &["the file does not exist"]),
        (&["list", "--header", "A: b"], &["--url"]),
        (&["--check", "mcp.json", "-H", "A: b"], &["--header goes with the address of a server"]),
        (&["list", "--url", "http://127.0.0.1:9/", "-H", "novalue"], &["write NAME: VALUE"]),
        (&["list", "-e", "A=b"], &["COMMAND"]),
        (&["list", "x", "-c", "none.json"], &["no server `x`: the configuration has none"]),
        (&["request", "ping", "-c", "none.json"], &["the configuration has no server to ask"]),
        (&["list", "--env-file", "folder"], &["this is a folder", "a file of NAME=value lines"]),
        (&["config", "-c", "needs.json"], &["`gone`, which is not defined", "define it, or"]),
        (&["token", "new", "--expires", "0d"], &["more than zero and at most 36500d"]),
        (&["token", "new", "--expires", "999999d"], &["more than zero and at most 36500d"]),
        (&["policy", "test", "calls.json"], &["calls.json: `me` is not an origin; write gateway:"]),
        (&["load", "calc.add", "-p", "999999"], &["999999 is not in 1..=100000"]),
        (&["help", "grants", "ad"], &["there is no help on `grants ad`"]),
        (&["list", "--log-level", "verbos"], &["`verbos` is not a level or filter: write error,"]),
        (&["--check", "--record", "own.json"], &["to own.json: it exists", "another file with"]),
        // What stands before a command is used or refused, never left out.
        (&["gone/x.json", "list"], &["gone/x.json", "does not exist"]),
        (&["lisst", "list"], &["`lisst` is not a command, file or URL; did you mean"]),
        (&["--check", "list"], &["--check goes without a command"]),
        (&["-H", "A: b", "list"], &["--header comes after the command: `mcpdeck list --header"]),
        (&["--demo", "trust", "list"], &["--demo goes with the dashboard, --check, and commands"]),
        (&["--demo", "-c", "mcp.json", "list"], &["--demo", "cannot be used with"]),
        (&["call", "mcp.json", "calc.add"], &["`mcp.json` is a file", "--config mcp.json"]),
        (&["config", "mcp.json"], &["mcpdeck config --config mcp.json"]),
        // One kind of file where another is read.
        (&["open", "mcp.json"], &["it is a configuration of servers: it is named with --config"]),
        (&["replay", "mcp.json"], &["not a recording", "a configuration of servers"]),
        (&["mock", "mcp.json"], &["not a script; it is a configuration of servers"]),
        (&["test", "mcp.json"], &["not a file of tests; it is a configuration of servers"]),
        // Options and verbs of other programs.
        (&["list", "--tools"], &["write `--only tools`"]),
        (&["status", "--format", "json"], &["write `--json`"]),
        (&["serve", "--port", "80"], &["write `--listen 127.0.0.1:80`"]),
        (&["serve", "--listen", "8080"], &["write 127.0.0.1:8080"]),
        (&["serve", "--listen", "example.org:1"], &["ADDRESS:PORT in numbers"]),
        (&["token", "create"], &["did you mean `mcpdeck token new`?", "it has: new, list, revoke"]),
        (&["config", "--nonsense"], &["it has --all, --json"]),
        (&["report", "x.jsonl"], &["--output report.html"]),
        // Arguments of a call.
        (&["call", "calc.add", "a", "=", "1"], &["no blanks around `=`: write a=1"]),
        (&["call", "calc", "add", "a=1"], &["server and tool are one word: `calc.add`"]),
        (&["call", "calc.add", "{a:1}"], &["which the shell takes away"]),
        (&["call", "calc.add", "a=1", "b=1", "-o", "no/x"], &["there is no folder no; nothing"]),
        (&["call", "calc.add", "a=1", "b=1", "-o", "folder"], &["it is a folder: name a file"]),
        (&["load", "calc.add", "a=1"], &["\"b\" is required", "it takes: calc.add a=NUMBER"]),
        (&["secret", "set", "A=b"], &["seen by every user", "`mcpdeck secret set A < FILE`"]),
    ] {
        let done = run(&bench, args);
        let output = format!("{}{}", done.stdout, done.stderr);
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        for part in parts {
            assert!(output.contains(part), "{args:?} does not say `{part}`:\n{output}");
        }
    }
    #[cfg(unix)]
    {
        let done = run(&bench, &["attach", "localhost:7337"]);
        assert!(done.stderr.contains("a process id is a number"), "{done:?}");
    }
    let silent = run(&bench, &["call", "calc", "add", "a=1"]).stderr;
    assert!(!silent.contains("did you mean"), "one answer is enough: {silent}");
    let twice = run(&bench, &["request", "ping", "--server", "calc", "x"]).stderr;
    assert!(!twice.contains("--server x"), "{twice}");
    let unknown = run(&bench, &["status", "--all"]);
    assert!(!unknown.stderr.contains("-- --all"), "that would run it: {unknown:?}");
    let help = run(&bench, &["call", "calc.add", "a=x", "b=1"]).stderr;
    let expected = "\n  it takes: calc.add a=NUMBER b=NUMBER [note=STRING]\n  `mcpdeck list";
    assert!(help.contains(expected), "{help}");
    assert_eq!(run(&bench, &["import", "gone.json"]).stdout, "", "nothing was imported");
}

#[test]
fn a_command_is_given_variables_and_their_values_are_kept_to_it() {
    let bench = Bench::new();
    let script = json!({"tools": [{"name": "show", "description": "Shows.", "inputSchema": {"type": "object"}}],
        "calls": {"show": {"text": "${env.GIVEN} ${env.PASSED_ON} ${env.MADE}"}}});
    bench.write("show.mock.json", &script.to_string());
    let mut command = bench.command(&["call", "show", "-e", "GIVEN=one", "-e", "PASSED_ON"]);
    command.args(["-e", "MADE=a ${PASSED_ON}", "--reveal", "--"]).arg(crate::support::bin());
    command.args(["mock", "show.mock.json"]).env("PASSED_ON", "two");
    let done = crate::support::finish(command, super::AT_MOST);
    assert_eq!((done.code, done.stdout.trim()), (Some(0), "one two a two"), "{done:?}");
    let unset = run(&bench, &["list", "-e", "NEVER_SET_ANYWHERE", "--", "x"]);
    assert_eq!(unset.code, Some(2));
    assert!(unset.stderr.contains("the variable `NEVER_SET_ANYWHERE` is not set"), "{unset:?}");
}

#[test]
fn a_step_that_is_worth_a_note_has_not_failed_under_a_server_that_is_well() {
    let bench = Bench::new();
    let script = json!({"tools": [{"name": "one", "description": "Is one.", "inputSchema": {"type": "object"}}],
        "on": {"stdinClosed": {"exit": 1}}});
    bench.servers(&json!({"rude": bench.mock("rude", &script, &json!({}))}));
    let done = run(&bench, &["--check", "-v"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let line = done.stdout.lines().find(|line| line.trim_start().starts_with("stop "));
    let line = line.unwrap_or_default();
    assert!(line.contains("noted") && line.contains("exit code 1"), "{done:?}");
}

#[test]
fn a_check_says_who_was_slow_to_stop_and_has_no_rows_of_what_was_not_reached() {
    let bench = Bench::new();
    let tool = json!({"name": "one", "description": "Is one.", "inputSchema": {"type": "object"}});
    let slow = json!({"tools": [tool], "on": {"stdinClosed": [], "SIGTERM": {"exit": 0}}});
    let stop = json!({"stop": {"stdin": 1.2, "term": 5}});
    let dead = json!({"on": {"start": {"exit": 4}}});
    bench.servers(&json!({
        "slow": bench.mock("slow", &slow, &stop),
        "dead": bench.mock("dead", &dead, &json!({"retry": {"maxRetries": 0}})),
    }));
    let done = run(&bench, &["--check"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let line = "\ntook long to stop (stdin was closed, then SIGTERM): slow ";
    let took = done.stdout.split_once(line).map(|(_, rest)| rest).unwrap_or_default();
    let took: f64 = took.split(' ').next().unwrap_or_default().parse().unwrap_or_default();
    // It has 1.2 s before SIGTERM, and a busy machine takes longer.
    assert!(took >= 1.2, "{done:?}");
    for word in ["not reached", "junk", "leftovers", "firstByte"] {
        assert!(!done.stdout.contains(word), "{word}: {done:?}");
    }
}

#[test]
fn a_file_that_is_found_and_cannot_be_read_is_named() {
    let bench = Bench::new();
    bench.pipe("mcp.json");
    let done = run(&bench, &["list"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    let output = format!("{}{}", done.stdout, done.stderr);
    assert!(output.contains("mcp.json") && output.contains("not a regular file"), "{output}");
}

#[test]
fn with_all_one_server_that_does_not_start_stops_the_others() {
    let bench = bench();
    let some = run(&bench, &["list", "--startup", "available"]);
    assert!(some.stdout.contains("add"), "{some:?}");
    let all = run(&bench, &["list", "--startup", "all"]);
    assert_eq!((all.code, all.stdout.contains("add")), (Some(3), false), "{all:?}");
    assert!(all.stderr.contains("down"), "{all:?}");
    let one = run(&bench, &["call", "calc.add", "a=1", "b=2", "--startup", "all"]);
    assert_eq!(one.code, Some(0), "a call starts what it needs: {one:?}");
}

#[test]
fn one_wrong_setting_is_one_problem() {
    let bench = Bench::new();
    for (wrong, says) in [
        (r#""args": "x""#, "`args` must be a list of strings"),
        (r#""inheritEnv": "true""#, "`inheritEnv` must be true or false"),
        (r#""limits": {"cpu": -1}"#, "`cpu` must be more than 0 seconds"),
    ] {
        bench.write("mcp.json", &format!(r#"{{"servers": {{"a": {{"command": "x", {wrong}}}}}}}"#));
        let done = run(&bench, &["config"]);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains(says) && done.stderr.contains("\n1 error\n"), "{done:?}");
    }
}

#[test]
fn a_report_names_the_file_that_was_found_and_cannot_be_used() {
    let bench = Bench::new();
    bench.write("mcp.json", "{");
    for more in [&[][..], &["--fail-on", "note", "--calls=gone.json"]] {
        let done = run(&bench, &[&["--check", "--format", "json"], more].concat());
        assert_eq!(done.code, Some(2), "{done:?}");
        assert_eq!(done.json()["config"]["path"], "mcp.json", "{done:?}");
    }
    let done = run(&bench, &["--check", "--format", "json", "--", ""]);
    assert_eq!(done.json()["config"]["path"], serde_json::Value::Null, "{done:?}");
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_not_its_own_neighbour() {
    let bench = Bench::new();
    std::os::unix::fs::symlink("gone.json", bench.path().join("mcp.json")).expect("a link");
    let done = run(&bench, &["list"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(
        done.stderr.contains("does not exist") && !done.stderr.contains("there is"),
        "{done:?}"
    );
}

#[test]
fn a_uri_that_nobody_lists_is_answered_with_those_that_are_near_and_where_to_look() {
    let bench = Bench::new();
    let refuse = |code| json!({"error": {"code": code, "message": "unknown"}});
    let notes = json!({"tools": [], "prompts": [{"name": "greet"}],
        "gets": {"greet": refuse(-32602)},
        "resources": [{"uri": "note://shopping", "name": "s"}, {"uri": "note://x", "name": "x"}],
        "reads": {"note://gone": refuse(-32602), "note://lost": refuse(-32002)}});
    let logs = json!({"resourceTemplates": [{"uriTemplate": "log://day/{day}", "name": "day"}]});
    let silent = json!({"tools": []});
    bench.servers(&json!({
        "notes": bench.mock("notes", &notes, &json!({})),
        "logs": bench.mock("logs", &logs, &json!({})),
        "silent": bench.mock("silent", &silent, &json!({})),
    }));
    let lines = |args: &[&str]| {
        let done = run(&bench, args);
        assert_ne!(done.code, Some(0), "{done:?}");
        done.stderr
    };
    let near = lines(&["read", "note://shoping"]);
    assert!(near.contains("no server lists `note://shoping`\n  did you mean `note://shopping`?"));
    let template = lines(&["read", "logs://day/1"]);
    assert!(template.contains("did you mean `log://day/{day}`?"), "{template}");
    let strange = lines(&["read", "nosuch://thing"]);
    assert!(!strange.contains("did you mean"), "{strange}");
    assert!(strange.contains("`mcpdeck list --only resources` shows"), "{strange}");
    assert!(strange.contains("not list: `notes`, `logs`\n"), "{strange}");
    // The server's own refusal is about the URI or the name, whatever its code.
    let all = "`mcpdeck list --only resources` shows";
    for (args, part) in [
        (&["read", "note://gone", "--server", "notes"][..], all),
        (&["read", "note://lost", "--server", "notes"], all),
        (&["request", "resources/read", "uri=note://gone", "--server", "notes"], all),
        (
            &["request", "prompts/get", "name=greet", "--server", "notes"],
            "`mcpdeck list --only prompts -l`",
        ),
        (&["prompt", "notes.gret"], "did you mean `notes.greet`?"),
        (&["prompt", "notes.other-thing"], "`mcpdeck list` shows what there is"),
        (&["read", "note://x", "--server", "nots"], "there is no server `nots`"),
        (&["request", "ping", "--server", "nots"], "there is no server `nots`"),
    ] {
        let text = lines(args);
        assert!(text.contains(part), "{args:?}: {text}");
        assert!(
            !text.contains("correct the") && !text.contains("correct them"),
            "{args:?}: {text}"
        );
    }
}

#[test]
fn a_file_or_the_demo_serves_a_command_wherever_it_is_named() {
    let bench = bench();
    std::fs::rename(bench.path().join("mcp.json"), bench.path().join("team.json")).expect("a file");
    for args in [
        &["team.json", "list", "calc"][..],
        &["list", "team.json", "calc"],
        &["-c", "team.json", "list", "calc"],
        &["list", "calc", "-c", "team.json"],
    ] {
        let done = run(&bench, args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        assert!(done.stdout.contains("add"), "{args:?}: {done:?}");
    }
    for args in [
        &["--demo", "call", "atlas.find_airport", "query=ZRH"][..],
        &["call", "find_airport", "query=ZRH", "--demo"],
    ] {
        let done = run(&bench, args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        assert!(done.stdout.contains("Zürich"), "{args:?}: {done:?}");
    }
    let done = run(&bench, &["call", "find_airport", "query=O", "x=1", "--demo"]);
    assert!(done.stderr.contains("`mcpdeck list --long atlas --demo` shows more"), "{done:?}");
    let secrets = run(&bench, &["secret", "list"]);
    assert_eq!((secrets.code, secrets.stdout.as_str()), (Some(0), ""));
    assert!(secrets.stderr.contains("no secret is stored"), "{secrets:?}");
    let upgrade = run(&bench, &["upgrade", "-c", "team.json"]);
    assert!(upgrade.stderr.contains("nothing to upgrade"), "{upgrade:?}");
}

#[cfg(unix)]
#[test]
fn a_start_that_failed_is_told_by_its_exit_also_when_its_family_takes_longer_to_end() {
    let bench = Bench::new();
    let script = "sleep 60 >/dev/null 2>&1 </dev/null & echo 'Error: out of cheese' >&2; exit 3";
    let entry = json!({"command": "sh", "args": ["-c", script], "retry": {"maxRetries": 0}});
    bench.servers(&json!({"cheese": entry}));
    let done = run(&bench, &["list"]);
    let told = "exit code 3 before it was ready: Error: out of cheese";
    assert!(format!("{}{}", done.stdout, done.stderr).contains(told), "{done:?}");
}
