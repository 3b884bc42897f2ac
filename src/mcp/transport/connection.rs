//! How a server is connected to over HTTP: TLS with rustls and ring, its certificates, proxies of
//! the environment (`HTTPS_PROXY`, `NO_PROXY`).

use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use reqwest::{Certificate, ClientBuilder, Identity};
use url::{Host, Url};

use crate::base::secret::Redactor;
use crate::base::text::SafeText;
use crate::config::TlsConfig;

/// The settings every HTTP client of one server shares. Follows redirects as reqwest does; whoever
/// sends secrets says otherwise.
///
/// # Errors
/// Names the file of `tls` that cannot be used.
pub(crate) fn builder(url: &Url, tls: &TlsConfig) -> Result<ClientBuilder, String> {
    provide();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("mcpdeck/", env!("CARGO_PKG_VERSION")))
        .tcp_nodelay(true);
    if is_local(url) {
        // Servers of node and Python close what is idle for 5 s.
        builder = builder.pool_idle_timeout(Duration::from_secs(4)).no_proxy();
    }
    if let Some(path) = &tls.ca {
        let found = Certificate::from_pem_bundle(&read(path)?);
        let certificates = found.map_err(|error| unusable(path, &error.to_string()))?;
        if certificates.is_empty() {
            return Err(unusable(path, "it holds no certificate in PEM"));
        }
        builder = builder.tls_certs_merge(certificates);
    }
    if let (Some(cert), Some(key)) = (&tls.cert, &tls.key) {
        let pem = [read(key)?, b"\n".to_vec(), read(cert)?].concat();
        let identity = Identity::from_pem(&pem);
        builder = builder.identity(identity.map_err(|error| unusable(cert, &error.to_string()))?);
    }
    Ok(builder)
}

/// Names the library that encrypts, once in the life of the program.
pub(crate) fn provide() {
    static PROVIDER: Once = Once::new();
    PROVIDER.call_once(|| {
        // Fails only when the application installed one before: then that one is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}

/// Why a request was not answered: the innermost cause, which is the one that helps.
pub(crate) fn unreachable(error: &reqwest::Error, redactor: &Redactor) -> String {
    // reqwest's own words stop at "error sending request".
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let what = if error.is_connect() {
        "cannot connect"
    } else if error.is_redirect() {
        "not followed"
    } else if error.is_timeout() {
        "timed out"
    } else {
        "the request failed"
    };
    let cause = cause.to_string();
    let text = match super::http::tls::explain(&cause) {
        Some(told) => format!("{what}: {told} ({cause})"),
        None => format!("{what}: {cause}"),
    };
    SafeText::line(&redactor.redact(&text)).to_string()
}

/// Whether a server runs on this machine, as far as its address tells.
pub(crate) fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Reads a file that `tls` names.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    crate::base::file::read(path, 1 << 20).map_err(|error| unusable(path, &error.to_string()))
}

fn unusable(path: &Path, why: &str) -> String {
    format!("the file {} of `tls` cannot be used: {why}", path.display())
}
