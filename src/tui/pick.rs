//! What the user can pick from a list over the screen, and what picking it does. Plain data: used
//! by lists, effects and screens, and depends on none of them.

use crate::action::ServerAction;
use crate::call::export::Export;
use crate::chat::port::ChatCommand;
use crate::find::SearchFields;
use crate::prelude::*;
use base::LogLevel;
use base::text::json::WrittenValue;
use deck::Order;
use host::{RuleKind, SessionRule};
use protocol::ListKind;

/// What picking a row does.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    Action(Action),
    /// Narrow everything to a server.
    Server(ServerName),
    /// Something about the saved filters.
    Filter(FilterPick),
    /// Open a saved call.
    SavedCall(String),
    /// Make a saved call.
    MakeCall(String),
    /// Fill in a call of what a server offers: its list, and the name or URI there.
    Offer(ServerName, ListKind, Arc<str>),
    /// Fill a form with the arguments of an earlier call: the target, and the id of the call.
    Past(String, u64),
    /// Read a resource.
    Resource(ServerName, String),
    /// Send a request: `method` and `params`.
    Request(ServerName, Box<Value>),
    /// Show another list.
    Among(Ink, Vec<Choice>),
    /// Something for the open call.
    Call(CallPick),
    /// Choose in which form messages are handed on.
    ShareMessages(Box<SharedMessage>),
    /// Copy this text.
    CopyText(String),
    /// Compare the tools of a server with those of another one, or with the lock file.
    Compared(ServerName, Option<ServerName>),
    /// Compare definitions with those of this recording.
    Recording(String),
    /// Use a theme.
    Theme(String),
    /// Command a server, whichever one is selected.
    OnServer(ServerAction, ServerName),
    /// Show the diagnostics of a server.
    Diagnostics(ServerName),
    /// Explain what is wrong with a server.
    Why(ServerName),
    /// Copy the entry of a server.
    CopyEntry(ServerName),
    /// Add a server from this template.
    Template(usize),
    /// Answer an input of the configuration.
    Input(String),
    /// Send a command to the chat.
    Chat(ChatCommand),
    /// Set the minimum level of the program's own log.
    LogLevel(LogLevel),
    /// Something about requests of servers.
    Approval(ApprovalPick),
    /// Something for the engine.
    Order(Order),
}

impl Pick {
    /// Rank of an item for a fully typed name: saved calls first, then what servers offer and actions,
    /// then everything else.
    pub fn rank(&self, typed: &str) -> u8 {
        match self {
            Self::MakeCall(name) if name.eq_ignore_ascii_case(typed) => 0,
            Self::SavedCall(name) if name.eq_ignore_ascii_case(typed) => 1,
            Self::Offer(server, _, wire)
                if **wire == *typed
                    || typed
                        .strip_prefix(server.as_str())
                        .and_then(|rest| rest.strip_prefix('.'))
                        .is_some_and(|rest| rest == &**wire) =>
            {
                2
            }
            Self::Action(action) if action.id().eq_ignore_ascii_case(typed) => 2,
            // Actions on the selected server rank before those that name another one.
            Self::OnServer(_, server) | Self::Diagnostics(server)
                if !typed.contains(server.as_str()) =>
            {
                4
            }
            _ => 3,
        }
    }
}

/// A message that is handed on, alone or with the others that are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedMessage {
    pub server: ServerName,
    /// The whole message.
    pub body: String,
    /// The request that it is, or answers, unless that is not whole any more.
    pub request: Option<WrittenValue>,
    /// Which messages are meant by all of them.
    pub all: Ink,
}

/// What is chosen or typed for the open call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPick {
    /// Copy it in this way.
    Export(Export),
    /// Copy the entry of its server, for the `mcp.json` of another program.
    Entry,
    /// Write one HTML page with the call and its result.
    Page,
    /// Copy the value under the cursor of the result.
    Value,
    /// Copy the whole result.
    Whole,
    /// Take the server's suggestion.
    Suggestion(String),
    /// A typed line, and its purpose.
    Line(LinePrompt, String),
}

named! {
    /// The purpose of a typed line, with the text of the prompt.
    pub enum LinePrompt {
        /// The name of a saved call.
        Name = "save under the name",
        /// What to search for in the result.
        Search = "search",
        /// The file that fills a field.
        File = "fill the field with the content of the file",
    }
}

/// What picking a row does about saved filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterPick {
    /// Filter the traffic by the one with this name.
    Use(String),
    /// Save a filter under a name.
    Save {
        name: String,
        /// The filter.
        text: String,
    },
    /// Remove the one with this name.
    Remove(String),
}

/// What picking a row does about requests of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalPick {
    /// Copy this result into the draft of the answer.
    Take(Box<Value>),
    /// Fill in a call of this tool of the request.
    Tool(usize),
    /// Send the answer, and answer this many of the next ones the same way; `None` for all.
    SendNext(Option<u32>),
    /// Send the answer, and give the same one to the others of its kind that wait.
    SendOthers,
    /// Choose the rule for one kind of requests of a server.
    Rules(ServerName, RuleKind),
    /// Decide by this rule from now on; `None` lets the server's entry decide.
    Rule(ServerName, RuleKind, Option<SessionRule>),
    /// Change the roots shared with a server.
    Roots(ServerName),
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// What it does, in words.
    pub words: Ink,
    /// Its key, or what kind of thing it is.
    pub hint: Ink,
    /// What picking it does.
    pub pick: Pick,
    /// Why it cannot be picked now.
    pub disabled: Option<Ink>,
}

impl Choice {
    /// A choice that can be picked.
    pub const fn new(words: Ink, hint: Ink, pick: Pick) -> Self {
        Self { words, hint, pick, disabled: None }
    }

    /// The texts it is searched by.
    pub fn fields(&self) -> SearchFields<'_> {
        let words = self.words.as_str();
        match &self.pick {
            Pick::Offer(_, _, wire) => SearchFields { name: wire, context: words, text: "" },
            _ => SearchFields { name: words, context: self.hint.as_str(), text: "" },
        }
    }
}
