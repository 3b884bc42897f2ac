//! The keys of the answering screen and of the roots screen, as rows for the key table: dispatch,
//! footer, help, `--keys` and the README are made from it.

use crossterm::event::KeyEvent;

use crate::tui::approval::desk::{AnswerCommand, AnswerDesk, Draft, Part, Says};
use crate::tui::approval::elicitation::{Asks, ElicitationReading};
use crate::tui::approval::roots::RootsCommand;
use crate::tui::call::CallCommand;
use crate::tui::call::keys::Where;
use crate::tui::keymap::{Keymap, Scope};

/// What a key of the answering screen asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Something of the request itself.
    Desk(AnswerCommand),
    /// Send, and choose how many of the next ones of this kind are answered the same way.
    SendAlways,
    /// Deny everything this server has open.
    DenyAll,
    /// The next open request.
    Next,
    /// The draft in `$EDITOR`.
    Editor,
    /// Copy the draft.
    Copy,
    /// Write the pictures and sounds of the request to files.
    SaveMedia,
    /// Choose an answer that is kept.
    Templates,
    /// Keep this answer under a name.
    Keep,
    /// Choose a tool to answer with.
    Tools,
    /// Let the registered model draft the answer.
    Draft,
    /// More time to think.
    MoreTime,
    /// Back to where the person was; the draft is kept.
    Back,
    /// Something of the roots screen.
    Roots(RootsCommand),
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

use AnswerCommand as A;

/// Words of the footer that depend on what is answered.
const SEND: &str = "send";
const DENY: &str = "deny";
const NEXT: &str = "next";
const BACK: &str = "back";
const COPY: &str = "copy";
const MEDIA: &str = "save media";

/// Every key of the answering screen. None is a letter or Enter: those are text, and nothing is ever
/// answered by a stray key.
pub const KEYS: &[KeyRow] = &[
    row("f5", Key::Desk(A::Send), SEND, "Send the answer"),
    row("ctrl-r", Key::Desk(A::Send), "", "Send the answer"),
    row("alt-enter", Key::Desk(A::Send), "", "Send the answer"),
    row("ctrl-x", Key::Desk(A::Deny), DENY, "Say no, with a reason where one fits"),
    row("esc", Key::Back, BACK, "Back to where you were; the draft is kept"),
    row("ctrl-n", Key::Next, NEXT, "The next open request; this draft is kept"),
    row("ctrl-t", Key::Templates, "templates", "Choose an answer that is kept"),
    row("ctrl-s", Key::Keep, "", "Keep this answer under a name, in mcp.answers.json"),
    row("f4", Key::Desk(A::Raw), "JSON", "The whole answer as JSON, or back"),
    row("f7", Key::Draft, "", "Let the registered model draft; only you send"),
    row("ctrl-o", Key::Editor, "editor", "The draft in $EDITOR"),
    row("ctrl-y", Key::Copy, COPY, "Copy the draft, or the address of the page"),
    row("alt-m", Key::MoreTime, "", "10 more minutes to think"),
    row("alt-s", Key::SendAlways, "", "Send, and choose how many more get the same answer"),
    row("alt-k", Key::DenyAll, "", "Deny all this server has open, after a question"),
    row("f6", Key::Desk(A::Focus), "read", "Between what the server says and the answer"),
    row("ctrl-up", Key::Desk(A::Scroll(-1)), "", "Scroll what the server says"),
    row("ctrl-down", Key::Desk(A::Scroll(1)), "", "Scroll what the server says"),
    row("pageup", Key::Desk(A::Scroll(-10)), "", "Scroll what the server says"),
    row("pagedown", Key::Desk(A::Scroll(10)), "", "Scroll what the server says"),
];

/// Keys that hold while a completion is answered.
pub const SAMPLING: &[KeyRow] = &[
    row("tab", Key::Desk(A::NextField), "", "Text, model, stop reason"),
    row("backtab", Key::Desk(A::PreviousField), "", "Stop reason, model, text"),
    row("alt-o", Key::Desk(A::EditRequest), "edit request", "Edit the request, or take the edits"),
    row("alt-t", Key::Tools, "", "Answer with a tool call, filled in as a form"),
    row("alt-r", Key::Desk(A::RemoveTool), "", "Take the last tool call out of the answer"),
    row("alt-v", Key::SaveMedia, MEDIA, "Write its pictures and sounds to files, to see and hear"),
    row("alt-n", Key::Desk(A::StopReason), "", "The next stop reason"),
];

/// Keys that hold while an elicitation is answered.
pub const ELICITATION: &[KeyRow] =
    &[row("alt-c", Key::Desk(A::Cancel), "cancel", "Go away without deciding; the server is told")];

/// Keys that hold while nothing is typed.
pub const READING: &[KeyRow] = &[
    row("j", Key::Desk(A::Scroll(1)), "", "Scroll what the server says"),
    row("down", Key::Desk(A::Scroll(1)), "", "Scroll what the server says"),
    row("k", Key::Desk(A::Scroll(-1)), "", "Scroll what the server says"),
    row("up", Key::Desk(A::Scroll(-1)), "", "Scroll what the server says"),
    row("space", Key::Desk(A::Scroll(10)), "", "Scroll what the server says"),
    row("g", Key::Desk(A::Scroll(TOP)), "", "To the start of what the server says"),
    row("home", Key::Desk(A::Scroll(TOP)), "", "To the start of what the server says"),
    row("tab", Key::Desk(A::Focus), "", "Between what the server says and the answer"),
];

/// Keys of the roots screen.
pub const ROOTS: &[KeyRow] = &[
    row("f5", Key::Roots(RootsCommand::Share), "share", "Share these; the server is told"),
    row("ctrl-r", Key::Roots(RootsCommand::Share), "", "Share these; the server is told"),
    row("insert", Key::Roots(RootsCommand::Add), "add", "Add a root"),
    row("alt-a", Key::Roots(RootsCommand::Add), "", "Add a root"),
    row("ctrl-delete", Key::Roots(RootsCommand::Remove), "remove", "Take this root out"),
    row("alt-x", Key::Roots(RootsCommand::Remove), "", "Take this root out"),
    row("tab", Key::Roots(RootsCommand::Next), "", "Next field"),
    row("enter", Key::Roots(RootsCommand::Next), "", "Next field"),
    row("backtab", Key::Roots(RootsCommand::Previous), "", "Previous field"),
    row("down", Key::Roots(RootsCommand::Down), "", "Next root"),
    row("up", Key::Roots(RootsCommand::Up), "", "Previous root"),
    row("esc", Key::Roots(RootsCommand::Back), "back", "Back; what was not shared is forgotten"),
];

/// Further up than any text is long.
const TOP: isize = isize::MIN / 2;

/// Where the keys of a request being answered are bound, innermost first.
pub fn scopes(desk: &AnswerDesk) -> &'static [Scope] {
    match (&desk.says, desk.is_typing()) {
        (Says::Sampling(_), true) => &[Scope::AnswerSampling, Scope::Answer],
        (Says::Sampling(_), false) => &[Scope::AnswerReading, Scope::AnswerSampling, Scope::Answer],
        (Says::Elicitation(_), true) => &[Scope::AnswerElicitation, Scope::Answer],
        (Says::Elicitation(_), false) => {
            &[Scope::AnswerReading, Scope::AnswerElicitation, Scope::Answer]
        }
        (Says::Other(_), true) => &[Scope::Answer],
        (Says::Other(_), false) => &[Scope::AnswerReading, Scope::Answer],
    }
}

/// Keys and words for the footer: what decides comes first, in the words of the specification where
/// it has them.
pub fn footer(keymap: &Keymap, desk: &AnswerDesk) -> Vec<(String, &'static str)> {
    let (kind, send, deny) = match (&desk.says, &desk.draft) {
        (Says::Sampling(_), _) => (Scope::AnswerSampling, "send", "deny"),
        (Says::Elicitation(_), Draft::Consent) => (Scope::AnswerElicitation, "open it", "decline"),
        (Says::Elicitation(_), _) => (Scope::AnswerElicitation, "accept", "decline"),
        (Says::Other(_), Draft::Consent) => (Scope::AnswerReading, "allow", "refuse"),
        (Says::Other(_), _) => (Scope::AnswerReading, "send", "deny"),
    };
    let mut labels = keymap.labels(&[Scope::Answer]);
    if desk.ended().is_some() {
        labels.retain(|(_, word)| [COPY, NEXT, BACK].contains(word));
        return labels;
    }
    if let Says::Elicitation(ElicitationReading { asks: Asks::Url(url), .. }) = &desk.says
        && url.open.is_none()
    {
        labels.retain(|(_, word)| *word != SEND);
    }
    // What is typed for the answer is ended by the same key.
    let send = match desk.part {
        Part::Tool => "add it",
        Part::Name => "keep it",
        Part::Reason => deny,
        Part::Request => "take it",
        Part::Says | Part::Answer | Part::Model | Part::Stop => send,
    };
    if desk.part == Part::Reason {
        labels.retain(|(_, word)| *word != DENY);
    }
    for (_, word) in &mut labels {
        *word = match *word {
            SEND => send,
            DENY => deny,
            other => other,
        };
    }
    let decide = labels.iter().take_while(|(_, word)| [send, deny].contains(word)).count();
    let at = if kind == Scope::AnswerElicitation { decide } else { labels.len() };
    labels.splice(at..at, keymap.labels(&[kind]));
    if !matches!(&desk.says, Says::Sampling(reading) if reading.has_media()) {
        labels.retain(|(_, word)| *word != MEDIA);
    } else if let Some(at) = labels.iter().position(|(_, word)| *word == MEDIA) {
        // What cannot be seen otherwise comes right after what decides.
        let media = labels.remove(at);
        labels.insert(decide.min(labels.len()), media);
    }
    labels
}

/// What a key means for a request being answered; `None` when it is text.
pub fn command(keymap: &Keymap, desk: &AnswerDesk, key: KeyEvent) -> Option<Key> {
    let Some(form) = desk.open_form() else { return keymap.answer(scopes(desk), key) };
    // In a form its own keys come first, but for those that leave it or decide.
    if let Some(key) = keymap.answer(&[Scope::Answer, Scope::AnswerElicitation], key) {
        return Some(key);
    }
    let places: &[Where] =
        if form.takes_text() { &[Where::Form] } else { &[Where::FormLine, Where::Form] };
    match keymap.call(places, key)? {
        CallCommand::Form(command) => Some(Key::Desk(A::Form(command))),
        _ => None,
    }
}
