//! Commands from the dashboard to the chat task, and the news it sends back.

use tokio::sync::mpsc;

use crate::prelude::*;
use host::Host;

/// A command to the chat task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChatCommand {
    /// Send this message, replacing the message with this index if one is given.
    Say(String, Option<usize>),
    /// Stop the turn.
    Abort,
    /// Cancel this call; the turn goes on.
    CancelCall(String),
    /// List the available choices.
    List(Choose),
    /// List the conversations that hold these words; `None` asks for them.
    Find(Option<String>),
    /// Give the open conversation this name; `None` asks for it.
    Rename(Option<String>),
    /// Delete the open conversation.
    Delete,
    /// Continue this conversation, or start a new one.
    Open(Option<String>),
    /// Continue in a copy of this conversation, cut before the message with this index if given.
    Branch(Option<usize>),
    /// Use this model, starting with the next turn.
    Model(String),
    /// Use this policy profile, starting with the next turn; `None` names none.
    Profile(Option<String>),
    /// Send the system prompt and the cost of each server.
    Prompt,
}

named! {
    /// The kinds of choices, with the titles of their lists.
    pub enum Choose {
        Conversation = "conversations",
        Deletion = "delete this conversation?",
        Model = "models",
        /// A profile of the policy.
        Profile = "profiles",
    }
}

/// News from the chat task to the dashboard.
#[derive(Clone, Debug)]
pub enum ChatNews {
    /// An event, as an object of `mcpdeck help chat`.
    Event(Value),
    /// This conversation was opened.
    Opened {
        /// The model and the profile, for display.
        with: SafeText,
        /// Its content so far, as events.
        events: Vec<Value>,
        /// Whether a turn is in progress.
        busy: bool,
        /// Messages to try; none where the servers suggest some.
        suggestions: Vec<SafeText>,
    },
    /// The model or the profile changed.
    With(SafeText),
    /// The available choices.
    Choices(Choose, Vec<(SafeText, ChatCommand)>),
    /// The system prompt, costs per server as in the event `done`, context window in tokens.
    Prompt(SafeText, Value, u64),
    /// This message of the user was not sent.
    Unsent(String),
    /// A command failed.
    Failed(SafeText),
}

/// Opens the chat once the engine runs; returns the channel for commands.
pub type OpenChat =
    Arc<dyn Fn(Host, mpsc::Sender<ChatNews>) -> Option<mpsc::Sender<ChatCommand>> + Send + Sync>;
