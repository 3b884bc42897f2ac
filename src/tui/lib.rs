//! The dashboard: its parts and how it starts.
//!
//! `app` is the pure core: `update` turns messages into state and effects, `render` turns state
//! into cells. Around it, the crate `terminal` owns and reads the terminal, `engine` runs the host on
//! its own thread, `effect` describes side effects, and `runner` performs them.
//!
//! A pane is a type that implements [`pane::Pane`] in a file of `pane/`, a variant of
//! [`pane::PaneId`] with its action, and a row of `app/panes.rs`; lists use [`widget::Browser`]
//! (rows, filter line, detail) or [`widget::StreamList`]. What opens over the panes implements
//! [`screen::Screen`] in its own file, full screens and the dialogs of `overlay/` alike;
//! [`screen::Out::open`] opens it and [`screen::Out::close`] closes it. Both get a [`context::Cx`],
//! put requests in [`screen::Out`], and name a [`keymap::KeyScope`]. All their keys are rows of
//! `keymap/table.rs` for an [`action::Action`], which also feed last line, help, palette and
//! `--keys`.

#![cfg_attr(not(test), warn(clippy::expect_used))]
#![allow(
    missing_docs,
    reason = "its readers are its authors: a doc stands where it says more than the name"
)]

#[macro_use]
extern crate terminal;

pub mod action;
pub mod app;
pub mod approval;
#[cfg(unix)]
mod attached;
pub mod call;
pub mod chat;
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
pub mod intent;
pub mod keymap;
pub mod layout;
pub mod message;
pub mod model;
pub mod overlay;
mod pacer;
pub mod pane;
pub mod panel;
pub mod pick;
pub mod player;
pub mod policy;
pub mod prefs;
mod prelude;
pub mod result;
mod run;
mod runner;
pub mod screen;
mod state;
pub mod suites;
pub mod user_command;
pub mod widget;

pub use terminal::{chord, graphics, ink, input, look, theme};

pub use call::export::{ExportOrigin, Start};
pub use effect::{AppRequest, TrialFinding, TrialReport};
pub use engine::DashboardSource;
pub use reach::{FoundServer, FoundServers, FoundSource, find_by_words};
pub use run::{DashboardOptions, HostLogLevel, Show, run};
pub use runner::{OpenApp, TrialConfig, TryServer};

/// The key table as Markdown, including the user's keymap file.
///
/// # Errors
/// A sentence describing what is wrong with that file.
pub fn key_table() -> Result<String, String> {
    let user = state::Places::of_process().user_files().keymap;
    let keymap = match user {
        Some(text) => keymap::Keymap::with_user(&text?)?,
        None => keymap::Keymap::builtin(),
    };
    Ok(keymap.to_markdown())
}
