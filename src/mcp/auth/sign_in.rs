//! Getting a first token: discovery, the client, the person's browser, the code; or the client's own
//! credentials. What is not safe is refused before an address is shown to anybody.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationMetadataSource,
    OAuthClientConfig,
};
use serde::Serialize;
use serde_json::Value;
use url::Url;

use super::exchange::{Exchange, error_code};
use super::grant::{self, Caller, Granted};
use super::loopback::Loopback;
use super::step::{AuthFailure, StepKind, Went};
use super::token::{ClientAuth, ClientOrigin, StoredClient, StoredToken, TokenStore};
use crate::base::ServerName;
use crate::base::text::SafeText;
use crate::config::OAuthConfig;

/// A sign-in that waits for a person.
#[derive(Clone, Debug)]
pub struct SignIn {
    /// The server that wants it.
    pub server: ServerName,
    /// Who asks for the person's name and password.
    pub issuer: SafeText,
    /// What the token will allow.
    pub scopes: Vec<SafeText>,
    /// The address to open; checked to be one of the web.
    pub url: Url,
    /// Where the browser comes back to.
    pub redirect_uri: String,
}

/// What a token with these scopes is for, in words: the scopes of `OpenID` Connect Core 1.0
/// (sections 5.4 and 11), and those that join a verb to a thing, as `repo:read` does. Others stand as they are.
pub fn scopes_in_words<'a>(scopes: impl IntoIterator<Item = &'a str>) -> String {
    const VERBS: [&str; 8] =
        ["admin", "call", "create", "delete", "list", "manage", "read", "write"];
    let words = |scope: &str| {
        let known = match scope {
            "openid" => "who you are",
            "profile" => "your name and picture",
            "email" => "your email address",
            "address" => "your postal address",
            "phone" => "your phone number",
            "offline_access" => "staying signed in while you are away",
            _ => {
                let (first, second) = scope.split_once([':', '.'])?;
                let verb = |word: &str| VERBS.contains(&word);
                return match (verb(first), verb(second)) {
                    (true, false) => Some(format!("{first} {second} ({scope})")),
                    (false, true) => Some(format!("{second} {first} ({scope})")),
                    _ => None,
                };
            }
        };
        Some(format!("{known} ({scope})"))
    };
    let words = scopes.into_iter().map(|scope| words(scope).unwrap_or_else(|| scope.to_owned()));
    let words: Vec<String> = words.collect();
    if words.is_empty() { "nothing in particular".to_owned() } else { words.join(", ") }
}

/// Shows a sign-in to a person.
pub trait SignInPrompt: Send + Sync + 'static {
    /// Shows it. `None` when the browser will come back by itself to `redirect_uri`, or else the
    /// address it was sent to, as the person pasted it. Dropped when the browser came back.
    ///
    /// # Errors
    /// Why the person does not want to sign in.
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>>;
}

/// What a sign-in is for.
pub(super) struct Wanted<'a> {
    pub(super) server: &'a ServerName,
    pub(super) resource: &'a Url,
    pub(super) config: &'a OAuthConfig,
    pub(super) store: &'a dyn TokenStore,
    pub(super) exchange: &'a Exchange,
    /// `WWW-Authenticate` of the refusal that led here.
    pub(super) challenge: Option<&'a str>,
    /// Scopes to ask for; those of the entry or the challenge when empty.
    pub(super) scopes: Vec<String>,
}

/// Where a server sends those who sign in, as its metadata says now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Authorization {
    /// Who issues tokens.
    pub issuer: String,
    /// Where a person signs in.
    pub authorization_endpoint: String,
    /// Where codes and refresh tokens are exchanged.
    pub token_endpoint: String,
    /// Where clients are registered, when that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registration_endpoint: Option<String>,
    /// Where tokens are revoked, when that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revocation_endpoint: Option<String>,
}

/// An authorization server, found and checked.
struct Found {
    manager: AuthorizationManager,
    metadata: AuthorizationMetadata,
    issuer: String,
    published: bool,
    scopes: Vec<String>,
}

/// One parameter of a challenge.
pub(super) fn parameter(challenge: &str, name: &str) -> Option<String> {
    let lower = challenge.to_ascii_lowercase();
    let key = format!("{name}=");
    let mut from = 0;
    let start = loop {
        let at = from + lower.get(from..)?.find(&key)?;
        let before = lower[..at].chars().next_back();
        from = at + key.len();
        if before.is_none_or(|c| c == ' ' || c == ',') {
            break from;
        }
    };
    let rest = &challenge[start..];
    Some(match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next()?.to_owned(),
        None => rest.split([',', ' ']).next()?.to_owned(),
    })
}

impl Wanted<'_> {
    /// Looks where one signs in, and asks nobody.
    pub(super) async fn look(&self) -> Result<Authorization, AuthFailure> {
        let found = self.find().await?;
        if !self.config.machine {
            found.has_pkce()?;
        }
        let revocation_endpoint = found.revocation_endpoint();
        let AuthorizationMetadata {
            authorization_endpoint,
            token_endpoint,
            registration_endpoint,
            ..
        } = found.metadata;
        let issuer = found.issuer;
        Ok(Authorization {
            issuer,
            authorization_endpoint,
            token_endpoint,
            registration_endpoint,
            revocation_endpoint,
        })
    }

    async fn find(&self) -> Result<Found, AuthFailure> {
        let check = |what: &str, url: &str| {
            let parsed = Url::parse(url).map_err(|error| error.to_string());
            parsed
                .and_then(|url| self.exchange.policy.check(&url))
                .map_err(|why| AuthFailure::refused(format!("the {what} {url}: {why}")))
        };
        if let Some(named) = self.challenge.and_then(|c| parameter(c, "resource_metadata")) {
            let url = self.resource.join(&named).map(String::from).unwrap_or(named);
            check("resource metadata", &url)?;
        }
        let exchange = Arc::new(self.exchange.clone());
        let manager =
            AuthorizationManager::new_with_oauth_http_client(self.resource.clone(), exchange).await;
        let mut manager = manager.map_err(told)?;
        let found = manager.resolve_metadata_from_challenge(self.challenge).await.map_err(told)?;
        let metadata = found.metadata;
        manager.set_metadata(metadata.clone());
        check("authorization endpoint", &metadata.authorization_endpoint)?;
        check("token endpoint", &metadata.token_endpoint)?;
        if let Some(url) = &metadata.registration_endpoint {
            check("registration endpoint", url)?;
        }
        let published =
            !matches!(found.source, AuthorizationMetadataSource::LegacyEndpointFallback);
        let issuer = metadata.issuer.clone().unwrap_or_else(|| {
            let endpoint = Url::parse(&metadata.token_endpoint);
            endpoint.map(|url| url.origin().ascii_serialization()).unwrap_or_default()
        });
        let supported = metadata.scopes_supported.as_deref().unwrap_or_default();
        let mut scopes = if !self.scopes.is_empty() {
            self.scopes.clone()
        } else if !self.config.scopes.is_empty() {
            self.config.scopes.clone()
        } else {
            manager.select_initial_scopes(&[]).await
        };
        let offline = "offline_access".to_owned();
        if !scopes.is_empty() && supported.contains(&offline) && !scopes.contains(&offline) {
            scopes.push(offline);
        }
        Ok(Found { manager, metadata, issuer, published, scopes })
    }

    /// Asks a person.
    pub(super) async fn ask(&self, prompt: &dyn SignInPrompt) -> Result<StoredToken, AuthFailure> {
        let mut found = self.find().await?;
        found.has_pkce()?;
        let known = self.store.client(&found.issuer).map_err(AuthFailure::failed)?;
        let remembered = known.as_ref().and_then(|client| Url::parse(&client.redirect_uri).ok());
        let remembered = remembered.and_then(|url| url.port());
        let loopback = Loopback::bind(self.config.callback_port, remembered).await?;
        let client = self.client(&mut found, known, loopback.redirect_uri()).await?;
        self.store.save_client(&client.kept()).map_err(AuthFailure::failed)?;
        let scopes: Vec<&str> = found.scopes.iter().map(String::as_str).collect();
        let url = found.manager.get_authorization_url(&scopes).await.map_err(told)?;
        let url = Url::parse(&url).map_err(AuthFailure::refused)?;
        self.exchange.policy.check(&url).map_err(AuthFailure::refused)?;
        let resource = query(&url, "resource").unwrap_or_else(|| self.resource.to_string());
        let state = query(&url, "state").unwrap_or_default();
        let request = SignIn {
            server: self.server.clone(),
            issuer: SafeText::line(&found.issuer),
            scopes: found.scopes.iter().map(|scope| SafeText::line(scope)).collect(),
            url: url.clone(),
            redirect_uri: loopback.redirect_uri(),
        };
        let began = Instant::now();
        let back = shown(prompt, request, &loopback, &state).await;
        let answered = back.as_ref().ok().and_then(|back| Some(back.split_once('?')?.1.to_owned()));
        let answered = answered.unwrap_or_default();
        let done = back.and_then(|back| code_of(&back, &state, &found.metadata));
        let why = done.as_ref().err().map(ToString::to_string);
        let went = Went {
            took: began.elapsed(),
            refused: why.as_deref(),
            sent: url.query().unwrap_or_default().as_bytes(),
            answered: answered.as_bytes(),
            status: None,
        };
        self.exchange.events.step(StepKind::Authorize, &url, went);
        let (code, issuer) = done?;
        let answer =
            found.manager.exchange_code_for_token_with_issuer(&code, &state, issuer.as_deref());
        let answer = answer.await.map_err(told)?;
        let answer = serde_json::to_vec(&answer).map_err(AuthFailure::failed)?;
        let granted = grant::granted(&answer)
            .ok_or_else(|| AuthFailure::refused("the token is not a bearer token"))?;
        Ok(found.token(resource, client.kept(), granted))
    }

    /// The client, in the order of the specification: registered manually, a metadata document, one
    /// the host has registered or registers now.
    async fn client(
        &self,
        found: &mut Found,
        known: Option<StoredClient>,
        redirect_uri: String,
    ) -> Result<StoredClient, AuthFailure> {
        let Found { manager, metadata, issuer, scopes, .. } = found;
        let documents = metadata.additional_fields.get("client_id_metadata_document_supported");
        let documents = documents.and_then(Value::as_bool).unwrap_or(false);
        let document = self.config.client_metadata_url.as_ref().filter(|_| documents);
        let known = known.filter(|client| {
            client.origin == ClientOrigin::Registered && client.redirect_uri == redirect_uri
        });
        let (id, secret, origin) = if let Some(id) = &self.config.client_id {
            let secret = self.config.client_secret.as_ref().map(|s| s.expose().to_owned());
            (id.clone(), secret, ClientOrigin::Configured)
        } else if let Some(document) = document {
            (document.clone(), None, ClientOrigin::MetadataDocument)
        } else if let Some(known) = known {
            (known.id, known.secret, ClientOrigin::Registered)
        } else if metadata.registration_endpoint.is_some() {
            let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
            let made = manager.register_client("mcpdeck", &redirect_uri, &scopes).await;
            let made = made.map_err(told)?;
            (made.client_id, made.client_secret, ClientOrigin::Registered)
        } else {
            return Err(AuthFailure::refused(format!(
                "{issuer} registers no clients by itself: register mcpdeck there with the redirect \
                 address {redirect_uri}, and put its `clientId` and the port as `callbackPort` into \
                 `oauth` of the entry"
            )));
        };
        let mut config = OAuthClientConfig::new(&id, &redirect_uri);
        config.client_secret.clone_from(&secret);
        manager.configure_client(config).map_err(told)?;
        let auth = client_auth(metadata, secret.is_some());
        Ok(StoredClient { issuer: issuer.clone(), id, secret, auth, redirect_uri, origin })
    }

    /// Signs the client itself in.
    pub(super) async fn machine(&self) -> Result<StoredToken, AuthFailure> {
        let found = self.find().await?;
        let key = self.config.private_key.as_ref();
        let secret = self.config.client_secret.as_ref().map(|s| s.expose().to_owned());
        let auth = match key {
            Some(_) => ClientAuth::PrivateKey,
            None => client_auth(&found.metadata, secret.is_some()),
        };
        let client = StoredClient {
            issuer: found.issuer.clone(),
            id: self.config.client_id.clone().unwrap_or_default(),
            secret,
            auth,
            redirect_uri: String::new(),
            origin: ClientOrigin::Configured,
        };
        let (resource, scope) = (self.resource.to_string(), found.scopes.join(" "));
        let mut form = vec![("grant_type", "client_credentials"), ("resource", &resource)];
        if !scope.is_empty() {
            form.push(("scope", &scope));
        }
        let endpoint = &found.metadata.token_endpoint;
        let caller = Caller { client: &client, key };
        let granted = grant::token(self.exchange, StepKind::Token, endpoint, &caller, &form).await;
        let granted = granted.map_err(|refused| refused.into_failure(endpoint))?;
        // The next one is got in the same way.
        let granted = Granted { refresh_token: None, ..granted };
        Ok(found.token(resource, client.kept(), granted))
    }
}

impl Found {
    /// Whether codes are protected (RFC 7636); guessed endpoints cannot say.
    fn has_pkce(&self) -> Result<(), AuthFailure> {
        let methods = self.metadata.code_challenge_methods_supported.as_deref();
        let has = methods.is_some_and(|all| all.iter().any(|method| method == "S256"));
        if has || !self.published {
            return Ok(());
        }
        Err(AuthFailure::refused(format!(
            "the metadata of {} does not offer PKCE with S256, which protects the code",
            self.issuer
        )))
    }

    fn revocation_endpoint(&self) -> Option<String> {
        let named = self.metadata.additional_fields.get("revocation_endpoint");
        named.and_then(Value::as_str).map(str::to_owned)
    }

    fn token(&self, resource: String, client: StoredClient, granted: Granted) -> StoredToken {
        StoredToken {
            issuer: self.issuer.clone(),
            resource,
            client,
            token_endpoint: self.metadata.token_endpoint.clone(),
            revocation_endpoint: self.revocation_endpoint(),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            obtained_at: grant::now(),
            expires_in: granted.expires_in,
            // A server that names none has granted what was asked for (RFC 6749, section 5.1).
            scopes: granted.scopes.unwrap_or_else(|| self.scopes.clone()),
        }
    }
}

/// Shows the address, and gives the one that the browser came back with.
async fn shown(
    prompt: &dyn SignInPrompt,
    request: SignIn,
    loopback: &Loopback,
    state: &str,
) -> Result<String, AuthFailure> {
    let mine =
        |url: &str| Url::parse(url).is_ok_and(|url| query(&url, "state").as_deref() == Some(state));
    let back = loopback.callback(mine);
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

/// The code and the `iss` of a callback whose `state` was compared. The issuer comes first: what
/// another server says is not shown (RFC 9207).
fn code_of(
    back: &str,
    state: &str,
    metadata: &AuthorizationMetadata,
) -> Result<(String, Option<String>), AuthFailure> {
    let url = Url::parse(back).map_err(AuthFailure::refused)?;
    debug_assert_eq!(query(&url, "state").as_deref(), Some(state));
    let issuer = query(&url, "iss");
    if let (Some(issuer), Some(expected)) = (&issuer, &metadata.issuer)
        && issuer != expected
    {
        return Err(AuthFailure::refused(format!(
            "the answer came from another issuer than {expected} (its `iss` differs)"
        )));
    }
    let named = metadata.additional_fields.get("authorization_response_iss_parameter_supported");
    if issuer.is_none() && named.and_then(Value::as_bool) == Some(true) {
        return Err(AuthFailure::refused("the answer does not say who gave it (`iss` is missing)"));
    }
    if let Some(error) = query(&url, "error") {
        let body = serde_json::json!({ "error": error }).to_string();
        let code = error_code(body.as_bytes()).unwrap_or_else(|| "an unknown error".to_owned());
        return Err(match code.as_str() {
            "access_denied" => {
                AuthFailure::Declined("the sign-in page says `access_denied`".into())
            }
            _ => AuthFailure::refused(format!("the sign-in page says `{code}`")),
        });
    }
    let code = query(&url, "code").filter(|code| !code.is_empty());
    code.map(|code| (code, issuer))
        .ok_or_else(|| AuthFailure::refused("the answer holds no `code`"))
}

fn query(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// How a client says who it is: as it can and the server takes.
fn client_auth(metadata: &AuthorizationMetadata, secret: bool) -> ClientAuth {
    let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported");
    let methods = methods.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let takes = |name: &str| methods.iter().any(|method| method == name);
    match secret {
        false => ClientAuth::None,
        true if takes("client_secret_post") && !takes("client_secret_basic") => ClientAuth::Post,
        true => ClientAuth::Basic,
    }
}

/// An error of rmcp with its cause.
fn told(error: AuthError) -> AuthFailure {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    let text = SafeText::cut(&text, 400).to_string();
    match error {
        AuthError::HttpError(_)
        | AuthError::DiscoveryRequestFailed { .. }
        | AuthError::TokenExchangeFailed(_)
        | AuthError::RegistrationFailed(_) => AuthFailure::Failed(text),
        _ => AuthFailure::Refused(text),
    }
}

/// Longest wait for a person, so that nothing waits for ever for one who has gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_said_in_words_and_keep_their_names() {
        assert_eq!(
            scopes_in_words(["openid", "offline_access", "repo:read", "write.files", "a:b"]),
            "who you are (openid), staying signed in while you are away (offline_access), \
             read repo (repo:read), write files (write.files), a:b"
        );
        assert_eq!(scopes_in_words([]), "nothing in particular");
    }

    #[test]
    fn a_parameter_is_found_by_its_whole_name() {
        let challenge = r#"Bearer error="insufficient_scope", error_description="scope=x", scope="a b", resource_metadata=https://a/b"#;
        assert_eq!(parameter(challenge, "error").as_deref(), Some("insufficient_scope"));
        assert_eq!(parameter(challenge, "scope").as_deref(), Some("a b"));
        assert_eq!(parameter(challenge, "resource_metadata").as_deref(), Some("https://a/b"));
        assert_eq!(parameter(challenge, "realm"), None);
        assert_eq!(parameter("bearer SCOPE=", "scope").as_deref(), Some(""));
    }
}
