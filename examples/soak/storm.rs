//! The storm: callers that call, and one trouble-maker that makes trouble, until the turns are
//! over; and the calm after it, in which everything must work again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mcpdeck::host::{CallOptions, Host, ServerState};
use mcpdeck::protocol::Payload;
use serde_json::json;

use crate::books::{Books, Ended};
use crate::deck::{NAMES, PINGER, SERVERS, TOOLS, config, name};
use crate::{TURNS, look_for, say, usage};

const CALLERS: usize = 8;

/// A clock that counts turns it got to make, not time that passed.
#[derive(Clone)]
pub struct Turns {
    left: Arc<AtomicU64>,
    all: u64,
}

impl Turns {
    /// So many turns from now.
    pub fn start(all: u64) -> Self {
        let left = Arc::new(AtomicU64::new(all));
        let ticking = Arc::clone(&left);
        tokio::spawn(async move {
            for turn in (0..all).rev() {
                tokio::time::sleep(Duration::from_millis(1000 / TURNS)).await;
                ticking.store(turn, Ordering::SeqCst);
            }
        });
        Self { left, all }
    }

    fn left(&self) -> u64 {
        self.left.load(Ordering::SeqCst)
    }

    fn are_left(&self) -> bool {
        self.left() > 0
    }
}

/// Calls and trouble until the turns are over; every caller has come back then.
pub async fn storm(host: &Host, program: &Path, seed: u64, turns: &Turns, books: &Arc<Books>) {
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let random = fastrand::Rng::with_seed(seed.wrapping_add(number as u64 + 1));
        tasks.spawn(caller(host.clone(), random, turns.clone(), Arc::clone(books)));
    }
    let random = fastrand::Rng::with_seed(seed);
    let trouble = trouble(host.clone(), program.to_owned(), random, turns.clone());
    tasks.spawn(trouble);
    tasks.spawn(watch(turns.clone()));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            say(&format!("a task of the soak failed: {error}"));
        }
    }
}

async fn caller(host: Host, mut random: fastrand::Rng, turns: Turns, books: Arc<Books>) {
    while turns.are_left() {
        let server = random.usize(..SERVERS);
        let tool = TOOLS[random.usize(..TOOLS.len())];
        let tool = format!("{}.{tool}", name(server));
        let number = books.begin(server);
        let options = CallOptions::default();
        let chance = random.u8(..);
        if chance < 8 {
            let cancel = options.cancel.clone();
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(10)).await;
                cancel.cancel();
            });
        }
        let call = host.call_tool_with(&tool, json!({"n": number}), options);
        let ended = if chance > 250 {
            // The caller loses interest: whatever comes of the call, nobody may be told twice.
            match tokio::time::timeout(Duration::from_millis(5), call).await {
                Ok(outcome) => how(outcome.ok().map(|outcome| outcome.result), number),
                Err(_) => Ended::Dropped,
            }
        } else {
            how(call.await.ok().map(|outcome| outcome.result), number)
        };
        if matches!(ended, Ended::Wrong) {
            say(&format!("{tool}: call {number} got another's answer"));
        }
        books.end(server, ended);
        tokio::time::sleep(Duration::from_millis(random.u64(1..10))).await;
    }
}

fn how(result: Option<Payload>, number: u64) -> Ended {
    let Some(result) = result else { return Ended::Refused };
    let said = result["content"][0]["text"].as_str().and_then(|text| text.parse().ok());
    if said == Some(number) { Ended::Answered } else { Ended::Wrong }
}

async fn trouble(host: Host, program: PathBuf, mut random: fastrand::Rng, turns: Turns) {
    let mut generation = 0;
    let mut done: BTreeMap<&str, u64> = BTreeMap::new();
    while turns.are_left() {
        let server = name(random.usize(..SERVERS));
        let what = match random.u8(..7) {
            0 => {
                let pid = host.view().borrow().servers.get(&server).and_then(|view| view.pid);
                signal(pid, "-KILL");
                "kill"
            }
            1 => {
                let _ = host.stop(&server).await;
                let _ = host.start(&server).await;
                "stop and start"
            }
            2 => {
                let _ = host.restart(&server).await;
                "restart"
            }
            3 => {
                let _ = host.call_tool(&format!("{server}.die"), json!({})).await;
                "die"
            }
            4 => {
                generation += 1;
                let _ = host.reload(config(&program, generation)).await;
                "reload"
            }
            5 => {
                // Frozen for a moment, with whatever it was about to say.
                let pid = host.view().borrow().servers.get(&server).and_then(|view| view.pid);
                signal(pid, "-STOP");
                tokio::time::sleep(Duration::from_millis(random.u64(10..100))).await;
                signal(pid, "-CONT");
                "freeze"
            }
            _ => {
                let _ = host.refresh(&server).await;
                "refresh"
            }
        };
        *done.entry(what).or_default() += 1;
        tokio::time::sleep(Duration::from_millis(random.u64(20..200))).await;
    }
    say(&format!("trouble: {done:?}"));
}

fn signal(pid: Option<u32>, which: &str) {
    let Some(pid) = pid else { return };
    let _ = std::process::Command::new("kill")
        .args([which, &pid.to_string()])
        .stderr(std::process::Stdio::null())
        .status();
}

/// Tells the memory ten times on the way, so that a slow growth is seen.
async fn watch(turns: Turns) {
    let mut seen = Vec::new();
    for part in 1..=10 {
        let until = turns.all - turns.all * part / 11;
        while turns.left() > until {
            tokio::time::sleep(Duration::from_millis(1000 / TURNS)).await;
        }
        seen.push(usage::now().memory >> 20);
    }
    say(&format!("memory on the way, MiB: {seen:?}"));
}

/// After the storm every server is ready again, with its tools, and answers. Gives what is not so.
pub async fn calm(host: &Host, books: &Books) -> Vec<String> {
    let mut flaws = Vec::new();
    for number in 0..SERVERS {
        let server = name(number);
        // What was stopped in the last moment is brought back, so that the end is a normal one. The
        // one that pings may be cut off for pings of before.
        let mut ended = Ended::Refused;
        for _ in 0..if number == PINGER { 20 } else { 1 } {
            let _ = host.start(&server).await;
            let _ = host.reset_breaker(&server, None);
            ended = answers(host, books, number, &mut flaws).await;
            if !matches!(ended, Ended::Refused) {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        if !matches!(ended, Ended::Answered) {
            flaws.push(format!("{server} does not answer after the storm: {ended:?}"));
        }
    }
    flaws
}

/// Waits until a server is ready with its tools, and calls it.
async fn answers(host: &Host, books: &Books, number: usize, flaws: &mut Vec<String>) -> Ended {
    let server = name(number);
    let ready = look_for(Duration::from_secs(60), async || {
        let view = host.view().borrow().clone();
        let seen = view.servers.get(&server)?;
        let tools = &seen.capabilities.tools;
        let complete = NAMES.iter().all(|name| tools.iter().any(|tool| &*tool.name == *name));
        (seen.state == ServerState::Ready && complete).then_some(())
    });
    if ready.await.is_none() {
        let view = host.view().borrow().clone();
        let seen = view.servers.get(&server).map(|seen| (seen.state, seen.reason.clone()));
        flaws.push(format!("{server} is not ready after the storm: {seen:?}"));
        return Ended::Dropped;
    }
    let asked = books.begin(number);
    let outcome = host.call_tool(&format!("{server}.echo"), json!({"n": asked})).await;
    if let Err(error) = &outcome {
        say(&format!("after the storm: {error}"));
    }
    let ended = how(outcome.ok().map(|outcome| outcome.result), asked);
    books.end(number, ended);
    ended
}
