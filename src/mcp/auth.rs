//! OAuth 2.1 as MCP wants it (specification 2026-07-28, authorization): discovery, client, sign-in,
//! refresh, step-up, sign-out. Discovery, PKCE and the checks of issuers are rmcp's; the store, its
//! locks, the loopback redirect and every POST that carries a refresh token are here.
//!
//! Asks no person by itself: who shows the address is a [`SignInPrompt`]. Keeps nothing by itself:
//! what keeps tokens is a [`TokenStore`].

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
