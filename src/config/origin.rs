//! Where each effective value comes from, for `mcpdeck config` and the Config pane.

use std::collections::BTreeMap;

use crate::base::Secret;
use crate::config::Position;

/// The origin of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The place in a file.
    pub at: Position,
    /// What its parts were expanded from, for example `env:GITHUB_TOKEN` or `input:key`; empty
    /// for a value that stands in the file as it is used.
    pub via: Vec<String>,
    /// How the value is written, when it was expanded. A secret: a part of it may be one.
    pub written: Option<Secret>,
}

impl Origin {
    /// The written form, when the value depends on variables or answers of the user.
    pub fn template(&self) -> Option<&str> {
        let own = |via: &String| {
            via.starts_with("env:") || via.starts_with("input:") || via.starts_with("default of ")
        };
        self.written.as_ref().filter(|_| self.via.iter().any(own)).map(Secret::expose)
    }
}

/// Origins by pointer into the effective document, `/servers/NAME/KEY...`. What is not in it is a
/// default.
pub type Origins = BTreeMap<String, Origin>;
