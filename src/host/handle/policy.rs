//! Access control for front ends: decisions, filtered lists, budgets, blocked requests; also tool
//! guidance for models, and adding or removing single servers.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::call::CallOptions;
use crate::handle::Host;
use crate::naming::canonical_name;
use crate::policy::{
    AccessScope, AuditSink, Blocked, Budget, Decision, Definition, Granter, InForce, LimitRefusal,
    Policy, PolicyAction, PolicyConfig, PolicyEffect, Principal, QuotaCounter, Reason,
    ServerDigests, SharedLimits, TargetKind, absent,
};
use crate::server::slot::Slot;
use crate::validators::schema_limits;
use base::ServerName;
use config::error::{Error, ErrorCode};
use config::{McpConfig, ServerConfig};
use protocol::{CallId, Capabilities, ListKind};
use schema::SchemaVerdict;

impl Host {
    /// Replaces the policy. Without one, the user may do everything and other callers nothing.
    pub fn set_policy(&self, config: PolicyConfig, policy: Policy) {
        self.inner.shared.policy.set(config, policy);
    }

    /// Takes charge of the policy, for something that follows files: two that do so for one host
    /// would undo each other's work, so that the last one counts. Returns the number to ask
    /// [`Host::is_in_charge_of_policy`] with.
    pub fn take_charge_of_policy(&self) -> u64 {
        self.inner.shared.policy.take_charge()
    }

    /// Whether nobody has taken charge of the policy since this number was given.
    pub fn is_in_charge_of_policy(&self, number: u64) -> bool {
        self.inner.shared.policy.is_in_charge(number)
    }

    /// Sets what keeps the grants that the user gives while a call waits for consent.
    pub fn grant_with(&self, granter: Granter) {
        self.inner.shared.policy.grant_with(granter);
    }

    /// Tells every operation of every caller to this audit log, which has to take it before anything
    /// is sent; ends the audit with `None`.
    pub fn audit_with(&self, sink: Option<Arc<dyn AuditSink>>) {
        self.inner.shared.policy.audit_with(sink);
    }

    /// Counts calls of callers other than the user in this shared store too.
    pub fn share_limits(&self, shared: Arc<dyn SharedLimits>) {
        self.inner.shared.policy.limiter.share(shared);
    }

    /// Where the quotas of callers other than the user are counted.
    pub fn quotas(&self) -> &Arc<QuotaCounter> {
        &self.inner.shared.policy.quotas
    }

    /// The counters that are shared with other processes, if there are any.
    pub fn shared_limits(&self) -> Option<&Arc<dyn SharedLimits>> {
        self.inner.shared.policy.limiter.shared()
    }

    /// The current policy.
    pub fn policy(&self) -> Policy {
        self.inner.shared.policy.in_force().policy.clone()
    }

    /// What is in force now: the policy as written, and what decides by it.
    pub fn in_force(&self) -> Arc<InForce> {
        self.inner.shared.policy.in_force()
    }

    /// The current policy and every later one.
    pub fn follow_policy(&self) -> watch::Receiver<Arc<InForce>> {
        self.inner.shared.policy.follow()
    }

    /// Whether a caller sees an item of a server, ready or not, in its lists.
    pub fn is_visible(
        &self,
        principal: &Principal,
        server: &ServerName,
        what: (TargetKind, &str),
    ) -> bool {
        self.inner.shared.policy.is_free(principal)
            || self.may(principal, PolicyAction::List, server, what)
    }

    /// Like [`Host::check`], but returns a boolean and does not record a denial.
    pub fn may(
        &self,
        principal: &Principal,
        action: PolicyAction,
        server: &ServerName,
        what: (TargetKind, &str),
    ) -> bool {
        let (point, slots) = (&self.inner.shared.policy, self.inner.shared.slots());
        let slot = slots.get(server);
        slot.is_some_and(|slot| point.decide(principal, action, slot, what).is_visible())
    }

    /// The part of a server's lists, ready or not, that a caller may see; `None` when it is empty
    /// or the server does not exist.
    pub fn visible(&self, principal: &Principal, server: &ServerName) -> Option<Arc<Capabilities>> {
        let point = &self.inner.shared.policy;
        let seen = point.visible(principal, self.inner.shared.slots().get(server)?);
        (point.is_free(principal) || has_some(&seen)).then_some(seen)
    }

    /// Decides whether a caller may do something with a server or one of its items in their current
    /// state (`name` is the tool or prompt as its server spells it, or the URI; empty for the
    /// server). Records denials; does not ask the user or count against limits.
    ///
    /// # Errors
    /// When it is denied or the server does not exist; both have the same message.
    pub fn check(
        &self,
        principal: &Principal,
        action: PolicyAction,
        server: &ServerName,
        (kind, name): (TargetKind, &str),
    ) -> Result<Decision, Error> {
        let point = &self.inner.shared.policy;
        let slot = self.inner.shared.server(server);
        let asked = if kind == TargetKind::Server { server.as_str() } else { name };
        let decision = match &slot {
            Ok(slot) => point.decide(principal, action, slot, (kind, name)),
            Err(_) => point.unknown(principal, action, kind, (Some(server), name)),
        };
        if decision.is_visible() {
            return slot.map(|_| decision).map_err(|_| absent(asked, kind));
        }
        let full = match kind {
            TargetKind::Tool | TargetKind::Prompt if !server.as_str().is_empty() => {
                canonical_name(server, name)
            }
            _ => asked.to_owned(),
        };
        point.refuse(principal, action, &full, &decision);
        let is_there =
            |slot: &Arc<Slot>| kind != TargetKind::Tool || slot.live().tool(name).is_some();
        // A missing tool is reported as absent, not as changed.
        let is_of_definition = matches!(decision.reason, Reason::Changed | Reason::Unseen);
        if is_of_definition && !slot.as_ref().is_ok_and(is_there) {
            return Err(absent(asked, kind));
        }
        Err(decision.refusal(asked, kind))
    }

    /// The callable servers, with the part of their lists that a caller may see. Servers without
    /// visible items are left out.
    pub fn offers(&self, principal: &Principal) -> Vec<(ServerName, Arc<Capabilities>)> {
        let slots = self.inner.shared.slots();
        let point = &self.inner.shared.policy;
        let live = slots.iter().filter(|(_, slot)| slot.live().is_callable());
        let offers = live.map(|(name, slot)| (name.clone(), point.visible(principal, slot)));
        let free = point.is_free(principal);
        offers.filter(|(_, all)| free || has_some(all)).collect()
    }

    /// Records that a request was refused because the token of its caller lacks a scope. Of tokens the
    /// host knows nothing itself.
    pub fn refuse_scope(
        &self,
        principal: &Principal,
        scope: AccessScope,
        action: PolicyAction,
        asked: &str,
    ) {
        let decision = Decision::new(PolicyEffect::Deny, Reason::Scope(scope), None);
        self.inner.shared.policy.refuse(principal, action, asked, &decision);
    }

    /// Recently denied requests, oldest first.
    pub fn blocked(&self) -> Vec<Blocked> {
        self.inner.shared.policy.blocked()
    }

    /// Every callable server with its digests, its instructions and the definitions of its tools;
    /// servers with an incomplete tool list are left out.
    pub fn definitions(&self) -> Vec<(ServerName, ServerDigests, String, Vec<Definition>)> {
        let slots = self.inner.shared.slots();
        let known = slots.iter().filter(|(_, slot)| {
            let live = slot.live();
            let cut = live.capabilities.partial.iter().any(|(list, _)| *list == ListKind::Tools);
            live.is_callable() && !cut
        });
        known
            .map(|(name, slot)| {
                let (about, instructions, tools) = self.inner.shared.policy.definitions(slot);
                (name.clone(), about, instructions, tools)
            })
            .collect()
    }

    /// Sets the call budget of a caller's run, instead of the default of its profile.
    ///
    /// # Errors
    /// [`ErrorCode::RateLimited`] when too many runs are open.
    pub fn create_budget(
        &self,
        principal: &Principal,
        run: &str,
        calls: u32,
    ) -> Result<Budget, Error> {
        let limiter = &self.inner.shared.policy.limiter;
        limiter.create_budget(&principal.accountable(), run, calls).map_err(LimitRefusal::error)
    }

    /// Begins a run of a caller under a name, or continues it, with its own budget of `calls` within
    /// the limit of its profile, which holds without one.
    ///
    /// # Errors
    /// As [`Host::create_budget`].
    pub fn begin_run(
        &self,
        principal: &Principal,
        run: &str,
        calls: Option<u32>,
    ) -> Result<Budget, Error> {
        let most = self.calls_per_run(principal);
        let before = self.budget(principal, run).map(|budget| budget.calls);
        let calls = calls.or(before).map_or(most, |calls| calls.min(most));
        self.create_budget(principal, run, calls)
    }

    /// The budget of a run, whether it has begun or not.
    pub fn run_budget(&self, principal: &Principal, run: &str) -> Budget {
        let calls = self.calls_per_run(principal);
        self.budget(principal, run).unwrap_or(Budget { calls, spent: 0 })
    }

    /// Ends a run, whether it has begun or not; returns its final budget.
    pub fn end_run(&self, principal: &Principal, run: &str) -> Budget {
        let budget = self.run_budget(principal, run);
        self.end_budget(principal, run).unwrap_or(budget)
    }

    fn calls_per_run(&self, principal: &Principal) -> u32 {
        self.inner.shared.policy.in_force().config.limits_of(&principal.profile).calls_per_run
    }

    /// What a run has spent; `None` before its first call.
    pub fn budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        self.inner.shared.policy.limiter.budget(&principal.accountable(), run)
    }

    /// Ends a run; returns its final budget. Its record of what it has read is deleted.
    pub fn end_budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        self.inner.shared.policy.run_ended(principal, &run.into());
        self.inner.shared.policy.limiter.end_budget(&principal.accountable(), run)
    }

    /// Cancels a call in flight of any caller and notifies the server; returns whether it existed.
    pub fn cancel(&self, call: CallId) -> bool {
        let slots = self.inner.shared.slots();
        let row = slots.values().find_map(|slot| slot.calls().get(&call).cloned());
        row.is_some_and(|row| {
            row.pending.cancel.cancel();
            true
        })
    }

    /// Resolves a name to a server and a tool.
    ///
    /// # Errors
    /// [`ErrorCode::ToolNotFound`] or [`ErrorCode::Ambiguous`], with candidates.
    pub fn resolve_tool_name(&self, name: &str) -> Result<(ServerName, Arc<str>), Error> {
        let (slot, tool) = self.inner.shared.routes().named(name, None, TargetKind::Tool)?;
        Ok((slot.name.clone(), tool))
    }

    /// Checks arguments against a tool's schema; sends nothing.
    ///
    /// # Errors
    /// As [`Host::resolve_tool_name`]; [`ErrorCode::Validation`] with every violation.
    pub async fn validate_arguments(&self, name: &str, arguments: &Value) -> Result<(), Error> {
        let (slot, tool) = self.inner.shared.routes().named(name, None, TargetKind::Tool)?;
        let live = slot.live();
        let Some(tool) = live.tool(&tool) else { return Err(live.unavailable()) };
        let limits = schema_limits(&live.config.content);
        let wrong = |message: String| Error::new(ErrorCode::Validation, message).server(&slot.name);
        let validators = &self.inner.shared.validators;
        match validators.check_input(&tool.input_schema, limits, arguments).await {
            SchemaVerdict::Valid => Ok(()),
            SchemaVerdict::Unknown(why) => Err(wrong(why)),
            SchemaVerdict::Invalid(violations) => {
                let message = "the arguments do not fit the schema".to_owned();
                Err(wrong(message).violations(violations))
            }
        }
    }

    /// Guidance for a model about the tools of a server: its prompt `tool-descriptions` where it
    /// offers one (a single user message with text), otherwise one line per tool.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub async fn tool_guidance(&self, server: &ServerName) -> Result<String, Error> {
        let slot = self.inner.shared.server(server)?;
        if let Some(text) = self.own_guidance(server).await {
            return Ok(text);
        }
        let all = Arc::clone(&slot.live().capabilities);
        let mut text = format!("Guidance for Server ID: {server}\n");
        for tool in &all.tools {
            let says = tool.description.as_ref().map_or("", |text| text.as_str());
            let line = says.lines().map(str::trim).find(|line| !line.is_empty());
            let _ = writeln!(text, "- {}: {}", tool.label, line.unwrap_or("no description"));
        }
        Ok(text)
    }

    /// What the server itself says about its tools: its prompt `tool-descriptions`, if it has one.
    pub async fn own_guidance(&self, server: &ServerName) -> Option<String> {
        let slot = self.inner.shared.server(server).ok()?;
        let all = Arc::clone(&slot.live().capabilities);
        all.prompts.iter().find(|prompt| &*prompt.name == GUIDANCE)?;
        let options = CallOptions { server: Some(server.clone()), ..CallOptions::default() };
        let given = self.get_prompt_with(GUIDANCE, Value::Null, options).await;
        one_text(&given.ok()?.result)
    }

    /// Adds a server or replaces the one with its name, without affecting the others. A later
    /// configuration that does not contain it removes it.
    ///
    /// # Errors
    /// As [`Host::reload`].
    pub async fn register(&self, server: ServerConfig) -> Result<(), Error> {
        let edit = move |config: &mut McpConfig| {
            config.servers.insert(server.name.clone(), server);
        };
        self.edit_config(edit).await?.finished().await;
        Ok(())
    }

    /// Stops and removes a server. Waits until it is gone.
    ///
    /// # Errors
    /// As [`Host::reload`]; [`ErrorCode::Configuration`] for an unknown server.
    pub async fn unregister(&self, server: &ServerName) -> Result<(), Error> {
        self.inner.shared.server(server)?;
        let server = server.clone();
        let edit = move |config: &mut McpConfig| {
            config.servers.shift_remove(&server);
        };
        self.edit_config(edit).await?.finished().await;
        Ok(())
    }
}

fn has_some(all: &Capabilities) -> bool {
    !(all.tools.is_empty()
        && all.prompts.is_empty()
        && all.resources.is_empty()
        && all.templates.is_empty())
}

/// Name of the prompt that describes a server's tools to models.
const GUIDANCE: &str = "tool-descriptions";

/// The text of a prompt that consists of a single user message.
fn one_text(result: &Value) -> Option<String> {
    let [message] = result.get("messages")?.as_array()?.as_slice() else { return None };
    let content = message.get("content")?;
    (message["role"] == "user" && content["type"] == "text")
        .then(|| content["text"].as_str().map(str::to_owned))?
}
