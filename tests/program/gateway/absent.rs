//! A client that disconnects while it is asked something: the question ends without an answer in
//! anybody's name, the next caller gets its turn, and the result is kept for the one who left.

use serde_json::{Value, json};

use super::team::{asking, serve};
use super::{Events, Service, request};

/// A session of a client that can be asked.
fn session(service: &Service) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let answer = service.mcp(&service.token, &[], &hello);
    let session = answer.header("mcp-session-id").expect("a session").to_owned();
    let done = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    service.mcp(&service.token, &[("Mcp-Session-Id", &session)], &done);
    session
}

/// Calls the tool that asks; returns the stream, which has told the question, and the question.
fn ask(service: &Service, session: &str) -> (Events, Value) {
    let body = request(7, "tools/call", &json!({"name": "asking__greet"})).to_string();
    let headers = [("Mcp-Session-Id", session)];
    let mut events = service.events(&service.token, "POST", &headers, &body);
    let asked = events.next();
    assert_eq!(asked["method"], "elicitation/create", "{asked}");
    (events, asked)
}

/// The result that ends a stream; other messages of the service may come before it.
fn result_of(events: &mut Events) -> String {
    loop {
        let message = events.next();
        if let Some(result) = message.get("result") {
            return result.to_string();
        }
        assert!(message.get("error").is_none(), "{message}");
    }
}

#[test]
fn a_question_whose_client_has_gone_ends_and_the_next_caller_is_served() {
    let service = serve(asking, &json!({}));
    let (first, second) = (session(&service), session(&service));
    let (left, _) = ask(&service, &first);
    let last = left.last.clone();
    drop(left);
    let (mut events, asked) = ask(&service, &second);
    let accepted = json!({"action": "accept", "content": {"name": "me"}});
    let answer = json!({"jsonrpc": "2.0", "id": asked["id"], "result": accepted});
    let headers = [("Mcp-Session-Id", second.as_str())];
    assert_eq!(service.mcp(&service.token, &headers, &answer).status, 202);
    let result = result_of(&mut events);
    assert!(result.contains("accept") && result.contains("me"), "{result}");
    // The server was told that nobody chose; the result waits for the client that left.
    let headers = [("Mcp-Session-Id", first.as_str()), ("Last-Event-ID", last.as_str())];
    let result = result_of(&mut service.events(&service.token, "GET", &headers, ""));
    assert!(result.contains("cancel") && !result.contains("decline"), "{result}");
}
