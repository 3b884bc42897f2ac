//! What panes and screens ask of the dashboard itself. I/O is an [`Effect`], which the dashboard
//! passes on.

use crate::effect::Effect;
use crate::model::Todo;
use crate::pick::{Choice, LinePrompt, Pick};
use crate::prelude::*;
use crate::result::ResultFile;
use crate::suites::SuiteCommand;
use deck::SavedCall;
use protocol::ListKind;

/// Something for the dashboard to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Intent {
    /// Leave the screen.
    Close,
    /// Do what was picked from a list.
    Pick(Pick),
    /// Let the user choose.
    Choose(Ink, Vec<Choice>),
    /// Ask the user for a line of text; the string is its initial value.
    AskLine(LinePrompt, String),
    /// Ask again for a line that could not be used as it was typed, and say why.
    AskLineAgain(LinePrompt, String, SafeText),
    /// Ask the user for the file that this is written to; the string is its initial value.
    AskFile(String, ResultFile),
    /// Open an item that waits for the user.
    Open(Todo),
    /// Open an entry of a server's list to call, get or read it.
    OpenEntry(ServerName, ListKind, Arc<str>),
    /// Open the form of a call, filled in.
    FillCall(Box<SavedCall>),
    /// Have the bench do something.
    Suites(SuiteCommand),
    /// Show a resource of the server whose call screen is open.
    OpenResource(String),
    /// Have this side effect carried out.
    Perform(Effect),
}

impl From<Effect> for Intent {
    fn from(effect: Effect) -> Self {
        Self::Perform(effect)
    }
}
