//! One operation of a caller from admission to outcome (requirements R1 to R9): runs in the
//! caller's own task, holds no lock while it waits, records no fact unless something changed.

mod arguments;
mod breakers;
mod cached;
mod flight;
mod output;
mod permitted;

use std::sync::Arc;
use std::time::Duration;

use crate::base::text::SafeText;
use crate::config::OnTimeout;
use crate::error::{Error, ErrorCode};
use crate::host::ServerState;
use crate::host::backoff::retry_delay;
use crate::host::call::{AnswerSource, CallOptions, CallOutcome, Caller};
use crate::host::operation::arguments::Checked;
use crate::host::operation::flight::Flight;
use crate::host::policy::{Action, Admission, Digest, TargetKind};
use crate::host::server::command::Command;
use crate::host::server::slot::{Live, Slot};
use crate::host::shared::Shared;
use crate::mcp::CallId;
use crate::mcp::Payload;
use crate::mcp::capabilities::Tool;
use crate::mcp::session::Request;

/// An operation that is about to run.
pub struct Operation {
    /// What the host shares.
    pub deck: Arc<Shared>,
    /// The server it goes to.
    pub slot: Arc<Slot>,
    /// What is asked.
    pub request: Request,
    /// Its method.
    pub method: &'static str,
    /// Tool, prompt or URI as its server spells it; empty for a completion.
    pub target: Arc<str>,
    /// How the caller wants it.
    pub options: CallOptions,
    /// Its id.
    pub id: CallId,
    /// What was decided about it; nothing where the caller is free.
    pub admission: Option<Admission>,
}

/// What one round with the server gave.
struct Answered {
    result: Payload,
    waiting: Duration,
}

/// How one round ended that gave no result.
struct Failure {
    error: Error,
    /// Whether the server may have seen the request.
    sent: Sent,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Maybe,
    Never,
}

impl Operation {
    /// How long a failed call waits to learn why its server is gone.
    const POST_MORTEM: Duration = Duration::from_millis(800);
    /// The same where there is no process whose exit could tell more.
    const NO_BODY: Duration = Duration::from_millis(50);

    /// Runs it.
    ///
    /// # Errors
    /// Every [`ErrorCode`] but those of configuration and start.
    pub async fn run(mut self) -> Result<CallOutcome, Error> {
        let live = self.slot.live();
        if let Some(kept) = self.fresh_answer(&live) {
            return Ok(kept);
        }
        let version = self.deck.cache.version();
        let woken = self.wake().await;
        let live = self.slot.live();
        let flight = Flight::begin(&self);
        let result = match woken {
            Ok(()) => self.checked(&live, &flight).await,
            Err(error) => Err(error),
        };
        let outcome = match result {
            Ok((checked, answered, tool)) => {
                self.keep(&live, &answered, version);
                Ok(self.outcome((&live, tool.as_deref()), checked, answered, &flight).await)
            }
            Err(error) => Err(error.request(self.label()).server(&self.slot.name).advised()),
        };
        flight.end(&self, &outcome);
        outcome.or_else(|error| self.stale_answer(&live, error))
    }

    /// Starts the server when it sleeps. What it offers then must be what the caller was shown.
    async fn wake(&self) -> Result<(), Error> {
        let before = self.slot.live();
        if !before.is_asleep() {
            return Ok(());
        }
        tokio::select! {
            () = self.slot.wake() => {}
            () = self.options.cancel.cancelled() => {
                return Err(Error::new(ErrorCode::Cancelled, "cancelled by the caller"));
            }
        }
        let now = self.slot.live();
        now.session()?;
        if let (Some(admission), Request::CallTool { .. }) = (&self.admission, &self.request) {
            let (point, what) = (&self.deck.policy, (TargetKind::Tool, &*self.target));
            let principal = &admission.principal;
            let decision = point.decide(principal, Action::Call, &self.slot, what);
            if !decision.is_visible() {
                point.block(principal, Action::Call, &self.target, &decision);
                return Err(decision.refusal(&self.target, TargetKind::Tool));
            }
        }
        self.as_shown(&before, &now)
    }

    /// # Errors
    /// [`ErrorCode::PolicyBlocked`] for a tool whose definition is another one now.
    fn as_shown(&self, before: &Live, now: &Live) -> Result<(), Error> {
        let Some(shown) = self.tool(before) else { return Ok(()) };
        let same = |now: Arc<Tool>| Digest::of_value(&now.raw) == Digest::of_value(&shown.raw);
        if self.tool(now).is_some_and(same) {
            return Ok(());
        }
        let message = "the server was asleep, and offers another definition of this tool now than \
                       was shown; nothing was sent";
        Err(Error::new(ErrorCode::PolicyBlocked, message)
            .help("look at the definition, then call again"))
    }

    async fn checked(
        &mut self,
        live: &Live,
        flight: &Flight,
    ) -> Result<(Checked, Answered, Option<Arc<Tool>>), Error> {
        live.session()?;
        let tool = self.tool(live);
        let checked = self.check_arguments(live, tool.as_ref(), flight).await?;
        let permit = self.permitted(tool.as_ref(), flight).await?;
        let answered = self.rounds(tool.as_deref(), flight).await?;
        drop(permit);
        self.has_read(tool.as_ref());
        Ok((checked, answered, tool))
    }

    /// Asks, and asks again where that cannot do harm (requirement R5).
    async fn rounds(&self, tool: Option<&Tool>, flight: &Flight) -> Result<Answered, Error> {
        let mut attempt = 0;
        loop {
            // It may have fallen asleep just now.
            self.wake().await?;
            let live = self.slot.live();
            let retry = self.options.retry.as_ref().unwrap_or(&live.config.retry);
            // The time of callers that are not the person is limited as a whole: once it has run
            // out there is none for another try.
            let may_repeat = attempt < retry.max_retries
                && is_repeatable(tool)
                && self.options.origin.is_person();
            let failure = match self.round(&live, flight, may_repeat).await {
                Ok(answered) => return Ok(answered),
                Err(failure) => failure,
            };
            attempt += 1;
            let passing = match failure.error.code {
                ErrorCode::ServerUnavailable | ErrorCode::RateLimited => true,
                ErrorCode::Timeout => may_repeat,
                // The server was just being replaced when the call came.
                ErrorCode::Cancelled => {
                    failure.sent == Sent::Never && !self.options.cancel.is_cancelled()
                }
                _ => false,
            };
            let harmless = failure.sent == Sent::Never || self.is_harmless(tool);
            let hopeless = self.slot.live().session.is_none() && self.slot.live().settled;
            if !passing || !harmless || hopeless || attempt > retry.max_retries {
                return Err(failure.error);
            }
            let delay = retry_delay(retry, attempt, fastrand::f64());
            tracing::info!(
                target: "mcpdeck::call", server = %self.slot.name, request_id = self.id.0,
                session_id = live.generation, action = "retry", attempt, delay_ms = delay.as_millis() as u64,
                "{}", failure.error.message
            );
            tokio::select! {
                () = tokio::time::sleep(delay) => {}
                () = self.options.cancel.cancelled() => {
                    return Err(Error::new(ErrorCode::Cancelled, "cancelled by the caller"));
                }
            }
        }
    }

    /// Whether the request may be executed twice.
    fn is_harmless(&self, tool: Option<&Tool>) -> bool {
        let may_act = matches!(self.request, Request::CallTool { .. } | Request::Raw { .. });
        is_repeatable(tool) || !may_act
    }

    /// One round with the server. A timeout has no consequences while the call is `repeated`.
    async fn round(
        &self,
        live: &Live,
        flight: &Flight,
        repeated: bool,
    ) -> Result<Answered, Failure> {
        let never = |error| Failure { error, sent: Sent::Never };
        let session = live.session().map_err(never)?;
        let admission = self.admit(live).await.map_err(never)?;
        let pending = flight.pending();
        let before = pending.bytes.totals().1;
        let _busy = self.slot.enter();
        let result = session.request(self.as_sent(live), Arc::clone(pending)).await;
        match result {
            Ok(result) => {
                admission.answered(is_error(&result)).await;
                Ok(Answered { result, waiting: pending.waited() })
            }
            Err(error) => {
                let error = match error.code {
                    ErrorCode::Timeout if repeated => error,
                    _ => self.consequences(live, error).await,
                };
                admission.failure(&error).await;
                let unseen = pending.bytes.totals().1 == before;
                let sent = if unseen { Sent::Never } else { Sent::Maybe };
                Err(Failure { error, sent })
            }
        }
    }

    /// What a failure means for the server (decision D4), and what the server's end means for the
    /// error.
    async fn consequences(&self, live: &Live, error: Error) -> Error {
        let process = live.process.as_ref().filter(|process| process.is_suspended());
        let error = match process {
            Some(process) if error.code == ErrorCode::Timeout => {
                let message = format!("{}: its process is stopped by a signal", error.message);
                let mut error = error.help(format!("`kill -CONT {}` lets it go on", process.pid()));
                error.message = message;
                error
            }
            _ => error,
        };
        match error.code {
            ErrorCode::Timeout if live.config.on_timeout == OnTimeout::Unavailable => {
                let reason = SafeText::line(&format!("{}: {}", self.label(), error.message));
                if self.slot.turn_away(live.generation, &reason) {
                    let command = Command::TimedOut(live.generation, reason);
                    let _ = self.slot.commands.send(command).await;
                }
                error
            }
            ErrorCode::ServerUnavailable if !error.answered => {
                // Nothing else tells that nobody is at an address any more.
                let reason = SafeText::line(&error.message);
                if live.config.transport.is_address()
                    && self.slot.turn_away(live.generation, &reason)
                {
                    let command = Command::Unreachable(live.generation, reason);
                    let _ = self.slot.commands.send(command).await;
                }
                self.post_mortem(live, error).await
            }
            _ => error,
        }
    }

    /// The connection broke under the call: how the server ended is known a moment later.
    async fn post_mortem(&self, live: &Live, mut error: Error) -> Error {
        let mut watch = self.slot.watch();
        let verdict = watch.wait_for(|now| {
            let decided = now.settled || now.retry_at.is_some();
            let gone = now.session.is_none() && (decided || now.state == ServerState::Shutdown);
            gone || now.generation != live.generation
        });
        let patience = if live.process.is_some() { Self::POST_MORTEM } else { Self::NO_BODY };
        if let Ok(Ok(now)) = tokio::time::timeout(patience, verdict).await
            && now.generation == live.generation
            && let Some(reason) = &now.reason
            && !error.message.contains(reason.as_str())
        {
            error.message = format!("{}: {reason}", error.message);
        }
        error
    }

    async fn outcome(
        &self,
        (live, tool): (&Live, Option<&Tool>),
        checked: Checked,
        answered: Answered,
        flight: &Flight,
    ) -> CallOutcome {
        let is_error = is_error(&answered.result);
        let output_violations = match tool {
            Some(tool) if !is_error => self.check_output(live, tool, &answered.result).await,
            _ => Vec::new(),
        };
        CallOutcome {
            call: self.id,
            server: self.slot.name.clone(),
            target: self.target.to_string(),
            is_error,
            output_violations,
            guard_warnings: checked.warnings,
            forced: checked.forced,
            duration: flight.took(),
            findings: flight.pending().take_findings(),
            waiting: answered.waiting,
            source: AnswerSource::Server,
            caller: self.caller(live),
            result: answered.result,
        }
    }

    /// The request in the way its tool wants it.
    fn as_sent(&self, live: &Live) -> Request {
        match (&self.request, self.tool(live)) {
            (Request::CallTool { name, arguments }, Some(tool)) if tool.needs_task() => {
                Request::RunTask { name: Arc::clone(name), arguments: Arc::clone(arguments) }
            }
            (request, _) => request.clone(),
        }
    }

    fn tool(&self, live: &Live) -> Option<Arc<Tool>> {
        match &self.request {
            Request::CallTool { name, .. } => live.tool(name).cloned(),
            _ => None,
        }
    }

    /// For whom it was done.
    fn caller(&self, live: &Live) -> Caller {
        let version = live.session.as_ref().map(|session| session.view().version.clone());
        let rule = self.admission.as_ref().and_then(|admission| admission.decision.rule.clone());
        let (origin, profile) = (self.options.origin.clone(), self.options.profile.clone());
        Caller { origin, profile, rule, version }
    }

    /// `tools/call echo`
    fn label(&self) -> String {
        if self.target.is_empty() {
            return self.method.to_owned();
        }
        format!("{} {}", self.method, self.target)
    }
}

/// Whether its server says that a tool may run twice.
fn is_repeatable(tool: Option<&Tool>) -> bool {
    tool.is_some_and(|t| t.hints.idempotent == Some(true) || t.hints.read_only == Some(true))
}

fn is_error(result: &Payload) -> bool {
    result["isError"] == true
}
