//! The engine: starts, supervises, queries and stops servers. Knows no terminal, no stdout and no
//! HTTP server; every front end uses it through [`Host`].

pub mod approvals;
pub mod backoff;
pub mod breaker;
pub mod cache;
pub mod call;
pub mod capabilities;
pub mod clock;
pub mod deck;
pub mod dev;
pub mod error;
pub mod fact;
pub mod filter;
pub mod finding;
pub mod guard;
pub mod handle;
pub mod id;
pub mod journal;
pub mod logs;
pub mod metrics;
pub mod naming;
pub mod operation;
pub mod payload;
pub mod projector;
pub mod ring;
pub mod router;
pub mod server;
pub mod supervisor;
pub mod traffic;
pub mod validate;
pub mod view;

pub use approvals::{Answer, Decider, PendingRequest, RequestKind, RuleKind, SessionRule};
pub use call::{CallOptions, CallOutcome, Origin, Progress, Validation};
pub use capabilities::{Capabilities, Prompt, Resource, ResourceTemplate, Tool};
pub use clock::{Clock, Timestamp};
pub use dev::{BuildEnd, BuildView, DevView};
pub use error::{Error, ErrorBody, ErrorCode, RpcError, Violation};
pub use fact::{Fact, Record};
pub use finding::{Finding, FindingKind};
pub use handle::{Host, HostBuilder, Reloading, ShutdownReport, Startup};
pub use id::{ApprovalId, CallId};
pub use payload::Payload;
pub use server::process::Usage;
pub use supervisor::ReloadPlan;
pub use validate::{SchemaProblem, Validator, Validators, Verdict};
pub use view::{HostView, ServerState, ServerView};
