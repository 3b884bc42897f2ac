//! What is paid for: attempts that broke off, limits of accounts, and addresses with rules of their own.

use std::sync::Arc;
use std::time::Duration;

use mcpdeck::chat::event::word;
use mcpdeck::chat::{
    ChatEvent, ChatMessage, Conversation, DoneReason, LanguageModel, Provider as Format,
    ProviderModel, StatusKind,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{FORMATS, KEY, Scene, call, model, remote, text};
use crate::provider::{Answer, Piece, Provider};

fn error(scene: &Scene) -> (String, String) {
    let error = |event| match event {
        ChatEvent::Error { code, message, .. } => Some((code, message)),
        _ => None,
    };
    scene.events().into_iter().find_map(error).expect("an error")
}

fn refused(status: u16, error: Value) -> Answer {
    Answer::Status(status, "", json!({"error": error}))
}

#[tokio::test]
async fn attempts_that_broke_off_are_counted_too() {
    for format in FORMATS {
        let cut = || Answer::Cut(vec![Piece::Text("Half of an answer of some length")]);
        let provider = Provider::new(vec![cut(), cut(), text("Whole.")]);
        let scene = Scene::new().await;
        let reason = scene.turn(model(format, &provider), &mut Conversation::default(), "go").await;
        assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        let Some(ChatEvent::Done { usage, .. }) = scene.events().pop() else { panic!("no end") };
        assert!(usage.input > 22 && usage.output > 7 && usage.is_estimate, "{format:?}: {usage:?}");

        // And where none came through.
        let provider = Provider::new(vec![cut()]);
        let scene = Scene::new().await;
        let reason = scene.turn(model(format, &provider), &mut Conversation::default(), "go").await;
        assert_eq!(word(&reason), "failed");
        let Some(ChatEvent::Done { usage, .. }) = scene.events().pop() else { panic!("no end") };
        assert!(usage.input > 40 && usage.output > 4, "{format:?}: {usage:?}");
    }
    // What was refused at once is not.
    let provider = Provider::new(vec![refused(503, json!({"message": "busy"})), text("Whole.")]);
    let scene = Scene::new().await;
    scene.turn(model(Format::OpenAi, &provider), &mut Conversation::default(), "go").await;
    let Some(ChatEvent::Done { usage, .. }) = scene.events().pop() else { panic!("no end") };
    assert_eq!((usage.input, usage.output, usage.is_estimate), (11, 7, false));
}

#[tokio::test]
async fn an_attempt_that_broke_off_is_counted_when_the_next_one_is_stopped() {
    let provider = Provider::new(vec![
        Answer::Cut(vec![Piece::Text("one two three four five six seven eight nine ten eleven")]),
        Answer::Stalled(vec![Piece::Text("I begin")]),
    ]);
    let (scene, cancel) = (Scene::new().await, CancellationToken::new());
    let mut talk = Conversation::default();
    let turn = scene.turn_until(model(Format::OpenAi, &provider), &mut talk, "go", &cancel);
    let stopping = async {
        while !scene.text().ends_with("I begin") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    };
    let (reason, ()) = Box::pin(async { tokio::join!(turn, stopping) }).await;
    assert_eq!(reason, DoneReason::Aborted);
    let Some(ChatEvent::Done { usage, .. }) = scene.events().pop() else { panic!("no end") };
    assert!(usage.output > 14, "{usage:?}");
}

#[tokio::test]
async fn silence_is_waited_for_twice_at_most() {
    let provider = Provider::new(vec![Answer::Stalled(vec![Piece::Text("Half")])]);
    let mut config = remote(Format::OpenAi, &provider);
    config.idle = Duration::from_millis(100);
    let scene = Scene::new().await;
    let model = Arc::new(ProviderModel::new(config).unwrap());
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!((word(&reason).as_str(), error(&scene).0.as_str()), ("failed", "timeout"));
    assert_eq!(provider.requests().len(), 2);
}

#[tokio::test]
async fn an_empty_account_is_not_asked_again_and_one_that_pays_for_less_gets_less() {
    for (status, message) in [
        (402, "Insufficient Balance"),
        (429, "Your team has used all available credits or reached its monthly spending limit."),
        (400, "Your credit balance is too low to access the API."),
    ] {
        let provider = Provider::new(vec![refused(status, json!({"message": message}))]);
        let scene = Scene::new().await;
        let reason =
            scene.turn(model(Format::OpenAi, &provider), &mut Conversation::default(), "go").await;
        assert_eq!((word(&reason).as_str(), provider.requests().len()), ("failed", 1));
        let (code, told) = error(&scene);
        assert!(code == "rateLimited" && told.contains(message), "{code}: {told}");
    }
    let dear = "This request requires more credits, or fewer max_tokens. You requested up to 6553 \
                tokens, but can only afford 900.";
    let provider = Provider::new(vec![refused(402, json!({"message": dear})), text("Short.")]);
    let scene = Scene::new().await;
    let reason =
        scene.turn(model(Format::OpenAi, &provider), &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert_eq!(provider.requests()[1].body["max_completion_tokens"], 900);
}

#[tokio::test]
async fn a_prompt_above_what_a_minute_allows_is_made_shorter() {
    let scene = Scene::new().await;
    scene.world.server("a").answers(|_, _| async {
        Ok(json!({"content": [{"type": "text", "text": "word ".repeat(8_000)}]}))
    });
    let large = "Request too large for model `m` on tokens per minute (TPM): Limit 6000, Requested \
                 11042, please reduce your message size and try again.";
    let provider = Provider::new(vec![
        call("a__read", "{}"),
        refused(413, json!({"message": large, "type": "tokens", "code": "rate_limit_exceeded"})),
        text("Read."),
    ]);
    let reason =
        scene.turn(model(Format::OpenAi, &provider), &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert!(scene.has(StatusKind::Shortened));
    let last = provider.requests().pop().unwrap().body.to_string();
    assert!(last.len() < 6_000 * 4, "{}", last.len());
}

#[tokio::test]
async fn an_azure_address_keeps_its_query_and_a_copied_one_loses_its_end() {
    let provider = Provider::new(vec![text("Hi.")]);
    for (address, path) in [
        (
            "/openai/deployments/d?api-version=2024-10-21",
            "/v1/openai/deployments/d/chat/completions?api-version=2024-10-21",
        ),
        ("/chat/completions", "/v1/chat/completions"),
        ("/", "/v1/chat/completions"),
    ] {
        let mut config = remote(Format::OpenAi, &provider);
        config.base_url = format!("{}{address}", provider.url).parse().unwrap();
        let model = Arc::new(ProviderModel::new(config).unwrap());
        let scene = Scene::new().await;
        scene.turn(model, &mut Conversation::default(), "go").await;
        assert_eq!(provider.requests().pop().unwrap().path, path);
    }
}

#[test]
fn addresses_whose_requests_are_signed_are_refused_with_those_that_take_keys() {
    let provider = Provider::new(vec![]);
    let config = |url: &str| {
        let mut config = remote(Format::OpenAi, &provider);
        config.base_url = url.parse().unwrap();
        ProviderModel::new(config)
    };
    let why = config("https://bedrock-runtime.eu-west-1.amazonaws.com").unwrap_err();
    assert!(why.contains("https://bedrock-mantle.eu-west-1.api.aws/v1"), "{why}");
    assert!(!why.contains(KEY));
    let why = config(
        "https://us-east5-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/anthropic",
    )
    .unwrap_err();
    assert!(why.contains("compatible with OpenAI"), "{why}");
    for url in [
        "https://bedrock-mantle.eu-west-1.api.aws/v1",
        "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
        "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi",
    ] {
        assert!(config(url).is_ok(), "{url}");
    }
}

#[test]
fn a_provider_that_is_compatible_is_told_how_it_is_reached() {
    let bench = crate::support::Bench::new();
    for (name, address) in [
        ("groq", "https://api.groq.com/openai/v1"),
        ("LM-Studio", "http://127.0.0.1:1234/v1"),
        ("together.ai", "https://api.together.xyz/v1"),
        ("bedrock", "https://bedrock-mantle.REGION.api.aws/v1"),
    ] {
        let command = bench.command(&["chat", "-p", "hi", "--provider", name]);
        let done = crate::support::finish(command, Duration::from_secs(60));
        assert_eq!(done.code, Some(2), "{done:#?}");
        let how = format!("--provider openai --base-url {address} ");
        assert!(done.stderr.contains(&how), "{done:#?}");
    }
    let command = bench.command(&["chat", "-p", "hi", "--provider", "nobody"]);
    let done = crate::support::finish(command, Duration::from_secs(60));
    assert!(done.stderr.contains("gemini, anthropic, openai, ollama, embedded"), "{done:#?}");
}

#[tokio::test]
async fn a_model_that_is_not_there_is_answered_with_those_that_are_near() {
    let absent = json!({"message": "The model `gtp-5` does not exist", "code": "model_not_found"});
    let list = json!({"data": [{"id": "tts-1"}, {"id": "gpt-5"}, {"id": "gpt-5-mini"}]});
    let provider = Provider::new(vec![refused(404, absent)]).describes("/models", list);
    let mut config = remote(Format::OpenAi, &provider);
    config.model = "gtp-5".to_owned();
    let model = Arc::new(ProviderModel::new(config).unwrap());
    let scene = Scene::new().await;
    scene.turn(model, &mut Conversation::default(), "go").await;
    let (_, told) = error(&scene);
    assert!(told.contains("near are gpt-5, gpt-5-mini"), "{told}");
    assert_eq!(provider.requests().len(), 1);
}

#[tokio::test]
async fn nobody_on_this_machine_is_not_waited_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let provider = Provider::new(vec![]);
    let mut config = remote(Format::OpenAi, &provider);
    config.base_url = url.parse().unwrap();
    let scene = Scene::new().await;
    let model = Arc::new(ProviderModel::new(config).unwrap());
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!((word(&reason).as_str(), error(&scene).0.as_str()), ("failed", "unreachable"));
    assert!(!scene.has(StatusKind::Retrying), "{:?}", scene.events());
}

#[tokio::test]
async fn what_a_provider_signed_and_refuses_is_left_out_and_the_turn_goes_on() {
    for (format, path, message) in [
        (
            Format::OpenAi,
            "/responses",
            "The encrypted content for item rs_1 could not be verified.",
        ),
        (Format::Anthropic, "", "messages.1.content.0: Invalid `signature` in `thinking` block"),
        (Format::Gemini, "", "Function call is missing a thought_signature in functionCall parts."),
    ] {
        let provider = Provider::new(vec![
            Answer::Stream(vec![Piece::Reason("think"), Piece::Call("a__read", "{}")]),
            refused(400, json!({"message": message})),
            text("Read."),
        ]);
        let mut config = remote(format, &provider);
        config.base_url = format!("{}{path}", provider.url).parse().unwrap();
        let model = Arc::new(ProviderModel::new(config).unwrap());
        let scene = Scene::new().await;
        let reason = scene.turn(model, &mut Conversation::default(), "go").await;
        assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        let sent: Vec<String> = provider.requests().iter().map(|it| it.body.to_string()).collect();
        assert!(sent[1].contains("c2lnbmVk") && !sent[2].contains("c2lnbmVk"), "{format:?}");
        assert!(sent[2].contains("a__read"), "{format:?}: {}", sent[2]);
        // Twice in one request is the end of it.
        let provider = Provider::new(vec![
            Answer::Stream(vec![Piece::Reason("think"), Piece::Call("a__read", "{}")]),
            refused(400, json!({"message": message})),
        ]);
        let scene = Scene::new().await;
        let mut config = remote(format, &provider);
        config.base_url = format!("{}{path}", provider.url).parse().unwrap();
        let model = Arc::new(ProviderModel::new(config).unwrap());
        let reason = scene.turn(model, &mut Conversation::default(), "go").await;
        assert_eq!((word(&reason).as_str(), provider.requests().len()), ("failed", 3));
    }
}

#[tokio::test]
async fn a_call_that_the_provider_could_not_read_is_tried_again_with_all_tools() {
    let failed = json!({"type": "invalid_request_error", "code": "tool_use_failed",
        "message": "tool call validation failed: parameters for tool a__read did not match schema"});
    let provider = Provider::new(vec![refused(400, failed), text("Hello.")]);
    let scene = Scene::new().await;
    let reason =
        scene.turn(model(Format::OpenAi, &provider), &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert!(!scene.has(StatusKind::LeftOut) && scene.has(StatusKind::Retrying));
    assert!(provider.requests()[1].body["tools"].to_string().contains("a__read"));
}

#[tokio::test]
async fn what_one_address_signed_goes_to_no_other_with_a_model_of_the_same_name() {
    for other in [Format::OpenAi, Format::Anthropic] {
        let signs = Provider::new(vec![
            Answer::Stream(vec![Piece::Reason("think"), Piece::Call("a__read", "{}")]),
            text("Read."),
        ]);
        let (scene, mut talk) = (Scene::new().await, Conversation::default());
        scene.turn(model(Format::Anthropic, &signs), &mut talk, "go").await;
        // As the folder of sessions keeps it.
        let stored = serde_json::to_string(&talk).unwrap();
        let mut talk: Conversation = serde_json::from_str(&stored).unwrap();
        let provider = Provider::new(vec![text("Hello.")]);
        scene.turn(model(other, &provider), &mut talk, "and you?").await;
        let sent = provider.requests().pop().unwrap().body.to_string();
        assert!(sent.contains("a__read") && !sent.contains("c2lnbmVk"), "{other:?}: {sent}");
    }
}

#[tokio::test]
async fn a_provider_that_counts_reasoning_beside_the_answer_is_counted_whole() {
    let usage = |usage: Value| {
        let choice = json!({"index": 0, "delta": {"content": "Hi."}, "finish_reason": "stop"});
        let one = json!({"choices": [choice], "usage": usage});
        Answer::Recorded(format!("data: {one}\n\ndata: [DONE]\n\n"))
    };
    for (told, input, cached, output) in [
        (
            json!({"prompt_tokens": 32, "completion_tokens": 9, "total_tokens": 135,
                "completion_tokens_details": {"reasoning_tokens": 94}}),
            32,
            0,
            103,
        ),
        (
            json!({"prompt_tokens": 32, "completion_tokens": 103, "total_tokens": 135,
                "completion_tokens_details": {"reasoning_tokens": 94},
                "prompt_tokens_details": {"cached_tokens": 12}}),
            32,
            12,
            103,
        ),
        (json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 40}), 10, 0, 30),
        (
            json!({"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12,
                "prompt_cache_hit_tokens": 8}),
            10,
            8,
            2,
        ),
        (json!({"prompt_tokens": 10, "completion_tokens": 2}), 10, 0, 2),
    ] {
        let provider = Provider::new(vec![usage(told.clone())]);
        let scene = Scene::new().await;
        scene.turn(model(Format::OpenAi, &provider), &mut Conversation::default(), "go").await;
        let Some(ChatEvent::Done { usage, .. }) = scene.events().pop() else { panic!("no end") };
        assert_eq!((usage.input, usage.cached, usage.output), (input, cached, output), "{told}");
    }
}

#[tokio::test]
async fn an_announced_call_that_does_not_come_is_no_whole_answer() {
    let choice = |delta: Value, reason: Value| {
        format!("data: {}\n\n", json!({"choices": [{"delta": delta, "finish_reason": reason}]}))
    };
    let said = choice(json!({"content": "I will look."}), Value::Null);
    let stream = said + &choice(json!({}), json!("tool_calls")) + "data: [DONE]\n\n";
    let provider = Provider::new(vec![Answer::Recorded(stream), text("Now then.")]);
    let (scene, mut talk) = (Scene::new().await, Conversation::default());
    let model: Arc<dyn LanguageModel> = model(Format::OpenAi, &provider);
    let reason = scene.turn(Arc::clone(&model), &mut talk, "go").await;
    assert_eq!(reason, DoneReason::NoCall);
    assert!(!scene.has(StatusKind::Complete) && scene.has(StatusKind::Stopped));
    assert!(matches!(talk.messages.last(), Some(ChatMessage::Assistant(_))), "the text stays");
    assert_eq!(scene.turn(model, &mut talk, "go on").await, DoneReason::End);
}
