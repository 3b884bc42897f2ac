//! What an audit log is told: every operation of a caller before it is sent and when it ends, and
//! every one that the policy refuses. Accesses no files: the deck writes them.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::future::BoxFuture;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::changes::ServiceChanges;
use super::principal::{PolicyAction, Principal};
use base::file::hex;
use base::{SafeText, Timestamp};
use config::error::{Denial, Error, ErrorCode};
use config::is_secret;
use protocol::{CallId, Payload};

/// Keeps the events of an audit log.
pub trait AuditSink: Send + Sync + 'static {
    /// Keeps an event: it is in the log when this returns.
    ///
    /// # Errors
    /// Why it could not be kept.
    fn write(&self, event: &AuditEvent) -> Result<(), String>;

    /// Waits for what has to be done before the program ends. Bounded.
    fn flush(&self) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What an event of an audit log tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AuditKind {
    /// An operation was permitted, and is about to be sent to its server.
    #[default]
    Call,
    /// An operation ended: with a result, with an error, or because it was not permitted.
    End,
    /// The policy refused an operation before anything else was looked at.
    Refused,
}

/// One event of an audit log. Arguments and results are in it as hashes alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEvent {
    /// What it tells.
    pub event: AuditKind,
    /// When, by RFC 3339.
    pub at: String,
    /// The number of the operation within its host; the same in `call` and `end`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<u64>,
    /// The origin of the caller: `gateway:ID`, `cli`.
    pub caller: String,
    /// Its profile.
    pub profile: String,
    /// Its tab or session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The run that it named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// Its span (W3C `traceparent`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// What was asked: `tools/call`, `resources/read`.
    pub action: String,
    /// Of what: `server.tool`, or a URI. Of a refused one, as the caller spelled it.
    pub target: String,
    /// Whether the policy permitted it.
    pub allowed: bool,
    /// Which rule, grant or limit decided.
    pub rule: String,
    /// How it ended: `ok`, `toolError`, or the code of an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Milliseconds from the call to its end, without the wait for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<f64>,
    /// Milliseconds of waiting for a person.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<f64>,
    /// What the policy service changed; the hashes are of what was sent and given then.
    #[serde(skip_serializing_if = "ServiceChanges::is_empty")]
    pub changed: ServiceChanges,
    /// SHA-256 of the arguments: compact JSON with sorted keys (`jq -cjS`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// SHA-256 of the result, likewise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// Longest text of an event that a caller chooses, in characters.
const MAX_AUDIT_TEXT_CHARS: usize = 300;

impl AuditEvent {
    /// An event about an operation of a caller.
    pub fn new(event: AuditKind, at: Timestamp, principal: &Principal) -> Self {
        Self {
            event,
            at: at.to_rfc3339(),
            caller: bounded(&principal.origin.to_string()),
            profile: bounded(&principal.profile),
            session: principal.session.as_deref().map(bounded),
            ..Self::default()
        }
    }

    /// The event of a request that the policy refuses.
    pub(super) fn refused(
        at: Timestamp,
        principal: &Principal,
        (action, asked): (PolicyAction, &str),
        why: &str,
    ) -> Self {
        Self {
            action: action.method().to_owned(),
            target: bounded(asked),
            rule: bounded(why),
            ..Self::new(AuditKind::Refused, at, principal)
        }
    }

    /// Sets the operation.
    #[must_use]
    pub(crate) fn of_call(mut self, call: CallId, action: &str, target: &str) -> Self {
        self.call = Some(call.0);
        (self.action, self.target) = (bounded(action), bounded(target));
        self
    }

    /// Sets the run and the span that the caller names.
    #[must_use]
    pub(crate) fn of_run(mut self, run: Option<&str>, trace: Option<&str>) -> Self {
        (self.run, self.trace) = (run.map(bounded), trace.map(bounded));
        self
    }

    /// Sets what decided.
    #[must_use]
    pub(crate) fn decided(mut self, allowed: bool, rule: &str) -> Self {
        (self.allowed, self.rule) = (allowed, bounded(rule));
        self
    }

    /// Sets how long it took, with the wait for a person apart.
    pub(crate) fn took(&mut self, took: Duration, waited: Duration) {
        let millis = |span: Duration| (span.as_secs_f64() * 1e6).round() / 1e3;
        self.duration_ms = Some(millis(took));
        self.waited_ms = (!waited.is_zero()).then(|| millis(waited));
    }
}

/// Text of a caller without what it could hide in it, cut to what a line may hold.
pub(crate) fn bounded(text: &str) -> String {
    SafeText::cut(text, MAX_AUDIT_TEXT_CHARS).to_string()
}

/// The hash of a JSON value in an audit log: of its compact form with sorted keys.
pub(crate) fn hash_of_value(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    hex(&Sha256::digest(value.to_string()))
}

/// The hash of a result; of its text as it came, when it is too large to be read as a whole.
pub(crate) fn hash_of_result(result: &Payload) -> String {
    match result.whole() {
        Some(text) => hex(&Sha256::digest(text)),
        None => hash_of_value(result),
    }
}

/// The error of an operation that cannot be audited.
pub(crate) fn not_audited(why: &str) -> Error {
    let message =
        "every call has to be audited, and the audit log cannot be written: nothing was sent";
    Error::new(ErrorCode::PermissionDenied, message).help(why.to_owned())
}

/// Whether an error says that the operation was not permitted; `is_sent`: it had been.
pub(crate) fn is_refusal(error: &Error, is_sent: bool) -> bool {
    match error.code {
        ErrorCode::PolicyBlocked | ErrorCode::PermissionDenied | ErrorCode::BudgetExceeded => true,
        // Otherwise it is the server's.
        ErrorCode::RateLimited => !is_sent,
        ErrorCode::Validation => error.denial == Some(Denial::Size),
        _ => false,
    }
}

/// The audit log of a policy: who called what, whether it was permitted and by which rule, when, for
/// how long, with hashes of arguments and results. A call that cannot be written is not made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditConfig {
    /// The file, JSON lines; relative to the file of the policy, `~/` is your home folder. Without
    /// it, one in the state folder, which `mcpdeck audit show` names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Size in bytes at which it is set aside under the number of its last event, and the next one
    /// begun (default 16 MiB, at least 64 KiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// How many of the files that were set aside are kept (default: all).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep: Option<u32>,
    /// The address of an OpenTelemetry collector (`http://127.0.0.1:4318`) that is sent each line too,
    /// as a log record (OTLP over HTTP, JSON); `${env:OTEL_EXPORTER_OTLP_ENDPOINT}` is that of the
    /// environment. No call waits for it: up to 4096 events wait while it
    /// is away, and further ones are in the file alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub otlp: Option<String>,
    /// Headers for the collector, such as `"Authorization": "Bearer ${secret:collector}"`; they go
    /// before those of `OTEL_EXPORTER_OTLP_HEADERS`. A secret is written as a reference.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub otlp_headers: BTreeMap<String, String>,
}

impl AuditConfig {
    /// Size at which a file is set aside, by default.
    const DEFAULT_FILE_BYTES: u64 = 16 << 20;
    /// Smallest such size.
    const MIN_FILE_BYTES: u64 = 64 << 10;

    /// Size at which a file is set aside.
    pub fn max_bytes(&self) -> u64 {
        self.max_bytes.unwrap_or(Self::DEFAULT_FILE_BYTES)
    }

    /// What is wrong with it.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        if self.file.as_ref().is_some_and(|file| file.trim().is_empty()) {
            out.push("policy/audit/file: a path is expected".to_owned());
        }
        if self.max_bytes.is_some_and(|bytes| bytes < Self::MIN_FILE_BYTES) {
            let least = Self::MIN_FILE_BYTES;
            out.push(format!("policy/audit/maxBytes: at least {least} bytes are expected"));
        }
        let is_address =
            |text: &String| ["http://", "https://", "${"].iter().any(|it| text.starts_with(it));
        if self.otlp.as_ref().is_some_and(|text| !is_address(text)) {
            out.push("policy/audit/otlp: the address of a collector is expected".to_owned());
        }
        for (name, value) in &self.otlp_headers {
            if is_secret(name, value) && !value.contains("${") {
                out.push(format!(
                    "policy/audit/otlpHeaders/{name}: write where the secret is kept: ${{env:NAME}}, \
                     ${{secret:NAME}} or ${{keyring:NAME}}"
                ));
            }
        }
        if self.otlp.is_none() && !self.otlp_headers.is_empty() {
            out.push("policy/audit/otlpHeaders: `otlp` is missing".to_owned());
        }
        out
    }
}
