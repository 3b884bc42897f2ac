//! Names of servers: equal ones are refused (requirement C4), look-alikes are pointed out.

use std::collections::BTreeMap;

use crate::config::hazards::is_hidden;

/// What a name looks like: letters that are drawn alike become one, case and white space go.
///
/// A small table of the scripts people are fooled with (Cyrillic, Greek, full width, digits for
/// letters), not the whole of Unicode's confusables: this warns, it does not decide.
pub fn skeleton(name: &str) -> String {
    let seen = name.chars().filter(|c| !is_hidden(*c) && !c.is_whitespace());
    let drawn = seen.flat_map(char::to_lowercase).map(|c| match look(c) {
        'i' => 'l',
        '_' => '-',
        other => other,
    });
    drawn.collect::<String>().replace("rn", "m").replace("vv", "w").replace("cl", "d")
}

/// The ASCII letter a character is mistaken for; the common ones, not the whole of Unicode.
pub(crate) fn look(c: char) -> char {
    match c {
        'а' | 'α' => 'a',
        'в' | 'β' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ҽ' => 'e',
        'ɡ' => 'g',
        'һ' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'п' | 'η' => 'n',
        'ο' | 'о' | 'օ' | '0' | 'О' | 'Ο' | 'O' => 'o',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' => 'u',
        'ν' | 'ѵ' => 'v',
        'ѡ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'А' | 'Α' => 'A',
        'В' | 'Β' => 'B',
        'С' => 'C',
        'Е' | 'Ε' => 'E',
        'Н' | 'Η' => 'H',
        'К' | 'Κ' => 'K',
        'М' | 'Μ' => 'M',
        'Р' | 'Ρ' => 'P',
        'Ѕ' => 'S',
        'Т' | 'Τ' => 'T',
        'Х' | 'Χ' => 'X',
        'І' | 'Ι' | 'I' | '1' | '|' | 'ӏ' | 'ⅼ' => 'l',
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).map_or(c, look),
        '‐' | '‑' | '‒' | '–' | '—' | '−' => '-',
        _ => c,
    }
}

/// Pairs of names that look alike without being equal, by index, first the earlier one.
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
