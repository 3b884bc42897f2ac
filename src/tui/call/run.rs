//! One call: its progress while it runs, and its outcome. Pure.

use crate::prelude::*;
use crate::result::ResultView;
use config::ContentLimits;
use config::error::{Error, ErrorCode, Violation};
use host::{AnswerSource, CallOutcome, CallView};
use mcp::{Payload, Progress};

/// Maximum number of log lines kept per call.
const MAX_LOG_LINES: usize = 200;

/// One call.
pub struct CallRun {
    /// Its number on this screen, from 1.
    pub number: u64,
    /// What was sent.
    pub arguments: Value,
    /// Whether validation was bypassed.
    pub forced: bool,
    /// The id of its record in the history.
    pub record: Option<u64>,
    /// Whether this is an automatic read of a changed resource.
    pub refresh: bool,
    /// When it began.
    pub began: Timestamp,
    /// Last progress.
    pub progress: Option<Progress>,
    /// Time spent waiting for the user, and since when more is added while it is waiting.
    pub waiting: (Duration, Option<Timestamp>),
    /// Log notifications of its server while it ran.
    pub logs: Vec<SafeText>,
    /// Why it was repeated automatically; `None` if the user made it.
    pub because: Option<SafeText>,
    /// How its result compares with the one before, for an automatic repetition.
    pub difference: Option<Difference>,
    /// Its state.
    pub state: RunState,
}

/// How a result compares with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// They are the same.
    Same,
    /// They differ in this many places.
    Places(usize),
    /// They are too large to compare.
    Unknown,
    /// There was no result before.
    First,
}

impl Difference {
    /// The comparison in words.
    pub fn words(self) -> String {
        match self {
            Self::Same => "the same result as before".to_owned(),
            Self::Places(places) => format!("the result differs in {}", count(places, "place")),
            Self::Unknown => "too large to compare".to_owned(),
            Self::First => "the first answer".to_owned(),
        }
    }
}

/// The state of a call.
pub enum RunState {
    /// In progress.
    Running {
        /// Whether the server was asked to cancel.
        cancelling: bool,
    },
    /// Answered, possibly with an error of the tool.
    Answered {
        /// The outcome.
        outcome: Box<CallOutcome>,
        /// Its viewer.
        view: Box<ResultView>,
    },
    /// No answer.
    Failed(Error),
}

/// How an ended call is shown: its outcome and the next step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCall {
    /// Whether it succeeded.
    pub good: bool,
    /// The outcome in a few words.
    pub words: String,
    /// What to do next; empty if nothing.
    pub next: String,
}

impl CallRun {
    /// Creates a call that begins now.
    pub const fn new(number: u64, arguments: Value, forced: bool, began: Timestamp) -> Self {
        Self {
            number,
            arguments,
            forced,
            record: None,
            refresh: false,
            began,
            progress: None,
            waiting: (Duration::ZERO, None),
            logs: Vec::new(),
            because: None,
            difference: None,
            state: RunState::Running { cancelling: false },
        }
    }

    /// Whether it is in progress.
    pub const fn is_running(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }

    /// Running time without waiting, and time spent waiting for the user, as of `now`.
    pub fn clocks(&self, now: Timestamp) -> (Duration, Duration) {
        let (so_far, since) = self.waiting;
        let waiting = so_far + since.map_or(Duration::ZERO, |since| now.since(since));
        (now.since(self.began).saturating_sub(waiting), waiting)
    }

    /// Updates the call from the engine's view at `now`.
    pub fn follow(&mut self, call: &CallView, now: Timestamp) {
        self.waiting = (call.waiting, call.is_waiting.then_some(now));
        if call.progress.is_some() {
            self.progress.clone_from(&call.progress);
        }
    }

    /// Adds a log line, dropping the oldest one beyond the limit.
    pub fn log(&mut self, line: SafeText) {
        if self.logs.len() == MAX_LOG_LINES {
            self.logs.remove(0);
        }
        self.logs.push(line);
    }

    /// Stores its outcome; the result is shown within the limits of its server.
    pub fn end(&mut self, result: Result<CallOutcome, Error>, limits: &ContentLimits) {
        self.state = match result {
            Ok(outcome) => {
                let view =
                    ResultView::new(outcome.result.clone(), outcome.output_violations.clone())
                        .within(limits);
                RunState::Answered { outcome: Box::new(outcome), view: Box::new(view) }
            }
            Err(error) => RunState::Failed(error),
        };
    }

    /// Why it was repeated and how its result compares, in words; empty if the user made it.
    pub fn remark(&self) -> String {
        let Some(because) = &self.because else { return String::new() };
        let difference = self.difference.map(|d| format!(" · {}", d.words()));
        format!("called again: {because}{}", difference.unwrap_or_default())
    }

    /// The viewer of its result, mutable.
    pub fn view_mut(&mut self) -> Option<&mut ResultView> {
        match &mut self.state {
            RunState::Answered { view, .. } => Some(view),
            _ => None,
        }
    }

    /// The viewer of its result.
    pub fn view(&self) -> Option<&ResultView> {
        match &self.state {
            RunState::Answered { view, .. } => Some(view),
            _ => None,
        }
    }

    /// The result, if there is one.
    pub fn result(&self) -> Option<&Payload> {
        self.view().map(|view| &view.result)
    }

    /// Progress from 0 to 1, if the total is known.
    pub fn share(&self) -> Option<f64> {
        let progress = self.progress.as_ref()?;
        let total = progress.total.filter(|total| *total > 0.0)?;
        Some((progress.progress / total).clamp(0.0, 1.0))
    }

    /// How it ended; `None` while it runs.
    pub fn ending(&self) -> Option<EndedCall> {
        match &self.state {
            RunState::Running { .. } => None,
            RunState::Answered { outcome, .. } => Some(answered(outcome)),
            RunState::Failed(error) => {
                let mut ending = failed(error);
                if self.forced {
                    ending.words = format!("{} · {FORCED}", ending.words);
                }
                Some(ending)
            }
        }
    }

    /// Outcome and duration in milliseconds for the history; 0 if it failed.
    pub fn outcome_word(&self) -> Option<(String, u64)> {
        match &self.state {
            RunState::Running { .. } => None,
            RunState::Answered { outcome, .. } => {
                let word = if outcome.is_error { "tool error" } else { "ok" };
                Some((word.to_owned(), outcome.duration.as_millis() as u64))
            }
            RunState::Failed(error) => Some((error.code.as_str().to_owned(), 0)),
        }
    }
}

/// Mark of a call that was sent without validating its arguments.
pub const FORCED: &str = "sent without validation";

fn answered(outcome: &CallOutcome) -> EndedCall {
    let mut parts = vec![Dur(outcome.duration).to_string()];
    if outcome.waiting > Duration::from_millis(100) {
        parts[0] = format!("{} + {} waiting for you", parts[0], Dur(outcome.waiting));
    }
    match outcome.source {
        AnswerSource::Server => {}
        AnswerSource::Cache(age) => parts.push(format!("from the cache, {} old", Dur(age))),
        AnswerSource::Stale(age) => {
            parts.push(format!("stale, {} old: the server is unavailable", Dur(age)));
        }
    }
    if outcome.forced {
        parts.push(FORCED.to_owned());
    }
    if !outcome.guard_warnings.is_empty() {
        parts.push(suspicious(&outcome.guard_warnings));
    }
    let words = parts.join(" · ");
    if outcome.is_error {
        let words = format!("tool error · {words}");
        let next = "see its message below; fix the arguments or try again".to_owned();
        return EndedCall { good: false, words, next };
    }
    EndedCall { good: true, words, next: String::new() }
}

/// The suspicious arguments with the reasons: `suspicious: path (leaves its directory with `..`)`.
fn suspicious(warnings: &[Violation]) -> String {
    /// Arguments named in the line; the others are counted.
    const MAX_NAMED_ARGUMENTS: usize = 2;
    let named = warnings.iter().take(MAX_NAMED_ARGUMENTS).map(|warning| {
        let place = warning.pointer.trim_start_matches('/').replace('/', ".");
        format!("{place} {}", warning.message)
    });
    let named = named.collect::<Vec<_>>().join("; ");
    let more = warnings.len().saturating_sub(MAX_NAMED_ARGUMENTS);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("suspicious: {named}{more}")
}

fn failed(error: &Error) -> EndedCall {
    let (word, fallback) = match error.code {
        ErrorCode::Timeout => {
            ("timed out", "call again with a longer timeout, or look at the server's log")
        }
        ErrorCode::Cancelled => ("cancelled", "the server was notified; call again when ready"),
        ErrorCode::Validation => {
            ("refused before sending", "fix the fields, or send it without validation")
        }
        ErrorCode::Protocol => ("protocol error", "look at the message in Traffic"),
        ErrorCode::ServerUnavailable => ("server unavailable", "start or restart it"),
        ErrorCode::CircuitOpen => ("rejected by the breaker", "wait, or reset the breaker"),
        ErrorCode::PolicyBlocked | ErrorCode::PermissionDenied => {
            ("not permitted", "see the policy in the configuration")
        }
        ErrorCode::RateLimited => ("too many calls", "wait for running calls"),
        code => (code.as_str(), ""),
    };
    let next = error.help.clone().unwrap_or_else(|| fallback.to_owned());
    EndedCall { good: false, words: word.to_owned(), next }
}
