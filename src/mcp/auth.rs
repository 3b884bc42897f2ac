//! OAuth 2.1 as MCP requires it (specification 2026-07-28, authorization): discovery, client,
//! sign-in, refresh, step-up, sign-out. rmcp finds and checks the metadata; the client, the store, its
//! locks, the loopback redirect and everything that carries a code or a token are here.
//!
//! Never prompts by itself: a [`SignInPrompt`] shows the address. Stores nothing by itself: a
//! [`TokenStore`] keeps the tokens.

mod address;
mod authorizer;
mod challenge;
mod client;
mod discovery;
mod fresh;
mod grant;
mod proof;
mod redirect;
mod sign_in;
mod step;
mod token;

pub use authorizer::{Accounts, Authorizer, NotSent, SignedOut};
pub use discovery::Authorization;
pub use sign_in::{SignIn, SignInPrompt, scopes_in_words};
pub use step::{AuthEvent, AuthFailure, AuthStep, StepKind};
pub use token::{ClientAuth, ClientOrigin, StoredClient, StoredToken, TokenStore, account_address};
