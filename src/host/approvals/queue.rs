//! The approval queue: where requests of servers are decided (requirements S1, S2).
//!
//! A rule of the entry decides, or the registered callback, or a person; without any of them the
//! request is refused as the specification says. Every request and every decision is a fact.

mod rules;

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{ApprovalRequest, Decider, Drafted, Drafter, RequestHandler, Settlement};
use crate::base::{SafeText, ServerName, Timestamp};
use crate::config::{ApprovalRule, OutsideCalls};
use crate::error::{Error, ErrorCode};
use crate::host::Fact;
use crate::host::projector::Facts;
use crate::mcp::{Answer, ApprovalId, CallId, Claim, RequestKind, Responder, ServerRequest};
use rules::ServerRules;

/// Decides requests of all servers of one host.
pub struct ApprovalQueue {
    facts: Facts,
    handler: RwLock<Option<Arc<dyn RequestHandler>>>,
    drafter: RwLock<Option<Arc<dyn Drafter>>>,
    /// How many persons answer.
    present: AtomicUsize,
    ids: AtomicU64,
    inner: Mutex<QueueInner>,
    calls: OnceLock<FindCall>,
}

/// Looks up what a call is about.
type FindCall = Box<dyn Fn(&ServerName, CallId) -> Option<SafeText> + Send + Sync>;

/// A person who answers until this is dropped; requests that are open then keep waiting.
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

/// A request that waits for a person.
struct WaitingApproval {
    request: Arc<ApprovalRequest>,
    answer: oneshot::Sender<Answer>,
    /// How long it may wait in all.
    patience: watch::Sender<Duration>,
}

impl ApprovalQueue {
    /// Longest time a request may wait, however often it is given more.
    pub const LONGEST: Duration = Duration::from_secs(24 * 3_600);

    /// An approval queue for one host. Where a person answers through [`crate::Host::answer`],
    /// requests wait in the view.
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

    /// Says how it can be looked up what a call is about.
    pub fn attach(
        &self,
        calls: impl Fn(&ServerName, CallId) -> Option<SafeText> + Send + Sync + 'static,
    ) {
        let _ = self.calls.set(Box::new(calls));
    }

    /// Registers another callback; requests that are open stay with the one before.
    pub fn set_handler(&self, handler: Option<Arc<dyn RequestHandler>>) {
        *self.handler.write() = handler;
    }

    /// Somebody answers from now on, besides those who did before.
    pub fn person_arrives(self: &Arc<Self>) -> Presence {
        self.present.fetch_add(1, Ordering::Relaxed);
        Presence(Arc::clone(self))
    }

    /// Whether a request of a server waits for a person.
    pub fn is_asking(&self, server: &ServerName) -> bool {
        self.inner.lock().waiting.values().any(|waiting| waiting.request.server == *server)
    }

    /// Answers a request that waits for a person.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it does not wait (any more): nothing was sent.
    pub fn answer(&self, id: ApprovalId, answer: Answer) -> Result<(), Error> {
        let waiting = self.inner.lock().waiting.remove(&id);
        match waiting.map(|waiting| waiting.answer.send(answer)) {
            Some(Ok(())) => Ok(()),
            Some(Err(_)) | None => Err(closed(id)),
        }
    }

    /// Gives a request that waits for a person more time; gives when it ends now.
    ///
    /// # Errors
    /// [`ErrorCode::Cancelled`] when it does not wait (any more).
    pub fn extend(&self, id: ApprovalId, more: Duration) -> Result<Timestamp, Error> {
        let inner = self.inner.lock();
        let waiting = inner.waiting.get(&id).ok_or_else(|| closed(id))?;
        waiting.patience.send_modify(|patience| {
            *patience = patience.saturating_add(more).min(Self::LONGEST).max(*patience);
        });
        let deadline = waiting.request.arrived.plus(*waiting.patience.borrow());
        let server = waiting.request.server.clone();
        drop(inner);
        self.facts.post(&server, Fact::RequestExtended { id, deadline });
        Ok(deadline)
    }

    // Drafts of a registered model: asked for by a person, given to that person, sent to nobody.

    /// Registers what drafts answers.
    pub fn set_drafter(&self, drafter: Arc<dyn Drafter>) {
        *self.drafter.write() = Some(drafter);
    }

    /// The name of what drafts answers, when something does.
    pub fn drafter_name(&self) -> Option<SafeText> {
        self.drafter.read().as_ref().map(|drafter| SafeText::line(drafter.name()))
    }

    /// Asks for a draft of the answer to a request that waits for a person.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] without a drafter, [`ErrorCode::Cancelled`] when the request is
    /// no longer open or is withdrawn meanwhile, [`ErrorCode::Internal`] with the drafter's words.
    pub async fn draft(
        &self,
        id: ApprovalId,
        params: Option<Arc<Value>>,
    ) -> Result<Drafted, Error> {
        let missing = || Error::new(ErrorCode::Configuration, "no model is registered to draft");
        let drafter = self.drafter.read().clone().ok_or_else(missing)?;
        let (request, mut patience) = {
            let inner = self.inner.lock();
            let waiting = inner.waiting.get(&id).ok_or_else(|| closed(id))?;
            (Arc::clone(&waiting.request), waiting.patience.subscribe())
        };
        let params = params.unwrap_or_else(|| Arc::clone(&request.params));
        let failed = |why: &str| Error::new(ErrorCode::Internal, format!("no draft: {why}"));
        let drafting = AssertUnwindSafe(async { drafter.draft(request, params).await });
        let over = async { while patience.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            // The sender goes with the request.
            () = over => Err(closed(id)),
            drafted = drafting.catch_unwind() => match drafted {
                Ok(Ok(result)) => Ok(Drafted { by: SafeText::line(drafter.name()), result }),
                Ok(Err(why)) => Err(failed(&why)),
                Err(panic) => Err(failed(&panic_text(&*panic))),
            }
        }
    }

    /// Takes a place among the open requests of a server; gives how long the request may wait.
    ///
    /// # Errors
    /// Why there is none.
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

/// The approval queue as sessions see it.
#[derive(Clone)]
pub struct QueueHandle(pub Arc<ApprovalQueue>);

impl Responder for QueueHandle {
    fn ask(&self, request: ServerRequest) -> BoxFuture<'static, Answer> {
        Box::pin(decide(Arc::clone(&self.0), request))
    }

    fn outside_calls(&self, server: &ServerName) -> OutsideCalls {
        let inner = self.0.inner.lock();
        inner
            .servers
            .get(server)
            .map_or(OutsideCalls::default(), |rules| rules.approvals.outside_calls)
    }
}

// Who decides one request, in which order, and what the refusals look like on the wire.

/// A request that the host itself makes of the person, about `server`.
pub(crate) fn own_request(server: ServerName, kind: RequestKind, params: Value) -> ServerRequest {
    ServerRequest {
        server,
        kind,
        call: None,
        bytes: params.to_string().len(),
        params: Arc::new(params),
        deferred: false,
        input: None,
        withdrawn: CancellationToken::new(),
        claim: Arc::default(),
    }
}

/// JSON-RPC: the method does not exist or is not available (JSON-RPC 2.0, section 5.1).
const METHOD_NOT_FOUND: i64 = -32_601;
/// What the specification shows for a user who says no to sampling.
const REJECTED: i64 = -1;

async fn decide(approvals: Arc<ApprovalQueue>, asked: ServerRequest) -> Answer {
    let mut open = match OpenPlace::take(Arc::clone(&approvals), &asked) {
        Ok(open) => open,
        Err(message) => return Answer::Refuse { code: REJECTED, message },
    };
    let ruled = match approvals.use_rule(&asked.server, &asked.kind) {
        Some(rule) => apply(&rule, &asked.kind, "for this session"),
        None => approvals
            .entry_rule(&asked.server, &asked.kind)
            .and_then(|rule| apply(&rule, &asked.kind, "`approvals` of the entry")),
    };
    let ruled = ruled.or_else(|| shared_roots(&approvals, &asked));
    if let Some((answer, by)) = ruled {
        // Nobody is asked: no screen is to show it as waiting, not even for a moment.
        approvals.facts.post(&asked.server, open.arrival());
        return open.answered(answer, by);
    }
    let may_park = asked.kind != RequestKind::Roots;
    let began = Instant::now();
    let (sender, mut patience) = watch::channel(open.request.deadline.since(open.request.arrived));
    let person =
        (may_park && approvals.present.load(Ordering::Relaxed) > 0).then(|| open.park(sender));
    approvals.facts.record(&asked.server, open.arrival()).await;
    let verdict = verdict(&approvals, &open.request, &asked, person);
    let why = tokio::select! {
        biased;
        (answer, by) = verdict => return open.answered(answer, by),
        () = asked.withdrawn.cancelled() => "the call that asked is over",
        () = run_out(began, &mut patience) => "nobody answered in time",
    };
    open.withdraw(why);
    dismissal(&asked.kind, why)
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
    request: &Arc<ApprovalRequest>,
    asked: &ServerRequest,
    person: Option<oneshot::Receiver<Answer>>,
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
    if let Some(person) = person
        && let Ok(answer) = person.await
    {
        return (answer, Decider::Person);
    }
    (refusal(&asked.kind, "nobody is there to answer"), Decider::Nobody)
}

/// The shared roots, where no callback wants to be asked first.
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

/// Runs the application's callback; a panic in it refuses this one request and is told.
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

fn describe(answer: &Answer) -> String {
    match answer {
        Answer::Refuse { message, .. } => format!("refused: {}", SafeText::cut(message, 120)),
        Answer::Result(result) => match result.get("action").and_then(Value::as_str) {
            Some(action @ ("accept" | "decline" | "cancel")) => action.to_owned(),
            _ => "result".to_owned(),
        },
    }
}

// One open request: its seat in the queue, its facts, and its withdrawal when it is dropped.

/// Holds a place among the open requests of a server. Dropping it unsettled withdraws the request.
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
        let during = asked.call.and_then(|call| approvals.calls.get()?(&asked.server, call));
        let request = Arc::new(ApprovalRequest {
            id: ApprovalId(approvals.ids.fetch_add(1, Ordering::Relaxed)),
            server: asked.server.clone(),
            kind: asked.kind.clone(),
            call: asked.call,
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

    /// Lets a person answer. Called before the arrival is told, so that no answer can be too early.
    fn park(&self, patience: watch::Sender<Duration>) -> oneshot::Receiver<Answer> {
        let (answer, receiver) = oneshot::channel();
        let waiting = WaitingApproval { request: Arc::clone(&self.request), answer, patience };
        self.approvals.inner.lock().waiting.insert(self.request.id, waiting);
        receiver
    }

    fn arrival(&self) -> Fact {
        Fact::RequestArrived { request: Arc::clone(&self.request) }
    }

    /// Takes the request for an answer, tells so, and gives what is sent: something else when it was
    /// withdrawn before.
    fn answered(mut self, answer: Answer, by: Decider) -> Answer {
        if !self.claim.answer() {
            return dismissal(&self.request.kind, "withdrawn");
        }
        self.settle(Settlement::Answered { by, how: describe(&answer) });
        answer
    }

    /// Tells that no answer is wanted any more.
    fn withdraw(&mut self, reason: &str) {
        self.claim.withdraw(reason);
        // Whoever was first knows best: the server that took it back, the session that ended.
        self.settle(Settlement::Withdrawn { reason: self.claim.reason() });
    }

    /// Posted, not awaited: whoever asked may be gone at any await, and the fact must not be lost.
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
                RequestKind::SignIn => "the sign-in is over",
                _ => "the call that asked is over",
            });
        }
    }
}

#[cfg(test)]
mod tests;
