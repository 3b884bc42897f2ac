//! Proxies of the environment: a variable that names none is told by its name, and nothing goes
//! around it.

use serde_json::json;

use super::AT_MOST;
use crate::support::{Bench, finish};

const VARIABLES: [&str; 8] = [
    "HTTP_PROXY",
    "http_proxy",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// What `list` writes to stderr, of a server at this address and with these variables.
fn told(url: &str, variables: &[(&str, &str)]) -> String {
    let bench = Bench::new();
    bench.servers(&json!({"far": {"url": url, "retry": {"maxRetries": 0}, "startupTimeout": 20}}));
    let mut command = bench.command(&["list"]);
    for name in VARIABLES {
        command.env_remove(name);
    }
    let done = finish(
        {
            command.envs(variables.iter().copied());
            command
        },
        AT_MOST,
    );
    assert_ne!(done.code, Some(0), "{done:?}");
    format!("{}{}", done.stdout, done.stderr)
}

#[test]
fn a_variable_that_names_no_proxy_is_named_and_not_gone_around() {
    let (clear, tls) = ("http://mcp.invalid/mcp", "https://mcp.invalid/mcp");
    for (url, name, value, why) in [
        (clear, "HTTP_PROXY", "http://", "it names no host"),
        (clear, "http_proxy", "ftp://proxy.invalid:8080", "`ftp://` is no kind of proxy"),
        (clear, "HTTP_PROXY", "http://proxy.invalid:80800", "its port is not a number"),
        (clear, "HTTP_PROXY", "http://proxy.invalid:", "its port is not a number"),
        (clear, "ALL_PROXY", " http://proxy.invalid:1", "there is a blank in it"),
        (tls, "HTTPS_PROXY", "socks5://proxy.invalid:1080", "SOCKS proxies are not spoken"),
        (tls, "https_proxy", "socks5h://proxy.invalid:1080", "name an HTTP proxy"),
        (tls, "all_proxy", "SOCKS4://proxy.invalid:1080", "SOCKS proxies are not spoken"),
        (tls, "HTTPS_PROXY", "http://me:canary@2@proxy.invalid:1", "is written %40"),
        (tls, "HTTPS_PROXY", "http://me:canary 2@proxy.invalid:1", "there is a blank"),
        // The variable of the other scheme: a redirect may lead there.
        (clear, "HTTPS_PROXY", "socks5://proxy.invalid:1080", "SOCKS proxies are not spoken"),
    ] {
        let text = told(url, &[(name, value)]);
        assert!(text.contains(&format!("the variable {name} names no proxy")), "{value}: {text}");
        assert!(text.contains(why), "{value}: {text}");
        assert!(text.contains("NO_PROXY"), "{value}: {text}");
        assert!(!text.contains("canary"), "{value}: {text}");
        assert!(!text.contains("no such host"), "it was connected to: {text}");
    }
}

#[test]
fn exceptions_and_proxies_that_can_be_used_are_as_ever() {
    let socks = ("HTTPS_PROXY", "socks5://proxy.invalid:1080");
    for variables in [
        &[socks, ("NO_PROXY", "mcp.invalid")][..],
        &[socks, ("no_proxy", "other.example, .invalid")],
        &[socks, ("NO_PROXY", "*")],
        &[("HTTPS_PROXY", ""), ("HTTP_PROXY", "")],
    ] {
        let text = told("https://mcp.invalid/mcp", variables);
        assert!(!text.contains("names no proxy"), "{variables:?}: {text}");
        assert!(text.contains("no such host"), "{variables:?}: {text}");
    }
    // A proxy that is dead is named; so is an exception that matches nothing.
    let dead = ("HTTPS_PROXY", "http://127.0.0.1:9");
    let text = told("https://a.mcp.invalid/mcp", &[dead, ("NO_PROXY", "*.mcp.invalid")]);
    assert!(text.contains("through the proxy 127.0.0.1:9 (HTTPS_PROXY)"), "{text}");
    assert!(
        text.contains("of NO_PROXY that means it matches nothing: write `mcp.invalid`"),
        "{text}"
    );
    // This machine is reached without a proxy, whatever the variable says.
    let text = told("http://127.0.0.1:9/mcp", &[("HTTP_PROXY", "socks5://proxy.invalid:1")]);
    assert!(text.contains("nothing listens there"), "{text}");
}
