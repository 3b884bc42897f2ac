//! An MCP client session: JSON-RPC over pipes and HTTP, both eras, the tap. Knows nothing of hosts.
//! Without the feature `http` only servers with pipes can be reached.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod auth;
mod capabilities;
mod era;
mod id;
mod notice;
mod payload;
mod pending;
mod session;
mod traffic;
mod transport;
mod wire;

pub use auth::{
    Accounts, AuthEvent, AuthFailure, AuthStep, Authorization, Authorizer, ClientAuth,
    ClientOrigin, SignIn, SignInPrompt, SignedOut, StepKind, StoredClient, StoredToken, TokenStore,
    account_address, scopes_in_words,
};
pub use capabilities::diff::{every_difference, is_set_keyword};
pub use capabilities::schema_kind;
pub use capabilities::{
    APP_MEDIA_TYPE, APP_URIS, APPS_EXTENSION, Capabilities, FieldChange, ListChanges, ListKind,
    Prompt, RejectedEntry, Resource, Risk, Tool, ToolHints, app_of, is_for_models,
};
pub use era::{CLIENT_NAME, Era, HOPS_KEY, SessionView, vendor_meta};
pub use id::{ApprovalId, CallId, RequestId};
pub use notice::{Answer, InputPlace, Notice, NoticeKind, Progress, RequestKind};
pub use payload::Payload;
pub use pending::{ByteCount, Claim, PendingRequest};
pub use session::{
    Arrivals, Attempt, ConnectError, Connected, Endpoint, FetchedList, ReceivedSoFar, Request,
    Responder, ServerRequest, SessionContext, SessionEvent, SessionHandle, attempts, connect,
};
pub use traffic::{Direction, Finding, FindingKind, MessageKind, TrafficRecord};
#[cfg(feature = "http")]
pub use transport::events::{ResponseLines, SseEvent, SseEvents};
#[cfg(feature = "http")]
pub use transport::remote::{client_builder, provide_tls, unreachable_reason};
pub use wire::tap::Tap;
