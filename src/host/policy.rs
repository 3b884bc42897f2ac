//! Access control: one pure decision for lists, calls, reads, prompts, completions, subscriptions
//! and connections (invariant 11), and the check point for every operation of callers other than
//! the user. Accesses no files: rules, grants and pins come from the deck.

mod audit;
mod changes;
mod decide;
mod globs;
mod grants;
mod holder;
mod hook;
mod limits;
mod overlay;
mod pins;
mod point;
mod principal;
mod quotas;
mod rules;
mod sign_in;
mod trifecta;

pub use audit::{AuditConfig, AuditEvent, AuditKind, AuditSink};
pub(crate) use audit::{hash_of_result, hash_of_value, is_refusal, not_audited};
pub use changes::ServiceChanges;
pub(crate) use decide::absent;
pub use decide::{Decision, Policy, PolicyEffect, Reason};
pub use globs::GlobList;
pub use grants::{Covers, Grant, GrantId, GrantKind, Grants, NewGrant, unmatched_tools};
pub use holder::{parse_holder, parse_web_origin};
pub(crate) use hook::{HookSubject, PolicyHook};
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
pub use quotas::{
    MinuteClaim, QuotaConfig, QuotaCounter, QuotaHold, QuotaLimits, QuotaPer, QuotaRefusal,
    QuotaUse, QuotaView, Quotas,
};
pub use rules::{
    HookConfig, LimitsConfig, PolicyConfig, ProfileConfig, RuleConfig, RuleMatch, Rules,
    ToolExposure, Unmatched,
};
pub use sign_in::{
    IntrospectionConfig, ProfileMatch, SignInConfig, SignatureAlgorithm, is_safe_address,
};
pub use trifecta::TrifectaConfig;
