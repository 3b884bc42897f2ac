//! Spontaneous changes are reported and recorded: lists, deaths, unreachable addresses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mcpdeck::base::text::SafeText;
use mcpdeck::config::{HttpConfig, RestartConfig, RestartPolicy, TransportConfig};
use mcpdeck::host::{Fact, Host, ServerState};
use mcpdeck::protocol::{ListKind, SessionEvent};
use mcpdeck::{Error, ErrorCode};
use serde_json::{Value, json};

use crate::fake::{World, config, name, state, until};

fn tool(name: &str, about: &str) -> Value {
    json!({"name": name, "description": about, "inputSchema": {"type": "object"}})
}

/// Changes the listed tools and waits until they are in the view.
async fn list(world: &World, host: &Host, tools: &[Value]) {
    let server = world.server("a");
    server.lists(ListKind::Tools, tools);
    server.tell(SessionEvent::ListChanged(ListKind::Tools)).await;
    let wanted: Vec<Value> = tools.to_vec();
    until(host, |view| {
        let listed = view.servers["a"].capabilities.tools.iter();
        listed.map(|tool| (*tool.raw).clone()).eq(wanted.iter().cloned())
    })
    .await;
}

fn marked(host: &Host) -> Vec<(String, Vec<String>)> {
    let view = host.snapshot();
    let Some((_, changes)) = &view.servers["a"].changes else { return Vec::new() };
    let pointers = |fields: &[mcpdeck::protocol::FieldChange]| {
        fields.iter().map(|field| field.pointer.clone()).collect()
    };
    changes.changed.iter().map(|(_, name, fields)| (name.to_string(), pointers(fields))).collect()
}

#[tokio::test(start_paused = true)]
async fn what_changed_is_marked_item_by_item_until_somebody_looked_at_it() {
    let world = World::default();
    world.server("a").lists(ListKind::Tools, &[tool("pay", "Pays"), tool("say", "Says")]);
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    list(&world, &host, &[tool("pay", "Pays twice"), tool("say", "Says")]).await;
    list(&world, &host, &[tool("pay", "Pays twice"), tool("say", "Says, loudly")]).await;
    list(&world, &host, &[tool("pay", "Pays"), tool("say", "Says, loudly"), tool("new", "")]).await;
    let about = || vec!["/description".to_owned()];
    assert_eq!(marked(&host), [("pay".to_owned(), about()), ("say".to_owned(), about())]);
    let logs: Vec<String> = host.logs().tail(50).iter().map(|log| log.text.to_string()).collect();
    let changed = "lists changed: tools: `say` changed in /description";
    assert!(logs.iter().any(|text| text == changed), "{logs:?}");

    host.changes_seen(&name("a"), Some((ListKind::Tools, SafeText::line("pay")))).expect("known");
    until(&host, |view| view.servers["a"].changes.as_ref().unwrap().1.changed.len() == 1).await;
    assert_eq!(marked(&host), [("say".to_owned(), about())]);
    host.changes_seen(&name("a"), None).expect("known");
    until(&host, |view| view.servers["a"].changes.is_none()).await;
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_a_list_that_changed_is_masked_as_in_the_first() {
    let world = World::default();
    let token = "open-sesame-narrow";
    world.server("a").lists(ListKind::Tools, &[tool("x", &format!("first {token}"))]);
    let mut servers = config(&[("a", &[])]);
    let entry = servers.servers.get_mut("a").unwrap();
    let TransportConfig::Stdio(stdio) = &mut entry.transport else { panic!("a process") };
    stdio.env.insert("ACCESS_TOKEN".into(), token.into());
    let host = world.host(servers).initialize().await.expect("starts");
    let about = || host.snapshot().servers["a"].capabilities.tools[0].raw["description"].clone();
    assert_eq!(about(), "first ***");
    world.server("a").lists(ListKind::Tools, &[tool("x", &format!("then {token}"))]);
    world.server("a").tell(SessionEvent::ListChanged(ListKind::Tools)).await;
    until(&host, |view| view.servers["a"].changes.is_some()).await;
    assert_eq!(about(), "then ***");
    let reported = format!("{:?} {:?}", host.snapshot().servers["a"].changes, host.logs().tail(50));
    assert!(!reported.contains(token), "{reported}");
}

#[tokio::test(start_paused = true)]
async fn lists_that_change_to_and_fro_are_one_state_and_one_line_of_the_log() {
    let world = World::default();
    world.server("a").lists(ListKind::Tools, &[tool("x", "A")]);
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    for round in 0..24 {
        let about = if round % 2 == 0 { "B" } else { "A" };
        list(&world, &host, &[tool("x", about)]).await;
    }
    assert!(host.snapshot().servers["a"].unstable.is_some());
    let logs: Vec<String> = host.logs().tail(200).iter().map(|log| log.text.to_string()).collect();
    let reported = logs.iter().filter(|text| text.contains("`x` changed")).count();
    let unstable = logs.iter().filter(|text| text.starts_with("definitions unstable")).count();
    assert!(reported < 6 && unstable == 1, "{logs:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_the_restarts_and_their_end_are_facts_of_their_own() {
    let world = World::default();
    let mut servers = config(&[("a", &[])]);
    servers.servers.get_mut("a").unwrap().restart =
        RestartConfig { policy: RestartPolicy::OnFailure, max: 2, backoff: Duration::from_secs(5) };
    let host = world.host(servers).initialize().await.expect("starts");
    for restarts in 1..=2 {
        world.server("a").die(9);
        until(&host, |view| view.servers["a"].restarts == restarts).await;
    }
    world.server("a").die(9);
    until(&host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    let reported: Vec<String> = host
        .facts()
        .tail(usize::MAX)
        .iter()
        .filter_map(|record| match &record.fact {
            Fact::Crashed { .. } => Some("crashed".to_owned()),
            Fact::RestartPlanned { number, max, .. } => Some(format!("{number} of {max}")),
            Fact::GivenUp { restarts, .. } => Some(format!("given up after {restarts}")),
            _ => None,
        })
        .collect();
    let wanted = ["crashed", "1 of 2", "crashed", "2 of 2", "crashed", "given up after 2"];
    assert_eq!(reported, wanted);
}

#[tokio::test(start_paused = true)]
async fn an_address_where_nobody_is_any_more_is_unavailable_until_somebody_is_there_again() {
    let world = World::default();
    let mut servers = config(&[("a", &[])]);
    let url = "http://127.0.0.1:9/mcp".parse().expect("a URL");
    let http = HttpConfig::new(url);
    servers.servers.get_mut("a").unwrap().transport = TransportConfig::Http(http);
    servers.servers.get_mut("a").unwrap().retry.max_retries = 0;
    let there = Arc::new(AtomicBool::new(true));
    let answers = Arc::clone(&there);
    let server = world.server("a");
    server.answers(move |_, _| {
        let there = answers.load(Ordering::SeqCst);
        async move {
            let refused = || Error::new(ErrorCode::ServerUnavailable, "connection refused");
            tokio::time::sleep(Duration::from_millis(20)).await;
            if there { Ok(json!({"content": []})) } else { Err(refused()) }
        }
    });
    let host = world.host(servers).initialize().await.expect("starts");
    host.call_tool("a.echo", json!({})).await.expect("somebody is there");

    there.store(false, Ordering::SeqCst);
    // Several calls fail when it goes away: enough to open its breaker.
    let calls = (0..9).map(|_| host.call_tool("a.echo", json!({})));
    for call in futures::future::join_all(calls).await {
        call.expect_err("nobody is there");
    }
    let breaker = || host.snapshot().servers["a"].breaker.clone();
    until(&host, |view| !view.servers["a"].breaker.is_closed()).await;
    *server.failures.lock().unwrap() = vec![true; 4];
    let error = host.call_tool("a.echo", json!({})).await.expect_err("nobody is there");
    assert_eq!(error.code, ErrorCode::ServerUnavailable);
    until(&host, |view| view.servers["a"].state == ServerState::Unavailable).await;
    let reason = host.snapshot().servers["a"].reason.clone().expect("it says why");
    assert!(reason.contains("connection refused"), "{reason}");
    for _ in 0..9 {
        host.call_tool("a.echo", json!({})).await.expect_err("nobody is there");
    }

    there.store(true, Ordering::SeqCst);
    until(&host, |view| view.servers["a"].state == ServerState::Ready).await;
    assert!(breaker().is_closed(), "{:?}", breaker());
    host.call_tool("a.echo", json!({})).await.expect("no breaker refuses it");
    assert_eq!(state(&host, "a"), ServerState::Ready);
}
