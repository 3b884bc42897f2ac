//! Key chords: `ctrl-p`, `shift-tab`, `?`, `f5`; reading, writing and comparing them.

use std::fmt;
use std::str::FromStr;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// One key with its modifiers, normalised: a character carries its own shift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Chord {
    /// The key.
    pub code: KeyCode,
    /// Control, alt, and shift where the key is no character.
    pub modifiers: KeyModifiers,
}

const NAMED: &[(&str, KeyCode)] = &[
    ("enter", KeyCode::Enter),
    ("esc", KeyCode::Esc),
    ("tab", KeyCode::Tab),
    ("backtab", KeyCode::BackTab),
    ("backspace", KeyCode::Backspace),
    ("delete", KeyCode::Delete),
    ("insert", KeyCode::Insert),
    ("up", KeyCode::Up),
    ("down", KeyCode::Down),
    ("left", KeyCode::Left),
    ("right", KeyCode::Right),
    ("home", KeyCode::Home),
    ("end", KeyCode::End),
    ("pageup", KeyCode::PageUp),
    ("pagedown", KeyCode::PageDown),
    ("space", KeyCode::Char(' ')),
    ("minus", KeyCode::Char('-')),
];

impl Chord {
    /// The chord of a key event.
    pub fn pressed(key: KeyEvent) -> Self {
        Self::new(key.code, key.modifiers)
    }

    fn new(code: KeyCode, modifiers: KeyModifiers) -> Self {
        let mut modifiers =
            modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT | KeyModifiers::SHIFT);
        let code = match code {
            KeyCode::Tab if modifiers.contains(KeyModifiers::SHIFT) => KeyCode::BackTab,
            KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => {
                KeyCode::Char(c.to_ascii_lowercase())
            }
            other => other,
        };
        if matches!(code, KeyCode::Char(_) | KeyCode::BackTab) {
            modifiers.remove(KeyModifiers::SHIFT);
        }
        Self { code, modifiers }
    }

    /// The character it types, if any.
    pub fn typed(self) -> Option<char> {
        match self.code {
            KeyCode::Char(c) if self.modifiers.is_empty() => Some(c),
            _ => None,
        }
    }
}

impl FromStr for Chord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut rest = text;
        let mut modifiers = KeyModifiers::NONE;
        while let Some((head, tail)) = rest.split_once('-') {
            modifiers |= match head {
                _ if tail.is_empty() => break,
                "ctrl" => KeyModifiers::CONTROL,
                "alt" => KeyModifiers::ALT,
                "shift" => KeyModifiers::SHIFT,
                _ => return Err(format!("`{head}` in `{text}` is not a modifier")),
            };
            rest = tail;
        }
        let mut chars = rest.chars();
        let code = match (chars.next(), chars.next()) {
            (Some(c), None) => KeyCode::Char(c),
            _ => NAMED
                .iter()
                .find(|(name, _)| *name == rest)
                .map(|(_, code)| *code)
                .or_else(|| rest.strip_prefix('f')?.parse().ok().map(KeyCode::F))
                .ok_or_else(|| format!("`{rest}` in `{text}` is not a key"))?,
        };
        let KeyCode::Char(c) = code else { return Ok(Self::new(code, modifiers)) };
        // Terminals send what shift makes of a character, and nothing of shift beside ctrl.
        match (modifiers.contains(KeyModifiers::SHIFT), modifiers.contains(KeyModifiers::CONTROL)) {
            (true, true) => {
                Err(format!("a terminal cannot tell `{text}` from the same without shift"))
            }
            (true, false) if c.is_lowercase() => {
                let upper = c.to_uppercase().next().unwrap_or(c);
                Ok(Self::new(KeyCode::Char(upper), modifiers))
            }
            (true, false) if !c.is_uppercase() => {
                Err(format!("`{text}`: write the character that shift and this key type"))
            }
            _ => Ok(Self::new(code, modifiers)),
        }
    }
}

impl fmt::Display for Chord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (modifier, word) in [
            (KeyModifiers::CONTROL, "ctrl-"),
            (KeyModifiers::ALT, "alt-"),
            (KeyModifiers::SHIFT, "shift-"),
        ] {
            if self.modifiers.contains(modifier) {
                f.write_str(word)?;
            }
        }
        match (NAMED.iter().find(|(_, code)| *code == self.code), self.code) {
            // Its name is for chords, where the sign stands between their parts.
            (_, KeyCode::Char('-')) if self.modifiers.is_empty() => f.write_str("-"),
            (Some((name, _)), _) => f.write_str(name),
            (None, KeyCode::Char(c)) => write!(f, "{c}"),
            (None, KeyCode::F(n)) => write!(f, "f{n}"),
            _ => f.write_str("?"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chord(text: &str) -> Chord {
        text.parse().unwrap()
    }

    #[test]
    fn chords_read_as_people_write_them() {
        assert_eq!(chord("ctrl-p").code, KeyCode::Char('p'));
        assert_eq!(chord("shift-tab"), chord("backtab"));
        assert_eq!(chord("-").code, KeyCode::Char('-'));
        assert_eq!(chord("ctrl--").code, KeyCode::Char('-'));
        assert_eq!(chord("f12").code, KeyCode::F(12));
        assert!("hyper-x".parse::<Chord>().is_err());
        assert!("entre".parse::<Chord>().is_err());
        assert!("".parse::<Chord>().is_err());
    }

    #[test]
    fn a_shifted_character_is_the_character_itself() {
        let pressed = KeyEvent::new(KeyCode::Char('G'), KeyModifiers::SHIFT);
        assert_eq!(Chord::pressed(pressed), chord("G"));
        assert_eq!(chord("ctrl-P"), chord("ctrl-p"));
        assert_eq!(chord("shift-q"), chord("Q"));
        assert_eq!(chord("alt-shift-é"), chord("alt-É"));
        // What no terminal sends is not taken for another key.
        for text in ["shift-1", "shift-?", "ctrl-shift-a"] {
            assert!(text.parse::<Chord>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_chord_survives_being_written_and_read(
            control in any::<bool>(), alt in any::<bool>(), shift in any::<bool>(),
            code in prop_oneof![
                any::<char>().prop_filter("printable", |c| !c.is_control()).prop_map(KeyCode::Char),
                (1u8..=24).prop_map(KeyCode::F),
                proptest::sample::select(NAMED.iter().map(|n| n.1).collect::<Vec<_>>()),
            ],
        ) {
            let mut modifiers = KeyModifiers::NONE;
            modifiers.set(KeyModifiers::CONTROL, control);
            modifiers.set(KeyModifiers::ALT, alt);
            modifiers.set(KeyModifiers::SHIFT, shift);
            let chord = Chord::new(code, modifiers);
            prop_assert_eq!(chord.to_string().parse::<Chord>().unwrap(), chord);
        }
    }
}
