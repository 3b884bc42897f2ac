//! A value the configuration asks for (`${input:id}`): typed, masked if it is a password, or picked
//! from a list. It is shown nowhere else, and stored only in the keyring on request.

use super::{OverlayReply, Palette};
use crate::base::secret::Secret;
use crate::config::InputKind;
use crate::deck::Keyring;
use crate::tui::effect::{ConfigCommand, Effect, KeepInput};
use crate::tui::keymap::KeyScope;
use crate::tui::model::{InputState, InputView, Model};
use crate::tui::pane::{Cx, Gesture, Out};
use crate::tui::pick::{Choice, Pick};
use crate::tui::prelude::*;
use crate::tui::widget::{Pen, TextInput};

/// One input being answered.
#[derive(Clone)]
pub struct InputDialog {
    /// The input.
    pub view: InputView,
    /// What is typed, and the choices that match it.
    pub(super) palette: Palette,
    keep: KeepInput,
    keyring: bool,
}

impl std::fmt::Debug for InputDialog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What is typed may be a password.
        f.debug_struct("InputDialog").field("view", &self.view).finish_non_exhaustive()
    }
}

/// Rows around the choices: description, typed text; gap, who asks, where it is kept, keys.
const AROUND: u16 = 6;
/// Most choices shown at a time.
const CHOICES: u16 = 8;

impl InputDialog {
    /// A dialog for an input, filled in with its default.
    pub fn new(view: InputView, keyring: bool) -> Self {
        let keep =
            if view.state == InputState::Kept { KeepInput::Keyring } else { KeepInput::Memory };
        let default = view.input.default.as_deref().unwrap_or_default();
        let choice = |one: &String| Choice::new(Ink::line(one), ink!(""), Pick::Input(one.clone()));
        let choices = options(&view).iter().map(choice);
        let mut palette =
            Palette::new(ink!("input {}", Ink::line(&view.input.id)), choices.collect());
        if !palette.select(&Pick::Input(default.to_owned())) && options(&view).is_empty() {
            palette.input = TextInput::new(default);
        }
        Self { view, palette, keep, keyring }
    }

    /// Rows it wants, the frame included.
    pub(super) fn height(&self) -> u16 {
        let choices = (options(&self.view).len() as u16).min(CHOICES);
        AROUND + choices + 3
    }

    fn is_pick(&self) -> bool {
        matches!(self.view.input.kind, InputKind::PickString { .. })
    }

    pub(super) fn act(&mut self, action: Action, out: &mut Out) -> OverlayReply {
        match action {
            Action::Keep if self.keyring => {
                self.keep = match self.keep {
                    KeepInput::Memory => KeepInput::Keyring,
                    KeepInput::Keyring => KeepInput::Memory,
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
                return OverlayReply::Close;
            }
            Action::Open => return self.answer(out),
            Action::Back => {
                if !self.view.servers.is_empty() {
                    out.notify("{show-inbox} lists it", Role::Warning);
                }
                return OverlayReply::Close;
            }
            action => self
                .palette
                .step(action.steps(CHOICES as isize).unwrap_or_default(), CHOICES.into()),
        }
        OverlayReply::Stay
    }

    fn answer(&self, out: &mut Out) -> OverlayReply {
        let value = match self.palette.selected().map(|choice| &choice.pick) {
            Some(Pick::Input(option)) => option.clone(),
            _ if self.is_pick() => {
                out.warn(ink!("choose a value first"));
                return OverlayReply::Stay;
            }
            // Empty text is no answer, unless the default in the file is empty.
            _ if self.palette.input.text().is_empty()
                && self.view.input.default.as_deref() != Some("") =>
            {
                out.warn(ink!("type a value first"));
                return OverlayReply::Stay;
            }
            _ => self.palette.input.text().to_owned(),
        };
        let id = self.view.input.id.clone();
        let answer = ConfigCommand::Answer { id, value: Secret::new(value), keep: self.keep };
        out.effect(Effect::Config(answer));
        OverlayReply::Close
    }

    pub(super) fn mouse(&mut self, gesture: Gesture, inner: Rect) {
        // A click only selects; it does not answer.
        _ = self.palette.mouse(gesture, Self::below(inner));
    }

    /// The region of the input line and the choices.
    fn below(inner: Rect) -> Rect {
        let height = inner.height.saturating_sub(AROUND - 1).min(CHOICES + 1);
        Rect { y: inner.y + 1, height, ..inner }
    }

    pub(super) fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.put(Ink::line(&self.view.input.description), cx.style(Role::Foreign));
        let line = Rect { y: area.y + 1, height: area.height.saturating_sub(1).min(1), ..area };
        match self.view.input.kind {
            InputKind::PromptString { password: true } => {
                let sign = if cx.glyphs.is_ascii() { '*' } else { '•' };
                self.palette.input.render_masked(line, buf, cx.style(Role::Input), sign);
            }
            InputKind::PromptString { .. } => {
                self.palette.input.render(line, buf, cx.style(Role::Input));
            }
            InputKind::PickString { .. } => self.palette.render(cx, Self::below(area), buf),
        }
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, area.height.saturating_sub(3));
        pen.put(self.standing(), cx.style(Role::Muted));
        pen.at(0, area.height.saturating_sub(2));
        let kept: &'static str = match self.keep {
            KeepInput::Memory => "kept until mcpdeck quits, not written to disk",
            KeepInput::Keyring => "kept in the keyring of this computer",
        };
        pen.put(kept, cx.style(Role::Muted));
        pen.at(0, area.height.saturating_sub(1));
        super::keys(cx, KeyScope::Input, &mut pen, |action| match action {
            Action::Keep if !self.keyring => None,
            Action::Keep if self.keep == KeepInput::Keyring => Some("only until mcpdeck quits"),
            Action::Forget if self.view.state == InputState::Open => None,
            Action::Open => Some("use it"),
            Action::Back => Some("later"),
            action => Some(action.label()),
        });
    }

    /// Which server waits for it, and whether there is an answer already.
    fn standing(&self) -> Ink {
        let mut text = match self.view.state {
            InputState::Open => Ink::default(),
            InputState::Answered => ink!("answered; a new answer restarts the servers that use it"),
            InputState::Kept => {
                ink!("answered from the keyring; a new answer restarts the servers that use it")
            }
            InputState::Variable => ink!("answered by a variable; an answer here overrides it"),
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

/// The options to choose from; empty if text is typed.
fn options(view: &InputView) -> &[String] {
    match &view.input.kind {
        InputKind::PickString { options } => options,
        InputKind::PromptString { .. } => &[],
    }
}
