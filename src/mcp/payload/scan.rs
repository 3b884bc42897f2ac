//! One pass over JSON text that is known to be valid: counts, looks for what is odd, remembers where
//! long values end. Never recurses and never reads outside the text.

use std::collections::HashSet;

use super::document::{Document, Span};
use crate::mcp::wire::json::Budget;

/// What a text may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Deepest nesting of objects and arrays.
    pub depth: usize,
    /// Most values.
    pub nodes: usize,
}

/// What the pass found.
pub(super) struct Index {
    pub(super) spans: Vec<Span>,
    pub(super) marks: Vec<u32>,
    pub(super) nodes: usize,
    /// Bytes that a tree takes besides its texts.
    pub(super) tree: usize,
}

/// Containers and strings shorter than this are looked through when they are needed.
const LONG: usize = 2_048;
/// Keys of one object that are compared one by one.
const FEW: usize = 16;

/// A container that is being read.
struct Open {
    start: usize,
    span: usize,
    count: u32,
    marks: Vec<u32>,
    /// Where the keys of this object begin among those that are remembered.
    keys: usize,
    many: Option<HashSet<u64>>,
    object: bool,
}

struct Pass<'a> {
    text: &'a [u8],
    bounds: Bounds,
    at: usize,
    index: Index,
    open: Vec<Open>,
    keys: Vec<u64>,
}

/// The index of a valid text; `None` when something in it is odd or over the bounds.
pub(super) fn index(text: &[u8], bounds: Bounds) -> Option<Index> {
    u32::try_from(text.len()).ok()?;
    let index = Index { spans: Vec::new(), marks: Vec::new(), nodes: 0, tree: 0 };
    let mut pass = Pass { text, bounds, at: 0, index, open: Vec::new(), keys: Vec::new() };
    pass.value()?;
    while let Some(open) = pass.open.last() {
        let object = open.object;
        pass.at = blank(text, pass.at);
        match text.get(pass.at)? {
            b',' => pass.at = blank(text, pass.at + 1),
            b']' | b'}' => {
                pass.close()?;
                continue;
            }
            _ => {}
        }
        pass.child()?;
        if object {
            pass.key()?;
        }
        pass.value()?;
    }
    (blank(text, pass.at) == text.len()).then_some(pass.index)
}

impl Pass<'_> {
    /// A value begins here: scalars are passed over, containers entered.
    fn value(&mut self) -> Option<()> {
        self.index.nodes += 1;
        if self.index.nodes > self.bounds.nodes {
            return None;
        }
        let start = self.at;
        let first = *self.text.get(start)?;
        match first {
            b'{' | b'[' => {
                if self.open.len() >= self.bounds.depth {
                    return None;
                }
                let span = Span { start: start as u32, end: 0, count: 0, marks: 0 };
                self.index.spans.push(span);
                self.open.push(Open {
                    start,
                    span: self.index.spans.len() - 1,
                    count: 0,
                    marks: Vec::new(),
                    keys: self.keys.len(),
                    many: None,
                    object: first == b'{',
                });
                self.at += 1;
            }
            b'"' => {
                self.at = string(self.text, start, true)?;
                if self.at - start >= LONG {
                    let end = self.at as u32;
                    self.index.spans.push(Span { start: start as u32, end, count: 0, marks: 0 });
                }
            }
            _ => {
                self.at = scalar(self.text, start);
                let token = self.text.get(start..self.at)?;
                let risky = token.len() > 300 || memchr::memchr2(b'e', b'E', token).is_some();
                if risky && !matches!(token, b"true" | b"false") {
                    let number = std::str::from_utf8(token).ok()?.parse::<f64>().ok()?;
                    number.is_finite().then_some(())?;
                }
            }
        }
        (self.at > start).then_some(())
    }

    /// A child of the innermost container begins here.
    fn child(&mut self) -> Option<()> {
        let at = self.at as u32;
        let open = self.open.last_mut()?;
        if open.count > 0 && (open.count as usize).is_multiple_of(Document::STRIDE) {
            open.marks.push(at);
        }
        open.count += 1;
        Some(())
    }

    /// A key and its colon. A key that stands twice ends the pass.
    fn key(&mut self) -> Option<()> {
        if self.text.get(self.at) != Some(&b'"') {
            return None;
        }
        let end = string(self.text, self.at, true)?;
        let hash = spelled(self.text.get(self.at..end)?)?;
        let open = self.open.last_mut()?;
        if let Some(many) = &mut open.many {
            many.insert(hash).then_some(())?;
        } else {
            let known = self.keys.get(open.keys..)?;
            if known.contains(&hash) {
                return None;
            }
            self.keys.push(hash);
            if self.keys.len() - open.keys > FEW {
                open.many = Some(self.keys.drain(open.keys..).collect());
            }
        }
        let colon = blank(self.text, end);
        self.at = blank(self.text, colon + 1);
        (self.text.get(colon) == Some(&b':')).then_some(())
    }

    fn close(&mut self) -> Option<()> {
        let open = self.open.pop()?;
        self.index.tree += Budget::children(open.object, open.count as usize);
        self.keys.truncate(open.keys);
        self.at += 1;
        if self.at - open.start < LONG {
            // Whatever is in it is shorter still, so its span is the last one.
            self.index.spans.truncate(open.span);
            return Some(());
        }
        let marks = u32::try_from(self.index.marks.len()).ok()?;
        let span = self.index.spans.get_mut(open.span)?;
        (span.end, span.count, span.marks) = (self.at as u32, open.count, marks);
        self.index.marks.extend(open.marks);
        Some(())
    }
}

/// A key as one number, its escapes resolved (FNV-1a; equal numbers only send the text to the
/// parser, which compares the keys themselves).
fn spelled(quoted: &[u8]) -> Option<u64> {
    let fnv = |bytes: &[u8]| {
        bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    };
    if memchr::memchr(b'\\', quoted).is_none() {
        return Some(fnv(quoted.get(1..quoted.len().checked_sub(1)?)?));
    }
    serde_json::from_slice::<String>(quoted).ok().map(|key| fnv(key.as_bytes()))
}

/// The first byte from `at` on that is no white space.
pub(super) fn blank(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

/// Where the value that begins at `at` ends; the end of the text when it does not.
pub(super) fn end(text: &[u8], at: usize) -> usize {
    match text.get(at) {
        Some(b'"') => string(text, at, false).unwrap_or(text.len()),
        Some(b'{' | b'[') => container(text, at),
        _ => scalar(text, at),
    }
}

fn container(text: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => {
                at = string(text, at, false).unwrap_or(text.len());
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    at
}

fn scalar(text: &[u8], mut at: usize) -> usize {
    while text
        .get(at)
        .is_some_and(|b| !matches!(b, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t'))
    {
        at += 1;
    }
    at
}

/// Behind the closing quote of the string that opens at `at`. With `strict`, half a character of two
/// escapes is none.
fn string(text: &[u8], at: usize, strict: bool) -> Option<usize> {
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text[at] == b'"' {
            return Some(at + 1);
        }
        at += match half(text.get(at..)?) {
            Some(true) if half(text.get(at + 6..)?) == Some(false) => 12,
            Some(_) if strict => return None,
            _ => 2,
        };
    }
}

/// Whether an escape stands here that is the first half of a character (`true`) or the second.
fn half(escape: &[u8]) -> Option<bool> {
    match escape {
        [b'\\', b'u', b'd' | b'D', half, ..] => match half.to_ascii_lowercase() {
            b'8'..=b'9' | b'a'..=b'b' => Some(true),
            b'c'..=b'f' => Some(false),
            _ => None,
        },
        _ => None,
    }
}
