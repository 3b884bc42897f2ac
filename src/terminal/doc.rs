//! A text of styled lines that is built once and drawn by window: details, help, diagnostics.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::ink::Drawable;
use crate::json_line::json_line;
use crate::look::Look;
use crate::parts::scroll_bar;
use crate::pen::{Pen, width};
use crate::prelude::*;
use crate::search::contains;
use base::pointer::child_pointer;
use base::text::json::{NO_NUMBERS, WrittenNumbers, WrittenValue};
use serde_json::Value;

/// One line: pieces with their roles.
pub type DocLine = Vec<(Ink, Role)>;

/// A text of styled lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doc {
    lines: Vec<DocLine>,
    width: u16,
    cut: bool,
    /// Whether a title within the text stands above: its fields are indented like its lines.
    in_section: bool,
}

/// A part of a JSON value in a text.
struct DocJson<'a> {
    key: Option<&'a str>,
    value: &'a Value,
    comma: &'static str,
    /// The numbers of the whole, as they are written.
    numbers: &'a WrittenNumbers,
    /// JSON pointer of the part, if there are such numbers.
    place: String,
}

impl<'a> DocJson<'a> {
    const fn whole(value: &'a Value, numbers: &'a WrittenNumbers) -> Self {
        Self { key: None, value, comma: "", numbers, place: String::new() }
    }

    fn child(&self, n: usize, key: Option<&'a str>, value: &'a Value, comma: &'static str) -> Self {
        let place = match key {
            _ if self.numbers.is_empty() => String::new(),
            Some(key) => child_pointer(&self.place, key),
            None => format!("{}/{n}", self.place),
        };
        Self { key, value, comma, numbers: self.numbers, place }
    }
}

impl Doc {
    /// Most lines of one text; if there are more, the last line says so.
    pub const MAX_LINES: usize = 20_000;

    /// An empty text that wraps at `width` cells.
    pub fn new(width: u16) -> Self {
        Self { width: width.max(8), ..Self::default() }
    }

    /// The width it wraps at, in cells.
    pub const fn width(&self) -> u16 {
        self.width
    }

    /// Whether it was cut at [`Doc::MAX_LINES`].
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    pub fn lines(&self) -> &[DocLine] {
        &self.lines
    }

    /// Number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no lines.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A line of pieces, not wrapped.
    pub fn line(&mut self, line: DocLine) -> &mut Self {
        if self.lines.len() < Self::MAX_LINES {
            self.lines.push(line);
        } else if !self.cut {
            self.cut = true;
            self.lines.push(vec![(ink!("truncated; save it to read the rest"), Role::Warning)]);
        }
        self
    }

    /// An empty line, unless the last one is empty already.
    pub fn gap(&mut self) -> &mut Self {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.line(Vec::new());
        }
        self
    }

    /// A title.
    pub fn heading(&mut self, text: impl Drawable) -> &mut Self {
        self.gap();
        // The title of the whole is no section.
        self.in_section = !self.is_empty();
        self.line(vec![(to_ink(text), Role::Heading)])
    }

    /// A label and its value on one line; long values wrap under themselves.
    pub fn field(&mut self, label: &'static str, value: impl Drawable, role: Role) -> &mut Self {
        const LABEL_COLUMNS: usize = 14;
        let indent = if self.in_section { 2 } else { 0 };
        let room = self.width.saturating_sub(LABEL_COLUMNS as u16 + indent + 2).max(10);
        let lead = vec![(blanks(indent), Role::Text), (ink!("{:<14}", label), Role::Muted)];
        self.hanging(lead, (value.text(), role), room, (Ink::default(), role))
    }

    /// Pieces, then a text that wraps under itself in `room` cells, followed by `end`.
    pub fn hanging(
        &mut self,
        mut lead: DocLine,
        (text, role): (&str, Role),
        room: u16,
        end: (Ink, Role),
    ) -> &mut Self {
        let used = lead.iter().map(|(piece, _)| width(piece)).sum();
        let mut parts = wrap(text, room).peekable();
        while let Some(part) = parts.next() {
            let mut line = std::mem::replace(&mut lead, vec![(blanks(used), Role::Text)]);
            line.push((Ink::line(part), role));
            if parts.peek().is_none() {
                line.push(end.clone());
            }
            self.line(line);
        }
        self
    }

    /// Pieces, then others two cells apart. One that has no room in its row begins the next, which is
    /// indented, and wraps there if a row is too short for it.
    pub fn flow(
        &mut self,
        lead: DocLine,
        pieces: impl IntoIterator<Item = (Ink, Role)>,
        indent: u16,
    ) -> &mut Self {
        const GAP_COLUMNS: u16 = 2;
        let columns = |line: &DocLine| line.iter().map(|(piece, _)| width(piece)).sum::<u16>();
        let mut line = lead;
        let mut gap = 0;
        for (piece, role) in pieces {
            if columns(&line) + gap + width(&piece) <= self.width {
                line.push((blanks(gap), role));
                line.push((piece, role));
            } else {
                self.line(std::mem::take(&mut line));
                let room = self.width.saturating_sub(indent).max(8);
                for part in wrap(piece.as_str(), room) {
                    if !line.is_empty() {
                        self.line(std::mem::take(&mut line));
                    }
                    line = vec![(blanks(indent), Role::Text), (Ink::line(part), role)];
                }
            }
            gap = GAP_COLUMNS;
        }
        self.line(line)
    }

    /// The same as [`Doc::field`] for an optional value; without one there is no line.
    pub fn field_if(&mut self, label: &'static str, value: Option<impl Drawable>, role: Role) {
        if let Some(value) = value {
            self.field(label, value, role);
        }
    }

    /// Text wrapped at words, indented; a line break at its end adds no line.
    pub fn text(&mut self, indent: u16, text: &impl Drawable, role: Role) -> &mut Self {
        let room = self.width.saturating_sub(indent).max(8);
        let text = text.text();
        for line in text.strip_suffix('\n').unwrap_or(text).split('\n') {
            for part in wrap(line, room) {
                self.line(vec![(blanks(indent), Role::Text), (Ink::line(part), role)]);
            }
        }
        self
    }

    /// The lines that contain the typed text, each below the title of its section.
    #[must_use]
    pub fn narrowed(&self, typed: &str) -> Self {
        let wanted = typed.trim().to_ascii_lowercase();
        let mut found = Self::new(self.width);
        let mut title = None;
        for line in &self.lines {
            let text: String = line.iter().map(|(piece, _)| piece.as_str()).collect();
            if line.first().is_some_and(|(_, role)| *role == Role::Heading) {
                title = Some(line);
            } else if !line.is_empty() && contains(&text, &wanted) {
                if let Some(title) = title.take() {
                    found.gap().line(title.clone());
                }
                found.line(line.clone());
            }
        }
        if found.is_empty() {
            found.text(0, &"No matches", Role::Faint);
        }
        found
    }

    /// A line of JSON text in its colours; a long one wraps below its own beginning.
    pub fn json_line(&mut self, line: &str) -> &mut Self {
        let line = Ink::line(line);
        let hang = hang(line.as_str(), self.width);
        for (begin, pieces) in json_rows(line.as_str(), self.width - hang) {
            if self.cut {
                break;
            }
            let lead = if begin == 0 { None } else { Some((blanks(hang), Role::Text)) };
            self.line(lead.into_iter().chain(pieces).collect());
        }
        self
    }

    /// A JSON value, indented and coloured by kind.
    pub fn json(&mut self, indent: u16, value: &Value) -> &mut Self {
        self.json_value(usize::from(indent), &DocJson::whole(value, &NO_NUMBERS));
        self
    }

    /// As [`Doc::json`], with the numbers as they are written.
    pub fn written(&mut self, indent: u16, value: &WrittenValue) -> &mut Self {
        self.json_value(usize::from(indent), &DocJson::whole(&value.value, &value.numbers));
        self
    }

    fn json_value(&mut self, indent: usize, part: &DocJson<'_>) {
        if self.cut {
            return;
        }
        let DocJson { key, value, comma, .. } = *part;
        let mut line: DocLine = vec![(blanks(indent as u16), Role::Text)];
        if let Some(key) = key {
            line.push((Ink::line(&Value::from(key).to_string()), Role::JsonKey));
            line.push((ink!(": "), Role::Muted));
        }
        let (open, close, items): (&'static str, &'static str, Vec<_>) = match value {
            Value::Object(map) if !map.is_empty() => {
                ("{", "}", map.iter().map(|(key, item)| (Some(key.as_str()), item)).collect())
            }
            Value::Array(items) if !items.is_empty() => {
                ("[", "]", items.iter().map(|item| (None, item)).collect())
            }
            _ => return self.json_scalar(line, part),
        };
        line.push((ink!("{}", open), Role::Muted));
        self.line(line);
        let last = items.len() - 1;
        for (n, (key, item)) in items.into_iter().enumerate() {
            let comma = if n < last { "," } else { "" };
            self.json_value(indent + 2, &part.child(n, key, item, comma));
        }
        self.line(vec![
            (blanks(indent as u16), Role::Text),
            (ink!("{}{}", close, comma), Role::Muted),
        ]);
    }

    fn json_scalar(&mut self, line: DocLine, part: &DocJson<'_>) {
        let DocJson { value, comma, .. } = *part;
        let role = match value {
            Value::String(_) => Role::JsonString,
            Value::Number(_) => Role::JsonNumber,
            _ => Role::JsonLiteral,
        };
        let written = value.as_number().and_then(|it| part.numbers.written(&part.place, it));
        let text = Ink::line(&written.map_or_else(|| value.to_string(), str::to_owned));
        let used: u16 = line.iter().map(|(piece, _)| width(piece)).sum();
        let room = self.width.saturating_sub(used + 1).max(12);
        self.hanging(line, (text.as_str(), role), room, (ink!("{}", comma), Role::Muted));
    }

    /// The whole text as plain text.
    pub fn to_text(&self) -> String {
        self.lines_as_text(0..self.lines.len(), &[])
    }

    /// Some lines as plain text, without the pieces of these roles.
    pub fn lines_as_text(&self, lines: std::ops::Range<usize>, without: &[Role]) -> String {
        let mut out = String::new();
        for line in self.lines.get(lines).unwrap_or_default() {
            for (piece, role) in line {
                if !without.contains(role) {
                    out.push_str(piece.as_str());
                }
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }

    /// Draws the lines from `top` on; leaves the last column to the scroll bar if there is one.
    pub fn render(&self, look: &Look<'_>, top: usize, area: Rect, buf: &mut Buffer) {
        let scrolls = self.len() > usize::from(area.height);
        let area = Rect { width: area.width.saturating_sub(scrolls.into()), ..area };
        let mut pen = Pen::new(buf, area).ellipsis(look.glyphs.ellipsis);
        for (row, line) in self.lines.iter().skip(top).take(usize::from(area.height)).enumerate() {
            pen.at(0, row as u16);
            for (piece, role) in line {
                pen.put(piece, look.style(*role));
            }
        }
    }
}

/// A text and its scroll position.
#[derive(Clone, Debug, Default)]
pub struct DocView {
    /// The text.
    pub doc: Doc,
    /// First visible line.
    pub top: usize,
}

impl DocView {
    /// Scrolls by `delta` lines in a window of this height.
    pub fn scroll(&mut self, delta: isize, height: u16) {
        let last = self.doc.len().saturating_sub(usize::from(height));
        self.top = self.top.saturating_add_signed(delta).min(last);
    }

    /// Draws it with its scroll bar.
    pub fn render(&self, look: &Look<'_>, area: Rect, buf: &mut Buffer) {
        self.doc.render(look, self.top, area, buf);
        scroll_bar(look, self.doc.len(), self.top, area, buf);
    }
}

fn to_ink(text: impl Drawable) -> Ink {
    let mut ink = Ink::default();
    ink.push(text);
    ink
}

/// How far the rows of a line stand to the right of its own beginning once it wraps, in a width.
pub fn hang(line: &str, width: u16) -> u16 {
    let own = line.len() - line.trim_start_matches(' ').len();
    u16::try_from(own + 2).unwrap_or(u16::MAX).min(width / 3)
}

fn blanks(n: u16) -> Ink {
    ink!("{:1$}", "", usize::from(n))
}

/// Parts of one line that fit `room` cells, broken at blanks where possible.
pub fn wrap(text: &str, room: u16) -> impl Iterator<Item = &str> {
    wrap_behind(text, room, None)
}

/// The same, also broken behind a sign.
fn wrap_behind<'a>(
    text: &'a str,
    room: u16,
    sign: Option<&'static str>,
) -> impl Iterator<Item = &'a str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let mut used = 0;
        let mut gap = None;
        for (at, grapheme) in text.grapheme_indices(true) {
            // A blank just past the edge still ends the line.
            if grapheme == " " && at > 0 {
                gap = Some((at, at + 1));
            }
            used += grapheme.width();
            if used <= usize::from(room) && sign == Some(grapheme) {
                gap = Some((at + grapheme.len(), at + grapheme.len()));
            }
            if used > usize::from(room) && at > 0 {
                let (end, next) = gap.unwrap_or((at, at));
                rest = Some(&text[next..]);
                return Some(&text[..end]);
            }
        }
        rest = None;
        Some(text)
    })
}

/// A line of JSON text in its colours, as rows of at most `room` cells, each with the byte of the
/// line that it begins at.
pub fn json_rows(line: &str, room: u16) -> impl Iterator<Item = (usize, DocLine)> {
    let mut at = 0;
    let parts = json_line(line).into_iter().map(move |(part, role)| {
        at += part.len();
        (at - part.len()..at, role)
    });
    let mut parts = parts.peekable();
    wrap_behind(line, room, Some(",")).map(move |row| {
        let begin = row.as_ptr() as usize - line.as_ptr() as usize;
        let end = begin + row.len();
        let mut pieces = DocLine::new();
        while let Some((part, role)) = parts.peek() {
            let seen = part.start.max(begin)..part.end.min(end);
            if !seen.is_empty() {
                pieces.push((Ink::line(&line[seen]), *role));
            }
            if part.end > end {
                break;
            }
            parts.next();
        }
        (begin, pieces)
    })
}

/// Draws the text of a list without rows, wrapped; returns the number of lines.
pub fn empty_text(look: &Look<'_>, text: &Ink, area: Rect, buf: &mut Buffer) -> u16 {
    let inner = Rect {
        x: area.x + area.width.min(1),
        y: area.y + area.height.min(1),
        width: area.width.saturating_sub(2),
        height: area.height.saturating_sub(1),
    };
    let mut doc = Doc::new(inner.width);
    doc.text(0, text, Role::Faint);
    doc.render(look, 0, inner, buf);
    doc.len() as u16
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_that_have_no_room_in_a_row_begin_the_next_one_and_nothing_is_lost() {
        let long = "pattern ^[A-Z]{2}-[A-Z]{3,5}$";
        let words = ["string", "minLength 3", long, "default of several words"];
        for columns in 12..120 {
            let mut doc = Doc::new(columns);
            let lead = vec![(ink!("  callsign *  "), Role::JsonKey)];
            doc.flow(lead, words.map(|word| (Ink::line(word), Role::Faint)), 4);
            let row = |line: &DocLine| line.iter().map(|(piece, _)| piece.as_str()).collect();
            let rows: Vec<String> = doc.lines().iter().map(row).collect();
            // The name is the caller's.
            assert!(rows[1..].iter().all(|row| width(&Ink::line(row)) <= columns), "{rows:?}");
            let all = rows.join(" ").replace(' ', "");
            assert_eq!(all, format!("callsign*{}", words.join("")).replace(' ', ""), "{columns}");
        }
        let mut doc = Doc::new(120);
        doc.flow(Vec::new(), words.map(|word| (Ink::line(word), Role::Faint)), 4);
        assert_eq!(doc.len(), 1);
    }

    #[test]
    fn lines_break_at_blanks_and_long_words_where_they_must() {
        assert_eq!(wrap("one two three", 7).collect::<Vec<_>>(), ["one two", "three"]);
        assert_eq!(wrap("abcdefgh", 3).collect::<Vec<_>>(), ["abc", "def", "gh"]);
        assert_eq!(wrap("", 3).collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn json_is_indented_and_comes_back_the_same() {
        let value = serde_json::json!({"a": [1, "two", null], "b": {}, "c": {"d": true}});
        let text = Doc::new(80).json(0, &value).to_text();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
        assert!(text.starts_with("{\n  \"a\": [\n    1,\n"));
    }

    #[test]
    fn a_long_line_of_json_wraps_below_its_beginning_with_the_colours_it_has() {
        let line = r#"  {"name": "one two three", "list": [12345, true, null]}"#;
        let mut doc = Doc::new(24);
        doc.json_line(line);
        let text = doc.to_text();
        assert!(text.lines().count() > 2 && text.lines().all(|row| row.len() <= 24), "{text}");
        assert!(text.lines().skip(1).all(|row| row.starts_with("    ")), "{text}");
        let squeezed = |text: &str| text.replace([' ', '\n'], "");
        assert_eq!(squeezed(&text), squeezed(line));
        let role = |wanted: &str| {
            let mut pieces = doc.lines().iter().flatten();
            pieces.find(|(piece, _)| piece.as_str().contains(wanted)).map(|(_, role)| *role)
        };
        assert_eq!(role("\"list\""), Some(Role::JsonKey));
        assert_eq!(role("three"), Some(Role::JsonString));
        assert_eq!(role("12345"), Some(Role::JsonNumber));
    }

    proptest! {
        #[test]
        fn wrapping_loses_nothing_but_blanks(text in "[a-z日 ]{0,60}", room in 2u16..20) {
            let joined: String = wrap(&text, room).collect();
            prop_assert_eq!(joined.replace(' ', ""), text.replace(' ', ""));
        }
    }
}
