//! A result beside an earlier one: unified or side by side. Pure; bounded in size and time.

use std::time::Duration;

use serde_json::Value;
use similar::{ChangeTag, TextDiff};

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
    /// Why there is no comparison.
    pub refused: Option<String>,
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

const LARGEST: usize = 2 << 20;
const CONTEXT: usize = 3;

/// Compares two results as a person reads them: texts by line, the rest as JSON.
pub fn compare(before: &Value, after: &Value) -> Comparison {
    if before == after {
        return Comparison::default();
    }
    let (Some(old), Some(new)) = (readable(before), readable(after)) else {
        let refused = Some("too large to compare (2 MiB); write both to files".to_owned());
        return Comparison { lines: Vec::new(), refused };
    };
    let diff = TextDiff::configure()
        .timeout(Duration::from_millis(200))
        .diff_lines(old.as_str(), new.as_str());
    let mut lines = Vec::new();
    let mut last = 0;
    for group in diff.grouped_ops(CONTEXT) {
        let first = group.first().map_or(0, |op| op.old_range().start);
        if first > last {
            let text = SafeText::default();
            lines.push(DiffLine { change: Change::Skipped(first - last), text });
        }
        for op in &group {
            last = op.old_range().end;
            for change in diff.iter_changes(op) {
                let tag = match change.tag() {
                    ChangeTag::Equal => Change::Same,
                    ChangeTag::Delete => Change::Removed,
                    ChangeTag::Insert => Change::Added,
                };
                let cut: String =
                    change.value().trim_end_matches('\n').chars().take(2_000).collect();
                lines.push(DiffLine { change: tag, text: SafeText::line(&cut) });
            }
        }
    }
    Comparison { lines, refused: None }
}

/// Pairs for two columns: earlier and later line of each row.
pub fn side_by_side(lines: &[DiffLine]) -> Vec<(Option<&DiffLine>, Option<&DiffLine>)> {
    let mut out: Vec<(Option<&DiffLine>, Option<&DiffLine>)> = Vec::new();
    let mut waiting = 0;
    for line in lines {
        match line.change {
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

/// A result as text: texts as they are, everything else as indented JSON; nothing when that is
/// longer than [`LARGEST`].
fn readable(result: &Value) -> Option<String> {
    let mut out = String::new();
    let mut push = |value: &Value| match value {
        Value::String(text) => {
            out.push_str(text);
            out.push('\n');
            out.len() <= LARGEST
        }
        other => {
            let (text, cut) = super::take::pretty(other, LARGEST);
            out.push_str(&text);
            out.push('\n');
            !cut && out.len() <= LARGEST
        }
    };
    let Some(map) = result.as_object() else { return push(result).then_some(out) };
    for block in map.get("content").and_then(Value::as_array).into_iter().flatten() {
        let text = block.get("text").filter(|text| text.is_string());
        if !push(text.unwrap_or(block)) {
            return None;
        }
    }
    let is_list = |name: &str| name == "content" && map[name].is_array();
    let rest = map.iter().filter(|(name, _)| !is_list(name));
    for (name, value) in rest {
        if !push(&Value::String(format!("{name}:"))) || !push(value) {
            return None;
        }
    }
    Some(out)
}
