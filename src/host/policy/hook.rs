//! The policy service: asked by `POST` before a call. Fails closed, takes two seconds at most, and
//! keeps its connection.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::host::policy::config::HookConfig;
use crate::host::policy::principal::Principal;

/// A policy service and the connections to it; clones share them.
#[derive(Clone, Debug)]
pub(in crate::host) struct Service {
    pub(super) config: HookConfig,
    http: Option<reqwest::Client>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    operation: &'static str,
    tool: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    arguments: Option<&'a Value>,
    origin: String,
    profile: &'a str,
}

#[derive(Deserialize)]
struct Answer {
    passed: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Largest answer that is read, in bytes.
const LARGEST: usize = 64 << 10;
/// How long it may take.
const PATIENCE: Duration = Duration::from_secs(2);

impl Service {
    pub(super) fn new(config: HookConfig) -> Self {
        // Fails only when the application installed one before: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder()
            .user_agent(concat!("mcpdeck/", env!("CARGO_PKG_VERSION")))
            .tcp_nodelay(true)
            .redirect(reqwest::redirect::Policy::none())
            .build();
        Self { config, http: http.ok() }
    }

    /// Asks whether a call may go.
    ///
    /// # Errors
    /// Why it may not, for the person.
    pub(in crate::host) async fn passes(
        &self,
        principal: &Principal,
        tool: &str,
        arguments: &Value,
    ) -> Result<(), String> {
        let question = Question {
            operation: "tool_exec",
            tool,
            arguments: self.config.arguments.then_some(arguments),
            origin: principal.origin.to_string(),
            profile: &principal.profile,
        };
        let patience = self.config.timeout.and_then(|s| Duration::try_from_secs_f64(s).ok());
        let asked = tokio::time::timeout(patience.unwrap_or(PATIENCE), self.ask(&question)).await;
        let failure = match asked {
            Ok(Ok(Answer { passed: true, .. })) => return Ok(()),
            Ok(Ok(Answer { reason, .. })) => {
                return Err(reason.unwrap_or_else(|| "the policy service gave no reason".into()));
            }
            Ok(Err(failure)) => failure,
            Err(_) => "it did not answer in time".to_owned(),
        };
        tracing::warn!(target: "mcpdeck::policy", action = "policy service", "{failure}");
        if self.config.fail_open { Ok(()) } else { Err(format!("the policy service: {failure}")) }
    }

    async fn ask(&self, question: &Question<'_>) -> Result<Answer, String> {
        let http = self.http.as_ref().ok_or("HTTP cannot be set up")?;
        let plain = |error: reqwest::Error| error.without_url().to_string();
        let mut response =
            http.post(&self.config.url).json(question).send().await.map_err(plain)?;
        if !response.status().is_success() {
            return Err(format!("it answered {}", response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(plain)? {
            body.extend_from_slice(&chunk);
            if body.len() > LARGEST {
                return Err("its answer is too large".to_owned());
            }
        }
        serde_json::from_slice(&body).map_err(|_| "its answer is not understood".to_owned())
    }
}
