//! The proxy that the environment names: which one stands before an address, and why it cannot be
//! used. A variable that names none is no reason to connect around it: whoever set it wants none of
//! that.

use hyper_util::client::proxy::matcher::Matcher;
use url::Url;

use base::address::is_loopback;

/// A variable that is set, and its value; `None` for one that is not text.
struct ProxyVariable {
    name: String,
    value: Option<String>,
}

/// The first of the spellings of a variable that is set, as the matcher takes it, but for a value
/// that is not text, which it takes for an unset one.
fn variable(upper: &str) -> Option<ProxyVariable> {
    let names = [upper.to_owned(), upper.to_ascii_lowercase()];
    let set = |name: String| Some((std::env::var_os(&name)?, name));
    let (value, name) = names.into_iter().find_map(set)?;
    Some(ProxyVariable { name, value: value.into_string().ok() })
}

/// The variable that decides for a scheme.
fn deciding(scheme: &str) -> Option<ProxyVariable> {
    let by_scheme = if scheme == "http" || scheme == "ws" { "HTTP_PROXY" } else { "HTTPS_PROXY" };
    let is_set =
        |variable: &ProxyVariable| variable.value.as_ref().is_none_or(|value| !value.is_empty());
    [by_scheme, "ALL_PROXY"].into_iter().filter_map(variable).find(is_set)
}

/// Host and port of the proxy that the environment (`HTTPS_PROXY`, `NO_PROXY` and their kin) puts
/// before an address, with the variable that names it.
pub(crate) fn proxy_of(url: &Url) -> Option<String> {
    if is_loopback(url) {
        return None;
    }
    let proxy = Matcher::from_env().intercept(&url.as_str().parse().ok()?)?;
    let host = proxy.uri().authority()?;
    let name = deciding(url.scheme()).map_or_else(|| "HTTPS_PROXY".to_owned(), |it| it.name);
    Some(format!("{host} ({name})"))
}

/// Why the proxy before an address cannot be used, naming the variable and never its value, which
/// may hold a password. Both schemes count: a redirect may lead from one to the other.
pub(crate) fn proxy_flaw(url: &Url) -> Option<String> {
    if is_loopback(url) || std::env::var_os("REQUEST_METHOD").is_some() || is_excepted(url) {
        return None;
    }
    let flaw = |scheme| {
        let ProxyVariable { name, value } = deciding(scheme)?;
        let why = match value {
            None => "it is not text (UTF-8)".to_owned(),
            Some(value) => value_flaw(&value)?,
        };
        Some(format!(
            "the variable {name} names no proxy that can be used: {why}; nothing is sent around \
             it: correct or unset it, or put the host into NO_PROXY"
        ))
    };
    flaw(url.scheme()).or_else(|| ["https", "http"].into_iter().find_map(flaw))
}

/// Whether `NO_PROXY` takes an address out.
fn is_excepted(url: &Url) -> bool {
    let Some(no) = variable("NO_PROXY").and_then(|it| it.value) else { return false };
    // With a proxy that is known to be usable.
    let matcher = Matcher::builder().all("http://proxy.invalid").no(no).build();
    let is_intercepted = |url: &http::Uri| matcher.intercept(url).is_some();
    let host = url.host_str().unwrap_or_default();
    format!("http://{host}/").parse().is_ok_and(|url| !is_intercepted(&url))
}

/// What is wrong with the value of a variable that names a proxy.
fn value_flaw(value: &str) -> Option<String> {
    const FORM: &str = "write http://HOST:PORT, or http://USER:PASSWORD@HOST:PORT";
    let (scheme, rest) = match value.split_once("://") {
        Some((scheme, rest)) => (scheme.to_ascii_lowercase(), rest),
        None => ("http".to_owned(), value),
    };
    if value.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some(format!("there is a blank in it; {FORM}"));
    }
    if scheme.starts_with("socks") {
        return Some(format!(
            "SOCKS proxies are not spoken; name an HTTP proxy (many SOCKS proxies have a port for \
             HTTP, too), or put one between the two; {FORM}"
        ));
    }
    if scheme != "http" && scheme != "https" {
        let is_word = scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c));
        let shown = if is_word && !scheme.is_empty() { &*scheme } else { "?" };
        return Some(format!("`{shown}://` is no kind of proxy; {FORM}"));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.matches('@').count() > 1 {
        return Some("an `@` of the password is written %40".to_owned());
    }
    let place = authority.rsplit('@').next().unwrap_or_default();
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':').or((!port.is_empty()).then_some(port))),
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Some(format!("it names no host; {FORM}"));
    }
    if port.is_some_and(|port| port.parse::<u16>().ok().is_none_or(|port| port == 0)) {
        return Some(format!("its port is not a number from 1 to 65535; {FORM}"));
    }
    let probe = http::Uri::from_static("http://mcpdeck.invalid/");
    let is_taken = Matcher::builder().all(value).build().intercept(&probe).is_some();
    (!is_taken).then(|| {
        format!(
            "it is no address (signs of a password that have a meaning are written %XX); {FORM}"
        )
    })
}

/// What an entry of `NO_PROXY` that looks as if it meant this host is to be written as.
pub(crate) fn no_proxy_hint(url: &Url) -> Option<String> {
    let variable = variable("NO_PROXY")?;
    let Some(value) = variable.value else {
        return Some(format!("{} is not text (UTF-8) and is not read", variable.name));
    };
    let host = url.host_str()?;
    value.split(',').map(str::trim).find_map(|entry| {
        let bare = entry.rsplit("://").next()?.trim_start_matches('*');
        let bare = bare.split(['/', ':']).next()?.trim_start_matches('.');
        let is_meant = host == bare || host.ends_with(&format!(".{bare}"));
        (!bare.is_empty() && is_meant && bare != entry.trim_start_matches('.')).then(|| {
            format!("the entry of {} that means it matches nothing: write `{bare}`", variable.name)
        })
    })
}
