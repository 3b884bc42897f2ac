//! A comparison as rows for a width: long lines go on in further rows, or are looked at through a
//! window that moves sideways. Either way no difference is out of reach. Pure.

use std::ops::Range;

use super::diff::{Change, Comparison, DiffLine, side_by_side};
use super::rows::Rows;

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
        if self.beside && self.width >= Self::NARROWEST {
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

/// Lines in one place: earlier and later, or one line alone in the first.
type Place = (Option<usize>, Option<usize>);

/// A comparison, laid out.
#[derive(Debug)]
pub(super) struct Contrast {
    way: Way,
    places: Vec<Place>,
    /// The first row of each place, and behind the last the number of all.
    starts: Vec<usize>,
    /// The part of each line that is shown where lines go on.
    windows: Vec<Window>,
}

#[derive(Debug)]
struct Window {
    shown: Range<usize>,
    /// Unless it fits one row.
    rows: Option<Rows>,
}

/// A part of a line in one row.
#[derive(Debug, PartialEq, Eq)]
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
        let room = |line: &DiffLine| match line.change {
            Change::Removed => left,
            Change::Added => right,
            Change::Same | Change::Skipped(_) => left.min(right),
        };
        let windows: Vec<Window> =
            lines.iter().map(|line| window(line, room(line), way.wrap)).collect();
        let places: Vec<Place> = if way.is_beside() {
            side_by_side(lines)
        } else {
            (0..lines.len()).map(|line| (Some(line), None)).collect()
        };
        let mut starts = Vec::with_capacity(places.len() + 1);
        let mut row = 0;
        for (old, new) in &places {
            starts.push(row);
            let tall = |line: &Option<usize>| line.map_or(0, |at| windows[at].len(&lines[at]));
            row += tall(old).max(tall(new)).max(1);
        }
        starts.push(row);
        Self { way, places, starts, windows }
    }

    pub(super) const fn way(&self) -> Way {
        self.way
    }

    /// How many rows there are.
    pub(super) fn len(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// What stands in a row: of the earlier, or of the only line; and of the later.
    pub(super) fn row(&self, lines: &[DiffLine], row: usize) -> [Option<Slice>; 2] {
        let Some((place, within)) = self.place(row) else { return [None, None] };
        let (old, new) = self.places[place];
        [old, new].map(|line| self.slice(lines, line?, within))
    }

    fn slice(&self, lines: &[DiffLine], line: usize, within: usize) -> Option<Slice> {
        let (window, text) = (&self.windows[line], &lines[line].text);
        if within >= window.len(&lines[line]) {
            return None;
        }
        let shown = text.get(window.shown.clone())?;
        let part = match &window.rows {
            None => window.shown.clone(),
            Some(rows) => {
                let row = rows.slice(shown, within..within + 1);
                let from = offset(text, row.first()?);
                // The last row of what is the same in both runs on, so that it is seen to be cut.
                let last = within + 1 == window.len(&lines[line]);
                from..if last { window.shown.end } else { from + row.first()?.len() }
            }
        };
        Some(Slice { line, part, first: within == 0 })
    }

    fn place(&self, row: usize) -> Option<(usize, usize)> {
        let place = self.starts.partition_point(|start| *start <= row).checked_sub(1)?;
        (place < self.places.len()).then(|| (place, row - self.starts[place]))
    }

    /// The line that stands in a row, and where behind that row its text goes on.
    pub(super) fn line_at(&self, lines: &[DiffLine], row: usize) -> (usize, usize) {
        let slices = self.row(lines, row);
        let found = slices.into_iter().flatten().next();
        found.map_or((0, 0), |slice| (slice.line, slice.part.end))
    }

    /// The row that shows the byte at `offset` of a line, or where that line begins.
    pub(super) fn row_of(&self, lines: &[DiffLine], line: usize, offset: usize) -> usize {
        let holds = |(old, new): &Place| *old == Some(line) || *new == Some(line);
        let Some(place) = self.places.iter().position(holds) else { return 0 };
        let window = &self.windows[line];
        let within =
            window.rows.as_ref().filter(|_| window.shown.contains(&offset)).map_or(0, |rows| {
                let text = lines[line].text.get(window.shown.clone()).unwrap_or_default();
                rows.row_of(text, offset - window.shown.start).min(window.len(&lines[line]) - 1)
            });
        self.starts[place] + within
    }

    /// Where a line begins to be shown in a single row.
    pub(super) fn begins(&self, line: usize) -> usize {
        self.windows[line].shown.start
    }

    /// Where its last row ends.
    pub(super) fn ends(&self, line: usize) -> usize {
        self.windows[line].shown.end
    }
}

impl Window {
    fn len(&self, line: &DiffLine) -> usize {
        let all = self.rows.as_ref().map_or(1, Rows::len);
        if line.change == Change::Same { all.min(SAME_ROWS) } else { all }
    }
}

/// The part of a line that is shown: the whole, when that fits; otherwise from a little before the
/// first difference, and where lines go on to a little behind the last.
fn window(line: &DiffLine, room: u16, wrap: bool) -> Window {
    let text = &line.text;
    // A row of so many bytes never takes more columns: what is safe has no wide character of one.
    let room = usize::from(room.saturating_sub(3 * SIGN)).max(8);
    let fits = text.len() <= room;
    let mut shown = 0..text.len();
    if let Some(apart) = line.apart.as_ref().filter(|_| !fits) {
        shown.start = boundary(text, apart.start.saturating_sub(LEAD));
        // A few characters left out save nothing.
        if shown.start <= LEAD {
            shown.start = 0;
        }
        let end = boundary(text, apart.end.saturating_add(LEAD));
        if wrap && end + LEAD < text.len() {
            shown.end = end;
        }
    }
    let rows = (wrap && shown.len() > room)
        .then(|| Rows::new(text.get(shown.clone()).unwrap_or_default(), room));
    Window { shown, rows }
}

/// The nearest place at or before `at` where a character begins.
pub(super) fn boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Where a part of a text begins in it.
fn offset(text: &str, part: &str) -> usize {
    (part.as_ptr() as usize).saturating_sub(text.as_ptr() as usize)
}

#[cfg(test)]
mod tests {
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
