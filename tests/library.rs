//! The library without servers: configuration, texts, rules of `check`. One binary for all of them,
//! because each test binary links the whole library.

#[path = "library/check_rules.rs"]
mod check_rules;
#[path = "library/config_edit.rs"]
mod config_edit;
#[path = "library/config_fixtures.rs"]
mod config_fixtures;
#[path = "library/config_print.rs"]
mod config_print;
#[path = "library/config_trust.rs"]
mod config_trust;
#[cfg(feature = "tui")]
#[path = "library/form_corpus.rs"]
mod form_corpus;
#[path = "library/import.rs"]
mod import;
#[path = "library/secret.rs"]
mod secret;
#[path = "library/text.rs"]
mod text;
