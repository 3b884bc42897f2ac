//! What a refusal by HTTP says: its status, and the sentence in its body, whatever form that has.

use http::StatusCode;
use serde_json::Value;

use base::text::cut;

/// Whether the body of a refusal is one of JSON-RPC: other interfaces call their reason `error` too.
pub(super) fn is_rpc(body: &[u8]) -> bool {
    let Ok(parsed) = serde_json::from_slice::<Value>(body) else { return true };
    parsed.get("jsonrpc").is_some() || parsed.pointer("/error/code").is_some_and(Value::is_i64)
}

/// A status with its name, if it has one.
pub(super) fn status_words(status: StatusCode) -> String {
    match status.canonical_reason() {
        Some(reason) => format!("{} {reason}", status.as_str()),
        None => status.as_str().to_owned(),
    }
}

/// The reason in the body of a refusal: the sentence in it where its form is known, else the text.
/// Of an HTML page only its title is one, and only where it says more than the status.
pub(super) fn reason_in(body: &str) -> String {
    let body = body.trim();
    if body.starts_with('<') {
        let is_status =
            |word: &str| word.parse::<u16>().is_ok_and(|number| (400..600).contains(&number));
        let title = title_of(body).filter(|title| !title.split(' ').any(is_status));
        return title.map(|title| format!("a page, \"{title}\"")).unwrap_or_default();
    }
    let parsed = serde_json::from_str::<Value>(body).unwrap_or_default();
    reason_of_json(&parsed).unwrap_or_else(|| body.to_owned())
}

/// The sentence in an error as JSON: problem details (RFC 9457), OAuth (RFC 6750), the validation of
/// `FastAPI`, and what interfaces usually write.
fn reason_of_json(error: &Value) -> Option<String> {
    let text = |value: &Value, key: &str| {
        let text = value.get(key)?.as_str()?.trim();
        (!text.is_empty()).then(|| text.to_owned())
    };
    let detail = ["message", "detail", "error_description", "errorMessage", "msg", "reason"];
    let detail = detail.iter().find_map(|key| text(error, key));
    let short = ["title", "error", "code"].iter().find_map(|key| text(error, key));
    match (short, detail) {
        (Some(short), Some(detail)) if !detail.contains(&short) => {
            return Some(format!("{short}: {detail}"));
        }
        (short, detail) if short.is_some() || detail.is_some() => return detail.or(short),
        _ => {}
    }
    if let Some(inner) = error.get("error").or_else(|| error.get("errors")?.get(0)) {
        return reason_of_json(inner);
    }
    let first = error.get("detail")?.get(0)?;
    let place = first.get("loc").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let place: Vec<&str> = place.iter().filter_map(Value::as_str).collect();
    Some(format!("{}: {}", place.join(" "), text(first, "msg")?))
}

/// The title of an HTML page.
pub(super) fn title_of(page: &str) -> Option<String> {
    let lower = page.to_ascii_lowercase();
    if !lower.trim_start().starts_with('<') {
        return None;
    }
    let start = lower.find("<title")?;
    let start = start + lower.get(start..)?.find('>')? + 1;
    let end = start + lower.get(start..)?.find("</title")?;
    let title = page.get(start..end)?.split_whitespace().collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then(|| cut(&title, 100).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_of_a_refusal_is_the_sentence_in_it() {
        for (body, said) in [
            ("plain words", "plain words"),
            ("<html><h1>x</h1>", ""),
            ("<html><head><title>502 Bad Gateway</title></head>", ""),
            ("<html><title>HTTP Status 404 \u{2013} Not Found</title>", ""),
            ("<!DOCTYPE html><title>Just a moment...</title>", "a page, \"Just a moment...\""),
            (
                "{\"error\":\"forbidden\",\"message\":\"not on the list\"}",
                "forbidden: not on the list",
            ),
            ("{\"error\":\"slow down\"}", "slow down"),
            (
                "{\"title\":\"Away\",\"detail\":\"back at noon\",\"status\":503}",
                "Away: back at noon",
            ),
            ("{\"detail\":\"Not Found\"}", "Not Found"),
            (
                "{\"detail\":[{\"loc\":[\"header\",\"x-api-key\"],\"msg\":\"field required\"}]}",
                "header x-api-key: field required",
            ),
            ("{\"error\":{\"message\":\"no credit\",\"type\":\"billing\"}}", "no credit"),
            ("{\"errors\":[{\"message\":\"no such field\"}]}", "no such field"),
            (
                "{\"error\":\"invalid_request\",\"error_description\":\"no resource\"}",
                "invalid_request: no resource",
            ),
            ("{\"x402Version\":1}", "{\"x402Version\":1}"),
            ("[1]", "[1]"),
        ] {
            assert_eq!(reason_in(body), said, "{body}");
        }
    }

    #[test]
    fn only_an_error_of_json_rpc_is_taken_for_one() {
        for body in [
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32000,\"message\":\"x\"}}",
            "{\"error\":{\"code\":-32000,\"message\":\"x\"}}",
        ] {
            assert!(is_rpc(body.as_bytes()), "{body}");
        }
        for body in ["{\"error\":\"forbidden\"}", "{\"error\":{\"code\":\"X\",\"message\":\"x\"}}"]
        {
            assert!(!is_rpc(body.as_bytes()), "{body}");
        }
        assert_eq!(
            title_of("<!doctype html>\n<TITLE lang=en> Sign\n in </TITLE>").as_deref(),
            Some("Sign in")
        );
        assert_eq!(title_of("<p>"), None);
        assert_eq!(title_of("<title></title>"), None);
    }
}
