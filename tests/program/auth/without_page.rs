//! Signing in without a page: the JWT of a workload (RFC 7523), and the grant of an identity provider
//! (RFC 8693).

use std::fs;

use mcpdeck::base::Secret;
use mcpdeck::config::{IdentityProvider, OAuthGrant};
use mcpdeck::mcp::AuthFailure;
use serde_json::json;

use crate::auth::Rig;
use crate::auth::program::run;

impl Rig {
    /// The secrets of the identity provider that the mock plays.
    fn provider(&self) -> IdentityProvider {
        IdentityProvider {
            token_endpoint: format!("{}/idp/token", self.mock.world().base),
            client_id: "idp-client".into(),
            id_token: Some(Secret::new("id-token")),
            ..IdentityProvider::default()
        }
    }
}

#[tokio::test]
async fn the_file_of_a_workload_is_read_anew_for_every_token() {
    let rig = Rig::new().await;
    let file = rig.dir.path().join("jwt");
    rig.mock.world().assertions = vec!["second".into()];
    let auth = rig.with(&rig.nobody(), |oauth| {
        oauth.grant = OAuthGrant::JwtBearer;
        oauth.client_id = Some("registered".into());
        oauth.assertion_file = Some(file.clone());
    });
    let refused = auth.refresh_now().await;
    assert!(
        matches!(&refused, Err(AuthFailure::Failed(why)) if why.contains("jwt")),
        "{refused:?}"
    );
    for (text, is_good) in [("first\n", false), ("second\n", true), ("", false), ("a b", false)] {
        fs::write(&file, text).unwrap();
        assert_eq!(auth.refresh_now().await.is_ok(), is_good, "{text:?}");
    }
    let token = rig.stored_token().unwrap();
    assert_eq!((token.refresh_token, rig.person.times_asked()), (None, 0));
}

#[tokio::test]
async fn an_identity_provider_vouches_for_the_person() {
    let rig = Rig::new().await;
    let provider = rig.provider();
    let auth = rig.with(&rig.nobody(), |oauth| {
        oauth.grant = OAuthGrant::IdentityProvider;
        oauth.client_id = Some("registered".into());
        oauth.identity_provider = Some(provider);
    });
    auth.refresh_now().await.unwrap();
    let seen = rig.mock.world().seen.clone();
    let exchange = seen.iter().find(|seen| seen.starts_with("POST /idp/token")).unwrap();
    for part in ["token-exchange", "requested_token_type=", "id-jag", "client_id=idp-client"] {
        assert!(exchange.contains(part), "{exchange}");
    }
    let resource = rig.mock.url();
    assert_eq!(rig.mock.world().assertions, [format!("grant-for-{resource}")]);
    // An ID token that is no longer good is a refusal that names the provider.
    let stale = IdentityProvider { id_token: Some(Secret::new("stale")), ..rig.provider() };
    let auth = rig.with(&rig.nobody(), |oauth| {
        oauth.grant = OAuthGrant::IdentityProvider;
        oauth.client_id = Some("registered".into());
        oauth.identity_provider = Some(stale);
    });
    let refused = auth.refresh_now().await;
    assert!(
        matches!(&refused, Err(AuthFailure::Refused(why)) if why.contains("identity provider")),
        "{refused:?}"
    );
}

#[tokio::test]
async fn an_entry_says_the_whole_of_it_or_what_it_lacks() {
    let rig = Rig::new().await;
    let url = rig.mock.url();
    let base = rig.mock.world().base.clone();
    let config = rig.dir.path().join("mcp.json");
    let idp = format!("{base}/idp/token");
    fs::write(rig.dir.path().join("id.jwt"), "id-token\n").unwrap();
    let good = json!({
        "clientId": "registered",
        "identityProvider": {"tokenEndpoint": idp, "clientId": "c", "idTokenFile": "id.jwt"},
    });
    for (oauth, wrong) in [
        (good, None),
        (json!({"grant": "jwt_bearer"}), Some("there is no JWT")),
        (json!({"assertion": "a", "assertionFile": "b"}), Some("two JWTs")),
        (json!({"grant": "authorization_code", "assertion": "a"}), Some("goes with the grant")),
        (json!({"grant": "identity_provider", "clientId": "c"}), Some("is missing")),
        (json!({"clientId": "c", "identityProvider": {"tokenEndpoint": idp}}), Some("`clientId`")),
        (
            json!({"clientId": "c", "identityProvider": {
                "tokenEndpoint": "http://idp.example/token", "clientId": "c", "idToken": "t",
            }}),
            Some("https://"),
        ),
        (
            json!({"clientId": "c", "identityProvider": {"tokenEndpoint": idp, "clientId": "c"}}),
            Some("one of `idToken` and `idTokenFile`"),
        ),
        (
            json!({"identityProvider": {"tokenEndpoint": idp, "clientId": "c", "idToken": "t"}}),
            Some("`clientId` is missing"),
        ),
        (json!({"exchange": {"tokenEndpoint": idp}}), Some("`clientId`")),
        (
            json!({"exchange": {"tokenEndpoint": "http://idp.example/token", "clientId": "c"}}),
            Some("https://"),
        ),
        (
            json!({"exchange": {
                "tokenEndpoint": idp, "clientId": "c", "actorToken": "a", "actorTokenFile": "f",
            }}),
            Some("two JWTs"),
        ),
        (
            json!({"exchange": {"tokenEndpoint": idp, "clientId": "c", "resource": "crm"}}),
            Some("must be an address"),
        ),
    ] {
        let text = json!({"servers": {"guarded": {"url": url, "oauth": oauth}}}).to_string();
        fs::write(&config, text).unwrap();
        let (said, code) = run(&rig, &["call", "guarded.t"]).await;
        match wrong {
            None => assert!(code == Some(0) && said.contains("done"), "{said}"),
            Some(wrong) => assert!(code != Some(0) && said.contains(wrong), "{wrong}: {said}"),
        }
    }
}
