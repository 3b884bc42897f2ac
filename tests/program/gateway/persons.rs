//! Servers that callers use as themselves: what each person's session is opened with, and what no
//! caller gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::sign_in::{AUDIENCE, Signer};
use super::{Answer, Service};
use crate::support::wait_for;

/// What the authorization server and the MCP server, both played here, were sent.
#[derive(Default)]
struct Seen {
    /// Forms that were posted to exchange a token.
    exchanges: Vec<BTreeMap<String, String>>,
    /// The token of every session that was opened, by its id.
    opened: Vec<String>,
    ended: Vec<String>,
    /// Every `Authorization` that the MCP server got.
    tokens: Vec<String>,
    /// The `error` that exchanges are answered with.
    refusal: Option<&'static str>,
    /// What they are answered with instead of anything else: a status, and a body.
    answer: Option<(u16, String)>,
    /// The token that exchanges are answered with, in place of a good one.
    given: Option<String>,
    /// The lifetime of tokens, in seconds.
    lifetime: u64,
    /// Tokens that the MCP server takes no longer.
    revoked: Vec<String>,
    /// Whether the MCP server has a second tool: since a call that asked for it.
    has_grown: bool,
}

#[derive(Clone)]
struct World {
    url: String,
    key: Value,
    seen: Arc<Mutex<Seen>>,
}

impl World {
    fn start(signer: &Signer) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Seen { lifetime: 3600, ..Seen::default() };
        let world = Self { url, key: signer.jwk(), seen: Arc::new(Mutex::new(seen)) };
        let app = Router::new()
            .route("/.well-known/openid-configuration", get(metadata))
            .route("/keys", get(keys))
            .route("/token", post(exchange))
            .route("/mcp", post(message).get(no_stream).delete(end))
            .with_state(world.clone());
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        world
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap()
    }

    fn token(&self, signer: &Signer, subject: &str, more: &Value) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let mut claims = json!({
            "iss": self.url, "aud": AUDIENCE, "sub": subject, "exp": now.as_secs() + 600,
            "groups": ["staff"],
        });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        signer.token(&claims)
    }

    /// A service with the entry `own`, whose `exchange` has more than it needs.
    fn service(&self, more: &Value, args: &[&str]) -> Service {
        let mut exchange = json!({
            "tokenEndpoint": format!("{}/token", self.url), "clientId": "deck",
            "clientSecret": "s/cret", "audience": "own-server", "scopes": ["use"],
            "actorToken": "who-the-gateway-is",
        });
        exchange.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let entry = json!({
            "url": format!("{}/mcp", self.url), "headers": {"Authorization": "Bearer service"},
            "oauth": {"exchange": exchange}, "startupTimeout": 45,
        });
        let policy = json!({
            "signIn": {"issuer": self.url, "audience": AUDIENCE},
            "audit": {},
            "limits": {"callsAtOnce": 24},
            "profiles": {"staff": {"match": {"group": "staff"}, "allow": ["own.*"]}},
        });
        Service::serving(&json!({"servers": {"own": entry}}), &policy, args)
    }
}

async fn metadata(State(world): State<World>) -> Response {
    let url = &world.url;
    axum::Json(json!({"issuer": url, "jwks_uri": format!("{url}/keys")})).into_response()
}

async fn keys(State(world): State<World>) -> Response {
    axum::Json(json!({"keys": [world.key]})).into_response()
}

async fn exchange(State(world): State<World>, headers: HeaderMap, body: String) -> Response {
    let form: BTreeMap<String, String> =
        url::form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    let basic = format!("Basic {}", STANDARD.encode("deck:s%2Fcret"));
    assert_eq!(headers["authorization"], basic);
    let claims = form["subject_token"].split('.').nth(1).unwrap().to_owned();
    let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let mut seen = world.seen();
    seen.exchanges.push(form);
    if let Some((status, body)) = seen.answer.clone() {
        return (StatusCode::from_u16(status).unwrap(), body).into_response();
    }
    if let Some(error) = seen.refusal {
        return (StatusCode::BAD_REQUEST, axum::Json(json!({"error": error}))).into_response();
    }
    let own = format!("{}-token-{}", claims["sub"].as_str().unwrap(), seen.exchanges.len());
    let token = seen.given.clone().unwrap_or(own);
    axum::Json(json!({
        "access_token": token, "token_type": "Bearer", "expires_in": seen.lifetime,
        "issued_token_type": "urn:ietf:params:oauth:token-type:access_token",
    }))
    .into_response()
}

async fn message(
    State(world): State<World>,
    headers: HeaderMap,
    axum::Json(message): axum::Json<Value>,
) -> Response {
    let text = |name: &str| headers.get(name).map(|it| it.to_str().unwrap().to_owned());
    let token = text("authorization").unwrap_or_default();
    let token = token.trim_start_matches("Bearer ").to_owned();
    let session = text("mcp-session-id");
    let (tools, shown) = {
        let mut seen = world.seen();
        seen.tokens.push(token.clone());
        if seen.revoked.contains(&token) || token.is_empty() {
            return StatusCode::UNAUTHORIZED.into_response();
        }
        if message["method"] == "initialize" {
            seen.opened.push(token.clone());
        }
        seen.has_grown |= message["params"]["arguments"]["grow"] == true;
        let schema = json!({"type": "object"});
        let mut tools = vec![json!({"name": "whoami", "inputSchema": schema})];
        if seen.has_grown {
            let what = "Gives money back";
            tools.push(json!({"name": "refund", "description": what, "inputSchema": schema}));
        }
        (tools, format!("{token} in {}", session.unwrap_or_default()))
    };
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
            "serverInfo": {"name": "own", "version": "1"},
        }),
        "tools/list" => json!({"tools": tools}),
        "tools/call" => {
            // So that calls of several persons are in flight at once.
            tokio::task::yield_now().await;
            json!({"content": [{"type": "text", "text": shown}]})
        }
        "ping" => json!({}),
        method if method.starts_with("notifications/") => {
            return StatusCode::ACCEPTED.into_response();
        }
        _ => {
            let error = json!({"code": -32601, "message": "unknown"});
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "error": error});
            return axum::Json(answer).into_response();
        }
    };
    let number = world.seen().opened.len();
    if message["params"]["arguments"]["grow"] == true {
        // Told to the session that made the call, and to no other.
        let told = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        let stream = format!("data: {told}\n\ndata: {answer}\n\n");
        return ([("content-type", "text/event-stream")], stream).into_response();
    }
    let answer = axum::Json(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    if message["method"] == "initialize" {
        return ([("mcp-session-id", format!("s{number}-{token}"))], answer).into_response();
    }
    answer.into_response()
}

async fn no_stream() -> StatusCode {
    StatusCode::METHOD_NOT_ALLOWED
}

async fn end(State(world): State<World>, headers: HeaderMap) -> StatusCode {
    world.seen().ended.push(headers["mcp-session-id"].to_str().unwrap().to_owned());
    StatusCode::OK
}

fn whoami(service: &Service, token: &str) -> Answer {
    let auth = format!("Bearer {token}");
    let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
    service.send("POST", "/tools/own__whoami/call", &headers, r#"{"arguments":{}}"#)
}

/// The token and the session that the server saw.
fn text(answer: &Answer) -> (String, String) {
    assert_eq!(answer.status, 200, "{answer:?}");
    let text = answer.json()["content"][0]["text"].as_str().unwrap().to_owned();
    let (token, session) = text.split_once(" in ").unwrap();
    (token.to_owned(), session.to_owned())
}

#[test]
fn each_person_has_a_session_and_a_token_of_their_own() {
    let signer = Signer::new("one");
    let world = World::start(&signer);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("traffic.jsonl");
    let service = world.service(&json!({}), &["--record", record.to_str().unwrap()]);
    let persons: Vec<(&str, String)> =
        ["alice", "bob"].map(|name| (name, world.token(&signer, name, &json!({})))).into();
    let answers = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..24)
            .map(|at| {
                let (name, token) = &persons[at % 2];
                let service = &service;
                scope.spawn(move || (*name, text(&whoami(service, token))))
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect::<Vec<_>>()
    });
    let mut of: BTreeMap<&str, Vec<(String, String)>> = BTreeMap::new();
    for (name, seen) in answers {
        assert!(seen.0.starts_with(name) && seen.1.contains(name), "{name}: {seen:?}");
        of.entry(name).or_default().push(seen);
    }
    for (name, mut seen) in of {
        seen.dedup();
        assert_eq!(seen.len(), 1, "one session of {name}: {seen:?}");
    }
    let seen = world.seen();
    assert_eq!(seen.exchanges.len(), 2, "{:?}", seen.exchanges);
    let form = &seen.exchanges[0];
    for (key, value) in [
        ("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"),
        ("subject_token_type", "urn:ietf:params:oauth:token-type:access_token"),
        ("resource", &format!("{}/mcp", world.url)),
        ("audience", "own-server"),
        ("scope", "use"),
        ("actor_token", "who-the-gateway-is"),
        ("actor_token_type", "urn:ietf:params:oauth:token-type:jwt"),
    ] {
        assert_eq!(form[key], value, "{key}");
    }
    // No token of a caller reached the server.
    for (_, token) in &persons {
        assert!(!seen.tokens.contains(token));
    }
    drop(seen);
    // The audit log names the person; neither it nor the traffic holds a token.
    let audit = service.verb(&["audit", "show"]);
    assert!(audit.contains("gateway:user/alice"), "{audit}");
    wait_for("the recorded calls", Duration::from_secs(30), || {
        std::fs::read_to_string(&record).ok()?.contains("whoami").then_some(())
    });
    drop(service);
    let traffic = std::fs::read_to_string(&record).unwrap();
    for secret in [&persons[0].1, "alice-token-", "bob-token-", "who-the-gateway-is", "s/cret"] {
        assert!(!traffic.contains(secret) && !audit.contains(secret), "{secret}");
    }
}

#[test]
fn a_list_that_changed_for_a_person_is_read_again_and_their_sessions_are_counted() {
    let signer = Signer::new("one");
    let world = World::start(&signer);
    let service = world.service(&json!({}), &[]);
    let owner = format!("Bearer {}", service.token);
    let sessions = || {
        let metrics = service.send("GET", "/metrics", &[("Authorization", &owner)], "").body;
        let line = metrics.lines().find(|line| line.starts_with("mcp_server_person_sessions{"));
        line.map(str::to_owned).expect("a gauge")
    };
    assert_eq!(sessions(), "mcp_server_person_sessions{server=\"own\"} 0");
    let alice = world.token(&signer, "alice", &json!({}));
    let auth = format!("Bearer {alice}");
    let headers = [("Authorization", auth.as_str()), ("Content-Type", "application/json")];
    // The operator's: for everyone else a new tool is held back until it was reviewed.
    let found = || {
        let owner = [("Authorization", owner.as_str())];
        let found = service.send("GET", "/tools?query=money", &owner, "");
        found.json()["tools"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(found(), 0);
    let body = r#"{"arguments":{"grow":true}}"#;
    let called = service.send("POST", "/tools/own__whoami/call", &headers, body);
    assert_eq!(called.status, 200, "{called:?}");
    assert_eq!(sessions(), "mcp_server_person_sessions{server=\"own\"} 1");
    wait_for("the new tool in the search", Duration::from_secs(30), || {
        (found() == 1).then_some(())
    });
}

#[test]
fn callers_who_are_nobody_in_particular_are_refused_unless_the_entry_serves_them() {
    let signer = Signer::new("one");
    let world = World::start(&signer);
    for (others, status) in [(false, 403), (true, 200)] {
        let service = world.service(&json!({"others": others}), &[]);
        let local = service.client("staff");
        for token in [&local.token, &service.token] {
            let answer = whoami(&service, token);
            assert_eq!(answer.status, status, "{answer:?}");
            if others {
                assert_eq!(text(&answer).0, "service");
            } else {
                assert!(answer.body.contains("sign in to the gateway"), "{answer:?}");
            }
        }
        assert_eq!(world.seen().exchanges.len(), 0);
    }
}

#[test]
fn tokens_of_others_reach_nobody_and_refused_exchanges_harm_nobody_else() {
    let signer = Signer::new("one");
    let stranger = Signer::new("one");
    let world = World::start(&signer);
    let service = world.service(&json!({}), &[]);
    let unsigned = |token: &str| format!("{}.", token.rsplit_once('.').unwrap().0);
    let alice = world.token(&signer, "alice", &json!({}));
    let none = URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#);
    let claims = alice.split('.').nth(1).unwrap();
    for forged in [
        world.token(&signer, "alice", &json!({"aud": "https://other.example"})),
        world.token(&stranger, "alice", &json!({})),
        unsigned(&alice),
        format!("{none}.{claims}."),
        world.token(&signer, "alice", &json!({"exp": 1_000})),
    ] {
        assert_eq!(whoami(&service, &forged).status, 401, "{forged}");
    }
    assert_eq!(world.seen().exchanges.len(), 0, "nothing of theirs was exchanged");

    // Refused for one person, again and again: the server stays up for the other.
    let bob = world.token(&signer, "bob", &json!({}));
    let first = text(&whoami(&service, &bob));
    world.seen().refusal = Some("invalid_target");
    for _ in 0..8 {
        let refused = whoami(&service, &alice);
        assert_eq!(refused.status, 403, "{refused:?}");
        assert!(!refused.body.contains(&world.url), "{refused:?}");
    }
    assert_eq!(text(&whoami(&service, &bob)), first);
    world.seen().refusal = None;
    // A token that could be used at the gateway goes to no server.
    let good_here = world.token(&signer, "alice", &json!({"aud": ["own-server", AUDIENCE]}));
    for given in [alice.clone(), good_here] {
        world.seen().given = Some(given.clone());
        assert_eq!(whoami(&service, &alice).status, 403);
        assert!(!world.seen().tokens.contains(&given));
    }
    world.seen().given = None;
    assert!(text(&whoami(&service, &alice)).0.starts_with("alice-"));
}

/// RFC 8693, section 2.2: what an authorization server answers, and what its caller makes of it.
#[test]
fn a_refused_exchange_is_for_good_and_a_failed_one_is_not() {
    let signer = Signer::new("one");
    let world = World::start(&signer);
    let service = world.service(&json!({}), &[]);
    let alice = world.token(&signer, "alice", &json!({}));
    let access = "urn:ietf:params:oauth:token-type:access_token";
    let error = |code: &str| json!({"error": code, "error_description": format!("{code} {alice}")});
    let given = |more: Value| {
        let mut body = json!({"access_token": "t", "token_type": "Bearer", "expires_in": 60,
                              "issued_token_type": access});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let codes = [
        (400, "invalid_request"),
        (401, "invalid_client"),
        (400, "invalid_grant"),
        (400, "unauthorized_client"),
        (400, "unsupported_grant_type"),
        (400, "invalid_scope"),
        (400, "invalid_target"),
    ];
    let refusals = codes.map(|(status, code)| (status, error(code).to_string(), 403));
    let odd = [
        (given(json!({"issued_token_type": null})), 403),
        (given(json!({"issued_token_type": "urn:ietf:params:oauth:token-type:id_token"})), 403),
        (given(json!({"issued_token_type": "urn:ietf:params:oauth:token-type:saml2"})), 403),
        (given(json!({"token_type": "N_A"})), 403),
        (given(json!({"token_type": "DPoP"})), 403),
        (given(json!({"access_token": null})), 403),
        (given(json!({"access_token": "a\r\nb: c"})), 403),
        (given(json!({"access_token": alice})), 403),
        (error("invalid_grant"), 403),
        (json!("<html>"), 403),
        (error("temporarily_unavailable"), 503),
    ];
    let odd = odd.map(|(body, status)| (200, body.to_string(), status));
    let passing = [
        (429, error("slow_down").to_string(), 503),
        (429, error("rate_limited").to_string(), 503),
        (400, error("temporarily_unavailable").to_string(), 503),
        (503, error("server_error").to_string(), 503),
        (502, "<html>".to_owned(), 503),
    ];
    for (status, body, outcome) in refusals.into_iter().chain(odd).chain(passing) {
        let before = world.seen().exchanges.len();
        world.seen().answer = Some((status, body.clone()));
        let answer = whoami(&service, &alice);
        assert_eq!(answer.status, outcome, "{status} {body}: {answer:?}");
        assert!(!answer.body.contains(&world.url) && !answer.body.contains(&alice), "{answer:?}");
        assert!(world.seen().exchanges.len() > before, "it is asked again: {body}");
    }
    world.seen().answer = None;
    assert!(text(&whoami(&service, &alice)).0.starts_with("alice-"));
    let tokens = world.seen().tokens.clone();
    assert!(!tokens.iter().any(|token| *token == alice || token == "t"), "{tokens:?}");
}

#[test]
fn a_session_ends_with_its_use_its_token_and_its_place() {
    let signer = Signer::new("one");
    let world = World::start(&signer);
    let service = world.service(&json!({"idleTimeout": 0.2, "maxSessions": 1}), &[]);
    let has_ended = |what: &str, session: &str| {
        wait_for(what, Duration::from_secs(30), || {
            world.seen().ended.iter().any(|ended| ended == session).then_some(())
        });
    };
    let alice = world.token(&signer, "alice", &json!({}));
    let (_, first) = text(&whoami(&service, &alice));
    has_ended("an unused session", &first);
    let (_, second) = text(&whoami(&service, &alice));
    assert_ne!(first, second);

    let service = world.service(&json!({"maxSessions": 1}), &[]);
    let (_, alices) = text(&whoami(&service, &alice));
    let bob = world.token(&signer, "bob", &json!({}));
    text(&whoami(&service, &bob));
    has_ended("a session in whose place another came", &alices);

    let service = world.service(&json!({}), &[]);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let brief = world.token(&signer, "carol", &json!({"exp": now.as_secs() + 2}));
    let (_, brief) = text(&whoami(&service, &brief));
    has_ended("the session of a token that expired", &brief);

    // A token that the server takes no longer is exchanged anew, within the session.
    let (token, session) = text(&whoami(&service, &alice));
    world.seen().revoked.push(token.clone());
    let (renewed, same) = text(&whoami(&service, &alice));
    assert!(renewed != token && same == session, "{renewed} in {same}");
    // One that is about to expire, too.
    world.seen().lifetime = 1;
    let dora = world.token(&signer, "dora", &json!({}));
    let (token, session) = text(&whoami(&service, &dora));
    wait_for("another token", Duration::from_secs(30), || {
        let (renewed, same) = text(&whoami(&service, &dora));
        assert_eq!(same, session);
        (renewed != token).then_some(())
    });
}
