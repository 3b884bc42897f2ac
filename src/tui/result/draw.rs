//! Draws the visible rows of a result, and only those.

use crate::filter::contains;
use crate::form::draw::{Styles, put};
use crate::prelude::*;
use crate::result::content::{Block, BlockKind, MAX_INDENTED_BYTES, indented, pretty};
use crate::result::image::{Picture, PictureDone, PictureJob};
use crate::result::markdown;
use crate::result::rows::{SharedText, WrappedRows, find};
use crate::result::tree::{TreeKey, TreeRow, children};
use crate::result::view::{ResultTab, ResultView};
use crate::widget::{Pen, json_line};
use terminal::graphics::{Graphics, Placement};

/// A partly visible block.
pub(super) struct SeenBlock {
    /// Which block.
    pub index: usize,
    /// The row of its title, if visible.
    pub title: Option<u16>,
    /// Rows of its body above the first visible one.
    pub skip: usize,
    /// Where its body begins, down to the end of the region.
    pub area: Rect,
}

/// The region below the row of tabs.
pub(super) fn body(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

impl ResultView {
    /// Draws the tab in `area`; the first row names the tabs.
    pub fn render(&self, look: &Styles, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.height == 0 || area.width == 0 {
            return;
        }
        self.draw_tabs(look, area, buf);
        let body = body(area);
        match self.tab {
            ResultTab::Content => self.draw_content(look, body, buf),
            ResultTab::Compare => {
                if let Some(comparison) = &self.comparison {
                    comparison.draw((self.scroll, self.column), look, body, buf);
                }
            }
            ResultTab::Raw | ResultTab::Structured => self.draw_tree(look, body, buf),
        }
    }

    fn draw_tabs(&self, look: &Styles, area: Rect, buf: &mut Buffer) {
        let mut pen = Pen::new(buf, area);
        for (tab, name) in self.tabs() {
            pen.write(name, if tab == self.tab { look.accent } else { look.muted });
            for (mark, style) in self.marks(tab, look) {
                pen.write(&mark, style);
            }
            pen.write("  ", look.muted);
        }
        if let Some(cut) = self.result.cut() {
            let text = format!("{}shown: {cut}; saving writes all", look.sign("⚠ ", "! "));
            pen.write(&SafeText::line(&text), look.warning);
        }
        if self.tab == ResultTab::Content && !self.plain && self.is_too_large {
            let most = Bytes(MAX_INDENTED_BYTES as u64);
            pen.write(&format!("JSON above {most} is not indented"), look.faint);
        }
        // The promised structured content is missing, so there is no tab on which to report it.
        if let (None, Some(violation)) = (&self.structured, self.violations.first()) {
            let text = format!("{}{}", look.sign("⚠ ", "! "), violation.message);
            pen.write(&SafeText::line(&text), look.error);
        }
    }

    /// Marks beside the name of a tab: whether the text matches the structured content, and whether
    /// that conforms to its schema, if it has one.
    pub(super) fn marks(&self, tab: ResultTab, look: &Styles) -> Vec<(String, Style)> {
        if tab != ResultTab::Structured {
            return Vec::new();
        }
        let otherwise = if self.mismatch { look.sign(" ≠ text", " != text") } else { "" };
        let unknown = self.violations.iter().filter(|v| v.keyword == "unknown").count();
        let fits = match (self.violations.len() - unknown, unknown) {
            (0, 0) if !self.is_checked => return vec![(otherwise.to_owned(), look.warning)],
            (0, 0) => (look.sign(" ✓", " ok").to_owned(), look.ok),
            (0, _) => (" not fully checked".to_owned(), look.warning),
            (n, _) => (format!("{}{n} against the schema", look.sign(" ⚠ ", " ! ")), look.error),
        };
        vec![(otherwise.to_owned(), look.warning), fits]
    }

    /// Number of lines above the tree of structured content, within `height` rows.
    pub(super) fn notes(&self, height: u16) -> usize {
        let (mismatch, violations) = self.notices(usize::from(height));
        usize::from(mismatch) + violations
    }

    /// The blocks visible in `area`, from the top.
    pub(super) fn seen(&self, area: Rect) -> Vec<SeenBlock> {
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
            found.push(SeenBlock { index, title, skip, area: Rect { y, height, ..area } });
            let body = rows - usize::from(titled);
            y += (body - skip).min(usize::from(height)) as u16;
            above = 0;
        }
        found
    }

    fn draw_content(&self, look: &Styles, area: Rect, buf: &mut Buffer) {
        for SeenBlock { index, title, skip, area } in self.seen(area) {
            if let (Some(y), Some(block)) = (title, self.blocks.get(index)) {
                let chosen = index == self.block && self.blocks.len() > 1;
                let style = if chosen { look.accent } else { look.muted };
                let mut pen = Pen::new(buf, Rect { y, height: 1, ..area });
                pen.write(look.sign("── ", "-- "), look.rule).write(&block.title, style);
            }
            self.draw_block(index, skip, area, look, buf);
        }
    }

    fn draw_block(&self, index: usize, skip: usize, area: Rect, look: &Styles, buf: &mut Buffer) {
        let height = usize::from(area.height);
        let Some(block) = self.blocks.get(index) else { return };
        let mut pen = Pen::new(buf, area);
        match (self.laid.get(index), &block.kind) {
            (Some(Laid::Rows { rows, text, is_json }), _) => {
                let text = text.as_str();
                for (y, row) in (0..).zip(rows.slice(text, skip..skip + height)) {
                    pen.at(0, y);
                    let mut left = self.column;
                    let parts =
                        if *is_json { json_row(text, row) } else { vec![(row, Role::Text)] };
                    for (part, role) in parts {
                        let style = if role == Role::Text { look.text } else { look.json(role) };
                        let chars = part.chars().count();
                        let shown = part.chars().skip(left).take(usize::from(area.width) + 8);
                        pen.write(&SafeText::line(&shown.collect::<String>()), style);
                        left = left.saturating_sub(chars);
                    }
                }
            }
            (Some(Laid::Lines(lines)), _) => {
                for (y, line) in (0..).zip(lines.iter().skip(skip).take(height)) {
                    pen.at(0, y);
                    for (text, style) in line {
                        pen.write(text, *style);
                    }
                }
            }
            (Some(Laid::Picture(rows)), BlockKind::Picture(picture, _)) => {
                if !picture.is_decoded() {
                    pen.write("decoding", look.faint);
                }
                let left = rows.saturating_sub(skip as u16).min(area.height);
                let place = Rect { height: left, ..area };
                picture.draw(self.picture_region(), skip as u16, look.graphics, place, buf);
            }
            (Some(Laid::Binary(about, rows, hidden)), _) => {
                let Some(binary) = block.binary() else { return };
                let last = 1 + rows + usize::from(*hidden > 0);
                for (y, line) in (0..).zip((skip..last).take(height)) {
                    pen.at(0, y);
                    if line == 0 {
                        pen.write(about, look.foreign);
                    } else if line <= *rows {
                        // ASCII letters and digits only, so it is safe as it is.
                        pen.write(&binary.row(line - 1), look.muted);
                    } else {
                        let more = count(*hidden, "more row");
                        pen.write(&format!("… {more}"), look.faint);
                    }
                }
            }
            _ => {}
        }
    }

    fn draw_tree(&self, look: &Styles, area: Rect, buf: &mut Buffer) {
        let Some((tree, value)) = self.tree() else { return };
        let mut area = area;
        let (mismatch, violations) = self.notices(usize::from(area.height));
        let mut notice = |buf: &mut Buffer, text: &str, style: Style| {
            put(buf, area.x, area.y, area.width, text, style);
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        };
        if mismatch {
            let text = "the text of this result differs from its structured content";
            notice(buf, text, look.warning);
        }
        for violation in self.violations.iter().take(violations) {
            let text = SafeText::line(&format!("{}  {}", violation.pointer, violation.message));
            let style = if violation.keyword == "unknown" { look.warning } else { look.error };
            notice(buf, &text, style);
        }
        let rows = tree.rows(value, self.numbers(), self.scroll, usize::from(area.height));
        for (i, row) in rows.iter().enumerate() {
            let here = self.scroll + i == tree.cursor;
            draw_tree_row(row, here, look, Rect { y: area.y + i as u16, height: 1, ..area }, buf);
        }
    }

    /// Brings the layout up to date with the region; cheap if nothing changed.
    pub fn prepare(&mut self, area: Rect, look: &Styles) {
        let height = area.height.saturating_sub(1);
        let pictures = height != self.height
            && self.blocks.iter().any(|block| matches!(block.kind, BlockKind::Picture(..)));
        self.height = height;
        if self.stale || pictures || area.width != self.width || *look != self.look {
            self.width = area.width;
            self.look = look.clone();
            self.stale = false;
            self.laid = (0..self.blocks.len()).map(|index| self.lay(index)).collect();
        }
        self.lay_comparison();
    }

    /// The region a picture is fitted to, so that it is visible together with its title.
    pub(super) fn picture_region(&self) -> (u16, u16) {
        (self.width, self.height.saturating_sub(1).clamp(3, MAX_PICTURE_ROWS))
    }

    pub(super) fn lay_again(&mut self, index: usize) {
        if index < self.laid.len() {
            self.laid[index] = self.lay(index);
        }
    }

    fn lay(&self, index: usize) -> Laid {
        let (block, look) = (&self.blocks[index], &self.look);
        match &block.kind {
            BlockKind::Text(text) => self.lay_text(index, text),
            BlockKind::Picture(..) if self.expanded.contains(&index) => self.lay_binary(index),
            BlockKind::Picture(picture, binary) => match look.graphics {
                Graphics::Off(reason) => {
                    let text = format!("not drawn: {reason} · {}", binary.facts());
                    Laid::Lines(vec![vec![(SafeText::line(&text), look.muted)]])
                }
                how => Laid::Picture(picture.rows(self.picture_region(), how)),
            },
            BlockKind::Data { .. } => self.lay_binary(index),
            BlockKind::Link { uri, about } => Laid::Lines(vec![
                vec![(SafeText::line(uri), look.accent)],
                vec![(about.clone(), look.foreign)],
            ]),
            BlockKind::Unknown { reason } => self.lay_unknown(block, reason),
        }
    }

    fn lay_text(&self, index: usize, text: &SharedText) -> Laid {
        let raw = text.as_str();
        // Another width changes only where its rows break.
        if let Some(Laid::Rows { text, is_json: true, .. }) = self.laid.get(index)
            && !self.plain
        {
            return self.lay_rows(text.clone(), true);
        }
        if !self.plain && raw.len() <= markdown::MAX_MARKDOWN_BYTES && markdown::looks_like(raw) {
            return Laid::Lines(markdown::lines(raw, self.width, &self.look));
        }
        let shown = if self.plain { None } else { indented(raw) };
        let is_json = shown.is_some();
        let shown = shown.filter(|_| !raw.trim().contains('\n'));
        self.lay_rows(shown.map_or_else(|| text.clone(), SharedText::from_text), is_json)
    }

    fn lay_rows(&self, text: SharedText, is_json: bool) -> Laid {
        let room = usize::from(self.width.max(10));
        let most = if self.wrap { room } else { WrappedRows::MAX_ROW_COLUMNS };
        Laid::Rows { rows: WrappedRows::new(text.as_str(), most), text, is_json }
    }

    fn lay_binary(&self, index: usize) -> Laid {
        let block = &self.blocks[index];
        let Some(binary) = block.binary() else { return Laid::Lines(Vec::new()) };
        let about = match &block.kind {
            BlockKind::Data { about, .. } => about.clone(),
            _ => SafeText::line(&binary.facts()),
        };
        let all = binary.rows();
        let shown = if self.expanded.contains(&index) { all } else { all.min(MAX_HEX_ROWS) };
        Laid::Binary(about, shown, all - shown)
    }

    fn lay_unknown(&self, block: &Block, reason: &SafeText) -> Laid {
        let (text, cut) = pretty(&self.result.part(&block.pointer), 64 << 10);
        let more = if cut { "\n… the rest is in the raw view" } else { "" };
        self.lay_rows(SharedText::from_text(format!("{reason}\n{text}{more}")), false)
    }

    /// A job for another thread on a visible picture; its outcome goes to
    /// [`ResultView::picture_done`]. `None` while such a job is running.
    pub fn picture_job(&mut self) -> Option<PictureJob> {
        if self.drawing || self.tab != ResultTab::Content || self.laid.is_empty() {
            return None;
        }
        let region = self.picture_region();
        let area = Rect { x: 0, y: 0, width: self.width, height: self.height };
        let job = |seen: SeenBlock| {
            let (picture, rows) = self.seen_picture(&seen)?;
            let window = (seen.skip as u16, rows);
            picture.job(seen.index, region, window, (self.look.graphics, self.limits))
        };
        let found = self.seen(area).into_iter().find_map(job);
        self.drawing = found.is_some();
        found
    }

    /// Takes the outcome of a job.
    pub fn picture_done(&mut self, done: PictureDone) {
        self.drawing = false;
        let index = done.block;
        let Some(block) = self.blocks.get_mut(index) else { return };
        let BlockKind::Picture(picture, _) = &mut block.kind else { return };
        let known = picture.size.is_some();
        match picture.take(done) {
            Ok(()) => {
                if let Some((w, h)) = picture.size.filter(|_| !known) {
                    let title = format!("{} · {w} x {h}", block.title);
                    block.title = SafeText::line(&title);
                }
            }
            Err(reason) => block.undrawable(&reason),
        }
        self.lay_again(index);
        self.forget_pictures(index);
    }

    /// Frees the decoded pictures that are farthest away.
    fn forget_pictures(&mut self, near: usize) {
        let decoded = |(index, block): (usize, &mut Block)| match &block.kind {
            BlockKind::Picture(picture, _) if picture.is_decoded() => Some(index),
            _ => None,
        };
        let mut all: Vec<usize> = self.blocks.iter_mut().enumerate().filter_map(decoded).collect();
        all.sort_by_key(|index| index.abs_diff(near));
        for index in all.into_iter().skip(MAX_DECODED_PICTURES) {
            if let BlockKind::Picture(picture, _) = &mut self.blocks[index].kind {
                picture.forget();
            }
        }
    }

    /// The pictures drawn in pixels when the result is drawn in `area`.
    pub fn placements(&self, look: &Styles, area: Rect) -> Vec<Placement> {
        if self.tab != ResultTab::Content || area.height == 0 {
            return Vec::new();
        }
        let place = |seen: SeenBlock| {
            let (picture, rows) = self.seen_picture(&seen)?;
            let area = Rect { height: rows, ..seen.area };
            picture.placement(self.picture_region(), seen.skip as u16, look.graphics, area)
        };
        self.seen(body(area)).into_iter().filter_map(place).collect()
    }

    /// The picture of a visible block, and how many of its rows are visible.
    fn seen_picture(&self, seen: &SeenBlock) -> Option<(&Picture, u16)> {
        let Some(Laid::Picture(rows)) = self.laid.get(seen.index) else { return None };
        let BlockKind::Picture(picture, _) = &self.blocks.get(seen.index)?.kind else {
            return None;
        };
        Some((picture, rows.saturating_sub(seen.skip as u16).min(seen.area.height)))
    }
}

/// Longest key of a row of a tree, in characters; the end of a longer one is left out.
const MAX_KEY_CHARS: usize = 200;
/// Longest text or number of a row of a tree, in characters.
pub(super) const MAX_VALUE_CHARS: usize = 400;

/// Draws one row of a JSON tree.
pub fn draw_tree_row(row: &TreeRow<'_>, here: bool, look: &Styles, area: Rect, buf: &mut Buffer) {
    let mut pen = Pen::new(buf, area);
    if here {
        pen.row_style(look.selection);
    }
    let over = |style: Style| if here { look.selection } else { style };
    let sign = match row.open {
        Some(true) => look.sign("▾ ", "v "),
        Some(false) => look.sign("▸ ", "> "),
        None => "  ",
    };
    pen.column((row.depth as u16 * 2).min(area.width / 2)).write(sign, over(look.muted));
    if let Some(key) = &row.key {
        let (key, style) = match key {
            TreeKey::Name(name) => (SafeText::cut(name, MAX_KEY_CHARS), look.json_key),
            TreeKey::Index(index) => (SafeText::line(&index.to_string()), look.muted),
        };
        pen.write(&key, over(style)).write(": ", over(look.muted));
    }
    let children = children(row.value);
    // Safe to draw: our own words, and texts that are made safe.
    let (text, style) = match row.value {
        Value::String(text) => {
            (format!("\"{}\"", SafeText::cut(text, MAX_VALUE_CHARS)), look.json_string)
        }
        Value::Number(number) => {
            let cut = |text: &str| SafeText::cut(text, MAX_VALUE_CHARS).to_string();
            (row.written.map_or_else(|| number.to_string(), cut), look.json_number)
        }
        Value::Bool(_) | Value::Null => (row.value.to_string(), look.json_literal),
        Value::Array(_) if children == 0 => ("[]".to_owned(), look.muted),
        Value::Object(_) if children == 0 => ("{}".to_owned(), look.muted),
        Value::Array(_) => (format!("[ {children} ]"), look.muted),
        Value::Object(_) => (format!("{{ {children} }}"), look.muted),
    };
    pen.write(&text, over(style));
}

// Lays out the blocks of a result as rows for a width. Long texts are only measured, never copied;
// their visible rows are found again when drawn.

/// A block as rows.
pub(super) enum Laid {
    /// Long text, and whether it is JSON.
    Rows { rows: WrappedRows, text: SharedText, is_json: bool },
    /// Styled lines.
    Lines(Vec<Vec<markdown::MarkdownSpan>>),
    /// A picture with this many rows.
    Picture(u16),
    /// Facts, the number of rows of hexadecimal, and the number of rows that are not shown.
    Binary(SafeText, usize, usize),
}

const MAX_PICTURE_ROWS: u16 = 24;
/// Rows of hexadecimal shown of a block that is not expanded.
const MAX_HEX_ROWS: usize = 4;

impl Laid {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Rows { rows, .. } => rows.len(),
            Self::Lines(lines) => lines.len(),
            Self::Picture(rows) => usize::from(*rows),
            Self::Binary(_, rows, hidden) => 1 + rows + usize::from(*hidden > 0),
        }
    }

    /// The first row from `from` on that contains `needle`, and the characters before it there
    /// where rows are scrolled sideways.
    pub(super) fn find(&self, needle: &str, from: usize) -> Option<(usize, usize)> {
        match self {
            Self::Rows { rows, text, .. } => {
                let text = text.as_str();
                let begin = |row: usize| {
                    let row = *rows.slice(text, row..row + 1).first()?;
                    Some(row.as_ptr() as usize - text.as_ptr() as usize)
                };
                let offset = find(text, needle, begin(from)?)?;
                let row = rows.row_of(text, offset);
                let before = text.get(begin(row)?..offset)?.chars().count();
                (row >= from).then_some((row, before))
            }
            Self::Lines(lines) => {
                let needle = needle.to_ascii_lowercase();
                let holds = |line: &Vec<markdown::MarkdownSpan>| {
                    let text: String = line.iter().map(|(text, _)| text.as_str()).collect();
                    contains(&text, &needle)
                };
                let mut later = (from..).zip(lines.get(from..)?);
                later.find_map(|(row, line)| holds(line).then_some((row, 0)))
            }
            Self::Picture(_) | Self::Binary(..) => None,
        }
    }
}

/// Most text around a row that is read to tell what its parts are.
const MAX_JSON_LINE_BYTES: usize = 8 << 10;

/// The parts of a row of JSON text with their roles. A row that goes on with a long line is told by
/// the beginning of that; one that is too far from it has no roles.
fn json_row<'a>(text: &'a str, row: &'a str) -> Vec<(&'a str, Role)> {
    let from = row.as_ptr() as usize - text.as_ptr() as usize;
    let to = from + row.len();
    let mut back = from.saturating_sub(MAX_JSON_LINE_BYTES)..from;
    let near = back.find(|at| text.is_char_boundary(*at)).unwrap_or(from);
    let line = match text[near..from].rfind('\n') {
        Some(at) => near + at + 1,
        None if near == 0 => 0,
        None => return vec![(row, Role::Text)],
    };
    // What follows tells a name from a value.
    let rest = base::text::cut(&text[to..], MAX_JSON_LINE_BYTES);
    let end = to + rest.find('\n').unwrap_or(rest.len());
    let mut at = line;
    let mut parts = Vec::new();
    for (part, role) in json_line(&text[line..end]) {
        let seen = (at.max(from)..(at + part.len()).min(to), role);
        at += part.len();
        if !seen.0.is_empty() {
            parts.push((&text[seen.0], seen.1));
        }
    }
    parts
}

// Which pictures of a result are processed: only visible ones, one at a time, and a limited number
// kept in memory. The work itself runs elsewhere.

/// Most pictures of one result that are kept decoded.
const MAX_DECODED_PICTURES: usize = 8;
