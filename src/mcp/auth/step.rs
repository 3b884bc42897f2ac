//! The steps of signing in, and how it fails. A step holds no secret: the query of its address is
//! left out, and secrets are masked in what was sent and received.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::token::StoredToken;
use base::secret::MASK;
use base::{SafeText, ServerName};
use config::is_secret;

/// One step, as the doctor, the log and `mcpdeck login` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthStep {
    /// What was done.
    pub kind: StepKind,
    /// Where, without the query.
    pub url: SafeText,
    /// HTTP status, when there was an answer.
    pub status: Option<u16>,
    /// How long it took.
    pub took: Duration,
    /// Why it failed.
    pub refused: Option<SafeText>,
}

/// What a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "lowercase")]
pub enum StepKind {
    /// The server refused a request with 401 or 403.
    Challenge,
    /// Protected resource metadata (RFC 9728).
    #[strum(serialize = "resource metadata")]
    ResourceMetadata,
    /// Authorization server metadata (RFC 8414, `OpenID` Connect).
    #[strum(serialize = "server metadata")]
    ServerMetadata,
    /// A client was registered (RFC 7591).
    Register,
    /// The authorization server was asked whether it still knows the client.
    #[strum(serialize = "client check")]
    Client,
    /// The user was shown the address.
    Authorize,
    /// A code or the client's own credentials were exchanged for a token.
    Token,
    /// The ID token of a person was exchanged for a grant (RFC 8693).
    Exchange,
    /// A token was refreshed.
    Refresh,
    /// A token was revoked (RFC 7009).
    Revoke,
    /// The refused request was sent again with another token.
    Retry,
}

impl StepKind {
    /// Its display name.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl AuthStep {
    /// A step made now; anything secret is removed from its address.
    pub(super) fn new(kind: StepKind, url: &Url) -> Self {
        let mut shown = url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let _ = (shown.set_password(None), shown.set_username(""));
        let url = SafeText::line(shown.as_str());
        Self { kind, url, status: None, took: Duration::ZERO, refused: None }
    }

    /// The address, the status, and why it failed.
    pub fn outcome(&self) -> String {
        let status = self.status.map(|status| format!(" HTTP {status}")).unwrap_or_default();
        let why = self.refused.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        format!("{}{status}{why}", self.url)
    }
}

impl std::fmt::Display for AuthStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({} ms) {}", self.kind.as_str(), self.took.as_millis(), self.outcome())
    }
}

/// An event concerning a server's account.
#[derive(Clone, Copy, Debug)]
pub enum AuthEvent<'a> {
    /// A step was made. What was sent and received is JSON in which secrets are masked.
    Step {
        /// The step.
        step: &'a AuthStep,
        /// What was sent; empty when nothing was.
        sent: &'a str,
        /// What was received; empty when nothing was.
        answered: &'a str,
    },
    /// The token in use changed; `None` when there is none any more.
    Token(Option<&'a StoredToken>),
    /// The server requires the user to sign in; no [`crate::auth::SignInPrompt`] is set.
    Needed,
}

/// A listener for these events.
pub(super) type AuthListener = Arc<dyn Fn(&ServerName, AuthEvent<'_>) + Send + Sync>;

/// Reports the events of one server.
#[derive(Clone)]
pub(super) struct AuthReporter {
    pub(super) server: ServerName,
    pub(super) watches: Vec<AuthListener>,
}

impl AuthReporter {
    pub(super) fn emit(&self, event: AuthEvent<'_>) {
        for watch in &self.watches {
            watch(&self.server, event);
        }
    }

    /// Reports that the server refused a request, with its challenge.
    pub(super) fn challenged(&self, step: AuthStep, challenge: Option<&str>) {
        let header = challenge.map(|c| serde_json::json!({"www-authenticate": c}).to_string());
        self.step(step, &[], header.unwrap_or_default().as_bytes());
    }

    pub(super) fn step(&self, step: AuthStep, sent: &[u8], answered: &[u8]) {
        tracing::info!(server = %self.server, %step, "sign-in");
        let sent = readable(step.kind, sent, true);
        let answered = readable(step.kind, answered, false);
        self.emit(AuthEvent::Step { step: &step, sent: &sent, answered: &answered });
    }
}

/// A body as JSON in which secrets are masked. Requests may be forms, and the browser sends and
/// receives a query; any other text is only counted. Metadata is public.
fn readable(kind: StepKind, body: &[u8], is_sent: bool) -> String {
    if body.is_empty() {
        return String::new();
    }
    let json = serde_json::from_slice(body).ok().filter(Value::is_object);
    let mut value = match json {
        Some(json) => json,
        None if is_sent || kind == StepKind::Authorize => {
            let pairs = url::form_urlencoded::parse(body).into_owned();
            pairs.map(|(key, value)| (key, Value::String(value))).collect::<Value>()
        }
        None => return format!("{} bytes that are not a JSON object", body.len()),
    };
    if !matches!(kind, StepKind::ResourceMetadata | StepKind::ServerMetadata) {
        mask("", &mut value);
    }
    value.to_string()
}

fn mask(name: &str, value: &mut Value) {
    const SECRET: [&str; 3] = ["code", "code_verifier", "state"];
    match value {
        Value::String(text)
            if SECRET.contains(&name)
                || name.contains("assertion")
                || name == "subject_token"
                || is_secret(name, text) =>
        {
            MASK.clone_into(text);
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask(name, item)),
        Value::Object(map) => map.iter_mut().for_each(|(name, value)| mask(name, value)),
        _ => {}
    }
}

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthFailure {
    /// The user has to sign in, and there was no prompt: why, and the command that signs in.
    #[error("needs signing in{0}: run `{1}`")]
    SignInNeeded(String, String),
    /// The user declined.
    #[error("signing in was declined: {0}")]
    Declined(String),
    /// A server's response violates the specification or is not safe; retrying does not help.
    #[error("signing in was refused: {0}")]
    Refused(String),
    /// Something failed on the way; possibly transient.
    #[error("signing in failed: {0}")]
    Failed(String),
}

impl AuthFailure {
    /// A refusal that quotes what a server said.
    pub(super) fn refused(text: impl std::fmt::Display) -> Self {
        Self::Refused(SafeText::line(&text.to_string()).to_string())
    }

    /// A failure that quotes what a server or the system said.
    pub(super) fn failed(text: impl std::fmt::Display) -> Self {
        Self::Failed(SafeText::line(&text.to_string()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_form_and_of_an_answer_are_masked_and_the_rest_is_readable() {
        let form = b"grant_type=authorization_code&code=good&code_verifier=v&client_assertion=a.b";
        assert_eq!(
            readable(StepKind::Token, form, true),
            r#"{"grant_type":"authorization_code","code":"***","code_verifier":"***","client_assertion":"***"}"#
        );
        let answer = br#"{"access_token":"a","refresh_token":"r","id_token":"i","token_type":"Bearer","expires_in":5,"scope":"read","nested":[{"client_secret":"s"}]}"#;
        let shown = readable(StepKind::Token, answer, false);
        assert_eq!(shown.matches(MASK).count(), 4, "{shown}");
        assert!(
            shown.contains(r#""token_type":"Bearer","expires_in":5,"scope":"read""#),
            "{shown}"
        );
        let page = readable(StepKind::Token, b"<p>the token abc</p>", false);
        assert_eq!(page, "20 bytes that are not a JSON object");
    }
}
