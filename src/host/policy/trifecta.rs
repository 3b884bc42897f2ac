//! The trifecta: private data, untrusted content and a way to send data outside, within one run.
//! Classifies tools and resources. Pure.

use std::sync::Arc;

use globset::Glob;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::globs::parse_pattern;
use super::principal::{PolicyTarget, TargetKind};
use crate::pattern::{NamePatterns, Reading};

/// The rule for a run that has read private data and untrusted content and calls a tool that sends
/// data outside: that call requires the user's consent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct TrifectaConfig {
    /// Whether the rule is enabled.
    pub enabled: bool,
    /// Tools and resources whose results are private. When empty: read-only tools that do not reach
    /// the outside world, and all `file:` resources.
    pub private: Vec<String>,
    /// Tools and resources whose results are untrusted. When empty: tools that reach the outside
    /// world, and all resources except `file:`.
    pub untrusted: Vec<String>,
    /// Tools that send data outside. When empty: tools that reach the outside world and are not
    /// read-only.
    pub outbound: Vec<String>,
}

impl Default for TrifectaConfig {
    fn default() -> Self {
        Self { enabled: true, private: vec![], untrusted: vec![], outbound: vec![] }
    }
}

/// The kinds of data a run has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taint {
    private: bool,
    untrusted: bool,
}

impl Taint {
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            private: self.private || other.private,
            untrusted: self.untrusted || other.untrusted,
        }
    }

    pub(super) const fn is_both(self) -> bool {
        self.private && self.untrusted
    }
}

/// The compiled trifecta rule. With an empty list, the hints of the tools decide.
#[derive(Debug)]
pub(super) struct Trifecta {
    enabled: bool,
    private: TrifectaList,
    untrusted: TrifectaList,
    outbound: TrifectaList,
}

/// One list of the rule: its patterns together, and each with its place.
#[derive(Debug, Default)]
struct TrifectaList {
    set: NamePatterns,
    globs: Vec<(Arc<str>, Glob)>,
}

impl Default for Trifecta {
    fn default() -> Self {
        Self::compile(&TrifectaConfig::default(), &mut Vec::new())
    }
}

impl Trifecta {
    /// Compiles the rule; adds what is wrong with it.
    pub(super) fn compile(config: &TrifectaConfig, problems: &mut Vec<String>) -> Self {
        let mut list = |key, patterns| TrifectaList::compile(key, patterns, problems);
        Self {
            enabled: config.enabled,
            private: list("private", &config.private),
            untrusted: list("untrusted", &config.untrusted),
            outbound: list("outbound", &config.outbound),
        }
    }

    /// The kinds of data that a run gets by reading the target; `full` is `server.name`, or the
    /// normalized URI.
    pub(super) fn taint(&self, target: &PolicyTarget<'_>, full: &str) -> Taint {
        let (closed, open) = match target.kind {
            TargetKind::Tool => {
                let open = target.hints.open_world.unwrap_or(true);
                (!open && target.hints.read_only == Some(true), open)
            }
            TargetKind::Resource => (full.starts_with("file:"), !full.starts_with("file:")),
            TargetKind::Prompt | TargetKind::Server => (false, false),
        };
        let says =
            |list: &TrifectaList, otherwise| list.is_match(target, full).unwrap_or(otherwise);
        Taint { private: says(&self.private, closed), untrusted: says(&self.untrusted, open) }
    }

    /// Whether the target sends data outside.
    pub(super) fn sends(&self, target: &PolicyTarget<'_>) -> bool {
        let says = target.hints.open_world.unwrap_or(true) && target.hints.read_only != Some(true);
        self.enabled
            && target.kind == TargetKind::Tool
            && self.outbound.is_match(target, target.name).unwrap_or(says)
    }

    /// The patterns of the tools that send data outside, each with its place. What the other lists
    /// name may be resources, which a server need not list.
    pub(super) fn outbound(&self) -> impl Iterator<Item = (&Arc<str>, &Glob)> {
        self.outbound.globs.iter().map(|(place, glob)| (place, glob))
    }
}

impl TrifectaList {
    fn compile(key: &str, patterns: &[String], problems: &mut Vec<String>) -> Self {
        let mut globs = Vec::new();
        for (at, pattern) in patterns.iter().enumerate() {
            let place = format!("policy/trifecta/{key}/{at}");
            match parse_pattern(pattern) {
                Ok(glob) => globs.push((format!("{place} ({pattern})").into(), glob)),
                Err(problem) => problems.push(format!("{place}: {problem}")),
            }
        }
        let set = NamePatterns::new(globs.iter().map(|(_, glob)| glob));
        let set = set.unwrap_or_else(|error| {
            problems.push(format!("policy/trifecta/{key}: {error}"));
            NamePatterns::default()
        });
        Self { set, globs }
    }

    /// Whether a pattern matches; `None` when the list is empty.
    fn is_match(&self, target: &PolicyTarget<'_>, full: &str) -> Option<bool> {
        (!self.globs.is_empty()).then(|| match target.kind {
            TargetKind::Tool | TargetKind::Prompt => {
                self.set.is_match(target.server, target.name, Reading::Wide)
            }
            TargetKind::Resource | TargetKind::Server => self.set.is_match_text(full),
        })
    }
}
