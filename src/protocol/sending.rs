//! How a message leaves, as far as the tap needs to know: a queue that does not block, and why a
//! message was not sent. What carries the bytes lies above.

use base::{Redactor, SafeText};

/// Where the tap leaves its answers and notifications.
pub trait Outbox: Send + Sync + 'static {
    /// Queues a message without waiting for delivery: an answer or a notification, without a line
    /// break. Bounded: a server that requests more than it reads gets [`SendError::Unread`] and is
    /// cut off.
    ///
    /// # Errors
    /// Why it will not be sent.
    fn queue(&self, message: Vec<u8>) -> Result<(), SendError>;
}

/// Why a message was not sent.
#[derive(Clone, Debug, thiserror::Error)]
pub enum SendError {
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
    /// The connection is broken, or there is none.
    #[error("{0}")]
    Broken(SendFailure),
    /// The server requests more than it reads.
    #[error("the server does not read the answers to its requests: {0} are waiting")]
    Unread(usize),
    /// This message was refused; others may go through.
    #[error("{0}")]
    Refused(SendFailure),
    /// The server has forgotten the session; the message may be sent again in another one.
    #[error("the server has forgotten the session")]
    Expired,
    /// The server asks for authorisation, and there is none to give.
    #[error("{0}")]
    Unauthorized(String),
}

impl SendError {
    /// The messages of all its causes, if there are any.
    pub fn causes(&self) -> Option<&str> {
        match self {
            Self::Broken(failure) | Self::Refused(failure) => failure.causes.as_deref(),
            Self::Closed | Self::Unread(_) | Self::Expired | Self::Unauthorized(_) => None,
        }
    }
}

/// What failed while a message was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendFailure {
    /// It in words.
    pub text: String,
    /// The messages of all its causes for the log, the outermost first.
    pub causes: Option<String>,
}

impl SendFailure {
    /// A failure with the causes of an error, secrets of the server masked.
    pub fn caused(text: String, error: &dyn std::error::Error, masks: &Redactor) -> Self {
        let causes = std::iter::successors(Some(error), |error| error.source());
        let causes = causes.map(ToString::to_string).collect::<Vec<_>>().join("; ");
        let causes = SafeText::line(&masks.redact(&causes));
        Self { text, causes: Some(causes.to_string()) }
    }
}

impl From<String> for SendFailure {
    fn from(text: String) -> Self {
        Self { text, causes: None }
    }
}

impl std::fmt::Display for SendFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
