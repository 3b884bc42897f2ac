//! Saving as people and programs do it, a thousand times at random moments, against running
//! servers: a model says which of them run and with what; the deck has to agree each time the file
//! rests. `MCPDECK_TORTURE=1000` runs as many edits, `MCPDECK_SEED` another order.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::time::{Duration, Instant};

use mcpdeck::base::ServerName;
use mcpdeck::host::{Fact, ServerState};
use serde_json::{Value, json};

use crate::support::Bench;
use crate::watch::deck::{Running, carries, script};
use crate::watch::{Dice, METHODS, Method, save};

/// Servers that come and go, and carry the number of the edit they were changed by.
const MOVING: [&str; 3] = ["a", "b", "c"];
/// Servers that never change.
const STILL: [&str; 2] = ["still", "calm"];

/// What a file says: servers that move, and the number each carries.
type Model = BTreeMap<&'static str, u64>;

/// The script is written once: servers read it while they start.
fn template(bench: &Bench) -> Value {
    bench.mock("server", &script(), &Value::Null)
}

fn text(template: &Value, model: &Model) -> String {
    let mut servers = json!({});
    for name in STILL {
        servers[name] = template.clone();
    }
    for (name, edit) in model {
        servers[*name] = template.clone();
        servers[*name]["env"]["EDIT"] = json!(edit.to_string());
    }
    format!("{:#}\n", json!({"servers": servers}))
}

/// The next state of a file: usually one server changes, sometimes one comes or goes.
fn edited(model: &Model, edit: u64, dice: &mut Dice) -> Model {
    let mut next = model.clone();
    let name = MOVING[dice.roll(MOVING.len())];
    if next.contains_key(name) && dice.roll(3) == 0 {
        next.remove(name);
    } else {
        next.insert(name, edit);
    }
    next
}

/// Writes a state that cannot be used.
fn break_file(running: &Running, whole: &str, method: Method, edit: u64, dice: &mut Dice) {
    let number = edit as usize;
    match dice.roll(5) {
        0 => save(method, &running.file, "{ \"servers\": ", number),
        1 => save(method, &running.file, "", number),
        2 => drop(std::fs::remove_file(&running.file)),
        3 => save(method, &running.file, &whole[..whole.len() / 2], number),
        _ => save(method, &running.file, &whole.replace("\"mock\"", "7"), number),
    }
}

/// Waits until what runs is what the model says: names, numbers, ready. Gives the times until the
/// file was in use, and until every server was ready.
async fn converge(running: &mut Running, model: &Model, since: Instant) -> (Duration, Duration) {
    let mut names: Vec<&str> = STILL.to_vec();
    names.extend(model.keys());
    let host = running.host.clone();
    let in_use = |name: &&str, edit: &u64| {
        let config = host.server_config(&ServerName::new(name))?;
        let mcpdeck::config::TransportConfig::Stdio(stdio) = &config.transport else { return None };
        Some(stdio.env.get("EDIT")?.expose() == edit.to_string())
    };
    running
        .until("the file is in use", |view| {
            view.servers.len() == names.len()
                && model.iter().all(|(name, edit)| in_use(name, edit) == Some(true))
        })
        .await;
    let applied = since.elapsed();
    running
        .until("every process is the one of its edit", |view| {
            view.servers.values().all(|server| server.state == ServerState::Ready)
                && model.iter().all(|(name, edit)| carries(view, name, *edit))
        })
        .await;
    let ready = since.elapsed();
    let processes = running.bench.processes();
    assert_eq!(processes.len(), names.len(), "one process for each server: {processes:#?}");
    (applied, ready)
}

/// Calls a server that never changes, over and over; each call spans several reloads.
fn keep_calling(running: &Running) -> tokio::task::JoinHandle<u32> {
    let host = running.host.clone();
    let stop = running.bench.path().join("stop-calling");
    tokio::spawn(async move {
        let mut calls = 0;
        while !stop.exists() {
            let outcome = host.call_tool("still.slow", json!({})).await.expect("it is never cut");
            assert_eq!(outcome.result["content"][0]["text"], "slow");
            calls += 1;
        }
        calls
    })
}

fn median(mut all: Vec<Duration>) -> (Duration, Duration, Duration) {
    all.sort_unstable();
    let at = |percent: usize| all[(all.len() * percent / 100).min(all.len() - 1)];
    (at(50), at(95), at(100))
}

#[tokio::test(flavor = "multi_thread")]
async fn random_edits_converge_to_the_last_valid_file_and_unchanged_servers_never_restart() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let edits = number("MCPDECK_TORTURE").unwrap_or(150);
    let seed = number("MCPDECK_SEED").unwrap_or_else(|| {
        std::time::UNIX_EPOCH.elapsed().map_or(7, |time| u64::from(time.subsec_nanos()))
    });
    let _ = writeln!(std::io::stdout(), "{edits} edits, MCPDECK_SEED={seed}");
    let mut dice = Dice(seed);
    let bench = Bench::new();
    let template = template(&bench);
    let mut model = Model::from([("a", 0), ("b", 0)]);
    let first = text(&template, &model);
    let mut running = Running::start(bench, &first).await;
    running.ready(&["still", "calm", "a", "b"]).await;
    let pids: Vec<u32> = STILL.iter().filter_map(|name| running.pid(name)).collect();
    let calling = keep_calling(&running);
    let (mut applied, mut ready) = (Vec::new(), Vec::new());
    let mut kinds = [0u32; 2];
    for edit in 1..=edits {
        let method = METHODS[dice.roll(METHODS.len())];
        let next = edited(&model, edit, &mut dice);
        let whole = text(&template, &next);
        if dice.roll(3) == 0 {
            break_file(&running, &whole, method, edit, &mut dice);
            kinds[1] += 1;
        } else {
            save(method, &running.file, &whole, edit as usize);
            model = next;
            kinds[0] += 1;
        }
        // Random moments: most edits come in bursts, some while servers start, some in peace.
        if dice.roll(4) == 0 {
            tokio::time::sleep(Duration::from_millis(dice.roll(250) as u64)).await;
        }
        if edit % 10 == 0 || edit == edits {
            let whole = text(&template, &model);
            let since = Instant::now();
            save(method, &running.file, &whole, (edit + edits) as usize);
            let took = converge(&mut running, &model, since).await;
            applied.push(took.0);
            ready.push(took.1);
            let now: Vec<u32> = STILL.iter().filter_map(|name| running.pid(name)).collect();
            assert_eq!(now, pids, "seed {seed}, edit {edit}: an unchanged server restarted");
        }
    }
    running.bench.write("stop-calling", "");
    let calls = calling.await.expect("every call was answered");
    let view = running.host.view().borrow().clone();
    for name in STILL {
        assert_eq!((view.servers[name].starts, view.servers[name].state), (1, ServerState::Ready));
    }
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{} valid, {} broken; {calls} calls spanned them", kinds[0], kinds[1]);
    for (what, all) in [("in use", applied), ("all ready", ready)] {
        let (p50, p95, max) = median(all);
        let _ = writeln!(out, "last save -> {what}: p50 {p50:.0?}, p95 {p95:.0?}, max {max:.0?}");
    }
    drop(out);
    running.end().await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement: cargo test --test engine torture::measure -- --ignored --nocapture"]
async fn measure_the_time_from_save_to_the_first_changed_server_being_started() {
    let bench = Bench::new();
    let template = template(&bench);
    let mut model = Model::from([("a", 0), ("b", 0), ("c", 0)]);
    let first = text(&template, &model);
    let mut running = Running::start(bench, &first).await;
    running.ready(&["still", "calm", "a", "b", "c"]).await;
    let facts = running.host.facts();
    let mut changed = facts.changed();
    let (mut started, mut ready) = (Vec::new(), Vec::new());
    for edit in 1..=60 {
        for name in MOVING {
            model.insert(name, edit);
        }
        let whole = text(&template, &model);
        let before = facts.span().end;
        let since = Instant::now();
        save(METHODS[edit as usize % METHODS.len()], &running.file, &whole, edit as usize);
        let is_start = |fact: &Fact| matches!(fact, Fact::Spawned { .. });
        while !facts.read(before, usize::MAX).items.iter().any(|record| is_start(&record.fact)) {
            changed.changed().await.expect("the host runs");
        }
        started.push(since.elapsed());
        ready.push(converge(&mut running, &model, since).await.1);
    }
    let mut out = std::io::stdout().lock();
    for (what, all) in [("first changed process", started), ("all three ready", ready)] {
        let (p50, p95, max) = median(all);
        let _ = writeln!(out, "save -> {what}: p50 {p50:.0?}, p95 {p95:.0?}, max {max:.0?}");
    }
    drop(out);
    running.end().await;
}
