//! Search by typing: the one ranking for list filters, palette and pickers. An exact name ranks
//! first, then names with that prefix, words of the name, parts of it, and last a contiguous part
//! of the description; items without a match are not listed.

use std::ops::Range;

use crate::filter::find;

/// The searchable texts of an item.
#[derive(Clone, Copy, Debug, Default)]
pub struct SearchFields<'a> {
    /// Its name, in which matches are highlighted.
    pub name: &'a str,
    /// Words besides the name: its server, other names.
    pub context: &'a str,
    /// Its description.
    pub text: &'a str,
}

impl<'a> From<&'a str> for SearchFields<'a> {
    fn from(name: &'a str) -> Self {
        Self { name, ..Self::default() }
    }
}

/// How well an item matches; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MatchRank {
    Exact,
    Prefix,
    Words,
    Inside,
    Initials,
    Context,
    Text,
}

/// Longest typed text that is matched against initials of a name's words, in bytes.
const MAX_INITIALS_BYTES: usize = 32;

/// A typed text, prepared for many items: nothing is allocated for one that does not match.
#[derive(Debug, Default)]
struct TypedText {
    /// Trimmed, ASCII letters in lower case.
    typed: String,
    /// Its words.
    words: Vec<Range<usize>>,
    /// What the last match marks in the name of its item.
    spans: Vec<Range<usize>>,
    /// The words of a name, while its initials are compared.
    pieces: Vec<Range<usize>>,
    /// What of the typed text the words from each on can match, while initials are compared.
    rests: Vec<u64>,
}

impl TypedText {
    fn new(typed: &str) -> Self {
        let typed = typed.trim().to_ascii_lowercase();
        let words = pieces(&typed).collect();
        Self { typed, words, ..Self::default() }
    }

    /// How well an item matches; what is marked in its name is in `spans`.
    fn fit(&mut self, fields: &SearchFields<'_>) -> Option<MatchRank> {
        let Self { typed, words, spans, pieces: initial, rests } = self;
        let (typed, name) = (typed.as_str(), fields.name);
        spans.clear();
        let at = stretch(name, typed);
        if at == Some(0) {
            spans.push(0..typed.len());
            let is_whole = name.len() == typed.len();
            return Some(if is_whole { MatchRank::Exact } else { MatchRank::Prefix });
        }
        if is_qualified(typed, fields) {
            spans.push(0..name.len());
            return Some(MatchRank::Exact);
        }
        let all = || words.iter().map(|word| &typed[word.clone()]);
        let in_name = |word: &str| beginning(name, word);
        if !words.is_empty() && all().all(|word| in_name(word).is_some()) {
            spans.extend(all().filter_map(|word| in_name(word).map(|at| at..at + word.len())));
            spans.sort_by_key(|span| span.start);
            spans.dedup_by(|next, span| next.start < span.end);
            return Some(MatchRank::Words);
        }
        if let Some(at) = at {
            spans.push(at..at + typed.len());
            return Some(MatchRank::Inside);
        }
        if words.len() == 1 && (2..=MAX_INITIALS_BYTES).contains(&typed.len()) {
            initial.clear();
            initial.extend(pieces(name));
            if initials(typed, name, initial, rests, spans) {
                return Some(MatchRank::Initials);
            }
        }
        let in_context = |word: &str| beginning(fields.context, word).is_some();
        if !words.is_empty() && all().all(|word| in_name(word).is_some() || in_context(word)) {
            let found = all().find_map(|word| in_name(word).map(|at| at..at + word.len()));
            spans.extend(found);
            return Some(MatchRank::Context);
        }
        beginning(fields.text, typed).map(|_| MatchRank::Text)
    }

    /// Whether all that matches another typed text, which begins with this one, matches this too:
    /// each word of this one begins one of the other, or is one.
    fn is_wider_than(&self, other: &Self) -> bool {
        !self.words.is_empty() && other.typed.starts_with(&self.typed)
    }
}

/// The last search of a list: one that goes on typing is looked for in what was found before alone.
#[derive(Debug, Default)]
pub struct TypedSearch {
    wanted: TypedText,
    /// What was found, in the order of the list.
    found: Vec<usize>,
}

impl TypedSearch {
    /// The list is another one.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Indices of the `items` that match `typed`, best first; all of them in order if it is empty.
    /// The items are those of the last search, unless it was [`TypedSearch::reset`] since.
    pub fn rank<'a, T>(
        &mut self,
        typed: &str,
        items: &'a [T],
        fields: impl Fn(&'a T) -> SearchFields<'a>,
    ) -> Vec<usize> {
        let wanted = TypedText::new(typed);
        let within = self.wanted.is_wider_than(&wanted);
        let before = std::mem::take(&mut self.found);
        self.wanted = wanted;
        if self.wanted.typed.is_empty() {
            return (0..items.len()).collect();
        }
        let mut ranked: Vec<(MatchRank, usize, usize)> = Vec::new();
        let mut look = |n: usize| {
            let Some(item) = items.get(n) else { return };
            let fields = fields(item);
            let Some(fit) = self.wanted.fit(&fields) else { return };
            // Ranked alike: matches at the start first, then shorter names, then the given order.
            let first = self.wanted.spans.first().is_some_and(|span| span.start > 0);
            let length = if fit < MatchRank::Context { fields.name.len() } else { 0 };
            ranked.push((fit, usize::from(first) << 20 | length.min(1 << 19), n));
        };
        if within {
            before.into_iter().for_each(&mut look);
        } else {
            (0..items.len()).for_each(&mut look);
        }
        self.found = ranked.iter().map(|(.., n)| *n).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(.., n)| n).collect()
    }
}

/// Indices of the `items` that match `typed`, best first; all of them in order if it is empty.
pub fn rank<'a, T>(
    typed: &str,
    items: &'a [T],
    fields: impl Fn(&'a T) -> SearchFields<'a>,
) -> Vec<usize> {
    TypedSearch::default().rank(typed, items, fields)
}

/// Whether an item matches `typed`.
pub fn fits(typed: &str, fields: &SearchFields<'_>) -> bool {
    let mut wanted = TypedText::new(typed);
    wanted.typed.is_empty() || wanted.fit(fields).is_some()
}

/// The byte ranges of a name that match `typed`, in order.
pub fn spans(typed: &str, name: &str) -> Vec<Range<usize>> {
    let mut wanted = TypedText::new(typed);
    if wanted.typed.is_empty() || wanted.fit(&name.into()).is_none() {
        return Vec::new();
    }
    wanted.spans
}

/// Whether `typed` is the name with a word of the context before it: `server.name`.
fn is_qualified(typed: &str, fields: &SearchFields<'_>) -> bool {
    let (name, context) = (fields.name.as_bytes(), fields.context.as_bytes());
    let typed = typed.as_bytes();
    let Some(before) = typed.len().checked_sub(name.len()) else { return false };
    let Some(server) = typed[..before].strip_suffix(b".") else { return false };
    let Some(at) = context.len().checked_sub(server.len()) else { return false };
    !server.is_empty()
        && typed[before..].eq_ignore_ascii_case(name)
        && context[at..].eq_ignore_ascii_case(server)
        && at.checked_sub(1).is_none_or(|at| context[at] == b' ')
}

/// Whether a text begins with `typed`, which is in lower case, ignoring ASCII case.
fn begins(text: &str, typed: &str) -> bool {
    text.as_bytes()
        .get(..typed.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(typed.as_bytes()))
}

/// Byte offset of `typed` in `name`, preferably at the beginning of a word.
fn stretch(name: &str, typed: &str) -> Option<usize> {
    let anywhere = find(name, typed)?;
    beginning(name, typed).or(Some(anywhere))
}

/// Byte offset of the first word of a text that `typed` begins at.
fn beginning(text: &str, typed: &str) -> Option<usize> {
    // Most texts do not have it at all.
    find(text, typed)?;
    starts(text).find(|at| begins(&text[*at..], typed))
}

/// Whether `typed` consists of prefixes of words of the name, in order; they are in `spans`, the
/// first words and of those the longest prefixes. The steps grow with the length of the name, however
/// many ways there are to divide `typed`.
fn initials(
    typed: &str,
    name: &str,
    words: &[Range<usize>],
    rests: &mut Vec<u64>,
    spans: &mut Vec<Range<usize>>,
) -> bool {
    // For each word from the last on: a bit for each offset of `typed` from which it can be matched
    // by this word and those after it.
    rests.clear();
    rests.push(1 << typed.len());
    for word in words.iter().rev() {
        let after = *rests.last().unwrap_or(&0);
        let found = prefixes(typed, &name[word.clone()]);
        let begun = found.map(|(length, offsets)| offsets & (after >> length));
        rests.push(begun.fold(after, |rest, offsets| rest | offsets));
    }
    if rests.last().is_none_or(|rest| rest & 1 == 0) {
        return false;
    }
    let mut at = 0;
    for (word, after) in words.iter().zip(rests.iter().rev().skip(1)) {
        let taken = prefixes(typed, &name[word.clone()])
            .filter(|(length, offsets)| offsets >> at & 1 == 1 && after >> (at + length) & 1 == 1)
            .last();
        if let Some((length, _)) = taken {
            spans.push(word.start..word.start + length);
            at += length;
        }
    }
    true
}

/// The prefixes of a word that are anywhere in `typed`, ignoring ASCII case: their lengths in bytes,
/// and a bit for each offset where they are.
fn prefixes<'a>(typed: &'a str, word: &'a str) -> impl Iterator<Item = (usize, u64)> + 'a {
    let bytes = word.bytes().enumerate().take(typed.len());
    let prefixes = bytes.scan(u64::MAX, move |offsets, (n, byte)| {
        let is_here = |(at, typed): (usize, u8)| u64::from(typed.eq_ignore_ascii_case(&byte)) << at;
        let places = typed.bytes().enumerate().map(is_here).fold(0, |places, bit| places | bit);
        *offsets &= places >> n;
        (*offsets != 0).then_some((n + 1, *offsets))
    });
    prefixes.filter(|(length, _)| word.is_char_boundary(*length))
}

/// Offsets where words begin: after a non-alphanumeric, or at a capital after a lower-case letter.
fn starts(text: &str) -> impl Iterator<Item = usize> + '_ {
    let mut before = ' ';
    text.char_indices().filter_map(move |(at, c)| {
        let begins = c.is_alphanumeric()
            && (!before.is_alphanumeric() || (before.is_lowercase() && c.is_uppercase()));
        before = c;
        begins.then_some(at)
    })
}

/// The words of a text.
fn pieces(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut starts = starts(text).peekable();
    std::iter::from_fn(move || {
        let start = starts.next()?;
        let next = starts.peek().copied().unwrap_or(text.len());
        let end =
            text[start..next].find(|c: char| !c.is_alphanumeric()).map_or(next, |n| start + n);
        Some(start..end)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found<'a>(typed: &str, names: &'a [&'a str]) -> Vec<&'a str> {
        rank(typed, names, |name| (*name).into()).into_iter().map(|n| names[n]).collect()
    }

    #[test]
    fn exact_then_prefix_then_words_then_parts_then_initials_and_nothing_else() {
        let names = ["reread", "file_read", "read_file", "read", "rest_early_and_die", "other"];
        assert_eq!(
            found("read", &names),
            ["read", "read_file", "file_read", "reread", "rest_early_and_die"]
        );
        assert_eq!(found("", &names), names);
        assert_eq!(found("zzz", &names), [""; 0]);
        assert_eq!(found("file read", &names), ["file_read", "read_file"]);
        assert_eq!(found("getFile", &["getFileInfo", "forgetFile"])[0], "getFileInfo");
    }

    #[test]
    fn a_description_is_found_as_one_stretch_and_a_server_by_its_name() {
        let items = [("echo", "everything", "Says it again"), ("git_log", "git", "Shows the log")];
        let rank = |typed: &str| {
            rank(typed, &items, |(name, context, text)| SearchFields { name, context, text })
        };
        assert_eq!(rank("says it"), [0]);
        assert_eq!(rank("says again"), [0; 0]);
        assert_eq!(rank("everything echo"), [0]);
        assert_eq!(rank("git.git_log"), [1]);
        let named =
            [("log_all", "Logs git", ""), ("log", "Logs git", ""), ("log", "Logs ungit", "")];
        let found = |typed: &str| {
            super::rank(typed, &named, |(name, context, text)| SearchFields { name, context, text })
        };
        assert_eq!(found("git.log"), [1, 0], "the server is the last word of the context");
        assert_eq!(rank("hows"), [0; 0], "a stretch begins with a word");
    }

    #[test]
    fn what_was_found_is_marked_where_it_was_found() {
        let log = spans("log", "git_log");
        assert_eq!((log.len(), log.first()), (1, Some(&(4..7))));
        assert_eq!(spans("text read", "read_text_file"), [0..4, 5..9]);
        assert_eq!(spans("rtf", "read_text_file"), [0..1, 5..6, 10..11]);
        assert!(spans("zz", "read_text_file").is_empty());
    }

    #[test]
    fn a_name_that_can_be_divided_in_countless_ways_is_decided_at_once() {
        let letters = "s_e_s_s_i_o_".repeat(85);
        let name = format!("{letters}_n");
        for (typed, is_found) in [
            ("sessiosessiosessiosessiosessiox", false),
            ("sessiosessiosessiosessiosession", true),
            ("ssssssssssssssssssssssssssssssx", false),
        ] {
            assert_eq!(fits(typed, &name.as_str().into()), is_found, "{typed}");
        }
        let words = "session_sess_se_s_ses_".repeat(40);
        assert!(!fits("sessessesessessesessesessesessx", &words.as_str().into()));
    }

    /// Whether `typed` is made of prefixes of words, by trying every way.
    fn is_divisible(typed: &str, words: &[&str]) -> bool {
        let Some((word, after)) = words.split_first() else { return typed.is_empty() };
        let mut lengths = (1..=word.len()).filter(|length| word.is_char_boundary(*length));
        is_divisible(typed, after)
            || lengths.any(|length| {
                let rest = typed.strip_prefix(&word[..length]);
                rest.is_some_and(|rest| is_divisible(rest, after))
            })
    }

    #[test]
    fn one_that_goes_on_typing_is_looked_for_in_what_was_found_before_alone() {
        let names: Vec<String> = (0..5_000).map(|n| format!("tool_{n:04}")).collect();
        let looked = std::cell::Cell::new(0);
        let mut search = TypedSearch::default();
        let mut found = |typed: &str| {
            looked.set(0);
            let ranked = search.rank(typed, &names, |name| {
                looked.set(looked.get() + 1);
                name.as_str().into()
            });
            (ranked.len(), looked.get())
        };
        let (zero, all) = found("0");
        assert_eq!(all, names.len());
        let (one, looked_at) = found("01");
        assert!(one < zero && looked_at == zero, "{one} of {looked_at}");
        assert_eq!(found("015").1, one);
        // What was deleted may be anywhere again.
        assert_eq!(found("01"), (one, names.len()));
        search.reset();
        assert_eq!(
            search.rank("015", &names[..200], |name| name.as_str().into()),
            (150..160).chain([15_usize]).collect::<Vec<_>>()
        );
    }

    proptest! {
        #[test]
        fn typing_on_finds_what_typing_at_once_finds(
            names in proptest::collection::vec(("[a-cA-C_.é]{0,8}", "[a-cA ]{0,6}", "[a-c. ]{0,12}"), 0..12),
            typed in "[a-cA-C_. é-]{0,7}",
        ) {
            let mut search = TypedSearch::default();
            for end in (0..=typed.len()).filter(|end| typed.is_char_boundary(*end)) {
                let typed = &typed[..end];
                let on = search.rank(typed, &names, |(name, context, text)| {
                    SearchFields { name, context, text }
                });
                let at_once = rank(typed, &names, |(name, context, text)| {
                    SearchFields { name, context, text }
                });
                prop_assert_eq!(on, at_once);
            }
        }

        #[test]
        fn initials_are_prefixes_of_words_in_whatever_way(
            words in proptest::collection::vec("[abé]{1,4}", 0..6),
            typed in "[abé]{2,8}",
        ) {
            let name = words.join("_");
            let split: Vec<&str> = words.iter().map(String::as_str).collect();
            let marked = spans(&typed, &name);
            let is_marked_whole =
                marked.iter().map(|span| &name[span.clone()]).collect::<String>() == typed;
            prop_assert_eq!(is_marked_whole, name.contains(&typed) || is_divisible(&typed, &split));
        }

        #[test]
        fn marks_are_parts_of_the_name_in_order(typed in "[a-cé_ ]{0,6}", name in "[a-cA-Cé_日 ]{0,12}") {
            let mut end = 0;
            for span in spans(&typed, &name) {
                prop_assert!(span.start >= end && name.get(span.clone()).is_some(), "{span:?}");
                end = span.end;
            }
        }
    }
}
