//! The settings of an entry that do not depend on its transport.

use globset::Glob;
use indexmap::IndexSet;

use crate::base::{LogLevel, ServerName};
use crate::config::diagnostics::child;
use crate::config::entry::{Entry, Reader, number};
use crate::config::shape::parse_bytes;
use crate::config::syntax::{Node, NodeKind};
use crate::config::{
    ApprovalRule, DevConfig, GuardMode, OnTimeout, OutsideCalls, ProtocolChoice, RestartPolicy,
    RootConfig, ServerConfig,
};

/// Reads every setting into `out`.
pub(crate) fn read(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    if let Some(timeout) = reader.duration(entry, "timeout", "timeoutMs") {
        out.request_timeout = timeout;
    }
    if let Some(timeout) = reader.duration(entry, "startupTimeout", "startupTimeoutMs") {
        out.startup_timeout = timeout;
    }
    if let Some(timeout) = reader.duration(entry, "shutdownTimeout", "shutdownTimeoutMs") {
        out.shutdown_timeout = timeout;
    }
    if let Some(of) = inner(entry, "stop") {
        out.stop.stdin = reader.duration(&of, "stdin", "stdinMs");
        out.stop.term = reader.duration(&of, "term", "termMs");
    }
    out.disabled = reader.flag(entry, "disabled").unwrap_or(false);
    out.on_demand = reader.word(entry, "start") == Some("onDemand");
    out.idle_stop = reader.duration(entry, "idleStop", "idleStopMs");
    if let (Some((key, node)), false) = (entry.either("idleStop", "idleStopMs"), out.on_demand) {
        let message = format!("`{key}` means nothing without `\"start\": \"onDemand\"`");
        let pointer = child(&entry.pointer, key);
        reader.problems.warn("config/unused-key", &node.range, &pointer, message);
    }
    if let Some(key) = entry.either("dependencies", "dependsOn").map(|(key, _)| key) {
        let names = reader.texts(entry, key).unwrap_or_default();
        let all: IndexSet<ServerName> = names.iter().map(|name| ServerName::new(name)).collect();
        out.dependencies = all.into_iter().collect();
    }
    if reader.word(entry, "onTimeout") == Some("breaker") {
        out.on_timeout = OnTimeout::Breaker;
    }
    out.protocol = match reader.word(entry, "protocol") {
        None | Some("auto") => ProtocolChoice::Auto,
        Some("legacy") => ProtocolChoice::Legacy,
        Some("modern") => ProtocolChoice::Modern,
        Some(version) => protocol_version(entry, reader, version),
    };
    out.log_level = reader.word(entry, "logLevel").and_then(log_level);
    out.secret = reader.texts(entry, "secrets").unwrap_or_default();
    out.public = reader.texts(entry, "public").unwrap_or_default();
    restart(entry, reader, out);
    retry(entry, reader, out);
    breaker(entry, reader, out);
    cache(entry, reader, out);
    limits(entry, reader, out);
    tools(entry, reader, out);
    dev(entry, reader, out);
    guard(entry, reader, out);
    approvals(entry, reader, out);
    roots(entry, reader, out);
}

/// The versions of the specification so far.
const VERSIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

fn protocol_version(
    entry: &Entry<'_>,
    reader: &mut Reader<'_, '_>,
    version: &str,
) -> ProtocolChoice {
    if !VERSIONS.contains(&version)
        && let Some(node) = entry.node.get("protocol")
    {
        let message = format!("no version `{version}` of the specification is known");
        reader
            .problems
            .warn("config/protocol", &node.range, &child(&entry.pointer, "protocol"), message)
            .help(format!("known are {}", VERSIONS.join(", ")));
    }
    ProtocolChoice::Version(version.to_owned())
}

fn log_level(word: &str) -> Option<LogLevel> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

/// An object within the entry, as an entry of its own.
pub(crate) fn inner<'n>(entry: &Entry<'n>, key: &str) -> Option<Entry<'n>> {
    let node = entry.node.get(key)?;
    matches!(node.kind, NodeKind::Object(_)).then(|| Entry {
        name: entry.name.clone(),
        node,
        pointer: child(&entry.pointer, key),
        effective: child(&entry.effective, key),
    })
}

fn restart(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    if reader.word(entry, "restart") == Some("on-failure") {
        out.restart.policy = RestartPolicy::OnFailure;
    }
    let Some(of) = inner(entry, "restart") else { return };
    if reader.word(&of, "policy") == Some("on-failure") {
        out.restart.policy = RestartPolicy::OnFailure;
    }
    if let Some(max) = reader.integer(&of, "max") {
        out.restart.max = max as u32;
    }
    if let Some(backoff) = reader.duration(&of, "backoff", "backoffMs") {
        out.restart.backoff = backoff;
    }
}

fn retry(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    let Some(of) = inner(entry, "retry") else { return };
    out.retry.is_given = true;
    if let Some(max) = reader.integer(&of, "maxRetries") {
        out.retry.max_retries = max as u32;
    }
    if let Some(initial) = reader.duration(&of, "initial", "initialMs") {
        out.retry.initial = initial;
    }
    if let Some(max) = reader.duration(&of, "maxDelay", "maxDelayMs") {
        out.retry.max_delay = max;
    }
    if let Some((node, factor)) = of.node.get("factor").and_then(|n| Some((n, number(n)?))) {
        reader.trace(&child(&of.effective, "factor"), node, Vec::new());
        out.retry.factor = factor;
    }
}

fn breaker(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    let Some(of) = inner(entry, "breaker") else { return };
    let breaker = &mut out.breaker;
    if let Some(threshold) = reader.integer(&of, "threshold") {
        breaker.threshold = threshold as u32;
    }
    for (seconds, millis, slot) in [
        ("window", "windowMs", &mut breaker.window),
        ("cooldown", "cooldownMs", &mut breaker.cooldown),
    ] {
        *slot = reader.duration(&of, seconds, millis).unwrap_or(*slot);
    }
    breaker.errors = reader.flag(&of, "errors").unwrap_or(false);
    breaker.tool_errors = reader.flag(&of, "toolErrors").unwrap_or(false);
}

fn cache(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    if let Some(enabled) = reader.flag(entry, "cache") {
        out.cache.enabled = enabled;
    }
    let Some(of) = inner(entry, "cache") else { return };
    if let Some(enabled) = reader.flag(&of, "enabled") {
        out.cache.enabled = enabled;
    }
    if let Some(ttl) = reader.duration(&of, "ttl", "ttlMs") {
        out.cache.ttl = ttl;
    }
    if let Some(stale) = reader.flag(&of, "staleIfUnavailable") {
        out.cache.stale_if_unavailable = stale;
    }
    if let Some(most) = reader.integer(&of, "maxEntries") {
        out.cache.max_entries = most;
    }
    if let Some(most) = bytes(&of, reader, "maxBytes") {
        out.cache.max_bytes = most;
    }
}

/// A size: a number of bytes or text with a unit.
pub(crate) fn bytes(of: &Entry<'_>, reader: &mut Reader<'_, '_>, key: &str) -> Option<u64> {
    let node = of.node.get(key)?;
    let value = match &node.kind {
        NodeKind::Text(text) => parse_bytes(text)?,
        _ => return reader.integer(of, key),
    };
    reader.trace(&child(&of.effective, key), node, Vec::new());
    Some(value)
}

/// What the server may send; the limits of the process are the transport's.
fn limits(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    let Some(of) = inner(entry, "limits") else { return };
    let wire = &mut out.wire;
    for (key, slot) in [
        ("lineBytes", &mut wire.line_bytes),
        ("depth", &mut wire.depth),
        ("nodes", &mut wire.nodes),
        ("stderrLineBytes", &mut wire.stderr_line_bytes),
        ("stderrBytes", &mut wire.stderr_bytes),
        ("listPages", &mut wire.list_pages),
        ("listEntries", &mut wire.list_entries),
        ("queueMessages", &mut wire.queue_messages),
        ("queueBytes", &mut wire.queue_bytes),
        ("inputRounds", &mut wire.input_rounds),
        ("inputsPerRound", &mut wire.inputs_per_round),
        ("approvals", &mut wire.approvals),
        ("approvalsPerMinute", &mut wire.approvals_per_minute),
    ] {
        if let Some(value) = reader.integer(&of, key) {
            *slot = value as usize;
        }
    }
    if let Some(most) = reader.duration(&of, "maxCall", "maxCallMs") {
        wire.max_call = most;
    }
    if let Some(least) = reader.duration(&of, "refetch", "refetchMs") {
        wire.refetch = least;
    }
    if let Some(most) = reader.duration(&of, "maxWaiting", "maxWaitingMs") {
        wire.max_waiting = most;
    }
    let content = &mut out.content;
    for (key, slot) in [
        ("descriptionBytes", &mut content.description_bytes),
        ("schemaDepth", &mut content.schema_depth),
        ("subschemas", &mut content.subschemas),
        ("imagePixels", &mut content.image_pixels),
        ("imageBytes", &mut content.image_bytes),
    ] {
        if let Some(value) = reader.integer(&of, key) {
            *slot = value;
        }
    }
    if let Some(most) = reader.duration(&of, "schemaTime", "schemaTimeMs") {
        content.schema_time = most;
    }
}

fn tools(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    if entry.node.get("tools").is_some_and(|node| matches!(node.kind, NodeKind::List(_))) {
        out.tools.allow = globs(entry, reader, "tools");
        // A list that names none offers none.
        out.tools.deny = if out.tools.allow.is_empty() { vec!["*".to_owned()] } else { Vec::new() };
        return;
    }
    let Some(of) = inner(entry, "tools") else { return };
    out.tools.allow = globs(&of, reader, "allow");
    out.tools.deny = globs(&of, reader, "deny");
}

/// Globs at a key: one text or a list of them; bad ones are reported.
fn globs(of: &Entry<'_>, reader: &mut Reader<'_, '_>, key: &str) -> Vec<String> {
    let Some(node) = of.node.get(key) else { return Vec::new() };
    let pointer = child(&of.pointer, key);
    let nodes: Vec<(&Node, String)> = match &node.kind {
        NodeKind::List(elements) => {
            elements.iter().enumerate().map(|(i, e)| (e, format!("{pointer}/{i}"))).collect()
        }
        _ => vec![(node, pointer.clone())],
    };
    let found = match &node.kind {
        NodeKind::List(_) => reader.texts(of, key).unwrap_or_default(),
        _ => reader.text(of, key).into_iter().collect(),
    };
    for (glob, (node, pointer)) in found.iter().zip(&nodes) {
        if let Err(error) = Glob::new(glob) {
            let message = format!("this is not a glob: {}", error.kind());
            reader.problems.error("config/glob", &node.range, pointer, message);
        }
    }
    found
}

fn dev(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    let Some(of) = inner(entry, "dev") else { return };
    let watch = globs(&of, reader, "watch");
    let build = match of.node.get("build").map(|n| &n.kind) {
        Some(NodeKind::List(_)) => reader.texts(&of, "build"),
        Some(NodeKind::Text(_)) => {
            reader.text(&of, "build").and_then(|line| words(&of, reader, &line))
        }
        _ => None,
    };
    if let Some(node) = of.node.get("build")
        && build.as_ref().is_some_and(Vec::is_empty)
    {
        let message = "`build` names no program";
        let pointer = child(&of.pointer, "build");
        reader.problems.error("config/empty", &node.range, &pointer, message);
    }
    out.dev = Some(DevConfig { watch, build, rerun: reader.flag(&of, "rerun").unwrap_or(false) });
}

/// A command line as one text: split at white space; what would need a shell is refused.
fn words(of: &Entry<'_>, reader: &mut Reader<'_, '_>, line: &str) -> Option<Vec<String>> {
    if !line.contains(['"', '\'', '\\', '|', '&', ';', '<', '>', '$', '`', '*']) {
        return Some(line.split_whitespace().map(str::to_owned).collect());
    }
    let node = of.node.get("build")?;
    let message = "`build` is run without a shell, and this text needs one";
    let pointer = child(&of.pointer, "build");
    reader
        .problems
        .error("config/needs-shell", &node.range, &pointer, message)
        .help("write it as a list: [\"program\", \"argument\"]");
    None
}

fn guard(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    if let Some(mode) = reader.word(entry, "guard").and_then(guard_mode) {
        out.guard.default = mode;
    }
    let Some(of) = inner(entry, "guard") else { return };
    if let Some(mode) = reader.word(&of, "default").and_then(guard_mode) {
        out.guard.default = mode;
    }
    let Some(tools) = inner(&of, "tools") else { return };
    for m in tools.node.members() {
        reader.trace(&child(&tools.effective, &m.key), &m.value, Vec::new());
        if let Some(mode) = m.value.text().and_then(guard_mode) {
            out.guard.tools.insert(m.key.clone(), mode);
        }
    }
}

fn guard_mode(word: &str) -> Option<GuardMode> {
    serde_json::from_value(serde_json::Value::String(word.to_owned())).ok()
}

fn approvals(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    let Some(of) = inner(entry, "approvals") else { return };
    match reader.word(&of, "outsideCalls") {
        Some("allow") => out.approvals.outside_calls = OutsideCalls::Allow,
        Some("deny") => out.approvals.outside_calls = OutsideCalls::Deny,
        _ => {}
    }
    for (key, slot) in
        [("sampling", &mut out.approvals.sampling), ("elicitation", &mut out.approvals.elicitation)]
    {
        if reader.word(&of, key) == Some("deny") {
            *slot = ApprovalRule::Deny;
        }
        if let Some(canned) = inner(&of, key).as_ref().and_then(|e| e.node.get("canned")) {
            reader.trace(&child(&of.effective, key), canned, Vec::new());
            *slot = ApprovalRule::Canned(canned.to_json());
        }
    }
}

fn roots(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, out: &mut ServerConfig) {
    let Some(node) = entry.node.get("roots") else { return };
    for (i, element) in node.elements().iter().enumerate() {
        let pointer = format!("{}/roots/{i}", entry.pointer);
        let effective = format!("{}/roots/{i}", entry.effective);
        let (uri_node, uri_pointer) = match element.get("uri") {
            Some(uri) => (uri, child(&pointer, "uri")),
            None => (element, pointer.clone()),
        };
        let Some(text) = reader.expanded(uri_node, &uri_pointer, &effective) else { continue };
        let name = element
            .get("name")
            .and_then(|n| reader.expanded(n, &child(&pointer, "name"), &child(&effective, "name")));
        match root_uri(&text, reader) {
            Ok(uri) => out.roots.push(RootConfig { uri, name }),
            Err(message) => {
                reader
                    .problems
                    .error("config/root", &uri_node.range, &uri_pointer, message)
                    .help("write a folder, or a `file://` URI");
            }
        }
    }
}

/// A root as a `file://` URI; relative folders start at the file's.
fn root_uri(text: &str, reader: &Reader<'_, '_>) -> Result<String, String> {
    if let Some((scheme, _)) = text.split_once("://") {
        let parsed = url::Url::parse(text).map_err(|e| format!("this is not a URI: {e}"))?;
        if scheme.eq_ignore_ascii_case("file") {
            return Ok(parsed.into());
        }
        return Err(format!("a root must be a folder, not a `{scheme}:` address"));
    }
    let path = crate::config::environment::clean(&reader.folder.join(text));
    url::Url::from_directory_path(&path)
        .map(|url| url.as_str().trim_end_matches('/').to_owned())
        .map_err(|()| "this is not an absolute folder".to_owned())
}
