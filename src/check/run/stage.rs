//! The run itself: waits for every server, calls it, and stops it when no other server needs it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use indexmap::IndexMap;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use super::doctor::name_of;
use super::{CheckSignals, PROGRESS_INTERVAL, Plan, offered};
use crate::CheckFinding;
use crate::calls::{Called, PlannedCall};
use crate::expect::{ExpectTarget, misfit, sample};
use crate::rules::{self, AssessedOffers};
use crate::subject::{CheckedCard, brief};
use base::{Redactor, ServerName};
use config::error::Error;
use config::{ServerConfig, TransportConfig};
use deck::PolicyKeeper;
use host::{
    CallOptions, CallOutcome, Host, HostView, Origin, ServerState, ServerView, StepStatus,
    Validation,
};
use protocol::ListKind;
use reach::ServerCard;

/// What was seen of one server while it ran.
#[derive(Default)]
pub(super) struct Run {
    /// The server at the moment it was settled: ready, or failed.
    pub(super) settled: Option<Arc<ServerView>>,
    /// Sample calls that were made, in their order.
    pub(super) calls: Vec<Called>,
    /// Its sign-in endpoints.
    pub(super) authorization: Value,
    /// Its card, when it has one.
    pub(super) card: Option<CheckedCard>,
    /// The findings on what it offers, made while it was stopped.
    pub(super) offers: Option<Box<AssessedOffers>>,
    /// What it was doing when the run was interrupted.
    pub(super) cut: Option<String>,
    /// How long its stop took.
    pub(super) stop: Option<Duration>,
    began: Option<Instant>,
    ended: Option<Instant>,
}

impl Run {
    /// Time from the beginning of its start to the end of its stop.
    pub(super) fn took(&self) -> Duration {
        let ended = self.ended.unwrap_or_else(Instant::now);
        self.began.map_or(Duration::ZERO, |began| ended - began)
    }
}

/// The runs of all servers, in the order of the configuration.
pub(super) type Runs = IndexMap<ServerName, Run>;

/// Runs until every server is stopped, or a signal interrupts it. Returns what was seen, and the
/// view after everything was stopped.
pub(super) async fn play(
    (host, policy): (&Host, &PolicyKeeper),
    plan: &Plan,
    signals: &CheckSignals,
    show: &mut (dyn FnMut(&HostView) + Send),
) -> (Runs, Arc<HostView>) {
    let servers = &plan.config.servers;
    let runs: IndexMap<&ServerName, Mutex<Run>> =
        servers.keys().map(|name| (name, Mutex::default())).collect();
    // A disabled server is not waited for; ten thousand of them are not ten thousand futures.
    let (enabled, disabled): (Vec<_>, Vec<_>) =
        servers.values().partition(|server| !server.disabled);
    let over = watch::Sender::new(disabled.iter().map(|server| &server.name).collect());
    let mut all = Box::pin(join_all(enabled.into_iter().map(async |server| {
        one((host, policy), plan, server, (&runs[&server.name], &over)).await;
        over.send_modify(|over| _ = over.insert(&server.name));
    })));
    drop(tokio::task::spawn_blocking(rules::prepare));
    let mut view = host.view();
    let mut tick = tokio::time::interval(PROGRESS_INTERVAL);
    loop {
        let now = Arc::clone(&view.borrow_and_update());
        show(&now);
        tokio::select! {
            biased;
            () = signals.stop.cancelled() => {
                for (name, server) in &now.servers {
                    if let Some(run) = runs.get(name) {
                        cut(&mut run.lock(), server, plan.calls_of(name));
                    }
                }
                break;
            }
            _ = &mut all => break,
            changed = view.changed() => if changed.is_err() { break },
            _ = tick.tick() => {}
        }
    }
    // Calls that are still in flight are dropped before the servers stop.
    drop(all);
    let each = || {
        let now = Arc::clone(&view.borrow());
        show(&now);
    };
    signals.shut_down(host, each).await;
    let runs = runs.into_iter().map(|(name, run)| (name.clone(), run.into_inner()));
    (runs.collect(), Arc::clone(&view.borrow()))
}

/// Waits for one server, calls it, and stops it when its dependents are done.
async fn one<'p>(
    (host, policy): (&Host, &PolicyKeeper),
    plan: &'p Plan,
    config: &'p ServerConfig,
    (run, over): (&Mutex<Run>, &watch::Sender<BTreeSet<&'p ServerName>>),
) {
    let (name, servers) = (&config.name, &plan.config.servers);
    let needs = |name: &ServerName| -> Vec<&ServerName> {
        servers.get(name).into_iter().flat_map(|server| &server.dependencies).collect()
    };
    let mut view = host.view();
    let settled = view.wait_for(|view| {
        if view.servers.get(name).is_some_and(|server| is_under_way(server)) {
            run.lock().began.get_or_insert_with(Instant::now);
        }
        is_settled(view, name, &needs)
    });
    let settled = settled.await.ok().and_then(|view| view.servers.get(name).cloned());
    run.lock().settled.clone_from(&settled);
    if settled.is_some_and(|server| server.state == ServerState::Ready) {
        if !plan.calls_of(name).is_empty() {
            // What the server offers has to be known before anything is decided.
            policy.look_again().await;
        }
        let calls = async {
            for call in plan.calls_of(name) {
                let called = make(host, name, call, plan.reveal).await;
                run.lock().calls.push(called);
            }
        };
        let (card, ()) = tokio::join!(card(config), calls);
        run.lock().card = card;
        let dependents = servers.values().filter(|other| other.dependencies.contains(name));
        let dependents: Vec<_> = dependents.map(|other| &other.name).collect();
        let are_over = |over: &BTreeSet<_>| dependents.iter().all(|other| over.contains(other));
        let _ = over.subscribe().wait_for(are_over).await;
        let authorization = authorization(host, name).await;
        let stop = async {
            let began = Instant::now();
            // What went wrong with the stop is in the view: exit, findings, leftovers.
            let _ = host.stop(name).await;
            began.elapsed()
        };
        let (stop, offers) = tokio::join!(stop, assessed(host, name, plan));
        let mut run = run.lock();
        (run.authorization, run.stop, run.offers) = (authorization, Some(stop), offers);
    }
    run.lock().ended = Some(Instant::now());
}

/// The findings on what a server offers, worked out on a thread of their own so that they cost no
/// time while the server stops. `None` when that failed: the rules then run at the end.
async fn assessed(host: &Host, name: &ServerName, plan: &Plan) -> Option<Box<AssessedOffers>> {
    let view = host.view().borrow().servers.get(name).cloned()?;
    let subject = offered(host, &view);
    let budgets = plan.expectations.as_ref().map(|all| all.budgets.clone()).unwrap_or_default();
    let work =
        tokio::task::spawn_blocking(move || Box::new(AssessedOffers::new(subject, &budgets)));
    work.await.ok()
}

/// The sign-in endpoints of a server that is signed in to. Read even while the token is valid: a
/// change would otherwise go unnoticed until it expires.
async fn authorization(host: &Host, name: &ServerName) -> Value {
    let signed_in = host.view().borrow().servers.get(name).is_some_and(|s| s.account.is_some());
    if !signed_in {
        return Value::Null;
    }
    let found = host.authorization(name).await.ok();
    found.and_then(|found| serde_json::to_value(found).ok()).unwrap_or_default()
}

/// The card of a server that is reached over HTTP; `None` where it has none.
async fn card(config: &ServerConfig) -> Option<CheckedCard> {
    let (TransportConfig::Http(http) | TransportConfig::Sse(http)) = &config.transport else {
        return None;
    };
    let address = http.url.to_string();
    match ServerCard::read(&http.url, &http.tls).await {
        Ok(card) => {
            let document = card?.document;
            Some(CheckedCard { address, document, problem: None })
        }
        Err(why) => {
            let problem = Some(why.to_string());
            Some(CheckedCard { address, document: Value::Null, problem })
        }
    }
}

/// Records what an unfinished server was doing when the run was interrupted.
fn cut(run: &mut Run, server: &Arc<ServerView>, calls: &[PlannedCall]) {
    run.settled.get_or_insert_with(|| Arc::clone(server));
    let at = match server.state {
        ServerState::Starting | ServerState::Waiting => {
            let step = server.steps.iter().rev().find(|s| s.status == StepStatus::Running);
            match step {
                Some(step) => format!("while it was starting ({})", name_of(step.step)),
                None => "before it was started".to_owned(),
            }
        }
        ServerState::Ready if run.calls.len() < calls.len() => {
            "before all of its sample calls were made".to_owned()
        }
        _ => return,
    };
    run.cut = Some(at);
}

// One sample call: made through the engine and judged.

/// Makes a call of a server that is ready. Its findings show no value of the configuration, unless
/// they are to reveal them.
async fn make(host: &Host, server: &ServerName, call: &PlannedCall, reveal: bool) -> Called {
    let began = Instant::now();
    let options = CallOptions {
        timeout: call.timeout,
        bypass_cache: true,
        origin: Origin::Check,
        validation: if call.force { Validation::Force } else { Validation::Enforce },
        server: Some(server.clone()),
        numbers: Some(Arc::new(call.arguments.numbers.clone())),
        ..CallOptions::default()
    };
    let arguments = call.arguments.value.clone();
    let ExpectTarget { kind, name } = &call.target;
    let outcome = match kind {
        ListKind::Tools => {
            host.call_tool_with(&format!("{server}.{name}"), arguments, options).await
        }
        ListKind::Prompts => {
            host.get_prompt_with(&format!("{server}.{name}"), arguments, options).await
        }
        _ => host.get_resource_with(name, options).await,
    };
    let took = outcome.as_ref().map_or_else(|_| began.elapsed(), |outcome| outcome.duration);
    let secrets = if reveal { Vec::new() } else { host.secrets(server) };
    let findings = judge(call, outcome, &Redactor::new(secrets));
    Called { label: call.label.clone(), took, findings }
}

fn judge(
    call: &PlannedCall,
    outcome: Result<CallOutcome, Error>,
    masks: &Redactor,
) -> Vec<CheckFinding> {
    let named = |message: String| {
        // A saved call is named as well: its target alone does not identify it.
        let name = call.label.strip_prefix('@').map(|_| format!("{}: ", call.label));
        sample(&call.target, name.unwrap_or_default() + &message)
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // Where the tool is expected to fail, a JSON-RPC error counts as a failure too.
        Err(error) if call.expect.is_error == Some(true) && error.rpc.is_some() => {
            let wrong = call.expect.judge_error_text(&error.message, masks);
            return wrong.map(named).into_iter().collect();
        }
        Err(error) => {
            let mut message =
                format!("the call failed: {}", brief(&masks.redact(&error.message), 300));
            for violation in error.violations.iter().take(3) {
                let _ =
                    write!(message, "; {}", misfit(&violation.pointer, &violation.message, masks));
            }
            return vec![named(message)];
        }
    };
    let found = call.expect.judge(&call.target, &outcome.result, outcome.duration, masks);
    let mut findings: Vec<CheckFinding> =
        found.into_iter().map(|found| named(found.message)).collect();
    findings.extend(outcome.output_violations.iter().take(3).map(|violation| {
        named(format!(
            "`structuredContent` does not fit `outputSchema`: {}",
            misfit(&violation.pointer, &violation.message, masks)
        ))
    }));
    findings
}

// When the start of a server has begun, and when it is settled. Pure.

/// Whether the start of a server is under way, or over. Before its first step it waits until fewer
/// servers start at once, which is no time that it took.
fn is_under_way(server: &ServerView) -> bool {
    match server.state {
        ServerState::Waiting | ServerState::Disabled => false,
        ServerState::Starting => !server.steps.is_empty(),
        ServerState::Ready
        | ServerState::Unavailable
        | ServerState::Shutdown
        | ServerState::Sleeping => true,
    }
}

/// Looks whether all servers are settled: ready, failed without a pending retry, or waiting for one
/// that has.
#[derive(Default)]
pub struct Settling {
    /// One that was not settled, which alone is looked at until it is.
    waits_for: Option<ServerName>,
}

impl Settling {
    /// Whether all are. `needs` returns the dependencies of a server; they have no cycles (the
    /// configuration is refused otherwise).
    pub fn is_over<'a>(
        &mut self,
        view: &HostView,
        needs: &dyn Fn(&ServerName) -> Vec<&'a ServerName>,
    ) -> bool {
        let waits = |name: &&ServerName| !is_settled(view, name, needs);
        if self.waits_for.as_ref().is_none_or(|name| !waits(&name)) {
            self.waits_for = view.servers.keys().find(waits).cloned();
        }
        self.waits_for.is_none()
    }
}

/// Whether a server is settled; see [`Settling`].
fn is_settled<'a>(
    view: &HostView,
    name: &ServerName,
    needs: &dyn Fn(&ServerName) -> Vec<&'a ServerName>,
) -> bool {
    let Some(server) = view.servers.get(name) else { return true };
    match server.state {
        ServerState::Starting => false,
        ServerState::Waiting => needs(name).into_iter().any(|other| {
            let is_ready = view.servers.get(other).is_some_and(|server| server.state.is_callable());
            !is_ready && is_settled(view, other, needs)
        }),
        ServerState::Unavailable => server.retry_at.is_none(),
        ServerState::Ready
        | ServerState::Disabled
        | ServerState::Shutdown
        | ServerState::Sleeping => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_are_settled_only_when_they_are_at_the_same_time() {
        let mut view = HostView::default();
        let mut settling = Settling::default();
        let mut is_over = |states: [ServerState; 2]| {
            for (name, state) in ["a", "b"].into_iter().zip(states) {
                let mut server = ServerView::default();
                server.state = state;
                view.servers.insert(ServerName::new(name), server.into());
            }
            settling.is_over(&view, &|_| Vec::new())
        };
        assert!(!is_over([ServerState::Ready, ServerState::Starting]));
        assert!(!is_over([ServerState::Starting, ServerState::Ready]), "the first starts again");
        assert!(is_over([ServerState::Ready, ServerState::Ready]));
    }

    #[test]
    fn a_server_that_waits_for_its_turn_to_start_is_not_under_way() {
        let server = |state, steps| {
            let mut server = ServerView::default();
            (server.state, server.steps) = (state, steps);
            server
        };
        let spawned = || {
            let step = json!({"step": "spawn", "status": "running", "began": 0});
            vec![serde_json::from_value(step).expect("a step")]
        };
        assert!(!is_under_way(&server(ServerState::Waiting, vec![])));
        assert!(!is_under_way(&server(ServerState::Starting, vec![])));
        assert!(is_under_way(&server(ServerState::Starting, spawned())));
        assert!(is_under_way(&server(ServerState::Unavailable, vec![])));
        assert!(is_under_way(&server(ServerState::Ready, spawned())));
    }
}
