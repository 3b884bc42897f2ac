//! Checks of arguments before they are sent, and of structured results.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Flight, Operation};
use crate::approvals::queue::{decide, own_request};
use crate::approvals::{Asker, ConsentReach};
use crate::call::Validation;
use crate::guard;
use crate::server::slot::Live;
use crate::validators::{check, schema_limits};
use base::human::count;
use base::pointer::child_pointer;
use config::GuardMode;
use config::error::{Error, ErrorCode, Violation};
use mcp::Request;
use protocol::{Answer, Payload, Prompt, RequestKind, ServerRequest, Tool};
use schema::SchemaVerdict;

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
            SchemaVerdict::Invalid(violations) => Some(refused(violations)),
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
        Err(Error::new(ErrorCode::PolicyBlocked, "suspicious arguments were not sent")
            .help("change them, or the `guard` of the entry")
            .violations(warnings))
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
