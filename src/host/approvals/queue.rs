//! The approval queue: decides requests from servers.
//!
//! Deciders in order: a rule, the registered callback, the user; without any of them the request is
//! refused as the specification requires. Every request and every decision is a fact.

mod rules;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, OptionFuture};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    ApprovalRequest, Asker, Decider, Drafted, Drafter, RequestHandler, RuleKind, Settlement,
};
use crate::Fact;
use crate::projector::Facts;
use base::{SafeText, ServerName, Timestamp};
use config::error::{Error, ErrorCode};
use config::{ApprovalRule, OutsideCalls};
use protocol::{Answer, ApprovalId, CallId, Claim, RequestKind, Responder, RpcCode, ServerRequest};
use rules::ServerRules;

/// Decides requests from all servers of one host.
pub struct ApprovalQueue {
    facts: Facts,
    handler: RwLock<Option<Arc<dyn RequestHandler>>>,
    drafter: RwLock<Option<Arc<dyn Drafter>>>,
    /// Number of [`Presence`] guards, plus one if the user answers permanently.
    present: AtomicUsize,
    ids: AtomicU64,
    inner: Mutex<QueueInner>,
    calls: OnceLock<Box<dyn CallsInFlight>>,
}

/// The calls in flight, of which one may be the cause of a request.
pub trait CallsInFlight: Send + Sync + 'static {
    /// Looks up a call.
    fn find(&self, server: &ServerName, call: CallId) -> Option<CallInFlight>;
    /// Learns that a server asked something during one of these calls, without saying which.
    fn record_question(&self, server: &ServerName, calls: &[CallId]);
}

/// A call in flight.
pub struct CallInFlight {
    /// Its target, for display.
    pub target: SafeText,
    /// Its caller, for display.
    pub caller: SafeText,
    /// Reaches the user who is with its caller.
    pub asker: Option<Asker>,
}

/// The user answers requests while this guard lives; open requests keep waiting after its drop.
pub struct Presence(Arc<ApprovalQueue>);

impl Drop for Presence {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct QueueInner {
    servers: HashMap<ServerName, ServerRules>,
    waiting: HashMap<ApprovalId, WaitingApproval>,
}

/// A request that waits for the user.
struct WaitingApproval {
    request: Arc<ApprovalRequest>,
    answer: oneshot::Sender<Answer>,
    /// Its total time limit.
    limit: watch::Sender<Duration>,
}

impl ApprovalQueue {
    /// Maximum total time a request may wait, including extensions.
    pub const MAX_APPROVAL_TIMEOUT: Duration = Duration::from_secs(24 * 3_600);

    /// An approval queue for one host. With `person_answers`, requests wait in the view for
    /// [`crate::Host::answer`].
    pub fn new(
        facts: Facts,
        handler: Option<Arc<dyn RequestHandler>>,
        person_answers: bool,
    ) -> Self {
        Self {
            facts,
            handler: RwLock::new(handler),
            drafter: RwLock::default(),
            present: AtomicUsize::new(usize::from(person_answers)),
            ids: AtomicU64::new(1),
            inner: Mutex::default(),
            calls: OnceLock::new(),
        }
    }

    /// Sets the calls in flight.
    pub fn attach(&self, calls: impl CallsInFlight) {
        let _ = self.calls.set(Box::new(calls));
    }

    /// During what a server asks, for display: one call, or one of several.
    fn during(&self, asked: &ServerRequest) -> Option<SafeText> {
        const MAX_NAMED_CALLS: usize = 4;
        let calls = self.calls.get()?;
        if asked.candidates.len() < 2 {
            return asked.call.and_then(|call| Some(calls.find(&asked.server, call)?.target));
        }
        let of_several = asked.call.is_none();
        let found = asked.candidates.iter().filter_map(|call| calls.find(&asked.server, *call));
        let mut words: Vec<String> = found
            .map(|call| {
                if of_several {
                    format!("{} for {}", call.target, call.caller)
                } else {
                    call.target.to_string()
                }
            })
            .collect();
        words.dedup();
        let more = words.len().saturating_sub(MAX_NAMED_CALLS);
        words.truncate(MAX_NAMED_CALLS);
        if more > 0 {
            words.push(format!("{more} more"));
        }
        Some(SafeText::line(&words.join(" or ")))
    }

    /// Reaches the user who is with the caller of the call during which a server asks; of several
    /// callers none.
    fn asker_of(&self, asked: &ServerRequest) -> Option<Asker> {
        self.calls.get()?.find(&asked.server, asked.call?)?.asker
    }

    /// Replaces the callback; open requests stay with the previous one.
    pub fn set_handler(&self, handler: Option<Arc<dyn RequestHandler>>) {
        *self.handler.write() = handler;
    }

    /// Declares that the user answers requests, while the guard lives.
    pub fn person_arrives(self: &Arc<Self>) -> Presence {
        self.present.fetch_add(1, Ordering::Relaxed);
        Presence(Arc::clone(self))
    }

    /// Whether a request from a server waits for the user.
    pub fn is_asking(&self, server: &ServerName) -> bool {
        self.inner.lock().waiting.values().any(|waiting| waiting.request.server == *server)
    }

    /// Answers a request that waits for the user.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it is not (or no longer) waiting; nothing is sent.
    pub fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Error> {
        let waiting = self.inner.lock().waiting.remove(&id);
        match waiting.map(|waiting| waiting.answer.send(answer)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(closed(id)),
        }
    }

    /// Extends the deadline of a request that waits for the user; returns the new one.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it is not (or no longer) waiting.
    pub fn extend(&self, id: ApprovalId, more: Duration) -> Result<Timestamp, Error> {
        let inner = self.inner.lock();
        let waiting = inner.waiting.get(&id).ok_or_else(|| closed(id))?;
        waiting.limit.send_modify(|limit| {
            *limit = limit.saturating_add(more).min(Self::MAX_APPROVAL_TIMEOUT).max(*limit);
        });
        let deadline = waiting.request.arrived.plus(*waiting.limit.borrow());
        let server = waiting.request.server.clone();
        drop(inner);
        self.facts.post(&server, Fact::RequestExtended { id, deadline });
        Ok(deadline)
    }

    // Drafts of a registered model, on request of the user and for the user only.

    /// Registers the drafter, replacing the previous one.
    pub fn set_drafter(&self, drafter: Arc<dyn Drafter>) {
        *self.drafter.write() = Some(drafter);
    }

    /// The name of the drafter, if one is registered.
    pub fn drafter_name(&self) -> Option<SafeText> {
        self.drafter.read().as_ref().map(|drafter| SafeText::line(drafter.name()))
    }

    /// Requests a draft of the answer to a request that waits for the user.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] without a drafter, [`ErrorCode::Cancelled`] when the request is
    /// no longer open or is withdrawn, [`ErrorCode::Internal`] with the drafter's message.
    pub async fn draft(
        &self,
        id: ApprovalId,
        params: Option<Arc<Value>>,
    ) -> Result<Drafted, Error> {
        let missing = || Error::new(ErrorCode::Configuration, "no model is registered to draft");
        let drafter = self.drafter.read().clone().ok_or_else(missing)?;
        let (request, mut limit) = {
            let inner = self.inner.lock();
            let waiting = inner.waiting.get(&id).ok_or_else(|| closed(id))?;
            (Arc::clone(&waiting.request), waiting.limit.subscribe())
        };
        let params = params.unwrap_or_else(|| Arc::clone(&request.params));
        let failed = |why: &str| Error::new(ErrorCode::Internal, format!("no draft: {why}"));
        let drafting = AssertUnwindSafe(async { drafter.draft(request, params).await });
        let over = async { while limit.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            // The sender is dropped with the request.
            () = over => Err(closed(id)),
            drafted = drafting.catch_unwind() => match drafted {
                Ok(Ok(result)) => Ok(Drafted { by: SafeText::line(drafter.name()), result }),
                Ok(Err(why)) => Err(failed(&why)),
                Err(panic) => Err(failed(&panic_text(&*panic))),
            }
        }
    }

    /// Takes a place among the open requests of a server; returns how long the request may wait.
    ///
    /// # Errors
    /// The limit that was reached.
    fn seat(&self, asked: &ServerRequest) -> Result<Duration, String> {
        let mut inner = self.inner.lock();
        let rules = inner.servers.entry(asked.server.clone()).or_default();
        rules.rate.refill();
        let reason = if rules.open >= rules.max_open {
            let most = rules.max_open;
            format!("more than {most} requests of the server are open (`limits.approvals`)")
        } else if !asked.kind.is_own() && !rules.rate.take_one() {
            let most = rules.max_per_minute;
            format!("more than {most} requests in a minute (`limits.approvalsPerMinute`)")
        } else {
            rules.open += 1;
            return Ok(rules.max_waiting);
        };
        rules.refused.count(asked.kind.method(), &reason, self.facts.clock().now());
        if let Some(finding) = rules.refused.take_due() {
            self.facts.post(&asked.server, Fact::Found { finding });
        }
        Err(reason)
    }

    fn leave(&self, id: ApprovalId, server: &ServerName) {
        let mut inner = self.inner.lock();
        inner.waiting.remove(&id);
        let Some(rules) = inner.servers.get_mut(server) else { return };
        rules.open = rules.open.saturating_sub(1);
        if let Some(finding) = rules.refused.take_due() {
            self.facts.post(server, Fact::Found { finding });
        }
    }
}

fn closed(id: ApprovalId) -> Error {
    Error::new(ErrorCode::Cancelled, format!("request {id} is no longer open; nothing was sent"))
}

/// The interface of the approval queue for sessions.
#[derive(Clone)]
pub struct QueueHandle(pub Arc<ApprovalQueue>);

impl Responder for QueueHandle {
    fn ask(&self, request: ServerRequest) -> BoxFuture<'static, Answer> {
        let asker = self.0.asker_of(&request);
        Box::pin(decide(Arc::clone(&self.0), request, asker))
    }

    fn outside_calls(&self, server: &ServerName) -> OutsideCalls {
        let inner = self.0.inner.lock();
        inner
            .servers
            .get(server)
            .map_or(OutsideCalls::default(), |rules| rules.approvals.outside_calls)
    }
}

// The deciders of a request, their order, and refusals on the wire.

/// A request from the host itself to the user, about `server`.
pub(crate) fn own_request(server: ServerName, kind: RequestKind, params: Value) -> ServerRequest {
    ServerRequest {
        server,
        kind,
        call: None,
        bytes: params.to_string().len(),
        params: Arc::new(params),
        candidates: Vec::new(),
        deferred: false,
        input: None,
        withdrawn: CancellationToken::new(),
        claim: Arc::default(),
    }
}

/// Nobody decided: no answer may claim that a person did.
const UNANSWERED_CODE: i64 = RpcCode::SERVER_ERROR;

/// Decides a request. `asker` is asked beside the user at the dashboard; the first answer counts.
pub(crate) async fn decide(
    approvals: Arc<ApprovalQueue>,
    asked: ServerRequest,
    asker: Option<Asker>,
) -> Answer {
    if RuleKind::from_request_kind(&asked.kind).is_some()
        && !asked.candidates.is_empty()
        && let Some(calls) = approvals.calls.get()
    {
        calls.record_question(&asked.server, &asked.candidates);
    }
    let mut open = match OpenPlace::take(Arc::clone(&approvals), &asked) {
        Ok(open) => open,
        Err(message) => return Answer::Refuse { code: UNANSWERED_CODE, message },
    };
    let ruled = match approvals.use_rule(&asked.server, &asked.kind) {
        Some(rule) => apply(&rule, &asked.kind, "for this session"),
        None => approvals
            .entry_rule(&asked.server, &asked.kind)
            .and_then(|rule| apply(&rule, &asked.kind, "`approvals` of the entry")),
    };
    let ruled = ruled.or_else(|| shared_roots(&approvals, &asked));
    if let Some((answer, by)) = ruled {
        // Decided without asking: it must never be displayed as waiting.
        approvals.facts.post(&asked.server, open.arrival());
        return open.answered(answer, by);
    }
    // A method that no client has, and no call that would tell what for: a person cannot know the
    // answer, and the server gets the one that any client gives.
    let is_baseless = matches!(asked.kind, RequestKind::Other(_))
        && asked.call.is_none()
        && asked.candidates.is_empty();
    let may_park = asked.kind != RequestKind::Roots && !is_baseless;
    let began = Instant::now();
    let (sender, mut limit) = watch::channel(open.request.deadline.since(open.request.arrived));
    let person =
        (may_park && approvals.present.load(Ordering::Relaxed) > 0).then(|| open.park(sender));
    approvals.facts.record(&asked.server, open.arrival()).await;
    let verdict = verdict(&approvals, &open.request, &asked, (person, asker));
    let why = tokio::select! {
        biased;
        (answer, by) = verdict => return open.answered(answer, by),
        () = asked.withdrawn.cancelled() => "the call that asked ended",
        () = run_out(began, &mut limit) => "nobody answered in time",
    };
    open.withdraw(why);
    dismissal(&asked.kind, why)
}

/// Completes at the deadline, which may be extended meanwhile.
async fn run_out(began: Instant, limit: &mut watch::Receiver<Duration>) {
    loop {
        let over = began + *limit.borrow_and_update();
        tokio::select! {
            () = tokio::time::sleep_until(over) => return,
            Ok(()) = limit.changed() => {}
        }
    }
}

/// The answer given by a rule; `None` for [`ApprovalRule::Ask`].
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
    request: &Arc<ApprovalRequest>,
    asked: &ServerRequest,
    (person, asker): (Option<oneshot::Receiver<Answer>>, Option<Asker>),
) -> (Answer, Decider) {
    let handler = approvals.handler.read().clone();
    if let Some(handler) = handler
        && let Some(answer) = call(approvals, handler, request, asked).await
    {
        return (answer, Decider::Callback);
    }
    if asked.kind == RequestKind::Roots {
        return roots_of(approvals, asked);
    }
    let asker = OptionFuture::from(asker.map(|asker| call(approvals, asker.0, request, asked)));
    tokio::select! {
        Some(Some(answer)) = asker => return (answer, Decider::Person),
        Some(Ok(answer)) = OptionFuture::from(person) => return (answer, Decider::Person),
        else => {}
    }
    let why = if asked.is_of_several() {
        "calls of several clients are in flight, it names none of them, and nobody is there to say \
         whose it is"
    } else {
        "nobody is there to answer"
    };
    (unanswered(&asked.kind, why), Decider::Nobody)
}

/// The answer to a roots request, unless a registered callback takes precedence.
fn shared_roots(approvals: &ApprovalQueue, asked: &ServerRequest) -> Option<(Answer, Decider)> {
    let alone = asked.kind == RequestKind::Roots && approvals.handler.read().is_none();
    alone.then(|| roots_of(approvals, asked))
}

fn roots_of(approvals: &ApprovalQueue, asked: &ServerRequest) -> (Answer, Decider) {
    let roots = approvals.roots(&asked.server);
    let roots = roots.iter().map(|root| match &root.name {
        Some(name) => json!({"uri": root.uri, "name": name}),
        None => json!({"uri": root.uri}),
    });
    let roots = json!({"roots": roots.collect::<Value>()});
    (Answer::Result(roots), Decider::Rule("the shared roots".to_owned()))
}

/// Runs the application's callback; a panic in it is recorded and refuses only this request.
async fn call(
    approvals: &Arc<ApprovalQueue>,
    handler: Arc<dyn RequestHandler>,
    request: &Arc<ApprovalRequest>,
    asked: &ServerRequest,
) -> Option<Answer> {
    let (request, withdrawn) = (Arc::clone(request), asked.withdrawn.clone());
    let answer = async move { handler.handle(request, withdrawn).await };
    match AssertUnwindSafe(answer).catch_unwind().await {
        Ok(answer) => answer,
        Err(panic) => {
            let task = SafeText::line(&format!("callback for {}", asked.kind.method()));
            let message = SafeText::line(&panic_text(&*panic));
            approvals.facts.record(None, Fact::TaskFailed { task, message }).await;
            Some(unanswered(&asked.kind, "the host could not decide"))
        }
    }
}

/// The message of a panic, if it has one.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panicked without a message".to_owned())
}

/// The refusal for this kind of request, as specified: a result for elicitation (`decline`), an
/// error for everything else.
fn refusal(kind: &RequestKind, why: &str) -> Answer {
    let refuse = |code, message: &str| Answer::Refuse { code, message: message.to_owned() };
    match kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(json!({"action": "decline"}))
        }
        RequestKind::Sampling => {
            refuse(RpcCode::USER_REJECTED, &format!("sampling request rejected: {why}"))
        }
        RequestKind::Roots | RequestKind::Guard | RequestKind::Permission | RequestKind::SignIn => {
            refuse(RpcCode::USER_REJECTED, why)
        }
        RequestKind::Other(method) => {
            refuse(RpcCode::METHOD_NOT_FOUND, &format!("`{method}` is not available here"))
        }
    }
}

/// The answer when nobody was asked: an error that says so, never a refusal in a person's name.
fn unanswered(kind: &RequestKind, why: &str) -> Answer {
    match RuleKind::from_request_kind(kind) {
        Some(of) => {
            let message = format!("`{}` was answered by nobody: {why}", of.method());
            Answer::Refuse { code: UNANSWERED_CODE, message }
        }
        None => refusal(kind, why),
    }
}

/// The answer without a decision: for elicitation `cancel`, which means dismissed without a choice
/// (client features, elicitation, response actions); otherwise a refusal.
fn dismissal(kind: &RequestKind, why: &str) -> Answer {
    match kind {
        RequestKind::Elicitation | RequestKind::UrlElicitation => {
            Answer::Result(json!({"action": "cancel"}))
        }
        _ => unanswered(kind, why),
    }
}

fn describe(answer: &Answer) -> String {
    match answer {
        Answer::Refuse { message, .. } => format!("refused: {}", SafeText::cut(message, 120)),
        Answer::Result(result) => match result.get("action").and_then(Value::as_str) {
            Some(action @ ("accept" | "decline" | "cancel")) => action.to_owned(),
            _ => "result".to_owned(),
        },
    }
}

// One open request: its place in the queue, its facts, and its withdrawal on drop.

/// A place among the open requests of a server. Dropping it unsettled withdraws the request.
struct OpenPlace {
    approvals: Arc<ApprovalQueue>,
    request: Arc<ApprovalRequest>,
    claim: Arc<Claim>,
    settled: bool,
}

impl OpenPlace {
    /// Takes a place.
    fn take(approvals: Arc<ApprovalQueue>, asked: &ServerRequest) -> Result<Self, String> {
        let now = approvals.facts.clock().now();
        let max_waiting = approvals.seat(asked)?;
        let during = approvals.during(asked);
        let request = Arc::new(ApprovalRequest {
            id: ApprovalId(approvals.ids.fetch_add(1, Ordering::Relaxed)),
            server: asked.server.clone(),
            kind: asked.kind.clone(),
            call: asked.call,
            candidates: asked.candidates.clone(),
            during,
            params: Arc::clone(&asked.params),
            bytes: asked.bytes,
            arrived: now,
            deadline: now.plus(max_waiting),
            deferred: asked.deferred,
            input: asked.input.clone(),
        });
        Ok(Self { approvals, request, claim: Arc::clone(&asked.claim), settled: false })
    }

    /// Lets the user answer. Called before the arrival is recorded, so no answer can be too early.
    fn park(&self, limit: watch::Sender<Duration>) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        let waiting = WaitingApproval { request: Arc::clone(&self.request), answer, limit };
        self.approvals.inner.lock().waiting.insert(self.request.id, waiting);
        receiver
    }

    fn arrival(&self) -> Fact {
        Fact::RequestArrived { request: Arc::clone(&self.request) }
    }

    /// Claims the request for an answer and records it; returns what to send, which is a dismissal
    /// if the request was withdrawn.
    fn answered(mut self, answer: Answer, by: Decider) -> Answer {
        if !self.claim.answer() {
            return dismissal(&self.request.kind, "withdrawn");
        }
        self.settle(Settlement::Answered { by, how: describe(&answer) });
        answer
    }

    /// Withdraws the request and records the reason.
    fn withdraw(&mut self, reason: &str) {
        self.claim.withdraw(reason);
        // An earlier reason takes precedence: the server cancelled, or the session ended.
        self.settle(Settlement::Withdrawn { reason: self.claim.reason() });
    }

    /// Posted, not awaited: the task may be dropped at any await, and the fact must not be lost.
    fn settle(&mut self, settlement: Settlement) {
        self.settled = true;
        let facts = &self.approvals.facts;
        let after = facts.clock().now().since(self.request.arrived);
        let settled = Fact::RequestSettled { id: self.request.id, settlement, after };
        facts.post(&self.request.server, settled);
    }
}

impl Drop for OpenPlace {
    fn drop(&mut self) {
        self.approvals.leave(self.request.id, &self.request.server);
        if !self.settled {
            self.withdraw(match self.request.kind {
                RequestKind::SignIn => "the sign-in ended",
                _ => "the call that asked ended",
            });
        }
    }
}

#[cfg(test)]
mod tests;
