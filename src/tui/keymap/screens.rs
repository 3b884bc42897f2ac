//! The keys of the call screen and the answering screen within the one key table: their names in
//! keymap files, their scopes, and how a pressed key is looked up for them.

use crossterm::event::{KeyEvent, KeyModifiers};

use super::{Keymap, Listed, Scope};
use crate::tui::action::Action;
use crate::tui::approval::desk::AnswerCommand;
use crate::tui::approval::keys::{self as answer_keys, Key};
use crate::tui::approval::roots::RootsCommand;
use crate::tui::call::CallCommand;
use crate::tui::call::command::PickerCommand as P;
use crate::tui::call::keys::{self as call_keys, Where};
use crate::tui::chord::Chord;
use crate::tui::form::FormCommand as F;
use crate::tui::result::ResultCommand as R;

/// What a chord means, on whichever screen it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Something of the dashboard.
    Dashboard(Action),
    /// Something of the call screen.
    Call(CallCommand),
    /// Something of the answering screen.
    Answer(Key),
}

impl Meaning {
    /// Its name in keymap files.
    pub fn id(self) -> &'static str {
        match self {
            Self::Dashboard(action) => action.id(),
            Self::Call(command) => call_id(command),
            Self::Answer(key) => answer_id(key),
        }
    }

    fn fits(self, scope: Scope) -> bool {
        match self {
            Self::Dashboard(_) => !scope.is_call() && !scope.is_answer(),
            Self::Call(_) => scope.is_call(),
            Self::Answer(_) => scope.is_answer(),
        }
    }
}

impl Scope {
    fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::Form | Self::FormLine | Self::Result | Self::Picker)
    }

    fn is_answer(self) -> bool {
        matches!(
            self,
            Self::Answer
                | Self::AnswerSampling
                | Self::AnswerElicitation
                | Self::AnswerReading
                | Self::Roots
        )
    }

    const fn of(place: Where) -> Self {
        match place {
            Where::Anywhere => Self::Call,
            Where::Form => Self::Form,
            Where::FormLine => Self::FormLine,
            Where::Result => Self::Result,
            Where::Picker => Self::Picker,
        }
    }
}

fn call_id(command: CallCommand) -> &'static str {
    use CallCommand as C;
    match command {
        C::Call => "call",
        C::Force => "force",
        C::Cancel => "cancel",
        C::Again => "again",
        C::EditAgain => "edit-again",
        C::Switch => "switch",
        C::Editor => "editor",
        C::History => "history",
        C::Saved => "saved",
        C::SaveCall => "save-call",
        C::CopyCall => "copy-call",
        C::File => "file",
        C::Suggest => "suggest",
        C::Older => "older",
        C::Newer => "newer",
        C::Compare => "compare",
        C::Search => "search",
        C::Subscribe => "subscribe",
        C::Back => "back",
        C::Form(command) => form_id(command),
        C::Result(command) => result_id(command),
        C::Picker(command) => picker_id(command),
    }
}

const fn picker_id(command: P) -> &'static str {
    match command {
        P::Enter => "enter",
        P::PickPath => "pick-path",
        P::Into => "into",
        P::Up => "parent",
        P::Step(rows) if rows < 0 => "up",
        P::Step(_) => "down",
        P::Page(pages) if pages < 0 => "page-up",
        P::Page(_) => "page-down",
        P::Top => "top",
        P::Bottom => "bottom",
        P::Hidden => "hidden",
        P::Take => "path-or-text",
        P::Close => "close",
    }
}

fn form_id(command: F) -> &'static str {
    match command {
        F::Next => "next",
        F::Previous => "previous",
        F::First => "first",
        F::Last => "last",
        F::NextProblem => "next-problem",
        F::Enter => "enter",
        F::Toggle => "toggle",
        F::Unset => "unset",
        F::Null => "null",
        F::Empty => "empty",
        F::Add => "add",
        F::Remove => "remove",
        F::Duplicate => "duplicate",
        F::MoveUp => "move-up",
        F::MoveDown => "move-down",
        F::StepUp => "step-up",
        F::StepDown => "step-down",
        F::Fold => "fold",
        F::Unfold => "unfold",
        F::Rename => "rename",
        F::AsJson => "as-json",
        F::Json => "json",
        F::Undo => "undo",
    }
}

fn result_id(command: R) -> &'static str {
    match command {
        R::Scroll(rows) if rows < 0 => "up",
        R::Scroll(_) => "down",
        R::Page(pages) if pages < 0 => "page-up",
        R::Page(_) => "page-down",
        R::Top => "top",
        R::Bottom => "bottom",
        R::Sideways(columns) if columns < 0 => "sideways-left",
        R::Sideways(_) => "sideways-right",
        R::NextTab => "next-tab",
        R::NextBlock => "next-block",
        R::Enter => "open",
        R::Fold => "fold",
        R::Unfold => "unfold",
        R::Markdown => "markdown",
        R::Hex => "hex",
        R::Wrap => "wrap",
        R::SideBySide => "side-by-side",
        R::SearchNext => "search-next",
        R::Copy => "copy",
        R::CopyPath => "copy-path",
        R::CopyAll => "copy-all",
        R::Save => "save",
    }
}

fn answer_id(key: Key) -> &'static str {
    use AnswerCommand as A;
    match key {
        Key::Desk(A::Send) => "send",
        Key::Desk(A::Deny) => "deny",
        Key::Desk(A::Cancel) => "cancel",
        Key::Desk(A::Raw) => "raw",
        Key::Desk(A::StopReason) => "stop-reason",
        Key::Desk(A::Focus) => "focus",
        Key::Desk(A::NextField) => "next-field",
        Key::Desk(A::PreviousField) => "previous-field",
        Key::Desk(A::EditRequest) => "edit-request",
        Key::Desk(A::RemoveTool) => "remove-tool",
        Key::Desk(A::Scroll(rows)) => match rows {
            ..-10 => "top",
            -10..-1 => "page-up",
            -1..=0 => "up",
            1 => "down",
            _ => "page-down",
        },
        // Keys of the form hold while a form is answered; they are bound in its own scopes.
        Key::Desk(A::Form(command)) => form_id(command),
        Key::SendAlways => "send-always",
        Key::DenyAll => "deny-all",
        Key::Next => "next",
        Key::Editor => "editor",
        Key::Copy => "copy",
        Key::SaveMedia => "save-media",
        Key::Templates => "templates",
        Key::Keep => "keep",
        Key::Tools => "tools",
        Key::Draft => "draft",
        Key::MoreTime => "more-time",
        Key::Back => "back",
        Key::Roots(command) => roots_id(command),
    }
}

const fn roots_id(command: RootsCommand) -> &'static str {
    match command {
        RootsCommand::Share => "share",
        RootsCommand::Add => "add",
        RootsCommand::Remove => "remove",
        RootsCommand::Next => "next",
        RootsCommand::Previous => "previous",
        RootsCommand::Down => "down",
        RootsCommand::Up => "up",
        RootsCommand::Back => "back",
    }
}

impl Keymap {
    /// Takes the tables of both screens in.
    pub(super) fn add_screens(&mut self) {
        for row in call_keys::KEYS {
            let meaning = Meaning::Call(row.command);
            self.add(Scope::of(row.place), row.chord, meaning, row.help, row.footer);
        }
        for (scope, rows) in [
            (Scope::Answer, answer_keys::KEYS),
            (Scope::AnswerSampling, answer_keys::SAMPLING),
            (Scope::AnswerElicitation, answer_keys::ELICITATION),
            (Scope::AnswerReading, answer_keys::READING),
            (Scope::Roots, answer_keys::ROOTS),
        ] {
            for row in rows {
                self.add(scope, row.chord, Meaning::Answer(row.key), row.help, row.footer);
            }
        }
    }

    fn add(
        &mut self,
        scope: Scope,
        chord: &str,
        meaning: Meaning,
        help: &'static str,
        label: &'static str,
    ) {
        let Ok(chord) = chord.parse::<Chord>() else { return };
        self.meanings.insert((scope, chord), meaning);
        let same = |row: &&mut Listed| row.scope == scope && row.meaning == meaning;
        if let Some(row) = self.listed.iter_mut().find(same) {
            row.chords.push(chord);
            return;
        }
        let footer = u8::from(!label.is_empty());
        self.listed.push(Listed { scope, chords: vec![chord], meaning, footer, help, label });
    }

    /// The meaning of this name that can be bound in a scope, with its words.
    pub(super) fn by_id(&self, scope: Scope, id: &str) -> Option<Listed> {
        let named = |row: &&Listed| row.meaning.fits(scope) && row.meaning.id() == id;
        // Form and result both fold: the scope says which is meant.
        let near = self.listed.iter().find(|row| row.scope == scope && named(row));
        let known = near.or_else(|| self.listed.iter().find(named));
        let chords = Vec::new();
        if let Some(row) = known {
            return Some(Listed { scope, chords, footer: 0, ..row.clone() });
        }
        let action = Action::by_id(id).filter(|_| Meaning::Dashboard(Action::Up).fits(scope))?;
        let meaning = Meaning::Dashboard(action);
        let (help, label) = (action.help(), action.label());
        Some(Listed { scope, chords, meaning, footer: 0, help, label })
    }

    fn meaning(&self, scopes: impl IntoIterator<Item = Scope>, key: KeyEvent) -> Option<Meaning> {
        let chord = Chord::pressed(key);
        // Shift with an arrow means nothing of its own on these screens.
        let plain = Chord { modifiers: chord.modifiers - KeyModifiers::SHIFT, ..chord };
        let found = |chord, scope| self.meanings.get(&(scope, chord)).copied();
        scopes.into_iter().find_map(|scope| found(chord, scope).or_else(|| found(plain, scope)))
    }

    /// What a key means in these places of the call screen, the first of them first.
    pub fn call(&self, places: &[Where], key: KeyEvent) -> Option<CallCommand> {
        match self.meaning(places.iter().copied().map(Scope::of), key)? {
            Meaning::Call(command) => Some(command),
            _ => None,
        }
    }

    /// What a key means on the answering screen; `scopes` says whether something is typed.
    pub fn answer(&self, scopes: &[Scope], key: KeyEvent) -> Option<Key> {
        match self.meaning(scopes.iter().copied(), key)? {
            Meaning::Answer(key) => Some(key),
            _ => None,
        }
    }

    /// Keys, words and meanings for the footer of these places of the call screen.
    pub fn call_footer(&self, places: &[Where]) -> Vec<(String, &'static str, CallCommand)> {
        let labels = |place: &Where| self.call_labels(*place);
        // What can be done with a result comes first there, and the way back.
        if places.first() == Some(&Where::Result) {
            let mut all: Vec<_> = places.iter().flat_map(labels).collect();
            if let Some(back) = all.iter().position(|(.., command)| *command == CallCommand::Back) {
                all[..=back].rotate_right(1);
            }
            return all;
        }
        let everywhere = places.iter().filter(|place| **place == Where::Anywhere);
        let here = places.iter().filter(|place| **place != Where::Anywhere);
        everywhere.chain(here).flat_map(labels).collect()
    }

    /// The key that shows help while something is typed, with its word, for the end of a line.
    pub fn help_label(&self) -> Option<(String, &'static str)> {
        let key = self.key_while_typing(&[Scope::Global], "help")?;
        Some((key.to_string(), "help"))
    }

    /// Keys, words and meanings for the footer of a place of the call screen.
    pub fn call_labels(&self, place: Where) -> Vec<(String, &'static str, CallCommand)> {
        let scope = Scope::of(place);
        let rows = self.listed.iter().filter(|row| row.scope == scope && row.footer > 0);
        rows.filter_map(|row| match row.meaning {
            Meaning::Call(command) => Some((row.chords.first()?.to_string(), row.label, command)),
            _ => None,
        })
        .collect()
    }

    /// Keys and words for the footer of these scopes, in the order of the table.
    pub fn labels(&self, scopes: &[Scope]) -> Vec<(String, &'static str)> {
        let rows = self.listed.iter();
        rows.filter(|row| scopes.contains(&row.scope) && row.footer > 0)
            .filter_map(|row| Some((row.chords.first()?.to_string(), row.label)))
            .collect()
    }

    /// Keys and sentences of a scope, for help.
    pub fn sentences(&self, scope: Scope) -> impl Iterator<Item = (String, &'static str)> {
        let rows = self.listed.iter().filter(move |row| row.scope == scope);
        rows.filter(|row| !row.chords.is_empty()).map(|row| {
            let chords: Vec<String> = row.chords.iter().map(Chord::to_string).collect();
            (chords.join("  "), row.help)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crossterm::event::KeyCode;

    use super::*;

    #[test]
    fn every_key_of_the_screens_is_in_the_table_and_every_name_is_found_again() {
        let keymap = Keymap::builtin();
        for row in call_keys::KEYS {
            let chord: Chord = row.chord.parse().unwrap_or_else(|e| panic!("{e}"));
            let found = keymap.meanings.get(&(Scope::of(row.place), chord)).copied();
            assert_eq!(found, Some(Meaning::Call(row.command)), "{}", row.chord);
        }
        let mut seen = HashSet::new();
        for row in &keymap.listed {
            assert!(seen.insert((row.scope, row.meaning.id())), "{:?}", row.meaning);
            let again = keymap.by_id(row.scope, row.meaning.id());
            assert_eq!(again.map(|row| row.meaning), Some(row.meaning));
        }
    }

    #[test]
    fn a_person_moves_a_key_of_a_screen_and_footer_and_help_follow() {
        let text = "[call]\nf9 = \"call\"\nf5 = \"none\"\n[result]\nR = \"again\"";
        let keymap = Keymap::with_user(text).unwrap();
        let pressed = |code: KeyCode| keymap.call(&[Where::Form, Where::Anywhere], code.into());
        assert_eq!(pressed(KeyCode::F(9)), Some(CallCommand::Call));
        assert_eq!(pressed(KeyCode::F(5)), None);
        let first = ("f9".to_owned(), "call", CallCommand::Call);
        assert_eq!(keymap.call_footer(&[Where::Anywhere])[0], first);
        let help: Vec<_> = keymap.sentences(Scope::Result).collect();
        assert!(
            help.iter().any(|(keys, what)| keys == "R  ." && what.contains("again")),
            "{help:?}"
        );
    }

    #[test]
    fn names_of_one_screen_are_unknown_on_another() {
        for text in
            ["[answer]\nf9 = \"compare\"", "[tools]\nf9 = \"send\"", "[form]\nf9 = \"quit\""]
        {
            assert!(Keymap::with_user(text).unwrap_err().contains("there is no action"), "{text}");
        }
    }
}
