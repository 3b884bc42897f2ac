//! An HTTP API as a server: a local one, described by a document in a file and at an address.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Redirect, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::support::{Bench, Finished};

const AT_MOST: Duration = Duration::from_secs(60);

/// What the API was asked: each request line, with its key, and its body.
type Requests = Arc<Mutex<Vec<String>>>;

async fn answer(
    State((requests, document)): State<(Requests, Arc<Value>)>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let key = headers.get("x-key").and_then(|key| key.to_str().ok()).unwrap_or("none");
    let body = String::from_utf8_lossy(&body);
    requests.lock().push(format!("{method} {uri} {key} {body}").trim_end().to_owned());
    let json = |text: String| ([(header::CONTENT_TYPE, "application/json")], text).into_response();
    match uri.path() {
        "/openapi.json" => json(document.to_string()),
        "/v1/pets/picture" => {
            ([(header::CONTENT_TYPE, "image/png")], &b"\x89PNG\r\n\x1a\n"[..]).into_response()
        }
        "/v1/pets/missing" => (StatusCode::NOT_FOUND, "no such pet").into_response(),
        "/v1/pets/closed" => StatusCode::UNAUTHORIZED.into_response(),
        "/v1/pets/moved" => Redirect::temporary("http://127.0.0.1:9/elsewhere").into_response(),
        "/v1/pets/large" => json(format!("\"{}\"", "x".repeat(100_000))),
        path => json(json!({"path": path, "query": uri.query(), "body": body}).to_string()),
    }
}

/// A local API.
struct LocalApi {
    address: String,
    requests: Requests,
}

impl LocalApi {
    async fn start(servers: &Value) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Requests::default();
        let state = (Arc::clone(&requests), Arc::new(document(servers)));
        let routes = Router::new().fallback(answer).with_state(state);
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { address, requests }
    }

    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.requests.lock())
    }
}

fn document(servers: &Value) -> Value {
    json!({
        "openapi": "3.0.3",
        "info": {"title": "Pet shop", "version": "7", "description": "Everything about pets."},
        "servers": servers,
        "paths": {
            "/pets": {
                "get": {"operationId": "listPets", "tags": ["read"], "summary": "List pets",
                    "parameters": [{"name": "limit", "in": "query", "schema": {"type": "integer", "minimum": 0, "exclusiveMinimum": true}}]},
                "post": {"operationId": "addPet", "tags": ["write"], "requestBody": {"required": true, "content": {
                    "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}}},
            },
            "/pets/{id}": {"get": {"operationId": "getPet", "tags": ["read"],
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}]}},
            "/inner": {"get": {"operationId": "inner", "tags": ["read"], "servers": [{"url": "http://169.254.169.254/latest"}]}},
        },
        "components": {"schemas": {"Pet": {"type": "object", "required": ["id", "name"], "properties": {
            "id": {"type": "integer", "readOnly": true}, "name": {"type": "string", "nullable": true}}}}},
    })
}

async fn run(bench: &Bench, args: &[&str]) -> Finished {
    let command = bench.command(args);
    tokio::task::spawn_blocking(move || crate::support::finish(command, AT_MOST)).await.unwrap()
}

/// A bench whose one server is the API, by a document in a file.
fn by_file(api: &LocalApi, more: &Value) -> Bench {
    let bench = Bench::new();
    bench.write("pets.json", &document(&json!([])).to_string());
    let mut entry = json!({"openapi": "pets.json", "url": format!("{}/v1", api.address),
        "headers": {"X-Key": "k-123456789"}});
    for (key, value) in more.as_object().into_iter().flatten() {
        entry[key] = value.clone();
    }
    bench.servers(&json!({ "pets": entry }));
    bench
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operations_are_listed_called_and_checked_like_tools() {
    let api = LocalApi::start(&json!([])).await;
    let bench = by_file(&api, &json!({}));
    let listed = run(&bench, &["list", "--json"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    for word in ["listPets", "addPet", "getPet", "Pet shop"] {
        assert!(listed.stdout.contains(word), "{word}: {listed:?}");
    }
    assert!(!listed.stdout.contains("\"name\":\"inner\""), "another host: {listed:?}");
    assert!(listed.stdout.contains("GET /inner: its server is another host"), "{listed:?}");
    assert!(api.seen().is_empty(), "nothing is called to list");

    let called = run(&bench, &["call", "pets.listPets", "limit=2", "--json"]).await;
    assert_eq!(called.code, Some(0), "{called:?}");
    assert!(called.stdout.contains("\"query\":\"limit=2\""), "{called:?}");
    assert_eq!(api.seen(), ["GET /v1/pets?limit=2 k-123456789"]);

    let added = run(&bench, &["call", "pets.addPet", r#"body={"name":"Rex"}"#]).await;
    assert_eq!(added.code, Some(0), "{added:?}");
    assert_eq!(api.seen(), [r#"POST /v1/pets k-123456789 {"name":"Rex"}"#]);

    let wrong = run(&bench, &["call", "pets.listPets", "limit=0"]).await;
    assert_ne!(wrong.code, Some(0), "the limit is exclusive: {wrong:?}");
    assert!(api.seen().is_empty());

    let checked = run(&bench, &["--check"]).await;
    assert!(checked.stdout.contains("pets"), "{checked:?}");
    assert_ne!(checked.code, Some(2), "{checked:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_are_results_whatever_their_status() {
    let api = LocalApi::start(&json!([])).await;
    let bench = by_file(&api, &json!({"limits": {"lineBytes": 65536}}));
    for (id, words) in [
        ("missing", &["HTTP 404 Not Found", "no such pet"][..]),
        ("closed", &["HTTP 401", "`headers`"]),
        ("large", &["limits.lineBytes"]),
    ] {
        let called = run(&bench, &["call", "pets.getPet", &format!("id={id}"), "--json"]).await;
        assert_eq!(called.code, Some(1), "{called:?}");
        assert!(called.stdout.contains("isError"), "{called:?}");
        assert!(words.iter().all(|word| called.stdout.contains(word)), "{called:?}");
    }
    let picture = run(&bench, &["call", "pets.getPet", "id=picture", "--json"]).await;
    assert!(picture.stdout.contains("\"image/png\""), "{picture:?}");
    let moved = run(&bench, &["call", "pets.getPet", "id=moved"]).await;
    assert!(moved.stderr.contains("another origin"), "{moved:?}");
    assert_eq!(api.seen().len(), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn neither_arguments_nor_documents_lead_elsewhere() {
    let api = LocalApi::start(&json!([{"url": "http://169.254.169.254/v1"}])).await;
    let bench = by_file(&api, &json!({}));
    for id in ["..", "../admin", ""] {
        let called = run(&bench, &["call", "pets.getPet", &format!("id={id}"), "--json"]).await;
        assert_ne!(called.code, Some(0), "{called:?}");
    }
    assert!(api.seen().is_empty());
    let called = run(&bench, &["call", "pets.getPet", "id=%2e%2e/admin?x#y"]).await;
    assert_eq!(called.code, Some(0), "{called:?}");
    assert_eq!(api.seen(), ["GET /v1/pets/%252e%252e%2Fadmin%3Fx%23y k-123456789"]);

    // The document at an address names another host as its server.
    let address = format!("{}/openapi.json", api.address);
    bench.servers(&json!({"pets": {"openapi": address, "headers": {"X-Key": "k-123456789"}}}));
    let refused = run(&bench, &["list"]).await;
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert!(
        refused.stdout.contains("169.254.169.254") && refused.stdout.contains("`url`"),
        "{refused:?}"
    );
    assert_eq!(api.seen(), ["GET /openapi.json k-123456789"]);

    // The headers of the entry are not sent to where only the document is.
    let other = LocalApi::start(&json!([])).await;
    bench.servers(&json!({"pets": {"openapi": address, "url": format!("{}/v1", other.address),
        "headers": {"X-Key": "k-123456789"}}}));
    let called = run(&bench, &["call", "pets.getPet", "id=7"]).await;
    assert_eq!(called.code, Some(0), "{called:?}");
    assert_eq!(api.seen(), ["GET /openapi.json none"]);
    assert_eq!(other.seen(), ["GET /v1/pets/7 k-123456789"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_at_an_address_needs_no_more_and_may_be_filtered() {
    let api = LocalApi::start(&json!([{"url": "/v1"}])).await;
    let bench = Bench::new();
    let document = format!("{}/openapi.json", api.address);
    bench.servers(&json!({"pets": {"openapi": document}}));
    let called = run(&bench, &["call", "pets.getPet", "id=7"]).await;
    assert_eq!(called.code, Some(0), "{called:?}");
    assert_eq!(api.seen(), ["GET /openapi.json none", "GET /v1/pets/7 none"]);
    bench.servers(&json!({"pets": {"openapi": {"document": document, "tags": ["read"],
        "operations": ["GET /pets"]}, "protocol": "legacy"}}));
    let listed = run(&bench, &["list", "--json"]).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    assert!(listed.stdout.contains("listPets"), "{listed:?}");
    assert!(!listed.stdout.contains("getPet") && !listed.stdout.contains("addPet"), "{listed:?}");
}
