//! Questions at a terminal: they are answered by what is typed after they are shown.

use serde_json::{Value, json};

use super::{call, text};
use crate::provider::{Provider, Request};
use crate::pty::{Deck, Launch, PATIENCE, Size, own_server};
use crate::support::wait_for;

/// A verb at a terminal with server `s`, which plays this script.
fn launch(args: &[&str], script: &Value) -> Launch {
    let launch = Launch::new(Size::WIDE, args).arg("--config").arg("mcp.json");
    let config = format!("{{\"servers\": {{{}}}}}", own_server("s", &["mock", "s.json"]));
    launch.write("mcp.json", &config).write("s.json", &script.to_string())
}

/// A conversation with this provider; its server writes.
fn talk(provider: &Provider) -> Deck {
    let args = ["chat", "--provider", "openai", "--model", "m", "--base-url", &provider.url];
    let writes = json!({"tools": [{"name": "write", "inputSchema": {"type": "object"}}],
        "calls": {"write": [{"text": "written"}]}});
    launch(&args, &writes).env("OPENAI_API_KEY", "sk-canary-key-4711").start()
}

/// What the user had said by request `n`.
fn said(provider: &Provider, n: usize) -> Vec<String> {
    let request = wait_for("the request", PATIENCE, || provider.requests().get(n).cloned());
    let Request { body, .. } = request;
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    let own = messages.iter().filter(|message| message["role"] == "user");
    own.map(|message| message["content"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_message_typed_ahead_answers_no_question_and_stays_a_message() {
    for (ahead, answer, result) in [
        ("a", "n", "refused the call"),
        ("y", "n", "refused the call"),
        ("what else", "y", "written"),
    ] {
        let provider = Provider::new(vec![call("s__write", "{}"), text("first"), text("second")]);
        let mut deck = talk(&provider);
        deck.wait("> ");
        deck.bytes(&format!("write it\r{ahead}\r"));
        deck.wait("a: always, N]");
        deck.bytes(&format!("{answer}\r"));
        assert_eq!(said(&provider, 1), ["write it"]);
        assert!(provider.requests()[1].body.to_string().contains(result), "{ahead}");
        assert_eq!(said(&provider, 2), ["write it", ahead]);
        deck.wait("second");
        deck.bytes("\r");
        assert_eq!(deck.exit_code(), 0);
    }
}

#[test]
fn what_was_typed_before_a_server_asks_answers_no_field_of_its_form() {
    let form = json!({"type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}}});
    let asks = json!({
        "tools": [{"name": "drop", "inputSchema": {"type": "object"}}],
        "calls": {"drop": [
            {"ask": {"method": "elicitation/create", "as": "form",
                "params": {"message": "Which one?", "requestedSchema": form}}},
            {"text": "${saved.form.result.action} ${saved.form.result.content.name:-none}"},
        ]},
    });
    let mut deck = launch(&["call", "s.drop"], &asks).start();
    deck.bytes("y\rall of them\r");
    deck.wait("[y: answer, n: decline, Enter: cancel]");
    // What comes after the answer was typed before the field was asked for.
    deck.bytes("y\rall of them\r");
    deck.wait(", required)");
    deck.bytes("this one\r");
    deck.wait("accept this one");
    assert_eq!(deck.exit_code(), 0);
    // Nothing of a line that was begun before belongs to the answer.
    let mut deck = launch(&["call", "s.drop"], &asks).start();
    deck.bytes("y");
    deck.wait("[y: answer, n: decline, Enter: cancel]");
    deck.bytes("\r");
    deck.wait("cancel none");
}
