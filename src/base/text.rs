//! Untrusted text, sanitised once where it enters (invariant 8).
//!
//! Owns the sanitiser. Its output cannot move the cursor, colour, ring, link, set a title, paste or
//! hide anything; what was removed is replaced by a visible marker, because the person who approves
//! a text must see that something was there.
//!
//! # Markers
//! | was | becomes |
//! | --- | --- |
//! | C0 control, DEL | its picture: `␛`, `␇`, `␀`, `␡` |
//! | C1, bidi, zero-width and other invisible characters | a name: `⟨CSI⟩`, `⟨RLO⟩`, `⟨ZWSP⟩`, `⟨U+1D173⟩` |
//! | a run of the same | counted: `⟨ZWSP×12⟩` |
//! | tag characters | what they spell: `⟨tags "ignore"⟩` |
//! | a pile of marks on one character | `⟨+496 marks⟩` |
//! | a mark without a base, an overlong cluster | `◌` and what follows |
//!
//! Kept as they are: every visible character of every script, up to eight marks on each, and one
//! emoji presentation selector after an emoji, and a joiner between two emoji. Sanitising is idempotent.

use std::borrow::Cow;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::text::scan::{Scanner, TextPiece};

pub mod inspect;
pub mod json;
pub mod path;
pub mod percent;
mod scan;

pub use scan::HiddenKind;

/// The longest prefix of at most `max` bytes that ends between characters.
pub fn cut(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or_default()]
}

/// How alike two words are: 0.0 (nothing in common) to 1.0 (equal), by Jaro-Winkler. Two neighbouring
/// characters swapped, the commonest slip, hardly count, which in a short word they would.
pub fn likeness(one: &str, other: &str) -> f64 {
    /// Words with one swap are at least as alike as this.
    const MIN_SWAP_LIKENESS: f64 = 0.95;
    let plain = strsim::jaro_winkler(one, other);
    if is_swapped(one, other) { plain.max(MIN_SWAP_LIKENESS) } else { plain }
}

/// Whether two words differ only by two neighbouring characters that changed places.
fn is_swapped(one: &str, other: &str) -> bool {
    let differs = |(a, b): &(char, char)| a != b;
    let mut pairs = one.chars().zip(other.chars()).skip_while(|pair| !differs(pair));
    let (Some(first), Some(second)) = (pairs.next(), pairs.next()) else { return false };
    one.len() == other.len() && first == (second.1, second.0) && !pairs.any(|pair| differs(&pair))
}

/// The known word most similar to `wanted`, if its [`likeness`] is above `above`.
pub fn nearest<T: AsRef<str>>(
    wanted: &str,
    known: impl IntoIterator<Item = T>,
    above: f64,
) -> Option<T> {
    let scored = known.into_iter().map(|word| (likeness(wanted, word.as_ref()), word));
    let best = scored.max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(score, _)| *score > above).map(|(_, word)| word)
}

/// Text that is safe to draw: no control, bidi, tag or zero-width characters are left in it.
///
/// Made by [`SafeText::line`] (one line; line breaks become `⏎`), [`SafeText::block`] (keeps `\n`,
/// expands tabs) or [`SafeText::cut`] (one line of limited length). Cheap to clone.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct SafeText(Arc<str>);

/// A part of a text that is safe to draw: our own literals, numbers, and what was sanitised.
pub trait SafePart: fmt::Display {}

macro_rules! safe_parts {
    ($($t:ty),*) => { $(impl SafePart for $t {})* };
}
safe_parts!(u8, u16, u32, u64, usize, i32, i64, f32, f64, bool, char, SafeText);
safe_parts!(crate::human::Dur, crate::human::Bytes, crate::human::Count);
impl SafePart for &'static str {}
impl<T: SafePart> SafePart for &T {}

/// Whether line breaks are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LineBreaks {
    Keep,
    Mark,
}

impl SafeText {
    /// Sanitises `raw` to a single line.
    pub fn line(raw: &str) -> Self {
        Self(sanitise(raw, LineBreaks::Mark).into())
    }

    /// A number in decimal digits.
    pub fn number(number: i64) -> Self {
        Self(number.to_string().into())
    }

    /// Sanitises `raw`, keeping its line breaks.
    pub fn block(raw: &str) -> Self {
        Self(sanitise(raw, LineBreaks::Keep).into())
    }

    /// Sanitises `raw` to a single line of at most `max_chars` characters; a longer one ends in
    /// `…`. Scans no more of `raw` than needed.
    pub fn cut(raw: &str, max_chars: usize) -> Self {
        Self::cut_as(raw, max_chars, LineBreaks::Mark)
    }

    /// Like [`SafeText::cut`], keeping line breaks.
    pub fn cut_block(raw: &str, max_chars: usize) -> Self {
        Self::cut_as(raw, max_chars, LineBreaks::Keep)
    }

    /// The text as HTML, in an element or in a quoted attribute: nothing in it is markup.
    pub fn to_html(&self) -> String {
        self.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
    }

    fn cut_as(raw: &str, max_chars: usize, lines: LineBreaks) -> Self {
        // Raw text may shrink to a shorter marker, so the scanned prefix has some to spare.
        let end =
            raw.char_indices().nth(max_chars.saturating_mul(2)).map_or(raw.len(), |(at, _)| at);
        let safe = sanitise(&raw[..end], lines);
        let over = safe.char_indices().nth(max_chars);
        if over.is_none() && end == raw.len() {
            return Self(safe.into());
        }
        let keep = max_chars.saturating_sub(1);
        let end = safe.char_indices().nth(keep).map_or(safe.len(), |(at, _)| at);
        // Never cut inside a marker.
        let end = match (safe[..end].rfind('⟨'), safe[..end].rfind('⟩')) {
            (Some(open), close) if close.is_none_or(|close| close < open) => open,
            _ => end,
        };
        // Nor between emoji that are joined: the joiner goes with the second one.
        let end = safe[..end].trim_end_matches('\u{200d}').len();
        let dots = if max_chars == 0 { "" } else { "…" };
        Self(format!("{}{dots}", &safe[..end]).into())
    }

    /// The safe text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is no text at all.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many characters, or runs of them, are shown as markers. Literal markers in the text
    /// count too: a forged marker is just as suspicious.
    pub fn hidden(&self) -> usize {
        if self.0.is_ascii() {
            return 0;
        }
        let mark = |c: &char| matches!(c, '\u{2400}'..='\u{2426}' | '⟨' | '◌');
        self.0.chars().filter(mark).count()
    }
}

/// A run of characters of one kind that are not drawn as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenChar {
    /// Byte offset in the raw text.
    pub at: usize,
    /// Why they are not drawn.
    pub kind: HiddenKind,
    /// The first of them.
    pub first: char,
    /// How many there are.
    pub count: usize,
    /// Their name: `RLO`, `ESC`, `U+1D173`; for tags, what they spell.
    pub name: String,
}

/// Everything in `raw` that a reader would not see, in order. Line breaks and tabs are not listed.
pub fn inspect(raw: &str) -> Vec<HiddenChar> {
    if is_plain(raw, LineBreaks::Keep) {
        return Vec::new();
    }
    Scanner::new(raw)
        .filter_map(|piece| match piece {
            TextPiece::Hidden { kind, at, text } => Some(HiddenChar {
                at,
                kind,
                first: text.chars().next().unwrap_or_default(),
                count: text.chars().count(),
                name: of_run(kind, text),
            }),
            _ => None,
        })
        .collect()
}

/// Whether the text is printable ASCII, as most is, and needs no scan.
fn is_plain(raw: &str, lines: LineBreaks) -> bool {
    let newline = if lines == LineBreaks::Keep { b'\n' } else { b' ' };
    // Counting instead of stopping at the first lets the compiler vectorise the loop.
    raw.as_bytes().chunks(64).all(|chunk| {
        let odd = |b: &&u8| !(b' '..=b'~').contains(b) && **b != newline;
        chunk.iter().filter(odd).count() == 0
    })
}

fn sanitise(raw: &str, lines: LineBreaks) -> Cow<'_, str> {
    if is_plain(raw, lines) {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len() + 16);
    for piece in Scanner::new(raw) {
        match piece {
            TextPiece::Plain(text) => out.push_str(text),
            TextPiece::Break if lines == LineBreaks::Keep => out.push('\n'),
            TextPiece::Break => out.push('⏎'),
            TextPiece::Tab => out.push_str("    "),
            TextPiece::Dotted => out.push('◌'),
            TextPiece::Hidden { kind, text, .. } => out.push_str(&mark(kind, text)),
        }
    }
    Cow::Owned(out)
}

fn mark(kind: HiddenKind, text: &str) -> String {
    let count = text.chars().count();
    let control = |c: char| match c {
        // Control pictures stand in the order of the controls (U+2400 to U+241F).
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('␦').to_string(),
        '\u{7f}' => "␡".to_owned(),
        _ => format!("⟨{}⟩", abbreviation(c)),
    };
    match kind {
        HiddenKind::Control => text.chars().map(control).collect(),
        HiddenKind::Tag => format!("⟨tags {:?}⟩", spelt(text)),
        HiddenKind::Marks => format!("⟨+{count} marks⟩"),
        HiddenKind::VariationSelector => format!("⟨VS{}⟩", times(count)),
        _ => {
            let mut out = String::new();
            let mut rest = text.chars().peekable();
            while let Some(c) = rest.next() {
                let mut count = 1;
                while rest.next_if_eq(&c).is_some() {
                    count += 1;
                }
                let _ = write!(out, "⟨{}{}⟩", abbreviation(c), times(count));
            }
            out
        }
    }
}

fn times(count: usize) -> String {
    if count == 1 { String::new() } else { format!("×{count}") }
}

impl std::ops::Deref for SafeText {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for SafeText {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for SafeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SafeText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|s| Self::block(&s))
    }
}

// Names of hidden characters.

/// Names of C0 (U+0000 to U+001F).
const C0: &str = "\
    NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM \
    SUB ESC FS GS RS US";

/// Names of the others, as `NAME=code`.
const NAMES: &str = "\
    DEL=7f NEL=85 DCS=90 SOS=98 CSI=9b ST=9c OSC=9d PM=9e APC=9f SHY=ad CGJ=34f ALM=61c ZWSP=200b \
    ZWNJ=200c ZWJ=200d LRM=200e RLM=200f LS=2028 PS=2029 LRE=202a RLE=202b PDF=202c LRO=202d \
    RLO=202e WJ=2060 LRI=2066 RLI=2067 FSI=2068 PDI=2069 BLANK=2800 BOM=feff";

/// The usual abbreviation of a character, or `U+XXXX`.
fn abbreviation(c: char) -> String {
    let code = format!("{:x}", u32::from(c));
    let mut names = NAMES.split(' ').filter_map(|name| name.split_once('='));
    match c {
        '\0'..='\u{1f}' => C0.split(' ').nth(c as usize).unwrap_or_default().to_owned(),
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' => "HANGUL FILLER".to_owned(),
        _ => match names.find(|(_, of)| *of == code) {
            Some((name, _)) => name.to_owned(),
            None => format!("U+{:04X}", u32::from(c)),
        },
    }
}

/// The name of a run of hidden characters.
fn of_run(kind: HiddenKind, text: &str) -> String {
    match kind {
        HiddenKind::Tag => format!("tags {:?}", spelt(text)),
        HiddenKind::Marks => "combining marks".to_owned(),
        _ => text.chars().next().map(abbreviation).unwrap_or_default(),
    }
}

/// The ASCII text that tag characters spell; those that spell nothing printable become `?`.
fn spelt(tags: &str) -> String {
    tags.chars()
        .map(|c| {
            let ascii = char::from_u32(u32::from(c).wrapping_sub(0xE_0000)).unwrap_or('?');
            if ascii.is_ascii_graphic() || ascii == ' ' { ascii } else { '?' }
        })
        .collect()
}

// Shell words for commands that can be pasted.

/// Quotes a word for a POSIX shell, if it needs quotes.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:=@,+%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}
