//! The breakers of a call: that of its server and that of its tool.

use std::sync::Arc;
use std::time::Duration;

use crate::Fact;
use crate::breaker::{Breaker, BreakerView};
use crate::operation::Operation;
use crate::server::slot::{Ledger, Live};
use base::{SafeText, Timestamp};
use config::error::{Error, ErrorCode};
use config::{OnTimeout, ServerConfig};
use mcp::Request;

/// A call admitted by the breakers; callers must report its end. Dropping it without a report
/// releases the probe.
pub(super) struct Admitted<'a> {
    operation: &'a Operation,
    keys: Keys,
    probes: bool,
    config: Arc<ServerConfig>,
    reported: bool,
}

/// The breakers of a call: that of its server, and that of its tool.
type Keys = Vec<Option<Arc<str>>>;

/// Changed breakers, to be recorded.
type BreakerChanges = Vec<(Option<SafeText>, BreakerView)>;

impl Operation {
    /// Admits the call through both breakers.
    pub(super) async fn admit(&self, live: &Live) -> Result<Admitted<'_>, Error> {
        let mut keys: Keys = vec![None];
        if let Request::CallTool { name, .. } = &self.request {
            keys.push(Some(Arc::clone(name)));
        }
        loop {
            let mut probed = std::pin::pin!(self.slot.probed.notified());
            // Registered before the look, so that no end of a probe is missed.
            probed.as_mut().enable();
            let now = self.shared.clock.now();
            let (verdict, changes) = ask(&mut self.slot.ledger(), &keys, now);
            record_changes(self, changes).await;
            let (until, cause) = match verdict {
                Ok(probes) => {
                    return Ok(Admitted {
                        operation: self,
                        keys,
                        probes,
                        config: Arc::clone(&live.config),
                        reported: false,
                    });
                }
                Err(rejected) => rejected,
            };
            // Half-open: the call that tries it decides for those that came with it.
            if until <= now {
                let result = tokio::time::timeout_at(self.deadline, probed);
                if self.unless_cancelled(result).await?.is_ok() {
                    continue;
                }
            }
            return Err(rejected(until.since(now), &cause));
        }
    }
}

/// The error of a call that a breaker rejects.
fn rejected(wait: Duration, cause: &SafeText) -> Error {
    /// While a probe runs, whose end nobody knows.
    const PROBE_RETRY_INTERVAL: Duration = Duration::from_secs(1);
    let next = if wait.is_zero() {
        "half-open: a call that was let through to try has not ended yet".to_owned()
    } else {
        let seconds = wait.as_secs_f64();
        format!("half-open in {seconds:.0} s: then one call is let through to try")
    };
    let message = format!("the breaker is open after failures in a row ({cause}); {next}");
    let mut error = Error::new(ErrorCode::CircuitOpen, message).help("wait, or reset the breaker");
    error.retry_after = Some(wait.max(PROBE_RETRY_INTERVAL));
    error
}

/// Whether an admitted call is a probe; otherwise the time of the next probe and the cause.
fn ask(
    ledger: &mut Ledger,
    keys: &Keys,
    now: Timestamp,
) -> (Result<bool, (Timestamp, SafeText)>, BreakerChanges) {
    let mut changes = BreakerChanges::new();
    for key in keys {
        let Some(breaker) = ledger.breakers.get_mut(key) else { continue };
        match breaker.admit(now) {
            Ok(false) => {}
            Ok(true) => changes.push((shown(key.as_ref()), breaker.view(now))),
            Err(rejected) => {
                if !changes.is_empty()
                    && let Some(own) = ledger.breakers.get_mut(&None)
                {
                    own.abandoned();
                }
                return (Err(rejected), changes);
            }
        }
    }
    (Ok(!changes.is_empty()), changes)
}

fn shown(key: Option<&Arc<str>>) -> Option<SafeText> {
    key.map(|key| SafeText::line(key))
}

impl Admitted<'_> {
    async fn success(mut self) {
        self.reported = true;
        let mut changes = BreakerChanges::new();
        for key in &self.keys {
            let before = self.operation.slot.ledger().breakers.remove(key);
            if before.is_some_and(|mut breaker| breaker.success()) {
                changes.push((shown(key.as_ref()), BreakerView::Closed));
            }
        }
        record_changes(self.operation, changes).await;
    }

    /// Reports a result; one with `isError` is a failure if the entry says so (`toolErrors`).
    pub async fn answered(self, is_error: bool) {
        if is_error && self.config.breaker.tool_errors {
            return self.failed(&SafeText::line("the result has `isError`"), false).await;
        }
        self.success().await;
    }

    /// Reports a failure; failures unrelated to the server's health do not count.
    pub(super) async fn failure(self, error: &Error) {
        let counts = match error.code {
            ErrorCode::Timeout => self.config.on_timeout == OnTimeout::Breaker,
            ErrorCode::ServerUnavailable => !error.unauthorized,
            // An error object counts only if configured; an invalid response always does.
            ErrorCode::Protocol => error.rpc.is_none() || self.config.breaker.errors,
            _ => false,
        };
        if counts {
            let connection = error.code == ErrorCode::ServerUnavailable && !error.answered;
            self.failed(&SafeText::line(&error.message), connection).await;
        } else if error.rpc.is_some() {
            self.success().await;
        }
    }

    /// Counts a failure of the tool, or of the whole connection.
    async fn failed(mut self, cause: &SafeText, connection: bool) {
        self.reported = true;
        let now = self.operation.shared.clock.now();
        let mut changes = BreakerChanges::new();
        for key in &self.keys {
            // The server's breaker opens on failures of several tools, or of the connection.
            let of = if key.is_none() && !connection { self.keys.last() } else { None };
            let source = of.cloned().flatten();
            let mut ledger = self.operation.slot.ledger();
            let breaker = ledger.breakers.entry(key.clone()).or_default();
            if breaker.failure(&self.config.breaker, now, (source, cause)) {
                changes.push((shown(key.as_ref()), breaker.view(now)));
            }
        }
        record_changes(self.operation, changes).await;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if !self.probes {
            return;
        }
        if !self.reported {
            let mut ledger = self.operation.slot.ledger();
            for key in &self.keys {
                ledger.breakers.entry(key.clone()).and_modify(Breaker::abandoned);
            }
        }
        self.operation.slot.probed.notify_waiters();
    }
}

async fn record_changes(operation: &Operation, changes: BreakerChanges) {
    for (tool, breaker) in changes {
        let changed = Fact::BreakerChanged { tool, breaker };
        operation.shared.facts.record(&operation.slot.name, changed).await;
    }
}
