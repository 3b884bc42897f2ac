//! A line that asks for a name or another text. Nothing happens without one, and `esc` leaves
//! everything as it was.

use crossterm::event::KeyEvent;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{CallPick, FilterPick, Line, Pick, Verdict};
use crate::tui::action::Action;
use crate::tui::ink::{Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::pane::{Cx, Out};
use crate::tui::theme::Role;
use crate::tui::widget::{Pen, TextInput};

/// Longest name, in characters.
const LONGEST: usize = 40;

/// What the name is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// This filter is saved under it; one of that name is replaced.
    Filter(String),
    /// The saved filter of this name is called so from now on.
    Rename(String),
    /// Something of the call that is open.
    Call(Line),
}

/// A question for a name.
#[derive(Clone, Debug)]
pub struct Ask {
    /// What is asked.
    pub title: Ink,
    /// What is typed.
    pub input: TextInput,
    /// What is said below the line.
    note: Ink,
    named: Named,
    /// Names that are in use.
    taken: Vec<String>,
}

impl Ask {
    /// Asks for a name, with `proposed` typed already.
    pub fn new(named: Named, proposed: &str, taken: Vec<String>) -> Self {
        let (title, note) = match &named {
            Named::Filter(text) => (ink!("save the filter as"), Ink::line(text)),
            Named::Rename(from) => (ink!("rename {} to", Ink::line(from)), Ink::default()),
            Named::Call(line) => (ink!("{}", line.title()), Ink::default()),
        };
        Self { title, input: TextInput::new(proposed), note, named, taken }
    }

    fn name(&self) -> String {
        let longest = if matches!(self.named, Named::Call(_)) { usize::MAX } else { LONGEST };
        self.input.text().trim().chars().take(longest).collect()
    }

    fn is_taken(&self) -> bool {
        let name = self.name();
        self.taken.contains(&name) && self.named != Named::Rename(name)
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> bool {
        self.input.key(key)
    }

    pub(super) fn act(&self, action: Action, out: &mut Out) -> Verdict {
        match action {
            Action::Open if self.name().is_empty() => out.warn(ink!("type it first")),
            Action::Open => {
                let name = self.name();
                if let Named::Call(line) = self.named {
                    return Verdict::Pick(Pick::Call(CallPick::Line(line, name)));
                }
                return Verdict::Pick(Pick::Filter(match self.named.clone() {
                    Named::Call(_) => return Verdict::Close,
                    Named::Filter(text) => FilterPick::Save { name, text },
                    Named::Rename(_) if self.is_taken() => {
                        out.warn(ink!("{} exists already", Ink::line(&name)));
                        return Verdict::Stay;
                    }
                    Named::Rename(from) => FilterPick::Rename { from, to: name },
                }));
            }
            Action::Back => return Verdict::Close,
            Action::QuitNow | Action::Help | Action::Redraw | Action::Suspend => {
                return Verdict::Pass;
            }
            _ => {}
        }
        Verdict::Stay
    }

    pub(super) fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer) {
        let line = Rect { height: area.height.min(1), ..area };
        self.input.render(line, buf, cx.style(Role::Input));
        let mut pen = Pen::new(buf, area).ellipsis(cx.glyphs.ellipsis);
        pen.at(0, 1).put(&self.note, cx.style(Role::Muted));
        if self.is_taken() {
            let text: &'static str = match self.named {
                Named::Filter(_) => "replaces the one of this name",
                Named::Rename(_) | Named::Call(_) => "this name is taken",
            };
            pen.at(0, 2).put(text, cx.style(Role::Warning));
        }
        pen.at(0, area.height.saturating_sub(1));
        let word = if matches!(self.named, Named::Call(Line::Search | Line::File)) {
            "ok"
        } else {
            "save"
        };
        for (action, word) in [(Action::Open, word), (Action::Back, "back")] {
            if let Some(key) = cx.keymap.key_while_typing(&[Scope::Ask], action.id()) {
                pen.put(Ink::line(&key.to_string()), cx.style(Role::Key));
                pen.put(ink!(" {}   ", word), cx.style(Role::Muted));
            }
        }
    }
}
