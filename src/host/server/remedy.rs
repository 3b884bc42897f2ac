//! Derives help texts from the last output of a server. Pure: lines in, a sentence out.
//!
//! Recognizes error messages of the programs that servers are started with (Python, Node.js, npx,
//! uvx, Docker). Must never guess: no help is better than a wrong one.

use regex::Regex;

use base::SafeText;
use process::ExitView;

/// The output of a server that failed to start, or failed later.
#[derive(Clone, Copy, Debug)]
pub struct FailureOutput<'a> {
    /// How its process exited by itself; `None` when it is unresponsive but alive.
    pub exit: Option<&'a ExitView>,
    /// Last lines of stderr, oldest first.
    pub stderr: &'a [SafeText],
    /// The first line on stdout that was not a protocol message.
    pub junk: Option<&'a str>,
    /// Whether it had been ready.
    pub was_ready: bool,
}

/// The line with the reason: the error itself, not the version, the trace or the notice that
/// runtimes print after it. If none looks like an error, the last line with text.
pub fn error_line(lines: &[SafeText]) -> Option<&SafeText> {
    lines.get(error_line_at(lines)?)
}

/// The last line that reports an error; one that says what could not be reached is preferred to
/// those that say that it failed.
pub fn reported_error(lines: &[SafeText]) -> Option<&SafeText> {
    let is_cause = |line: &&SafeText| {
        line.contains("Error: ") && UNREACHABLE.split('|').any(|code| line.contains(code))
    };
    let cause = lines.iter().rfind(is_cause);
    cause.or_else(|| lines.iter().rfind(|line| !is_noise(line) && is_error(line)))
}

/// The index of that line.
pub fn error_line_at(lines: &[SafeText]) -> Option<usize> {
    lines
        .iter()
        .rposition(|line| !is_noise(line) && is_error(line))
        .or_else(|| lines.iter().rposition(|line| !is_noise(line)))
        .or_else(|| lines.iter().rposition(|line| !line.trim().is_empty()))
}

/// The help text for the output, if it is recognized.
pub fn remedy(words: FailureOutput<'_>) -> Option<String> {
    let why = error_line(words.stderr).map(SafeText::as_str);
    // A server that was ready has logged a lot since its start: only the error line counts.
    let lines = || {
        let all = words.stderr.iter().rev().map(SafeText::as_str).filter(|_| !words.was_ready);
        why.into_iter().chain(all).chain(words.junk)
    };
    let said = SAYINGS.iter().find_map(|(saying, fix)| {
        let saying = Regex::new(&format!("(?i){saying}")).ok()?;
        let found = lines().find_map(|line| saying.captures(line.trim()))?;
        let name = found.iter().skip(1).flatten().next().map_or("", |name| name.as_str());
        (name.len() <= MAX_NAME_BYTES).then(|| fix.replace("{}", name))
    });
    // Warnings may contain the same phrases, so only the error line is checked for these.
    let why_only = || why.and_then(|line| variable(line.trim()));
    if let Some(found) = said.or_else(why_only) {
        return Some(found);
    }
    if !words.was_ready
        && let Some(url) = lines().find_map(served)
    {
        return Some(format!(
            "it serves HTTP at {url}, and nothing on its stdin and stdout: start it yourself and \
             use its address, \"url\": \"{url}\" with the path of its MCP endpoint (often /mcp)"
        ));
    }
    let exit = words.exit?;
    if words.was_ready {
        return (exit.signal == Some(9)).then(|| KILLED.to_owned());
    }
    match (exit.code, exit.signal) {
        (Some(0), _) => Some(DONE.to_owned()),
        (_, Some(9)) => Some(KILLED.to_owned()),
        _ => None,
    }
}

/// The help text for one line that a server has logged, if it is recognized.
pub fn line_help(line: &SafeText) -> Option<String> {
    let stderr = std::slice::from_ref(line);
    remedy(FailureOutput { exit: None, stderr, junk: None, was_ready: true })
}

/// The help text for a failed connection to an address.
pub fn of_address(failure: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|word| failure.contains(word));
    if says(&["through the proxy"]) {
        Some(
            "start the proxy, correct the variable that names it, or put the host of `url` into \
             NO_PROXY",
        )
    } else if says(&["Connection refused", "connection refused", "os error 111", "os error 61"]) {
        Some("nothing listens there: start the server, or correct the port in `url`")
    } else if says(&["failed to lookup address", "dns error", "Name or service not known"]) {
        Some("no such host: correct `url`; does it need a VPN or a proxy?")
    } else if says(&["InvalidContentType"]) {
        Some("what listens there does not speak TLS: write http:// instead of https://")
    } else {
        None
    }
}

/// Whether a line is runtime boilerplate around an error, or only decoration.
fn is_noise(line: &str) -> bool {
    let line = line.trim();
    let frame = |c: char| !c.is_alphanumeric();
    line.is_empty() || line.chars().all(frame) || NOISE.iter().any(|start| line.starts_with(start))
}

/// `Error: ..`, `KeyError: ..`, `Error [CODE]: ..`, `error: ..`, `npm error ..` or `panicked at`.
fn is_error(line: &str) -> bool {
    let line = line.trim_start();
    let (head, rest) = match line.split_once(':') {
        Some((head, rest)) => (head, Some(rest)),
        None => (line, None),
    };
    let head = head.split(" [").next().unwrap_or(head);
    let word = head.rsplit(' ').next().unwrap_or(head).to_ascii_lowercase();
    let named = ["error", "exception", "fatal", "interrupt", "notfound"];
    rest.is_some() && named.iter().any(|name| word.ends_with(name))
        || line.starts_with("npm error ")
        || line.starts_with("npm ERR! ")
        || line.contains(" panicked at ")
}

/// The loopback URL that a line reports as being served.
fn served(line: &str) -> Option<String> {
    let lower = line.to_ascii_lowercase();
    let says = ["running on", "listening", "started", "serving", "available at", "ready"];
    if !says.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let start = lower.find("http://")?;
    let url: String = line[start..]
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || ":/.-_[]".contains(*c))
        .collect();
    let url = url.trim_end_matches(['.', '/', ':']).to_owned();
    let host = url.get(7..)?;
    let local = ["localhost", "127.0.0.1", "0.0.0.0", "[::]", "[::1]"];
    let host_at = local.iter().find(|name| host.starts_with(**name))?;
    Some(match *host_at {
        "0.0.0.0" | "[::]" => url.replacen(host_at, "127.0.0.1", 1),
        _ => url,
    })
}

// Known messages, each with a help text.

/// Prefixes of lines that runtimes print around an error, without information about it.
const NOISE: &[&str] = &[
    "Node.js v",
    "at ",
    "Run 'docker run --help'",
    "npm error A complete log of this run",
    "npm ERR! A complete log of this run",
    "npm notice",
    "note: run with `RUST_BACKTRACE",
    "code: '",
    "requireStack: ",
    "url: 'file:",
    "[notice]",
    "Traceback (most recent call last)",
    "During handling of the above exception",
];

/// Help for exit code 0 before the server was ready.
const DONE: &str = "it ended as if its work was done: a stdio server goes on reading stdin until \
                    that closes. Does the program start its server (`mcp.run()` in Python, `await \
                    server.connect(new StdioServerTransport())` in TypeScript)?";
/// Help for a SIGKILL that the host did not send.
const KILLED: &str =
    "something else killed it: the system when memory ran out, a limit, or a person";

/// Maximum length of a name repeated in a help text, in bytes.
const MAX_NAME_BYTES: usize = 200;
/// Codes of the system for what cannot be reached.
const UNREACHABLE: &str =
    "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH";
/// Case-insensitive patterns of server output and their help texts, most specific first. `{}` is
/// replaced by the first group; since servers control that text, groups only match what looks like
/// a package, a program or a path.
const SAYINGS: &[(&str, &str)] = &[
    (
        "^npm (?:error|err!) code e404$",
        "there is no such package: check its name in `args`, its scope (@name/) too",
    ),
    (
        "^npm (?:error|err!) code e40[13]$",
        "the registry refuses: sign in with `npm login`, or check the name of the package",
    ),
    (
        "^npm (?:error|err!) code e(?:notfound|ai_again|timedout|connrefused|connreset|notcached)$",
        "npm cannot reach its registry: check the network and the proxy, or install the package \
         first",
    ),
    (
        "^npm (?:error|err!) .*could not determine executable to run",
        "the package brings no program of its name: check it, or name both: \
         \"args\": [\"-y\", \"-p\", \"PACKAGE\", \"PROGRAM\"]",
    ),
    (
        "'(?:Server|FastMCP|MCPServer)' object has no attribute '(\\w+)'\
         |No module named 'mcp\\.([\\w.]+)'(?:$|\\. This is mcp)\
         |cannot import name '(\\w+)' from 'mcp[\\w.]*'",
        "it was written for another major version of the Python SDK than the one that is installed \
         (`{}`): install it with `mcp<2` (`uvx --with 'mcp<2' PACKAGE`), or a newer version of the \
         server",
    ),
    (
        r"cannot import name '(\w+)' from .*site-packages",
        "two of its Python packages do not fit together (`{}` is missing): install it again, with \
         the versions that it names",
    ),
    (
        "Cannot find (?:package|module) '[^']*' imported from .*[/\\\\]node_modules[/\\\\]",
        "a file of its own packages is missing: install it again (`npm ci`; for npx, remove its \
         folder in ~/.npm/_npx), or ask its author",
    ),
    (
        // Anchored at the end, because some packages append advice that is better than this.
        r"ModuleNotFoundError: No module named '([\w-]+)[\w.-]*'$",
        "the Python that runs here has no `{}`: install it there (`python -m pip install`), or set \
         `command` to the Python of the virtual environment that has it (.venv/bin/python)",
    ),
    (
        "Cannot find package '([\\w@/.+~: ()-]+)'\
         |Error: Cannot find module '([\\w@][\\w@/.+~-]*)'",
        "run `npm install` in the server's folder: it has no `{}`",
    ),
    (
        "Cannot find module '((?:[/.\\\\]|\\w:\\\\)[\\w@/.+~:\\\\ ()-]*)'\
         |can't open file '([\\w@/.+~:\\\\ ()-]+)'.*No such file",
        "there is no {}: relative paths start in `cwd`, which is the folder of the configuration \
         when it is not set; is the server built?",
    ),
    (
        "^(?:/usr/bin/)?env: ['‘`]?([\\w.+/-]+)['’`]?: No such file\
         |^sh: (?:\\d+: )?([\\w.+/-]+): (?:command )?not found$",
        "`{}` is not on the PATH that the server gets: install it, or set PATH in the entry's `env`",
    ),
    (
        "canceled due to missing packages and no yes option",
        "npx wanted to ask whether it may install: put \"-y\" first in `args`",
    ),
    (
        "unknown file extension \"\\.ts\"",
        "node does not run TypeScript: build it and name the .js file, or start it with \
         `npx -y tsx FILE`",
    ),
    (
        "cannot use import statement outside a module",
        "add \"type\": \"module\" to the server's package.json, or name the file .mjs",
    ),
    (
        "require is not defined in es module scope",
        "its package.json says \"type\": \"module\": use import, or name the file .cjs",
    ),
    (
        r"^\{'(?:jsonrpc|id)'",
        "it prints a Python dictionary, which is not JSON: write json.dumps(...)",
    ),
    (
        "^content-length:",
        "it frames its messages as language servers do (`Content-Length`): MCP over stdio is one \
         JSON message on each line",
    ),
    (
        "error: failed to spawn: ",
        "uv does not find what it should run: give it the project, \
         \"args\": [\"--directory\", \"FOLDER\", \"run\", ...]",
    ),
    ("was not found in the package registry", "there is no such package: check its name in `args`"),
    ("cannot connect to the docker daemon", "start Docker, then try again"),
    (
        "the input device is not a tty",
        "take `-t` out of `args`: a server needs `docker run -i`, without a terminal",
    ),
    (
        "pull access denied",
        "there is no such image, or it needs `docker login`: check its name in `args`",
    ),
    (
        "eaddrinuse|address already",
        "another process has its port: end that one, or give this one another",
    ),
    (
        "the following arguments are required|unrecognized arguments|unexpected argument\
         |unknown option|^usage: ",
        "it refuses its arguments: correct `args` of its entry",
    ),
    (
        r"\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)\b",
        "it cannot reach what it works with ({}): check the network, the proxy, and the address and \
         credentials in its `env`",
    ),
];

/// The environment variable that a server says it lacks, by its last lines.
pub fn missing_variable(lines: &[SafeText]) -> Option<String> {
    missing_name(error_line(lines)?.trim()).map(str::to_owned)
}

/// Help for a missing environment variable: `KeyError: 'API_KEY'`, `API_KEY is not set`.
fn variable(line: &str) -> Option<String> {
    let name = missing_name(line)?;
    Some(format!(
        "servers get few variables of yours: add \"env\": {{ \"{name}\": \"${{{name}}}\" }} to its \
         entry, and set {name} before you start mcpdeck"
    ))
}

/// The name of the environment variable that a line says is missing.
fn missing_name(line: &str) -> Option<&str> {
    let lower = line.to_ascii_lowercase();
    let misses = line.starts_with("KeyError: ")
        || ["not set", "required", "missing", "must be set", "is unset", "undefined", "please set"]
            .iter()
            .any(|word| lower.contains(word))
            && !lower.contains("argument");
    if !misses {
        return None;
    }
    let part = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    line.split(part).find(|word| is_variable(word))
}

/// Uppercase with an underscore, as `GITHUB_TOKEN`; excludes the error codes of Node.js.
fn is_variable(word: &str) -> bool {
    (5..60).contains(&word.len())
        && word.contains('_')
        && !word.starts_with("ERR_")
        && word.starts_with(|c: char| c.is_ascii_uppercase())
        && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

#[cfg(test)]
mod tests;
