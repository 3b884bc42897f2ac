//! What the next key does, after one that waits for another: a small list at the foot of the screen.
//! Any other key closes it.

use crossterm::event::KeyEvent;

use crate::keymap::KeyScope;
use crate::pane::{Cx, Gesture, Out, Ui};
use crate::pick::Pick;
use crate::prelude::*;
use crate::screen::{Frame, Screen, is_for_all};
use crate::widget::{Pen, width};

/// Most columns, the frame included.
const MAX_COLUMNS: u16 = 96;

/// One of the keys.
pub struct NextKey {
    pub action: Action,
    pub key: Ink,
    pub help: Ink,
    /// Why it does nothing now.
    pub disabled: Option<Ink>,
}

/// The keys that can follow.
pub struct NextKeys {
    title: Ink,
    scope: KeyScope,
    keys: Vec<NextKey>,
}

impl NextKeys {
    /// The keys of a scope.
    pub const fn new(title: Ink, scope: KeyScope, keys: Vec<NextKey>) -> Self {
        Self { title, scope, keys }
    }

    /// Columns of the longest of the keys.
    fn key_columns(&self) -> u16 {
        self.keys.iter().map(|one| width(&one.key)).max().unwrap_or(0).max(3)
    }

    /// Those keys.
    pub fn keys(&self) -> &[NextKey] {
        &self.keys
    }
}

impl Screen for NextKeys {
    fn scopes(&self) -> Vec<KeyScope> {
        vec![self.scope]
    }

    fn frame(&self, whole: Rect) -> Option<Frame> {
        let columns = |one: &NextKey| {
            width(&one.help) + one.disabled.as_ref().map_or(0, |why| width(why) + 4)
        };
        let widest = self.keys.iter().map(columns).max().unwrap_or(0);
        let widest = widest + self.key_columns() + 6;
        let most = MAX_COLUMNS.min(whole.width);
        let height = u16::try_from(self.keys.len()).unwrap_or(u16::MAX).saturating_add(3);
        Some((self.title.clone(), widest.max(width(&self.title) + 6).min(most), height))
    }

    fn is_at_foot(&self) -> bool {
        true
    }

    fn takes_letters(&self) -> bool {
        false
    }

    fn lets_through(&self, action: Action) -> bool {
        is_for_all(action)
    }

    fn key(&mut self, _key: KeyEvent, bound: Option<Action>, _ui: Ui<'_>, out: &mut Out) -> bool {
        if bound.is_none() {
            out.close();
        }
        bound.is_none()
    }

    fn act(&mut self, action: Action, _ui: Ui<'_>, out: &mut Out) {
        match action {
            Action::Back => out.close(),
            action => out.pick(Pick::Action(action)),
        }
    }

    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out) {
        let (Gesture::Click(at) | Gesture::DoubleClick(at)) = gesture else { return };
        let row = at.y.checked_sub(ui.area.y).map(usize::from);
        if let Some(one) = row.and_then(|row| self.keys.get(row)) {
            out.pick(Pick::Action(one.action));
        }
    }

    fn is_passing(&self) -> bool {
        true
    }

    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        let columns = self.key_columns();
        for (row, one) in (0..area.height).zip(&self.keys) {
            let is_off = one.disabled.is_some();
            let (key, text) =
                if is_off { (Role::Faint, Role::Faint) } else { (Role::Key, Role::Text) };
            pen.at(0, row).left(&one.key, columns, cx.style(key));
            pen.skip(1).put(&one.help, cx.style(text));
            if let Some(why) = &one.disabled {
                pen.put(ink!("  ({})", why), cx.style(Role::Faint));
            }
        }
    }

    fn in_footer(&self, scope: KeyScope, action: Action) -> bool {
        scope == KeyScope::Global || action == Action::Back
    }
}
