//! Rules, callbacks, user answers, withdrawal, floods and deadlines, on a paused clock.

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::approvals::{ApprovalRequest, Decider, RuleKind, SessionRule, Settlement};
use crate::projector::{self, Projection};
use base::{Clock, Ring};
use config::{ApprovalRule, ApprovalRules, RootConfig, ServerConfig, StdioConfig, TransportConfig};
use protocol::{Claim, FindingKind, RequestKind};

struct Rig {
    projection: Projection,
    approvals: QueueHandle,
}

impl Rig {
    fn new(handler: Option<Arc<dyn RequestHandler>>, person_answers: bool) -> Self {
        let projection = projector::start(Clock::system(), Ring::new(100, 100_000));
        let approvals = ApprovalQueue::new(projection.facts.clone(), handler, person_answers);
        Self { projection, approvals: QueueHandle(Arc::new(approvals)) }
    }

    fn ask(&self, kind: RequestKind) -> (BoxFuture<'static, Answer>, CancellationToken) {
        let withdrawn = CancellationToken::new();
        let request = ServerRequest {
            server: ServerName::new("s"),
            kind,
            call: None,
            candidates: vec![],
            params: Arc::new(json!({})),
            bytes: 2,
            deferred: false,
            input: None,
            withdrawn: withdrawn.clone(),
            claim: Arc::default(),
        };
        (self.approvals.ask(request), withdrawn)
    }

    async fn view(&self) -> Arc<crate::HostView> {
        self.projection.facts.flush().await;
        Arc::clone(&self.projection.view.borrow())
    }

    async fn pending(&self, count: usize) -> Vec<Arc<ApprovalRequest>> {
        let mut view = self.projection.view.clone();
        let view = view.wait_for(|view| view.pending.len() == count).await.expect("runs");
        view.pending.values().cloned().collect()
    }

    async fn last(&self) -> Settlement {
        self.view().await.settled.back().expect("one was settled").2.clone()
    }
}

fn config(approvals: ApprovalRules) -> ServerConfig {
    let stdio = StdioConfig {
        command: "x".into(),
        args: vec![],
        env: indexmap::IndexMap::default(),
        cwd: None,
        inherit_env: false,
        limits: config::ProcessLimits::default(),
    };
    let transport = TransportConfig::Stdio(stdio);
    ServerConfig {
        approvals: approvals.into(),
        ..ServerConfig::new(ServerName::new("s"), transport)
    }
}

struct Says(fn(&ApprovalRequest) -> Option<Answer>);

impl RequestHandler for Says {
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        let answer = self.0;
        Box::pin(async move { answer(&request) })
    }
}

#[tokio::test(start_paused = true)]
async fn without_anybody_nothing_is_answered_in_the_name_of_a_person() {
    let rig = Rig::new(None, false);
    for kind in [RequestKind::Sampling, RequestKind::Elicitation] {
        let Answer::Refuse { code, message } = rig.ask(kind).0.await else {
            panic!("nobody accepted or declined")
        };
        assert_eq!(code, UNANSWERED_CODE, "not the code of a user's refusal");
        assert!(
            message.ends_with("was answered by nobody: nobody is there to answer"),
            "{message}"
        );
    }
    assert_eq!(rig.ask(RequestKind::Roots).0.await, Answer::Result(json!({"roots": []})));
    let other = rig.ask(RequestKind::Other("x/y".into())).0.await;
    assert!(matches!(other, Answer::Refuse { code: RpcCode::METHOD_NOT_FOUND, .. }), "{other:?}");
    assert_eq!(rig.view().await.settled.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_method_that_no_client_has_bothers_nobody_while_no_call_is_in_flight() {
    let rig = Rig::new(None, true);
    let refused = rig.ask(RequestKind::Other("log".into())).0.await;
    assert!(
        matches!(refused, Answer::Refuse { code: RpcCode::METHOD_NOT_FOUND, .. }),
        "{refused:?}"
    );
    let (answer, _withdrawn) = rig.ask(RequestKind::Sampling);
    let waiting = tokio::spawn(answer);
    assert_eq!(rig.pending(1).await[0].kind, RequestKind::Sampling);
    waiting.abort();
}

fn declined() -> Answer {
    Answer::Result(json!({"action": "decline"}))
}

#[tokio::test(start_paused = true)]
async fn rules_of_the_entry_decide_before_everybody_and_say_so() {
    let rig = Rig::new(Some(Arc::new(Says(|_| panic!("must not be asked")))), true);
    let canned = json!({"role": "assistant"});
    rig.approvals.0.configure(&config(ApprovalRules {
        sampling: ApprovalRule::Canned(canned.clone()),
        elicitation: ApprovalRule::Deny,
        ..ApprovalRules::default()
    }));
    assert_eq!(rig.ask(RequestKind::Sampling).0.await, Answer::Result(canned));
    assert_eq!(rig.ask(RequestKind::UrlElicitation).0.await, declined());
    let Settlement::Answered { by: Decider::Rule(rule), how } = rig.last().await else {
        panic!("a rule decided")
    };
    assert!(rule.contains("deny") && how == "decline", "{rule} {how}");
}

#[tokio::test(start_paused = true)]
async fn leave_to_ask_outside_calls_is_given_by_the_entry_and_taken_back_with_it() {
    let rig = Rig::new(None, true);
    let server = ServerName::new("s");
    assert_eq!(rig.approvals.outside_calls(&server), OutsideCalls::Deny, "a server nobody knows");
    for word in [OutsideCalls::Allow, OutsideCalls::Deny] {
        let rules = ApprovalRules { outside_calls: word, ..ApprovalRules::default() };
        rig.approvals.0.configure(&config(rules));
        assert_eq!(rig.approvals.outside_calls(&server), word);
    }
}

#[tokio::test(start_paused = true)]
async fn a_person_answers_through_the_view_and_only_once() {
    let rig = Rig::new(None, true);
    let asking = tokio::spawn(rig.ask(RequestKind::Elicitation).0);
    let id = rig.pending(1).await[0].id;
    let answer = Answer::Result(json!({"action": "accept", "content": {}}));
    rig.approvals.0.answer(id, answer.clone()).expect("it waits");
    assert_eq!(asking.await.expect("no panic"), answer);
    let again = rig.approvals.0.answer(id, answer).expect_err("it is settled");
    assert_eq!(again.code, ErrorCode::Cancelled);
    assert_eq!(
        rig.last().await,
        Settlement::Answered { by: Decider::Person, how: "accept".into() }
    );
    assert!(rig.view().await.pending.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_a_dropped_and_a_late_request_leave_the_view() {
    let rig = Rig::new(None, true);
    let (asking, withdrawn) = rig.ask(RequestKind::Sampling);
    let asking = tokio::spawn(asking);
    let id = rig.pending(1).await[0].id;
    withdrawn.cancel();
    asking.await.expect("no panic");
    assert!(rig.approvals.0.answer(id, declined()).is_err());
    assert!(matches!(rig.last().await, Settlement::Withdrawn { .. }));

    let asking = tokio::spawn(rig.ask(RequestKind::Sampling).0);
    rig.pending(1).await;
    asking.abort();
    rig.pending(0).await;
    assert!(matches!(rig.last().await, Settlement::Withdrawn { .. }));

    // The paused clock advances automatically: it times out after an hour.
    let refused = rig.ask(RequestKind::Sampling).0.await;
    assert!(matches!(refused, Answer::Refuse { .. }));
    let Settlement::Withdrawn { reason } = rig.last().await else { panic!("given up") };
    assert_eq!(&*reason, "nobody answered in time");
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_refused_beyond_the_bound_and_reported_once() {
    let rig = Rig::new(None, true);
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..500 {
        asking.spawn(rig.ask(RequestKind::Sampling).0);
    }
    for _ in 0..468 {
        let answer = asking.join_next().await.expect("refused").expect("no panic");
        assert!(matches!(answer, Answer::Refuse { .. }));
    }
    let view = rig.view().await;
    assert_eq!(view.pending.len(), 32);
    assert_eq!(view.servers["s"].finding_counts[&FindingKind::Flood], 1);
    asking.abort_all();
    rig.pending(0).await;
}

#[tokio::test(start_paused = true)]
async fn a_callback_answers_passes_on_or_panics_without_harm() {
    let rig = Rig::new(
        Some(Arc::new(Says(|request| match request.kind {
            RequestKind::Sampling => Some(Answer::Result(Value::Null)),
            RequestKind::Other(_) => panic!("boom"),
            _ => None,
        }))),
        false,
    );
    assert_eq!(rig.ask(RequestKind::Sampling).0.await, Answer::Result(Value::Null));
    let passed_on = rig.ask(RequestKind::Elicitation).0.await;
    assert!(matches!(passed_on, Answer::Refuse { code: UNANSWERED_CODE, .. }), "{passed_on:?}");
    assert!(matches!(rig.ask(RequestKind::Other("x".into())).0.await, Answer::Refuse { .. }));
    let view = rig.view().await;
    assert!(view.failures[0].2.contains("boom"), "{:?}", view.failures);
}

#[tokio::test(start_paused = true)]
async fn configured_roots_are_shared_until_others_are_set() {
    let rig = Rig::new(None, false);
    let root = |uri: &str| RootConfig { uri: uri.into(), name: None };
    let server = ServerName::new("s");
    rig.approvals.0.configure(&ServerConfig {
        roots: vec![root("file:///a")],
        ..config(ApprovalRules::default())
    });
    let roots = |answer| match answer {
        Answer::Result(value) => value["roots"][0]["uri"].clone(),
        Answer::Refuse { .. } => panic!("roots are not refused"),
    };
    assert_eq!(roots(rig.ask(RequestKind::Roots).0.await), "file:///a");
    rig.approvals.0.set_roots(&server, vec![root("file:///b")]);
    assert_eq!(roots(rig.ask(RequestKind::Roots).0.await), "file:///b");
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_the_session_decides_the_next_requests_and_then_the_person_is_asked_again() {
    let rig = Rig::new(None, true);
    let server = ServerName::new("s");
    let canned = json!({"action": "accept", "content": {}});
    let rule = SessionRule { rule: ApprovalRule::Canned(canned.clone()), left: Some(2) };
    rig.approvals.0.set_rule(&server, RuleKind::Elicitation, Some(rule));
    for left in [Some(1), None] {
        let (answer, _) = rig.ask(RequestKind::Elicitation);
        assert_eq!(answer.await, Answer::Result(canned.clone()));
        let view = rig.view().await;
        let rules = &view.servers[&server].approval_rules;
        assert_eq!(rules.get(&RuleKind::Elicitation).and_then(|rule| rule.left), left);
    }
    assert!(matches!(rig.last().await, Settlement::Answered { by: Decider::Rule(_), .. }));
    let (answer, _) = rig.ask(RequestKind::Elicitation);
    let waiting = tokio::spawn(answer);
    let request = rig.pending(1).await.remove(0);
    rig.approvals
        .0
        .answer(request.id, Answer::Result(json!({"action": "cancel"})))
        .expect("it waits");
    assert_eq!(waiting.await.expect("no panic"), Answer::Result(json!({"action": "cancel"})));
}

#[tokio::test(start_paused = true)]
async fn a_session_rule_of_one_kind_leaves_the_other_alone_and_ask_overrules_the_entry() {
    let rig = Rig::new(None, true);
    let denies = ApprovalRules { sampling: ApprovalRule::Deny, ..ApprovalRules::default() };
    rig.approvals.0.configure(&config(denies));
    let ask = SessionRule { rule: ApprovalRule::Ask, left: None };
    rig.approvals.0.set_rule(&ServerName::new("s"), RuleKind::Sampling, Some(ask));
    let (answer, _) = rig.ask(RequestKind::Sampling);
    let waiting = tokio::spawn(answer);
    let request = rig.pending(1).await.remove(0);
    rig.approvals.0.answer(request.id, Answer::Result(json!({}))).expect("it waits");
    assert_eq!(waiting.await.expect("no panic"), Answer::Result(json!({})));
    rig.approvals.0.set_rule(&ServerName::new("s"), RuleKind::Sampling, None);
    let (answer, _) = rig.ask(RequestKind::Sampling);
    assert!(matches!(answer.await, Answer::Refuse { .. }));
}

#[tokio::test(start_paused = true)]
async fn more_time_puts_the_end_off_and_is_reported() {
    let rig = Rig::new(None, true);
    let (asking, _withdrawn) = rig.ask(RequestKind::Sampling);
    let asking = tokio::spawn(asking);
    let request = rig.pending(1).await.remove(0);
    let more = Duration::from_secs(600);
    let deadline = rig.approvals.0.extend(request.id, more).expect("it waits");
    assert_eq!(deadline, request.deadline.plus(more));
    assert_eq!(rig.view().await.pending[&request.id].deadline, deadline);
    tokio::time::sleep(Duration::from_secs(3_600 + 599)).await;
    assert_eq!(rig.view().await.pending.len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(matches!(asking.await, Ok(Answer::Refuse { .. })));
    assert!(rig.approvals.0.extend(request.id, more).is_err());
    let day = ApprovalQueue::MAX_APPROVAL_TIMEOUT;
    let (asking, _withdrawn) = rig.ask(RequestKind::Sampling);
    let _asking = tokio::spawn(asking);
    let request = rig.pending(1).await.remove(0);
    let deadline = rig.approvals.0.extend(request.id, day * 3).expect("it waits");
    assert_eq!(deadline.since(request.arrived), day);
}

#[tokio::test(start_paused = true)]
async fn more_requests_in_a_minute_than_allowed_are_refused_counted_and_reported_together() {
    let rig = Rig::new(None, false);
    let mut entry = config(ApprovalRules { sampling: ApprovalRule::Deny, ..Default::default() });
    entry.wire.approvals_per_minute = 10;
    rig.approvals.0.configure(&entry);
    let mut over = 0;
    for _ in 0..30 {
        if let Answer::Refuse { message, .. } = rig.ask(RequestKind::Sampling).0.await {
            over += usize::from(message.contains("in a minute"));
        }
    }
    assert_eq!(over, 20);
    tokio::time::sleep(Duration::from_secs(61)).await;
    rig.ask(RequestKind::Sampling).0.await;
    let view = rig.view().await;
    let server = &view.servers[&ServerName::new("s")];
    assert_eq!(server.refused_requests, 20);
    assert!(server.findings.len() <= 2, "one finding for a flood: {:?}", server.findings);
}

#[tokio::test(start_paused = true)]
async fn a_form_nobody_decided_on_is_cancelled_not_declined() {
    let rig = Rig::new(None, true);
    let cancelled = Answer::Result(json!({"action": "cancel"}));
    assert_eq!(rig.ask(RequestKind::Elicitation).0.await, cancelled, "nobody answered in time");
    let (asking, withdrawn) = rig.ask(RequestKind::UrlElicitation);
    let asking = tokio::spawn(asking);
    rig.pending(1).await;
    withdrawn.cancel();
    assert_eq!(asking.await.expect("no panic"), cancelled);
}

#[tokio::test(start_paused = true)]
async fn roots_asked_for_without_end_are_bounded_and_counted_too() {
    let rig = Rig::new(None, true);
    let mut entry = config(ApprovalRules::default());
    entry.wire.approvals_per_minute = 100;
    rig.approvals.0.configure(&entry);
    let mut refused = 0;
    for _ in 0..500 {
        refused += u64::from(matches!(rig.ask(RequestKind::Roots).0.await, Answer::Refuse { .. }));
    }
    assert_eq!(refused, 400);
    tokio::time::sleep(Duration::from_secs(61)).await;
    rig.ask(RequestKind::Roots).0.await;
    let view = rig.view().await;
    assert_eq!(view.servers[&ServerName::new("s")].refused_requests, 400);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_first_is_the_end_of_it_and_so_is_a_withdrawal() {
    let rig = Rig::new(None, true);
    for answered_first in [true, false] {
        let claim = Arc::new(Claim::default());
        let withdrawn = CancellationToken::new();
        let asking = tokio::spawn(rig.approvals.ask(ServerRequest {
            server: ServerName::new("s"),
            kind: RequestKind::Sampling,
            call: None,
            candidates: vec![],
            params: Arc::new(json!({})),
            bytes: 2,
            deferred: false,
            input: None,
            withdrawn: withdrawn.clone(),
            claim: Arc::clone(&claim),
        }));
        let request = rig.pending(1).await.remove(0);
        assert!(answered_first || claim.withdraw("taken back"));
        rig.approvals.0.answer(request.id, Answer::Result(json!({"hello": 1}))).expect("it waits");
        let answer = asking.await.expect("no panic");
        assert_eq!(matches!(answer, Answer::Result(_)), answered_first);
        let settlement = rig.last().await;
        assert_eq!(matches!(settlement, Settlement::Answered { .. }), answered_first);
        assert_eq!(claim.is_answered(), answered_first);
    }
}

struct Model;

impl Drafter for Model {
    fn name(&self) -> &'static str {
        "model\u{1b}[2J"
    }

    fn draft(
        &self,
        _request: Arc<ApprovalRequest>,
        params: Arc<Value>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        Box::pin(async move {
            match params["do"].as_str() {
                Some("think") => std::future::pending().await,
                Some("fail") => Err("too tired".to_owned()),
                Some("panic") => panic!("lost it"),
                _ => Ok(json!({"drafted": *params})),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_model_drafts_when_asked_and_answers_nothing() {
    let rig = Rig::new(None, true);
    let (asking, withdrawn) = rig.ask(RequestKind::Sampling);
    let asking = tokio::spawn(asking);
    let id = rig.pending(1).await.remove(0).id;
    let missing = rig.approvals.0.draft(id, None).await.expect_err("no drafter yet");
    assert_eq!(missing.code, ErrorCode::Configuration);
    rig.approvals.0.set_drafter(Arc::new(Model));
    let draft = rig.approvals.0.draft(id, None).await.expect("a draft");
    assert_eq!(draft.result, json!({"drafted": {}}));
    assert!(!draft.by.contains('\u{1b}'));
    let asked = |what: &str| rig.approvals.0.draft(id, Some(Arc::new(json!({"do": what}))));
    let failed = asked("fail").await.expect_err("no draft");
    assert!(failed.message.contains("too tired"));
    let failed = asked("panic").await.expect_err("no draft");
    assert!(failed.message.contains("lost it"));
    assert!(!asking.is_finished(), "a draft is no answer");
    let approvals = Arc::clone(&rig.approvals.0);
    let drafting =
        tokio::spawn(
            async move { approvals.draft(id, Some(Arc::new(json!({"do": "think"})))).await },
        );
    tokio::task::yield_now().await;
    withdrawn.cancel();
    let gone = drafting.await.expect("no panic").expect_err("withdrawn");
    assert_eq!(gone.code, ErrorCode::Cancelled);
    assert!(asking.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn roots_changed_while_it_runs_stay_until_those_of_the_entry_change() {
    let rig = Rig::new(None, false);
    let root = |uri: &str| RootConfig { uri: uri.to_owned(), name: None };
    let mut entry = config(ApprovalRules::default());
    entry.roots = vec![root("file:///a")];
    rig.approvals.0.configure(&entry);
    rig.approvals.0.set_roots(&entry.name, vec![root("file:///b")]);
    rig.approvals.0.configure(&entry);
    assert_eq!(rig.approvals.0.roots(&entry.name), [root("file:///b")]);
    let view = rig.view().await;
    assert_eq!(view.servers[&entry.name].roots, [root("file:///b")]);
    entry.roots = vec![root("file:///c")];
    rig.approvals.0.configure(&entry);
    assert_eq!(rig.approvals.0.roots(&entry.name), [root("file:///c")]);
}
