//! Which addresses metadata may name. A resource decides where its metadata and its authorization
//! server are, so it could make the host send requests into its own network (SSRF): private and
//! loopback addresses are allowed only where the server itself has one, link-local and reserved
//! ones never. Names are checked when they are resolved, so that DNS rebinding fails.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::transport::proxy::proxy_flaw;
use base::address::is_meant_as_loopback;

/// How far an address reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AddressReach {
    Public,
    Loopback,
    Private,
    /// Link-local (including cloud metadata services), multicast, reserved.
    Never,
}

/// Which addresses the metadata of one server may name.
#[derive(Clone, Debug)]
pub(super) struct AddressPolicy {
    /// The server's own host, which is connected to anyway.
    own: String,
    reach: AddressReach,
    /// Whether the server uses plain HTTP; its authorization server may then do so too.
    clear: bool,
    proxies: Arc<[String]>,
}

impl AddressPolicy {
    pub(super) fn new(server: &Url) -> Self {
        let reach = ip_of(server).map_or(AddressReach::Public, reach_of);
        let proxies =
            ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
        let proxies = proxies.iter().filter_map(|name| {
            let proxy = std::env::var(name).ok()?;
            let proxy = if proxy.contains("://") { proxy } else { format!("http://{proxy}") };
            Url::parse(&proxy).ok()?.host_str().map(plain)
        });
        let own = server.host_str().map(plain).unwrap_or_default();
        Self { own, reach, clear: server.scheme() == "http", proxies: proxies.collect() }
    }

    /// Checks an address before it is requested or shown to the user.
    ///
    /// # Errors
    /// Why it is refused.
    pub(super) fn check(&self, url: &Url) -> Result<(), String> {
        let ip = ip_of(url);
        let local = ip.is_some_and(|ip| reach_of(ip) == AddressReach::Loopback);
        match url.scheme() {
            "https" => {}
            "http" if local || self.clear => {}
            "http" => return Err("it is not encrypted (http)".to_owned()),
            other => return Err(format!("`{other}:` is not a web address")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("it holds a user name, which hides its host".to_owned());
        }
        if let Some(flaw) = proxy_flaw(url) {
            return Err(flaw);
        }
        let own = url.host_str().map(plain).is_some_and(|host| host == self.own);
        match ip {
            Some(ip) if !own && !self.allows(ip) => Err(words(reach_of(ip)).to_owned()),
            _ => Ok(()),
        }
    }

    fn allows(&self, ip: IpAddr) -> bool {
        match reach_of(ip) {
            AddressReach::Public => true,
            AddressReach::Never => false,
            reach => reach == self.reach,
        }
    }
}

fn words(reach: AddressReach) -> &'static str {
    match reach {
        AddressReach::Loopback => "it is an address of this machine, and the server is not",
        AddressReach::Private => "it is a private address, and the server's is not",
        AddressReach::Public | AddressReach::Never => "it is a link-local or reserved address",
    }
}

impl Resolve for AddressPolicy {
    fn resolve(&self, name: Name) -> Resolving {
        let policy = self.clone();
        Box::pin(async move {
            let host = plain(name.as_str());
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            let free = host == policy.own || policy.proxies.contains(&host);
            let allowed: Vec<SocketAddr> =
                found.iter().copied().filter(|at| free || policy.allows(at.ip())).collect();
            if allowed.is_empty() {
                let why = found.first().map_or("it has no address", |at| words(reach_of(at.ip())));
                return Err(format!("no request is sent to `{host}`: {why}").into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

fn plain(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// The IP address that a URL names, by number or as `localhost`.
fn ip_of(url: &Url) -> Option<IpAddr> {
    match url.host()? {
        Host::Ipv4(ip) => Some(ip.into()),
        Host::Ipv6(ip) => Some(ip.into()),
        Host::Domain(_) => is_meant_as_loopback(url).then_some(Ipv4Addr::LOCALHOST.into()),
    }
}

fn reach_of(ip: IpAddr) -> AddressReach {
    match ip {
        IpAddr::V4(ip) => of_v4(ip),
        IpAddr::V6(ip) => of_v6(ip),
    }
}

fn of_v4(ip: Ipv4Addr) -> AddressReach {
    let [a, b, ..] = ip.octets();
    if ip.is_loopback() {
        AddressReach::Loopback
    } else if ip.is_private() || (a == 100 && (64..=127).contains(&b)) {
        AddressReach::Private
    } else if a == 0
        || ip.is_link_local()
        || ip.is_multicast()
        || a >= 240
        || (a == 198 && b & 0xfe == 18)
    {
        AddressReach::Never
    } else {
        AddressReach::Public
    }
}

fn of_v6(ip: Ipv6Addr) -> AddressReach {
    let parts = ip.segments();
    let embedded =
        |at: usize| of_v4(Ipv4Addr::from(u32::from(parts[at]) << 16 | u32::from(parts[at + 1])));
    match parts {
        _ if ip.is_loopback() => AddressReach::Loopback,
        _ if ip.is_unspecified() || ip.is_multicast() => AddressReach::Never,
        // Embedded IPv4: mapped, compatible, NAT64, 6to4.
        [0, 0, 0, 0, 0, 0xffff | 0, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => embedded(6),
        [0x2002, ..] => embedded(1),
        // Teredo and local NAT64 obscure the IPv4 address.
        [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..] => AddressReach::Never,
        [first, ..] if first & 0xffc0 == 0xfe80 => AddressReach::Never,
        [first, ..] if first & 0xfe00 == 0xfc00 => AddressReach::Private,
        _ => AddressReach::Public,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: &str, named: &str) -> Result<(), String> {
        let policy = AddressPolicy::new(&server.parse().expect("an address"));
        policy.check(&Url::parse(named).expect("an address"))
    }

    #[test]
    fn a_public_server_may_name_no_address_inside() {
        for named in [
            "https://169.254.169.254/latest/meta-data",
            "https://[::ffff:127.0.0.1]/",
            "https://0x7f.1/",
            "https://localhost./",
            "https://a.localhost/",
            "https://[64:ff9b::a9fe:a9fe]/",
            "https://[2002:7f00:1::]/",
            "https://[fe80::1]/",
            "https://10.0.0.9/",
            "https://100.64.0.1/",
            "https://0.0.0.0/",
            "http://auth.example/",
            "https://good.example@evil.example/",
            "javascript:alert(1)",
            "file:///etc/passwd",
        ] {
            assert!(check("https://mcp.example/mcp", named).is_err(), "{named}");
        }
        assert_eq!(check("https://mcp.example/mcp", "https://auth.example/"), Ok(()));
        assert_eq!(check("https://mcp.example/mcp", "https://93.184.216.34/"), Ok(()));
    }

    #[test]
    fn a_server_of_this_machine_may_name_this_machine_alone() {
        let server = "http://127.0.0.1:3000/mcp";
        assert_eq!(check(server, "http://localhost:9/x"), Ok(()));
        assert_eq!(check(server, "http://[::1]:9/x"), Ok(()));
        assert!(check(server, "http://10.0.0.1/").is_err());
        assert!(check(server, "http://169.254.169.254/").is_err());
        assert!(check("http://10.0.0.1/mcp", "http://127.0.0.1/").is_err());
        assert_eq!(check("http://10.0.0.1/mcp", "http://10.0.0.2/"), Ok(()));
    }

    #[tokio::test]
    async fn a_name_is_checked_where_it_is_resolved() {
        let policy = AddressPolicy::new(&"https://mcp.example".parse().expect("an address"));
        let resolved = policy.resolve("localhost".parse().expect("a name")).await;
        assert!(resolved.is_err_and(|error| error.to_string().contains("this machine")));
    }
}
