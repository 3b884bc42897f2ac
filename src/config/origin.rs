//! Where each effective value comes from, for `mcpdeck config` and the Config pane.

use std::collections::BTreeMap;

use crate::config::Position;

/// The origin of one value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The place in a file.
    pub at: Position,
    /// What its parts were expanded from, for example `env:GITHUB_TOKEN` or `input:key`; empty
    /// for a value that stands in the file as it is used.
    pub via: Vec<String>,
}

/// Origins by pointer into the effective document, `/servers/NAME/KEY...`. What is not in it is a
/// default.
pub type Origins = BTreeMap<String, Origin>;
