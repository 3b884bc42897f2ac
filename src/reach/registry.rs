//! A registry of MCP servers over its published API (`/v0.1/servers`): search, one version of a
//! server, and the bundles it names. Redirects of the registry are not followed, and every answer has
//! a limit.

use std::time::Duration;

use serde_json::Value;
use sha2::{Digest, Sha256};
use url::Url;

use crate::ReachError;
use crate::server_json::{PublishedBundle, PublishedServer};
use base::address::is_loopback;
use base::file::hex;
use base::{Redactor, SafeText};
use config::TlsConfig;
use mcp::{client_builder, unreachable_reason};

/// Largest answer of a registry, in bytes.
const MAX_ANSWER_BYTES: usize = 4 << 20;
/// Largest bundle that is downloaded, in bytes.
const MAX_BUNDLE_BYTES: usize = 256 << 20;
/// Most pages of one search.
const MAX_PAGES: usize = 10;
/// Elements of one page.
const PAGE_SIZE: usize = 100;
/// Longest cursor that is sent back, in bytes.
const MAX_CURSOR_BYTES: usize = 4 << 10;
/// Most reasons why entries were left out.
const MAX_REFUSED: usize = 20;
/// How long one request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
/// How long the download of a bundle may take.
const BUNDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// A registry of servers.
#[derive(Clone, Debug)]
pub struct Registry {
    base: Url,
    http: reqwest::Client,
}

/// What a search found.
#[derive(Clone, Debug, Default)]
pub struct SearchResult {
    /// The servers in the registry's order, each in its newest version.
    pub servers: Vec<PublishedServer>,
    /// Entries that cannot be used, with the reason.
    pub refused: Vec<SafeText>,
    /// Whether the registry has more.
    pub is_cut: bool,
}

impl Registry {
    /// The registry at an address, without the version of its API.
    ///
    /// # Errors
    /// When the address is neither encrypted nor on this machine, or has a user name in it.
    pub fn new(base: Url) -> Result<Self, ReachError> {
        let is_safe = match base.scheme() {
            "https" => true,
            "http" => is_loopback(&base),
            _ => false,
        };
        if !is_safe {
            return Err(ReachError(format!("the registry {base} is not reached over https")));
        }
        if !base.username().is_empty() || base.password().is_some() {
            return Err(ReachError("the address of the registry has a user name in it".to_owned()));
        }
        let http = client_builder(&base, &TlsConfig::default())
            .map_err(ReachError)?
            // What another place answers is not the registry's.
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .map_err(|error| ReachError(error.to_string()))?;
        Ok(Self { base, http })
    }

    /// Its address.
    pub const fn address(&self) -> &Url {
        &self.base
    }

    /// At most `most` servers whose name or description has all these words, each in its newest
    /// version.
    ///
    /// # Errors
    /// When the registry cannot be reached, or its answer is not one of a registry.
    pub async fn search(&self, words: &[String], most: usize) -> Result<SearchResult, ReachError> {
        let mut found = SearchResult::default();
        let wanted: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
        // Registries look for one text in the name: the longest word says most.
        let text = wanted.iter().max_by_key(|word| word.len()).map_or("", String::as_str);
        let mut cursor: Option<String> = None;
        for _ in 0..MAX_PAGES {
            let mut url = self.path(&["servers"])?;
            url.query_pairs_mut()
                .append_pair("search", text)
                .append_pair("version", "latest")
                .append_pair("limit", &PAGE_SIZE.to_string());
            if let Some(cursor) = &cursor {
                url.query_pairs_mut().append_pair("cursor", cursor);
            }
            let answer = self.get(&url).await?;
            let list = answer.get("servers").and_then(Value::as_array);
            let list = list.ok_or_else(|| unlike(&url, &"`servers` is missing, or not a list"))?;
            for element in list {
                if !found.take(element, &wanted, most) {
                    return Ok(found);
                }
            }
            let next = answer.pointer("/metadata/nextCursor").and_then(Value::as_str);
            let next = next.filter(|next| !next.is_empty() && next.len() <= MAX_CURSOR_BYTES);
            if next.is_none() || next == cursor.as_deref() {
                return Ok(found);
            }
            cursor = next.map(str::to_owned);
        }
        found.is_cut = true;
        Ok(found)
    }

    /// A server by its whole name, in its newest version or in this one.
    ///
    /// # Errors
    /// When the registry has none, answers with another, or its entry cannot be used.
    pub async fn server(
        &self,
        name: &str,
        version: Option<&str>,
    ) -> Result<PublishedServer, ReachError> {
        let url = self.path(&["servers", name, "versions", version.unwrap_or("latest")])?;
        let answer = self.get(&url).await?;
        let shown = SafeText::cut(name, 200);
        let server = PublishedServer::parse(&answer)
            .map_err(|why| ReachError(format!("the entry of `{shown}` cannot be used: {why}")))?;
        if server.name != name || version.is_some_and(|version| version != server.version) {
            return Err(ReachError(format!(
                "the registry was asked for `{shown}` and answers with `{}` {}",
                server.name, server.version
            )));
        }
        Ok(server)
    }

    /// Downloads a bundle and verifies its digest.
    ///
    /// # Errors
    /// When it cannot be had, is too large, or is not the one that the registry names.
    pub async fn bundle(&self, bundle: &PublishedBundle) -> Result<Vec<u8>, ReachError> {
        // Releases are served through redirects; the digest decides what is taken.
        let http = client_builder(&bundle.url, &TlsConfig::default())
            .map_err(ReachError)?
            .https_only(bundle.url.scheme() == "https")
            .build()
            .map_err(|error| ReachError(error.to_string()))?;
        let request = http.get(bundle.url.clone()).timeout(BUNDLE_TIMEOUT);
        let bytes = body(request, MAX_BUNDLE_BYTES, &bundle.url).await?;
        let found = hex(&Sha256::digest(&bytes));
        if found == bundle.sha256 {
            return Ok(bytes);
        }
        Err(ReachError(format!(
            "{}: this is not the bundle that the registry names: its SHA-256 is {found}, and {} is \
             expected",
            bundle.url, bundle.sha256
        )))
    }

    fn path(&self, parts: &[&str]) -> Result<Url, ReachError> {
        let mut url = self.base.clone();
        url.path_segments_mut()
            .map_err(|()| ReachError(format!("{} cannot have a path", self.base)))?
            .pop_if_empty()
            .push("v0.1")
            .extend(parts);
        Ok(url)
    }

    async fn get(&self, url: &Url) -> Result<Value, ReachError> {
        let request = self.http.get(url.clone()).header("Accept", "application/json");
        let bytes = body(request.timeout(REQUEST_TIMEOUT), MAX_ANSWER_BYTES, url).await?;
        serde_json::from_slice(&bytes).map_err(|error| unlike(url, &error))
    }
}

impl SearchResult {
    /// Takes one element of an answer, if it has all the words. Whether there is room for more.
    fn take(&mut self, element: &Value, wanted: &[String], most: usize) -> bool {
        let latest = "/_meta/io.modelcontextprotocol.registry~1official/isLatest";
        if element.pointer(latest) == Some(&Value::Bool(false)) {
            return true;
        }
        let server = match PublishedServer::parse(element) {
            Ok(server) => server,
            Err(why) => {
                let name = element.pointer("/server/name").or_else(|| element.get("name"));
                let name = name.and_then(Value::as_str).unwrap_or("an entry without a name");
                if self.refused.len() < MAX_REFUSED {
                    self.refused.push(SafeText::cut(&format!("{name:.80}: {why}"), 300));
                }
                return true;
            }
        };
        let text = format!("{} {}", server.name, server.description).to_lowercase();
        if wanted.iter().all(|word| text.contains(word))
            && self.servers.iter().all(|known| known.name != server.name)
        {
            if self.servers.len() >= most {
                self.is_cut = true;
                return false;
            }
            self.servers.push(server);
        }
        true
    }
}

fn unlike(url: &Url, why: &dyn std::fmt::Display) -> ReachError {
    ReachError(format!("{url}: the answer is not that of a registry of MCP servers: {why}"))
}

/// The body of a successful answer, up to a limit.
/// The body of a successful answer of at most so many bytes.
///
/// # Errors
/// The address, and why there is none.
pub(crate) async fn body(
    request: reqwest::RequestBuilder,
    most: usize,
    url: &Url,
) -> Result<Vec<u8>, ReachError> {
    let failed = |error: reqwest::Error| {
        ReachError(format!("{url}: {}", unreachable_reason(&error, &Redactor::default())))
    };
    let mut response = request.send().await.map_err(failed)?;
    let status = response.status();
    if status.is_redirection() {
        let why = "it leads to another address, which is not followed";
        return Err(ReachError(format!("{url}: {why} ({})", status.as_u16())));
    }
    if status == reqwest::StatusCode::NOT_FOUND {
        return Err(ReachError(format!("{url}: there is no such server or version (404)")));
    }
    if !status.is_success() {
        return Err(ReachError(format!("{url}: the answer is {status}")));
    }
    // Some servers answer every GET with one, and it never ends.
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok());
    if kind.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return Err(ReachError(format!("{url}: it answers with a stream of events")));
    }
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(failed)? {
        if bytes.len() + chunk.len() > most {
            return Err(ReachError(format!("{url}: the answer is larger than {most} bytes")));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}
