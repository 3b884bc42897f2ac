//! An MCP client session: JSON-RPC over pipes and HTTP, both eras, signing in. Knows nothing of hosts;
//! the messages themselves are those of `protocol`. Without the feature `http` only servers with pipes
//! can be reached.

#![cfg_attr(not(test), warn(clippy::expect_used))]

mod auth;
mod session;
mod transport;

pub use auth::{
    Accounts, AuthEvent, AuthFailure, AuthStep, Authorization, Authorizer, ClientAuth,
    ClientOrigin, SignIn, SignInPrompt, SignedOut, StepKind, StoredClient, StoredToken, TokenStore,
    account_address, scopes_in_words,
};
pub use session::{
    Attempt, ConnectError, Connected, Endpoint, HttpEndpoint, Request, SessionHandle, attempts,
    connect,
};
#[cfg(feature = "http")]
pub use transport::events::{ResponseLines, SseEvent, SseEvents};
pub use transport::pipe::{LineSplitter, Oversized, PipeLine};
#[cfg(feature = "http")]
pub use transport::remote::{client_builder, is_passing, provide_tls, unreachable_reason};
