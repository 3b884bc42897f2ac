//! What is wrong with a configuration, and where: one value per problem (requirement C5).

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::base::ServerName;

/// How much a problem weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing; nothing has to change.
    Note,
    /// Probably a mistake; the file is still used.
    Warning,
    /// The file (or the server it names) cannot be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// A place in a file: 1-based line and column (in characters), as editors count.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The file, as the user named it; empty for values that come from no file.
    #[serde(serialize_with = "crate::base::text::path::one")]
    pub file: PathBuf,
    /// 1-based line; 0 when unknown.
    pub line: u32,
    /// 1-based column in characters; 0 when unknown.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file.display(), self.line, self.column)
    }
}

/// A span of a snippet, in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Mark {
    /// First character, counted from 0.
    pub start: u32,
    /// How many; 0 when there is nothing to underline.
    pub len: u32,
}

/// One problem of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// Stable id, for example `config/unknown-key`.
    pub rule: String,
    /// How much it weighs.
    pub severity: Severity,
    /// Where it is.
    pub at: Position,
    /// JSON pointer (RFC 6901) of the value, for example `/servers/github/args/1`.
    pub pointer: String,
    /// The server whose entry this is, when it belongs to one.
    pub server: Option<ServerName>,
    /// What is wrong, in one sentence, secrets masked.
    pub message: String,
    /// The offending source line, secrets masked, safe to print; windowed when it is very long.
    pub snippet: String,
    /// Which characters of `snippet` are meant.
    #[serde(default)]
    pub mark: Mark,
    /// What to do, for example "did you mean `command`?".
    pub help: Option<String>,
}

impl Diagnostic {
    /// A problem that belongs to no place in a file.
    pub fn new(rule: &str, severity: Severity, message: impl Into<String>) -> Self {
        Self {
            rule: rule.to_owned(),
            severity,
            at: Position::default(),
            pointer: String::new(),
            server: None,
            message: message.into(),
            snippet: String::new(),
            mark: Mark::default(),
            help: None,
        }
    }

    /// Whether it keeps the file, or the server it names, from being used.
    pub const fn is_error(&self) -> bool {
        matches!(self.severity, Severity::Error)
    }
}
