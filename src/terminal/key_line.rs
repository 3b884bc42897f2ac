//! The line of keys at the foot of a screen: laid out once, for drawing and for the mouse. A key is
//! shown with its word or not at all.

use std::ops::Range;

use crate::chord::Chord;
use crate::pen::{Pen, width};
use crate::prelude::*;

/// Cells between two keys.
const KEY_GAP: u16 = 2;

/// Keys with a word each, most important first.
#[derive(Clone, Debug, Default)]
pub struct KeyLine {
    keys: Vec<(String, &'static str)>,
    /// The one that is always shown at the right.
    last: Option<(String, &'static str)>,
}

impl KeyLine {
    /// A line of these keys; `last` is always shown at the right.
    pub const fn new(
        keys: Vec<(String, &'static str)>,
        last: Option<(String, &'static str)>,
    ) -> Self {
        Self { keys, last }
    }

    /// The keys that fit, with the columns they take.
    fn items(&self, area: Rect) -> Vec<(&str, &'static str, Range<u16>)> {
        let wide = |key: &str, word: &str| width(&Ink::line(key)) + 1 + width(&Ink::line(word));
        let last = self.last.as_ref().map(|(key, word)| (key.as_str(), *word, wide(key, word) + 1));
        let end = area.right().saturating_sub(last.map_or(0, |(.., wide)| wide + 1));
        let mut x = area.x + 1;
        let mut items = Vec::new();
        for (key, word) in &self.keys {
            let wide = wide(key, word);
            if x + wide <= end {
                items.push((key.as_str(), *word, x..x + wide));
                x += wide + KEY_GAP;
            }
        }
        if let Some((key, word, wide)) = last.filter(|(.., wide)| *wide < area.width) {
            let at = area.right() - wide;
            items.push((key, word, at..at + wide));
        }
        items
    }

    /// Draws it on the first row of `area`.
    pub fn render(&self, area: Rect, buf: &mut Buffer, key: Style, word: Style) {
        for (chord, does, columns) in self.items(area) {
            let mut pen = Pen::new(buf, area);
            pen.column(columns.start - area.x).put(Ink::line(chord), key);
            pen.skip(1).put(does, word);
        }
    }

    /// The key at this column.
    pub fn at(&self, area: Rect, x: u16) -> Option<Chord> {
        let items = self.items(area);
        items.iter().find(|(.., columns)| columns.contains(&x))?.0.parse().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_can_be_pressed_and_what_does_not_fit_is_left_out_whole() {
        let keys = [("f5", "call"), ("ctrl-x", "cancel the call"), ("esc", "back")];
        let keys = keys.map(|(key, word)| (key.to_owned(), word)).to_vec();
        let line = KeyLine::new(keys, Some(("f1".into(), "help")));
        let area = Rect::new(0, 0, 32, 1);
        let mut buf = Buffer::empty(area);
        line.render(area, &mut buf, Style::new(), Style::new());
        let shown: String = area.positions().map(|at| buf[at].symbol().to_owned()).collect();
        assert_eq!(shown, " f5 call  esc back      f1 help ");
        let pressed = |x| line.at(area, x).map(|chord| chord.to_string());
        assert_eq!(pressed(1).as_deref(), Some("f5"));
        assert_eq!(pressed(7).as_deref(), Some("f5"));
        assert_eq!(pressed(9), None);
        assert_eq!(pressed(11).as_deref(), Some("esc"));
        assert_eq!(pressed(30).as_deref(), Some("f1"));
    }
}
