//! Whether an address refers to this machine.

use url::{Host, Url};

/// Whether an address certainly refers to this machine: a loopback IP or `localhost`.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether an address refers to this machine or to a name below `localhost`, which is meant to be
/// loopback (RFC 6761, section 6.3), though not every resolver enforces that.
pub fn is_meant_as_loopback(url: &Url) -> bool {
    is_loopback(url)
        || url.domain().is_some_and(|name| {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        })
}
