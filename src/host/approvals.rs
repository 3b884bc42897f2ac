//! Requests of servers to their host (requirements S1, S2): what waits, who answers, and how.

pub mod queue;

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::base::{SafeText, ServerName, Timestamp};
use crate::config::ApprovalRule;
use crate::mcp::{Answer, ApprovalId, CallId, InputPlace, RequestKind};

/// A request of a server that is open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// Its id.
    pub id: ApprovalId,
    /// Who asks.
    pub server: ServerName,
    /// What for.
    pub kind: RequestKind,
    /// The call during which it asks, when known.
    pub call: Option<CallId>,
    /// That call's target, to show.
    pub during: Option<SafeText>,
    /// `params` exactly as sent.
    pub params: Arc<Value>,
    /// Size of the parameters in bytes.
    pub bytes: usize,
    /// When it arrived.
    pub arrived: Timestamp,
    /// When the host gives up on it ([`crate::config::WireLimits::max_waiting`]).
    pub deadline: Timestamp,
    /// Whether it came as `input_required` (2026-07-28 and later) and nothing is open meanwhile.
    pub deferred: bool,
    /// Which input of its result it is then.
    #[serde(skip)]
    pub input: Option<InputPlace>,
}

/// Who or what decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Decider {
    /// A person at the dashboard.
    Person,
    /// The registered callback.
    Callback,
    /// A rule of the configuration or of the session, by its words.
    Rule(String),
    /// Nobody: refused by default or withdrawn.
    Nobody,
}

/// How a pending request ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Settlement {
    /// Answered; the answer went out.
    Answered {
        /// Who decided.
        by: Decider,
        /// Short word for the record: `result`, `accept`, `decline`, `cancel`, `refused`.
        how: String,
    },
    /// Withdrawn before an answer: the server cancelled, died, stopped, or time ran out.
    Withdrawn {
        /// Why.
        reason: SafeText,
    },
}

/// The application's answer to servers (requirement S1). One registration serves both eras.
///
/// An async closure is one:
///
/// ```
/// use std::sync::Arc;
/// use mcpdeck::Host;
/// use mcpdeck::host::PendingRequest;
/// use mcpdeck::mcp::{Answer, RequestKind};
/// use serde_json::json;
///
/// let builder = Host::builder().handler(|request: Arc<PendingRequest>| async move {
///     match request.kind {
///         RequestKind::Elicitation => Some(Answer::Result(json!({"action": "decline"}))),
///         _ => None,
///     }
/// });
/// ```
///
/// The future may take minutes; the deadline of the call that waits for it stands still. When
/// `withdrawn` fires the answer is no longer wanted and the future is dropped.
pub trait RequestHandler: Send + Sync + 'static {
    /// Answers one request. `None` means "nobody here can": it is refused as the specification
    /// says.
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

/// A rule of this session: how the next requests of one kind are decided without asking. Set by a
/// person while the deck runs; forgotten when it ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionRule {
    /// What is done; [`ApprovalRule::Ask`] overrules an entry that denies or answers by itself.
    pub rule: ApprovalRule,
    /// How many more requests it decides; `None` until it is taken back.
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
    /// The rule that covers `kind`, when one can.
    pub const fn of(kind: &RequestKind) -> Option<Self> {
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

// Where a model comes in: it may draft the answer to a request, and a person still approves it.
//
// A drafter never answers. What it gives is shown as a draft that the person edits, sends or
// throws away; the host passes it on to nobody.

/// Something that drafts answers: a model, a script, another program.
///
/// Registered with [`crate::Host::set_drafter`]; asked by [`crate::Host::draft`] when a person wants
/// a draft, never by itself.
///
/// ```
/// use std::sync::Arc;
/// use futures::future::BoxFuture;
/// use mcpdeck::host::approvals::{Drafter, PendingRequest};
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
///         _request: Arc<PendingRequest>,
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
    /// What it is called, to show beside its drafts.
    fn name(&self) -> &str;

    /// Drafts the `result` for a request: a `CreateMessageResult`, or the `content` of a form.
    ///
    /// `params` are the request's parameters as the person edited them; `request` is what the
    /// server sent. The future is dropped when the request is withdrawn.
    ///
    /// # Errors
    /// In words for the person.
    fn draft(
        &self,
        request: Arc<ApprovalRequest>,
        params: Arc<Value>,
    ) -> BoxFuture<'static, Result<Value, String>>;
}

/// A draft and who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafted {
    /// The drafter's name.
    pub by: SafeText,
    /// The result it proposes.
    pub result: Value,
}
