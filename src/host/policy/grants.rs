//! Grants: to whom, for how long, for what. Pure; the deck stores them in a file.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use globset::Glob;
use serde::{Deserialize, Serialize};

use crate::pattern::{NamePatterns, OfferedNames, Reading, meant_by, meets};
use crate::policy::holder::parse_holder;
use crate::policy::pins::Digest;
use crate::policy::principal::{AccessScope, PolicyTarget, Principal, TargetKind};
use crate::policy::rules::{Memo, Unmatched};
use base::{ServerName, Timestamp};

/// The number of a grant.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct GrantId(pub u64);

impl fmt::Display for GrantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The kind and duration of a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum GrantKind {
    /// `ALLOW_ONCE`: until a time, or until its tab or session ends. Never persisted.
    Once {
        /// When it ends.
        until: Option<Timestamp>,
        /// The tab or session it ends with.
        session: Option<Arc<str>>,
    },
    /// `ALLOW_ALWAYS`: until it is revoked, for unchanged definitions ([`Covers`]).
    Always,
    /// `DENY`: takes precedence over all other grants.
    Deny,
}

/// A grant to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGrant {
    /// The origin, in the spelling of [`crate::Origin`]; `gateway:*` for all of a kind.
    pub origin: String,
    /// The profile.
    pub profile: String,
    /// The scopes; when empty [`AccessScope::OF_TOOLS`] where tools are named, otherwise all.
    pub scopes: BTreeSet<AccessScope>,
    /// The tools, [`NamePatterns`] (`server.tool`); all when empty.
    pub allowed_tools: Vec<String>,
    /// Its kind and duration.
    pub kind: GrantKind,
}

impl NewGrant {
    /// The scopes that a list of tools does not limit, with what to do about it; `None` where there
    /// are no tools or no such scope.
    pub fn unlimited_scopes(&self) -> Option<String> {
        let scopes = unlimited_scopes(&self.allowed_tools, &self.scopes)?;
        Some(format!("a list of tools does not limit {scopes}: add a grant for it without tools"))
    }
}

/// The scopes that a list of tools does not limit, in words.
fn unlimited_scopes(tools: &[String], scopes: &BTreeSet<AccessScope>) -> Option<String> {
    let others = scopes.iter().filter(|scope| !AccessScope::OF_TOOLS.contains(scope));
    let others: Vec<&str> = others.map(|scope| scope.as_str()).collect();
    (!tools.is_empty() && !others.is_empty()).then(|| others.join(" and "))
}

/// A grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Grant {
    /// Its number.
    pub id: GrantId,
    /// The origin.
    pub origin: String,
    /// The profile.
    pub profile: String,
    /// The scopes; when empty [`AccessScope::OF_TOOLS`] where tools are named, otherwise all.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<AccessScope>,
    /// The tools; all when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Its kind and duration.
    pub effect: GrantKind,
    /// When it was given.
    pub given: Timestamp,
    /// The definitions an `ALLOW_ALWAYS` was given for, by server. A missing server has not been
    /// seen since the grant was given.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub covers: BTreeMap<String, Covers>,
}

/// The definitions of one server that an `ALLOW_ALWAYS` was given for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct Covers {
    /// Digest of the command line or address.
    pub command: Digest,
    /// Digests of the definitions of its tools.
    pub tools: BTreeMap<String, Digest>,
}

impl Grant {
    /// Whether it has expired.
    pub fn is_over(&self, now: Timestamp) -> bool {
        matches!(self.effect, GrantKind::Once { until: Some(until), .. } if until <= now)
    }

    /// Its description: `grant 7 (ALLOW_ALWAYS)`.
    pub fn rule(&self) -> String {
        let word = match self.effect {
            GrantKind::Once { .. } => "ALLOW_ONCE",
            GrantKind::Always => "ALLOW_ALWAYS",
            GrantKind::Deny => "DENY",
        };
        format!("grant {} ({word})", self.id)
    }

    /// The scopes that it has in effect; all when empty.
    pub fn scopes_in_effect(&self) -> Cow<'_, BTreeSet<AccessScope>> {
        if self.scopes.is_empty() && !self.allowed_tools.is_empty() {
            return Cow::Owned(AccessScope::OF_TOOLS.iter().copied().collect());
        }
        Cow::Borrowed(&self.scopes)
    }

    /// What it does not do although it seems to, or does beyond what it seems to.
    pub fn flaws(&self) -> Vec<String> {
        let is_deny = self.effect == GrantKind::Deny;
        let holder = match parse_holder(&self.origin) {
            Ok(holder) if holder == self.origin => None,
            Ok(holder) => Some(format!("write {holder}")),
            Err(why) => Some(why),
        };
        let holder = holder.map(|why| {
            let nothing = if is_deny { "denies nothing" } else { "permits nothing" };
            format!("{} for `{}` {nothing}: {why}", self.rule(), self.origin)
        });
        let scopes = unlimited_scopes(&self.allowed_tools, &self.scopes).map(|scopes| {
            let word = if is_deny { "denies" } else { "permits" };
            format!(
                "{}: a list of tools does not limit {scopes}: it {word} that for everything; give \
                 it a grant of its own",
                self.rule()
            )
        });
        holder.into_iter().chain(scopes).collect()
    }

    /// Whether it holds for one of these scopes. A list of tools permits nothing that is no tool; the
    /// denial of a list that cannot be read denies everything.
    fn holds_for(&self, scopes: &[AccessScope]) -> bool {
        let is_of_tools = !self.allowed_tools.is_empty() && self.effect != GrantKind::Deny;
        scopes.iter().any(|scope| {
            if self.scopes.is_empty() {
                !is_of_tools || AccessScope::OF_TOOLS.contains(scope)
            } else {
                self.scopes.contains(scope)
            }
        })
    }

    /// Whether it names all of these scopes.
    fn names_all(&self, scopes: &[AccessScope]) -> bool {
        scopes.iter().all(|scope| self.scopes.contains(scope))
    }

    /// Whether the current definitions are those it was given for.
    fn binds(&self, target: &PolicyTarget<'_>) -> bool {
        let Some(covers) = self.covers.get(target.server) else { return false };
        if target.about.is_none_or(|about| about.command != covers.command) {
            return false;
        }
        target.kind != TargetKind::Tool
            || target.definition.is_some() && covers.tools.get(target.name) == target.definition
    }

    /// Binds an `ALLOW_ALWAYS` to the current definitions of a server, unless it is already bound
    /// to that server; returns whether it changed.
    pub fn bind(
        &mut self,
        server: &str,
        command: Digest,
        tools: &BTreeMap<String, Digest>,
    ) -> bool {
        if self.effect != GrantKind::Always || self.covers.contains_key(server) {
            return false;
        }
        self.covers.insert(server.to_owned(), Covers { command, tools: tools.clone() });
        true
    }
}

/// All grants, compiled.
#[derive(Debug, Default)]
pub struct Grants {
    /// By kind and id; the id is `*` for all of a kind.
    by_origin: HashMap<Box<str>, HashMap<Box<str>, OfOrigin>>,
    all: Vec<Grant>,
    /// The configured servers, to read patterns that begin with the name of one.
    servers: Arc<[ServerName]>,
}

/// The grants of one origin, with all their globs in one set.
#[derive(Debug, Default)]
struct OfOrigin {
    grants: Vec<CompiledGrant>,
    tools: NamePatterns,
    /// For each pattern, the index of its grant.
    of: Vec<usize>,
    /// The grants that cover a tool, by a pattern or because they cover all tools; with the length
    /// of the server's name, because two servers can share a full name.
    known: Memo<(usize, Arc<[usize]>)>,
}

#[derive(Debug)]
struct CompiledGrant {
    grant: Grant,
    rule: Arc<str>,
    all_tools: bool,
}

/// The result of evaluating grants, from the weakest to the strongest.
#[derive(Clone, Debug, PartialEq, Eq, strum::EnumDiscriminants)]
#[strum_discriminants(derive(PartialOrd))]
pub(super) enum GrantWord {
    /// Nothing is granted.
    Nothing,
    /// Something is granted, but not this scope.
    OtherScopes,
    /// The scope is granted, but for other tools.
    OtherTools,
    /// A grant was given for an earlier definition.
    Stale(Arc<str>),
    /// A grant was given before its server was seen, and will be bound to what it offers then.
    Unseen(Arc<str>),
    /// A grant permits it.
    Granted(Arc<str>),
    /// A grant denies it.
    Denied(Arc<str>),
}

impl Grants {
    /// Compiles grants. Invalid globs permit nothing; a `DENY` with an invalid glob denies all
    /// tools.
    pub fn new(all: Vec<Grant>) -> Self {
        let mut building: HashMap<&str, (OfOrigin, Vec<Glob>)> = HashMap::new();
        for grant in &all {
            let (own, globs) = building.entry(&grant.origin).or_default();
            let mut readable = true;
            for glob in &grant.allowed_tools {
                match Glob::new(glob) {
                    Ok(glob) => {
                        globs.push(glob);
                        own.of.push(own.grants.len());
                    }
                    Err(_) => readable = false,
                }
            }
            let all_tools = grant.allowed_tools.is_empty();
            let mut compiled =
                CompiledGrant { rule: grant.rule().into(), grant: grant.clone(), all_tools };
            compiled.all_tools |= !readable && compiled.denies();
            own.grants.push(compiled);
        }
        let mut by_origin: HashMap<_, HashMap<_, _>> = HashMap::new();
        for (origin, (mut own, globs)) in building {
            match NamePatterns::new(&globs) {
                Ok(set) => own.tools = set,
                Err(_) => own.grants.iter_mut().for_each(|of| of.all_tools |= of.denies()),
            }
            let (kind, id) = origin.split_once(':').unwrap_or((origin, ""));
            by_origin.entry(kind.into()).or_default().insert(id.into(), own);
        }
        Self { by_origin, all, servers: Arc::default() }
    }

    /// Reads the patterns of grants for these servers: one that begins with the name of a server is
    /// about that server alone.
    #[must_use]
    pub fn among(self, servers: Arc<[ServerName]>) -> Self {
        Self { servers, ..Self::new(self.all) }
    }

    /// All grants.
    pub fn all(&self) -> &[Grant] {
        &self.all
    }

    /// Evaluates the grants that cover the target (`covered`), or those that do not, which only
    /// explain why it is not permitted. `full` is `server.tool`.
    pub(super) fn standing(
        &self,
        principal: &Principal,
        scopes: &[AccessScope],
        (target, full): (&PolicyTarget<'_>, &str),
        covered: bool,
        now: Timestamp,
    ) -> GrantWord {
        let (kind, id) = principal.origin.parts();
        let Some(of_kind) = self.by_origin.get(kind) else { return GrantWord::Nothing };
        let shared = of_kind.get("*").filter(|_| id.is_some());
        let own = of_kind.get(id.unwrap_or_default());
        let is_tool = target.kind == TargetKind::Tool;
        let mut best = GrantWord::Nothing;
        for of_origin in own.into_iter().chain(shared) {
            let about = is_tool.then(|| of_origin.about(target, full, &self.servers));
            let is_about = |at| about.as_ref().is_none_or(|about| about.contains(&at));
            for (at, compiled) in of_origin.grants.iter().enumerate() {
                if is_about(at) != covered
                    || *compiled.grant.profile != *principal.profile
                    || compiled.grant.is_over(now)
                {
                    continue;
                }
                let said = compiled.says(principal, scopes, target, covered);
                if matches!(said, GrantWord::Denied(_)) {
                    return said;
                }
                best = best.or(said);
            }
        }
        best
    }
}

/// The patterns of a grant that match nothing that is offered.
pub fn unmatched_tools(patterns: &[String], offered: &[OfferedNames]) -> Vec<Unmatched> {
    let globs = patterns.iter().filter_map(|pattern| Glob::new(pattern).ok());
    let unmatched = globs.filter(|glob| !meets(glob, offered)).map(|glob| Unmatched {
        misfit: None,
        rule: format!("`{}`", glob.glob()).into(),
        meant: meant_by(glob.glob(), offered),
    });
    unmatched.collect()
}

impl GrantWord {
    /// The stronger of two; the first if equal.
    pub(super) fn or(self, other: Self) -> Self {
        let rank = GrantWordDiscriminants::from;
        if rank(&other) > rank(&self) { other } else { self }
    }
}

impl OfOrigin {
    fn about(&self, target: &PolicyTarget<'_>, full: &str, servers: &[ServerName]) -> Arc<[usize]> {
        let server_len = target.server.len();
        let find = || {
            let read = |reading| self.tools.matches(target.server, target.name, reading);
            let (denied, granted) = (read(Reading::Wide), read(Reading::Narrow(servers)));
            let is_covered = |at: &usize| {
                let grant = &self.grants[*at];
                let named = if grant.denies() { &denied } else { &granted };
                grant.all_tools || named.iter().any(|pattern| self.of[*pattern] == *at)
            };
            (server_len, (0..self.grants.len()).filter(is_covered).collect())
        };
        self.known.get_or_find(full, |(known, _)| *known == server_len, find).1
    }
}

impl CompiledGrant {
    fn denies(&self) -> bool {
        self.grant.effect == GrantKind::Deny
    }

    /// Evaluates this grant; `covered` is whether it covers the target.
    fn says(
        &self,
        principal: &Principal,
        scopes: &[AccessScope],
        target: &PolicyTarget<'_>,
        covered: bool,
    ) -> GrantWord {
        let grant = &self.grant;
        let is_tool = target.kind == TargetKind::Tool;
        let scoped = grant.holds_for(scopes);
        match &grant.effect {
            // A `DENY` of certain tools does not affect prompts, resources and servers, unless it names
            // their scopes: those it denies as a whole, since the list of tools says nothing of them.
            GrantKind::Deny if !is_tool && !self.all_tools && !grant.names_all(scopes) => {
                return GrantWord::Nothing;
            }
            GrantKind::Deny if scoped && covered => {
                return GrantWord::Denied(Arc::clone(&self.rule));
            }
            GrantKind::Deny => return GrantWord::Nothing,
            GrantKind::Once { session: Some(session), .. }
                if principal.session.as_ref() != Some(session) =>
            {
                return GrantWord::Nothing;
            }
            GrantKind::Once { .. } | GrantKind::Always => {}
        }
        if !scoped {
            return GrantWord::OtherScopes;
        }
        if !covered {
            return GrantWord::OtherTools;
        }
        if grant.effect == GrantKind::Always && !grant.covers.contains_key(target.server) {
            return GrantWord::Unseen(Arc::clone(&self.rule));
        }
        if grant.effect == GrantKind::Always && !grant.binds(target) {
            return GrantWord::Stale(Arc::clone(&self.rule));
        }
        GrantWord::Granted(Arc::clone(&self.rule))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Origin;
    use crate::policy::PolicyAction;

    #[test]
    fn a_list_of_tools_permits_nothing_that_is_no_tool() {
        const NOW: Timestamp = Timestamp(0);
        let caller = Principal::new(Origin::Gateway("a".into()));
        let word = |scopes: &[AccessScope], tools: &[&str], (action, target)| {
            let grant = Grant {
                id: GrantId(1),
                origin: "gateway:a".to_owned(),
                profile: (*caller.profile).to_owned(),
                scopes: scopes.iter().copied().collect(),
                allowed_tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
                effect: GrantKind::Once { until: None, session: None },
                given: NOW,
                covers: BTreeMap::new(),
            };
            let (action, target): (PolicyAction, PolicyTarget<'_>) = (action, target);
            let full = format!("s.{}", target.name);
            let of = (&target, &*full);
            Grants::new(vec![grant]).standing(&caller, action.scopes(target.kind), of, true, NOW)
        };
        let granted = |scopes: &[AccessScope], tools: &[&str]| {
            let asked = [
                (PolicyAction::List, PolicyTarget::tool("s", "t")),
                (PolicyAction::Call, PolicyTarget::tool("s", "t")),
                (PolicyAction::List, PolicyTarget::server("s")),
                (PolicyAction::Connect, PolicyTarget::server("s")),
                (PolicyAction::Read, PolicyTarget::resource("s", "info://b")),
                (PolicyAction::Subscribe, PolicyTarget::resource("s", "info://b")),
                (PolicyAction::List, PolicyTarget::prompt("s", "p")),
                (PolicyAction::Prompt, PolicyTarget::prompt("s", "p")),
            ];
            asked.map(|of| u8::from(matches!(word(scopes, tools, of), GrantWord::Granted(_))))
        };
        assert_eq!(granted(&[], &["s.t"]), [1, 1, 1, 0, 0, 0, 0, 0]);
        assert_eq!(granted(&[], &[]), [1; 8]);
        let read = [AccessScope::ToolsCall, AccessScope::ResourcesRead];
        assert_eq!(granted(&read, &["s.t"]), [1, 1, 1, 0, 1, 1, 0, 0]);
    }
}
