//! A value that the configuration asks for (`${input:id}`): typed, masked when it is a password, or
//! picked from a list. What is typed here is shown nowhere else and written nowhere.

use super::Verdict;
use crate::base::secret::Secret;
use crate::config::InputKind;
use crate::deck::keyring::Keyring;
use crate::tui::effect::{ConfigCommand, Effect, Keep};
use crate::tui::find;
use crate::tui::keymap::Scope;
use crate::tui::model::{InputState, InputView, Model};
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::prelude::*;
use crate::tui::widget::{ListState, Pen, TextInput};

/// One input being answered.
#[derive(Clone)]
pub struct InputDialog {
    /// The input.
    pub view: InputView,
    /// What is typed.
    pub(super) typed: TextInput,
    keep: Keep,
    keyring: bool,
    /// Choices that fit what is typed.
    found: Vec<usize>,
    list: ListState<usize>,
}

impl std::fmt::Debug for InputDialog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What is typed may be a password.
        f.debug_struct("InputDialog").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Rows above and below the choices: description, typed text, gap; gap, who asks, where it is kept,
/// keys.
const AROUND: u16 = 7;
/// Most choices shown at a time.
const CHOICES: u16 = 8;

impl InputDialog {
    /// A dialog for an input; what is offered stands there already.
    pub fn new(view: InputView, keyring: bool) -> Self {
        let keep = if view.state == InputState::Kept { Keep::Keyring } else { Keep::Memory };
        let mut dialog = Self {
            view,
            typed: TextInput::default(),
            keep,
            keyring,
            found: Vec::new(),
            list: ListState::default(),
        };
        let default = dialog.view.input.default.clone();
        match (&dialog.view.input.kind, default) {
            (InputKind::PromptString { .. }, Some(default)) => {
                dialog.typed = TextInput::new(&default);
            }
            (InputKind::PickString { options }, default) => {
                let at = default.and_then(|d| options.iter().position(|o| *o == d)).unwrap_or(0);
                dialog.found = (0..options.len()).collect();
                dialog.list.select_index(at, &dialog.found[..]);
            }
            (InputKind::PromptString { .. }, None) => {}
        }
        dialog
    }

    /// Its title.
    pub fn title(&self) -> Ink {
        ink!("input {}", Ink::line(&self.view.input.id))
    }

    /// Rows it wants, the frame included.
    pub(super) fn height(&self) -> u16 {
        let choices = match &self.view.input.kind {
            InputKind::PickString { options } => (options.len() as u16).clamp(1, CHOICES),
            InputKind::PromptString { .. } => return AROUND + 2,
        };
        AROUND + choices + 3
    }

    fn options(&self) -> &[String] {
        match &self.view.input.kind {
            InputKind::PickString { options } => options,
            InputKind::PromptString { .. } => &[],
        }
    }

    const fn is_pick(&self) -> bool {
        matches!(self.view.input.kind, InputKind::PickString { .. })
    }

    pub(super) fn search(&mut self) {
        if self.is_pick() {
            self.found =
                find::rank(self.typed.text(), self.options(), |option| option.as_str().into());
            self.list.select_index(0, &self.found[..]);
        }
    }

    pub(super) fn act(&mut self, action: Action, out: &mut Out) -> Verdict {
        match action {
            Action::Keep if self.keyring => {
                self.keep = match self.keep {
                    Keep::Memory => Keep::Keyring,
                    Keep::Keyring => Keep::Memory,
                };
            }
            Action::Keep => {
                let program = Keyring::program_name();
                out.warn(ink!("there is no keyring here: {program} is not on PATH"));
            }
            Action::Forget if self.view.state == InputState::Open => {
                out.warn(ink!("there is no answer to forget"));
            }
            Action::Forget => {
                let id = self.view.input.id.clone();
                out.effect(Effect::Config(ConfigCommand::Forget(id)));
                return Verdict::Close;
            }
            Action::Open => return self.answer(out),
            Action::Back => {
                if !self.view.servers.is_empty() {
                    out.tell("{show-inbox} lists it", Role::Warning);
                }
                return Verdict::Close;
            }
            action => self.step(action.steps(CHOICES as isize).unwrap_or_default()),
        }
        Verdict::Stay
    }

    fn step(&mut self, delta: isize) {
        self.list.step(delta, &self.found[..], usize::from(CHOICES));
    }

    fn answer(&self, out: &mut Out) -> Verdict {
        let value = if self.is_pick() {
            let picked = self.list.selected().filter(|n| self.found.contains(n));
            let Some(option) = picked.and_then(|n| self.options().get(*n)) else {
                out.warn(ink!("choose a value first"));
                return Verdict::Stay;
            };
            option.clone()
        } else {
            let typed = self.typed.text();
            // Nothing typed is no answer, unless the file offers nothing as one.
            if typed.is_empty() && self.view.input.default.as_deref() != Some("") {
                out.warn(ink!("type a value first"));
                return Verdict::Stay;
            }
            typed.to_owned()
        };
        let id = self.view.input.id.clone();
        let answer = ConfigCommand::Answer { id, value: Secret::new(value), keep: self.keep };
        out.effect(Effect::Config(answer));
        Verdict::Close
    }

    pub(super) fn mouse(&mut self, gesture: Gesture, inner: Rect) {
        match gesture {
            Gesture::Scroll { delta, .. } => self.step(delta.signum()),
            Gesture::Click(at) | Gesture::DoubleClick(at) if self.is_pick() => {
                let first = inner.y + 3;
                let row = self.list.top() + usize::from(at.y.saturating_sub(first));
                if at.y >= first && row < self.found.len() {
                    self.list.select_index(row, &self.found[..]);
                }
            }
            _ => {}
        }
    }

    pub(super) fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.put(Ink::line(&self.view.input.description), cx.style(Role::Foreign));
        let line = Rect { y: area.y + 1, height: area.height.saturating_sub(1).min(1), ..area };
        if matches!(self.view.input.kind, InputKind::PromptString { password: true }) {
            let sign = if cx.glyphs.ellipsis == "~" { '*' } else { '•' };
            self.typed.render_masked(line, buf, cx.style(Role::Input), sign);
        } else {
            self.typed.render(line, buf, cx.style(Role::Input));
        }
        let below =
            Rect { y: area.y + 3, height: area.height.saturating_sub(AROUND).min(CHOICES), ..area };
        self.render_choices(cx, below, buf);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, area.height.saturating_sub(3));
        pen.put(self.standing(), cx.style(Role::Muted));
        pen.at(0, area.height.saturating_sub(2));
        let kept: &'static str = match self.keep {
            Keep::Memory => "kept until mcpdeck quits, not written to disk",
            Keep::Keyring => "kept in the keyring of this computer",
        };
        pen.put(kept, cx.style(Role::Muted));
        pen.at(0, area.height.saturating_sub(1));
        super::keys(cx, Scope::Input, &mut pen, |action| match action {
            Action::Keep if !self.keyring => None,
            Action::Keep if self.keep == Keep::Keyring => Some("only until mcpdeck quits"),
            Action::Forget if self.view.state == InputState::Open => None,
            Action::Open => Some("use it"),
            Action::Back => Some("later"),
            action => Some(action.label()),
        });
    }

    fn render_choices(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        if !self.is_pick() {
            return;
        }
        if self.found.is_empty() {
            Pen::new(buf, area).put("No matches", cx.style(Role::Faint));
        }
        let selection = cx.style(Role::Selection);
        self.list.render(cx, &self.found[..], (area, selection), buf, |pen, n| {
            let option = self.options().get(self.found[n]).map(|option| Ink::line(option));
            pen.put(option.unwrap_or_default(), cx.style(Role::Text));
        });
    }

    /// Who waits for it, and whether there is an answer already.
    fn standing(&self) -> Ink {
        let mut text = match self.view.state {
            InputState::Open => Ink::default(),
            InputState::Answered => ink!("answered; a new answer restarts the servers that use it"),
            InputState::Kept => {
                ink!("answered from the keyring; a new answer restarts the servers that use it")
            }
            InputState::Variable => ink!("answered by a variable; an answer here wins over it"),
        };
        if let Some(first) = self.view.servers.first() {
            text.push(ink!("{} waits for it", Model::name(first)));
            let more = self.view.servers.len() - 1;
            if more > 0 {
                text.push(ink!(", and {} more", more));
            }
        }
        text
    }
}
