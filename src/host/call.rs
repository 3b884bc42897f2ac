//! One operation of a caller: its options, its progress and its outcome (requirement R1).

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::base::{SafeText, ServerName, Timestamp};
use crate::config::RetryConfig;
use crate::error::Violation;
use crate::host::policy::{DEFAULT_PROFILE, Principal};
use crate::mcp::{CallId, Finding, Payload, Progress};

/// Who calls; permissions and limits are decided on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Origin {
    /// The program that embeds the library.
    #[default]
    Library,
    /// The person at the dashboard.
    Dashboard,
    /// The headless check.
    Check,
    /// A command-line verb.
    Cli,
    /// A client of the gateway, by the id of its token.
    Gateway(String),
    /// A page in a browser, by its origin (`https://example.com`).
    Browser(String),
    /// A chat session, by its id.
    Chat(String),
}

impl Origin {
    /// The id of the operator's own token at the gateway.
    pub const OWNER: &str = "owner";

    /// Whether it is the person: nothing is decided for others then.
    pub fn is_person(&self) -> bool {
        match self {
            Self::Library | Self::Dashboard | Self::Check | Self::Cli => true,
            Self::Gateway(id) => id == Self::OWNER,
            Self::Browser(_) | Self::Chat(_) => false,
        }
    }

    /// Its kind, and which one of them it is where there are several.
    pub fn parts(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Library => ("library", None),
            Self::Dashboard => ("dashboard", None),
            Self::Check => ("check", None),
            Self::Cli => ("cli", None),
            Self::Gateway(id) => ("gateway", Some(id)),
            Self::Browser(id) => ("browser", Some(id)),
            Self::Chat(id) => ("chat", Some(id)),
        }
    }

    /// The origin that [`fmt::Display`] spells so.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "library" => Self::Library,
            "dashboard" => Self::Dashboard,
            "check" => Self::Check,
            "cli" => Self::Cli,
            _ => match text.split_once(':')? {
                (_, "") => return None,
                ("gateway", id) => Self::Gateway(id.to_owned()),
                ("browser", id) => Self::Browser(id.to_owned()),
                ("chat", id) => Self::Chat(id.to_owned()),
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

/// Whether arguments must fit the schema before they are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Validation {
    /// Refuse what does not fit (requirement R3).
    #[default]
    Enforce,
    /// Send it anyway, to test the server; the outcome is marked `forced`.
    Force,
}

/// Options of one call. The default is the server's configuration.
#[derive(Clone, Debug, Default)]
pub struct CallOptions {
    /// Deadline instead of the server's `timeout`. Progress extends it, waiting for a person stops
    /// it.
    pub timeout: Option<Duration>,
    /// Cancels the call; the server is told with `notifications/cancelled`.
    pub cancel: CancellationToken,
    /// Receives progress. Overflow policy: the newest is dropped when the channel is full.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Repeats of a call that may be repeated, instead of the server's `retry`.
    pub retry: Option<RetryConfig>,
    /// Do not answer from the cache.
    pub bypass_cache: bool,
    /// Who calls.
    pub origin: Origin,
    /// The caller's profile; [`crate::host::policy::DEFAULT_PROFILE`] when it names none.
    pub profile: Option<Arc<str>>,
    /// The tab or session of the caller, to which a grant may be limited.
    pub session: Option<Arc<str>>,
    /// The run the call belongs to: its calls share a budget, and what it has read is remembered.
    pub run: Option<Arc<str>>,
    /// Whether arguments are checked.
    pub validation: Validation,
    /// Only this server is meant (`server=` of requirement R2).
    pub server: Option<ServerName>,
    /// The caller's span (W3C `traceparent`), which the server is told of in `_meta`.
    pub trace: Option<Arc<str>>,
    /// How many decks the call came through already, when it came through a gateway.
    pub hops: Option<u64>,
    /// Use this id, reserved before with [`crate::Host::next_call_id`].
    pub id: Option<CallId>,
}

impl CallOptions {
    /// Who calls, as decisions see it.
    pub fn principal(&self) -> Principal {
        let profile = self.profile.clone().unwrap_or_else(|| DEFAULT_PROFILE.into());
        Principal { origin: self.origin.clone(), profile, session: self.session.clone() }
    }
}

/// A call in flight, as a table shows it.
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
    /// Time spent waiting for a person so far.
    pub waiting: Duration,
    /// Whether it waits for a person now.
    pub is_waiting: bool,
    /// Last progress.
    pub progress: Option<Progress>,
}

/// What a successful round gave. A tool error (`isError`) is an outcome, not an error.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallOutcome {
    /// The call.
    pub call: CallId,
    /// The server that answered.
    pub server: ServerName,
    /// Tool, prompt or URI as asked.
    pub target: String,
    /// The result exactly as sent.
    pub result: Payload,
    /// Whether the tool says that it failed (`isError: true`).
    pub is_error: bool,
    /// Where `structuredContent` does not fit `outputSchema`.
    pub output_violations: Vec<Violation>,
    /// Suspicious arguments that were let through (R9).
    pub guard_warnings: Vec<Violation>,
    /// Whether validation was forced past.
    pub forced: bool,
    /// Wall time without the time waiting for a person.
    pub duration: Duration,
    /// Time waiting for a person.
    pub waiting: Duration,
    /// What was found about the answer: text that was repaired, an odd shape.
    pub findings: Vec<Finding>,
    /// Where the answer came from.
    pub source: AnswerSource,
    /// For whom it was done, and which rule let it through.
    pub caller: Caller,
}

/// For whom something was done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Caller {
    /// Where the call came from.
    pub origin: Origin,
    /// In which profile, when one was named.
    pub profile: Option<Arc<str>>,
    /// The rule or grant that let it through, when one was needed.
    pub rule: Option<Arc<str>>,
    /// The version the server says it has.
    pub version: Option<SafeText>,
}

/// Where a result comes from and what it took, for whoever gets it (requirements section 11).
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The server that answered.
    pub server: ServerName,
    /// Tool, prompt or URI.
    pub tool: String,
    /// The version the server says it has.
    pub version: Option<SafeText>,
    /// Who called.
    pub origin: String,
    /// In which profile.
    pub profile: Arc<str>,
    /// Time without the time a person took, in milliseconds.
    pub duration_ms: u64,
    /// Time a person took, in milliseconds.
    pub human_ms: u64,
    /// Where the answer came from.
    pub source: AnswerSource,
    /// The rule or grant that let it through.
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
    /// From the cache, fresh or expired, because the server is unavailable (R7); its age.
    Stale(Duration),
}

impl CallOutcome {
    /// Where the result comes from and what it took.
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

    /// The text of the result: text blocks of a tool's `content`, of a prompt's `messages` or of a
    /// resource's `contents`, one after the other on lines of their own. What is no text (pictures,
    /// blobs, `structuredContent`) is left out.
    pub fn text(&self) -> String {
        Self::text_of(&self.result)
    }

    /// The same of a result alone.
    pub(crate) fn text_of(result: &serde_json::Value) -> String {
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
    /// Gives serde's reason when the server sent another shape.
    pub fn decode<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&*self.result)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn text(result: Value) -> String {
        let outcome = CallOutcome {
            call: CallId(1),
            server: ServerName::new("a"),
            target: "t".to_owned(),
            result: result.into(),
            is_error: false,
            output_violations: Vec::new(),
            guard_warnings: Vec::new(),
            forced: false,
            duration: Duration::ZERO,
            waiting: Duration::ZERO,
            findings: Vec::new(),
            source: AnswerSource::Server,
            caller: Caller::default(),
        };
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
