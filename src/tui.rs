//! The dashboard (requirements, section 8): what it is made of, and how it is started.
//!
//! `app` is the pure middle: `update` turns messages into state and effects, `render` turns state
//! into cells. Around it `session` owns the terminal, `input` reads it, `engine` runs the host on
//! a thread of its own, `effect` is what is wanted done, `runner` does it.
//!
//! A pane is a type that implements [`pane::Pane`] in a file of `pane/`, a variant of
//! [`pane::PaneId`] with its action, and a row of `app/panes.rs`; lists use [`widget::Browser`] (rows,
//! filter line, detail) or [`widget::StreamList`]. A screen over the panes implements [`screen::Screen`]
//! in a file of its own and is opened by `App::push_screen`; it is left by [`effect::Effect::Close`].
//! Both see [`context::Cx`], say what they want in [`pane::Out`], and name a [`keymap::KeyScope`]; every
//! key of theirs is a row of `keymap/table.rs` for an [`action::Action`]: dispatch, last line, help,
//! palette and `--keys` follow.

/// An enum whose values have a name in files.
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $type:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $type { $($(#[$doc])* $value),* }

        impl $type {
            /// All of them, in order.
            pub const ALL: [Self; [$(Self::$value),*].len()] = [$(Self::$value),*];

            /// Its name in files and on the screen.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name),* }
            }

        }
    };
}

pub mod action;
pub mod app;
pub mod approval;
#[cfg(unix)]
mod attached;
mod backend;
pub mod call;
pub mod chat;
pub mod chord;
pub mod context;
mod editor;
pub mod effect;
mod engine;
mod entry;
mod fault;
pub mod filter;
pub mod find;
pub mod form;
pub mod glyph;
pub mod graphics;
pub mod ink;
pub mod input;
pub mod keymap;
pub mod layout;
pub mod look;
pub mod message;
pub mod model;
pub mod overlay;
mod pacer;
pub mod pane;
pub mod pick;
pub mod player;
pub mod policy;
pub mod prefs;
mod prelude;
pub mod result;
mod run;
mod runner;
pub mod schema_text;
pub mod screen;
mod session;
mod signal;
mod state;
pub mod theme;
pub mod user_command;
pub mod widget;

pub use call::export::{ExportOrigin, Start};
pub use engine::DashboardSource;
pub use run::{DashboardOptions, HostLogLevel, Show, run};

/// The key table as Markdown, with the changes of the person's keymap file.
///
/// # Errors
/// What is wrong with that file, as a sentence.
pub fn key_table() -> Result<String, String> {
    let user = state::Places::of_process().user_files().keymap;
    let keymap = match user {
        Some(text) => keymap::Keymap::with_user(&text?)?,
        None => keymap::Keymap::builtin(),
    };
    Ok(keymap.to_markdown())
}
