//! The run itself: waits for each server, calls, and stops it when nobody needs it any more.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use tokio::time::Instant;

use super::doctor::name_of;
use super::{Plan, Signals, TICK};
use crate::base::ServerName;
use crate::check::Finding;
use crate::check::calls::{Called, PlannedCall};
use crate::check::expect::{Target, misfit, sample};
use crate::check::subject::brief;
use crate::config::ServerConfig;
use crate::error::Error;
use crate::host::{
    CallOptions, CallOutcome, Host, HostView, Origin, ServerState, ServerView, StepStatus,
    Validation,
};

/// What was seen while the servers ran.
#[derive(Default)]
pub(super) struct Seen {
    /// Each server at the moment it was settled: ready, or failed.
    pub(super) settled: BTreeMap<ServerName, Arc<ServerView>>,
    /// Sample calls that were made, in their order.
    pub(super) calls: BTreeMap<ServerName, Vec<Called>>,
    /// Where servers send those who sign in.
    pub(super) authorizations: BTreeMap<ServerName, Value>,
    /// What a server was at when the run was cut short.
    pub(super) cut: BTreeMap<ServerName, String>,
    /// The view after everything was stopped.
    pub(super) last: Arc<HostView>,
}

enum Done {
    Called(ServerName, Called),
    Stopped(ServerName, Value),
}

/// Which servers are where.
#[derive(Default)]
struct Board {
    /// Calls that are still to be made; they may build on each other.
    queues: BTreeMap<ServerName, VecDeque<PlannedCall>>,
    calling: BTreeSet<ServerName>,
    stopping: BTreeSet<ServerName>,
    stopped: BTreeSet<ServerName>,
}

/// Runs until every server is stopped, or the person has enough.
pub(super) async fn play(
    host: &Host,
    plan: &Plan,
    signals: &Signals,
    watch: &mut (dyn FnMut(&HostView) + Send),
) -> Seen {
    let mut seen = Seen::default();
    let mut view = host.view();
    let mut board = Board::new(plan);
    let mut tick = tokio::time::interval(TICK);
    let mut work: FuturesUnordered<BoxFuture<'static, Done>> = FuturesUnordered::new();
    loop {
        let now = Arc::clone(&view.borrow_and_update());
        watch(&now);
        settle(&now, plan, &mut seen);
        for task in board.next(host, plan, &seen) {
            work.push(task);
        }
        if board.stopped.len() + idle(plan, &seen) >= plan.config.servers.len() {
            break;
        }
        tokio::select! {
            biased;
            () = signals.stop.cancelled() => {
                let now = Arc::clone(&view.borrow());
                board.cut(&now, &mut seen);
                break;
            }
            changed = view.changed() => if changed.is_err() { break },
            Some(done) = work.next() => match done {
                Done::Called(name, called) => {
                    board.calling.remove(&name);
                    seen.calls.entry(name).or_default().push(called);
                }
                Done::Stopped(name, authorization) => {
                    seen.authorizations.insert(name.clone(), authorization);
                    board.stopped.insert(name);
                }
            },
            _ = tick.tick() => {}
        }
    }
    // Whatever runs still is given up before the servers go.
    drop(work);
    let each = || {
        let now = Arc::clone(&view.borrow());
        watch(&now);
    };
    signals.shut_down(host, each).await;
    let now = Arc::clone(&view.borrow_and_update());
    settle(&now, plan, &mut seen);
    seen.last = now;
    seen
}

/// Notes the servers that became ready or failed, once, as they were at that moment.
fn settle(view: &HostView, plan: &Plan, seen: &mut Seen) {
    for name in plan.config.servers.keys() {
        let Some(server) = view.servers.get(name) else { continue };
        let needs = |name: &ServerName| -> Vec<&ServerName> {
            plan.config.servers.get(name).into_iter().flat_map(|s| &s.dependencies).collect()
        };
        let settled = is_settled(view, name, &needs);
        if settled && !seen.settled.contains_key(name) {
            seen.settled.insert(name.clone(), Arc::clone(server));
        }
    }
}

impl Board {
    fn new(plan: &Plan) -> Self {
        let queue = |name: &ServerName| plan.calls.get(name.as_str()).cloned().unwrap_or_default();
        let names = plan.config.servers.keys();
        let queues = names.map(|name| (name.clone(), queue(name).into())).collect();
        Self { queues, ..Self::default() }
    }

    /// Notes what every server was at that had not come to its end.
    fn cut(&self, view: &HostView, seen: &mut Seen) {
        for (name, server) in &view.servers {
            let at = match server.state {
                ServerState::Starting | ServerState::Waiting => {
                    let step = server.steps.iter().rev().find(|s| s.status == StepStatus::Running);
                    match step {
                        Some(step) => format!("while it was starting ({})", name_of(step.step)),
                        None => "before it was started".to_owned(),
                    }
                }
                ServerState::Ready if !self.is_called(name) => {
                    "before all of its sample calls were made".to_owned()
                }
                _ => continue,
            };
            seen.settled.entry(name.clone()).or_insert_with(|| Arc::clone(server));
            seen.cut.insert(name.clone(), at);
        }
    }

    fn is_called(&self, name: &ServerName) -> bool {
        !self.calling.contains(name) && self.queues.get(name).is_none_or(VecDeque::is_empty)
    }

    /// What can be begun now.
    fn next(&mut self, host: &Host, plan: &Plan, seen: &Seen) -> Vec<BoxFuture<'static, Done>> {
        let mut tasks: Vec<BoxFuture<'static, Done>> = Vec::new();
        for name in plan.config.servers.keys() {
            let Some(server) = seen.settled.get(name) else { continue };
            if server.state != ServerState::Ready {
                continue;
            }
            if !self.calling.contains(name)
                && let Some(call) = self.queues.get_mut(name).and_then(VecDeque::pop_front)
            {
                self.calling.insert(name.clone());
                let (host, name) = (host.clone(), name.clone());
                tasks.push(Box::pin(async move {
                    let called = make(&host, &name, &call).await;
                    Done::Called(name, called)
                }));
            }
            if self.is_called(name)
                && !self.is_needed(plan, seen, name)
                && self.stopping.insert(name.clone())
            {
                tasks.push(Box::pin(stop(host.clone(), name.clone())));
            }
        }
        tasks
    }

    /// Whether a server that depends on this one is still to run.
    fn is_needed(&self, plan: &Plan, seen: &Seen, name: &ServerName) -> bool {
        let over = |other: &ServerConfig| match seen.settled.get(&other.name) {
            Some(view) => view.state != ServerState::Ready || self.stopped.contains(&other.name),
            None => other.disabled,
        };
        let mut servers = plan.config.servers.values();
        servers.any(|other| other.dependencies.contains(name) && !over(other))
    }
}

/// How many servers never became ready and need no stop.
fn idle(plan: &Plan, seen: &Seen) -> usize {
    let failed = |name: &&ServerName| {
        seen.settled.get(*name).is_some_and(|view| view.state != ServerState::Ready)
    };
    plan.config.servers.keys().filter(failed).count()
}

async fn stop(host: Host, name: ServerName) -> Done {
    // Asked also where the token is good: a server that moved would tell nobody until it ends.
    let signed_in = host.view().borrow().servers.get(&name).is_some_and(|s| s.account.is_some());
    let mut authorization = Value::Null;
    if signed_in && let Ok(found) = host.authorization(&name).await {
        authorization = serde_json::to_value(found).unwrap_or_default();
    }
    // What went wrong with the stop is in the view: exit, findings, leftovers.
    let _ = host.stop(&name).await;
    Done::Stopped(name, authorization)
}

// One sample call: made through the engine and judged.

/// Makes a call of a server that is ready.
pub(super) async fn make(host: &Host, server: &ServerName, call: &PlannedCall) -> Called {
    let began = Instant::now();
    let options = CallOptions {
        timeout: call.timeout,
        bypass_cache: true,
        origin: Origin::Check,
        validation: if call.force { Validation::Force } else { Validation::Enforce },
        server: Some(server.clone()),
        ..CallOptions::default()
    };
    let arguments = Value::Object(call.arguments.clone());
    let outcome = match &call.target {
        Target::Tool(name) => {
            host.call_tool_with(&format!("{server}.{name}"), arguments, options).await
        }
        Target::Prompt(name) => {
            host.get_prompt_with(&format!("{server}.{name}"), arguments, options).await
        }
        Target::Resource(uri) => host.get_resource_with(uri, options).await,
    };
    let took = outcome.as_ref().map_or_else(|_| began.elapsed(), |outcome| outcome.duration);
    Called { label: call.label.clone(), took, findings: judge(call, outcome) }
}

fn judge(call: &PlannedCall, outcome: Result<CallOutcome, Error>) -> Vec<Finding> {
    let named = |message: String| {
        // A saved call is named as well: its target alone does not say which one it was.
        let name = call.label.strip_prefix('@').map(|_| format!("{}: ", call.label));
        sample(&call.target, name.unwrap_or_default() + &message)
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // A JSON-RPC error is a failure of the tool too, when one is expected.
        Err(error) if call.expect.is_error == Some(true) && error.rpc.is_some() => {
            return Vec::new();
        }
        Err(error) => {
            let mut message = format!("the call failed: {}", brief(&error.message, 300));
            for violation in error.violations.iter().take(3) {
                let _ = write!(message, "; {}", misfit(&violation.pointer, &violation.message));
            }
            return vec![named(message)];
        }
    };
    let found = call.expect.judge(&call.target, &outcome.result, outcome.duration);
    let mut findings: Vec<Finding> = found.into_iter().map(|found| named(found.message)).collect();
    findings.extend(outcome.output_violations.iter().take(3).map(|violation| {
        named(format!(
            "`structuredContent` does not fit `outputSchema`: {}",
            misfit(&violation.pointer, &violation.message)
        ))
    }));
    findings
}

// When nothing more will happen to a server that is being started. Pure.

/// Whether a server is ready, has failed for good, or waits for one that has.
///
/// `needs` gives the servers another depends on; they are free of circles (the configuration is
/// refused otherwise).
pub fn is_settled<'a>(
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
