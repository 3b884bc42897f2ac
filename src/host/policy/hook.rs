//! The policy service: called by `POST` before each call, read and prompt. By default fails closed
//! and times out after two seconds; connections are reused.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
#[cfg(feature = "http")]
use url::Url;

use super::principal::{Principal, TargetKind};
use super::rules::HookConfig;
#[cfg(feature = "http")]
use config::TlsConfig;

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
}

/// Maximum size of a response, in bytes.
#[cfg(feature = "http")]
const MAX_RESPONSE_BYTES: usize = 64 << 10;
/// Default timeout.
const HOOK_TIMEOUT: Duration = Duration::from_secs(2);

impl PolicyHook {
    pub(super) fn new(config: HookConfig) -> Self {
        Self {
            #[cfg(feature = "http")]
            http: client(&config.url),
            config,
        }
    }

    /// Asks the service whether a call is permitted.
    ///
    /// # Errors
    /// The reason of a denial, for the user.
    pub(crate) async fn passes(
        &self,
        principal: &Principal,
        (kind, name): (TargetKind, &str),
        arguments: Option<&Value>,
    ) -> Result<(), String> {
        let (operation, target) = match kind {
            TargetKind::Tool => ("tool_exec", AskedTarget::Tool(name)),
            TargetKind::Resource => ("resource_read", AskedTarget::Resource(name)),
            TargetKind::Prompt => ("prompt_get", AskedTarget::Prompt(name)),
            // A completion or a connection is no call.
            TargetKind::Server => return Ok(()),
        };
        let question = Question {
            operation,
            target,
            arguments: arguments.filter(|_| self.config.arguments),
            origin: principal.origin.to_string(),
            profile: &principal.profile,
        };
        let patience = self.config.timeout.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let asked =
            tokio::time::timeout(patience.unwrap_or(HOOK_TIMEOUT), self.ask(&question)).await;
        let failure = match asked {
            Ok(Ok(HookAnswer { passed: true, .. })) => return Ok(()),
            Ok(Ok(HookAnswer { reason, .. })) => {
                return Err(reason.unwrap_or_else(|| "the policy service gave no reason".into()));
            }
            Ok(Err(failure)) => failure,
            Err(_) => "it did not answer in time".to_owned(),
        };
        tracing::warn!(target: "mcpdeck::policy", action = "policy service", "{failure}");
        if self.config.fail_open { Ok(()) } else { Err(format!("the policy service: {failure}")) }
    }

    #[cfg(feature = "http")]
    async fn ask(&self, question: &Question<'_>) -> Result<HookAnswer, String> {
        let http = self.http.as_ref().ok_or("its address cannot be used")?;
        let plain = |error: reqwest::Error| error.without_url().to_string();
        let mut response =
            http.post(&self.config.url).json(question).send().await.map_err(plain)?;
        if !response.status().is_success() {
            return Err(format!("it answered {}", response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(plain)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_RESPONSE_BYTES {
                return Err("its answer is too large".to_owned());
            }
        }
        serde_json::from_slice(&body).map_err(|_| "its answer is not understood".to_owned())
    }

    #[cfg(not(feature = "http"))]
    async fn ask(&self, _question: &Question<'_>) -> Result<HookAnswer, String> {
        Err("it cannot be asked: this program was built without HTTP (the feature `http` of \
             mcpdeck)"
            .to_owned())
    }
}

/// The connections to the service; `None` when its address cannot be used.
#[cfg(feature = "http")]
fn client(url: &str) -> Option<reqwest::Client> {
    let http = mcp::client_builder(&Url::parse(url).ok()?, &TlsConfig::default()).ok()?;
    http.redirect(reqwest::redirect::Policy::none()).build().ok()
}
