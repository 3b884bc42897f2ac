//! Comparing two results: at once when both are small, otherwise as a job for another thread that
//! tells how far it is and can be stopped. Does no I/O.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::style::Modifier;
use similar::{ChangeTag, TextDiff};

use crate::base::text::cut;
use crate::mcp::Payload;
use crate::tui::call::run::Difference;
use crate::tui::effect::Effect;
use crate::tui::form::draw::{Look, put};
use crate::tui::prelude::*;
use crate::tui::result::rows::{Rows, find};
use crate::tui::result::view::{ResultView, Tab};
use crate::tui::widget::Pen;

/// Results of which this much is all are compared at once: that takes a few milliseconds.
const AT_ONCE: Limits = Limits { bytes: 32 << 10, lines: 2_000, time: Duration::from_millis(20) };
/// What a job compares.
const ELSEWHERE: Limits = Limits { bytes: 16 << 20, lines: 300_000, time: Duration::from_secs(3) };

/// What a comparison is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A person wants to see it.
    Show,
    /// It is shown when there is a difference.
    Tell,
}

/// How far a comparison is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The results are written as lines.
    Reading,
    /// The lines are matched.
    Matching,
}

/// A comparison that is under way elsewhere.
pub(super) struct Comparing {
    earlier: Payload,
    purpose: Purpose,
    handed: bool,
    stage: Stage,
    stopped: Arc<AtomicBool>,
}

impl Drop for Comparing {
    /// Whoever works on it need not go on.
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
    }
}

/// A comparison for another thread.
#[derive(Clone, Debug)]
pub struct CompareJob {
    earlier: Payload,
    later: Payload,
    stopped: Arc<AtomicBool>,
}

impl PartialEq for CompareJob {
    /// The same comparison, not an equal one.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.stopped, &other.stopped)
    }
}

/// What a [`CompareJob`] found.
#[derive(Clone, Debug)]
pub struct Compared {
    stopped: Arc<AtomicBool>,
    comparison: Comparison,
}

impl CompareJob {
    /// Compares; `tell` learns how far it is. `None` when it was stopped. Blocks for a few seconds
    /// at most.
    pub fn run(self, tell: impl Fn(Stage)) -> Option<Compared> {
        let is_stopped = || self.stopped.load(Ordering::Relaxed);
        let comparison = if self.earlier == self.later {
            Comparison::default()
        } else {
            tell(Stage::Reading);
            let read = |result| Some(readable(result, ELSEWHERE)).filter(|_| !is_stopped());
            let (old, new) = (read(&self.earlier)?, read(&self.later)?);
            tell(Stage::Matching);
            compare(&old, &new, ELSEWHERE)
        };
        (!is_stopped()).then_some(Compared { stopped: self.stopped, comparison })
    }
}

impl ResultView {
    /// Compares with an earlier result of the same tool. Gives the difference when it is known at
    /// once; otherwise [`ResultView::compare_job`] has work for another thread.
    pub fn compare_with(&mut self, earlier: &Payload, purpose: Purpose) -> Option<Difference> {
        self.comparing = None;
        let small = |payload: &Payload| {
            let readable = readable(payload, AT_ONCE);
            (!readable.cut).then_some(readable)
        };
        if let (Some(old), Some(new)) = (small(earlier), small(&self.result)) {
            return Some(self.found(compare(&old, &new, AT_ONCE), purpose));
        }
        self.comparing = Some(Comparing {
            earlier: earlier.clone(),
            purpose,
            handed: false,
            stage: Stage::Reading,
            stopped: Arc::default(),
        });
        if purpose == Purpose::Show {
            self.comparison = None;
            self.contrast = None;
            self.show(Tab::Compare);
        }
        None
    }

    /// A comparison for another thread; what it finds goes to [`ResultView::compared`].
    pub fn compare_job(&mut self) -> Option<CompareJob> {
        let comparing = self.comparing.as_mut().filter(|comparing| !comparing.handed)?;
        comparing.handed = true;
        Some(CompareJob {
            earlier: comparing.earlier.clone(),
            later: self.result.clone(),
            stopped: Arc::clone(&comparing.stopped),
        })
    }

    /// How far the job is.
    pub const fn comparing_at(&mut self, stage: Stage) {
        if let Some(comparing) = &mut self.comparing {
            comparing.stage = stage;
        }
    }

    /// Takes what a job found, unless it was stopped or another began meanwhile.
    pub fn compared(&mut self, found: Compared) -> Option<Difference> {
        let comparing =
            self.comparing.take_if(|mine| Arc::ptr_eq(&mine.stopped, &found.stopped))?;
        Some(self.found(found.comparison, comparing.purpose))
    }

    /// Stops a comparison a person waits for; gives whether there was one.
    pub fn stop_comparing(&mut self) -> bool {
        let waited = self.comparing.take_if(|comparing| comparing.purpose == Purpose::Show);
        if waited.is_some() && self.tab == Tab::Compare {
            let (first, _) = self.tabs()[0];
            self.show(first);
        }
        waited.is_some()
    }

    /// What a person who waits for a comparison reads.
    pub(super) fn comparing_words(&self) -> Option<&'static str> {
        Some(match self.comparing.as_ref()?.stage {
            Stage::Reading => "comparing: reading both results · esc stops it",
            Stage::Matching => "comparing: matching their lines · esc stops it",
        })
    }

    fn found(&mut self, comparison: Comparison, purpose: Purpose) -> Difference {
        let places = comparison.places();
        let partial = comparison.left_out.is_some();
        if purpose == Purpose::Show || places > 0 {
            self.contrast = Some(Contrast::new(&comparison, self.way()));
            self.comparison = Some(comparison);
            self.shift = 0;
            self.show(Tab::Compare);
        }
        match places {
            0 if partial => Difference::Unknown,
            0 => Difference::Same,
            places => Difference::Places(places),
        }
    }

    const fn way(&self) -> Way {
        Way { width: self.width, wrap: self.wrap, beside: self.beside }
    }

    /// Lays the comparison out for the region and the ways of looking; the line on top stays.
    pub(super) fn lay_comparison(&mut self) {
        let Some(comparison) = &self.comparison else {
            self.contrast = None;
            return;
        };
        let way = self.way();
        if self.contrast.as_ref().is_some_and(|contrast| contrast.way == way) {
            return;
        }
        let top = self.contrast.as_ref().map(|contrast| contrast.line_at(self.scroll).0);
        let contrast = Contrast::new(comparison, way);
        if let (Some(line), Tab::Compare) = (top, self.tab) {
            self.scroll = contrast.row_of(line, 0);
        }
        self.contrast = Some(contrast);
    }

    /// Moves the window on long lines; says why when it cannot.
    pub(super) fn shift_comparison(&mut self, columns: isize) -> Option<Effect> {
        let (comparison, contrast) = (self.comparison.as_ref()?, self.contrast.as_ref()?);
        if self.wrap {
            let words =
                "long lines are shown in several rows; {wrap} makes one of each, to be moved";
            return Some(Effect::Say(words.to_owned()));
        }
        let room = isize::try_from(contrast.way.sides().0).unwrap_or(0);
        let (mut least, mut most) = (0, 0);
        for (at, line) in comparison.lines.iter().enumerate() {
            let begins = contrast.shown[at].start.cast_signed();
            least = least.min(-begins);
            most = most.max(line.text.len().cast_signed() - begins - room / 2);
        }
        self.shift = (self.shift + columns * 8).clamp(least, most);
        None
    }

    /// Looks for the search from behind the top row on, around the end; gives whether it is there.
    pub(super) fn search_comparison(&mut self) -> bool {
        let (Some(comparison), Some(contrast)) = (&self.comparison, &self.contrast) else {
            return false;
        };
        let lines = &comparison.lines;
        let (top, behind) = contrast.line_at(self.scroll);
        // In one row a line is found once; what goes on is searched to its end.
        let (top, behind) = if self.wrap { (top, behind) } else { (top + 1, 0) };
        let hit = |at: usize, from: usize| {
            let text = lines.get(at)?.text.get(from..)?;
            find(text, &self.needle, 0).map(|offset| (at, from + offset))
        };
        let found = hit(top, behind)
            .or_else(|| (top + 1..lines.len()).find_map(|at| hit(at, 0)))
            .or_else(|| (0..lines.len()).find_map(|at| hit(at, 0)));
        let Some((line, offset)) = found else { return false };
        self.scroll = contrast.row_of(line, offset);
        if !self.wrap {
            let begins = contrast.shown[line].start;
            let room = usize::from(contrast.way.sides().0) / 2;
            let seen = (begins..begins + room).contains(&offset);
            let place = offset.saturating_sub(BEFORE).cast_signed() - begins.cast_signed();
            self.shift = if seen { 0 } else { place };
        }
        true
    }

    pub(super) fn draw_compare(&self, look: &Look, area: Rect, buf: &mut Buffer) {
        let mut area = area;
        if let Some(words) = self.comparing_words() {
            put(buf, area.x, area.y, area.width, words, look.muted);
            return;
        }
        let (Some(comparison), Some(contrast)) = (&self.comparison, &self.contrast) else { return };
        if let Some(words) = &comparison.left_out
            && area.height > 0
        {
            put(buf, area.x, area.y, area.width, words, look.warning);
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        if comparison.lines.is_empty() {
            put(buf, area.x, area.y, area.width, "no difference", look.ok);
            return;
        }
        let (left, right) = contrast.way.sides();
        let columns = [(area.x, left), (area.right().saturating_sub(right), right)];
        for y in 0..area.height {
            let slices = contrast.row(self.scroll + usize::from(y));
            for (slice, (x, width)) in slices.zip(columns) {
                if let Some(slice) = slice {
                    let line = &comparison.lines[slice.line];
                    let place = Rect { x, y: area.y + y, width, height: 1 };
                    self.draw_compared(line, slice, contrast, look, place, buf);
                }
            }
        }
    }

    fn draw_compared(
        &self,
        line: &DiffLine,
        slice: &Slice,
        contrast: &Contrast,
        look: &Look,
        place: Rect,
        buf: &mut Buffer,
    ) {
        let (style, sign) = match line.change {
            Change::Same => (look.text, ' '),
            Change::Removed => (look.removed, '-'),
            Change::Added => (look.added, '+'),
            Change::Skipped(n) => {
                let words = format!("  … {n} lines the same");
                put(buf, place.x, place.y, place.width, &words, look.faint);
                return;
            }
        };
        let mut part = slice.part.clone();
        if !self.wrap {
            let from = part.start.cast_signed() + self.shift;
            part = cut(&line.text, from.max(0).unsigned_abs()).len()..line.text.len();
        }
        let mut pen = Pen::new(buf, place);
        // A row that goes on with a line says so beside its sign.
        pen.write(&if slice.first { format!("{sign} ") } else { format!("{sign}…") }, style);
        if slice.first && part.start > 0 {
            pen.write("… ", look.faint);
        }
        // What cannot be seen is not looked at.
        part.end =
            part.end.min(cut(&line.text, part.start + 4 * usize::from(place.width) + 64).len());
        let text = |from: usize, to: usize| line.text.get(from..to).unwrap_or_default();
        let apart = line.apart.clone().unwrap_or(0..0);
        let (from, to) =
            (apart.start.clamp(part.start, part.end), apart.end.clamp(part.start, part.end));
        pen.write(text(part.start, from), style);
        pen.write(text(from, to), style.add_modifier(Modifier::UNDERLINED));
        pen.write(text(to, part.end), style);
        let left_out =
            self.wrap && part.end == contrast.shown[slice.line].end && part.end < line.text.len();
        if left_out {
            pen.write(" …", look.faint);
        }
    }
}

// The tab of a comparison: its layout, its search, and drawing of the rows that are visible.

/// Characters of a match's line that are shown before it.
const BEFORE: usize = 16;

// A comparison as rows for a width: long lines go on in further rows, or are looked at through a
// window that moves sideways. Either way no difference is out of reach. Pure.

/// How a comparison is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    /// Columns there are.
    pub width: u16,
    /// Long lines go on in the next row.
    pub wrap: bool,
    /// Earlier and later side by side.
    pub beside: bool,
}

impl Way {
    /// Narrower than this, two columns show nothing.
    const NARROWEST: u16 = 40;

    /// Columns of the earlier side and of the later one, when there are two; of both otherwise.
    pub(super) const fn sides(self) -> (u16, u16) {
        if self.is_beside() {
            let half = self.width / 2;
            (half - 1, self.width - half)
        } else {
            (self.width, self.width)
        }
    }

    const fn is_beside(self) -> bool {
        self.beside && self.width >= Self::NARROWEST
    }
}

/// Columns of the sign in front of a line, and of what says that a row is not all of it.
const SIGN: u16 = 2;
/// What is the same is shown of a long line before the first difference and behind the last.
const LEAD: usize = 16;
/// Most rows of a line that is the same in both.
const SAME_ROWS: usize = 3;

/// A comparison, laid out.
#[derive(Debug)]
pub(super) struct Contrast {
    way: Way,
    /// What stands in each row: of the earlier, or of the only line; and of the later.
    rows: Vec<[Option<Slice>; 2]>,
    /// The part of each line that is shown.
    shown: Vec<Range<usize>>,
}

/// A part of a line in one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    /// Which line.
    pub line: usize,
    /// The part, in bytes of its text.
    pub part: Range<usize>,
    /// Whether the line begins with it in this row; the sign stands there.
    pub first: bool,
}

impl Contrast {
    pub(super) fn new(comparison: &Comparison, way: Way) -> Self {
        let lines = &comparison.lines;
        let (left, right) = way.sides();
        // A row of so many bytes never takes more columns: what is safe has no wide character of one.
        let room = |line: &DiffLine| {
            let columns = match line.change {
                Change::Removed => left,
                Change::Added => right,
                Change::Same | Change::Skipped(_) => left.min(right),
            };
            usize::from(columns.saturating_sub(3 * SIGN)).max(8)
        };
        let shown: Vec<_> = lines.iter().map(|line| shown_of(line, room(line), way.wrap)).collect();
        let slices = |at: Option<usize>| {
            let Some(at) = at else { return Vec::new() };
            slices(at, &lines[at], &shown[at], if way.wrap { room(&lines[at]) } else { usize::MAX })
        };
        let places = if way.is_beside() {
            // Numbers of the earlier and the later line of each row.
            paired(lines.iter().enumerate().map(|(at, line)| (line.change, at)))
        } else {
            (0..lines.len()).map(|line| (Some(line), None)).collect()
        };
        let mut rows = Vec::with_capacity(lines.len());
        for (old, new) in places {
            let (mut old, mut new) = (slices(old).into_iter(), slices(new).into_iter());
            for _ in 0..old.len().max(new.len()) {
                rows.push([old.next(), new.next()]);
            }
        }
        Self { way, rows, shown }
    }

    /// How many rows there are.
    pub(super) const fn len(&self) -> usize {
        self.rows.len()
    }

    /// What stands in a row.
    pub(super) fn row(&self, row: usize) -> impl Iterator<Item = &Option<Slice>> {
        self.rows.get(row).into_iter().flatten()
    }

    /// The line that stands in a row, and where behind that row its text goes on.
    pub(super) fn line_at(&self, row: usize) -> (usize, usize) {
        let found = self.row(row).flatten().next();
        found.map_or((0, 0), |slice| (slice.line, slice.part.end))
    }

    /// The row that shows the byte at `offset` of a line, or where that line begins.
    pub(super) fn row_of(&self, line: usize, offset: usize) -> usize {
        let find = |is_it: &dyn Fn(&Slice) -> bool| {
            self.rows.iter().position(|row| row.iter().flatten().any(is_it))
        };
        let here = find(&|slice| slice.line == line && slice.part.contains(&offset));
        here.or_else(|| find(&|slice| slice.line == line)).unwrap_or(0)
    }
}

/// The part of a line that is shown: the whole, when that fits; otherwise from a little before the
/// first difference, and where lines go on to a little behind the last.
fn shown_of(line: &DiffLine, room: usize, wrap: bool) -> Range<usize> {
    let text = &line.text;
    let mut shown = 0..text.len();
    if let Some(apart) = line.apart.as_ref().filter(|_| text.len() > room) {
        shown.start = cut(text, apart.start.saturating_sub(LEAD)).len();
        // A few characters left out save nothing.
        if shown.start <= LEAD {
            shown.start = 0;
        }
        let end = cut(text, apart.end.saturating_add(LEAD)).len();
        if wrap && end + LEAD < text.len() {
            shown.end = end;
        }
    }
    shown
}

/// The shown part of a line in rows of so many bytes; of what is the same in both the first ones.
fn slices(at: usize, line: &DiffLine, shown: &Range<usize>, room: usize) -> Vec<Slice> {
    let slice = |part: Range<usize>| Slice { line: at, first: part.start == shown.start, part };
    if shown.len() <= room {
        return vec![slice(shown.clone())];
    }
    let text = line.text.get(shown.clone()).unwrap_or_default();
    let rows = Rows::new(text, room);
    let most = if line.change == Change::Same { SAME_ROWS } else { usize::MAX };
    let parts = rows.slice(text, 0..rows.len().min(most));
    let mut out: Vec<Slice> = parts
        .into_iter()
        .map(|part| {
            let from = shown.start + (part.as_ptr() as usize - text.as_ptr() as usize);
            slice(from..from + part.len())
        })
        .collect();
    // The last row of what is the same in both runs on, so that it is seen to be cut.
    if let Some(last) = out.last_mut() {
        last.part.end = shown.end;
    }
    out
}

// A result beside an earlier one: unified or side by side. Pure; bounded in size and time.

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
        self.lines.chunk_by(|a, b| differs(a) == differs(b)).filter(|run| differs(&run[0])).count()
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
                self.text.push_str(cut(text, room));
                self.cut = true;
            }
            Some(text) => self.text.push_str(text),
            None => {
                let (text, cut) = super::view::pretty(value, room);
                self.text.push_str(&text);
                self.cut = cut;
            }
        }
        self.text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn long(last: &str) -> Payload {
        let line = "a line that is the same in both\n".repeat(2_000);
        json!({"content": [{"type": "text", "text": format!("{line}{last}\n")}]}).into()
    }

    #[test]
    fn a_large_comparison_runs_elsewhere_and_a_small_one_at_once() {
        let mut view = ResultView::new(json!({"content": [], "a": 1}).into(), Vec::new());
        let small = json!({"content": [], "a": 2}).into();
        assert_eq!(view.compare_with(&small, Purpose::Tell), Some(Difference::Places(1)));
        assert!(view.compare_job().is_none());
        let mut view = ResultView::new(long("two"), Vec::new());
        assert_eq!(view.compare_with(&long("one"), Purpose::Show), None);
        assert!(view.comparing_words().is_some_and(|words| words.contains("esc")));
        let job = view.compare_job().expect("work");
        assert!(view.compare_job().is_none(), "one at a time");
        let stages = std::cell::RefCell::new(Vec::new());
        let found = job.run(|stage| stages.borrow_mut().push(stage)).expect("not stopped");
        assert_eq!(*stages.borrow(), [Stage::Reading, Stage::Matching]);
        assert_eq!(view.compared(found), Some(Difference::Places(1)));
        assert_eq!((view.tab, view.comparing_words()), (Tab::Compare, None));
    }

    #[test]
    fn a_comparison_that_was_stopped_or_replaced_shows_nothing() {
        let mut view = ResultView::new(long("two"), Vec::new());
        view.compare_with(&long("one"), Purpose::Show);
        let stopped = view.compare_job().expect("work");
        let late = stopped.clone().run(|_| {}).expect("done before it was stopped");
        assert!(view.stop_comparing() && !view.stop_comparing());
        assert_eq!(view.tab, Tab::Content);
        assert!(stopped.run(|_| {}).is_none());
        assert_eq!(view.compared(late.clone()), None);
        view.compare_with(&long("three"), Purpose::Show);
        assert_eq!(view.compared(late), None, "it belongs to the one before");
        assert!(view.compare_job().is_some());
    }

    #[test]
    fn results_without_end_are_compared_in_part_and_that_is_said() {
        let large = |end: char| -> Payload {
            let text = format!("{}{end}", "z\n".repeat(301_000));
            json!({"content": [{"type": "text", "text": text}]}).into()
        };
        let mut view = ResultView::new(large('b'), Vec::new());
        view.compare_with(&large('a'), Purpose::Show);
        let found = view.compare_job().expect("work").run(|_| {}).expect("not stopped");
        assert_eq!(view.compared(found), Some(Difference::Unknown));
        let comparison = view.comparison.as_ref().expect("shown");
        assert!(comparison.left_out.as_ref().is_some_and(|words| words.contains("300000 lines")));
    }
}

#[cfg(test)]
mod contrast_tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::Payload;
    use crate::tui::action::Action as C;
    use crate::tui::form::draw::Look;
    use crate::tui::result::{Purpose, ResultView};
    use ratatui::buffer::Buffer;
    use ratatui::layout::Rect;

    fn answer(text: &str) -> Payload {
        json!({"content": [{"type": "text", "text": text}]}).into()
    }

    fn compared(old: &str, new: &str) -> ResultView {
        let mut view = ResultView::new(answer(new), Vec::new());
        if view.compare_with(&answer(old), Purpose::Show).is_none() {
            let found = view.compare_job().and_then(|job| job.run(|_| {})).expect("compared");
            view.compared(found);
        }
        view
    }

    fn screen(view: &mut ResultView, width: u16, height: u16) -> String {
        let area = Rect::new(0, 0, width, height);
        let mut buf = Buffer::empty(area);
        view.prepare(area, &Look::default());
        view.render(&Look::default(), area, &mut buf);
        let row = |y| (0..width).map(|x| buf[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }

    /// Differences at the start, in the middle and at the end of a long line.
    fn scattered(word: &str) -> String {
        let gap = "the same words again and again ".repeat(12);
        format!("all of it: {word}1 {gap}{word}2 {gap}{word}3 {gap}end")
    }

    #[test]
    fn every_difference_of_a_long_line_can_be_seen_wrapped() {
        let mut view = compared(&scattered("old"), &scattered("new"));
        for beside in [false, true] {
            let drawn = screen(&mut view, 80, 60);
            for n in 1..=3 {
                assert!(drawn.contains(&format!("old{n}")), "{drawn}");
                assert!(drawn.contains(&format!("new{n}")), "{drawn}");
            }
            assert!(!drawn.contains(" end"), "what is the same behind them is left out: {drawn}");
            assert!(drawn.contains("-…") && drawn.contains("+…"), "{drawn}");
            if !beside {
                view.apply(C::SideBySide);
            }
        }
        // Rows that do not fit are reached by scrolling.
        let mut seen = screen(&mut view, 60, 6);
        for _ in 0..40 {
            view.move_by(1);
            seen += &screen(&mut view, 60, 6);
        }
        assert!(seen.contains("old3") && seen.contains("new3"), "{seen}");
    }

    #[test]
    fn every_difference_of_a_long_line_can_be_seen_in_one_row_that_moves() {
        let mut view = compared(&scattered("old"), &scattered("new"));
        let _ = screen(&mut view, 80, 10);
        assert!(matches!(view.apply(C::SidewaysRight), Some(crate::tui::effect::Effect::Say(_))));
        view.apply(C::Wrap);
        let first = screen(&mut view, 80, 10);
        assert!(first.contains("- all of it: old1") && !first.contains("old2"), "{first}");
        let mut seen = String::new();
        for _ in 0..200 {
            assert_eq!(view.apply(C::SidewaysRight), None);
            seen += &screen(&mut view, 80, 10);
        }
        assert!(seen.contains("new2") && seen.contains("old3"), "{seen}");
        let last = screen(&mut view, 80, 10);
        assert!(last.contains(" end"), "it stops at the end: {last}");
        for _ in 0..200 {
            view.apply(C::SidewaysLeft);
        }
        assert_eq!(screen(&mut view, 80, 10), first);
    }

    #[test]
    fn a_long_line_begins_a_little_before_its_first_difference_and_its_start_can_be_moved_to() {
        let start = format!("begin {}", "x".repeat(2_500));
        let mut view = compared(&format!("{start}old"), &format!("{start}new"));
        let lead = "x".repeat(LEAD);
        let drawn = screen(&mut view, 60, 8);
        for line in [format!("- … {lead}old"), format!("+ … {lead}new")] {
            assert!(drawn.lines().any(|l| l == line), "{drawn}");
        }
        view.apply(C::Wrap);
        let drawn = screen(&mut view, 60, 8);
        assert!(drawn.contains(&format!("- … {lead}old")), "{drawn}");
        for _ in 0..400 {
            view.apply(C::SidewaysLeft);
        }
        assert!(screen(&mut view, 60, 8).contains("- begin xxx"));
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
                view.apply(C::Wrap);
                let _ = screen(&mut view, 60, 4);
            }
            for _ in 0..4 {
                assert_eq!(view.search("needle"), None);
                let drawn = screen(&mut view, 60, 4);
                assert!(drawn.contains("needle"), "{wrap}: {drawn}");
            }
        }
    }

    #[test]
    fn a_line_that_is_the_same_and_long_takes_few_rows_and_the_top_line_stays_when_the_way_changes()
    {
        let same = "same ".repeat(200);
        let lines: Vec<_> = (0..6).map(|n| format!("{same}{n}\nword {n} old\n")).collect();
        let lines = lines.concat();
        let mut view = compared(&lines, &lines.replace("old", "new"));
        let _ = screen(&mut view, 50, 8);
        let places = |view: &ResultView| view.contrast.as_ref().expect("laid out").len();
        // Six lines of three rows, six pairs, and the empty line at the end.
        assert_eq!(places(&view), 6 * SAME_ROWS + 12 + 1);
        view.move_by(10);
        let top = screen(&mut view, 50, 8);
        view.apply(C::Wrap);
        view.apply(C::Wrap);
        view.apply(C::SideBySide);
        view.apply(C::SideBySide);
        assert_eq!(screen(&mut view, 50, 8), top);
    }
}
