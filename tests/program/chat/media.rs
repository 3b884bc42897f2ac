//! What tools return beside text, and how far they are.

use std::sync::Arc;

use mcpdeck::chat::media::ToolMedia;
use mcpdeck::chat::provider::MediaKind;
use mcpdeck::chat::{
    ChatEvent, Conversation, DoneReason, Provider as Format, ProviderModel, RemoteConfig,
};
use serde_json::{Value, json};

use super::{Answer, Piece, Provider, Scene, call, remote, text};

/// A red dot, and what stands for a sound.
pub(super) const PICTURE: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const SOUND: &str = "UklGRiQAAABXQVZF";

/// Asks a model whose two calls return a picture and a sound; returns the second request's body.
async fn second_request(format: Format, name: &str, takes: Option<Vec<MediaKind>>) -> Value {
    let provider = Provider::new(vec![
        Answer::Stream(vec![Piece::Call("a__read", "{}"), Piece::Call("b__read", "{}")]),
        text("Seen."),
    ]);
    let scene = Scene::new().await;
    for (server, block) in [
        ("a", json!({"type": "image", "mimeType": "image/png", "data": PICTURE})),
        ("b", json!({"type": "audio", "mimeType": "audio/wav", "data": SOUND})),
    ] {
        let content = json!([{"type": "text", "text": "Here:"}, block]);
        scene.world.server(server).answers(move |_, _| {
            let content = content.clone();
            async move { Ok(json!({"content": content})) }
        });
    }
    let mut config = remote(format, &provider);
    (config.model, config.takes) = (name.to_owned(), takes);
    let model = std::sync::Arc::new(ProviderModel::new(config).unwrap());
    let mut talk = Conversation::default();
    let reason = scene.turn(model, &mut talk, "go").await;
    assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
    // What is shown and stored names them and holds no data.
    assert!(scene.results().iter().any(|(_, _, text)| text.contains("[picture, image/png, 7")));
    assert!(!serde_json::to_string(&talk).unwrap().contains(PICTURE));
    provider.requests()[1].body.clone()
}

#[tokio::test]
async fn a_picture_that_the_provider_refuses_stops_no_conversation() {
    for (format, words) in [
        (Format::Anthropic, "messages.2.content.0.image.source.base64: Could not process image"),
        (Format::Gemini, "Unable to process input image."),
        (Format::OpenAi, "No endpoints found that support image input"),
    ] {
        let refused = Answer::Status(400, "", json!({"error": {"message": words}}));
        let answers = vec![call("a__read", "{}"), refused, text("Well."), text("Again.")];
        let provider = Provider::new(answers);
        let scene = Scene::new().await;
        scene.world.server("a").answers(|_, _| async {
            let picture = json!({"type": "image", "mimeType": "image/png", "data": PICTURE});
            Ok(json!({"content": [picture]}))
        });
        let config =
            RemoteConfig { takes: Some(vec![MediaKind::Image]), ..remote(format, &provider) };
        let model = Arc::new(ProviderModel::new(config).unwrap());
        let mut talk = Conversation::default();
        for _ in 0..2 {
            let reason = scene.turn(model.clone(), &mut talk, "look").await;
            assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        }
        let bodies = provider.requests().into_iter().map(|it| it.body.to_string());
        let has: Vec<bool> = bodies.map(|body| body.contains(PICTURE)).collect();
        assert_eq!(has, [false, true, false, false], "{format:?}");
        let told = serde_json::to_string(&scene.events()).unwrap();
        assert!(told.contains("left out") && told.contains(words), "{told}");
    }
}

#[tokio::test]
async fn pictures_and_sound_go_to_models_that_take_them_in_the_form_of_each() {
    let body = second_request(Format::Anthropic, "claude-sonnet-4-5", None).await;
    let results = &body["messages"][2]["content"];
    let source = json!({"type": "base64", "media_type": "image/png", "data": PICTURE});
    assert_eq!(results[0]["content"][1], json!({"type": "image", "source": source}), "{results}");
    assert!(results[1]["content"].as_str().unwrap().contains("which this model does not take"));

    let body = second_request(Format::Gemini, "gemini-flash-latest", None).await;
    let parts = body["contents"][2]["parts"].as_array().unwrap();
    let inline: Vec<&Value> = parts.iter().filter_map(|part| part.get("inlineData")).collect();
    assert_eq!(inline[0], &json!({"mimeType": "image/png", "data": PICTURE}), "{parts:?}");
    assert_eq!(inline[1], &json!({"mimeType": "audio/wav", "data": SOUND}));

    // Results are text there: a message of its own follows all of them.
    let body = second_request(Format::OpenAi, "gpt-5-mini", None).await;
    let messages = body["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages.iter().map(|m| m["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "tool", "tool", "user"]);
    let url = format!("data:image/png;base64,{PICTURE}");
    assert_eq!(messages[5]["content"][1]["image_url"]["url"], url);
    assert_eq!(messages[5]["content"].as_array().unwrap().len(), 2, "no sound: {messages:?}");
    let both = Some(vec![MediaKind::Image, MediaKind::Audio]);
    let body = second_request(Format::OpenAi, "local", both).await;
    let sound = &body["messages"][5]["content"][3];
    assert_eq!(sound["input_audio"], json!({"data": SOUND, "format": "wav"}), "{sound}");

    let body = second_request(Format::Ollama, "llava", Some(vec![MediaKind::Image])).await;
    let last = body["messages"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["role"], &last["images"]), (&json!("user"), &json!([PICTURE])), "{last}");
}

#[tokio::test]
async fn pictures_that_the_person_attaches_go_to_models_that_take_them() {
    let dot = || vec![ToolMedia { mime: "image/png".to_owned(), data: PICTURE.into() }];
    for (format, name) in [
        (Format::Anthropic, "claude-sonnet-4-5"),
        (Format::Gemini, "gemini-flash-latest"),
        (Format::OpenAi, "gpt-5-mini"),
        (Format::Ollama, "llava"),
    ] {
        let provider = Provider::new(vec![text("A dot."), text("Red."), text("None.")]).strict();
        let scene = Scene::new().await;
        let mut config = remote(format, &provider);
        name.clone_into(&mut config.model);
        config.takes = (format == Format::Ollama).then(|| vec![MediaKind::Image]);
        let model = Arc::new(ProviderModel::new(config).unwrap());
        let mut talk = Conversation { attached: dot(), ..Conversation::default() };
        for asked in ["what is it?", "which colour?"] {
            let reason = scene.turn(model.clone(), &mut talk, asked).await;
            assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
            let sent = provider.requests().pop().unwrap().body.to_string();
            assert_eq!(sent.matches(PICTURE).count(), 1, "{format:?}: {sent}");
        }
        assert!(talk.attached.is_empty());
        let stored = serde_json::to_string(&talk).unwrap();
        assert!(!stored.contains(PICTURE) && stored.contains("[picture, image/png"), "{stored}");
        // Another model that takes none goes on without it.
        let other = RemoteConfig { model: "local".to_owned(), ..remote(Format::OpenAi, &provider) };
        let provider = Provider::new(vec![text("Well.")]);
        let other = RemoteConfig { base_url: provider.url.parse().unwrap(), ..other };
        let other = Arc::new(ProviderModel::new(other).unwrap());
        assert_eq!(scene.turn(other, &mut talk, "and you?").await, DoneReason::End);
        let sent = provider.requests().pop().unwrap().body.to_string();
        assert!(!sent.contains(PICTURE) && sent.contains("what is it?"), "{sent}");
    }
    let provider = Provider::new(vec![text("I see none.")]);
    let scene = Scene::new().await;
    let mut talk = Conversation { attached: dot(), ..Conversation::default() };
    scene.turn(super::model(Format::OpenAi, &provider), &mut talk, "what is it?").await;
    let sent = provider.requests()[0].body.to_string();
    assert!(!sent.contains(PICTURE) && sent.contains("which this model does not take"), "{sent}");
}

#[tokio::test]
async fn a_model_that_nobody_describes_gets_sentences() {
    for format in [Format::OpenAi, Format::Ollama] {
        let body = second_request(format, "local", None).await.to_string();
        assert!(!body.contains(PICTURE) && !body.contains(SOUND), "{format:?}: {body}");
        assert_eq!(body.matches("which this model does not take").count(), 2, "{body}");
    }
}

#[tokio::test]
async fn the_progress_of_a_call_is_told() {
    let provider = Provider::new(vec![call("a__read", "{}"), text("Read.")]);
    let scene = Scene::new().await;
    scene.world.server("a").answers(|_, context| async move {
        for (progress, message) in [(1.0, "opening"), (2.0, "reading"), (4.0, "done")] {
            context.progressed(progress, Some(4.0), Some(message));
            tokio::task::yield_now().await;
        }
        Ok(json!({"content": [{"type": "text", "text": "all of it"}]}))
    });
    let model = super::model(Format::OpenAi, &provider);
    scene.turn(model, &mut Conversation::default(), "go").await;
    let told = scene.events().into_iter().filter_map(|event| match event {
        ChatEvent::ToolProgress { name, message, .. } => Some(format!("{name} {message}")),
        _ => None,
    });
    let told: Vec<String> = told.collect();
    assert_eq!(told.first().map(String::as_str), Some("a__read 1 of 4: opening"), "{told:?}");
}
