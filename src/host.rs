//! The engine: starts, supervises, queries and stops servers. Knows no terminal, no stdout and no
//! HTTP server; every front end uses it through [`Host`].

pub mod approvals;
pub mod backoff;
pub mod breaker;
pub mod cache;
pub mod call;
pub mod dev;
pub mod fact;
pub mod guard;
pub mod handle;
pub mod metrics;
pub mod naming;
pub mod operation;
pub mod policy;
pub mod projector;
pub mod router;
pub mod server;
pub mod shared;
pub mod supervisor;
pub mod validate;
pub mod view;

pub use approvals::{Decider, Drafter, PendingRequest, RequestHandler, RuleKind, SessionRule};
pub use call::{CallOptions, CallOutcome, CallView, Caller, Origin, Provenance, Validation};
pub use dev::{BuildEnd, BuildView, DevView};
pub use fact::{Fact, Record};
pub use handle::{Host, HostBuilder, Reloading, ShutdownReport, Startup};
pub use supervisor::reload_plan;
pub use validate::{SchemaProblem, Validator, Validators, Verdict};
pub use view::{HostView, ServerState, ServerView, StartStep, StepStatus, StepView};
