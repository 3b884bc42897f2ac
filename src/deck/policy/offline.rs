//! Policy decisions without a running host: by the current rules and grants, about tools as they
//! were last seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::definitions::KeptDefinitions;
use crate::policy::{GrantStore, PolicyFile, RightsFile, standing_policy, state_file};
use base::text::nearest;
use base::{ServerName, Timestamp};
use config::{Environment, McpConfig};
use host::{
    DEFAULT_PROFILE, Decision, Digest, Grants, HookConfig, OfferedNames, OverlayConfig, Pins,
    Policy, PolicyAction, PolicyTarget, Principal, ServerDigests, TargetKind, split_name,
    unmatched_tools,
};
use protocol::ToolHints;

/// The tool that a caller calls by a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedTool {
    /// This one, as `server.tool`.
    Is(String),
    /// Several servers have one of this name.
    Several(Vec<String>),
    /// No server had one when it was seen last; this one has a name like it.
    Unseen(Option<String>),
}

/// A policy without a host.
pub struct Offline {
    /// The policy that decides.
    pub policy: Policy,
    config: McpConfig,
    now: Timestamp,
    hook: Option<HookConfig>,
    /// Those that have rules.
    profiles: BTreeSet<String>,
}

impl Offline {
    /// Reads the policy of a configuration.
    ///
    /// # Errors
    /// Every problem of the policy, the grants and the reviews, a sentence each.
    pub fn open(
        configs: &[PathBuf],
        env: &Environment,
        config: McpConfig,
        now: Timestamp,
    ) -> Result<Self, Vec<String>> {
        let PolicyFile { rules, config: written, .. } = standing_policy(configs, env)?;
        let main = configs.last().map_or(Path::new("mcp.json"), PathBuf::as_path);
        let one = |problem| vec![problem];
        let grants =
            GrantStore::from_config(main, env).map_or_else(|| Ok(Vec::new()), |s| s.list(now));
        let pins = state_file(main, env, "pins").map(RightsFile::<Pins>::new);
        let pins = match pins {
            Some(file) => file.read().map_err(one)?,
            None => None,
        };
        let known: Arc<[ServerName]> = config.servers.keys().cloned().collect();
        rules.read_for(&known);
        let policy = Policy {
            rules,
            grants: Arc::new(Grants::new(grants.map_err(one)?).among(known)),
            is_at_rest: true,
            pins: Arc::new(Pins { enforced: true, ..pins.unwrap_or_default() }),
            closed: None,
        };
        let profiles = written.profiles.keys().cloned().collect();
        Ok(Self { policy, config, now, hook: written.hook, profiles })
    }

    /// The profiles that the policy or a grant names, and that of callers without one.
    pub fn profiles(&self) -> BTreeSet<&str> {
        let granted = self.policy.grants.all().iter().map(|grant| grant.profile.as_str());
        let named = self.profiles.iter().map(String::as_str).chain(granted);
        named.chain([DEFAULT_PROFILE]).collect()
    }

    /// The policy service that is asked about the calls of this caller, if there is one.
    pub fn service(&self, principal: &Principal) -> Option<&HookConfig> {
        self.hook.as_ref().filter(|_| self.policy.has_to_comply(principal))
    }

    /// What the profile of a caller changes of `server.tool` as the caller sees it.
    pub fn overlay(&self, principal: &Principal, asked: &str) -> Option<OverlayConfig> {
        let servers = self.config.servers.keys().map(base::ServerName::as_str);
        let (server, tool) = split_name(asked, servers)?;
        let is_bound = self.policy.binds(principal);
        is_bound.then(|| self.policy.rules.overlay(&principal.profile, server, tool))?
    }

    /// The tool that a caller calls by a name, `server.tool`: by the name that its profile gives it, or
    /// by a bare name. By what the servers offered when they were seen last.
    pub fn tool_by_name(&self, principal: &Principal, name: &str, env: &Environment) -> NamedTool {
        let kept = KeptDefinitions::from_env(env);
        let split = split_name(name, self.config.servers.keys().map(base::ServerName::as_str));
        let (asked, within) = match split {
            Some((server, rest)) => (rest, Some(server)),
            None => (name, None),
        };
        let mut renamed = Vec::new();
        let mut bare = Vec::new();
        let mut others = BTreeMap::new();
        // A server that was never seen, or failed to start, may have anything.
        let mut is_known = within.is_none();
        for server in self.config.servers.values() {
            let at = server.name.as_str();
            if within.is_some_and(|within| within != at) {
                continue;
            }
            let lists = kept.lists(server).map(|(lists, _)| lists).unwrap_or_default();
            let reviewed = self.policy.pins.servers.get(at);
            let reviewed = reviewed.and_then(|it| it.reached_by(Digest::of_command(server)));
            let reviewed = reviewed.into_iter().flat_map(|it| it.tools.keys().map(String::as_str));
            let listed = lists.tools.iter().map(|tool| &*tool.name);
            let all: BTreeSet<&str> = listed.chain(reviewed).collect();
            is_known |= !all.is_empty();
            for tool in all {
                let whole = format!("{at}.{tool}");
                let overlay = self.overlay(principal, &whole);
                if overlay.is_some_and(|it| it.name.as_deref() == Some(asked)) {
                    renamed.push(whole);
                } else if tool == asked {
                    bare.push(whole);
                } else {
                    others.insert(tool.to_owned(), whole);
                }
            }
        }
        let mut found = if renamed.is_empty() { bare } else { renamed };
        match found.len() {
            0 if !is_known => NamedTool::Is(name.to_owned()),
            0 => {
                // A name with a server that there is not is like the name alone, too.
                let last = asked.rsplit(['.', '/', ':']).next().unwrap_or(asked);
                let like = nearest(asked, others.keys(), 0.85);
                let like = like.or_else(|| nearest(last, others.keys(), 0.85));
                NamedTool::Unseen(like.and_then(|tool| others.get(tool).cloned()))
            }
            1 => found.pop().map_or(NamedTool::Unseen(None), NamedTool::Is),
            _ => NamedTool::Several(found),
        }
    }

    /// The rules and grants that match nothing of the servers, by their lists as last seen; a server
    /// that was never seen may offer anything.
    pub fn unmatched(&self, env: &Environment) -> Vec<String> {
        let kept = KeptDefinitions::from_env(env);
        let servers = self.config.servers.values();
        let lists: Vec<_> =
            servers.map(|it| (&it.name, kept.lists(it).map(|(lists, _)| lists))).collect();
        let all = lists.iter().map(|(name, lists)| (name.as_str(), lists.as_ref()));
        let rules = self.policy.rules.unmatched(all);
        let offered = lists
            .iter()
            .map(|(name, lists)| OfferedNames::of_tools((*name).clone(), lists.as_ref()));
        let offered: Vec<_> = offered.collect();
        let grants = self.policy.grants.all().iter().flat_map(|grant| {
            let unmatched = unmatched_tools(&grant.allowed_tools, &offered);
            let unmatched =
                unmatched.into_iter().map(|unmatched| format!("{}: {unmatched}", grant.rule()));
            grant.flaws().into_iter().chain(unmatched)
        });
        rules.iter().map(ToString::to_string).chain(grants).collect()
    }

    /// Decides about `server.tool`, or about a URI: that of the server where most is permitted.
    pub fn decide(
        &self,
        principal: &Principal,
        action: PolicyAction,
        kind: TargetKind,
        asked: &str,
    ) -> Decision {
        let mut servers = self.config.servers.keys().map(base::ServerName::as_str);
        let decide = |server, name| self.decide_at(principal, action, (kind, server, name));
        if kind == TargetKind::Resource {
            let first = decide(servers.next().unwrap_or_default(), asked);
            let more = |best: Decision, server| {
                let other = decide(server, asked);
                if other.effect > best.effect { other } else { best }
            };
            return servers.fold(first, more);
        }
        match (kind, split_name(asked, servers)) {
            (_, None) => decide("", asked),
            (TargetKind::Server, Some(_)) => decide(asked, ""),
            (_, Some((server, name))) => decide(server, name),
        }
    }

    fn decide_at(
        &self,
        principal: &Principal,
        action: PolicyAction,
        (kind, server, name): (TargetKind, &str, &str),
    ) -> Decision {
        let command = self.config.servers.get(server).map(Digest::of_command).unwrap_or_default();
        let pinned = self.policy.pins.servers.get(server);
        let pinned = pinned.and_then(|pinned| pinned.reached_by(command));
        let tool = pinned.and_then(|pinned| pinned.tools.get(name));
        let about = pinned.map(|pinned| ServerDigests {
            command,
            instructions: Digest::of_text(&pinned.instructions),
        });
        let target = PolicyTarget {
            kind,
            hints: tool.map(|tool| ToolHints::from_tool(&tool.definition)).unwrap_or_default(),
            // As last seen, which may differ from what was reviewed.
            definition: tool.map(|tool| tool.seen.last().unwrap_or(&tool.digest)),
            about: about.as_ref(),
            ..PolicyTarget::tool(server, name)
        };
        self.policy.decide(principal, action, &target, self.now)
    }
}
