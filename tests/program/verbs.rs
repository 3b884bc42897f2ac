//! The headless commands over real processes: typed arguments, one JSON object, exit codes.

#[cfg(target_os = "linux")]
mod add;
// SSL_CERT_FILE is a matter of this system; others keep authorities in a store of their own.
#[cfg(target_os = "linux")]
mod certificates;
#[cfg(all(target_os = "linux", feature = "gateway"))]
mod connect;
#[cfg(feature = "tui")]
mod copied;
#[cfg(feature = "tui")]
mod copied_calls;
mod findings;
#[cfg(unix)]
mod launch;
mod limits;
mod log;
mod masked;
mod mistakes;
mod offers;
#[cfg(unix)]
mod outputs;
mod policy;
mod proxies;
mod schemas;
mod tasks;
#[cfg(target_os = "linux")]
mod tls;
mod trust;

use std::time::Duration;

use crate::support::{Bench, Finished};
use serde_json::{Value, json};

const AT_MOST: Duration = Duration::from_secs(60);

fn bench() -> Bench {
    let bench = Bench::new();
    let add = json!({
        "name": "add", "description": "Adds two numbers.",
        "inputSchema": {"type": "object", "required": ["a", "b"], "properties": {
            "a": {"type": "number"}, "b": {"type": "number"}, "note": {"type": "string"}}},
    });
    let calc = json!({
        "tools": [add, {"name": "fail", "description": "Always fails.", "inputSchema": {"type": "object"}}],
        "calls": {"add": {"text": "${arguments}"}, "fail": {"toolError": "it broke"}},
        "prompts": [{"name": "greet", "description": "Greets somebody.",
            "arguments": [{"name": "who", "required": true}]}],
        "gets": {"greet": {"answer": {"messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello ${arguments.who}"}}]}}},
        "resources": [{"uri": "note://one", "name": "one"}],
        "reads": {"note://one": {"answer": {"contents": [{"uri": "note://one", "blob": "aGkA"}]}}},
    });
    let marker = json!({"on": {"start": {"writeFile": {"path": "started", "text": "x"}}}});
    bench.servers(&json!({
        "calc": bench.mock("calc", &calc, &json!({})),
        "down": bench.mock("down", &json!({"on": {"start": [{"stderr": "no key"}, {"exit": 4}]}}), &json!({})),
        "marker": bench.mock("marker", &marker, &json!({})),
    }));
    bench
}

fn run(bench: &Bench, args: &[&str]) -> Finished {
    let done = bench.run(args, AT_MOST);
    // On a busy machine a server may be left to the guardian.
    bench.expect_nothing_left(AT_MOST);
    done
}

#[test]
fn a_call_types_its_arguments_by_the_schema_and_prints_one_object() {
    let bench = bench();
    let done = run(&bench, &["call", "calc.add", "a=1", "b=2.5", "note=7", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let object = done.json();
    let keys: Vec<&String> = object.as_object().expect("an object").keys().collect();
    let expected = [
        "server",
        "tool",
        "result",
        "error",
        "findings",
        "guardWarnings",
        "durationMs",
        "waitingMs",
        "denied",
    ];
    assert_eq!(keys, expected);
    let text = object["result"]["content"][0]["text"].as_str().expect("text");
    let sent: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!(sent, json!({"a": 1, "b": 2.5, "note": "7"}));
    assert_eq!((&object["server"], &object["error"]), (&json!("calc"), &Value::Null));
}

/// A server that asks for a colour, then for words, wherever it is asked for something.
fn asking() -> Bench {
    let bench = Bench::new();
    let form = json!({"type": "object", "properties": {"colour": {"type": "string"}}});
    let colour = json!({"ask": {"method": "elicitation/create", "as": "form",
        "params": {"message": "Which colour?", "requestedSchema": form}}});
    let said = json!([{"role": "user", "content": {"type": "text", "text": "Name it."}}]);
    let words = json!({"ask": {"method": "sampling/createMessage", "as": "words",
        "params": {"messages": said, "maxTokens": 9}}});
    let told = "${saved.form.result.action:-nobody} ${saved.form.result.content.colour:-nothing}, \
                ${saved.words.result.content.text:-no words}";
    let block = json!({"type": "text", "text": told});
    let script = json!({
        "tools": [{"name": "paint", "description": "Paints.", "inputSchema": {"type": "object"}}],
        "calls": {"paint": [colour, words, {"text": told}]},
        "prompts": [{"name": "look", "description": "Looks."}],
        "gets": {"look": [colour, words,
            {"answer": {"messages": [{"role": "user", "content": block}]}}]},
        "resources": [{"uri": "note://one", "name": "one"}],
        "reads": {"note://one": [colour, words,
            {"answer": {"contents": [{"uri": "note://one", "text": told}]}}]},
    });
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
    bench
}

#[test]
fn what_a_server_asks_for_is_answered_from_a_file_and_what_nothing_fits_is_denied_and_reported() {
    let bench = asking();
    let answers = json!({"answers": [
        {"server": "s", "kind": "elicitation", "matches": "colour", "accept": {"colour": "red"}},
        {"server": "other", "text": "not for this one"}]});
    bench.write("answers.json", &answers.to_string());
    let refused = "s asked for sampling/createMessage and was refused";
    for what in [["call", "s.paint"], ["prompt", "s.look"], ["read", "note://one"]] {
        let with = [&what[..], &["--answers", "answers.json"]].concat();
        let done = run(&bench, &with);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stdout.contains("accept red, no words"), "{done:?}");
        assert!(done.stderr.contains(refused), "{done:?}");
        assert!(!done.stderr.contains("elicitation"), "only what was denied: {done:?}");
        let done = run(&bench, &[&with[..], &["--json"]].concat());
        assert_eq!(done.json()["denied"], json!(["sampling/createMessage"]), "{done:?}");
        // Without a file nobody answers, and nobody is said to have declined.
        let done = run(&bench, &[&what[..], &["--json"]].concat());
        let denied = json!(["elicitation/create", "sampling/createMessage"]);
        assert_eq!(done.json()["denied"], denied, "{done:?}");
        assert!(done.stdout.contains("nobody nothing, no words"), "{done:?}");
        assert!(done.stderr.contains(refused), "{done:?}");
    }
    bench.write("answers.json", r#"{"answers": [{"kind": "sampling", "txt": "x"}]}"#);
    let done = run(&bench, &["read", "note://one", "--answers", "answers.json"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stderr.contains("answers.json"), "{done:?}");
}

#[test]
fn what_does_not_fit_is_refused_before_it_is_sent() {
    let bench = bench();
    for arguments in
        [&["a=x", "b=1"][..], &["a=", "b=1"], &["a=1"], &["{\"a\": null, \"b\": 1}"], &["[1]"]]
    {
        let done = run(&bench, &[&["call", "calc.add", "--json"], arguments].concat());
        assert_eq!(done.code, Some(2), "{arguments:?}: {done:?}");
        assert_eq!(done.json()["error"]["code"], "Validation", "{arguments:?}");
    }
}

#[test]
fn exit_codes_tell_a_tool_error_an_unknown_name_and_a_server_that_is_down_apart() {
    let bench = bench();
    let failed = run(&bench, &["call", "calc.fail"]);
    assert_eq!(failed.code, Some(1));
    assert!(failed.stdout.contains("it broke"), "{failed:?}");
    let unknown = run(&bench, &["call", "calc.ad", "a=1", "--json"]);
    assert_eq!(unknown.code, Some(2));
    assert_eq!(unknown.json()["error"]["code"], "ToolNotFound");
    let down = run(&bench, &["call", "down.anything", "--json"]);
    assert_eq!(down.code, Some(3), "{down:?}");
    let error = &down.json()["error"];
    assert_eq!((&error["code"], &error["server"]), (&json!("ServerUnavailable"), &json!("down")));
    assert!(error["message"].as_str().is_some_and(|m| m.contains("no key")), "{error}");
}

#[test]
fn what_to_do_about_a_server_that_died_is_reported_and_can_be_pasted() {
    let bench = bench();
    let trace = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /x\n    \
                 at resolve (node:internal:1:1) {\n  code: 'ERR_MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2";
    let script = json!({"on": {"start": [{"stderr": trace}, {"exit": 1}]}}).to_string();
    let program = crate::support::bin().to_str().expect("a path");
    let server = ["--", program, "mock", "--script", script.as_str()];
    for (args, shown) in [
        (&["list"][..], "stdout"),
        (&["status"], "stdout"),
        (&["--check", "--timeout", "20"], "stdout"),
        (&["call", "x"], "stderr"),
    ] {
        let done = run(&bench, &[args, &server].concat());
        let text = if shown == "stdout" { &done.stdout } else { &done.stderr };
        assert!(text.contains("`npm install`"), "{args:?}: {done:?}");
        assert!(text.contains("ready: Error [ERR_MODULE_NOT_FOUND]"), "{args:?}: {done:?}");
        assert!(!text.contains("ready: Node.js"), "{args:?}: {done:?}");
    }
    let call = run(&bench, &[&["call", "x"], &server[..]].concat());
    assert!(call.stderr.contains("`mcpdeck --check -v -- "), "{call:?}");
    let call = run(&bench, &["call", "down.x"]);
    assert!(call.stderr.contains("`mcpdeck --check -v --server down`"), "{call:?}");
}

#[test]
fn a_server_that_dies_during_a_call_leaves_its_last_words() {
    let bench = bench();
    let script = json!({
        "tools": [{"name": "die", "inputSchema": {"type": "object"}}],
        "calls": {"die": [{"stderr": "warming up\nfatal: the disk is full\nNode.js v20.20.2"}, {"exit": 3}]},
    });
    let script = script.to_string();
    let program = crate::support::bin().to_str().expect("a path");
    let done = run(&bench, &["call", "die", "--", program, "mock", "--script", script.as_str()]);
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(done.stderr.contains("  stderr | fatal: the disk is full"), "{done:?}");
    assert!(!done.stderr.contains("Node.js"), "{done:?}");
}

#[test]
fn an_entry_that_cannot_be_used_costs_the_others_nothing_and_is_named() {
    let bench = bench();
    let text = std::fs::read_to_string(bench.path().join("mcp.json")).expect("written");
    let mut config: Value = serde_json::from_str(&text).expect("JSON");
    config["servers"]["lost"] = json!({"command": "x", "env": {"KEY": "${NEVER_SET_ANYWHERE}"}});
    bench.write("mcp.json", &config.to_string());
    assert_eq!(run(&bench, &["call", "calc.add", "a=1", "b=2"]).code, Some(0));
    assert_eq!(run(&bench, &["list", "calc"]).code, Some(0));
    for args in [&["list"][..], &["status"], &["call", "lost.tool"]] {
        let done = run(&bench, args);
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains("the variable `NEVER_SET_ANYWHERE` is not set (mcp.json:"), "{told}");
        assert!(args[0] == "call" || told.contains("calc"), "the others are shown: {told}");
    }
    let status = run(&bench, &["status", "--json"]).json();
    let lost = status["servers"].as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
    assert_eq!((&lost["name"], &lost["state"]), (&json!("lost"), &json!("unavailable")));
    // A gate is strict: nothing is started.
    assert_eq!(run(&bench, &["--check"]).code, Some(2));
}

#[test]
fn a_file_can_be_named_without_an_option_and_where_none_is_found_the_places_are_reported() {
    let bench = bench();
    std::fs::rename(bench.path().join("mcp.json"), bench.path().join("team.json")).expect("moved");
    let done = run(&bench, &["team.json", "--check", "--server", "calc", "--quiet"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    for args in [&["list"][..], &["--check"], &["config"]] {
        let done = run(&bench, args);
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        let told = format!("{}{}", done.stdout, done.stderr);
        assert!(told.contains("./mcp.json, ./.mcp.json, ./.vscode/mcp.json"), "{told}");
        assert!(told.contains("mcpdeck import"), "{told}");
    }
}

#[test]
fn list_and_refusals_tell_what_a_tool_takes() {
    let bench = bench();
    let list = run(&bench, &["list", "--long", "calc"]);
    assert!(list.stdout.contains("\n      a*    number\n"), "{list:?}");
    assert!(list.stdout.contains("\n      who*  string\n"), "{list:?}");
    for arguments in [&["a=x"][..], &["a=1"], &["a=1", "c=2"]] {
        let done = run(&bench, &[&["call", "calc.add"], arguments].concat());
        let takes = "it takes: calc.add a=NUMBER b=NUMBER [note=STRING]";
        assert!(done.stderr.contains(takes), "{done:?}");
        assert!(done.stderr.contains("`mcpdeck list --long calc`"), "{done:?}");
    }
}

#[test]
fn what_is_wrong_is_reported_in_words_of_this_command_line() {
    let bench = bench();
    let help = |args: &[&str]| {
        let done = run(&bench, &[args, &["--json"]].concat());
        done.json()["error"]["help"].as_str().expect("help").to_owned()
    };
    assert!(help(&["call", "calc.add", "a=1"]).contains("--force"));
    assert!(help(&["prompt", "calc.greet"]).contains("who=TEXT"));
    // A misspelt server is told, and not only the one that happens to be down.
    let done = run(&bench, &["call", "cacl.add", "a=1", "b=2"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines[0], "mcpdeck: no server offers `cacl.add`", "{done:?}");
    assert!(lines[1].starts_with("  did you mean `calc.add`"), "{done:?}");
    assert!(lines[2].starts_with("  `down` was not asked, it is unavailable: "), "{done:?}");
    assert_eq!(lines.len(), 3, "{done:?}");
    let behind = json!({"command": "x", "dependencies": ["down"]});
    let down = json!({"command": "no-such-program-anywhere"});
    let address = json!({"url": "http://127.0.0.1:9/mcp"});
    bench.servers(&json!({"down": down, "behind": behind, "address": address}));
    for what in [["read", "note://x"], ["request", "ping"]] {
        let done = run(&bench, &[&what[..], &["--server", "address"]].concat());
        assert_eq!(done.code, Some(3), "{done:?}");
        assert!(done.stderr.contains("nothing listens there"), "{done:?}");
        assert!(!done.stderr.contains("restart it"), "{done:?}");
    }
    let done = run(&bench, &["call", "behind.x"]);
    assert!(done.stderr.starts_with("mcpdeck: behind: the server is waiting"), "{done:?}");
    assert_eq!(done.stderr.matches("command not found").count(), 1, "{done:?}");
}

#[test]
fn a_server_named_beside_a_method_is_shown_the_way() {
    let bench = bench();
    for words in [["calc", "ping"], ["ping", "calc"]] {
        let done = run(&bench, &[&["request"][..], &words].concat());
        assert_eq!(done.code, Some(2), "{done:?}");
        let line = "did you mean `mcpdeck request ping --server calc`?";
        assert!(done.stderr.contains(line), "{done:?}");
    }
    let done = run(&bench, &["request", "ping", "--server", "calc"]);
    assert_eq!((done.code, done.stdout.trim()), (Some(0), "{}"), "{done:?}");
}

#[test]
fn the_state_of_servers_is_told_without_an_essay() {
    let bench = bench();
    let done = run(&bench, &["status", "calc"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.stdout.contains("guardian"), "{done:?}");
    let containment = &run(&bench, &["status", "calc", "--json"]).json()["containment"];
    assert!(!containment.is_null(), "{containment}");
}

#[test]
fn numbers_reach_the_server_as_they_were_typed() {
    let bench = bench();
    let schema = json!({"type": "object", "properties": {
        "n": {"type": "number"}, "i": {"type": "integer"}, "few": {"maximum": 10}}});
    let script = json!({"record": "lines.jsonl",
        "tools": [{"name": "t", "description": "T.", "inputSchema": schema}],
        "calls": {"t": {"text": "ok"}}});
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
    bench.write("args.json", "{\"n\": 1e-400, /* as C writes it */ \"i\": 1E2,}");
    for (args, expected) in [
        (&["call", "s.t", "n=1e-400"][..], r#""arguments":{"n":1e-400}"#),
        (&["call", "s.t", "i=1e3"], r#""arguments":{"i":1e3}"#),
        (&["call", "s.t", "i=123456789012345678901234567890"], ":123456789012345678901234567890}"),
        (&["call", "s.t", r#"{"n": 1.50}"#], r#""arguments":{"n":1.50}"#),
        (&["call", "s.t", "@args.json"], r#""arguments":{"n":1e-400,"i":1E2}"#),
        (&["load", "s.t", "n=1.0e2", "--calls", "1"], r#""arguments":{"n":1.0e2}"#),
        (
            &["request", "tools/call", r#"{"name":"t","arguments":{"n":0.10}}"#],
            r#""arguments":{"n":0.10}"#,
        ),
    ] {
        let done = run(&bench, args);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        let path = bench.path().join("lines.jsonl");
        let lines = std::fs::read_to_string(&path).expect("recorded");
        assert!(lines.contains(expected), "{args:?}: {expected} is not in {lines}");
        std::fs::remove_file(path).expect("removed");
    }
    assert_eq!(run(&bench, &["call", "s.t", "i=1e-400"]).code, Some(2), "no integer");
    for typed in ["1e400", "123456789012345678901234567890", "11.50"] {
        let done = run(&bench, &["call", "s.t", &format!("few={typed}")]);
        let expected = format!("must be at most 10, got number {typed}\n");
        assert!(done.stderr.contains(&expected), "{done:?}");
    }
}

#[test]
fn capabilities_of_the_wrong_type_are_no_success_and_are_the_reason() {
    let bench = bench();
    for capabilities in [json!([]), json!("x"), json!(7)] {
        let script = json!({"capabilities": capabilities, "tools": [
            {"name": "t", "description": "T.", "inputSchema": {"type": "object"}}]});
        bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
        let list = run(&bench, &["list"]);
        assert_eq!(list.code, Some(1), "{list:?}");
        for name in ["s.t", "t"] {
            let call = run(&bench, &["call", name]);
            assert_eq!(call.code, Some(2), "{call:?}");
            let why = "`s` may have it: `capabilities` is not an object in its handshake";
            assert!(call.stderr.contains(why), "{call:?}");
        }
    }
}

#[test]
fn a_tool_that_is_listed_and_cannot_be_used_is_named_with_the_reason() {
    let bench = bench();
    let script = json!({"tools": [
        {"name": "t", "description": "T.", "inputSchema": {"type": "object"}},
        {"name": "snake", "description": "T.", "input_schema": {"type": "object"}},
        {"name": "text", "description": "T.", "inputSchema": "{\"type\": \"object\"}"}]});
    bench.servers(&json!({"s": bench.mock("s", &script, &json!({}))}));
    for name in ["s.snake", "snake", "s.text"] {
        let call = run(&bench, &["call", name]);
        assert_eq!(call.code, Some(2), "{call:?}");
        let why = "`s` lists it, and it cannot be used: `inputSchema`";
        assert!(call.stderr.contains(why), "{call:?}");
    }
    let other = run(&bench, &["call", "s.nothing"]);
    assert!(!other.stderr.contains("cannot be used"), "{other:?}");
}

#[test]
fn a_command_starts_only_the_server_it_needs() {
    let bench = bench();
    assert_eq!(run(&bench, &["list", "calc"]).code, Some(0));
    assert_eq!(run(&bench, &["call", "calc.add", "a=1", "b=2"]).code, Some(0));
    assert!(!bench.path().join("started").exists(), "another server was started");
}

#[test]
fn prompts_and_resources_are_reported_and_saved() {
    let bench = bench();
    let prompt = run(&bench, &["prompt", "calc.greet", "who=Ada"]);
    assert_eq!((prompt.code, prompt.stdout.as_str()), (Some(0), "[user]\nHello Ada\n"));
    assert_eq!(
        run(&bench, &["prompt", "calc.greet"]).code,
        Some(2),
        "a required argument is missing"
    );
    let read = run(&bench, &["read", "note://one", "--server", "calc", "--output", "out.bin"]);
    assert_eq!(read.code, Some(0), "{read:?}");
    assert_eq!(std::fs::read(bench.path().join("out.bin")).expect("written"), b"hi\0");
}

#[test]
fn any_request_is_sent_as_it_is_and_its_result_or_refusal_printed() {
    let bench = bench();
    let ask =
        |args: &[&str]| run(&bench, &[&["request", "--server", "calc", "--json"], args].concat());
    let pinged = ask(&["ping"]);
    assert_eq!((pinged.code, &pinged.json()["result"]), (Some(0), &json!({})), "{pinged:?}");
    let plain = run(&bench, &["request", "ping", "--server", "calc"]);
    assert_eq!((plain.code, plain.stdout.as_str()), (Some(0), "{}\n"), "{plain:?}");
    let raw = ask(&["tools/call", r#"{"name": "add", "arguments": {"a": "no number"}}"#]);
    let text = raw.json()["result"]["content"][0]["text"].clone();
    assert_eq!(text, json!(r#"{"a":"no number"}"#), "nothing is checked or typed: {raw:?}");
    let read = ask(&["resources/read", "uri=note://one"]);
    assert_eq!(read.json()["result"]["contents"][0]["blob"], json!("aGkA"), "{read:?}");
    let unknown = ask(&["vendor/thing"]);
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    assert_eq!(unknown.json()["error"]["rpc"]["code"], json!(-32601), "{unknown:?}");
    let several = run(&bench, &["request", "ping"]);
    assert_eq!(several.code, Some(2), "{several:?}");
    assert!(several.stderr.contains("--server"), "{several:?}");
}

#[test]
fn status_and_list_tell_every_server_and_which_is_down() {
    let bench = bench();
    let status = run(&bench, &["status", "--json"]);
    assert_eq!(status.code, Some(3));
    let servers = status.json()["servers"].clone();
    let states: Vec<&str> = servers
        .as_array()
        .expect("servers")
        .iter()
        .map(|s| s["state"].as_str().expect("a state"))
        .collect();
    assert_eq!(states, ["ready", "unavailable", "ready"]);
    assert!(bench.path().join("started").exists(), "status starts all of them");
    let list = run(&bench, &["list", "calc", "--json"]);
    assert_eq!(list.json()["servers"][0]["tools"][0]["name"], "add");
}

#[test]
fn arguments_come_from_a_file_and_one_server_needs_no_configuration() {
    let bench = bench();
    bench.write("args.json", "{\"a\": 1, /* two */ \"b\": 2,}");
    assert_eq!(run(&bench, &["call", "calc.add", "@args.json", "b=3"]).code, Some(0));
    let program = crate::support::bin().to_str().expect("a path");
    let done = run(&bench, &["call", "add", "a=1", "b=2", "--", program, "mock", "calc.mock.json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn a_saved_call_is_made_again_and_words_replace_its_arguments() {
    let bench = bench();
    let calls = json!({"version": 1, "calls": {
        "add two": {"tool": "calc.add", "arguments": {"a": 1, "b": 2}},
        "broken": {"tool": "calc.add", "arguments": {"a": "x", "b": 2}},
        "greet ada": {"prompt": "calc.greet", "arguments": {"who": "Ada"}},
        "note": {"resource": "note://one", "server": "calc"},
    }});
    bench.write("mcp.calls.json", &calls.to_string());
    let sent = |done: &Finished| -> Value {
        let object = done.json();
        let text = object["result"]["content"][0]["text"].as_str().expect("text").to_owned();
        serde_json::from_str(&text).expect("JSON")
    };
    let done = run(&bench, &["call", "@add two", "--json"]);
    assert_eq!((done.code, sent(&done)), (Some(0), json!({"a": 1, "b": 2})));
    let done = run(&bench, &["call", "@add two", "b=5", "note=hi", "--json"]);
    assert_eq!((done.code, sent(&done)), (Some(0), json!({"a": 1, "b": 5, "note": "hi"})));
    let done = run(&bench, &["call", "@add two", "{\"b\": 7}", "--json"]);
    assert_eq!(sent(&done), json!({"a": 1, "b": 7}));
    assert_eq!(run(&bench, &["call", "@greet ada"]).stdout, "[user]\nHello Ada\n");
    assert_eq!(run(&bench, &["call", "@note", "--json"]).json()["uri"], "note://one");
    assert_eq!(run(&bench, &["call", "@broken"]).code, Some(2));
    let unknown = run(&bench, &["call", "@add tow", "--json"]);
    assert_eq!(unknown.code, Some(2));
    let error = unknown.json()["error"]["message"].to_string();
    assert!(error.contains("did you mean add two"), "{error}");
    assert!(!bench.path().join("started").exists(), "only the server that is needed starts");
}

#[test]
fn saved_calls_are_listed_without_their_values_and_completed() {
    let bench = bench();
    let none = run(&bench, &["call", "--list"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    let calls = json!({"version": 1, "calls": {
        "add \u{1b}[2J two": {"tool": "calc.add", "arguments": {"a": "a secret", "b": 2}}, "b": {"tool": "calc.fail"}}});
    bench.write("mcp.calls.json", &calls.to_string());
    let list = run(&bench, &["call", "--list"]);
    assert!(list.stdout.contains("tool calc.add") && list.stdout.contains("a, b"), "{list:?}");
    assert!(!list.stdout.contains("secret") && !list.stdout.contains('\u{1b}'), "{list:?}");
    assert_eq!(
        run(&bench, &["call", "--list", "--json"]).json()["calls"]["b"]["tool"],
        "calc.fail"
    );
    assert_eq!(run(&bench, &["call"]).code, Some(2), "a name is needed");
}

#[test]
fn import_shows_what_would_change_and_changes_it_only_when_reported() {
    let bench = bench();
    bench.write(
        "cursor.json",
        r#"{"mcpServers": {"calc": {"command": "theirs"},
        "new": {"command": "x", "env": {"API_TOKEN": "s3cret"}}}}"#,
    );
    let path = bench.write(
        "ours.json",
        "{ // mine\n  \"servers\": { \"calc\": { \"command\": \"ours\" } }\n}\n",
    );
    let before = std::fs::read_to_string(&path).expect("ours");
    let shown = run(&bench, &["import", "cursor.json", "--into", "ours.json"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains('+') && shown.stdout.contains("\"new\""), "{shown:?}");
    assert!(!shown.stdout.contains("s3cret") && shown.stderr.contains("API_TOKEN"), "{shown:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("ours"), before, "nothing was written");
    let done = run(&bench, &["import", "cursor.json", "--into", "ours.json", "--write"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let after = std::fs::read_to_string(&path).expect("ours");
    assert!(after.starts_with("{ // mine") && after.contains("\"ours\""), "{after}");
    assert!(after.contains("${API_TOKEN}") && !after.contains("s3cret"), "{after}");
    let again = run(&bench, &["import", "cursor.json", "--into", "ours.json", "--write"]);
    assert!(again.stderr.contains("already"), "{again:?}");
    let replaced =
        run(&bench, &["import", "cursor.json", "--into", "ours.json", "--write", "--replace"]);
    assert!(replaced.stderr.contains("is replaced"), "{replaced:?}");
}

#[test]
fn import_keeps_different_secrets_apart_and_says_what_it_could_not_read() {
    let bench = Bench::new();
    let entry = |token: &str| json!({"command": "gh", "env": {"GH_TOKEN": token}});
    let all =
        json!({"mcpServers": {"work": entry("one"), "home": entry("two"), "w": entry("one")}});
    for folder in [".cursor", ".gemini"] {
        std::fs::create_dir(bench.path().join(folder)).expect("a folder");
    }
    bench.write(".cursor/mcp.json", &all.to_string());
    bench.write(".gemini/settings.json", "{\"mcpServers\": ");
    let done = run(&bench, &["import"]);
    let servers = &done.json()["servers"];
    assert_eq!(servers["work"]["env"]["GH_TOKEN"], "${GH_TOKEN}", "{done:?}");
    assert_eq!(servers["home"]["env"]["GH_TOKEN"], "${GH_TOKEN_2}", "{done:?}");
    assert_eq!(servers["w"], Value::Null, "the same server comes once: {done:?}");
    assert!(done.stderr.contains("set GH_TOKEN, GH_TOKEN_2 before"), "{done:?}");
    assert!(done.stderr.contains(".gemini/settings.json:1:16"), "{done:?}");
}

#[test]
fn import_reads_the_servers_of_a_program_that_keeps_much_else_in_its_file() {
    let bench = Bench::new();
    let history = vec![json!({"said": "x".repeat(40)}); 110_000];
    let all = json!({"history": history, "mcpServers": {"a": {"command": "x"}}});
    bench.write("claude_desktop_config.json", &all.to_string());
    let done = run(&bench, &["import", "claude_desktop_config.json"]);
    assert_eq!((done.code, done.json()["servers"]["a"]["command"].as_str()), (Some(0), Some("x")));
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_has_printed_its_result_leaves_slow_servers_to_the_guardian() {
    let bench = Bench::new();
    // It does not end with its stdin, and takes a moment after SIGTERM.
    let script = json!({"tools": [{"name": "t", "inputSchema": {"type": "object"}}],
        "calls": {"t": {"text": "done"}}, "on": {"stdinClosed": []}});
    bench.servers(&json!({
        "slow": bench.mock("slow", &script, &json!({"stop": {"stdin": 6, "term": 1}})),
        "good": bench.mock("good", &json!({}), &json!({})),
    }));
    let done = bench.run(&["call", "slow.t"], AT_MOST);
    assert_eq!((done.code, done.stdout.trim()), (Some(0), "done"), "{done:#?}");
    // The command is over while the server still has its time on closed stdin.
    let names = |processes: Vec<crate::support::Process>| {
        processes.iter().map(|p| p.command.clone()).collect::<Vec<_>>()
    };
    let left = names(bench.processes());
    assert!(left.iter().any(|command| command.contains("mock")), "{left:#?}");
    bench.expect_nothing_left(AT_MOST);
    // A recording holds the end of every server, so that is waited for.
    let done = bench.run(&["call", "slow.t", "--record", "r.jsonl"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:#?}");
    bench.expect_nothing_left(Duration::ZERO);
}

#[test]
fn a_misspelt_command_names_the_nearest() {
    let done = run(&bench(), &["lsit"]);
    assert_eq!(done.code, Some(2));
    assert!(done.stderr.contains("did you mean `mcpdeck list`"), "{done:?}");
}

#[test]
fn a_call_is_part_of_the_trace_that_the_environment_names() {
    let echo = json!({
        "tools": [{"name": "meta", "inputSchema": {"type": "object"}}],
        "calls": {"meta": {"text": "${params._meta}"}},
        "reads": {"note://a": {"answer": {"contents": [
            {"uri": "note://a", "text": "${params._meta.traceparent:-none}"}]}}},
        "resources": [{"uri": "note://a", "name": "a"}],
    });
    let bench = Bench::playing(&[("echo", echo)]);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let call = |args: &[&str], parent: &str| {
        let mut command = bench.command(args);
        command.env("TRACEPARENT", parent).env("TRACESTATE", "a=b").env("BAGGAGE", "user=1");
        crate::support::finish(command, AT_MOST)
    };
    let done = call(&["call", "meta"], trace);
    let meta: Value = serde_json::from_str(&done.stdout).expect("JSON");
    let told = [&meta["traceparent"], &meta["tracestate"], &meta["baggage"]];
    assert_eq!(told, ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "a=b", "user=1"]);
    assert_eq!(call(&["read", "note://a"], trace).stdout.trim(), trace);
    #[cfg(feature = "chat")]
    {
        let chat = ["chat", "--provider", "embedded", "--allow-all", "-p", "call meta {}"];
        assert!(call(&chat, trace).stdout.contains(trace));
    }
    let wrong = call(&["call", "meta"], "not-a-trace");
    assert!(wrong.stderr.contains("TRACEPARENT"), "{wrong:?}");
    let meta: Value = serde_json::from_str(&wrong.stdout).expect("JSON");
    assert_eq!((meta.get("traceparent"), meta.get("tracestate")), (None, None));
}

#[test]
fn the_configuration_folder_that_is_named_holds_all_files_of_the_user() {
    let bench = Bench::new();
    let own = bench.path().join("own");
    std::fs::create_dir(&own).expect("a folder");
    let echo = json!({
        "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
        "calls": {"echo": {"text": "here"}},
    });
    let servers = json!({"servers": {"own": bench.mock("own", &echo, &json!({}))}});
    bench.write("own/mcp.json", &servers.to_string());
    bench.write("own/settings.json", r#"{"chat": {"provider": "embedded"}}"#);
    let run = |args: &[&str]| {
        let mut command = bench.command(args);
        command.env("MCPDECK_CONFIG_DIR", &own);
        crate::support::finish(command, AT_MOST)
    };
    assert_eq!(run(&["call", "own.echo"]).stdout.trim(), "here");
    #[cfg(feature = "chat")]
    {
        let done = run(&["chat", "--allow-all", "-p", "call echo {}"]);
        assert!(done.stdout.contains("here"), "{done:?}");
    }
}
