//! What a person can want on the call screen.

use crate::tui::form::FormCommand;
use crate::tui::result::ResultCommand;

/// What a person wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallCommand {
    /// Make the call; asks when the form has problems.
    Call,
    /// Make it past validation, on purpose.
    Force,
    /// Cancel the call that is shown.
    Cancel,
    /// Make the call that is shown once more, as it was.
    Again,
    /// Take what was sent with the call that is shown into the form, to change and send it.
    EditAgain,
    /// From the form to the result and back.
    Switch,
    /// Edit this field, or the JSON, in `$EDITOR`.
    Editor,
    /// Choose among calls of the past.
    History,
    /// Choose among saved calls of this target.
    Saved,
    /// Save this call under a name.
    SaveCall,
    /// Choose how to copy the call.
    CopyCall,
    /// Fill the field from a file.
    File,
    /// Take the server's suggestion.
    Suggest,
    /// Show the call before, or after, the one that is shown.
    Older,
    /// See [`CallCommand::Older`].
    Newer,
    /// Compare with the answered call before.
    Compare,
    /// Search the result.
    Search,
    /// Subscribe to the resource, or end it.
    Subscribe,
    /// Out of the topmost thing; leaves the screen at last.
    Back,
    /// A command of the form.
    Form(FormCommand),
    /// A command of the result.
    Result(ResultCommand),
}
