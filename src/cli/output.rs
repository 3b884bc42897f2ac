//! Writing to stdout and stderr: a closed pipe is not an error, colour only where enabled.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use base64::Engine as _;
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::Value;

use super::args::ColorChoice;
use base::SafeText;
use base::notices::NoticeReader;
use base::text::json;
use config::{Diagnostic, render_all};
use host::{HostView, ServerState, ServerView, StartStep, StepStatus};

/// Writes the answer of a command to stdout and returns `exit`.
///
/// A closed pipe (`| head -1`) is not an error: no message, same exit code. Any other
/// error, such as a full disk behind a redirection, is reported and counts as a failure.
pub fn print(text: &str, exit: ExitStatus) -> ExitStatus {
    print_bytes(text.as_bytes(), exit)
}

/// As [`print`], a value as JSON on several lines.
pub fn json(value: &impl Serialize, exit: ExitStatus) -> ExitStatus {
    print(&(json::pretty(value) + "\n"), exit)
}

/// As [`print`], a value as JSON on one line.
pub fn json_line(value: &impl Serialize, exit: ExitStatus) -> ExitStatus {
    print(&(json::compact(value) + "\n"), exit)
}

/// As [`print`], for bytes that need not be text.
pub fn print_bytes(bytes: &[u8], exit: ExitStatus) -> ExitStatus {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => exit,
        Err(error) if error.kind() == ErrorKind::BrokenPipe => exit,
        Err(error) => {
            complain(&format!("cannot write to stdout: {error}"));
            exit.or_failed()
        }
    }
}

/// Writes one message to stderr.
pub fn complain(message: &str) {
    let _ = writeln!(io::stderr().lock(), "mcpdeck: {message}");
}

/// Most notices that are remembered as written, and as many warnings.
const MAX_KNOWN_NOTICES: usize = 1_024;

/// What was written of notices, and of warnings that say the same. Which of the two comes first is
/// up to the threads that tell and warn.
#[derive(Default)]
struct ToldNotices {
    notices: BTreeSet<SafeText>,
    /// Warnings whose notice is not written yet.
    warnings: BTreeSet<SafeText>,
}

impl ToldNotices {
    /// Takes a notice. Returns whether it is to be written: always, unless its warning was.
    fn takes_notice(&mut self, notice: &SafeText) -> bool {
        Self::remember(&mut self.notices, notice);
        !self.warnings.remove(notice)
    }

    /// Takes a warning. Returns whether it is to be written: unless a notice said it.
    fn takes_warning(&mut self, warning: &SafeText) -> bool {
        let is_new = !self.notices.contains(warning);
        if is_new {
            Self::remember(&mut self.warnings, warning);
        }
        is_new
    }

    fn remember(known: &mut BTreeSet<SafeText>, text: &SafeText) {
        if known.len() < MAX_KNOWN_NOTICES {
            known.insert(text.clone());
        }
    }
}

static NOTICES: LazyLock<Mutex<(NoticeReader, ToldNotices)>> =
    LazyLock::new(|| Mutex::new((NoticeReader::from_start(), ToldNotices::default())));

/// Writes what the operator must hear about files with secrets or rights, each notice once.
pub fn notices() {
    let (reader, written) = &mut *NOTICES.lock();
    reader.read().iter().filter(|notice| written.takes_notice(notice)).for_each(|it| complain(it));
}

/// Writes a warning of the policy, unless it was written as a notice about its file.
pub fn notice(text: &str) {
    notices();
    let text = SafeText::line(text);
    if NOTICES.lock().1.takes_warning(&text) {
        complain(&text);
    }
}

/// Writes progress of a command to stderr when that is a terminal; a program that reads stderr
/// gets problems only.
pub fn progress(message: &str) {
    if io::stderr().is_terminal() {
        complain(message);
    }
}

/// Writes something to be careful about to stderr; the verb goes on.
pub fn warn(message: &str) {
    complain(&format!("warning: {message}"));
}

/// Reports why the arguments or the configuration cannot be used.
pub fn refuse(message: &str) -> ExitStatus {
    complain(message);
    ExitStatus::Usage
}

/// Writes the problems of a configuration to stderr, each with its line.
pub fn problems(diagnostics: &[Diagnostic]) -> ExitStatus {
    let text = render_all(diagnostics);
    let _ = writeln!(io::stderr().lock(), "{}", text.trim_end());
    ExitStatus::Usage
}

/// Whether stdout gets colour.
pub fn colour(choice: ColorChoice) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let off = |name: &str| std::env::var_os(name).is_some_and(|v| !v.is_empty());
            let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            io::stdout().is_terminal() && !off("NO_COLOR") && !dumb
        }
    }
}

/// Formats rows as aligned columns; every cell is sanitized. Columns of numbers below a title are
/// right-aligned.
pub fn table<const N: usize>(indent: &str, rows: impl IntoIterator<Item = [String; N]>) -> String {
    /// Widest alignment, in characters; longer cells overflow.
    const MAX_CELL_CHARS: usize = 48;
    let safe = |row: [String; N]| row.map(|cell| SafeText::line(&cell).to_string());
    let rows: Vec<[String; N]> = rows.into_iter().map(safe).collect();
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0).min(MAX_CELL_CHARS)
    });
    let is_number = |cell: &str| cell == "-" || cell.parse::<u64>().is_ok();
    let numbers: [bool; N] = std::array::from_fn(|column| {
        rows.len() > 1 && rows[1..].iter().all(|row| is_number(&row[column]))
    });
    let mut out = String::new();
    for row in &rows {
        let mut line = indent.to_owned();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if numbers[column] {
                write!(line, "{cell:>width$}  ")
            } else {
                write!(line, "{cell:width$}  ")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

// Results as text and as bytes. Pure.

/// A result for people: text as it is, everything else named by kind and size.
pub fn text(result: &Value) -> String {
    let mut parts: Vec<String> = Vec::new();
    for block in list(result, "content") {
        parts.push(block_text(block));
    }
    for content in list(result, "contents") {
        parts.push(resource_text(content, "--output saves it"));
    }
    for message in list(result, "messages") {
        let role = message.get("role").and_then(Value::as_str).unwrap_or("?");
        let body = message.get("content").map(block_text).unwrap_or_default();
        parts.push(format!("[{role}]\n{body}"));
    }
    if let Some(structured) = result.get("structuredContent").filter(|v| !v.is_null())
        && parts.iter().all(String::is_empty)
    {
        parts.push(format!("{structured:#}"));
    }
    if parts.is_empty() && !list(result, "content").is_empty() {
        parts.push(format!("{result:#}"));
    }
    parts.join("\n")
}

fn list<'a>(result: &'a Value, key: &str) -> &'a [Value] {
    result.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn block_text(block: &Value) -> String {
    let field = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    match field("type") {
        "text" => field("text").to_owned(),
        kind @ ("image" | "audio") => {
            let bytes = field("data").len() / 4 * 3;
            format!("[{kind} {}, about {bytes} bytes; --json has it]", field("mimeType"))
        }
        "resource" => {
            block.get("resource").map(|r| resource_text(r, "--json has it")).unwrap_or_default()
        }
        "resource_link" => format!("[resource {} {}]", field("uri"), field("name")),
        _ => format!("{block:#}"),
    }
}

fn resource_text(content: &Value, hint: &str) -> String {
    let field = |key: &str| content.get(key).and_then(Value::as_str);
    if let Some(text) = field("text") {
        return text.to_owned();
    }
    let bytes = field("blob").map_or(0, |blob| blob.len() / 4 * 3);
    let kind = field("mimeType").unwrap_or("blob");
    let uri = field("uri").unwrap_or_default();
    format!("[{kind} {uri}, about {bytes} bytes; {hint}]")
}

/// The bytes of a result, for a file: all its contents or blocks decoded, one after the other, text
/// blocks on lines of their own; `structuredContent` where there is nothing else. `shown` is how a
/// text is written; what is binary stays as it was sent.
///
/// # Errors
/// When a blob is not valid base64, or there is nothing.
pub fn bytes(result: &Value, shown: impl Fn(&str) -> String) -> Result<Vec<u8>, String> {
    let messages = list(result, "messages").iter().filter_map(|message| message.get("content"));
    let blocks: Vec<&Value> = list(result, "content").iter().chain(messages).collect();
    let mut out = Vec::new();
    for block in list(result, "contents").iter().chain(blocks.iter().copied()) {
        let body = block.get("resource").unwrap_or(block);
        let field = |key: &str| body.get(key).and_then(Value::as_str);
        match (field("text"), field("blob").or_else(|| field("data"))) {
            (Some(text), _) => {
                if !out.is_empty() && !blocks.is_empty() {
                    out.push(b'\n');
                }
                out.extend(shown(text).into_bytes());
            }
            (None, Some(blob)) => {
                let decoded = base64::engine::general_purpose::STANDARD.decode(blob);
                let decoded =
                    decoded.map_err(|e| format!("the content is not valid base64: {e}"))?;
                let is_text = field("mimeType").is_some_and(|kind| kind.starts_with("text/"));
                match String::from_utf8(decoded) {
                    Ok(text) if is_text => out.extend(shown(&text).into_bytes()),
                    Ok(text) => out.extend(text.into_bytes()),
                    Err(binary) => out.extend(binary.into_bytes()),
                }
            }
            (None, None) => out.extend(shown(&block_text(block)).into_bytes()),
        }
    }
    if let Some(structured) = result.get("structuredContent").filter(|_| out.is_empty()) {
        out = shown(&format!("{structured:#}")).into_bytes();
    }
    let nothing = out.is_empty() && blocks.is_empty() && list(result, "contents").is_empty();
    if nothing { Err("the result has no content".to_owned()) } else { Ok(out) }
}

// A progress line on stderr: what a run waits for. Only on a terminal; erased at the end.

/// A shorter run shows no progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Longest line, in characters.
const MAX_LINE_CHARS: usize = 79;
/// Longest name of a server in it, in characters.
const MAX_NAME_CHARS: usize = 24;

pub struct ProgressLine {
    on: bool,
    began: Instant,
    shown: String,
}

impl ProgressLine {
    /// A line when stderr is a terminal that can overwrite it.
    pub fn new() -> Self {
        let dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
        let on = io::stderr().is_terminal() && !dumb;
        Self { on, began: Instant::now(), shown: String::new() }
    }

    /// Shows the state of the servers.
    pub fn show(&mut self, view: &HostView, stopping: bool) {
        let elapsed = self.began.elapsed();
        if !self.on || (elapsed < PROGRESS_INTERVAL && !stopping) {
            return;
        }
        let line = if stopping { stopping_line(view) } else { describe(view, elapsed) };
        if line != self.shown {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K{line}");
            let _ = io::stderr().flush();
            self.shown = line;
        }
    }
}

/// Erases the line.
impl Drop for ProgressLine {
    fn drop(&mut self) {
        if !self.shown.is_empty() {
            let _ = write!(io::stderr().lock(), "\r\u{1b}[K");
            let _ = io::stderr().flush();
        }
    }
}

/// `12 s  3 ready, 2 done of 7; waiting for files (handshake)`
fn describe(view: &HostView, elapsed: Duration) -> String {
    let (mut ready, mut done, mut open) = (0, 0, Vec::new());
    for server in view.servers.values() {
        match server.state {
            ServerState::Ready => ready += 1,
            ServerState::Starting | ServerState::Waiting => open.push(waits(server)),
            ServerState::Shutdown if is_alive(server) => {
                open.push(format!("{} (stopping)", name(server)));
            }
            _ => done += 1,
        }
    }
    let mut line =
        format!("{} s  {ready} ready, {done} done of {}", elapsed.as_secs(), view.servers.len());
    if !open.is_empty() {
        let more = open.len().saturating_sub(3);
        open.truncate(3);
        let _ = write!(line, "; waiting for {}", open.join(", "));
        if more > 0 {
            let _ = write!(line, " and {more} more");
        }
    }
    SafeText::cut(&line, MAX_LINE_CHARS).to_string()
}

fn stopping_line(view: &HostView) -> String {
    let open = view.servers.values().filter(|server| is_alive(server)).count();
    let (servers, them) = if open == 1 { ("server", "it") } else { ("servers", "them") };
    format!("interrupted: stopping {open} {servers}; Ctrl-C again ends {them} at once")
}

fn is_alive(server: &ServerView) -> bool {
    server.pid.is_some()
}

fn name(server: &ServerView) -> String {
    SafeText::cut(server.name.as_str(), MAX_NAME_CHARS).to_string()
}

fn waits(server: &ServerView) -> String {
    let step = server.steps.iter().rev().find(|s| s.status == StepStatus::Running);
    let at = match step.map(|s| s.step) {
        None => return name(server),
        Some(StartStep::Resolve) => "looking for it",
        Some(StartStep::Spawn) => "connecting",
        Some(StartStep::FirstByte) => "its first output",
        Some(StartStep::Handshake) => "handshake",
        Some(StartStep::Authorize) => "authorisation",
        Some(_) => "lists",
    };
    format!("{} ({at})", name(server))
}

// Exit codes of the program.

/// The exit code of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Everything asked for was done.
    Ok = 0,
    /// Findings, a tool error, or a failed call.
    Failed = 1,
    /// The arguments or the configuration cannot be used.
    Usage = 2,
    /// A server could not be started or reached.
    Unavailable = 3,
    /// Interrupted by Ctrl-C, as shells count it.
    Interrupted = 130,
}

impl ExitStatus {
    /// This, unless all was well: then a failure.
    pub fn or_failed(self) -> Self {
        if self == Self::Ok { Self::Failed } else { self }
    }
}

/// What a command returns: its exit code, or that of a failure it has already reported.
pub type CommandResult = Result<ExitStatus, ExitStatus>;

impl From<CommandResult> for ExitStatus {
    fn from(done: CommandResult) -> Self {
        done.unwrap_or_else(|exit| exit)
    }
}

impl From<ExitStatus> for ExitCode {
    fn from(exit: ExitStatus) -> Self {
        Self::from(exit as u8)
    }
}

impl From<::check::CheckVerdict> for ExitStatus {
    fn from(verdict: ::check::CheckVerdict) -> Self {
        use ::check::CheckVerdict;
        match verdict {
            CheckVerdict::Ok => Self::Ok,
            CheckVerdict::Violated => Self::Failed,
            CheckVerdict::Incomplete => Self::Unavailable,
            CheckVerdict::Usage => Self::Usage,
        }
    }
}

#[cfg(test)]
mod content_tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn text_is_shown_and_the_rest_is_named() {
        let result = json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "mimeType": "image/png", "data": "AAAA"},
            {"type": "resource_link", "uri": "file:///x", "name": "x"},
        ]});
        let shown = text(&result);
        assert!(shown.starts_with("hello\n[image image/png, about 3 bytes"), "{shown}");
        assert!(text(&json!({"structuredContent": {"a": 1}, "content": []})).contains("\"a\": 1"));
        let prompt =
            json!({"messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]});
        assert_eq!(text(&prompt), "[user]\nhi");
    }

    #[test]
    fn bytes_are_decoded_and_bad_base64_is_refused() {
        let bytes = |result: Value| super::bytes(&result, |text| text.replace('i', "*"));
        assert_eq!(bytes(json!({"contents": [{"blob": "aGk="}]})), Ok(b"hi".to_vec()));
        let text = json!({"contents": [{"blob": "aGk=", "mimeType": "text/plain"}]});
        assert_eq!(bytes(text), Ok(b"h*".to_vec()));
        assert_eq!(bytes(json!({"contents": [{"text": "hi"}]})), Ok(b"h*".to_vec()));
        assert_eq!(bytes(json!({"structuredContent": "hi"})), Ok(b"\"h*\"".to_vec()));
        assert!(bytes(json!({"contents": [{"blob": "%"}]})).is_err());
        assert!(bytes(json!({"contents": []})).is_err());
    }
}

#[cfg(test)]
mod tests {
    use super::{SafeText, ToldNotices};

    #[test]
    fn what_a_notice_and_a_warning_say_is_written_once_each_time() {
        let text = SafeText::line("the file is broken");
        for begins_with_warning in [true, false] {
            let mut written = ToldNotices::default();
            let mut first = 0;
            if begins_with_warning {
                first += i32::from(written.takes_warning(&text));
            }
            first += i32::from(written.takes_notice(&text));
            first += i32::from(written.takes_warning(&text));
            assert_eq!(first, 1);
            // The same happens again.
            let again = [written.takes_warning(&text), written.takes_notice(&text)];
            assert_eq!(again, [false, true]);
        }
    }

    #[test]
    fn numbers_below_a_title_stand_to_the_right() {
        let rows = [["server", "tools"], ["files", "14"], ["gone", "-"]];
        let table = super::table("", rows.map(|row| row.map(str::to_owned)));
        assert_eq!(table, "server  tools\nfiles      14\ngone        -\n");
    }
}
