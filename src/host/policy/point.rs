//! The check point: decides, limits and records every list and operation of a caller. Owns the
//! current policy, the counters, and the recently blocked requests.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::Instant;

use super::audit::{AuditEvent, AuditSink};
use super::decide::{Decision, Policy, PolicyEffect, Reason, absent, full_name};
use super::grants::{GrantKind, NewGrant};
use super::hook::PolicyHook;
use super::limits::Limiter;
use super::overlay::OverlayConfig;
use super::pins::{Definition, Digest};
use super::principal::{
    AccessScope, PolicyAction, PolicyTarget, Principal, ServerDigests, TargetKind,
};
use super::quotas::QuotaCounter;
use super::rules::{PolicyConfig, ProfileConfig};
use super::trifecta::Taint;
use crate::approvals::ConsentReach;
use crate::call::{CallOptions, Origin};
use crate::naming::{resolve_name, split_first};
use crate::router::{Route, Routes};
use crate::server::slot::{Live, Slot};
use base::text::json::WrittenValue;
use base::{Clock, SafeText, ServerName, Timestamp};
use config::ServerConfig;
use config::error::{Error, ErrorCode};
use protocol::{Capabilities, SessionView, ToolHints};

/// The policy in force.
#[derive(Default)]
pub struct InForce {
    /// The policy as written: limits, hook.
    pub config: PolicyConfig,
    /// The inputs of decisions.
    pub policy: Policy,
    pub(crate) service: Option<PolicyHook>,
}

impl InForce {
    /// The profile of a caller, if the policy has one and binds it.
    pub fn profile(&self, principal: &Principal) -> Option<&ProfileConfig> {
        let profile = self.config.profiles.get(&*principal.profile);
        profile.filter(|_| self.policy.binds(principal))
    }

    /// What the profile of a caller changes of a tool as the caller sees it.
    pub fn overlay(
        &self,
        principal: &Principal,
        server: &str,
        tool: &str,
    ) -> Option<OverlayConfig> {
        let profile = self.profile(principal).filter(|profile| !profile.overlays.is_empty());
        profile.and_then(|_| self.policy.rules.overlay(&principal.profile, server, tool))
    }
}

/// A blocked request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// When.
    pub at: Timestamp,
    /// The caller.
    pub principal: Principal,
    /// The action.
    pub action: PolicyAction,
    /// The target, as spelled by the caller.
    pub target: SafeText,
    /// The reason, with the rule.
    pub why: SafeText,
}

/// An operation that was not denied.
#[derive(Clone, Debug)]
pub struct Admission {
    /// The caller.
    pub principal: Principal,
    /// The decision.
    pub decision: Decision,
}

/// The current definitions of a server, with digests.
struct SeenDefinitions {
    config: Arc<ServerConfig>,
    said: Option<Arc<SessionView>>,
    capabilities: Arc<Capabilities>,
    about: ServerDigests,
    tools: HashMap<Arc<str>, Digest>,
}

/// A run: its caller's origin and its name.
type CallerRun = (Box<str>, Arc<str>);

/// Decides, limits and records operations of callers.
pub struct CheckPoint {
    clock: Clock,
    in_force: watch::Sender<Arc<InForce>>,
    /// Counts calls and budgets.
    pub limiter: Arc<Limiter>,
    /// Counts what is used of quotas.
    pub quotas: Arc<QuotaCounter>,
    seen: Mutex<HashMap<ServerName, Arc<SeenDefinitions>>>,
    runs: Mutex<HashMap<CallerRun, (Taint, Instant)>>,
    blocked: Mutex<VecDeque<Blocked>>,
    granter: RwLock<Option<Granter>>,
    /// How many have taken charge of the policy; the last of them is in charge.
    keepers: AtomicU64,
    audit: RwLock<Option<Arc<dyn AuditSink>>>,
}

/// Keeps a grant that the user gives while a call waits for consent.
pub type Granter = Arc<dyn Fn(NewGrant) -> BoxFuture<'static, Result<(), String>> + Send + Sync>;

impl CheckPoint {
    /// Number of blocked requests kept.
    const MAX_BLOCKED_REQUESTS: usize = 200;
    /// A run's record of what it has read expires after this time without a call.
    const RUN_LIFETIME: Duration = Duration::from_secs(3_600);

    /// A check point that permits everything to the user and nothing to other callers.
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            in_force: watch::Sender::new(Arc::default()),
            limiter: Arc::default(),
            quotas: Arc::new(QuotaCounter::new(clock)),
            seen: Mutex::default(),
            runs: Mutex::default(),
            blocked: Mutex::default(),
            granter: RwLock::default(),
            keepers: AtomicU64::new(0),
            audit: RwLock::default(),
        }
    }

    /// Takes charge of the policy; whoever was in charge before is no more. Returns the number to
    /// ask [`CheckPoint::is_in_charge`] with.
    pub fn take_charge(&self) -> u64 {
        self.keepers.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Whether nobody has taken charge of the policy since this number was given.
    pub fn is_in_charge(&self, number: u64) -> bool {
        self.keepers.load(Ordering::SeqCst) == number
    }

    /// Sets what keeps the grants that the user gives while a call waits for consent.
    pub fn grant_with(&self, granter: Granter) {
        *self.granter.write() = Some(granter);
    }

    /// Sets the audit log, or ends it.
    pub fn audit_with(&self, sink: Option<Arc<dyn AuditSink>>) {
        *self.audit.write() = sink;
    }

    /// The audit log, if there is one.
    pub(crate) fn audit(&self) -> Option<Arc<dyn AuditSink>> {
        self.audit.read().clone()
    }

    /// Keeps a consent that reaches further than one call, as a grant for the caller and the tool.
    ///
    /// # Errors
    /// Why it could not be kept.
    pub async fn consented(
        &self,
        principal: &Principal,
        tool: &str,
        reach: ConsentReach,
    ) -> Result<(), String> {
        let kind = match reach {
            ConsentReach::Once => return Ok(()),
            ConsentReach::Session => {
                GrantKind::Once { until: None, session: principal.session.clone() }
            }
            ConsentReach::Always => GrantKind::Always,
        };
        let granter = self.granter.read().clone().ok_or("no grants are kept here")?;
        let keeping = granter(NewGrant {
            origin: principal.origin.to_string(),
            profile: principal.profile.to_string(),
            scopes: [AccessScope::ToolsCall].into(),
            allowed_tools: vec![globset::escape(tool)],
            kind,
        });
        keeping.await
    }

    /// The current policy.
    pub fn in_force(&self) -> Arc<InForce> {
        Arc::clone(&self.in_force.borrow())
    }

    /// The current policy and every later one.
    pub fn follow(&self) -> watch::Receiver<Arc<InForce>> {
        self.in_force.subscribe()
    }

    /// Replaces the policy. Keeps the connection to an unchanged policy service.
    pub fn set(&self, config: PolicyConfig, policy: Policy) {
        let before = self.in_force();
        let service = match (&before.service, &config.hook) {
            (Some(service), Some(hook)) if service.config == *hook => Some(service.clone()),
            (_, hook) => hook.clone().map(PolicyHook::new),
        };
        self.in_force.send_replace(Arc::new(InForce { config, policy, service }));
    }

    /// Whether this caller is exempt from the policy.
    pub fn is_free(&self, principal: &Principal) -> bool {
        !self.in_force.borrow().policy.binds(principal)
    }

    /// Decides about an item of a server in its current state.
    pub fn decide(
        &self,
        principal: &Principal,
        action: PolicyAction,
        slot: &Slot,
        (kind, name): (TargetKind, &str),
    ) -> Decision {
        let live = slot.live();
        let seen = self.seen(slot, &live);
        let hints = match kind {
            TargetKind::Tool => live.tool(name).map_or_else(ToolHints::default, |tool| tool.hints),
            _ => ToolHints::default(),
        };
        let target = PolicyTarget {
            kind,
            server: slot.name.as_str(),
            name,
            hints,
            definition: seen.tools.get(name).filter(|_| kind == TargetKind::Tool),
            about: Some(&seen.about),
        };
        self.in_force().policy.decide(principal, action, &target, self.clock.now())
    }

    /// The digests of a server, its instructions and the definitions of its tools, for the store of
    /// reviewed definitions.
    pub fn definitions(&self, slot: &Slot) -> (ServerDigests, String, Vec<Definition>) {
        let live = slot.live();
        let seen = self.seen(slot, &live);
        let tools = seen.capabilities.tools.iter().filter_map(|tool| {
            let digest = *seen.tools.get(&tool.name)?;
            let (name, value) = (tool.name.to_string(), Arc::clone(&tool.raw));
            Some(Definition { name, digest, value })
        });
        (seen.about.clone(), instructions(&live), tools.collect())
    }

    fn seen(&self, slot: &Slot, live: &Live) -> Arc<SeenDefinitions> {
        let mut all = self.seen.lock();
        if let Some(seen) = all.get(&slot.name)
            && Arc::ptr_eq(&seen.config, &live.config)
            && Arc::ptr_eq(&seen.capabilities, &live.capabilities)
            && seen.said.as_ref().map(Arc::as_ptr) == live.about.as_ref().map(Arc::as_ptr)
        {
            return Arc::clone(seen);
        }
        let digest =
            |tool: &Arc<protocol::Tool>| (Arc::clone(&tool.name), Digest::of_value(&tool.raw));
        let seen = Arc::new(SeenDefinitions {
            config: Arc::clone(&live.config),
            said: live.about.clone(),
            capabilities: Arc::clone(&live.capabilities),
            about: ServerDigests::new(&live.config, &instructions(live)),
            tools: live.capabilities.tools.iter().map(digest).collect(),
        });
        all.insert(slot.name.clone(), Arc::clone(&seen));
        seen
    }

    /// The part of a server's lists that a caller may see.
    pub fn visible(&self, principal: &Principal, slot: &Slot) -> Arc<Capabilities> {
        let all = Arc::clone(&slot.live().capabilities);
        if self.is_free(principal) {
            return all;
        }
        let shows = |kind, name: &str| {
            self.decide(principal, PolicyAction::List, slot, (kind, name)).is_visible()
        };
        let mut part = Capabilities { rejected: vec![], ..Capabilities::clone(&all) };
        part.tools.retain(|tool| shows(TargetKind::Tool, &tool.name));
        let in_force = self.in_force();
        for tool in &mut part.tools {
            let overlay = in_force.overlay(principal, slot.name.as_str(), &tool.name);
            if let Some(overlay) = overlay {
                let (value, numbers) = (overlay.definition(&tool.raw), tool.raw.numbers.clone());
                *tool = Arc::new(tool.with_definition(WrittenValue { value, numbers }));
            }
        }
        part.prompts.retain(|prompt| shows(TargetKind::Prompt, &prompt.name));
        part.resources.retain(|resource| shows(TargetKind::Resource, &resource.uri));
        part.templates.retain(|template| shows(TargetKind::Resource, &template.uri));
        Arc::new(part)
    }

    /// Resolves the name of a tool or prompt for a caller. Names are resolved among the items that
    /// it may see; others are treated as missing.
    ///
    /// # Errors
    /// Those of the router, or of [`Decision::refusal`].
    pub fn named(
        &self,
        routes: &Routes,
        options: &CallOptions,
        (action, kind): (PolicyAction, TargetKind),
        asked: &str,
    ) -> Result<(Route, Option<Admission>), Error> {
        let server = options.server.as_ref();
        let route = routes.named(asked, server, kind);
        let principal = options.principal();
        if self.is_free(&principal) {
            return Ok((route?, None));
        }
        let denied = match &route {
            Ok((slot, name)) => {
                let decision = self.decide(&principal, action, slot, (kind, name));
                if decision.is_visible() {
                    return Ok((route?, Some(Admission { principal, decision })));
                }
                decision
            }
            Err(_) => self.unknown(&principal, action, kind, (server, asked)),
        };
        let known = route.is_ok();
        let among = routes.names(kind).iter().filter(|(name, target)| {
            let visible = |slot: &Arc<Slot>| {
                self.decide(&principal, action, slot, (kind, target)).is_visible()
            };
            server.is_none_or(|server| server == name) && routes.server(name).is_ok_and(visible)
        });
        let among: Vec<_> = among.collect();
        match resolve_name(asked, among.iter().map(|(server, name)| (server, name))) {
            Ok((server, name)) => {
                let slot = Arc::clone(routes.server(server)?);
                let decision = self.decide(&principal, action, &slot, (kind, name));
                Ok(((slot, Arc::clone(name)), Some(Admission { principal, decision })))
            }
            Err(error) if error.code == ErrorCode::Ambiguous => Err(error),
            Err(error) => {
                self.refuse(&principal, action, asked, &denied);
                if let Err(down) = route
                    && down.code == ErrorCode::ServerUnavailable
                    && let Some(slot) = down.server.as_ref().and_then(|s| routes.server(s).ok())
                    && self
                        .decide(&principal, PolicyAction::List, slot, (TargetKind::Server, ""))
                        .is_visible()
                {
                    return Err(down);
                }
                Err(match denied.reason {
                    _ if known && reveals(&principal) => denied.explained(asked),
                    Reason::NotGranted | Reason::Closed | Reason::Scope(_) | Reason::OtherTools => {
                        denied.refusal(asked, kind)
                    }
                    // A missing item is reported as absent, not as changed.
                    Reason::Changed | Reason::Unseen if known => denied.refusal(asked, kind),
                    _ => error,
                })
            }
        }
    }

    /// The decision about a name that cannot be resolved: the same as about a hidden item, so that
    /// callers cannot tell them apart.
    pub fn unknown(
        &self,
        principal: &Principal,
        action: PolicyAction,
        kind: TargetKind,
        (server, asked): (Option<&ServerName>, &str),
    ) -> Decision {
        let (server, name) = match server {
            Some(server) => (server.as_str(), asked),
            None => split_first(asked).unwrap_or(("", asked)),
        };
        let target = PolicyTarget { kind, ..PolicyTarget::tool(server, name) };
        self.in_force().policy.decide(principal, action, &target, self.clock.now())
    }

    /// Decides about an item of a known server: a resource, a prompt to complete, the server
    /// itself.
    ///
    /// # Errors
    /// As [`Decision::refusal`].
    pub fn direct(
        &self,
        principal: Principal,
        action: PolicyAction,
        (kind, asked): (TargetKind, &str),
        slot: Result<Arc<Slot>, Error>,
    ) -> Result<(Arc<Slot>, Option<Admission>), Error> {
        if self.is_free(&principal) {
            return Ok((slot?, None));
        }
        let decision = match &slot {
            Ok(slot) => self.decide(&principal, action, slot, (kind, asked)),
            Err(_) => self.unknown(&principal, action, kind, (Some(&ServerName::new("")), asked)),
        };
        if !decision.is_visible() {
            self.refuse(&principal, action, asked, &decision);
            if reveals(&principal) && slot.is_ok() {
                return Err(decision.explained(asked));
            }
            return Err(decision.refusal(asked, kind));
        }
        match slot {
            Ok(slot) => Ok((slot, Some(Admission { principal, decision }))),
            Err(error) if error.code == ErrorCode::ServerUnavailable => Err(error),
            // Does not reveal the names of the servers.
            Err(_) => Err(absent(asked, kind)),
        }
    }

    /// Records, logs and audits a request that is refused before it has become an operation.
    pub fn refuse(
        &self,
        principal: &Principal,
        action: PolicyAction,
        asked: &str,
        decision: &Decision,
    ) {
        self.block_by(principal, action, asked, decision);
        if let Some(audit) = self.audit() {
            let now = self.clock.now();
            // Nothing is sent, so nothing is lost but the line, and the operator is told of that.
            let why = decision.words();
            let _ = audit.write(&AuditEvent::refused(now, principal, (action, asked), &why));
        }
    }

    /// Records and logs a request that a decision denies.
    pub fn block_by(
        &self,
        principal: &Principal,
        action: PolicyAction,
        asked: &str,
        decision: &Decision,
    ) {
        self.block((principal, action, asked), decision.rule.as_deref(), &decision.words());
    }

    /// Records and logs a blocked request: whose, what, of what; the rule, if it was one; and why.
    pub fn block(
        &self,
        (principal, action, asked): (&Principal, PolicyAction, &str),
        rule: Option<&str>,
        why: &str,
    ) {
        let why = SafeText::line(why);
        tracing::warn!(
            target: "mcpdeck::policy", action = "blocked", principal = %principal,
            wanted = ?action, rule, "{asked:?}: {why}"
        );
        let mut blocked = self.blocked.lock();
        if blocked.len() >= Self::MAX_BLOCKED_REQUESTS {
            blocked.pop_front();
        }
        blocked.push_back(Blocked {
            at: self.clock.now(),
            principal: principal.clone(),
            action,
            target: SafeText::cut(asked, 200),
            why,
        });
    }

    /// The recently blocked requests, oldest first.
    pub fn blocked(&self) -> Vec<Blocked> {
        self.blocked.lock().iter().cloned().collect()
    }

    /// Raises `Allow` to `Ask` when the run has read private data and untrusted content and the
    /// target sends data outside.
    pub(crate) fn raised(
        &self,
        admission: &Admission,
        run: Option<&Arc<str>>,
        target: &PolicyTarget<'_>,
    ) -> Decision {
        let in_force = self.in_force();
        let taint = self.runs.lock().get(&key(&admission.principal, run)).map(|(taint, _)| *taint);
        let all = taint.is_some_and(Taint::is_both);
        if admission.decision.effect == PolicyEffect::Allow
            && all
            && in_force.policy.rules.trifecta.sends(target)
        {
            return Decision::new(PolicyEffect::Ask, Reason::Trifecta, None);
        }
        admission.decision.clone()
    }

    /// Records what a run has read.
    pub(crate) fn has_read(
        &self,
        principal: &Principal,
        run: Option<&Arc<str>>,
        target: &PolicyTarget<'_>,
    ) {
        let trifecta = &self.in_force().policy.rules.trifecta;
        let taint = trifecta.taint(target, &full_name(target));
        let now = Instant::now();
        let key = key(principal, run);
        let mut runs = self.runs.lock();
        if runs.len() >= Limiter::MAX_TABLE_KEYS && !runs.contains_key(&key) {
            runs.retain(|_, (_, used)| now - *used < Self::RUN_LIFETIME);
            // Callers choose run names freely, so the least recently used run is evicted.
            let oldest = runs.iter().min_by_key(|(_, (_, used))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone())
                && runs.len() >= Limiter::MAX_TABLE_KEYS
            {
                runs.remove(&oldest);
            }
        }
        let known = runs.entry(key).or_insert((Taint::default(), now));
        *known = (known.0.and(taint), now);
    }

    /// Deletes the record of what a run has read.
    pub(crate) fn run_ended(&self, principal: &Principal, run: &Arc<str>) {
        self.runs.lock().remove(&key(principal, Some(run)));
    }
}

/// Calls without a run share one per session, or else per origin.
fn key(principal: &Principal, run: Option<&Arc<str>>) -> CallerRun {
    let run = run.or(principal.session.as_ref()).cloned();
    (principal.origin.to_string().into(), run.unwrap_or_else(|| "".into()))
}

/// Whether a caller is told why it is denied: the user, except through the gateway, where the
/// caller is a program.
fn reveals(principal: &Principal) -> bool {
    principal.is_person() && !matches!(principal.origin, Origin::Gateway(_))
}

fn instructions(live: &Live) -> String {
    let said = live.about.as_ref().and_then(|view| view.instructions.as_ref());
    said.map(ToString::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn runs_that_a_caller_makes_up_do_not_fill_the_memory() {
        let point = CheckPoint::new(Clock::system());
        let principal = Principal::new(Origin::Gateway("a".into()));
        let reads = |run: usize| {
            let run: Arc<str> = run.to_string().into();
            point.has_read(&principal, Some(&run), &PolicyTarget::resource("s", "file:///a"));
        };
        (0..Limiter::MAX_TABLE_KEYS + 10).for_each(reads);
        assert_eq!(point.runs.lock().len(), Limiter::MAX_TABLE_KEYS);
        let kept = |run: usize| {
            let key = key(&principal, Some(&run.to_string().into()));
            point.runs.lock().contains_key(&key)
        };
        assert!(kept(Limiter::MAX_TABLE_KEYS + 9) && kept(10) && !kept(0), "the oldest gave way");
    }
}
