//! Lists of globs, as policies write them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One glob or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a glob, or a list of globs")]
#[non_exhaustive]
pub enum GlobList {
    /// One glob.
    One(String),
    /// Any of these globs.
    Many(Vec<String>),
}

impl GlobList {
    /// The globs.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
        .iter()
        .map(String::as_str)
    }
}
