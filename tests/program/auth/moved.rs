//! `--check` knows where signing in leads, and says when that moved.

use serde_json::{Value, json};

use crate::auth::Rig;
use crate::auth::program::run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authorization_server_that_moves_in_silence_is_drift() {
    let rig = Rig::new().await;
    mcpdeck::mcp::TokenStore::save(&rig.store(), &rig.mock.token(60)).unwrap();
    let (text, code) = run(&rig, &["--check", "--lock"]).await;
    assert_eq!(code, Some(0), "{text}");
    let lock = std::fs::read_to_string(rig.dir.path().join("mcp.lock.json")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    let locked = &lock["servers"]["guarded"]["authorization"];
    let base = rig.mock.world().base.clone();
    assert_eq!(locked["issuer"], json!(base));
    assert_eq!(locked["tokenEndpoint"], json!(format!("{base}/token")));
    assert_eq!(run(&rig, &["--check"]).await.1, Some(0), "nothing moved");

    // The token is still good: nothing else would tell.
    rig.mock.world().metadata.insert("token_endpoint", json!(format!("{base}/elsewhere")));
    let (text, code) = run(&rig, &["--check"]).await;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("lock/authorization") && text.contains("/elsewhere"), "{text}");
    assert_eq!(rig.mock.count("POST /elsewhere"), 0);
}
