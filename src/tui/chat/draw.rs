//! Drawing of the chat screen: its parts as lines, the screen around them, and its reader.

use ratatui::style::Modifier;
use ratatui::widgets::Widget as _;
use unicode_width::UnicodeWidthStr as _;

use super::{ChatCall, ChatLine, ChatPart, ChatScreen};
use crate::form::draw::{Styles, put};
use crate::overlay::{TextReader, reader_width};
use crate::prelude::*;
use crate::result::content::pretty;
use crate::result::markdown;
use crate::widget::doc::wrap;
use crate::widget::{Doc, json_line};

/// Most rows of an unfolded result, and most of its text that is laid out.
const MAX_RESULT_ROWS: usize = 200;
const MAX_RESULT_BYTES: usize = 64 << 10;

/// The lines of a part; at least one.
pub(super) fn lines(part: &ChatPart, unfolded: bool, width: u16, look: &Styles) -> Vec<ChatLine> {
    let mut out = match part {
        ChatPart::Person(text) => {
            let mut lines = vec![Vec::new()];
            let rows = text.lines().flat_map(|row| wrap(row, width.saturating_sub(2)));
            lines.extend(rows.map(|row| {
                vec![(SafeText::line("> "), look.accent), (SafeText::line(row), look.text)]
            }));
            lines.push(Vec::new());
            lines
        }
        ChatPart::Text(text) => {
            let mut lines = markdown::lines(text, width, look);
            lines.push(Vec::new());
            lines
        }
        ChatPart::Note(text) => wrapped(text, width, look.faint),
        ChatPart::Problem(text) => wrapped(text, width, look.error),
        ChatPart::Call(call) => of_call(call, unfolded, width, look),
    };
    if out.is_empty() {
        out.push(Vec::new());
    }
    out
}

fn wrapped(text: &SafeText, width: u16, style: Style) -> Vec<ChatLine> {
    wrap(text, width).map(|row| vec![(SafeText::line(row), style)]).collect()
}

fn of_call(call: &ChatCall, unfolded: bool, width: u16, look: &Styles) -> Vec<ChatLine> {
    let (sign, style) = match &call.result {
        None => (look.sign("… ", "~ "), look.warning),
        Some(outcome) if outcome.is_error => (look.sign("✗ ", "x "), look.error),
        Some(_) => (look.sign("✓ ", "+ "), look.ok),
    };
    let took = call.result.as_ref().and_then(|outcome| outcome.took);
    let took = match took {
        Some(took) => format!("  {}", Dur(took)),
        None if call.result.is_none() && !call.progress.is_empty() => {
            format!("  {}", call.progress)
        }
        None => String::new(),
    };
    let mut line = vec![
        (SafeText::line(sign), style),
        (call.name.clone(), look.label),
        (SafeText::line(&took), look.muted),
    ];
    let used: usize = line.iter().map(|(text, _)| text.width()).sum();
    let room = usize::from(width).saturating_sub(used + 2);
    line.push((SafeText::cut(&format!("  {}", call.arguments), room), look.muted));
    let mut lines = vec![line];
    if unfolded {
        if call.arguments.as_object().is_some_and(|arguments| !arguments.is_empty()) {
            lines.extend(tree(&call.arguments, width, look));
        }
        if let Some(outcome) = &call.result {
            for picture in &outcome.pictures {
                let kind = picture["mimeType"].as_str().unwrap_or_default();
                let text = format!("  picture, {kind}: open the call to see it");
                lines.push(vec![(SafeText::cut(&text, width.into()), look.accent)]);
            }
            match serde_json::from_str::<Value>(&outcome.text) {
                Ok(value) if value.is_object() || value.is_array() => {
                    lines.push(vec![(SafeText::line("  gave"), look.muted)]);
                    lines.extend(tree(&value, width, look));
                }
                _ => lines.extend(result_text(&outcome.text, width, look)),
            }
        }
    }
    lines
}

/// The beginning of a result, and a line that says so where that is not all.
fn beginning(mut rows: Vec<ChatLine>, is_cut: bool, look: &Styles) -> Vec<ChatLine> {
    if is_cut || rows.len() > MAX_RESULT_ROWS {
        rows.truncate(MAX_RESULT_ROWS);
        rows.push(vec![(SafeText::line("  … open the call to see the rest"), look.faint)]);
    }
    rows
}

/// A text as wrapped lines.
fn result_text(text: &str, width: u16, look: &Styles) -> Vec<ChatLine> {
    let shown = base::text::cut(text, MAX_RESULT_BYTES);
    let (safe, room) = (SafeText::block(shown), width.saturating_sub(4));
    let parts = safe.lines().flat_map(|line| wrap(line, room)).take(MAX_RESULT_ROWS + 1);
    let row = |part| vec![(SafeText::line("  "), look.rule), (SafeText::line(part), look.foreign)];
    beginning(parts.map(row).collect(), shown.len() < text.len(), look)
}

/// A JSON value as indented lines, coloured by kind; long values continue in the next lines.
fn tree(value: &Value, width: u16, look: &Styles) -> Vec<ChatLine> {
    let (text, is_cut) = pretty(value, MAX_RESULT_BYTES);
    let room = usize::from(width).saturating_sub(4).max(8);
    let mut out = Vec::new();
    for line in text.lines().take(MAX_RESULT_ROWS + 1) {
        let mut row: ChatLine = vec![(SafeText::line("    "), look.text)];
        let mut used = 0;
        for (part, role) in json_line(line) {
            let safe = SafeText::line(part);
            let left = room.saturating_sub(used);
            if safe.width() <= left {
                used += safe.width();
                row.push((safe, look.json(role)));
                continue;
            }
            for (n, piece) in wrap(&safe, left.max(8) as u16).enumerate() {
                if n > 0 {
                    out.push(std::mem::replace(
                        &mut row,
                        vec![(SafeText::line("      "), look.text)],
                    ));
                    used = 2;
                }
                let piece = SafeText::line(piece);
                used += piece.width();
                row.push((piece, look.json(role)));
            }
        }
        out.push(row);
    }
    beginning(out, is_cut, look)
}

impl ChatScreen {
    /// A reader with the tokens per server, per prompt and in the last turn, and the system prompt.
    pub(crate) fn context(
        &self,
        prompt: &SafeText,
        costs: &Value,
        limit: u64,
        area: Rect,
    ) -> TextReader {
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        let mut doc = Doc::new(reader_width(area));
        doc.heading("tokens by server, estimated");
        let row = |doc: &mut Doc, cells: [String; 7], role| {
            let [server, rest @ ..] = cells;
            let rest = rest.map(|cell| format!("{cell:>9}")).concat();
            let server = SafeText::cut(&server, 15);
            let blanks = " ".repeat(16_usize.saturating_sub(server.width()));
            doc.line(vec![(Ink::line(&format!("{server}{blanks}{rest}")), role)]);
        };
        let head = ["server", "tools", "defined", "guidance", "share", "calls", "results"];
        row(&mut doc, head.map(str::to_owned), Role::Muted);
        let turn = |server: &Value, key: &str| {
            let all = self.turn["costs"].as_array().into_iter().flatten();
            number(
                &all.into_iter().find(|cost| cost["server"] == *server).unwrap_or(&Value::Null)
                    [key],
            )
        };
        for cost in costs.as_array().into_iter().flatten() {
            let [definitions, guidance] = ["definitions", "guidance"].map(|key| number(&cost[key]));
            let share = (definitions + guidance) as f64 * 100.0 / limit.max(1) as f64;
            let server = &cost["server"];
            let cells = [
                server.as_str().unwrap_or_default().to_owned(),
                number(&cost["tools"]).to_string(),
                definitions.to_string(),
                guidance.to_string(),
                format!("{share:.1} %"),
                turn(server, "calls").to_string(),
                turn(server, "results").to_string(),
            ];
            row(&mut doc, cells, Role::Text);
        }
        let says = "share: of the context window, per prompt; calls and results: in the last turn";
        doc.text(0, &says, Role::Faint);
        doc.heading("system prompt");
        doc.text(0, prompt, Role::Text);
        TextReader::new(ink!("context: {} tokens", limit), doc)
    }

    pub(super) fn draw(&self, look: &Styles, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.height < 6 || area.width < 20 {
            return;
        }
        let room = |x: u16| area.right().saturating_sub(x);
        let x = put(buf, area.x + 1, area.y, room(area.x + 1), "chat", look.accent);
        let x = put(buf, x + 2, area.y, room(x + 2), &self.with, look.muted);
        // The longest wording that leaves room for the status.
        let fits = |text: &&SafeText| room(x + 2) > text.width() as u16 + 9;
        let mut taken = 0;
        if let Some(spent) = self.spent.iter().find(fits) {
            let width = spent.width() as u16 + 1;
            put(buf, area.right() - width, area.y, width, spent, look.muted);
            taken = width + 1;
        }
        put(buf, x + 2, area.y, room(x + 2).saturating_sub(taken), &self.status, look.faint);
        let typed = self.typed_area(area);
        let text = self.text_area(area);
        if self.entries.is_empty() && self.tail.text.is_empty() {
            self.draw_suggestions(look, text, buf);
        }
        self.draw_text(look, text, buf);
        let rule = look.sign("─", "-").repeat(usize::from(area.width));
        put(buf, area.x, typed.y - 1, area.width, &rule, look.rule);
        let mut x = area.x + 2;
        if self.above > 0 {
            let more = format!(" {} below ", count(self.above, "more line"));
            x = put(buf, x, typed.y - 1, room(x), &more, look.muted);
        }
        if self.again.is_some() {
            x = put(buf, x, typed.y - 1, room(x), " replaces what followed ", look.warning);
        }
        put(buf, x, typed.y - 1, room(x), &self.waits, look.warning);
        if let Some((input, found)) = &self.search {
            let style =
                if found.is_none() && !input.text().is_empty() { look.muted } else { look.text };
            let x = put(buf, typed.x, typed.y, typed.width, "search: ", look.accent);
            let line = Rect { x, width: typed.right().saturating_sub(x), height: 1, ..typed };
            return input.render(line, buf, style);
        }
        if self.input.is_empty() && self.entries.is_empty() {
            let says = "Write a message. ctrl-j begins a line, @FILE adds a file.";
            put(buf, typed.x + 1, typed.y, typed.width.saturating_sub(1), says, look.faint);
        }
        let mut input = self.input.clone();
        input.set_style(look.text);
        input.set_cursor_line_style(Style::new());
        input.set_cursor_style(Style::new().add_modifier(Modifier::REVERSED));
        if !(self.input.is_empty() && self.entries.is_empty()) {
            (&input).render(typed, buf);
        }
    }

    /// What to try in an empty conversation.
    fn draw_suggestions(&self, look: &Styles, text: Rect, buf: &mut Buffer) {
        if self.suggestions.is_empty() || text.height < 4 {
            return;
        }
        let line = |n: u16| text.y + 1 + n;
        let title = "Try one of these: tab writes the next one, enter sends it.";
        put(buf, text.x + 1, line(0), text.width.saturating_sub(1), title, look.muted);
        let room = usize::from(text.height).saturating_sub(3);
        for (n, suggestion) in self.suggestions.iter().take(room).enumerate() {
            let y = line(n as u16 + 2);
            // No numbers: a digit is text here.
            let x = put(buf, text.x + 1, y, 4, look.sign("• ", "- "), look.accent);
            put(buf, x, y, text.right().saturating_sub(x), suggestion, look.text);
        }
    }

    fn draw_text(&self, look: &Styles, text: Rect, buf: &mut Buffer) {
        let found = self.search.as_ref().and_then(|(_, found)| *found);
        let all = self.entries.iter().enumerate().flat_map(|(at, entry)| {
            let is_selected = self.selected == Some(at);
            entry.lines.iter().enumerate().map(move |(row, line)| (line, is_selected && row == 0))
        });
        let all = all.chain(self.tail_lines.iter().map(|line| (line, false)));
        let last = self.end();
        let first = last.saturating_sub(usize::from(text.height));
        for (row, (line, is_selected)) in all.enumerate().skip(first).take(last - first) {
            let (mut x, y) = (text.x, text.y + (row - first) as u16);
            for (words, style) in line {
                x = put(buf, x, y, text.right().saturating_sub(x), words, *style);
            }
            let over = if is_selected { Some(look.selection) } else { None };
            let over = over.or_else(|| (found == Some(row)).then_some(look.matched));
            if let Some(style) = over {
                buf.set_style(Rect { y, height: 1, ..text }, style);
            }
        }
    }

    /// The region of the message being typed: as many lines as it has, at most six.
    fn typed_area(&self, area: Rect) -> Rect {
        let lines = if self.search.is_some() { 1 } else { self.input.lines().len() as u16 };
        let height = lines.clamp(1, 6).min(area.height.saturating_sub(4));
        let y = area.bottom().saturating_sub(1 + height);
        Rect { x: area.x + 1, y, width: area.width.saturating_sub(1), height }
    }

    /// The region of the conversation.
    pub(super) fn text_area(&self, area: Rect) -> Rect {
        let typed = self.typed_area(area);
        let height = typed.y.saturating_sub(area.y + 2);
        Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height }
    }
}
