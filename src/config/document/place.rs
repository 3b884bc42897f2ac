//! Where an entry is in a file of another program, and what is wrong with such a file.

use serde_json::Value;

use crate::source::SourceText;
use crate::syntax::{CONFLICT, conflict_mark};
use crate::{Diagnostic, Severity};

/// Where an entry is in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EntryPlace {
    /// The keys of the objects around it, outermost first.
    pub path: Vec<String>,
    /// Its name.
    pub name: String,
    /// Whether the innermost is a list, whose elements have their name as `name`.
    pub is_listed: bool,
}

impl EntryPlace {
    /// The innermost object or list around it, as a member of what holds that; `None` for one that
    /// stands in the file itself.
    pub fn around(&self) -> Option<Self> {
        let (name, path) = self.path.split_last()?;
        Some(Self { path: path.to_vec(), name: name.clone(), is_listed: false })
    }
}

/// Whether an element of a list has this name.
pub(super) fn is_named(entry: &Value, name: &str) -> bool {
    entry.get("name").and_then(Value::as_str) == Some(name)
}

/// A problem of a file that cannot be parsed.
pub(super) fn syntax_problem(source: &SourceText, offset: usize, message: &str) -> Diagnostic {
    // The snippet is left out: what is secret in this language is not known at this point.
    if let Some(range) = conflict_mark(source.text()) {
        let mut problem = Diagnostic::new("config/syntax", Severity::Error, CONFLICT.0);
        problem.at = source.position(range.start);
        problem.help(CONFLICT.1);
        return problem;
    }
    let mut problem = Diagnostic::new("config/syntax", Severity::Error, message);
    problem.at = source.position(offset);
    problem
}
