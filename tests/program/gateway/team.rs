//! What a gateway for teams adds: a search instead of a list, and tools as a profile shapes them.

use std::path::Path;

use serde_json::{Value, json};

use super::{POLL, Service, modern, request};

/// A server with the tools of the search fixture: `github_create_issue` and 400 more.
fn many(folder: &Path) {
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/search/tools.txt");
    let text = std::fs::read_to_string(text).unwrap();
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let tools: Vec<Value> = rows
        .map(|row| {
            let parts: Vec<&str> = row.split('|').map(str::trim).collect();
            let names = parts[3].split(',').map(|name| name.trim().trim_end_matches('?'));
            let properties: serde_json::Map<String, Value> = names
                .filter(|name| !name.is_empty())
                .map(|name| (name.to_owned(), json!({"type": "string"})))
                .collect();
            json!({
                "name": format!("{}_{}", parts[0], parts[1]), "description": parts[2],
                "inputSchema": {"type": "object", "properties": properties},
            })
        })
        .collect();
    let script = json!({
        "serverInfo": {"name": "many", "version": "1"}, "capabilities": {"tools": {}},
        "tools": tools,
        "calls": {
            "stripe_create_refund": {"text": "refunded ${arguments.payment_intent:-nothing}"},
            "github_create_issue": {"text": "never reached"},
        },
    });
    std::fs::write(folder.join("many.json"), script.to_string()).unwrap();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let config = json!({"servers": {"many": {
        "command": exe, "args": ["mock", folder.join("many.json")], "startupTimeout": 45,
    }}});
    std::fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
}

/// A service with these servers, under a policy.
fn serve(prepare: impl FnOnce(&Path), policy: &Value) -> Service {
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    std::fs::write(folder.path().join("mcpdeck.policy.json"), policy.to_string()).unwrap();
    let mut service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    service.kept = Some(folder);
    while service.get("/readyz").status != 200 {
        service.get("/tools");
        std::thread::park_timeout(POLL);
    }
    service
}

/// The result of a tool as its client reads it.
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn a_client_finds_tools_instead_of_listing_them_and_never_one_that_is_denied() {
    let service = serve(
        many,
        &json!({
            "deny": ["many.github_*"],
            "limits": {"callsPerRun": 100},
            "profiles": {
                "agent": {"expose": "search", "allow": ["many.*"]},
                "small": {"expose": "auto", "allow": ["many.stripe_*"]},
                "large": {"expose": "auto", "exposeTokens": 2_000, "allow": ["many.*"]},
            },
        }),
    );
    let names = |listed: &Value| -> Vec<String> {
        let tools = listed["result"]["tools"].as_array().unwrap_or_else(|| panic!("{listed}"));
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    };
    let agent = service.client("agent");
    let session = service.session(&agent.token);
    let ask = |id, method: &str, params: Value| {
        let headers = [("Mcp-Session-Id", session.as_str())];
        service.mcp(&agent.token, &headers, &request(id, method, &params)).message()
    };
    let call = |id, name: &str, arguments: Value| {
        ask(id, "tools/call", json!({"name": name, "arguments": arguments}))
    };
    let first = ask(1, "tools/list", json!({}));
    let own = ["find_tools", "describe_tool", "call_tool"];
    assert_eq!(names(&first), own);
    assert!(first.to_string().len() < 4_000, "few tokens: {first}");
    let mut heard = service.stream(&agent.token, Ok(&session));
    let found = call(2, "find_tools", json!({"query": "give a customer the money back"}));
    let found: Value = serde_json::from_str(text(&found)).unwrap();
    assert_eq!(found["tools"][0]["name"], "stripe_create_refund", "{found}");
    let parameters = found["tools"][0]["parameters"].as_str().unwrap();
    assert!(parameters.starts_with("payment_intent?: string"), "{found}");
    // It stays listed, and the client is told.
    assert_eq!(heard.next()["method"], "notifications/tools/list_changed");
    let listed = names(&ask(3, "tools/list", json!({})));
    assert!(listed.contains(&"stripe_create_refund".to_owned()), "{listed:?}");
    assert_eq!(listed.len(), 3 + found["tools"].as_array().unwrap().len());
    // Another session of the same token has found nothing.
    let other = service.session(&agent.token);
    let headers = [("Mcp-Session-Id", other.as_str())];
    let listed = service.mcp(&agent.token, &headers, &request(1, "tools/list", &json!({})));
    assert_eq!(names(&listed.message()), own);
    let arguments = json!({"payment_intent": "pi_1"});
    let inner = json!({"name": "stripe_create_refund", "arguments": arguments});
    for called in [call(4, "call_tool", inner), call(5, "stripe_create_refund", arguments)] {
        assert_eq!(text(&called), "refunded pi_1");
    }
    let described = call(6, "describe_tool", json!({"name": "many.stripe_create_refund"}));
    let described: Value = serde_json::from_str(text(&described)).unwrap();
    assert_eq!(described["inputSchema"]["properties"]["amount"]["type"], "string");
    // What is denied is not there, however it is asked for.
    for query in ["open an issue in a github repository", "github_create_issue", "github"] {
        let found = call(7, "find_tools", json!({"query": query, "limit": 50}));
        assert!(!text(&found).contains("github_"), "{found}");
    }
    for (tool, arguments) in [
        ("describe_tool", json!({"name": "github_create_issue"})),
        ("call_tool", json!({"name": "github_create_issue"})),
        ("call_tool", json!({"name": "many.github_create_issue", "arguments": {}})),
        ("github_create_issue", json!({})),
    ] {
        let refused = call(8, tool, arguments.clone());
        let absent = arguments.to_string().replace("github_create_issue", "github_no_such_thing");
        let name = tool.replace("github_create_issue", "github_no_such_thing");
        let absent = call(8, &name, serde_json::from_str(&absent).unwrap());
        let shown = refused.to_string().replace("github_create_issue", "NAME");
        assert_eq!(shown, absent.to_string().replace("github_no_such_thing", "NAME"));
        assert!(shown.contains("there is no"), "{shown}");
    }
    for (arguments, why) in [
        (json!({}), "`query` is missing"),
        (json!({"query": " "}), "`query` is empty"),
        (json!({"query": 7}), "`query` is a text"),
        (json!({"query": "mail", "limit": 0}), "`limit` is a number from 1 to 50"),
        (json!({"query": "mail", "server": "none"}), "there are: many"),
        (json!({"query": "mail", "count": 3}), "`count` is not one of"),
    ] {
        let refused = call(9, "find_tools", arguments);
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(text(&refused).contains(why), "{refused}");
    }
    // `auto`: a search only where the definitions take more than the budget.
    let small = service.client("small");
    let session = service.session(&small.token);
    let headers = [("Mcp-Session-Id", session.as_str())];
    let list = request(1, "tools/list", &json!({}));
    assert_eq!(names(&service.mcp(&small.token, &headers, &list).message()).len(), 12);
    let large = service.client("large");
    let find = json!({"name": "find_tools", "arguments": {"query": "send mail", "limit": 2}});
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call")];
    let headers = [&headers[..], &[("Mcp-Name", "find_tools")]].concat();
    let find = request(1, "tools/call", &modern(find, &json!({})));
    let found = service.mcp(&large.token, &headers, &find).message();
    assert!(text(&found).contains("gmail_send_email"), "{found}");
    let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/list")];
    let list = request(2, "tools/list", &modern(json!({}), &json!({})));
    let listed = names(&service.mcp(&large.token, &headers, &list).message());
    assert_eq!(listed.len(), 5, "what this token has found, without a session: {listed:?}");
    // Scripts search over REST.
    let found = agent.send("GET", "/tools?query=refund&limit=1", &json!({})).json();
    assert_eq!(found["tools"][0]["name"], "stripe_create_refund", "{found}");
    let wrong = agent.send("GET", "/tools?limit=1", &json!({}));
    assert_eq!(wrong.status, 422, "{wrong:?}");
}

#[test]
fn a_budget_without_auto_is_refused_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    many(folder.path());
    let policy = json!({"profiles": {"a": {"expose": "search", "exposeTokens": 5}}});
    std::fs::write(folder.path().join("mcpdeck.policy.json"), policy.to_string()).unwrap();
    let why = super::program()
        .args(["policy", "why", "gateway:a", "many.x", "-c"])
        .arg(folder.path().join("mcp.json"))
        .env("MCPDECK_STATE_DIR", folder.path().join("state"))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&why.stderr);
    assert!(!why.status.success(), "{why:?}");
    assert!(told.contains("policy/profiles/a/exposeTokens"), "{told}");
}

#[test]
fn a_profile_renames_fixes_and_caps_a_tool_for_every_door() {
    let service = serve(
        |folder| {
            many(folder);
            let script = json!({
                "serverInfo": {"name": "many", "version": "1"}, "capabilities": {"tools": {}},
                "tools": [
                    {"name": "create", "description": "Opens an issue", "inputSchema": {
                        "type": "object", "required": ["owner", "title"], "properties": {
                            "owner": {"type": "string"}, "title": {"type": "string"},
                            "labels": {"type": "string"}, "repo": {"type": "string"},
                        }}},
                    {"name": "dump", "description": "A lot", "inputSchema": {"type": "object"},
                     "outputSchema": {"type": "object"}},
                ],
                "calls": {
                    "create": {"text": "${arguments.owner}/${arguments.repo:-none}: ${arguments.title}"},
                    "dump": {"text": "long ".repeat(2_000)},
                },
            });
            std::fs::write(folder.join("many.json"), script.to_string()).unwrap();
        },
        &json!({"profiles": {"agent": {"allow": ["many.*"], "limits": {"callsPerRun": 100}, "overlays": [
            {"tool": "many.*", "maxResultBytes": 1_000},
            {"tool": "many.create", "name": "report_bug", "description": "Reports a bug",
             "annotations": {"destructiveHint": false},
             "parameters": {
                "owner": {"fixed": "acme"}, "repo": {"default": "shop"}, "labels": {"hidden": true},
             }},
        ]}}}),
    );
    let agent = service.client("agent");
    let listed = agent.send("GET", "/tools", &json!({})).json();
    let tool = &listed["tools"][0];
    assert_eq!(
        (&tool["name"], &tool["tool"]),
        (&json!("report_bug"), &json!("create")),
        "{listed}"
    );
    assert_eq!(
        tool["definition"],
        json!({"name": "report_bug", "description": "Reports a bug",
        "annotations": {"destructiveHint": false},
        "inputSchema": {"type": "object", "required": ["title"], "properties": {
            "title": {"type": "string"}, "repo": {"type": "string", "default": "shop"},
        }}})
    );
    assert_eq!(listed["tools"][1]["definition"]["outputSchema"], Value::Null, "{listed}");
    let call = |name: &str, arguments: Value| {
        agent.send("POST", &format!("/tools/{name}/call"), &json!({"arguments": arguments})).json()
    };
    let called = call("report_bug", json!({"title": "it burns"}));
    assert_eq!(called["content"][0]["text"], "acme/shop: it burns", "{called}");
    let called = call("many.create", json!({"title": "a", "repo": "web"}));
    assert_eq!(called["content"][0]["text"], "acme/web: a", "{called}");
    for given in [json!({"title": "a", "owner": "evil"}), json!({"title": "a", "labels": "x"})] {
        let refused = call("many.create", given);
        assert_eq!(refused["error"]["code"], "ERR_PROTOCOL_ERROR", "{refused}");
        assert!(refused.to_string().contains("no such parameter"), "{refused}");
    }
    let cut = call("many.dump", json!({}));
    let text = cut["content"][1]["text"].as_str().unwrap();
    assert!(text.contains("are shown") && cut["content"].to_string().len() < 1_000, "{cut}");
    // Your own token, and who has no such profile, see the tool as it is.
    let own = service.get("/tools").json();
    assert_eq!(own["tools"][0]["name"], "create", "{own}");
    let why = service.verb(&["policy", "why", &agent.origin, "many.create"]);
    assert!(why.contains("offered as `report_bug`"), "{why}");
    assert!(why.contains("`owner` fixed to \"acme\""), "{why}");
    // A changed overlay is a changed list.
    let session = service.session(&agent.token);
    let mut heard = service.stream(&agent.token, Ok(&session));
    let policy = json!({"profiles": {"agent": {"allow": ["many.*"], "overlays": [
        {"tool": "many.create", "name": "file_bug"},
    ]}}});
    std::fs::write(service.folder.join("mcpdeck.policy.json"), policy.to_string()).unwrap();
    assert_eq!(heard.next()["method"], "notifications/tools/list_changed");
    agent.until(&Ok(vec!["file_bug".to_owned(), "dump".to_owned()]));
}

#[test]
fn an_overlay_that_cannot_work_is_refused_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    many(folder.path());
    let why = |overlay: Value| {
        let policy =
            json!({"profiles": {"a": {"overlays": [{"tool": "many.x", "title": "t"}, overlay]}}});
        std::fs::write(folder.path().join("mcpdeck.policy.json"), policy.to_string()).unwrap();
        let out = super::program()
            .args(["policy", "why", "gateway:a", "many.x", "-c"])
            .arg(folder.path().join("mcp.json"))
            .env("MCPDECK_STATE_DIR", folder.path().join("state"))
            .output()
            .unwrap();
        assert!(!out.status.success(), "{out:?}");
        String::from_utf8(out.stderr).unwrap()
    };
    for (overlay, word) in [
        (json!({"tool": "many.*", "name": "b"}), "policy/profiles/a/overlays/1: `name` goes with"),
        (json!({"tool": "many.x", "parameters": {"p": {"fixed": 1, "default": 2}}}), "either"),
        (json!({"tool": "many.x"}), "it changes nothing"),
        (json!({"tool": "many.x", "rename": "b"}), "unknown field `rename`"),
    ] {
        let told = why(overlay);
        assert!(told.contains(word) && told.contains("mcpdeck.policy.json"), "{told}");
    }
}
