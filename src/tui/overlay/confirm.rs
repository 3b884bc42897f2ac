//! A yes/no question; nothing happens without a yes.

use crate::effect::{ConfigCommand, Effect};
use crate::intent::Intent;
use crate::keymap::KeyScope;
use crate::model::Model;
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::pick::Pick;
use crate::prelude::*;
use crate::screen::{Frame, Screen};
use crate::widget::{Doc, Pen};
use config::ConfigChange;

/// A question.
pub struct Confirm {
    title: Ink,
    /// What it means.
    lines: Vec<Ink>,
    /// What a yes does.
    yes: Vec<Intent>,
    /// The change of the configuration it is about. It opened unprompted: a yes counts only after
    /// there was time to read.
    plan: Option<ConfigChange>,
}

/// Width of the yes in cells, and of yes and no together.
const YES_COLUMNS: u16 = 10;
const BOTH_COLUMNS: u16 = 20;

impl Confirm {
    /// A question raised by the user's own key.
    pub const fn new(title: Ink, lines: Vec<Ink>, yes: Vec<Intent>) -> Self {
        Self { title, lines, yes, plan: None }
    }

    /// Whether to apply a changed configuration; `lines` says what it changes.
    pub fn plan(plan: ConfigChange, lines: Vec<Ink>) -> Self {
        let yes = vec![Effect::Config(ConfigCommand::Apply).into()];
        let title = ink!("apply the changed configuration?");
        Self { plan: Some(plan), ..Self::new(title, lines, yes) }
    }

    /// Its lines, wrapped in full for a screen of this width.
    fn text(&self, screen: u16) -> Doc {
        let mut doc = Doc::new(screen.saturating_sub(4).min(60));
        for line in &self.lines {
            doc.text(0, line, Role::Text);
        }
        doc
    }

    /// Whether a yes quits: then the key that quits from anywhere is a yes too.
    fn quits(&self) -> bool {
        self.yes == [Intent::Perform(Effect::Quit)]
    }
}

impl Screen for Confirm {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![KeyScope::Confirm]
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        Some((self.title.clone(), 64, self.text(whole.width).len() as u16 + 5))
    }

    fn takes_letters(&self) -> bool {
        false
    }

    fn lets_through(&self, action: Action) -> bool {
        matches!(action, Action::Suspend | Action::Redraw)
            || action == Action::QuitNow && !self.quits()
    }

    fn act(&mut self, action: Action, _ui: Ui<'_>, out: &mut Out) {
        match action {
            Action::Back => out.close(),
            Action::Confirm | Action::QuitNow => {
                out.close();
                out.intents.append(&mut self.yes);
            }
            _ => {}
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let Gesture::Click(at) = gesture else { return };
        if at.y + 1 == ui.area.bottom() {
            match at.x.saturating_sub(ui.area.x) {
                0..YES_COLUMNS => out.intend(Intent::Pick(Pick::Action(Action::Confirm))),
                YES_COLUMNS..BOTH_COLUMNS => out.close(),
                _ => {}
            }
        }
    }

    fn follow(&mut self, model: &Model) -> bool {
        self.plan.is_none() || self.plan == model.situation.plan
    }

    fn decision(&self) -> Option<String> {
        self.plan.as_ref().map(|plan| format!("{plan:?}"))
    }

    fn decides(&self, action: Action) -> bool {
        action == Action::Confirm
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let text = Rect { height: area.height.saturating_sub(1), ..area };
        self.text(buf.area.width).render(cx, 0, text, buf);
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, area.height.saturating_sub(1));
        for (column, name, word) in [(0, "{confirm}", " yes"), (YES_COLUMNS, "{back}", " no")] {
            pen.column(column);
            pen.put(cx.spelled(&[KeyScope::Confirm], name), cx.style(Role::Key));
            pen.put(word, cx.style(Role::Muted));
        }
    }
}
