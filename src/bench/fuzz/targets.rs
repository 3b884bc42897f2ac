//! Which tools are fuzzed: the names and patterns of a plan, in any spelling of [`NamePatterns`], and
//! those of them that match nothing.

use std::collections::BTreeMap;

use globset::Glob;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::plan::{ClaimObserver, FuzzPlan};
use base::ServerName;
use base::text::nearest;
use host::{
    NamePatterns, OfferedNames, Reading, resolve_name, split_first, split_name, unmatched_tools,
};
use protocol::{Capabilities, Tool};

/// The tools that a plan is about.
pub(super) struct FuzzTargets<'a> {
    plan: &'a FuzzPlan,
    /// The servers of the plan: what permits is about one of them.
    servers: Vec<ServerName>,
    skip: NamePatterns,
    allow: NamePatterns,
    tools: NamePatterns,
    /// Those of `tools` that are names, and no globs.
    named: NamePatterns,
    /// The keys of the settings, each at its index.
    seeds: NamePatterns,
    claims: NamePatterns,
    /// What each server offers, as far as it was seen.
    offered: Vec<OfferedNames>,
}

impl<'a> FuzzTargets<'a> {
    /// Compiles the patterns of a plan.
    ///
    /// # Errors
    /// When they are too large together: nothing may be called then.
    pub(super) fn new(plan: &'a FuzzPlan) -> Result<Self, globset::Error> {
        let settings = &plan.settings;
        let servers: Vec<ServerName> = plan.source.config.servers.keys().cloned().collect();
        let unseen = |server: &ServerName| OfferedNames::of_tools(server.clone(), None);
        Ok(Self {
            plan,
            skip: globs(&settings.skip)?,
            allow: globs(&settings.allow)?,
            tools: globs(&plan.tools)?,
            named: names(&plan.tools)?,
            seeds: names(settings.seeds.keys())?,
            claims: names(settings.claims.keys())?,
            offered: servers.iter().map(unseen).collect(),
            servers,
        })
    }

    /// Notes what a server offers.
    pub(super) fn see(&mut self, server: &ServerName, lists: &Capabilities) {
        if let Some(known) = self.offered.iter_mut().find(|known| known.server == *server) {
            *known = OfferedNames::of_tools(server.clone(), Some(lists));
        }
    }

    /// Whether a tool is looked at.
    pub(super) fn takes(&self, server: &ServerName, tool: &str) -> bool {
        self.tools.is_empty() || self.permits(&self.tools, server, tool)
    }

    /// Why a tool is not called; `None` when it is.
    pub(super) fn refusal(&self, server: &ServerName, tool: &Tool) -> Option<&'static str> {
        if self.skips(server, &tool.name) {
            return Some("`fuzz.skip` names it");
        }
        let is_called = tool.hints.read_only == Some(true)
            || self.permits(&self.named, server, &tool.name)
            || self.permits(&self.allow, server, &tool.name);
        (!is_called).then_some("not annotated read-only: name it, or permit it with --allow")
    }

    /// Whether a tool is never called.
    fn skips(&self, server: &ServerName, tool: &str) -> bool {
        self.skip.is_match(server.as_str(), tool, Reading::Wide)
    }

    fn permits(&self, patterns: &NamePatterns, server: &ServerName, tool: &str) -> bool {
        patterns.is_match(server.as_str(), tool, Reading::Narrow(&self.servers))
    }

    /// The arguments to start from that the settings give for a tool.
    pub(super) fn seed(&self, server: &ServerName, tool: &str) -> Option<&'a Map<String, Value>> {
        self.setting(&self.seeds, &self.plan.settings.seeds, server, tool)
    }

    /// How the effect of a tool can be seen: the own name of the tool that shows it, and its
    /// arguments.
    pub(super) fn claim(
        &self,
        server: &ServerName,
        tool: &str,
    ) -> Option<(&str, &'a Map<String, Value>)> {
        let claim = self.setting(&self.claims, &self.plan.settings.claims, server, tool)?;
        let shown_by =
            self.observer(server, claim).filter(|shown_by| !self.skips(server, shown_by));
        Some((shown_by?, &claim.arguments))
    }

    /// The value of a tool in a map whose keys are these.
    fn setting<T>(
        &self,
        keys: &NamePatterns,
        map: &'a IndexMap<String, T>,
        server: &ServerName,
        tool: &str,
    ) -> Option<&'a T> {
        let found = keys.matches(server.as_str(), tool, Reading::Narrow(&self.servers));
        map.get_index(*found.first()?).map(|(_, value)| value)
    }

    /// The own name of the tool that shows an effect, which may be written with its server.
    fn observer(&self, server: &ServerName, claim: &ClaimObserver) -> Option<&str> {
        let offered = self.offered.iter().find(|offered| offered.server == *server)?;
        let known = offered.names.iter().flatten().map(|name| (&offered.server, name));
        resolve_name(&claim.tool, known).ok().map(|(_, name)| &**name)
    }

    /// The settings that name or match nothing that is there, which would be left out without a
    /// word: a place of theirs, and why. A server that was not seen may offer anything.
    pub(super) fn unmatched(&self) -> BTreeMap<String, String> {
        let settings = &self.plan.settings;
        let folders = settings.folders.keys().filter(|name| !self.is_server(name));
        let mut found: BTreeMap<String, String> =
            folders.map(|name| (format!("fuzz.folders: {name}"), self.no_server(name))).collect();
        let globs = [("fuzz.allow", &settings.allow), ("fuzz.skip", &settings.skip)];
        for (place, text) in globs.iter().flat_map(|(place, all)| all.iter().map(|t| (*place, t))) {
            found.extend(self.no_match(text, text).map(|why| (format!("{place}: {text}"), why)));
        }
        let seeds = settings.seeds.keys().map(|name| ("fuzz.seeds", name));
        let claims = settings.claims.keys().map(|name| ("fuzz.claims", name));
        for (place, name) in seeds.chain(claims) {
            let why = self.no_match(&globset::escape(name), name);
            found.extend(why.map(|why| (format!("{place}: {name}"), why)));
        }
        for (name, claim) in &settings.claims {
            found.extend(self.unseen_observer(name, claim));
        }
        found
    }

    /// The names and globs of the tools to fuzz that match nothing.
    pub(super) fn unmatched_tools(&self) -> BTreeMap<String, String> {
        let why = |text: &String| Some((format!("fuzz: {text}"), self.no_match(text, text)?));
        self.plan.tools.iter().filter_map(why).collect()
    }

    /// Why the effect of a tool of this name cannot be seen, if its observer cannot be called.
    fn unseen_observer(&self, name: &str, claim: &ClaimObserver) -> Option<(String, String)> {
        let server = self.plan.source.owner(name)?;
        let offered = self.offered.iter().find(|offered| offered.server == server)?;
        let names = offered.names.as_ref()?;
        let own = split_name(&claim.tool, [server.as_str()]).map_or(&*claim.tool, |(_, own)| own);
        let place = format!("fuzz.claims: {server}.{own}");
        let Some(tool) = self.observer(&server, claim) else {
            let near = nearest(own, names, 0.6).map(|near| format!("{server}.{near}"));
            return Some((place, format!("the server has no such tool{}", did_you_mean(near))));
        };
        let why = || "`fuzz.skip` names it, so it shows nothing".to_owned();
        self.skips(&server, tool).then(|| (place, why()))
    }

    /// Why a pattern, written as this text, matches nothing; `None` when it may match something.
    fn no_match(&self, pattern: &str, text: &str) -> Option<String> {
        let unmatched = unmatched_tools(&[pattern.to_owned()], &self.offered).pop()?;
        if let Ok(patterns) = NamePatterns::parse(pattern) {
            let is_match = |server: &ServerName, tool: &str| {
                patterns.is_match(server.as_str(), tool, Reading::Wide)
            };
            let is_seen = |offered: &OfferedNames| {
                offered.names.iter().flatten().any(|tool| is_match(&offered.server, tool))
            };
            if self.offered.iter().any(is_seen) {
                return None;
            }
        }
        if self.plan.source.owner(text).is_some() {
            let meant = did_you_mean(unmatched.meant);
            return Some(format!("the server has no such tool{meant}"));
        }
        let named = split_first(text).filter(|(server, _)| !server.contains(WILDCARDS));
        Some(named.map_or_else(
            || {
                let meant = did_you_mean(unmatched.meant);
                format!("it matches nothing that the servers offer{meant}")
            },
            |(server, _)| self.no_server(server),
        ))
    }

    fn is_server(&self, name: &str) -> bool {
        self.servers.iter().any(|server| server.as_str() == name)
    }

    fn no_server(&self, name: &str) -> String {
        let near = nearest(name, self.servers.iter().map(ServerName::as_str), 0.6);
        format!("there is no such server{}", did_you_mean(near.map(str::to_owned)))
    }
}

/// The characters that mean something in a glob.
const WILDCARDS: [char; 5] = ['*', '?', '[', '{', '\\'];

fn did_you_mean(name: Option<String>) -> String {
    name.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Compiles globs. Each is a name too: one with signs of globs matches itself.
fn globs(texts: &[String]) -> Result<NamePatterns, globset::Error> {
    let globs = texts.iter().filter_map(|text| Glob::new(text).ok());
    let names = texts.iter().map(|text| name(text));
    let all = globs.map(Ok).chain(names).collect::<Result<Vec<_>, _>>()?;
    NamePatterns::new(&all)
}

/// Compiles names, each at its index.
fn names<'t>(texts: impl IntoIterator<Item = &'t String>) -> Result<NamePatterns, globset::Error> {
    let all = texts.into_iter().map(|text| name(text)).collect::<Result<Vec<_>, _>>()?;
    NamePatterns::new(&all)
}

fn name(text: &str) -> Result<Glob, globset::Error> {
    Glob::new(&globset::escape(text))
}
