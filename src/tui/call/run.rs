//! One call: its progress while it runs, and its outcome. Pure.

use crate::call::export::SharedResult;
use crate::prelude::*;
use crate::result::ResultView;
use base::text::json::WrittenValue;
use config::ContentLimits;
use config::error::{Error, ErrorCode, Violation};
use host::{AnswerSource, CallOutcome, CallView};
use protocol::{ApprovalId, Payload, Progress};

/// Maximum number of events kept per call.
const MAX_CALL_EVENTS: usize = 200;

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
    /// What it waits for the user with.
    pub asks: Vec<CallAsk>,
    /// What happened while it ran, oldest first.
    pub events: Vec<CallEvent>,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Whether the user cancelled it.
    pub cancelled: bool,
    /// Why it was repeated automatically; `None` if the user made it.
    pub because: Option<SafeText>,
    /// How its result compares with the one before, for an automatic repetition.
    pub difference: Option<Difference>,
    pub state: RunState,
}

/// A request of the server that a call waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallAsk {
    pub id: ApprovalId,
    /// What it asks for, in a word or two.
    pub what: SafeText,
    /// Its own words.
    pub says: SafeText,
}

/// Something that happened while a call ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallEvent {
    /// When.
    pub at: Timestamp,
    /// What.
    pub kind: CallEventKind,
    /// What it said.
    pub text: SafeText,
    /// Of a request, the words of the server.
    pub says: SafeText,
}

/// The kind of a [`CallEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallEventKind {
    /// `notifications/progress`
    Progress,
    /// A log notification of its server.
    Log,
    /// The server asked the user something; the clock of the call stands still.
    Asked,
    /// The user answered one of several requests.
    Replied,
    /// The user answered, and the call goes on.
    Resumed,
}

impl CallEventKind {
    /// Whether it may be dropped when there are too many.
    const fn is_passing(self) -> bool {
        match self {
            Self::Progress | Self::Log => true,
            Self::Asked | Self::Replied | Self::Resumed => false,
        }
    }
}

/// Progress in words: `2 of 5 · half way`.
fn progress_words(progress: &Progress) -> String {
    let count = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    match &progress.message {
        Some(message) => format!("{count} · {}", SafeText::cut(message, 300)),
        None => count,
    }
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
            asks: Vec::new(),
            events: Vec::new(),
            ended: None,
            cancelled: false,
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

    /// Updates the call from the engine's view at `now`. While it waits for the user, `asks` are the
    /// requests it waits with.
    pub fn follow(&mut self, call: &CallView, asks: Vec<CallAsk>, now: Timestamp) {
        let is_in = |all: &[CallAsk], one: &CallAsk| all.iter().any(|other| other.id == one.id);
        let waited = self.waiting.1.is_some();
        let before = std::mem::replace(&mut self.asks, asks.clone());
        let left = before.iter().filter(|one| is_in(&asks, one)).count();
        if waited && !call.is_waiting {
            self.add_event(CallEventKind::Resumed, SafeText::line("it goes on"), now);
        } else if left < before.len() {
            let verb = if left == 1 { "waits" } else { "wait" };
            let more =
                if left == 0 { "it goes on".to_owned() } else { format!("{left} more {verb}") };
            self.add_event(CallEventKind::Replied, SafeText::line(&more), now);
        }
        for ask in asks.iter().filter(|one| !is_in(&before, one)) {
            self.add_event(CallEventKind::Asked, ask.what.clone(), now);
            if let Some(event) = self.events.last_mut() {
                event.says = ask.says.clone();
            }
        }
        if call.is_waiting && !waited && asks.is_empty() {
            self.add_event(CallEventKind::Asked, SafeText::line("a request"), now);
        }
        self.waiting = (call.waiting, call.is_waiting.then_some(now));
        if call.progress.is_some() {
            self.progress.clone_from(&call.progress);
        }
    }

    /// Stores the newest progress.
    pub fn take_progress(&mut self, progress: Progress, now: Timestamp) {
        let text = progress_words(&progress);
        self.progress = Some(progress);
        self.add_event(CallEventKind::Progress, SafeText::line(&text), now);
    }

    /// Adds an event, dropping the oldest beyond the limit that is not about the user.
    pub fn add_event(&mut self, kind: CallEventKind, text: SafeText, at: Timestamp) {
        if self.events.len() >= MAX_CALL_EVENTS {
            let passing = |event: &CallEvent| event.kind.is_passing();
            let oldest = self.events.iter().position(passing).unwrap_or(0);
            self.events.remove(oldest);
        }
        self.events.push(CallEvent { at, kind, text, says: SafeText::default() });
    }

    /// The times during which it waited for the user, and for what.
    pub fn waits(&self, end: Timestamp) -> Vec<(Timestamp, Timestamp, SafeText)> {
        let mut waits: Vec<(Timestamp, Timestamp, SafeText)> = Vec::new();
        let mut asked = 0;
        for event in &self.events {
            match (event.kind, waits.last_mut()) {
                // Several at once are one wait.
                (CallEventKind::Asked, Some(last)) if asked > 0 => {
                    asked += 1;
                    last.2 = SafeText::line(&count(asked, "request").to_string());
                }
                (CallEventKind::Asked, _) => {
                    asked = 1;
                    waits.push((event.at, end, event.text.clone()));
                }
                (CallEventKind::Resumed, last) => {
                    asked = 0;
                    if let Some(last) = last {
                        last.1 = event.at;
                    }
                }
                (CallEventKind::Progress | CallEventKind::Log | CallEventKind::Replied, _) => {}
            }
        }
        waits
    }

    /// Stores its outcome at `now`; the result is shown within the limits of its server.
    pub fn end(
        &mut self,
        result: Result<CallOutcome, Error>,
        limits: &ContentLimits,
        now: Timestamp,
    ) {
        self.ended = Some(match &result {
            Ok(outcome) => self.began.plus(outcome.duration + outcome.waiting),
            Err(_) => now.max(self.began),
        });
        self.asks.clear();
        if self.waiting.1.take().is_some() {
            self.add_event(CallEventKind::Resumed, SafeText::line("it goes on"), now);
        }
        self.state = match result {
            Ok(outcome) => {
                let view =
                    ResultView::new(outcome.result.clone(), outcome.output_violations.clone())
                        .checked(outcome.output_checked)
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
                if error.code == ErrorCode::Cancelled && self.cancelled {
                    "cancelled by you".clone_into(&mut ending.words);
                    "the server was told to stop".clone_into(&mut ending.next);
                }
                if error.code == ErrorCode::Cancelled {
                    let ran = self.ended.map(|at| at.since(self.began)).unwrap_or_default();
                    ending.words = format!("{} after {}", ending.words, Dur(ran));
                }
                if self.forced {
                    ending.words = format!("{} · {FORCED}", ending.words);
                }
                Some(ending)
            }
        }
    }

    /// Whether anything was sent to the server, as far as is known.
    pub fn is_sent(&self) -> bool {
        match &self.state {
            RunState::Running { .. } => true,
            RunState::Answered { outcome, .. } => outcome.source == AnswerSource::Server,
            RunState::Failed(error) => error.sent,
        }
    }

    /// What was found beside its result; `None` if nothing.
    pub fn findings(&self) -> Option<String> {
        let RunState::Answered { outcome, .. } = &self.state else { return None };
        let (first, more) = outcome.findings.split_first()?;
        Some(match more.len() {
            0 => first.message.to_string(),
            more => format!("{}; and {more} more", first.message),
        })
    }

    /// Outcome and duration in milliseconds for the history.
    pub fn outcome_word(&self) -> Option<(String, u64)> {
        match &self.state {
            RunState::Running { .. } => None,
            RunState::Answered { outcome, .. } => {
                let word = if outcome.is_error { TOOL_ERROR_WORD } else { OK_WORD };
                Some((word.to_owned(), outcome.duration.as_millis() as u64))
            }
            RunState::Failed(error) => {
                let ran = self.ended.map(|at| at.since(self.began)).unwrap_or_default();
                Some((failed(error).words, ran.as_millis() as u64))
            }
        }
    }
}

/// How the history names a call that was answered, and one whose answer is an error of the tool.
pub const OK_WORD: &str = "ok";
pub const TOOL_ERROR_WORD: &str = "tool error";

/// Why a call failed: what is known of it.
#[derive(Clone, Debug)]
pub struct WhyCall {
    pub server: ServerName,
    /// The name of what was called.
    pub label: SafeText,
    /// The code of the error; `None` if the tool itself reported one.
    pub code: Option<ErrorCode>,
    /// How it ended, in a few words.
    pub words: String,
    /// The message of the error.
    pub message: String,
    /// What to do next.
    pub next: String,
    /// The JSON-RPC error, the violations and the last events.
    pub details: Vec<SafeText>,
}

impl WhyCall {
    /// The lines of the message, the first ones of a long one.
    pub fn lines(&self) -> Vec<SafeText> {
        const MAX_MESSAGE_LINES: usize = 50;
        self.message.lines().take(MAX_MESSAGE_LINES).map(SafeText::line).collect()
    }

    /// Whether the message is the server's own.
    pub const fn is_of_server(&self) -> bool {
        matches!(self.code, None | Some(ErrorCode::Protocol))
    }
}

impl CallRun {
    /// How it ended, for a page.
    pub fn shared(&self) -> SharedResult {
        let words = self.ending().map(|ending| ending.words);
        let ending = words.into_iter().chain(self.findings()).collect::<Vec<_>>().join(" · ");
        let error = match &self.state {
            RunState::Failed(error) => Some(error.message.clone()),
            RunState::Running { .. } | RunState::Answered { .. } => None,
        };
        let result = self.result().map(|result| WrittenValue {
            value: (**result).clone(),
            numbers: result.numbers().clone(),
        });
        SharedResult { ending, error, result }
    }

    /// Why it failed; `None` if it did not.
    pub fn why(&self, server: &ServerName, label: &SafeText) -> Option<WhyCall> {
        /// Events that are told.
        const MAX_TOLD_EVENTS: usize = 5;
        let ending = self.ending().filter(|ending| !ending.good)?;
        let (code, message, mut details) = match &self.state {
            RunState::Running { .. } => return None,
            RunState::Answered { view, .. } => (None, view.first_text(), Vec::new()),
            RunState::Failed(error) => {
                let violated = error.violations.iter();
                let violated = violated.map(|one| format!("{}  {}", one.place(), one.message));
                let mut details: Vec<SafeText> =
                    violated.map(|text| SafeText::line(&text)).collect();
                if let Some(rpc) = &error.rpc {
                    let code = rpc.code.map_or_else(|| "no code".to_owned(), |c| c.to_string());
                    let text = format!("JSON-RPC error {code}: {}", rpc.message);
                    details.push(SafeText::cut(&text, 2_000));
                    details.extend(
                        rpc.data.as_ref().map(|data| SafeText::cut(&data.to_string(), 2_000)),
                    );
                }
                (Some(error.code), error.message.clone(), details)
            }
        };
        for event in &self.events[self.events.len().saturating_sub(MAX_TOLD_EVENTS)..] {
            let at = Dur(event.at.since(self.began));
            details.push(SafeText::line(&format!("+{at}  {}", event.text)));
        }
        Some(WhyCall {
            server: server.clone(),
            label: label.clone(),
            code,
            words: ending.words,
            message,
            next: ending.next,
            details,
        })
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
    if !outcome.changes.is_empty() {
        let words = SafeText::line(&outcome.changes.words());
        parts.push(format!("the policy service changed {words}"));
    }
    let words = parts.join(" · ");
    if outcome.is_error {
        let words = format!("tool error · {words}");
        let next = "fix the arguments: its message is below".to_owned();
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
    let fallback = match error.code {
        ErrorCode::Timeout => "call again with a longer timeout, or look at the server's log",
        ErrorCode::Cancelled => "the server was notified; call again when ready",
        ErrorCode::Validation => "fix the fields, or send it without validation",
        ErrorCode::Protocol => "look at the message in Traffic",
        ErrorCode::ServerUnavailable => "start or restart it",
        ErrorCode::CircuitOpen => "wait, or reset the breaker",
        ErrorCode::PolicyBlocked | ErrorCode::PermissionDenied => {
            "see the policy in the configuration"
        }
        ErrorCode::RateLimited => "wait for running calls",
        _ => "",
    };
    // Here a key leads to the reason; no shell is needed.
    let help = error.help.clone().filter(|help| !help.contains("`mcpdeck "));
    let next = help.unwrap_or_else(|| fallback.to_owned());
    EndedCall { good: false, words: error.code.words().to_owned(), next }
}
