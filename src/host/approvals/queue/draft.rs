//! Drafts of a registered model: asked for by a person, given to that person, sent to nobody.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use serde_json::Value;

use super::{ApprovalQueue, closed, panic_text};
use crate::base::text::SafeText;
use crate::error::{Error, ErrorCode};
use crate::host::approvals::{Drafted, Drafter};
use crate::mcp::ApprovalId;

impl ApprovalQueue {
    /// Registers what drafts answers.
    pub fn set_drafter(&self, drafter: Option<Arc<dyn Drafter>>) {
        *self.drafter.write() = drafter;
    }

    /// The name of what drafts answers, when something does.
    pub fn drafter_name(&self) -> Option<SafeText> {
        self.drafter().map(|drafter| SafeText::line(drafter.name()))
    }

    fn drafter(&self) -> Option<Arc<dyn Drafter>> {
        self.drafter.read().clone()
    }

    /// Asks for a draft of the answer to a request that waits for a person.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] without a drafter, [`ErrorCode::Cancelled`] when the request is
    /// no longer open or is withdrawn meanwhile, [`ErrorCode::Internal`] with the drafter's words.
    pub async fn draft(
        &self,
        id: ApprovalId,
        params: Option<Arc<Value>>,
    ) -> Result<Drafted, Error> {
        let missing = || Error::new(ErrorCode::Configuration, "no model is registered to draft");
        let drafter = self.drafter().ok_or_else(missing)?;
        let (request, mut patience) = {
            let inner = self.lock();
            let waiting = inner.waiting.get(&id).ok_or_else(|| closed(id))?;
            (Arc::clone(&waiting.request), waiting.patience.subscribe())
        };
        let params = params.unwrap_or_else(|| Arc::clone(&request.params));
        let failed = |why: &str| Error::new(ErrorCode::Internal, format!("no draft: {why}"));
        let drafting = AssertUnwindSafe(async { drafter.draft(request, params).await });
        let over = async { while patience.changed().await.is_ok() {} };
        tokio::select! {
            biased;
            // The sender goes with the request.
            () = over => Err(closed(id)),
            drafted = drafting.catch_unwind() => match drafted {
                Ok(Ok(result)) => Ok(Drafted { by: SafeText::line(drafter.name()), result }),
                Ok(Err(why)) => Err(failed(&why)),
                Err(panic) => Err(failed(&panic_text(&*panic))),
            }
        }
    }
}
