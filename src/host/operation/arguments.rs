//! Checks of arguments before they are sent, and of structured results; what the policy service says of
//! both.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tracing::Instrument as _;

use super::{Flight, Operation};
use crate::approvals::queue::{decide, own_request};
use crate::approvals::{Asker, ConsentReach};
use crate::call::Validation;
use crate::guard;
use crate::policy::{HookSubject, PolicyHook, ServiceChanges};
use crate::server::slot::Live;
use crate::validators::{check, schema_limits};
use base::SafeText;
use base::human::count;
use base::pointer::child_pointer;
use base::text::json::WrittenNumbers;
use config::GuardMode;
use config::error::{Denial, Error, ErrorCode, Violation};
use mcp::Request;
use protocol::{
    Answer, Direction, MessageKind, Payload, Prompt, RequestKind, ServerRequest, Tool,
    TrafficRecord, every_difference,
};
use schema::{SchemaVerdict, quote_as_written};

/// Arguments that may be sent.
#[derive(Default)]
pub(super) struct CheckedArguments {
    pub(super) warnings: Vec<Violation>,
    /// Whether they are sent although they violate the schema.
    pub(super) forced: bool,
}

impl Operation {
    /// Checks the arguments of a tool or prompt, before anything is sent.
    pub(super) async fn check_arguments(
        &mut self,
        live: &Live,
        tool: Option<&Arc<Tool>>,
        flight: &Flight,
    ) -> Result<CheckedArguments, Error> {
        if let Request::CallTool { arguments, .. } = &mut self.request
            && arguments.is_null()
        {
            *arguments = Arc::new(Value::Object(Map::new()));
        }
        let (arguments, problem) = match (tool, &self.request) {
            (_, Request::CallTool { arguments, .. } | Request::GetPrompt { arguments, .. })
                if self.options.validation == Validation::Skip =>
            {
                (arguments, None)
            }
            (Some(tool), Request::CallTool { arguments, .. }) => {
                (arguments, self.against_schema(live, tool, arguments).await)
            }
            (None, Request::GetPrompt { name, arguments }) => {
                let prompt = live.capabilities.prompts.iter().find(|prompt| prompt.name == *name);
                (arguments, prompt.and_then(|prompt| against_prompt(prompt, arguments)))
            }
            _ => return Ok(CheckedArguments::default()),
        };
        let forced = problem.is_some();
        if let Some(error) = problem
            && self.options.validation == Validation::Enforce
        {
            return Err(error);
        }
        let warnings = self.guard(live, arguments, flight).await?;
        Ok(CheckedArguments { warnings, forced })
    }

    async fn against_schema(
        &self,
        live: &Live,
        tool: &Arc<Tool>,
        arguments: &Value,
    ) -> Option<Error> {
        if !arguments.is_object() {
            let message = "the arguments of a tool are an object".to_owned();
            return Some(refused(vec![violation("", message, "type")]));
        }
        let limits = schema_limits(&live.config.content);
        match self.shared.validators.check_input(&tool.input_schema, limits, arguments).await {
            SchemaVerdict::Valid => None,
            SchemaVerdict::Invalid(mut violations) => {
                if let Some(numbers) = &self.options.numbers {
                    quote_as_written(&mut violations, arguments, numbers);
                }
                Some(refused(violations))
            }
            SchemaVerdict::Unknown(why) => {
                let message = format!("the arguments could not be checked: {why}");
                let help = "call it unvalidated on purpose, or have the server's schema fixed";
                Some(Error::new(ErrorCode::Validation, message).help(help))
            }
        }
    }

    /// Detects suspicious strings and applies the guard mode of the entry.
    async fn guard(
        &self,
        live: &Live,
        arguments: &Value,
        flight: &Flight,
    ) -> Result<Vec<Violation>, Error> {
        let policy = &live.config.guard;
        let mode = policy.tools.get(&*self.target).copied().unwrap_or(policy.default);
        if mode == GuardMode::Off || !matches!(self.request, Request::CallTool { .. }) {
            return Ok(Vec::new());
        }
        let warnings = guard::inspect(arguments, &self.shared.approvals.roots(&self.slot.name));
        if warnings.is_empty() {
            return Ok(warnings);
        }
        for warning in &warnings {
            tracing::warn!(
                target: "mcpdeck::guard", server = %self.slot.name, request_id = self.id.0,
                action = "suspicious argument", pointer = warning.pointer, "{}", warning.message
            );
        }
        let allowed = match mode {
            GuardMode::Off | GuardMode::Warn => true,
            GuardMode::Deny => false,
            GuardMode::Ask => {
                let params = json!({
                    "tool": &*self.target, "arguments": arguments, "violations": warnings,
                });
                let asker = self.options.asker.clone().filter(|_| self.has_own_user());
                let consent = self.consent(RequestKind::Guard, params, (flight, asker));
                Box::pin(consent).await?.is_ok()
            }
        };
        if allowed {
            return Ok(warnings);
        }
        let mut error = Error::new(ErrorCode::PolicyBlocked, "suspicious arguments were not sent")
            .help("change them, or the `guard` of the entry")
            .violations(warnings);
        error.denial = Some(Denial::Suspicious);
        Err(error)
    }

    /// Asks the user for consent; returns how far it reaches.
    ///
    /// # Errors
    /// When the caller has cancelled. The inner error is a refusal: `None` by the user, or the
    /// reason when there was no decision (no user present, or a timeout).
    pub(super) async fn consent(
        &self,
        kind: RequestKind,
        params: Value,
        (flight, asker): (&Flight, Option<Asker>),
    ) -> Result<Result<ConsentReach, Option<String>>, Error> {
        let _held = flight.pending().hold();
        let request = own_request(self.slot.name.clone(), kind, params);
        let request = ServerRequest { call: Some(self.id), ..request };
        let asked = decide(Arc::clone(&self.shared.approvals), request, asker);
        // Dropping the future withdraws the request.
        Ok(match self.unless_cancelled(asked).await? {
            Answer::Result(result) if result["action"] == "accept" => {
                let reach = result["for"].as_str().and_then(|word| word.parse().ok());
                Ok(reach.unwrap_or_default())
            }
            Answer::Result(_) => Err(None),
            Answer::Refuse { message, .. } => Err(Some(message)),
        })
    }

    // Checks of structured results against `outputSchema`.

    /// The places where `structuredContent` violates `outputSchema`.
    pub(super) async fn check_output(
        &self,
        live: &Live,
        tool: &Tool,
        result: &Payload,
    ) -> Vec<Violation> {
        let Some(schema) = &tool.output_schema else { return Vec::new() };
        let whole = |message: String, keyword: &str| vec![violation("", message, keyword)];
        let content = result.get("structuredContent");
        let cut = result.cut();
        if cut.is_some_and(|cut| content.is_none() || cut.of_structured().is_some()) {
            return whole("too large to be checked".to_owned(), "unknown");
        }
        let Some(content) = content else {
            let message = "no `structuredContent`, although the tool has an `outputSchema`";
            return whole(message.to_owned(), "required");
        };
        let limits = schema_limits(&live.config.content);
        let validator = self.shared.validators.get(schema, limits).await;
        let validator = match validator.as_ref() {
            Err(problem) => {
                return whole(format!("`outputSchema` is unusable: {problem}"), "schema");
            }
            Ok(validator) => validator,
        };
        match check(validator, content).await {
            SchemaVerdict::Valid => Vec::new(),
            SchemaVerdict::Invalid(violations) => violations,
            SchemaVerdict::Unknown(why) => whole(why, "unknown"),
        }
    }
}

fn refused(violations: Vec<Violation>) -> Error {
    let places = count(violations.len(), "place");
    let message = format!("the arguments do not fit the schema in {places}; nothing was sent");
    Error::new(ErrorCode::Validation, message).violations(violations)
}

/// Checks prompt arguments, which are named strings (MCP, server features, prompts).
fn against_prompt(prompt: &Prompt, arguments: &Value) -> Option<Error> {
    let Some(given) = arguments.as_object() else {
        let message = "the arguments of a prompt are an object".to_owned();
        return Some(refused(vec![violation("", message, "type")]));
    };
    let mut violations = Vec::new();
    for argument in prompt.arguments.iter().filter(|argument| argument.required) {
        if !given.contains_key(&*argument.name) {
            let message = format!("`{}` is required", argument.label);
            violations.push(violation("", message, "required"));
        }
    }
    for (name, value) in given {
        let pointer = child_pointer("", name);
        if !value.is_string() {
            let message = "arguments of prompts are strings".to_owned();
            violations.push(violation(&pointer, message, "type"));
        } else if !prompt.arguments.iter().any(|argument| *argument.name == **name) {
            let message = "the prompt has no such argument".to_owned();
            violations.push(violation(&pointer, message, "additionalProperties"));
        }
    }
    (!violations.is_empty()).then(|| refused(violations))
}

fn violation(pointer: &str, message: String, keyword: &str) -> Violation {
    Violation { pointer: pointer.to_owned(), message, keyword: keyword.to_owned() }
}

// The policy service.

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
        let mut left = WrittenNumbers::clone(numbers);
        for change in every_difference(&before, &changed) {
            left.put(&change.pointer, WrittenNumbers::default());
        }
        *numbers = Arc::new(left);
    }
    if let Request::CallTool { arguments, .. } | Request::GetPrompt { arguments, .. } =
        &mut operation.request
    {
        *arguments = Arc::new(changed);
    }
    let only = ServiceChanges { arguments: places, ..ServiceChanges::default() };
    operation.changes.arguments.clone_from(&only.arguments);
    // What a person may send although it does not fit, the service may not.
    let own = std::mem::replace(&mut operation.options.validation, Validation::Enforce);
    let checked = operation.check_arguments(live, tool, flight).await;
    operation.options.validation = own;
    checked.map_err(|error| unusable(&error.message).violations(error.violations.clone()))?;
    tell_changes(operation, &only);
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
    let only = ServiceChanges { arguments: Vec::new(), ..operation.changes.clone() };
    tell_changes(operation, &only);
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

/// Logs what the policy service changed, and marks it in the traffic among the messages of the call:
/// what was changed and where, not from what to what.
fn tell_changes(operation: &Operation, changes: &ServiceChanges) {
    let Operation { shared, slot, .. } = operation;
    let (full, words) = (operation.full_name(), changes.words());
    tracing::info!(
        target: "mcpdeck::policy", action = "changed by the policy service",
        server = %slot.name, request_id = operation.id.0,
        principal = %operation.options.principal(), "{full:?}: {words}"
    );
    let body = json!({"target": full, "changed": changes}).to_string();
    let record = Arc::new(TrafficRecord {
        at: shared.clock.now(),
        server: slot.name.clone(),
        // From here; what is played from a recording is what came.
        direction: Direction::Out,
        kind: MessageKind::Notification,
        method: Some(SafeText::line("policy service")),
        target: Some(SafeText::line(&format!("changed {words}"))),
        id: None,
        call: Some(operation.id),
        bytes: 0,
        latency: None,
        queued: None,
        body: body.into(),
        cut: false,
        problem: None,
        tolerated: false,
    });
    slot.black_box().push(Arc::clone(&record));
    shared.traffic.push(record);
}

/// The error of a change that cannot be taken over.
fn unusable(why: &str) -> Error {
    let message = format!("Compliance Blocked: as the policy service changed it, {why}");
    Error::new(ErrorCode::PolicyBlocked, message).help("ask the policy service's operator")
}
