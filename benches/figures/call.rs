//! The cost of a call: one small call and one 1 MB result through (a) a raw pipe, (b) plain rmcp
//! with its own transport, (c) `Host::call_tool` with all features, all in one run on a
//! current-thread runtime against the same echo server, printed as times and ratios; then 50 and
//! 1,000 concurrent calls over ten servers, by the wall clock and by the caller's processor time
//! (the servers share what processors are left, and may be what limits the first), and the host's
//! memory with ten idle servers.
//!
//! `cargo bench --bench figures -- call`; the goals stand beside the figures. The ways alternate in short
//! blocks; the result is the median of the ratios of the blocks, printed with their middle half.
//! Every way runs on the same processors (see `place`). The word `host` or `rmcp`, with `small`, `big` or
//! `many`, repeats one way for a while, for a profiler; with a number, that many times.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::place::Place;
use crate::report::{Figure, Goal, at};
use crate::ways::{BIG, Deck, Raw, Rmcp};

/// Number of servers for concurrent calls.
const SERVERS: usize = 10;

/// Measures, or repeats one way, as the words say.
pub fn measure(words: &[String]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let alone = words.iter().find(|word| *word == "host" || *word == "rmcp");
    match alone {
        Some(way) => runtime.block_on(alone_for_a_while(way, words)),
        None => runtime.block_on(bench()),
    }
}

async fn bench() {
    let idle = Deck::start(SERVERS, Place::Spread).await;
    println!("host with {SERVERS} idle servers: {:.1} MB resident", resident());
    idle.0.shutdown().await;
    for place in [Place::Shared, Place::Apart] {
        one_by_one(place).await;
    }
    throughput().await;
}

fn arguments(big: bool) -> Value {
    json!({"text": "hello", "big": big})
}

/// Times `$calls` sequential calls; returns the median in microseconds.
macro_rules! time {
    ($calls:expr, $length:expr, $call:expr) => {{
        let mut times = Vec::with_capacity($calls);
        for _ in 0..$calls {
            let began = Instant::now();
            let length = $call.await;
            times.push(micros(began.elapsed()));
            assert_eq!(length, $length);
        }
        at(&mut times, 0.5)
    }};
}

fn micros(span: Duration) -> f64 {
    span.as_secs_f64() * 1e6
}

/// Measures sequential calls, alternating between the ways.
async fn one_by_one(place: Place) {
    Place::take_as_caller();
    let mut raw = Raw::start(place);
    let rmcp = Rmcp::start(place).await;
    let host = Deck::start(1, place).await;
    println!("\n{place}:\n               (a) raw   (b) rmcp   (c) host");
    for (name, big, blocks, calls) in
        [("small call", false, 150, 100), ("1 MB result", true, 60, 8)]
    {
        let arguments = arguments(big);
        let length = if big { BIG } else { 5 };
        let mut all: [Vec<f64>; 3] = Default::default();
        let mut ratios = [Vec::new(), Vec::new()];
        for block in 0..=blocks {
            let mut took = [0.0; 3];
            for turn in 0..3 {
                let way = (block + turn) % 3;
                took[way] = match way {
                    0 => time!(calls, length, raw.call(&arguments)),
                    1 => time!(calls, length, rmcp.call(&arguments)),
                    _ => time!(calls, length, host.call(0, &arguments)),
                };
            }
            // The first block warms up.
            if block > 0 {
                all.iter_mut().zip(took).for_each(|(all, took)| all.push(took));
                ratios[0].push(took[2] / took[1]);
                ratios[1].push(took[2] / took[0]);
            }
        }
        let [a, b, c] = all.map(|mut all| at(&mut all, 0.5));
        let [mut to_rmcp, mut to_raw] = ratios;
        println!("{name:<12} {a:>7.1} us {b:>7.1} us {c:>7.1} us, c/a {:.2}", at(&mut to_raw, 0.5));
        let what = format!("{name}, {place}");
        let goal = Goal::AtMost(if big { 0.4 } else { 0.8 });
        Figure { what: &what, against: "rmcp", unit: "", goal }.state(&mut to_rmcp);
    }
    host.0.shutdown().await;
}

/// Measures concurrent small calls over ten servers.
async fn throughput() {
    const CALLS: usize = 2000;
    const BLOCKS: usize = 100;
    let place = Place::Spread;
    Place::take_as_caller();
    let arguments = arguments(false);
    let mut services = Vec::new();
    for _ in 0..SERVERS {
        services.push(Rmcp::start(place).await);
    }
    let host = Deck::start(SERVERS, place).await;
    println!("\n{place}:");
    for at_once in [50, 1000] {
        // Each block: calls a second by the wall clock, then of the caller's own processor time.
        let mut by_rmcp: [Vec<f64>; 2] = Default::default();
        let mut by_host = by_rmcp.clone();
        for block in 0..=BLOCKS {
            for turn in 0..2 {
                let (began, before) = (Instant::now(), busy());
                let rates = if (block + turn) % 2 == 0 {
                    many(at_once, CALLS, |n| services[n % SERVERS].call(&arguments)).await;
                    &mut by_rmcp
                } else {
                    many(at_once, CALLS, |n| host.call(n % SERVERS, &arguments)).await;
                    &mut by_host
                };
                // The first block warms up.
                if block > 0 {
                    let took = [began.elapsed(), busy().saturating_sub(before)];
                    for (rates, took) in rates.iter_mut().zip(took) {
                        rates.push(CALLS as f64 / took.as_secs_f64());
                    }
                }
            }
        }
        println!("{at_once:>4} at once over {SERVERS} servers:");
        let least = if at_once == 50 { 1.4 } else { 1.3 };
        let clocks = [
            ("calls a second", Goal::Open),
            ("calls a second of the caller's processor time", Goal::AtLeast(least)),
        ];
        for ((mut rmcp, mut host), (clock, goal)) in by_rmcp.into_iter().zip(by_host).zip(clocks) {
            let mut ratios: Vec<f64> =
                host.iter().zip(&rmcp).map(|(host, rmcp)| host / rmcp).collect();
            println!("     rmcp {:.0}, host {:.0} {clock}", at(&mut rmcp, 0.5), at(&mut host, 0.5));
            let what = format!("{at_once} at once, {clock}");
            Figure { what: &what, against: "rmcp", unit: "", goal }.state(&mut ratios);
        }
    }
    host.0.shutdown().await;
}

async fn many<F: Future<Output = usize>>(at_once: usize, calls: usize, call: impl Fn(usize) -> F) {
    use futures::StreamExt;
    let answered = futures::stream::iter((0..calls).map(call))
        .buffer_unordered(at_once)
        .fold(0, |sum, length| async move { sum + length })
        .await;
    assert_eq!(answered, calls * 5);
}

/// Repeats one way, for a profiler.
async fn alone_for_a_while(way: &str, words: &[String]) {
    let said = |wanted: &str| words.iter().any(|word| word == wanted);
    let place = if said("shared") { Place::Shared } else { Place::Apart };
    Place::take_as_caller();
    let big = said("big");
    let (arguments, length) = (arguments(big), if big { BIG } else { 5 });
    let number = words.iter().find_map(|word| word.parse().ok());
    let calls = number.unwrap_or(if big { 4_000 } else { 200_000 });
    let began = Instant::now();
    let took = match (way, said("many")) {
        ("host", false) => {
            let host = Deck::start(1, place).await;
            time!(calls, length, host.call(0, &arguments))
        }
        (_, false) => {
            let rmcp = Rmcp::start(place).await;
            time!(calls, length, rmcp.call(&arguments))
        }
        ("host", true) => {
            let host = Deck::start(SERVERS, Place::Spread).await;
            many(50, calls, |n| host.call(n % SERVERS, &arguments)).await;
            micros(began.elapsed()) / calls as f64
        }
        (_, true) => {
            let mut services = Vec::new();
            for _ in 0..SERVERS {
                services.push(Rmcp::start(Place::Spread).await);
            }
            many(50, calls, |n| services[n % SERVERS].call(&arguments)).await;
            micros(began.elapsed()) / calls as f64
        }
    };
    println!("{way} alone: {took:.1} us");
}

/// Processor time of this program's main thread, where every way runs; zero where it is unavailable.
fn busy() -> Duration {
    let times = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let busy = times.split(' ').next().and_then(|busy| busy.parse().ok());
    Duration::from_nanos(busy.unwrap_or_default())
}

/// Resident memory of this process in MB; 0 where it is unavailable.
fn resident() -> f64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0 / 1e6
}
