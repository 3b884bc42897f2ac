//! Secrets in what servers say of themselves, and plain values that are no secrets.

use serde_json::{Value, json};

use super::AT_MOST;
use crate::support::Bench;

const TOKEN: &str = "open-sesame-wide";
const KEY: &str = "-----BEGIN KEY-----\nq7Zk29fLw0Xn4Rt8\nQw9z\n-----END KEY-----";

/// A server that repeats its environment in everything it says of itself.
fn bench(more: &Value) -> Bench {
    let bench = Bench::new();
    let says = format!("uses {TOKEN}");
    let script = json!({
        "serverInfo": {"name": format!("db postgres://me:{TOKEN}@h/x"), "version": "1"},
        "instructions": format!("{says}, Qw9z"),
        "tools": [{
            "name": "deploy", "title": says, "description": format!("{says} in us-east-1"),
            "inputSchema": {"type": "object", "properties": {"k": {
                "type": "string", "description": says, "default": TOKEN}}},
        }],
        "calls": {"deploy": {"text": format!("production build in us-east-1 by {TOKEN} to /srv/app/data")}},
        "prompts": [{"name": "ask", "description": says, "arguments": [
            {"name": "who", "description": says}]}],
        "resources": [{"uri": "mem://a", "name": says, "description": says}],
    });
    let mut entry = json!({"env": {
        "GITHUB_TOKEN": TOKEN, "SIGNING_KEY": KEY, "AWS_REGION": "us-east-1",
        "NODE_ENV": "production", "APP_DIR": "/srv/app/data",
    }});
    for (key, value) in more.as_object().into_iter().flatten() {
        entry[key] = value.clone();
    }
    bench.servers(&json!({"a": bench.mock("a", &script, &entry)}));
    bench
}

#[test]
fn a_secret_in_definitions_is_shown_and_kept_nowhere() {
    let bench = bench(&json!({}));
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["status"],
        &["status", "--json"],
        &["--check", "--lock"],
        &["--check", "--format", "json", "-v"],
        &["call", "a.deploy", "--json"],
    ] {
        let done = bench.run(args, AT_MOST);
        for secret in [TOKEN, "q7Zk29fLw0Xn4Rt8", "Qw9z"] {
            let output = format!("{}{}", done.stdout, done.stderr);
            assert!(!output.contains(secret), "{args:?}: {output}");
        }
    }
    let mut folders = vec![bench.path().join(".state"), bench.path().join("mcp.lock.json")];
    let mut read = 0;
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            read += 1;
            assert!(!text.contains(TOKEN), "{}: {text}", path.display());
        }
    }
    assert!(read > 1, "the lock and what is offered");
}

#[test]
fn words_regions_and_paths_are_no_secrets_and_the_entry_decides_otherwise() {
    let text = |bench: &Bench| bench.run(&["call", "a.deploy"], AT_MOST).stdout;
    let shown = text(&bench(&json!({})));
    assert_eq!(shown.trim_end(), "production build in us-east-1 by *** to /srv/app/data");
    let more = json!({"secrets": ["AWS_REGION"], "public": ["GITHUB_TOKEN"]});
    let shown = text(&bench(&more));
    assert_eq!(shown.trim_end(), format!("production build in *** by {TOKEN} to /srv/app/data"));
    let revealed = bench(&json!({})).run(&["call", "a.deploy", "--reveal"], AT_MOST).stdout;
    assert!(revealed.contains(TOKEN), "{revealed}");
}

#[test]
fn a_file_for_a_result_holds_no_secret_and_binary_content_stays_as_it_was_sent() {
    let bench = Bench::new();
    // A picture that happens to hold the bytes of it.
    let picture = [&b"\x89PNG\r\n\xff"[..], TOKEN.as_bytes(), b"\x00"].concat();
    let data = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &picture);
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let script = json!({
        "tools": [tool("say"), tool("list"), tool("draw")],
        "calls": {
            "say": {"text": format!("built by {TOKEN}")},
            "list": {"answer": {"content": [], "structuredContent": {"by": TOKEN, "n": 1}}},
            "draw": {"answer": {"content": [
                {"type": "image", "mimeType": "image/png", "data": data}]}},
        },
    });
    let entry = bench.mock("a", &script, &json!({"env": {"GITHUB_TOKEN": TOKEN}}));
    bench.servers(&json!({"a": entry}));
    let write = |args: &[&str]| {
        let done = bench.run(&[args, &["-o", "out"]].concat(), AT_MOST);
        assert_eq!(done.code, Some(0), "{args:?}: {done:?}");
        (std::fs::read(bench.path().join("out")).unwrap(), done.stderr)
    };
    let (said, told) = write(&["call", "a.say"]);
    assert_eq!(String::from_utf8(said).unwrap(), "built by ***");
    assert_eq!(told.matches("--reveal shows them").count(), 1, "{told}");
    let (listed, _) = write(&["call", "a.list"]);
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    assert_eq!(listed, json!({"by": "***", "n": 1}));
    let (drawn, told) = write(&["call", "a.draw"]);
    assert!(drawn == picture && !told.contains("--reveal"), "{drawn:?} {told}");
    let (said, _) = write(&["call", "a.say", "--reveal"]);
    assert_eq!(String::from_utf8(said).unwrap(), format!("built by {TOKEN}"));
}

/// Names and addresses go over the wire as they are.
#[test]
fn remembered_definitions_hold_no_secret_in_names_addresses_and_capabilities() {
    let bench = Bench::new();
    let script = json!({
        "capabilities": {"tools": {}, "resources": {}, "experimental": {"x": {"by": TOKEN}}},
        "tools": [{"name": format!("deploy-{TOKEN}"), "inputSchema": {"type": "object"}}],
        "resources": [{"uri": format!("mem://a?token={TOKEN}"), "name": "a"}],
    });
    let entry = bench.mock("a", &script, &json!({"env": {"GITHUB_TOKEN": TOKEN}}));
    bench.servers(&json!({"a": entry}));
    let done = bench.run(&["list"], AT_MOST);
    assert_eq!(done.code, Some(0), "{done:?}");
    let kept = std::fs::read_dir(bench.path().join(".state/mcpdeck/definitions")).unwrap();
    let kept: Vec<String> =
        kept.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    assert!(!kept.is_empty() && kept.iter().all(|text| text.contains("mem://a?token=***")));
    assert!(!kept.concat().contains(TOKEN), "{kept:?}");
}
