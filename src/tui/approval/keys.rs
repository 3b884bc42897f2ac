//! The keys of the answering screen, as rows for the key table: dispatch, footer, help, `--keys` and
//! the README are made from it.

use crossterm::event::KeyEvent;

use crate::tui::approval::desk::{AnswerCommand, AnswerDesk, Draft, Part};
use crate::tui::call::CallCommand;
use crate::tui::call::keys::Where;
use crate::tui::keymap::{Keymap, Scope};

/// What a key of the answering screen asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Something of the request itself.
    Desk(AnswerCommand),
    /// Send, and answer the next ones of this kind from this server the same way.
    SendAlways,
    /// Deny everything this server has open.
    DenyAll,
    /// The next open request.
    Next,
    /// The draft in `$EDITOR`.
    Editor,
    /// Copy the draft.
    Copy,
    /// Back to where the person was; the draft is kept.
    Back,
}

/// One key.
pub struct KeyRow {
    /// Its name.
    pub chord: &'static str,
    /// What it does.
    pub key: Key,
    /// A word for the footer; empty when it is not shown there.
    pub footer: &'static str,
    /// A sentence for the help.
    pub help: &'static str,
}

const fn row(chord: &'static str, key: Key, footer: &'static str, help: &'static str) -> KeyRow {
    KeyRow { chord, key, footer, help }
}

/// Every key of the answering screen. None is a letter or Enter: those are text, and nothing is ever
/// answered by a stray key.
pub const KEYS: &[KeyRow] = &[
    row("ctrl-s", Key::Desk(AnswerCommand::Send), "send", "Send the answer"),
    row("alt-enter", Key::Desk(AnswerCommand::Send), "", "Send the answer"),
    row("ctrl-x", Key::Desk(AnswerCommand::Deny), "say no", "Say no, with a reason where one fits"),
    row(
        "alt-c",
        Key::Desk(AnswerCommand::Cancel),
        "",
        "Cancel: go away without deciding; the server is told",
    ),
    row(
        "alt-s",
        Key::SendAlways,
        "",
        "Send, and answer the next 10 of this kind from this server the same way",
    ),
    row(
        "alt-x",
        Key::DenyAll,
        "deny all",
        "Deny everything this server has open, after a question",
    ),
    row("ctrl-n", Key::Next, "next", "The next open request; this draft is kept"),
    row("ctrl-r", Key::Desk(AnswerCommand::Raw), "JSON", "The whole result as JSON, or back"),
    row("ctrl-t", Key::Desk(AnswerCommand::StopReason), "", "The next stop reason"),
    row("ctrl-o", Key::Editor, "editor", "The draft in $EDITOR"),
    row("ctrl-y", Key::Copy, "", "Copy the draft"),
    row(
        "ctrl-w",
        Key::Desk(AnswerCommand::Focus),
        "read",
        "Between what the server says and the answer",
    ),
    row("f6", Key::Desk(AnswerCommand::Focus), "", "Between what the server says and the answer"),
    row("ctrl-up", Key::Desk(AnswerCommand::Scroll(-1)), "", "Scroll what the server says"),
    row("ctrl-down", Key::Desk(AnswerCommand::Scroll(1)), "", "Scroll what the server says"),
    row("pageup", Key::Desk(AnswerCommand::Scroll(-10)), "", "Scroll what the server says"),
    row("pagedown", Key::Desk(AnswerCommand::Scroll(10)), "", "Scroll what the server says"),
    row("esc", Key::Back, "back", "Back to where you were; the draft is kept"),
];

/// Keys that hold while nothing is typed.
pub const READING: &[KeyRow] = &[
    row("j", Key::Desk(AnswerCommand::Scroll(1)), "", "Scroll what the server says"),
    row("down", Key::Desk(AnswerCommand::Scroll(1)), "", "Scroll what the server says"),
    row("k", Key::Desk(AnswerCommand::Scroll(-1)), "", "Scroll what the server says"),
    row("up", Key::Desk(AnswerCommand::Scroll(-1)), "", "Scroll what the server says"),
    row("space", Key::Desk(AnswerCommand::Scroll(10)), "", "Scroll what the server says"),
    row("g", Key::Desk(AnswerCommand::Scroll(TOP)), "", "To the start of what the server says"),
    row("home", Key::Desk(AnswerCommand::Scroll(TOP)), "", "To the start of what the server says"),
    row("tab", Key::Desk(AnswerCommand::Focus), "", "Between what the server says and the answer"),
];

/// Further up than any text is long.
const TOP: isize = isize::MIN / 2;

/// What a key means for a request being answered; `None` when it is text.
pub fn command(keymap: &Keymap, desk: &AnswerDesk, key: KeyEvent) -> Option<Key> {
    if let Some(key) = keymap.answer(&[Scope::Answer], key) {
        return Some(key);
    }
    if !desk.is_typing() {
        return keymap.answer(&[Scope::AnswerReading], key);
    }
    let Draft::Form(form) = &desk.draft else { return None };
    if desk.part != Part::Answer {
        return None;
    }
    let places: &[Where] =
        if form.takes_text() { &[Where::Form] } else { &[Where::FormLine, Where::Form] };
    match keymap.call(places, key)? {
        CallCommand::Form(command) => Some(Key::Desk(AnswerCommand::Form(command))),
        _ => None,
    }
}
