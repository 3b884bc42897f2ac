//! A value the configuration asks for (`${input:id}`): typed, masked if it is a password, or picked
//! from a list. It is shown nowhere else, and stored only in the keyring on request.

use super::Palette;
use crate::effect::{ConfigCommand, Effect, KeepInput};
use crate::keymap::KeyScope;
use crate::model::{InputState, InputView, Model, Todo};
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::pick::{Choice, Pick};
use crate::prelude::*;
use crate::screen::{Frame, Screen};
use crate::widget::{Pen, TextInput};
use base::secret::Secret;
use config::InputKind;
use deck::Keyring;

/// One input being answered.
pub struct InputDialog {
    view: InputView,
    /// What is typed, which may be a password, and the choices that match it.
    palette: Palette,
    keep: KeepInput,
    keyring: bool,
}

/// Rows around the choices: description, typed text; gap, who asks, where it is kept, keys.
const FRAME_ROWS: u16 = 6;
/// Most choices shown at a time.
const MAX_CHOICE_ROWS: u16 = 8;

impl InputDialog {
    /// A dialog for an input, filled in with its default.
    pub fn new(view: InputView, keyring: bool) -> Self {
        let keep =
            if view.state == InputState::Kept { KeepInput::Keyring } else { KeepInput::Memory };
        let default = view.input.default.as_deref().unwrap_or_default();
        let mut palette = Palette::new(ink!("input {}", Ink::line(&view.input.id)), choices(&view));
        palette.input = TextInput::of_secret();
        if !palette.select(&Pick::Input(default.to_owned())) && options(&view).is_empty() {
            palette.input.insert(default);
        }
        Self { view, palette, keep, keyring }
    }

    fn is_pick(&self) -> bool {
        matches!(self.view.input.kind, InputKind::PickString { .. })
    }

    fn answer(&self, out: &mut Out) {
        let value = match self.palette.selected().map(|choice| &choice.pick) {
            Some(Pick::Input(option)) => option.clone(),
            _ if self.is_pick() => return out.warn(ink!("choose a value first")),
            // Empty text is no answer, unless the default in the file is empty.
            _ if self.palette.input.text().is_empty()
                && self.view.input.default.as_deref() != Some("") =>
            {
                return out.warn(ink!("type a value first"));
            }
            _ => self.palette.input.text().to_owned(),
        };
        let id = self.view.input.id.clone();
        let answer = ConfigCommand::Answer { id, value: Secret::new(value), keep: self.keep };
        out.effect(Effect::Config(answer));
        out.close();
    }

    /// The region of the input line and the choices.
    fn below(inner: Rect) -> Rect {
        let height = inner.height.saturating_sub(FRAME_ROWS - 1).min(MAX_CHOICE_ROWS + 1);
        Rect { y: inner.y + 1, height, ..inner }
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

impl Screen for InputDialog {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Input]
    }

    fn frame(&self, _whole: Rect) -> Option<Frame> {
        let choices = (options(&self.view).len() as u16).min(MAX_CHOICE_ROWS);
        Some((self.palette.title.clone(), 76, FRAME_ROWS + choices + 3))
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        Some(&mut self.palette.input)
    }

    fn typed(&mut self) {
        self.palette.search();
    }

    fn act(&mut self, action: Action, _ui: Ui<'_>, out: &mut Out) {
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
                out.close();
            }
            Action::Open => self.answer(out),
            Action::Back => {
                if !self.view.servers.is_empty() {
                    out.notify("{show-inbox} lists it", Role::Warning);
                }
                out.close();
            }
            action => self.palette.step(
                action.steps(MAX_CHOICE_ROWS as isize).unwrap_or_default(),
                MAX_CHOICE_ROWS.into(),
            ),
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, _out: &mut Out) {
        // A click only selects; it does not answer.
        self.palette.clicked(gesture, Self::below(ui.area));
    }

    /// It closes when the input was answered elsewhere, is no longer needed or of another kind: what
    /// was typed hidden must not appear. Otherwise what is typed stays.
    fn follow(&mut self, model: &Model) -> bool {
        let mut views = model.situation.inputs.iter();
        let is_same = |view: &&InputView| {
            let kinds = (&view.input.kind, &self.view.input.kind);
            let is_pick = matches!(kinds.0, InputKind::PickString { .. }) && self.is_pick();
            view.input.id == self.view.input.id
                && view.state == self.view.state
                && (is_pick || kinds.0 == kinds.1)
        };
        let Some(now) = views.find(is_same) else { return false };
        if *now != self.view {
            self.view = now.clone();
            self.palette.renew(choices(&self.view));
        }
        true
    }

    fn shows(&self, todo: &Todo) -> bool {
        matches!(todo, Todo::Input(id) if *id == self.view.input.id)
    }

    fn decision(&self) -> Option<String> {
        Some(format!("input {:?}", self.view.input))
    }

    fn decides(&self, action: Action) -> bool {
        matches!(action, Action::Open | Action::Forget)
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
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

    fn in_footer(&self, scope: KeyScope, _action: Action) -> bool {
        scope == KeyScope::Global
    }
}

fn choices(view: &InputView) -> Vec<Choice> {
    let choice = |one: &String| Choice::new(Ink::line(one), ink!(""), Pick::Input(one.clone()));
    options(view).iter().map(choice).collect()
}

/// The options to choose from; empty if text is typed.
fn options(view: &InputView) -> &[String] {
    match &view.input.kind {
        InputKind::PickString { options } => options,
        InputKind::PromptString { .. } => &[],
    }
}
