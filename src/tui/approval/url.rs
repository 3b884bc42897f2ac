//! What a URL really is, before a person opens it (URL elicitation; MCP 2025-11-25, client
//! features, elicitation, URL mode). Pure: looks at the text, fetches and opens nothing.

use url::{Host, Url};

use crate::base::text::SafeText;

/// Longest URL that may be opened, in bytes.
pub const LONGEST: usize = 2_048;

/// A URL taken apart for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlReading {
    /// Text before the host, safe to draw.
    pub before: SafeText,
    /// The host: where the browser would really go.
    pub host: SafeText,
    /// Text after the host.
    pub after: SafeText,
    /// What the server wrote, when that is not what would be opened.
    pub written: Option<SafeText>,
    /// Why it must not be opened; empty when it may be.
    pub refusals: Vec<String>,
    /// What a person should look at before opening it.
    pub warnings: Vec<String>,
    /// The normalised URL to hand to the opener; `None` when it is refused.
    pub open: Option<String>,
}

/// Takes `raw` apart.
///
/// Refused: any scheme but `https` (and `http` on a loopback host), user information (`good@evil`),
/// control characters, white space, more than [`LONGEST`] bytes, no host. Warned about: punycode and
/// look-alike hosts, bare IP addresses, unusual ports.
pub fn read(raw: &str) -> UrlReading {
    let mut refusals = Vec::new();
    let mut warnings = Vec::new();
    if raw.len() > LONGEST {
        refusals.push(format!("it is {} bytes long, at most {LONGEST} are opened", raw.len()));
    }
    if raw.chars().any(|c| c.is_control() || c.is_whitespace()) {
        refusals.push("it holds white space or control characters".to_owned());
    }
    let parsed = match Url::parse(raw) {
        Ok(url) => url,
        Err(error) => {
            refusals.push(format!("it is no URL: {error}"));
            return UrlReading {
                before: SafeText::line(raw),
                host: SafeText::default(),
                after: SafeText::default(),
                written: None,
                refusals,
                warnings,
                open: None,
            };
        }
    };
    check_scheme(&parsed, &mut refusals, &mut warnings);
    if !parsed.username().is_empty() || parsed.password().is_some() {
        refusals.push(format!(
            "the part before `@` is no address; it would really open {}",
            parsed.host_str().unwrap_or("nothing")
        ));
    }
    check_host(&parsed, raw, &mut refusals, &mut warnings);
    if let Some(port) = parsed.port() {
        warnings.push(format!("unusual port {port}"));
    }
    let (before, host, after) = split(&parsed);
    let open = refusals.is_empty().then(|| parsed.to_string());
    let written = (parsed.as_str() != raw && parsed.as_str().trim_end_matches('/') != raw)
        .then(|| SafeText::line(raw));
    UrlReading { before, host, after, written, refusals, warnings, open }
}

fn check_scheme(url: &Url, refusals: &mut Vec<String>, warnings: &mut Vec<String>) {
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(url) => {
            warnings.push("this machine itself, without encryption".to_owned());
        }
        "http" => refusals.push("`http` to another machine is not encrypted".to_owned()),
        other => refusals.push(format!("`{other}:` is not opened, only `https:`")),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn check_host(url: &Url, raw: &str, refusals: &mut Vec<String>, warnings: &mut Vec<String>) {
    match url.host() {
        None => refusals.push("it names no host".to_owned()),
        Some(Host::Ipv4(_) | Host::Ipv6(_)) if !is_loopback(url) => {
            warnings.push("the host is a bare address, not a name".to_owned());
        }
        Some(Host::Domain(name)) => {
            if name.split('.').any(|label| label.starts_with("xn--")) {
                warnings.push(format!(
                    "the host holds letters of other alphabets that can look like Latin ones; its real name is {name}"
                ));
            }
            let written = raw.split("//").nth(1).unwrap_or_default().to_lowercase();
            if !written.starts_with(name) && !name.contains("xn--") && !written.contains('@') {
                warnings.push(format!("written differently from what it opens: {name}"));
            }
        }
        Some(_) => {}
    }
}

/// The text of the URL around its host. The host of the parsed URL is drawn, which is what would be
/// opened, not what was written.
fn split(url: &Url) -> (SafeText, SafeText, SafeText) {
    let text = url.as_str();
    let Some(host) = url.host_str().filter(|h| !h.is_empty()) else {
        return (SafeText::line(text), SafeText::default(), SafeText::default());
    };
    let authority = text.find("://").map_or(0, |at| at + 3);
    let userinfo =
        text[authority..].find(['/', '?', '#']).map_or(text.len(), |end| authority + end);
    let start = text[authority..userinfo].rfind('@').map_or(authority, |at| authority + at + 1);
    let end = start + host.len();
    (SafeText::line(&text[..start]), SafeText::line(host), SafeText::line(&text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_address_may_be_opened_and_shows_its_host_apart() {
        let reading = read("https://auth.example.com/login?state=abc");
        assert_eq!(reading.host.as_str(), "auth.example.com");
        assert_eq!(reading.before.as_str(), "https://");
        assert_eq!(reading.after.as_str(), "/login?state=abc");
        assert_eq!(reading.open.as_deref(), Some("https://auth.example.com/login?state=abc"));
        assert!(reading.warnings.is_empty() && reading.refusals.is_empty());
    }

    #[test]
    fn what_is_no_plain_web_address_is_refused_with_a_reason() {
        for raw in [
            "javascript:alert(1)",
            "file:///etc/passwd",
            "--flag",
            "https://good.com@evil.example/",
            "https://a.example/\nHost: b",
            "https://a.example/$(touch pwned) x",
            "http://a.example/",
            "data:text/html,hi",
            "https:",
        ] {
            let reading = read(raw);
            assert!(!reading.refusals.is_empty(), "{raw}");
            assert_eq!(reading.open, None, "{raw}");
        }
        assert!(read(&format!("https://a.example/{}", "x".repeat(20_000))).open.is_none());
    }

    #[test]
    fn the_host_behind_user_information_is_the_one_that_is_shown() {
        assert_eq!(read("https://good.com@evil.example/x").host.as_str(), "evil.example");
    }

    #[test]
    fn look_alike_hosts_and_bare_addresses_are_pointed_out() {
        let reading = read("https://аpple.com/");
        assert!(reading.host.starts_with("xn--"), "{reading:?}");
        assert!(!reading.warnings.is_empty());
        assert!(!read("https://10.0.0.1/").warnings.is_empty());
        assert!(!read("https://a.example:8443/").warnings.is_empty());
        assert!(read("http://127.0.0.1:3000/cb").open.is_some());
    }
}
