//! An authorization server that cannot answer for a moment: what is posted again and how often, and
//! that nothing is lost by it.

use std::sync::Arc;

use futures::future::join_all;
use mcpdeck::config::OAuthGrant;
use mcpdeck::mcp::{AuthFailure, Authorizer, TokenStore};
use serde_json::json;

use crate::auth::Rig;
use crate::auth::program::run;

const DROPPED: &str = "";
/// A grant that nobody answers is posted this often.
const MOST_POSTS: usize = 4;

impl Rig {
    /// One whose token has so many seconds of 3600 behind it, and whose authorization server does not
    /// answer that many grants.
    async fn with_token(age: u64, unanswered: usize, instead: &'static str) -> Self {
        let rig = Self::new().await;
        rig.store().save(&rig.mock.token(age)).unwrap();
        rig.mock.world().unanswered = unanswered;
        rig.mock.world().instead = instead;
        rig
    }
}

#[tokio::test]
async fn a_refresh_that_was_not_answered_is_tried_again() {
    let tried = async |instead: &'static str| {
        let rig = Rig::with_token(4_000, 2, instead).await;
        let host = rig.host(rig.nobody()).await.unwrap();
        assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
        host.shutdown().await;
        assert_eq!(rig.mock.count("POST /token"), 3, "{instead}");
        let kept = rig.stored_token().unwrap();
        assert_eq!(kept.refresh_token.as_deref(), Some("refresh-1-good"), "{instead}");
    };
    let all = [
        DROPPED,
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service Unavailable\r\nretry-after: 1",
        "504 Gateway Timeout",
    ];
    join_all(all.map(tried)).await;
}

#[tokio::test]
async fn what_will_not_be_better_is_asked_once() {
    for instead in [
        "400 Bad Request",
        "403 Forbidden",
        "404 Not Found",
        "429 Too Many Requests",
        "501 Not Implemented",
        "503 Service Unavailable\r\nretry-after: 3600",
    ] {
        let rig = Rig::with_token(4_000, usize::MAX, instead).await;
        let error = rig.authorizer(&rig.nobody()).refresh_now().await.unwrap_err().to_string();
        assert_eq!(rig.mock.count("POST /token"), 1, "{instead}: {error}");
        assert!(error.contains(&instead[..3]), "{instead}: {error}");
        let kept = rig.stored_token().unwrap();
        assert_eq!(kept.refresh_token.as_deref(), Some("refresh-0-good"), "{instead}");
    }
}

#[tokio::test]
async fn an_endpoint_that_has_another_last_slash_is_found_and_no_other_place_gets_the_token() {
    for (instead, is_followed) in [
        ("301 Moved Permanently\r\nlocation: /token/", true),
        ("302 Found\r\nlocation: /token/", true),
        ("307 Temporary Redirect\r\nlocation: /token/", true),
        ("308 Permanent Redirect\r\nlocation: /token/", true),
        ("303 See Other\r\nlocation: /token/", false),
        ("307 Temporary Redirect\r\nlocation: /idp/token", false),
        ("308 Permanent Redirect\r\nlocation: http://127.0.0.1:9/token/", false),
    ] {
        let rig = Rig::with_token(4_000, usize::MAX, instead).await;
        let refreshed = rig.authorizer(&rig.nobody()).refresh_now().await;
        assert_eq!(refreshed.is_ok(), is_followed, "{instead}: {refreshed:?}");
        assert_eq!(rig.mock.count("POST /token/"), usize::from(is_followed), "{instead}");
        assert_eq!(rig.mock.count("POST /idp/token"), 0, "{instead}");
        if let Err(error) = refreshed {
            let place = instead.split("location: ").nth(1).unwrap();
            let said = format!(" to {place}, which no token is sent to");
            assert!(error.to_string().contains(&said), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refresh_that_is_given_up_says_what_to_do_and_keeps_what_it_needs() {
    let rig = Rig::with_token(4_000, usize::MAX, "503 Service Unavailable").await;
    let auth = rig.authorizer(&rig.nobody());
    // Those who wait for the same refresh do not repeat it one after the other.
    let failed = join_all((0..5).map(|_| Authorizer::refresh_now(&auth))).await;
    assert_eq!(rig.mock.count("POST /token"), MOST_POSTS);
    for error in failed {
        let error = error.unwrap_err();
        assert!(matches!(error, AuthFailure::Unavailable(_)), "{error:?}");
        for said in
            ["HTTP 503", "(tried 4 times)", "refresh token is kept", "`mcpdeck login guarded`"]
        {
            assert!(error.to_string().contains(said), "{said}: {error}");
        }
    }
    let (text, code) = run(&rig, &["list"]).await;
    assert_eq!(code, Some(3), "{text}");
    assert!(text.contains("(tried 4 times); the refresh token is kept"), "{text}");
    assert_eq!(rig.stored_token().unwrap().refresh_token.as_deref(), Some("refresh-0-good"));

    rig.mock.world().unanswered = 0;
    let fresh = Arc::clone(&auth).refresh_now().await.unwrap();
    assert_eq!(fresh.refresh_token.as_deref(), Some("refresh-1-good"));
}

#[tokio::test]
async fn a_token_that_is_still_good_is_used_meanwhile() {
    let rig = Rig::with_token(3_585, usize::MAX, DROPPED).await;
    let host = rig.host(rig.nobody()).await.unwrap();
    for _ in 0..3 {
        assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
    }
    host.shutdown().await;
    assert_eq!(rig.mock.count("POST /token"), MOST_POSTS, "it is not tried for each call");
    assert!(rig.mock.world().bearers.iter().all(|(_, token)| token == "access-0-good"));
}

#[tokio::test]
async fn a_code_that_was_not_answered_is_tried_again() {
    for instead in [DROPPED, "503 Service Unavailable"] {
        let rig = Rig::new().await;
        (rig.mock.world().unanswered, rig.mock.world().instead) = (1, instead);
        let auth = rig.authorizer(&rig.nobody());
        let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
        assert_eq!(token.access_token, "access-1-good");
        assert_eq!(rig.mock.count("POST /token"), 2);
    }
}

#[tokio::test]
async fn a_token_that_takes_no_person_is_tried_for_again_too() {
    let rig = Rig::new().await;
    let auth = rig.with(&rig.nobody(), |oauth| {
        oauth.grant = OAuthGrant::ClientCredentials;
        oauth.client_id = Some("registered".into());
    });
    (rig.mock.world().unanswered, rig.mock.world().instead) = (2, DROPPED);
    assert_eq!(auth.refresh_now().await.unwrap().access_token, "access-1-good");
    assert_eq!(rig.mock.count("POST /token"), 3);
    rig.mock.world().unanswered = usize::MAX;
    let failed = join_all((0..3).map(|_| Authorizer::refresh_now(&auth))).await;
    let passing = |failed: &Result<_, _>| matches!(failed, Err(AuthFailure::Unavailable(_)));
    assert!(failed.iter().all(passing), "{failed:?}");
    assert_eq!(rig.mock.count("POST /token"), 3 + MOST_POSTS);
}

/// The places besides the token endpoint that a sign-in depends on, each by its first request.
const PLACES: [&str; 3] = [
    "/.well-known/oauth-protected-resource/mcp",
    "/.well-known/oauth-authorization-server",
    "/register",
];

#[tokio::test]
async fn a_document_or_a_registration_that_was_not_answered_is_tried_again() {
    let tried = async |(place, instead): (&'static str, &'static str)| {
        let rig = Rig::new().await;
        rig.mock.world().silent_at = Some(place);
        (rig.mock.world().unanswered, rig.mock.world().instead) = (2, instead);
        let token = rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await;
        assert!(token.is_ok(), "{place}, {instead}: {token:?}");
        assert_eq!(rig.mock.world().unanswered, 0, "{place}, {instead}");
        assert_eq!(rig.mock.world().registered, 1, "{place}, {instead}");
    };
    let answers = [
        DROPPED,
        "500 Internal Server Error",
        "502 Bad Gateway",
        "503 Service Unavailable\r\nretry-after: 1",
        "504 Gateway Timeout",
    ];
    let all = PLACES.into_iter().flat_map(|place| answers.map(|instead| (place, instead)));
    join_all(all.map(tried)).await;
}

#[tokio::test]
async fn a_document_or_a_registration_that_is_never_answered_is_given_up_by_name() {
    let tried = async |(place, instead): (&'static str, &'static str)| {
        let rig = Rig::new().await;
        rig.mock.world().silent_at = Some(place);
        (rig.mock.world().unanswered, rig.mock.world().instead) = (usize::MAX, instead);
        let error = rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await;
        let error = error.unwrap_err();
        let verb = if place == "/register" { "POST" } else { "GET" };
        let is_lasting = instead.contains("3600");
        let posts = if is_lasting { 1 } else { MOST_POSTS };
        assert_eq!(rig.mock.count(&format!("{verb} {place}")), posts, "{place}: {error}");
        assert!(matches!(error, AuthFailure::Failed(_)), "{place}: {error:?}");
        for said in [place, "503"] {
            assert!(error.to_string().contains(said), "{place}: {said}: {error}");
        }
        if place == "/register" && !is_lasting {
            assert!(error.to_string().ends_with("(tried 4 times)"), "{error}");
        }
    };
    let answers = ["503 Service Unavailable", "503 Service Unavailable\r\nretry-after: 3600"];
    let all = PLACES.into_iter().flat_map(|place| answers.map(|instead| (place, instead)));
    join_all(all.map(tried)).await;
}
