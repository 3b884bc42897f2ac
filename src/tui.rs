//! The dashboard (requirements, section 8): what it is made of, and how it is started.
//!
//! `app` is the pure middle: `update` turns messages into state and effects, `render` turns state
//! into cells. Around it `session` owns the terminal, `input` reads it, `engine` runs the host on
//! a thread of its own, `effect` is what the app wants done, `runner` does it.

pub mod action;
pub mod app;
pub mod approval;
mod backend;
pub mod call;
pub mod chord;
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
pub mod message;
pub mod model;
pub mod overlay;
mod pacer;
pub mod pane;
pub mod prefs;
mod pump;
pub mod result;
mod run;
mod runner;
pub mod schema_text;
mod session;
mod signal;
mod state;
pub mod theme;
mod toml_place;
pub mod widget;

pub use call::export::{Origin, Start};
pub use run::{HostLogLevel, Options, Reveal, run};

/// The key table as Markdown, with the changes of the person's keymap file.
///
/// # Errors
/// What is wrong with that file, as a sentence.
pub fn key_table() -> Result<String, String> {
    let user = state::Places::of_process().user_files().keymap;
    let keymap = match user {
        Some(text) => keymap::Keymap::with_user(&text)?,
        None => keymap::Keymap::builtin(),
    };
    Ok(keymap.to_markdown())
}
