//! Which of the last lines of a server says why it failed.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::sayings::{is_known, is_unreachable};
use base::SafeText;
use base::text::cut;

/// Longest reason that is quoted, in bytes.
const MAX_REASON_BYTES: usize = 600;
/// Most lines after the error that belong to it.
const MAX_CONTINUATION_LINES: usize = 60;
/// Most parts of an error over several lines that are quoted.
const MAX_PARTS: usize = 3;

/// A line without the frame that some programs draw around their errors.
pub(super) fn bare(line: &str) -> &str {
    let frame = |c: char| c.is_whitespace() || "|│║┃╰╭├└┌─━═▶→×✖✗❌⨯•".contains(c);
    let inner = line.trim().trim_start_matches(frame);
    if inner.is_empty() { line.trim() } else { inner.trim_end_matches(['│', '║', '┃', ' ']) }
}

/// The line with the reason: the error itself, not the version, the trace or the notice that
/// runtimes print after it. If none looks like an error, one that is known, or the last line with
/// text.
pub(super) fn error_line(lines: &[SafeText]) -> Option<&SafeText> {
    lines.get(error_line_at(lines)?)
}

/// The index of that line.
pub fn error_line_at(lines: &[SafeText]) -> Option<usize> {
    // What follows the word "usage" explains the options; the error comes before it, or last.
    let usage = lines.iter().position(|line| is_usage(line)).unwrap_or(lines.len());
    let (before, after) = lines.split_at(usage);
    let telling =
        |lines: &[SafeText]| lines.iter().rposition(|line| !is_noise(line) && is_error(bare(line)));
    let at = telling(after)
        .map(|at| usage + at)
        .or_else(|| telling(before))
        .or_else(|| lines.iter().rposition(|line| is_known(bare(line))))
        .or_else(|| before.iter().rposition(|line| !is_noise(line)))
        .or_else(|| lines.iter().rposition(|line| !is_noise(line)))
        .or_else(|| lines.iter().rposition(|line| !line.trim().is_empty()))?;
    Some(first_of_npm(lines, at))
}

/// `npm` prints its error over many lines, the telling one first.
fn first_of_npm(lines: &[SafeText], at: usize) -> usize {
    if npm_text(&lines[at]).is_none() {
        return at;
    }
    let block = lines[..=at].iter().rposition(|line| npm_text(line).is_none());
    let block = block.map_or(0, |before| before + 1)..=at;
    let is_telling = |at: &usize| {
        npm_text(&lines[*at]).is_some_and(|text| {
            !text.is_empty() && !NPM_DETAILS.iter().any(|start| text.starts_with(start))
        })
    };
    block.clone().find(is_telling).unwrap_or(at)
}

/// What `npm` says in an error line.
fn npm_text(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("npm error").or_else(|| line.strip_prefix("npm ERR!")).map(str::trim)
}

/// The reason as it is quoted: the error line, with what following lines add to it.
pub fn error_text(lines: &[SafeText]) -> Option<String> {
    let at = error_line_at(lines)?;
    let line = logged_text(&lines[at]).unwrap_or_else(|| bare(&lines[at]).to_owned());
    let following = lines.get(at + 1..).unwrap_or_default();
    let following = &following[..following.len().min(MAX_CONTINUATION_LINES)];
    let parts = continuation(&line, following);
    // An object that Node.js prints with its error, and the brackets around both.
    let line = line.strip_suffix(" {").unwrap_or(&line);
    let line = line.trim_end_matches(|c: char| " [{(:".contains(c) && !parts.is_empty());
    let line = match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
        Some(inner) if inner.starts_with("Error") => inner,
        _ => line,
    };
    let text =
        if parts.is_empty() { line.to_owned() } else { format!("{line}: {}", parts.join("; ")) };
    Some(cut(&text, MAX_REASON_BYTES).to_owned())
}

/// What following lines add to an error line that does not say it all.
fn continuation(line: &str, following: &[SafeText]) -> Vec<String> {
    let trimmed = || following.iter().map(|line| line.trim());
    if line.ends_with(['[', '{', '(']) {
        let issues: Vec<String> = issues(following).take(MAX_PARTS).collect();
        if !issues.is_empty() {
            return issues;
        }
    }
    if line.contains("validation error") {
        let fields = following.windows(2).filter_map(|pair| {
            let why = pair[1].trim_start().split(" [type=").next()?.to_owned();
            let is_field = pair[1].contains(" [type=") && !pair[0].starts_with(' ');
            is_field.then(|| format!("{}: {why}", pair[0].trim()))
        });
        return fields.take(MAX_PARTS).collect();
    }
    // The last of a chain of causes is the reason.
    let mut causes = trimmed().filter_map(|line| {
        let cause = line.strip_prefix("Caused by: ").or_else(|| line.strip_prefix("[cause]: "));
        cause.map(|cause| cause.trim_end_matches(" {").to_owned())
    });
    if let Some(cause) = causes.next_back() {
        return vec![cause];
    }
    if let Some(at) = following.iter().position(|line| line.trim() == "Caused by:") {
        let causes = following[at + 1..].iter().map_while(|line| numbered(line.trim()));
        return causes.last().map(str::to_owned).into_iter().collect();
    }
    if line.ends_with(':') {
        let next = following.iter().find(|line| !is_noise(line) && !is_usage(line));
        return next.map(|line| bare(line).to_owned()).into_iter().collect();
    }
    Vec::new()
}

/// The text of a cause as `anyhow` lists them: alone, or after its number.
fn numbered(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = rest.strip_prefix(": ").filter(|_| rest.len() < line.len()).unwrap_or(line);
    (!text.is_empty()).then_some(text)
}

/// The messages of an error that is printed as a list of issues.
fn issues(lines: &[SafeText]) -> impl Iterator<Item = String> {
    let message = lines.iter().filter_map(|line| {
        let line = line.trim().trim_end_matches(',');
        let text = line.strip_prefix("\"message\": ").or_else(|| line.strip_prefix("message: "))?;
        Some(text.trim_matches(['"', '\'', '`']).to_owned())
    });
    message.filter(|text| !text.is_empty())
}

/// The last line that reports an error; one that says what could not be reached is preferred to
/// those that say that it failed.
pub fn reported_error(lines: &[SafeText]) -> Option<&SafeText> {
    let is_reported =
        |line: &&SafeText| !is_noise(line) && (is_error(bare(line)) || line.contains("Error: "));
    let cause = lines.iter().rfind(|line| is_reported(line) && is_unreachable(line));
    cause.or_else(|| lines.iter().rfind(is_reported))
}

/// The last line, when a program asks with it for something that nobody can type.
pub fn prompt(lines: &[SafeText]) -> Option<&SafeText> {
    lines.last().filter(|line| is_prompt(line))
}

/// Whether a line asks for something to be typed.
pub fn is_prompt(line: &str) -> bool {
    const MAX_PROMPT_BYTES: usize = 120;
    const ASKED: [&str; 7] =
        ["enter ", "password", "passphrase", "api key", "username", "proceed", "continue"];
    let lower = line.trim().to_ascii_lowercase();
    let begins = lower.starts_with("press ") || lower.starts_with("enter ");
    let waits = lower.ends_with([':', '?']) && ASKED.iter().any(|word| lower.contains(word));
    let has_choice = ["? (y", "[y/n]", "(y/n)", "(yes/no"].iter().any(|end| lower.contains(end));
    lower.len() <= MAX_PROMPT_BYTES && (begins || waits || has_choice) && !is_error(bare(line))
}

/// Whether a line is runtime boilerplate around an error, or only decoration.
fn is_noise(line: &str) -> bool {
    let line = line.trim();
    let frame = |c: char| !c.is_alphanumeric();
    line.is_empty() || line.chars().all(frame) || NOISE.iter().any(|start| line.starts_with(start))
}

/// Whether a line begins the explanation of the options.
fn is_usage(line: &str) -> bool {
    let line = bare(line).to_ascii_lowercase();
    line.starts_with("usage:") || line == "options:" || line == "flags:" || line == "commands:"
}

/// `Error: ..`, `KeyError: ..`, `Error [CODE]: ..`, `error: ..`, `npm error ..`, `panicked at`, or a
/// line of a log at the level of errors.
fn is_error(line: &str) -> bool {
    let (head, rest) = match line.split_once(':') {
        Some((head, rest)) => (head, Some(rest)),
        None => (line, None),
    };
    let head = head.split(" [").next().unwrap_or(head);
    let word = head.rsplit(' ').next().unwrap_or(head).to_ascii_lowercase();
    let named = ["error", "exception", "fatal", "interrupt", "notfound", "panic"];
    rest.is_some() && named.iter().any(|name| word.ends_with(name))
        || ERROR_STARTS.iter().any(|start| line.starts_with(start))
        || line.contains(" panicked at ")
        || logged_text(line).is_some()
        || LEVEL.as_ref().is_some_and(|level| level.is_match(cut(line, MAX_LEVEL_BYTES)))
}

/// The text of an entry of a log in JSON, if it reports an error.
fn logged_text(line: &str) -> Option<String> {
    let line = line.trim();
    if !(line.starts_with('{') && line.ends_with('}')) {
        return None;
    }
    let entry: Value = serde_json::from_str(line).ok()?;
    let level = ["level", "severity", "levelname", "lvl"].iter().find_map(|key| entry.get(*key))?;
    let is_error = match level {
        Value::String(level) => ["error", "fatal", "critical", "panic", "alert", "emergency"]
            .contains(&level.to_ascii_lowercase().as_str()),
        // Pino and bunyan: 50 is an error, 60 the end.
        Value::Number(level) => level.as_u64().is_some_and(|level| level >= 50),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
    };
    let text = ["msg", "message", "event", "error"].iter().find_map(|key| entry[*key].as_str())?;
    let cause = ["/err/message", "/error/message", "/error", "/err", "/exception"];
    let cause = cause.iter().find_map(|place| entry.pointer(place)?.as_str());
    let cause = cause.filter(|cause| *cause != text && !text.contains(*cause));
    is_error.then(|| match cause {
        Some(cause) => format!("{text}: {cause}"),
        None => text.to_owned(),
    })
}

/// Where in a line of a log its level stands, at most.
const MAX_LEVEL_BYTES: usize = 80;

/// The level of errors in a line of a log.
static LEVEL: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x) (?:^|\s|\|)(?:ERROR|CRITICAL|FATAL|SEVERE)\s*(?:\||\s|:|-|\]|$)
             | \[\s*(?:error|ERROR|fatal|FATAL|critical|CRITICAL|crit)\s*\]
             | \blevel=(?:error|fatal|critical|panic)\b
             | ^\W?[EFC]\s?[0-9]{4}[\s-]",
    )
    .ok()
});

/// How lines begin that report an error without a colon.
const ERROR_STARTS: &[&str] = &[
    "npm error ",
    "npm ERR! ",
    "Error ",
    "ERROR ",
    "Fatal ",
    "fatal ",
    "panic: ",
    "An executable named ",
];

/// Prefixes of lines that runtimes print around an error, without information about it.
const NOISE: &[&str] = &[
    "Node.js v",
    "at ",
    "Run 'docker run --help'",
    "See 'docker",
    "npm error A complete log of this run",
    "npm ERR! A complete log of this run",
    "npm notice",
    "note: run with `RUST_BACKTRACE",
    "code: '",
    "errno: ",
    "syscall: '",
    "path: '",
    "spawnargs: ",
    "requireStack: ",
    "url: 'file:",
    "[notice]",
    "[signal SIG",
    "goroutine ",
    "exit status ",
    "For further information visit ",
    "For more information",
    "Traceback (most recent call last)",
    "During handling of the above exception",
];

/// How lines of `npm` begin that say nothing by themselves.
const NPM_DETAILS: &[&str] = &[
    "code ",
    "errno ",
    "syscall ",
    "path ",
    "dest ",
    "command ",
    "cwd ",
    "signal ",
    "A complete log",
];
