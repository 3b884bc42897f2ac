//! Imports from real-looking files of the other programs: each becomes entries of ours with
//! the same meaning, and our file keeps every byte it had.

use std::path::{Path, PathBuf};

use mcpdeck::base::secret::Secret;
use mcpdeck::config::{
    Conflict, Environment, ImportHost, Imported, import_places, load_text, merge_import,
    preview_import, read_import, read_import_text,
};
use serde_json::{Value, json};

fn environment() -> Environment {
    let mut env = Environment { cwd: "/home/ada/shop".into(), ..Environment::default() };
    for name in
        ["TOKEN", "KEY", "FIGMA_KEY", "DB_URL", "API_KEY", "LOCAL_TOKEN", "FIGMA_TOKEN", "ORG_ID"]
    {
        env.vars.insert(name.into(), Secret::new("value"));
    }
    env.inputs.insert("key".into(), Secret::new("value"));
    env
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/configs/import").join(name)
}

const FILES: [(ImportHost, &str); 12] = [
    (ImportHost::ClaudeDesktop, "claude_desktop_config.json"),
    (ImportHost::ClaudeCode, "claude.json"),
    (ImportHost::Cursor, "cursor.json"),
    (ImportHost::VsCode, "vscode.json"),
    (ImportHost::Windsurf, "mcp_config.json"),
    (ImportHost::Cline, "cline_mcp_settings.json"),
    (ImportHost::GeminiCli, "gemini-settings.json"),
    (ImportHost::Codex, "codex.toml"),
    (ImportHost::Zed, "zed-settings.json"),
    (ImportHost::Opencode, "opencode.json"),
    (ImportHost::Goose, "goose.yaml"),
    (ImportHost::Continue, "continue.yaml"),
];

fn imported(host: ImportHost) -> Imported {
    let (_, file) = FILES.iter().find(|(h, _)| *h == host).expect("a fixture");
    read_import(host, &fixture(file), &environment()).expect("read")
}

fn servers(host: ImportHost) -> Value {
    let all = imported(host).servers;
    all.into_iter().map(|(name, entry)| (name.to_string(), entry)).collect()
}

#[test]
fn each_program_s_entries_keep_their_meaning() {
    for (host, expected) in [
        (
            ImportHost::ClaudeDesktop,
            json!({
                "filesystem": { "command": "npx", "args":
                    ["-y", "@modelcontextprotocol/server-filesystem", "/home/user/Documents"] },
                "brave-search": { "command": "npx", "args": ["-y", "@brave/brave-search-mcp-server"],
                    "env": { "BRAVE_API_KEY": "canary-brave-$${not a reference}" } }
            }),
        ),
        (
            ImportHost::ClaudeCode,
            json!({
                "everywhere": { "command": "uvx", "args": ["mcp-server-git"] },
                "not-here": { "command": "x", "cwd": "/home/ada/other" },
                "shadowed": { "type": "http", "url": "${BASE:-https://example.com}/project",
                    "headers": { "Authorization": "Bearer ${TOKEN}" }, "timeoutMs": 90000 }
            }),
        ),
        (
            ImportHost::Cursor,
            json!({
                "local": { "command": "python", "args": ["${workspaceFolder}/server.py"],
                    "env": { "KEY": "${env:KEY}" }, "envFile": "${workspaceFolder}/.env" },
                "remote": { "type": "sse", "url": "https://example.com/sse",
                    "headers": { "X-Key": "canary-cursor" } }
            }),
        ),
        (
            ImportHost::VsCode,
            json!({
                "perplexity": { "command": "npx", "args": ["-y", "server-perplexity-ask"],
                    "env": { "API_KEY": "${input:key}" },
                    "dev": { "watch": "src/**", "debug": { "type": "node" } } },
                "github": { "type": "http", "url": "https://example.com/mcp/" }
            }),
        ),
        (
            ImportHost::Windsurf,
            json!({
                "figma": { "type": "http", "url": "https://example.com/mcp",
                    "headers": { "API_KEY": "${env:FIGMA_KEY}" } },
                "github": { "command": "docker", "args": ["run", "-i", "--rm", "image"],
                    "disabled": true, "tools": { "deny": ["delete_repo", "odd[[]name[]]"] } }
            }),
        ),
        (
            ImportHost::Cline,
            json!({
                "weather": { "command": "node", "args": ["/srv/weather/build/index.js"],
                    "timeout": 60 },
                "hub": { "type": "http", "url": "https://example.com/mcp", "disabled": true },
                "old": { "type": "sse", "url": "https://example.com/events" }
            }),
        ),
        (
            ImportHost::GeminiCli,
            json!({
                "python": { "command": "python", "args": ["-m", "server", "--port", "8080"],
                    "cwd": "./tools", "timeoutMs": 15000,
                    "env": { "DATABASE": "${DB_URL}", "KEY": "${API_KEY}", "PRICE": "5$" },
                    "tools": { "allow": ["safe"], "deny": ["risky"] } },
                "stream": { "type": "http", "url": "https://example.com/mcp" },
                "events": { "type": "sse", "url": "https://example.com/events" }
            }),
        ),
        (
            ImportHost::Codex,
            json!({
                "context": { "command": "npx", "args": ["-y", "context-server"],
                    "env": { "MODE": "$${literal}", "LOCAL_TOKEN": "${LOCAL_TOKEN}" },
                    "startupTimeout": 20, "timeout": 45.5, "tools": { "deny": ["screenshot"] } },
                "figma": { "type": "http", "url": "https://example.com/mcp", "disabled": true,
                    "headers": { "X-Region": "eu", "X-Org": "${ORG_ID}",
                        "Authorization": "Bearer ${FIGMA_TOKEN}" } }
            }),
        ),
        (
            ImportHost::Zed,
            json!({
                "custom": { "command": "some-command", "args": ["arg-1", "arg-2"] },
                "older": { "command": "npx", "args": ["-y", "x"], "env": { "A": "canary-zed" } },
                "remote": { "type": "http", "url": "https://example.com/mcp",
                    "headers": { "Authorization": "Bearer x" } },
                "off": { "command": "x", "disabled": true }
            }),
        ),
        (
            ImportHost::Opencode,
            json!({
                "everything": { "command": "npx",
                    "args": ["-y", "@modelcontextprotocol/server-everything"],
                    "env": { "TOKEN": "${TOKEN}", "PRICE": "$${literal}" }, "timeoutMs": 5000 },
                "hub": { "type": "http", "url": "https://example.com/mcp", "disabled": true,
                    "headers": { "Authorization": "Bearer ${API_KEY}" } }
            }),
        ),
        (
            ImportHost::Goose,
            json!({
                "fetch": { "command": "uvx", "args": ["mcp-server-fetch"], "timeout": 300,
                    "env": { "MODE": "fast", "API_KEY": "${API_KEY}" },
                    "tools": { "allow": ["fetch"] } },
                "remote": { "type": "http", "url": "https://example.com/mcp", "disabled": true,
                    "headers": { "X-Region": "eu" } },
                "older": { "type": "sse", "url": "https://example.com/sse" }
            }),
        ),
        (
            ImportHost::Continue,
            json!({
                "files": { "command": "npx", "env": { "KEY": "${KEY}" }, "startupTimeoutMs": 10000,
                    "args": ["-y", "@modelcontextprotocol/server-filesystem", "."] },
                "remote": { "type": "http", "url": "https://example.com/mcp",
                    "headers": { "X-Region": "eu" } },
                "events": { "type": "sse", "url": "https://example.com/events" }
            }),
        ),
    ] {
        assert_eq!(servers(host), expected, "{}", host.name());
    }
}

#[test]
fn what_has_no_counterpart_is_named_and_no_value_is() {
    for (host, words) in [
        (ImportHost::Cursor, "auth"),
        (ImportHost::VsCode, "gallery"),
        (ImportHost::Cline, "autoApprove"),
        (ImportHost::GeminiCli, "trust"),
        (ImportHost::Zed, "`extension` is a part of Zed"),
        (ImportHost::Codex, "forwarded variables"),
        (ImportHost::Opencode, "oauth"),
        (ImportHost::Goose, "`developer` is a part of Goose"),
        (ImportHost::Continue, "requestOptions.verifySsl"),
    ] {
        let notes = imported(host).notes.join("\n");
        assert!(notes.contains(words), "{}: {notes}", host.name());
        assert!(!notes.contains("canary"), "{notes}");
    }
}

#[test]
fn lists_with_names_and_files_of_nothing_but_entries_are_read() {
    let here = |host, text: &str| -> Value {
        let read = read_import_text(host, Path::new("f"), text, &environment()).expect("read");
        assert!(read.notes.is_empty(), "{:?}", read.notes);
        read.servers.into_iter().map(|(name, entry)| (name.to_string(), entry)).collect()
    };
    let expected = json!({"docs": {"command": "npx", "args": ["-y", "docs"], "cwd": "/tmp"}});
    let entry = r#""command": "npx", "args": ["-y", "docs"], "workingDirectory": "/tmp""#;
    for (host, text) in [
        (ImportHost::ClaudeDesktop, format!(r#"{{"docs": {{{entry}}}}}"#)),
        (ImportHost::ClaudeCode, format!(r#"{{"docs": {{{entry}}}}}"#)),
        (ImportHost::Cline, format!(r#"{{"mcpServers": [{{"name": "docs", {entry}}}]}}"#)),
        (
            ImportHost::VsCode,
            format!(r#"{{"servers": [{{"id": "docs", "name": "The docs", {entry}}}]}}"#),
        ),
        (
            ImportHost::Codex,
            "[[mcp_servers]]\nname = \"docs\"\ncommand = \"npx\"\nargs = [\"-y\", \"docs\"]\n\
             workingDirectory = \"/tmp\"\n"
                .to_owned(),
        ),
    ] {
        assert_eq!(here(host, &text), expected, "{text}");
    }
    // Crush has the place of opencode, seconds for milliseconds, and `$NAME`.
    let text = r#"{"mcp": {"docs": {"type": "http", "url": "https://d.example", "timeout": 90,
        "headers": {"A": "Bearer $KEY"}}}}"#;
    let entry = json!({"type": "http", "url": "https://d.example", "timeout": 90,
        "headers": {"A": "Bearer ${KEY}"}});
    assert_eq!(here(ImportHost::Opencode, text), json!({"docs": entry}));
    let text = r#"{"mcpServers": {"docs": {"command": ["npx", "-y"], "args": ["docs"],
        "disabledTools": ["drop*"]}}}"#;
    let entry = json!({"command": "npx", "args": ["-y", "docs"], "tools": {"deny": ["drop[*]"]}});
    assert_eq!(here(ImportHost::Cline, text), json!({"docs": entry}));
    // Copilot lists the tools that may be used; all of them are no rule.
    let text = r#"{"mcpServers": {"docs": {"command": "npx", "tools": ["find", "read*"]},
        "all": {"command": "npx", "tools": ["*"]}}}"#;
    let rules = json!({"allow": ["find", "read[*]"]});
    let (listed, all) = (json!({"command": "npx", "tools": rules}), json!({"command": "npx"}));
    assert_eq!(here(ImportHost::ClaudeDesktop, text), json!({"docs": listed, "all": all}));
    // Entries that were copied from Gemini CLI and from Cursor.
    let text = r#"{"mcpServers": {"docs": {"command": "npx", "excludeTools": ["drop"],
        "env": {"KEY": "${env:KEY}", "TEXT": "${KEY}"}}}}"#;
    let env = json!({"KEY": "${env:KEY}", "TEXT": "$${KEY}"});
    let entry = json!({"command": "npx", "env": env, "tools": {"deny": ["drop"]}});
    assert_eq!(here(ImportHost::ClaudeDesktop, text), json!({"docs": entry}));
    // The settings of a program are no servers, whatever they hold.
    for text in
        [r#"{"docs": {"command": "npx"}, "theme": "dark"}"#, r#"{"hooks": {"x": {}}}"#, "{}"]
    {
        let read = read_import_text(ImportHost::Cursor, Path::new("f"), text, &environment());
        assert_eq!(read.expect_err("nothing")[0].rule, "import/nothing", "{text}");
    }
}

#[test]
fn what_is_imported_loads_here_without_a_problem() {
    for &host in ImportHost::ALL {
        let (text, notes) = merge_import("", &imported(host), Conflict::Keep).expect("merged");
        assert!(notes.is_empty());
        let loaded = load_text(Path::new("mcp.json"), &text, &environment()).expect("loads");
        let errors: Vec<_> = loaded
            .diagnostics
            .iter()
            .filter(|d| d.is_error() && d.rule != "config/env-file")
            .collect();
        assert!(errors.is_empty(), "{}: {errors:#?}\n{text}", host.name());
    }
}

const OURS: &str = "\
{
  // kept to the byte
  \"vendor\":   { \"unknown\" : [1,2,] },
  \"servers\": {
    \"filesystem\": { \"command\": \"ours\" }, /* ours */
  },
}
";

#[test]
fn our_file_keeps_every_byte_and_only_grows() {
    for &host in ImportHost::ALL {
        let (text, _) = merge_import(OURS, &imported(host), Conflict::Keep).expect("merged");
        let diff = similar::TextDiff::from_lines(OURS, &text);
        let gone: Vec<_> = diff
            .iter_all_changes()
            .filter(|change| change.tag() == similar::ChangeTag::Delete)
            .collect();
        assert!(gone.is_empty(), "{}: {gone:?}\n{text}", host.name());
    }
}

#[test]
fn a_taken_name_is_kept_or_replaced_as_asked() {
    let from = imported(ImportHost::ClaudeDesktop);
    let (kept, notes) = merge_import(OURS, &from, Conflict::Keep).expect("merged");
    assert!(kept.contains("\"ours\" }, /* ours */"));
    assert_eq!(notes, ["`filesystem` is there already and stays as it is"]);
    let (replaced, _) = merge_import(OURS, &from, Conflict::Replace).expect("merged");
    assert!(!replaced.contains("\"command\": \"ours\""));
    let (again, notes) = merge_import(&kept, &from, Conflict::Keep).expect("merged");
    assert_eq!((again, notes.len()), (kept, 2), "a second import changes nothing");
}

#[test]
fn the_preview_is_a_patch_without_secrets() {
    let from = imported(ImportHost::ClaudeDesktop);
    let (text, _) = merge_import(OURS, &from, Conflict::Keep).expect("merged");
    let patch = preview_import(Path::new("mcp.json"), OURS, &text);
    assert!(patch.contains("+    \"brave-search\": {"), "{patch}");
    assert!(patch.contains("\"BRAVE_API_KEY\": \"***\"") && !patch.contains("canary"), "{patch}");
    assert_eq!(preview_import(Path::new("mcp.json"), OURS, OURS), "");
}

/// What a program writes in another form than ours is told of, or taken over; an entry that could not
/// be read by ourselves is never made of it.
#[test]
fn what_has_no_form_here_is_told_by_name() {
    let read = |host, file: &str, text: &str| {
        read_import_text(host, Path::new(file), text, &environment()).expect("read")
    };
    let entry = |found: &Imported, name: &str| {
        let found = found.servers.iter().find(|(known, _)| known.as_str() == name);
        found.map(|(_, entry)| entry.clone()).unwrap_or_default()
    };
    let text = json!({"mcp": {"servers": {"a": {"type": "remote", "url": "https://a.example",
        "headers": {"H": "{file:/key}"}, "timeout": {"startup": 1, "request": 2}}}}});
    let found = read(ImportHost::Opencode, "opencode.json", &text.to_string());
    assert!(entry(&found, "a").get("timeoutMs").is_none(), "{found:?}");
    let notes = found.notes.join("\n");
    assert!(notes.contains("`{file:/key}`") && notes.contains("timeout"), "{notes}");
    let text = json!({"mcpServers": {"w": {"serverUrl": "https://a.example/mcp",
        "headers": {"X": "${file:/key}", "Y": "${env:Y} ${HOME:-/x} $${z}"}}}});
    let found = read(ImportHost::Windsurf, "mcp_config.json", &text.to_string());
    assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    assert!(found.notes[0].contains("`w`: `${file:/key}`"), "{:?}", found.notes);
    let text = json!({"mcpServers": {
        "on": {"isActive": true, "type": "streamableHttp", "baseUrl": "https://a.example/mcp"},
        "off": {"isActive": false, "command": "x", "baseUrl": ""}}});
    let found = read(ImportHost::Cursor, "mcp.json", &text.to_string());
    assert_eq!(entry(&found, "on"), json!({"type": "http", "url": "https://a.example/mcp"}));
    assert_eq!(entry(&found, "off"), json!({"command": "x", "disabled": true}));
    assert!(found.notes.is_empty(), "{:?}", found.notes);
    let text = "{\"context_servers\": {\"e\": {\"source\": \"extension\", \"settings\": {}}, \"c\": {\"command\": \"x\"}}}";
    let found = read(ImportHost::Zed, "zed/settings.json", text);
    assert_eq!(found.notes, ["`e` is a part of Zed and was left out"]);
    let text = "[mcp_servers.a]\ncommand = \"x\"\nenv_vars = [\"T\", { name = \"R\", source = \"remote\" }]\n";
    let found = read(ImportHost::Codex, "config.toml", text);
    assert_eq!(entry(&found, "a")["env"], json!({"T": "${T}", "R": "${R}"}));
    let text = "mcpServers:\n  - {name: a, command: x, env: {K: '${{ inputs.K }}', L: '${{ secrets.L }}'}}\n";
    let found = read(ImportHost::Continue, "config.yaml", text);
    assert_eq!(entry(&found, "a")["env"], json!({"K": "${K}", "L": "${L}"}));
}

/// Programs minify their files, and keep more in them than their servers.
#[test]
fn the_preview_of_a_line_without_end_shows_what_changes_in_it() {
    let private = "what I asked ".repeat(4_000);
    for end in ["", "\n"] {
        let ours = format!("{{\"history\": [\"é{private}\"], \"servers\": {{}}}}{end}");
        let entry = "\"servers\": {\"new\": {\"command\": \"x\"}}}";
        let text = ours.replace("\"servers\": {}}", entry);
        let patch = preview_import(Path::new("mcp.json"), &ours, &text);
        assert!(patch.contains("{\"new\": {\"command\": \"x\"}}"), "{patch}");
        assert!(patch.contains("\n-...") && patch.contains("\n+..."), "{patch}");
        assert!(patch.len() < 1_000, "{}", patch.len());
    }
    // One beside the change is cut, whatever is in it.
    let ours = format!("{{\n\"history\": \"{private}\",\n\"servers\": {{}}\n}}\n");
    let text = ours.replace("{}", "{\"new\": {\"command\": \"x\"}}");
    let patch = preview_import(Path::new("mcp.json"), &ours, &text);
    assert!(patch.contains("+\"servers\": {\"new\": "), "{patch}");
    assert!(patch.len() < 1_000, "{}", patch.len());
}

#[test]
fn files_are_known_by_their_place_and_listed() {
    let mut env = environment();
    env.home = Some("/home/user".into());
    env.config_dir = Some("/home/user/.config".into());
    let places = import_places(&env);
    for &host in ImportHost::ALL {
        assert!(places.iter().any(|place| place.host == host), "{}", host.name());
    }
    for place in places {
        let known = ImportHost::of_path(&env.absolute(&place.path));
        assert!(
            known.is_some_and(|known| known == place.host)
                || place.path.ends_with(".zed/settings.json"),
            "{place:?}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_used_says_why() {
    let read = |host, text| read_import_text(host, Path::new("f"), text, &environment());
    for (host, text, rule) in [
        (ImportHost::Cursor, "{", "config/syntax"),
        (ImportHost::Cursor, "{}", "import/nothing"),
        (ImportHost::Codex, "[mcp_servers", "config/syntax"),
        (ImportHost::Codex, "a = 1", "import/nothing"),
        (ImportHost::Goose, "extensions: [", "config/syntax"),
        (ImportHost::Goose, "a: 1", "import/nothing"),
    ] {
        let problems = read(host, text).expect_err("unusable");
        assert_eq!(problems[0].rule, rule);
    }
}

#[test]
fn every_spelling_of_disabled_means_disabled_everywhere() {
    let env = environment();
    for word in ["\"disabled\": true", "\"enabled\": false", "\"isActive\": false"] {
        let entry = format!("{{\"command\": \"x\", {word}}}");
        for (host, text) in [
            (ImportHost::ClaudeDesktop, format!("{{\"mcpServers\": {{\"a\": {entry}}}}}")),
            (ImportHost::VsCode, format!("{{\"servers\": {{\"a\": {entry}}}}}")),
            (ImportHost::Zed, format!("{{\"context_servers\": {{\"a\": {entry}}}}}")),
            (ImportHost::Opencode, format!("{{\"mcp\": {{\"servers\": {{\"a\": {entry}}}}}}}")),
        ] {
            let found = read_import_text(host, Path::new("f"), &text, &env).expect("read");
            assert_eq!(found.servers[0].1["disabled"], true, "{host:?} {word}");
        }
        let ours = format!("{{\"servers\": {{\"a\": {entry}}}}}");
        let loaded = load_text(Path::new("mcp.json"), &ours, &env).expect("loads");
        assert!(loaded.config.servers.first().unwrap().1.disabled, "{word}");
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        let enable = mcpdeck::config::Edit::Enable { name: "a".into() };
        let text = mcpdeck::config::apply_edit(&ours, &enable).expect("edited");
        let loaded = load_text(Path::new("mcp.json"), &text, &env).expect("loads");
        assert!(!loaded.config.servers.first().unwrap().1.disabled, "{text}");
    }
    let gemini =
        "{\"mcp\": {\"excluded\": [\"a\"]}, \"mcpServers\": {\"a\": {\"command\": \"x\"}}}";
    let found =
        read_import_text(ImportHost::GeminiCli, Path::new("f"), gemini, &env).expect("read");
    assert_eq!(found.servers[0].1["disabled"], true);
}

#[test]
fn a_file_in_another_language_is_named_as_such() {
    let env = environment();
    for (text, words) in [
        ("[mcp_servers.a]\ncommand = \"x\"\n", "this is TOML, not JSON"),
        ("extensions:\n  a: {}\n", "this is YAML, not JSON"),
        ("{ \u{201c}servers\u{201d}: {} }", "a typographic quotation mark"),
        ("module.exports = { servers: {} }", "this is JavaScript"),
        ("export default { servers: {} }", "this is JavaScript"),
        ("{ \"servers\"\u{ff1a} {} }", "a full-width character"),
        (
            "{ \"servers\": {\"a\": {\"command\": \"x\"}\u{ff0c}\"b\": {}} }",
            "a full-width character",
        ),
        ("{\u{200b} \"servers\": {} }", "an invisible character"),
        ("<<<<<<< HEAD\n{}\n=======\n{ }\n>>>>>>> other\n", "git could not merge"),
        (
            "{ \"servers\": {\r\n<<<<<<< HEAD\r\n=======\r\n\"a\": {}\r\n>>>>>>> b\r\n}}",
            "git could not merge",
        ),
        ("<<<<<<< HEAD\n{}", "HTML or XML"),
    ] {
        let problems = load_text(Path::new("mcp.json"), text, &env).expect_err("unusable");
        assert!(problems[0].message.contains(words), "{problems:?}");
    }
}
