//! Paths as clients write them: a last slash changes nothing, and what does not exist says so in the
//! form that every other refusal has.

use axum::body::{Body, HttpBody as _};
use axum::http::{HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use serde_json::json;

use host::OutsideCode;

/// Takes the last slash from the path of a request.
pub(crate) fn trim<B>(request: &mut Request<B>) {
    let uri = request.uri();
    let Some(path) = uri.path().strip_suffix('/').filter(|path| !path.is_empty()) else { return };
    let query = uri.query().map_or_else(String::new, |query| format!("?{query}"));
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = format!("{path}{query}").parse().ok();
    if let Ok(trimmed) = Uri::from_parts(parts) {
        *request.uri_mut() = trimmed;
    }
}

/// Says what is wrong with a path or method that nothing answers.
pub(crate) fn explained(mut response: Response<Body>, method: &Method) -> Response<Body> {
    let message = match response.status() {
        StatusCode::NOT_FOUND => {
            "there is no such path: MCP is at /mcp, and GET /openapi.json lists those of REST"
        }
        StatusCode::METHOD_NOT_ALLOWED => "this path takes another method",
        _ => return response,
    };
    if method == Method::HEAD || !response.body().is_end_stream() {
        return response;
    }
    let error = json!({"error": {"code": OutsideCode::ProtocolError, "message": message}});
    *response.body_mut() = Body::from(error.to_string());
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_last_slash_is_taken_and_nothing_else() {
        for (written, read) in [
            ("/servers/", "/servers"),
            ("/servers/?a=/", "/servers?a=/"),
            ("/servers", "/servers"),
            ("/", "/"),
            ("//", "/"),
            ("/mcp//", "/mcp/"),
            ("http://a.example/tools/?x", "http://a.example/tools?x"),
        ] {
            let mut request = Request::builder().uri(written).body(()).expect("a request");
            trim(&mut request);
            assert_eq!(request.uri().to_string(), read, "{written}");
        }
    }
}
