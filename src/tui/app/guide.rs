//! The first steps: one line at the foot of the screen that names the next key to try. It takes no
//! key away, covers nothing, and goes on when that key is pressed.

use crate::keymap::{KeyScope, Keymap};
use crate::prelude::*;

/// Where the keys of a step are bound, what it says, and the action that does it.
struct GuideStep(&'static [KeyScope], &'static str, Action);

const STEPS: &[GuideStep] = &[
    GuideStep(
        &[KeyScope::Global],
        "{show-tools} shows the tools of all servers",
        Action::ShowTools,
    ),
    GuideStep(&[KeyScope::Tools], "{call} opens the form of the selected tool", Action::Call),
    GuideStep(&[KeyScope::Call], "{send} makes the call", Action::Send),
    GuideStep(&[KeyScope::Call], "{back} goes back, and never quits", Action::Back),
    GuideStep(
        &[KeyScope::Global],
        "{palette} finds every action, tool and server by its name",
        Action::Palette,
    ),
    GuideStep(&[KeyScope::Global], "{help} shows the keys that work here", Action::Help),
];

/// The step that is next, if the steps are shown.
#[derive(Debug, Default)]
pub struct Guide {
    next: Option<usize>,
}

impl Guide {
    /// Shows the steps from the first one on, or hides them.
    pub fn toggle(&mut self) {
        self.next = if self.next.is_some() { None } else { Some(0) };
    }

    /// Goes on if `action` is what the step names; returns whether it did.
    pub fn follow(&mut self, action: Action) -> bool {
        let Some(at) = self.next.filter(|at| STEPS[*at].2 == action) else { return false };
        self.next = (at + 1 < STEPS.len()).then_some(at + 1);
        true
    }

    /// Its line: which step it is, and what to press. `here` are the scopes in effect: a step whose
    /// key does something else here is not shown.
    pub fn line(&self, keymap: &Keymap, here: &[KeyScope], is_typing: bool) -> Option<(Ink, Ink)> {
        let at = self.next?;
        let GuideStep(scopes, text, action) = STEPS[at];
        let works = if scopes == [KeyScope::Global] {
            !is_typing
                || keymap
                    .key_while_typing(scopes, action.id())
                    .is_some_and(|key| key.typed().is_none())
        } else {
            scopes.iter().any(|scope| here.contains(scope))
        };
        if !works {
            return None;
        }
        let text = match keymap.key_while_typing(scopes, action.id()) {
            Some(key) if is_typing => {
                text.replace(&format!("{{{}}}", action.id()), &key.to_string())
            }
            _ => text.to_owned(),
        };
        let text = keymap.spelled(&[scopes, &[KeyScope::List, KeyScope::Global]].concat(), &text);
        Some((ink!("first steps, {} of {}", at + 1, STEPS.len()), text))
    }
}
