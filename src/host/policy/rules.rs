//! The policy file and its compiled rules: the global ones and those of profiles.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use globset::{Glob, GlobSet};
use parking_lot::RwLock;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::audit::AuditConfig;
use super::globs::{BLANK_PATTERN, EMPTY_LIST, GlobList};
use super::overlay::OverlayConfig;
use super::principal::{PolicyTarget, TargetKind};
use super::quotas::{QuotaConfig, Quotas};
use super::sign_in::{ProfileMatch, SignInConfig};
use super::trifecta::{Trifecta, TrifectaConfig};
use crate::naming::exposed_name;
use crate::pattern::{NamePatterns, OfferedNames, Reading, meant_by, meets};
use base::ServerName;
use base::text::nearest;
use base::text::percent;
use protocol::{Capabilities, ToolHints};

/// The compiled rules of a policy.
#[derive(Debug, Default)]
pub struct Rules {
    /// Whether they apply to the user too.
    pub(super) applies_to_person: bool,
    pub(super) all: Layer,
    pub(super) profiles: HashMap<Box<str>, Layer>,
    quotas: Quotas,
    pub(super) trifecta: Trifecta,
    /// The configured servers, to read patterns that begin with the name of one.
    servers: RwLock<Arc<[ServerName]>>,
}

/// The global rules, or those of one profile.
#[derive(Debug, Default)]
pub(super) struct Layer {
    allow: List,
    ask: List,
    deny: List,
    /// The tools of its overlays, in their order, each one glob.
    overlays: (Globs, Arc<[OverlayConfig]>),
    known: Memo<MatchedRules>,
}

/// The rules that a tool matched, and what they depend on besides its full name.
#[derive(Clone, Debug, Default)]
struct MatchedRules {
    hints: ToolHints,
    /// Length of the server's name: two servers can share a full name (`a` + `b.x`, `a.b` + `x`).
    server_len: usize,
    rules: FirstRules,
}

/// A memo of results by full tool name, because lists look up the same tools repeatedly.
#[derive(Debug, Default)]
pub(super) struct Memo<V>(RwLock<HashMap<Box<str>, V>>);

/// Maximum number of entries.
const MAX_MEMO_ENTRIES: usize = 10_000;
/// Maximum length of a memoized name, in bytes; callers choose names freely.
const MAX_MEMO_NAME_BYTES: usize = 256;

impl<V: Clone> Memo<V> {
    fn clear(&self) {
        self.0.write().clear();
    }

    /// The entry of `full` if it `fits`, otherwise the result of `find`.
    pub(super) fn get_or_find(
        &self,
        full: &str,
        fits: impl Fn(&V) -> bool,
        find: impl FnOnce() -> V,
    ) -> V {
        if let Some(known) = self.0.read().get(full).filter(|known| fits(known)) {
            return known.clone();
        }
        let found = find();
        if full.len() > MAX_MEMO_NAME_BYTES {
            return found;
        }
        let mut known = self.0.write();
        if known.len() >= MAX_MEMO_ENTRIES {
            known.clear();
        }
        known.insert(full.into(), found.clone());
        found
    }
}

/// The first rule of each effect that matches a target.
#[derive(Clone, Debug, Default)]
pub(super) struct FirstRules {
    pub(super) deny: Option<Arc<str>>,
    pub(super) allow: Option<Arc<str>>,
    pub(super) ask: Option<Arc<str>>,
    /// Whether there are `allow` rules for this kind of target.
    pub(super) is_listing: bool,
}

/// Rules of one effect, by [`TargetKind`].
#[derive(Debug, Default)]
struct List([Globs; 4]);

#[derive(Debug, Default)]
struct Globs {
    set: NamePatterns,
    rules: Vec<RuleGlob>,
}

/// One glob of a rule.
#[derive(Clone, Debug)]
struct RuleGlob {
    rule: Arc<str>,
    glob: Glob,
    /// The hints that a tool must have.
    hints: ToolHints,
    /// For resources: restricts the rule to these servers.
    servers: Option<Arc<GlobSet>>,
}

/// A rule or grant that matches nothing that exists, or does not fit what it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unmatched {
    /// The rule, as [`crate::policy::Decision::rule`] names it, or the pattern of a grant.
    pub rule: Arc<str>,
    /// A similar name, if any.
    pub meant: Option<String>,
    /// What in it cannot work with what it matches; `None` when it matches nothing.
    pub misfit: Option<String>,
}

impl fmt::Display for Unmatched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(misfit) = &self.misfit {
            return write!(f, "{}: {misfit}", self.rule);
        }
        write!(f, "{} matches nothing that the servers offer now", self.rule)?;
        match &self.meant {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

impl Rules {
    /// Compiles a policy.
    ///
    /// # Errors
    /// All invalid rules, each with its place and the problem.
    pub fn compile(config: &PolicyConfig) -> Result<Self, Vec<String>> {
        let mut problems = Vec::new();
        let lists = |allow, ask, deny| [("allow", allow), ("ask", ask), ("deny", deny)];
        let mut layer = |at: &str, lists: [(&str, &Vec<RuleConfig>); 3]| {
            let [allow, ask, deny] = lists
                .map(|(key, rules)| List::compile(&format!("{at}/{key}"), rules, &mut problems));
            Layer { allow, ask, deny, ..Layer::default() }
        };
        let all = layer("", lists(&config.allow, &config.ask, &config.deny));
        let profiles = config.profiles.iter().map(|(name, profile)| {
            let at = format!("/profiles/{name}");
            let lists = lists(&profile.allow, &profile.ask, &profile.deny);
            (name.as_str().into(), layer(&at, lists))
        });
        let mut profiles: HashMap<Box<str>, Layer> = profiles.collect();
        for (name, profile) in &config.profiles {
            let place = format!("policy/profiles/{name}/overlays");
            if let Some(layer) = profiles.get_mut(&**name) {
                layer.overlays = overlays(&place, &profile.overlays, &mut problems);
            }
            if profile.expose_tokens.is_some() && profile.expose != ToolExposure::Auto {
                problems.push(format!(
                    "policy/profiles/{name}/exposeTokens: it counts only with `\"expose\": \"auto\"`"
                ));
            }
        }
        problems.extend(config.audit.iter().flat_map(AuditConfig::problems));
        problems.extend(config.hook.iter().flat_map(HookConfig::problems));
        problems.extend(config.sign_in.iter().flat_map(SignInConfig::problems));
        for (name, profile) in &config.profiles {
            let Some(matches) = &profile.matches else { continue };
            let wrong = matches.problems().into_iter();
            problems.extend(wrong.map(|it| format!("policy/profiles/{name}/match: {it}")));
            if config.sign_in.is_none() {
                problems.push(format!(
                    "policy/profiles/{name}/match: it counts only for callers that sign in: set \
                     `signIn`"
                ));
            }
        }
        problems.extend(wrong_durations(config));
        let applies_to_person = config.applies_to_person;
        let quotas = Quotas::compile(&config.quotas, &mut problems);
        let trifecta = Trifecta::compile(&config.trifecta, &mut problems);
        let servers = RwLock::default();
        let rules = Self { applies_to_person, all, profiles, quotas, trifecta, servers };
        if problems.is_empty() { Ok(rules) } else { Err(problems) }
    }

    /// Whether they apply to the user too.
    pub const fn applies_to_person(&self) -> bool {
        self.applies_to_person
    }

    /// The quotas of callers other than the user.
    pub const fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    /// Reads the patterns of rules for these servers: one that permits and begins with the name of a
    /// server is about that server alone.
    #[must_use]
    pub fn among(self, servers: Arc<[ServerName]>) -> Self {
        self.read_for(&servers);
        self
    }

    /// As [`Rules::among`], for rules that are shared.
    pub fn read_for(&self, servers: &Arc<[ServerName]>) {
        let mut known = self.servers.write();
        if **known != **servers {
            *known = Arc::clone(servers);
            let layers = std::iter::once(&self.all).chain(self.profiles.values());
            layers.for_each(|layer| layer.known.clear());
        }
    }

    /// The rules that match nothing in this catalogue, misspelled or out of date, and the overlays
    /// that cannot work with the tools they match. A server without lists (`None`) may offer
    /// anything.
    pub fn unmatched<'c>(
        &self,
        catalogue: impl IntoIterator<Item = (&'c str, Option<&'c Capabilities>)>,
    ) -> Vec<Unmatched> {
        let catalogue: Vec<_> = catalogue.into_iter().collect();
        let misfits = self.misfits(&catalogue);
        let (mut tools, mut prompts) = (Vec::new(), Vec::new());
        for (server, all) in catalogue {
            let server = ServerName::new(server);
            let named = all.map(|all| all.prompts.iter().map(|it| Arc::clone(&it.name)).collect());
            prompts.push(OfferedNames { server: server.clone(), names: named });
            tools.push(OfferedNames::of_tools(server, all));
        }
        let mut matched: BTreeMap<&Arc<str>, (bool, &Glob)> = BTreeMap::new();
        for layer in std::iter::once(&self.all).chain(self.profiles.values()) {
            let overlays = layer.overlays.0.rules.iter().map(|entry| (TargetKind::Tool, entry));
            let lists = [&layer.allow, &layer.ask, &layer.deny];
            let all = lists.into_iter().flat_map(List::entries).chain(overlays);
            {
                for (kind, entry) in all {
                    let known = matched.entry(&entry.rule).or_insert((false, &entry.glob));
                    known.0 |= match kind {
                        TargetKind::Tool => meets(&entry.glob, &tools),
                        TargetKind::Prompt => meets(&entry.glob, &prompts),
                        // A server may have resources that it does not list.
                        TargetKind::Resource => true,
                        TargetKind::Server => {
                            let glob = entry.glob.compile_matcher();
                            tools.iter().any(|of| glob.is_match(of.server.as_str()))
                        }
                    };
                }
            }
        }
        for (rule, glob) in self.trifecta.outbound() {
            matched.insert(rule, (meets(glob, &tools), glob));
        }
        let unmatched = matched.into_iter().filter(|(_, (found, _))| !found);
        let unmatched = unmatched.map(|(rule, (_, glob))| {
            let servers = || tools.iter().map(|of| of.server.as_str());
            let meant = meant_by(glob.glob(), &tools)
                .or_else(|| meant_by(glob.glob(), &prompts))
                .or_else(|| nearest(glob.glob(), servers(), 0.8).map(str::to_owned));
            Unmatched { rule: Arc::clone(rule), meant, misfit: None }
        });
        unmatched.chain(misfits).collect()
    }

    /// The overlays that cannot work with the tools they match.
    fn misfits(&self, catalogue: &[(&str, Option<&Capabilities>)]) -> Vec<Unmatched> {
        let mut profiles: Vec<&str> = self.profiles.keys().map(|name| &**name).collect();
        profiles.sort_unstable();
        let mut out = Vec::new();
        for profile in
            profiles.into_iter().filter(|name| !self.profiles[*name].overlays.1.is_empty())
        {
            let mut names: BTreeMap<String, String> = BTreeMap::new();
            let mut given = Vec::new();
            let tools = catalogue.iter().flat_map(|(server, all)| {
                all.iter().flat_map(move |all| all.tools.iter().map(move |tool| (*server, tool)))
            });
            for (server, tool) in tools {
                let full = format!("{server}.{}", tool.name);
                let rule = Arc::from(format!("policy/profiles/{profile}/overlays ({full})"));
                let overlay = self.overlay(profile, server, &tool.name);
                let misfits = overlay.iter().flat_map(|overlay| overlay.misfits(&tool.raw.value));
                out.extend(misfits.map(|why| (Arc::clone(&rule), why)));
                if let Some(name) = overlay.and_then(|overlay| overlay.name) {
                    given.push((name, full, rule));
                } else {
                    let of = (catalogue.len() > 1).then(|| ServerName::new(server));
                    names.insert(exposed_name(of.as_ref(), &tool.name), full);
                }
            }
            for (name, full, rule) in given {
                if let Some(other) = names.get(&name) {
                    let why = format!(
                        "the name `{name}` is that of `{other}`, so it is offered under another one"
                    );
                    out.push((rule, why));
                } else {
                    names.insert(name, full);
                }
            }
        }
        let unmatched = |(rule, why)| Unmatched { rule, meant: None, misfit: Some(why) };
        out.into_iter().map(unmatched).collect()
    }

    /// What the overlays of a profile change of a tool, one after the other; `None` for nothing.
    pub fn overlay(&self, profile: &str, server: &str, tool: &str) -> Option<OverlayConfig> {
        let (globs, overlays) = &self.profiles.get(profile)?.overlays;
        if overlays.is_empty() {
            return None;
        }
        // In every reading: what fixes a parameter is not to be got around by another spelling.
        let found = globs.set.matches(server, tool, Reading::Wide);
        let mut matching = found.into_iter().filter_map(|at| overlays.get(at));
        let mut out = matching.next()?.clone();
        matching.for_each(|later| out.then(later));
        Some(out)
    }

    /// The matching rules of all profiles.
    pub(super) fn verdict(&self, target: &PolicyTarget<'_>, full: &str) -> FirstRules {
        self.all.verdict(target, full, &self.servers.read())
    }

    /// The matching rules of one profile.
    pub(super) fn verdict_of(
        &self,
        profile: &str,
        target: &PolicyTarget<'_>,
        full: &str,
    ) -> FirstRules {
        let layer = self.profiles.get(profile);
        let servers = self.servers.read();
        layer.map(|layer| layer.verdict(target, full, &servers)).unwrap_or_default()
    }
}

impl Layer {
    /// The matching rules of this layer; `full` is `server.name`, or the normalized URI.
    fn verdict(&self, target: &PolicyTarget<'_>, full: &str, servers: &[ServerName]) -> FirstRules {
        let [deny, allow, ask] = [&self.deny, &self.allow, &self.ask].map(|l| l.globs(target.kind));
        if [deny, allow, ask].iter().all(|globs| globs.rules.is_empty()) {
            return FirstRules::default();
        }
        // What restricts a resource does so under the names that decks give it, too.
        let inner = if target.kind == TargetKind::Resource { within_decks(full) } else { vec![] };
        let wide = |globs: &Globs| {
            let mut all = std::iter::once(full).chain(inner.iter().map(String::as_str));
            all.find_map(|full| globs.first(target, full, Reading::Wide))
        };
        let find = || FirstRules {
            deny: wide(deny),
            allow: allow.first(target, full, Reading::Narrow(servers)),
            ask: wide(ask),
            is_listing: !allow.rules.is_empty(),
        };
        if target.kind != TargetKind::Tool {
            return find();
        }
        let (hints, server_len) = (target.hints, target.server.len());
        let fits = |known: &MatchedRules| known.hints == hints && known.server_len == server_len;
        self.known
            .get_or_find(full, fits, || MatchedRules { hints, server_len, rules: find() })
            .rules
    }
}

impl List {
    fn globs(&self, kind: TargetKind) -> &Globs {
        &self.0[kind as usize]
    }

    fn entries(&self) -> impl Iterator<Item = (TargetKind, &RuleGlob)> {
        use TargetKind::{Prompt, Resource, Server, Tool};
        let kinds = [Tool, Prompt, Resource, Server].into_iter();
        kinds.flat_map(|kind| self.globs(kind).rules.iter().map(move |entry| (kind, entry)))
    }

    fn compile(at: &str, rules: &[RuleConfig], problems: &mut Vec<String>) -> Self {
        let mut entries: [Vec<RuleGlob>; 4] = Default::default();
        for (index, rule) in rules.iter().enumerate() {
            let matches = match rule {
                RuleConfig::Tools(glob) => {
                    RuleMatch { tools: Some(GlobList::One(glob.clone())), ..RuleMatch::default() }
                }
                RuleConfig::Match(matches) => (**matches).clone(),
            };
            let place = format!("policy{at}/{index}");
            if let Err(problem) = expand(&place, &matches, &mut entries) {
                problems.push(format!("{place}: {problem}"));
            }
        }
        Self(entries.map(|entries| {
            Globs::new(entries).unwrap_or_else(|problem| {
                problems.push(format!("policy{at}: {problem}"));
                Globs::default()
            })
        }))
    }
}

/// The durations of a policy that no clock can measure, each with its place and the problem.
fn wrong_durations(config: &PolicyConfig) -> Vec<String> {
    let all = ("policy/limits/callTimeout".to_owned(), config.limits.call_timeout);
    let hook = config.hook.as_ref().and_then(|hook| hook.timeout);
    let named = config.profiles.iter().map(|(name, profile)| {
        (format!("policy/profiles/{name}/limits/callTimeout"), profile.limits.call_timeout)
    });
    let given = [all, ("policy/hook/timeout".to_owned(), hook)].into_iter().chain(named);
    let fits = |seconds: f64| seconds > 0.0 && Duration::try_from_secs_f64(seconds).is_ok();
    { given }
        .filter(|(_, seconds)| seconds.is_some_and(|seconds| !fits(seconds)))
        .map(|(place, _)| format!("{place}: a number of seconds above zero is expected"))
        .collect()
}

/// Maximum length of a name or a glob in a message.
const MAX_SHOWN_CHARS: usize = 80;

/// Compiles the overlays of a profile.
fn overlays(
    at: &str,
    overlays: &[OverlayConfig],
    problems: &mut Vec<String>,
) -> (Globs, Arc<[OverlayConfig]>) {
    let mut entries: [Vec<RuleGlob>; 4] = Default::default();
    for (index, overlay) in overlays.iter().enumerate() {
        let place = format!("{at}/{index}");
        let tools = Some(GlobList::One(overlay.tool.clone()));
        let tools = RuleMatch { tools, ..RuleMatch::default() };
        let compiled = expand(&place, &tools, &mut entries).err();
        let wrong = overlay.problems().into_iter().chain(compiled);
        let tool = base::SafeText::cut(&overlay.tool, MAX_SHOWN_CHARS);
        problems.extend(wrong.map(|problem| format!("{place}: {problem} (`{tool}`)")));
    }
    let [tools, ..] = entries;
    match Globs::new(tools) {
        Ok(globs) => (globs, overlays.into()),
        Err(problem) => {
            problems.push(format!("{at}: {problem}"));
            Default::default()
        }
    }
}

/// Stands between a server and a name that a rule gives apart, until both are one glob.
const WITHIN: char = '\u{1f}';

fn within_server(server: &str, name: &str) -> String {
    format!("{server}{WITHIN}{name}")
}

/// Distributes the globs of one rule by kind: tools, prompts, resources, servers.
fn expand(place: &str, rule: &RuleMatch, out: &mut [Vec<RuleGlob>; 4]) -> Result<(), String> {
    let list = |patterns: &Option<GlobList>| -> Option<Vec<String>> {
        Some(patterns.as_ref()?.iter().map(str::to_owned).collect())
    };
    let (servers, tools) = (list(&rule.servers), list(&rule.tools));
    let (prompts, resources) = (list(&rule.prompts), list(&rule.resources));
    let has_blank = [&servers, &tools, &prompts, &resources]
        .iter()
        .any(|names| names.iter().flatten().any(|pattern| pattern.trim().is_empty()));
    if has_blank {
        return Err(BLANK_PATTERN.to_owned());
    }
    let is_empty = |names: &Option<Vec<String>>| names.as_ref().is_some_and(Vec::is_empty);
    if [&servers, &tools, &prompts, &resources].into_iter().any(is_empty) {
        return Err(EMPTY_LIST.to_owned());
    }
    let hints = ToolHints {
        read_only: rule.read_only,
        destructive: rule.destructive,
        open_world: rule.open_world,
        idempotent: None,
    };
    let hinted = [hints.read_only, hints.destructive, hints.open_world].iter().any(Option::is_some);
    let named = tools.is_some() || prompts.is_some() || resources.is_some();
    if !named && !hinted && servers.is_none() {
        return Err("it selects nothing: name `tools`, `prompts`, `resources` or `servers`".into());
    }
    let within = |names: Option<Vec<String>>, alone: bool| -> Vec<String> {
        match (&servers, names) {
            (Some(servers), Some(names)) => servers
                .iter()
                .flat_map(|server| names.iter().map(move |name| within_server(server, name)))
                .collect(),
            (None, Some(names)) => names,
            (Some(servers), None) if alone => {
                servers.iter().map(|server| within_server(server, "*")).collect()
            }
            (None, None) if alone => vec!["*".to_owned()],
            _ => Vec::new(),
        }
    };
    let whole = servers.is_some() && !named && !hinted;
    let only = match &servers {
        Some(servers) if resources.is_some() || whole => {
            let globs = servers.iter().map(|server| Glob::new(server));
            let set = globs.collect::<Result<Vec<_>, _>>().and_then(GlobSet::new);
            Some(Arc::new(set.map_err(|error| error.to_string())?))
        }
        _ => None,
    };
    let uris = match resources {
        Some(uris) => uris.iter().map(|uri| normalised(uri)).collect(),
        None if whole => vec!["*".to_owned()],
        None => Vec::new(),
    };
    let kinds = [
        within(tools, whole || (hinted && !named)),
        within(prompts, whole),
        uris,
        if whole { servers.clone().unwrap_or_default() } else { Vec::new() },
    ];
    for ((kind, globs), out) in kinds.into_iter().enumerate().zip(out) {
        for glob in globs {
            let shown = glob.replacen(WITHIN, ".", 1);
            let rule = Arc::from(format!("{place} ({shown})"));
            let glob = glob.replacen(WITHIN, "/", 1);
            let glob = Glob::new(&glob).map_err(|error| error.to_string())?;
            let hints = if kind == 0 { hints } else { ToolHints::default() };
            let servers = only.clone().filter(|_| kind == 2);
            out.push(RuleGlob { rule, glob, hints, servers });
        }
    }
    Ok(())
}

impl Globs {
    fn new(rules: Vec<RuleGlob>) -> Result<Self, String> {
        let set = NamePatterns::new(rules.iter().map(|entry| &entry.glob));
        Ok(Self { set: set.map_err(|error| error.to_string())?, rules })
    }

    /// The first matching rule.
    fn first(
        &self,
        target: &PolicyTarget<'_>,
        full: &str,
        reading: Reading<'_>,
    ) -> Option<Arc<str>> {
        let found = match target.kind {
            TargetKind::Tool | TargetKind::Prompt => {
                self.set.matches(target.server, target.name, reading)
            }
            TargetKind::Resource | TargetKind::Server => self.set.matches_text(full),
        };
        let fits = |entry: &&RuleGlob| {
            fit(entry.hints, target.hints)
                && entry.servers.as_ref().is_none_or(|servers| servers.is_match(target.server))
        };
        let mut entries = found.into_iter().filter_map(|at| self.rules.get(at));
        entries.find(fits).map(|entry| Arc::clone(&entry.rule))
    }
}

/// Whether the hints of a tool match; missing ones have the specification's defaults (MCP, tool
/// annotations).
fn fit(wanted: ToolHints, said: ToolHints) -> bool {
    let read_only = said.read_only.unwrap_or(false);
    let destructive = !read_only && said.destructive.unwrap_or(true);
    let open_world = said.open_world.unwrap_or(true);
    wanted.read_only.is_none_or(|wanted| wanted == read_only)
        && wanted.destructive.is_none_or(|wanted| wanted == destructive)
        && wanted.open_world.is_none_or(|wanted| wanted == open_world)
}

// The format of a policy: `"policy"` in an mcp.json, or `mcpdeck.policy.json` next to it.

/// The whole policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[schemars(title = "Policy of mcpdeck")]
pub struct PolicyConfig {
    /// Location of the schema of this file, for editors.
    #[serde(rename = "$schema", skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
    /// Whether rules, reviews and the policy service apply to you too: at the dashboard, on the
    /// command line (`call`, `load`, `read`, `prompt`, `replay`, `--check`), in the library (a
    /// `Deck`), and with your own token of `serve`. A profile that you name (`serve --profile`,
    /// the path `/mcp/p/NAME`) binds you without it. Every other caller is always bound, the model
    /// of a chat too, whoever started it.
    pub applies_to_person: bool,
    /// What any profile may use; everything when empty. Grants nothing by itself.
    pub allow: Vec<RuleConfig>,
    /// What requires the user's consent before each call, for any profile. Where nobody can be
    /// asked the call is refused.
    pub ask: Vec<RuleConfig>,
    /// What no profile may use. Takes precedence over everything else.
    pub deny: Vec<RuleConfig>,
    /// Limits of callers other than the user.
    pub limits: LimitsConfig,
    /// What callers other than the user may use in a minute and in a day, by client, profile and
    /// tool.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<QuotaConfig>,
    /// The rule about private data, untrusted content and tools that send data outside.
    pub trifecta: TrifectaConfig,
    /// A policy service that is asked before every call, read and prompt of every caller that the
    /// policy binds, and of your own token of `serve`; with `results`, after it too.
    pub hook: Option<HookConfig>,
    /// The audit log of every call, read and prompt, yours too. Without it there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditConfig>,
    /// Where callers of `mcpdeck serve` may sign in, besides with the tokens of `mcpdeck token`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInConfig>,
    /// Rules of single profiles, in addition to the global ones.
    pub profiles: BTreeMap<String, ProfileConfig>,
}

/// The rules of one profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct ProfileConfig {
    /// Which callers that signed in have this profile; the first by name, of several, unless their
    /// path names another (`/mcp/p/NAME`).
    #[serde(rename = "match", skip_serializing_if = "Option::is_none")]
    pub matches: Option<ProfileMatch>,
    /// What the profile may use without a grant, and the model of a chat without a question;
    /// anything else is hidden from it.
    pub allow: Vec<RuleConfig>,
    /// What requires the user's consent.
    pub ask: Vec<RuleConfig>,
    /// What the profile may not use.
    pub deny: Vec<RuleConfig>,
    /// Its limits, where they differ from the global ones.
    pub limits: LimitsConfig,
    /// What MCP clients of the gateway are shown as their list of tools.
    pub expose: ToolExposure,
    /// With `"expose": "auto"`: how many tokens the definitions of all tools may take before a
    /// search is listed instead (default 8000).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expose_tokens: Option<u32>,
    /// What it changes of tools as its callers see them.
    pub overlays: Vec<OverlayConfig>,
}

impl PolicyConfig {
    /// The profiles that the claims of a signed-in caller give, in the order of their names.
    pub fn profiles_of_claims(&self, claims: &Value) -> Vec<Arc<str>> {
        let groups = self.claim_of_groups();
        let fits = |wanted: &Option<ProfileMatch>| {
            wanted.as_ref().is_some_and(|wanted| wanted.fits(claims, groups))
        };
        let profiles = self.profiles.iter().filter(|(_, profile)| fits(&profile.matches));
        profiles.map(|(name, _)| name.as_str().into()).collect()
    }

    /// Whether the issuer left out of a token what decides about the profile of its caller: groups
    /// that are too many for it are named as a place to ask (`OpenID` Connect Core, section 5.6.2).
    pub fn lacks_claims(&self, claims: &Value) -> bool {
        let groups = self.claim_of_groups();
        let mut matches = self.profiles.values().filter_map(|profile| profile.matches.as_ref());
        matches.any(|wanted| wanted.lacks_claims(claims, groups))
    }

    /// The claim with the groups of callers.
    fn claim_of_groups(&self) -> &str {
        self.sign_in.as_ref().and_then(|it| it.groups.as_deref()).unwrap_or("groups")
    }
}

impl ProfileConfig {
    /// Tokens that definitions may take with [`ToolExposure::Auto`], by default.
    const EXPOSE_DEFAULT_TOKENS: u32 = 8_000;

    /// How many tokens the definitions of all tools may take with [`ToolExposure::Auto`].
    pub fn expose_tokens(&self) -> u32 {
        self.expose_tokens.unwrap_or(Self::EXPOSE_DEFAULT_TOKENS)
    }
}

/// What MCP clients of the gateway are shown as their list of tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolExposure {
    /// Every tool they may see.
    #[default]
    All,
    /// `find_tools`, `describe_tool` and `call_tool`, and the tools that a session has found. Any
    /// tool can be called by its name.
    Search,
    /// All of them while their definitions take few tokens, otherwise a search.
    Auto,
}

/// A rule: a glob over `server.tool` (`server/tool`, `server:tool` and `server__tool` mean the
/// same), or an object with criteria.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a rule is a glob such as \"files.read_*\", or an object with `servers`, `tools`, `prompts`, `resources`, `readOnly`, `destructive` or `openWorld`"
)]
#[non_exhaustive]
pub enum RuleConfig {
    /// Tools by their canonical name, `server.tool`.
    Tools(String),
    /// An object with criteria.
    Match(Box<RuleMatch>),
}

/// The criteria of a rule. All that are given must match.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
pub struct RuleMatch {
    /// Servers by name. Alone, matches all their items; with `tools` or `prompts`, those are names
    /// within the servers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub servers: Option<GlobList>,
    /// Tools, `server.tool`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<GlobList>,
    /// Prompts, `server.prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompts: Option<GlobList>,
    /// Resources by URI, normalized: `..`, `%2e`, letter case and other spellings of a file make no
    /// difference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<GlobList>,
    /// Only tools that declare to change nothing (`readOnlyHint`), or only others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// Only tools that may be destructive (`destructiveHint`; true when missing), or only others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// Only tools that reach the outside world (`openWorldHint`; true when missing), or only
    /// others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world: Option<bool>,
    /// A comment, without effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// Limits of callers other than the user. An omitted one defaults to that of the whole policy, or
/// else to the default given here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitsConfig {
    /// Calls per run; a run's own budget overrides it. When it is set, it binds everyone. Without it,
    /// pages and runs with a name (`runId`) have 5; an agent's session has no limit, and neither has
    /// the model of your own chat: its turns have limits of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_run: Option<u32>,
    /// Concurrent calls per origin (default 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_at_once: Option<u32>,
    /// Maximum duration of a call in seconds, above zero, excluding the wait for the user, whatever
    /// its progress. When it is not set, a call ends after 30 seconds without progress.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_timeout: Option<f64>,
    /// Calls per minute of one tool by one origin (default 60).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls_per_minute: Option<u32>,
    /// Maximum size of the arguments in bytes of JSON (default 1 MiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argument_bytes: Option<usize>,
}

/// A policy service, asked by `POST`: `{"operation": "tool_exec", "tool": "server.tool", "origin",
/// "profile"}`, for a read `resource_read` with `resource`, for a prompt `prompt_get` with `prompt`.
/// It answers `{"passed": true}`, or false with a `reason`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[non_exhaustive]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own in the file")]
pub struct HookConfig {
    /// Its address.
    pub url: String,
    /// Whether to send the arguments.
    #[serde(default)]
    pub arguments: bool,
    /// Whether to permit calls when it is unreachable, times out, or responds with invalid data.
    #[serde(default)]
    pub fail_open: bool,
    /// Timeout in seconds (default 2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<f64>,
    /// Whether it is asked a second time with each result (`tool_result`, `resource_result`,
    /// `prompt_result`), before the caller has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub results: bool,
    /// Whether it may change what it is sent: the `arguments` of its answer are sent to the server
    /// instead of the caller's, and its `result` is given to the caller instead of the server's. They
    /// are refused when they do not fit the schema of the tool or the form of a result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub change: bool,
    /// Maximum size in bytes of JSON of a result that it is sent, and of arguments or a result in its
    /// answer (default 1 MiB). A larger one counts as no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<usize>,
}

impl HookConfig {
    /// Default of `maxBytes`.
    const DEFAULT_CONTENT_BYTES: usize = 1 << 20;
    /// Most of `maxBytes`.
    const MAX_CONTENT_BYTES: usize = 64 << 20;

    /// Maximum size of a result that is sent, and of arguments or a result in an answer.
    pub fn max_bytes(&self) -> usize {
        self.max_bytes.unwrap_or(Self::DEFAULT_CONTENT_BYTES)
    }

    /// When it is asked and what it may do, in words.
    pub fn words(&self) -> String {
        let what = match (self.change && self.arguments, self.change && self.results) {
            (true, true) => "; it may change the arguments and the result",
            (true, false) => "; it may change the arguments",
            (false, true) => "; it may change the result",
            (false, false) => "",
        };
        let after = if self.results { " and about its result" } else { "" };
        format!("the policy service is asked before the call{after}{what}")
    }

    /// What is wrong with it.
    fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        let is_time =
            |seconds: f64| seconds > 0.0 && std::time::Duration::try_from_secs_f64(seconds).is_ok();
        if self.timeout.is_some_and(|seconds| !is_time(seconds)) {
            out.push("policy/hook/timeout: a number of seconds above 0 is expected".to_owned());
        }
        if self.change && !self.arguments && !self.results {
            out.push(
                "policy/hook/change: it is sent nothing that it could change: set `arguments` or \
                 `results`"
                    .to_owned(),
            );
        }
        if self.max_bytes.is_some_and(|bytes| bytes == 0 || bytes > Self::MAX_CONTENT_BYTES) {
            let most = Self::MAX_CONTENT_BYTES;
            out.push(format!("policy/hook/maxBytes: 1 to {most} bytes are expected"));
        }
        out
    }
}

// Normalization of resource URIs for matching: `..`, `%2e`, case of scheme and host, and other
// spellings of a file's address make no difference. Pure; no disk access.

/// Maximum rounds of percent-decoding: several servers in a chain may each decode once.
const MAX_DECODING_ROUNDS: usize = 4;

/// The normalized form of `uri`. Text that is not a URI is treated as a path without a scheme.
pub fn normalised(uri: &str) -> String {
    let uri = uri.trim();
    let (scheme, rest) = match uri.split_once(':') {
        Some((scheme, rest)) if is_scheme(scheme) => (scheme.to_ascii_lowercase(), rest),
        _ => (String::new(), uri),
    };
    let is_file = scheme == "file";
    let slashes = if is_file { rest.replace('\\', "/") } else { rest.to_owned() };
    let (authority, rest) = match slashes.strip_prefix("//") {
        Some(rest) => {
            let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            (Some(decoded(&rest[..end]).to_ascii_lowercase()), rest[end..].to_owned())
        }
        None => (None, slashes),
    };
    // The query is server-specific and stays unchanged; a file has none.
    let cut = if is_file { None } else { rest.find(['?', '#']) };
    let (path, query) = rest.split_at(cut.unwrap_or(rest.len()));
    let mut path = decoded(path);
    if is_file {
        path = path.replace('\\', "/");
        let cut = path.find('\0').unwrap_or(path.len());
        path.truncate(cut);
    }
    let has_path = path.starts_with('/') || authority.is_some() || is_file;
    let mut path = if has_path { without_dots(&path, is_file) } else { path };
    if is_file && (cfg!(windows) || cfg!(target_os = "macos")) {
        path = path.to_lowercase();
    }
    let authority = authority.map(|authority| match (scheme.as_str(), authority.as_str()) {
        ("file", "localhost" | "127.0.0.1") => String::new(),
        ("http" | "ws", _) => authority.trim_end_matches(":80").to_owned(),
        ("https" | "wss", _) => authority.trim_end_matches(":443").to_owned(),
        _ => authority,
    });
    let authority = authority.or(is_file.then(String::new));
    let authority = authority.map(|authority| format!("//{authority}")).unwrap_or_default();
    let colon = if scheme.is_empty() { "" } else { ":" };
    format!("{scheme}{colon}{authority}{path}{query}")
}

/// Maximum number of decks, one behind the other, whose names are taken off a URI.
const MAX_NESTED_DECKS: usize = 8;

/// The normalized URIs in one that a deck writes as `mcpdeck://SERVER/URI`, or for the page of a tool
/// as `ui://mcpdeck/SERVER/PATH`: what a server that is a deck itself takes them for.
fn within_decks(uri: &str) -> Vec<String> {
    let inner = |uri: &String| {
        if let Some(rest) = uri.strip_prefix("mcpdeck://") {
            return rest.split_once('/').map(|(_, uri)| normalised(uri));
        }
        let (_, path) = uri.strip_prefix("ui://mcpdeck/")?.split_once('/')?;
        Some(normalised(&format!("ui://{path}")))
    };
    std::iter::successors(inner(&uri.to_owned()), inner).take(MAX_NESTED_DECKS).collect()
}

fn is_scheme(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
}

fn decoded(text: &str) -> String {
    let mut out = text.to_owned();
    for _ in 0..MAX_DECODING_ROUNDS {
        if !out.contains('%') {
            break;
        }
        out = percent::decoded(&out);
    }
    out
}

fn without_dots(path: &str, is_file: bool) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let all: Vec<&str> = path.trim_start_matches('/').split('/').collect();
    let last = all.len().saturating_sub(1);
    for (index, part) in all.into_iter().enumerate() {
        match part {
            "." => {}
            ".." => _ = parts.pop(),
            "" if is_file && index < last => {}
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_spelling_of_a_resource_is_one() {
        for spelling in [
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "file:/etc/passwd",
            "file://localhost/etc/passwd",
            "file://LOCALHOST/etc/passwd",
            "file:////etc//passwd",
            "file:///etc/./passwd",
            "file:///home/../etc/passwd",
            "file:///home/%2e%2e/etc/passwd",
            "file:///home/%2E./etc/passwd",
            "file:///home/%252e%252e/etc/passwd",
            "file:///home%2f..%2fetc/passwd",
            "file:///home\\..\\etc\\passwd",
            "file:///%65tc/passwd",
            "file:///../../etc/passwd",
            " file:///etc/passwd\n",
            "file:///etc/passwd%00.txt",
        ] {
            assert_eq!(normalised(spelling), "file:///etc/passwd", "{spelling}");
        }
        for spelling in ["HTTP://Host:80/a/b", "http://host/x/../a/b", "http://host/%61/b"] {
            assert_eq!(normalised(spelling), "http://host/a/b", "{spelling}");
        }
        assert_eq!(normalised("db://Tables/a?q=../b"), "db://tables/a?q=../b");
        assert_eq!(normalised("db://%54ables/a"), "db://tables/a");
        assert_eq!(normalised("mailto:a@b"), "mailto:a@b");
    }

    #[test]
    fn a_resource_is_denied_under_the_names_that_decks_give_it() {
        let rule = |uri: &str| {
            let resources = Some(GlobList::One(uri.to_owned()));
            RuleConfig::Match(Box::new(RuleMatch { resources, ..RuleMatch::default() }))
        };
        let denied = vec![rule("mem://r"), rule("file:///etc/*"), rule("ui://page/*")];
        let allow = vec![rule("mem://ok")];
        let config = PolicyConfig { deny: denied, allow, ..PolicyConfig::default() };
        let rules = Rules::compile(&config).expect("whole");
        let verdict = |uri: &str| {
            let target =
                PolicyTarget { kind: TargetKind::Resource, ..PolicyTarget::tool("a", uri) };
            let found = rules.verdict(&target, &normalised(uri));
            (found.deny.is_some(), found.allow.is_some())
        };
        for uri in [
            "mem://r",
            "mcpdeck://a/mem://r",
            "MCPDECK://a/mem://R",
            "mcpdeck://a/mcpdeck://b/mem://r",
            "mcpdeck://a/file:///x/../etc/passwd",
            "mcpdeck://a/file%3A%2F%2F%2Fetc/passwd",
            "ui://mcpdeck/a/page/x",
        ] {
            assert_eq!(verdict(uri), (true, false), "{uri}");
        }
        assert_eq!(verdict("mem://ok"), (false, true));
        assert_eq!(verdict("mcpdeck://a/mem://ok"), (false, false), "what permits is exact");
    }

    fn written(policy: Value) -> PolicyConfig {
        serde_json::from_value(policy).expect("a policy")
    }

    #[test]
    fn a_pattern_of_any_list_that_can_match_nothing_closes_the_policy_at_its_place() {
        let wrong = |pattern: &str| {
            let list = json!([pattern]);
            let after = json!(["s.fine", pattern]);
            [
                (json!({"allow": [pattern]}), "policy/allow/0: "),
                (json!({"profiles": {"p": {"deny": [pattern]}}}), "policy/profiles/p/deny/0: "),
                (json!({"trifecta": {"outbound": list}}), "policy/trifecta/outbound/0: "),
                (json!({"trifecta": {"outbound": after}}), "policy/trifecta/outbound/1: "),
                (json!({"trifecta": {"private": list}}), "policy/trifecta/private/0: "),
                (json!({"trifecta": {"untrusted": list}}), "policy/trifecta/untrusted/0: "),
                (json!({"quotas": [{"tools": list, "callsPerDay": 1}]}), "policy/quotas/0: "),
                (json!({"quotas": [{"clients": after, "callsPerDay": 1}]}), "policy/quotas/0: "),
                (
                    json!({"profiles": {"p": {"match": {"group": list}}}}),
                    "policy/profiles/p/match: ",
                ),
            ]
        };
        for (policy, place) in ["slack.[", "{a", " ", ""].iter().flat_map(|it| wrong(it)) {
            let problems = Rules::compile(&written(policy.clone())).expect_err("a wrong pattern");
            assert!(problems.iter().any(|it| it.starts_with(place)), "{policy}: {problems:?}");
        }
        for policy in [
            json!({"deny": [{"tools": []}]}),
            json!({"quotas": [{"profiles": [], "callsPerDay": 1}]}),
            json!({"quotas": [{"tools": [], "callsPerDay": 1}]}),
        ] {
            let problems = Rules::compile(&written(policy.clone())).expect_err("an empty list");
            assert!(problems[0].ends_with(EMPTY_LIST), "{policy}: {problems:?}");
        }
    }

    #[test]
    fn what_sends_data_outside_is_what_is_listed_and_else_what_the_hints_say() {
        let rules = |policy: Value| Rules::compile(&written(policy)).expect("whole");
        let hints = ToolHints { open_world: Some(false), ..ToolHints::default() };
        let inner = PolicyTarget { hints, ..PolicyTarget::tool("mail", "send") };
        let outer = PolicyTarget::tool("web", "post");
        let sends = |rules: &Rules| [&inner, &outer].map(|target| rules.trifecta.sends(target));
        assert_eq!(sends(&Rules::default()), [false, true]);
        assert_eq!(sends(&rules(json!({"trifecta": {"outbound": []}}))), [false, true]);
        assert_eq!(sends(&rules(json!({"trifecta": {"outbound": ["mail.*"]}}))), [true, false]);
        assert_eq!(sends(&rules(json!({"trifecta": {"enabled": false}}))), [false, false]);
        let misspelt = rules(json!({"trifecta": {"outbound": ["mial.*"]}}));
        let found = misspelt.unmatched([("mail", None)]);
        let rules: Vec<&str> = found.iter().map(|it| &*it.rule).collect();
        assert_eq!(rules, ["policy/trifecta/outbound/0 (mial.*)"]);
        assert_eq!(found[0].meant.as_deref(), Some("mail.*"));
    }

    #[test]
    fn a_normal_spelling_stays() {
        for uri in ["file:///", "file:///a/", "http://host/", "memo://insights", "x:y", ""] {
            assert_eq!(normalised(&normalised(uri)), normalised(uri), "{uri}");
        }
    }
}
