//! The interface of a pane.

use std::path::PathBuf;

use crate::keymap::KeyScope;
use crate::model::Model;
use crate::panel::Division;
use crate::prelude::*;
use crate::widget::{KeepFilter, TextInput};

pub use crate::context::{Availability, Cx, Gesture, Ui, when};
pub use crate::screen::{NoticeText, Out, Redraw};

named! {
    /// The panes, with their titles on the tabs.
    #[derive(Default)]
    pub enum PaneId {
        #[default]
        Servers = "Servers",
        Tools = "Tools",
        /// Resources and templates.
        Resources = "Resources",
        Prompts = "Prompts",
        /// Messages.
        Traffic = "Traffic",
        Logs = "Logs",
        /// Counts and latencies.
        Metrics = "Metrics",
        Cache = "Cache",
        /// Suites of tests.
        Tests = "Tests",
        /// What waits for the user.
        Inbox = "Inbox",
        /// The configuration.
        Config = "Config",
    }
}

/// The tabs: the key of each, and its panes; the first is shown by the key, the others by
/// [`Action::NextView`].
pub const TABS: [(&str, &[PaneId]); 7] = [
    ("1", &[PaneId::Servers, PaneId::Metrics]),
    ("2", &[PaneId::Tools, PaneId::Tests]),
    ("3", &[PaneId::Resources, PaneId::Prompts, PaneId::Cache]),
    ("4", &[PaneId::Traffic]),
    ("5", &[PaneId::Logs]),
    ("6", &[PaneId::Inbox]),
    ("7", &[PaneId::Config]),
];

impl PaneId {
    /// Title where there is little room.
    pub const fn short(self) -> &'static str {
        match self {
            Self::Resources => "Res",
            Self::Metrics => "Metr",
            Self::Config => "Conf",
            other => other.name(),
        }
    }

    /// The number of its tab, from 0.
    pub fn tab(self) -> usize {
        TABS.iter().position(|(_, panes)| panes.contains(&self)).unwrap_or(0)
    }

    /// The key of its tab, if it comes first there.
    pub fn digit(self) -> Option<&'static str> {
        let (digit, panes) = TABS[self.tab()];
        (panes.first() == Some(&self)).then_some(digit)
    }

    /// The pane after this one in the same tab.
    #[must_use]
    pub fn next_view(self) -> Self {
        let (_, panes) = TABS[self.tab()];
        let at = panes.iter().position(|pane| *pane == self).unwrap_or(0);
        panes[(at + 1) % panes.len()]
    }

    /// The action that shows it.
    pub const fn action(self) -> Action {
        match self {
            Self::Servers => Action::ShowServers,
            Self::Tools => Action::ShowTools,
            Self::Resources => Action::ShowResources,
            Self::Prompts => Action::ShowPrompts,
            Self::Traffic => Action::ShowTraffic,
            Self::Logs => Action::ShowLogs,
            Self::Metrics => Action::ShowMetrics,
            Self::Cache => Action::ShowCache,
            Self::Tests => Action::ShowTests,
            Self::Inbox => Action::ShowInbox,
            Self::Config => Action::ShowConfig,
        }
    }

    /// The pane of this scope, if it is one.
    pub fn from_scope(scope: KeyScope) -> Option<Self> {
        Self::by_title(scope.name())
    }

    /// The pane of this title, in any case.
    pub fn by_title(title: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|pane| pane.name().eq_ignore_ascii_case(title))
    }
}

/// What is wrong about a row, for the page that says why.
#[derive(Clone, Debug, PartialEq)]
pub struct RedRow {
    /// The server it concerns.
    pub server: Option<ServerName>,
    /// What kind of row it is.
    pub what: &'static str,
    /// What happened, in a few words of ours.
    pub words: Ink,
    /// The text that it is about.
    pub text: SafeText,
    /// When, to show what was around it.
    pub at: Option<Timestamp>,
    /// What to do about it, as far as it is known.
    pub help: Option<String>,
    /// The file and line it is about.
    pub place: Option<(PathBuf, u32)>,
}

pub trait Pane {
    /// Where its keys are bound, innermost first.
    fn scopes(&self) -> &'static [KeyScope];

    /// Brings rows and detail up to date after a change of the engine state or the region.
    fn sync(&mut self, ui: Ui<'_>);

    /// Performs an action; returns whether it was handled.
    fn act(&mut self, action: Action, ui: Ui<'_>, out: &mut Out) -> bool;

    /// Whether one of its own actions is available; `None` for other actions.
    fn availability(&self, action: Action, model: &Model) -> Option<Availability>;

    /// Reacts to the mouse.
    fn mouse(&mut self, gesture: Gesture, ui: Ui<'_>, out: &mut Out);

    /// Draws itself.
    fn render(&self, cx: &Cx<'_>, area: Rect, buf: &mut Buffer);

    /// Its filter line, when it has one.
    fn filter(&self) -> Option<&TextInput> {
        None
    }

    /// The same, mutable.
    fn filter_mut(&mut self) -> Option<&mut TextInput> {
        None
    }

    /// Whether the filter is being typed.
    fn is_typing(&self) -> bool {
        self.filter().is_some_and(|filter| filter.editing)
    }

    /// The filter while it is typed.
    fn typing(&mut self) -> Option<&mut TextInput> {
        self.filter_mut().filter(|filter| filter.editing)
    }

    /// The server of the selected row, where server commands apply to it.
    fn server(&self, _model: &Model) -> Option<ServerName> {
        None
    }

    /// What is wrong about the selected row, if the row itself says that.
    fn red_row(&self, _model: &Model) -> Option<RedRow> {
        None
    }

    /// Typing ended.
    fn end_typing(&mut self, keep: KeepFilter) {
        if let Some(filter) = self.filter_mut() {
            filter.end(keep);
        }
    }

    /// The region of the detail beside the list, in which the call or the answer of the selected row
    /// is shown where there is room for both; `None` if there is none, or the detail is hidden.
    fn call_region(&self, _area: Rect) -> Option<Rect> {
        None
    }

    /// How it is divided.
    fn division(&self, area: Rect, _model: &Model) -> Division {
        Division::whole(area)
    }

    /// Moves the focus on within the pane; returns whether it stayed inside.
    fn focus_next(&mut self, _ui: Ui<'_>) -> bool {
        false
    }

    /// The recording jumped to another time: discards what was derived from the earlier rows.
    fn rewound(&mut self) {}
}

/// Implements the filter methods of [`Pane`] for a filter line in a field.
macro_rules! filtered_by {
    ($($field:ident).+) => {
        fn filter(&self) -> Option<&$crate::widget::TextInput> {
            Some(&self.$($field).+)
        }

        fn filter_mut(&mut self) -> Option<&mut $crate::widget::TextInput> {
            Some(&mut self.$($field).+)
        }
    };
}

/// Implements filter and focus for panes over a [`crate::widget::Browser`].
macro_rules! of_browser {
    () => {
        filtered_by!(browser.filter);

        fn focus_next(&mut self, ui: $crate::pane::Ui<'_>) -> bool {
            self.browser.split.focus_next(ui.area)
        }

        fn division(&self, area: Rect, _model: &$crate::model::Model) -> $crate::panel::Division {
            let part = self.browser.split.part;
            $crate::panel::Division::from_browser(&self.browser.regions(area), part, area)
        }
    };
}

pub mod cache;
pub mod catalog;
pub mod compared;
pub mod config;
pub mod inbox;
pub mod lists;
pub mod logs;
pub mod metrics;
pub mod servers;
pub mod suites;
pub mod tokens;
pub mod traffic;
