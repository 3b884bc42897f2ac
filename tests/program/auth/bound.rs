//! Tokens that are bound to a key of the host (`DPoP`, RFC 9449).

use mcpdeck::mcp::{AuthFailure, StoredToken, TokenStore};
use serde_json::{Value, json};

use crate::auth::Rig;
use crate::auth::program::run;

#[tokio::test]
async fn a_server_that_wants_bound_tokens_gets_a_fresh_proof_with_every_request() {
    for nonce in ["", "nonce-1"] {
        let rig = Rig::new().await;
        rig.mock.world().bound = Some(nonce);
        let host = rig.host(rig.accounts()).await.unwrap();
        assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
        // Another one is wanted from now on.
        let next = if nonce.is_empty() { "" } else { "nonce-2" };
        rig.mock.world().bound = Some(next);
        assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
        host.shutdown().await;
        let proofs = rig.mock.world().proofs.clone();
        assert!(proofs.iter().any(|proof| proof.path == "/token" && proof.claims["ath"].is_null()));
        let keys: Vec<&Value> = proofs.iter().map(|proof| &proof.header["jwk"]).collect();
        assert!(keys.iter().all(|key| *key == keys[0] && key.get("d").is_none()), "{keys:?}");
        let at_server = proofs.iter().filter(|proof| proof.path == "/mcp");
        assert!(at_server.clone().count() >= 3);
        assert!(at_server.clone().all(|proof| proof.claims["ath"].is_string()));
        assert_eq!(rig.person.times_asked(), 1);
    }
}

#[tokio::test]
async fn a_bound_token_is_refreshed_with_its_key_by_another_process_too() {
    let rig = Rig::new().await;
    rig.mock.world().bound = Some("n");
    let auth = rig.authorizer(&rig.nobody());
    let first = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    assert!(first.proof_key.is_some());
    rig.store()
        .save(&StoredToken { obtained_at: first.obtained_at - 3590, ..first.clone() })
        .unwrap();
    let host = rig.host(rig.nobody()).await.unwrap();
    assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
    host.shutdown().await;
    let kept = rig.stored_token().unwrap();
    assert_eq!(kept.proof_key, first.proof_key);
    assert_ne!(kept.access_token, first.access_token);
    let proofs = rig.mock.world().proofs.clone();
    assert!(proofs.iter().all(|proof| proof.header["jwk"] == proofs[0].header["jwk"]));
}

#[tokio::test]
async fn a_token_that_is_not_bound_is_refused_where_one_is_wanted() {
    let rig = Rig::new().await;
    rig.mock.world().bound = Some("");
    rig.mock.world().granted.insert("token_type", json!("Bearer"));
    let auth = rig.authorizer(&rig.nobody());
    let refused = auth.sign_in(&rig.person, Vec::new()).await;
    assert!(matches!(&refused, Err(AuthFailure::Refused(why)) if why.contains("not bound")));
    assert!(rig.stored_token().is_none());
}

#[tokio::test]
async fn the_entry_decides_whether_tokens_are_bound() {
    // Nobody asks for it: a bearer token, and no proof.
    let rig = Rig::new().await;
    let supported = json!(["ES256"]);
    rig.mock.world().metadata.insert("dpop_signing_alg_values_supported", supported);
    let auth = rig.authorizer(&rig.nobody());
    assert!(auth.sign_in(&rig.person, Vec::new()).await.unwrap().proof_key.is_none());
    // The entry wants it, and the authorization server takes no such proof.
    rig.mock.world().metadata.insert("dpop_signing_alg_values_supported", json!(["EdDSA"]));
    let auth = rig.with(&rig.nobody(), |oauth| oauth.dpop = Some(true));
    let refused = auth.sign_in(&rig.person, Vec::new()).await;
    assert!(matches!(&refused, Err(AuthFailure::Refused(why)) if why.contains("ES256")));
    // The entry does not want it, though the server asks.
    rig.mock.world().bound = Some("");
    let auth = rig.with(&rig.nobody(), |oauth| oauth.dpop = Some(false));
    assert!(auth.sign_in(&rig.person, Vec::new()).await.is_err());
}

#[tokio::test]
async fn the_key_of_a_token_is_not_shown() {
    let rig = Rig::new().await;
    rig.mock.world().bound = Some("");
    let auth = rig.authorizer(&rig.nobody());
    let token = auth.sign_in(&rig.person, Vec::new()).await.unwrap();
    let key = token.proof_key.clone().unwrap();
    assert!(!format!("{token:?}").contains(&key));
    let (said, code) =
        run(&rig, &["call", "guarded.t", "--log-level", "trace", "--log-file", "-"]).await;
    assert!(!said.contains(&key), "{said} {code:?}");
}
