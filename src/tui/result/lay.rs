//! The blocks of a result as rows for a width. Whole texts are only measured, never copied; what is
//! drawn of them is found again row by row.

use ratatui::layout::Rect;
use serde_json::Value;

use super::content::{Block, BlockKind};
use super::markdown;
use super::rows::{Rows, Shared};
use super::view::ResultView;
use crate::base::text::SafeText;
use crate::tui::form::draw::Look;
use crate::tui::graphics::Graphics;

/// A block as rows.
pub(super) enum Laid {
    /// Long text.
    Rows(Rows, Shared),
    /// Styled lines.
    Lines(Vec<Vec<markdown::Span>>),
    /// A picture of so many rows.
    Picture(u16),
    /// Facts, then so many rows of hexadecimal; the last number are those that are not shown.
    Binary(Vec<markdown::Span>, usize, usize),
}

const PICTURE_ROWS: u16 = 24;
/// Rows of hexadecimal shown of a block among others.
const HEX_ROWS: usize = 4;

impl Laid {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Rows(rows, _) => rows.len(),
            Self::Lines(lines) => lines.len(),
            Self::Picture(rows) => usize::from(*rows),
            Self::Binary(_, rows, hidden) => 1 + rows + usize::from(*hidden > 0),
        }
    }
}

impl ResultView {
    /// Brings the layout up to date with the region; cheap when nothing changed.
    pub fn prepare(&mut self, area: Rect, look: &Look) {
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

    /// The region a picture is fitted to: itself and its title are to be seen at once.
    pub(super) fn picture_region(&self) -> (u16, u16) {
        (self.width, self.height.saturating_sub(1).clamp(3, PICTURE_ROWS))
    }

    pub(super) fn lay_again(&mut self, index: usize) {
        if index < self.laid.len() {
            self.laid[index] = self.lay(index);
        }
    }

    fn lay(&self, index: usize) -> Laid {
        let (block, look) = (&self.blocks[index], &self.look);
        match &block.kind {
            BlockKind::Text(text) => self.lay_text(text),
            BlockKind::Picture(..) if self.expanded.contains(&index) => self.lay_binary(index),
            BlockKind::Picture(picture, binary) => match look.graphics {
                Graphics::Off(reason) => {
                    let text = format!("not drawn: {reason} · {}", binary.facts());
                    Laid::Lines(vec![vec![(SafeText::line(&text), look.muted)]])
                }
                how => {
                    let (width, height) = self.picture_region();
                    Laid::Picture(picture.rows(width, height, how))
                }
            },
            BlockKind::Data { .. } => self.lay_binary(index),
            BlockKind::Link { uri, about } => Laid::Lines(vec![
                vec![(SafeText::line(uri), look.accent)],
                vec![(about.clone(), look.foreign)],
            ]),
            BlockKind::Unknown { reason } => self.lay_unknown(block, reason),
        }
    }

    fn lay_text(&self, text: &Shared) -> Laid {
        let raw = text.as_str();
        if !self.plain && raw.len() <= markdown::LONGEST && markdown::looks_like(raw) {
            return Laid::Lines(markdown::lines(raw, self.width, &self.look));
        }
        let shown = if self.plain { None } else { indented(raw) };
        let text = shown.map_or_else(|| text.clone(), Shared::own);
        let room = usize::from(self.width.max(10));
        let most = if self.wrap { room } else { Rows::WIDEST };
        Laid::Rows(Rows::new(text.as_str(), most), text)
    }

    fn lay_binary(&self, index: usize) -> Laid {
        let block = &self.blocks[index];
        let Some(binary) = block.binary() else { return Laid::Lines(Vec::new()) };
        let about = match &block.kind {
            BlockKind::Data { about, .. } => about.clone(),
            _ => SafeText::line(&binary.facts()),
        };
        let all = binary.rows();
        let shown = if self.expanded.contains(&index) { all } else { all.min(HEX_ROWS) };
        Laid::Binary(vec![(about, self.look.foreign)], shown, all - shown)
    }

    fn lay_unknown(&self, block: &Block, reason: &SafeText) -> Laid {
        let raw = self.result.pointer(&block.pointer).unwrap_or(super::take::NOTHING);
        let (text, cut) = super::take::pretty(raw, 64 << 10);
        let mut lines = vec![vec![(reason.clone(), self.look.warning)]];
        for line in text.lines().take(200) {
            let cut: String = line.chars().take(400).collect();
            lines.push(vec![(SafeText::line(&cut), self.look.text)]);
        }
        if cut || text.lines().nth(200).is_some() {
            let more = SafeText::line("… the rest is in the raw view");
            lines.push(vec![(more, self.look.faint)]);
        }
        Laid::Lines(lines)
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
