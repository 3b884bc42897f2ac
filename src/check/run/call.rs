//! One sample call: made through the engine and judged.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use crate::base::ServerName;
use crate::check::Finding;
use crate::check::calls::PlannedCall;
use crate::check::expect::Target;
use crate::check::expect::sample::sample;
use crate::check::subject::brief;
use crate::error::Error;
use crate::host::{CallOptions, CallOutcome, Host, Origin, Validation};

/// A call that was made.
#[derive(Clone, Debug)]
pub(super) struct Called {
    /// How it is named in a report.
    pub(super) label: String,
    /// How long it took.
    pub(super) took: Duration,
    /// What is wrong with its result.
    pub(super) findings: Vec<Finding>,
}

/// Makes a call of a server that is ready.
pub(super) async fn make(host: &Host, server: &ServerName, call: &PlannedCall) -> Called {
    let began = Instant::now();
    let options = CallOptions {
        timeout: call.timeout,
        bypass_cache: true,
        origin: Origin::Check,
        validation: if call.force { Validation::Force } else { Validation::Enforce },
        server: Some(server.clone()),
        ..CallOptions::default()
    };
    let arguments = Value::Object(call.arguments.clone());
    let outcome = match &call.target {
        Target::Tool(name) => {
            host.call_tool_with(&format!("{server}.{name}"), arguments, options).await
        }
        Target::Prompt(name) => {
            host.get_prompt_with(&format!("{server}.{name}"), arguments, options).await
        }
        Target::Resource(uri) => host.get_resource_with(uri, options).await,
    };
    let took = outcome.as_ref().map_or_else(|_| began.elapsed(), |outcome| outcome.duration);
    Called { label: call.label.clone(), took, findings: judge(call, outcome) }
}

fn judge(call: &PlannedCall, outcome: Result<CallOutcome, Error>) -> Vec<Finding> {
    let named = |message: String| {
        // A saved call is told by its name too: the target alone does not say which one it was.
        let name = call.label.strip_prefix('@').map(|_| format!("{}: ", call.label));
        sample(&call.target, name.unwrap_or_default() + &message)
    };
    let outcome = match outcome {
        Ok(outcome) => outcome,
        // A JSON-RPC error is a failure of the tool too, when one is expected.
        Err(error) if call.expect.is_error == Some(true) && error.rpc.is_some() => {
            return Vec::new();
        }
        Err(error) => {
            let mut message = format!("the call failed: {}", brief(&error.message, 300));
            for violation in error.violations.iter().take(3) {
                let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
                let _ = write!(message, "; {}: {}", brief(at, 80), brief(&violation.message, 120));
            }
            return vec![named(message)];
        }
    };
    let found = call.expect.judge(&call.target, &outcome.result, outcome.duration);
    let mut findings: Vec<Finding> = found.into_iter().map(|found| named(found.message)).collect();
    findings.extend(outcome.output_violations.iter().take(3).map(|violation| {
        let at = if violation.pointer.is_empty() { "/" } else { &violation.pointer };
        named(format!(
            "`structuredContent` does not fit `outputSchema`: {}: {}",
            brief(at, 80),
            brief(&violation.message, 200)
        ))
    }));
    findings
}
