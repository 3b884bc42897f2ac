//! Results that were shortened are read on by a tool of the chat's own.

use std::sync::Arc;

use mcpdeck::chat::{
    Conversation, DoneReason, LanguageModel, Provider as Format, ProviderModel, StatusKind,
};
use serde_json::{Value, json};

use super::{Scene, call, remote, text};
use crate::provider::Provider;

const OWN: &str = "mcpdeck__read_result";

/// Text whose lines tell where they are.
fn numbered() -> String {
    (0..4_000).fold(String::new(), |text, n| text + &format!("line {n:06}\n"))
}

async fn scene() -> Scene {
    let scene = Scene::new().await;
    scene
        .world
        .server("a")
        .answers(|_, _| async { Ok(json!({"content": [{"type": "text", "text": numbered()}]})) });
    scene
}

fn model(provider: &Provider, format: Format) -> Arc<dyn LanguageModel> {
    let mut config = remote(format, provider);
    config.context = Some(20_000);
    Arc::new(ProviderModel::new(config).unwrap())
}

fn names(tools: &Value) -> Vec<String> {
    let tools = tools.as_array().cloned().unwrap_or_default().into_iter();
    let name = |tool: Value| tool["function"]["name"].as_str().map(str::to_owned);
    tools.filter_map(name).collect()
}

#[tokio::test]
async fn what_was_left_out_of_a_result_is_read_without_calling_its_tool_again() {
    let provider = Provider::new(vec![
        call("a__read", "{}"),
        call("a__fetch", "{}"),
        call(OWN, r#"{"id": "call_0", "from": 24000, "bytes": 240}"#),
        call(OWN, r#"{"id": "gone", "from": 0}"#),
        text("Read."),
        text("Again."),
    ]);
    let (scene, mut talk) = (scene().await, Conversation::default());
    let model = model(&provider, Format::OpenAi);
    let reason = scene.turn(Arc::clone(&model), &mut talk, "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert!(scene.has(StatusKind::Shortened) && !scene.has(StatusKind::UnknownTool));
    let requests = provider.requests();
    let offered = requests.iter().map(|it| names(&it.body["tools"]).contains(&OWN.to_owned()));
    assert_eq!(offered.collect::<Vec<_>>(), [false, false, true, true, true]);
    // The note says how, and from where on.
    let sent = requests[2].body["messages"].to_string();
    let (_, note) = sent.split_once(&format!("or call {OWN} ")).expect("a note");
    let note =
        note.split_once(']').expect("its end").0.replace("\\\\\\\"", "\"").replace("\\\"", "\"");
    let note: Value = serde_json::from_str(&note).expect("arguments as JSON");
    assert_eq!(note["id"], "call_0");
    let from = usize::try_from(note["from"].as_u64().expect("a place")).expect("small");
    let before = numbered()[..from].lines().last().expect("a line").to_owned();
    assert!(sent.contains(&before), "what stands before {from} was sent: {before}");
    let results = scene.results();
    assert_eq!(results.len(), 4);
    let (name, is_error, part) = &results[2];
    assert_eq!((name.as_str(), *is_error), (OWN, false), "{part}");
    assert!(part.starts_with("[bytes 24000 to 24240 of 48000; 23760 bytes follow, from 24240]\n"));
    assert!(part.ends_with(&numbered()[24_000..24_240]), "{part}");
    assert!(results[3].1 && results[3].2.contains("not there any more"), "{:?}", results[3]);
    // In the next turn, too.
    scene.turn(model, &mut talk, "and?").await;
    let last = provider.requests().pop().expect("a request").body;
    assert!(names(&last["tools"]).contains(&OWN.to_owned()));
}

#[tokio::test]
async fn results_that_fit_need_no_tool_of_the_chat() {
    let provider = Provider::new(vec![call("b__read", "{}"), text("Read.")]);
    let scene = scene().await;
    let model = model(&provider, Format::OpenAi);
    scene.turn(model, &mut Conversation::default(), "go").await;
    for request in provider.requests() {
        assert!(!request.body.to_string().contains(OWN));
    }
}
