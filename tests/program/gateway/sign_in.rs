//! Callers that sign in at an issuer of ours: what their tokens give them, and what no token does.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::{POLL, Service, initialize};

/// Whom the tokens are for.
pub(super) const AUDIENCE: &str = "https://deck.example/mcp";

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of an issuer.
pub(super) struct Signer {
    id: String,
    pair: EcdsaKeyPair,
}

impl Signer {
    pub(super) fn new(id: &str) -> Self {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let made = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, made.as_ref(), &random).unwrap();
        Self { id: id.to_owned(), pair }
    }

    pub(super) fn jwk(&self) -> Value {
        let point = self.pair.public_key().as_ref();
        let (x, y) = (encoded(&point[1..33]), encoded(&point[33..]));
        json!({"kty": "EC", "crv": "P-256", "kid": self.id, "use": "sig", "x": x, "y": y})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let sign = self.pair.sign(&SystemRandom::new(), signed.as_bytes()).unwrap();
        format!("{signed}.{}", encoded(sign))
    }

    pub(super) fn token(&self, claims: &Value) -> String {
        self.sign(&json!({"alg": "ES256", "kid": self.id, "typ": "at+jwt"}), claims)
    }
}

/// What an issuer publishes, and what it was asked.
#[derive(Default)]
struct Published {
    keys: Vec<Value>,
    /// Opaque tokens, with what it says about them.
    opaque: Vec<(String, Value)>,
    asked: Vec<String>,
    /// Whether it answers nothing of use.
    is_down: bool,
    /// Whether its answers about tokens wait.
    is_slow: bool,
}

#[derive(Clone)]
struct Issuer {
    url: String,
    published: Arc<Mutex<Published>>,
}

impl Issuer {
    fn start(keys: &[&Signer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let issuer = Self { url, published: Arc::default() };
        issuer.publish(keys);
        let own = issuer.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let own = own.clone();
                std::thread::spawn(move || own.answer(&stream));
            }
        });
        issuer
    }

    fn publish(&self, keys: &[&Signer]) {
        let mut published = self.published.lock().unwrap();
        published.keys = keys.iter().map(|key| key.jwk()).collect();
        // What must not be taken for a key that signs.
        published.keys.push(json!({"kty": "oct", "kid": "secret", "k": "c2VjcmV0"}));
        published.keys.push(json!({"kty": "future", "kid": "odd"}));
    }

    fn answer(&self, stream: &TcpStream) -> Option<()> {
        let mut from = BufReader::new(stream);
        let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
        let mut auth = String::new();
        from.read_line(&mut first).ok()?;
        while from.read_line(&mut line).ok()? > 2 {
            let (name, value) = line.split_once(": ")?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().ok()?,
                "authorization" => value.trim().clone_into(&mut auth),
                _ => {}
            }
            line.clear();
        }
        let mut body = vec![0; length];
        from.read_exact(&mut body).ok()?;
        let body = String::from_utf8(body).ok()?;
        let url = &self.url;
        let mut published = self.published.lock().unwrap();
        published.asked.push(first.clone());
        while published.is_slow && first.contains("/introspect") {
            drop(published);
            std::thread::park_timeout(POLL);
            published = self.published.lock().unwrap();
        }
        if published.is_down {
            let head = "HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n";
            return (&mut &*stream)
                .write_all(format!("{head}Content-Length: 0\r\n\r\n").as_bytes())
                .ok();
        }
        let answer = match first.split(' ').nth(1)? {
            "/.well-known/openid-configuration" => json!({
                "issuer": url, "jwks_uri": format!("{url}/keys"),
                "introspection_endpoint": format!("{url}/introspect"),
            }),
            "/keys" => json!({"keys": published.keys}),
            "/introspect" => {
                let expected = base64::engine::general_purpose::STANDARD.encode("deck:s%2Fcret");
                assert_eq!(auth, format!("Basic {expected}"));
                let token = body.strip_prefix("token=")?.split('&').next()?.to_owned();
                let known = published.opaque.iter().find(|(known, _)| *known == token);
                known.map_or(json!({"active": false}), |(_, claims)| claims.clone())
            }
            _ => json!({}),
        };
        drop(published);
        let text = answer.to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}", text.len());
        (&mut &*stream).write_all(format!("{head}\r\n\r\n{text}").as_bytes()).ok()
    }

    fn claims(&self, subject: &str, more: &Value) -> Value {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let now = now.as_secs();
        let mut claims = json!({
            "iss": self.url, "aud": AUDIENCE, "sub": subject, "iat": now, "exp": now + 600,
        });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims
    }

    /// A service whose callers sign in here.
    fn service(&self, more: &Value, args: &[&str]) -> Service {
        let mut sign_in = json!({"issuer": self.url, "audience": AUDIENCE});
        sign_in.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let policy = json!({
            "signIn": sign_in,
            "profiles": {
                "platform": {"match": {"group": "platform"}, "allow": ["greeter.*"]},
                "reader": {"match": {"group": ["read*", "platform"]},
                           "allow": [{"resources": "*"}]},
            },
        });
        Service::with(&policy, args)
    }
}

fn tools(service: &Service, token: &str) -> (u16, Vec<String>) {
    let auth = format!("Bearer {token}");
    let answer = service.send("GET", "/tools", &[("Authorization", &auth)], "");
    let listed = if answer.status == 200 { answer.json() } else { Value::Null };
    let names = listed["tools"].as_array().into_iter().flatten();
    (answer.status, names.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect())
}

fn call(service: &Service, token: &str) -> super::Answer {
    let auth = format!("Bearer {token}");
    let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
    let body = json!({"arguments": {"name": "Ada"}}).to_string();
    service.send("POST", "/tools/greeter__greet/call", &headers, &body)
}

#[test]
fn clients_ask_for_the_scopes_that_the_issuer_knows_or_for_none() {
    let signer = Signer::new("one");
    let issuer = Issuer::start(&[&signer]);
    for (scopes, published) in
        [(json!([]), None), (json!(["openid", "groups"]), Some(json!(["openid", "groups"])))]
    {
        let service = issuer.service(&json!({"scopes": scopes}), &[]);
        let path = "/.well-known/oauth-protected-resource/mcp";
        let metadata = service.send("GET", path, &[], "").json();
        assert_eq!(metadata.get("scopes_supported"), published.as_ref(), "{metadata}");
        // Such a token limits nothing: the profile of its groups says what it may do.
        let claims = json!({"groups": ["platform"], "scope": "openid"});
        let (status, seen) = tools(&service, &signer.token(&issuer.claims("alice", &claims)));
        assert_eq!((status, seen.is_empty()), (200, false));
    }
}

#[test]
fn a_caller_signs_in_with_what_its_groups_give_and_its_token_goes_no_further() {
    let signer = Signer::new("one");
    let issuer = Issuer::start(&[&signer]);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("traffic.jsonl");
    let service = issuer.service(&json!({}), &["--record", record.to_str().unwrap()]);
    // How to sign in is said to whoever asks, and to whoever comes without a token.
    let well_known = "/.well-known/oauth-protected-resource";
    for path in [well_known.to_owned(), format!("{well_known}/mcp")] {
        let metadata = service.send("GET", &path, &[], "");
        assert_eq!(metadata.status, 200, "{metadata:?}");
        let metadata = metadata.json();
        assert_eq!(metadata["resource"], AUDIENCE);
        assert_eq!(metadata["authorization_servers"], json!([issuer.url]));
        let usual = ["mcp:tools.list", "mcp:tools.call", "mcp:resources.read", "mcp:prompts.get"];
        assert_eq!(metadata["scopes_supported"], json!(usual));
    }
    let refused = service.mcp("", &[], &initialize());
    let challenge = refused.header("www-authenticate").unwrap().to_owned();
    let address = format!("https://deck.example{well_known}/mcp");
    assert_eq!(refused.status, 401);
    assert!(challenge.contains(&format!("resource_metadata=\"{address}\"")), "{challenge}");

    let platform = signer.token(&issuer.claims("alice", &json!({"groups": ["platform", "x"]})));
    let (status, seen) = tools(&service, &platform);
    assert_eq!((status, seen.is_empty()), (200, false));
    assert!(seen.iter().all(|name| name.starts_with("greeter__")), "{seen:?}");
    assert_eq!(call(&service, &platform).status, 200);
    let session = service.session(&platform);
    // The other profile of its groups by its path, and no third one.
    let auth = format!("Bearer {platform}");
    for (path, status) in [("/mcp/p/reader", 200), ("/mcp/p/other", 403)] {
        let headers = [
            ("Authorization", auth.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        let answer = service.send("POST", path, &headers, &initialize().to_string());
        assert_eq!(answer.status, status, "{path}: {answer:?}");
    }
    // A session belongs to whoever opened it, whatever token comes later.
    let other = signer.token(&issuer.claims("bob", &json!({"groups": ["platform"]})));
    let ping = json!({"jsonrpc": "2.0", "id": 7, "method": "ping"});
    let with = [("Mcp-Session-Id", session.as_str())];
    assert_eq!(service.mcp(&other, &with, &ping).status, 404);
    let renewed = signer.token(&issuer.claims("alice", &json!({"groups": ["platform"], "jti": 2})));
    assert_eq!(service.mcp(&renewed, &with, &ping).status, 200);
    // Without a group nothing is permitted; the name of the operator is a name like any other.
    let nobody = signer.token(&issuer.claims("owner", &json!({})));
    let refused = call(&service, &nobody);
    assert_eq!(refused.status, 403, "{refused:?}");
    assert!(format!("{refused:?}").contains("gateway:user/owner"), "{refused:?}");
    // Local tokens stay.
    let local = service.client("platform");
    assert_eq!(call(&service, &local.token).status, 200);

    let state = service.state();
    // A recording is written a little behind the calls.
    crate::support::wait_for("the recorded calls", Duration::from_secs(30), || {
        std::fs::read_to_string(&record).ok()?.contains("Hello Ada").then_some(())
    });
    drop(service);
    let traffic = std::fs::read_to_string(&record).unwrap();
    let payload = platform.split('.').nth(1).unwrap();
    for (what, text) in [("traffic", traffic), ("state", all_text(&state))] {
        assert!(!text.contains(payload), "no token in {what}");
    }
}

fn all_text(folder: &std::path::Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let text = entries.map(|entry| match entry.path() {
        path if path.is_dir() => all_text(&path),
        path => String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned(),
    });
    text.collect()
}

#[test]
fn tokens_of_others_and_forged_ones_are_refused_and_keys_rotate() {
    let (one, two, foreign) = (Signer::new("one"), Signer::new("two"), Signer::new("one"));
    let issuer = Issuer::start(&[&one]);
    let service = issuer.service(&json!({}), &[]);
    let groups = json!({"groups": ["platform"]});
    let claims = issuer.claims("alice", &groups);
    let good = one.token(&claims);
    assert_eq!(call(&service, &good).status, 200);
    let with = |change: Value| {
        one.token(&issuer.claims("alice", &{
            let mut all = groups.clone();
            all.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            all
        }))
    };
    let forged = |header: Value| one.sign(&header, &claims);
    let hmac = {
        let header = encoded(json!({"alg": "HS256", "kid": "one"}).to_string());
        let signed = format!("{header}.{}", encoded(claims.to_string()));
        let public = one.pair.public_key().as_ref();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public);
        let sign = encoded(ring::hmac::sign(&key, signed.as_bytes()));
        format!("{signed}.{sign}")
    };
    let unsigned =
        format!("{}.{}.", encoded(json!({"alg": "none"}).to_string()), encoded(claims.to_string()));
    for (token, why) in [
        (with(json!({"aud": "https://other.example/mcp"})), "another audience"),
        (with(json!({"aud": null})), "another audience"),
        (with(json!({"iss": "https://id.example"})), "another issuer"),
        (with(json!({"exp": 1})), "has expired"),
        (with(json!({"exp": null})), "never ends"),
        (with(json!({"nbf": 99_999_999_999_u64})), "not valid yet"),
        (with(json!({"sub": ""})), "not whose it is"),
        (with(json!({"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}})), "DPoP"),
        (with(json!({"cnf": {"x5t#S256": "bwcK0esc3ACC3DB2Y5_lESsXE8o9ltc"}})), "certificate"),
        (with(json!({"cnf": {"kid": "one"}})), "bound to a key"),
        (with(json!({"typ": "ID"})), "no access token"),
        (with(json!({"groups": null, "hasgroups": true})), "left out claims"),
        (foreign.token(&claims), "signed by no key"),
        (forged(json!({"alg": "ES256", "kid": "none such"})), "signed by no key"),
        (forged(json!({"alg": "RS256", "kid": "one"})), "signed by no key"),
        (forged(json!({"alg": "HS256", "kid": "secret"})), "algorithm"),
        (forged(json!({"alg": "ES256", "kid": "one", "crit": ["exp"]})), "crit"),
        (hmac, "algorithm"),
        (unsigned, "algorithm"),
        ("opaque".to_owned(), "unknown here"),
        ("x".repeat(17_000), "too long"),
    ] {
        let refused = call(&service, &token);
        assert_eq!(refused.status, 401, "{why}: {refused:?}");
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
        assert!(challenge.contains(why), "{why}: {challenge}");
    }
    // A good token under another scheme says nothing of who shows it.
    for (auth, why) in [
        (format!("DPoP {good}"), "DPoP"),
        (format!("Basic {good}"), "Bearer TOKEN"),
        (good.clone(), "Bearer TOKEN"),
    ] {
        let headers = [("Authorization", auth.as_str()), ("DPoP", "a.b.c")];
        let refused = service.send("GET", "/tools", &headers, "");
        assert_eq!(refused.status, 401, "{refused:?}");
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer ") && challenge.contains(why), "{challenge}");
    }
    // The issuer begins to sign with another key, and takes the first one back.
    issuer.publish(&[&two]);
    let rotated = two.token(&claims);
    while call(&service, &rotated).status != 200 {
        std::thread::park_timeout(POLL);
    }
    assert_eq!(call(&service, &good).status, 401);
}

#[test]
fn events_end_with_the_token_of_their_caller() {
    let signer = Signer::new("one");
    let issuer = Issuer::start(&[&signer]);
    let service = issuer.service(&json!({}), &[]);
    let end = issuer.claims("alice", &json!({}))["iat"].as_u64().unwrap() + 5;
    let token = signer.token(&issuer.claims("alice", &json!({"exp": end})));
    let at = service.url.strip_prefix("http://").unwrap().to_owned();
    let mut stream = TcpStream::connect(&at).unwrap();
    let head = format!("GET /events HTTP/1.1\r\nHost: {at}\r\nAuthorization: Bearer {token}");
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    assert!(answer.ends_with("\r\n0\r\n\r\n"), "it ends as it should: {answer}");
}

#[test]
fn what_a_token_lacks_a_scope_for_is_demanded_by_http() {
    let one = Signer::new("one");
    let issuer = Issuer::start(&[&one]);
    let service = issuer.service(&json!({}), &[]);
    let of = |scope: &str| {
        one.token(&issuer.claims("alice", &json!({"groups": ["platform"], "scope": scope})))
    };
    let lists = of("openid mcp:tools.list");
    let session = service.session(&lists);
    let with = [("Mcp-Session-Id", session.as_str())];
    let message = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 5, "method": method, "params": params});
    // A client of this revision asks for what is named, and would lose what is not.
    let demanded = |answer: &super::Answer, scope: &str| {
        assert_eq!(answer.status, 403, "{answer:?}");
        let challenge = answer.header("www-authenticate").unwrap_or_default();
        assert!(challenge.starts_with("Bearer error=\"insufficient_scope\""), "{challenge}");
        assert!(challenge.contains(&format!("scope=\"{scope}\"")), "{challenge}");
        assert!(challenge.contains("resource_metadata=\""), "{challenge}");
    };
    for (method, params, scope) in [
        ("tools/call", json!({"name": "greeter__greet", "arguments": {}}), "mcp:tools.call"),
        ("resources/read", json!({"uri": "a://b"}), "mcp:resources.read"),
        ("prompts/get", json!({"name": "x"}), "mcp:prompts.get"),
    ] {
        let refused = service.mcp(&lists, &with, &message(method, params.clone()));
        demanded(&refused, &format!("mcp:tools.list {scope}"));
        assert_eq!(refused.json()["error"]["data"]["code"], "ERR_SCOPE_REQUIRED");
        // One of a later revision adds it to what it has.
        let params = super::modern(params, &json!({}));
        let name = params["name"].as_str().or(params["uri"].as_str()).unwrap().to_owned();
        let headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", method),
            ("Mcp-Name", name.as_str()),
        ];
        demanded(&service.mcp(&lists, &headers, &message(method, params)), scope);
    }
    demanded(&call(&service, &lists), "mcp:tools.call");
    // The operator sees each.
    let auth = service.auth();
    let accept = [("Authorization", auth.as_str()), ("Accept", "application/json")];
    let stats = service.send("GET", "/metrics", &accept, "").json();
    for (target, scope) in
        [("greeter__greet", "tools.call"), ("a://b", "resources.read"), ("x", "prompts.get")]
    {
        let why = format!("the scope `mcp:{scope}` was not granted");
        let is_it = |it: &&Value| it["target"] == target && it["why"] == why.as_str();
        let blocked = stats["blocked"].as_array().unwrap().iter().find(is_it);
        let blocked = blocked.unwrap_or_else(|| panic!("{target}: {stats}"));
        assert_eq!(blocked["count"], 2, "{stats}");
    }
    // What it carries the scope for is done, and what another token of the same caller does is, too.
    assert_eq!(service.mcp(&lists, &with, &message("tools/list", json!({}))).status, 200);
    let calls = of("mcp:tools.list mcp:tools.call");
    let params = json!({"name": "greeter__greet", "arguments": {"name": "Ada"}});
    assert_eq!(service.mcp(&calls, &with, &message("tools/call", params)).status, 200);
    // A local token has nobody to ask.
    let local = service.client("platform");
    assert!(call(&service, &local.token).header("www-authenticate").is_none());
}

#[test]
fn a_token_with_a_new_key_is_not_refused_for_good_while_the_issuer_is_away() {
    let (one, two, foreign) = (Signer::new("one"), Signer::new("two"), Signer::new("one"));
    let issuer = Issuer::start(&[&one]);
    let service = issuer.service(&json!({}), &[]);
    let claims = issuer.claims("alice", &json!({"groups": ["platform"]}));
    let (good, rotated) = (one.token(&claims), two.token(&claims));
    assert_eq!(call(&service, &good).status, 200);
    issuer.publish(&[&one, &two]);
    issuer.published.lock().unwrap().is_down = true;
    // Refused until the keys may be read once more, which fails.
    let away = loop {
        let answer = call(&service, &rotated);
        if answer.status != 401 {
            break answer;
        }
        std::thread::park_timeout(POLL);
    };
    assert_eq!(away.status, 503, "{away:?}");
    assert_eq!(away.header("retry-after"), Some("1"), "{away:?}");
    assert_eq!(call(&service, &good).status, 200, "what it said last stays in force");
    assert_eq!(call(&service, &foreign.token(&claims)).status, 401, "a key that is known");
    issuer.published.lock().unwrap().is_down = false;
    while call(&service, &rotated).status != 200 {
        std::thread::park_timeout(POLL);
    }
}

#[test]
fn the_issuer_is_asked_about_opaque_tokens() {
    let issuer = Issuer::start(&[]);
    let more = json!({"introspection": {"clientId": "deck", "clientSecret": "${env:DECK_SECRET}"}});
    // The program reads its environment when it starts.
    let service = {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secrets.env");
        std::fs::write(&file, "DECK_SECRET=s/cret\n").unwrap();
        issuer.service(&more, &["--env-file", file.to_str().unwrap()])
    };
    let active = |more: Value| {
        let mut claims = issuer.claims("alice", &json!({"active": true, "groups": ["platform"]}));
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        claims
    };
    let mut unnamed = active(json!({}));
    unnamed.as_object_mut().unwrap().shift_remove("iss");
    issuer.published.lock().unwrap().opaque = vec![
        ("good".to_owned(), active(json!({}))),
        ("unnamed".to_owned(), unnamed),
        ("ended".to_owned(), active(json!({"active": false}))),
        ("foreign".to_owned(), active(json!({"aud": "https://other.example"}))),
        ("text".to_owned(), active(json!({"active": "true"}))),
        ("bound".to_owned(), active(json!({"token_type": "DPoP"}))),
    ];
    for (token, status) in [
        ("good", 200),
        ("unnamed", 200),
        ("ended", 401),
        ("foreign", 401),
        ("text", 401),
        ("bound", 401),
    ] {
        let answer = call(&service, token);
        assert_eq!(answer.status, status, "{token}: {answer:?}");
    }
    assert_eq!(call(&service, "good").status, 200);
    let count = |part: &str| {
        let asked = issuer.published.lock().unwrap().asked.clone();
        asked.iter().filter(|line| line.contains(part)).count()
    };
    assert_eq!(count("/introspect"), 6, "an answer is used for a while");
    assert_eq!(count("/.well-known/"), 1, "and where to ask");
    // Simultaneous calls with a new token wait for one answer, whether it holds or not.
    for (token, status) in [("busy", 200), ("wrong", 401)] {
        let before = count("/introspect");
        let mut published = issuer.published.lock().unwrap();
        published.opaque.push(("busy".to_owned(), active(json!({}))));
        published.is_slow = true;
        drop(published);
        let begin = std::sync::Barrier::new(CALLERS + 1);
        std::thread::scope(|scope| {
            let calls = [(); CALLERS].map(|()| {
                scope.spawn(|| {
                    begin.wait();
                    tools(&service, token).0
                })
            });
            begin.wait();
            while count("/introspect") == before {
                std::thread::park_timeout(POLL);
            }
            // Those that come later are served from what is known: they make no difference.
            std::thread::park_timeout(POLL * 4);
            issuer.published.lock().unwrap().is_slow = false;
            for call in calls {
                assert_eq!(call.join().unwrap(), status, "{token}");
            }
        });
        assert_eq!(count("/introspect"), before + 1, "{token}");
    }
}

/// Callers at once.
const CALLERS: usize = 20;
