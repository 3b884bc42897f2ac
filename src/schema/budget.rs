//! Enforced time limits: compiling and checking on a thread with a budget and a deep stack.
//!
//! The budget is CPU time where the platform reports it, so that a small schema stays usable on a
//! busy machine.
//!
//! The validator crate cannot be interrupted, so every sub-schema of a guarded schema has a custom
//! keyword that checks the deadline and aborts by unwinding (without the panic hook). Work between
//! these checks is bounded otherwise: patterns run on a linear-time engine with a size limit, or
//! with a backtracking limit.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, Keyword, PatternOptions, Retrieve, Uri, ValidationError};
use parking_lot::{Condvar, Mutex};
use serde_json::Value;

use super::explain;
use super::verdict::{Formats, SchemaProblem, SchemaProblemKind};

/// The keyword added to every sub-schema of a guarded schema.
pub(super) const KEYWORD: &str = "x-mcpdeck-deadline";

const STACK_BYTES: usize = 16 << 20;
/// Maximum number of steps on the caller's thread.
const MAX_CHEAP_STEPS: u32 = 50_000;
/// Maximum number of steps of one run; bounds the memory a hostile schema can allocate.
const MAX_STEPS: u32 = 2_000_000;
/// Maximum number of concurrent runs, including abandoned ones.
const MAX_RUNS: usize = 16;
const MAX_PATTERN_BYTES: usize = 1 << 20;
const MAX_BACKTRACKS: usize = 20_000;

static RUNS: Mutex<usize> = Mutex::new(0);
static FREED: Condvar = Condvar::new();

/// A run that does not look at its deadline is abandoned after this many times its budget.
const MAX_BUDGETS: u32 = 8;
/// Longest wait for a run that has not used its time, or for a place among the runs. A machine that
/// is short of memory stops a thread for seconds.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);

thread_local! {
    /// The deadline of the run on this thread, in its CPU time.
    static DEADLINE: Cell<Option<Duration>> = const { Cell::new(None) };
    static STEPS: Cell<u32> = const { Cell::new(0) };
}

/// Why a run has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Stopped {
    #[error("checking takes too long (the limit is {} ms)", .0.as_millis())]
    TimeUp(Duration),
    #[error("too many slow validations are running; try again")]
    Busy,
    #[error("the validation failed")]
    Failed,
}

struct TimeUp;

/// A place among the concurrent runs; released on drop.
struct RunPlace;

impl RunPlace {
    /// Takes a place, waiting for one at most [`RUN_TIMEOUT`].
    fn take() -> Result<Self, Stopped> {
        let mut runs = RUNS.lock();
        let waited = FREED.wait_while_for(&mut runs, |runs| *runs >= MAX_RUNS, RUN_TIMEOUT);
        if waited.timed_out() && *runs >= MAX_RUNS {
            return Err(Stopped::Busy);
        }
        *runs += 1;
        Ok(Self)
    }
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        *RUNS.lock() -= 1;
        FREED.notify_one();
    }
}

/// Runs `work` on a separate thread with the budget `time`, and waits for it until it has used
/// [`MAX_BUDGETS`] times as much.
///
/// A run that is still busy then (a long pattern match) is abandoned but keeps its place until it
/// ends, which it does because all work between deadline checks is bounded.
pub(super) fn run<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let place = RunPlace::take()?;
    let (sender, receiver) = mpsc::sync_channel(1);
    let clock = Arc::new(RunClock::default());
    let its_clock = Arc::clone(&clock);
    let spawned = std::thread::Builder::new()
        .name("validate".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(move || {
            its_clock.start();
            DEADLINE.set(Some(worked() + time));
            let result = catch_unwind(AssertUnwindSafe(work));
            drop(place);
            let _ = sender.send(result.map_err(|payload| {
                if payload.is::<TimeUp>() { Stopped::TimeUp(time) } else { Stopped::Failed }
            }));
        });
    if spawned.is_err() {
        return Err(Stopped::Busy);
    }
    let (most, begun) = (time * MAX_BUDGETS, Instant::now());
    loop {
        match receiver.recv_timeout(most) {
            Ok(result) => return result,
            Err(mpsc::RecvTimeoutError::Timeout)
                if clock.worked() < most && begun.elapsed() < RUN_TIMEOUT => {}
            // It may have ended meanwhile.
            Err(mpsc::RecvTimeoutError::Timeout) => {
                return receiver.try_recv().unwrap_or(Err(Stopped::TimeUp(time)));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(Stopped::Failed),
        }
    }
}

/// What the thread of a run has worked, as its caller sees it.
#[derive(Default)]
struct RunClock {
    #[cfg(target_os = "linux")]
    thread: std::sync::OnceLock<rustix::thread::Pid>,
}

#[cfg(target_os = "linux")]
impl RunClock {
    /// Called by the thread of the run.
    fn start(&self) {
        let _ = self.thread.set(rustix::thread::gettid());
    }

    /// CPU time of the thread, in ticks of the kernel; none as long as it has not started.
    fn worked(&self) -> Duration {
        let Some(thread) = self.thread.get() else { return Duration::ZERO };
        let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
        let Ok(stat) = std::fs::read_to_string(path) else { return Duration::MAX };
        // Behind the name, which may hold anything, the fields 14 and 15 count from 3 (proc(5)).
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 =
            fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_secs(ticks) / (rustix::param::clock_ticks_per_second() as u32).max(1)
    }
}

/// Where the CPU time of another thread cannot be read, [`RUN_TIMEOUT`] alone ends the wait.
#[cfg(not(target_os = "linux"))]
impl RunClock {
    fn start(&self) {}

    fn worked(&self) -> Duration {
        Duration::ZERO
    }
}

/// Runs `work` on this thread; `None` when it takes more than [`MAX_CHEAP_STEPS`].
pub(super) fn in_place<T>(work: impl FnOnce() -> T) -> Option<T> {
    STEPS.set(MAX_STEPS - MAX_CHEAP_STEPS);
    DEADLINE.set(Some(Duration::MAX));
    let result = catch_unwind(AssertUnwindSafe(work));
    DEADLINE.set(None);
    result.ok()
}

/// CPU time of this thread.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
fn worked() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// Wall time since the first call on this thread, where its CPU time is not available.
#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
fn worked() -> Duration {
    thread_local! {
        static BEGAN: std::time::Instant = std::time::Instant::now();
    }
    BEGAN.with(std::time::Instant::elapsed)
}

/// Counts a step and unwinds when the step limit or the deadline of this thread is exceeded.
fn step() {
    let Some(deadline) = DEADLINE.get() else { return };
    let steps = STEPS.get() + 1;
    STEPS.set(steps);
    if steps >= MAX_STEPS || (steps.is_multiple_of(64) && worked() >= deadline) {
        resume_unwind(Box::new(TimeUp));
    }
}

struct Deadline;

impl<'i> Keyword<'i> for Deadline {
    fn validate(&self, _: &'i Value) -> Result<(), ValidationError<'i>> {
        step();
        Ok(())
    }

    fn is_valid(&self, _: &'i Value) -> bool {
        step();
        true
    }
}

/// Rejects every reference to another document.
struct NoRetrieval;

impl Retrieve for NoRetrieval {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err(format!("refers to `{uri}` outside the schema").into())
    }
}

/// Compiles on a separate thread with a deadline.
pub(super) fn compile(
    schema: Value,
    dialect: Draft,
    formats: Formats,
    time: Duration,
) -> Result<jsonschema::Validator, SchemaProblem> {
    run(time, move || build(&schema, dialect, formats)).unwrap_or_else(|stopped| Err(slow(stopped)))
}

/// All violations of the meta-schema in `schema`, at most 100.
pub(super) fn against_meta_schema(
    schema: Value,
    time: Duration,
) -> Result<Vec<SchemaProblem>, SchemaProblem> {
    run(time, move || match jsonschema::meta::validator_for(&schema) {
        Ok(meta) => meta.iter_errors(&schema).take(100).map(|error| problem(&error)).collect(),
        Err(error) => vec![problem(&error)],
    })
    .map_err(slow)
}

fn slow(stopped: Stopped) -> SchemaProblem {
    let message = format!("the schema cannot be used: {stopped}");
    SchemaProblem { kind: SchemaProblemKind::TooSlow, pointer: String::new(), message }
}

/// Compiles in place. Tries the linear-time pattern engine first; look-around needs the
/// backtracking engine, which is limited.
pub(super) fn build(
    schema: &Value,
    dialect: Draft,
    formats: Formats,
) -> Result<jsonschema::Validator, SchemaProblem> {
    let options = || {
        let options = jsonschema::options()
            .with_draft(dialect)
            .with_retriever(NoRetrieval)
            .with_keyword(KEYWORD, |_, _, _| {
                step();
                Ok(Box::new(Deadline))
            });
        match formats {
            Formats::Dialect => options,
            Formats::Assert => options.should_validate_formats(true),
        }
    };
    let linear =
        PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
    let first = options().with_pattern_options(linear).build(schema);
    let error = match first {
        Ok(validator) => return Ok(validator),
        Err(error) => error,
    };
    if !is_about_a_pattern(&error) {
        return Err(problem(&error));
    }
    let bounded = PatternOptions::fancy_regex()
        .size_limit(MAX_PATTERN_BYTES)
        .dfa_size_limit(MAX_PATTERN_BYTES)
        .backtrack_limit(MAX_BACKTRACKS);
    options().with_pattern_options(bounded).build(schema).map_err(|error| problem(&error))
}

fn is_about_a_pattern(error: &ValidationError<'_>) -> bool {
    matches!(error.kind(), ValidationErrorKind::Format { format } if format == "regex")
}

fn problem(error: &ValidationError<'_>) -> SchemaProblem {
    let pointer = error.instance_path().as_str().to_owned();
    let (kind, message) = match error.kind() {
        ValidationErrorKind::Referencing(jsonschema::ReferencingError::Unretrievable {
            uri,
            ..
        }) => (
            SchemaProblemKind::RemoteRef,
            format!("refers to `{uri}`, which is outside the schema and is not fetched"),
        ),
        ValidationErrorKind::Referencing(error) => {
            (SchemaProblemKind::UnresolvedRef, format!("cannot be resolved: {error}"))
        }
        ValidationErrorKind::Format { format } if format == "regex" => (
            SchemaProblemKind::Pattern,
            format!("{} is not a usable pattern", explain::preview(error.instance())),
        ),
        _ => {
            let violation = explain::violations(error).into_iter().next();
            (SchemaProblemKind::Invalid, violation.map(|v| v.message).unwrap_or_default())
        }
    };
    SchemaProblem { kind, pointer, message: explain::safe(&message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    #[test]
    fn time_in_which_the_machine_does_other_things_is_not_counted() {
        let time = Duration::from_millis(20);
        for wait in [time * 3, time * (MAX_BUDGETS + 4)] {
            let work = move || {
                // A sleeping thread uses no CPU time, like one that waits for a processor.
                let (_open, nothing) = mpsc::channel::<()>();
                let _ = nothing.recv_timeout(wait);
                (0..1_000).for_each(|_| step());
            };
            assert_eq!(run(time, work), Ok(()), "{wait:?}");
        }
    }

    #[test]
    fn work_that_never_looks_at_its_deadline_is_not_waited_for() {
        let time = Duration::from_millis(10);
        let (end, ended) = mpsc::sync_channel::<()>(1);
        let busy = move || {
            while ended.try_recv() == Err(mpsc::TryRecvError::Empty) {
                std::hint::black_box((0..1_000).map(std::hint::black_box).sum::<u64>());
            }
        };
        assert_eq!(run::<()>(time, busy), Err(Stopped::TimeUp(time)));
        drop(end);
    }

    #[test]
    fn work_without_end_stops_when_its_time_is_used_up() {
        let time = Duration::from_millis(40);
        let busy = || loop {
            std::hint::black_box((0..1_000).map(std::hint::black_box).sum::<u64>());
            step();
        };
        assert_eq!(run::<()>(time, busy), Err(Stopped::TimeUp(time)));
    }
}
