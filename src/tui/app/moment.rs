//! The moment to read: what a person approves or answers is what was on the screen, the same and on
//! top of everything, for half a second. A key that comes sooner does nothing and says so.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use super::App;
use super::screen::Open;
use crate::base::Timestamp;
use crate::mcp::ApprovalId;
use crate::tui::ink::ink;
use crate::tui::overlay::Overlay;
use crate::tui::theme::Role;

/// How long it has to stand there.
const MOMENT: Duration = Duration::from_millis(500);

/// What was drawn last that somebody may decide on, and since when it stands there unchanged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment {
    shown: Option<(u64, Timestamp)>,
    /// The request that came up by itself after another one was answered: a second press of the key
    /// that sent must not reach it.
    pub(super) unasked: Option<ApprovalId>,
}

impl App {
    /// Notes what the frame that is drawn now shows.
    pub(super) fn note_moment(&mut self) {
        let now = self.model.now;
        self.moment.shown = self.decision().map(|hash| match self.moment.shown {
            Some((before, since)) if before == hash => (hash, since),
            _ => (hash, now),
        });
    }

    /// The terminal was left or entered: what is read begins anew.
    pub(super) const fn restart_moment(&mut self) {
        self.moment.shown = None;
    }

    /// Whether what would be decided now was there to be read; says so when it was not.
    pub(super) fn was_read(&mut self) -> bool {
        let Some(hash) = self.decision() else { return true };
        let unasked = self.moment.unasked.is_some() && self.moment.unasked == self.open_request();
        let wanted = if unasked { 2 * MOMENT } else { MOMENT };
        let read = self
            .moment
            .shown
            .is_some_and(|(shown, since)| shown == hash && self.model.now.since(since) >= wanted);
        if read {
            self.toast.take_if(|(_, toast)| toast.role == Role::Warning);
        } else {
            let text = ink!("too soon: it has only just appeared; read it first");
            self.toast(text, Role::Warning);
        }
        read
    }

    /// The hash of what can be decided on top of the screen; `None` when nothing can.
    fn decision(&self) -> Option<u64> {
        let mut hash = DefaultHasher::new();
        match self.overlays.last() {
            Some(Overlay::Consent(consent)) => consent.hash_shown(&mut hash),
            Some(Overlay::Input(dialog)) => dialog.view.input.id.hash(&mut hash),
            Some(Overlay::SignIn(dialog)) => dialog.request.id.0.hash(&mut hash),
            Some(Overlay::Confirm(confirm)) if confirm.by_itself => {
                for line in std::iter::once(&confirm.title).chain(&confirm.lines) {
                    line.as_str().hash(&mut hash);
                }
            }
            // What the person opened over a request does not hide that it was read.
            Some(_) | None => match self.stack.last()? {
                Open::Answer(id) => self.answers.hash(*id, &mut hash)?,
                _ => return None,
            },
        }
        Some(hash.finish())
    }
}
