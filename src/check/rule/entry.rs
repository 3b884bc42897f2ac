//! One rule of the check: what it finds, and what to do about it.

use crate::check::Severity;

/// A rule of the check.
#[derive(Debug, PartialEq, Eq)]
pub struct Rule {
    /// Stable id, `group/name`.
    pub id: &'static str,
    /// Severity unless the expectations file says otherwise.
    pub severity: Severity,
    /// What it finds, in a few words.
    pub summary: &'static str,
    /// Why it matters.
    pub why: &'static str,
    /// What to do.
    pub fix: &'static str,
}
