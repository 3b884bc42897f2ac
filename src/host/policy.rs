//! Who may do what: one pure decision for lists, calls, reads, prompts, completions, subscriptions
//! and connections (invariant 11), and the check point that every operation of a caller who is not
//! the person goes through. Knows no file: rules, grants and pins come from the deck.

mod decide;
mod grants;
mod limits;
mod pins;
mod point;
mod principal;
mod rules;

pub(crate) use decide::absent;
pub use decide::{Decision, Effect, Policy, Reason};
pub use grants::{Covers, Grant, GrantId, GrantKind, Grants, NewGrant};
pub use limits::{Budget, Claim, Lease, LimitRefusal, Limiter, Limits, Permit, SharedLimits};
pub use pins::{Definition, Digest, Held, HeldTool, PinnedServer, PinnedTool, Pins};
pub use point::{Admission, Blocked, CheckPoint, InForce};
pub use principal::{
    Action, DEFAULT_PROFILE, OutsideCode, OutsideError, Principal, Scope, ServerDigests, Target,
    TargetKind,
};
pub use rules::{
    HookConfig, LimitsConfig, Patterns, PolicyConfig, ProfileConfig, RuleConfig, RuleMatch, Rules,
    TrifectaConfig, Unmatched,
};
