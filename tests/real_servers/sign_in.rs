//! Signing in at a real authorization server (npm `oidc-provider`), with a browser that is a script:
//! once from end to end, then the token's end, then a refresh token that was revoked.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use mcpdeck::base::ServerName;
use mcpdeck::deck::TokenFiles;
use mcpdeck::host::{Host, HostView, ServerState, Startup};
use mcpdeck::mcp::{Accounts, TokenStore};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use url::Url;

use crate::support::real_servers;

/// Starts both servers, with tokens that live so many seconds; gives the address of the MCP server.
async fn servers(seconds: u32) -> Option<(Child, Url)> {
    let root = real_servers()?;
    let mut command = Command::new("node");
    command
        .arg(root.join("sign-in.mjs"))
        .env("MCPDECK_TOKEN_SECONDS", seconds.to_string())
        .kill_on_drop(true);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("node");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let line = lines.next_line().await.expect("readable").expect("it says where it listens");
    let port = line.strip_prefix("LISTENING ").expect("a port");
    Some((child, format!("http://127.0.0.1:{port}/mcp").parse().expect("an address")))
}

/// A browser: follows redirects, keeps cookies, and gives every form what it asks for, until it is
/// sent back to the host.
async fn browse(mut url: Url, back: &str) {
    let none = reqwest::redirect::Policy::none();
    let client = reqwest::Client::builder().redirect(none).no_proxy().build().expect("a client");
    let mut cookies: BTreeMap<String, String> = BTreeMap::new();
    let mut form: Option<String> = None;
    for _ in 0..20 {
        let is_back = url.as_str().starts_with(back);
        let jar: Vec<String> =
            cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = match form.take() {
            Some(body) => client
                .post(url.clone())
                .header("content-type", "application/x-www-form-urlencoded")
                .body(body),
            None => client.get(url.clone()),
        };
        let answer = request.header("cookie", jar.join("; ")).send().await.expect("an answer");
        if is_back {
            assert!(answer.status().is_success(), "{url}: {}", answer.status());
            return;
        }
        for cookie in answer.headers().get_all("set-cookie") {
            let cookie = cookie.to_str().expect("text").split(';').next().unwrap_or_default();
            if let Some((name, value)) = cookie.split_once('=') {
                cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        if let Some(to) = answer.headers().get("location") {
            url = url.join(to.to_str().expect("text")).expect("an address");
            continue;
        }
        let status = answer.status();
        let page = answer.text().await.expect("a page");
        let between = |text: &str, from: &str, to: &str| {
            let rest = text.split_once(from)?.1;
            Some(rest.split_once(to)?.0.to_owned())
        };
        let action = between(&page, "action=\"", "\"");
        url =
            action.unwrap_or_else(|| panic!("{url}: {status} {page}")).parse().expect("an address");
        let prompt = between(&page, "name=\"prompt\" value=\"", "\"").expect("a prompt");
        form = Some(format!("prompt={prompt}&login=ada&password=any"));
    }
    panic!("the browser was never sent back");
}

async fn until(host: &Host, what: impl FnMut(&Arc<HostView>) -> bool) {
    let mut view = host.view();
    let seen = tokio::time::timeout(Duration::from_secs(30), view.wait_for(what)).await;
    seen.expect("it does not hang").expect("the host lives");
}

/// Opens the address that waits in the inbox.
async fn sign_in(host: &Host) {
    until(host, |view| view.pending.len() == 1).await;
    let params = host.view().borrow().pending[0].params.clone();
    let url = params["url"].as_str().expect("an address").parse().expect("an address");
    browse(url, params["redirectUri"].as_str().expect("an address")).await;
    let name = ServerName::new("notes");
    until(host, |view| {
        let server = &view.servers[&name];
        let has_token = server.account.as_ref().is_some_and(|account| account.is_refreshed);
        server.state == ServerState::Ready && has_token && view.pending.is_empty()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_real_authorization_server_is_signed_in_to_and_its_tokens_are_kept_good() {
    let Some((_servers, url)) = servers(5).await else { return };
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = Arc::new(TokenFiles::at(folder.path().join("tokens")));
    let config = json!({"servers": {"notes": {"url": url.as_str()}}}).to_string();
    let host = Host::builder().config_text(config).startup(Startup::Available);
    let host = host.accounts(Accounts::new(tokens.clone())).person_answers().initialize().await;
    let host = host.unwrap_or_else(|error| panic!("{error}"));
    sign_in(&host).await;
    let read = async || host.call_tool("notes.read", json!({})).await;
    assert_eq!(read().await.expect("signed in").text(), "a note");

    // The token lives five seconds: another one takes its place, and nobody is asked.
    let first = tokens.find(&url).expect("readable").expect("kept");
    let mut view = host.view();
    let ended = first.obtained_at + 6;
    while std::time::UNIX_EPOCH.elapsed().expect("a clock").as_secs() < ended {
        let _ = tokio::time::timeout(Duration::from_millis(200), view.changed()).await;
    }
    assert_eq!(read().await.expect("refreshed").text(), "a note");
    let second = tokens.find(&url).expect("readable").expect("kept");
    assert_ne!(first.refresh_token, second.refresh_token, "it rotates");
    assert!(host.view().borrow().pending.is_empty());

    // The refresh token is revoked at its issuer: one request, however many calls meet it.
    let revoked = reqwest::Client::new()
        .post(second.revocation_endpoint.as_deref().expect("it revokes"))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(format!(
            "token={}&client_id={}",
            second.refresh_token.as_deref().expect("it is refreshed"),
            second.client.id
        ));
    assert!(revoked.send().await.expect("an answer").status().is_success());
    let calls = (0..10).map(|_| read());
    for outcome in futures::future::join_all(calls).await {
        let error = outcome.expect_err("its grant is gone");
        assert!(error.to_string().contains("needs signing in"), "{error}");
    }
    until(&host, |view| view.pending.len() == 1).await;
    host.shutdown().await;
}
