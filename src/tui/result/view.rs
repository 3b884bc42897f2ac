//! The viewer of one result: tabs, scrolling, search, folds, copying and saving. Changes nothing
//! outside.

use std::collections::BTreeSet;

use unicode_width::UnicodeWidthStr;

use crate::call::run::Difference;
use crate::form::draw::Styles;
use crate::intent::Intent;
use crate::overlay::TextReader;
use crate::pane::{Availability, Out, when};
use crate::prelude::*;
use crate::result::compare::{CompareLayout, Comparison};
use crate::result::content::{self, Block, BlockKind, Blocks, blocks, pretty};
use crate::result::draw::{Laid, MAX_VALUE_CHARS};
use crate::result::rows::SharedText;
use crate::result::tree::Tree;
use crate::screen::{MAX_CLIPBOARD_BYTES, TOO_LARGE};
use crate::widget::{Doc, in_sight};
use base::text::json::WrittenNumbers;
use config::ContentLimits;
use config::error::Violation;
use protocol::Payload;

/// The views of a result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultTab {
    /// Its content, in readable form.
    Content,
    /// Its structured content, checked against the schema.
    Structured,
    /// As it was sent.
    #[default]
    Raw,
    /// Compared with an earlier one.
    Compare,
}

/// A viewer of one result.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "ways of looking, each on or off by itself")]
pub struct ResultView {
    pub(crate) result: Payload,
    pub(crate) blocks: Blocks,
    pub(super) laid: Vec<Laid>,
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) look: Styles,
    /// Limits for content from its server.
    pub(super) limits: ContentLimits,
    /// Whether the layout must be rebuilt, even for the same region.
    pub(super) stale: bool,
    /// Binary blocks shown with all their rows.
    pub(super) expanded: BTreeSet<usize>,
    /// Whether a picture is being processed elsewhere.
    pub(super) drawing: bool,
    /// Whether text and structured content differ.
    pub(super) mismatch: bool,
    pub(super) violations: Vec<Violation>,
    /// Whether its structured content was compared with a schema.
    pub(super) is_checked: bool,
    pub(crate) tab: ResultTab,
    pub(super) block: usize,
    pub(super) scroll: usize,
    pub(super) column: usize,
    pub(super) plain: bool,
    pub(super) wrap: bool,
    pub(super) beside: bool,
    raw: Tree,
    pub(super) structured: Option<Tree>,
    /// The numbers of the structured content that it spells otherwise than its server.
    structured_numbers: WrittenNumbers,
    pub(super) comparison: Option<Comparison>,
    pub(super) needle: String,
    /// Whether any of its texts is JSON that is too large to be indented.
    pub(super) is_too_large: bool,
    /// A file to write, with its proposed name.
    file: Option<(String, ResultFile)>,
}

impl ResultView {
    /// The beginning of its first text.
    pub fn first_text(&self) -> String {
        let text = self.result.pointer("/content/0/text").and_then(Value::as_str);
        base::text::cut(text.unwrap_or_default(), 2_000).to_owned()
    }

    /// A viewer of `result`; `violations` are those of its structured content.
    pub fn new(result: Payload, violations: Vec<Violation>) -> Self {
        let blocks = blocks(&result);
        let structured = result.get("structuredContent").map(Tree::new);
        let raw = Tree::new(&result);
        let tab = match (&structured, blocks.is_empty()) {
            (_, false) => ResultTab::Content,
            (Some(_), true) => ResultTab::Structured,
            (None, true) => ResultTab::Raw,
        };
        let alone = blocks.len() == 1 && matches!(blocks[0].kind, BlockKind::Data { .. });
        Self {
            mismatch: says_otherwise(&result),
            is_too_large: blocks.iter().any(Block::is_too_large),
            structured_numbers: result.numbers().below(STRUCTURED),
            expanded: alone.then_some(0).into_iter().collect(),
            result,
            blocks,
            raw,
            structured,
            violations,
            tab,
            wrap: true,
            stale: true,
            ..Self::default()
        }
    }

    /// The same, where its structured content was compared with a schema, or was not.
    #[must_use]
    pub const fn checked(mut self, is_checked: bool) -> Self {
        self.is_checked = is_checked;
        self
    }

    /// The same, with pictures decoded within the limits of their server.
    #[must_use]
    pub fn within(mut self, limits: &ContentLimits) -> Self {
        self.limits = *limits;
        self
    }

    /// Restores tab, position and settings from an earlier view of the same result.
    pub fn stand_as(&mut self, earlier: &Self) {
        if self.tabs().iter().any(|(tab, _)| *tab == earlier.tab) {
            self.tab = earlier.tab;
        }
        (self.plain, self.wrap, self.beside) = (earlier.plain, earlier.wrap, earlier.beside);
        (self.scroll, self.column) = (earlier.scroll, earlier.column);
        self.block = earlier.block.min(self.blocks.len().saturating_sub(1));
        self.raw.cursor = earlier.raw.cursor.min(self.raw.len().saturating_sub(1));
        self.needle.clone_from(&earlier.needle);
        self.expanded.clone_from(&earlier.expanded);
    }

    /// Rows of a block, including its title.
    pub(super) fn block_rows(&self, index: usize) -> usize {
        let body = self.laid.get(index).map_or(0, Laid::len);
        body + usize::from(self.has_title(index))
    }

    pub(super) fn has_title(&self, index: usize) -> bool {
        self.blocks.len() > 1 || self.blocks.get(index).is_some_and(|b| !b.title.is_empty())
    }

    /// How many rows the tab has.
    pub(crate) fn len(&self) -> usize {
        match self.tab {
            ResultTab::Content => (0..self.blocks.len()).map(|i| self.block_rows(i)).sum(),
            ResultTab::Structured => self.structured.as_ref().map_or(0, Tree::len),
            ResultTab::Raw => self.raw.len(),
            ResultTab::Compare => self.comparison.as_ref().map_or(0, Comparison::len),
        }
    }

    /// Shows the structured content, as a tree.
    pub(crate) fn show_structured(&mut self) {
        self.show(ResultTab::Structured);
    }

    pub(super) fn show(&mut self, tab: ResultTab) {
        self.tab = tab;
        self.scroll = 0;
        self.column = 0;
        self.follow_cursor();
    }

    pub(super) fn tabs(&self) -> Vec<(ResultTab, &'static str)> {
        let mut tabs = Vec::new();
        if !self.blocks.is_empty() {
            tabs.push((ResultTab::Content, "content"));
        }
        if self.structured.is_some() {
            tabs.push((ResultTab::Structured, "structured"));
        }
        tabs.push((ResultTab::Raw, "raw"));
        if self.comparison.is_some() {
            tabs.push((ResultTab::Compare, "compared"));
        }
        tabs
    }

    pub(super) fn tree(&self) -> Option<(&Tree, &Value)> {
        match self.tab {
            ResultTab::Raw => Some((&self.raw, &self.result)),
            ResultTab::Structured => {
                Some((self.structured.as_ref()?, self.result.get("structuredContent")?))
            }
            _ => None,
        }
    }

    /// The numbers of the shown tree that its value spells otherwise than the server.
    pub(super) fn numbers(&self) -> &WrittenNumbers {
        match self.tab {
            ResultTab::Structured => &self.structured_numbers,
            ResultTab::Raw | ResultTab::Content | ResultTab::Compare => self.result.numbers(),
        }
    }

    /// JSON pointer within the result of the value under the cursor of the shown tree.
    fn place(&self) -> Option<String> {
        let (tree, value) = self.tree()?;
        let within = if self.tab == ResultTab::Structured { STRUCTURED } else { "" };
        Some(format!("{within}{}", tree.pointer(value)))
    }

    pub(super) fn with_tree<T>(&mut self, act: impl FnOnce(&mut Tree, &Value) -> T) -> Option<T> {
        let result = self.result.clone();
        let done = match self.tab {
            ResultTab::Raw => act(&mut self.raw, &result),
            ResultTab::Structured => {
                act(self.structured.as_mut()?, result.get("structuredContent")?)
            }
            _ => return None,
        };
        self.follow_cursor();
        Some(done)
    }

    /// The notices above the rows of a region of this height: whether text and structured content
    /// differ, and the number of violations.
    pub(super) fn notices(&self, height: usize) -> (bool, usize) {
        if self.tab != ResultTab::Structured {
            return (false, 0);
        }
        let mismatch = self.mismatch && height > 3;
        let left = height - usize::from(mismatch);
        (mismatch, self.violations.len().min(left / 3))
    }

    fn follow_cursor(&mut self) {
        let Some((tree, _)) = self.tree() else { return };
        let (mismatch, violations) = self.notices(usize::from(self.height));
        let height = usize::from(self.height).saturating_sub(violations + usize::from(mismatch));
        self.scroll = in_sight(self.scroll, tree.cursor, height);
    }

    /// Whether an action has an effect in what is shown, or why not.
    pub fn availability(&self, action: Action) -> Availability {
        let in_content = self.tab == ResultTab::Content;
        let block = self.blocks.get(self.block).filter(|_| in_content);
        match action {
            Action::NextBlock => when(self.blocks.len() > 1, "no other block"),
            Action::Markdown => when(in_content, "not the content"),
            Action::Hex => {
                let is_binary = block.is_some_and(|block| block.binary().is_some());
                when(is_binary, "not binary")
            }
            Action::Wrap => when(self.tree().is_none(), "a tree does not wrap"),
            Action::SideBySide => when(self.tab == ResultTab::Compare, "not a comparison"),
            Action::CopyPath => when(self.tree().is_some(), "not a tree"),
            _ => Ok(()),
        }
    }

    /// Performs an action.
    pub fn apply(&mut self, action: Action, out: &mut Out) {
        let page = isize::try_from(self.height.max(2)).unwrap_or(2) - 1;
        if let Some(rows) = action.steps(page) {
            return self.move_by(rows);
        }
        match action {
            Action::NextTab => {
                let tabs = self.tabs();
                let at = tabs.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
                let (tab, _) = tabs[(at + 1) % tabs.len()];
                self.show(tab);
            }
            Action::NextBlock => self.next_block(),
            Action::Open => self.enter(out),
            Action::Left | Action::Right => self.sideways(action, out),
            Action::Markdown => {
                self.plain = !self.plain;
                self.stale = true;
            }
            Action::Hex => self.toggle_hex(),
            Action::Wrap => {
                self.wrap = !self.wrap;
                self.column = 0;
                self.stale = true;
                self.lay_comparison();
            }
            Action::SideBySide => {
                self.beside = !self.beside;
                self.lay_comparison();
            }
            Action::SearchNext => self.search_next(out),
            Action::Copy => self.copy(out),
            Action::CopyPath => {
                if let Some((tree, value)) = self.tree() {
                    out.copy(tree.pointer(value));
                }
            }
            Action::CopyAll => self.copy_whole(out),
            Action::Save => self.save(),
            _ => {}
        }
    }

    /// Takes the file that is to be written, with its proposed name.
    pub fn take_file(&mut self) -> Option<(String, ResultFile)> {
        self.file.take()
    }

    /// Compares with an earlier result of the same tool, and shows the difference; reports that
    /// there is none only if the user asked.
    pub fn compare_with(&mut self, earlier: &Payload, asked: bool) -> Difference {
        let comparison = Comparison::new(earlier, &self.result);
        let found = match comparison.places() {
            0 if comparison.is_partial => Difference::Unknown,
            0 => Difference::Same,
            places => Difference::Places(places),
        };
        if asked || matches!(found, Difference::Places(_)) {
            self.comparison = Some(comparison);
            self.lay_comparison();
            self.show(ResultTab::Compare);
        }
        found
    }

    /// Lays the comparison out for the region and settings; the top line stays in place.
    pub(super) fn lay_comparison(&mut self) {
        let Some(comparison) = &mut self.comparison else { return };
        let way = CompareLayout { width: self.width, wrap: self.wrap, beside: self.beside };
        let top = if self.tab == ResultTab::Compare { self.scroll } else { 0 };
        let top = comparison.lay(way, top);
        if self.tab == ResultTab::Compare {
            self.scroll = top;
        }
    }

    /// Moves by rows; up is negative.
    pub fn move_by(&mut self, rows: isize) {
        let len = self.len();
        let moved = self.with_tree(|tree, _| {
            tree.cursor = tree.cursor.saturating_add_signed(rows).min(len.saturating_sub(1));
        });
        if moved.is_none() {
            let last = len.saturating_sub(usize::from(self.height.max(1)));
            self.scroll = self.scroll.saturating_add_signed(rows).min(last);
        }
    }

    /// Folds and unfolds a tree; scrolls lines that are not wrapped.
    fn sideways(&mut self, action: Action, out: &mut Out) {
        if self.with_tree(|tree, value| tree.fold(value, action)).is_some() {
            return;
        }
        if self.wrap {
            return out.refuse("lines are wrapped; {wrap} shows each in one row");
        }
        self.column = if action == Action::Left {
            self.column.saturating_sub(SIDEWAYS_STEP_CHARS)
        } else {
            self.column + SIDEWAYS_STEP_CHARS
        };
    }

    /// A text of the result to read: JSON indented and in its colours, any other as it is.
    fn whole_text(&self, place: &str) -> TextReader {
        let text = SharedText::new(&self.result, place);
        let raw = text.as_str().to_owned();
        let lay = move |width| {
            let mut doc = Doc::new(width);
            match content::indented(text.as_str()) {
                Some(json) => json.lines().for_each(|line| _ = doc.json_line(line)),
                None => drop(doc.text(0, &SafeText::block(text.as_str()), Role::Text)),
            }
            doc
        };
        TextReader::fitted(Ink::line(place), raw, lay)
    }

    fn toggle_hex(&mut self) {
        if self.availability(Action::Hex).is_err() {
            return;
        }
        if !self.expanded.remove(&self.block) {
            self.expanded.insert(self.block);
        }
        self.lay_again(self.block);
        self.move_by(0);
    }

    fn next_block(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        self.tab = ResultTab::Content;
        self.block = (self.block + 1) % self.blocks.len();
        let above: usize = (0..self.block).map(|i| self.block_rows(i)).sum();
        let last = self.len().saturating_sub(usize::from(self.height.max(1)));
        self.scroll = above.min(last);
    }

    /// What Enter does at the cursor, where that is more than to fold.
    pub fn enters(&self) -> Option<&'static str> {
        if self.tab != ResultTab::Content {
            return self.cut_text().map(|_| "whole text");
        }
        match self.blocks.get(self.block)?.kind {
            BlockKind::Link { .. } => Some("read"),
            BlockKind::Data { .. } => Some("write"),
            BlockKind::Text(_) | BlockKind::Picture(..) | BlockKind::Unknown { .. } => None,
        }
    }

    /// The JSON pointer of the text under the cursor of a tree, if its row cannot show all of it.
    fn cut_text(&self) -> Option<String> {
        let (tree, value) = self.tree()?;
        let text = tree.current(value).as_str()?;
        let place = self.place()?;
        let key = place.rsplit('/').next().unwrap_or_default();
        // The row: two blanks a level, the sign of a fold, the key and its colon, the quotes.
        let lead = 2 * tree.pointer(value).matches('/').count() + 2 + key.width() + 4;
        let room = usize::from(self.width).saturating_sub(lead).min(MAX_VALUE_CHARS);
        let fits = text.len() <= 4 * room && text.width() <= room && !text.contains('\n');
        (!fits).then_some(place)
    }

    fn enter(&mut self, out: &mut Out) {
        if let Some(place) = self.cut_text() {
            return out.open(self.whole_text(&place));
        }
        if self.tab != ResultTab::Content {
            self.with_tree(|tree, value| tree.fold(value, Action::Open));
            return;
        }
        match self.blocks.get(self.block).map(|block| &block.kind) {
            Some(BlockKind::Link { uri, .. }) => out.intend(Intent::OpenResource(uri.clone())),
            Some(BlockKind::Data { .. }) => self.save(),
            _ => {}
        }
    }

    // Searching in a result, and taking text out of it: search, copy, save.

    /// Searches for `needle` from here on.
    pub fn search(&mut self, needle: &str, out: &mut Out) {
        needle.clone_into(&mut self.needle);
        self.search_next(out);
    }

    pub(super) fn search_next(&mut self, out: &mut Out) {
        let needle = self.needle.clone();
        if needle.is_empty() {
            return;
        }
        let numbers = self.numbers().clone();
        let found = match self.with_tree(|tree, value| tree.search(value, &numbers, &needle)) {
            Some(found) => found,
            None => self.search_text(&needle),
        };
        if !found {
            out.warn(ink!("not found: {}", Ink::line(&needle)));
        }
    }

    fn search_text(&mut self, needle: &str) -> bool {
        if let (ResultTab::Compare, Some(comparison)) = (self.tab, &self.comparison) {
            let found = comparison.search(needle, self.scroll);
            return self.bring_into_sight(found);
        }
        // From after the top row, then from the beginning.
        let found = [self.scroll + 1, 0].into_iter().find_map(|from| {
            let mut above = 0;
            (0..self.blocks.len()).find_map(|index| {
                let body = above + usize::from(self.has_title(index));
                above += self.block_rows(index);
                let found = self.laid.get(index)?.find(needle, from.saturating_sub(body));
                found.map(|(row, before)| (body + row, before))
            })
        });
        self.bring_into_sight(found)
    }

    /// Scrolls to a match: its row, and the characters before it there. Returns whether there is
    /// one.
    fn bring_into_sight(&mut self, found: Option<(usize, usize)>) -> bool {
        let Some((row, before)) = found else { return false };
        self.scroll = row;
        let seen = self.column..self.column + usize::from(self.width) / 3;
        if !seen.contains(&before) {
            self.column = if self.wrap { 0 } else { before.saturating_sub(MAX_LEAD_CHARS) };
        }
        true
    }

    fn copy(&self, out: &mut Out) {
        if let Some(place) = self.place() {
            return self.copy_value(&place, out);
        }
        match self.blocks.get(self.block).map(|b| (&b.kind, &b.pointer)) {
            Some((BlockKind::Text(text), _)) => out.copy(text.as_str().to_owned()),
            Some((BlockKind::Link { uri, .. }, _)) => out.copy(uri.clone()),
            Some((_, pointer)) => self.copy_value(pointer, out),
            None => self.copy_whole(out),
        }
    }

    /// Copies the value at a JSON pointer, a text without its quotes; shows a message if it is too
    /// large.
    fn copy_value(&self, place: &str, out: &mut Out) {
        if let Some(text) = self.result.pointer(place).and_then(Value::as_str) {
            return out.copy(text.to_owned());
        }
        match pretty(&self.result.part(place), MAX_CLIPBOARD_BYTES) {
            (_, true) => out.refuse(TOO_LARGE),
            (text, false) => out.copy(text),
        }
    }

    fn copy_whole(&self, out: &mut Out) {
        if self.result.cut().is_some() {
            out.refuse(TOO_LARGE);
        } else {
            self.copy_value("", out);
        }
    }

    /// Offers a file for [`ResultView::take_file`].
    fn save(&mut self) {
        self.file = Some(self.to_save());
    }

    /// What would be written, and its proposed name.
    fn to_save(&self) -> (String, ResultFile) {
        let block = self.blocks.get(self.block).filter(|_| self.tab == ResultTab::Content);
        if let Some(binary) = block.and_then(Block::binary) {
            let mime = block.map(|b| b.mime.as_str()).unwrap_or_default();
            let name = format!("mcpdeck-result.{}", content::suffix(mime));
            return (name, ResultFile::Base64(binary.text.clone()));
        }
        if let Some(BlockKind::Text(text)) = block.map(|b| &b.kind) {
            return ("mcpdeck-result.txt".to_owned(), ResultFile::Value(text.clone()));
        }
        let place = match (self.place(), block) {
            // For a large result, the value is only the beginning.
            _ if self.result.cut().is_some() => String::new(),
            (Some(place), _) => place,
            (None, Some(block)) => block.pointer.clone(),
            (None, None) => String::new(),
        };
        let content = ResultFile::Value(SharedText::new(&self.result, place));
        ("mcpdeck-result.json".to_owned(), content)
    }

    // The mouse in a result: tabs, rows of a tree, blocks of content.

    /// Handles a click in the `area` of the result.
    pub fn click(&mut self, at: Position, area: Rect, out: &mut Out) {
        if at.y == area.y {
            if let Some(tab) = self.tab_at(at.x - area.x) {
                self.show(tab);
            }
            return;
        }
        let line = usize::from(at.y - area.y - 1);
        if self.tab == ResultTab::Content {
            return self.click_content(self.scroll + line);
        }
        let row = (self.scroll + line).checked_sub(self.notes(area.height - 1));
        let (Some(row), Some((tree, _))) = (row, self.tree()) else { return };
        if row >= tree.len() {
            return;
        }
        if tree.cursor == row {
            return self.apply(Action::Open, out);
        }
        self.with_tree(|tree, _| tree.cursor = row);
    }

    fn tab_at(&self, column: u16) -> Option<ResultTab> {
        let mut x = 0;
        for (tab, name) in self.tabs() {
            let marks = self.marks(tab, &self.look);
            let marks: usize = marks.iter().map(|(mark, _)| mark.width()).sum();
            let end = x + name.width() + marks;
            if (x..end).contains(&usize::from(column)) {
                return Some(tab);
            }
            x = end + 2;
        }
        None
    }

    fn click_content(&mut self, row: usize) {
        let mut above = 0;
        for block in 0..self.blocks.len() {
            above += self.block_rows(block);
            if row < above {
                self.block = block;
                return;
            }
        }
    }
}

/// The content of a file to write; shared with the result, encoded when it is written.
#[derive(Clone, Debug, PartialEq)]
pub enum ResultFile {
    /// Bytes given as base64.
    Base64(SharedText),
    /// A value: text as it is, any other as indented JSON.
    Value(SharedText),
}

impl ResultFile {
    /// The bytes. Slow for large results: do not call this on the UI thread.
    ///
    /// # Errors
    /// A sentence, if the base64 is malformed.
    pub fn bytes(&self) -> Result<Vec<u8>, String> {
        match self {
            Self::Base64(text) => super::image::bytes(text.as_str()),
            Self::Value(place) => match place.whole().or_else(|| place.value()?.as_str()) {
                Some(text) => Ok(text.as_bytes().to_vec()),
                None => {
                    serde_json::to_vec_pretty(&place.written()).map_err(|error| error.to_string())
                }
            },
        }
    }
}

/// Characters that lines move sideways at once.
const SIDEWAYS_STEP_CHARS: usize = 8;

/// Characters shown before a match in its line.
const MAX_LEAD_CHARS: usize = 16;

/// JSON pointer of the structured content of a result.
const STRUCTURED: &str = "/structuredContent";

/// Most text that is parsed to compare it with the structured content.
const MAX_COMPARED_BYTES: usize = 256 << 10;

/// Whether a result has structured content, and text that is JSON too but has other content.
/// Servers SHOULD give both (MCP, tools, structured content); many give text without the object
/// that structured content must be wrapped in, which counts as equal.
pub(super) fn says_otherwise(result: &Payload) -> bool {
    let Some(structured) = result.get("structuredContent") else { return false };
    let blocks = result["content"].as_array().filter(|_| result.cut().is_none());
    let mut parsed = blocks
        .into_iter()
        .flatten()
        .filter_map(|block| block["text"].as_str())
        .filter(|text| {
            text.len() <= MAX_COMPARED_BYTES && text.trim_start().starts_with(['{', '['])
        })
        .filter_map(|text| serde_json::from_str::<Value>(text).ok())
        .peekable();
    if parsed.peek().is_none() {
        return false;
    }
    let wraps = |value: &Value| {
        structured.as_object().is_some_and(|map| map.len() == 1 && map.values().any(|v| v == value))
    };
    !parsed.any(|value| value == *structured || wraps(&value))
}
