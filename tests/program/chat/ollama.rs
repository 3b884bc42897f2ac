//! Ollama over its own API, and what providers tell of their models.

use std::sync::Arc;

use mcpdeck::chat::event::word;
use mcpdeck::chat::{
    ChatEvent, Conversation, DoneReason, LanguageModel, LlmErrorKind, Provider as Format,
    ProviderModel, RemoteConfig, StatusKind,
};
use serde_json::{Value, json};

use super::{Scene, call, remote, text};
use crate::provider::{Answer, Piece, Provider};

/// What Ollama shows of a model with this context that can do these things.
fn shown(context: u64, abilities: &[&str]) -> Value {
    json!({
        "details": {"family": "llama"},
        "model_info": {"general.architecture": "llama", "llama.context_length": context},
        "capabilities": abilities,
    })
}

const ALL: [&str; 3] = ["completion", "tools", "thinking"];

fn model(config: RemoteConfig) -> Arc<ProviderModel> {
    Arc::new(ProviderModel::new(config).unwrap())
}

fn error(scene: &Scene) -> (String, String) {
    let error = |event| match event {
        ChatEvent::Error { code, message, .. } => Some((code, message)),
        _ => None,
    };
    scene.events().into_iter().find_map(error).expect("an error")
}

#[tokio::test]
async fn a_conversation_asks_for_the_context_it_needs_and_sends_reasoning_back() {
    let provider = Provider::new(vec![
        Answer::Stream(vec![
            Piece::Reason("the person wants it"),
            Piece::Call("a__read", r#"{"path": "ä"}"#),
        ]),
        text("Done."),
        text("Again."),
    ])
    .describes("/api/show", shown(131_072, &ALL));
    let mut config = remote(Format::Ollama, &provider);
    config.keep_alive = Some("30m".to_owned());
    let model = model(config);
    let (scene, mut talk) = (Scene::new().await, Conversation::default());
    let as_model: Arc<dyn LanguageModel> = model.clone();
    let reason = scene.turn(Arc::clone(&as_model), &mut talk, "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert!(scene.has(StatusKind::Reasoning));
    assert_eq!(model.context(), 131_072);
    let Some(ChatEvent::Done { usage, .. }) = scene.events().pop() else { panic!("no end") };
    assert_eq!((usage.input, usage.output, usage.is_estimate), (22, 14, false));

    let requests = provider.requests();
    for request in &requests {
        assert!(request.path.ends_with("/api/chat") && !request.path.contains("/v1"));
        let body = &request.body;
        // A short prompt needs no more than the first step.
        assert_eq!(body["options"]["num_ctx"], 8_192, "{}", body["options"]);
        assert_eq!((&body["think"], &body["keep_alive"]), (&json!(true), &json!("30m")));
        assert_eq!((&body["truncate"], &body["shift"]), (&json!(false), &json!(false)));
    }
    let messages = requests[1].body["messages"].as_array().unwrap();
    let [said, result] = &messages[messages.len() - 2..] else { panic!("{messages:?}") };
    assert_eq!(said["thinking"], "the person wants it");
    let function = json!({"name": "a__read", "arguments": {"path": "ä"}});
    assert_eq!(said["tool_calls"][0]["function"], function);
    assert_eq!((&result["role"], &result["tool_name"]), (&json!("tool"), &json!("a__read")));
    assert_eq!(result["tool_call_id"], said["tool_calls"][0]["id"]);

    // A long one gets more, and what is loaded is not loaded again with less.
    scene.turn(Arc::clone(&as_model), &mut talk, &"Read this. ".repeat(3_000)).await;
    scene.turn(as_model, &mut Conversation::default(), "And now?").await;
    let windows = provider.requests().into_iter().map(|r| r.body["options"]["num_ctx"].clone());
    let windows: Vec<Value> = windows.collect();
    assert_eq!(windows[2..], [json!(16_384), json!(16_384)], "{windows:?}");
    assert!(provider.requests()[2].body["messages"].to_string().find("thinking").is_none());
}

#[tokio::test]
async fn a_small_model_gets_no_more_than_it_takes() {
    let provider = Provider::new(vec![call("a__read", "{}"), text("Read.")])
        .describes("/api/show", shown(8_192, &["completion", "tools"]));
    let scene = Scene::new().await;
    scene.world.server("a").answers(|_, _| async {
        Ok(json!({"content": [{"type": "text", "text": "word ".repeat(20_000)}]}))
    });
    let mut config = remote(Format::Ollama, &provider);
    // More than the model takes.
    config.context = Some(100_000);
    let reason = scene.turn(model(config), &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert!(scene.has(StatusKind::Shortened));
    for request in provider.requests() {
        let body = request.body;
        assert!(body["options"]["num_ctx"].as_u64() <= Some(8_192), "{}", body["options"]);
        assert!(body["options"]["num_predict"].as_u64() <= Some(8_192 / 5));
        assert!(body.get("think").is_none(), "it cannot think");
    }
}

#[tokio::test]
async fn a_model_that_somebody_loaded_with_more_is_not_loaded_again_with_less() {
    let running = json!({"models": [{"name": "test-model:latest", "context_length": 65_536}]});
    let provider = Provider::new(vec![text("Hi.")])
        .describes("/api/show", shown(131_072, &ALL))
        .describes("/api/ps", running);
    let scene = Scene::new().await;
    let model = model(remote(Format::Ollama, &provider));
    scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!(provider.requests()[0].body["options"]["num_ctx"], 65_536);
}

#[tokio::test]
async fn a_model_without_tool_calls_is_asked_for_blocks() {
    let provider = Provider::new(vec![
        text("I look.\n```tool\n{\"tool\": \"a__read\", \"arguments\": {}}\n```\n"),
        text("It got nothing."),
    ])
    .describes("/api/show", shown(32_768, &["completion"]));
    let scene = Scene::new().await;
    let model = model(remote(Format::Ollama, &provider));
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert_eq!(scene.results().len(), 1, "{:?}", scene.events());
    let first = &provider.requests()[0].body;
    assert!(first.get("tools").is_none());
    assert!(first["messages"][0]["content"].as_str().unwrap().contains("```tool"), "{first}");
}

#[tokio::test]
async fn a_model_that_is_not_there_is_told_with_those_that_are() {
    let installed = json!({"models": [
        {"name": "qwen3:8b", "model": "qwen3:8b", "size": 5}, {"name": "llama3.2:latest"},
    ]});
    let missing = json!({"error": "model 'test-model' not found"});
    let provider =
        Provider::new(vec![Answer::Status(404, "", missing)]).describes("/api/tags", installed);
    let scene = Scene::new().await;
    let model = model(remote(Format::Ollama, &provider));
    assert_eq!(model.offered().await.unwrap(), ["llama3.2:latest", "qwen3:8b"]);
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::Failed);
    let (_, message) = error(&scene);
    for part in ["test-model", "llama3.2:latest, qwen3:8b", "ollama pull test-model"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    // Something else at the address.
    let other = Answer::Status(404, "", json!({"detail": "Not Found"}));
    let provider = Provider::new(vec![other]);
    let scene = Scene::new().await;
    let model = self::model(remote(Format::Ollama, &provider));
    scene.turn(model, &mut Conversation::default(), "go").await;
    assert!(error(&scene).1.contains("--provider openai"), "{:?}", error(&scene));
    // And nothing.
    let config = RemoteConfig::new(Format::Ollama, "http://127.0.0.1:9".parse().unwrap(), "m");
    let model = self::model(RemoteConfig { attempts: 1, ..config });
    let scene = Scene::new().await;
    scene.turn(model, &mut Conversation::default(), "go").await;
    assert!(error(&scene).1.contains("ollama serve"), "{:?}", error(&scene));
}

#[tokio::test]
async fn a_prompt_that_does_not_fit_gets_more_context_and_is_refused_at_the_most() {
    // As its runner says it, as text within the error.
    let inner = json!({"error": {
        "code": 400, "type": "exceed_context_size_error", "n_prompt_tokens": 8_889,
        "message": "request (8889 tokens) exceeds the available context size (4096 tokens), try \
                    increasing it",
    }});
    let refused = Answer::Status(400, "", json!({"error": inner.to_string()}));
    let provider = Provider::new(vec![refused.clone(), refused.clone(), text("Fits.")])
        .describes("/api/show", shown(131_072, &ALL));
    let scene = Scene::new().await;
    let model = model(remote(Format::Ollama, &provider));
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    let windows = provider.requests().into_iter().map(|r| r.body["options"]["num_ctx"].clone());
    assert_eq!(windows.collect::<Vec<_>>(), [8_192, 16_384, 32_768]);

    let provider = Provider::new(vec![refused]).describes("/api/show", shown(20_000, &ALL));
    let scene = Scene::new().await;
    let model = self::model(remote(Format::Ollama, &provider));
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::Failed);
    assert_eq!(error(&scene).0, word(&LlmErrorKind::TooLong));
}

#[tokio::test]
async fn an_error_within_a_stream_is_tried_again_and_no_half_answer_stays() {
    let half = json!({"message": {"role": "assistant", "content": "Half"}, "done": false});
    let broken = json!({"error": "an error was encountered while running the model: EOF"});
    let provider = Provider::new(vec![
        Answer::Recorded(format!("{half}\n{broken}\n")),
        Answer::Cut(vec![Piece::Text("Cut")]),
        // Without a line end behind the last one.
        Answer::Recorded(format!("{half}\n{}", json!({"done": true, "done_reason": "stop"}))),
    ])
    .describes("/api/show", shown(131_072, &ALL));
    let scene = Scene::new().await;
    let mut talk = Conversation::default();
    let reason = scene.turn(model(remote(Format::Ollama, &provider)), &mut talk, "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert_eq!(provider.requests().len(), 3);
    let kept = serde_json::to_string(&talk).unwrap();
    assert_eq!(kept.matches("Half").count(), 1, "{kept}");
}

#[tokio::test]
async fn the_context_is_what_the_provider_tells_else_what_it_documents() {
    for (format, path, description, context) in [
        (Format::Gemini, "/models/test-model", json!({"inputTokenLimit": 50_000}), 50_000),
        (Format::Anthropic, "/models/test-model", json!({"max_input_tokens": 60_000}), 60_000),
        (
            Format::OpenAi,
            "/v1/models",
            json!({"data": [{"id": "x"}, {"id": "test-model", "max_model_len": 40_960}]}),
            40_960,
        ),
        (Format::OpenAi, "/v1/models", json!({"data": [{"id": "test-model"}]}), 32_768),
    ] {
        let provider = Provider::new(vec![text("Hi.")]).describes(path, description);
        let model = model(remote(format, &provider));
        model.prepare().await;
        assert_eq!(model.context(), context, "{format:?}");
        let answer = model.offered().await;
        assert_eq!(answer.is_ok(), format == Format::OpenAi, "{answer:?}");
    }
}

#[tokio::test]
async fn a_size_that_a_refusal_names_is_learned_and_the_turn_goes_on() {
    let message = "This model's maximum context length is 8192 tokens. However, your messages \
                   resulted in 30000 tokens.";
    let code = "context_length_exceeded";
    let refused = json!({"error": {"message": message, "code": code}});
    let provider =
        Provider::new(vec![call("a__read", "{}"), Answer::Status(400, "", refused), text("Read.")]);
    let scene = Scene::new().await;
    scene.world.server("a").answers(|_, _| async {
        Ok(json!({"content": [{"type": "text", "text": "word ".repeat(15_000)}]}))
    });
    let model = model(remote(Format::OpenAi, &provider));
    let as_model: Arc<dyn LanguageModel> = model.clone();
    let reason = scene.turn(as_model, &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert_eq!(model.context(), 8_192);
    assert!(scene.has(StatusKind::Shortened));
    let last = provider.requests().pop().unwrap().body.to_string();
    assert!(last.len() < 8_192 * 4, "{}", last.len());
}

#[tokio::test]
async fn a_context_that_the_machine_has_no_memory_for_is_halved_and_the_turn_goes_on() {
    let message = "model requires more system memory (9.1 GiB) than is available (6.0 GiB)";
    let refused = Answer::Status(500, "", json!({"error": message}));
    let provider = Provider::new(vec![refused.clone(), text("Hello."), text("Again.")])
        .describes("/api/show", shown(131_072, &ALL));
    let scene = Scene::new().await;
    let model = model(remote(Format::Ollama, &provider));
    let mut talk = Conversation::default();
    let long = "Read this. ".repeat(1_200);
    for asked in [long.as_str(), "and now?"] {
        let reason = scene.turn(model.clone(), &mut talk, asked).await;
        assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    }
    let windows = provider.requests().into_iter().map(|r| r.body["options"]["num_ctx"].clone());
    let windows: Vec<Value> = windows.collect();
    assert_eq!(windows.first().and_then(Value::as_u64), windows[1].as_u64().map(|half| half * 2));
    assert!(windows[2].as_u64() <= windows[1].as_u64(), "{windows:?}");
    // A model that fits in no way is asked a few times, not again and again with pauses.
    let provider = Provider::new(vec![refused]).describes("/api/show", shown(8_192, &ALL));
    let scene = Scene::new().await;
    let model = self::model(remote(Format::Ollama, &provider));
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::Failed);
    let told = error(&scene).1;
    assert!(told.contains("a smaller model") || told.contains("cannot fit"), "{told}");
    assert!(provider.requests().len() <= 2);
}

#[tokio::test]
async fn what_ollama_refuses_says_what_to_do_or_is_asked_without_it() {
    let unauthorized = json!({"error": "unauthorized", "signin_url": "https://ollama.com/connect"});
    let provider = Provider::new(vec![Answer::Status(401, "", unauthorized)])
        .describes("/api/show", shown(131_072, &ALL));
    let scene = Scene::new().await;
    let config = RemoteConfig { key: None, ..remote(Format::Ollama, &provider) };
    scene.turn(model(config), &mut Conversation::default(), "go").await;
    assert!(error(&scene).1.contains("ollama signin"), "{:?}", error(&scene));
    // The capabilities of the description need not be those of the model behind it.
    let refused = json!({"error": "\"test-model\" does not support thinking"});
    let provider = Provider::new(vec![Answer::Status(400, "", refused), text("Hello.")])
        .describes("/api/show", shown(131_072, &ALL));
    let scene = Scene::new().await;
    let model = model(remote(Format::Ollama, &provider));
    let reason = scene.turn(model, &mut Conversation::default(), "go").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    let thinks =
        provider.requests().iter().map(|it| it.body.get("think").is_some()).collect::<Vec<_>>();
    assert_eq!(thinks, [true, false]);
}

#[tokio::test]
async fn a_prompt_that_came_from_the_cache_is_counted_and_said() {
    let said = json!({"message": {"role": "assistant", "content": "Hi."}, "done": false});
    let last = |counts: Value| {
        let mut line = json!({"message": {"role": "assistant", "content": ""}, "done": true,
            "done_reason": "stop", "eval_count": 2});
        line.as_object_mut().unwrap().extend(counts.as_object().unwrap().clone());
        Answer::Recorded(format!("{said}\n{line}\n"))
    };
    let provider = Provider::new(vec![
        last(json!({"prompt_eval_count": 900, "prompt_eval_cached_count": 800})),
        last(json!({})),
    ])
    .describes("/api/show", shown(131_072, &ALL));
    let scene = Scene::new().await;
    let (model, mut talk) = (model(remote(Format::Ollama, &provider)), Conversation::default());
    let mut usages = Vec::new();
    for _ in 0..2 {
        scene.turn(model.clone(), &mut talk, "hi").await;
        let Some(ChatEvent::Done { usage, .. }) = scene.events().pop() else { panic!("no end") };
        usages.push(usage);
    }
    assert_eq!((usages[0].input, usages[0].cached, usages[0].is_estimate), (900, 800, false));
    assert!(usages[1].input > 100 && usages[1].is_estimate && usages[1].output == 2, "{usages:?}");
}
