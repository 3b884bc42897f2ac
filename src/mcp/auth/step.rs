//! What happens while signing in, step by step, and how it fails. Secrets never get this far: of an
//! address its query is left out, of an answer its status is told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use url::Url;

use crate::base::ServerName;
use crate::base::text::SafeText;

/// One step, as the doctor, the log and `mcpdeck login` show it.
#[derive(Clone, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        }
    }
}

impl std::fmt::Display for AuthStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.url)?;
        if let Some(status) = self.status {
            write!(f, " HTTP {status}")?;
        }
        write!(f, " {} ms", self.took.as_millis())?;
        self.refused.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
    }
}

/// Who hears of each step as it happens.
pub(super) type Watch = Arc<dyn Fn(&ServerName, &AuthStep) + Send + Sync>;

/// The newest steps of one server.
#[derive(Clone)]
pub(super) struct Steps {
    server: ServerName,
    kept: Arc<Mutex<VecDeque<AuthStep>>>,
    watch: Option<Watch>,
}

impl Steps {
    /// Steps that are kept; the oldest go first.
    const MOST: usize = 64;

    pub(super) fn new(server: ServerName, watch: Option<Watch>) -> Self {
        Self { server, kept: Arc::default(), watch }
    }

    pub(super) fn note(
        &self,
        kind: StepKind,
        url: &Url,
        status: Option<u16>,
        took: Duration,
        refused: Option<&str>,
    ) {
        let mut shown = url.clone();
        shown.set_query(None);
        shown.set_fragment(None);
        let _ = (shown.set_password(None), shown.set_username(""));
        let refused = refused.map(SafeText::line);
        let step = AuthStep { kind, url: SafeText::line(shown.as_str()), status, took, refused };
        tracing::info!(server = %self.server, %step, "sign-in");
        if let Some(watch) = &self.watch {
            watch(&self.server, &step);
        }
        let mut kept = self.kept.lock();
        if kept.len() == Self::MOST {
            kept.pop_front();
        }
        kept.push_back(step);
    }

    pub(super) fn take(&self) -> Vec<AuthStep> {
        self.kept.lock().drain(..).collect()
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
