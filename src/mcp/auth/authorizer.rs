//! One server's token in use: attached to every request, refreshed before it expires, renewed when
//! it is refused. One renewal at a time, in this process and across processes.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use reqwest::{RequestBuilder, Response, StatusCode};
use url::Url;

use super::grant::{self, NotGranted, OAuthClient, TokenClient};
use super::sign_in::{
    AuthEvent, AuthFailure, AuthListener, AuthReporter, AuthStep, Authorization, PATIENCE,
    RequestedAccess, SignInPrompt, Site, StepKind, parameter,
};
use super::token::{StoredToken, TokenStore};
use base::{Redactor, SafeText, Secret, ServerName};
use config::HttpConfig;

/// Signs in to servers: a token store and an optional prompt. Cheap to clone.
#[derive(Clone)]
pub struct Accounts {
    store: Arc<dyn TokenStore>,
    prompt: Option<Arc<dyn SignInPrompt>>,
    watches: Vec<AuthListener>,
    redactor: Redactor,
}

impl std::fmt::Debug for Accounts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Accounts").field("prompt", &self.prompt.is_some()).finish_non_exhaustive()
    }
}

impl Accounts {
    /// Accounts stored in `store`, without a prompt: a server that requires the user to sign in
    /// fails with [`AuthFailure::SignInNeeded`].
    pub fn new(store: Arc<dyn TokenStore>) -> Self {
        Self { store, prompt: None, watches: Vec::new(), redactor: Redactor::default() }
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
        let resource = resource_of(&config.url);
        let events = AuthReporter { server: server.clone(), watches: self.watches.clone() };
        let exchange = TokenClient::new(&resource, &config.tls, events)?;
        Ok(Some(Arc::new(Authorizer {
            site: Site {
                server: server.clone(),
                resource,
                config: config.oauth.clone(),
                store: Arc::clone(&self.store),
                exchange,
            },
            accounts: self.clone(),
            held: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            step_ups: Mutex::default(),
            refused: Mutex::default(),
        })))
    }
}

/// A server's address as a resource: WebSocket schemes become HTTP, the fragment is dropped.
fn resource_of(url: &Url) -> Url {
    let text = url.as_str();
    let http = text.strip_prefix("ws").map(|rest| format!("http{rest}"));
    let mut url = http.and_then(|text| Url::parse(&text).ok()).unwrap_or_else(|| url.clone());
    url.set_fragment(None);
    url
}

/// Signs in to one server and keeps its token valid.
pub struct Authorizer {
    site: Site,
    accounts: Accounts,
    held: Mutex<Option<StoredToken>>,
    turn: tokio::sync::Mutex<()>,
    /// How often each scope was requested in vain.
    step_ups: Mutex<HashMap<String, u32>>,
    /// What the last refusal asked for.
    refused: Mutex<Option<RequestedAccess>>,
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
}

/// Attempts made for one request.
#[derive(Debug, Default)]
struct Tries {
    renewals: u32,
    refreshed: bool,
}

impl Tries {
    /// Most new tokens obtained for one request (specification 2026-07-28, step-up: "a few").
    const MOST: u32 = 3;
    /// Of these, the most for one scope: the first token may lack it, two more may not.
    const STEP_UPS: u32 = 2;
}

impl Authorizer {
    /// Timeout for looking up the authorization server when there is no prompt.
    const LOOK: Duration = Duration::from_secs(10);

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
            if let Some(token) = &token {
                attempt = attempt.bearer_auth(token.expose());
            }
            let began = Instant::now();
            let response = attempt.send().await?;
            if tries.renewals > 0 {
                let mut step = AuthStep::new(StepKind::Retry, &self.site.resource);
                (step.status, step.took) = (Some(response.status().as_u16()), began.elapsed());
                self.site.exchange.events.step(step, &[], &[]);
            }
            let challenge = response.headers().get("www-authenticate");
            let challenge = challenge.and_then(|value| value.to_str().ok()).map(str::to_owned);
            let refused = (response.status(), challenge);
            if !self.renew(refused, token.as_ref(), &mut tries).await? {
                if tries.renewals > 0 && response.status().is_success() {
                    self.step_ups.lock().clear();
                }
                return Ok(response);
            }
        }
    }

    /// The token to use now, refreshed if it is about to expire; `None` when there is none yet.
    pub(crate) async fn token(self: &Arc<Self>) -> Result<Option<Secret>, AuthFailure> {
        let due = |token: &StoredToken| token.is_due(grant::now());
        let held = self.held.lock().clone();
        let held = if held.is_some() { held } else { self.state()? };
        let held = match held {
            Some(held) if !due(&held) => Some(held),
            None if !self.site.config.machine => None,
            _ => {
                let _turn = self.turn.lock().await;
                match self.state()? {
                    Some(held) if !due(&held) => Some(held),
                    Some(held) if held.refresh_token.is_some() => {
                        match self.refresh(held.clone()).await {
                            Ok(fresh) => Some(fresh),
                            // The server decides whether the old one is still valid.
                            Err(AuthFailure::SignInNeeded(..)) => Some(held),
                            Err(_) if held.left(grant::now()) > Some(0) => Some(held),
                            Err(error) => return Err(error),
                        }
                    }
                    _ if self.site.config.machine => {
                        Some(self.own_token(&RequestedAccess::default()).await?)
                    }
                    other => other,
                }
            }
        };
        self.hold(held.clone());
        Ok(held.map(|token| Secret::new(token.access_token)))
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
        let header = serde_json::json!({ "www-authenticate": challenge }).to_string();
        let answered = if challenge.is_some() { header.as_bytes() } else { &[] };
        let mut step = AuthStep::new(StepKind::Challenge, &self.site.resource);
        step.status = Some(status.as_u16());
        self.site.exchange.events.step(step, &[], answered);
        if tries.renewals > Tries::MOST {
            let most = Tries::MOST;
            let why = format!("the server refused {most} new tokens for one request");
            return Err(AuthFailure::Refused(why));
        }
        let mut why = String::new();
        if !step_up
            && !tries.refreshed
            && let Some(known) = known.clone().filter(|known| known.refresh_token.is_some())
        {
            tries.refreshed = true;
            match self.refresh(known).await {
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
            if asked > Tries::STEP_UPS {
                return Err(AuthFailure::refused(format!(
                    "the server wants the scope `{wanted}`, which {} tokens did not have",
                    Tries::MOST
                )));
            }
            why = format!(" again, for the scope `{}`", SafeText::cut(&wanted, 200));
            scopes = known.map(|known| known.scopes).unwrap_or_default();
            scopes.extend(wanted.split_whitespace().map(str::to_owned));
            let mut seen = std::collections::HashSet::new();
            scopes.retain(|scope| seen.insert(scope.clone()));
        }
        let wanted = RequestedAccess { challenge, scopes };
        if self.site.config.machine {
            self.own_token(&wanted).await?;
            return Ok(true);
        }
        let Some(prompt) = self.accounts.prompt.clone() else {
            let first = self.refused.lock().replace(wanted.clone()).is_none();
            // The authorization server is looked up once: the steps show it, and an unsafe one is
            // reported here, whether or not the user is present.
            if first
                && let looked = tokio::time::timeout(Self::LOOK, self.site.look(&wanted)).await
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
        if self.site.config.machine {
            return self.own_token(&wanted).await;
        }
        self.ask(prompt, &wanted).await
    }

    /// Replaces the current token without user interaction.
    ///
    /// # Errors
    /// When there is no refresh token, or what went wrong.
    pub async fn refresh_now(self: &Arc<Self>) -> Result<StoredToken, AuthFailure> {
        let _turn = self.turn.lock().await;
        if self.site.config.machine {
            return self.own_token(&RequestedAccess::default()).await;
        }
        match self.state()?.filter(|known| known.refresh_token.is_some()) {
            Some(known) => self.refresh(known).await,
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

    /// Revokes and forgets the token and the client the host registered. Returns what was forgotten
    /// and the outcome of the revocation; `None` when there was no token.
    ///
    /// # Errors
    /// When the store cannot be read or changed.
    pub async fn sign_out(
        &self,
    ) -> Result<Option<(StoredToken, Result<(), AuthFailure>)>, AuthFailure> {
        let _turn = self.turn.lock().await;
        let Some(known) = self.state()? else { return Ok(None) };
        let _guard = self.lock(&known).await?;
        let Some(known) = self.state()? else { return Ok(None) };
        let client = known.client.used(self.site.config.client_secret.as_ref());
        let caller = OAuthClient { client: &client, key: self.site.config.private_key.as_ref() };
        let revoked = grant::revoke(&self.site.exchange, &known, &caller).await;
        self.site.store.remove(&known).map_err(AuthFailure::failed)?;
        self.site.store.remove_client(&known.issuer).map_err(AuthFailure::failed)?;
        self.hold(None);
        Ok(Some((known, revoked)))
    }

    /// The stored token.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn state(&self) -> Result<Option<StoredToken>, AuthFailure> {
        self.site.store.find(&self.site.resource).map_err(kept)
    }

    fn emit(&self, event: AuthEvent<'_>) {
        self.site.exchange.events.emit(event);
    }

    fn needed(&self, why: String) -> AuthFailure {
        AuthFailure::SignInNeeded(why, self.site.server.to_string())
    }

    fn hold(&self, token: Option<StoredToken>) {
        let secrets = token.iter().flat_map(|t| [Some(&t.access_token), t.refresh_token.as_ref()]);
        self.accounts.redactor.learn(secrets.flatten().map(|secret| secret.as_str().into()));
        let before = std::mem::replace(&mut *self.held.lock(), token.clone());
        if before != token {
            self.emit(AuthEvent::Token(token.as_ref()));
        }
    }

    async fn lock(&self, token: &StoredToken) -> Result<Box<dyn Send>, AuthFailure> {
        let store = Arc::clone(&self.site.store);
        let (issuer, resource) = (token.issuer.clone(), token.resource.clone());
        let locked = tokio::task::spawn_blocking(move || store.lock(&issuer, &resource)).await;
        locked.map_err(AuthFailure::failed)?.map_err(kept)
    }

    async fn keep(&self, token: &StoredToken) -> Result<(), AuthFailure> {
        self.site.store.save(token).map_err(kept)?;
        self.hold(Some(token.clone()));
        Ok(())
    }

    async fn ask(
        &self,
        prompt: &dyn SignInPrompt,
        wanted: &RequestedAccess,
    ) -> Result<StoredToken, AuthFailure> {
        let asked = tokio::time::timeout(PATIENCE, self.site.ask(prompt, wanted)).await;
        let token = asked.map_err(|_| AuthFailure::Declined("nobody signed in".to_owned()))??;
        // Waits for a refresh by another process, which would overwrite this token by an older one.
        let _guard = self.lock(&token).await?;
        self.keep(&token).await?;
        Ok(token)
    }

    async fn own_token(&self, wanted: &RequestedAccess) -> Result<StoredToken, AuthFailure> {
        let token = self.site.machine(wanted).await?;
        self.keep(&token).await?;
        Ok(token)
    }

    /// Refreshes a token. Continues if the caller is cancelled: a rotated token is lost when its
    /// response is not read.
    async fn refresh(self: &Arc<Self>, known: StoredToken) -> Result<StoredToken, AuthFailure> {
        let this = Arc::clone(self);
        let work = tokio::spawn(async move { this.refresh_alone(known).await });
        work.await.map_err(AuthFailure::failed)?
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
        let caller = OAuthClient { client: &client, key: self.site.config.private_key.as_ref() };
        let (kind, endpoint) = (StepKind::Refresh, current.token_endpoint.as_str());
        match grant::token(&self.site.exchange, kind, endpoint, &caller, &form).await {
            Ok(granted) => {
                let fresh = StoredToken {
                    access_token: granted.access_token,
                    // One that does not rotate stays valid (RFC 6749, section 6).
                    refresh_token: granted.refresh_token.or(Some(refresh)),
                    obtained_at: grant::now(),
                    expires_in: granted.expires_in,
                    scopes: granted.scopes.unwrap_or_else(|| current.scopes.clone()),
                    ..current
                };
                self.keep(&fresh).await?;
                Ok(fresh)
            }
            Err(NotGranted::Code(code)) => {
                let newest = self.state()?.filter(|newest| *newest != current);
                if let Some(newest) = newest {
                    // A program without locking was faster; its token is the valid one.
                    self.hold(Some(newest.clone()));
                    return Ok(newest);
                }
                match code.as_str() {
                    "invalid_grant" => {
                        let spent = StoredToken { refresh_token: None, ..current };
                        self.keep(&spent).await?;
                    }
                    "invalid_client" | "unauthorized_client" => {
                        let forgotten = self.site.store.remove_client(&current.issuer);
                        forgotten.map_err(kept)?;
                    }
                    _ => {
                        let failure = NotGranted::Code(code).into_failure(endpoint);
                        return Err(failure);
                    }
                }
                Err(self.needed(format!(" again, the refresh token is invalid (`{code}`)")))
            }
            Err(NotGranted::Failed(failure)) => Err(failure),
        }
    }
}

fn kept(error: io::Error) -> AuthFailure {
    AuthFailure::Failed(format!("the token file: {error}"))
}
