//! `load`: one tool called many times, several at once: rate, latencies, errors.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::args::{Common, LoadArgs};
use super::deck::{Invocation, Need};
use super::operate::{self, ArgumentWords, Prepared};
use super::outcome::{OutcomeFormat, Printer};
use super::output::{self, ExitStatus};
use crate::telemetry::Telemetry;
use ::check::answers::AnswerScript;
use base::human::{count, phrase};
use base::{Redactor, SafeText};
use config::error::Error;
use host::{CallOptions, CallOutcome, Host, Origin, TargetKind};

/// Longest latency that is recorded exactly, in microseconds: an hour.
const MAX_LATENCY_MICROS: u64 = 3_600_000_000;
/// The quantiles of the latencies that are shown.
const QUANTILES: [(&str, f64); 7] = [
    ("min", 0.0),
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p999", 0.999),
    ("max", 1.0),
];

/// The outcomes of the calls.
struct Tally {
    /// The tool's full name.
    name: String,
    /// Latencies of the calls that gave a result, in microseconds.
    latencies: Histogram<u64>,
    /// Calls that have ended.
    ended: u64,
    failed: u64,
    /// By code: how many, and the first message.
    errors: BTreeMap<&'static str, (u64, String)>,
    /// What no message may show.
    masks: Redactor,
}

impl Tally {
    fn take(&mut self, outcome: Result<CallOutcome, Error>, took: Duration) {
        self.ended += 1;
        let (code, message) = match outcome {
            Ok(outcome) if !outcome.is_error => {
                self.latencies.saturating_record(took.as_micros() as u64);
                return;
            }
            Ok(outcome) => ("toolError", outcome.text()),
            Err(error) => (error.code.as_str(), error.message.clone()),
        };
        self.failed += 1;
        let first = || (0, SafeText::cut(&self.masks.redact(&message), 120).as_str().to_owned());
        self.errors.entry(code).or_insert_with(first).0 += 1;
    }
}

/// What was measured; it outlives the calls when a signal ends them.
#[derive(Default)]
struct Measured {
    tally: RefCell<Option<Tally>>,
    took: Cell<Duration>,
}

/// Measures the time until it is dropped.
struct Stopwatch<'a> {
    began: Instant,
    took: &'a Cell<Duration>,
}

impl Drop for Stopwatch<'_> {
    fn drop(&mut self) {
        self.took.set(self.began.elapsed());
    }
}

/// `mcpdeck load`
pub fn load_test(common: &Common, args: &LoadArgs, telemetry: &Telemetry) -> ExitStatus {
    let format = OutcomeFormat::from(args.json);
    let printer = Printer { noun: "tool", target: &args.name, format, file: None };
    let invocation = Invocation { common, one: &args.one, telemetry };
    let need = Need::Owner(TargetKind::Tool, args.name.clone());
    let measured = Measured::default();
    let done = operate::words(&args.arguments).and_then(|words| {
        invocation.run(need, AnswerScript::default(), async |scene| {
            match calls(scene.host, invocation, (args, &words), &measured).await {
                Ok(()) => print(args, &measured, false),
                Err(error) => printer.failure(&error),
            }
        })
    });
    let has_begun = measured.tally.borrow().is_some();
    match done {
        Ok(ExitStatus::Interrupted) if has_begun => print(args, &measured, true),
        done => printer.ended(done),
    }
}

/// Makes the calls.
async fn calls(
    host: &Host,
    invocation: Invocation<'_>,
    (args, words): (&LoadArgs, &ArgumentWords),
    measured: &Measured,
) -> Result<(), Error> {
    let prepared = operate::prepare(host, invocation, (&args.name, words))?;
    let Prepared { canonical, server, arguments, takes } = prepared;
    let (arguments, numbers) = (arguments.value, Some(Arc::new(arguments.numbers)));
    let secrets = if invocation.common.reveal { Vec::new() } else { host.secrets(&server) };
    let masks = Redactor::new(secrets);
    let options = CallOptions {
        origin: Origin::Cli,
        server: Some(server),
        numbers,
        ..CallOptions::default()
    };
    let latencies = Histogram::new_with_max(MAX_LATENCY_MICROS, 3)
        .map_err(|error| Error::new(config::error::ErrorCode::Internal, error.to_string()))?;
    let (name, errors) = (canonical.clone(), BTreeMap::new());
    let tally = Tally { name, latencies, ended: 0, failed: 0, errors, masks };
    *measured.tally.borrow_mut() = Some(tally);
    let open = Cell::new(args.calls);
    let refused = RefCell::new(None);
    let watch = Stopwatch { began: Instant::now(), took: &measured.took };
    let caller = async || {
        while let Some(left) = open.get().checked_sub(1) {
            open.set(left);
            let began = Instant::now();
            let outcome = host.call_tool_with(&canonical, arguments.clone(), options.clone()).await;
            // All calls have the same arguments.
            if let Err(error) = &outcome
                && error.code == config::error::ErrorCode::Validation
            {
                open.set(0);
                refused.borrow_mut().get_or_insert_with(|| error.clone());
            }
            if let Some(tally) = &mut *measured.tally.borrow_mut() {
                tally.take(outcome, began.elapsed());
            }
        }
    };
    futures::future::join_all((0..args.parallel.min(args.calls)).map(|_| caller())).await;
    drop(watch);
    match refused.into_inner() {
        Some(error) => Err(error.help(takes)),
        None => Ok(()),
    }
}

fn print(args: &LoadArgs, measured: &Measured, is_interrupted: bool) -> ExitStatus {
    let tally = measured.tally.borrow();
    let Some(tally) = &*tally else { return ExitStatus::Failed };
    let took = measured.took.get();
    let exit = match tally.failed {
        _ if is_interrupted => ExitStatus::Interrupted,
        0 => ExitStatus::Ok,
        _ => ExitStatus::Failed,
    };
    let (name, calls, failed) = (&tally.name, tally.ended, tally.failed);
    let rate = calls as f64 / took.as_secs_f64().max(f64::EPSILON);
    let millis = |micros: u64| micros as f64 / 1e3;
    let quantiles = QUANTILES.map(|(name, q)| (name, millis(tally.latencies.value_at_quantile(q))));
    if args.json {
        let latency: Value = quantiles.iter().copied().collect();
        let errors = tally.errors.iter();
        let errors = errors.map(
            |(code, (count, message))| json!({"code": code, "count": count, "message": message}),
        );
        let errors: Value = errors.collect();
        let mut object = json!({
            "tool": name, "calls": calls, "parallel": args.parallel, "durationMs": took.as_millis() as u64,
            "callsPerSecond": rate, "succeeded": calls - failed, "failed": failed,
            "latencyMs": latency, "errors": errors,
        });
        if is_interrupted {
            object["interrupted"] = json!(true);
        }
        return output::json_line(&object, exit);
    }
    let (name, seconds) = (SafeText::line(name), took.as_secs_f64());
    let (made, end) = if is_interrupted {
        (format!("{calls} of {}", args.calls), ", interrupted")
    } else {
        (calls.to_string(), "")
    };
    let parallel = args.parallel;
    let mut text = format!("{name}: {made} calls, {parallel} at once, {seconds:.2} s{end}\n");
    let _ = writeln!(
        text,
        "  rate     {rate:.1} calls/s, {} succeeded, {failed} failed",
        calls - failed
    );
    // Only calls that gave a result are timed.
    if calls > failed {
        let latencies: Vec<String> =
            quantiles.iter().map(|(name, ms)| format!("{name} {ms:.2}")).collect();
        let _ = writeln!(text, "  latency  {} ms", latencies.join("  "));
    }
    for (code, (times, message)) in &tally.errors {
        let (what, often) = (phrase(code), count(*times, "time"));
        let _ = writeln!(text, "  {what}  {often}; the first: {message}");
    }
    output::print(&text, exit)
}
