//! A document: its version, its servers, and the operations that are offered.

use std::collections::HashSet;

use globset::{Glob, GlobSet, GlobSetBuilder};
use http::Method;
use serde_json::Value;
use url::Url;

use crate::operation::{ApiOperation, EntryParts, OperationPlace};
use crate::schemas::resolve;

/// Most sub-schemas of all tools of a document together; operations beyond are left out.
const MAX_DOCUMENT_SUBSCHEMAS: usize = 500_000;
/// Most characters of the description that is passed on as instructions.
const MAX_INSTRUCTIONS_CHARS: usize = 2_000;

const METHODS: [(&str, Method); 7] = [
    ("get", Method::GET),
    ("put", Method::PUT),
    ("post", Method::POST),
    ("delete", Method::DELETE),
    ("options", Method::OPTIONS),
    ("head", Method::HEAD),
    ("patch", Method::PATCH),
];

/// Why a document cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiDocumentError {
    /// It is no `OpenAPI` document.
    #[error("this is no OpenAPI document: it has no `openapi` with its version")]
    NoDocument,
    /// It is one of another version.
    #[error("this is a document of {0}; versions 3.0 to 3.2 are read")]
    Version(String),
    /// It names no server where it comes from.
    #[error(
        "the document names {servers} as its server, and comes from {origin}: put the address that \
         calls shall go to into `url` of the entry"
    )]
    OtherHost {
        /// The servers it names.
        servers: String,
        /// Where it comes from.
        origin: String,
    },
    /// A glob of the filter is none.
    #[error("`{0}` is not a glob")]
    Glob(String),
}

/// Which operations of a document are offered.
#[derive(Clone, Debug, Default)]
pub struct ApiFilter {
    tags: Option<GlobSet>,
    operations: Option<GlobSet>,
}

impl ApiFilter {
    /// A filter by globs: one of the tags must match one of `tags`, and `operationId` or `METHOD
    /// /path` one of `operations`. An empty list lets all through.
    ///
    /// # Errors
    /// [`ApiDocumentError::Glob`].
    pub fn new(tags: &[String], operations: &[String]) -> Result<Self, ApiDocumentError> {
        let set = |globs: &[String]| {
            if globs.is_empty() {
                return Ok(None);
            }
            let mut set = GlobSetBuilder::new();
            for glob in globs {
                let bad = |_| ApiDocumentError::Glob(glob.clone());
                set.add(Glob::new(glob).map_err(bad)?);
            }
            set.build().map(Some).map_err(|_| ApiDocumentError::Glob(globs.join(" ")))
        };
        Ok(Self { tags: set(tags)?, operations: set(operations)? })
    }

    fn lets_through(&self, place: &OperationPlace<'_>) -> bool {
        let by_tag = self.tags.as_ref().is_none_or(|set| place.tags().any(|tag| set.is_match(tag)));
        let label = place.label();
        let names = || place.id().into_iter().chain([label.as_str()]);
        by_tag && self.operations.as_ref().is_none_or(|set| names().any(|name| set.is_match(name)))
    }
}

/// The operations that a document offers.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct ApiOperations {
    /// Those that are offered, in the order of the document.
    pub offered: Vec<ApiOperation>,
    /// Those that cannot be, as `METHOD /path`, with the reason.
    pub left_out: Vec<(String, String)>,
}

/// A document that was read.
#[derive(Debug)]
pub struct ApiDocument {
    root: Value,
    is_older: bool,
}

impl ApiDocument {
    /// Takes a document that was parsed.
    ///
    /// # Errors
    /// [`ApiDocumentError::NoDocument`] and [`ApiDocumentError::Version`].
    pub fn new(root: Value) -> Result<Self, ApiDocumentError> {
        let version = root.get("openapi").and_then(Value::as_str);
        let Some(version) = version else {
            let older = root.get("swagger").and_then(Value::as_str);
            return Err(older.map_or(ApiDocumentError::NoDocument, |version| {
                ApiDocumentError::Version(format!("Swagger {}", shown(version)))
            }));
        };
        let is_older = version.starts_with("3.0");
        if !is_older && !version.starts_with("3.1") && !version.starts_with("3.2") {
            return Err(ApiDocumentError::Version(format!("OpenAPI {}", shown(version))));
        }
        Ok(Self { root, is_older })
    }

    pub(crate) const fn root(&self) -> &Value {
        &self.root
    }

    /// Whether it is of 3.0.
    pub(crate) const fn is_older(&self) -> bool {
        self.is_older
    }

    fn info(&self, key: &str) -> Option<&str> {
        self.root.get("info")?.get(key)?.as_str()
    }

    /// Title and version of the API.
    pub fn title(&self) -> (&str, &str) {
        (self.info("title").unwrap_or("API"), self.info("version").unwrap_or_default())
    }

    /// What the API says of itself, cut.
    pub fn instructions(&self) -> Option<String> {
        let text = self.info("description").or_else(|| self.info("summary"))?.trim();
        (!text.is_empty()).then(|| text.chars().take(MAX_INSTRUCTIONS_CHARS).collect())
    }

    /// The address of its first server that is where the document comes from (3.1, Server Object);
    /// its variables have their defaults.
    ///
    /// # Errors
    /// [`ApiDocumentError::OtherHost`]: a document does not decide which hosts are reached.
    pub fn base(&self, document: &Url) -> Result<Url, ApiDocumentError> {
        let servers = server_addresses(&self.root);
        if servers.is_empty() {
            return Ok(document.join("/").unwrap_or_else(|_| document.clone()));
        }
        let found = servers.iter().filter_map(|server| document.join(server).ok());
        let mut here = found.filter(|url| url.origin() == document.origin());
        here.next().ok_or_else(|| ApiDocumentError::OtherHost {
            servers: servers.iter().map(|server| shown(server)).collect::<Vec<_>>().join(", "),
            origin: document.origin().ascii_serialization(),
        })
    }

    /// Its operations below `base`, each with a tool of its own name.
    pub fn operations(&self, base: &Url, filter: &ApiFilter, entry: &EntryParts) -> ApiOperations {
        let mut out = ApiOperations::default();
        let mut names = HashSet::new();
        let mut subschemas = 0;
        let paths = self.root.get("paths").and_then(Value::as_object);
        for (template, item) in paths.into_iter().flatten() {
            let Some(item) = resolve(&self.root, item) else {
                out.left_out
                    .push((template.clone(), "its path item is not in the document".into()));
                continue;
            };
            for (word, method) in &METHODS {
                let Some(object) = item.get(*word).filter(|object| object.is_object()) else {
                    continue;
                };
                let place = OperationPlace { method: method.clone(), template, item, object };
                if !filter.lets_through(&place) {
                    continue;
                }
                let read = if subschemas > MAX_DOCUMENT_SUBSCHEMAS {
                    Err("the document holds more schemas than are read".to_owned())
                } else {
                    operation_base(&place, base).and_then(|base| {
                        let name = tool_name(&place, &mut names);
                        ApiOperation::read(self, &place, (base, name), entry)
                    })
                };
                match read {
                    Ok((operation, count)) => {
                        subschemas += count;
                        out.offered.push(operation);
                    }
                    Err(reason) => out.left_out.push((place.label(), reason)),
                }
            }
        }
        out
    }
}

/// A text of the document in a message, cut.
fn shown(text: &str) -> String {
    const MAX_TEXT_CHARS: usize = 100;
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT_CHARS).collect()
}

/// The addresses of the servers of an object, variables replaced by their defaults.
fn server_addresses(object: &Value) -> Vec<String> {
    let servers = object.get("servers").and_then(Value::as_array);
    let servers = servers.into_iter().flatten().filter_map(|server| {
        let mut url = server.get("url")?.as_str()?.to_owned();
        for (name, variable) in
            server.get("variables").and_then(Value::as_object).into_iter().flatten()
        {
            if let Some(value) = variable.get("default").and_then(Value::as_str) {
                url = url.replace(&format!("{{{name}}}"), value);
            }
        }
        Some(url)
    });
    servers.collect()
}

/// The base of an operation: that of the document, unless it names servers of its own, which must
/// be on the same host.
fn operation_base(place: &OperationPlace<'_>, base: &Url) -> Result<Url, String> {
    let own = [place.object, place.item].into_iter().map(server_addresses);
    let Some(servers) = own.into_iter().find(|servers| !servers.is_empty()) else {
        return Ok(base.clone());
    };
    let found = servers.iter().filter_map(|server| base.join(server).ok());
    let mut here = found.filter(|url| url.origin() == base.origin());
    let Some(mut url) = here.next() else {
        return Err(format!("its server is another host: {}", shown(&servers.join(", "))));
    };
    url.set_query(base.query());
    url.set_fragment(None);
    let _ = url.set_username(base.username()).and_then(|()| url.set_password(base.password()));
    Ok(url)
}

/// The name of the tool of an operation: its `operationId`, or one made of method and path, in the
/// letters that names of tools have (MCP 2025-11-25, tools, tool names).
fn tool_name(place: &OperationPlace<'_>, taken: &mut HashSet<String>) -> String {
    const MAX_NAME_CHARS: usize = 64;
    let made = || format!("{}{}", place.method.as_str().to_lowercase(), place.template);
    let written = place.id().map_or_else(made, str::to_owned);
    let mut name = String::new();
    for c in written.chars() {
        let c = if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
        if name.len() < MAX_NAME_CHARS - 4 && !(c == '_' && name.ends_with('_')) {
            name.push(c);
        }
    }
    let base = name.trim_matches('_').to_owned();
    let base = if base.is_empty() { place.method.as_str().to_lowercase() } else { base };
    let numbered = (2..).map(|n| format!("{base}_{n}"));
    let name = std::iter::once(base.clone()).chain(numbered).find(|name| !taken.contains(name));
    let name = name.unwrap_or(base);
    taken.insert(name.clone());
    name
}
