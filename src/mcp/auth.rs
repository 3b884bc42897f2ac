//! OAuth 2.1 as MCP requires it (specification 2026-07-28, authorization): discovery, client,
//! sign-in, refresh, step-up, sign-out. rmcp does discovery, PKCE and issuer checks; the store, its
//! locks, the loopback redirect and every POST that carries a refresh token are here.
//!
//! Never prompts by itself: a [`SignInPrompt`] shows the address. Stores nothing by itself: a
//! [`TokenStore`] keeps the tokens.

mod address;
mod authorizer;
mod grant;
mod sign_in;
mod token;

pub use authorizer::{Accounts, Authorizer, NotSent};
pub use sign_in::{
    AuthEvent, AuthFailure, AuthStep, Authorization, SignIn, SignInPrompt, StepKind,
    scopes_in_words,
};
pub use token::{ClientAuth, ClientOrigin, StoredClient, StoredToken, TokenStore, token_covers};
