//! `OpenAI`'s Responses API: the same conversation as over every other wire format, and how it is found.

use std::sync::Arc;

use mcpdeck::chat::event::word;
use mcpdeck::chat::llm::Stop;
use mcpdeck::chat::{
    ChatEvent, ChatMessage, Conversation, DoneReason, LanguageModel, Provider as Format,
    ProviderModel, StatusKind,
};
use serde_json::json;

use super::{KEY, Scene, call, remote, text};
use crate::provider::{Answer, Piece, Provider};

/// A model at the address of the API.
fn model(provider: &Provider) -> Arc<dyn LanguageModel> {
    let mut config = remote(Format::OpenAi, provider);
    config.base_url = format!("{}/responses", provider.url).parse().unwrap();
    Arc::new(ProviderModel::new(config).unwrap())
}

#[tokio::test]
async fn a_conversation_with_three_calls_goes_over_it_and_nothing_is_stored() {
    let provider = Provider::new(vec![
        Answer::Stream(vec![
            Piece::Reason("the person wants two"),
            Piece::Text("Let me look: größer. "),
            Piece::Call("a__read", r#"{"path": "ä"}"#),
            Piece::Call("b__read", r#"{"path": "2"}"#),
        ]),
        call("a__write", "{}"),
        text("All three are done."),
        text("Again."),
    ])
    .strict();
    let scene = Scene::new().await;
    let (model, mut talk) = (model(&provider), Conversation::default());
    let reason = scene.turn(Arc::clone(&model), &mut talk, "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert_eq!(scene.text(), "Let me look: größer. All three are done.");
    assert!(scene.has(StatusKind::Reasoning));
    let Some(ChatEvent::Done { rounds: 3, tool_calls: 3, usage, .. }) = scene.events().pop() else {
        panic!("{:?}", scene.events())
    };
    assert_eq!((usage.input, usage.cached, usage.output), (33, 12, 21));
    scene.turn(model, &mut talk, "and again").await;
    let requests = provider.requests();
    assert_eq!(requests.len(), 4);
    for request in &requests {
        assert!(request.path.ends_with("/v1/responses"), "{}", request.path);
        assert!(request.headers.contains(&format!("authorization: bearer {KEY}")));
        assert_eq!(request.body["store"], false);
        assert_eq!(request.body["include"], json!(["reasoning.encrypted_content"]));
        assert!(request.body["instructions"].is_string() && request.body["tools"].is_array());
    }
    // What is encrypted goes back in every later request, at its place.
    for request in &requests[1..] {
        let input = request.body["input"].as_array().unwrap();
        let kinds: Vec<&str> = input.iter().filter_map(|item| item["type"].as_str()).collect();
        let begins = ["reasoning", "message", "function_call", "function_call"];
        assert_eq!(kinds[..4], begins, "{input:?}");
        assert_eq!(input[1]["encrypted_content"], "c2lnbmVk");
    }
}

#[tokio::test]
async fn an_answer_that_is_cut_off_filtered_or_refused_is_told() {
    for (answer, reason) in [
        (Answer::Longest(vec![Piece::Text("It begins")]), DoneReason::Length),
        (Answer::Stream(vec![Piece::Refuse("I cannot.")]), DoneReason::Refused),
        (Answer::Stream(vec![]), DoneReason::Empty),
        (Answer::Filtered, DoneReason::Failed),
    ] {
        let provider = Provider::new(vec![answer]);
        let scene = Scene::new().await;
        let ended = scene.turn(model(&provider), &mut Conversation::default(), "go").await;
        assert_eq!(ended, reason, "{:?}", scene.events());
    }
    // A call that was cut off is not made.
    let open = Answer::Longest(vec![Piece::OpenCall("a__write", r#"{"path": "1"#)]);
    let provider = Provider::new(vec![open, text("Then not.")]);
    let scene = Scene::new().await;
    let ended = scene.turn(model(&provider), &mut Conversation::default(), "go").await;
    assert_eq!(ended, DoneReason::End, "{:?}", scene.events());
    assert!(scene.has(StatusKind::MalformedCall));
    assert!(scene.results()[0].2.contains("cut off"), "{:?}", scene.results());
}

#[tokio::test]
async fn a_model_that_is_only_served_by_the_other_api_is_asked_there() {
    let both = "Function tools with reasoning_effort are not supported for m in \
                /v1/chat/completions. To use function tools, use /v1/responses or set \
                reasoning_effort to 'none'.";
    let only = "This model is only supported in v1/responses and not in v1/chat/completions.";
    for (status, message) in [(400, both), (404, only)] {
        let refused = Answer::Status(status, "", json!({"error": {"message": message}}));
        let provider = Provider::new(vec![refused, text("Hello."), text("Again.")]);
        let model = super::model(Format::OpenAi, &provider);
        let (scene, mut talk) = (Scene::new().await, Conversation::default());
        let reason = scene.turn(Arc::clone(&model), &mut talk, "hello").await;
        assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
        scene.turn(model, &mut talk, "again").await;
        let paths = provider.requests().into_iter().map(|request| request.path);
        let paths: Vec<String> = paths.collect();
        assert_eq!(paths, ["/v1/chat/completions", "/v1/responses", "/v1/responses"]);
    }
    // And back, once: a provider that refuses both is not asked for ever.
    let back = "This model is only supported in v1/chat/completions and not in v1/responses.";
    let refused = |message: &str| Answer::Status(404, "", json!({"error": {"message": message}}));
    let provider = Provider::new(vec![refused(back), text("Hello.")]);
    let scene = Scene::new().await;
    let reason = scene.turn(model(&provider), &mut Conversation::default(), "hello").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    let provider = Provider::new(vec![refused(both)]);
    let scene = Scene::new().await;
    let reason = scene.turn(model(&provider), &mut Conversation::default(), "hello").await;
    assert_eq!(word(&reason), "failed");
    assert!(provider.requests().len() <= 3, "{}", provider.requests().len());
}

#[tokio::test]
async fn a_model_that_does_not_reason_is_not_asked_for_reasoning_again() {
    let message = "Encrypted content is not supported with this model.";
    let refused =
        Answer::Status(400, "", json!({"error": {"message": message, "param": "include"}}));
    let provider = Provider::new(vec![refused, text("Hello."), text("Again.")]);
    let (scene, mut talk) = (Scene::new().await, Conversation::default());
    let model = model(&provider);
    assert_eq!(scene.turn(Arc::clone(&model), &mut talk, "hello").await, DoneReason::End);
    scene.turn(model, &mut talk, "again").await;
    let asked = provider.requests().into_iter().map(|it| it.body.get("include").is_some());
    assert_eq!(asked.collect::<Vec<_>>(), [true, false, false]);
}

#[tokio::test]
async fn a_body_that_is_no_stream_is_read_whole() {
    const JSON: &str = "Content-Type: application/json\r\n";
    let message = json!({"type": "message", "role": "assistant",
        "content": [{"type": "output_text", "text": "I read."}]});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "a__read",
        "arguments": "{}"});
    let body = json!({"object": "response", "status": "completed", "error": null,
        "output": [message, call], "usage": {"input_tokens": 3, "output_tokens": 2}});
    let provider = Provider::new(vec![Answer::Status(200, JSON, body), text("Done.")]);
    let (scene, mut talk) = (Scene::new().await, Conversation::default());
    let reason = scene.turn(model(&provider), &mut talk, "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert_eq!((scene.text().as_str(), scene.results().len()), ("I read.Done.", 1));
    let first = talk.messages.iter().find_map(|message| match message {
        ChatMessage::Assistant(reply) => Some(reply),
        ChatMessage::User { .. } | ChatMessage::Tool { .. } => None,
    });
    assert_eq!(first.map(|reply| reply.stop), Some(Stop::End));
}
