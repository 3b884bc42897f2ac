//! Obtaining a first token: discovery, the client, the browser, the code; or client credentials.
//! Unsafe endpoints are refused before an address is shown to the user.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::Value;
use tokio::io::AsyncReadExt as _;
use url::Url;

use super::account::{SignIn, SignInPrompt};
use super::client::{ChosenClient, PageSecrets, authorization_url, client_auth, is_client_refusal};
use super::discovery::{FoundIssuer, RequestedAccess, Site};
use super::fresh::{now, random_text};
use super::grant::{
    self, Granted, JWT_BEARER, NotGranted, OAuthClient, TokenClient, WantedGrant, WantedToken,
    is_code,
};
use super::metadata::OWN_ISSUER;
use super::proof::ProofKey;
use super::redirect::{Loopback, RedirectTarget, StrayAnswer};
use super::step::{AuthFailure, AuthStep, StepKind};
use super::token::{ClientAuth, ClientOrigin, StoredClient, StoredToken};
use base::{SafeText, Secret};
use config::{OAuthGrant, TlsConfig};

/// Why a sign-in gave no token.
enum NotSignedIn {
    /// The authorization server does not accept the client, with this code.
    Client(String),
    /// The user gave up; nothing came back from the sign-in page.
    Unanswered(AuthFailure),
    /// Another failure.
    Failed(AuthFailure),
}

impl From<AuthFailure> for NotSignedIn {
    fn from(failure: AuthFailure) -> Self {
        Self::Failed(failure)
    }
}

impl Site {
    /// Signs in through the user's browser. A client that the authorization server does not accept
    /// any more is registered anew, once.
    pub(super) async fn ask(
        &self,
        prompt: &dyn SignInPrompt,
        wanted: &RequestedAccess,
    ) -> Result<StoredToken, AuthFailure> {
        let found = self.find(wanted).await?;
        let mut kept =
            self.store.client(&found.issuer, &self.address).map_err(AuthFailure::failed)?;
        let remembered = kept.as_ref().and_then(|client| Url::parse(&client.redirect_uri).ok());
        let remembered = remembered.and_then(|url| url.port());
        let loopback = Loopback::bind(RedirectTarget::new(&self.config)?, remembered).await?;
        loop {
            let ChosenClient { client, is_kept } =
                self.client(&found, kept.take(), &loopback).await?;
            self.store
                .save_client(&client.without_configured_secret())
                .map_err(AuthFailure::failed)?;
            *self.unanswered.lock() = is_kept.then(|| client.clone());
            let done = self.attempt(prompt, &found, &client, &loopback).await;
            if let Err(NotSignedIn::Unanswered(failure)) = done {
                self.give_up()?;
                return Err(failure);
            }
            *self.unanswered.lock() = None;
            match done {
                Ok(token) => {
                    *self.accepted.lock() = Some((client.id, tokio::time::Instant::now()));
                    return Ok(token);
                }
                Err(NotSignedIn::Client(code)) => {
                    let is_registered = client.origin == ClientOrigin::Registered;
                    if is_registered {
                        self.store.remove_client(&client).map_err(AuthFailure::failed)?;
                    }
                    if !is_registered || !is_kept {
                        let issuer = &found.issuer;
                        let why = format!("{issuer} does not accept the client (`{code}`)");
                        return Err(AuthFailure::refused(why));
                    }
                }
                Err(NotSignedIn::Failed(failure) | NotSignedIn::Unanswered(failure)) => {
                    return Err(failure);
                }
            }
        }
    }

    /// The user has given up the sign-in that was shown. The page of a client that its server has
    /// forgotten leads nowhere, so one that was registered earlier is registered anew next time.
    pub(super) fn give_up(&self) -> Result<(), AuthFailure> {
        let Some(client) = self.unanswered.lock().take() else { return Ok(()) };
        self.store.remove_client(&client).map_err(AuthFailure::failed)
    }

    /// Signs in with a client.
    async fn attempt(
        &self,
        prompt: &dyn SignInPrompt,
        found: &FoundIssuer,
        client: &StoredClient,
        loopback: &Loopback,
    ) -> Result<StoredToken, NotSignedIn> {
        let (verifier, state) = (random_text()?, random_text()?);
        let secrets = PageSecrets { state: &state, verifier: &verifier };
        let proof = found.proof_key()?;
        let thumbprint = proof.as_ref().map(ProofKey::thumbprint);
        let bound = thumbprint.as_ref().map(|thumbprint| ("dpop_jkt", thumbprint.as_str()));
        let url = authorization_url(found, client, secrets, bound.as_slice())?;
        self.exchange.policy.check(&url).map_err(AuthFailure::refused)?;
        let request = SignIn {
            server: self.server.clone(),
            issuer: SafeText::line(&found.issuer),
            instead_of: found.failed.iter().map(|issuer| SafeText::line(issuer)).collect(),
            scopes: found.scopes.iter().map(|scope| SafeText::line(scope)).collect(),
            url: url.clone(),
            redirect_uri: client.redirect_uri.clone(),
        };
        let began = Instant::now();
        let strayed = |stray: &StrayAnswer| self.strayed(&client.redirect_uri, stray);
        let back = shown(prompt, request, loopback, &state, strayed).await;
        let answered = back.as_ref().ok().and_then(|back| Some(back.split_once('?')?.1.to_owned()));
        let answered = answered.unwrap_or_default();
        let done = match back {
            Ok(back) => code_of(&back, found),
            Err(failure @ AuthFailure::Declined(_)) => Err(NotSignedIn::Unanswered(failure)),
            Err(failure) => Err(failure.into()),
        };
        let refused = done.as_ref().err().map(|why| match why {
            NotSignedIn::Client(code) => SafeText::line(code),
            NotSignedIn::Unanswered(why) | NotSignedIn::Failed(why) => {
                SafeText::line(&why.to_string())
            }
        });
        let step = AuthStep::new(StepKind::Authorize, &url);
        let step = AuthStep { took: began.elapsed(), refused, ..step };
        let sent = url.query().unwrap_or_default();
        self.exchange.events.step(step, sent.as_bytes(), answered.as_bytes());
        let code = done?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code.as_str()),
            ("redirect_uri", client.redirect_uri.as_str()),
            ("code_verifier", verifier.as_str()),
            ("resource", found.resource.as_str()),
        ];
        let caller = OAuthClient { proof: proof.as_ref(), ..OAuthClient::new(client) };
        let endpoint = &found.metadata.token_endpoint;
        match grant::token(&self.exchange, StepKind::Token, endpoint, &caller, &form).await {
            Ok(granted) => Ok(self.token(found, &caller, granted)),
            Err(NotGranted::Code { code, .. }) if is_client_refusal(&code) => {
                Err(NotSignedIn::Client(code))
            }
            Err(refused) => Err(refused.into_failure(endpoint).into()),
        }
    }

    /// Reports an answer that does not belong to the sign-in that waits.
    fn strayed(&self, redirect_uri: &str, stray: &StrayAnswer) {
        let Ok(at) = Url::parse(redirect_uri) else { return };
        let step = AuthStep {
            status: stray.status_code(),
            refused: Some(SafeText::line(&stray.to_string())),
            ..AuthStep::new(StepKind::Redirect, &at)
        };
        self.exchange.events.step(step, &[], &[]);
    }

    /// Signs in without a page: with the client's own credentials, the JWT of a workload, or a grant
    /// of an identity provider.
    pub(super) async fn without_page(
        &self,
        wanted: &RequestedAccess,
    ) -> Result<StoredToken, AuthFailure> {
        if let Some(subject) = &self.subject {
            return self.exchanged(subject, wanted).await;
        }
        let found = self.find(wanted).await?;
        let key = self.config.private_key.as_ref();
        let secret = self.config.client_secret.as_ref().map(|s| s.expose().to_owned());
        let auth = match key {
            Some(_) => ClientAuth::PrivateKey,
            None => client_auth(&found, secret.is_some()),
        };
        let client = StoredClient {
            issuer: found.issuer.clone(),
            server: self.address.to_string(),
            id: self.config.client_id.clone().unwrap_or_default(),
            secret,
            secret_expires_at: None,
            auth,
            redirect_uri: String::new(),
            origin: ClientOrigin::Configured,
        };
        let (resource, scope) = (found.resource.clone(), found.scopes.join(" "));
        let assertion = match self.config.grant {
            OAuthGrant::AuthorizationCode | OAuthGrant::ClientCredentials => None,
            OAuthGrant::JwtBearer => {
                let given = (&self.config.assertion, &self.config.assertion_file);
                Some(credential("assertion", given).await?)
            }
            OAuthGrant::IdentityProvider => Some(self.vouched(&found, &scope).await?),
        };
        let mut form = match &assertion {
            Some(jwt) => vec![("grant_type", JWT_BEARER), ("assertion", jwt.expose())],
            None => vec![("grant_type", "client_credentials")],
        };
        form.push(("resource", &resource));
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        let endpoint = &found.metadata.token_endpoint;
        let proof = found.proof_key()?;
        let caller = OAuthClient { client: &client, key, proof: proof.as_ref() };
        let granted = grant::token(&self.exchange, StepKind::Token, endpoint, &caller, &form).await;
        let granted = granted.map_err(|refused| match refused.into_failure(endpoint) {
            AuthFailure::Failed(why) => AuthFailure::Unavailable(why),
            other => other,
        })?;
        // The next one is obtained the same way.
        let granted = Granted { refresh_token: None, ..granted };
        Ok(self.token(&found, &caller, granted))
    }

    /// The grant that the identity provider of the entry gives for its person.
    async fn vouched(&self, found: &FoundIssuer, scope: &str) -> Result<Secret, AuthFailure> {
        let Some(provider) = &self.config.identity_provider else {
            return Err(AuthFailure::refused("the entry names no `identityProvider`"));
        };
        let given = (&provider.id_token, &provider.id_token_file);
        let id_token = credential("idToken", given).await?;
        let endpoint = &provider.token_endpoint;
        let named = (provider.client_id.as_str(), provider.client_secret.as_ref());
        let (exchange, client) = self.client_at(endpoint, named)?;
        let wanted = WantedGrant { issuer: &found.issuer, resource: &found.resource, scope };
        let caller = OAuthClient::new(&client);
        grant::exchange_id_token(&exchange, endpoint, &caller, &id_token, &wanted).await
    }

    /// The client of an exchange, and how it reaches the endpoint that the entry names.
    fn client_at(
        &self,
        endpoint: &str,
        (id, secret): (&str, Option<&Secret>),
    ) -> Result<(TokenClient, StoredClient), AuthFailure> {
        let url = Url::parse(endpoint).map_err(AuthFailure::refused)?;
        let client = StoredClient {
            issuer: url.origin().ascii_serialization(),
            server: self.address.to_string(),
            id: id.to_owned(),
            auth: if secret.is_some() { ClientAuth::Basic } else { ClientAuth::None },
            secret: secret.map(|secret| secret.expose().to_owned()),
            secret_expires_at: None,
            redirect_uri: String::new(),
            origin: ClientOrigin::Configured,
        };
        // The person has named its address: it need not be near the server's.
        let exchange = TokenClient::new(&url, &TlsConfig::default(), self.exchange.events.clone())?;
        Ok((exchange, client))
    }

    /// A token of a caller for this server alone, for the caller's own.
    async fn exchanged(
        &self,
        subject: &Secret,
        wanted: &RequestedAccess,
    ) -> Result<StoredToken, AuthFailure> {
        let Some(how) = &self.config.exchange else {
            return Err(AuthFailure::refused("the entry names no `exchange`"));
        };
        let named = (how.client_id.as_str(), how.client_secret.as_ref());
        let (exchange, client) = self.client_at(&how.token_endpoint, named)?;
        let given = (&how.actor_token, &how.actor_token_file);
        let actor = match given {
            (None, None) => None,
            given => Some(credential("actorToken", given).await?),
        };
        let proof = (self.config.dpop == Some(true)).then(ProofKey::generate).transpose()?;
        let caller = OAuthClient { proof: proof.as_ref(), ..OAuthClient::new(&client) };
        let resource = how.resource.clone().unwrap_or_else(|| self.resource());
        let scopes = if wanted.scopes.is_empty() { &how.scopes } else { &wanted.scopes };
        let scope = scopes.join(" ");
        let audience = how.audience.as_deref();
        let wanted = WantedToken { resource: &resource, audience, scope: &scope };
        let tokens = (subject, actor.as_ref());
        let endpoint = &how.token_endpoint;
        let granted =
            grant::exchange_access_token(&exchange, endpoint, &caller, tokens, &wanted).await?;
        Ok(StoredToken {
            issuer: client.issuer.clone(),
            server: self.address.to_string(),
            resource,
            client: client.without_configured_secret(),
            proof_key: proof.as_ref().map(|key| key.stored().to_owned()),
            token_endpoint: how.token_endpoint.clone(),
            revocation_endpoint: None,
            access_token: granted.access_token,
            // The next one is exchanged anew, so that it ends with the caller's.
            refresh_token: None,
            obtained_at: now(),
            expires_in: granted.expires_in,
            scopes: granted.scopes.unwrap_or_else(|| scopes.clone()),
        })
    }

    fn token(&self, found: &FoundIssuer, by: &OAuthClient<'_>, granted: Granted) -> StoredToken {
        StoredToken {
            issuer: found.issuer.clone(),
            server: self.address.to_string(),
            resource: found.resource.clone(),
            client: by.client.without_configured_secret(),
            proof_key: by.proof.map(|key| key.stored().to_owned()),
            token_endpoint: found.metadata.token_endpoint.clone(),
            revocation_endpoint: found.revocation_endpoint(),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            obtained_at: now(),
            expires_in: granted.expires_in,
            // A server that names none has granted what was asked for (RFC 6749, section 5.1).
            scopes: granted.scopes.unwrap_or_else(|| found.scopes.clone()),
        }
    }
}

/// Longest JWT that is read from a file, in bytes.
const MAX_CREDENTIAL_BYTES: u64 = 64 << 10;

/// The JWT of a key of the entry, or of its file as it is now.
///
/// # Errors
/// When there is none, or its file cannot be used.
async fn credential(
    key: &str,
    (given, file): (&Option<Secret>, &Option<PathBuf>),
) -> Result<Secret, AuthFailure> {
    let Some(path) = file else {
        let none = || AuthFailure::refused(format!("`oauth` of the entry holds no `{key}`"));
        return given.clone().ok_or_else(none);
    };
    let shown = path.display();
    let failed = |why: String| AuthFailure::failed(format!("`{key}File` {shown}: {why}"));
    let read = async {
        let mut text = String::new();
        let opened = tokio::fs::File::open(path).await?;
        if !opened.metadata().await?.is_file() {
            return Err(std::io::Error::other("it is not a file"));
        }
        opened.take(MAX_CREDENTIAL_BYTES + 1).read_to_string(&mut text).await?;
        Ok(text)
    };
    let text = read.await.map_err(|error| failed(error.to_string()))?;
    if text.len() as u64 > MAX_CREDENTIAL_BYTES {
        return Err(failed(format!("it is over {MAX_CREDENTIAL_BYTES} bytes")));
    }
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(failed("it holds no token".to_owned()));
    }
    Ok(Secret::new(text))
}

/// Shows the address; returns the one that the browser was redirected to. Other answers that come
/// there are told to `strayed`.
async fn shown(
    prompt: &dyn SignInPrompt,
    request: SignIn,
    loopback: &Loopback,
    state: &str,
    strayed: impl Fn(&StrayAnswer),
) -> Result<String, AuthFailure> {
    let mine =
        |url: &str| Url::parse(url).is_ok_and(|url| query(&url, "state").as_deref() == Some(state));
    let back = loopback.callback(state, strayed);
    tokio::pin!(back);
    tokio::select! {
        url = &mut back => Ok(url),
        answer = prompt.sign_in(request) => match answer {
            Ok(None) => Ok(back.await),
            Ok(Some(pasted)) if mine(pasted.trim()) => Ok(pasted.trim().to_owned()),
            Ok(Some(_)) => Err(AuthFailure::refused(
                "the pasted address is not the answer to this sign-in (its `state` is another one)",
            )),
            Err(why) => Err(AuthFailure::Declined(why)),
        },
    }
}

/// The code of a callback whose `state` was already checked. The issuer is checked first: messages
/// from another server are not shown (RFC 9207).
fn code_of(back: &str, found: &FoundIssuer) -> Result<String, NotSignedIn> {
    let metadata: &AuthorizationMetadata = &found.metadata;
    let url = Url::parse(back).map_err(AuthFailure::refused)?;
    let issuer = query(&url, "iss");
    let refused = |why: String| Err(AuthFailure::refused(why).into());
    // Letter by letter, with what the server itself says (RFC 9207, section 2.4).
    let own = metadata.additional_fields.get(OWN_ISSUER).and_then(Value::as_str);
    if let (Some(issuer), Some(expected)) = (&issuer, own.or(metadata.issuer.as_deref()))
        && issuer != expected
    {
        return refused(format!(
            "the answer came from another issuer than {expected} (its `iss` differs)"
        ));
    }
    let named = metadata.additional_fields.get("authorization_response_iss_parameter_supported");
    if issuer.is_none() && named.and_then(Value::as_bool) == Some(true) {
        return refused("the answer does not name its issuer (`iss` is missing)".to_owned());
    }
    if let Some(error) = query(&url, "error") {
        let code = if is_code(&error) { error.as_str() } else { "an unknown error" };
        // It comes in the address of a page, which others can write too: shown, never acted on.
        let said = query(&url, "error_description").unwrap_or_default();
        let said = SafeText::cut(said.trim(), 200);
        let said = if said.as_str().is_empty() { String::new() } else { format!(": {said}") };
        let scope = match (code, found.scopes.is_empty()) {
            ("access_denied" | "invalid_scope", true) => {
                "; no scope was asked for: name one with `--scope`, or as `scopes` in `oauth` of \
                 the entry"
            }
            ("invalid_scope", false) => {
                "; ask for others with `--scope`, or as `scopes` in `oauth` of the entry"
            }
            _ => "",
        };
        return Err(match code {
            _ if is_client_refusal(code) => NotSignedIn::Client(error),
            "access_denied" => {
                AuthFailure::Declined(format!("the sign-in page says `{code}`{said}{scope}")).into()
            }
            _ => {
                AuthFailure::refused(format!("the sign-in page says `{code}`{said}{scope}")).into()
            }
        });
    }
    let code = query(&url, "code").filter(|code| !code.is_empty());
    code.ok_or_else(|| AuthFailure::refused("the answer holds no `code`").into())
}

fn query(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Longest wait for the user, so that an abandoned sign-in ends.
pub(super) const SIGN_IN_TIMEOUT: Duration = Duration::from_secs(15 * 60);
