//! The chat screen: the conversation, calls folded to a line, and the message being typed. Pure:
//! takes events as the JSON objects of `mcpdeck help chat`, returns commands.
//!
//! Finished parts are laid out once; only the end of a streaming answer is laid out again.

mod call;
mod draw;
pub mod port;
#[cfg(test)]
mod tests;
mod viewer;

use std::fmt::Write as _;

use crossterm::event::KeyEvent;
use ratatui_textarea::TextArea;

use crate::chat::call::{ChatCall, ChatOutcome};
use crate::chat::port::{ChatCommand, ChatNews, Choose};
use crate::chat::viewer::ChatCallScreen;
use crate::effect::Effect;
use crate::form::draw::Styles;
use crate::form::editor::{area, edit};
use crate::keymap::{KeyScope, Keymap};
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::prelude::*;
use crate::result::markdown::{self, MarkdownSpan};
use crate::screen::{Help, Screen, is_for_all};
use crate::widget::{KeyLine, TextInput};
use host::{HostView, ServerView};
use protocol::ApprovalId;
use terminal::text_input::breaks_line;

type ChatLine = Vec<MarkdownSpan>;

/// A part of the conversation.
#[derive(Debug)]
enum ChatPart {
    Person(String),
    /// Complete Markdown blocks of the model.
    Text(String),
    Call(ChatCall),
    Note(SafeText),
    Problem(SafeText),
}

#[derive(Debug)]
struct ChatEntry {
    part: ChatPart,
    /// Laid out lines; empty until then.
    lines: Vec<ChatLine>,
}

/// The incomplete end of the streaming answer.
#[derive(Debug, Default)]
struct StreamedText {
    text: String,
    /// Where the first line begins that is not complete.
    read: usize,
    /// Whether that is within a block of code.
    is_code: bool,
    /// How much of the text the lines on the screen show.
    laid_bytes: usize,
}

impl StreamedText {
    /// Takes the complete blocks: up to the last empty line outside of a block of code. Each line is
    /// looked at once.
    fn take_blocks(&mut self) -> String {
        let mut end = 0;
        while let Some(length) = self.text[self.read..].find('\n') {
            let line = &self.text[self.read..=self.read + length];
            self.read += line.len();
            if line.trim_start().starts_with("```") {
                self.is_code = !self.is_code;
            } else if line == "\n" && !self.is_code {
                end = self.read;
            }
        }
        if end == 0 {
            return String::new();
        }
        (self.read, self.laid_bytes) = (self.read - end, 0);
        let rest = self.text.split_off(end);
        std::mem::replace(&mut self.text, rest)
    }
}

#[derive(Debug, Default)]
pub struct ChatScreen {
    /// Model and profile.
    with: SafeText,
    entries: Vec<ChatEntry>,
    tail: StreamedText,
    tail_lines: Vec<ChatLine>,
    /// The region and style that entries are laid out for.
    laid: (Rect, Style),
    status: SafeText,
    /// Hint at a server request or guarded call that waits for the user.
    waits: SafeText,
    is_busy: bool,
    input: TextArea<'static>,
    /// The search text while it is typed, and the row found last.
    search: Option<(TextInput, Option<usize>)>,
    /// Index of the entry of the selected call.
    selected: Option<usize>,
    /// Rows between the last one shown and the end; 0 follows the end.
    above: usize,
    unfolded: bool,
    /// Messages to try in an empty conversation, and the next one to write.
    suggestions: Vec<SafeText>,
    suggested: usize,
    /// Tokens and cost of the last turn and the conversation, the longest wording first.
    spent: Vec<SafeText>,
    /// Messages of the user so far, but for those that a summary replaced before it was opened.
    said: Vec<String>,
    /// How many those are.
    replaced: usize,
    /// Index of the message being edited and sent again.
    again: Option<usize>,
    /// The last `done` event, with the cost of the turn.
    pub(super) turn: Value,
}

impl ChatScreen {
    /// Whether there is a conversation to go back to.
    pub const fn is_used(&self) -> bool {
        !self.entries.is_empty()
    }

    /// The request that this conversation waits for: whether a call may be made, or what a server
    /// asks while a call of it is under way.
    pub fn own_request(&self, view: &HostView) -> Option<ApprovalId> {
        let is_open = |entry: &&ChatEntry| {
            matches!(&entry.part, ChatPart::Call(ChatCall { result: None, .. }))
        };
        let open = self.entries.iter().filter(is_open);
        let servers = open.filter_map(|entry| match &entry.part {
            ChatPart::Call(call) => call.server.as_deref(),
            ChatPart::Person(_) | ChatPart::Text(_) | ChatPart::Note(_) | ChatPart::Problem(_) => {
                None
            }
        });
        let servers: Vec<&str> = servers.collect();
        let here = view.pending.values().filter(|it| servers.contains(&it.server.as_str()));
        let here: Vec<(Option<&str>, ApprovalId)> =
            here.map(|it| (it.params["caller"].as_str(), it.id)).collect();
        let is_own = |caller: &str| caller.starts_with("chat:dashboard");
        let own = here.iter().find(|(caller, _)| caller.is_some_and(is_own));
        // A server asks; else another caller does.
        own.or_else(|| here.iter().find(|(caller, _)| caller.is_none())).map(|(_, id)| *id)
    }

    /// Handles news from the chat task.
    pub fn news(&mut self, news: ChatNews) {
        match news {
            ChatNews::Event(event) => self.event(&event),
            ChatNews::With(with) => self.with = with,
            ChatNews::Opened { with, events, busy, suggestions } => {
                let input = std::mem::take(&mut self.input);
                *self = Self { with, input, suggestions, laid: self.laid, ..Self::default() };
                for event in &events {
                    self.event(event);
                }
                self.end_text();
                (self.is_busy, self.status) = (busy, SafeText::default());
            }
            ChatNews::Unsent(text) => {
                if self.input.is_empty() {
                    self.input = area(&text);
                }
            }
            ChatNews::Choices(..) | ChatNews::Prompt(..) | ChatNews::Failed(_) => {}
        }
    }

    fn event(&mut self, event: &Value) {
        let text = |key: &str| event[key].as_str().unwrap_or_default();
        match text("type") {
            "message" => {
                if let Some(at) = event["at"].as_u64() {
                    self.rewind(at as usize);
                }
                self.said.push(text("text").to_owned());
                self.push(ChatPart::Person(text("text").to_owned()));
                (self.is_busy, self.above) = (true, 0);
            }
            "text" => {
                self.tail.text.push_str(text("text"));
                let blocks = self.tail.take_blocks();
                self.push_text(blocks);
            }
            "toolCall" => {
                self.end_text();
                self.push(ChatPart::Call(ChatCall {
                    id: text("id").to_owned(),
                    name: SafeText::line(text("name")),
                    server: event["server"].as_str().map(str::to_owned),
                    arguments: event["arguments"].clone(),
                    progress: SafeText::default(),
                    result: None,
                }));
            }
            "toolProgress" => {
                let progress = SafeText::cut(text("message"), 200);
                self.change_call(text("id"), |call| call.progress = progress);
            }
            "toolResult" => {
                let outcome = ChatOutcome {
                    is_error: event["isError"] == true,
                    text: text("text").to_owned(),
                    pictures: event["pictures"].as_array().cloned().unwrap_or_default(),
                    took: event["durationMs"].as_u64().map(Duration::from_millis),
                };
                self.change_call(text("id"), |call| call.result = Some(outcome));
            }
            "status" => {
                let (word, tool) = (text("status"), text("tool"));
                if let Some(replaced) = event["replaced"].as_u64() {
                    self.replaced = replaced as usize;
                }
                if word == "retrying" {
                    self.void_answer();
                }
                if matches!(word, "leftOut" | "stopped" | "shortened" | "summarised") {
                    self.end_text();
                    self.push(ChatPart::Note(SafeText::cut(text("message"), 400)));
                }
                let message = if word == "reasoning" { "" } else { text("message") };
                self.status = SafeText::cut(&format!("{word} {tool} {message}"), 200);
            }
            "error" => {
                self.end_text();
                self.push(ChatPart::Problem(SafeText::cut(text("message"), 400)));
            }
            "done" => {
                self.end_text();
                self.is_busy = false;
                self.status = SafeText::default();
                self.spent = spent(event).iter().map(|text| SafeText::cut(text, 120)).collect();
                // How it ended is told once.
                let ended = SafeText::cut(text("message"), 400);
                let is_it = |entry: &mut ChatEntry| matches!(&entry.part, ChatPart::Note(told) if *told == ended);
                let _ = self.entries.pop_if(is_it);
                let note = turn_note(event);
                self.push(ChatPart::Note(SafeText::cut(&note, 400)));
                self.turn = event.clone();
            }
            _ => {}
        }
    }

    /// Changes a call and lays it out again.
    fn change_call(&mut self, id: &str, change: impl FnOnce(&mut ChatCall)) {
        let is_it = |e: &&mut ChatEntry| matches!(&e.part, ChatPart::Call(call) if call.id == id);
        let Some(entry) = self.entries.iter_mut().rev().find(is_it) else { return };
        entry.lines.clear();
        if let ChatPart::Call(call) = &mut entry.part {
            change(call);
        }
    }

    fn push(&mut self, part: ChatPart) {
        self.entries.push(ChatEntry { part, lines: Vec::new() });
    }

    /// Removes a message of the user and everything after it.
    fn rewind(&mut self, at: usize) {
        let Some(at) = at.checked_sub(self.replaced) else { return };
        self.said.truncate(at);
        let asked = self.entries.iter().enumerate();
        let mut asked = asked.filter(|(_, entry)| matches!(entry.part, ChatPart::Person(_)));
        if let Some((first, _)) = asked.nth(at) {
            self.entries.truncate(first);
            self.selected.take_if(|at| *at >= first);
        }
    }

    /// Discards the answer since the last call or message, as the model is asked again.
    fn void_answer(&mut self) {
        self.tail = StreamedText::default();
        while self.entries.last().is_some_and(|entry| matches!(entry.part, ChatPart::Text(_))) {
            self.entries.pop();
        }
    }

    fn push_text(&mut self, text: String) {
        if !text.trim().is_empty() {
            self.push(ChatPart::Text(text));
        }
    }

    fn end_text(&mut self) {
        let tail = std::mem::take(&mut self.tail);
        self.push_text(tail.text);
    }

    /// Updates the laid out lines before a frame.
    fn lay_out(&mut self, look: &Styles, area: Rect) {
        let before = self.rows();
        let text = self.text_area(area);
        if (self.laid.0.width, self.laid.1) != (area.width, look.text) {
            for entry in &mut self.entries {
                entry.lines.clear();
            }
            self.tail.laid_bytes = 0;
        }
        self.laid = (area, look.text);
        for entry in self.entries.iter_mut().filter(|entry| entry.lines.is_empty()) {
            entry.lines = draw::lines(&entry.part, self.unfolded, text.width, look);
        }
        if self.tail.text.is_empty() {
            self.tail_lines.clear();
        } else if self.tail.laid_bytes != self.tail.text.len() {
            self.tail_lines = markdown::lines(&self.tail.text, text.width, look);
            self.tail.laid_bytes = self.tail.text.len();
        }
        // Keeps the position if the user has scrolled up.
        if self.above > 0 {
            self.above += self.rows().saturating_sub(before);
        }
    }

    fn rows(&self) -> usize {
        self.entries.iter().map(|entry| entry.lines.len()).sum::<usize>() + self.tail_lines.len()
    }

    fn page(&self) -> usize {
        usize::from(self.text_area(self.laid.0).height).max(1)
    }

    /// The row after the last one shown.
    fn end(&self) -> usize {
        self.rows().saturating_sub(self.above)
    }

    /// Performs an action.
    fn apply(&mut self, action: Action, out: &mut Out) {
        let command = match action {
            Action::Back if self.search.take().is_some() => return,
            Action::Back if self.selected.take().is_some() => return,
            Action::Back => return out.close(),
            Action::Send if self.search.is_some() => return self.find(),
            Action::Send => {
                let text = self.input.lines().join("\n");
                match self.selected {
                    Some(at) if text.is_empty() => return self.open(at, out),
                    _ if text.trim().is_empty() => return,
                    _ if self.is_busy => {
                        return out.refuse("the answer is not complete: {cancel-call} stops it");
                    }
                    _ => {}
                }
                self.input = area("");
                ChatCommand::Say(text, self.again.take())
            }
            Action::CancelCall => match self.selected.and_then(|at| self.call(at)) {
                Some(call) if call.result.is_none() => ChatCommand::CancelCall(call.id.clone()),
                _ if self.is_busy => ChatCommand::Abort,
                _ => return,
            },
            Action::EditAgain => {
                let last = self.replaced + self.said.len();
                let before = self.again.unwrap_or(last).checked_sub(self.replaced + 1);
                let Some(at) = before else { return };
                self.input = area(&self.said[at]);
                self.again = Some(self.replaced + at);
                return;
            }
            Action::History => ChatCommand::List(Choose::Conversation),
            Action::ChatModel => ChatCommand::List(Choose::Model),
            Action::ChatProfile => ChatCommand::List(Choose::Profile),
            Action::ChatContext => ChatCommand::Prompt,
            Action::Branch => ChatCommand::Branch(self.again.take()),
            Action::Fold => {
                self.unfolded = !self.unfolded;
                for entry in &mut self.entries {
                    if matches!(entry.part, ChatPart::Call(_)) {
                        entry.lines.clear();
                    }
                }
                return;
            }
            Action::NextBlock => return self.select_call(),
            Action::Search => return self.search = Some((TextInput::default(), None)),
            Action::Save => {
                let content = self.markdown().into_bytes();
                return out.effect(Effect::Save { name: "chat.md".into(), content });
            }
            action => {
                if let Some(rows) = action.steps(self.page() as isize) {
                    self.scroll(rows);
                }
                return;
            }
        };
        out.effect(Effect::Chat(command));
    }

    fn call(&self, at: usize) -> Option<&ChatCall> {
        match &self.entries.get(at)?.part {
            ChatPart::Call(call) => Some(call),
            _ => None,
        }
    }

    /// Selects the call before the selected one, wrapping around to the last. In an empty
    /// conversation it writes the next suggestion.
    fn select_call(&mut self) {
        if self.entries.is_empty() && !self.suggestions.is_empty() {
            let text = self.suggestions[self.suggested % self.suggestions.len()].to_string();
            self.suggested += 1;
            self.input = area(&text);
            return;
        }
        let last = |before: usize| (0..before).rev().find(|at| self.call(*at).is_some());
        let len = self.entries.len();
        self.selected = self.selected.and_then(last).or_else(|| last(len));
        if let Some(at) = self.selected {
            let row = self.entries[..at].iter().map(|entry| entry.lines.len()).sum();
            self.reveal(row);
        }
    }

    /// Opens the arguments and result of a call.
    fn open(&self, at: usize, out: &mut Out) {
        if let Some(call) = self.call(at) {
            out.open(ChatCallScreen::new(call));
        }
    }

    /// Goes to the match above the last one found, wrapping around to the last.
    fn find(&mut self) {
        let Some((typed, found)) = &self.search else { return };
        let typed = typed.text().to_lowercase();
        let line = |line: &ChatLine| line.iter().map(|(text, _)| text.as_str()).collect::<String>();
        let all = self.entries.iter().flat_map(|entry| &entry.lines).chain(&self.tail_lines);
        let rows = all.enumerate().filter(|(_, row)| line(row).to_lowercase().contains(&typed));
        let rows: Vec<usize> = rows.map(|(at, _)| at).collect();
        let before = rows.iter().rev().find(|row| found.is_none_or(|found| **row < found));
        let next = before.or(rows.last()).copied().filter(|_| !typed.is_empty());
        if let Some((_, found)) = &mut self.search {
            *found = next;
        }
        if let Some(row) = next {
            self.reveal(row);
        }
    }

    /// Scrolls until a row is visible.
    fn reveal(&mut self, row: usize) {
        let end = self.end();
        if row >= end || row < end.saturating_sub(self.page()) {
            let most = self.rows().saturating_sub(self.page());
            let below = self.rows().saturating_sub(row + self.page() / 2);
            self.above = below.min(most);
        }
    }

    /// Scrolls by a number of rows; negative is up.
    fn scroll(&mut self, rows: isize) {
        let most = self.rows().saturating_sub(self.page());
        self.above = self.above.saturating_add_signed(rows.saturating_neg()).min(most);
    }

    fn type_key(&mut self, key: KeyEvent) {
        if let Some((typed, found)) = &mut self.search {
            if typed.key(key) {
                *found = None;
            }
            return;
        }
        if breaks_line(key) {
            self.input.insert_newline();
        } else {
            edit(&mut self.input, key);
        }
        if self.input.is_empty() {
            self.again = None;
        }
    }

    /// The conversation as Markdown.
    fn markdown(&self) -> String {
        let mut out = format!("# Chat with {}\n", self.with);
        for entry in &self.entries {
            match &entry.part {
                ChatPart::Person(text) => _ = write!(out, "\n## You\n\n{text}\n\n## Answer\n"),
                ChatPart::Text(text) => _ = write!(out, "\n{}\n", text.trim()),
                ChatPart::Call(call) => {
                    _ = write!(out, "\n- `{}` `{}`", call.name, call.arguments);
                    if let Some(outcome) = &call.result {
                        let how = if outcome.is_error { " failed" } else { "" };
                        let text = outcome.text.replace('\n', "\n      ");
                        _ = write!(out, "{how}\n\n      {text}\n");
                    }
                }
                ChatPart::Note(text) | ChatPart::Problem(text) => _ = write!(out, "\n*{text}*\n"),
            }
        }
        out
    }
}

/// The note on how a turn ended and what it cost.
fn turn_note(done: &Value) -> String {
    let about = if done["usage"]["isEstimate"] == true { "about " } else { "" };
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let calls = count(number(&done["toolCalls"]) as usize, "call");
    let mut out = format!(
        "{}: {calls}, {about}{} tokens in, {} out",
        done["message"].as_str().or(done["reason"].as_str()).unwrap_or_default(),
        number(&done["usage"]["input"]),
        number(&done["usage"]["output"]),
    );
    let mut lead = "; of every prompt: ";
    for cost in done["costs"].as_array().into_iter().flatten() {
        let prompt = number(&cost["definitions"]) + number(&cost["guidance"]);
        let server = cost["server"].as_str().unwrap_or_default();
        _ = write!(out, "{lead}{server} {prompt}");
        lead = " · ";
        if number(&cost["results"]) > 0 {
            _ = write!(out, " + {} of results", number(&cost["results"]));
        }
        if let Some(dollars) = cost["dollars"].as_f64() {
            _ = write!(out, " ${dollars:.4}");
        }
    }
    out
}

/// What the last turn and the conversation have cost, the longest wording first.
fn spent(done: &Value) -> Vec<String> {
    let number = |key: &str| done["usage"][key].as_u64().unwrap_or_default();
    let mut cached = String::new();
    if number("cached") > 0 {
        cached = format!(" ({} cached)", number("cached"));
    }
    let (input, output) = (number("input"), number("output"));
    let (mut money, mut all) = (String::new(), String::new());
    if let Some(dollars) = done["cost"].as_f64() {
        money = format!(" · ${dollars:.4}");
    }
    if let Some(dollars) = done["sessionCost"].as_f64() {
        all = format!("${dollars:.4} in all");
        _ = write!(money, ", {all}");
    }
    let short = format!("{input} in, {output} out");
    let mut out = vec![
        format!("{input} in{cached}, {output} out{money}"),
        format!("{short}{}{all}", if all.is_empty() { "" } else { " · " }),
    ];
    out.push(if all.is_empty() { short } else { all });
    out
}

/// Messages to try with these servers.
fn suggestions(view: &HostView) -> Vec<SafeText> {
    let has_tools = |server: &&Arc<ServerView>| !server.capabilities.tools.is_empty();
    let servers = view.servers.values().filter(has_tools);
    let mut out: Vec<SafeText> = servers
        .take(2)
        .map(|server| SafeText::cut(&format!("What can you do for me with {}?", server.name), 200))
        .collect();
    out.push(SafeText::line("Which of your tools only read, and which change something?"));
    out
}

impl Screen for ChatScreen {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Chat]
    }

    fn help(&self) -> Option<Help> {
        Some(("keys: chat", &[(KeyScope::Chat, "in the chat")]))
    }

    fn lets_through(&self, action: Action) -> bool {
        // Approvals that a call of the model waits for can be opened over the chat.
        is_for_all(action) || action == Action::Answer
    }

    fn key(&mut self, key: KeyEvent, bound: Option<Action>, _: Ui<'_>, _: &mut Out) -> bool {
        // An unbound shift-enter falls back to the binding of enter, so check for it first.
        let types = bound.is_none() || breaks_line(key) && self.search.is_none();
        if types {
            self.type_key(key);
        }
        types
    }

    fn act(&mut self, action: Action, _: Ui<'_>, out: &mut Out) {
        self.apply(action, out);
    }

    fn paste(&mut self, text: &str, _: Ui<'_>, _: &mut Out) {
        match &mut self.search {
            Some((typed, _)) => typed.insert(text),
            None => _ = self.input.insert_str(text.replace("\r\n", "\n").replace('\r', "\n")),
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let text = self.text_area(ui.area);
        match gesture {
            Gesture::Scroll { delta, .. } => self.scroll(delta),
            Gesture::Click(at) if text.contains(at) => {
                let first = self.end().saturating_sub(usize::from(text.height));
                let mut row = first + usize::from(at.y - text.y);
                let clicked = self.entries.iter().position(|entry| {
                    let here = row < entry.lines.len();
                    row = row.saturating_sub(entry.lines.len());
                    here
                });
                if let Some(at) = clicked.filter(|at| self.call(*at).is_some()) {
                    self.selected = Some(at);
                    self.open(at, out);
                }
            }
            _ => {}
        }
    }

    fn unsaved(&self) -> Option<&'static str> {
        self.is_busy.then_some("The answer of the model is not complete.")
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        if self.entries.is_empty() && self.suggestions.is_empty() {
            self.suggestions = suggestions(&ui.model.view);
        }
        self.waits = SafeText::default();
        let pending = &ui.model.view.pending;
        let own = self.own_request(&ui.model.view).and_then(|id| pending.get(&id));
        if let Some(request) = own.or_else(|| pending.values().next()) {
            let of = request.during.as_ref().map(|call| format!(" {call}")).unwrap_or_default();
            let key =
                ui.keymap.spelled(&[KeyScope::Chat, KeyScope::Global], " {answer} to answer ");
            let words = match request.params["tool"].as_str() {
                Some(tool) if own.is_some() => format!(" may {tool} be called?{key}"),
                Some(_) | None => format!(" {}{of} waits for you:{key}", request.server),
            };
            self.waits = SafeText::cut(&words, 200);
        }
        self.lay_out(&ui.styles(), ui.area);
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.draw(&cx.styles(), area, buf);
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        let is_new = self.entries.is_empty();
        let calls = self.entries.iter().any(|entry| matches!(entry.part, ChatPart::Call(_)));
        let means = |action: Action| match action {
            Action::CancelCall => self.is_busy,
            Action::NextBlock if is_new => !self.suggestions.is_empty(),
            Action::NextBlock => calls,
            Action::EditAgain => !self.said.is_empty(),
            _ => true,
        };
        let keys = keymap.labels(&[KeyScope::Chat]).into_iter();
        let keys = keys.filter(|(.., action)| means(*action));
        let worded = |(key, word, action)| match action {
            Action::NextBlock if is_new => (key, "example"),
            _ => (key, word),
        };
        KeyLine::new(keys.map(worded).collect(), keymap.help_label())
    }
}
