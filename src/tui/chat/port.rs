//! What the dashboard asks of whoever talks with the model.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;

use crate::base::text::SafeText;
use crate::host::Host;

/// What the person wants of the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatCommand {
    /// Say this; instead of the message of this number, when one is given.
    Say(String, Option<usize>),
    /// Stop the turn.
    Abort,
}

/// Whoever talks with the model.
pub trait Chat: Send + Sync {
    /// The model.
    fn model(&self) -> SafeText;
    /// Does what the person wants.
    fn command(&self, command: ChatCommand);
}

/// Opens the chat once the engine runs; events go to the channel, as the JSON objects of
/// `mcpdeck help chat`.
pub type OpenChat = Arc<dyn Fn(Host, mpsc::Sender<Value>) -> Option<Arc<dyn Chat>> + Send + Sync>;
