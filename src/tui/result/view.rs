//! The viewer of one result: tabs, scrolling, search, folds, copying and saving.
//! Changes nothing outside; it says what it wants.

use std::sync::Arc;

use ratatui::layout::Rect;
use serde_json::Value;

use super::content::{BlockKind, Blocks, blocks};
use super::diff::{Comparison, compare};
use super::markdown;
use super::rows::{Rows, Shared};
use super::tree::Tree;
use crate::host::Violation;
use crate::text::SafeText;
use crate::tui::form::draw::Look;

/// The ways to look at a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// Its content, as a person reads it.
    Content,
    /// Its structured content, against the schema.
    Structured,
    /// As it was sent.
    Raw,
    /// Beside an earlier one.
    Compare,
}

/// What a person wants of the viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultCommand {
    /// Rows up (negative) or down.
    Scroll(isize),
    /// Pages up (negative) or down.
    Page(isize),
    /// To the first row.
    Top,
    /// To the last row.
    Bottom,
    /// Columns left (negative) or right.
    Sideways(isize),
    /// To the next tab.
    NextTab,
    /// To the next block of content.
    NextBlock,
    /// Folds or unfolds; opens a link.
    Enter,
    /// Folds, or goes to the parent.
    Fold,
    /// Unfolds.
    Unfold,
    /// Markdown or plain text.
    Markdown,
    /// Long lines wrapped or cut.
    Wrap,
    /// Comparison in one column or two.
    SideBySide,
    /// Next match of the search.
    SearchNext,
    /// Copies the value or block under the cursor.
    Copy,
    /// Copies its JSON pointer.
    CopyPath,
    /// Copies everything.
    CopyAll,
    /// Saves the block or value under the cursor.
    Save,
}

/// What the viewer wants done outside.
#[derive(Clone, Debug, PartialEq)]
pub enum Wants {
    /// Put text on the clipboard.
    Copy(String),
    /// Write a file.
    Save(String, Vec<u8>),
    /// Show a resource of the same server.
    OpenResource(String),
    /// Tell something.
    Say(String),
}

pub(super) enum Laid {
    Rows(Rows, Shared),
    Lines(Vec<Vec<markdown::Span>>),
    Picture(u16),
}

/// A viewer of one result.
pub struct ResultView {
    pub(super) result: Arc<Value>,
    pub(super) blocks: Blocks,
    pub(super) laid: Vec<Laid>,
    pub(super) width: u16,
    height: u16,
    pub(super) violations: Vec<Violation>,
    pub(super) tab: Tab,
    pub(super) block: usize,
    pub(super) scroll: usize,
    pub(super) column: usize,
    plain: bool,
    wrap: bool,
    pub(super) beside: bool,
    raw: Tree,
    structured: Option<Tree>,
    pub(super) comparison: Option<Comparison>,
    pub(super) needle: String,
}

const PICTURE_ROWS: u16 = 24;

impl ResultView {
    /// A viewer of `result`; `violations` are those of its structured content.
    pub fn new(result: Arc<Value>, violations: Vec<Violation>) -> Self {
        let blocks = blocks(&result);
        let structured = result.get("structuredContent").map(Tree::new);
        let raw = Tree::new(&result);
        let tab = match (&structured, blocks.is_empty()) {
            (_, false) => Tab::Content,
            (Some(_), true) => Tab::Structured,
            (None, true) => Tab::Raw,
        };
        let mut view = Self {
            result,
            blocks,
            laid: Vec::new(),
            width: 0,
            height: 0,
            violations,
            tab,
            block: 0,
            scroll: 0,
            column: 0,
            plain: false,
            wrap: true,
            beside: false,
            raw,
            structured,
            comparison: None,
            needle: String::new(),
        };
        view.lay(80, 24, &Look::default());
        view
    }

    /// The result.
    pub const fn result(&self) -> &Arc<Value> {
        &self.result
    }

    /// The tab that is shown.
    pub const fn tab(&self) -> Tab {
        self.tab
    }

    /// The blocks of content.
    pub const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Compares with an earlier result of the same tool.
    pub fn compare_with(&mut self, earlier: &Value) {
        self.comparison = Some(compare(earlier, &self.result));
        self.show(Tab::Compare);
    }

    /// Brings the layout up to date with the region; cheap when nothing changed.
    pub fn prepare(&mut self, area: Rect, look: &Look) {
        self.height = area.height.saturating_sub(1);
        if area.width != self.width {
            self.lay(area.width, area.height, look);
        }
    }

    fn lay(&mut self, width: u16, height: u16, look: &Look) {
        self.width = width;
        self.height = height.saturating_sub(1);
        let room = usize::from(width.max(10));
        self.laid = self
            .blocks
            .iter()
            .map(|block| match &block.kind {
                BlockKind::Text(text) => {
                    let raw = text.as_str();
                    if !self.plain && raw.len() <= markdown::LONGEST && markdown::looks_like(raw) {
                        return Laid::Lines(markdown::lines(raw, width, look));
                    }
                    let shown = if self.plain { None } else { indented(raw) };
                    let text = shown.map_or_else(|| text.clone(), Shared::own);
                    let most = if self.wrap { room } else { Rows::WIDEST };
                    Laid::Rows(Rows::new(text.as_str(), most), text)
                }
                BlockKind::Picture(picture) => {
                    Laid::Picture(picture.rows(width, height.clamp(4, PICTURE_ROWS)))
                }
                BlockKind::Data { about, .. } => {
                    Laid::Lines(vec![vec![(about.clone(), look.muted)]])
                }
                BlockKind::Link { uri, about } => Laid::Lines(vec![
                    vec![(SafeText::line(uri), look.accent)],
                    vec![(about.clone(), look.foreign)],
                ]),
                BlockKind::Unknown { reason } => {
                    let raw = self.result.pointer(&block.pointer).unwrap_or(&Value::Null);
                    let text = serde_json::to_string_pretty(raw).unwrap_or_default();
                    let mut lines = vec![vec![(reason.clone(), look.warning)]];
                    for line in text.lines().take(200) {
                        let cut: String = line.chars().take(400).collect();
                        lines.push(vec![(SafeText::line(&cut), look.text)]);
                    }
                    Laid::Lines(lines)
                }
            })
            .collect();
    }

    /// Rows of a block with the line above it.
    pub(super) fn block_rows(&self, index: usize) -> usize {
        let body = match self.laid.get(index) {
            Some(Laid::Rows(rows, _)) => rows.len(),
            Some(Laid::Lines(lines)) => lines.len(),
            Some(Laid::Picture(rows)) => usize::from(*rows),
            None => 0,
        };
        body + usize::from(self.has_title(index))
    }

    pub(super) fn has_title(&self, index: usize) -> bool {
        self.blocks.len() > 1 || self.blocks.get(index).is_some_and(|b| !b.title.is_empty())
    }

    /// How many rows the tab has.
    pub fn len(&self) -> usize {
        match self.tab {
            Tab::Content => (0..self.blocks.len()).map(|i| self.block_rows(i)).sum(),
            Tab::Structured => self.structured.as_ref().map_or(0, Tree::len),
            Tab::Raw => self.raw.len(),
            Tab::Compare => self.comparison.as_ref().map_or(0, |c| c.lines.len()),
        }
    }

    /// Whether the tab shows nothing.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn show(&mut self, tab: Tab) {
        self.tab = tab;
        self.scroll = 0;
        self.column = 0;
        self.follow_cursor();
    }

    pub(super) fn tabs(&self) -> Vec<(Tab, &'static str)> {
        let mut tabs = Vec::new();
        if !self.blocks.is_empty() {
            tabs.push((Tab::Content, "content"));
        }
        if self.structured.is_some() {
            tabs.push((Tab::Structured, "structured"));
        }
        tabs.push((Tab::Raw, "raw"));
        if self.comparison.is_some() {
            tabs.push((Tab::Compare, "compared"));
        }
        tabs
    }

    pub(super) fn tree(&self) -> Option<(&Tree, &Value)> {
        match self.tab {
            Tab::Raw => Some((&self.raw, &self.result)),
            Tab::Structured => {
                Some((self.structured.as_ref()?, self.result.get("structuredContent")?))
            }
            _ => None,
        }
    }

    pub(super) fn with_tree<T>(&mut self, act: impl FnOnce(&mut Tree, &Value) -> T) -> Option<T> {
        let result = Arc::clone(&self.result);
        let done = match self.tab {
            Tab::Raw => act(&mut self.raw, &result),
            Tab::Structured => act(self.structured.as_mut()?, result.get("structuredContent")?),
            _ => return None,
        };
        self.follow_cursor();
        Some(done)
    }

    fn follow_cursor(&mut self) {
        let Some((tree, _)) = self.tree() else { return };
        let (cursor, height) = (tree.cursor, usize::from(self.height.max(1)));
        if cursor < self.scroll {
            self.scroll = cursor;
        } else if cursor >= self.scroll + height {
            self.scroll = cursor + 1 - height;
        }
    }

    /// Does what was asked; gives what it wants done outside.
    pub fn apply(&mut self, command: ResultCommand) -> Option<Wants> {
        use ResultCommand as C;
        let page = isize::try_from(self.height.max(2)).unwrap_or(2) - 1;
        match command {
            C::Scroll(rows) => self.move_by(rows),
            C::Page(pages) => self.move_by(pages * page),
            C::Top => self.move_by(isize::MIN / 2),
            C::Bottom => self.move_by(isize::MAX / 2),
            C::Sideways(columns) => self.column = self.column.saturating_add_signed(columns * 8),
            C::NextTab => {
                let tabs = self.tabs();
                let at = tabs.iter().position(|(tab, _)| *tab == self.tab).unwrap_or(0);
                let (tab, _) = tabs[(at + 1) % tabs.len()];
                self.show(tab);
            }
            C::NextBlock => self.next_block(),
            C::Enter => return self.enter(),
            C::Fold => self.fold(),
            C::Unfold => {
                self.with_tree(|tree, value| tree.set_open(value, true));
            }
            C::Markdown => {
                self.plain = !self.plain;
                self.lay(self.width, self.height + 1, &Look::default());
            }
            C::Wrap => {
                self.wrap = !self.wrap;
                self.column = 0;
                self.lay(self.width, self.height + 1, &Look::default());
            }
            C::SideBySide => self.beside = !self.beside,
            C::SearchNext => return self.search_next(),
            C::Copy => return Some(Wants::Copy(self.copied())),
            C::CopyPath => {
                let (tree, value) = self.tree()?;
                return Some(Wants::Copy(tree.pointer(value)));
            }
            C::CopyAll => {
                let text = serde_json::to_string_pretty(&*self.result).unwrap_or_default();
                return Some(Wants::Copy(text));
            }
            C::Save => return Some(self.saved()),
        }
        None
    }

    fn move_by(&mut self, rows: isize) {
        let len = self.len();
        let moved = self.with_tree(|tree, _| {
            tree.cursor = tree.cursor.saturating_add_signed(rows).min(len.saturating_sub(1));
        });
        if moved.is_none() {
            let last = len.saturating_sub(usize::from(self.height.max(1)));
            self.scroll = self.scroll.saturating_add_signed(rows).min(last);
        }
    }

    fn next_block(&mut self) {
        if self.blocks.is_empty() {
            return;
        }
        self.tab = Tab::Content;
        self.block = (self.block + 1) % self.blocks.len();
        let above: usize = (0..self.block).map(|i| self.block_rows(i)).sum();
        let last = self.len().saturating_sub(usize::from(self.height.max(1)));
        self.scroll = above.min(last);
    }

    fn enter(&mut self) -> Option<Wants> {
        if self.tab != Tab::Content {
            let open = self.tree().is_some_and(|(tree, _)| tree.is_open());
            self.with_tree(|tree, value| tree.set_open(value, !open));
            return None;
        }
        match &self.blocks.get(self.block)?.kind {
            BlockKind::Link { uri, .. } => Some(Wants::OpenResource(uri.clone())),
            BlockKind::Data { .. } => Some(self.saved()),
            _ => None,
        }
    }

    fn fold(&mut self) {
        self.with_tree(|tree, value| {
            if tree.is_open() {
                tree.set_open(value, false);
            } else if let Some(mut path) = tree.path(tree.cursor) {
                path.pop();
                tree.cursor = tree.row_of(&path).unwrap_or(0);
            }
        });
    }
}

/// Text that is one JSON document, indented; nothing when it is not, or too large.
fn indented(text: &str) -> Option<String> {
    let trimmed = text.trim();
    if trimmed.len() > 1 << 20 || !trimmed.starts_with(['{', '[']) || trimmed.contains('\n') {
        return None;
    }
    let value: Value = crate::tui::form::json::exact(trimmed).ok()?;
    serde_json::to_string_pretty(&value).ok()
}
