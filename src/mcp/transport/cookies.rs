//! The cookies of one session (RFC 6265). A load balancer sets one with its first answer, and finds
//! the server that holds the session by it. They go back to the origin that has set them and nowhere
//! else, end with the session, and are neither shown nor stored.

use std::time::{Duration, Instant};

use http::header::{COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue};
use parking_lot::Mutex;
use url::{Host, Url};

use base::address::is_loopback;
use base::{Clock, Timestamp};

/// The cookies that one server has set.
#[derive(Default)]
pub(super) struct SessionCookies(Mutex<Vec<Cookie>>);

struct Cookie {
    origin: url::Origin,
    path: String,
    name: String,
    value: String,
    ends: Option<Instant>,
}

impl SessionCookies {
    /// Most cookies that are kept; the oldest gives way.
    const MAX_COOKIES: usize = 16;
    /// Longest name and value of one that is kept, in bytes (RFC 6265, section 6.1).
    const MAX_COOKIE_BYTES: usize = 4 << 10;
    /// Most bytes of all: many servers take no more in all headers together.
    const MAX_TOTAL_BYTES: usize = 8 << 10;

    /// Adds the cookies for `url` to the headers of a request. What the request names itself stays as
    /// it is.
    pub(super) fn attach(&self, url: &Url, headers: &mut HeaderMap) {
        let own = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let own = own.collect::<Vec<_>>().join("; ");
        let named: Vec<&str> = own.split(';').map(|pair| name_of(pair).trim()).collect();
        let mut all = self.0.lock();
        all.retain(|cookie| cookie.ends.is_none_or(|ends| ends > Instant::now()));
        let fitting = all.iter().filter(|cookie| {
            cookie.origin == url.origin()
                && covers(&cookie.path, url.path())
                && !named.contains(&cookie.name.as_str())
        });
        let pairs = fitting.map(|cookie| format!("{}={}", cookie.name, cookie.value));
        let line = Some(own.clone()).filter(|own| !own.is_empty()).into_iter().chain(pairs);
        let line = line.collect::<Vec<_>>().join("; ");
        if let Ok(mut line) = HeaderValue::from_str(&line)
            && !line.is_empty()
        {
            line.set_sensitive(true);
            headers.insert(COOKIE, line);
        }
    }

    /// Keeps what an answer from `url` sets, and forgets what it takes back.
    pub(super) fn learn(&self, url: &Url, headers: &HeaderMap) {
        let set = headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok());
        for (cookie, is_over) in set.filter_map(|line| Cookie::parse(line, url)) {
            let mut all = self.0.lock();
            all.retain(|known| !known.is_same(&cookie));
            if is_over {
                continue;
            }
            all.push(cookie);
            let bytes = |all: &[Cookie]| all.iter().map(Cookie::bytes).sum::<usize>();
            while all.len() > Self::MAX_COOKIES || bytes(&all) > Self::MAX_TOTAL_BYTES {
                all.remove(0);
            }
        }
    }
}

impl Cookie {
    /// The cookie of a `Set-Cookie` line, and whether it is taken back; `None` when it is not for the
    /// server at `url` or is too long.
    fn parse(line: &str, url: &Url) -> Option<(Self, bool)> {
        let mut parts = line.split(';');
        let (name, value) = parts.next()?.split_once('=')?;
        let (name, value) = (name.trim().to_owned(), value.trim().to_owned());
        let (mut path, mut expires) = (None, None);
        let (mut ends, mut is_over, mut is_secure, mut has_domain) = (None, false, false, false);
        for part in parts {
            let (key, given) = part.split_once('=').unwrap_or((part, ""));
            let given = given.trim();
            match key.trim().to_ascii_lowercase().as_str() {
                "path" => path = Some(given).filter(|path| path.starts_with('/')),
                "domain" if !is_within(url, given) => return None,
                "domain" => has_domain = !given.is_empty(),
                "secure" => is_secure = true,
                "max-age" => {
                    let seconds = given.parse::<i64>().ok();
                    is_over = seconds.is_some_and(|seconds| seconds <= 0);
                    ends = seconds.and_then(|seconds| {
                        let left = Duration::from_secs(u64::try_from(seconds).ok()?);
                        Instant::now().checked_add(left)
                    });
                }
                "expires" => expires = Timestamp::from_http_date(given),
                _ => {}
            }
        }
        // The age counts where both are named (RFC 6265, section 5.3).
        if let Some(at) = expires.filter(|_| ends.is_none() && !is_over) {
            let left = at.since(Clock::system().now());
            (is_over, ends) = (left.is_zero(), Instant::now().checked_add(left));
        }
        let path = path.map_or_else(|| default_path(url), str::to_owned);
        let is_safe = url.scheme() == "https" || is_loopback(url);
        let keeps_prefix = if name.starts_with("__Host-") {
            is_secure && !has_domain && path == "/"
        } else {
            is_secure || !name.starts_with("__Secure-")
        };
        let cookie = Self { origin: url.origin(), path, name, value, ends };
        let is_kept = !cookie.name.is_empty()
            && cookie.bytes() <= SessionCookies::MAX_COOKIE_BYTES
            && (is_safe || !is_secure)
            && keeps_prefix;
        is_kept.then_some((cookie, is_over))
    }

    fn bytes(&self) -> usize {
        self.name.len() + self.value.len() + self.path.len()
    }

    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && self.path == other.path && self.origin == other.origin
    }
}

fn name_of(pair: &str) -> &str {
    pair.split('=').next().unwrap_or_default()
}

/// Whether the host of `url` is `domain`, or below it (RFC 6265, section 5.1.3).
fn is_within(url: &Url, domain: &str) -> bool {
    let domain = domain.trim_start_matches('.').to_ascii_lowercase();
    match url.host() {
        _ if domain.is_empty() => true,
        Some(Host::Domain(host)) => {
            host == domain || host.strip_suffix(&domain).is_some_and(|sub| sub.ends_with('.'))
        }
        Some(host) => host.to_string() == domain,
        None => false,
    }
}

/// The folder of an address (RFC 6265, section 5.1.4).
fn default_path(url: &Url) -> String {
    match url.path().rfind('/') {
        Some(0) | None => "/".to_owned(),
        Some(end) => url.path()[..end].to_owned(),
    }
}

/// Whether a cookie of `path` goes with a request to `asked` (RFC 6265, section 5.1.4).
fn covers(path: &str, asked: &str) -> bool {
    let rest = asked.strip_prefix(path);
    rest.is_some_and(|rest| rest.is_empty() || path.ends_with('/') || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        text.parse().expect("an address")
    }

    fn sent(cookies: &SessionCookies, to: &str) -> Option<String> {
        let mut headers = HeaderMap::new();
        cookies.attach(&url(to), &mut headers);
        let line = headers.get(COOKIE)?;
        assert!(line.is_sensitive());
        line.to_str().ok().map(str::to_owned)
    }

    fn set(cookies: &SessionCookies, from: &str, lines: &[&str]) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(SET_COOKIE, line.parse().expect("a header"));
        }
        cookies.learn(&url(from), &headers);
    }

    const AT: &str = "https://a.example/x/mcp";

    #[test]
    fn a_cookie_goes_back_where_it_is_for_and_nowhere_else() {
        for (line, to, goes) in [
            ("AWSALB=ab/c==; Expires=Sat, 05 Dec 2037 09:10:00 GMT; Path=/", AT, true),
            ("route=1", AT, true),
            ("route=1", "https://a.example/x/other", true),
            ("route=1", "https://a.example/y", false),
            ("route=1; Path=/x/mcp", AT, true),
            ("route=1; path=/x/mcp", "https://a.example/x/mcp/", true),
            ("route=1; Path=/x/mcp", "https://a.example/x/mcp2", false),
            ("route=1; Path=/; Domain=a.example; HttpOnly; SameSite=None; Secure", AT, true),
            ("route=1; Path=/; Domain=.example", AT, true),
            ("route=1; Path=/; Domain=b.example", AT, false),
            ("route=1; Path=/; Domain=ample", AT, false),
            ("route=1; Path=/", "http://a.example/x/mcp", false),
            ("route=1; Path=/", "https://a.example:8443/x/mcp", false),
            ("route=1; Path=/; Domain=example", "https://b.example/x/mcp", false),
            ("__Host-r=1; Path=/; Secure", AT, true),
            ("__Host-r=1; Path=/x; Secure", AT, false),
            ("__Host-r=1; Path=/", AT, false),
            ("__Secure-r=1; Path=/", AT, false),
            ("=1; Path=/", AT, false),
            ("none", AT, false),
            ("route=1; Max-Age=0; Path=/", AT, false),
            ("route=1; expires=Tue, 12-Oct-1999 00:00:00 GMT; Path=/", AT, false),
            ("route=1; expires=Sat, 05-Dec-2037 09:10:00 GMT; Path=/", AT, true),
            ("route=1; expires=Sunday, 06-Nov-94 08:49:37 GMT; Path=/", AT, false),
            ("route=1; expires=Sun Nov  6 08:49:37 1994; Path=/", AT, false),
            ("route=1; Max-Age=60; expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/", AT, true),
            ("route=1; expires=soon; Path=/", AT, true),
        ] {
            let cookies = SessionCookies::default();
            set(&cookies, AT, &[line]);
            let pair = line.split(';').next().map(str::to_owned).filter(|_| goes);
            assert_eq!(sent(&cookies, to), pair, "{line} to {to}");
        }
    }

    #[test]
    fn one_that_is_set_again_is_replaced_and_one_that_is_taken_back_is_gone() {
        let cookies = SessionCookies::default();
        set(&cookies, AT, &["a=1", "b=2"]);
        set(&cookies, AT, &["a=3"]);
        assert_eq!(sent(&cookies, AT).as_deref(), Some("b=2; a=3"));
        for end in ["Max-Age=0", "Max-Age=-1", "expires=Thu, 01 Jan 1970 00:00:00 GMT"] {
            set(&cookies, AT, &["a=3"]);
            set(&cookies, AT, &[&format!("a=; {end}")]);
            assert_eq!(sent(&cookies, AT).as_deref(), Some("b=2"), "{end}");
        }
    }

    #[test]
    fn what_the_entry_names_itself_stays() {
        let cookies = SessionCookies::default();
        set(&cookies, AT, &["a=1", "b=2"]);
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, HeaderValue::from_static("a=mine; c=3"));
        cookies.attach(&url(AT), &mut headers);
        assert_eq!(headers[COOKIE], "a=mine; c=3; b=2");
    }

    #[test]
    fn an_encrypted_one_is_not_taken_in_the_clear_but_from_this_machine() {
        for (from, goes) in [("http://a.example/mcp", false), ("http://127.0.0.1:9/mcp", true)] {
            let cookies = SessionCookies::default();
            set(&cookies, from, &["a=1; Secure"]);
            assert_eq!(sent(&cookies, from).is_some(), goes, "{from}");
        }
    }

    #[test]
    fn their_number_and_size_is_limited() {
        let cookies = SessionCookies::default();
        set(&cookies, AT, &[&format!("long={}", "x".repeat(5_000))]);
        assert_eq!(sent(&cookies, AT), None);
        for n in 0..100 {
            set(&cookies, AT, &[&format!("c{n}={n}")]);
        }
        let line = sent(&cookies, AT).expect("some");
        assert_eq!(line.split("; ").count(), SessionCookies::MAX_COOKIES);
        assert!(line.ends_with("c99=99"), "{line}");
        for n in 0..10 {
            set(&cookies, AT, &[&format!("d{n}={}", "x".repeat(4_000))]);
        }
        let line = sent(&cookies, AT).expect("some");
        assert!(line.len() <= SessionCookies::MAX_TOTAL_BYTES, "{}", line.len());
    }
}
