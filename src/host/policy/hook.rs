//! The policy service: called by `POST` before each call, read and prompt, and where the policy says so
//! with each result. It passes them, blocks them, or changes them where it may. By default fails
//! closed and times out after two seconds; connections are reused.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
#[cfg(feature = "http")]
use url::Url;

use super::audit::bounded;
use super::principal::{Principal, TargetKind};
use super::rules::HookConfig;
use base::human::Bytes;
#[cfg(feature = "http")]
use config::TlsConfig;
use protocol::Payload;

/// A client of the policy service; clones share its connections.
#[derive(Clone, Debug)]
pub(crate) struct PolicyHook {
    pub(super) config: HookConfig,
    #[cfg(feature = "http")]
    http: Option<reqwest::Client>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    operation: &'static str,
    #[serde(flatten)]
    target: AskedTarget<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a Payload>,
    origin: String,
    profile: &'a str,
}

/// The target of a question, under the name of its kind.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
enum AskedTarget<'a> {
    Tool(&'a str),
    Resource(&'a str),
    Prompt(&'a str),
}

#[derive(Deserialize)]
struct HookAnswer {
    passed: bool,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    arguments: Option<Value>,
    #[serde(default)]
    result: Option<Value>,
}

/// What the policy service is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HookSubject<'a> {
    /// Whether it is a tool, a resource or a prompt, and its name.
    pub target: (TargetKind, &'a str),
    /// The arguments, before a call and after it.
    pub arguments: Option<&'a Value>,
    /// The result, after it.
    pub result: Option<&'a Payload>,
}

/// Maximum size of a response besides what it changes, in bytes.
#[cfg(feature = "http")]
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Default timeout.
const HOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// The pauses before a question is put again that nobody has answered, within the timeout: the service
/// was restarting, or had closed a connection that was kept.
const RETRY_INTERVALS: [Duration; 2] = [Duration::from_millis(50), Duration::from_millis(250)];

/// Why a question has no answer.
struct NoVerdict {
    why: String,
    /// Whether nobody has answered, so that it may be put again: a decision changes nothing.
    is_passing: bool,
}

impl From<&str> for NoVerdict {
    fn from(why: &str) -> Self {
        Self { why: why.to_owned(), is_passing: false }
    }
}

impl PolicyHook {
    pub(super) fn new(config: HookConfig) -> Self {
        Self {
            #[cfg(feature = "http")]
            http: client(&config.url),
            config,
        }
    }

    /// Whether the service is asked about results.
    pub(crate) const fn sees_results(&self) -> bool {
        self.config.results
    }

    /// Asks the service whether a call, or its result, is permitted. Returns the arguments, or the
    /// result, that it puts in the place of what it was sent.
    ///
    /// # Errors
    /// The reason of a denial, for the user.
    pub(crate) async fn passes(
        &self,
        principal: &Principal,
        subject: HookSubject<'_>,
    ) -> Result<Option<Value>, String> {
        let (kind, name) = subject.target;
        let is_result = subject.result.is_some();
        let (operation, target) = match (kind, is_result) {
            (TargetKind::Tool, false) => ("tool_exec", AskedTarget::Tool(name)),
            (TargetKind::Tool, true) => ("tool_result", AskedTarget::Tool(name)),
            (TargetKind::Resource, false) => ("resource_read", AskedTarget::Resource(name)),
            (TargetKind::Resource, true) => ("resource_result", AskedTarget::Resource(name)),
            (TargetKind::Prompt, false) => ("prompt_get", AskedTarget::Prompt(name)),
            (TargetKind::Prompt, true) => ("prompt_result", AskedTarget::Prompt(name)),
            // A completion or a connection is no call.
            (TargetKind::Server, _) => return Ok(None),
        };
        let question = Question {
            operation,
            target,
            arguments: subject.arguments.filter(|_| self.config.arguments),
            result: subject.result,
            origin: principal.origin.to_string(),
            profile: &principal.profile,
        };
        let timeout = self.config.timeout.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let mut last = None;
        let asked = async {
            self.has_room(subject.result)?;
            self.ask_with_retries(&question, &mut last).await
        };
        let asked = tokio::time::timeout(timeout.unwrap_or(HOOK_TIMEOUT), asked).await;
        let failure = match asked {
            Ok(Ok(answer)) if answer.passed => match self.changed(answer, is_result) {
                Ok(changed) => return Ok(changed),
                Err(failure) => failure,
            },
            Ok(Ok(HookAnswer { reason, .. })) => {
                let reason = reason.as_deref().map(bounded);
                return Err(reason.unwrap_or_else(|| "the policy service gave no reason".into()));
            }
            Ok(Err(failure)) => failure,
            Err(_) => last.unwrap_or_else(|| "it did not answer in time".to_owned()),
        };
        tracing::warn!(target: "mcpdeck::policy", action = "policy service", "{failure}");
        if self.config.fail_open { Ok(None) } else { Err(format!("the policy service: {failure}")) }
    }

    fn has_room(&self, result: Option<&Payload>) -> Result<(), String> {
        let size = |result: &Payload| {
            result.whole().map_or_else(|| base::text::json::weigh(&**result), str::len)
        };
        let most = self.config.max_bytes();
        match result.map(size).filter(|size| *size > most) {
            Some(size) => Err(format!(
                "the result has {}, and it is sent {} at most",
                Bytes(size as u64),
                Bytes(most as u64)
            )),
            None => Ok(()),
        }
    }

    /// What an answer changes of what the service was sent.
    fn changed(&self, answer: HookAnswer, is_result: bool) -> Result<Option<Value>, String> {
        let (wanted, other) = if is_result {
            (answer.result, answer.arguments)
        } else {
            (answer.arguments, answer.result)
        };
        let (name, was_sent) =
            if is_result { ("result", true) } else { ("arguments", self.config.arguments) };
        match wanted {
            _ if other.is_some() => Err("it changes what it was not asked about".to_owned()),
            None => Ok(None),
            Some(_) if !self.config.change || !was_sent => {
                Err(format!("it changes the {name}, and may not: the policy does not permit it"))
            }
            Some(value) if !value.is_object() => {
                Err(format!("the {name} that it answers with: an object is expected"))
            }
            Some(value) => Ok(Some(value)),
        }
    }

    /// Asks, and again where nobody has answered; `last` is why there was no answer yet.
    async fn ask_with_retries(
        &self,
        question: &Question<'_>,
        last: &mut Option<String>,
    ) -> Result<HookAnswer, String> {
        let mut pauses = RETRY_INTERVALS.iter();
        loop {
            let none = match self.ask(question).await {
                Ok(answer) => return Ok(answer),
                Err(none) => none,
            };
            let Some(pause) = pauses.next().filter(|_| none.is_passing) else {
                return Err(none.why);
            };
            *last = Some(none.why);
            tokio::time::sleep(*pause).await;
        }
    }

    #[cfg(feature = "http")]
    async fn ask(&self, question: &Question<'_>) -> Result<HookAnswer, NoVerdict> {
        let http = self.http.as_ref().ok_or("its address cannot be used")?;
        let plain = |error: reqwest::Error| {
            let is_passing = mcp::is_passing(&error);
            NoVerdict { why: error.without_url().to_string(), is_passing }
        };
        let mut response =
            http.post(&self.config.url).json(question).send().await.map_err(plain)?;
        let status = response.status();
        if !status.is_success() {
            let is_passing = matches!(status.as_u16(), 502..=504);
            return Err(NoVerdict { why: format!("it answered {status}"), is_passing });
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(plain)? {
            body.extend_from_slice(&chunk);
            let content = if self.config.change { self.config.max_bytes() } else { 0 };
            if body.len() > MAX_RESPONSE_BYTES + content {
                return Err("its answer is too large".into());
            }
        }
        serde_json::from_slice(&body).map_err(|_| "its answer is not understood".into())
    }

    #[cfg(not(feature = "http"))]
    async fn ask(&self, _question: &Question<'_>) -> Result<HookAnswer, NoVerdict> {
        Err("it cannot be asked: this program was built without HTTP (the feature `http` of \
             mcpdeck)"
            .into())
    }
}

/// The connections to the service; `None` when its address cannot be used.
#[cfg(feature = "http")]
fn client(url: &str) -> Option<reqwest::Client> {
    let http = mcp::client_builder(&Url::parse(url).ok()?, &TlsConfig::default()).ok()?;
    http.redirect(reqwest::redirect::Policy::none()).build().ok()
}
