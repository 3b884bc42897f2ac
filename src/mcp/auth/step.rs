//! What happens while signing in, step by step, and how it fails. A step holds no secret: the query of
//! its address is left out, and in what was sent and answered secrets are masked.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::token::StoredToken;
use crate::base::ServerName;
use crate::base::secret::MASK;
use crate::base::text::SafeText;
use crate::config::mask::is_secret;

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StepKind {
    /// The server refused a request with 401 or 403.
    Challenge,
    /// Protected resource metadata (RFC 9728).
    ResourceMetadata,
    /// Authorization server metadata (RFC 8414, `OpenID` Connect).
    ServerMetadata,
    /// A client was registered (RFC 7591).
    Register,
    /// A person was shown the address.
    Authorize,
    /// A code or the client's own credentials were exchanged for a token.
    Token,
    /// A token was refreshed.
    Refresh,
    /// A token was revoked (RFC 7009).
    Revoke,
    /// The refused request was sent again with another token.
    Retry,
}

impl StepKind {
    /// As it is shown.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Challenge => "challenge",
            Self::ResourceMetadata => "resource metadata",
            Self::ServerMetadata => "server metadata",
            Self::Register => "register",
            Self::Authorize => "authorize",
            Self::Token => "token",
            Self::Refresh => "refresh",
            Self::Revoke => "revoke",
            Self::Retry => "retry",
        }
    }
}

impl AuthStep {
    /// Where, with which status, and why it failed.
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

/// What happens at the account of a server.
#[derive(Clone, Copy, Debug)]
pub enum AuthEvent<'a> {
    /// A step was made. What was sent and answered is JSON in which secrets are masked.
    Step {
        /// The step.
        step: &'a AuthStep,
        /// What was sent; empty when nothing was.
        sent: &'a str,
        /// What was answered; empty when nothing was.
        answered: &'a str,
    },
    /// Another token is in use; `None`: there is none any more.
    Token(Option<&'a StoredToken>),
    /// The server wants a person to sign in, and there is no [`super::SignInPrompt`].
    Needed,
}

/// Who hears of it.
pub(super) type Watch = Arc<dyn Fn(&ServerName, AuthEvent<'_>) + Send + Sync>;

/// Tells the events of one server.
#[derive(Clone)]
pub(super) struct Events {
    pub(super) server: ServerName,
    pub(super) watches: Vec<Watch>,
}

/// How a step went.
#[derive(Default)]
pub(super) struct Went<'a> {
    pub(super) status: Option<u16>,
    pub(super) took: Duration,
    pub(super) refused: Option<&'a str>,
    pub(super) sent: &'a [u8],
    pub(super) answered: &'a [u8],
}

impl Events {
    pub(super) fn tell(&self, event: AuthEvent<'_>) {
        for watch in &self.watches {
            watch(&self.server, event);
        }
    }

    pub(super) fn step(&self, kind: StepKind, url: &Url, went: Went<'_>) {
        let mut shown = url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let _ = (shown.set_password(None), shown.set_username(""));
        let Went { status, took, refused, sent, answered } = went;
        let refused = refused.map(SafeText::line);
        let step = AuthStep { kind, url: SafeText::line(shown.as_str()), status, took, refused };
        tracing::info!(server = %self.server, %step, "sign-in");
        let (sent, answered) = (readable(kind, sent, true), readable(kind, answered, false));
        self.tell(AuthEvent::Step { step: &step, sent: &sent, answered: &answered });
    }
}

/// A body as JSON in which secrets are masked. What is sent may be a form, and a browser is sent and
/// comes back with a query; any other text is only counted. Metadata is public.
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
        None => return format!("{} bytes that are no JSON object", body.len()),
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
            if SECRET.contains(&name) || name.contains("assertion") || is_secret(name, text) =>
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
    /// A person has to sign in, and none was there to be asked.
    #[error("needs signing in{0}: run `mcpdeck login {1}`")]
    SignInNeeded(String, String),
    /// The person said no.
    #[error("signing in was declined: {0}")]
    Declined(String),
    /// What the servers said is against the specification or not safe; trying again does not help.
    #[error("signing in was refused: {0}")]
    Refused(String),
    /// Something on the way failed; it may pass.
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
        assert_eq!(page, "20 bytes that are no JSON object");
    }
}
