//! Names of servers: equal ones are refused (requirement C4), look-alikes are pointed out.

use std::collections::BTreeMap;

use crate::config::hazards::is_hidden;

/// What a name looks like: letters that are drawn alike become one, case and white space go.
///
/// A small table of the scripts people are fooled with (Cyrillic, Greek, full width, digits for
/// letters), not the whole of Unicode's confusables: this warns, it does not decide.
pub fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars().filter(|c| !is_hidden(*c) && !c.is_whitespace()) {
        let c = match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
            c => c,
        };
        for c in c.to_lowercase() {
            out.push(alike(c));
        }
    }
    out.replace("rn", "m").replace("vv", "w").replace("cl", "d")
}

fn alike(c: char) -> char {
    match c {
        '0' | 'о' | 'ο' | 'օ' => 'o',
        '1' | '|' | 'і' | 'ι' | 'ӏ' | 'ı' | 'ⅼ' | 'l' | 'i' => 'l',
        'а' | 'α' => 'a',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'ҽ' => 'e',
        'һ' => 'h',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'м' => 'm',
        'п' | 'η' => 'n',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'ս' => 'u',
        'ν' | 'ѵ' => 'v',
        'ѡ' | 'ω' => 'w',
        'х' | 'χ' => 'x',
        'у' | 'γ' => 'y',
        'в' | 'β' => 'b',
        'ɡ' => 'g',
        '‐' | '‑' | '–' | '—' | '_' | '−' => '-',
        other => other,
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
