//! The engine: starts, supervises, queries and stops servers. Knows no terminal, no stdout and no
//! HTTP server; every front end uses it through [`Host`].

mod approvals;
mod backoff;
mod breaker;
mod cache;
mod call;
mod dev;
mod fact;
mod guard;
mod handle;
mod metrics;
mod naming;
mod operation;
mod policy;
mod projector;
mod router;
mod server;
mod shared;
mod supervisor;
mod validate;
mod view;

pub use approvals::{
    Decider, Drafted, Drafter, PendingRequest, RequestHandler, RuleKind, SessionRule, Settlement,
};
pub use breaker::BreakerView;
pub use cache::{CacheEntryView, CacheKey, CacheView};
pub use call::{
    AnswerSource, CallOptions, CallOutcome, CallView, Caller, Origin, Provenance, Validation,
};
pub use dev::{BuildEnd, BuildView, DevView};
pub use fact::{Fact, Record};
pub use handle::{Host, HostBuilder, Reloading, ShutdownReport, Startup};
pub use metrics::{Ending, LatencyView, Metrics, MetricsView, ServerMetrics};
pub use naming::{canonical_name, exposed_name, hashed_name, split_name};
pub use policy::{
    Action, Blocked, Budget, Claim, Covers, DEFAULT_PROFILE, Decision, Definition, Digest, Effect,
    Grant, GrantId, GrantKind, Grants, Held, HeldTool, HookConfig, Lease, LimitRefusal, Limiter,
    Limits, LimitsConfig, NewGrant, OutsideCode, OutsideError, Patterns, PinnedServer, PinnedTool,
    Pins, Policy, PolicyConfig, Principal, ProfileConfig, Reason, RuleConfig, RuleMatch, Rules,
    Scope, ServerDigests, SharedLimits, Target, TargetKind, TrifectaConfig, Unmatched,
};
#[cfg(test)]
pub(crate) use router::fit_template;

pub use server::connect::{
    Connector, ExitReport, OpenError, OpenRequest, Opened, Process, StopPlan,
};
pub use server::memory::{Definitions, Memory};
pub use supervisor::reload_plan;
pub use validate::{
    Formats, SchemaProblem, SchemaProblemKind, Validator, Validators, Verdict, schema_problems,
};
pub use view::{AccountView, HostView, ServerState, ServerView, StartStep, StepStatus, StepView};
