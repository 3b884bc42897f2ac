//! Compares two results, unified or side by side: computes the differing lines and lays them out as
//! rows for a width. Bounded in size and time. Pure.

use std::ops::Range;

use ratatui::style::Modifier;
use similar::{ChangeTag, TextDiff};

use crate::form::draw::{Styles, put};
use crate::prelude::*;
use crate::result::content::{indented, pretty};
use crate::result::rows::{WrappedRows, find};
use crate::widget::{Pen, WordBudget, differing_words};
use base::pointer::child_pointer;
use base::text::cut;
use protocol::Payload;

/// Most text of each result that is compared, in bytes.
const MAX_COMPARED_BYTES: usize = 1_000_000;
/// Most lines of each result that are compared.
const MAX_COMPARED_LINES: usize = 20_000;
/// Time limit for matching lines, after which the rest counts as different.
const MATCHING_TIMEOUT: Duration = Duration::from_millis(50);
/// Unchanged lines shown around differing ones.
const CONTEXT_LINES: usize = 3;

/// What happened to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineChange {
    /// The same in both.
    Same,
    /// Only in the earlier one.
    Removed,
    /// Only in the later one.
    Added,
    /// Unchanged lines that were left out.
    Skipped(usize),
}

/// One line of a comparison.
#[derive(Debug)]
struct DiffLine {
    change: LineChange,
    /// The full line.
    text: SafeText,
    /// Byte ranges of `text` with the words that its counterpart on the other side does not have.
    /// Empty if the two have almost nothing in common.
    apart: Vec<Range<usize>>,
}

/// How a comparison is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CompareLayout {
    /// Available columns.
    pub width: u16,
    /// Whether long lines continue in the next row.
    pub wrap: bool,
    /// Earlier and later side by side.
    pub beside: bool,
}

/// A part of a line in one row.
#[derive(Clone, Debug)]
struct Slice {
    line: usize,
    /// The part, in bytes of its text.
    part: Range<usize>,
}

/// A comparison of two results, and its layout.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Unified lines with some unchanged ones around them; empty if both results are equal.
    lines: Vec<DiffLine>,
    /// Whether only the beginning of the results was compared.
    pub is_partial: bool,
    way: CompareLayout,
    /// The content of each row: the earlier or only line, and the later one.
    rows: Vec<[Option<Slice>; 2]>,
}

impl CompareLayout {
    /// Narrower than this, two columns are useless.
    const MIN_SPLIT_COLUMNS: u16 = 40;

    const fn is_beside(self) -> bool {
        self.beside && self.width >= Self::MIN_SPLIT_COLUMNS
    }

    /// Columns of the earlier and the later side; both have the full width when unified.
    const fn sides(self) -> (u16, u16) {
        let half = self.width / 2;
        if self.is_beside() { (half - 1, self.width - half) } else { (self.width, self.width) }
    }
}

impl Comparison {
    /// Compares two results in readable form, line by line.
    pub(super) fn new(old: &Payload, new: &Payload) -> Self {
        // Texts that differ in their blanks alone are compared as they are.
        let read = |form| (readable(old, form), readable(new, form));
        let mut shown = read(TextForm::Indented);
        if shown.0.0 == shown.1.0 {
            shown = read(TextForm::AsSent);
        }
        let ((old, old_cut), (new, new_cut)) = shown;
        let diff = TextDiff::configure().timeout(MATCHING_TIMEOUT).diff_lines(&*old, &*new);
        let mut lines = Vec::new();
        let mut line = |change, text| {
            lines.push(DiffLine { change, text: SafeText::line(text), apart: Vec::new() });
        };
        let mut last = 0;
        for group in diff.grouped_ops(CONTEXT_LINES) {
            let first = group.first().map_or(0, |op| op.old_range().start);
            if first > last {
                line(LineChange::Skipped(first - last), "");
            }
            for op in &group {
                last = op.old_range().end;
                for change in diff.iter_changes(op) {
                    let tag = match change.tag() {
                        ChangeTag::Equal => LineChange::Same,
                        ChangeTag::Delete => LineChange::Removed,
                        ChangeTag::Insert => LineChange::Added,
                    };
                    line(tag, change.value().trim_end_matches('\n'));
                }
            }
        }
        let mut budget = WordBudget::default();
        for pair in paired(&lines) {
            if let (Some(old), Some(new)) = pair
                && old != new
            {
                let [before, after] =
                    differing_words(&lines[old].text, &lines[new].text, &mut budget);
                (lines[old].apart, lines[new].apart) = (before, after);
            }
        }
        Self { lines, is_partial: old_cut || new_cut, ..Self::default() }
    }

    /// Number of differences: runs of lines that are not in both results.
    pub(super) fn places(&self) -> usize {
        let differs =
            |line: &DiffLine| matches!(line.change, LineChange::Removed | LineChange::Added);
        self.lines.chunk_by(|a, b| differs(a) == differs(b)).filter(|run| differs(&run[0])).count()
    }

    /// Lays it out, keeping the line of row `top` on top; returns the row where that line is now.
    pub(super) fn lay(&mut self, way: CompareLayout, top: usize) -> usize {
        if self.way == way {
            return top;
        }
        let line = self.line_at(top).0;
        let (left, right) = way.sides();
        let slices = |at: Option<usize>| {
            let Some(at) = at else { return Vec::new() };
            let columns = match self.lines[at].change {
                LineChange::Removed => left,
                LineChange::Added => right,
                LineChange::Same | LineChange::Skipped(_) => left.min(right),
            };
            let room = usize::from(columns.saturating_sub(SIGN_COLUMNS)).max(8);
            slices(at, &self.lines[at].text, if way.wrap { room } else { usize::MAX })
        };
        let pairs = if way.is_beside() {
            paired(&self.lines)
        } else {
            (0..self.lines.len()).map(|line| (Some(line), None)).collect()
        };
        let rows = pairs.into_iter().flat_map(|(old, new)| {
            let (mut old, mut new) = (slices(old).into_iter(), slices(new).into_iter());
            let rows = old.len().max(new.len());
            (0..rows).map(move |_| [old.next(), new.next()])
        });
        (self.rows, self.way) = (rows.collect(), way);
        self.row_of(line, 0)
    }

    /// How many rows there are, with the note above them.
    pub(super) fn len(&self) -> usize {
        self.rows.len() + usize::from(self.is_partial)
    }

    fn row(&self, row: usize) -> impl Iterator<Item = &Option<Slice>> {
        self.rows.get(row).into_iter().flatten()
    }

    /// The line in a row, and the byte offset where its text continues after that row.
    fn line_at(&self, row: usize) -> (usize, usize) {
        let found = self.row(row).flatten().next();
        found.map_or((0, 0), |slice| (slice.line, slice.part.end))
    }

    /// The row that shows the byte at `offset` of a line, or where that line begins.
    fn row_of(&self, line: usize, offset: usize) -> usize {
        let find = |is_it: &dyn Fn(&Slice) -> bool| {
            self.rows.iter().position(|row| row.iter().flatten().any(is_it))
        };
        let here = find(&|slice| slice.line == line && slice.part.contains(&offset));
        here.or_else(|| find(&|slice| slice.line == line)).unwrap_or(0)
    }

    /// Searches from after row `top`, wrapping around; returns the row of the match, and how many
    /// characters precede it there.
    pub(super) fn search(&self, needle: &str, top: usize) -> Option<(usize, usize)> {
        let (line, behind) = self.line_at(top);
        let hit = |at: usize, from: usize| {
            let text = self.lines.get(at)?.text.get(from..)?;
            find(text, needle, 0).map(|offset| (at, from + offset))
        };
        let after = hit(line, behind)
            .or_else(|| (line + 1..self.lines.len()).chain(0..=line).find_map(|at| hit(at, 0)));
        let (line, offset) = after?;
        let row = self.row_of(line, offset);
        let slice = self.row(row).flatten().find(|slice| slice.line == line)?;
        let before = self.lines[line].text.get(slice.part.start..offset)?;
        Some((row, before.chars().count()))
    }

    /// Draws the rows from `scroll` on, without the first `column` characters of each.
    pub(super) fn draw(
        &self,
        (scroll, column): (usize, usize),
        look: &Styles,
        mut area: Rect,
        buf: &mut Buffer,
    ) {
        if self.is_partial && area.height > 0 {
            let size = Bytes(MAX_COMPARED_BYTES as u64);
            let words =
                format!("only their beginnings are compared: {size} or {MAX_COMPARED_LINES} lines");
            put(buf, area.x, area.y, area.width, &words, look.warning);
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        if self.lines.is_empty() {
            put(buf, area.x, area.y, area.width, "no difference", look.ok);
            return;
        }
        let (left, right) = self.way.sides();
        let columns = [(area.x, left), (area.right().saturating_sub(right), right)];
        for y in 0..area.height {
            if self.way.is_beside() {
                let x = area.x + left;
                put(buf, x, area.y + y, 1, look.sign("│", "|"), look.rule);
            }
            let slices = self.row(scroll + usize::from(y)).zip(columns);
            for (slice, (x, width)) in slices {
                if let Some(slice) = slice {
                    let place = Rect { x, y: area.y + y, width, height: 1 };
                    self.draw_slice(slice, column, look, place, buf);
                }
            }
        }
    }

    fn draw_slice(
        &self,
        slice: &Slice,
        column: usize,
        look: &Styles,
        place: Rect,
        buf: &mut Buffer,
    ) {
        let DiffLine { change, text, apart } = &self.lines[slice.line];
        let mut pen = Pen::new(buf, place);
        let (style, sign) = match change {
            LineChange::Same => (look.text, ' '),
            LineChange::Removed => (look.removed, '-'),
            LineChange::Added => (look.added, '+'),
            LineChange::Skipped(n) => {
                pen.write(&format!("  … {}", count(*n, "unchanged line")), look.faint);
                return;
            }
        };
        // A row that continues a line is marked beside its sign.
        let goes_on = if slice.part.start > 0 { '…' } else { ' ' };
        pen.write(&format!("{sign}{goes_on}"), style);
        let part = text.get(slice.part.clone()).unwrap_or_default();
        let skipped = part.char_indices().nth(column).map_or(part.len(), |(at, _)| at);
        let begin = slice.part.start + skipped;
        // Text outside the screen is not examined.
        let end = cut(text, begin + 4 * usize::from(place.width)).len().min(slice.part.end);
        let different = style.add_modifier(Modifier::REVERSED);
        let mut at = begin;
        for place in apart {
            let (from, to) = (place.start.clamp(at, end), place.end.clamp(at, end));
            for (part, style) in [(at..from, style), (from..to, different)] {
                pen.write(text.get(part).unwrap_or_default(), style);
            }
            at = to;
        }
        pen.write(text.get(at..end).unwrap_or_default(), style);
    }
}

/// Columns of the sign in front of a line.
const SIGN_COLUMNS: u16 = 2;

/// A line in rows of at most `room` bytes.
fn slices(line: usize, text: &str, room: usize) -> Vec<Slice> {
    if text.len() <= room {
        return vec![Slice { line, part: 0..text.len() }];
    }
    let rows = WrappedRows::new(text, room);
    let begin = |row: &str| row.as_ptr() as usize - text.as_ptr() as usize;
    let parts = rows.slice(text, 0..rows.len()).into_iter();
    parts.map(|row| Slice { line, part: begin(row)..begin(row) + row.len() }).collect()
}

/// Indices of the lines that are side by side: the earlier and the later.
fn paired(lines: &[DiffLine]) -> Vec<(Option<usize>, Option<usize>)> {
    let mut out: Vec<(Option<usize>, Option<usize>)> = Vec::new();
    let mut waiting = 0;
    for (at, line) in lines.iter().enumerate() {
        match line.change {
            LineChange::Removed => {
                out.push((Some(at), None));
                waiting += 1;
            }
            LineChange::Added if waiting > 0 => {
                let row = out.len() - waiting;
                out[row].1 = Some(at);
                waiting -= 1;
            }
            LineChange::Added => out.push((None, Some(at))),
            LineChange::Same | LineChange::Skipped(_) => {
                waiting = 0;
                out.push((Some(at), Some(at)));
            }
        }
    }
    out
}

/// How JSON in a text is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextForm {
    /// Line by line, as the content shows it.
    Indented,
    AsSent,
}

/// The beginning of a result as text, and whether it was cut: texts in this form, everything else as
/// indented JSON.
fn readable(result: &Payload, form: TextForm) -> (String, bool) {
    let (mut out, mut is_cut) = (String::new(), result.cut().is_some());
    let mut push = |value: &Value, place: String| {
        let room = MAX_COMPARED_BYTES.saturating_sub(out.len());
        if room == 0 {
            is_cut = true;
            return;
        }
        let (text, cut_off) = match value.as_str() {
            Some(text) => {
                let indented = (form == TextForm::Indented).then(|| indented(text)).flatten();
                let text = indented.as_deref().unwrap_or(text);
                (cut(text, room).to_owned(), text.len() > room)
            }
            None => pretty(&result.numbers().within_part(value, place), room),
        };
        is_cut |= cut_off;
        out += &(text + "\n");
    };
    let Some(members) = result.as_object() else {
        push(result, String::new());
        return (out, is_cut);
    };
    for (index, block) in result["content"].as_array().into_iter().flatten().enumerate() {
        let text = block.get("text").filter(|text| text.is_string());
        push(text.unwrap_or(block), format!("/content/{index}"));
    }
    for (name, value) in
        members.iter().filter(|(key, value)| *key != "content" || !value.is_array())
    {
        push(&format!("{name}:").into(), String::new());
        push(value, child_pointer("", name));
    }
    let end = memchr::memchr_iter(b'\n', out.as_bytes()).nth(MAX_COMPARED_LINES);
    if let Some(end) = end.filter(|end| end + 1 < out.len()) {
        out.truncate(end + 1);
        is_cut = true;
    }
    (out, is_cut)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::action::Action as C;
    use crate::call::run::Difference;
    use crate::result::ResultView;
    use crate::result::tests::{applied, finds};

    fn answer(text: &str) -> Payload {
        json!({"content": [{"type": "text", "text": text}]}).into()
    }

    fn compared(old: &str, new: &str) -> ResultView {
        let mut view = ResultView::new(answer(new), Vec::new());
        view.compare_with(&answer(old), true);
        view
    }

    fn screen(view: &mut ResultView, width: u16, height: u16) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        view.prepare(area, &Styles::default());
        view.render(&Styles::default(), area, &mut buf);
        let row = |y| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn large_results_are_compared_in_part_and_that_is_said() {
        let large = |end: char| answer(&format!("{}{end}", "z\n".repeat(MAX_COMPARED_LINES + 1)));
        let mut view = ResultView::new(large('b'), Vec::new());
        assert_eq!(view.compare_with(&large('a'), true), Difference::Unknown);
        assert!(screen(&mut view, 80, 4).contains("20000 lines"));
        let mut view = ResultView::new(answer("a"), Vec::new());
        assert_eq!(view.compare_with(&answer("b"), false), Difference::Places(1));
        assert_eq!(view.compare_with(&answer("a"), false), Difference::Same);
    }

    /// Differences at the start, in the middle and at the end of a long line.
    fn scattered(word: &str) -> String {
        let gap = "the same words again and again ".repeat(12);
        format!("all of it: {word}1 {gap}{word}2 {gap}{word}3 {gap}end")
    }

    #[test]
    fn json_on_one_line_is_compared_member_by_member_and_the_words_that_differ_stand_out() {
        let text = |n: u32| json!({"count": n, "items": [{"id": 1, "name": "same"}]}).to_string();
        let mut view = compared(&text(41), &text(42));
        let drawn = screen(&mut view, 40, 12);
        let changed: Vec<_> = drawn.lines().filter(|line| line.starts_with(['-', '+'])).collect();
        assert_eq!(changed.len(), 2, "{drawn}");
        assert!(changed[0].contains("41") && changed[1].contains("42"), "{drawn}");
        let area = Rect::new(0, 0, 40, 12);
        let mut buf = Buffer::empty(area);
        view.render(&Styles::default(), area, &mut buf);
        let marked = |at: Position| buf[at].modifier.contains(Modifier::REVERSED);
        let marked: String =
            area.positions().filter(|at| marked(*at)).map(|at| buf[at].symbol()).collect();
        assert_eq!(marked, "4142");
        // Other blanks are a difference too, when they are the only one.
        let view = compared("{\"a\":1}", "{\"a\": 1}");
        assert_eq!(view.comparison.map(|found| found.places()), Some(1));
    }

    #[test]
    fn lines_that_differ_in_every_word_are_compared_by_words_up_to_a_limit() {
        let lines = |word: char| {
            let words = |n: u32| (0..1_000).map(move |at| format!("{word}{},", (at + n) % 7));
            let line = |n: u32| words(n).collect::<Vec<_>>().concat();
            (0..64).map(line).collect::<Vec<_>>().join("\n")
        };
        let view = compared(&lines('a'), &lines('b'));
        let lines = view.comparison.expect("compared").lines;
        let marked = lines.iter().filter(|line| !line.apart.is_empty()).count();
        assert!((2..lines.len() / 2).contains(&marked), "{marked} of {}", lines.len());
    }

    #[test]
    fn every_difference_of_a_long_line_can_be_seen_wrapped() {
        let mut view = compared(&scattered("old"), &scattered("new"));
        for _ in 0..2 {
            let drawn = screen(&mut view, 80, 60);
            for n in 1..=3 {
                assert!(drawn.contains(&format!("old{n}")), "{drawn}");
                assert!(drawn.contains(&format!("new{n}")), "{drawn}");
            }
            assert!(drawn.contains("-…") && drawn.contains("+…"), "{drawn}");
            applied(&mut view, C::SideBySide);
        }
        // Rows that do not fit are reached by scrolling.
        let mut seen = screen(&mut view, 60, 6);
        for _ in 0..80 {
            view.move_by(1);
            seen += &screen(&mut view, 60, 6);
        }
        assert!(seen.contains("old3") && seen.contains("new3"), "{seen}");
    }

    #[test]
    fn every_difference_of_a_long_line_can_be_seen_in_one_row_that_moves() {
        let mut view = compared(&scattered("old"), &scattered("new"));
        applied(&mut view, C::Wrap);
        let first = screen(&mut view, 80, 10);
        assert!(first.contains("- all of it: old1") && !first.contains("old2"), "{first}");
        let mut seen = String::new();
        for _ in 0..200 {
            assert!(applied(&mut view, C::Right).notice.is_none());
            seen += &screen(&mut view, 80, 10);
        }
        assert!(seen.contains("new2") && seen.contains("old3"), "{seen}");
        for _ in 0..200 {
            applied(&mut view, C::Left);
        }
        assert_eq!(screen(&mut view, 80, 10), first);
    }

    #[test]
    fn the_search_finds_every_place_of_a_comparison_and_brings_it_to_the_screen() {
        let tail = "y".repeat(3_000);
        let text =
            |word: &str| format!("{word} {}needle {tail}needle\nshort needle", "z ".repeat(300));
        let mut view = compared(&text("old"), &text("new"));
        for wrap in [true, false] {
            let _ = screen(&mut view, 60, 4);
            if !wrap {
                applied(&mut view, C::Wrap);
                let _ = screen(&mut view, 60, 4);
            }
            for _ in 0..4 {
                assert!(finds(&mut view, "needle"));
                let drawn = screen(&mut view, 60, 4);
                assert!(drawn.contains("needle"), "{wrap}: {drawn}");
            }
        }
    }

    #[test]
    fn the_top_line_stays_when_the_way_changes() {
        let same = "same ".repeat(200);
        let lines: Vec<_> = (0..6).map(|n| format!("{same}{n}\nword {n} old\n")).collect();
        let lines = lines.concat();
        let mut view = compared(&lines, &lines.replace("old", "new"));
        let _ = screen(&mut view, 50, 8);
        finds(&mut view, "word 2");
        let top = screen(&mut view, 50, 8);
        for action in [C::Wrap, C::Wrap, C::SideBySide, C::SideBySide] {
            applied(&mut view, action);
        }
        assert_eq!(screen(&mut view, 50, 8), top);
    }
}
