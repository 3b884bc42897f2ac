//! What the last words of a server mean, and what to do about them. Pure: lines in, a sentence out.
//!
//! Knows the ways in which the programs that servers are started with (Python, Node.js, npx, uvx,
//! Docker) say that they cannot go on. It must never guess: no sentence is better than a wrong one.

mod tables;

use self::tables::{ENDED, NOISE, Rule, SAYS, SAYS_WHY};
use crate::base::text::SafeText;
use crate::process::ExitView;

/// What a server left behind that did not become ready, or did not stay so.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// How its process ended by itself; `None` when it is silent but lives.
    pub exit: Option<&'a ExitView>,
    /// Last lines of stderr, oldest first.
    pub stderr: &'a [SafeText],
    /// The first line on stdout that was no protocol message.
    pub junk: Option<&'a str>,
    /// Whether it had been ready.
    pub was_ready: bool,
}

/// The line that says why: the error itself, not the version, the trace or the advertisement that
/// runtimes print after it. The last line with words when none looks like an error.
pub fn telling(lines: &[SafeText]) -> Option<&SafeText> {
    lines.get(telling_at(lines)?)
}

/// Where that line stands.
pub fn telling_at(lines: &[SafeText]) -> Option<usize> {
    lines
        .iter()
        .rposition(|line| !is_noise(line) && is_error(line))
        .or_else(|| lines.iter().rposition(|line| !is_noise(line)))
        .or_else(|| lines.iter().rposition(|line| !line.trim().is_empty()))
}

/// What to do, when the words allow to say so.
pub fn remedy(words: Words<'_>) -> Option<String> {
    let why = telling(words.stderr).map(SafeText::as_str);
    // What was ready has written much since its start: only its last words count.
    let lines = || {
        let all = words.stderr.iter().rev().map(SafeText::as_str).filter(|_| !words.was_ready);
        why.into_iter().chain(all).chain(words.junk)
    };
    let says = |rules: &[Rule], line: &str| rules.iter().find_map(|rule| rule(line.trim()));
    let sure = SAYS.iter().find_map(|rule| lines().find_map(|line| rule(line.trim())));
    if let Some(found) = sure.or_else(|| why.and_then(|line| says(SAYS_WHY, line))) {
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
        return (exit.signal == Some(9)).then(|| ENDED.killed.to_owned());
    }
    match (exit.code, exit.signal) {
        (Some(0), _) => Some(ENDED.done.to_owned()),
        (_, Some(9)) => Some(ENDED.killed.to_owned()),
        _ => None,
    }
}

/// What to do about an address that did not answer as one should.
pub fn of_address(failure: &str) -> Option<&'static str> {
    let says = |words: &[&str]| words.iter().any(|word| failure.contains(word));
    if says(&["Connection refused", "connection refused", "os error 111", "os error 61"]) {
        Some("nothing listens there: start the server, or correct the port in `url`")
    } else if says(&["failed to lookup address", "dns error", "Name or service not known"]) {
        Some("no such host: correct `url`; does it need a VPN or a proxy?")
    } else if says(&["InvalidContentType"]) {
        Some("what listens there does not speak TLS: write http:// instead of https://")
    } else {
        None
    }
}

/// What runtimes add to an error, and what only frames one.
fn is_noise(line: &str) -> bool {
    let line = line.trim();
    let frame = |c: char| !c.is_alphanumeric();
    line.is_empty() || line.chars().all(frame) || NOISE.iter().any(|start| line.starts_with(start))
}

/// `Error: ...`, `KeyError: ...`, `Error [CODE]: ...`, `error: ...`, `npm error ...`, `panicked at`.
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

/// The loopback address a line says is served.
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

#[cfg(test)]
mod tests;
