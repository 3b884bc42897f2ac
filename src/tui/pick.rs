//! What a person can pick from a list that is laid over the screen, and what picking it does. Plain
//! data: lists, effects and screens name it, and it names none of them.

use crate::base::LogLevel;
use crate::deck::Order;
use crate::host::{RuleKind, SessionRule};
use crate::mcp::ListKind;
use crate::tui::call::export::Export;
use crate::tui::chat::port::ChatCommand;
use crate::tui::find::SearchFields;
use crate::tui::prelude::*;

/// What picking a row does.
#[derive(Clone, Debug, PartialEq)]
pub enum Pick {
    /// An action.
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
    /// Take the arguments of a call of the past into its form: the target, and the id of the call.
    Past(String, u64),
    /// Read a resource.
    Resource(ServerName, String),
    /// Send a request: `method` and `params`.
    Request(ServerName, Box<Value>),
    /// Choose further.
    Among(Ink, Vec<Choice>),
    /// Something for the call that is open.
    Call(CallPick),
    /// Use a theme.
    Theme(String),
    /// Do this to a server, whichever is selected.
    OnServer(Action, ServerName),
    /// Add a server made like this template.
    Template(usize),
    /// Answer an input of the configuration.
    Input(String),
    /// Ask something of the chat.
    Chat(ChatCommand),
    /// Turn the tour's page.
    TourPage(isize),
    /// Let the program's own log begin at this level.
    LogLevel(LogLevel),
    /// Something about requests of servers.
    Approval(ApprovalPick),
    /// Something for the engine.
    Order(Order),
}

impl Pick {
    /// How near it is to a whole name that was typed: saved calls first, then what servers offer,
    /// then whatever else fits.
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
            // What is about the selected server comes before what names another.
            Self::OnServer(_, server) if !typed.contains(server.as_str()) => 4,
            _ => 3,
        }
    }
}

/// What is chosen or typed for the call that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallPick {
    /// Copy it in this way.
    Export(Export),
    /// Take the server's suggestion.
    Suggestion(String),
    /// A line that was typed, and what for.
    Line(LinePrompt, String),
}

named! {
    /// What a line is typed for, and what is asked.
    pub enum LinePrompt {
        /// The name of a saved call.
        Name = "save under the name",
        /// What to search for in the result.
        Search = "search",
        /// The file a result is written to.
        SaveAs = "write to the file",
        /// The file that fills a field.
        File = "fill the field with the content of the file",
    }
}

/// What picking a row does about saved filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterPick {
    /// Show the traffic through the one of this name.
    Use(String),
    /// Save a filter under a name.
    Save {
        /// The name.
        name: String,
        /// The filter.
        text: String,
    },
    /// Remove the one of this name.
    Remove(String),
}

/// What picking a row does about requests of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalPick {
    /// Take this result into the draft of the answer.
    Take(Box<Value>),
    /// Fill in a call of this tool of the request.
    Tool(usize),
    /// Send the answer, and answer so many of the next ones the same way; `None` for all.
    SendNext(Option<u32>),
    /// Choose the rule for one kind of requests of a server.
    Rules(ServerName, RuleKind),
    /// Decide by this rule from now on; `None` lets the entry decide.
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
    /// One that can be chosen.
    pub const fn new(words: Ink, hint: Ink, pick: Pick) -> Self {
        Self { words, hint, pick, disabled: None }
    }

    /// What it is found by.
    pub fn fields(&self) -> SearchFields<'_> {
        let words = self.words.as_str();
        match &self.pick {
            Pick::Offer(_, _, wire) => SearchFields { name: wire, context: words, text: "" },
            _ => SearchFields { name: words, context: self.hint.as_str(), text: "" },
        }
    }
}
