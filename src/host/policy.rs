//! Access control: one pure decision for lists, calls, reads, prompts, completions, subscriptions
//! and connections (invariant 11), and the check point for every operation of callers other than
//! the user. Accesses no files: rules, grants and pins come from the deck.

mod decide;
mod grants;
mod hook;
mod limits;
mod overlay;
mod pins;
mod point;
mod principal;
mod rules;

pub(crate) use decide::absent;
pub use decide::{Decision, Policy, PolicyEffect, Reason};
pub use grants::{Covers, Grant, GrantId, GrantKind, Grants, NewGrant, unmatched_tools};
pub use limits::{
    Budget, CountedRun, Lease, LimitClaim, LimitRefusal, Limiter, Limits, Permit, RunId,
    SharedLimits,
};
pub use overlay::{OverlayConfig, ParameterOverlay};
pub use pins::{Definition, Digest, HeldReason, HeldTool, PinnedServer, PinnedTool, Pins};
pub use point::{Admission, Blocked, CheckPoint, Granter, InForce};
pub use principal::{
    AccessScope, DEFAULT_PROFILE, OutsideCode, OutsideError, PolicyAction, PolicyTarget, Principal,
    ServerDigests, TargetKind,
};
pub use rules::{
    GlobList, HookConfig, LimitsConfig, PolicyConfig, ProfileConfig, RuleConfig, RuleMatch, Rules,
    ToolExposure, TrifectaConfig, Unmatched,
};
