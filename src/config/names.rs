//! Detects server names that look alike; equal ones are refused by `file`.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use icu_normalizer::ComposingNormalizerBorrowed;

use crate::hazards::is_hidden;

/// The visual skeleton of a name: look-alike letters are unified, case and white space removed.
///
/// Covers commonly abused scripts (Cyrillic, Greek, full width, digits for letters), not all of
/// Unicode's confusables: it is only used for warnings.
pub fn skeleton(name: &str) -> String {
    let composed = ComposingNormalizerBorrowed::new_nfc().normalize(name);
    let seen = composed.chars().filter(|c| !is_hidden(*c) && !c.is_whitespace());
    let drawn = seen.flat_map(char::to_lowercase).map(|c| match look(c) {
        'i' => 'l',
        '_' => '-',
        other => other,
    });
    drawn.collect::<String>().replace("rn", "m").replace("vv", "w").replace("cl", "d")
}

/// Each word is an ASCII letter followed by the characters commonly mistaken for it.
const ALIKE: &str = "\
    aаα bвβ cсϲ dԁ eеҽ gɡ hһ iіιı jј kкκ mм nпη oοоօ0ОΟO pрρ sѕ tтτ uυս vνѵ wѡω xхχ yуγ AАΑ \
    BВΒ CС EЕΕ HНΗ KКΚ MМΜ PРΡ SЅ TТΤ XХΧ lІΙI1|ӏⅼ -‐‑‒–—−";

/// Maps each of those characters to its letter.
static LETTERS: LazyLock<HashMap<char, char>> = LazyLock::new(|| {
    let of = |word: &'static str| {
        let letter = word.chars().next().unwrap_or_default();
        word.chars().skip(1).map(move |c| (c, letter))
    };
    ALIKE.split(' ').flat_map(of).collect()
});

/// The ASCII letter a character is mistaken for.
pub fn look(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).map_or(c, look),
        _ => LETTERS.get(&c).copied().unwrap_or(c),
    }
}

/// Pairs of names that look alike without being equal, as indices, the earlier one first.
pub fn look_alikes(names: &[&str]) -> Vec<(usize, usize)> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut out = Vec::new();
    for (i, name) in names.iter().enumerate() {
        let skeleton = skeleton(name);
        match seen.get(&skeleton) {
            Some(first) if names.get(*first) != Some(name) => out.push((*first, i)),
            Some(_) => {}
            None => {
                seen.insert(skeleton, i);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_alike_are_found() {
        for (a, b) in [
            ("github", "gіthub"),
            ("GitHub", "github"),
            ("paypal", "paypa1"),
            ("modern", "modem"),
            ("files", "fi\u{200b}les"),
            ("time", "ｔｉｍｅ"),
            ("my-server", "my_server"),
            ("caf\u{e9}", "cafe\u{301}"),
        ] {
            assert_eq!(look_alikes(&[a, b]), [(0, 1)], "{a} {b}");
        }
    }

    #[test]
    fn different_names_and_equal_names_are_not() {
        assert_eq!(look_alikes(&["github", "gitlab", "git", "time"]), []);
        assert_eq!(look_alikes(&["a", "a"]), []);
    }
}
