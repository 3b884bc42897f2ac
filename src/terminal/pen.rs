//! A pen over a region of the buffer: clips, measures by cells, draws only [`Drawable`] text.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::ink::{Drawable, InkSlice};
use crate::prelude::*;

/// Width of drawable text in cells.
pub fn width(text: &impl Drawable) -> u16 {
    u16::try_from(text.text().width()).unwrap_or(u16::MAX)
}

/// Byte length of the longest prefix of `text` that fits `cells`.
pub fn fit(text: &str, cells: u16) -> usize {
    let mut used = 0;
    for (at, grapheme) in text.grapheme_indices(true) {
        used += grapheme.width();
        if used > usize::from(cells) {
            return at;
        }
    }
    text.len()
}

/// Byte offset where the longest suffix of `text` that fits `cells` begins.
fn fit_end(text: &str, cells: u16) -> usize {
    let mut used = 0;
    let mut from = text.len();
    for (at, grapheme) in text.grapheme_indices(true).rev() {
        used += grapheme.width();
        if used > usize::from(cells) {
            break;
        }
        from = at;
    }
    from
}

/// Text that fits `cells`; one that is too long loses its middle, see [`Pen::middle`].
pub fn shortened(text: &impl Drawable, cells: u16, ellipsis: &'static str) -> Ink {
    let whole = text.text();
    if fit(whole, cells) == whole.len() {
        return ink!("{}", InkSlice::new(text, 0, usize::MAX));
    }
    let head = fit(whole, cells.saturating_sub(1) / 2);
    let used = whole[..head].width() as u16;
    let tail = fit_end(whole, cells.saturating_sub(1 + used));
    let (head, tail) = (InkSlice::new(text, 0, head), InkSlice::new(text, tail, usize::MAX));
    ink!("{}{}{}", head, ellipsis, tail)
}

/// Draws on one row at a time, left to right.
pub struct Pen<'a> {
    buf: &'a mut Buffer,
    area: Rect,
    x: u16,
    y: u16,
    ellipsis: &'static str,
}

impl<'a> Pen<'a> {
    /// A pen at the first cell of `area`.
    pub fn new(buf: &'a mut Buffer, area: Rect) -> Self {
        let area = area.intersection(buf.area);
        Self { buf, area, x: area.x, y: area.y, ellipsis: "…" }
    }

    /// Uses another sign where text is cut.
    #[must_use]
    pub const fn ellipsis(mut self, sign: &'static str) -> Self {
        self.ellipsis = sign;
        self
    }

    /// Moves to a column and row of the region.
    pub fn at(&mut self, column: u16, row: u16) -> &mut Self {
        self.x = self.area.x.saturating_add(column);
        self.y = self.area.y.saturating_add(row);
        self
    }

    /// Moves to a column of the current row.
    pub fn column(&mut self, column: u16) -> &mut Self {
        self.x = self.area.x.saturating_add(column);
        self
    }

    /// Leaves cells blank.
    pub fn skip(&mut self, cells: u16) -> &mut Self {
        self.x = self.x.saturating_add(cells);
        self
    }

    /// Cells left on this row; 0 below the region.
    pub fn room(&self) -> u16 {
        if self.y >= self.area.bottom() { 0 } else { self.area.right().saturating_sub(self.x) }
    }

    /// The current column within the region.
    pub const fn position(&self) -> u16 {
        self.x.saturating_sub(self.area.x)
    }

    /// Draws as much as fits the row; cut text ends with an ellipsis.
    pub fn put(&mut self, text: impl Drawable, style: Style) -> &mut Self {
        let room = self.room();
        self.clip(text, room, style)
    }

    /// Draws in at most `cells`; cut text ends with an ellipsis. Advances by what was drawn.
    pub fn clip(&mut self, text: impl Drawable, cells: u16, style: Style) -> &mut Self {
        self.cut(text.text(), cells, style)
    }

    /// Draws the whole text or, where it does not fit in `cells`, nothing: for what says nothing once it
    /// is cut. Advances by what was drawn.
    pub fn whole(&mut self, text: impl Drawable, cells: u16, style: Style) -> &mut Self {
        if width(&text) <= cells.min(self.room()) { self.clip(text, cells, style) } else { self }
    }

    /// [`Pen::put`] for text that the caller has made safe.
    pub fn write(&mut self, text: &str, style: Style) -> &mut Self {
        self.cut(text, u16::MAX, style)
    }

    /// [`Pen::clip`] for text that the caller has made safe.
    pub fn cut(&mut self, text: &str, cells: u16, style: Style) -> &mut Self {
        let cells = cells.min(self.room());
        if cells == 0 {
            return self;
        }
        let whole = fit(text, cells) == text.len();
        let (x, _) = if whole {
            self.buf.set_stringn(self.x, self.y, text, usize::from(cells), style)
        } else {
            let upto = fit(text, cells - 1);
            let (x, y) =
                self.buf.set_stringn(self.x, self.y, &text[..upto], usize::from(cells), style);
            self.buf.set_stringn(x, y, self.ellipsis, 1, style)
        };
        self.x = x;
        self
    }

    /// Draws in exactly `cells`, padded with blanks at the right.
    pub fn left(&mut self, text: impl Drawable, cells: u16, style: Style) -> &mut Self {
        let start = self.x;
        self.clip(text, cells, style);
        self.x = start.saturating_add(cells);
        self
    }

    /// Draws in exactly `cells`; text that is too long loses its middle, so that names with the
    /// same beginning or the same end can still be told apart.
    pub fn middle(&mut self, text: impl Drawable, cells: u16, style: Style) -> &mut Self {
        let start = self.x;
        let cells = cells.min(self.room());
        let whole = text.text();
        if cells < 6 || fit(whole, cells) == whole.len() {
            self.clip(text, cells, style);
        } else {
            let head = fit(whole, (cells - 1) / 2);
            // The room of a wide character that did not fit goes to the end.
            let used = whole[..head].width() as u16;
            let tail = fit_end(whole, cells - 1 - used);
            let put = |buf: &mut Buffer, x: u16, y: u16, part: &str| {
                buf.set_stringn(x, y, part, usize::from(cells), style).0
            };
            let mut x = put(self.buf, self.x, self.y, &whole[..head]);
            x = put(self.buf, x, self.y, self.ellipsis);
            put(self.buf, x, self.y, &whole[tail..]);
        }
        self.x = start.saturating_add(cells);
        self
    }

    /// [`Pen::middle`], with parts of the text (byte ranges in order) in another style.
    pub fn found(
        &mut self,
        text: impl Drawable,
        parts: &[std::ops::Range<usize>],
        cells: u16,
        style: Style,
        mark: Style,
    ) -> &mut Self {
        let (start, whole) = (self.x, text.text());
        let cells = cells.min(self.room());
        self.middle(InkSlice::new(&text, 0, usize::MAX), cells, style);
        let all = whole.width() as u16;
        // Text without its middle keeps its beginning at the left and its end at the right.
        let head = if all > cells { cells.saturating_sub(1) / 2 } else { all };
        for part in parts {
            let from = whole[..part.start].width() as u16;
            let wide = whole[part.clone()].width() as u16;
            let shift = all.saturating_sub(cells);
            let at = match from {
                _ if from + wide <= head => from,
                _ if from > shift + head => from - shift,
                _ => continue,
            };
            self.buf.set_style(Rect::new(start + at, self.y, wide, 1), mark);
        }
        self
    }

    /// Draws in exactly `cells`, padded with blanks at the left.
    pub fn right(&mut self, text: impl Drawable, cells: u16, style: Style) -> &mut Self {
        let start = self.x;
        let blank = cells.saturating_sub(width(&text));
        self.x = start.saturating_add(blank);
        self.clip(text, cells - blank, style);
        self.x = start.saturating_add(cells);
        self
    }

    /// Draws at the right end of the row.
    pub fn flush_right(&mut self, text: impl Drawable, style: Style) -> &mut Self {
        let start = self.area.right().saturating_sub(width(&text)).max(self.x);
        self.x = start;
        self.put(text, style)
    }

    /// Styles the whole row without touching its text.
    pub fn row_style(&mut self, style: Style) -> &mut Self {
        if self.y < self.area.bottom() {
            self.buf.set_style(Rect { y: self.y, height: 1, ..self.area }, style);
        }
        self
    }

    /// Blanks the next cells in a style of their own: what is drawn there takes nothing of what was
    /// there before. The pen stays where it is.
    pub fn fresh(&mut self, cells: u16, style: Style) -> &mut Self {
        for x in self.x..self.x + cells.min(self.room()) {
            self.buf[(x, self.y)].reset();
            self.buf[(x, self.y)].set_style(style);
        }
        self
    }

    /// Repeats a sign to the end of the row.
    pub fn rule(&mut self, sign: &'static str, style: Style) -> &mut Self {
        let room = self.room();
        for _ in 0..room {
            self.buf.set_stringn(self.x, self.y, sign, 1, style);
            self.x += 1;
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::text::SafeText;

    fn drawn(cells: u16, paint: impl Fn(&mut Pen<'_>)) -> String {
        let area = Rect::new(0, 0, cells, 1);
        let mut buf = Buffer::empty(area);
        paint(&mut Pen::new(&mut buf, area));
        (0..cells).map(|x| buf[(x, 0)].symbol().to_owned()).collect()
    }

    #[test]
    fn what_does_not_fit_ends_with_an_ellipsis_and_numbers_align_right() {
        assert_eq!(drawn(5, |p| _ = p.put("abcdefg", Style::new())), "abcd…");
        assert_eq!(
            drawn(6, |p| _ = p.right("42", 5, Style::new()).put("|", Style::new())),
            "   42|"
        );
        assert_eq!(
            drawn(6, |p| _ = p.left("ab", 4, Style::new()).put("|", Style::new())),
            "ab  | "
        );
    }

    #[test]
    fn names_that_begin_or_end_alike_can_be_distinguished_when_cut() {
        let cut = |name: &str, cells: u16| {
            let name = SafeText::line(name);
            drawn(cells, |p| _ = p.middle(&name, cells, Style::new()))
        };
        assert_eq!(cut("resource/static/one", 11), "resou…c/one");
        assert_eq!(cut("resource/static/two", 11), "resou…c/two");
        assert_eq!(cut("日本語日本語", 7).trim_end(), "日 …本 語");
        assert_eq!(cut("short", 11), "short      ");
        assert_eq!(cut("abcdefg", 3), "ab…");
    }

    #[test]
    fn what_was_found_is_marked_on_both_sides_of_a_cut() {
        let (area, mark) = (Rect::new(0, 0, 11, 1), Style::new().bold());
        let marked = |name: &str, part: std::ops::Range<usize>| {
            let mut buf = Buffer::empty(area);
            let name = SafeText::line(name);
            Pen::new(&mut buf, area).found(&name, &[part], 11, Style::new(), mark);
            let bold = |x: &u16| buf[(*x, 0)].modifier.contains(mark.add_modifier);
            (0..11).filter(bold).map(|x| buf[(x, 0)].symbol().to_owned()).collect::<String>()
        };
        assert_eq!(marked("short", 1..3), "ho");
        assert_eq!(marked("resource/static/one", 0..3), "res");
        assert_eq!(marked("resource/static/one", 16..19), "one");
        assert_eq!(marked("resource/static/one", 9..15), "");
    }

    #[test]
    fn wide_characters_are_never_cut_in_half() {
        let text = SafeText::line("日本語");
        assert_eq!(drawn(4, |p| _ = p.put(&text, Style::new())).trim_end(), "日 …");
    }

    #[test]
    fn drawing_outside_of_the_region_draws_nothing() {
        let area = Rect::new(0, 0, 4, 1);
        let mut buf = Buffer::empty(area);
        Pen::new(&mut buf, Rect::new(2, 5, 9, 9)).at(3, 3).put("xx", Style::new());
        Pen::new(&mut buf, Rect::new(0, 0, 0, 0)).put("xx", Style::new()).rule("-", Style::new());
        assert_eq!(buf, Buffer::empty(area));
    }
}
