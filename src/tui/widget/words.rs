//! The words in which two texts differ. Pure.

use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// Longest texts that are compared by words, in bytes.
const MAX_WORDS_BYTES: usize = 4 << 10;
/// Most pairs of words, one of each text, that are set against each other for one page. Texts with
/// little in common need as many as there are.
const MAX_WORD_PAIRS: usize = 4 << 20;

/// How many words may still be compared for a page.
#[derive(Debug)]
pub struct WordBudget {
    pairs: usize,
}

impl Default for WordBudget {
    fn default() -> Self {
        Self { pairs: MAX_WORD_PAIRS }
    }
}

impl WordBudget {
    /// Takes what comparing these words may need; returns whether there was as much.
    fn take(&mut self, old: &[&str], new: &[&str]) -> bool {
        // Only what is between the same beginning and the same end is searched.
        let begin = old.iter().zip(new).take_while(|(one, other)| one == other).count();
        let (old, new) = (&old[begin..], &new[begin..]);
        let backwards = old.iter().rev().zip(new.iter().rev());
        let end = backwards.take_while(|(one, other)| one == other).count();
        let left = self.pairs.checked_sub((old.len() - end) * (new.len() - end));
        self.pairs = left.unwrap_or(self.pairs);
        left.is_some()
    }
}

/// The places of each text, in bytes, that differ from the other one by words. Empty if the texts
/// are too long for that or have almost nothing in common: then all of it differs.
pub fn differing_words(old: &str, new: &str, budget: &mut WordBudget) -> [Vec<Range<usize>>; 2] {
    if old.len().max(new.len()) > MAX_WORDS_BYTES {
        return Default::default();
    }
    let (before, after) = (words(old), words(new));
    if !budget.take(&before, &after) {
        return Default::default();
    }
    let mut places: [Vec<Range<usize>>; 2] = Default::default();
    let mut shared = 0;
    for op in capture_diff_slices(Algorithm::Myers, &before, &after) {
        if let DiffOp::Equal { old_index, len, .. } = op {
            let same = &before[old_index..old_index + len];
            shared += same.iter().map(|word| word.len()).sum::<usize>();
            continue;
        }
        let sides = [(old, &before, op.old_range()), (new, &after, op.new_range())];
        for (side, (text, words, range)) in sides.into_iter().enumerate() {
            let (Some(first), Some(last)) = (words.get(range.start), words[range].last()) else {
                continue;
            };
            let place = offset(text, first)..offset(text, last) + last.len();
            add(&mut places[side], place, text);
        }
    }
    if shared * 4 < old.len().max(new.len()) { Default::default() } else { places }
}

/// Adds a place; one that only blanks keep apart from the one before becomes a part of that.
fn add(places: &mut Vec<Range<usize>>, place: Range<usize>, text: &str) {
    match places.last_mut() {
        Some(before) if text[before.end..place.start].trim().is_empty() => before.end = place.end,
        _ => places.push(place),
    }
}

fn offset(text: &str, word: &str) -> usize {
    word.as_ptr() as usize - text.as_ptr() as usize
}

/// Words and what is between them: every other character stands for itself.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let end = if is_word(first) {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn differ<'a>(old: &'a str, new: &'a str) -> [Vec<&'a str>; 2] {
        let [before, after] = differing_words(old, new, &mut WordBudget::default());
        let texts = |text: &'a str, places: Vec<Range<usize>>| {
            places.into_iter().map(|place| &text[place]).collect()
        };
        [texts(old, before), texts(new, after)]
    }

    #[test]
    fn the_words_that_differ_are_found_and_all_of_it_where_nothing_is_shared() {
        let [before, after] = differ("Reads a file.", "Reads a file and posts it.");
        assert_eq!((before, after), (vec![], vec![" and posts it"]));
        let [before, after] = differ("\"port\": 80, \"host\": a", "\"port\": 8080, \"host\": b");
        assert_eq!((before, after), (vec!["80", "a"], vec!["8080", "b"]));
        assert_eq!(differ("one", "two"), [Vec::<&str>::new(), vec![]]);
        assert_eq!(differ("", ""), [Vec::<&str>::new(), vec![]]);
    }

    #[test]
    fn texts_that_differ_in_every_word_use_up_what_one_page_compares() {
        let words = |word: char| (0..1_000).map(move |n| format!("{word}{},", n % 7));
        let all = |word: char| words(word).collect::<Vec<_>>().concat();
        let (old, new) = (all('a'), all('b'));
        let mut budget = WordBudget::default();
        let mut is_compared = |old: &str, new: &str| {
            differing_words(old, new, &mut budget).iter().any(|places| !places.is_empty())
        };
        assert!(is_compared(&old, &new));
        assert!(!is_compared(&old, &new));
        // What is the same at both ends costs nothing.
        assert!(is_compared(&format!("{old} one"), &format!("{old} two")));
    }

    proptest! {
        #[test]
        fn what_is_left_of_both_is_the_same(old in "[ab é,]{0,30}", new in "[ab é,]{0,30}") {
            let [before, after] = differing_words(&old, &new, &mut WordBudget::default());
            if before.is_empty() && after.is_empty() {
                return Ok(());
            }
            let rest = |text: &str, places: &[Range<usize>]| {
                let is_same = |at: &usize| !places.iter().any(|place| place.contains(at));
                let same: Vec<u8> = (0..text.len()).filter(is_same).map(|at| text.as_bytes()[at]).collect();
                String::from_utf8(same).unwrap().replace(' ', "")
            };
            prop_assert_eq!(rest(&old, &before), rest(&new, &after));
        }
    }
}
