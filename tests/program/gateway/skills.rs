//! Skills of the servers behind (extension `io.modelcontextprotocol/skills`).

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Service, request};

const DIGEST: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

fn skill(uri: &str, name: &str) -> Value {
    let file = |uri: String| json!({"uri": uri, "digest": DIGEST, "size": 0});
    let folder = uri.strip_suffix("SKILL.md").unwrap();
    json!({
        "uri": uri, "frontmatter": {"name": name, "description": "d", "license": "x"},
        "resources": [file(uri.to_owned()), file(format!("{folder}more/a.md"))],
    })
}

/// Two servers with skills, of which one has the same URI at both, and a server without.
fn configured(folder: &Path) {
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let mut servers = serde_json::Map::new();
    for (name, uris) in [
        ("one", &["skill://refunds/SKILL.md"][..]),
        ("two", &["skill://refunds/SKILL.md"]),
        ("none", &[]),
    ] {
        let skills: Vec<Value> = uris.iter().map(|uri| skill(uri, "refunds")).collect();
        let text = json!({"contents": [{"uri": "${uri}", "text": format!("of {name}: ${{uri}}")}]});
        let hidden = skill("skill://acme/hidden/SKILL.md", "hidden");
        let unknown = json!({"error": {"code": -32_602, "message": "no such skill"}});
        let got = match name {
            "one" => json!({"answer": {"skill": skill("skill://refunds/SKILL.md", "refunds")}}),
            "two" => json!({"answer": {"skill": hidden, "ttlMs": 5, "cacheScope": "public"}}),
            _ => unknown,
        };
        let extensions = match name {
            "none" => json!({}),
            _ => json!({"io.modelcontextprotocol/skills": {"directoryRead": name == "two"}}),
        };
        let child = json!({"uri": "skill://acme/hidden/more", "mimeType": "inode/directory"});
        let script = json!({
            "serverInfo": {"name": name, "version": "1"},
            "capabilities": {"resources": {}, "extensions": extensions},
            "on": {
                "skills/list": {"answer": {"skills": skills}}, "skills/get": got,
                "resources/read": {"answer": text},
                "resources/directory/read": {"answer": {"resources": [child]}},
            },
        });
        let file = folder.join(format!("{name}.json"));
        std::fs::write(&file, script.to_string()).unwrap();
        servers.insert(name.to_owned(), json!({"command": exe, "args": ["mock", file]}));
    }
    std::fs::write(folder.join("mcp.json"), json!({"servers": servers}).to_string()).unwrap();
}

fn serve() -> Service {
    let folder = tempfile::tempdir().unwrap();
    configured(folder.path());
    let mut service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    service.kept = Some(folder);
    crate::support::wait_for("every server ready", Duration::from_secs(60), || {
        service.get("/tools");
        (service.get("/readyz").status == 200).then_some(())
    });
    service
}

#[test]
fn skills_of_all_servers_are_listed_found_and_read() {
    let service = serve();
    let session = service.session(&service.token);
    let headers = [("Mcp-Session-Id", session.as_str())];
    let ask = |method: &str, params: Value| {
        service.mcp(&service.token, &headers, &request(1, method, &params)).message()
    };
    let about = |method: &str, uri: &str| ask(method, json!({"uri": uri}));

    let listed = ask("skills/list", json!({}));
    let skills = listed["result"]["skills"].as_array().unwrap();
    let own = "mcpdeck://two/skill://refunds/";
    assert_eq!(skills.len(), 2, "{listed}");
    assert_eq!(skills[0], skill("skill://refunds/SKILL.md", "refunds"));
    assert_eq!(skills[1], skill(&format!("{own}SKILL.md"), "refunds"));

    // Files that no server lists are read at the server of their skill.
    for (uri, text) in [
        ("skill://refunds/more/a.md", "of one: skill://refunds/more/a.md"),
        (&format!("{own}more/a.md"), "of two: skill://refunds/more/a.md"),
    ] {
        let read = about("resources/read", uri);
        assert_eq!(read["result"]["contents"][0]["text"], text, "{uri}: {read}");
        assert_eq!(read["result"]["contents"][0]["uri"], uri);
    }

    let got = about("skills/get", "skill://refunds/SKILL.md");
    assert_eq!(got["result"]["skill"], skill("skill://refunds/SKILL.md", "refunds"), "{got}");
    // One that is not listed is asked for at every server that has skills, and known from then on.
    let hidden = "skill://acme/hidden/SKILL.md";
    let got = about("skills/get", hidden);
    assert_eq!(got["result"]["skill"]["uri"], hidden, "{got}");
}

#[test]
fn the_extension_is_declared_where_a_server_has_it_and_folders_are_read() {
    let service = serve();
    let hello = service.mcp(&service.token, &[], &super::initialize()).message();
    let declared = &hello["result"]["capabilities"]["extensions"]["io.modelcontextprotocol/skills"];
    assert_eq!(*declared, json!({"directoryRead": true}), "{hello}");
    let session = service.session(&service.token);
    let headers = [("Mcp-Session-Id", session.as_str())];
    let ask = |method: &str, uri: &str| {
        let message = request(1, method, &json!({"uri": uri}));
        service.mcp(&service.token, &headers, &message).message()
    };
    let own = "mcpdeck://two/skill://acme/hidden";
    let read = ask("resources/directory/read", own);
    assert_eq!(read["result"]["resources"][0]["uri"], format!("{own}/more"), "{read}");
    let got = ask("skills/get", &format!("{own}/SKILL.md"));
    assert_eq!(got["result"]["skill"]["uri"], format!("{own}/SKILL.md"), "{got}");
    assert!(got["result"].get("resultType").is_none(), "{got}");
    // Its files are known to be of that server now.
    let read = ask("resources/read", "skill://acme/hidden/more/a.md");
    let text = &read["result"]["contents"][0]["text"];
    assert_eq!(text, "of two: skill://acme/hidden/more/a.md", "{read}");
    let unknown = ask("skills/get", "mcpdeck://none/skill://x/SKILL.md");
    assert_eq!(unknown["error"]["code"], -32_602, "{unknown}");
}
