//! One call of the model: its arguments and its result as trees that fold, text, and pictures.

use serde_json::json;
use terminal::graphics::Placement;

use crate::chat::call::ChatCall;
use crate::effect::{Effect, Existing};
use crate::form::draw::{Styles, put};
use crate::keymap::{KeyScope, Keymap};
use crate::message::{Message, ViewToken};
use crate::pane::{Availability, Cx, Gesture, Out, Ui, when};
use crate::prelude::*;
use crate::result::ResultView;
use crate::screen::{Help, Screen};
use crate::widget::{KeyLine, TextInput};

/// The token of its pictures: no screen of a call has this number.
const TOKEN: ViewToken = ViewToken { screen: usize::MAX, run: 0 };

pub(crate) struct ChatCallScreen {
    name: SafeText,
    /// How it ended, and whether it failed.
    ended: (SafeText, bool),
    pub(super) view: ResultView,
    /// The search text while it is typed.
    search: Option<TextInput>,
}

impl ChatCallScreen {
    pub(super) fn new(call: &ChatCall) -> Self {
        let mut value = json!({"arguments": call.arguments});
        let mut ended = (SafeText::line("still running"), false);
        if let Some(outcome) = &call.result {
            let text = json!({"type": "text", "text": outcome.text});
            value["content"] = std::iter::once(text).chain(outcome.pictures.clone()).collect();
            if let Ok(parsed @ (Value::Object(_) | Value::Array(_))) =
                serde_json::from_str(&outcome.text)
            {
                value["structuredContent"] = parsed;
            }
            let how = if outcome.is_error { "failed" } else { "answered" };
            let took = outcome.took.map(|took| format!(" after {}", Dur(took)));
            let took = took.unwrap_or_default();
            ended = (SafeText::line(&format!("{how}{took}")), outcome.is_error);
        }
        let is_tree = value.get("structuredContent").is_some();
        let has_pictures = call.result.as_ref().is_some_and(|it| !it.pictures.is_empty());
        let mut view = ResultView::new(value.into(), Vec::new());
        if is_tree && !has_pictures {
            view.show_structured();
        }
        Self { name: call.name.clone(), ended, view, search: None }
    }

    /// The region of the result: below the title, above the line of keys.
    fn inner(area: Rect) -> Rect {
        let height = area.height.saturating_sub(2);
        Rect { x: area.x + 1, y: area.y + 1, width: area.width.saturating_sub(2), height }
    }

    /// Writes the file that the result offers, if it does.
    fn save_file(&mut self, out: &mut Out) {
        if let Some((name, content)) = self.view.take_file() {
            out.effect(Effect::SaveAs { path: name.into(), content, existing: Existing::Keep });
        }
    }

    /// Whether an action means something for one call.
    const fn means(action: Action) -> bool {
        use Action as A;
        !matches!(
            action,
            A::Compare
                | A::SideBySide
                | A::Again
                | A::EditAgain
                | A::OpenApp
                | A::Subscribe
                | A::Older
                | A::Newer
        )
    }
}

impl Screen for ChatCallScreen {
    fn scopes(&self) -> Vec<KeyScope> {
        match self.search {
            Some(_) => vec![KeyScope::Text],
            None => vec![KeyScope::Result, KeyScope::Reader],
        }
    }

    fn help(&self) -> Option<Help> {
        let scopes = &[
            (KeyScope::Result, "in the result"),
            (KeyScope::ResultKeys, "after the key for more"),
        ];
        Some(("keys: a call of the chat", scopes))
    }

    fn availability(&self, action: Action) -> Availability {
        when(Self::means(action), "this is a call of the chat")
            .and_then(|()| self.view.availability(action))
    }

    fn takes_letters(&self) -> bool {
        self.search.is_some()
    }

    fn line(&mut self) -> Option<&mut TextInput> {
        self.search.as_mut()
    }

    fn act(&mut self, action: Action, _: Ui<'_>, out: &mut Out) {
        match (action, self.search.take()) {
            (Action::Open, Some(typed)) => self.view.search(typed.text(), out),
            (Action::Back, None) => out.close(),
            (Action::Search, None) => self.search = Some(TextInput::default()),
            (action, None) if Self::means(action) => self.view.apply(action, out),
            _ => {}
        }
        self.save_file(out);
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        match gesture {
            Gesture::Scroll { delta, .. } => self.view.move_by(delta),
            Gesture::Click(at) | Gesture::DoubleClick(at) => {
                self.view.click(at, Self::inner(ui.area), out);
                self.save_file(out);
            }
        }
    }

    fn receive(&mut self, message: &Message, _: &mut Out) -> bool {
        match message {
            Message::PictureDone(token, done) if *token == TOKEN => {
                self.view.picture_done((**done).clone());
                true
            }
            _ => false,
        }
    }

    fn work(&mut self, look: &Styles, area: Rect, out: &mut Out) {
        self.view.prepare(Self::inner(area), look);
        if let Some(job) = self.view.picture_job() {
            out.effect(Effect::Picture(TOKEN, Box::new(job)));
        }
    }

    fn prepare(&mut self, ui: Ui<'_>) {
        self.view.prepare(Self::inner(ui.area), &ui.styles());
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.height < 3 || area.width < 4 {
            return;
        }
        let look = cx.styles();
        let room = |x: u16| area.right().saturating_sub(x);
        let x = put(buf, area.x + 1, area.y, room(area.x + 1), &self.name, look.label);
        let style = if self.ended.1 { look.error } else { look.muted };
        let x = put(buf, x + 2, area.y, room(x + 2), &self.ended.0, style);
        if let Some(typed) = &self.search {
            let x = put(buf, x + 2, area.y, room(x + 2), "search: ", look.accent);
            typed.render(Rect { x, width: room(x), height: 1, ..area }, buf, look.text);
        }
        self.view.render(&look, Self::inner(area), buf);
    }

    fn placements(&self, look: &Styles, area: Rect) -> Vec<Placement> {
        self.view.placements(look, Self::inner(area))
    }

    fn key_line(&self, keymap: &Keymap) -> KeyLine {
        let labels = keymap.labels(&self.scopes()).into_iter();
        let labels = labels.filter(|(.., action)| Self::means(*action));
        let worded = labels.filter_map(|(key, word, action)| match action {
            Action::Open => Some((key, self.view.enters()?)),
            _ => Some((key, word)),
        });
        KeyLine::new(worded.collect(), keymap.help_label())
    }

    fn region_at(&self, area: Rect, _: Position) -> Rect {
        Self::inner(area)
    }
}
