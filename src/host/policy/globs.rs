//! Lists of globs, as policies write them.

use globset::Glob;
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

/// What is wrong with a pattern of blanks.
pub(super) const BLANK_PATTERN: &str =
    "a pattern is blank, which matches nothing; name what is meant, or remove it";
/// What is wrong with a list without patterns.
pub(super) const EMPTY_LIST: &str =
    "a list is empty, which matches nothing; name what is meant, or remove it";

/// Parses one pattern.
///
/// # Errors
/// What is wrong with it.
pub(super) fn parse_pattern(pattern: &str) -> Result<Glob, String> {
    if pattern.trim().is_empty() {
        return Err(BLANK_PATTERN.to_owned());
    }
    Glob::new(pattern).map_err(|error| error.to_string())
}

impl GlobList {
    /// Parses every pattern.
    ///
    /// # Errors
    /// What is wrong with the first wrong one, or that there is none.
    pub(super) fn parse(&self) -> Result<Vec<Glob>, String> {
        let globs: Vec<Glob> = self.iter().map(parse_pattern).collect::<Result<_, _>>()?;
        if globs.is_empty() { Err(EMPTY_LIST.to_owned()) } else { Ok(globs) }
    }
}
