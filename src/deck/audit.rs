//! The audit log of a policy: append only, one JSON object on a line, each with the hash of the line
//! before it. Several programs may write to one file. Reads it back, and checks its chain.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::otlp::{OtlpQueue, attribute};
use crate::policy::PolicyFile;
use base::atomic::create_private_folder;
use base::file::{file_key, hex, random_hex, remove};
use base::notices::notify;
use base::state::StateFile;
use base::text::path::spelled;
use base::{Clock, Timestamp};
use config::Environment;
use host::{AuditConfig, AuditEvent, AuditSink};

/// Longest line that is read back, in bytes: no event has text of unbounded length.
const MAX_AUDIT_LINE_BYTES: u64 = 64 << 10;
/// How often the lock of a log is tried; another program holds it for one line.
const MAX_LOCK_TURNS: u32 = 200_000;
/// A file is set aside while its lock is waited for at most this often in a row; each time another
/// program has written.
const MAX_ROTATIONS: usize = 1_000;
/// What stands for the line before the first.
const FIRST_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Where the audit log of a configuration is.
#[derive(Clone, Debug)]
pub struct AuditPlace {
    usual: Option<PathBuf>,
    home: Option<PathBuf>,
    cwd: PathBuf,
}

impl AuditPlace {
    /// The place for a configuration file.
    pub fn new(config: Option<&Path>, env: &Environment) -> Self {
        let usual = |config: &Path| {
            let key = file_key(config::clean_path(&env.absolute(config)));
            Some(env.state_dir.as_ref()?.join("audit").join(format!("{key}.jsonl")))
        };
        Self { usual: config.and_then(usual), home: env.home.clone(), cwd: env.cwd.clone() }
    }

    /// The file of the log that a policy asks for; `None` when it asks for none.
    ///
    /// # Errors
    /// When there is no folder for it.
    pub fn of_policy(&self, policy: &PolicyFile) -> Option<Result<PathBuf, String>> {
        let config = policy.config.audit.as_ref()?;
        let beside = policy.source.as_deref().and_then(Path::parent).unwrap_or(Path::new(""));
        Some(match config.file.as_deref().map(|file| (file, file.strip_prefix("~/"))) {
            None => {
                let none = || "the audit log has no folder: name its `file`".to_owned();
                self.usual.clone().ok_or_else(none)
            }
            Some((file, Some(below))) => {
                let none = || format!("`{file}`: there is no home folder");
                self.home.as_ref().map(|home| home.join(below)).ok_or_else(none)
            }
            Some((file, None)) => Ok(config::clean_path(&self.cwd.join(beside).join(file))),
        })
    }
}

/// An audit log that is written to.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    max_bytes: u64,
    keep: Option<u32>,
    /// Tells the programs apart that write to it: their calls are numbered from one.
    host: String,
    /// Where each line is sent too.
    export: Option<OtlpQueue>,
    /// As the policy names it, and what it is sent with each request.
    collector: Option<String>,
    headers: BTreeMap<String, String>,
    state: Mutex<AuditState>,
}

#[derive(Debug, Default)]
struct AuditState {
    tail: Option<AuditTail>,
    /// Number and hash of the last line that this program saw.
    last: Option<(u64, String)>,
    /// Why the last event could not be written.
    failing: Option<String>,
}

/// The open file of a log.
#[derive(Debug)]
struct AuditTail {
    file: File,
    bytes: u64,
}

/// One line of a log.
#[derive(Serialize)]
struct AuditLine<'a> {
    seq: u64,
    #[serde(flatten)]
    event: &'a Value,
    host: &'a str,
    prev: &'a str,
}

/// A line as it is read back.
#[derive(Debug, Deserialize)]
struct ReadLine {
    seq: u64,
    prev: String,
}

impl AuditLog {
    /// The log in a file, which is opened with its first event.
    pub fn new(path: PathBuf, config: &AuditConfig) -> Self {
        let host = random_hex::<4>().unwrap_or_else(|_| std::process::id().to_string());
        let (max_bytes, keep) = (config.max_bytes(), config.keep);
        let (collector, headers) = (config.otlp.clone(), config.otlp_headers.clone());
        let (export, state) = (None, Mutex::default());
        Self { path, max_bytes, keep, host, export, collector, headers, state }
    }

    /// The same, with each line that is written sent to a collector too.
    #[must_use]
    pub fn exported_to(mut self, queue: Option<OtlpQueue>) -> Self {
        self.export = queue;
        self
    }

    /// Whether it is the log in this file, with these settings.
    pub(crate) fn is_for(&self, path: &Path, config: &AuditConfig) -> bool {
        self.path == path
            && (self.max_bytes, self.keep) == (config.max_bytes(), config.keep)
            && (&self.collector, &self.headers) == (&config.otlp, &config.otlp_headers)
            && self.export.is_some() == config.otlp.is_some()
    }

    /// Makes the file, and tells the operator when it cannot be written to.
    pub fn prepare(&self) {
        let mut state = self.state.lock();
        let opened = self.locked(&mut state).and_then(|tail| tail.file.unlock());
        let _ = self.report(&mut state, opened);
    }

    /// Why the last event could not be written: calls are refused until one can.
    pub fn problem(&self) -> Option<String> {
        self.state.lock().failing.clone()
    }

    fn about(&self, why: &dyn std::fmt::Display) -> String {
        format!("{}: {why}", spelled(&self.path))
    }

    /// Tells the operator when writing begins to fail, and when it ends.
    fn report(&self, state: &mut AuditState, done: io::Result<()>) -> Result<(), String> {
        let Err(error) = done else {
            if state.failing.take().is_some() {
                notify(&self.about(&"calls are audited again"));
            }
            return Ok(());
        };
        let why = self.about(&error);
        let problem = format!("{why}; calls cannot be audited, so they are refused");
        if state.failing.replace(problem.clone()).is_none() {
            notify(&problem);
        }
        Err(why)
    }

    fn append(&self, state: &mut AuditState, event: &Value) -> io::Result<()> {
        for _ in 0..MAX_ROTATIONS {
            if self.locked(state)?.bytes < self.max_bytes {
                break;
            }
            self.rotate(state)?;
        }
        let appended = self.append_locked(state, event);
        match &state.tail {
            Some(tail) if appended.is_ok() => tail.file.unlock(),
            // Closing it ends the lock. It is looked at anew.
            _ => {
                state.tail = None;
                appended
            }
        }
    }

    fn append_locked(&self, state: &mut AuditState, event: &Value) -> io::Result<()> {
        let (seq, prev) = state.last.clone().unwrap_or((0, FIRST_HASH.to_owned()));
        let line = AuditLine { seq: seq + 1, event, host: &self.host, prev: &prev };
        let mut text = serde_json::to_string(&line)?;
        let hash = hash_of_line(text.as_bytes());
        let record = self.export.as_ref().map(|_| log_record(event, &text, now()));
        text.push('\n');
        let tail = state.tail.as_mut().ok_or_else(|| io::Error::other("it is not open"))?;
        if tail.bytes == 0 {
            self.remove_surplus()?;
        }
        tail.file.write_all(text.as_bytes()).inspect_err(|_| {
            // Half a line would break the chain.
            let _ = tail.file.set_len(tail.bytes);
        })?;
        tail.bytes += text.len() as u64;
        state.last = Some((seq + 1, hash));
        if let (Some(export), Some(record)) = (&self.export, record) {
            export.send(record);
        }
        Ok(())
    }

    /// The file, locked, with what other programs wrote to it meanwhile taken in.
    fn locked<'s>(&self, state: &'s mut AuditState) -> io::Result<&'s mut AuditTail> {
        for _ in 0..MAX_ROTATIONS {
            let mut tail = match state.tail.take() {
                Some(tail) => tail,
                // Its length says that it was not read yet.
                None => AuditTail { file: self.open()?, bytes: u64::MAX },
            };
            lock(&tail.file)?;
            if !is_same(&tail.file, &self.path) {
                continue;
            }
            let bytes = tail.file.metadata()?.len();
            if bytes != tail.bytes {
                let mended = self.take_in(&mut tail, &mut state.last)?;
                if let Some(mended) = mended {
                    state.tail = Some(tail);
                    self.append_locked(state, &mended)?;
                    let told = "its last line was cut short; that is in the log now";
                    notify(&self.about(&told));
                    tail = state.tail.take().ok_or_else(|| io::Error::other("it is not open"))?;
                }
            }
            return Ok(state.tail.insert(tail));
        }
        Err(io::Error::other("other programs set it aside all the time"))
    }

    /// Opens the file: the user's own, no link.
    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.append(true).create(true).read(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        if let Some(folder) = self.path.parent().filter(|it| !it.as_os_str().is_empty()) {
            create_private_folder(folder)?;
        }
        StateFile::new(&self.path, u64::MAX).of_rights().open(&options)
    }

    /// Reads the last line. A line that was cut short is taken off, and returned as an event.
    fn take_in(
        &self,
        tail: &mut AuditTail,
        last: &mut Option<(u64, String)>,
    ) -> io::Result<Option<Value>> {
        let bytes = tail.file.metadata()?.len();
        let from = bytes.saturating_sub(2 * MAX_AUDIT_LINE_BYTES);
        let mut end = Vec::new();
        tail.file.seek(SeekFrom::Start(from))?;
        (&tail.file).take(2 * MAX_AUDIT_LINE_BYTES).read_to_end(&mut end)?;
        let whole = end.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        if whole == 0 && from > 0 {
            return Err(io::Error::other("it is not an audit log: its last line is too long"));
        }
        let rest = &end[whole..];
        let mended = (!rest.is_empty()).then(|| {
            json!({"event": "mended", "at": now().to_rfc3339(), "bytes": rest.len(),
                   "sha256": hash_of_line(rest)})
        });
        let lines = end[..whole].strip_suffix(b"\n").unwrap_or(&end[..whole]);
        let line = lines.rsplit(|byte| *byte == b'\n').next().filter(|line| !line.is_empty());
        let found = match line {
            Some(line) => Some(read_line(line).map(|read| (read.seq, hash_of_line(line)))),
            // The first of its kind, or one that follows others.
            None => newest_aside(&self.path)?.map(|file| last_of(&file)),
        };
        let found = found.transpose().map_err(io::Error::other)?;
        if mended.is_some() {
            tail.file.set_len(from + whole as u64)?;
        }
        tail.bytes = from + whole as u64;
        // A file that was cut or replaced goes on from what this program knows, so that it shows.
        let known = last.as_ref().map_or(0, |(seq, _)| *seq);
        if let Some((seq, hash)) = found.filter(|(seq, _)| *seq >= known) {
            *last = Some((seq, hash));
        }
        Ok(mended)
    }

    /// Sets the full file aside under the number of its last event; whoever opens the next one first
    /// begins it.
    fn rotate(&self, state: &mut AuditState) -> io::Result<()> {
        let seq = state.last.as_ref().map_or(0, |(seq, _)| *seq);
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{seq:012}"));
        let aside = self.path.with_file_name(name);
        if aside.symlink_metadata().is_ok() {
            let why = format!("{} is in the way of setting it aside", spelled(&aside));
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        std::fs::rename(&self.path, &aside)?;
        state.tail = None;
        Ok(())
    }

    /// Removes the oldest files that were set aside, beyond the number to keep. Only whoever begins
    /// the next file does, with its lock and what its first line goes on from.
    fn remove_surplus(&self) -> io::Result<()> {
        let Some(keep) = self.keep else { return Ok(()) };
        let all = set_aside(&self.path)?;
        let surplus = all.len().saturating_sub(keep as usize);
        all.values().take(surplus).try_for_each(|old| remove(old).map(drop))
    }
}

impl AuditSink for AuditLog {
    fn write(&self, event: &AuditEvent) -> Result<(), String> {
        let mut state = self.state.lock();
        let appended = self.append(&mut state, &json!(event));
        self.report(&mut state, appended)
    }

    fn flush(&self) -> BoxFuture<'static, ()> {
        match self.export.clone() {
            Some(export) => Box::pin(async move { export.flush().await }),
            None => Box::pin(std::future::ready(())),
        }
    }
}

/// A line of the log as an OTLP log record: the line as it is written for the body, so that the chain
/// can be checked from what the collector has, and what it is searched by as attributes.
fn log_record(event: &Value, line: &str, at: Timestamp) -> Value {
    let kind = event["event"].as_str().unwrap_or_default();
    let is_fine = event["allowed"] == true || kind == "mended";
    let (number, word) = if is_fine { (9, "INFO") } else { (13, "WARN") };
    let mut attributes = Vec::new();
    for key in ["event", "caller", "profile", "action", "target", "rule", "status"] {
        let text = event[key].as_str();
        attributes.extend(text.map(|text| attribute(&format!("mcpdeck.audit.{key}"), text)));
    }
    attributes.push(json!({"key": "mcpdeck.audit.allowed", "value": {"boolValue": is_fine}}));
    // OTLP/JSON encodes 64-bit numbers as strings.
    let nanos = format!("{}000", at.0);
    let mut record = json!({
        "timeUnixNano": nanos, "observedTimeUnixNano": nanos, "severityNumber": number,
        "severityText": word, "eventName": format!("mcpdeck.audit.{kind}"),
        "body": {"stringValue": line}, "attributes": attributes,
    });
    // A `traceparent` (W3C Trace Context, section 3.2): version, trace, span, flags.
    if let Some(trace) = event["trace"].as_str()
        && let (Some(id), Some(span)) = (trace.get(3..35), trace.get(36..52))
    {
        record["traceId"] = id.into();
        record["spanId"] = span.into();
    }
    record
}

/// An audit log without a place: every event is refused.
#[derive(Debug)]
pub(crate) struct NoAuditPlace(pub(crate) String);

impl AuditSink for NoAuditPlace {
    fn write(&self, _: &AuditEvent) -> Result<(), String> {
        Err(self.0.clone())
    }
}

fn now() -> Timestamp {
    Clock::system().now()
}

fn hash_of_line(line: &[u8]) -> String {
    hex(&Sha256::digest(line))
}

fn read_line(line: &[u8]) -> Result<ReadLine, String> {
    let what = "it is not a line of an audit log";
    serde_json::from_slice(line).map_err(|_| what.to_owned())
}

/// Locks a file against other programs.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..MAX_LOCK_TURNS {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::WouldBlock, "another program holds its lock"))
}

/// Whether an open file is the one at a path.
fn is_same(file: &File, path: &Path) -> bool {
    let (Ok(own), Ok(there)) = (file.metadata(), path.symlink_metadata()) else { return false };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (own.dev(), own.ino()) == (there.dev(), there.ino())
    }
    #[cfg(not(unix))]
    {
        own.len() == there.len() && own.created().ok() == there.created().ok()
    }
}

/// The files that were set aside from a log, by the number of their last event.
fn set_aside(path: &Path) -> io::Result<BTreeMap<u64, PathBuf>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut out = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?.path();
        let own = entry.file_name().and_then(|own| own.to_str()).unwrap_or_default();
        let number = own.strip_prefix(&name).and_then(|rest| rest.strip_prefix('.'));
        let number = number.filter(|it| it.len() >= 12 && it.bytes().all(|c| c.is_ascii_digit()));
        if let Some(number) = number.and_then(|number| number.parse().ok()) {
            out.insert(number, entry);
        }
    }
    Ok(out)
}

fn newest_aside(path: &Path) -> io::Result<Option<PathBuf>> {
    Ok(set_aside(path)?.into_values().next_back())
}

/// Number and hash of the last line of a file that was set aside.
fn last_of(path: &Path) -> Result<(u64, String), String> {
    let about = |why: &dyn std::fmt::Display| format!("{}: {why}", spelled(path));
    let mut last = None;
    read_file(path, u64::MAX, |line| {
        last = Some((read_line(line)?.seq, hash_of_line(line)));
        Ok(())
    })?;
    last.ok_or_else(|| about(&"it is empty"))
}

/// Reads the lines of a file, up to a length.
fn read_file(
    path: &Path,
    length: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), String> {
    let file = StateFile::new(path, u64::MAX).of_rights().open(OpenOptions::new().read(true));
    let file = file.map_err(|error| format!("{}: {error}", spelled(path)))?;
    let about = |line: u64, why: &str| format!("{}:{line}: {why}", spelled(path));
    let mut from = BufReader::new(file.take(length));
    for number in 1.. {
        let mut line = Vec::new();
        let read = (&mut from).take(MAX_AUDIT_LINE_BYTES).read_until(b'\n', &mut line);
        read.map_err(|error| about(number, &error.to_string()))?;
        if line.is_empty() {
            break;
        }
        if line.pop() != Some(b'\n') {
            return Err(about(number, "the line is cut short, or longer than any event"));
        }
        each(&line).map_err(|why| about(number, &why))?;
    }
    Ok(())
}

/// Reads every line of a log, the oldest first.
fn read_log(
    path: &Path,
    mut each: impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<Vec<PathBuf>, String> {
    let about = |error: io::Error| format!("{}: {error}", spelled(path));
    // What is written meanwhile is not read: it may be half a line.
    let live = match File::open(path) {
        Ok(file) => Some((file.metadata().map_err(about)?.len(), file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(about(error)),
    };
    let mut files: Vec<PathBuf> = match set_aside(path) {
        Ok(files) => files.into_values().collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(about(error)),
    };
    // It may have been set aside since it was opened.
    let is_live = |file: &PathBuf| live.as_ref().is_some_and(|(_, live)| is_same(live, file));
    files.retain(|file| !is_live(file));
    for file in &files {
        read_file(file, u64::MAX, &mut each)?;
    }
    if let Some((length, live)) = live {
        if !is_same(&live, path) {
            let why = match path.symlink_metadata() {
                Ok(meta) if meta.is_symlink() => "it is a link: name the file itself",
                _ => "it was set aside just now: try again",
            };
            return Err(format!("{}: {why}", spelled(path)));
        }
        read_file(path, length, &mut each)?;
        files.push(path.to_owned());
    }
    if files.is_empty() {
        return Err(format!("{}: there is no such file", spelled(path)));
    }
    Ok(files)
}

/// What a check of an audit log found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditReport {
    /// The files, oldest first.
    pub files: Vec<PathBuf>,
    /// Number of lines.
    pub events: u64,
    /// Number of the first event: larger than one when older files were removed.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Hash of the last line.
    pub hash: String,
}

/// Checks the chain of an audit log and of the files set aside from it. With `end`, a line with that
/// hash must be in it: only so does a cut end show.
///
/// # Errors
/// The first place where the chain is broken, with file, line and reason.
pub fn verify_audit(path: &Path, end: Option<&str>) -> Result<AuditReport, String> {
    let mut report = AuditReport { hash: FIRST_HASH.to_owned(), ..AuditReport::default() };
    let mut has_end = end.is_none_or(|end| end == FIRST_HASH);
    let files = read_log(path, |line| {
        let ReadLine { seq, prev } = read_line(line)?;
        if report.events == 0 {
            // The oldest files may have been removed.
            (report.first, report.last) = (seq, seq.saturating_sub(1));
            if seq > 1 {
                report.hash.clone_from(&prev);
            }
        }
        if seq != report.last + 1 {
            return Err(format!("event {} is expected, this is {seq}", report.last + 1));
        }
        if prev != report.hash {
            return Err("the line before it was changed, or is missing".to_owned());
        }
        report.hash = hash_of_line(line);
        report.last = seq;
        report.events += 1;
        has_end |= end == Some(&*report.hash);
        Ok(())
    })?;
    report.files = files;
    match end {
        Some(end) if !has_end => Err(format!(
            "{}: no line has the hash {end}: the end was cut, or changed",
            spelled(path)
        )),
        _ => Ok(report),
    }
}

/// The events of an audit log, as they were written, the oldest first.
///
/// # Errors
/// The first line that cannot be read, with its file.
pub fn read_audit(path: &Path, each: &mut dyn FnMut(Value)) -> Result<(), String> {
    let read = read_log(path, |line| {
        let event = serde_json::from_slice(line);
        each(event.map_err(|_| "it is not a line of an audit log".to_owned())?);
        Ok(())
    });
    read.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(target: &str) -> AuditEvent {
        AuditEvent { target: target.to_owned(), ..AuditEvent::default() }
    }

    fn log(path: &Path) -> AuditLog {
        AuditLog::new(path.to_owned(), &AuditConfig::default())
    }

    fn small(path: &Path, keep: Option<u32>) -> AuditLog {
        AuditLog { max_bytes: 1_000, keep, ..log(path) }
    }

    fn fill(log: &AuditLog, range: std::ops::Range<u32>) {
        range.for_each(|n| log.write(&event(&format!("s.t{n}"))).expect("written"));
    }

    fn lines(path: &Path) -> Vec<String> {
        let text = std::fs::read_to_string(path).expect("read");
        text.lines().map(|line| format!("{line}\n")).collect()
    }

    #[test]
    fn a_log_goes_on_over_files_and_openings_and_any_change_shows() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("deep/audit.jsonl");
        fill(&small(&path, None), 0..10);
        fill(&small(&path, None), 10..20);
        let report = verify_audit(&path, None).expect("whole");
        assert_eq!((report.events, report.first, report.last), (20, 1, 20));
        assert!(report.files.len() > 2, "{report:?}");
        verify_audit(&path, Some(&report.hash)).expect("its end");
        let oldest = &report.files[0];
        let whole = lines(oldest);
        let text = whole.concat();
        for (changed, why) in [
            (text.replace("s.t1", "s.t9"), "was changed"),
            (whole[1..].concat(), "whole"),
            (whole[..whole.len() - 1].concat(), "is expected"),
            (whole.iter().rev().cloned().collect(), "is expected"),
            (format!("{text}x"), "cut short"),
            (format!("{text}{{}}\n"), "not a line of an audit log"),
            (format!("{text}{}", whole[0]), "is expected"),
        ] {
            std::fs::write(oldest, &changed).expect("written");
            match verify_audit(&path, None) {
                Err(told) => assert!(told.contains(why) && told.contains("audit.jsonl."), "{told}"),
                Ok(found) => assert_eq!((why, found.events), ("whole", 19), "the oldest may go"),
            }
        }
        std::fs::write(oldest, &text).expect("written");
        std::fs::remove_file(&path).expect("removed");
        verify_audit(&path, None).expect("a cut end does not show by itself");
        let told = verify_audit(&path, Some(&report.hash)).expect_err("cut");
        assert!(told.contains("the end was cut"), "{told}");
    }

    /// A collector that keeps the bodies of requests and answers with this status.
    #[cfg(feature = "http")]
    async fn collector(
        status: &'static str,
    ) -> (url::Url, tokio::sync::mpsc::Receiver<(String, Value)>) {
        use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("bound");
        let url = format!("http://{}/", listener.local_addr().expect("an address"));
        let (bodies, received) = tokio::sync::mpsc::channel(64);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let bodies = bodies.clone();
                tokio::spawn(async move {
                    let mut stream = tokio::io::BufReader::new(stream);
                    let mut first = String::new();
                    while stream.read_line(&mut first).await.is_ok_and(|read| read > 0) {
                        let (mut line, mut length) = (String::new(), 0);
                        while stream.read_line(&mut line).await.is_ok_and(|read| read > 2) {
                            if let Some((name, value)) = line.split_once(": ")
                                && name.eq_ignore_ascii_case("content-length")
                            {
                                length = value.trim().parse().expect("a length");
                            }
                            line.clear();
                        }
                        let mut body = vec![0; length];
                        stream.read_exact(&mut body).await.expect("a body");
                        let body = serde_json::from_slice(&body).expect("JSON");
                        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
                        let _ = bodies.send((path, body)).await;
                        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n");
                        stream.write_all(answer.as_bytes()).await.expect("answered");
                        first.clear();
                    }
                });
            }
        });
        (url.parse().expect("an address"), received)
    }

    #[cfg(feature = "http")]
    fn settings(url: &url::Url) -> crate::otlp::OtlpSettings {
        crate::otlp::OtlpSettings::new(url, crate::otlp::OtlpSignal::Logs).expect("settings")
    }

    #[cfg(feature = "http")]
    #[tokio::test]
    async fn each_line_is_exported_as_it_is_written_and_no_call_waits_for_the_collector() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("audit.jsonl");
        let (url, mut received) = collector("200 OK").await;
        let queue = OtlpQueue::to(settings(&url)).expect("a queue");
        let exported = log(&path).exported_to(Some(queue));
        let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let refused = AuditEvent { trace: Some(trace.to_owned()), ..event("s.bad") };
        exported.write(&refused).expect("written");
        let allowed = AuditEvent { allowed: true, ..event("s.good") };
        exported.write(&allowed).expect("written");
        AuditSink::flush(&exported).await;
        let mut records = Vec::new();
        while records.len() < 2 {
            let (path, body) = received.recv().await.expect("a request");
            assert_eq!(path, "/v1/logs");
            let logs = &body["resourceLogs"][0]["scopeLogs"][0]["logRecords"];
            records.extend(logs.as_array().expect("records").clone());
        }
        let bodies: Vec<String> = records
            .iter()
            .map(|record| format!("{}\n", record["body"]["stringValue"].as_str().expect("a line")))
            .collect();
        assert_eq!(bodies, lines(&path));
        assert_eq!(records[0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(records[0]["spanId"], "b7ad6b7169203331");
        assert_eq!(
            (&records[0]["severityText"], &records[1]["severityText"]),
            (&json!("WARN"), &json!("INFO"))
        );
        assert!(records[1].get("traceId").is_none(), "{}", records[1]);

        // One that is away, and one that refuses: the file has everything, and what is lost is counted.
        let nowhere = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let gone = format!("http://{}/", nowhere.local_addr().expect("an address"));
        drop(nowhere);
        let (refusing, _requests) = collector("400 Bad Request").await;
        for url in [gone.parse().expect("an address"), refusing] {
            let path = dir.path().join(format!("{}.jsonl", url.port().unwrap_or_default()));
            let queue = OtlpQueue::to(settings(&url)).expect("a queue");
            let exported = log(&path).exported_to(Some(queue.clone()));
            (0..6_000).for_each(|_| exported.write(&event("s.t")).expect("written"));
            assert!(queue.dropped() > 0, "the queue is full");
            // Each waits for a while, and on a busy machine longer is needed.
            while queue.dropped() < 6_000 {
                AuditSink::flush(&exported).await;
            }
            assert_eq!(verify_audit(&path, None).expect("whole").events, 6_000);
            assert_eq!(queue.dropped(), 6_000, "{url}");
        }
    }

    #[test]
    fn several_programs_write_one_chain() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("audit.jsonl");
        let filled = |keep| {
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    let path = &path;
                    scope.spawn(move || fill(&small(path, keep), 0..100));
                }
            });
            verify_audit(&path, None).expect("whole")
        };
        assert_eq!(filled(None).events, 400);
        // Files of others are removed as they fill up, and the chain goes on.
        assert_eq!(filled(Some(1)).last, 800);
        assert_eq!(filled(Some(0)).last, 1_200);
    }

    #[test]
    fn a_line_that_was_cut_short_is_mended_and_told_of() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("audit.jsonl");
        fill(&log(&path), 0..3);
        let mut text = std::fs::read_to_string(&path).expect("read");
        text.push_str("{\"seq\":4,\"event\":\"ca");
        std::fs::write(&path, text).expect("written");
        fill(&log(&path), 3..5);
        assert_eq!(verify_audit(&path, None).expect("whole").events, 6);
        let mut mended = Vec::new();
        read_audit(&path, &mut |event| mended.push(event)).expect("read");
        assert_eq!((&mended[3]["event"], &mended[3]["bytes"]), (&json!("mended"), &json!(20)));
    }

    #[test]
    fn a_file_that_vanishes_or_is_cut_while_it_is_written_shows() {
        for cut in [false, true] {
            let dir = tempfile::tempdir().expect("a folder");
            let path = dir.path().join("audit.jsonl");
            let writing = log(&path);
            fill(&writing, 0..3);
            if cut {
                let first = lines(&path).swap_remove(0);
                std::fs::write(&path, first).expect("cut");
            } else {
                std::fs::remove_file(&path).expect("removed");
            }
            fill(&writing, 3..5);
            let found = verify_audit(&path, None);
            if cut {
                let told = found.expect_err("a gap");
                assert!(told.contains("event 2 is expected, this is 4"), "{told}");
            } else {
                assert_eq!(found.expect("a chain").first, 4);
            }
        }
    }

    #[test]
    fn surplus_files_go_and_what_is_no_log_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("audit.jsonl");
        fill(&small(&path, Some(2)), 0..40);
        let report = verify_audit(&path, None).expect("whole");
        assert!(report.files.len() <= 3 && report.first > 1 && report.last == 40, "{report:?}");
        for content in ["{}\n", "precious\n"] {
            let other = dir.path().join("other");
            std::fs::write(&other, content).expect("written");
            let told = log(&other).write(&event("s.t")).expect_err("no log");
            assert!(told.contains("other: it is not a line of an audit log"), "{told}");
            assert_eq!(std::fs::read_to_string(&other).expect("there"), content);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_log_that_others_could_have_written_is_refused_until_it_is_not() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("audit.jsonl");
        let writing = log(&path);
        fill(&writing, 0..1);
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for how in ["link", "folder"] {
            let place = dir.path().join(how);
            match how {
                "link" => symlink(&path, &place).expect("linked"),
                _ => std::fs::create_dir(&place).expect("made"),
            }
            let log = log(&place);
            log.write(&event("s.t")).expect_err(how);
            let told = verify_audit(&place, None).expect_err(how);
            assert!(
                told.contains(if how == "link" { "it is a link" } else { "it is a folder" }),
                "{told}"
            );
            assert!(log.problem().is_some_and(|told| told.contains("so they are refused")));
            match how {
                "link" => std::fs::remove_file(&place).expect("removed"),
                _ => std::fs::remove_dir(&place).expect("removed"),
            }
            log.write(&event("s.t")).expect("a new file");
            assert_eq!(log.problem(), None);
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).expect("set");
        log(&path).write(&event("s.t")).expect_err("others may write it");
    }

    #[test]
    fn a_file_is_found_from_the_policy_that_names_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut env = Environment::of_process();
        env.cwd = dir.path().to_owned();
        env.home = Some(dir.path().join("home"));
        env.state_dir = Some(dir.path().join("state"));
        let place = AuditPlace::new(Some(Path::new("team/mcp.json")), &env);
        let found = |file: Option<&str>| {
            let audit = AuditConfig { file: file.map(str::to_owned), ..AuditConfig::default() };
            let config = host::PolicyConfig { audit: Some(audit), ..Default::default() };
            let source = Some("team/mcpdeck.policy.json".into());
            let policy = PolicyFile { config, source, ..PolicyFile::default() };
            place.of_policy(&policy).expect("asked for").expect("a place")
        };
        let below = |path: &str| dir.path().join(path);
        assert_eq!(found(Some("log/audit.jsonl")), below("team/log/audit.jsonl"));
        assert_eq!(found(Some("../audit.jsonl")), below("audit.jsonl"));
        assert_eq!(found(Some("~/audit.jsonl")), below("home/audit.jsonl"));
        assert_eq!(found(Some("/var/log/a")), Path::new("/var/log/a"));
        assert!(found(None).starts_with(below("state/audit")));
        assert_eq!(place.of_policy(&PolicyFile::default()), None);
    }
}
