//! The palette: every action, server, saved call and theme, and whatever servers offer, found by
//! typing a few letters.

use std::sync::Arc;

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;

use super::Verdict;
use crate::base::{LogLevel, ServerName};
use crate::host::{RuleKind, SessionRule};
use crate::mcp::capabilities::ListKind;
use crate::tui::action::Action;
use crate::tui::chat::port::ChatCommand;
use crate::tui::effect::ClientOrder;
use crate::tui::find::{self, Fields};
use crate::tui::ink::Ink;
use crate::tui::keymap::Scope;
use crate::tui::pane::{Cx, Gesture};
use crate::tui::theme::Role;
use crate::tui::widget::{ListState, Pen, TextInput};

/// What picking a row does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pick {
    /// An action.
    Action(Action),
    /// Narrow everything to a server.
    Server(ServerName),
    /// Something about the saved filters.
    Filter(FilterPick),
    /// Open a saved call.
    SavedCall(String),
    /// Make a saved call.
    MakeCall(String),
    /// Fill in a call of what a server offers: its list, and the name or URI there.
    Offer(ServerName, ListKind, Arc<str>),
    /// Use a theme.
    Theme(String),
    /// Add a server made like this template.
    Template(usize),
    /// Answer an input of the configuration.
    Input(String),
    /// Turn the tour's page.
    TourPage(isize),
    /// Ask a server for a log level; none means the host's own view.
    LogLevel(Option<ServerName>, LogLevel),
    /// Something about requests of servers.
    Approval(ApprovalPick),
    /// Ask something of the chat.
    Chat(ChatCommand),
    /// Do something about a client of the service.
    Client(ClientOrder, String),
}

impl Pick {
    /// How near it is to a whole name that was typed: saved calls first, then what servers offer,
    /// then whatever else fits.
    fn rank(&self, typed: &str) -> u8 {
        match self {
            Self::MakeCall(name) if name.eq_ignore_ascii_case(typed) => 0,
            Self::SavedCall(name) if name.eq_ignore_ascii_case(typed) => 1,
            Self::Offer(server, _, wire)
                if **wire == *typed
                    || typed
                        .strip_prefix(server.as_str())
                        .and_then(|rest| rest.strip_prefix('.'))
                        .is_some_and(|rest| rest == &**wire) =>
            {
                2
            }
            _ => 3,
        }
    }
}

/// What picking a row does about saved filters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterPick {
    /// Show the traffic through the one of this name.
    Use(String),
    /// Save a filter under a name.
    Save {
        /// The name.
        name: String,
        /// The filter.
        text: String,
    },
    /// Ask what the one of this name is to be called.
    AskRename(String),
    /// Call one otherwise.
    Rename {
        /// Its name so far.
        from: String,
        /// Its name from now on.
        to: String,
    },
    /// Remove the one of this name.
    Remove(String),
    /// Take the last change back.
    Undo,
}

/// What picking a row does about requests of servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalPick {
    /// Take this result into the draft of the answer.
    Take(Box<Value>),
    /// Fill in a call of this tool of the request.
    Tool(usize),
    /// Send the answer, and answer so many of the next ones the same way; `None` for all.
    SendNext(Option<u32>),
    /// Choose the rule for one kind of requests of a server.
    Rules(ServerName, RuleKind),
    /// Decide by this rule from now on; `None` lets the entry decide.
    Rule(ServerName, RuleKind, Option<SessionRule>),
    /// Change the roots shared with a server.
    Roots(ServerName),
}

/// One row.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What it does, in words.
    pub words: Ink,
    /// Its key, or what kind of thing it is.
    pub hint: Ink,
    /// What picking it does.
    pub pick: Pick,
    /// Why it cannot be picked now.
    pub disabled: Option<Ink>,
}

impl Choice {
    fn fields(&self) -> Fields<'_> {
        let words = self.words.as_str();
        match &self.pick {
            Pick::Offer(_, _, wire) => Fields { name: wire, context: words, text: "" },
            _ => Fields { name: words, context: self.hint.as_str(), text: "" },
        }
    }
}

/// A list to search and pick from.
#[derive(Clone, Debug)]
pub struct Palette {
    /// Its title.
    pub title: Ink,
    /// What is typed.
    pub input: TextInput,
    /// Where its keys are bound, innermost first.
    pub scopes: &'static [Scope],
    choices: Vec<Choice>,
    /// Indices of the choices that match, best first.
    found: Vec<usize>,
    list: ListState<usize>,
}

impl Palette {
    /// A palette over `choices`.
    pub fn new(title: Ink, choices: Vec<Choice>) -> Self {
        let mut palette = Self {
            title,
            input: TextInput::default(),
            scopes: &[Scope::Text],
            choices,
            found: Vec::new(),
            list: ListState::default(),
        };
        palette.search();
        palette
    }

    fn search(&mut self) {
        let typed = self.input.text().trim();
        self.found = find::rank(typed, &self.choices, Choice::fields);
        if !typed.is_empty() {
            // Whoever types a whole name means what is called so.
            self.found.sort_by_key(|n| self.choices[*n].pick.rank(typed));
        }
        let found = &self.found;
        self.list.select_index(0, found.len(), |n| found[n]);
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        let taken = self.input.key(key);
        self.search();
        taken
    }

    pub(super) fn act(&mut self, action: Action, height: usize) -> Verdict {
        let page = height.max(2) as isize - 1;
        match action {
            Action::Up => self.step(-1, height),
            Action::Down => self.step(1, height),
            Action::PageUp => self.step(-page, height),
            Action::PageDown => self.step(page, height),
            Action::Back | Action::Palette => return Verdict::Close,
            Action::Open => return self.pick(),
            Action::RenameFilter | Action::RemoveFilter => return self.change(action),
            Action::UndoFilter => return Verdict::Pick(Pick::Filter(FilterPick::Undo)),
            Action::QuitNow | Action::Help => return Verdict::Pass,
            _ => {}
        }
        Verdict::Stay
    }

    fn step(&mut self, delta: isize, height: usize) {
        let found = &self.found;
        self.list.step(delta, found.len(), |n| found[n]);
        self.list.reveal(self.found.len(), height);
    }

    fn pick(&self) -> Verdict {
        match self.list.selected().and_then(|n| self.choices.get(*n)) {
            Some(choice) if choice.disabled.is_none() => Verdict::Pick(choice.pick.clone()),
            Some(_) => Verdict::Stay,
            None => Verdict::Close,
        }
    }

    /// Renames or removes the selected filter.
    fn change(&self, action: Action) -> Verdict {
        let selected = self.list.selected().and_then(|n| self.choices.get(*n));
        let Some(Pick::Filter(FilterPick::Use(name))) = selected.map(|choice| &choice.pick) else {
            return Verdict::Stay;
        };
        Verdict::Pick(Pick::Filter(match action {
            Action::RenameFilter => FilterPick::AskRename(name.clone()),
            _ => FilterPick::Remove(name.clone()),
        }))
    }

    pub(super) fn mouse(&mut self, gesture: Gesture, inner: Rect) -> Verdict {
        let height = usize::from(inner.height).saturating_sub(1);
        match gesture {
            Gesture::Scroll { delta, .. } => self.step(delta, height),
            Gesture::Click(at) | Gesture::DoubleClick(at) if at.y > inner.y => {
                let row = self.list.top() + usize::from(at.y - inner.y - 1);
                if row < self.found.len() {
                    let found = &self.found;
                    self.list.select_index(row, found.len(), |n| found[n]);
                    return self.pick();
                }
            }
            _ => {}
        }
        Verdict::Stay
    }

    pub(super) fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.input.render(Rect { height: area.height.min(1), ..area }, buf, cx.style(Role::Input));
        let rows = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        if self.found.is_empty() {
            Pen::new(buf, rows).at(1, 0).put("No matches", cx.style(Role::Faint));
        }
        for (row, n) in self.list.window(self.found.len(), usize::from(rows.height)).enumerate() {
            let index = self.found[n];
            let choice = &self.choices[index];
            let line = Rect { y: rows.y + row as u16, height: 1, ..rows };
            let role = if choice.disabled.is_some() { Role::Faint } else { Role::Text };
            let mut pen = Pen::new(buf, line).ellipsis(cx.glyphs.ellipsis);
            let selected = self.list.selected() == Some(&index);
            pen.put(if selected { cx.glyphs.cursor } else { " " }, cx.style(Role::Accent));
            let found = find::spans(self.input.text(), choice.words.as_str());
            let room = line.width.saturating_sub(22);
            pen.found(&choice.words, &found, room, cx.style(role), cx.style(Role::Match)).skip(1);
            match &choice.disabled {
                Some(reason) => pen.flush_right(reason, cx.style(Role::Faint)),
                None => pen.flush_right(&choice.hint, cx.style(Role::Key)),
            };
            if selected {
                pen.row_style(cx.style(Role::Selection));
            }
        }
    }
}
