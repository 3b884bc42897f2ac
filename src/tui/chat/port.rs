//! Commands of the dashboard to the task that talks to the model, and the events it sends back.

use tokio::sync::mpsc;

use crate::host::Host;
use crate::tui::prelude::*;

/// What the person wants of the chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatCommand {
    /// Send this message; in place of the message of this number, when one is given.
    Say(String, Option<usize>),
    /// Stop the turn.
    Abort,
    /// Cancel this call; the turn goes on.
    CancelCall(String),
    /// List what there is to choose from.
    List(Choose),
    /// Go on with this conversation; a new one when none is named.
    Open(Option<String>),
    /// Go on with a copy of this conversation, before its message of this number when one is given.
    Branch(Option<usize>),
    /// Use this model from the next turn on.
    Model(String),
    /// Act under this profile of the policy from the next turn on; as the person when none is named.
    Profile(Option<String>),
    /// Send the system prompt and what each server costs.
    Prompt,
}

named! {
    /// What is chosen, as the title of the list has it.
    pub enum Choose {
        /// A conversation.
        Conversation = "conversations",
        /// A model.
        Model = "models",
        /// A profile of the policy.
        Profile = "profiles",
    }
}

/// What comes back to the dashboard.
#[derive(Clone, Debug)]
pub enum ChatNews {
    /// Something happened: an object of `mcpdeck help chat`.
    Event(Value),
    /// This conversation is open now.
    Opened {
        /// The model and the profile, to show.
        with: SafeText,
        /// What was said and done in it, as events.
        events: Vec<Value>,
        /// Whether a turn is under way.
        busy: bool,
    },
    /// The model or the profile is another.
    With(SafeText),
    /// What there is to choose from.
    Choices(Choose, Vec<(SafeText, ChatCommand)>),
    /// The system prompt; what each server costs, as in the event `done`; tokens the model takes.
    Prompt(SafeText, Value, u64),
    /// Something could not be done.
    Failed(SafeText),
}

/// Opens the chat once the engine runs; gives where commands go.
pub type OpenChat =
    Arc<dyn Fn(Host, mpsc::Sender<ChatNews>) -> Option<mpsc::Sender<ChatCommand>> + Send + Sync>;
