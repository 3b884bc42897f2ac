//! Messages and paths as clients write them by mistake: what is meant is served, what is none is refused
//! with what is wrong with it.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use super::{Service, initialize, program};

#[test]
fn what_is_no_message_is_refused_with_its_id_and_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mcp.json"), r#"{"servers":{}}"#).unwrap();
    let service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    let session = service.session(&service.token);
    let auth = service.auth();
    let base = [
        ("Authorization", auth.as_str()),
        ("Content-Type", "application/json"),
        ("Accept", "application/json, text/event-stream"),
        ("Mcp-Session-Id", session.as_str()),
    ];
    let post = |body: &str| service.send("POST", "/mcp", &base, body);
    for (body, code, id, says) in [
        ("", -32700, Value::Null, "Parse error"),
        ("{\"jsonrpc\":\"2.0\",", -32700, Value::Null, "line 1"),
        ("{}{}", -32700, Value::Null, "trailing"),
        ("7", -32600, Value::Null, "an object"),
        (r#"{"id":3,"method":"ping"}"#, -32600, json!(3), "`jsonrpc` is missing"),
        (r#"{"jsonrpc":"1.0","id":3,"method":"ping"}"#, -32600, json!(3), "not \\\"2.0\\\""),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, Value::Null, "64 bits"),
        (r#"{"jsonrpc":"2.0","id":"a"}"#, -32600, json!("a"), "`method` is missing"),
        (r#"{"jsonrpc":"2.0","id":4,"method":7}"#, -32600, json!(4), "not text"),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"_meta":"x"}}"#,
            -32600,
            json!(4),
            "`_meta`",
        ),
        (
            r#"{"jsonrpc":"2.0","id":4,"method":"tools/list","params":[]}"#,
            -32600,
            json!(4),
            "`params`",
        ),
    ] {
        let answer = post(body);
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        let sent: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(
            (&sent["error"]["code"], &sent["id"]),
            (&json!(code), &id),
            "{body}: {answer:?}"
        );
        assert!(answer.body.contains(says), "{body}: {answer:?}");
    }
    // Without what it has to say, no session begins, and the reason is told all the same.
    let first = r#"{"jsonrpc":"2.0","id":8,"method":"initialize","params":{}}"#;
    let refused = service.send("POST", "/mcp", &base[..3], first);
    let sent: Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(
        (refused.status, &sent["error"]["code"], &sent["id"]),
        (400, &json!(-32602), &json!(8))
    );
    assert!(refused.body.contains("`protocolVersion` is missing"), "{refused:?}");
    // A method that exists is not denied because of its parameters.
    for arguments in ["[]", "\"{}\"", "7"] {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{{"name":"x","arguments":{arguments}}}}}"#
        );
        let refused = post(&call).body;
        assert!(refused.contains("-32602") && refused.contains("`arguments` must be"), "{refused}");
    }
    // Lists have one page: a cursor was given out by somebody else.
    let page = |cursor: &str| {
        post(&format!(
            r#"{{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{{"cursor":{cursor}}}}}"#
        ))
    };
    let refused = page("\"page2\"").body;
    assert!(refused.contains("-32602") && refused.contains("`cursor`"), "{refused}");
    for cursor in ["null", "\"\""] {
        assert!(page(cursor).body.contains("\"tools\":[]"), "{cursor}");
    }
    let packed = [&base[..], &[("Content-Encoding", "gzip")]].concat();
    let packed = service.send("POST", "/mcp", &packed, "x");
    assert!(packed.status == 415 && packed.body.contains("Content-Encoding"), "{packed:?}");
    let unknown = post(r#"{"jsonrpc":"2.0","id":6,"method":"foo/bar"}"#);
    assert!(unknown.body.contains("-32601"), "{unknown:?}");
    // A byte order mark is none of a message.
    let marked = post("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"ping\"}");
    assert!(marked.status == 200 && marked.body.contains(r#""id":7"#), "{marked:?}");
}

#[test]
fn a_last_slash_changes_nothing_and_a_path_that_is_none_says_so() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mcp.json"), r#"{"servers":{}}"#).unwrap();
    let service = Service::launch(folder.path(), "127.0.0.1:0", &[]);
    let auth = service.auth();
    let headers = [("Authorization", auth.as_str())];
    for path in ["/tools", "/servers", "/prompts", "/resources", "/healthz"] {
        let plain = service.send("GET", path, &headers, "");
        let slashed = service.send("GET", &format!("{path}/"), &headers, "");
        assert_eq!((slashed.status, slashed.body), (200, plain.body), "{path}");
    }
    for (method, path, status) in
        [("GET", "/nothing", 404), ("GET", "/", 404), ("PUT", "/tools", 405)]
    {
        let answer = service.send(method, path, &headers, "");
        assert_eq!(answer.status, status, "{answer:?}");
        let sent: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        assert!(sent["error"]["message"].is_string(), "{path}: {answer:?}");
        let names_mcp = answer.body.contains("MCP is at /mcp");
        assert_eq!(names_mcp, status == 404, "{path}: {answer:?}");
    }
}

#[test]
fn the_refusal_of_the_last_line_of_a_pipe_is_not_lost() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mcp.json"), r#"{"servers":{}}"#).unwrap();
    let hello = initialize().to_string();
    // Before the handshake and after it.
    for (lines, answers) in [("no JSON\n".to_owned(), 1), (format!("{hello}\nno JSON\n"), 2)] {
        for _ in 0..10 {
            let mut child = program()
                .args(["serve", "--stdio", "-c"])
                .arg(folder.path().join("mcp.json"))
                .env("MCPDECK_STATE_DIR", folder.path().join("state"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
            let out = child.wait_with_output().unwrap();
            let written = String::from_utf8(out.stdout).unwrap();
            assert_eq!(written.lines().count(), answers, "{written}");
            assert!(written.contains("-32700"), "{written}");
        }
    }
}
