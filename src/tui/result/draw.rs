//! Drawing of a result: the rows that are visible, and no others.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::content::BlockKind;
use super::lay::Laid;
use super::tree::{Key, TreeRow, children};
use super::view::{ResultView, Tab};
use crate::base::text::SafeText;
use crate::tui::form::draw::{Look, put};
use serde_json::Value;

/// A block of which something is seen.
pub(super) struct Seen {
    /// Which block.
    pub index: usize,
    /// The row its title stands in, when that is seen.
    pub title: Option<u16>,
    /// Rows of its body above the first that is seen.
    pub skip: usize,
    /// Where its body begins, down to the end of the region.
    pub area: Rect,
}

/// What is below the row of tabs.
pub(super) fn body(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

impl ResultView {
    /// Draws the tab in `area`; the first row names the tabs.
    pub fn render(&self, look: &Look, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.height == 0 || area.width == 0 {
            return;
        }
        self.draw_tabs(look, area, buf);
        let body = body(area);
        match self.tab {
            Tab::Content => self.draw_content(look, body, buf),
            Tab::Compare => self.draw_compare(look, body, buf),
            Tab::Raw | Tab::Structured => self.draw_tree(look, body, buf),
        }
    }

    fn draw_tabs(&self, look: &Look, area: Rect, buf: &mut Buffer) {
        let mut x = area.x;
        for (tab, name) in self.tabs() {
            let style = if tab == self.tab { look.accent } else { look.muted };
            x = put(buf, x, area.y, area.right().saturating_sub(x), name, style);
            if tab == Tab::Structured {
                let fits = match self.judged() {
                    (0, 0) => look.ok,
                    (0, _) => look.warning,
                    _ => look.error,
                };
                for (mark, style) in self.structured_marks().iter().zip([look.warning, fits]) {
                    x = put(buf, x, area.y, area.right().saturating_sub(x), mark, style);
                }
            }
            x = put(buf, x, area.y, area.right().saturating_sub(x), "  ", look.muted);
        }
        if let Some(cut) = self.result.cut() {
            let text = format!("{}shown: {cut}; saving writes all", look.sign("⚠ ", "! "));
            let text = SafeText::line(&text);
            x = put(buf, x, area.y, area.right().saturating_sub(x), &text, look.warning);
        }
        // Nothing structured came, although the tool promises it: there is no tab to say so.
        if let (None, Some(violation)) = (&self.structured, self.violations.first()) {
            let text = format!("{}{}", look.sign("⚠ ", "! "), violation.message);
            put(buf, x, area.y, area.right().saturating_sub(x), &SafeText::line(&text), look.error);
        }
    }

    /// What is said behind the name of the structured tab: that the text says otherwise, and
    /// whether it fits its schema.
    pub(super) fn structured_marks(&self) -> [String; 2] {
        let look = &self.look;
        let otherwise = if self.mismatch { look.sign(" ≠ text", " != text") } else { "" };
        let fits = match self.judged() {
            (0, 0) => look.sign(" ✓", " ok").to_owned(),
            (0, _) => " not checked whole".to_owned(),
            (n, _) => format!("{}{n} against the schema", look.sign(" ⚠ ", " ! ")),
        };
        [otherwise.to_owned(), fits]
    }

    /// How many violations there are, and how many remarks that something was not checked.
    fn judged(&self) -> (usize, usize) {
        let unknown = self.violations.iter().filter(|v| v.keyword == "unknown").count();
        (self.violations.len() - unknown, unknown)
    }

    /// Lines above the tree of structured content, in so many rows.
    pub(super) fn notes(&self, height: u16) -> usize {
        let (mismatch, violations) = self.notices(usize::from(height));
        usize::from(mismatch) + violations
    }

    /// The blocks of which something is seen in `area`, from the top.
    pub(super) fn seen(&self, area: Rect) -> Vec<Seen> {
        let mut found = Vec::new();
        let mut above = self.scroll;
        let mut y = area.y;
        for index in 0..self.blocks.len() {
            let rows = self.block_rows(index);
            if above >= rows {
                above -= rows;
                continue;
            }
            if y >= area.bottom() {
                break;
            }
            let titled = self.has_title(index);
            let title = (titled && above == 0).then_some(y);
            let skip = above.saturating_sub(usize::from(titled));
            y += u16::from(title.is_some());
            let height = area.bottom().saturating_sub(y);
            found.push(Seen { index, title, skip, area: Rect { y, height, ..area } });
            let body = rows - usize::from(titled);
            y += (body - skip).min(usize::from(height)) as u16;
            above = 0;
        }
        found
    }

    fn draw_content(&self, look: &Look, area: Rect, buf: &mut Buffer) {
        for Seen { index, title, skip, area } in self.seen(area) {
            if let (Some(y), Some(block)) = (title, self.blocks.get(index)) {
                let chosen = index == self.block && self.blocks.len() > 1;
                let style = if chosen { look.accent } else { look.muted };
                let rule = look.sign("── ", "-- ");
                let x = put(buf, area.x, y, area.width, rule, look.rule);
                put(buf, x, y, area.right().saturating_sub(x), &block.title, style);
            }
            self.draw_block(index, skip, area, look, buf);
        }
    }

    fn draw_block(
        &self,
        index: usize,
        skip: usize,
        area: Rect,
        look: &Look,
        buf: &mut Buffer,
    ) -> u16 {
        let height = usize::from(area.height);
        match (self.laid.get(index), self.blocks.get(index).map(|b| &b.kind)) {
            (Some(Laid::Rows(rows, text)), _) => {
                let slices = rows.slice(text.as_str(), skip..skip + height);
                for (i, row) in slices.iter().enumerate() {
                    let shifted: String =
                        row.chars().skip(self.column).take(usize::from(area.width) + 8).collect();
                    put(
                        buf,
                        area.x,
                        area.y + i as u16,
                        area.width,
                        &SafeText::line(&shifted),
                        look.text,
                    );
                }
                area.y + slices.len() as u16
            }
            (Some(Laid::Lines(lines)), _) => {
                let shown = lines.iter().skip(skip).take(height);
                let mut y = area.y;
                for line in shown {
                    let mut x = area.x;
                    for (text, style) in line {
                        x = put(buf, x, y, area.right().saturating_sub(x), text, *style);
                    }
                    y += 1;
                }
                y
            }
            (Some(Laid::Picture(rows)), Some(BlockKind::Picture(picture, _))) => {
                let left = rows.saturating_sub(skip as u16).min(area.height);
                if !picture.is_decoded() {
                    put(buf, area.x, area.y, area.width, "decoding", look.faint);
                }
                let place = Rect { height: left, ..area };
                picture.draw(self.picture_region(), skip as u16, look.graphics, place, buf);
                area.y + left
            }
            (Some(Laid::Binary(facts, rows, hidden)), _) => {
                self.draw_binary(index, (facts, *rows, *hidden), skip, area, look, buf)
            }
            _ => area.y,
        }
    }

    fn draw_binary(
        &self,
        index: usize,
        (facts, rows, hidden): (&[super::markdown::Span], usize, usize),
        skip: usize,
        area: Rect,
        look: &Look,
        buf: &mut Buffer,
    ) -> u16 {
        let Some(binary) = self.blocks.get(index).and_then(super::content::Block::binary) else {
            return area.y;
        };
        let last = 1 + rows + usize::from(hidden > 0);
        let mut y = area.y;
        for line in (skip..last).take(usize::from(area.height)) {
            if line == 0 {
                let mut x = area.x;
                for (text, style) in facts {
                    x = put(buf, x, y, area.right().saturating_sub(x), text, *style);
                }
                put(
                    buf,
                    x,
                    y,
                    area.right().saturating_sub(x),
                    "   w writes it to a file",
                    look.faint,
                );
            } else if line <= rows {
                // Letters of ASCII and nothing else: safe as it is.
                put(buf, area.x, y, area.width, &binary.row(line - 1), look.muted);
            } else {
                let text = format!("… {hidden} rows more, x shows them");
                put(buf, area.x, y, area.width, &text, look.faint);
            }
            y += 1;
        }
        y
    }

    fn draw_tree(&self, look: &Look, area: Rect, buf: &mut Buffer) {
        let Some((tree, value)) = self.tree() else { return };
        let mut area = area;
        let (mismatch, violations) = self.notices(usize::from(area.height));
        let mut notice = |buf: &mut Buffer, text: &str, style: Style| {
            put(buf, area.x, area.y, area.width, text, style);
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        };
        if mismatch {
            let text = "the text of this result says something else than its structured content";
            notice(buf, text, look.warning);
        }
        for violation in self.violations.iter().take(violations) {
            let text = SafeText::line(&format!("{}  {}", violation.pointer, violation.message));
            let style = if violation.keyword == "unknown" { look.warning } else { look.error };
            notice(buf, &text, style);
        }
        let rows = tree.rows(value, self.scroll, usize::from(area.height));
        for (i, row) in rows.iter().enumerate() {
            let here = self.scroll + i == tree.cursor;
            draw_tree_row(row, here, look, Rect { y: area.y + i as u16, height: 1, ..area }, buf);
        }
    }
}

/// Draws one row of a JSON tree.
pub fn draw_tree_row(row: &TreeRow<'_>, here: bool, look: &Look, area: Rect, buf: &mut Buffer) {
    if here {
        buf.set_style(area.intersection(buf.area), look.selection);
    }
    let over = |style: Style| if here { look.selection } else { style };
    let room = |x: u16| area.right().saturating_sub(x);
    let mut x = area.x + (row.depth as u16 * 2).min(area.width / 2);
    let sign = match row.open {
        Some(true) => look.sign("▾ ", "v "),
        Some(false) => look.sign("▸ ", "> "),
        None => "  ",
    };
    x = put(buf, x, area.y, room(x), sign, over(look.muted));
    let (key, style) = match &row.key {
        Some(Key::Name(name)) => (short(name, 200), look.json_key),
        Some(Key::Index(index)) => (index.to_string(), look.muted),
        None => (String::new(), look.muted),
    };
    if row.key.is_some() {
        x = put(buf, x, area.y, room(x), &SafeText::line(&key), over(style));
        x = put(buf, x, area.y, room(x), ": ", over(look.muted));
    }
    let children = children(row.value);
    let (text, style) = match row.value {
        Value::String(text) => (format!("\"{}\"", short(text, 400)), look.json_string),
        Value::Number(number) => (number.to_string(), look.json_number),
        Value::Bool(_) | Value::Null => (row.value.to_string(), look.json_literal),
        Value::Array(_) if children == 0 => ("[]".to_owned(), look.muted),
        Value::Object(_) if children == 0 => ("{}".to_owned(), look.muted),
        Value::Array(_) => (format!("[ {children} ]"), look.muted),
        Value::Object(_) => (format!("{{ {children} }}"), look.muted),
    };
    put(buf, x, area.y, room(x), &SafeText::line(&text), over(style));
}

fn short(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}
