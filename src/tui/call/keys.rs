//! The keys of the call screen, as rows for the key table: dispatch, footer, help, `--keys` and the
//! README are made from it.

use super::command::{CallCommand as C, PickerCommand as P};
use crate::tui::form::FormCommand as F;
use crate::tui::result::ResultCommand as R;

/// Where a key means something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// On the whole screen.
    Anywhere,
    /// In the form; letters are typed, so these have a modifier or are no letters.
    Form,
    /// In the form, on lines that take no text.
    FormLine,
    /// In the result.
    Result,
    /// In the file picker; letters are typed.
    Picker,
}

/// One key.
pub struct KeyRow {
    /// Where.
    pub place: Where,
    /// The chord: `ctrl-n`, `alt-up`, `f5`, `x`.
    pub chord: &'static str,
    /// What it does.
    pub command: C,
    /// A word for the footer; empty when it is not shown there.
    pub footer: &'static str,
    /// A sentence for the help.
    pub help: &'static str,
}

const fn row(
    place: Where,
    chord: &'static str,
    command: C,
    footer: &'static str,
    help: &'static str,
) -> KeyRow {
    KeyRow { place, chord, command, footer, help }
}

use Where::{Anywhere, Form, FormLine, Picker, Result};

/// Every key of the call screen.
pub const KEYS: &[KeyRow] = &[
    row(Anywhere, "f5", C::Call, "call", "Make the call"),
    row(Anywhere, "ctrl-r", C::Call, "", "Make the call"),
    row(Anywhere, "f8", C::Force, "", "Call without validation, to test the server"),
    row(Anywhere, "ctrl-x", C::Cancel, "cancel", "Cancel the running call; the server is told"),
    row(Anywhere, "f6", C::Switch, "result", "Between form and result"),
    row(Anywhere, "ctrl-t", C::History, "history", "History of calls"),
    row(Anywhere, "f3", C::Saved, "", "Saved calls"),
    row(Anywhere, "ctrl-s", C::SaveCall, "save", "Save this call under a name"),
    row(Anywhere, "ctrl-y", C::CopyCall, "", "Copy the call: command line, JSON-RPC, Rust"),
    row(Anywhere, "esc", C::Back, "back", "Back"),
    row(Form, "tab", C::Form(F::Next), "", "Next line"),
    row(Form, "backtab", C::Form(F::Previous), "", "Previous line"),
    row(Form, "down", C::Form(F::Next), "", "Next line"),
    row(Form, "up", C::Form(F::Previous), "", "Previous line"),
    row(
        Form,
        "enter",
        C::Form(F::Enter),
        "",
        "Into the line: fold, choose, add; or on to the next",
    ),
    row(Form, "ctrl-n", C::Form(F::NextProblem), "next problem", "Go to the next problem"),
    row(Form, "f4", C::Form(F::Json), "JSON", "The whole value as JSON: open, leave, close"),
    row(Form, "alt-j", C::Form(F::AsJson), "", "This field as JSON, or as fields again"),
    row(Form, "ctrl-o", C::Editor, "editor", "This field, or the JSON, in $EDITOR"),
    row(Form, "ctrl-f", C::File, "", "Fill this field from a file"),
    row(Form, "alt-u", C::Form(F::Unset), "", "Unset the value"),
    row(Form, "alt-n", C::Form(F::Null), "", "Set null"),
    row(Form, "alt-e", C::Form(F::Empty), "", "Set the empty text, list or object"),
    row(Form, "insert", C::Form(F::Add), "add", "Add an item or entry"),
    row(Form, "alt-a", C::Form(F::Add), "", "Add an item or entry"),
    row(Form, "ctrl-delete", C::Form(F::Remove), "", "Remove this item or entry"),
    row(Form, "alt-x", C::Form(F::Remove), "", "Remove this item or entry"),
    row(Form, "alt-d", C::Form(F::Duplicate), "", "Duplicate this item"),
    row(Form, "alt-up", C::Form(F::MoveUp), "", "Move this item up"),
    row(Form, "alt-down", C::Form(F::MoveDown), "", "Move this item down"),
    row(Form, "ctrl-up", C::Form(F::StepUp), "", "One step more"),
    row(Form, "ctrl-down", C::Form(F::StepDown), "", "One step less"),
    row(Form, "alt-r", C::Form(F::Rename), "", "Rename this entry"),
    row(Form, "alt-z", C::Form(F::Undo), "", "Undo"),
    row(Form, "ctrl-7", C::Form(F::Undo), "", "Undo"),
    row(Form, "ctrl-space", C::Suggest, "", "Take the server's suggestion"),
    row(Form, "pageup", C::Form(F::First), "", "First line"),
    row(Form, "pagedown", C::Form(F::Last), "", "The line that calls"),
    row(FormLine, "space", C::Form(F::Toggle), "", "Toggle"),
    row(FormLine, "left", C::Form(F::Fold), "", "Fold"),
    row(FormLine, "right", C::Form(F::Unfold), "", "Unfold"),
    row(FormLine, "delete", C::Form(F::Unset), "", "Unset the value"),
    row(FormLine, "backspace", C::Form(F::Unset), "", "Unset the value"),
    row(Result, "j", C::Result(R::Scroll(1)), "", "Down"),
    row(Result, "down", C::Result(R::Scroll(1)), "", "Down"),
    row(Result, "k", C::Result(R::Scroll(-1)), "", "Up"),
    row(Result, "up", C::Result(R::Scroll(-1)), "", "Up"),
    row(Result, "pagedown", C::Result(R::Page(1)), "", "A page down"),
    row(Result, "space", C::Result(R::Page(1)), "", "A page down"),
    row(Result, "pageup", C::Result(R::Page(-1)), "", "A page up"),
    row(Result, "g", C::Result(R::Top), "", "To the start"),
    row(Result, "home", C::Result(R::Top), "", "To the start"),
    row(Result, "G", C::Result(R::Bottom), "", "To the end"),
    row(Result, "end", C::Result(R::Bottom), "", "To the end"),
    row(Result, "h", C::Result(R::Fold), "", "Fold, or go to the parent"),
    row(Result, "left", C::Result(R::Fold), "", "Fold, or go to the parent"),
    row(Result, "l", C::Result(R::Unfold), "", "Unfold"),
    row(Result, "right", C::Result(R::Unfold), "", "Unfold"),
    row(Result, "<", C::Result(R::Sideways(-1)), "", "Scroll left"),
    row(Result, ">", C::Result(R::Sideways(1)), "", "Scroll right"),
    row(Result, "tab", C::Result(R::NextTab), "view", "Content, structured, raw, compared"),
    row(Result, "b", C::Result(R::NextBlock), "", "Next block of content"),
    row(Result, "enter", C::Result(R::Enter), "", "Fold or unfold; open the link"),
    row(Result, "m", C::Result(R::Markdown), "", "Markdown or plain text"),
    row(Result, "H", C::Result(R::Hex), "", "All bytes of binary content, or the first of them"),
    row(Result, "W", C::Result(R::Wrap), "", "Wrap long lines"),
    row(Result, "y", C::Result(R::Copy), "copy", "Copy what is selected"),
    row(Result, "p", C::Result(R::CopyPath), "", "Copy its JSON pointer"),
    row(Result, "Y", C::Result(R::CopyAll), "", "Copy the whole result"),
    row(Result, "w", C::Result(R::Save), "write", "Write what is selected to a file"),
    row(Result, "/", C::Search, "search", "Search"),
    row(Result, "n", C::Result(R::SearchNext), "", "Next match"),
    row(Result, "c", C::Compare, "compare", "Compare with the answer before"),
    row(Result, "v", C::Result(R::SideBySide), "", "Comparison side by side or unified"),
    row(Result, ".", C::Again, "again", "Make this call again"),
    row(Result, "e", C::EditAgain, "", "Take its arguments into the form, to change them"),
    row(Result, "S", C::Subscribe, "", "Subscribe to this resource, or end it"),
    row(Result, "[", C::Older, "", "The call before"),
    row(Result, "]", C::Newer, "", "The call after"),
    row(Picker, "enter", C::Picker(P::Enter), "picks", "Take the file; into the folder"),
    row(
        Picker,
        "alt-enter",
        C::Picker(P::PickPath),
        "the path",
        "Take the path of what is selected, of a folder too",
    ),
    row(Picker, "ctrl-enter", C::Picker(P::PickPath), "", "Take the path of what is selected"),
    row(Picker, "left", C::Picker(P::Up), "up", "To the folder above"),
    row(Picker, "right", C::Picker(P::Into), "", "Into the folder"),
    row(Picker, "alt-.", C::Picker(P::Hidden), "hidden", "List hidden files, or leave them out"),
    row(Picker, "tab", C::Picker(P::Take), "path or text", "Its path, or the text it holds"),
    row(Picker, "down", C::Picker(P::Step(1)), "", "Down"),
    row(Picker, "up", C::Picker(P::Step(-1)), "", "Up"),
    row(Picker, "pagedown", C::Picker(P::Page(1)), "", "A page down"),
    row(Picker, "pageup", C::Picker(P::Page(-1)), "", "A page up"),
    row(Picker, "home", C::Picker(P::Top), "", "To the first"),
    row(Picker, "end", C::Picker(P::Bottom), "", "To the last"),
    row(Picker, "esc", C::Picker(P::Close), "closes", "Close it; the field stays as it is"),
];
