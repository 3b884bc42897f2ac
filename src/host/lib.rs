//! The engine: starts, supervises, queries and stops servers. Does not use the terminal, stdout or
//! an HTTP server; every front end uses it through [`Host`].

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod approvals;
mod backoff;
mod breaker;
mod cache;
mod call;
mod collisions;
mod dev;
mod fact;
mod failure;
mod guard;
mod handle;
mod metrics;
mod naming;
mod operation;
mod pattern;
mod policy;
mod projector;
mod router;
mod server;
mod shared;
mod supervisor;
mod validators;
mod view;

pub use approvals::{
    ApprovalRequest, Asker, ConsentReach, Decider, Drafted, Drafter, RequestHandler, RuleKind,
    SessionRule, Settlement,
};
pub use breaker::BreakerView;
pub use cache::{CacheEntryView, CacheKey, CacheView};
pub use call::{
    AnswerSource, CallOptions, CallOutcome, CallView, Caller, Origin, Provenance, TraceContext,
    Validation, parse_traceparent,
};
pub use dev::{BuildEnd, BuildView, DevView};
pub use fact::{Fact, Record};
pub use failure::{AddressAdvice, StartCause, StartFailure};
pub use handle::{Host, HostBuilder, Reloading, ShutdownReport, Startup};
pub use metrics::{Ending, LatencyView, Metrics, MetricsView, ServerMetrics};
pub use naming::{
    ExposedNames, OWN_APP_URIS, OWN_URIS, canonical_name, exposed_name, own_uri, resolve_name,
    split_first, split_name,
};
pub use pattern::{NamePatterns, OfferedNames, Reading};
pub use policy::{
    AccessScope, AuditConfig, AuditEvent, AuditKind, AuditSink, Blocked, Budget, CountedRun,
    Covers, DEFAULT_PROFILE, Decision, Definition, Digest, GlobList, Grant, GrantId, GrantKind,
    Grants, HeldReason, HeldTool, HookConfig, InForce, IntrospectionConfig, Lease, LimitClaim,
    LimitRefusal, Limiter, Limits, LimitsConfig, MinuteClaim, NewGrant, OutsideCode, OutsideError,
    OverlayConfig, ParameterOverlay, PinnedServer, PinnedTool, Pins, Policy, PolicyAction,
    PolicyConfig, PolicyEffect, PolicyTarget, Principal, ProfileConfig, ProfileMatch, QuotaConfig,
    QuotaCounter, QuotaLimits, QuotaPer, QuotaRefusal, QuotaUse, QuotaView, Quotas, Reason,
    RuleConfig, RuleMatch, Rules, RunId, ServerDigests, ServiceChanges, SharedLimits, SignInConfig,
    SignatureAlgorithm, TargetKind, ToolExposure, TrifectaConfig, Unmatched, is_safe_address,
    parse_holder, parse_web_origin, unmatched_tools,
};
pub use router::fit_template;

pub use server::connect::{
    Connector, ExitReport, OpenError, OpenRequest, Opened, ProcessHandle, StopPlan,
};
pub use server::memory::{Definitions, Memory};
pub use server::persons::CallerIdentity;
pub use server::remedy::{Complaint, Mend, MendStep, line_help, mends, missing_variable};
pub use supervisor::reload_plan;
pub use validators::{Validators, schema_limits};
pub use view::{AccountView, HostView, ServerState, ServerView, StartStep, StepStatus, StepView};
