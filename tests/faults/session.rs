//! Plays the steps of a row on one `Deck`, while a healthy server is called continuously.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcpdeck::Deck;
use mcpdeck::base::ServerName;
use mcpdeck::config::Environment;
use mcpdeck::deck::PolicyKeeper;
use mcpdeck::host::{
    CallOptions, DEFAULT_PROFILE, GrantKind, HeldTool, Host, HostView, NewGrant, Origin,
    OutsideError, Startup,
};
use mcpdeck::protocol::Tool;
use serde_json::{Value, json};

use super::fair;
use super::row::{CallStep, Row, Step, subset};
use super::stage::Stage;

/// Timeout for events that should occur by themselves.
const SOON: Duration = Duration::from_secs(15);
/// A step that takes longer than this hangs.
const STUCK: Duration = Duration::from_secs(40);

/// Plays the steps; returns the problems.
pub async fn play(row: &Row, stage: &mut Stage) -> Vec<String> {
    let env = Environment { state_dir: Some(stage.state()), ..Environment::of_process() };
    let engine = Host::builder().startup(Startup::Available);
    let mut deck = Deck::builder().files(vec![stage.config.clone()]).environment(env).host(engine);
    deck.serves_others = true;
    let deck = match deck.open().await {
        Ok(deck) => deck,
        Err(error) => return vec![format!("the host does not start: {error}")],
    };
    let host = deck.host().clone();
    let keeper = deck.policy().clone();
    let stop = Arc::new(AtomicBool::new(false));
    let pulse = tokio::spawn(pulse(host.clone(), Arc::clone(&stop), row.host.alone));
    let mut problems = Vec::new();
    for step in &row.session {
        let stuck = STUCK.max(row.timeout() * 2);
        let doing = perform(&host, &keeper, stage, step, row.timeout());
        match tokio::time::timeout(stuck, doing).await {
            Ok(Ok(())) => {}
            Ok(Err(problem)) => {
                problems.push(format!("{step:?}: {problem}"));
                break;
            }
            Err(_) => {
                problems.push(format!("{step:?}: hangs"));
                break;
            }
        }
    }
    problems.extend(stage.flaws(&[]));
    stop.store(true, Ordering::SeqCst);
    match pulse.await {
        Ok(mut times) => {
            times.sort();
            let middle = times.get(times.len() / 2).copied().unwrap_or_default();
            // As for keys on the screen: a debug build must only stay responsive.
            let limit = if cfg!(debug_assertions) { 1_000 } else { 200 };
            if middle > Duration::from_millis(limit) {
                problems.push(format!("I3: calls of the healthy server took {middle:?}"));
            }
        }
        Err(error) => problems.push(format!("I3: the healthy server failed: {error}")),
    }
    problems.extend(books(&host));
    drop(keeper);
    if tokio::time::timeout(STUCK, deck.shutdown()).await.is_err() {
        problems.push("the shutdown hangs".to_owned());
    }
    let left = stage.bench.processes();
    if !left.is_empty() {
        problems.push(format!("I6: left behind after shutdown: {left:#?}"));
    }
    problems
}

/// I2: every call is recorded with its end, and no server is missing.
fn books(host: &Host) -> Vec<String> {
    let mut flaws = Vec::new();
    let running = host.calls();
    if !running.is_empty() {
        flaws.push(format!("I2: calls without an end: {running:?}"));
    }
    let view = host.view().borrow().clone();
    for (name, metrics) in host.get_metrics() {
        let all = &metrics.total;
        let ended = all.successes + all.tool_errors + all.errors.values().sum::<u64>();
        if all.in_flight != 0 || all.requests != ended || !view.servers.contains_key(&name) {
            flaws.push(format!("I2: the record of {name} is not complete: {all:?}"));
        }
    }
    flaws
}

/// Calls the healthy server continuously; returns the times. Every call must be answered.
async fn pulse(host: Host, stop: Arc<AtomicBool>, alone: bool) -> Vec<Duration> {
    let mut times = Vec::new();
    while !alone && !stop.load(Ordering::SeqCst) {
        let begun = fair::now();
        let outcome = host.call_tool("well.echo", json!({"n": 1})).await;
        assert!(outcome.is_ok(), "{outcome:?}");
        times.push(fair::now().saturating_sub(begun));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    times
}

async fn perform(
    host: &Host,
    keeper: &PolicyKeeper,
    stage: &mut Stage,
    step: &Step,
    timeout: Duration,
) -> Result<(), String> {
    match step {
        Step::Call(call) => {
            let begun = fair::now();
            let outcome = self::call(host, call).await;
            let own = call.timeout.map(|ms| Duration::from_millis(ms.max(2_000) + 2_000));
            let took = fair::now().saturating_sub(begun);
            if took > own.unwrap_or(timeout) {
                return Err(format!("I1: it took {took:?}; {outcome:?}"));
            }
            outcome
        }
        Step::Finding(server, kind) => {
            until(host, |view| {
                let server = view.servers.get(&ServerName::new(server.as_str()))?;
                let found = server.finding_counts.keys().any(|k| json!(k) == json!(kind));
                found.then_some(())
            })
            .await
        }
        Step::State(server, state) => {
            until(host, |view| {
                let server = view.servers.get(&ServerName::new(server.as_str()))?;
                (server.state.as_str() == state).then_some(())
            })
            .await
        }
        Step::Reason(server, text) => {
            until(host, |view| {
                let server = view.servers.get(&ServerName::new(server.as_str()))?;
                let output =
                    serde_json::to_string(&(&server.reason, &server.stderr_tail, &server.exit));
                output.is_ok_and(|output| output.contains(text.as_str())).then_some(())
            })
            .await
        }
        Step::Restart(server) => {
            host.restart(&ServerName::new(server.as_str())).await.map_err(|e| e.to_string())
        }
        Step::Stop(server) => {
            host.stop(&ServerName::new(server.as_str())).await.map_err(|e| e.to_string())
        }
        Step::Refresh(server) => {
            host.refresh(&ServerName::new(server.as_str())).await.map_err(|e| e.to_string())
        }
        Step::Edit(file, before, after) => {
            stage.edit(file, before, after);
            Ok(())
        }
        Step::Count(server, list, count) => {
            until(host, |view| {
                let server = view.servers.get(&ServerName::new(server.as_str()))?;
                let have = match list.as_str() {
                    "tools" => server.capabilities.tools.len(),
                    "prompts" => server.capabilities.prompts.len(),
                    _ => server.capabilities.resources.len(),
                };
                (have == *count).then_some(())
            })
            .await
        }
        step => self::policy(host, keeper, step).await,
    }
}

/// Performs a step about callers other than the user.
async fn policy(host: &Host, keeper: &PolicyKeeper, step: &Step) -> Result<(), String> {
    match step {
        Step::Grant(caller, tools, kind) => {
            let kind = match kind.as_str() {
                "always" => GrantKind::Always,
                "deny" => GrantKind::Deny,
                _ => GrantKind::Once { until: None, session: None },
            };
            let new = NewGrant {
                origin: caller.clone(),
                profile: DEFAULT_PROFILE.to_owned(),
                scopes: [].into(),
                allowed_tools: tools.clone(),
                kind,
            };
            keeper.grant(new).map(|_| ())
        }
        Step::Revoke(caller) => {
            let mut all = keeper.grants().into_iter().filter(|grant| grant.origin == *caller);
            all.try_for_each(|grant| keeper.revoke(grant.id).map(|_| ()))
        }
        Step::Sees(caller, tools) => {
            same(tools, || {
                let offers = host.offers(&options(Some(caller)).principal());
                let names = offers.into_iter().flat_map(|(server, all)| {
                    let name = move |tool: &Arc<Tool>| format!("{server}.{}", tool.name);
                    all.tools.iter().map(name).collect::<Vec<_>>()
                });
                names.filter(|name| !name.starts_with("well.")).collect()
            })
            .await
        }
        Step::Held(names) => same(names, || keeper.held().iter().map(held).collect()).await,
        Step::Accept(name) => {
            // What was just offered again may not have been looked at yet.
            let mut shown = None;
            for _ in 0..250 {
                shown = keeper.held().into_iter().find(|tool| held(tool) == *name);
                if shown.is_some() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            let shown = shown.ok_or_else(|| format!("{name} is not held"))?;
            let server = ServerName::new(shown.server.as_str());
            keeper.accept(&server, shown.tool.as_deref(), shown.digest)
        }
        Step::Risks(words) => {
            let output = format!("{:?}", keeper.held());
            let missing = words.iter().find(|word| !output.contains(word.as_str()));
            missing.map_or(Ok(()), |word| Err(format!("nothing says {word:?}: {output}")))
        }
        _ => Err("no step of the policy".to_owned()),
    }
}

fn held(tool: &HeldTool) -> String {
    let name = tool.tool.iter().map(|name| format!(".{name}"));
    std::iter::once(tool.server.clone()).chain(name).collect()
}

/// Waits until the names are these, in any order.
async fn same(wanted: &[String], look: impl Fn() -> BTreeSet<String>) -> Result<(), String> {
    let wanted: BTreeSet<String> = wanted.iter().cloned().collect();
    let begun = Instant::now();
    loop {
        let found = look();
        if found == wanted {
            return Ok(());
        }
        if begun.elapsed() > SOON {
            return Err(format!("in vain; there is {found:?}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Options of a call by this caller.
fn options(caller: Option<&String>) -> CallOptions {
    let origin = caller.map_or_else(Origin::default, |name| Origin::parse(name).expect("a caller"));
    CallOptions { origin, ..CallOptions::default() }
}

async fn until(host: &Host, look: impl Fn(&HostView) -> Option<()>) -> Result<(), String> {
    let begun = Instant::now();
    loop {
        let view = host.view().borrow().clone();
        if look(&view).is_some() {
            return Ok(());
        }
        if begun.elapsed() > SOON {
            let servers: Vec<String> = view
                .servers
                .values()
                .map(|s| {
                    format!(
                        "{} {} {:?} {:?} tools {}",
                        s.name,
                        s.state.as_str(),
                        s.reason,
                        s.finding_counts,
                        s.capabilities.tools.len()
                    )
                })
                .collect();
            return Err(format!("in vain; the servers are {servers:#?}"));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn call(host: &Host, call: &CallStep) -> Result<(), String> {
    let options = CallOptions {
        timeout: call.timeout.map(Duration::from_millis),
        validation: if call.force {
            mcpdeck::host::Validation::Force
        } else {
            mcpdeck::host::Validation::Enforce
        },
        ..options(call.caller.as_ref())
    };
    let arguments = match (&call.arguments, call.argument_bytes) {
        (_, Some(bytes)) => json!({"text": "x".repeat(bytes)}),
        (Value::Null, None) => json!({}),
        (arguments, None) => arguments.clone(),
    };
    match host.call_tool_with(&call.tool, arguments, options).await {
        Ok(outcome) => {
            if call.error.is_some() && !call.either {
                return Err(format!("expected an error, got {}", short(&outcome.result)));
            }
            match &call.result {
                Some(expected) if !subset(expected, &outcome.result) => {
                    Err(format!("expected {expected}, got {}", short(&outcome.result)))
                }
                _ => Ok(()),
            }
        }
        Err(error) => {
            let wanted = call.error.as_deref().unwrap_or(if call.either { "*" } else { "" });
            let outside = OutsideError::from_error(&error).code.as_str();
            if wanted != "*" && wanted != error.code.as_str() && wanted != outside {
                return Err(format!("{:?} ({outside}): {error}", error.code));
            }
            let output = error.to_string();
            if let Some(text) = call.says.iter().find(|text| !output.contains(text.as_str())) {
                return Err(format!("the error does not say {text:?}: {output}"));
            }
            // Other callers only learn that the tool does not exist.
            let person = call.caller.is_none();
            if person
                && (error.server.is_none() && error.candidates.is_empty() || error.help.is_none())
            {
                return Err(format!("I1: server or next step missing: {error:?}"));
            }
            Ok(())
        }
    }
}

fn short(value: &Value) -> String {
    value.to_string().chars().take(300).collect()
}
