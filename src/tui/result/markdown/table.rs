//! A table of Markdown: columns as wide as their cells, narrower ones where they do not fit.

use pulldown_cmark::Alignment;
use unicode_width::UnicodeWidthStr;

use super::MarkdownSpan;
use crate::widget::doc::wrap;
use base::text::SafeText;

/// Width below which no column is made narrower.
const MIN_CELL_COLUMNS: usize = 8;
/// Blanks between two columns.
const GAP_COLUMNS: usize = 2;

/// A table while it is read.
pub(super) struct MarkdownTable {
    alignments: Vec<Alignment>,
    /// The first one is the head.
    rows: Vec<Vec<Vec<MarkdownSpan>>>,
    row: Vec<Vec<MarkdownSpan>>,
    cell: Vec<MarkdownSpan>,
}

fn width_of(spans: &[MarkdownSpan]) -> usize {
    spans.iter().map(|(text, _)| text.width()).sum()
}

impl MarkdownTable {
    pub(super) const fn new(alignments: Vec<Alignment>) -> Self {
        Self { alignments, rows: Vec::new(), row: Vec::new(), cell: Vec::new() }
    }

    /// Adds text to the cell.
    pub(super) fn push(&mut self, span: MarkdownSpan) {
        self.cell.push(span);
    }

    pub(super) fn end_cell(&mut self) {
        self.row.push(std::mem::take(&mut self.cell));
    }

    pub(super) fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
    }

    /// The lines of the table in a region of `width` cells. Where not even narrow columns fit, each
    /// cell is a line behind its head.
    pub(super) fn lines(mut self, width: usize) -> Vec<Vec<MarkdownSpan>> {
        if self.rows.first().is_some_and(|head| head.iter().all(|cell| width_of(cell) == 0)) {
            self.rows.remove(0);
        }
        let count = self.alignments.len();
        let column = |at: usize| self.rows.iter().filter_map(move |row| row.get(at));
        let widths = (0..count).map(|at| column(at).map(|cell| width_of(cell)).max());
        let widths: Vec<usize> = widths.map(Option::unwrap_or_default).collect();
        let room = width.saturating_sub(GAP_COLUMNS * count);
        let fits =
            |most: &usize| widths.iter().map(|width| (*width).min(*most)).sum::<usize>() <= room;
        let Some(most) = (MIN_CELL_COLUMNS..=room.max(MIN_CELL_COLUMNS)).rev().find(fits) else {
            return self.records(width);
        };
        let mut out = Vec::new();
        for row in &self.rows {
            let cells =
                row.iter().zip(&widths).map(|(cell, width)| folded(cell, (*width).min(most)));
            let cells: Vec<_> = cells.collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or_default();
            out.extend((0..height).map(|n| self.line(&cells, &widths, (n, most))));
        }
        out
    }

    /// One line of a row.
    fn line(
        &self,
        cells: &[Vec<Vec<MarkdownSpan>>],
        widths: &[usize],
        (n, most): (usize, usize),
    ) -> Vec<MarkdownSpan> {
        let mut line = Vec::new();
        // Blanks before the next text: none stand at the end of a line.
        let mut blanks = GAP_COLUMNS;
        for ((cell, width), alignment) in cells.iter().zip(widths).zip(&self.alignments) {
            let spans = cell.get(n).map(Vec::as_slice).unwrap_or_default();
            let free = (*width).min(most).saturating_sub(width_of(spans));
            let before = match alignment {
                Alignment::None | Alignment::Left => 0,
                Alignment::Center => free / 2,
                Alignment::Right => free,
            };
            if let Some((_, style)) = spans.first() {
                line.push((SafeText::line(&" ".repeat(blanks + before)), *style));
                line.extend(spans.iter().cloned());
                blanks = free - before;
            } else {
                blanks += free;
            }
            blanks += GAP_COLUMNS;
        }
        line
    }

    /// Each cell as lines behind its head.
    fn records(&self, width: usize) -> Vec<Vec<MarkdownSpan>> {
        let mut out: Vec<Vec<MarkdownSpan>> = Vec::new();
        let head = self.rows.first().cloned().unwrap_or_default();
        for row in self.rows.iter().skip(1) {
            if !out.is_empty() {
                out.push(Vec::new());
            }
            for (name, cell) in head.iter().zip(row) {
                let mut spans = name.clone();
                if let Some((_, style)) = spans.last().cloned() {
                    spans.push((SafeText::line(": "), style));
                }
                spans.extend(cell.iter().cloned());
                out.extend(folded(&spans, width));
            }
        }
        out
    }
}

/// Text in lines of at most `width` cells.
fn folded(spans: &[MarkdownSpan], width: usize) -> Vec<Vec<MarkdownSpan>> {
    let width = width.max(1);
    let (mut out, mut line, mut used) = (Vec::new(), Vec::new(), 0);
    for (text, style) in spans {
        for word in text.split_inclusive(' ') {
            let wide = word.trim_end().width();
            if used + wide > width && used > 0 {
                out.push(std::mem::take(&mut line));
                used = 0;
            }
            let parts: Vec<SafeText> = if wide > width {
                wrap(word, width as u16).map(SafeText::line).collect()
            } else {
                vec![SafeText::line(word)]
            };
            for (n, part) in parts.into_iter().enumerate() {
                if n > 0 {
                    out.push(std::mem::take(&mut line));
                    used = 0;
                }
                let part = if used + part.width() > width {
                    SafeText::line(part.trim_end())
                } else {
                    part
                };
                used += part.width();
                line.push((part, *style));
            }
        }
    }
    if !line.is_empty() {
        out.push(line);
    }
    out
}
