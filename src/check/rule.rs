//! The rules by name: id, default severity, and the words that explain them. Decides nothing.

use std::borrow::Cow;
use std::fmt;
use std::sync::LazyLock;

use crate::check::{Finding, Severity};

mod agreements;
mod conduct;
mod definitions;

/// The id of a rule that exists.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(&'static str);

impl RuleId {
    /// The id with this spelling.
    ///
    /// # Errors
    /// Names the nearest rule.
    pub fn parse(text: &str) -> Result<Self, String> {
        if let Some(rule) = find(text) {
            return Ok(Self(rule.id));
        }
        let near = all()
            .map(|rule| (strsim::jaro_winkler(text, rule.id), rule.id))
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .filter(|(score, _)| *score > 0.7);
        Err(match near {
            Some((_, id)) => format!("there is no rule `{text}`; did you mean `{id}`?"),
            None => format!("there is no rule `{text}`; `mcpdeck explain` lists them"),
        })
    }

    /// Its spelling.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The rule with this id.
pub fn find(id: &str) -> Option<&'static Rule> {
    SORTED.binary_search_by_key(&id, |rule| rule.id).ok().and_then(|i| SORTED.get(i).copied())
}

/// All rules, by id.
pub fn all() -> impl Iterator<Item = &'static Rule> {
    SORTED.iter().copied()
}

static SORTED: LazyLock<Vec<&'static Rule>> = LazyLock::new(|| {
    let tables = [agreements::RULES, conduct::RULES, definitions::RULES];
    let mut all: Vec<&'static Rule> = tables.into_iter().flatten().collect();
    all.sort_by_key(|rule| rule.id);
    all
});

/// A finding of `rule` with its default severity and fix.
///
/// An id that is not in the table is a mistake of the caller; it is reported as an error without
/// explanation rather than lost.
pub fn finding(
    rule: &'static str,
    place: impl Into<String>,
    message: impl Into<String>,
) -> Finding {
    let known = find(rule);
    debug_assert!(known.is_some(), "{rule} is not in the table of rules");
    Finding {
        rule: Cow::Borrowed(rule),
        severity: known.map_or(Severity::Error, |r| r.severity),
        message: message.into(),
        place: place.into(),
        help: known.map(|r| r.fix.to_owned()).unwrap_or_default(),
        at: None,
    }
}

// One rule of the check: what it finds, and what to do about it.

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_sorted_and_spelt_as_group_and_name() {
        let ids: Vec<&str> = all().map(|r| r.id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
        for id in ids {
            let (group, name) = id.split_once('/').expect("group/name");
            let plain =
                |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
            assert!(plain(group) && plain(name), "{id}");
        }
    }

    #[test]
    fn every_rule_says_what_why_and_what_to_do() {
        for rule in all() {
            for text in [rule.summary, rule.why, rule.fix] {
                assert!(text.len() > 15, "{}: {text:?}", rule.id);
            }
        }
    }

    #[test]
    fn a_misspelt_rule_names_the_nearest() {
        let error = RuleId::parse("name/patern").expect_err("no such rule");
        assert!(error.contains("`name/pattern`"), "{error}");
    }
}
