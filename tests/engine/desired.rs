//! Requests in both directions: roots, subscriptions and log levels to servers, and their
//! callbacks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpdeck::base::LogLevel;
use mcpdeck::config::{RootConfig, TransportConfig};
use mcpdeck::host::{ApprovalRequest, Decider, RequestHandler, ServerState, Settlement};
use mcpdeck::mcp::Request;
use mcpdeck::protocol::{Answer, ListKind, RequestKind, ServerRequest, SessionEvent};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::fake::{World, config, name, until};

#[tokio::test(start_paused = true)]
async fn subscriptions_and_log_levels_outlive_a_restart() {
    let world = World::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    world.server("a").answers(move |request, _| {
        noted.lock().unwrap().push(request);
        async { Ok(json!({})) }
    });
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    host.subscribe_resource(&name("a"), "x://1").await.expect("subscribed");
    host.subscribe_resource(&name("a"), "x://2").await.expect("subscribed");
    host.unsubscribe_resource(&name("a"), "x://2").await.expect("ended");
    host.set_log_level(&name("a"), LogLevel::Debug).await.expect("set");
    assert_eq!(host.subscriptions(&name("a")), [Arc::<str>::from("x://1")]);
    seen.lock().unwrap().clear();
    host.restart(&name("a")).await.expect("restarts");
    tokio::time::sleep(Duration::from_millis(1)).await;
    let renewed = Request::Subscribe { uri: "x://1".into() };
    assert_eq!(*seen.lock().unwrap(), [renewed]);
    assert_eq!(world.server("a").context().log_level, Some(LogLevel::Debug));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_forgot_its_session_is_reported_and_asked_everything_again() {
    let world = World::default();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let server = world.server("a");
    server.answers(move |request, _| {
        noted.lock().unwrap().push(request);
        async { Ok(json!({})) }
    });
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    host.subscribe_resource(&name("a"), "x://1").await.expect("subscribed");
    seen.lock().unwrap().clear();
    server.lists(ListKind::Tools, &[json!({"name": "new", "inputSchema": {}})]);
    server.tell(SessionEvent::Renewed).await;
    until(&host, |view| view.servers["a"].changes.is_some()).await;
    host.call_tool("a.new", Value::Null).await.expect("the new tool is known");
    let asked = seen.lock().unwrap().clone();
    assert!(asked.contains(&Request::Subscribe { uri: "x://1".into() }), "{asked:?}");
    assert_eq!(server.opens(), 1, "nothing was restarted");
}

/// Sends a request as a session would.
fn ask(world: &World, kind: RequestKind) -> BoxFuture<'static, Answer> {
    let context = world.server("a").context();
    context.approvals.ask(ServerRequest {
        server: name("a"),
        kind,
        call: None,
        candidates: vec![],
        params: Arc::new(json!({"messages": []})),
        bytes: 15,
        deferred: false,
        input: None,
        withdrawn: CancellationToken::new(),
        claim: Arc::default(),
    })
}

struct Always(Value);

impl RequestHandler for Always {
    fn handle(
        &self,
        _request: Arc<ApprovalRequest>,
        _withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let answer = Answer::Result(self.0.clone());
        async move { Some(answer) }.boxed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_registered_callback_answers_from_then_on() {
    let world = World::default();
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    let refused = ask(&world, RequestKind::Sampling).await;
    assert!(matches!(refused, Answer::Refuse { code: -32_000, .. }), "{refused:?}");
    host.register_callback(Always(json!({"role": "assistant"})));
    let answer = ask(&world, RequestKind::Sampling).await;
    assert_eq!(answer, Answer::Result(json!({"role": "assistant"})));
    until(&host, |view| view.settled.len() == 2).await;
    let settlement = host.view().borrow().settled[1].2.clone();
    assert!(matches!(settlement, Settlement::Answered { by: Decider::Callback, .. }));
}

#[tokio::test(start_paused = true)]
async fn roots_are_those_of_the_entry_until_others_are_shared() {
    let world = World::default();
    let mut servers = config(&[("a", &[])]);
    let root = |uri: &str| RootConfig { uri: uri.into(), name: None };
    servers.servers.get_mut("a").unwrap().roots = vec![root("file:///one")];
    let host = world.host(servers).initialize().await.expect("starts");
    let roots = async || match ask(&world, RequestKind::Roots).await {
        Answer::Result(result) => result["roots"][0]["uri"].clone(),
        refused @ Answer::Refuse { .. } => panic!("{refused:?}"),
    };
    assert_eq!(roots().await, "file:///one");
    host.set_roots(&name("a"), vec![root("file:///two")]).expect("it exists");
    assert_eq!(roots().await, "file:///two");
    assert_eq!(host.roots(&name("a")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn roots_follow_the_entry_of_a_server_that_runs_on_and_of_one_that_restarts() {
    let world = World::default();
    let mut servers = config(&[("a", &[])]);
    let host = world.host(servers.clone()).initialize().await.expect("starts");
    for (uri, opens) in [("file:///one", 1), ("file:///two", 2)] {
        let a = servers.servers.get_mut("a").unwrap();
        a.roots = vec![RootConfig { uri: uri.into(), name: None }];
        if let TransportConfig::Stdio(stdio) = &mut a.transport
            && opens == 2
        {
            stdio.args.push("--other".into());
        }
        host.reload(servers.clone()).await.expect("valid");
        until(&host, |view| view.servers["a"].state == ServerState::Ready).await;
        assert_eq!(world.server("a").opens(), opens);
        let answer = ask(&world, RequestKind::Roots).await;
        assert_eq!(answer, Answer::Result(json!({"roots": [{"uri": uri}]})));
    }
}

#[tokio::test(start_paused = true)]
async fn metrics_count_the_bytes_of_calls_and_tell_latencies() {
    let world = World::default();
    let host = world.host(config(&[("a", &[])])).initialize().await.expect("starts");
    for _ in 0..3 {
        host.call_tool("a.echo", Value::Null).await.expect("answers");
    }
    let metrics = &host.get_metrics()[0].1;
    let echo = &metrics.by_target["tools/call echo"];
    assert_eq!((echo.successes, echo.bytes_out, echo.bytes_in), (3, 30, 60));
    assert!(echo.latency.is_some() && metrics.total.last_used.is_some());
}
