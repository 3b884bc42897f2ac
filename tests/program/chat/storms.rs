//! Misbehaving models: loops, costs and storms of calls. The host, not the model, ends the turn.

use super::*;

fn answer(calls: impl Iterator<Item = (&'static str, String)>) -> Answer {
    Answer::Stream(calls.map(|(name, arguments)| Piece::Call(name, arguments.leak())).collect())
}

/// Number of calls that were sent to servers.
fn sent(scene: &Scene) -> usize {
    scene.events().iter().filter(|event| status(event) == Some(StatusKind::Running)).count()
}

fn status(event: &ChatEvent) -> Option<StatusKind> {
    match event {
        ChatEvent::Status { status, .. } => Some(*status),
        _ => None,
    }
}

/// Whether every requested call has exactly one result, so that the model can be asked again.
fn is_whole(talk: &Conversation) -> bool {
    let (mut wanted, mut given) = (Vec::new(), Vec::new());
    for message in &talk.messages {
        match message {
            ChatMessage::Assistant(reply) => {
                wanted.extend(reply.calls.iter().map(|c| c.id.clone()));
            }
            ChatMessage::Tool { id, .. } => given.push(id.clone()),
            ChatMessage::User { .. } => {}
        }
    }
    wanted == given
}

#[tokio::test]
async fn a_storm_of_calls_in_one_answer_ends_at_the_limit() {
    let storm = answer((0..200).map(|n| ("a__read", json!({"n": n}).to_string())));
    let provider = Provider::new(vec![storm]);
    let mut scene = Scene::new().await;
    scene.limits.calls = 20;
    let mut talk = Conversation::default();
    let model = model(Format::OpenAi, &provider);
    assert_eq!(scene.turn(model, &mut talk, "go").await, DoneReason::Budget);
    // Four at once, so the last batch may begin just below the limit.
    assert!((20..24).contains(&sent(&scene)), "{}", sent(&scene));
    assert_eq!(provider.requests().len(), 1, "the model is not asked again");
    assert!(is_whole(&talk));
}

#[tokio::test]
async fn a_storm_of_made_up_tools_sends_nothing_and_ends() {
    let storm = answer((0..9).map(|n| ("nothing__like_it", json!({"n": n}).to_string())));
    let provider = Provider::new(vec![storm]);
    let scene = Scene::new().await;
    for server in ["a", "b"] {
        scene.world.server(server).answers(|_, _| async { panic!("nothing may be called") });
    }
    let mut talk = Conversation::default();
    let model = model(Format::Anthropic, &provider);
    assert_eq!(scene.turn(model, &mut talk, "go").await, DoneReason::ToolErrors);
    assert_eq!((sent(&scene), provider.requests().len()), (0, 1));
    assert!(is_whole(&talk));
}

#[tokio::test]
async fn the_tokens_of_a_turn_have_a_limit() {
    let calls = (0..50).map(|n| answer([("a__read", json!({"n": n}).to_string())].into_iter()));
    let provider = Provider::new(calls.collect());
    let mut scene = Scene::new().await;
    // Each answer costs 11 + 7 tokens.
    scene.limits.tokens = 60;
    let mut talk = Conversation::default();
    let model = model(Format::Gemini, &provider);
    assert_eq!(scene.turn(model, &mut talk, "go").await, DoneReason::Budget);
    assert_eq!(provider.requests().len(), 4);
    let Some(ChatEvent::Done { usage, costs, .. }) = scene.events().pop() else { panic!() };
    assert_eq!((usage.input, usage.output), (44, 28));
    let a = costs.iter().find(|cost| cost.server.as_str() == "a").unwrap();
    assert_eq!((a.calls, costs.iter().map(|cost| cost.calls).sum::<u32>()), (4, 4));
    assert!(a.results > 0 && a.definitions > 0);
}

#[tokio::test]
async fn a_loop_that_takes_turns_between_two_calls_ends() {
    let calls = [r#"{"n": 1}"#, r#"{"n": 2}"#];
    let turns = (0..12).map(|n| call("a__read", calls[n % 2])).collect();
    let provider = Provider::new(turns);
    let scene = Scene::new().await;
    let mut talk = Conversation::default();
    let model = model(Format::OpenAi, &provider);
    assert_eq!(scene.turn(model, &mut talk, "go").await, DoneReason::Loop);
    assert_eq!(sent(&scene), 4);
    assert!(is_whole(&talk));
}

#[tokio::test]
async fn the_run_of_a_profile_has_its_budget_whatever_the_model_wants() {
    let policy = json!({
        "profiles": {"default": {"allow": ["a.read"], "limits": {"callsPerRun": 3, "callsAtOnce": 8}}},
    });
    let (scene, _keeper, _folder) = governed(policy).await;
    let storm = answer((0..9).map(|n| ("a__read", json!({"n": n}).to_string())));
    let provider = Provider::new(vec![storm, text("Enough.")]);
    let mut talk = Conversation::default();
    let model = model(Format::OpenAi, &provider);
    assert_eq!(scene.turn(model, &mut talk, "go").await, DoneReason::Budget);
    let made = scene.results().iter().filter(|(_, is_error, _)| !is_error).count();
    assert_eq!(made, 3, "{:?}", scene.results());
    assert!(is_whole(&talk));
}
