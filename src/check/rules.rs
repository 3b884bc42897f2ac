//! The rules as functions over [`Subject`]s: pure, no engine, no clock, no file.

mod conduct;
mod names;
mod texts;

use std::collections::{BTreeMap, BTreeSet};

use super::expect::{Expectations, Settings};
use super::rule::finding;
use super::subject::{Entry, Subject, brief};
use super::{Finding, lock};
pub use crate::base::text::inspect::{hidden, instructions, urls};
use crate::deck::lock::Lock;
use names::shape;

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
    let mut across = check(subjects);
    across.overall.extend(names::total(subjects, &settings.budgets));
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
    findings.extend(names::names(subject));
    findings.extend(texts::schemas(subject));
    findings.extend(texts::texts(subject, &settings.budgets));
    findings.extend(names::hints(subject));
    findings.extend(names::context(subject, &settings.budgets));
    findings
}

// Rules over several servers: the same or look-alike names, and texts about another's tools.

/// Compares every server with every other.
fn check(subjects: &[Subject]) -> Assessment {
    let mut found = Assessment { servers: vec![Vec::new(); subjects.len()], overall: Vec::new() };
    same_names(subjects, &mut found);
    look_alikes(subjects, &mut found);
    for (index, subject) in subjects.iter().enumerate() {
        shadowing(subjects, index, subject, &mut found);
    }
    found
}

fn same_names(subjects: &[Subject], found: &mut Assessment) {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for subject in subjects {
        for tool in subject.tools().filter(|tool| !tool.id().is_empty()) {
            owners.entry(tool.id()).or_default().insert(&subject.name);
        }
    }
    for (name, owners) in owners.into_iter().filter(|(_, owners)| owners.len() > 1) {
        let owners: Vec<&str> = owners.into_iter().collect();
        let name = brief(name, 80);
        let message = format!("`{name}` is offered by {}", owners.join(", "));
        found.overall.push(finding("name/duplicate-across", format!("tools/{name}"), message));
    }
}

fn look_alikes(subjects: &[Subject], found: &mut Assessment) {
    let mut servers: BTreeMap<String, &str> = BTreeMap::new();
    for (index, subject) in subjects.iter().enumerate() {
        if let Some(other) = servers.insert(shape(&subject.name), &subject.name) {
            let message = format!("the server's name looks like that of `{}`", brief(other, 80));
            found.servers[index].push(finding("name/look-alike", "", message));
        }
    }
    let mut tools: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    for (index, subject) in subjects.iter().enumerate() {
        for tool in subject.tools() {
            let id = tool.id();
            let (server, other) = *tools.entry(shape(id)).or_insert((&subject.name, id));
            if server != subject.name && other != id {
                let message =
                    format!("looks like `{}` of server `{}`", brief(other, 80), brief(server, 40));
                found.servers[index].push(finding("name/look-alike", tool.place(), message));
            }
        }
    }
}

/// A text of one server that speaks of a tool only another one has.
fn shadowing(subjects: &[Subject], index: usize, subject: &Subject, found: &mut Assessment) {
    let own: BTreeSet<&str> = subject.tools().map(|tool| tool.id()).collect();
    let texts: Vec<(String, String, &str)> = subject
        .entries()
        .filter_map(|entry: Entry<'_>| {
            Some((entry.place(), entry.id().to_owned(), entry.text("description")?))
        })
        .chain(subject.instructions.as_deref().map(|t| ("instructions".into(), String::new(), t)))
        .collect();
    // Two entries of one server speak of their own tools, though a filter or a version may hide them.
    let maker = |subject: &Subject| subject.server_info.as_ref().map(|info| info["name"].clone());
    let sibling = |other: &Subject| maker(subject).is_some() && maker(other) == maker(subject);
    // `click` of another is no news where this server has a `browser_click` of its own.
    let parts = |name: &str, of: &str| {
        let rest = of.strip_suffix(name).or_else(|| of.strip_prefix(name));
        rest.is_some_and(|rest| {
            rest.starts_with(['_', '-', '.']) || rest.ends_with(['_', '-', '.'])
        })
    };
    let known = |name: &str| own.iter().any(|of| *of == name || parts(name, of));
    for other in subjects.iter().filter(|other| other.name != subject.name && !sibling(other)) {
        for tool in other.tools().filter(|tool| telling(tool.id()) && !known(tool.id())) {
            for (place, _, _) in texts.iter().filter(|(_, _, text)| mentions(text, tool.id())) {
                let message = format!(
                    "speaks about `{}`, a tool of server `{}`",
                    brief(tool.id(), 80),
                    brief(&other.name, 40)
                );
                found.servers[index].push(finding("name/shadow", place.clone(), message));
            }
        }
    }
}

/// Whether a name is no ordinary word, so that finding it in a text means something.
fn telling(name: &str) -> bool {
    let joined = name.contains(['_', '-', '.']);
    let camel = name.chars().skip(1).any(|c| c.is_ascii_uppercase())
        && name.chars().any(|c| c.is_ascii_lowercase());
    name.len() >= 5 && (joined || camel)
}

fn mentions(text: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(name).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + name.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}
