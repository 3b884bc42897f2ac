//! The policy decision (invariant 11): a pure function of the current rules, grants and pins.

use std::borrow::Cow;
use std::sync::Arc;

use globset::{Glob, GlobSet};
use serde::{Deserialize, Serialize};

use super::grants::{GrantWord, Grants};
use super::pins::{HeldReason, Pins};
use super::principal::{AccessScope, PolicyAction, PolicyTarget, Principal, TargetKind};
use super::rules::{self, FirstRules, Rules, TrifectaConfig};
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
    /// Set when only the user is permitted anything, with the reason: an untrusted policy file.
    pub closed: Option<Arc<str>>,
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
pub enum Reason {
    /// The user may do everything.
    Person,
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
pub struct Decision {
    /// The effect.
    pub effect: PolicyEffect,
    /// The reason.
    pub reason: Reason,
    /// Description of the rule, grant or file that decided.
    pub rule: Option<Arc<str>>,
}

impl Policy {
    /// Decides. `target` must be the resolved target, not the name as requested; `now` is compared
    /// with the expiry of grants.
    pub fn decide(
        &self,
        principal: &Principal,
        action: PolicyAction,
        target: &PolicyTarget<'_>,
        now: Timestamp,
    ) -> Decision {
        let person = principal.is_person();
        if person && !self.rules.applies_to_person {
            return Decision::new(PolicyEffect::Allow, Reason::Person, None);
        }
        if let Some(why) = self.closed.as_ref().filter(|_| !person) {
            return Decision::new(PolicyEffect::Deny, Reason::Closed, Some(Arc::clone(why)));
        }
        let full = full_name(target);
        let own = self.rules.profiles.get(&*principal.profile);
        let own = own.map(|layer| layer.verdict(target, &full)).unwrap_or_default();
        // Denials that depend on the caller come first: they reveal nothing about the target.
        let mut decision = if person {
            Decision::new(PolicyEffect::Allow, Reason::Person, None)
        } else {
            self.granted(principal, action, (target, &full), &own, now)
        };
        if decision.effect == PolicyEffect::Deny {
            return decision;
        }
        let mut ask = None;
        for verdict in [self.rules.all.verdict(target, &full), own] {
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
            Reason::Scope(scope) => (format!("the scope `{scope}` was not granted"), Denial::Scope),
            Reason::OtherTools | Reason::Changed => {
                (format!("`{asked}` is not among the tools that were granted"), Denial::Tool)
            }
            _ => return absent(asked, kind),
        };
        let mut error = Error::new(ErrorCode::PermissionDenied, message);
        error.denial = Some(denial);
        error
    }

    /// The reason as a sentence for the user, naming the rule.
    pub fn words(&self) -> String {
        let rule = self.rule.as_deref().unwrap_or_default();
        match self.reason {
            Reason::Person => "the user may do everything".to_owned(),
            Reason::Granted => format!("{rule} permits it"),
            Reason::Rule => format!("{rule} decides"),
            Reason::NotListed => "no `allow` rule matches it (`ask` does not suffice)".to_owned(),
            Reason::Held(held) => format!("it is held: {}", held.words()),
            Reason::DeniedByGrant => format!("{rule} denies it"),
            Reason::Changed => format!("{rule} was given for what it was before"),
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

/// The error for an item that does not exist.
pub(crate) fn absent(asked: &str, kind: TargetKind) -> Error {
    let message = match kind {
        TargetKind::Server => format!("no server `{asked}`"),
        TargetKind::Resource => format!("no server lists `{asked}`"),
        TargetKind::Tool | TargetKind::Prompt => format!("no server offers `{asked}`"),
    };
    Error::new(ErrorCode::ToolNotFound, message)
}

// The trifecta: private data, untrusted content and a way to send data outside, within one run.
// Classifies tools and resources. Pure.

/// The kinds of data a run has read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taint {
    private: bool,
    untrusted: bool,
}

impl Taint {
    pub(super) const fn and(self, other: Self) -> Self {
        Self {
            private: self.private || other.private,
            untrusted: self.untrusted || other.untrusted,
        }
    }

    pub(super) const fn is_both(self) -> bool {
        self.private && self.untrusted
    }
}

/// The compiled trifecta rule. With an empty list, the hints of the tools decide.
#[derive(Debug, Default)]
pub(crate) struct Trifecta {
    enabled: bool,
    private: GlobSet,
    untrusted: GlobSet,
    outbound: GlobSet,
}

impl Trifecta {
    pub(super) fn compile(config: &TrifectaConfig) -> Self {
        let set = |globs: &[String]| {
            GlobSet::new(globs.iter().filter_map(|glob| Glob::new(glob).ok())).unwrap_or_default()
        };
        Self {
            enabled: config.enabled,
            private: set(&config.private),
            untrusted: set(&config.untrusted),
            outbound: set(&config.outbound),
        }
    }

    /// The kinds of data that a run gets by reading the target.
    pub(super) fn taint(&self, target: &PolicyTarget<'_>) -> Taint {
        let name = full_name(target);
        let (closed, open) = match target.kind {
            TargetKind::Tool => {
                let open = target.hints.open_world.unwrap_or(true);
                (!open && target.hints.read_only == Some(true), open)
            }
            TargetKind::Resource => (name.starts_with("file:"), !name.starts_with("file:")),
            TargetKind::Prompt | TargetKind::Server => (false, false),
        };
        let says = |set: &GlobSet, otherwise| {
            if set.is_empty() { otherwise } else { set.is_match(&*name) }
        };
        Taint { private: says(&self.private, closed), untrusted: says(&self.untrusted, open) }
    }

    /// Whether the target sends data outside.
    pub(super) fn sends(&self, target: &PolicyTarget<'_>) -> bool {
        let says = target.hints.open_world.unwrap_or(true) && target.hints.read_only != Some(true);
        let listed = || self.outbound.is_match(&*full_name(target));
        self.enabled
            && target.kind == TargetKind::Tool
            && if self.outbound.is_empty() { says } else { listed() }
    }
}

/// The name that rules match: `server.name`, the normalized URI, or the server.
fn full_name<'a>(target: &PolicyTarget<'a>) -> Cow<'a, str> {
    match target.kind {
        TargetKind::Tool | TargetKind::Prompt => [target.server, ".", target.name].concat().into(),
        TargetKind::Resource => rules::normalised(target.name).into(),
        TargetKind::Server => target.server.into(),
    }
}
