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

/// Indices of the `items` that match `typed`, best first; all of them in order if it is empty.
pub fn rank<'a, T>(
    typed: &str,
    items: &'a [T],
    fields: impl Fn(&'a T) -> SearchFields<'a>,
) -> Vec<usize> {
    let typed = typed.trim().to_ascii_lowercase();
    if typed.is_empty() {
        return (0..items.len()).collect();
    }
    let mut found: Vec<(MatchRank, usize, usize)> = items
        .iter()
        .enumerate()
        .filter_map(|(n, item)| {
            let fields = fields(item);
            let (fit, spans) = fit(&typed, &fields)?;
            // Ranked alike: matches at the start first, then shorter names, then the given order.
            let first = spans.first().is_some_and(|span| span.start > 0);
            let length = if fit < MatchRank::Context { fields.name.len() } else { 0 };
            Some((fit, usize::from(first) << 20 | length.min(1 << 19), n))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(.., n)| n).collect()
}

/// Whether an item matches `typed`.
pub fn fits(typed: &str, fields: &SearchFields<'_>) -> bool {
    let typed = typed.trim().to_ascii_lowercase();
    typed.is_empty() || fit(&typed, fields).is_some()
}

/// The byte ranges of a name that match `typed`, in order.
pub fn spans(typed: &str, name: &str) -> Vec<Range<usize>> {
    let typed = typed.trim().to_ascii_lowercase();
    if typed.is_empty() {
        return Vec::new();
    }
    fit(&typed, &name.into()).map(|(_, spans)| spans).unwrap_or_default()
}

fn fit(typed: &str, fields: &SearchFields<'_>) -> Option<(MatchRank, Vec<Range<usize>>)> {
    let name = fields.name;
    let at = stretch(name, typed);
    if at == Some(0) {
        let fit = if name.len() == typed.len() { MatchRank::Exact } else { MatchRank::Prefix };
        return Some((fit, one(0..typed.len())));
    }
    // `server.name` also counts as the name.
    let qualified = typed.strip_prefix(&fields.context.to_ascii_lowercase());
    if qualified
        .and_then(|rest| rest.strip_prefix('.'))
        .is_some_and(|rest| !fields.context.is_empty() && name.eq_ignore_ascii_case(rest))
    {
        return Some((MatchRank::Exact, one(0..name.len())));
    }
    let wanted: Vec<&str> = pieces(typed).map(|word| &typed[word]).collect();
    let words: Vec<Range<usize>> = pieces(name).collect();
    let in_name = |wanted: &&str| {
        words.iter().find(|word| begins(&name[word.start..], wanted)).map(|w| w.start)
    };
    if !wanted.is_empty() {
        let starts: Option<Vec<Range<usize>>> =
            wanted.iter().map(|word| in_name(word).map(|at| at..at + word.len())).collect();
        if let Some(mut spans) = starts {
            spans.sort_by_key(|span| span.start);
            spans.dedup_by(|next, span| next.start < span.end);
            return Some((MatchRank::Words, spans));
        }
    }
    if let Some(at) = at {
        return Some((MatchRank::Inside, one(at..at + typed.len())));
    }
    if wanted.len() == 1 && (2..=MAX_INITIALS_BYTES).contains(&typed.len()) {
        let mut spans = Vec::new();
        if initials(typed, name, &words, &mut spans) {
            return Some((MatchRank::Initials, spans));
        }
    }
    let has = |text: &str, word: &str| pieces(text).any(|p| begins(&text[p.start..], word));
    if !wanted.is_empty()
        && wanted.iter().all(|word| in_name(word).is_some() || has(fields.context, word))
    {
        let spans = wanted.iter().filter_map(|word| in_name(word).map(|at| at..at + word.len()));
        return Some((MatchRank::Context, spans.take(1).collect()));
    }
    starts(fields.text)
        .any(|at| begins(&fields.text[at..], typed))
        .then(|| (MatchRank::Text, Vec::new()))
}

/// Whether a text begins with `typed`, which is in lower case, ignoring ASCII case.
fn begins(text: &str, typed: &str) -> bool {
    text.as_bytes()
        .get(..typed.len())
        .is_some_and(|head| head.eq_ignore_ascii_case(typed.as_bytes()))
}

fn one(span: Range<usize>) -> Vec<Range<usize>> {
    std::iter::once(span).collect()
}

/// Byte offset of `typed` in `name`, preferably at the beginning of a word.
fn stretch(name: &str, typed: &str) -> Option<usize> {
    starts(name).find(|at| begins(&name[*at..], typed)).or_else(|| find(name, typed))
}

/// Whether `typed` consists of prefixes of words of the name, in order.
fn initials(
    typed: &str,
    name: &str,
    words: &[Range<usize>],
    spans: &mut Vec<Range<usize>>,
) -> bool {
    if typed.is_empty() {
        return true;
    }
    for (n, word) in words.iter().enumerate() {
        let same = typed.bytes().zip(name[word.clone()].bytes());
        let most = same.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
        for taken in (1..=most).rev() {
            let whole = typed.is_char_boundary(taken) && name.is_char_boundary(word.start + taken);
            if !whole {
                continue;
            }
            spans.push(word.start..word.start + taken);
            if initials(&typed[taken..], name, &words[n + 1..], spans) {
                return true;
            }
            spans.pop();
        }
    }
    false
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
        assert_eq!(rank("hows"), [0; 0], "a stretch begins with a word");
    }

    #[test]
    fn what_was_found_is_marked_where_it_was_found() {
        assert_eq!(spans("log", "git_log"), one(4..7));
        assert_eq!(spans("text read", "read_text_file"), [0..4, 5..9]);
        assert_eq!(spans("rtf", "read_text_file"), [0..1, 5..6, 10..11]);
        assert!(spans("zz", "read_text_file").is_empty());
    }

    proptest! {
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
