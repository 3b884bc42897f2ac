//! OAuth 2.1 sign-in against a server and an authorization server on loopback: the flow, the store
//! shared by processes, and refused cases (rows H1 to H3, E12 to E14).

mod answers;
mod bound;
mod clients;
mod inbox;
mod mock;
mod moved;
mod program;
mod refresh;
mod servers;
mod strays;
mod without_page;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpdeck::Host;
use mcpdeck::base::secret::Redactor;
use mcpdeck::config::{HttpConfig, OAuthConfig};
use mcpdeck::deck::TokenFiles;
use mcpdeck::host::Startup;
use mcpdeck::mcp::{
    Accounts, AuthEvent, AuthFailure, Authorizer, SignIn, SignInPrompt, StepKind, StoredToken,
    TokenStore,
};
use mock::Mock;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;

/// A user who signs in immediately; counts the sign-ins.
#[derive(Clone, Default)]
struct Willing(Arc<AtomicUsize>);

impl Willing {
    fn times_asked(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl SignInPrompt for Willing {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        async move {
            reqwest::get(request.url).await.map(|_| None).map_err(|error| error.to_string())
        }
        .boxed()
    }
}

/// A store, a user, and the servers to sign in to.
struct Rig {
    dir: tempfile::TempDir,
    person: Willing,
    mock: Mock,
}

impl Rig {
    async fn new() -> Self {
        // The tests use reqwest, which needs a TLS provider to be installed.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let dir = tempfile::tempdir().unwrap();
        Self { dir, person: Willing::default(), mock: Mock::start().await }
    }

    fn store(&self) -> TokenFiles {
        TokenFiles::at(self.dir.path().join("tokens"))
    }

    fn nobody(&self) -> Accounts {
        Accounts::new(Arc::new(self.store()))
    }

    fn accounts(&self) -> Accounts {
        self.nobody().prompt(Arc::new(self.person.clone()))
    }

    fn authorizer(&self, accounts: &Accounts) -> Arc<Authorizer> {
        self.with(accounts, |_| ())
    }

    /// An authorizer whose entry says more about `oauth`.
    fn with(&self, accounts: &Accounts, more: impl FnOnce(&mut OAuthConfig)) -> Arc<Authorizer> {
        let mut config = HttpConfig::new(self.mock.url().parse().unwrap());
        more(&mut config.oauth);
        accounts.authorizer(&"guarded".into(), &config).unwrap().unwrap()
    }

    fn stored_token(&self) -> Option<StoredToken> {
        self.store().find(&self.mock.url().parse().unwrap()).unwrap()
    }

    async fn host(&self, accounts: Accounts) -> Result<Host, mcpdeck::Error> {
        let config = json!({"servers": {"guarded": {"url": self.mock.url()}}});
        let host = Host::builder().config_text(config.to_string()).startup(Startup::All);
        host.accounts(accounts).initialize().await
    }
}

#[tokio::test]
async fn a_server_that_asks_is_signed_in_to_once_and_its_token_is_refreshed_before_its_end() {
    let rig = Rig::new().await;
    let host = rig.host(rig.accounts()).await.unwrap();
    assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
    host.shutdown().await;
    let first = rig.stored_token().unwrap();
    assert_eq!(
        (first.scopes.as_slice(), first.left(first.obtained_at)),
        (&["read".into()][..], Some(3600))
    );

    // The token is about to expire: it is refreshed without the user.
    rig.store()
        .save(&StoredToken { obtained_at: first.obtained_at - 3590, ..first.clone() })
        .unwrap();
    let host = rig.host(rig.nobody()).await.unwrap();
    assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
    host.shutdown().await;
    assert_ne!(rig.stored_token().unwrap().refresh_token, first.refresh_token);
    assert_eq!((rig.person.times_asked(), rig.mock.count("POST /register")), (1, 1));
    assert_eq!(rig.mock.count("POST /token"), 2);
}

#[tokio::test]
async fn a_token_of_the_longest_lifetime_is_used_and_not_refreshed() {
    let rig = Rig::new().await;
    let token = StoredToken { expires_in: Some(u64::MAX), ..rig.mock.token(5) };
    rig.store().save(&token).unwrap();
    let host = rig.host(rig.nobody()).await.unwrap();
    assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
    host.shutdown().await;
    assert_eq!(rig.mock.count("POST /token"), 0);
}

#[tokio::test]
async fn the_tokens_it_was_signed_in_with_are_masked_like_the_secrets_of_its_entry() {
    let rig = Rig::new().await;
    let host = rig.host(rig.accounts()).await.unwrap();
    host.call_tool("guarded.t", json!({})).await.unwrap();
    let kept = rig.stored_token().unwrap();
    let redactor = Redactor::new(host.secrets(&"guarded".into()));
    let echoed = format!("Authorization: Bearer {}", kept.access_token);
    assert_eq!(redactor.redact(&echoed), "Authorization: Bearer ***");
    assert_eq!(redactor.redact(kept.refresh_token.as_ref().unwrap()), "***");
    host.shutdown().await;
}

/// A browser that opens one connection more than it uses.
#[derive(Clone, Default)]
struct Eager(Arc<Mutex<Option<TcpStream>>>);

impl SignInPrompt for Eager {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        let spare = Arc::clone(&self.0);
        async move {
            let redirect: reqwest::Url = request.redirect_uri.parse().unwrap();
            let opened = TcpStream::connect(("127.0.0.1", redirect.port().unwrap())).await;
            *spare.lock().unwrap() = opened.ok();
            reqwest::get(request.url).await.map(|_| None).map_err(|error| error.to_string())
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_connection_that_the_browser_does_not_use_is_not_waited_for() {
    let rig = Rig::new().await;
    let person = Eager::default();
    rig.authorizer(&rig.nobody()).sign_in(&person, Vec::new()).await.unwrap();
    let mut spare = person.0.lock().unwrap().take().unwrap();
    let mut answer = String::new();
    let _ = spare.read_to_string(&mut answer).await;
    assert_eq!(answer, "", "it was still open when the other was answered");
}

#[tokio::test]
async fn a_host_without_a_person_says_how_to_sign_in() {
    let rig = Rig::new().await;
    let error = rig.host(rig.nobody()).await.err().unwrap();
    assert!(error.to_string().contains("run `mcpdeck login guarded`"), "{error}");
    assert_eq!(rig.mock.count("GET /authorize"), 0);
    assert_eq!(rig.mock.count("POST /register"), 0);
}

#[tokio::test]
async fn signing_in_again_registers_no_other_client() {
    let rig = Rig::new().await;
    for _ in 0..3 {
        rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await.unwrap();
    }
    assert_eq!((rig.person.times_asked(), rig.mock.count("POST /register")), (3, 1));
}

#[tokio::test]
async fn every_step_is_reported_without_a_secret() {
    let rig = Rig::new().await;
    let steps = Arc::new(std::sync::Mutex::new(Vec::new()));
    let asked = Arc::clone(&steps);
    let accounts = rig.nobody().watch(move |_, event| {
        if let AuthEvent::Step { step, sent, answered } = event {
            asked.lock().unwrap().push((step.clone(), sent.to_owned(), answered.to_owned()));
        }
    });
    let token = rig.authorizer(&accounts).sign_in(&rig.person, Vec::new()).await.unwrap();
    let steps = steps.lock().unwrap();
    let has = |kind| steps.iter().any(|(step, ..)| step.kind == kind);
    for kind in [
        StepKind::ResourceMetadata,
        StepKind::ServerMetadata,
        StepKind::Register,
        StepKind::Authorize,
        StepKind::Token,
    ] {
        assert!(has(kind), "{kind:?} is missing of {steps:?}");
    }
    let shown = format!("{steps:?} {token:?}");
    for secret in ["access-1", "refresh-1", "good-code", "state="] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[tokio::test]
async fn a_scope_that_is_never_given_is_asked_for_three_times_at_most() {
    let rig = Rig::new().await;
    let host = rig.host(rig.accounts()).await.unwrap();
    rig.mock.world().insatiable = true;
    let error = host.call_tool("guarded.t", json!({})).await.err().unwrap();
    assert!(error.to_string().contains("`admin`, which 3 tokens did not have"), "{error}");
    assert_eq!(rig.person.times_asked(), 3, "one for the start, two for the call");
    host.shutdown().await;
}

#[tokio::test]
async fn a_refused_refresh_token_never_costs_the_newer_one_of_a_sibling() {
    let rig = Rig::new().await;
    let old = rig.mock.token(3600);
    rig.store().save(&old).unwrap();
    {
        let mut world = rig.mock.world();
        world.folder = Some(rig.dir.path().join("tokens"));
        world.refuse_refresh = Some(|world| {
            let fresh = StoredToken { refresh_token: Some("newer".into()), ..world.stored(0) };
            TokenFiles::at(world.folder.clone().unwrap()).save(&fresh).unwrap();
        });
    }
    let host = rig.host(rig.nobody()).await.unwrap();
    host.shutdown().await;
    assert_eq!(rig.stored_token().unwrap().refresh_token.as_deref(), Some("newer"));
    assert_eq!(rig.mock.count("POST /token"), 1);
}

#[tokio::test]
async fn a_refresh_token_that_is_no_longer_good_asks_once_and_is_not_tried_again() {
    let rig = Rig::new().await;
    rig.store().save(&rig.mock.token(3600)).unwrap();
    {
        let mut world = rig.mock.world();
        world.access = "another".into();
        world.refuse_refresh = Some(|_| ());
    }
    for _ in 0..2 {
        let error = rig.host(rig.nobody()).await.err().unwrap();
        assert!(error.to_string().contains("mcpdeck login guarded"), "{error}");
    }
    assert_eq!(rig.mock.count("POST /token"), 1, "{:?}", rig.mock.world().seen);
}

#[tokio::test]
async fn a_configured_port_that_is_taken_is_an_error_that_names_who_has_it() {
    let rig = Rig::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let auth = rig.with(&rig.nobody(), |oauth| oauth.callback_port = Some(port));
    let error = auth.sign_in(&rig.person, Vec::new()).await.unwrap_err().to_string();
    assert!(error.contains(&format!("port {port}")) && error.contains("in use"), "{error}");
    if cfg!(target_os = "linux") {
        assert!(error.contains(&format!("(pid {})", std::process::id())), "{error}");
    }
}

/// The fault, how the servers are modified, and the expected error text.
type Row = (&'static str, fn(&mut mock::World), &'static str);

#[tokio::test]
async fn what_is_not_safe_is_refused_before_the_browser() {
    let rows: [Row; 9] = [
        (
            "link-local metadata",
            |w| w.resource_metadata = Some("http://169.254.169.254/x".into()),
            "169.254.169.254",
        ),
        (
            "private metadata",
            |w| w.resource_metadata = Some("https://10.0.0.9/x".into()),
            "10.0.0.9",
        ),
        (
            "javascript",
            |w| drop(w.metadata.insert("authorization_endpoint", json!("javascript:alert(1)"))),
            "javascript",
        ),
        (
            "file",
            |w| drop(w.metadata.insert("authorization_endpoint", json!("file:///etc/passwd"))),
            "file:",
        ),
        ("a flag", |w| drop(w.metadata.insert("authorization_endpoint", json!("-x"))), "-x"),
        (
            "hidden host",
            |w| {
                drop(
                    w.metadata.insert(
                        "authorization_endpoint",
                        json!("https://good.example@evil.example/"),
                    ),
                );
            },
            "user name",
        ),
        (
            "token endpoint inside",
            |w| {
                drop(
                    w.metadata.insert("token_endpoint", json!("http://[::ffff:169.254.169.254]/")),
                );
            },
            "link-local",
        ),
        (
            "no S256",
            |w| drop(w.metadata.insert("code_challenge_methods_supported", json!(["plain"]))),
            "S256",
        ),
        (
            "issuer mix-up",
            |w| drop(w.metadata.insert("issuer", json!("https://other.example"))),
            "other.example",
        ),
    ];
    for (what, bend, said) in rows {
        let rig = Rig::new().await;
        bend(&mut rig.mock.world());
        let error = rig.host(rig.accounts()).await.map(drop).unwrap_err().to_string();
        assert!(error.contains(said), "{what}: {error}");
        assert_eq!(rig.person.times_asked(), 0, "{what}: a browser was opened");
        assert_eq!(rig.mock.count("POST /token"), 0, "{what}");
    }
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused_and_its_words_are_not_shown() {
    for (iss, advertised) in [(json!("https://evil.example"), false), (json!(null), true)] {
        let rig = Rig::new().await;
        {
            let mut world = rig.mock.world();
            world.iss = Some(iss.clone());
            let key = "authorization_response_iss_parameter_supported";
            world.metadata.insert(key, json!(advertised));
        }
        let auth = rig.authorizer(&rig.nobody());
        let error = auth.sign_in(&rig.person, Vec::new()).await.err().unwrap();
        assert!(matches!(error, AuthFailure::Refused(_)), "{iss}: {error}");
        assert!(
            error.to_string().contains("iss") && !error.to_string().contains("evil"),
            "{error}"
        );
        assert_eq!(rig.mock.count("POST /token"), 0, "{iss}");
    }
}
