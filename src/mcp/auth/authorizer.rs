//! One server's token in use: attached to every request, refreshed before it expires, renewed when
//! it is refused. One renewal at a time, in this process and across processes.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response, StatusCode};

use super::account::{Authorization, SignInPrompt, SignedOut};
use super::challenge::{challenge_of, parameter, wants_nonce};
use super::client::is_client_refusal;
use super::discovery::{RequestedAccess, Site};
use super::fresh::now;
use super::grant::{self, NotGranted, OAuthClient, TokenClient};
use super::proof::ProofKey;
use super::report::{AuthListener, AuthReporter};
use super::sign_in::SIGN_IN_TIMEOUT;
use super::step::{AuthEvent, AuthFailure, AuthStep, StepKind};
use super::token::{
    ClientOrigin, HeldToken, StoredToken, TokenStore, account_address, is_sendable,
};
use crate::transport::remote;
use base::text::quoted;
use base::{Redactor, SafeText, Secret, ServerName};
use config::{HttpConfig, OAuthGrant};

/// Signs in to servers: a token store and an optional prompt. Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    store: Arc<dyn TokenStore>,
    prompt: Option<Arc<dyn SignInPrompt>>,
    watches: Vec<AuthListener>,
    redactor: Redactor,
    command: CommandFor,
}

/// The command that signs in to a server.
type CommandFor = Arc<dyn Fn(&ServerName) -> String + Send + Sync>;

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounts").field("prompt", &self.prompt.is_some()).finish_non_exhaustive()
    }
}

impl Accounts {
    /// Accounts stored in `store`, without a prompt: a server that requires the user to sign in
    /// fails with [`AuthFailure::SignInNeeded`].
    pub fn new(store: Arc<dyn TokenStore>) -> Self {
        let command = |server: &ServerName| format!("mcpdeck login {}", quoted(server.as_str()));
        let (prompt, watches, redactor) = (None, Vec::new(), Redactor::default());
        Self { store, prompt, watches, redactor, command: Arc::new(command) }
    }

    /// Names the command that signs in to a server, for messages; `mcpdeck login SERVER` by default,
    /// which needs a configuration that is found by itself.
    #[must_use]
    pub fn command(
        mut self,
        command: impl Fn(&ServerName) -> String + Send + Sync + 'static,
    ) -> Self {
        self.command = Arc::new(command);
        self
    }

    /// Uses `prompt` when the user has to sign in.
    #[must_use]
    pub fn prompt(mut self, prompt: Arc<dyn SignInPrompt>) -> Self {
        self.prompt = Some(prompt);
        self
    }

    /// Also reports every event to `watch`, which must not block.
    #[must_use]
    pub fn watch(
        mut self,
        watch: impl Fn(&ServerName, AuthEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.watches.push(Arc::new(watch));
        self
    }

    /// Makes `redactor` mask every token that is used.
    #[must_use]
    pub fn masked_by(mut self, redactor: &Redactor) -> Self {
        self.redactor = redactor.clone();
        self
    }

    /// The authorizer for one server; `None` when its entry disables signing in.
    ///
    /// # Errors
    /// When a certificate of the entry cannot be used.
    pub fn authorizer(
        &self,
        server: &ServerName,
        config: &HttpConfig,
    ) -> Result<Option<Arc<Authorizer>>, AuthFailure> {
        if !config.may_sign_in() {
            return Ok(None);
        }
        self.authorizer_of(server, config, None).map(Some)
    }

    /// The authorizer of a person who uses a server whose entry says that tokens of callers are
    /// exchanged. What the entry authorises itself with has to be left out of `config`.
    ///
    /// # Errors
    /// When a certificate of the entry cannot be used.
    pub fn person(
        &self,
        server: &ServerName,
        config: &HttpConfig,
        subject: &Secret,
    ) -> Result<Arc<Authorizer>, AuthFailure> {
        let mut config = config.clone();
        // Nobody is shown a page.
        config.oauth.grant = OAuthGrant::ClientCredentials;
        let store = Arc::new(HeldToken::default());
        Self { store, ..self.clone() }.authorizer_of(server, &config, Some(subject.clone()))
    }

    fn authorizer_of(
        &self,
        server: &ServerName,
        config: &HttpConfig,
        subject: Option<Secret>,
    ) -> Result<Arc<Authorizer>, AuthFailure> {
        let address = account_address(&config.url);
        let events = AuthReporter { server: server.clone(), watches: self.watches.clone() };
        let exchange = TokenClient::new(&address, &config.tls, events)?;
        let headers = remote::headers(config).map_err(AuthFailure::refused)?;
        Ok(Arc::new(Authorizer {
            site: Site {
                server: server.clone(),
                address,
                headers,
                config: (*config.oauth).clone(),
                store: Arc::clone(&self.store),
                exchange,
                subject,
                unanswered: Mutex::default(),
                accepted: Mutex::default(),
            },
            accounts: self.clone(),
            held: Mutex::default(),
            proof: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            step_ups: Mutex::default(),
            refused: Mutex::default(),
            given_up: Mutex::default(),
        }))
    }
}

/// Signs in to one server and keeps its token valid.
pub struct Authorizer {
    site: Site,
    accounts: Accounts,
    held: Mutex<Option<StoredToken>>,
    turn: tokio::sync::Mutex<()>,
    /// The key of the token in use.
    proof: Mutex<Option<Arc<ProofKey>>>,
    /// How often each scope was requested in vain.
    step_ups: Mutex<HashMap<String, u32>>,
    /// What the last refusal asked for.
    refused: Mutex<Option<RequestedAccess>>,
    /// The last attempt at a new token that was given up.
    given_up: Mutex<Option<GivenUp>>,
}

/// An attempt at a new token that was given up, because nobody answered.
struct GivenUp {
    /// The token that should have been replaced, if there was one.
    replaces: Option<String>,
    at: Instant,
    failure: AuthFailure,
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorizer").field("server", &self.site.server).finish_non_exhaustive()
    }
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// It could not be sent.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// The server requires a token, and there is none.
    #[error(transparent)]
    Auth(#[from] AuthFailure),
    /// The server named another address, which it is not sent to.
    #[error("{0}")]
    Elsewhere(String),
}

/// Attempts made for one request.
#[derive(Debug, Default)]
struct Tries {
    renewals: u32,
    refreshed: bool,
    /// How often it was sent again only for a nonce.
    nonces: u32,
}

impl Tries {
    /// Most new tokens obtained for one request (specification 2026-07-28, step-up: "a few").
    const MAX_NEW_TOKENS: u32 = 3;
    /// Of these, the most for one scope: the first token may lack it, two more may not.
    const MAX_SCOPE_TOKENS: u32 = 2;
    /// Most repetitions that only add a nonce: a server may replace it at any time, not always.
    const MAX_NONCES: u32 = 3;
}

impl Authorizer {
    /// Timeout for looking up the authorization server when there is no prompt.
    const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(10);
    /// Most tokens of one server that are forgotten at once.
    const MAX_TOKENS: usize = 16;
    /// How long a token that is still good is used before its refresh is tried again.
    const REFRESH_INTERVAL: Duration = Duration::from_secs(10);

    /// Sends a request with the current token. If the server requires another one, obtains it and
    /// sends the request again.
    ///
    /// # Errors
    /// As [`NotSent`]; a refusal that is not about the token is returned as a response.
    pub(crate) async fn send(
        self: &Arc<Self>,
        request: RequestBuilder,
    ) -> Result<Response, NotSent> {
        let mut tries = Tries::default();
        loop {
            let token = self.token().await?;
            let Some(mut attempt) = request.try_clone() else { return Ok(request.send().await?) };
            let proof = match &token {
                Some(token) => self.proof_key(token)?,
                None => None,
            };
            if let (Some(token), None) = (&token, &proof) {
                attempt = attempt.bearer_auth(&token.access_token);
            }
            let (client, attempt) = attempt.build_split();
            let mut attempt = attempt?;
            let at = attempt.url().clone();
            if let (Some(token), Some(proof)) = (&token, &proof) {
                let method = attempt.method().to_string();
                let token = Some(token.access_token.as_str());
                proof.attach(attempt.headers_mut(), &method, &at, token)?;
            }
            let began = Instant::now();
            let response = client.execute(attempt).await?;
            if let Some(proof) = proof {
                let is_new = proof.learn(&at, response.headers());
                let challenge = challenge_of(response.headers()).unwrap_or_default();
                if is_new
                    && response.status() == StatusCode::UNAUTHORIZED
                    && wants_nonce(&challenge)
                    && tries.nonces < Tries::MAX_NONCES
                {
                    tries.nonces += 1;
                    continue;
                }
            }
            let token = token.map(|token| Secret::new(token.access_token));
            if tries.renewals > 0 {
                let mut step = AuthStep::new(StepKind::Retry, &self.site.address);
                (step.status, step.took) = (Some(response.status().as_u16()), began.elapsed());
                self.site.exchange.events.step(step, &[], &[]);
            }
            let refused = (response.status(), challenge_of(response.headers()));
            if !self.renew(refused, token.as_ref(), &mut tries).await? {
                if tries.renewals > 0 && response.status().is_success() {
                    self.step_ups.lock().clear();
                }
                return Ok(response);
            }
        }
    }

    /// Whether requests carry a token.
    pub(crate) fn holds_token(&self) -> bool {
        self.held.lock().is_some()
    }

    /// The token to use now, refreshed if it is about to expire; `None` when there is none yet.
    async fn token(self: &Arc<Self>) -> Result<Option<StoredToken>, AuthFailure> {
        let began = Instant::now();
        let due = |token: &StoredToken| token.is_due(now()) && !self.rests(token);
        let held = self.held.lock().clone();
        let held = if held.is_some() { held } else { self.state()? };
        let held = match held {
            Some(held) if !due(&held) => Some(held),
            None if self.site.config.grant.needs_page() => None,
            _ => {
                let _turn = self.turn.lock().await;
                let held = self.state()?;
                let renewed = match &held {
                    Some(held) if !due(held) => None,
                    Some(held) if held.refresh_token.is_some() => {
                        Some(self.refresh(held.clone(), began).await)
                    }
                    _ if self.site.config.grant.needs_page() => None,
                    _ => Some(self.own_token(&RequestedAccess::default(), began).await),
                };
                match renewed {
                    Some(Ok(fresh)) => Some(fresh),
                    // The server decides whether the old one is still valid.
                    None | Some(Err(AuthFailure::SignInNeeded(..))) => held,
                    Some(Err(error)) => {
                        Some(held.filter(|held| held.left(now()) > Some(0)).ok_or(error)?)
                    }
                }
            }
        };
        self.hold(held.clone());
        Ok(held)
    }

    /// The key that a token is bound to, with the nonces that were asked for.
    fn proof_key(&self, token: &StoredToken) -> Result<Option<Arc<ProofKey>>, AuthFailure> {
        let Some(stored) = &token.proof_key else { return Ok(None) };
        let mut in_use = self.proof.lock();
        if let Some(key) = in_use.as_ref().filter(|key| key.stored() == stored) {
            return Ok(Some(Arc::clone(key)));
        }
        let key = Arc::new(ProofKey::parse(stored)?);
        *in_use = Some(Arc::clone(&key));
        Ok(Some(key))
    }

    /// Handles a refusal of the token that was used, by its status and `WWW-Authenticate` header.
    /// Returns `true` when the request should be sent again.
    async fn renew(
        self: &Arc<Self>,
        (status, challenge): (StatusCode, Option<String>),
        used: Option<&Secret>,
        tries: &mut Tries,
    ) -> Result<bool, AuthFailure> {
        let challenged = challenge.as_deref().unwrap_or_default();
        let step_up = status == StatusCode::FORBIDDEN
            && parameter(challenged, "error").as_deref() == Some("insufficient_scope");
        if status != StatusCode::UNAUTHORIZED && !step_up {
            return Ok(false);
        }
        let began = Instant::now();
        let _turn = self.turn.lock().await;
        let known = self.state()?;
        if let Some(known) = &known
            && Some(known.access_token.as_str()) != used.map(Secret::expose)
        {
            // Another task or process has obtained a new one meanwhile.
            self.hold(Some(known.clone()));
            return Ok(true);
        }
        tries.renewals += 1;
        let mut step = AuthStep::new(StepKind::Challenge, &self.site.address);
        step.status = Some(status.as_u16());
        self.site.exchange.events.challenged(step, challenge.as_deref());
        if tries.renewals > Tries::MAX_NEW_TOKENS {
            let most = Tries::MAX_NEW_TOKENS;
            let why = format!("the server refused {most} new tokens for one request");
            return Err(AuthFailure::Refused(why));
        }
        let mut why = String::new();
        if !step_up
            && !tries.refreshed
            && let Some(known) = known.clone().filter(|known| known.refresh_token.is_some())
        {
            tries.refreshed = true;
            match self.refresh(known, began).await {
                Ok(_) => return Ok(true),
                Err(AuthFailure::SignInNeeded(reason, _)) => why = reason,
                Err(error) => return Err(error),
            }
        }
        let mut scopes = Vec::new();
        if step_up {
            let wanted = parameter(challenged, "scope").unwrap_or_default();
            let asked = {
                let mut step_ups = self.step_ups.lock();
                let asked = step_ups.entry(wanted.clone()).or_default();
                *asked += 1;
                *asked
            };
            if asked > Tries::MAX_SCOPE_TOKENS {
                return Err(AuthFailure::refused(format!(
                    "the server wants the scope `{wanted}`, which {} tokens did not have",
                    Tries::MAX_NEW_TOKENS
                )));
            }
            why = format!(" again, for the scope `{}`", SafeText::cut(&wanted, 200));
            scopes = known.map(|known| known.scopes).unwrap_or_default();
            scopes.extend(wanted.split_whitespace().map(str::to_owned));
            let mut seen = std::collections::HashSet::new();
            scopes.retain(|scope| seen.insert(scope.clone()));
        }
        let wanted = RequestedAccess { challenge, scopes };
        if !self.site.config.grant.needs_page() {
            self.own_token(&wanted, began).await?;
            return Ok(true);
        }
        let Some(prompt) = self.accounts.prompt.clone() else {
            let first = self.refused.lock().replace(wanted.clone()).is_none();
            // The authorization server is looked up once: the steps show it, and an unsafe one is
            // reported here, whether or not the user is present.
            if first
                && let looked =
                    tokio::time::timeout(Self::DISCOVERY_TIMEOUT, self.site.look(&wanted)).await
                && let Ok(Err(AuthFailure::Refused(why))) = looked
            {
                return Err(AuthFailure::Refused(why));
            }
            self.emit(AuthEvent::Needed);
            return Err(self.needed(why));
        };
        self.ask(&*prompt, &wanted).await?;
        Ok(true)
    }

    /// Signs in now, regardless of the current token: as the last refusal requires, or with these
    /// scopes. Requests continue meanwhile with the current token.
    ///
    /// # Errors
    /// What went wrong, or that the user declined.
    pub async fn sign_in(
        &self,
        prompt: &dyn SignInPrompt,
        scopes: Vec<String>,
    ) -> Result<StoredToken, AuthFailure> {
        let mut wanted = self.refused.lock().clone().unwrap_or_default();
        if !scopes.is_empty() {
            wanted.scopes = scopes;
        }
        if !self.site.config.grant.needs_page() {
            return self.own_token(&wanted, Instant::now()).await;
        }
        self.ask(prompt, &wanted).await
    }

    /// Replaces the current token without user interaction.
    ///
    /// # Errors
    /// When there is no refresh token, or what went wrong.
    pub async fn refresh_now(self: &Arc<Self>) -> Result<StoredToken, AuthFailure> {
        let began = Instant::now();
        let _turn = self.turn.lock().await;
        if !self.site.config.grant.needs_page() {
            return self.own_token(&RequestedAccess::default(), began).await;
        }
        match self.state()?.filter(|known| known.refresh_token.is_some()) {
            Some(known) => self.refresh(known, began).await,
            None => Err(self.needed(" again, there is no refresh token".to_owned())),
        }
    }

    /// Looks up the authorization server. Neither prompts nor stores anything.
    ///
    /// # Errors
    /// When its metadata cannot be fetched, or is not safe.
    pub async fn authorization(&self) -> Result<Authorization, AuthFailure> {
        self.site.look(&RequestedAccess::default()).await
    }

    /// The user gives up the sign-in that is shown: what may have led nowhere is not used again.
    ///
    /// # Errors
    /// When the store cannot be changed.
    pub fn give_up(&self) -> Result<(), AuthFailure> {
        self.site.give_up()
    }

    /// Forgets every token and client of the server, then revokes the tokens.
    ///
    /// # Errors
    /// When the store cannot be read or changed.
    pub async fn sign_out(&self) -> Result<SignedOut, AuthFailure> {
        let _turn = self.turn.lock().await;
        let store = &self.site.store;
        let mut done = SignedOut { token: None, revoked: Ok(()), had_client: false };
        // A server whose issuer moved may have several.
        for _ in 0..Self::MAX_TOKENS {
            let Some(known) = store.find(&self.site.address).map_err(token_file_failure)? else {
                break;
            };
            {
                let _guard = self.lock(&known).await?;
                // Another process may have refreshed it meanwhile.
                if store.find(&self.site.address).map_err(token_file_failure)?.as_ref()
                    != Some(&known)
                {
                    continue;
                }
                store.remove(&known).map_err(token_file_failure)?;
            }
            let client = known.client.used(self.site.config.client_secret.as_ref());
            let key = self.site.config.private_key.as_ref();
            let caller = OAuthClient { key, ..OAuthClient::new(&client) };
            let revoked = grant::revoke(&self.site.exchange, &known, &caller).await;
            done.revoked = done.revoked.and(revoked.map_err(|failure| failure.reason()));
            done.token.get_or_insert(known);
        }
        for client in store.clients(&self.site.address).map_err(token_file_failure)? {
            done.had_client |= client.origin == ClientOrigin::Registered;
            store.remove_client(&client).map_err(token_file_failure)?;
        }
        self.hold(None);
        Ok(done)
    }

    /// The stored token.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn state(&self) -> Result<Option<StoredToken>, AuthFailure> {
        let found = self.site.store.find(&self.site.address).map_err(token_file_failure)?;
        // One that cannot be sent is as good as none: signing in again repairs it.
        Ok(found.filter(|token| is_sendable(&token.access_token)))
    }

    fn emit(&self, event: AuthEvent<'_>) {
        self.site.exchange.events.emit(event);
    }

    fn needed(&self, why: String) -> AuthFailure {
        AuthFailure::SignInNeeded(why, (self.accounts.command)(&self.site.server))
    }

    fn hold(&self, token: Option<StoredToken>) {
        let secrets = token.iter().flat_map(|token| {
            [Some(&token.access_token), token.refresh_token.as_ref(), token.proof_key.as_ref()]
        });
        self.accounts.redactor.learn(secrets.flatten().map(|secret| secret.as_str().into()));
        let before = std::mem::replace(&mut *self.held.lock(), token.clone());
        if before != token {
            self.emit(AuthEvent::Token(token.as_ref()));
        }
    }

    async fn lock(&self, token: &StoredToken) -> Result<Box<dyn Send>, AuthFailure> {
        let (store, token) = (Arc::clone(&self.site.store), token.clone());
        let locked = tokio::task::spawn_blocking(move || store.lock(&token)).await;
        locked.map_err(AuthFailure::failed)?.map_err(token_file_failure)
    }

    async fn keep(&self, token: &StoredToken) -> Result<(), AuthFailure> {
        self.site.store.save(token).map_err(token_file_failure)?;
        self.hold(Some(token.clone()));
        Ok(())
    }

    async fn ask(
        &self,
        prompt: &dyn SignInPrompt,
        wanted: &RequestedAccess,
    ) -> Result<StoredToken, AuthFailure> {
        let asked = tokio::time::timeout(SIGN_IN_TIMEOUT, self.site.ask(prompt, wanted)).await;
        let Ok(token) = asked else {
            self.site.give_up()?;
            return Err(AuthFailure::Declined("nobody signed in".to_owned()));
        };
        let token = token?;
        // Waits for a refresh by another process, which would overwrite this token by an older one.
        let _guard = self.lock(&token).await?;
        self.keep(&token).await?;
        Ok(token)
    }

    /// A token that takes no person, for a caller that `began` to wait for it.
    async fn own_token(
        &self,
        wanted: &RequestedAccess,
        began: Instant,
    ) -> Result<StoredToken, AuthFailure> {
        let held = self.state()?;
        self.given_up_since(began, held.as_ref())?;
        let token = match self.site.without_page(wanted).await {
            Err(AuthFailure::Unavailable(why)) => {
                return Err(self.give_up_token(held.as_ref(), why));
            }
            other => other?,
        };
        self.keep(&token).await?;
        Ok(token)
    }

    /// Refreshes a token. Continues if the caller is cancelled: a rotated token is lost when its
    /// response is not read.
    async fn refresh(
        self: &Arc<Self>,
        known: StoredToken,
        began: Instant,
    ) -> Result<StoredToken, AuthFailure> {
        self.given_up_since(began, Some(&known))?;
        let this = Arc::clone(self);
        let work = tokio::spawn(async move { this.refresh_alone(known).await });
        work.await.map_err(AuthFailure::failed)?
    }

    /// Fails as an attempt did that was given up since a caller `began` to wait: it would be made for
    /// each that waits.
    fn given_up_since(
        &self,
        began: Instant,
        known: Option<&StoredToken>,
    ) -> Result<(), AuthFailure> {
        let given_up = self.given_up.lock();
        let known = known.map(|known| known.access_token.as_str());
        let same = given_up.as_ref().filter(|last| last.replaces.as_deref() == known);
        match same.filter(|last| last.at >= began) {
            Some(last) => Err(last.failure.clone()),
            None => Ok(()),
        }
    }

    /// Whether a token is still good, and nobody answered a moment ago when it was refreshed.
    fn rests(&self, token: &StoredToken) -> bool {
        let given_up = self.given_up.lock();
        let is_of_late = given_up.as_ref().is_some_and(|last| {
            last.replaces.as_ref() == Some(&token.access_token)
                && last.at.elapsed() < Self::REFRESH_INTERVAL
        });
        is_of_late && token.left(now()) > Some(0)
    }

    /// The failure of an attempt at a new token that nobody answered, for those who wait too.
    fn give_up_token(&self, known: Option<&StoredToken>, mut why: String) -> AuthFailure {
        if known.is_some_and(|known| known.refresh_token.is_some()) {
            let command = (self.accounts.command)(&self.site.server);
            why += "; the refresh token is kept: try again when the authorization server answers, \
                    or sign in anew with `";
            why += &command;
            why += "`";
        }
        let failure = AuthFailure::Unavailable(why);
        let replaces = known.map(|known| known.access_token.clone());
        let last = GivenUp { replaces, at: Instant::now(), failure: failure.clone() };
        *self.given_up.lock() = Some(last);
        failure
    }

    async fn refresh_alone(&self, known: StoredToken) -> Result<StoredToken, AuthFailure> {
        let _guard = self.lock(&known).await?;
        // Another process may have done it while this one waited for the lock.
        let current = self.state()?.unwrap_or_else(|| known.clone());
        if current.access_token != known.access_token {
            self.hold(Some(current.clone()));
            return Ok(current);
        }
        let Some(refresh) = current.refresh_token.clone() else {
            return Err(self.needed(String::new()));
        };
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
            ("resource", current.resource.as_str()),
        ];
        let client = current.client.used(self.site.config.client_secret.as_ref());
        let proof = self.proof_key(&current)?;
        let key = self.site.config.private_key.as_ref();
        let caller = OAuthClient { client: &client, key, proof: proof.as_deref() };
        let (kind, endpoint) = (StepKind::Refresh, current.token_endpoint.as_str());
        match grant::token(&self.site.exchange, kind, endpoint, &caller, &form).await {
            Ok(granted) => {
                let fresh = StoredToken {
                    access_token: granted.access_token,
                    // One that does not rotate stays valid (RFC 6749, section 6).
                    refresh_token: granted.refresh_token.or(Some(refresh)),
                    obtained_at: now(),
                    expires_in: granted.expires_in,
                    scopes: granted.scopes.unwrap_or_else(|| current.scopes.clone()),
                    ..current
                };
                self.keep(&fresh).await?;
                Ok(fresh)
            }
            Err(NotGranted::Code { code, said }) => {
                let newest = self.state()?.filter(|newest| *newest != current);
                if let Some(newest) = newest {
                    // A program without locking was faster; its token is the valid one.
                    self.hold(Some(newest.clone()));
                    return Ok(newest);
                }
                let is_registered = current.client.origin == ClientOrigin::Registered;
                if is_client_refusal(&code) {
                    self.site.store.remove_client(&current.client).map_err(token_file_failure)?;
                } else if code != "invalid_grant" {
                    return Err(NotGranted::Code { code, said }.into_failure(endpoint));
                }
                // The user may correct a client that is configured.
                if code == "invalid_grant" || is_registered {
                    let spent = StoredToken { refresh_token: None, ..current };
                    self.keep(&spent).await?;
                }
                Err(self.needed(format!(" again, the refresh token is invalid (`{code}`)")))
            }
            Err(NotGranted::Failed(AuthFailure::Failed(why))) => {
                Err(self.give_up_token(Some(&current), why))
            }
            Err(NotGranted::Failed(failure)) => Err(failure),
        }
    }
}

fn token_file_failure(error: io::Error) -> AuthFailure {
    AuthFailure::Failed(format!("the token file: {error}"))
}
