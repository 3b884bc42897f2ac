//! The same through the binary: five processes and one token, `login --no-browser`, `status`,
//! `--check`, `logout`.

use std::process::Stdio;

use mcpdeck::mcp::TokenStore;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};

use crate::auth::Rig;

pub fn mcpdeck(rig: &Rig, args: &[&str]) -> Command {
    let path = rig.dir.path();
    let file = path.join("mcp.json");
    // Written once: a program that runs already may be reading it.
    if !file.exists() {
        let config = json!({"servers": {"guarded": {"url": rig.mock.url()}}});
        std::fs::write(&file, config.to_string()).unwrap();
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcpdeck"));
    command.args(args).current_dir(path).env("MCPDECK_STATE_DIR", path).kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a program said on both streams, and its exit code.
pub async fn run(rig: &Rig, args: &[&str]) -> (String, Option<i32>) {
    let done = mcpdeck(rig, args).output().await.unwrap();
    let text = [done.stdout, done.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), done.status.code())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_five_processes_that_refresh_one_token_one_posts_and_all_succeed() {
    let rig = Rig::new().await;
    rig.store().save(&rig.mock.token(3595)).unwrap();
    let five = (0..5).map(|_| run(&rig, &["list"]));
    for (text, code) in futures::future::join_all(five).await {
        assert_eq!(code, Some(0), "{text}");
    }
    assert_eq!(rig.mock.count("POST /token"), 1);
    assert_eq!(rig.stored_token().unwrap().refresh_token.as_deref(), Some("refresh-1-good"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_status_that_refreshes_a_token_tells_the_time_of_the_new_one() {
    let rig = Rig::new().await;
    for json in [false, true] {
        rig.store().save(&rig.mock.token(4_000)).unwrap();
        let (text, code) = run(&rig, if json { &["status", "--json"] } else { &["status"] }).await;
        assert_eq!(code, Some(0), "{text}");
        assert!(!text.contains("expired") && !text.contains("next call"), "{text}");
        assert!(text.contains(", refreshed by itself"), "{text}");
    }
}

/// Starts `login --no-browser`; gives the address it shows.
async fn login(rig: &Rig) -> (Child, String) {
    let mut child = mcpdeck(rig, &["login", "guarded", "--no-browser"]).spawn().unwrap();
    let url = shown(&mut child).await;
    (child, url)
}

/// The address that a `login` shows.
async fn shown(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(url) = line.strip_prefix("mcpdeck: open ") {
            let url = url.to_owned();
            // Whatever else it says is read, or it would wait for a reader.
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return url;
        }
    }
    panic!("no address was shown");
}

/// Where the browser of another machine ends: at an address it cannot show.
pub async fn ends_at(url: &str) -> String {
    let none = reqwest::redirect::Policy::none();
    let client = reqwest::Client::builder().redirect(none).build().unwrap();
    let answer = client.get(url).send().await.unwrap();
    answer.headers()["location"].to_str().unwrap().to_owned()
}

async fn paste(mut child: Child, line: &str) -> Option<i32> {
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    child.wait().await.unwrap().code()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_takes_a_pasted_address_status_shows_it_and_logout_revokes_it() {
    let rig = Rig::new().await;
    let (text, code) = run(&rig, &["--check"]).await;
    assert_eq!(code, Some(3), "{text}");
    for said in [
        "start/unauthorized",
        "mcpdeck login guarded",
        "sign-in: challenge",
        "/.well-known/oauth-protected-resource/mcp HTTP 200",
        "sign-in: server metadata",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }

    let (child, url) = login(&rig).await;
    let other = ends_at(&url).await.replace("state=", "state=x");
    assert_eq!(paste(child, &other).await, Some(1), "the `state` of another sign-in");
    assert_eq!(rig.mock.count("POST /token"), 0);

    let (child, url) = login(&rig).await;
    assert_eq!(paste(child, &ends_at(&url).await).await, Some(0));
    let (text, code) = run(&rig, &["status"]).await;
    assert_eq!(code, Some(0), "{text}");
    for shown in ["signed in", "read", ", refreshed by itself"] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!text.contains("access-1"), "{text}");

    rig.mock.world().stalls = true;
    let (text, code) = run(&rig, &["logout", "guarded"]).await;
    assert_eq!(code, Some(0), "{text}");
    let said = format!("the token was not revoked at {}: ", rig.mock.world().base);
    assert!(text.contains(&said) && text.contains("did not answer within 5 s"), "{text}");
    assert!(text.contains("signed out; the token was forgotten here"), "{text}");
    assert!(!text.contains("signing in"), "{text}");
    assert_eq!((rig.mock.count("POST /revoke"), rig.stored_token()), (1, None));
    let (text, _) = run(&rig, &["logout", "guarded"]).await;
    assert_eq!(text, "guarded: was not signed in\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_that_signs_in_works_for_every_name() {
    let rig = Rig::new().await;
    for (n, (name, words)) in [
        ("my server", "--config c.json 'my server'"),
        ("it's", "--config c.json 'it'\\''s'"),
        ("größe", "--config c.json 'größe'"),
        ("a\"b", "--config c.json 'a\"b'"),
        ("-x", "--config c.json -- -x"),
    ]
    .into_iter()
    .enumerate()
    {
        let url = format!("{}?n={n}", rig.mock.url());
        let config = json!({"servers": {name: {"url": url}}});
        std::fs::write(rig.dir.path().join("c.json"), config.to_string()).unwrap();
        let (text, _) = run(&rig, &["status", "-c", "c.json"]).await;
        let (before, after) = words.split_once(" c.json ").unwrap();
        let either = [
            format!("`mcpdeck login {words}`"),
            format!("`mcpdeck login {after} {before} c.json`"),
        ];
        assert!(either.iter().any(|said| text.contains(said)), "{name}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_wants_a_password_is_named() {
    let rig = Rig::new().await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                line.clear();
            }
            let refusal = "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic \
                           realm=x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(refusal.as_bytes()).await;
        }
    });
    for scheme in ["http", "https"] {
        let mut list = mcpdeck(&rig, &["list", &format!("{scheme}://mcp.example.test/mcp")]);
        list.env("HTTP_PROXY", format!("http://{proxy}"));
        list.env("HTTPS_PROXY", format!("http://{proxy}"));
        let done = list.output().await.unwrap();
        let text = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert!(text.contains(&format!("the proxy {proxy}")), "{scheme}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_verb_names_a_command_that_signs_in() {
    let rig = Rig::new().await;
    let url = rig.mock.url();
    run(&rig, &["config"]).await;
    std::fs::rename(rig.dir.path().join("mcp.json"), rig.dir.path().join("my servers.json"))
        .unwrap();
    std::fs::write(rig.dir.path().join("mcp.json"), r#"{"servers": {}}"#).unwrap();
    let by_url = format!("`mcpdeck login {url}`");
    let by_file = "`mcpdeck login guarded --config 'my servers.json'`".to_owned();
    for (args, said) in [
        (vec!["list", &url], &by_url),
        (vec!["status", "--url", &url], &by_url),
        (vec!["call", "t", "--url", &url], &by_url),
        (vec!["--check", &url], &by_url),
        (vec!["list", "-c", "my servers.json"], &by_file),
        (vec!["call", "guarded.t", "-c", "my servers.json"], &by_file),
        (vec!["--check", "-c", "my servers.json"], &by_file),
    ] {
        let (text, _) = run(&rig, &args).await;
        assert!(text.contains(said.as_str()), "{args:?}: {text}");
    }
    // And so it does.
    let mut child = mcpdeck(&rig, &["login", &url, "--no-browser"]).spawn().unwrap();
    let shown = shown(&mut child).await;
    assert_eq!(paste(child, &ends_at(&shown).await).await, Some(0));
    assert_eq!(run(&rig, &["list", &url]).await.1, Some(0));
}
