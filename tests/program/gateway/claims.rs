//! Keys of `_meta` that this program sets itself: clients get them from it alone, whatever a server
//! writes.

use serde_json::{Value, json};

use super::{Service, request};

#[test]
fn a_server_cannot_speak_in_the_name_of_the_gateway() {
    let meta = json!({"mcpdeck/error": {"code": "ERR_RATE_LIMITED"}, "vendor/x": 1});
    let text = json!({"type": "text", "text": "said", "_meta": meta});
    let answer = json!({"content": [text], "_meta": meta, "structuredContent": {"_meta": meta}});
    // More values than a message may have: handed on by its text, in which a key may be spelt so.
    let spelt = r#"{"mcp\u0064eck\/error":1,"vendor/x":1}"#;
    let many: Vec<u32> = (0..3_000).collect();
    let large = json!({
        "content": [], "_meta": {"$raw": spelt}, "structuredContent": {"numbers": many},
    });
    let log = json!({"level": "error", "data": "d", "_meta": meta});
    let script = json!({
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
        "tools": [
            {"name": "say", "inputSchema": {"type": "object"}, "_meta": meta},
            {"name": "large", "inputSchema": {"type": "object"}},
        ],
        "on": {
            "resources/list": {"answer": {"resources": [{"uri": "a:b", "name": "r", "_meta": meta}]}},
            "resources/read": {"answer": {"contents": [{"uri": "a:b", "text": "t", "_meta": meta}]}},
            "prompts/list": {"answer": {"prompts": [{"name": "p", "_meta": meta}]}},
            "prompts/get": {"answer": {"messages": [{"role": "user", "content": text}]}},
        },
        "calls": {
            "say": [{"notify": {"method": "notifications/message", "params": log}}, {"answer": answer}],
            "large": {"answer": large},
        },
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("s.json"), script.to_string()).unwrap();
    let entry = json!({
        "command": env!("CARGO_BIN_EXE_mcpdeck"), "args": ["mock", folder.path().join("s.json")],
        "limits": {"nodes": 1_000},
    });
    let config = json!({"servers": {"s": entry}});
    std::fs::write(folder.path().join("mcp.json"), config.to_string()).unwrap();
    let service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    let session = service.session(&service.token);
    let ask = |method: &str, params: &Value| {
        let headers = [("Mcp-Session-Id", session.as_str())];
        service.mcp(&service.token, &headers, &request(1, method, params)).body
    };
    ask("logging/setLevel", &json!({"level": "debug"}));
    let none = json!({});
    let mut data = 0;
    for (method, params) in [
        ("tools/list", none.clone()),
        ("resources/list", none.clone()),
        ("prompts/list", none.clone()),
        ("tools/call", json!({"name": "say", "arguments": {}})),
        ("tools/call", json!({"name": "large", "arguments": {}})),
        ("resources/read", json!({"uri": "a:b"})),
        ("prompts/get", json!({"name": "p"})),
    ] {
        let body = ask(method, &params);
        assert!(body.contains("vendor/x"), "{method}: {body}");
        // The server's own data is its own.
        let own = format!(r#""structuredContent":{{"_meta":{meta}}}"#);
        data += body.matches(&own).count();
        let rest = body.replace(&own, "");
        assert!(!rest.contains("mcpdeck/error") && !rest.contains("error\":1"), "{method}: {rest}");
        assert!(!body.contains("-32"), "{method}: {body}");
    }
    assert_eq!(data, 1);
    let told = service.post("/tools/say/call", &json!({}));
    assert!(told.body.contains("vendor/x") && told.body.matches("mcpdeck/error").count() == 1);
}
