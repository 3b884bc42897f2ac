//! What tools return beside text, and how far they are.

use std::sync::Arc;

use mcpdeck::chat::media::ToolMedia;
use mcpdeck::chat::provider::MediaKind;
use mcpdeck::chat::{
    ChatEvent, Conversation, DoneReason, LanguageModel as _, Provider as Format, ProviderModel,
    RemoteConfig, StatusKind,
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

/// Pictures of 200 kB that are told apart, one for each call of `a__read`.
fn large_pictures(scene: &Scene) {
    let made = std::sync::atomic::AtomicUsize::new(0);
    scene.world.server("a").answers(move |_, _| {
        let at = made.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let data = ["A", "B", "C", "D"][at % 4].repeat(200_000);
        let picture = json!({"type": "image", "mimeType": "image/png", "data": data});
        async move { Ok(json!({"content": [picture]})) }
    });
}

/// Which of these pictures each request holds.
fn held(provider: &Provider) -> Vec<String> {
    let bodies = provider.requests().into_iter().map(|it| it.body.to_string());
    let held = bodies.map(|body| {
        let is_in = |letter: &&str| body.contains(&letter.repeat(200_000));
        ["A", "B", "C", "D"].iter().copied().filter(is_in).collect::<String>()
    });
    held.collect()
}

fn seeing(format: Format, provider: &Provider) -> Arc<ProviderModel> {
    let mut config = remote(format, provider);
    (config.takes, config.context) = (Some(vec![MediaKind::Image]), Some(100_000));
    Arc::new(ProviderModel::new(config).unwrap())
}

fn told(scene: &Scene) -> Vec<String> {
    let told = scene.events().into_iter().filter_map(|event| match event {
        ChatEvent::Status { status: StatusKind::LeftOut, message, .. } => message,
        _ => None,
    });
    told.collect()
}

#[tokio::test]
async fn a_request_that_pictures_make_too_large_is_sent_with_the_latest_of_them() {
    let too_large = json!({"type": "error", "error": {"type": "request_too_large",
        "message": "Request exceeds the maximum size"}});
    let payload = json!({"error": {"code": 400, "status": "INVALID_ARGUMENT",
        "message": "Request payload size exceeds the limit: 20971520 bytes."}});
    for (format, status, refusal) in [
        (Format::Anthropic, 413, too_large),
        (Format::Gemini, 400, payload),
        // A proxy, which has a page for it.
        (Format::OpenAi, 413, json!({})),
        (Format::OpenAi, 413, json!({"error": {"message": "request entity too large"}})),
        (Format::Ollama, 413, json!({"error": "http: request body too large"})),
    ] {
        let provider = Provider::new(vec![
            call("a__read", "{}"),
            call("a__read", "{}"),
            Answer::Status(status, "", refusal.clone()),
            text("Seen."),
            text("Again."),
            call("a__read", "{}"),
            text("And now."),
        ]);
        let scene = Scene::new().await;
        large_pictures(&scene);
        let (model, mut talk) = (seeing(format, &provider), Conversation::default());
        for asked in ["look twice", "what was it?", "look again"] {
            let reason = scene.turn(model.clone(), &mut talk, asked).await;
            assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        }
        // What was too large once is not tried again, and the text is no shorter than before.
        assert_eq!(held(&provider), ["", "A", "AB", "B", "B", "B", "C"], "{format:?} {refusal}");
        assert_eq!(model.context(), 100_000);
        assert!(!scene.has(StatusKind::Retrying) && !scene.has(StatusKind::Shortened));
        let told = told(&scene);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("the oldest of 2 pictures and sounds is left out: "), "{told:?}");
        assert!(told[1].contains("took no more of them before"), "{told:?}");
        let bodies: Vec<String> =
            provider.requests().iter().map(|it| it.body.to_string()).collect();
        let missing = |body: &String| body.matches("is not sent any more").count();
        assert_eq!(bodies.iter().map(missing).collect::<Vec<_>>(), [0, 0, 0, 1, 1, 1, 2]);
    }
}

#[tokio::test]
async fn one_picture_that_is_too_large_is_left_out_and_text_that_is_too_large_is_shortened() {
    let refused = || Answer::Status(413, "", json!({"error": {"message": "Payload Too Large"}}));
    let provider = Provider::new(vec![call("a__read", "{}"), refused(), text("Not seen.")]);
    let scene = Scene::new().await;
    large_pictures(&scene);
    let reason =
        scene.turn(seeing(Format::OpenAi, &provider), &mut Conversation::default(), "look").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert_eq!(held(&provider), ["", "A", ""]);
    let told = told(&scene);
    assert!(
        matches!(&told[..], [one] if one.starts_with("the pictures and sounds are")),
        "{told:?}"
    );

    // A small picture is not to blame.
    let provider = Provider::new(vec![call("a__read", "{}"), refused(), text("Read.")]);
    let scene = Scene::new().await;
    scene.world.server("a").answers(|_, _| async {
        let text = json!({"type": "text", "text": "word ".repeat(30_000)});
        let picture = json!({"type": "image", "mimeType": "image/png", "data": PICTURE});
        Ok(json!({"content": [text, picture]}))
    });
    let reason =
        scene.turn(seeing(Format::OpenAi, &provider), &mut Conversation::default(), "read").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    let lengths: Vec<usize> =
        provider.requests().iter().map(|it| it.body.to_string().len()).collect();
    assert!(lengths[2] < lengths[1], "{lengths:?}");
    assert!(scene.has(StatusKind::Retrying), "{:?}", scene.events());
    assert!(provider.requests()[2].body.to_string().contains(PICTURE));
}

#[tokio::test]
async fn as_many_pictures_are_sent_as_the_provider_says_that_it_takes() {
    for words in [
        "At most 1 image(s) may be provided in one prompt.",
        "Too many images provided. This model supports up to 1 images",
    ] {
        let provider = Provider::new(vec![
            call("a__read", "{}"),
            call("a__read", "{}"),
            Answer::Status(400, "", json!({"error": {"message": words}})),
            call("a__read", "{}"),
            text("Seen."),
        ]);
        let scene = Scene::new().await;
        large_pictures(&scene);
        let (model, mut talk) = (seeing(Format::OpenAi, &provider), Conversation::default());
        let reason = scene.turn(model, &mut talk, "look").await;
        assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
        assert_eq!(held(&provider), ["", "A", "AB", "B", "C"], "{words}");
        assert!(told(&scene)[0].contains(words), "{:?}", told(&scene));
    }
}

#[tokio::test]
async fn pictures_that_are_gone_are_not_spoken_of_as_if_they_were_there() {
    for format in [Format::Anthropic, Format::Gemini, Format::OpenAi, Format::Ollama] {
        let provider = Provider::new(vec![call("a__read", "{}"), text("Seen."), text("Gone.")]);
        let scene = Scene::new().await;
        large_pictures(&scene);
        let (model, mut talk) = (seeing(format, &provider), Conversation::default());
        scene.turn(model.clone(), &mut talk, "look").await;
        // As it is stored, and read after a restart.
        let stored = serde_json::to_string(&talk).unwrap();
        let mut talk: Conversation = serde_json::from_str(&stored).unwrap();
        scene.turn(model, &mut talk, "what was it?").await;
        assert_eq!(held(&provider), ["", "A", ""]);
        let bodies = provider.requests().into_iter().map(|it| it.body.to_string());
        let says: Vec<bool> = bodies.map(|body| body.contains("is not sent any more")).collect();
        assert_eq!(says, [false, false, true], "{format:?}");
        // It is not said to the person, nor twice to the model.
        assert!(!stored.contains("not sent any more"));
        assert!(!serde_json::to_string(&talk).unwrap().contains("not sent any more"));
    }
}

#[tokio::test]
async fn the_pictures_of_a_call_that_failed_are_seen() {
    for format in [Format::Anthropic, Format::Gemini, Format::OpenAi, Format::Ollama] {
        let provider = Provider::new(vec![
            Answer::Stream(vec![Piece::Call("a__read", "{}"), Piece::Call("a__read", "{}")]),
            text("Seen."),
        ]);
        let scene = Scene::new().await;
        scene.world.server("a").answers(|_, _| async {
            let text = json!({"type": "text", "text": "no such button; the page was:"});
            let picture = json!({"type": "image", "mimeType": "image/png", "data": PICTURE});
            Ok(json!({"content": [text, picture], "isError": true}))
        });
        let model = seeing(format, &provider);
        let reason = scene.turn(model, &mut Conversation::default(), "look").await;
        assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        let body = provider.requests()[1].body.to_string();
        assert_eq!(body.matches(PICTURE).count(), 2, "{format:?}: {body}");
        let shown = scene.events().into_iter().filter(|event| {
            matches!(event, ChatEvent::ToolResult { is_error: true, pictures, .. }
                if pictures.len() == 1)
        });
        assert_eq!(shown.count(), 2, "{format:?}");
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
