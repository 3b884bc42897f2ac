//! The rules as functions over [`CheckSubject`]s: pure, no engine, no clock, no file.

mod cards;
mod conduct;
mod names;
mod providers;
mod texts;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::AhoCorasick;

use super::expect::{Budgets, Expectations};
use super::rule::finding;
use super::subject::{CheckSubject, brief};
use super::{CheckFinding, lock};
pub use base::text::inspect::{hidden, instructions, urls};
pub(super) use conduct::is_behind_server;
use deck::Lock;
use names::shape;
use schema::ToolFormat;

/// The findings of all rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Assessment {
    /// Findings by server, in the order of the subjects.
    pub servers: Vec<Vec<CheckFinding>>,
    /// Findings that concern several servers.
    pub overall: Vec<CheckFinding>,
}

/// What a run is measured against.
#[derive(Clone, Copy, Debug)]
pub struct Measure<'a> {
    /// What must exist; severities and budgets.
    pub expectations: &'a Expectations,
    /// Rules that are not reported in this run.
    pub allowed: &'a [String],
    /// The lock file.
    pub lock: Option<&'a Lock>,
    /// Every server of the configuration, including those this run did not check.
    pub known: &'a [String],
    /// The model providers that must take the tools.
    pub providers: &'a [ToolFormat],
}

impl Measure<'_> {
    /// The findings to report, with their configured severity, in a stable order.
    pub(super) fn weigh(
        self,
        server: Option<&str>,
        findings: Vec<CheckFinding>,
    ) -> Vec<CheckFinding> {
        let reported = |found: &CheckFinding| !self.allowed.iter().any(|rule| *rule == found.rule);
        let findings = findings.into_iter().filter(reported);
        let findings = findings.filter_map(|found| self.expectations.weigh(server, found));
        let mut findings: Vec<CheckFinding> = findings.collect();
        findings.sort_by(CheckFinding::order);
        findings
    }
}

/// What was found about a subject before its server was stopped.
#[derive(Clone, Debug, Default)]
pub struct EarlyFindings {
    /// By its sample calls.
    pub calls: Vec<CheckFinding>,
    /// By the rules that look only at what it offers, when they ran already.
    pub offers: Option<Box<AssessedOffers>>,
}

/// The findings on what a server offers, with what they were made from.
#[derive(Clone, Debug)]
pub struct AssessedOffers {
    subject: CheckSubject,
    findings: Vec<CheckFinding>,
}

impl AssessedOffers {
    /// Runs the rules that look only at what a server offers. Takes a few milliseconds for some
    /// dozen tools, most of it for their schemas, whose checks are bounded by the limits.
    pub fn new(subject: CheckSubject, budgets: &Budgets) -> Self {
        let findings = offers(&subject, budgets);
        Self { subject, findings }
    }

    /// The findings, if `subject` still offers the same.
    fn findings_for(self, subject: &CheckSubject) -> Option<Vec<CheckFinding>> {
        let was = &self.subject;
        let same = was.tools == subject.tools
            && was.prompts == subject.prompts
            && was.resources == subject.resources
            && was.templates == subject.templates
            && was.rejected == subject.rejected
            && was.instructions == subject.instructions
            && was.server_info == subject.server_info
            && was.era == subject.era
            && was.limits == subject.limits;
        same.then_some(self.findings)
    }
}

/// Does once what the rules need: patterns and meta-schemas are compiled at their first use, which
/// takes some ten milliseconds. For while servers start; nothing depends on it.
pub fn prepare() {
    let tool = serde_json::json!({
        "name": "any",
        "description": "any text",
        "inputSchema": { "type": "object", "properties": { "any": { "type": "string" } } },
    });
    let subject = CheckSubject { tools: vec![Arc::new(tool.into())], ..CheckSubject::default() };
    AssessedOffers::new(subject, &Budgets::default());
}

/// Runs every rule over every subject and sets the severities. `early` has the findings that were
/// made before, by subject.
pub fn assess(
    subjects: &[CheckSubject],
    measure: Measure<'_>,
    early: Vec<EarlyFindings>,
) -> Assessment {
    let Measure { expectations, lock: locked, known, providers, .. } = measure;
    let known: HashSet<&str> = known.iter().map(String::as_str).collect();
    let is_known = |name: &str| known.contains(name);
    let mut overall = same_names(subjects);
    overall.extend(names::total(subjects, &expectations.budgets));
    overall.extend(providers::total(subjects, providers));
    overall.extend(conduct::nothing(subjects));
    overall.extend(expectations.missing_servers(is_known));
    overall.extend(locked.into_iter().flat_map(|locked| lock::stale(locked, is_known)));
    let mut servers = look_alikes(subjects);
    let tools = ToolNames::new(subjects);
    for (place, (subject, early)) in subjects.iter().zip(early).enumerate() {
        let found = &mut servers[place];
        found.extend(early.calls);
        found.extend(shadowing((place, subject), subjects, &tools));
        found.extend(expectations.compare(subject));
        found.extend(locked.into_iter().flat_map(|locked| lock::compare(locked, subject)));
        found.extend(conduct::check(subject));
        found.extend(cards::check(subject));
        let offered = early.offers.and_then(|assessed| assessed.findings_for(subject));
        found.extend(offered.unwrap_or_else(|| offers(subject, &expectations.budgets)));
        found.extend(providers::check(subject, providers));
        *found = measure.weigh(Some(&subject.name), std::mem::take(found));
    }
    Assessment { servers, overall: measure.weigh(None, overall) }
}

/// The rules that look only at what one server offers: names, schemas, texts, annotations, size.
fn offers(subject: &CheckSubject, budgets: &Budgets) -> Vec<CheckFinding> {
    let mut findings = names::names(subject);
    findings.extend(texts::schemas(subject));
    findings.extend(texts::texts(subject, budgets));
    findings.extend(names::hints(subject));
    findings.extend(names::context(subject, budgets));
    findings
}

// Rules over several servers: the same or look-alike names, and texts about tools of other servers.

fn same_names(subjects: &[CheckSubject]) -> Vec<CheckFinding> {
    let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for subject in subjects {
        for tool in subject.tools().filter(|tool| !tool.id().is_empty()) {
            owners.entry(tool.id()).or_default().insert(&subject.name);
        }
    }
    let several = owners.into_iter().filter(|(_, owners)| owners.len() > 1);
    let found = several.map(|(name, owners)| {
        let (name, owners) = (brief(name, 80), Vec::from_iter(owners).join(", "));
        let message = format!("`{name}` is offered by {owners}");
        finding("name/duplicate-across", format!("tools/{name}"), message)
    });
    found.collect()
}

/// Servers and tools with names that look like those of servers before them: findings by subject.
fn look_alikes(subjects: &[CheckSubject]) -> Vec<Vec<CheckFinding>> {
    let mut servers: BTreeMap<String, &str> = BTreeMap::new();
    let mut tools: BTreeMap<String, (&str, &str)> = BTreeMap::new();
    let mut all = Vec::new();
    for subject in subjects {
        let mut found = Vec::new();
        if let Some(other) = servers.insert(shape(&subject.name), &subject.name) {
            let message = format!("the server's name looks like that of `{}`", brief(other, 80));
            found.push(finding("name/look-alike", "", message));
        }
        for tool in subject.tools() {
            let id = tool.id();
            let (server, other) = *tools.entry(shape(id)).or_insert((&subject.name, id));
            if server != subject.name && other != id {
                let message =
                    format!("looks like `{}` of server `{}`", brief(other, 80), brief(server, 40));
                found.push(finding("name/look-alike", tool.place(), message));
            }
        }
        all.push(found);
    }
    all
}

/// The distinctive names of all tools, to be found in the texts of other servers in one pass.
struct ToolNames<'s> {
    names: Vec<&'s str>,
    /// Who has each, as places in the list of subjects.
    owners: Vec<Vec<usize>>,
    finder: Option<AhoCorasick>,
}

impl<'s> ToolNames<'s> {
    fn new(subjects: &'s [CheckSubject]) -> Self {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let (mut names, mut owners) = (Vec::new(), Vec::<Vec<usize>>::new());
        for (owner, subject) in subjects.iter().enumerate() {
            for tool in subject.tools().filter(|tool| is_distinctive(tool.id())) {
                let place = *places.entry(tool.id()).or_insert_with(|| {
                    names.push(tool.id());
                    owners.push(Vec::new());
                    names.len() - 1
                });
                if owners[place].last() != Some(&owner) {
                    owners[place].push(owner);
                }
            }
        }
        // Names are bounded by the lists; what is more than the finder takes is not looked for.
        let finder = (subjects.len() > 1).then(|| AhoCorasick::new(&names).ok()).flatten();
        Self { names, owners, finder }
    }

    /// The names that a text mentions as whole words, each once.
    fn mentioned(&self, text: &str) -> BTreeSet<usize> {
        let hits = self.finder.iter().flat_map(|finder| finder.find_overlapping_iter(text));
        let whole = hits.filter(|hit| is_whole_word(text, hit.range()));
        whole.map(|hit| hit.pattern().as_usize()).collect()
    }
}

/// Texts of a server that mention a tool only another one has.
fn shadowing(
    (place, subject): (usize, &CheckSubject),
    subjects: &[CheckSubject],
    all: &ToolNames<'_>,
) -> Vec<CheckFinding> {
    let own: BTreeSet<&str> = subject.tools().map(|tool| tool.id()).collect();
    let texts = subject
        .entries()
        .filter_map(|entry| Some((entry.place(), entry.text("description")?)))
        .chain(subject.instructions.as_deref().map(|text| ("instructions".to_owned(), text)));
    // Two entries for the same server mention the same tools, which a filter or version may hide.
    let maker =
        |subject: &CheckSubject| subject.server_info.as_ref().map(|info| info["name"].clone());
    let sibling = |other: &CheckSubject| maker(subject).is_some() && maker(other) == maker(subject);
    // Mentioning `click` is not suspicious in a server that has a `browser_click` of its own.
    let parts = |name: &str, of: &str| {
        let rest = of.strip_suffix(name).or_else(|| of.strip_prefix(name));
        let joint = ['_', '-', '.'];
        rest.is_some_and(|rest| rest.starts_with(joint) || rest.ends_with(joint))
    };
    let known = |name: &str| own.iter().any(|of| *of == name || parts(name, of));
    let mut found = Vec::new();
    for (at, text) in texts {
        for tool in all.mentioned(text).into_iter().filter(|tool| !known(all.names[*tool])) {
            let others = all.owners[tool].iter().filter(|owner| **owner != place);
            for owner in others.map(|owner| &subjects[*owner]).filter(|other| !sibling(other)) {
                let (tool, owner) = (brief(all.names[tool], 80), brief(&owner.name, 40));
                let message = format!("speaks about `{tool}`, a tool of server `{owner}`");
                found.push(finding("name/shadow", at.clone(), message));
            }
        }
    }
    found
}

/// Whether a name is distinctive: not an ordinary word that any text may contain.
fn is_distinctive(name: &str) -> bool {
    let joined = name.contains(['_', '-', '.']);
    let camel = name.chars().skip(1).any(|c| c.is_ascii_uppercase())
        && name.chars().any(|c| c.is_ascii_lowercase());
    name.len() >= 5 && (joined || camel)
}

fn is_whole_word(text: &str, at: Range<usize>) -> bool {
    let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let before = text[..at.start].chars().next_back();
    let after = text[at.end..].chars().next();
    !before.is_some_and(part) && !after.is_some_and(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn subject(description: &str) -> CheckSubject {
        let tool = json!({ "name": "look_up", "description": description });
        CheckSubject { tools: vec![Arc::new(tool.into())], ..CheckSubject::default() }
    }

    #[test]
    fn what_was_assessed_counts_as_long_as_the_same_is_offered() {
        let assessed = AssessedOffers::new(subject("word"), &Budgets::default());
        // Read anew from the view: equal, and not the same in memory.
        let found = assessed.clone().findings_for(&subject("word")).expect("it offers the same");
        assert_eq!(found, offers(&subject("word"), &Budgets::default()));
        assert!(found.iter().any(|found| found.rule == "describe/short"), "{found:?}");
        assert_eq!(assessed.findings_for(&subject("two words")), None);
    }
}
