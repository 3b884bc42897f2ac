//! Where a model comes in: it may draft the answer to a request, and a person still approves it.
//!
//! A drafter never answers. What it gives is shown as a draft that the person edits, sends or
//! throws away; the host passes it on to nobody.

use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::base::text::SafeText;
use crate::host::approvals::PendingRequest;

/// Something that drafts answers: a model, a script, another program.
///
/// Registered with [`crate::host::HostBuilder::drafter`] or [`crate::Host::set_drafter`]; asked by
/// [`crate::Host::draft`] when a person wants a draft, never by itself.
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
        request: Arc<PendingRequest>,
        params: Arc<Value>,
    ) -> BoxFuture<'static, Result<Value, String>>;
}

impl<D: Drafter + ?Sized> Drafter for Arc<D> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn draft(
        &self,
        request: Arc<PendingRequest>,
        params: Arc<Value>,
    ) -> BoxFuture<'static, Result<Value, String>> {
        (**self).draft(request, params)
    }
}

/// A draft and who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Drafted {
    /// The drafter's name.
    pub by: SafeText,
    /// The result it proposes.
    pub result: Value,
}
