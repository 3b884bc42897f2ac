//! Requests from servers to the host: their data, deciders and outcomes.

pub mod queue;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use base::{SafeText, ServerName, Timestamp};
use config::ApprovalRule;
use protocol::{Answer, ApprovalId, CallId, InputPlace, RequestKind};

/// An open request from a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Its id.
    pub id: ApprovalId,
    /// The server that sent it.
    pub server: ServerName,
    /// The kind of request.
    pub kind: RequestKind,
    /// The call during which it was sent, if known.
    pub call: Option<CallId>,
    /// The calls of which one caused it, when the protocol does not say which. Without `call` they
    /// are those of several callers, and the request is nobody's but the operator's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<CallId>,
    /// The target of that call, for display; of each, when it is one of several.
    pub during: Option<SafeText>,
    /// `params` exactly as sent.
    pub params: Arc<Value>,
    /// Size of the parameters in bytes.
    pub bytes: usize,
    /// When it arrived.
    pub arrived: Timestamp,
    /// When it times out ([`config::WireLimits::max_waiting`]).
    pub deadline: Timestamp,
    /// Whether it came as `input_required` (2026-07-28 and later), without an open request.
    pub deferred: bool,
    /// Which input of that result it is, if deferred.
    #[serde(skip)]
    pub input: Option<InputPlace>,
}

/// Who or what decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decider {
    /// The user.
    Person,
    /// The registered callback.
    Callback,
    /// A rule of the configuration or of the session, by its description.
    Rule(String),
    /// None: refused by default.
    Nobody,
}

/// How a pending request ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Settlement {
    /// Answered; the answer was sent.
    Answered {
        /// Who decided.
        by: Decider,
        /// Short description: `result`, `accept`, `decline`, `cancel`, or `refused: ...`.
        how: String,
    },
    /// Withdrawn before an answer: the server cancelled, died or stopped, or it timed out.
    Withdrawn {
        /// Why.
        reason: SafeText,
    },
}

/// The application's handler for requests from servers, in both eras.
///
/// Implemented for async closures:
///
/// ```
/// use std::sync::Arc;
/// use mcpdeck_host::Host;
/// use mcpdeck_host::ApprovalRequest;
/// use protocol::{Answer, RequestKind};
/// use serde_json::json;
///
/// let builder = Host::builder().handler(|request: Arc<ApprovalRequest>| async move {
///     match request.kind {
///         RequestKind::Elicitation => Some(Answer::Result(json!({"action": "decline"}))),
///         _ => None,
///     }
/// });
/// ```
///
/// The future may take minutes; the timeout of the waiting call is suspended meanwhile. When
/// `withdrawn` fires, the answer is no longer needed and the future is dropped.
pub trait RequestHandler: Send + Sync + 'static {
    /// Answers one request. With `None` the request is passed on to the user, or refused as the
    /// specification requires.
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        withdrawn: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>>;
}

impl<F, R> RequestHandler for F
where
    F: Fn(Arc<ApprovalRequest>) -> R + Send + Sync + 'static,
    R: Future<Output = Option<Answer>> + Send + 'static,
{
    fn handle(
        &self,
        request: Arc<ApprovalRequest>,
        _: CancellationToken,
    ) -> BoxFuture<'static, Option<Answer>> {
        Box::pin(self(request))
    }
}

/// Reaches the user who is with a caller (at its terminal, at its page): for consent to its calls, and
/// with what servers ask during them (sampling, elicitation). A dashboard is asked at the same time,
/// and the first answer counts. With `None` the user leaves a request to others.
#[derive(Clone)]
pub struct Asker(pub Arc<dyn RequestHandler>);

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asker")
    }
}

/// How far a consent to a call reaches: the word `for` of an answer with `"action": "accept"`.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "camelCase")]
#[strum(serialize_all = "camelCase")]
#[non_exhaustive]
pub enum ConsentReach {
    /// This call alone.
    #[default]
    Once,
    /// Every call of the tool in the caller's session.
    Session,
    /// Every call of the tool as it is now, also in later sessions: a grant that is kept.
    Always,
}

impl ConsentReach {
    /// The spelling in an answer.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// A session rule: decides requests of one kind without asking. Set by the user at run time;
/// not persisted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRule {
    /// The decision; [`ApprovalRule::Ask`] overrides an entry that denies or has a canned answer.
    pub rule: ApprovalRule,
    /// Number of requests left to decide; `None` means until it is removed.
    pub left: Option<u32>,
}

/// Kinds of requests that share a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RuleKind {
    /// `sampling/createMessage`
    Sampling,
    /// `elicitation/create`, both modes
    Elicitation,
}

impl RuleKind {
    /// The rule kind that covers `kind`, if any.
    pub const fn from_request_kind(kind: &RequestKind) -> Option<Self> {
        match kind {
            RequestKind::Sampling => Some(Self::Sampling),
            RequestKind::Elicitation | RequestKind::UrlElicitation => Some(Self::Elicitation),
            _ => None,
        }
    }

    /// The method whose requests it covers.
    pub const fn method(self) -> &'static str {
        match self {
            Self::Sampling => "sampling/createMessage",
            Self::Elicitation => "elicitation/create",
        }
    }
}

impl fmt::Display for Decider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person => f.write_str("a person"),
            Self::Callback => f.write_str("the registered callback"),
            Self::Rule(rule) => write!(f, "a rule ({rule})"),
            Self::Nobody => f.write_str("nobody"),
        }
    }
}

impl fmt::Display for Settlement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answered { by, how } if how.as_str() == "result" => {
                write!(f, "answered by {by},")
            }
            Self::Answered { by, how } => write!(f, "answered by {by}: {how},"),
            Self::Withdrawn { reason } => write!(f, "withdrawn: {reason},"),
        }
    }
}

impl fmt::Display for SessionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.rule {
            ApprovalRule::Ask => "ask",
            ApprovalRule::Deny => "deny",
            ApprovalRule::Canned(_) => "a canned answer",
        })?;
        match self.left {
            Some(left) => write!(f, ", the next {left}"),
            None => Ok(()),
        }
    }
}

// Drafts: a model may draft the answer to a request, which the user still has to approve.
//
// A drafter never answers a request. Its result is displayed as a draft that the user edits, sends
// or discards.

/// Drafts answers: a model, a script, another program.
///
/// Registered with [`crate::Host::set_drafter`]; called by [`crate::Host::draft`] on request of the
/// user, never automatically.
///
/// ```
/// use std::sync::Arc;
/// use futures::future::BoxFuture;
/// use mcpdeck_host::{ApprovalRequest, Drafter};
/// use serde_json::{Value, json};
///
/// struct Parrot;
///
/// impl Drafter for Parrot {
///     fn name(&self) -> &str {
///         "parrot"
///     }
///
///     fn draft(
///         &self,
///         _request: Arc<ApprovalRequest>,
///         params: Arc<Value>,
///     ) -> BoxFuture<'static, Result<Value, String>> {
///         let heard = params["messages"][0]["content"]["text"].clone();
///         Box::pin(async move {
///             Ok(json!({"role": "assistant", "model": "parrot", "stopReason": "endTurn",
///                 "content": {"type": "text", "text": heard}}))
///         })
///     }
/// }
/// ```
pub trait Drafter: Send + Sync + 'static {
    /// Its name, displayed with its drafts.
    fn name(&self) -> &str;

    /// Drafts the `result` for a request: a `CreateMessageResult`, or the `content` of a form.
    ///
    /// `params` are the request's parameters as edited by the user; `request` is what the server
    /// sent. The future is dropped when the request is withdrawn.
    ///
    /// # Errors
    /// A message for the user.
    fn draft(
        &self,
        request: Arc<ApprovalRequest>,
        params: Arc<Value>,
    ) -> BoxFuture<'static, Result<Value, String>>;
}

/// A draft and its author.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafted {
    /// The drafter's name.
    pub by: SafeText,
    /// The result it proposes.
    pub result: Value,
}
