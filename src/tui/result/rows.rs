//! Wraps long text into rows without storing them: one checkpoint per 64 rows. Pure.

use std::ops::Range;

use serde_json::Value;
use unicode_width::UnicodeWidthChar;

use crate::filter;
use base::text::inspect::is_hidden;
use base::text::json::ExactJson;
use protocol::Payload;

/// Shared text: a string inside a result, or text of our own.
#[derive(Clone)]
pub struct SharedText {
    payload: Payload,
    pointer: String,
}

impl std::fmt::Debug for SharedText {
    /// Omits the text itself: it may be a hundred megabytes.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({:?}, {} bytes)", self.pointer, self.as_str().len())
    }
}

impl PartialEq for SharedText {
    /// Equal if it is the same place of the same value; contents are not compared.
    fn eq(&self, other: &Self) -> bool {
        self.payload.is_same(&other.payload) && self.pointer == other.pointer
    }
}

impl SharedText {
    /// The text at `pointer` of a value.
    pub fn new(payload: &Payload, pointer: impl Into<String>) -> Self {
        Self { payload: payload.clone(), pointer: pointer.into() }
    }

    /// Text of our own.
    pub fn from_text(text: String) -> Self {
        Self { payload: Value::String(text).into(), pointer: String::new() }
    }

    /// The value at the pointer, of any type; `None` if there is none.
    pub fn value(&self) -> Option<&Value> {
        self.payload.pointer(&self.pointer)
    }

    /// The value at the pointer as it is to be written, with its numbers as the server wrote them.
    pub(super) fn written(&self) -> Option<ExactJson<'_>> {
        self.payload.part(&self.pointer)
    }

    /// The full text, if the value is only its beginning.
    pub fn whole(&self) -> Option<&str> {
        self.payload.whole().filter(|_| self.pointer.is_empty())
    }

    /// The text; empty if there is none.
    pub fn as_str(&self) -> &str {
        self.value().and_then(Value::as_str).unwrap_or_default()
    }
}

/// Rows of a text, each at most `width` columns wide when drawn.
#[derive(Clone, Debug)]
pub struct WrappedRows {
    checkpoints: Vec<usize>,
    len: usize,
    width: usize,
}

const STRIDE_ROWS: usize = 64;

impl WrappedRows {
    /// Widest row without wrapping, in columns.
    pub const MAX_ROW_COLUMNS: usize = 4_096;

    /// Finds the rows of `text`; lines wider than `width` columns continue in the next row.
    pub fn new(text: &str, width: usize) -> Self {
        let width = width.clamp(8, Self::MAX_ROW_COLUMNS);
        let mut rows = Self { checkpoints: Vec::new(), len: 0, width };
        let mut at = 0;
        loop {
            if rows.len.is_multiple_of(STRIDE_ROWS) {
                rows.checkpoints.push(at);
            }
            rows.len += 1;
            let (_, next) = step(text, at, width);
            match next {
                Some(next) => at = next,
                None => break,
            }
        }
        rows
    }

    /// How many rows there are; at least one.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The rows in `range`, as slices of the `text` given to [`WrappedRows::new`].
    pub fn slice<'a>(&self, text: &'a str, range: Range<usize>) -> Vec<&'a str> {
        let from = range.start.min(self.len);
        let to = range.end.min(self.len);
        let Some(start) = self.checkpoints.get(from / STRIDE_ROWS) else { return Vec::new() };
        let mut at = Some(*start);
        let mut out = Vec::with_capacity(to - from);
        for row in (from / STRIDE_ROWS * STRIDE_ROWS)..to {
            let Some(here) = at else { break };
            let (end, next) = step(text, here, self.width);
            if row >= from {
                out.push(text.get(here..end).unwrap_or_default());
            }
            at = next;
        }
        out
    }

    /// The row that contains the byte at `offset`.
    pub fn row_of(&self, text: &str, offset: usize) -> usize {
        let chunk = self.checkpoints.partition_point(|at| *at <= offset).saturating_sub(1);
        let mut row = chunk * STRIDE_ROWS;
        let mut at = self.checkpoints.get(chunk).copied();
        while let Some(here) = at {
            let (_, next) = step(text, here, self.width);
            match next {
                Some(next) if next <= offset => {
                    at = Some(next);
                    row += 1;
                }
                _ => break,
            }
        }
        row
    }
}

/// End of the row that begins at `at`, and where the next one begins.
fn step(text: &str, at: usize, width: usize) -> (usize, Option<usize>) {
    /// Longest row, whatever its width: a character may have none.
    const MAX_ROW_BYTES: usize = 64 << 10;
    let bytes = text.as_bytes();
    let (mut cut, mut used) = (at, 0);
    while let Some(byte) = bytes.get(cut) {
        let (length, columns) = match byte {
            b'\n' => return (cut, Some(cut + 1)),
            b'\r' if bytes.get(cut + 1) == Some(&b'\n') => return (cut, Some(cut + 2)),
            b' '..=b'~' => (1, 1),
            _ => size(text, cut),
        };
        if cut > at && (used + columns > width || cut - at >= MAX_ROW_BYTES) {
            // Break at a nearby blank, if there is one.
            let near = cut.saturating_sub(width / 4).max(at + 1);
            let blank = bytes[near..cut].iter().rposition(|b| *b == b' ');
            let cut = blank.map_or(cut, |blank| near + blank + 1);
            return (cut, Some(cut));
        }
        used += columns;
        cut += length;
    }
    (cut, None)
}

/// Bytes of the character at `at`, and the columns it takes once it is safe to draw.
fn size(text: &str, at: usize) -> (usize, usize) {
    /// The name that stands for a hidden character, at its longest.
    const MAX_NAME_COLUMNS: usize = 9;
    let c = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or(' ');
    let columns = match c {
        '\t' => 4,
        c if is_hidden(c) => MAX_NAME_COLUMNS,
        c => c.width().unwrap_or(1),
    };
    (c.len_utf8(), columns)
}

/// Finds `needle` in `text` from the character at `from` on, ignoring case; wraps around.
pub fn find(text: &str, needle: &str, from: usize) -> Option<usize> {
    let needle = needle.to_ascii_lowercase();
    let behind = text.get(from..).and_then(|behind| filter::find(behind, &needle));
    behind.map(|at| from + at).or_else(|| filter::find(text, &needle))
}
