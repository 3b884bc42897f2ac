//! The policy decision (invariant 11): a pure function of the current rules, grants and pins.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::grants::{GrantWord, Grants};
use super::pins::{HeldReason, Pins};
use super::principal::{
    AccessScope, DEFAULT_PROFILE, PolicyAction, PolicyTarget, Principal, TargetKind,
};
use super::rules::{self, FirstRules, Rules};
use crate::call::Origin;
use base::Timestamp;
use config::error::{Denial, Error, ErrorCode};

/// The inputs of a decision.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// Rules of the configuration.
    pub rules: Arc<Rules>,
    /// Grants.
    pub grants: Arc<Grants>,
    /// Reviewed definitions.
    pub pins: Arc<Pins>,
    /// Set when no caller that the policy binds is permitted anything, with the reason: a policy
    /// file that cannot be used.
    pub closed: Option<Arc<str>>,
    /// Whether no host runs: what a grant will be bound to when its server is seen is permitted.
    pub is_at_rest: bool,
}

/// The effect of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PolicyEffect {
    /// Denied; to callers other than the user usually reported as missing.
    Deny,
    /// The user is asked.
    Ask,
    /// Permitted.
    Allow,
}

/// The reason of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum Reason {
    /// The user may do everything.
    Person,
    /// The model of a chat may list, read, and call what only reads.
    Model,
    /// A model calls a tool that is not annotated as read-only.
    NotReadOnly,
    /// The named profile is not defined in the policy.
    NoProfile,
    /// A grant permits it.
    Granted,
    /// A rule of the policy applies.
    Rule,
    /// There are `allow` rules, and none matches.
    NotListed,
    /// Its current definition has not been reviewed.
    Held(HeldReason),
    /// A grant denies it.
    DeniedByGrant,
    /// The tool or its server changed since the grant was given.
    Changed,
    /// A grant holds from when its server is seen for the first time.
    Unseen,
    /// The grants are for other tools.
    OtherTools,
    /// A scope is missing.
    Scope(AccessScope),
    /// Nothing was granted.
    NotGranted,
    /// A policy file is not trusted.
    Closed,
    /// The run has read private data and untrusted content, and the target sends data outside.
    Trifecta,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Decision {
    /// The effect.
    pub effect: PolicyEffect,
    /// The reason.
    pub reason: Reason,
    /// Description of the rule, grant or file that decided.
    pub rule: Option<Arc<str>>,
}

impl Policy {
    /// Whether the policy binds a caller: every caller but the user, and the user too under a named
    /// profile or with `appliesToPerson`.
    pub fn binds(&self, principal: &Principal) -> bool {
        !principal.is_person() || principal.is_named || self.rules.applies_to_person
    }

    /// Whether the policy service is asked before the calls of a caller: of every caller that the
    /// policy binds, and of the operator's own token, whose client is a program.
    pub fn has_to_comply(&self, principal: &Principal) -> bool {
        self.binds(principal) || principal.origin.is_owner_token()
    }

    /// Decides. `target` must be the resolved target, not the name as requested; `now` is compared
    /// with the expiry of grants.
    pub fn decide(
        &self,
        principal: &Principal,
        action: PolicyAction,
        target: &PolicyTarget<'_>,
        now: Timestamp,
    ) -> Decision {
        if !self.binds(principal) {
            return Decision::new(PolicyEffect::Allow, Reason::Person, None);
        }
        if let Some(why) = &self.closed {
            return Decision::new(PolicyEffect::Deny, Reason::Closed, Some(Arc::clone(why)));
        }
        // A model may do no more than the client that it works for.
        let client = principal.client().map(|client| self.decide(&client, action, target, now));
        if let Some(denied) = client.as_ref().filter(|decision| !decision.is_visible()) {
            return denied.clone();
        }
        let full = full_name(target);
        let own = self.rules.verdict_of(&principal.profile, target, &full);
        // Denials that depend on the caller come first: they reveal nothing about the target.
        let mut decision = match &principal.origin {
            Origin::Chat(_) | Origin::App(_) => {
                self.of_model(principal, action, (target, &full), &own, now)
            }
            _ if principal.is_person() => self.of_person(principal, action, (target, &full), now),
            _ => self.granted(principal, action, (target, &full), &own, now),
        };
        if decision.effect == PolicyEffect::Deny {
            return decision;
        }
        let asked = client.filter(|decision| decision.effect == PolicyEffect::Ask);
        let mut ask = asked.and_then(|decision| decision.rule);
        for verdict in [self.rules.verdict(target, &full), own] {
            if let Some(rule) = verdict.deny {
                return Decision::new(PolicyEffect::Deny, Reason::Rule, Some(rule));
            }
            if verdict.is_listing && verdict.allow.is_none() {
                return Decision::new(PolicyEffect::Deny, Reason::NotListed, None);
            }
            ask = ask.or(verdict.ask);
        }
        if target.kind != TargetKind::Server
            && let Some(held) = self.pins.held(target)
            // A server that is seen for the first time is accepted as it is.
            && !(self.is_at_rest && held == HeldReason::Unseen)
        {
            return Decision::new(PolicyEffect::Deny, Reason::Held(held), None);
        }
        if action != PolicyAction::List
            && let Some(rule) = ask
        {
            decision = Decision::new(PolicyEffect::Ask, Reason::Rule, Some(rule));
        }
        decision
    }

    /// Decides for the user, whom the policy binds: a `DENY` counts, and nothing has to be granted.
    fn of_person(
        &self,
        principal: &Principal,
        action: PolicyAction,
        (target, full): (&PolicyTarget<'_>, &str),
        now: Timestamp,
    ) -> Decision {
        let scopes = action.scopes(target.kind);
        match self.grants.standing(principal, scopes, (target, full), true, now) {
            GrantWord::Denied(rule) => {
                Decision::new(PolicyEffect::Deny, Reason::DeniedByGrant, Some(rule))
            }
            _ if self.lacks_profile(principal) => no_profile(principal),
            _ => Decision::new(PolicyEffect::Allow, Reason::Person, None),
        }
    }

    /// Decides for the model of a chat, and for the page of a tool: what is granted or listed by its profile is permitted; else
    /// it may list and read, and the user is asked about a tool that is not annotated as read-only.
    fn of_model(
        &self,
        principal: &Principal,
        action: PolicyAction,
        (target, full): (&PolicyTarget<'_>, &str),
        own: &FirstRules,
        now: Timestamp,
    ) -> Decision {
        let decision = self.granted(principal, action, (target, full), own, now);
        let is_denied = matches!(decision.reason, Reason::DeniedByGrant);
        if decision.effect != PolicyEffect::Deny || is_denied {
            return decision;
        }
        match action {
            _ if self.lacks_profile(principal) => no_profile(principal),
            PolicyAction::Connect | PolicyAction::ReadTab => decision,
            PolicyAction::Call if target.hints.read_only != Some(true) => {
                Decision::new(PolicyEffect::Ask, Reason::NotReadOnly, None)
            }
            _ => Decision::new(PolicyEffect::Allow, Reason::Model, None),
        }
    }

    /// Whether a profile was named that the policy does not have.
    fn lacks_profile(&self, principal: &Principal) -> bool {
        principal.is_named
            && *principal.profile != *DEFAULT_PROFILE
            && !self.rules.profiles.contains_key(&*principal.profile)
    }

    fn granted(
        &self,
        principal: &Principal,
        action: PolicyAction,
        (target, full): (&PolicyTarget<'_>, &str),
        own: &FirstRules,
        now: Timestamp,
    ) -> Decision {
        let scopes = action.scopes(target.kind);
        let of = |covered| self.grants.standing(principal, scopes, (target, full), covered, now);
        let standing = of(true);
        let deny = |reason, rule| Decision::new(PolicyEffect::Deny, reason, rule);
        match &standing {
            GrantWord::Denied(rule) => return deny(Reason::DeniedByGrant, Some(Arc::clone(rule))),
            GrantWord::Granted(rule) => {
                return Decision::new(PolicyEffect::Allow, Reason::Granted, Some(Arc::clone(rule)));
            }
            _ => {}
        }
        // A browser tab belongs to no server, so rules over names cannot permit reading it.
        if action != PolicyAction::ReadTab
            && let Some(rule) = &own.allow
        {
            return Decision::new(PolicyEffect::Allow, Reason::Rule, Some(Arc::clone(rule)));
        }
        match standing.or(of(false)) {
            GrantWord::Stale(rule) => deny(Reason::Changed, Some(rule)),
            GrantWord::Unseen(rule) if self.is_at_rest => {
                Decision::new(PolicyEffect::Allow, Reason::Unseen, Some(rule))
            }
            GrantWord::Unseen(rule) => deny(Reason::Unseen, Some(rule)),
            GrantWord::OtherTools => deny(Reason::OtherTools, None),
            _ if own.is_listing => deny(Reason::NotListed, None),
            GrantWord::OtherScopes => match scopes.first() {
                Some(scope) => deny(Reason::Scope(*scope), None),
                None => deny(Reason::NotGranted, None),
            },
            _ => deny(Reason::NotGranted, None),
        }
    }
}

impl Decision {
    /// Creates a decision.
    pub const fn new(effect: PolicyEffect, reason: Reason, rule: Option<Arc<str>>) -> Self {
        Self { effect, reason, rule }
    }

    /// Whether it is not denied.
    pub fn is_visible(&self) -> bool {
        self.effect != PolicyEffect::Deny
    }

    /// The error for a denied caller. `asked` is the name as the caller spelled it. Items hidden by
    /// a rule, a review or a `DENY` get the same error as missing ones.
    pub fn refusal(&self, asked: &str, kind: TargetKind) -> Error {
        let (message, denial) = match self.reason {
            Reason::NotGranted | Reason::Closed => {
                ("nothing was granted".to_owned(), Denial::NotGranted)
            }
            Reason::NoProfile => (self.words(), Denial::NoProfile),
            Reason::Scope(scope) => (format!("the scope `{scope}` was not granted"), Denial::Scope),
            Reason::OtherTools | Reason::Changed | Reason::Unseen => {
                (format!("`{asked}` is not among the tools that were granted"), Denial::Tool)
            }
            _ => return absent(asked, kind),
        };
        let mut error = Error::new(ErrorCode::PermissionDenied, message);
        error.denial = Some(denial);
        error
    }

    /// The error for the user, who is told what denies it.
    pub(crate) fn explained(&self, asked: &str) -> Error {
        let message = format!("the policy does not permit `{asked}`: {}", self.words());
        let help = "`mcpdeck policy why` shows which rule decides; the policy is in `mcp.json` or in \
                    `mcpdeck.policy.json` beside it";
        Error::new(ErrorCode::PermissionDenied, message).help(help)
    }

    /// The reason as a sentence for the user, naming the rule.
    pub fn words(&self) -> String {
        let rule = self.rule.as_deref().unwrap_or_default();
        match self.reason {
            Reason::Person => "the user may do everything".to_owned(),
            Reason::Model => {
                "a model or an app may list, read, and call what only reads".to_owned()
            }
            Reason::NotReadOnly => {
                "a tool that is not annotated as read-only, called by no person".to_owned()
            }
            Reason::NoProfile => format!("the policy has no profile `{rule}`"),
            Reason::Granted => format!("{rule} permits it"),
            Reason::Rule => format!("{rule} decides"),
            Reason::NotListed => "no `allow` rule matches it (`ask` does not suffice)".to_owned(),
            Reason::Held(held) => format!("it is held: {}", held.words()),
            Reason::DeniedByGrant => format!("{rule} denies it"),
            Reason::Changed => format!("{rule} was given for what it was before"),
            Reason::Unseen => format!("{rule} permits it from when its server is seen"),
            Reason::OtherTools => "what was granted is for other tools".to_owned(),
            Reason::Scope(scope) => format!("the scope `{scope}` was not granted"),
            Reason::NotGranted => "nothing was granted to this caller".to_owned(),
            Reason::Closed => format!("nothing is permitted: {rule}"),
            Reason::Trifecta => {
                "private data and untrusted content were read in this run, and it sends outside"
                    .to_owned()
            }
        }
    }
}

fn no_profile(principal: &Principal) -> Decision {
    let name = Arc::clone(&principal.profile);
    Decision::new(PolicyEffect::Deny, Reason::NoProfile, Some(name))
}

/// The error for an item that does not exist.
pub(crate) fn absent(asked: &str, kind: TargetKind) -> Error {
    let message = match kind {
        TargetKind::Server => format!("no server `{asked}`"),
        TargetKind::Resource => format!("no server lists `{asked}`"),
        TargetKind::Tool | TargetKind::Prompt => format!("no server offers `{asked}`"),
    };
    Error::new(ErrorCode::ToolNotFound, message)
}

/// The name that rules match: `server.name`, the normalized URI, or the server.
pub(super) fn full_name<'a>(target: &PolicyTarget<'a>) -> Cow<'a, str> {
    match target.kind {
        TargetKind::Tool | TargetKind::Prompt => [target.server, ".", target.name].concat().into(),
        TargetKind::Resource => rules::normalised(target.name).into(),
        TargetKind::Server => target.server.into(),
    }
}
