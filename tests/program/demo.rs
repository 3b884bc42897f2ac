//! The demo's servers under the real engine: everything the dashboard shows can be reached.

use std::sync::Arc;
use std::time::Duration;

use crate::support::bin;
use futures::FutureExt;
use futures::future::BoxFuture;
use mcpdeck::ErrorCode;
use mcpdeck::base::ServerName;
use mcpdeck::host::{ApprovalRequest, CallOptions, Host, RequestHandler, ServerState, Startup};
use mcpdeck::protocol::{Answer, RequestKind};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// A person who answers everything in the same way.
struct Agreeable;

impl RequestHandler for Agreeable {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let result = match request.kind {
            RequestKind::Sampling => json!({"role": "assistant", "model": "by hand",
                "content": {"type": "text", "text": "Fasten your seat belts."}}),
            RequestKind::Elicitation => {
                json!({"action": "accept", "content": {"name": "Ada", "row": 12, "seat": "window",
                    "squawk": "7000", "answer": "yes"}})
            }
            _ => json!({"action": "decline"}),
        };
        async move { Some(Answer::Result(result)) }.boxed()
    }
}

async fn deck() -> Host {
    let host = Host::builder()
        .config(mcpdeck::demo::config(bin()))
        .startup(Startup::All)
        .handler(Agreeable)
        .initialize()
        .await;
    host.unwrap_or_else(|error| panic!("{error}"))
}

async fn text(host: &Host, tool: &str, arguments: Value) -> String {
    let outcome = host.call_tool(tool, arguments).await;
    let outcome = outcome.unwrap_or_else(|error| panic!("{tool}: {error}"));
    assert!(outcome.output_violations.is_empty(), "{tool}: {:?}", outcome.output_violations);
    outcome.result["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_atlas_plans_draws_prompts_and_completes() {
    let host = deck().await;
    let plan = json!({"route": ["ZRH", "KEF"], "aircraft": {"kind": "turboprop", "knots": 300},
        "passengers": [{"name": "Ada", "seat": "12C"}], "cargo": {"mail": 30}});
    assert!(text(&host, "atlas.plan_flight", plan).await.contains("\"nauticalMiles\":1421"));
    let wrong = json!({"route": ["ZRH"], "aircraft": {"kind": "rocket"}, "remarks": 5});
    let error = host.call_tool("atlas.plan_flight", wrong).await.expect_err("three violations");
    assert_eq!(error.code, ErrorCode::Validation);
    assert!(error.violations.len() >= 3, "{error}");
    let chart = host.call_tool("atlas.draw_chart", json!({})).await;
    let chart = chart.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(chart.result["content"][1]["mimeType"], "image/png");
    let heavy =
        json!({"stations": {"front": 400, "rear": 300}, "aerobatic": true, "parachutes": 1});
    let heavy = host.call_tool("atlas.load_sheet", heavy);
    assert!(heavy.await.unwrap_or_else(|error| panic!("{error}")).is_error);

    let prompt = host.get_prompt("atlas.briefing", json!({"from": "ZRH", "to": "KEF"})).await;
    assert!(prompt.is_ok(), "{prompt:?}");
    let metar = host.get_resource("atlas://metar/KEF").await;
    let metar = metar.unwrap_or_else(|error| panic!("{error}"));
    assert!(metar.result.to_string().contains("KEF 141200Z"), "{}", metar.result);
    let params = json!({"ref": {"type": "ref/prompt", "name": "briefing"},
        "argument": {"name": "from", "value": "s"}});
    let found = host.complete(&ServerName::new("atlas"), params, CallOptions::default()).await;
    let found = found.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found.result["completion"]["values"], json!(["SFO", "SIN", "SYD"]));
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_crew_and_the_beacon_ask_in_both_eras_and_use_the_answers() {
    let host = deck().await;
    let said = text(&host, "crew.draft_announcement", json!({"occasion": "landing"})).await;
    assert_eq!(said, "The purser reads: Fasten your seat belts.");
    let said = text(&host, "crew.check_in", json!({})).await;
    assert!(said.starts_with("Boarding pass MD117") && said.contains("Ada"), "{said}");
    let said = text(&host, "crew.sign_waiver", json!({})).await;
    assert_eq!(said, "The passenger chose: decline");
    assert!(text(&host, "crew.inspect_folders", json!({})).await.starts_with("Shared: "));
    let said = text(&host, "beacon.request_clearance", json!({"callsign": "HB-XYZ"})).await;
    assert_eq!(said, "HB-XYZ, squawk 7000, cleared for take-off runway 28.");
    let said = text(&host, "beacon.phrase_reply", json!({"call": "ready"})).await;
    assert_eq!(said, "Tower: Fasten your seat belts.");
    let (sender, mut progress) = tokio::sync::mpsc::channel(64);
    let options = CallOptions { progress: Some(sender), ..CallOptions::default() };
    let fuel = host.call_tool_with("crew.refuel", json!({"kilograms": 10}), options).await;
    assert!(fuel.is_ok(), "{fuel:?}");
    let first = progress.recv().await.expect("progress");
    assert_eq!(first.total, Some(20.0));
    host.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_gremlin_misbehaves_on_demand_and_comes_back() {
    let host = deck().await;
    let gremlin = ServerName::new("gremlin");
    text(&host, "gremlin.babble", json!({})).await;
    text(&host, "gremlin.shuffle_tools", json!({})).await;
    let mut view = host.view();
    let changed = view.wait_for(|view| view.servers[&gremlin].changes.is_some());
    tokio::time::timeout(Duration::from_secs(10), changed).await.expect("in time").expect("a host");
    assert!(text(&host, "gremlin.whistle", json!({"tune": "la"})).await.contains("la"));
    host.restart(&gremlin).await.unwrap_or_else(|error| panic!("{error}"));

    let error = host.call_tool("gremlin.crash", json!({"how": "exit"})).await;
    let error = error.expect_err("it dies in the call");
    assert!(error.message.contains("exit code 3"), "{error}");
    let back = view.wait_for(|view| {
        let gremlin = &view.servers[&gremlin];
        gremlin.state == ServerState::Ready && gremlin.restarts >= 2
    });
    tokio::time::timeout(Duration::from_secs(15), back).await.expect("in time").expect("a host");
    for how in ["wrong id", "no JSON", "too deep", "result and error"] {
        let arguments = json!({"how": how});
        let options =
            CallOptions { timeout: Some(Duration::from_secs(3)), ..CallOptions::default() };
        let outcome = host.call_tool_with("gremlin.answer_wrongly", arguments, options).await;
        assert!(outcome.is_err(), "{how}: {outcome:?}");
        let _ = host.restart(&gremlin).await;
    }
    let dig_in = text(&host, "gremlin.dig_in", json!({})).await;
    assert!(dig_in.starts_with("I am not leaving"), "{dig_in}");
    let report = host.shutdown().await;
    let (_, exit) = report.exits.iter().find(|(name, _)| *name == gremlin).expect("it ended");
    assert_eq!(exit.ladder.as_deref(), Some("kill"), "{exit:?}");
    let child = dig_in.trim_end_matches('.').rsplit(' ').next().expect("its id");
    assert!(!crate::support::lives(child), "its child {child} went with it");
}

#[cfg(feature = "chat")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_script_of_the_chat_plays_every_question_with_real_calls() {
    use mcpdeck::chat::{Agent, ChatEvent, Conversation, DoneReason, LanguageModel, Scripted};
    use mcpdeck::host::{Origin, Principal};

    let script: Arc<dyn LanguageModel> =
        Arc::new(Scripted::parse(mcpdeck::demo::CHAT_SCRIPT).unwrap());
    let questions = script.suggestions();
    assert!(questions.len() >= 5, "{questions:?}");
    // Once with consent, and once without: then nothing that changes something is called.
    for consents in [true, false] {
        let host = Host::builder().config(mcpdeck::demo::config(bin())).startup(Startup::All);
        let host = host.handler(Passenger { consents }).initialize().await;
        let host = host.unwrap_or_else(|error| panic!("{error}"));
        let who = Principal::new(Origin::Cli).with_session("demo");
        let agent = Agent::new(host.clone(), who, Arc::clone(&script));
        let mut failures = 0;
        for (n, question) in questions.iter().enumerate() {
            let events = std::sync::Mutex::new(Vec::new());
            let on_event = |event| events.lock().unwrap().push(event);
            let mut talk = Conversation::default();
            let asked = if consents { question.clone() } else { (n + 1).to_string() };
            let reason = agent.turn(&mut talk, &asked, &CancellationToken::new(), &on_event).await;
            let events = events.into_inner().unwrap();
            assert_eq!(reason, DoneReason::End, "{question}: {events:?}");
            let text = events.iter().filter_map(|event| match event {
                ChatEvent::Text { text } => Some(text.as_str()),
                _ => None,
            });
            let text: String = text.collect();
            assert!(text.contains("Scripted"), "{question}: {text}");
            assert!(!text.contains('?') && !text.contains("${"), "{question}: {text}");
            let failed =
                |event: &&ChatEvent| matches!(event, ChatEvent::ToolResult { is_error: true, .. });
            failures += events.iter().filter(failed).count();
            let calls = events.iter().filter(|event| matches!(event, ChatEvent::ToolResult { .. }));
            assert!(calls.count() >= 1, "{question}: {events:?}");
        }
        // One fails on purpose and is mended.
        assert_eq!(failures, if consents { 1 } else { 4 });
        host.shutdown().await;
    }
}

/// Fills in forms, and permits calls or does not.
#[cfg(feature = "chat")]
struct Passenger {
    consents: bool,
}

#[cfg(feature = "chat")]
impl RequestHandler for Passenger {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let answer = match request.kind {
            RequestKind::Elicitation => {
                json!({"action": "accept", "content": {"name": "Ada", "row": 12, "seat": "window"}})
            }
            _ if self.consents => json!({"action": "accept", "for": "once"}),
            _ => json!({"action": "decline"}),
        };
        async move { Some(Answer::Result(answer)) }.boxed()
    }
}
