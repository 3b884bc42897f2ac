//! Long calls of clients that know tasks (extension `io.modelcontextprotocol/tasks`).

use std::path::Path;

use serde_json::{Value, json};

use super::{Answer, POLL, Service, modern, request};

/// Tools that take their time, of a server that knows no tasks.
fn slow(folder: &Path) {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let tools = ["quick", "slow", "endless", "broken", "asks"].map(tool);
    let form = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let ask = json!({
        "method": "elicitation/create",
        "params": {"message": "Who?", "requestedSchema": form},
    });
    let script = json!({
        "serverInfo": {"name": "slow", "version": "1"}, "capabilities": {"tools": {}},
        "versions": ["2025-11-25"],
        "tools": tools,
        "calls": {
            "quick": {"text": "at once"},
            "slow": [{"delay": 1500}, {"text": "late"}],
            "endless": [{"delay": 600_000}],
            "broken": [{"delay": 1500}, {"error": {"code": -32_603, "message": "no"}}],
            "asks": [
                {"delay": 1500}, {"ask": ask},
                {"text": "hello ${saved.answer.result.content.name}"},
            ],
        },
    });
    std::fs::write(folder.join("slow.json"), script.to_string()).unwrap();
    let exe = env!("CARGO_BIN_EXE_mcpdeck");
    let entry = json!({"command": exe, "args": ["mock", folder.join("slow.json")]});
    std::fs::write(folder.join("mcp.json"), json!({"servers": {"slow": entry}}).to_string())
        .unwrap();
}

fn serve() -> Service {
    let folder = tempfile::tempdir().unwrap();
    slow(folder.path());
    let mut service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    service.kept = Some(folder);
    while service.get("/readyz").status != 200 {
        service.get("/tools");
        std::thread::park_timeout(POLL);
    }
    service
}

impl Service {
    /// Sends a request of 2026-07-28 with these capabilities of the client.
    fn ask(&self, token: &str, capabilities: &Value, method: &str, params: Value) -> Answer {
        let name = params["name"].as_str().or(params["taskId"].as_str()).unwrap_or_default();
        let headers =
            [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", method), ("Mcp-Name", name)];
        let more = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        self.mcp(token, &headers, &request(1, method, &modern(params.clone(), &more)))
    }

    /// The same of a client that follows tasks and answers forms; the result.
    fn task(&self, method: &str, params: Value) -> Value {
        let tasks = json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}});
        let answer = self.ask(&self.token, &tasks, method, params).message();
        assert!(answer["result"].is_object(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn call_as_task(&self, tool: &str) -> Value {
        self.task("tools/call", json!({"name": tool, "arguments": {}}))
    }

    /// The state of a task once it has this status.
    fn until_task(&self, id: &Value, status: &str) -> Value {
        loop {
            let state = self.task("tasks/get", json!({"taskId": id}));
            if state["status"] == status {
                return state;
            }
            let is_open = matches!(state["status"].as_str(), Some("working" | "input_required"));
            assert!(is_open, "{state}");
            std::thread::park_timeout(POLL);
        }
    }
}

#[test]
fn a_call_that_takes_long_becomes_a_task_and_a_quick_one_does_not() {
    let service = serve();
    assert_eq!(service.call_as_task("quick")["content"][0]["text"], "at once");
    let created = service.call_as_task("slow");
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    assert!(created.get("result").is_none() && created["createdAt"].is_string(), "{created}");
    let done = service.until_task(&created["taskId"], "completed");
    assert_eq!(done["result"]["content"][0]["text"], "late", "{done}");
    assert_eq!(done["resultType"], "complete");
    let failed = service.until_task(&service.call_as_task("broken")["taskId"], "failed");
    assert!(failed["error"]["code"].is_i64() && failed.get("result").is_none(), "{failed}");
    // A client that knows no tasks waits for the result.
    let params = json!({"name": "slow", "arguments": {}});
    let answer = service.ask(&service.token, &json!({}), "tools/call", params).message();
    assert_eq!(answer["result"]["content"][0]["text"], "late", "{answer}");
}

#[test]
fn what_a_task_asks_is_answered_by_its_client() {
    let service = serve();
    let id = service.call_as_task("asks")["taskId"].clone();
    let waiting = service.until_task(&id, "input_required");
    let asked = waiting["inputRequests"].as_object().unwrap();
    let (key, request) = asked.iter().next().unwrap();
    assert_eq!(request["method"], "elicitation/create");
    let answer = json!({"action": "accept", "content": {"name": "Bo"}});
    for responses in [json!({"other": answer}), json!({key: 3}), json!({key: answer})] {
        let ack = service.task("tasks/update", json!({"taskId": id, "inputResponses": responses}));
        assert_eq!(ack, json!({"resultType": "complete"}));
    }
    let done = service.until_task(&id, "completed");
    assert_eq!(done["result"]["content"][0]["text"], "hello Bo", "{done}");
}

#[test]
fn a_task_belongs_to_its_client_and_ends_when_it_is_cancelled() {
    let service = serve();
    let id = service.call_as_task("endless")["taskId"].clone();
    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let other = service.token(&["new"]);
    for method in ["tasks/get", "tasks/cancel"] {
        let params = json!({"taskId": id});
        let answer = service.ask(&other, &tasks, method, params.clone()).message();
        assert_eq!(answer["error"]["code"], -32_602, "{answer}");
        let answer = service.ask(&service.token, &json!({}), method, params).message();
        assert_eq!(answer["error"]["code"], -32_021, "{answer}");
    }
    for _ in 0..2 {
        service.task("tasks/cancel", json!({"taskId": id}));
    }
    service.until_task(&id, "cancelled");
}
