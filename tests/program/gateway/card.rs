//! What the service says of itself (SEP-2127), and what `add` reads of it.

use serde_json::json;

use super::{Service, program};
use crate::support::HttpMock;

#[test]
fn the_card_of_the_service_is_for_everybody_and_add_reads_it() {
    let service = Service::start();
    let get = |path: &str| service.send("GET", path, &[], "");
    let catalog = get("/.well-known/ai-catalog.json").json();
    let card = get("/mcp/server-card");
    assert_eq!(card.header("content-type"), Some("application/mcp-server-card+json"));
    let (card, url) = (card.json(), format!("{}/mcp", service.url));
    assert_eq!(catalog["entries"][0]["url"], format!("{url}/server-card"), "{catalog}");
    assert_eq!(card["remotes"][0]["url"], url, "{card}");
    assert_eq!(card["remotes"][0]["headers"][0]["isSecret"], true, "{card}");
    assert!(!card.to_string().contains("greeter"), "{card}");

    let folder = tempfile::tempdir().unwrap();
    let added = program()
        .args(["add", "deck", "--url", &url, "--dry-run"])
        .current_dir(folder.path())
        .env("MCPDECK_STATE_DIR", folder.path())
        .output()
        .unwrap();
    let said = String::from_utf8([added.stdout, added.stderr].concat()).unwrap();
    assert!(said.contains("mcpdeck/gateway"), "{said}");
    assert!(said.contains("One door to several MCP servers"), "{said}");
}

#[test]
fn the_check_compares_a_card_with_what_its_server_is() {
    let service = Service::start();
    let url = format!("{}/mcp", service.url);
    let lie = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
        "name": "com.example/liar", "version": "9.9.9", "description": "Another server",
        "remotes": [{"type": "streamable-http", "url": "https://liar.example/mcp"}],
    });
    let broken = json!({"$schema": lie["$schema"], "name": 7});
    let peer = |card: &serde_json::Value| {
        let respond = json!({"status": 200, "headers": {"content-type": "application/json"},
            "body": card.to_string()});
        HttpMock::start(&json!({
            "serverInfo": {"name": "honest", "version": "1"},
            "on": {"GET": {"respond": respond}},
            "tools": [{"name": "t", "description": "Does it", "inputSchema": {"type": "object"}}],
        }))
    };
    let (liar, unusable, silent) =
        (peer(&lie), peer(&broken), HttpMock::start(&json!({"tools": []})));
    let folder = tempfile::tempdir().unwrap();
    let auth = json!({"Authorization": service.auth()});
    let config = json!({"servers": {
        "own": {"url": url, "headers": auth}, "liar": {"url": liar.url},
        "broken": {"url": unusable.url}, "silent": {"url": silent.url},
    }});
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, config.to_string()).unwrap();
    let out = program()
        .args(["--check", "--format", "json", "-c"])
        .arg(&file)
        .env("MCPDECK_STATE_DIR", folder.path())
        .output()
        .unwrap();
    let report: serde_json::Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|error| panic!("{error}: {out:?}"));
    let found = |name: &str| -> Vec<String> {
        let servers = report["servers"].as_array().unwrap();
        let server = servers.iter().find(|server| server["name"] == name).unwrap();
        let all = server["findings"].as_array().unwrap().iter();
        let cards = all.filter(|found| found["rule"].as_str().unwrap().starts_with("card/"));
        cards
            .map(|found| format!("{} {}", found["rule"], found["where"]).replace('"', ""))
            .collect()
    };
    assert_eq!(found("own"), Vec::<String>::new(), "{report:#}");
    assert_eq!(found("silent"), Vec::<String>::new());
    assert_eq!(
        found("liar"),
        ["card/differs name", "card/differs remotes", "card/differs version"],
        "{report:#}"
    );
    assert_eq!(found("broken"), ["card/unusable "]);
}
