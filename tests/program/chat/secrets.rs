//! Secrets of the configuration in a chat: the model gets what tools return, and nobody else.

use std::time::Duration;

use mcpdeck::chat::session::{ChatSessions, SessionLimits};
use mcpdeck::chat::store::SessionFolder;
use mcpdeck::chat::{Provider as Format, ProviderModel};
use mcpdeck::deck::Clients;
use mcpdeck::host::{Host, Origin, Principal};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{KEY, remote, text};
use crate::provider::{Answer, Piece, Provider};
use crate::support::{Bench, Finished, finish};

/// Comes in three pieces in the text of a model.
const SECRET: &str = "hunter2 größe 4711";

/// A chat with a server that is given a secret and tells it.
fn talk(bench: &Bench, provider: &Provider, more: &[&str]) -> Finished {
    let script = json!({
        "tools": [{"name": "tell", "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}}],
        "calls": {"tell": {"text": "the key is hunter2 größe 4711"}},
    });
    let entry = bench.mock("s", &script, &json!({"env": {"API_KEY": SECRET}}));
    bench.servers(&json!({"s": entry}));
    let asks = ["chat", "--provider", "openai", "--model", "m", "--base-url", &provider.url];
    let mut command = bench.command(&[&asks[..], more].concat());
    command.env("OPENAI_API_KEY", KEY);
    finish(command, Duration::from_secs(60))
}

/// The text of an answer that was printed, or came as events.
fn answer(printed: &str) -> String {
    let text = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(event) if event["type"] == "text" => event["text"].as_str().unwrap().to_owned(),
        Ok(_) => String::new(),
        Err(_) => line.to_owned(),
    };
    printed.lines().map(text).collect()
}

/// A model that thinks of the secret, sends it to a tool and says it.
fn telling() -> Provider {
    Provider::new(vec![
        Answer::Stream(vec![
            Piece::Reason("so it is hunter2 größe 4711"),
            Piece::Text("With hunter2 größe 4711: "),
            Piece::Call("s__tell", r#"{"with": "hunter2 größe 4711"}"#),
        ]),
        text("It is hunter2 größe 4711 and not hunter2 größe 47"),
    ])
}

#[test]
fn a_chat_shows_and_records_no_secret_of_the_configuration_and_the_model_gets_it() {
    let said = format!("is it {SECRET}?");
    for form in [&["-p", &said][..], &["-p", &said, "--json"]] {
        let (bench, provider) = (Bench::new(), telling());
        let done = talk(&bench, &provider, &[form, &["--record", "chat.jsonl"]].concat());
        assert_eq!(done.code, Some(0), "{done:#?}");
        let recorded = std::fs::read_to_string(bench.path().join("chat.jsonl")).unwrap();
        for shown in [&done.stdout, &done.stderr, &recorded] {
            assert!(!shown.contains("größe 4711"), "{shown}");
        }
        assert!(done.stdout.contains("***") && recorded.contains("***"), "{done:#?}");
        // An answer that ends within one shows no part of it, in however many pieces it comes.
        assert!(answer(&done.stdout).contains("and not ***"), "{done:#?}");
        let last = provider.requests().pop().unwrap().body["messages"].clone();
        let last: Vec<String> = last.as_array().unwrap().iter().map(Value::to_string).collect();
        assert_eq!(last.iter().filter(|sent| sent.contains(SECRET)).count(), 3, "{last:#?}");

        let (bench, provider) = (Bench::new(), telling());
        let done = talk(&bench, &provider, &[form, &["--reveal"]].concat());
        assert!(done.stdout.contains(SECRET) && !done.stdout.contains("***"), "{done:#?}");
    }
}

#[tokio::test]
async fn a_session_shows_stores_and_lists_no_secret_of_the_configuration() {
    let entry = json!({"command": "nothing", "disabled": true, "env": {"API_KEY": SECRET}});
    let config = json!({"servers": {"s": entry}}).to_string();
    let host = Host::builder().config_text(&config).initialize().await.unwrap();
    let provider = Provider::new(vec![text("It is hunter2 größe 4711, is it not?")]);
    let model = std::sync::Arc::new(ProviderModel::new(remote(Format::OpenAi, &provider)).unwrap());
    let folder = tempfile::tempdir().unwrap();
    let store = SessionFolder::open(&folder.path().join("chats")).unwrap();
    let (limits, clients) = (SessionLimits::default(), Clients::default());
    let sessions = ChatSessions::new(host.clone(), model, limits, Some(store), clients);
    let me = Principal::new(Origin::Cli);
    let session = sessions.open(me.clone()).unwrap();
    let mut newest = session.newest();
    for said in [SECRET, "again"] {
        session.begin(said, said.to_owned(), None, CancellationToken::new()).unwrap();
        while session.is_busy() {
            newest.changed().await.unwrap();
        }
    }
    let sent = provider.requests().pop().unwrap().body["messages"].to_string();
    assert_eq!(sent.matches(SECRET).count(), 2, "{sent}");
    let stored = std::fs::read_dir(folder.path().join("chats")).unwrap();
    let stored: Vec<String> =
        stored.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap()).collect();
    let events = session.since(0).1.iter().map(|(_, event)| event.to_string()).collect::<String>();
    let (snapshot, _) = session.since(u64::MAX - 1);
    for shown in [
        stored.concat(),
        events,
        snapshot.unwrap().to_string(),
        json!(session.so_far().0).to_string(),
        json!(sessions.list(&me, "").await).to_string(),
    ] {
        assert!(shown.contains("***") && !shown.contains("größe"), "{shown}");
    }
    host.shutdown().await;
}
