//! A token goes to the server it was obtained for, and to no other of the same origin.

use mcpdeck::mcp::TokenStore;
use mcpdeck::{Host, host::Startup};
use serde_json::json;

use crate::auth::Rig;

impl Rig {
    /// A host with a server at each path, whose state does not matter.
    async fn at(&self, paths: &[&str]) -> Host {
        let base = self.mock.world().base.clone();
        let servers: serde_json::Value = paths
            .iter()
            .enumerate()
            .map(|(n, path)| (format!("s{n}"), json!({"url": format!("{base}{path}")})))
            .collect();
        let config = json!({"servers": servers}).to_string();
        let host = Host::builder().config_text(config).startup(Startup::Available);
        host.accounts(self.nobody()).initialize().await.unwrap()
    }

    /// The tokens that a path was sent, without repetitions.
    fn sent_to(&self, path: &str) -> Vec<String> {
        let world = self.mock.world();
        let sent = world.bearers.iter().filter(|(at, _)| at == path);
        let mut sent: Vec<String> = sent.map(|(_, token)| token.clone()).collect();
        sent.dedup();
        sent
    }
}

#[tokio::test]
async fn a_token_for_the_whole_origin_is_sent_to_the_server_that_it_was_obtained_for_alone() {
    let rig = Rig::new().await;
    let base = rig.mock.world().base.clone();
    rig.mock.world().resource = Some(base.clone());
    let token = rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await.unwrap();
    assert_eq!((token.resource.as_str(), token.server.as_str()), (&*base, &*rig.mock.url()));
    rig.mock.world().bearers.clear();

    let tokens = rig.mock.count("POST /token");
    let host = rig.at(&["/mcp", "/other/mcp"]).await;
    assert!(host.call_tool("s0.t", json!({})).await.is_ok());
    let error = host.call_tool("s1.t", json!({})).await.unwrap_err();
    host.shutdown().await;
    assert_eq!(rig.sent_to("/other/mcp"), [""], "{error}");
    assert_eq!(rig.sent_to("/mcp"), [token.access_token]);
    assert_eq!(rig.mock.count("POST /token"), tokens, "the refresh token was spent");
}

#[tokio::test]
async fn a_spelling_of_its_address_is_the_same_server_and_nothing_else_is() {
    let rig = Rig::new().await;
    rig.store().save(&rig.mock.token(60)).unwrap();
    let good = rig.mock.world().access.clone();
    for path in ["/./other/../mcp", "/%2e%2e/mcp", "/mcp#part"] {
        rig.mock.world().bearers.clear();
        rig.at(&[path]).await.shutdown().await;
        assert_eq!(rig.sent_to("/mcp").as_slice(), std::slice::from_ref(&good), "{path}");
    }
    for path in ["/mcp?tenant=2", "/mcp?"] {
        rig.mock.world().bearers.clear();
        rig.at(&[path]).await.shutdown().await;
        assert_eq!(rig.sent_to("/mcp"), [""], "{path}");
    }
    assert_eq!(rig.mock.count("POST /token"), 0);
}

#[tokio::test]
async fn a_client_is_registered_for_each_server_of_an_issuer() {
    let rig = Rig::new().await;
    let base = rig.mock.world().base.clone();
    rig.authorizer(&rig.nobody()).sign_in(&rig.person, Vec::new()).await.unwrap();
    let url = |path: &str| format!("{base}{path}").parse().unwrap();
    assert!(rig.store().client(&base, &url("/mcp")).unwrap().is_some());
    assert_eq!(rig.store().client(&base, &url("/other/mcp")).unwrap(), None);
}
