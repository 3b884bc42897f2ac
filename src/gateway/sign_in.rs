//! Callers that sign in at an issuer (OAuth 2.1): the service as a protected resource. Checks their
//! tokens by the keys of the issuer, or asks it, and finds their profiles. Keeps no token, and
//! passes none on.

mod jws;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::{Mutex, RwLock};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use url::Url;

pub(crate) use self::jws::BOUND_TO_KEY;
use self::jws::{IssuerKey, MAX_TOKEN_BYTES, SignedToken, end_of_claims, restriction_of_claims};
use super::outside::{LackedScope, Outside};
use super::state::Gateway;
use super::tokens::{Client, DEFAULT_SCOPES};
use base::file::hex;
use base::notices::notify;
use base::{Clock, Timestamp};
use config::{Environment, TlsConfig, expand_argument};
use host::{
    AccessScope, CallerIdentity, DEFAULT_PROFILE, IntrospectionConfig, OutsideCode, SignInConfig,
    is_safe_address,
};
use mcp::client_builder;

/// Where clients read how to sign in (RFC 9728, section 3); the path of the resource may follow.
pub(crate) const METADATA_PATH: &str = "/.well-known/oauth-protected-resource";
/// Longest time that the issuer may take to answer.
const ISSUER_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest answer of the issuer, in bytes.
const MAX_ISSUER_BYTES: usize = 256 << 10;
/// Most keys of an issuer.
const MAX_ISSUER_KEYS: usize = 100;
/// Keys are read again after this time: one that the issuer took back is accepted no longer.
const KEYS_AGE: Duration = Duration::from_secs(300);
/// Least time between two reads of the keys, whatever keys tokens name.
const KEYS_INTERVAL: Duration = Duration::from_secs(1);
/// How long an answer about a token that is no JWT is used.
const ANSWER_AGE: Duration = Duration::from_secs(30);
/// Most such answers that are kept.
const MAX_ANSWERS: usize = 1_000;
/// Longest id of a caller that is spelled as its issuer does.
const MAX_SUBJECT_BYTES: usize = 80;

/// How the ids of callers that have signed in begin; those of local tokens have no slash.
pub(crate) const SIGNED_IN_PREFIX: &str = "user/";

/// A caller that has signed in.
#[derive(Clone, Debug)]
pub(crate) struct SignedIn {
    id: Arc<str>,
    /// The profiles that it may act under, the usual one first.
    profiles: Arc<[Arc<str>]>,
    scopes: Vec<AccessScope>,
    /// When its token ends.
    expires: Timestamp,
    identity: Arc<CallerIdentity>,
}

/// Why a token is not accepted.
#[derive(Clone, Debug)]
pub(crate) enum SignInRefusal {
    /// It is none of ours; the reason may be told.
    Invalid(&'static str),
    /// The issuer cannot be asked now.
    Away,
}

/// Checks the tokens of signed-in callers, by the policy in force.
#[derive(Default)]
pub(crate) struct IssuedTokens {
    environment: Environment,
    issuer: Mutex<Option<Arc<Issuer>>>,
}

/// The issuer of a policy.
struct Issuer {
    config: SignInConfig,
    http: reqwest::Client,
    keys: RwLock<Arc<IssuerKeys>>,
    /// One read at a time; the last one.
    reading: tokio::sync::Mutex<Option<KeysRead>>,
    answers: Mutex<HashMap<[u8; 32], IntrospectedToken>>,
    /// Questions about tokens in flight: simultaneous callers of one token wait for one answer.
    asking: Mutex<HashMap<[u8; 32], WeakShared<Introspection>>>,
    /// Where the metadata says that tokens are asked about, since when.
    introspection: Mutex<Option<(String, Instant)>>,
    is_failing: Mutex<bool>,
}

/// The answer to a question about a token; an error when the issuer cannot be asked. It comes as
/// long as one of those that wait for it is there.
type Introspection = BoxFuture<'static, Result<Option<Arc<Value>>, ()>>;

/// A read of the keys.
struct KeysRead {
    when: Instant,
    has_failed: bool,
}

#[derive(Default)]
struct IssuerKeys {
    keys: Vec<IssuerKey>,
    read: Option<Instant>,
}

/// What the issuer said about a token; no claims when it does not hold.
#[derive(Clone)]
struct IntrospectedToken {
    claims: Option<Arc<Value>>,
    when: Instant,
}

impl IssuedTokens {
    /// Reads the references of the policy in this environment.
    pub fn new(environment: Environment) -> Self {
        Self { environment, issuer: Mutex::default() }
    }

    /// The issuer that the policy names; a new one when it names another.
    fn issuer(&self, config: &SignInConfig) -> Result<Arc<Issuer>, SignInRefusal> {
        let mut issuer = self.issuer.lock();
        if let Some(issuer) = issuer.as_ref().filter(|issuer| issuer.config == *config) {
            return Ok(Arc::clone(issuer));
        }
        let new = Arc::new(Issuer::new(config.clone()).map_err(|why| {
            notify(&format!("policy/signIn: {why}"));
            SignInRefusal::Away
        })?);
        *issuer = Some(Arc::clone(&new));
        Ok(new)
    }

    /// The claims of a token, and its end in seconds since 1970.
    async fn claims(
        &self,
        config: &SignInConfig,
        token: &str,
    ) -> Result<(Arc<Value>, u64), SignInRefusal> {
        if token.len() > MAX_TOKEN_BYTES {
            return Err(SignInRefusal::Invalid("the token is too long"));
        }
        let issuer = self.issuer(config)?;
        let claims = match SignedToken::parse(token, config.algorithms()) {
            Some(Ok(signed)) => Arc::new(issuer.signed_claims(&signed).await?),
            Some(Err(why)) => return Err(SignInRefusal::Invalid(why)),
            None => match &config.introspection {
                Some(how) => issuer.ask_about(how, &self.environment, token).await?,
                None => return Err(SignInRefusal::Invalid("the token is unknown here")),
            },
        };
        let now = Clock::system().now().0 / 1_000_000;
        let end = end_of_claims(&claims, config, now).map_err(SignInRefusal::Invalid)?;
        if let Some(why) = restriction_of_claims(&claims) {
            return Err(SignInRefusal::Invalid(why));
        }
        Ok((claims, end))
    }
}

impl Issuer {
    fn new(config: SignInConfig) -> Result<Self, String> {
        let url = Url::parse(&config.issuer).map_err(|error| error.to_string())?;
        let http = client_builder(&url, &TlsConfig::default())?
            .redirect(reqwest::redirect::Policy::none())
            .timeout(ISSUER_TIMEOUT)
            .build();
        Ok(Self {
            config,
            http: http.map_err(|error| error.to_string())?,
            keys: RwLock::default(),
            reading: tokio::sync::Mutex::default(),
            answers: Mutex::default(),
            asking: Mutex::default(),
            introspection: Mutex::default(),
            is_failing: Mutex::default(),
        })
    }

    /// The claims of a token that one of the keys has signed.
    async fn signed_claims(&self, token: &SignedToken<'_>) -> Result<Value, SignInRefusal> {
        let unknown = SignInRefusal::Invalid("the token is signed by no key of its issuer");
        let keys = Arc::clone(&self.keys.read());
        let is_young = keys.read.is_some_and(|read| read.elapsed() < KEYS_AGE);
        let claims = |keys: &IssuerKeys| token.claims_signed_by(&keys.keys).cloned();
        if is_young && let Some(claims) = claims(&keys) {
            return Ok(claims);
        }
        // A new key, an old one that is gone, or a wrong token.
        let read = self.read_keys(&keys).await;
        let keys = Arc::clone(&self.keys.read());
        match (claims(&keys), read) {
            // While the issuer cannot be asked, what it said last stays in force.
            (Some(claims), _) => Ok(claims),
            // It may be signed by a key that the issuer has begun to use.
            (None, Err(())) if keys.read.is_none() || token.names_none_of(&keys.keys) => {
                Err(SignInRefusal::Away)
            }
            (None, _) => Err(unknown),
        }
    }

    /// Reads the keys again, unless others just did.
    async fn read_keys(&self, seen: &Arc<IssuerKeys>) -> Result<(), ()> {
        let mut last = self.reading.lock().await;
        if !Arc::ptr_eq(seen, &self.keys.read()) {
            return Ok(());
        }
        if let Some(last) = last.as_ref().filter(|last| last.when.elapsed() < KEYS_INTERVAL) {
            return if last.has_failed { Err(()) } else { Ok(()) };
        }
        let when = Instant::now();
        let read = self.fetch_keys().await;
        *last = Some(KeysRead { when, has_failed: read.is_err() });
        self.report(read.as_ref().err());
        let keys = read.map_err(|_| ())?;
        *self.keys.write() = Arc::new(IssuerKeys { keys, read: Some(Instant::now()) });
        Ok(())
    }

    async fn fetch_keys(&self) -> Result<Vec<IssuerKey>, String> {
        let place = match &self.config.jwks {
            Some(jwks) => jwks.clone(),
            None => self.endpoint("jwks_uri").await?,
        };
        let set = self.json(self.http.get(&place)).await.map_err(|e| format!("{place}: {e}"))?;
        let keys = set["keys"].as_array().ok_or_else(|| format!("{place}: it has no `keys`"))?;
        let keys: Vec<_> =
            keys.iter().take(MAX_ISSUER_KEYS).filter_map(IssuerKey::from_jwk).collect();
        if keys.is_empty() {
            return Err(format!("{place}: it has no key that signs tokens"));
        }
        Ok(keys)
    }

    /// An endpoint that the metadata of the issuer names (RFC 8414; `OpenID` Connect Discovery).
    async fn endpoint(&self, name: &str) -> Result<String, String> {
        let issuer = self.config.issuer.trim_end_matches('/');
        let mut places = vec![format!("{issuer}/.well-known/openid-configuration")];
        if let Ok(mut url) = Url::parse(issuer) {
            let path = url.path().trim_end_matches('/').to_owned();
            url.set_path(&format!("/.well-known/oauth-authorization-server{path}"));
            places.push(url.into());
        }
        let mut problems = Vec::new();
        for place in places {
            let metadata = match self.json(self.http.get(&place)).await {
                Ok(metadata) => metadata,
                Err(error) => {
                    problems.push(format!("{place}: {error}"));
                    continue;
                }
            };
            if metadata["issuer"].as_str() != Some(&self.config.issuer) {
                problems.push(format!("{place}: it is the metadata of another issuer"));
                continue;
            }
            let endpoint = metadata[name].as_str().and_then(|url| Url::parse(url).ok());
            match endpoint.filter(is_safe_address) {
                Some(url) => return Ok(url.into()),
                None => problems.push(format!("{place}: it has no usable `{name}`")),
            }
        }
        Err(problems.join("; "))
    }

    /// What the issuer says about a token (RFC 7662).
    async fn ask_about(
        self: Arc<Self>,
        how: &IntrospectionConfig,
        environment: &Environment,
        token: &str,
    ) -> Result<Arc<Value>, SignInRefusal> {
        let unknown = SignInRefusal::Invalid("the issuer does not know the token, or ended it");
        let key: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.known(&key) {
            return known.claims.ok_or(unknown);
        }
        let answer = self.asking_about(key, how, environment, token);
        let claims = answer.await.map_err(|()| SignInRefusal::Away)?;
        claims.ok_or(unknown)
    }

    /// What the issuer said about a token not long ago.
    fn known(&self, key: &[u8; 32]) -> Option<IntrospectedToken> {
        let answers = self.answers.lock();
        answers.get(key).filter(|known| known.when.elapsed() < ANSWER_AGE).cloned()
    }

    /// The question about a token: the one that is in flight, or a new one.
    fn asking_about(
        self: Arc<Self>,
        key: [u8; 32],
        how: &IntrospectionConfig,
        environment: &Environment,
        token: &str,
    ) -> Shared<Introspection> {
        let issuer = Arc::clone(&self);
        let mut asking = issuer.asking.lock();
        if let Some(asked) = asking.get(&key).and_then(WeakShared::upgrade) {
            return asked;
        }
        asking.retain(|_, asked| asked.upgrade().is_some());
        let (how, environment, token) = (how.clone(), environment.clone(), token.to_owned());
        let asked: Introspection = async move {
            // Another one may have ended between the look at its answer and now.
            if let Some(known) = self.known(&key) {
                return Ok(known.claims);
            }
            let answer = self.introspected(&how, &environment, &token).await;
            self.report(answer.as_ref().err());
            let claims = answer.map_err(|_| ())?;
            self.keep(key, claims.clone());
            Ok(claims)
        }
        .boxed();
        let asked = asked.shared();
        asking.extend(asked.downgrade().map(|weak| (key, weak)));
        asked
    }

    /// Keeps an answer about a token for a while.
    fn keep(&self, key: [u8; 32], claims: Option<Arc<Value>>) {
        let mut answers = self.answers.lock();
        if answers.len() >= MAX_ANSWERS {
            answers.retain(|_, known| known.when.elapsed() < ANSWER_AGE);
            if answers.len() >= MAX_ANSWERS {
                answers.clear();
            }
        }
        answers.insert(key, IntrospectedToken { claims, when: Instant::now() });
    }

    /// Where tokens are asked about, as the metadata of the issuer says; read again now and then.
    async fn introspection_endpoint(&self) -> Result<String, String> {
        let known = self.introspection.lock().clone();
        if let Some((url, _)) = known.filter(|(_, read)| read.elapsed() < KEYS_AGE) {
            return Ok(url);
        }
        let url = self.endpoint("introspection_endpoint").await?;
        *self.introspection.lock() = Some((url.clone(), Instant::now()));
        Ok(url)
    }

    async fn introspected(
        &self,
        how: &IntrospectionConfig,
        environment: &Environment,
        token: &str,
    ) -> Result<Option<Arc<Value>>, String> {
        let place = match &how.url {
            Some(url) => url.clone(),
            None => self.introspection_endpoint().await?,
        };
        let secret = expand_argument(&how.client_secret, environment)?;
        let body = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("token", token)
            .append_pair("token_type_hint", "access_token")
            .finish();
        // Both are form-encoded first (RFC 6749, section 2.3.1).
        let encoded = |text: &str| -> String {
            url::form_urlencoded::byte_serialize(text.as_bytes()).collect()
        };
        let request = self
            .http
            .post(&place)
            .basic_auth(encoded(&how.client_id), Some(encoded(secret.expose())))
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body);
        let answer = self.json(request).await;
        if answer.is_err() {
            // It may have moved.
            *self.introspection.lock() = None;
        }
        let mut claims = answer.map_err(|error| format!("{place}: {error}"))?;
        if claims["active"] != true {
            return Ok(None);
        }
        // Who answers is the issuer, whether it says so or not.
        if let Some(claims) = claims.as_object_mut() {
            claims.entry("iss").or_insert_with(|| self.config.issuer.clone().into());
        }
        Ok(Some(Arc::new(claims)))
    }

    async fn json(&self, request: reqwest::RequestBuilder) -> Result<Value, String> {
        let plain = |error: reqwest::Error| error.without_url().to_string();
        let request = request.header(header::ACCEPT, "application/json");
        let mut response = request.send().await.map_err(plain)?;
        if response.status() != StatusCode::OK {
            return Err(format!("it answered {}", response.status()));
        }
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(plain)? {
            body.extend_from_slice(&chunk);
            if body.len() > MAX_ISSUER_BYTES {
                return Err("its answer is too large".to_owned());
            }
        }
        serde_json::from_slice(&body).map_err(|_| "its answer is no JSON".to_owned())
    }

    /// Tells the operator when the issuer cannot be asked, and when it can again.
    fn report(&self, problem: Option<&String>) {
        let mut is_failing = self.is_failing.lock();
        if std::mem::replace(&mut *is_failing, problem.is_some()) == problem.is_some() {
            return;
        }
        match problem {
            Some(problem) => notify(&format!(
                "the issuer of sign-ins cannot be asked: {problem}; what it said last is used"
            )),
            None => notify("the issuer of sign-ins answers"),
        }
    }
}

impl Gateway {
    /// The client of a bearer token: a local one, or one that signed in.
    ///
    /// # Errors
    /// Why the token is not accepted.
    pub async fn authenticate(&self, bearer: &str) -> Result<Client, SignInRefusal> {
        if let Some(client) = self.client(bearer) {
            return Ok(client);
        }
        let in_force = self.host.in_force();
        let Some(config) = &in_force.config.sign_in else {
            return Err(SignInRefusal::Invalid("the token is unknown here"));
        };
        let checked = self.sign_in.claims(config, bearer).await;
        if let Err(SignInRefusal::Invalid(_)) = &checked {
            // It may have been good before: what was opened with it ends.
            self.host.end_sessions_of(&CallerIdentity::key_of(bearer));
        }
        let (claims, end) = checked?;
        let subject = ["sub", "client_id", "azp"].iter().find_map(|name| claims[*name].as_str());
        let subject = subject.filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(SignInRefusal::Invalid("the token says not whose it is"))?;
        if in_force.config.lacks_claims(&claims) {
            return Err(SignInRefusal::Invalid(
                "the issuer left out claims that decide about the profile (_claim_names, \
                 hasgroups): have it name only the groups of this application, or roles",
            ));
        }
        let mut profiles = in_force.config.profiles_of_claims(&claims);
        if profiles.is_empty() {
            profiles.push(DEFAULT_PROFILE.into());
        }
        let expires = Timestamp(end.saturating_mul(1_000_000));
        let caller = SignedIn {
            identity: Arc::new(CallerIdentity::new(subject, bearer, expires)),
            id: id_of(subject).into(),
            profiles: profiles.into(),
            scopes: scopes_of(&claims),
            expires,
        };
        let now = self.host.clock().now();
        let mut client = Client::signed_in(caller);
        client.cut = self.options.clients.seen(&client.principal(), now);
        Ok(client)
    }

    /// The answer to a request without a token that is accepted (RFC 9728, section 5.1; RFC 6750,
    /// section 3).
    pub fn challenge(&self, refusal: Option<SignInRefusal>) -> Response {
        let in_force = self.host.in_force();
        let config = in_force.config.sign_in.as_ref();
        if let (Some(SignInRefusal::Away), Some(_)) = (&refusal, config) {
            let message = "the issuer cannot be asked about the token now: try again";
            return Outside::away(message).into_response();
        }
        let mut challenge = "Bearer".to_owned();
        let message = match config {
            None => {
                "send `Authorization: Bearer TOKEN`; the operator has the token file".to_owned()
            }
            Some(config) => {
                let mut parts = Vec::new();
                let why = match refusal {
                    Some(SignInRefusal::Invalid(why)) => {
                        parts.push("error=\"invalid_token\"".to_owned());
                        parts.push(format!("error_description=\"{}\"", why.replace('"', "'")));
                        why
                    }
                    Some(SignInRefusal::Away) | None => "a token is missing",
                };
                parts.extend(
                    metadata_address(config)
                        .map(|address| format!("resource_metadata=\"{address}\"")),
                );
                challenge = format!("Bearer {}", parts.join(", "));
                format!(
                    "{why}: sign in at the issuer that `resource_metadata` names, or send a \
                         token of the operator"
                )
            }
        };
        let refused =
            Outside::new(OutsideCode::PermissionDenied, StatusCode::UNAUTHORIZED, message);
        let mut response = refused.into_response();
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }

    /// Adds to a refusal for want of a scope what the client asks its issuer for (RFC 6750, section
    /// 3.1, `insufficient_scope`): that scope, after those that it holds and shall not lose.
    pub fn demand_scope(&self, mut response: Response, held: &[AccessScope]) -> Response {
        let Some(LackedScope(lacked)) = response.extensions().get().copied() else {
            return response;
        };
        let all = held.iter().chain([&lacked]).map(|scope| scope.as_str());
        let scope = all.collect::<Vec<_>>().join(" ");
        let in_force = self.host.in_force();
        let address = in_force.config.sign_in.as_ref().and_then(metadata_address);
        let address = address.map(|it| format!(", resource_metadata=\"{it}\"")).unwrap_or_default();
        let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"{address}");
        if let Ok(challenge) = HeaderValue::try_from(challenge) {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
        }
        response
    }
}

impl Client {
    fn signed_in(caller: SignedIn) -> Self {
        let SignedIn { id, profiles, scopes, expires, identity } = caller;
        Self {
            id,
            profile: profiles.first().map_or_else(|| DEFAULT_PROFILE.into(), Arc::clone),
            is_named: true,
            is_owner: false,
            scopes,
            session: None,
            cut: CancellationToken::new(),
            profiles,
            expires: Some(expires),
            identity: Some(identity),
        }
    }
}

/// The id of a signed-in caller: what its issuer calls it, where that is plain text; else a hash of
/// it.
fn id_of(subject: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.@+|:".contains(c);
    if subject.len() <= MAX_SUBJECT_BYTES && subject.chars().all(is_plain) {
        return format!("{SIGNED_IN_PREFIX}{subject}");
    }
    format!("{SIGNED_IN_PREFIX}~{}", &hex(&Sha256::digest(subject))[..32])
}

/// The scopes of a token: those of ours that it names, or the usual ones if it names none.
fn scopes_of(claims: &Value) -> Vec<AccessScope> {
    let named: Vec<&str> = match (&claims["scope"], &claims["scp"]) {
        (Value::String(text), _) | (_, Value::String(text)) => text.split(' ').collect(),
        (_, Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let ours: Vec<_> = named.into_iter().filter_map(AccessScope::parse).collect();
    if ours.is_empty() { DEFAULT_SCOPES.to_vec() } else { ours }
}

/// Where the metadata of the service is: the well-known path goes before that of the resource.
fn metadata_address(config: &SignInConfig) -> Option<String> {
    let mut url = Url::parse(config.resource()).ok()?;
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&format!("{METADATA_PATH}{path}"));
    url.set_query(None);
    url.set_fragment(None);
    Some(url.into())
}

/// `GET /.well-known/oauth-protected-resource`: how to sign in (RFC 9728, section 2). Needs no
/// token.
pub(crate) async fn metadata(State(gateway): State<Arc<Gateway>>) -> Response {
    let in_force = gateway.host.in_force();
    let Some(config) = &in_force.config.sign_in else {
        return (StatusCode::NOT_FOUND, "callers do not sign in here\n").into_response();
    };
    let usual = || DEFAULT_SCOPES.iter().map(|scope| scope.as_str().to_owned()).collect();
    let scopes: Vec<String> = config.scopes.clone().unwrap_or_else(usual);
    let mut document = json!({
        "resource": config.resource(),
        "authorization_servers": [config.issuer],
        "bearer_methods_supported": ["header"],
        "resource_name": "mcpdeck",
    });
    // Clients ask for all that is named, and for none where nothing is.
    if !scopes.is_empty() {
        document["scopes_supported"] = json!(scopes);
    }
    Json(document).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_subject_passes_for_the_operator_or_for_a_token() {
        assert_eq!(id_of("owner"), "user/owner");
        assert_eq!(id_of("auth0|5f7"), "user/auth0|5f7");
        for odd in ["a b", "a\u{202e}b", "../x", "*", &"x".repeat(200), "a\"b"] {
            let id = id_of(odd);
            assert!(id.starts_with("user/~") && id.len() == 38, "{id}");
        }
        assert_ne!(id_of("a b"), id_of("a  b"));
    }

    #[test]
    fn clients_find_the_metadata_of_the_address_they_use() {
        let at = |resource: &str| {
            let config = SignInConfig { audience: resource.to_owned(), ..SignInConfig::default() };
            metadata_address(&config).expect("an address")
        };
        let well_known = "https://deck.example/.well-known/oauth-protected-resource";
        assert_eq!(at("https://deck.example/mcp"), format!("{well_known}/mcp"));
        assert_eq!(at("https://deck.example/"), well_known);
        assert_eq!(at("https://deck.example/a/mcp?x#y"), format!("{well_known}/a/mcp"));
    }

    #[test]
    fn scopes_of_others_are_no_limit_and_ours_are() {
        assert_eq!(scopes_of(&json!({"scope": "openid email"})), DEFAULT_SCOPES);
        let one = [AccessScope::ToolsList];
        assert_eq!(scopes_of(&json!({"scope": "openid mcp:tools.list"})), one);
        assert_eq!(scopes_of(&json!({"scp": ["mcp:tools.list"]})), one);
    }
}
