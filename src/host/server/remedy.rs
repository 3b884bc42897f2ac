//! Derives help texts from the last output of a server. Pure: lines in, a sentence out.
//!
//! Recognizes error messages of the programs that servers are started with (Python, Node.js, npx,
//! uvx, Docker). Must never guess: no help is better than a wrong one.

mod lines;
mod mend;
mod sayings;
mod variables;

use crate::failure::AddressAdvice;
use base::SafeText;
use process::ExitView;

pub use mend::{Complaint, Mend, MendStep, mends};

pub use lines::{error_line_at, error_text, prompt, reported_error};

use lines::{bare, error_line, is_prompt};
use sayings::{Advice, cause, error_line_cause, general_cause, node_version};
use variables::{missing_names, missing_settings};

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

/// The help text for the output, if it is recognized.
pub fn remedy(words: FailureOutput<'_>) -> Option<String> {
    let why = error_line(words.stderr).map(|line| bare(line));
    let said = own_advice(words)
        .map(|advice| advice.help)
        .or_else(|| why.and_then(|line| variable(&missing_names(line))))
        .or_else(|| settings(words).filter(|_| !words.was_ready))
        .or_else(|| Some(other_advice(words)?.help));
    if said.is_some() {
        return said;
    }
    let lines = || why.into_iter().chain(other_lines(words));
    if !words.was_ready
        && let Some(url) = lines().find_map(served)
    {
        return Some(format!(
            "it serves HTTP at {url}, and nothing on its stdin and stdout: start it yourself and \
             use its address, \"url\": \"{url}\" with the path of its MCP endpoint (often /mcp)"
        ));
    }
    if !words.was_ready && (prompt(words.stderr).is_some() || words.junk.is_some_and(is_prompt)) {
        return Some(ASKS.to_owned());
    }
    let exit = words.exit?;
    match (exit.code, exit.signal) {
        (Some(0), _) if !words.was_ready => Some(DONE.to_owned()),
        // A shell and a container engine add 128 to the signal.
        (Some(137), _) | (_, Some(9)) => Some(KILLED.to_owned()),
        (Some(132), _) | (_, Some(4)) => Some(ILLEGAL.to_owned()),
        (Some(134 | 135 | 136 | 139), _) | (_, Some(6 | 7 | 8 | 11)) => Some(CRASHED.to_owned()),
        _ => None,
    }
}

/// The other lines than that with the error. A server that was ready has logged a lot since its start:
/// only the error line counts.
fn other_lines(words: FailureOutput<'_>) -> impl Iterator<Item = &str> {
    let all = words.stderr.iter().rev().filter(move |_| !words.was_ready);
    all.map(|line| bare(line)).chain(words.junk.map(bare))
}

/// What the error line leads to: it comes before other lines, which may be warnings.
fn own_advice(words: FailureOutput<'_>) -> Option<Advice> {
    let (why, node) = (error_line(words.stderr).map(|line| bare(line)), node_version(words.stderr));
    // Lines that belong to it may say more than the first of them.
    let whole = error_text(words.stderr).filter(|whole| Some(whole.as_str()) != why);
    let whole = whole.and_then(|whole| cause(&whole, node));
    whole.or_else(|| why.and_then(|line| cause(line, node)))
}

/// What other lines lead to, and then what the error line tells of the direction.
fn other_advice(words: FailureOutput<'_>) -> Option<Advice> {
    let (why, node) = (error_line(words.stderr).map(|line| bare(line)), node_version(words.stderr));
    other_lines(words)
        .find_map(|line| cause(line, node))
        .or_else(|| why.and_then(error_line_cause))
        .or_else(|| why.and_then(general_cause))
        .or_else(|| other_lines(words).find_map(general_cause))
}

/// The help text for a process that did not answer in time, when its output tells nothing.
pub fn late_start(is_working: bool, is_silent: bool) -> &'static str {
    if is_working {
        "it was still working when its time was over: raise `startupTimeout`, or give it a \
         machine that is less busy"
    } else if is_silent {
        "it was waiting for something, and wrote nothing: run its command in a terminal to see \
         for what; raise `startupTimeout` if it is only slow"
    } else {
        "raise `startupTimeout` if it is only slow; see its stderr"
    }
}

/// The help text for one line that a server has logged, if it is recognized.
pub fn line_help(line: &SafeText) -> Option<String> {
    let stderr = std::slice::from_ref(line);
    remedy(FailureOutput { exit: None, stderr, junk: None, was_ready: true })
}

/// What helps where a connection to an address failed: by what the system, the proxy and the TLS of
/// either side say, or else by the status of the response, if there was one.
pub fn of_address(failure: &str, status: Option<u16>) -> Option<AddressAdvice> {
    let says = |words: &[&str]| words.iter().any(|word| failure.contains(word));
    Some(if says(&["through the proxy"]) {
        AddressAdvice::Proxy
    } else if says(&["Connection refused", "connection refused", "os error 111", "os error 61"]) {
        AddressAdvice::StartServer
    } else if says(&["failed to lookup address", "dns error", "Name or service not known"]) {
        AddressAdvice::CorrectHost
    } else if says(&["InvalidContentType"]) {
        AddressAdvice::UseHttp
    } else if says(&["plain HTTP request was sent to HTTPS", "HTTP request to an HTTPS server"]) {
        AddressAdvice::UseHttps
    } else {
        match status? {
            404 | 405 | 406 | 415 => AddressAdvice::OtherPath,
            403 => AddressAdvice::Rights,
            429 => AddressAdvice::Wait,
            500 | 502..=504 => AddressAdvice::AskOperator,
            _ => return None,
        }
    })
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

/// What a program means that asks something.
const ASKS: &str = "it asks for something where nobody can type: give it with an argument, a \
                    variable in `env` or a file, as its documentation says";

/// Help for exit code 0 before the server was ready.
const DONE: &str = "it ended as if its work was done: a stdio server goes on reading stdin until \
                    that closes. Does the program start its server (`mcp.run()` in Python, `await \
                    server.connect(new StdioServerTransport())` in TypeScript)?";
/// Help for a SIGKILL that the host did not send.
const KILLED: &str =
    "something else killed it: the system when memory ran out, a limit, or a person";

/// Help for a program that this processor cannot run.
const ILLEGAL: &str = "the program uses instructions that this processor does not have: take a \
                       build for an older one";
/// Help for a crash in compiled code.
const CRASHED: &str = "it crashed in compiled code: install it again, for the runtime and the system \
                       that it runs on, or report it to its author";

/// The environment variable that a server says it lacks, by its last lines.
pub fn missing_variable(lines: &[SafeText]) -> Option<String> {
    let names = missing_names(bare(error_line(lines)?));
    names.first().map(|name| (*name).to_owned())
}

/// Help for missing environment variables.
fn variable(names: &[&str]) -> Option<String> {
    let and = names.join(" and ");
    let entries: Vec<_> = names.iter().map(|name| format!("\"{name}\": \"${{{name}}}\"")).collect();
    let entries = entries.join(", ");
    (!names.is_empty()).then(|| {
        format!(
            "servers get few variables of yours: add \"env\": {{ {entries} }} to its entry, and \
             set {and} before you start mcpdeck"
        )
    })
}

/// Help for settings that a validation of them at the start says are missing.
fn settings(words: FailureOutput<'_>) -> Option<String> {
    let missing = missing_settings(words.stderr);
    let names: Vec<&str> = missing.iter().map(String::as_str).collect();
    if names.iter().all(|name| variables::is_variable(name)) {
        return variable(&names);
    }
    let names = names.join(", ");
    Some(format!(
        "it lacks settings ({names}): give them in the `env` or the `args` of its entry, as its \
         documentation names them"
    ))
}

#[cfg(test)]
mod tests;
