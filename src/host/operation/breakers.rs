//! The breakers of a call: that of its server and that of its tool (decision D4, requirement H2).

use std::sync::Arc;

use crate::base::{SafeText, Timestamp};
use crate::config::{OnTimeout, ServerConfig};
use crate::error::{Error, ErrorCode};
use crate::host::Fact;
use crate::host::breaker::{Admission, BreakerView};
use crate::host::operation::Operation;
use crate::host::server::slot::{Ledger, Live};
use crate::mcp::session::Request;

/// A call that was let through; its end must be reported. Dropping it without a report frees the
/// place of a probe.
pub(super) struct Admitted<'a> {
    operation: &'a Operation,
    tool: Option<Arc<str>>,
    probes: bool,
    config: Arc<ServerConfig>,
    reported: bool,
}

/// Breakers that changed, to be told.
type Changes = Vec<(Option<SafeText>, BreakerView)>;

impl Operation {
    /// Asks both breakers.
    pub(super) async fn admit(&self, live: &Live) -> Result<Admitted<'_>, Error> {
        let tool = match &self.request {
            Request::CallTool { name, .. } => Some(Arc::clone(name)),
            _ => None,
        };
        let now = self.deck.clock.now();
        let (verdict, changes) = ask(&mut self.slot.ledger(), tool.as_ref(), now);
        tell(self, changes).await;
        match verdict {
            Ok(probes) => Ok(Admitted {
                operation: self,
                tool,
                probes,
                config: Arc::clone(&live.config),
                reported: false,
            }),
            Err((until, cause)) => Err(Error::new(
                ErrorCode::CircuitOpen,
                format!(
                    "the breaker is open after failures in a row ({cause}); half-open in {:.0} s: \
                     then one call is let through to try",
                    until.since(now).as_secs_f64()
                ),
            )
            .help("wait, or reset the breaker")),
        }
    }
}

/// Whether the call may go, as a probe or not; or until when it may not, and why.
fn ask(
    ledger: &mut Ledger,
    tool: Option<&Arc<str>>,
    now: Timestamp,
) -> (Result<bool, (Timestamp, SafeText)>, Changes) {
    let Ledger { breaker: own, tool_breakers, .. } = ledger;
    let of_tool = tool.and_then(|name| Some((Some(name), tool_breakers.get_mut(name)?)));
    let mut changes = Changes::new();
    let mut probes = false;
    for (tool, breaker) in std::iter::once((None, &mut *own)).chain(of_tool) {
        match breaker.admit(now) {
            Admission::Go => {}
            Admission::Probe => {
                probes = true;
                changes.push((tool.map(|name| SafeText::line(name)), breaker.view(now)));
            }
            Admission::Reject { until, cause } => {
                if probes {
                    own.abandoned();
                }
                return (Err((until, cause)), changes);
            }
        }
    }
    (Ok(probes), changes)
}

impl Admitted<'_> {
    async fn success(mut self) {
        self.reported = true;
        let mut changes = Changes::new();
        {
            let mut ledger = self.operation.slot.ledger();
            if ledger.breaker.success() {
                changes.push((None, BreakerView::Closed));
            }
            if let Some(tool) = &self.tool
                && let Some(mut breaker) = ledger.tool_breakers.remove(tool)
                && breaker.success()
            {
                changes.push((Some(SafeText::line(tool)), BreakerView::Closed));
            }
        }
        tell(self.operation, changes).await;
    }

    /// Reports a result; one with `isError` is a failure where the entry says so.
    pub(super) async fn answered(self, is_error: bool) {
        if is_error && self.config.breaker.tool_errors {
            return self.failed(&SafeText::line("the result has `isError`"), false).await;
        }
        self.success().await;
    }

    /// Reports a failure; one that says nothing about the server's health counts neither way.
    pub(super) async fn failure(self, error: &Error) {
        let counts = match error.code {
            ErrorCode::Timeout => self.config.on_timeout == OnTimeout::Breaker,
            ErrorCode::ServerUnavailable => !error.unauthorized,
            // An error object is an answer; an answer that is none is a failure.
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

    /// Counts a failure: of the tool, or of the connection as a whole.
    async fn failed(mut self, cause: &SafeText, connection: bool) {
        self.reported = true;
        let now = self.operation.deck.clock.now();
        let (tool, config) = (self.tool.as_ref(), &self.config.breaker);
        let source = tool.cloned().filter(|_| !connection);
        let mut changes = Changes::new();
        {
            let mut ledger = self.operation.slot.ledger();
            if ledger.breaker.failure(config, now, (source, cause)) {
                changes.push((None, ledger.breaker.view(now)));
            }
            if let Some(tool) = tool {
                let breaker = ledger.tool_breakers.entry(Arc::clone(tool)).or_default();
                if breaker.failure(config, now, (None, cause)) {
                    changes.push((Some(SafeText::line(tool)), breaker.view(now)));
                }
            }
        }
        tell(self.operation, changes).await;
    }
}

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        if self.probes && !self.reported {
            let mut ledger = self.operation.slot.ledger();
            ledger.breaker.abandoned();
            if let Some(tool) = &self.tool
                && let Some(breaker) = ledger.tool_breakers.get_mut(tool)
            {
                breaker.abandoned();
            }
        }
    }
}

async fn tell(operation: &Operation, changes: Changes) {
    for (tool, breaker) in changes {
        let server = operation.slot.name.clone();
        operation.deck.facts.record(Fact::BreakerChanged { server, tool, breaker }).await;
    }
}
