//! How an entry's server is reached: its process, or its address.

use indexmap::IndexMap;
use serde_json::Value;

use super::address;
use super::reader::EntryReader;
use crate::environment::clean_path;
use crate::hazards::{is_hidden, is_hook};
use crate::keys::{ADDRESS, OPENAPI_KEY, PROCESS, SERVER, URLS};
use crate::mask::masked_address;
use crate::shape::{Shape, meant};
use crate::source::SourceText;
use crate::syntax::{NodeKind, SyntaxNode};
use crate::{Severity, StdioConfig, TransportConfig, TransportKind, ValueOrigin, env_file};
use base::Secret;
use base::file::file_key;
use base::pointer::child_pointer;

/// Placeholder in container engine arguments for the file that receives the container's id.
pub const ID_FILE: &str = "{cidfile}";
/// Label for the process id of the host, which is filled in at start.
pub const HOST_LABEL: &str = "mcpdeck.host=";
/// Label that identifies the entry a container belongs to.
pub const ENTRY_LABEL: &str = "mcpdeck.entry=";

/// Reads the transport from the settings. `None` when it cannot be used.
pub(crate) fn read(
    reader: &mut EntryReader<'_, '_>,
    kind: TransportKind,
) -> Option<TransportConfig> {
    // Keys of the other kind of transport: probably a mistake.
    for m in reader.entry.node.members().iter().filter(|m| is_unused(kind, &m.key)) {
        let message = format!("`{}` is not used by a server of type `{}`", m.key, kind.as_str());
        let pointer = child_pointer(&reader.entry.pointer, &m.key);
        reader.problems.warn("config/unused-key", &m.key_range, &pointer, message);
    }
    let of = match kind {
        TransportKind::Stdio => return stdio(reader).map(TransportConfig::Stdio),
        TransportKind::Http => TransportConfig::Http,
        TransportKind::Sse => TransportConfig::Sse,
        TransportKind::WebSocket => TransportConfig::WebSocket,
        TransportKind::OpenApi => {
            return address::read_openapi(reader)
                .map(|api| TransportConfig::OpenApi(Box::new(api)));
        }
    };
    address::read(reader, kind).map(of)
}

/// Whether a key means nothing for a kind of transport.
pub(crate) fn is_unused(kind: TransportKind, key: &str) -> bool {
    match kind {
        TransportKind::Stdio => ADDRESS.contains(&key) || key == OPENAPI_KEY,
        TransportKind::OpenApi => PROCESS.contains(&key),
        _ => PROCESS.contains(&key) || key == OPENAPI_KEY,
    }
}

fn transport_word(word: &str) -> Option<TransportKind> {
    Some(match word {
        "stdio" | "local" => TransportKind::Stdio,
        "http" | "streamable-http" | "streamableHttp" | "remote" => TransportKind::Http,
        "sse" => TransportKind::Sse,
        "websocket" | "ws" => TransportKind::WebSocket,
        OPENAPI_KEY => TransportKind::OpenApi,
        _ => return None,
    })
}

/// The transport kind. `None` when the entry does not determine it, which is reported.
pub(crate) fn kind(reader: &mut EntryReader<'_, '_>) -> Option<TransportKind> {
    let node = reader.entry.node;
    let url = URLS.iter().find(|key| node.get(key).is_some());
    let command = node.get("command").or_else(|| node.get("launch"));
    let mut word = |key: &str| {
        let node = node.get(key)?;
        reader.trace(&reader.entry.place().child(key).effective, node, Vec::new());
        node.text()
    };
    let describes = node.get(OPENAPI_KEY).is_some();
    let (word, key) = match (word("type"), word("transport"), command, url) {
        // `local` and `remote` say where; `transport` says how.
        (Some("local" | "remote") | None, Some(how), ..) => (how, "transport"),
        (Some(kind), ..) => (kind, "type"),
        (None, None, None, _) if describes => return Some(TransportKind::OpenApi),
        (None, None, Some(_), _) if describes => {
            let message = "both `command` and `openapi` are given";
            let problem = reader.report(("config/transport", Severity::Error), "", message);
            problem.help("keep one, or say which with `type`");
            return None;
        }
        (None, None, Some(_), None) => return Some(TransportKind::Stdio),
        (None, None, None, Some(_)) => return Some(TransportKind::Http),
        (None, None, Some(_), Some(url)) => {
            let message = format!("both `command` and `{url}` are given");
            let problem = reader.report(("config/transport", Severity::Error), "", message);
            problem.help("keep one, or say which with `type`");
            return None;
        }
        (None, None, None, None) => {
            let message = "the entry needs `command`, `launch`, `url` or `openapi`";
            let words = node.members().iter().map(|member| member.key.as_str());
            let mut near = words.filter_map(|key| Some((key, meant(&SERVER, key)?)));
            let near = near.find(|(key, meant)| key != meant && ["command", "url"].contains(meant));
            let help = match near {
                Some((key, meant)) => format!("`{key}` may be meant to be `{meant}`"),
                None => "`command` starts a process, `url` connects to a server".to_owned(),
            };
            reader.report(("config/missing-key", Severity::Error), "", message).help(help);
            return None;
        }
    };
    // The structural check has reported an unknown word.
    let kind = transport_word(word)?;
    let (needed, there) = match kind {
        TransportKind::Stdio => ("command", command.is_some()),
        TransportKind::OpenApi => (OPENAPI_KEY, describes),
        _ => ("url", url.is_some()),
    };
    if there {
        return Some(kind);
    }
    let message = format!("`{key}` is `{word}`, but `{needed}` is missing");
    let problem = reader.report(("config/missing-key", Severity::Error), "", message);
    if command.is_some() {
        problem.help("`command` goes with `\"type\": \"stdio\"`, or without `type`");
    } else if url.is_some() {
        problem.help("`url` goes with `\"type\": \"http\"`, or without `type`");
    }
    None
}

fn stdio(reader: &mut EntryReader<'_, '_>) -> Option<StdioConfig> {
    let mut stdio: StdioConfig = reader.part(&Value::Object(reader.set.clone()));
    // Not that of `stdio`, which is the default where another setting has an error.
    if let Some(command) = reader.set.get("command").and_then(Value::as_str).map(str::to_owned) {
        check_command(&command, reader);
    }
    stdio.cwd = Some(clean_path(&reader.folder.join(stdio.cwd.unwrap_or_default())));
    if reader.set.contains_key("cwd") && stdio.cwd.as_deref().is_some_and(|cwd| !cwd.is_dir()) {
        // It may be created later, for example by a build; the start checks again.
        let message = "the working directory does not exist";
        let written = reader.entry.node.get("cwd").and_then(SyntaxNode::text).unwrap_or_default();
        let foreign = cfg!(unix) && (written.contains('\\') || written.get(1..3) == Some(":/"));
        let problem = reader.report(("config/cwd", Severity::Warning), "cwd", message);
        if foreign {
            problem.help("this is a path of Windows: write the one of this system");
        }
    }
    stdio.env = environment(reader);
    if let Some(launch) = reader.set.get("launch").cloned() {
        let command = reader.set.contains_key("command").then_some(stdio.command);
        let names = |key| {
            let node = reader.entry.node.get("launch");
            node.is_some_and(|launch| launch.get(key).is_some())
        };
        let (program, mut line) = match (names("docker"), names("uv")) {
            (true, false) => {
                let mut line = docker_run(&launch["docker"], reader, stdio.env.keys())?;
                line.extend(command);
                ("docker", line)
            }
            (false, true) => {
                let package = launch["uv"].as_str()?.to_owned();
                let name = package.split(['=', '<', '>', '!', '~', '@', '[', ';', ' ']).next();
                let program = command.or_else(|| name.map(str::to_owned))?;
                ("uvx", vec!["--from".to_owned(), package, program])
            }
            _ => {
                let message = "`launch` needs either `uv` or `docker`";
                let rule = ("config/missing-key", Severity::Error);
                reader.report(rule, "launch", message);
                return None;
            }
        };
        line.append(&mut stdio.args);
        (stdio.command, stdio.args) = (program.to_owned(), line);
    }
    Some(stdio)
}

/// The arguments of `docker` up to the image.
fn docker_run<'v>(
    docker: &Value,
    reader: &EntryReader<'_, '_>,
    variables: impl Iterator<Item = &'v String>,
) -> Option<Vec<String>> {
    let key = file_key(format!("{}\0{}", reader.folder.display(), reader.entry.name));
    let label = format!("{ENTRY_LABEL}{key}");
    let fixed = ["run", "--init", "--rm", "-i", "--cidfile", ID_FILE, "--label", &label];
    let more = ["--label", HOST_LABEL, "--security-opt", "no-new-privileges"];
    let mut args: Vec<String> = fixed.iter().chain(&more).map(|arg| (*arg).to_owned()).collect();
    let mut option = |name: &str, value: String| args.extend([name.to_owned(), value]);
    if let Some(cpus) = docker["cpus"].as_f64() {
        option("--cpus", cpus.to_string());
    }
    if let Some(memory) = docker["memory"].as_u64() {
        option("--memory", format!("{memory}b"));
    }
    if let Some(network) = docker["network"].as_str() {
        option("--network", network.to_owned());
    }
    for mount in docker["mounts"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        option("--volume", mount.to_owned());
    }
    // By name: the values are in the environment, never in the arguments.
    for name in variables {
        option("--env", name.clone());
    }
    args.push(docker["image"].as_str()?.to_owned());
    Some(args)
}

fn check_command(command: &str, reader: &mut EntryReader<'_, '_>) {
    if command.trim().is_empty() {
        let message = "`command` is empty";
        reader.report(("config/empty", Severity::Error), "command", message);
        return;
    }
    if command != command.trim() {
        let message = "`command` begins or ends with a blank, which is no part of a program's name";
        let problem = reader.report(("config/command-line", Severity::Warning), "command", message);
        problem.help("remove it");
        return;
    }
    let quotes = ['"', '\''];
    let inside = quotes.iter().find_map(|mark| command.strip_prefix(*mark)?.strip_suffix(*mark));
    if inside.is_some_and(|inside| !inside.contains(quotes)) {
        let message = "`command` is in quotes of its own, which are no part of a program's name";
        let problem = reader.report(("config/command-line", Severity::Warning), "command", message);
        problem.help("remove the inner ones: no shell reads it, and blanks need none");
        return;
    }
    let has_args = reader.entry.node.get("args").is_some_and(|args| !args.elements().is_empty());
    if has_args || !is_command_line(command) {
        return;
    }
    let program = match of_windows(command) {
        Some((program, _)) => program,
        None => command.split_whitespace().next().unwrap_or_default(),
    };
    let program = program.trim_matches(['"', '\'']);
    let help = if command.split_whitespace().any(|word| SHELL_WORDS.contains(&word)) {
        "no shell reads it: write \"command\": \"sh\" and \"args\": [\"-c\", ...]".to_owned()
    } else if let Some((name, _)) = program.split_once('=') {
        format!("write {} into `env`, the program as `command` and the rest as `args`", name.trim())
    } else {
        let program = Value::from(masked_address(program));
        format!("write \"command\": {program} and the rest as `args`")
    };
    let message = "`command` looks like a whole command line";
    reader.report(("config/command-line", Severity::Warning), "command", message).help(help);
}

/// What a shell would act on between the words of a command line.
const SHELL_WORDS: [&str; 7] = ["|", "||", "&&", ";", ">", "<", "2>&1"];

/// A program of Windows with arguments behind it, which are also returned: its name ends with its
/// kind, whatever blanks are in its path.
fn of_windows(command: &str) -> Option<(&str, &str)> {
    let lower = command.to_ascii_lowercase();
    let ends = [".exe", ".cmd", ".bat", ".ps1"].iter().filter_map(|kind| {
        let at = lower.find(kind)? + kind.len();
        let quoted = usize::from(command.get(at..)?.starts_with('"'));
        command.get(at + quoted..)?.starts_with(' ').then_some(at + quoted)
    });
    Some(command.split_at(ends.min()?))
}

/// Whether a `command` has arguments in it. The path of a program may contain blanks: it is one if
/// its first word could be the beginning of a path.
fn is_command_line(command: &str) -> bool {
    if of_windows(command).is_some() {
        return true;
    }
    let is_path = |word: &str| word.contains(['/', '\\']);
    let mut words = command.split_whitespace();
    let (program, second) = (words.next().unwrap_or_default(), words.next());
    match second {
        None => false,
        Some(second) => {
            !is_path(command)
                || !is_path(program)
                    && (second.starts_with(['-', '@', '/']) || program.contains('='))
        }
    }
}

/// `envFile` and `env` together.
fn environment(reader: &mut EntryReader<'_, '_>) -> IndexMap<String, Secret> {
    let mut env = IndexMap::new();
    if let Some(Value::String(named)) = reader.set.get("envFile").cloned() {
        env_file(&named, reader, &mut env);
    }
    let place = reader.entry.place().child("env");
    for m in reader.entry.node.get("env").map(SyntaxNode::members).unwrap_or_default() {
        let at = place.child(&m.key);
        if let Some(wrong) = bad_name(&m.key) {
            // What follows an `=` in the name may be the secret itself.
            let at = if m.key.contains('=') { &place } else { &at };
            reader.problems.error("config/env-name", &m.key_range, &at.pointer, wrong);
            continue;
        }
        if is_hook(&m.key, m.value.text().unwrap_or_default()) {
            let message = format!("`{}` makes a loader or interpreter run other code", m.key);
            reader.problems.warn("config/env-hook", &m.key_range, &at.pointer, message);
        }
        if let NodeKind::Null = m.value.kind {
            env.shift_remove(&m.key);
        } else if let Some(Value::String(value)) = reader.settled(&Shape::Scalar, &m.value, &at) {
            env.insert(m.key.clone(), Secret::new(value));
        }
    }
    env
}

/// What is wrong with the name of a variable.
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

/// Adds the variables of `envFile`.
fn env_file(named: &str, reader: &mut EntryReader<'_, '_>, env: &mut IndexMap<String, Secret>) {
    let place = reader.entry.place();
    let path = clean_path(&reader.folder.join(named));
    reader.reads.push(path.clone());
    let source = match SourceText::read_env_file(&path) {
        Ok(source) => source,
        Err(problem) => {
            let message = format!("the env file cannot be used: {}", problem.message);
            let help = problem.help.unwrap_or_else(|| format!("looked for {}", path.display()));
            let rule = ("config/env-file", Severity::Error);
            reader.report(rule, "envFile", message).help(help);
            return;
        }
    };
    let (lines, problems) = env_file::parse(&source, reader.scope.env);
    let hooks = lines.iter().filter(|line| is_hook(&line.name, "/")).map(|line| {
        let message = format!("`{}` makes a loader or interpreter run other code", line.name);
        source.diagnostic("config/env-hook", Severity::Warning, line.range.clone(), message)
    });
    for mut problem in problems.into_iter().chain(hooks) {
        problem.pointer = place.child("envFile").pointer;
        problem.server = Some(reader.entry.name.clone());
        reader.problems.list.push(problem);
    }
    for line in lines {
        let at = source.position(line.range.start);
        let effective = place.child("env").child(&line.name).effective;
        reader.origins.insert(effective, ValueOrigin { at, via: line.via, written: line.written });
        env.insert(line.name, Secret::new(line.value));
    }
}
