//! One operation of a caller from admission to outcome: runs in the
//! caller's own task, holds no lock across an await, records facts only for changes.

mod arguments;
mod breakers;
pub(crate) mod person;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::Level;

use super::ServerState;
use super::approvals::ConsentReach;
use super::backoff::retry_delay;
use super::cache::{CacheKey, CachePut, CachedAnswer, resource_params};
use super::call::{AnswerSource, CallOptions, CallOutcome, CallView, Caller, Origin};
use super::metrics::Ending;
use super::naming::{canonical_name, may_match};
use super::policy::{
    Admission, AuditEvent, AuditKind, AuditSink, Decision, Digest, Permit, PolicyAction,
    PolicyEffect, PolicyTarget, QuotaHold, Reason, ServiceChanges, TargetKind, hash_of_result,
    hash_of_value, is_refusal, not_audited,
};
use super::server::command::Command;
use super::server::slot::{InFlight, Live, Slot};
use super::server::turns::{CalledTarget, TurnGuard};
use super::shared::HostShared;
use arguments::CheckedArguments;
use base::human::Dur;
use base::{Clock, SafeText};
use config::OnTimeout;
use config::error::{Denial, Error, ErrorCode};
use mcp::Request;
use person::PersonCall;
use protocol::{CallId, Payload, PendingRequest, RequestKind, Tool};

/// A prepared operation.
pub struct Operation {
    /// The shared state of the host.
    pub shared: Arc<HostShared>,
    /// The server it goes to.
    pub slot: Arc<Slot>,
    /// The request.
    pub request: Request,
    /// Its method.
    pub method: &'static str,
    /// Tool, prompt or URI as its server spells it; empty for a completion.
    pub target: Arc<str>,
    /// The caller's options.
    pub options: CallOptions,
    /// Its id.
    pub id: CallId,
    /// The policy decision; `None` when the caller is exempt from the policy.
    pub admission: Option<Admission>,
    /// How long the caller waits for a server that is being started, and for its turn.
    pub deadline: Instant,
    /// Whether that is the end of its whole time.
    pub is_bound: bool,
    /// The longest time it may take whatever its progress, where the policy sets one.
    pub longest: Option<Duration>,
    /// What the policy service changed.
    pub changes: ServiceChanges,
}

/// A failed round.
struct RoundFailure {
    error: Error,
    /// Whether nothing was sent to the server.
    is_unsent: bool,
}

impl Operation {
    /// How long a failed call waits for the reason why its server ended. Mostly some ten
    /// milliseconds; on a machine that is short of processor time a dying process takes longer.
    const END_REASON_TIMEOUT: Duration = Duration::from_secs(2);
    /// Like [`Self::END_REASON_TIMEOUT`], for a server without a process.
    const REMOTE_END_TIMEOUT: Duration = Duration::from_millis(50);

    /// Runs the operation.
    ///
    /// # Errors
    /// Any [`ErrorCode`] except those of configuration and startup.
    pub async fn run(&mut self) -> Result<CallOutcome, Error> {
        let live = self.slot.live();
        if let Some(kept) = self.fresh_answer(&live) {
            self.audit_kept(&kept)?;
            return Ok(kept);
        }
        let version = self.shared.cache.version();
        let woken = self.wake().await;
        if self.is_bound {
            // What the start took is gone.
            let left = self.deadline.saturating_duration_since(Instant::now());
            let own = self.options.timeout.unwrap_or(live.config.request_timeout);
            self.options.timeout = Some(own.min(left));
        }
        let live = self.slot.live();
        let flight = Flight::begin(self);
        let result = match woken {
            Ok(()) => self.checked(&live, &flight).await,
            Err(error) => Err(error),
        };
        let outcome = match result {
            Ok((checked, answer, tool)) => {
                self.keep(&live, &answer, (flight.pending().waited(), version));
                Ok(self.outcome((&live, tool.as_deref()), checked, answer, &flight).await)
            }
            Err(error) => {
                let mut error = error.request(self.label()).server(&self.slot.name).advised();
                error.sent = flight.is_sent();
                Err(error)
            }
        };
        flight.end(self, &outcome);
        outcome.or_else(|error| self.stale_answer(&live, error))
    }

    /// Starts the server when it sleeps, waits for it when it is being started, and checks that the
    /// tool did not change meanwhile.
    async fn wake(&self) -> Result<(), Error> {
        let before = self.slot.live();
        if !before.is_asleep() && !before.is_coming() {
            return Ok(());
        }
        // Boxed, because most calls find their server awake.
        Box::pin(self.wait_until_awake(&before)).await
    }

    async fn wait_until_awake(&self, before: &Live) -> Result<(), Error> {
        self.unless_cancelled(self.slot.wake(self.deadline)).await??;
        let now = self.slot.live();
        now.session()?;
        if let (Some(admission), Request::CallTool { .. }) = (&self.admission, &self.request) {
            let (point, what) = (&self.shared.policy, (TargetKind::Tool, &*self.target));
            let principal = &admission.principal;
            let decision = point.decide(principal, PolicyAction::Call, &self.slot, what);
            if !decision.is_visible() {
                point.block_by(principal, PolicyAction::Call, &self.target, &decision);
                return Err(decision.refusal(&self.target, TargetKind::Tool));
            }
        }
        self.as_shown(before, &now)
    }

    /// # Errors
    /// [`ErrorCode::PolicyBlocked`] for a tool whose definition changed.
    fn as_shown(&self, before: &Live, now: &Live) -> Result<(), Error> {
        let Some(shown) = self.tool(before) else { return Ok(()) };
        let same = |now: Arc<Tool>| Digest::of_value(&now.raw) == Digest::of_value(&shown.raw);
        if self.tool(now).is_some_and(same) {
            return Ok(());
        }
        let message =
            "the definition of this tool changed while its server was started; nothing was sent";
        let mut error = Error::new(ErrorCode::PolicyBlocked, message)
            .help("look at the definition, then call again");
        error.denial = Some(Denial::Changed);
        Err(error)
    }

    async fn checked(
        &mut self,
        live: &Live,
        flight: &Flight,
    ) -> Result<(CheckedArguments, Payload, Option<Arc<Tool>>), Error> {
        live.session()?;
        self.person(live)?;
        let tool = self.tool(live);
        let checked = self.check_arguments(live, tool.as_ref(), flight).await?;
        let permit = self.permitted(live, tool.as_ref(), flight).await?;
        if let Some(numbers) = &self.options.numbers {
            let _ = flight.pending().numbers.set(Arc::clone(numbers));
        }
        flight.audit_call(self)?;
        let answer = self.rounds(tool.as_deref(), flight).await?;
        let answer = arguments::reviewed(self, answer).await?;
        if let Some(permit) = permit {
            let text = || answer.whole().map(str::len);
            permit.received(|| text().unwrap_or_else(|| base::text::json::weigh(&*answer)));
        }
        self.has_read(tool.as_ref());
        Ok((checked, answer, tool))
    }

    /// Sends the request, and retries where that is safe.
    async fn rounds(&self, tool: Option<&Tool>, flight: &Flight) -> Result<Payload, Error> {
        let (mut attempt, mut last_session) = (0, None);
        loop {
            // It may have gone to sleep, or be restarting, meanwhile.
            self.wake().await?;
            let live = self.slot.live();
            let retry = self.options.retry.as_ref().unwrap_or(&live.config.retry);
            // For callers other than the user the total time is limited, so that a timeout leaves
            // none for a retry.
            let may_repeat = attempt < retry.max_retries
                && is_repeatable(tool)
                && self.options.origin.is_person();
            let turn = self.turn(&live, flight).await?;
            let failure = match self.round(&live, flight, may_repeat).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            drop(turn);
            // It was stopped between the look at it and the call: the next session serves it.
            let is_moving = |now: &Live| now.is_asleep() || now.is_coming();
            if failure.is_unsent
                && matches!(failure.error.code, ErrorCode::ServerUnavailable | ErrorCode::Cancelled)
                && !self.options.cancel.is_cancelled()
                && last_session.replace(live.generation) != Some(live.generation)
                && is_moving(&self.slot.live())
            {
                continue;
            }
            attempt += 1;
            let passing = match failure.error.code {
                ErrorCode::ServerUnavailable | ErrorCode::RateLimited => true,
                ErrorCode::Timeout => may_repeat,
                ErrorCode::Protocol => {
                    let code = failure.error.rpc.as_ref().and_then(|rpc| rpc.code);
                    code.is_some_and(|code| retry.codes.contains(&code))
                }
                // The server was being restarted when the call arrived.
                ErrorCode::Cancelled => failure.is_unsent && !self.options.cancel.is_cancelled(),
                _ => false,
            };
            let harmless = failure.is_unsent || self.is_harmless(tool);
            let hopeless = self.slot.live().session.is_none() && self.slot.live().settled;
            if !passing || !harmless || hopeless || attempt > retry.max_retries {
                return Err(failure.error);
            }
            let delay = retry_delay(retry, attempt, fastrand::f64());
            tracing::info!(
                target: "mcpdeck::call", server = %self.slot.name, request_id = self.id.0,
                session_id = live.generation, action = "retry", attempt, delay_ms = delay.as_millis() as u64,
                causes = failure.error.causes, "{}", failure.error.message
            );
            self.unless_cancelled(tokio::time::sleep(delay)).await?;
        }
    }

    /// Waits until the call can be in flight without making it uncertain whose a question of the
    /// server is.
    async fn turn<'a>(&'a self, live: &Live, flight: &'a Flight) -> Result<TurnGuard<'a>, Error> {
        /// Nobody knows how long the other calls take.
        const TURN_RETRY_INTERVAL: Duration = Duration::from_secs(1);
        let key = Arc::clone(&flight.key);
        let is_asker = may_match(&live.config.approvals.askers, &self.target);
        let what = CalledTarget { key, is_asker };
        let turn = self.slot.turns.take(self.id, &what, flight.pending());
        let turn = tokio::time::timeout_at(self.deadline, turn);
        self.unless_cancelled(turn).await?.map_err(|_| {
            let message = "calls of other callers are in flight, and the server does not say to which \
                           of them a question belongs: calls that may ask are sent one at a time";
            let mut error = Error::new(ErrorCode::RateLimited, message).server(&live.config.name);
            error.retry_after = Some(TURN_RETRY_INTERVAL);
            error.help("call again later, or run the server a second time under another name")
        })
    }

    async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        let done = self.options.cancel.run_until_cancelled(work).await;
        done.ok_or_else(|| Error::new(ErrorCode::Cancelled, "cancelled by the caller"))
    }

    /// Whether the request may safely be executed twice.
    fn is_harmless(&self, tool: Option<&Tool>) -> bool {
        let may_act = matches!(self.request, Request::CallTool { .. } | Request::Raw { .. });
        is_repeatable(tool) || !may_act
    }

    /// One request to the server. With `repeated`, a timeout has no consequences for the server.
    async fn round(
        &self,
        live: &Live,
        flight: &Flight,
        repeated: bool,
    ) -> Result<Payload, RoundFailure> {
        let never = |error| RoundFailure { error, is_unsent: true };
        let shared = live.session().map_err(never)?;
        let person = self.person(live).map_err(never)?;
        let (session, hold) = match &person {
            None => (Arc::clone(shared), None),
            Some(person) => {
                let own = self.unless_cancelled(person.session()).await.map_err(never)?;
                let (session, hold) = own.map_err(never)?;
                (session, Some((person, hold)))
            }
        };
        let admission = self.admit(live).await.map_err(never)?;
        let pending = flight.pending();
        let before = pending.bytes.totals().1;
        let _busy = self.slot.enter();
        let result = session.request(self.as_sent(live), Arc::clone(pending)).await;
        match result {
            Ok(result) => {
                admission.answered(is_error(&result)).await;
                Ok(result)
            }
            Err(error) => {
                let timed_out = error.code == ErrorCode::Timeout;
                // A caller may wait less than the entry allows; that is no fault of the server.
                let is_hasty = timed_out && pending.timeout < live.config.request_timeout;
                let error = if let Some((person, hold)) = &hold {
                    person.failed(hold, error)
                } else if timed_out && (repeated || is_hasty) {
                    error
                } else {
                    self.consequences(live, error).await
                };
                if !is_hasty {
                    admission.failure(&error).await;
                }
                Err(RoundFailure { error, is_unsent: pending.bytes.totals().1 == before })
            }
        }
    }

    /// The person whose session serves it, where callers use the server as themselves.
    fn person<'a>(&'a self, live: &'a Live) -> Result<Option<PersonCall<'a>>, Error> {
        PersonCall::from_options((&self.shared, &self.slot), live, &self.options)
    }

    /// Applies the consequences of a failure to the server, and adds the reason of
    /// the server's end to the error.
    async fn consequences(&self, live: &Live, error: Error) -> Error {
        // Looked at for a timeout alone: that reads files, and an error that the server answers with
        // is no rare event.
        let timed_out = error.code == ErrorCode::Timeout;
        let process = live.process.as_ref().filter(|it| timed_out && it.is_suspended());
        let error = match process {
            Some(process) => {
                let message = format!("{}: its process is stopped by a signal", error.message);
                let mut error = error.help(format!("`kill -CONT {}` lets it go on", process.pid()));
                error.message = message;
                error
            }
            None if timed_out && live.config.transport.is_address() => self.with_silence(error),
            None => error,
        };
        match error.code {
            ErrorCode::Timeout if live.config.on_timeout == OnTimeout::Unavailable => {
                let reason = format!("{}: {}", self.label(), error.message);
                self.turn_away(live, &reason, Command::TimedOut).await;
                error
            }
            ErrorCode::ServerUnavailable if !error.answered => {
                // Only a failed request reveals that an address is no longer reachable.
                if live.config.transport.is_address() {
                    self.turn_away(live, &error.message, Command::Unreachable).await;
                }
                self.post_mortem(live, error).await
            }
            _ => error,
        }
    }

    /// Adds when the server was heard last, when that is long ago: it may be suspended, or gone
    /// without a word.
    fn with_silence(&self, error: Error) -> Error {
        const SILENT_TIMEOUT: Duration = Duration::from_secs(10);
        let heard = self.slot.bytes.last_heard();
        let silent = heard.map(|at| self.shared.clock.now().since(at));
        match silent.filter(|silent| *silent >= SILENT_TIMEOUT) {
            Some(silent) => {
                let message =
                    format!("{}; the server was last heard {} ago", error.message, Dur(silent));
                let help = "is it suspended, or does something in between swallow the connection? \
                            a restart of the server connects anew";
                let mut error = error.help(help);
                error.message = message;
                error
            }
            None => error,
        }
    }

    async fn turn_away(&self, live: &Live, why: &str, command: fn(u64, SafeText) -> Command) {
        let reason = SafeText::line(why);
        if self.slot.turn_away(live.generation, &reason) {
            let _ = self.slot.commands.send(command(live.generation, reason)).await;
        }
    }

    /// After a lost connection, waits briefly for the reason of the server's end.
    async fn post_mortem(&self, live: &Live, mut error: Error) -> Error {
        let mut watch = self.slot.watch();
        let verdict = watch.wait_for(|now| {
            let decided = now.settled || now.retry_at.is_some();
            let gone = now.session.is_none() && (decided || now.state == ServerState::Shutdown);
            gone || now.generation != live.generation
        });
        let timeout = if live.process.is_some() {
            Self::END_REASON_TIMEOUT
        } else {
            Self::REMOTE_END_TIMEOUT
        };
        if let Ok(Ok(now)) = tokio::time::timeout(timeout, verdict).await
            && now.generation == live.generation
            && let Some(reason) = &now.reason
            && !error.message.contains(reason.as_str())
        {
            error.message = format!("{}: {reason}", error.message);
        }
        self.slot.live().explain(error)
    }

    async fn outcome(
        &self,
        (live, tool): (&Live, Option<&Tool>),
        checked: CheckedArguments,
        answer: Payload,
        flight: &Flight,
    ) -> CallOutcome {
        let is_error = is_error(&answer);
        let promised = tool.filter(|tool| !is_error && tool.output_schema.is_some());
        let output_violations = match promised {
            Some(tool) => self.check_output(live, tool, &answer).await,
            None => Vec::new(),
        };
        CallOutcome {
            is_error,
            output_violations,
            output_checked: promised.is_some(),
            guard_warnings: checked.warnings,
            forced: checked.forced,
            changes: self.changes.clone(),
            duration: flight.took(),
            findings: flight.pending().take_findings(),
            waiting: flight.pending().waited(),
            ..self.bare_outcome(live, answer, AnswerSource::Server)
        }
    }

    /// An outcome without warnings, violations and timings.
    fn bare_outcome(&self, live: &Live, result: Payload, source: AnswerSource) -> CallOutcome {
        let target = self.target.to_string();
        CallOutcome {
            source,
            caller: self.caller(live),
            ..CallOutcome::new(self.id, self.slot.name.clone(), target, result)
        }
    }

    /// The request to send: a call, or a task where the tool requires one.
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

    fn arguments(&self) -> Option<&Arc<Value>> {
        match &self.request {
            Request::CallTool { arguments, .. } | Request::GetPrompt { arguments, .. } => {
                Some(arguments)
            }
            _ => None,
        }
    }

    /// The caller, for the outcome.
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

    // Callers subject to the policy: limits, the policy service and the consent of the user, before
    // anything is sent.

    /// Permits or rejects the operation; callers must hold the permit until the response arrives.
    async fn permitted(
        &mut self,
        live: &Live,
        tool: Option<&Arc<Tool>>,
        flight: &Flight,
    ) -> Result<Option<Permit>, Error> {
        let Some(admission) = self.admission.clone() else {
            if self.has_to_comply() {
                Box::pin(arguments::complies(self, (live, tool), flight)).await?;
            }
            return Ok(None);
        };
        let full = self.full_name();
        let permit = self.limited(&admission, &full).await?;
        let (run, target) = (self.options.run.as_ref(), self.policy_target(tool));
        let decision = self.shared.policy.raised(&admission, run, &target);
        // Boxed, because most calls need neither.
        if self.has_to_comply() {
            Box::pin(arguments::complies(self, (live, tool), flight)).await?;
        }
        if decision.effect == PolicyEffect::Ask {
            Box::pin(self.ask_user(&admission, &decision, &full, flight)).await?;
        }
        Ok(permit)
    }

    /// Whether the policy service has to be asked.
    fn has_to_comply(&self) -> bool {
        let in_force = self.shared.policy.in_force();
        in_force.service.is_some() && in_force.policy.has_to_comply(&self.options.principal())
    }

    /// Applies the limits of callers other than the user.
    async fn limited(&self, admission: &Admission, full: &str) -> Result<Option<Permit>, Error> {
        let principal = &admission.principal;
        if principal.is_person() {
            return Ok(None);
        }
        let point = &self.shared.policy;
        let bytes = self.arguments().map_or(0, |all| base::text::json::weigh(&**all));
        let is_call = matches!(self.request, Request::CallTool { .. });
        let run = is_call.then(|| self.options.counted_in());
        let (counted, run) = (principal.accountable(), run.as_ref());
        let limits = point.in_force().config.limits_for(principal, run);
        let logged = |error: Error| {
            tracing::warn!(
                target: "mcpdeck::policy", action = "limited", principal = %principal,
                "{full:?}: {}", error.message
            );
            error
        };
        let rules = &point.in_force().policy.rules;
        let quota = point.quotas.take(rules.quotas(), &counted, &self.policy_target(None));
        let quota = quota.map_err(|refusal| logged(refusal.error()))?;
        let minutes = quota.as_ref().map_or(&[][..], QuotaHold::minutes);
        let admitted = point.limiter.admit_shared(&counted, full, run, (bytes, &limits), minutes);
        match admitted.await {
            Ok(permit) => Ok(Some(permit.counted_in(quota))),
            Err(refusal) => {
                quota.into_iter().for_each(QuotaHold::refund);
                Err(logged(refusal.error()))
            }
        }
    }

    /// Asks the user; the call's timeout is suspended meanwhile.
    async fn ask_user(
        &self,
        admission: &Admission,
        decision: &Decision,
        full: &str,
        flight: &Flight,
    ) -> Result<(), Error> {
        let principal = &admission.principal;
        // A rule asks before each call, so only one call can be consented to.
        let is_model = decision.reason == Reason::NotReadOnly;
        let answers: &[ConsentReach] = match principal.client() {
            _ if !is_model => &[ConsentReach::Once],
            None => &[ConsentReach::Once, ConsentReach::Session, ConsentReach::Always],
            // What is kept in the files is the operator's.
            Some(_) => &[ConsentReach::Once, ConsentReach::Session],
        };
        let params = json!({
            "tool": full,
            "method": self.method,
            "arguments": self.arguments(),
            "caller": principal.to_string(),
            "why": decision.words(),
            "answers": answers,
        });
        // What a rule asks of the operator is not for the client to answer.
        let asker = self.options.asker.clone().filter(|_| is_model || self.has_own_user());
        let allowed = self.consent(RequestKind::Permission, params, (flight, asker)).await?;
        let no_consent = match allowed {
            Ok(reach) => {
                let reach = if answers.contains(&reach) { reach } else { ConsentReach::Once };
                if let Err(why) = self.shared.policy.consented(principal, full, reach).await {
                    tracing::warn!(
                        target: "mcpdeck::policy", action = "consent", principal = %principal,
                        "the consent holds for this call only: {why}"
                    );
                }
                return Ok(());
            }
            Err(no_consent) => no_consent,
        };
        let is_unasked = no_consent.is_some();
        let message = match no_consent {
            Some(why) if is_model => {
                format!("nobody consented to this call, so it was not made: {why}")
            }
            Some(why) => format!(
                "a rule asks the operator before this call; the answer: {why}. The operator answers \
                 in the dashboard (`mcpdeck --serve`), or takes the rule out of the policy"
            ),
            None => "the operator did not approve it".to_owned(),
        };
        let mut error = Error::new(ErrorCode::PermissionDenied, message).help(decision.words());
        error.denial = is_unasked.then_some(Denial::Unasked);
        Err(error)
    }

    /// Whether the user is the one who is with the caller, and not a client's own user.
    fn has_own_user(&self) -> bool {
        let principal = self.options.principal();
        principal.is_person()
            || matches!(principal.origin, Origin::Chat(_) | Origin::App(_))
                && principal.client().is_none()
    }

    /// Records that the operation was refused, for whatever reason.
    fn refused(&self, error: &Error) {
        let Some(admission) = &self.admission else { return };
        // A denial is recorded where it is decided, by its rule.
        let is_decision = |denial: &Denial| {
            use Denial::{NoProfile, NotGranted, Scope, Tool};
            matches!(denial, NotGranted | NoProfile | Scope | Tool)
        };
        if error.denial.as_ref().is_some_and(is_decision) {
            return;
        }
        let rule = admission.decision.rule.as_deref();
        let why = match &error.help {
            Some(help) if error.code == ErrorCode::PermissionDenied => {
                format!("{} ({help})", error.message)
            }
            _ => error.message.clone(),
        };
        let action = match self.request {
            Request::ReadResource { .. } => PolicyAction::Read,
            Request::GetPrompt { .. } => PolicyAction::Prompt,
            Request::Complete { .. } => PolicyAction::Complete,
            Request::Subscribe { .. } | Request::Unsubscribe { .. } => PolicyAction::Subscribe,
            _ => PolicyAction::Call,
        };
        let full = self.full_name();
        self.shared.policy.block((&admission.principal, action, &full), rule, &why);
    }

    /// Records what the caller's run has read.
    fn has_read(&self, tool: Option<&Arc<Tool>>) {
        if let Some(admission) = &self.admission {
            let run = self.options.run.as_ref();
            self.shared.policy.has_read(&admission.principal, run, &self.policy_target(tool));
        }
    }

    fn policy_target(&self, tool: Option<&Arc<Tool>>) -> PolicyTarget<'_> {
        let kind = match self.request {
            Request::CallTool { .. } => TargetKind::Tool,
            Request::ReadResource { .. } => TargetKind::Resource,
            Request::GetPrompt { .. } => TargetKind::Prompt,
            _ => TargetKind::Server,
        };
        let hints = tool.map(|tool| tool.hints).unwrap_or_default();
        PolicyTarget { kind, hints, ..PolicyTarget::tool(self.slot.name.as_str(), &self.target) }
    }

    // The audit log.

    /// The event of this operation, if there is an audit log.
    fn audit(&self, kind: AuditKind) -> Option<(Arc<dyn AuditSink>, AuditEvent)> {
        let sink = self.shared.policy.audit()?;
        let rule = match &self.admission {
            Some(admission) => admission.decision.words(),
            None => Decision::new(PolicyEffect::Allow, Reason::Person, None).words(),
        };
        let principal = self.options.principal();
        let event = AuditEvent::new(kind, self.shared.clock.now(), &principal)
            .of_call(self.id, self.method, &self.full_name())
            .of_run(self.options.run.as_deref(), self.options.trace.as_deref())
            .decided(true, &rule);
        Some((sink, event))
    }

    /// Audits an answer from the cache.
    fn audit_kept(&self, kept: &CallOutcome) -> Result<(), Error> {
        let Some((sink, mut event)) = self.audit(AuditKind::End) else { return Ok(()) };
        event.status = Some(Ending::Success.as_str().to_owned());
        event.arguments = self.arguments().map(|arguments| hash_of_value(arguments));
        event.result = Some(hash_of_result(&kept.result));
        event.took(Duration::ZERO, Duration::ZERO);
        sink.write(&event).map_err(|why| not_audited(&why).request(self.label()))
    }

    /// The target for the policy and its log: `server.tool`, or a URI.
    fn full_name(&self) -> String {
        match self.request {
            Request::ReadResource { .. } | Request::Complete { .. } => self.target.to_string(),
            _ => canonical_name(&self.slot.name, &self.target),
        }
    }

    // The cache: fresh results instead of a request, stale ones instead of an error.

    fn fresh_answer(&self, live: &Live) -> Option<CallOutcome> {
        let has_persons = live.config.exchange().is_some();
        let is_off = self.options.bypass_cache || !live.config.cache.enabled || has_persons;
        if is_off || live.session.is_none() {
            return None;
        }
        let kept = self.shared.cache.fresh(&self.cache_key()?, self.shared.clock.now())?;
        let source = AnswerSource::Cache(kept.age);
        Some(self.answer_with(kept, source))
    }

    /// A cached result of any age instead of the error, when the server is unavailable.
    fn stale_answer(&self, live: &Live, error: Error) -> Result<CallOutcome, Error> {
        let down = matches!(error.code, ErrorCode::ServerUnavailable | ErrorCode::CircuitOpen);
        let cache = &live.config.cache;
        let is_off = self.options.bypass_cache || !cache.enabled || !cache.stale_if_unavailable;
        if !down || is_off || live.config.exchange().is_some() {
            return Err(error);
        }
        let kept =
            self.cache_key().and_then(|key| self.shared.cache.any(&key, self.shared.clock.now()));
        let kept = kept.ok_or(error)?;
        // Stale at any age, because the server could not be reached.
        let source = AnswerSource::Stale(kept.age);
        Ok(self.answer_with(kept, source))
    }

    /// Caches a result, unless the user took part in the call.
    fn keep(&self, live: &Live, answer: &Payload, (waited, version): (Duration, u64)) {
        if let Some(key) = self.cache_key()
            && waited == Duration::ZERO
        {
            let label = SafeText::line(&self.target);
            let keep = CachePut { key, label, result: answer.clone(), version };
            self.shared.cache.keep(&live.config.cache, keep, self.shared.clock.now());
        }
    }

    fn answer_with(&self, kept: CachedAnswer, source: AnswerSource) -> CallOutcome {
        tracing::debug!(
            target: "mcpdeck::call", server = %self.slot.name, request_id = self.id.0,
            action = "answered from the cache", fresh = kept.fresh,
        );
        self.bare_outcome(&self.slot.live(), kept.result, source)
    }

    /// The cache key of this operation; `None` when it is not cacheable.
    fn cache_key(&self) -> Option<CacheKey> {
        // Callers subject to the policy share no cached results, nor do those that tell the server
        // more than the request.
        let tells_more = self.options.meta.as_ref().is_some_and(|meta| !meta.members.is_empty());
        if self.admission.is_some() || self.has_to_comply() || tells_more {
            return None;
        }
        let params = match &self.request {
            Request::ReadResource { uri } => resource_params(uri),
            Request::GetPrompt { name, arguments } => {
                let mut params = json!({"arguments": arguments, "name": &**name});
                // The key must not depend on the order of arguments.
                params.sort_all_objects();
                params.to_string()
            }
            _ => return None,
        };
        let server = self.slot.name.clone();
        Some(CacheKey { server, method: self.method.to_owned(), params })
    }
}

/// Whether the tool is declared idempotent or read-only.
fn is_repeatable(tool: Option<&Tool>) -> bool {
    tool.is_some_and(|t| t.hints.idempotent == Some(true) || t.hints.read_only == Some(true))
}

fn is_error(result: &Payload) -> bool {
    result["isError"] == true
}

// Calls in flight and their metrics.

/// A call in flight. Dropping it unfinished, because the caller dropped the call, counts it as
/// cancelled.
struct Flight {
    slot: Arc<Slot>,
    row: Arc<InFlight>,
    /// The number of the session on which it began.
    session: u64,
    key: Arc<str>,
    began: Instant,
    ended: bool,
    audit: Option<Box<FlightAudit>>,
}

/// What the audit log is told of a call in flight.
struct FlightAudit {
    sink: Arc<dyn AuditSink>,
    clock: Clock,
    /// What the policy service changed.
    changed: ServiceChanges,
    /// As it began.
    event: AuditEvent,
    /// The event before the request was sent.
    call: OnceLock<Box<AuditEvent>>,
}

impl FlightAudit {
    /// Tells how it ended.
    fn end(
        self,
        (ending, error): (Ending, Option<&Error>),
        result: Option<String>,
        (took, waited): (Duration, Duration),
    ) {
        let call = self.call.into_inner();
        let is_sent = call.is_some();
        let mut event = call.map_or(self.event, |call| *call);
        event.event = AuditKind::End;
        event.at = self.clock.now().to_rfc3339();
        if let Some(error) = error.filter(|error| is_refusal(error, is_sent)) {
            event = event.decided(false, &error.message);
        }
        event.status = Some(ending.as_str().to_owned());
        event.changed = self.changed;
        event.result = result;
        event.took(took, waited);
        // What was written before it was sent stands; the next call is refused.
        let _ = self.sink.write(&event);
    }
}

impl Flight {
    fn begin(operation: &Operation) -> Self {
        let Operation { options, slot, id, .. } = operation;
        let started = operation.shared.clock.now();
        let live = slot.live();
        let timeout = options.timeout.unwrap_or(live.config.request_timeout);
        let longest = live.config.wire.max_call.max(timeout);
        let limits = (timeout, operation.longest.map_or(longest, |set| set.min(longest)));
        let (cancel, progress) = (options.cancel.clone(), options.progress.clone());
        let row = Arc::new(InFlight {
            view: CallView {
                id: *id,
                server: slot.name.clone(),
                method: operation.method.to_owned(),
                target: SafeText::line(&operation.target),
                started,
                waiting: Duration::ZERO,
                is_waiting: false,
                progress: None,
            },
            pending: PendingRequest::new(
                operation.shared.clock,
                Some(*id),
                limits,
                cancel,
                progress,
            ),
            asker: options.asker.clone(),
        });
        let session = options.session.as_deref().unwrap_or_default();
        let _ = row.pending.caller.set(format!("{} {session}", options.origin).trim_end().into());
        if let Some(trace) = &options.trace {
            let _ = row.pending.trace.set(Arc::clone(trace));
        }
        if let Some(meta) = options.meta.as_ref().filter(|meta| !meta.members.is_empty()) {
            let _ = row.pending.meta.set(Arc::clone(meta));
        }
        if let Some(hops) = options.hops {
            let _ = row.pending.hops.set(hops);
        }
        slot.calls().insert(*id, Arc::clone(&row));
        let key = slot.ledger().begin(operation.method, &operation.target, started);
        let (slot, session) = (Arc::clone(slot), live.generation);
        let clock = operation.shared.clock;
        let audit = operation.audit(AuditKind::Call);
        let audit = audit.map(|(sink, event)| {
            let (changed, call) = (ServiceChanges::default(), OnceLock::new());
            Box::new(FlightAudit { sink, clock, changed, event, call })
        });
        Self { slot, row, session, key, began: Instant::now(), ended: false, audit }
    }

    /// Tells the audit log that the request will be sent.
    fn audit_call(&self, operation: &Operation) -> Result<(), Error> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let mut event = audit.event.clone();
        event.at = audit.clock.now().to_rfc3339();
        event.arguments = operation.arguments().map(|arguments| hash_of_value(arguments));
        event.changed.clone_from(&operation.changes);
        audit.sink.write(&event).map_err(|why| not_audited(&why))?;
        let _ = audit.call.set(Box::new(event));
        Ok(())
    }

    /// The request, for the session.
    fn pending(&self) -> &Arc<PendingRequest> {
        &self.row.pending
    }

    /// Whether anything was sent to the server.
    fn is_sent(&self) -> bool {
        self.row.pending.bytes.totals().1 > 0
    }

    /// Elapsed time, excluding the time spent waiting for the user.
    fn took(&self) -> Duration {
        self.began.elapsed().saturating_sub(self.row.pending.waited())
    }

    /// Counts and logs the end of an operation.
    fn end(mut self, operation: &Operation, outcome: &Result<CallOutcome, Error>) {
        let ending = match outcome {
            Ok(outcome) if outcome.is_error => Ending::ToolError,
            Ok(_) => Ending::Success,
            Err(error) => Ending::Failed(error.code),
        };
        let (mut arguments, mut result) = (None, None);
        // Serialized only with `--log-payloads`.
        if tracing::enabled!(target: "mcpdeck::payload", Level::ERROR) {
            arguments = operation.arguments().map(ToString::to_string);
            result = outcome.as_ref().ok().and_then(|o| serde_json::to_string(&o.result).ok());
        }
        let error = outcome.as_ref().err();
        if let Some(error) = error.filter(|error| is_refusal(error, self.is_sent())) {
            operation.refused(error);
        }
        if let Some(audit) = &mut self.audit {
            let arguments = || operation.arguments().map(|arguments| hash_of_value(arguments));
            audit.event.arguments = arguments().filter(|_| audit.call.get().is_none());
            audit.changed.clone_from(&operation.changes);
        }
        let hash = outcome.as_ref().ok().filter(|_| self.audit.is_some());
        let hash = hash.map(|outcome| hash_of_result(&outcome.result));
        self.finish(ending, error, (arguments.as_deref(), result.as_deref(), hash));
    }

    fn finish(
        &mut self,
        ending: Ending,
        error: Option<&Error>,
        (arguments, result, hash): (Option<&str>, Option<&str>, Option<String>),
    ) {
        self.ended = true;
        let id = self.row.view.id;
        self.slot.calls().remove(&id);
        let took = self.took();
        if let Some(audit) = self.audit.take() {
            audit.end((ending, error), hash, (took, self.row.pending.waited()));
        }
        let (received, sent) = self.row.pending.bytes.totals();
        // A server that is asked too often has been sent something.
        let is_limited = ending == Ending::Failed(ErrorCode::RateLimited) && sent == 0;
        let ending = if is_limited { Ending::Limited } else { ending };
        let mut ledger = self.slot.ledger();
        ledger.end(&self.key, ending, took, self.row.view.started.plus(took));
        if let Some(metrics) = ledger.targets.get_mut(&self.key) {
            metrics.transferred(received, sent);
        }
        drop(ledger);
        let (status, server) = (ending.as_str(), self.slot.name.as_str());
        let text = match (error, ending) {
            (Some(error), _) => error.message.as_str(),
            (None, Ending::ToolError) => "the tool reports a failure (`isError`)",
            (None, _) => "",
        };
        let rpc_code = error.and_then(|error| error.rpc.as_ref()?.code);
        let causes = error.and_then(|error| error.causes.as_deref());
        macro_rules! log {
            ($level:ident) => {
                tracing::event!(
                    target: "mcpdeck::call", Level::$level, server, request_id = id.0,
                    session_id = self.session, action = &*self.key, status, rpc_code,
                    duration_ms = took.as_secs_f64() * 1e3, causes, arguments, result, "{text}"
                )
            };
        }
        match ending {
            Ending::Success | Ending::Failed(ErrorCode::Cancelled) => log!(INFO),
            _ => log!(WARN),
        }
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        if !self.ended {
            self.finish(Ending::Failed(ErrorCode::Cancelled), None, (None, None, None));
        }
    }
}

impl InFlight {
    /// The current view of the call, for display.
    pub fn show(&self) -> CallView {
        CallView {
            waiting: self.pending.waited(),
            is_waiting: self.pending.is_held(),
            progress: self.pending.progress(),
            ..self.view.clone()
        }
    }
}
