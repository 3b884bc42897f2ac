//! A soak: ten servers, one of which pings and reads slowly, one forks daemons and one changes its
//! definitions to and fro, under random calls, kills, stops, restarts, floods, reloads and list
//! changes, for a bounded time. At the end every call was answered exactly once, every server
//! works, the books agree, and memory, files, threads, tasks and processes are back where they
//! began.
//!
//! `cargo run --profile dist --example soak -- [SECONDS] [SEED]` (default 60 seconds, a random seed,
//! which is printed). Needs the program beside the example: `cargo build --profile dist` first.
//!
//! Time is counted in turns of a clock of its own: a machine that stops the whole soak for a while
//! makes it longer, not different.

mod books;
mod deck;
mod storm;
mod usage;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use mcpdeck::host::{Host, Startup};

use crate::books::{Books, FactReader};
use crate::storm::Turns;
use crate::usage::Usage;

/// Turns in a second.
const TURNS: u64 = 10;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().and_then(|text| text.parse().ok()).unwrap_or(60);
    let seed = args.next().and_then(|text| text.parse().ok()).unwrap_or_else(|| fastrand::u64(..));
    let Some(program) = program() else {
        say("the program mcpdeck is not beside this example: build it first");
        return ExitCode::FAILURE;
    };
    say(&format!("soak of {seconds} s with seed {seed}"));
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let Ok(runtime) = runtime else { return ExitCode::FAILURE };
    let clean = runtime.block_on(soak(&program, seconds, seed));
    say(if clean { "clean" } else { "NOT CLEAN" });
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn say(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// The program in the folder of the build, one above the examples.
fn program() -> Option<PathBuf> {
    let here = std::env::current_exe().ok()?;
    let program = here.parent()?.parent()?.join(format!("mcpdeck{}", std::env::consts::EXE_SUFFIX));
    program.exists().then_some(program)
}

/// What one host's life gave.
struct Life {
    books: Books,
    /// What is wrong, in words.
    flaws: Vec<String>,
}

async fn soak(program: &Path, seconds: u64, seed: u64) -> bool {
    // The first host pays for what is made once per process, and fills what is bounded: pools,
    // rings, the allocator's own stock. Growth after it would be a leak.
    let warm_up = (seconds / 4).clamp(10, 120);
    if live(program, warm_up, seed).await.is_none() {
        return false;
    }
    let before = usage::settled().await;
    say(&format!("before: {before}"));
    let Some(life) = live(program, seconds, seed).await else { return false };
    let after = usage::settled().await;
    say(&format!("after:  {after}"));
    say(&life.books.to_string());
    let mut flaws = life.flaws;
    flaws.extend(leaks(before, after));
    for flaw in &flaws {
        say(&format!("FAILED {flaw}"));
    }
    flaws.is_empty()
}

/// One host from its start to its end, in a storm of so many seconds.
async fn live(program: &Path, seconds: u64, seed: u64) -> Option<Life> {
    let host = Host::builder().config(deck::config(program, 0)).startup(Startup::Available);
    let host = host.initialize().await.map_err(|error| say(&error.to_string())).ok()?;
    let facts = FactReader::start(&host);
    let turns = Turns::start(seconds * TURNS);
    let books = Arc::new(Books::default());
    storm::storm(&host, program, seed, &turns, &books).await;
    let mut flaws = storm::calm(&host, &books).await;
    flaws.extend(books.flaws(&host));
    host.shutdown().await;
    drop(host);
    flaws.extend(facts.flaws().await);
    let books = Arc::into_inner(books)?;
    Some(Life { books, flaws })
}

/// What was not given back.
fn leaks(before: Usage, after: Usage) -> Vec<String> {
    let mut flaws = Vec::new();
    let mut expect = |holds: bool, what: &str| {
        if !holds {
            flaws.push(what.to_owned());
        }
    };
    expect(after.processes == 0, "processes are left");
    expect(after.files <= before.files, "files are left open");
    expect(after.threads <= before.threads, "threads are left");
    expect(after.tasks <= before.tasks, "tasks are left");
    expect(after.memory < before.memory + (32 << 20), "more than 32 MiB of memory are left");
    flaws
}

/// A wait that a stopped machine does not shorten for those who did not get to run: at most as
/// many looks as fit into the time.
async fn look_for<T>(at_most: Duration, mut look: impl AsyncFnMut() -> Option<T>) -> Option<T> {
    let pause = Duration::from_millis(1000 / TURNS);
    for _ in 0..at_most.as_millis() / pause.as_millis() {
        if let Some(found) = look().await {
            return Some(found);
        }
        tokio::time::sleep(pause).await;
    }
    None
}
