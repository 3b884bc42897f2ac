//! Severities and budgets, as the expectations file sets them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::check::{Finding, Severity};

/// How a rule weighs; `off` drops its findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Not reported.
    Off,
    /// Worth knowing.
    Note,
    /// Probably a mistake.
    Warning,
    /// Wrong.
    Error,
}

impl Level {
    const fn severity(self) -> Option<Severity> {
        match self {
            Self::Off => None,
            Self::Note => Some(Severity::Note),
            Self::Warning => Some(Severity::Warning),
            Self::Error => Some(Severity::Error),
        }
    }
}

/// Levels by rule id, or by group (`describe`), the id being stronger.
pub type Levels = BTreeMap<String, Level>;

/// What definitions may cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct Budgets {
    /// Estimated tokens of one server's definitions.
    pub context_tokens: u64,
    /// Estimated tokens of all servers' definitions together.
    pub total_context_tokens: u64,
    /// Bytes of one description; `limits.descriptionBytes` of its server (4096) when absent.
    pub description_bytes: Option<u64>,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { context_tokens: 25_000, total_context_tokens: 60_000, description_bytes: None }
    }
}

/// Everything that weighs findings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Levels for all servers.
    pub levels: Levels,
    /// Levels for single servers; stronger.
    pub servers: BTreeMap<String, Levels>,
    /// Rules that are not reported in this run.
    pub allowed: Vec<String>,
    /// What definitions may cost.
    pub budgets: Budgets,
}

impl Settings {
    /// The finding as it weighs here; `None` when it is not to be reported.
    pub fn weigh(&self, server: Option<&str>, mut finding: Finding) -> Option<Finding> {
        if self.allowed.iter().any(|rule| *rule == finding.rule) {
            return None;
        }
        let own = server.and_then(|name| self.servers.get(name));
        let level = own
            .and_then(|levels| lookup(levels, &finding.rule))
            .or_else(|| lookup(&self.levels, &finding.rule));
        if let Some(level) = level {
            finding.severity = level.severity()?;
        }
        Some(finding)
    }
}

fn lookup(levels: &Levels, rule: &str) -> Option<Level> {
    let group = rule.split_once('/').map_or(rule, |(group, _)| group);
    levels.get(rule).or_else(|| levels.get(group)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::rule;

    fn level(settings: &Settings, server: &str) -> Option<Severity> {
        settings.weigh(Some(server), rule::finding("describe/missing", "", "x")).map(|f| f.severity)
    }

    #[test]
    fn the_nearer_setting_wins_and_off_drops() {
        let mut settings = Settings::default();
        assert_eq!(level(&settings, "a"), Some(Severity::Note));
        settings.levels.insert("describe".into(), Level::Warning);
        assert_eq!(level(&settings, "a"), Some(Severity::Warning));
        settings.levels.insert("describe/missing".into(), Level::Error);
        assert_eq!(level(&settings, "a"), Some(Severity::Error));
        settings.servers.entry("a".into()).or_default().insert("describe".into(), Level::Off);
        assert_eq!(level(&settings, "a"), None);
        assert_eq!(level(&settings, "b"), Some(Severity::Error));
        settings.allowed.push("describe/missing".into());
        assert_eq!(level(&settings, "b"), None);
    }
}
