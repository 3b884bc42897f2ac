//! Other clients are connected to the deck, and everything is taken back to the byte.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::{AT_MOST, run};
use crate::support::{Bench, bin};

/// Every client, its file below the home folder, and what a user has in it.
const CLIENTS: [(&str, &str, &str); 12] = [
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "{}"),
    (
        "claude-code",
        ".claude.json",
        "{\n  \"numStartups\": 3,\n  \"mcpServers\": { \"own\": { \"type\": \"stdio\", \"command\": \"x\" } }\n}\n",
    ),
    ("cursor", ".cursor/mcp.json", "{\r\n  // mine\r\n  \"mcpServers\": {}\r\n}\r\n"),
    ("vs-code", ".config/Code/User/mcp.json", "{\n\t\"servers\": {\n\t},\n\t\"inputs\": [],\n}\n"),
    ("windsurf", ".codeium/windsurf/mcp_config.json", ""),
    ("cline", ".cline/data/settings/cline_mcp_settings.json", "{\"mcpServers\":{}}"),
    ("gemini-cli", ".gemini/settings.json", "{\n  \"theme\": \"Default\"\n}"),
    (
        "codex",
        ".codex/config.toml",
        "# mine\nmodel = \"o3\"\n\n[mcp_servers.own]\ncommand = \"x\" # y\n\n[tui]\n",
    ),
    ("zed", ".config/zed/settings.json", "// Zed\n{\n  \"theme\": \"One\", // dark\n}\n"),
    (
        "opencode",
        ".config/opencode/opencode.jsonc",
        "{\n  \"mcp\": {\n    \"own\": { \"type\": \"local\", \"command\": [\"x\"] }, // c\n  },\n}\n",
    ),
    (
        "goose",
        ".config/goose/config.yaml",
        "# mine\nextensions:\n  developer:\n    type: builtin # part\n\nGOOSE_MODEL: x\n",
    ),
    ("continue", ".continue/config.yaml", "name: Mine\nmodels: []\n# end"),
];

fn machine() -> Bench {
    let calc = json!({"tools": [{"name": "add", "inputSchema": {"type": "object"}}]});
    let bench = Bench::playing(&[("calc", calc)]);
    for (_, file, text) in CLIENTS {
        put(&bench, file, text);
    }
    bench
}

fn put(bench: &Bench, file: &str, text: &str) -> PathBuf {
    let path = bench.path().join(file);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    bench.write(file, text)
}

fn text(bench: &Bench, file: &str) -> String {
    std::fs::read_to_string(bench.path().join(file)).expect("a file")
}

/// The clients as `connect --list --json` has them, by name.
fn listed(bench: &Bench) -> Value {
    let done = bench.run(&["connect", "--list", "--json"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    let all = done.json()["clients"].as_array().expect("a list").clone();
    all.into_iter()
        .map(|client| (client["client"].as_str().expect("a name").to_owned(), client))
        .collect()
}

#[test]
fn every_client_reaches_the_servers_and_gets_its_file_back_to_the_byte() {
    let bench = machine();
    // Nothing is written unasked.
    let asked = run(&bench, &["connect", "--all"]);
    assert_eq!(asked.code, Some(2), "{asked:?}");
    let shown = run(&bench, &["connect", "--all", "--dry-run"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.stdout.contains("+  - name: mcpdeck"), "{shown:?}");
    for (client, file, before) in CLIENTS {
        assert_eq!(text(&bench, file), before, "{client}");
    }
    let done = run(&bench, &["connect", "--all", "--yes"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let all = listed(&bench);
    for (client, file, before) in CLIENTS {
        let after = text(&bench, file);
        for line in before.lines().filter(|line| line.contains(['#', '/'])) {
            assert!(after.contains(line.trim_end()), "{client}: {after}");
        }
        assert_eq!(all[client]["works"], true, "{client}: {}\n{after}", all[client]);
        assert_eq!(all[client]["connected"]["how"], "stdio", "{client}");
    }
    assert_eq!(all["codex"]["servers"], json!(["own"]));
    // Once more changes nothing.
    let again = run(&bench, &["connect", "cursor", "--yes"]);
    assert!(again.stderr.contains("has all of it already"), "{again:?}");
    let renamed = run(&bench, &["connect", "cursor", "--name", "other", "--dry-run"]);
    assert!(renamed.stderr.contains("`mcpdeck` goes"), "{renamed:?}");
    let check = run(&bench, &["sync", "--check"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    let back = run(&bench, &["disconnect", "--all", "-y"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    for (client, file, before) in CLIENTS {
        assert_eq!(text(&bench, file), before, "{client}");
    }
    bench.expect_nothing_left(AT_MOST);
}

#[test]
fn a_file_that_connect_made_goes_away_again() {
    let bench = machine();
    let file = bench.path().join(".cursor/mcp.json");
    std::fs::remove_file(&file).expect("removed");
    assert_eq!(run(&bench, &["connect", "cursor", "-y"]).code, Some(0));
    assert!(file.is_file());
    let back = run(&bench, &["disconnect", "cursor", "-y"]);
    assert!(back.code == Some(0) && !file.exists(), "{back:?}");
    // In a project, beside the configuration of the deck.
    let done = run(&bench, &["connect", "vs-code", "--project", "-y"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let entry = &serde_json::from_str::<Value>(&text(&bench, ".vscode/mcp.json")).expect("JSON");
    let entry = &entry["servers"]["mcpdeck"];
    assert_eq!(entry["type"], "stdio");
    let own = bench.path().canonicalize().expect("a path").join("mcp.json");
    let named = entry["args"].as_array().expect("a list").iter().any(|arg| {
        arg.as_str().is_some_and(|arg| Path::new(arg).canonicalize().ok().as_ref() == Some(&own))
    });
    assert!(named, "{entry}");
}

#[test]
fn what_cannot_be_connected_is_refused_and_nothing_is_changed() {
    let bench = machine();
    let refused = |args: &[&str], words: &str| {
        let done = run(&bench, &[&["connect"], args, &["-y"]].concat());
        assert_eq!(done.code, Some(2), "{args:?}: {done:?}");
        assert!(done.stderr.contains(words), "{args:?}: {done:?}");
    };
    refused(&["cursr"], "`cursor`");
    refused(&[], "name a client");
    refused(&["cursor", "--profile", "nobody"], "no profile `nobody`");
    refused(&["claude-desktop", "--http"], "starts programs only");
    refused(&["cursor", "--file", "mcp.json"], "the configuration itself");
    put(&bench, ".cursor/mcp.json", "{\"mcpServers\": [}");
    refused(&["cursor"], "mcp.json:1:");
    put(&bench, ".cursor/mcp.json", "{\"mcpServers\": {\"mcpdeck\": {\"command\": \"other\"}}}");
    refused(&["cursor"], "choose a name with --name");
    put(&bench, ".codex/config.toml", "[mcp_servers\n");
    refused(&["codex"], "config.toml:1:");
    let empty = Bench::new();
    let done = run(&empty, &["connect", "cursor", "-y"]);
    assert!(done.code == Some(2) && done.stderr.contains("no configuration"), "{done:?}");
}

#[test]
fn a_client_of_a_service_gets_a_token_that_is_revoked_with_the_connection() {
    let bench = machine();
    let done = run(&bench, &["connect", "cursor", "--http", "-y"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let written: Value =
        serde_json::from_str(&text(&bench, ".cursor/mcp.json").replace("// mine", ""))
            .expect("JSON");
    let entry = &written["mcpServers"]["mcpdeck"];
    let token = entry["headers"]["Authorization"].as_str().expect("a header");
    let token = token.strip_prefix("Bearer ").expect("a token");
    assert!(token.len() > 30, "{entry}");
    assert!(!done.stdout.contains(token) && !done.stderr.contains(token), "{done:?}");
    let tokens = || run(&bench, &["token", "list", "--json"]).json()["tokens"].clone();
    assert_eq!(tokens().as_array().map(Vec::len), Some(1));
    let back = run(&bench, &["disconnect", "cursor", "-y"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    assert_eq!(tokens(), json!([]));
}

/// A file that its owner has made read-only is left alone, by the administrator too.
#[cfg(unix)]
#[test]
fn a_file_that_is_read_only_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    let bench = machine();
    let set = |file: &str, mode: u32| {
        let permissions = std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(bench.path().join(file), permissions).expect("set");
    };
    let protected = |file: &str, args: &[&str]| {
        set(file, 0o444);
        let before = text(&bench, file);
        let done = run(&bench, args);
        assert_ne!(done.code, Some(0), "{args:?}: {done:?}");
        let name = file.rsplit('/').next().expect("a name");
        let told = done.stderr.contains(name) && done.stderr.contains("read-only");
        assert!(told, "{args:?}: {done:?}");
        assert_eq!(text(&bench, file), before, "{args:?}");
        set(file, 0o644);
    };
    let cursor = ".cursor/mcp.json";
    protected(cursor, &["connect", "cursor", "-y"]);
    protected(cursor, &["connect", "cursor", "--http", "-y"]);
    protected(cursor, &["connect", "cursor", "--direct", "-y"]);
    assert_eq!(run(&bench, &["token", "list", "--json"]).json()["tokens"], json!([]));
    assert_eq!(run(&bench, &["connect", "cursor", "-y"]).code, Some(0));
    protected(cursor, &["disconnect", "cursor", "-y"]);
    assert_eq!(listed(&bench)["cursor"]["works"], true, "it is connected still");
    // One that was made by `connect` does not go away either.
    std::fs::remove_file(bench.path().join(".gemini/settings.json")).expect("removed");
    assert_eq!(run(&bench, &["connect", "gemini", "-y"]).code, Some(0));
    protected(".gemini/settings.json", &["disconnect", "gemini", "-y"]);
    // Nor are files of ours that people write.
    protected("mcp.json", &["add", "more", "-y", "--no-check", "--", "x"]);
    protected("mcp.json", &["remove", "calc", "-y"]);
    assert_eq!(run(&bench, &["--check", "--lock"]).code, Some(0));
    protected("mcp.lock.json", &["--check", "--lock"]);
    let back = run(&bench, &["disconnect", "--all", "-y"]);
    assert_eq!(back.code, Some(0), "{back:?}");
}

#[test]
fn copies_follow_the_file_and_drift_is_told() {
    let bench = machine();
    let config = |more: &Value| {
        let mut servers = json!({
            "calc": {"command": bin(), "args": ["mock"], "env": {"MODE": "${MODE}"}},
            "vault": {"command": "x", "env": {"KEY": "${secret:key}"}},
        });
        for (name, entry) in more.as_object().expect("an object") {
            servers[name] = entry.clone();
        }
        bench.servers(&servers);
    };
    config(&json!({}));
    for client in ["cursor", "codex", "goose"] {
        let done = run(&bench, &["connect", client, "--direct", "-y"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(done.stderr.contains("`vault` is left out"), "{done:?}");
    }
    assert!(text(&bench, ".cursor/mcp.json").contains("${env:MODE}"));
    assert!(text(&bench, ".codex/config.toml").contains("env_vars = [\"MODE\"]"));
    assert_eq!(run(&bench, &["sync", "--check"]).code, Some(0));
    config(&json!({"more": {"command": "y"}}));
    let drift = run(&bench, &["sync", "--check"]);
    assert_eq!(drift.code, Some(1), "{drift:?}");
    assert!(drift.stdout.contains("+[mcp_servers.more]"), "{drift:?}");
    assert_eq!(run(&bench, &["sync", "--yes"]).code, Some(0));
    assert!(text(&bench, ".config/goose/config.yaml").contains("cmd: \"y\""));
    assert_eq!(run(&bench, &["sync", "--check"]).code, Some(0));
    // Somebody changed a copy, and something else.
    let changed = text(&bench, ".cursor/mcp.json").replace("\"y\"", "\"z\"");
    put(&bench, ".cursor/mcp.json", &format!("{changed}// later\n"));
    assert_eq!(run(&bench, &["sync", "--check"]).code, Some(1));
    assert_eq!(run(&bench, &["sync", "-y"]).code, Some(0));
    assert!(text(&bench, ".cursor/mcp.json").ends_with("// later\n"));
    let back = run(&bench, &["disconnect", "--all", "-y"]);
    assert_eq!(back.code, Some(0), "{back:?}");
    for (client, file, before) in CLIENTS {
        let expected =
            if client == "cursor" { format!("{before}// later\n") } else { before.to_owned() };
        assert_eq!(text(&bench, file), expected, "{client}");
    }
}

/// A program that says when it was started, in a folder of a project.
fn tell_tale(bench: &Bench, name: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let started = bench.path().join("started-by-list");
    let file = put(bench, name, &format!("#!/bin/sh\ntouch '{}'\nexit 1\n", started.display()));
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).expect("set");
    file
}

#[test]
fn a_list_starts_nothing_that_others_wrote() {
    let bench = machine();
    let theirs = tell_tale(&bench, "bin/mcpdeck");
    let started = || bench.path().join("started-by-list").exists();
    let entry = |command: &Path| json!({"command": command, "args": ["serve", "--stdio"]});
    let file = |name: &str, entry: &Value| json!({"mcpServers": {name: entry}}).to_string();
    // An entry that was written by hand, by its path and by one beside the file.
    put(&bench, ".gemini/settings.json", &file("x", &entry(&theirs)));
    put(&bench, ".cline/data/settings/cline_mcp_settings.json", &file("x", &entry(bin())));
    put(&bench, ".cursor/mcp.json", &file("x", &entry(Path::new("./bin/mcpdeck"))));
    let all = listed(&bench);
    for client in ["gemini-cli", "cline"] {
        assert_eq!(all[client]["works"], Value::Null, "{}", all[client]);
        assert_eq!(all[client]["says"], "not tried: written by hand", "{}", all[client]);
    }
    assert_eq!(all["cursor"]["servers"], json!(["x"]), "it is a server like any other");
    assert!(!started());
    // One that `connect` wrote, and others changed since: the command, or what it is given.
    put(&bench, ".cursor/mcp.json", "{}");
    assert_eq!(run(&bench, &["connect", "cursor", "-y"]).code, Some(0));
    assert_eq!(listed(&bench)["cursor"]["works"], true);
    let own = text(&bench, ".cursor/mcp.json");
    let changed = own.replace("\"--stdio\"", "\"--stdio\", \"--config\", \"other.json\"");
    for changed in [file("mcpdeck", &entry(&theirs)), changed] {
        put(&bench, ".cursor/mcp.json", &changed);
        let all = listed(&bench);
        assert_eq!(all["cursor"]["works"], Value::Null, "{changed}: {}", all["cursor"]);
        assert!(all["cursor"]["says"].as_str().is_some_and(|says| says.contains("changed since")));
    }
    // Another entry in the file takes precedence under the name; what was written is tried.
    put(&bench, ".config/Code/User/mcp.json", "{}");
    assert_eq!(run(&bench, &["connect", "vs-code", "-y"]).code, Some(0));
    let mut both: Value =
        serde_json::from_str(&text(&bench, ".config/Code/User/mcp.json")).expect("JSON");
    both["mcp"] = json!({"servers": {"mcpdeck": entry(&theirs)}});
    put(&bench, ".config/Code/User/mcp.json", &both.to_string());
    let tried = listed(&bench)["vs-code"].clone();
    assert_eq!(tried["works"], true, "{tried}");
    // What the deck would start has to be approved as well, where that is asked for.
    let done = run(&bench, &["connect", "--list", "vs-code", "--json", "--require-trust"]);
    assert_ne!(done.json()["clients"][0]["says"], tried["says"], "{done:?}");
    assert!(!started());
}

#[test]
fn one_client_that_fails_keeps_nothing_from_the_others() {
    let bench = machine();
    let (cursor, gemini) = (".cursor/mcp.json", ".gemini/settings.json");
    put(&bench, cursor, "{}");
    bench.write("other.json", "{\"servers\": {\"a\": {\"command\": \"x\"}}}");
    let copies = ["connect", "cursor", "--direct", "-y", "-c", "other.json"];
    assert_eq!(run(&bench, &copies).code, Some(0));
    assert_eq!(run(&bench, &["connect", "gemini", "-y"]).code, Some(0));
    std::fs::remove_file(bench.path().join("other.json")).expect("removed");
    for args in [&["sync", "--check"], &["sync", "--yes"]] {
        let done = run(&bench, args);
        assert_eq!(done.code, Some(2), "{done:?}");
        for words in ["which is gone; `mcpdeck disconnect cursor`", "settings.json is in step"] {
            assert!(done.stderr.contains(words), "{words}: {done:?}");
        }
    }
    let before = text(&bench, cursor);
    put(&bench, cursor, "{ broken");
    let done = run(&bench, &["disconnect", "--all", "-y"]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert_eq!(text(&bench, gemini), "{\n  \"theme\": \"Default\"\n}", "it is as before");
    put(&bench, cursor, &before);
    assert_eq!(run(&bench, &["disconnect", "cursor", "-y"]).code, Some(0));
    assert_eq!(text(&bench, cursor), "{}");
}

#[test]
fn a_connection_is_taken_back_under_its_own_name() {
    let bench = machine();
    let gemini = ".gemini/settings.json";
    let before = text(&bench, gemini);
    assert_eq!(run(&bench, &["connect", "gemini", "--name", "mine", "-y"]).code, Some(0));
    let connected = text(&bench, gemini);
    for name in ["other", "mcpdeck"] {
        let done = run(&bench, &["disconnect", "gemini", "--name", name, "-y"]);
        assert_eq!(done.code, Some(2), "{done:?}");
        assert!(done.stderr.contains("it is connected as `mine`"), "{done:?}");
        let all = run(&bench, &["disconnect", "--all", "--name", name, "-y"]);
        assert!(all.code == Some(0) && all.stderr.contains("no client is connected"), "{all:?}");
        assert_eq!(text(&bench, gemini), connected);
    }
    assert_eq!(run(&bench, &["disconnect", "gemini", "--name", "mine", "-y"]).code, Some(0));
    assert_eq!(text(&bench, gemini), before);
    assert_eq!(run(&bench, &["connect", "gemini", "--name", "mine", "-y"]).code, Some(0));
    assert_eq!(run(&bench, &["disconnect", "gemini", "-y"]).code, Some(0));
    assert_eq!(text(&bench, gemini), before);
}

#[test]
fn import_reads_what_a_registry_publishes_and_refuses_what_is_hostile() {
    let bench = Bench::new();
    let server = |package: Value| {
        json!({"name": "io.example/weather-mcp", "version": "1.2.3", "packages": [package]})
            .to_string()
    };
    let good = json!({"registryType": "npm", "identifier": "@example/weather", "version": "1.2.3",
        "environmentVariables": [{"name": "API_KEY", "isRequired": true, "isSecret": true}]});
    bench.write("server.json", &server(good));
    let done = run(&bench, &["import", "server.json"]);
    let file = done.json();
    assert_eq!(file["servers"]["weather"]["args"][1], "@example/weather@1.2.3", "{done:?}");
    assert_eq!(file["inputs"][0]["password"], true, "{done:?}");
    let bad = json!({"registryType": "npm", "identifier": "--eval=x", "version": "1.2.3"});
    bench.write("server.json", &server(bad));
    let done = run(&bench, &["import", "server.json"]);
    assert!(done.code == Some(2) && done.stderr.contains("`identifier`"), "{done:?}");
    bench.write("x.mcpb", "no archive");
    let done = run(&bench, &["import", "x.mcpb"]);
    assert!(done.code == Some(2) && done.stderr.contains("ZIP"), "{done:?}");
}

#[test]
fn import_leaves_the_deck_itself_out_and_reads_yaml() {
    let bench = machine();
    assert_eq!(run(&bench, &["connect", "cursor", "-y"]).code, Some(0));
    let done = run(&bench, &["import", ".cursor/mcp.json"]);
    assert!(done.stderr.contains("the deck itself"), "{done:?}");
    assert_eq!(done.json()["servers"], json!({}));
    let path = bench.write("some.yaml", "mcpServers:\n  - {name: a, command: x}\n");
    let done = run(&bench, &["import", path.to_str().expect("a path")]);
    assert_eq!(done.json()["servers"]["a"]["command"], "x", "{done:?}");
    let path = bench.write("some.json", "extensions:\n  a: 1\n");
    let done = run(&bench, &["import", path.to_str().expect("a path")]);
    assert!(done.code == Some(2) && done.stderr.contains("this is YAML, not JSON"), "{done:?}");
}
