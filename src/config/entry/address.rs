//! Servers reached by URL: the address, its headers, how to sign in there, certificates.

use std::collections::HashSet;

use indexmap::IndexMap;
use url::Url;

use super::reader::{Entry, Reader};
use crate::base::Secret;
use crate::config::diagnostics::child;
use crate::config::hazards::is_clear_text;
use crate::config::keys::URLS;
use crate::config::syntax::Node;
use crate::config::{HttpConfig, OAuthConfig, TlsConfig, TransportKind};

/// Reads the address, its headers, and how to sign in there. `None` when they cannot be used.
pub(crate) fn read(
    entry: &Entry<'_>,
    reader: &mut Reader<'_, '_>,
    kind: TransportKind,
) -> Option<HttpConfig> {
    let key = URLS.iter().find(|key| entry.node.get(key).is_some())?;
    let node = entry.node.get(key)?;
    let pointer = child(&entry.pointer, key);
    let text = reader.expanded(node, &pointer, &child(&entry.effective, "url"));
    let url = text.and_then(|text| address(&text, node, &pointer, (reader, kind)));
    let headers = headers(entry, reader);
    if let (Some(url), Some(headers)) = (&url, &headers)
        && is_clear_text(url)
        && (!headers.is_empty() || url.password().is_some())
    {
        let message = "secrets would be sent without encryption";
        reader.problems.warn("config/clear-text", &node.range, &pointer, message).help("use https");
    }
    let (oauth, tls) = (oauth(entry, reader), tls(entry, reader));
    Some(HttpConfig { url: url?, headers: headers?, oauth: oauth?, tls: tls? })
}

/// `oauth`. `None` when a value cannot be used.
fn oauth(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<OAuthConfig> {
    let mut out = OAuthConfig::default();
    if reader.flag(entry, "oauth") == Some(false) {
        out.off = true;
    }
    let Some(of) = entry.inner("oauth") else { return Some(out) };
    let mut sound = true;
    let mut text = |key: &str| match of.node.get(key) {
        Some(_) => {
            let text = reader.text(&of, key);
            sound &= text.is_some();
            text
        }
        None => None,
    };
    out.client_id = text("clientId");
    out.client_secret = text("clientSecret").map(Secret::new);
    out.client_metadata_url = text("clientMetadataUrl");
    out.private_key = text("privateKey").map(Secret::new);
    if of.node.get("scopes").is_some() {
        out.scopes = reader.texts(&of, "scopes")?;
    }
    out.callback_port = reader.integer(&of, "callbackPort").and_then(|p| u16::try_from(p).ok());
    out.machine =
        reader.word(&of, "grant") == Some("client_credentials") || out.private_key.is_some();
    if out.client_id.is_none() && (out.machine || out.client_secret.is_some()) {
        let message = "`clientId` is missing: a secret or key is that of a client";
        reader.problems.error("config/missing-key", &of.node.range, &of.pointer, message);
        return None;
    }
    sound.then_some(out)
}

/// `tls`. `None` when a value cannot be used.
fn tls(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<TlsConfig> {
    let Some(of) = entry.inner("tls") else { return Some(TlsConfig::default()) };
    let folder = reader.folder.clone();
    let mut sound = true;
    let mut file = |key: &str| {
        of.node.get(key)?;
        let path = reader.text(&of, key).map(|path| folder.join(path));
        sound &= path.is_some();
        path
    };
    let tls = TlsConfig { ca: file("ca"), cert: file("cert"), key: file("key") };
    if tls.cert.is_some() != tls.key.is_some() {
        let message = "`cert` and `key` belong together";
        reader.problems.error("config/missing-key", &of.node.range, &of.pointer, message);
        return None;
    }
    sound.then_some(tls)
}

fn address(
    text: &str,
    node: &Node,
    pointer: &str,
    (reader, kind): (&mut Reader<'_, '_>, TransportKind),
) -> Option<Url> {
    let schemes: &[&str] = match kind {
        TransportKind::WebSocket => &["ws", "wss"],
        _ => &["http", "https"],
    };
    let wanted = schemes.join("://, ");
    let refused = match Url::parse(text) {
        Ok(url) if !schemes.contains(&url.scheme()) => {
            format!("`{}:` is not a scheme for a server of type `{}`", url.scheme(), kind.as_str())
        }
        Ok(url) if url.host_str().is_none_or(str::is_empty) => "the address has no host".to_owned(),
        Ok(url) => return Some(url),
        Err(error) => format!("this is not an address: {error}"),
    };
    reader
        .problems
        .error("config/url", &node.range, pointer, refused)
        .help(format!("it starts with {wanted}://"));
    None
}

fn headers(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<IndexMap<String, Secret>> {
    let mut headers: IndexMap<String, Secret> = IndexMap::new();
    let mut sound = true;
    let mut known = HashSet::new();
    let pointer = child(&entry.pointer, "headers");
    let effective = child(&entry.effective, "headers");
    for m in entry.node.get("headers").map(Node::members).unwrap_or_default() {
        let at = child(&pointer, &m.key);
        let wrong = match http::HeaderName::from_bytes(m.key.as_bytes()) {
            Err(_) => format!("`{}` is not the name of a header", m.key.escape_debug()),
            Ok(name) if HttpConfig::OWN_HEADERS.contains(&name.as_str()) => {
                format!("`{}` is set by the client itself", m.key)
            }
            Ok(_) if !known.insert(m.key.to_ascii_lowercase()) => {
                format!("the header `{}` is given twice", m.key)
            }
            Ok(_) => String::new(),
        };
        if !wrong.is_empty() {
            reader.problems.error("config/header", &m.key_range, &at, wrong);
            sound = false;
            continue;
        }
        match reader.expanded(&m.value, &at, &child(&effective, &m.key)) {
            Some(value) if http::HeaderValue::from_str(&value).is_err() => {
                let message = format!("the value of `{}` holds characters no header may", m.key);
                reader
                    .problems
                    .error("config/header", &m.value.range, &at, message)
                    .help("line breaks and control characters are not allowed");
                sound = false;
            }
            Some(value) => {
                headers.insert(m.key.clone(), Secret::new(value));
            }
            None => sound = false,
        }
    }
    sound.then_some(headers)
}
