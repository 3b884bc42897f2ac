//! What the policy service says of an operation before it is sent, and of its result.

use std::sync::Arc;

use serde_json::Value;
use tracing::Instrument as _;

use super::{Flight, Operation};
use crate::call::Validation;
use crate::policy::{HookSubject, PolicyHook, ServiceChanges};
use crate::server::slot::Live;
use base::text::json::WrittenNumbers;
use config::error::{Error, ErrorCode};
use mcp::Request;
use protocol::{Payload, Tool, every_difference};

/// Asks the policy service before anything is sent. Arguments that it changes are checked as the
/// caller's were.
///
/// # Errors
/// [`ErrorCode::PolicyBlocked`] when it denies the operation, or changes it into something that cannot
/// be sent.
pub(super) async fn complies(
    operation: &mut Operation,
    (live, tool): (&Live, Option<&Arc<Tool>>),
    flight: &Flight,
) -> Result<(), Error> {
    let changed = ask(operation, None).await.map_err(|reason| {
        let message = format!("Compliance Blocked: {reason}");
        Error::new(ErrorCode::PolicyBlocked, message).help("ask the policy service's operator")
    })?;
    let Some(changed) = changed else { return Ok(()) };
    let Some(before) = operation.arguments().cloned() else {
        return Err(unusable("there are no arguments to change"));
    };
    let places = ServiceChanges::places(&before, &changed);
    if places.is_empty() {
        return Ok(());
    }
    if let Some(numbers) = &mut operation.options.numbers {
        // As they were written they stand only where the value is still the caller's.
        let numbers = Arc::make_mut(numbers);
        for change in every_difference(&before, &changed) {
            numbers.put(&change.pointer, WrittenNumbers::default());
        }
    }
    if let Request::CallTool { arguments, .. } | Request::GetPrompt { arguments, .. } =
        &mut operation.request
    {
        *arguments = Arc::new(changed);
    }
    operation.changes.arguments = places;
    // What a person may send although it does not fit, the service may not.
    let own = std::mem::replace(&mut operation.options.validation, Validation::Enforce);
    let checked = operation.check_arguments(live, tool, flight).await;
    operation.options.validation = own;
    checked.map_err(|error| unusable(&error.message).violations(error.violations.clone()))?;
    log_changes(operation);
    Ok(())
}

/// Asks the policy service about a result, where it wants to see results; returns what the caller is
/// given.
///
/// # Errors
/// [`ErrorCode::PolicyBlocked`] when it denies the result, or changes it into none.
pub(super) async fn reviewed(operation: &mut Operation, answer: Payload) -> Result<Payload, Error> {
    let in_force = operation.shared.policy.in_force();
    let sees_results = in_force.service.as_ref().is_some_and(PolicyHook::sees_results);
    if !sees_results || !operation.has_to_comply() {
        return Ok(answer);
    }
    let withheld = |error: Error| error.help("the server was called; its result is withheld");
    let changed = Box::pin(ask(operation, Some(&answer))).await.map_err(|reason| {
        let message = format!("Compliance Blocked: {reason}");
        withheld(Error::new(ErrorCode::PolicyBlocked, message))
    })?;
    let Some(changed) = changed else { return Ok(answer) };
    let list = match &operation.request {
        Request::ReadResource { .. } => "contents",
        Request::GetPrompt { .. } => "messages",
        _ => "content",
    };
    let is_list = |value: &Value| value.get(list).is_some_and(Value::is_array);
    if is_list(&answer) && !is_list(&changed) {
        return Err(withheld(unusable(&format!("the result has no list `{list}`"))));
    }
    operation.changes.result = match answer.cut() {
        None => ServiceChanges::places(&answer, &changed),
        Some(_) => ServiceChanges::places(&answer.clone().into_value(), &changed),
    };
    if operation.changes.result.is_empty() {
        return Ok(answer);
    }
    log_changes(operation);
    Ok(changed.into())
}

async fn ask(operation: &Operation, result: Option<&Payload>) -> Result<Option<Value>, String> {
    let in_force = operation.shared.policy.in_force();
    let Some(service) = &in_force.service else { return Ok(None) };
    let full = operation.full_name();
    let span = tracing::info_span!(target: "mcpdeck::policy", "policy service", tool = full);
    let subject = HookSubject {
        target: (operation.policy_target(None).kind, &full),
        arguments: operation.arguments().map(|arguments| &**arguments),
        result,
    };
    let principal = operation.options.principal();
    service.passes(&principal, subject).instrument(span).await
}

fn log_changes(operation: &Operation) {
    tracing::info!(
        target: "mcpdeck::policy", action = "changed by the policy service",
        server = %operation.slot.name, request_id = operation.id.0,
        principal = %operation.options.principal(), "{:?}: {}", operation.full_name(),
        operation.changes.words()
    );
}

/// The error of a change that cannot be taken over.
fn unusable(why: &str) -> Error {
    let message = format!("Compliance Blocked: as the policy service changed it, {why}");
    Error::new(ErrorCode::PolicyBlocked, message).help("ask the policy service's operator")
}
