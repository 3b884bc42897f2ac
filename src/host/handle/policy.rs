//! Who may do what, for front ends: decisions, filtered lists, budgets, what was blocked; and what a
//! model is told about a server's tools.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::base::ServerName;
use crate::config::{McpConfig, ServerConfig};
use crate::error::{Error, ErrorCode};
use crate::host::call::CallOptions;
use crate::host::handle::Host;
use crate::host::policy::{
    Blocked, Budget, Decision, Definition, InForce, LimitRefusal, Policy, PolicyAction,
    PolicyConfig, Principal, Reason, ServerDigests, SharedLimits, TargetKind, absent,
};
use crate::host::server::slot::Slot;
use crate::host::validate::SchemaVerdict;
use crate::mcp::{CallId, Capabilities, ListKind};

impl Host {
    /// Decides by this from now on. Without it the person may do everything and everybody else
    /// nothing.
    pub fn set_policy(&self, config: PolicyConfig, policy: Policy) {
        self.inner.deck.policy.set(config, policy);
    }

    /// From now on the calls of callers that are not the person are counted there too.
    pub fn share_limits(&self, shared: Arc<dyn SharedLimits>) {
        self.inner.deck.policy.limiter.share(shared);
    }

    /// What decides now.
    pub fn policy(&self) -> Policy {
        self.inner.deck.policy.in_force().policy.clone()
    }

    /// What decides now, and whenever that changes.
    pub fn follow_policy(&self) -> watch::Receiver<Arc<InForce>> {
        self.inner.deck.policy.follow()
    }

    /// Whether something of a server, ready or not, belongs in the lists a caller gets.
    pub fn is_visible(
        &self,
        principal: &Principal,
        server: &ServerName,
        what: (TargetKind, &str),
    ) -> bool {
        self.inner.deck.policy.is_free(principal)
            || self.may(principal, PolicyAction::List, server, what)
    }

    /// Whether a caller may do something, as [`Host::check`] decides it; nothing is noted.
    pub fn may(
        &self,
        principal: &Principal,
        action: PolicyAction,
        server: &ServerName,
        what: (TargetKind, &str),
    ) -> bool {
        let (point, slots) = (&self.inner.deck.policy, self.inner.deck.slots());
        let slot = slots.get(server);
        slot.is_some_and(|slot| point.decide(principal, action, slot, what).is_visible())
    }

    /// The part of a server's lists, ready or not, that a caller may see; `None` when that is
    /// nothing, or there is no such server.
    pub fn visible(&self, principal: &Principal, server: &ServerName) -> Option<Arc<Capabilities>> {
        let point = &self.inner.deck.policy;
        let seen = point.visible(principal, self.inner.deck.slots().get(server)?);
        (point.is_free(principal) || has_some(&seen)).then_some(seen)
    }

    /// Decides whether a caller may do something with a server or with something of it as it is now
    /// (`name` is the tool or prompt as its server spells it, or the URI; empty for the server).
    /// Asks nobody, counts nothing.
    ///
    /// # Errors
    /// When it is denied, or there is no such server, in the same words.
    pub fn check(
        &self,
        principal: &Principal,
        action: PolicyAction,
        server: &ServerName,
        (kind, name): (TargetKind, &str),
    ) -> Result<Decision, Error> {
        let point = &self.inner.deck.policy;
        let slot = self.inner.deck.routes().server(server).cloned();
        let asked = if kind == TargetKind::Server { server.as_str() } else { name };
        let decision = match &slot {
            Ok(slot) => point.decide(principal, action, slot, (kind, name)),
            Err(_) => point.unknown(principal, action, kind, (Some(server), name)),
        };
        if decision.is_visible() {
            return slot.map(|_| decision).map_err(|_| absent(asked, kind));
        }
        point.block(principal, action, asked, &decision);
        let is_there =
            |slot: &Arc<Slot>| kind != TargetKind::Tool || slot.live().tool(name).is_some();
        // What is not there at all has not changed either.
        if decision.reason == Reason::Changed && !slot.as_ref().is_ok_and(is_there) {
            return Err(absent(asked, kind));
        }
        Err(decision.refusal(asked, kind))
    }

    /// The servers that can be called, with the part of their lists that a caller may see. A server
    /// of which it may see nothing is left out.
    pub fn offers(&self, principal: &Principal) -> Vec<(ServerName, Arc<Capabilities>)> {
        let slots = self.inner.deck.slots();
        let point = &self.inner.deck.policy;
        let live = slots.iter().filter(|(_, slot)| slot.live().is_callable());
        let offers = live.map(|(name, slot)| (name.clone(), point.visible(principal, slot)));
        let free = point.is_free(principal);
        offers.filter(|(_, all)| free || has_some(all)).collect()
    }

    /// What was not permitted lately, oldest first.
    pub fn blocked(&self) -> Vec<Blocked> {
        self.inner.deck.policy.blocked()
    }

    /// Every server that can be called with the digests of what it is, its instructions and the
    /// definitions of its tools; those whose tools are not all known are left out.
    pub fn definitions(&self) -> Vec<(ServerName, ServerDigests, String, Vec<Definition>)> {
        let slots = self.inner.deck.slots();
        let known = slots.iter().filter(|(_, slot)| {
            let live = slot.live();
            let cut = live.capabilities.partial.iter().any(|(list, _)| *list == ListKind::Tools);
            live.is_callable() && !cut
        });
        known
            .map(|(name, slot)| {
                let (about, instructions, tools) = self.inner.deck.policy.definitions(slot);
                (name.clone(), about, instructions, tools)
            })
            .collect()
    }

    /// Gives a run of a caller so many calls instead of the default of its profile.
    ///
    /// # Errors
    /// [`ErrorCode::RateLimited`] when too many runs are open.
    pub fn create_budget(
        &self,
        principal: &Principal,
        run: &str,
        calls: u32,
    ) -> Result<Budget, Error> {
        let limiter = &self.inner.deck.policy.limiter;
        limiter.create_budget(principal, run, calls).map_err(LimitRefusal::error)
    }

    /// What a run has spent; `None` before its first call.
    pub fn budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        self.inner.deck.policy.limiter.budget(principal, run)
    }

    /// Ends a run; gives its final budget. What it has read is forgotten.
    pub fn end_budget(&self, principal: &Principal, run: &str) -> Option<Budget> {
        self.inner.deck.policy.run_ended(principal, &run.into());
        self.inner.deck.policy.limiter.end_budget(principal, run)
    }

    /// Cancels a call in flight, whoever makes it; gives whether there was one. The server is told.
    pub fn cancel(&self, call: CallId) -> bool {
        let slots = self.inner.deck.slots();
        let row = slots.values().find_map(|slot| slot.calls().get(&call).cloned());
        row.is_some_and(|row| {
            row.pending.cancel.cancel();
            true
        })
    }

    /// The server and the tool that a name means (decision D3).
    ///
    /// # Errors
    /// [`ErrorCode::ToolNotFound`] or [`ErrorCode::Ambiguous`], with candidates.
    pub fn resolve_tool_name(&self, name: &str) -> Result<(ServerName, Arc<str>), Error> {
        let (slot, tool) = self.inner.deck.routes().named(name, None, TargetKind::Tool)?;
        Ok((slot.name.clone(), tool))
    }

    /// Checks arguments against a tool's schema; nothing is sent.
    ///
    /// # Errors
    /// As [`Host::resolve_tool_name`]; [`ErrorCode::Validation`] with every violation.
    pub async fn validate_arguments(&self, name: &str, arguments: &Value) -> Result<(), Error> {
        let (slot, tool) = self.inner.deck.routes().named(name, None, TargetKind::Tool)?;
        let live = slot.live();
        let Some(tool) = live.tool(&tool) else { return Err(live.unavailable()) };
        let limits = live.config.content;
        let wrong = |message: String| Error::new(ErrorCode::Validation, message).server(&slot.name);
        let validators = &self.inner.deck.validators;
        match validators.check_input(&tool.input_schema, limits, arguments).await {
            SchemaVerdict::Valid => Ok(()),
            SchemaVerdict::Unknown(why) => Err(wrong(why)),
            SchemaVerdict::Invalid(violations) => {
                let message = "the arguments do not fit the schema".to_owned();
                Err(wrong(message).violations(violations))
            }
        }
    }

    /// What a model is told about the tools of a server: its prompt `tool-descriptions` where it
    /// offers one (one message of the user, text), else a line for each tool.
    ///
    /// # Errors
    /// [`ErrorCode::Configuration`] for an unknown server.
    pub async fn tool_guidance(&self, server: &ServerName) -> Result<String, Error> {
        let slot = Arc::clone(self.inner.deck.routes().server(server)?);
        let all = Arc::clone(&slot.live().capabilities);
        if all.prompts.iter().any(|prompt| &*prompt.name == GUIDANCE) {
            let options = CallOptions { server: Some(server.clone()), ..CallOptions::default() };
            let given = self.get_prompt_with(GUIDANCE, Value::Null, options).await;
            if let Some(text) = given.ok().and_then(|outcome| one_text(&outcome.result)) {
                return Ok(text);
            }
        }
        let mut text = format!("Guidance for Server ID: {server}\n");
        for tool in &all.tools {
            let says = tool.description.as_ref().map_or("", |text| text.as_str());
            let line = says.lines().map(str::trim).find(|line| !line.is_empty());
            let _ = writeln!(text, "- {}: {}", tool.label, line.unwrap_or("no description"));
        }
        Ok(text)
    }

    /// Adds a server, or replaces the one of its name, without touching the others. It is gone when
    /// another configuration is applied that does not have it.
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

    /// Stops a server and takes it out. Waits until it is gone.
    ///
    /// # Errors
    /// As [`Host::reload`]; [`ErrorCode::Configuration`] for an unknown server.
    pub async fn unregister(&self, server: &ServerName) -> Result<(), Error> {
        self.inner.deck.routes().server(server)?;
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

/// The prompt with which a server describes its tools to models.
const GUIDANCE: &str = "tool-descriptions";

/// The text of a prompt that is one message of the user.
fn one_text(result: &Value) -> Option<String> {
    let [message] = result.get("messages")?.as_array()?.as_slice() else { return None };
    let content = message.get("content")?;
    (message["role"] == "user" && content["type"] == "text")
        .then(|| content["text"].as_str().map(str::to_owned))?
}
