//! The chat screen: what was said, calls folded to a line, and the message being typed. Pure: events
//! come in as the JSON objects of `mcpdeck help chat`, what the person wants goes out as commands.
//!
//! What is finished is laid out once; only the end of an answer that still grows is laid out again.

mod draw;
pub mod port;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui_textarea::TextArea;
use serde_json::Value;

use crate::base::text::SafeText;
use crate::tui::action::Action;
use crate::tui::chat::port::ChatCommand;
use crate::tui::effect::Effect;
use crate::tui::form::draw::Look;
use crate::tui::form::input::{area, edit};
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::result::markdown::{self, Span};
use crate::tui::screen::{Help, Screen, close, keys_of};
use crate::tui::widget::KeyLine;

type Line = Vec<Span>;

/// Something that was said or done.
#[derive(Debug)]
enum Part {
    Person(String),
    /// Finished Markdown of the model.
    Text(String),
    Call {
        id: String,
        name: SafeText,
        arguments: SafeText,
        /// Whether it failed, its text, milliseconds.
        result: Option<(bool, String, u64)>,
    },
    Note(SafeText),
    Problem(SafeText),
}

#[derive(Debug)]
struct Entry {
    part: Part,
    /// Empty until it is laid out.
    lines: Vec<Line>,
}

/// The screen.
#[derive(Debug)]
pub struct ChatScreen {
    /// The model.
    pub model: SafeText,
    entries: Vec<Entry>,
    /// The end of the answer that still grows.
    tail: String,
    tail_lines: Vec<Line>,
    /// For which width and style entries are laid out.
    laid: (u16, Style),
    status: SafeText,
    is_busy: bool,
    input: TextArea<'static>,
    /// Rows between the last one shown and the end; zero follows.
    above: usize,
    /// Rows of text on the screen.
    page: usize,
    unfolded: bool,
    /// Messages of the person so far.
    said: Vec<String>,
    /// The message that is being written again.
    again: Option<usize>,
}

impl ChatScreen {
    /// A chat that begins.
    pub fn new(model: SafeText) -> Self {
        Self {
            model,
            entries: Vec::new(),
            tail: String::new(),
            tail_lines: Vec::new(),
            laid: (0, Style::new()),
            status: SafeText::line(""),
            is_busy: false,
            input: area(""),
            above: 0,
            page: 1,
            unfolded: false,
            said: Vec::new(),
            again: None,
        }
    }

    /// Something happened.
    pub fn event(&mut self, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match text("type") {
            "message" => {
                if let Some(at) = event["at"].as_u64() {
                    self.rewind(at as usize);
                }
                self.said.push(text("text").to_owned());
                self.push(Part::Person(text("text").to_owned()));
                (self.is_busy, self.above) = (true, 0);
            }
            "text" => {
                self.tail.push_str(text("text"));
                self.finish_blocks();
            }
            "toolCall" => {
                self.end_text();
                self.push(Part::Call {
                    id: text("id").to_owned(),
                    name: SafeText::line(text("name")),
                    arguments: SafeText::cut(&event["arguments"].to_string(), 400),
                    result: None,
                });
            }
            "toolResult" => {
                let (failed, took) = (event["isError"] == true, event["durationMs"].as_u64());
                let outcome = (failed, text("text").to_owned(), took.unwrap_or_default());
                let of = |entry: &&mut Entry| matches!(&entry.part, Part::Call { id, .. } if id == text("id"));
                if let Some(entry) = self.entries.iter_mut().rev().find(of) {
                    entry.lines.clear();
                    if let Part::Call { result, .. } = &mut entry.part {
                        *result = Some(outcome);
                    }
                }
            }
            "status" => {
                if text("status") == "retrying" {
                    self.tail.clear();
                }
                let (word, tool) = (text("status"), text("tool"));
                let message = if word == "reasoning" { "" } else { text("message") };
                self.status = SafeText::cut(&format!("{word} {tool} {message}"), 200);
            }
            "error" => {
                self.end_text();
                self.push(Part::Problem(SafeText::cut(text("message"), 400)));
            }
            "done" => {
                self.end_text();
                self.is_busy = false;
                self.status = SafeText::line("");
                let about = if event["usage"]["isEstimate"] == true { "about " } else { "" };
                let costs = event["costs"].as_array().into_iter().flatten().map(|cost| {
                    let tokens = ["definitions", "guidance"].map(|k| cost[k].as_u64().unwrap_or(0));
                    let server = cost["server"].as_str().unwrap_or_default();
                    format!("{server} {}", tokens[0] + tokens[1])
                });
                let note = format!(
                    "{}: {} calls, {about}{} tokens in, {} out; in every prompt about: {}",
                    text("reason"),
                    event["toolCalls"],
                    event["usage"]["input"],
                    event["usage"]["output"],
                    costs.collect::<Vec<_>>().join(", "),
                );
                self.push(Part::Note(SafeText::cut(&note, 400)));
            }
            _ => {}
        }
    }

    fn push(&mut self, part: Part) {
        self.entries.push(Entry { part, lines: Vec::new() });
    }

    /// Forgets a message of the person and what followed.
    fn rewind(&mut self, at: usize) {
        self.said.truncate(at);
        let asked = self.entries.iter().enumerate();
        let mut asked = asked.filter(|(_, entry)| matches!(entry.part, Part::Person(_)));
        if let Some((first, _)) = asked.nth(at) {
            self.entries.truncate(first);
        }
    }

    /// Takes blocks that are complete out of the end that grows: up to the last empty line outside of
    /// a block of code.
    fn finish_blocks(&mut self) {
        let (mut at, mut cut, mut in_code) = (0, 0, false);
        for line in self.tail.split_inclusive('\n') {
            at += line.len();
            if line.trim_start().starts_with("```") {
                in_code = !in_code;
            } else if line == "\n" && !in_code {
                cut = at;
            }
        }
        if cut > 0 {
            let rest = self.tail.split_off(cut);
            let block = std::mem::replace(&mut self.tail, rest);
            if !block.trim().is_empty() {
                self.push(Part::Text(block));
            }
        }
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.tail);
        if !text.trim().is_empty() {
            self.push(Part::Text(text));
        }
    }

    /// Brings lines up to date before a frame.
    fn lay_out(&mut self, look: &Look, area: Rect) {
        let before = self.rows();
        let text = self.text_area(area);
        self.page = usize::from(text.height).max(1);
        let width = text.width;
        if self.laid != (width, look.text) {
            self.laid = (width, look.text);
            self.entries.iter_mut().for_each(|entry| entry.lines.clear());
        }
        for entry in self.entries.iter_mut().filter(|entry| entry.lines.is_empty()) {
            entry.lines = draw::lines(&entry.part, self.unfolded, width, look);
        }
        self.tail_lines = if self.tail.is_empty() {
            Vec::new()
        } else {
            markdown::lines(&self.tail, width, look)
        };
        // Whoever reads further up goes on reading there.
        if self.above > 0 {
            self.above += self.rows().saturating_sub(before);
        }
    }

    fn rows(&self) -> usize {
        self.entries.iter().map(|entry| entry.lines.len()).sum::<usize>() + self.tail_lines.len()
    }

    /// Does an action; gives what it asks for.
    fn apply(&mut self, action: Action) -> Option<ChatCommand> {
        match action {
            Action::Send if !self.is_busy => {
                let text = self.input.lines().join("\n");
                if text.trim().is_empty() {
                    return None;
                }
                self.input = area("");
                return Some(ChatCommand::Say(text, self.again.take()));
            }
            Action::CancelCall if self.is_busy => return Some(ChatCommand::Abort),
            Action::EditAgain => {
                let at = self.again.unwrap_or(self.said.len()).checked_sub(1)?;
                self.input = area(&self.said[at]);
                self.again = Some(at);
            }
            Action::Fold => {
                self.unfolded = !self.unfolded;
                let calls = self.entries.iter_mut();
                calls.filter(|e| matches!(e.part, Part::Call { .. })).for_each(|e| e.lines.clear());
            }
            action => self.scroll(action.steps(self.page as isize)?),
        }
        None
    }

    /// Moves by so many rows; up is negative.
    fn scroll(&mut self, rows: isize) {
        let most = self.rows().saturating_sub(self.page);
        self.above = self.above.saturating_add_signed(rows.saturating_neg()).min(most);
    }

    /// Types one key.
    fn type_key(&mut self, key: KeyEvent) {
        let newline = key.modifiers.intersects(KeyModifiers::ALT | KeyModifiers::SHIFT);
        if key.code == KeyCode::Enter && newline {
            self.input.insert_newline();
        } else {
            edit(&mut self.input, key);
        }
        if self.input.is_empty() {
            self.again = None;
        }
    }
}

impl Screen for ChatScreen {
    fn scopes(&self) -> Vec<Scope> {
        vec![Scope::Chat]
    }

    fn help(&self) -> Help {
        ("keys: chat", &[(Scope::Chat, "in the chat")])
    }

    fn takes_letters(&self) -> bool {
        true
    }

    fn lets_through(&self, action: Action) -> bool {
        // What a call of the model waits for is approved in between.
        action == Action::Answer
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, _: &Cx<'_>, _: &mut Out) -> bool {
        if bound.is_none() {
            self.type_key(key);
        }
        bound.is_none()
    }

    fn act(&mut self, action: Action, _: &Cx<'_>, out: &mut Out) {
        if action == Action::Back {
            close(out);
        } else if let Some(command) = self.apply(action) {
            out.effect(Effect::Chat(command));
        }
    }

    fn paste(&mut self, text: &str, _: &Cx<'_>, _: &mut Out) {
        self.input.insert_str(text.replace("\r\n", "\n").replace('\r', "\n"));
    }

    fn mouse(&mut self, gesture: Gesture, _: &Cx<'_>, _: Rect, _: &mut Out) {
        if let Gesture::Scroll { delta, .. } = gesture {
            self.scroll(delta);
        }
    }

    fn prepare(&mut self, cx: &Cx<'_>, area: Rect) {
        self.lay_out(&cx.look(), area);
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.draw(&cx.look(), area, buf);
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        keys_of(keymap, &[Scope::Chat])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn screen(events: &[Value]) -> ChatScreen {
        let mut screen = ChatScreen::new(SafeText::line("m"));
        events.iter().for_each(|event| screen.event(event));
        screen.lay_out(&Look::default(), Rect::new(0, 0, 80, 24));
        screen
    }

    fn text(text: &str) -> Value {
        json!({"type": "text", "text": text})
    }

    fn shown(screen: &ChatScreen) -> String {
        let lines = screen.entries.iter().flat_map(|entry| &entry.lines).chain(&screen.tail_lines);
        let line = |line: &Line| line.iter().map(|(text, _)| text.as_str()).collect::<String>();
        lines.map(line).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn finished_blocks_are_laid_out_once_and_the_end_grows() {
        let mut screen = screen(&[text("# One\n\ntwo "), text("three\n\n```\na\n\nb")]);
        assert_eq!(screen.entries.len(), 2);
        assert!(screen.tail.starts_with("```"), "{:?}", screen.tail);
        let first = screen.entries[0].lines.as_ptr();
        screen.event(&text("\n```\n\nlast"));
        screen.lay_out(&Look::default(), Rect::new(0, 0, 80, 24));
        assert_eq!(screen.entries[0].lines.as_ptr(), first, "not laid out again");
        assert!(shown(&screen).ends_with("last"), "{}", shown(&screen));
    }

    #[test]
    fn a_call_is_one_line_with_time_and_unfolds_to_its_result() {
        let call = json!({"type": "toolCall", "id": "1", "name": "a__b", "arguments": {"n": 1}});
        let result = json!({"type": "toolResult", "id": "1", "isError": false, "text": "4\u{1b}2", "durationMs": 12});
        let mut screen = screen(&[call, result]);
        let line = shown(&screen);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains("a__b") && line.contains("12 ms") && line.contains(r#"{"n":1}"#));
        screen.apply(Action::Fold);
        screen.lay_out(&Look::default(), Rect::new(0, 0, 80, 24));
        assert!(shown(&screen).contains("4␛2"), "{}", shown(&screen));
    }

    #[test]
    fn a_message_is_written_again_and_replaces_what_followed() {
        let said = |text: &str, at: Option<u64>| json!({"type": "message", "text": text, "at": at});
        let done = json!({"type": "done", "reason": "end"});
        let mut screen =
            screen(&[said("one", None), text("1"), done.clone(), said("two", None), done]);
        screen.apply(Action::EditAgain);
        screen.apply(Action::EditAgain);
        screen.type_key(KeyEvent::from(KeyCode::Char('!')));
        let wanted = ChatCommand::Say("one!".to_owned(), Some(0));
        assert_eq!(screen.apply(Action::Send), Some(wanted));
        screen.event(&said("one!", Some(0)));
        assert_eq!((screen.said.len(), screen.entries.len()), (1, 1));
        assert_eq!(screen.apply(Action::Send), None, "nothing is typed");
        assert_eq!(screen.apply(Action::CancelCall), Some(ChatCommand::Abort));
    }
}
