//! The `host_*` messages of browser extensions: grants of pages and tabs,
//! tools, runs, statistics. Each page is a separate caller (`browser:ORIGIN`), limited to what
//! was granted to it.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::Local;
use crate::stats::host_stats;
use base::text::json::{WrittenNumbers, WrittenValue};
use host::{
    AccessScope, CallOptions, DEFAULT_PROFILE, Grant, GrantId, GrantKind, Host, NewGrant, Origin,
    OutsideCode, OutsideError, PolicyAction, Principal, RunId, TargetKind, canonical_name,
};

/// The messages an extension may send.
pub const NATIVE_MESSAGES: [&str; 11] = [
    "host_grant_permission",
    "host_revoke_permission",
    "host_check_permission",
    "host_get_permissions",
    "host_expire_tab_grants",
    "host_list_tools",
    "host_call_tool",
    "host_begin_run",
    "host_get_run",
    "host_end_run",
    "host_get_stats",
];
/// How long an `ALLOW_ONCE` without a tab and an expiry lasts.
const GRANT_LIFETIME: Duration = Duration::from_secs(600);
/// Longest deadline that may be requested.
const MAX_REQUEST_TIMEOUT: Duration = Duration::from_secs(600);

/// The fields of all messages.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NativeMessage {
    #[serde(rename = "type")]
    _kind: String,
    #[serde(rename = "request_id")]
    _id: Value,
    origin: String,
    profile: Option<String>,
    tab_id: Option<u64>,
    scope: Option<AccessScope>,
    scopes: Vec<AccessScope>,
    grant_type: String,
    expires_in: Option<f64>,
    allowed_tools: Vec<String>,
    grant_id: Option<GrantId>,
    tool: String,
    arguments: Option<serde_json::Map<String, Value>>,
    /// Numbers of the arguments that a value cannot hold.
    #[serde(skip)]
    numbers: Option<Arc<WrittenNumbers>>,
    timeout: Option<f64>,
    #[serde(alias = "runId")]
    run_id: Option<RunId>,
    calls: Option<u32>,
}

type NativeReply = Result<WrittenValue, OutsideError>;

/// Answers a message: `TYPE_result` with the result, or `error` with its code. Both carry the
/// `request_id`.
pub(super) async fn reply(local: &Local, kind: &str, request: &WrittenValue) -> WrittenValue {
    let done = match NativeMessage::deserialize(&request.value) {
        Ok(message) => {
            let numbers = request.numbers.below("/arguments");
            let numbers = (!numbers.is_empty()).then(|| Arc::new(numbers));
            answer(local, kind, NativeMessage { numbers, ..message }).await
        }
        Err(error) => Err(refused(&error.to_string())),
    };
    let mut reply = match done {
        Ok(mut done) => {
            done.insert("type", format!("{kind}_result").into());
            done
        }
        Err(error) => json!({"type": "error", "error": error}).into(),
    };
    reply.insert_written("request_id", request.part("/request_id"));
    reply
}

fn refused(message: &str) -> OutsideError {
    let (code, message) = (OutsideCode::ProtocolError, message.to_owned());
    OutsideError { code, message, retry_after_ms: None, violations: vec![], rpc: None }
}

/// Parses a time in seconds.
fn seconds(key: &str, value: Option<f64>) -> Result<Option<Duration>, String> {
    let wrong = |_| format!("`{key}` is not a number of seconds");
    value.map(Duration::try_from_secs_f64).transpose().map_err(wrong)
}

async fn answer(local: &Local, kind: &str, message: NativeMessage) -> NativeReply {
    let Local { host, policy, .. } = local;
    let failed = |why: String| OutsideError { code: OutsideCode::Internal, ..refused(&why) };
    let tab = message.tab_id.map(|tab| format!("tab:{tab}"));
    match kind {
        "host_expire_tab_grants" => {
            let tab = tab.ok_or_else(|| refused("`tab_id` is missing"))?;
            return Ok(json!({"expired": policy.expire_session(&tab)}).into());
        }
        "host_get_stats" => {
            let mut stats = host_stats(host, &local.clients);
            stats["grants"] = policy.grants().len().into();
            return Ok(stats.into());
        }
        kind if !NATIVE_MESSAGES.contains(&kind) => {
            return Err(refused(&format!("`{kind}` is not one of {}", NATIVE_MESSAGES.join(", "))));
        }
        _ => {}
    }
    let page = url::Url::parse(&message.origin).ok().filter(|page| {
        ["http", "https"].contains(&page.scheme())
            && page.origin().ascii_serialization() == message.origin
    });
    if page.is_none() {
        return Err(refused("`origin` must be that of a page, such as https://example.com"));
    }
    let profile: Arc<str> = message.profile.as_deref().unwrap_or(DEFAULT_PROFILE).into();
    let principal = Principal {
        session: tab.as_deref().map(Into::into),
        ..Principal::new(Origin::Browser(message.origin.as_str().into()))
    };
    let principal = principal.with_profile(Arc::clone(&profile));
    let origin = principal.origin.to_string();
    let own = |grant: &Grant| grant.origin == origin && *grant.profile == *profile;
    let scopes = message.scope.into_iter().chain(message.scopes.iter().copied());
    match kind {
        "host_grant_permission" => {
            let now = host.clock().now();
            let until = seconds("expires_in", message.expires_in).map_err(|why| refused(&why))?;
            let until =
                until.or_else(|| tab.is_none().then_some(GRANT_LIFETIME)).map(|s| now.plus(s));
            let effect = match message.grant_type.as_str() {
                "ALLOW_ONCE" => GrantKind::Once { until, session: principal.session },
                "ALLOW_ALWAYS" => GrantKind::Always,
                "DENY" => GrantKind::Deny,
                _ => return Err(refused("`grant_type` is ALLOW_ONCE, ALLOW_ALWAYS or DENY")),
            };
            let scopes: std::collections::BTreeSet<AccessScope> = scopes.collect();
            if scopes.is_empty() {
                return Err(refused("`scope` or `scopes` is missing"));
            }
            let allowed_tools = message.allowed_tools;
            let profile = profile.to_string();
            let new = NewGrant { origin, profile, scopes, allowed_tools, kind: effect };
            let policy = policy.clone();
            let grant = tokio::task::spawn_blocking(move || policy.grant(new)).await;
            let grant = grant.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
            let unmatched = local.policy.unmatched(&grant.allowed_tools);
            let unmatched = unmatched.iter().map(ToString::to_string);
            let warnings: Vec<_> = grant.flaws().into_iter().chain(unmatched).collect();
            Ok(json!({ "grant": grant, "warnings": warnings }).into())
        }
        "host_revoke_permission" => {
            let asked: Vec<AccessScope> = scopes.collect();
            let is_meant = |grant: &&Grant| {
                own(grant)
                    && message.grant_id.is_none_or(|id| id == grant.id)
                    && (asked.is_empty() || asked.iter().any(|scope| grant.scopes.contains(scope)))
            };
            let mut revoked = 0;
            for grant in policy.grants().iter().filter(is_meant) {
                revoked += usize::from(policy.revoke(grant.id).map_err(failed)?.is_some());
            }
            Ok(json!({ "revoked": revoked }).into())
        }
        "host_get_permissions" => {
            let grants: Vec<Grant> = policy.grants().into_iter().filter(own).collect();
            Ok(json!({ "grants": grants }).into())
        }
        "host_check_permission" => {
            let scope = message.scope.ok_or_else(|| refused("`scope` is missing"))?;
            Ok(json!({"granted": is_granted(host, &principal, scope, &message.tool)}).into())
        }
        "host_list_tools" => {
            let mut done = WrittenValue::from(json!({}));
            done.insert_written("tools", listed(host, &principal));
            Ok(done)
        }
        "host_begin_run" | "host_get_run" | "host_end_run" => {
            run(host, kind, &principal, message).await
        }
        _ => call(local, &principal, message).await,
    }
}

/// The tools that a page may call.
fn listed(host: &Host, principal: &Principal) -> WrittenValue {
    let tools = host.offers(principal).into_iter().flat_map(|(server, all)| {
        let tool = |tool: &Arc<protocol::Tool>| {
            let name = canonical_name(&server, &tool.name);
            let mut entry = WrittenValue::from(json!({"name": name, "server": server}));
            entry.insert_written("definition", WrittenValue::clone(&tool.raw));
            entry
        };
        all.tools.iter().map(tool).collect::<Vec<_>>()
    });
    tools.collect()
}

/// Begins a run of a page, tells what is left of it, or ends it.
async fn run(
    host: &Host,
    kind: &str,
    principal: &Principal,
    message: NativeMessage,
) -> NativeReply {
    let run = match message.run_id {
        Some(run) => run,
        None if kind == "host_begin_run" => {
            let failed = |error: std::io::Error| {
                let (code, message) = (OutsideCode::Internal, error.to_string());
                Box::new(OutsideError { code, ..refused(&message) })
            };
            RunId::random().map_err(failed).map_err(|error| *error)?
        }
        None => return Err(refused("`run_id` is missing")),
    };
    let budget = match kind {
        "host_begin_run" => host
            .begin_run(principal, run.as_str(), message.calls)
            .map_err(|error| OutsideError::from_error(&error))?,
        "host_end_run" => host.end_run(principal, run.as_str()),
        _ => host.run_budget(principal, run.as_str()),
    };
    Ok(run.with(principal, budget).into())
}

/// Whether a scope is granted for a tool; if `tool` is empty, for any tool.
fn is_granted(host: &Host, principal: &Principal, scope: AccessScope, tool: &str) -> bool {
    let (action, kind) = match scope {
        AccessScope::ToolsList => (PolicyAction::List, TargetKind::Tool),
        AccessScope::ToolsCall => (PolicyAction::Call, TargetKind::Tool),
        AccessScope::ServerConnect => (PolicyAction::Connect, TargetKind::Server),
        AccessScope::ResourcesRead => (PolicyAction::Read, TargetKind::Resource),
        AccessScope::PromptsGet => (PolicyAction::Prompt, TargetKind::Prompt),
        AccessScope::ActiveTabRead => (PolicyAction::ReadTab, TargetKind::Server),
    };
    let view = host.snapshot();
    let asked = host.resolve_tool_name(tool).ok();
    view.servers.values().any(|server| {
        let tools = server.capabilities.tools.iter().map(|tool| &*tool.name);
        let wanted = |name: &&str| match &asked {
            None => tool.is_empty(),
            Some((of, asked)) => *of == server.name && **asked == **name,
        };
        let may = |name| host.may(principal, action, &server.name, (kind, name));
        match kind {
            TargetKind::Tool => tools.filter(wanted).any(may),
            _ => may(""),
        }
    })
}

async fn call(local: &Local, principal: &Principal, message: NativeMessage) -> NativeReply {
    let Local { host, clients, .. } = local;
    let timeout = seconds("timeout", message.timeout).map_err(|why| refused(&why))?;
    let options = CallOptions {
        timeout: timeout.map(|timeout| timeout.min(MAX_REQUEST_TIMEOUT)),
        cancel: clients.seen(principal, host.clock().now()).child_token(),
        origin: principal.origin.clone(),
        profile: Some(Arc::clone(&principal.profile)),
        session: principal.session.clone(),
        run: message.run_id.clone().map(RunId::into_name),
        numbers: message.numbers,
        ..CallOptions::default()
    };
    let cancel = options.cancel.clone();
    let arguments = Value::Object(message.arguments.unwrap_or_default());
    let call = Box::pin(host.call_tool_with(&message.tool, arguments, options));
    let outcome = clients.call(principal, &message.tool, &cancel, call).await;
    let outcome = outcome.map_err(|error| OutsideError::from_error(&error))?;
    let mut reply = WrittenValue::from(json!({"result": null, "provenance": outcome.provenance()}));
    reply.insert_written("result", outcome.result.into_written());
    Ok(reply)
}

/// The JSON Schema of the messages.
pub fn native_schema() -> Value {
    serde_json::from_str(include_str!("native.schema.json")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_has_the_messages_and_the_fields_that_are_read() {
        let schema = native_schema();
        assert_eq!(schema["properties"]["type"]["enum"], json!(NATIVE_MESSAGES));
        let fields = schema["properties"].as_object().expect("fields");
        let unknown = NativeMessage::deserialize(&json!({"no such field": 1})).err();
        let unknown = unknown.map(|error| error.to_string()).unwrap_or_default();
        let (_, listed) = unknown.split_once("expected one of ").expect("a list of fields");
        let mut read: Vec<&str> = listed.split(", ").map(|name| name.trim_matches('`')).collect();
        let mut documented: Vec<&str> = fields.keys().map(String::as_str).collect();
        read.sort_unstable();
        documented.sort_unstable();
        assert_eq!(documented, read);
    }
}
