//! The library without servers: configuration, texts, rules of `check`. One binary for all of them,
//! because each test binary links the whole library.

mod check_rules;
mod config_edit;
mod config_fixtures;
mod config_print;
mod config_trust;
#[cfg(feature = "tui")]
mod form_corpus;
mod import;
mod secret;
mod text;
