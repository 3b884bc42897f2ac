//! A model whose key comes from a helper program and lasts for a while, as the access tokens of clouds
//! do: when it is refused, the helper is asked for another one, once.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::llm::{
    LanguageModel, LlmError, LlmErrorKind, ModelPrice, ModelPrompt, OnDelta, PendingReply,
};
use crate::provider::ProviderModel;
use base::text::SafeText;

/// Makes the model with the key that the helper prints now. May block.
pub(crate) type MakeModel = Box<dyn FnMut() -> Result<ProviderModel, String> + Send>;

/// A model that gets its key anew.
pub(crate) struct RenewedModel {
    name: String,
    make: Arc<Mutex<MakeModel>>,
    model: Mutex<Arc<ProviderModel>>,
}

impl fmt::Debug for RenewedModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RenewedModel").field("name", &self.name).finish_non_exhaustive()
    }
}

impl RenewedModel {
    /// A model that `make` makes again.
    pub(crate) fn new(model: ProviderModel, make: MakeModel) -> Self {
        let (name, make) = (model.name().to_owned(), Arc::new(Mutex::new(make)));
        Self { name, make, model: Mutex::new(Arc::new(model)) }
    }

    fn model(&self) -> Arc<ProviderModel> {
        Arc::clone(&self.model.lock())
    }

    /// Makes the model again.
    async fn renew(&self) -> Result<Arc<ProviderModel>, String> {
        let make = Arc::clone(&self.make);
        let made = tokio::task::spawn_blocking(move || make.lock()()).await;
        let model = Arc::new(made.map_err(|error| error.to_string())??);
        *self.model.lock() = Arc::clone(&model);
        tracing::info!(target: "mcpdeck::chat", action = "key renewed", model = %self.name);
        Ok(model)
    }
}

impl LanguageModel for RenewedModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> String {
        self.model().identity()
    }

    fn context(&self) -> u64 {
        self.model().context()
    }

    fn prepare(&self) -> BoxFuture<'_, ()> {
        let model = self.model();
        Box::pin(async move { model.prepare().await })
    }

    fn price(&self) -> Option<ModelPrice> {
        self.model().price()
    }

    fn takes(&self, mime: &str) -> bool {
        self.model().takes(mime)
    }

    fn is_fenced(&self) -> bool {
        self.model().is_fenced()
    }

    fn reply<'a>(&'a self, prompt: &'a ModelPrompt, on: OnDelta<'a>) -> PendingReply<'a> {
        Box::pin(async move {
            let model = self.model();
            let refused = match model.reply(prompt, on).await {
                Err(error) if error.kind == LlmErrorKind::Unauthorized => error,
                answered => return answered,
            };
            match self.renew().await {
                Ok(model) => model.reply(prompt, on).await,
                Err(why) => {
                    let message = format!("{}; no other key: {why}", refused.message);
                    Err(LlmError { message: SafeText::cut(&message, 400), ..refused })
                }
            }
        })
    }
}
