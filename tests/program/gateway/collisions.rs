//! Names that lead to the items of two servers (`a.b` + `c` and `a` + `b.c`): listed, called and
//! permitted are the same one, the other is reachable, and the operator is told.

use serde_json::{Value, json};

use super::{Service, program};

/// Servers whose names begin with each other, in this order; each tool answers with its own name.
fn config(order: &[&str]) -> Value {
    let all = [
        ("a", &["b.c", "b__c", "_x", "plain", "Plain"][..]),
        ("a.b", &["c", "c:d"]),
        ("a__b", &["c"]),
        ("a_", &["x"]),
    ];
    let mut servers = serde_json::Map::new();
    for name in order {
        let (_, tools) = all.iter().find(|(server, _)| server == name).unwrap();
        let long = "l".repeat(80);
        let mut tools: Vec<&str> = tools.to_vec();
        tools.push(&long);
        let listed =
            tools.iter().map(|tool| json!({"name": tool, "inputSchema": {"type": "object"}}));
        let calls = tools
            .iter()
            .map(|tool| ((*tool).to_owned(), json!({"text": format!("tool {tool} of {name}")})));
        let prompts = tools.iter().map(|prompt| json!({"name": prompt}));
        let gets = tools.iter().map(|prompt| {
            let content = json!({"type": "text", "text": format!("prompt {prompt} of {name}")});
            let message = json!({"role": "user", "content": content});
            ((*prompt).to_owned(), json!({"answer": {"messages": [message]}}))
        });
        let script = json!({
            "tools": listed.collect::<Vec<_>>(), "calls": calls.collect::<serde_json::Map<_, _>>(),
            "prompts": prompts.collect::<Vec<_>>(), "gets": gets.collect::<serde_json::Map<_, _>>(),
            "resources": [{"uri": "f:same", "name": "same"}],
            "resourceTemplates": [{"uriTemplate": "t:{id}", "name": "same"}],
        });
        let entry = json!({
            "command": env!("CARGO_BIN_EXE_mcpdeck"), "args": ["mock", "--script", script.to_string()],
        });
        servers.insert((*name).to_owned(), entry);
    }
    json!({ "servers": servers })
}

/// The entries of a list over REST, as what they are: name, server, name there.
fn listed(service: &Service, list: &str) -> Vec<[String; 3]> {
    let all = service.get(&format!("/{list}s")).json();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap().to_owned();
    let entries = all[format!("{list}s")].as_array().unwrap().iter();
    entries.map(|it| [text(it, "name"), text(it, "server"), text(it, list)]).collect()
}

#[test]
fn each_listed_name_leads_to_its_own_tool_and_prompt_by_every_door_in_any_order() {
    let mut names: Vec<Vec<[String; 3]>> = Vec::new();
    for order in [["a", "a.b", "a__b", "a_"], ["a_", "a__b", "a.b", "a"]] {
        let service = Service::serving(&config(&order), &json!({}), &[]);
        let session = service.session(&service.token);
        let mcp = |method: &str, params: Value| {
            let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
            let answer = service.mcp(&service.token, &[("Mcp-Session-Id", &session)], &request);
            // As a document, or as the one event of a stream.
            let (begin, end) = (answer.body.find('{').unwrap(), answer.body.rfind('}').unwrap());
            serde_json::from_str::<Value>(&answer.body[begin..=end]).unwrap()
        };
        for (list, [call, action]) in
            [("tool", ["tools/call", "call"]), ("prompt", ["prompts/get", "get"])]
        {
            let mut entries = listed(&service, list);
            assert_eq!(entries.len(), 13, "{entries:?}");
            let over_mcp = mcp(&format!("{list}s/list"), json!({}));
            let over_mcp = over_mcp["result"][format!("{list}s")].as_array().unwrap().clone();
            for (at, [name, server, original]) in entries.iter().enumerate() {
                assert!(name.len() <= 64, "{name}");
                assert_eq!(entries.iter().filter(|it| it[0] == *name).count(), 1, "{name}");
                assert_eq!(over_mcp[at]["name"], *name);
                let own = format!("{list} {original} of {server}");
                let answer = mcp(call, json!({"name": name})).to_string();
                assert!(answer.contains(&own), "{name}: {answer}");
                let answer = service.post(&format!("/{list}s/{name}/{action}"), &json!({}));
                assert!(answer.body.contains(&own), "{name}: {answer:?}");
                // As on the command line: what may be spelled for both is the longer server's.
                for sign in ["__", ":", "."] {
                    let spelled = format!("{server}{sign}{original}");
                    let is_long = |it: &&[String; 3]| {
                        let is_it = |sign: &&str| format!("{}{sign}{}", it[1], it[2]) == spelled;
                        it[1].len() > server.len() && ["__", ":", "."].iter().any(is_it)
                    };
                    let meant = entries.iter().find(is_long).unwrap_or(&entries[at]);
                    let own = format!("{list} {} of {}", meant[2], meant[1]);
                    let answer = mcp(call, json!({"name": spelled})).to_string();
                    assert!(answer.contains(&own), "{spelled}: {answer}");
                }
            }
            entries.sort();
            names.push(entries);
        }
    }
    assert_eq!((&names[0], &names[1]), (&names[2], &names[3]), "names do not depend on the order");
    assert!(names[0].iter().any(|it| it[0] == "a__b__c" && it[1] == "a__b"), "{names:?}");
}

#[test]
fn what_is_permitted_or_denied_by_a_listed_name_is_the_tool_of_that_name() {
    let order = ["a", "a.b", "a__b", "a_"];
    let free = Service::serving(&config(&order), &json!({}), &[]);
    let all = listed(&free, "tool");
    let second = all.iter().find(|it| it[1] == "a" && it[2] == "b__c").unwrap()[0].clone();
    drop(free);
    let profiles = json!({
        "long": {"allow": ["a__b__c"]},
        "short": {"allow": ["a:b__c"]},
        "second": {"allow": [second]},
        "all-but": {"allow": ["*"], "deny": [second]},
        "dotted": {"allow": ["a.b.c"]},
        "colon": {"allow": ["a:b.c"]},
    });
    let service = Service::serving(&config(&order), &json!({"profiles": profiles}), &[]);
    for (profile, allowed) in [
        ("long", vec!["c of a__b"]),
        ("short", vec!["b__c of a"]),
        ("second", vec!["b__c of a"]),
        ("dotted", vec!["c of a.b"]),
        ("colon", vec!["b.c of a"]),
    ] {
        let client = service.client(profile);
        let seen = client.tools().unwrap();
        assert_eq!(seen.len(), allowed.len(), "{profile}: {seen:?}");
        for [name, server, original] in &all {
            let answer = client.send("POST", &format!("/tools/{name}/call"), &json!({}));
            let is_allowed = allowed.contains(&format!("{original} of {server}").as_str());
            assert_eq!(answer.status == 200, is_allowed, "{profile} {name}: {answer:?}");
            assert_eq!(seen.contains(name), is_allowed, "{profile} {name}: {seen:?}");
        }
    }
    let client = service.client("all-but");
    let seen = client.tools().unwrap();
    assert!(seen.len() == 12 && !seen.contains(&second), "{seen:?}");
    let refused = client.send("POST", &format!("/tools/{second}/call"), &json!({}));
    assert_ne!(refused.status, 200, "{refused:?}");
    let other = client.send("POST", "/tools/a__b__c/call", &json!({}));
    assert!(other.body.contains("tool c of a__b"), "{other:?}");
}

#[test]
fn the_operator_is_told_of_names_that_lead_to_two_servers() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mcp.json");
    std::fs::write(&file, config(&["a", "a.b"]).to_string()).unwrap();
    let run = |args: &[&str]| {
        let mut run = program();
        run.args(args).arg("-c").arg(&file).env("MCPDECK_STATE_DIR", folder.path().join("state"));
        let out = run.output().unwrap();
        (String::from_utf8(out.stdout).unwrap(), String::from_utf8(out.stderr).unwrap())
    };
    let told = "`a.b.c` is the tool `c` of `a.b`; the tool `b.c` of `a` is `a:b.c`";
    let shared = "the resource template `t:{id}` is listed by several servers: clients of the \
                  gateway read that of `a`, and that of `a.b` as `mcpdeck://a.b/t:{id}`";
    for verb in ["status", "list"] {
        let (_, complaints) = run(&[verb]);
        assert_eq!(complaints.matches(told).count(), 1, "{verb}: {complaints}");
        assert_eq!(complaints.matches(shared).count(), 1, "{verb}: {complaints}");
    }
    let (status, _) = run(&["status", "--json"]);
    let status: Value = serde_json::from_str(&status).unwrap();
    let findings = status["servers"].as_array().unwrap().iter();
    let findings: Vec<&Value> =
        findings.flat_map(|server| server["findings"].as_array().unwrap()).collect();
    let names = |words: &str| {
        let is_it = |it: &&&Value| it["message"].as_str().unwrap().starts_with(words);
        findings.iter().any(|it| is_it(&it) && it["kind"] == "collision")
    };
    assert!(names(told) && names(shared), "{findings:?}");
    // The way that is told leads there.
    let (called, _) = run(&["call", "a:b.c"]);
    assert!(called.contains("tool b.c of a"), "{called}");
    let (called, _) = run(&["call", "a.b.c"]);
    assert!(called.contains("tool c of a.b"), "{called}");
}
