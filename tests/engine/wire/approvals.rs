//! A whole host with in-memory servers: in any interleaving of requests, answers, cancellations,
//! deaths and time, each request is answered once or withdrawn, and the wire messages agree.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcpdeck::config::{ApprovalRule, McpConfig, ServerConfig};
use mcpdeck::error::ErrorCode;
use mcpdeck::host::{
    ApprovalRequest, CallOptions, Decider, Fact, Host, HostView, Origin, RuleKind, SessionRule,
    Settlement,
};
use mcpdeck::protocol::{Answer, ApprovalId};
use proptest::prelude::*;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::wire::world::{Do, World, in_memory};

struct Stage {
    host: Host,
    world: World,
    next: u64,
    /// Cancels each request of ours: its call in the modern era.
    calls: BTreeMap<u64, CancellationToken>,
    /// Requests whose session died or was closed.
    orphaned: Vec<u64>,
    /// The call of each request, by its id on the wire.
    wire: BTreeMap<u64, serde_json::Value>,
    /// The open requests when the user last viewed them.
    looked_at: Vec<(ApprovalId, u64)>,
    config: McpConfig,
    view: tokio::sync::watch::Receiver<Arc<HostView>>,
}

async fn stage(modern: bool) -> Stage {
    let world = World { modern, seen: Arc::default(), server: Arc::default() };
    let mut server = ServerConfig::new("s".into(), in_memory());
    server.request_timeout = Duration::from_secs(5);
    server.wire.max_waiting = Duration::from_secs(120);
    let mut config = McpConfig::default();
    config.servers.insert("s".into(), server);
    let host = Host::builder()
        .config(config.clone())
        .connector(world.clone())
        .person_answers()
        .initialize()
        .await
        .unwrap();
    let view = host.view();
    Stage {
        host,
        world,
        next: 1,
        calls: BTreeMap::new(),
        orphaned: Vec::new(),
        wire: BTreeMap::new(),
        looked_at: Vec::new(),
        config,
        view,
    }
}

impl Stage {
    async fn breathe(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    async fn tell(&self, order: Do) {
        let server = self.world.server.lock().unwrap().clone();
        if let Some(server) = server {
            let _ = server.send(order).await;
        }
    }

    fn call(&self) -> CancellationToken {
        let cancel = CancellationToken::new();
        let options = CallOptions {
            cancel: cancel.clone(),
            origin: Origin::Dashboard,
            ..CallOptions::default()
        };
        let host = self.host.clone();
        tokio::spawn(async move { host.call_tool_with("s.echo", json!({}), options).await });
        cancel
    }

    /// The server sends a request during a call.
    async fn ask(&mut self, kind: u8) {
        let n = self.next;
        self.next += 1;
        let (method, params) = match kind % 3 {
            0 => ("sampling/createMessage", json!({"n": n, "messages": [], "maxTokens": 1})),
            1 => ("elicitation/create", json!({"n": n, "mode": "form", "message": "?"})),
            _ => ("elicitation/create", json!({"n": n, "mode": "url", "url": "https://a.example"})),
        };
        self.calls.insert(n, self.call());
        self.breathe().await;
        let call = self.world.seen.lock().unwrap().calls.pop();
        self.wire.extend(call.clone().map(|id| (n, id)));
        let message = match call {
            Some(id) if self.world.modern => {
                let mut inputs = serde_json::Map::new();
                inputs.insert(n.to_string(), json!({"method": method, "params": params}));
                json!({"jsonrpc": "2.0", "id": id,
                    "result": {"resultType": "input_required", "inputRequests": inputs}})
            }
            _ if self.world.modern => return,
            _ => json!({"jsonrpc": "2.0", "id": n, "method": method, "params": params}),
        };
        self.tell(Do::Send(message)).await;
    }

    /// Picks one of the open requests in the current view.
    fn pick(&self, which: u8) -> Option<(ApprovalId, u64)> {
        let view = self.view.borrow();
        let at = usize::from(which) % view.pending.len().max(1);
        let (id, request) = view.pending.get_index(at)?;
        Some((*id, request.params["n"].as_u64().unwrap()))
    }

    async fn play(&mut self, op: Op) {
        match op {
            Op::Ask(kind) => self.ask(kind).await,
            Op::Answer(which, how) => {
                let Some((id, n)) = self.pick(which) else { return };
                let answer = match how % 3 {
                    0 => Answer::Refuse { code: -1, message: format!("person {n}") },
                    1 => Answer::Result(json!({"action": "decline", "person": n})),
                    _ => Answer::Result(json!({"action": "accept", "person": n})),
                };
                let _ = self.host.answer(id, answer);
            }
            Op::Cancel(which) => {
                let Some((_, n)) = self.pick(which) else { return };
                if self.world.modern {
                    self.calls[&n].cancel();
                } else {
                    let params = json!({"requestId": n, "reason": "never mind"});
                    let method = "notifications/cancelled";
                    let notice = json!({"jsonrpc": "2.0", "method": method, "params": params});
                    self.tell(Do::Send(notice)).await;
                }
            }
            Op::GiveUp(which) => {
                if let Some((_, n)) = self.pick(which) {
                    self.calls[&n].cancel();
                }
            }
            Op::Finish(which) => {
                let Some((_, n)) = self.pick(which).filter(|_| !self.world.modern) else { return };
                let Some(id) = self.wire.remove(&n) else { return };
                let result = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
                self.tell(Do::Send(result)).await;
            }
            Op::DenyAll => {
                let number = |request: &ApprovalRequest| request.params["n"].as_u64().unwrap();
                let now =
                    self.view.borrow().pending.iter().map(|(id, r)| (*id, number(r))).collect();
                // Denies the requests seen then; some may have been settled since.
                for (id, n) in std::mem::replace(&mut self.looked_at, now) {
                    let answer = Answer::Refuse { code: -1, message: format!("person {n}") };
                    let _ = self.host.answer(id, answer);
                }
            }
            Op::Rule(which) => {
                let kinds = [RuleKind::Sampling, RuleKind::Elicitation];
                let kind = kinds[usize::from(which) % 2];
                let canned = ApprovalRule::Canned(json!({"action": "accept", "ruled": true}));
                let left = Some(u32::from(which) % 4);
                let rule = (which < 200).then_some(SessionRule { rule: canned, left });
                let _ = self.host.set_approval_rule(&"s".into(), kind, rule);
            }
            Op::Remove => {
                self.orphaned.extend(1..self.next);
                let _ = self.host.reload(McpConfig::default()).await;
                assert!(self.view.borrow().pending.is_empty(), "its requests go with the server");
                let _ = self.host.reload(self.config.clone()).await;
            }
            Op::Extend(which) => {
                if let Some((id, _)) = self.pick(which) {
                    let _ = self.host.extend_request(id, Duration::from_secs(60));
                }
            }
            Op::Die | Op::Restart => {
                self.orphaned.extend(1..self.next);
                if matches!(op, Op::Die) {
                    self.tell(Do::Die).await;
                    self.breathe().await;
                }
                let _ = self.host.restart(&"s".into()).await;
            }
            Op::Wait(seconds) => tokio::time::sleep(Duration::from_secs(seconds.into())).await,
            Op::Breathe => self.breathe().await,
        }
    }

    /// Checks that every request ended once, and that wire and journal agree.
    async fn check(self) {
        tokio::time::sleep(Duration::from_millis(50)).await;
        self.host.shutdown().await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut arrived = BTreeMap::new();
        let mut settled: BTreeMap<ApprovalId, Vec<Settlement>> = BTreeMap::new();
        for record in self.host.facts().tail(usize::MAX) {
            match &record.fact {
                Fact::RequestArrived { request } => {
                    arrived.insert(request.id, request.params["n"].as_u64().unwrap());
                }
                Fact::RequestSettled { id, settlement, .. } => {
                    settled.entry(*id).or_default().push(settlement.clone());
                }
                _ => {}
            }
        }
        let seen = self.world.seen.lock().unwrap();
        assert!(self.view.borrow().pending.is_empty(), "something is still open");
        for (id, n) in &arrived {
            let ends = settled.get(id).map_or(&[][..], Vec::as_slice);
            assert_eq!(ends.len(), 1, "request {n} ended {ends:?}");
            let replies = seen.replies.get(n).map_or(&[][..], Vec::as_slice);
            assert!(replies.len() <= 1, "request {n} was answered {replies:?}");
            let says = |word: &str| replies.iter().any(|reply| reply.to_string().contains(word));
            match &ends[0] {
                Settlement::Answered { by, .. } => {
                    let lost = self.orphaned.contains(n) || self.world.modern;
                    let word = if *by == Decider::Person { "person" } else { "ruled" };
                    assert!(lost || says(word), "request {n} was settled, not answered");
                }
                Settlement::Withdrawn { reason } => {
                    let decided = says("person") || says("ruled");
                    assert!(!decided, "request {n} was answered after: {reason}");
                    // A server that still waits is told that there was no decision.
                    let told = ["in time", "call that asked ended", "its session ended"];
                    let told = told.iter().any(|why| reason.contains(why));
                    assert!(told || replies.is_empty(), "request {n}: {reason}, {replies:?}");
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Ask(u8),
    Answer(u8, u8),
    /// The server cancels its request; in the modern era the caller cancels its call.
    Cancel(u8),
    /// The caller cancels the call that caused the request.
    GiveUp(u8),
    /// The server answers that call even with requests open.
    Finish(u8),
    /// Deny all requests that were open at the last view.
    DenyAll,
    /// Add a session rule for later requests.
    Rule(u8),
    Extend(u8),
    /// Reload the configuration without the server, and again with it.
    Remove,
    Die,
    Restart,
    Wait(u8),
    Breathe,
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        6 => any::<u8>().prop_map(Op::Ask),
        6 => (any::<u8>(), any::<u8>()).prop_map(|(which, how)| Op::Answer(which, how)),
        4 => any::<u8>().prop_map(Op::Cancel),
        2 => any::<u8>().prop_map(Op::GiveUp),
        2 => any::<u8>().prop_map(Op::Finish),
        1 => Just(Op::DenyAll),
        1 => any::<u8>().prop_map(Op::Rule),
        1 => any::<u8>().prop_map(Op::Extend),
        1 => Just(Op::Remove),
        1 => Just(Op::Die),
        1 => Just(Op::Restart),
        2 => (0u8..200).prop_map(Op::Wait),
        6 => Just(Op::Breathe),
    ];
    proptest::collection::vec(op, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn each_request_is_answered_exactly_once_or_withdrawn_never_both(
        modern in any::<bool>(),
        ops in ops(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut stage = stage(modern).await;
            for op in ops {
                stage.play(op).await;
            }
            stage.check().await;
        });
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_two_minutes_for_a_person_within_five_seconds_of_its_own() {
    for modern in [false, true] {
        let mut stage = stage(modern).await;
        let host = stage.host.clone();
        stage.world.seen.lock().unwrap().calls.clear();
        let calling = tokio::spawn(async move {
            host.call_tool_with("s.echo", json!({}), CallOptions::default()).await
        });
        stage.breathe().await;
        let id = stage.world.seen.lock().unwrap().calls.pop().unwrap();
        let params = json!({"n": 7, "message": "?"});
        let message = if modern {
            let inputs = json!({"7": {"method": "elicitation/create", "params": params}});
            json!({"jsonrpc": "2.0", "id": id,
                "result": {"resultType": "input_required", "inputRequests": inputs}})
        } else {
            json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": params})
        };
        stage.tell(Do::Send(message)).await;
        let pending = stage.view.wait_for(|view| !view.pending.is_empty()).await.unwrap().clone();
        tokio::time::sleep(Duration::from_secs(120)).await;
        let answer = Answer::Result(json!({"action": "accept", "content": {"who": "person"}}));
        stage.host.answer(*pending.pending.keys().next().unwrap(), answer).unwrap();
        stage.breathe().await;
        if !modern {
            let done = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
            stage.tell(Do::Send(done)).await;
        }
        let outcome = calling.await.unwrap().unwrap();
        assert_eq!(outcome.waiting.as_secs(), 120, "modern: {modern}");
        assert!(
            outcome.duration < Duration::from_secs(1),
            "modern: {modern}: {:?}",
            outcome.duration
        );
        stage.check().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_silent_for_six_seconds_times_out_after_five() {
    for modern in [false, true] {
        let stage = stage(modern).await;
        let began = tokio::time::Instant::now();
        let silent = stage.host.call_tool("s.echo", json!({})).await.unwrap_err();
        assert_eq!(silent.code, ErrorCode::Timeout);
        assert_eq!(began.elapsed().as_secs(), 5, "modern: {modern}");
        stage.host.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_a_withdrawn_request_is_refused_and_nothing_is_sent() {
    let mut stage = stage(false).await;
    stage.ask(0).await;
    stage.view.wait_for(|view| !view.pending.is_empty()).await.unwrap();
    let (id, _) = stage.pick(0).unwrap();
    stage.play(Op::Cancel(0)).await;
    stage.view.wait_for(|view| view.pending.is_empty()).await.unwrap();
    let refused = stage.host.answer(id, Answer::Result(json!({"person": 1}))).unwrap_err();
    assert_eq!(refused.code, ErrorCode::Cancelled);
    assert!(refused.message.contains("nothing was sent"));
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(stage.world.seen.lock().unwrap().replies.is_empty());
    stage.check().await;
}

#[tokio::test(start_paused = true)]
async fn changed_roots_are_reported_to_the_server_and_given_when_it_asks() {
    let mut stage = stage(false).await;
    let root = mcpdeck::config::RootConfig { uri: "file:///work".into(), name: Some("w".into()) };
    stage.host.set_roots(&"s".into(), vec![root.clone()]).unwrap();
    stage
        .view
        .wait_for(|view| view.servers.values().any(|s| s.roots == [root.clone()]))
        .await
        .unwrap();
    stage.breathe().await;
    assert_eq!(stage.world.seen.lock().unwrap().roots_changed, 1);
    let ask = json!({"jsonrpc": "2.0", "id": 99, "method": "roots/list"});
    stage.tell(Do::Send(ask)).await;
    stage.breathe().await;
    let replies = stage.world.seen.lock().unwrap().replies[&99].clone();
    assert_eq!(replies[0]["result"]["roots"], json!([{"uri": "file:///work", "name": "w"}]));
    stage.host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_count_no_human_time_while_the_question_of_another_call_is_open() {
    let mut stage = stage(false).await;
    let call = || {
        let host = stage.host.clone();
        tokio::spawn(async move { host.call_tool("s.echo", json!({})).await })
    };
    let ask = |n: u64| {
        let params = json!({"n": n, "message": "?"});
        Do::Send(
            json!({"jsonrpc": "2.0", "id": n, "method": "elicitation/create", "params": params}),
        )
    };
    let first = call();
    stage.breathe().await;
    let id = stage.world.seen.lock().unwrap().calls.pop().unwrap();
    let second = call();
    stage.breathe().await;
    // Ambiguous: the server does not name the call of its request.
    stage.tell(ask(7)).await;
    stage.tell(ask(8)).await;
    stage.view.wait_for(|view| view.pending.len() == 2).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let done = json!({"jsonrpc": "2.0", "id": id, "result": {"content": []}});
    stage.tell(Do::Send(done)).await;
    let outcome = first.await.unwrap().unwrap();
    assert!(outcome.waiting >= Duration::from_secs(60), "{:?}", outcome.waiting);
    let metrics = stage.host.get_metrics();
    let latency = metrics[0].1.total.latency.expect("one call ended");
    assert!(latency.p95 < Duration::from_secs(1), "{latency:?}");
    second.abort();
    stage.host.shutdown().await;
}
