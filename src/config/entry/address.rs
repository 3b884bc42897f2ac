//! Servers reached by URL: the address, its headers, how to sign in there, certificates.

use std::collections::HashSet;

use indexmap::IndexMap;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::reader::EntryReader;
use crate::environment::clean_path;
use crate::hazards::is_clear_text;
use crate::keys::{OPENAPI_KEY, URLS};
use crate::syntax::SyntaxNode;
use crate::{
    HttpConfig, MAX_OPENAPI_BYTES, OAuthConfig, OAuthGrant, OpenApiConfig, OpenApiSource, Severity,
    TlsConfig, TokenExchange, TransportKind,
};
use base::Secret;
use base::address::is_loopback;

/// Reads the address, its headers, and how to sign in there. `None` without an address.
pub(crate) fn read(reader: &mut EntryReader<'_, '_>, kind: TransportKind) -> Option<HttpConfig> {
    let (headers, oauth, tls) = (headers(reader), oauth(reader), tls(reader));
    let url = written_address(reader, kind)?;
    Some(HttpConfig { url, headers, oauth: oauth.into(), tls })
}

/// The address of the entry, by whatever key. `None` without one, or when it cannot be used, which
/// is reported.
fn written_address(reader: &mut EntryReader<'_, '_>, kind: TransportKind) -> Option<Url> {
    let key = URLS.iter().find(|key| reader.entry.node.get(key).is_some())?;
    let url = address(reader.set.get("url")?.as_str()?, kind);
    let url = url.map_err(|(refused, help)| {
        reader.report(("config/url", Severity::Error), key, refused).help(help);
    });
    let url = url.ok()?;
    let has_headers = reader.entry.node.get("headers").is_some_and(|all| !all.members().is_empty());
    if is_clear_text(&url) && (has_headers || url.password().is_some()) {
        let message = "secrets would be sent without encryption";
        let rule = ("config/clear-text", Severity::Warning);
        reader.report(rule, key, message).help("use https");
    }
    Some(url)
}

/// Reads an HTTP API: its document, and the address that calls go to. `None` without one of them,
/// which is reported.
pub(crate) fn read_openapi(reader: &mut EntryReader<'_, '_>) -> Option<OpenApiConfig> {
    let (headers, oauth, tls) = (headers(reader), oauth(reader), tls(reader));
    let mut setting = reader.set.get(OPENAPI_KEY)?.clone();
    if setting.is_string() {
        setting = json!({ "document": setting });
    }
    let globs = |key: &str| {
        let list = setting[key].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>()
    };
    let (tags, operations) = (globs("tags"), globs("operations"));
    let document = document(setting["document"].as_str()?, reader)?;
    let has_url = URLS.iter().any(|key| reader.entry.node.get(key).is_some());
    let url = match &document {
        _ if has_url => written_address(reader, TransportKind::OpenApi)?,
        OpenApiSource::Address(url) => url.clone(),
        OpenApiSource::File { .. } => {
            let message = "`url` is missing: a file does not say which host is trusted with calls";
            reader
                .report(("config/missing-key", Severity::Error), OPENAPI_KEY, message)
                .help("write the address of the API, such as the one under `servers` in the file");
            return None;
        }
    };
    let http = HttpConfig { url, headers, oauth: oauth.into(), tls };
    Some(OpenApiConfig { http, finds_base: !has_url, document, tags, operations })
}

fn document(text: &str, reader: &mut EntryReader<'_, '_>) -> Option<OpenApiSource> {
    if text.contains("://") {
        let url = address(text, TransportKind::OpenApi).map_err(|(refused, help)| {
            reader.report(("config/url", Severity::Error), OPENAPI_KEY, refused).help(help);
        });
        return url.ok().map(OpenApiSource::Address);
    }
    let path = clean_path(&reader.folder.join(text));
    reader.reads.push(path.clone());
    match base::file::read(&path, MAX_OPENAPI_BYTES) {
        Ok(bytes) => {
            let hash = base::file::hex(&Sha256::digest(&bytes));
            Some(OpenApiSource::File { path, hash })
        }
        Err(error) => {
            let message = format!("the OpenAPI document cannot be read: {error}");
            reader
                .report(("config/openapi", Severity::Error), OPENAPI_KEY, message)
                .help(format!("looked for {}", path.display()));
            None
        }
    }
}

fn oauth(reader: &mut EntryReader<'_, '_>) -> OAuthConfig {
    let value = match reader.set.get("oauth").cloned() {
        None | Some(Value::Bool(true)) => return OAuthConfig::default(),
        Some(Value::Bool(false)) => return OAuthConfig { off: true, ..OAuthConfig::default() },
        Some(value) => value,
    };
    let mut out: OAuthConfig = reader.part(&value);
    for path in [
        out.assertion_file.as_mut(),
        out.identity_provider.as_mut().and_then(|provider| provider.id_token_file.as_mut()),
        out.exchange.as_mut().and_then(|exchange| exchange.actor_token_file.as_mut()),
    ]
    .into_iter()
    .flatten()
    {
        *path = reader.folder.join(&*path);
    }
    let has_assertion = out.assertion.is_some() || out.assertion_file.is_some();
    let inferred = if out.identity_provider.is_some() {
        OAuthGrant::IdentityProvider
    } else if has_assertion {
        OAuthGrant::JwtBearer
    } else if out.private_key.is_some() {
        OAuthGrant::ClientCredentials
    } else {
        OAuthGrant::AuthorizationCode
    };
    out.grant = value["grant"].as_str().and_then(OAuthGrant::from_word).unwrap_or(inferred);
    let wrong = contradictions(&out, has_assertion).into_iter();
    for (message, help) in wrong.chain(out.exchange.iter().flat_map(gaps)) {
        let found = reader.report(("config/missing-key", Severity::Error), "oauth", message);
        if !help.is_empty() {
            found.help(help);
        }
    }
    let wrong = out.redirect_uri.as_deref().and_then(|uri| redirect(uri, out.callback_port).err());
    if let Some(message) = wrong {
        let help = "write http://localhost:PORT/PATH as it is registered, or leave it out";
        reader.report(("config/value", Severity::Error), "oauth", message).help(help);
    }
    out
}

/// What keys of `oauth` miss, or do not go with its grant: each a message and its help.
fn contradictions(oauth: &OAuthConfig, has_assertion: bool) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let grant = oauth.grant;
    let is_client = matches!(grant, OAuthGrant::ClientCredentials | OAuthGrant::IdentityProvider);
    if oauth.client_id.is_none() && (is_client || oauth.client_secret.is_some()) {
        found.push(("`clientId` is missing: a secret or key is that of a client", ""));
    }
    if oauth.assertion.is_some() && oauth.assertion_file.is_some() {
        found.push(("`assertion` and `assertionFile` name two JWTs", "leave one of them out"));
    }
    match grant {
        OAuthGrant::JwtBearer if !has_assertion => found.push((
            "`grant` is \"jwt_bearer\", and there is no JWT",
            "name it as `assertionFile`, such as a projected service account token",
        )),
        OAuthGrant::JwtBearer => {}
        _ if has_assertion => found.push((
            "`assertion` goes with the grant \"jwt_bearer\"",
            "leave `grant` out, or `assertion`",
        )),
        _ => {}
    }
    match (&oauth.identity_provider, grant) {
        (None, OAuthGrant::IdentityProvider) => found.push((
            "`grant` is \"identity_provider\", and `identityProvider` is missing",
            "say its `tokenEndpoint`, `clientId` and `idTokenFile`",
        )),
        (Some(provider), OAuthGrant::IdentityProvider) => {
            if provider.token_endpoint.is_empty() || provider.client_id.is_empty() {
                found.push(("`identityProvider` needs `tokenEndpoint` and `clientId`", ""));
            }
            if provider.id_token.is_some() == provider.id_token_file.is_some() {
                found.push((
                    "`identityProvider` needs one of `idToken` and `idTokenFile`",
                    "a file is read anew for every token",
                ));
            }
            if !provider.token_endpoint.is_empty() && !is_secret_safe(&provider.token_endpoint) {
                found.push((
                    "`tokenEndpoint` of `identityProvider` must be an https:// address",
                    "an ID token is a secret",
                ));
            }
        }
        (Some(_), _) => found.push((
            "`identityProvider` goes with the grant \"identity_provider\"",
            "leave `grant` out, or `identityProvider`",
        )),
        (None, _) => {}
    }
    found
}

/// What an exchange of tokens misses: each a message and its help.
fn gaps(exchange: &TokenExchange) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    if exchange.token_endpoint.is_empty() || exchange.client_id.is_empty() {
        found.push((
            "`exchange` needs `tokenEndpoint` and `clientId`",
            "tokens of callers are sent nowhere else, whatever the server names",
        ));
    }
    if exchange.actor_token.is_some() && exchange.actor_token_file.is_some() {
        found.push(("`actorToken` and `actorTokenFile` name two JWTs", "leave one of them out"));
    }
    if !exchange.token_endpoint.is_empty() && !is_secret_safe(&exchange.token_endpoint) {
        found.push((
            "`tokenEndpoint` of `exchange` must be an https:// address",
            "the token of a caller is a secret",
        ));
    }
    if exchange.resource.as_ref().is_some_and(|text| Url::parse(text).is_err()) {
        found.push(("`resource` of `exchange` must be an address", "`audience` may be any name"));
    }
    found
}

/// Whether secrets may be sent to an address: over TLS, or within this machine.
fn is_secret_safe(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| url.scheme() == "https" || is_loopback(&url))
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
    let begun = text.split_once("://").filter(|(scheme, _)| schemes.contains(scheme));
    let place = begun.map_or(text, |(_, rest)| rest).split(['/', '?', '#']).next();
    let host = place.unwrap_or_default().rsplit('@').next().unwrap_or_default();
    let is_inside = schemes.iter().any(|scheme| text.contains(&format!("{scheme}://")));
    let help = if begun.is_none() && is_inside {
        "write the address alone: brackets and words around it are of the page it was copied from"
            .to_owned()
    } else if host.starts_with('[') && host.contains('%') {
        "an address cannot name a zone (`%eth0`): write one that needs none, or a name".to_owned()
    } else if !host.starts_with('[') && host.matches(':').count() > 1 {
        format!("an IPv6 address stands in brackets: {}://[::1]:8080/mcp", schemes[0])
    } else if begun.is_some() {
        format!("write {}://HOST:PORT/PATH", schemes[0])
    } else {
        format!("begin it with {}://", schemes.join(":// or "))
    };
    Err((refused, help))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Environment, Loaded, PrintDetail, TransportConfig, changed_settings, effective_text,
        load_text,
    };
    use std::path::Path;

    #[test]
    fn addresses_of_ipv6_are_read_and_their_usual_mistakes_answered() {
        let read = |text| address(text, TransportKind::Http);
        for (text, host) in [
            ("http://[::1]:8080/mcp", "[::1]"),
            ("https://[2001:DB8:0::1]/", "[2001:db8::1]"),
            ("http://[::ffff:127.0.0.1]/", "[::ffff:7f00:1]"),
        ] {
            let url = read(text).expect("an address");
            assert_eq!(url.host_str(), Some(host), "{text}");
        }
        for (text, help) in [
            ("http://::1:8080/mcp", "stands in brackets: http://[::1]:8080/mcp"),
            ("http://2001:db8::1/mcp", "stands in brackets"),
            ("http://[fe80::1%25eth0]:8080/mcp", "cannot name a zone"),
            ("[::1]:8080", "begin it with http:// or https://"),
            ("http://h:99999/", "write http://HOST:PORT/PATH"),
            ("<https://h/mcp>", "write the address alone"),
            ("[docs](https://h/mcp)", "write the address alone"),
            ("URL: https://h/mcp", "write the address alone"),
            ("ws://h/", "begin it with http:// or https://"),
        ] {
            let (_, said) = read(text).expect_err("no address");
            assert!(said.contains(help), "{text}: {said}");
        }
    }

    /// Loads one entry, in this folder.
    fn load(entry: &str) -> Result<Loaded, Vec<String>> {
        let env = Environment {
            cwd: Path::new(env!("CARGO_MANIFEST_DIR")).into(),
            ..Environment::default()
        };
        let text = format!(r#"{{"servers": {{"a": {entry}}}}}"#);
        let loaded = load_text(Path::new("mcp.json"), &text, &env);
        let problem = |found: &crate::Diagnostic| format!("{}: {}", found.rule, found.message);
        let loaded = loaded.map_err(|all| all.iter().map(problem).collect::<Vec<_>>())?;
        let errors: Vec<String> =
            loaded.diagnostics.iter().filter(|one| one.is_error()).map(problem).collect();
        if errors.is_empty() { Ok(loaded) } else { Err(errors) }
    }

    fn api(loaded: &Loaded) -> OpenApiConfig {
        match &loaded.config.servers["a"].transport {
            TransportConfig::OpenApi(api) => (**api).clone(),
            other => panic!("an API: {other:?}"),
        }
    }

    #[test]
    fn an_api_is_a_document_and_the_address_that_calls_go_to() {
        let remote =
            r#"{"openapi": "https://a.example/openapi.json", "headers": {"X-Plain": "k"}}"#;
        let api_of = |entry: &str| api(&load(entry).expect("usable"));
        let found = api_of(remote);
        assert!(found.finds_base && found.tags.is_empty());
        assert_eq!(found.http.url.as_str(), "https://a.example/openapi.json");
        let file = r#"{"openapi": {"document": "Cargo.toml", "tags": ["a*"], "operations": ["GET *"]},
            "url": "https://b.example/v1", "type": "openapi"}"#;
        let found = api_of(file);
        assert_eq!((found.http.url.as_str(), found.finds_base), ("https://b.example/v1", false));
        assert_eq!(
            (found.tags, found.operations),
            (vec!["a*".to_owned()], vec!["GET *".to_owned()])
        );
        let OpenApiSource::File { path, hash } = found.document else { panic!("a file") };
        assert!(path.ends_with("Cargo.toml") && hash.len() == 64);
        assert!(load(file).expect("usable").reads.contains(&path), "it is watched");
        for entry in [remote, file] {
            let first = load(entry).expect("usable");
            for detail in [PrintDetail::All, PrintDetail::Set] {
                let printed = effective_text(&first, detail);
                let env = Environment::default();
                let again = load_text(Path::new("mcp.json"), &printed, &env).expect("usable");
                let (one, other) = (&first.config.servers["a"], &again.config.servers["a"]);
                assert_eq!(changed_settings(one, other), [""; 0], "{printed}");
            }
        }
        let (one, other) = (load(remote).expect("usable"), load(file).expect("usable"));
        let changed = changed_settings(&one.config.servers["a"], &other.config.servers["a"]);
        assert_eq!(changed, ["openapi", "url", "headers.X-Plain"]);
    }

    #[test]
    fn an_api_that_cannot_be_used_is_told() {
        for (entry, rule) in [
            (r#"{"openapi": "Cargo.toml"}"#, "config/missing-key: `url` is missing"),
            (r#"{"openapi": "nowhere.yaml", "url": "https://a.example"}"#, "config/openapi"),
            (r#"{"openapi": "ftp://a.example/o.json"}"#, "config/url"),
            (r#"{"openapi": "https://a.example/o.json", "command": "x"}"#, "config/transport"),
            (r#"{"type": "openapi", "url": "https://a.example"}"#, "config/missing-key"),
            (r#"{"openapi": {"tags": ["a"]}}"#, "config/"),
            (r#"{"openapi": {"document": "https://a.example/o", "tags": ["["]}}"#, "config/glob"),
        ] {
            let problems = load(entry).expect_err("refused");
            assert!(problems.iter().any(|one| one.starts_with(rule)), "{entry}: {problems:?}");
        }
        let unused = load(r#"{"type": "http", "url": "https://a.example", "openapi": "o.json"}"#);
        let unused = unused.expect("usable").diagnostics;
        assert!(unused.iter().any(|one| one.rule == "config/unused-key"), "{unused:?}");
    }
}
