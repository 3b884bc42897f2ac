//! A result beside an earlier one: unified or side by side. Pure; bounded in size and time.

use std::ops::Range;
use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::base::text::SafeText;
use crate::mcp::Payload;

/// What happened to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The same in both.
    Same,
    /// Only in the earlier one.
    Removed,
    /// Only in the later one.
    Added,
    /// Lines that are the same and were left out.
    Skipped(usize),
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    /// What happened.
    pub change: Change,
    /// The line, whole.
    pub text: SafeText,
    /// Where it differs from the line that stands in its place on the other side, in bytes of
    /// `text`: from the first difference to the last. `None` when nothing does, or next to nothing
    /// is the same.
    pub apart: Option<Range<usize>>,
}

/// A comparison of two results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Unified lines with three lines of context; empty when both are equal.
    pub lines: Vec<DiffLine>,
    /// What was left out: of the results, or of their differences.
    pub left_out: Option<String>,
}

impl Comparison {
    /// In how many places the results differ: runs of lines that are not in both.
    pub fn places(&self) -> usize {
        let differs = |line: &DiffLine| matches!(line.change, Change::Removed | Change::Added);
        let mut before = false;
        let mut places = 0;
        for line in &self.lines {
            let now = differs(line);
            places += usize::from(now && !before);
            before = now;
        }
        places
    }
}

/// How much is compared, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Most text of each result, in bytes.
    pub bytes: usize,
    /// Most lines of each result.
    pub lines: usize,
    /// Longest time that lines are matched; what is left then is told as different.
    pub time: Duration,
}

/// Most lines of a comparison.
const LINES: usize = 50_000;
const CONTEXT: usize = 3;

/// A result as text: texts as they are, everything else as indented JSON.
#[derive(Debug, Default)]
pub(super) struct Readable {
    text: String,
    /// Whether the rest was left out.
    pub(super) cut: bool,
}

/// Compares two results as a person reads them, line by line.
pub(super) fn compare(old: &Readable, new: &Readable, limits: Limits) -> Comparison {
    let diff =
        TextDiff::configure().timeout(limits.time).diff_lines(old.text.as_str(), new.text.as_str());
    let mut lines: Vec<(Change, &str)> = Vec::new();
    let mut last = 0;
    let mut left_out = (old.cut || new.cut).then(|| {
        let (size, lines) = (limits.bytes >> 20, limits.lines);
        format!("only the beginning of each is compared: {size} MiB or {lines} lines")
    });
    'all: for group in diff.grouped_ops(CONTEXT) {
        let first = group.first().map_or(0, |op| op.old_range().start);
        if first > last {
            lines.push((Change::Skipped(first - last), ""));
        }
        for op in &group {
            last = op.old_range().end;
            for change in diff.iter_changes(op) {
                let tag = match change.tag() {
                    ChangeTag::Equal => Change::Same,
                    ChangeTag::Delete => Change::Removed,
                    ChangeTag::Insert => Change::Added,
                };
                if lines.len() == LINES {
                    let words = format!("only the first {LINES} lines of the comparison are shown");
                    left_out.get_or_insert(words);
                    break 'all;
                }
                lines.push((tag, change.value().trim_end_matches('\n')));
            }
        }
    }
    Comparison { lines: shown(&lines), left_out }
}

/// The lines made safe, each with the part that its counterpart does not have.
fn shown(lines: &[(Change, &str)]) -> Vec<DiffLine> {
    let safe = |(change, text): &(Change, &str)| DiffLine {
        change: *change,
        text: SafeText::line(text),
        apart: None,
    };
    let mut out: Vec<DiffLine> = lines.iter().map(safe).collect();
    let indexed: Vec<_> = lines.iter().enumerate().map(|(at, (change, _))| (*change, at)).collect();
    for pair in paired(indexed.into_iter()) {
        if let (Some(old), Some(new)) = pair
            && old != new
            && let Some((before, behind)) = around(&out[old].text, &out[new].text)
        {
            for line in [old, new] {
                out[line].apart = Some(before..out[line].text.len() - behind);
            }
        }
    }
    out
}

/// How many bytes two texts have in common at their start and at their end, when that is a good part
/// of them.
fn around(old: &str, new: &str) -> Option<(usize, usize)> {
    let same = |(a, b): &(u8, u8)| a == b;
    let mut before = old.bytes().zip(new.bytes()).take_while(same).count();
    while !old.is_char_boundary(before) || !new.is_char_boundary(before) {
        before -= 1;
    }
    let (a, b) = (&old[before..], &new[before..]);
    let mut behind = a.bytes().rev().zip(b.bytes().rev()).take_while(same).count();
    while !a.is_char_boundary(a.len() - behind) || !b.is_char_boundary(b.len() - behind) {
        behind -= 1;
    }
    ((before + behind) * 4 >= old.len().max(new.len())).then_some((before, behind))
}

/// Pairs for two columns: numbers of the earlier and the later line of each row.
pub(super) fn side_by_side(lines: &[DiffLine]) -> Vec<(Option<usize>, Option<usize>)> {
    paired(lines.iter().enumerate().map(|(at, line)| (line.change, at)))
}

fn paired<T: Copy>(lines: impl Iterator<Item = (Change, T)>) -> Vec<(Option<T>, Option<T>)> {
    let mut out: Vec<(Option<T>, Option<T>)> = Vec::new();
    let mut waiting = 0;
    for (change, line) in lines {
        match change {
            Change::Removed => {
                out.push((Some(line), None));
                waiting += 1;
            }
            Change::Added if waiting > 0 => {
                let at = out.len() - waiting;
                out[at].1 = Some(line);
                waiting -= 1;
            }
            Change::Added => out.push((None, Some(line))),
            Change::Same | Change::Skipped(_) => {
                waiting = 0;
                out.push((Some(line), Some(line)));
            }
        }
    }
    out
}

/// The beginning of a result as text.
pub(super) fn readable(result: &Payload, limits: Limits) -> Readable {
    let mut out = whole(result, limits.bytes);
    out.cut |= result.cut().is_some();
    let end = memchr::memchr_iter(b'\n', out.text.as_bytes()).nth(limits.lines);
    if let Some(end) = end.filter(|end| end + 1 < out.text.len()) {
        out.text.truncate(end + 1);
        out.cut = true;
    }
    out
}

fn whole(result: &Value, most: usize) -> Readable {
    let mut out = Readable::default();
    let Some(members) = result.as_object() else {
        out.push(result, most);
        return out;
    };
    for block in result["content"].as_array().into_iter().flatten() {
        let text = block.get("text").filter(|text| text.is_string());
        out.push(text.unwrap_or(block), most);
    }
    for (name, value) in members {
        if name != "content" || !value.is_array() {
            out.push(&Value::String(format!("{name}:")), most);
            out.push(value, most);
        }
    }
    out
}

impl Readable {
    fn push(&mut self, value: &Value, most: usize) {
        let room = most.saturating_sub(self.text.len());
        if self.cut || room == 0 {
            self.cut = true;
            return;
        }
        match value.as_str() {
            Some(text) if text.len() > room => {
                let end = (0..=room).rev().find(|end| text.is_char_boundary(*end));
                self.text.push_str(&text[..end.unwrap_or(0)]);
                self.cut = true;
            }
            Some(text) => self.text.push_str(text),
            None => {
                let (text, cut) = super::take::pretty(value, room);
                self.text.push_str(&text);
                self.cut = cut;
            }
        }
        self.text.push('\n');
    }
}
