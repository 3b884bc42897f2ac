//! The text of one file, and the mapping from byte offsets to lines, columns and snippets.
//!
//! Owns reading with limits and decoding. Must not interpret the content.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::diagnostics::SnippetMark;
use crate::{Diagnostic, Position, Severity, mask};
use base::{self, SafeText};

/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = 4 << 20;

/// Longest line shown in full, in characters.
const MAX_LINE_CHARS: usize = 140;

/// Characters of a longer line kept before the mark, in it, and after it.
const WINDOW: (usize, usize, usize) = (60, 80, 60);

/// One file's text with its lines and its hidden ranges.
#[derive(Clone, Debug)]
pub struct SourceText {
    file: PathBuf,
    text: String,
    lines: Vec<usize>,
    /// Characters before every [`BLOCK_BYTES`]th byte: a file may be one long line.
    counted: Vec<usize>,
    /// Looked for when something of it is shown: of a file in order, nothing is.
    hidden: OnceLock<Vec<Range<usize>>>,
}

/// Bytes between two cached character counts.
const BLOCK_BYTES: usize = 256;

/// Bytes of a line read on each side of the marked range.
const MAX_CONTEXT_BYTES: usize = 512;

impl SourceText {
    /// Reads a file: regular, at most 4 MiB, UTF-8 with or without a byte order mark.
    ///
    /// # Errors
    /// One diagnostic of rule `config/read` or `config/encoding`.
    pub fn read(path: &Path) -> Result<Self, Box<Diagnostic>> {
        Self::read_up_to(path, MAX_FILE_BYTES)
    }

    /// As [`SourceText::read`], of at most so many bytes.
    ///
    /// # Errors
    /// As [`SourceText::read`].
    pub(crate) fn read_up_to(path: &Path, most: u64) -> Result<Self, Box<Diagnostic>> {
        let bytes = read_limited(path, most)?;
        let text = String::from_utf8(bytes).map_err(|e| Box::new(bad_encoding(path, &e)))?;
        Ok(Self::new(path, text))
    }

    /// Reads an env file; its snippets show only names.
    ///
    /// # Errors
    /// As [`SourceText::read`].
    pub fn read_env_file(path: &Path) -> Result<Self, Box<Diagnostic>> {
        let mut source = Self::read(path).map_err(|mut problem| {
            if problem.help.is_some() {
                problem.help("name a file of NAME=value lines");
            }
            problem
        })?;
        // Hides all after the name; the whole line when there is no `=`.
        let value = |line: &str| Some(line.find('=').map_or(0, |sign| sign + 1));
        source.hidden = mask::line_ends(&source.text, 0..source.text.len(), value).into();
        Ok(source)
    }

    /// A source from text in memory; `file` is the name shown.
    pub fn new(file: impl Into<PathBuf>, text: impl Into<String>) -> Self {
        let mut text: String = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        let lines = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1))
            .collect();
        let mut counted = vec![0];
        for block in text.as_bytes().chunks(BLOCK_BYTES) {
            counted.push(counted.last().copied().unwrap_or(0) + characters(block));
        }
        Self { file: file.into(), text, lines, counted, hidden: OnceLock::new() }
    }

    fn hidden(&self) -> &[Range<usize>] {
        self.hidden.get_or_init(|| mask::hidden_ranges(&self.text))
    }

    /// The name of the file as the user gave it.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The text, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with its secrets masked and its line breaks kept.
    pub fn masked(&self) -> String {
        mask::replaced(&self.text, self.hidden().iter().cloned())
    }

    /// Line and column of a byte offset; an offset beyond the end counts as the end.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.floor(offset);
        let line = self.lines.partition_point(|start| *start <= offset).saturating_sub(1);
        let start = self.lines.get(line).copied().unwrap_or(0);
        let column = self.characters_before(offset) - self.characters_before(start);
        Position { file: self.file.clone(), line: line as u32 + 1, column: column as u32 + 1 }
    }

    /// The line that holds `range.start`, secrets masked, and the mark of the range within it.
    pub fn excerpt(&self, range: Range<usize>) -> (String, SnippetMark) {
        let start = self.floor(range.start);
        let line = self.lines.partition_point(|s| *s <= start).saturating_sub(1);
        let from = self.lines.get(line).copied().unwrap_or(0);
        let to = self.lines.get(line + 1).map_or(self.text.len(), |next| next - 1);
        let end = self.floor(range.end).clamp(start, to.max(start));
        let before =
            self.shown(self.floor(from.max(start.saturating_sub(MAX_CONTEXT_BYTES)))..start);
        let meant = self.shown(start..end);
        let after = self.shown(end..self.floor(to.min(end + MAX_CONTEXT_BYTES)).max(end));
        window(before.trim_start(), &meant, after.trim_end())
    }

    /// A diagnostic about a range of this file.
    pub fn diagnostic(
        &self,
        rule: &str,
        severity: Severity,
        range: Range<usize>,
        message: impl Into<String>,
    ) -> Diagnostic {
        let at = self.position(range.start);
        let (snippet, mark) = self.excerpt(range);
        Diagnostic { at, snippet, mark, ..Diagnostic::new(rule, severity, message) }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK_BYTES;
        let known = self.counted.get(block).copied().unwrap_or(0);
        known
            + characters(self.text.as_bytes().get(block * BLOCK_BYTES..offset).unwrap_or_default())
    }

    fn floor(&self, offset: usize) -> usize {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        offset
    }

    /// A range made safe to show: hidden parts masked, control characters made visible.
    fn shown(&self, range: Range<usize>) -> String {
        let first = self.hidden().partition_point(|hidden| hidden.end <= range.start);
        let inside = self.hidden().iter().skip(first).take_while(|hidden| hidden.start < range.end);
        let parts = inside.map(|hidden| {
            hidden.start.max(range.start) - range.start..hidden.end.min(range.end) - range.start
        });
        let out = mask::replaced(self.text.get(range.clone()).unwrap_or_default(), parts);
        SafeText::line(out.trim_end_matches(['\r', '\n'])).as_str().to_owned()
    }
}

/// Counts the characters that begin in a slice of UTF-8.
fn characters(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Joins the three parts, cutting each to its share of the window.
fn window(before: &str, meant: &str, after: &str) -> (String, SnippetMark) {
    let length = |part: &str| part.chars().count();
    if length(before) + length(meant) + length(after) <= MAX_LINE_CHARS {
        let mark = SnippetMark { start: length(before) as u32, len: length(meant).max(1) as u32 };
        return (format!("{before}{meant}{after}"), mark);
    }
    let skipped = length(before).saturating_sub(WINDOW.0);
    let mut out = String::new();
    if skipped > 0 {
        out.push('…');
    }
    out.extend(before.chars().skip(skipped));
    let start = out.chars().count();
    push_cut(&mut out, meant, WINDOW.1);
    let len = (out.chars().count() - start).max(1);
    push_cut(&mut out, after, WINDOW.2);
    (out, SnippetMark { start: start as u32, len: len as u32 })
}

fn push_cut(out: &mut String, part: &str, most: usize) {
    out.extend(part.chars().take(most));
    if part.chars().nth(most).is_some() {
        out.push('…');
    }
}

fn read_limited(path: &Path, most: u64) -> Result<Vec<u8>, Box<Diagnostic>> {
    base::file::read(path, most).map_err(|error| {
        use std::io::ErrorKind;
        let message = match error.kind() {
            ErrorKind::NotFound => "the file does not exist".to_owned(),
            ErrorKind::InvalidInput => error.to_string().replacen("it is", "this is", 1),
            _ => format!("the file cannot be read: {error}"),
        };
        let mut problem = Diagnostic::new("config/read", Severity::Error, message);
        problem.at.file = path.to_path_buf();
        if error.kind() == ErrorKind::InvalidInput {
            problem.help("name an mcp.json file");
        }
        Box::new(problem)
    })
}

fn bad_encoding(path: &Path, error: &std::string::FromUtf8Error) -> Diagnostic {
    let bytes = error.as_bytes();
    let good = bytes.get(..error.utf8_error().valid_up_to()).unwrap_or_default();
    let is = |mark: &[u8]| bytes.starts_with(mark);
    let message = if is(&[0xff, 0xfe, 0, 0]) || is(&[0, 0, 0xfe, 0xff]) {
        "the file is UTF-32"
    } else if is(&[0xff, 0xfe]) || is(&[0xfe, 0xff]) {
        "the file is UTF-16"
    } else if is(&[0x1f, 0x8b]) || is(b"PK\x03\x04") {
        "the file is compressed"
    } else {
        "the file is not valid UTF-8"
    };
    let mut problem = Diagnostic::new("config/encoding", Severity::Error, message);
    problem.at = SourceText::new(path, String::from_utf8_lossy(good)).position(usize::MAX);
    let help = if message.ends_with("compressed") { "unpack it first" } else { "save it as UTF-8" };
    problem.help = Some(help.to_owned());
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_characters_and_survive_offsets_inside_one_or_beyond_the_end() {
        let source = SourceText::new("f", "a\r\nüb\n");
        let at = |offset| {
            let p = source.position(offset);
            (p.line, p.column)
        };
        assert_eq!(at(0), (1, 1));
        assert_eq!(at(3), (2, 1));
        assert_eq!(at(4), (2, 1));
        assert_eq!(at(5), (2, 2));
        assert_eq!(at(999), (3, 1));
    }

    #[test]
    fn a_byte_order_mark_does_not_shift_columns() {
        let source = SourceText::new("f", "\u{feff}{}");
        assert_eq!(source.text(), "{}");
        assert_eq!(source.position(1).column, 2);
    }

    #[test]
    fn the_mark_follows_what_is_left_after_masking() {
        let text = r#"{"servers":{"a":{"env":{"K":"hunter2hunter2"},"cmmand":"x"}}}"#;
        let source = SourceText::new("f", text);
        let start = text.find("\"cmmand\"").expect("there");
        let (snippet, mark) = source.excerpt(start..start + 8);
        assert!(!snippet.contains("hunter2"), "{snippet}");
        let meant: String =
            snippet.chars().skip(mark.start as usize).take(mark.len as usize).collect();
        assert_eq!(meant, "\"cmmand\"");
    }

    #[test]
    fn a_line_of_a_megabyte_gives_a_short_snippet() {
        let text = format!("{}X{}", "a".repeat(500_000), "b".repeat(500_000));
        let (snippet, mark) = SourceText::new("f", text).excerpt(500_000..500_001);
        assert!(snippet.chars().count() < 200);
        assert_eq!(snippet.chars().nth(mark.start as usize), Some('X'));
    }
}
