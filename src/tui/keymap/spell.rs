//! Keys in sentences: texts name an action in braces, and what is shown is the key it has now, so
//! that no sentence lies after a person has moved a key.

use super::{Keymap, Scope};
use crate::tui::action::Action;
use crate::tui::chord::Chord;
use crate::tui::ink::Ink;

/// What stands for a key that was taken away: the palette still finds the action.
const UNBOUND: &str = "the palette";

impl Keymap {
    /// `text` with every `{name}` of an action replaced by the first of its keys that works in
    /// these scopes, innermost first. What is no name of an action stays as it is.
    pub fn spelled(&self, scopes: &[Scope], text: &'static str) -> Ink {
        self.spelled_in(scopes, text)
    }

    /// The same for a text that was put together; what others wrote in it stays as it is, unless it
    /// names an action in braces.
    pub fn spelled_in(&self, scopes: &[Scope], text: &str) -> Ink {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else { break };
            out.push_str(before);
            match self.chords(scopes, name) {
                Some(chords) => match chords.first() {
                    Some(first) => out.push_str(&first.to_string()),
                    None => out.push_str(UNBOUND),
                },
                None => out.extend(["{", name, "}"]),
            }
            rest = after;
        }
        out.push_str(rest);
        Ink::line(&out)
    }

    /// The first key of an action that works while text is typed; any when none does.
    pub fn key_while_typing(&self, scopes: &[Scope], name: &str) -> Option<Chord> {
        let chords = self.chords(scopes, name)?;
        chords.iter().find(|chord| chord.typed().is_none()).or_else(|| chords.first()).copied()
    }

    /// Chords of the named action that work in these scopes, of the innermost that has any; empty
    /// when it lost all of them, `None` when there is no such action.
    fn chords(&self, scopes: &[Scope], name: &str) -> Option<Vec<Chord>> {
        let meaning_of = |chord: &Chord| {
            scopes.iter().find_map(|scope| self.meanings.get(&(*scope, *chord)).copied())
        };
        for scope in scopes {
            let rows = self.listed.iter().filter(|row| row.scope == *scope);
            for row in rows.filter(|row| row.action.id() == name) {
                let works = |chord: &&Chord| meaning_of(chord) == Some(row.action);
                let chords: Vec<Chord> = row.chords.iter().filter(works).copied().collect();
                if !chords.is_empty() {
                    return Some(chords);
                }
            }
        }
        Action::by_id(name).map(|_| Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_names_the_key_that_works_and_follows_a_person_who_moves_it() {
        let text = "{follow} follows, {quit} leaves, {x} stays";
        let scopes = [Scope::Traffic, Scope::List, Scope::Global];
        let builtin = Keymap::builtin();
        assert_eq!(builtin.spelled(&scopes, text).as_str(), "f follows, q leaves, {x} stays");
        let moved = "[traffic]\nf = \"none\"\nf7 = \"follow\"\n[global]\nq = \"none\"";
        let moved = Keymap::with_user(moved).unwrap();
        let said = moved.spelled(&scopes, text);
        assert_eq!(said.as_str(), "f7 follows, the palette leaves, {x} stays");
    }

    #[test]
    fn while_text_is_typed_a_key_that_is_no_letter_is_named() {
        let keymap = Keymap::builtin();
        let key = keymap.key_while_typing(&[Scope::Global], "help").unwrap();
        assert_eq!(key.to_string(), "f1");
        assert_eq!(keymap.spelled(&[Scope::Call, Scope::Form], "{save-form}").as_str(), "ctrl-s");
    }
}
