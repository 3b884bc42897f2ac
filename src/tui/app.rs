//! The dashboard's state and its one way to change: `update`. Pure: it does nothing outside, reads
//! no clock, draws nothing; what it wants done comes back as effects.

use crate::tui::effect::Effect;
use crate::tui::glyph::{ASCII, Glyphs, UNICODE};
use crate::tui::keymap::{Keymap, Scope};
use crate::tui::layout::Layout;
use crate::tui::message::{Message, UserFiles};
use crate::tui::model::Model;
use crate::tui::overlay::Overlay;
use crate::tui::pane::catalog::CatalogPane;
use crate::tui::pane::{
    Pane, PaneId, Toast, Ui, cache, config, inbox, lists, logs, metrics, servers, traffic,
};
use crate::tui::prefs::Prefs;
use crate::tui::prelude::*;
use crate::tui::theme::{ColorDepth, Theme};

pub mod answers;
mod availability;
pub mod calls;
mod command;
mod incoming;
mod input;
mod render;
mod screen;
mod server_list;

pub use server_list::ServerList;

/// Whether and how soon a frame is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Redraw {
    /// Nothing changed.
    #[default]
    None,
    /// Telemetry changed: with the next of 30 frames a second.
    Soon,
    /// The person did something: with the next of 60 frames a second.
    Now,
}

/// Where the keys go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// The list of servers at the left.
    Servers,
    /// The pane.
    #[default]
    Pane,
}

/// The panes, each a field of its own: whatever goes over all of them is written from one table.
macro_rules! panes {
    ($($id:ident $field:ident: $pane:ty = $new:expr;)*) => {
        /// The panes, each a field of its own.
        pub struct Panes {
            $($field: $pane,)*
        }

        impl Default for Panes {
            fn default() -> Self {
                Self { $($field: $new,)* }
            }
        }

        impl Panes {
            /// One of them.
            pub fn get(&self, id: PaneId) -> &dyn Pane {
                match id { $(PaneId::$id => &self.$field,)* }
            }

            /// One of them, to change.
            pub fn get_mut(&mut self, id: PaneId) -> &mut dyn Pane {
                match id { $(PaneId::$id => &mut self.$field,)* }
            }
        }
    };
}

panes! {
    Servers servers: servers::ServersPane = servers::ServersPane::default();
    Tools tools: CatalogPane = CatalogPane::new(&lists::TOOLS);
    Resources resources: CatalogPane = CatalogPane::new(&lists::RESOURCES);
    Prompts prompts: CatalogPane = CatalogPane::new(&lists::PROMPTS);
    Traffic traffic: traffic::TrafficPane = traffic::TrafficPane::default();
    Logs logs: logs::LogsPane = logs::LogsPane::default();
    Metrics metrics: metrics::MetricsPane = metrics::MetricsPane::default();
    Cache cache: cache::CachePane = cache::CachePane::default();
    Inbox inbox: inbox::InboxPane = inbox::InboxPane::default();
    Config config: config::ConfigPane = config::ConfigPane::default();
}

/// How the dashboard is set up.
#[derive(Default)]
pub struct Setup {
    /// Use ASCII signs.
    pub ascii: bool,
    /// Theme asked for on the command line; otherwise the remembered one.
    pub theme: Option<String>,
    /// Colours of the terminal.
    pub depth: ColorDepth,
    /// What was remembered.
    pub prefs: Prefs,
    /// Files of the user.
    pub user: UserFiles,
    /// The home directory, to shorten paths.
    pub home: Option<std::path::PathBuf>,
    /// The folder the program was started in.
    pub folder: std::path::PathBuf,
    /// Offer the tour.
    pub tour: bool,
    /// Calls of the past and saved calls.
    pub calls: calls::Calls,
    /// Where the servers come from, for what is copied.
    pub origin: crate::tui::call::export::Origin,
    /// What the terminal can draw.
    pub graphics: crate::tui::graphics::Support,
}

/// The dashboard.
pub struct App {
    /// What is known of the engine.
    pub model: Model,
    pub(super) size: Rect,
    pub(super) pane: PaneId,
    pub(super) focus: Focus,
    pub(super) panes: Panes,
    pub(super) servers: ServerList,
    pub(super) overlays: Vec<Overlay>,
    pub(super) toast: Option<(Timestamp, Toast)>,
    /// Now, also where the screen shows another moment of a recording.
    pub(super) wall: Timestamp,
    pub(super) keymap: Arc<Keymap>,
    pub(super) theme: Theme,
    pub(super) glyphs: &'static Glyphs,
    pub(super) setup: Setup,
    /// What is wrong with a file of the person; the old one stays in use.
    pub(super) user_problem: Option<Ink>,
    pub(super) redraw: Redraw,
    pub(super) stale: bool,
    pub(super) calls: calls::Calls,
    pub(super) answers: answers::Answers,
    /// What is wanted done since the last message came.
    effects: Vec<Effect>,
    /// Open screens over the panes; the last has the keys.
    stack: Vec<screen::Open>,
    /// The chat, which outlives its screen.
    chat: Option<crate::tui::chat::ChatScreen>,
    moment: input::Moment,
    pub(super) last_click: Option<(Timestamp, Position)>,
    /// Where the button of the mouse is held down.
    pub(super) pressed: Option<Position>,
    /// What is marked with the mouse.
    drag: Option<input::Drag>,
}

impl App {
    /// How long a toast stays.
    pub const TOAST: Duration = Duration::from_secs(4);

    /// The dashboard before anything happened.
    pub fn new(setup: Setup, now: Timestamp) -> Self {
        let glyphs: &'static Glyphs = if setup.ascii { &ASCII } else { &UNICODE };
        let mut setup = setup;
        let calls = std::mem::take(&mut setup.calls);
        let mut app = Self {
            model: Model::at(now),
            size: Rect::default(),
            pane: PaneId::default(),
            focus: Focus::default(),
            panes: Panes::default(),
            servers: ServerList::default(),
            overlays: Vec::new(),
            toast: None,
            wall: now,
            keymap: Arc::new(Keymap::builtin()),
            theme: Theme::builtin().adapted(setup.depth),
            glyphs,
            setup,
            user_problem: None,
            redraw: Redraw::Now,
            stale: true,
            calls,
            answers: answers::Answers::default(),
            effects: Vec::new(),
            stack: Vec::new(),
            chat: None,
            moment: input::Moment::default(),
            last_click: None,
            pressed: None,
            drag: None,
        };
        app.adopt_user_files();
        app.adopt_prefs();
        if app.setup.tour && !app.setup.prefs.toured {
            // Shown once, however it is left.
            app.setup.prefs.toured = true;
            app.open_tour(0);
        }
        app
    }

    /// Reacts to something; gives what is to be done outside.
    pub fn update(&mut self, message: Message) -> Vec<Effect> {
        match message {
            Message::Input(event) => self.input(event),
            message => self.incoming(message),
        }
        self.call_work();
        self.answer_work();
        std::mem::take(&mut self.effects)
    }

    /// Whether a frame is wanted.
    pub const fn redraw(&self) -> Redraw {
        self.redraw
    }

    /// When the screen changes by itself: a relative time, a toast that goes.
    pub fn wake(&self) -> Option<Timestamp> {
        let toast = self.toast.as_ref().map(|(shown, _)| shown.plus(Self::TOAST));
        // The time of a recording passes when it is played.
        let shown = self.model.wake().filter(|_| self.model.playback.is_none());
        [toast, shown, self.call_wake()].into_iter().flatten().min()
    }

    /// Brings panes up to date before a frame.
    pub fn prepare(&mut self) {
        self.model.reset_wake();
        self.redraw = Redraw::None;
        self.refresh_readers();
        self.sync();
        self.prepare_screen();
        if let Some(Overlay::Consent(consent)) = self.overlays.last_mut() {
            consent.look(self.size);
        }
        self.note_moment();
    }

    /// Brings lists up to date: before a frame, and before a key that follows another one faster
    /// than frames do.
    pub(super) fn sync(&mut self) {
        self.stale = false;
        self.on_pane(|pane, ui| pane.sync(ui));
        if let Some(layout) = self.layout() {
            self.servers.sync(&self.model, layout.servers.map_or(0, |area| area.height));
        }
        if let Some(overlay) = self.overlays.last_mut() {
            overlay.prepare(self.size);
        }
    }

    /// Does something with the pane that is shown, where there is room for one.
    fn on_pane<R>(&mut self, act: impl FnOnce(&mut dyn Pane, Ui<'_>) -> R) -> Option<R> {
        let area = self.layout()?.main;
        let ui = Ui { model: &self.model, area, glyphs: self.glyphs, keymap: &self.keymap };
        Some(act(self.panes.get_mut(self.pane), ui))
    }

    pub(super) fn layout(&self) -> Option<Layout> {
        Layout::compute(self.size, self.setup.prefs.server_list)
    }

    pub(super) fn mark(&mut self, redraw: Redraw) {
        self.redraw = self.redraw.max(redraw);
        self.stale = true;
    }

    /// Where keys are looked up now, innermost first.
    pub(super) fn scopes(&self) -> Vec<Scope> {
        let mut scopes = Vec::with_capacity(4);
        if let Some(overlay) = self.overlays.last() {
            scopes.extend_from_slice(overlay.scopes());
        } else if self.panes.get(self.pane).is_typing() {
            scopes.push(Scope::Text);
        } else {
            match self.focus {
                Focus::Servers => scopes.extend([Scope::ServerList, Scope::List]),
                Focus::Pane => scopes.extend_from_slice(self.panes.get(self.pane).scopes()),
            }
            if self.model.playback.is_some() {
                scopes.insert(0, Scope::Playback);
            }
        }
        scopes.push(Scope::Global);
        scopes
    }
}
