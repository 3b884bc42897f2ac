//! From the words of a user to a server that could be added: what it is, who publishes it, what it
//! would run, what it needs. Runs nothing of it and writes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::available::literal;
use crate::server_json::{is_pinned_image, package_way, short_server_name};
use crate::{
    AvailableServer, Bundle, GivenValues, PublishedServer, ReachError, Registry, ServerCard,
    ServerInput, ServerWay, names_of_others,
};
use base::{SafeText, ServerName};
use config::{
    Diagnostic, Edit, Environment, Pairs, TlsConfig, apply_edit, load_text, single_command,
    single_url, without_mark,
};
use deck::{ProgramFailure, Review, TrustStore, load_json, parse_json, query_program};

/// How long `npm` and `uv` may look for the newest version of a package.
const VERSION_TIMEOUT: Duration = Duration::from_secs(60);
/// Largest `server.json`, in bytes.
pub const MAX_PUBLISHED_BYTES: u64 = 1 << 20;
/// Largest settings file, in bytes.
const MAX_SETTINGS_BYTES: u64 = 1 << 20;
/// Most servers of a search for one name.
const MAX_SEARCH_RESULTS: usize = 50;
/// Longest text of a fact, in characters.
const MAX_FACT_CHARS: usize = 400;

/// Where a server comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerOrigin {
    /// A name in the registry, or a part of one.
    Registry {
        /// The name.
        name: String,
        /// The version; else the newest.
        version: Option<String>,
    },
    /// A package: `npm`, `pypi` or `oci`.
    Package {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The version; else the newest.
        version: Option<String>,
    },
    /// A bundle or a `server.json`.
    File(PathBuf),
}

impl ServerOrigin {
    /// Reads the word of the user.
    pub fn parse(word: &str) -> Self {
        let kinds = [("npm:", "npm"), ("pypi:", "pypi"), ("docker:", "oci"), ("oci:", "oci")];
        for (prefix, kind) in kinds {
            if let Some(rest) = word.strip_prefix(prefix) {
                let (name, version) = if kind == "oci" {
                    (rest.to_owned(), None)
                } else if let Some((name, version)) = rest.split_once("==") {
                    (name.to_owned(), Some(version.to_owned()))
                } else {
                    versioned(rest)
                };
                return Self::Package { kind, name, version };
            }
        }
        let end = Path::new(word).extension().map(|end| end.to_string_lossy().to_lowercase());
        if matches!(end.as_deref(), Some("mcpb" | "dxt" | "json")) {
            return Self::File(PathBuf::from(word));
        }
        let (name, version) = versioned(word);
        Self::Registry { name, version }
    }

    /// Whether the word means this, and cannot be a name that the user chose for an entry.
    pub fn is_certain(&self) -> bool {
        match self {
            Self::Registry { name, .. } => name.contains('/'),
            Self::Package { .. } | Self::File(_) => true,
        }
    }
}

/// `NAME@VERSION`; a name may begin with `@`.
fn versioned(word: &str) -> (String, Option<String>) {
    match word.rfind('@').filter(|at| *at > 0) {
        Some(at) => (word[..at].to_owned(), Some(word[at + 1..].to_owned())),
        None => (word.to_owned(), None),
    }
}

/// The edits that add an entry, with the inputs that it declares.
pub fn edits_to_add(name: &ServerName, entry: &Value, declared: &[Value]) -> Vec<Edit> {
    let inputs = declared.iter().map(|input| Edit::AddInput { input: input.clone() });
    inputs.chain([Edit::Add { name: name.clone(), entry: entry.clone() }]).collect()
}

/// What one server of a text would run, also when it waits for an input.
///
/// # Errors
/// The problems of the text or, when the entry cannot be used, those of the entry.
pub fn review_of(
    path: &Path,
    text: &str,
    name: &ServerName,
    env: &Environment,
) -> Result<Review, Vec<Diagnostic>> {
    let loaded = load_text(path, text, env)?.with_waiting();
    let reviews = TrustStore::or_session(env).review(&loaded);
    let found = reviews.into_iter().find(|review| review.server == *name);
    found.ok_or_else(|| {
        let own = loaded.diagnostics.into_iter().filter(|d| d.server.as_ref() == Some(name));
        own.collect()
    })
}

/// What was found for the words of a user.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum FoundSource {
    /// One server, with what [`AvailableServer::described`] says of it.
    One(Arc<AvailableServer>, Vec<(&'static str, SafeText)>),
    /// Several of a registry that fit, each with its name, its version and what it is for.
    Several(Vec<[SafeText; 3]>),
}

/// What words name: an address, a command line, a package, a file, or a server of the registry by
/// its name or by words of it. `--via KIND` at the end chooses among the ways of a server. `file` is
/// the configuration that it would be added to, with its text.
///
/// # Errors
/// When nothing is found, or what is found cannot be used.
pub async fn find_by_words(
    words: &str,
    (file, text): (&Path, &str),
    env: &Environment,
) -> Result<FoundSource, ReachError> {
    let (words, via) = match words.rsplit_once(" --via ") {
        Some((words, via)) => (words.trim(), Some(via.trim())),
        None => (words.trim(), None),
    };
    let parts: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
    let Some(first) = parts.first() else {
        return Err(ReachError("type what it is: a name, a package, an address".to_owned()));
    };
    let is_command = parts.len() > 1 && is_program(first, env);
    let mut server = if is_command {
        let command = command_words(words)?;
        direct(None, &DirectServer { command, ..DirectServer::default() }, env)?
    } else if parts.len() == 1 && first.contains("://") {
        direct(None, &DirectServer { url: Some(first.clone()), ..DirectServer::default() }, env)?
    } else if parts.len() > 1 && ServerOrigin::parse(first).is_certain() {
        // What follows is for the server.
        let arguments = command_words(words)?.split_off(1);
        let mut server = find(&ServerOrigin::parse(first), via, (None, env)).await?;
        let name = server.name.clone();
        server.give(&name, &GivenValues { arguments, ..GivenValues::default() })?;
        server
    } else {
        let origin = ServerOrigin::parse(words);
        if let ServerOrigin::Registry { name, version: None } = &origin
            && !name.contains('/')
        {
            let several = search_words(&parts, env).await?;
            match <[_; 1]>::try_from(several) {
                Ok([[name, ..]]) => {
                    let origin = ServerOrigin::Registry { name: name.to_string(), version: None };
                    find(&origin, via, (None, env)).await?
                }
                Err(several) => return Ok(FoundSource::Several(several)),
            }
        } else {
            find(&origin, via, (None, env)).await?
        }
    };
    let name = ServerName::new(&server.name);
    server.keep_apart(&names_of_others((file, text), &name, env));
    let declared: Vec<Value> = server.needed().map(ServerInput::declaration).collect();
    let text = edits_to_add(&name, &server.entry, &declared)
        .iter()
        .try_fold(text.to_owned(), |text, edit| apply_edit(&text, edit))
        .map_err(|error| ReachError(format!("{}: {error}", base::text::path::spelled(file))))?;
    let review = review_of(file, &text, &name, env).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
        ReachError(format!("its entry cannot be used: {}", all.join("; ")))
    })?;
    let described = server.described(&review);
    Ok(FoundSource::One(Arc::new(server), described))
}

/// The servers of the registry with all these words; that with exactly this name alone.
async fn search_words(
    words: &[String],
    env: &Environment,
) -> Result<Vec<[SafeText; 3]>, ReachError> {
    let registry = registry(None, env)?;
    let found = registry.search(words, MAX_SEARCH_RESULTS).await?;
    let row = |server: &PublishedServer| {
        let line = |text: &str| SafeText::cut(text, MAX_FACT_CHARS);
        [line(&server.name), line(&server.version), server.description.clone()]
    };
    let is_exact = |server: &&PublishedServer| {
        words.len() == 1 && server.name.rsplit('/').next() == Some(words[0].as_str())
    };
    let mut exact = found.servers.iter().filter(is_exact);
    if let (Some(server), None) = (exact.next(), exact.next()) {
        return Ok(vec![row(server)]);
    }
    if found.servers.is_empty() {
        let shown = SafeText::cut(&words.join(" "), 80);
        let address = registry.address();
        return Err(ReachError(format!("the registry {address} has nothing with `{shown}`")));
    }
    Ok(found.servers.iter().map(row).collect())
}

/// Whether a word is a program: a path to a file, or a name that `PATH` has.
fn is_program(word: &str, env: &Environment) -> bool {
    if word.contains(std::path::is_separator) {
        return env.absolute(Path::new(word)).is_file();
    }
    program_path(word, env).is_some()
}

/// The words of a command line: blanks part them, quotes hold them together, a backslash takes the
/// next character as it is. Nothing is expanded.
///
/// # Errors
/// When a quote is not closed.
pub fn command_words(line: &str) -> Result<Vec<String>, ReachError> {
    let (mut out, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            ('\\', None | Some('"')) if !cfg!(windows) => {
                word.get_or_insert_default().extend(chars.next());
            }
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => out.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    if let Some(open) = quote {
        return Err(ReachError(format!("a {open} is not closed")));
    }
    out.extend(word);
    Ok(out)
}

/// Settings that are not of one part.
#[derive(Debug, Default, Deserialize)]
struct RegistrySettings {
    registry: Option<String>,
}

/// The registry: that of the command or of `MCPDECK_REGISTRY`, else that of `settings.json`.
///
/// # Errors
/// When none is named, or its address cannot be used.
pub fn registry(named: Option<&Url>, env: &Environment) -> Result<Registry, ReachError> {
    if let Some(url) = named {
        return Registry::new(url.clone());
    }
    let path = env.own_config_dir().map(|folder| folder.join("settings.json"));
    let settings: Option<RegistrySettings> = match &path {
        Some(path) => load_json(path, MAX_SETTINGS_BYTES, |text| parse_json(text.as_bytes()))
            .map_err(ReachError)?,
        None => None,
    };
    let shown = path.as_deref().map_or("settings.json".into(), base::text::path::spelled);
    let Some(text) = settings.and_then(|settings| settings.registry) else {
        return Err(ReachError(format!(
            "no registry of MCP servers is named: use --registry URL, MCPDECK_REGISTRY, or \
             {{\"registry\": \"URL\"}} in {shown}; packages need none (npm:NAME, pypi:NAME, \
             docker:IMAGE:TAG)"
        )));
    };
    let url = Url::parse(&text)
        .map_err(|error| ReachError(format!("{shown}: `registry` is not an address: {error}")))?;
    Registry::new(url)
}

/// A server that is named by its address or by its command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DirectServer {
    /// Its address.
    pub url: Option<String>,
    /// Its command, word by word; without an address.
    pub command: Vec<String>,
    /// Headers of its requests, or variables of its command.
    pub pairs: Pairs,
}

/// The server that a command or an address names.
///
/// # Errors
/// When the command or address cannot be used.
pub fn direct(
    name: Option<&str>,
    one: &DirectServer,
    env: &Environment,
) -> Result<AvailableServer, ReachError> {
    let loaded = match &one.url {
        Some(url) => single_url(url, &one.pairs, env),
        None => single_command(&one.command, &one.pairs, env),
    };
    let loaded = loaded.map_err(|problems| {
        let all: Vec<String> = problems.iter().map(|problem| problem.message.clone()).collect();
        ReachError(all.join("; "))
    })?;
    let own = loaded.config.servers.keys().next().map(|own| own.as_str().to_owned());
    let name = name.map(str::to_owned).or(own).unwrap_or_else(|| "server".to_owned());
    let (entry, key) = if let Some(url) = &one.url {
        let is_sse = Url::parse(url).is_ok_and(|url| url.path().ends_with("/sse"));
        let kind = if url.starts_with("ws") {
            "websocket"
        } else if is_sse {
            "sse"
        } else {
            "http"
        };
        (json!({ "type": kind, "url": literal(url) }), "headers")
    } else {
        let words: Vec<String> = one.command.iter().map(|word| literal(word)).collect();
        (json!({ "command": words[0], "args": words[1..] }), "env")
    };
    let mut server = AvailableServer {
        name: name.clone(),
        facts: Vec::new(),
        entry,
        inputs: Vec::new(),
        given: Vec::new(),
        bundle: None,
    };
    server.store_literals(&name, 0);
    server.give_pairs(&name, key, &one.pairs);
    Ok(server)
}

/// A server of an address, with what its card says of it, where it has one: who it is, and the headers
/// that it needs.
///
/// # Errors
/// When the address is none.
pub async fn with_card(
    mut server: AvailableServer,
    url: &str,
) -> Result<AvailableServer, ReachError> {
    let address = Url::parse(url).map_err(|error| ReachError(format!("{url}: {error}")))?;
    let card = match ServerCard::read(&address, &TlsConfig::default()).await {
        Ok(Some(card)) => card,
        Ok(None) => return Ok(server),
        Err(why) => {
            server.facts.push(fact("careful", &why.to_string()));
            return Ok(server);
        }
    };
    let said = &card.server;
    server.facts.push(fact("says", &format!("{} {}", said.name, said.version)));
    if !said.description.is_empty() {
        server.facts.push(("about", said.description.clone()));
    }
    server.facts.extend(said.site.clone().map(|site| ("site", site)));
    let Some(way) = card.way() else {
        server.facts.push(fact("careful", "its card names other addresses only"));
        return Ok(server);
    };
    let headers = way.entry.get("headers").and_then(Value::as_object);
    for (header, value) in headers.into_iter().flatten() {
        let given = server.entry["headers"].as_object();
        let is_given =
            given.is_some_and(|all| all.keys().any(|own| own.eq_ignore_ascii_case(header)));
        if !is_given {
            server.entry["headers"][header] = value.clone();
        }
    }
    server.inputs.extend(way.inputs.iter().cloned());
    Ok(server)
}

/// The server of an origin.
///
/// # Errors
/// When it cannot be found or used, or several fit.
pub async fn find(
    origin: &ServerOrigin,
    via: Option<&str>,
    (address, env): (Option<&Url>, &Environment),
) -> Result<AvailableServer, ReachError> {
    match origin {
        ServerOrigin::Package { kind, name, .. } if name.trim().is_empty() => {
            let (prefix, what) =
                if *kind == "oci" { ("docker", "IMAGE:TAG") } else { (*kind, "NAME") };
            Err(ReachError(format!("no package is named: write {prefix}:{what}")))
        }
        ServerOrigin::Package { kind, name, version } => {
            let version = match (*kind, version) {
                ("oci", _) => String::new(),
                (_, Some(version)) => version.clone(),
                (kind, None) => newest(kind, name, env).await?,
            };
            if *kind == "oci" {
                pinned_image(name)?;
            }
            let way = package_way(kind, name, &version).map_err(ReachError)?;
            let facts = vec![fact("what", &format!("{kind} package {}", way.pin))];
            Ok(AvailableServer {
                name: short_server_name(way.stem.trim_end_matches('@')),
                facts,
                entry: way.entry,
                inputs: way.inputs,
                given: Vec::new(),
                bundle: None,
            })
        }
        ServerOrigin::File(path) => {
            let end = path.extension().map(|end| end.to_string_lossy().to_lowercase());
            if end.as_deref() != Some("json") {
                return bundled(Bundle::open(&env.absolute(path))?, env);
            }
            let server = read_published(path, env)?;
            published(&server, via, None, env).await
        }
        ServerOrigin::Registry { name, version } => {
            let registry = registry(address, env)?;
            let name = whole_name(&registry, name).await?;
            let server = registry.server(&name, version.as_deref()).await?;
            published(&server, via, Some(&registry), env).await
        }
    }
}

/// A `server.json`.
fn read_published(path: &Path, env: &Environment) -> Result<PublishedServer, ReachError> {
    let at = |why: &dyn std::fmt::Display| {
        ReachError(format!("{}: {why}", base::text::path::spelled(path)))
    };
    let text = base::file::read_text(&env.absolute(path), MAX_PUBLISHED_BYTES)
        .map_err(|error| at(&error))?
        .ok_or_else(|| at(&"there is no such file"))?;
    let root: Value = serde_json::from_str(without_mark(&text)).map_err(|error| at(&error))?;
    PublishedServer::parse(&root).map_err(|why| at(&format!("it is not a server.json: {why}")))
}

/// The whole name of a server of which a part is known.
async fn whole_name(registry: &Registry, name: &str) -> Result<String, ReachError> {
    if name.contains('/') {
        return Ok(name.to_owned());
    }
    let found = registry.search(&[name.to_owned()], MAX_SEARCH_RESULTS).await?;
    let mut exact = found.servers.iter().filter(|server| {
        server.short_name() == name || server.name.rsplit('/').next() == Some(name)
    });
    if let (Some(server), None) = (exact.next(), exact.next()) {
        return Ok(server.name.clone());
    }
    let shown = SafeText::cut(name, 80);
    let names: Vec<&str> = found.servers.iter().map(|server| server.name.as_str()).collect();
    let rest = if names.len() > 10 || found.is_cut { " ..." } else { "" };
    Err(ReachError(if names.is_empty() {
        format!("the registry {} has no server `{shown}`", registry.address())
    } else {
        let names = names[..names.len().min(10)].join(", ");
        format!("write the whole name; `{shown}` is in {names}{rest}")
    }))
}

/// A server of a registry, by one of its ways.
async fn published(
    server: &PublishedServer,
    via: Option<&str>,
    registry: Option<&Registry>,
    env: &Environment,
) -> Result<AvailableServer, ReachError> {
    let way = way(server, via)?;
    let mut out = match (&way.bundle, registry) {
        (Some(bundle), Some(registry)) => {
            let bytes = registry.bundle(bundle).await?;
            let bundle = Bundle::from_bytes(bytes)
                .map_err(|why| ReachError(format!("{}: {why}", bundle.url)))?;
            bundled(bundle, env)?
        }
        (Some(bundle), None) => {
            return Err(ReachError(format!(
                "it is a bundle: download {} and add that file",
                bundle.url
            )));
        }
        (None, _) => AvailableServer {
            name: String::new(),
            facts: Vec::new(),
            entry: way.entry.clone(),
            inputs: way.inputs.clone(),
            given: Vec::new(),
            bundle: None,
        },
    };
    if registry.is_some() {
        out.entry["origin"] = json!({
            "registry": server.name, "version": server.version, "kind": way.kind,
        });
    }
    out.name = server.short_name();
    out.facts = vec![
        fact("name", &format!("{} {}", server.name, server.version)),
        fact("publisher", server.publisher()),
    ];
    if !server.description.is_empty() {
        out.facts.push(("about", server.description.clone()));
    }
    out.facts.extend(server.site.clone().map(|site| ("site", site)));
    let over = format!("{} over {}: {}", way.kind, way.transport, way.pin);
    out.facts.push(fact("what", &over));
    if server.status.as_str() != "active" {
        let status = format!("the registry says that it is {}", server.status);
        out.facts.push(fact("careful", &status));
    }
    let others = server.ways.iter().filter(|other| !std::ptr::eq(*other, way));
    out.facts.extend(others.map(|other| {
        fact("also", &format!("{} over {}: --via {}", other.kind, other.transport, other.kind))
    }));
    out.facts.extend(server.refused.iter().map(|why| fact("left out", why)));
    Ok(out)
}

/// The way that is wanted, else the first.
pub fn way<'s>(
    server: &'s PublishedServer,
    via: Option<&str>,
) -> Result<&'s ServerWay, ReachError> {
    let found = server.ways.iter().find(|way| via.is_none_or(|via| via == way.kind));
    found.ok_or_else(|| {
        let kinds: Vec<&str> = server.ways.iter().map(|way| way.kind).collect();
        let refused = server.refused.join("; ");
        ReachError(match (via, kinds.is_empty()) {
            (Some(via), false) => {
                format!("`{}` has no {via}; --via takes {}", server.name, kinds.join(", "))
            }
            _ if refused.is_empty() => {
                format!("`{}` names neither a package nor an address", server.name)
            }
            _ => format!("`{}` cannot be run from here: {refused}", server.name),
        })
    })
}

fn bundled(bundle: Bundle, env: &Environment) -> Result<AvailableServer, ReachError> {
    let folder = bundle.folder(env)?;
    let entry = bundle.entry(&folder, env)?;
    let mut facts = vec![fact("name", &format!("{} {}", bundle.name, bundle.version))];
    let texts = [("publisher", &bundle.author), ("about", &bundle.description)];
    facts.extend(
        texts.into_iter().filter(|(_, text)| !text.is_empty()).map(|(l, t)| (l, t.clone())),
    );
    facts.push(fact("what", &format!("bundle, unpacked into {}", folder.display())));
    Ok(AvailableServer {
        name: short_server_name(&bundle.name),
        facts,
        entry,
        inputs: bundle.inputs.clone(),
        given: Vec::new(),
        bundle: Some((bundle, folder)),
    })
}

fn fact(label: &'static str, text: &str) -> (&'static str, SafeText) {
    (label, SafeText::cut(text, MAX_FACT_CHARS))
}

/// Refuses an image whose tag moves.
fn pinned_image(image: &str) -> Result<(), ReachError> {
    if is_pinned_image(image) {
        return Ok(());
    }
    Err(ReachError(format!(
        "`{}` does not say which image: write docker:IMAGE:TAG with a tag that does not move, or \
         docker:IMAGE@sha256:DIGEST",
        SafeText::cut(image, 100)
    )))
}

/// The newest version of a package, as the user's own `npm` or `uv` sees it.
///
/// # Errors
/// When the program is not there, or knows no such package.
pub async fn newest(kind: &str, name: &str, env: &Environment) -> Result<String, ReachError> {
    // The name is one before it is given to a program.
    package_way(kind, name, "1.0.0").map_err(ReachError)?;
    let (program, args, input): (_, Vec<&str>, String) = match kind {
        "npm" => ("npm", vec!["view", "--json", "--", name, "version"], String::new()),
        "pypi" => {
            let args = "pip compile --quiet --no-deps --no-header --no-annotate -";
            ("uv", args.split(' ').collect(), format!("{name}\n"))
        }
        other => {
            return Err(ReachError(format!("the newest version of {other} is not known here")));
        }
    };
    let failed = |why: &str| {
        let why = SafeText::line(why);
        ReachError(format!(
            "which version of `{name}` is the newest cannot be found out with `{program}` ({why}); \
             write it: {kind}:{name}@VERSION"
        ))
    };
    let path = program_path(program, env).ok_or_else(|| failed("it is not on PATH"))?;
    let args: Vec<String> = args.into_iter().map(str::to_owned).collect();
    let out = query_program(&path, &args, &input, VERSION_TIMEOUT).await;
    let out = out.map_err(|failure| match reason(&failure) {
        NoVersion::Unknown => {
            ReachError(format!("there is no package `{name}` where `{program}` looks for it"))
        }
        NoVersion::Other(why) => failed(&why),
    })?;
    let found = if kind == "npm" {
        let value: Value = serde_json::from_str(out.trim()).unwrap_or_default();
        value.as_str().map(str::to_owned)
    } else {
        out.lines().find_map(|line| line.split_once("==")).map(|(_, version)| version.to_owned())
    };
    let version = found.map(|version| version.trim().to_owned()).unwrap_or_default();
    package_way(kind, name, &version)
        .map_err(|_| failed("its answer has no version"))
        .map(|_| version)
}

/// Why a version was not found out.
#[derive(Debug, PartialEq, Eq)]
enum NoVersion {
    /// There is no such package.
    Unknown,
    Other(String),
}

/// What `npm` (in JSON) or `uv` (in sentences) wrote about its failure, in one line.
fn reason(failure: &ProgramFailure) -> NoVersion {
    let output = failure.output.trim();
    // The object is before what stderr has.
    let mut values = serde_json::Deserializer::from_str(output).into_iter::<Value>();
    if let Some(Ok(value)) = values.next()
        && let Some(error) = value.get("error")
    {
        let text = |key: &str| error.get(key).and_then(Value::as_str);
        return match (text("code"), text("summary")) {
            (Some("E404"), _) => NoVersion::Unknown,
            (_, Some(summary)) => NoVersion::Other(summary.to_owned()),
            _ => NoVersion::Other(failure.why.clone()),
        };
    }
    if output.contains("was not found in the package registry") {
        return NoVersion::Unknown;
    }
    // The last of a chain of causes is the one that says most.
    let last = output.lines().rfind(|line| !line.trim().is_empty());
    let last = last.map(|line| line.trim().trim_start_matches("cause: ").to_owned());
    NoVersion::Other(last.unwrap_or_else(|| failure.why.clone()))
}

/// The path of a program on `PATH`.
fn program_path(program: &str, env: &Environment) -> Option<PathBuf> {
    let ends: &[&str] = if cfg!(windows) { &[".cmd", ".exe"] } else { &[""] };
    std::env::split_paths(env.var("PATH").unwrap_or_default())
        .flat_map(|folder| ends.iter().map(move |end| folder.join(format!("{program}{end}"))))
        .find(|path| path.is_absolute() && path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_name_registry_packages_images_and_files() {
        let registry = |name: &str, version: Option<&str>| ServerOrigin::Registry {
            name: name.to_owned(),
            version: version.map(str::to_owned),
        };
        let package = |kind, name: &str, version: Option<&str>| ServerOrigin::Package {
            kind,
            name: name.to_owned(),
            version: version.map(str::to_owned),
        };
        for (word, origin) in [
            ("weather", registry("weather", None)),
            ("io.example/weather@1.2", registry("io.example/weather", Some("1.2"))),
            ("npm:@a/b", package("npm", "@a/b", None)),
            ("npm:@a/b@1.0.0", package("npm", "@a/b", Some("1.0.0"))),
            ("pypi:mcp-server-time==1.0", package("pypi", "mcp-server-time", Some("1.0"))),
            ("pypi:x@2", package("pypi", "x", Some("2"))),
            ("docker:i.example/a/b:1@sha256:0", package("oci", "i.example/a/b:1@sha256:0", None)),
            ("a/b.mcpb", ServerOrigin::File("a/b.mcpb".into())),
            ("b.DXT", ServerOrigin::File("b.DXT".into())),
            ("./server.json", ServerOrigin::File("./server.json".into())),
        ] {
            assert_eq!(ServerOrigin::parse(word), origin, "{word}");
        }
    }

    #[test]
    fn a_command_line_is_parted_as_a_shell_parts_it() {
        let words = |line: &str| command_words(line).map_err(|error| error.to_string());
        assert_eq!(words("  npx -y  x ").unwrap(), ["npx", "-y", "x"]);
        assert_eq!(
            words(r#"sh -c 'a "b" $c' "" d\ e"#).unwrap(),
            ["sh", "-c", "a \"b\" $c", "", "d e"]
        );
        assert_eq!(words("a 'b").unwrap_err(), "a ' is not closed");
    }

    #[test]
    fn what_a_program_says_of_a_package_that_it_does_not_find_is_understood() {
        let reason_of = |output: &str| {
            reason(&ProgramFailure { why: "exit status: 1".to_owned(), output: output.to_owned() })
        };
        let other = |why: &str| NoVersion::Other(why.to_owned());
        for (output, expected) in [
            (
                r#"{"error": {"code": "E404", "summary": "Not Found"}} npm error 404"#,
                NoVersion::Unknown,
            ),
            (r#"{"error": {"code": "ECONNREFUSED", "summary": "no route"}}"#, other("no route")),
            (
                "error: No solution\n  cause: Because x was not found in the package registry and you",
                NoVersion::Unknown,
            ),
            (
                "error: Failed\n  cause: tcp\n  cause: Connection refused\n\n",
                other("Connection refused"),
            ),
            ("", other("exit status: 1")),
        ] {
            assert_eq!(reason_of(output), expected, "{output}");
        }
    }

    #[test]
    fn images_are_pinned_by_a_tag_or_a_digest() {
        for image in ["a/b:1.0", "h:5000/a:2", "a@sha256:00"] {
            assert!(pinned_image(image).is_ok(), "{image}");
        }
        for image in ["a/b", "a:latest", "h:5000/a", "a:"] {
            assert!(pinned_image(image).is_err(), "{image}");
        }
    }
}
