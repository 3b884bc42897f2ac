//! Finds the configuration when none is named, and builds one for a single server
//! named on the command line.

use std::path::{Path, PathBuf};

use crate::load::{Loaded, load_text};
use crate::{Diagnostic, Environment};

/// Paths relative to the current folder; the first that exists is used.
const PROJECT: [&str; 4] = ["mcp.json", ".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"];

/// Whether a file is the project's or the user's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileScope {
    /// The project's: it may come from a third party and needs trust.
    Project,
    /// The user's own.
    User,
}

/// A path where a configuration may be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The path, relative to the current folder for the project's.
    pub path: PathBuf,
    /// Whether it is the project's or the user's.
    pub scope: FileScope,
    /// Whether the file exists.
    pub exists: bool,
}

/// Every candidate in order of preference.
pub fn candidates(env: &Environment) -> Vec<Candidate> {
    let project = PROJECT.iter().map(|name| (PathBuf::from(name), FileScope::Project));
    let user = user_files(env).into_iter().map(|path| (path, FileScope::User));
    project
        .chain(user)
        .map(|(path, scope)| {
            // An unreadable file counts as existing, so that it is reported rather than skipped.
            let found = env.absolute(&path).symlink_metadata();
            let exists = found.is_ok_and(|found| !found.is_dir());
            Candidate { path, scope, exists }
        })
        .collect()
}

/// The user's own files: `mcpdeck/mcp.json` in the folder for configuration (`~/.config` on
/// Linux, `~/Library/Application Support` on macOS, `%APPDATA%` on Windows) or `mcp.json` where
/// `MCPDECK_CONFIG_DIR` says, then `~/.mcp.json`.
fn user_files(env: &Environment) -> Vec<PathBuf> {
    let own = env.own_config_dir().map(|dir| dir.join("mcp.json"));
    let home = env.home.as_ref().map(|dir| dir.join(".mcp.json"));
    own.into_iter().chain(home).collect()
}

/// The file that is used without an argument: the first that exists.
pub fn discover(env: &Environment) -> Option<PathBuf> {
    candidates(env).into_iter().find(|c| c.exists).map(|c| c.path)
}

/// Values by name: variables of a process, or headers.
pub type Pairs = indexmap::IndexMap<String, String>;

/// A configuration of one server, from `mcpdeck -- COMMAND ARGS...`, with variables for its
/// environment. References are expanded only in these: the shell has expanded the rest. Naming a
/// command is consent to run it.
///
/// # Errors
/// A diagnostic when there is no command, or a referenced variable is not set.
pub fn single_command(
    words: &[String],
    variables: &Pairs,
    env: &Environment,
) -> Result<Loaded, Vec<Diagnostic>> {
    let Some((command, args)) = words.split_first() else {
        let problem =
            Diagnostic::new("config/empty", crate::Severity::Error, "no command was named");
        return Err(vec![problem]);
    };
    let name = name_of_command(command, args);
    let literal = |word: &str| word.replace("${", "$${");
    let args: Vec<String> = args.iter().map(|arg| literal(arg)).collect();
    let entry = serde_json::json!({
        "command": literal(command), "args": args, "env": variables,
    });
    single(&name, &entry, env)
}

/// A configuration of one server, from `mcpdeck URL`, with headers for its requests, in whose
/// values references are expanded. An address that ends in `/sse` uses HTTP+SSE; `ws:` and `wss:`
/// use WebSocket.
///
/// # Errors
/// A diagnostic when the address is invalid, or a referenced variable is not set.
pub fn single_url(
    address: &str,
    headers: &Pairs,
    env: &Environment,
) -> Result<Loaded, Vec<Diagnostic>> {
    let parsed = url::Url::parse(address).ok();
    let kind = match &parsed {
        Some(url) if matches!(url.scheme(), "ws" | "wss") => "websocket",
        Some(url) if url.path().ends_with("/sse") => "sse",
        _ => "http",
    };
    let name = parsed.as_ref().and_then(url::Url::host_str).unwrap_or("server").to_owned();
    let literal = address.replace("${", "$${");
    single(&name, &serde_json::json!({ "type": kind, "url": literal, "headers": headers }), env)
}

fn single(
    name: &str,
    entry: &serde_json::Value,
    env: &Environment,
) -> Result<Loaded, Vec<Diagnostic>> {
    let text = serde_json::json!({ "servers": { name: entry } }).to_string();
    let here = Environment { workspace: Some(env.cwd.clone()), ..env.clone() };
    let mut loaded = load_text(Path::new(""), &text, &here)?;
    loaded.config.files.clear();
    loaded.reads.clear();
    Ok(loaded)
}

/// Programs whose first positional argument names the server better than they do.
const RUNNERS: [&str; 13] = [
    "npx", "bunx", "uvx", "pipx", "node", "bun", "deno", "python", "python3", "uv", "sh", "bash",
    "cargo",
];

/// Names of files and folders that say nothing of the server.
const PLAIN_NAMES: [&str; 15] = [
    "index",
    "main",
    "cli",
    "dist",
    "build",
    "src",
    "lib",
    "bin",
    "out",
    "esm",
    "cjs",
    "stdio",
    "mcp",
    "mcp-server",
    "node_modules",
];

/// A short name for a command line: `everything` for
/// `npx -y @modelcontextprotocol/server-everything`.
fn name_of_command(command: &str, args: &[String]) -> String {
    let stem = |word: &str| {
        let mut parts = word.rsplit(['/', '\\']);
        let last = parts.next().unwrap_or(word);
        let is_plain = |full: &&str| {
            let name = full.split(['.', '@']).find(|part| !part.is_empty()).unwrap_or_default();
            !name.is_empty() && !full.starts_with('.') && !PLAIN_NAMES.contains(&name)
        };
        // What many programs are called says less than the folder of the package.
        let telling = Some(last).filter(is_plain).or_else(|| parts.find(is_plain));
        let name = telling.unwrap_or(last);
        let name = name.split(['@', '=']).find(|part| !part.is_empty()).unwrap_or(name);
        let known = [".exe", ".cmd", ".js", ".mjs", ".cjs", ".ts", ".py", ".sh", ".rs"];
        known.iter().find_map(|e| name.strip_suffix(e)).unwrap_or(name).to_owned()
    };
    let program = stem(command);
    // A program in the command line itself (`node -e CODE`, `python -c CODE`) has no name.
    let options = args.iter().take_while(|arg| arg.starts_with('-'));
    let is_inline = options.into_iter().any(|arg| {
        matches!(arg.as_str(), "-c" | "-e" | "-p" | "-pe" | "-lc" | "-ic" | "--eval" | "--print")
    }) && !matches!(program.as_str(), "npx" | "pipx" | "uvx" | "cargo" | "uv");
    let named = (RUNNERS.contains(&program.as_str()) && !is_inline).then(|| {
        args.iter()
            .filter(|arg| !arg.starts_with('-'))
            .find(|arg| !matches!(arg.as_str(), "run" | "tool" | "exec" | "x" | "dlx"))
    });
    let name = named.flatten().map_or(program, |arg| stem(arg));
    let short = name
        .trim_start_matches("mcp-server-")
        .trim_start_matches("server-")
        .trim_end_matches("-mcp-server")
        .trim_end_matches("-mcp");
    let plain: String = short.chars().filter(|c| !c.is_control()).take(40).collect();
    if plain.trim().is_empty() { "server".to_owned() } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        name_of_command(&words[0], &words[1..])
    }

    #[test]
    fn a_command_line_gives_a_short_name() {
        for (line, expected) in [
            ("npx -y @modelcontextprotocol/server-everything", "everything"),
            ("npx -y @brave/brave-search-mcp-server@1.2", "brave-search"),
            ("uvx mcp-server-git --repository .", "git"),
            ("uv run server.py", "server"),
            ("/usr/bin/my-server --stdio", "my-server"),
            ("node build/index.js", "index"),
            ("node /a/node_modules/@x/server-memory/dist/index.js", "memory"),
            ("python3 ./src/weather/main.py", "weather"),
            ("npx -y @playwright/mcp@latest", "playwright"),
            ("node /a/node_modules/@playwright/mcp/cli.js", "playwright"),
            ("node /a/node_modules/exa-mcp-server/.smithery/stdio/index.cjs", "exa"),
            ("node /a/node_modules/mongodb-mcp-server/dist/esm/index.js", "mongodb"),
            ("npx @sentry/mcp-server", "sentry"),
            ("npx", "npx"),
            ("node -e console.log(1);setTimeout(()=>{},9)", "node"),
            ("python3 -u -c print(1)", "python3"),
            ("sh -c exec_server", "sh"),
            ("npx -p some-package mcp-server-x", "some-package"),
            ("-", "-"),
        ] {
            assert_eq!(name(line), expected, "{line}");
        }
    }

    #[test]
    fn what_the_shell_left_is_passed_on_as_it_is() {
        let env = Environment { cwd: std::env::temp_dir(), ..Environment::default() };
        let words = ["x", "${HOME}", "; rm"].map(str::to_owned);
        let loaded = single_command(&words, &Pairs::new(), &env).expect("usable");
        let (_, server) = loaded.config.servers.first().expect("one server");
        let crate::TransportConfig::Stdio(stdio) = &server.transport else { panic!("a process") };
        assert_eq!(stdio.args, ["${HOME}", "; rm"]);
        assert!(loaded.config.files.is_empty());
    }

    #[test]
    fn addresses_choose_their_transport() {
        let env = Environment { cwd: std::env::temp_dir(), ..Environment::default() };
        for (address, kind) in [
            ("http://127.0.0.1:3000/mcp", "http"),
            ("https://example.com/sse", "sse"),
            ("wss://example.com/x", "websocket"),
        ] {
            let loaded = single_url(address, &Pairs::new(), &env).expect("usable");
            assert_eq!(
                loaded.config.servers.first().expect("one").1.transport.kind().as_str(),
                kind
            );
        }
        assert!(!single_url("example", &Pairs::new(), &env).is_ok_and(|l| !l.has_errors()));
        assert!(single_command(&[], &Pairs::new(), &env).is_err());
    }
}
