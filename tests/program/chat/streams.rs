//! The streams of `fixtures/streams`, one for each quirk of a provider, over HTTP as they stand: what
//! is read from them, and what goes back with the next requests.

use std::path::Path;

use mcpdeck::chat::event::word;
use mcpdeck::chat::{ChatEvent, ChatMessage, Conversation, Provider as Format, StatusKind};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Scene, model, text};
use crate::provider::{Answer, Provider};

/// A stream and what is expected of it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Stream {
    #[serde(rename = "stream")]
    file: String,
    provider: Format,
    /// What stands behind the address of the provider.
    #[serde(default)]
    path: String,
    quirk: String,
    source: String,
    /// The text of the answer.
    text: Option<String>,
    #[serde(default)]
    calls: Vec<ExpectedCall>,
    /// Why the turn ends.
    #[serde(default = "end")]
    reason: String,
    /// How often the model is asked, where it is not once and again after calls.
    rounds: Option<u32>,
    /// Whether the model is asked again as if the stream had not been.
    #[serde(default)]
    retried: bool,
    /// What stands somewhere in the next request.
    #[serde(default)]
    sent_back: Vec<Value>,
    /// What stands somewhere in a request of the next turn.
    #[serde(default)]
    later: Vec<Value>,
    /// Text that stands in no request.
    #[serde(default)]
    not_sent: Vec<String>,
    /// Words that the user is told.
    told: Option<String>,
    /// The whole reasoning, as it is told.
    reasoning: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectedCall {
    name: String,
    arguments: Option<Value>,
    /// Words of why it cannot be made.
    problem: Option<String>,
}

fn end() -> String {
    "end".to_owned()
}

/// Whether a value has at least what the other one has: lists element by element, from the start.
fn covers(value: &Value, part: &Value) -> bool {
    match (value, part) {
        (Value::Object(value), Value::Object(part)) => {
            part.iter().all(|(key, part)| value.get(key).is_some_and(|value| covers(value, part)))
        }
        (Value::Array(value), Value::Array(part)) => {
            value.len() >= part.len()
                && value.iter().zip(part).all(|(value, part)| covers(value, part))
        }
        (value, part) => value == part,
    }
}

/// Whether the part stands anywhere within.
fn holds(value: &Value, part: &Value) -> bool {
    covers(value, part)
        || match value {
            Value::Object(map) => map.values().any(|value| holds(value, part)),
            Value::Array(list) => list.iter().any(|value| holds(value, part)),
            _ => false,
        }
}

#[tokio::test]
async fn every_recorded_stream_is_read_and_its_state_goes_back() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/streams");
    let index = std::fs::read_to_string(folder.join("index.json")).unwrap();
    let streams: Vec<Stream> = serde_json::from_str(&index).unwrap();
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
    let mut files: Vec<String> = files.map(|name| name.into_string().unwrap()).collect();
    files.retain(|name| name != "index.json" && name != "README.md");
    files.sort();
    let mut listed: Vec<&str> = streams.iter().map(|it| it.file.as_str()).collect();
    listed.sort_unstable();
    assert_eq!(files, listed, "each stream stands in the index");
    let table = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let rows: Vec<&str> =
        table.lines().filter(|line| line.contains(".sse") || line.contains(".ndjson")).collect();
    let expected = streams.iter().map(|it| {
        let provider = it.provider.as_str();
        format!("| {provider} | {} | `{}` | {} |", it.quirk, it.file, it.source)
    });
    assert_eq!(rows, expected.collect::<Vec<_>>(), "the table is the index");
    for it in streams {
        let about = format!("{} ({}; {})", it.file, it.quirk, it.source);
        let recorded = std::fs::read_to_string(folder.join(&it.file)).unwrap();
        let mut provider = Provider::new(vec![Answer::Recorded(recorded), text("Done.")]);
        provider.url += &it.path;
        let scene = Scene::new().await;
        let mut talk = Conversation::default();
        let model = model(it.provider, &provider);
        let reason = scene.turn(std::sync::Arc::clone(&model), &mut talk, "go").await;
        assert_eq!(word(&reason), it.reason, "{about}: {:?}", scene.events());
        assert_eq!(scene.has(StatusKind::Retrying), it.retried, "{about}: {:?}", scene.events());
        let Some(ChatEvent::Done { rounds, .. }) = scene.events().pop() else { panic!("no end") };
        // What is not to be made, no server sees.
        if rounds == 1 {
            assert!(scene.results().is_empty(), "{about}: {:?}", scene.results());
        }
        let statuses = || {
            scene.events().into_iter().filter_map(|event| match event {
                ChatEvent::Status { status, message, .. } => Some((status, message?)),
                _ => None,
            })
        };
        if let Some(words) = &it.told {
            assert!(statuses().any(|(_, told)| told.contains(words)), "{about}: {words}");
        }
        if let Some(reasoning) = &it.reasoning {
            let told = statuses().filter(|(status, _)| *status == StatusKind::Reasoning);
            let told: String = told.map(|(_, told)| told).collect();
            assert_eq!(told, *reasoning, "{about}");
        }
        let usual = if it.calls.is_empty() { 1 } else { 2 };
        assert_eq!(rounds, it.rounds.unwrap_or(usual), "{about}");
        let first = talk.messages.iter().find_map(|message| match message {
            ChatMessage::Assistant(reply) => Some(reply.clone()),
            ChatMessage::User { .. } | ChatMessage::Tool { .. } => None,
        });
        let first = first.unwrap_or_default();
        if it.retried {
            assert_eq!(first.text, "Done.", "{about}");
        } else {
            assert_eq!(first.text, it.text.unwrap_or_default(), "{about}");
        }
        assert_eq!(first.calls.len(), it.calls.len(), "{about}: {:?}", first.calls);
        for (call, expected) in first.calls.iter().zip(&it.calls) {
            assert_eq!(call.name, expected.name, "{about}");
            match &expected.problem {
                None => assert_eq!(Some(&call.arguments), expected.arguments.as_ref(), "{about}"),
                Some(words) => {
                    let problem = call.problem.as_deref().unwrap_or_default();
                    assert!(problem.contains(words), "{about}: {problem}");
                }
            }
        }
        scene.turn(model, &mut talk, "And now?").await;
        let requests = provider.requests();
        for part in &it.sent_back {
            assert!(holds(&requests[1].body, part), "{about}: {part} in {}", requests[1].body);
        }
        let last = &requests.last().unwrap().body;
        for part in &it.later {
            assert!(holds(last, part), "{about}: {part} in {last}");
        }
        for part in &it.not_sent {
            let sent = json!(requests.iter().map(|it| &it.body).collect::<Vec<_>>()).to_string();
            assert!(!sent.contains(part), "{about}: {part} in {sent}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_read_whole() {
    const JSON: &str = "Content-Type: application/json; charset=utf-8\r\n";
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "a__read", "arguments": "{}"}});
    let message = json!({"role": "assistant", "content": "I read.", "tool_calls": [call]});
    let whole =
        json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    let parts = json!([
        {"candidates": [{"content": {"parts": [{"text": "I "}]}}]},
        {"candidates": [{"content": {"parts": [{"text": "read."}]}, "finishReason": "STOP"}]},
    ]);
    for (format, body, calls) in [(Format::OpenAi, whole, 1), (Format::Gemini, parts, 0)] {
        let provider = Provider::new(vec![Answer::Status(200, JSON, body), text("Done.")]);
        let scene = Scene::new().await;
        let mut talk = Conversation::default();
        let reason = scene.turn(model(format, &provider), &mut talk, "go").await;
        assert_eq!(word(&reason), "end", "{format:?}: {:?}", scene.events());
        assert!(scene.text().starts_with("I read."), "{format:?}: {}", scene.text());
        assert_eq!(scene.results().len(), calls, "{format:?}");
    }
    // An error with status 200 is told as the provider words it, and once where it does not pass.
    let error = json!({"error": {"type": "invalid_request_error", "message": "no such model"}});
    let provider = Provider::new(vec![Answer::Status(200, JSON, error)]);
    let scene = Scene::new().await;
    let mut talk = Conversation::default();
    let reason = scene.turn(model(Format::OpenAi, &provider), &mut talk, "go").await;
    assert_eq!((word(&reason).as_str(), provider.requests().len()), ("failed", 1));
    let told = format!("{:?}", scene.events());
    assert!(told.contains("no such model"), "{told}");
}
