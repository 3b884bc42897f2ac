//! A caller that is not free: its limits, the policy service, and the person who is asked, before
//! anything is sent.

use std::sync::Arc;

use serde_json::{Value, json};
use tracing::Instrument as _;

use crate::error::{Error, ErrorCode};
use crate::host::naming::canonical;
use crate::host::operation::Operation;
use crate::host::operation::flight::Flight;
use crate::host::policy::{Action, Admission, Decision, Effect, Permit, Target, TargetKind};
use crate::mcp::RequestKind;
use crate::mcp::capabilities::Tool;
use crate::mcp::session::Request;

impl Operation {
    /// Lets the operation through, or says why not; what it gives is held until the answer is there.
    pub(super) async fn permitted(
        &self,
        tool: Option<&Arc<Tool>>,
        flight: &Flight,
    ) -> Result<Option<Permit>, Error> {
        let Some(admission) = self.admission.clone() else { return Ok(None) };
        let full = match self.request {
            Request::ReadResource { .. } | Request::Complete { .. } => self.target.to_string(),
            _ => canonical(&self.slot.name, &self.target),
        };
        let permit = self.limited(&admission, &full)?;
        let point = &self.deck.policy;
        let decision =
            point.raised(&admission, self.options.run.as_ref(), &self.policy_target(tool));
        if let Request::CallTool { arguments, .. } = &self.request
            && let Some(service) = &point.in_force().service
        {
            let span =
                tracing::info_span!(target: "mcpdeck::policy", "policy service", tool = full);
            let passed = service.passes(&admission.principal, &full, arguments).instrument(span);
            if let Err(reason) = passed.await {
                let message = format!("Compliance Blocked: {reason}");
                return Err(Error::new(ErrorCode::PolicyBlocked, message)
                    .help("ask whoever runs the policy service"));
            }
        }
        if decision.effect == Effect::Ask {
            self.asked(&admission, &decision, &full, flight).await?;
        }
        Ok(permit)
    }

    /// Limits hold for callers that are not the person.
    fn limited(&self, admission: &Admission, full: &str) -> Result<Option<Permit>, Error> {
        let principal = &admission.principal;
        if principal.is_person() {
            return Ok(None);
        }
        let point = &self.deck.policy;
        let limits = point.in_force().config.limits_of(&principal.profile);
        let (bytes, run) = match &self.request {
            Request::CallTool { arguments, .. } => {
                (crate::base::text::json::weigh(&**arguments), self.options.run.as_ref())
            }
            Request::GetPrompt { arguments, .. } => {
                (crate::base::text::json::weigh(&**arguments), None)
            }
            _ => (0, None),
        };
        let permit = point.limiter.admit(principal, full, run, (bytes, &limits));
        let permit = permit.map_err(|refusal| {
            let error = refusal.error();
            tracing::warn!(
                target: "mcpdeck::policy", action = "limited", principal = %principal,
                "{full:?}: {}", error.message
            );
            error
        })?;
        Ok(Some(permit))
    }

    /// Asks the person; the caller's clock stands still meanwhile.
    async fn asked(
        &self,
        admission: &Admission,
        decision: &Decision,
        full: &str,
        flight: &Flight,
    ) -> Result<(), Error> {
        let arguments = match &self.request {
            Request::CallTool { arguments, .. } | Request::GetPrompt { arguments, .. } => {
                Value::clone(arguments)
            }
            _ => Value::Null,
        };
        let params = json!({
            "tool": full,
            "method": self.method,
            "arguments": arguments,
            "caller": admission.principal.to_string(),
            "why": decision.words(),
        });
        let _held = flight.pending().hold();
        let allowed = tokio::select! {
            biased;
            // Dropping the question withdraws it.
            () = self.options.cancel.cancelled() => {
                return Err(Error::new(ErrorCode::Cancelled, "cancelled by the caller"));
            }
            allowed = self.consent(RequestKind::Permission, params) => allowed,
        };
        let Err(nobody) = allowed else { return Ok(()) };
        let principal = &admission.principal;
        self.deck.policy.block(principal, Action::Call, full, decision);
        let message = match nobody {
            Some(why) => format!(
                "a rule asks the operator before this call; the answer: {why}. The operator answers \
                 in the dashboard (`mcpdeck --serve`), or takes the rule out of the policy"
            ),
            None => "the operator did not approve it".to_owned(),
        };
        Err(Error::new(ErrorCode::PermissionDenied, message).help(decision.words()))
    }

    /// Remembers what the answer has brought into the caller's run.
    pub(super) fn has_read(&self, tool: Option<&Arc<Tool>>) {
        if let Some(admission) = &self.admission {
            let run = self.options.run.as_ref();
            self.deck.policy.has_read(&admission.principal, run, &self.policy_target(tool));
        }
    }

    fn policy_target(&self, tool: Option<&Arc<Tool>>) -> Target<'_> {
        let kind = match self.request {
            Request::CallTool { .. } => TargetKind::Tool,
            Request::ReadResource { .. } => TargetKind::Resource,
            Request::GetPrompt { .. } => TargetKind::Prompt,
            _ => TargetKind::Server,
        };
        let hints = tool.map(|tool| tool.hints).unwrap_or_default();
        Target { kind, hints, ..Target::tool(self.slot.name.as_str(), &self.target) }
    }
}
