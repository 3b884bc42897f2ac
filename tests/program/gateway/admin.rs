//! The operator's page: signing in, orders, and pages that are not it. The program itself, and a
//! browser where there is one.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::{Value, json};

use super::{Answer, Service, send};
use crate::page::Page;

fn service() -> Service {
    Service::with(&json!({"deny": ["vendor.fail"]}), &["--admin"])
}

/// The link that the program printed.
fn link(service: &Service) -> String {
    let told = std::fs::read_to_string(service.folder.join("stderr")).unwrap();
    let line = told.lines().find(|line| line.contains("/admin/login?code=")).expect("a link");
    line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned()
}

fn path(link: &str) -> &str {
    &link[link.find("/admin").unwrap()..]
}

impl Service {
    /// Signs in; returns the cookie.
    fn sign_in(&self) -> String {
        let answer = self.send("GET", path(&link(self)), &[], "");
        assert_eq!((answer.status, answer.header("location")), (303, Some("/admin")), "{answer:?}");
        let set = answer.header("set-cookie").unwrap();
        for word in ["HttpOnly", "SameSite=Strict", "Path=/admin"] {
            assert!(set.contains(word), "{word}: {set}");
        }
        set.split(';').next().unwrap().to_owned()
    }

    fn order(&self, headers: &[(&str, &str)], order: &Value) -> Answer {
        let json = [("Content-Type", "application/json")];
        let headers = [&json, headers].concat();
        self.send("POST", "/admin/orders", &headers, &order.to_string())
    }
}

#[test]
fn a_link_signs_in_once_and_nothing_else_does() {
    let service = service();
    let link = link(&service);
    let cookie = service.sign_in();
    let again = service.send("GET", path(&link), &[], "");
    assert_eq!((again.status, again.header("set-cookie")), (403, None), "{again:?}");
    let guessed = service.send("GET", "/admin/login?code=0000", &[], "");
    assert!(guessed.body.contains("your own token"), "{guessed:?}");
    assert_eq!(guessed.status, 403);
    let order = json!({"order": "restart", "server": "vendor"});
    let auth = service.auth();
    for headers in [&[][..], &[("Cookie", "mcpdeck_admin_1=x")], &[("Authorization", &*auth)]] {
        assert_eq!(service.order(headers, &order).status, 401, "{headers:?}");
        assert_eq!(service.send("GET", "/admin/events", headers, "").status, 401, "{headers:?}");
    }
    let done = service.order(&[("Cookie", &cookie)], &order);
    assert_eq!((done.status, done.json()), (200, json!({"message": "done"})));
    let absent =
        service.order(&[("Cookie", &cookie)], &json!({"order": "restart", "server": "no"}));
    assert_eq!(absent.status, 409, "{absent:?}");
    for wrong in [json!({"order": "call", "server": "vendor"}), json!({"order": "stop"}), json!([])]
    {
        assert_eq!(service.order(&[("Cookie", &cookie)], &wrong).status, 400, "{wrong}");
    }
    let out = service.send("POST", "/admin/logout", &[("Cookie", &cookie)], "");
    assert_eq!(out.status, 204);
    assert_eq!(service.order(&[("Cookie", &cookie)], &order).status, 401);
}

#[test]
fn no_other_page_gives_an_order() {
    let service = service();
    let cookie = service.sign_in();
    let port = service.url.rsplit(':').next().unwrap();
    let order = json!({"order": "stop", "server": "vendor"});
    let refused = |headers: &[(&str, &str)]| {
        let mut all = vec![("Cookie", cookie.as_str())];
        all.extend(headers);
        let answer = service.order(&all, &order);
        assert!([403, 415].contains(&answer.status), "{headers:?}: {answer:?}");
    };
    // Another site; one at another port, which cookies take for the same; a frame without one.
    for origin in ["https://evil.example", "http://127.0.0.1:1", "http://localhost:1", "null"] {
        refused(&[("Origin", origin)]);
    }
    refused(&[("Origin", &service.url), ("Sec-Fetch-Site", "same-site")]);
    refused(&[("Sec-Fetch-Site", "cross-site")]);
    // A name that was bound to this address anew.
    let rebound = format!("evil.example:{port}");
    refused(&[("Host", &rebound), ("Origin", &format!("http://{rebound}"))]);
    // What a form can send.
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/json;x"] {
        let headers = [("Cookie", cookie.as_str()), ("Content-Type", kind)];
        let answer = service.send("POST", "/admin/orders", &headers, &order.to_string());
        assert_eq!(answer.status, 415, "{answer:?}");
    }
    let got = service.send("GET", "/admin/orders", &[("Cookie", &cookie)], "");
    assert_eq!(got.status, 405);
    let large = format!("{{\"order\":\"stop\",\"server\":\"{}\"}}", "x".repeat(20_000));
    let headers = [("Cookie", cookie.as_str()), ("Content-Type", "application/json")];
    assert_eq!(service.send("POST", "/admin/orders", &headers, &large).status, 413);
    // The page itself.
    let own =
        [("Cookie", cookie.as_str()), ("Origin", &service.url), ("Sec-Fetch-Site", "same-origin")];
    assert_eq!(service.order(&own, &json!({"order": "restart", "server": "vendor"})).status, 200);
    let page = send(port, "GET", "/admin", &[], "");
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.contains("frame-ancestors 'none'"));
    assert!(!page.body.contains("vendor"), "the page without a cookie says nothing");
}

#[test]
fn an_allowed_origin_and_an_allowed_host_are_for_other_routes() {
    let service = Service::with(
        &json!({}),
        &["--admin", "--allow-origin", "http://localhost:3000", "--allow-host", "deck.example"],
    );
    let cookie = service.sign_in();
    let order = json!({"order": "stop", "server": "vendor"});
    let asked = [("Cookie", cookie.as_str()), ("Origin", "http://localhost:3000")];
    assert_eq!(service.order(&asked, &order).status, 403);
    let asked = [("Cookie", cookie.as_str()), ("Host", "deck.example")];
    assert_eq!(service.order(&asked, &order).status, 403);
}

#[test]
fn a_grant_is_shown_and_revoked_and_ends_at_once() {
    let service = service();
    let cookie = service.sign_in();
    let client = service.client("reader");
    let number = client.grant(&["--tools", "greeter.greet", "--for", "1h"]);
    let greet =
        || client.send("POST", "/tools/greeter__greet/call", &json!({"arguments": {"name": "A"}}));
    client.until(&Ok(vec!["greeter__greet".to_owned()]));
    assert_eq!(greet().status, 200);
    let id: u64 = number.parse().unwrap();
    // What an open page is told.
    let grants = |wanted: &dyn Fn(&[Value]) -> bool| {
        let mut page = service.page(&cookie);
        while !wanted(page.next_event("policy")["grants"].as_array().unwrap()) {}
    };
    grants(&|all| {
        all.iter().any(|one| {
            one["id"] == json!(id)
                && one["origin"] == json!(client.origin)
                && one["tools"] == json!(["greeter.greet"])
                && one["kind"] == "for a time"
                && one["until"].as_str().is_some_and(|until| until.starts_with("20"))
        })
    });
    let order = json!({"order": "revokeGrant", "grant": id});
    let own = [("Cookie", cookie.as_str()), ("Origin", &service.url)];
    assert_eq!(service.order(&[], &order).status, 401);
    assert_eq!(greet().status, 200);
    let done = service.order(&own, &order);
    assert_eq!(done.status, 200, "{done:?}");
    assert_eq!(greet().status, 403, "it ended with the order");
    grants(&|all| all.iter().all(|one| one["id"] != json!(id)));
    let again = service.order(&own, &order);
    assert_eq!(again.status, 409, "{again:?}");
    for wrong in [json!("1"), json!(-1), json!(null)] {
        let order = json!({"order": "revokeGrant", "grant": wrong});
        assert_eq!(service.order(&own, &order).status, 400);
    }
}

/// The events that an open page is sent.
struct PageEvents(BufReader<std::net::TcpStream>);

impl PageEvents {
    /// The data of the next event of this kind.
    fn next_event(&mut self, kind: &str) -> Value {
        let (mut line, mut is_it) = (String::new(), false);
        loop {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream goes on");
            if let Some(named) = line.strip_prefix("event: ") {
                is_it = named.trim() == kind;
            } else if let Some(data) = line.strip_prefix("data: ").filter(|_| is_it) {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

impl Service {
    /// Follows the events as the page does.
    fn page(&self, cookie: &str) -> PageEvents {
        let at = self.url.strip_prefix("http://").unwrap();
        let mut stream = std::net::TcpStream::connect(at).unwrap();
        let head = format!("GET /admin/events HTTP/1.1\r\nHost: {at}\r\nCookie: {cookie}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        PageEvents(BufReader::new(stream))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_shows_what_happens_and_gives_orders() {
    let policy =
        json!({"deny": ["vendor.fail", "vendor.nothing"], "quotas": [{"callsPerDay": 1_500}]});
    let service = Service::with(&policy, &["--admin"]);
    let link = link(&service);
    let landed = format!("{}/admin", service.url);
    let Some(mut page) = Page::open_at(&link, &landed).await else { return };
    page.until("document.readyState === 'complete' && typeof $ === 'function'").await;
    page.until("!$('all').hidden && $('servers').innerText.includes('vendor')").await;
    assert_eq!(page.run("document.cookie").await, "");
    assert!(!page.run("location.href").await.to_string().contains("code="));
    let called = service.post("/tools/vendor__with.dots/call", &json!({"arguments": {}}));
    assert_eq!(called.status, 200, "{called:?}");
    page.until("Number($('counts').querySelectorAll('dd')[2].textContent) >= 1").await;
    page.until("Number($('counts').querySelectorAll('dd')[4].textContent) >= 1").await;
    let press = |server: &str, label: &str| {
        format!(
            "[...$('servers').querySelectorAll('tr')].find(one => one.innerText.includes('{server}'))\
             ?.querySelector('td.acts') && [...[...$('servers').querySelectorAll('tr')].find(one => \
             one.innerText.includes('{server}')).querySelectorAll('button')].find(one => \
             one.textContent.includes('{label}')).click()"
        )
    };
    // Stopping is asked for a second time.
    page.run(&press("greeter", "Stop")).await;
    page.until("$('servers').innerText.includes('Really stop?')").await;
    page.run(&press("greeter", "Really stop?")).await;
    page.until("[...$('servers').querySelectorAll('tr')].some(one => one.innerText.includes('greeter') && one.innerText.includes('stopped'))").await;
    page.run(&press("greeter", "Start")).await;
    page.until("[...$('servers').querySelectorAll('tr')].some(one => one.innerText.includes('greeter') && one.innerText.includes('ready'))").await;
    // What the policy allows, what is wrong with it, and nothing of what was not told yet.
    page.until("/1.?500 calls a day/.test($('quotas').innerText)").await;
    page.until("$('warnings').innerText.includes('vendor.nothing')").await;
    let before = "known.clear(); draw(); $('servers').innerText + $('counts').innerText";
    let before = page.run(before).await.to_string();
    assert!(before.contains("Waiting for the service.") && before.contains('–'), "{before}");
    // Nothing from elsewhere was loaded.
    let loaded = "performance.getEntriesByType('resource').every(one => one.name.startsWith(location.origin))";
    assert_eq!(page.run(loaded).await, true);
    page.run("$('out').click()").await;
    page.until("!$('enter').hidden && $('all').hidden").await;
    // The link is spent; a token signs in, and only the right one.
    let paste = |token: &str| format!("$('token').value = '{token}'; $('enter').requestSubmit()");
    page.run(&paste("wrong")).await;
    page.until("$('said').textContent.includes('not your own token')").await;
    page.run(&paste(&service.token)).await;
    page.until("$('enter').hidden && !$('all').hidden && $('token').value === ''").await;
}

#[test]
fn the_operators_own_token_signs_in_and_no_other_does() {
    let service = service();
    let other = format!("Bearer {}", service.client("reader").token);
    let own = service.auth();
    let asked = |headers: &[(&str, &str)]| service.send("POST", "/admin/login", headers, "");
    let cookie = service.sign_in();
    for headers in [
        &[][..],
        &[("Authorization", &*other)],
        &[("Authorization", "Bearer x")],
        &[("Cookie", &*cookie)],
    ] {
        let refused = asked(headers);
        assert_eq!((refused.status, refused.header("set-cookie")), (401, None), "{refused:?}");
    }
    let elsewhere = [("Authorization", &*own), ("Origin", "https://evil.example")];
    assert_eq!(asked(&elsewhere).status, 403);
    let done = asked(&[("Authorization", &own), ("Origin", &service.url)]);
    assert_eq!(done.status, 204, "{done:?}");
    let set = done.header("set-cookie").unwrap();
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict"), "{set}");
    let cookie = set.split(';').next().unwrap();
    let order = json!({"order": "restart", "server": "vendor"});
    assert_eq!(service.order(&[("Cookie", cookie)], &order).status, 200);
}
