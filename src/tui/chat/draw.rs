//! How the chat screen looks: its parts as lines, and the screen around them. Draws; decides nothing.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::widgets::Widget as _;

use super::{ChatScreen, Line, Part};
use crate::base::text::SafeText;
use crate::tui::form::draw::{Look, put};
use crate::tui::result::markdown;

/// Most lines of one result.
const RESULT: usize = 200;

/// The lines of a part; at least one.
pub(super) fn lines(part: &Part, unfolded: bool, width: u16, look: &Look) -> Vec<Line> {
    let mut out = match part {
        Part::Person(text) => {
            let mut lines = vec![Vec::new()];
            let wrapped = markdown::lines(text, width.saturating_sub(2), look);
            lines.extend(wrapped.into_iter().map(|mut line| {
                line.insert(0, (SafeText::line("> "), look.accent));
                line
            }));
            lines.push(Vec::new());
            lines
        }
        Part::Text(text) => {
            let mut lines = markdown::lines(text, width, look);
            lines.push(Vec::new());
            lines
        }
        Part::Note(text) => vec![vec![(text.clone(), look.faint)]],
        Part::Problem(text) => vec![vec![(text.clone(), look.error)]],
        Part::Call { name, arguments, result, .. } => {
            let (sign, style) = match result {
                None => (look.sign("… ", "~ "), look.warning),
                Some((true, ..)) => (look.sign("✗ ", "x "), look.error),
                Some((false, ..)) => (look.sign("✓ ", "+ "), look.ok),
            };
            let mut line = vec![(SafeText::line(sign), style), (name.clone(), look.label)];
            let took = result.as_ref().map(|(_, _, ms)| format!("  {ms} ms")).unwrap_or_default();
            line.push((SafeText::line(&took), look.muted));
            let used: usize = line.iter().map(|(text, _)| text.chars().count()).sum();
            let room = usize::from(width).saturating_sub(used + 2);
            line.push((SafeText::cut(&format!("  {arguments}"), room), look.muted));
            let mut lines = vec![line];
            if let Some((_, text, _)) = result.as_ref().filter(|_| unfolded) {
                let room = usize::from(width).saturating_sub(4);
                let rows = text.lines().take(RESULT);
                lines.extend(rows.map(|row| {
                    vec![
                        (SafeText::line("  "), look.rule),
                        (SafeText::cut(row, room), look.foreign),
                    ]
                }));
            }
            lines
        }
    };
    if out.is_empty() {
        out.push(Vec::new());
    }
    out
}

impl ChatScreen {
    /// Draws the screen.
    pub(super) fn draw(&self, look: &Look, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.height < 6 || area.width < 20 {
            return;
        }
        let room = |x: u16| area.right().saturating_sub(x);
        let x = put(buf, area.x + 1, area.y, room(area.x + 1), "chat", look.accent);
        let x = put(buf, x + 2, area.y, room(x + 2), &self.model, look.muted);
        put(buf, x + 2, area.y, room(x + 2), &self.status, look.faint);
        let typed = self.typed_area(area);
        let text = self.text_area(area);
        let all = self.entries.iter().flat_map(|entry| &entry.lines).chain(&self.tail_lines);
        let last = self.rows().saturating_sub(self.above);
        let first = last.saturating_sub(usize::from(text.height));
        for (row, line) in all.skip(first).take(last - first).enumerate() {
            let (mut x, y) = (text.x, text.y + row as u16);
            for (words, style) in line {
                x = put(buf, x, y, text.right().saturating_sub(x), words, *style);
            }
        }
        let rule = look.sign("─", "-").repeat(usize::from(area.width));
        put(buf, area.x, typed.y - 1, area.width, &SafeText::line(&rule), look.rule);
        if self.above > 0 {
            let more = SafeText::line(&format!(" {} more lines below ", self.above));
            put(buf, area.x + 2, typed.y - 1, room(area.x + 2), &more, look.muted);
        }
        let mut input = self.input.clone();
        input.set_style(look.text);
        input.set_cursor_line_style(Style::new());
        input.set_cursor_style(Style::new().add_modifier(Modifier::REVERSED));
        (&input).render(typed, buf);
    }

    /// Where the message is typed: as many lines as it has, at most six.
    fn typed_area(&self, area: Rect) -> Rect {
        let height =
            (self.input.lines().len() as u16).clamp(1, 6).min(area.height.saturating_sub(4));
        let y = area.bottom().saturating_sub(1 + height);
        Rect { x: area.x + 1, y, width: area.width.saturating_sub(1), height }
    }

    /// Where what was said is drawn.
    pub(super) fn text_area(&self, area: Rect) -> Rect {
        let typed = self.typed_area(area);
        let height = typed.y.saturating_sub(area.y + 2);
        Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height }
    }
}
