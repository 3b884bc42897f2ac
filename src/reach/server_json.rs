//! `server.json`, as a registry of MCP servers publishes it, read strictly into what could be run.
//! Nothing in it is trusted: text is cut and made safe, names and addresses have to look like ones,
//! and an argument can never become an option of the program that starts the server. Pure.

use std::net::Ipv4Addr;

use serde_json::{Map, Value, json};
use url::{Host, Url};

use base::SafeText;
use base::address::is_loopback;
use config::{is_hidden, is_hook, is_secret_name};

/// Most ways to run one server, most inputs and arguments of each.
const MAX_WAYS: usize = 16;
const MAX_PARTS: usize = 64;

/// Longest name, and longest text, in characters.
const MAX_NAME_CHARS: usize = 200;
const MAX_TEXT_CHARS: usize = 400;

/// A server as a registry describes it.
#[derive(Clone, Debug)]
pub struct PublishedServer {
    /// Its name: a publisher in reverse DNS, `/`, and what the publisher calls it.
    pub name: String,
    /// The pinned version.
    pub version: String,
    /// What it is for.
    pub description: SafeText,
    /// The address of its repository or site.
    pub site: Option<SafeText>,
    /// What the registry says of it: `active`, `deprecated`, `deleted`.
    pub status: SafeText,
    /// The ways to run or reach it, in the registry's order.
    pub ways: Vec<ServerWay>,
    /// Ways that cannot be used, with the reason.
    pub refused: Vec<String>,
}

/// One way to run or reach a server.
#[derive(Clone, Debug)]
pub struct ServerWay {
    /// What it is: `npm`, `pypi`, `oci`, `nuget`, `mcpb`, `remote`.
    pub kind: &'static str,
    /// The transport: `stdio`, `http`, `sse`.
    pub transport: &'static str,
    /// What names the package, image or address, with its version: `weather@1.2.3`.
    pub pin: String,
    /// The same without the version, to find an older one in an entry.
    pub stem: String,
    /// Its entry, with inputs as `${input:ID}`; null for a bundle, whose manifest has it.
    pub entry: Value,
    /// What it needs.
    pub inputs: Vec<ServerInput>,
    /// A bundle to download and unpack before the entry can be used, with its SHA-256.
    pub bundle: Option<PublishedBundle>,
}

/// A bundle that a registry names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedBundle {
    /// Its address.
    pub url: Url,
    /// The SHA-256 of its bytes, in hexadecimal digits.
    pub sha256: String,
}

/// A value that a server needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerInput {
    /// Its id in `${input:ID}`.
    pub id: String,
    /// What it is.
    pub description: SafeText,
    /// Whether the server does not work without it.
    pub is_required: bool,
    /// Whether it must not be shown.
    pub is_secret: bool,
    /// The value it has when none is given.
    pub default: Option<String>,
    /// The only values it may have; any when empty.
    pub choices: Vec<String>,
}

impl ServerInput {
    /// The input as `mcp.json` declares it.
    pub fn declaration(&self) -> Value {
        let mut out = json!({ "id": self.id, "description": self.description.as_str() });
        if self.choices.is_empty() {
            out["type"] = json!("promptString");
        } else {
            out["type"] = json!("pickString");
            out["options"] = json!(self.choices);
        }
        if self.is_secret {
            out["password"] = json!(true);
        }
        if let Some(default) = &self.default {
            out["default"] = json!(default);
        }
        out
    }
}

impl ServerWay {
    /// The inputs that its entry refers to.
    pub fn needed(&self) -> impl Iterator<Item = &ServerInput> {
        let entry = self.entry.to_string();
        let is_used =
            move |input: &&ServerInput| entry.contains(&format!("${{input:{}}}", input.id));
        self.inputs.iter().filter(is_used)
    }
}

impl PublishedServer {
    /// The publisher: the part of the name before the slash.
    pub fn publisher(&self) -> &str {
        self.name.split_once('/').map_or(self.name.as_str(), |(publisher, _)| publisher)
    }

    /// A short name for the configuration.
    pub fn short_name(&self) -> String {
        short_server_name(&self.name)
    }

    /// Its first way that needs no download, as an entry with declared inputs.
    pub fn first_way(&self) -> Option<&ServerWay> {
        self.ways.iter().find(|way| way.bundle.is_none())
    }

    /// Reads one element of a registry's answer, or a `server.json` by itself.
    ///
    /// # Errors
    /// Which field is wrong, and what is expected there.
    pub fn parse(value: &Value) -> Result<Self, String> {
        // The registry wraps the document, and tells its own part beside it.
        let server = value.get("server").filter(|server| server.is_object()).unwrap_or(value);
        let name = text(server, "name")?.ok_or("`name` is missing")?;
        if !is_server_name(&name) {
            return Err("`name` is not PUBLISHER/NAME in letters, digits, `.`, `_` and `-`".into());
        }
        let version = match text(server, "version")? {
            Some(version) => version,
            None => server
                .pointer("/version_detail/version")
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned(),
        };
        if !is_version(&version) {
            return Err("`version` is not one version, such as 1.2.3".to_owned());
        }
        let official = value.pointer("/_meta/io.modelcontextprotocol.registry~1official");
        let status = official
            .and_then(|meta| meta.get("status"))
            .or_else(|| server.get("status"))
            .and_then(Value::as_str)
            .unwrap_or("active");
        let site = server
            .pointer("/repository/url")
            .or_else(|| server.get("websiteUrl"))
            .and_then(Value::as_str)
            .filter(|site| site.starts_with("https://") || site.starts_with("http://"));
        let mut out = Self {
            name,
            version,
            description: SafeText::cut(
                &text(server, "description")?.unwrap_or_default(),
                MAX_TEXT_CHARS,
            ),
            site: site.map(|site| SafeText::cut(site, MAX_NAME_CHARS)),
            status: SafeText::cut(status, 20),
            ways: Vec::new(),
            refused: Vec::new(),
        };
        let own = out.short_name();
        let lists = [("packages", true), ("remotes", false)];
        for (key, is_package) in lists {
            let list = match server.get(key) {
                None | Some(Value::Null) => continue,
                Some(Value::Array(list)) => list,
                Some(_) => return Err(format!("`{key}` is not a list")),
            };
            for (at, part) in list.iter().take(MAX_WAYS).enumerate() {
                let way = if is_package { package(part, &own) } else { remote(part, &own) };
                match way {
                    Ok(way) => out.ways.push(way),
                    Err(why) => out.refused.push(format!("{key}[{at}]: {why}")),
                }
            }
        }
        Ok(out)
    }
}

/// A short name for the configuration: without the publisher, and what every server is called; the
/// publisher where nothing else is left (`@acme/mcp`, `com.acme/mcp-server`).
pub fn short_server_name(name: &str) -> String {
    let short = |part: &str| {
        let short = part
            .trim_start_matches("mcp-server-")
            .trim_start_matches("server-")
            .trim_end_matches("-mcp-server")
            .trim_end_matches("-server")
            .trim_end_matches("-mcp");
        (!matches!(short, "" | "mcp" | "server")).then(|| short.to_owned())
    };
    let mut parts = name.rsplit('/');
    let last = parts.next().unwrap_or(name);
    let publisher = parts.next().and_then(|part| part.trim_start_matches('@').rsplit('.').next());
    short(last).or_else(|| short(publisher?)).unwrap_or_else(|| last.to_owned())
}

/// A text of an object; `None` when it is missing.
fn text(of: &Value, key: &str) -> Result<Option<String>, String> {
    match of.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= 1 << 16 => Ok(Some(text.clone())),
        Some(Value::String(_)) => Err(format!("`{key}` is too long")),
        Some(_) => Err(format!("`{key}` is not a text")),
    }
}

fn is_plain(text: &str, extra: &str) -> bool {
    !text.is_empty()
        && text.chars().count() <= MAX_NAME_CHARS
        && text.chars().all(|c| c.is_ascii_alphanumeric() || extra.contains(c))
        && !text.starts_with('-')
        && !text.split(['/', '\\']).any(|part| part.is_empty() || part.trim_matches('.').is_empty())
}

fn is_server_name(name: &str) -> bool {
    is_plain(name, "._-/") && name.matches('/').count() == 1
}

/// One version, not a range or a tag that moves.
fn is_version(version: &str) -> bool {
    is_plain(version, ".+-_") && version.contains(|c: char| c.is_ascii_digit())
}

/// One version of a package, as the program that starts packages of this kind reads it: to npm `1`,
/// `1.2` and `1.x` are ranges, and a word is a tag; elsewhere what begins with a digit is a version.
fn is_package_version(kind: &str, version: &str) -> bool {
    let numbers = version.strip_prefix('v').unwrap_or(version);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|c| c.is_ascii_digit());
    let is_exact = if kind == "npm" {
        let core = numbers.split(['-', '+']).next().unwrap_or_default();
        core.split('.').count() == 3 && core.split('.').all(is_number)
    } else {
        numbers.starts_with(|c: char| c.is_ascii_digit()) && !numbers.split('.').any(|it| it == "x")
    };
    is_version(version) && is_exact
}

/// The name of an npm package: `NAME`, or `@SCOPE/NAME`. One with a slash and no scope would be a
/// folder or a repository, and one with the ending of an archive a file.
fn is_npm_name(name: &str) -> bool {
    let is_archive = [".tgz", ".tar.gz", ".tar"].iter().any(|end| name.ends_with(end));
    let bare = name.strip_prefix('@').unwrap_or(name);
    let has_scope = bare.len() < name.len();
    is_plain(bare, "._-/") && bare.matches('/').count() == usize::from(has_scope) && !is_archive
}

/// The entry of a package by its name and version: `npm`, `pypi` or `oci`.
///
/// # Errors
/// When the name or the version is not one of a package.
pub fn package_way(kind: &str, name: &str, version: &str) -> Result<ServerWay, String> {
    let part = json!({ "registryType": kind, "identifier": name, "version": version });
    package(&part, "")
}

/// That an identifier is no name of its kind.
fn no_name(identifier: &str, what: &str) -> String {
    format!("`identifier`: `{identifier}` is not the name of {what}")
}

/// A program that starts packages, and how the package is named to it.
fn package(part: &Value, server: &str) -> Result<ServerWay, String> {
    let kind = text(part, "registryType")?.or(text(part, "registry_name")?).unwrap_or_default();
    let identifier = text(part, "identifier")?.or(text(part, "name")?).unwrap_or_default();
    let version = text(part, "version")?.unwrap_or_default();
    if let Some(transport) = part.pointer("/transport/type").and_then(Value::as_str)
        && transport != "stdio"
    {
        let transport = SafeText::cut(transport, 40);
        return Err(format!("a package that is reached over {transport}; only stdio is started"));
    }
    let exact = || {
        if is_package_version(&kind, &version) {
            Ok(())
        } else {
            Err("`version` is not one version, such as 1.2.3".to_owned())
        }
    };
    let base = text(part, "registryBaseUrl")?.or(text(part, "registry_base_url")?);
    let identifier = located(&kind, identifier, base.as_deref())?;
    let mut parts = Parts { server, kind: &kind, inputs: Vec::new() };
    let own = parts.arguments(part, "packageArguments")?;
    let runtime = parts.arguments(part, "runtimeArguments")?;
    let env = parts.variables(part, "environmentVariables")?;
    // What a program that starts packages takes from a stranger could be anything but its own
    // options: those of containers alone are taken, and only harmless ones.
    if !runtime.is_empty() && kind != "oci" {
        return Err(
            "`runtimeArguments` are options of the program that starts the package, which \
                    are not taken from a registry"
                .to_owned(),
        );
    }
    let (kind, command, args): (&'static str, &str, Vec<Value>) = match kind.as_str() {
        "npm" => {
            exact()?;
            if !is_npm_name(&identifier) {
                return Err(no_name(&identifier, "an npm package"));
            }
            ("npm", "npx", vec![json!("-y"), json!(format!("{identifier}@{version}"))])
        }
        "pypi" => {
            exact()?;
            if !is_plain(&identifier, "._-") {
                return Err(no_name(&identifier, "a Python package"));
            }
            ("pypi", "uvx", vec![json!(format!("{identifier}@{version}"))])
        }
        "nuget" => {
            exact()?;
            if !is_plain(&identifier, "._-") {
                return Err(no_name(&identifier, "a NuGet package"));
            }
            (
                "nuget",
                "dnx",
                vec![json!(format!("{identifier}@{version}")), json!("--yes"), json!("--")],
            )
        }
        "oci" | "docker" => return container(&identifier, &version, parts, (own, &runtime, env)),
        "mcpb" => {
            let url = address(&identifier)?;
            let sha256 = text(part, "fileSha256")?.unwrap_or_default().to_lowercase();
            if sha256.len() != 64 || !sha256.chars().all(|c| c.is_ascii_hexdigit()) {
                return Err(
                    "`fileSha256` is not a SHA-256, so the bundle cannot be verified".into()
                );
            }
            let bundle = Some(PublishedBundle { url, sha256 });
            let inputs = parts.inputs;
            return Ok(ServerWay {
                kind: "mcpb",
                transport: "stdio",
                pin: identifier.clone(),
                stem: identifier,
                entry: Value::Null,
                inputs,
                bundle,
            });
        }
        other => {
            let other = SafeText::cut(other, 40);
            return Err(format!("packages of `{other}` are not known here"));
        }
    };
    let mut entry = Map::new();
    entry.insert("command".to_owned(), json!(command));
    entry.insert("args".to_owned(), [args, own].concat().into());
    if !env.is_empty() {
        entry.insert("env".to_owned(), Value::Object(env));
    }
    Ok(ServerWay {
        kind,
        transport: "stdio",
        pin: format!("{identifier}@{version}"),
        stem: format!("{identifier}@"),
        entry: Value::Object(entry),
        inputs: parts.inputs,
        bundle: None,
    })
}

/// Where packages are taken from unless something else is set up: the kind, and the last two labels
/// of the host.
const USUAL_REGISTRIES: [(&str, &str, &str); 5] = [
    ("npm", "npmjs", "org"),
    ("pypi", "pypi", "org"),
    ("nuget", "nuget", "org"),
    ("oci", "docker", "io"),
    ("oci", "docker", "com"),
];

/// The identifier of a package that is published at `base`. What starts packages looks for them in
/// the registry that is set up on this machine, where one of that name may be another's.
///
/// # Errors
/// When the package would be taken from somewhere else.
fn located(kind: &str, identifier: String, base: Option<&str>) -> Result<String, String> {
    let Some(base) = base.filter(|base| !base.is_empty()) else { return Ok(identifier) };
    let wrong = |why: &str| Err(format!("`registryBaseUrl`: `{}` {why}", SafeText::cut(base, 80)));
    let url = match address(base) {
        Ok(url) => url,
        Err(why) => return wrong(&format!("is no place of packages: {why}")),
    };
    let kind = if kind == "docker" { "oci" } else { kind };
    let host = url.host_str().unwrap_or_default();
    let place = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    let labels: Vec<&str> = host.rsplit('.').collect();
    let is_usual = url.port().is_none()
        && USUAL_REGISTRIES.iter().any(|(of, name, end)| {
            *of == kind && labels.starts_with(&[end, name]) && labels.len() <= 3
        });
    // An image names its registry itself, before the first slash.
    let first = identifier.split_once('/').map(|(first, _)| first);
    let named = first.filter(|first| first.contains(['.', ':']) || *first == "localhost");
    match (kind, named) {
        ("oci", Some(named)) if named == place => Ok(identifier),
        ("oci", Some(named)) => {
            let named = SafeText::cut(named, 80);
            wrong(&format!("is not where the image is taken from: `{named}`"))
        }
        ("oci", None) if is_usual => Ok(identifier),
        ("oci", None) => Ok(format!("{place}/{identifier}")),
        // The identifier is its address.
        ("mcpb", _) => Ok(identifier),
        _ if is_usual => Ok(identifier),
        _ => wrong(
            "is not where packages of this kind are taken from here, so that another of the same \
             name could be run; write such an entry yourself",
        ),
    }
}

/// Tags that are made to name another image each time.
const MOVING_TAGS: [&str; 13] = [
    "latest", "stable", "main", "master", "trunk", "develop", "dev", "edge", "nightly", "next",
    "canary", "beta", "rolling",
];

/// Whether an image has a digest, or a tag that does not move.
pub(crate) fn is_pinned_image(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    let tag = last.split_once(':').map(|(_, tag)| tag.to_ascii_lowercase());
    let is_fixed = |tag: String| !tag.is_empty() && !MOVING_TAGS.contains(&&*tag);
    image.contains("@sha256:") || tag.is_some_and(is_fixed)
}

/// A container, with what its variables need and nothing of this machine.
fn container(
    identifier: &str,
    version: &str,
    parts: Parts<'_>,
    (own, runtime, env): (Vec<Value>, &[Value], Map<String, Value>),
) -> Result<ServerWay, String> {
    if !runtime.is_empty() {
        return Err(
            "`runtimeArguments` would give the container a part of this machine, which is \
                    not taken from a registry; write such an entry yourself"
                .to_owned(),
        );
    }
    let tagged = identifier.rsplit('/').next().is_some_and(|last| last.contains([':', '@']));
    let image = match (tagged, version.is_empty()) {
        (true, _) => identifier.to_owned(),
        (false, false) => format!("{identifier}:{version}"),
        (false, true) => return Err("the image has no version".to_owned()),
    };
    if !is_plain(&image.replace("://", " "), "._-/:@+") {
        return Err(no_name(identifier, "an image"));
    }
    if !is_pinned_image(&image) {
        return Err(format!(
            "`identifier`: the tag of `{image:.100}` names another image each time"
        ));
    }
    let mut args = vec![json!("run"), json!("-i"), json!("--rm")];
    for name in env.keys() {
        args.extend([json!("-e"), json!(name)]);
    }
    args.push(json!(image));
    args.extend(own);
    let mut entry = json!({ "command": "docker", "args": args });
    if !env.is_empty() {
        entry["env"] = Value::Object(env);
    }
    let name = image.split('@').next().unwrap_or(&image);
    let folder = name.rfind('/').map_or(0, |at| at + 1);
    let end = name[folder..].find(':').map_or(name.len(), |at| folder + at);
    Ok(ServerWay {
        kind: "oci",
        transport: "stdio",
        stem: name[..end].to_owned(),
        pin: image,
        entry,
        inputs: parts.inputs,
        bundle: None,
    })
}

fn remote(part: &Value, server: &str) -> Result<ServerWay, String> {
    let kind = text(part, "type")?.or(text(part, "transport_type")?).unwrap_or_default();
    let transport = match kind.as_str() {
        "streamable-http" | "http" => "http",
        "sse" => "sse",
        other => return Err(format!("`{}` is not a transport", SafeText::cut(other, 40))),
    };
    let mut parts = Parts { server, kind: "remote", inputs: Vec::new() };
    let written = text(part, "url")?.ok_or("`url` is missing")?;
    let url = parts.template(&written, part.get("variables"))?;
    // The address with its variables filled in has to be one; they must not choose the host.
    let host = written.split("://").nth(1).unwrap_or_default();
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains(['{', '}']) {
        return Err("a variable in `url` would choose the host".to_owned());
    }
    address(&written.replace(['{', '}'], ""))?;
    let headers = parts.variables(part, "headers")?;
    let mut entry = json!({ "type": transport, "url": url });
    if !headers.is_empty() {
        entry["headers"] = Value::Object(headers);
    }
    Ok(ServerWay {
        kind: "remote",
        transport,
        pin: written.clone(),
        stem: written,
        entry,
        inputs: parts.inputs,
        bundle: None,
    })
}

/// An address that is encrypted, or on this machine.
fn address(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("the address is none: {error}"))?;
    if is_no_host(&url) {
        return Err("the address is one of the network itself, where no server is".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the address has a user name in it".to_owned());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        scheme => {
            let scheme = SafeText::cut(scheme, 20);
            Err(format!("the address is `{scheme}:`, and https is expected"))
        }
    }
}

/// Whether the host of an address is a number that stands for no server: the local link, where the
/// services of a cloud's machine are, all hosts, or none.
fn is_no_host(url: &Url) -> bool {
    let of_4 = |ip: Ipv4Addr| {
        ip.is_link_local() || ip.is_multicast() || ip.is_broadcast() || ip.octets()[0] == 0
    };
    match url.host() {
        Some(Host::Ipv4(ip)) => of_4(ip),
        Some(Host::Ipv6(ip)) => {
            let inner = ip.to_ipv4_mapped();
            ip.is_unspecified()
                || ip.is_multicast()
                || ip.is_unicast_link_local()
                || inner.is_some_and(of_4)
        }
        Some(Host::Domain(_)) | None => false,
    }
}

/// Variables that say to npm, uv, the .NET tools, Docker and what they start where packages come from,
/// what they trust, where their settings are, and which programs and modules are found first. With a
/// value of a stranger the pinned package would be another one.
const STEERING: &str = "\
    PATH PATHEXT COMSPEC SHELL HOME USERPROFILE APPDATA LOCALAPPDATA TMPDIR TEMP TMP \
    HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE \
    REQUESTS_CA_BUNDLE OPENSSL_CONF NODE_PATH NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED \
    PYTHONPATH PYTHONUSERBASE PYTHONWARNINGS PYTHONBREAKPOINT PYTHONEXECUTABLE VIRTUAL_ENV";

/// Whether a variable is one of those for packages of this kind; further ones begin in this way.
fn steers(kind: &str, variable: &str) -> bool {
    let own: &[&str] = match kind {
        "npm" => &["NPM_CONFIG_", "YARN_", "PNPM_", "BUN_", "COREPACK_"],
        "pypi" => &["UV_", "PIP_"],
        "nuget" => &["DOTNET_", "NUGET_"],
        _ => &["DOCKER_", "BUILDX_"],
    };
    let starts = own.iter().chain(&["XDG_", "GIT_CONFIG", "GIT_SSH"]);
    let name = variable.to_ascii_uppercase();
    STEERING.split(' ').any(|one| one == name)
        || starts.into_iter().any(|start| name.starts_with(start))
}

/// What the parts of a package need.
struct Parts<'p> {
    /// The server, whose name keeps its inputs apart from those of others.
    server: &'p str,
    /// What kind of package it is.
    kind: &'p str,
    inputs: Vec<ServerInput>,
}

impl Parts<'_> {
    /// The arguments under a key, in order.
    fn arguments(&mut self, part: &Value, key: &str) -> Result<Vec<Value>, String> {
        let list = match part.get(key) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(format!("`{key}` is not a list")),
        };
        if list.len() > MAX_PARTS {
            return Err(format!("`{key}` has more than {MAX_PARTS} elements"));
        }
        let mut out = Vec::new();
        for argument in list {
            let name = text(argument, "name")?;
            let hint = text(argument, "valueHint")?;
            let label = name.clone().or(hint).unwrap_or_else(|| "argument".to_owned());
            let label = label.trim_start_matches('-').to_owned();
            let value = self.value(argument, &label, false)?;
            match argument.get("type").and_then(Value::as_str) {
                Some("named") => {
                    let name =
                        name.ok_or_else(|| format!("a named element of `{key}` has no name"))?;
                    if !is_plain(name.trim_start_matches('-'), "._-") {
                        return Err(format!("a name in `{key}` is not that of an option"));
                    }
                    if let Some(value) = value {
                        out.extend([json!(name), json!(value)]);
                    } else if argument.get("value").is_none() && argument["isRequired"] == true {
                        out.push(json!(name));
                    }
                }
                Some("positional") | None => out.extend(value.map(Value::from)),
                Some(other) => {
                    let other = SafeText::cut(other, 40);
                    return Err(format!("`{other}` is not a kind of argument"));
                }
            }
        }
        Ok(out)
    }

    /// The variables or headers under a key; none of them is one of [`STEERING`] with a value of the
    /// entry.
    fn variables(&mut self, part: &Value, key: &str) -> Result<Map<String, Value>, String> {
        let list = match part.get(key) {
            None | Some(Value::Null) => return Ok(Map::new()),
            Some(Value::Array(list)) => list,
            Some(_) => return Err(format!("`{key}` is not a list")),
        };
        if list.len() > MAX_PARTS {
            return Err(format!("`{key}` has more than {MAX_PARTS} elements"));
        }
        let mut out = Map::new();
        for variable in list {
            let name = text(variable, "name")?
                .ok_or_else(|| format!("an element of `{key}` has no name"))?;
            let extra = if key == "headers" { "-" } else { "_" };
            if !is_plain(&name, &format!("_{extra}")) {
                return Err(format!("a name in `{key}` is not in letters, digits and `{extra}`"));
            }
            if is_hook(&name, "") {
                return Err(format!("`{name}` would change how programs are loaded"));
            }
            let is_set = ["value", "default"].iter().any(|key| !variable[key].is_null());
            if key != "headers" && is_set && steers(self.kind, &name) {
                return Err(format!(
                    "`{name}` would change where the program that starts the package takes it from"
                ));
            }
            if let Some(value) = self.value(variable, &name, true)? {
                out.insert(name, json!(value));
            }
        }
        Ok(out)
    }

    /// The value of an argument, a variable or a header, with its inputs; `None` when it is optional
    /// and has none.
    fn value(&mut self, of: &Value, label: &str, is_named: bool) -> Result<Option<String>, String> {
        if let Some(value) = text(of, "value")? {
            if value.chars().any(is_hidden) {
                return Err(format!("the value of `{label}` has control or invisible characters"));
            }
            return self.template(&value, of.get("variables")).map(Some);
        }
        let is_required = of["isRequired"] == true || of["is_required"] == true;
        let default = scalar(of.get("default"))?;
        // One that stands under a name can be taken out again.
        if !is_required && default.is_none() && !(is_named && of["isSecret"] == true) {
            // Offered, and left out unless somebody wants it.
            self.input(of, label)?;
            return Ok(None);
        }
        Ok(Some(self.input(of, label)?))
    }

    /// A text with its `{name}` as inputs; all else in it is literal.
    fn template(&mut self, text: &str, variables: Option<&Value>) -> Result<String, String> {
        let (mut out, mut literal, mut rest) = (String::new(), String::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, then)) = after.split_once('}') else { break };
            literal.push_str(before);
            match variables.and_then(|all| all.get(name)) {
                Some(variable) if is_plain(name, "._-") => {
                    // `$` would make what follows literal.
                    if literal.ends_with('$') {
                        return Err("a `$` stands before a variable".to_owned());
                    }
                    out.push_str(&literal.replace("${", "$${"));
                    literal.clear();
                    out.push_str(&self.input(variable, name)?);
                }
                _ => literal.extend(["{", name, "}"]),
            }
            rest = then;
        }
        literal.push_str(rest);
        out.push_str(&literal.replace("${", "$${"));
        Ok(out)
    }

    /// An input, and the reference to it.
    fn input(&mut self, of: &Value, label: &str) -> Result<String, String> {
        let id: String = label
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
            .take(60)
            .collect();
        let id = id.trim_matches('-');
        if id.is_empty() {
            return Err("a value has no name by which it could be asked for".to_owned());
        }
        let id = format!("{}-{id}", self.server);
        if self.inputs.len() >= MAX_PARTS {
            return Err(format!("more than {MAX_PARTS} values are needed"));
        }
        let choices = match of.get("choices") {
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).take(MAX_PARTS).map(str::to_owned).collect()
            }
            _ => Vec::new(),
        };
        let input = ServerInput {
            description: SafeText::cut(
                &text(of, "description")?.unwrap_or_default(),
                MAX_TEXT_CHARS,
            ),
            is_required: of["isRequired"] == true || of["is_required"] == true,
            is_secret: of["isSecret"] == true || of["is_secret"] == true || is_secret_name(label),
            default: scalar(of.get("default"))?,
            choices,
            id: id.clone(),
        };
        if !self.inputs.iter().any(|known| known.id == id) {
            self.inputs.push(input);
        }
        Ok(format!("${{input:{id}}}"))
    }
}

fn scalar(value: Option<&Value>) -> Result<Option<String>, String> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other @ (Value::Number(_) | Value::Bool(_))) => Ok(Some(other.to_string())),
        Some(_) => Err("a default is not a text".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &Value) -> Result<PublishedServer, String> {
        PublishedServer::parse(value)
    }

    fn with(package: Value) -> Result<PublishedServer, String> {
        parse(&json!({"name": "io.example/weather-mcp", "version": "1.2.3", "packages": [package]}))
    }

    /// The reason why a package is refused.
    fn refusal(package: Value) -> String {
        let server = with(package).expect("the server itself is fine");
        assert!(server.ways.is_empty(), "{:?}", server.ways);
        server.refused.join("; ")
    }

    #[test]
    fn packages_become_entries_with_pinned_versions() {
        let server = with(json!({
            "registryType": "npm", "identifier": "@example/weather", "version": "1.2.3",
            "transport": {"type": "stdio"},
            "packageArguments": [
                {"type": "named", "name": "--units", "value": "metric"},
                {"type": "positional", "valueHint": "folder", "isRequired": true},
                {"type": "positional", "valueHint": "extra"},
                {"type": "positional", "value": "${HOME}/{place}", "variables": {"place": {"default": "x"}}},
            ],
            "environmentVariables": [
                {"name": "API_KEY", "isRequired": true, "isSecret": true, "description": "Key\u{1b}[31m"},
                {"name": "REGION", "default": "eu"},
                {"name": "UNUSED"},
            ],
        }))
        .expect("read");
        assert_eq!((server.short_name().as_str(), server.publisher()), ("weather", "io.example"));
        let way = &server.ways[0];
        assert_eq!(
            way.entry,
            json!({"command": "npx", "args": ["-y", "@example/weather@1.2.3", "--units", "metric",
                "${input:weather-folder}", "$${HOME}/${input:weather-place}"],
                "env": {"API_KEY": "${input:weather-api-key}", "REGION": "${input:weather-region}"}})
        );
        let needed: Vec<_> = way.needed().map(|input| input.id.as_str()).collect();
        assert_eq!(
            needed,
            ["weather-folder", "weather-place", "weather-api-key", "weather-region"]
        );
        assert!(way.inputs.iter().all(|input| !input.description.contains('\u{1b}')));
        let pypi = with(json!({"registryType": "pypi", "identifier": "weather", "version": "0.1"}));
        assert_eq!(pypi.expect("read").ways[0].entry["args"], json!(["weather@0.1"]));
        let oci = with(json!({"registryType": "oci", "identifier": "ghcr.io/a/b:1.0",
            "environmentVariables": [{"name": "T", "isRequired": true}]}));
        assert_eq!(
            oci.expect("read").ways[0].entry["args"],
            json!(["run", "-i", "--rm", "-e", "T", "ghcr.io/a/b:1.0"])
        );
        let remote = parse(&json!({"server": {"name": "a.b/c", "version": "1", "remotes": [
            {"type": "streamable-http", "url": "https://h.example/{t}/mcp", "variables": {"t": {}},
             "headers": [{"name": "X-Key", "isSecret": true, "isRequired": true}]}]}}));
        assert_eq!(
            remote.expect("read").ways[0].entry,
            json!({"type": "http", "url": "https://h.example/${input:c-t}/mcp",
                "headers": {"X-Key": "${input:c-x-key}"}})
        );
    }

    #[test]
    fn what_only_looks_hostile_is_taken() {
        for (kind, name, version) in [
            ("npm", "@a/b", "1.2.3-beta.1+build.5"),
            ("npm", "a.b_c", "v0.10.0"),
            ("pypi", "a", "2"),
            ("pypi", "a", "2026.1rc1"),
            ("nuget", "A.B", "1.0.0.4-x"),
        ] {
            package_way(kind, name, version).expect(version);
        }
        // A user may steer what the entry only offers, and settings of a server are none.
        let server = with(json!({"registryType": "npm", "identifier": "x", "version": "1.0.0",
            "environmentVariables": [{"name": "HTTPS_PROXY"}, {"name": "NODE_ENV", "value": "test"},
                {"name": "DOCKER_HOST", "default": "tcp://me"}, {"name": "GIT_AUTHOR", "value": "me"}]}));
        let server = server.expect("read");
        assert_eq!((server.ways.len(), server.refused.len()), (1, 0), "{:?}", server.refused);
        let remote = json!({"name": "a/b", "version": "1", "remotes": [
            {"type": "streamable-http", "url": "https://10.1.2.3/mcp"}]});
        assert_eq!(parse(&remote).expect("read").ways.len(), 1, "of a company's own registry");
    }

    #[test]
    fn names_and_versions_that_are_none_are_refused() {
        for (name, version) in [
            ("io.example/../../etc", "1"),
            ("noslash", "1"),
            ("a/b/c", "1"),
            ("io.ex\u{430}mple/x", "1"),
            ("io.example/x\u{1b}[2J", "1"),
            ("-rf/x", "1"),
            ("io.example/x", "latest"),
            ("io.example/x", "^1.0"),
            ("io.example/x", "1;rm -rf /"),
            ("io.example/x", ""),
        ] {
            assert!(parse(&json!({"name": name, "version": version})).is_err(), "{name} {version}");
        }
        for wrong in [
            json!(null),
            json!([]),
            json!({"name": 1}),
            json!({"name": "a/b", "version": "1", "packages": {}}),
        ] {
            assert!(parse(&wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hostile_packages_are_refused_with_the_field() {
        let npm = |identifier: &str, version: &str| json!({"registryType": "npm", "identifier": identifier, "version": version});
        for (package, words) in [
            (npm("x --registry=http://evil", "1.0.0"), "identifier"),
            (npm("--eval=process.exit()", "1.0.0"), "identifier"),
            (npm("../../x", "1.0.0"), "identifier"),
            (npm("file:/tmp/x", "1.0.0"), "identifier"),
            (npm("git+ssh://evil/x", "1.0.0"), "identifier"),
            (npm("x", "latest"), "version"),
            (npm("x", "*"), "version"),
            (npm("x", "1"), "version"),
            (npm("x", "1.2"), "version"),
            (npm("x", "1.x"), "version"),
            (npm("x", "1.2.x"), "version"),
            (npm("x", "next-14"), "version"),
            (npm("x", "1.2.3.4"), "version"),
            (npm("user/repository", "1.0.0"), "identifier"),
            (npm("@scope", "1.0.0"), "identifier"),
            (npm("@/x", "1.0.0"), "identifier"),
            (npm("x.tgz", "1.0.0"), "identifier"),
            (json!({"registryType": "pypi", "identifier": "x", "version": "beta2"}), "version"),
            (json!({"registryType": "nuget", "identifier": "x", "version": "1.x"}), "version"),
            (json!({"registryType": "oci", "identifier": "x:Stable"}), "another image each time"),
            (json!({"registryType": "oci", "identifier": "x", "version": "main"}), "another image"),
            (json!({"registryType": "cargo", "identifier": "x", "version": "1"}), "`cargo`"),
            (json!({"registryType": 7}), "registryType"),
            (json!({"registryType": "oci", "identifier": "x"}), "no version"),
            (json!({"registryType": "oci", "identifier": "x:latest"}), "another image each time"),
            (json!({"registryType": "oci", "identifier": "h:5000/x:latest"}), "another image"),
            (json!({"registryType": "oci", "identifier": "x:"}), "another image"),
            (json!({"registryType": "oci", "identifier": "-v=/:/host:1"}), "image"),
            (
                json!({"registryType": "oci", "identifier": "x:1",
                "runtimeArguments": [{"type": "named", "name": "-v", "value": "/:/host"}]}),
                "runtimeArguments",
            ),
            (
                json!({"registryType": "npm", "identifier": "x", "version": "1.0.0",
                "runtimeArguments": [{"type": "positional", "value": "-c"}]}),
                "runtimeArguments",
            ),
            (
                json!({"registryType": "npm", "identifier": "x", "version": "1.0.0",
                "environmentVariables": [{"name": "LD_PRELOAD", "value": "/tmp/x.so"}]}),
                "LD_PRELOAD",
            ),
            (
                json!({"registryType": "npm", "identifier": "x", "version": "1.0.0",
                "environmentVariables": [{"name": "A=B", "value": "x"}]}),
                "environmentVariables",
            ),
            (
                json!({"registryType": "npm", "identifier": "x", "version": "1.0.0",
                "packageArguments": [{"type": "named", "name": "--x y", "value": "1"}]}),
                "option",
            ),
            (
                json!({"registryType": "npm", "identifier": "x", "version": "1.0.0", "transport": {"type": "sse"}}),
                "stdio",
            ),
            (json!({"registryType": "mcpb", "identifier": "https://h.example/x.mcpb"}), "SHA-256"),
            (
                json!({"registryType": "mcpb", "identifier": "http://h.example/x.mcpb", "fileSha256": "0".repeat(64)}),
                "https",
            ),
        ] {
            let why = refusal(package.clone());
            assert!(why.contains(words), "{package}: {why}");
        }
        let many: Vec<Value> = (0..100).map(|n| json!({"name": format!("V{n}")})).collect();
        let why = refusal(
            json!({"registryType": "npm", "identifier": "x", "version": "1.0.0", "environmentVariables": many}),
        );
        assert!(why.contains("more than"), "{why}");
    }

    #[test]
    fn a_package_of_another_registry_is_never_taken_from_the_usual_one() {
        let base = |kind: &str, identifier: &str, base: Value| {
            json!({"registryType": kind, "identifier": identifier, "version": "1.0.0",
                   "registryBaseUrl": base})
        };
        let usual = |kind: &str| {
            let mut of_kind = USUAL_REGISTRIES.iter().filter(|(of, ..)| *of == kind);
            of_kind.next().map(|(_, name, end)| format!("{name}.{end}")).expect("one")
        };
        for kind in ["npm", "pypi", "nuget"] {
            let host = usual(kind);
            for place in [
                json!(format!("https://{host}")),
                json!(format!("https://registry.{host}/")),
                json!(null),
                json!(""),
            ] {
                let taken = with(base(kind, "x", place.clone())).expect("a server");
                assert_eq!(taken.ways.len(), 1, "{kind} {place}: {:?}", taken.refused);
            }
            for place in [
                "https://packages.example".to_owned(),
                format!("http://{host}"),
                format!("https://{host}.evil.example"),
                format!("https://evil{host}"),
                format!("https://{host}:8443"),
                format!("https://me@{host}"),
                format!("https://a.b.{host}"),
                "x\u{1b}[2J".to_owned(),
            ] {
                let why = refusal(base(kind, "x", json!(place)));
                assert!(why.contains("registryBaseUrl") && !why.contains('\u{1b}'), "{why}");
            }
            assert!(refusal(base(kind, "x", json!(7))).contains("registryBaseUrl"));
        }
        let image = |identifier: &str, place: &str| {
            let server = with(base("oci", identifier, json!(place))).expect("a server");
            server.ways.first().map(|way| way.pin.clone())
        };
        let hub = format!("https://{}", usual("oci"));
        assert_eq!(image("a/b", &hub).as_deref(), Some("a/b:1.0.0"));
        assert_eq!(image("a/b", "https://i.example").as_deref(), Some("i.example/a/b:1.0.0"));
        let own = image("i.example/a/b", "https://i.example");
        assert_eq!(own.as_deref(), Some("i.example/a/b:1.0.0"));
        assert_eq!(image("i.example/a/b", &hub), None);
        assert_eq!(image("i.example/a/b", "https://other.example"), None);
        let local = image("a/b", "http://127.0.0.1:5000");
        assert_eq!(local.as_deref(), Some("127.0.0.1:5000/a/b:1.0.0"));
    }

    #[test]
    fn addresses_of_nobody_s_server_are_refused() {
        for (url, words) in [
            ("javascript:alert(1)", "https"),
            ("file:///etc/passwd", "https"),
            ("http://h.example/mcp", "https"),
            ("https://user:pass@h.example/mcp", "user name"),
            ("https://{host}/mcp", "host"),
            ("https://169.254.169.254/latest", "network itself"),
            ("https://[fe80::1]/mcp", "network itself"),
            ("https://[::ffff:169.254.169.254]/mcp", "network itself"),
            ("https://0.0.0.0/mcp", "network itself"),
            ("https://2852039166/mcp", "network itself"),
        ] {
            let server = parse(
                &json!({"name": "a/b", "version": "1", "remotes": [{"type": "sse", "url": url}]}),
            )
            .expect("read");
            assert!(server.refused[0].contains(words), "{url}: {:?}", server.refused);
        }
    }

    #[test]
    fn variables_that_bring_another_package_are_refused() {
        for (kind, name) in [
            ("npm", "npm_config_registry"),
            ("npm", "NODE_TLS_REJECT_UNAUTHORIZED"),
            ("pypi", "UV_DEFAULT_INDEX"),
            ("pypi", "PythonPath"),
            ("nuget", "NUGET_PACKAGES"),
            ("oci", "DOCKER_HOST"),
            ("oci", "Path"),
        ] {
            let identifier = if kind == "oci" { "x:1" } else { "x" };
            let own = json!({"registryType": kind, "identifier": identifier, "version": "1.0.0"});
            for set in [
                json!({"value": "https://e.example"}),
                json!({"default": "https://e.example"}),
                json!({"value": "{p}", "variables": {"p": {}}}),
            ] {
                let mut package = own.clone();
                let mut variable = set.clone();
                variable["name"] = json!(name);
                package["environmentVariables"] = json!([variable]);
                let why = refusal(package);
                assert!(why.contains(&format!("`{name}` would change where")), "{kind}: {why}");
            }
        }
    }

    #[test]
    fn a_short_name_says_what_it_is_or_whose() {
        for (name, short) in [
            ("@modelcontextprotocol/server-memory", "memory"),
            ("mcp-server-time", "time"),
            ("io.example/weather-mcp", "weather"),
            ("@acme/mcp", "acme"),
            ("@acme/mcp-server", "acme"),
            ("com.acme/mcp", "acme"),
            ("@acme/server", "acme"),
            ("mcp", "mcp"),
            ("mcp-server", "mcp-server"),
        ] {
            assert_eq!(short_server_name(name), short, "{name}");
        }
    }
}
