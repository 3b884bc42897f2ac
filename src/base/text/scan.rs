//! Splits text into pieces that can be drawn as they are and pieces that cannot: the only
//! classification of characters, shared by the sanitiser and [`super::inspect`].
//!
//! Classes come from the Unicode tables of `regex-syntax`. Only classifies; writes no markers.

use std::sync::OnceLock;

use regex_syntax::hir::{Class, HirKind};

/// Marks kept on one base character. Vietnamese needs two, Hebrew with cantillation four, a
/// Tibetan stack seven.
const MAX_CHAR_MARKS: usize = 8;
/// Letters kept in one cluster that a renderer may join without limit (conjuncts, Hangul jamo).
const MAX_JOINED_LETTERS: usize = 8;
/// Emoji that joiners may connect to one sign; families have up to four.
const MAX_JOINED_EMOJI: usize = 4;

/// Why a character is not drawn as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum HiddenKind {
    /// C0 control other than line break and tab, DEL, C1: escape sequences begin with these.
    Control,
    /// Changes the direction text is shown in.
    Bidi,
    /// Has no width: zero-width space and joiners, soft hyphen, byte order mark.
    ZeroWidth,
    /// An invisible copy of ASCII (U+E0000 to U+E007F).
    Tag,
    /// A variation selector that selects nothing.
    VariationSelector,
    /// Marks beyond what any script puts on one character.
    Marks,
    /// A character that is drawn as nothing, such as the Hangul fillers.
    Filler,
    /// Line and paragraph separator, which some programs break lines at.
    Separator,
    /// Other format characters.
    Format,
    /// Private use: what it looks like is up to the font.
    PrivateUse,
    /// Unassigned or a non-character.
    Unassigned,
}

/// A piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextPiece<'a> {
    /// Drawn as it is.
    Plain(&'a str),
    /// A line break: LF or CR LF.
    Break,
    /// A tab.
    Tab,
    /// What follows must be kept apart from what precedes it: a mark without a base, which would
    /// combine with our own text, or a letter that would make a cluster too long.
    Dotted,
    /// Not drawn: a run of one kind.
    Hidden { kind: HiddenKind, at: usize, text: &'a str },
}

/// The character before the next one in the output, if a mark may combine with it.
type Before = Option<BaseCharacter>;

/// A base with this many marks, in a cluster of this many joined letters.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BaseCharacter {
    marks: usize,
    joined: usize,
    emoji: EmojiKind,
    linked: bool,
    jamo: bool,
}

/// What may follow a character that is an emoji.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmojiKind {
    /// It is none, or no more than one.
    No,
    /// A digit or sign that a selector makes one: a selector.
    Possible,
    /// A selector, or a joiner to the next one.
    Sign,
    /// A joiner to the next one.
    Chosen,
}

impl EmojiKind {
    /// After a selector or a skin tone.
    const fn chosen(self) -> Self {
        match self {
            Self::No | Self::Possible => Self::No,
            Self::Sign | Self::Chosen => Self::Chosen,
        }
    }
}

const BASE: BaseCharacter =
    BaseCharacter { marks: 0, joined: 1, emoji: EmojiKind::No, linked: false, jamo: false };

/// A base that may be an emoji: `©`, `1` and `#` count, as in the standard.
const EMOJI: BaseCharacter = BaseCharacter { emoji: EmojiKind::Possible, ..BASE };

/// Iterates over the pieces of a text.
pub(super) struct Scanner<'a> {
    raw: &'a str,
    at: usize,
    before: Before,
}

/// The verdict on one character.
enum CharClass {
    Keep(Before),
    Break(usize),
    Tab,
    Dot,
    Hide(HiddenKind),
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(raw: &'a str) -> Self {
        Self { raw, at: 0, before: None }
    }

    fn judge(&self, c: char, rest: &str) -> CharClass {
        match c {
            '0'..='9' | '#' | '*' => return CharClass::Keep(Some(EMOJI)),
            // Our own markers end in `⟩`; a mark must not combine with either.
            ' ' | '⟩' => return CharClass::Keep(None),
            '!'..='~' => return CharClass::Keep(Some(BASE)),
            '\n' => return CharClass::Break(1),
            '\r' if rest.starts_with("\r\n") => return CharClass::Break(2),
            '\t' => return CharClass::Tab,
            _ => {}
        }
        if let Some(joined) = self.joined_emoji(c, rest) {
            return CharClass::Keep(Some(joined));
        }
        if let Some(kind) = hidden(c) {
            return CharClass::Hide(kind);
        }
        if matches!(c, '\u{fe0e}' | '\u{fe0f}') {
            // One selector after an emoji chooses its presentation and is legitimate.
            return match self.before {
                Some(base) if matches!(base.emoji, EmojiKind::Possible | EmojiKind::Sign) => {
                    let emoji = base.emoji.chosen();
                    CharClass::Keep(Some(BaseCharacter {
                        emoji,
                        linked: false,
                        jamo: false,
                        ..base
                    }))
                }
                _ => CharClass::Hide(HiddenKind::VariationSelector),
            };
        }
        if c < '\u{300}' {
            return CharClass::Keep((!c.is_whitespace()).then_some(EMOJI));
        }
        if tables().marks.has(c) || extends(c) {
            return self.judge_mark(c);
        }
        self.judge_letter(c)
    }

    /// The cluster that a joiner continues: one between two emoji makes a single sign of them, as
    /// in 👩‍💻. Anywhere else it is hidden.
    fn joined_emoji(&self, c: char, rest: &str) -> Option<BaseCharacter> {
        let base = self.before?;
        let joins = matches!(base.emoji, EmojiKind::Sign | EmojiKind::Chosen);
        if !joins || base.joined >= MAX_JOINED_EMOJI {
            return None;
        }
        let next = rest.strip_prefix('\u{200d}')?.chars().next()?;
        (c == '\u{200d}' && is_pictograph(next)).then_some(BaseCharacter {
            linked: true,
            emoji: EmojiKind::No,
            ..base
        })
    }

    fn judge_mark(&self, c: char) -> CharClass {
        match self.before {
            // These are drawn even when they stand alone.
            None if extends(c) => CharClass::Keep(Some(BASE)),
            None => CharClass::Dot,
            Some(base) if base.marks >= MAX_CHAR_MARKS => CharClass::Hide(HiddenKind::Marks),
            Some(BaseCharacter { marks, joined, emoji, .. }) => {
                let linked = tables().linkers.has(c);
                let toned = marks == 0 && is_skin_tone(c);
                let emoji = if toned { emoji.chosen() } else { EmojiKind::No };
                let marks = marks + 1;
                CharClass::Keep(Some(BaseCharacter { marks, joined, emoji, linked, ..BASE }))
            }
        }
    }

    fn judge_letter(&self, c: char) -> CharClass {
        let jamo = matches!(c, '\u{1100}'..='\u{115e}' | '\u{a960}'..='\u{a97c}')
            || matches!(c, '\u{1161}'..='\u{11ff}' | '\u{d7b0}'..='\u{d7fb}' | '\u{16d63}' | '\u{16d67}'..='\u{16d6a}');
        let joins = match self.before {
            Some(BaseCharacter { joined, linked, jamo: after, .. })
                if linked || (after && jamo) =>
            {
                joined
            }
            _ => 0,
        };
        if joins >= MAX_JOINED_LETTERS && c != '◌' {
            return CharClass::Dot;
        }
        if c.is_whitespace() || ('\u{2400}'..='\u{2426}').contains(&c) {
            return CharClass::Keep(None);
        }
        let emoji = if is_pictograph(c) { EmojiKind::Sign } else { EmojiKind::No };
        let linked = tables().prepended.has(c);
        let joined = joins + 1;
        CharClass::Keep(Some(BaseCharacter { marks: 0, joined, emoji, linked, jamo }))
    }

    /// Extends a hidden run over everything of the same kind.
    fn run(&mut self, kind: HiddenKind, start: usize) -> TextPiece<'a> {
        if kind == HiddenKind::ZeroWidth {
            // What follows a hidden character is joined to nothing.
            self.before = None;
        }
        while let Some(c) = self.raw[self.at..].chars().next() {
            match self.judge(c, &self.raw[self.at..]) {
                CharClass::Hide(next) if next == kind => self.at += c.len_utf8(),
                _ => break,
            }
        }
        self.before = None;
        TextPiece::Hidden { kind, at: start, text: &self.raw[start..self.at] }
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = TextPiece<'a>;

    fn next(&mut self) -> Option<TextPiece<'a>> {
        let start = self.at;
        while let Some(c) = self.raw[self.at..].chars().next() {
            let verdict = self.judge(c, &self.raw[self.at..]);
            if let CharClass::Keep(before) = verdict {
                self.before = before;
                self.at += c.len_utf8();
                continue;
            }
            if self.at > start {
                break;
            }
            return Some(match verdict {
                CharClass::Break(bytes) => {
                    self.at += bytes;
                    self.before = None;
                    TextPiece::Break
                }
                CharClass::Tab => {
                    self.at += 1;
                    self.before = None;
                    TextPiece::Tab
                }
                CharClass::Dot => {
                    // The judged character follows as plain text, on the base emitted here.
                    self.before = Some(BASE);
                    TextPiece::Dotted
                }
                CharClass::Hide(kind) => {
                    self.at += c.len_utf8();
                    self.run(kind, start)
                }
                CharClass::Keep(_) => continue,
            });
        }
        (self.at > start).then(|| TextPiece::Plain(&self.raw[start..self.at]))
    }
}

/// An emoji that is a sign of its own, unlike the digits and signs that only may become one.
fn is_pictograph(c: char) -> bool {
    c >= '\u{203c}' && tables().emoji.has(c) && !is_skin_tone(c)
}

const fn is_skin_tone(c: char) -> bool {
    matches!(c, '\u{1f3fb}'..='\u{1f3ff}')
}

/// Characters that are hidden regardless of context, but for a joiner between two emoji.
fn hidden(c: char) -> Option<HiddenKind> {
    let kind = match c {
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => HiddenKind::Control,
        '\u{ad}' | '\u{34f}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => {
            HiddenKind::ZeroWidth
        }
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}' => {
            HiddenKind::Bidi
        }
        '\u{2028}' | '\u{2029}' => HiddenKind::Separator,
        '\u{115f}' | '\u{1160}' | '\u{3164}' | '\u{ffa0}' | '\u{2800}' | '\u{17b4}'
        | '\u{17b5}' => HiddenKind::Filler,
        '\u{fe00}'..='\u{fe0d}' | '\u{e0100}'..='\u{e01ef}' | '\u{180b}'..='\u{180f}' => {
            HiddenKind::VariationSelector
        }
        // Plain, or judged by what precedes them.
        ' '..='~' | '\u{fe0e}' | '\u{fe0f}' => return None,
        '\u{e0000}'..='\u{e007f}' => HiddenKind::Tag,
        '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}' => {
            HiddenKind::PrivateUse
        }
        c if c < '\u{300}' => return None,
        c if tables().format.has(c) => HiddenKind::Format,
        c if tables().unassigned.has(c) => HiddenKind::Unassigned,
        _ => return None,
    };
    Some(kind)
}

/// Extends the character before it without being a mark: emoji skin tones, half-width voicing
/// signs, Thai and Lao `am`.
const fn extends(c: char) -> bool {
    is_skin_tone(c) || matches!(c, '\u{ff9e}' | '\u{ff9f}' | '\u{e33}' | '\u{eb3}')
}

/// A set of characters as sorted ranges.
struct Ranges(Box<[(char, char)]>);

impl Ranges {
    /// The set named by a bracket expression in `regex` syntax.
    fn parse(class: &str) -> Self {
        let ranges = match regex_syntax::parse(class).map(regex_syntax::hir::Hir::into_kind) {
            Ok(HirKind::Class(Class::Unicode(set))) => {
                set.ranges().iter().map(|range| (range.start(), range.end())).collect()
            }
            // The expressions are constants, and a test parses them all.
            _ => Box::default(),
        };
        Self(ranges)
    }

    fn has(&self, c: char) -> bool {
        let after = self.0.partition_point(|(start, _)| *start <= c);
        after > 0 && c <= self.0[after - 1].1
    }
}

struct Tables {
    marks: Ranges,
    format: Ranges,
    unassigned: Ranges,
    emoji: Ranges,
    linkers: Ranges,
    prepended: Ranges,
}

const MARKS_CLASS: &str = r"[\p{M}]";
const FORMAT_CLASS: &str = r"[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}]";
const UNASSIGNED_CLASS: &str = r"[\p{Cn}]";
const EMOJI_CLASS: &str = r"[\p{Emoji}]";
/// Marks that join the letters on both sides into one cluster (`Indic_Conjunct_Break=Linker`).
const LINKER_CLASS: &str = "[\u{94d}\u{9cd}\u{acd}\u{b4d}\u{c4d}\u{d4d}\u{1039}\u{17d2}\u{1a60}\
    \u{1b44}\u{1bab}\u{a9c0}\u{aaf6}\u{10a3f}\u{11133}\u{113d0}\u{1193e}\u{11a47}\u{11a99}]";
/// Letters that join the following one (`Grapheme_Cluster_Break=Prepend`).
const PREPENDED_CLASS: &str = "[\u{d4e}\u{111c2}\u{111c3}\u{113d1}\u{1193f}\u{11941}\u{11a3a}\
    \u{11a84}-\u{11a89}\u{11d46}\u{11f02}]";

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| Tables {
        marks: Ranges::parse(MARKS_CLASS),
        format: Ranges::parse(FORMAT_CLASS),
        unassigned: Ranges::parse(UNASSIGNED_CLASS),
        emoji: Ranges::parse(EMOJI_CLASS),
        linkers: Ranges::parse(LINKER_CLASS),
        prepended: Ranges::parse(PREPENDED_CLASS),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_is_known_to_the_tables() {
        for class in [MARKS_CLASS, FORMAT_CLASS, UNASSIGNED_CLASS, EMOJI_CLASS] {
            assert!(Ranges::parse(class).0.len() > 10, "{class}");
        }
        assert!(tables().marks.has('\u{301}') && !tables().marks.has('a'));
        assert!(tables().unassigned.has('\u{fffe}') && tables().emoji.has('❤'));
    }
}
