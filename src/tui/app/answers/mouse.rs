//! The mouse on the answering screen and on the roots: it goes where it is pressed, and decides
//! nothing but by a key of the last line, or a second press on the line that accepts.

use ratatui::layout::{Position, Rect};

use crate::tui::app::calls::call_area;
use crate::tui::app::{App, Redraw};
use crate::tui::approval::draw;
use crate::tui::approval::keys;
use crate::tui::effect::Effect;
use crate::tui::keymap::Scope;
use crate::tui::widget::KeyLine;

impl App {
    /// Scrolls what the server says.
    pub(in crate::tui::app) fn answer_wheel(&mut self, delta: isize) {
        if let Some(desk) = self.answers.desk() {
            desk.scroll(delta);
            self.mark(Redraw::Now);
        }
    }

    /// The line of keys at the foot of the answering screen, or of the roots.
    pub(in crate::tui::app) fn answer_keys(&self) -> KeyLine {
        let desk = self.answers.open.and_then(|id| self.answers.desks.get(&id));
        let labels = match (&self.answers.roots, desk) {
            (Some(_), _) => {
                let labels = self.keymap.labels(&[Scope::Roots]);
                labels.into_iter().map(|(key, word, _)| (key, word)).collect()
            }
            (None, Some(desk)) => keys::footer(&self.keymap, desk),
            (None, None) => Vec::new(),
        };
        KeyLine::new(labels, self.keymap.help_label())
    }

    /// Where that line is drawn.
    pub(in crate::tui::app) fn answer_footer(area: Rect) -> Rect {
        let height = area.height.min(1);
        Rect { y: area.bottom() - height, height, ..area }
    }

    /// The mouse was pressed on the open screen.
    pub(in crate::tui::app) fn answer_click(&mut self, at: Position, effects: &mut Vec<Effect>) {
        let Some(area) = self.layout().map(|layout| call_area(&layout)) else { return };
        let area = Rect { height: area.height.saturating_sub(1), ..area };
        if let Some(editor) = &mut self.answers.roots {
            if let Some((line, in_name)) = draw::roots_spot(editor, area, at) {
                (editor.at, editor.in_name) = (line, in_name);
            }
            return;
        }
        let Some(id) = self.answers.open else { return };
        let cx = self.cx(true);
        let desk = self.answers.desks.get(&id);
        let Some(spot) = desk.and_then(|desk| draw::spot(desk, &cx, area, at)) else { return };
        let Some(desk) = self.answers.desk() else { return };
        let outcome = desk.click(spot, at);
        self.settle_answer(id, outcome, effects);
    }
}
