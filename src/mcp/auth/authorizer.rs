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
use crate::base::{Redactor, SafeText, Secret, ServerName};
use crate::config::HttpConfig;

/// What signs in: a store, and whom to ask. Cheap to clone.
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
    /// Accounts that are kept in `store`. Nobody is asked: a server that wants a person to sign in
    /// fails with [`AuthFailure::SignInNeeded`].
    pub fn new(store: Arc<dyn TokenStore>) -> Self {
        Self { store, prompt: None, watches: Vec::new(), redactor: Redactor::default() }
    }

    /// Asks with `prompt` when a person has to sign in.
    #[must_use]
    pub fn prompt(mut self, prompt: Arc<dyn SignInPrompt>) -> Self {
        self.prompt = Some(prompt);
        self
    }

    /// Tells `watch` too of everything as it happens; it must not block.
    #[must_use]
    pub fn watch(
        mut self,
        watch: impl Fn(&ServerName, AuthEvent<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.watches.push(Arc::new(watch));
        self
    }

    /// Teaches `redactor` every token that is used.
    #[must_use]
    pub fn masked_by(mut self, redactor: &Redactor) -> Self {
        self.redactor = redactor.clone();
        self
    }

    /// What signs in at one server; `None` when its entry says that nobody does.
    ///
    /// # Errors
    /// A certificate of the entry that cannot be used.
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

/// The address of a server as a resource: that of WebSocket as HTTP, nothing after `#`.
fn resource_of(url: &Url) -> Url {
    let text = url.as_str();
    let http = text.strip_prefix("ws").map(|rest| format!("http{rest}"));
    let mut url = http.and_then(|text| Url::parse(&text).ok()).unwrap_or_else(|| url.clone());
    url.set_fragment(None);
    url
}

/// Signs in at one server and keeps its token good.
pub struct Authorizer {
    site: Site,
    accounts: Accounts,
    held: Mutex<Option<StoredToken>>,
    turn: tokio::sync::Mutex<()>,
    /// How often each scope was asked for in vain.
    step_ups: Mutex<HashMap<String, u32>>,
    /// What the last refusal wanted.
    refused: Mutex<Option<RequestedAccess>>,
}

impl std::fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorizer").field("server", &self.site.server).finish_non_exhaustive()
    }
}

/// Why a request got no answer.
#[derive(Debug, thiserror::Error)]
pub enum NotSent {
    /// It could not be sent.
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    /// The server wants a token, and there is none.
    #[error(transparent)]
    Auth(#[from] AuthFailure),
}

/// What was tried for one request.
#[derive(Debug, Default)]
struct Tries {
    renewals: u32,
    refreshed: bool,
}

impl Tries {
    /// Tokens that are got for one request (specification 2026-07-28, step-up: "a few").
    const MOST: u32 = 3;
    /// Of these, those that ask for one scope: the first token may lack it, two more may not.
    const STEP_UPS: u32 = 2;
}

impl Authorizer {
    /// Longest look at where one signs in, when nobody can be asked to.
    const LOOK: Duration = Duration::from_secs(10);

    /// Sends a request with the token there is. Where the server wants another one, gets it and
    /// sends the request again.
    ///
    /// # Errors
    /// As [`NotSent`]; a refusal that is not about the token is an answer.
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

    /// The token to use now, refreshed when its end is near; `None` when there is none yet.
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
                            // The server decides what the old one is still good for.
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

    /// Deals with a refusal of the token that was used: its status, and its `WWW-Authenticate`.
    /// `true` when the request is worth sending again.
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
            // Somebody else has got a new one meanwhile.
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
                    "the server wants the scope `{wanted}`, which {} tokens did not give",
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
            // Where one signs in is looked up once: the steps show it, and what is not safe is told
            // here, whether or not a person is there.
            if first
                && let looked = tokio::time::timeout(Self::LOOK, self.site.look(&wanted)).await
                && let Ok(Err(AuthFailure::Refused(why))) = looked
            {
                return Err(AuthFailure::Refused(why));
            }
            self.tell(AuthEvent::Needed);
            return Err(self.needed(why));
        };
        self.ask(&*prompt, &wanted).await?;
        Ok(true)
    }

    /// Signs in now, whatever there is: as the last refusal wants it, or with these scopes. Requests
    /// go on meanwhile with the token there is.
    ///
    /// # Errors
    /// What went wrong, or that the person does not want to.
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

    /// Gets another token for the one there is, without a person.
    ///
    /// # Errors
    /// There is none that can be refreshed, or what went wrong.
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

    /// Looks where the server sends those who sign in. Asks nobody, keeps nothing.
    ///
    /// # Errors
    /// Its metadata cannot be had, or is not safe.
    pub async fn authorization(&self) -> Result<Authorization, AuthFailure> {
        self.site.look(&RequestedAccess::default()).await
    }

    /// Revokes and forgets the token and the client the host registered. What was forgotten, and
    /// what the server said to the revocation.
    ///
    /// # Errors
    /// The store does not forget it.
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

    /// The token that is kept.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn state(&self) -> Result<Option<StoredToken>, AuthFailure> {
        self.site.store.find(&self.site.resource).map_err(kept)
    }

    fn tell(&self, event: AuthEvent<'_>) {
        self.site.exchange.events.tell(event);
    }

    fn needed(&self, why: String) -> AuthFailure {
        AuthFailure::SignInNeeded(why, self.site.server.to_string())
    }

    fn hold(&self, token: Option<StoredToken>) {
        let secrets = token.iter().flat_map(|t| [Some(&t.access_token), t.refresh_token.as_ref()]);
        self.accounts.redactor.learn(secrets.flatten().map(|secret| secret.as_str().into()));
        let before = std::mem::replace(&mut *self.held.lock(), token.clone());
        if before != token {
            self.tell(AuthEvent::Token(token.as_ref()));
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
        // A refresh of another process ends first: it would put the older token in its place.
        let _guard = self.lock(&token).await?;
        self.keep(&token).await?;
        Ok(token)
    }

    async fn own_token(&self, wanted: &RequestedAccess) -> Result<StoredToken, AuthFailure> {
        let token = self.site.machine(wanted).await?;
        self.keep(&token).await?;
        Ok(token)
    }

    /// Refreshes a token. Goes on when whoever wants it gives up: a token that rotates is lost when
    /// its answer is not read.
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
                    // One that does not rotate stays (RFC 6749, section 6).
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
                    // A program that knows no lock was faster; its token is the good one.
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
                Err(self.needed(format!(" again, the refresh token is no longer good (`{code}`)")))
            }
            Err(NotGranted::Failed(failure)) => Err(failure),
        }
    }
}

fn kept(error: io::Error) -> AuthFailure {
    AuthFailure::Failed(format!("the file of the tokens: {error}"))
}
