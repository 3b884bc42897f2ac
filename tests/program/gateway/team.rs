//! What a gateway for teams adds: a search instead of a list, tools as a profile shapes them, and
//! everything over REST.

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
pub(super) fn serve(prepare: impl FnOnce(&Path), policy: &Value) -> Service {
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

/// What the tools of the search take, and what they say of the rest.
fn malformed_calls_are_named(
    call: impl Fn(u32, &str, Value) -> Value,
    ask: impl Fn(u32, &str, Value) -> Value,
) {
    for (arguments, why) in [
        (json!({}), "`query` is missing"),
        (json!({"query": " "}), "`query` is empty"),
        (json!({"query": 7}), "`query` is a text"),
        (json!({"query": "mail", "limit": 0}), "`limit` is a number from 1 to 50"),
        (json!({"query": "mail", "limit": 2.5}), "`limit` is a number from 1 to 50"),
        (json!({"query": "mail", "limit": 1e30}), "`limit` is a number from 1 to 50"),
        (json!({"query": "mail", "limit": -1.0}), "`limit` is a number from 1 to 50"),
        (json!({"query": "mail", "server": "none"}), "there are: many"),
        (json!({"query": "mail", "count": 3}), "`count` is not one of"),
    ] {
        let refused = call(9, "find_tools", arguments);
        assert_eq!(refused["result"]["isError"], true, "{refused}");
        assert!(text(&refused).contains(why), "{refused}");
    }
    // As models write them: a whole number with a point, a parameter without a use.
    let found = call(10, "find_tools", json!({"query": "mail", "limit": 2.0, "server": ""}));
    let found: Value = serde_json::from_str(text(&found)).unwrap();
    assert_eq!(found["tools"].as_array().map(Vec::len), Some(2), "{found}");
    for (method, params) in [
        ("tools/call", json!({"name": "find_tools", "arguments": []})),
        ("tools/call", json!({"name": 5})),
        ("prompts/get", json!({"arguments": {}})),
    ] {
        let refused = ask(11, method, params);
        assert_eq!(refused["error"]["code"], -32602, "{refused}");
    }
    assert_eq!(ask(12, "tools/unknown", json!({}))["error"]["code"], -32601);
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
    let clear = call(15, "find_tools", json!({"query": "create refund"}));
    assert!(!text(&clear).contains("\"also\"") && !text(&clear).contains("\"hint\""), "{clear}");
    // Where the best has little of what was asked for, more are named, and how to ask better.
    let vague = call(13, "find_tools", json!({"query": "list of zzzqqq wwwxxx", "limit": 2}));
    let vague: Value = serde_json::from_str(text(&vague)).unwrap();
    assert!(vague["hint"].as_str().unwrap().contains("an action and a thing"), "{vague}");
    let also = vague["also"].as_array().unwrap();
    assert_eq!((vague["tools"].as_array().unwrap().len(), also.len()), (2, 15), "{vague}");
    let also = also[0].as_str().unwrap();
    let described = call(14, "describe_tool", json!({"name": also}));
    assert!(text(&described).contains("inputSchema"), "{described}");
    assert!(!vague.to_string().contains("github_"), "{vague}");
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
    malformed_calls_are_named(call, ask);
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
}

#[test]
fn scripts_search_over_rest() {
    let service = serve(many, &json!({"profiles": {"agent": {"allow": ["many.*"]}}}));
    let agent = service.client("agent");
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
    // By every name that the caller has of it.
    for name in ["report_bug", "create", "many.report_bug", "many__report_bug", "many/create"] {
        let why = service.verb(&["policy", "why", &agent.origin, name]);
        assert!(why.starts_with("allowed: ") && why.contains("offered as `report_bug`"), "{why}");
        assert!(why.contains("tool: many.create"), "{name}: {why}");
    }
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
        (json!({"tool": "many.x", "rename": "b"}), "/overlays/1/rename: \"rename\" is not known"),
        (json!({"tool": "many.x", "titel": "b"}), "did you mean `title`?"),
        (json!({"tool": "many.x", "parameters": {"x": {"hiden": true}}}), "did you mean `hidden`"),
        (json!({"tool": "many.x", "maxResultBytes": 1}), "(`many.x`)"),
        (json!({"title": "b"}), "/overlays/1/tool: \"tool\" is required"),
    ] {
        let told = why(overlay);
        assert!(told.contains(word) && told.contains("mcpdeck.policy.json"), "{told}");
    }
}

/// A server that asks while it is called, and has prompts and resources.
pub(super) fn asking(folder: &Path) {
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let script = json!({
        "serverInfo": {"name": "asking", "version": "1"},
        "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "completions": {}},
        "tools": [{"name": "greet", "description": "Greets you", "inputSchema": {"type": "object"}}],
        "prompts": [{"name": "hello", "arguments": [{"name": "who", "required": true}]}],
        "resources": [{"uri": "memo://a", "name": "a"}],
        "resourceTemplates": [{"uriTemplate": "memo://{id}", "name": "memo"}],
        "reads": {
            "memo://a": {"answer": {"contents": [{"uri": "memo://a", "text": "first"}]}},
            "memo://b": {"answer": {"contents": [{"uri": "memo://b", "text": "second"}]}},
        },
        "gets": {"hello": {"answer": {"messages": [
            {"role": "user", "content": {"type": "text", "text": "Hello ${params.arguments.who}"}},
        ]}}},
        "complete": {"who": ["world", "nobody"]},
        "calls": {"greet": [
            {"ask": {"method": "elicitation/create",
                     "params": {"message": "Who are you?", "requestedSchema": form}}},
            {"text": "${saved.answer}"},
        ]},
    });
    std::fs::write(folder.join("asking.json"), script.to_string()).unwrap();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let config = json!({"servers": {"asking": {
        "command": exe, "args": ["mock", folder.join("asking.json")], "startupTimeout": 45,
    }}});
    std::fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
}

#[test]
fn what_is_asked_during_the_calls_of_one_program_is_not_told_another_with_its_token() {
    let service = serve(asking, &json!({"profiles": {"all": {"allow": ["*", {"servers": "*"}]}}}));
    let all = service.client("all");
    let get = |path: &str| all.send("GET", path, &json!({})).json();
    let post = |path: &str, body: Value| all.send("POST", path, &body).json();
    std::thread::scope(|scope| {
        let named = json!({"interactive": "one"});
        let call = scope.spawn(move || post("/tools/asking.greet/call", named));
        let asked = get("/requests?wait=10&for=one")["requests"][0].clone();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        for others in ["/requests", "/requests?for=two"] {
            assert_eq!(get(others)["requests"], json!([]), "{others}");
        }
        let path = format!("/requests/{}", asked["id"].as_str().unwrap());
        let accepted = json!({"result": {"action": "accept", "content": {"name": "one"}}});
        assert_eq!(post(&path, accepted)["answered"], true);
        let called = call.join().unwrap();
        assert!(called["content"][0]["text"].to_string().contains("one"), "{called}");
    });
    for (path, body) in [
        ("/tools/asking.greet/call", json!({"interactive": 1})),
        ("/tools/asking.greet/call", json!({"interactive": ""})),
    ] {
        assert_eq!(all.send("POST", path, &body).status, 422, "{body}");
    }
    for path in ["/requests?for=", "/requests?other=1", "/events?other=1"] {
        assert_eq!(all.send("GET", path, &json!({})).status, 422, "{path}");
    }
}

#[test]
fn a_program_has_prompts_resources_completion_and_questions_over_rest() {
    let service = serve(
        asking,
        &json!({"profiles": {
            "all": {"allow": ["*", {"servers": "*"}], "limits": {"callsPerRun": 100}},
            "none": {"allow": ["asking.nothing"]},
        }}),
    );
    let all = service.client("all");
    let get = |path: &str| all.send("GET", path, &json!({})).json();
    let post = |path: &str, body: Value| all.send("POST", path, &body).json();
    assert_eq!(get("/prompts")["prompts"][0]["prompt"], "hello");
    assert_eq!(get("/resources")["resources"][0]["uri"], "memo://a");
    assert_eq!(get("/resources/templates")["templates"][0]["uri"], "memo://{id}");
    let prompt = post("/prompts/asking.hello/get", json!({"arguments": {"who": "you"}}));
    assert_eq!(prompt["messages"][0]["content"]["text"], "Hello you", "{prompt}");
    assert_eq!(prompt["provenance"]["server"], "asking", "{prompt}");
    for (uri, text) in [("memo://a", "first"), ("memo://b", "second")] {
        let read = post("/resources/read", json!({"uri": uri}));
        assert_eq!(read["contents"][0]["text"], text, "{read}");
    }
    let name = get("/prompts")["prompts"][0]["name"].clone();
    let completed = post(
        "/complete",
        json!({
            "ref": {"type": "ref/prompt", "name": name}, "argument": {"name": "who", "value": "w"},
        }),
    );
    assert_eq!(completed["completion"]["values"], json!(["world"]), "{completed}");
    for (path, body, status) in [
        ("/prompts/asking.none/get", json!({}), 404),
        ("/prompts/asking.hello/get", json!({"arguments": []}), 422),
        ("/prompts/asking.hello/get", json!({}), 422),
        ("/prompts/asking.hello", json!({}), 404),
        ("/resources/read", json!({}), 422),
        ("/complete", json!({"ref": {"type": "ref/other"}, "argument": {}}), 422),
        ("/requests/none", json!({"result": {}}), 404),
        ("/shutdown", json!({}), 403),
    ] {
        let answer = all.send("POST", path, &body);
        assert_eq!(answer.status, status, "{path} {body}: {answer:?}");
    }
    // Events begin with the state, and tell a question; it is answered by whom it is asked.
    let port = service.url.rsplit(':').next().unwrap().to_owned();
    let mut stream = std::net::TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let head = format!(
        "GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {}\r\n\r\n",
        all.token
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let from = std::io::BufReader::new(stream);
    let mut events = super::Events { from, last: String::new() };
    let first = events.next();
    assert_eq!((&first["name"], &first["state"]), (&json!("asking"), &json!("ready")), "{first}");
    let other = service.client("none");
    std::thread::scope(|scope| {
        let call = scope.spawn(|| post("/tools/asking.greet/call", json!({"interactive": true})));
        let asked = events.next();
        assert_eq!(asked["method"], "elicitation/create", "{asked}");
        assert_eq!(asked["params"]["message"], "Who are you?", "{asked}");
        assert_eq!(get("/requests?wait=10")["requests"][0]["id"], asked["id"]);
        assert_eq!(other.send("GET", "/requests", &json!({})).json()["requests"], json!([]));
        let path = format!("/requests/{}", asked["id"].as_str().unwrap());
        let accepted = json!({"result": {"action": "accept", "content": {"name": "me"}}});
        assert_eq!(other.send("POST", &path, &accepted).status, 404);
        for wrong in [
            json!({}),
            json!({"result": {"action": "maybe"}}),
            json!({"result": {}, "error": {"message": ""}}),
        ] {
            assert_eq!(all.send("POST", &path, &wrong).status, 422, "{wrong}");
        }
        assert_eq!(post(&path, accepted)["answered"], true);
        let called = call.join().unwrap();
        let text = called["content"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("accept") && text.contains("me"), "{called}");
    });
    assert_eq!(get("/requests")["requests"], json!([]));
    // Without `interactive` it is the operator's, and nobody is there.
    let called = post("/tools/asking.greet/call", json!({}));
    assert!(!called.to_string().contains("\"accept\""), "{called}");
    let auth = service.auth();
    let headers = [("Authorization", auth.as_str()), ("Accept", "application/json")];
    let stats = service.send("GET", "/metrics", &headers, "").json();
    assert_eq!(stats["servers"][0]["tools"][0]["name"], "greet", "{stats}");
    let origins = stats["origins"].as_array().unwrap();
    assert!(origins.iter().any(|it| it["origin"] == all.origin.as_str() && it["calls"] != 0));
    assert!(stats["blocked"].is_array(), "{stats}");
    assert_eq!(service.post("/shutdown", &json!({})).json()["stopping"], true);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut events.from, &mut rest).unwrap();
    let mut service = service;
    assert!(service.child.wait().unwrap().success());
}

#[test]
fn the_description_of_rest_has_every_route_with_an_operation_and_a_schema() {
    let service = serve(asking, &json!({}));
    let described = service.get("/openapi.json").json();
    let source = include_str!("../../../src/gateway/lib.rs");
    let routes = source.split(".route(").skip(1).filter_map(|rest| rest.split('"').nth(1));
    // A generated client sends defaults, and these go with a `query` alone.
    for parameter in described["paths"]["/tools"]["get"]["parameters"].as_array().unwrap() {
        assert!(parameter["schema"]["default"].is_null(), "{parameter}");
    }
    let mut ids = std::collections::HashSet::new();
    for route in routes {
        // Described by its own standard (RFC 9728).
        if route.starts_with("/.well-known/") {
            continue;
        }
        let route = match route {
            "/tools/{*path}" => "/tools/{name}/call",
            "/prompts/{*path}" => "/prompts/{name}/get",
            other => other,
        };
        let path = &described["paths"][route];
        assert!(path.is_object(), "{route} is not described");
        for (method, operation) in path.as_object().unwrap() {
            if method == "parameters" {
                continue;
            }
            let id = operation["operationId"].as_str().unwrap_or_else(|| panic!("{route}"));
            assert!(ids.insert(id.to_owned()), "{id} twice");
            for (status, answer) in operation["responses"].as_object().unwrap() {
                let content = answer["content"].as_object();
                let has_schema = content
                    .is_some_and(|content| content.values().all(|kind| kind["schema"].is_object()));
                assert!(has_schema || answer["$ref"].is_string(), "{id} {status}: {answer}");
            }
        }
    }
}

#[test]
fn calls_through_a_service_and_a_verb_beside_it_are_one_audit_log() {
    let policy = json!({
        "audit": {"file": "audit.jsonl"},
        "profiles": {"ci": {"allow": ["greeter.*"]}},
    });
    let service = Service::under(&policy);
    let body = json!({"arguments": {"name": "Ada"}});
    let client = service.client("ci");
    assert_eq!(client.send("POST", "/tools/greeter__greet/call", &body).status, 200);
    assert_eq!(client.send("POST", "/tools/vendor__odd/call", &json!({})).status, 404);
    service.verb(&["call", "greeter.greet", "name=Bo"]);
    let shown: Value = serde_json::from_str(&service.verb(&["audit", "show", "--json"])).unwrap();
    let rows: Vec<String> = shown["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| format!("{} {} {}", event["caller"], event["target"], event["allowed"]))
        .collect();
    let own = |rest: &str| format!("\"{}\" {rest}", client.origin);
    let wanted = [
        own("\"greeter.greet\" true"),
        own("\"vendor.odd\" false"),
        "\"cli\" \"greeter.greet\" true".to_owned(),
    ];
    assert_eq!(rows, wanted, "{shown}");
    let text = std::fs::read_to_string(service.folder.join("audit.jsonl")).unwrap();
    assert!(!text.contains("Ada") && !text.contains("Bo"), "no argument, no result: {text}");
    assert!(!text.contains(&client.token), "no token");
    let table = service.verb(&["audit", "show", "--refused"]);
    assert!(table.contains("vendor.odd") && !table.contains("greeter"), "{table}");
    let verified = service.verb(&["audit", "verify"]);
    assert!(verified.starts_with("unbroken: 5 lines in 1 file, numbers 1 to 5"), "{verified}");
    let end = verified.split("end: ").nth(1).unwrap().trim();
    service.verb(&["audit", "verify", "--end", end]);

    let changed = text.replacen("\"allowed\":false", "\"allowed\":true", 1);
    assert_ne!(changed, text);
    std::fs::write(service.folder.join("audit.jsonl"), changed).unwrap();
    let out = super::program()
        .args(["audit", "verify", "-c"])
        .arg(service.folder.join("mcp.json"))
        .env("MCPDECK_STATE_DIR", service.state())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(1), "{told}");
    assert!(told.contains("audit.jsonl:4: the line before it was changed"), "{told}");
}

#[test]
fn a_refusal_for_a_limit_says_which_and_when_to_try_again() {
    let policy = json!({
        "profiles": {"team": {"allow": ["*"]}, "busy": {"allow": ["*"]}},
        "quotas": [
            {"name": "minutes", "profiles": ["team"], "callsPerMinute": 1},
            {"name": "days", "profiles": ["busy"], "callsPerDay": 1},
        ],
    });
    let service = Service::under(&policy);
    let arguments = json!({"arguments": {"name": "Ada"}});
    for (profile, words, more) in [
        ("team", "the quota `minutes` allows 1 call per minute; try again in ", " s"),
        ("busy", "the quota `days` of 1 call per day is used up; the next day begins at ", "Z"),
    ] {
        let client = service.client(profile);
        let greet = || client.send("POST", "/tools/greeter__greet/call", &arguments);
        assert_eq!(greet().status, 200);
        let refused = greet();
        let error = refused.json()["error"].clone();
        let said = error["message"].as_str().unwrap();
        assert_eq!(refused.status, 429, "{refused:?}");
        assert!(said.starts_with(words) && said.ends_with(more), "{said}");
        assert!(error["retryAfterMs"].as_u64() > Some(0), "{refused:?}");
        // A model sees the message alone.
        let session = service.session(&client.token);
        let params = json!({"name": "greeter__greet", "arguments": {"name": "Ada"}});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let answer = service.mcp(&client.token, &[("Mcp-Session-Id", &session)], &call);
        assert!(answer.body.contains(words), "{answer:?}");
    }
}

#[test]
fn whatever_refuses_a_call_a_model_reads_it_and_the_operator_sees_it() {
    let policy = json!({
        "ask": ["vendor.fail"],
        "quotas": [
            {"name": "minutes", "profiles": ["minutes"], "callsPerMinute": 1},
            {"name": "days", "profiles": ["days"], "callsPerDay": 1},
        ],
        "profiles": {
            "minutes": {"allow": ["*"]},
            "days": {"allow": ["*"]},
            "runs": {"allow": ["*"], "limits": {"callsPerRun": 1}},
            "often": {"allow": ["*"], "limits": {"callsPerMinute": 1}},
            "small": {"allow": ["*"], "limits": {"argumentBytes": 20}},
            "asked": {"allow": ["*"]},
            "none": {},
        },
    });
    let service = Service::under(&policy);
    let short = json!({"name": "Ada"});
    for (profile, tool, arguments, (code, is_timed), words) in [
        ("minutes", "greeter__greet", &short, ("ERR_RATE_LIMITED", true), "the quota `minutes`"),
        ("days", "greeter__greet", &short, ("ERR_BUDGET_EXCEEDED", true), "the quota `days`"),
        ("runs", "greeter__greet", &short, ("ERR_BUDGET_EXCEEDED", true), "`callsPerRun`"),
        ("often", "greeter__greet", &short, ("ERR_RATE_LIMITED", true), "in a minute"),
        (
            "small",
            "greeter__greet",
            &json!({"name": "A longer name than that"}),
            ("ERR_PROTOCOL_ERROR", false),
            "larger than 20 bytes",
        ),
        ("asked", "vendor__fail", &json!({}), ("ERR_PERMISSION_DENIED", false), "a rule asks"),
        ("none", "greeter__greet", &short, ("ERR_PERMISSION_DENIED", false), "nothing was granted"),
    ] {
        let client = service.client(profile);
        let session = service.session(&client.token);
        let call = || {
            let params = json!({"name": tool, "arguments": arguments});
            let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
            service.mcp(&client.token, &[("Mcp-Session-Id", &session)], &call)
        };
        // Some permit one.
        let first = call().message();
        let answer = if first["result"]["isError"] == true { first } else { call().message() };
        let result = &answer["result"];
        assert_eq!(result["isError"], true, "{profile}: {answer}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(words), "{profile}: {answer}");
        let about = &result["_meta"]["mcpdeck/error"];
        assert_eq!(about["code"], code, "{profile}: {answer}");
        assert_eq!(about["retryAfterMs"].is_u64(), is_timed, "{profile}: {answer}");
        let auth = service.auth();
        let accept = [("Authorization", auth.as_str()), ("Accept", "application/json")];
        let stats = service.send("GET", "/metrics", &accept, "").json();
        let blocked = stats["blocked"].as_array().unwrap();
        let own = |it: &&Value| it["origin"] == client.origin.as_str();
        let own: Vec<&Value> = blocked.iter().filter(own).collect();
        assert_eq!(own.len(), 1, "{profile}: {stats}");
        let why = own[0]["why"].as_str().unwrap();
        assert!(why.contains(words), "{profile}: {stats}");
    }
    // A token without the scope of calls.
    let token = service.token(&["new", "--profile", "minutes", "--scope", "mcp:tools.list"]);
    let session = service.session(&token);
    let params = json!({"name": "greeter__greet", "arguments": short});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = service.mcp(&token, &[("Mcp-Session-Id", &session)], &call).message();
    let result = &answer["result"];
    assert_eq!(result["_meta"]["mcpdeck/error"]["code"], "ERR_SCOPE_REQUIRED", "{answer}");
    assert!(result["content"][0]["text"].as_str().unwrap().contains("`mcp:tools.call`"));
    let auth = service.auth();
    let accept = [("Authorization", auth.as_str()), ("Accept", "application/json")];
    let stats = service.send("GET", "/metrics", &accept, "").body;
    assert!(stats.contains("the scope `mcp:tools.call` was not granted"), "{stats}");
    // A tool that is not there is no call that was refused.
    let client = service.client("minutes");
    let session = service.session(&client.token);
    let params = json!({"name": "greeter__none", "arguments": {}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let answer = service.mcp(&client.token, &[("Mcp-Session-Id", &session)], &call).message();
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
}

#[test]
fn a_client_that_has_to_search_is_told_so_by_every_revision() {
    let policy = json!({"profiles": {
        "agent": {"expose": "search", "allow": ["many.*"]},
        "whole": {"allow": ["many.stripe_*"]},
    }});
    let service = serve(many, &policy);
    for (profile, is_told) in [("agent", true), ("whole", false)] {
        let token = service.client(profile).token;
        let begun = service.mcp(&token, &[], &super::initialize()).message();
        let headers = [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "server/discover")];
        let discover = request(1, "server/discover", &super::modern(json!({}), &json!({})));
        let known = service.mcp(&token, &headers, &discover).message();
        assert!(known["result"]["capabilities"]["tools"].is_object(), "{known}");
        for answer in [begun, known] {
            let told = answer["result"]["instructions"].as_str().unwrap_or_default();
            assert_eq!(told.contains("`find_tools`"), is_told, "{answer}");
        }
    }
}

#[test]
fn a_policy_that_cannot_be_used_is_told_of_once_each_time() {
    let good = json!({"deny": ["vendor.odd"]});
    let service = Service::under(&good);
    let file = service.folder.join("mcpdeck.policy.json");
    let written = |policy: &Value| {
        let new = service.folder.join("new");
        std::fs::write(&new, policy.to_string()).unwrap();
        std::fs::rename(&new, &file).unwrap();
    };
    let count = |words: &str| {
        let told = std::fs::read_to_string(service.folder.join("stderr")).unwrap();
        told.lines().filter(|line| line.contains(words)).count()
    };
    // What writes it may be any of two, at random.
    for round in 1..=6 {
        written(&json!({"deny": ["vendor.odd"], "profiles": 5}));
        while count("what was in force before stays in force") < round {
            std::thread::park_timeout(POLL);
        }
        written(&good);
        while count("it is used again") < round {
            std::thread::park_timeout(POLL);
        }
        assert_eq!(count("what was in force before stays in force"), round);
    }
}

#[test]
fn policy_why_knows_what_a_service_has_seen() {
    let service = Service::under(&json!({"profiles": {"team": {"allow": ["*"]}}}));
    let why = |call: &str| {
        let done = super::program()
            .args(["policy", "why", "gateway:a", call, "--profile", "team", "-c"])
            .arg(service.folder.join("mcp.json"))
            .env("MCPDECK_STATE_DIR", service.state())
            .output()
            .unwrap();
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    // What it has seen is written down a moment later.
    while !why("greeter.great").contains("did you mean `greeter.greet`?") {
        std::thread::park_timeout(POLL);
    }
    assert_eq!(why("greeter.greet"), "");
    // It could not be started, so that it may have anything.
    assert_eq!(why("absent.anything"), "");
}
