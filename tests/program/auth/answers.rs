//! What servers and authorization servers really answer: challenges of a POST, documents with a slash
//! too many, numbers as texts.

use mcpdeck::mcp::{StoredToken, TokenStore};
use serde_json::{Value, json};

use crate::auth::{Rig, Row, mock};

#[tokio::test]
async fn a_sign_in_asks_the_server_as_a_call_does() {
    let rig = Rig::new().await;
    {
        let mut world = rig.mock.world();
        (world.metadata_path, world.asks_scope) = (Some("/prm/x"), Some("special"));
        world.granted.insert("scope", Value::Null);
    }
    let auth = rig.authorizer(&rig.nobody());
    let issuer = rig.mock.world().base.clone();
    assert_eq!(auth.authorization().await.unwrap().issuer, issuer);
    let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    assert_eq!(token.scopes, ["special"]);
    assert_eq!(token.resource, rig.mock.url());
}

#[tokio::test]
async fn the_scopes_of_the_challenge_are_asked_for_and_no_more() {
    let rig = Rig::new().await;
    rig.mock.world().metadata.insert("scopes_supported", json!(["read", "write", "admin"]));
    rig.mock.world().granted.insert("scope", Value::Null);
    let auth = rig.authorizer(&rig.nobody());
    assert_eq!(auth.sign_in(&rig.person, Vec::new()).await.unwrap().scopes, ["read"]);
    rig.mock.world().asks_scope = Some("write");
    let auth = rig.authorizer(&rig.nobody());
    assert_eq!(auth.sign_in(&rig.person, Vec::new()).await.unwrap().scopes, ["write"]);
}

#[tokio::test]
async fn that_nobody_is_named_to_sign_in_with_is_said_as_such() {
    let rig = Rig::new().await;
    rig.mock.world().is_unpublished = true;
    let auth = rig.authorizer(&rig.nobody());
    let error = auth.sign_in(&rig.person, Vec::new()).await.unwrap_err().to_string();
    for said in ["no usable authorization server is named", "/register: HTTP 404", "`headers`"] {
        assert!(error.contains(said), "{said}: {error}");
    }
    assert!(!error.contains("clientId"), "{error}");
    assert_eq!(rig.person.times_asked(), 0);
}

#[tokio::test]
async fn a_last_slash_does_not_make_another_resource() {
    for path in [None, Some("/prm/x")] {
        let rig = Rig::new().await;
        let stated = format!("{}/", rig.mock.url());
        (rig.mock.world().resource, rig.mock.world().metadata_path) = (Some(stated.clone()), path);
        let auth = rig.authorizer(&rig.nobody());
        // The token is asked for by the name that the authorization server knows.
        let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
        assert_eq!((token.resource, token.server), (stated, rig.mock.url()));
        let host = rig.host(rig.nobody()).await.unwrap();
        assert!(host.call_tool("guarded.t", json!({})).await.is_ok());
        host.shutdown().await;
    }
}

#[tokio::test]
async fn metadata_of_another_resource_is_refused_with_the_true_reason() {
    let another: fn(&str) -> [String; 3] = |base| {
        ["https://other.example/mcp".into(), format!("{base}/other"), format!("{base}/mcp/y")]
    };
    for n in 0..3 {
        let rig = Rig::new().await;
        let stated = another(&rig.mock.world().base)[n].clone();
        rig.mock.world().resource = Some(stated.clone());
        let error =
            rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await.unwrap_err();
        let said = format!("is for `{stated}`, which is not this server ({})", rig.mock.url());
        assert!(error.to_string().contains(&said), "{error}");
        // A call says the same.
        let failed = rig.host(rig.nobody()).await.err().unwrap();
        assert!(failed.to_string().contains(&said), "{failed}");
        assert_eq!((rig.person.times_asked(), rig.mock.count("POST /token")), (0, 0));
    }
}

#[tokio::test]
async fn metadata_is_read_as_it_is_meant() {
    for n in 0..6 {
        let rig = Rig::new().await;
        {
            let mut world = rig.mock.world();
            let base = world.base.clone();
            match n {
                // A slash at one place and not at the other.
                0 => {
                    world.metadata.insert("issuer", json!(format!("{base}/")));
                    world.iss = Some(json!(format!("{base}/")));
                }
                1 => {
                    let named = json!([format!("{base}/")]);
                    _ = world.resource_members.insert("authorization_servers", named);
                }
                // A text where a list is expected, and what is no scope in a list of them.
                2 => {
                    _ = world.resource_members.insert("authorization_servers", json!(base));
                    _ = world.resource_members.insert("scopes_supported", json!("read"));
                    _ = world.metadata.insert("scopes_supported", json!("read write"));
                    _ = world.metadata.insert("code_challenge_methods_supported", json!("S256"));
                }
                3 => {
                    let scopes = json!(["read", 7, null, "a\nb", ""]);
                    _ = world.resource_members.insert("scopes_supported", scopes);
                    _ = world.metadata.insert("revocation_endpoint", json!(""));
                    _ = world.metadata.insert("grant_types_supported", Value::Null);
                }
                4 => world.marks = true,
                _ => {
                    let many: Vec<String> = (0..5_000).map(|n| format!("scope-{n}")).collect();
                    _ = world.resource_members.insert("scopes_supported", json!(many));
                }
            }
            world.granted.insert("scope", Value::Null);
        }
        let auth = rig.authorizer(&rig.nobody());
        let token = auth.sign_in(&rig.person, Vec::new()).await;
        let token = token.unwrap_or_else(|error| panic!("{n}: {error}"));
        // Of thousands of scopes none is asked for.
        assert_eq!(token.scopes, if n == 5 { vec![] } else { vec!["read"] }, "{n}");
        let host = rig.host(rig.nobody()).await.unwrap();
        assert!(host.call_tool("guarded.t", json!({})).await.is_ok(), "{n}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_revocation_that_wants_the_secret_of_a_client_without_one_is_given_an_empty_one() {
    let rig = Rig::new().await;
    rig.mock.world().revokes_with = Some("client_secret");
    let auth = rig.authorizer(&rig.nobody());
    auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    let out = auth.sign_out().await.unwrap();
    assert_eq!((out.revoked.is_ok(), rig.mock.count("POST /revoke")), (true, 2));
}

/// Another authorization server, whose metadata is this.
async fn named(metadata: &[(&'static str, Value)]) -> mock::Mock {
    let other = mock::Mock::start().await;
    other.world().metadata.extend(metadata.iter().cloned());
    other
}

#[tokio::test]
async fn of_several_authorization_servers_the_next_is_tried_and_the_one_that_was_used_comes_first()
{
    for metadata in [
        vec![("issuer", json!("https://another.example"))],
        vec![("code_challenge_methods_supported", json!(["plain"]))],
        vec![("token_endpoint", json!("ftp://a.example/token"))],
        vec![("token_endpoint", json!(7))],
    ] {
        let (rig, other) = (Rig::new().await, named(&metadata).await);
        let base = rig.mock.world().base.clone();
        let other_base = other.world().base.clone();
        rig.mock.world().named_before =
            vec!["http://127.0.0.1:1".to_owned(), other_base.clone(), base.clone()];
        let auth = rig.authorizer(&rig.nobody());
        let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
        assert_eq!(token.issuer, base, "{metadata:?}");
        assert_eq!(rig.mock.count("GET /.well-known/oauth-protected-resource"), 1);
        let looked = other.count("GET /.well-known/");
        assert!(looked > 0);
        let auth = rig.authorizer(&rig.nobody());
        auth.sign_in(&rig.person, Vec::new()).await.unwrap();
        assert_eq!(other.count("GET /.well-known/"), looked, "{metadata:?}");
        assert_eq!(other.world().issued, 0);
    }
}

#[tokio::test]
async fn that_no_authorization_server_can_be_used_is_told_of_each() {
    let rig = Rig::new().await;
    let plain = ("code_challenge_methods_supported", json!(["plain"]));
    let other = named(std::slice::from_ref(&plain)).await;
    let base = rig.mock.world().base.clone();
    rig.mock.world().metadata.insert(plain.0, plain.1);
    rig.mock.world().named_before =
        vec![other.world().base.clone(), "http://127.0.0.1:1".to_owned()];
    let auth = rig.authorizer(&rig.nobody());
    let error = auth.sign_in(&rig.person, Vec::new()).await.unwrap_err().to_string();
    assert!(error.contains("none of the 3 authorization servers"), "{error}");
    for issuer in [&other.world().base, "http://127.0.0.1:1", &base] {
        assert!(error.contains(&format!("{issuer}: ")), "{issuer}: {error}");
    }
    assert_eq!(rig.person.times_asked(), 0);
}

#[tokio::test]
async fn a_lifetime_is_read_as_servers_write_it() {
    for (written, read) in [
        (json!("3600"), Some(3600)),
        (json!(3600.0), Some(3600)),
        (json!(-5), None),
        (json!(0), None),
        (json!(u64::MAX), None),
        (json!("soon"), None),
        (Value::Null, None),
    ] {
        let rig = Rig::new().await;
        rig.mock.world().granted.insert("expires_in", written.clone());
        let auth = rig.authorizer(&rig.nobody());
        let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
        assert_eq!(token.expires_in, read, "{written}");
        assert_eq!(auth.refresh_now().await.unwrap().expires_in, read, "{written}");
        // It is used, and not refreshed before every request.
        let tokens = rig.mock.count("POST /token");
        let host = rig.host(rig.nobody()).await.unwrap();
        assert!(host.call_tool("guarded.t", json!({})).await.is_ok());
        host.shutdown().await;
        assert_eq!(rig.mock.count("POST /token"), tokens, "{written}");
    }
}

#[tokio::test]
async fn a_token_that_cannot_be_sent_is_refused_and_one_that_was_kept_is_none() {
    let rig = Rig::new().await;
    rig.mock.world().granted.insert("access_token", json!("a\r\nx-evil: 1"));
    let auth = rig.authorizer(&rig.nobody());
    let error = auth.sign_in(&rig.person, Vec::new()).await.unwrap_err();
    assert!(error.to_string().contains("characters that no header may"), "{error}");
    assert_eq!(rig.stored_token(), None);

    let kept = StoredToken { access_token: "a\nb".into(), ..rig.mock.token(60) };
    rig.store().save(&kept).unwrap();
    assert_eq!(auth.state().unwrap(), None);
    let error = rig.host(rig.nobody()).await.err().unwrap();
    assert!(error.to_string().contains("mcpdeck login guarded"), "{error}");
}

#[tokio::test]
async fn a_page_that_denies_says_what_may_help() {
    let rows: [Row; 3] = [
        ("no scope", |w| w.page_error = Some("access_denied"), "name one with `--scope`"),
        ("no scope is valid", |w| w.page_error = Some("invalid_scope"), "name one with `--scope`"),
        ("a code of its own", |w| w.page_error = Some("temporarily_unavailable"), "unavailable`"),
    ];
    for (what, bend, said) in rows {
        let rig = Rig::new().await;
        rig.mock.world().metadata_path = Some("/nowhere");
        rig.mock.world().resource_metadata = Some(format!("{}/gone", rig.mock.world().base));
        bend(&mut rig.mock.world());
        let error =
            rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await.unwrap_err();
        assert!(
            error.to_string().ends_with(said) || error.to_string().contains(said),
            "{what}: {error}"
        );
    }
    let denied: fn(&mut mock::World) = |w| w.page_error = Some("access_denied");
    let rig = Rig::new().await;
    denied(&mut rig.mock.world());
    let error = rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await.unwrap_err();
    assert!(!error.to_string().contains("--scope"), "one was asked for: {error}");
}
