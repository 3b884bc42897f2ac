//! The palette: every action, server, saved call and theme, and everything servers offer, found by
//! typing a few letters.

use crate::chat::port::ChatCommand;
use crate::effect::{Effect, Existing};
use crate::filter::contains;
use crate::find;
use crate::keymap::KeyScope;
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::pick::{CallPick, Choice, FilterPick, LinePrompt, Pick};
use crate::prelude::*;
use crate::result::ResultFile;
use crate::screen::{Frame, Screen, is_for_all};
use crate::widget::doc::wrap;
use crate::widget::pen::fit;
use crate::widget::{ListState, Pen, TextInput, width};

/// Columns of the reason why a row cannot be picked.
const MIN_REASON_COLUMNS: u16 = 20;

/// A list to search and pick from.
pub struct Palette {
    pub(super) title: Ink,
    /// What is typed.
    pub input: TextInput,
    /// Where its keys are bound, innermost first.
    pub scopes: &'static [KeyScope],
    /// Whether it lists the current subscriptions and tasks.
    pub is_watched: bool,
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
            scopes: &[KeyScope::Text],
            is_watched: false,
            choices,
            found: Vec::new(),
            list: ListState::default(),
        };
        palette.search();
        palette
    }

    /// Replaces the choices; the selection stays on its row, or near it.
    pub fn renew(&mut self, choices: Vec<Choice>) {
        let (index, selected) = (self.list.index(), self.selected().map(|one| one.pick.clone()));
        self.choices = choices;
        self.search();
        if !selected.is_some_and(|pick| self.select(&pick)) {
            self.list.select_index(index, &self.found[..]);
        }
    }

    pub(super) fn search(&mut self) {
        let typed = self.input.text().trim();
        self.found = find::rank(typed, &self.choices, Choice::fields);
        if !typed.is_empty() {
            // A name typed in full means the item of that name. What cannot be used is no first choice
            // among those that match as well: whoever spells it out learns why.
            self.found.sort_by_key(|n| {
                let choice = &self.choices[*n];
                let fields = choice.fields();
                let is_literal = contains(fields.name, typed) || contains(fields.context, typed);
                (choice.pick.rank(typed), !is_literal, choice.disabled.is_some())
            });
        }
        self.list.select_index(0, &self.found[..]);
    }

    /// Selects the choice with this pick; returns whether there is one.
    pub(super) fn select(&mut self, pick: &Pick) -> bool {
        let at = self.found.iter().position(|n| self.choices[*n].pick == *pick);
        self.list.select_index(at.unwrap_or(0), &self.found[..]);
        at.is_some()
    }

    /// The selected choice.
    pub(super) fn selected(&self) -> Option<&Choice> {
        self.choices.get(*self.list.selected()?)
    }

    pub(super) fn step(&mut self, delta: isize, height: usize) {
        self.list.step(delta, &self.found[..], height);
    }

    /// Picks the selected choice; without one, the palette closes.
    fn pick(&self, out: &mut Out) {
        match self.selected() {
            Some(choice) if choice.disabled.is_none() => out.pick(choice.pick.clone()),
            Some(_) => {}
            None => out.close(),
        }
    }

    /// Handles the mouse; returns whether a row was clicked, which is selected then.
    pub(super) fn clicked(&mut self, gesture: Gesture, inner: Rect) -> bool {
        let height = usize::from(inner.height).saturating_sub(1);
        match gesture {
            Gesture::Scroll { delta, .. } => self.step(delta, height),
            Gesture::Click(at) | Gesture::DoubleClick(at) if at.y > inner.y => {
                let row = self.list.top() + usize::from(at.y - inner.y - 1);
                if row < self.found.len() {
                    self.list.select_index(row, &self.found[..]);
                    return true;
                }
            }
            _ => {}
        }
        false
    }
}

impl Screen for Palette {
    fn scopes(&self) -> Vec<KeyScope> {
        self.scopes.to_vec()
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let width = if self.is_watched { 104 } else { (whole.width * 7 / 10).clamp(72, 104) };
        // A short list needs no more; what is typed does not change the frame.
        let rows = u16::try_from(self.choices.len()).unwrap_or(u16::MAX).saturating_add(5);
        Some((self.title.clone(), width, (whole.height * 2 / 3).min(rows).max(8)))
    }

    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action) && action != Action::Palette
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        Some(&mut self.input)
    }

    fn typed(&mut self) {
        self.search();
    }

    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) {
        let height = usize::from(ui.area.height.saturating_sub(1));
        match (action, self.selected().map(|one| &one.pick)) {
            (Action::Back | Action::Palette, _) => out.close(),
            (Action::Open, _) => self.pick(out),
            (Action::RemoveFilter, Some(Pick::Filter(FilterPick::Use(name)))) => {
                out.pick(Pick::Filter(FilterPick::Remove(name.clone())));
            }
            _ => self.step(action.steps(height.max(2) as isize - 1).unwrap_or_default(), height),
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        if self.clicked(gesture, ui.area) {
            self.pick(out);
        }
    }

    fn is_passing(&self) -> bool {
        true
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        if self.is_watched {
            self.renew(ui.model.watched_choices());
        }
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        self.input.render(Rect { height: area.height.min(1), ..area }, buf, cx.style(Role::Input));
        let rows = Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area };
        if self.found.is_empty() {
            let is_empty = self.choices.is_empty() && self.is_watched;
            let text = if is_empty { "No subscription and no task" } else { "No matches" };
            Pen::new(buf, rows).at(1, 0).put(text, cx.style(Role::Faint));
        }
        let selection = cx.style(Role::Selection);
        self.list.render(cx, &self.found[..], (rows, selection), buf, |pen, n| {
            let choice = &self.choices[self.found[n]];
            let role = if choice.disabled.is_some() { Role::Faint } else { Role::Text };
            let mut found = find::spans(self.input.text(), choice.words.as_str());
            // A reason has the room that the words leave.
            let spare = rows.width.saturating_sub(width(&choice.words) + 3);
            let reason = choice.disabled.as_ref().map(|reason| width(reason).min(spare));
            let least = reason.map_or(0, |wide| wide.max(MIN_REASON_COLUMNS));
            let room = rows.width.saturating_sub(width(&choice.hint).max(least) + 2);
            let cut = without_end(choice, room, cx.glyphs.ellipsis);
            if let Some((_, kept_bytes)) = &cut {
                found.retain(|part| part.end <= *kept_bytes);
            }
            let words = cut.as_ref().map_or(&choice.words, |(words, _)| words);
            pen.found(words, &found, room, cx.style(role), cx.style(Role::Match)).skip(1);
            match &choice.disabled {
                Some(reason) => pen.flush_right(reason, cx.style(Role::Faint)),
                None => pen.flush_right(&choice.hint, cx.style(Role::Key)),
            };
        });
    }
}

/// The words of a past call without their end, and how many bytes are left of them, where they are too
/// long: it begins with its name and ends with what matters least, so that not the middle is left out.
fn without_end(choice: &Choice, cells: u16, ellipsis: &'static str) -> Option<(Ink, usize)> {
    let Pick::Past(..) = &choice.pick else { return None };
    let words = choice.words.as_str();
    if fit(words, cells) == words.len() {
        return None;
    }
    let end = fit(words, cells.saturating_sub(1));
    Some((ink!("{}{}", Ink::line(&words[..end]), ellipsis), end))
}

// A prompt for a name or another text. Nothing happens without one, and `esc` changes nothing.

/// Longest name, in characters.
const MAX_NAME_CHARS: usize = 40;

/// What the name is for.
#[derive(Clone, Debug, PartialEq)]
pub enum Named {
    /// Save this filter under it, replacing one of that name.
    Filter(String),
    /// A text for the open call.
    Call(LinePrompt),
    /// The file that this is written to.
    File(ResultFile),
    /// The file of a recording to compare definitions with.
    Recording,
    /// The open conversation of the chat.
    Conversation,
    /// Words that conversations hold.
    Conversations,
}

/// A prompt for a name.
pub struct NamePrompt {
    title: Ink,
    /// What is typed.
    input: TextInput,
    /// The note below the line.
    note: Ink,
    named: Named,
    /// Names that are in use.
    taken: Vec<String>,
    /// Why what was typed before could not be used.
    problem: Option<SafeText>,
}

impl NamePrompt {
    /// Asks for a name, with `proposed` as the initial text.
    pub fn new(named: Named, proposed: &str, taken: Vec<String>) -> Self {
        let (title, note) = match &named {
            Named::Filter(text) => (ink!("save the filter as"), Ink::line(text)),
            Named::Call(line) => (ink!("{}", line.name()), Ink::default()),
            Named::File(_) => (ink!("write to the file"), Ink::default()),
            Named::Recording => (ink!("compare with the recording"), Ink::default()),
            Named::Conversation => (ink!("rename the conversation"), Ink::default()),
            Named::Conversations => (ink!("search the conversations"), Ink::default()),
        };
        Self { title, input: TextInput::new(proposed), note, named, taken, problem: None }
    }

    /// Asks again with what was `typed`, which could not be used for this reason.
    pub fn again(named: Named, typed: &str, problem: SafeText) -> Self {
        Self { problem: Some(problem), ..Self::new(named, typed, Vec::new()) }
    }

    fn name(&self) -> String {
        let longest =
            if matches!(self.named, Named::Filter(_)) { MAX_NAME_CHARS } else { usize::MAX };
        self.input.text().trim().chars().take(longest).collect()
    }
}

impl Screen for NamePrompt {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Ask]
    }

    fn frame(&self, _whole: Rect) -> Option<Frame> {
        Some((self.title.clone(), 64, 8))
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        Some(&mut self.input)
    }

    fn act(&mut self, action: Action, _ui: Ui<'_>, out: &mut Out) {
        match action {
            Action::Open if self.name().is_empty() => out.warn(ink!("type it first")),
            Action::Open => {
                let name = self.name();
                let pick = match self.named.clone() {
                    Named::File(content) => {
                        let (path, existing) = (name.into(), Existing::Keep);
                        out.effect(Effect::SaveAs { path, content, existing });
                        return out.close();
                    }
                    Named::Call(line) => Pick::Call(CallPick::Line(line, name)),
                    Named::Filter(text) => Pick::Filter(FilterPick::Save { name, text }),
                    Named::Recording => Pick::Recording(name),
                    Named::Conversation => Pick::Chat(ChatCommand::Rename(Some(name))),
                    Named::Conversations => Pick::Chat(ChatCommand::Find(Some(name))),
                };
                out.pick(pick);
            }
            Action::Back => out.close(),
            _ => {}
        }
    }

    fn is_passing(&self) -> bool {
        true
    }

    fn in_footer(&self, scope: KeyScope, _action: Action) -> bool {
        scope == KeyScope::Global
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let line = Rect { height: area.height.min(1), ..area };
        self.input.render(line, buf, cx.style(Role::Input));
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, 1).put(&self.note, cx.style(Role::Muted));
        let problem = self.problem.as_ref().map_or("", SafeText::as_str);
        let rows = 2..area.height.saturating_sub(1);
        for (row, line) in rows.zip(wrap(problem, area.width.max(8))) {
            pen.at(0, row).put(Ink::line(line), cx.style(Role::Error));
        }
        if self.taken.contains(&self.name()) {
            pen.at(0, 2).put("replaces the one of this name", cx.style(Role::Warning));
        }
        pen.at(0, area.height.saturating_sub(1));
        super::keys(cx, KeyScope::Ask, &mut pen, |action| match (action, &self.named) {
            (
                Action::Open,
                Named::Call(LinePrompt::Search | LinePrompt::File)
                | Named::Recording
                | Named::Conversations,
            ) => Some("ok"),
            (Action::Open, _) => Some("save"),
            (action, _) => Some(action.label()),
        });
    }
}
