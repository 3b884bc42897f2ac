//! The mouse in a result: tabs, rows of a tree, blocks of content.

use crate::tui::action::Action;
use ratatui::layout::{Position, Rect};
use unicode_width::UnicodeWidthStr;

use super::view::{ResultView, Tab};
use crate::tui::effect::Effect;

impl ResultView {
    /// A click at a place of the `area` the result is drawn in; gives what it wants done outside.
    pub fn click(&mut self, at: Position, area: Rect) -> Option<Effect> {
        if at.y == area.y {
            if let Some(tab) = self.tab_at(at.x - area.x) {
                self.show(tab);
            }
            return None;
        }
        let line = usize::from(at.y - area.y - 1);
        if self.tab == Tab::Content {
            self.click_content(self.scroll + line);
            return None;
        }
        let row = (self.scroll + line).checked_sub(self.notes(area.height - 1))?;
        let (tree, _) = self.tree()?;
        if row >= tree.len() {
            return None;
        }
        if tree.cursor == row {
            return self.apply(Action::Open);
        }
        self.with_tree(|tree, _| tree.cursor = row);
        None
    }

    fn tab_at(&self, column: u16) -> Option<Tab> {
        let mut x = 0;
        for (tab, name) in self.tabs() {
            let marks: usize = if tab == Tab::Structured {
                self.structured_marks().iter().map(|mark| mark.width()).sum()
            } else {
                0
            };
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
