//! Plays the rows of the fault suite, several at a time, and prints the outcome of each.

#[path = "disk.rs"]
mod disk;
#[path = "fair.rs"]
mod fair;
#[path = "gate.rs"]
mod gate;
#[path = "program.rs"]
mod program;
#[path = "../support/pty.rs"]
#[expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]
mod pty;
#[path = "row.rs"]
mod row;
#[path = "screen.rs"]
mod screen;
#[path = "serve.rs"]
mod serve;
#[path = "session.rs"]
mod session;
#[path = "stage.rs"]
mod stage;
#[path = "../support/helpers.rs"]
mod support;
#[path = "tcp.rs"]
mod tcp;

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use row::Row;
use stage::{Canary, Stage};

/// Number of rows played concurrently; they mostly wait.
const AT_ONCE: usize = 6;

struct Verdict {
    id: String,
    title: String,
    took: Duration,
    /// Slowest key press on the dashboard.
    key: Option<Duration>,
    problems: Vec<String>,
    /// Why it was not played on this machine.
    skipped: Option<String>,
}

/// Plays the rows that the arguments name, or all; fails if any row fails.
pub fn play() -> ExitCode {
    let mut filters: Vec<String> = std::env::args().skip(1).collect();
    if filters.iter().any(|arg| arg == "--list") {
        return ExitCode::SUCCESS;
    }
    filters.retain(|arg| !arg.starts_with('-'));
    let canary = Canary::listen();
    let rows = row::read_all(&support::repo("fixtures/faults"), &filters, &canary.address);
    // Problems, including panics of assertions, are reported in the table.
    if std::env::var_os("MCPDECK_FAULTS_TRACE").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    let seed = *row::SEED;
    let _ = writeln!(std::io::stdout(), "seed {seed}; MCPDECK_FAULTS_SEED={seed} repeats it");
    let begun = Instant::now();
    let queue = Mutex::new(rows.iter().filter(|row| !row.alone));
    let verdicts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().expect("no panic holds it").next();
                    let Some(row) = next else { return };
                    let verdict = judge(row, &canary);
                    verdicts.lock().expect("no panic holds it").push(verdict);
                }
            });
        }
    });
    let mut verdicts: Vec<Verdict> = verdicts.into_inner().expect("no panic held it");
    verdicts.extend(rows.iter().filter(|row| row.alone).map(|row| judge(row, &canary)));
    verdicts.sort_by_key(|verdict| rows.iter().position(|row| row.id == verdict.id));
    table(&verdicts, begun.elapsed())
}

fn judge(row: &Row, canary: &Canary) -> Verdict {
    let begun = Instant::now();
    let visits = canary.visits();
    if let Some(need) = row.needs.as_ref().filter(|need| !is_met(need)) {
        return Verdict {
            id: row.id.clone(),
            title: row.title.clone(),
            took: begun.elapsed(),
            key: None,
            problems: Vec::new(),
            skipped: Some(need.otherwise.clone()),
        };
    }
    let mut problems = Vec::new();
    let mut attempt = |what: &str, play: &mut dyn FnMut() -> Vec<String>| match catch_unwind(
        AssertUnwindSafe(play),
    ) {
        Ok(found) => problems.extend(found),
        Err(panic) => problems.push(format!("{what}: {}", message(&*panic))),
    };
    let mut checked: Option<support::Finished> = None;
    for run in &row.runs {
        attempt("run", &mut || {
            // All checks of a row are equal, so one run is enough.
            if let Some(finished) = checked.as_ref().filter(|_| run.args == ["check"]) {
                return program::judge(row, run, finished);
            }
            let (finished, found) = program::run(row, &Stage::set(row), run);
            if run.args == ["check"] {
                checked = Some(finished);
            }
            found
        });
    }
    if row.no_verdict.is_none() && row.kill.is_none() {
        attempt("verdict", &mut || gate::compare(row, checked.take()));
    }
    let mut key = None;
    if screen::applies(row) {
        attempt("screen", &mut || {
            let seen = screen::play(row, &Stage::set(row));
            key = Some(seen.slowest);
            seen.problems
        });
    }
    if let Some(kill) = &row.kill {
        attempt("kill", &mut || program::kill(row, &Stage::set(row), kill));
    }
    if !row.session.is_empty() {
        attempt("session", &mut || {
            let mut stage = Stage::set(row);
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(session::play(row, &mut stage))
        });
    }
    if let Some(plan) = &row.serve {
        attempt("serve", &mut || serve::play(row, plan, &Stage::set(row)));
    }
    if canary.visits() > visits {
        problems.push("I9: somebody fetched from the canary".to_owned());
    }
    let (id, title) = (row.id.clone(), row.title.clone());
    Verdict { id, title, took: begun.elapsed(), key, problems, skipped: None }
}

/// Whether this machine permits what a row needs.
fn is_met(need: &row::Need) -> bool {
    let Some((program, rest)) = need.command.split_first() else { return true };
    let mut command = std::process::Command::new(program);
    command.args(rest).stdin(std::process::Stdio::null());
    command.output().is_ok_and(|done| done.status.success())
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

fn table(verdicts: &[Verdict], took: Duration) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "\n row   verdict   time    key  what");
    for verdict in verdicts {
        let word = match (&verdict.skipped, verdict.problems.is_empty()) {
            (Some(_), _) => "skipped",
            (None, true) => "ok",
            (None, false) => "FAILED",
        };
        let seconds = verdict.took.as_secs_f64();
        let key = verdict.key.map(|key| format!("{} ms", key.as_millis())).unwrap_or_default();
        let id = &verdict.id;
        let title = match &verdict.skipped {
            Some(why) => format!("{} ({why})", verdict.title),
            None => verdict.title.clone(),
        };
        let _ = writeln!(out, " {id:<5} {word:<7} {seconds:>5.1}s {key:>6}  {title}");
    }
    for verdict in verdicts {
        for problem in &verdict.problems {
            let _ = writeln!(out, "\n-- {} --\n{problem}", verdict.id);
        }
    }
    let failed = verdicts.iter().filter(|verdict| !verdict.problems.is_empty()).count();
    let (rows, seconds, seed) = (verdicts.len(), took.as_secs_f64(), *row::SEED);
    let skipped = verdicts.iter().filter(|verdict| verdict.skipped.is_some()).count();
    let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    let _ = writeln!(out, "\n{rows} rows, {failed} failed{skipped}, {seconds:.1} s, seed {seed}");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
