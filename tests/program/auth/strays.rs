//! What comes to the redirect address and is not the answer that is waited for: its browser is told,
//! the terminal too, nothing of it is used, and the true answer is still taken.

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use mcpdeck::mcp::{AuthEvent, SignIn, SignInPrompt, StepKind};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::auth::Rig;
use crate::auth::program::mcpdeck;

/// Sends a request head to the redirect address, and gives the status and text of its page.
async fn page(redirect: &url::Url, method: &str, query: &str) -> (u16, String) {
    let port = redirect.port().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let (path, body) = (redirect.path(), if method == "POST" { query } else { "" });
    let query = if method == "POST" || query.is_empty() { "" } else { &format!("?{query}") };
    let head = format!(
        "{method} {path}{query} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let status = text.split(' ').nth(1).unwrap().parse().unwrap();
    (status, text.split_once("\r\n\r\n").unwrap().1.to_owned())
}

/// What comes, and what its page and the terminal say.
const STRAYS: [(&str, &str, u16, &str); 8] = [
    ("GET", "", 400, "holds no `state`"),
    ("GET", "code=good-code", 400, "holds no `state`"),
    ("GET", "code=good-code&state=", 400, "holds no `state`"),
    ("GET", "code=good-code&state=another", 400, "is that of another sign-in"),
    ("GET", "error=access_denied&error_description=pay%20me", 400, "the error `access_denied`"),
    ("GET", "error=%1b%5b31m%20pay%20me&state=x", 400, "is that of another sign-in"),
    ("GET", "state=another&code=c&state=another", 400, "is that of another sign-in"),
    ("POST", "code=good-code&state=another", 405, "by POST"),
];

/// A user whose browser brings all of them before the true answer.
#[derive(Clone, Default)]
struct Misled(Arc<Mutex<Vec<(u16, String)>>>);

impl SignInPrompt for Misled {
    fn sign_in(&self, request: SignIn) -> BoxFuture<'static, Result<Option<String>, String>> {
        let seen = Arc::clone(&self.0);
        async move {
            let redirect = url::Url::parse(&request.redirect_uri).unwrap();
            for (method, query, ..) in STRAYS {
                let page = page(&redirect, method, query).await;
                seen.lock().unwrap().push(page);
            }
            reqwest::get(request.url).await.map(|_| None).map_err(|error| error.to_string())
        }
        .boxed()
    }
}

#[tokio::test]
async fn an_answer_that_is_not_the_one_is_told_to_its_browser_and_the_true_one_is_taken() {
    let rig = Rig::new().await;
    let told = Arc::new(Mutex::new(Vec::new()));
    let telling = Arc::clone(&told);
    let accounts = rig.nobody().watch(move |_, event| {
        if let AuthEvent::Step { step, sent, answered } = event
            && step.kind == StepKind::Redirect
        {
            telling.lock().unwrap().push(format!("{step}{sent}{answered}"));
        }
    });
    let person = Misled::default();
    let token = rig.authorizer(&accounts).sign_in(&person, Vec::new()).await.unwrap();
    assert_eq!(token.access_token, "access-1-good");
    assert_eq!(rig.mock.count("POST /token"), 1, "a code that came astray was used");
    let (pages, told) = (person.0.lock().unwrap(), told.lock().unwrap());
    assert_eq!(pages.len(), STRAYS.len());
    for ((page, told), (method, query, status, said)) in pages.iter().zip(&*told).zip(STRAYS) {
        assert_eq!(page.0, status, "{method} {query}: {page:?}");
        for text in [&page.1, told] {
            assert!(text.contains(said), "{method} {query}: {text}");
            assert!(!text.contains("good-code") && !text.contains("pay me"), "{text}");
        }
        assert!(page.1.contains("still waits"), "{page:?}");
        assert!(told.contains(&format!("/callback HTTP {status}: ")), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_says_at_once_that_an_answer_was_not_used_and_ends_with_the_true_one() {
    let rig = Rig::new().await;
    let mut child = mcpdeck(&rig, &["login", "guarded", "--no-browser"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut next = async |wanted: &str| loop {
        let line = lines.next_line().await.unwrap().expect(wanted);
        if line.contains(wanted) {
            return line;
        }
    };
    let shown = next("mcpdeck: open ").await;
    let shown = url::Url::parse(shown.strip_prefix("mcpdeck: open ").unwrap()).unwrap();
    let redirect = shown.query_pairs().find(|(key, _)| key == "redirect_uri").unwrap().1;
    let redirect = url::Url::parse(&redirect).unwrap();
    next("paste the address").await;
    let (status, _) = page(&redirect, "GET", "code=stolen-code").await;
    assert_eq!(status, 400);
    let told = next("holds no `state`").await;
    assert!(told.contains("still waiting") && !told.contains("stolen-code"), "{told}");
    // What is no answer at all is not spoken of.
    assert_eq!(page(&redirect.join("/favicon.ico").unwrap(), "GET", "").await.0, 404);
    reqwest::get(shown).await.unwrap();
    let end = child.wait_with_output().await.unwrap();
    assert_eq!(end.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&end.stdout).contains("guarded: signed in"));
    assert_eq!(rig.mock.count("POST /token"), 1);
}
