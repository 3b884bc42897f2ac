//! OAuth 2.1 as MCP requires it (specification 2026-07-28, authorization): discovery, client,
//! sign-in, refresh, step-up, sign-out. rmcp finds and checks the metadata; the client, the store, its
//! locks, the loopback redirect and everything that carries a code or a token are here.
//!
//! Never prompts by itself: a [`SignInPrompt`] shows the address. Stores nothing by itself: a
//! [`TokenStore`] keeps the tokens. Without the feature `http` nobody can sign in: the types are
//! there, and an [`Authorizer`] is never made.

mod account;
#[cfg(feature = "http")]
mod address;
#[cfg(feature = "http")]
mod authorizer;
#[cfg(feature = "http")]
mod challenge;
#[cfg(feature = "http")]
mod client;
#[cfg(feature = "http")]
mod discovery;
#[cfg(feature = "http")]
mod fresh;
#[cfg(feature = "http")]
mod grant;
#[cfg(feature = "http")]
mod metadata;
#[cfg(not(feature = "http"))]
mod no_http;
#[cfg(feature = "http")]
mod proof;
#[cfg(feature = "http")]
mod redirect;
#[cfg(feature = "http")]
mod report;
#[cfg(feature = "http")]
mod sign_in;
mod step;
mod token;

pub use account::{Authorization, SignIn, SignInPrompt, SignedOut, scopes_in_words};
#[cfg(feature = "http")]
pub use authorizer::{Accounts, Authorizer, NotSent};
#[cfg(not(feature = "http"))]
pub use no_http::{Accounts, Authorizer};
pub use step::{AuthEvent, AuthFailure, AuthStep, StepKind};
pub use token::{ClientAuth, ClientOrigin, StoredClient, StoredToken, TokenStore, account_address};
