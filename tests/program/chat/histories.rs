//! What goes back to a provider: histories of other models, of turns that were stopped, and of answers
//! that held nothing; and what is learned from a refusal. The mock refuses what the providers refuse.

use std::sync::Arc;

use mcpdeck::chat::llm::{ModelReply, ToolCall};
use mcpdeck::chat::{
    ChatEvent, ChatMessage, Conversation, DoneReason, Provider as Format, ProviderModel,
    RemoteConfig, StatusKind,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Scene, call, model, remote, text};
use crate::provider::{Answer, Piece, Provider, Request};

fn named(format: Format, name: &str, provider: &Provider) -> Arc<ProviderModel> {
    let config = RemoteConfig { model: name.to_owned(), ..remote(format, provider) };
    Arc::new(ProviderModel::new(config).unwrap())
}

/// A conversation as another model left it: ids of its own form, space for text, an answer that holds
/// nothing, and results that nothing was said to.
fn left_by_another() -> Conversation {
    let mut talk = Conversation { model: "another".to_owned(), ..Conversation::default() };
    let reply = |text: &str, ids: &[&str]| {
        let calls = ids.iter().map(|id| ToolCall::new((*id).into(), "a__read".into(), "{}"));
        let calls: Vec<ToolCall> = calls.collect();
        let mut reply = ModelReply { text: text.to_owned(), ..Default::default() };
        reply.calls = calls;
        ChatMessage::Assistant(reply)
    };
    let result = |id: &str| {
        let (id, name, text) = (id.to_owned(), "a__read".to_owned(), "42".to_owned());
        ChatMessage::Tool { id, name, text, is_error: false, media: Vec::new(), given: 0 }
    };
    let user = |text: &str| ChatMessage::user(text);
    let long = "call_".to_owned() + &"x".repeat(200);
    talk.messages = vec![
        user("one"),
        reply("\n\n", &["functions.a__read:0", &long]),
        result("functions.a__read:0"),
        result(&long),
        user("two"),
        reply("", &[]),
        user("three"),
        reply(" \n", &[]),
    ];
    talk
}

#[tokio::test]
async fn a_conversation_goes_on_with_another_model_of_any_provider() {
    for (format, name) in [
        (Format::Anthropic, "claude-x"),
        (Format::OpenAi, "gpt-x"),
        (Format::OpenAi, "mistral-large"),
        (Format::OpenAi, "kimi-k2"),
        (Format::Gemini, "gemini-x"),
        (Format::Ollama, "qwen3"),
    ] {
        let provider = Provider::new(vec![call("a__read", "{}"), text("Hello.")]).strict();
        let scene = Scene::new().await;
        let mut talk = left_by_another();
        let reason = scene.turn(named(format, name, &provider), &mut talk, "four").await;
        assert_eq!(reason, DoneReason::End, "{name}: {:?}", scene.events());
        let sent = provider.requests().pop().unwrap().body;
        // Each result has its call, whatever their ids are called on the way.
        let all = sent.to_string();
        let ids = sent["messages"].as_array().into_iter().flatten();
        for id in ids.filter_map(|message| message["tool_call_id"].as_str()) {
            assert_eq!(all.matches(&format!("\"id\":\"{id}\"")).count(), 1, "{name}: {id}");
        }
    }
}

#[tokio::test]
async fn a_turn_that_was_stopped_behind_its_results_goes_on() {
    for (format, name) in [(Format::OpenAi, "mistral-small"), (Format::Anthropic, "claude-x")] {
        let answers = [call("a__read", "{}"), text("Again.")];
        // The first is used up where a field is refused.
        let refused = name.contains("mistral").then(|| text("Never."));
        let provider = Provider::new(refused.into_iter().chain(answers).collect()).strict();
        let scene = Scene::new().await;
        let cancel = CancellationToken::new();
        let stop = cancel.clone();
        scene.world.server("a").answers(move |_, _| {
            stop.cancel();
            async { Ok(json!({"content": [{"type": "text", "text": "42"}]})) }
        });
        let model = named(format, name, &provider);
        let mut talk = Conversation::default();
        let reason = scene.turn_until(model.clone(), &mut talk, "go", &cancel).await;
        assert_eq!(reason, DoneReason::Aborted, "{:?}", scene.events());
        let reason = scene.turn(model, &mut talk, "and now?").await;
        assert_eq!(reason, DoneReason::End, "{name}: {:?}", scene.events());
    }
}

#[tokio::test]
async fn an_answer_that_holds_nothing_stops_no_later_turn() {
    for format in [Format::Anthropic, Format::OpenAi, Format::Ollama, Format::Gemini] {
        let nothing = Answer::Stream(Vec::new());
        let provider = Provider::new(vec![nothing, text(" \n"), text("Here.")]).strict();
        let scene = Scene::new().await;
        let (model, mut talk) = (model(format, &provider), Conversation::default());
        for expected in [DoneReason::Empty, DoneReason::Empty, DoneReason::End] {
            let reason = scene.turn(Arc::clone(&model), &mut talk, "go").await;
            assert_eq!(reason, expected, "{format:?}: {:?}", scene.events());
        }
    }
}

/// Two calls of one answer, at places of their own, with one id or none.
/// Requests that hold these words.
fn holding<'a>(requests: &'a [Request], words: &str) -> Vec<&'a Request> {
    requests.iter().filter(|request| request.body.to_string().contains(words)).collect()
}

#[tokio::test]
async fn what_a_filter_refused_is_not_sent_with_what_follows() {
    let filtered = |message: &str| {
        let error = json!({"code": "content_filter", "message": message, "innererror":
            {"content_filter_result": {"jailbreak": {"detected": true, "filtered": true}}}});
        Answer::Status(400, "", json!({"error": error}))
    };
    let declined = std::fs::read_to_string(
        std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fixtures/streams/anthropic-refusal.sse"),
    );
    for (format, refusal) in [
        (Format::OpenAi, filtered("The prompt was flagged")),
        (Format::Gemini, Answer::Filtered),
        (Format::Anthropic, Answer::Recorded(declined.unwrap())),
    ] {
        let scene = Scene::new().await;
        let answers = vec![text("Hello."), call("a__read", "{}"), refusal, text("Well.")];
        let provider = Provider::new(answers);
        let model = named(format, "test-model", &provider);
        let mut talk = Conversation::default();
        let turn = async |talk: &mut _, text| scene.turn(model.clone(), talk, text).await;
        assert_eq!(turn(&mut talk, "first words").await, DoneReason::End, "{format:?}");
        let reason = turn(&mut talk, "bad words").await;
        assert!(matches!(reason, DoneReason::Failed | DoneReason::Filtered), "{format:?}");
        assert!(scene.has(StatusKind::LeftOut), "{format:?}: {:?}", scene.events());
        // Where it is stored, it stays out.
        let stored = serde_json::to_string(&talk).unwrap();
        let mut talk: Conversation = serde_json::from_str(&stored).unwrap();
        assert_eq!(turn(&mut talk, "good words").await, DoneReason::End, "{format:?}");
        let requests = provider.requests();
        assert_eq!(holding(&requests, "bad words").len(), 2, "{format:?}");
        let last = requests.last().unwrap().body.to_string();
        assert!(last.contains("first words") && last.contains("Hello."), "{format:?}: {last}");
        // It is shown, and can be edited.
        assert!(stored.contains("bad words"), "{stored}");
        assert_eq!(talk.messages.len(), 8 - usize::from(format != Format::Anthropic), "{format:?}");
    }
}

fn twice(format: Format, id: &str) -> Answer {
    let events: Vec<Value> = if format == Format::Anthropic {
        let call = |at: usize| {
            let block =
                json!({"type": "tool_use", "id": id, "name": "a__read", "input": {"n": at}});
            let start = json!({"type": "content_block_start", "index": at, "content_block": block});
            [start, json!({"type": "content_block_stop", "index": at})]
        };
        let stop = json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}});
        let thinking = json!({"type": "thinking", "thinking": "Two.", "signature": "c2ln"});
        let thought = [
            json!({"type": "content_block_start", "index": 2, "content_block": thinking}),
            json!({"type": "content_block_stop", "index": 2}),
        ];
        let ends = [stop, json!({"type": "message_stop"})];
        thought.into_iter().chain(call(0)).chain(call(1)).chain(ends).collect()
    } else {
        let call = |at: usize| {
            let arguments = json!({"n": at}).to_string();
            json!({"index": at, "id": id, "type": "function",
                "function": {"name": "a__read", "arguments": arguments}})
        };
        let choice = |delta: Value, reason: Value| json!({"choices": [{"index": 0, "delta": delta, "finish_reason": reason}]});
        let calls = json!({"tool_calls": [call(0), call(1)]});
        vec![choice(calls, Value::Null), choice(json!({}), json!("tool_calls"))]
    };
    let events = events.iter().map(|event| format!("data: {event}\n\n"));
    Answer::Recorded(events.collect())
}

#[tokio::test]
async fn calls_with_one_id_are_told_apart_within_an_answer_and_after_it() {
    for (format, id) in
        [(Format::OpenAi, "call_0"), (Format::OpenAi, ""), (Format::Anthropic, "toolu_0")]
    {
        let provider =
            Provider::new(vec![twice(format, id), twice(format, id), text("Done.")]).strict();
        let scene = Scene::new().await;
        let mut talk = Conversation::default();
        let reason = scene.turn(model(format, &provider), &mut talk, "go").await;
        assert_eq!(reason, DoneReason::End, "{format:?} {id:?}: {:?}", scene.events());
        let results: Vec<String> = scene.results().into_iter().map(|it| it.2).collect();
        assert_eq!(results.len(), 4, "{results:?}");
        assert!(results[0].contains("\"n\":0") && results[1].contains("\"n\":1"), "{results:?}");
        let sent = provider.requests().pop().unwrap().body.to_string();
        assert_eq!(sent.matches("\"n\"").count() + sent.matches("\\\"n\\\"").count(), 8, "{sent}");
    }
}

#[tokio::test]
async fn names_that_models_invent_or_leave_unclean_stop_no_conversation() {
    let long: &'static str = "x".repeat(200).leak();
    for format in [Format::Anthropic, Format::OpenAi, Format::Gemini, Format::Ollama] {
        for (called, is_found) in [
            ("functions.a__read", true),
            (" a__read", true),
            ("a__read<|channel|>commentary", true),
            ("a.read", true),
            ("browser.tabs.open", false),
            ("$lookup", false),
            ("größe", false),
            ("", false),
            ("3d", false),
            (long, false),
        ] {
            let provider =
                Provider::new(vec![call(called, "{}"), text("Well."), text("Again.")]).strict();
            let (scene, mut talk) = (Scene::new().await, Conversation::default());
            let model = model(format, &provider);
            for _ in 0..2 {
                let reason = scene.turn(Arc::clone(&model), &mut talk, "go").await;
                assert_eq!(reason, DoneReason::End, "{format:?} {called}: {:?}", scene.events());
            }
            assert_eq!(provider.requests().len(), 3, "{format:?} {called}");
            assert_eq!(scene.results()[0].1, !is_found, "{called}: {:?}", scene.results());
            assert_eq!(scene.has(StatusKind::UnknownTool), !is_found, "{called}");
        }
    }
}

#[tokio::test]
async fn a_call_that_stands_in_the_text_is_not_told_as_an_answer() {
    for (words, is_call) in [
        ("<tool_call>\n{\"name\": \"a__read\", \"arguments\": {}}\n</tool_call>", true),
        ("I look.\n<tool_call>\n<function=a__read>\n</function>\n</tool_call>", true),
        ("<function=a__read>{\"x\": 1}</function>", true),
        ("[TOOL_CALLS][{\"name\": \"a__read\", \"arguments\": {}}]", true),
        ("[TOOL_CALLS]a__read[ARGS]{}", true),
        ("<|python_tag|>{\"name\": \"a__read\", \"parameters\": {}}", true),
        ("<\u{ff5c}tool\u{2581}calls\u{2581}begin\u{ff5c}>function a__read {}", true),
        ("<|channel|>commentary to=functions.a__read code<|message|>{}", true),
        ("{\"name\": \"a__read\", \"parameters\": {}}", true),
        ("```json\n{\"name\": \"a__read\", \"arguments\": {}}\n```", true),
        ("<tool_call> is how Qwen begins a call.", false),
        ("<tool_call>{\"name\": \"get_weather\"}</tool_call>", false),
        ("{\"name\": \"Ada\", \"age\": 3}", false),
        ("The tool is a__read.", false),
    ] {
        let provider = Provider::new(vec![text(words), text("Hello.")]);
        let (scene, mut talk) = (Scene::new().await, Conversation::default());
        let model = model(Format::OpenAi, &provider);
        let reason = scene.turn(Arc::clone(&model), &mut talk, "go").await;
        let expected = if is_call { DoneReason::NoCall } else { DoneReason::End };
        assert_eq!(reason, expected, "{words}: {:?}", scene.events());
        let told = serde_json::to_string(&scene.events().last()).unwrap();
        assert_eq!(told.contains("--fenced"), is_call, "{told}");
        assert_eq!(scene.turn(model, &mut talk, "and now?").await, DoneReason::End);
    }
}

#[tokio::test]
async fn a_field_that_an_address_refuses_is_sent_no_more() {
    let forbidden = |field: &str| {
        let detail = json!([{"type": "extra_forbidden", "loc": ["body", field],
            "msg": "Extra inputs are not permitted", "input": 8_192}]);
        // Both forms that Mistral answers with.
        json!({"object": "error", "message": {"detail": detail}, "type": "invalid_request_error"})
    };
    let bare = json!({"detail": [{"type": "extra_forbidden", "loc": ["body", "stream_options"],
        "msg": "Extra inputs are not permitted"}]});
    let provider = Provider::new(vec![
        Answer::Status(422, "", forbidden("max_completion_tokens")),
        Answer::Status(422, "", bare),
        text("Hello."),
        text("Again."),
    ]);
    let scene = Scene::new().await;
    let (model, mut talk) = (model(Format::OpenAi, &provider), Conversation::default());
    for _ in 0..2 {
        let reason = scene.turn(Arc::clone(&model), &mut talk, "hello").await;
        assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    }
    let fields: Vec<_> = provider
        .requests()
        .iter()
        .map(|it| {
            ["max_completion_tokens", "max_tokens", "stream_options"]
                .map(|key| it.body.get(key).is_some())
        })
        .collect();
    assert_eq!(fields[0], [true, false, true]);
    assert_eq!(fields[1], [false, true, true]);
    assert_eq!(fields[2..], [[false, true, false]; 2]);
    // What the address itself sent of its answers, and refuses when it comes back.
    let unsupported = |text: &str| Answer::Status(400, "", json!({"error": {"message": text}}));
    let reasons = Answer::Recorded(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"reasoning\":\"So.\",\
         \"tool_calls\":[{\"index\":0,\"id\":\"c1\",\"type\":\"function\",\"function\":\
         {\"name\":\"a__read\",\"arguments\":\"{}\"}}]},\"finish_reason\":\"tool_calls\"}]}\n\n"
            .to_owned(),
    );
    let provider = Provider::new(vec![
        reasons,
        unsupported(
            "'messages.2' : for 'role:assistant' the following must be satisfied[('messages.2' : \
             property 'reasoning' is unsupported, did you mean 'role'?)]",
        ),
        text("Hello."),
    ]);
    let scene = Scene::new().await;
    let (model, mut talk) = (self::model(Format::OpenAi, &provider), Conversation::default());
    for _ in 0..2 {
        let reason = scene.turn(Arc::clone(&model), &mut talk, "hello").await;
        assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    }
    let bodies = provider.requests().into_iter().map(|it| it.body.to_string());
    let has: Vec<bool> = bodies.map(|body| body.contains("\"reasoning\":\"So.\"")).collect();
    assert_eq!(has, [false, true, false, false]);
    // A limit that is less than what was asked for, in words of two providers.
    for (format, message, most) in [
        (Format::Anthropic, "max_tokens: 8192 > 4096, which is the maximum allowed", 4_096),
        (
            Format::OpenAi,
            "max_tokens is too large: 8192. This model supports at most 2048 completion tokens, \
             whereas you provided 8192.",
            2_048,
        ),
    ] {
        let refused = json!({"error": {"type": "invalid_request_error", "message": message}});
        let provider = Provider::new(vec![Answer::Status(400, "", refused), text("Hello.")]);
        let scene = Scene::new().await;
        let reason =
            scene.turn(super::model(format, &provider), &mut Conversation::default(), "hi").await;
        assert_eq!(reason, DoneReason::End, "{format:?}: {:?}", scene.events());
        let body = provider.requests().pop().unwrap().body;
        let sent = body.get("max_tokens").or(body.get("max_completion_tokens"));
        assert_eq!(sent, Some(&json!(most)), "{format:?}");
    }
}

#[tokio::test]
async fn what_the_template_of_a_model_does_not_take_is_sent_in_another_form() {
    let both = || Answer::Stream(vec![Piece::Call("a__read", "{}"), Piece::Call("b__read", "{}")]);
    let refused = |status, words: &str| {
        Answer::Status(status, "", json!({"error": {"code": status, "message": words}}))
    };
    let roles = |body: &Value| {
        let messages = body["messages"].as_array().unwrap().iter();
        messages.map(|it| it["role"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for status in [400, 500] {
        let words = "Jinja Exception: This model only supports single tool-calls at once!";
        let answers = vec![both(), refused(status, words), text("Well."), text("Again.")];
        let provider = Provider::new(answers);
        let (scene, mut talk) = (Scene::new().await, Conversation::default());
        let model = model(Format::OpenAi, &provider);
        for _ in 0..2 {
            let reason = scene.turn(Arc::clone(&model), &mut talk, "go").await;
            assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
        }
        let requests = provider.requests();
        let one_by_one = ["system", "user", "assistant", "tool", "assistant", "tool"];
        assert_eq!(roles(&requests[2].body), one_by_one);
        let (first, second) = (&requests[2].body["messages"][2], &requests[2].body["messages"][4]);
        assert_eq!(first["tool_calls"][0]["function"]["name"], "a__read");
        assert_eq!(second["tool_calls"][0]["function"]["name"], "b__read");
        assert_eq!(roles(&requests[3].body)[..6], one_by_one, "it is learned");
        assert!(!scene.has(StatusKind::Retrying));
    }
    let provider = Provider::new(vec![refused(400, "System role not supported"), text("Well.")]);
    let (scene, mut talk) = (Scene::new().await, Conversation::default());
    let reason = scene.turn(model(Format::OpenAi, &provider), &mut talk, "hello").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    let last = provider.requests().pop().unwrap().body;
    assert_eq!(roles(&last), ["user"]);
    assert!(last["messages"][0]["content"].as_str().unwrap().ends_with("\n\nhello"), "{last}");
}

#[tokio::test]
async fn the_words_of_a_refusal_are_told_wherever_they_stand() {
    let raw = json!({"object": "error", "message": "Unexpected role"}).to_string();
    for (body, words) in [
        (json!({"error": {"message": "one"}}), "one"),
        (json!({"object": "error", "message": "two", "type": "x"}), "two"),
        (json!({"detail": "three"}), "three"),
        (json!({"detail": [{"loc": ["body", "top", 0], "msg": "four"}]}), "body.top.0: four"),
        (json!({"errors": [{"message": "five", "code": 1}]}), "five"),
        (json!({"code": "Client specified an invalid argument", "error": "six"}), "six"),
        (json!({"message": {"detail": [{"loc": ["body"], "msg": "seven"}]}}), "body: seven"),
        (
            json!({"error": {"message": "Provider returned error", "code": 400,
                "metadata": {"raw": raw, "provider_name": "M"}}}),
            "Provider returned error: Unexpected role",
        ),
        (json!("eight"), "eight"),
        (json!([{"error": {"message": "nine"}}]), "nine"),
        (json!({"error": null}), "HTTP 400"),
    ] {
        let provider = Provider::new(vec![Answer::Status(400, "", body.clone())]);
        let scene = Scene::new().await;
        let model = model(Format::OpenAi, &provider);
        scene.turn(model, &mut Conversation::default(), "hi").await;
        let told = scene.events().into_iter().find_map(|event| match event {
            ChatEvent::Error { message, .. } => Some(message),
            _ => None,
        });
        assert!(told.as_ref().is_some_and(|told| told.contains(words)), "{body}: {told:?}");
        assert_eq!(provider.requests().len(), 1, "{body}");
    }
}

#[tokio::test]
async fn a_tool_that_a_provider_behind_a_router_refuses_is_left_out() {
    let raw = json!({"error": {"message": "Invalid schema for function 'a__fetch': no"}});
    let body = json!({"error": {"message": "Provider returned error", "code": 400,
        "metadata": {"raw": raw.to_string(), "provider_name": "M"}}});
    let provider = Provider::new(vec![Answer::Status(400, "", body), text("Hello.")]);
    let scene = Scene::new().await;
    let model = model(Format::OpenAi, &provider);
    let reason = scene.turn(model, &mut Conversation::default(), "hi").await;
    assert_eq!(reason, DoneReason::End, "{:?}", scene.events());
    assert!(scene.has(StatusKind::LeftOut));
    assert!(!provider.requests()[1].body["tools"].to_string().contains("a__fetch"));
}

#[tokio::test]
async fn reasoning_within_the_text_is_neither_shown_as_text_nor_sent_back() {
    for format in [Format::OpenAi, Format::Ollama] {
        let provider = Provider::new(vec![
            text("<think>\nA secret plan.\n</think>\n\nHello there."),
            text("<think>Nothing comes of it.</think>"),
        ]);
        let scene = Scene::new().await;
        let (model, mut talk) = (model(format, &provider), Conversation::default());
        let reason = scene.turn(Arc::clone(&model), &mut talk, "hi").await;
        assert_eq!(
            (reason, scene.text().as_str()),
            (DoneReason::End, "Hello there."),
            "{format:?}"
        );
        assert!(scene.has(StatusKind::Reasoning));
        let reason = scene.turn(model, &mut talk, "and now?").await;
        assert_eq!(reason, DoneReason::Empty, "{format:?}");
        let sent = provider.requests().pop().unwrap().body.to_string();
        assert!(sent.contains("Hello there.") && !sent.contains("secret"), "{sent}");
    }
}

#[tokio::test]
async fn an_address_that_is_not_the_api_is_told_at_once() {
    const PAGE: &str = "Content-Type: text/html\r\n";
    const MOVED: &str = "Location: https://other.example/v1\r\n";
    for (answer, words) in [
        (Answer::Status(200, PAGE, json!("<html>Sign in</html>")), "a page for browsers"),
        (Answer::Status(302, MOVED, json!(null)), "points to https://other.example/v1"),
    ] {
        let provider = Provider::new(vec![answer]);
        let scene = Scene::new().await;
        let model = model(Format::OpenAi, &provider);
        scene.turn(model, &mut Conversation::default(), "hi").await;
        let told = format!("{:?}", scene.events());
        assert!(told.contains(words), "{told}");
        assert_eq!(provider.requests().len(), 1, "asked once");
    }
}
