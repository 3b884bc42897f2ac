//! The rules as functions over [`Subject`]s: pure, no engine, no clock, no file.

mod across;
mod conduct;
mod context;
mod hints;
mod names;
mod schemas;
mod texts;

pub use crate::base::text::inspect::{hidden, instructions, urls};

use crate::check::Finding;
use crate::check::expect::Expectations;
use crate::check::lock;
use crate::check::settings::Settings;
use crate::check::subject::Subject;
use crate::deck::lock::Lock;

/// What the rules say: findings by server name, and those that concern several servers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessment {
    /// In the order of the subjects.
    pub servers: Vec<Vec<Finding>>,
    /// Across servers.
    pub overall: Vec<Finding>,
}

/// What a run is measured against.
#[derive(Clone, Copy, Debug)]
pub struct Measure<'a> {
    /// Severities and budgets.
    pub settings: &'a Settings,
    /// What must exist.
    pub expectations: Option<&'a Expectations>,
    /// What was reviewed.
    pub lock: Option<&'a Lock>,
    /// Every server of the configuration, also those this run did not look at.
    pub known: &'a [String],
}

/// Runs every rule over every subject and weighs the findings. `extra` are findings by subject that
/// the run itself made: sample calls, denied requests.
pub fn assess(subjects: &[Subject], measure: Measure<'_>, extra: Vec<Vec<Finding>>) -> Assessment {
    let Measure { settings, expectations, lock: locked, known } = measure;
    let is_known = |name: &str| known.iter().any(|k| k == name);
    let mut across = across::check(subjects);
    across.overall.extend(context::total(subjects, &settings.budgets));
    across.overall.extend(conduct::nothing(subjects));
    let mut servers = across.servers;
    let mut add = |more: Vec<Vec<Finding>>| {
        servers.iter_mut().zip(more).for_each(|(all, more)| all.extend(more));
    };
    add(extra);
    if let Some(expectations) = expectations {
        add(expectations.compare(subjects));
        across.overall.extend(expectations.missing_servers(is_known));
    }
    if let Some(locked) = locked {
        add(lock::compare(locked, subjects));
        across.overall.extend(lock::stale(locked, is_known));
    }
    add(subjects.iter().map(|subject| alone(subject, settings)).collect());
    let weigh = |server: Option<&str>, findings: Vec<Finding>| -> Vec<Finding> {
        let mut kept: Vec<Finding> =
            findings.into_iter().filter_map(|f| settings.weigh(server, f)).collect();
        kept.sort_by(Finding::order);
        kept
    };
    let servers =
        subjects.iter().zip(servers).map(|(s, found)| weigh(Some(&s.name), found)).collect();
    Assessment { servers, overall: weigh(None, across.overall) }
}

/// The rules that need nothing but the one server.
fn alone(subject: &Subject, settings: &Settings) -> Vec<Finding> {
    let mut findings = conduct::check(subject);
    findings.extend(names::check(subject));
    findings.extend(schemas::check(subject));
    findings.extend(texts::check(subject, &settings.budgets));
    findings.extend(hints::check(subject));
    findings.extend(context::check(subject, &settings.budgets));
    findings
}
