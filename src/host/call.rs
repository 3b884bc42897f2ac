//! One operation of a caller: its options, its view and its outcome.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::approvals::Asker;
use crate::policy::{CountedRun, DEFAULT_PROFILE, Principal, ServiceChanges};
use crate::server::persons::CallerIdentity;
use base::human::millis;
use base::text::json::WrittenNumbers;
use base::{SafeText, ServerName, Timestamp};
use config::RetryConfig;
use config::error::Violation;
use protocol::{CallId, CallerMeta, Finding, Payload, Progress};

/// The origin of a call; permissions and limits depend on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Origin {
    /// The program that embeds the library.
    #[default]
    Library,
    /// The user of the dashboard.
    Dashboard,
    /// The headless check.
    Check,
    /// A command-line verb.
    Cli,
    /// A client of the gateway, by the id of its token.
    Gateway(Arc<str>),
    /// A web page, by its origin (`https://example.com`).
    Browser(Arc<str>),
    /// The model of a chat, by the caller it works for: `cli`, `dashboard`, `gateway:ID`.
    Chat(Arc<str>),
    /// The page of a tool (MCP Apps), by the server that it is from.
    App(Arc<str>),
}

impl Origin {
    /// The id of the operator's own token at the gateway.
    pub const OWNER: &str = "owner";

    /// Whether the user makes the call, directly or with the operator's token.
    pub fn is_person(&self) -> bool {
        match self {
            Self::Library | Self::Dashboard | Self::Check | Self::Cli => true,
            Self::Gateway(id) => **id == *Self::OWNER,
            Self::Browser(_) | Self::Chat(_) | Self::App(_) => false,
        }
    }

    /// Whether the call comes with the operator's own token.
    pub fn is_owner_token(&self) -> bool {
        matches!(self, Self::Gateway(id) if **id == *Self::OWNER)
    }

    /// Its kind, and its id for kinds with several instances.
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Library => ("library", None),
            Self::Dashboard => ("dashboard", None),
            Self::Check => ("check", None),
            Self::Cli => ("cli", None),
            Self::Gateway(id) => ("gateway", Some(id)),
            Self::Browser(id) => ("browser", Some(id)),
            Self::Chat(id) => ("chat", Some(id)),
            Self::App(id) => ("app", Some(id)),
        }
    }

    /// Parses the [`fmt::Display`] form.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "library" => Self::Library,
            "dashboard" => Self::Dashboard,
            "check" => Self::Check,
            "cli" => Self::Cli,
            _ => match text.split_once(':')? {
                (_, "") => return None,
                ("gateway", id) => Self::Gateway(id.into()),
                ("browser", id) => Self::Browser(id.into()),
                ("chat", id) => Self::Chat(id.into()),
                ("app", id) => Self::App(id.into()),
                _ => return None,
            },
        })
    }
}

/// `cli`, `gateway:ID`: the spelling in files and on the command line.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            (kind, Some(id)) => write!(f, "{kind}:{id}"),
            (kind, None) => f.write_str(kind),
        }
    }
}

/// Whether arguments must match the schema before they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Validation {
    /// Reject arguments that violate the schema.
    #[default]
    Enforce,
    /// Send them anyway, to test the server; the outcome is marked `forced`.
    Force,
    /// Send them without comparing them with the schema: for a caller that knows how they relate to
    /// it. The outcome is never marked.
    Skip,
}

/// Options of one call. Defaults come from the server's configuration.
///
/// Begin with [`CallOptions::default`] and add what differs, with the methods below or with struct
/// update syntax: options are added in later versions.
///
/// ```
/// use std::time::Duration;
///
/// use mcpdeck_host::CallOptions;
///
/// let options = CallOptions::default().with_timeout(Duration::from_secs(5)).forced();
/// let fresh = CallOptions { bypass_cache: true, ..options };
/// assert_eq!(fresh.timeout, Some(Duration::from_secs(5)));
/// ```
#[derive(Clone, Debug)]
pub struct CallOptions {
    /// Overrides the server's `timeout`. Progress extends the deadline; waiting for the user
    /// suspends it.
    pub timeout: Option<Duration>,
    /// Cancels the call; the server receives `notifications/cancelled`.
    pub cancel: CancellationToken,
    /// Receives progress. Overflow policy: the newest is dropped when the channel is full.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Overrides the server's `retry`, for calls that may be retried.
    pub retry: Option<RetryConfig>,
    /// Do not answer from the cache.
    pub bypass_cache: bool,
    /// The origin of the call.
    pub origin: Origin,
    /// The caller's profile; `None` means [`crate::policy::DEFAULT_PROFILE`]. A named one
    /// binds the user too.
    pub profile: Option<Arc<str>>,
    /// The caller's tab or session; grants may be limited to it.
    pub session: Option<Arc<str>>,
    /// The run the call belongs to: its calls share a budget and the record of what was read.
    /// Without one, a run is the session until it is idle for five minutes.
    pub run: Option<Arc<str>>,
    /// Whether schema violations reject the call.
    pub validation: Validation,
    /// Restricts name resolution to this server (`server=`).
    pub server: Option<ServerName>,
    /// The caller's span (W3C `traceparent`), passed to the server in `_meta`.
    pub trace: Option<Arc<str>>,
    /// What the caller put into `_meta` for the server; keys of the connection itself are left out
    /// ([`protocol::vendor_meta`]).
    pub meta: Option<Arc<CallerMeta>>,
    /// Numbers of the arguments (of the parameters, in [`crate::Host::request`]) that are sent as they
    /// were written, by their JSON pointers there.
    pub numbers: Option<Arc<WrittenNumbers>>,
    /// Number of decks the call has already passed through, when it came through a gateway.
    pub hops: Option<u64>,
    /// The call id, reserved with [`crate::Host::next_call_id`].
    pub id: Option<CallId>,
    /// Asks the caller's own user for consent, and what servers ask, beside a dashboard.
    pub asker: Option<Asker>,
    /// Who the caller is, for servers that are used by persons as themselves.
    pub identity: Option<Arc<CallerIdentity>>,
}

impl Default for CallOptions {
    fn default() -> Self {
        Self::new(Origin::default(), CancellationToken::new())
    }
}

impl CallOptions {
    /// Those of a call of this origin, cancelled by this token.
    pub fn new(origin: Origin, cancel: CancellationToken) -> Self {
        Self {
            timeout: None,
            cancel,
            progress: None,
            retry: None,
            bypass_cache: false,
            origin,
            profile: None,
            session: None,
            run: None,
            validation: Validation::default(),
            server: None,
            trace: None,
            meta: None,
            numbers: None,
            hops: None,
            id: None,
            asker: None,
            identity: None,
        }
    }

    /// With this timeout in place of the server's `timeout`.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout: Some(timeout), ..self }
    }

    /// Cancelled by this token.
    #[must_use]
    pub fn with_cancel(self, cancel: CancellationToken) -> Self {
        Self { cancel, ..self }
    }

    /// With a receiver of progress.
    #[must_use]
    pub fn with_progress(self, progress: mpsc::Sender<Progress>) -> Self {
        Self { progress: Some(progress), ..self }
    }

    /// Under a profile of the policy.
    #[must_use]
    pub fn with_profile(self, profile: impl Into<Arc<str>>) -> Self {
        Self { profile: Some(profile.into()), ..self }
    }

    /// As a call of this tab or session of its origin.
    #[must_use]
    pub fn with_session(self, session: impl Into<Arc<str>>) -> Self {
        Self { session: Some(session.into()), ..self }
    }

    /// Sent although the arguments do not match the schema ([`Validation::Force`]).
    #[must_use]
    pub fn forced(self) -> Self {
        Self { validation: Validation::Force, ..self }
    }

    /// To this server alone, whatever others have the name.
    #[must_use]
    pub fn with_server(self, server: ServerName) -> Self {
        Self { server: Some(server), ..self }
    }

    /// The caller, for policy decisions.
    pub fn principal(&self) -> Principal {
        let principal =
            Principal { session: self.session.clone(), ..Principal::new(self.origin.clone()) };
        match &self.profile {
            Some(profile) => principal.with_profile(Arc::clone(profile)),
            None => principal,
        }
    }

    /// The run that the call is counted in.
    pub fn counted_in(&self) -> CountedRun {
        match &self.run {
            Some(run) => CountedRun::Named(Arc::clone(run)),
            None => CountedRun::Session(self.session.clone()),
        }
    }
}

/// Validates a caller's `traceparent` (W3C Trace Context, version 00); `None` for anything else.
pub fn parse_traceparent(text: &str) -> Option<Arc<str>> {
    let digits = |text: &&str| text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let parts: Vec<&str> = text.split('-').filter(digits).collect();
    let [version, trace, span, flags] = parts[..] else { return None };
    let sizes = [version.len(), trace.len(), span.len(), flags.len()];
    let is_one = sizes == [2, 32, 16, 2] && version == "00" && text.len() == 55;
    is_one.then(|| text.into())
}

/// The trace that calls belong to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceContext {
    /// The caller's span (W3C `traceparent`).
    pub parent: Option<Arc<str>>,
    /// What goes with it in `_meta`: `tracestate`, `baggage`.
    pub more: Option<Arc<CallerMeta>>,
}

/// A call in flight, for display.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallView {
    /// Its id.
    pub id: CallId,
    /// The server.
    pub server: ServerName,
    /// The method, for example `tools/call`.
    pub method: String,
    /// Tool, prompt or URI.
    pub target: SafeText,
    /// When it began.
    pub started: Timestamp,
    /// Time spent waiting for the user so far; in JSON, milliseconds.
    #[serde(with = "millis")]
    pub waiting: Duration,
    /// Whether it is waiting for the user now.
    pub is_waiting: bool,
    /// Last progress.
    pub progress: Option<Progress>,
}

/// The outcome of a completed call. A tool error (`isError`) is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CallOutcome {
    /// The call.
    pub call: CallId,
    /// The server that answered.
    pub server: ServerName,
    /// Tool, prompt or URI as asked.
    pub target: String,
    /// The result exactly as sent.
    pub result: Payload,
    /// Whether the tool reported a failure (`isError: true`).
    pub is_error: bool,
    /// Where `structuredContent` violates `outputSchema`.
    pub output_violations: Vec<Violation>,
    /// Whether the result was compared with an `outputSchema`: the tool has one, did not fail, and its
    /// answer is new.
    #[serde(default)]
    pub output_checked: bool,
    /// Guard warnings about arguments that were sent anyway.
    pub guard_warnings: Vec<Violation>,
    /// Whether validation was overridden.
    pub forced: bool,
    /// What the policy service changed of the arguments and of the result.
    #[serde(default, skip_serializing_if = "ServiceChanges::is_empty")]
    pub changes: ServiceChanges,
    /// Wall time, excluding the time spent waiting for the user; in JSON, milliseconds.
    #[serde(with = "millis")]
    pub duration: Duration,
    /// Time spent waiting for the user; in JSON, milliseconds.
    #[serde(with = "millis")]
    pub waiting: Duration,
    /// Findings about the response: repaired text, an unexpected shape.
    pub findings: Vec<Finding>,
    /// Where the answer came from.
    pub source: AnswerSource,
    /// The caller, and the rule that permitted the call.
    pub caller: Caller,
}

/// The caller of an operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Caller {
    /// Where the call came from.
    pub origin: Origin,
    /// The profile, when one was given.
    pub profile: Option<Arc<str>>,
    /// The rule or grant that permitted it, when one was needed.
    pub rule: Option<Arc<str>>,
    /// The version the server says it has.
    pub version: Option<SafeText>,
}

/// Source and cost of a result, for its recipient.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Provenance {
    /// The server that answered.
    pub server: ServerName,
    /// Tool, prompt or URI.
    pub tool: String,
    /// The version the server says it has.
    pub version: Option<SafeText>,
    /// The origin of the call.
    pub origin: String,
    /// The caller's profile.
    pub profile: Arc<str>,
    /// Time excluding the wait for the user, in milliseconds.
    pub duration_ms: u64,
    /// Time spent waiting for the user, in milliseconds.
    pub human_ms: u64,
    /// Where the answer came from.
    pub source: AnswerSource,
    /// The rule or grant that permitted it.
    pub rule: Option<Arc<str>>,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AnswerSource {
    /// From the server.
    Server,
    /// From the cache, fresh; its age.
    Cache(Duration),
    /// From the cache, fresh or expired, because the server is unavailable; its age.
    Stale(Duration),
}

impl CallOutcome {
    /// A server's result of a call to `target`, without findings and timings.
    pub fn new(
        call: CallId,
        server: impl Into<ServerName>,
        target: impl Into<String>,
        result: impl Into<Payload>,
    ) -> Self {
        Self {
            call,
            server: server.into(),
            target: target.into(),
            result: result.into(),
            is_error: false,
            output_violations: Vec::new(),
            output_checked: false,
            guard_warnings: Vec::new(),
            forced: false,
            changes: ServiceChanges::default(),
            duration: Duration::ZERO,
            waiting: Duration::ZERO,
            findings: Vec::new(),
            source: AnswerSource::Server,
            caller: Caller::default(),
        }
    }

    /// Source and cost of the result.
    pub fn provenance(&self) -> Provenance {
        let Caller { origin, profile, rule, version } = self.caller.clone();
        Provenance {
            server: self.server.clone(),
            tool: self.target.clone(),
            version,
            origin: origin.to_string(),
            profile: profile.unwrap_or_else(|| DEFAULT_PROFILE.into()),
            duration_ms: self.duration.as_millis() as u64,
            human_ms: self.waiting.as_millis() as u64,
            source: self.source,
            rule,
        }
    }

    /// The text of the result: the text blocks of a tool's `content`, of a prompt's `messages` or
    /// of a resource's `contents`, joined by newlines. Other content (images, blobs,
    /// `structuredContent`) is left out.
    pub fn text(&self) -> String {
        Self::text_of(&self.result)
    }

    /// Like [`CallOutcome::text`], for a bare result.
    pub fn text_of(result: &serde_json::Value) -> String {
        let list = |key: &str| result[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let messages = list("messages").iter().filter_map(|message| message.get("content"));
        let blocks = list("content").iter().chain(messages).chain(list("contents"));
        let text = |block: &serde_json::Value| {
            let own = block["text"].as_str();
            own.or_else(|| block["resource"]["text"].as_str()).map(str::to_owned)
        };
        blocks.filter_map(text).collect::<Vec<_>>().join("\n")
    }

    /// The result decoded as `T`, for example `rmcp::model::CallToolResult`.
    ///
    /// # Errors
    /// The serde error when the result has another shape.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&*self.result)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(result: Value) -> String {
        let outcome = CallOutcome::new(CallId(1), "a", "t", result);
        outcome.text()
    }

    #[test]
    fn the_text_of_tools_prompts_and_resources_is_their_text_blocks_in_order() {
        let tool = json!({"content": [{"type": "text", "text": "one"}, {"type": "image", "data": ""},
            {"type": "resource", "resource": {"uri": "x:", "text": "two"}}, 7]});
        assert_eq!(text(tool), "one\ntwo");
        let prompt =
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "p"}}]});
        assert_eq!(text(prompt), "p");
        let resource =
            json!({"contents": [{"uri": "x:", "text": "r"}, {"uri": "x:", "blob": "AA=="}]});
        assert_eq!(text(resource), "r");
        assert_eq!(text(json!({"structuredContent": {"text": "no"}})), "");
    }
}
