//! Redirects of a server: which of them a message follows, and what is said of the others. Within the
//! origin only, because the headers hold secrets, and only where the message arrives: one that is
//! turned into a GET is silently lost.

use http::header::LOCATION;
use http::{HeaderMap, Method, StatusCode};
use url::Url;

use base::SafeText;

/// Most redirects of one message.
pub(super) const MAX_REDIRECTS: usize = 5;

/// How far a request follows redirects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedirectReach {
    /// Only to an address of the same place, as where the headers hold secrets: another path may be
    /// another server.
    pub(crate) stays: bool,
    /// It is a message to an endpoint: a redirect that adds or removes a slash means the message too,
    /// whatever its status says of methods. What is posted to an API may be answered with the page to
    /// look at next, and would be done twice.
    pub(crate) is_endpoint: bool,
}

impl RedirectReach {
    /// That of a message with secrets.
    pub(crate) const ENDPOINT: Self = Self { stays: true, is_endpoint: true };
}

/// What a response says of the place of its request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    /// Nothing: it is the answer.
    Not,
    /// The same message is sent there.
    To(Url),
    /// It is sent nowhere else, for this reason.
    Refused(String),
}

impl Moved {
    /// What a response to `method` at `url` says, followed as far as `reach` allows.
    pub(crate) fn from_response(
        method: &Method,
        url: &Url,
        status: StatusCode,
        headers: &HeaderMap,
        reach: RedirectReach,
    ) -> Self {
        let place = headers.get(LOCATION).and_then(|place| place.to_str().ok());
        let Some(next) = place.and_then(|place| url.join(place).ok()) else { return Self::Not };
        if !matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Self::Not;
        }
        let path = SafeText::cut(next.path(), 200);
        let is_same = is_same_place(url, &next);
        let origin = next.origin().ascii_serialization();
        if !is_same && leads_to_sign_in(&next) {
            let place = SafeText::cut(&format!("{origin}{}", next.path()), 200);
            return Self::Refused(format!(
                "a redirect to {place}, where people sign in with a browser: what stands before \
                 the server has to let programs through, or wants a header (`headers` of the entry)"
            ));
        }
        if next.origin() != url.origin() {
            let place = SafeText::cut(&origin, 200);
            return Self::Refused(format!(
                "a redirect to another origin, {place}; if that is the server, put its address \
                 into `url`"
            ));
        }
        let keeps = keeps_message(status)
            || is_same && *method == Method::GET
            || is_same && reach.is_endpoint && status != StatusCode::SEE_OTHER;
        if !keeps {
            return Self::Refused(format!(
                "HTTP {status} to {path} would send it without its message; if that is the server, \
                 put it into `url`"
            ));
        }
        if reach.stays && !is_same {
            return Self::Refused(format!(
                "a redirect to another path, {path}, which the token and headers of this entry are \
                 not for; if that is the server, put it into `url`"
            ));
        }
        Self::To(next)
    }
}

/// Whether an address is that of a page to sign in at, as proxies before a server send browsers to.
fn leads_to_sign_in(url: &Url) -> bool {
    const WORDS: [&str; 7] = ["login", "signin", "sign-in", "sign_in", "sso", "saml", "authorize"];
    let path = url.path().to_ascii_lowercase();
    let mut parts = path.split(['/', '.']);
    parts.any(|part| WORDS.contains(&part))
}

/// Whether a redirect preserves the request (RFC 9110, section 15.4).
fn keeps_message(status: StatusCode) -> bool {
    matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT)
}

/// Whether a redirect holds for later requests too (RFC 9110, section 15.4).
pub(super) fn is_permanent(status: StatusCode) -> bool {
    matches!(status, StatusCode::MOVED_PERMANENTLY | StatusCode::PERMANENT_REDIRECT)
}

/// Whether two addresses are of one server: the same path but for a last slash, which frameworks add
/// and remove by a redirect.
fn is_same_place(one: &Url, other: &Url) -> bool {
    one.origin() == other.origin() && without_slash(one) == without_slash(other)
}

/// The path of an address without its last slash.
pub(crate) fn without_slash(url: &Url) -> &str {
    url.path().strip_suffix('/').unwrap_or(url.path())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn a_message_follows_where_it_arrives_whole_at_the_same_origin() {
        let url = Url::parse("https://a.example/mcp?k=1").expect("an address");
        let reach = |stays| RedirectReach { stays, is_endpoint: true };
        for (status, method, location, stays, goes) in [
            (301, "POST", "/mcp/", true, true),
            (302, "POST", "/mcp/?k=1", true, true),
            (307, "POST", "https://a.example/mcp/", true, true),
            (308, "DELETE", "/mcp/", true, true),
            (303, "POST", "/mcp/", false, false),
            (303, "GET", "/mcp/", true, true),
            (301, "POST", "/other", false, false),
            (301, "GET", "/other", false, false),
            (307, "POST", "/other", false, true),
            (307, "POST", "/other", true, false),
            (307, "POST", "/mcp//", true, false),
            (308, "POST", "http://a.example/mcp/", false, false),
            (308, "POST", "https://b.example/mcp/", false, false),
            (308, "POST", "//b.example/mcp/", false, false),
            (308, "POST", "https://a.example:8443/mcp/", false, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().expect("a header"));
            let status = StatusCode::from_u16(status).expect("a status");
            let method = method.parse().expect("a method");
            let moved = Moved::from_response(&method, &url, status, &headers, reach(stays));
            let is_to = matches!(moved, Moved::To(_));
            assert_eq!(is_to, goes, "{status} {method} {location}: {moved:?}");
            assert!(is_to || matches!(moved, Moved::Refused(_)), "{moved:?}");
        }
        for (location, is_page) in [
            ("/login?next=%2Fmcp", true),
            ("https://b.example/realms/x/authorize?client_id=1", true),
            ("/accounts/sign-in/", true),
            ("/logins", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(LOCATION, location.parse().expect("a header"));
            let (post, found) = (Method::POST, StatusCode::FOUND);
            let moved = Moved::from_response(&post, &url, found, &headers, reach(false));
            let Moved::Refused(why) = moved else { panic!("{moved:?}") };
            assert_eq!(why.contains("sign in with a browser"), is_page, "{why}");
            assert!(!why.contains("next=") && !why.contains("client_id"), "{why}");
        }
        let none = HeaderMap::new();
        let moved =
            Moved::from_response(&Method::POST, &url, StatusCode::FOUND, &none, reach(false));
        assert_eq!(moved, Moved::Not);
    }

    #[test]
    fn what_is_posted_to_an_api_is_not_posted_twice() {
        let url = Url::parse("https://a.example/items").expect("an address");
        let mut headers = HeaderMap::new();
        headers.insert(LOCATION, HeaderValue::from_static("/items/"));
        let reach = RedirectReach { stays: false, is_endpoint: false };
        for (method, status, goes) in [
            (Method::POST, StatusCode::FOUND, false),
            (Method::POST, StatusCode::MOVED_PERMANENTLY, false),
            (Method::DELETE, StatusCode::FOUND, false),
            (Method::POST, StatusCode::PERMANENT_REDIRECT, true),
            (Method::GET, StatusCode::MOVED_PERMANENTLY, true),
        ] {
            let moved = Moved::from_response(&method, &url, status, &headers, reach);
            assert_eq!(matches!(moved, Moved::To(_)), goes, "{method} {status}: {moved:?}");
        }
    }
}
