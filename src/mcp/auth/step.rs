//! The steps of signing in, and how it fails. A step holds no secret.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::token::StoredToken;
use base::SafeText;

/// One step, as the doctor, the log and `mcpdeck login` show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
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
#[non_exhaustive]
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
    /// Something else than the answer to the sign-in came to the redirect address.
    Redirect,
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

/// Why there is no token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
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
    /// The authorization server could not be reached, or could not answer, when a token was needed
    /// that takes no person. What it is obtained with is kept.
    #[error("no token could be obtained now: {0}")]
    Unavailable(String),
}

impl AuthFailure {
    /// Why, without saying that it was a sign-in which failed.
    pub fn reason(&self) -> String {
        match self {
            Self::SignInNeeded(..) => self.to_string(),
            Self::Declined(why)
            | Self::Refused(why)
            | Self::Failed(why)
            | Self::Unavailable(why) => why.clone(),
        }
    }
}
