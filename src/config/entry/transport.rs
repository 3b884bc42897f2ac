//! How an entry's server is reached: its process, or its address.

use std::path::PathBuf;

use indexmap::IndexMap;

use super::address;
use super::reader::{Entry, Reader, number};
use crate::base::Secret;
use crate::base::file::file_key;
use crate::config::diagnostics::child;
use crate::config::env_file;
use crate::config::hazards::{is_hidden, is_hook};
use crate::config::keys::{ADDRESS, PROCESS, SERVER, URLS};
use crate::config::mask::masked_address;
use crate::config::shape::meant;
use crate::config::source::Source;
use crate::config::syntax::{Node, NodeKind};
use crate::config::{Origin, ProcessLimits, Severity, StdioConfig, TransportConfig, TransportKind};

/// Stands in the arguments of a container engine for the file that it writes the container's id to.
pub(crate) const ID_FILE: &str = "{cidfile}";
/// The label with the process id of the host, which is filled in at the start.
pub(crate) const HOST_LABEL: &str = "mcpdeck.host=";
/// The label that holds which entry a container is of.
pub(crate) const ENTRY_LABEL: &str = "mcpdeck.entry=";

/// Reads the transport. `None` when it cannot be told or used.
pub(crate) fn read(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<TransportConfig> {
    let kind = kind(entry, reader)?;
    unused_keys(entry, reader, kind);
    match kind {
        TransportKind::Stdio => stdio(entry, reader).map(TransportConfig::Stdio),
        TransportKind::Http => address::read(entry, reader, kind).map(TransportConfig::Http),
        TransportKind::Sse => address::read(entry, reader, kind).map(TransportConfig::Sse),
        TransportKind::WebSocket => {
            address::read(entry, reader, kind).map(TransportConfig::WebSocket)
        }
    }
}

fn transport_word(word: &str) -> Option<TransportKind> {
    Some(match word {
        "stdio" | "local" => TransportKind::Stdio,
        "http" | "streamable-http" | "streamableHttp" | "remote" => TransportKind::Http,
        "sse" => TransportKind::Sse,
        "websocket" | "ws" => TransportKind::WebSocket,
        _ => return None,
    })
}

fn kind(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<TransportKind> {
    let node = entry.node;
    let brace = node.range.start..node.range.start + 1;
    let url = URLS.iter().find(|key| node.get(key).is_some());
    let command = node.get("command").or_else(|| node.get("launch"));
    let declared = match (reader.word(entry, "type"), reader.word(entry, "transport")) {
        // `local` and `remote` say where; `transport` says how.
        (Some("local" | "remote") | None, Some(how)) => Some((how, "transport")),
        (Some(kind), _) => Some((kind, "type")),
        (None, None) => None,
    };
    let Some((word, key)) = declared else {
        return match (command, url) {
            (Some(_), None) => Some(TransportKind::Stdio),
            (None, Some(_)) => Some(TransportKind::Http),
            (Some(_), Some(url)) => {
                let message = format!("both `command` and `{url}` are given");
                reader
                    .problems
                    .error("config/transport", &brace, &entry.pointer, message)
                    .help("keep one, or say which with `type`");
                None
            }
            (None, None) => {
                let message = "the entry needs `command`, `launch` or `url`";
                let words = node.members().iter().map(|member| member.key.as_str());
                let mut near = words.filter_map(|key| Some((key, meant(&SERVER, key)?)));
                let near =
                    near.find(|(key, meant)| key != meant && ["command", "url"].contains(meant));
                let help = match near {
                    Some((key, meant)) => format!("`{key}` may be meant to be `{meant}`"),
                    None => "`command` starts a process, `url` connects to a server".to_owned(),
                };
                let missing = "config/missing-key";
                reader.problems.error(missing, &brace, &entry.pointer, message).help(help);
                None
            }
        };
    };
    // A word that is not known has been reported by the structural check.
    let kind = transport_word(word)?;
    let (needed, there) = match kind {
        TransportKind::Stdio => ("command", command.is_some()),
        _ => ("url", url.is_some()),
    };
    if there {
        return Some(kind);
    }
    let message = format!("`{key}` is `{word}`, but `{needed}` is missing");
    let problem = reader.problems.error("config/missing-key", &brace, &entry.pointer, message);
    if command.is_some() {
        problem.help("`command` goes with `\"type\": \"stdio\"`, or without `type`");
    } else if url.is_some() {
        problem.help("`url` goes with `\"type\": \"http\"`, or without `type`");
    }
    None
}

/// Keys of the other kind of transport: probably a mistake.
fn unused_keys(entry: &Entry<'_>, reader: &mut Reader<'_, '_>, kind: TransportKind) {
    let unused = if kind == TransportKind::Stdio { ADDRESS.as_slice() } else { &PROCESS };
    for m in entry.node.members().iter().filter(|m| unused.contains(&m.key.as_str())) {
        let message = format!("`{}` means nothing to a server of type `{}`", m.key, kind.as_str());
        let pointer = child(&entry.pointer, &m.key);
        reader.problems.warn("config/unused-key", &m.key_range, &pointer, message);
    }
}

fn stdio(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<StdioConfig> {
    let mut command = reader.text(entry, "command");
    if let (Some(command), Some(node)) = (&command, entry.node.get("command")) {
        check_command(command, node, entry, reader);
    }
    let mut args = match entry.node.get("args") {
        Some(_) => reader.texts(entry, "args"),
        None => Some(Vec::new()),
    };
    let cwd = match entry.node.get("cwd") {
        Some(_) => reader.text(entry, "cwd").map(|cwd| reader.folder.join(cwd)),
        None => Some(reader.folder.clone()),
    };
    let cwd = cwd.map(|cwd| crate::config::environment::clean(&cwd));
    if let (Some(cwd), Some(node)) = (&cwd, entry.node.get("cwd"))
        && !cwd.is_dir()
    {
        let pointer = child(&entry.pointer, "cwd");
        // It may be made later, by a build for example; the start would say so again.
        let message = "the working directory does not exist";
        reader.problems.warn("config/cwd", &node.range, &pointer, message);
    }
    let env = environment(entry, reader);
    if entry.node.get("launch").is_some() {
        let (program, mut line) = launch(entry, reader, &mut env.as_ref()?.keys())?;
        line.append(args.as_mut()?);
        (command, args) = (Some(program), Some(line));
    }
    let inherit_env = reader.flag(entry, "inheritEnv").unwrap_or(false);
    // The limits are read with the settings.
    let limits = ProcessLimits::default();
    Some(StdioConfig { command: command?, args: args?, env: env?, cwd, inherit_env, limits })
}

/// The program and its arguments, before those of the entry. `None` when the entry does not name one.
fn launch(
    entry: &Entry<'_>,
    reader: &mut Reader<'_, '_>,
    variables: &mut dyn Iterator<Item = &String>,
) -> Option<(String, Vec<String>)> {
    let of = entry.inner("launch")?;
    let command = reader.text(entry, "command");
    match (of.inner("docker"), of.node.get("uv")) {
        (Some(docker), None) => {
            let args = docker_run(&docker, reader, variables)?;
            Some(("docker".to_owned(), args.into_iter().chain(command).collect()))
        }
        (None, Some(_)) => {
            let package = reader.text(&of, "uv")?;
            let name = package.split(['=', '<', '>', '!', '~', '@', '[', ';', ' ']).next();
            let program = command.or_else(|| name.map(str::to_owned))?;
            Some(("uvx".to_owned(), vec!["--from".to_owned(), package, program]))
        }
        _ => {
            let message = "`launch` needs either `uv` or `docker`";
            let pointer = child(&entry.pointer, "launch");
            reader.problems.error("config/missing-key", &of.node.range, &pointer, message);
            None
        }
    }
}

fn docker_run(
    of: &Entry<'_>,
    reader: &mut Reader<'_, '_>,
    variables: &mut dyn Iterator<Item = &String>,
) -> Option<Vec<String>> {
    let key = file_key(format!("{}\0{}", reader.folder.display(), of.name));
    let entry = format!("{ENTRY_LABEL}{key}");
    let fixed = ["run", "--init", "--rm", "-i", "--cidfile", ID_FILE, "--label", &entry];
    let more = ["--label", HOST_LABEL, "--security-opt", "no-new-privileges"];
    let mut args: Vec<String> = fixed.iter().chain(&more).map(|arg| (*arg).to_owned()).collect();
    let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
    if let Some(cpus) = of.node.get("cpus").and_then(number) {
        option("--cpus", cpus.to_string());
    }
    if let Some(memory) = reader.bytes(of, "memory") {
        option("--memory", format!("{memory}b"));
    }
    if let Some(network) = reader.text(of, "network") {
        option("--network", network);
    }
    if of.node.get("mounts").is_some() {
        for mount in reader.texts(of, "mounts")? {
            option("--volume", mount);
        }
    }
    // By name: the values are in the environment, never in the arguments.
    for name in variables {
        option("--env", name.clone());
    }
    args.push(reader.text(of, "image")?);
    Some(args)
}

fn check_command(command: &str, node: &Node, entry: &Entry<'_>, reader: &mut Reader<'_, '_>) {
    let pointer = child(&entry.pointer, "command");
    if command.trim().is_empty() {
        let message = "`command` is empty";
        reader.problems.error("config/empty", &node.range, &pointer, message);
        return;
    }
    let mut words = command.split_whitespace();
    let (program, more) = (words.next().unwrap_or_default(), words.count());
    let has_args = entry.node.get("args").is_some_and(|args| !args.elements().is_empty());
    if more > 0 && !has_args && !command.contains(['/', '\\']) {
        let message = "`command` looks like a whole command line";
        let program = masked_address(program);
        reader
            .problems
            .warn("config/command-line", &node.range, &pointer, message)
            .help(format!("write \"command\": \"{program}\" and the rest as `args`"));
    }
}

/// `envFile` and `env` together. `None` when a value cannot be used.
fn environment(entry: &Entry<'_>, reader: &mut Reader<'_, '_>) -> Option<IndexMap<String, Secret>> {
    let mut env = IndexMap::new();
    let mut sound = true;
    if entry.node.get("envFile").is_some() {
        sound &= env_file(entry, reader, &mut env);
    }
    let pointer = child(&entry.pointer, "env");
    let effective = child(&entry.effective, "env");
    for m in entry.node.get("env").map(Node::members).unwrap_or_default() {
        let at = child(&pointer, &m.key);
        if let Some(wrong) = bad_name(&m.key) {
            // What stands behind an `=` in the name may be the secret itself.
            let at = if m.key.contains('=') { pointer.clone() } else { at };
            reader.problems.error("config/env-name", &m.key_range, &at, wrong);
            sound = false;
            continue;
        }
        if is_hook(&m.key, m.value.text().unwrap_or_default()) {
            let message = format!("`{}` makes a loader or interpreter run other code", m.key);
            reader.problems.warn("config/env-hook", &m.key_range, &at, message);
        }
        match scalar(&m.value, &at, &child(&effective, &m.key), reader) {
            Some(Some(value)) => {
                env.insert(m.key.clone(), Secret::new(value));
            }
            Some(None) => {
                env.shift_remove(&m.key);
            }
            None => sound = false,
        }
    }
    sound.then_some(env)
}

/// An environment value as text; the inner `None` is null.
#[expect(clippy::option_option, reason = "unusable and absent are different answers")]
fn scalar(
    node: &Node,
    pointer: &str,
    effective: &str,
    reader: &mut Reader<'_, '_>,
) -> Option<Option<String>> {
    let text = match &node.kind {
        NodeKind::Null => return Some(None),
        NodeKind::Number(written) => written.clone(),
        NodeKind::Bool(value) => value.to_string(),
        _ => return reader.expanded(node, pointer, effective).map(Some),
    };
    reader.trace(effective, node, Vec::new());
    Some(Some(text))
}

/// What is wrong with the name of a variable (C10).
fn bad_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("the name of a variable is empty".to_owned());
    }
    if let Some((name, _)) = name.split_once('=') {
        return Some(format!("`{name}=` has an `=` in the name of a variable"));
    }
    if name.chars().any(is_hidden) {
        return Some("the name of a variable holds a control or invisible character".to_owned());
    }
    name.contains(char::is_whitespace)
        .then(|| format!("`{name}` has white space in the name of a variable"))
}

fn env_file(
    entry: &Entry<'_>,
    reader: &mut Reader<'_, '_>,
    env: &mut IndexMap<String, Secret>,
) -> bool {
    let Some(node) = entry.node.get("envFile") else { return true };
    let pointer = child(&entry.pointer, "envFile");
    let Some(named) = reader.text(entry, "envFile") else { return false };
    let path: PathBuf = crate::config::environment::clean(&reader.folder.join(&named));
    reader.reads.push(path.clone());
    let source = match Source::read_env_file(&path) {
        Ok(source) => source,
        Err(problem) => {
            let message = format!("the env file cannot be used: {}", problem.message);
            let help = problem.help.unwrap_or_else(|| format!("looked for {}", path.display()));
            reader.problems.error("config/env-file", &node.range, &pointer, message).help(help);
            return false;
        }
    };
    let (lines, problems) = env_file::parse(&source, reader.scope.env);
    let sound = problems.is_empty();
    let hooks = lines.iter().filter(|line| is_hook(&line.name, "/")).map(|line| {
        let message = format!("`{}` makes a loader or interpreter run other code", line.name);
        source.diagnostic("config/env-hook", Severity::Warning, line.range.clone(), message)
    });
    for mut problem in problems.into_iter().chain(hooks) {
        problem.pointer.clone_from(&pointer);
        problem.server = Some(entry.name.clone());
        reader.problems.list.push(problem);
    }
    for line in lines {
        let at = source.position(line.range.start);
        let effective = child(&child(&entry.effective, "env"), &line.name);
        reader.origins.insert(effective, Origin { at, via: line.via, written: line.written });
        env.insert(line.name, Secret::new(line.value));
    }
    sound
}
