//! What the service says of itself (SEP-2127), and what `add` reads of it.

use super::{Service, program};

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
