//! A whole document: its tools, their requests, the results; and documents and arguments that try
//! to lead a request elsewhere.

use http::{HeaderMap, HeaderValue, Method, StatusCode};
use proptest::prelude::*;
use serde_json::{Map, Value, json};
use url::Url;

use crate::{ApiDocument, ApiFilter, ApiOperation, ApiOperations, EntryParts, tool_result};

fn shop() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "2", "description": "Sells pets."},
        "servers": [{"url": "https://{where}.example/v1", "variables": {"where": {"default": "shop"}}}],
        "paths": {
            "/pets": {
                "get": {"operationId": "listPets", "tags": ["pets"], "summary": "List pets", "parameters": [
                    {"name": "limit", "in": "query", "schema": {"type": "integer"}},
                    {"name": "tags[]", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {"name": "key", "in": "query", "schema": {"type": "string"}},
                    {"$ref": "#/components/parameters/trace"},
                    {"name": "seen", "in": "cookie", "schema": {"type": "string"}},
                ]},
                "post": {"operationId": "addPet", "tags": ["pets", "write"], "requestBody": {
                    "required": true,
                    "content": {"application/xml": {}, "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}}
                }},
            },
            "/pets/{id}": {
                "parameters": [{"name": "id", "in": "path", "required": true, "schema": {"type": "string"}}],
                "delete": {"tags": ["write"], "parameters": [{"name": "id", "in": "query"}]},
                "get": {"operationId": "listPets", "servers": [{"url": "http://169.254.169.254/"}]},
            },
            "/upload": {"post": {"requestBody": {"content": {"multipart/form-data": {"schema": {
                "type": "object", "properties": {"file": {"type": "string", "format": "binary"}, "note": {"type": "string"}}
            }}}}}},
            "/form": {"post": {"requestBody": {"content": {"application/x-www-form-urlencoded": {
                "schema": {"type": "object", "properties": {"a": {}, "deep": {}}},
                "encoding": {"deep": {"style": "deepObject"}}
            }}}}},
            "/../admin": {"get": {}},
            "/a/%2e%2e/admin": {"get": {}},
        },
        "components": {
            "parameters": {"trace": {"name": "X-Trace", "in": "header", "schema": {"type": "string"}}},
            "schemas": {"Pet": {"type": "object", "properties": {"name": {"type": "string"}}}},
        }
    })
}

fn base() -> Url {
    Url::parse("https://shop.example/v1?key=k").expect("an address")
}

fn offered(filter: &ApiFilter, entry: &EntryParts) -> ApiOperations {
    ApiDocument::new(shop()).expect("a document").operations(&base(), filter, entry)
}

fn all() -> ApiOperations {
    let entry = EntryParts { headers: Vec::new(), query: vec!["key".to_owned()] };
    offered(&ApiFilter::default(), &entry)
}

fn find<'o>(operations: &'o ApiOperations, name: &str) -> &'o ApiOperation {
    operations.offered.iter().find(|one| &**one.name() == name).expect("offered")
}

fn arguments(value: Value) -> Map<String, Value> {
    value.as_object().expect("an object").clone()
}

#[test]
fn operations_become_tools_with_schemas_and_hints() {
    let operations = all();
    let names: Vec<&str> = operations.offered.iter().map(|one| &**one.name()).collect();
    assert_eq!(names, ["listPets", "addPet", "delete_pets_id", "post_upload", "post_form"]);
    let list = find(&operations, "listPets").tool();
    let properties = &list["inputSchema"]["properties"];
    let arguments: Vec<&String> = properties.as_object().expect("an object").keys().collect();
    // `key` is sent by the entry.
    assert_eq!(arguments, ["limit", "tags__", "X-Trace", "seen"]);
    assert_eq!(list["annotations"]["readOnlyHint"], true);
    assert_eq!(list["description"], "List pets\n\nGET /pets");
    let add = find(&operations, "addPet").tool();
    assert_eq!(add["inputSchema"]["required"], json!(["body"]));
    assert_eq!(add["inputSchema"]["properties"]["body"]["$ref"], "#/$defs/Pet");
    assert!(add["inputSchema"]["$defs"]["Pet"].is_object());
    assert_eq!(add["annotations"]["destructiveHint"], false);
    let delete = find(&operations, "delete_pets_id").tool();
    assert_eq!(delete["annotations"]["destructiveHint"], true);
    assert!(delete["inputSchema"]["properties"]["id_query"].is_object());
    let out: Vec<&str> = operations.left_out.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(out, ["GET /pets/{id}", "GET /../admin", "GET /a/%2e%2e/admin"]);
    assert!(operations.left_out[0].1.contains("another host: http://169.254.169.254/"));
}

#[test]
fn filters_are_globs_over_tags_ids_and_paths() {
    let offers = |tags: &[&str], ids: &[&str]| {
        let strings = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<Vec<_>>();
        let filter = ApiFilter::new(&strings(tags), &strings(ids)).expect("globs");
        let found = offered(&filter, &EntryParts::default());
        found.offered.iter().map(|one| one.name().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(offers(&["wri*"], &[]), ["addPet", "delete_pets_id"]);
    assert_eq!(offers(&[], &["listPets"]), ["listPets"]);
    assert_eq!(offers(&["write"], &["DELETE /pets/*"]), ["delete_pets_id"]);
    assert!(ApiFilter::new(&["[".to_owned()], &[]).is_err());
}

#[test]
fn arguments_become_requests() {
    let operations = all();
    let list = find(&operations, "listPets");
    let given =
        json!({"limit": 5, "tags__": ["a b", "c"], "X-Trace": "t", "seen": "x;y", "key": "mine"});
    let request = list.request(&arguments(given)).expect("a request");
    assert_eq!(
        request.url.as_str(),
        "https://shop.example/v1/pets?key=k&limit=5&tags%5B%5D=a%20b&tags%5B%5D=c"
    );
    assert_eq!(request.method, Method::GET);
    assert_eq!(request.headers["x-trace"], "t");
    assert_eq!(request.headers["cookie"], "seen=x%3By");
    let add = find(&operations, "addPet");
    let request = add.request(&arguments(json!({"body": {"name": "Rex"}}))).expect("a request");
    assert_eq!(request.body, Some(("application/json".to_owned(), br#"{"name":"Rex"}"#.to_vec())));
    assert_eq!(
        add.request(&Map::new()).expect_err("no body").to_string(),
        "the argument `body` is missing"
    );
    let form = find(&operations, "post_form");
    let body = json!({"body": {"a": [1, 2], "deep": {"x": {"y": "z&"}}}});
    let (_, bytes) = form.request(&arguments(body)).expect("a request").body.expect("a body");
    assert_eq!(bytes, b"a=1&a=2&deep%5Bx%5D%5By%5D=z%26");
    let upload = find(&operations, "post_upload");
    let body = json!({"body": {"file": "aGk=", "note": "n"}});
    let (kind, bytes) = upload.request(&arguments(body)).expect("a request").body.expect("a body");
    let text = String::from_utf8(bytes).expect("text");
    let boundary = kind.split_once("boundary=").expect("a boundary").1;
    assert_eq!(text.matches(boundary).count(), 3);
    assert!(text.contains(
        "name=\"file\"; filename=\"file\"\r\nContent-Type: application/octet-stream\r\n\r\nhi\r\n"
    ));
    let bad = json!({"body": {"file": "%"}});
    assert!(upload.request(&arguments(bad)).is_err());
}

#[test]
fn a_range_of_media_types_takes_what_its_schema_is() {
    let object = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let text = json!({"$ref": "#/components/schemas/Text"});
    let file = json!({"type": "string", "format": "binary"});
    for (range, schema, body, kind, sent) in [
        ("*/*", &object, json!({"a": 1}), "application/json", "{\"a\":1}"),
        ("application/*", &object, json!({"a": 1}), "application/json", "{\"a\":1}"),
        ("application/*+json", &object, json!({"a": 1}), "application/json", "{\"a\":1}"),
        ("*/*", &text, json!("hi"), "text/plain", "hi"),
        ("text/*", &text, json!("hi"), "text/plain", "hi"),
        ("*/*", &file, json!("aGk="), "application/octet-stream", "hi"),
        ("image/*", &file, json!("aGk="), "application/octet-stream", "hi"),
    ] {
        let mut document = shop();
        document["components"]["schemas"]["Text"] = json!({"type": "string"});
        document["paths"] = json!({"/put": {"put": {"operationId": "put", "requestBody": {
            "content": {range: {"schema": schema}},
        }}}});
        let document = ApiDocument::new(document).expect("a document");
        let all = document.operations(&base(), &ApiFilter::default(), &EntryParts::default());
        let request = find(&all, "put").request(&arguments(json!({"body": body})));
        let request = request.expect("a request");
        let (media_type, bytes) = request.body.expect("a body");
        assert_eq!((media_type.as_str(), &*bytes), (kind, sent.as_bytes()), "{range} {schema}");
    }
}

#[test]
fn parameters_share_a_segment_and_what_no_path_may_have_is_named() {
    let place = |name: &str| json!({"name": name, "in": "path", "required": true, "schema": {}});
    let get = json!({"get": {"parameters": [place("id"), place("format")]}});
    let paths = [
        "/r/{id}.{format}",
        "/r/{id}..{format}/x",
        "/.{id}/{format}",
        "/r/{id}/./{format}",
        "/r/{id}/%2E%2e/{format}",
        "/{id}?x={format}",
        "/{id}/{format}#now",
    ];
    let mut document = shop();
    document["paths"] = paths.iter().map(|path| ((*path).to_owned(), get.clone())).collect();
    let document = ApiDocument::new(document).expect("a document");
    let all = document.operations(&base(), &ApiFilter::default(), &EntryParts::default());
    let urls: Vec<String> = all
        .offered
        .iter()
        .map(|one| one.request(&arguments(json!({"id": "7", "format": "pdf"}))))
        .map(|request| request.expect("a request").url.path().to_owned())
        .collect();
    assert_eq!(urls, ["/v1/r/7.pdf", "/v1/r/7..pdf/x", "/v1/.7/pdf"]);
    for one in &all.offered {
        for (id, format) in [(".", "pdf"), ("7", ".."), ("", "pdf"), (".", ".")] {
            let given = arguments(json!({"id": id, "format": format}));
            assert!(one.request(&given).is_err(), "{id:?} {format:?}");
        }
    }
    let why: Vec<&str> = all.left_out.iter().map(|(_, why)| why.as_str()).collect();
    let (dots, query) =
        ("its path has `.` or `..` as a segment", "its path has a query or a fragment");
    assert_eq!(why, [dots, dots, query, query]);
}

#[test]
fn no_argument_leads_out_of_the_path() {
    let operations = all();
    let delete = find(&operations, "delete_pets_id");
    let url =
        |id: Value| delete.request(&arguments(json!({ "id": id }))).map(|r| r.url.to_string());
    let path = |text: &str| format!("https://shop.example/v1/pets/{text}?key=k");
    for (id, expected) in [
        ("7", "7"),
        ("a/b", "a%2Fb"),
        ("%2e%2e", "%252e%252e"),
        ("%2e%2e%2fadmin", "%252e%252e%252fadmin"),
        ("a?b#c", "a%3Fb%23c"),
        ("@evil.example", "%40evil.example"),
        ("\\\\evil", "%5C%5Cevil"),
        ("...", "..."),
        ("a\r\nb", "a%0D%0Ab"),
    ] {
        assert_eq!(url(json!(id)).as_deref(), Ok(path(expected).as_str()), "{id}");
    }
    for id in ["", ".", "..", "../admin", "a/../../admin", "..\\admin", "x/.."] {
        assert!(url(json!(id)).is_err(), "{id}");
    }
    assert!(url(json!(["..", "x"])).is_err());
    assert!(url(Value::Null).is_err());
}

proptest! {
    /// Whatever the value is, the request stays below the path of its operation.
    #[test]
    fn any_text_stays_in_its_segment(id in ".*") {
        let operations = all();
        let delete = find(&operations, "delete_pets_id");
        if let Ok(request) = delete.request(&arguments(json!({ "id": id }))) {
            prop_assert_eq!(request.url.origin(), base().origin());
            let segments: Vec<&str> = request.url.path_segments().expect("a path").collect();
            prop_assert_eq!(&segments[..2], &["v1", "pets"]);
            prop_assert_eq!(segments.len(), 3);
        }
    }
}

#[test]
fn a_document_does_not_choose_the_host() {
    let document = ApiDocument::new(shop()).expect("a document");
    let at = |text: &str| document.base(&Url::parse(text).expect("an address"));
    assert_eq!(
        at("https://shop.example/openapi.json").map(String::from),
        Ok("https://shop.example/v1".into())
    );
    let refused = at("https://evil.example/openapi.json").expect_err("another host").to_string();
    assert!(refused.contains("https://shop.example/v1") && refused.contains("`url`"), "{refused}");
    let mut none = shop();
    none["servers"] = json!([{"url": "/api"}]);
    let base = ApiDocument::new(none)
        .expect("a document")
        .base(&Url::parse("http://h:1/x/o.json").expect("a"));
    assert_eq!(base.map(String::from), Ok("http://h:1/api".to_owned()));
}

#[test]
fn other_documents_are_refused_by_name() {
    let refused = |value: Value| ApiDocument::new(value).expect_err("refused").to_string();
    assert!(refused(json!({"swagger": "2.0"})).contains("Swagger 2.0"));
    assert!(refused(json!({"openapi": "4.0"})).contains("OpenAPI 4.0"));
    assert!(refused(json!([])).contains("no OpenAPI document"));
}

#[test]
fn responses_become_results_of_their_kind() {
    let url = Url::parse("https://u:p@shop.example/a?key=k").expect("an address");
    let result = |status: u16, kind: &str, body: &[u8]| {
        let mut headers = HeaderMap::new();
        if !kind.is_empty() {
            headers.insert("content-type", HeaderValue::from_str(kind).expect("a value"));
        }
        headers.insert("retry-after", HeaderValue::from_static("7"));
        tool_result(StatusCode::from_u16(status).expect("a status"), &headers, body, &url)
    };
    assert_eq!(
        result(200, "application/problem+json; charset=utf-8", b"{\"a\":1}"),
        json!({"content": [{"type": "text", "text": "{\"a\":1}"}], "structuredContent": {"a": 1}})
    );
    assert_eq!(result(200, "application/json", b"[1]")["structuredContent"], Value::Null);
    assert_eq!(result(204, "", b"")["content"][0]["text"], "HTTP 204 No Content");
    let error = result(429, "application/json", b"{\"error\":\"slow\"}");
    assert_eq!(error["isError"], true);
    assert_eq!(error["content"][0]["text"], "HTTP 429 Too Many Requests; retry after 7");
    assert_eq!(error["content"][1]["text"], "{\"error\":\"slow\"}");
    assert_eq!(error["structuredContent"], Value::Null);
    let picture = result(200, "image/png", b"\x89PNG");
    assert_eq!(
        picture["content"][0],
        json!({"type": "image", "data": "iVBORw==", "mimeType": "image/png"})
    );
    assert_eq!(result(200, "image/svg+xml", b"<svg/>")["content"][0]["type"], "text");
    let blob = result(200, "application/pdf", b"\xff\x00");
    assert_eq!(
        blob["content"][0]["resource"],
        json!({"uri": "https://shop.example/a", "blob": "/wA=", "mimeType": "application/pdf"})
    );
    assert_eq!(
        result(200, "text/plain; charset=ISO-8859-1", b"\xe9")["content"][0]["text"],
        "\u{e9}"
    );
}
