//! The HTTP client of a server: connections, redirects, and the headers of its entry.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use reqwest::redirect::Policy;

use crate::config::HttpConfig;
use crate::mcp::transport::{SendError, connection};

pub(super) fn client(config: &HttpConfig) -> Result<reqwest::Client, SendError> {
    let builder = connection::builder(&config.url, &config.tls).map_err(SendError::Refused)?;
    let client = builder.redirect(Policy::custom(same_origin)).build();
    client.map_err(|error| SendError::Refused(format!("HTTP cannot be set up: {error}")))
}

pub(in crate::mcp::transport) fn headers(config: &HttpConfig) -> Result<HeaderMap, SendError> {
    let bad = |name: &str, what: &str| SendError::Refused(format!("header `{name}`: {what}"));
    let mut out = HeaderMap::new();
    for (name, value) in &config.headers {
        let key: HeaderName = name.parse().map_err(|_| bad(name, "the name is not allowed"))?;
        if HttpConfig::OWN_HEADERS.contains(&key.as_str()) {
            return Err(bad(name, "the transport sets it itself"));
        }
        let mut value = HeaderValue::from_str(value.expose())
            .map_err(|_| bad(name, "the value holds characters that are not allowed"))?;
        value.set_sensitive(true);
        out.insert(key, value);
    }
    Ok(out)
}

/// Follows redirects within the origin only: the headers hold secrets. And only those that keep the
/// request as it is (RFC 9110, section 15.4): a message that becomes a GET is lost without a word.
fn same_origin(attempt: reqwest::redirect::Attempt<'_>) -> reqwest::redirect::Action {
    const MOST: usize = 5;
    let first = attempt.previous().first().map(url::Url::origin);
    if attempt.previous().len() > MOST {
        return attempt.error("too many redirects");
    }
    let origin = attempt.url().origin();
    if first.as_ref() != Some(&origin) {
        let text = format!("a redirect to another origin, {}", origin.ascii_serialization());
        return attempt.error(text);
    }
    let keeps = [StatusCode::TEMPORARY_REDIRECT, StatusCode::PERMANENT_REDIRECT];
    if !keeps.contains(&attempt.status()) {
        let text = format!("HTTP {} would send it without its message", attempt.status());
        return attempt.error(text);
    }
    attempt.follow()
}
