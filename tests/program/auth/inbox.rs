//! Signing in where a person is there: a request of the inbox, never a browser of its own accord; what
//! is shown of the account; and what restarts and revoked tokens cost.

use std::sync::Arc;
use std::time::Duration;

use mcpdeck::Host;
use mcpdeck::base::ServerName;
use mcpdeck::host::{ApprovalRequest, HostView, ServerState, Startup};
use mcpdeck::mcp::{StepKind, StoredToken, TokenStore};
use mcpdeck::protocol::{Answer, Direction, RequestKind};
use serde_json::json;

use crate::auth::Rig;

impl Rig {
    /// A host with a person, whose server is ready or failed.
    async fn with_person(&self) -> Host {
        let config = json!({"servers": {"guarded": {"url": self.mock.url()}}});
        let host = Host::builder().config_text(config.to_string()).startup(Startup::Available);
        host.accounts(self.nobody()).person_answers().initialize().await.unwrap()
    }
}

fn guarded() -> ServerName {
    "guarded".into()
}

async fn until(host: &Host, what: impl FnMut(&Arc<HostView>) -> bool) {
    let mut view = host.view();
    let seen = tokio::time::timeout(Duration::from_secs(20), view.wait_for(what)).await;
    seen.expect("it does not hang").unwrap();
}

async fn pending_request(host: &Host) -> Arc<ApprovalRequest> {
    until(host, |view| !view.pending.is_empty()).await;
    let view = host.view();
    let view = view.borrow();
    assert_eq!(view.pending.len(), 1);
    Arc::clone(&view.pending[0])
}

async fn ready(host: &Host) {
    let is_ready = |view: &Arc<HostView>| view.servers[&guarded()].state == ServerState::Ready;
    until(host, |view| is_ready(view) && view.pending.is_empty()).await;
}

async fn browse(asked: &ApprovalRequest) {
    reqwest::get(asked.params["url"].as_str().unwrap()).await.unwrap();
}

#[tokio::test]
async fn signing_in_waits_in_the_inbox_and_the_server_starts_when_the_browser_is_back() {
    let rig = Rig::new().await;
    let host = rig.with_person().await;
    let asked = pending_request(&host).await;
    assert_eq!((&asked.kind, asked.server.as_str()), (&RequestKind::SignIn, "guarded"));
    assert_eq!(asked.params["issuer"], json!(rig.mock.world().base));
    assert_eq!(asked.params["scopes"], json!(["read"]));
    assert_eq!(rig.mock.count("GET /authorize"), 0, "a browser was opened unasked");
    browse(&asked).await;
    ready(&host).await;
    assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");

    let server = Arc::clone(&host.view().borrow().servers[&guarded()]);
    let account = server.account.clone().unwrap();
    assert_eq!(account.issuer.as_str(), rig.mock.world().base);
    assert_eq!((account.scopes.len(), account.is_refreshed), (1, true));
    assert!(account.expires.is_some());

    // The exchange is in the traffic, and no secret is.
    let traffic = host.traffic().tail(usize::MAX);
    let signing = traffic.iter().filter(|record| {
        record.method.as_ref().is_some_and(|method| method.starts_with("sign-in: "))
    });
    let shown: Vec<String> = signing
        .map(|record| {
            let (method, target) = (record.method.as_ref().unwrap(), record.target.as_ref());
            let way = if record.direction == Direction::Out { ">" } else { "<" };
            format!("{way} {method} {} {}", target.unwrap(), record.body)
        })
        .collect();
    for part in [
        "< sign-in: challenge",
        "< sign-in: resource metadata",
        r#""authorization_endpoint":"#,
        "> sign-in: register",
        "> sign-in: authorize",
        r#""grant_type":"authorization_code","code":"***""#,
        r#""access_token":"***","token_type":"Bearer","expires_in":3600,"refresh_token":"***""#,
    ] {
        assert!(shown.iter().any(|line| line.contains(part)), "{part}: {shown:#?}");
    }
    let state = asked.params["url"].as_str().unwrap().split("state=").nth(1).unwrap();
    for secret in ["access-1", "refresh-1", "good-code", state.split('&').next().unwrap()] {
        assert!(shown.iter().all(|line| !line.contains(secret)), "{secret}: {shown:#?}");
    }
    host.shutdown().await;
}

#[tokio::test]
async fn an_address_pasted_from_another_machine_ends_the_sign_in_too() {
    let rig = Rig::new().await;
    let host = rig.with_person().await;
    let asked = pending_request(&host).await;
    let address = crate::auth::program::ends_at(asked.params["url"].as_str().unwrap()).await;
    let answer = json!({"action": "accept", "content": {"address": address}});
    host.answer(asked.id, Answer::Result(answer)).unwrap();
    ready(&host).await;
    host.shutdown().await;
}

#[tokio::test]
async fn the_port_of_a_registered_client_is_none_that_a_system_gives_to_connections() {
    let rig = Rig::new().await;
    let host = rig.with_person().await;
    let asked = pending_request(&host).await;
    let back = reqwest::Url::parse(asked.params["redirectUri"].as_str().unwrap()).unwrap();
    assert!((1024..32_768).contains(&back.port().unwrap()), "{back}");
    host.shutdown().await;
}

#[tokio::test]
async fn not_now_is_not_asked_again_until_somebody_wants_to_sign_in() {
    let rig = Rig::new().await;
    let host = rig.with_person().await;
    host.answer(pending_request(&host).await.id, Answer::Result(json!({"action": "decline"})))
        .unwrap();
    until(&host, |view| view.pending.is_empty()).await;
    for _ in 0..3 {
        host.restart(&guarded()).await.unwrap_err();
    }
    assert!(host.view().borrow().pending.is_empty());
    host.sign_in(&guarded()).unwrap();
    pending_request(&host).await;
    host.stop(&guarded()).await.unwrap();
    until(&host, |view| view.pending.is_empty()).await;
    host.sign_in(&guarded()).unwrap();
    browse(&*pending_request(&host).await).await;
    ready(&host).await;
    assert_eq!(rig.mock.count("POST /register"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn a_revoked_refresh_token_is_one_request_however_many_calls_meet_it() {
    let rig = Rig::new().await;
    rig.store().save(&rig.mock.token(60)).unwrap();
    let host = rig.with_person().await;
    {
        let mut world = rig.mock.world();
        world.access = "another".into();
        world.refuse_refresh = Some(|_| ());
    }
    let calls = (0..50).map(|_| host.call_tool("guarded.t", json!({})));
    for outcome in futures::future::join_all(calls).await {
        let error = outcome.err().unwrap();
        assert!(error.to_string().contains("needs signing in"), "{error}");
    }
    assert_eq!(rig.mock.count("POST /token"), 1);
    let expires = |view: &HostView| view.servers[&guarded()].account.as_ref().unwrap().expires;
    let before = expires(&host.view().borrow());
    browse(&*pending_request(&host).await).await;
    until(&host, |view| view.pending.is_empty() && expires(view) != before).await;
    // A server that wants a token is well: no breaker has opened.
    assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
    assert_eq!(rig.mock.count("GET /authorize"), 1);
    host.shutdown().await;
}

#[tokio::test]
async fn a_hundred_restarts_open_no_browser_and_register_one_client() {
    let rig = Rig::new().await;
    for _ in 0..50 {
        let host = rig.with_person().await;
        pending_request(&host).await;
        host.shutdown().await;
    }
    assert_eq!((rig.mock.count("GET /authorize "), rig.mock.count("POST /register")), (0, 1));
    let host = rig.with_person().await;
    browse(&*pending_request(&host).await).await;
    ready(&host).await;
    host.shutdown().await;
    // Its token ends before each of the others.
    for _ in 0..50 {
        let token = rig.stored_token().unwrap();
        rig.store().save(&StoredToken { obtained_at: 0, ..token }).unwrap();
        let host = rig.with_person().await;
        ready(&host).await;
        host.shutdown().await;
    }
    assert_eq!((rig.mock.count("GET /authorize "), rig.mock.count("POST /register")), (1, 1));
    assert_eq!(rig.mock.count("POST /token grant_type=refresh_token"), 50);
}

#[tokio::test]
async fn a_token_is_refreshed_and_revoked_when_somebody_says_so() {
    let rig = Rig::new().await;
    rig.store().save(&rig.mock.token(60)).unwrap();
    let host = rig.with_person().await;
    host.refresh_token(&guarded()).await.unwrap();
    assert_eq!(rig.stored_token().unwrap().refresh_token.as_deref(), Some("refresh-1-good"));
    assert_eq!(host.call_tool("guarded.t", json!({})).await.unwrap().text(), "done");
    let authorization = host.authorization(&guarded()).await.unwrap();
    assert_eq!(authorization.issuer, rig.mock.world().base);

    assert_eq!(host.sign_out(&guarded()).await.unwrap(), None);
    assert_eq!((rig.mock.count("POST /revoke"), rig.stored_token()), (1, None));
    let signed_out = |view: &Arc<HostView>| {
        let server = &view.servers[&guarded()];
        server.state == ServerState::Unavailable && server.account.is_none()
    };
    until(&host, signed_out).await;
    assert!(host.view().borrow().pending.is_empty(), "nobody wants to be asked right after it");
    let server = Arc::clone(&host.view().borrow().servers[&guarded()]);
    assert!(server.auth_steps.iter().any(|step| step.kind == StepKind::Challenge));
    host.shutdown().await;
}
