//! Servers reached by URL: the address, its headers, how to sign in there, certificates.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::Value;
use url::Url;

use super::reader::EntryReader;
use crate::hazards::is_clear_text;
use crate::keys::URLS;
use crate::syntax::SyntaxNode;
use crate::{HttpConfig, OAuthConfig, Severity, TlsConfig, TransportKind};
use base::Secret;
use base::address::is_loopback;

/// Reads the address, its headers, and how to sign in there. `None` without an address.
pub(crate) fn read(reader: &mut EntryReader<'_, '_>, kind: TransportKind) -> Option<HttpConfig> {
    let (headers, oauth, tls) = (headers(reader), oauth(reader), tls(reader));
    let key = URLS.iter().find(|key| reader.entry.node.get(key).is_some())?;
    let url = address(reader.set.get("url")?.as_str()?, kind);
    let url = url.map_err(|(refused, help)| {
        reader.report(("config/url", Severity::Error), key, refused).help(help);
    });
    let url = url.ok()?;
    if is_clear_text(&url) && (!headers.is_empty() || url.password().is_some()) {
        let message = "secrets would be sent without encryption";
        let rule = ("config/clear-text", Severity::Warning);
        reader.report(rule, key, message).help("use https");
    }
    Some(HttpConfig { url, headers, oauth, tls })
}

fn oauth(reader: &mut EntryReader<'_, '_>) -> OAuthConfig {
    let value = match reader.set.get("oauth").cloned() {
        None | Some(Value::Bool(true)) => return OAuthConfig::default(),
        Some(Value::Bool(false)) => return OAuthConfig { off: true, ..OAuthConfig::default() },
        Some(value) => value,
    };
    let mut out: OAuthConfig = reader.part(&value);
    out.machine = value["grant"] == "client_credentials" || out.private_key.is_some();
    if out.client_id.is_none() && (out.machine || out.client_secret.is_some()) {
        let message = "`clientId` is missing: a secret or key is that of a client";
        reader.report(("config/missing-key", Severity::Error), "oauth", message);
    }
    let wrong = out.redirect_uri.as_deref().and_then(|uri| redirect(uri, out.callback_port).err());
    if let Some(message) = wrong {
        let help = "write http://localhost:PORT/PATH as it is registered, or leave it out";
        reader.report(("config/value", Severity::Error), "oauth", message).help(help);
    }
    out
}

/// Checks where the browser is sent back to: to this machine alone, and where it is listened.
fn redirect(text: &str, port: Option<u16>) -> Result<(), String> {
    let url = Url::parse(text).map_err(|error| format!("`redirectUri` is no address: {error}"))?;
    if url.scheme() != "http" || !is_loopback(&url) {
        return Err("`redirectUri` must be http:// and an address of this machine".to_owned());
    }
    if !url.username().is_empty() || url.query().is_some() || url.fragment().is_some() {
        return Err("`redirectUri` is a host, a port and a path".to_owned());
    }
    if url.port().is_some_and(|own| port.is_some_and(|port| port != own)) {
        return Err("`redirectUri` and `callbackPort` name two ports".to_owned());
    }
    Ok(())
}

fn tls(reader: &mut EntryReader<'_, '_>) -> TlsConfig {
    let Some(value) = reader.set.get("tls").cloned() else { return TlsConfig::default() };
    let mut tls: TlsConfig = reader.part(&value);
    for path in [&mut tls.ca, &mut tls.cert, &mut tls.key].into_iter().flatten() {
        *path = reader.folder.join(&*path);
    }
    if tls.cert.is_some() != tls.key.is_some() {
        let message = "`cert` and `key` belong together";
        reader.report(("config/missing-key", Severity::Error), "tls", message);
    }
    tls
}

/// Parses the address for this kind of transport; the error is a message and its help.
fn address(text: &str, kind: TransportKind) -> Result<Url, (String, String)> {
    let schemes: &[&str] = match kind {
        TransportKind::WebSocket => &["ws", "wss"],
        _ => &["http", "https"],
    };
    let refused = match Url::parse(text) {
        Ok(url) if !schemes.contains(&url.scheme()) => {
            format!("`{}:` is not a scheme for a server of type `{}`", url.scheme(), kind.as_str())
        }
        Ok(url) if url.host_str().is_none_or(str::is_empty) => "the address has no host".to_owned(),
        Ok(url) => return Ok(url),
        Err(error) => format!("this is not an address: {error}"),
    };
    Err((refused, format!("begin it with {}://", schemes.join(":// or "))))
}

fn headers(reader: &mut EntryReader<'_, '_>) -> IndexMap<String, Secret> {
    let mut headers: IndexMap<String, Secret> = IndexMap::new();
    let mut known = HashSet::new();
    let place = reader.entry.place().child("headers");
    for m in reader.entry.node.get("headers").map(SyntaxNode::members).unwrap_or_default() {
        let place = place.child(&m.key);
        let wrong = match http::HeaderName::from_bytes(m.key.as_bytes()) {
            Err(_) => format!("`{}` is not the name of a header", m.key.escape_debug()),
            Ok(name) if HttpConfig::OWN_HEADERS.contains(&name.as_str()) => {
                format!("`{}` is set by the client itself", m.key)
            }
            Ok(_) if !known.insert(m.key.to_ascii_lowercase()) => {
                format!("the header `{}` is given twice", m.key)
            }
            Ok(_) => {
                let Some(value) = reader.expanded(&m.value, &place) else { continue };
                if http::HeaderValue::from_str(&value).is_err() {
                    let message =
                        format!("the value of `{}` holds characters no header may", m.key);
                    reader
                        .problems
                        .error("config/header", &m.value.range, &place.pointer, message)
                        .help("line breaks and control characters are not allowed");
                }
                headers.insert(m.key.clone(), Secret::new(value));
                continue;
            }
        };
        reader.problems.error("config/header", &m.key_range, &place.pointer, wrong);
    }
    headers
}
