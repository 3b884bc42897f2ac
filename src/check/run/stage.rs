//! The run itself: waits for each server, calls, and stops it when nobody needs it any more.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};

use super::{Plan, Signals};
use crate::check::expect::SampleCall;
use crate::check::expect::sample::sample;
use crate::check::model::Finding;
use crate::check::subject::brief;
use crate::config::ServerName;
use crate::host::{
    CallOptions, CallOutcome, Error, Host, HostView, Origin, ServerState, ServerView, Validation,
};

/// What was seen while the servers ran.
#[derive(Default)]
pub(super) struct Seen {
    /// Each server at the moment it was settled: ready, or failed.
    pub(super) settled: BTreeMap<ServerName, Arc<ServerView>>,
    /// Findings of sample calls.
    pub(super) samples: BTreeMap<String, Vec<Finding>>,
    /// The view after everything was stopped.
    pub(super) last: Arc<HostView>,
}

enum Done {
    Called(ServerName, Vec<Finding>),
    Stopped(ServerName),
}

/// Which servers are where.
#[derive(Default)]
struct Board {
    calling: BTreeSet<ServerName>,
    called: BTreeSet<ServerName>,
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
    let mut board = Board::default();
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
            () = signals.stop.cancelled() => break,
            changed = view.changed() => if changed.is_err() { break },
            Some(done) = work.next() => match done {
                Done::Called(name, findings) => {
                    seen.samples.insert(name.as_str().to_owned(), findings);
                    board.called.insert(name);
                }
                Done::Stopped(name) => {
                    board.stopped.insert(name);
                }
            },
        }
    }
    let stopping = host.shutdown();
    tokio::pin!(stopping);
    tokio::select! {
        _ = &mut stopping => {}
        () = signals.force.cancelled() => {
            host.force_shutdown();
            stopping.await;
        }
    }
    let now = Arc::clone(&view.borrow_and_update());
    settle(&now, plan, &mut seen);
    seen.last = now;
    seen
}

/// Notes the servers that became ready or failed, once, as they were at that moment.
fn settle(view: &HostView, plan: &Plan, seen: &mut Seen) {
    for name in plan.config.servers.keys() {
        let Some(server) = view.servers.get(name) else { continue };
        let settled = match server.state {
            ServerState::Starting | ServerState::Waiting => false,
            ServerState::Unavailable => server.retry_at.is_none(),
            ServerState::Ready | ServerState::Shutdown | ServerState::Disabled => true,
        };
        if settled && !seen.settled.contains_key(name) {
            seen.settled.insert(name.clone(), Arc::clone(server));
        }
    }
}

impl Board {
    /// What can be begun now.
    fn next(&mut self, host: &Host, plan: &Plan, seen: &Seen) -> Vec<BoxFuture<'static, Done>> {
        let mut tasks: Vec<BoxFuture<'static, Done>> = Vec::new();
        for name in plan.config.servers.keys() {
            let Some(server) = seen.settled.get(name) else { continue };
            if server.state != ServerState::Ready {
                continue;
            }
            if self.calling.insert(name.clone()) {
                let calls = calls_of(plan, name);
                if calls.is_empty() {
                    self.called.insert(name.clone());
                } else {
                    tasks.push(Box::pin(call_all(host.clone(), name.clone(), calls)));
                }
            }
            if self.called.contains(name)
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
        plan.config.servers.values().filter(|other| other.dependencies.contains(name)).any(
            |other| {
                let over = match seen.settled.get(&other.name) {
                    Some(view) if view.state == ServerState::Ready => {
                        self.stopped.contains(&other.name)
                    }
                    Some(_) => true,
                    None => other.disabled,
                };
                !over
            },
        )
    }
}

/// How many servers never became ready and need no stop.
fn idle(plan: &Plan, seen: &Seen) -> usize {
    let failed = |name: &&ServerName| {
        seen.settled.get(*name).is_some_and(|view| view.state != ServerState::Ready)
    };
    plan.config.servers.keys().filter(failed).count()
}

fn calls_of(plan: &Plan, name: &ServerName) -> Vec<SampleCall> {
    let expectations = plan.expectations.as_ref();
    let server = expectations.and_then(|e| e.servers.get(name.as_str()));
    server.map(|s| s.calls.clone()).unwrap_or_default()
}

async fn stop(host: Host, name: ServerName) -> Done {
    // What went wrong with the stop is in the view: exit, findings, leftovers.
    let _ = host.stop(&name).await;
    Done::Stopped(name)
}

/// Makes the calls one after the other: they may build on each other.
async fn call_all(host: Host, name: ServerName, calls: Vec<SampleCall>) -> Done {
    let mut findings = Vec::new();
    for call in calls {
        // A call that is meant to fail may have arguments that do not fit.
        let validation = match call.expect.is_error {
            Some(true) => Validation::Force,
            _ => Validation::Enforce,
        };
        let options = CallOptions {
            bypass_cache: true,
            origin: Origin::Check,
            validation,
            server: Some(name.clone()),
            ..CallOptions::default()
        };
        let tool = format!("{name}.{}", call.tool);
        let outcome = host.call_tool_with(&tool, call.arguments.clone(), options).await;
        findings.extend(judge(&call, outcome));
    }
    Done::Called(name, findings)
}

fn judge(call: &SampleCall, outcome: Result<CallOutcome, Error>) -> Vec<Finding> {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // A JSON-RPC error is a failure of the tool too, when one is expected.
        Err(error) if call.expect.is_error == Some(true) && error.rpc.is_some() => {
            return Vec::new();
        }
        Err(error) => {
            let mut message = format!("the call failed: {}", brief(&error.message, 300));
            for violation in error.violations.iter().take(3) {
                let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
                let _ = write!(message, "; {}: {}", brief(at, 80), brief(&violation.message, 120));
            }
            return vec![sample(&call.tool, message)];
        }
    };
    let mut findings = call.expect.judge(&call.tool, &outcome.result, outcome.duration);
    findings.extend(outcome.output_violations.iter().take(3).map(|violation| {
        let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
        let message = format!(
            "`structuredContent` does not fit `outputSchema`: {}: {}",
            brief(at, 80),
            brief(&violation.message, 200)
        );
        sample(&call.tool, message)
    }));
    findings
}
