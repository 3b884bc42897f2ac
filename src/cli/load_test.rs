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
    /// Latencies of the calls that gave a result, in microseconds.
    latencies: Histogram<u64>,
    failed: u64,
    /// By code: how many, and the first message.
    errors: BTreeMap<&'static str, (u64, String)>,
    /// What no message may show.
    masks: Redactor,
}

impl Tally {
    fn take(&mut self, outcome: Result<CallOutcome, Error>, took: Duration) {
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

/// `mcpdeck load`
pub fn load_test(common: &Common, args: &LoadArgs, telemetry: &Telemetry) -> ExitStatus {
    let format = OutcomeFormat::from(args.json);
    let printer = Printer { noun: "tool", target: &args.name, format, file: None };
    let invocation = Invocation { common, one: &args.one, telemetry };
    let need = Need::Owner(TargetKind::Tool, args.name.clone());
    let done = operate::words(&args.arguments).and_then(|words| {
        invocation.run(need, AnswerScript::default(), async |scene| {
            match calls(scene.host, invocation, args, &words).await {
                Ok((name, tally, took)) => print(args, &name, &tally, took),
                Err(error) => printer.failure(&error),
            }
        })
    });
    printer.ended(done)
}

/// Makes the calls; returns the tool's full name, their outcomes, and the total time.
async fn calls(
    host: &Host,
    invocation: Invocation<'_>,
    args: &LoadArgs,
    words: &ArgumentWords,
) -> Result<(String, Tally, Duration), Error> {
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
    let tally = RefCell::new(Tally { latencies, failed: 0, errors: BTreeMap::new(), masks });
    let open = Cell::new(args.calls);
    let refused = RefCell::new(None);
    let began = Instant::now();
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
            tally.borrow_mut().take(outcome, began.elapsed());
        }
    };
    futures::future::join_all((0..args.parallel.min(args.calls)).map(|_| caller())).await;
    if let Some(error) = refused.into_inner() {
        return Err(error.help(takes));
    }
    Ok((canonical.clone(), tally.into_inner(), began.elapsed()))
}

fn print(args: &LoadArgs, name: &str, tally: &Tally, took: Duration) -> ExitStatus {
    let exit = if tally.failed == 0 { ExitStatus::Ok } else { ExitStatus::Failed };
    let (calls, failed) = (args.calls, tally.failed);
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
        let object = json!({
            "tool": name, "calls": calls, "parallel": args.parallel, "durationMs": took.as_millis() as u64,
            "callsPerSecond": rate, "succeeded": calls - failed, "failed": failed,
            "latencyMs": latency, "errors": errors,
        });
        return output::json_line(&object, exit);
    }
    let (name, seconds) = (SafeText::line(name), took.as_secs_f64());
    let mut text = format!("{name}: {calls} calls, {} at once, {seconds:.2} s\n", args.parallel);
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
