//! The everyday loop: a server restarts because its sources changed, and the last call to it is made
//! again. Says what happened; whether calls are repeated is the entry's (`dev.rerun`) or the
//! person's word.

use std::collections::HashMap;

use crate::base::ServerName;
use crate::base::Timestamp;
use crate::base::text::SafeText;
use crate::host::dev::{BuildEnd, DevView};
use crate::host::{ServerState, ServerView};
use crate::tui::app::{App, Redraw};
use crate::tui::effect::Effect;
use crate::tui::ink::{Dur, Ink, ink};
use crate::tui::keymap::Scope;
use crate::tui::model::Model;
use crate::tui::theme::Role;

/// What is known of restarts, and of what the person wants repeated.
#[derive(Default)]
pub(super) struct Again {
    /// What the person switched, by server.
    choices: HashMap<ServerName, Repeat>,
    seen: HashMap<ServerName, Seen>,
}

/// Whether calls are made again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    Yes,
    No,
}

/// What was seen of a server.
#[derive(Default)]
struct Seen {
    taken: u64,
    /// A restart that is under way, with what changed.
    restarting: Option<SafeText>,
    /// When the failed build began that was reported last.
    reported: Option<Timestamp>,
}

impl App {
    /// The server of the open call screen.
    pub(in crate::tui::app) fn open_server(&self) -> Option<ServerName> {
        let screen = self.calls.screens.get(self.open_call_number()?)?;
        Some(screen.subject.server.clone())
    }

    /// The server whose repeating can be switched now.
    pub(in crate::tui::app) fn rerun_target(&self) -> Option<ServerName> {
        let server = self.open_server().or_else(|| self.target_server())?;
        self.model.server(&server)?.dev.as_ref().map(|_| server)
    }

    /// Switches whether the last call is made again after a restart by changed sources.
    pub(in crate::tui::app) fn switch_rerun(&mut self) {
        let Some(server) = self.rerun_target() else { return };
        let choice = match self.repeats(&server) {
            Repeat::Yes => Repeat::No,
            Repeat::No => Repeat::Yes,
        };
        self.calls.again.choices.insert(server.clone(), choice);
        let name = Model::name(&server);
        match choice {
            Repeat::Yes => {
                self.toast(
                    ink!("the last call to {} is repeated when sources change", name),
                    Role::Ok,
                );
            }
            Repeat::No => self.toast(ink!("calls to {} are not repeated", name), Role::Ok),
        }
        self.mark(Redraw::Now);
    }

    fn repeats(&self, server: &ServerName) -> Repeat {
        if let Some(choice) = self.calls.again.choices.get(server) {
            return *choice;
        }
        let entry = self.model.config.as_ref().and_then(|config| config.servers.get(server));
        let wanted = entry.and_then(|entry| entry.dev.as_ref()).is_some_and(|dev| dev.rerun);
        if wanted { Repeat::Yes } else { Repeat::No }
    }

    /// What the call screen says of a server's sources.
    pub(in crate::tui::app) fn dev_words(&self, server: &ServerName) -> Option<SafeText> {
        let view = self.model.server(server)?;
        let dev = view.dev.as_ref()?;
        let repeats = match self.repeats(server) {
            Repeat::Yes => "repeated when sources change",
            Repeat::No => "{rerun} repeats the call when sources change",
        };
        let repeats = self.keymap.spelled(&[Scope::Global], repeats);
        let now = match dev.build.as_ref().map(|build| &build.end) {
            Some(None) => "building".to_owned(),
            Some(Some((BuildEnd::Failed(_) | BuildEnd::Refused(_), _))) => {
                "build failed, runs on as it was".to_owned()
            }
            _ if view.state != ServerState::Ready => view.state.as_str().to_owned(),
            _ => return Some(SafeText::line(repeats.as_str())),
        };
        Some(SafeText::line(&format!("{now} · {}", repeats.as_str())))
    }

    /// Tells builds and restarts of the newest view, and makes calls again.
    pub(in crate::tui::app) fn sources_followed(&mut self, effects: &mut Vec<Effect>) {
        let view = std::sync::Arc::clone(&self.model.view);
        self.calls.again.seen.retain(|server, _| view.servers.contains_key(server));
        for server in view.servers.values() {
            let Some(dev) = &server.dev else { continue };
            self.build_followed(server, dev);
            let seen = self.calls.again.seen.entry(server.name.clone()).or_default();
            if dev.taken > seen.taken {
                seen.restarting = Some(changed(dev));
            }
            seen.taken = dev.taken;
            match server.state {
                ServerState::Ready => {
                    if let Some(because) = seen.restarting.take() {
                        self.came_back(server, because, effects);
                    }
                }
                ServerState::Unavailable
                    if server.retry_at.is_none() && seen.restarting.take().is_some() =>
                {
                    let name = Model::name(&server.name);
                    let text = ink!("{} does not start with the changed sources", name);
                    self.toast(text, Role::Error);
                }
                _ => {}
            }
        }
    }

    fn build_followed(&mut self, server: &ServerView, dev: &DevView) {
        let Some(build) = &dev.build else { return };
        let how = match &build.end {
            Some((BuildEnd::Failed(exit), _)) => exit.describe(),
            Some((BuildEnd::Refused(_), _)) => "it could not be started".to_owned(),
            _ => return,
        };
        // Views skip what passes quickly: two builds may be seen without a running one between.
        let seen = self.calls.again.seen.entry(server.name.clone()).or_default();
        if seen.reported.replace(build.began) == Some(build.began) {
            return;
        }
        let name = Model::name(&server.name);
        let text = ink!("build failed: {}; {} runs on as it was", Ink::line(&how), name);
        self.toast(text, Role::Error);
    }

    fn came_back(&mut self, server: &ServerView, because: SafeText, effects: &mut Vec<Effect>) {
        let text = ink!("{} restarted: {}", Model::name(&server.name), &because);
        self.toast(text, Role::Ok);
        if self.repeats(&server.name) == Repeat::No {
            return;
        }
        let screens = self.calls.screens.iter().enumerate();
        let last = screens
            .filter(|(_, screen)| screen.subject.server == server.name)
            .filter_map(|(at, screen)| Some((screen.runs.last()?.began, at)))
            .max();
        let Some((_, at)) = last else { return };
        let now = self.model.now;
        let Some(screen) = self.calls.screens.get_mut(at) else { return };
        let wanted = screen.made_again(because, now);
        self.wanted(wanted, effects);
    }
}

/// What changed, and how long the build took.
fn changed(dev: &DevView) -> SafeText {
    let build = dev.build.as_ref().and_then(|build| build.end.as_ref());
    let build = match build {
        Some((BuildEnd::Done, took)) => format!(" · build {}", Dur(*took)),
        _ => String::new(),
    };
    SafeText::line(&format!("{} changed{build}", dev.changed_words()))
}
