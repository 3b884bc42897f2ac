//! Accounts of a build without the feature `http`: nothing that could require one can be reached, so
//! that an [`Authorizer`] is never made. What uses accounts need not know.

use std::convert::Infallible;
use std::sync::Arc;

use super::account::{Authorization, SignInPrompt, SignedOut};
use super::step::{AuthEvent, AuthFailure};
use super::token::{StoredToken, TokenStore};
use base::{Redactor, Secret, ServerName};
use config::HttpConfig;

/// Accounts that nobody asks for.
#[derive(Clone, Debug)]
pub struct Accounts {}

impl Accounts {
    /// Accounts without a use for their store.
    pub fn new(_store: Arc<dyn TokenStore>) -> Self {
        Self {}
    }

    /// Names the command that signs in, which no message mentions.
    #[must_use]
    pub fn command(self, _command: impl Fn(&ServerName) -> String + Send + Sync + 'static) -> Self {
        self
    }

    /// Names the prompt, which nothing shows.
    #[must_use]
    pub fn prompt(self, _prompt: Arc<dyn SignInPrompt>) -> Self {
        self
    }

    /// Names a listener, which hears of nothing.
    #[must_use]
    pub fn watch(
        self,
        _watch: impl Fn(&ServerName, AuthEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self
    }

    /// Names the redactor of tokens, of which there are none.
    #[must_use]
    pub fn masked_by(self, _redactor: &Redactor) -> Self {
        self
    }

    /// `None`: a server that is reached over HTTP cannot be connected.
    ///
    /// # Errors
    /// None.
    pub fn authorizer(
        &self,
        _server: &ServerName,
        _config: &HttpConfig,
    ) -> Result<Option<Arc<Authorizer>>, AuthFailure> {
        Ok(None)
    }

    /// Never called.
    ///
    /// # Errors
    /// Always.
    pub fn person(
        &self,
        _server: &ServerName,
        _config: &HttpConfig,
        _subject: &Secret,
    ) -> Result<Arc<Authorizer>, AuthFailure> {
        Err(AuthFailure::Refused("this build has no network".to_owned()))
    }
}

/// Signs in to one server: there is none in this build.
#[derive(Debug)]
pub struct Authorizer(Infallible);

impl Authorizer {
    /// Signs in now.
    ///
    /// # Errors
    /// Never called.
    pub async fn sign_in(
        &self,
        _prompt: &dyn SignInPrompt,
        _scopes: Vec<String>,
    ) -> Result<StoredToken, AuthFailure> {
        match self.0 {}
    }

    /// Replaces the current token.
    ///
    /// # Errors
    /// Never called.
    pub async fn refresh_now(self: &Arc<Self>) -> Result<StoredToken, AuthFailure> {
        match self.0 {}
    }

    /// Where the server sends users to sign in.
    ///
    /// # Errors
    /// Never called.
    pub async fn authorization(&self) -> Result<Authorization, AuthFailure> {
        match self.0 {}
    }

    /// Forgets the client of a sign-in that was not finished.
    ///
    /// # Errors
    /// Never called.
    pub fn give_up(&self) -> Result<(), AuthFailure> {
        match self.0 {}
    }

    /// Forgets the token and revokes it.
    ///
    /// # Errors
    /// Never called.
    pub async fn sign_out(&self) -> Result<SignedOut, AuthFailure> {
        match self.0 {}
    }

    /// The token in use.
    ///
    /// # Errors
    /// Never called.
    pub fn state(&self) -> Result<Option<StoredToken>, AuthFailure> {
        match self.0 {}
    }
}
