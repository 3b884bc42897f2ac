//! Who decides one request, in which order, and what the refusals look like on the wire.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use std::time::Duration;

use futures::FutureExt;
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::base::text::SafeText;
use crate::config::{ApprovalRule, ApprovalRules};
use crate::host::Fact;
use crate::host::approvals::queue::ApprovalQueue;
use crate::host::approvals::queue::open::Open;
use crate::host::approvals::{Decider, PendingRequest, RequestHandler};
use crate::mcp::session::ServerRequest;
use crate::mcp::{Answer, RequestKind};

/// JSON-RPC: the method does not exist or is not available (JSON-RPC 2.0, section 5.1).
const METHOD_NOT_FOUND: i64 = -32_601;
/// What the specification shows for a user who says no to sampling.
const REJECTED: i64 = -1;

pub(super) async fn decide(approvals: Arc<ApprovalQueue>, asked: ServerRequest) -> Answer {
    let open = match Open::take(Arc::clone(&approvals), &asked) {
        Ok(open) => open,
        Err(full) => return Answer::Refuse { code: REJECTED, message: full.reason() },
    };
    let ruled = match approvals.use_rule(&asked.server, &asked.kind) {
        Some(rule) => apply(&rule, &asked.kind, "for this session"),
        None => rule(&approvals.entry_rules(&asked.server), &asked.kind),
    };
    let ruled = ruled.or_else(|| shared_roots(&approvals, &asked));
    if let Some((answer, by)) = ruled {
        // Nobody is asked: no screen is to show it as waiting, not even for a moment.
        open.arrived_and_decided();
        let how = describe(&asked.kind, &answer);
        return if open.answered(by, how) { answer } else { dismissal(&asked.kind, "withdrawn") };
    }
    let may_park = asked.kind != RequestKind::Roots;
    let began = Instant::now();
    let (sender, mut patience) = watch::channel(open.patience());
    let person =
        (may_park && approvals.present.load(Ordering::Relaxed) > 0).then(|| open.park(sender));
    open.arrived().await;
    let verdict = verdict(&approvals, &open.request, &asked, person);
    let (answer, by) = tokio::select! {
        biased;
        verdict = verdict => verdict,
        () = asked.withdrawn.cancelled() => {
            open.withdrawn("the call that asked is over");
            return dismissal(&asked.kind, "the call that asked is over");
        }
        () = run_out(began, &mut patience) => {
            open.withdrawn("nobody answered in time");
            return dismissal(&asked.kind, "nobody answered in time");
        }
    };
    let how = describe(&asked.kind, &answer);
    if open.answered(by, how) { answer } else { dismissal(&asked.kind, "withdrawn") }
}

/// Ends when the time is over, which may be put off meanwhile.
async fn run_out(began: Instant, patience: &mut watch::Receiver<Duration>) {
    loop {
        let over = began + *patience.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(over) => return,
            Ok(()) = patience.changed() => {}
        }
    }
}

/// What the entry says about this kind of request, when it decides by itself.
fn rule(rules: &ApprovalRules, kind: &RequestKind) -> Option<(Answer, Decider)> {
    let rule = match kind {
        RequestKind::Sampling => &rules.sampling,
        RequestKind::Elicitation | RequestKind::UrlElicitation => &rules.elicitation,
        RequestKind::Roots
        | RequestKind::Guard
        | RequestKind::Permission
        | RequestKind::SignIn
        | RequestKind::Other(_) => return None,
    };
    apply(rule, kind, "`approvals` of the entry")
}

/// The answer a rule gives by itself; `None` when it wants somebody asked.
fn apply(rule: &ApprovalRule, kind: &RequestKind, whose: &str) -> Option<(Answer, Decider)> {
    let by = |words: &str| Decider::Rule(format!("{whose}: {words}"));
    match rule {
        ApprovalRule::Ask => None,
        ApprovalRule::Deny => Some((refusal(kind, "denied by a rule"), by("deny"))),
        ApprovalRule::Canned(result) => Some((Answer::Result(result.clone()), by("canned answer"))),
    }
}

async fn verdict(
    approvals: &Arc<ApprovalQueue>,
    request: &Arc<PendingRequest>,
    asked: &ServerRequest,
    person: Option<oneshot::Receiver<Answer>>,
) -> (Answer, Decider) {
    if let Some(handler) = approvals.handler()
        && let Some(answer) = call(approvals, handler, request, asked).await
    {
        return (answer, Decider::Callback);
    }
    if asked.kind == RequestKind::Roots {
        return roots_of(approvals, asked);
    }
    if let Some(person) = person
        && let Ok(answer) = person.await
    {
        return (answer, Decider::Person);
    }
    (refusal(&asked.kind, "nobody is there to answer"), Decider::Nobody)
}

/// The shared roots, where no callback wants to be asked first.
fn shared_roots(approvals: &ApprovalQueue, asked: &ServerRequest) -> Option<(Answer, Decider)> {
    let alone = asked.kind == RequestKind::Roots && approvals.handler().is_none();
    alone.then(|| roots_of(approvals, asked))
}

fn roots_of(approvals: &ApprovalQueue, asked: &ServerRequest) -> (Answer, Decider) {
    let roots = roots(&approvals.roots(&asked.server));
    (Answer::Result(json!({ "roots": roots })), Decider::Rule("the shared roots".to_owned()))
}

fn roots(roots: &[crate::config::RootConfig]) -> Vec<Value> {
    roots
        .iter()
        .map(|root| match &root.name {
            Some(name) => json!({"uri": root.uri, "name": name}),
            None => json!({"uri": root.uri}),
        })
        .collect()
}

/// Runs the application's callback; a panic in it refuses this one request and is told.
async fn call(
    approvals: &Arc<ApprovalQueue>,
    handler: Arc<dyn RequestHandler>,
    request: &Arc<PendingRequest>,
    asked: &ServerRequest,
) -> Option<Answer> {
    let (request, withdrawn) = (Arc::clone(request), asked.withdrawn.clone());
    let answer = async move { handler.handle(request, withdrawn).await };
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(answer) => answer,
        Err(panic) => {
            let task = SafeText::line(&format!("callback for {}", asked.kind.method()));
            let message = SafeText::line(&panic_text(&*panic));
            approvals.facts.record(Fact::TaskFailed { task, message }).await;
            Some(refusal(&asked.kind, "the host could not decide"))
        }
    }
}

/// What a panic said, when it said something.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panicked without a message".to_owned())
}

/// "No", as the specification says it for this kind of request: elicitation has a result for it
/// (`decline`), everything else is an error.
fn refusal(kind: &RequestKind, why: &str) -> Answer {
    let refuse = |code, message: &str| Answer::Refuse { code, message: message.to_owned() };
    match kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(json!({"action": "decline"}))
        }
        RequestKind::Sampling => refuse(REJECTED, &format!("sampling request rejected: {why}")),
        RequestKind::Roots | RequestKind::Guard | RequestKind::Permission | RequestKind::SignIn => {
            refuse(REJECTED, why)
        }
        RequestKind::Other(method) => {
            refuse(METHOD_NOT_FOUND, &format!("`{method}` is not available here"))
        }
    }
}

/// What the server is told when nobody decided: `cancel` is elicitation's word for a person who went
/// away without a choice (client features, elicitation, response actions).
fn dismissal(kind: &RequestKind, why: &str) -> Answer {
    match kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(json!({"action": "cancel"}))
        }
        _ => refusal(kind, why),
    }
}

fn describe(kind: &RequestKind, answer: &Answer) -> String {
    match (kind, answer) {
        (_, Answer::Refuse { message, .. }) => {
            format!("refused: {}", SafeText::cut(message, 120))
        }
        (
            RequestKind::Elicitation
            | RequestKind::UrlElicitation
            | RequestKind::Guard
            | RequestKind::Permission
            | RequestKind::SignIn,
            Answer::Result(result),
        ) => match result.get("action").and_then(Value::as_str) {
            Some(action @ ("accept" | "decline" | "cancel")) => action.to_owned(),
            _ => "result".to_owned(),
        },
        (_, Answer::Result(_)) => "result".to_owned(),
    }
}
