//! The tab of a comparison: its layout, its search, and drawing of the rows that are visible.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::contrast::{Contrast, Slice, Way, boundary};
use super::diff::{Change, Comparison, DiffLine};
use super::rows::find;
use super::view::{ResultView, Tab};
use crate::tui::effect::Effect;
use crate::tui::form::draw::{Look, put};

/// Characters of a match's line that are shown before it.
const BEFORE: usize = 16;

impl ResultView {
    const fn way(&self) -> Way {
        Way { width: self.width, wrap: self.wrap, beside: self.beside }
    }

    /// Takes a comparison over; its layout follows.
    pub(super) fn take_comparison(&mut self, comparison: Comparison) {
        self.contrast = Some(Contrast::new(&comparison, self.way()));
        self.comparison = Some(comparison);
        self.shift = 0;
    }

    /// Lays the comparison out for the region and the ways of looking; the line on top stays.
    pub(super) fn lay_comparison(&mut self) {
        let Some(comparison) = &self.comparison else {
            self.contrast = None;
            return;
        };
        let way = self.way();
        if self.contrast.as_ref().is_some_and(|contrast| contrast.way() == way) {
            return;
        }
        let lines = &comparison.lines;
        let top = self.contrast.as_ref().map(|contrast| contrast.line_at(lines, self.scroll).0);
        let contrast = Contrast::new(comparison, way);
        if let (Some(line), Tab::Compare) = (top, self.tab) {
            self.scroll = contrast.row_of(lines, line, 0);
        }
        self.contrast = Some(contrast);
    }

    /// Rows of the comparison.
    pub(super) fn compared_rows(&self) -> usize {
        self.contrast.as_ref().map_or(0, Contrast::len)
    }

    /// Moves the window on long lines; says why when it cannot.
    pub(super) fn shift_comparison(&mut self, columns: isize) -> Option<Effect> {
        let (comparison, contrast) = (self.comparison.as_ref()?, self.contrast.as_ref()?);
        if self.wrap {
            let words =
                "long lines are shown in several rows; {wrap} makes one of each, to be moved";
            return Some(Effect::Say(words.to_owned()));
        }
        let room = isize::try_from(contrast.way().sides().0).unwrap_or(0);
        let reach = |(at, line): (usize, &DiffLine)| {
            let begins = contrast.begins(at).cast_signed();
            (-begins, line.text.len().cast_signed() - begins - room / 2)
        };
        let (least, most) = comparison
            .lines
            .iter()
            .enumerate()
            .map(reach)
            .fold((0, 0), |(least, most): (isize, isize), (left, right)| {
                (least.min(left), most.max(right))
            });
        self.shift = (self.shift + columns * 8).clamp(least, most);
        None
    }

    /// Looks for the search from behind the top row on, around the end; gives whether it is there.
    pub(super) fn search_comparison(&mut self) -> bool {
        let (Some(comparison), Some(contrast)) = (&self.comparison, &self.contrast) else {
            return false;
        };
        let lines = &comparison.lines;
        let (top, behind) = contrast.line_at(lines, self.scroll);
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
        self.scroll = contrast.row_of(lines, line, offset);
        if !self.wrap {
            let begins = contrast.begins(line);
            let room = usize::from(contrast.way().sides().0) / 2;
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
        let (left, right) = contrast.way().sides();
        let columns = [(area.x, left), (area.right().saturating_sub(right), right)];
        for y in 0..area.height {
            let slices = contrast.row(&comparison.lines, self.scroll + usize::from(y));
            for (slice, (x, width)) in slices.into_iter().zip(columns) {
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
        slice: Slice,
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
        let mut part = slice.part;
        if !self.wrap {
            let from = part.start.cast_signed() + self.shift;
            part = boundary(&line.text, from.max(0).unsigned_abs())..line.text.len();
        }
        let mut pen = Writing { x: place.x, place, buf };
        // A row that goes on with a line says so beside its sign.
        pen.put(&if slice.first { format!("{sign} ") } else { format!("{sign}…") }, style);
        if slice.first && part.start > 0 {
            pen.put("… ", look.faint);
        }
        // What cannot be seen is not looked at.
        part.end =
            part.end.min(boundary(&line.text, part.start + 4 * usize::from(place.width) + 64));
        let text = |from: usize, to: usize| line.text.get(from..to).unwrap_or_default();
        let apart = line.apart.clone().unwrap_or(0..0);
        let (from, to) =
            (apart.start.clamp(part.start, part.end), apart.end.clamp(part.start, part.end));
        pen.put(text(part.start, from), style);
        pen.put(text(from, to), style.add_modifier(Modifier::UNDERLINED));
        pen.put(text(to, part.end), style);
        let left_out =
            self.wrap && part.end == contrast.ends(slice.line) && part.end < line.text.len();
        if left_out {
            pen.put(" …", look.faint);
        }
    }
}

/// Writes along one row.
struct Writing<'a> {
    x: u16,
    place: Rect,
    buf: &'a mut Buffer,
}

impl Writing<'_> {
    fn put(&mut self, text: &str, style: Style) {
        let room = self.place.right().saturating_sub(self.x);
        self.x = put(self.buf, self.x, self.place.y, room, text, style);
    }
}
