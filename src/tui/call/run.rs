//! One call: while it runs, and how it ended. Pure.

use crate::config::ContentLimits;
use crate::error::{Error, ErrorCode};
use crate::host::{AnswerSource, CallOutcome, CallView};
use crate::mcp::{Payload, Progress};
use crate::tui::prelude::*;
use crate::tui::result::ResultView;

/// Most log lines kept per call.
const LOGS: usize = 200;

/// One call.
pub struct CallRun {
    /// Its number on this screen, from 1.
    pub number: u64,
    /// What was sent.
    pub arguments: Value,
    /// Whether validation was forced past.
    pub forced: bool,
    /// The id of its record in the history.
    pub record: Option<u64>,
    /// Whether nobody asked for it: the resource changed and is read again.
    pub refresh: bool,
    /// When it began.
    pub began: Timestamp,
    /// Last progress.
    pub progress: Option<Progress>,
    /// Time waiting for a person so far, and since when it waits now.
    pub waiting: (Duration, Option<Timestamp>),
    /// Log notifications of its server meanwhile.
    pub logs: Vec<SafeText>,
    /// Why it was made by itself; `None` when a person made it.
    pub because: Option<SafeText>,
    /// How it compares with the answer before, for a call that was made by itself.
    pub difference: Option<Difference>,
    /// How it stands.
    pub state: RunState,
}

/// How an answer compares with the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// There is none.
    Same,
    /// It differs in so many places.
    Places(usize),
    /// It is too large to compare.
    Unknown,
    /// There was no answer before.
    First,
}

impl Difference {
    /// In words.
    pub fn words(self) -> String {
        match self {
            Self::Same => "the same result as before".to_owned(),
            Self::Places(places) => format!("the result differs in {}", count(places, "place")),
            Self::Unknown => "too large to compare".to_owned(),
            Self::First => "the first answer".to_owned(),
        }
    }
}

/// How a call stands.
pub enum RunState {
    /// Under way.
    Running {
        /// Whether the server was asked to cancel.
        cancelling: bool,
    },
    /// Answered, by the tool's own error perhaps.
    Answered {
        /// The outcome.
        outcome: Box<CallOutcome>,
        /// Its viewer.
        view: Box<ResultView>,
    },
    /// No answer.
    Failed(Error),
}

/// How an ended call reads: a word, what it means, what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndedCall {
    /// Whether it is what was wanted.
    pub good: bool,
    /// A few words.
    pub words: String,
    /// What to do next; empty when nothing.
    pub next: String,
}

impl CallRun {
    /// A call that begins.
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

    /// Whether it is under way.
    pub const fn is_running(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }

    /// Time under way and time waiting for a person, apart, as of `now`.
    pub fn clocks(&self, now: Timestamp) -> (Duration, Duration) {
        let (so_far, since) = self.waiting;
        let waiting = so_far + since.map_or(Duration::ZERO, |since| now.since(since));
        (now.since(self.began).saturating_sub(waiting), waiting)
    }

    /// Takes over what the engine knows of the call at `now`.
    pub fn follow(&mut self, call: &CallView, now: Timestamp) {
        self.waiting = (call.waiting, call.is_waiting.then_some(now));
        if call.progress.is_some() {
            self.progress.clone_from(&call.progress);
        }
    }

    /// Keeps a log line.
    pub fn log(&mut self, line: SafeText) {
        if self.logs.len() == LOGS {
            self.logs.remove(0);
        }
        self.logs.push(line);
    }

    /// It has ended; its result is shown within the limits of its server.
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

    /// Why it was made by itself, and how its answer compares, in words; empty for other calls.
    pub fn remark(&self) -> String {
        let Some(because) = &self.because else { return String::new() };
        let difference = self.difference.map(|d| format!(" · {}", d.words()));
        format!("called again: {because}{}", difference.unwrap_or_default())
    }

    /// Its viewer.
    pub fn view_mut(&mut self) -> Option<&mut ResultView> {
        match &mut self.state {
            RunState::Answered { view, .. } => Some(view),
            _ => None,
        }
    }

    /// Its viewer, to look at.
    pub fn view(&self) -> Option<&ResultView> {
        match &self.state {
            RunState::Answered { view, .. } => Some(view),
            _ => None,
        }
    }

    /// The result, when there is one.
    pub fn result(&self) -> Option<&Payload> {
        self.view().map(|view| &view.result)
    }

    /// Share done, from 0 to 1, when it is known.
    pub fn share(&self) -> Option<f64> {
        let progress = self.progress.as_ref()?;
        let total = progress.total.filter(|total| *total > 0.0)?;
        Some((progress.progress / total).clamp(0.0, 1.0))
    }

    /// How it ended, in words; `None` while it runs.
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

    /// The word for the record of the past.
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

/// How a call is marked that was sent although its arguments do not fit.
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
        parts.push(count(outcome.guard_warnings.len(), "suspicious argument").to_string());
    }
    let words = parts.join(" · ");
    if outcome.is_error {
        let words = format!("tool error · {words}");
        let next = "see its message below; fix the arguments or try again".to_owned();
        return EndedCall { good: false, words, next };
    }
    EndedCall { good: true, words, next: String::new() }
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
        ErrorCode::RateLimited => ("too many calls", "wait for those that run"),
        code => (code.as_str(), ""),
    };
    let next = error.help.clone().unwrap_or_else(|| fallback.to_owned());
    EndedCall { good: false, words: word.to_owned(), next }
}
