//! HTTP responses as results of tools (MCP 2025-11-25, tools, tool result).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{CONTENT_TYPE, LOCATION, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};
use url::Url;

use crate::body::{essence, is_json};

/// The result of a call: text for text, content of its kind for a picture or sound, an embedded
/// resource for other bytes. A JSON object is `structuredContent` too. With a status from 300 on it
/// is an error that the model may react to (`isError`), and begins with the status.
pub fn tool_result(status: StatusCode, headers: &HeaderMap, body: &[u8], url: &Url) -> Value {
    let header = |name: &http::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let media_type = header(&CONTENT_TYPE).unwrap_or_default();
    let kind = essence(media_type);
    let is_error = !status.is_success();
    let mut content = Vec::new();
    if is_error || body.is_empty() {
        let mut text = format!("HTTP {status}");
        for (name, word) in [(&RETRY_AFTER, "retry after"), (&LOCATION, "see")] {
            if let Some(value) = header(name).filter(|_| is_error) {
                text.extend(["; ", word, " ", value]);
            }
        }
        content.push(json!({ "type": "text", "text": text }));
    }
    let mut structured = None;
    if body.is_empty() {
    } else if is_text(&kind, body) {
        let text = decoded_text(media_type, body);
        if is_json(&kind) && !is_error {
            structured = serde_json::from_str::<Value>(&text).ok().filter(Value::is_object);
        }
        content.push(json!({ "type": "text", "text": text }));
    } else {
        let data = BASE64_STANDARD.encode(body);
        let group = kind.split('/').next().unwrap_or_default();
        content.push(if matches!(group, "image" | "audio") {
            json!({ "type": group, "data": data, "mimeType": kind })
        } else {
            let mut place = url.clone();
            place.set_query(None);
            let _ = place.set_password(None).and_then(|()| place.set_username(""));
            let mut resource = json!({ "uri": place.as_str(), "blob": data });
            if !kind.is_empty() {
                resource["mimeType"] = kind.into();
            }
            json!({ "type": "resource", "resource": resource })
        });
    }
    let mut result = json!({ "content": content });
    if let Some(structured) = structured {
        result["structuredContent"] = structured;
    }
    if is_error {
        result["isError"] = json!(true);
    }
    result
}

/// Whether a body is text: by its media type, or by what it holds where there is none.
fn is_text(kind: &str, body: &[u8]) -> bool {
    const WORDS: [&str; 6] = ["xml", "yaml", "javascript", "ndjson", "json-seq", "graphql"];
    match kind {
        "" => std::str::from_utf8(body).is_ok(),
        "application/x-www-form-urlencoded" => true,
        kind => {
            is_json(kind)
                || kind.starts_with("text/")
                || kind.rsplit(['/', '+', '-', '.']).any(|word| WORDS.contains(&word))
        }
    }
}

fn decoded_text(media_type: &str, body: &[u8]) -> String {
    let charset = media_type.to_ascii_lowercase();
    let charset = charset.split_once("charset=").map(|(_, name)| name.trim_matches('"').to_owned());
    let is_latin = charset.is_some_and(|name| name.starts_with("iso-8859-1"));
    if is_latin && std::str::from_utf8(body).is_err() {
        return body.iter().map(|byte| char::from(*byte)).collect();
    }
    String::from_utf8_lossy(body).into_owned()
}
