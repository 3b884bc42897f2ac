//! The client: one that its server has forgotten is registered anew, one whose redirect is refused is
//! tried with another.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpdeck::mcp::{
    AuthFailure, ClientAuth, SignIn, SignInPrompt, StoredClient, StoredToken, TokenStore,
};
use serde_json::json;

use crate::auth::Rig;

/// A user who looks at the page and gives up; keeps what was shown.
#[derive(Clone, Default)]
struct GivesUp(Arc<Mutex<Vec<SignIn>>>);

impl SignInPrompt for GivesUp {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        self.0.lock().unwrap().push(request);
        async { Err("no address was pasted".to_owned()) }.boxed()
    }
}

/// The client that a page is shown for.
fn client_id(shown: &SignIn) -> String {
    let mut pairs = shown.url.query_pairs();
    pairs.find(|(key, _)| key == "client_id").unwrap().1.into_owned()
}

impl Rig {
    /// A sign-in that the page refuses, after which the authorization server forgets everything.
    async fn declined_and_forgotten(&self) {
        self.mock.world().page_error = Some("access_denied");
        let error =
            self.authorizer(&self.nobody()).sign_in(&self.person, Vec::new()).await.unwrap_err();
        assert!(matches!(error, AuthFailure::Declined(_)), "{error}");
        let mut world = self.mock.world();
        world.page_error = None;
        world.clients.clear();
    }

    fn client(&self) -> Option<StoredClient> {
        let base = self.mock.world().base.clone();
        self.store().client(&base, &self.mock.url().parse().unwrap()).unwrap()
    }
}

#[tokio::test]
async fn a_client_that_its_server_has_forgotten_is_registered_anew() {
    for code_first in [false, true] {
        let rig = Rig::new().await;
        rig.mock.world().code_first = code_first;
        rig.declined_and_forgotten().await;
        let auth = rig.authorizer(&rig.nobody());
        let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
        assert_eq!(token.client.id, "registered-2");
        assert_eq!(rig.mock.count("POST /register"), 2);
        assert_eq!(rig.client(), Some(token.client));
    }
}

#[tokio::test]
async fn a_client_that_was_used_and_is_refused_at_its_refresh_is_registered_anew() {
    let rig = Rig::new().await;
    let auth = rig.authorizer(&rig.nobody());
    auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    rig.mock.world().clients.clear();
    let error = auth.refresh_now().await.unwrap_err();
    assert!(matches!(error, AuthFailure::SignInNeeded(..)), "{error}");
    assert_eq!(rig.client(), None);
    assert_eq!(rig.stored_token().unwrap().refresh_token, None, "it is that client's");
    let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    assert_eq!(token.client.id, "registered-2");
}

#[tokio::test]
async fn a_client_that_the_page_refuses_is_registered_anew_once() {
    let rig = Rig::new().await;
    let auth = rig.authorizer(&rig.nobody());
    auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    for (code, registered) in [("unauthorized_client", 2), ("invalid_client", 3)] {
        rig.mock.world().page_error = Some(code);
        let error = auth.sign_in(&rig.person, Vec::new()).await.unwrap_err();
        assert!(error.to_string().contains(&format!("does not accept the client (`{code}`)")));
        assert_eq!(rig.mock.count("POST /register"), registered, "{code}");
        assert_eq!(rig.client(), None, "{code}");
    }
}

#[tokio::test]
async fn a_page_that_leads_nowhere_is_shown_for_one_client_once() {
    // A server whose pages say nothing to programs.
    let rig = Rig::new().await;
    let (auth, person) = (rig.authorizer(&rig.nobody()), GivesUp::default());
    for _ in 0..4 {
        auth.sign_in(&person, Vec::new()).await.unwrap_err();
    }
    let shown: Vec<String> = person.0.lock().unwrap().iter().map(client_id).collect();
    assert_eq!(shown, ["registered", "registered", "registered-2", "registered-2"]);

    // Neither is one that the user interrupts.
    auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    let waits = Waits::default();
    let signing_in = auth.sign_in(&waits, Vec::new());
    let shown = waits.0.notified();
    tokio::select! {
        done = signing_in => panic!("{done:?}"),
        () = shown => {}
    }
    auth.give_up().unwrap();
    assert_eq!(rig.client(), None);
}

/// A user at whose screen the page stands still.
#[derive(Clone, Default)]
struct Waits(Arc<tokio::sync::Notify>);

impl SignInPrompt for Waits {
    fn sign_in(&self, _: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        self.0.notify_one();
        std::future::pending().boxed()
    }
}

#[tokio::test]
async fn a_client_whose_secret_has_ended_is_registered_anew() {
    let rig = Rig::new().await;
    let auth = rig.authorizer(&rig.nobody());
    let first = auth.sign_in(&rig.person, Vec::new()).await.unwrap().client;
    let secret = Some("a-secret-of-the-client".to_owned());
    let first = StoredClient { secret, auth: ClientAuth::Post, ..first };
    let ended = StoredClient { secret_expires_at: Some(1), ..first.clone() };
    rig.store().save_client(&ended).unwrap();
    let second = auth.sign_in(&rig.person, Vec::new()).await.unwrap().client;
    assert_eq!((second.id.as_str(), second.secret), ("registered-2", None));
    rig.store().save_client(&StoredClient { secret_expires_at: None, ..first }).unwrap();
    assert_eq!(auth.sign_in(&rig.person, Vec::new()).await.unwrap().client.id, "registered");
}

#[tokio::test]
async fn signing_out_forgets_the_client_and_every_token_also_where_there_is_none() {
    let rig = Rig::new().await;
    rig.declined_and_forgotten().await;
    let auth = rig.authorizer(&rig.nobody());
    let done = auth.sign_out().await.unwrap();
    assert_eq!((done.token, done.had_client), (None, true));
    assert_eq!(rig.client(), None);
    assert!(!auth.sign_out().await.unwrap().had_client);

    let token = rig.mock.token(60);
    let before = StoredToken {
        issuer: "https://moved.example".into(),
        obtained_at: token.obtained_at - 9,
        revocation_endpoint: None,
        ..token.clone()
    };
    rig.store().save(&before).unwrap();
    rig.store().save(&token).unwrap();
    assert_eq!(auth.sign_out().await.unwrap().token, Some(token));
    assert_eq!(rig.stored_token(), None);
}

const NOT_BY_NUMBER: &str =
    r#"{"error":"invalid_redirect_uri","error_description":"use localhost"}"#;

#[tokio::test]
async fn a_redirect_that_is_refused_by_number_is_tried_by_name() {
    for (status, body) in [("400 Bad Request", NOT_BY_NUMBER), ("403 Forbidden", "<html>blocked")] {
        let rig = Rig::new().await;
        rig.mock.world().refused_redirect = Some(("127.0.0.1", status, body));
        let auth = rig.authorizer(&rig.nobody());
        let first = auth.sign_in(&rig.person, Vec::new()).await.unwrap().client;
        assert!(first.redirect_uri.starts_with("http://localhost:"), "{}", first.redirect_uri);
        assert_eq!(rig.mock.count("POST /register"), 2);
        // It is remembered.
        assert_eq!(auth.sign_in(&rig.person, Vec::new()).await.unwrap().client, first);
        assert_eq!(rig.mock.count("POST /register"), 2);
    }
    let rig = Rig::new().await;
    rig.mock.world().refused_redirect = Some(("http", "400 Bad Request", NOT_BY_NUMBER));
    let error = rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await.unwrap_err();
    for part in ["invalid_redirect_uri: use localhost", "none for `localhost`", "`redirectUri`"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert_eq!(rig.person.times_asked(), 0);
}

#[tokio::test]
async fn the_browser_comes_back_to_the_address_of_the_entry() {
    let rig = Rig::new().await;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let typed = format!("http://localhost:{free}/oauth/done");
    for (id, redirect) in [(None, typed.clone()), (Some("registered"), typed)] {
        let auth = rig.with(&rig.nobody(), |oauth| {
            oauth.client_id = id.map(str::to_owned);
            oauth.redirect_uri = Some(redirect.clone());
        });
        let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
        assert_eq!(token.client.redirect_uri, redirect);
    }
    // What is refused for the address of the entry is not tried for another.
    rig.mock.world().refused_redirect = Some(("127.0.0.1", "400 Bad Request", NOT_BY_NUMBER));
    let registered = rig.mock.count("POST /register");
    let auth = rig.with(&rig.nobody(), |oauth| {
        oauth.redirect_uri = Some("http://127.0.0.1/cb".to_owned());
    });
    auth.sign_in(&rig.person, Vec::new()).await.unwrap_err();
    assert_eq!(rig.mock.count("POST /register"), registered + 1);
}

/// A browser that takes `localhost` for the other address family.
#[derive(Clone)]
struct BySix;

impl SignInPrompt for BySix {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        async move {
            let back = crate::auth::program::ends_at(request.url.as_str()).await;
            let back = back.replacen("127.0.0.1", "[::1]", 1);
            reqwest::get(back).await.map(|_| None).map_err(|error| error.to_string())
        }
        .boxed()
    }
}

#[tokio::test]
async fn the_browser_is_waited_for_in_both_address_families() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        return;
    }
    let rig = Rig::new().await;
    rig.authorizer(&rig.nobody()).sign_in(&BySix, Vec::new()).await.unwrap();
}

#[tokio::test]
async fn a_client_gets_the_fixed_parameters_of_the_page_and_its_own_are_not_doubled() {
    let rig = Rig::new().await;
    let page = format!("{}/authorize?state=theirs&tenant=7&prompt=consent", rig.mock.world().base);
    rig.mock.world().metadata.insert("authorization_endpoint", json!(page));
    let person = GivesUp::default();
    let auth = rig.authorizer(&rig.nobody());
    auth.sign_in(&person, Vec::new()).await.unwrap_err();
    let shown = person.0.lock().unwrap()[0].url.clone();
    let of = |name: &str| -> Vec<String> {
        let pairs = shown.query_pairs().filter(|(key, _)| key == name);
        pairs.map(|(_, value)| value.into_owned()).collect()
    };
    assert_eq!((of("tenant"), of("prompt")), (vec!["7".into()], vec!["consent".into()]));
    assert!(of("state").len() == 1 && of("state") != ["theirs"], "{shown}");
    // And so it comes back.
    auth.sign_in(&rig.person, Vec::new()).await.unwrap();
}
