//! A result beside an earlier one: unified or side by side. Pure; bounded in size and time.

use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

use crate::host::payload::Node;
use crate::text::SafeText;

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
    /// The line.
    pub text: SafeText,
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

/// Lines longer than this may not fit a screen.
const FITS: usize = 72;
/// How much of what is the same is shown before the first difference of such lines.
const LEAD: usize = 16;

/// The lines as they are shown: of a pair of long ones that begin the same, the part where they
/// begin to differ; otherwise the difference would lie beyond the edge of the screen.
fn shown(lines: &[(Change, &str)]) -> Vec<DiffLine> {
    let mut from = vec![0; lines.len()];
    let indexed = (0..lines.len()).map(|at| (lines[at].0, at));
    for (old, new) in paired(indexed) {
        if let (Some(old), Some(new)) = (old, new)
            && old != new
        {
            let same = same_start(lines[old].1, lines[new].1);
            (from[old], from[new]) = (same, same);
        }
    }
    let line = |((change, text), from): (&(Change, &str), usize)| {
        let lead = if from > 0 { "… " } else { "" };
        let cut: String = lead.chars().chain(text.chars().skip(from)).take(2_000).collect();
        DiffLine { change: *change, text: SafeText::line(&cut) }
    };
    lines.iter().zip(from).map(line).collect()
}

/// How many characters are left out at the start of both lines; 0 when they fit.
fn same_start(old: &str, new: &str) -> usize {
    if old.chars().nth(FITS).is_none() && new.chars().nth(FITS).is_none() {
        return 0;
    }
    let same = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).count();
    if same > LEAD * 2 { same - LEAD } else { 0 }
}

/// Pairs for two columns: earlier and later line of each row.
pub fn side_by_side(lines: &[DiffLine]) -> Vec<(Option<&DiffLine>, Option<&DiffLine>)> {
    paired(lines.iter().map(|line| (line.change, line)))
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
pub(super) fn readable(result: Node<'_>, limits: Limits) -> Readable {
    let mut out = whole(result, limits.bytes);
    let end = memchr::memchr_iter(b'\n', out.text.as_bytes()).nth(limits.lines);
    if let Some(end) = end.filter(|end| end + 1 < out.text.len()) {
        out.text.truncate(end + 1);
        out.cut = true;
    }
    out
}

fn whole(result: Node<'_>, most: usize) -> Readable {
    let mut out = Readable::default();
    if !result.is_object() {
        out.push(result, most);
        return out;
    }
    let content = result.get("content").filter(|content| content.is_array());
    for (_, block) in content.into_iter().flat_map(|content| content.members(0)) {
        let text = block.get("text").filter(|text| text.is_string());
        out.push(text.unwrap_or(block), most);
    }
    for (name, value) in result.members(0) {
        let name = name.unwrap_or_default();
        if name != "content" || !value.is_array() {
            out.push(Node::Tree(&Value::String(format!("{name}:"))), most);
            out.push(value, most);
        }
    }
    out
}

impl Readable {
    fn push(&mut self, value: Node<'_>, most: usize) {
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
            Some(text) => self.text.push_str(&text),
            None => {
                let (text, cut) = super::take::pretty(value, room);
                self.text.push_str(&text);
                self.cut = cut;
            }
        }
        self.text.push('\n');
    }
}
