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
    /// A command of the file picker.
    Picker(PickerCommand),
}

/// How often the mouse was pressed at one place, shortly after one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clicks {
    /// Once.
    One,
    /// Twice.
    Two,
}

/// What a person wants of the file picker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickerCommand {
    /// Into the folder, or takes the file, or goes to the path that is typed.
    Enter,
    /// Takes the path of what is selected, a folder too.
    PickPath,
    /// Into the folder that is selected.
    Into,
    /// To the folder above.
    Up,
    /// Rows up (negative) or down.
    Step(isize),
    /// Pages up (negative) or down.
    Page(isize),
    /// To the first row.
    Top,
    /// To the last row.
    Bottom,
    /// Lists names that begin with a dot, or leaves them out.
    Hidden,
    /// The path or the content of the file.
    Take,
    /// Closes it.
    Close,
}
